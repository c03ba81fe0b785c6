/* halve_products.c - a tile that is too large to be added to what is added up is computed in
 * halves.
 *
 *   level    tile IR, fused
 *   does     where products are results of their own, which arithmetic adds to a loop's sums,
 *
 *                acc = acc + mma(a, b) * s       (what sums in f32 of 8-bit products are, too)
 *
 *            a consumer needs registers for the result beside the sum.  If both do not fit, but
 *            half of the result does, all that has the rows of the result, or its columns, is cut
 *            in two: loads, sums, arithmetic, stores.  The second half stands behind the first, so
 *            its product begins when that has been added up (stages_order.c), and products of other
 *            consumers run meanwhile
 *   leaves   twice as many operations on tiles of half the size
 *
 * What is cut follows from the result: an operation passes the cut on to what it reads and to what
 * reads it, as far as loads, constants, ranges and stores, which are cut themselves.  An operation
 * that combines what would be apart ends the attempt.
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Halver {
    TirFn *fn;
    uint8_t *cut; /* by value: 1 + the axis along which it is cut; 0: it is not */
    int32_t half; /* elements along it */
    bool news, failed;
    CloneMap second; /* of a value that is cut: its second half */
} Halver;

/* ---- what is cut ---- */

static void
cut(Halver *h, const TirVal *value, uint32_t axis)
{
    if (h->cut[value->id] == axis + 1)
        return;
    if (axis >= value->type.rank || value->type.dim[axis] != 2 * h->half || h->cut[value->id] != 0)
        h->failed = true;
    else
        h->cut[value->id] = (uint8_t)(axis + 1);
    h->news = true;
}

static void
cut_alike(Halver *h, const TirVal *a, const TirVal *b)
{
    if (h->cut[a->id] != 0)
        cut(h, b, h->cut[a->id] - 1u);
    if (h->cut[b->id] != 0)
        cut(h, a, h->cut[b->id] - 1u);
}

static void
cut_region(Halver *h, const TirOp *op)
{
    for (uint32_t r = 0; r < op->n_results; r++) {
        for (uint32_t k = 0; k < op->n_blocks; k++)
            cut_alike(h, op->results[r], block_yield(op->blocks[k])->args[r]);
        if (op->op != TIR_FOR)
            continue;
        cut_alike(h, op->results[r], op->args[loop_first_initial(op) + r]);
        cut_alike(h, op->results[r], op->blocks[0]->params.at[r + 1]);
    }
}

/* Rows go to the left operand, columns to the right one, and both to the sum. */
static void
cut_product(Halver *h, const TirOp *op)
{
    const TirVal *result = op->results[0];

    cut_alike(h, result, op->args[2]);
    for (uint32_t k = 0; k < 2; k++) {
        if (h->cut[op->args[k]->id] != 0)
            cut(h, result, h->cut[op->args[k]->id] - 1u);
        if (h->cut[result->id] == k + 1)
            cut(h, op->args[k], k);
        h->failed = h->failed || h->cut[op->args[k]->id] == 2 - k;
    }
}

/* An operation whose elements come from those of one place in each operand. */
static void
cut_places(Halver *h, const TirOp *op)
{
    const TirVal *result = op->results[0];

    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirVal *arg = op->args[k];
        for (uint32_t axis = 0; axis < result->type.rank; axis++) {
            uint32_t of = tir_axis_of_operand(op, k, axis);
            if (of >= arg->type.rank || arg->type.dim[of] != result->type.dim[axis])
                continue;
            if (h->cut[result->id] == axis + 1)
                cut(h, arg, of);
            if (h->cut[arg->id] == of + 1)
                cut(h, result, axis);
        }
    }
}

/* The dimension of its tensor along which an access is cut; false: it can not be. */
static bool
cut_access(const Halver *h, const TirOp *op, const TirVal *tile, TirDims *d)
{
    for (*d = tir_dims(op); tir_dims_next(d);) {
        if (d->axis + 1 == h->cut[tile->id])
            return d->range && d->index->rows == 0 && d->index->step == 0;
    }
    return false;
}

static const TirVal *
accessed(const TirOp *op)
{
    return op->op == TIR_LOAD ? op->results[0] : op->args[op->n_args - 1];
}

static bool
reads_cut(const Halver *h, const TirOp *op, uint32_t n)
{
    bool reads = false;

    for (uint32_t k = 0; k < n; k++)
        reads = reads || h->cut[op->args[k]->id] != 0;
    return reads;
}

/* Passes on what is known of an operation's values, and finds out whether it can be cut. */
static void
cut_op(Halver *h, const TirOp *op)
{
    AxisUse use = tir_axis_use(op);
    TirDims d;

    if (op->op == TIR_FOR || op->op == TIR_IF)
        cut_region(h, op);
    else if (op->op == TIR_MMA)
        cut_product(h, op);
    else if (use == AXIS_ELEMENTWISE || use == AXIS_MOVES)
        cut_places(h, op);
    else if (op->op == TIR_LOAD || op->op == TIR_STORE)
        h->failed = h->failed || reads_cut(h, op, op->n_args - (op->op == TIR_STORE)) ||
                    (h->cut[accessed(op)->id] != 0 && !cut_access(h, op, accessed(op), &d));
    else if (op->op == TIR_IOTA)
        h->failed = h->failed || (h->cut[op->results[0]->id] != 0 && op->index[0].rows > 0);
    else if (op->op != TIR_YIELD && op->op != TIR_CONST)
        h->failed = h->failed || reads_cut(h, op, op->n_args) ||
                    (op->n_results > 0 && h->cut[op->results[0]->id] != 0);
}

/* Whether what is cut is written and read by accesses to the same tensor, whose order would
 * change. */
static bool
changes_order(const Halver *h)
{
    bool changes = false;

    for (TirWalk walk = tir_walk(h->fn->body); tir_walk_next(&walk);) {
        if (walk.op->op != TIR_STORE || h->cut[accessed(walk.op)->id] == 0)
            continue;
        for (TirWalk other = tir_walk(h->fn->body); tir_walk_next(&other);)
            changes = changes || (other.op != walk.op && other.op->tensor == walk.op->tensor);
    }
    return changes;
}

static bool
find_cuts(Halver *h)
{
    do {
        h->news = false;
        for (TirWalk walk = tir_walk(h->fn->body); tir_walk_next(&walk);)
            cut_op(h, walk.op);
    } while (h->news && !h->failed);
    return !h->failed && !changes_order(h);
}

/* ---- cutting ---- */

static bool
is_cut(const Halver *h, const TirOp *op)
{
    if (op->op == TIR_STORE)
        return h->cut[accessed(op)->id] != 0;
    return op->n_results > 0 && h->cut[op->results[0]->id] != 0;
}

static void
halve(const Halver *h, TirVal *value, uint32_t axis)
{
    value->type.dim[axis] = h->half;
}

/* The second half of an operation, at `b`, and the first in its place. */
static void
halve_op(Halver *h, TirBuilder *b, TirOp *op)
{
    TirDims d = {0};
    TirVal **args = arena_array(h->fn->arena, TirVal *, op->n_args + 1), *half = NULL;

    b->span = op->span;
    if (tir_is_access(op->op) || op->op == TIR_IOTA)
        half = tir_const_int(b, h->half);
    if (op->op == TIR_IOTA)
        args[0] = tir_binary(b, TIR_ADD, op->args[0], half);
    if (tir_is_access(op->op) && cut_access(h, op, accessed(op), &d))
        args[d.arg] = tir_binary(b, TIR_ADD, d.at, half);
    for (uint32_t k = 0; k < op->n_limits; k++) { /* elements are counted from a half's first */
        if (op->limits[k].axis == d.axis)
            args[tir_index_operands(op) + k] = tir_binary(b, TIR_SUB, tir_limit_count(op, k), half);
    }
    TirOp *second = clone_op(b, &h->second, op);
    for (uint32_t k = 0; k < op->n_args; k++)
        second->args[k] = args[k] != NULL ? args[k] : second->args[k];
    if (tir_is_access(op->op))
        op->index[d.dim].length = second->index[d.dim].length = h->half;
    if (op->n_results > 0) {
        halve(h, second->results[0], h->cut[op->results[0]->id] - 1u);
        halve(h, op->results[0], h->cut[op->results[0]->id] - 1u);
    }
}

static void
append(TirFn *fn, TirVal ***list, uint32_t *n, TirVal *value)
{
    TirVal **longer = arena_array(fn->arena, TirVal *, *n + 1);

    for (uint32_t k = 0; k < *n; k++)
        longer[k] = (*list)[k];
    longer[(*n)++] = value;
    *list = longer;
}

static void halve_block(Halver *h, TirBlock *block);

/* A loop or branch carries the second halves behind all else. */
static void
halve_region(Halver *h, TirOp *op)
{
    uint32_t n = op->n_results, first = op->op == TIR_FOR ? loop_first_initial(op) : 0;

    for (uint32_t r = 0; r < n; r++) {
        TirVal *result = op->results[r];
        uint32_t axis = h->cut[result->id] - 1u;
        if (h->cut[result->id] == 0)
            continue;
        halve(h, result, axis);
        if (op->op == TIR_FOR) {
            TirVal *param = op->blocks[0]->params.at[r + 1];
            halve(h, param, axis);
            clone_set(&h->second, param,
                      tir_block_param(h->fn, op->blocks[0], param->type, param->name));
            append(h->fn, &op->args, &op->n_args, clone_of(&h->second, op->args[first + r]));
        }
        TirVal *second = arena_copy(h->fn->arena, result, sizeof *result);
        second->id = h->fn->next_id++;
        second->index = op->n_results;
        clone_set(&h->second, result, second);
        append(h->fn, &op->results, &op->n_results, second);
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        halve_block(h, op->blocks[k]);
        TirOp *yield = block_yield(op->blocks[k]);
        for (uint32_t r = 0; r < n; r++) {
            if (h->cut[op->results[r]->id] != 0)
                append(h->fn, &yield->args, &yield->n_args, clone_of(&h->second, yield->args[r]));
        }
    }
}

/* The operations of `late` to the end of `block`. */
static void
move_to(TirFn *fn, TirBlock *block, TirBlock *late)
{
    for (uint32_t i = 0; i < late->ops.n; i++) {
        TirOp *op = late->ops.at[i];
        op->parent = block;
        for (uint32_t k = 0; k < op->n_results; k++)
            op->results[k]->block = block;
        vec_push(fn->arena, &block->ops, op);
    }
    late->ops.n = 0;
}

/* Second halves stand behind all first ones, up to the next region. */
static void
halve_block(Halver *h, TirBlock *block)
{
    TirBlock old = *block, *late = tir_block_new(h->fn);
    TirBuilder b = {.fn = h->fn, .block = late, .at = -1};

    block->ops.at = NULL;
    block->ops.n = block->ops.cap = 0;
    for (uint32_t i = 0; i < old.ops.n; i++) {
        TirOp *op = old.ops.at[i];
        if (op->n_blocks > 0 || op->op == TIR_YIELD)
            move_to(h->fn, block, late);
        if (op->n_blocks > 0)
            halve_region(h, op);
        else if (is_cut(h, op))
            halve_op(h, &b, op);
        vec_push(h->fn->arena, &block->ops, op);
    }
    move_to(h->fn, block, late);
}

/* ---- whether to ---- */

/* Registers of a thread for tiles that the loop carries. */
static int64_t
carried_registers(const TirOp *loop)
{
    int64_t elements = 0;

    for (uint32_t k = 0; k < loop->n_results; k++)
        elements += loop->results[k]->type.rank == 2 ? tir_type_elements(loop->results[k]->type)
                                                     : 0;
    return elements / GROUP_LANES;
}

/* The axis along which a result of a product is cut that does not fit beside the sums of its loop
 * while its half does;
 * NO_AXIS: it fits, or neither does. */
static uint32_t
axis_to_cut(const Target *target, const TirOp *op)
{
    const MmaForm *form = product_form(target, op);
    const TirOp *loop = op->parent->owner;
    const TirVal *result = op->op == TIR_MMA ? op->results[0] : NULL;
    int64_t most = (int64_t)target->role_registers[1].consumer - BESIDE_SUMS;

    if (form == NULL || form->d != IN_REGISTERS || loop == NULL || loop->op != TIR_FOR ||
        op->args[2]->def == NULL || op->args[2]->def->op != TIR_CONST)
        return NO_AXIS;
    int64_t own = tir_type_elements(result->type) / GROUP_LANES, sums = carried_registers(loop);
    if (sums < own || sums + own <= most || sums + own / 2 > most)
        return NO_AXIS;
    if (result->type.dim[0] == 2 * form->m)
        return 0;
    return result->type.dim[0] == form->m && result->type.dim[1] % (2 * form->n_step) == 0
               ? 1
               : NO_AXIS;
}

bool
pass_halve_products(PassContext *px, TirFn *fn)
{
    Halver h = {.fn = fn, .cut = arena_array(fn->arena, uint8_t, fn->next_id + 1)};
    uint32_t products = 0;

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        uint32_t axis = walk.op->op == TIR_MMA ? axis_to_cut(px->target, walk.op) : NO_AXIS;
        products += walk.op->op == TIR_MMA;
        if (axis == NO_AXIS)
            continue;
        h.half = walk.op->results[0]->type.dim[axis] / 2;
        cut(&h, walk.op->results[0], axis);
    }
    if (products != 1 || h.half == 0 || plan_is_refused(px, fn) || !find_cuts(&h))
        return false;
    h.second = clone_map(fn);
    halve_block(&h, fn->body);
    return true;
}
