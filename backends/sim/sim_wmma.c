/* sim_wmma.c - wmma.load, wmma.mma and wmma.store (PTX ISA 9.7.14.4).
 *
 * Which element a register of a fragment holds is unspecified there.  Here lane l has elements l,
 * l + 32, .. of the matrix, row by row; an A or B of f16 has more room than elements, and repeats
 * them.
 */
#include "sim_exec.h"
#include "sim_matrix.h"
#include "sim_memory.h"
#include "sim_mma.h"

typedef enum Part { PART_A, PART_B, PART_C } Part;
enum { MAX_ELEMENTS = 8 * 128, MAX_D = 256 };

typedef struct Fragment {
    uint8_t rows, columns, registers;
    uint8_t bits; /* of an element */
    int type;
} Fragment;

typedef struct Wmma {
    Fragment a, b, c, d; /* load and store: c alone, whatever it is */
    uint8_t m, n, k;
    bool column_major, has_stride, satfinite, exclusive;
    bool known_sums; /* of sm_90, as of mma.sync with this k */
} Wmma;

/* ------------------------------------------------------------------------ fragments */

static bool
is_wide(const Fragment *f)
{
    return f->type == SIM_F64;
}

static uint64_t
get(const SimWarp *warp, const SimSlot *slot, const Fragment *f, uint32_t lane, uint32_t i)
{
    if (is_wide(f))
        return sim_r64(warp, slot[i])[lane];
    uint32_t per = 32u / f->bits, word = sim_r32(warp, slot[i / per])[lane];
    return f->bits == 32 ? word : word >> i % per * f->bits & ((UINT32_C(1) << f->bits) - 1);
}

static uint32_t
elements(const Fragment *f)
{
    return (uint32_t)f->rows * f->columns;
}

static double
number(uint64_t raw, const Fragment *f)
{
    if (f->type == SIM_S32)
        return (int32_t)raw;
    if (f->type == SIM_F64 || f->type == SIM_F32)
        return sim_value(raw, (SimType)f->type);
    return sim_mma_value((uint32_t)raw, f->type, f->bits);
}

static void
gather(const SimWarp *warp, const SimSlot *slot, const Fragment *f, double *value)
{
    for (uint32_t at = 0; at < elements(f); at++)
        value[at] = number(get(warp, slot, f, at % SIM_LANES, at / SIM_LANES), f);
}

/* Packs elements by lane (raw[lane + 32 i]) into the registers. */
static void
put(SimWarp *warp, const SimSlot *slot, const Fragment *f, const uint64_t *raw, uint32_t mask)
{
    uint32_t per = is_wide(f) ? 1 : 32u / f->bits, each = elements(f) / SIM_LANES;
    for (uint32_t j = 0; j < f->registers; j++) {
        uint64_t out[SIM_LANES] = {0};
        uint32_t narrow[SIM_LANES];
        for (uint32_t l = 0; l < SIM_LANES; l++) {
            for (uint32_t e = 0; e < per; e++)
                out[l] |= raw[l + SIM_LANES * ((j * per + e) % each)] << e * f->bits % 64;
            narrow[l] = (uint32_t)out[l];
        }
        if (is_wide(f))
            sim_put64(warp, slot[j], out, mask);
        else
            sim_put32(warp, slot[j], narrow, mask);
    }
}

/* ------------------------------------------------------------------------ memory */

/* Where element `at` lies from the address: bytes, and bits in the byte. */
static uint64_t
place(const SimWarp *warp, const SimInsn *insn, const Wmma *w, uint32_t at, uint32_t *bit)
{
    const Fragment *f = &w->c;
    uint32_t row = at / f->columns, column = at % f->columns;
    uint64_t stride = w->has_stride     ? sim_r32(warp, insn->slot[insn->slot_count - 1])[0]
                      : w->column_major ? f->rows
                                        : f->columns;
    uint64_t i = w->column_major ? column * stride + row : row * stride + column;
    *bit = (uint32_t)(i * f->bits % 8);
    return i * f->bits / 8;
}

static SimStep
wmma_load(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Wmma *w = insn->data;
    uint32_t size = w->c.bits < 8 ? 1 : w->c.bits / 8u;
    uint64_t raw[MAX_ELEMENTS] = {0};
    for (uint32_t at = 0; at < elements(&w->c); at++) {
        uint32_t bit, lane = at % SIM_LANES;
        uint64_t address = sim_lane_address(warp, insn, w->c.registers, lane) +
                           place(warp, insn, w, at, &bit);
        SimMemory m;
        if (!sim_memory_find(warp, lane, (SimSpace)insn->space, address, size, size, &m))
            continue;
        sim_memory_note_read(warp, &m, size, lane, SIM_WEAK);
        memcpy(&raw[at], m.data, size);
        if (w->c.bits < 8)
            raw[at] = raw[at] >> bit & ((UINT64_C(1) << w->c.bits) - 1);
    }
    put(warp, insn->slot, &w->c, raw, mask);
    return SIM_NEXT;
}

static SimStep
wmma_store(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Wmma *w = insn->data;
    uint32_t size = w->c.bits / 8u;
    (void)mask;
    for (uint32_t at = 0; at < elements(&w->c); at++) {
        uint32_t bit, lane = at % SIM_LANES;
        uint64_t address = sim_lane_address(warp, insn, w->c.registers, lane) +
                           place(warp, insn, w, at, &bit);
        uint64_t raw = get(warp, insn->slot, &w->c, lane, at / SIM_LANES);
        SimMemory m;
        if (!sim_memory_find(warp, lane, (SimSpace)insn->space, address, size, size, &m))
            continue;
        bool same = warp->run->checks && memcmp(m.data, &raw, size) == 0;
        sim_memory_note_write(warp, &m, size, lane, same ? SIM_REPEATED : SIM_WEAK);
        if (!(m.in && m.in->read_only))
            memcpy(m.data, &raw, size);
    }
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ products */

static void
multiply(const Wmma *w, const double *a, const double *b, double *d)
{
    float fa[MAX_ELEMENTS], fb[MAX_ELEMENTS], fd[MAX_D];
    if (w->d.type == SIM_F64) {
        sim_matrix_f64(d, a, b, w->m, w->n, w->k);
        return;
    }
    if (w->d.type == SIM_S32) {
        for (uint32_t r = 0; r < w->m; r++)
            for (uint32_t c = 0; c < w->n; c++)
                for (uint32_t p = 0; p < w->k; p++) {
                    double x = a[r * w->k + p], y = b[p * w->n + c];
                    d[r * w->n + c] += w->exclusive ? (x != y) : x * y;
                }
        return;
    }
    for (uint32_t i = 0; i < elements(&w->a); i++)
        fa[i] = (float)a[i];
    for (uint32_t i = 0; i < elements(&w->b); i++)
        fb[i] = (float)b[i];
    for (uint32_t i = 0; i < elements(&w->d); i++)
        fd[i] = (float)d[i];
    if (w->known_sums)
        sim_matrix_sm90(fd, fa, fb, w->m, w->n, w->k,
                        &(SimSums){(SimType)w->a.type, (SimType)w->b.type, 25});
    else
        sim_matrix_f32(fd, fa, fb, w->m, w->n, w->k);
    for (uint32_t i = 0; i < elements(&w->d); i++)
        d[i] = (double)fd[i];
}

static uint64_t
result(const Wmma *w, double v)
{
    switch (w->d.type) {
    case SIM_F64: return sim_f64_bits(v);
    case SIM_F32: return sim_f32_result((float)v);
    case SIM_F16: return sim_to_f16((float)v);
    default: break;
    }
    if (!w->satfinite)
        return (uint32_t)(int64_t)v;
    return (uint32_t)(int32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

static SimStep
wmma_mma(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Wmma *w = insn->data;
    double a[MAX_ELEMENTS], b[MAX_ELEMENTS], d[MAX_D];
    uint64_t raw[MAX_D];
    const SimSlot *slot = insn->slot + w->d.registers;
    gather(warp, slot, &w->a, a);
    gather(warp, slot + w->a.registers, &w->b, b);
    gather(warp, slot + w->a.registers + w->b.registers, &w->c, d);
    multiply(w, a, b, d);
    for (uint32_t i = 0; i < elements(&w->d); i++)
        raw[i] = result(w, d[i]);
    put(warp, insn->slot, &w->d, raw, mask);
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ decoding */

static uint8_t
bits_of(int type)
{
    return type == TYPE_B1                           ? 1
           : type == TYPE_S4 || type == TYPE_U4      ? 4
           : type == SIM_TF32 || type == SIM_NO_TYPE ? 32
                                                     : sim_type_info((SimType)type)->bits;
}

/* The shape of the instruction; which types of A have it (table of 9.7.14.4.1). */
static bool
take_shape(SimDecode *dx, Wmma *w)
{
    static const struct {
        const char *name;
        uint8_t m, n, k;
    } shapes[] = {
        {"m16n16k16", 16, 16, 16}, {"m8n32k16", 8, 32, 16}, {"m32n8k16", 32, 8, 16},
        {"m16n16k8", 16, 16, 8},   {"m8n8k4", 8, 8, 4},     {"m8n8k32", 8, 8, 32},
        {"m8n8k128", 8, 8, 128},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (dec_take(dx, shapes[i].name)) {
            w->m = shapes[i].m;
            w->n = shapes[i].n;
            w->k = shapes[i].k;
            return true;
        }
    return dec_fail(dx, "this shape does not exist");
}

/* Is this a type of A and B of the shape? */
static bool
operand_fits(const Wmma *w, int type)
{
    switch (w->k) {
    case 16: return type == SIM_F16 || type == SIM_BF16 || type == SIM_S8 || type == SIM_U8;
    case 8: return type == SIM_TF32;
    case 4: return type == SIM_F64;
    case 32: return type == TYPE_S4 || type == TYPE_U4;
    default: return type == TYPE_B1;
    }
}

static bool
fill(SimDecode *dx, const Wmma *w, Fragment *f, Part part, int type)
{
    *f = (Fragment){.rows = part == PART_B ? w->k : w->m,
                    .columns = part == PART_A ? w->k : w->n,
                    .bits = bits_of(type),
                    .type = type};
    bool fits = part != PART_C ? operand_fits(w, type)
                : w->k == 16   ? type == SIM_F16 || type == SIM_F32 || type == SIM_S32
                : w->k == 8    ? type == SIM_F32
                : w->k == 4    ? type == SIM_F64
                               : type == SIM_S32;
    if (!fits)
        return dec_fail(dx, "this type and this shape do not go together");
    uint32_t words = elements(f) * f->bits / (is_wide(f) ? 64 : 32) / SIM_LANES;
    f->registers = (uint8_t)(part != PART_C && type == SIM_F16 ? 8 : words);
    return true;
}

static SimType
register_type(const Fragment *f)
{
    return is_wide(f) ? SIM_B64 : SIM_B32;
}

static bool
take_layout(SimDecode *dx, bool *column_major)
{
    *column_major = dec_take(dx, "col");
    return *column_major || dec_take(dx, "row");
}

static bool
decode_transfer(SimDecode *dx, Part part, bool is_load)
{
    SimInsn *out = dx->out;
    Wmma *w = sim_arena_alloc(&dx->mod->arena, sizeof *w);
    dec_aligned(dx);
    out->whole_warp = true;
    if (!out->converge || !take_layout(dx, &w->column_major) || !take_shape(dx, w))
        return dec_fail(dx, "needs .sync.aligned, a layout and a shape");
    out->space = (uint8_t)dec_space(dx);
    int type = sim_mma_next_type(dx);
    if (!fill(dx, w, &w->c, part, type) || !dec_count(dx, 2, 3))
        return false;
    if (w->c.bits < 8 && w->column_major != (part == PART_B))
        return dec_fail(dx, "A of 4 or 1 bits is .row, and B .col");
    const PtxOperand *registers = dec_operand(dx, is_load ? 0 : 1);
    w->has_stride = dx->operand_count == 3;
    out->data = w;
    out->exec = is_load ? wmma_load : wmma_store;
    if (!(is_load ? dec_dst_vector(dx, registers, register_type(&w->c), w->c.registers)
                  : dec_src_vector(dx, registers, register_type(&w->c), w->c.registers)) ||
        !dec_address(dx, dec_operand(dx, is_load ? 1 : 0)))
        return false;
    return !w->has_stride || dec_src(dx, dec_operand(dx, 2), SIM_U32);
}

static bool
decode_load_a(SimDecode *dx)
{
    return decode_transfer(dx, PART_A, true);
}
static bool
decode_load_b(SimDecode *dx)
{
    return decode_transfer(dx, PART_B, true);
}
static bool
decode_load_c(SimDecode *dx)
{
    return decode_transfer(dx, PART_C, true);
}
static bool
decode_store(SimDecode *dx)
{
    return decode_transfer(dx, PART_C, false);
}

static bool
decode_mma(SimDecode *dx)
{
    static const char *const roundings[] = {"rn", "rz", "rm", "rp", NULL};
    SimInsn *out = dx->out;
    Wmma *w = sim_arena_alloc(&dx->mod->arena, sizeof *w);
    bool unused;
    dec_aligned(dx);
    out->whole_warp = true;
    if (!out->converge || !take_layout(dx, &unused) || !take_layout(dx, &unused) ||
        !take_shape(dx, w))
        return dec_fail(dx, "needs .sync.aligned, two layouts and a shape");
    w->satfinite = dec_take(dx, "satfinite");
    if (dec_choice(dx, roundings) > 0)
        return dec_fail(dx, "a rounding other than .rn is not supported");
    w->known_sums = dx->mod->facts.known_sums;
    w->exclusive = dec_take(dx, "xor");
    if ((w->exclusive || dec_take(dx, "and")) && (!dec_take(dx, "popc") || w->k != 128))
        return dec_fail(dx, ".popc and single bits go together");
    int type[4], count = 0;
    while (count < 4 && (type[count] = sim_mma_next_type(dx)) != SIM_NO_TYPE)
        count++;
    bool short_form = count == 2; /* .dtype.ctype: A and B are f16 */
    if (count != 4 && !short_form)
        return dec_fail(dx, "needs the types of D, A, B and C");
    int a = short_form ? SIM_F16 : type[1], b = short_form ? SIM_F16 : type[2];
    int c = type[count - 1];
    bool integer = a == SIM_S8 || a == SIM_U8 || w->k > 16;
    if (!fill(dx, w, &w->a, PART_A, a) || !fill(dx, w, &w->b, PART_B, b) ||
        !fill(dx, w, &w->c, PART_C, c) || !fill(dx, w, &w->d, PART_C, type[0]))
        return false;
    bool half = w->c.type == SIM_F16 || w->d.type == SIM_F16;
    if (integer != (w->d.type == SIM_S32) || integer != (w->c.type == SIM_S32) ||
        (half && a != SIM_F16) || (w->k == 16 && w->a.bits != w->b.bits) || (!integer && a != b))
        return dec_fail(dx, "these types do not go together");
    out->data = w;
    out->exec = wmma_mma;
    return dec_count(dx, 4, 4) &&
           dec_dst_vector(dx, dec_operand(dx, 0), register_type(&w->d), w->d.registers) &&
           dec_src_vector(dx, dec_operand(dx, 1), register_type(&w->a), w->a.registers) &&
           dec_src_vector(dx, dec_operand(dx, 2), register_type(&w->b), w->b.registers) &&
           dec_src_vector(dx, dec_operand(dx, 3), register_type(&w->c), w->c.registers);
}

const SimFamily sim_wmma_families[] = {
    {"wmma.load.a", decode_load_a}, {"wmma.load.b", decode_load_b}, {"wmma.load.c", decode_load_c},
    {"wmma.store.d", decode_store}, {"wmma.mma", decode_mma},       {NULL, NULL},
};
