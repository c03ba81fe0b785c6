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
 * through shared memory, where a product can read it along its rows or across them.  Where a result that it can lie over allows
 * it, it is written to both: what is read in tensor memory leaves the port of shared memory to others.  What is left of
 * the columns goes to results that take turns, then to left operands that are loaded before all loops, then to computed operands.
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

/* Whether the product adds to a sum that nobody else sees in any loop. */
static bool
is_whole_sum(const TirFn *fn, const TirOp *loop, const Product *p)
{
    uint32_t k = p->in_place && p->change == NULL ? p->sum : 0;

    for (; k > 0 && loop->parent != fn->body; loop = loop->parent->owner)
        k = handed_on(loop, k - 1);
    return k > 0;
}

static void
add_operand(Arena *arena, Graph *graph, Product *p)
{
    TirVal *base = graph_base(p->mma->args[0], &p->transposed);

    for (uint32_t k = 0; k < graph->operands.n; k++) {
        GraphOperand *operand = &graph->operands.at[k];
        if (operand->base != base)
            continue;
        if (operand->transposed != p->transposed || p->kind != PRODUCT_SUM)
            operand->shared = true;
        p->operand = k + 1;
        return;
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
}

static const char *
add_product(const TirFn *fn, const TirOp *loop, Product *p, Graph *graph)
{
    p->kind = is_whole_sum(fn, loop, p) ? PRODUCT_SUM
              : p->addition != NULL     ? PRODUCT_ADDED
                                        : PRODUCT_READ;
    graph->sums = graph->sums || p->kind == PRODUCT_SUM;
    if (p->kind == PRODUCT_ADDED && tir_has_places(p->addition))
        return "a product in tensor memory is added at a list of places";
    if (p->kind != PRODUCT_SUM && !tir_is_zero(p->mma->args[2]))
        return "a product in tensor memory adds to what is neither zero nor a sum of its own";
    if (p->load[1] == NULL)
        return "the right operand of a product is computed, not loaded";
    if (p->second && p->kind == PRODUCT_READ)
        return "arithmetic reads the result of a product that has a computed operand";
    if (p->second)
        add_operand(fn->arena, graph, p);
    return NULL;
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

void
graph_of_chain(Arena *arena, Graph *graph)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        GraphOperand operand = {.first = p->mma,
                                .base = graph_base(p->mma->args[0], &p->transposed)};
        p->kind = p->sum > 0 ? PRODUCT_SUM : PRODUCT_READ;
        if (!p->second)
            continue;
        operand.transposed = p->transposed;
        operand.made_of = arena_array(arena, bool, graph->products.n);
        vec_push(arena, &graph->operands, operand);
        p->operand = graph->operands.n;
    }
}

const char *
graph_read(const TirFn *fn, const TirOp *loop, Graph *graph)
{
    const TirBlock *body = loop->blocks[0];
    const char *why = NULL;
    bool reads = false;

    *graph = (Graph){.products = plan_products(fn, loop)};
    for (uint32_t k = 0; k < graph->products.n && why == NULL; k++)
        why = add_product(fn, loop, &graph->products.at[k], graph);
    for (uint32_t k = 0; k < graph->products.n; k++)
        reads = reads || graph->products.at[k].kind == PRODUCT_READ;
    for (uint32_t j = 0; j < graph->operands.n; j++) {
        GraphOperand *operand = &graph->operands.at[j];
        operand->made_of = arena_array(fn->arena, bool, graph->products.n);
        for (uint32_t k = 0; k < graph->products.n; k++) {
            const Product *p = &graph->products.at[k];
            operand->made_of[k] = p->kind == PRODUCT_READ &&
                                  follows_from(fn->arena, body, operand->base, p->mma->results[0]);
        }
    }
    if (why != NULL)
        return why;
    if (!reads)
        return "results of products in tensor memory take a main loop that stands in no other";
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        bool product = false;
        for (uint32_t k = 0; k < graph->products.n; k++)
            product = product || graph->products.at[k].addition == op;
        if (op_writes_deep(op) && !product)
            return "memory is written in a loop whose products have results in tensor memory, and not by adding "
                   "a product to it";
    }
    return NULL;
}

/* ---- columns ---- */

/* What a left operand in tensor memory has: lanes, and whole steps of a product in the part of each of two warp groups. */
enum { KEPT_ROWS = 128, KEPT_DEPTH = 32 };

static int32_t
columns_of(const Product *p)
{
    return (int32_t)tir_product_columns((uint32_t)p->mma->results[0]->type.dim[!p->mma->swap_ab]);
}

/* Columns of what has a place of its own. */
static int32_t
count_columns(const Graph *graph)
{
    int32_t columns = 0;

    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        if (p->turn == 0)
            columns += columns_of(p);
    }
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        const GraphOperand *o = &graph->operands.at[k];
        if (!o->shared && o->over == 0)
            columns += o->base->type.dim[!o->transposed] / 2;
    }
    return columns;
}

/* What is added to memory takes turns with a result that its operand is made of; an operand lies over one. */
static void
find_places(Graph *graph)
{
    bool *over = graph->taken;

    for (uint32_t k = 0; k < graph->products.n; k++)
        over[k] = false;
    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        for (uint32_t j = graph->products.n;
             j-- > 0 && p->kind == PRODUCT_ADDED && p->operand > 0 && p->turn == 0;) {
            const Product *result = &graph->products.at[j];
            if (over[j] || columns_of(result) < columns_of(p) ||
                !graph->operands.at[p->operand - 1].made_of[j])
                continue;
            p->turn = j + 1;
            over[j] = true;
        }
    }
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        GraphOperand *o = &graph->operands.at[k];
        for (uint32_t j = 0; j < graph->products.n && !o->shared && o->over == 0; j++) {
            const Product *result = &graph->products.at[j];
            if (over[j] || 2 * columns_of(result) < o->base->type.dim[!o->transposed] ||
                !o->made_of[j])
                continue;
            o->over = j + 1;
            over[j] = true;
        }
    }
}

/* Products and operands whose places are not shared with others, as far as columns last. */
static int32_t
part_results(Graph *graph, int32_t left)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        if (p->turn == 0 || columns_of(p) > left)
            continue;
        graph->taken[p->turn - 1] = false;
        p->turn = 0;
        left -= columns_of(p);
    }
    return left;
}

static int32_t
part_operands(Graph *graph, int32_t left)
{
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        GraphOperand *o = &graph->operands.at[k];
        int32_t columns = o->base->type.dim[!o->transposed] / 2;
        if (o->shared || o->over == 0 || columns > left)
            continue;
        o->over = 0;
        left -= columns;
    }
    return left;
}

/* Whether a sum reads a shared operand along the consumer's rows, so that it could lie in tensor memory for it. */
static bool
reads_along_rows(const Graph *graph, uint32_t operand, const Product *p)
{
    return p->operand == operand + 1 && p->kind == PRODUCT_SUM &&
           p->transposed == graph->operands.at[operand].transposed;
}

/* Whether an operand may lie over a result: no other does, and what takes turns with it is issued behind the sums that
 * read the operand, in the program's order. */
static bool
can_lie_over(const Graph *graph, uint32_t operand, uint32_t result)
{
    bool can = true;

    for (uint32_t k = 0; k < graph->operands.n; k++)
        can = can && graph->operands.at[k].over != result + 1;
    for (uint32_t k = 0; k < graph->products.n && can; k++) {
        for (uint32_t j = 0; j < k; j++)
            can = can && (graph->products.at[j].turn != result + 1 ||
                          !reads_along_rows(graph, operand, &graph->products.at[k]));
    }
    return can;
}

/* An operand in shared memory that some products could read in tensor memory, and a result that it could lie over there: it is
 * written to both.  These products leave the port of shared memory to others. */
static void
write_twice(Arena *arena, Graph *graph)
{
    uint32_t n = graph->operands.n;

    for (uint32_t k = 0; k < n; k++) {
        GraphOperand twin = graph->operands.at[k];
        TirOp *other = NULL;
        bool any = false;
        for (uint32_t j = 0; j < graph->products.n; j++) {
            const Product *p = &graph->products.at[j];
            if (p->operand != k + 1)
                continue;
            if (!reads_along_rows(graph, k, p))
                other = other != NULL ? other : p->mma;
            else if (!any)
                twin.first = p->mma;
            any = any || reads_along_rows(graph, k, p);
        }
        twin.shared = false;
        for (uint32_t j = 0; j < graph->products.n && twin.over == 0; j++) {
            const Product *result = &graph->products.at[j];
            if (can_lie_over(graph, k, j) && twin.made_of[j] &&
                2 * columns_of(result) >= twin.base->type.dim[!twin.transposed])
                twin.over = j + 1;
        }
        if (!graph->operands.at[k].shared || !any || other == NULL || twin.over == 0)
            continue;
        for (uint32_t j = 0; j < graph->products.n; j++) {
            if (reads_along_rows(graph, k, &graph->products.at[j]))
                graph->products.at[j].operand = n + 1;
        }
        graph->operands.at[k].first = other;
        vec_push(arena, &graph->operands, twin);
        return; /* more are not known */
    }
}

/* Left operands that are loaded before all loops, as far as columns last: what is read there leaves the port of shared memory to
 * others.  Nobody gives them back, so there must be sums: that they are there says that the mma role has seen the operands. */
static int32_t
keep_operands(Arena *arena, const TirFn *fn, Graph *graph, int32_t left)
{
    for (uint32_t k = 0; k < graph->products.n && graph->sums; k++) {
        Product *p = &graph->products.at[k];
        TirVal *operand = p->mma->args[p->mma->swap_ab];
        TirOp *load = plan_operand_load(operand);
        bool turned;
        graph_base(operand, &turned);
        if (load == NULL || load->parent != fn->body)
            continue;
        GraphKept kept = {.load = load, .transposed = turned != p->mma->swap_ab};
        TirType type = load->results[0]->type;
        int32_t rows = type.dim[kept.transposed], depth = type.dim[!kept.transposed];
        for (uint32_t j = 0; j < graph->kept.n; j++) {
            if (graph->kept.at[j].load == load && graph->kept.at[j].transposed == kept.transposed)
                p->kept = j + 1;
        }
        if (p->kept > 0 || rows != KEPT_ROWS || depth % KEPT_DEPTH != 0 || depth / 2 > left)
            continue;
        left -= depth / 2;
        vec_push(arena, &graph->kept, kept);
        p->kept = graph->kept.n;
    }
    return left;
}

const char *
graph_place(const Target *target, const TirFn *fn, Graph *graph)
{
    graph->taken = arena_array(fn->arena, bool, graph->products.n + 1);
    find_places(graph);
    int32_t left = target->chip.tmem_columns - count_columns(graph);
    if (left < 0)
        return "products have more columns of results and operands than tensor memory";
    left = part_results(graph, left);
    write_twice(fn->arena, graph);
    left = keep_operands(fn->arena, fn, graph, left);
    part_operands(graph, left);
    return NULL;
}
