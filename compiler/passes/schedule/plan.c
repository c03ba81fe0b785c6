/* plan.c - whether and how warp groups share the work of a block.
 *
 *   level    tile IR, fused
 *   needs    px->plan.consumers: how many warp groups compute (0: no plan is wanted)
 *   does     looks for the main loop (the one with products), for a grid axis whose neighbouring
 *            programs can share a block (`consumers`: each one is run by a warp group, and what
 *            does not depend on the axis is loaded once for all), and decides which loads become
 *            pipelines, which products have swap_ab, and whether products of one iteration are
 *            computed under the arithmetic of the next
 *   leaves   fn->plan, fn->warps; pipelines, without place, on the loads they replace; products
 *            marked `async`.  Pass `roles` makes the roles from that.  When no plan fits, nothing
 *            changes and a remark says why; the kernel then goes the way that every target has.
 *
 * What a consumer is.  A kernel is one program for each point of its grid.  Two programs that
 * differ in one index of the grid only, say the tile of rows, have loads in common: those whose
 * addresses do not use that index.  A block runs `consumers` such programs side by side, one a warp
 * group, and loads what they have in common once.  So a consumer is a program of the language
 * unchanged, and nothing that the passes know of one has to be learned again for the block.
 *
 * Swapping A and B.  A warp group's product has 64 rows, or several blocks of them.  The dimension
 * that lies along the consumer's own rows is the one that must become the rows of the instruction;
 * when it is the columns of the product, the product is computed transposed.
 */
#include "compiler/passes/schedule/planner.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/accesses.h"
#include "compiler/passes/util/copy_casts.h"
#include "compiler/passes/util/iterations.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/read_once.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

enum {
    /* registers of a thread that are not missed: what is left for others is a round number */
    ROUNDED = 4
};

int64_t
plan_overlapped(int64_t result, int64_t bits)
{
    return result + result * bits / 32 + result / 8 + (bits < 16 ? 4 : 0);
}

bool
plan_overlap_fits(const Target *target, uint32_t consumers, int64_t registers)
{
    return registers + BESIDE_SUMS <= (int64_t)target->role_registers[consumers].consumer + ROUNDED;
}

/* ---- the main loop and its products ---- */

/* The kernel has no main loop: says what it has in place of one. */
static bool
refuse_without_loop(Planner *p)
{
    const TirOp *loop = NULL, *product = NULL;

    for (TirWalk walk = tir_walk(p->fn->body); tir_walk_next(&walk);) {
        loop = loop == NULL && walk.op->op == TIR_FOR ? walk.op : loop;
        product = product == NULL && walk.op->op == TIR_MMA ? walk.op : product;
    }
    return product != NULL ? refuse(p, product->span, "its products are in no loop")
           : loop != NULL  ? refuse(p, loop->span, "its loop has no products")
                           : refuse(p, p->fn->span, "it has no products");
}

static bool
find_main_loop(Planner *p)
{
    for (TirWalk walk = tir_walk(p->fn->body); tir_walk_next(&walk);) {
        if (tir_fetches(walk.op))
            return refuse(p, walk.op->span,
                          "an atomic statement gives what was there, which the threads of a block "
                          "learn together");
        if (tir_is_access(walk.op->op) && tir_has_steps(walk.op))
            return refuse(p, walk.op->span, "a range stands in a subscript whose indices lie apart");
    }
    const TirBlock *body = p->fn->body;
    uint32_t all = count_mmas(body), direct = 0;

    for (uint32_t depth = 0; direct == 0; depth++) {
        TirOp *found = NULL;
        for (uint32_t i = 0; i < body->ops.n; i++) {
            TirOp *op = body->ops.at[i];
            direct += op->op == TIR_MMA;
            if (op->op != TIR_FOR || count_mmas(op->blocks[0]) == 0)
                continue;
            if (found != NULL)
                return refuse(p, op->span, "there are two loops with products");
            found = op;
        }
        if (found == NULL)
            break;
        if (direct > 0)
            return refuse(p, found->span, "there are products in a loop and around it");
        p->loop = found;
        body = found->blocks[0];
        if (depth > 0 && found->parent->owner->n_segments > 1)
            return refuse(p, found->span, "the loop around the main loop is split");
    }
    const TirOp *branch = branch_with_mmas(body);
    if (p->loop == NULL && branch != NULL)
        return refuse(p, branch->span, "the products are in a branch");
    if (p->loop == NULL)
        return refuse_without_loop(p);
    if (direct != all)
        return refuse(
            p, p->loop->span,
            "there are products outside of the main loop, or in a branch or loop inside it");
    return true;
}

/* Whether the producer knows which iterations the main loop, and those around it, have. */
static bool
check_bounds(Planner *p)
{
    for (const TirOp *loop = p->loop; loop != NULL; loop = loop->parent->owner) {
        for (uint32_t k = 0; k < loop_first_initial(loop); k++)
            if (!scalar_is_known_ahead(p->fn->arena, loop->args[k]))
                return refuse(p, loop->span, "the bounds of a loop depend on data");
    }
    return true;
}

/* Whether `value` is computed from what `load` has loaded, or in a loop that begins with that. */
static bool
follows_from(Arena *arena, const TirVal *value, const TirOp *load)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (def == load && in.value != value)
            return true;
        if (def != NULL && def->op == TIR_FOR)
            tir_inputs_add(&in, def->args[loop_first_initial(def) + in.value->index]);
        else if (def != NULL && def->op != TIR_IF)
            tir_inputs_follow(&in);
    }
    return false;
}

/* A tile that is changed where it is, as in `store C[m, n] = load C[m, n] + acc`: whatever is put
 * in another order, the store stays behind the load, and both are the consumer's own.  (A scalar
 * the producer loads as well.) */
static bool
is_change_in_place(const TirFn *fn, const AccessPair *pair)
{
    const TirOp *load = pair->earlier, *store = pair->later;

    return load->op == TIR_LOAD && store->op == TIR_STORE && pair->around == NULL &&
           load->results[0]->type.rank > 0 && access_same_place(pair) &&
           follows_from(fn->arena, store->args[store->n_args - 1], load);
}

static bool
is_never_settled(const TirFn *fn, const AccessPair *pair)
{
    (void)fn, (void)pair;
    return false;
}

/* Roles do things in another order than the program: the producer loads for later iterations,
 * additions and stores leave when the memory unit has time, consumers have parts of a tile that
 * other consumers touch. */
static bool
check_order(Planner *p)
{
    AccessWalk walk = {.fn = p->fn,
                       .settled = p->px->plan.cooperative ? is_never_settled : is_change_in_place};

    access_walk(&walk, p->fn->body);
    if (walk.found.earlier == NULL)
        return true;
    const TirOp *later = walk.found.later;
    return refuse(p, later->span,
                  later->op == TIR_LOAD ? "a load reads what the program may have written before"
                                        : "a program may write what it has read or written before");
}

/* ---- overlapping ---- */

/* Whether a thread issues products, whose results lie in tensor memory. */
static bool
is_issued(const Planner *p)
{
    return target_issuer(p->px->target) == BY_THREAD;
}

/* A bound of the registers a thread of a warp group needs for results of products: those that live
 * over iterations, and with `pipelined` all others at once with what they become, operands of later
 * products. */
static int64_t
result_registers(const TirOp *loop, bool pipelined)
{
    const TirBlock *body = loop->blocks[0];
    int64_t total = 0, bits = 0;

    for (uint32_t i = body->ops.n; i-- > 0;) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA || tir_is_added_to(body, op->results[0]))
            continue;
        int64_t own = dtype_bits(op->args[0]->type.dtype);
        bits = own > bits ? own : bits;
        int64_t n = tir_type_elements(op->results[0]->type) / GROUP_LANES;
        bool fresh = op->args[2]->def != NULL && op->args[2]->def->op == TIR_CONST;
        total += fresh && pipelined ? plan_overlapped(n, bits) : n;
    }
    return total;
}

const char *
plan_lacks_registers(const Target *target, const TirFn *fn, const TirOp *loop)
{
    uint32_t consumers = tir_consumers(fn->plan);
    int64_t registers = result_registers(loop, true);

    if (plan_overlap_fits(target, consumers, registers))
        return NULL;
    return arena_printf(fn->arena,
                        "pipelined=1 needs %d registers of a thread for results of products and %d "
                        "others, and there are %u",
                        (int)registers, BESIDE_SUMS,
                        target->role_registers[consumers].consumer + ROUNDED);
}

/* ---- pipelines ---- */

/* What brings the tile of a load to `to`. */
static TirShared *
make_pipeline(Planner *p, TirOp *load, RoleKind to, uint32_t stages)
{
    TirShared *pipeline = tir_buffer_new(p->fn, SHARED_PIPELINE, load->tensor->name,
                                         load->results[0]->type, stages);
    bool apart = false;

    for (uint32_t k = 0; k < load->n_args; k++)
        apart = apart || p->depends[load->args[k]->id];
    pipeline->from = ROLE_PRODUCER;
    pipeline->to = to;
    pipeline->each = apart;
    return pipeline;
}

/* Stages of the pipelines of the main loop. */
static uint32_t
stages_of(const Planner *p)
{
    uint32_t pinned = p->px->stages > 0 ? p->px->stages : (uint32_t)p->loop->hints.stages;

    return pinned > 0 ? pinned : p->px->plan.stages;
}

/* The parts of a tile have pipelines one behind the other. */
static void
make_pipelines_of_parts(Planner *p, const TirVal *operand, RoleKind to, uint32_t stages)
{
    const TirOp *own = tir_untransposed(operand)->def;

    for (uint32_t k = 0; own != NULL && own->op == TIR_OWN && k < own->n_args; k++) {
        TirOp *load = own->args[k]->def;
        if (load->shared == NULL)
            load->shared = make_pipeline(p, load, to, stages);
        load->shared->of_consumer = k + 1;
    }
}

/* What brings the scales of a product that a thread issues. */
static void
make_pipelines_of_scales(Planner *p, const TirOp *mma, RoleKind to, uint32_t stages)
{
    for (uint32_t k = TIR_MMA_PLAIN; k < mma->n_args; k++) {
        bool transposed;
        TirOp *load = graph_base(mma->args[k], &transposed)->def;
        uint32_t axis = k == TIR_MMA_PLAIN ? 1 : 0;
        load->shared = make_pipeline(p, load, to, stages);
        load->shared->scales = (uint8_t)(1 + (transposed ? 1 - axis : axis));
        load->shared->places = 1;
    }
}

static void
make_pipelines(Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];
    const PlanHints *hints = &p->px->plan;
    RoleKind to = is_issued(p) ? ROLE_MMA : ROLE_CONSUMER;
    uint32_t stages = stages_of(p);

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA)
            continue;
        op->async = true;
        for (uint32_t k = 0; k < 2; k++) {
            TirOp *load = planner_load(op->args[k]);
            make_pipelines_of_parts(p, op->args[k], to, stages);
            if (load == NULL || load->shared != NULL)
                continue;
            load->shared = make_pipeline(p, load, to,
                                         load->parent == body ? stages : hints->q_stages);
        }
        if (is_issued(p))
            make_pipelines_of_scales(p, op, to, stages);
    }
}

/* Pipelines of the main loop's tiles that no product reads, where shared memory has room beside
 * those of products: consumers read them in their registers.  (Those of the mma role load them
 * themselves.) */
static void
copy_other_tiles(Planner *p)
{
    TirBlock *body = p->loop->blocks[0];
    uint32_t stages = stages_of(p);

    for (uint32_t i = 0; i < body->ops.n && !is_issued(p); i++) {
        TirOp *op = body->ops.at[i];
        read_bytes_once(p->fn, body, i);
        if (!planner_copies(p, op)) {
            if (op->op == TIR_LOAD && op->results[0]->type.rank == 2 && op->shared == NULL &&
                op->tensor->align % 16 != 0)
                diag_remark(
                    p->px->diag, op->span,
                    "each warp group loads these elements of '%s' itself, in each iteration; "
                    "`align(16)` at the tensor lets one thread copy them ahead for all",
                    op->tensor->name);
            continue;
        }
        TirShared *pipeline = make_pipeline(p, op, ROLE_CONSUMER, 0);
        pipeline->in_registers = true;
        uint32_t room = plan_stages_beside(p->px->target, p->fn, body, pipeline);
        pipeline->stages = room < stages ? room : stages;
        op->shared = pipeline->stages > 0 ? pipeline : NULL;
        p->fn->shared.n -= op->shared == NULL;
    }
}

static bool
writes_once_more(const Planner *p, const TirOp *op)
{
    for (TirWalk walk = tir_walk_op(op); tir_walk_next(&walk);)
        if (tir_writes(walk.op) && !writes_nothing_past(p->fn, p->axis, walk.op))
            return true;
    return false;
}

/* Whether consumers differ in the iterations of a loop.  Of the main loop those do not count that
 * masks leave out, since they do nothing, nor that some programs have none because they have no
 * rows. */
static bool
differs(const Planner *p, const TirOp *loop)
{
    if (!p->depends[loop->args[0]->id] && !p->depends[loop->args[1]->id])
        return false;
    if (loop != p->loop)
        return true;
    uint32_t apart = loop->masked ? loop->apart : iterations_apart(p->fn->arena, p->fn->body, loop);
    return (apart >> p->axis & 1) != 0;
}

/* Consumers that share out a product meet in each of its iterations: whether they have the same
 * ones of the loops around the main loop, and nothing to do in those of that which others have. */
static bool
check_coop_k_bounds(Planner *p)
{
    for (const TirOp *loop = p->loop; loop != NULL && tir_has_coop_k(p->fn);
         loop = loop->parent->owner) {
        if (differs(p, loop))
            return refuse(p, loop->span,
                          "warp groups that share out a product do not have the same iterations");
    }
    return true;
}

/* Consumers that share out a product all go through all iterations, one past the end of the axis as
 * well: whether nothing is written there but sums of such products. */
static bool
check_coop_k_writes(Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];
    bool coop_k = tir_has_coop_k(p->fn);

    for (uint32_t i = 0; i < body->ops.n && coop_k; i++) {
        const TirOp *op = body->ops.at[i],
                    *value = op->n_args > 0 ? op->args[op->n_args - 1]->def : NULL;
        if (writes_once_more(p, op) && (op->op != TIR_ATOMIC_ADD || value == NULL || !value->coop_k))
            return refuse(p, op->span,
                          "memory is written in a loop that all warp groups go through together");
    }
    return true;
}

/* A consumer past the end of its axis goes through what stands before the main loop, and through
 * loops around that one: whether nothing is written there.  (What stands behind them is tested
 * for.) */
static bool
check_writes(Planner *p)
{
    const TirOp *inner = p->loop;

    if ((p->px->plan.consumers < 2 && !p->px->plan.paired) || p->axis == NO_AXIS)
        return true;
    for (;;) {
        const TirBlock *block = inner->parent;
        bool behind = false;
        for (uint32_t i = 0; i < block->ops.n; i++) {
            const TirOp *op = block->ops.at[i];
            behind = behind || op == inner;
            if (op == inner || (behind && block == p->fn->body) || !writes_once_more(p, op))
                continue;
            return refuse(p, op->span,
                          "memory is written before the main loop, or in a loop around it");
        }
        if (block == p->fn->body)
            return check_coop_k_bounds(p) && check_coop_k_writes(p);
        inner = block->owner;
    }
}

/* Whether grid axis `axis` can be that of the consumers; leaves what follows from it. */
static bool
try_axis(Planner *p, uint32_t axis)
{
    TirFn *fn = p->fn;

    p->axis = axis;
    p->depends = arena_array(fn->arena, bool, fn->next_id + 1);
    p->along = arena_array(fn->arena, uint8_t, fn->next_id + 1);
    p->brought = p->brought != NULL ? p->brought : arena_array(fn->arena, bool, fn->next_id + 1);
    AxisDependence dependence = {axis, p->depends, p->along,
                                 p->px->plan.consumers << (p->px->plan.paired && is_issued(p))};
    plan_axis_dependence(&dependence, fn->body);
    return planner_check_mmas(p) && check_writes(p);
}

/* Elements of the tiles that a block loads in an iteration for its products, when the consumers lie
 * along the axis that was tried last. */
static int64_t
loaded_elements(const Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];
    /* one goes the way of several */
    uint32_t consumers = p->px->plan.consumers > 1 ? p->px->plan.consumers : 2;
    int64_t n = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        bool apart = false;
        if (op->op != TIR_LOAD || op->results[0]->type.rank != 2)
            continue;
        for (uint32_t k = 0; k < op->n_args; k++)
            apart = apart || p->depends[op->args[k]->id];
        n += tir_type_elements(op->results[0]->type) * (apart ? consumers : 1);
    }
    return n;
}

static uint32_t
swapped_mmas(const Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];
    uint32_t n = 0;

    for (uint32_t i = 0; i < body->ops.n; i++)
        n += body->ops.at[i]->op == TIR_MMA && body->ops.at[i]->swap_ab;
    return n;
}

/* The axis with which a block, which does as much whatever the axis, loads the least; of several,
 * the one with which the fewest products have swap_ab. */
static bool
choose_axis(Planner *p)
{
    int64_t least = INT64_MAX;
    Planner best = *p;

    for (uint32_t axis = 0; axis < p->fn->grid.n; axis++) {
        int64_t cost = try_axis(p, axis) ? loaded_elements(p) << 16 | swapped_mmas(p) : INT64_MAX;
        if (cost < least) {
            least = cost;
            best = *p;
        }
    }
    if (least == INT64_MAX)
        return false;
    *p = best;
    p->why = NULL; /* other axes' reasons */
    return planner_check_mmas(p) && check_writes(p);
}

/* Whether the products of the main loop can read both operands in shared memory. */
static bool
reads_shared(const Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];
    bool reads = true;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        const MmaForm *form = product_form(p->px->target, op);
        reads = reads && (op->op != TIR_MMA || (form != NULL && (form->a & IN_SHARED) != 0));
    }
    return reads;
}

/* Has the consumers divide one program's tiles; it is as it was when that can not be. */
static bool
divide_tiles(Planner *p)
{
    const PlanHints *hints = &p->px->plan;
    TirBlock *before = clone_body(p->fn, p->fn->body);
    int32_t registers = (int32_t)p->px->target->role_registers[hints->consumers].consumer;
    Span where = p->loop->span;

    if (!reads_shared(p))
        return refuse(p, where,
                      "parts of tiles take instructions that read both operands in shared memory");
    if (hints->consumers < 2)
        return refuse(p, where, "one warp group has nobody to divide a tile with");
    const char *why = plan_cooperative(p->fn, p->loop, hints->consumers, registers, &where);
    if (why == NULL && try_axis(p, NO_AXIS))
        return true;
    p->fn->body = before;
    return why == NULL ? false : refuse(p, where, why);
}

/* Makes pairs of the blocks, if that was asked for; that they can not be is no reason to have no
 * plan. */
static void
pair_blocks(Planner *p)
{
    Span where = p->loop->span;

    if (!p->px->plan.paired)
        return;
    const char *why = plan_can_pair(p->px->target, p->fn, p->loop, &where);
    if (why == NULL) {
        plan_pairs(p->px->target, p->fn, p->loop);
        return;
    }
    plan_not_kept(p->px, p->fn, where, arena_printf(p->fn->arena, "cluster=2: %s", why));
}

/* Its first product is of stage -1, with what makes its operands. */
static void
mark_lookahead(Planner *p)
{
    Lookahead lookahead;

    if (!lookahead_find(p->fn, p->loop->blocks[0], &lookahead))
        return;
    for (uint32_t k = 0; k < lookahead.needs.n; k++)
        lookahead.needs.at[k]->stage = -1;
}

/* Whether two blocks can share an SM, if that was asked for. */
static bool
check_blocks(Planner *p)
{
    const Target *target = p->px->target;
    int64_t registers = target->half_registers.consumer;

    if (!p->px->plan.two_blocks)
        return true;
    if (registers == 0)
        return refuse(
            p, p->loop->span,
            "blocks=2 is for targets whose warp groups have registers of their own number");
    if (p->px->plan.consumers != 1 || p->px->plan.paired)
        return refuse(p, p->loop->span,
                      "blocks=2 is for blocks of one computing warp group, not in clusters");
    if (result_registers(p->loop, true) + BESIDE_SUMS > registers)
        return refuse(
            p, p->loop->span,
            "the results of products take more registers than a warp group has with blocks=2");
    return true;
}

/* Its roles, and what tells `roles` how to write their programs. */
static void
make_plan(Planner *p, bool lookahead)
{
    PassContext *px = p->px;
    TirFn *fn = p->fn;
    const PlanHints *hints = &px->plan;
    const Target *target = px->target;
    Graph graph = plan_issue(target, fn, p->loop, hints->consumers);
    uint32_t warps = plan_consumer_warps(&graph), n = hints->consumers * warps / GROUP_WARPS, adder;

    fn->plan = arena_new(fn->arena, TirPlan);
    *fn->plan = (TirPlan){
        .tiles = {.scheduler = plan_scheduler(px), .axis = p->axis},
    };
    RoleRegisters beside;
    bool apart = plan_adds_apart(target, fn, &graph, hints->consumers, &adder, &beside);
    RoleRegisters of = hints->two_blocks     ? target->half_registers
                       : apart               ? beside
                       : warps > GROUP_WARPS ? target->dynamic_registers[n]
                                             : target->role_registers[n];
    bool scaled = false;
    for (uint32_t k = 0; k < graph.products.n; k++)
        scaled = scaled || graph.products.at[k].scales[0] != NULL;
    if (scaled)
        of.producer = target->producer_with_scales;
    tir_role_add(fn, ROLE_PRODUCER, 1, 1, of.producer);
    tir_role_add(fn, ROLE_CONSUMER, fn->warps = warps, hints->consumers, of.consumer);
    if (is_issued(p))
        tir_role_add(fn, ROLE_MMA, 1, 1, 0);
    if (apart)
        tir_role_add(fn, ROLE_REDUCE, GROUP_WARPS, 1, adder);
    TirRole *consumer = tir_role(fn->plan, ROLE_CONSUMER);
    if (lookahead)
        mark_lookahead(p);
    int32_t results = (int32_t)result_registers(p->loop, false),
            registers = (int32_t)consumer->registers;
    consumer->pressure = is_issued(p)                   ? 0
                         : results * 10 > registers * 7 ? 2
                         : results * 2 > registers      ? 1
                                                        : 0;
}

/* Whether the kernel as it is can have the plan, before an axis is looked for. */
static bool
may_have_plan(Planner *p)
{
    bool ok = p->fn->hint_warps == 0 || refuse(p, p->fn->span, "@warps fixes the warps of a block");

    ok = ok && find_main_loop(p) && check_bounds(p) && check_blocks(p);
    const char *not_issued = ok ? plan_cannot_correct(p->px, p->fn, p->loop) : NULL;
    if (ok && not_issued == NULL)
        not_issued = plan_issue(p->px->target, p->fn, p->loop, p->px->plan.consumers).why;
    return ok && (not_issued == NULL || refuse(p, p->loop->span, not_issued));
}

bool
plan_is_refused(PassContext *px, const TirFn *fn)
{
    Planner p = {.px = px, .fn = with_copy_casts(px, fn)};

    return px->plan.consumers == 0 || !target_has_roles(px->target) || !may_have_plan(&p);
}

bool
plan_is_hopeless(PassContext *px, TirFn *fn)
{
    Planner p = {.px = px, .fn = fn};
    bool hopeless = target_has_roles(px->target) && find_main_loop(&p);

    for (uint32_t axis = 0; hopeless && axis < fn->grid.n; axis++, p.by_shape = false)
        hopeless = !try_axis(&p, axis) && p.by_shape;
    return hopeless;
}

bool
pass_plan(PassContext *px, TirFn *fn)
{
    Planner p = {.px = px, .fn = fn};
    const PlanHints *hints = &px->plan;

    if (hints->consumers == 0 || !target_has_roles(px->target))
        return false;
    TirBlock *before = fold_copy_casts(px, fn);
    bool lookahead = false, ok = may_have_plan(&p);
    px->refused = !ok;
    if (ok && hints->cooperative) {
        ok = check_order(&p);
        if (ok && hints->consumers > 1)
            plan_preload(fn, p.loop->blocks[0]);
        ok = ok && divide_tiles(&p);
    } else {
        ok = ok && choose_axis(&p) && check_order(&p);
        Graph graph = ok ? plan_issue(px->target, fn, p.loop, hints->consumers) : (Graph){0};
        const char *not_issued = graph_place(px->target, fn, &graph);
        ok = ok && (not_issued == NULL || refuse(&p, p.loop->span, not_issued));
        if (ok && hints->consumers > 1) {
            /* Not where a product begins ahead: it is what waits for the first vectors of an
             * iteration then. */
            lookahead = plan_has_lookahead(px, fn, p.loop, stages_of(&p));
            if (!lookahead && !is_issued(&p)) /* a result in tensor memory begins with zero */
                plan_preload(fn, p.loop->blocks[0]);
            p.brought = NULL; /* what was loaded may be read otherwise now */
            ok = try_axis(&p, p.axis);
        }
    }
    if (!ok) {
        fn->body = before != NULL ? before : fn->body;
        diag_remark(px->diag, p.where, "no plan for warp groups in kernel '%s': %s", fn->name,
                    p.why);
        /* a plan in the source holds where its products can be issued so: as on targets without
         * roles */
        if (is_issued(&p) && px->plan_span.lo != 0)
            diag_warning(px->diag, px->plan_span, "the plan of kernel '%s' is not used on %s: %s",
                         fn->name, px->target->name, p.why);
        else if (px->plan_span.lo != 0) /* else who asked for it is told without */
            plan_not_kept(px, fn, p.where, p.why);
        px->no_plan = p.why;
        px->no_plan_at = p.where;
        return false;
    }
    if (plan_lengthen_inner(px->target, fn, p.loop->blocks[0]))
        try_axis(&p, p.axis);
    make_plan(&p, lookahead);
    plan_add_correction(px, fn, p.loop);
    make_pipelines(&p);
    copy_other_tiles(&p);
    plan_spare_stage(px->target, fn, p.loop->blocks[0]);
    if (hints->cooperative && plan_has_lookahead(px, fn, p.loop, stages_of(&p)))
        mark_lookahead(&p);
    pair_blocks(&p);
    plan_count_blocks(px->target, fn);
    plan_drawing(p.px, p.fn, p.loop);
    fn->plan->tiles.reversed = plan_has_reversed_raster(fn);
    plan_tile_order(px->target, fn, p.loop->blocks[0]);
    plan_settle_first_programs(fn, fn->body);
    plan_report_tiles(px, fn);
    return true;
}
