/* sim_lanes.c - a memory access of a warp whose lanes all lie in one place. */
#include "sim_lanes.h"

/* Where the first lane points to: the address of the base, and how many bytes there are.  NULL: not
 * one place. */
static uint8_t *
place_of(SimWarp *warp, SimSpace space, uint64_t address, SimLanes *lanes, uint64_t *start,
         uint64_t *bytes)
{
    lanes->in = NULL;
    if (space == SIM_GENERIC && address - SIM_WINDOW_SHARED < SIM_WINDOW_SIZE)
        space = SIM_SHARED_CLUSTER;
    else if (space == SIM_SHARED || space == SIM_SHARED_CLUSTER)
        address += SIM_WINDOW_SHARED;
    if (space == SIM_SHARED || space == SIM_SHARED_CLUSTER) {
        SimCta *cta = warp->cta;
        uint64_t rank = (address - SIM_WINDOW_SHARED) >> SIM_SHARED_RANK_SHIFT;
        if (rank != cta->rank && (rank || space == SIM_SHARED_CLUSTER))
            return NULL;
        *start = address - (address & SIM_SHARED_OFFSET_MASK) + SIM_SHARED_BASE;
        *bytes = cta->shared_size;
        return cta->shared;
    }
    if (space == SIM_LOCAL || address - SIM_WINDOW_LOCAL < SIM_WINDOW_SIZE)
        return NULL;
    SimAllocation *in = warp->recent;
    if (!in || address - in->address >= in->size) {
        in = address - SIM_WINDOW_PARAM < SIM_WINDOW_SIZE
                 ? warp->run->params
                 : sim_device_find(warp->run->device, address);
        if (!in)
            return NULL;
        warp->recent = in;
    }
    lanes->in = in;
    *start = in->address;
    *bytes = in->size;
    return in->data;
}

bool
sim_lanes_find(SimWarp *warp, const SimInsn *insn, uint32_t mask, uint32_t at, uint32_t size,
               SimLanes *lanes)
{
    uint64_t address[SIM_LANES], add = (uint64_t)insn->imm;
    SimSlot slot = insn->slot[at];
    if (insn->frame_relative)
        add += warp->running->frame->local_base;
    if (insn->mode[5]) {
        const uint64_t *r = sim_r64(warp, slot);
        for (uint32_t l = 0; l < SIM_LANES; l++)
            address[l] = r[l] + add;
    } else {
        const uint32_t *r = sim_r32(warp, slot);
        for (uint32_t l = 0; l < SIM_LANES; l++)
            address[l] = r[l] + (uint32_t)add;
    }
    return sim_lanes_find_at(warp, (SimSpace)insn->space, address, mask, size, lanes);
}

/* Whether all are aligned and in bounds. */
SIM_HOT static bool
take_offsets(uint32_t *restrict offset, const uint64_t *restrict address, uint64_t start,
             uint64_t last, uint64_t size)
{
    uint64_t wrong = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint64_t at = address[l] - start;
        wrong |= (address[l] & (size - 1)) | (at > last);
        offset[l] = (uint32_t)at;
    }
    return !wrong;
}

SIM_HOT bool
sim_lanes_in_row(const SimLanes *lanes, uint32_t size)
{
    uint32_t differ = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        differ |= lanes->offset[l] ^ (lanes->offset[0] + size * l);
    return !differ;
}

bool
sim_lanes_find_at(SimWarp *warp, SimSpace space, uint64_t address[SIM_LANES], uint32_t mask,
                  uint32_t size, SimLanes *lanes)
{
    uint64_t first = address[sim_first_lane(mask)], start, bytes;
    lanes->base = place_of(warp, space, first, lanes, &start, &bytes);
    if (!lanes->base || bytes < size || bytes > UINT32_MAX)
        return false;
    if (space == SIM_SHARED || space == SIM_SHARED_CLUSTER)
        start -= SIM_WINDOW_SHARED;
    if (mask != UINT32_MAX)
        for (uint32_t l = 0; l < SIM_LANES; l++)
            address[l] = mask >> l & 1 ? address[l] : first;
    return take_offsets(lanes->offset, address, start, bytes - size, size);
}

/* The lanes side by side from l on, up to the next that is not in the mask or in `same` as l is. */
static uint32_t
count_row(const SimLanes *m, uint32_t size, uint32_t mask, uint32_t same, uint32_t l)
{
    uint32_t last = sim_lanes_side_by_side(m->offset, size, mask, l), count = 1;
    while (l + count <= last && (same >> (l + count) & 1) == (same >> l & 1))
        count++;
    return size % 4 ? 1 : count; /* lanes that share a cell are told apart */
}

bool
sim_lanes_note_read(SimWarp *warp, const SimLanes *m, uint32_t size, uint32_t mask)
{
    if (!warp->run->checks)
        return true;
    if (!m->in) {
        sim_shadow_read_lanes(warp, warp->cta, m->offset, size, mask);
        return true;
    }
    if (!m->in->init)
        return true;
    for (uint32_t l = 0, count; l < SIM_LANES; l += count) {
        count = mask >> l & 1 ? count_row(m, size, mask, 0, l) : 1;
        if (mask >> l & 1 && memchr(m->in->init + m->offset[l], 0, size * count))
            return false;
    }
    for (uint32_t l = 0, count; l < SIM_LANES; l += count) {
        count = mask >> l & 1 ? count_row(m, size, mask, 0, l) : 1;
        if (mask >> l & 1)
            sim_global_read_row(warp, m->in, m->in->data + m->offset[l], size, l, count);
    }
    return true;
}

void
sim_lanes_note_write(SimWarp *warp, const SimLanes *m, uint32_t size, uint32_t mask,
                     uint32_t repeated)
{
    if (m->in && m->in->init && mask == UINT32_MAX && sim_lanes_in_row(m, size))
        memset(m->in->init + m->offset[0], 1, SIM_LANES * (size_t)size);
    else if (m->in && m->in->init)
        sim_each_lane (l, mask)
            memset(m->in->init + m->offset[l], 1, size);
    if (!warp->run->checks)
        return;
    if (!m->in) {
        sim_shadow_write_lanes(warp, warp->cta, m->offset, size, mask, repeated);
        return;
    }
    for (uint32_t l = 0, count; l < SIM_LANES; l += count) {
        count = mask >> l & 1 ? count_row(m, size, mask, repeated, l) : 1;
        if (mask >> l & 1)
            sim_global_write_row(warp, m->in, m->in->data + m->offset[l], size, l, count,
                                 repeated >> l & 1 ? SIM_REPEATED : SIM_WEAK);
    }
}
