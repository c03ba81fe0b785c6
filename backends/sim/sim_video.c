/* sim_video.c - video instructions: scalar ones, and those on four bytes or two halves (PTX ISA
 * 9.7.18).
 *
 * Operands may name a part of a register, as x.b0 or x.h10; the reader leaves that in the name.
 */
#include "sim_exec.h"

__extension__ typedef __int128 Wide; /* products of vmad */

typedef enum Video { V_ADD, V_SUB, V_ABSDIFF, V_MIN, V_MAX, V_AVRG, V_SHL, V_SHR, V_SET } Video;
typedef enum Compare { C_EQ, C_NE, C_LT, C_LE, C_GT, C_GE } Compare;
typedef enum Second { SECOND_NONE, SECOND_ADD, SECOND_MIN, SECOND_MAX } Second;

typedef struct Part { /* of a register */
    uint8_t shift, bits;
} Part;

typedef struct Form { /* SimInsn.data */
    Video op;
    Compare compare;
    bool a_signed, b_signed, d_signed, saturate;
    Second second;
    /* on lanes: which parts of {a, b} each operand takes, and which of d are results */
    uint8_t lanes, pick[2][4], mask;
    /* scalar */
    Part a, b, d;
    bool merge, wrap;
    /* vmad */
    bool negate_product, negate_c, plus_one;
    uint8_t scale;
} Form;

static int64_t
part_of(uint32_t word, Part part, bool is_signed)
{
    uint32_t raw = word >> part.shift & (UINT32_MAX >> (32 - part.bits));
    uint32_t up = 32u - part.bits;
    return is_signed ? (int32_t)(raw << up) >> up : (int64_t)raw;
}

static int64_t
shift_left(int64_t a, uint32_t by)
{
    if (by < 32)
        return (int64_t)((uint64_t)a << by);
    return a == 0 ? 0 : a > 0 ? INT64_C(1) << 62 : -(INT64_C(1) << 62); /* low half 0, too large */
}

static bool
compares(Compare how, int64_t a, int64_t b)
{
    switch (how) {
    case C_EQ: return a == b;
    case C_NE: return a != b;
    case C_LT: return a < b;
    case C_LE: return a <= b;
    case C_GT: return a > b;
    default: return a >= b;
    }
}

static int64_t
operate(const Form *f, int64_t a, int64_t b)
{
    uint32_t by = f->wrap ? (uint32_t)b & 31 : (uint32_t)(b > 32 ? 32 : b);
    switch (f->op) {
    case V_ADD: return a + b;
    case V_SUB: return a - b;
    case V_ABSDIFF: return a > b ? a - b : b - a;
    case V_MIN: return a < b ? a : b;
    case V_MAX: return a > b ? a : b;
    case V_SHL: return shift_left(a, by);
    case V_SHR: return a >> by;
    case V_SET: return compares(f->compare, a, b);
    default: return (a + b + (a + b >= 0)) >> 1; /* the average, ties away from zero */
    }
}

static int64_t
saturated(const Form *f, int64_t v, uint32_t bits)
{
    int64_t top = f->d_signed ? (INT64_C(1) << (bits - 1)) - 1 : (INT64_C(1) << bits) - 1;
    int64_t low = f->d_signed ? -top - 1 : 0;
    return !f->saturate ? v : v > top ? top : v < low ? low : v;
}

/* ------------------------------------------------------------------------ execution */

static SimStep
on_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Form *f = insn->data;
    uint32_t out[SIM_LANES], bits = 32u / f->lanes, all = UINT32_MAX >> (32 - bits);
    sim_each_lane (l, mask) {
        uint32_t ab[2] = {sim_r32(warp, insn->slot[1])[l], sim_r32(warp, insn->slot[2])[l]};
        uint32_t c = sim_r32(warp, insn->slot[3])[l], packed = 0, sum = c;
        for (uint32_t i = 0; i < f->lanes; i++) {
            int64_t in[2];
            for (uint32_t which = 0; which < 2; which++) {
                uint32_t from = f->pick[which][i];
                Part part = {(uint8_t)(from % f->lanes * bits), (uint8_t)bits};
                in[which] = part_of(ab[from / f->lanes], part, which ? f->b_signed : f->a_signed);
            }
            int64_t v = saturated(f, operate(f, in[0], in[1]), bits);
            bool result = f->mask >> i & 1;
            sum += result ? (uint32_t)v : 0;
            packed |= (result ? (uint32_t)v & all : c >> i * bits & all) << i * bits;
        }
        out[l] = f->second == SECOND_ADD ? sum : packed;
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* The third operand: combined by a second operation, or what the result is put into. */
static uint32_t
finish(const Form *f, int64_t v, uint32_t c)
{
    int64_t wide = f->d_signed ? (int64_t)(int32_t)c : (int64_t)c;
    if (f->merge) {
        uint32_t all = (UINT32_MAX >> (32 - f->d.bits)) << f->d.shift;
        return ((uint32_t)v << f->d.shift & all) | (c & ~all);
    }
    switch (f->second) {
    case SECOND_ADD: return (uint32_t)(v + wide);
    case SECOND_MIN: return (uint32_t)(v < wide ? v : wide);
    case SECOND_MAX: return (uint32_t)(v > wide ? v : wide);
    default: return (uint32_t)v;
    }
}

static SimStep
scalar(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Form *f = insn->data;
    uint32_t out[SIM_LANES];
    sim_each_lane (l, mask) {
        int64_t a = part_of(sim_r32(warp, insn->slot[1])[l], f->a, f->a_signed);
        int64_t b = part_of(sim_r32(warp, insn->slot[2])[l], f->b, f->b_signed);
        uint32_t c = insn->slot_count > 3 ? sim_r32(warp, insn->slot[3])[l] : 0;
        out[l] = finish(f, saturated(f, operate(f, a, b), f->d.bits), c);
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* 9.7.18.1.3.  The result is signed if an operand is, or if something is negated. */
static SimStep
multiply_add(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Form *f = insn->data;
    uint32_t out[SIM_LANES];
    bool is_signed = f->a_signed || f->b_signed || f->negate_product || f->negate_c;
    Wide top = is_signed ? INT32_MAX : UINT32_MAX, low = is_signed ? INT32_MIN : 0;
    sim_each_lane (l, mask) {
        Wide v = (Wide)part_of(sim_r32(warp, insn->slot[1])[l], f->a, f->a_signed) *
                 part_of(sim_r32(warp, insn->slot[2])[l], f->b, f->b_signed);
        uint32_t c = sim_r32(warp, insn->slot[3])[l];
        v = f->negate_product ? -v : v;
        /* ~c is taken of its 32 bits, and the one that makes it -c is added behind */
        c = f->negate_c ? ~c : c;
        v += (is_signed ? (Wide)(int32_t)c : (Wide)c) + (f->negate_c || f->plus_one);
        v >>= f->scale;
        v = !f->saturate ? v : v > top ? top : v < low ? low : v;
        out[l] = (uint32_t)(uint64_t)v;
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ operands with a part */

/* The name in front of the last dot, if there is no register of the whole name; *part what is
 * behind. */
static PtxOperand
without_part(SimDecode *dx, const PtxOperand *operand, const char **part)
{
    PtxOperand plain = operand ? *operand : (PtxOperand){.kind = PTX_SINK};
    uint32_t index;
    const char *dot = plain.kind == PTX_NAME ? strrchr(plain.name, '.') : NULL;
    *part = NULL;
    if (!dot || sim_parse_lookup(dx->src->scope, plain.name, &index))
        return plain;
    char *name = sim_arena_alloc(&dx->mod->arena, (size_t)(dot - plain.name) + 1);
    memcpy(name, plain.name, (size_t)(dot - plain.name));
    plain.name = name;
    *part = dot + 1;
    return plain;
}

static bool
scalar_part(SimDecode *dx, const char *text, Part *part)
{
    *part = (Part){0, 32};
    if (!text)
        return true;
    if (strlen(text) == 2 && text[0] == 'b' && text[1] >= '0' && text[1] < '4')
        *part = (Part){(uint8_t)(8 * (text[1] - '0')), 8};
    else if (strlen(text) == 2 && text[0] == 'h' && text[1] >= '0' && text[1] < '2')
        *part = (Part){(uint8_t)(16 * (text[1] - '0')), 16};
    else
        return dec_fail(dx, "'.%s' is no part of a register here: .b0 to .b3, .h0, .h1", text);
    return true;
}

/* .hxy, .bxyzw: which of the parts of a and b, the last one first. */
static bool
lane_parts(SimDecode *dx, const char *text, uint32_t lanes, uint8_t pick[4])
{
    if (!text)
        return true;
    bool fits = text[0] == (lanes == 2 ? 'h' : 'b') && strlen(text) == 1 + lanes;
    for (uint32_t i = 0; fits && i < lanes; i++) {
        uint32_t digit = (uint32_t)(text[lanes - i] - '0');
        fits = digit < 2 * lanes;
        pick[i] = (uint8_t)digit;
    }
    return fits || dec_fail(dx, "'.%s' does not select %u parts of two registers", text, lanes);
}

/* .h1, .h10, .b210: the lanes of d that are results. */
static bool
lane_mask(SimDecode *dx, const char *text, uint32_t lanes, uint8_t *mask)
{
    *mask = (uint8_t)((1u << lanes) - 1);
    if (!text)
        return true;
    bool fits = text[0] == (lanes == 2 ? 'h' : 'b') && text[1];
    uint32_t before = lanes;
    *mask = 0;
    for (const char *p = text + 1; fits && *p; p++) {
        uint32_t digit = (uint32_t)(*p - '0');
        fits = digit < before;
        before = digit;
        *mask |= (uint8_t)(fits ? 1u << digit : 0);
    }
    return fits || dec_fail(dx, "'.%s' is no mask of %u parts", text, lanes);
}

/* ------------------------------------------------------------------------ decoding */

static bool
take_type(SimDecode *dx, bool *is_signed)
{
    SimType type = dec_type(dx);
    *is_signed = type == SIM_S32;
    return type == SIM_S32 || type == SIM_U32 || dec_fail(dx, "needs types .u32 or .s32");
}

static bool
take_modifiers(SimDecode *dx, Form *f)
{
    static const char *const compare[] = {"eq", "ne", "lt", "le", "gt", "ge", NULL};
    static const char *const second[] = {"add", "min", "max", NULL};
    static const char *const modes[] = {"clamp", "wrap", NULL};
    int how = 0;
    if ((f->op != V_SET && !take_type(dx, &f->d_signed)) || !take_type(dx, &f->a_signed) ||
        !take_type(dx, &f->b_signed))
        return false;
    bool shifts = f->op == V_SHL || f->op == V_SHR;
    if (f->op == V_SET && (how = dec_choice(dx, compare)) < 0)
        return dec_fail(dx, "needs a comparison");
    f->compare = (Compare)how;
    f->saturate = f->op != V_SET && dec_take(dx, "sat");
    if (shifts && ((how = dec_choice(dx, modes)) < 0 || f->b_signed))
        return dec_fail(dx, "needs .clamp or .wrap, and an amount of .u32");
    f->wrap = shifts && how == 1;
    f->second = (Second)(dec_choice(dx, second) + 1);
    return true;
}

static bool
take_lanes(SimDecode *dx, Form *f)
{
    const char *part[3];
    PtxOperand d = without_part(dx, dec_operand(dx, 0), &part[0]);
    PtxOperand a = without_part(dx, dec_operand(dx, 1), &part[1]);
    PtxOperand b = without_part(dx, dec_operand(dx, 2), &part[2]);
    for (uint8_t i = 0; i < f->lanes; i++) {
        f->pick[0][i] = i;
        f->pick[1][i] = (uint8_t)(f->lanes + i);
    }
    if (f->second > SECOND_ADD || (f->saturate && f->second))
        return dec_fail(dx, ".sat and .add do not go together, and there is no other one");
    dx->out->exec = on_lanes;
    return dec_count(dx, 4, 4) && lane_mask(dx, part[0], f->lanes, &f->mask) &&
           lane_parts(dx, part[1], f->lanes, f->pick[0]) &&
           lane_parts(dx, part[2], f->lanes, f->pick[1]) && dec_dst(dx, &d, SIM_B32) &&
           dec_src(dx, &a, SIM_B32) && dec_src(dx, &b, SIM_B32) &&
           dec_src(dx, dec_operand(dx, 3), SIM_B32);
}

static bool
take_scalar(SimDecode *dx, Form *f)
{
    const char *part[3];
    PtxOperand d = without_part(dx, dec_operand(dx, 0), &part[0]);
    PtxOperand a = without_part(dx, dec_operand(dx, 1), &part[1]);
    PtxOperand b = without_part(dx, dec_operand(dx, 2), &part[2]);
    f->merge = part[0] != NULL;
    size_t count = f->merge || f->second ? 4 : 3;
    if (f->merge && f->second)
        return dec_fail(dx, "a part of the destination and a second operation do not go together");
    dx->out->exec = scalar;
    return dec_count(dx, count, count) && scalar_part(dx, part[0], &f->d) &&
           scalar_part(dx, part[1], &f->a) && scalar_part(dx, part[2], &f->b) &&
           dec_dst(dx, &d, SIM_B32) && dec_src(dx, &a, SIM_B32) && dec_src(dx, &b, SIM_B32) &&
           (count == 3 || dec_src(dx, dec_operand(dx, 3), SIM_B32));
}

static bool
decode_video(SimDecode *dx, Video op, uint8_t lanes)
{
    Form *f = sim_arena_alloc(&dx->mod->arena, sizeof *f);
    *f = (Form){.op = op, .lanes = lanes};
    dx->out->data = f;
    return take_modifiers(dx, f) && (lanes > 1 ? take_lanes(dx, f) : take_scalar(dx, f));
}

static bool
decode_vmad(SimDecode *dx)
{
    static const char *const scales[] = {"shr7", "shr15", NULL};
    Form *f = sim_arena_alloc(&dx->mod->arena, sizeof *f);
    const char *part[2];
    *f = (Form){.lanes = 1};
    if (!take_type(dx, &f->d_signed) || !take_type(dx, &f->a_signed) ||
        !take_type(dx, &f->b_signed) || !dec_count(dx, 4, 4))
        return false;
    f->plus_one = dec_take(dx, "po");
    f->saturate = dec_take(dx, "sat");
    int scale = dec_choice(dx, scales);
    f->scale = scale < 0 ? 0 : scale ? 15 : 7;
    PtxOperand a = without_part(dx, dec_operand(dx, 1), &part[0]);
    PtxOperand b = without_part(dx, dec_operand(dx, 2), &part[1]), c = *dec_operand(dx, 3);
    f->negate_product = a.minus != b.minus;
    f->negate_c = c.minus;
    if ((f->negate_c && (a.minus || b.minus)) || (f->plus_one && (a.minus || b.minus || c.minus)))
        return dec_fail(dx, "the product or c is negated, not both, and neither with .po");
    a.negated = b.negated = c.negated = false;
    dx->out->data = f;
    dx->out->exec = multiply_add;
    return scalar_part(dx, part[0], &f->a) && scalar_part(dx, part[1], &f->b) &&
           dec_dst(dx, dec_operand(dx, 0), SIM_B32) && dec_src(dx, &a, SIM_B32) &&
           dec_src(dx, &b, SIM_B32) && dec_src(dx, &c, SIM_B32);
}

#define VIDEO(name, op, lanes)                                                                     \
    static bool decode_##name(SimDecode *dx)                                                       \
    {                                                                                              \
        return decode_video(dx, op, lanes);                                                        \
    }
#define VIDEO_OF_EACH(name, op)                                                                    \
    VIDEO(name##4, op, 4)                                                                          \
    VIDEO(name##2, op, 2)                                                                          \
    VIDEO(name, op, 1)
VIDEO_OF_EACH(vadd, V_ADD)
VIDEO_OF_EACH(vsub, V_SUB)
VIDEO_OF_EACH(vabsdiff, V_ABSDIFF)
VIDEO_OF_EACH(vmin, V_MIN)
VIDEO_OF_EACH(vmax, V_MAX)
VIDEO_OF_EACH(vset, V_SET)
VIDEO(vavrg4, V_AVRG, 4)
VIDEO(vavrg2, V_AVRG, 2)
VIDEO(vshl, V_SHL, 1)
VIDEO(vshr, V_SHR, 1)

const SimFamily sim_video_families[] = {
    {"vadd4", decode_vadd4},         {"vsub4", decode_vsub4},       {"vabsdiff4", decode_vabsdiff4},
    {"vmin4", decode_vmin4},         {"vmax4", decode_vmax4},       {"vavrg4", decode_vavrg4},
    {"vset4", decode_vset4},         {"vadd2", decode_vadd2},       {"vsub2", decode_vsub2},
    {"vabsdiff2", decode_vabsdiff2}, {"vmin2", decode_vmin2},       {"vmax2", decode_vmax2},
    {"vavrg2", decode_vavrg2},       {"vset2", decode_vset2},       {"vadd", decode_vadd},
    {"vsub", decode_vsub},           {"vabsdiff", decode_vabsdiff}, {"vmin", decode_vmin},
    {"vmax", decode_vmax},           {"vset", decode_vset},         {"vshl", decode_vshl},
    {"vshr", decode_vshr},           {"vmad", decode_vmad},         {NULL, NULL},
};
