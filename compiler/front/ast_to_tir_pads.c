/* ast_to_tir_pads.c - assignments inside a loop do not change elements that are padding there.
 *
 * A variable that is declared outside a loop has no padding from that loop's ranges: where a tile
 * assigned to it is such padding, the variable keeps its old elements.  An operation `keep`
 * expresses this; it is made only where the tile may have such padding.  This file tracks, axis by
 * axis, from which loops padding may come; passes/masks/imply_masks.c decides which elements are
 * padding.
 */
#include <string.h>

#include "compiler/front/ast_to_tir_internal.h"

static PadLoops *
pads_of(Lower *low, const TirVal *value)
{
    PadLoops unknown = {{PAD_UNKNOWN, PAD_UNKNOWN, PAD_UNKNOWN, PAD_UNKNOWN}};

    while (low->pads.n <= value->id)
        vec_push(low->arena, &low->pads, unknown);
    return &low->pads.at[value->id];
}

static bool
is_known(Lower *low, const TirVal *value)
{
    return value->type.rank == 0 || pads_of(low, value)->axis[0] != PAD_UNKNOWN;
}

static uint32_t
pad_loops(Lower *low, const TirVal *value, uint32_t axis)
{
    return value->type.rank == 0 || axis >= PAD_AXES ? 0 : pads_of(low, value)->axis[axis];
}

void
note_pad(Lower *low, const TirVal *tile, uint32_t axis, uint32_t loops)
{
    PadLoops *pads = pads_of(low, tile);

    if (pads->axis[0] == PAD_UNKNOWN) /* as all are, then */
        memset(pads->axis, 0, sizeof pads->axis);
    if (axis < PAD_AXES && loops > pads->axis[axis])
        pads->axis[axis] = (uint16_t)loops;
}

void
note_carried(Lower *low, const TirVal *param, uint32_t loops)
{
    for (uint32_t axis = 0; axis < PAD_AXES && param->type.rank > 0; axis++)
        /* at most: what is assigned keeps the padding of loops further in */
        note_pad(low, param, axis, loops);
}

/* An operand of which nothing is known yet; NULL: there is none. */
static const TirVal *
unknown_operand(Lower *low, const TirVal *value)
{
    const TirOp *op = value->def;
    bool carried = op != NULL && op->op == TIR_FOR;

    if (op == NULL)
        return NULL;
    for (uint32_t k = 0; k < op->n_args && op->n_blocks == 0; k++) {
        if (!is_known(low, op->args[k]))
            return op->args[k];
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        const TirOp *yield = op->blocks[k]->ops.at[op->blocks[k]->ops.n - 1];
        if (!is_known(low, yield->args[value->index]))
            return yield->args[value->index];
    }
    if (carried && !is_known(low, op->args[value->index + 2]))
        return op->args[value->index + 2];
    return NULL;
}

/* The loops from which padding along an axis may come, from what is known of all operands. */
static uint32_t
operand_loops(Lower *low, const TirVal *value, uint32_t axis)
{
    const TirOp *op = value->def;
    uint32_t most = 0;

    for (uint32_t k = 0; k < op->n_args && op->n_blocks == 0; k++) {
        if (op->args[k]->type.rank == 0)
            continue;
        uint32_t loops = pad_loops(low, op->args[k], tir_axis_of_operand(op, k, axis));
        if (op->op == TIR_KEEP && k == 0 && loops > (uint64_t)op->integer)
            loops = (uint32_t)op->integer;
        most = loops > most ? loops : most;
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        const TirOp *yield = op->blocks[k]->ops.at[op->blocks[k]->ops.n - 1];
        uint32_t loops = pad_loops(low, yield->args[value->index], axis);
        most = loops > most ? loops : most;
    }
    uint32_t first = op->op == TIR_FOR ? pad_loops(low, op->args[value->index + 2], axis) : 0;
    return first > most ? first : most;
}

static void
note_result(Lower *low, const TirVal *value)
{
    for (uint32_t axis = 0; axis < PAD_AXES && axis < value->type.rank; axis++)
        note_pad(low, value, axis, value->def == NULL ? 0 : operand_loops(low, value, axis));
}

/* Operands first; a list of what waits for them, since expressions may be as deep as the program is
 * long. */
static void
find_pads(Lower *low, const TirVal *value)
{
    VEC(const TirVal *) waiting = {0};

    vec_push(low->arena, &waiting, value);
    while (waiting.n > 0) {
        const TirVal *last = waiting.at[waiting.n - 1], *operand = unknown_operand(low, last);
        if (operand != NULL) {
            vec_push(low->arena, &waiting, operand);
            continue;
        }
        note_result(low, last);
        waiting.n--;
    }
}

void
note_places(Lower *low, const TirVal *tile)
{
    for (TirDims d = tir_dims(tile->def); tir_dims_next(&d);) {
        if (d.places && !is_known(low, d.at))
            find_pads(low, d.at);
        for (uint32_t axis = 0; d.places && axis < d.at->type.rank; axis++)
            note_pad(low, tile, d.axis + axis, pad_loops(low, d.at, axis));
    }
}

TirVal *
pad_like(Lower *low, TirVal *tile, TirVal *like)
{
    TirVal *args[2] = {tile, like};
    TirOp *keep = tir_op_new(&low->b, TIR_KEEP, 2, args, 1, &tile->type);

    keep->integer = INT32_MAX; /* as assigned outside of all loops: nothing keeps what it was */
    return keep->results[0];
}

Value
keep_padding(Lower *low, uint32_t loops, const Value *old, const Value *value)
{
    Value out = *value;
    bool padded = false;

    if (value->kind == VALUE_TUPLE && old->kind == VALUE_TUPLE) {
        Value *fields = arena_array(low->arena, Value, value->n_fields);
        for (uint32_t i = 0; i < value->n_fields; i++)
            fields[i] = keep_padding(low, loops, &old->fields[i], &value->fields[i]);
        out.fields = fields;
        return out;
    }
    if (low->host_only || loops >= low->loops || value->kind != VALUE_TILE ||
        value->type.rank == 0 || value->tir == old->tir)
        return out;
    if (!is_known(low, value->tir))
        find_pads(low, value->tir);
    for (uint32_t axis = 0; axis < PAD_AXES; axis++)
        padded |= pad_loops(low, value->tir, axis) > loops;
    if (!padded)
        return out;
    TirVal *args[2] = {value->tir, old->tir};
    TirOp *keep = tir_op_new(&low->b, TIR_KEEP, 2, args, 1, &value->type);
    keep->integer = loops;
    low->keeps = true;
    return value_tile(keep->results[0], NULL);
}

/* ---- at a kernel's end ---- */

/* The innermost loop over whose ranges a tile may be padding, along any axis. */
static uint32_t
most_loops(Lower *low, const TirVal *tile)
{
    uint32_t most = 0;

    for (uint32_t axis = 0; axis < PAD_AXES; axis++) {
        uint32_t loops = pad_loops(low, tile, axis);
        most = loops > most ? loops : most;
    }
    return most;
}

static bool
is_range(const TirVal *value)
{
    return value->def != NULL && (value->def->op == TIR_LOAD || value->def->op == TIR_IOTA);
}

static void
forget_pads(Lower *low, const TirVal *value)
{
    if (is_range(value))
        note_pad(low, value, 0, 0); /* what was noted stays */
    else
        *pads_of(low, value) = (PadLoops){{0}};
}

static void
forget_block(Lower *low, const TirBlock *block)
{
    for (uint32_t k = 0; k < block->params.n; k++)
        forget_pads(low, block->params.at[k]);
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_results; k++)
            forget_pads(low, op->results[k]);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            forget_block(low, op->blocks[k]);
    }
}

/* A value that may be `from`, too; whether that is news. */
static bool
learn_from(Lower *low, const TirVal *value, const TirVal *from)
{
    PadLoops before = *pads_of(low, value);

    for (uint32_t axis = 0; axis < PAD_AXES && axis < value->type.rank; axis++)
        note_pad(low, value, axis, pad_loops(low, from, axis));
    return memcmp(&before, pads_of(low, value), sizeof before) != 0;
}

/* Follows the padding through a block; whether an iteration of some loop leaves something that was
 * not known when its body was gone through.  All else stands behind what it is made of. */
static bool
learn_block(Lower *low, const TirBlock *block)
{
    bool news = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            const TirBlock *inner = op->blocks[k];
            const TirOp *yield = inner->ops.at[inner->ops.n - 1];
            for (uint32_t j = 1; op->op == TIR_FOR && j < inner->params.n; j++)
                learn_from(low, inner->params.at[j], op->args[j + 1]);
            news |= learn_block(low, inner);
            for (uint32_t j = 1; op->op == TIR_FOR && j < inner->params.n; j++)
                news |= learn_from(low, inner->params.at[j], yield->args[j - 1]);
        }
        for (uint32_t k = 0; k < op->n_results; k++) {
            bool plain = op->op == TIR_KEEP &&
                         most_loops(low, op->args[0]) <= (uint64_t)op->integer &&
                         op->integer != INT32_MAX;
            if (plain)
                learn_from(low, op->results[k], op->args[0]);
            else if (!is_range(op->results[k]))
                note_result(low, op->results[k]);
        }
    }
    return news;
}

static void
drop_block(Lower *low, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            drop_block(low, op->blocks[k]);
        if (op->op == TIR_KEEP && op->integer != INT32_MAX &&
            most_loops(low, op->args[0]) <= (uint64_t)op->integer)
            tir_replace_uses(low->fn, op->results[0], op->args[0]);
    }
}

void
drop_keeps(Lower *low)
{
    if (!low->keeps)
        return;
    low->keeps = false;
    forget_block(low, low->fn->body);
    while (learn_block(low, low->fn->body)) {
    }
    drop_block(low, low->fn->body);
}
