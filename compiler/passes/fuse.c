/* fuse.c - exponentials in base 2, and multiply-adds.
 *
 *   level    tile IR
 *   does     exp(x) -> exp2(x * log2 e); x * y + z -> fma(x, y, z) and x * y - z -> fma(x, y, -z)
 *            when the product has no other use, in f32
 *   leaves   the same program up to rounding; elements of a fused chain are one instruction each
 *
 * Special functions are also lowered to their approximate forms with flushed denormals when this
 * pass is on.
 */
#include "compiler/passes/tir_util.h"
#include "compiler/pass.h"

typedef struct Fuser {
    PassContext *px;
    TirFn *fn;
    bool changed;
} Fuser;

static TirVal *
negated(Fuser *f, TirBuilder *b, TirVal *value)
{
    TirOp *op = value->def;

    /* A row that is broadcast is negated before it grows. */
    if (op != NULL && (op->op == TIR_BROADCAST || op->op == TIR_EXPAND) &&
        op->args[0]->type.dtype == DT_F32) {
        TirVal *inner = negated(f, b, op->args[0]);
        TirOp *again = tir_op_new(b, op->op, 1, &inner, 1, &value->type);
        again->axis = op->axis;
        return again->results[0];
    }
    return tir_unary(b, TIR_NEG, value);
}

static bool
is_lone_mma(const Fuser *f, const TirVal *value)
{
    return value->def != NULL && value->def->op == TIR_MUL && value->type.dtype == DT_F32 &&
           count_uses(f->fn, value) == 1;
}

static TirVal *
fused(Fuser *f, TirBuilder *b, const TirOp *op)
{
    TirVal *x = op->args[0], *y = op->n_args > 1 ? op->args[1] : NULL, *args[3];

    if (op->op == TIR_EXP) {
        TirVal *log2_e = tir_splat_const(b, x->type, 1.4426950408889634);
        return tir_unary(b, TIR_EXP2, tir_binary(b, TIR_MUL, x, log2_e));
    }
    if (op->results[0]->type.dtype != DT_F32 || (op->op != TIR_ADD && op->op != TIR_SUB))
        return NULL;
    if (is_lone_mma(f, x)) {
        args[0] = x->def->args[0];
        args[1] = x->def->args[1];
        args[2] = op->op == TIR_ADD ? y : negated(f, b, y);
    } else if (op->op == TIR_ADD && is_lone_mma(f, y)) {
        args[0] = y->def->args[0];
        args[1] = y->def->args[1];
        args[2] = x;
    } else {
        return NULL;
    }
    return tir_op_new(b, TIR_FMA, 3, args, 1, &op->results[0]->type)->results[0];
}

static void
fuse_block(Fuser *f, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            fuse_block(f, op->blocks[k]);
        if (op->n_results != 1 || op->n_args == 0)
            continue;
        TirBuilder b = {.fn = f->fn, .block = block, .at = (int32_t)i, .span = op->span};
        TirVal *result = fused(f, &b, op);
        if (result == NULL)
            continue;
        result->name = op->results[0]->name;
        tir_replace_uses(f->fn, op->results[0], result);
        f->changed = true;
        i = (uint32_t)b.at; /* the operation itself stands there now, unused */
    }
}

bool
pass_fuse(PassContext *px, TirFn *fn)
{
    Fuser f = {.px = px, .fn = fn};
    fuse_block(&f, fn->body);
    if (f.changed)
        pass_simplify(px, fn);
    return f.changed;
}
