/* implied_padding.c - padding that a mask of the program hides already.
 *
 * A causal mask keeps key n for query m where n <= m + Sk - Sq.  For an existing query, m < Sq,
 * that implies n < Sk: it hides all keys past the end.  Queries that are padding themselves do not
 * matter, since reductions along their axis leave them out.  Two things must be proved of a value:
 *
 *   1. every element that a mask in it keeps is not padding: the condition and the bounds of the
 *      ranges are sums of coordinates and sizes, and the sizes cancel;
 *   2. every element that the mask hides has the value that padding should have (noop_proof.h).
 */
#include "compiler/passes/masks/implied_padding.h"

#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/noop_proof.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

enum { DEEPEST = 24 }; /* definitions followed: a bound on work; deeper, the mask stays */

/* Whether a range has the padding of another, wherever it begins. */
static bool
runs_along(const TirOp *iota, PaddedRange range)
{
    Linear own = {.ok = true}, other = {.ok = true};

    if (range.start == NULL || iota->index[0].rows != 0)
        return false;
    linear_add(&own, iota->args[1], 1);
    linear_add(&own, iota->args[0], -1);
    linear_add(&other, range.bound, 1);
    linear_add(&other, range.start, -1);
    return linear_equal(&own, &other);
}

/* Which axis of the tile a range in a condition runs along; 2: it is not plain. */
static uint32_t
axis_of_range(Arena *arena, const TirVal *value, const TirOp *range)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        const TirOp *op = in.value->def;
        if (op != NULL && op->op == TIR_EXPAND && op->args[0]->def == range)
            return 1 - op->axis;
        tir_inputs_follow(&in);
    }
    return 2;
}

/* Whether a sum of what `condition` compares is at least 0 wherever `across`, along `axis`, is no
 * padding. */
static bool
is_not_below_zero(Arena *arena, Linear sum, const TirVal *condition, uint32_t axis,
                  PaddedRange across)
{
    uint32_t ranges = 0;

    for (uint32_t k = 0; k < sum.n && sum.ok; k++) {
        const TirOp *range = sum.terms[k].value->def;
        int64_t coefficient = sum.terms[k].coefficient;
        if (range == NULL || range->op != TIR_IOTA || coefficient == 0)
            continue;
        if (coefficient > 0 || ranges++ > 0 || !runs_along(range, across) ||
            axis_of_range(arena, condition, range) != axis)
            return false;
        sum.terms[k].coefficient = 0; /* at most its bound - 1 */
        sum.constant -= coefficient;
        linear_add(&sum, range->args[1], coefficient);
    }
    for (uint32_t k = 0; k < sum.n; k++) {
        if (sum.terms[k].coefficient != 0)
            return false;
    }
    return sum.ok && sum.constant >= 0;
}

/* Whether a comparison leaves out the padding along `axis`. */
static bool
compares_inside(Arena *arena, const TirVal *condition, uint32_t axis, PaddedRange along,
                PaddedRange across)
{
    const TirOp *op = condition->def;
    bool less = op->op == TIR_LT || op->op == TIR_LE, strict = op->op == TIR_LT || op->op == TIR_GT;
    if ((!less && op->op != TIR_GT && op->op != TIR_GE) || op->args[0]->type.dtype != DT_I32)
        return false;
    /* kept: greater - lesser - strict >= 0; inside: bound - 1 - n >= 0 */
    Linear rest = {.ok = true, .constant = strict ? 0 : -1};
    linear_add(&rest, op->args[less ? 1 : 0], -1);
    linear_add(&rest, op->args[less ? 0 : 1], 1);
    for (uint32_t k = 0; k < rest.n && rest.ok; k++) {
        const TirOp *range = rest.terms[k].value->def;
        if (range == NULL || range->op != TIR_IOTA || rest.terms[k].coefficient != 1 ||
            !runs_along(range, along) || axis_of_range(arena, condition, range) != axis)
            continue;
        rest.terms[k].coefficient = 0; /* - n */
        linear_add(&rest, range->args[1], 1);
        return is_not_below_zero(arena, rest, condition, 1 - axis, across);
    }
    return false;
}

/* Whether a condition does, one of several that must hold. */
static bool
keeps_inside(Arena *arena, const TirVal *condition, uint32_t axis, PaddedRange along,
             PaddedRange across)
{
    for (TirInputs in = tir_inputs(arena, condition); tir_inputs_next(&in);) {
        if (in.value->def != NULL && in.value->def->op == TIR_AND)
            tir_inputs_follow(&in);
        else if (in.value->def != NULL && compares_inside(arena, in.value, axis, along, across))
            return true;
    }
    return false;
}

bool
padding_is_masked(Arena *arena, const TirFn *fn, const TirVal *value, uint32_t axis,
                  PaddedRange along, PaddedRange across, double fill)
{
    const TirVal *pending[DEEPEST] = {value};
    uint32_t n = 1, seen = 0;

    if (value->type.rank != 2 || along.start == NULL)
        return false;
    while (n > 0 && seen++ < 4 * DEEPEST) {
        const TirOp *op = pending[--n]->def;
        if (op == NULL || !tir_same_shape(op->results[0]->type, value->type))
            continue;
        if (op->op == TIR_MASK && keeps_inside(arena, op->args[1], axis, along, across) &&
            hidden_elements_are(arena, fn, op, value, fill))
            return true;
        if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0)
            continue;
        for (uint32_t k = 0; k < op->n_args && n < DEEPEST; k++)
            pending[n++] = op->args[k];
    }
    return false;
}
