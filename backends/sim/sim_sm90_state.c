/* sim_sm90_state.c - what the sm_90 families keep on warps, blocks and clusters, and their
 * addresses. */
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
            s->free_barrier(s->barrier[i]);
    for (uint32_t i = 0; i < SIM_MAX_WARPS / 4; i++)
        if (s->warpgroup[i])
            s->free_warpgroup(s->warpgroup[i]);
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
    Sm90Cluster *s = sim_extension(&cluster->ext[SIM_EXT_SM90], sizeof(Sm90Cluster),
                                   release_cluster);
    if (s && !s->arrived) {
        s->agents = cluster->agents;
        free(s->clock); /* of a try that had no memory for the other one */
        s->arrived = sim_calloc(cluster->agents, sizeof *s->arrived);
        s->clock = sim_calloc(2 * SIM_PLANES * (size_t)cluster->agents, sizeof *s->clock);
        s->done_clock = s->clock ? s->clock + SIM_PLANES * (size_t)cluster->agents : NULL;
    }
    return s && s->arrived && s->clock ? s : NULL;
}
