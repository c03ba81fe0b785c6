/* sim_int.c - integer arithmetic, logic, shifts and bit fields (PTX ISA 9.7.1, 9.7.2, 9.7.8). */
#include "sim_exec.h"

/* clang-format off */
/* One function for each integer type, and a table to find it by. */
#define FOR_TYPES2(op, e)                                                                          \
    SIM_EXEC2_32(op##_u16, uint16_t, uint16_t, e) SIM_EXEC2_32(op##_s16, int16_t, uint16_t, e)     \
    SIM_EXEC2_32(op##_u32, uint32_t, uint32_t, e) SIM_EXEC2_32(op##_s32, int32_t, uint32_t, e)     \
    SIM_EXEC2_64(op##_u64, uint64_t, e) SIM_EXEC2_64(op##_s64, int64_t, e)                         \
    TABLE(op)
#define TABLE(op)                                                                                  \
    static const SimExec op##_table[SIM_TYPE_COUNT] = {                                            \
        [SIM_U16] = op##_u16, [SIM_S16] = op##_s16, [SIM_U32] = op##_u32,                          \
        [SIM_S32] = op##_s32, [SIM_U64] = op##_u64, [SIM_S64] = op##_s64,                          \
    };
#define FOR_UNSIGNED1(op, e)                                                                       \
    SIM_EXEC1_32(op##_u16, uint16_t, uint16_t, e) SIM_EXEC1_32(op##_u32, uint32_t, uint32_t, e)    \
    SIM_EXEC1_64(op##_u64, uint64_t, e)                                                            \
    static const SimExec op##_table[SIM_TYPE_COUNT] = {                                            \
        [SIM_U16] = op##_u16, [SIM_S16] = op##_u16, [SIM_B16] = op##_u16, [SIM_U32] = op##_u32,    \
        [SIM_S32] = op##_u32, [SIM_B32] = op##_u32, [SIM_U64] = op##_u64, [SIM_S64] = op##_u64,    \
        [SIM_B64] = op##_u64,                                                                      \
    };
#define FOR_UNSIGNED2(op, e)                                                                       \
    SIM_EXEC2_32(op##_u16, uint16_t, uint16_t, e) SIM_EXEC2_32(op##_u32, uint32_t, uint32_t, e)    \
    SIM_EXEC2_64(op##_u64, uint64_t, e)                                                            \
    static const SimExec op##_table[SIM_TYPE_COUNT] = {                                            \
        [SIM_U16] = op##_u16, [SIM_S16] = op##_u16, [SIM_B16] = op##_u16, [SIM_U32] = op##_u32,    \
        [SIM_S32] = op##_u32, [SIM_B32] = op##_u32, [SIM_U64] = op##_u64, [SIM_S64] = op##_u64,    \
        [SIM_B64] = op##_u64,                                                                      \
    };

/* Sums wrap; computing in uint64_t and cutting keeps C's signed overflow out. */
FOR_UNSIGNED2(add, (uint64_t)a + (uint64_t)b)
FOR_UNSIGNED2(sub, (uint64_t)a - (uint64_t)b)
FOR_UNSIGNED2(mul_lo, (uint64_t)a *(uint64_t)b)
FOR_UNSIGNED1(not_bits, ~(uint64_t)a)
FOR_UNSIGNED1(cnot, a == 0)
FOR_UNSIGNED1(neg, 0 - (uint64_t)a)
FOR_UNSIGNED2(and_bits, (uint64_t)a &b)
FOR_UNSIGNED2(or_bits, (uint64_t)a | b)
FOR_UNSIGNED2(xor_bits, (uint64_t)a ^ b)
FOR_TYPES2(min, a < b ? a : b)
FOR_TYPES2(max, a > b ? a : b)

/* Division by zero gives a machine-specific value (9.7.1.9), and so does the remainder (9.7.1.10):
 * all ones, as sm_90 does. */
#define DIV_U(a, b) ((b) ? (uint64_t)((a) / ((b) ? (b) : 1)) : ~UINT64_C(0))
#define REM_U(a, b) ((b) ? (uint64_t)((a) % ((b) ? (b) : 1)) : ~UINT64_C(0))
static int64_t
div_signed(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static int64_t
rem_signed(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? 0 : a % b;
}
SIM_EXEC2_32(div_u16, uint16_t, uint16_t, DIV_U(a, b))
SIM_EXEC2_32(div_s16, int16_t, uint16_t, div_signed(a, b))
SIM_EXEC2_32(div_u32, uint32_t, uint32_t, DIV_U(a, b))
SIM_EXEC2_32(div_s32, int32_t, uint32_t, div_signed(a, b))
SIM_EXEC2_64(div_u64, uint64_t, DIV_U(a, b))
SIM_EXEC2_64(div_s64, int64_t, div_signed(a, b))
TABLE(div)
SIM_EXEC2_32(rem_u16, uint16_t, uint16_t, REM_U(a, b))
SIM_EXEC2_32(rem_s16, int16_t, uint16_t, rem_signed(a, b))
SIM_EXEC2_32(rem_u32, uint32_t, uint32_t, REM_U(a, b))
SIM_EXEC2_32(rem_s32, int32_t, uint32_t, rem_signed(a, b))
SIM_EXEC2_64(rem_u64, uint64_t, REM_U(a, b))
SIM_EXEC2_64(rem_s64, int64_t, rem_signed(a, b))
TABLE(rem)

static int64_t
saturate_s32(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
}
SIM_EXEC2_32(add_sat, int32_t, uint32_t, saturate_s32((int64_t)a + b))
SIM_EXEC2_32(sub_sat, int32_t, uint32_t, saturate_s32((int64_t)a - b))

__extension__ typedef unsigned __int128 Wide;
__extension__ typedef __int128 WideSigned;
SIM_EXEC2_32(mul_hi_u16, uint16_t, uint16_t, (uint32_t)a *b >> 16)
SIM_EXEC2_32(mul_hi_s16, int16_t, uint16_t, a *b >> 16)
SIM_EXEC2_32(mul_hi_u32, uint32_t, uint32_t, (uint64_t)a *b >> 32)
SIM_EXEC2_32(mul_hi_s32, int32_t, uint32_t, (int64_t)a *b >> 32)
SIM_EXEC2_64(mul_hi_u64, uint64_t, (Wide)a *b >> 64)
SIM_EXEC2_64(mul_hi_s64, int64_t, (WideSigned)a *b >> 64)
TABLE(mul_hi)
#define MAD_HI(name, T, U, e) SIM_EXEC3_32(name, T, U, e)
SIM_EXEC3_32(mad_lo_u16, uint16_t, uint16_t, (uint32_t)a *b + c)
SIM_EXEC3_32(mad_lo_u32, uint32_t, uint32_t, a *b + c)
SIM_EXEC3_64(mad_lo_u64, uint64_t, a *b + c)
MAD_HI(mad_hi_u16, uint16_t, uint16_t, ((uint32_t)a * b >> 16) + c)
MAD_HI(mad_hi_s16, int16_t, uint16_t, (a * b >> 16) + c)
MAD_HI(mad_hi_u32, uint32_t, uint32_t, ((uint64_t)a * b >> 32) + c)
MAD_HI(mad_hi_s32, int32_t, uint32_t, ((int64_t)a * b >> 32) + c)
SIM_EXEC3_32(mad_hi_sat, int32_t, uint32_t, saturate_s32(((int64_t)a * b >> 32) + c))
SIM_EXEC3_64(mad_hi_u64, uint64_t, (uint64_t)((Wide)a * b >> 64) + c)
SIM_EXEC3_64(mad_hi_s64, int64_t, (uint64_t)((WideSigned)a * b >> 64) + (uint64_t)c)
TABLE(mad_hi)
static const SimExec mad_lo_table[SIM_TYPE_COUNT] = {
    [SIM_U16] = mad_lo_u16, [SIM_S16] = mad_lo_u16, [SIM_U32] = mad_lo_u32,
    [SIM_S32] = mad_lo_u32, [SIM_U64] = mad_lo_u64, [SIM_S64] = mad_lo_u64,
};

/* .wide: the result has twice the bits (9.7.1.3). */
SIM_EXEC2_32(mul_wide_u16, uint16_t, uint32_t, (uint32_t)a *b)
SIM_EXEC2_32(mul_wide_s16, int16_t, uint32_t, a *b)
#define WIDE2(name, T, W)                                                                          \
    SIM_EXEC_(name, uint64_t, sim_put64, uint64_t, SIM_READ32(T, a, 1); SIM_READ32(T, b, 2),       \
              (W)a *(W)b)
#define WIDE3(name, T, W)                                                                          \
    SIM_EXEC_(name, uint64_t, sim_put64, uint64_t,                                                 \
              SIM_READ32(T, a, 1); SIM_READ32(T, b, 2); SIM_READ64(uint64_t, c, 3),                \
              (uint64_t)((W)a * (W)b) + c)
WIDE2(mul_wide_u32, uint32_t, uint64_t)
WIDE2(mul_wide_s32, int32_t, int64_t)
WIDE3(mad_wide_u32, uint32_t, uint64_t)
WIDE3(mad_wide_s32, int32_t, int64_t)
SIM_EXEC_(mad_wide_u16, uint32_t, sim_put32, uint32_t,
          SIM_READ32(uint16_t, a, 1); SIM_READ32(uint16_t, b, 2); SIM_READ32(uint32_t, c, 3),
          (uint32_t)a * b + c)
SIM_EXEC_(mad_wide_s16, uint32_t, sim_put32, uint32_t,
          SIM_READ32(int16_t, a, 1); SIM_READ32(int16_t, b, 2); SIM_READ32(uint32_t, c, 3),
          (uint32_t)(a * b) + c)

/* 24-bit multiplication (9.7.1.5): .lo the low, .hi bits 16..47 of the 48-bit product. */
#define S24(x) ((int64_t)((int32_t)((uint32_t)(x) << 8) >> 8))
#define U24(x) ((uint64_t)((uint32_t)(x)&0xffffff))
SIM_EXEC2_32(mul24_lo_u, uint32_t, uint32_t, U24(a) * U24(b))
SIM_EXEC2_32(mul24_lo_s, uint32_t, uint32_t, S24(a) * S24(b))
SIM_EXEC2_32(mul24_hi_u, uint32_t, uint32_t, U24(a) * U24(b) >> 16)
SIM_EXEC2_32(mul24_hi_s, uint32_t, uint32_t, S24(a) * S24(b) >> 16)
SIM_EXEC3_32(mad24_lo_u, uint32_t, uint32_t, U24(a) * U24(b) + c)
SIM_EXEC3_32(mad24_lo_s, uint32_t, uint32_t, (uint64_t)(S24(a) * S24(b)) + c)
SIM_EXEC3_32(mad24_hi_u, uint32_t, uint32_t, (U24(a) * U24(b) >> 16) + c)
SIM_EXEC3_32(mad24_hi_s, uint32_t, uint32_t, (uint64_t)(S24(a) * S24(b) >> 16) + c)
SIM_EXEC3_32(mad24_hi_sat, int32_t, uint32_t, saturate_s32((S24(a) * S24(b) >> 16) + c))

SIM_EXEC3_32(sad_u16, uint16_t, uint16_t, c + (a < b ? b - a : a - b))
SIM_EXEC3_32(sad_s16, int16_t, uint16_t, c + (a < b ? b - a : a - b))
SIM_EXEC3_32(sad_u32, uint32_t, uint32_t, c + (a < b ? b - a : a - b))
SIM_EXEC3_32(sad_s32, int32_t, uint32_t, (int64_t)c + (a < b ? (int64_t)b - a : (int64_t)a - b))
SIM_EXEC3_64(sad_u64, uint64_t, c + (a < b ? b - a : a - b))
SIM_EXEC3_64(sad_s64, int64_t,
             (uint64_t)c + (a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b))
TABLE(sad)

SIM_EXEC1_32(abs_s16, int16_t, uint16_t, a < 0 ? -a : a)
SIM_EXEC1_32(abs_s32, int32_t, uint32_t, a < 0 ? 0 - (uint32_t)a : (uint32_t)a)
SIM_EXEC1_64(abs_s64, int64_t, a < 0 ? 0 - (uint64_t)a : (uint64_t)a)

/* ------------------------------------------------------------------------ packed halves */

#define HALVES(T, e)                                                                               \
    do {                                                                                           \
        uint32_t packed = 0;                                                                       \
        for (int h = 0; h < 32; h += 16) {                                                         \
            T a = (T)(x >> h), b = (T)(y >> h);                                                    \
            packed |= (uint32_t)(uint16_t)(e) << h;                                                \
        }                                                                                          \
        return packed;                                                                             \
    } while (0)
static inline uint32_t add_x2(uint32_t x, uint32_t y) { HALVES(uint16_t, a + b); }
static inline uint32_t min_u16x2(uint32_t x, uint32_t y) { HALVES(uint16_t, a < b ? a : b); }
static inline uint32_t max_u16x2(uint32_t x, uint32_t y) { HALVES(uint16_t, a > b ? a : b); }
static inline uint32_t min_s16x2(uint32_t x, uint32_t y) { HALVES(int16_t, a < b ? a : b); }
static inline uint32_t max_s16x2(uint32_t x, uint32_t y) { HALVES(int16_t, a > b ? a : b); }
static inline uint32_t
relu_x2(uint32_t x)
{
    return max_s16x2(x, 0);
}
SIM_EXEC2_32(add_u16x2_insn, uint32_t, uint32_t, add_x2(a, b))
SIM_EXEC2_32(min_u16x2_insn, uint32_t, uint32_t, min_u16x2(a, b))
SIM_EXEC2_32(max_u16x2_insn, uint32_t, uint32_t, max_u16x2(a, b))
SIM_EXEC2_32(min_s16x2_insn, uint32_t, uint32_t, min_s16x2(a, b))
SIM_EXEC2_32(max_s16x2_insn, uint32_t, uint32_t, max_s16x2(a, b))
SIM_EXEC2_32(min_s16x2_relu, uint32_t, uint32_t, relu_x2(min_s16x2(a, b)))
SIM_EXEC2_32(max_s16x2_relu, uint32_t, uint32_t, relu_x2(max_s16x2(a, b)))
SIM_EXEC2_32(min_s32_relu, int32_t, uint32_t, a < b ? (a < 0 ? 0 : a) : (b < 0 ? 0 : b))
SIM_EXEC2_32(max_s32_relu, int32_t, uint32_t, a > b ? (a < 0 ? 0 : a) : (b < 0 ? 0 : b))

/* ------------------------------------------------------------------------ bits */

static uint32_t
find_highest(uint64_t v) /* UINT32_MAX if none */
{
    return v ? 63 - (uint32_t)__builtin_clzll(v) : UINT32_MAX;
}
static uint32_t
shift_amount(uint32_t position, uint32_t top)
{
    return position == UINT32_MAX ? position : top - position;
}
#define READ_WIDE1(name, e)                                                                        \
    SIM_EXEC_(name, uint32_t, sim_put32, uint32_t, SIM_READ64(uint64_t, a, 1), e)
SIM_EXEC1_32(popc_b32, uint32_t, uint32_t, __builtin_popcount(a))
READ_WIDE1(popc_b64, __builtin_popcountll(a))
SIM_EXEC1_32(clz_b32, uint32_t, uint32_t, a ? __builtin_clz(a) : 32)
READ_WIDE1(clz_b64, a ? __builtin_clzll(a) : 64)
SIM_EXEC1_32(bfind_u32, uint32_t, uint32_t, find_highest(a))
SIM_EXEC1_32(bfind_s32, int32_t, uint32_t, find_highest((uint32_t)(a < 0 ? ~a : a)))
READ_WIDE1(bfind_u64, find_highest(a))
READ_WIDE1(bfind_s64, find_highest((int64_t)a < 0 ? ~a : a))
SIM_EXEC1_32(bfind_shift_u32, uint32_t, uint32_t, shift_amount(find_highest(a), 31))
SIM_EXEC1_32(bfind_shift_s32, int32_t, uint32_t,
             shift_amount(find_highest((uint32_t)(a < 0 ? ~a : a)), 31))
READ_WIDE1(bfind_shift_u64, shift_amount(find_highest(a), 63))
READ_WIDE1(bfind_shift_s64, shift_amount(find_highest((int64_t)a < 0 ? ~a : a), 63))
static uint64_t
reverse(uint64_t v, int bits)
{
    uint64_t out = 0;
    for (int i = 0; i < bits; i++)
        out |= (v >> i & 1) << (bits - 1 - i);
    return out;
}
SIM_EXEC1_32(brev_b32, uint32_t, uint32_t, reverse(a, 32))
SIM_EXEC1_64(brev_b64, uint64_t, reverse(a, 64))

/* fns (9.7.1.17): the position of the n-th set bit, counted from a base and in a direction. */
static uint32_t
find_nth_set(uint32_t mask, uint32_t base, int32_t offset)
{
    if (offset == 0)
        return base < 32 && (mask >> base & 1) ? base : UINT32_MAX;
    int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0)
            return (uint32_t)at;
    return UINT32_MAX;
}
SIM_EXEC3_32(fns, uint32_t, uint32_t, find_nth_set(a, b, (int32_t)c))

/* bfe and bfi (9.7.1.19, 9.7.1.20): the text restricts position and length to 8 bits.  For 64-bit
 * operands sm_90 clamps them to 255 instead, and so does this. */
static uint32_t
field_operand(uint32_t value, uint32_t bits)
{
    return bits == 64 && value > 255 ? 255 : value & 0xff;
}

/* Signed fields extend from their top bit, or from bit 31/63 of the source when the field reaches
 * beyond it. */
static uint64_t
extract(uint64_t a, uint32_t position, uint32_t length, uint32_t bits, bool is_signed)
{
    position = field_operand(position, bits);
    length = field_operand(length, bits);
    if (length == 0)
        return 0;
    uint32_t top = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
    bool sign = is_signed && (a >> top & 1);
    uint64_t field = position < bits ? a >> position : 0;
    uint32_t have = position < bits ? (length < bits - position ? length : bits - position) : 0;
    uint64_t keep = have >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << have) - 1;
    return (field & keep) | (sign ? ~keep : 0);
}
SIM_EXEC3_32(bfe_u32, uint32_t, uint32_t, extract(a, b, c, 32, false))
SIM_EXEC3_32(bfe_s32, uint32_t, uint32_t, extract(a, b, c, 32, true))
#define BFE64(name, is_signed)                                                                     \
    SIM_EXEC_(name, uint64_t, sim_put64, uint64_t,                                                 \
              SIM_READ64(uint64_t, a, 1); SIM_READ32(uint32_t, b, 2); SIM_READ32(uint32_t, c, 3),  \
              extract(a, b, c, 64, is_signed))
BFE64(bfe_u64, false)
BFE64(bfe_s64, true)

static uint64_t
insert(uint64_t a, uint64_t b, uint32_t position, uint32_t length, uint32_t bits)
{
    position = field_operand(position, bits);
    length = field_operand(length, bits);
    if (position >= bits || length == 0)
        return b;
    uint32_t have = length < bits - position ? length : bits - position;
    uint64_t field = (have >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << have) - 1) << position;
    return (b & ~field) | (a << position & field);
}
#define READ_BFI(T, R)                                                                             \
    R(T, a, 1); R(T, b, 2); SIM_READ32(uint32_t, c, 3); SIM_READ32(uint32_t, d, 4)
SIM_EXEC_(bfi_b32, uint32_t, sim_put32, uint32_t, READ_BFI(uint32_t, SIM_READ32),
          insert(a, b, c, d, 32))
SIM_EXEC_(bfi_b64, uint64_t, sim_put64, uint64_t, READ_BFI(uint64_t, SIM_READ64),
          insert(a, b, c, d, 64))

/* szext and bmsk (9.7.1.20, 9.7.1.21); mode[0]: wrap the position instead of clamping it. */
static uint32_t
zero_or_sign_extend(uint32_t a, uint32_t n, bool is_signed, bool wrap)
{
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    if (n >= 32)
        return a;
    if (n == 0)
        return 0;
    uint32_t keep = (UINT32_C(1) << n) - 1;
    return (a & keep) | (is_signed && (a >> (n - 1) & 1) ? ~keep : 0);
}
SIM_EXEC2_32(szext_u32, uint32_t, uint32_t, zero_or_sign_extend(a, b, false, insn->mode[0]))
SIM_EXEC2_32(szext_s32, uint32_t, uint32_t, zero_or_sign_extend(a, b, true, insn->mode[0]))
static uint32_t
bit_mask(uint32_t position, uint32_t width, bool wrap)
{
    position = wrap ? position & 31 : position > 32 ? 32 : position;
    width = wrap ? width & 31 : width > 32 ? 32 : width;
    return (uint32_t)(((UINT64_C(1) << width) - 1) << position);
}
SIM_EXEC2_32(bmsk, uint32_t, uint32_t, bit_mask(a, b, insn->mode[0]))

/* dp4a, dp2a (9.7.1.23): mode[0], mode[1]: signs of a and b; mode[2]: high half of b. */
static uint32_t
dot(const SimInsn *insn, uint32_t a, uint32_t b, uint32_t c, bool four)
{
    for (int i = 0; i < (four ? 4 : 2); i++) {
        uint32_t x = four ? a >> 8 * i & 0xff : a >> 16 * i & 0xffff;
        uint32_t y = b >> 8 * (four ? i : i + 2 * insn->mode[2]) & 0xff;
        int32_t xs = !insn->mode[0] ? (int32_t)x : four ? (int8_t)x : (int16_t)x;
        int32_t ys = insn->mode[1] ? (int8_t)y : (int32_t)y;
        c += (uint32_t)(xs * ys);
    }
    return c;
}
SIM_EXEC3_32(dp4a, uint32_t, uint32_t, dot(insn, a, b, c, true))
SIM_EXEC3_32(dp2a, uint32_t, uint32_t, dot(insn, a, b, c, false))

/* lop3 (9.7.8.6): the immediate is the truth table over a, b, c. */
static inline uint32_t
logic3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t out = 0;
    for (uint32_t row = 0; row < 8; row++)
        if (table >> row & 1)
            out |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    return out;
}
SIM_EXEC3_32(lop3, uint32_t, uint32_t, logic3(a, b, c, (uint32_t)insn->imm))
static SimStep
lop3_bool(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t result[SIM_LANES], nonzero = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        SIM_READ32(uint32_t, a, 1);
        SIM_READ32(uint32_t, b, 2);
        SIM_READ32(uint32_t, c, 3);
        result[l] = logic3(a, b, c, (uint32_t)insn->imm);
        nonzero |= (uint32_t)(result[l] != 0) << l;
    }
    uint32_t q = *sim_rp(warp, insn->slot[4]);
    q = insn->mode[1] ? ~q : q;
    sim_put32(warp, insn->slot[0], result, mask);
    sim_put_pred(warp, insn->slot[5], insn->mode[0] ? nonzero & q : nonzero | q, mask);
    return SIM_NEXT;
}

/* Shifts (9.7.8.7, 9.7.8.8): amounts beyond the width clamp to it. */
#define READ_SHIFT(T, R) R(T, a, 1); SIM_READ32(uint32_t, b, 2)
#define SHIFT32(name, T, U, e)                                                                     \
    SIM_EXEC_(name, uint32_t, sim_put32, U, READ_SHIFT(T, SIM_READ32), e)
#define SHIFT64(name, T, e)                                                                        \
    SIM_EXEC_(name, uint64_t, sim_put64, uint64_t, READ_SHIFT(T, SIM_READ64), e)
SHIFT32(shl_b16, uint16_t, uint16_t, b > 15 ? 0 : (uint32_t)a << b)
SHIFT32(shl_b32, uint32_t, uint32_t, b > 31 ? 0 : a << (b & 31))
SHIFT64(shl_b64, uint64_t, b > 63 ? 0 : a << (b & 63))
SHIFT32(shr_u16, uint16_t, uint16_t, b > 15 ? 0 : (uint32_t)a >> b)
SHIFT32(shr_u32, uint32_t, uint32_t, b > 31 ? 0 : a >> (b & 31))
SHIFT64(shr_u64, uint64_t, b > 63 ? 0 : a >> (b & 63))
SHIFT32(shr_s16, int16_t, uint16_t, a >> (b > 15 ? 15 : b))
SHIFT32(shr_s32, int32_t, uint32_t, a >> (b > 31 ? 31 : b))
SHIFT64(shr_s64, int64_t, a >> (b > 63 ? 63 : b))
/* shf (9.7.8.9): c is the amount; .l gives the high, .r the low word of the shifted pair {b, a}. */
static inline uint32_t
funnel(uint32_t a, uint32_t b, uint32_t n, bool left)
{
    uint64_t pair = (uint64_t)b << 32 | a;
    return left ? (uint32_t)(n > 31 ? a : pair << n >> 32) : (uint32_t)(n > 31 ? b : pair >> n);
}
SIM_EXEC3_32(shf_l_wrap, uint32_t, uint32_t, funnel(a, b, c & 31, true))
SIM_EXEC3_32(shf_r_wrap, uint32_t, uint32_t, funnel(a, b, c & 31, false))
SIM_EXEC3_32(shf_l_clamp, uint32_t, uint32_t, funnel(a, b, c > 32 ? 32 : c, true))
SIM_EXEC3_32(shf_r_clamp, uint32_t, uint32_t, funnel(a, b, c > 32 ? 32 : c, false))

/* clang-format on */

/* ------------------------------------------------------------------------ carries */

/* add.cc, addc, sub.cc, subc, mad.cc, madc (9.7.2): the carry is a bit of each lane.  mode: 0 reads
 * the carry, 1 writes it, 2 subtracts, 3 multiplies (1 low, 2 high half of the product). */
static SimStep
carry_op(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    bool wide = sim_type_is_wide((SimType)insn->type);
    bool is_signed = sim_type_info((SimType)insn->type)->kind == 's';
    uint32_t out32[SIM_LANES], carry = 0;
    uint64_t out64[SIM_LANES];
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint64_t in[3] = {0, 0, 0};
        for (int i = 0; i < (insn->mode[3] ? 3 : 2); i++)
            in[i] = wide ? sim_r64(warp, insn->slot[i + 1])[l]
                         : sim_r32(warp, insn->slot[i + 1])[l];
        Wide a = in[0], b = in[1];
        uint32_t bits = wide ? 64 : 32;
        if (insn->mode[3]) {
            Wide product = !is_signed ? a * b
                           : wide     ? (Wide)((WideSigned)(int64_t)in[0] * (int64_t)in[1])
                                  : (Wide)(WideSigned)((int64_t)(int32_t)in[0] * (int32_t)in[1]);
            a = insn->mode[3] == 2 ? product >> bits : product;
            a &= ((Wide)1 << bits) - 1;
            b = in[2];
        }
        uint32_t into = insn->mode[0] ? warp->carry >> l & 1 : 0;
        Wide sum = insn->mode[2] ? a - b - into : a + b + into;
        carry |= (uint32_t)(sum >> bits & 1) << l; /* of a difference: the borrow */
        out32[l] = (uint32_t)sum;
        out64[l] = (uint64_t)sum;
    }
    if (wide)
        sim_put64(warp, insn->slot[0], out64, mask);
    else
        sim_put32(warp, insn->slot[0], out32, mask);
    if (insn->mode[1])
        warp->carry = (warp->carry & ~mask) | (carry & mask);
    return SIM_NEXT;
}

static bool
decode_carry(SimDecode *dx, bool reads, bool subtracts, bool multiplies)
{
    SimInsn *out = dx->out;
    out->mode[0] = reads;
    out->mode[1] = dec_take(dx, "cc") || !reads;
    out->mode[2] = subtracts;
    if (multiplies) {
        static const char *const halves[] = {"lo", "hi", NULL};
        int half = dec_choice(dx, halves);
        if (half < 0)
            return dec_fail(dx, "needs .lo or .hi");
        out->mode[3] = (uint8_t)(half + 1);
    }
    SimType type = dec_type(dx);
    uint8_t bits = sim_type_info(type)->bits;
    if (bits != 32 && bits != 64)
        return dec_fail(dx, "needs a 32- or 64-bit type");
    out->type = (uint8_t)type;
    out->exec = carry_op;
    return dec_plain(dx, type, type, multiplies ? 3 : 2);
}

/* clang-format off */
static bool decode_addc(SimDecode *dx) { return decode_carry(dx, true, false, false); }
static bool decode_subc(SimDecode *dx) { return decode_carry(dx, true, true, false); }
static bool decode_madc(SimDecode *dx) { return decode_carry(dx, true, false, true); }
/* clang-format on */

/* ------------------------------------------------------------------------ decoding */

static bool
decode_table(SimDecode *dx, const SimExec *table, size_t sources)
{
    SimType type = dec_type(dx);
    dx->out->type = (uint8_t)type;
    dx->out->exec = table[type];
    if (!dx->out->exec)
        return dec_fail(dx, "type '.%s' is not supported here", sim_type_info(type)->name);
    return dec_plain(dx, type, type, sources);
}

/* add.cc and so on: the modifier makes it an operation on carries. */
static bool
is_carry(const SimDecode *dx)
{
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++)
        if (strcmp(dx->src->part[i], "cc") == 0)
            return true;
    return false;
}

static bool
decode_arithmetic(SimDecode *dx, const char *op, const SimExec *table, size_t sources)
{
    bool handled, ok = sim_decode_float(dx, op, &handled);
    return handled ? ok : decode_table(dx, table, sources);
}

static bool
decode_sum(SimDecode *dx, const char *op, const SimExec *table, SimExec saturating)
{
    SimInsn *out = dx->out;
    if (is_carry(dx))
        return decode_carry(dx, false, *op == 's', false);
    bool handled, ok = sim_decode_float(dx, op, &handled);
    if (handled)
        return ok;
    if (dec_take(dx, "sat")) {
        if (dec_type(dx) != SIM_S32)
            return dec_fail(dx, ".sat is for .s32 only");
        out->exec = saturating;
        return dec_plain(dx, SIM_S32, SIM_S32, 2);
    }
    if (*op == 'a' && (dec_take(dx, "u16x2") || dec_take(dx, "s16x2"))) {
        out->exec = add_u16x2_insn;
        return dec_plain(dx, SIM_U16X2, SIM_U16X2, 2);
    }
    return decode_table(dx, table, 2);
}
/* clang-format off */
static bool decode_add(SimDecode *dx) { return decode_sum(dx, "add", add_table, add_sat); }
static bool decode_sub(SimDecode *dx) { return decode_sum(dx, "sub", sub_table, sub_sat); }
/* clang-format on */

static bool
decode_mul(SimDecode *dx)
{
    bool handled, ok = sim_decode_float(dx, "mul", &handled);
    if (handled)
        return ok;
    if (dec_take(dx, "wide")) {
        SimType type = dec_type(dx);
        SimType wide = type == SIM_U16 ? SIM_U32 : type == SIM_S16 ? SIM_S32 : SIM_U64;
        dx->out->exec = type == SIM_U16   ? mul_wide_u16
                        : type == SIM_S16 ? mul_wide_s16
                        : type == SIM_U32 ? mul_wide_u32
                        : type == SIM_S32 ? mul_wide_s32
                                          : NULL;
        return dx->out->exec && dec_plain(dx, wide, type, 2);
    }
    if (dec_take(dx, "hi"))
        return decode_table(dx, mul_hi_table, 2);
    if (!dec_take(dx, "lo"))
        return dec_fail(dx, "needs .lo, .hi or .wide");
    return decode_table(dx, mul_lo_table, 2);
}

static bool
decode_mad(SimDecode *dx)
{
    if (is_carry(dx))
        return decode_carry(dx, false, false, true);
    bool handled, ok = sim_decode_float(dx, "fma", &handled); /* mad.f32 is fma (9.7.3.7) */
    if (handled)
        return ok;
    if (dec_take(dx, "wide")) {
        SimType type = dec_type(dx);
        SimType wide = type == SIM_U16 ? SIM_U32 : type == SIM_S16 ? SIM_S32 : SIM_U64;
        dx->out->exec = type == SIM_U16   ? mad_wide_u16
                        : type == SIM_S16 ? mad_wide_s16
                        : type == SIM_U32 ? mad_wide_u32
                        : type == SIM_S32 ? mad_wide_s32
                                          : NULL;
        return dx->out->exec && dec_count(dx, 4, 4) && dec_dst(dx, dec_operand(dx, 0), wide) &&
               dec_src(dx, dec_operand(dx, 1), type) && dec_src(dx, dec_operand(dx, 2), type) &&
               dec_src(dx, dec_operand(dx, 3), wide);
    }
    if (dec_take(dx, "hi")) {
        if (dec_take(dx, "sat")) {
            dx->out->exec = mad_hi_sat;
            return dec_take(dx, "s32") && dec_plain(dx, SIM_S32, SIM_S32, 3);
        }
        return decode_table(dx, mad_hi_table, 3);
    }
    if (!dec_take(dx, "lo"))
        return dec_fail(dx, "needs .lo, .hi or .wide");
    return decode_table(dx, mad_lo_table, 3);
}

static bool
decode_24(SimDecode *dx, size_t sources, const SimExec table[4])
{
    static const char *const halves[] = {"lo", "hi", NULL};
    int half = dec_choice(dx, halves);
    bool saturates = sources == 3 && half == 1 && dec_take(dx, "sat");
    SimType type = dec_type(dx);
    if (saturates && type == SIM_S32) {
        dx->out->exec = mad24_hi_sat;
        return dec_plain(dx, type, type, sources);
    }
    if (saturates || half < 0 || (type != SIM_U32 && type != SIM_S32))
        return dec_fail(dx, "needs .lo or .hi, and .u32 or .s32");
    dx->out->exec = table[half * 2 + (type == SIM_S32)];
    return dec_plain(dx, type, type, sources);
}
static bool
decode_mul24(SimDecode *dx)
{
    static const SimExec table[4] = {mul24_lo_u, mul24_lo_s, mul24_hi_u, mul24_hi_s};
    return decode_24(dx, 2, table);
}
static bool
decode_mad24(SimDecode *dx)
{
    static const SimExec table[4] = {mad24_lo_u, mad24_lo_s, mad24_hi_u, mad24_hi_s};
    return decode_24(dx, 3, table);
}

/* clang-format off */
static bool decode_div(SimDecode *dx) { return decode_arithmetic(dx, "div", div_table, 2); }
static bool decode_rem(SimDecode *dx) { return decode_table(dx, rem_table, 2); }
static bool decode_sad(SimDecode *dx) { return decode_table(dx, sad_table, 3); }
static bool decode_neg(SimDecode *dx) { return decode_arithmetic(dx, "neg", neg_table, 1); }
/* clang-format on */

static bool
decode_abs(SimDecode *dx)
{
    static const SimExec table[SIM_TYPE_COUNT] = {
        [SIM_S16] = abs_s16, [SIM_S32] = abs_s32, [SIM_S64] = abs_s64};
    return decode_arithmetic(dx, "abs", table, 1);
}

static bool
decode_minmax(SimDecode *dx, const char *op, const SimExec *table)
{
    bool is_min = op[1] == 'i';
    bool handled, ok = sim_decode_float(dx, op, &handled);
    if (handled)
        return ok;
    bool relu = dec_take(dx, "relu");
    if (dec_take(dx, "u16x2") && !relu) {
        dx->out->exec = is_min ? min_u16x2_insn : max_u16x2_insn;
        return dec_plain(dx, SIM_U16X2, SIM_U16X2, 2);
    }
    if (dec_take(dx, "s16x2")) {
        dx->out->exec = is_min ? (relu ? min_s16x2_relu : min_s16x2_insn)
                               : (relu ? max_s16x2_relu : max_s16x2_insn);
        return dec_plain(dx, SIM_S16X2, SIM_S16X2, 2);
    }
    if (relu) {
        dx->out->exec = is_min ? min_s32_relu : max_s32_relu;
        return dec_take(dx, "s32") ? dec_plain(dx, SIM_S32, SIM_S32, 2)
                                   : dec_fail(dx, ".relu is for .s32 and .s16x2");
    }
    return decode_table(dx, table, 2);
}
/* clang-format off */
static bool decode_min(SimDecode *dx) { return decode_minmax(dx, "min", min_table); }
static bool decode_max(SimDecode *dx) { return decode_minmax(dx, "max", max_table); }
/* clang-format on */

static bool
decode_count_bits(SimDecode *dx, SimExec narrow, SimExec wide)
{
    SimType type = dec_type(dx);
    if (type != SIM_B32 && type != SIM_B64)
        return dec_fail(dx, "needs .b32 or .b64");
    dx->out->exec = type == SIM_B32 ? narrow : wide;
    return dec_plain(dx, SIM_B32, type, 1);
}
/* clang-format off */
static bool decode_popc(SimDecode *dx) { return decode_count_bits(dx, popc_b32, popc_b64); }
static bool decode_clz(SimDecode *dx) { return decode_count_bits(dx, clz_b32, clz_b64); }
/* clang-format on */

static bool
decode_bfind(SimDecode *dx)
{
    static const SimExec plain[SIM_TYPE_COUNT] = {
        [SIM_U32] = bfind_u32, [SIM_S32] = bfind_s32, [SIM_U64] = bfind_u64, [SIM_S64] = bfind_s64};
    static const SimExec amount[SIM_TYPE_COUNT] = {[SIM_U32] = bfind_shift_u32,
                                                   [SIM_S32] = bfind_shift_s32,
                                                   [SIM_U64] = bfind_shift_u64,
                                                   [SIM_S64] = bfind_shift_s64};
    bool shift = dec_take(dx, "shiftamt");
    SimType type = dec_type(dx);
    dx->out->exec = shift ? amount[type] : plain[type];
    return dec_plain(dx, SIM_U32, type, 1);
}

static bool
decode_brev(SimDecode *dx)
{
    static const SimExec table[SIM_TYPE_COUNT] = {[SIM_B32] = brev_b32, [SIM_B64] = brev_b64};
    return decode_table(dx, table, 1);
}

static bool
decode_fns(SimDecode *dx)
{
    dx->out->exec = fns;
    return dec_take(dx, "b32") && dec_plain(dx, SIM_B32, SIM_B32, 3);
}

static bool
decode_bfe(SimDecode *dx)
{
    static const SimExec table[SIM_TYPE_COUNT] = {
        [SIM_U32] = bfe_u32, [SIM_S32] = bfe_s32, [SIM_U64] = bfe_u64, [SIM_S64] = bfe_s64};
    SimType type = dec_type(dx);
    dx->out->exec = table[type];
    return dec_count(dx, 4, 4) && dec_dst(dx, dec_operand(dx, 0), type) &&
           dec_src(dx, dec_operand(dx, 1), type) && dec_src(dx, dec_operand(dx, 2), SIM_U32) &&
           dec_src(dx, dec_operand(dx, 3), SIM_U32);
}

static bool
decode_bfi(SimDecode *dx)
{
    SimType type = dec_type(dx);
    dx->out->exec = type == SIM_B32 ? bfi_b32 : type == SIM_B64 ? bfi_b64 : NULL;
    return dec_count(dx, 5, 5) && dec_dst(dx, dec_operand(dx, 0), type) &&
           dec_src(dx, dec_operand(dx, 1), type) && dec_src(dx, dec_operand(dx, 2), type) &&
           dec_src(dx, dec_operand(dx, 3), SIM_U32) && dec_src(dx, dec_operand(dx, 4), SIM_U32);
}

static bool
decode_wrap_or_clamp(SimDecode *dx)
{
    static const char *const words[] = {"clamp", "wrap", NULL};
    int choice = dec_choice(dx, words);
    if (choice < 0)
        return dec_fail(dx, "needs .clamp or .wrap");
    dx->out->mode[0] = (uint8_t)choice;
    return true;
}
static bool
decode_szext(SimDecode *dx)
{
    if (!decode_wrap_or_clamp(dx))
        return false;
    SimType type = dec_type(dx);
    dx->out->exec = type == SIM_U32 ? szext_u32 : type == SIM_S32 ? szext_s32 : NULL;
    return dec_plain(dx, type, type, 2);
}
static bool
decode_bmsk(SimDecode *dx)
{
    dx->out->exec = bmsk;
    return decode_wrap_or_clamp(dx) && dec_take(dx, "b32") && dec_plain(dx, SIM_B32, SIM_B32, 2);
}

static bool
decode_dot(SimDecode *dx, SimExec exec, bool halves)
{
    static const char *const words[] = {"lo", "hi", NULL};
    SimInsn *out = dx->out;
    if (halves) {
        int half = dec_choice(dx, words);
        if (half < 0)
            return dec_fail(dx, "needs .lo or .hi");
        out->mode[2] = (uint8_t)half;
    }
    for (int i = 0; i < 2; i++) {
        SimType type = dec_type(dx);
        if (type != SIM_U32 && type != SIM_S32)
            return dec_fail(dx, "needs two of .u32, .s32");
        out->mode[i] = type == SIM_S32;
    }
    out->exec = exec;
    return dec_plain(dx, SIM_B32, SIM_B32, 3);
}
/* clang-format off */
static bool decode_dp4a(SimDecode *dx) { return decode_dot(dx, dp4a, false); }
static bool decode_dp2a(SimDecode *dx) { return decode_dot(dx, dp2a, true); }
/* clang-format on */

/* Logic on predicates: one word is the whole warp. */
#define PRED_OP(name, e)                                                                           \
    static SimStep name(SimWarp *warp, const SimInsn *insn, uint32_t mask)                         \
    {                                                                                              \
        uint32_t a = *sim_rp(warp, insn->slot[1]) ^ (insn->mode[0] ? UINT32_MAX : 0);              \
        uint32_t b = *sim_rp(warp, insn->slot[2]) ^ (insn->mode[1] ? UINT32_MAX : 0);              \
        sim_put_pred(warp, insn->slot[0], e, mask);                                                \
        return SIM_NEXT;                                                                           \
    }
PRED_OP(and_pred, a &b)
PRED_OP(or_pred, a | b)
PRED_OP(xor_pred, a ^ b)
PRED_OP(not_pred, ~(a &b))

static bool
decode_logic(SimDecode *dx, const SimExec *table, SimExec on_pred, size_t sources)
{
    bool negated[2] = {false, false};
    if (!dec_take(dx, "pred"))
        return decode_table(dx, table, sources);
    dx->out->exec = on_pred;
    if (!dec_count(dx, sources + 1, sources + 1) || !dec_dst(dx, dec_operand(dx, 0), SIM_PRED))
        return false;
    for (size_t i = 0; i < 2; i++) /* a lone source stands for both */
        if (!dec_pred(dx, dec_operand(dx, sources == 1 ? 1 : i + 1), &negated[i]))
            return false;
    dx->out->mode[0] = negated[0];
    dx->out->mode[1] = negated[1];
    return true;
}
/* clang-format off */
static bool decode_and(SimDecode *dx) { return decode_logic(dx, and_bits_table, and_pred, 2); }
static bool decode_or(SimDecode *dx) { return decode_logic(dx, or_bits_table, or_pred, 2); }
static bool decode_xor(SimDecode *dx) { return decode_logic(dx, xor_bits_table, xor_pred, 2); }
static bool decode_not(SimDecode *dx) { return decode_logic(dx, not_bits_table, not_pred, 1); }
static bool decode_cnot(SimDecode *dx) { return decode_table(dx, cnot_table, 1); }
/* clang-format on */

static bool
decode_lop3(SimDecode *dx)
{
    static const char *const words[] = {"or", "and", NULL};
    SimInsn *out = dx->out;
    int bool_op = dec_choice(dx, words);
    const PtxOperand *d = dec_operand(dx, 0);
    bool negated = false;
    out->exec = bool_op < 0 ? lop3 : lop3_bool;
    size_t n = bool_op < 0 ? 5 : 6;
    if (!dec_take(dx, "b32") || !dec_count(dx, n, n) || !dec_dst(dx, d, SIM_B32))
        return dec_fail(dx, "malformed lop3");
    for (size_t i = 1; i <= 3; i++)
        if (!dec_src(dx, dec_operand(dx, i), SIM_B32))
            return false;
    if (!dec_immediate(dx, dec_operand(dx, 4), &out->imm))
        return false;
    if (bool_op < 0)
        return true;
    out->mode[0] = bool_op == 1;
    if (!d->pair || !dec_pred(dx, dec_operand(dx, 5), &negated))
        return dec_fail(dx, "needs a predicate destination and source");
    out->mode[1] = negated;
    return dec_dst(dx, d->pair, SIM_PRED);
}

static bool
decode_shift(SimDecode *dx, const SimExec *table)
{
    SimType type = dec_type(dx);
    dx->out->exec = table[type];
    return dec_count(dx, 3, 3) && dec_dst(dx, dec_operand(dx, 0), type) &&
           dec_src(dx, dec_operand(dx, 1), type) && dec_src(dx, dec_operand(dx, 2), SIM_U32);
}
static bool
decode_shl(SimDecode *dx)
{
    static const SimExec table[SIM_TYPE_COUNT] = {
        [SIM_B16] = shl_b16, [SIM_B32] = shl_b32, [SIM_B64] = shl_b64,
        [SIM_U16] = shl_b16, [SIM_U32] = shl_b32, [SIM_U64] = shl_b64,
        [SIM_S16] = shl_b16, [SIM_S32] = shl_b32, [SIM_S64] = shl_b64,
    };
    return decode_shift(dx, table);
}
static bool
decode_shr(SimDecode *dx)
{
    static const SimExec table[SIM_TYPE_COUNT] = {
        [SIM_B16] = shr_u16, [SIM_B32] = shr_u32, [SIM_B64] = shr_u64,
        [SIM_U16] = shr_u16, [SIM_U32] = shr_u32, [SIM_U64] = shr_u64,
        [SIM_S16] = shr_s16, [SIM_S32] = shr_s32, [SIM_S64] = shr_s64,
    };
    return decode_shift(dx, table);
}
static bool
decode_shf(SimDecode *dx)
{
    static const char *const directions[] = {"l", "r", NULL};
    int direction = dec_choice(dx, directions);
    if (direction < 0 || !decode_wrap_or_clamp(dx))
        return dec_fail(dx, "needs .l or .r");
    static const SimExec table[2][2] = {{shf_l_clamp, shf_l_wrap}, {shf_r_clamp, shf_r_wrap}};
    dx->out->exec = table[direction][dx->out->mode[0]];
    return dec_take(dx, "b32") && dec_plain(dx, SIM_B32, SIM_B32, 3);
}

const SimFamily sim_int_families[] = {
    {"add", decode_add},
    {"sub", decode_sub},
    {"mul", decode_mul},
    {"mad", decode_mad},
    {"mul24", decode_mul24},
    {"mad24", decode_mad24},
    {"sad", decode_sad},
    {"div", decode_div},
    {"rem", decode_rem},
    {"abs", decode_abs},
    {"neg", decode_neg},
    {"min", decode_min},
    {"max", decode_max},
    {"popc", decode_popc},
    {"clz", decode_clz},
    {"bfind", decode_bfind},
    {"fns", decode_fns},
    {"brev", decode_brev},
    {"bfe", decode_bfe},
    {"bfi", decode_bfi},
    {"szext", decode_szext},
    {"bmsk", decode_bmsk},
    {"dp4a", decode_dp4a},
    {"dp2a", decode_dp2a},
    {"and", decode_and},
    {"or", decode_or},
    {"xor", decode_xor},
    {"not", decode_not},
    {"cnot", decode_cnot},
    {"lop3", decode_lop3},
    {"shl", decode_shl},
    {"shr", decode_shr},
    {"shf", decode_shf},
    {"addc", decode_addc},
    {"subc", decode_subc},
    {"madc", decode_madc},
    {NULL, NULL},
};
