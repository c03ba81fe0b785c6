/* plan_graph.c - products of a main loop that a role of their own may issue: what becomes of their
 * results, and where they lie.
 *
 * A product that a thread issues leaves its result in tensor memory.  Products are of three kinds,
 * by what becomes of it:
 *
 *     read      arithmetic reads it
 *     sum       it is added to a sum that the loop, and those around it, carry and nobody else sees
 *     added     it is added to memory, and that is all
 *
 * Where there are nothing but sums of loaded tiles, one thread issues all products of the loop, and
 * consumers have what comes behind it, while the next tile's products run.  Else consumers have the
 * arithmetic between products: results and computed left operands go through tensor memory.  So do
 * sums, which in a chain one operation of an iteration may change in front of the product that adds
 * to them.  In a graph several products may have an operand, which is written once, and loops may
 * stand around.
 *
 * Where they lie in a graph.  An operand goes through tensor memory where its rows, which are the
 * consumer's, are the rows of all products that read it; else through shared memory, where a
 * product can read it along its rows or across them.  Where a result that it can lie over allows
 * it, it is written to both: what is read in tensor memory leaves the port of shared memory to
 * others. What is left of the columns goes to results that take turns, then to left operands that
 * are loaded before all loops, then to computed operands.
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/ir/tir_scales.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* ---- what there is ---- */

static const char computed_right[] = "the right operand of a product is computed, not loaded",
                  adds_to_other[] =
                      "a product in tensor memory adds to what is neither zero nor a sum of its own";

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

/* What the loop around `loop` makes of its result `k`: 1 + that one's result, if it only hands it
 * on; 0. */
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
    uint32_t k = p->in_place ? p->sum : 0;

    for (; k > 0 && loop->parent != fn->body; loop = loop->parent->owner)
        k = handed_on(loop, k - 1);
    return k > 0;
}

/* The computed left operand of a product, in a graph unless another one has it. */
static void
add_operand(Arena *arena, Graph *graph, Product *p)
{
    GraphOperand operand = {.base = graph_base(p->mma->args[0], &p->transposed), .first = p->mma};

    for (uint32_t k = 0; k < graph->operands.n && graph->as == AS_GRAPH; k++) {
        GraphOperand *other = &graph->operands.at[k];
        if (other->base != operand.base)
            continue;
        if (other->transposed != p->transposed || p->kind != PRODUCT_SUM)
            other->shared = true;
        p->operand = k + 1;
        return;
    }
    /* its rows are the consumer's, which those of sums are */
    operand.transposed = p->transposed != (p->kind == PRODUCT_ADDED);
    operand.shared = p->kind != PRODUCT_SUM && graph->as == AS_GRAPH;
    operand.made_of = arena_array(arena, bool, graph->products.n);
    vec_push(arena, &graph->operands, operand);
    p->operand = graph->operands.n;
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

static void
list_operands(const TirFn *fn, const TirBlock *body, Graph *graph)
{
    for (uint32_t k = 0; k < graph->products.n; k++) {
        Product *p = &graph->products.at[k];
        graph->sums = graph->sums || p->kind == PRODUCT_SUM;
        if (p->second)
            add_operand(fn->arena, graph, p);
    }
    for (uint32_t j = 0; j < graph->operands.n && graph->as == AS_GRAPH; j++) {
        GraphOperand *operand = &graph->operands.at[j];
        for (uint32_t k = 0; k < graph->products.n; k++) {
            const Product *p = &graph->products.at[k];
            operand->made_of[k] = p->kind == PRODUCT_READ &&
                                  follows_from(fn->arena, body, operand->base, p->mma->results[0]);
        }
    }
}

/* ---- nothing but sums ---- */

/* Whether a loop does nothing with its products of loaded tiles but add each to what the iteration
 * begins with.  (One that adds to another product of its iteration would go into the next one
 * beside that, whose result has no name there.) */
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

/* Whether an iteration does anything but load, transpose and multiply tiles, or leaves anything but
 * sums: what else it leaves has to be computed in each, also where that is no tile (where padding
 * begins), or loaded. */
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

/* ---- chains ---- */

/* Why a chain can not have both products, of which `p` comes later; NULL: it can.  Products of
 * loaded tiles are issued in front of those with a computed operand of the iteration before.  So no
 * iteration may wait for one of the second kind, and none of the first kind may wait for the
 * iteration: for a sum that it changes. */
static const char *
cannot_both(const TirBlock *body, const Product *p, const Product *other)
{
    const TirOp *change = p->mma->args[2]->def;
    const Product *late = p->second ? p : other, *early = p->second ? other : p;
    const TirOp *tile = late->load[1];

    if (change != NULL && change->parent == body && !tir_is_zero(p->mma->args[2]) &&
        change == other->mma->args[2]->def)
        return "one operation changes two sums in tensor memory";
    if (p->second == other->second)
        return NULL;
    if (late->sum == 0 || early->change != NULL)
        return "products of loaded tiles and those with a computed operand would wait for each other";
    return tile->parent == body && (early->load[0] == tile || early->load[1] == tile)
               ? "a tile is an operand of a first product and of one with a computed operand"
               : NULL;
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
    const char *why = NULL;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (tir_writes(body->ops.at[i]))
            return "memory is written in a loop whose products have results in tensor memory";
    }
    for (uint32_t k = 0; k < products->n; k++) {
        const Product *p = &products->at[k];
        int32_t operand = p->second ? p->mma->args[0]->type.dim[1] / 2 : 0;
        if (p->load[1] == NULL)
            return computed_right;
        if (p->sum == 0 && !tir_is_zero(p->mma->args[2]))
            return adds_to_other;
        if (p->sum > 0 && !p->in_place)
            return "a sum in tensor memory is used otherwise than by one operation and its product";
        if (p->change != NULL && count_uses(fn, loop->results[p->sum - 1]) == 0)
            return "a sum in tensor memory is changed in each iteration, and nobody reads it";
        columns += operand +
                   (int32_t)tir_product_columns((uint32_t)p->mma->results[0]->type.dim[1]);
        covered += operand;
        all_covered = all_covered && (!p->second || p->over > 0);
    }
    for (uint32_t k = 0; k < products->n * products->n && why == NULL; k++) {
        if (k % products->n < k / products->n)
            why = cannot_both(body, &products->at[k / products->n], &products->at[k % products->n]);
    }
    if (why != NULL || columns - (all_covered ? covered : 0) <= own_columns(target, consumers))
        return why;
    return consumers == 1
               ? "products have more columns of results and operands than tensor memory"
               : "products of so many warp groups have more columns of results and operands "
                 "than tensor memory";
}

/* ---- graphs ---- */

static const char *
cannot_be_in_graph(const Product *p)
{
    if (p->kind == PRODUCT_ADDED && tir_has_places(p->addition))
        return "a product in tensor memory is added at a list of places";
    if ((p->kind != PRODUCT_SUM || p->change != NULL) && !tir_is_zero(p->mma->args[2]))
        return adds_to_other;
    if (p->load[1] == NULL)
        return computed_right;
    return p->second && p->kind == PRODUCT_READ
               ? "arithmetic reads the result of a product that has a computed operand"
               : NULL;
}

static const char *
cannot_graph(const TirBlock *body, const Products *products, uint32_t consumers)
{
    const char *why = NULL;
    bool reads = false;

    for (uint32_t k = 0; k < products->n && why == NULL; k++) {
        why = cannot_be_in_graph(&products->at[k]);
        reads = reads || products->at[k].kind == PRODUCT_READ;
    }
    if (why == NULL && !reads)
        why = "results of products in tensor memory take a main loop that stands in no other";
    for (uint32_t i = 0; i < body->ops.n && why == NULL; i++) {
        bool product = false;
        for (uint32_t k = 0; k < products->n; k++)
            product = product || products->at[k].addition == body->ops.at[i];
        if (op_writes_deep(body->ops.at[i]) && !product)
            why = "memory is written in a loop whose products have results in tensor memory, and not by adding "
                  "a product to it";
    }
    return why == NULL && consumers > 1 ? "products that form a graph have one consumer" : why;
}

/* ---- who issues them ---- */

/* Whether the rows of all products are the consumer's. */
static bool
is_upright(const Products *products)
{
    bool upright = true;

    for (uint32_t k = 0; k < products->n; k++)
        upright = upright && !products->at[k].mma->swap_ab;
    return upright;
}

/* Columns that the scales of a product take, of one iteration. */
static int32_t
scale_columns(const Product *p)
{
    uint32_t columns = 0;

    for (uint32_t k = 0; k < 2 && p->mma->n_args == TIR_MMA_SCALED; k++) {
        TirType type = p->mma->args[TIR_MMA_PLAIN + k]->type;
        columns += tir_scale_columns(type.dim[k], type.dim[1 - k]);
    }
    return (int32_t)columns;
}

static bool
has_scales(const Products *products)
{
    bool has = false;

    for (uint32_t k = 0; k < products->n; k++)
        has = has || products->at[k].mma->n_args == TIR_MMA_SCALED;
    return has;
}

static bool
fits_sums(const Target *target, const Products *products, uint32_t consumers)
{
    int32_t columns = 0;

    for (uint32_t k = 0; k < products->n; k++)
        columns += products->at[k].mma->results[0]->type.dim[1] + scale_columns(&products->at[k]);
    return columns <= own_columns(target, consumers);
}

Graph
plan_issue(const Target *target, const TirFn *fn, const TirOp *loop, uint32_t consumers)
{
    const TirBlock *body = loop->blocks[0];
    bool outer = loop->parent == fn->body;
    Graph graph = {0};

    if (target_issuer(target) != BY_THREAD)
        return graph;
    Products *products = &graph.products;
    *products = plan_products(fn, loop);
    bool sums = outer && only_adds(body, products) && !has_other_work(body);
    for (uint32_t k = 0; k < products->n; k++) {
        Product *p = &products->at[k];
        p->kind = sums || is_whole_sum(fn, loop, p) ? PRODUCT_SUM
                  : p->addition != NULL             ? PRODUCT_ADDED
                                                    : PRODUCT_READ;
    }
    const char *no_chain = !sums && outer ? cannot_chain(target, fn, loop, products, consumers)
                                          : NULL;
    if (sums) {
        graph.as = AS_SUMS;
        graph.why = fits_sums(target, products, consumers)
                        ? NULL
                        : "the results of products have more columns than tensor memory";
    } else if (has_scales(products)) {
        graph.why =
            "products in tensor memory with scales are in a loop that does nothing but add them up";
    } else if (outer && no_chain == NULL && is_upright(products)) {
        graph.as = AS_CHAIN;
    } else {
        graph.why = cannot_graph(body, products, consumers);
        graph.as = graph.why == NULL ? AS_GRAPH : BY_CONSUMERS;
        graph.why = graph.why != NULL && no_chain != NULL ? no_chain : graph.why;
    }
    list_operands(fn, body, &graph);
    return graph;
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
    Graph graph = plan_issue(target, fn, loop, consumers);

    return graph.as == AS_GRAPH ? graph_operand_bytes(&graph) : -1;
}

uint32_t
plan_consumer_warps(const Graph *graph)
{
    int32_t read = 0, apart = 2 * MATRIX_COLUMNS;
    bool whole = graph->as == AS_GRAPH;

    for (uint32_t k = 0; k < graph->products.n && whole; k++) {
        const Product *p = &graph->products.at[k];
        int32_t columns = p->mma->results[0]->type.dim[!p->mma->swap_ab];
        read += p->kind == PRODUCT_READ ? columns : 0;
        whole = columns % (p->kind == PRODUCT_READ ? apart : MATRIX_COLUMNS) == 0;
    }
    for (uint32_t k = 0; k < graph->operands.n && whole; k++) {
        const GraphOperand *operand = &graph->operands.at[k];
        whole = operand->base->type.dim[!operand->transposed] % (2 * apart) == 0;
    }
    return whole && read > GROUP_LANES ? 2 * GROUP_WARPS : GROUP_WARPS;
}

/* Whether nothing in the block accesses the tensor but `addition`: else a barrier would keep their
 * order. */
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

/* The columns of the widest result that is added to memory by nothing but a product's addition; 0:
 * there is none, or one is not. */
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
plan_adds_apart(const Target *target, const TirFn *fn, const Graph *graph, uint32_t consumers,
                uint32_t *adder, RoleRegisters *others)
{
    uint32_t warps = plan_consumer_warps(graph);
    uint32_t all = (uint32_t)target->chip.registers_per_sm / GROUP_LANES;

    if (target->adder_beside_columns == 0 || graph->as != AS_GRAPH)
        return false;
    int32_t columns = added_columns(fn, graph),
            held = columns < ADDED_AT_ONCE ? columns : ADDED_AT_ONCE;
    *others = target->role_registers[consumers];
    *adder = ((uint32_t)held + target->adder_beside_columns + REGISTER_STEP - 1) / REGISTER_STEP *
             REGISTER_STEP;
    uint32_t each = (all - target->producer_beside_adder - *adder) /
                    (consumers * warps / GROUP_WARPS) / REGISTER_STEP * REGISTER_STEP;
    if (each < others->consumer)
        *others = (RoleRegisters){target->producer_beside_adder, each};
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        if (p->kind == PRODUCT_READ &&
            plan_kept_elements(p->mma, warps) + BESIDE_SUMS > others->consumer)
            return false; /* a consumer that adds itself has more */
    }
    return columns > 0;
}

/* ---- columns ---- */

/* What a left operand in tensor memory has: lanes, and whole steps of a product in the part of each
 * of two warp groups. */
enum { KEPT_ROWS = 128, KEPT_DEPTH = 32 };

static int32_t
columns_of(const Product *p)
{
    return (int32_t)tir_product_columns((uint32_t)p->mma->results[0]->type.dim[!p->mma->swap_ab]);
}

static int32_t
operand_columns(const GraphOperand *o)
{
    return o->base->type.dim[!o->transposed] / 2;
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
            columns += operand_columns(o);
    }
    return columns;
}

/* What is added to memory takes turns with a result that its operand is made of; an operand lies
 * over one. */
static void
find_places(Arena *arena, Graph *graph)
{
    bool *over = arena_array(arena, bool, graph->products.n + 1); /* something lies there */

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
            if (over[j] || columns_of(result) < operand_columns(o) || !o->made_of[j])
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
        p->turn = 0;
        left -= columns_of(p);
    }
    return left;
}

static void
part_operands(Graph *graph, int32_t left)
{
    for (uint32_t k = 0; k < graph->operands.n; k++) {
        GraphOperand *o = &graph->operands.at[k];
        if (o->shared || o->over == 0 || operand_columns(o) > left)
            continue;
        o->over = 0;
        left -= operand_columns(o);
    }
}

/* Whether a sum reads a shared operand along the consumer's rows, so that it could lie in tensor
 * memory for it. */
static bool
reads_along_rows(const Graph *graph, uint32_t operand, const Product *p)
{
    return p->operand == operand + 1 && p->kind == PRODUCT_SUM &&
           p->transposed == graph->operands.at[operand].transposed;
}

/* Whether an operand may lie over a result: no other does, and what takes turns with it is issued
 * behind the sums that read the operand, in the program's order. */
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

/* An operand in shared memory that some products could read in tensor memory, and a result that it
 * could lie over there: it is written to both.  These products leave the port of shared memory to
 * others. */
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
                columns_of(result) >= operand_columns(&twin))
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

/* Left operands that are loaded before all loops, as far as columns last: what is read there leaves
 * the port of shared memory to others.  Nobody gives them back, so there must be sums: that they
 * are there says that the mma role has seen the operands. */
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
    if (graph->as == AS_SUMS && !is_upright(&graph->products))
        return "the rows of a product do not run along the warp groups' axis";
    if (graph->as != AS_GRAPH)
        return graph->why;
    find_places(fn->arena, graph);
    int32_t left = target->chip.tmem_columns - count_columns(graph);
    if (left < 0)
        return "products have more columns of results and operands than tensor memory";
    left = part_results(graph, left);
    write_twice(fn->arena, graph);
    left = keep_operands(fn->arena, fn, graph, left);
    part_operands(graph, left);
    return NULL;
}
