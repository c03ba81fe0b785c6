/* sim_sm100_copy.c - tcgen05.cp (PTX ISA 9.7.16.9.2) and tcgen05.commit (9.7.16.12.1). */
#include <stdlib.h>

#include "sim_memory.h"
#include "sim_mbarrier.h"
#include "sim_sm100.h"
#include "sim_sm90.h"
#include "sim_trace.h"

/* ------------------------------------------------------------------------ cp */

typedef enum Spread { SPREAD_ALL, SPREAD_02_13, SPREAD_01_23, SPREAD_4 } Spread;

typedef struct CopyForm {       /* SimInsn.data */
    uint8_t group, bytes, slot; /* bytes of a row */
    uint8_t rows;
    Spread spread;
    TensorAddress address;
} CopyForm;

typedef struct Copy { /* payload */
    const CopyForm *form;
    SharedMatrix source;
    uint32_t address;
    uint32_t data[2][TENSOR_LANES][8]; /* by half of the pair and row */
} Copy;

/* The row of the source that a lane gets (9.7.16.9.2: which warps form pairs). */
static uint32_t
source_row(const CopyForm *form, uint32_t lane)
{
    uint32_t quarter = lane / 32, within = lane % 32;
    switch (form->spread) {
    case SPREAD_02_13: return quarter % 2 * 32 + within;
    case SPREAD_01_23: return quarter / 2 * 32 + within;
    case SPREAD_4: return within;
    default: return lane;
    }
}

static void
copy_fetch(SimCluster *cluster, SimOp *op)
{
    Copy *copy = op->payload;
    const CopyForm *form = copy->form;
    (void)cluster;
    for (uint32_t half = 0; half < form->group; half++) {
        const SimCta *cta = tensor_pair(op->cta, form->group, half);
        for (uint32_t r = 0; r < form->rows; r++)
            for (uint32_t at = 0; at < form->bytes; at += 16)
                memcpy((uint8_t *)copy->data[half][r] + at,
                       cta->shared + tensor_chunk(&copy->source, r, at), 16);
    }
}

static void
copy_land(SimCluster *cluster, SimOp *op)
{
    const Copy *copy = op->payload;
    const CopyForm *form = copy->form;
    tensor_finish_before(cluster, op);
    for (uint32_t half = 0; half < form->group; half++) {
        TensorMemory *tm = tensor_memory(tensor_pair(op->cta, form->group, half));
        for (uint32_t lane = 0; lane < TENSOR_LANES; lane++)
            memcpy(&tm->data[lane][copy->address & 0xffff],
                   copy->data[half][source_row(form, lane)], form->bytes);
    }
}

static bool
issue_copy(SimWarp *warp, const SimInsn *insn, uint32_t lane)
{
    const CopyForm *form = insn->data;
    TensorWarp *tw = tensor_warp(warp);
    SimOp *op = tensor_op_new(warp, sizeof(Copy), TENSOR_CP, lane, form->group);
    if (!op || !tw)
        return false;
    Copy *copy = op->payload;
    op->landed = true; /* until it is started */
    copy->form = form;
    copy->address = tensor_address(warp, insn, &form->address, lane);
    if (!tensor_descriptor(warp, (int32_t)lane, sim_r64(warp, insn->slot[form->slot])[lane],
                           &copy->source))
        return true;
    if (form->group == 2 && (warp->cta->rank | 1) >= warp->cta->cluster->cta_count) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, 0, NULL,
                 ".cta_group::2 in a block that has no peer");
        return true;
    }
    if (copy->address >> 16) {
        sim_find(warp, SIM_FIND_TENSOR_MEMORY, (int32_t)lane, copy->address, NULL,
                 "tcgen05.cp fills all lanes: the lane of the address must be 0");
        return true;
    }
    tensor_op(op)->d = copy->address;
    tensor_op(op)->n = form->bytes / 4;
    op->lane = (uint8_t)(lane + 1);
    for (uint32_t half = 0; half < form->group; half++) {
        SimCta *cta = tensor_pair(op->cta, form->group, half);
        for (uint32_t r = 0; r < form->rows; r++)
            for (uint32_t at = 0; at < form->bytes; at += 16) {
                uint32_t offset = tensor_chunk(&copy->source, r, at);
                if (offset > cta->shared_size || cta->shared_size - offset < 16) {
                    sim_find(warp, SIM_FIND_OUT_OF_BOUNDS, (int32_t)lane, offset + SIM_SHARED_BASE,
                             NULL, "the source lies outside the block's %u bytes of shared memory",
                             cta->shared_size);
                    return true;
                }
                sim_shadow_async_read(warp, op, cta, offset, 16, true);
            }
        if (!tensor_in_bounds(warp, (int32_t)lane, cta, copy->address, form->bytes / 4))
            return true;
        for (uint32_t s = 0; s < TENSOR_STRIPS; s++)
            tensor_note(warp, op, cta, s, 0xffff, copy->address & 0xffff, form->bytes / 4, true);
    }
    if (!tensor_list_add(&tw->issued[lane], op))
        return false;
    op->landed = false;
    op->fetch = copy_fetch;
    op->land = copy_land;
    sim_trace_started(warp, op, form->rows * form->bytes);
    sim_op_start(warp->cta->cluster, op, true);
    return true;
}

static SimStep
tcgen05_cp(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    if (!tensor_memory(warp->cta))
        return sim_fail(warp, "out of memory");
    sim_each_lane (l, mask)
        if (!issue_copy(warp, insn, l))
            return sim_fail(warp, "out of memory");
    return warp->run->stop ? SIM_FATAL : SIM_NEXT;
}

bool
sim_decode_tcgen05_cp(SimDecode *dx)
{
    static const char *const shapes[] = {"128x256b", "128x128b", "64x128b",
                                         "32x128b",  "4x256b",   NULL};
    static const uint8_t rows[] = {128, 128, 64, 32}, bytes[] = {32, 16, 16, 16};
    CopyForm *form = sim_arena_alloc(&dx->mod->arena, sizeof *form);
    form->group = (uint8_t)tensor_take_group(dx);
    int shape = dec_choice(dx, shapes);
    if (!form->group)
        return false;
    if (shape < 0)
        return dec_fail(dx, "needs a shape");
    if (shape == 4)
        return dec_fail(dx,
                        ".4x256b is not supported: the PTX ISA does not say which lanes it fills");
    if (dec_take(dx, "b8x16"))
        return dec_fail(dx, "decompression while copying is not supported: the PTX ISA shows it as "
                            "a figure only");
    form->rows = rows[shape];
    form->bytes = bytes[shape];
    bool pair = dec_take(dx, "warpx2::02_13"), pair2 = !pair && dec_take(dx, "warpx2::01_23");
    bool four = dec_take(dx, "warpx4");
    if ((shape == 2) != (pair || pair2) || (shape == 3) != four)
        return dec_fail(dx, ".64x128b goes with .warpx2, .32x128b with .warpx4");
    form->spread = pair ? SPREAD_02_13 : pair2 ? SPREAD_01_23 : four ? SPREAD_4 : SPREAD_ALL;
    if (!dec_count(dx, 2, 2) || !tensor_decode_address(dx, dec_operand(dx, 0), &form->address))
        return false;
    form->slot = dx->out->slot_count;
    dx->out->data = form;
    dx->out->exec = tcgen05_cp;
    return dec_src(dx, dec_operand(dx, 1), SIM_B64);
}

/* ------------------------------------------------------------------------ commit */

typedef struct CommitForm { /* SimInsn.data */
    uint8_t group;
    bool multicast;
    uint8_t mask_slot;
    TensorAddress address;
} CommitForm;

typedef struct Commit {    /* SimOp.tracked */
    struct Commit *before; /* of the same thread */
    TensorList *list;
    size_t from, to; /* ops of the list that this one tracks and `before` does not */
    uint8_t *told;   /* by agent: it knows these ops; NULL without checks */
    uint32_t *clock; /* what the issuer knew, SIM_PLANES */
} Commit;

typedef struct Arrival { /* payload */
    SimCta *cta[SIM_MAX_CLUSTER];
    uint32_t count, offset;
} Arrival;

static void
commit_land(SimCluster *cluster, SimOp *op)
{
    const Commit *commit = op->tracked;
    const Arrival *arrival = op->payload;
    for (size_t i = 0; i < commit->to; i++)
        sim_op_finish(cluster, commit->list->op[i]);
    for (uint32_t i = 0; i < arrival->count; i++)
        sim_mbarrier_arrive_op(cluster, op, arrival->cta[i], arrival->offset);
}

/* Who waited for a commit knows all that it tracks: every earlier op of the thread (9.7.16.12.1),
 * and what came before those. */
static void
commit_observe(SimWarp *warp, SimOp *op)
{
    Commit *commit = op->tracked;
    if (!commit->told)
        return;
    sim_clock_acquire(warp, commit->clock);
    for (Commit *c = commit; c && !c->told[warp->agent]; c = c->before) {
        c->told[warp->agent] = 1;
        for (size_t i = c->from; i < c->to; i++)
            sim_op_observe(warp, c->list->op[i]);
    }
}

/* An address without a state space is generic; compilers also give the plain shared::cluster
 * address widened to 64 bits, which hardware takes the same. */
static bool
find_mbarrier(SimWarp *warp, uint32_t lane, SimSpace space, uint64_t address, SimMemory *m)
{
    if (space == SIM_GENERIC && address < UINT64_C(1) << 32)
        space = SIM_SHARED_CLUSTER;
    return sim_sm90_barrier_for_op(warp, lane, space, address, m);
}

static bool
issue_commit(SimWarp *warp, const SimInsn *insn, uint32_t lane)
{
    const CommitForm *form = insn->data;
    SimCluster *cluster = warp->cta->cluster;
    TensorWarp *tw = tensor_warp(warp);
    SimMemory m;
    uint64_t address = form->address.wide ? sim_r64(warp, insn->slot[form->address.slot])[lane] +
                                                (uint64_t)form->address.offset
                                          : tensor_address(warp, insn, &form->address, lane);
    if (!find_mbarrier(warp, lane, (SimSpace)insn->space, address, &m))
        return true;
    size_t agents = cluster->agents, clocks = warp->clock ? SIM_PLANES * agents : 0;
    SimOp *op = tw ? sim_op_new(warp, sizeof(Arrival)) : NULL; /* it owns the commit */
    Commit *commit = op ? sim_calloc(1, sizeof *commit + clocks * sizeof(uint32_t) + agents) : NULL;
    if (!commit)
        return false;
    TensorList *list = &tw->issued[lane];
    Arrival *arrival = op->payload;
    op->tracked = commit;
    commit->list = list;
    commit->before = tw->commit[lane];
    commit->from = commit->before ? commit->before->to : 0;
    commit->to = list->count;
    tw->commit[lane] = commit;
    if (clocks) { /* "fence::before_thread_sync is implicitly performed" (9.7.16.6.4.2) */
        commit->clock = (uint32_t *)(commit + 1);
        commit->told = (uint8_t *)(commit->clock + clocks);
        tensor_fence_before(warp, UINT32_C(1) << lane);
        sim_clock_release(warp, commit->clock);
    }
    arrival->offset = m.offset;
    if (form->multicast) {
        uint32_t to = sim_r32(warp, insn->slot[form->mask_slot])[lane] & 0xffff;
        if (to >> cluster->cta_count)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, to, NULL,
                     "the mask 0x%x names blocks outside the cluster of %u", to,
                     cluster->cta_count);
        for (uint32_t r = 0; r < cluster->cta_count; r++)
            if (to >> r & 1)
                arrival->cta[arrival->count++] = &cluster->ctas[r];
    } else {
        arrival->cta[arrival->count++] = m.cta;
    }
    op->observe = commit_observe;
    op->land = commit_land;
    sim_trace_started(warp, op, 0);
    sim_op_start(cluster, op, false);
    return true;
}

static SimStep
tcgen05_commit(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_each_lane (l, mask)
        if (!issue_commit(warp, insn, l))
            return sim_fail(warp, "out of memory");
    return SIM_NEXT;
}

bool
sim_decode_tcgen05_commit(SimDecode *dx)
{
    CommitForm *form = sim_arena_alloc(&dx->mod->arena, sizeof *form);
    form->group = (uint8_t)tensor_take_group(dx);
    if (!form->group)
        return false;
    SimSpace space = dec_space(dx);
    form->multicast = dec_take(dx, "multicast::cluster");
    if (!dec_take(dx, "mbarrier::arrive::one") || !dec_take(dx, "b64"))
        return dec_fail(dx, "needs .mbarrier::arrive::one and .b64");
    if (space != SIM_GENERIC && space != SIM_SHARED_CLUSTER)
        return dec_fail(dx, "the mbarrier is in .shared::cluster, or generic");
    size_t count = form->multicast ? 2 : 1;
    if (!dec_count(dx, count, count))
        return false;
    form->address.slot = dx->out->slot_count;
    if (!dec_address(dx, dec_operand(dx, 0)))
        return false;
    form->address.wide = dx->out->mode[5];
    form->address.offset = dx->out->imm;
    dx->out->space = (uint8_t)space;
    dx->out->data = form;
    dx->out->exec = tcgen05_commit;
    form->mask_slot = dx->out->slot_count;
    return !form->multicast || dec_src(dx, dec_operand(dx, 1), SIM_B16);
}
