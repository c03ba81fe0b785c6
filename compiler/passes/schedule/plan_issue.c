/* plan_issue.c - loops whose products a role of their own may issue.
 *
 * A product that a thread issues leaves its result in tensor memory.  Where nobody looks at sums before the loop has ended,
 * one thread issues all products of the loop, and consumers have what comes behind it, while the next tile's products run.
 * Where there is arithmetic between products, consumers have that: results and computed operands go through tensor memory,
 * and so do sums, which one operation of an iteration may change in front of the product that adds to them (a chain); or
 * products form a graph (plan_graph.c), for which loops may stand around the main one.
 */
#include "compiler/passes/schedule/plan_graph.h"

#include "compiler/passes/util/tir_util.h"
#include "compiler/passes/util/tir_walk.h"

/* Whether a product adds to what the iteration begins with: one that adds to another product of its iteration
 * would go into the next one beside that, whose result has no name there. */
static bool
begins_with_sum(const TirBlock *body, const TirVal *value)
{
    return value->block == body && value->def == NULL && value->index > 0;
}

/* Whether `value` is used by products as what they add to, and by the end of the iteration, only. */
static bool
is_only_added_to(const TirBlock *block, const TirBlock *body, const TirVal *value)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] == value && !(op->op == TIR_MMA && k == 2) &&
                !(op->op == TIR_YIELD && block == body))
                return false;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (!is_only_added_to(op->blocks[k], body, value))
                return false;
        }
    }
    return true;
}

static bool
is_loaded(const TirVal *value)
{
    return plan_operand_load(value) != NULL;
}

bool
plan_only_adds(const TirBlock *body)
{
    const TirOp *yield = block_yield(body);
    uint32_t mmas = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA)
            continue;
        mmas++;
        if (!is_loaded(op->args[0]) || !is_loaded(op->args[1]) ||
            !begins_with_sum(body, op->args[2]) || !is_only_added_to(body, body, op->results[0]))
            return false;
    }
    for (uint32_t k = 0; k < yield->n_args; k++) { /* sums stay where they are */
        const TirVal *param = body->params.at[k + 1], *next = yield->args[k];
        while (next->def != NULL && next->def->op == TIR_MMA && next->def->parent == body)
            next = next->def->args[2];
        if (yield->args[k] != next && (next != param || !is_only_added_to(body, body, param)))
            return false;
    }
    return mmas > 0;
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

bool
plan_only_issues(const TirBlock *body)
{
    return plan_only_adds(body) && !has_other_work(body);
}

/* ---- arithmetic between products ---- */

/* The value with which the iteration begins, of the sum that a product leaves to the next one and nobody else
 * sees; NULL: it is no such product. */
static const TirVal *
carried_sum(const TirBlock *body, const TirOp *mma)
{
    const TirOp *yield = block_yield(body);

    for (uint32_t k = 0; k < yield->n_args; k++) {
        if (yield->args[k] == mma->results[0] && count_uses_in(body, mma->results[0]) == 1)
            return body->params.at[k + 1];
    }
    return NULL;
}

/* Whether the sum that the iteration begins with is what the product adds to, or becomes that in one operation and has
 * no other use. */
static bool
changes_in_place(const TirBlock *body, const TirOp *mma, const TirVal *sum)
{
    const TirVal *to = mma->args[2];
    const TirOp *change = to->def;

    if (to == sum)
        return count_uses_in(body, sum) == 1;
    if (change == NULL || change->parent != body || count_uses_in(body, to) != 1)
        return false;
    uint32_t inside = 0;
    for (uint32_t k = 0; k < change->n_args; k++)
        inside += change->args[k] == sum;
    for (uint32_t k = 0; k < change->n_blocks; k++)
        inside += count_uses_in(change->blocks[k], sum);
    return inside > 0 && inside == count_uses_in(body, sum) && /* else it begins anew */
           (change->op == TIR_IF || (tir_op_info(change->op)->flags & TF_ELEMENTWISE) != 0);
}

/* Whether first products and second ones have loads of their own. */
static bool
shares_load(const TirBlock *body)
{
    bool shares = false;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *load = body->ops.at[i];
        bool used[2] = {false, false};
        for (uint32_t j = 0; load->op == TIR_LOAD && j < body->ops.n; j++) {
            const TirOp *mma = body->ops.at[j];
            for (uint32_t k = 0; mma->op == TIR_MMA && k < 2; k++)
                used[!is_loaded(mma->args[0])] |= plan_operand_load(mma->args[k]) == load;
        }
        shares = shares || (used[0] && used[1]);
    }
    return shares;
}

/* Whether one operation changes two sums. */
static bool
changes_two(const TirBlock *body)
{
    bool two = false;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *mma = body->ops.at[i];
        for (uint32_t j = 0; j < i && mma->op == TIR_MMA; j++) {
            const TirOp *other = body->ops.at[j];
            two = two || (other->op == TIR_MMA && mma->args[2]->def != NULL &&
                          mma->args[2]->def->parent == body && !tir_is_zero(mma->args[2]) &&
                          mma->args[2]->def == other->args[2]->def);
        }
    }
    return two;
}

/* Products of loaded tiles are issued in front of those with a computed operand of the iteration before.  So no iteration
 * may wait for one of the second kind, and none of the first kind may wait for the iteration: for a sum that it
 * changes. */
static bool
waits_in_turn(const TirBlock *body)
{
    bool has[2] = {false, false}, waits[2] = {false, false};

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA)
            continue;
        const TirVal *sum = carried_sum(body, op);
        bool second = !is_loaded(op->args[0]);
        has[second] = true;
        waits[second] |= second ? sum == NULL : sum != NULL && op->args[2] != sum;
    }
    return has[0] && has[1] && (waits[0] || waits[1]);
}

/* What a consumer has of tensor memory. */
static int32_t
own_columns(const Target *target, uint32_t consumers)
{
    return target->chip.tmem_columns / (int32_t)consumers;
}

bool
plan_lies_over(const TirOp *first, const TirOp *second)
{
    return is_loaded(first->args[0]) && !is_loaded(second->args[0]) &&
           carried_sum(first->parent, first) == NULL &&
           second->args[0]->type.dim[1] / 2 <= first->results[0]->type.dim[1];
}

/* Columns that operands need not have, where each lies over the result of a first product. */
static int32_t
covered_columns(const TirBlock *body)
{
    uint64_t taken = 0;
    int32_t columns = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *second = body->ops.at[i];
        bool found = second->op != TIR_MMA || is_loaded(second->args[0]);
        for (uint32_t j = 0; j < i && j < 64 && !found; j++) {
            const TirOp *first = body->ops.at[j];
            if (first->op != TIR_MMA || (taken >> j & 1) != 0 || !plan_lies_over(first, second))
                continue;
            taken |= (uint64_t)1 << j;
            columns += second->args[0]->type.dim[1] / 2;
            found = true;
        }
        if (!found)
            return 0;
    }
    return columns;
}

/* Whether nobody reads what the loop leaves of a sum. */
static bool
is_lost(const TirFn *fn, const TirOp *loop, const TirVal *sum)
{
    return count_uses(fn, loop->results[sum->index - 1]) == 0;
}

static const char *
cannot_chain(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    const TirBlock *body = loop->blocks[0];
    int32_t columns = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (tir_writes(op))
            return "memory is written in a loop whose products have results in tensor memory";
        if (op->op != TIR_MMA)
            continue;
        const TirVal *sum = carried_sum(body, op);
        if (!is_loaded(op->args[1]))
            return "the right operand of a product is computed, not loaded";
        if (sum == NULL && !tir_is_zero(op->args[2]))
            return "a product in tensor memory adds to what is neither zero nor a sum of its own";
        if (sum != NULL && !changes_in_place(body, op, sum))
            return "a sum in tensor memory is used otherwise than by one operation and its product";
        if (sum != NULL && op->args[2] != sum && is_lost(fn, loop, sum))
            return "a sum in tensor memory is changed in each iteration, and nobody reads it";
        columns += (int32_t)tir_product_columns((uint32_t)op->results[0]->type.dim[1]);
        if (!is_loaded(op->args[0]))
            columns += op->args[0]->type.dim[1] / 2;
    }
    if (changes_two(body))
        return "one operation changes two sums in tensor memory";
    if (waits_in_turn(body))
        return "products of loaded tiles and those with a computed operand would wait for each other";
    if (shares_load(body))
        return "a tile is an operand of a first product and of one with a computed operand";
    if (columns - covered_columns(body) <= own_columns(target, consumers))
        return NULL;
    return consumers == 1
               ? "products have more columns of results and operands than tensor memory"
               : "products of so many warp groups have more columns of results and operands "
                 "than tensor memory";
}

/* Whether the rows of all products are the consumer's. */
static bool
is_upright(const TirBlock *body)
{
    bool upright = true;

    for (uint32_t i = 0; i < body->ops.n; i++)
        upright = upright && (body->ops.at[i]->op != TIR_MMA || !body->ops.at[i]->swap_ab);
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
    if (outer && plan_only_issues(body))
        return (Issue){.as = AS_SUMS};
    const char *no_chain = outer ? cannot_chain(target, fn, loop, consumers) : NULL;
    if (outer && no_chain == NULL && is_upright(body))
        return (Issue){.as = AS_CHAIN};
    issue.why = graph_read(fn->arena, fn, loop, &issue.graph);
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
    const TirBlock *body = loop->blocks[0];
    Issue issue = plan_issue(target, fn, loop, consumers);
    int32_t columns = 0;

    for (uint32_t i = 0; i < body->ops.n && issue.as == AS_SUMS; i++) {
        const TirOp *op = body->ops.at[i];
        columns += op->op == TIR_MMA ? op->results[0]->type.dim[1] : 0;
    }
    if (columns > own_columns(target, consumers))
        return "the results of products have more columns than tensor memory";
    return issue.why;
}

const char *
plan_cannot_place(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    Issue issue = plan_issue(target, fn, loop, consumers);

    if (issue.as == AS_SUMS && !is_upright(loop->blocks[0]))
        return "the rows of a product do not run along the warp groups' axis";
    return issue.as == AS_GRAPH ? graph_place(fn->arena, target, fn, loop, &issue.graph)
                                : issue.why;
}

int64_t
plan_operand_bytes(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    Issue issue = plan_issue(target, fn, loop, consumers);
    int64_t bytes = 0;

    if (issue.as != AS_GRAPH)
        return -1;
    for (uint32_t k = 0; k < issue.graph.operands.n; k++) {
        const GraphOperand *operand = &issue.graph.operands.at[k];
        TirType type = operand->base->type;
        bytes += operand->shared ? tir_type_elements(type) * dtype_bits(type.dtype) / 8 : 0;
    }
    return bytes;
}

uint32_t
plan_consumer_warps(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    Issue issue = plan_issue(target, fn, loop, consumers);
    int32_t read = 0, apart = 2 * MATRIX_COLUMNS;
    bool whole = true;

    if (issue.as != AS_GRAPH)
        return GROUP_WARPS;
    for (uint32_t k = 0; k < issue.graph.products.n; k++) {
        const GraphProduct *p = &issue.graph.products.at[k];
        int32_t columns = p->mma->results[0]->type.dim[!p->mma->swap_ab];
        read += p->kind == PRODUCT_READ ? columns : 0;
        whole = whole && columns % (p->kind == PRODUCT_READ ? apart : MATRIX_COLUMNS) == 0;
    }
    for (uint32_t k = 0; k < issue.graph.operands.n; k++) {
        const GraphOperand *operand = &issue.graph.operands.at[k];
        whole = whole && operand->base->type.dim[!operand->transposed] % (2 * apart) == 0;
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
plan_kept_elements(const TirBlock *body, const TirOp *mma, uint32_t warps)
{
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
        const GraphProduct *p = &graph->products.at[k];
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
plan_adds_apart(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers,
                uint32_t *adder, RoleRegisters *others)
{
    uint32_t warps = plan_consumer_warps(target, fn, loop, consumers);
    uint32_t all = (uint32_t)target->chip.registers_per_sm / GROUP_LANES;
    Issue issue = plan_issue(target, fn, loop, consumers);

    if (target->adder_beside_columns == 0 || issue.as != AS_GRAPH)
        return false;
    int32_t columns = added_columns(fn, &issue.graph),
            held = columns < ADDED_AT_ONCE ? columns : ADDED_AT_ONCE;
    *others = target->role_registers[consumers];
    *adder = ((uint32_t)held + target->adder_beside_columns + REGISTER_STEP - 1) / REGISTER_STEP *
             REGISTER_STEP;
    uint32_t each = (all - target->producer_beside_adder - *adder) /
                    (consumers * warps / GROUP_WARPS) / REGISTER_STEP * REGISTER_STEP;
    if (each < others->consumer)
        *others = (RoleRegisters){target->producer_beside_adder, each};
    for (uint32_t k = 0; k < issue.graph.products.n; k++) {
        const GraphProduct *p = &issue.graph.products.at[k];
        if (p->kind == PRODUCT_READ &&
            plan_kept_elements(loop->blocks[0], p->mma, warps) + BESIDE_SUMS > others->consumer)
            return false; /* a consumer that adds itself has more */
    }
    return columns > 0;
}
