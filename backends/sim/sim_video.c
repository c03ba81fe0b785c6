/* sim_video.c - video instructions on four bytes or two halves (PTX ISA 9.7.20), without selectors.
 *
 * mode[0] operation, [1] lanes, [2] bits: a signed, b signed, d signed, .sat, .add.
 */
#include "sim_exec.h"

typedef enum Video { V_ADD, V_SUB, V_ABSDIFF, V_MIN, V_MAX, V_AVRG } Video;
enum { A_SIGNED = 1, B_SIGNED = 2, D_SIGNED = 4, SATURATE = 8, ACCUMULATE = 16 };

static int32_t
lane_value(uint32_t word, uint32_t at, uint32_t bits, bool is_signed)
{
    uint32_t raw = word >> at & ((1u << bits) - 1);
    return is_signed ? (int32_t)(raw << (32 - bits)) >> (32 - bits) : (int32_t)raw;
}

static int32_t
operate(Video op, int32_t a, int32_t b)
{
    switch (op) {
    case V_ADD: return a + b;
    case V_SUB: return a - b;
    case V_ABSDIFF: return a > b ? a - b : b - a;
    case V_MIN: return a < b ? a : b;
    case V_MAX: return a > b ? a : b;
    default: return (a + b + (a + b >= 0)) >> 1; /* the average, ties away from zero */
    }
}

static SimStep
video(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES], n = insn->mode[1], bits = 32 / n, flags = insn->mode[2];
    bool d_signed = flags & D_SIGNED;
    int32_t top = d_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, low = d_signed ? -top - 1 : 0;
    sim_each_lane (l, mask) {
        uint32_t a = sim_r32(warp, insn->slot[1])[l], b = sim_r32(warp, insn->slot[2])[l];
        uint32_t c = sim_r32(warp, insn->slot[3])[l], packed = 0, sum = c;
        for (uint32_t i = 0; i < n; i++) {
            int32_t v = operate((Video)insn->mode[0],
                                lane_value(a, i * bits, bits, flags & A_SIGNED),
                                lane_value(b, i * bits, bits, flags & B_SIGNED));
            if (flags & SATURATE)
                v = v > top ? top : v < low ? low : v;
            sum += (uint32_t)v;
            packed |= ((uint32_t)v & ((1u << bits) - 1)) << i * bits;
        }
        out[l] = flags & ACCUMULATE ? sum : packed;
    }
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

static bool
decode_video(SimDecode *dx, Video op, uint8_t lanes)
{
    SimInsn *out = dx->out;
    SimType d = dec_type(dx), a = dec_type(dx), b = dec_type(dx);
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        SimType t = i == 0 ? d : i == 1 ? a : b;
        ok &= t == SIM_U32 || t == SIM_S32;
    }
    if (!ok)
        return dec_fail(dx, "needs three types, .u32 or .s32");
    out->mode[0] = (uint8_t)op;
    out->mode[1] = lanes;
    out->mode[2] = (uint8_t)((a == SIM_S32 ? A_SIGNED : 0) | (b == SIM_S32 ? B_SIGNED : 0) |
                             (d == SIM_S32 ? D_SIGNED : 0) | (dec_take(dx, "sat") ? SATURATE : 0) |
                             (dec_take(dx, "add") ? ACCUMULATE : 0));
    if (out->mode[2] & SATURATE && out->mode[2] & ACCUMULATE)
        return dec_fail(dx, ".sat and .add do not go together");
    out->exec = video;
    return dec_plain(dx, SIM_B32, SIM_B32, 3);
}

#define VIDEO(name, op, lanes)                                                                     \
    static bool decode_##name(SimDecode *dx)                                                       \
    {                                                                                              \
        return decode_video(dx, op, lanes);                                                        \
    }
VIDEO(vadd4, V_ADD, 4)
VIDEO(vsub4, V_SUB, 4)
VIDEO(vabsdiff4, V_ABSDIFF, 4)
VIDEO(vmin4, V_MIN, 4)
VIDEO(vmax4, V_MAX, 4)
VIDEO(vavrg4, V_AVRG, 4)
VIDEO(vadd2, V_ADD, 2)
VIDEO(vsub2, V_SUB, 2)
VIDEO(vabsdiff2, V_ABSDIFF, 2)
VIDEO(vmin2, V_MIN, 2)
VIDEO(vmax2, V_MAX, 2)
VIDEO(vavrg2, V_AVRG, 2)

const SimFamily sim_video_families[] = {
    {"vadd4", decode_vadd4},
    {"vsub4", decode_vsub4},
    {"vabsdiff4", decode_vabsdiff4},
    {"vmin4", decode_vmin4},
    {"vmax4", decode_vmax4},
    {"vavrg4", decode_vavrg4},
    {"vadd2", decode_vadd2},
    {"vsub2", decode_vsub2},
    {"vabsdiff2", decode_vabsdiff2},
    {"vmin2", decode_vmin2},
    {"vmax2", decode_vmax2},
    {"vavrg2", decode_vavrg2},
    {NULL, NULL},
};
