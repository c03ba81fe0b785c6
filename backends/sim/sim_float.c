/* sim_float.c - floating-point arithmetic (PTX ISA 9.7.3, 9.7.4, 9.7.5).
 *
 * The common forms (f32, round to nearest) are loops that vectorise.  Everything else goes through
 * one function on bits per format, lane by lane.
 */
#include <fenv.h>

#include "sim_contract.h"
#include "sim_exec.h"

/* clang-format off */
typedef enum FloatOp {
    OP_ADD, OP_SUB, OP_MUL, OP_FMA, OP_DIV, OP_MIN, OP_MAX, OP_ABS, OP_NEG,
    OP_RCP, OP_SQRT, OP_RSQRT, OP_EX2, OP_LG2, OP_SIN, OP_COS, OP_TANH
} FloatOp;
/* clang-format on */

/* insn->mode[0] FloatOp, [1] FloatFlag bits, [2] SimRounding, [3] sources */
/* clang-format off */
enum {
    FLAG_FTZ = 1, FLAG_SAT = 2, FLAG_NAN = 4, FLAG_XORSIGN = 8, FLAG_ABS = 16, FLAG_RELU = 32,
    FLAG_APPROX = 64
};
/* clang-format on */

/* ------------------------------------------------------------------------ scalars */

/* 9.7.3.11: a NaN loses unless .NaN; -0 is less than +0. */
static inline uint32_t
pick_f32(uint32_t a, uint32_t b, bool is_min, bool keep_nan)
{
    bool nan_a = (a & 0x7fffffffu) > 0x7f800000u, nan_b = (b & 0x7fffffffu) > 0x7f800000u;
    float x = sim_f32(a), y = sim_f32(b);
    bool less = x < y || (x == y && (a >> 31) > (b >> 31));
    uint32_t out = less == is_min ? a : b;
    if (nan_a || nan_b)
        out = keep_nan || (nan_a && nan_b) ? 0x7fffffffu : nan_a ? b : a;
    return out;
}

static double
pick_f64(double a, double b, bool is_min)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    bool less = a < b || (a == b && signbit(a) && !signbit(b));
    return less == is_min ? a : b;
}

static void
set_rounding(SimRounding rounding)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    fesetround(modes[rounding]);
}

/* The compiler does not know that the rounding mode changed: volatile keeps the operation between
 * the two calls that set it. */
static float
directed_f32(FloatOp op, float a, float b, float c, SimRounding rounding)
{
    volatile float x = a, y = b, z = c, r;
    set_rounding(rounding);
    switch (op) {
    case OP_ADD: r = x + y; break;
    case OP_SUB: r = x - y; break;
    case OP_MUL: r = x * y; break;
    case OP_DIV: r = x / y; break;
    case OP_RCP: r = 1.0f / x; break;
    case OP_SQRT: r = sqrtf(x); break;
    default: r = fmaf(x, y, z); break;
    }
    set_rounding(SIM_RN);
    return r;
}

static double
directed_f64(FloatOp op, double a, double b, double c, SimRounding rounding)
{
    volatile double x = a, y = b, z = c, r;
    set_rounding(rounding);
    switch (op) {
    case OP_ADD: r = x + y; break;
    case OP_SUB: r = x - y; break;
    case OP_MUL: r = x * y; break;
    case OP_DIV: r = x / y; break;
    case OP_RCP: r = 1.0 / x; break;
    case OP_SQRT: r = sqrt(x); break;
    default: r = fma(x, y, z); break;
    }
    set_rounding(SIM_RN);
    return r;
}

static float
evaluate_f32(FloatOp op, float a, float b, float c, uint32_t flags, SimRounding rounding)
{
    switch (op) {
    case OP_DIV:
        /* 9.7.3.8: div.approx computes a * (1/b); for 2^126 < |b| < 2^128 the reciprocal is
         * flushed, so the result is 0, or NaN when a is infinite. */
        if (flags & FLAG_APPROX && fabsf(b) > 0x1p126f && !isinf(b) && !isnan(b) && !isnan(a))
            return isinf(a) ? NAN : copysignf(0.0f, a) * copysignf(1.0f, b);
        break;
    case OP_RSQRT: return (float)(1.0 / sqrt((double)a));
    case OP_EX2: return exp2f(a);
    case OP_LG2: return log2f(a);
    case OP_SIN: return sinf(a);
    case OP_COS: return cosf(a);
    case OP_TANH: return tanhf(a);
    default: break;
    }
    return directed_f32(op, a, b, c, rounding);
}

static uint32_t
operate_f32(const SimInsn *insn, const uint32_t in[3])
{
    FloatOp op = (FloatOp)insn->mode[0];
    uint32_t flags = insn->mode[1], a[3], out;
    for (int i = 0; i < 3; i++)
        a[i] = flags & FLAG_FTZ ? sim_flush(in[i]) : in[i];
    if (op == OP_MIN || op == OP_MAX) {
        bool is_min = op == OP_MIN;
        uint32_t sign = flags & FLAG_XORSIGN ? (a[0] ^ a[1]) & 0x80000000u : 0;
        if (flags & (FLAG_XORSIGN | FLAG_ABS))
            for (int i = 0; i < 3; i++)
                a[i] &= 0x7fffffffu;
        out = pick_f32(a[0], a[1], is_min, flags & FLAG_NAN);
        if (insn->mode[3] == 3)
            out = pick_f32(out, a[2], is_min, flags & FLAG_NAN);
        return out == 0x7fffffffu ? out : out | sign;
    }
    if (op == OP_ABS)
        return a[0] & 0x7fffffffu;
    if (op == OP_NEG)
        return a[0] ^ 0x80000000u;
    float r = evaluate_f32(op, sim_f32(a[0]), sim_f32(a[1]), sim_f32(a[2]), flags,
                           (SimRounding)insn->mode[2]);
    if (flags & FLAG_SAT) /* 9.7.3: NaN becomes +0 */
        r = r > 0 ? (r < 1 ? r : 1.0f) : 0.0f;
    out = sim_f32_result(r);
    return flags & FLAG_FTZ ? sim_flush(out) : out;
}

static uint64_t
operate_f64(const SimInsn *insn, const uint64_t in[3])
{
    FloatOp op = (FloatOp)insn->mode[0];
    double a = sim_f64(in[0]), b = sim_f64(in[1]), c = sim_f64(in[2]), r;
    if (insn->mode[1] & FLAG_FTZ && fpclassify(a) == FP_SUBNORMAL) /* rcp, rsqrt: 9.7.3.14, .17 */
        a = copysign(0.0, a);
    switch (op) {
    case OP_MIN: r = pick_f64(a, b, true); break;
    case OP_MAX: r = pick_f64(a, b, false); break;
    case OP_ABS: return in[0] & ~(UINT64_C(1) << 63);
    case OP_NEG: return in[0] ^ UINT64_C(1) << 63;
    case OP_RSQRT: r = 1.0 / sqrt(a); break;
    default: r = directed_f64(op, a, b, c, (SimRounding)insn->mode[2]); break;
    }
    if (insn->mode[1] & FLAG_SAT)
        r = r > 0 ? (r < 1 ? r : 1.0) : 0.0;
    return isnan(r) ? UINT64_C(0x7fffffffffffffff) : sim_f64_bits(r);
}

/* A double to float, rounded to odd, so that one more rounding to 16 bits is correct. */
static float
narrow_odd(double value)
{
    float near = (float)value;
    uint32_t bits = sim_f32_bits(near);
    if ((double)near == value || isnan(value) || isinf(near) || bits & 1)
        return near;
    bool too_small = fabs((double)near) < fabs(value);
    return sim_f32(too_small ? bits + 1 : bits - 1);
}

/* f16 and bf16.  One f32 operation followed by rounding to 16 bits is correctly rounded, because 24
 * bits are at least twice 11 plus 2; a fused multiply-add needs the rounding to odd. */
static uint32_t
operate_16(const SimInsn *insn, const uint32_t in[3], bool is_bf16)
{
    FloatOp op = (FloatOp)insn->mode[0];
    uint32_t flags = insn->mode[1], bits[3], out;
    uint32_t infinity = is_bf16 ? 0x7f80u : 0x7c00u;
    float v[3], r;
    for (int i = 0; i < 3; i++) {
        bits[i] = in[i] & 0xffff;
        if (flags & FLAG_FTZ && (bits[i] & infinity) == 0)
            bits[i] &= 0x8000u;
        v[i] = is_bf16 ? sim_bf16(bits[i]) : sim_f16(bits[i]);
    }
    switch (op) {
    case OP_ABS: return bits[0] & 0x7fffu;
    case OP_NEG: return bits[0] ^ 0x8000u;
    case OP_MIN:
    case OP_MAX: {
        bool is_min = op == OP_MIN;
        uint32_t sign = flags & FLAG_XORSIGN ? (bits[0] ^ bits[1]) & 0x8000u : 0;
        if (flags & (FLAG_XORSIGN | FLAG_ABS))
            for (int i = 0; i < 3; i++)
                v[i] = fabsf(v[i]);
        uint32_t wide = pick_f32(sim_f32_bits(v[0]), sim_f32_bits(v[1]), is_min, flags & FLAG_NAN);
        if (insn->mode[3] == 3)
            wide = pick_f32(wide, sim_f32_bits(v[2]), is_min, flags & FLAG_NAN);
        out = is_bf16 ? sim_to_bf16(sim_f32(wide)) : sim_to_f16(sim_f32(wide));
        return out == 0x7fffu ? out : out | sign;
    }
    case OP_ADD: r = v[0] + v[1]; break;
    case OP_SUB: r = v[0] - v[1]; break;
    case OP_MUL: r = v[0] * v[1]; break;
    case OP_FMA: r = narrow_odd(sim_add_odd((double)v[0] * (double)v[1], (double)v[2])); break;
    default: r = evaluate_f32(op, v[0], v[1], v[2], flags, SIM_RN); break;
    }
    if (flags & FLAG_SAT)
        r = r > 0 ? (r < 1 ? r : 1.0f) : 0.0f;
    if (flags & FLAG_RELU && r < 0)
        r = 0.0f;
    out = is_bf16 ? sim_to_bf16(r) : sim_to_f16(r);
    if (flags & FLAG_FTZ && (out & infinity) == 0)
        out &= 0x8000u;
    return out;
}

/* ------------------------------------------------------------------------ lane loops */

static SimStep
run_general(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimType type = (SimType)insn->type;
    uint32_t out[SIM_LANES];
    uint64_t out64[SIM_LANES];
    uint32_t in[3] = {0, 0, 0}, low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
    uint64_t wide[3] = {0, 0, 0};
    int sources = insn->mode[3];
    sim_each_lane (l, mask) {
        if (type == SIM_F64 || type == SIM_F32X2)
            for (int i = 0; i < sources; i++)
                wide[i] = sim_r64(warp, insn->slot[i + 1])[l];
        else
            for (int i = 0; i < sources; i++)
                in[i] = sim_r32(warp, insn->slot[i + 1])[l];
        for (int i = 0; i < 3; i++) {
            low[i] = type == SIM_F32X2 ? (uint32_t)wide[i] : in[i] & 0xffff;
            high[i] = type == SIM_F32X2 ? (uint32_t)(wide[i] >> 32) : in[i] >> 16;
        }
        bool is_bf16 = type == SIM_BF16 || type == SIM_BF16X2;
        switch (type) {
        case SIM_F64: out64[l] = operate_f64(insn, wide); break;
        case SIM_F32X2:
            out64[l] = operate_f32(insn, low) | (uint64_t)operate_f32(insn, high) << 32;
            break;
        case SIM_F32: out[l] = operate_f32(insn, in); break;
        case SIM_F16:
        case SIM_BF16: out[l] = operate_16(insn, low, is_bf16); break;
        default: /* packed halves */
            out[l] = operate_16(insn, low, is_bf16) | operate_16(insn, high, is_bf16) << 16;
            break;
        }
    }
    if (sim_type_is_wide(type))
        sim_put64(warp, insn->slot[0], out64, mask);
    else
        sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* clang-format off */
SIM_EXECF2(add_f32, a + b)
SIM_EXECF2(sub_f32, a - b)
SIM_EXECF2(mul_f32, a *b)
SIM_EXECF2(div_f32, a / b)
SIM_EXECF1(ex2_f32, exp2f(a))
SIM_EXECF1(lg2_f32, log2f(a))
SIM_EXECF1(rcp_f32, 1.0f / a)
SIM_EXECF_(tanh_f32, SIM_READF(a, 1), tanhf(a), SIM_SAME_)
SIM_EXEC1_32(neg_f32, uint32_t, uint32_t, a ^ 0x80000000u)
SIM_EXEC1_32(abs_f32, uint32_t, uint32_t, a & 0x7fffffffu)
SIM_EXEC2_32(min_f32, uint32_t, uint32_t, pick_f32(a, b, true, false))
SIM_EXEC2_32(max_f32, uint32_t, uint32_t, pick_f32(a, b, false, false))
SIM_EXEC2_32(min_f32_ftz, uint32_t, uint32_t, pick_f32(sim_flush(a), sim_flush(b), true, false))
SIM_EXEC2_32(max_f32_ftz, uint32_t, uint32_t, pick_f32(sim_flush(a), sim_flush(b), false, false))
SIM_EXEC_(add_f64, uint64_t, sim_put64, uint64_t, SIM_READD(a, 1);
          SIM_READD(b, 2), sim_f64_bits(a + b))
SIM_EXEC_(mul_f64, uint64_t, sim_put64, uint64_t, SIM_READD(a, 1);
          SIM_READD(b, 2), sim_f64_bits(a *b))
/* clang-format on */

/* fmaf is one instruction with FMA hardware, a slow library call without: the hot version. */
SIM_HOT static void
fma_lanes(uint32_t *out, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t flush)
{
    for (int l = 0; l < SIM_LANES; l++) {
        uint32_t x = flush ? sim_flush(a[l]) : a[l], y = flush ? sim_flush(b[l]) : b[l];
        uint32_t z = flush ? sim_flush(c[l]) : c[l];
        uint32_t r = sim_f32_result(__builtin_fmaf(sim_f32(x), sim_f32(y), sim_f32(z)));
        out[l] = flush ? sim_flush(r) : r;
    }
}
static SimStep
fma_f32(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES];
    fma_lanes(out, sim_r32(warp, insn->slot[1]), sim_r32(warp, insn->slot[2]),
              sim_r32(warp, insn->slot[3]), insn->mode[1] & FLAG_FTZ);
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* f32x2: both halves at once are 64 lanes of f32. */
/* Not inlined: the rounding mode is set around it. */
SIM_HOT static __attribute__((noinline)) void
f32x2_lanes(FloatOp op, float *restrict out, const float *restrict a, const float *restrict b,
            const float *restrict c)
{
    switch (op) {
    case OP_ADD:
        for (int i = 0; i < 2 * SIM_LANES; i++)
            out[i] = a[i] + b[i];
        break;
    case OP_SUB:
        for (int i = 0; i < 2 * SIM_LANES; i++)
            out[i] = a[i] - b[i];
        break;
    case OP_MUL:
        for (int i = 0; i < 2 * SIM_LANES; i++)
            out[i] = a[i] * b[i];
        break;
    default:
        for (int i = 0; i < 2 * SIM_LANES; i++)
            out[i] = __builtin_fmaf(a[i], b[i], c[i]);
        break;
    }
}

SIM_HOT static void
f32x2_flush(float *x)
{
    for (int i = 0; i < 2 * SIM_LANES; i++)
        x[i] = sim_f32(sim_flush(sim_f32_bits(x[i])));
}

SIM_HOT static void
f32x2_results(float *x)
{
    for (int i = 0; i < 2 * SIM_LANES; i++)
        x[i] = sim_f32(sim_f32_result(x[i]));
}

static SimStep
f32x2(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    float in[3][2 * SIM_LANES], out[2 * SIM_LANES];
    uint64_t packed[SIM_LANES];
    memset(in[2], 0, sizeof in[2]);
    for (int i = 0; i < insn->mode[3]; i++)
        memcpy(in[i], sim_r64(warp, insn->slot[i + 1]), sizeof in[i]);
    if (insn->mode[1] & FLAG_FTZ)
        for (int i = 0; i < 3; i++)
            f32x2_flush(in[i]);
    if (insn->mode[2] != SIM_RN)
        set_rounding((SimRounding)insn->mode[2]);
    f32x2_lanes((FloatOp)insn->mode[0], out, in[0], in[1], in[2]);
    if (insn->mode[2] != SIM_RN)
        set_rounding(SIM_RN);
    f32x2_results(out);
    if (insn->mode[1] & FLAG_FTZ)
        f32x2_flush(out);
    memcpy(packed, out, sizeof packed);
    sim_put64(warp, insn->slot[0], packed, mask);
    return SIM_NEXT;
}

/* Mixed precision of sm_100 (9.7.5): the narrow operands are widened exactly. */
static SimStep
run_mixed(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES];
    int narrow = insn->mode[0] == OP_FMA ? 2 : 1;
    sim_each_lane (l, mask) {
        uint32_t in[3] = {0, 0, 0};
        for (int i = 0; i < insn->mode[3]; i++) {
            in[i] = sim_r32(warp, insn->slot[i + 1])[l];
            if (i < narrow)
                in[i] = sim_f32_bits(insn->type2 == SIM_BF16 ? sim_bf16(in[i]) : sim_f16(in[i]));
        }
        out[l] = operate_f32(insn, in);
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ decoding */

static bool
is_float_type(SimType type)
{
    return type == SIM_F16 || type == SIM_BF16 || type == SIM_F16X2 || type == SIM_BF16X2 ||
           type == SIM_F32 || type == SIM_F64 || type == SIM_F32X2;
}

static SimType
first_type(const SimDecode *dx)
{
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++)
        for (int t = 1; t < SIM_TYPE_COUNT; t++)
            if (strcmp(sim_type_info((SimType)t)->name, dx->src->part[i]) == 0)
                return (SimType)t;
    return SIM_NO_TYPE;
}

static int
take_rounding(SimDecode *dx) /* -1 if none */
{
    static const char *const words[] = {"rn", "rz", "rm", "rp", NULL};
    return dec_choice(dx, words);
}

static SimExec
fast_form(const SimInsn *insn)
{
    FloatOp op = (FloatOp)insn->mode[0];
    uint32_t flags = insn->mode[1];
    bool ftz = flags & FLAG_FTZ;
    if (insn->type == SIM_F32X2 && op <= OP_FMA && (flags | FLAG_FTZ) == FLAG_FTZ)
        return f32x2;
    if (insn->mode[2] != SIM_RN)
        return run_general;
    if (insn->type == SIM_F64 && flags == 0 && op == OP_ADD)
        return add_f64;
    if (insn->type == SIM_F64 && flags == 0 && op == OP_MUL)
        return mul_f64;
    if (insn->type != SIM_F32 || (flags | FLAG_FTZ | FLAG_APPROX) != (FLAG_FTZ | FLAG_APPROX))
        return run_general;
    switch (op) {
    case OP_ADD: return ftz ? add_f32_ftz : add_f32;
    case OP_SUB: return ftz ? sub_f32_ftz : sub_f32;
    case OP_MUL: return ftz ? mul_f32_ftz : mul_f32;
    case OP_DIV: return flags & FLAG_APPROX ? run_general : ftz ? div_f32_ftz : div_f32;
    case OP_FMA: return fma_f32;
    case OP_EX2: return ftz ? ex2_f32_ftz : ex2_f32;
    case OP_LG2: return ftz ? lg2_f32_ftz : lg2_f32;
    case OP_RCP: return ftz ? rcp_f32_ftz : rcp_f32;
    case OP_TANH: return ftz ? run_general : tanh_f32;
    case OP_NEG: return ftz ? run_general : neg_f32;
    case OP_ABS: return ftz ? run_general : abs_f32;
    case OP_MIN: return insn->mode[3] == 3 ? run_general : ftz ? min_f32_ftz : min_f32;
    case OP_MAX: return insn->mode[3] == 3 ? run_general : ftz ? max_f32_ftz : max_f32;
    default: return run_general;
    }
}

/* What an operation without a rounding modifier is to an assembler.  (ptxas 12.9 and 13.0 do not
 * heed those of f32x2.) */
static uint8_t
contracts(FloatOp op, SimType type, int rounding, uint32_t flags)
{
    bool free = rounding < 0 || (type == SIM_F32X2 && rounding == SIM_RN);
    if (op == OP_NEG)
        return SIM_NEGATION;
    if (op == OP_MUL && free && !(flags & FLAG_SAT))
        return SIM_PRODUCT;
    return (op == OP_ADD || op == OP_SUB) && free ? SIM_SUM : SIM_APART;
}

bool
sim_float_contracts(const SimInsn *product, const SimInsn *sum)
{
    return product->type == sum->type && (product->mode[1] & FLAG_FTZ) == (sum->mode[1] & FLAG_FTZ);
}

bool
sim_float_subtracts(const SimInsn *sum)
{
    return sum->mode[0] == OP_SUB;
}

SimInsn
sim_float_contracted(const SimInsn *sum)
{
    SimInsn fma = *sum;
    fma.mode[0] = OP_FMA;
    fma.mode[3] = 3;
    fma.exec = fast_form(&fma);
    return fma;
}

static bool
decode_float_op(SimDecode *dx, FloatOp op, size_t sources)
{
    SimInsn *out = dx->out;
    uint8_t flags = 0;
    int rounding = take_rounding(dx);
    flags |= dec_take(dx, "ftz") ? FLAG_FTZ : 0;
    flags |= dec_take(dx, "sat") ? FLAG_SAT : 0;
    if (op == OP_MIN || op == OP_MAX) {
        flags |= dec_take(dx, "NaN") ? FLAG_NAN : 0;
        if (dec_take(dx, "xorsign"))
            flags |= dec_take(dx, "abs") ? FLAG_XORSIGN : 0;
        else
            flags |= dec_take(dx, "abs") ? FLAG_ABS : 0;
        if (dx->operand_count == 4) /* three inputs: sm_100, PTX 8.8 */
            sources = 3;
    }
    if (op == OP_FMA)
        flags |= dec_take(dx, "relu") ? FLAG_RELU : 0;
    SimType type = dec_type(dx);
    if (op == OP_DIV || op >= OP_RCP) {
        bool full = op == OP_DIV && dec_take(dx, "full");
        bool approx = dec_take(dx, "approx");
        flags |= approx ? FLAG_APPROX : 0;
        if (rounding < 0 && !full && !approx)
            return dec_fail(dx, "needs a rounding, .approx%s", op == OP_DIV ? " or .full" : "");
    } else if (op == OP_FMA && rounding < 0 && strcmp(dx->src->part[0], "fma") == 0) {
        return dec_fail(dx, "needs a rounding");
    }
    out->type = (uint8_t)type;
    out->mode[0] = (uint8_t)op;
    out->mode[1] = flags;
    out->mode[2] = (uint8_t)(rounding < 0 ? SIM_RN : rounding);
    out->mode[3] = (uint8_t)sources;
    if (type == SIM_F32 && op <= OP_FMA && (out->type2 = (uint8_t)dec_type(dx)) != SIM_NO_TYPE) {
        SimType narrow = (SimType)out->type2;
        if ((narrow != SIM_F16 && narrow != SIM_BF16) || op == OP_MUL)
            return dec_fail(dx, "these types do not go together");
        out->exec = run_mixed;
        if (!dec_count(dx, sources + 1, sources + 1) || !dec_dst(dx, dec_operand(dx, 0), type))
            return false;
        for (size_t i = 0; i < sources; i++)
            if (!dec_src(dx, dec_operand(dx, i + 1), i + 1 < sources ? narrow : type))
                return false;
        return true;
    }
    if (!is_float_type(type))
        return dec_fail(dx, "needs a floating-point type");
    out->exec = fast_form(out);
    out->contracts = contracts(op, type, rounding, flags);
    return dec_plain(dx, type, type, sources);
}

bool
sim_decode_float(SimDecode *dx, const char *op, bool *handled)
{
    static const struct {
        const char *name;
        FloatOp op;
        uint8_t sources;
    } ops[] = {
        {"add", OP_ADD, 2}, {"sub", OP_SUB, 2}, {"mul", OP_MUL, 2},
        {"fma", OP_FMA, 3}, {"div", OP_DIV, 2}, {"min", OP_MIN, 2},
        {"max", OP_MAX, 2}, {"abs", OP_ABS, 1}, {"neg", OP_NEG, 1},
    };
    *handled = is_float_type(first_type(dx));
    for (size_t i = 0; *handled && i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].name, op) == 0)
            return decode_float_op(dx, ops[i].op, ops[i].sources);
    return false;
}

static bool
decode_fma(SimDecode *dx)
{
    return decode_float_op(dx, OP_FMA, 3);
}

/* One-operand functions (9.7.3.12 to 9.7.3.22, 9.7.4.10, 9.7.4.11) exist for some types only. */
static bool
decode_function(SimDecode *dx, FloatOp op, const char *allowed)
{
    const char *name = sim_type_info(first_type(dx))->name;
    char word[16];
    snprintf(word, sizeof word, " %s ", name);
    if (!strstr(allowed, word))
        return dec_fail(dx, "type '.%s' is not supported here", name);
    return decode_float_op(dx, op, 1);
}
static bool
decode_rcp(SimDecode *dx)
{
    return decode_function(dx, OP_RCP, " f32 f64 ");
}
static bool
decode_sqrt(SimDecode *dx)
{
    return decode_function(dx, OP_SQRT, " f32 f64 ");
}
static bool
decode_rsqrt(SimDecode *dx)
{
    return decode_function(dx, OP_RSQRT, " f32 f64 ");
}
static bool
decode_lg2(SimDecode *dx)
{
    return decode_function(dx, OP_LG2, " f32 ");
}
static bool
decode_sin(SimDecode *dx)
{
    return decode_function(dx, OP_SIN, " f32 ");
}
static bool
decode_cos(SimDecode *dx)
{
    return decode_function(dx, OP_COS, " f32 ");
}
static bool
decode_ex2(SimDecode *dx)
{
    return decode_function(dx, OP_EX2, " f32 f16 f16x2 bf16 bf16x2 ");
}
static bool
decode_tanh(SimDecode *dx)
{
    return decode_function(dx, OP_TANH, " f32 f16 f16x2 bf16 bf16x2 ");
}

/* copysign (9.7.3.3): the sign of a on b. */
/* clang-format off */
SIM_EXEC2_32(copysign_f32, uint32_t, uint32_t, (a & 0x80000000u) | (b & 0x7fffffffu))
SIM_EXEC2_64(copysign_f64, uint64_t, (a & UINT64_C(1) << 63) | (b & ~(UINT64_C(1) << 63)))
/* clang-format on */
static bool
decode_copysign(SimDecode *dx)
{
    SimType type = dec_type(dx);
    dx->out->exec = type == SIM_F32 ? copysign_f32 : type == SIM_F64 ? copysign_f64 : NULL;
    return dec_plain(dx, type, type, 2);
}

/* testp (9.7.3.2) */
static const char *const properties[] = {"finite", "infinite",  "number", "notanumber",
                                         "normal", "subnormal", NULL};
static SimStep
testp(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out = 0;
    sim_each_lane (l, mask) {
        int c = insn->type == SIM_F64 ? fpclassify(sim_f64(sim_r64(warp, insn->slot[1])[l]))
                                      : fpclassify(sim_f32(sim_r32(warp, insn->slot[1])[l]));
        bool holds[] = {c != FP_NAN && c != FP_INFINITE,
                        c == FP_INFINITE,
                        c != FP_NAN,
                        c == FP_NAN,
                        c == FP_NORMAL || c == FP_ZERO, /* zeros count */
                        c == FP_SUBNORMAL};
        out |= (uint32_t)holds[insn->mode[0]] << l;
    }
    sim_put_pred(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}
static bool
decode_testp(SimDecode *dx)
{
    int property = dec_choice(dx, properties);
    SimType type = dec_type(dx);
    if (property < 0 || (type != SIM_F32 && type != SIM_F64))
        return dec_fail(dx, "malformed testp");
    dx->out->mode[0] = (uint8_t)property;
    dx->out->type = (uint8_t)type;
    dx->out->exec = testp;
    return dec_plain(dx, SIM_PRED, type, 1);
}

const SimFamily sim_float_families[] = {
    {"fma", decode_fma},     {"rcp", decode_rcp},           {"sqrt", decode_sqrt},
    {"rsqrt", decode_rsqrt}, {"lg2", decode_lg2},           {"sin", decode_sin},
    {"cos", decode_cos},     {"ex2", decode_ex2},           {"tanh", decode_tanh},
    {"testp", decode_testp}, {"copysign", decode_copysign}, {NULL, NULL},
};
