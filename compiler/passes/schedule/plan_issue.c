/* plan_issue.c - loops whose products a role of their own may issue.
 *
 * A product that a thread issues leaves its result in tensor memory.  Where nobody looks at sums before the loop has ended,
 * one thread issues all products of the loop, and consumers have what comes behind it, while the next tile's products run.
 * Where there is arithmetic between products, consumers have that: results and computed operands go through tensor memory,
 * and so do sums, which one operation of an iteration may change in front of the product that adds to them (a chain); or
 * products form a graph (plan_graph.c), for which loops may stand around the main one.
 */
#include "compiler/passes/schedule/plan_graph.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

/* Whether a loop does nothing with its products of loaded tiles but add each to what the iteration begins with.  (One that adds
 * to another product of its iteration would go into the next one beside that, whose result has no name there.) */
static bool
only_adds(const TirBlock *body, const Products *products)
{
    const TirOp *yield = block_yield(body);

    for (uint32_t i = 0; i < products->n; i++) {
        const Product *p = &products->at[i];
        const TirVal *begin = body->params.at[p->sum];
        if (p->second || p->load[1] == NULL || p->sum == 0 || p->mma->args[2] != begin)
            return false;
        uint32_t others = count_uses_in(body, begin) - 1;
        for (uint32_t k = 0; k < yield->n_args; k++)
            others -= yield->args[k] == begin;
        if (others > 0)
            return false;
    }
    return products->n > 0;
}

bool
plan_only_adds(const TirFn *fn, const TirOp *loop)
{
    Products products = plan_products(fn, loop);

    return only_adds(loop->blocks[0], &products);
}

/* Whether an iteration does anything but load, transpose and multiply tiles, or leaves anything but sums: what else it leaves
 * has to be computed in each, also where that is no tile (where padding begins), or loaded. */
static bool
has_other_work(const TirBlock *body)
{
    const TirOp *yield = block_yield(body);
    bool other = false;

    for (uint32_t k = 0; k < yield->n_args && !other; k++) {
        const TirVal *next = yield->args[k];
        bool sum = next->def != NULL && next->def->op == TIR_MMA && next->def->parent == body;
        other = !sum && next != body->params.at[k + 1];
    }
    for (uint32_t i = 0; i < body->ops.n && !other; i++) {
        const TirOp *op = body->ops.at[i];
        bool tiles = op->n_blocks > 0;
        for (uint32_t k = 0; k < op->n_results; k++)
            tiles = tiles || op->results[k]->type.rank > 0;
        other = tir_writes(op) ||
                (tiles && op->op != TIR_LOAD && op->op != TIR_TRANSPOSE && op->op != TIR_MMA);
    }
    return other;
}

/* ---- arithmetic between products ---- */

/* Whether a first product and a second one have a load of the loop in common. */
static bool
shares_load(const Product *p, const Product *other)
{
    bool shares = false;

    for (uint32_t k = 0; k < 4; k++) {
        const TirOp *load = p->load[k % 2];
        shares = shares ||
                 (load != NULL && load->parent == p->mma->parent && load == other->load[k / 2]);
    }
    return p->second != other->second && shares;
}

/* Whether one operation changes two sums. */
static bool
changes_two(const TirBlock *body, const Product *p, const Product *other)
{
    const TirOp *change = p->mma->args[2]->def;

    return change != NULL && change->parent == body && !tir_is_zero(p->mma->args[2]) &&
           change == other->mma->args[2]->def;
}

/* Products of loaded tiles are issued in front of those with a computed operand of the iteration before.  So no iteration
 * may wait for one of the second kind, and none of the first kind may wait for the iteration: for a sum that it
 * changes. */
static bool
waits_in_turn(const Products *products)
{
    bool has[2] = {false, false}, waits = false;

    for (uint32_t k = 0; k < products->n; k++) {
        const Product *p = &products->at[k];
        has[p->second] = true;
        waits = waits || (p->second ? p->sum == 0 : p->change != NULL);
    }
    return has[0] && has[1] && waits;
}

/* What a consumer has of tensor memory. */
static int32_t
own_columns(const Target *target, uint32_t consumers)
{
    return target->chip.tmem_columns / (int32_t)consumers;
}

static const char *
cannot_chain(const Target *target, const TirFn *fn, const TirOp *loop, const Products *products,
             uint32_t consumers)
{
    const TirBlock *body = loop->blocks[0];
    int32_t columns = 0, covered = 0;
    bool all_covered = true;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (tir_writes(body->ops.at[i]))
            return "memory is written in a loop whose products have results in tensor memory";
    }
    for (uint32_t k = 0; k < products->n; k++) {
        const Product *p = &products->at[k];
        int32_t operand = p->second ? p->mma->args[0]->type.dim[1] / 2 : 0;
        if (p->load[1] == NULL)
            return "the right operand of a product is computed, not loaded";
        if (p->sum == 0 && !tir_is_zero(p->mma->args[2]))
            return "a product in tensor memory adds to what is neither zero nor a sum of its own";
        if (p->sum > 0 && !p->in_place)
            return "a sum in tensor memory is used otherwise than by one operation and its product";
        if (p->change != NULL && count_uses(fn, loop->results[p->sum - 1]) == 0)
            return "a sum in tensor memory is changed in each iteration, and nobody reads it";
        columns += operand +
                   (int32_t)tir_product_columns((uint32_t)p->mma->results[0]->type.dim[1]);
        covered += operand;
        all_covered = all_covered && (!p->second || p->over > 0);
    }
    for (uint32_t k = 0; k < products->n; k++) {
        for (uint32_t j = 0; j < k; j++) {
            if (changes_two(body, &products->at[k], &products->at[j]))
                return "one operation changes two sums in tensor memory";
        }
    }
    if (waits_in_turn(products))
        return "products of loaded tiles and those with a computed operand would wait for each other";
    for (uint32_t k = 0; k < products->n; k++) {
        for (uint32_t j = 0; j < k; j++) {
            if (shares_load(&products->at[k], &products->at[j]))
                return "a tile is an operand of a first product and of one with a computed operand";
        }
    }
    if (columns - (all_covered ? covered : 0) <= own_columns(target, consumers))
        return NULL;
    return consumers == 1
               ? "products have more columns of results and operands than tensor memory"
               : "products of so many warp groups have more columns of results and operands "
                 "than tensor memory";
}

/* Whether the rows of all products are the consumer's. */
static bool
is_upright(const Products *products)
{
    bool upright = true;

    for (uint32_t k = 0; k < products->n; k++)
        upright = upright && !products->at[k].mma->swap_ab;
    return upright;
}

Issue
plan_issue(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    const TirBlock *body = loop->blocks[0];
    bool outer = loop->parent == fn->body;
    Issue issue = {0};

    if (target_issuer(target) != BY_THREAD)
        return issue;
    Products products = plan_products(fn, loop);
    if (outer && only_adds(body, &products) && !has_other_work(body))
        return (Issue){.as = AS_SUMS, .graph = {.products = products}};
    const char *no_chain = outer ? cannot_chain(target, fn, loop, &products, consumers) : NULL;
    if (outer && no_chain == NULL && is_upright(&products))
        return (Issue){.as = AS_CHAIN, .graph = {.products = products}};
    issue.why = graph_read(fn, loop, &issue.graph);
    if (issue.why == NULL && consumers > 1)
        issue.why = "products that form a graph have one consumer";
    if (issue.why == NULL)
        issue.as = AS_GRAPH;
    else if (no_chain != NULL)
        issue.why = no_chain;
    return issue;
}

const char *
plan_cannot_issue(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    Issue issue = plan_issue(target, fn, loop, consumers);
    int32_t columns = 0;

    for (uint32_t k = 0; k < issue.graph.products.n && issue.as == AS_SUMS; k++)
        columns += issue.graph.products.at[k].mma->results[0]->type.dim[1];
    if (columns > own_columns(target, consumers))
        return "the results of products have more columns than tensor memory";
    return issue.why;
}

const char *
plan_cannot_place(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    Issue issue = plan_issue(target, fn, loop, consumers);

    if (issue.as == AS_SUMS && !is_upright(&issue.graph.products))
        return "the rows of a product do not run along the warp groups' axis";
    return issue.as == AS_GRAPH ? graph_place(target, fn, &issue.graph) : issue.why;
}

int64_t
graph_operand_bytes(const Graph *graph)
{
    int64_t bytes = 0;

    for (uint32_t k = 0; k < graph->operands.n; k++) {
        const GraphOperand *operand = &graph->operands.at[k];
        TirType type = operand->base->type;
        bytes += operand->shared ? tir_type_elements(type) * dtype_bits(type.dtype) / 8 : 0;
    }
    return bytes;
}

int64_t
plan_operand_bytes(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    Issue issue = plan_issue(target, fn, loop, consumers);

    return issue.as == AS_GRAPH ? graph_operand_bytes(&issue.graph) : -1;
}

uint32_t
plan_consumer_warps(const Issue *issue)
{
    int32_t read = 0, apart = 2 * MATRIX_COLUMNS;
    bool whole = issue->as == AS_GRAPH;

    for (uint32_t k = 0; k < issue->graph.products.n && whole; k++) {
        const Product *p = &issue->graph.products.at[k];
        int32_t columns = p->mma->results[0]->type.dim[!p->mma->swap_ab];
        read += p->kind == PRODUCT_READ ? columns : 0;
        whole = columns % (p->kind == PRODUCT_READ ? apart : MATRIX_COLUMNS) == 0;
    }
    for (uint32_t k = 0; k < issue->graph.operands.n && whole; k++) {
        const GraphOperand *operand = &issue->graph.operands.at[k];
        whole = operand->base->type.dim[!operand->transposed] % (2 * apart) == 0;
    }
    return whole && read > GROUP_LANES ? 2 * GROUP_WARPS : GROUP_WARPS;
}

/* Whether nothing in the block accesses the tensor but `addition`: else a barrier would keep their order. */
static bool
is_only_access(const TirBlock *block, const TirOp *addition)
{
    bool only = true;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);)
        only = only && (walk.op == addition || walk.op->tensor != addition->tensor);
    return only;
}

int64_t
plan_kept_elements(const TirOp *mma, uint32_t warps)
{
    const TirBlock *body = mma->parent;
    int64_t elements = tir_type_elements(mma->results[0]->type);
    bool behind = false;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        bool kept = false;
        behind = behind || op == mma;
        if (behind || (tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0 ||
            op->results[0]->type.rank < 2)
            continue;
        for (uint32_t j = body->ops.n; j-- > i && body->ops.at[j] != mma && !kept;) {
            for (uint32_t k = 0; k < body->ops.at[j]->n_args; k++)
                kept = kept || body->ops.at[j]->args[k] == op->results[0];
        }
        elements += kept ? tir_type_elements(op->results[0]->type) : 0;
    }
    return elements / (warps * WARP_LANES);
}

/* The columns of the widest result that is added to memory by nothing but a product's addition; 0: there is none, or one is
 * not. */
static int32_t
added_columns(const TirFn *fn, const Graph *graph)
{
    int32_t columns = 0;

    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        int32_t own = p->mma->results[0]->type.dim[!p->mma->swap_ab];
        if (p->kind != PRODUCT_ADDED)
            continue;
        if (!is_only_access(fn->body, p->addition))
            return 0;
        columns = own > columns ? own : columns;
    }
    return columns;
}

bool
plan_adds_apart(const Target *target, const TirFn *fn, const Issue *issue, uint32_t consumers,
                uint32_t *adder, RoleRegisters *others)
{
    uint32_t warps = plan_consumer_warps(issue);
    uint32_t all = (uint32_t)target->chip.registers_per_sm / GROUP_LANES;

    if (target->adder_beside_columns == 0 || issue->as != AS_GRAPH)
        return false;
    int32_t columns = added_columns(fn, &issue->graph),
            held = columns < ADDED_AT_ONCE ? columns : ADDED_AT_ONCE;
    *others = target->role_registers[consumers];
    *adder = ((uint32_t)held + target->adder_beside_columns + REGISTER_STEP - 1) / REGISTER_STEP *
             REGISTER_STEP;
    uint32_t each = (all - target->producer_beside_adder - *adder) /
                    (consumers * warps / GROUP_WARPS) / REGISTER_STEP * REGISTER_STEP;
    if (each < others->consumer)
        *others = (RoleRegisters){target->producer_beside_adder, each};
    for (uint32_t k = 0; k < issue->graph.products.n; k++) {
        const Product *p = &issue->graph.products.at[k];
        if (p->kind == PRODUCT_READ &&
            plan_kept_elements(p->mma, warps) + BESIDE_SUMS > others->consumer)
            return false; /* a consumer that adds itself has more */
    }
    return columns > 0;
}
