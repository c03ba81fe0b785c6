/* tir_verifier.h - what the parts of the verifier of tile IR share.
 * Only tir_verify*.c include it.
 */
#ifndef TILEC_IR_TIR_VERIFIER_H
#define TILEC_IR_TIR_VERIFIER_H

#include "compiler/ir/tir.h"

typedef struct Verifier {
    const TirFn *fn;
    Buf *out;
    bool *visible;      /* by value id: defined before here, in this block or one around it */
    bool *defined;      /* by value id: defined anywhere so far */
    uint32_t *stage_of; /* by value id of a read: which stage it is of, as numbered in `stages` */
    uint32_t stages;    /* of pipelines, met so far */
    bool ok;
} Verifier;

/* A broken invariant, of an operation (NULL: of the kernel). */
void tir_fault(Verifier *v, const TirOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The plan, the producer and what the computing warp groups do with pipelines and products; types,
 * operands and definitions have been checked. */
void tir_check_plan(Verifier *v);
/* tir_verify_memory.c: where pipelines lie. */
void tir_check_memory(Verifier *v);
/* A role's program begins by finding its tile, and ends with what leads to the next one. */
void tir_check_tiles(Verifier *v, const TirRole *role, const TirBlock *program);

/* tir_verify_roles.c: the programs of roles. */
void tir_check_reduce(Verifier *v, const TirBlock *program);
void tir_check_correction(Verifier *v, const TirBlock *block);
/* No operand or result is a tile. */
bool tir_is_scalar_op(const TirOp *op);
/* Loops, branches, and what is computed. */
bool tir_is_of_any_role(const TirOp *op);

/* The kernel's interface: names, tensors, grid, warps, shared buffers. */
void tir_check_interface(Verifier *v);
/* Of a value that an operation makes: its layout.  Of an operation whose results are checked: that
 * threads hold what they need. */
void tir_check_layout(Verifier *v, const TirOp *op, const TirVal *value);
void tir_check_layouts_agree(Verifier *v, const TirOp *op);
/* Two values that are one in the registers: their layouts, where both have one. */
void tir_want_layout(Verifier *v, const TirOp *op, const char *what, const TirVal *have,
                     const TirVal *want);
/* What copies of threads fill is read behind the first copy to it, in the order of the text: an
 * iteration begins what the next one reads, and what the first one reads is begun before the
 * loop. */
void tir_check_copied(Verifier *v);
/* tir_verify_access.c.  How an access addresses each dimension of its tensor, by itself.  The parts
 * of a pack, which the first `n` indices are of: of as many elements as all have together, and each
 * written once.  Limits: along axes of the tile, of parts of as many elements as those have. */
void tir_check_indices(Verifier *v, const TirOp *op);
void tir_check_parts(Verifier *v, const TirOp *op, uint32_t n);
void tir_check_limits(Verifier *v, const TirOp *op, const TirType *type);
/* Of an operation whose operands are there: that the lowering has it for their type. */
void tir_check_use(Verifier *v, const TirOp *op);
/* Of a product: that it has a scale for as many elements of the inner dimension each; they are the
 * last two operands. */
void tir_check_scales(Verifier *v, const TirOp *op);
/* tir_verify_tuples.c.  A function that combines elements, whose operations are checked; an
 * operation that names one. */
void tir_check_combine(Verifier *v);
void tir_check_tuples(Verifier *v, const TirOp *op);
/* Of a value: no more elements than a tile may have. */
void tir_check_tile(Verifier *v, const TirOp *op, TirType type);

#endif
