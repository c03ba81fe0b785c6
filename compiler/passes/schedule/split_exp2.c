/* split_exp2.c - exponentials that units for f32 arithmetic compute, where the one for special
 * functions limits a loop.
 *
 *   level    tile IR with a plan; products are asynchronous
 *   needs    two f32 elements in an instruction (the target's record)
 *   does     counts an iteration's clocks of the tensor cores, of special functions and of f32
 *            arithmetic, and says of each exp2 on tiles in the loop how many of 16 elements are
 *            computed by a polynomial: as many as it takes until the tensor cores limit the loop,
 *            but no more than balance the two kinds of units.  Where consumers take turns, one's
 *            arithmetic runs under the other's products: special functions may take 13/16 of the
 *            tensor cores' time, which leaves time for what is not overlapped (they stand still
 *            while a tile's first results come, and while a piece is stored and handed on).  One
 *            consumer's warps are all at their exponentials at the same time, and then all at the
 *            rest: special functions and the other arithmetic add up
 *   leaves   EXP2.polynomial.  Which elements those are, and how, is the lowering's
 *            (lower/lower_exp2.c)
 */
#include "compiler/ir/op_units.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_util.h"

enum {
    /* of 16; with more, dependent instructions took longer than what they saved (a model of
     * sm_100) */
    MOST = 3,
    PER_EXP2 = 12, /* f32 operations of an element that is computed by the polynomial */
    PER_LARGE = 1, /* one more where exponents may be above the range */
    EXP2_OF = 16
};

typedef struct Clocks {
    double tensor, special, floats;
    double exp2, large; /* elements; of those, that may be above the range */
} Clocks;

static bool
can_split(const TirOp *op)
{
    return op->op == TIR_EXP2 && op->results[0]->type.rank == 2 &&
           op->results[0]->type.dtype == DT_F32;
}

static void
add_clocks(Clocks *c, const Target *target, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool seldom = op->op == TIR_IF && op->by_rows; /* its first block is taken seldom */
        for (uint32_t k = seldom; k < op->n_blocks; k++)
            add_clocks(c, target, op->blocks[k]);
        if (op->op == TIR_MMA)
            c->tensor += 2.0 * (double)tir_type_elements(op->results[0]->type) *
                         op->args[0]->type.dim[1] /
                         target_mma_flops(target, product_form(target, op));
        OpUse use = op_use(op);
        if (!op_use_is_steady(&use) || op->results[0]->type.dtype == DT_BOOL)
            continue;
        double elements = (double)tir_type_elements(use.of->type);
        c->special += use.mufu * elements / target->chip.special_ops;
        c->floats += use.alu * elements / target->chip.float_ops;
        c->exp2 += can_split(op) ? elements : 0;
        c->large += can_split(op) && !op->small ? elements : 0;
    }
}

static uint32_t
share(const Clocks *c, const Target *target, bool alone)
{
    double most = alone ? c->tensor - c->floats : c->tensor * 13 / 16;
    double operations = c->exp2 * PER_EXP2 + c->large * PER_LARGE;
    uint32_t n = 0;

    for (; n < MOST; n++) {
        double part = (double)n / EXP2_OF;
        double special = c->special - part * c->exp2 / target->chip.special_ops;
        double floats = c->floats + part * operations / target->chip.float_ops;
        if (special <= most || special <= floats)
            break;
    }
    return n;
}

static bool
set_share(const TirBlock *block, uint32_t n)
{
    bool changed = false;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (!can_split(walk.op))
            continue;
        walk.op->polynomial = n;
        changed = true;
    }
    return changed;
}

bool
pass_split_exp2(PassContext *px, TirFn *fn)
{
    bool changed = false;

    if (fn->plan == NULL || !target_can(px->target, CAN_COMPUTE_TWO))
        return false;
    for (uint32_t i = 0; i < fn->body->ops.n; i++) {
        const TirOp *loop = fn->body->ops.at[i];
        Clocks clocks = {0};
        if (loop->op != TIR_FOR)
            continue;
        add_clocks(&clocks, px->target, loop->blocks[0]);
        uint32_t n = clocks.tensor > 0 ? share(&clocks, px->target, tir_consumers(fn->plan) == 1)
                                       : 0;
        changed |= n > 0 && set_share(loop->blocks[0], n);
    }
    return changed;
}
