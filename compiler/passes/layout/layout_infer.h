/* layout_infer.h - propagates layouts from products to the values around them. */
#ifndef TILEC_PASSES_LAYOUT_INFER_H
#define TILEC_PASSES_LAYOUT_INFER_H

#include "compiler/ir/layout.h"
#include "compiler/passes/layout/layout_store.h"
#include "compiler/passes/pass.h"

/* What may cost something with the layouts that are chosen: operand `k` of an operation, or
 * ALL_OF_IT, as a product does. */
typedef struct LayoutCost {
    const TirOp *op;
    uint32_t k;
    int64_t rounds; /* how often it counts */
} LayoutCost;

/* An operation that deals with tiles, and what of it has a layout in registers to be found. */
typedef struct TileOp {
    TirOp *op;
    bool makes;         /* its one result */
    uint32_t *operands; /* numbers of operands */
    uint32_t n_operands;
} TileOp;

/* How a value got its layout: as the result of an operation, as its operand, by what a block of it
 * yields, by itself, or, as a result, that of an operand that was found. */
typedef enum LayoutWay { AS_RESULT, AS_OPERAND, AS_YIELDED, BY_ITSELF, AS_SOURCE } LayoutWay;

typedef struct LayoutStep {
    LayoutWay way;
    TirVal *value;
    const TirOp *op;
    uint32_t k;           /* of the operand or of what is yielded .. */
    uint32_t b;           /* .. by that block */
    const TirVal *source; /* the layout follows from that of this value, if from any */
} LayoutStep;

typedef struct LayoutPass {
    PassContext *px;
    TirFn *fn;
    LayoutStore store;
    bool tmem_rows;                  /* tiles of tensor memory lie a row in a thread */
    bool stage_output, wide_atomics; /* the passes of these names are on */
    int32_t addition_run; /* elements of a row that a warp should add to memory together */
    uint8_t *cheap; /* by id of the values there were at first: whether cheap; 0: not known yet */
    uint32_t n_cheap;
    VEC(TileOp) tile_ops;
    VEC(TirVal *) data, tiles; /* in the order of the text, see undecided */
    VEC(TirVal *) params;      /* of blocks */
    VEC(LayoutStep) steps;     /* of the first inference, which later ones repeat */
    uint32_t *known;       /* by value: 1 + the step that gives its layout; NULL: see link_steps */
    uint32_t *behind;      /* steps to take, of need_layout */
    VEC(LayoutCost) costs; /* what may cost something; empty: not listed yet */
} LayoutPass;

LayoutPass layout_pass(PassContext *px, TirFn *fn);

/* Sets the layout of every tile in registers, from the divisions of the products (warps_m, warps_n,
 * swap_ab of each mma).  Inserts no conversions: an operand may have another layout than
 * required. */
void layout_infer(LayoutPass *lp);
/* The same in parts: forgets the layouts, which layout_cost then infers as far as it looks at them,
 * and infers what is left. */
void layout_begin(LayoutPass *lp);
void layout_infer_rest(LayoutPass *lp);
/* The cost of the present layouts, in bytes through shared memory; a loop counts LOOP_ROUNDS
 * times.  Or any part of it that is not below `enough`. */
int64_t layout_cost(LayoutPass *lp, int64_t enough);
/* A lower bound of the part of product `mma`, inside `loops` loops, for any layouts. */
int64_t layout_least_cost(const LayoutPass *lp, const TirOp *mma, uint32_t loops);

/* Instructions of a thread with the present layouts, those left out that any layout takes
 * (layout_count.c). */
int64_t layout_instructions(LayoutPass *lp);

/* The layout that operation `op` needs operand `k` in; NULL: none in particular. */
const Layout *layout_required(LayoutPass *lp, const TirOp *op, uint32_t k);
/* For a value that is added to memory: the layout after one more exchange between lanes towards the
 * best one; NULL: `layout` is the best. */
const Layout *layout_next_for_additions(LayoutPass *lp, const TirVal *value, const Layout *layout);
/* The layout operand `k` of a cheap or elementwise `op` has when the result has `want`. */
const Layout *layout_of_operand(LayoutPass *lp, const TirOp *op, uint32_t k, const Layout *want);
/* Whether the instructions of an mma read a tile that lies in shared memory as operand `k` does,
 * along the inner dimension or across it. */
bool layout_may_be_read(const LayoutPass *lp, const TirOp *mma, uint32_t k);
/* Whether operand `k` (0 or 1) of an mma can be used as it is: it is in shared memory, or in the
 * registers of the right threads. */
bool layout_operand_fits(LayoutPass *lp, const TirOp *mma, uint32_t k);
/* The register layout an mma wants its operand in. */
const Layout *layout_of_mma_operand(LayoutPass *lp, const TirOp *mma, uint32_t k);
/* Whether a tile is in shared memory (a shared_read, or a transpose of one). */
bool layout_is_view(const TirVal *value);
/* Whether a value is recomputed for each user, never converted: constants, index vectors,
 * broadcasts of these. */
bool layout_is_cheap(LayoutPass *lp, const TirVal *value);
/* The layout of values to which none is propagated. */
const Layout *layout_default(LayoutPass *lp, TirType type);

#endif
