/* fuse.c - exponentials in base 2, and multiply-adds.
 *
 *   level    tile IR
 *   does     exp(x) -> exp2(x * log2 e); x * y + z -> fma(x, y, z) and x * y - z -> fma(x, y, -z)
 *            when the product has no other use, in f32, and the sum need not be rounded as written
 *            (round.c)
 *   leaves   the same program up to rounding; elements of a fused chain are one instruction each
 *
 * Special functions are also lowered to their approximate forms with flushed denormals when this
 * pass is on.
 */
#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Fuser {
    uint32_t n;     /* values before the pass */
    uint32_t *uses; /* of those, by id */
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
           value->id < f->n && f->uses[value->id] == 1;
}

static TirVal *
fused(Fuser *f, TirBuilder *b, const TirOp *op)
{
    TirVal *x = op->args[0], *y = op->n_args > 1 ? op->args[1] : NULL, *args[3];

    if (op->op == TIR_EXP) {
        TirVal *log2_e = tir_splat_const(b, x->type, 1.4426950408889634);
        return tir_unary(b, TIR_EXP2, tir_binary(b, TIR_MUL, x, log2_e));
    }
    if (op->results[0]->type.dtype != DT_F32 || (op->op != TIR_ADD && op->op != TIR_SUB) ||
        op->rounded)
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
count_args(Fuser *f, const TirOp *op)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (op->args[k]->id < f->n)
            f->uses[op->args[k]->id]++;
    }
}

static void
count_block(Fuser *f, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        count_args(f, block->ops.at[i]);
        for (uint32_t k = 0; k < block->ops.at[i]->n_blocks; k++)
            count_block(f, block->ops.at[i]->blocks[k]);
    }
}

static TirVal *
fuse_op(void *user, TirBuilder *b, TirOp *op)
{
    Fuser *f = user;
    uint32_t first = b->block->ops.n;
    TirVal *result = op->n_args > 0 ? fused(f, b, op) : NULL;

    for (uint32_t k = first; k < b->block->ops.n; k++)
        count_args(f, b->block->ops.at[k]);
    return result;
}

bool
pass_fuse(PassContext *px, TirFn *fn)
{
    Fuser f = {.n = fn->next_id};

    f.uses = arena_array(px->arena, uint32_t, f.n + 1);
    count_block(&f, fn->body);
    bool changed = tir_rewrite(px->arena, fn, fn->body, fuse_op, &f);
    if (changed)
        pass_simplify(px, fn);
    return changed;
}
