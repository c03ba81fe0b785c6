/* sim_sm90_map.c - tensor maps that kernels make, and the tensormap proxy (PTX ISA 9.7.9.26,
 * 9.7.13.16, 9.7.13.4, 8.6).
 *
 * A bulk copy reads its map through the tensormap proxy.  A map that the kernel itself wrote must
 * be released (tensormap.cp_fenceproxy, or fence.proxy.tensormap with .release) and then acquired
 * (fence.proxy.tensormap with .acquire) by a thread that is ordered before the copy.
 */
#include <stdlib.h>

#include "sim_exec.h"
#include "sim_sm90.h"
#include "sim_tensormap.h"

enum { MAP_BYTES = 128 };

static Sm90Map *
find_map(SimCluster *cluster, uint64_t address)
{
    Sm90Cluster *s = cluster->ext[SIM_EXT_SM90].state;
    for (size_t i = 0; s && i < s->map_count; i++)
        if (s->map[i].address == address)
            return &s->map[i];
    return NULL;
}

/* A new version of a map in global memory. */
static void
note_map(SimWarp *warp, uint64_t address, bool released)
{
    SimCluster *cluster = warp->cta->cluster;
    Sm90Cluster *s = sim_sm90_cluster(cluster);
    Sm90Map *map = find_map(cluster, address);
    if (!warp->run->checks || !s)
        return;
    if (!map) {
        if (s->map_count == s->map_capacity) {
            size_t capacity = s->map_capacity ? 2 * s->map_capacity : 8;
            Sm90Map *bigger = sim_realloc(s->map, capacity * sizeof *bigger);
            if (!bigger)
                return;
            s->map = bigger;
            s->map_capacity = capacity;
        }
        map = &s->map[s->map_count];
        *map = (Sm90Map){.address = address};
        map->acquired = sim_calloc(cluster->agents, sizeof *map->acquired);
        if (!map->acquired)
            return;
        s->map_count++;
    }
    map->insn = warp->insn;
    map->released = released;
    memset(map->acquired, 0, cluster->agents * sizeof *map->acquired);
}

/* Maps use the driver's numbers; tensormap.replace has its own for types (table 33). */
static const uint8_t driver_type[16] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15};

/* clang-format off */
typedef enum MapField {
    FIELD_ADDRESS, FIELD_RANK, FIELD_BOX, FIELD_SIZE, FIELD_STRIDE, FIELD_STEP, FIELD_TYPE,
    FIELD_INTERLEAVE, FIELD_SWIZZLE, FIELD_ATOMICITY, FIELD_FILL
} MapField;
/* clang-format on */

static bool
replace_field(SimTensorMapBits *b, MapField field, uint32_t ordinal, uint64_t value)
{
    static const uint8_t swizzle_of_atomicity[4] = {3, 4, 5, 6};
    switch (field) {
    case FIELD_ADDRESS: b->address = value; return true;
    case FIELD_RANK: b->rank = (uint8_t)(value + 1); return value < 5;
    case FIELD_BOX: b->box[ordinal] = (uint16_t)value; return value >= 1 && value <= 256;
    case FIELD_SIZE: b->size[ordinal] = (uint32_t)value - 1; return true;
    case FIELD_STRIDE:
        b->stride_low[ordinal] = (uint32_t)value;
        b->stride_high[ordinal] = (uint8_t)(value >> 32);
        return value < UINT64_C(1) << 40 && value % 16 == 0;
    case FIELD_STEP: b->element_stride[ordinal] = (uint8_t)value; return value >= 1 && value <= 8;
    case FIELD_TYPE: b->type = driver_type[value & 15]; return value < 16;
    case FIELD_INTERLEAVE: b->interleave = (uint8_t)value; return value < 3;
    case FIELD_SWIZZLE: b->swizzle = (uint8_t)value; return value < 4;
    case FIELD_ATOMICITY:
        if (b->swizzle >= 3)
            b->swizzle = swizzle_of_atomicity[value & 3];
        return value < 4;
    default: b->fill = (uint8_t)value; return value < 2;
    }
}

/* mode[0] the field, [1] the value has 64 bits; imm2 the ordinal.  Slots: address, value. */
static SimStep
map_replace(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_each_lane (l, mask) {
        SimMemory m;
        SimTensorMapBits bits;
        uint64_t address = sim_lane_address(warp, insn, 0, l);
        uint64_t value = insn->mode[1] ? sim_r64(warp, insn->slot[1])[l]
                                       : sim_r32(warp, insn->slot[1])[l];
        /* 9.7.9.26: a weak operation on the whole 1024-bit object. */
        if (!sim_memory_find(warp, l, (SimSpace)insn->space, address, MAP_BYTES, 64, &m))
            continue;
        sim_memory_note_read(warp, &m, MAP_BYTES, l, SIM_WEAK);
        sim_memory_note_write(warp, &m, MAP_BYTES, l, SIM_WEAK);
        memcpy(&bits, m.data, sizeof bits);
        bits.magic = SIM_TENSOR_MAP_MAGIC;
        if (!replace_field(&bits, (MapField)insn->mode[0], (uint32_t)insn->imm2, value))
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, address, NULL,
                     "the value %llu is out of this field's range", (unsigned long long)value);
        memcpy(m.data, &bits, sizeof bits);
        if (m.space == SIM_GLOBAL)
            note_map(warp, m.generic, false);
    }
    return SIM_NEXT;
}

bool
sim_sm90_decode_map_replace(SimDecode *dx)
{
    static const char *const fields[] = {
        "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
        "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity",
        "fill_mode",      NULL};
    SimInsn *out = dx->out;
    int64_t ordinal = 0;
    if (!dec_take(dx, "tile") || !dec_take(dx, "b1024"))
        return dec_fail(dx, "needs .tile and .b1024");
    int field = dec_choice(dx, fields);
    if (field < 0)
        return dec_fail(dx, "needs a field");
    out->space = (uint8_t)dec_space(dx);
    bool wide = field == FIELD_ADDRESS || field == FIELD_STRIDE;
    if (!dec_take(dx, wide ? "b64" : "b32"))
        return dec_fail(dx, "this field has type .%s", wide ? "b64" : "b32");
    bool has_ordinal = field >= FIELD_BOX && field <= FIELD_STEP;
    size_t n = has_ordinal ? 3 : 2;
    if (!dec_count(dx, n, n) || !dec_address(dx, dec_operand(dx, 0)))
        return false;
    if (has_ordinal && !dec_immediate(dx, dec_operand(dx, 1), &ordinal))
        return false;
    if (ordinal < 0 || ordinal > (field == FIELD_STRIDE ? 3 : 4))
        return dec_fail(dx, "the ordinal %lld is out of range", (long long)ordinal);
    out->imm2 = ordinal;
    out->mode[0] = (uint8_t)field;
    out->mode[1] = wide;
    out->exec = map_replace;
    return dec_src(dx, dec_operand(dx, n - 1), wide ? SIM_B64 : SIM_B32);
}

/* tensormap.cp_fenceproxy: the warp copies 128 bytes to global memory and releases them to the
 * tensormap proxy.  Every lane gives the same addresses. */
typedef struct MapCopy {
    Sm90Address to, from;
} MapCopy;

static SimStep
map_copy(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const MapCopy *form = insn->data;
    uint32_t l = sim_first_lane(mask);
    SimMemory from, to;
    if (!sim_memory_find(warp, l, SIM_SHARED, sim_sm90_address(warp, &form->from, l), MAP_BYTES, 64,
                         &from) ||
        !sim_memory_find(warp, l, SIM_GLOBAL, sim_sm90_address(warp, &form->to, l), MAP_BYTES, 64,
                         &to))
        return SIM_NEXT;
    sim_memory_note_read(warp, &from, MAP_BYTES, l, SIM_WEAK);
    sim_memory_note_write(warp, &to, MAP_BYTES, l, SIM_WEAK);
    memcpy(to.data, from.data, MAP_BYTES);
    note_map(warp, to.generic, true);
    return SIM_NEXT;
}

bool
sim_sm90_decode_map_copy(SimDecode *dx)
{
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
    MapCopy *form = sim_arena_alloc(&dx->mod->arena, sizeof *form);
    int64_t bytes;
    dec_aligned(dx);
    if (!dx->out->converge || !dec_take(dx, "global") || !dec_take(dx, "shared::cta") ||
        !dec_take(dx, "tensormap::generic") || !dec_take(dx, "release") ||
        dec_choice(dx, scopes) < 0)
        return dec_fail(dx, "needs .global.shared::cta.tensormap::generic.release, a scope and "
                            ".sync.aligned");
    if (!dec_count(dx, 3, 3) || !sim_sm90_take_address(dx, dec_operand(dx, 0), &form->to) ||
        !sim_sm90_take_address(dx, dec_operand(dx, 1), &form->from) ||
        !dec_immediate(dx, dec_operand(dx, 2), &bytes))
        return false;
    if (bytes != MAP_BYTES)
        return dec_fail(dx, "the size is 128");
    dx->out->data = form;
    dx->out->exec = map_copy;
    return true;
}

/* fence.proxy.tensormap::generic (9.7.13.4): .release covers the maps that the warp wrote,
 * .acquire names one. */
static SimStep
map_fence(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimCluster *cluster = warp->cta->cluster;
    if (!warp->clock)
        return SIM_YIELD;
    if (!insn->mode[0]) {
        Sm90Cluster *s = sim_sm90_cluster(cluster);
        for (size_t i = 0; s && i < s->map_count; i++)
            s->map[i].released = true;
        return SIM_YIELD;
    }
    sim_each_lane (l, mask) {
        SimMemory m;
        if (!sim_memory_find(warp, l, SIM_GENERIC, sim_lane_address(warp, insn, 0, l), MAP_BYTES, 1,
                             &m))
            break;
        Sm90Map *map = m.space == SIM_GLOBAL ? find_map(cluster, m.generic) : NULL;
        if (map && map->released && !map->acquired[warp->agent])
            map->acquired[warp->agent] = warp->clock[warp->agent];
    }
    return SIM_YIELD;
}

bool
sim_sm90_decode_map_fence(SimDecode *dx)
{
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
    bool acquire = dec_take(dx, "acquire");
    if ((!acquire && !dec_take(dx, "release")) || dec_choice(dx, scopes) < 0)
        return dec_fail(dx, "needs .acquire or .release, and a scope");
    dx->out->mode[0] = acquire;
    dx->out->exec = map_fence;
    if (!acquire)
        return dec_count(dx, 0, 0);
    int64_t bytes;
    if (!dec_count(dx, 2, 2) || !dec_address(dx, dec_operand(dx, 0)) ||
        !dec_immediate(dx, dec_operand(dx, 1), &bytes))
        return false;
    return bytes == MAP_BYTES || dec_fail(dx, "the size is 128");
}

static bool
map_is_known(const SimWarp *warp, const Sm90Map *map)
{
    for (uint32_t a = 0; a < warp->cta->cluster->agents; a++)
        if (map->acquired[a] && map->acquired[a] <= warp->clock[a])
            return true;
    return false;
}

bool
sim_sm90_map_load(SimWarp *warp, uint32_t lane, uint64_t address, SimTensorMap *map)
{
    SimMemory m;
    if (!sim_memory_find(warp, lane, SIM_GENERIC, address, MAP_BYTES, 64, &m))
        return false;
    if (m.space != SIM_GLOBAL) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL,
                 "a tensor map lies in parameters, constants or global memory");
        return false;
    }
    if (warp->clock) {
        const Sm90Map *made = find_map(warp->cta->cluster, m.generic);
        if (made && !map_is_known(warp, made)) {
            SimPlace place = {made->insn, -1, 0};
            sim_find(warp, SIM_FIND_PROXY_FENCE, (int32_t)lane, address, &place,
                     "this tensor map was written by the kernel, and no fence.proxy.tensormap "
                     "acquires it before its use");
        }
    }
    if (!sim_tensor_map_decode(m.data, map)) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL,
                 "there is no tensor map at this address (maps are made by "
                 "sim_tensor_map_encode or tensormap.replace)");
        return false;
    }
    uint8_t again[MAP_BYTES];
    SimError error;
    if (!sim_tensor_map_encode(map, again, &error)) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, address, NULL, "%s", error.message);
        return false;
    }
    if (map->interleave || map->swizzle > 4) {
        sim_fail(warp,
                 "tensor maps with interleaved layouts or these swizzle atoms are not supported");
        return false;
    }
    return true;
}
