/* flow.c - follows products through tile arithmetic.
 *
 * Every value knows of which products it is made: element by element (`same`), element by element
 * of their transposes (`transposed`), or as a row or column of statistics (`along`).  A walk in the
 * order of the program spreads that; loops are walked until nothing changes.  From it follow
 *
 *   - what is divided alike: products whose results meet element by element, or meet statistics of
 *     one another (the maximum of the scores scales the output: both have the same rows)
 *   - what is alive together: fresh results that meet element by element
 *   - along which dimension a result is reduced: that one stays within a thread and its neighbours
 *
 * and products that are fed in the same way (the same side, the same turn, of the same division)
 * share a division, too, to keep the number of plans small.
 */
#include "compiler/cost/flow.h"

#include <string.h>

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

enum { MOST_ROUNDS = 32 };

typedef uint32_t Mmas; /* a set: bit i is product i */

typedef struct Origin {
    Mmas same, transposed;
    Mmas along[2];            /* statistics: dimension d of this value runs along .. */
    Mmas transposed_along[2]; /* .. the rows, or the columns, of these products */
    bool carried;             /* of something that the main loop carries */
} Origin;

typedef struct Reader {
    Flow *flow;
    Origin *origins; /* by value */
    bool changed;
    uint32_t parent_division[FLOW_MMAS], parent_alive[FLOW_MMAS];
} Reader;

static bool
refuse(Flow *flow, Span where, const char *why)
{
    if (flow->obstacle == NULL) {
        flow->obstacle = why;
        flow->where = where;
    }
    return false;
}

/* ---- the main loop ---- */

/* The innermost loop with the most products. */
static void
find_loop(const TirBlock *block, const TirOp **best, uint32_t *most)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        uint32_t n = walk.op->op == TIR_FOR ? count_mmas(walk.op->blocks[0]) : 0;
        if (n > 0 && n >= *most) {
            *most = n;
            *best = walk.op;
        }
    }
}

static bool
lies_in(const TirBlock *block, const TirOp *loop)
{
    for (; block != NULL; block = block->owner == NULL ? NULL : block->owner->parent) {
        if (block->owner == loop)
            return true;
    }
    return false;
}

/* ---- origins ---- */

static Origin *
origin(Reader *r, const TirVal *value)
{
    return &r->origins[value->id];
}

static void
add_origin(Reader *r, const TirVal *to, Origin from)
{
    Origin *at = origin(r, to), old = *at;

    at->same |= from.same;
    at->transposed |= from.transposed;
    for (uint32_t d = 0; d < 2; d++) {
        at->along[d] |= from.along[d];
        at->transposed_along[d] |= from.transposed_along[d];
    }
    at->carried |= from.carried;
    r->changed |= memcmp(&old, at, sizeof old) != 0;
}

static uint32_t
root(const uint32_t *parents, uint32_t k)
{
    while (parents[k] != k)
        k = parents[k];
    return k;
}

static void
join(uint32_t *parents, uint32_t a, uint32_t b)
{
    a = root(parents, a);
    b = root(parents, b);
    parents[a > b ? a : b] = a > b ? b : a;
}

static void
join_all(uint32_t *parents, Mmas set, uint32_t with)
{
    for (uint32_t k = 0; k < FLOW_MMAS; k++) {
        if ((set >> k & 1) != 0)
            join(parents, k, with);
    }
}

static uint32_t
first_of(Mmas set)
{
    uint32_t k = 0;

    while (k < FLOW_MMAS && (set >> k & 1) == 0)
        k++;
    return k;
}

/* The members of a set that do not accumulate over the loop. */
static Mmas
fresh_of(const Reader *r, Mmas set)
{
    Mmas fresh = 0;

    for (uint32_t k = 0; k < r->flow->n_mmas; k++) {
        if ((set >> k & 1) != 0 && !r->flow->mmas[k].carried)
            fresh |= (Mmas)1 << k;
    }
    return fresh;
}

/* Notes that statistics of the products in `set`, reduced along the other dimension, are combined
 * with product `with`. */
static void
tie_all(Reader *r, Mmas set, uint32_t with)
{
    Flow *flow = r->flow;

    for (uint32_t k = 0; k < flow->n_mmas; k++) {
        uint32_t j = 0;
        if ((set >> k & 1) == 0 || k == with)
            continue;
        while (j < flow->n_ties && (flow->ties[j][0] != k || flow->ties[j][1] != with))
            j++;
        if (j == FLOW_TIES)
            refuse(flow, flow->loop->span, "there are too many statistics of products");
        else if (j == flow->n_ties) {
            flow->ties[flow->n_ties][0] = k;
            flow->ties[flow->n_ties++][1] = with;
        }
    }
}

/* Notes that the operands of an operation are combined element by element. */
static void
meet(Reader *r, const Origin *all)
{
    Mmas same = all->same, fresh = fresh_of(r, same);

    if (same == 0)
        return;
    join_all(r->parent_division, same, first_of(same));
    if (fresh != 0)
        join_all(r->parent_alive, fresh, first_of(fresh));
    /* statistics along the rows of the one are rows of the other, and so with columns */
    for (uint32_t d = 0; d < 2; d++) {
        join_all(r->parent_division, all->along[d], first_of(same));
        tie_all(r, all->transposed_along[d], first_of(same));
    }
}

static void
walk_elementwise(Reader *r, const TirOp *op)
{
    Origin all = {0};

    for (uint32_t k = 0; k < op->n_args; k++) {
        const Origin *from = origin(r, op->args[k]);
        all.same |= from->same;
        all.transposed |= from->transposed;
        for (uint32_t d = 0; d < 2; d++) {
            all.along[d] |= from->along[d];
            all.transposed_along[d] |= from->transposed_along[d];
        }
        all.carried |= from->carried;
    }
    if (op->results[0]->type.rank == 2)
        meet(r, &all);
    if (all.same != 0) { /* statistics that went in are no longer to be seen in it */
        memset(all.along, 0, sizeof all.along);
        memset(all.transposed_along, 0, sizeof all.transposed_along);
    }
    add_origin(r, op->results[0], all);
}

static void
walk_reduce(Reader *r, const TirOp *op)
{
    const TirVal *from = op->args[0], *to = op->results[0];
    const Origin *whole = origin(r, from);
    Origin row = {0};

    if (from->type.rank != 2)
        return; /* of statistics: a number, or nothing to do with products */
    for (uint32_t k = 0; k < r->flow->n_mmas; k++) {
        if ((whole->same >> k & 1) != 0)
            r->flow->mmas[k].reduced[op->axis] = true;
        if ((whole->transposed >> k & 1) != 0)
            r->flow->mmas[k].reduced[1 - op->axis] = true;
    }
    if (op->axis == 1) /* one number for each row */
        row.along[0] = whole->same;
    else
        row.transposed_along[0] = whole->same;
    add_origin(r, to, row);
}

/* Statistics expanded to a row or column of a tile; `transposed_along` becomes `along` if they lie
 * again along the dimension from which they were taken. */
static void
walk_expand(Reader *r, const TirOp *op)
{
    const Origin *from = origin(r, op->args[0]);
    Origin to = {0};

    if (op->axis == 1) {
        to.along[0] = from->along[0];
        to.transposed_along[0] = from->transposed_along[0];
    } else {
        to.along[1] = from->transposed_along[0];
        to.transposed_along[1] = from->along[0];
    }
    add_origin(r, op->results[0], to);
}

static void
walk_squeeze(Reader *r, const TirOp *op)
{
    const Origin *from = origin(r, op->args[0]);
    Origin to = {0};

    if (op->args[0]->type.rank != 2)
        return;
    to.along[0] = op->axis == 1 ? from->along[0] : from->transposed_along[1];
    to.transposed_along[0] = op->axis == 1 ? from->transposed_along[0] : from->along[1];
    add_origin(r, op->results[0], to);
}

static void
walk_transpose(Reader *r, const TirOp *op)
{
    Origin from = *origin(r, op->args[0]);
    Origin to = {.same = from.transposed, .transposed = from.same, .carried = from.carried};

    for (uint32_t d = 0; d < 2; d++) {
        to.along[d] = from.transposed_along[1 - d];
        to.transposed_along[d] = from.along[1 - d];
    }
    add_origin(r, op->results[0], to);
}

static uint32_t
mma_of(Reader *r, const TirOp *op)
{
    for (uint32_t k = 0; k < r->flow->n_mmas; k++) {
        if (r->flow->mmas[k].op == op)
            return k;
    }
    return FLOW_MMAS;
}

static void
walk_mma(Reader *r, const TirOp *op)
{
    uint32_t k = mma_of(r, op);

    if (k == FLOW_MMAS)
        return; /* outside of the main loop */
    const Origin *acc = origin(r, op->args[2]);
    FlowMma *mma = &r->flow->mmas[k];
    Mmas others = acc->same & ~((Mmas)1 << k);
    mma->carried |= acc->carried;
    mma->onto |= others != 0 && !acc->carried;
    join_all(r->parent_division, others, k);
    add_origin(r, op->results[0], (Origin){.same = (Mmas)1 << k | others});
}

static void walk_block(Reader *r, const TirBlock *block);

static void
walk_for(Reader *r, const TirOp *op)
{
    const TirBlock *body = op->blocks[0];
    uint32_t first = loop_first_initial(op);
    bool main = op == r->flow->loop;

    for (uint32_t k = 0; k < op->n_results; k++) {
        const TirVal *param = body->params.at[k + 1];
        Origin from = *origin(r, op->args[first + k]);
        from.carried |= main && param->type.rank == 2;
        add_origin(r, param, from);
    }
    walk_block(r, body);
    for (uint32_t k = 0; k < op->n_results; k++) {
        Origin last = *origin(r, block_yield(body)->args[k]);
        add_origin(r, body->params.at[k + 1], last);
        last.carried &= !main;
        add_origin(r, op->results[k], last);
    }
}

static void
walk_op(Reader *r, const TirOp *op)
{
    switch (op->op) {
    case TIR_MMA: walk_mma(r, op); return;
    case TIR_EXPAND: walk_expand(r, op); return;
    case TIR_SQUEEZE: walk_squeeze(r, op); return;
    case TIR_TRANSPOSE: walk_transpose(r, op); return;
    case TIR_BROADCAST: add_origin(r, op->results[0], *origin(r, op->args[0])); return;
    case TIR_FOR: walk_for(r, op); return;
    case TIR_IF:
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            walk_block(r, op->blocks[k]);
            for (uint32_t j = 0; j < op->n_results; j++)
                add_origin(r, op->results[j], *origin(r, block_yield(op->blocks[k])->args[j]));
        }
        return;
    default: break;
    }
    switch (tir_axis_use(op)) {
    case AXIS_REDUCES: walk_reduce(r, op); return;
    case AXIS_ELEMENTWISE: walk_elementwise(r, op); return;
    default: return; /* of a scan nothing is known */
    }
}

static void
walk_block(Reader *r, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++)
        walk_op(r, block->ops.at[i]);
}

/* ---- operands ---- */

static int32_t
round_up(int32_t n, int32_t to)
{
    return (n + to - 1) / to * to;
}

/* The tile in shared memory that an operand is read from. */
static bool
add_tile(Reader *r, const TirVal *value, uint32_t mma, FlowOperand *operand)
{
    Flow *flow = r->flow;
    const TirOp *def = value->def;
    FlowTile tile = {.value = value,
                     .rows = value->type.dim[0],
                     .cols = value->type.dim[1],
                     .name = value->name,
                     .first_use = mma,
                     .in_loop = lies_in(value->block, flow->loop)};

    if (def != NULL && def->op == TIR_LOAD) {
        const TirTensor *tensor = def->tensor;
        tile.name = tensor->name;
        tile.whole = tir_last_dim(def).at == NULL;
        if (tile.whole)
            tile.cols = round_up(tile.cols, FLOW_ROUND);
    }
    *operand = (FlowOperand){.origin = FLOW_LOADED, .transposed = operand->transposed};
    while (operand->index < flow->n_tiles && flow->tiles[operand->index].value != value)
        operand->index++;
    if (operand->index == FLOW_TILES)
        return refuse(flow, flow->loop->span, "there are too many tiles");
    if (operand->index == flow->n_tiles)
        flow->tiles[flow->n_tiles++] = tile;
    return true;
}

static bool
add_value(Reader *r, const TirVal *value, FlowOperand *operand)
{
    Flow *flow = r->flow;
    const Origin *from = origin(r, value);
    FlowValue made = {.value = value,
                      .rows = value->type.dim[0],
                      .cols = value->type.dim[1],
                      .transposed = from->same == 0,
                      .mmas = from->same | from->transposed,
                      .mma = first_of(from->same != 0 ? from->same : from->transposed)};

    if (from->same != 0 && from->transposed != 0)
        return refuse(flow, flow->loop->span,
                      "an operand is made of a product and of the transpose of one");
    *operand = (FlowOperand){.origin = FLOW_COMPUTED, .transposed = operand->transposed};
    while (operand->index < flow->n_values && flow->values[operand->index].value != value)
        operand->index++;
    if (operand->index == FLOW_TILES)
        return refuse(flow, flow->loop->span, "there are too many tiles");
    if (operand->index == flow->n_values)
        flow->values[flow->n_values++] = made;
    return true;
}

static bool
read_operand(Reader *r, uint32_t mma, const TirVal *value, FlowOperand *operand)
{
    *operand = (FlowOperand){0};
    while (value->def != NULL && value->def->op == TIR_TRANSPOSE) {
        value = value->def->args[0];
        operand->transposed = !operand->transposed;
    }
    const Origin *from = origin(r, value);
    if (from->same != 0 || from->transposed != 0)
        return add_value(r, value, operand);
    return add_tile(r, value, mma, operand);
}

/* A dimension of an operand, as it lies in shared memory. */
static int32_t
operand_dim(const Flow *flow, FlowOperand operand, uint32_t dim)
{
    uint32_t d = operand.transposed ? 1 - dim : dim;

    if (operand.origin == FLOW_COMPUTED)
        return d == 0 ? flow->values[operand.index].rows : flow->values[operand.index].cols;
    return d == 0 ? flow->tiles[operand.index].rows : flow->tiles[operand.index].cols;
}

static int32_t
larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Whether dimension `dim` of an operand is a tensor's whole last dimension. */
static bool
is_whole(const Flow *flow, FlowOperand operand, uint32_t dim)
{
    return operand.origin == FLOW_LOADED && flow->tiles[operand.index].whole &&
           (operand.transposed ? 1 - dim : dim) == 1;
}

static bool
read_operands(Reader *r)
{
    Flow *flow = r->flow;

    for (uint32_t k = 0; k < flow->n_mmas; k++) {
        FlowMma *p = &flow->mmas[k];
        if (!read_operand(r, k, p->op->args[0], &p->a) || !read_operand(r, k, p->op->args[1], &p->b))
            return false;
        p->m = operand_dim(flow, p->a, 0);
        p->n = operand_dim(flow, p->b, 1);
        p->k = larger(operand_dim(flow, p->a, 1), operand_dim(flow, p->b, 0));
        p->open_depth = p->carried && p->a.origin == FLOW_LOADED && p->b.origin == FLOW_LOADED &&
                        !is_whole(flow, p->a, 1) && !is_whole(flow, p->b, 0);
        for (uint32_t j = 0; j < k; j++) { /* fed in the same way: divided in the same way */
            const FlowMma *other = &flow->mmas[j];
            bool left = p->a.origin == FLOW_COMPUTED, was_left = other->a.origin == FLOW_COMPUTED;
            bool fed = left || p->b.origin == FLOW_COMPUTED;
            bool was_fed = was_left || other->b.origin == FLOW_COMPUTED;
            FlowOperand mine = left ? p->a : p->b, its = was_left ? other->a : other->b;
            if (!fed || !was_fed || left != was_left || mine.transposed != its.transposed ||
                p->carried != other->carried)
                continue;
            if (root(r->parent_division, flow->values[mine.index].mma) ==
                root(r->parent_division, flow->values[its.index].mma))
                join(r->parent_division, j, k);
        }
    }
    return true;
}

/* ---- outputs ---- */

static int32_t
stored_cols(const Flow *flow, Mmas set, const TirVal *value)
{
    int32_t cols = value->type.dim[1];

    for (uint32_t k = 0; k < flow->n_mmas; k++) { /* rounded up as its operands are */
        if ((set >> k & 1) != 0 && value->type.dim[1] <= flow->mmas[k].n)
            cols = larger(cols, flow->mmas[k].n);
    }
    return cols;
}

static void
read_outputs(Reader *r, const TirBlock *block)
{
    Flow *flow = r->flow;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            read_outputs(r, op->blocks[k]);
        if (!tir_writes(op))
            continue;
        const TirVal *value = op->args[op->n_args - 1];
        Mmas set = origin(r, value)->same | origin(r, value)->transposed;
        int32_t bytes = (int32_t)dtype_bits(op->tensor->dtype) / 8;
        if (set == 0 || value->type.rank != 2)
            continue;
        if (lies_in(op->parent, flow->loop))
            flow->mmas[first_of(set)].output_bytes = bytes;
        else
            flow->final_bytes += (int64_t)value->type.dim[0] * stored_cols(flow, set, value) *
                                 bytes;
    }
}

/* ---- the whole ---- */

static bool
add_mmas(Reader *r, const TirBlock *block)
{
    Flow *flow = r->flow;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (count_mmas(op->blocks[k]) > 0)
                return refuse(flow, op->span,
                              "a product stands in a branch of the main loop, or in a loop in it");
        }
        if (op->op != TIR_MMA)
            continue;
        if (flow->n_mmas == FLOW_MMAS)
            return refuse(flow, op->span, "there are too many products in one loop");
        uint32_t k = flow->n_mmas++;
        flow->mmas[k] = (FlowMma){.op = op, .name = op->results[0]->name};
        r->parent_division[k] = r->parent_alive[k] = k;
    }
    return true;
}

/* Numbers the divisions in order of their first products. */
static void
number_divisions(Reader *r)
{
    Flow *flow = r->flow;

    for (uint32_t k = 0; k < flow->n_mmas; k++) {
        uint32_t first = root(r->parent_division, k);
        flow->mmas[k].division = first == k ? flow->divisions++ : flow->mmas[first].division;
        flow->mmas[k].alive = root(r->parent_alive, k);
    }
}

bool
flow_read(Arena *arena, const TirFn *fn, Flow *flow)
{
    Reader r = {.flow = flow};
    uint32_t most = 0;

    *flow = (Flow){0};
    find_loop(fn->body, &flow->loop, &most);
    const TirOp *branch = branch_with_mmas(fn->body);
    if (flow->loop == NULL && branch != NULL)
        return refuse(flow, branch->span, "the products are in a branch");
    if (flow->loop == NULL)
        return refuse(flow, fn->span, "no loop has products");
    flow->outside = count_mmas(fn->body) - most;
    if (!add_mmas(&r, flow->loop->blocks[0]))
        return false;
    r.origins = arena_array(arena, Origin, fn->next_id + 1);
    for (uint32_t round = 0; round < MOST_ROUNDS; round++) {
        r.changed = false;
        walk_block(&r, fn->body);
        if (!r.changed)
            break;
    }
    if (!read_operands(&r))
        return false;
    read_outputs(&r, fn->body);
    number_divisions(&r);
    return flow->obstacle == NULL;
}
