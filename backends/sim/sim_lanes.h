/* sim_lanes.h - a memory access of a warp whose lanes all lie in one place, as most do. */
#ifndef TILEC_SIM_LANES_H
#define TILEC_SIM_LANES_H

#include "sim_memory.h"

/* Shared memory of the warp's own block, or one allocation. */
typedef struct SimLanes {
    uint8_t *base;
    SimAllocation *in; /* NULL: shared memory */
    uint32_t
        /* from the base; of lanes that are not in the mask as of the first one that is */
        offset[SIM_LANES];
} SimLanes;

/* Finds `size` aligned bytes of each lane of the mask (not 0) at the address operand in slot `at`.
 * False: they are elsewhere, or something is wrong with one; then each lane is to be looked at by
 * itself (sim_memory_find). */
bool sim_lanes_find(SimWarp *warp, const SimInsn *insn, uint32_t mask, uint32_t at, uint32_t size,
                    SimLanes *lanes);

/* The same at given addresses of a state space; those of lanes that are not in the mask are
 * overwritten. */
bool sim_lanes_find_at(SimWarp *warp, SimSpace space, uint64_t address[SIM_LANES], uint32_t mask,
                       uint32_t size, SimLanes *lanes);

/* Whether all lanes lie side by side. */
bool sim_lanes_in_row(const SimLanes *lanes, uint32_t size);

/* Notes weak reads of them; `mask` may be fewer lanes.  False: some of it is uninitialised, and
 * nothing is noted. */
bool sim_lanes_note_read(SimWarp *warp, const SimLanes *lanes, uint32_t size, uint32_t mask);
/* Notes weak writes; the lanes in `repeated` write what is there already. */
void sim_lanes_note_write(SimWarp *warp, const SimLanes *lanes, uint32_t size, uint32_t mask,
                          uint32_t repeated);

#endif
