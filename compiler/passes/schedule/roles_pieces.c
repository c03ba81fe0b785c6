/* roles_pieces.c - operations of roles, one by one. */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

CloneMap
roles_uniform_map(Roles *r, TirVal *iteration)
{
    CloneMap map = clone_map(r->fn);

    roles_map_grid(&r->b, &map, r->old, 0, NULL, NULL);
    for (uint32_t k = 0; k < r->counters.n; k++)
        clone_set(&map, r->around.at[k]->blocks[0]->params.at[0], r->counters.at[k]);
    if (iteration != NULL)
        clone_set(&map, r->body->params.at[0], iteration);
    return map;
}

TirOp *
roles_begin_if(TirBuilder *b, TirVal *condition)
{
    TirOp *branch = condition == NULL ? NULL : tir_if(b, condition, 0, NULL);

    if (branch == NULL)
        return NULL;
    b->block = branch->blocks[1]; /* does nothing */
    tir_yield(b, 0, NULL);
    b->block = branch->blocks[0];
    return branch;
}

TirOp *
roles_begin_for(TirBuilder *b, TirVal *lo, TirVal *hi, Span span)
{
    TirOp *loop = tir_for(b, lo, hi, 0, NULL);

    loop->span = span;
    b->block = loop->blocks[0];
    return loop;
}

void
roles_end(TirBuilder *b, const TirOp *around)
{
    if (around == NULL)
        return;
    tir_yield(b, 0, NULL);
    b->block = around->parent;
}

TirOp *
roles_begin_around(Roles *r, TirVal *lo, TirVal *hi)
{
    TirOp *loop = roles_begin_for(&r->b, lo, hi, r->around.at[r->counters.n]->span);

    vec_push(r->fn->arena, &r->counters, loop->blocks[0]->params.at[0]);
    return loop;
}

void
roles_end_around(Roles *r, const TirOp *around)
{
    r->counters.n--;
    r->b.span = around->span;
    roles_end(&r->b, around);
}

void
roles_write_nest(Roles *r, TirVal *block_index, void (*write)(Roles *r, TirVal *block_index))
{
    if (r->counters.n == r->around.n) {
        write(r, block_index);
        return;
    }
    Range range = roles_range_of_all(r, r->around.at[r->counters.n], block_index);
    TirOp *loop = roles_begin_around(r, range.lo, range.hi);
    roles_write_nest(r, block_index, write);
    roles_end_around(r, loop);
}

void
roles_plain(TirBuilder *b, TirOpcode opcode, TirShared *pipeline, int64_t integer)
{
    TirOp *op = tir_op_new(b, opcode, 0, NULL, 0, NULL);
    op->shared = pipeline;
    op->integer = integer;
}

TirOp *
roles_read(TirBuilder *b, TirShared *buffer, TirType type, const char *name)
{
    TirVal *stage = tir_const_int(b, 0);
    TirOp *read = tir_op_new(b, TIR_SHARED_READ, 1, &stage, 1, &type);

    read->shared = buffer;
    read->results[0]->name = name;
    return read;
}

void
roles_write(TirBuilder *b, TirShared *buffer, TirVal *value)
{
    TirVal *args[] = {tir_const_int(b, 0), value};

    tir_op_new(b, TIR_SHARED_WRITE, 2, args, 0, NULL)->shared = buffer;
}

TirOp *
roles_read_for(Roles *r, CloneMap *map, const TirOp *load)
{
    const TirVal *value = load->results[0];
    Span around = r->b.span;

    r->b.span = load->span;
    TirOp *read = roles_read(&r->b, load->shared, value->type, value->name);
    r->b.span = around;
    clone_set(map, value, read->results[0]);
    return read;
}

TirVal *
roles_read_tmem(TirBuilder *b, TirShared *buffer, uint32_t w)
{
    TirType type = tir_tile2(buffer->dtype, buffer->rows, buffer->cols);
    TirOp *read = tir_op_new(b, TIR_TMEM_READ, 0, NULL, 1, &type);

    read->shared = buffer;
    read->integer = w;
    return read->results[0];
}

TirShared *
roles_new_channel(Roles *r, const char *name, TirType type, SharedKind kind, RoleKind from,
                  RoleKind to)
{
    TirShared *channel = tir_buffer_new(r->fn, kind, name, type, 1);

    channel->from = from;
    channel->to = to;
    channel->each = true;
    return channel;
}

/* Waits for the pipeline that stands for `load` and reads it. */
static void
emit_read(Roles *r, CloneMap *map, const TirOp *load)
{
    r->b.span = load->span;
    roles_plain(&r->b, TIR_CONSUMER_WAIT, load->shared, 0);
    roles_read_for(r, map, load);
}

void
roles_copy(Roles *r, CloneMap *map, const TirOp *op, bool all_masks)
{
    if (op->op == TIR_LOAD && op->shared != NULL) {
        emit_read(r, map, op);
        return;
    }
    TirOp *copy = clone_op(&r->b, map, op);
    if (r->masks == MASKS_NONE ||
        (r->masks == MASKS_OF_ONE && (op->segments >> r->segment & 1) == 0))
        copy->segments = 0;
    else if (all_masks || r->masks != MASKS_BY_SEGMENT)
        copy->segments = UINT32_MAX;
}

void
roles_release(TirBuilder *b, const OpList *pipelines)
{
    for (uint32_t k = 0; k < pipelines->n; k++)
        roles_plain(b, TIR_CONSUMER_RELEASE, pipelines->at[k]->shared, 0);
}

TirVal **
roles_initial(Roles *r, const CloneMap *map, uint32_t more)
{
    uint32_t first = loop_first_initial(r->loop), n = r->loop->n_results;
    TirVal **values = arena_array(r->fn->arena, TirVal *, n + more + 1);

    for (uint32_t k = 0; k < n; k++)
        values[k] = clone_of(map, r->loop->args[first + k]);
    return values;
}

/* Lets every reading of a consumer's number that a scalar is made of be `w`. */
static void
set_consumer(Roles *r, CloneMap *map, const TirVal *scalar, uint32_t w)
{
    for (TirInputs in = tir_inputs(r->fn->arena, scalar); tir_inputs_next(&in);) {
        if (in.value->def != NULL && in.value->def->op == TIR_CONSUMER)
            clone_set(map, in.value, tir_const_int(&r->b, w));
        tir_inputs_follow(&in);
    }
}

void
roles_fill(Roles *r, const CloneMap *map, const TirOp *load, TirVal *condition)
{
    TirBuilder *b = &r->b;
    TirVal *counter = r->body->params.at[0], *iteration = map->to[counter->id];
    uint32_t consumers = tir_parts(r->fn->plan, load->shared);

    b->span = load->span;
    for (uint32_t w = 0; w < consumers; w++) {
        CloneMap own = roles_consumer_map(r, roles_consumer_index(r, r->block_index, w));
        TirVal *args[TENSOR_MAX_RANK + 2];
        if (iteration != NULL)
            clone_set(&own, counter, iteration);
        for (uint32_t k = 0; k < load->n_args; k++) {
            set_consumer(r, &own, load->args[k], w);
            args[k] = clone_scalar_tree(b, &own, load->args[k]);
        }
        args[load->n_args] = condition;
        TirOp *copy = tir_op_new(b, TIR_TMA_LOAD, load->n_args + (condition != NULL), args, 0, NULL);
        tir_copy_place(copy, load);
        copy->shared = load->shared;
        copy->integer = w;
    }
}

bool
roles_is_remade(const Roles *r, const TirVal *value)
{
    for (TirInputs in = tir_inputs(r->fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (in.value->block != r->body || in.value == r->body->params.at[0])
            continue;
        if (def == NULL || !tir_can_be_again(def))
            return false;
        tir_inputs_follow(&in);
    }
    return true;
}

void
roles_remake(Roles *r, CloneMap *map, TirVal *value)
{
    if (value->block != r->body || value->def == NULL || map->to[value->id] != NULL)
        return;
    for (uint32_t k = 0; k < value->def->n_args; k++)
        roles_remake(r, map, value->def->args[k]);
    clone_op(&r->b, map, value->def)->segments = UINT32_MAX;
}
