/* sim_memory.h - from an address in a state space to host bytes, with the checks on the way. */
#ifndef TILEC_SIM_MEMORY_H
#define TILEC_SIM_MEMORY_H

#include "sim_shadow.h"

typedef struct SimMemory {
    uint8_t *data;
    SimSpace space;    /* never SIM_GENERIC */
    SimCta *cta;       /* of shared memory */
    uint32_t offset;   /* in shared memory, from its start */
    SimAllocation *in; /* of global memory; NULL for parameters */
    uint64_t generic;  /* the address as a generic one, for sync objects and reports */
} SimMemory;

/* Finds the bytes [address, address + size) in the space; checks bounds, and alignment to `align`
 * (a power of two).  On failure reports a finding for the lane and returns false: a load then gives
 * zeros, a store is dropped. */
bool sim_memory_find(SimWarp *warp, uint32_t lane, SimSpace space, uint64_t address, uint32_t size,
                     uint32_t align, SimMemory *memory);

/* The address operand of a lane: slot `at` plus insn->imm (see dec_address). */
static inline uint64_t
sim_lane_address(const SimWarp *warp, const SimInsn *insn, uint32_t at, uint32_t lane)
{
    uint64_t base = insn->mode[5] ? sim_r64(warp, insn->slot[at])[lane]
                                  : sim_r32(warp, insn->slot[at])[lane];
    if (insn->frame_relative)
        base += warp->running->frame->local_base;
    base += (uint64_t)insn->imm;
    /* A 32-bit base is a shared or local address: the sum wraps at 32 bits. */
    return insn->mode[5] ? base : (uint32_t)base;
}

/* Checks and records an ordinary access by a lane: initialised?  races? */
void sim_memory_note_read(SimWarp *warp, const SimMemory *memory, uint32_t size, uint32_t lane,
                          SimAccess access);
void sim_memory_note_write(SimWarp *warp, const SimMemory *memory, uint32_t size, uint32_t lane,
                           SimAccess access);

/* Counts the passes that one access of the warp to shared memory takes: `offset` by lane, `size`
 * bytes each.  For ldmatrix and the like call it once per 8 rows with the rows' addresses. */
void sim_memory_count_banks(SimWarp *warp, const SimInsn *insn, const uint32_t *offset,
                            uint32_t mask, uint32_t size);

/* What the words .volatile, .relaxed, .acquire, ... of a memory instruction mean here (PTX ISA 8.2,
 * 8.5); sim_sync.h tells what they order. */
typedef enum SimOrder {
    SIM_ORDER_STRONG = 1,
    SIM_ORDER_ACQUIRE = 2,
    SIM_ORDER_RELEASE = 4,
    SIM_ORDER_CTA = 8 /* the scope is the block, not more */
} SimOrder;

/* What makes a strong access of global memory one step for all host threads; NULL: none is
 * needed. */
pthread_mutex_t *sim_memory_lock(const SimWarp *warp, const SimMemory *memory);

struct SimDecode;
uint8_t sim_take_order(struct SimDecode *dx); /* takes them and the scope */
/* st and red, of which st.async and red.async to global memory are forms. */
bool sim_decode_st(struct SimDecode *dx);
bool sim_decode_red(struct SimDecode *dx);
void sim_take_hints(struct SimDecode *dx, bool *has_policy); /* .ca, .L2::128B, ... */

#endif
