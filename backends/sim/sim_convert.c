/* sim_convert.c - cvt and cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22). */
#include <fenv.h>

#include "sim_exec.h"

/* insn->mode[0] SimRounding, [1] rounding is to an integer, [2] flags, [3] bits of the destination
 * register; type and type2 are those of the destination and the source. */
enum { CVT_FTZ = 1, CVT_SAT = 2, CVT_RELU = 4, CVT_FINITE = 8 };

/* ------------------------------------------------------------------------ fast forms */

#define READ_X2                                                                                    \
    SIM_READF(a, 1);                                                                               \
    SIM_READF(b, 2)
/* clang-format off */
SIM_EXEC_(cvt_bf16x2_f32, uint32_t, sim_put32, uint32_t, READ_X2,
          sim_to_bf16(a) << 16 | sim_to_bf16(b))
SIM_EXEC_(cvt_f16x2_f32, uint32_t, sim_put32, uint32_t, READ_X2, sim_to_f16(a) << 16 | sim_to_f16(b))
SIM_EXEC_(cvt_bf16_f32, uint32_t, sim_put32, uint32_t, SIM_READF(a, 1), sim_to_bf16(a))
SIM_EXEC_(cvt_f16_f32, uint32_t, sim_put32, uint32_t, SIM_READF(a, 1), sim_to_f16(a))
SIM_EXEC1_32(cvt_f32_bf16, uint32_t, uint32_t, sim_f32_result(sim_bf16(a & 0xffff)))
SIM_EXEC1_32(cvt_f32_f16, uint32_t, uint32_t, sim_f32_result(sim_f16(a & 0xffff)))
SIM_EXEC1_32(cvt_f32_s32, int32_t, uint32_t, sim_f32_bits((float)a))
SIM_EXEC1_32(cvt_f32_u32, uint32_t, uint32_t, sim_f32_bits((float)a))
SIM_EXEC1_32(cvt_same_32, uint32_t, uint32_t, a)
SIM_EXEC1_64(cvt_same_64, uint64_t, a)
SIM_EXEC_(cvt_u64_u32, uint64_t, sim_put64, uint64_t, SIM_READ32(uint32_t, a, 1), a)
SIM_EXEC_(cvt_s64_s32, uint64_t, sim_put64, uint64_t, SIM_READ32(int32_t, a, 1), a)
SIM_EXEC_(cvt_u32_u64, uint32_t, sim_put32, uint32_t, SIM_READ64(uint64_t, a, 1), a)
/* clang-format on */

/* ------------------------------------------------------------------------ the general form */

static bool
is_integer(SimType type)
{
    char kind = sim_type_info(type)->kind;
    return kind == 'u' || kind == 's' || kind == 'b';
}

static uint64_t
cut(uint64_t value, uint32_t bits)
{
    return bits >= 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static int64_t
sign_extend(uint64_t value, uint32_t bits)
{
    return bits >= 64 ? (int64_t)value : (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static double
to_integral(double v, SimRounding rounding)
{
    switch (rounding) {
    case SIM_RZ: return trunc(v);
    case SIM_RM: return floor(v);
    case SIM_RP: return ceil(v);
    default: return nearbyint(v); /* to nearest even: the mode is never another one here */
    }
}

/* Float to integer: clamps to the range.  NaN gives 0, or the top bit alone where one of the two
 * types has 64 bits. */
static uint64_t
float_to_integer(double v, SimType from, SimType to, SimRounding rounding)
{
    uint32_t bits = sim_type_info(to)->bits;
    bool is_signed = sim_type_info(to)->kind == 's';
    if (isnan(v))
        return from == SIM_F64 || bits == 64 ? UINT64_C(1) << (bits - 1) : 0;
    v = to_integral(v, rounding);
    double limit = ldexp(1.0, (int)bits - (is_signed ? 1 : 0));
    if (is_signed) {
        if (v >= limit)
            return cut(~UINT64_C(0), bits - 1);
        if (v < -limit)
            return UINT64_C(1) << (bits - 1);
        return cut((uint64_t)(int64_t)v, bits);
    }
    return v >= limit ? cut(~UINT64_C(0), bits) : v <= 0 ? 0 : (uint64_t)v;
}

/* Integer to a float narrower than 53 bits: the value is first made exact in a double, with what
 * is lost kept as a sticky lowest bit. */
static double
sticky_double(uint64_t magnitude)
{
    int lost = magnitude >> 53 ? 64 - __builtin_clzll(magnitude) - 53 : 0;
    uint64_t low = magnitude & ((UINT64_C(1) << lost) - 1);
    return ldexp((double)(magnitude >> lost | (low != 0)), lost);
}

static uint64_t
integer_to_float(uint64_t bits, SimType from, SimType to, SimRounding rounding)
{
    bool negative = sim_type_info(from)->kind == 's' && (int64_t)bits < 0;
    uint64_t magnitude = negative ? 0 - bits : bits;
    if (to == SIM_F64) {
        static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
        volatile uint64_t m = magnitude;
        int mode = modes[rounding];
        if (negative && mode != FE_TONEAREST && mode != FE_TOWARDZERO)
            mode = mode == FE_UPWARD ? FE_DOWNWARD : FE_UPWARD;
        fesetround(mode);
        volatile double d = (double)m;
        fesetround(FE_TONEAREST);
        return sim_f64_bits(negative ? -d : d);
    }
    double v = sticky_double(magnitude);
    return sim_round(negative ? -v : v, to, rounding, false);
}

static uint64_t
saturate_integer(int64_t value, bool from_unsigned, SimType to)
{
    uint32_t bits = sim_type_info(to)->bits;
    bool huge = from_unsigned && value < 0; /* above the signed range */
    if (sim_type_info(to)->kind == 's') {
        int64_t top = (int64_t)cut(~UINT64_C(0), bits - 1);
        return cut((uint64_t)(huge || value > top ? top
                              : value < -top - 1  ? -top - 1
                                                  : value),
                   bits);
    }
    uint64_t top = cut(~UINT64_C(0), bits);
    return !huge && value < 0 ? 0 : (uint64_t)value > top ? top : (uint64_t)value;
}

static uint64_t
convert(const SimInsn *insn, uint64_t bits)
{
    SimType to = (SimType)insn->type, from = (SimType)insn->type2;
    uint8_t flags = insn->mode[2];
    SimRounding rounding = (SimRounding)insn->mode[0];
    uint32_t from_bits = sim_type_info(from)->bits;
    bits = cut(bits, from_bits);
    if (is_integer(from)) {
        bool is_signed = sim_type_info(from)->kind == 's';
        uint64_t wide = is_signed ? (uint64_t)sign_extend(bits, from_bits) : bits;
        if (!is_integer(to))
            return integer_to_float(wide, from, to, rounding);
        if (flags & CVT_SAT)
            return saturate_integer((int64_t)wide, !is_signed, to);
        return cut(wide, sim_type_info(to)->bits);
    }
    if (from == SIM_F32 && flags & CVT_FTZ)
        bits = sim_flush((uint32_t)bits);
    double v = sim_value(bits, from);
    if (is_integer(to))
        return float_to_integer(v, from, to, rounding);
    if (insn->mode[1])
        v = to_integral(v, rounding);
    if (flags & CVT_SAT)
        v = v > 0 ? (v < 1 ? v : 1) : 0;
    /* .relu makes -0 of an 8-bit float +0, and leaves it in the others, as sm_90 does. */
    if (flags & CVT_RELU && (v < 0 || (v == 0 && (to == SIM_E4M3 || to == SIM_E5M2))))
        v = 0;
    if (isnan(v) && to == SIM_F32)
        return 0x7fffffff;
    uint64_t out = sim_round(v, to, rounding, flags & CVT_FINITE);
    return to == SIM_F32 && flags & CVT_FTZ ? sim_flush((uint32_t)out) : out;
}

static uint64_t
read_lane(const SimWarp *warp, SimSlot slot, uint32_t l, bool wide)
{
    return wide ? sim_r64(warp, slot)[l] : sim_r32(warp, slot)[l];
}

/* Integers to integers: the upper bits go, those of the source by its sign, and stay away. */
SIM_HOT static void
cut_lanes(uint64_t *x, uint32_t from_bits, bool is_signed, uint32_t to_bits)
{
    uint32_t above = 64 - from_bits, out = 64 - to_bits;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint64_t v = x[l] << above;
        v = is_signed ? (uint64_t)((int64_t)v >> above) : v >> above;
        x[l] = v << out >> out;
    }
}

static SimStep
run_integers(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const SimTypeInfo *from = sim_type_info((SimType)insn->type2);
    const SimTypeInfo *to = sim_type_info((SimType)insn->type);
    uint64_t out[SIM_LANES];
    uint32_t low[SIM_LANES];
    for (uint32_t l = 0; l < SIM_LANES; l++)
        out[l] = read_lane(warp, insn->slot[1], l, insn->mode[4]);
    cut_lanes(out, from->bits, from->kind == 's', to->bits);
    if (to->kind == 's') /* into a wider register */
        cut_lanes(out, to->bits, true, insn->mode[3]);
    for (uint32_t l = 0; l < SIM_LANES; l++)
        low[l] = (uint32_t)out[l];
    if (insn->mode[3] == 64)
        sim_put64(warp, insn->slot[0], out, mask);
    else
        sim_put32(warp, insn->slot[0], low, mask);
    return SIM_NEXT;
}

static SimStep
run_scalar(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    if (is_integer((SimType)insn->type) && is_integer((SimType)insn->type2) &&
        !(insn->mode[2] & CVT_SAT))
        return run_integers(warp, insn, mask);
    uint32_t out32[SIM_LANES], to_bits = sim_type_info((SimType)insn->type)->bits;
    uint64_t out64[SIM_LANES];
    bool extend = sim_type_info((SimType)insn->type)->kind == 's';
    sim_each_lane (l, mask) {
        uint64_t v = convert(insn, read_lane(warp, insn->slot[1], l, insn->mode[4]));
        if (extend) /* into a wider register */
            v = cut((uint64_t)sign_extend(v, to_bits), insn->mode[3]);
        out64[l] = v;
        out32[l] = (uint32_t)v;
    }
    if (insn->mode[3] == 64)
        sim_put64(warp, insn->slot[0], out64, mask);
    else
        sim_put32(warp, insn->slot[0], out32, mask);
    return SIM_NEXT;
}

/* Two f32 to a packed pair: the first source is the upper half. */
static SimStep
run_pack(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES], half = sim_type_info((SimType)insn->type)->bits;
    half = insn->type == SIM_E2M1 ? 4 : half;
    sim_each_lane (l, mask) {
        uint64_t high = convert(insn, sim_r32(warp, insn->slot[1])[l]);
        uint64_t low = convert(insn, sim_r32(warp, insn->slot[2])[l]);
        out[l] = (uint32_t)(high << half | low);
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* A packed pair of narrow floats to f16x2 or bf16x2. */
static SimStep
run_unpack(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES], half = insn->type2 == SIM_E2M1 ? 4 : 8;
    sim_each_lane (l, mask) {
        uint32_t in = sim_r32(warp, insn->slot[1])[l], keep = (1u << half) - 1;
        uint64_t low = convert(insn, in & keep), high = convert(insn, in >> half & keep);
        out[l] = (uint32_t)(high << 16 | low);
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* f16x2 to a packed pair of 8-bit floats, bf16x2 to one of ue8m0. */
static SimStep
run_narrow(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES];
    sim_each_lane (l, mask) {
        uint32_t in = sim_r32(warp, insn->slot[1])[l];
        out[l] = (uint32_t)(convert(insn, in >> 16) << 8 | convert(insn, in & 0xffff));
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ decoding */

static SimType
element_of(SimType type) /* of a packed pair, else SIM_NO_TYPE */
{
    switch (type) {
    case SIM_F16X2: return SIM_F16;
    case SIM_BF16X2: return SIM_BF16;
    case SIM_E4M3X2: return SIM_E4M3;
    case SIM_E5M2X2: return SIM_E5M2;
    case SIM_E2M1X2: return SIM_E2M1;
    case SIM_E2M3X2: return SIM_E2M3;
    case SIM_E3M2X2: return SIM_E3M2;
    case SIM_UE8M0X2: return SIM_UE8M0;
    default: return SIM_NO_TYPE;
    }
}

static SimExec
fast_form(const SimInsn *insn, SimType dst_register)
{
    static const struct {
        SimType to, from;
        SimExec exec;
    } forms[] = {
        {SIM_BF16, SIM_F32, cvt_bf16_f32}, {SIM_F16, SIM_F32, cvt_f16_f32},
        {SIM_F32, SIM_BF16, cvt_f32_bf16}, {SIM_F32, SIM_F16, cvt_f32_f16},
        {SIM_F32, SIM_S32, cvt_f32_s32},   {SIM_F32, SIM_U32, cvt_f32_u32},
        {SIM_U64, SIM_U32, cvt_u64_u32},   {SIM_S64, SIM_S32, cvt_s64_s32},
        {SIM_S64, SIM_U32, cvt_u64_u32},   {SIM_U64, SIM_S32, cvt_s64_s32},
        {SIM_U32, SIM_U64, cvt_u32_u64},   {SIM_U32, SIM_S64, cvt_u32_u64},
        {SIM_S32, SIM_U64, cvt_u32_u64},   {SIM_S32, SIM_S64, cvt_u32_u64},
        {SIM_U32, SIM_U32, cvt_same_32},   {SIM_S32, SIM_U32, cvt_same_32},
        {SIM_U32, SIM_S32, cvt_same_32},   {SIM_S32, SIM_S32, cvt_same_32},
        {SIM_U64, SIM_U64, cvt_same_64},   {SIM_S64, SIM_S64, cvt_same_64},
        {SIM_U64, SIM_S64, cvt_same_64},   {SIM_S64, SIM_U64, cvt_same_64},
    };
    bool exact_register = sim_type_info(dst_register)->bits ==
                          sim_type_info((SimType)insn->type)->bits;
    if (insn->mode[0] != SIM_RN || insn->mode[1] || insn->mode[2] || !exact_register)
        return run_scalar;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].to == (SimType)insn->type && forms[i].from == (SimType)insn->type2 &&
            insn->mode[4] == sim_type_is_wide(forms[i].from))
            return forms[i].exec;
    return run_scalar;
}

static bool
decode_rounding(SimDecode *dx)
{
    static const char *const float_words[] = {"rn", "rz", "rm", "rp", "rna", NULL};
    static const char *const integer_words[] = {"rni", "rzi", "rmi", "rpi", NULL};
    int rounding = dec_choice(dx, float_words);
    if (rounding < 0 && (rounding = dec_choice(dx, integer_words)) >= 0)
        dx->out->mode[1] = 1;
    dx->out->mode[0] = (uint8_t)(rounding < 0 ? SIM_RN : rounding);
    return rounding >= 0;
}

static bool
decode_cvt(SimDecode *dx)
{
    SimInsn *out = dx->out;
    SimType have;
    bool rounded = decode_rounding(dx);
    out->mode[2] = (uint8_t)((dec_take(dx, "ftz") ? CVT_FTZ : 0) |
                             (dec_take(dx, "sat") ? CVT_SAT : 0) |
                             (dec_take(dx, "relu") ? CVT_RELU : 0) |
                             (dec_take(dx, "satfinite") ? CVT_FINITE : 0));
    SimType to = dec_type(dx), from = dec_type(dx), pair = element_of(to);
    if (!to || !from)
        return dec_fail(dx, "needs two types");
    out->type = (uint8_t)to;
    out->type2 = (uint8_t)from;
    if (pair && from == SIM_F32) {
        if (!rounded)
            return dec_fail(dx, "needs a rounding");
        bool plain = out->mode[0] == SIM_RN && !out->mode[2];
        out->type = (uint8_t)pair;
        out->exec = plain && pair == SIM_BF16  ? cvt_bf16x2_f32
                    : plain && pair == SIM_F16 ? cvt_f16x2_f32
                                               : run_pack;
        return dec_plain(dx, to, from, 2);
    }
    if (pair && element_of(from)) {
        out->type = (uint8_t)pair;
        out->type2 = (uint8_t)element_of(from);
        bool narrows = ((pair == SIM_E4M3 || pair == SIM_E5M2) && out->type2 == SIM_F16) ||
                       (pair == SIM_UE8M0 && out->type2 == SIM_BF16);
        if (pair == SIM_UE8M0 && !rounded)
            return dec_fail(dx, "needs a rounding");
        out->exec = narrows ? run_narrow : run_unpack;
        if (!narrows && ((pair != SIM_F16 && pair != SIM_BF16) || out->type2 == SIM_F16))
            return dec_fail(dx, "these types do not go together");
        return dec_plain(dx, to, from, 1);
    }
    if (pair || element_of(from) || to == SIM_PRED || from == SIM_PRED)
        return dec_fail(dx, "these types do not go together");
    bool narrowing = !is_integer(to) && !is_integer(from) &&
                     (sim_type_info(to)->bits < sim_type_info(from)->bits || to == SIM_TF32);
    bool crossing = is_integer(to) != is_integer(from);
    if (!rounded && (narrowing || crossing))
        return dec_fail(dx, "needs a rounding");
    if (rounded && is_integer(to) && is_integer(from))
        return dec_fail(dx, "a rounding between integers is illegal");
    if (!dec_count(dx, 2, 2) || !dec_dst_wide(dx, dec_operand(dx, 0), to, &have))
        return false;
    SimType dst_register = have;
    out->mode[3] = sim_type_info(have)->bits;
    if (!dec_src_wide(dx, dec_operand(dx, 1), from, &have))
        return false;
    out->mode[4] = sim_type_is_wide(have);
    out->exec = fast_form(out, dst_register);
    return true;
}

/* cvt.rs: stochastic rounding.  Of the bits that the format has no room for, and random ones, the
 * carry decides.  Which random bits each source takes the ISA shows as figures: here 13 (f16) or 16
 * (bf16) of the upper half for the first of two sources and of the lower for the second; of four
 * sources the first two have all 16 of the upper half, the others the lower. */
typedef struct Stochastic {
    SimType type;
    int mantissa, lowest; /* exponent of the smallest normal number */
    uint32_t count, bits; /* sources; of an element in the result */
} Stochastic;

static double
round_stochastic(double v, const Stochastic *s, uint32_t random, uint32_t random_bits)
{
    int exponent;
    if (isnan(v) || isinf(v) || v == 0)
        return v;
    frexp(v, &exponent);
    exponent -= 1;
    int quantum = (exponent < s->lowest ? s->lowest : exponent) - s->mantissa;
    double scaled = ldexp(fabs(v), -quantum) + ldexp(random, -(int)random_bits);
    return copysign(ldexp(floor(scaled), quantum), v);
}

static SimStep
run_stochastic(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Stochastic *s = insn->data;
    uint32_t out[SIM_LANES];
    uint32_t n = s->count, random_bits = n == 2 && s->type == SIM_F16 ? 13 : 16;
    sim_each_lane (l, mask) {
        uint32_t random = sim_r32(warp, insn->slot[1 + n])[l], packed = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t part = i < n / 2 ? random >> 16 : random & 0xffff;
            double v = (double)sim_f32(sim_r32(warp, insn->slot[1 + i])[l]);
            v = round_stochastic(v, s, part & ((1u << random_bits) - 1), random_bits);
            if (insn->mode[2] & CVT_RELU && (v < 0 || v == 0))
                v = 0;
            packed = packed << s->bits |
                     (uint32_t)sim_round(v, s->type, SIM_RN, insn->mode[2] & CVT_FINITE);
        }
        out[l] = packed;
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

static bool
decode_stochastic(SimDecode *dx)
{
    static const struct {
        SimType packed;
        Stochastic how;
    } forms[] = {
        {SIM_F16X2, {SIM_F16, 10, -14, 2, 16}}, {SIM_BF16X2, {SIM_BF16, 7, -126, 2, 16}},
        {SIM_E4M3X4, {SIM_E4M3, 3, -6, 4, 8}},  {SIM_E5M2X4, {SIM_E5M2, 2, -14, 4, 8}},
        {SIM_E2M1X4, {SIM_E2M1, 1, 0, 4, 4}},   {SIM_E2M3X4, {SIM_E2M3, 3, 0, 4, 8}},
        {SIM_E3M2X4, {SIM_E3M2, 2, -2, 4, 8}},
    };
    SimInsn *out = dx->out;
    out->mode[2] = (uint8_t)((dec_take(dx, "relu") ? CVT_RELU : 0) |
                             (dec_take(dx, "satfinite") ? CVT_FINITE : 0));
    SimType to = dec_type(dx), from = dec_type(dx);
    for (size_t i = 0; i < sizeof forms / sizeof *forms && from == SIM_F32; i++) {
        const Stochastic *s = &forms[i].how;
        if (forms[i].packed != to)
            continue;
        if (s->count == 4 && !(out->mode[2] & CVT_FINITE))
            return dec_fail(dx, "needs .satfinite");
        out->data = s;
        out->exec = run_stochastic;
        if (s->count == 2)
            return dec_count(dx, 4, 4) && dec_dst(dx, dec_operand(dx, 0), SIM_B32) &&
                   dec_src(dx, dec_operand(dx, 1), SIM_F32) &&
                   dec_src(dx, dec_operand(dx, 2), SIM_F32) &&
                   dec_src(dx, dec_operand(dx, 3), SIM_B32);
        return dec_count(dx, 3, 3) && dec_dst(dx, dec_operand(dx, 0), to) &&
               dec_src_vector(dx, dec_operand(dx, 1), SIM_F32, 4) &&
               dec_src(dx, dec_operand(dx, 2), SIM_B32);
    }
    return dec_fail(dx, "these types do not go together");
}

/* cvt.pack.sat: two s32, saturated to narrow integers, above a third operand shifted up. */
static SimStep
run_cvt_pack(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES], bits = insn->mode[0];
    int32_t top = (int32_t)((1u << (bits - insn->mode[1])) - 1), low = insn->mode[1] ? -top - 1 : 0;
    sim_each_lane (l, mask) {
        uint32_t packed = insn->mode[2] ? sim_r32(warp, insn->slot[3])[l] : 0;
        for (int i = 1; i <= 2; i++) {
            int32_t v = (int32_t)sim_r32(warp, insn->slot[i])[l];
            v = v > top ? top : v < low ? low : v;
            packed = packed << bits | ((uint32_t)v & ((1u << bits) - 1));
        }
        out[l] = packed;
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

static bool
decode_cvt_pack(SimDecode *dx)
{
    static const char *const words[] = {"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2", NULL};
    static const uint8_t bits[] = {16, 16, 8, 8, 4, 4, 2, 2};
    int choice = dec_take(dx, "sat") ? dec_choice(dx, words) : -1;
    if (choice < 0 || !dec_take(dx, "s32"))
        return dec_fail(dx, "malformed cvt.pack");
    bool three = dec_take(dx, "b32");
    dx->out->mode[0] = bits[choice];
    dx->out->mode[1] = choice & 1;
    dx->out->mode[2] = three;
    dx->out->exec = run_cvt_pack;
    return dec_plain(dx, SIM_B32, SIM_B32, three ? 3 : 2);
}

const SimFamily sim_convert_families[] = {
    {"cvt", decode_cvt},
    {"cvt.rs", decode_stochastic},
    {"cvt.pack", decode_cvt_pack},
    {NULL, NULL},
};
