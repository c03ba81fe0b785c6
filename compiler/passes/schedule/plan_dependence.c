/* plan_axis_dependence.c - what depends on the index of the axis along which consumers lie, and
 * which dimensions of tiles run along it. */
#include "compiler/passes/schedule/plan.h"

#include "compiler/passes/util/tir_util.h"

/* Adds what is known of a value; whether that is news. */
static bool
learn(AxisDependence *p, const TirVal *value, uint8_t along, bool dependent)
{
    bool news = (along & ~p->along[value->id]) != 0 || (dependent && !p->depends[value->id]);

    p->along[value->id] |= along;
    p->depends[value->id] |= dependent;
    return news;
}

/* The dimensions of a loaded tile that begin where the axis says. */
static uint8_t
along_of_load(const AxisDependence *p, const TirOp *op)
{
    uint8_t along = 0;

    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        if (!d.single && d.at != NULL && p->depends[d.at->id])
            along |= (uint8_t)(1 << d.axis);
    }
    return along;
}

/* The dimensions of an operation's results that run along the axis. */
static uint8_t
along_of(const AxisDependence *p, const TirOp *op)
{
    uint8_t first = op->n_args > 0 ? p->along[op->args[0]->id] : 0, along = 0;

    switch (op->op) {
    case TIR_LOAD: return along_of_load(p, op);
    case TIR_IOTA: return p->depends[op->args[0]->id] ? 1 : 0;
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_TRANSPOSE: return tir_moved_dimensions(op, first);
    case TIR_PART: return (uint8_t)(first | (op->integer < 0 ? 1 << op->axis : 0));
    case TIR_OWN: return (uint8_t)(1 << op->axis);
    case TIR_FROM: return 0;
    case TIR_MMA:
        return (uint8_t)((first & 1) | (p->along[op->args[1]->id] & 2) | p->along[op->args[2]->id]);
    default: break;
    }
    if (tir_combines(op) && op->n_args == 1)
        return op->results[0]->type.rank == 0 ? 0 : tir_moved_dimensions(op, first);
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (op->n_results == 1 && op->args[k]->type.rank == op->results[0]->type.rank)
            along |= p->along[op->args[k]->id];
    }
    return along;
}

/* What goes around a loop, of which `yield` says what each iteration leaves; NULL: only what it
 * begins with.  Where the iterations begin may differ, but one of a number is the same for all
 * consumers: the index stays independent. */
static bool
learn_of_loop(AxisDependence *p, const TirOp *op, const TirOp *yield)
{
    const TirBlock *body = op->blocks[0];
    uint32_t first = loop_first_initial(op);
    bool news = false;

    for (uint32_t k = 0; k < op->n_results; k++) {
        const TirVal *initial = op->args[first + k],
                     *next = yield != NULL ? yield->args[k] : initial;
        uint8_t along = p->along[initial->id] | p->along[next->id];
        bool dependent = p->depends[initial->id] || p->depends[next->id] ||
                         p->depends[op->args[0]->id] || p->depends[op->args[1]->id];
        news |= learn(p, body->params.at[k + 1], along, dependent);
        learn(p, op->results[k], along, dependent);
    }
    return news;
}

static void
learn_of_branch(AxisDependence *p, const TirOp *op, bool dependent)
{
    for (uint32_t k = 0; k < op->n_results; k++) {
        const TirVal *yes = block_yield(op->blocks[0])->args[k],
                     *no = block_yield(op->blocks[1])->args[k];
        learn(p, op->results[k], p->along[yes->id] | p->along[no->id],
              dependent || p->depends[yes->id] || p->depends[no->id]);
    }
}

/* Whether an operation differs from one consumer to the next by itself, not by what it reads. */
static bool
is_of_axis(const AxisDependence *p, const TirOp *op)
{
    if (p->axis == NO_AXIS)
        return op->op == TIR_CONSUMER || op->op == TIR_OWN ||
               (op->op == TIR_PART && op->integer < 0);
    return op->op == TIR_GRID && op->integer == (int64_t)p->axis;
}

bool
plan_is_block_index(const TirOp *op, uint32_t axis, uint32_t consumers)
{
    const TirOp *index = op->op == TIR_DIV ? op->args[0]->def : NULL,
                *by = index != NULL ? op->args[1]->def : NULL;

    return by != NULL && index->op == TIR_GRID && index->integer == (int64_t)axis &&
           by->op == TIR_CONST && by->integer > 0 && by->integer % consumers == 0;
}

void
plan_axis_dependence(AxisDependence *p, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool dependent = is_of_axis(p, op);
        uint8_t reached = op->op == TIR_OWN || op->op == TIR_PART;
        for (uint32_t k = 0; k < op->n_args; k++) {
            dependent |= p->depends[op->args[k]->id];
            reached |= p->along[op->args[k]->id];
        }
        if (!dependent && reached == 0 && op->n_blocks == 0)
            continue;
        if (p->axis != NO_AXIS && plan_is_block_index(op, p->axis, p->consumers))
            dependent = false;
        if (op->op == TIR_FOR)
            learn_of_loop(p, op, NULL);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            plan_axis_dependence(p, op->blocks[k]);
        if (op->op == TIR_FOR) {
            while (learn_of_loop(p, op, block_yield(op->blocks[0])))
                plan_axis_dependence(p, op->blocks[0]);
            continue;
        }
        if (op->op == TIR_IF) {
            learn_of_branch(p, op, dependent);
            continue;
        }
        /* what one consumer has, for all of them */
        dependent = dependent && op->op != TIR_FROM;
        uint8_t along = along_of(p, op);
        for (uint32_t k = 0; k < op->n_results; k++)
            learn(p, op->results[k], along, dependent);
    }
}
