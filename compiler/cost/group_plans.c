/* group_plans.c - enumerates divisions, and counts their registers, shared memory and traffic.
 *
 *   registers   accumulators that live over the loop, and the largest set of new results that are
 *               alive together; half as much again with `pipelined`, because the last result is
 *               still an operand, of 16 bits, while the next one is computed
 *   memory      tiles of the loop have two stages; the one that is needed last may have one if two
 *               do not fit and no iteration runs ahead.  Tiles loaded before the loop have one, and
 *               results stored after the loop reuse it.  Values that products read from shared
 *               memory have one place, and so have results that leave in each iteration, in the
 *               type in which they leave
 *   traffic     for every 64 rows and every part of its columns a product reads its left operand,
 *               unless that is in registers, and its right one; values are written once, results
 *               that leave are written and read
 *
 * A left operand can stay in registers when each warp group has just the rows that it needs: its
 * maker's warp groups lie along the same dimension, each with all of the other one.
 */
#include "compiler/cost/group_plans.h"

#include "compiler/cost/mma_use.h"

enum {
    DEPTH_OF_ELEMENT = 64, /* the depth for which traffic is quoted where a loop goes along it */
    MOST_WAYS = 16,        /* of dividing the products of one division */
    MOST_TRIED = 4096      /* combinations of them; more are cut, and the list says so */
};

/* A product as a warp group's instructions see it: transposed, when it is swapped. */
typedef struct View {
    int32_t rows, cols;
    uint32_t row_groups, col_groups;
} View;

/* One way to divide the products of a division. */
typedef struct Way {
    bool swapped;
    uint32_t row_groups;
} Way;

typedef struct Space {
    Arena *arena;
    const Target *target;
    const Flow *flow;
    uint32_t stages; /* pinned; 0: not */
    GroupPlans *out;
    bool cut; /* there were more divisions than are tried */
    Way ways[FLOW_MMAS][MOST_WAYS];
    uint32_t n_ways[FLOW_MMAS];
    uint32_t tried;
} Space;

static View
view_of(const FlowMma *p, uint32_t consumers, bool swapped, uint32_t row_groups)
{
    View view = {p->m, p->n, row_groups, consumers / row_groups};

    if (swapped)
        view = (View){p->n, p->m, consumers / row_groups, row_groups};
    return view;
}

static View
plan_view(const Flow *flow, const GroupPlan *plan, uint32_t k)
{
    uint32_t d = flow->mmas[k].division;
    return view_of(&flow->mmas[k], plan->consumers, plan->swapped[d], plan->row_groups[d]);
}

/* Whether the instructions can do this division: the accumulators fit into the registers that a
 * thread has when the block starts (ptxas allots no more to any instruction), and reductions stay
 * within a row of threads. */
static bool
is_legal(const Target *target, const FlowMma *p, uint32_t consumers, Way way)
{
    View view = view_of(p, consumers, way.swapped, way.row_groups);
    uint32_t along = way.swapped ? 0 : 1; /* the dimension that one thread and its quad have */

    /* what an instruction computes beyond them nobody reads, and zeros follow the operands' last
     * columns: pass `plan` looks whether they do */
    if (view.rows % (GROUP_ROWS * (int32_t)view.row_groups) != 0 ||
        view.cols % (MATRIX_COLUMNS * (int32_t)view.col_groups) != 0 || p->k % MATRIX_COLUMNS != 0)
        return false;
    if (!target_holds_result(target, consumers, 1, view.cols / (int32_t)view.col_groups))
        return false;
    if (p->reduced[1 - along])
        return false;
    return !p->reduced[along] || view.col_groups == 1;
}

static void
find_ways(Space *s, uint32_t consumers)
{
    for (uint32_t d = 0; d < s->flow->divisions; d++) {
        s->n_ways[d] = 0;
        for (uint32_t groups = 1; groups <= consumers; groups++) {
            for (uint32_t swapped = 0; swapped < 2 && consumers % groups == 0; swapped++) {
                Way way = {swapped == 1, groups};
                bool legal = s->n_ways[d] < MOST_WAYS;
                for (uint32_t k = 0; k < s->flow->n_mmas; k++) {
                    const FlowMma *p = &s->flow->mmas[k];
                    legal = legal && (p->division != d || is_legal(s->target, p, consumers, way));
                }
                if (legal)
                    s->ways[d][s->n_ways[d]++] = way;
            }
        }
    }
}

/* ---- operands ---- */

/* What the instructions' left operand is, when products are swapped or not. */
static FlowOperand
left_operand(const Flow *flow, const GroupPlan *plan, uint32_t k, bool *is_right)
{
    const FlowMma *p = &flow->mmas[k];

    *is_right = plan->swapped[p->division];
    return *is_right ? p->b : p->a;
}

/* Whether the left operand of product `k` can be what its maker's threads hold. */
static bool
can_stay(const Flow *flow, const GroupPlan *plan, uint32_t k)
{
    bool right;
    FlowOperand operand = left_operand(flow, plan, k, &right);

    if (operand.origin != FLOW_COMPUTED)
        return false;
    const FlowValue *value = &flow->values[operand.index];
    View maker = plan_view(flow, plan, value->mma), view = plan_view(flow, plan, k);
    bool maker_swapped = plan->swapped[flow->mmas[value->mma].division];
    /* the dimension of the value that the instructions have as rows: 0, its rows; and of its maker
     */
    uint32_t dim = (operand.transposed ? 1u : 0u) ^ (right ? 1u : 0u);
    dim ^= value->transposed ? 1u : 0u;
    return dim == (maker_swapped ? 1u : 0u) && maker.col_groups == 1 && view.col_groups == 1 &&
           maker.rows == view.rows;
}

static void
place_operands(const Flow *flow, GroupPlan *plan)
{
    plan->from_registers = plan->staged = 0;
    for (uint32_t k = 0; k < flow->n_mmas; k++) {
        const FlowMma *p = &flow->mmas[k];
        bool stays = can_stay(flow, plan, k), right;
        FlowOperand left = left_operand(flow, plan, k, &right), other = right ? p->a : p->b;
        if (stays && plan->registers_wanted)
            plan->from_registers |= (uint32_t)1 << k;
        else if (left.origin == FLOW_COMPUTED)
            plan->staged |= (uint32_t)1 << left.index;
        if (other.origin == FLOW_COMPUTED)
            plan->staged |= (uint32_t)1 << other.index;
    }
}

/* ---- what it takes ---- */

static int32_t
accumulator(const FlowMma *p, uint32_t consumers)
{
    return p->m * p->n / (int32_t)(consumers * GROUP_LANES);
}

static void
count_registers(const Flow *flow, GroupPlan *plan)
{
    int32_t kept = 0, most = 0;

    for (uint32_t k = 0; k < flow->n_mmas; k++) {
        const FlowMma *p = &flow->mmas[k];
        int32_t members = 0, largest = 0;
        if (p->onto)
            continue;
        if (p->carried) {
            kept += accumulator(p, plan->consumers);
            continue;
        }
        for (uint32_t j = 0; j < flow->n_mmas; j++) {
            const FlowMma *other = &flow->mmas[j];
            if (other->alive != p->alive || other->carried || other->onto)
                continue;
            int32_t n = accumulator(other, plan->consumers);
            members++;
            largest = n > largest ? n : largest;
        }
        most = members * largest > most ? members * largest : most;
    }
    plan->registers = kept + (plan->pipelined ? most + most / 2 : most);
}

static int64_t
tile_bytes(const FlowTile *tile)
{
    return (int64_t)tile->rows * tile->cols * dtype_bits(tile->value->type.dtype) / 8;
}

static int64_t
value_bytes(const FlowValue *value)
{
    return (int64_t)value->rows * value->cols * dtype_bits(value->value->type.dtype) / 8;
}

static int64_t
shared_bytes(const Flow *flow, const GroupPlan *plan)
{
    int64_t pipelines = 0, stay = 0, rest = 0;

    for (uint32_t k = 0; k < flow->n_tiles; k++) {
        if (flow->tiles[k].in_loop)
            pipelines += tile_bytes(&flow->tiles[k]) * plan->stages[k];
        else
            stay += tile_bytes(&flow->tiles[k]);
    }
    for (uint32_t k = 0; k < flow->n_values; k++)
        rest += (plan->staged >> k & 1) != 0 ? value_bytes(&flow->values[k]) : 0;
    for (uint32_t k = 0; k < flow->n_mmas; k++)
        rest += (int64_t)flow->mmas[k].m * flow->mmas[k].n * flow->mmas[k].output_bytes;
    if (stay == 0) /* what leaves at the end takes the place of the pipelines */
        return pipelines + rest > flow->final_bytes ? pipelines + rest : flow->final_bytes;
    return pipelines + rest + (stay > flow->final_bytes ? stay : flow->final_bytes);
}

/* The first product of the next iteration can begin early only if no other new result is alive with
 * it: else the registers do not suffice. */
static bool
can_pipeline(const Flow *flow)
{
    uint32_t fresh = 0, carried = 0;

    for (uint32_t k = 0; k < flow->n_mmas; k++) {
        fresh += !flow->mmas[k].carried && !flow->mmas[k].onto;
        carried += flow->mmas[k].carried;
    }
    return fresh == 1 && carried > 0 && flow->n_values > 0;
}

/* The tile of the loop that is needed last, if not at once. */
static uint32_t
last_tile(const Flow *flow)
{
    uint32_t last = flow->n_tiles;

    for (uint32_t k = 0; k < flow->n_tiles; k++) {
        const FlowTile *tile = &flow->tiles[k];
        if (tile->in_loop && tile->first_use > 0 &&
            (last == flow->n_tiles || tile->first_use > flow->tiles[last].first_use))
            last = k;
    }
    return last;
}

static bool
fit_memory(const Space *s, GroupPlan *plan)
{
    const Flow *flow = s->flow;
    uint32_t last = last_tile(flow);

    for (uint32_t k = 0; k < flow->n_tiles; k++)
        plan->stages[k] = (uint8_t)(!flow->tiles[k].in_loop ? 1 : s->stages > 0 ? s->stages : 2);
    plan->shared_bytes = shared_bytes(flow, plan);
    if (plan->shared_bytes > s->target->group_tile_bytes && s->stages == 0 && !can_pipeline(flow) &&
        last < flow->n_tiles) {
        plan->stages[last] = 1;
        plan->shared_bytes = shared_bytes(flow, plan);
    }
    return plan->shared_bytes <= s->target->group_tile_bytes;
}

static void
count_traffic(const Target *target, const Flow *flow, GroupPlan *plan)
{
    plan->traffic = plan->copied = 0;
    for (uint32_t k = 0; k < flow->n_mmas; k++) {
        const FlowMma *p = &flow->mmas[k];
        View view = plan_view(flow, plan, k);
        bool left_in_shared = (plan->from_registers >> k & 1) == 0;
        const MmaForm *form = target_role_mma(target, p->op->args[0]->type.dtype,
                                              p->op->args[1]->type.dtype);
        MmaUse use = mma_use(target, form, view.rows, view.cols / (int32_t)view.col_groups, p->k,
                             left_in_shared);
        plan->traffic += (int64_t)(view.col_groups * use.bytes);
        plan->traffic += 2 * (int64_t)p->m * p->n * p->output_bytes;
    }
    for (uint32_t k = 0; k < flow->n_values; k++)
        plan->traffic += (plan->staged >> k & 1) != 0 ? value_bytes(&flow->values[k]) : 0;
    for (uint32_t k = 0; k < flow->n_tiles; k++)
        plan->copied += flow->tiles[k].in_loop ? tile_bytes(&flow->tiles[k]) : 0;
    const FlowMma *first = &flow->mmas[0];
    plan->per_element = (double)plan->traffic / ((double)first->m * first->n);
    if (first->open_depth)
        plan->per_element *= (double)DEPTH_OF_ELEMENT / first->k;
}

/* ---- all of them ---- */

/* Whether statistics of one product are where the other one's rows are. */
static bool
keeps_ties(const Flow *flow, const GroupPlan *plan)
{
    for (uint32_t k = 0; k < flow->n_ties; k++) {
        uint32_t a = flow->ties[k][0], b = flow->ties[k][1];
        if (plan->swapped[flow->mmas[a].division] == plan->swapped[flow->mmas[b].division] ||
            plan_view(flow, plan, a).row_groups != plan_view(flow, plan, b).row_groups)
            return false;
    }
    return true;
}

static void
add_plan(Space *s, GroupPlan plan)
{
    if (!keeps_ties(s->flow, &plan))
        return;
    place_operands(s->flow, &plan);
    if (plan.registers_wanted && plan.from_registers == 0)
        return; /* the same plan as without the wish */
    count_registers(s->flow, &plan);
    if (plan.registers > plan.register_limit || !fit_memory(s, &plan))
        return;
    count_traffic(s->target, s->flow, &plan);
    vec_push(s->arena, s->out, plan);
}

/* Chooses ways for the divisions from `d` on. */
static void
choose_ways(Space *s, GroupPlan *plan, uint32_t d)
{
    for (uint32_t k = 0; d < s->flow->divisions && k < s->n_ways[d] && !s->cut; k++) {
        plan->swapped[d] = s->ways[d][k].swapped;
        plan->row_groups[d] = (uint8_t)s->ways[d][k].row_groups;
        choose_ways(s, plan, d + 1);
    }
    if (d < s->flow->divisions)
        return;
    if (s->tried++ >= MOST_TRIED) {
        s->cut = true;
        return;
    }
    for (uint32_t choice = 0; choice < 4; choice++) {
        plan->registers_wanted = (choice & 1) != 0;
        plan->pipelined = (choice & 2) != 0;
        if (!plan->pipelined || (can_pipeline(s->flow) && s->stages != 1))
            add_plan(s, *plan);
    }
}

bool
group_plans(Arena *arena, const Target *target, const Flow *flow, uint32_t consumers,
            uint32_t stages, GroupPlans *out)
{
    Space *s = arena_new(arena, Space);
    GroupPlan plan = {.consumers = consumers};

    *s = (Space){.arena = arena, .target = target, .flow = flow, .stages = stages, .out = out};
    if (consumers == 0 || consumers >= TARGET_GROUPS)
        return true;
    for (uint32_t k = 0; k < flow->n_mmas;
         k++) { /* a product that warp groups have no instruction for */
        const TirOp *op = flow->mmas[k].op;
        if (target_role_mma(target, op->args[0]->type.dtype, op->args[1]->type.dtype) == NULL)
            return true;
    }
    int32_t most = (int32_t)target->role_registers[consumers].consumer;
    if (most > target->registers_per_thread)
        most = target->registers_per_thread;
    plan.register_limit = most - target->group_other_registers[consumers];
    find_ways(s, consumers);
    choose_ways(s, &plan, 0);
    return !s->cut;
}
