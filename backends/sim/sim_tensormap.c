/* sim_tensormap.c - checking, packing and unpacking tensor maps (CUDA driver API,
 * cuTensorMapEncodeTiled). */
#include "sim_tensormap.h"

#include <stdarg.h>

/* clang-format off */
enum {
    /* 16U4_ALIGN8B, 16U4_ALIGN16B, 16U6 */
    TYPE_COUNT = 16, FIRST_PACKED = 13, PACKED_ALIGN16 = 14, PACKED_SIX = 15,
    SWIZZLE_COUNT = 7
};
/* clang-format on */

uint32_t
sim_tensor_map_element_bytes(uint32_t type)
{
    static const uint8_t bytes[FIRST_PACKED] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return type < FIRST_PACKED ? bytes[type] : 0;
}

SimTensorUnit
sim_tensor_map_unit(uint32_t type)
{
    uint8_t bytes = (uint8_t)sim_tensor_map_element_bytes(type);
    switch (type) {
    case FIRST_PACKED: return (SimTensorUnit){2, 1, 1, 2};
    case PACKED_ALIGN16: return (SimTensorUnit){16, 8, 16, 128};
    case PACKED_SIX: return (SimTensorUnit){16, 12, 16, 128};
    default: return (SimTensorUnit){1, bytes, bytes, 1};
    }
}

static bool
reject(SimError *err, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        err->line = 0;
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return false;
}

void
sim_tensor_map_pack(const SimTensorMap *map, void *out128)
{
    SimTensorMapBits b;
    memset(&b, 0, sizeof b);
    b.magic = SIM_TENSOR_MAP_MAGIC;
    b.type = (uint8_t)map->type;
    b.rank = (uint8_t)map->rank;
    b.interleave = (uint8_t)map->interleave;
    b.swizzle = (uint8_t)map->swizzle;
    b.l2_promotion = (uint8_t)map->l2_promotion;
    b.fill = (uint8_t)map->fill;
    b.address = map->address;
    b.im2col = (uint8_t)map->im2col;
    for (int i = 0; i < 3; i++) {
        b.lower[i] = (int16_t)map->lower[i];
        b.upper[i] = (int16_t)map->upper[i];
    }
    for (int i = 0; i < 5; i++) {
        b.size[i] = (uint32_t)(map->size[i] - 1);
        b.box[i] = (uint16_t)map->box[i];
        b.element_stride[i] = (uint8_t)map->element_stride[i];
    }
    for (int i = 0; i < 4; i++) {
        b.stride_low[i] = (uint32_t)map->stride[i];
        b.stride_high[i] = (uint8_t)(map->stride[i] >> 32);
    }
    memcpy(out128, &b, sizeof b);
}

bool
sim_tensor_map_decode(const void *in128, SimTensorMap *map)
{
    SimTensorMapBits b;
    memcpy(&b, in128, sizeof b);
    memset(map, 0, sizeof *map);
    if (b.magic != SIM_TENSOR_MAP_MAGIC)
        return false;
    map->type = b.type;
    map->rank = b.rank;
    map->interleave = b.interleave;
    map->swizzle = b.swizzle;
    map->l2_promotion = b.l2_promotion;
    map->fill = b.fill;
    map->address = b.address;
    map->im2col = b.im2col;
    for (int i = 0; i < 3; i++) {
        map->lower[i] = b.lower[i];
        map->upper[i] = b.upper[i];
    }
    for (int i = 0; i < 5; i++) {
        map->size[i] = (uint64_t)b.size[i] + 1;
        map->box[i] = b.box[i];
        map->element_stride[i] = b.element_stride[i];
    }
    for (int i = 0; i < 4; i++)
        map->stride[i] = (uint64_t)b.stride_high[i] << 32 | b.stride_low[i];
    return true;
}

bool
sim_tensor_map_encode(const SimTensorMap *map, void *out128, SimError *err)
{
    static const uint32_t spans[SWIZZLE_COUNT] = {0, 32, 64, 128, 128, 128, 128};
    bool strict = map->interleave == 2 || map->type == PACKED_ALIGN16 || map->type == PACKED_SIX;
    uint64_t align = strict ? 32 : 16;
    if (map->type >= TYPE_COUNT || map->swizzle >= SWIZZLE_COUNT || map->interleave > 2 ||
        map->l2_promotion > 3 || map->fill > 1 || map->im2col >= SIM_IM2COL_COUNT)
        return reject(err, "tensor map: an enumeration has an unknown value");
    if (map->rank < 1 || map->rank > 5 || (map->interleave && map->rank < 3))
        return reject(err, "tensor map: rank %u is not possible", map->rank);
    if (map->im2col && (map->rank < 3 || sim_tensor_map_unit(map->type).elements > 1))
        return reject(err, "tensor map: im2col needs rank 3 to 5 and no packed type");
    if (map->address % align)
        return reject(err, "tensor map: the address must be a multiple of %llu",
                      (unsigned long long)align);
    SimTensorUnit unit = sim_tensor_map_unit(map->type);
    if (unit.step > 1 && (map->size[0] % unit.step || map->box[0] % unit.step ||
                          (unit.step == 128 && map->box[0] != 128)))
        return reject(err, "tensor map: of this packed type the inner size is a multiple of %u, %s",
                      unit.step,
                      unit.step == 128 ? "and the inner box is 128" : "and so is the box");
    for (uint32_t i = 0; i < map->rank; i++) {
        if (map->size[i] < 1 || map->size[i] > UINT64_C(1) << 32)
            return reject(err, "tensor map: size %u is out of range", i);
        uint32_t most = map->im2col && i == 1 ? 1024 : 256;
        if (!(map->im2col && i > 1) && (map->box[i] < 1 || map->box[i] > most))
            return reject(err, "tensor map: box %u is not in 1..%u", i, most);
        if (map->element_stride[i] < 1 || map->element_stride[i] > 8)
            return reject(err, "tensor map: element stride %u is not in 1..8", i);
        if (i > 0 && (map->stride[i - 1] % align || map->stride[i - 1] >= UINT64_C(1) << 40))
            return reject(err, "tensor map: stride %u must be a multiple of %llu below 2^40", i,
                          (unsigned long long)align);
    }
    uint64_t inner = (uint64_t)map->box[0] / unit.elements * unit.shared_bytes;
    if (map->interleave == 0 && inner % 16)
        return reject(err, "tensor map: the inner box of %llu bytes is not a multiple of 16",
                      (unsigned long long)inner);
    if (map->interleave == 0 && spans[map->swizzle] && inner > spans[map->swizzle])
        return reject(err, "tensor map: the inner box of %llu bytes exceeds the swizzle's %u",
                      (unsigned long long)inner, spans[map->swizzle]);
    if (map->fill && (map->type < 6 || map->type >= FIRST_PACKED))
        return reject(err, "tensor map: NaN fill needs a floating-point type");
    sim_tensor_map_pack(map, out128);
    return true;
}
