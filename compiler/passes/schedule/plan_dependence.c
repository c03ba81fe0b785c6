/* plan_axis_dependence.c - what depends on the index of the axis along which consumers lie, and which dimensions of
 * tiles run along it. */
#include "compiler/passes/schedule/plan.h"

#include "compiler/passes/util/tir_util.h"

bool
plan_is_block_index(const TirOp *op, uint32_t axis, uint32_t consumers)
{
    const TirOp *index = op->op == TIR_DIV ? op->args[0]->def : NULL,
                *by = index != NULL ? op->args[1]->def : NULL;

    return by != NULL && index->op == TIR_GRID && index->integer == (int64_t)axis &&
           by->op == TIR_CONST && by->integer > 0 && by->integer % consumers == 0;
}

bool
plan_axis_dependence(AxisDependence *p, const TirBlock *block)
{
    bool news = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool dependent = p->axis == NO_AXIS ? op->op == TIR_CONSUMER || op->op == TIR_OWN ||
                                                  (op->op == TIR_PART && op->integer < 0)
                                            : op->op == TIR_GRID && op->integer == (int64_t)p->axis;
        uint8_t along = 0;
        for (uint32_t k = 0; k < op->n_args; k++)
            dependent = dependent || p->depends[op->args[k]->id];
        if (p->axis != NO_AXIS && plan_is_block_index(op, p->axis, p->consumers))
            dependent = false;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            news |= plan_axis_dependence(p, op->blocks[k]);
        switch (op->op) {
        case TIR_LOAD: {
            uint32_t next = 0;
            for (uint32_t d = 0; d < op->tensor->rank; d++) {
                const TirVal *start = op->index[d].kind == INDEX_FULL ? NULL : op->args[next++];
                if (op->index[d].kind == INDEX_SCALAR)
                    continue;
                if (start != NULL && p->depends[start->id])
                    along |= (uint8_t)(1 << tir_tile_dimension(op, d));
            }
            break;
        }
        case TIR_IOTA: along = p->depends[op->args[0]->id] ? 1 : 0; break;
        case TIR_EXPAND:
        case TIR_SQUEEZE:
        case TIR_TRANSPOSE: along = tir_moved_dimensions(op, p->along[op->args[0]->id]); break;
        case TIR_PART:
            along = p->along[op->args[0]->id];
            along |= (uint8_t)(op->integer < 0 ? 1 << op->axis : 0);
            break;
        case TIR_OWN: along = (uint8_t)(1 << op->axis); break;
        case TIR_FROM: /* what one consumer has, for all of them */ dependent = false; break;
        case TIR_REDUCE:
            along = p->along[op->args[0]->id];
            along = tir_moved_dimensions(op, along);
            if (op->results[0]->type.rank == 0)
                along = 0;
            break;
        case TIR_MMA:
            along = (uint8_t)((p->along[op->args[0]->id] & 1) | (p->along[op->args[1]->id] & 2) |
                              p->along[op->args[2]->id]);
            break;
        case TIR_FOR: {
            const TirBlock *body = op->blocks[0];
            uint32_t first = loop_first_initial(op);
            for (uint32_t k = 0; k < op->n_results; k++) {
                const TirVal *initial = op->args[first + k], *param = body->params.at[k + 1];
                const TirVal *next = block_yield(body)->args[k], *result = op->results[k];
                uint8_t bits = p->along[initial->id] | p->along[next->id];
                bool now = p->depends[initial->id] || p->depends[next->id] ||
                           p->depends[op->args[0]->id] || p->depends[op->args[1]->id];
                const TirVal *both[] = {param, result};
                for (uint32_t j = 0; j < 2; j++) {
                    news |= (bits & ~p->along[both[j]->id]) != 0 ||
                            (now && !p->depends[both[j]->id]);
                    p->along[both[j]->id] |= bits;
                    p->depends[both[j]->id] |= now;
                }
            }
            /* where the iterations begin may differ, but one of a number is the same for all consumers:
             * the index stays independent */
            continue;
        }
        case TIR_IF:
            for (uint32_t k = 0; k < op->n_results; k++) {
                const TirVal *result = op->results[k];
                uint8_t bits = 0;
                bool now = dependent;
                for (uint32_t j = 0; j < 2; j++) {
                    bits |= p->along[block_yield(op->blocks[j])->args[k]->id];
                    now = now || p->depends[block_yield(op->blocks[j])->args[k]->id];
                }
                news |= (bits & ~p->along[result->id]) != 0 || (now && !p->depends[result->id]);
                p->along[result->id] |= bits;
                p->depends[result->id] |= now;
            }
            continue;
        default:
            for (uint32_t k = 0; k < op->n_args; k++) {
                if (op->n_results == 1 && op->args[k]->type.rank == op->results[0]->type.rank)
                    along |= p->along[op->args[k]->id];
            }
            break;
        }
        for (uint32_t k = 0; k < op->n_results; k++) {
            const TirVal *result = op->results[k];
            news |= (along & ~p->along[result->id]) != 0 || (dependent && !p->depends[result->id]);
            p->along[result->id] |= along;
            p->depends[result->id] |= dependent;
        }
    }
    return news;
}
