/* ast_to_tir_scales.c - operands of products that have a scale for each block of the inner
 * dimension.
 *
 *     mma(a, b, acc, scale_a = sa)    the product of a and sa, repeated along the inner dimension, in bf16:
 *
 *     unfold(fold(a as f32, 1, 32) * (sa as f32)[:, :, None], 1) as bf16
 *
 * In bf16 such a product is exact: an element has 4 digits at most, and its scale 1, or both
 * together have 6; and so is an operand without scales beside one that has them.  Behind it are the
 * operands as they are, for targets with an instruction that takes them (form_products.c).
 */
#include "compiler/front/ast_to_tir_internal.h"

bool
is_scaled_type(DType dtype)
{
    return dtype_has(dtype, USE_SCALED);
}

/* Of how many elements a scale is, and whether a tile can be the scales of such elements; else an
 * error. */
static bool
block_of(Lower *low, const ScaledOperand *operand, int32_t *block)
{
    const Value *scale = operand->scale;
    DType dtype = scale->type.dtype, of = operand->value->type.dtype;

    if (scale->kind != VALUE_TILE || !dtype_has(dtype, USE_SCALES)) {
        fail(low, operand->scale_span,
             "E-PRODUCT: %s is a tile of e8m0, one for 32 elements of the inner dimension, or of e4m3, "
             "one for 16 of e2m1, not %s",
             operand->name, value_text(low, scale));
        return false;
    }
    *block = dtype_is_scale(dtype) ? 32 : 16;
    if (dtype_is_scale(dtype) || dtype_has(of, USE_PACKED))
        return true;
    fail(low, operand->scale_span,
         "E-PRODUCT: scales of %s are of e8m0, one for 32 elements; only e2m1 has those of %s, "
         "one for 16",
         dtype_name(of), dtype_name(dtype));
    return false;
}

/* Whether the scales are as many as there are blocks; else an error. */
static bool
fits_blocks(Lower *low, const ScaledOperand *operand, int32_t block)
{
    TirType type = operand->value->type, want = type;
    int32_t inner = type.dim[operand->axis];

    want.dtype = operand->scale->type.dtype;
    want.dim[operand->axis] = inner / block;
    if (inner % block == 0 && tir_same_shape(want, operand->scale->type))
        return true;
    if (inner % block != 0)
        fail(low, operand->scale_span,
             "E-SHAPE: a scale of %s is of %d elements, of which the inner dimension of %s is no "
             "multiple",
             dtype_name(want.dtype), block, type_text(low, type));
    else
        fail(low, operand->scale_span, "E-SHAPE: %s of %s is %s, one for %d elements%s, not %s",
             operand->name, type_text(low, type), type_text(low, want), block,
             block == 32 ? " (only e2m1 has scales for 16, of e4m3)" : "",
             value_text(low, operand->scale));
    return false;
}

TirVal *
scaled_operand(Lower *low, const ScaledOperand *operand)
{
    TirBuilder *b = &low->b;
    const Value *x = operand->value;
    int32_t block;

    Value wide = x->kind == VALUE_PACKED ? cast_packed(low, operand->span, x, DT_F32)
                                         : value_cast(low, operand->span, x, DT_F32);
    if (wide.kind == VALUE_ERROR)
        return NULL;
    if (operand->scale == NULL)
        return tir_cast(b, wide.tir, DT_BF16);
    if (!block_of(low, operand, &block) || !fits_blocks(low, operand, block))
        return NULL;
    b->span = operand->span;
    TirVal *blocks = tir_fold(b, TIR_FOLD, wide.tir, operand->axis, block);
    TirVal *scale = tir_expand(b, tir_cast(b, operand->scale->tir, DT_F32), operand->axis + 1);
    scale = tir_broadcast_to(b, scale, &blocks->type);
    TirVal *scaled = tir_binary(b, TIR_MUL, blocks, scale);
    return tir_cast(b, tir_fold(b, TIR_UNFOLD, scaled, operand->axis, 1), DT_BF16);
}

/* A side as it is, of a type that the other side's goes with; NULL: it is not so. */
static TirVal *
own_tile(Lower *low, const ScaledOperand *side, const ScaledOperand *other)
{
    const Value *x = side->value;

    if (x->kind != VALUE_PACKED)
        return x->tir;
    if (other->value->kind == VALUE_PACKED)
        return packed_bytes(low, x, side->axis);
    TirVal *above = tir_splat_const(&low->b, x->tir->type, 2);
    return tir_cast(&low->b, tir_binary(&low->b, TIR_SHL, x->tir, above), DT_U8);
}

/* The scales of a side; without any: ones of the other's type, for as many elements each. */
static TirVal *
own_scales(Lower *low, const ScaledOperand *side, const ScaledOperand *other)
{
    TirType type = side->value->type;

    if (side->scale != NULL)
        return side->scale->tir;
    int32_t blocks = other->scale->type.dim[other->axis];
    type.dtype = other->scale->type.dtype;
    type.dim[side->axis] = blocks;
    return tir_splat_const(&low->b, type, 1.0);
}

bool
own_operands(Lower *low, const ScaledOperand sides[2], TirVal *own[4])
{
    for (uint32_t k = 0; k < 2; k++) {
        own[k] = sides[k].value->type.rank == 2 ? own_tile(low, &sides[k], &sides[1 - k]) : NULL;
        if (own[k] == NULL)
            return false;
        own[2 + k] = own_scales(low, &sides[k], &sides[1 - k]);
    }
    return own[2]->type.dtype == own[3]->type.dtype;
}
