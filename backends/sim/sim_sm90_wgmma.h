/* sim_sm90_wgmma.h - what the product and the watch over its registers share. */
#ifndef TILEC_SIM_SM90_WGMMA_H
#define TILEC_SIM_SM90_WGMMA_H

#include "sim_sm90.h"

/* What decoding keeps of a wgmma.mma_async (SimInsn.data). */
typedef struct Sm90Wgmma {
    uint16_t n;
    uint8_t k, d_count, a_count; /* registers; a_count 0: A comes from shared memory */
    SimType d_type, a_type, b_type;
    bool single_bits; /* .b1: types, k and operands are those of bytes, each of eight columns */
    bool sparse;      /* A has half of the columns; metadata says which */
    uint8_t selector;
    SimSlot metadata;
    bool negate_a, negate_b, transpose_a, transpose_b, scale_d_negated, saturate;
    SimSlot d[128], a[4], a_descriptor, b_descriptor, scale_d;
} Sm90Wgmma;

/* Registers of one frame of a warp, by row of 128 bytes: in flight, and touched since a fence. */
struct SimRegisterWatch {
    const SimFrame *frame;
    uint32_t rows;
    uint32_t epoch;       /* counts wgmma.fence; 0 before the first */
    uint32_t asked;       /* wgmmas that a wgmma.wait_group has come after, waited for or not */
    uint32_t *stamp;      /* epoch of the last access by an ordinary instruction */
    uint32_t *touched_by; /* its index */
    uint32_t *op;         /* 1 + number of the wgmma that has it in flight, else 0 */
    const SimInsn **op_insn;
    const Sm90Wgmma **shape; /* last accumulated by, since the fence */
    uint32_t *shape_epoch;
};

/* wgmma.fence; also attaches the watch to the running frame. */
void sim_sm90_watch_fence(SimWarp *warp);
/* At the issue of number `op`: checks its registers and marks them in flight. */
void sim_sm90_watch_issue(SimWarp *warp, const SimInsn *insn, const Sm90Wgmma *form, uint32_t op);
/* A wgmma.wait_group comes after so many wgmmas. */
void sim_sm90_watch_wait(SimWarp *warp, uint32_t issued);
/* Waits for all of the warp's; false: it sleeps, and executes its instruction again. */
bool sim_sm90_wait_for_all(SimWarp *warp);
/* The warp has waited for it. */
void sim_sm90_watch_done(SimWarp *warp, const Sm90Wgmma *form, uint32_t op);
void sim_sm90_watch_free(SimWarp *warp);

extern const SimExec sim_sm90_wgmma_exec;

/* Operands in shared memory (sim_sm90_operand.c). */
uint32_t sim_sm90_element_bytes(SimType type);
/* `count` elements to floats, or to int32 for integer products. */
void sim_sm90_widen(float *out, const uint32_t *words, SimType type, uint32_t count);
void sim_sm90_read_matrix(const SimCta *cta, uint64_t descriptor, SimType type, bool transposed,
                          uint32_t rows, uint32_t k, float *out, uint32_t row_step,
                          uint32_t k_step);
bool sim_sm90_note_matrix(SimWarp *warp, SimOp *op, uint64_t descriptor, SimType type,
                          bool transposed, uint32_t first, uint32_t rows, uint32_t k,
                          const char *which);

#endif
