/* lower_words.c - words of elements, casts, and which instruction is for which type.
 *
 * Elements of less than 32 bits share words of 32 bits in registers, the first of them in the
 * lowest bits.  Arithmetic takes them one by one, in their wide type (dtype_wide): an element is
 * taken out of its word when it is asked for, and put into one, with its neighbours, when an
 * instruction needs the word.  So a cast has up to three steps, out of a word, from one wide type
 * to another, into a word, and each step is a row of casts.def.
 */
#include <math.h>

#include "compiler/lower/lower.h"

/* What a step takes and gives. */
typedef enum CastForm {
    FROM_BOOL,   /* a choice of 1 and 0 */
    TO_BOOL,     /* whether it is not 0 */
    ALONE,       /* an element of a wide type, from another one */
    SAME_BITS,   /* likewise, whose bits are the same */
    CUT_DIGITS,  /* an f32, of whose digits the last ones are rounded away */
    OUT_OF_TOP,  /* the bits of an element, as the upper ones of the result */
    OUT_OF_8,    /* a byte of a word, below its sign or zeros */
    OUT_OF_16,   /* the 16 bits of an element, in a register of their own */
    PAIRS_TO_16, /* two elements, the second one first, to a word of 16 bits each */
    FOURS_TO_8,  /* likewise, below the lower half of a third operand */
    /* of floats of 8 bits (lower_float8.c): */
    OUT_OF_HALF,     /* a half of the word, to two f16 */
    OUT_OF_UPPER,    /* bytes that are the upper ones of f16 */
    OUT_OF_EXPONENT, /* by a product that moves the exponent */
    OUT_OF_POWER,    /* as an exponent */
    PAIRS_TO_8,      /* two elements, the second one first, to a half of the word */
    ROUND_TO_8       /* by a sum that rounds */
} CastForm;

typedef struct Cast {
    DType from, to;
    CastForm form;
    LirOpcode op;
    uint32_t needs;
} Cast;

/* Selectors of prmt: bytes 0 and 2 of two words; bytes 0 and 1 of two; byte 0 of the first below
 * its sign, and from byte to byte; byte 0 of the first below bytes of the second. */
enum {
    EVEN_BYTES = 0x6420,
    LOWER_HALVES = 0x5410,
    SIGNED_BYTE = 0x8880,
    NEXT_SIGNED = 0x1111,
    BYTE_ALONE = 0x4440
};

static const Cast casts[] = {
#define CAST(from, to, form, op, needs) {DT_##from, DT_##to, form, LIR_##op, needs},
#include "compiler/lower/casts.def"
#undef CAST
};

void
lower_fault(Lowering *lo, const char *what, DType dtype)
{
    if (!lo->failed)
        buf_printf(lo->px->bugs, "the lowering has no %s of %s\n", what, dtype_name(dtype));
    lo->failed = true;
}

/* The row for a step; NULL, which is a fault: there is none. */
static const Cast *
find_cast(Lowering *lo, DType from, DType to)
{
    for (uint32_t k = 0; k < sizeof casts / sizeof casts[0]; k++) {
        if (casts[k].from == from && casts[k].to == to && target_can(lo->px->target, casts[k].needs))
            return &casts[k];
    }
    lower_fault(lo, arena_printf(lo->out->arena, "cast to %s", dtype_name(to)), from);
    return NULL;
}

LirClass
lower_class(DType dtype)
{
    switch (dtype_kind(dtype)) {
    case KIND_BOOL: return LIR_PRED;
    case KIND_SIGNED:
    case KIND_UNSIGNED: return LIR_B32;
    case KIND_FLOAT: break;
    }
    return LIR_F32;
}

/* `fetches`: the one that also gives what was there. */
static LirOpcode
find_opcode(TirOpcode op, DType dtype, bool fetches)
{
    static const uint16_t codes[2][TIR_OPCODE_COUNT][DT_COUNT] = {
    /* 1 + opcode; 0: none */
#define OPCODE(op, type, lir) [0][TIR_##op][DT_##type] = 1 + LIR_##lir,
#define FETCH(op, type, lir) [1][TIR_##op][DT_##type] = 1 + LIR_##lir,
#include "compiler/lower/opcodes.def"
    };
    uint16_t code = codes[fetches][op][dtype];

    return code > 0 ? (LirOpcode)(code - 1) : LIR_OPCODE_COUNT;
}

LirOpcode
lower_opcode(TirOpcode op, DType dtype)
{
    return find_opcode(op, dtype, false);
}

LirOpcode
lower_fetch_opcode(TirOpcode op, DType dtype)
{
    return find_opcode(op, dtype, true);
}

LirOpcode
lower_move(DType dtype)
{
    return lower_class(dtype) == LIR_F32 ? LIR_MOV_F32 : LIR_MOV_B32;
}

LirOpcode
lower_choice(DType dtype)
{
    return lower_class(dtype) == LIR_F32 ? LIR_SEL_F32 : LIR_SEL_B32;
}

bool
lower_wraps(DType dtype)
{
    return dtype_kind(dtype) == KIND_UNSIGNED && dtype_wide(dtype) == dtype;
}

static Elem
smaller(Lowering *lo, DType dtype, Elem elem, double most)
{
    if (elem.kind == ELEM_INT)
        return (double)elem.integer < most ? elem : elem_int((int64_t)most);
    return elem_reg(lir_op2(&lo->b, lower_opcode(TIR_MIN, dtype), LIR_B32,
                            lir_reg(lower_elem_reg(lo, elem, LIR_B32)), lir_int((int64_t)most)));
}

/* Half of the last digit that is kept, less than that where this is even, carries into it; a NaN's
 * would become no NaN. */
static Elem
cut_digits(Lowering *lo, const Cast *cast, LirReg number)
{
    LirBuilder *b = &lo->b;
    int32_t lost = dtype_digits(DT_F32) - dtype_digits(cast->to);
    LirReg bits = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_reg(number));
    LirReg odd = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(bits), lir_int(lost));

    odd = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(odd), lir_int(1));
    LirReg more = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(bits), lir_int((1 << (lost - 1)) - 1));
    more = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(more), lir_reg(odd));
    more = lir_op2(b, cast->op, LIR_B32, lir_reg(more), lir_int(-(1 << lost)));
    LirReg none = lir_op2(b, LIR_SETP_NE_F32, LIR_PRED, lir_reg(number), lir_reg(number));
    LirReg cut = lir_op1(b, LIR_MOV_F32, LIR_F32, lir_reg(more));
    return elem_reg(lir_op3(b, LIR_SEL_F32, LIR_F32, lir_float(NAN), lir_reg(cut), lir_reg(none)));
}

/* An f32 to a type that has fewer digits and no words. */
static Elem
rounded(Lowering *lo, DType to, Elem elem)
{
    const Cast *cast = elem.kind == ELEM_FLOAT ? NULL : find_cast(lo, DT_F32, to);

    if (cast == NULL)
        return elem.kind == ELEM_FLOAT ? elem_float(dtype_nearest(to, elem.number)) : elem;
    LirReg number = lower_elem_reg(lo, elem, LIR_F32);
    return cast->form == CUT_DIGITS
               ? cut_digits(lo, cast, number)
               : lower_elem_of_bits(lo, to, lir_op1(&lo->b, cast->op, LIR_B32, lir_reg(number)));
}

/* From one wide type to another. */
static Elem
cast_wide(Lowering *lo, DType from, DType to, Elem elem)
{
    DType wide = dtype_wide(from), result = dtype_wide(to);
    const Cast *cast = wide == result ? NULL : find_cast(lo, wide, result);
    LirClass class = lower_class(result);
    bool to_float = class == LIR_F32;

    if (cast == NULL)
        return elem;
    if (lower_wraps(from) && !dtype_is_float(to) && dtype_per_word(to) > 1)
        elem = smaller(lo, from, elem, dtype_highest(to)); /* saturates as signed */
    if (elem.kind == ELEM_INT && cast->form == SAME_BITS)
        return elem_int(dtype_wrap(result, elem.integer));
    if (cast->form == FROM_BOOL)
        return lower_select(lo, result, elem, to_float ? elem_float(1) : elem_int(1),
                            to_float ? elem_float(0) : elem_int(0));
    if (elem.kind == ELEM_INT && cast->form == ALONE && to_float)
        return elem_float((float)elem.integer);
    LirOperand x = lir_reg(lower_elem_reg(lo, elem, lower_class(wide)));
    if (cast->form == ALONE || cast->form == SAME_BITS)
        return elem_reg(lir_op1(&lo->b, cast->op, class, x));
    return elem_reg(lir_op2(&lo->b, cast->op, class, x,
                            lower_class(wide) == LIR_F32 ? lir_float(0) : lir_int(0)));
}

Elem
lower_cast(Lowering *lo, DType from, DType to, Elem elem)
{
    elem = cast_wide(lo, from, to, elem);
    /* what is narrower and shares words is rounded when its word is made */
    return dtype_per_word(to) == 1 && dtype_wide(to) != to ? rounded(lo, to, elem) : elem;
}

/* ---- words ---- */

int32_t
lower_per_word(const TirVal *value)
{
    return (int32_t)dtype_per_word(value->type.dtype);
}

LirReg
lower_half(Lowering *lo, LirReg word, bool high)
{
    LirReg lower = lir_new_reg(&lo->b, LIR_B16), upper = lir_new_reg(&lo->b, LIR_B16);
    LirOperand operands[] = {lir_reg(lower), lir_reg(upper), lir_reg(word)};
    lir_emit(&lo->b, LIR_UNPACK_B32, 2, 3, operands);
    return high ? upper : lower;
}

LirReg
lower_single(Lowering *lo, LirReg word, int32_t bits, int32_t at)
{
    int32_t below = bits * at % 16;

    if (below != 0)
        word = lir_op2(&lo->b, LIR_SHR_U32, LIR_B32, lir_reg(word), lir_int(below));
    return lower_half(lo, word, bits * at >= 16);
}

LirReg
lower_word_of_single(Lowering *lo, LirReg single, LirReg zero, int32_t bits, int32_t at)
{
    bool high = bits * at >= 16;
    LirReg word = lir_op2(&lo->b, LIR_PACK_B32, LIR_B32, lir_reg(high ? zero : single),
                          lir_reg(high ? single : zero));
    int32_t below = bits * at % 16;

    return below == 0 ? word : lir_op2(&lo->b, LIR_SHL_B32, LIR_B32, lir_reg(word), lir_int(below));
}

LirReg
lower_join_singles(Lowering *lo, DType dtype, const LirReg *singles)
{
    LirBuilder *b = &lo->b;
    LirReg word = lir_op2(b, LIR_PACK_B32, LIR_B32, lir_reg(singles[0]), lir_reg(singles[1]));

    if (dtype_bits(dtype) == 16)
        return word;
    if (dtype_bits(dtype) != 8)
        lower_fault(lo, "word of single elements", dtype);
    LirReg high = lir_op2(b, LIR_PACK_B32, LIR_B32, lir_reg(singles[2]), lir_reg(singles[3]));
    return lir_op3(b, LIR_PRMT, LIR_B32, lir_reg(word), lir_reg(high), lir_int(EVEN_BYTES));
}

/* A whole number that becomes a byte without a sign.  Of a maximum with zero, a conversion and a
 * pack ptxas (12.8 to 13.5) makes one instruction, F2IP.U8 with .RELU, at which an H200 stops:
 * CUDA_ERROR_ILLEGAL_INSTRUCTION.  It knows a maximum with zero by comparisons and by bits, too, so
 * every such conversion is that of a maximum with 1/2, which is the same byte. */
static LirReg
unsigned_byte(Lowering *lo, LirReg word)
{
    const LirInsn *def = lo->b.fn->regs.at[word].def;

    if (def == NULL || def->op != LIR_CVT_S32_F32)
        return word;
    LirOperand x = def->operands[1];
    const LirInsn *most = x.kind == LIR_REG ? lo->b.fn->regs.at[x.reg].def : NULL;
    if (most != NULL && most->op == LIR_MAX_F32 && most->operands[2].kind == LIR_FLOAT &&
        (most->operands[2].integer & INT32_MAX) == 0) /* either zero */
        x = most->operands[1];
    LirReg least = lir_op2(&lo->b, LIR_MAX_F32, LIR_F32, x, lir_float(0.5F));
    return lir_op1(&lo->b, LIR_CVT_S32_F32, LIR_B32, lir_reg(least));
}

static LirReg
fours_to_8(Lowering *lo, const Cast *cast, const Elem *elems)
{
    LirOperand word = lir_int(0);

    for (int32_t k = 2; k >= 0; k -= 2) {
        LirReg upper = lower_elem_reg(lo, elems[k + 1], LIR_B32);
        LirReg lower = lower_elem_reg(lo, elems[k], LIR_B32);
        if (cast->to == DT_U8) {
            upper = unsigned_byte(lo, upper);
            lower = unsigned_byte(lo, lower);
        }
        word = lir_reg(lir_op3(&lo->b, cast->op, LIR_B32, lir_reg(upper), lir_reg(lower), word));
    }
    return word.reg;
}

LirReg
lower_make_word(Lowering *lo, DType dtype, const Elem *elems)
{
    const Cast *cast = find_cast(lo, dtype_wide(dtype), dtype);

    if (cast == NULL)
        return lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_int(0));
    if (cast->form == FOURS_TO_8)
        return fours_to_8(lo, cast, elems);
    if (cast->form == PAIRS_TO_8)
        return lower_pairs_to_8(lo, cast->op, elems);
    if (cast->form == ROUND_TO_8)
        return lower_round_to_8(lo, dtype, elems);
    LirReg upper = lower_elem_reg(lo, elems[1], LIR_F32);
    LirReg lower = lower_elem_reg(lo, elems[0], LIR_F32);
    return lir_op2(&lo->b, cast->op, LIR_B32, lir_reg(upper), lir_reg(lower));
}

Elem
lower_elem_of_word(Lowering *lo, DType dtype, LirReg word, int32_t at)
{
    const Cast *cast = find_cast(lo, dtype, dtype_wide(dtype));
    int32_t bits = (int32_t)dtype_bits(dtype), above = 32 - bits * (at + 1);

    if (cast == NULL)
        return elem_int(0);
    if (cast->form == OUT_OF_HALF)
        return lower_float8_half(lo, cast->op, word, at);
    if (cast->form == OUT_OF_UPPER)
        return lower_float8_upper(lo, word, at);
    if (cast->form == OUT_OF_EXPONENT)
        return lower_float8_exponent(lo, dtype, word, at);
    if (cast->form == OUT_OF_POWER)
        return lower_float8_power(lo, cast->op, word, at);
    LirOperand x = lir_reg(word);
    if (cast->form == OUT_OF_8)
        return elem_reg(
            lir_op3(&lo->b, cast->op, LIR_B32, x, lir_int(0),
                    lir_int(dtype_kind(dtype) == KIND_SIGNED ? SIGNED_BYTE + at * NEXT_SIGNED
                                                             : BYTE_ALONE + at)));
    if (cast->form == OUT_OF_16) {
        x = lir_reg(lower_single(lo, word, bits, at));
    } else {
        if (above > 0)
            x = lir_reg(lir_op2(&lo->b, LIR_SHL_B32, LIR_B32, x, lir_int(above)));
        if (at > 0) /* what was below is gone else */
            x = lir_reg(
                lir_op2(&lo->b, LIR_AND_B32, LIR_B32, x, lir_int(0xffffffff << (32 - bits))));
    }
    return elem_reg(lir_op1(&lo->b, cast->op, lower_class(dtype_wide(dtype)), x));
}

/* ---- elements as 32 bits ---- */

LirReg
lower_bits(Lowering *lo, DType dtype, Elem elem)
{
    LirClass class = lower_class(dtype);

    if (class == LIR_PRED && elem.kind == ELEM_BOOL)
        return lower_elem_reg(lo, elem_int(elem.integer), LIR_B32);
    LirReg reg = lower_elem_reg(lo, elem, class);
    return class == LIR_B32 ? reg
           : class == LIR_F32
               ? lir_op1(&lo->b, LIR_MOV_B32, LIR_B32, lir_reg(reg))
               : lir_op3(&lo->b, LIR_SEL_B32, LIR_B32, lir_int(1), lir_int(0), lir_reg(reg));
}

Elem
lower_elem_of_bits(Lowering *lo, DType dtype, LirReg bits)
{
    LirClass class = lower_class(dtype);

    return elem_reg(class == LIR_B32 ? bits
                    : class == LIR_F32
                        ? lir_op1(&lo->b, LIR_MOV_F32, LIR_F32, lir_reg(bits))
                        : lir_op2(&lo->b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(bits), lir_int(0)));
}

LirReg
lower_word(Lowering *lo, TirVal *value, int32_t reg)
{
    if (lower_per_word(value) > 1)
        return lower_shared_word(lo, value, reg / lower_per_word(value));
    return lower_bits(lo, value->type.dtype, lower_elem(lo, value, reg));
}

LirReg
lower_alone(Lowering *lo, TirVal *value, int32_t reg)
{
    int32_t each = lower_per_word(value), bits = (int32_t)dtype_bits(value->type.dtype);
    int32_t below = reg % each * bits;
    LirReg word = lower_word(lo, value, reg);

    if (below > 0)
        word = lir_op2(&lo->b, LIR_SHR_U32, LIR_B32, lir_reg(word), lir_int(below));
    return below + bits == 32 ? word
                              : lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(word),
                                        lir_int(((int64_t)1 << bits) - 1));
}

LirReg
lower_join_lower(Lowering *lo, TirVal *value, int32_t first, int32_t n)
{
    LirReg lower = lower_word(lo, value, first);

    return n < 2 ? lower
                 : lir_op3(&lo->b, LIR_PRMT, LIR_B32, lir_reg(lower),
                           lir_reg(lower_word(lo, value, first + 1)), lir_int(LOWER_HALVES));
}

void
lower_set_word(Lowering *lo, TirVal *value, int32_t reg, LirReg word)
{
    if (lower_per_word(value) > 1)
        lower_state(lo, value)->words[reg / lower_per_word(value)] = word;
    else
        lower_set_elem(lo, value, reg, lower_elem_of_bits(lo, value->type.dtype, word));
}
