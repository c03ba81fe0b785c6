/* sim_sm90.c - the table of sm_90 families, and the state they keep. */
#include "sim_sm90.h"

#include <stdlib.h>

bool
sim_sm90_take_address(SimDecode *dx, const PtxOperand *operand, Sm90Address *address)
{
    if (!dec_address(dx, operand))
        return false;
    address->slot = dx->out->slot[dx->out->slot_count - 1];
    address->offset = dx->out->imm;
    address->wide = dx->out->mode[5] != 0;
    return true;
}

static void
release_warp(void *state)
{
    free(((Sm90Warp *)state)->bulk);
    free(state);
}

Sm90Warp *
sim_sm90_warp(SimWarp *warp)
{
    return sim_extension(&warp->ext[SIM_EXT_SM90], sizeof(Sm90Warp), release_warp);
}

static void
release_cta(void *state)
{
    Sm90Cta *s = state;
    for (uint32_t i = 0; s->barrier && i < s->barrier_room; i++)
        if (s->barrier[i])
            sim_sm90_barrier_free(s->barrier[i]);
    for (uint32_t i = 0; i < SIM_MAX_WARPS / 4; i++)
        if (s->warpgroup[i])
            sim_sm90_warpgroup_free(s->warpgroup[i]);
    free(s->barrier);
    free(s);
}

Sm90Cta *
sim_sm90_cta(SimCta *cta)
{
    Sm90Cta *s = sim_extension(&cta->ext[SIM_EXT_SM90], sizeof(Sm90Cta), release_cta);
    if (s && !s->barrier) {
        s->barrier_room = cta->shared_size / 8 + 1;
        s->barrier = sim_calloc(s->barrier_room, sizeof *s->barrier);
    }
    return s && s->barrier ? s : NULL;
}

static void
release_cluster(void *state)
{
    Sm90Cluster *s = state;
    for (size_t i = 0; i < s->map_count; i++)
        free(s->map[i].acquired);
    free(s->map);
    free(s->arrived);
    free(s->clock);
    free(s);
}

Sm90Cluster *
sim_sm90_cluster(SimCluster *cluster)
{
    Sm90Cluster *s =
        sim_extension(&cluster->ext[SIM_EXT_SM90], sizeof(Sm90Cluster), release_cluster);
    if (s && !s->arrived) {
        s->agents = cluster->agents;
        free(s->clock); /* of a try that had no memory for the other one */
        s->arrived = sim_calloc(cluster->agents, sizeof *s->arrived);
        s->clock = sim_calloc(2 * SIM_PLANES * (size_t)cluster->agents, sizeof *s->clock);
        s->done_clock = s->clock ? s->clock + SIM_PLANES * (size_t)cluster->agents : NULL;
    }
    return s && s->arrived && s->clock ? s : NULL;
}

const SimFamily sim_sm90_families[] = {
    {"mbarrier.init", sim_sm90_decode_mbarrier_init},
    {"mbarrier.inval", sim_sm90_decode_mbarrier_inval},
    {"mbarrier.expect_tx", sim_sm90_decode_expect_tx},
    {"mbarrier.complete_tx", sim_sm90_decode_complete_tx},
    {"mbarrier.arrive", sim_sm90_decode_arrive},
    {"mbarrier.arrive_drop", sim_sm90_decode_arrive_drop},
    {"mbarrier.test_wait", sim_sm90_decode_test_wait},
    {"mbarrier.try_wait", sim_sm90_decode_try_wait},
    {"mbarrier.pending_count", sim_sm90_decode_pending_count},
    {"cp.async.mbarrier.arrive", sim_sm90_decode_cp_async_arrive},
    {"cp.async.bulk", sim_sm90_decode_bulk},
    {"cp.async.bulk.tensor", sim_sm90_decode_tensor},
    {"cp.async.bulk.prefetch", sim_sm90_decode_bulk_prefetch},
    {"cp.async.bulk.commit_group", sim_sm90_decode_bulk_commit},
    {"cp.async.bulk.wait_group", sim_sm90_decode_bulk_wait},
    {"cp.reduce.async.bulk", sim_sm90_decode_bulk_reduce},
    {"cp.reduce.async.bulk.tensor", sim_sm90_decode_tensor_reduce},
    {"st.async", sim_sm90_decode_st_async},
    {"red.async", sim_sm90_decode_red_async},
    {"tensormap.replace", sim_sm90_decode_map_replace},
    {"tensormap.cp_fenceproxy", sim_sm90_decode_map_copy},
    {"fence.proxy.tensormap::generic", sim_sm90_decode_map_fence},
    {"wgmma.mma_async", sim_sm90_decode_wgmma},
    {"wgmma.fence", sim_sm90_decode_wgmma_fence},
    {"wgmma.commit_group", sim_sm90_decode_wgmma_commit},
    {"wgmma.wait_group", sim_sm90_decode_wgmma_wait},
    {"barrier.cluster", sim_sm90_decode_cluster_barrier},
    {"mapa", sim_sm90_decode_mapa},
    {"getctarank", sim_sm90_decode_getctarank},
    {"setmaxnreg", sim_sm90_decode_setmaxnreg},
    {"griddepcontrol", sim_sm90_decode_griddepcontrol},
    {"stmatrix", sim_sm90_decode_stmatrix},
    {NULL, NULL},
};
