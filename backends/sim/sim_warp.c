/* sim_warp.c - lanes of a warp: divergence, convergence, calls (PTX ISA 3.1, 9.7.12).
 *
 * A warp runs as groups of lanes; a group is lanes at one program counter.  Normally the deepest
 * call and then the lowest counter runs first, which brings the sides of a branch together again at
 * the join.  Now and then, drawn from the seed, another group gets a turn, so that a lane that
 * spins for another lane of its warp makes progress, as independent thread scheduling promises.
 *
 * An .aligned or .sync op that needs lanes which are elsewhere stalls its group until they join.
 * If they never can, that is a finding, and the group goes on alone.
 */
#include "sim_warp.h"

#include <stdlib.h>

#include "sim_sm100.h"
#include "sim_sm90_wgmma.h"
#include "sim_special.h"
#include "sim_sync.h"
#include "sim_trace.h"

enum { LOCAL_LIMIT = 512 * 1024, POISON = 0xa5 };

/* ------------------------------------------------------------------------ groups */

static SimGroup *
new_group(SimWarp *warp)
{
    for (uint32_t i = 0; i < SIM_LANES; i++)
        if (warp->group_pool[i].mask == 0) {
            SimGroup *g = &warp->group_pool[i];
            memset(g, 0, sizeof *g);
            warp->group[warp->group_count++] = g;
            return g;
        }
    return NULL; /* cannot happen: at most one group per lane */
}

static void
drop_group(SimWarp *warp, SimGroup *g)
{
    for (uint32_t i = 0; i < warp->group_count; i++)
        if (warp->group[i] == g) {
            warp->group[i] = warp->group[--warp->group_count];
            break;
        }
    g->mask = 0;
    if (warp->running == g)
        warp->running = NULL;
}

static void
merge_into_running(SimWarp *warp)
{
    SimGroup *g = warp->running;
    for (uint32_t i = 0; i < warp->group_count; i++) {
        SimGroup *other = warp->group[i];
        if (other != g && other->pc == g->pc && other->frame == g->frame && !other->waiting) {
            g->mask |= other->mask;
            g->met |= other->met;
            drop_group(warp, other);
            i--;
        }
    }
}

/* Takes lanes out of the running group into a group of their own. */
static SimGroup *
split(SimWarp *warp, uint32_t mask)
{
    SimGroup *from = warp->running;
    if (mask == from->mask)
        return from;
    from->mask &= ~mask;
    SimGroup *g = new_group(warp);
    g->mask = mask;
    g->met = from->met & mask;
    from->met &= ~mask;
    g->pc = from->pc;
    g->frame = from->frame;
    return g;
}

static void
unstall_all(SimWarp *warp)
{
    for (uint32_t i = 0; i < warp->group_count; i++)
        warp->group[i]->stalled = false;
}

void
sim_warp_branch(SimWarp *warp, uint32_t mask, uint32_t pc)
{
    SimGroup *rest = warp->running;
    SimGroup *taken = split(warp, mask);
    if (taken != rest)
        rest->pc++;
    taken->pc = pc;
}

SimStep
sim_warp_members_step(SimWarp *warp, uint32_t mask, uint32_t ready)
{
    SimGroup *g = warp->running;
    if (ready == mask)
        return SIM_NEXT;
    if (!ready)
        return SIM_STALL;
    uint32_t pc = g->pc;
    sim_warp_branch(warp, mask & ~ready, pc); /* those that wait stay; the others go on */
    return SIM_JUMP;
}

static void
release_frame(SimFrame *frame, uint32_t mask)
{
    frame->lanes &= ~mask;
    if (frame->lanes == 0) {
        free(frame->registers);
        free(frame);
    }
}

void
sim_warp_exit_lanes(SimWarp *warp, uint32_t mask)
{
    SimGroup *g = split(warp, mask);
    if (g != warp->running)
        warp->running->pc++;
    SimFrame *frame = g->frame;
    drop_group(warp, g);
    while (frame) {
        SimFrame *caller = frame->caller;
        release_frame(frame, mask);
        frame = caller;
    }
    warp->live &= ~mask;
    unstall_all(warp);
    SimCluster *cluster = warp->cta->cluster;
    cluster->progress++;
    if (warp->live == 0 && --warp->cta->live_warps == 0)
        cluster->live_ctas--;
    sim_barrier_recheck(warp->cta);
}

/* ------------------------------------------------------------------------ calls */

static bool
reserve_local(SimWarp *warp, uint32_t size)
{
    if (size <= warp->local_size)
        return true;
    uint32_t wanted = warp->local_size ? warp->local_size : 256;
    while (wanted < size)
        wanted *= 2;
    if (wanted > LOCAL_LIMIT)
        return false;
    uint8_t *bigger = sim_malloc((size_t)wanted * SIM_LANES);
    if (!bigger)
        return false;
    memset(bigger, POISON, (size_t)wanted * SIM_LANES);
    for (size_t l = 0; l < SIM_LANES && warp->local_size; l++)
        memcpy(bigger + l * wanted, warp->local + l * warp->local_size, warp->local_size);
    free(warp->local);
    warp->local = bigger;
    warp->local_size = wanted;
    return true;
}

static SimFrame *
new_frame(const SimFunction *function, SimFrame *caller, uint32_t lanes)
{
    SimFrame *f = sim_calloc(1, sizeof *f);
    size_t bytes = (function->register_bytes + 63u) / 64 * 64 + 64;
    if (f)
        f->registers = sim_aligned_alloc(64, bytes);
    if (!f || !f->registers) {
        free(f);
        return NULL;
    }
    memset(f->registers, POISON, bytes); /* a register holds garbage until written */
    f->function = function;
    f->caller = caller;
    f->lanes = lanes;
    f->depth = caller ? caller->depth + 1 : 0;
    return f;
}

/* Puts the frame's own variables at `base`, and makes room for them. */
static bool
place_frame(SimWarp *warp, SimFrame *frame, uint32_t base)
{
    uint32_t end = (base + frame->function->local_bytes + 15) & ~UINT32_C(15);
    frame->local_base = base;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        frame->top[l] = end;
    return reserve_local(warp, end);
}

static bool
stack_overflow(SimWarp *warp)
{
    sim_fail(warp, "the stack of a thread grew beyond %d bytes", LOCAL_LIMIT);
    return false;
}

bool
sim_warp_reserve(SimWarp *warp, uint64_t end)
{
    return (end <= LOCAL_LIMIT && reserve_local(warp, (uint32_t)end)) || stack_overflow(warp);
}

/* Copies bytes between places of the stack of some lanes: arguments in, results out. */
static void
copy_local(SimWarp *warp, uint32_t mask, uint32_t to, uint32_t from, uint32_t size)
{
    sim_each_lane (l, mask) {
        uint8_t *stack = warp->local + (size_t)l * warp->local_size;
        memmove(stack + to, stack + from, size);
    }
}

void
sim_warp_call(SimWarp *warp, const SimInsn *insn, const SimFunction *callee, uint32_t mask)
{
    SimGroup *g = split(warp, mask);
    if (g != warp->running)
        warp->running->pc++;
    SimFrame *caller = g->frame, *frame = new_frame(callee, caller, mask);
    if (!frame) {
        sim_fail(warp, "out of memory");
        return;
    }
    uint32_t base = 0;
    sim_each_lane (l, mask)
        base = caller->top[l] > base ? caller->top[l] : base;
    frame->return_pc = g->pc + 1;
    frame->call = insn;
    if (!place_frame(warp, frame, base)) {
        frame->lanes = 0;
        release_frame(frame, 0);
        stack_overflow(warp);
        return;
    }
    const SimLocalVar *args = insn->data; /* results, then arguments, in the caller's frame */
    for (uint32_t i = 0; i < callee->param_count; i++)
        copy_local(warp, mask, frame->local_base + callee->params[i].offset,
                   caller->local_base + args[callee->result_count + i].offset,
                   callee->params[i].size);
    g->frame = frame;
    g->pc = 0;
    warp->running = g;
}

void
sim_warp_return(SimWarp *warp, uint32_t mask)
{
    SimFrame *frame = warp->running->frame;
    if (!frame->caller) {
        sim_warp_exit_lanes(warp, mask);
        return;
    }
    SimGroup *g = split(warp, mask);
    if (g != warp->running)
        warp->running->pc++;
    const SimLocalVar *args = frame->call->data;
    const SimFunction *fn = frame->function;
    for (uint32_t i = 0; i < fn->result_count; i++)
        copy_local(warp, mask, frame->caller->local_base + args[i].offset,
                   frame->local_base + fn->results[i].offset, fn->results[i].size);
    g->pc = frame->return_pc;
    g->frame = frame->caller;
    warp->running = g;
    release_frame(frame, mask);
}

/* ------------------------------------------------------------------------ convergence */

static bool
any_waiting(const SimWarp *warp)
{
    for (uint32_t i = 0; i < warp->group_count; i++)
        if (warp->group[i]->waiting)
            return true;
    return false;
}

bool
sim_warp_break_stall(SimWarp *warp)
{
    SimGroup *first = NULL;
    for (uint32_t i = 0; i < warp->group_count; i++) {
        SimGroup *g = warp->group[i];
        if (g->stalled && (!first || g->pc < first->pc))
            first = g;
    }
    if (!first)
        return false;
    char where[600] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < warp->group_count && used < sizeof where; i++) {
        const SimGroup *g = warp->group[i];
        const SimInsn *at = &g->frame->function->insns[g->pc];
        if (g != first)
            used += (size_t)snprintf(where + used, sizeof where - used,
                                     "%s lanes %08x are at line %u `%s`", used ? "," : "", g->mask,
                                     at->line, at->mnemonic);
    }
    warp->insn = &first->frame->function->insns[first->pc];
    sim_find(warp, SIM_FIND_NOT_UNIFORM, (int32_t)sim_first_lane(first->mask), 0, NULL,
             "`%s` must be executed by all its lanes together, but only lanes %08x reach it;%s",
             warp->insn->mnemonic, first->mask, used ? where : " the others never do");
    first->stalled = false;
    first->forced = true;
    return true;
}

/* ------------------------------------------------------------------------ running */

bool
sim_warp_runnable(SimWarp *warp)
{
    bool can_run = false;
    for (uint32_t i = 0; i < warp->group_count; i++) {
        SimGroup *g = warp->group[i];
        if (g->waiting) {
            warp->insn = g->wait_insn;
            warp->bank[SIM_BANK_REGISTERS] = g->frame->registers;
            if (g->wait.ready(warp, g))
                g->waiting = false;
        }
        can_run |= !g->waiting && !g->stalled;
    }
    if (!can_run && warp->group_count && !any_waiting(warp))
        can_run = sim_warp_break_stall(warp); /* nobody else can bring the lanes together */
    return can_run;
}

/* Deepest call first, then lowest program counter. */
static bool
goes_first(const SimGroup *a, const SimGroup *b)
{
    if (a->frame->depth != b->frame->depth)
        return a->frame->depth > b->frame->depth;
    return a->pc < b->pc;
}

static SimGroup *
pick_group(SimWarp *warp, bool at_random)
{
    SimGroup *best = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < warp->group_count; i++) {
        SimGroup *g = warp->group[i];
        if (g->waiting || g->stalled)
            continue;
        count++;
        if (!best || (at_random ? sim_random_below(&warp->random, count) == 0 : goes_first(g, best)))
            best = g;
    }
    return best;
}

/* One instruction of the running group. */
static SimStep
step(SimWarp *warp)
{
    SimGroup *g = warp->running;
    const SimInsn *insn = &g->frame->function->insns[g->pc];
    uint32_t mask = g->mask;
    warp->insn = insn;
    warp->lanes_run = mask;
    if (insn->guard != SIM_NO_SLOT) {
        uint32_t p = *sim_rp(warp, insn->guard);
        mask &= insn->guard_negated ? ~p : p;
        warp->lanes_run = mask;
        if (mask == 0)
            return SIM_NEXT;
    }
    if (insn->converge && !sim_warp_gather(warp, insn, mask, warp->live))
        return SIM_STALL;
    if (insn->whole_warp && warp->live != warp->present)
        sim_find(warp, SIM_FIND_NOT_UNIFORM, (int32_t)sim_first_lane(warp->present & ~warp->live),
                 0, NULL, "`%s` is undefined once a lane of the warp has exited", insn->mnemonic);
    if (warp->watch && sim_sm90_reads_early(warp, insn) && !sim_sm90_wait_for_all(warp)) {
        g->pc--; /* it is executed after the wait */
        return SIM_WAIT;
    }
    if (warp->watch)
        sim_sm90_watch(warp, insn);
    if (warp->unread_loads)
        sim_sm100_watch(warp, insn);
    return insn->exec(warp, insn, mask);
}

bool
sim_warp_run(SimWarp *warp, uint32_t budget)
{
    SimCluster *cluster = warp->cta->cluster;
    bool at_random = warp->group_count > 1 && sim_random_below(&warp->random, 16) == 0;
    bool observed = cluster->executed || cluster->tracer;
    warp->running = NULL;
    while (budget--) {
        if (!warp->running || (warp->group_count > 1 && !at_random))
            warp->running = pick_group(warp, at_random);
        SimGroup *g = warp->running;
        if (!g)
            return true;
        if (warp->group_count > 1)
            merge_into_running(warp);
        warp->bank[SIM_BANK_REGISTERS] = g->frame->registers;
        cluster->now++;
        SimStep result = step(warp);
        if (observed) {
            cluster->executed[warp->insn->index]++;
            if (cluster->tracer && result != SIM_STALL && result != SIM_FATAL)
                sim_trace_step(warp, warp->insn, warp->lanes_run);
        }
        switch (result) {
        case SIM_NEXT: g->pc++; break;
        case SIM_JUMP: break;
        case SIM_YIELD: g->pc++; return true;
        case SIM_WAIT:
            g->pc++;
            warp->running = NULL;
            if (warp->group_count == 1)
                return true;
            break;
        case SIM_STALL:
            g->stalled = true;
            warp->running = NULL;
            break;
        case SIM_FATAL: return false;
        }
        if (cluster->next_due <= cluster->now)
            return true;
    }
    return true;
}

void
sim_warp_describe(const SimWarp *warp, char *text, size_t size)
{
    size_t used = 0;
    for (uint32_t i = 0; i < warp->group_count && used < size; i++) {
        const SimGroup *g = warp->group[i];
        const SimInsn *at = g->waiting ? g->wait_insn : &g->frame->function->insns[g->pc];
        char detail[200] = "";
        if (g->waiting)
            g->wait.describe(warp, g, detail, sizeof detail);
        else if (g->stalled)
            snprintf(detail, sizeof detail, "waits for other lanes of its warp");
        else
            snprintf(detail, sizeof detail, "runs");
        used += (size_t)snprintf(text + used, size - used,
                                 "\n    warp %u lanes %08x: line %u `%s`: %s", warp->index, g->mask,
                                 at->line, at->mnemonic, detail);
    }
}

/* ------------------------------------------------------------------------ life */

bool
sim_warp_start(SimWarp *warp, SimCta *cta, uint32_t index)
{
    SimCluster *cluster = cta->cluster;
    SimRun *run = cluster->run;
    warp->cta = cta;
    warp->run = run;
    warp->index = index;
    warp->agent = cta->rank * run->warps_per_cta + index;
    uint32_t threads = run->threads_per_cta - index * SIM_LANES;
    warp->present = warp->live = threads >= SIM_LANES ? UINT32_MAX : (1u << threads) - 1;
    warp->random.state = sim_random(&cluster->random);
    warp->bank[SIM_BANK_CONSTANTS] = run->module->constants;
    size_t special = SIM_SPECIAL_BYTES + run->module->shared_address_count * SIM_SHARED_ROW_BYTES;
    warp->bank[SIM_BANK_SPECIAL] = sim_aligned_alloc(64, (special + 63) / 64 * 64);
    if (!warp->bank[SIM_BANK_SPECIAL])
        return false;
    memset(warp->bank[SIM_BANK_SPECIAL], 0, special);
    sim_special_fill(warp, warp->bank[SIM_BANK_SPECIAL]);
    if (run->checks && !sim_sync_warp_start(warp))
        return false;
    SimGroup *g = new_group(warp);
    g->mask = warp->live;
    g->frame = new_frame(run->function, NULL, warp->live);
    if (!g->frame || !place_frame(warp, g->frame, 0))
        return false;
    return true;
}

void
sim_warp_end(SimWarp *warp)
{
    for (uint32_t i = 0; i < warp->group_count; i++) {
        SimFrame *frame = warp->group[i]->frame;
        while (frame) { /* after an error or a hang: lanes still inside */
            SimFrame *caller = frame->caller;
            release_frame(frame, warp->group[i]->mask);
            frame = caller;
        }
    }
    sim_sm90_watch_free(warp);
    free(warp->bank[SIM_BANK_SPECIAL]);
    sim_sync_warp_end(warp);
    free(warp->local);
    sim_extensions_release(warp->ext);
}
