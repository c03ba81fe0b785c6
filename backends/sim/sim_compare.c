/* sim_compare.c - comparing, selecting and moving (PTX ISA 9.7.6, 9.7.7, 9.7.9.1 to 9.7.9.6). */
#include "sim_contract.h"
#include "sim_exec.h"
#include "sim_special.h"

/* ------------------------------------------------------------------------ comparisons */

/* clang-format off */
typedef enum Compare {
    CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE,
    CMP_LO, CMP_LS, CMP_HI, CMP_HS,
    CMP_EQU, CMP_NEU, CMP_LTU, CMP_LEU, CMP_GTU, CMP_GEU, CMP_NUM, CMP_NAN
} Compare;
/* clang-format on */
static const char *const compare_words[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "lo",
                                            "ls",  "hi",  "hs",  "equ", "neu", "ltu", "leu",
                                            "gtu", "geu", "num", "nan", NULL};

/* One bit per lane for an expression over the rows pa and pb. */
#define COLLECT(e)                                                                                 \
    for (int l = 0; l < SIM_LANES; l++)                                                            \
        out |= (uint32_t)(e) << l;                                                                 \
    break
#define COMPARE(name, W, T, row)                                                                   \
    SIM_HOT static uint32_t name(const SimWarp *warp, SimSlot sa, SimSlot sb, Compare compare)     \
    {                                                                                              \
        const W *pa = row(warp, sa), *pb = row(warp, sb);                                          \
        uint32_t out = 0;                                                                          \
        switch (compare) {                                                                         \
        case CMP_EQ: COLLECT((T)pa[l] == (T)pb[l]);                                                \
        case CMP_NE: COLLECT((T)pa[l] != (T)pb[l]);                                                \
        case CMP_LT:                                                                               \
        case CMP_LO: COLLECT((T)pa[l] < (T)pb[l]);                                                 \
        case CMP_LE:                                                                               \
        case CMP_LS: COLLECT((T)pa[l] <= (T)pb[l]);                                                \
        case CMP_GT:                                                                               \
        case CMP_HI: COLLECT((T)pa[l] > (T)pb[l]);                                                 \
        default: COLLECT((T)pa[l] >= (T)pb[l]);                                                    \
        }                                                                                          \
        return out;                                                                                \
    }
/* clang-format off */
COMPARE(compare_u16, uint32_t, uint16_t, sim_r32)
COMPARE(compare_s16, uint32_t, int16_t, sim_r32)
COMPARE(compare_u32, uint32_t, uint32_t, sim_r32)
COMPARE(compare_s32, uint32_t, int32_t, sim_r32)
COMPARE(compare_u64, uint64_t, uint64_t, sim_r64)
COMPARE(compare_s64, uint64_t, int64_t, sim_r64)
/* clang-format on */

/* 9.7.6: the plain comparisons are false when an operand is NaN, those ending in u are true. */
static bool
compare_values(double a, double b, Compare compare)
{
    bool nan = isnan(a) || isnan(b);
    switch (compare) {
    case CMP_EQ: return a == b;
    case CMP_NE: return a != b && !nan;
    case CMP_LT: return a < b;
    case CMP_LE: return a <= b;
    case CMP_GT: return a > b;
    case CMP_GE: return a >= b;
    case CMP_EQU: return a == b || nan;
    case CMP_NEU: return a != b;
    case CMP_LTU: return a < b || nan;
    case CMP_LEU: return a <= b || nan;
    case CMP_GTU: return a > b || nan;
    case CMP_GEU: return a >= b || nan;
    case CMP_NUM: return !nan;
    default: return nan;
    }
}

/* A lane's value of any floating type; `half` picks the part of a packed pair. */
static double
read_value(const SimWarp *warp, SimSlot slot, uint32_t l, SimType type, bool ftz, int half)
{
    if (type == SIM_F64)
        return sim_f64(sim_r64(warp, slot)[l]);
    uint32_t bits = sim_r32(warp, slot)[l];
    switch (type) {
    case SIM_F32: return (double)sim_f32(ftz ? sim_flush(bits) : bits);
    case SIM_F16:
    case SIM_F16X2: return (double)sim_f16(bits >> 16 * half & 0xffff);
    default: return (double)sim_bf16(bits >> 16 * half & 0xffff);
    }
}

/* Which lanes are less, equal and greater; those with a NaN are none of these. */
SIM_HOT static void
relate_f32(uint32_t related[3], const uint32_t *a, const uint32_t *b, bool ftz)
{
    uint32_t less = 0, equal = 0, greater = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        float x = sim_f32(ftz ? sim_flush(a[l]) : a[l]), y = sim_f32(ftz ? sim_flush(b[l]) : b[l]);
        less |= (uint32_t)(x < y) << l;
        equal |= (uint32_t)(x == y) << l;
        greater |= (uint32_t)(x > y) << l;
    }
    related[0] = less, related[1] = equal, related[2] = greater;
}

static uint32_t
compare_f32(const SimWarp *warp, SimSlot a, SimSlot b, Compare compare, bool ftz)
{
    uint32_t r[3];
    relate_f32(r, sim_r32(warp, a), sim_r32(warp, b), ftz);
    switch (compare) {
    case CMP_EQ: return r[1];
    case CMP_NE: return r[0] | r[2];
    case CMP_LT: return r[0];
    case CMP_LE: return r[0] | r[1];
    case CMP_GT: return r[2];
    case CMP_GE: return r[1] | r[2];
    case CMP_EQU: return ~(r[0] | r[2]);
    case CMP_NEU: return ~r[1];
    case CMP_LTU: return ~(r[1] | r[2]);
    case CMP_LEU: return ~r[2];
    case CMP_GTU: return ~(r[0] | r[1]);
    case CMP_GEU: return ~r[0];
    case CMP_NUM: return r[0] | r[1] | r[2];
    default: return ~(r[0] | r[1] | r[2]);
    }
}

static uint32_t
compare_lanes(const SimWarp *warp, const SimInsn *insn, SimSlot a, SimSlot b, int half)
{
    Compare compare = (Compare)insn->mode[0];
    uint32_t out = 0;
    switch ((SimType)insn->type) {
    case SIM_U16:
    case SIM_B16: return compare_u16(warp, a, b, compare);
    case SIM_S16: return compare_s16(warp, a, b, compare);
    case SIM_U32:
    case SIM_B32: return compare_u32(warp, a, b, compare);
    case SIM_S32: return compare_s32(warp, a, b, compare);
    case SIM_U64:
    case SIM_B64: return compare_u64(warp, a, b, compare);
    case SIM_S64: return compare_s64(warp, a, b, compare);
    case SIM_F32: return compare_f32(warp, a, b, compare, insn->mode[3]);
    default: break;
    }
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        double x = read_value(warp, a, l, (SimType)insn->type, insn->mode[3], half);
        double y = read_value(warp, b, l, (SimType)insn->type, insn->mode[3], half);
        out |= (uint32_t)compare_values(x, y, compare) << l;
    }
    return out;
}

static uint32_t
combine(const SimInsn *insn, uint32_t compared, uint32_t c)
{
    c = insn->mode[2] ? ~c : c;
    switch (insn->mode[1]) {
    case 1: return compared & c;
    case 2: return compared | c;
    case 3: return compared ^ c;
    default: return compared;
    }
}

/* mode[0] Compare, [1] boolean op + 1, [2] c negated, [3] ftz; slots p, q, a, b, c */
static SimStep
setp(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t t = compare_lanes(warp, insn, insn->slot[2], insn->slot[3], 0);
    uint32_t c = insn->mode[1] ? *sim_rp(warp, insn->slot[4]) : 0;
    bool pair = insn->type == SIM_F16X2 || insn->type == SIM_BF16X2;
    uint32_t u = pair ? compare_lanes(warp, insn, insn->slot[2], insn->slot[3], 1) : ~t;
    sim_put_pred(warp, insn->slot[0], combine(insn, t, c), mask);
    sim_put_pred(warp, insn->slot[1], combine(insn, u, c), mask);
    return SIM_NEXT;
}

static bool
decode_comparison(SimDecode *dx)
{
    static const char *const boolean_words[] = {"and", "or", "xor", NULL};
    int compare = dec_choice(dx, compare_words), boolean = dec_choice(dx, boolean_words);
    if (compare < 0)
        return dec_fail(dx, "needs a comparison");
    dx->out->mode[0] = (uint8_t)compare;
    dx->out->mode[1] = (uint8_t)(boolean + 1);
    dx->out->mode[3] = dec_take(dx, "ftz");
    return true;
}

static bool
check_compare_type(SimDecode *dx, SimType type)
{
    char kind = sim_type_info(type)->kind;
    Compare compare = (Compare)dx->out->mode[0];
    bool ok = strchr("bus", kind) && sim_type_info(type)->bits >= 16 &&
              sim_type_info(type)->bits <= 64 && compare <= CMP_HS;
    if (kind == 'b')
        ok = ok && compare <= CMP_NE;
    if (kind == 'f')
        ok = (compare <= CMP_GE || compare >= CMP_EQU) && type != SIM_TF32;
    if (type == SIM_F16X2 || type == SIM_BF16X2)
        ok = compare <= CMP_GE || compare >= CMP_EQU;
    return ok ||
           dec_fail(dx, "this comparison does not exist for '.%s'", sim_type_info(type)->name);
}

static bool
decode_setp(SimDecode *dx)
{
    const PtxOperand *d = dec_operand(dx, 0);
    bool negated = false;
    if (!decode_comparison(dx))
        return false;
    SimType type = dec_type(dx);
    size_t n = dx->out->mode[1] ? 4 : 3;
    dx->out->type = (uint8_t)type;
    dx->out->exec = setp;
    if (!check_compare_type(dx, type) || !dec_count(dx, n, n) || !dec_dst(dx, d, SIM_PRED))
        return false;
    if (d->pair ? !dec_dst(dx, d->pair, SIM_PRED) : !dec_slot(dx, SIM_NO_SLOT))
        return false;
    if (!dec_src(dx, dec_operand(dx, 1), type) || !dec_src(dx, dec_operand(dx, 2), type))
        return false;
    if (n == 4 && !dec_pred(dx, dec_operand(dx, 3), &negated))
        return false;
    dx->out->mode[2] = negated;
    return true;
}

/* set: all ones or 1.0; type2 is the result's.  slots d, a, b, c */
static SimStep
set(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimType to = (SimType)insn->type2;
    uint32_t one = to == SIM_F32 ? 0x3f800000u : UINT32_MAX, out[SIM_LANES];
    if (to == SIM_F16 || to == SIM_BF16 || to == SIM_U16 || to == SIM_S16 || to == SIM_F16X2 ||
        to == SIM_BF16X2)
        one = to == SIM_F16 || to == SIM_F16X2     ? 0x3c00
              : to == SIM_BF16 || to == SIM_BF16X2 ? 0x3f80
                                                   : 0xffff;
    uint32_t c = insn->mode[1] ? *sim_rp(warp, insn->slot[3]) : 0;
    uint32_t low = combine(insn, compare_lanes(warp, insn, insn->slot[1], insn->slot[2], 0), c);
    bool pair = insn->type == SIM_F16X2 || insn->type == SIM_BF16X2;
    uint32_t high = pair ? combine(insn, compare_lanes(warp, insn, insn->slot[1], insn->slot[2], 1),
                                   c)
                         : 0;
    for (int l = 0; l < SIM_LANES; l++) {
        out[l] = low >> l & 1 ? one : 0;
        if (pair)
            out[l] = (low >> l & 1 ? one & 0xffff : 0) | (high >> l & 1 ? one << 16 : 0);
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

static bool
decode_set(SimDecode *dx)
{
    bool negated = false;
    if (!decode_comparison(dx))
        return false;
    SimType to = dec_type(dx), type = dec_type(dx);
    size_t n = dx->out->mode[1] ? 4 : 3;
    dx->out->type = (uint8_t)type;
    dx->out->type2 = (uint8_t)to;
    dx->out->exec = set;
    uint8_t bits = sim_type_info(to)->bits;
    if ((bits != 32 && bits != 16) || !check_compare_type(dx, type))
        return dec_fail(dx, "these types do not go together");
    if (!dec_count(dx, n, n) || !dec_dst(dx, dec_operand(dx, 0), to) ||
        !dec_src(dx, dec_operand(dx, 1), type) || !dec_src(dx, dec_operand(dx, 2), type))
        return false;
    if (n == 4 && !dec_pred(dx, dec_operand(dx, 3), &negated))
        return false;
    dx->out->mode[2] = negated;
    return true;
}

/* ------------------------------------------------------------------------ selecting */

SIM_HOT static SimStep
selp32(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const uint32_t *a = sim_r32(warp, insn->slot[1]), *b = sim_r32(warp, insn->slot[2]);
    uint32_t p = *sim_rp(warp, insn->slot[3]), out[SIM_LANES];
    p = insn->mode[0] ? ~p : p;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        out[l] = p >> l & 1 ? a[l] : b[l];
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

SIM_HOT static SimStep
selp64(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const uint64_t *a = sim_r64(warp, insn->slot[1]), *b = sim_r64(warp, insn->slot[2]);
    uint32_t p = *sim_rp(warp, insn->slot[3]);
    uint64_t out[SIM_LANES];
    p = insn->mode[0] ? ~p : p;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        out[l] = p >> l & 1 ? a[l] : b[l];
    sim_put64(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

static bool
decode_selp(SimDecode *dx)
{
    bool negated = false;
    SimType type = dec_type(dx);
    uint8_t bits = sim_type_info(type)->bits;
    if (bits != 16 && bits != 32 && bits != 64)
        return dec_fail(dx, "needs a 16-, 32- or 64-bit type");
    dx->out->exec = bits == 64 ? selp64 : selp32;
    if (!dec_count(dx, 4, 4) || !dec_dst(dx, dec_operand(dx, 0), type) ||
        !dec_src(dx, dec_operand(dx, 1), type) || !dec_src(dx, dec_operand(dx, 2), type) ||
        !dec_pred(dx, dec_operand(dx, 3), &negated))
        return false;
    dx->out->mode[0] = negated;
    return true;
}

/* slct: a if c >= 0, else b; NaN selects b (9.7.6.4). */
static SimStep
slct(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t from_a = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint32_t c = sim_r32(warp, insn->slot[3])[l];
        c = insn->mode[0] ? sim_flush(c) : c;
        bool yes = insn->type2 == SIM_S32 ? (int32_t)c >= 0 : sim_f32(c) >= 0;
        from_a |= (uint32_t)yes << l;
    }
    SimSlot d = insn->slot[0], a = insn->slot[1], b = insn->slot[2];
    if (sim_type_is_wide((SimType)insn->type)) {
        uint64_t out[SIM_LANES];
        for (uint32_t l = 0; l < SIM_LANES; l++)
            out[l] = from_a >> l & 1 ? sim_r64(warp, a)[l] : sim_r64(warp, b)[l];
        sim_put64(warp, d, out, mask);
    } else {
        uint32_t out[SIM_LANES];
        for (uint32_t l = 0; l < SIM_LANES; l++)
            out[l] = from_a >> l & 1 ? sim_r32(warp, a)[l] : sim_r32(warp, b)[l];
        sim_put32(warp, d, out, mask);
    }
    return SIM_NEXT;
}

static bool
decode_slct(SimDecode *dx)
{
    dx->out->mode[0] = dec_take(dx, "ftz");
    SimType type = dec_type(dx), by = dec_type(dx);
    if (by != SIM_S32 && by != SIM_F32)
        return dec_fail(dx, "selects by .s32 or .f32");
    dx->out->type = (uint8_t)type;
    dx->out->type2 = (uint8_t)by;
    dx->out->exec = slct;
    return dec_count(dx, 4, 4) && dec_dst(dx, dec_operand(dx, 0), type) &&
           dec_src(dx, dec_operand(dx, 1), type) && dec_src(dx, dec_operand(dx, 2), type) &&
           dec_src(dx, dec_operand(dx, 3), by);
}

/* prmt (9.7.9.7): the selector picks bytes of the pair {b, a}; modes compute the selector. */
static uint32_t
permute(uint32_t a, uint32_t b, uint32_t c, uint32_t mode)
{
    uint64_t pair = (uint64_t)b << 32 | a;
    uint32_t out = 0, n = c & 3;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t pick;
        switch (mode) {
        case 1: pick = (n + i) & 7; break;           /* f4e */
        case 2: pick = (n - i) & 7; break;           /* b4e */
        case 3: pick = n; break;                     /* rc8 */
        case 4: pick = i > n ? i : n; break;         /* ecl */
        case 5: pick = i < n ? i : n; break;         /* ecr */
        case 6: pick = (n & 1) * 2 + (i & 1); break; /* rc16 */
        default: pick = c >> 4 * i & 15; break;
        }
        uint32_t byte = (uint32_t)(pair >> 8 * (pick & 7)) & 0xff;
        if (pick & 8)
            byte = byte & 0x80 ? 0xff : 0;
        out |= byte << 8 * i;
    }
    return out;
}
/* clang-format off */
SIM_EXEC3_32(prmt, uint32_t, uint32_t, permute(a, b, c, insn->mode[0]))
/* clang-format on */
static bool
decode_prmt(SimDecode *dx)
{
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", NULL};
    if (!dec_take(dx, "b32"))
        return dec_fail(dx, "needs .b32");
    dx->out->mode[0] = (uint8_t)(dec_choice(dx, modes) + 1);
    dx->out->exec = prmt;
    return dec_plain(dx, SIM_B32, SIM_B32, 3);
}

/* ------------------------------------------------------------------------ moving */

SIM_HOT static SimStep
mov32(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_put32(warp, insn->slot[0], sim_r32(warp, insn->slot[1]), mask);
    return SIM_NEXT;
}
SIM_HOT static SimStep
mov64(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_put64(warp, insn->slot[0], sim_r64(warp, insn->slot[1]), mask);
    return SIM_NEXT;
}
static SimStep
mov128(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_put64(warp, insn->slot[0], sim_r64(warp, insn->slot[1]), mask);
    sim_put64(warp, insn->slot[0] + 256, sim_r64(warp, insn->slot[1] + 256), mask);
    return SIM_NEXT;
}
static SimStep
mov_pred(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t p = *sim_rp(warp, insn->slot[1]);
    sim_put_pred(warp, insn->slot[0], insn->mode[0] ? ~p : p, mask);
    return SIM_NEXT;
}
static SimStep
mov_clock(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_special_refresh_clock(warp);
    return sim_type_is_wide((SimType)insn->type) ? mov64(warp, insn, mask)
                                                 : mov32(warp, insn, mask);
}
/* The address of a variable on the stack: its place in the frame that runs now. */
static SimStep
mov_frame(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t base = warp->running->frame->local_base, out32[SIM_LANES];
    uint64_t out64[SIM_LANES];
    bool wide = sim_type_is_wide((SimType)insn->type);
    for (int l = 0; l < SIM_LANES; l++) {
        out64[l] = base + (wide ? sim_r64(warp, insn->slot[1])[l] : 0);
        out32[l] = base + (wide ? 0 : sim_r32(warp, insn->slot[1])[l]);
    }
    if (wide)
        sim_put64(warp, insn->slot[0], out64, mask);
    else
        sim_put32(warp, insn->slot[0], out32, mask);
    return SIM_NEXT;
}

/* mov with a list on one side packs or unpacks (9.7.9.4): mode[0] bits of a part, count parts. */
static inline void
put_part(uint64_t *restrict into, const uint32_t *restrict part, uint32_t shift)
{
    for (uint32_t l = 0; l < SIM_LANES; l++)
        into[l] |= (uint64_t)part[l] << shift;
}
static inline void
take_part(uint32_t *restrict part, const uint64_t *restrict from, uint32_t shift, uint32_t keep)
{
    for (uint32_t l = 0; l < SIM_LANES; l++)
        part[l] = (uint32_t)(from[l] >> shift) & keep;
}
SIM_HOT static SimStep
mov_pack(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t part = insn->mode[0], whole = part * insn->count;
    uint64_t low[SIM_LANES], high[SIM_LANES];
    uint32_t narrow[SIM_LANES];
    memset(low, 0, sizeof low);
    memset(high, 0, sizeof high);
    for (uint32_t i = 0; i < insn->count; i++) {
        uint64_t *into = i * part < 64 ? low : high;
        uint32_t shift = i * part % 64;
        if (part == 64)
            memcpy(into, sim_r64(warp, insn->slot[1 + i]), sizeof low);
        else
            put_part(into, sim_r32(warp, insn->slot[1 + i]), shift);
    }
    for (uint32_t l = 0; l < SIM_LANES; l++)
        narrow[l] = (uint32_t)low[l];
    if (whole <= 32) {
        sim_put32(warp, insn->slot[0], narrow, mask);
        return SIM_NEXT;
    }
    sim_put64(warp, insn->slot[0], low, mask);
    if (whole == 128 && insn->slot[0] != SIM_NO_SLOT)
        sim_put64(warp, insn->slot[0] + 256, high, mask);
    return SIM_NEXT;
}
SIM_HOT static SimStep
mov_unpack(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t part = insn->mode[0], whole = part * insn->count, n = insn->count;
    uint64_t low[SIM_LANES], high[SIM_LANES];
    uint32_t narrow[SIM_LANES];
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        low[l] = whole <= 32 ? sim_r32(warp, insn->slot[n])[l] : sim_r64(warp, insn->slot[n])[l];
        high[l] = whole == 128 ? sim_r64(warp, insn->slot[n] + 256)[l] : 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *from = i * part < 64 ? low : high;
        if (part == 64) {
            sim_put64(warp, insn->slot[i], from, mask);
            continue;
        }
        take_part(narrow, from, i * part % 64, part < 32 ? (1u << part) - 1 : UINT32_MAX);
        sim_put32(warp, insn->slot[i], narrow, mask);
    }
    return SIM_NEXT;
}

static bool
decode_mov_list(SimDecode *dx, SimType type, const PtxOperand *list, bool is_destination)
{
    SimInsn *out = dx->out;
    uint32_t whole = sim_type_info(type)->bits, n = (uint32_t)list->count;
    if ((n != 2 && n != 4) || whole / n < 8)
        return dec_fail(dx, "cannot be split into %zu parts", list->count);
    SimType part = whole / n == 8    ? SIM_B8
                   : whole / n == 16 ? SIM_B16
                   : whole / n == 32 ? SIM_B32
                                     : SIM_B64;
    out->mode[0] = (uint8_t)(whole / n);
    out->count = (uint8_t)n;
    out->exec = is_destination ? mov_unpack : mov_pack;
    if (is_destination)
        return dec_dst_vector(dx, list, part, n) && dec_src(dx, dec_operand(dx, 1), type);
    return dec_dst(dx, dec_operand(dx, 0), type) && dec_src_vector(dx, list, part, n);
}

/* The address of a function, for an indirect call. */
static bool
function_address(SimDecode *dx, const PtxOperand *operand, SimSlot *slot)
{
    uint32_t index;
    if (operand->kind != PTX_NAME || sim_parse_lookup(dx->src->scope, operand->name, &index))
        return false;
    for (size_t i = 0; i < dx->mod->function_count; i++)
        if (strcmp(dx->mod->functions[i]->name, operand->name) == 0) {
            *slot = dec_const64(dx, SIM_WINDOW_CODE + i);
            return true;
        }
    return false;
}

static bool
decode_mov(SimDecode *dx)
{
    SimInsn *out = dx->out;
    SimSlot slot;
    bool negated = false;
    if (!dec_count(dx, 2, 2))
        return false;
    const PtxOperand *d = dec_operand(dx, 0), *s = dec_operand(dx, 1);
    SimType type = dec_type(dx);
    uint8_t bits = sim_type_info(type)->bits;
    if (type == SIM_PRED) {
        out->exec = mov_pred;
        if (!dec_dst(dx, d, type))
            return false;
        if (s->kind == PTX_NAME && !s->negated && dec_special(dx, s->name, type, &slot))
            return dec_slot(dx, slot);
        if (!dec_pred(dx, s, &negated))
            return false;
        out->mode[0] = negated;
        return true;
    }
    if (bits < 8 || sim_type_info(type)->kind == 'x')
        return dec_fail(dx, "needs a type");
    if (d->kind == PTX_VECTOR && d->count > 1)
        return decode_mov_list(dx, type, d, true);
    if (s->kind == PTX_VECTOR && s->count > 1)
        return decode_mov_list(dx, type, s, false);
    out->type = (uint8_t)type;
    dx->frame_relative_ok = true;
    out->exec = bits == 128 ? mov128 : bits == 64 ? mov64 : mov32;
    if (!dec_dst(dx, d, type))
        return false;
    if (bits == 64 && function_address(dx, s, &slot))
        return dec_slot(dx, slot);
    if (!dec_src(dx, s, type))
        return false;
    out->contracts = SIM_COPY;
    if (out->frame_relative)
        out->exec = mov_frame;
    if (s->kind == PTX_NAME && sim_special_is_clock(s->name))
        out->exec = mov_clock;
    return true;
}

/* cvta (9.7.9.20): adds or removes the base of a window; mode[0]: to the space. */
static uint64_t
window_base(SimSpace space)
{
    return space == SIM_SHARED ? SIM_WINDOW_SHARED : space == SIM_LOCAL ? SIM_WINDOW_LOCAL : 0;
}
static SimStep
cvta(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint64_t base = window_base((SimSpace)insn->space), out[SIM_LANES];
    uint32_t frame = insn->frame_relative ? warp->running->frame->local_base : 0;
    uint32_t narrow[SIM_LANES];
    bool wide = insn->mode[1];
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint64_t a = wide ? sim_r64(warp, insn->slot[1])[l] : sim_r32(warp, insn->slot[1])[l];
        out[l] = (insn->mode[0] ? a - base : a + base) + frame;
        narrow[l] = (uint32_t)out[l];
    }
    if (wide)
        sim_put64(warp, insn->slot[0], out, mask);
    else
        sim_put32(warp, insn->slot[0], narrow, mask);
    return SIM_NEXT;
}
static bool
decode_cvta(SimDecode *dx)
{
    SimInsn *out = dx->out;
    out->mode[0] = dec_take(dx, "to");
    /* .param is the window of the entry's parameters: its addresses are generic already. */
    out->space = (uint8_t)(dec_take(dx, "param") ? SIM_GLOBAL : dec_space(dx));
    SimType type = dec_type(dx);
    if (out->space == SIM_GENERIC || (type != SIM_U64 && type != SIM_U32))
        return dec_fail(dx, "needs a state space and .u64");
    if (type == SIM_U32)
        return dec_fail(dx, "generic addresses have 64 bits");
    out->mode[1] = 1;
    out->exec = cvta;
    dx->frame_relative_ok = true;
    return dec_plain(dx, type, type, 1);
}

/* isspacep (9.7.9.19) */
static SimStep
isspacep(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out = 0;
    sim_each_lane (l, mask) {
        uint64_t a = sim_r64(warp, insn->slot[1])[l];
        bool shared = a - SIM_WINDOW_SHARED < SIM_WINDOW_SIZE;
        bool local = a - SIM_WINDOW_LOCAL < SIM_WINDOW_SIZE;
        bool param = a - SIM_WINDOW_PARAM < SIM_WINDOW_SIZE;
        uint32_t rank = (uint32_t)a >> SIM_SHARED_RANK_SHIFT;
        bool yes = false;
        switch (insn->mode[0]) {
        case 0: yes = !shared && !local; break; /* global */
        case 1:
        case 2: yes = shared && rank == warp->cta->rank; break; /* shared, shared::cta */
        case 3: yes = shared; break;                            /* shared::cluster */
        case 4: yes = local; break;
        case 5: {
            const SimAllocation *in = sim_device_find(warp->run->device, a);
            yes = in && in->read_only;
            break;
        }
        default: yes = param; break;
        }
        out |= (uint32_t)yes << l;
    }
    sim_put_pred(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}
static bool
decode_isspacep(SimDecode *dx)
{
    static const char *const spaces[] = {"global",          "shared",       "shared::cta",
                                         "shared::cluster", "local",        "const",
                                         "param",           "param::entry", NULL};
    int space = dec_choice(dx, spaces);
    if (space < 0)
        return dec_fail(dx, "needs a state space");
    dx->out->mode[0] = (uint8_t)space;
    dx->out->exec = isspacep;
    return dec_plain(dx, SIM_PRED, SIM_B64, 1);
}

const SimFamily sim_compare_families[] = {
    {"setp", decode_setp}, {"set", decode_set},           {"selp", decode_selp},
    {"slct", decode_slct}, {"prmt", decode_prmt},         {"mov", decode_mov},
    {"cvta", decode_cvta}, {"isspacep", decode_isspacep}, {NULL, NULL},
};
