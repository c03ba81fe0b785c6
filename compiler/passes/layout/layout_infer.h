/* layout_infer.h - how layouts spread from products over the values around them. */
#ifndef TILEC_PASSES_LAYOUT_INFER_H
#define TILEC_PASSES_LAYOUT_INFER_H

#include "compiler/ir/layout.h"
#include "compiler/passes/layout/layout_store.h"
#include "compiler/passes/pass.h"

typedef struct LayoutPass {
    PassContext *px;
    TirFn *fn;
    LayoutStore store;
    bool stage_output, wide_atomics; /* the passes of these names are on */
    int32_t addition_run; /* elements of a row that a warp should add to memory together */
    uint8_t *cheap; /* by id of the values there were at first: whether cheap; 0: not known yet */
    uint32_t n_cheap;
    VEC(TirOp *) tile_ops; /* those that deal with tiles; empty: not listed yet */
    TirOp **ops_left;      /* those of them that inference is not done with */
} LayoutPass;

LayoutPass layout_pass(PassContext *px, TirFn *fn);

/* Sets the layout of every tile in registers, from the divisions of the products (warps_m,
 * warps_n, swap_ab of each mma).  Inserts nothing: operands may disagree with what is required. */
void layout_infer(LayoutPass *lp);
/* What the present layouts cost, in bytes through shared memory, loops counted as 16 rounds. */
int64_t layout_cost(LayoutPass *lp);
/* What product `mma`, inside `loops` loops, adds to that whatever the layouts are. */
int64_t layout_least_cost(const LayoutPass *lp, const TirOp *mma, uint32_t loops);

/* The layout that operation `op` needs operand `k` in; NULL: none in particular. */
const Layout *layout_required(LayoutPass *lp, const TirOp *op, uint32_t k);
/* What is added to memory in another layout, one exchange between lanes nearer to the best; NULL: it
 * is there. */
const Layout *layout_next_for_additions(LayoutPass *lp, const TirVal *value, const Layout *layout);
/* The layout operand `k` of a cheap or elementwise `op` has when the result has `want`. */
const Layout *layout_of_operand(LayoutPass *lp, const TirOp *op, uint32_t k, const Layout *want);
/* Operand `k` (0 or 1) of an mma can be used where it is: in shared memory, or in the registers of
 * the right threads. */
bool layout_operand_fits(LayoutPass *lp, const TirOp *mma, uint32_t k);
/* The register layout an mma wants its operand in. */
const Layout *layout_of_mma_operand(LayoutPass *lp, const TirOp *mma, uint32_t k);
/* A tile that lies in shared memory (shared_read, or a transpose of one). */
bool layout_is_view(const TirVal *value);
/* Computed anew for each user rather than moved: constants, index vectors, broadcasts of such. */
bool layout_is_cheap(LayoutPass *lp, const TirVal *value);
/* For values that nothing else decides. */
const Layout *layout_default(LayoutPass *lp, TirType type);

#endif
