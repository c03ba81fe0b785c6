/* sim_mma.h - what the files of mma.sync share. */
#ifndef TILEC_SIM_MMA_H
#define TILEC_SIM_MMA_H

#include "sim_decode.h"

/* Forms that sim_mma_forms.c has: with a .kind, sparse, of 4 or 1 bits, and m8n8k4 of f16. */
bool sim_mma_is_form(const SimDecode *dx);
bool sim_decode_mma_form(SimDecode *dx);

/* Where the stored column p of a row (of 16) of a sparse A stands, by the metadata of the warp's
 * lanes: `bits` of an element, `k` of the whole A.  The selector is below sim_sparse_selectors. */
uint32_t sim_sparse_column(const uint32_t *meta, uint32_t bits, uint32_t k, uint32_t selector,
                           uint32_t row, uint32_t p);
uint32_t sim_sparse_selectors(uint32_t bits, uint32_t k);

/* A type of a matrix: a SimType, or one of these. */
enum { TYPE_S4 = SIM_TYPE_COUNT, TYPE_U4, TYPE_B1 };
int sim_mma_next_type(SimDecode *dx); /* the first modifier that is one, SIM_NO_TYPE */
/* The value of an element that has `bits` in its register. */
double sim_mma_value(uint32_t raw, int type, uint32_t bits);

#endif
