/* assign_layout.c - decide which thread holds which element of every tile.
 *
 *   level    tile IR, scheduled
 *   does     divides every mma among the warps (and chooses its orientation), propagates the
 *            layouts of the accumulators to the values computed from them, gives the other values
 *            blocked layouts, and inserts `convert` (for an operand of an mma: a write to a shared
 *            buffer) where a value is needed in another layout
 *   leaves   a layout on every tile in registers; mma ops with warps_m, warps_n, swap_ab
 *
 * Divisions are chosen by trial: layouts are inferred for each choice, whose cost is the number of
 * bytes through shared memory, for operands that products read and for conversions.  Products whose
 * results are combined element by element are decided together.
 */
#include <string.h>

#include "compiler/passes/layout/layout_infer.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* ---- choosing the division of products ---- */

enum { MAX_MMAS = 64, MAX_CHOICES = 16 };

typedef struct Choice {
    bool swap_ab;
    uint32_t warps_m, warps_n;
} Choice;

typedef struct Mma {
    TirOp *op;
    uint32_t cluster; /* index of the product that decides for this one */
    uint32_t loops;   /* around it */
} Mma;

/* A division of all products that was tried, and its cost. */
typedef struct Tried {
    Choice *of;   /* by product */
    int64_t cost; /* or a part of it that was not below the best one then .. */
    bool whole;   /* .. else */
} Tried;

typedef struct Chooser {
    LayoutPass *lp;
    Mma mmas[MAX_MMAS];
    uint32_t n;
    VEC(Tried) tried;
} Chooser;

static void
find_mmas(Chooser *c, TirBlock *block, uint32_t loops)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        if (op->op == TIR_MMA && c->n < MAX_MMAS) {
            c->mmas[c->n] = (Mma){op, c->n, loops};
            c->n++;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            find_mmas(c, op->blocks[k], loops + (op->op == TIR_FOR));
    }
}

/* The product whose result reaches `value` through elementwise operations; -1: none. */
static int32_t
mma_behind(const Chooser *c, const TirVal *value)
{
    for (TirInputs in = tir_inputs(c->lp->px->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        for (uint32_t i = 0; i < c->n; i++) {
            if (c->mmas[i].op == def)
                return (int32_t)i;
        }
        if (def != NULL && (tir_op_info(def->op)->flags & TF_ELEMENTWISE) != 0)
            tir_inputs_follow(&in);
    }
    return -1;
}

static void
join_clusters(Chooser *c, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 && op->results[0]->type.rank == 2) {
            int32_t first = -1;
            for (uint32_t k = 0; k < op->n_args; k++) {
                int32_t found = mma_behind(c, op->args[k]);
                if (found < 0)
                    continue;
                uint32_t root = c->mmas[found].cluster;
                if (first >= 0 && (uint32_t)first != root) {
                    for (uint32_t p = 0; p < c->n; p++) {
                        if (c->mmas[p].cluster == root)
                            c->mmas[p].cluster = (uint32_t)first;
                    }
                } else {
                    first = (int32_t)root;
                }
            }
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            join_clusters(c, op->blocks[k]);
    }
}

static void
apply_choice(Chooser *c, uint32_t cluster, Choice choice)
{
    for (uint32_t p = 0; p < c->n; p++) {
        if (c->mmas[p].cluster != cluster)
            continue;
        c->mmas[p].op->swap_ab = choice.swap_ab;
        c->mmas[p].op->warps_m = choice.warps_m;
        c->mmas[p].op->warps_n = choice.warps_n;
    }
}

/* What any layouts with the present division cost at least, of the products of one cluster or of
 * the others. */
static int64_t
least_cost(const Chooser *c, uint32_t cluster, bool others)
{
    int64_t least = 0;

    for (uint32_t p = 0; p < c->n; p++)
        if ((c->mmas[p].cluster != cluster) == others)
            least += layout_least_cost(c->lp, c->mmas[p].op, c->mmas[p].loops);
    return least;
}

/* All ways to divide `op` among the warps, without padding rows that need not be. */
static uint32_t
list_choices(const Chooser *c, const TirOp *op, Choice *out)
{
    uint32_t n = 0, warps = c->lp->fn->warps;

    for (uint32_t swap_ab = 0; swap_ab < 2; swap_ab++) {
        int32_t rows = op->results[0]->type.dim[swap_ab],
                cols = op->results[0]->type.dim[1 - swap_ab];
        uint32_t atoms_m = (uint32_t)(rows + MMA_ROWS - 1) / MMA_ROWS;
        uint32_t atoms_n = (uint32_t)(cols + MMA_COLS - 1) / MMA_COLS;
        for (uint32_t wm = warps; wm >= 1; wm /= 2) {
            if (atoms_m % wm != 0)
                continue;
            uint32_t wn = warps / wm;
            while (wn > 1 && atoms_n % wn != 0)
                wn /= 2;
            if (n < MAX_CHOICES)
                out[n++] = (Choice){swap_ab != 0, wm, wn};
        }
    }
    return n;
}

static bool
is_present(const Chooser *c, const Choice *of)
{
    for (uint32_t p = 0; p < c->n; p++) {
        const TirOp *op = c->mmas[p].op;
        if (of[p].swap_ab != op->swap_ab || of[p].warps_m != op->warps_m ||
            of[p].warps_n != op->warps_n)
            return false;
    }
    return true;
}

/* The cost of the present division, or any cost that is not below `enough`; the layouts need not
 * be those of it afterwards. */
static int64_t
present_cost(Chooser *c, int64_t enough)
{
    for (uint32_t k = c->tried.n; k-- > 0;) { /* most often one of the last */
        const Tried *had = &c->tried.at[k];
        if ((had->whole || had->cost >= enough) && is_present(c, had->of))
            return had->cost;
    }
    layout_begin(c->lp);
    Tried tried = {arena_array(c->lp->px->arena, Choice, c->n + 1), layout_cost(c->lp, enough),
                   false};
    tried.whole = tried.cost < enough;
    for (uint32_t p = 0; p < c->n; p++) {
        const TirOp *op = c->mmas[p].op;
        tried.of[p] = (Choice){op->swap_ab, op->warps_m, op->warps_n};
    }
    vec_push(c->lp->px->arena, &c->tried, tried);
    return tried.cost;
}

/* Takes the best choice for one cluster, the first of several as good; the present one, if none is
 * better.  Tried are those first that may be cheapest.  Whether one is better than `*best`. */
static bool
improve(Chooser *c, uint32_t cluster, int64_t *best)
{
    const TirOp *op = c->mmas[cluster].op;
    Choice choices[MAX_CHOICES], kept = {op->swap_ab, op->warps_m, op->warps_n};
    int64_t least[MAX_CHOICES], beside = least_cost(c, cluster, true);
    uint32_t n = list_choices(c, op, choices), taken = n;
    bool done[MAX_CHOICES] = {false};

    for (uint32_t k = 0; k < n; k++) {
        apply_choice(c, cluster, choices[k]);
        least[k] = beside + least_cost(c, cluster, false);
    }
    for (;;) {
        uint32_t next = n;
        for (uint32_t k = 0; k < n; k++)
            if (!done[k] && (next == n || least[k] < least[next]))
                next = k;
        int64_t enough = *best + (next < taken && taken < n); /* an earlier one as good is better */
        if (next == n || least[next] >= enough)
            break;
        done[next] = true;
        apply_choice(c, cluster, choices[next]);
        int64_t cost = present_cost(c, enough);
        if (cost < enough) {
            *best = cost;
            taken = next;
        }
    }
    apply_choice(c, cluster, taken < n ? choices[taken] : kept);
    return taken < n;
}

/* Infers layouts with tiles of tensor memory either way, and keeps what takes fewer
 * instructions. */
static void
infer_with_tmem(LayoutPass *lp)
{
    layout_infer(lp);
    if (!tir_has_issuer(lp->fn->plan))
        return;
    int64_t shared = layout_cost(lp, INT64_MAX), instructions = layout_instructions(lp);
    lp->tmem_rows = true;
    layout_infer(lp);
    if (layout_cost(lp, INT64_MAX) <= shared && layout_instructions(lp) < instructions)
        return;
    lp->tmem_rows = false;
    layout_infer(lp);
}

static void
choose_divisions(LayoutPass *lp)
{
    Chooser *c = arena_new(lp->px->arena, Chooser);

    c->lp = lp;
    find_mmas(c, lp->fn->body, 0);
    if (lp->fn->plan != NULL) { /* a warp group's product is divided by the instruction */
        for (uint32_t p = 0; p < c->n; p++) {
            c->mmas[p].op->warps_m = lp->fn->warps;
            c->mmas[p].op->warps_n = 1;
        }
        infer_with_tmem(lp);
        return;
    }
    if (c->n == 0) {
        layout_infer(lp);
        return;
    }
    join_clusters(c, lp->fn->body);
    for (uint32_t p = 0; p < c->n; p++) {
        Choice choices[MAX_CHOICES];
        list_choices(c, c->mmas[p].op, choices);
        if (c->mmas[p].cluster == p)
            apply_choice(c, p, choices[0]);
    }
    /* Coordinate descent from "rows over warps": change one cluster at a time while it pays. */
    int64_t best = present_cost(c, INT64_MAX);
    bool improved = true;
    for (uint32_t round = 0; improved && round < 4; round++) {
        improved = false;
        for (uint32_t p = 0; p < c->n; p++)
            if (c->mmas[p].cluster == p)
                improved |= improve(c, p, &best);
    }
    if (!is_present(
            c, c->tried.at[c->tried.n - 1].of)) /* the last one that layouts were inferred for */
        layout_begin(lp);
    layout_infer_rest(lp);
}

/* ---- inserting conversions ---- */

typedef VEC(TirOp *) OpList;

/* A value that was written to a shared buffer for some product, and the read of it. */
typedef struct Written {
    const TirVal *value;
    TirVal *read;
} Written;

typedef struct Inserter {
    LayoutPass *lp;
    VEC(Written) written; /* in this block */
    OpList *out;          /* operations of the block so far */
    TirBlock *block;
} Inserter;

static TirOp *
insert_op(Inserter *in, TirOpcode opcode, uint32_t n_args, TirVal *const *args, uint32_t n_results,
          const TirType *types, Span span)
{
    TirBlock *scratch = tir_block_new(in->lp->fn);
    TirBuilder b = {.fn = in->lp->fn, .block = scratch, .at = -1, .span = span};
    TirOp *op = tir_op_new(&b, opcode, n_args, args, n_results, types);
    move_op(in->lp->px->arena, op, in->block, in->out);
    return op;
}

static TirVal *demand(Inserter *in, TirVal *value, const Layout *want, Span span);

/* A copy of a cheap operation whose result has layout `want`. */
static TirVal *
clone_with_layout(Inserter *in, TirVal *value, const Layout *want)
{
    TirOp *def = value->def;
    TirVal **args = arena_array(in->lp->px->arena, TirVal *, def->n_args + 1);

    for (uint32_t k = 0; k < def->n_args; k++) {
        const Layout *need = layout_of_operand(in->lp, def, k, want);
        args[k] = need == NULL ? def->args[k] : demand(in, def->args[k], need, def->span);
    }
    TirOp *op = insert_op(in, def->op, def->n_args, args, 1, &value->type, def->span);
    op->number = def->number;
    op->integer = def->integer;
    op->axis = def->axis;
    op->segments = def->segments;
    op->index[0] = def->index[0]; /* an iota's; loads are not cheap */
    op->results[0]->name = value->name;
    op->results[0]->layout = want;
    return op->results[0];
}

/* Whether a value is read where that stands, not where it is used: a vector, before a wait for a
 * product of the mma role. */
static bool
is_read_early(const Inserter *in, const TirVal *value)
{
    const TirOp *read = value->def;

    return read != NULL && read->op == TIR_SHARED_READ && read->parent == in->block &&
           read->shared->kind == SHARED_VECTORS && in->lp->fn->plan != NULL &&
           tir_has_issuer(in->lp->fn->plan);
}

/* Moves the last operation so far behind `earlier`. */
static void
put_behind(Inserter *in, const TirOp *earlier)
{
    OpList *out = in->out;
    TirOp *op = out->at[out->n - 1];
    uint32_t at = out->n - 1;

    for (; at > 0 && out->at[at - 1] != earlier; at--)
        out->at[at] = out->at[at - 1];
    out->at[at] = op;
}

/* `value` in layout `want`: itself, a cheap copy, or a conversion. */
static TirVal *
demand(Inserter *in, TirVal *value, const Layout *want, Span span)
{
    if (value->type.rank == 0 || layout_eq(value->layout, want))
        return value;
    if (layout_is_cheap(in->lp, value))
        return clone_with_layout(in, value, want);
    TirOp *op = insert_op(in, TIR_CONVERT, 1, &value, 1, &value->type, span);
    op->results[0]->layout = want;
    op->results[0]->name = value->name;
    if (is_read_early(in, value))
        put_behind(in, value->def);
    LayoutStore *store = &in->lp->store;
    if (!layout_is_view(value) && !stored_in_place(store, value->layout, want) &&
        (dtype_kind(value->type.dtype) == KIND_BOOL ||
         !stored_one_exchange(store, value->layout, want, value->type.dtype))) {
        const char *name = value->name != NULL ? value->name : "convert";
        op->shared = tir_buffer_new(in->lp->fn, SHARED_TILE, name, value->type, 1);
    }
    return op->results[0];
}

/* An operand of an mma that lies in registers of the wrong threads: through shared memory, in its
 * own orientation (a transpose costs nothing when it is read back). */
static TirVal *
operand_through_shared(Inserter *in, TirVal *value, Span span)
{
    Arena *arena = in->lp->px->arena;
    bool transposed = false;

    while (value->def != NULL && value->def->op == TIR_TRANSPOSE) {
        transposed = !transposed;
        value = value->def->args[0];
    }
    TirVal *again = NULL;
    for (uint32_t k = 0; k < in->written.n; k++) {
        if (in->written.at[k].value == value)
            again = in->written.at[k].read;
    }
    if (again != NULL && !transposed)
        return again;
    TirType turned = tir_tile2(value->type.dtype, value->type.dim[1], value->type.dim[0]);
    if (again != NULL)
        return insert_op(in, TIR_TRANSPOSE, 1, &again, 1, &turned, span)->results[0];
    if (value->layout == NULL) /* computed from nothing that has a layout yet */
        value = demand(in, value, layout_default(in->lp, value->type), span);
    const char *name = value->name != NULL ? value->name : "operand";
    TirShared *shared = tir_buffer_new(in->lp->fn, SHARED_TILE, name, value->type, 1);
    TirType i32 = tir_scalar(DT_I32);
    TirVal *stage = insert_op(in, TIR_CONST, 0, NULL, 1, &i32, span)->results[0];
    TirVal *args[] = {stage, value};
    insert_op(in, TIR_SHARED_WRITE, 2, args, 0, NULL, span)->shared = shared;
    TirOp *read = insert_op(in, TIR_SHARED_READ, 1, &stage, 1, &value->type, span);
    read->shared = shared;
    Written written = {value, read->results[0]};
    vec_push(arena, &in->written, written);
    if (!transposed)
        return read->results[0];
    return insert_op(in, TIR_TRANSPOSE, 1, &read->results[0], 1, &turned, span)->results[0];
}

/* A value to be stored, with neighbours' elements exchanged until each thread's runs have 16
 * bytes. */
static TirVal *
widen_runs(Inserter *in, const TirOp *store, TirVal *value)
{
    uint32_t last = value->type.rank - 1;
    int32_t bytes = (int32_t)dtype_bits(value->type.dtype) / 8;

    if (value->type.rank != 2 || value->layout == NULL || bytes < 2 || layout_is_view(value) ||
        in->lp->fn->plan == NULL || !switch_is_on(in->lp->px, "stage-output") ||
        !tir_is_contiguous(store))
        return value;
    while (value->layout->reg.n > 0 && value->layout->reg.at[0].extent * bytes < 16) {
        const Layout *wide = stored_widen(&in->lp->store, value->layout, last);
        if (wide == NULL)
            break;
        value = demand(in, value, wide, store->span);
    }
    return value;
}

/* A value to be added to memory, exchanged between lanes until it lies well for that. */
static TirVal *
lengthen_runs(Inserter *in, const TirOp *add, TirVal *value)
{
    const Layout *next = value->layout;

    while (next != NULL && !layout_is_view(value)) {
        value = demand(in, value, next, add->span);
        next = layout_next_for_additions(in->lp, value, next);
    }
    return value;
}

static void insert_block(LayoutPass *lp, TirBlock *block);

static void
insert_for_op(Inserter *in, TirOp *op)
{
    LayoutPass *lp = in->lp;

    for (uint32_t i = 0; i < op->n_args; i++) {
        /* what is written first: places lie as it does */
        uint32_t k = tir_writes(op) ? op->n_args - 1 - i : i;
        TirVal *value = op->args[k];
        if (value->type.rank == 0)
            continue;
        if (op->op == TIR_MMA && k < 2) {
            bool fits = layout_operand_fits(lp, op, k), turned = !layout_may_be_read(lp, op, k);
            if (turned && !fits && !layout_is_cheap(lp, value))
                diag_remark(
                    lp->px->diag, op->span,
                    "an operand of %s lies across the inner dimension, where products read it along "
                    "that: its elements are loaded from shared memory one by one",
                    dtype_name(value->type.dtype));
            /* what a warp group computes for its product stays in registers: nothing orders writes
             * before its reads */
            if (layout_is_cheap(lp, value) || ((op->async || turned) && !fits))
                op->args[k] = demand(in, value, layout_of_mma_operand(lp, op, k), op->span);
            else if (!fits)
                op->args[k] = operand_through_shared(in, value, op->span);
            continue;
        }
        const Layout *need = layout_required(lp, op, k);
        if (need != NULL)
            op->args[k] = demand(in, value, need, op->span);
        if (op->op == TIR_STORE && i == 0)
            op->args[k] = widen_runs(in, op, op->args[k]);
        else if (op->op == TIR_ATOMIC_ADD && i == 0)
            op->args[k] = lengthen_runs(in, op, op->args[k]);
    }
}

static void
insert_block(LayoutPass *lp, TirBlock *block)
{
    OpList out = {0};
    Inserter in = {.lp = lp, .out = &out, .block = block};
    OpList before = {0};

    before.at = arena_copy(lp->px->arena, block->ops.at, block->ops.n * sizeof *before.at);
    before.n = block->ops.n;
    for (uint32_t i = 0; i < before.n; i++) {
        TirOp *op = before.at[i];
        insert_for_op(&in, op);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            insert_block(lp, op->blocks[k]);
        vec_push(lp->px->arena, &out, op);
    }
    block->ops.at = out.at;
    block->ops.n = out.n;
    block->ops.cap = out.cap;
}

/* ---- reductions and votes ---- */

/* Whether a block may be run by some warps alone: nothing in it waits for or is seen by others. */
static bool
is_private(const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        switch (op->op) {
        case TIR_BARRIER:
        case TIR_COPY_ASYNC:
        case TIR_ASYNC_COMMIT:
        case TIR_ASYNC_WAIT:
        case TIR_SHARED_WRITE:
        case TIR_STORE:
        case TIR_TMA_STORE:
        case TIR_ATOMIC_MAX:
        case TIR_ATOMIC_MIN:
        case TIR_ATOMIC_ADD: return false;
        default: break;
        }
        if (tir_exchanges(op) && (op->shared != NULL || op->results[0]->type.rank == 0))
            return false;
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (!is_private(op->blocks[k]))
                return false;
        }
    }
    return true;
}

/* Marks the rows that a warp holds: `row`, moved by the digits of registers and lanes from number
 * `digit` on. */
static void
mark_rows(const Layout *layout, uint32_t digit, int32_t row, bool *held)
{
    if (digit == layout->reg.n + layout->lane.n) {
        held[row] = true;
        return;
    }
    const LayoutDigit *d = digit < layout->reg.n ? &layout->reg.at[digit]
                                                 : &layout->lane.at[digit - layout->reg.n];
    for (int32_t k = 0; k < (d->step[0] == 0 ? 1 : d->extent); k++)
        mark_rows(layout, digit + 1, row + k * d->step[0], held);
}

/* Whether every warp holds the same rows of both layouts. */
static bool
same_rows(Arena *arena, const Layout *a, const Layout *b)
{
    const Layout *layouts[2] = {a, b};
    size_t n = (size_t)(a->shape[0] > b->shape[0] ? a->shape[0] : b->shape[0]);
    bool *held[2] = {arena_array(arena, bool, n), arena_array(arena, bool, n)};

    if (layout_warps(a) != layout_warps(b))
        return false;
    for (int32_t warp = 0; warp < layout_warps(a); warp++) {
        for (uint32_t k = 0; k < 2; k++) {
            int32_t first[LAYOUT_RANK];
            layout_coordinates(layouts[k], 0, 0, warp, first);
            memset(held[k], 0, n * sizeof(bool));
            mark_rows(layouts[k], 0, first[0], held[k]);
        }
        if (memcmp(held[0], held[1], n * sizeof(bool)) != 0)
            return false;
    }
    return true;
}

/* Whether each warp may decide a vote by itself: the vote only guards branches that rows may take
 * by themselves, and whose results are the voted rows, each in one warp.  The vote may have come
 * through loops; `value` is its name here. */
static bool
guards_private(Arena *arena, const TirBlock *root, const TirBlock *block, const TirVal *vote,
               const TirVal *value, uint32_t depth)
{
    const TirVal *voted = vote->def->args[0];

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            /* that asks when, not what */
            if (op->args[k] != value || op->op == TIR_CONSUMER_RELEASE)
                continue;
            const TirOp *loop = op->op == TIR_YIELD ? block->owner : op;
            if (loop != NULL && loop->op == TIR_FOR && depth < 4) {
                uint32_t at = op->op == TIR_YIELD ? k : k - loop_first_initial(loop);
                const TirVal *param = loop->blocks[0]->params.at[at + 1];
                if (op->op == TIR_FOR && k < loop_first_initial(loop))
                    return false;
                if (!guards_private(arena, root, root, vote, param, depth + 1) ||
                    !guards_private(arena, root, root, vote, loop->results[at], depth + 1))
                    return false;
                continue;
            }
            if (op->op != TIR_IF || !op->by_rows || vote->def->reduce != REDUCE_ANY ||
                !is_private(op->blocks[0]) || !is_private(op->blocks[1]))
                return false;
            for (uint32_t r = 0; r < op->n_results; r++) {
                const Layout *layout = op->results[r]->layout;
                if (layout == NULL || layout_copies_warps(layout) || voted->layout == NULL ||
                    op->results[r]->type.dim[0] != voted->type.dim[0] ||
                    !same_rows(arena, voted->layout, layout))
                    return false;
            }
        }
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (!guards_private(arena, root, op->blocks[k], vote, value, depth))
                return false;
        }
    }
    return true;
}

/* Words of each thread in the buffer of an operation along an axis: one for each register of a
 * reduction's result, and of a scan for each run of registers that ends where the next warp's
 * begins. */
static int32_t
words_along(const TirOp *op)
{
    const Layout *layout = op->results[0]->layout;
    int32_t words = 1, warp = INT32_MAX;

    if (tir_axis_use(op) != AXIS_SCANS)
        return op->results[0]->type.rank == 0 ? 1 : layout_registers(layout);
    for (uint32_t d = 0; d < layout->warp.n; d++) {
        int32_t step = layout->warp.at[d].step[op->axis];
        warp = step != 0 && step < warp ? step : warp;
    }
    for (uint32_t d = 0; d < layout->reg.n; d++) {
        int32_t step = layout->reg.at[d].step[op->axis];
        words *= step == 0 || step > warp ? layout->reg.at[d].extent : 1;
    }
    /* of tuples their parts, and whether there is anything */
    return tir_combines_tuples(op) ? words * (int32_t)op->n_args : words;
}

/* Whether it is made with another operation, or of what its threads have. */
static bool
needs_no_buffer(const TirOp *op)
{
    return tir_is_vote(op) || tir_reduces_totals(op) ||
           (tir_combines_tuples(op) && tir_first_of_tuples(op) != op);
}

/* Whether warps hand on what it makes, through a buffer. */
static bool
crosses_warps(const LayoutPass *lp, const TirOp *op)
{
    if (tir_fetches(op))
        return lp->fn->warps > 1;
    return tir_combines(op) && !needs_no_buffer(op) &&
           layout_crosses_warps(op->args[0]->layout, op_part(op));
}

static void
finish_reductions(LayoutPass *lp, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            finish_reductions(lp, op->blocks[k]);
        if (!crosses_warps(lp, op))
            continue;
        TirType words = tir_tile2(DT_F32, (int32_t)lp->fn->warps, WARP_LANES * words_along(op));
        op->shared = tir_buffer_new(lp->fn, SHARED_TILE, tir_op_info(op->op)->text, words, 1);
    }
}

static void
finish_votes(LayoutPass *lp, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            finish_votes(lp, op->blocks[k]);
        if (tir_is_vote(op))
            op->vote_warp = guards_private(lp->px->arena, lp->fn->body, lp->fn->body,
                                           op->results[0], op->results[0], 0);
    }
}

/* Layouts have two axes: a tile with more is refused.  Whether there was none. */
static bool
only_two_axes(PassContext *px, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_results; k++) {
            if (op->results[k]->type.rank <= LAYOUT_RANK)
                continue;
            diag_error(px->diag, op->span,
                       "E-LARGE: a tile of %u dimensions: code is made for at most %d so far",
                       op->results[k]->type.rank, LAYOUT_RANK);
            return false;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (!only_two_axes(px, op->blocks[k]))
                return false;
        }
    }
    return true;
}

/* The reduce role reads results in tensor memory a row in each thread: fewest instructions add them
 * to memory. */
static void
set_added_rows(LayoutPass *lp, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        TirVal *result = op->n_results > 0 ? op->results[0] : NULL;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            set_added_rows(lp, op->blocks[k]);
        if (op->op == TIR_TMEM_READ || op->op == TIR_PAIR_SUM ||
            (op->op == TIR_PAIR_SEND && result != NULL))
            result->layout = layout_rows(lp->px->arena, result->type.dim[1],
                                         tir_adding_warps(lp->fn->plan));
        else if (op->op == TIR_TRANSPOSE)
            result->layout = stored_transpose(&lp->store, op->args[0]->layout);
    }
}

/* All of that for the program of a role, in the kernel's body. */
static void
assign_program(PassContext *px, TirFn *fn)
{
    LayoutPass lp = layout_pass(px, fn);

    choose_divisions(&lp);
    insert_block(&lp, fn->body);
    finish_reductions(&lp, fn->body);
    finish_votes(&lp, fn->body);
}

bool
pass_assign_layout(PassContext *px, TirFn *fn)
{
    if (!only_two_axes(px, fn->body))
        return false;
    if (fn->warps == 0) { /* by --run-pass, or tile IR written by hand */
        diag_error(
            px->diag, fn->span,
            "E-PASS: kernel '%s' has no number of warps yet: run the pass 'schedule' first, or say "
            "'warps 4'",
            fn->name);
        return false;
    }
    assign_program(px, fn);
    if (fn->plan != NULL && tir_role(fn->plan, ROLE_CORRECTION) != NULL) {
        TirBlock *body = fn->body;
        fn->body = tir_program(fn->plan, ROLE_CORRECTION);
        assign_program(px, fn);
        fn->body = body;
    }
    if (fn->plan != NULL && tir_adding_warps(fn->plan) > 0) {
        LayoutPass lp = layout_pass(px, fn);
        set_added_rows(&lp, tir_program(fn->plan, ROLE_REDUCE));
    }
    return true;
}
