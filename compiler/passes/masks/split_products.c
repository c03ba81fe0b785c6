/* split_products.c - products over a first dimension, one for each of its elements.
 *
 * Part of pass flatten, before it cuts dimensions.  A product of tiles of three dimensions becomes
 * as many products of two as the first dimension has elements, and so does all that goes into them
 * or comes out of them: loads and stores by one range become such of one index each, what loops
 * carry and branches give is carried and given apart.  Each has a first dimension of one element
 * left, with its padding.  A reduction along the first dimension combines what they give.
 */
#include "compiler/passes/masks/flatten.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/masks/padding.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"

enum { MOST_PRODUCTS = 16 }; /* a program would be too long */

typedef struct Splitter {
    PassContext *px;
    TirFn *fn;
    TirBuilder b;
    bool *split;      /* by the id of a value: it is taken apart, .. */
    TirVal ***slices; /* .. into these; of another one: what stands for it, NULL: itself */
    bool failed;
} Splitter;

static bool
refuse(Splitter *s, const TirOp *op, const char *why)
{
    if (!s->failed)
        diag_error(s->px->diag, op->span,
                   "E-LARGE: the first dimension that products go over %s: no code is made for that "
                   "so far",
                   why);
    s->failed = true;
    return false;
}

/* ---- what is taken apart ---- */

static bool
tie(Splitter *s, const TirVal *a, const TirVal *b)
{
    if (a->type.rank == 0 || b->type.rank == 0 || a->type.dim[0] != b->type.dim[0] ||
        s->split[a->id] == s->split[b->id])
        return false;
    s->split[a->id] = s->split[b->id] = true;
    return true;
}

static bool
tie_region(Splitter *s, const TirOp *op)
{
    bool news = false;

    for (uint32_t r = 0; r < op->n_results; r++) {
        for (uint32_t k = 0; k < op->n_blocks; k++)
            news |= tie(s, op->results[r], block_yield(op->blocks[k])->args[r]);
        if (op->op != TIR_FOR)
            continue;
        news |= tie(s, op->results[r], op->args[loop_first_initial(op) + r]);
        news |= tie(s, op->results[r], op->blocks[0]->params.at[r + 1]);
    }
    return news;
}

static bool
tie_op(Splitter *s, const TirOp *op)
{
    const TirVal *result = op->n_results > 0 ? op->results[0] : NULL;
    AxisUse use = tir_axis_use(op);
    bool along = tir_has_axis(op) && op->axis > 0, news = false;

    if (op->op == TIR_FOR || op->op == TIR_IF)
        return tie_region(s, op);
    if (use == AXIS_ELEMENTWISE || (op->op == TIR_MMA && result->type.rank > 2) || along ||
        op->op == TIR_BROADCAST) {
        for (uint32_t k = 0; k < op->n_args; k++) {
            bool alike = op->args[k]->type.rank == result->type.rank || along;
            news |= alike && tie(s, op->args[k], result);
        }
    }
    return news;
}

/* ---- taking it apart ---- */

static TirVal *
slice_of(const Splitter *s, TirVal *value, uint32_t k)
{
    TirVal *const *slices = s->slices[value->id];

    return slices == NULL ? value : slices[s->split[value->id] ? k : 0];
}

static uint32_t
slices_in(const Splitter *s, const TirVal *value)
{
    return s->split[value->id] ? (uint32_t)value->type.dim[0] : 1;
}

static TirVal *
behind(Splitter *s, TirVal *value, int64_t by)
{
    return by == 0 ? value : tir_binary(&s->b, TIR_ADD, value, tir_const_int(&s->b, by));
}

/* One of the operations that an operation becomes. */
static void
split_one(Splitter *s, TirOp *op, uint32_t k)
{
    TirVal **args = arena_array(s->px->arena, TirVal *, op->n_args + 1), *start = NULL;
    TirType type = op->n_results > 0 ? op->results[0]->type : (TirType){0};
    TirDims first = {0};

    for (uint32_t i = 0; i < op->n_args; i++)
        args[i] = slice_of(s, op->args[i], k);
    if (op->op == TIR_IOTA)
        args[0] = behind(s, args[0], k);
    if (tir_is_access(op->op)) {
        for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
            if (!d.single && d.axis == 0 && d.begins)
                first = d;
        }
        if (first.places || first.index->rows > 0)
            refuse(s, op, "is a pack or a list of places");
        int64_t on = (int64_t)k * (first.strided ? first.index->step : 1);
        start = first.at == NULL ? tir_const_int(&s->b, on) : behind(s, first.at, on);
        for (uint32_t i = 0; i < op->n_limits; i++) {
            uint32_t at = tir_index_operands(op) + i;
            if (op->limits[i].axis == 0 && op->limits[i].part.rows > 0)
                refuse(s, op, "is a pack");
            if (op->limits[i].axis == 0)
                args[at] = behind(s, args[at], -(int64_t)k);
        }
    }
    type.dim[0] = 1;
    TirOp *slice = clone_with(&s->b, op, args, &type);
    if (start != NULL)
        tir_set_range(s->fn, slice, first.dim, start, 1);
    if (op->n_results > 0)
        s->slices[op->results[0]->id][k] = slice->results[0];
}

/* A reduction along the first dimension. */
static void
combine(Splitter *s, TirOp *op)
{
    TirOpcode with = tir_reduction_info(op->reduce)->combine;
    TirVal *total = NULL;

    for (uint32_t k = 0; k < slices_in(s, op->args[0]); k++) {
        TirVal *one = tir_reduce(&s->b, op->reduce, slice_of(s, op->args[0], k), 0);
        total = total == NULL ? one : tir_binary(&s->b, with, total, one);
    }
    total->name = op->results[0]->name;
    s->slices[op->results[0]->id] = arena_array(s->px->arena, TirVal *, 1);
    s->slices[op->results[0]->id][0] = total;
}

/* The values of a list, those that are taken apart in their parts. */
static uint32_t
split_list(Splitter *s, TirVal ***list, uint32_t n)
{
    VEC(TirVal *) all = {0};

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < slices_in(s, (*list)[i]); k++)
            vec_push(s->fn->arena, &all, slice_of(s, (*list)[i], k));
    }
    *list = all.at;
    return all.n;
}

/* Makes the parts of a value of a loop or a branch. */
static void
split_value(Splitter *s, const TirVal *value)
{
    for (uint32_t k = 0; s->split[value->id] && k < slices_in(s, value); k++) {
        TirVal *part = arena_copy(s->fn->arena, value, sizeof *value);
        part->id = s->fn->next_id++;
        part->type.dim[0] = 1;
        s->slices[value->id][k] = part;
    }
}

static TirWriteOp split_op;

static void
split_region(Splitter *s, TirOp *op)
{
    for (uint32_t r = 0; r < op->n_results; r++)
        split_value(s, op->results[r]);
    op->n_args = split_list(s, &op->args, op->n_args);
    op->n_results = split_list(s, &op->results, op->n_results);
    for (uint32_t r = 0; r < op->n_results; r++)
        op->results[r]->index = r;
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        TirBlock *block = op->blocks[k];
        for (uint32_t p = 0; p < block->params.n; p++)
            split_value(s, block->params.at[p]);
        block->params.n = block->params.cap = split_list(s, &block->params.at, block->params.n);
        for (uint32_t p = 0; p < block->params.n; p++)
            block->params.at[p]->index = p;
        tir_write_anew(block, split_op, s);
    }
}

static bool
split_op(void *user, TirBlock *block, TirOp *op)
{
    Splitter *s = user;
    const TirVal *tile = op->n_results > 0 ? op->results[0] : NULL;
    bool reads = false, makes = tile != NULL && s->split[tile->id];

    s->b = (TirBuilder){.fn = s->fn, .block = block, .at = -1, .span = op->span};
    for (uint32_t k = 0; k < op->n_args; k++)
        reads |= s->split[op->args[k]->id];
    if (op->n_blocks > 0)
        split_region(s, op);
    else if (op->op == TIR_YIELD)
        op->n_args = split_list(s, &op->args, op->n_args);
    else if (tir_axis_use(op) == AXIS_REDUCES && op->axis == 0 && reads) {
        combine(s, op);
        return !s->failed;
    } else if (makes || (reads && tir_writes(op))) {
        const TirVal *of = makes ? tile : op->args[op->n_args - 1];
        bool natural = op->op == TIR_TRANSPOSE || (op->op == TIR_MMA && of->type.rank == 2) ||
                       tir_has_part(op) || (tir_has_axis(op) && op->axis == 0);
        if (natural || slices_in(s, of) > MOST_PRODUCTS) {
            refuse(s, op, natural ? "is used otherwise here" : "has more than 16 elements");
            return !s->failed;
        }
        for (uint32_t k = 0; k < slices_in(s, of) && !s->failed; k++)
            split_one(s, op, k);
        return !s->failed;
    } else if (reads) {
        refuse(s, op, "is used otherwise here");
        return !s->failed;
    }
    for (uint32_t k = 0; k < op->n_args && op->n_blocks == 0 && op->op != TIR_YIELD; k++)
        op->args[k] = slice_of(s, op->args[k], 0);
    vec_push(s->fn->arena, &block->ops, op);
    return !s->failed;
}

/* Whether a product has padding along its first dimension of its right operand alone.  It gets that
 * of the left one's rows; parts of the right one go along its inner dimension. */
static bool
loses_padding(const Padding *padding, const TirOp *mma)
{
    Pads left = padding_of(padding, mma->args[0], 0), right = padding_of(padding, mma->args[1], 0);

    for (uint32_t k = 0; k < right.n; k++)
        if (padding_in(&left, &right.at[k]) == NULL)
            return true;
    return false;
}

/* Nothing along the first dimension may ask what is padding of such a product. */
static void
check_padding(Splitter *s)
{
    Padding padding = padding_find(s->px, s->fn);
    const TirOp *loses = NULL;

    for (TirWalk walk = tir_walk(s->fn->body); loses == NULL && tir_walk_next(&walk);)
        if (walk.op->op == TIR_MMA && walk.op->results[0]->type.rank > 2 &&
            loses_padding(&padding, walk.op))
            loses = walk.op;
    for (TirWalk walk = tir_walk(s->fn->body); loses != NULL && tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (tir_has_axis(op) && op->axis == 0 &&
            op->args[0]->type.dim[0] == loses->results[0]->type.dim[0])
            refuse(s, loses, "has padding of the right operand alone");
    }
}

/* Room for the parts of a value. */
static void
make_room(Splitter *s, const TirVal *value)
{
    if (s->split[value->id])
        s->slices[value->id] = arena_array(s->px->arena, TirVal *, value->type.dim[0]);
}

bool
flatten_products(PassContext *px, TirFn *fn)
{
    Splitter s = {.px = px,
                  .fn = fn,
                  .split = arena_array(px->arena, bool, fn->next_id + 1),
                  .slices = arena_array(px->arena, TirVal **, fn->next_id + 1)};
    bool any = false, found = false;

    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->op != TIR_MMA || op->results[0]->type.rank < 3)
            continue;
        found = true;
        if (op->results[0]->type.dim[0] > 1)
            any = s.split[op->results[0]->id] = true;
    }
    if (found)
        check_padding(&s);
    any = any && !s.failed;
    for (bool news = any; news;) {
        news = false;
        for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);)
            news |= tie_op(&s, walk.op);
    }
    for (TirWalk walk = tir_walk(fn->body); any && tir_walk_next(&walk);) {
        for (uint32_t k = 0; k < walk.op->n_results; k++)
            make_room(&s, walk.op->results[k]);
        for (uint32_t b = 0; b < walk.op->n_blocks; b++) {
            for (uint32_t k = 0; k < walk.op->blocks[b]->params.n; k++)
                make_room(&s, walk.op->blocks[b]->params.at[k]);
        }
    }
    if (any)
        tir_write_anew(fn->body, split_op, &s);
    return !s.failed;
}
