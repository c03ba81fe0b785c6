/* plan_graph.c - loops whose products form a graph, for a role that issues them.
 *
 * Products are of three kinds, by what becomes of their results:
 *
 *     read      arithmetic reads it.  Both operands are loaded: nobody has to be waited for before it is issued
 *     sum       it is added to a sum that the loop, and those around it, carry and nobody else sees
 *     added     it is added to memory, and that is all
 *
 * The left operand of the last two may be computed, of results of the first kind.  Several may have it: it is written once.
 * It goes through tensor memory where its rows, which are the consumer's, are the rows of all products that read it; else
 * through shared memory, where a product can read it along its rows or across them.
 */
#include "compiler/passes/schedule/plan_graph.h"

#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* ---- what there is ---- */

TirVal *
graph_base(TirVal *operand, bool *transposed)
{
    *transposed = false;
    while (operand->def != NULL && operand->def->op == TIR_TRANSPOSE) {
        *transposed = !*transposed;
        operand = operand->def->args[0];
    }
    return operand;
}

TirOp *
plan_operand_load(const TirVal *operand)
{
    TirOp *def = tir_untransposed(operand)->def;

    return def != NULL && def->op == TIR_LOAD ? def : NULL;
}

/* What the loop around `loop` makes of its result `k`: 1 + that one's result, if it only hands it on; 0. */
static uint32_t
handed_on(const TirOp *loop, uint32_t k)
{
    const TirOp *outer = loop->parent->owner;
    const TirBlock *body = outer->blocks[0];
    const TirOp *yield = block_yield(body);
    const TirVal *begin = loop->args[loop_first_initial(loop) + k], *result = loop->results[k];

    if (begin->block != body || begin->def != NULL || begin->index == 0 ||
        yield->args[begin->index - 1] != result || count_uses_in(body, begin) != 1 ||
        count_uses_in(body, result) != 1)
        return 0;
    return begin->index;
}

/* The loop's result that the product adds to, 1 + its number, if nobody else sees the sum in any loop; 0. */
static uint32_t
carried_sum(const TirFn *fn, const TirOp *loop, const TirOp *mma)
{
    const TirBlock *body = loop->blocks[0];
    const TirVal *sum = mma->args[2];
    uint32_t k = sum->index;

    if (sum->block != body || sum->def != NULL || k == 0 || count_uses_in(body, sum) != 1 ||
        block_yield(body)->args[k - 1] != mma->results[0] ||
        count_uses_in(body, mma->results[0]) != 1)
        return 0;
    uint32_t own = k;
    for (; loop->parent != fn->body; loop = loop->parent->owner) {
        k = handed_on(loop, k - 1);
        if (k == 0)
            return 0;
    }
    return own;
}

TirOp *
plan_only_addition(const TirBlock *body, const TirVal *result)
{
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (op->op == TIR_ATOMIC_ADD && op->args[op->n_args - 1] == result)
            return count_uses_in(body, result) == 1 ? op : NULL;
    }
    return NULL;
}

static bool
writes_memory(const TirOp *op)
{
    bool writes = op->op == TIR_STORE || op->op == TIR_ATOMIC_ADD;

    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n && !writes; i++)
            writes = writes_memory(op->blocks[k]->ops.at[i]);
    }
    return writes;
}

static const char *
add_operand(Arena *arena, Graph *graph, GraphProduct *p)
{
    TirVal *base = graph_base(p->mma->args[0], &p->transposed);

    for (uint32_t k = 0; k < graph->operands.n; k++) {
        GraphOperand *operand = &graph->operands.at[k];
        if (operand->base != base)
            continue;
        if (operand->transposed != p->transposed || p->kind != PRODUCT_SUM)
            operand->shared = true;
        p->operand = k + 1;
        return NULL;
    }
    GraphOperand operand = {.base = base,
                            .transposed = p->transposed,
                            .shared = p->kind != PRODUCT_SUM,
                            .first = p->mma};
    /* its rows are the consumer's, which those of sums are */
    if (p->kind == PRODUCT_ADDED)
        operand.transposed = !p->transposed;
    vec_push(arena, &graph->operands, operand);
    p->operand = graph->operands.n;
    return NULL;
}

static const char *
add_product(Arena *arena, const TirFn *fn, const TirOp *loop, TirOp *mma, Graph *graph)
{
    GraphProduct p = {.mma = mma};
    const char *why = NULL;

    p.carried = carried_sum(fn, loop, mma);
    p.addition = plan_only_addition(loop->blocks[0], mma->results[0]);
    p.kind = p.carried > 0 ? PRODUCT_SUM : p.addition != NULL ? PRODUCT_ADDED : PRODUCT_READ;
    if (p.carried == 0 && !tir_is_zero(mma->args[2]))
        return "a product in tensor memory adds to what is neither zero nor a sum of its own";
    if (plan_operand_load(mma->args[1]) == NULL)
        return "the right operand of a product is computed, not loaded";
    if (plan_operand_load(mma->args[0]) == NULL) {
        if (p.kind == PRODUCT_READ)
            return "arithmetic reads the result of a product that has a computed operand";
        why = add_operand(arena, graph, &p);
    }
    vec_push(arena, &graph->products, p);
    return why;
}

const char *
graph_read(Arena *arena, const TirFn *fn, const TirOp *loop, Graph *graph)
{
    const TirBlock *body = loop->blocks[0];
    bool reads = false;

    *graph = (Graph){0};
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        const char *why = op->op == TIR_MMA ? add_product(arena, fn, loop, op, graph) : NULL;
        if (why != NULL)
            return why;
    }
    for (uint32_t k = 0; k < graph->products.n; k++)
        reads = reads || graph->products.at[k].kind == PRODUCT_READ;
    if (!reads)
        return "results of products in tensor memory take a main loop that stands in no other";
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        bool product = false;
        for (uint32_t k = 0; k < graph->products.n; k++)
            product = product || graph->products.at[k].addition == op;
        if (writes_memory(op) && !product)
            return "memory is written in a loop whose products have results in tensor memory, and not by adding "
                   "a product to it";
    }
    return NULL;
}

/* ---- columns ---- */

static int32_t
columns_of(const GraphProduct *p)
{
    return (int32_t)tir_product_columns((uint32_t)p->mma->results[0]->type.dim[!p->mma->swap_ab]);
}

/* Columns in all, when what can take turns, or lie over another, does (`tight`). */
static int32_t
count_columns(const Graph *graph, bool tight)
{
    int32_t columns = 0;

    for (uint32_t k = 0; k < graph->products.n; k++) {
        const GraphProduct *p = &graph->products.at[k];
        if (!tight || p->turn == 0)
            columns += columns_of(p);
    }
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        const GraphOperand *o = &graph->operands.at[k];
        if (!o->shared && (!tight || o->over == 0))
            columns += o->base->type.dim[!o->transposed] / 2;
    }
    return columns;
}

/* Whether `value` of the body is made of `from`. */
static bool
follows_from(Arena *arena, const TirBlock *body, const TirVal *value, const TirVal *from)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        if (in.value == from)
            return true;
        if (in.value->block == body)
            tir_inputs_follow(&in);
    }
    return false;
}

bool
graph_needs(Arena *arena, const TirBlock *body, const GraphOperand *operand, const GraphProduct *p)
{
    return p->kind == PRODUCT_READ && follows_from(arena, body, operand->base, p->mma->results[0]);
}

/* What is added to memory takes turns with a result that its operand is made of; an operand lies over one. */
static void
find_places(Arena *arena, const TirBlock *body, Graph *graph)
{
    bool *over = graph->taken;

    for (uint32_t k = 0; k < graph->products.n; k++)
        over[k] = false;
    for (uint32_t k = 0; k < graph->products.n; k++) {
        GraphProduct *p = &graph->products.at[k];
        for (uint32_t j = graph->products.n;
             j-- > 0 && p->kind == PRODUCT_ADDED && p->operand > 0 && p->turn == 0;) {
            const GraphProduct *result = &graph->products.at[j];
            if (over[j] || columns_of(result) < columns_of(p) ||
                !graph_needs(arena, body, &graph->operands.at[p->operand - 1], result))
                continue;
            p->turn = j + 1;
            over[j] = true;
        }
    }
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        GraphOperand *o = &graph->operands.at[k];
        for (uint32_t j = 0; j < graph->products.n && !o->shared && o->over == 0; j++) {
            const GraphProduct *result = &graph->products.at[j];
            if (over[j] || 2 * columns_of(result) < o->base->type.dim[!o->transposed] ||
                !graph_needs(arena, body, o, result))
                continue;
            o->over = j + 1;
            over[j] = true;
        }
    }
}

const char *
graph_place(Arena *arena, const Target *target, const TirOp *loop, Graph *graph)
{
    graph->taken = arena_array(arena, bool, graph->products.n + 1);
    find_places(arena, loop->blocks[0], graph);
    if (count_columns(graph, true) > target->chip.tmem_columns)
        return "products have more columns of results and operands than tensor memory";
    if (count_columns(graph, false) <= target->chip.tmem_columns) {
        for (uint32_t k = 0; k < graph->products.n; k++)
            graph->products.at[k].turn = 0;
        for (uint32_t k = 0; k < graph->operands.n; k++)
            graph->operands.at[k].over = 0;
    }
    return NULL;
}
