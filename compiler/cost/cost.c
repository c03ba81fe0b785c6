/* cost.c - the cost model: time, registers and shared memory of a kernel on a target.
 *
 * The program is walked once.  Each operation adds to the units that it keeps busy; a loop counts
 * as often as it would run over NOMINAL_EXTENT indices.  The units of an SM work at once, but not
 * perfectly: a block's time is that of the busiest of tensor unit and shared memory, part of
 * that of the other one, and a share of the rest, which fewer blocks on an SM hide less well.
 *
 * Registers are those of the values alive together, by their layouts, plus the fragments that
 * products load.  What that takes beside the units' time is the chip's (LoopTimes).
 */
#include "compiler/cost/cost.h"

#include "compiler/ir/layout.h"
#include "compiler/ir/op_units.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

/* Registers of a thread: round figures for ptxas 13.0, chosen together with the chips' LoopTimes
 * (backends/ptx/targets.h, tests/api/unit/test_cost.c). */
enum {
    PLAIN_REGISTERS = 28, /* besides tiles: addresses, counters, fragments */
    SPARED = 13,      /* of these, how many code that needs nearly all registers can do without */
    SPILL_MARGIN = 8, /* free registers that ptxas needs to schedule well */
    LEFT_ALIVE = 7,   /* if fewer stay free in the lowered code, it is likely to spill */
    SAFE_ALIVE = 24,  /* if so many stay free, it does not */
    TIGHT = 35, /* the estimate may be so much too low: closer to the limit, lower and count */
    MOST_SPILLED = 64 /* kernels that spill more are never the best */
};

/* The extent of a range that a loop steps through, where it is not known: long enough for the
 * steady state to count most. */
enum { NOMINAL_EXTENT = 4096 };

/* How often a branch that rows take by themselves (@by_rows) is taken: seldom; a round figure. */
static const double rare = 0.15;

typedef struct Interval {
    const TirVal *value;
    int32_t from, to; /* positions of the definition and the last use */
    int32_t registers;
} Interval;

typedef struct Model {
    PassContext *px;
    TirFn *fn;
    Cost *cost;
    CostUnits *units;
    double weight;
    int32_t position;
    Interval *live; /* by id of the value */
    int32_t *extra; /* registers needed at a position only */
    int32_t n_positions;
    int64_t keep_budget;
    const TirVal **kept;
    uint32_t n_kept;
    double elements; /* moved to and from global memory */
    uint32_t depth;  /* of loops */
    double whole; /* size of all tiles of the grid together, relative to the tensors they cover */
    bool exposed; /* a copy is under way that was just started */
    bool in_turn; /* a copy is under way that a product ran in front of */
    bool waited;  /* for one, in this iteration */
} Model;

static int64_t
bytes_of(TirType type)
{
    return tir_type_elements(type) * (int64_t)dtype_bits(type.dtype) / 8;
}

static int32_t
ceil_div(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

/* Elements that all threads together work on, copies counted. */
static double
lane_elements(const Model *m, const TirVal *value)
{
    if (value->type.rank == 0 || value->layout == NULL)
        return 0;
    return (double)layout_registers(value->layout) * WARP_LANES * m->fn->warps;
}

/* ---- registers ---- */

static bool
is_alias(const TirOp *op)
{
    return op->op == TIR_BROADCAST || op->op == TIR_EXPAND || op->op == TIR_SQUEEZE ||
           op->op == TIR_TRANSPOSE || tir_is_mask(op);
}

/* The value whose registers `value` is made of. */
static const TirVal *
root_of(const TirVal *value)
{
    while (value->def != NULL && is_alias(value->def))
        value = value->def->args[0];
    return value;
}

static int32_t
value_registers(const TirVal *value)
{
    if (value->type.rank == 0 || value->layout == NULL || value->type.dtype == DT_BOOL)
        return 0;
    if (value->def != NULL) {
        if (is_alias(value->def) || value->def->op == TIR_CONST || value->def->op == TIR_IOTA ||
            value->def->op == TIR_SHARED_READ)
            return 0;
    }
    return (layout_registers(value->layout) * (int32_t)dtype_bits(value->type.dtype) + 31) / 32;
}

static void
define(Model *m, const TirVal *value, int32_t position)
{
    m->live[value->id] = (Interval){value, position, position, value_registers(value)};
}

static void
use(Model *m, const TirVal *value, int32_t position)
{
    Interval *interval = &m->live[root_of(value)->id];

    if (interval->to < position)
        interval->to = position;
}

static bool
is_kept(const Model *m, const TirVal *value)
{
    for (uint32_t k = 0; k < m->n_kept; k++) {
        if (m->kept[k] == value)
            return true;
    }
    return false;
}

/* Operands of products in a loop that stay in registers over it: the lowering's rule. */
static void
find_kept(Model *m, const TirOp *loop, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t b = 0; b < op->n_blocks; b++)
            find_kept(m, loop, op->blocks[b]);
        for (uint32_t k = 0; op->op == TIR_MMA && k < 2; k++) {
            bool transposed;
            const TirVal *value = op->args[k];
            const TirOp *read = view_source(value, &transposed);
            if (read == NULL || read->parent == block || read->parent != loop->parent ||
                count_uses_in(loop->blocks[0], value) != 1)
                continue;
            bool left = (k == 0) != op->swap_ab;
            int64_t need = tir_type_elements(value->type) / 2 / WARP_LANES /
                           (int64_t)(left ? op->warps_m : op->warps_n);
            if (need > m->keep_budget)
                continue;
            m->keep_budget -= need;
            m->cost->kept += (int32_t)need;
            m->kept[m->n_kept++] = value;
        }
    }
}

static uint32_t
count_ops(const TirBlock *block)
{
    uint32_t n = 0;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);)
        n++;
    return n;
}

/* Fragments that a product loads while it runs: those of its left operand for one step, and two
 * pairs of right ones. */
static int32_t
fragment_registers(const Model *m, const TirOp *op)
{
    int32_t n = 0;

    for (uint32_t k = 0; k < 2; k++) {
        const TirVal *value = op->args[k];
        bool transposed, left = (k == 0) != op->swap_ab;
        if (view_source(value, &transposed) == NULL || is_kept(m, value))
            continue;
        int32_t outer = value->type.dim[k == 0 ? 0 : 1];
        n += left ? 4 * ceil_div(outer,
                                 product_form_alone(m->px->target, op)->m * (int32_t)op->warps_m)
                  : 4;
    }
    return n;
}

static void
live_block(Model *m, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        int32_t at = ++m->position;
        for (uint32_t k = 0; k < op->n_args; k++)
            use(m, op->args[k], at);
        if (op->op == TIR_MMA)
            m->extra[at] += fragment_registers(m, op);
        int32_t end = at;
        for (uint32_t b = 0; b < op->n_blocks; b++) {
            m->position = at; /* branches stand side by side */
            for (uint32_t k = 0; k < op->blocks[b]->params.n; k++)
                define(m, op->blocks[b]->params.at[k], at);
            live_block(m, op->blocks[b]);
            end = m->position + 1 > end ? m->position + 1 : end;
        }
        m->position = end;
        for (uint32_t k = 0; k < op->n_results; k++)
            define(m, op->results[k], m->position);
    }
}

/* What a loop uses from outside stays alive until the loop ends. */
static void
extend_over_loops(Model *m, const TirBlock *block, int32_t *position)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        int32_t first = ++*position, end = first;
        for (uint32_t b = 0; b < op->n_blocks; b++) {
            *position = first;
            extend_over_loops(m, op->blocks[b], position);
            end = *position + 1 > end ? *position + 1 : end;
        }
        *position = end;
        if (op->op != TIR_FOR)
            continue;
        for (uint32_t k = 0; k < m->fn->next_id; k++) {
            Interval *interval = &m->live[k];
            if (interval->value != NULL && interval->from < first && interval->to > first &&
                interval->to < *position)
                interval->to = *position;
        }
    }
}

static int32_t
most_registers(Model *m)
{
    int32_t *change = arena_array(m->px->arena, int32_t, m->n_positions + 2);
    int32_t most = 0, now = 0;

    for (uint32_t k = 0; k < m->fn->next_id; k++) {
        const Interval *interval = &m->live[k];
        if (interval->value == NULL || interval->registers == 0)
            continue;
        change[interval->from] += interval->registers; /* in place of operands that end there */
        change[interval->to] -= interval->to > interval->from ? interval->registers : 0;
        if (interval->to == interval->from)
            change[interval->from + 1] -= interval->registers;
    }
    for (int32_t at = 0; at <= m->n_positions; at++) {
        now += change[at];
        if (now + m->extra[at] > most)
            most = now + m->extra[at];
    }
    return most;
}

static void
estimate_registers(Model *m)
{
    int32_t position = 0;

    m->n_positions = (int32_t)(2 * count_ops(m->fn->body) + 2);
    m->live = arena_array(m->px->arena, Interval, m->fn->next_id + 1);
    m->extra = arena_array(m->px->arena, int32_t, m->n_positions + 2);
    live_block(m, m->fn->body);
    extend_over_loops(m, m->fn->body, &position);
    m->cost->registers = most_registers(m) + m->cost->kept + PLAIN_REGISTERS;
}

/* ---- time ---- */

static void
cost_mma(Model *m, const TirOp *op)
{
    const TirVal *a = op->args[0], *b = op->args[1];
    const MmaForm *form = product_form_alone(m->px->target, op);
    double warps = m->fn->warps, rate = target_mma_flops(m->px->target, form);
    int32_t rows = op->results[0]->type.dim[op->swap_ab ? 1 : 0];
    int32_t cols = op->results[0]->type.dim[op->swap_ab ? 0 : 1];
    int32_t steps = ceil_div(a->type.dim[1], form->k);
    int32_t left = ceil_div(rows, form->m * (int32_t)op->warps_m);
    int32_t right = ceil_div(cols, form->n * (int32_t)op->warps_n);

    m->units->tensor += m->weight * warps * left * right * steps *
                        (2.0 * form->m * form->n * form->k) / rate;
    m->cost->work += m->weight * rows * cols * (double)b->type.dim[0];
    m->units->lanes += m->weight * warps * left * right * steps * WARP_LANES /
                       m->px->target->chip.float_ops;
    for (uint32_t k = 0; k < 2; k++) {
        bool transposed, is_left = (k == 0) != op->swap_ab;
        if (view_source(op->args[k], &transposed) == NULL || is_kept(m, op->args[k]))
            continue;
        double bytes = warps * steps * form->step_bytes *
                       (is_left ? left * form->m : right * form->n);
        m->units->shared += m->weight * bytes / m->px->target->chip.shared_bytes;
    }
}

double
cost_share(const TirOp *op, uint32_t block)
{
    if (op->op != TIR_IF || !op->by_rows)
        return 1;
    return block == 0 ? rare : 1 - rare;
}

/* The last tile of an axis may reach past its end. */
static double
whole_tiles(const TirOp *store)
{
    double whole = 1;

    for (TirDims d = tir_dims(store); tir_dims_next(&d);) {
        if ((d.range || d.strided) && d.length < NOMINAL_EXTENT)
            whole *= (double)ceil_div(NOMINAL_EXTENT, d.length) * d.length / NOMINAL_EXTENT;
    }
    return whole;
}

static void
add_arithmetic(const Target *target, const OpUse *use, double elements, CostUnits *units)
{
    units->special += use->mufu * elements / target->chip.special_ops;
    units->lanes += use->alu * elements / target->chip.float_ops;
}

static void
cost_op(Model *m, const TirOp *op)
{
    const Target *target = m->px->target;
    CostUnits *units = m->units;
    double weight = m->weight;
    const TirVal *value = op->n_results > 0 ? op->results[0] : NULL;

    switch (op->op) {
    case TIR_MMA:
        cost_mma(m, op);
        m->in_turn |= m->exposed;
        m->exposed = false;
        return;
    case TIR_BARRIER: units->barriers += weight; return;
    case TIR_ASYNC_WAIT:
        units->waits += m->exposed ? weight : 0;
        units->turns += m->in_turn ? weight : 0;
        m->waited |= m->in_turn;
        m->exposed = m->in_turn = false;
        return;
    case TIR_COPY_ASYNC: {
        m->exposed |= m->depth > 0 && op->shared->stages == 1;
        double bytes = (double)bytes_of(tir_index_type(op));
        units->shared += weight * bytes / target->chip.shared_bytes;
        units->global += weight * bytes / target->chip.global_bytes;
        return;
    }
    case TIR_LOAD:
    case TIR_STORE: {
        double bytes = (double)bytes_of(tir_index_type(op));
        units->global += weight * bytes / target->chip.global_bytes;
        if (op->op == TIR_STORE && m->depth == 0)
            m->whole = whole_tiles(op);
        m->elements += weight * (double)tir_type_elements(tir_index_type(op));
        return;
    }
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD: {
        const TirVal *added = op->args[op->n_args - 1];
        units->atomic += weight * target->addition_clocks * (double)tir_type_elements(added->type);
        return;
    }
    case TIR_SHARED_WRITE:
        units->shared += weight * (double)bytes_of(op->args[1]->type) / target->chip.shared_bytes;
        return;
    case TIR_CONVERT:
        if (op->shared != NULL)
            units->shared += weight * 2 * (double)bytes_of(value->type) / target->chip.shared_bytes;
        else
            units->lanes += weight * lane_elements(m, value) / target->chip.float_ops;
        return;
    default: break;
    }
    /* two shuffles over a row's four lanes, each at a quarter of the rate of f32 operations */
    if (tir_combines(op))
        units->lanes += weight * 8 * lane_elements(m, value) / target->chip.float_ops;
    OpUse use = op_use(op);
    if (use.of != NULL && !use.at_edges)
        add_arithmetic(target, &use, weight * lane_elements(m, use.of), units);
}

/* Whether `value` is computed from `index` by scalar operations. */
static bool
depends_on(const TirVal *value, const TirVal *index, uint32_t depth)
{
    if (value == index)
        return true;
    if (value->def == NULL || value->type.rank != 0 || depth > 8 || value->def->n_blocks > 0)
        return false;
    for (uint32_t k = 0; k < value->def->n_args; k++) {
        if (depends_on(value->def->args[k], index, depth + 1))
            return true;
    }
    return false;
}

/* The length of the ranges that a loop steps through; 0: it steps through single indices. */
static int32_t
loop_step(const TirBlock *block, const TirVal *index)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
            if ((d.range || d.strided) && depends_on(d.at, index, 0))
                return d.length;
        }
        for (uint32_t b = 0; b < op->n_blocks; b++) {
            int32_t step = loop_step(op->blocks[b], index);
            if (step > 0)
                return step;
        }
    }
    return 0;
}

/* A partial last tile takes as long as a full one, plus the time for its masks. */
static double
loop_trips(const Target *target, const TirOp *loop)
{
    double masked = target->chip.loop_times.masked_more;
    int32_t step = loop_step(loop->blocks[0], loop->blocks[0]->params.at[0]);

    if (step == 0)
        return 1;
    return ceil_div(NOMINAL_EXTENT, step) + (NOMINAL_EXTENT % step != 0 ? masked : 0);
}

static void
cost_block(Model *m, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        double weight = m->weight;
        cost_op(m, op);
        if (op->op == TIR_FOR) {
            m->weight *= loop_trips(m->px->target, op);
            m->units->iterations += m->weight;
            m->units->rounds += has_own_mma(op->blocks[0]) ? m->weight : 0;
            m->depth++;
            m->exposed = m->in_turn = m->waited = false;
            if (m->n_kept == 0)
                find_kept(m, op, op->blocks[0]);
        }
        double each = m->weight;
        for (uint32_t b = 0; b < op->n_blocks; b++) {
            m->weight = each * cost_share(op, b);
            cost_block(m, op->blocks[b]);
        }
        if (op->op == TIR_FOR) {
            m->depth--;
            /* by the next iteration */
            m->units->turns += m->in_turn && !m->waited ? each : 0;
        }
        m->weight = weight;
    }
}

/* ---- limits ---- */

/* By all but its shared memory. */
static int32_t
most_blocks_on_sm(const Target *target, const Cost *cost, uint32_t warps)
{
    int32_t threads = WARP_LANES * (int32_t)warps;
    int32_t registers = cost->registers > target->registers_per_thread
                            ? target->registers_per_thread
                            : cost->registers;
    registers = ceil_div(registers, REGISTER_STEP) * REGISTER_STEP;
    int32_t by_registers = target->chip.registers_per_sm / (registers * threads);
    int32_t by_threads = target->chip.threads_per_sm / threads;
    int32_t blocks = by_registers < by_threads ? by_registers : by_threads;
    blocks = blocks < target->chip.blocks_per_sm ? blocks : target->chip.blocks_per_sm;
    return blocks < 1 ? 1 : blocks;
}

static int32_t
blocks_on_sm(const Target *target, const Cost *cost)
{
    int32_t by_shared = target->chip.shared_per_sm /
                        (cost->shared_bytes + target->chip.shared_reserved);

    return by_shared < cost->most_blocks ? by_shared : cost->most_blocks;
}

/* Of a block's work, in an SM that has `blocks` blocks at once, each of which takes so many times
 * as long. */
static double
clocks_beside(const Target *target, uint32_t warps, const Cost *cost, int32_t blocks)
{
    const LoopTimes *times = &target->chip.loop_times;
    const CostUnits *u = &cost->units;
    double larger = u->tensor > u->shared ? u->tensor : u->shared;
    double smaller = u->tensor > u->shared ? u->shared : u->tensor;
    double rest = u->special + u->lanes;
    int32_t share = blocks < 3 ? blocks - 1 : 2;
    double clocks = larger + times->not_hidden * smaller + times->rest_not_hidden[share] * rest +
                    u->atomic;

    clocks += blocks == 1 ? times->barrier_wait * u->barriers : times->round_wait * u->rounds;
    clocks += times->copy_wait * u->waits / blocks + times->turn_wait * u->turns;
    if (blocks * (int32_t)warps < FULL_WARPS)
        clocks *= times->few_warps;
    clocks *= 1 + times->spill * cost->spilled;
    return clocks < u->global ? u->global : clocks;
}

static void
finish(const Target *target, uint32_t warps, double elements, Cost *cost)
{
    int32_t most = target->registers_per_thread;

    cost->fits = true;
    cost->spilled = cost->registers + SPILL_MARGIN > most ? cost->registers + SPILL_MARGIN - most
                                                          : 0;
    if (cost->shared_bytes > target->chip.shared_per_block) {
        cost->fits = false;
        cost->misfit = "shared memory";
    } else if (cost->spilled > MOST_SPILLED) {
        cost->fits = false;
        cost->misfit = "registers";
    }
    cost->most_blocks = most_blocks_on_sm(target, cost, warps);
    cost->blocks = cost->fits ? blocks_on_sm(target, cost) : 0;
    if (cost->blocks < 1)
        cost->blocks = 1;
    cost->clocks = clocks_beside(target, warps, cost, cost->blocks);
    for (int32_t k = 0; k < COST_CROWDS; k++)
        cost->beside[k] = clocks_beside(target, warps, cost,
                                        k + 1 < COST_CROWDS ? k + 1 : cost->most_blocks);
    if (cost->work <= 0)
        cost->work = elements;
    cost->per_work = cost->work > 0 ? 1024 * cost->clocks / cost->work : cost->clocks;
}

void
cost_estimate(PassContext *px, TirFn *fn, Cost *cost)
{
    Model m = {.px = px, .fn = fn, .cost = cost, .units = &cost->units, .weight = 1, .whole = 1};

    *cost = (Cost){.shared_bytes = (int32_t)fn->shared_bytes};
    m.keep_budget = px->target->registers_per_thread - BESIDE_KEPT -
                    accumulator_elements(fn->body) / (WARP_LANES * (int64_t)fn->warps);
    if (!switch_is_on(px, "keep-operands"))
        m.keep_budget = 0;
    m.kept = arena_array(px->arena, const TirVal *, count_ops(fn->body) + 1);
    cost_block(&m, fn->body);
    estimate_registers(&m);
    finish(px->target, fn->warps, m.elements, cost);
    cost->per_work *= m.whole;
}

bool
cost_is_tight(const Target *target, const Cost *cost)
{
    return cost->registers + TIGHT > target->registers_per_thread;
}

static void
lengthen(Cost *cost, double times)
{
    cost->clocks *= times;
    for (uint32_t k = 0; k < COST_CROWDS; k++)
        cost->beside[k] *= times;
    cost->per_work *= times;
}

double
cost_at_best(const Target *target, const Cost *cost)
{
    double spill = target->chip.loop_times.spill;
    int32_t least = cost->spilled > SPARED ? cost->spilled - SPARED : 0;

    if (cost->alive > 0)
        return cost->per_work;
    return cost->per_work * (1 + spill * least) / (1 + spill * cost->spilled);
}

/* What exceeds the limit ptxas takes from what the loop only reads, as far as that goes: these come
 * back by one load each in an iteration, and none is stored in it. */
bool
cost_settle(const Target *target, const LirNeed *need, Cost *cost)
{
    const LoopTimes *times = &target->chip.loop_times;
    int32_t left = target->registers_per_thread - (int32_t)need->with_masks;
    int32_t over = left < LEFT_ALIVE ? LEFT_ALIVE - left : 0;
    int32_t held = over < (int32_t)need->held ? over : (int32_t)need->held;
    int32_t near = left < LEFT_ALIVE ? LEFT_ALIVE : left;
    double more = (double)held / (need->instructions > 0 ? need->instructions : 1);

    if (near < SAFE_ALIVE)
        more += times->near_spill * (SAFE_ALIVE - near) / (SAFE_ALIVE - LEFT_ALIVE);
    if (over > held)
        more += times->may_spill + times->spill * (over - held);
    lengthen(cost, (1 + more) / (1 + times->spill * cost->spilled));
    cost->alive = (int32_t)need->with_masks;
    cost->spilled = over - held;
    return over == 0;
}

/* ---- the guess ---- */

/* Whether `value` is loaded, perhaps transposed. */
static const TirOp *
load_of(const TirVal *value)
{
    const TirOp *def = value->def;

    while (def != NULL && def->op == TIR_TRANSPOSE)
        def = def->args[0]->def;
    return def != NULL && def->op == TIR_LOAD ? def : NULL;
}

typedef struct Guess {
    Model m;
    uint32_t warps, depth; /* of loops */
    int64_t bytes[2];      /* of shared memory: outside of loops and in them, for each stage */
    bool mmas;
} Guess;

/* The fewest bytes that the warps read of a product's operands, over all divisions of it. */
static double
least_reads(const MmaForm *form, const TirOp *op, uint32_t warps)
{
    TirType type = op->results[0]->type;
    double a = load_of(op->args[0]) != NULL ? (double)bytes_of(op->args[0]->type) : 0;
    double b = load_of(op->args[1]) != NULL ? (double)bytes_of(op->args[1]->type) : 0;
    double least = (a + b) * warps;

    for (uint32_t down = 1; down <= warps; down *= 2) {
        uint32_t across = warps / down;
        if (type.dim[0] % (form->m * (int32_t)down) != 0 ||
            type.dim[1] % (form->n * (int32_t)across) != 0)
            continue;
        double reads = a * across + b * down;
        least = reads < least ? reads : least;
    }
    return least;
}

/* Elements that must be held at once: what a loop carries and the largest new product in it. */
static int64_t
least_held(const TirBlock *block)
{
    int64_t most = 0;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        int64_t held = 0;
        for (uint32_t b = 0; b < op->n_blocks; b++) {
            int64_t inner = least_held(op->blocks[b]);
            held = inner > held ? inner : held;
        }
        if (op->op == TIR_MMA && op->args[2]->def != NULL && op->args[2]->def->op == TIR_CONST)
            held = tir_type_elements(op->results[0]->type);
        if (op->op == TIR_FOR && loop_step(op->blocks[0], op->blocks[0]->params.at[0]) > 0) {
            for (uint32_t k = 0; k < op->n_results; k++)
                held += op->results[k]->type.rank == 2 ? tir_type_elements(op->results[k]->type)
                                                       : 0;
        }
        most = held > most ? held : most;
    }
    return most;
}

static void
guess_block(Guess *g, const TirBlock *block)
{
    Model *m = &g->m;
    const Target *target = m->px->target;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        double weight = m->weight;
        if (op->op == TIR_MMA) {
            TirType type = op->results[0]->type;
            const MmaForm *form = product_form_alone(m->px->target, op);
            double steps = ceil_div(op->args[0]->type.dim[1], form->k);
            double work = (double)tir_type_elements(type) * op->args[0]->type.dim[1];
            g->mmas = true;
            m->cost->work += weight * work;
            m->units->tensor += weight * 2 * steps * form->k * ceil_div(type.dim[0], form->m) *
                                form->m * ceil_div(type.dim[1], form->n) * form->n /
                                target_mma_flops(target, form);
            m->units->shared += weight * least_reads(form, op, g->warps) /
                                target->chip.shared_bytes;
        } else if (op->op == TIR_LOAD && op->results[0]->type.rank == 2) {
            int64_t bytes = bytes_of(op->results[0]->type);
            m->units->shared += weight * (double)bytes / target->chip.shared_bytes;
            m->units->global += weight * (double)bytes / target->chip.global_bytes;
            if (target_warp_mma(target, op->tensor->dtype, op->tensor->dtype) != NULL)
                g->bytes[g->depth > 0] += bytes;
        } else if (tir_is_atomic(op)) {
            m->units->atomic += weight * target->addition_clocks *
                                (double)tir_type_elements(tir_index_type(op));
        } else {
            OpUse use = op_use(op);
            if (op_use_is_steady(&use))
                add_arithmetic(target, &use, weight * (double)tir_type_elements(use.of->type),
                               m->units);
        }
        if (op->op == TIR_FOR) {
            m->weight *= loop_trips(m->px->target, op);
            g->depth++;
        }
        double each = m->weight;
        for (uint32_t b = 0; b < op->n_blocks; b++) {
            m->weight = each * cost_share(op, b);
            guess_block(g, op->blocks[b]);
        }
        g->depth -= op->op == TIR_FOR;
        m->weight = weight;
    }
}

CostGuess
cost_guess(PassContext *px, const TirFn *fn, uint32_t warps)
{
    CostGuess guess = {.warps = warps};
    Guess g = {.m = {.px = px, .cost = &guess.cost, .units = &guess.cost.units, .weight = 1},
               .warps = warps};

    guess_block(&g, fn->body);
    guess.cost.registers = PLAIN_REGISTERS +
                           (int32_t)(least_held(fn->body) / (WARP_LANES * (int64_t)warps));
    guess.once = g.mmas ? g.bytes[0] : 0;
    guess.staged = g.mmas ? g.bytes[1] : 0;
    return guess;
}

void
cost_guess_with(PassContext *px, const CostGuess *guess, uint32_t stages, Cost *cost)
{
    *cost = guess->cost;
    cost->shared_bytes = (int32_t)(guess->once + stages * guess->staged);
    finish(px->target, guess->warps, 0, cost);
}
