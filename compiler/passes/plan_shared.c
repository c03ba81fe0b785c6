/* plan_shared.c - the swizzle of each shared buffer, and where it lies.
 *
 *   level    tile IR with register layouts
 *   does     gives each buffer the swizzle with the fewest bank conflicts, counted over the
 *            accesses that the program makes; places buffers so that those which are never alive
 *            together share bytes; refuses kernels that need more than the target has
 *   leaves   layout, offset and bytes of each buffer; fn->shared_bytes
 */
#include "compiler/passes/layout_infer.h"
#include "compiler/passes/shared_uses.h"
#include "compiler/passes/tir_util.h"

enum { BUFFER_ALIGN = 128, MATRIX_ROWS = 8 };

typedef struct Usage {
    TirShared *shared;
    int32_t rows, cols;     /* physical extents that some access needs */
    bool matrix;            /* read by ldmatrix */
    const Layout *layouts[8]; /* register layouts that are written from or read into */
    uint32_t n_layouts;
    uint32_t first, last;   /* positions in the program between which it is alive */
    bool used;
} Usage;

typedef struct Planner {
    PassContext *px;
    TirFn *fn;
    Usage *usage;
    uint32_t position;
} Planner;

/* Bytes of an element in a buffer; a bool takes a word. */
static int32_t
element_bytes(const TirShared *shared)
{
    return shared->dtype == DT_BOOL ? 4 : (int32_t)dtype_bits(shared->dtype) / 8;
}

static int32_t
round_up(int32_t n, int32_t to)
{
    return (n + to - 1) / to * to;
}

static void
need_layout(Usage *usage, const Layout *layout, bool transposed)
{
    if (layout == NULL)
        return;
    int32_t rows = layout->rank == 2 ? layout->shape[transposed ? 1 : 0] : 1;
    int32_t cols = layout->shape[layout->rank == 2 && !transposed ? 1 : 0];
    usage->rows = rows > usage->rows ? rows : usage->rows;
    usage->cols = cols > usage->cols ? cols : usage->cols;
    if (usage->n_layouts < 8 && !transposed)
        usage->layouts[usage->n_layouts++] = layout;
}

static void
touch(Usage *usage, uint32_t first, uint32_t last)
{
    if (!usage->used || first < usage->first)
        usage->first = first;
    if (!usage->used || last > usage->last)
        usage->last = last;
    usage->used = true;
}

static void
collect_op(Planner *p, const TirOp *op)
{
    SharedUse uses[MAX_SHARED_USES];
    uint32_t n = shared_uses(op, uses);

    for (uint32_t k = 0; k < n; k++) {
        Usage *usage = &p->usage[uses[k].shared->id];
        touch(usage, p->position, p->position);
        if (op->op == TIR_MMA)
            usage->matrix = true;
    }
    bool transposed;
    if (op->op == TIR_SHARED_WRITE)
        need_layout(&p->usage[op->shared->id], op->args[1]->layout, false);
    if (op->op == TIR_CONVERT) {
        const TirOp *read = view_source(op->args[0], &transposed);
        if (read != NULL)
            need_layout(&p->usage[read->shared->id], op->results[0]->layout, transposed);
        if (op->shared != NULL) {
            need_layout(&p->usage[op->shared->id], op->args[0]->layout, false);
            need_layout(&p->usage[op->shared->id], op->results[0]->layout, false);
        }
    }
}

/* Walks the program in order.  A buffer read in a loop, by a read made before the loop, stays
 * alive until the loop ends; a ring is alive over the whole loop. */
static void
collect_block(Planner *p, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        uint32_t first = ++p->position;
        collect_op(p, op);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            collect_block(p, op->blocks[k]);
        uint32_t last = ++p->position;
        if (op->op != TIR_FOR)
            continue;
        for (uint32_t k = 0; k < p->fn->shared.n; k++) {
            Usage *usage = &p->usage[k];
            bool inside = usage->used && usage->last >= first;
            bool from_before = usage->used && usage->first < first;
            if (inside && (from_before || usage->shared->slots > 1))
                touch(usage, first, last);
        }
    }
}

/* ---- swizzle ---- */

/* Extra passes of one warp's accesses to a buffer laid out like `layout`. */
static int32_t
count_conflicts(const Usage *usage, const SharedLayout *layout)
{
    int32_t total = 0, at[WARP_LANES];
    int32_t element = element_bytes(usage->shared);

    if (usage->matrix) {
        for (int32_t chunk = 0; chunk < layout->pitch / 16; chunk++) {
            for (int32_t row = 0; row < MATRIX_ROWS; row++)
                at[row] = shared_offset(layout, row, chunk * 16);
            total += shared_conflicts(at, MATRIX_ROWS, 16);
        }
    }
    for (uint32_t k = 0; k < usage->n_layouts; k++) {
        const Layout *regs = usage->layouts[k];
        uint32_t last = regs->rank - 1;
        int32_t run = 1;
        if (regs->reg.n > 0 && regs->reg.at[0].step[last] == 1)
            run = regs->reg.at[0].extent;
        while (run * element > 16)
            run /= 2;
        for (int32_t r = 0; r < layout_registers(regs) && r < 4 * run; r += run) {
            for (int32_t lane = 0; lane < WARP_LANES; lane++) {
                int32_t where[LAYOUT_RANK];
                layout_coordinates(regs, r, lane, 0, where);
                at[lane] = regs->rank == 2 ? shared_offset(layout, where[0], where[1] * element)
                                           : shared_offset(layout, 0, where[0] * element);
            }
            total += shared_conflicts(at, WARP_LANES, run * element);
        }
    }
    return total;
}

static void
choose_swizzle(Planner *p, Usage *usage)
{
    TirShared *shared = usage->shared;
    int32_t element = element_bytes(shared);
    int32_t cols = round_up(usage->cols, 16), rows = usage->rows;
    SharedLayout *best = arena_new(p->px->arena, SharedLayout);
    bool swizzle = pass_enabled(p->px, "swizzle");

    if (usage->matrix)
        rows = round_up(rows, 16);
    best->rows = rows;
    best->cols = cols;
    best->pitch = round_up(cols * element, 16);
    int32_t least = count_conflicts(usage, best);
    for (int32_t bits = 1; swizzle && bits <= 3; bits++) {
        for (int32_t shift = 0; shift <= 3; shift++) {
            SharedLayout trial = *best;
            trial.bits = bits;
            trial.shift = shift;
            if ((trial.pitch / 16) % (1 << bits) != 0)
                continue;
            int32_t conflicts = count_conflicts(usage, &trial);
            if (conflicts < least) {
                least = conflicts;
                *best = trial;
            }
        }
    }
    shared->layout = best;
    int32_t bytes = round_up(best->pitch * rows, BUFFER_ALIGN);
    shared->bytes = (uint32_t)bytes * shared->slots;
    if (p->px->report != NULL) {
        buf_printf(p->px->report, "shared %s: %u slots of %d bytes, ", shared->name, shared->slots,
                   bytes);
        shared_layout_print(best, p->px->report);
        buf_printf(p->px->report, ", bank conflicts %d\n", least);
    }
}

/* ---- places ---- */

static bool
overlap(const Usage *a, const Usage *b)
{
    return a->used && b->used && a->first <= b->last && b->first <= a->last;
}

static void
place_buffers(Planner *p)
{
    uint32_t n = p->fn->shared.n, total = 0;
    bool *placed = arena_array(p->px->arena, bool, n + 1);

    /* The largest first; each at the lowest offset that no buffer alive with it covers. */
    for (uint32_t round = 0; round < n; round++) {
        uint32_t pick = n;
        for (uint32_t k = 0; k < n; k++) {
            if (!placed[k] && (pick == n || p->fn->shared.at[k]->bytes >
                                                p->fn->shared.at[pick]->bytes))
                pick = k;
        }
        TirShared *shared = p->fn->shared.at[pick];
        uint32_t offset = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t k = 0; k < n; k++) {
                const TirShared *other = p->fn->shared.at[k];
                if (!placed[k] || !overlap(&p->usage[k], &p->usage[pick]))
                    continue;
                if (offset < other->offset + other->bytes && other->offset < offset + shared->bytes) {
                    offset = other->offset + other->bytes;
                    moved = true;
                }
            }
        }
        shared->offset = offset;
        placed[pick] = true;
        if (offset + shared->bytes > total)
            total = offset + shared->bytes;
    }
    p->fn->shared_bytes = total;
}

bool
pass_plan_shared(PassContext *px, TirFn *fn)
{
    Planner p = {.px = px, .fn = fn};

    p.usage = arena_array(px->arena, Usage, fn->shared.n + 1);
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        TirShared *shared = fn->shared.at[k];
        p.usage[k] = (Usage){.shared = shared, .rows = shared->rows, .cols = shared->cols};
    }
    collect_block(&p, fn->body);
    for (uint32_t k = 0; k < fn->shared.n; k++)
        choose_swizzle(&p, &p.usage[k]);
    place_buffers(&p);
    if (px->report != NULL)
        buf_printf(px->report, "shared memory: %u bytes\n", fn->shared_bytes);
    if (fn->shared_bytes > (uint32_t)px->target->shared_per_block) {
        diag_error(px->diag, fn->span,
                   "kernel '%s' needs %u bytes of shared memory, but %s gives a block %d; make its "
                   "tiles smaller or use fewer stages",
                   fn->name, fn->shared_bytes, px->target->name, px->target->shared_per_block);
        for (uint32_t k = 0; k < fn->shared.n; k++) {
            const TirShared *shared = fn->shared.at[k];
            diag_note(px->diag, fn->span, "'%s' takes %u bytes (%u x %d x %d)", shared->name,
                      shared->bytes, shared->slots, shared->rows, shared->cols);
        }
    }
    return true;
}
