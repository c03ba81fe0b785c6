/* sim_memory.c - ld, st, prefetch and friends (PTX ISA 9.7.9.8 to 9.7.9.18). */
#include "sim_memory.h"

#include "sim_exec.h"
#include "sim_lanes.h"
#include "sim_sync.h"
#include "sim_trace.h"

/* ------------------------------------------------------------------------ addresses */

static bool
find_shared(SimWarp *warp, uint32_t lane, uint64_t address, uint32_t size, bool of_cluster,
            SimMemory *m)
{
    SimCluster *cluster = warp->cta->cluster;
    uint32_t rank = (uint32_t)address >> SIM_SHARED_RANK_SHIFT;
    uint32_t offset = (uint32_t)address & SIM_SHARED_OFFSET_MASK;
    if (!of_cluster) {
        if (rank && rank != warp->cta->rank) {
            sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL,
                     "a shared::cta access to shared memory of another block");
            return false;
        }
        rank = warp->cta->rank;
    }
    m->space = SIM_SHARED;
    m->generic = SIM_WINDOW_SHARED + ((uint64_t)rank << SIM_SHARED_RANK_SHIFT) + offset;
    if (address >> 32 || rank >= cluster->cta_count) {
        sim_find(warp, SIM_FIND_OUT_OF_BOUNDS, (int32_t)lane, address, NULL,
                 "no shared memory at this address");
        return false;
    }
    m->cta = &cluster->ctas[rank];
    m->offset = offset - SIM_SHARED_BASE;
    if (offset < SIM_SHARED_BASE || m->offset + size > m->cta->shared_size) {
        sim_find(warp, SIM_FIND_OUT_OF_BOUNDS, (int32_t)lane, address, NULL,
                 "access of %u bytes outside the block's %u bytes of shared memory", size,
                 m->cta->shared_size);
        return false;
    }
    if (m->cta != warp->cta && m->cta->live_warps == 0) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL,
                 "access to the shared memory of a block that has exited");
        return false;
    }
    m->data = m->cta->shared + m->offset;
    return true;
}

static bool
find_local(SimWarp *warp, uint32_t lane, uint64_t address, uint32_t size, SimMemory *m)
{
    m->space = SIM_LOCAL;
    m->generic = SIM_WINDOW_LOCAL + address;
    if (address + size > warp->local_size || address + size < address) {
        sim_find(warp, SIM_FIND_OUT_OF_BOUNDS, (int32_t)lane, address, NULL,
                 "access of %u bytes outside local memory", size);
        return false;
    }
    m->data = warp->local + (size_t)lane * warp->local_size + address;
    return true;
}

static bool
find_global(SimWarp *warp, uint32_t lane, uint64_t address, uint32_t size, SimMemory *m)
{
    SimAllocation *in = warp->recent;
    m->space = SIM_GLOBAL;
    m->generic = address;
    if (!in || address - in->address >= in->size) {
        in = address - SIM_WINDOW_PARAM < SIM_WINDOW_SIZE
                 ? warp->run->params
                 : sim_device_find(warp->run->device, address);
        if (in)
            warp->recent = in;
    }
    if (!in || address - in->address >= in->size || size > in->size - (address - in->address)) {
        const SimAllocation *near = in;
        if (near)
            sim_find(warp, SIM_FIND_OUT_OF_BOUNDS, (int32_t)lane, address, NULL,
                     "access of %u bytes at offset %llu of '%s', which has %zu bytes", size,
                     (unsigned long long)(address - near->address), near->name, near->size);
        else
            sim_find(warp, SIM_FIND_OUT_OF_BOUNDS, (int32_t)lane, address, NULL,
                     "access of %u bytes where nothing is allocated", size);
        return false;
    }
    m->in = in;
    m->data = in->data + (address - in->address);
    return true;
}

bool
sim_memory_find(SimWarp *warp, uint32_t lane, SimSpace space, uint64_t address, uint32_t size,
                uint32_t align, SimMemory *m)
{
    m->cta = NULL;
    m->in = NULL;
    if (address & (align - 1)) {
        sim_find(warp, SIM_FIND_MISALIGNED, (int32_t)lane, address, NULL,
                 "the address must be a multiple of %u", align);
        return false;
    }
    if (space == SIM_GENERIC) {
        if (address - SIM_WINDOW_SHARED < SIM_WINDOW_SIZE) {
            space = SIM_SHARED_CLUSTER;
            address -= SIM_WINDOW_SHARED;
        } else if (address - SIM_WINDOW_LOCAL < SIM_WINDOW_SIZE) {
            space = SIM_LOCAL;
            address -= SIM_WINDOW_LOCAL;
        } else {
            space = SIM_GLOBAL;
        }
    }
    switch (space) {
    case SIM_SHARED: return find_shared(warp, lane, address, size, false, m);
    case SIM_SHARED_CLUSTER: return find_shared(warp, lane, address, size, true, m);
    case SIM_LOCAL: return find_local(warp, lane, address, size, m);
    default: return find_global(warp, lane, address, size, m);
    }
}

/* ------------------------------------------------------------------------ notes */

static void
touch(SimWarp *warp, const SimMemory *m, uint32_t size, bool writes)
{
    if (warp->cta->cluster->tracer && m->space == SIM_GLOBAL && m->in && m->in != warp->run->params)
        sim_trace_touch(warp, m->in, m->data, size, writes);
}

void
sim_memory_note_read(SimWarp *warp, const SimMemory *m, uint32_t size, uint32_t lane,
                     SimAccess access)
{
    if (!warp->run->noted)
        return;
    touch(warp, m, size, false);
    if (!warp->run->checks)
        return;
    if (m->space == SIM_SHARED) {
        sim_shadow_read(warp, m->cta, m->offset, size, lane, access);
    } else if (m->in && m->in->init) {
        const uint8_t *init = m->in->init + (m->data - m->in->data);
        if (memchr(init, 0, size))
            sim_find(warp, SIM_FIND_UNINITIALISED, (int32_t)lane, m->generic, NULL,
                     "read of global memory that nobody wrote, in '%s'", m->in->name);
        sim_global_read(warp, m->in, m->data, size, (int32_t)lane, access);
    }
}

void
sim_memory_note_write(SimWarp *warp, const SimMemory *m, uint32_t size, uint32_t lane,
                      SimAccess access)
{
    if (m->space == SIM_GLOBAL && m->in->read_only)
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, m->generic, NULL,
                 "write to constant memory or a parameter, '%s'", m->in->name);
    if (m->space == SIM_GLOBAL && m->in->init)
        memset(m->in->init + (m->data - m->in->data), 1, size);
    if (!warp->run->noted)
        return;
    touch(warp, m, size, true);
    if (!warp->run->checks)
        return;
    if (m->space == SIM_SHARED)
        sim_shadow_write(warp, m->cta, m->offset, size, lane, access);
    else if (m->space == SIM_GLOBAL)
        sim_global_write(warp, m->in, m->data, size, (int32_t)lane, access);
}

/* Shared memory has 32 banks of 4 bytes; a pass serves 128 bytes: 32 lanes of 4 bytes, 16 of 8 or 8
 * of 16.  Lanes that want the same word are served together. */
void
sim_memory_count_banks(SimWarp *warp, const SimInsn *insn, const uint32_t *offset, uint32_t mask,
                       uint32_t size)
{
    SimCluster *cluster = warp->cta->cluster;
    if (!cluster->wavefronts || !mask)
        return;
    uint32_t words = size <= 4 ? 1 : size / 4, lanes = SIM_LANES / words;
    uint64_t passes = 0, ideal = 0;
    for (uint32_t first = 0; first < SIM_LANES; first += lanes) {
        uint32_t seen[SIM_LANES][SIM_LANES], count[SIM_LANES] = {0}, most = 0;
        uint32_t part = lanes == 32 ? mask : mask >> first & ((1u << lanes) - 1);
        sim_each_lane (l, part) {
            for (uint32_t w = 0; w < words; w++) {
                uint32_t word = offset[first + l] / 4 + w, bank = word % 32, i = 0;
                while (i < count[bank] && seen[bank][i] != word)
                    i++;
                if (i == count[bank] && i < SIM_LANES)
                    seen[bank][count[bank]++] = word;
                most = count[bank] > most ? count[bank] : most;
            }
        }
        passes += most;
        ideal += part != 0;
    }
    cluster->wavefronts[insn->index] += passes;
    cluster->ideal[insn->index] += ideal;
}

/* ------------------------------------------------------------------------ ld and st */

/* type: of an element in memory; count elements; mode[0] log2 of the register's bytes beyond the
 * first word: 0 word, 1 doubleword, 2 two doublewords; mode[1] sign-extend; mode[2] SimOrder;
 * mode[4] bytes of an element. */
static SimAccess
access_of(const SimInsn *insn)
{
    return insn->mode[2] & SIM_ORDER_STRONG ? SIM_STRONG : SIM_WEAK;
}

static uint32_t
kept_bits(const SimInsn *insn) /* of a register */
{
    return insn->mode[3] == 16 ? 0xffff : insn->mode[3] == 8 ? 0xff : UINT32_MAX;
}

static void
put_element(SimWarp *warp, const SimInsn *insn, SimSlot slot, uint32_t lane, const uint8_t *data)
{
    uint64_t value = 0;
    uint32_t bytes = insn->mode[4];
    if (slot == SIM_NO_SLOT)
        return;
    switch (bytes) {
    case 1: value = insn->mode[1] ? (uint64_t)(int8_t)*data : *data; break;
    case 2: {
        uint16_t v;
        memcpy(&v, data, 2);
        value = insn->mode[1] ? (uint64_t)(int16_t)v : v;
        break;
    }
    case 4: {
        uint32_t v;
        memcpy(&v, data, 4);
        value = insn->mode[1] ? (uint64_t)(int32_t)v : v;
        break;
    }
    default: memcpy(&value, data, 8); break;
    }
    if (insn->mode[0] == 0) {
        sim_r32(warp, slot)[lane] = (uint32_t)value & kept_bits(insn);
    } else {
        sim_r64(warp, slot)[lane] = value;
        if (insn->mode[0] == 2)
            memcpy(&sim_r64(warp, slot + 256)[lane], data + 8, 8);
    }
}

static void
get_element(const SimWarp *warp, const SimInsn *insn, SimSlot slot, uint32_t lane, uint8_t *data)
{
    if (insn->mode[0] == 0)
        memcpy(data, &sim_r32(warp, slot)[lane], insn->mode[4] < 4 ? insn->mode[4] : 4);
    else
        memcpy(data, &sim_r64(warp, slot)[lane], insn->mode[4] < 8 ? insn->mode[4] : 8);
    if (insn->mode[0] == 2)
        memcpy(data + 8, &sim_r64(warp, slot + 256)[lane], 8);
}

/* The value and what its writer released are read together. */
pthread_mutex_t *
sim_memory_lock(const SimWarp *warp, const SimMemory *m)
{
    return m->space == SIM_GLOBAL
               ? &warp->run->device->atomic_lock[(m->generic >> 4) % SIM_ATOMIC_LOCKS]
               : NULL;
}

static void
strong_load(SimWarp *warp, const SimInsn *insn, const SimMemory *m, uint32_t size, uint8_t *buffer)
{
    pthread_mutex_t *lock = sim_memory_lock(warp, m);
    if (lock)
        pthread_mutex_lock(lock);
    memcpy(buffer, m->data, size);
    if (warp->run->checks)
        sim_sync_read(warp, m->generic, m->space == SIM_GLOBAL, insn->mode[2]);
    if (lock)
        pthread_mutex_unlock(lock);
}

static void
strong_store(SimWarp *warp, const SimInsn *insn, const SimMemory *m, uint32_t size,
             const uint8_t *buffer)
{
    pthread_mutex_t *lock = sim_memory_lock(warp, m);
    if (m->in && m->in->read_only)
        return;
    if (lock)
        pthread_mutex_lock(lock);
    memcpy(m->data, buffer, size);
    if (warp->run->checks)
        sim_sync_write(warp, m->generic, m->space == SIM_GLOBAL, insn->mode[2], false);
    if (lock)
        pthread_mutex_unlock(lock);
}

/* Words, and pairs of them, of which a register each is loaded or stored: all but few accesses. */
static bool
is_plain(const SimInsn *insn)
{
    return (insn->mode[4] == 4 && insn->mode[0] == 0 && insn->mode[3] == 32) ||
           (insn->mode[4] == 8 && insn->mode[0] == 1);
}

static void
load_words(SimWarp *warp, SimSlot slot, uint32_t mask, const uint8_t *base, const uint32_t *offset,
           bool wide)
{
    if (slot == SIM_NO_SLOT)
        return;
    if (wide) {
        uint64_t *r = sim_r64(warp, slot);
        sim_each_lane (l, mask)
            memcpy(&r[l], base + offset[l], 8);
    } else {
        uint32_t *r = sim_r32(warp, slot);
        sim_each_lane (l, mask)
            memcpy(&r[l], base + offset[l], 4);
    }
}

/* The same of one or two bytes. */
static void
load_narrow(uint32_t *r, uint32_t mask, const uint8_t *base, const uint32_t *offset, uint32_t bytes,
            bool is_signed, uint32_t keep)
{
    uint32_t above = UINT32_MAX << 8 * bytes, sign = is_signed ? 1u << (8 * bytes - 1) : 0;
    sim_each_lane (l, mask) {
        const uint8_t *from = base + offset[l];
        uint32_t value = bytes == 1 ? *from : *from | (uint32_t)from[1] << 8;
        r[l] = (value & sign ? value | above : value) & keep;
    }
}

/* Word `i` of `count` of each lane of a row. */
SIM_HOT static void
load_column(uint32_t *restrict to, const uint8_t *restrict row, uint32_t i, uint32_t count)
{
    uint32_t words[4 * SIM_LANES];
    memcpy(words, row, count * sizeof *words * SIM_LANES);
    if (count == 1)
        memcpy(to, words, sizeof *to * SIM_LANES);
    else if (count == 2)
        for (uint32_t l = 0; l < SIM_LANES; l++)
            to[l] = words[2 * l + i];
    else
        for (uint32_t l = 0; l < SIM_LANES; l++)
            to[l] = words[4 * l + i];
}

/* A weak load of lanes whose bytes all lie in one place.  False: nothing is done. */
static bool
load_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask, uint32_t size)
{
    uint32_t bytes = insn->mode[4];
    SimLanes m;
    if (insn->mode[2] || warp->cta->cluster->tracer ||
        !sim_lanes_find(warp, insn, mask, insn->count, size, &m) ||
        !sim_lanes_note_read(warp, &m, size, mask))
        return false;
    if (!m.in)
        sim_memory_count_banks(warp, insn, m.offset, mask, size);
    bool row = mask == UINT32_MAX && is_plain(insn) && bytes == 4 && insn->count != 3 &&
               insn->count <= 4 && sim_lanes_in_row(&m, size);
    for (uint32_t i = 0; i < insn->count; i++) {
        if (row && insn->slot[i] != SIM_NO_SLOT)
            load_column(sim_r32(warp, insn->slot[i]), m.base + m.offset[0], i, insn->count);
        else if (bytes <= 2 && insn->mode[0] == 0 && insn->slot[i] != SIM_NO_SLOT)
            load_narrow(sim_r32(warp, insn->slot[i]), mask, m.base + i * bytes, m.offset, bytes,
                        insn->mode[1], kept_bits(insn));
        else if (is_plain(insn))
            load_words(warp, insn->slot[i], mask, m.base + i * bytes, m.offset, bytes == 8);
        else
            sim_each_lane (l, mask)
                put_element(warp, insn, insn->slot[i], l, m.base + m.offset[l] + i * bytes);
    }
    return true;
}

static SimStep
ld(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t bytes = insn->mode[4], size = bytes * insn->count, shared = 0;
    uint32_t offset[SIM_LANES];
    static const uint8_t zeros[64];
    if (load_lanes(warp, insn, mask, size))
        return SIM_NEXT;
    sim_each_lane (l, mask) {
        SimMemory m;
        uint64_t address = sim_lane_address(warp, insn, insn->count, l);
        uint8_t buffer[64];
        const uint8_t *data = zeros;
        if (sim_memory_find(warp, l, (SimSpace)insn->space, address, size, size, &m)) {
            if (insn->mode[2])
                strong_load(warp, insn, &m, size, buffer);
            sim_memory_note_read(warp, &m, size, l, access_of(insn));
            if (!insn->mode[2])
                memcpy(buffer, m.data, size);
            data = buffer;
            if (m.space == SIM_SHARED) {
                shared |= 1u << l;
                offset[l] = m.offset;
            }
        }
        for (uint32_t i = 0; i < insn->count; i++)
            put_element(warp, insn, insn->slot[i], l, data + i * bytes);
    }
    if (shared)
        sim_memory_count_banks(warp, insn, offset, shared, size);
    return insn->mode[2] ? SIM_YIELD : SIM_NEXT;
}

enum { VALUE_BYTES = 32 }; /* of a lane */

static void
gather_words(uint8_t *to, const uint32_t *from)
{
    for (uint32_t l = 0; l < SIM_LANES; l++)
        memcpy(to + VALUE_BYTES * l, from + l, 4);
}

/* Whether it was there already.  Sizes that a compiler knows are a comparison and a move. */
static bool
put_value(uint8_t *to, const uint8_t *value, uint32_t size)
{
    bool same;
    switch (size) {
    case 1:
        same = *to == *value;
        *to = *value;
        return same;
    case 2:
        same = memcmp(to, value, 2) == 0;
        memcpy(to, value, 2);
        return same;
    case 4:
        same = memcmp(to, value, 4) == 0;
        memcpy(to, value, 4);
        return same;
    case 8:
        same = memcmp(to, value, 8) == 0;
        memcpy(to, value, 8);
        return same;
    case 16:
        same = memcmp(to, value, 16) == 0;
        memcpy(to, value, 16);
        return same;
    default:
        same = memcmp(to, value, size) == 0;
        memcpy(to, value, size);
        return same;
    }
}

/* Of a word of each lane, one after the other: two may write one place.  Which were there
 * already. */
static uint32_t
store_words(uint8_t *base, const uint32_t *offset, uint32_t mask, const uint32_t *value)
{
    uint32_t repeated = 0;
    sim_each_lane (l, mask) {
        uint32_t before;
        memcpy(&before, base + offset[l], 4);
        memcpy(base + offset[l], value + l, 4);
        repeated |= (uint32_t)(before == value[l]) << l;
    }
    return repeated;
}

/* The same of a store. */
static bool
store_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask, uint32_t size)
{
    uint32_t bytes = insn->mode[4], repeated = 0;
    uint8_t value[SIM_LANES][VALUE_BYTES];
    SimLanes m;
    if (insn->mode[2] || warp->cta->cluster->tracer ||
        !sim_lanes_find(warp, insn, mask, insn->count, size, &m) || (m.in && m.in->read_only))
        return false;
    bool words = is_plain(insn) && bytes == 4, single = words && insn->count == 1;
    for (uint32_t i = 0; i < insn->count && !single; i++) {
        if (words || (insn->mode[0] == 0 && insn->count == 1))
            gather_words(&value[0][4 * i], sim_r32(warp, insn->slot[i]));
        else
            sim_each_lane (l, mask)
                get_element(warp, insn, insn->slot[i], l, value[l] + i * bytes);
    }
    if (single)
        repeated = store_words(m.base, m.offset, mask, sim_r32(warp, insn->slot[0]));
    else
        sim_each_lane (l, mask)
            repeated |= (uint32_t)put_value(m.base + m.offset[l], value[l], size) << l;
    sim_lanes_note_write(warp, &m, size, mask, repeated);
    if (!m.in)
        sim_memory_count_banks(warp, insn, m.offset, mask, size);
    return true;
}

static SimStep
st(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t bytes = insn->mode[4], size = bytes * insn->count, shared = 0;
    uint32_t offset[SIM_LANES];
    if (store_lanes(warp, insn, mask, size))
        return SIM_NEXT;
    sim_each_lane (l, mask) {
        SimMemory m;
        uint64_t address = sim_lane_address(warp, insn, insn->count, l);
        uint8_t buffer[64];
        if (!sim_memory_find(warp, l, (SimSpace)insn->space, address, size, size, &m))
            continue;
        for (uint32_t i = 0; i < insn->count; i++)
            get_element(warp, insn, insn->slot[i], l, buffer + i * bytes);
        SimAccess access = access_of(insn);
        if (access == SIM_WEAK && warp->run->checks && memcmp(m.data, buffer, size) == 0)
            access = SIM_REPEATED;
        sim_memory_note_write(warp, &m, size, l, access);
        if (insn->mode[2])
            strong_store(warp, insn, &m, size, buffer);
        else if (!(m.in && m.in->read_only))
            memcpy(m.data, buffer, size);
        if (m.space == SIM_SHARED) {
            shared |= 1u << l;
            offset[l] = m.offset;
        }
    }
    if (shared)
        sim_memory_count_banks(warp, insn, offset, shared, size);
    warp->cta->cluster->progress += insn->mode[2] != 0;
    return insn->mode[2] ? SIM_YIELD : SIM_NEXT;
}

/* Cache hints and memory-model words: `.ca`, `.L2::128B`, ... (PTX ISA 9.7.9.1, 9.7.9.2). */
void
sim_take_hints(SimDecode *dx, bool *has_policy)
{
    static const char *const ignored[] = {"ca",
                                          "cg",
                                          "cs",
                                          "lu",
                                          "cv",
                                          "wb",
                                          "wt",
                                          "nc",
                                          "unified",
                                          "L1::evict_normal",
                                          "L1::evict_unchanged",
                                          "L1::evict_first",
                                          "L1::evict_last",
                                          "L1::no_allocate",
                                          "L2::evict_normal",
                                          "L2::evict_first",
                                          "L2::evict_last",
                                          "L2::64B",
                                          "L2::128B",
                                          "L2::256B",
                                          NULL};
    while (dec_choice(dx, ignored) >= 0)
        continue;
    *has_policy = dec_take(dx, "L2::cache_hint");
}

uint8_t
sim_take_order(SimDecode *dx)
{
    static const char *const strong[] = {"volatile", "relaxed", "acquire", "release",
                                         "acq_rel",  "mmio",    NULL};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
    dec_take(dx, "weak");
    uint8_t order = 0;
    int which;
    while ((which = dec_choice(dx, strong)) >= 0)
        order |= (uint8_t)(SIM_ORDER_STRONG | (which == 2 || which == 4 ? SIM_ORDER_ACQUIRE : 0) |
                           (which == 3 || which == 4 ? SIM_ORDER_RELEASE : 0));
    if (dec_choice(dx, scopes) == 0)
        order |= SIM_ORDER_CTA;
    return order;
}

static bool
decode_access(SimDecode *dx, bool is_load)
{
    SimInsn *out = dx->out;
    bool policy, param = dec_take(dx, "param");
    const PtxOperand *address = dec_operand(dx, is_load ? 1 : 0);
    const PtxOperand *values = dec_operand(dx, is_load ? 0 : 1);
    SimType have;
    out->space = (uint8_t)dec_space(dx);
    if (param)
        out->space = dec_is_frame_param(dx, address) ? SIM_LOCAL : SIM_GLOBAL;
    out->mode[2] = sim_take_order(dx);
    sim_take_hints(dx, &policy);
    static const char *const vectors[] = {"v2", "v4", "v8", NULL};
    out->count = (uint8_t)(1u << (dec_choice(dx, vectors) + 1));
    SimType type = dec_type(dx);
    uint32_t bits = sim_type_info(type)->bits;
    size_t n = policy ? 3 : 2;
    if (bits < 8 || bits * out->count > 256)
        return dec_fail(dx, "this type cannot be %s", is_load ? "loaded" : "stored");
    if (!dec_count(dx, n, n))
        return false;
    dx->frame_relative_ok = true;
    out->type = (uint8_t)type;
    out->mode[4] = (uint8_t)(bits / 8);
    out->mode[1] = sim_type_info(type)->kind == 's';
    out->exec = is_load ? ld : st;
    bool is_list = values->kind == PTX_VECTOR;
    if (is_list ? values->count != out->count : out->count != 1)
        return dec_fail(dx, "a list of %u registers is expected", out->count);
    SimType widest = type;
    for (uint32_t i = 0; i < out->count; i++) {
        const PtxOperand *element = is_list ? &values->element[i] : values;
        if (!(is_load ? dec_dst_wide(dx, element, type, &have)
                      : dec_src_wide(dx, element, type, &have)))
            return false;
        if (element->kind == PTX_SINK)
            continue;
        if (widest != type && sim_type_info(widest)->bits != sim_type_info(have)->bits)
            return dec_fail(dx, "the registers must have one width");
        widest = have;
    }
    uint32_t width = sim_type_info(widest)->bits;
    out->mode[3] = (uint8_t)width;
    out->mode[0] = width == 128 ? 2 : width == 64 ? 1 : 0;
    bool ok = dec_address(dx, address);
    if (policy && ok && !dec_src(dx, dec_operand(dx, 2), SIM_B64))
        return false;
    return ok;
}
static bool
decode_ld(SimDecode *dx)
{
    return decode_access(dx, true);
}
bool
sim_decode_st(SimDecode *dx)
{
    return decode_access(dx, false);
}

/* multimem (9.7.9.16): of a multicast object with one device, the simulator's.  A ld_reduce
 * combines one value. */
static bool
decode_multimem_load(SimDecode *dx)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", NULL};
    static const char *const wider[] = {"acc::f32", "acc::f16", NULL};
    if (dec_choice(dx, ops) < 0)
        return dec_fail(dx, "needs an operation");
    dec_choice(dx, wider);
    return decode_access(dx, true);
}

/* ------------------------------------------------------------------------ hints */

static SimStep
no_effect(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)warp, (void)insn, (void)mask;
    return SIM_NEXT;
}

/* prefetch, prefetchu, applypriority, discard: performance hints; the modifiers are not checked
 * one by one, since none has an effect.  (discard makes contents undefined: 9.7.9.16.) */
static bool
decode_hint(SimDecode *dx)
{
    dec_space(dx);
    while (dec_next(dx))
        continue;
    dx->out->exec = no_effect;
    dx->frame_relative_ok = true;
    return true;
}

/* createpolicy gives an opaque 64-bit policy; its value has no effect here. */
static SimStep
createpolicy(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint64_t policy[SIM_LANES] = {0};
    sim_put64(warp, insn->slot[0], policy, mask);
    return SIM_NEXT;
}
static bool
decode_createpolicy(SimDecode *dx)
{
    while (dec_next(dx))
        continue;
    dx->out->exec = createpolicy;
    return dec_dst(dx, dec_operand(dx, 0), SIM_B64);
}

/* membar and fence (9.7.13.4).  mode[0]: fence.proxy.async, which covers what the warp knows;
 * mode[1]: a fence of the generic proxy, 1 for the block, 2 for more; mode[2]: of the
 * initialisation of mbarriers only. */
static SimStep
fence(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)mask;
    if (insn->mode[0])
        sim_clock_proxy_fence(warp);
    if (insn->mode[1])
        sim_sync_fence(warp, insn->mode[1] == 2);
    if (insn->mode[2])
        sim_sync_init_fence(warp);
    return SIM_YIELD;
}
static bool
decode_fence(SimDecode *dx)
{
    static const char *const words[] = {"cta",
                                        "cluster",
                                        "gpu",
                                        "sys",
                                        "gl",
                                        "sc",
                                        "acq_rel",
                                        "acquire",
                                        "release",
                                        "mbarrier_init",
                                        "sync_restrict::shared::cta",
                                        "sync_restrict::shared::cluster",
                                        NULL};
    static const char *const proxies[] = {
        "alias", "async", "async.global", "async::generic", "tensormap::generic", NULL};
    bool is_proxy = dec_take(dx, "proxy");
    if (is_proxy) {
        int proxy = dec_choice(dx, proxies);
        if (proxy < 0)
            return dec_fail(dx, "needs a proxy");
        dx->out->mode[0] = proxy == 1 || proxy == 3;
        if (dec_space(dx) == SIM_GLOBAL) /* covers no shared memory, and global is not tracked */
            dx->out->mode[0] = 0;
    }
    for (int word; (word = dec_choice(dx, words)) >= 0;) {
        if (word <= 4 && !is_proxy)
            dx->out->mode[1] = word == 0 ? 1 : 2;
        dx->out->mode[2] |= word == 9;
    }
    if (dx->out->mode[2])
        dx->out->mode[1] = 0;
    dx->out->exec = fence;
    /* fence.proxy.tensormap::generic.acquire names the map and its size. */
    return dec_count(dx, 0, 2);
}

const SimFamily sim_memory_families[] = {
    {"ld", decode_ld},
    {"ldu", decode_ld},
    {"st", sim_decode_st},
    {"multimem.st", sim_decode_st},
    {"multimem.ld_reduce", decode_multimem_load},
    {"prefetch", decode_hint},
    {"prefetchu", decode_hint},
    {"applypriority", decode_hint},
    {"discard", decode_hint},
    {"createpolicy", decode_createpolicy},
    {"membar", decode_fence},
    {"fence", decode_fence},
    {NULL, NULL},
};
