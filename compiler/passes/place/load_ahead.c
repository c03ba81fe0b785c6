/* load_ahead.c - a loop over rows loads the tile of its next iteration while it computes with one.
 *
 *   level    tile IR with register layouts
 *   does     a load of a tensor that the program only reads, whose place follows from the loop's
 *            counter, is issued an iteration ahead: the loop carries its tile, the first is loaded
 *            before it.  A load behind the last iteration finds nothing there: the loop runs to the
 *            end of a tensor
 *   leaves   loops that carry tiles.  Not beside products, whose loads the schedule stages, and
 *            only as much as a thread has registers for
 */
#include "compiler/ir/layout.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_util.h"

/* Registers of a thread for tiles that come, in a loop; and what a tile has at least: of smaller
 * ones an SM has so many blocks that some compute while others wait, and a loop often ends with the
 * first (cross-entropy and softmax of 16 and 2048 rows). */
enum { MOST_AHEAD = 32, LEAST_AHEAD = 17 };

typedef struct Ahead {
    TirFn *fn;
    bool changed;
} Ahead;

static int64_t
words_of(const TirVal *value)
{
    return (layout_registers(value->layout) * (int64_t)dtype_bits(value->type.dtype) + 31) / 32;
}

/* Whether a scalar is made of the counter of `body` and what is known before the loop; *counts: of
 * the counter. */
static bool
follows_counter(const TirVal *value, const TirBlock *body, bool *counts)
{
    const TirOp *def = value->def;

    if (!tir_is_inside(value->block, body))
        return true;
    if (def == NULL) {
        *counts = *counts || value == body->params.at[0];
        return value == body->params.at[0];
    }
    bool follows = value->block == body && value->type.rank == 0 && def->n_blocks == 0 &&
                   def->n_results == 1 && (tir_op_info(def->op)->flags & TF_ELEMENTWISE) != 0;
    for (uint32_t k = 0; k < def->n_args && follows; k++)
        follows = follows_counter(def->args[k], body, counts);
    return follows || (value->block == body && def->op == TIR_CONST);
}

/* Whether a loop ends where a tensor does, which is loaded by: its last tile is the one that the
 * end lies in. */
static bool
runs_to_its_end(const TirOp *loop, const TirOp *load)
{
    const TirOp *end = loop->args[1]->def;

    if (end != NULL && end->op == TIR_DIV && end->args[0]->def != NULL &&
        end->args[0]->def->op == TIR_ADD)
        end = end->args[0]->def->args[0]->def;
    for (TirDims d = tir_dims(load); tir_dims_next(&d) && end != NULL;) {
        const TensorDim *dim = &load->tensor->dim[d.dim];
        if (d.range && dim->constant > 0 && end->op == TIR_CONST &&
            end->integer * d.length >= dim->constant)
            return true;
        if (d.range && dim->constant == 0 && end->op == TIR_SIZE && end->integer == dim->size)
            return true;
    }
    return false;
}

static bool
can_be_ahead(const TirOp *load, const TirOp *loop)
{
    const TirBlock *body = loop->blocks[0];
    bool counts = false, follows = load->op == TIR_LOAD && load->tensor->mode == TENSOR_IN;

    if (!follows || load->results[0]->type.rank == 0 || load->results[0]->layout == NULL ||
        !runs_to_its_end(loop, load))
        return false;
    for (uint32_t k = 0; k < load->n_args && follows; k++)
        follows = follows_counter(load->args[k], body, &counts);
    return follows && counts;
}

/* The operands of a load in iteration `iteration`, where `b` is. */
static TirVal **
operands_in(TirBuilder *b, const TirOp *load, const TirBlock *body, TirVal *iteration)
{
    TirVal **args = arena_array(b->fn->arena, TirVal *, load->n_args + 1);
    ScalarMap map = {0};

    scalar_map_add(&map, b->fn->arena, body->params.at[0], iteration);
    for (uint32_t k = 0; k < load->n_args; k++)
        args[k] = clone_scalar(b, &map, load->args[k], body);
    return args;
}

static void
replace_in(TirBlock *block, const TirVal *value, TirVal *by)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++)
            op->args[k] = op->args[k] == value ? by : op->args[k];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            replace_in(op->blocks[k], value, by);
    }
}

static uint32_t
place_in(const TirBlock *block, const TirOp *op)
{
    uint32_t at = 0;

    while (block->ops.at[at] != op)
        at++;
    return at;
}

static void
put_ahead(Ahead *a, TirOp *loop, TirOp *load)
{
    TirBlock *body = loop->blocks[0];
    TirVal *tile = load->results[0];
    TirBuilder before = {.fn = a->fn,
                         .block = loop->parent,
                         .at = (int32_t)place_in(loop->parent, loop),
                         .span = load->span};
    TirBuilder within = {
        .fn = a->fn, .block = body, .at = (int32_t)place_in(body, load), .span = load->span};

    TirVal **first = operands_in(&before, load, body, loop->args[0]);
    TirOp *one = tir_op_new(&before, TIR_LOAD, load->n_args, first, 1, &tile->type);
    tir_copy_place(one, load);
    one->results[0]->layout = tile->layout;
    one->results[0]->name = tile->name;
    TirVal *next = tir_binary(&within, TIR_ADD, body->params.at[0], tir_const_int(&within, 1));
    load->args = operands_in(&within, load, body, next);
    TirVal *carried = loop_add_carried(a->fn, loop, one->results[0], tile->name);
    carried->layout = loop->results[loop->n_results - 1]->layout = tile->layout;
    replace_in(body, tile, carried);
    op_add_arg(a->fn->arena, block_yield(body), tile);
    a->changed = true;
}

static void
walk(Ahead *a, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *loop = block->ops.at[i];
        for (uint32_t k = 0; k < loop->n_blocks; k++)
            walk(a, loop->blocks[k]);
        if (loop->op != TIR_FOR || has_operation(loop->blocks[0], TIR_FOR))
            continue;
        int64_t room = MOST_AHEAD;
        const TirBlock *body = loop->blocks[0];
        for (uint32_t k = 0; k < body->ops.n; k++) {
            TirOp *load = body->ops.at[k];
            if (!can_be_ahead(load, loop) || words_of(load->results[0]) > room ||
                words_of(load->results[0]) < LEAST_AHEAD)
                continue;
            room -= words_of(load->results[0]);
            put_ahead(a, loop, load);
            k = place_in(body, load);
        }
        i = place_in(block, loop);
    }
}

bool
pass_load_ahead(PassContext *px, TirFn *fn)
{
    Ahead a = {.fn = fn};

    (void)px;
    if (fn->plan == NULL && count_mmas(fn->body) == 0)
        walk(&a, fn->body);
    return a.changed;
}
