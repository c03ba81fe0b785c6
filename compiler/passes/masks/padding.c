/* padding.c - which elements of tiles are padding, and how many are not (see padding.h).
 *
 * Tiles carried by loops depend on themselves, so both sets are fixpoints: first the pads that a
 * tile may have, growing from none; then the pads that it has on every way, shrinking from all.
 */
#include "compiler/passes/masks/padding.h"

#include "compiler/passes/util/tir_util.h"

/* ---- pads ---- */

bool
padding_same_part(const TirIndex *a, const TirIndex *b)
{
    return a->length == b->length && a->inner == b->inner && a->rows == b->rows;
}

bool
padding_same(const Pad *a, const Pad *b)
{
    return a->loops == b->loops && padding_same_part(&a->part, &b->part) &&
           ((linear_same_value(a->start, b->start) && linear_same_value(a->bound, b->bound)) ||
            linear_equal(a->distance, b->distance));
}

Pad *
padding_in(const Pads *pads, const Pad *pad)
{
    for (uint32_t k = 0; k < pads->n; k++) {
        if (padding_same(&pads->at[k], pad))
            return &pads->at[k];
    }
    return NULL;
}

static void
push_pad(const Padding *p, Pads *pads, Pad pad)
{
    vec_push(p->px->arena, pads, pad);
}

void
padding_add(const Padding *p, Pads *pads, Pad pad)
{
    Pad *have = padding_in(pads, &pad);

    if (have == NULL)
        push_pad(p, pads, pad);
    else
        have->sure = have->sure || pad.sure;
}

/* The loops around a block. */
static uint32_t
loops_around(const TirBlock *block)
{
    uint32_t n = 0;

    for (; block != NULL && block->owner != NULL; block = block->owner->parent)
        n += block->owner->op == TIR_FOR;
    return n;
}

/* Whether a number is the index of a loop, or of the grid, that goes over `n` at most: a range's
 * number may be behind its last. */
static bool
is_index_below(const Padding *p, const TirVal *number, int64_t n)
{
    const TirOp *def = number->def, *loop = def == NULL ? number->block->owner : NULL;

    if (def != NULL && def->op == TIR_GRID) {
        const HostExpr *extent = p->fn->grid.at[def->integer].extent;
        return extent->kind == HOST_INT && extent->integer <= n;
    }
    def = loop != NULL && loop->op == TIR_FOR && number->index == 0 ? loop->args[1]->def : NULL;
    return def != NULL && def->op == TIR_CONST && def->integer <= n;
}

/* Whether every tile of the range lies inside its bound. */
static bool
divides(const Padding *p, const TirVal *start, int32_t length, int64_t bound)
{
    const TirOp *def = start->def;

    if (def != NULL && def->op == TIR_ADD && def->args[1]->def != NULL &&
        def->args[1]->def->op == TIR_CONST)
        return divides(p, def->args[0], length, bound - def->args[1]->def->integer);
    if (bound % length != 0 || def == NULL || def->op != TIR_MUL)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *factor = def->args[k]->def;
        if (factor != NULL && factor->op == TIR_CONST && factor->integer == length)
            return is_index_below(p, def->args[1 - k], bound / length);
    }
    return false;
}

static bool
is_constant(const TirVal *value, int64_t integer)
{
    return value->def != NULL && value->def->op == TIR_CONST && value->def->integer == integer;
}

/* Whether a loop goes over the ranges of `length` elements that begin in a size. */
static bool
goes_over(const TirOp *loop, int32_t length, int64_t size)
{
    const TirOp *end = loop->args[1]->def;
    const TirOp *sum = end != NULL && end->op == TIR_DIV && is_constant(end->args[1], length)
                           ? end->args[0]->def
                           : NULL;

    for (uint32_t k = 0; sum != NULL && sum->op == TIR_ADD && k < 2; k++) {
        const TirOp *of = sum->args[k]->def;
        if (of != NULL && of->op == TIR_SIZE && of->integer == size &&
            is_constant(sum->args[1 - k], length - 1))
            return true;
    }
    return false;
}

bool
padding_is_none(const TirFn *fn, const Linear *distance, int32_t length)
{
    if (!distance->ok || distance->n != 2 || distance->constant != 0)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        const TirVal *size = distance->terms[k].value, *number = distance->terms[1 - k].value;
        const TirOp *loop = number->def == NULL ? number->block->owner : NULL;
        if (size->def != NULL && size->def->op == TIR_SIZE && distance->terms[k].coefficient == 1 &&
            loop != NULL && loop->op == TIR_FOR && number->index == 0 &&
            distance->terms[1 - k].coefficient == -length &&
            goes_over(loop, length, size->def->integer) &&
            tir_requires_multiple(
                fn, &(HostExpr){.kind = HOST_SIZE, .index = (uint32_t)size->def->integer}, length))
            return true;
    }
    return false;
}

/* A scalar that is in no block (a size or a constant), see padding_value. */
static TirVal *
stand_in(const Padding *p, TirOpcode opcode, int64_t integer)
{
    TirOp *op = arena_new(p->px->arena, TirOp);
    TirVal *value = arena_new(p->px->arena, TirVal);

    *op = (TirOp){.op = opcode, .integer = integer};
    *value = (TirVal){.type = tir_scalar(DT_I32), .def = op};
    return value;
}

TirVal *
padding_zero(const Padding *p)
{
    return stand_in(p, TIR_CONST, 0);
}

static bool
is_stand_in(const TirVal *value)
{
    return value->block == NULL;
}

/* Adds the pad of a range, if it can have padding. */
static void
add_range(const Padding *p, Pads *pads, TirVal *start, TirVal *bound, TirIndex part)
{
    Linear *distance = arena_new(p->px->arena, Linear);
    bool is_number = bound->def != NULL && bound->def->op == TIR_CONST,
         is_size = bound->def != NULL && bound->def->op == TIR_SIZE;
    Pad pad = {.start = start, .bound = bound, .part = part, .sure = true};

    *distance = (Linear){.ok = true};
    linear_add(distance, bound, 1);
    linear_add(distance, start, -1);
    if (is_number && (bound->def->integer >= INT32_MAX / 2 ||
                      divides(p, start, part.length, bound->def->integer)))
        return;
    if (padding_is_none(p->fn, distance, part.length))
        return;
    if (distance->ok && distance->n == 0 && distance->constant >= part.length)
        return;
    if (p->no_products && is_size &&
        tir_range_is_whole(p->fn, (uint32_t)bound->def->integer, start, part.length))
        return;
    pad.distance = distance;
    pad.part.open = false;
    if (part.rows == part.length) /* the others have one element */
        pad.part = tir_range(part.length);
    for (uint32_t k = 0; k < distance->n; k++) {
        uint32_t loops = distance->terms[k].coefficient == 0
                             ? 0
                             : loops_around(distance->terms[k].value->block);
        pad.loops = loops > pad.loops ? loops : pad.loops;
    }
    uint32_t around = loops_around(start->block), within = loops_around(bound->block);
    if (!distance->ok)
        pad.loops = around > within ? around : within;
    if (pad.loops < (uint32_t)part.within)
        pad.loops = (uint32_t)part.within;
    padding_add(p, pads, pad);
}

TirVal *
padding_value(const Padding *p, TirBuilder *b, TirVal *value)
{
    TirBlock *body = p->fn->body;
    TirBuilder head = {.fn = p->fn, .block = body, .at = 0, .span = p->fn->span};
    TirType i32 = tir_scalar(DT_I32);

    if (!is_stand_in(value))
        return value;
    if (value->def->op == TIR_CONST)
        return tir_const_int(b, value->def->integer);
    for (uint32_t i = 0; i < body->ops.n && body->ops.at[i]->op == TIR_SIZE; i++) {
        if (body->ops.at[i]->integer == value->def->integer)
            return body->ops.at[i]->results[0];
    }
    TirOp *op = tir_op_new(&head, TIR_SIZE, 0, NULL, 1, &i32);
    op->integer = value->def->integer;
    if (b->block == body && b->at >= 0)
        b->at++;
    return op->results[0];
}

/* ---- operations ---- */

Pads
padding_of_access(const Padding *p, const TirOp *op, uint32_t axis)
{
    Pads pads = {0};

    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        const TensorDim *dim = &op->tensor->dim[d.dim];
        if (d.range && !d.index->open && d.axis == axis)
            add_range(p, &pads, d.at,
                      dim->constant != 0 ? stand_in(p, TIR_CONST, dim->constant)
                                         : stand_in(p, TIR_SIZE, (int64_t)dim->size),
                      *d.index);
    }
    for (uint32_t k = 0; k < op->n_limits; k++) {
        TirIndex part = op->limits[k].part;
        if (part.rows == 0) {
            part = tir_range(tir_index_type(op).dim[op->limits[k].axis]);
            part.within = op->limits[k].part.within;
        }
        if (op->limits[k].axis == axis)
            add_range(p, &pads, stand_in(p, TIR_CONST, 0), tir_limit_count(op, k), part);
    }
    return pads;
}

/* The operands whose padding along an axis is that of the result along `axis`. */
typedef struct Sources {
    uint32_t n;
    struct {
        TirVal *tile;
        uint32_t axis;
    } at[3];
} Sources;

static void
add_source(Sources *sources, TirVal *tile, uint32_t axis)
{
    sources->at[sources->n].tile = tile;
    sources->at[sources->n++].axis = axis;
}

/* Of an operation that is no index tile, loop or branch; of a load besides what it has itself. */
static Sources
sources_of(const TirOp *op, uint32_t axis)
{
    Sources from = {0};
    bool folds = op->op == TIR_FOLD || op->op == TIR_UNFOLD;

    /* of a load, the tiles of places: their padding is padding; of a folded axis pass flatten says
     * what is */
    if (tir_axis_use(op) == AXIS_NONE && op->op != TIR_MMA && op->op != TIR_LOAD && !folds)
        return from;
    if (folds && (axis == op->axis || (op->op == TIR_FOLD && axis == op->axis + 1)))
        return from;
    for (uint32_t k = 0; k < op->n_args && from.n < 3; k++) {
        uint32_t of = tir_axis_of_operand(op, k, axis);
        if (of < TIR_MAX_RANK)
            add_source(&from, op->args[k], of);
    }
    return from;
}

/* Whether the values of a block argument or result come on several ways. */
static bool
is_merged(const TirVal *value)
{
    if (value->def == NULL)
        return value->block->owner != NULL && value->block->owner->op == TIR_FOR &&
               value->index > 0;
    return value->def->op == TIR_FOR || value->def->op == TIR_IF;
}

/* The values of the two ways. */
static void
merged_values(const TirVal *value, TirVal **ways)
{
    const TirOp *op = value->def != NULL ? value->def : value->block->owner;
    uint32_t at = value->def != NULL ? value->index : value->index - 1;

    if (op->op == TIR_IF) {
        for (uint32_t k = 0; k < 2; k++)
            ways[k] = block_yield(op->blocks[k])->args[at];
        return;
    }
    ways[0] = op->args[loop_first_initial(op) + at];
    ways[1] = block_yield(op->blocks[0])->args[at];
}

/* What happens to the part of a pack that a range runs along (of `rows` elements, `part` as pads
 * have it) where part `of` goes from the pack or comes into it; false: it goes, too, or lies on
 * both sides. */
static bool
move_part(TirIndex *part, int32_t rows, const TirIndex *of, bool goes)
{
    int64_t inner = part->rows > 0 ? part->inner : 1;
    int64_t end = part->rows > 0 ? inner * part->length : rows, after = of->inner;
    int64_t length = part->rows > 0 ? part->length : rows;

    if (goes)
        after *= of->length;
    if ((end > of->inner && inner < after) ||
        (goes && length == 1 && of->length == 1 && inner == of->inner))
        return false;
    if (inner >= after)
        inner = goes ? inner / of->length : inner * of->length;
    rows = goes ? rows / of->length : rows * of->length;
    *part = length == rows ? tir_range((int32_t)length)
                           : tir_part((int32_t)length, (int32_t)inner, rows);
    return true;
}

/* Of an operation that takes a part from the pack that its axis is, or adds one. */
static Pads
find_pads_of_pack(const Padding *p, const TirOp *op, uint32_t axis)
{
    bool goes = tir_axis_use(op) == AXIS_REDUCES_PART;
    Pads before = padding_of(p, op->args[0], axis), pads = {0};

    for (uint32_t k = 0; k < before.n && axis == op->axis; k++) {
        Pad pad = before.at[k];
        if (move_part(&pad.part, op->args[0]->type.dim[axis], &op->index[0], goes))
            padding_add(p, &pads, pad);
    }
    return axis == op->axis ? pads : before;
}

/* Whether a range begins inside its bound: a loop or the grid goes there by its index. */
static bool
begins_inside(const Padding *p, const Pad *pad)
{
    for (uint32_t k = 0; pad->distance->ok && k < pad->distance->n; k++) {
        const TirVal *index = pad->distance->terms[k].value;
        const TirOp *def = index->def, *loop = index->block != NULL ? index->block->owner : NULL;
        Linear left = {.ok = true};
        if (def == NULL && index->index == 0 && loop != NULL && loop->op == TIR_FOR) {
            linear_add(&left, loop->args[1], 1);
        } else if (def != NULL && def->op == TIR_GRID) {
            const HostExpr *extent = p->fn->grid.at[def->integer].extent;
            left.ok = extent->kind == HOST_SIZE || extent->kind == HOST_INT;
            if (extent->kind == HOST_SIZE)
                linear_add(&left, stand_in(p, TIR_SIZE, extent->index), 1);
            else
                left.constant = extent->integer;
        } else {
            continue;
        }
        linear_add(&left, index, -1);
        if (left.ok && linear_equal(pad->distance, &left))
            return true;
    }
    return false;
}

bool
padding_of_one(const Padding *p, const TirVal *tile, uint32_t axis)
{
    Pads pads = padding_of(p, tile, axis);

    for (uint32_t k = 0; k < pads.n; k++) {
        if (!begins_inside(p, &pads.at[k]))
            return true;
    }
    return false;
}

/* Of one element that grows to a whole axis: all of it is padding, or nothing. */
static Pads
find_grown_pads(const Padding *p, const TirOp *op, uint32_t axis)
{
    Pads before = padding_of(p, op->args[0], axis), pads = {0};
    TirIndex all = tir_part(op->results[0]->type.dim[axis], 1, op->results[0]->type.dim[axis]);

    for (uint32_t k = 0; k < before.n; k++) {
        Pad pad = before.at[k];
        if (!begins_inside(p, &pad) && move_part(&pad.part, 1, &all, false))
            padding_add(p, &pads, pad);
    }
    return pads;
}

const char *
padding_spread_fault(const Padding *p, const TirOp *op)
{
    if (tir_axis_use(op) != AXIS_SPREADS)
        return NULL;
    Pads before = padding_of(p, op->args[0], op->axis);
    for (uint32_t k = 0; k < before.n; k++) {
        TirIndex part = before.at[k].part;
        if (part.length == 1 && part.inner == op->index[0].inner && !begins_inside(p, &before.at[k]))
            return "E-LARGE: a dimension of one element that may be padding grows beside others: no "
                   "code is made for that so far";
        if (!move_part(&part, op->args[0]->type.dim[op->axis], &op->index[0], false))
            return "E-FOLD: a dimension comes between the two of a folded axis that has padding: no "
                   "code is made for that so far";
    }
    return NULL;
}

static Pads
find_pads(const Padding *p, const TirVal *value, uint32_t axis)
{
    const TirOp *op = value->def;
    Pads pads = {0};
    TirVal *ways[2];

    if (is_merged(value)) {
        merged_values(value, ways);
        Pads sides[2] = {padding_of(p, ways[0], axis), padding_of(p, ways[1], axis)};
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < sides[k].n; i++) {
                Pad pad = sides[k].at[i];
                const Pad *other = padding_in(&sides[1 - k], &pad);
                if (padding_in(&pads, &pad) != NULL)
                    continue;
                pad.sure = pad.sure && other != NULL && other->sure;
                push_pad(p, &pads, pad);
            }
        }
        return pads;
    }
    if (op == NULL)
        return pads;
    if (op->op == TIR_LOAD)
        pads = padding_of_access(p, op, axis);
    if (op->op != TIR_IOTA && tir_has_part(op))
        return find_pads_of_pack(p, op, axis);
    if (op->op == TIR_IOTA) {
        TirIndex part = op->index[0];
        if (part.rows == 0) {
            part = tir_range(op->results[0]->type.dim[0]);
            part.within = op->index[0].within;
        }
        add_range(p, &pads, op->args[0], op->args[1], part);
        return pads;
    }
    if (op->op == TIR_BROADCAST && op->args[0]->type.rank > 0 &&
        op->args[0]->type.dim[axis] != value->type.dim[axis])
        return find_grown_pads(p, op, axis);
    Sources from = sources_of(op, axis);
    for (uint32_t k = 0; k < from.n; k++) {
        Pads more = padding_of(p, from.at[k].tile, from.at[k].axis);
        for (uint32_t i = 0; i < more.n; i++) {
            if (op->op != TIR_KEEP || k != 0 || more.at[i].loops <= (uint64_t)op->integer)
                padding_add(p, &pads, more.at[i]);
        }
    }
    return pads;
}

Pads
padding_of(const Padding *p, const TirVal *tile, uint32_t axis)
{
    Pads none = {0};

    if (axis >= tile->type.rank || axis >= PADDING_AXES)
        return none;
    if (tile->id >= p->n_known) /* made since */
        return find_pads(p, tile, axis);
    const Pads *known = p->known[PADDING_AXES * tile->id + axis];
    return known != NULL ? *known : none;
}

/* ---- all tiles ---- */

/* Whether a value is made of operands without padding, and so has none. */
static bool
is_unpadded(const Padding *p, const TirVal *value)
{
    const TirOp *op = value->def;
    bool none = op != NULL && op->op != TIR_LOAD && op->op != TIR_IOTA && !is_merged(value);

    for (uint32_t k = 0; none && k < op->n_args; k++)
        none = !p->padded[op->args[k]->id];
    return none;
}

/* Whether a value follows from what a loop carries, by what is known of its operands. */
static bool
follows_from_loop(const Padding *p, const TirVal *value)
{
    const TirOp *op = value->def;
    bool follows = op == NULL || op->op == TIR_FOR;

    for (uint32_t k = 0; !follows && k < op->n_args; k++)
        follows = p->in_circle[op->args[k]->id];
    for (uint32_t k = 0; !follows && k < op->n_blocks; k++)
        follows = p->in_circle[block_yield(op->blocks[k])->args[value->index]->id];
    return follows;
}

/* Whether something was found out about `value` that was not known. */
static bool
learn_value(Padding *p, const TirVal *value)
{
    bool news = false;

    if (value->type.rank == 0)
        return false;
    if (p->first)
        p->in_circle[value->id] = follows_from_loop(p, value);
    if (is_unpadded(p, value))
        return false;

    for (uint32_t axis = 0; axis < value->type.rank && axis < PADDING_AXES; axis++) {
        Pads **known = &p->known[PADDING_AXES * value->id + axis];
        if (p->settled && *known == NULL)
            continue;
        Pads now = find_pads(p, value, axis);
        if (!p->settled && now.n > (*known == NULL ? 0 : (*known)->n)) {
            if (*known == NULL)
                *known = arena_new(p->px->arena, Pads);
            p->padded[value->id] = true;
            **known = now;
            news = true;
        }
        for (uint32_t k = 0; p->settled && k < (*known)->n; k++) {
            Pad *pad = &(*known)->at[k];
            const Pad *found = padding_in(&now, pad);
            if (pad->sure && (found == NULL || !found->sure)) {
                pad->sure = false;
                news = true;
            }
        }
    }
    return news;
}

/* For the first time; lists what follows from a loop. */
static bool
learn_first(Padding *p, const TirVal *value, bool around)
{
    bool news = learn_value(p, value);

    if (value->type.rank > 0 && p->in_circle[value->id])
        vec_push(p->px->arena, &p->circle, ((PadsAround){value, around}));
    return news & around;
}

/* Goes through a block; whether something was found out about what goes around a loop behind its
 * body: all else stands behind what it is made of. */
static bool
learn_block(Padding *p, const TirBlock *block)
{
    bool news = false;

    for (uint32_t k = 0; k < block->params.n; k++)
        learn_first(p, block->params.at[k], false);
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            news |= learn_block(p, op->blocks[k]);
        for (uint32_t k = 0; k < op->n_results; k++)
            learn_first(p, op->results[k], false);
    }
    for (uint32_t k = 0; k < block->params.n; k++)
        news |= learn_first(p, block->params.at[k], true);
    return news;
}

/* The same once more. */
static bool
learn_again(Padding *p)
{
    bool news = false;

    for (uint32_t i = 0; i < p->circle.n; i++)
        news |= learn_value(p, p->circle.at[i].value) & p->circle.at[i].around;
    return news;
}

Padding
padding_find(PassContext *px, TirFn *fn)
{
    Padding p = {.px = px,
                 .fn = fn,
                 .n_known = fn->next_id,
                 .first = true,
                 .no_products = count_mmas(fn->body) == 0};

    p.known = arena_array(px->arena, Pads *, PADDING_AXES * p.n_known + 1);
    p.in_circle = arena_array(px->arena, bool, p.n_known + 1);
    p.padded = arena_array(px->arena, bool, p.n_known + 1);
    bool news = learn_block(&p, fn->body);
    p.first = false;
    while (news)
        news = learn_again(&p);
    for (uint32_t id = 0; id < p.n_known; id++) {
        for (uint32_t k = 0; (p.in_circle[id] & p.padded[id]) && k < PADDING_AXES; k++) {
            const Pads *pads = p.known[PADDING_AXES * id + k];
            for (uint32_t i = 0; pads != NULL && i < pads->n; i++)
                pads->at[i].sure = true;
        }
    }
    p.settled = true;
    while (learn_again(&p)) {
    }
    return p;
}

/* ---- counts ---- */

/* Whether a value is defined where an operation of `block` can use it. */
static bool
is_visible(const TirVal *value, const TirBlock *block)
{
    if (is_stand_in(value))
        return true;
    while (block != NULL && block != value->block)
        block = block->owner == NULL ? NULL : block->owner->parent;
    return block != NULL;
}

bool
padding_is_there(const Pad *pad, const TirVal *tile)
{
    /* what a loop carries comes from outside of an iteration, or from another one */
    const TirBlock *block = tile->def == NULL && tile->block->owner != NULL
                                ? tile->block->owner->parent
                                : tile->block;

    return is_visible(pad->start, block) && is_visible(pad->bound, block);
}

TirBuilder
padding_behind(const Padding *p, const TirVal *value)
{
    TirBlock *block = value->block;
    TirBuilder b = {.fn = p->fn,
                    .block = block,
                    .at = 0,
                    .span = value->def != NULL ? value->def->span : p->fn->span};

    for (uint32_t i = 0; value->def != NULL && i < block->ops.n; i++) {
        if (block->ops.at[i] == value->def)
            b.at = (int32_t)i + 1;
    }
    if (b.at == (int32_t)block->ops.n)
        b.at = -1;
    return b;
}

void
padding_move_behind(TirBuilder *b, const TirVal *value)
{
    const TirBlock *block = b->block;

    for (uint32_t i = b->at >= 0 ? (uint32_t)b->at : block->ops.n; i < block->ops.n; i++) {
        if (block->ops.at[i] == value->def)
            b->at = i + 1 < block->ops.n ? (int32_t)i + 1 : -1;
    }
}

static TirVal *
least(TirBuilder *b, TirVal *x, TirVal *y)
{
    if (x == NULL || y == NULL || x == y)
        return x == NULL ? y : x;
    return tir_binary(b, TIR_MIN, x, y);
}

/* One more result of a branch. */
static TirVal *
add_result(Padding *p, TirOp *branch)
{
    TirVal *result = arena_new(p->fn->arena, TirVal);
    TirVal **results = arena_array(p->fn->arena, TirVal *, branch->n_results + 1);

    for (uint32_t k = 0; k < branch->n_results; k++)
        results[k] = branch->results[k];
    *result = (TirVal){.id = p->fn->next_id++,
                       .type = tir_scalar(DT_I32),
                       .def = branch,
                       .block = branch->parent,
                       .index = branch->n_results};
    results[branch->n_results++] = result;
    branch->results = results;
    return result;
}

/* The count that a block yields: where the tile has no padding, a number larger than any tile. */
static TirVal *
or_all(const Padding *p, TirVal *count, TirBlock *block, const TirOp *before)
{
    TirBuilder b = {.fn = p->fn, .block = block, .at = 0, .span = before->span};

    if (count != NULL)
        return count;
    while (block->ops.at[b.at] != before)
        b.at++;
    return tir_const_int(&b, INT32_MAX);
}

/* A count where ways join: it becomes one more result of the branch, or a carried value of the
 * loop. */
static TirVal *
count_merged(Padding *p, const PadCount *wanted)
{
    const TirVal *tile = wanted->tile;
    TirOp *op = tile->def != NULL ? tile->def : tile->block->owner;
    uint32_t at = tile->def != NULL ? tile->index : tile->index - 1;
    PadCount of_other = *wanted;
    TirVal *ways[2], *count;

    merged_values(tile, ways);
    /* places first: what follows may hand on more by the same way */
    uint32_t place = op->n_results;
    for (uint32_t k = 0; k < op->n_blocks; k++)
        op_add_arg(p->fn->arena, block_yield(op->blocks[k]), NULL);
    if (op->op == TIR_IF) {
        count = add_result(p, op);
        for (uint32_t k = 0; k < 2; k++) {
            TirVal *own = padding_count(p, ways[k], wanted->axis, &wanted->part, wanted->least,
                                        wanted->most);
            TirOp *yield = block_yield(op->blocks[k]);
            yield->args[place] = or_all(p, own, op->blocks[k], yield);
        }
        return count;
    }
    TirVal *param = loop_add_carried(p->fn, op, op->args[0], NULL), *result = op->results[place];
    /* known before the body is followed, which may ask again */
    of_other.tile = op->blocks[0]->params.at[at + 1];
    of_other.count = param;
    vec_push(p->px->arena, &p->counts, of_other);
    of_other.tile = op->results[at];
    of_other.count = result;
    vec_push(p->px->arena, &p->counts, of_other);
    TirVal *first = padding_count(p, ways[0], wanted->axis, &wanted->part, wanted->least,
                                  wanted->most);
    op->args[loop_first_initial(op) + place] = or_all(p, first, op->parent, op);
    TirVal *next = padding_count(p, ways[1], wanted->axis, &wanted->part, wanted->least,
                                 wanted->most);
    TirOp *yield = block_yield(op->blocks[0]);
    yield->args[place] = or_all(p, next, op->blocks[0], yield);
    return tile->def != NULL ? result : param;
}

/* Of a tile whose pads are all sure, and there. */
static TirVal *
count_pads(Padding *p, const TirVal *tile, const Pads *pads)
{
    TirBuilder b = padding_behind(p, tile);
    TirVal *count = NULL;

    for (uint32_t k = 0; k < pads->n; k++) {
        TirVal *start = pads->at[k].start, *bound = padding_value(p, &b, pads->at[k].bound);
        bool from_zero = is_stand_in(start) && start->def->integer == 0;
        count = least(&b, count,
                      from_zero ? bound
                                : tir_binary(&b, TIR_SUB, bound, padding_value(p, &b, start)));
    }
    return count;
}

/* Through an operation that takes a part from a pack, or adds one. */
static TirVal *
count_in_pack(Padding *p, const PadCount *wanted)
{
    const TirOp *op = wanted->tile->def;
    TirVal *arg = op->args[0];
    Pads before = padding_of(p, arg, wanted->axis);

    for (uint32_t k = 0; k < before.n; k++) {
        TirIndex had = before.at[k].part, part = had;
        if (move_part(&part, arg->type.dim[op->axis], &op->index[0],
                      tir_axis_use(op) == AXIS_REDUCES_PART) &&
            padding_same_part(&part, &wanted->part))
            return padding_count(p, arg, wanted->axis, &had, wanted->least, wanted->most);
    }
    return NULL;
}

static TirVal *
count_sources(Padding *p, const PadCount *wanted)
{
    const TirOp *op = wanted->tile->def;

    if (op->op != TIR_IOTA && tir_has_part(op) && wanted->axis == op->axis)
        return count_in_pack(p, wanted);
    Sources from = sources_of(op, wanted->axis);
    TirVal *counts[3] = {NULL}, *count = NULL;

    for (uint32_t k = 0; k < from.n; k++) {
        uint32_t most = wanted->most;
        if (op->op == TIR_KEEP && k == 0 && most > (uint64_t)op->integer)
            most = (uint32_t)op->integer;
        if (most >= wanted->least)
            counts[k] = padding_count(p, from.at[k].tile, from.at[k].axis, &wanted->part,
                                      wanted->least, most);
    }
    TirBuilder b = padding_behind(p, wanted->tile); /* behind what was made there */
    /* a mask stands right behind its operand, too, and so may stand in front of the operand's
     * count */
    for (uint32_t k = 0; k < from.n; k++) {
        if (counts[k] != NULL)
            padding_move_behind(&b, counts[k]);
    }
    for (uint32_t k = 0; k < from.n; k++)
        count = least(&b, count, counts[k]);
    return count;
}

TirVal *
padding_count(Padding *p, TirVal *tile, uint32_t axis, const TirIndex *part, uint32_t least_loops,
              uint32_t most_loops)
{
    PadCount wanted = {
        .tile = tile, .axis = axis, .least = least_loops, .most = most_loops, .part = *part};
    Pads all = padding_of(p, tile, axis), pads = {0};
    bool plain = true;

    for (uint32_t k = 0; k < all.n; k++) {
        const Pad *pad = &all.at[k];
        if (pad->loops < least_loops || pad->loops > most_loops ||
            !padding_same_part(&pad->part, part))
            continue;
        plain = plain && pad->sure && padding_is_there(pad, tile);
        push_pad(p, &pads, *pad);
    }
    if (pads.n == 0)
        return NULL;
    for (uint32_t k = 0; k < p->counts.n; k++) {
        const PadCount *have = &p->counts.at[k];
        if (have->tile == tile && have->axis == axis && have->least == least_loops &&
            have->most == most_loops && padding_same_part(&have->part, part))
            return have->count;
    }
    bool merged = is_merged(tile);
    wanted.count = plain    ? count_pads(p, tile, &pads)
                   : merged ? count_merged(p, &wanted)
                            : count_sources(p, &wanted);
    if (plain || !merged || tile->def == NULL || tile->def->op == TIR_IF)
        vec_push(p->px->arena, &p->counts, wanted);
    return wanted.count;
}
