/* roles_pieces.c - operations of the computing warp groups, one by one. */
#include "compiler/passes/roles.h"

#include "compiler/passes/tir_util.h"

void
roles_plain(TirBuilder *b, TirOpcode opcode, TirShared *ring, int64_t integer)
{
    TirOp *op = tir_op_new(b, opcode, 0, NULL, 0, NULL);
    op->shared = ring;
    op->integer = integer;
}

/* Waits for the ring that stands for `load` and reads it. */
static void
emit_read(Roles *r, CloneMap *map, const TirOp *load)
{
    r->b.span = load->span;
    roles_plain(&r->b, TIR_RING_WAIT, load->shared, 0);
    TirVal *slot = tir_const_int(&r->b, 0);
    TirOp *read = tir_op_new(&r->b, TIR_SHARED_READ, 1, &slot, 1, &load->results[0]->type);
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
    if (all_masks)
        copy->segments = UINT32_MAX;
}

void
roles_release(TirBuilder *b, const OpList *rings, TirVal *pin)
{
    for (uint32_t k = 0; k < rings->n; k++) {
        TirOp *op = tir_op_new(b, TIR_RING_RELEASE, pin != NULL, &pin, 0, NULL);
        op->shared = rings->at[k]->shared;
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
    uint32_t inner = r->loop->n_segments > 1 ? r->loop->n_segments - 1 : 0;
    TirVal **args = arena_array(r->fn->arena, TirVal *, 2 + inner + n);

    for (uint32_t k = 0; k < inner; k++) {
        args[2 + k] = inner_bound(r, &r->b, outer, range.base, k);
        if (least != NULL)
            args[2 + k] = tir_binary(&r->b, TIR_MAX, args[2 + k], least);
        else if (r->bounds_differ) /* a band past the end has no iteration */
            args[2 + k] = tir_binary(&r->b, TIR_MIN, args[2 + k], range.hi);
    }
    TirOp *loop = tir_for(&r->b, range.lo, range.hi, n, initial);
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
