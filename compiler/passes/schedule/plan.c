/* plan.c - whether and how warp groups share the work of a block.
 *
 *   level    tile IR, fused
 *   needs    px->plan.consumers: how many warp groups compute (0: no plan is wanted)
 *   does     looks for the main loop (the one with products), for a grid axis whose neighbouring
 *            programs can share a block (`consumers`: each one is run by a warp group, and what does
 *            not depend on the axis is loaded once for all), and decides which loads become pipelines,
 *            which products have swap_ab, and whether products of one iteration are computed under
 *            the arithmetic of the next
 *   leaves   fn->plan, fn->warps; pipelines, without place, on the loads they replace; products marked
 *            `async`.  Pass `roles` makes the roles from that.  When no plan fits, nothing changes
 *            and a remark says why; the kernel then goes the way that every target has.
 *
 * What a consumer is.  A kernel is one program for each point of its grid.  Two programs that differ in
 * one index of the grid only, say the tile of rows, have loads in common: those whose addresses do
 * not use that index.  A block runs `consumers` such programs side by side, one a warp group, and loads
 * what they have in common once.  So a consumer is a program of the language unchanged, and nothing
 * that the passes know of one has to be learned again for the block.
 *
 * Swapping A and B.  A warp group's product has 64 rows, or several blocks of them.  The dimension that lies along the
 * consumer's own rows is the one that must become the rows of the instruction; when it is the columns of the product,
 * the product is computed transposed.
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/passes/util/accesses.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

enum {
    FIX_ROUNDS = 64,
    /* registers of a thread that are not missed: what is left for others is a round number */
    ROUNDED = 4
};

typedef struct Planner {
    PassContext *px;
    TirFn *fn;
    TirOp *loop;     /* the main loop */
    uint32_t axis;   /* the consumer axis being tried */
    bool *depends;   /* by value: depends on the index of the consumer axis */
    uint8_t *along;  /* by value: bit d: dimension d runs along the consumer axis */
    const char *why; /* the reason why there is no plan */
    Span where;
} Planner;

static bool
refuse(Planner *p, Span where, const char *why)
{
    if (p->why == NULL) {
        p->why = why;
        p->where = where;
    }
    return false;
}

int64_t
plan_overlap_registers(int64_t result)
{
    return result + result / 2 + result / 8;
}

bool
plan_overlap_fits(const Target *target, uint32_t consumers, int64_t registers)
{
    return registers + BESIDE_SUMS <= (int64_t)target->role_registers[consumers].consumer + ROUNDED;
}

/* ---- the main loop and its products ---- */

static bool
find_main_loop(Planner *p)
{
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
        return refuse(p, p->fn->span, "no loop has products");
    direct = 0;
    for (uint32_t i = 0; i < p->loop->blocks[0]->ops.n; i++)
        direct += p->loop->blocks[0]->ops.at[i]->op == TIR_MMA;
    if (direct != all)
        return refuse(
            p, p->loop->span,
            "there are products outside of the main loop, or in a branch or loop inside it");
    return true;
}

/* The load behind an operand, through transposes and parts; NULL: it lies in registers. */
static TirOp *
load_behind(const TirVal *value)
{
    TirOp *def = value->def;

    while (def != NULL && (def->op == TIR_TRANSPOSE || def->op == TIR_PART || def->op == TIR_OWN))
        def = def->args[0]->def;
    return def != NULL && def->op == TIR_LOAD ? def : NULL;
}

/* Whether all that uses `value` are products, as an operand, through transposes. */
static bool
only_operand(const TirBlock *block, const TirVal *value)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] != value || (op->op == TIR_MMA && k < 2))
                continue;
            if ((op->op != TIR_TRANSPOSE && op->op != TIR_PART && op->op != TIR_OWN) ||
                !only_operand(op->parent, op->results[0]))
                return false;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (!only_operand(op->blocks[k], value))
                return false;
        }
    }
    return true;
}

/* Whether an index can be computed by the producer, for some iteration: pure scalar operations on
 * sizes, parameters, the grid, the number of the iteration, and what it loads by such an index. */
static bool
producer_can(const Planner *p, const TirVal *value)
{
    for (TirInputs in = tir_inputs(p->fn->arena, value); tir_inputs_next(&in);) {
        const TirBlock *block = in.value->block;
        bool number = in.value->def == NULL && block->owner != NULL &&
                      block->owner->op == TIR_FOR && in.value == block->params.at[0];
        if (number) /* of an iteration of the main loop or one around it */
            continue;
        if (in.value->def == NULL || !scalar_can_be_again(in.value->def))
            return false;
        tir_inputs_follow(&in);
    }
    return true;
}

/* Whether the producer knows which iterations the main loop, and those around it, have. */
static bool
check_bounds(Planner *p)
{
    for (const TirOp *loop = p->loop; loop != NULL; loop = loop->parent->owner) {
        for (uint32_t k = 0; k < loop_first_initial(loop); k++) {
            if (!producer_can(p, loop->args[k]))
                return refuse(p, loop->span, "the bounds of a loop depend on data");
        }
    }
    return true;
}

/* Whether TMA can bring the tile of a load, and the producer ask for it. */
static bool
check_load(Planner *p, const TirOp *load)
{
    const CopyForm *form = target_copy(p->px->target, COPY_TENSOR_LOAD);
    const TirTensor *tensor = load->tensor;
    uint32_t last = tensor->rank - 1;
    uint32_t next = 0, order[TENSOR_MAX_RANK];

    if (dtype_bits(tensor->dtype) != 16)
        return refuse(p, load->span, "an operand of a product does not have 16 bits");
    if (tensor->rank > form->rank || tensor->align % (uint32_t)form->unit != 0)
        return refuse(
            p, load->span,
            "a tensor has more than 5 dimensions or rows that are not aligned to 16 bytes");
    if (!tir_is_contiguous(load))
        return refuse(p, load->span, "a tile does not run along the tensor's last dimension");
    if (!tir_box_order(load, order))
        return refuse(p, load->span, "a tile has some parts of a pack of ranges, but not all");
    if (!box_may_end(load, form->rank))
        return refuse(p, load->span,
                      "a range ends elsewhere than the tensor that a product reads, along its last "
                      "dimension or one of several");
    if (load->n_limits > 0 && !producer_can(p, tir_limit_count(load, 0)))
        return refuse(p, load->span, "where a tile ends depends on data that the kernel computes");
    if (writes_tensor(p->fn->body, tensor))
        return refuse(p, load->span, "the kernel writes a tensor that its products read");
    if (!only_operand(p->fn->body, load->results[0]))
        return refuse(p, load->span, "a tile is an operand of a product and used otherwise, too");
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (d != last && load->index[d].kind != INDEX_SCALAR && load->index[d].length > form->box)
            return refuse(p, load->span, "a tile has more than 256 rows");
        if (load->index[d].kind == INDEX_FULL)
            continue;
        const TirVal *start = load->args[next++];
        if (!producer_can(p, start))
            return refuse(p, load->span, "the place of a tile depends on data");
        if (d == last && tir_factor(start) * (int32_t)dtype_bits(tensor->dtype) / 8 < form->unit)
            return refuse(p, load->span, "a tile does not begin at a multiple of 16 bytes");
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

/* A tile that is changed where it is, as in `store C[m, n] = load C[m, n] + acc`: whatever is put in another
 * order, the store stays behind the load, and both are the consumer's own.  (A scalar the producer loads as well.) */
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

/* Roles do things in another order than the program: the producer loads for later iterations, additions and
 * stores leave when the memory unit has time, consumers have parts of a tile that other consumers touch. */
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

/* Whether a load stands in the main loop or outside of all loops. */
static bool
check_place(Planner *p, const TirOp *load)
{
    if (load->parent == p->loop->blocks[0] || load->parent == p->fn->body)
        return true;
    return refuse(p, load->span, "a tile is loaded between the loops around the main loop");
}

/* Whether parts of a pack are among the indices of an access. */
static bool
is_packed(const TirOp *op)
{
    for (uint32_t d = 0; d < op->tensor->rank; d++) {
        if (op->index[d].rows > 0)
            return true;
    }
    return false;
}

/* A product that adds up over what the consumers have apart, and whose sum goes to memory: the consumers
 * exchange their parts of the left operand, and each computes a share of the result. */
static const char no_joint[] =
    "a product over all warp groups takes instructions that read both operands in shared memory";

static bool
check_coop_k(Planner *p, TirOp *op)
{
    uint32_t consumers = p->px->plan.consumers;
    const CopyForm *form = target_copy(p->px->target, COPY_TENSOR_ADD);
    const TirOp *add = plan_only_addition(p->loop->blocks[0], op->results[0]);
    TirOp *right = load_behind(op->args[1]);

    if (add == NULL)
        return refuse(p, op->span, "a product adds up over what the warp groups have apart");
    for (uint32_t k = 0; k + 1 < add->n_args; k++) {
        if (p->depends[add->args[k]->id])
            return refuse(p, op->span,
                          "a product over all warp groups is added to places that differ");
    }
    CoopKShare share = coop_k_share(op->results[0]->type, consumers);
    if ((target_role_mma(p->px->target, op->args[0]->type.dtype)->a & IN_SHARED) == 0)
        return refuse(p, op->span, no_joint);
    if (consumers > MOST_SHARING || share.rows == 0)
        return refuse(p, op->span,
                      "a product over all warp groups can not be shared out between them");
    if (form == NULL || add->tensor->dtype != DT_F32 || add->tensor->rank > form->rank ||
        add->tensor->align % (uint32_t)form->unit != 0 || !tir_is_contiguous(add) ||
        !box_may_be_written(add) || is_packed(add) || !box_may_end(add, form->rank) ||
        share.rows > form->box)
        return refuse(p, op->span, "TMA can not add to that tensor");
    if (right == NULL || right->parent != p->fn->body || op->args[1]->def != right ||
        load_behind(op->args[0]) != NULL || op->args[0]->type.dim[1] != GROUP_ROWS)
        return refuse(p, op->span, "a product over all warp groups has other operands than it may");
    op->coop_k = true;
    op->swap_ab = share.swap_ab;
    return check_load(p, right);
}

/* Whether a tile is followed, along dimension `dim`, by zeros enough for a whole step of an instruction: the tensor ends
 * there, and TMA fills in what is missing of a row.  Behind a tile's rows lies another tile, or nothing that was written. */
static bool
tile_ends_in_zeros(const TirVal *value, uint32_t dim)
{
    const TirOp *def = value->def;

    for (; def != NULL && def->op == TIR_TRANSPOSE; def = def->args[0]->def)
        dim = 1 - dim;
    return def != NULL && def->op == TIR_LOAD && dim == 1 &&
           def->index[def->tensor->rank - 1].kind == INDEX_FULL;
}

/* Whether operand `k` of a product is, along the dimension that is added up over. */
static bool
ends_in_zeros(const TirOp *mma, uint32_t k)
{
    return tile_ends_in_zeros(mma->args[k], 1 - k);
}

/* A product of parts that all consumers have computed, of which each consumer adds up some columns. */
static bool
check_columns(Planner *p, TirOp *op)
{
    int32_t rows = op->results[0]->type.dim[0], cols = op->results[0]->type.dim[1];
    TirOp *right = load_behind(op->args[1]);
    const MmaForm *form = target_role_mma(p->px->target, op->args[0]->type.dtype);

    if (form == NULL || op->args[1]->type.dtype != op->args[0]->type.dtype)
        return refuse(p, op->span, "warp groups have no product of these types");
    if ((form->a & IN_SHARED) == 0)
        return refuse(p, op->span, no_joint);
    if (rows != form->m || cols > form->n)
        return refuse(p, op->span,
                      "a sum over all warp groups has 64 rows, and up to 256 columns each");
    op->coop_k = true;
    op->swap_ab = false;
    return check_load(p, right) && check_place(p, right);
}

static bool
is_of_all_consumers(const TirVal *value)
{
    const TirOp *def = tir_untransposed(value)->def;

    return def != NULL && def->op == TIR_FROM;
}

/* A product that a thread issues for a consumer: of as many rows as tensor memory has, which are the consumer's; the
 * columns may be that, where both operands are loaded; or neither, where the result is added to memory. */
static bool
check_issued(Planner *p, TirOp *op, const MmaForm *form)
{
    TirType type = op->results[0]->type;
    uint8_t along = p->along[op->results[0]->id];
    bool added = along == 0 && plan_only_addition(p->loop->blocks[0], op->results[0]) != NULL;
    TirOp *left = load_behind(op->args[0]), *right = load_behind(op->args[1]);

    op->swap_ab = along == 2 && left != NULL && right != NULL;
    if (type.dim[op->swap_ab] != form->m || type.dim[!op->swap_ab] > form->n)
        return refuse(p, op->span, "a product in tensor memory has 128 rows, and up to 256 columns");
    if (type.dim[!op->swap_ab] % form->n_step != 0 &&
        (type.dim[!op->swap_ab] % MATRIX_COLUMNS != 0 ||
         !tile_ends_in_zeros(op->args[!op->swap_ab], !op->swap_ab)))
        return refuse(p, op->span,
                      "a product in tensor memory has a multiple of 16 columns, or all columns of a "
                      "tensor's last dimension, a multiple of 8");
    if (along != 1 && !op->swap_ab && !added)
        return refuse(p, op->span, "the rows of a product do not run along the warp groups' axis");
    if (right == NULL)
        return refuse(p, op->span, "the right operand of a product is computed, not loaded");
    if (left == NULL && op->args[0]->type.dim[1] % form->k != 0)
        return refuse(p, op->span, "a computed operand's inner dimension is no multiple of 16");
    if (op->args[0]->type.dim[1] % form->k != 0 && (!ends_in_zeros(op, 0) || !ends_in_zeros(op, 1)))
        return refuse(
            p, op->span,
            "an inner dimension is no multiple of 16 and not the whole of a tensor's last");
    return (left == NULL || (check_load(p, left) && check_place(p, left))) &&
           check_load(p, right) && check_place(p, right);
}

/* Whether the consumers may divide the products along the axis; sets swap_ab. */
static bool
check_mmas(Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA)
            continue;
        op->coop_k = false;
        if (is_of_all_consumers(op->args[0])) {
            if (!check_columns(p, op))
                return false;
            continue;
        }
        uint8_t along = p->along[op->results[0]->id];
        const MmaForm *form = target_role_mma(p->px->target, op->args[0]->type.dtype);
        if (form != NULL && form->issuer == BY_THREAD &&
            op->args[1]->type.dtype == op->args[0]->type.dtype) {
            if (!check_issued(p, op, form))
                return false;
            continue;
        }
        if (along == 0 && (p->along[op->args[0]->id] & 2) != 0) {
            if (!check_coop_k(p, op))
                return false;
            continue;
        }
        if (along != 1 && along != 2)
            return refuse(p, op->span, "a product does not run along the warp groups' axis");
        op->swap_ab = along == 2;
        int32_t rows = op->results[0]->type.dim[op->swap_ab],
                cols = op->results[0]->type.dim[1 - op->swap_ab];
        int32_t inner = op->args[0]->type.dim[1];
        if (form == NULL || op->args[1]->type.dtype != op->args[0]->type.dtype)
            return refuse(p, op->span, "warp groups have no product of these types");
        /* four of them, side by side; as many columns as fit */
        bool by_warps = form->issuer == BY_WARP;
        int32_t each = by_warps ? GROUP_WARPS * form->m : form->m;
        if (by_warps && rows != each)
            return refuse(p, op->span, "a product of four warps has 64 rows");
        if (rows % each != 0 || cols % form->n_step != 0 || (!by_warps && cols > form->n))
            return refuse(
                p, op->span,
                "a product of a warp group has a multiple of 64 rows, and a multiple of 8 columns up to 256");
        TirOp *left = load_behind(op->args[op->swap_ab ? 1 : 0]);
        TirOp *right = load_behind(op->args[op->swap_ab ? 0 : 1]);
        if (cols / 2 + BESIDE_RESULT > target_entry_registers(p->px->target, p->px->plan.consumers))
            return refuse(
                p, op->span,
                "a product has more columns than the registers of so many warp groups hold at once");
        if (rows / each * cols / 2 + BESIDE_RESULT >
            (int32_t)p->px->target->role_registers[p->px->plan.consumers].consumer)
            return refuse(
                p, op->span,
                "a product has more rows and columns than the registers of a warp group hold");
        if (right == NULL) /* also where instructions could: its layout is that of a left operand */
            return refuse(p, op->span, "the right operand of a product is computed, not loaded");
        if (left == NULL && inner % form->k != 0)
            return refuse(p, op->span, "a computed operand's inner dimension is no multiple of 16");
        if (inner % form->k != 0 && (!ends_in_zeros(op, 0) || !ends_in_zeros(op, 1)))
            return refuse(
                p, op->span,
                "an inner dimension is no multiple of 16 and not the whole of a tensor's last");
        if (!check_load(p, right) || (left != NULL && !check_load(p, left)))
            return false;
        if (!check_place(p, right) || (left != NULL && !check_place(p, left)))
            return false;
    }
    return true;
}

/* ---- overlapping ---- */

/* Whether a thread issues products, whose results lie in tensor memory. */
static bool
is_issued(const Planner *p)
{
    return target_role_mma(p->px->target, DT_BF16)->issuer == BY_THREAD;
}

/* A bound of the registers a thread of a warp group needs for results of products: those that live
 * over iterations, and with `pipelined` all others as well at once with what they become. */
static int64_t
result_registers(const TirOp *loop, bool pipelined)
{
    const TirBlock *body = loop->blocks[0];
    int64_t total = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA || tir_is_added_to(body, op->results[0]))
            continue;
        int64_t n = tir_type_elements(op->results[0]->type) / GROUP_LANES;
        bool fresh = op->args[2]->def != NULL && op->args[2]->def->op == TIR_CONST;
        total += fresh && pipelined ? plan_overlap_registers(n) : n;
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

static TirShared *
make_pipeline(Planner *p, TirOp *load, uint32_t stages)
{
    TirType type = load->results[0]->type;
    TirShared *pipeline = arena_new(p->fn->arena, TirShared);
    bool apart = false;

    for (uint32_t k = 0; k < load->n_args; k++)
        apart = apart || p->depends[load->args[k]->id];
    pipeline->id = p->fn->shared.n;
    pipeline->name = load->tensor->name;
    pipeline->dtype = type.dtype;
    pipeline->rows = type.rank == 2 ? type.dim[0] : 1;
    pipeline->cols = type.dim[type.rank - 1];
    pipeline->stages = stages;
    pipeline->kind = SHARED_PIPELINE;
    pipeline->filled = apart ? FILLED_PER_CONSUMER : FILLED_FOR_ALL;
    vec_push(p->fn->arena, &p->fn->shared, pipeline);
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
make_pipelines_of_parts(Planner *p, const TirVal *operand, uint32_t stages)
{
    const TirOp *own = tir_untransposed(operand)->def;

    for (uint32_t k = 0; own != NULL && own->op == TIR_OWN && k < own->n_args; k++) {
        TirOp *load = own->args[k]->def;
        if (load->shared == NULL)
            load->shared = make_pipeline(p, load, stages);
        load->shared->of_consumer = k + 1;
    }
}

static void
make_pipelines(Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];
    const PlanHints *hints = &p->px->plan;
    uint32_t stages = stages_of(p);

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA)
            continue;
        op->async = true;
        for (uint32_t k = 0; k < 2; k++) {
            TirOp *load = load_behind(op->args[k]);
            make_pipelines_of_parts(p, op->args[k], stages);
            if (load == NULL || load->shared != NULL)
                continue;
            load->shared = make_pipeline(p, load, load->parent == body ? stages : hints->q_stages);
        }
    }
}

static bool
writes_once_more(const Planner *p, const TirOp *op)
{
    bool writes = (op->op == TIR_STORE || op->op == TIR_ATOMIC_ADD) &&
                  !writes_nothing_past(p->fn, p->axis, op);

    for (uint32_t k = 0; k < op->n_blocks && !writes; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n && !writes; i++)
            writes = writes_once_more(p, op->blocks[k]->ops.at[i]);
    }
    return writes;
}

/* Consumers that share out a product all go through all iterations, one past the end of the axis as well: whether nothing
 * is written there but sums of such products. */
static bool
check_coop_k_writes(Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];
    bool coop_k = false;

    for (uint32_t i = 0; i < body->ops.n; i++)
        coop_k = coop_k || body->ops.at[i]->coop_k;
    for (uint32_t i = 0; i < body->ops.n && coop_k; i++) {
        const TirOp *op = body->ops.at[i],
                    *value = op->n_args > 0 ? op->args[op->n_args - 1]->def : NULL;
        if (writes_once_more(p, op) && (op->op != TIR_ATOMIC_ADD || value == NULL || !value->coop_k))
            return refuse(p, op->span,
                          "memory is written in a loop that all warp groups go through together");
    }
    return true;
}

/* A consumer past the end of its axis goes through what stands before the main loop, and through loops around that
 * one: whether nothing is written there.  (What stands behind them is tested for.) */
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
            return check_coop_k_writes(p);
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
    AxisDependence dependence = {axis, p->depends, p->along, p->px->plan.consumers};
    for (uint32_t round = 0; round < FIX_ROUNDS && plan_axis_dependence(&dependence, fn->body);
         round++)
        ;
    return check_mmas(p) && check_writes(p);
}

/* Elements of the tiles that a block loads in an iteration for its products, when the consumers lie along
 * the axis that was tried last. */
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

/* The axis with which a block, which does as much whatever the axis, loads the least; of several, the
 * one with which the fewest products have swap_ab. */
static bool
choose_axis(Planner *p)
{
    int64_t least = INT64_MAX;
    uint32_t best = 0, fewest = 0;

    for (uint32_t axis = 0; axis < p->fn->grid.n; axis++) {
        if (!try_axis(p, axis))
            continue;
        int64_t n = loaded_elements(p);
        uint32_t swapped = swapped_mmas(p);
        if (n > least || (n == least && swapped >= fewest))
            continue;
        least = n;
        fewest = swapped;
        best = axis;
    }
    if (least < INT64_MAX)
        p->why = NULL; /* other axes' reasons */
    return least < INT64_MAX && try_axis(p, best);
}

/* Has the consumers divide one program's tiles; it is as it was when that can not be. */
static bool
divide_tiles(Planner *p)
{
    const PlanHints *hints = &p->px->plan;
    TirBlock *before = clone_body(p->fn, p->fn->body);
    int32_t registers = (int32_t)p->px->target->role_registers[hints->consumers].consumer;
    Span where = p->loop->span;

    if ((target_role_mma(p->px->target, DT_BF16)->a & IN_SHARED) == 0)
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

/* Makes pairs of the blocks, if that was asked for; that they can not be is no reason to have no plan. */
static void
pair_blocks(Planner *p)
{
    Span where = p->loop->span;

    if (!p->px->plan.paired)
        return;
    const char *why = target_can(p->px->target, CAN_CLUSTER)
                          ? plan_can_pair(p->px->target, p->fn, p->loop, &where)
                          : "the target has no clusters of blocks";
    if (why == NULL) {
        plan_pairs(p->fn, p->loop);
        return;
    }
    diag_remark(p->px->diag, where, "no pairs of blocks in kernel '%s': %s", p->fn->name, why);
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
    uint32_t warps = plan_consumer_warps(target, fn, p->loop, hints->consumers),
             n = hints->consumers * warps / GROUP_WARPS, adder;

    fn->plan = arena_new(fn->arena, TirPlan);
    *fn->plan = (TirPlan){
        .tiles = {.scheduler = plan_scheduler(px, fn), .axis = p->axis},
    };
    RoleRegisters beside;
    bool apart = is_issued(p) &&
                 plan_adds_apart(target, fn, p->loop, hints->consumers, &adder, &beside);
    RoleRegisters of = hints->two_blocks     ? target->half_registers
                       : apart               ? beside
                       : warps > GROUP_WARPS ? target->dynamic_registers[n]
                                             : target->role_registers[n];
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

bool
pass_plan(PassContext *px, TirFn *fn)
{
    Planner p = {.px = px, .fn = fn};
    const PlanHints *hints = &px->plan;

    if (hints->consumers == 0 || !target_has_roles(px->target))
        return false;
    bool lookahead = false,
         ok = fn->hint_warps == 0 || refuse(&p, fn->span, "@warps fixes the warps of a block");
    ok = ok && find_main_loop(&p) && check_bounds(&p) && check_blocks(&p);
    const char *not_issued = ok ? plan_cannot_correct(px, fn, p.loop) : NULL;
    if (ok && not_issued == NULL && is_issued(&p))
        not_issued = plan_cannot_issue(px->target, fn, p.loop, hints->consumers);
    ok = ok && (not_issued == NULL || refuse(&p, p.loop->span, not_issued));
    if (ok && hints->cooperative) {
        ok = check_order(&p);
        if (ok && hints->consumers > 1)
            plan_preload(fn, p.loop->blocks[0]);
        ok = ok && divide_tiles(&p);
    } else {
        ok = ok && choose_axis(&p) && check_order(&p);
        not_issued = ok && is_issued(&p)
                         ? plan_cannot_place(px->target, fn, p.loop, hints->consumers)
                         : NULL;
        ok = ok && (not_issued == NULL || refuse(&p, p.loop->span, not_issued));
        if (ok && hints->consumers > 1) {
            /* Not where a product begins ahead: it is what waits for the first vectors of an iteration then. */
            lookahead = plan_has_lookahead(px, fn, p.loop, stages_of(&p));
            if (!lookahead && !is_issued(&p)) /* a result in tensor memory begins with zero */
                plan_preload(fn, p.loop->blocks[0]);
            ok = try_axis(&p, p.axis);
        }
    }
    if (!ok) {
        diag_remark(px->diag, p.where, "no plan for warp groups in kernel '%s': %s", fn->name,
                    p.why);
        /* a plan in the source holds where its products can be issued so: as on targets without roles */
        if (is_issued(&p) && px->plan_span.lo != 0)
            diag_warning(px->diag, px->plan_span, "the plan of kernel '%s' is not used on %s: %s",
                         fn->name, px->target->name, p.why);
        else
            plan_not_kept(px, fn, p.where, p.why);
        px->no_plan = p.why;
        px->no_plan_at = p.where;
        return false;
    }
    make_plan(&p, lookahead);
    plan_add_correction(px, fn, p.loop);
    make_pipelines(&p);
    plan_spare_stage(px->target, fn, p.loop->blocks[0]);
    pair_blocks(&p);
    plan_count_blocks(px->target, fn);
    plan_drawing(p.px, p.fn, p.loop);
    fn->plan->tiles.reversed = plan_has_reversed_raster(fn);
    plan_tile_order(px->target, fn, p.loop->blocks[0]);
    plan_settle_first_programs(fn, fn->body);
    plan_report_tiles(px, fn);
    return true;
}
