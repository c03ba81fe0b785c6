/* plan_pairs.c - part of pass `plan`: pairs of blocks that multiply, or add up, together.
 *
 * Two blocks that are neighbours on the consumer axis read the same tiles of what does not depend
 * on it.  As a cluster, they run at the same time on two neighbouring multiprocessors.  (Sharing
 * copies alone gained nothing: docs/lab/gemm.md.)
 *
 * Where the target has products of two blocks, the mma role of the first block issues those of
 * both: rows of a result are the consumer's of that block and the one's of the same number in the
 * other; what both read, the right operand, is never whole in one block: each has its half of the
 * columns.  (Such a product takes no more of the tensor cores, and half as much of the right
 * operand's room and of reading it.)  So in loops of nothing but products, and in chains, where
 * each block's consumers have its own rows of results and of operands.
 *
 * Both blocks go through the same tiles of the grid, two at a time, and the same iterations.  One
 * that lies past the end of the axis does all that it has to do for the other: its consumers let
 * pass what comes.
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/iterations.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

/* ---- products of both blocks ---- */

/* The dimension of a load's tensor along which its tile's rows, or its columns, lie in halves of
 * whole rows of swizzle atoms; TENSOR_MAX_RANK: there is none. */
static uint32_t
halved_dim(const TirOp *load, bool rows)
{
    uint32_t last = load->tensor->rank - 1, ranges = 0, dim = TENSOR_MAX_RANK;

    if (!rows)
        return last;
    for (TirDims d = tir_dims(load); tir_dims_next(&d) && d.dim < last;) {
        if (d.single)
            continue;
        ranges++;
        dim = d.range && d.index->rows == 0 ? d.dim : TENSOR_MAX_RANK;
    }
    return ranges == 1 ? dim : TENSOR_MAX_RANK;
}

/* Whether the columns of a product that reads `value` as its right operand are the rows of the tile
 * that is loaded. */
static bool
lies_turned(const TirVal *value)
{
    bool turned = false;

    for (const TirOp *def = value->def; def->op == TIR_TRANSPOSE; def = def->args[0]->def)
        turned = !turned;
    return turned;
}

uint32_t
pair_halved_dim(const TirOp *access, const TirShared *pipeline)
{
    TirType tile = tir_index_type(access);

    return halved_dim(access, pipeline->rows < tile.dim[0]);
}

/* Whether all products read the tile, if they do, as a right operand that lies so. */
static bool
is_always_right(const Products *products, const TirOp *load, bool turned)
{
    bool always = true;

    for (uint32_t k = 0; k < products->n; k++) {
        const Product *p = &products->at[k];
        always = always && p->load[0] != load &&
                 (p->load[1] != load || lies_turned(p->mma->args[1]) == turned);
    }
    return always;
}

/* Of a tile whose columns are halved and that may begin before its tensor: what lies in a line of
 * shared memory ends at one side of the tensor at most if it is of two rows or fewer
 * (lower_end_box). */
enum { LEAST_COLUMNS = 64 };

static const char *
cannot_multiply(const Target *target, const TirFn *fn, const TirOp *loop, const Graph *graph)
{
    const TirBlock *body = loop->blocks[0];

    if (graph->as == AS_GRAPH)
        return "products of two blocks are for sums and chains of products, not for a graph of them";
    /* a block past the end of the axis must not, and makes products */
    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (op_writes_deep(body->ops.at[i]))
            return "memory is written in a loop whose products are those of two blocks";
    }
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const TirOp *op = graph->products.at[k].mma, *right = graph->products.at[k].load[1];
        const MmaForm *form = target_pair_mma(target, op->args[0]->type.dtype,
                                              op->args[1]->type.dtype);
        bool turned = lies_turned(op->args[1]);
        if (form == NULL)
            return "the target has no products of two blocks";
        if (op->results[0]->type.dim[0] * (int32_t)form->blocks != form->m ||
            op->results[0]->type.dim[1] % form->n_step != 0 ||
            op->results[0]->type.dim[1] > form->n)
            return arena_printf(
                fn->arena,
                "a product of two blocks has %d rows of each, and columns in steps of %d up "
                "to %d",
                (int)form->m / (int)form->blocks, (int)form->n_step, (int)form->n);
        if (right->shared->each)
            return "the right operand of a product is not the same for neighbouring blocks";
        if (!is_always_right(&graph->products, right, turned) ||
            halved_dim(right, turned) == TENSOR_MAX_RANK)
            return "the right operand of a product can not be halved";
        if (!turned && box_may_begin_before(right) &&
            op->results[0]->type.dim[1] % LEAST_COLUMNS != 0)
            return "half of a tile that may begin before its tensor has no multiple of 32 columns";
    }
    return NULL;
}

/* Each block of a pair has half of the right operands. */
static void
halve_operands(const Products *products)
{
    for (uint32_t k = 0; k < products->n; k++) {
        const TirOp *load = products->at[k].load[1];
        if (load == NULL || load->shared->halved)
            continue;
        bool turned = lies_turned(products->at[k].mma->args[1]);
        load->shared->halved = true;
        load->shared->rows /= turned ? 2 : 1;
        load->shared->cols /= turned ? 1 : 2;
    }
}

/* ---- what both blocks add to memory ---- */

/* Whether a bound of a loop may differ from block to block of a pair. */
static bool
differs(const TirFn *fn, const TirVal *value)
{
    for (TirInputs in = tir_inputs(fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        /* the number of an iteration; else nobody knows */
        if (def == NULL &&
            (in.value->block->owner == NULL || in.value != in.value->block->params.at[0]))
            return true;
        if (def == NULL)
            continue;
        if (def->op == TIR_GRID || def->op == TIR_GRID_FIRST) {
            if (def->integer == (int64_t)fn->plan->tiles.axis)
                return true;
            continue;
        }
        tir_inputs_follow(&in);
    }
    return false;
}

static bool
limits_columns(const TirOp *add)
{
    bool limits = false;

    for (uint32_t k = 0; k < add->n_limits; k++)
        limits = limits || add->limits[k].axis > 0;
    return limits;
}

/* Whether the products that a loop's reduce role adds to memory go to the same places in both
 * blocks, and those of a block past the end of the axis are zero: what they add up over ends where
 * the axis does. */
static const char *
cannot_add(const TirFn *fn, const TirOp *loop, Span *where)
{
    Products products = plan_products(fn, loop);
    uint32_t axis = fn->plan->tiles.axis;

    for (uint32_t i = 0; i < products.n; i++) {
        const TirOp *mma = products.at[i].mma, *add = products.at[i].addition;
        if (add == NULL)
            continue;
        *where = add->span;
        for (uint32_t k = 0; k + 1 < add->n_args; k++) {
            if (differs(fn, add->args[k]))
                return "neighbouring blocks add to different places";
        }
        TirType type = mma->results[0]->type;
        if (mma->swap_ab || type.dtype != DT_F32 || add->tensor->dtype != DT_F32 ||
            tir_last_dim(add).at != NULL || type.dim[1] % (2 * SENT_AT_ONCE) != 0 ||
            limits_columns(add))
            return "what is added to memory has no halves of whole pieces of 16 bytes";
        const TirOp *right = products.at[i].load[1];
        if (right == NULL || mma->args[1]->def != right || !rows_end_with_axis(fn, axis, 2, right))
            return "a block past the end of the grid would add to what its neighbour adds: the rows that the product "
                   "adds up over do not end where the grid's axis does";
    }
    return NULL;
}

/* ---- iterations of one block alone ---- */

/* Whether a consumer may let iterations pass that only the other block's program has: masks hide
 * them from its own, and what it hands on makes all that is added up. */
static bool
can_let_pass(const TirFn *fn, const TirOp *loop, const Graph *graph)
{
    const TirGridAxis *axis = &fn->grid.at[fn->plan->tiles.axis];
    bool can = graph->as != AS_SUMS && tir_adding_warps(fn->plan) == 0 &&
               loop->parent == fn->body && (axis->variable_trips || axis->sliding);
    bool looked_at = false; /* results of loaded tiles: check-roles sees by them what passes */

    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        looked_at = looked_at || !p->second;
        can = can && (p->second || p->carried == 0);
    }
    return can && looked_at;
}

/* Whether a block that adds up with its neighbour may go through iterations that only that one's
 * program has: masks leave them out of its own, or it has no rows, and it adds zeros. */
static bool
can_go_along(const TirFn *fn, const TirOp *loop)
{
    uint32_t apart = loop->masked ? loop->apart : iterations_apart(fn->arena, fn->body, loop);

    return tir_adding_warps(fn->plan) > 0 && (apart >> fn->plan->tiles.axis & 1) == 0;
}

const char *
plan_can_pair(const Target *target, const TirFn *fn, const TirOp *loop, Span *where)
{
    Graph graph = plan_issue(target, fn, loop, tir_consumers(fn->plan));

    *where = loop->span;
    if (graph.as == BY_CONSUMERS)
        return "the target has no products of two blocks";
    for (const TirOp *around = loop; around != NULL; around = around->parent->owner) {
        *where = around->span;
        bool pass = around == loop && (can_let_pass(fn, loop, &graph) || can_go_along(fn, loop));
        if (around->op != TIR_FOR ||
            (!pass && (differs(fn, around->args[0]) || differs(fn, around->args[1]))))
            return "neighbouring blocks do not have the same iterations";
    }
    *where = loop->span;
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        if (fn->shared.at[k]->scales > 0)
            return "scales of products are loaded by each block for itself";
    }
    if (tir_adding_warps(fn->plan) > 0)
        return cannot_add(fn, loop, where);
    return cannot_multiply(target, fn, loop, &graph);
}

/* Bytes of shared memory of what a graph of products has there, vectors and barriers apart, and of
 * what the blocks of a pair send to each other. */
static int64_t
graph_bytes(const Target *target, const TirFn *fn, const Graph *graph)
{
    int64_t bytes = graph_operand_bytes(graph);

    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *pipeline = fn->shared.at[k];
        bytes += (int64_t)pipeline->rows * pipeline->cols * dtype_bits(pipeline->dtype) / 8 *
                 pipeline->stages;
    }
    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        int32_t columns = p->mma->results[0]->type.dim[1];
        bytes += p->kind == PRODUCT_ADDED
                     ? (int64_t)TMEM_LANES * plan_sent_columns(target, columns) * 4
                     : 0;
    }
    return bytes;
}

/* Whether a product that is read, and may be issued in the iteration before, reads the tile: none
 * lies over its result that is added to memory. */
static bool
is_read_ahead(const Graph *graph, const TirOp *load)
{
    bool ahead = false;

    for (uint32_t k = 0; k < graph->products.n; k++) {
        const Product *p = &graph->products.at[k];
        bool reads = p->load[0] == load || p->load[1] == load;
        for (uint32_t j = 0; j < graph->products.n; j++)
            reads = reads && graph->products.at[j].turn != k + 1;
        ahead = ahead || (p->kind == PRODUCT_READ && reads);
    }
    return ahead;
}

/* Where there is no room for what blocks send to each other, tiles that no product reads an
 * iteration ahead have one stage. */
static void
spare_stages(const Target *target, const TirFn *fn, const TirBlock *body, Graph *graph)
{
    enum { BESIDE_TILES = 4096 }; /* vectors, barriers */

    if (graph->as != AS_GRAPH || graph_place(target, fn, graph) != NULL ||
        graph_bytes(target, fn, graph) + BESIDE_TILES <= target_shared_limit(target, 1))
        return;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op->shared->kind == SHARED_PIPELINE &&
            !is_read_ahead(graph, op))
            op->shared->stages = 1;
    }
}

void
plan_pairs(const Target *target, TirFn *fn, const TirOp *loop)
{
    Graph graph = plan_issue(target, fn, loop, tir_consumers(fn->plan));

    if (tir_adding_warps(fn->plan) > 0)
        spare_stages(target, fn, loop->blocks[0], &graph);
    else
        halve_operands(&graph.products);
    fn->plan->tiles.cluster = 2;
}
