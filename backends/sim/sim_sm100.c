/* sim_sm100.c - the table of sm_100 families.  Each row's decoder lives in a sim_sm100_*.c file. */
#include "sim_sm100.h"

/* The ISA gives these only as figures, or in words that leave more than one reading. */
bool
sim_decode_tcgen05_unsupported(SimDecode *dx)
{
    return dec_fail(dx, "this tcgen05 operation is not supported: the PTX ISA leaves its data "
                        "layout to figures or to more than one reading");
}

const SimFamily sim_sm100_families[] = {
    {"tcgen05.alloc", sim_decode_tcgen05_alloc},
    {"tcgen05.dealloc", sim_decode_tcgen05_dealloc},
    {"tcgen05.relinquish_alloc_permit", sim_decode_tcgen05_relinquish},
    {"tcgen05.fence::before_thread_sync", sim_decode_tcgen05_fence_before},
    {"tcgen05.fence::after_thread_sync", sim_decode_tcgen05_fence_after},
    {"tcgen05.ld", sim_decode_tcgen05_ld},
    {"tcgen05.ld.red", sim_decode_tcgen05_ld_red},
    {"tcgen05.st", sim_decode_tcgen05_st},
    {"tcgen05.wait::ld", sim_decode_tcgen05_wait_ld},
    {"tcgen05.wait::st", sim_decode_tcgen05_wait_st},
    {"tcgen05.mma", sim_decode_tcgen05_mma},
    {"tcgen05.cp", sim_decode_tcgen05_cp},
    {"tcgen05.shift", sim_decode_tcgen05_unsupported},
    {"tcgen05.commit", sim_decode_tcgen05_commit},
    {"clusterlaunchcontrol.try_cancel", sim_decode_clc_try_cancel},
    {"clusterlaunchcontrol.query_cancel", sim_decode_clc_query},
    {NULL, NULL},
};
