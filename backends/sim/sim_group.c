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

/* The lanes that wait at a bar.warp.sync, here or at another one, and name the mask: they meet,
 * wherever they are (9.7.13.2). */
static uint32_t
lanes_at_bar_warp(SimWarp *warp, uint32_t named)
{
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < warp->group_count; i++) {
        const SimGroup *g = warp->group[i];
        if (g == warp->running || !g->stalled)
            continue;
        const SimInsn *at = &g->frame->function->insns[g->pc];
        if (!at->meets)
            continue;
        uint8_t *bank = warp->bank[SIM_BANK_REGISTERS];
        warp->bank[SIM_BANK_REGISTERS] = g->frame->registers;
        uint32_t executes = g->mask;
        if (at->guard != SIM_NO_SLOT)
            executes &= *sim_rp(warp, at->guard) ^ (at->guard_negated ? UINT32_MAX : 0);
        sim_each_lane (l, executes)
            lanes |= (uint32_t)(sim_r32(warp, at->slot[0])[l] == named) << l;
        warp->bank[SIM_BANK_REGISTERS] = bank;
    }
    return lanes;
}

/* Tells the groups of these lanes that their partners have come. */
static void
met_at_bar_warp(SimWarp *warp, uint32_t lanes)
{
    for (uint32_t i = 0; i < warp->group_count; i++) {
        SimGroup *g = warp->group[i];
        if (g == warp->running || !(g->mask & lanes))
            continue;
        g->met |= g->mask & lanes;
        g->stalled = false;
    }
}

/* Are the lanes of one mask complete?  Reports what can never become right. */
static bool
members_complete(SimWarp *warp, const SimInsn *insn, uint32_t lanes, uint32_t mask, uint32_t named)
{
    SimGroup *g = warp->running;
    uint32_t needed = named & warp->live & ~lanes;
    if (!needed)
        return true;
    if (insn->meets) {
        uint32_t elsewhere = lanes_at_bar_warp(warp, named) & ~g->mask;
        if (!(needed & ~elsewhere)) {
            met_at_bar_warp(warp, elsewhere);
            return true;
        }
    }
    if (needed & ~(g->mask & ~mask))
        return false; /* lanes may still come */
    sim_find(warp, SIM_FIND_NOT_UNIFORM, (int32_t)sim_first_lane(needed), 0, NULL,
             "`%s` must be executed by lanes %08x together, but its predicate is false in %08x",
             insn->mnemonic, named & warp->live, needed);
    return true;
}

uint32_t
sim_warp_gather_members(SimWarp *warp, const SimInsn *insn, uint32_t mask, const uint32_t *members)
{
    SimGroup *g = warp->running;
    uint32_t ready = 0, rest = mask;
    bool forced = g->forced;
    g->forced = false;
    while (rest) {
        uint32_t named = members[sim_first_lane(rest)], lanes = 0;
        sim_each_lane (l, rest)
            lanes |= (uint32_t)(members[l] == named) << l;
        rest &= ~lanes;
        ready |= lanes & g->met;
        lanes &= ~g->met;
        if (lanes && (forced || members_complete(warp, insn, lanes, mask, named)))
            ready |= lanes;
    }
    g->met &= ~ready;
    return ready;
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
