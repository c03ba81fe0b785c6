/* lower_roles.c - a kernel with a plan: sets up barriers, then branches to the program of each
 * role.
 *
 *     one thread sets up the barriers; everybody waits for that
 *     warp group 0:      gives registers back; one thread runs the producer, tile by tile; other warps
 *                        run the reduce role, or the mma role
 *     warp groups 1 ..:  take more registers; each runs the body for its index of the consumer axis
 *
 * Conditions of branches and descriptors must be warp-uniform in a way that ptxas can see: block
 * indices, parameters, arithmetic on these, and values broadcast by shfl.  Otherwise descriptors go
 * through vector registers.
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/tir_inputs.h"

uint32_t
lower_warps(const Lowering *lo)
{
    bool adds = lo->role != NULL && lo->role->kind == ROLE_REDUCE &&
                tir_adding_warps(lo->fn->plan) > 0;

    return adds ? tir_adding_warps(lo->fn->plan) : lo->fn->warps;
}

LirReg
lower_zero(Lowering *lo)
{
    const char *name = arena_printf(lo->out->arena, "%s_zero", lo->fn->name);
    LirOperand at = {.kind = LIR_ADDRESS, .symbol = name};
    bool have = false;

    for (uint32_t k = 0; k < lo->out->params.n; k++)
        have = have || lo->out->params.at[k].kind == LIR_PARAM_ZERO;
    if (!have)
        lir_add_param(lo->out, LIR_PARAM_ZERO, LIR_B32, name, 0, 0);
    return lir_op1(&lo->b, LIR_LD_PARAM_B32, LIR_B32, at);
}

LirReg
lower_host(Lowering *lo, const HostExpr *expr)
{
    LirBuilder *b = &lo->b;

    switch (expr->kind) {
    case HOST_INT: return lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(expr->integer));
    case HOST_SIZE:
    case HOST_SCALAR: {
        bool size = expr->kind == HOST_SIZE;
        LirOperand at = {.kind = LIR_ADDRESS,
                         .symbol = arena_printf(lo->out->arena, size ? "%s_n_%s" : "%s_p_%s",
                                                lo->fn->name,
                                                size ? lo->fn->sizes.at[expr->index].name
                                                     : lo->fn->scalars.at[expr->index].name)};
        return lir_op1(b, LIR_LD_PARAM_B32, LIR_B32, at);
    }
    default: break;
    }
    LirReg x = lower_host(lo, expr->a), y = lower_host(lo, expr->b);
    LirOpcode op = expr->kind == HOST_ADD   ? LIR_ADD_S32
                   : expr->kind == HOST_SUB ? LIR_SUB_S32
                   : expr->kind == HOST_MUL ? LIR_MUL_S32
                   : expr->kind == HOST_REM ? LIR_REM_S32
                   : expr->kind == HOST_MIN ? LIR_MIN_S32
                   : expr->kind == HOST_MAX ? LIR_MAX_S32
                                            : LIR_DIV_S32;
    if (expr->kind == HOST_CDIV) {
        LirReg less = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(y), lir_int(-1));
        x = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(x), lir_reg(less));
    }
    return lir_op2(b, op, LIR_B32, lir_reg(x), lir_reg(y));
}

/* ---- tiles of the grid ---- */

/* Blocks along each axis of the grid: the consumer axis counts blocks of consumers, or pairs. */
static void
axis_counts(Lowering *lo, LirReg counts[3])
{
    for (uint32_t k = 0; k < lo->fn->grid.n; k++) {
        counts[k] = lower_host(lo, lo->fn->grid.at[k].extent);
        int32_t programs = (int32_t)tir_consumers(lo->fn->plan) *
                           (tir_is_clustered(lo->fn->plan) ? 2 : 1);
        if (k != lo->fn->plan->tiles.axis || programs == 1)
            continue;
        LirReg up = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(counts[k]), lir_int(programs - 1));
        counts[k] = lir_op2(&lo->b, LIR_DIV_U32, LIR_B32, lir_reg(up), lir_int(programs));
    }
}

/* Addresses used only after the loop must not occupy uniform registers, which the descriptors need:
 * adds a zero that ptxas must assume to differ by lane. */
static Elem
lane_index(Lowering *lo, LirReg index)
{
    LirBuilder *b = &lo->b;
    LirReg lane = lower_lane(lo), zero = lower_zero(lo); /* in this order */
    LirReg nothing = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_reg(zero));

    return elem_reg(lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(index), lir_reg(nothing)));
}

/* The consumer of warp group `own`, when consumers alternate. */
static LirReg
swapped_consumer(Lowering *lo, LirReg own)
{
    LirReg more = lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(-2),
                          lir_int(tir_consumers(lo->fn->plan) - 1));

    return lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(lo->role->reversed), lir_reg(more),
                   lir_reg(own));
}

/* The number of a warp group's consumer. */
static LirReg
own_consumer(Lowering *lo)
{
    LirReg own = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group), lir_int(-1));

    return lo->fn->plan->tiles.alternating ? swapped_consumer(lo, own) : own;
}

/* The program's own indices from those of the block: where tiles are counted from the end, from
 * that of the block's first program. */
void
lower_set_told_place(Lowering *lo, uint32_t axis, LirReg index)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;

    if (axis == plan->tiles.axis && lo->role->kind != ROLE_PRODUCER) {
        LirReg own = own_consumer(lo);
        index = lower_multiplies_in_pairs(lo) ? lower_pair_program(lo, index, own)
                : plan->tiles.reversed
                    ? lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(index), lir_reg(own))
                    : lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(index), lir_int(tir_consumers(plan)),
                              lir_reg(own));
    }
    lower_set_program(lo, axis, index);
}

/* The same from those of the block or the pair. */
void
lower_set_place(Lowering *lo, uint32_t axis, LirReg index)
{
    const TirPlan *plan = lo->fn->plan;

    if (axis == plan->tiles.axis && tir_is_clustered(plan))
        index = lower_pair_block(lo, index);
    lower_set_told_place(lo, axis, index);
}

void
lower_set_program(Lowering *lo, uint32_t axis, LirReg index)
{
    lo->role->grid[axis] = lo->role->lane_grid[axis] = elem_reg(index);
    if (lo->role->kind == ROLE_PRODUCER || lo->role->kind == ROLE_REDUCE ||
        tir_role(lo->fn->plan, ROLE_CONSUMER)->pressure > 1)
        return; /* made at each use: nothing is kept over the loop */
    lo->role->lane_grid[axis] = lane_index(lo, index);
}

Elem
lower_lane_grid(Lowering *lo, uint32_t axis)
{
    if (lo->role->kind == ROLE_PRODUCER || lo->role->kind == ROLE_REDUCE ||
        tir_role(lo->fn->plan, ROLE_CONSUMER)->pressure < 2)
        return lo->role->lane_grid[axis];
    return lane_index(lo, lo->role->grid[axis].reg);
}

Elem
lower_first_program(Lowering *lo, const TirOp *op)
{
    uint32_t axis = (uint32_t)op->integer;
    Elem own = op->uniform ? lo->role->grid[axis] : lower_lane_grid(lo, axis);

    if (lo->role->kind == ROLE_PRODUCER)
        return own;
    return elem_reg(
        lir_op2(&lo->b, LIR_SUB_S32, LIR_B32, lir_reg(own.reg), lir_reg(own_consumer(lo))));
}

bool
lower_may_lie_in_front(const Lowering *lo, const TirVal *value)
{
    if (lo->role == NULL || !lo->fn->plan->tiles.reversed)
        return false;
    for (TirInputs in = tir_inputs(lo->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def, *loop = in.value->block->owner;
        if (def == NULL) { /* the induction variable of a loop */
            if (loop != NULL && loop->op == TIR_FOR)
                tir_inputs_add(&in, loop->args[0]);
        } else if (def->op == TIR_GRID || def->op == TIR_GRID_FIRST) {
            if (def->integer == (int64_t)lo->fn->plan->tiles.axis)
                return true;
        } else {
            tir_inputs_follow(&in);
        }
    }
    return false;
}

LirReg
lower_divide(Lowering *lo, LirReg *rest, LirReg by)
{
    LirBuilder *b = &lo->b;
    LirReg up = lir_op2(b, LIR_DIV_U32, LIR_B32, lir_reg(*rest), lir_reg(by));
    LirReg whole = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(up), lir_reg(by));
    LirReg left = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(*rest), lir_reg(whole));

    *rest = up;
    return left;
}

/* 2^32 divided by a number that is the same for all tiles, in a register that stays. */
static LirReg
inverse_of(Lowering *lo, LirReg number)
{
    LirBuilder *b = &lo->b;
    LirReg all = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(-1)), home = lir_new_home(b, LIR_B32);
    LirReg quotient = lir_op2(b, LIR_DIV_U32, LIR_B32, lir_reg(all), lir_reg(number));

    lir_emit(b, LIR_MOV_B32, 1, 2, (LirOperand[]){lir_reg(home), lir_reg(quotient)});
    return home;
}

/* `divide` of a number below 2^31 with the inverse of `by`: the product is one too small at
 * most. */
static LirReg
divide_fast(Lowering *lo, LirReg *rest, LirReg by, LirReg inverse)
{
    LirBuilder *b = &lo->b;
    LirReg up = lir_op2(b, LIR_MUL_HI_U32, LIR_B32, lir_reg(*rest), lir_reg(inverse));
    LirReg whole = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(up), lir_reg(by));
    LirReg left = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(*rest), lir_reg(whole));
    LirReg more = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(left), lir_reg(by));
    LirReg less = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(left), lir_reg(by));
    LirReg next = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(up), lir_int(1));

    *rest = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(next), lir_reg(up), lir_reg(more));
    return lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(less), lir_reg(left), lir_reg(more));
}

LirReg
lower_index_of_rank(Lowering *lo, uint32_t axis, LirReg rank, LirReg count)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;
    bool reversed = lo->fn->grid.at[axis].reversed;

    if (plan->tiles.reversed && axis == plan->tiles.axis) {
        LirReg left = reversed ? lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(rank), lir_int(1))
                               : lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(count), lir_reg(rank));
        return lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(left),
                       lir_int(-(int64_t)tir_consumers(plan)),
                       lir_reg(lower_host(lo, lo->fn->grid.at[axis].extent)));
    }
    if (!reversed)
        return rank;
    LirReg down = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(count), lir_reg(rank));
    return lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(down), lir_int(-1));
}

LirReg
lower_copy_of(Lowering *lo, LirReg home)
{
    LirReg copy = lir_new_reg(&lo->b, LIR_B32);
    LirOperand operands[] = {lir_reg(copy), lir_reg(home)};

    lir_emit(&lo->b, LIR_MOV_B32, 1, 2, operands);
    return copy;
}

/* The indices of tile number `tile` where it is swizzled: `tile_swizzle` indices of one axis, each
 * index of the first axis, the next so many of the former; then the other axes. */
static void
find_swizzled_place(Lowering *lo, LirReg tile, const LirReg counts[3])
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;
    uint32_t axis = plan->tiles.swizzle_axis;
    LirReg number = lower_copy_of(lo, tile), index[3] = {0};
    LirReg plane = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(counts[0]), lir_reg(counts[axis]));
    LirReg per_swizzle = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(counts[0]),
                                 lir_int(plan->tiles.swizzle));
    LirReg rest = number, at = lo->fn->grid.n > 2 ? lower_divide(lo, &rest, plane) : number;
    LirReg which = at, inside = lower_divide(lo, &which, per_swizzle);
    LirReg first = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(which), lir_int(plan->tiles.swizzle));
    /* the last stripe may be narrower */
    LirReg left = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(counts[axis]), lir_reg(first));
    LirReg width = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(left), lir_int(plan->tiles.swizzle));
    index[0] = inside;
    LirReg beside = lower_divide(lo, &index[0], width);
    index[axis] = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(first), lir_reg(beside));
    for (uint32_t k = 0; k < lo->fn->grid.n; k++) {
        if (k != 0 && k != axis)
            index[k] = rest;
        lower_set_place(lo, k, lower_index_of_rank(lo, k, index[k], counts[k]));
    }
}

/* The indices of tile number `tile`: the first axis runs fastest; `inverses` of the counts, or
 * 0. */
static void
find_place(Lowering *lo, LirReg tile, const LirReg counts[3], const LirReg inverses[3])
{
    if (lo->fn->plan->tiles.swizzle > 0) {
        find_swizzled_place(lo, tile, counts);
        return;
    }
    LirReg rest = lower_copy_of(lo, tile);

    for (uint32_t k = 0; k < lo->fn->grid.n; k++) {
        LirReg index = rest;
        if (k + 1 < lo->fn->grid.n)
            index = inverses[k] != 0 ? divide_fast(lo, &rest, counts[k], inverses[k])
                                     : lower_divide(lo, &rest, counts[k]);
        lower_set_place(lo, k, lower_index_of_rank(lo, k, index, counts[k]));
    }
}

/* ---- numbers of tiles ---- */

/* Where consumers differ in their number of iterations, warp groups have them in reverse order in
 * every other tile, so that all have about the same work. */
static void
begin_alternating(Lowering *lo)
{
    if (tir_is_dynamic(lo->fn->plan) && TILE_STAGES == 2) { /* the stage of the next tile index */
        lo->role->reversed = lo->role->tiles.stage;
        return;
    }
    LirOperand reversed[] = {lir_reg(lir_new_home(&lo->b, LIR_B32)), lir_int(0)};

    lir_emit(&lo->b, LIR_MOV_B32, 1, 2, reversed);
    lo->role->reversed = reversed[0].reg;
}

void
lower_alternate(Lowering *lo)
{
    if (lo->role->reversed == lo->role->tiles.stage)
        return;
    LirOperand reversed = lir_reg(lo->role->reversed);

    lir_emit(&lo->b, LIR_XOR_B32, 1, 3, (LirOperand[]){reversed, reversed, lir_int(1)});
}

/* Whether a number follows from parameters and constants alone. */
static bool
is_of_launch(const TirVal *value, uint32_t depth)
{
    const TirOp *def = value->def;

    if (def == NULL || value->type.rank != 0 || depth > 8)
        return false;
    if (def->op == TIR_PARAM || def->op == TIR_CONST)
        return true;
    if ((tir_op_info(def->op)->flags & TF_ELEMENTWISE) == 0)
        return false;
    for (uint32_t k = 0; k < def->n_args; k++) {
        if (!is_of_launch(def->args[k], depth + 1))
            return false;
    }
    return true;
}

/* Quotients that are the same in all tiles are computed once, since a division is many
 * instructions.  Other tile-invariant values are cheap to recompute. */
static void
lower_quotients(Lowering *lo, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->op == TIR_DIV && op->results[0]->type.dtype == DT_F32 &&
            is_of_launch(op->results[0], 0))
            lower_scalar(lo, op->results[0]);
    }
}

/* How many tiles there are; `others`: without the axis along which they differ in length. */
static LirReg
count_tiles(Lowering *lo, uint32_t variable, LirReg counts[3], LirReg *others)
{
    LirBuilder *b = &lo->b;

    axis_counts(lo, counts);
    LirReg total = counts[0];
    *others = variable == 0 ? 0 : counts[0];
    for (uint32_t k = 1; k < lo->fn->grid.n; k++) {
        total = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(total), lir_reg(counts[k]));
        if (k != variable)
            *others = *others == 0
                          ? counts[k]
                          : lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(*others), lir_reg(counts[k]));
    }
    if (*others == 0)
        *others = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(1));
    return total;
}

/* How a role finds its tiles. */
typedef struct TileNumbers {
    bool fetches, receives, sections;
    uint32_t variable; /* the axis along which tiles differ in length */
    uint32_t end;      /* label behind the role's last tile */
    LirReg tile;       /* home: the number of the tile */
    LirReg stride, total, others, counts[3], inverses[3];
    Sections parts;
} TileNumbers;

static void
begin_numbers(Lowering *lo, TileNumbers *n)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;

    n->fetches = tir_is_dynamic(plan) && lo->role->kind == ROLE_PRODUCER;
    n->receives = tir_is_dynamic(plan) && !n->fetches;
    n->tile = lir_new_home(b, LIR_B32);
    n->variable = tir_length_axis(lo->fn);
    /* any, where programs are not drawn */
    n->variable = n->variable < lo->fn->grid.n ? n->variable : 0;
    if (!n->receives)
        n->total = count_tiles(lo, n->variable, n->counts, &n->others);
    n->sections = !n->receives && plan->tiles.shared_bytes_each != NULL &&
                  (n->fetches || !tir_is_persistent(plan));
    if (n->sections)
        n->parts = lower_sections(lo, n->others, n->counts[n->variable],
                                  !n->fetches || lo->fn->grid.at[n->variable].sliding);
    LirReg first = lir_op1(b, LIR_MOV_U32, LIR_B32, lir_symbol("%ctaid.x"));
    n->stride = lir_op1(b, LIR_MOV_U32, LIR_B32, lir_symbol("%nctaid.x"));
    if (tir_is_clustered(plan)) { /* both blocks of a pair have its number */
        first = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(first), lir_int(1));
        n->stride = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(n->stride), lir_int(1));
    }
    LirOperand begin[] = {lir_reg(n->tile), lir_reg(first)};
    lir_emit(b, LIR_MOV_B32, 1, 2, begin);
}

/* The predicate that there is no tile of this number. By cluster launch control each has one. */
static LirReg
past_tiles(Lowering *lo, const TileNumbers *n)
{
    if (tir_has_clc(lo->fn->plan))
        return lir_op2(&lo->b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(n->tile), lir_int(0));
    return lir_op2(&lo->b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(n->tile), lir_reg(n->total));
}

static void
find_numbered_place(Lowering *lo, const TileNumbers *n)
{
    if (n->sections)
        lower_place_in_sections(lo, n->tile, n->variable, n->counts, n->others, &n->parts);
    else
        find_place(lo, n->tile, n->counts, n->inverses);
}

static void
add_stride(Lowering *lo, const TileNumbers *n, LirReg number)
{
    LirOperand next[] = {lir_reg(n->tile), lir_reg(number), lir_reg(n->stride)};

    lir_emit(&lo->b, LIR_ADD_S32, 1, 3, next);
}

LirReg
lower_count_on(Lowering *lo, bool first)
{
    const TileNumbers *n = lo->role->numbers;

    if (!first)
        add_stride(lo, n, n->tile);
    find_numbered_place(lo, n);
    return lir_op3(&lo->b, LIR_SEL_B32, LIR_B32, lir_int(1), lir_int(0), lir_reg(past_tiles(lo, n)));
}

/* Finds the tile of a role, and ends the role when there is none. */
void
lower_tile_head(Lowering *lo, TirOpcode opcode)
{
    LirBuilder *b = &lo->b;
    TileNumbers *n = lo->role->numbers;
    bool share = b->share;
    LirReg none;

    if (opcode == TIR_TILE_TAKE) {
        none = lower_take_head(lo);
    } else if (opcode == TIR_TILE_RECEIVE) {
        none = lower_hear_tile(lo);
    } else {
        if (n->fetches &&
            tir_has_lookahead(lo->fn)) { /* few registers: not kept from tile to tile */
            b->share = false;
            n->total = count_tiles(lo, n->variable, n->counts, &n->others);
            b->share = share;
        }
        none = past_tiles(lo, n);
        if (opcode == TIR_TILE_SEND) {
            find_numbered_place(lo, n);
            lower_tell_tile(lo, none);
        }
    }
    lir_branch(b, n->end, none, false);
    if (opcode == TIR_TILE_FIND)
        find_numbered_place(lo, n);
}

/* Ends a role's tile. */
void
lower_tile_tail(Lowering *lo, TirOpcode opcode)
{
    LirBuilder *b = &lo->b;
    TileNumbers *n = lo->role->numbers;

    lower_end_tile(lo);
    if (lo->role->tiles_stay)
        lower_advance(lo, &lo->role->tiles, TILE_STAGES);
    if (lo->fn->plan->tiles.alternating && opcode != TIR_TILE_LATE)
        lower_alternate(lo);
    if (opcode == TIR_TILE_DRAW) {
        LirReg drawn = lir_new_reg(b, LIR_B32);
        lower_fetch_tile(lo, drawn);
        add_stride(lo, n, drawn);
    } else if (opcode == TIR_TILE_ANSWER) {
        lower_take_answer(lo, n->tile);
    } else if (opcode == TIR_TILE_LATE) {
        lower_find_late(lo);
    } else if (opcode == TIR_TILE_ADVANCE) {
        add_stride(lo, n, n->tile);
    }
    if (n->receives) { /* reconverge: after predicated stores ptxas
                          otherwise assumes divergence and avoids uniform registers */
        LirOperand all = lir_int(-1);
        lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    }
}

void
lower_tiles(Lowering *lo, TirBlock *program)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;
    bool share = b->share;
    uint32_t again = lir_new_label(b);
    TileNumbers n = {.end = lir_new_label(b)};

    begin_numbers(lo, &n);
    lo->role->numbers = &n;
    lower_begin_pipelines(lo);
    if (plan->tiles.alternating)
        begin_alternating(lo);
    if (lo->role->kind != ROLE_PRODUCER)
        lower_quotients(lo, program);
    /* H200, backward, d = 128: 0.2 to 0.4 % (sustained 1 %); where tiles differ in length, and so
     * have loops with and without masks, -0.1 to -0.9 %: other registers for all of them. */
    if (lo->role->kind != ROLE_PRODUCER && lo->role->kind != ROLE_REDUCE &&
        plan->tiles.shared_bytes_each == NULL)
        lower_keep_places(lo, program, false);
    bool numbered = tir_is_persistent(plan) && !tir_is_dynamic(plan) && !n.sections &&
                    plan->tiles.swizzle == 0;
    for (uint32_t k = 0; numbered && k + 1 < lo->fn->grid.n; k++)
        n.inverses[k] = inverse_of(lo, n.counts[k]);
    if (program->ops.at[0]->op == TIR_TILE_TAKE) /* tiles are found before they begin */
        lower_find_first(lo);
    lir_open(b, false); /* keep no registers from tile to tile for what is cheap to compute */
    lir_label(b, again);
    lower_tile_block(lo, program);
    if (tir_is_persistent(plan))
        lir_branch(b, again, 0, false);
    lir_close(b);
    lir_label(b, n.end);
    if (n.fetches && !tir_has_clc(plan)) {
        b->share = b->share && !tir_has_lookahead(lo->fn);
        lower_clear_counter(lo, lir_op1(b, LIR_MOV_U32, LIR_B32, lir_symbol("%nctaid.x")));
        b->share = share;
    }
    if (lo->role->kind == ROLE_PRODUCER)
        lower_end_pairs(lo);
    lo->role->numbers = NULL;
}

/* ---- turns ---- */

/* Ping-pong: a consumer passes its turn on by arriving at the next one's named barrier.  At the
 * beginning the last consumer passes the turn to the first. */
static void
begin_pingpong(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    uint32_t consumers = tir_consumers(lo->fn->plan);
    LirReg next = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group), lir_int(BARRIER_TURN));
    LirReg last = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lo->role->group),
                          lir_int(consumers));
    LirOperand begin[] = {lir_int(BARRIER_TURN), lir_int(2 * (int32_t)lo->fn->warps * WARP_LANES)};

    lo->role->next_pingpong = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_int(BARRIER_TURN), lir_reg(next),
                                      lir_reg(last));
    lir_emit(b, LIR_BAR_ARRIVE_SOME, 0, 2, begin)->guard = last;
}

void
lower_pingpong(Lowering *lo, bool pass)
{
    LirReg own = lir_op2(&lo->b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group),
                         lir_int(BARRIER_TURN - 1));
    LirOperand some[] = {lir_reg(pass ? lo->role->next_pingpong : own),
                         lir_int(2 * (int32_t)lo->fn->warps * WARP_LANES)};

    lir_emit(&lo->b, pass ? LIR_BAR_ARRIVE_SOME : LIR_BAR_SYNC_SOME, 0, 2, some);
}

void
lower_delay(Lowering *lo, const TirOp *op)
{
    LirBuilder *b = &lo->b;
    LirReg clocks = lower_scalar_reg(lo, op->args[0]), from = lir_new_reg(b, LIR_B32);
    LirReg now = lir_new_reg(b, LIR_B32), agreed = lir_new_reg(b, LIR_PRED);
    LirOperand begin = lir_reg(from), end = lir_reg(now);
    uint32_t again = lir_new_label(b);

    lir_emit(b, LIR_CLOCK, 1, 1, &begin);
    lir_label(b, again);
    lir_emit(b, LIR_CLOCK, 1, 1, &end);
    LirReg gone = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(now), lir_reg(from));
    LirReg less = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(gone), lir_reg(clocks));
    LirOperand vote[] = {lir_reg(agreed), lir_reg(less)}; /* says that the warp stays together */
    lir_emit(b, LIR_VOTE_ANY, 1, 2, vote);
    lir_branch(b, again, agreed, false);
}

/* ---- consumers together ---- */

void
lower_consumer_barrier(Lowering *lo)
{
    LirOperand some[] = {lir_int(BARRIER_CONSUMERS), lir_int((int32_t)tir_consumers(lo->fn->plan) *
                                                             (int32_t)lo->fn->warps * WARP_LANES)};

    lir_emit(&lo->b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
    lir_emit(&lo->b, LIR_BAR_SYNC_SOME, 0, 2, some);
}

/* ---- roles ---- */

static void
set_up(Lowering *lo, LirReg thread, LirReg warp)
{
    LirBuilder *b = &lo->b;
    uint32_t ready = lir_new_label(b);
    LirReg others = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(thread), lir_int(0));
    LirOperand all = lir_int(-1), zero = lir_int(0);

    lir_branch(b, ready, others, false);
    lir_open(b, false);
    lower_init_barriers(lo);
    lir_emit(b, LIR_FENCE_MBARRIER_INIT, 0, 0, NULL);
    lir_emit(b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
    lir_close(b);
    lir_label(b, ready);
    lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    lower_begin_tmem(lo, warp);
    lower_early_start(lo);
    if (tir_is_clustered(lo->fn->plan)) { /* the other block's barriers, too */
        lir_emit(b, LIR_CLUSTER_ARRIVE, 0, 0, NULL);
        lir_emit(b, LIR_CLUSTER_WAIT, 0, 0, NULL);
        return;
    }
    lir_emit(b, LIR_BAR_SYNC, 0, 1, &zero);
}

static void
set_registers(Lowering *lo, LirOpcode op, uint32_t n)
{
    LirOperand operand = lir_int(n);

    if (n > 0)
        lir_emit(&lo->b, op, 0, 1, &operand);
}

/* Warp 1 of the producer's group issues the consumers' products. */
static void
lower_issuing_warp(Lowering *lo, LirReg warp, uint32_t end)
{
    LirBuilder *b = &lo->b;
    LirReg group = lo->role->group;

    LirReg idle = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(warp), lir_int(1));
    lir_branch(b, end, idle, false);
    lir_open(b, false);
    if (lower_multiplies_in_pairs(lo)) { /* that of the first block issues for both */
        idle = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(lower_pair_rank(lo)), lir_int(0));
        lir_branch(b, end, idle, false);
    }
    lower_section(lo, "mma", tir_role_span(lo->fn, tir_program(lo->fn->plan, ROLE_MMA)));
    lo->role->kind = ROLE_MMA;
    lo->role->group = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(1)); /* for the first consumer */
    lo->role->elected = lo->role->first_lane = lower_elect(lo);
    lower_tiles(lo, tir_program(lo->fn->plan, ROLE_MMA));
    lir_branch(b, end, 0, false);
    lir_close(b);
    lo->role->group = group;
}

/* Warp `warp` of the producer's group adds what consumer `warp` - 1 leaves; others do nothing. */
static void
lower_adding_warps(Lowering *lo, LirReg warp, uint32_t end)
{
    LirBuilder *b = &lo->b;
    LirReg group = lo->role->group;
    LirOperand none = lir_int(0);

    LirReg idle = lir_op2(b, LIR_SETP_GT_S32, LIR_PRED, lir_reg(warp),
                          lir_int(tir_consumers(lo->fn->plan)));
    lir_branch(b, end, idle, false);
    lir_open(b, false);
    lower_section(lo, "reduce", tir_role_span(lo->fn, tir_program(lo->fn->plan, ROLE_REDUCE)));
    lo->role->kind = ROLE_REDUCE;
    lo->role->group = warp;
    lo->role->first_lane = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lower_lane(lo)),
                                   lir_int(0));
    lower_tiles(lo, tir_program(lo->fn->plan, ROLE_REDUCE));
    lir_emit(b, LIR_BULK_WAIT, 0, 1, &none);
    lir_branch(b, end, 0, false);
    lir_close(b);
    lo->role->group = group;
}

static void
lower_consumers(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;

    lir_open(b, false);
    lower_section(lo, "computing warp groups", tir_role_span(lo->fn, lo->fn->body));
    lo->role->kind = ROLE_CONSUMER;
    /* registers are short, and addresses cheap */
    lo->b.hoist = lo->b.hoist && tir_role(plan, ROLE_CONSUMER)->pressure == 0;
    /* likewise, and ptxas shares what it can */
    lo->b.share = lo->b.share && tir_role(plan, ROLE_CONSUMER)->pressure < 2;
    set_registers(lo, LIR_SETMAXNREG_INC, tir_role(plan, ROLE_CONSUMER)->registers);
    lo->role->first_lane = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(lower_lane(lo)),
                                   lir_int(0));
    if (lower_multiplies_in_pairs(lo))
        lower_begin_pairs(lo);
    if (tir_has_pingpong(lo->fn))
        begin_pingpong(lo);
    if (plan->tmem_columns > 0 && !lower_keeps_bounds(lo)) /* else found again for each tile */
        (void)lower_tmem_part(lo);
    lower_find_homes(lo);
    lower_tiles(lo, lo->fn->body);
    lower_end_stores(lo);
    lower_end_tmem(lo);
    lir_close(b);
}

void
lower_roles(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    const TirPlan *plan = lo->fn->plan;
    Role role = {.kind = ROLE_CONSUMER};
    uint32_t compute = lir_new_label(b), end = lir_new_label(b);

    lower_add_maps(lo);
    for (uint32_t k = 0; k < lo->fn->memories.n; k++)
        lir_add_param(
            lo->out, LIR_PARAM_MEMORY, LIR_B64,
            arena_printf(lo->out->arena, "%s_%s", lo->fn->name, lo->fn->memories.at[k].name), k, 0);
    lo->out->threads = tir_block_warps(plan) * WARP_LANES;
    lo->out->min_blocks = target_blocks(lo->px->target, tir_role_registers(plan));
    if (tir_is_clustered(plan)) {
        lo->out->cluster[0] = 2;
        lo->out->cluster[1] = lo->out->cluster[2] = 1;
    }
    LirReg thread = lir_op1(b, LIR_MOV_U32, LIR_B32, lir_symbol("%tid.x"));
    LirReg number = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(thread), lir_int(7));
    if (lo->fn->warps > GROUP_WARPS) /* of the only consumer's warp groups each is the first */
        number = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(number), lir_int(1));
    role.group = lir_new_reg(b, LIR_B32);
    LirOperand from_first[] = {lir_reg(role.group), lir_reg(number), lir_int(0)};
    lir_emit(b, LIR_SHFL_IDX, 1, 3, from_first);
    LirReg warp = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(thread), lir_int(5));
    LirReg same_warp = lir_new_reg(b, LIR_B32);
    LirOperand of_warp[] = {lir_reg(same_warp), lir_reg(warp), lir_int(0)};
    lir_emit(b, LIR_SHFL_IDX, 1, 3, of_warp);
    LirReg in_group = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(same_warp),
                              lir_int(lo->fn->warps - 1));
    role.warp = in_group;
    role.first_warp = lir_op2(b, LIR_SETP_EQ_S32, LIR_PRED, lir_reg(in_group), lir_int(0));
    lo->role = &role;
    set_up(lo, thread, same_warp);
    lower_find_tmem(lo);
    LirReg computes = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(role.group), lir_int(0));
    lir_branch(b, compute, computes, false);

    lir_open(b, false);
    lower_section(lo, "producer", tir_role_span(lo->fn, tir_program(plan, ROLE_PRODUCER)));
    role.kind = ROLE_PRODUCER;
    set_registers(lo, LIR_SETMAXNREG_DEC, tir_role(plan, ROLE_PRODUCER)->registers);
    bool apart = tir_adding_warps(plan) > 0;
    bool adds = tir_program(plan, ROLE_REDUCE) != NULL && !apart, issues = tir_has_issuer(plan);
    uint32_t adding = adds || issues ? lir_new_label(b) : end;
    if (adds || issues) {
        LirOpcode is_other = lower_scale_warps(lo) > 0 ? LIR_SETP_EQ_S32 : LIR_SETP_NE_S32;
        LirReg other = lir_op2(b, is_other, LIR_PRED, lir_reg(same_warp),
                               lir_int(is_other == LIR_SETP_EQ_S32));
        lir_branch(b, adding, other, false);
    }
    lower_producer(lo, thread, same_warp, end);
    lir_close(b);
    if (adds || issues)
        lir_label(b, adding);
    if (adds)
        lower_adding_warps(lo, same_warp, end);
    if (issues)
        lower_issuing_warp(lo, same_warp, end);

    lir_label(b, compute);
    if (apart)
        lower_further_group(lo, ROLE_REDUCE, same_warp, end);
    if (tir_role(plan, ROLE_CORRECTION) != NULL)
        lower_further_group(lo, ROLE_CORRECTION, same_warp, end);
    lower_consumers(lo);
    lir_label(b, end);
    lo->role = NULL;
}
