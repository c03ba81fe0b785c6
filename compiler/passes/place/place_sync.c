/* place_sync.c - barriers between conflicting uses of shared memory.
 *
 *   level    tile IR, buffers placed
 *   does     walks over the program with the sets of buffers read and written since the last
 *            barrier, and inserts a barrier before an operation that writes bytes which others may
 *            still read, or touches bytes which others may still write.  A loop is walked twice,
 *            the second time with the sets that the first left; so is the program of warp groups
 *            that go from tile to tile.
 *   leaves   barrier operations
 *
 * Stages of one pipeline are kept apart by the schedule and are not looked at here.
 */
#include "compiler/passes/place/place_sync.h"

#include <string.h>

#include "compiler/passes/pass.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

typedef VEC(TirOp *) OpList;

enum { OPEN_BUFFERS = 64 }; /* bits of a set */

/* Buffers touched since the last barrier, as bits by id. */
typedef struct Open {
    uint64_t read, written;
} Open;

typedef struct Syncer {
    Arena *arena;
    TirFn *fn;
    bool looks;           /* .. for what is missing, and places nothing */
    const TirOp *missing; /* the first operation that has no barrier in front of it */
    bool changed;
} Syncer;

static bool
conflicts(const Syncer *s, uint64_t open, const TirShared *shared, bool is_pipeline)
{
    for (uint32_t k = 0; k < s->fn->shared.n && k < OPEN_BUFFERS; k++) {
        const TirShared *other = s->fn->shared.at[k];
        if ((open >> k & 1) == 0 || (other == shared && is_pipeline))
            continue;
        if (other->offset < shared->offset + shared->bytes &&
            shared->offset < other->offset + other->bytes)
            return true;
    }
    return false;
}

static void sync_block(Syncer *s, TirBlock *block, Open *open);

static void
put_barrier(Syncer *s, const TirOp *before, Open *open, OpList *out)
{
    *open = (Open){0};
    s->missing = s->missing == NULL ? before : s->missing;
    if (s->looks)
        return;
    vec_push(s->arena, out, barrier_before(s->fn, before));
    s->changed = true;
}

static void
sync_op(Syncer *s, TirOp *op, Open *open, OpList *out)
{
    SharedUse uses[MAX_SHARED_USES];
    uint32_t n = shared_uses(op, uses);
    bool needed = false;

    if (op->op == TIR_BARRIER)
        *open = (Open){0};
    for (uint32_t k = 0; k < n; k++) {
        if (conflicts(s, open->written, uses[k].shared, uses[k].is_pipeline))
            needed = true;
        if (uses[k].writes && conflicts(s, open->read, uses[k].shared, uses[k].is_pipeline))
            needed = true;
    }
    if (needed)
        put_barrier(s, op, open, out);
    for (uint32_t k = 0; k < n; k++) {
        uint64_t bit = (uint64_t)1 << uses[k].shared->id;
        /* A conversion synchronises between its own write and read: what stays open is the read.
         * Copies are waited for by the schedule's own barriers. */
        if (uses[k].reads)
            open->read |= bit;
        else if (op->op != TIR_COPY_ASYNC)
            open->written |= bit;
    }
}

/* Buffers that products in `block` read and `body` does not fill: the lowering may load such an
 * operand before the loop, for all its iterations, if there are any. */
static uint64_t
read_ahead(const TirBlock *block, const TirBlock *body)
{
    uint64_t bits = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; op->op == TIR_MMA && k < 2; k++) {
            bool transposed;
            const TirOp *read = view_source(op->args[k], &transposed);
            if (read != NULL && !tir_is_inside(read->parent, body))
                bits |= (uint64_t)1 << read->shared->id;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            bits |= read_ahead(op->blocks[k], body);
    }
    return bits;
}

/* Walks a loop twice.  Buffers that products in it may read before the loop count as read at its
 * beginning, so later writes to them need a barrier. */
static void
sync_loop(Syncer *s, TirOp *loop, Open *open, OpList *out)
{
    TirBlock *body = loop->blocks[0];
    uint64_t ahead = read_ahead(body, body);

    for (uint32_t k = 0; k < s->fn->shared.n; k++) {
        if ((ahead >> k & 1) != 0 && conflicts(s, open->written, s->fn->shared.at[k], false)) {
            put_barrier(s, loop, open, out);
            break;
        }
    }
    Open entry = {open->read | ahead, open->written};
    sync_block(s, body, open);
    open->read |= entry.read;
    open->written |= entry.written;
    sync_block(s, body, open);
    open->read |= entry.read; /* the loop may run no iteration */
    open->written |= entry.written;
}

static void
sync_block(Syncer *s, TirBlock *block, Open *open)
{
    OpList out = {0}, before = {0};

    before.at = arena_copy(s->arena, block->ops.at, block->ops.n * sizeof *before.at);
    before.n = block->ops.n;
    for (uint32_t i = 0; i < before.n; i++) {
        TirOp *op = before.at[i];
        if (op->op == TIR_FOR) {
            sync_loop(s, op, open, &out);
        } else if (op->op == TIR_IF) {
            Open yes = *open, no = *open;
            sync_block(s, op->blocks[0], &yes);
            sync_block(s, op->blocks[1], &no);
            *open = (Open){yes.read | no.read, yes.written | no.written};
        } else {
            sync_op(s, op, open, &out);
        }
        vec_push(s->arena, &out, op);
    }
    if (s->looks)
        return;
    block->ops.at = out.at;
    block->ops.n = out.n;
    block->ops.cap = out.cap;
}

static void
sync_program(Syncer *s)
{
    Open open = {0};

    sync_block(s, s->fn->body, &open);
    if (s->fn->plan != NULL &&
        tir_is_persistent(s->fn->plan)) /* the next tile follows the last one at once */
        sync_block(s, s->fn->body, &open);
}

bool
sync_is_missing(PassContext *px, TirFn *fn)
{
    Syncer s = {.arena = px->scratch != NULL ? px->scratch : px->arena, .fn = fn, .looks = true};
    ArenaMark mark = arena_mark(s.arena);

    sync_program(&s);
    arena_rewind(s.arena, mark);
    if (s.missing == NULL)
        return false;
    buf_printf(px->bugs,
               "check-roles: kernel '%s': there is no barrier in front of what others may use\n",
               fn->name);
    buf_add(px->bugs, "        ");
    tir_print_op(fn, s.missing, px->bugs);
    buf_char(px->bugs, '\n');
    return true;
}

bool
pass_place_sync(PassContext *px, TirFn *fn)
{
    Syncer s = {.arena = fn->arena, .fn = fn};

    if (fn->shared.n > OPEN_BUFFERS) {
        diag_error(
            px->diag, fn->span,
            "E-SHARED: kernel '%s' needs %u shared buffers; %d are supported: make two kernels of it",
            fn->name, fn->shared.n, OPEN_BUFFERS);
        return false;
    }
    sync_program(&s);
    return s.changed;
}
