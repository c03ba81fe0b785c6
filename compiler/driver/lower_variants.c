/* lower_variants.c - the other forms of a kernel: chosen by estimated clocks, compiled under names
 * of their own. */
#include <string.h>

#include "compiler/choose/variants.h"
#include "compiler/driver/compilation.h"

static bool
name_is_free(const Compilation *c, const char *name)
{
    for (uint32_t k = 0; k < c->module->fns.n; k++)
        if (strcmp(c->module->fns.at[k]->name, name) == 0)
            return false;
    return true;
}

/* NAME_v1, or the next number that is free. */
static const char *
form_name(Compilation *c, const char *name, uint32_t *number)
{
    const char *made;

    do
        made = arena_printf(&c->arena, "%s_v%u", name, ++*number);
    while (!name_is_free(c, made));
    return made;
}

static bool
same_tensor(const TirTensor *a, const TirTensor *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->mode == b->mode &&
                a->rank == b->rank && a->atomic == b->atomic;

    for (uint32_t d = 0; d < a->rank && same; d++)
        same = a->dim[d].constant == b->dim[d].constant && a->dim[d].size == b->dim[d].size;
    return same;
}

static const char *
requirements(Arena *arena, const TirFn *fn)
{
    Buf text;

    buf_init(&text, arena);
    for (uint32_t k = 0; k < fn->requires.n; k++) {
        host_print(fn, fn->requires.at[k].condition, &text);
        buf_char(&text, '\n');
    }
    return buf_text(&text);
}

/* Whether callers need not know which of the two they launch; tile sizes may be part of a tensor's
 * shape. */
static bool
same_interface(Arena *arena, const TirFn *a, const TirFn *b)
{
    bool same = a->tensors.n == b->tensors.n && a->sizes.n == b->sizes.n &&
                strcmp(requirements(arena, a), requirements(arena, b)) == 0;

    for (uint32_t k = 0; k < a->tensors.n && same; k++)
        same = same_tensor(a->tensors.at[k], b->tensors.at[k]);
    return same;
}

/* Callers that align tensors for one form have done so for all. */
static void
align_alike(const KernelForm *forms, uint32_t n)
{
    for (uint32_t t = 0; t < forms[0].fn->tensors.n; t++) {
        uint32_t align = 0;
        for (uint32_t k = 0; k < n; k++)
            if (forms[k].fn->tensors.at[t]->align > align)
                align = forms[k].fn->tensors.at[t]->align;
        for (uint32_t k = 0; k < n; k++)
            forms[k].fn->tensors.at[t]->align = align;
    }
}

static bool
lower_form(Compilation *c, const TirFn *own, const PlanVariant *variant, const char *name,
           KernelForm *form)
{
    Mark mark = set_mark(c);
    TirFn *fn = tile_choice_kernel(&c->front, own->name, &variant->choice);

    if (fn == NULL || !same_interface(&c->arena, own, fn)) {
        go_back(c, mark);
        return false;
    }
    fn->name = name;
    LirFn *code = lower_one(c, fn, &variant->choice);
    if (code == NULL || (fn->plan == NULL && variant->choice.plan.consumers > 0)) {
        go_back(c, mark);
        return false;
    }
    *form = (KernelForm){fn, code, variant->cost};
    return true;
}

static void
report_forms(Compilation *c, const KernelForm *forms, uint32_t n)
{
    buf_printf(&c->report, "forms of kernel %s: a launch takes the one with the fewest clocks\n",
               forms[0].fn->name);
    for (uint32_t k = 0; k < n; k++) {
        const TirFn *fn = forms[k].fn;
        buf_printf(&c->report, "    %s", fn->name);
        for (uint32_t j = 0; j < fn->constants.n; j++)
            if (strcmp(fn->constants.at[j].value, forms[0].fn->constants.at[j].value) != 0 ||
                (k == 0 && n > 1 &&
                 strcmp(fn->constants.at[j].value, forms[1].fn->constants.at[j].value) != 0))
                buf_printf(&c->report, " %s=%s", fn->constants.at[j].name,
                           fn->constants.at[j].value);
        buf_printf(&c->report, " %s: ", fn->chosen_plan == NULL ? "" : fn->chosen_plan);
        host_print(fn, forms[k].cost, &c->report);
        buf_char(&c->report, '\n');
    }
}

void
lower_variants(Compilation *c, uint32_t k, LirFn *own)
{
    TirFn *fn = c->module->fns.at[k];
    PassContext px = compilation_context(c); /* without what was chosen for its own form */
    KernelForm *forms = arena_array(&c->arena, KernelForm, MOST_VARIANTS);
    uint32_t n = 1, number = 0;

    if (c->taken[k] == NULL || fn->hint_plan != NULL) {
        diag_remark(&c->diag, fn->span, "kernel '%s' has one form: %s", fn->name,
                    fn->hint_plan != NULL ? "its source pins the plan"
                                          : "no plan was chosen for it");
        forms[0] = (KernelForm){fn, own, fn->plan == NULL ? variant_clocks(&px, fn) : NULL};
        if (forms[0].cost != NULL)
            c->forms[k] = (KernelForms){forms, 1};
        return;
    }
    double begin = pass_clock();
    PlanVariants variants = plan_variants(&c->front, &px, &c->trials, fn->name, c->taken[k]);
    c->search_seconds += pass_clock() - begin;
    forms[0] = (KernelForm){fn, own, variants.n > 0 ? variants.at[0].cost : NULL};
    if (variants.n > 0) /* what it costs is worth knowing beside other kernels for the same */
        c->forms[k] = (KernelForms){forms, 1};
    if (variants.n < 2) {
        diag_remark(&c->diag, fn->span, "kernel '%s' has one form: %s", fn->name,
                    variants.why != NULL ? variants.why : "it is near the best for all sizes");
        return;
    }
    for (uint32_t j = 1; j < variants.n && c->bugs.n == 0; j++)
        n += lower_form(c, fn, &variants.at[j], form_name(c, fn->name, &number), &forms[n]);
    if (n < 2) {
        diag_remark(
            &c->diag, fn->span,
            "kernel '%s' has one form: others can not be compiled, or have other tensors or requirements",
            fn->name);
        return;
    }
    align_alike(forms, n);
    c->forms[k] = (KernelForms){forms, n};
    if (c->options->report)
        report_forms(c, forms, n);
}
