/* sim_special.h - special registers (PTX ISA 10): rows of a bank that each warp carries. */
#ifndef TILEC_SIM_SPECIAL_H
#define TILEC_SIM_SPECIAL_H

#include "sim_core.h"

enum { SIM_SPECIAL_BYTES = 64 * 128, SIM_SHARED_ROW_BYTES = 128 + 256 };

/* The slot of the special register `name`; returns how many bits it has, 0: there is none. */
uint32_t sim_special_find(const char *name, SimSlot *slot);

bool sim_special_needs_workspace(const char *name); /* %envreg1 and 2: SimModule.grid_workspace */
bool sim_special_is_clock(const char *name); /* %clock, %clock64, %globaltimer and their halves */

/* The slot of the address of a shared variable, as a 32- or 64-bit operand.  A block of a cluster
 * sees its own shared memory with its rank above the offset (as SASS builds such addresses). */
SimSlot sim_special_shared_address(SimModule *mod, uint64_t address, bool wide);

void sim_special_fill(SimWarp *warp, uint8_t *bank); /* at the start of a warp */
void sim_special_refresh_clock(SimWarp *warp);

#endif
