/* kept_kernels.c - kernels with values for their `auto` parameters, made once. */
#include "compiler/choose/kept_kernels.h"

#include <string.h>

#include "compiler/choose/trial.h"
#include "compiler/passes/util/tir_clone.h"

enum {
    MOST_BYTES = 4 << 20 /* of all that is kept, for little memory; one kernel may take more */
};

/* Keeps a copy of the kernel that the front end has already made, if its values are those of a
 * sample. */
static void
keep_made(KeptKernels *kept)
{
    Arena *arena = kept->front.arena;
    const TirFn *fn = front_made(&kept->front, kept->kernel, &kept->open);

    if (fn != NULL) {
        TirFn there = *fn;
        there.arena = arena; /* where the copy is made */
        KeptKernel *made = &kept->at[kept->n++];
        *made = (KeptKernel){.fn = clone_kernel(&there)};
        for (uint32_t k = 0; k < MAX_AUTO; k++)
            made->values[k] = front_middling[0];
    }
    kept->top = arena_mark(arena);
}

void
kept_begin(KeptKernels *kept, const Front *front, PassContext *px, Arena *trials, const char *kernel)
{
    *kept = (KeptKernels){.front = *front, .px = px, .kernel = kernel};
    kept->front.arena = trials;
    arena_reset(trials);
    keep_made(kept);
}

/* Where the values are those of `choice`, or behind all that are kept. */
static KeptKernel *
find(KeptKernels *kept, const TileChoice *choice)
{
    KeptKernel *at = kept->at;
    size_t values = kept->open.asked < MAX_AUTO ? kept->open.asked : MAX_AUTO;

    while (at < kept->at + kept->n &&
           (memcmp(at->values, choice->values, values * sizeof *at->values) != 0 ||
            at->replaced != choice->replaced || at->replacement != choice->replacement))
        at++;
    return at;
}

/* Makes the front end's kernel for `choice`, which is kept. */
static KeptKernel *
make(KeptKernels *kept, const TileChoice *choice)
{
    Arena *arena = kept->front.arena;
    DiagMark before = diag_mark(kept->px->diag);

    if (kept->n == MOST_KEPT || arena_held(arena) > MOST_BYTES) {
        arena_reset(arena);
        kept->n = 0;
    }
    KeptKernel *made = &kept->at[kept->n++];
    *made = (KeptKernel){.replaced = choice->replaced, .replacement = choice->replacement};
    memcpy(made->values, choice->values, sizeof made->values);
    kept->open = (AutoTiles){0};
    made->fn = front_kernel(&kept->front, kept->kernel,
                            &(OpenValues){choice->values, choice->replaced, choice->replacement},
                            &kept->open);
    diag_rewind(kept->px->diag, before);
    kept->top = arena_mark(arena);
    return made;
}

/* The kernel for `choice`, kept or made now; what the trial before left is forgotten. */
static KeptKernel *
hold(KeptKernels *kept, const TileChoice *choice)
{
    arena_rewind(kept->front.arena, kept->top);
    KeptKernel *at = find(kept, choice);
    return at == kept->at + kept->n ? make(kept, choice) : at;
}

const TirFn *
kept_source(KeptKernels *kept, const TileChoice *choice)
{
    KeptKernel *at = hold(kept, choice);

    return at->formed ? make(kept, choice)->fn : at->fn;
}

const TirFn *
kept_sample(KeptKernels *kept)
{
    const TirFn *fn = NULL;

    for (uint32_t i = 0; i < FRONT_MIDDLING && fn == NULL; i++) {
        TileChoice middling = {0};
        for (uint32_t k = 0; k < MAX_AUTO; k++)
            middling.values[k] = front_middling[i];
        fn = kept_source(kept, &middling);
    }
    return fn;
}

bool
kept_is_right(KeptKernels *kept, const TileChoice *choice)
{
    return hold(kept, choice)->fn != NULL;
}

/* Runs the passes as far as `last`, whose results stay. */
static void
pass_by(KeptKernels *kept, KeptKernel *at, const PlanHints *plan, const char *last)
{
    Trial trial;

    trial_begin(&trial, kept->px, kept->front.arena);
    if (plan->consumers > 0)
        trial.px.plan = *plan;
    at->formed = true;
    at->failed = !passes_run_until(&trial.px, at->fn, &trial.run, last);
    trial_end(&trial);
    kept->top = arena_mark(kept->front.arena);
}

TirFn *
kept_formed(KeptKernels *kept, const TileChoice *choice)
{
    KeptKernel *at = hold(kept, choice);

    if (at->fn != NULL && !at->formed)
        pass_by(kept, at, &choice->plan, "form-products");
    return at->failed ? NULL : at->fn;
}

const TirFn *
kept_unplanned(KeptKernels *kept, const TileChoice *choice)
{
    KeptKernel *at = hold(kept, choice);

    if (at->fn != NULL && !at->failed && !at->unplanned) {
        pass_by(kept, at, &choice->plan, pass_table[pass_find("plan", strlen("plan")) - 1].name);
        at->unplanned = true;
    }
    return at->failed ? NULL : at->fn;
}

TirFn *
kept_copy(KeptKernels *kept, const TileChoice *choice)
{
    const TirFn *unplanned = kept_unplanned(kept, choice);

    return unplanned == NULL ? NULL : clone_kernel(unplanned);
}
