/* sim_shadow.h - who touched which byte of shared memory when, and who knows of it.
 *
 * Order between warps is kept by vector clocks (one component a warp of the cluster): a barrier or
 * any other release/acquire passes the clock on (PTX ISA 8.9, 8.10: causality order).  Each 4-byte
 * cell remembers its last write and each warp's last read; two accesses of which one writes, by
 * different warps, with no order between them, are a race.  Bytes within a cell are told apart.
 *
 * An asynchronous operation (SimOp, sim_async.h) is a party of its own: what it writes belongs to
 * it from its issue on, and whoever touches those bytes must know of its completion: some warp
 * waited for it (sim_op_observe), and that is ordered before the access.
 *
 * A second vector clock per warp says which of the known accesses a proxy fence covers; accesses
 * of the async proxy (bulk copies, wgmma, tcgen05) to what the generic proxy wrote need it (8.6).
 */
#ifndef TILEC_SIM_SHADOW_H
#define TILEC_SIM_SHADOW_H

#include "sim_core.h"

typedef enum SimAccess {
    SIM_WEAK,     /* an ordinary access */
    SIM_REPEATED, /* an ordinary store of what is there already: with one by another, a note */
    SIM_STRONG    /* atomic, volatile, relaxed and up: never races with another strong one (8.3) */
} SimAccess;

/* Ops that a warp is known to know, by the last bits of their ids: id + 1. */
enum { SIM_KNOWN_OPS = 256 };

SimShadow *sim_shadow_new(uint32_t bytes, uint32_t agents); /* NULL when out of memory */
void sim_shadow_free(SimShadow *shadow);

/* Ordinary accesses of a lane to `size` bytes at `offset` (from the start of shared memory) of a
 * block; they report what is wrong and then record the access. */
void sim_shadow_read(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t size, uint32_t lane,
                     SimAccess access);
void sim_shadow_write(SimWarp *warp, SimCta *cta, uint32_t offset, uint32_t size, uint32_t lane,
                      SimAccess access);

/* The same, weak, of all lanes of a mask, at offsets by lane; those in `repeated` write what is
 * there. */
void sim_shadow_read_lanes(SimWarp *warp, SimCta *cta, const uint32_t *offset, uint32_t size,
                           uint32_t mask);
void sim_shadow_write_lanes(SimWarp *warp, SimCta *cta, const uint32_t *offset, uint32_t size,
                            uint32_t mask, uint32_t repeated);

/* The last one of the lanes of a mask whose `size` bytes lie side by side, from lane l on. */
static inline uint32_t
sim_lanes_side_by_side(const uint32_t *offset, uint32_t size, uint32_t mask, uint32_t l)
{
    while (l + 1 < SIM_LANES && mask >> (l + 1) & 1 && offset[l + 1] == offset[l] + size)
        l++;
    return l;
}

/* The same for the bytes that an asynchronous op will read or write, at its issue by the warp.
 * `async_proxy`: also check that generic writes to them are fenced. */
void sim_shadow_async_read(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t offset, uint32_t size,
                           bool async_proxy);
/* Does so only where nothing is wrong with whole cells; else says no. */
bool sim_shadow_async_read_quietly(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t offset,
                                   uint32_t size, bool async_proxy);
void sim_shadow_async_write(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t offset, uint32_t size,
                            bool async_proxy);
/* The generic proxy's, of all lanes of a mask, each of which writes whole cells; op->lane is the
 * last one then. */
void sim_shadow_async_write_lanes(SimWarp *warp, SimOp *op, SimCta *cta, const uint32_t *offset,
                                  uint32_t size, uint32_t mask);

/* Declares bytes written (mbarrier.init and the like), or forgets everything about them. */
void sim_shadow_set(SimCta *cta, uint32_t offset, uint32_t size, bool initialised);

/* ---- clocks.  All do nothing when checks are off. */

/* Passes what the warp knows to `clock` (SIM_PLANES times cluster->agents words), and starts a new
 * period of the warp, so that what it does next is not covered. */
void sim_clock_release(SimWarp *warp, uint32_t *clock);
void sim_clock_acquire(SimWarp *warp, const uint32_t *clock);
/* fence.proxy.async: all that the warp knows is now visible to the async proxy. */
void sim_clock_proxy_fence(SimWarp *warp);
/* A full release to, or acquire from, the memory at a (generic) address; sim_sync.h has those of
 * the single words (.relaxed, ...). */
void sim_clock_release_at(SimWarp *warp, uint64_t address);
void sim_clock_acquire_at(SimWarp *warp, uint64_t address);

/* ---- global memory (sim_global.c): between all warps of the launch.  `data` lies in `in`. */

bool sim_global_start(SimRun *run); /* with checks: a shadow for every allocation */
void sim_global_end(SimRun *run);
void sim_global_read(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                     int32_t lane, SimAccess access);
void sim_global_write(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                      int32_t lane, SimAccess access);
/* The same of `count` lanes from `lane` on, side by side, `size` bytes each, a multiple of 4. */
void sim_global_read_row(SimWarp *warp, const SimAllocation *in, const uint8_t *data, uint32_t size,
                         uint32_t lane, uint32_t count);
void sim_global_write_row(SimWarp *warp, const SimAllocation *in, const uint8_t *data,
                          uint32_t size, uint32_t lane, uint32_t count, SimAccess access);
/* An asynchronous op that will write: who touches the bytes must know that it completed.  An
 * atomic one (a reduction) is SIM_STRONG. */
void sim_global_observe(SimWarp *warp, SimOp *op); /* see sim_op_observe */
void sim_global_async_write(SimWarp *warp, SimOp *op, const SimAllocation *in, const uint8_t *data,
                            uint32_t size, SimAccess access);

#endif
