/* roles_pieces.c - operations of the computing warp groups, one by one. */
#include "compiler/passes/schedule/roles.h"

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

void
roles_plain(TirBuilder *b, TirOpcode opcode, TirShared *pipeline, int64_t integer)
{
    TirOp *op = tir_op_new(b, opcode, 0, NULL, 0, NULL);
    op->shared = pipeline;
    op->integer = integer;
}

TirShared *
roles_new_buffer(Roles *r, const char *name, DType dtype, int32_t rows, int32_t cols,
                 uint32_t stages)
{
    TirShared *buffer = arena_new(r->fn->arena, TirShared);

    buffer->id = r->fn->shared.n;
    buffer->name = name;
    buffer->dtype = dtype;
    buffer->rows = rows;
    buffer->cols = cols;
    buffer->stages = stages;
    vec_push(r->fn->arena, &r->fn->shared, buffer);
    return buffer;
}

/* Waits for the pipeline that stands for `load` and reads it. */
static void
emit_read(Roles *r, CloneMap *map, const TirOp *load)
{
    r->b.span = load->span;
    roles_plain(&r->b, TIR_CONSUMER_WAIT, load->shared, 0);
    TirVal *stage = tir_const_int(&r->b, 0);
    TirOp *read = tir_op_new(&r->b, TIR_SHARED_READ, 1, &stage, 1, &load->results[0]->type);
    read->shared = load->shared;
    read->results[0]->name = load->results[0]->name;
    clone_set(map, load->results[0], read->results[0]);
}

void
roles_copy(Roles *r, CloneMap *map, const TirOp *op, bool all_masks)
{
    if (op->op == TIR_LOAD && op->shared != NULL) {
        emit_read(r, map, op);
        return;
    }
    TirOp *copy = clone_op(&r->b, map, op);
    if (r->masks == MASKS_NONE || (r->masks == MASKS_OF_ONE && (op->segments >> r->segment & 1) == 0))
        copy->segments = 0;
    else if (all_masks || r->masks != MASKS_BY_SEGMENT)
        copy->segments = UINT32_MAX;
}

void
roles_release(TirBuilder *b, const OpList *pipelines, TirVal *pin)
{
    for (uint32_t k = 0; k < pipelines->n; k++) {
        TirOp *op = tir_op_new(b, TIR_CONSUMER_RELEASE, pin != NULL, &pin, 0, NULL);
        op->shared = pipelines->at[k]->shared;
    }
}

/* Segments change places in a loop that goes backwards. */
static TirVal *
inner_bound(const Roles *r, TirBuilder *b, const CloneMap *outer, TirVal *base, uint32_t k)
{
    uint32_t inner = r->loop->n_segments - 1;

    if (base == NULL)
        return clone_of(outer, r->loop->args[2 + k]);
    return tir_binary(b, TIR_SUB, base, clone_of(outer, r->loop->args[1 + inner - k]));
}

TirOp *
roles_begin_loop(Roles *r, Range range, uint32_t n, TirVal *const *initial, const CloneMap *outer,
                 TirVal *least)
{
    bool whole = r->loop->n_segments < 2 || r->masks != MASKS_BY_SEGMENT;
    uint32_t inner = whole ? 0 : r->loop->n_segments - 1;
    TirVal **args = arena_array(r->fn->arena, TirVal *, 2 + inner + n);

    for (uint32_t k = 0; k < inner; k++) {
        args[2 + k] = inner_bound(r, &r->b, outer, range.base, k);
        if (least != NULL)
            args[2 + k] = tir_binary(&r->b, TIR_MAX, args[2 + k], least);
        else if (r->bounds_differ) /* a consumer past the end has no iteration */
            args[2 + k] = tir_binary(&r->b, TIR_MIN, args[2 + k], range.hi);
    }
    TirOp *loop = tir_for(&r->b, range.lo, range.hi, n, initial);

    loop->span = r->loop->span;
    if (inner == 0)
        return loop;
    args[0] = range.lo;
    args[1] = range.hi;
    for (uint32_t k = 0; k < n; k++)
        args[2 + inner + k] = initial[k];
    loop->args = args;
    loop->n_args = 2 + inner + n;
    loop->n_segments = r->loop->n_segments;
    loop->hints = r->loop->hints;
    loop->hints.backwards = false; /* its counter counts as always */
    return loop;
}

TirOp *
roles_enter_loop(Roles *r, Range range, uint32_t n, TirVal *const *initial, CloneMap *map,
                 TirVal *least)
{
    TirOp *loop = roles_begin_loop(r, range, n, initial, map, least);
    const TirBlock *body = loop->blocks[0];

    r->b.block = loop->blocks[0];
    for (uint32_t k = 0; k < r->body->params.n; k++)
        clone_set(map, r->body->params.at[k], body->params.at[k]);
    clone_set(map, r->body->params.at[0],
              roles_iteration(r, &r->b, range.base, body->params.at[0]));
    return loop;
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

void
roles_yielded(const Roles *r, const CloneMap *map, TirVal **values)
{
    const TirOp *yield = block_yield(r->body);

    for (uint32_t k = 0; k < r->loop->n_results; k++)
        values[k] = clone_of(map, yield->args[k]);
}

void
roles_set_results(const Roles *r, CloneMap *map, const TirOp *op)
{
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], op->results[k]);
}

TirOp *
roles_if_any(Roles *r, Range range, TirVal *const *initial)
{
    uint32_t n = r->loop->n_results;
    TirType *types = arena_array(r->fn->arena, TirType, n + 1);

    for (uint32_t k = 0; k < n; k++)
        types[k] = r->loop->results[k]->type;
    TirOp *branch = tir_if(&r->b, tir_binary(&r->b, TIR_LT, range.lo, range.hi), n, types);
    r->b.block = branch->blocks[1];
    tir_yield(&r->b, n, initial);
    r->b.block = branch->blocks[0];
    return branch;
}
