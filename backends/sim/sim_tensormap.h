/* sim_tensormap.h - the 128 bytes of a tensor map, in the simulator's own form.
 *
 * The driver's form is not documented (PTX ISA 5.5.8 calls it opaque), so sim_tensor_map_encode()
 * and tensormap.replace agree on this one.  All fields have the driver API's meaning and units.
 */
#ifndef TILEC_SIM_TENSORMAP_H
#define TILEC_SIM_TENSORMAP_H

#include "sim_core.h"

enum { SIM_TENSOR_MAP_MAGIC = 0x504d5453 };

typedef struct SimTensorMapBits {
    uint32_t magic;
    uint8_t type, rank, interleave, swizzle, l2_promotion, fill, reserved[2];
    uint64_t address;
    uint32_t size[5]; /* minus 1, so that 2^32 fits */
    uint32_t stride_low[4];
    uint8_t stride_high[4]; /* strides are below 2^40 bytes */
    uint16_t box[5];
    uint8_t element_stride[5];
    uint8_t im2col; /* SimIm2col */
    int16_t lower[3], upper[3];
    uint8_t pad[128 - 92];
} SimTensorMapBits;

_Static_assert(sizeof(SimTensorMapBits) == 128, "a tensor map has 128 bytes");

/* SimTensorMap.im2col, and the mode of a copy. */
typedef enum SimIm2col {
    SIM_TILED,
    SIM_IM2COL,
    SIM_IM2COL_W,
    SIM_IM2COL_W128,
    SIM_IM2COL_COUNT
} SimIm2col;

/* Unpacks; false if the bytes are not a map. */
bool sim_tensor_map_decode(const void *in128, SimTensorMap *map);
void sim_tensor_map_pack(const SimTensorMap *map, void *out128); /* without checks */
uint32_t sim_tensor_map_element_bytes(uint32_t type);            /* 0: packed or unknown */

/* What a copy takes at a time: an element, or of the packed types two (16U4_ALIGN8B) or 16 (with
 * padding behind them in shared memory). */
typedef struct SimTensorUnit {
    uint8_t elements, global_bytes, shared_bytes;
    uint8_t step; /* of the innermost coordinate */
} SimTensorUnit;
SimTensorUnit sim_tensor_map_unit(uint32_t type);

#endif
