/* form_products.c - products of floats of 8 bits in the form that the target has them.
 *
 *   level    tile IR, before masks and the plan
 *   does     without instructions for such operands: casts both to f16, in which they are exact.  Where the warp groups'
 *            instructions keep fewer bits of sums than f32 has: the product begins at zero, and its sum is added in f32
 *   leaves   a plan may refuse what is longer along the inner dimension than may be added up so (MmaForm.sums)
 *
 *     %acc2 = mma %a, %b, %acc          %p = mma %a, %b, 0
 *                                       %acc2 = add %acc, %p
 */
#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_util.h"

static TirVal *
formed(TirBuilder *b, const Target *target, TirOp *mma)
{
    DType left = mma->args[0]->type.dtype, right = mma->args[1]->type.dtype;
    const MmaForm *role = target_role_mma(target, left, right);

    if (target_mma(target, BY_WARP, left, right) == NULL) {
        for (uint32_t k = 0; k < 2; k++)
            mma->args[k] = tir_cast(b, mma->args[k], DT_F16);
        return NULL;
    }
    if (role == NULL || role->sums == 0 || role->issuer != BY_WARP_GROUP ||
        tir_is_zero(mma->args[2]))
        return NULL;
    TirVal *sum = tir_mma(b, mma->args[0], mma->args[1], NULL);
    return tir_binary(b, TIR_ADD, mma->args[2], sum);
}

typedef struct Former {
    const Target *target;
    TirFn *fn;
    TirVal **instead; /* by id */
    uint32_t n;
    bool changed;
} Former;

static void
form_block(Former *f, TirBlock *block)
{
    TirOp **ops = block->ops.at;
    uint32_t n = block->ops.n;

    block->ops.at = NULL;
    block->ops.n = block->ops.cap = 0;
    for (uint32_t i = 0; i < n; i++) {
        TirOp *op = ops[i];
        for (uint32_t k = 0; k < op->n_args; k++) { /* values are defined before their uses */
            if (op->args[k]->id < f->n && f->instead[op->args[k]->id] != NULL)
                op->args[k] = f->instead[op->args[k]->id];
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            form_block(f, op->blocks[k]);
        if (op->op == TIR_MMA && dtype_is_float(op->args[0]->type.dtype) &&
            dtype_bits(op->args[0]->type.dtype) == 8) {
            TirBuilder b = {.fn = f->fn, .block = block, .at = -1, .span = op->span};
            DType before = op->args[0]->type.dtype;
            TirVal *result = formed(&b, f->target, op);
            f->changed |= result != NULL || op->args[0]->type.dtype != before;
            if (result != NULL) {
                result->name = op->results[0]->name;
                f->instead[op->results[0]->id] = result;
                continue;
            }
        }
        vec_push(f->fn->arena, &block->ops, op);
    }
}

bool
pass_form_products(PassContext *px, TirFn *fn)
{
    Former f = {.target = px->target, .fn = fn, .n = fn->next_id};

    f.instead = arena_array(px->arena, TirVal *, f.n + 1);
    form_block(&f, fn->body);
    return f.changed;
}
