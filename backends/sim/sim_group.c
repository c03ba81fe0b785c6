/* sim_group.c - what an instruction asks of the lanes it runs with: to be together, to sleep. */
#include "sim_core.h"

bool
sim_warp_gather(SimWarp *warp, const SimInsn *insn, uint32_t mask, uint32_t needed)
{
    SimGroup *g = warp->running;
    needed &= warp->live;
    if ((mask & needed) == needed)
        return true;
    if (g->forced) {
        g->forced = false;
        return true;
    }
    if ((g->mask & needed) != needed)
        return false; /* lanes may still come */
    uint32_t missing = needed & ~mask;
    sim_find(warp, SIM_FIND_NOT_UNIFORM, (int32_t)sim_first_lane(missing), 0, NULL,
             "`%s` must be executed by lanes %08x together, but its predicate is false in %08x",
             insn->mnemonic, needed, missing);
    return true;
}

SimWait *
sim_warp_sleep(SimWarp *warp, bool (*ready)(SimWarp *, SimGroup *),
               void (*describe)(const SimWarp *, const SimGroup *, char *, size_t))
{
    SimGroup *g = warp->running;
    memset(&g->wait, 0, sizeof g->wait);
    g->waiting = true;
    g->wait.ready = ready;
    g->wait.describe = describe;
    g->wait_insn = warp->insn;
    return &g->wait;
}
