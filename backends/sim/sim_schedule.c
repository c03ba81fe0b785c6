/* sim_schedule.c - which warp goes next.
 *
 * Any that can, drawn from the seed: then all of them get about as far, and a warp is seldom late
 * by as much as a pipeline is deep.  A launch may ask for a late warp (SimLaunch.late), which only
 * runs when no other warp can, and no asynchronous operation is left that could wake one.  So what
 * it does next happens as late as it can, and a phase that may pass without it does.  Each seed of
 * a series begins with another one; later ones take turns, for as long as is drawn, so that warps
 * that spin for a late one go on in the end.
 */
#include "sim_schedule.h"

#include "sim_async.h"
#include "sim_warp.h"

/* Logarithms of how many instructions of all warps one is late; how many others run without it
 * before that counts as spinning, at first and in a cluster that has spun often. */
enum { SHORTEST = 8, LONGEST = 24, ALONE = 16, ALONE_LEAST = 11 };

static SimWarp *
warp_of(const SimCluster *cluster, uint32_t agent)
{
    uint32_t per_cta = cluster->run->warps_per_cta;
    return &cluster->ctas[agent / per_cta].warps[agent % per_cta];
}

static uint32_t
common_divisor(uint32_t a, uint32_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static void
draw_late(SimCluster *cluster)
{
    const SimLaunch *launch = cluster->run->launch;
    SimRandom series = {(launch->seed - launch->seeds_before) * UINT64_C(0x2545f4914f6cdd1d) +
                        cluster->linear};
    uint64_t turn = sim_random_below(&series, cluster->agents) + launch->seeds_before +
                    cluster->late.draws++;
    /* those next to each other in number are often alike: steps of about 0.6 of all */
    uint32_t step = cluster->agents * 5 / 8 + 1;
    while (common_divisor(cluster->agents, step) > 1)
        step--;
    cluster->late.warp = (uint32_t)(turn % cluster->agents * step % cluster->agents);
    cluster->late.since = cluster->now;
    cluster->late.until = cluster->now +
                          (UINT64_C(1)
                           << (SHORTEST + sim_random_below(&cluster->random, LONGEST - SHORTEST)));
}

/* One that can run, but `not_this`. */
static SimWarp *
any_but(SimCluster *cluster, uint32_t not_this)
{
    uint32_t start = sim_random_below(&cluster->random, cluster->agents);
    for (uint32_t i = 0; i < cluster->agents; i++) {
        uint32_t agent = (start + i) % cluster->agents;
        SimWarp *warp = warp_of(cluster, agent);
        if (agent != not_this && warp->live && sim_warp_runnable(warp))
            return warp;
    }
    return NULL;
}

SimWarp *
sim_schedule_pick(SimCluster *cluster)
{
    if (!cluster->run->launch->late)
        return any_but(cluster, UINT32_MAX);
    uint32_t shorter = cluster->late.spun < ALONE - ALONE_LEAST ? cluster->late.spun
                                                                : ALONE - ALONE_LEAST;
    bool spins = cluster->now - cluster->late.since > UINT64_C(1) << (ALONE - shorter);
    cluster->late.spun += spins;
    if (spins || cluster->now >= cluster->late.until)
        draw_late(cluster);
    SimWarp *late = warp_of(cluster, cluster->late.warp), *other;
    do {
        if ((other = any_but(cluster, late->agent)) != NULL)
            return other;
    } while (sim_async_force_one(cluster));
    cluster->late.since = cluster->now;
    return late->live && sim_warp_runnable(late) ? late : NULL;
}

uint32_t
sim_schedule_budget(SimCluster *cluster)
{
    uint32_t shape = sim_random_below(&cluster->random, 8);
    return 1 + sim_random_below(&cluster->random, shape == 0 ? 2000 : 64);
}
