/* timeline_cost.c - how long an operation keeps which unit of an SM busy.
 *
 * Uses the tables of the other models (ir/op_units.h, cost/mma_use.h) at the units' full rates.  A
 * product takes the longer of tensor core time and the time to read its operands from shared
 * memory; arithmetic on tiles takes MUFU or the ALU; masks count nothing, since few iterations keep
 * them; copies take the bandwidth from the L2 cache.
 */
#include "compiler/cost/mma_use.h"
#include "compiler/ir/layout.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/timeline/timeline.h"

static double
bytes_of(TirType type)
{
    return (double)tir_type_elements(type) * dtype_bits(type.dtype) / 8;
}

static bool
lies_in_shared(const TirVal *value)
{
    const TirOp *def = value->def;

    while (def != NULL && (def->op == TIR_TRANSPOSE || def->op == TIR_PART))
        def = def->args[0]->def;
    return def != NULL && def->op == TIR_SHARED_READ && def->shared->kind != SHARED_TMEM;
}

/* As the instructions see it: transposed with swap_ab. */
static OpCost
mma_cost(const Target *target, const TirOp *op)
{
    bool issued = op->op == TIR_TMEM_MMA; /* its result is in tensor memory */
    const int32_t *dim = issued ? NULL : op->results[0]->type.dim;
    double rows = issued ? op->shared->rows : dim[op->swap_ab ? 1 : 0];
    double cols = issued ? op->shared->cols : dim[op->swap_ab ? 0 : 1];
    const MmaForm *form = product_form(target, op);
    int32_t step = form->k, depth = (op->args[0]->type.dim[1] + step - 1) / step * step;
    MmaUse use = mma_use(target, form, rows, cols, depth,
                         lies_in_shared(op->args[op->swap_ab ? 1 : 0]));
    double port = use.bytes / target->chip.shared_bytes;
    return (OpCost){.unit = UNIT_TENSOR,
                    .clocks = port > use.clocks ? port : use.clocks,
                    .bytes = use.bytes,
                    .async = issued || op->async};
}

static OpCost
arithmetic_cost(const Target *target, const TirOp *op, double weight)
{
    OpUse use = op_use(op);
    OpCost cost = {.unit = UNIT_NONE};
    bool any = false;

    if (!op_use_is_steady(&use))
        return cost;
    for (uint32_t k = 0; k < op->n_args; k++)
        any = any || timeline_is_computed(op->args[k]);
    if (!any)
        return cost;
    double elements = weight * (double)tir_type_elements(use.of->type);
    /* what is computed by a polynomial hides beside the special functions */
    double special = use.mufu * (1 - (double)op->polynomial / POLYNOMIAL_OF);
    cost.unit = use.unit;
    cost.clocks = elements *
                  (special / target->chip.special_ops + use.alu / target->chip.float_ops);
    return cost;
}

int64_t
timeline_copy_bytes(const TirOp *copy)
{
    const TirShared *pipeline = copy->shared;
    int64_t element = dtype_bits(pipeline->dtype) / 8;
    int64_t width = (pipeline->layout != NULL ? pipeline->layout->pitch : SWIZZLE_BYTES) / element;
    int64_t cols = pipeline->layout != NULL ? pipeline->layout->cols : pipeline->cols;

    return pipeline->rows * ((cols + width - 1) / width * width) * element;
}

bool
timeline_goes_through_shared(const TirOp *op)
{
    bool writes = (tir_op_info(op->op)->flags & TF_EFFECT) != 0 && op->op != TIR_TMA_LOAD;

    return op->op == TIR_STAGING_WRITE || (writes && op->tensor != NULL && op->shared != NULL);
}

OpCost
timeline_cost(const Target *target, const TirOp *op, double weight)
{
    OpUnit unit = timeline_goes_through_shared(op) ? UNIT_SHARED
                  : op->op == TIR_TMEM_MMA         ? UNIT_TENSOR
                                                   : op_use(op).unit;
    double bytes = 0;

    switch (unit) {
    case UNIT_TENSOR: return mma_cost(target, op);
    case UNIT_SHARED:
        bytes = bytes_of(op->args[op->n_args - 1]->type);
        return (OpCost){
            .unit = UNIT_SHARED, .clocks = bytes / target->chip.shared_bytes, .bytes = bytes};
    case UNIT_COPY:
        if (op->op == TIR_LOAD) /* what a lane reads for itself: few elements */
            return (OpCost){.unit = UNIT_NONE};
        bytes = op->op == TIR_TMA_LOAD ? (double)timeline_copy_bytes(op)
                                       : weight * bytes_of(op->args[op->n_args - 1]->type);
        return (OpCost){.unit = UNIT_COPY, .clocks = bytes / target->chip.copy_bytes, .async = true};
    default: return arithmetic_cost(target, op, weight);
    }
}

/* Whether some operand of a product is computed: its instructions wait for arithmetic. */
static bool
follows_arithmetic(const TirOp *op)
{
    bool transposed;

    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *read = view_source(op->args[k], &transposed);
        if (!lies_in_shared(op->args[k]) || timeline_is_computed(op->args[k]) ||
            (read->shared != NULL && read->shared->from == ROLE_CONSUMER))
            return true;
    }
    return op->coop_k;
}

bool
timeline_busy(const Target *target, const RoleTrace *trace, double busy[UNIT_COUNT])
{
    double bytes = 0, copied = 0;
    bool chained = false;

    for (uint32_t k = 0; k < UNIT_COUNT; k++)
        busy[k] = 0;
    for (uint32_t role = 1; role < trace->roles; role++) {
        const RoleSteps *steps = &trace->role[role];
        uint32_t iteration = 0;
        for (uint32_t i = 0; i < steps->n; i++) {
            const RoleStep *step = &steps->at[i];
            const TirOp *op = step->op;
            iteration += step->kind == STEP_ITERATION;
            if (step->kind == STEP_ITERATION_END && iteration > trace->iterations / 2)
                break;
            if (step->kind != STEP_OP || iteration <= trace->iterations / 2)
                continue;
            if (op->op == TIR_CONSUMER_WAIT && op->shared->from == ROLE_PRODUCER &&
                (op->shared->each || role == 1 || trace->kind[role] == ROLE_MMA)) {
                TirOp copy = {.shared = op->shared};
                copied += (double)timeline_copy_bytes(&copy);
                continue;
            }
            OpCost cost = timeline_cost(target, op, step->weight);
            busy[cost.unit] += cost.clocks;
            bytes += cost.bytes;
            if (timeline_goes_through_shared(op)) { /* written, and read by the unit */
                bytes += cost.bytes;
                busy[UNIT_COPY] += cost.bytes / target->chip.copy_bytes;
            }
            chained = chained || (timeline_is_product(op) && follows_arithmetic(op));
        }
    }
    busy[UNIT_SHARED] = (bytes + copied) / target->chip.shared_bytes;
    busy[UNIT_COPY] += copied / target->chip.copy_bytes;
    return chained;
}
