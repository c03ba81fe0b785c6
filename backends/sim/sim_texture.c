/* sim_texture.c - tex.1d and tex.2d of texture objects (PTX ISA 9.7.10), in their simplest forms.
 *
 * The driver's texture objects are opaque.  Here one is the address of 32 bytes that the launch
 * gives:
 *
 *   @0   u64  address of the texels, row by row, without padding
 *   @8   u32  width, @12 height (1 of a 1D texture)
 *   @16  u32  type of a component: 0 f32, 1 u32, 2 s32, 3 u8, 4 f16
 *   @20  u32  components: 1, 2 or 4
 *   @24  u32  1 coordinates are normalised, 2 linear filter, 4 border of zeros (else clamped)
 *
 * Components that a texel lacks are 0, 0 and 1.  u8 read as f32 is in 0 to 1.
 */
#include "sim_exec.h"
#include "sim_memory.h"

typedef struct Texture {
    uint64_t address;
    uint32_t width, height, type, components, flags, reserved;
} Texture;
_Static_assert(sizeof(Texture) == 32, "as the head of the file says");

enum { NORMALISED = 1, LINEAR = 2, BORDER = 4 };
enum { OF_F32, OF_U32, OF_S32, OF_U8, OF_F16, TYPE_COUNT };
static const uint8_t bytes_of[TYPE_COUNT] = {4, 4, 4, 1, 2};

/* mode[0] dimensions, [1] coordinates are f32, [2] the result is f32.  Slots: four results, the
 * object, the coordinates. */

static bool
find_texture(SimWarp *warp, uint32_t lane, uint64_t object, Texture *t)
{
    SimMemory m;
    if (!sim_memory_find(warp, lane, SIM_GLOBAL, object, sizeof *t, 8, &m))
        return false;
    memcpy(t, m.data, sizeof *t);
    if (t->type < TYPE_COUNT && t->width && t->height && t->width <= 1 << 17 &&
        t->height <= 1 << 16 && (t->components == 1 || t->components == 2 || t->components == 4))
        return true;
    sim_find(
        warp, SIM_FIND_INVALID, (int32_t)lane, object, NULL,
        "there is no texture object at this address (docs/simulator-isa.md says what it is here)");
    return false;
}

/* A component as the bits of a result. */
static uint32_t
component(const Texture *t, const uint8_t *texel, uint32_t i, bool as_float)
{
    uint32_t raw = 0;
    if (i >= t->components)
        return i < 3 ? 0 : as_float ? sim_f32_bits(1) : 1;
    memcpy(&raw, texel + i * bytes_of[t->type], bytes_of[t->type]);
    switch (t->type) {
    case OF_U8: return as_float ? sim_f32_bits((float)raw / 255) : raw;
    case OF_F16: return sim_f32_bits(sim_f16(raw));
    default: return raw;
    }
}

static bool
fetch(SimWarp *warp, uint32_t lane, const Texture *t, int64_t x, int64_t y, bool as_float,
      uint32_t out[4])
{
    int64_t width = t->width, height = t->height;
    uint32_t size = t->components * bytes_of[t->type];
    SimMemory m;
    memset(out, 0, 4 * sizeof *out);
    if (t->flags & BORDER && (x < 0 || y < 0 || x >= width || y >= height))
        return true;
    x = x < 0 ? 0 : x >= width ? width - 1 : x;
    y = y < 0 ? 0 : y >= height ? height - 1 : y;
    uint64_t at = t->address + (uint64_t)(y * width + x) * size;
    if (!sim_memory_find(warp, lane, SIM_GLOBAL, at, size, bytes_of[t->type], &m))
        return false;
    sim_memory_note_read(warp, &m, size, lane, SIM_WEAK);
    for (uint32_t i = 0; i < 4; i++)
        out[i] = component(t, m.data, i, as_float);
    return true;
}

/* The four texels around, by weights with 8 bits of fraction. */
static void
fetch_linear(SimWarp *warp, uint32_t lane, const Texture *t, float x, float y, uint32_t out[4])
{
    float fx = floorf(x - 0.5f), fy = t->height > 1 ? floorf(y - 0.5f) : 0;
    float wx = rintf((x - 0.5f - fx) * 256) / 256;
    float wy = t->height > 1 ? rintf((y - 0.5f - fy) * 256) / 256 : 0;
    float sum[4] = {0};
    for (int i = 0; i < 4; i++) {
        uint32_t texel[4];
        float w = (i & 1 ? wx : 1 - wx) * (i & 2 ? wy : 1 - wy);
        if (w == 0 ||
            !fetch(warp, lane, t, (int64_t)fx + (i & 1), (int64_t)fy + (i >> 1), true, texel))
            continue;
        for (int c = 0; c < 4; c++)
            sum[c] += w * sim_f32(texel[c]);
    }
    for (int c = 0; c < 4; c++)
        out[c] = sim_f32_bits(sum[c]);
}

static float
coordinate(const Texture *t, uint32_t bits, uint32_t size)
{
    float v = sim_f32(bits);
    float most = (float)(1 << 24);
    if (t->flags & NORMALISED)
        v *= (float)size;
    return isnan(v) ? 0 : v > most ? most : v < -most ? -most : v;
}

static void
sample(SimWarp *warp, const SimInsn *insn, uint32_t lane, const Texture *t, uint32_t out[4])
{
    bool as_float = insn->mode[2], flat = insn->mode[0] == 1;
    uint32_t u = sim_r32(warp, insn->slot[5])[lane];
    uint32_t v = flat ? 0 : sim_r32(warp, insn->slot[6])[lane];
    if (!insn->mode[1]) {
        fetch(warp, lane, t, (int32_t)u, (int32_t)v, as_float, out);
        return;
    }
    float x = coordinate(t, u, t->width), y = flat ? 0 : coordinate(t, v, t->height);
    if (t->flags & LINEAR)
        fetch_linear(warp, lane, t, x, y, out);
    else
        fetch(warp, lane, t, (int64_t)floorf(x), (int64_t)floorf(y), as_float, out);
}

static SimStep
tex(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[4][SIM_LANES];
    sim_each_lane (l, mask) {
        Texture t;
        uint32_t texel[4] = {0};
        if (find_texture(warp, l, sim_r64(warp, insn->slot[4])[l], &t)) {
            bool is_float = t.type == OF_F32 || t.type == OF_F16;
            if ((!insn->mode[2] && is_float) || (t.flags & LINEAR && !insn->mode[2]) ||
                (insn->mode[2] && (t.type == OF_U32 || t.type == OF_S32)))
                sim_find(warp, SIM_FIND_INVALID, (int32_t)l, 0, NULL,
                         "texels of this type are not read as .%s",
                         insn->mode[2] ? "f32" : "u32 or .s32");
            sample(warp, insn, l, &t, texel);
        }
        for (int c = 0; c < 4; c++)
            out[c][l] = texel[c];
    }
    for (int c = 0; c < 4; c++)
        sim_put32(warp, insn->slot[c], out[c], mask);
    return SIM_NEXT;
}

static bool
decode_tex(SimDecode *dx)
{
    static const char *const dims[] = {"1d", "2d", NULL};
    SimInsn *out = dx->out;
    int d = dec_choice(dx, dims);
    if (d < 0 || !dec_take(dx, "v4"))
        return dec_fail(dx, "only .1d and .2d with .v4 are supported");
    SimType type = dec_type(dx), of = dec_type(dx);
    if ((type != SIM_F32 && type != SIM_U32 && type != SIM_S32) || (of != SIM_F32 && of != SIM_S32))
        return dec_fail(dx, "results are .f32, .u32 or .s32, coordinates .f32 or .s32");
    const PtxOperand *from = dec_operand(dx, 1);
    if (!dec_count(dx, 2, 2) || from->kind != PTX_MEMORY || from->count != 2)
        return dec_fail(dx, "[object, {coordinates}] is expected");
    out->mode[0] = (uint8_t)(d + 1);
    out->mode[1] = of == SIM_F32;
    out->mode[2] = type == SIM_F32;
    out->exec = tex;
    return dec_dst_vector(dx, dec_operand(dx, 0), type, 4) &&
           dec_src(dx, &from->element[0], SIM_B64) &&
           dec_src_vector(dx, &from->element[1], of, (size_t)d + 1);
}

const SimFamily sim_texture_families[] = {
    {"tex", decode_tex},
    {NULL, NULL},
};
