/* sim_contract.h - multiplications and additions that an assembler may make one instruction of. */
#ifndef TILEC_SIM_CONTRACT_H
#define TILEC_SIM_CONTRACT_H

#include "sim_parse.h"

/* What an instruction is to this (SimInsn.contracts). */
enum {
    SIM_APART,    /* nothing */
    SIM_PRODUCT,  /* a multiplication, .. */
    SIM_SUM,      /* .. addition or subtraction that may be rounded with the other */
    SIM_COPY,     /* of one register to another */
    SIM_NEGATION, /* likewise, with its sign turned */
};

/* Finds the pairs of a file that is decoded. */
void sim_contract_find(const PtxFile *file);
/* Which of a module's pairs are one instruction in a launch with this seed. */
void sim_contract_draw(const SimModule *mod, uint64_t seed);

/* sim_float.c: whether the two may be one, and what that is, but for its operands. */
bool sim_float_contracts(const SimInsn *product, const SimInsn *sum);
SimInsn sim_float_contracted(const SimInsn *sum);
bool sim_float_subtracts(const SimInsn *sum);

#endif
