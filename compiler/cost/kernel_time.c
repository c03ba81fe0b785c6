/* kernel_time.c - what consumer_time.c says of a kernel that has its plan. */
#include "compiler/cost/kernel_time.h"

#include <inttypes.h>

double
kernel_microseconds(const Target *target, const ConsumerClocks *clocks)
{
    return clocks->total / target->chip.burst_mhz;
}

/* Stages of the pipelines of a loop. */
static uint32_t
stages_of(const TirBlock *body)
{
    uint32_t stages = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL && op->shared->stages > stages)
            stages = op->shared->stages;
    }
    return stages;
}

KernelTime *
kernel_time(Arena *arena, const Target *target, const TirFn *fn, const PlanHints *hints,
            const int64_t *sizes)
{
    if (fn->plan == NULL || !target_predicts_roles(target))
        return NULL;
    /* else one consumer stands for all */
    bool together = tir_has_coop_k(fn) || tir_is_cooperative(fn->plan);
    ConsumerWork work = consumer_work(target, fn, together ? tir_consumers(fn->plan) : 1);
    if (work.n_loops == 0)
        return NULL;
    PlanHints plan = *hints;
    uint32_t stages = stages_of(work.loops[0].op->blocks[0]);
    plan.consumers = tir_consumers(fn->plan);
    plan.persistent = tir_is_persistent(fn->plan);
    plan.paired = tir_is_clustered(fn->plan);
    plan.clc = tir_has_clc(fn->plan);
    plan.two_blocks = target_blocks(target, tir_role_registers(fn->plan)) > 1;
    plan.stages = stages > 0 ? stages : plan.stages;
    KernelTime *time = arena_new(arena, KernelTime);
    *time = (KernelTime){
        .sizes = sizes != NULL ? sizes : trips_usual_sizes(arena, fn), .plan = plan, .work = work};
    time->trips = trips_of_consumers(fn, work.loops, work.n_loops, work.axis, plan.consumers,
                                     time->sizes);
    time->clocks = consumer_time(target, &work, &time->trips, &plan, true);
    time->pipelined = consumer_pipelines(target, &work, &plan);
    time->microseconds = kernel_microseconds(target, &time->clocks);
    return time;
}

void
kernel_time_text(const TirFn *fn, const KernelTime *time, Buf *out)
{
    buf_printf(out, "an iteration takes %.0f clocks, a launch for", time->clocks.iteration);
    for (uint32_t k = 0; k < fn->sizes.n; k++)
        buf_printf(out, " %s=%" PRId64, fn->sizes.at[k].name, time->sizes[k]);
    buf_printf(out, " %.1f us", time->microseconds);
}
