/* roofline.c - the work of a launch for each unit of a chip, by tile IR and the sizes of the
 * tensors. */
#include "compiler/cost/roofline.h"

#include "compiler/cost/cost.h"
#include "compiler/cost/trips.h"
#include "compiler/ir/op_units.h"
#include "compiler/passes/util/product_form.h"

typedef struct Sum {
    const Target *target;
    const TirFn *fn;
    Roofline *roof;
    double tensor_clocks;
} Sum;

static double
bytes_of(const TirOp *access)
{
    return (double)tir_type_elements(tir_index_type(access)) *
           (double)dtype_bits(access->tensor->dtype) / 8;
}

/* Programs that a tile is fetched for at once: those of the consumers of a block, or of a cluster
 * of them. */
static double
programs_of(const Sum *s, const TirOp *load)
{
    const TirPlan *plan = s->fn->plan;

    if (plan == NULL || load->shared == NULL || load->shared->each || tir_is_cooperative(plan))
        return 1;
    return (double)tir_consumers(plan) * (tir_is_clustered(plan) ? plan->tiles.cluster : 1);
}

static void
count_mma(Sum *s, const TirOp *op, double times)
{
    const MmaForm *form = s->fn->plan != NULL ? product_form(s->target, op) : NULL;
    double flops = 2.0 * (double)tir_type_elements(op->results[0]->type) *
                   (double)op->args[0]->type.dim[op->args[0]->type.rank - 1];

    form = form == NULL ? product_form_alone(s->target, op) : form;
    s->roof->work[ROOF_TENSOR] += times * flops;
    if (form != NULL)
        s->tensor_clocks += times * flops / target_mma_flops(s->target, form);
}

static void
count_op(Sum *s, const TirOp *op, double times)
{
    OpUse use = op_use(op);

    if (op->op == TIR_MMA) {
        count_mma(s, op, times);
    } else if (op->op == TIR_LOAD || op->op == TIR_COPY_ASYNC) {
        s->roof->work[ROOF_CACHE] += times * bytes_of(op) / programs_of(s, op);
    } else if (tir_is_access(op->op) && op->tensor != NULL) {
        s->roof->work[ROOF_CACHE] += times * bytes_of(op);
    } else if (use.of != NULL && !use.at_edges && use.of->type.rank > 0) {
        double elements = times * (double)tir_type_elements(use.of->type);
        double share = (double)op->polynomial / POLYNOMIAL_OF;
        s->roof->work[ROOF_SPECIAL] += elements * use.mufu * (1 - share);
        s->roof->work[ROOF_LANES] += elements * (use.alu + share * PER_POLYNOMIAL);
    }
}

/* What runs `times` times in a launch. */
static void
count_block(Sum *s, const TirBlock *block, double times, double share)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        double inside = times;
        count_op(s, op, times * share);
        if (op->op == TIR_FOR) {
            Trips trips = trips_of(s->fn, op, s->roof->sizes);
            inside = trips.blocks * trips.each;
        }
        for (uint32_t b = 0; b < op->n_blocks; b++)
            count_block(s, op->blocks[b], inside, share * cost_share(op, b));
    }
}

static double
tensor_bytes(const TirFn *fn, const int64_t *sizes)
{
    double sum = 0;

    for (uint32_t t = 0; t < fn->tensors.n; t++) {
        const TirTensor *tensor = fn->tensors.at[t];
        double bytes = (double)dtype_bits(tensor->dtype) / 8;
        for (uint32_t d = 0; d < tensor->rank; d++)
            bytes *= (double)(tensor->dim[d].constant != 0 ? tensor->dim[d].constant
                                                           : sizes[tensor->dim[d].size]);
        sum += bytes;
    }
    return sum;
}

static double
points_of_grid(const TirFn *fn, const int64_t *sizes)
{
    double points = 1;

    for (uint32_t k = 0; k < fn->grid.n; k++)
        points *= (double)trips_extent(fn, k, sizes);
    return points;
}

/* Elements a clock, where a warp instruction keeps a scheduler for so many clocks. */
static double
lanes_rate(const ClockFact *clock, ClockRow row)
{
    return clock[CLOCK_SMS].value * clock[CLOCK_SCHEDULERS].value * WARP_LANES / clock[row].value;
}

Roofline *
roofline_of(Arena *arena, const Target *target, const TirFn *fn)
{
    const ClockFact *clock = target->clock;

    if (clock == NULL)
        return NULL;
    Roofline *roof = arena_new(arena, Roofline);
    Sum sum = {.target = target, .fn = fn, .roof = roof};
    bool boxes = fn->plan != NULL && target_copy(target, COPY_TENSOR_LOAD) != NULL;
    *roof = (Roofline){
        .sizes = trips_usual_sizes(arena, fn),
        .mhz = clock[CLOCK_MHZ].value,
        .rate = {[ROOF_SPECIAL] = lanes_rate(clock, CLOCK_MUFU),
                 [ROOF_LANES] = target_can(target, CAN_COMPUTE_TWO)
                                    ? 2 * lanes_rate(clock, CLOCK_PACKED)
                                    : lanes_rate(clock, CLOCK_FMA),
                 [ROOF_CACHE] = clock[boxes ? CLOCK_CHIP_READ_BOXES : CLOCK_CHIP_READ].value,
                 [ROOF_MEMORY] = clock[CLOCK_HBM].value},
    };
    count_block(&sum, fn->body, points_of_grid(fn, roof->sizes), 1);
    roof->work[ROOF_MEMORY] = tensor_bytes(fn, roof->sizes);
    if (sum.tensor_clocks > 0)
        roof->rate[ROOF_TENSOR] = roof->work[ROOF_TENSOR] / sum.tensor_clocks *
                                  clock[CLOCK_SMS].value;
    for (uint32_t k = 0; k < ROOF_UNITS; k++) {
        roof->clocks[k] = roof->work[k] > 0 ? roof->work[k] / roof->rate[k] : 0;
        roof->bound = roof->clocks[k] > roof->clocks[roof->bound] ? (RoofUnit)k : roof->bound;
    }
    return roof->clocks[roof->bound] > 0 ? roof : NULL;
}
