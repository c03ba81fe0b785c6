/* sm103.c - NVIDIA B300 (compute capability 10.3).
 *
 * As sm_100 (sm100.h), with twice the exponentials: 32 a clock and SM (QuickRunCUDA's table of a
 * B300; Nsight Compute's shares of FlashAttention-4 there say 1031 clocks for 2 x 128 x 128 of
 * them).  148 SMs at 2032 MHz cold (the same); what it keeps under a load differs with the load,
 * 1.85 GHz where products do not fill it.  PTX has the target from version 8.8 on.  None was at
 * hand. (sm103_clock.c: the model of --time)
 */
#include "backends/ptx/sm100.h"

static const MmaForm mma_forms[] = {TENSOR_MMAS,        TENSOR_MMAS_TF32, TENSOR_FLOAT_MMAS_8,
                                    TENSOR_SCALED_MMAS, WARP_MMAS,        WARP_FLOAT_MMAS_8};
static const CopyForm copy_forms[] = {LANE_COPIES, TENSOR_COPIES};

const Target target_sm103 = SM100_KIND("sm_103", 103,
                                       "B300: as sm_100, with twice the exponentials", "8.8", 32,
                                       148, 1850, 2032, NULL);
