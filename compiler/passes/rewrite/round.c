/* round.c - products, and sums and differences of them, that are rounded as they are written.
 *
 *   level    tile IR
 *   does     marks x * y + z and x * y - z, in f32, where z is no multiply-add's to round: it is a
 *            product itself, or, where an exponential is taken of the sum, has one in it.  s * c -
 *            m * c is 0 where s is m, however large they are, and rounding one of the two alone
 *            leaves 2^-24 of them.  And x * y that is multiplied by a power of two: one rounding of
 *            both would leave no infinity where x * y is too large
 *   leaves   MUL.rounded, which the assembler takes for no part of another product (docs/ptxas.md),
 *            ADD.rounded and SUB.rounded: no pass makes one multiply-add of such (fuse.c), and what
 *            they are lowered to keeps the assembler from it, which makes one of `mul.f32` and
 *            `sub.f32` at any level
 */
#include <math.h>

#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Rounder {
    uint8_t *product; /* by id: PRODUCT, IN_SUM */
    bool *exponent;   /* by id: an exponential is taken of it, or of what it is a part of */
    bool changed;
} Rounder;

/* What is known of a value: it is a rounded product, or was chosen among such; it is a sum that has
 * one in it. */
enum { PRODUCT = 1, IN_SUM = 2 };

/* What an operation's result has of its operands: of which, and whether sums count. */
static uint8_t
product_of(const Rounder *r, const TirOp *op)
{
    uint32_t first = 0, n = 0;
    uint8_t known = 0;

    switch (op->op) {
    case TIR_MUL: return PRODUCT;
    case TIR_FMA: return IN_SUM;
    case TIR_ADD:
    case TIR_SUB:
    case TIR_MAX:
    case TIR_MIN:
    case TIR_KEEP: n = 2; break;
    case TIR_SELECT:
        first = 1;
        n = 3;
        break;
    case TIR_NEG:
    case TIR_ABS:
    case TIR_MASK:
    case TIR_BOUNDS_MASK:
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_BROADCAST:
    case TIR_SPREAD:
    case TIR_TRANSPOSE: n = 1; break;
    default: /* one of the elements, or a sum of them */
        n = tir_combines(op) && op->reduce != REDUCE_SUM;
        break;
    }
    for (uint32_t k = first; k < n && k < op->n_args; k++)
        known |= r->product[op->args[k]->id];
    if ((op->op == TIR_ADD || op->op == TIR_SUB) && known != 0)
        known = IN_SUM;
    return known;
}

/* Returns whether something became known. */
static bool
learn(Rounder *r, const TirVal *value, uint8_t known)
{
    if (value->type.dtype != DT_F32 || (r->product[value->id] | known) == r->product[value->id])
        return false;
    r->product[value->id] |= known;
    return true;
}

/* Products of a block, in the order of definitions; what a loop sums up itself is left to
 * multiply-adds.  Whether something new goes around a loop. */
static bool
learn_products(Rounder *r, const TirBlock *block)
{
    bool more = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; op->op == TIR_FOR && k < op->n_results; k++)
            learn(r, op->blocks[0]->params.at[k + 1],
                  r->product[op->args[loop_first_initial(op) + k]->id]);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            more |= learn_products(r, op->blocks[k]);
        for (uint32_t k = 0; k < op->n_results; k++) {
            if (op->op == TIR_FOR) {
                uint8_t next = r->product[block_yield(op->blocks[0])->args[k]->id] & PRODUCT;
                more |= learn(r, op->blocks[0]->params.at[k + 1], next);
                learn(r, op->results[k], r->product[op->blocks[0]->params.at[k + 1]->id]);
            } else if (op->op == TIR_IF) {
                for (uint32_t side = 0; side < 2; side++)
                    learn(r, op->results[k], r->product[block_yield(op->blocks[side])->args[k]->id]);
            } else {
                learn(r, op->results[k], product_of(r, op));
            }
        }
    }
    return more;
}

/* Marks what an exponential is taken of, and what that is made of. */
static void
mark_exponent(Rounder *r, const TirVal *value)
{
    const TirOp *op = value->def;

    if (r->exponent[value->id])
        return;
    r->exponent[value->id] = true;
    if (op == NULL)
        return;
    if (op->op == TIR_IF) {
        for (uint32_t k = 0; k < op->n_blocks; k++)
            mark_exponent(r, block_yield(op->blocks[k])->args[value->index]);
    } else if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 || op->op == TIR_BROADCAST ||
               op->op == TIR_EXPAND || op->op == TIR_SQUEEZE || op->op == TIR_SPREAD ||
               op->op == TIR_TRANSPOSE) {
        for (uint32_t k = 0; k < op->n_args; k++)
            mark_exponent(r, op->args[k]);
    }
}

static void
mark_exponents(Rounder *r, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_EXP || op->op == TIR_EXP2)
            mark_exponent(r, op->args[0]);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            mark_exponents(r, op->blocks[k]);
    }
}

/* The product that the assembler may see in this operand, or NULL: what is between takes no
 * instruction, or changes its sign. */
static TirOp *
plain_product(const TirVal *value)
{
    TirOp *op = value->def;

    while (op != NULL && (op->op == TIR_BROADCAST || op->op == TIR_EXPAND ||
                          op->op == TIR_SQUEEZE || op->op == TIR_SPREAD ||
                          op->op == TIR_TRANSPOSE || op->op == TIR_NEG || op->op == TIR_MASK ||
                          op->op == TIR_BOUNDS_MASK)) /* (of segments in which it is not live) */
        op = op->args[0]->def;
    return op != NULL && op->op == TIR_MUL ? op : NULL;
}

static bool
is_rounded(const Rounder *r, const TirOp *op)
{
    const TirVal *x = op->args[0], *y = op->args[1];
    uint8_t counts = r->exponent[op->results[0]->id] ? PRODUCT | IN_SUM : PRODUCT;

    return (plain_product(x) != NULL && (r->product[y->id] & counts) != 0) ||
           (plain_product(y) != NULL && (r->product[x->id] & counts) != 0);
}

/* A power of two but 1, or a tile of it. */
static bool
is_power_of_two(const TirVal *value)
{
    const TirOp *op = value->def;
    int exponent;

    while (op != NULL && op->op == TIR_BROADCAST)
        op = op->args[0]->def;
    return op != NULL && op->op == TIR_CONST && op->number != 1 &&
           frexp(fabs(op->number), &exponent) == 0.5;
}

/* The product that the assembler may make one of with this product by a constant, or this quotient;
 * NULL: none. */
static TirOp *
scaled_product(const TirOp *op)
{
    if (op->op != TIR_MUL && op->op != TIR_DIV)
        return NULL;
    if (is_power_of_two(op->args[1]))
        return plain_product(op->args[0]);
    return op->op == TIR_MUL && is_power_of_two(op->args[0]) ? plain_product(op->args[1]) : NULL;
}

static void
round_block(Rounder *r, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        if ((op->op == TIR_ADD || op->op == TIR_SUB) && op->results[0]->type.dtype == DT_F32 &&
            !op->rounded && is_rounded(r, op))
            r->changed = op->rounded = true;
        TirOp *product = op->n_results == 1 && op->results[0]->type.dtype == DT_F32
                             ? scaled_product(op)
                             : NULL;
        if (product != NULL && !product->rounded)
            r->changed = product->rounded = true;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            round_block(r, op->blocks[k]);
    }
}

bool
pass_round(PassContext *px, TirFn *fn)
{
    Rounder r = {0};

    r.exponent = arena_array(px->arena, bool, fn->next_id + 1);
    r.product = arena_array(px->arena, uint8_t, fn->next_id + 1);
    while (learn_products(&r, fn->body)) {
    }
    mark_exponents(&r, fn->body);
    round_block(&r, fn->body);
    for (uint32_t k = 0; k < fn->combines.n; k++)
        r.changed |= pass_round(px, fn->combines.at[k]);
    return r.changed;
}
