/* tir_verify_layout.c - the invariants of layouts: of a value, and of what an operation reads
 * beside what it makes.
 *
 * Where all that an operation reads and makes has a layout, each thread must hold what it needs:
 * elements of its operands at the places that those of its result have.  Only TIR_CONVERT moves
 * elements between threads; products say themselves where their operands lie (tir_verify.c).
 */
#include "compiler/ir/layout.h"
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>

/* A layout is one of tiles of the value's rank, and of no fewer elements. */
void
tir_check_layout(Verifier *v, const TirOp *op, const TirVal *value)
{
    const Layout *layout = value->layout;

    if (layout == NULL)
        return;
    bool fits = layout->rank == value->type.rank;
    for (uint32_t axis = 0; fits && axis < layout->rank; axis++)
        fits = layout->shape[axis] >= value->type.dim[axis];
    if (!fits)
        tir_fault(v, op, "the layout of %s#%" PRIu32 " is one of another shape",
                  value->name == NULL ? "" : value->name, value->id);
}

void
tir_want_layout(Verifier *v, const TirOp *op, const char *what, const TirVal *have,
                const TirVal *want)
{
    if (have->layout != NULL && want->layout != NULL && !layout_eq(have->layout, want->layout))
        tir_fault(v, op, "%s (%s#%" PRIu32 ") has another layout than %s#%" PRIu32, what,
                  have->name == NULL ? "" : have->name, have->id,
                  want->name == NULL ? "" : want->name, want->id);
}

/* Whether threads that hold `from` find in it all that they hold of `to`. */
static bool
holds(Verifier *v, const Layout *from, const Layout *to)
{
    return layout_register_map(v->out->arena, from, to) != NULL;
}

/* Whether a tile with a pack and the one that has not got a part of it lie alike. */
static bool
whole_lies_right(Verifier *v, const TirOp *op)
{
    bool spreads = tir_axis_use(op) == AXIS_SPREADS;
    const TirVal *whole = spreads ? op->results[0] : op->args[0];
    LayoutPart part = {op->axis, op->index[0].inner, op->index[0].length};
    const Layout *rest = layout_drop_part(v->out->arena, whole->layout, part,
                                          whole->type.dim[op->axis]);

    return rest != NULL &&
           (spreads ? holds(v, op->args[0]->layout, rest) : holds(v, rest, op->results[0]->layout));
}

/* The tile that operands lie as: the result, or of an operation that writes, what it writes. */
static const TirVal *
tile_of(const TirOp *op)
{
    return tir_writes(op) ? op->args[op->n_args - 1] : op->results[0];
}

/* Whether operand `k` has its elements where those of the tile are made of them; both have
 * layouts. */
static bool
operand_lies_right(Verifier *v, const TirOp *op, uint32_t k)
{
    const Layout *from = op->args[k]->layout, *to = tile_of(op)->layout;
    Arena *arena = v->out->arena;

    switch (op->op) {
    case TIR_TRANSPOSE: return layout_eq(layout_transpose(arena, from), to);
    case TIR_BROADCAST: return holds(v, from, to);
    case TIR_EXPAND: return holds(v, layout_expand(arena, from, op->axis), to);
    case TIR_SQUEEZE: return holds(v, from, layout_expand(arena, to, op->axis));
    case TIR_LOAD: /* a tile of places */
    case TIR_STORE:
    case TIR_ATOMIC_ADD:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
        if (from->rank < to->rank)
            from = layout_expand(arena, from, 1 - tir_operand_dim(op, k).axis);
        return holds(v, from, to);
    case TIR_SORT:
        return layout_eq(from, to) &&
               layout_eq(to, layout_sorted(arena, op->args[0]->type, op->axis,
                                           (uint32_t)layout_warps(to)));
    default:
        if (tir_has_part(op))
            return whole_lies_right(v, op);
        return tir_axis_use(op) == AXIS_REDUCES ? holds(v, layout_slice(arena, from, op->axis), to)
                                                : layout_eq(from, to);
    }
}

void
tir_check_layouts_agree(Verifier *v, const TirOp *op)
{
    if (!v->ok || (tir_axis_use(op) == AXIS_NONE && op->op != TIR_LOAD && !tir_writes(op)))
        return;
    const TirVal *tile = tile_of(op);
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirVal *operand = op->args[k];
        if (operand->layout == NULL || tile->layout == NULL || operand->type.rank == 0 ||
            tile->type.rank == 0 || operand == tile)
            continue;
        if (!operand_lies_right(v, op, k))
            tir_fault(v, op, "operand %" PRIu32 " does not lie where its result is made of it", k);
    }
}
