/* fuse.c - exponentials in base 2, and multiply-adds.
 *
 *   level    tile IR
 *   does     exp(x) -> exp2(x * log2 e); x * y + z -> fma(x, y, z) and x * y - z -> fma(x, y, -z)
 *            when the product has no other use, in f32, and z is no product itself: s * c - m * c is 0 where s is m, however
 *            large they are, and rounding one of the two alone leaves 2^-24 of them
 *   leaves   the same program up to rounding; elements of a fused chain are one instruction each
 *
 * Special functions are also lowered to their approximate forms with flushed denormals when this
 * pass is on.
 */
#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Fuser {
    PassContext *px;
    TirFn *fn;
    /* values before the pass; what it makes itself is no product of an addition */
    uint32_t n;
    uint32_t *uses;   /* of those, by id */
    uint8_t *product; /* of those, by id: PRODUCT, IN_SUM */
    bool *exponent; /* of those, by id: an exponential is taken of it, or of what it is a part of */
    TirVal **instead; /* of those, by id: what stands for it, NULL: itself */
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

/* What is known of a value: it is a rounded product, or was chosen among such; it is a sum that has one in it. */
enum { PRODUCT = 1, IN_SUM = 2 };

/* What an operation's result has of its operands: of which, and whether sums count. */
static uint8_t
product_of(const Fuser *f, const TirOp *op)
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
    case TIR_TRANSPOSE: n = 1; break;
    default: /* one of the elements, or a sum of them */
        n = tir_combines(op) && op->reduce != REDUCE_SUM;
        break;
    }
    for (uint32_t k = first; k < n && k < op->n_args; k++)
        known |= f->product[op->args[k]->id];
    if ((op->op == TIR_ADD || op->op == TIR_SUB) && known != 0)
        known = IN_SUM;
    return known;
}

/* Returns whether something became known. */
static bool
learn(Fuser *f, const TirVal *value, uint8_t known)
{
    if (value->type.dtype != DT_F32 || (f->product[value->id] | known) == f->product[value->id])
        return false;
    f->product[value->id] |= known;
    return true;
}

/* Products of a block, in the order of definitions; what a loop sums up itself is left to multiply-adds. */
static bool
learn_products(Fuser *f, const TirBlock *block)
{
    bool more = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; op->op == TIR_FOR && k < op->n_results; k++)
            more |= learn(f, op->blocks[0]->params.at[k + 1],
                          f->product[op->args[loop_first_initial(op) + k]->id]);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            more |= learn_products(f, op->blocks[k]);
        for (uint32_t k = 0; k < op->n_results; k++) {
            if (op->op == TIR_FOR) {
                uint8_t next = f->product[block_yield(op->blocks[0])->args[k]->id] & PRODUCT;
                more |= learn(f, op->blocks[0]->params.at[k + 1], next);
                more |= learn(f, op->results[k], f->product[op->blocks[0]->params.at[k + 1]->id]);
            } else if (op->op == TIR_IF) {
                for (uint32_t side = 0; side < 2; side++)
                    more |= learn(f, op->results[k],
                                  f->product[block_yield(op->blocks[side])->args[k]->id]);
            } else {
                more |= learn(f, op->results[k], product_of(f, op));
            }
        }
    }
    return more;
}

/* Whether a value is a product; with `in_sums`, or has one in it. */
static bool
is_product(const Fuser *f, const TirVal *value, bool in_sums)
{
    if (value->id >= f->n) /* made here: of what is negated or fused */
        return in_sums && value->def->op == TIR_FMA;
    return (f->product[value->id] & (in_sums ? PRODUCT | IN_SUM : PRODUCT)) != 0;
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
    if (op->results[0]->type.dtype != DT_F32 || (op->op != TIR_ADD && op->op != TIR_SUB))
        return NULL;
    bool exponent = op->results[0]->id < f->n && f->exponent[op->results[0]->id];
    if (is_lone_mma(f, x) && !is_product(f, y, exponent)) {
        args[0] = x->def->args[0];
        args[1] = x->def->args[1];
        args[2] = op->op == TIR_ADD ? y : negated(f, b, y);
    } else if (op->op == TIR_ADD && is_lone_mma(f, y) && !is_product(f, x, exponent)) {
        args[0] = y->def->args[0];
        args[1] = y->def->args[1];
        args[2] = x;
    } else {
        return NULL;
    }
    return tir_op_new(b, TIR_FMA, 3, args, 1, &op->results[0]->type)->results[0];
}

/* Marks what an exponential is taken of, and what that is made of. */
static void
mark_exponent(Fuser *f, const TirVal *value)
{
    const TirOp *op = value->def;

    if (f->exponent[value->id])
        return;
    f->exponent[value->id] = true;
    if (op == NULL)
        return;
    if (op->op == TIR_IF) {
        for (uint32_t k = 0; k < op->n_blocks; k++)
            mark_exponent(f, block_yield(op->blocks[k])->args[value->index]);
    } else if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 || op->op == TIR_BROADCAST ||
               op->op == TIR_EXPAND || op->op == TIR_SQUEEZE || op->op == TIR_TRANSPOSE) {
        for (uint32_t k = 0; k < op->n_args; k++)
            mark_exponent(f, op->args[k]);
    }
}

static void
mark_exponents(Fuser *f, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_EXP || op->op == TIR_EXP2)
            mark_exponent(f, op->args[0]);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            mark_exponents(f, op->blocks[k]);
    }
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

/* Writes the block anew: work in proportion to its length, however much is fused.  What was replaced stays,
 * unused. */
static void
fuse_block(Fuser *f, TirBlock *block)
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
            fuse_block(f, op->blocks[k]);
        if (op->n_results == 1 && op->n_args > 0) {
            TirBuilder b = {.fn = f->fn, .block = block, .at = -1, .span = op->span};
            uint32_t first = block->ops.n;
            TirVal *result = fused(f, &b, op);
            for (uint32_t k = first; k < block->ops.n; k++)
                count_args(f, block->ops.at[k]);
            if (result != NULL) {
                result->name = op->results[0]->name;
                f->instead[op->results[0]->id] = result;
                f->changed = true;
            }
        }
        vec_push(f->fn->arena, &block->ops, op);
    }
}

bool
pass_fuse(PassContext *px, TirFn *fn)
{
    Fuser f = {.px = px, .fn = fn, .n = fn->next_id};

    f.uses = arena_array(px->arena, uint32_t, f.n + 1);
    f.instead = arena_array(px->arena, TirVal *, f.n + 1);
    f.exponent = arena_array(px->arena, bool, f.n + 1);
    f.product = arena_array(px->arena, uint8_t, f.n + 1);
    while (learn_products(&f, fn->body)) {
    }
    count_block(&f, fn->body);
    mark_exponents(&f, fn->body);
    fuse_block(&f, fn->body);
    if (f.changed)
        pass_simplify(px, fn);
    return f.changed;
}
