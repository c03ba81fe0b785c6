/* sim_mma.h - what the files of mma.sync share. */
#ifndef TILEC_SIM_MMA_H
#define TILEC_SIM_MMA_H

#include "sim_decode.h"

/* Forms that sim_mma_forms.c has: with a .kind, sparse, of 4 or 1 bits, and m8n8k4 of f16. */
bool sim_mma_is_form(const SimDecode *dx);
bool sim_decode_mma_form(SimDecode *dx);

#endif
