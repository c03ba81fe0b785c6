/* roles_ranges.c - a role's program: where it is in the grid, and which iterations of the main loop
 * it goes through.
 *
 * Each role computes that by itself, from the index of the block: the producer for all consumers, a
 * consumer for itself and for the others of its block.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

TirBlock *
roles_begin_program(Roles *r)
{
    TirBlock *root = tir_block_new(r->fn);

    r->b = (TirBuilder){.fn = r->fn, .block = root, .at = -1, .span = r->loop->span};
    r->counters.n = 0;
    r->first = r->extent = NULL;
    r->staggered = (Staggering){0};
    return root;
}

void
roles_write_program(Roles *r, RoleKind kind, void (*write)(Roles *r))
{
    TirBuilder consumer = r->b;
    TirVal *first = r->first, *extent = r->extent;

    tir_role(r->fn->plan, kind)->program = roles_begin_program(r);
    write(r);
    r->b = consumer;
    r->first = first;
    r->extent = extent;
}

/* Whether a block's index is that of its first program. */
static bool
counts_programs(const TirPlan *plan)
{
    return plan->tiles.reversed || (tir_multiplies_in_pairs(plan) && tir_consumers(plan) > 1);
}

TirVal *
roles_consumer_index(Roles *r, TirVal *block_index, uint32_t w)
{
    TirBuilder *b = &r->b;

    if (block_index == NULL) /* there is no such axis */
        return NULL;
    w *= tir_program_step(r->fn->plan);
    TirVal *first = counts_programs(r->fn->plan)
                        ? block_index
                        : tir_binary(b, TIR_MUL, block_index,
                                     tir_const_int(b, tir_consumers(r->fn->plan)));
    return w == 0 ? first : tir_binary(b, TIR_ADD, first, tir_const_int(b, w));
}

static TirVal *
read_grid(Roles *r, TirOpcode opcode, bool uniform)
{
    TirType i32 = tir_scalar(DT_I32);

    if (tir_consumer_axis(r->fn) == NULL)
        return NULL;
    TirOp *grid = tir_op_new(&r->b, opcode, 0, NULL, 1, &i32);

    grid->integer = r->fn->plan->tiles.axis;
    grid->uniform = uniform;
    return grid->results[0];
}

TirVal *
roles_grid(Roles *r)
{
    return read_grid(r, TIR_GRID, true);
}

TirVal *
roles_read_block(Roles *r)
{
    bool reversed = r->fn->plan->tiles.reversed;
    TirVal *index = read_grid(r, reversed ? TIR_GRID_FIRST : TIR_GRID, true);

    r->first = reversed ? index : NULL;
    return index;
}

TirVal *
roles_block_index(Roles *r, TirVal *own)
{
    TirBuilder *b = &r->b;
    const TirPlan *plan = r->fn->plan;

    if (plan->tiles.reversed)
        return r->first = read_grid(r, TIR_GRID_FIRST, own->def->uniform);
    if (!counts_programs(plan))
        return tir_binary(b, TIR_DIV, own, tir_const_int(b, tir_consumers(plan)));
    TirVal *all = tir_const_int(b, tir_programs(plan)), *two = tir_const_int(b, 2);
    TirVal *first = tir_binary(b, TIR_MUL, tir_binary(b, TIR_DIV, own, all), all);
    return tir_binary(b, TIR_ADD, first, tir_binary(b, TIR_REM, own, two));
}

TirVal *
roles_is_there(Roles *r, TirVal *index)
{
    return r->fn->plan->tiles.reversed ? tir_binary(&r->b, TIR_GE, index, tir_const_int(&r->b, 0))
                                       : tir_binary(&r->b, TIR_LT, index, r->extent);
}

/* Lets `index` stand for all readings of grid axis `axis`, and `first`, if not NULL, for those of
 * the block's first program; without an index every axis gets a reading of its own, made by `b`,
 * that uniform. */
void
roles_map_grid(TirBuilder *b, CloneMap *map, const TirBlock *block, uint32_t axis, TirVal *index,
               TirVal *first)
{
    TirType i32 = tir_scalar(DT_I32);

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->op == TIR_GRID && op->integer == (int64_t)axis && index != NULL)
            clone_set(map, op->results[0], index);
        if (op->op == TIR_GRID_FIRST && op->integer == (int64_t)axis && first != NULL)
            clone_set(map, op->results[0], first);
        if ((op->op == TIR_GRID || op->op == TIR_GRID_FIRST) && index == NULL) {
            TirOp *again = tir_op_new(b, op->op, 0, NULL, 1, &i32);
            again->integer = op->integer;
            again->uniform = true;
            clone_set(map, op->results[0], again->results[0]);
        }
    }
}

CloneMap
roles_consumer_map(Roles *r, TirVal *index)
{
    CloneMap map = clone_map(r->fn);

    if (index != NULL)
        roles_map_grid(NULL, &map, r->old, r->fn->plan->tiles.axis, index, r->first);
    for (uint32_t k = 0; k < r->counters.n; k++)
        clone_set(&map, r->around.at[k]->blocks[0]->params.at[0], r->counters.at[k]);
    return map;
}

bool
roles_is_same(const TirVal *a, const TirVal *b)
{
    return a == b || (a->def != NULL && b->def != NULL && a->def->op == TIR_CONST &&
                      b->def->op == TIR_CONST && a->def->integer == b->def->integer);
}

static Range
range_of_program(Roles *r, const TirOp *loop, TirVal *index, TirVal *none)
{
    TirBuilder *b = &r->b;
    CloneMap map = roles_consumer_map(r, index);
    Range range = {clone_scalar_tree(b, &map, loop->args[0]),
                   clone_scalar_tree(b, &map, loop->args[1]), NULL};

    if (none != NULL)
        return roles_own_range(r, range, roles_is_there(r, index), none);
    range.hi = tir_binary(b, TIR_MAX, range.lo, range.hi);
    return range;
}

/* What one of two ranges has; where the second one lies behind the axis, it begins and ends with
 * the first one. */
static Range
range_of_both(Roles *r, const TirOp *loop, TirVal *index, TirVal *none)
{
    TirBuilder *b = &r->b;
    TirVal *two = tir_const_int(b, 2);
    TirVal *first = tir_binary(b, TIR_MUL, tir_binary(b, TIR_DIV, index, two), two);
    Range range = range_of_program(r, loop, first, none);
    Range other = range_of_program(r, loop, tir_binary(b, TIR_ADD, first, tir_const_int(b, 1)),
                                   range.lo);

    if (!roles_is_same(range.lo, other.lo))
        range.lo = tir_binary(b, TIR_MIN, range.lo, other.lo);
    range.hi = tir_binary(b, TIR_MAX, range.hi, other.hi);
    return range;
}

Range
roles_consumer_range(Roles *r, const TirOp *loop, TirVal *index, TirVal *none)
{
    const TirPlan *plan = r->fn->plan;

    return r->bounds_differ && (tir_multiplies_in_pairs(plan) || tir_adds_in_pairs(plan))
               ? range_of_both(r, loop, index, none)
               : range_of_program(r, loop, index, none);
}

/* Whether a scalar does not fall as the index of the consumer axis rises (`up`), or does not
 * rise. */
static bool
goes(const Roles *r, const TirVal *value, bool up)
{
    const TirOp *def = value->def;

    if (!roles_depends_on_consumer(r, value))
        return true;
    switch (def->op) {
    case TIR_GRID: return up;
    case TIR_ADD:
    case TIR_MIN:
    case TIR_MAX: return goes(r, def->args[0], up) && goes(r, def->args[1], up);
    case TIR_SUB: return goes(r, def->args[0], up) && goes(r, def->args[1], !up);
    case TIR_MUL:
    case TIR_DIV:
        for (uint32_t k = def->op == TIR_DIV; k < 2; k++) { /* by a constant above 0 */
            const TirOp *by = def->args[k]->def;
            if (by != NULL && by->op == TIR_CONST && by->integer > 0)
                return goes(r, def->args[1 - k], up);
        }
        return false;
    default: return false;
    }
}

bool
roles_loop_differs(const Roles *r, const TirOp *loop)
{
    return tir_own_programs(r->fn->plan) > 1 && (roles_depends_on_consumer(r, loop->args[0]) ||
                                                 roles_depends_on_consumer(r, loop->args[1]));
}

/* Whether consumers differ in having the iterations of loops around that are being written;
 * `begins`: in where they begin. */
static bool
around_differs(const Roles *r, bool begins)
{
    bool differs = false;

    for (uint32_t k = 0; k < r->counters.n; k++) {
        const TirOp *loop = r->around.at[k];
        differs = differs || (roles_loop_differs(r, loop) &&
                              (!begins || roles_depends_on_consumer(r, loop->args[0])));
    }
    return differs;
}

/* Whether the consumer with this index has the iterations of the loops around that are being
 * written. */
static TirVal *
has_iterations(Roles *r, TirVal *index)
{
    TirBuilder *b = &r->b;
    TirVal *has = roles_is_there(r, index);

    for (uint32_t k = 0; k < r->counters.n; k++) {
        const TirOp *loop = r->around.at[k];
        if (!roles_loop_differs(r, loop))
            continue;
        CloneMap map = roles_consumer_map(r, index);
        TirVal *lo = clone_scalar_tree(b, &map, loop->args[0]),
               *hi = clone_scalar_tree(b, &map, loop->args[1]);
        has = tir_binary(b, TIR_AND, has, tir_binary(b, TIR_LE, lo, r->counters.at[k]));
        has = tir_binary(b, TIR_AND, has, tir_binary(b, TIR_LT, r->counters.at[k], hi));
    }
    return has;
}

/* What lies at one end of the iterations of consumers: of those so far, `all`, and of one more. */
static TirVal *
end_of_both(TirBuilder *b, TirOpcode opcode, TirVal *any, TirVal *all, TirVal *has, TirVal *one)
{
    if (roles_is_same(all, one))
        return all;
    TirVal *both = any == NULL ? one : tir_select(b, any, tir_binary(b, opcode, all, one), one);
    return tir_select(b, has, both, all);
}

/* The iterations of `loop` that those consumers have which have the ones around. */
static Range
range_of_some(Roles *r, const TirOp *loop, TirVal *block_index)
{
    TirBuilder *b = &r->b;
    TirVal *none = tir_const_int(b, 0), *any = NULL;
    Range all = {none, none, NULL};

    for (uint32_t w = 0; w < tir_consumers(r->fn->plan); w++) {
        TirVal *index = roles_consumer_index(r, block_index, w), *has = has_iterations(r, index);
        Range one = roles_consumer_range(r, loop, index, NULL);
        all.lo = end_of_both(b, TIR_MIN, any, all.lo, has, one.lo);
        all.hi = end_of_both(b, TIR_MAX, any, all.hi, has, one.hi);
        any = any == NULL ? has : tir_binary(b, TIR_OR, any, has);
    }
    return all;
}

Range
roles_block_range(Roles *r, const TirOp *loop, TirVal *block_index, TirVal **first_lo)
{
    TirBuilder *b = &r->b;
    uint32_t consumers = tir_consumers(r->fn->plan);
    bool reversed_raster = r->fn->plan->tiles.reversed;
    if (around_differs(r, false)) {
        Range some = range_of_some(r, loop, block_index);
        *first_lo = some.lo;
        return some;
    }
    if (consumers > 1 && goes(r, loop->args[0], true) && goes(r, loop->args[1], true)) {
        /* from where the first consumer that is there begins to where the last one ends */
        TirVal *end = reversed_raster ? NULL
                                      : tir_binary(b, TIR_SUB, r->extent, tir_const_int(b, 1));
        TirVal *last = roles_consumer_index(r, block_index, consumers - 1);
        if (end != NULL)
            last = tir_binary(b, TIR_MIN, last, end);
        Range to = roles_consumer_range(r, loop, last, NULL);
        if (roles_depends_on_consumer(r, loop->args[0])) {
            TirVal *first = roles_consumer_index(r, block_index, 0);
            if (reversed_raster)
                first = tir_binary(b, TIR_MAX, first, tir_const_int(b, 0));
            to.lo = roles_consumer_range(r, loop, first, NULL).lo;
        }
        *first_lo = to.lo;
        return to;
    }
    uint32_t sure = reversed_raster ? consumers - 1 : 0; /* a consumer that is there */
    Range all = roles_consumer_range(r, loop, roles_consumer_index(r, block_index, sure), NULL);

    *first_lo = all.lo;
    for (uint32_t w = 0; w < consumers; w++) {
        if (w == sure)
            continue;
        Range one = roles_consumer_range(r, loop, roles_consumer_index(r, block_index, w),
                                         *first_lo);
        if (!roles_is_same(all.lo, one.lo))
            all.lo = tir_binary(b, TIR_MIN, all.lo, one.lo);
        all.hi = tir_binary(b, TIR_MAX, all.hi, one.hi);
    }
    return all;
}

Range
roles_range_of_all(Roles *r, const TirOp *loop, TirVal *block_index)
{
    TirBuilder *b = &r->b;
    TirVal *first_lo;
    bool differs = loop == r->loop ? r->bounds_differ : roles_loop_differs(r, loop);

    /* between the iterations of two consumers there may be some that nobody has */
    if (differs || around_differs(r, true))
        return roles_block_range(r, loop, block_index, &first_lo);
    TirVal *index = roles_consumer_index(r, block_index, 0);
    if (loop == r->loop)
        return roles_consumer_range(r, loop, index, NULL);
    CloneMap map = roles_consumer_map(r, index);
    TirVal *lo = clone_scalar_tree(b, &map, loop->args[0]);
    return (Range){lo, clone_scalar_tree(b, &map, loop->args[1]), NULL};
}

Range
roles_own_range(Roles *r, Range own, TirVal *there, TirVal *none)
{
    TirBuilder *b = &r->b;

    own.hi = tir_binary(b, TIR_MAX, own.lo, own.hi);
    if (!roles_is_same(own.lo, none))
        own.lo = tir_select(b, there, own.lo, none);
    own.hi = tir_select(b, there, own.hi, none);
    return own;
}

Range
roles_numbers(Roles *r, Range range, Range all)
{
    TirBuilder *b = &r->b;

    if (!r->backwards)
        return range;
    TirVal *first = range.hi == all.hi ? tir_const_int(b, 0)
                                       : tir_binary(b, TIR_SUB, all.hi, range.hi);
    return (Range){first, tir_binary(b, TIR_SUB, all.hi, range.lo), all.hi};
}

bool
roles_has_effects(const Roles *r, const TirBlock *block, uint32_t from)
{
    TirWalk walk = tir_walk(block);

    for (walk.next = from; tir_walk_next(&walk);) {
        if (tir_writes(walk.op) && !writes_nothing_past(r->fn, r->fn->plan->tiles.axis, walk.op))
            return true;
    }
    return false;
}
