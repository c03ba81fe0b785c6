/* barriers.c - names of barriers as comments, for tools that know where one lies and no more
 * (tilerun --time). */
#include "compiler/emit/barriers.h"

#include <inttypes.h>

static void
name_some(uint32_t at, uint32_t n, const char *what, const char *how, bool *begun, Buf *out)
{
    buf_printf(out, "//   %-9s %" PRIu32 " %" PRIu32 " %s%s\n", *begun ? "" : "barriers", at, n,
               what, how);
    *begun = true;
}

/* The full ones of all stages, and the empty ones behind them. */
static void
name_pipeline(const TirFn *fn, const TirShared *pipeline, bool *begun, Buf *out)
{
    const char *name = tir_buffer_name(out->arena, pipeline);
    TirChannel channel = tir_channel(fn, pipeline);
    uint32_t n = pipeline->stages * channel.parts;

    name_some(pipeline->barriers, n, name, " full", begun, out);
    if (channel.empty > 0)
        name_some(pipeline->barriers + MBARRIER_BYTES * n, n, name, " empty", begun, out);
}

void
barriers_comment(const TirFn *fn, Buf *out)
{
    const TirPlan *plan = fn->plan;
    bool begun = false;

    if (plan == NULL)
        return;
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *shared = fn->shared.at[k];
        if (shared->kind == SHARED_SENT) {
            uint32_t warps = tir_adding_warps(plan);
            const char *name = tir_buffer_name(out->arena, shared);
            name_some(shared->barriers, warps, name, " full", &begun, out);
            name_some(shared->barriers + MBARRIER_BYTES * warps, warps, name, " empty", &begun, out);
        } else if (tir_is_pipeline(shared) && shared->with == NULL) {
            name_pipeline(fn, shared, &begun, out);
        }
    }
    if (!tir_is_dynamic(plan))
        return;
    if (tir_has_clc(plan))
        name_some(plan->tiles.offset + CLC_FULL, 1, "next tile", " answer", &begun, out);
    if (tir_has_clc(plan) && tir_is_clustered(plan))
        name_some(plan->tiles.offset + CLC_EMPTY, 1, "answer", " read", &begun, out);
    uint32_t index = plan->tiles.offset + TILE_INDEX_BYTES * TILE_STAGES;
    name_some(index, TILE_STAGES, "next tile", " index", &begun, out);
    name_some(index + MBARRIER_BYTES * TILE_STAGES, TILE_STAGES, "next tile", " heard", &begun, out);
}
