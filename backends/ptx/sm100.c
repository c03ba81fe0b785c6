/* sm100.c - NVIDIA B200 (compute capability 10.0).
 *
 * Sources: see sm100.h.  148 SMs at 1850 MHz, 1965 MHz cold (backends/ptx/sm100_clock.c).
 */
#include "backends/ptx/sm100.h"

static const MmaForm mma_forms[] = {TENSOR_MMAS,         TENSOR_MMAS_TF32,   TENSOR_MMAS_I8,
                                    TENSOR_FLOAT_MMAS_8, TENSOR_SCALED_MMAS, WARP_MMAS,
                                    WARP_FLOAT_MMAS_8};
static const CopyForm copy_forms[] = {LANE_COPIES, TENSOR_COPIES};

const Target target_sm100 = SM100_KIND(
    "sm_100", 100, "B200: tensor copies and tcgen05 in loops of products, vector atomics", "8.6",
    16, 148, 1850, 1965, sm100_clock);
