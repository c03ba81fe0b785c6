/* sim_sm100_alloc.c - tcgen05.alloc, dealloc, relinquish_alloc_permit (PTX ISA 9.7.16.7.1) and
 * tcgen05.fence (9.7.16.11.1).
 *
 * The block has all of its SM's tensor memory.  The first columns that fit are given out; kernels
 * in use depend on the first allocation being at column 0.
 */
#include <stdlib.h>

#include "sim_memory.h"
#include "sim_sm100.h"
#include "sim_sync.h"

static uint32_t
units_of(uint32_t base, uint32_t columns)
{
    uint32_t n = columns / TENSOR_UNIT;
    return ((UINT32_C(1) << n) - 1) << base / TENSOR_UNIT;
}

/* First columns free in all of `taken`'s owners, or TENSOR_COLUMNS. */
static uint32_t
find_room(uint32_t taken, uint32_t columns)
{
    for (uint32_t base = 0; base + columns <= TENSOR_COLUMNS; base += TENSOR_UNIT)
        if (!(taken & units_of(base, columns)))
            return base;
    return TENSOR_COLUMNS;
}

static void
take(SimWarp *warp, TensorMemory *tm, uint32_t base, uint32_t columns, bool collective)
{
    tm->allocated |= units_of(base, columns);
    tm->allocation[base / TENSOR_UNIT] = (TensorAllocation){base, columns, warp->insn,
                                                            (int32_t)warp->index, collective};
    warp->cta->cluster->progress++;
}

/* The address goes to shared memory as a weak generic store. */
static void
store_address(SimWarp *warp, const SimGroup *group, uint32_t address)
{
    uint32_t lane = sim_first_lane(group->mask);
    SimMemory m;
    if (!sim_memory_find(warp, lane, (SimSpace)group->wait_insn->space, group->wait.arg[1], 4, 4,
                         &m))
        return;
    if (m.space != SIM_SHARED || m.cta != warp->cta) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, group->wait.arg[1], NULL,
                 "tcgen05.alloc writes the address to shared memory of its own block only");
        return;
    }
    sim_memory_note_write(warp, &m, 4, lane, SIM_WEAK);
    memcpy(m.data, &address, 4);
}

static bool
alloc_ready(SimWarp *warp, SimGroup *group)
{
    uint32_t columns = (uint32_t)group->wait.arg[0], cta_group = group->wait_insn->mode[0];
    TensorMemory *tm = tensor_memory(warp->cta);
    const SimInsn *insn = warp->insn;
    uint32_t base;
    if (!tm)
        return false;
    warp->insn = group->wait_insn;
    if (cta_group == 1) {
        base = find_room(tm->allocated, columns);
        if (base < TENSOR_COLUMNS)
            take(warp, tm, base, columns, false);
    } else {
        TensorMemory *peer = tensor_memory(tensor_pair(warp->cta, 2, !(warp->cta->rank & 1)));
        base = TENSOR_COLUMNS;
        if (tm->granted != (uint32_t)group->wait.arg[2]) {
            base = tm->granted_base;
        } else if (peer && tm->asking && peer->asking) {
            if (tm->asking != peer->asking)
                sim_find(warp, SIM_FIND_INVALID, -1, 0, NULL,
                         "the blocks of the pair allocate %u and %u columns", tm->asking,
                         peer->asking);
            base = find_room(tm->allocated | peer->allocated, columns);
            if (base < TENSOR_COLUMNS) {
                take(warp, tm, base, columns, true);
                take(warp, peer, base, columns, true);
                tm->asking = peer->asking = 0;
                tm->granted++;
                peer->granted++;
                tm->granted_base = peer->granted_base = base;
            }
        }
    }
    if (base < TENSOR_COLUMNS)
        store_address(warp, group, base);
    warp->insn = insn;
    return base < TENSOR_COLUMNS;
}

static void
alloc_describe(const SimWarp *warp, const SimGroup *group, char *text, size_t size)
{
    const TensorMemory *tm = tensor_memory(warp->cta);
    uint32_t free_units = tm ? TENSOR_COLUMNS / TENSOR_UNIT -
                                   (uint32_t)__builtin_popcount(tm->allocated)
                             : 0;
    snprintf(text, size, "waits for %u columns of tensor memory%s (%u are free)",
             (uint32_t)group->wait.arg[0],
             group->wait_insn->mode[0] == 2 ? " together with its peer block" : "",
             free_units * TENSOR_UNIT);
}

static bool
uniform(SimWarp *warp, SimSlot slot, uint32_t mask, const char *what)
{
    const uint32_t *value = sim_r32(warp, slot);
    uint32_t first = value[sim_first_lane(mask)];
    sim_each_lane (l, mask)
        if (value[l] != first) {
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, value[l], NULL,
                     "%s differs between the lanes of the warp", what);
            return false;
        }
    return true;
}

static bool
check_columns(SimWarp *warp, uint32_t columns)
{
    if (columns >= TENSOR_UNIT && columns <= TENSOR_COLUMNS && !(columns & (columns - 1)))
        return true;
    sim_find(warp, SIM_FIND_INVALID, -1, 0, NULL,
             "%u columns: the number must be a power of two from 32 to 512", columns);
    return false;
}

static bool
check_pair(SimWarp *warp, uint32_t group)
{
    if (group == 1 || (warp->cta->rank | 1) < warp->cta->cluster->cta_count)
        return true;
    sim_find(warp, SIM_FIND_INVALID, -1, 0, NULL,
             ".cta_group::2 in a block that has no peer: "
             "launch it in clusters of an even size");
    return false;
}

/* mode[0] group.  Slots: address, columns. */
static SimStep
alloc(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    TensorMemory *tm = tensor_memory(warp->cta);
    uint32_t lane = sim_first_lane(mask);
    if (!tm)
        return sim_fail(warp, "out of memory");
    uniform(warp, insn->slot[1], mask, "the number of columns");
    uint32_t columns = sim_r32(warp, insn->slot[1])[lane];
    if (!check_columns(warp, columns) || !check_pair(warp, insn->mode[0]))
        return SIM_NEXT;
    if (tm->relinquished) {
        SimPlace place = {tm->relinquished, -1, warp->cta->rank};
        sim_find(warp, SIM_FIND_TENSOR_MEMORY, -1, 0, &place,
                 "tcgen05.alloc after the block gave up its right to allocate");
    }
    if (columns > tm->smallest)
        sim_find(warp, SIM_FIND_TENSOR_MEMORY, -1, 0, NULL,
                 "%u columns are allocated after %u: the number must not grow", columns,
                 tm->smallest);
    tm->smallest = columns;
    tm->asking = columns;
    SimWait *wait = sim_warp_sleep(warp, alloc_ready, alloc_describe);
    wait->arg[0] = columns;
    wait->arg[1] = sim_lane_address(warp, insn, 0, lane);
    wait->arg[2] = tm->granted;
    return SIM_WAIT;
}

bool
sim_decode_tcgen05_alloc(SimDecode *dx)
{
    SimInsn *out = dx->out;
    out->mode[0] = (uint8_t)tensor_take_group(dx);
    dec_aligned(dx);
    out->whole_warp = true;
    if (!out->mode[0])
        return false;
    out->space = (uint8_t)dec_space(dx);
    if (!out->converge || !dec_take(dx, "b32") || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs .sync.aligned and .b32, an address and a number of columns");
    if (out->space != SIM_SHARED && out->space != SIM_GENERIC)
        return dec_fail(dx, "the address is in .shared::cta or generic");
    out->exec = alloc;
    return dec_address(dx, dec_operand(dx, 0)) && dec_src(dx, dec_operand(dx, 1), SIM_U32);
}

/* ------------------------------------------------------------------------ dealloc */

static bool
dealloc_ready(SimWarp *warp, SimGroup *group)
{
    const TensorMemory *peer = tensor_memory(tensor_pair(warp->cta, 2, !(warp->cta->rank & 1)));
    const TensorAllocation *a = peer ? &peer->allocation[group->wait.arg[0] / TENSOR_UNIT] : NULL;
    return !a || !a->columns || !a->collective;
}

static void
dealloc_describe(const SimWarp *warp, const SimGroup *group, char *text, size_t size)
{
    (void)warp;
    snprintf(text, size, "waits for its peer block to deallocate tensor memory at column %u",
             (uint32_t)group->wait.arg[0]);
}

/* mode[0] group.  Slots: address, columns.  In a pair the op "may block" until the peer's warp does
 * the same: whether it does is drawn from the seed. */
static SimStep
dealloc(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    TensorMemory *tm = tensor_memory(warp->cta);
    uint32_t lane = sim_first_lane(mask);
    if (!tm)
        return sim_fail(warp, "out of memory");
    uniform(warp, insn->slot[0], mask, "the address");
    uniform(warp, insn->slot[1], mask, "the number of columns");
    uint32_t address = sim_r32(warp, insn->slot[0])[lane];
    uint32_t columns = sim_r32(warp, insn->slot[1])[lane];
    if (!check_columns(warp, columns) || !check_pair(warp, insn->mode[0]))
        return SIM_NEXT;
    TensorAllocation *a = address < TENSOR_COLUMNS && address % TENSOR_UNIT == 0
                              ? &tm->allocation[address / TENSOR_UNIT]
                              : NULL;
    if (!a || !a->columns) {
        sim_find(warp, SIM_FIND_TENSOR_MEMORY, -1, address, NULL,
                 "deallocation of tensor memory that is not allocated (freed twice?)");
        return SIM_NEXT;
    }
    if (a->columns != columns) {
        SimPlace place = {a->insn, a->warp, warp->cta->rank};
        sim_find(warp, SIM_FIND_TENSOR_MEMORY, -1, address, &place,
                 "%u columns are deallocated of an allocation of %u", columns, a->columns);
    }
    tensor_note_free(warp, warp->cta, a->base, a->columns);
    tm->allocated &= ~units_of(a->base, a->columns);
    a->columns = 0;
    warp->cta->cluster->progress++;
    if (insn->mode[0] == 2 && sim_random_below(&warp->cta->cluster->random, 2)) {
        SimWait *wait = sim_warp_sleep(warp, dealloc_ready, dealloc_describe);
        wait->arg[0] = address;
        return SIM_WAIT;
    }
    return SIM_NEXT;
}

bool
sim_decode_tcgen05_dealloc(SimDecode *dx)
{
    SimInsn *out = dx->out;
    out->mode[0] = (uint8_t)tensor_take_group(dx);
    dec_aligned(dx);
    out->whole_warp = true;
    if (!out->mode[0])
        return false;
    if (!out->converge || !dec_take(dx, "b32") || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs .sync.aligned and .b32, an address and a number of columns");
    out->exec = dealloc;
    return dec_src(dx, dec_operand(dx, 0), SIM_U32) && dec_src(dx, dec_operand(dx, 1), SIM_U32);
}

static SimStep
relinquish(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    TensorMemory *tm = tensor_memory(warp->cta);
    (void)mask;
    if (!tm)
        return sim_fail(warp, "out of memory");
    tm->relinquished = insn;
    return SIM_NEXT;
}

bool
sim_decode_tcgen05_relinquish(SimDecode *dx)
{
    uint32_t group = tensor_take_group(dx);
    dec_aligned(dx);
    dx->out->whole_warp = true;
    if (!group)
        return false;
    if (!dx->out->converge)
        return dec_fail(dx, "needs .sync.aligned");
    dx->out->exec = relinquish;
    return dec_count(dx, 0, 0);
}

/* ------------------------------------------------------------------------ fences */

void
tensor_fence_before(SimWarp *warp, uint32_t mask)
{
    TensorWarp *tw = tensor_warp(warp);
    if (!tw || !warp->clock)
        return;
    tw->fenced = true;
    sim_each_lane (l, mask) {
        TensorList *list = &tw->issued[l];
        for (size_t i = list->count; i-- > 0;) {
            TensorOp *t = tensor_op(list->op[i]);
            if (t->fenced)
                break; /* the earlier ones are, too */
            t->fenced = warp->clock[warp->agent];
        }
    }
}

static SimStep
fence_before(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)insn;
    tensor_fence_before(warp, mask);
    return SIM_NEXT;
}

static SimStep
fence_after(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    TensorWarp *tw = tensor_warp(warp);
    (void)insn;
    (void)mask;
    if (tw && tw->after) {
        memcpy(tw->after, warp->tensor_clock, warp->cta->cluster->agents * sizeof *tw->after);
        sim_sync_tick(warp); /* what it learns from now on needs another fence */
    }
    return SIM_NEXT;
}

bool
sim_decode_tcgen05_fence_before(SimDecode *dx)
{
    dx->out->exec = fence_before;
    return dec_count(dx, 0, 0);
}
bool
sim_decode_tcgen05_fence_after(SimDecode *dx)
{
    dx->out->exec = fence_after;
    return dec_count(dx, 0, 0);
}
