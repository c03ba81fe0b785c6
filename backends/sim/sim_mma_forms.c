/* sim_mma_forms.c - mma.sync of narrow types, with block scales, sparse, and m8n8k4 (PTX ISA
 * 9.7.14.5, 9.7.14.6).
 *
 * Fragments follow the rule of sim_mma.c with E elements in a register: of f8f6f4 kinds an element
 * of 4 or 6 bits has a byte, 4 bits in its bits 2 to 5 and 6 bits in the low ones.  A sparse A is
 * stored without its zeros; metadata says where in each chunk the others stand.
 */
#include "sim_exec.h"
#include "sim_matrix.h"
#include "sim_mma.h"

enum { N = 8, M = 16, MAX_K = 256 };
typedef enum Kind { KIND_NONE, KIND_F8F6F4, KIND_MXF8F6F4, KIND_MXF4, KIND_MXF4NVF4 } Kind;

typedef struct Wide {
    Kind kind;
    uint8_t m, bits;    /* of an element in a register */
    uint16_t k, stored; /* columns of A, and how many of them are stored */
    uint8_t a_registers, b_registers, c_registers;
    int a, b; /* SimType, or one above */
    SimType c, d;
    bool sparse, satfinite, exclusive, ue4m3;
    uint8_t selector; /* of metadata */
    uint8_t scales;   /* of a row of A, 0 without .block_scale */
    uint8_t tail;     /* slot of metadata and scales */
} Wide;

static bool
is_float(int type)
{
    return type == SIM_F16 || type == SIM_BF16 || type == SIM_TF32 ||
           (type < SIM_TYPE_COUNT && sim_type_info((SimType)type)->kind == 'x');
}

/* ------------------------------------------------------------------------ elements */

double
sim_mma_value(uint32_t raw, int type, uint32_t bits)
{
    switch (type) {
    case TYPE_B1:
    case TYPE_U4:
    case SIM_U8: return raw;
    case TYPE_S4: return (int32_t)(raw << 28) >> 28;
    case SIM_S8: return (int8_t)raw;
    case SIM_TF32: return (double)sim_tf32(raw);
    case SIM_E2M1: return sim_value(bits == 8 ? raw >> 2 & 15 : raw, SIM_E2M1);
    case SIM_E2M3:
    case SIM_E3M2: return sim_value(raw & 63, (SimType)type);
    default: return sim_value(raw, (SimType)type);
    }
}

/* Element e of the register of a lane. */
static double
element(const SimWarp *warp, SimSlot slot, uint32_t lane, uint32_t e, int type, uint32_t bits)
{
    uint32_t word = sim_r32(warp, slot)[lane];
    uint32_t raw = bits == 32 ? word : word >> bits * e & ((UINT32_C(1) << bits) - 1);
    return sim_mma_value(raw, type, bits);
}

/* How many bits of metadata a row has: two of 2 bits for a chunk, which of tf32 is one of 4. */
static uint32_t
row_metadata(uint32_t bits, uint32_t k)
{
    uint32_t chunk = bits == 32 ? 2 : bits == 4 ? 8 : 4;
    return k / chunk * 4;
}

uint32_t
sim_sparse_selectors(uint32_t bits, uint32_t k)
{
    uint32_t of_row = row_metadata(bits, k);
    return of_row == 16 ? 4 : of_row == 32 ? 2 : 1;
}

uint32_t
sim_sparse_column(const uint32_t *meta, uint32_t bits, uint32_t k, uint32_t selector, uint32_t row,
                  uint32_t p)
{
    uint32_t of_row = row_metadata(bits, k), g = row % 8, h = row / 8, lane, bit;
    uint32_t at = bits == 32 ? 4 * p : bits == 4 ? p / 2 * 2 : 2 * p;
    if (of_row == 16) {
        lane = selector;
        bit = 16 * h + at;
    } else if (of_row == 32 && bits >= 16) {
        lane = 2 * selector + at / 16;
        bit = 16 * h + at % 16;
    } else {
        lane = 2 * selector + h + at / 32 * 2;
        bit = at % 32;
    }
    uint32_t index = meta[4 * g + lane] >> bit;
    if (bits == 32) /* one of two; 0b0100 or 0b1110 */
        return 2 * p + (index >> 3 & 1);
    if (bits == 4) /* two pairs of four */
        return p / 4 * 8 + 2 * (index & 3) + p % 2;
    return p / 2 * 4 + (index & 3);
}

static uint32_t
column_of(const SimWarp *warp, const SimInsn *insn, const Wide *w, uint32_t row, uint32_t p)
{
    return w->sparse ? sim_sparse_column(sim_r32(warp, insn->slot[w->tail]), w->bits, w->k,
                                         w->selector, row, p)
                     : p;
}

static void
gather(const SimWarp *warp, const SimInsn *insn, const Wide *w, double *a, double *b)
{
    uint32_t per = 32u / w->bits, at_a = w->c_registers, at_b = at_a + w->a_registers;
    memset(a, 0, sizeof *a * w->m * w->k);
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        for (uint32_t j = 0; j < w->a_registers; j++)
            for (uint32_t e = 0; e < per; e++) {
                uint32_t row = w->m == 8 ? l / 4 : l / 4 + 8 * (j & 1);
                uint32_t p = per * (l % 4) + 4 * per * (w->m == 8 ? j : j >> 1) + e;
                a[row * w->k + column_of(warp, insn, w, row, p)] += element(
                    warp, insn->slot[at_a + j], l, e, w->a, w->bits);
            }
        for (uint32_t j = 0; j < w->b_registers; j++)
            for (uint32_t e = 0; e < per; e++)
                b[(per * (l % 4) + 4 * per * j + e) * N + l / 4] = element(
                    warp, insn->slot[at_b + j], l, e, w->b, w->bits);
    }
}

static uint32_t
c_at(uint32_t lane, uint32_t i)
{
    return (lane / 4 + 8 * (i >> 1)) * N + 2 * (lane % 4) + (i & 1);
}

/* ------------------------------------------------------------------------ products */

/* Scale number i of a row of A or a column of B: of a byte and a pair (A), or a thread (B), of each
 * quad that the selectors name (9.7.14.3). */
static double
scale(const SimWarp *warp, const SimInsn *insn, const Wide *w, bool of_a, uint32_t line, uint32_t i)
{
    uint32_t at = w->tail + w->sparse + (of_a ? 0u : 3u), g = line % 8;
    uint32_t byte = sim_r32(warp, insn->slot[at + 1])[0],
             thread = sim_r32(warp, insn->slot[at + 2])[0];
    uint32_t lane = 4 * g + (of_a ? 2 * (thread & 1) + line / 8 : thread & 3);
    uint32_t bits = sim_r32(warp, insn->slot[at])[lane] >> 8 * ((byte + i) & 3) & 255;
    return w->ue4m3 ? sim_value(bits & 127, SIM_E4M3) : sim_value(bits, SIM_UE8M0);
}

/* Scaled elements are multiplied and added in double, and rounded once. */
static void
multiply_scaled(const SimWarp *warp, const SimInsn *insn, const Wide *w, const double *a,
                const double *b, double *d)
{
    uint32_t block = (uint32_t)w->k / w->scales;
    for (uint32_t r = 0; r < M; r++)
        for (uint32_t c = 0; c < N; c++)
            for (uint32_t i = 0; i < w->scales; i++) {
                double sum = 0;
                for (uint32_t p = i * block; p < (i + 1) * block; p++)
                    sum += a[r * w->k + p] * b[p * N + c];
                d[r * N + c] += sum * scale(warp, insn, w, true, r, i) *
                                scale(warp, insn, w, false, c, i);
            }
}

static void
multiply_floats(const Wide *w, const double *a, const double *b, double *d)
{
    float fa[M * MAX_K], fb[MAX_K * N], fd[M * N];
    for (uint32_t i = 0; i < (uint32_t)w->m * w->k; i++)
        fa[i] = (float)a[i];
    for (uint32_t i = 0; i < (uint32_t)w->k * N; i++)
        fb[i] = (float)b[i];
    for (uint32_t i = 0; i < (uint32_t)w->m * N; i++)
        fd[i] = (float)d[i];
    sim_matrix_f32(fd, fa, fb, w->m, N, w->k);
    for (uint32_t i = 0; i < (uint32_t)w->m * N; i++)
        d[i] = (double)fd[i];
}

/* Sums of products of integers, and of single bits, are exact in double. */
static void
multiply_integers(const Wide *w, const double *a, const double *b, double *d)
{
    for (uint32_t r = 0; r < w->m; r++)
        for (uint32_t c = 0; c < N; c++)
            for (uint32_t p = 0; p < w->k; p++) {
                double x = a[r * w->k + p], y = b[p * N + c];
                d[r * N + c] += w->exclusive ? (x != y) : x * y;
            }
}

static uint32_t
result_bits(const Wide *w, double v)
{
    if (w->d == SIM_F32)
        return sim_f32_result((float)v);
    if (!w->satfinite)
        return (uint32_t)(int64_t)v;
    return (uint32_t)(int32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

static SimStep
mma_wide(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Wide *w = insn->data;
    double a[M * MAX_K], b[MAX_K * N], d[M * N];
    uint32_t at_c = (uint32_t)(w->c_registers + w->a_registers + w->b_registers), out[SIM_LANES];
    bool half = w->d == SIM_F16;
    gather(warp, insn, w, a, b);
    for (uint32_t l = 0; l < SIM_LANES; l++)
        for (uint32_t i = 0; i < w->m / 4u; i++) {
            uint32_t bits = sim_r32(warp, insn->slot[at_c + (half ? i / 2 : i)])[l];
            d[c_at(l, i)] = half              ? (double)sim_f16(bits >> 16 * (i & 1) & 0xffffu)
                            : w->d == SIM_F32 ? (double)sim_f32(bits)
                                              : (double)(int32_t)bits;
        }
    if (w->scales)
        multiply_scaled(warp, insn, w, a, b, d);
    else if (is_float(w->a))
        multiply_floats(w, a, b, d);
    else
        multiply_integers(w, a, b, d);
    for (uint32_t j = 0; j < w->c_registers; j++) {
        for (uint32_t l = 0; l < SIM_LANES; l++)
            out[l] = half ? sim_to_f16((float)d[c_at(l, 2 * j)]) |
                                sim_to_f16((float)d[c_at(l, 2 * j + 1)]) << 16
                          : result_bits(w, d[c_at(l, j)]);
        sim_put32(warp, insn->slot[j], out, mask);
    }
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ m8n8k4 of f16 */

/* Four products, one for each quad pair: lanes 4q to 4q + 3, and those 16 above (9.7.14.5.1).
 * mode[0] A has columns in a row, [1] B has, [2] D is f32, [3] C is. */
static void
place_f32(uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column)
{
    *row = (lane & 1) + (i & 2) + (lane < 16 ? 0 : 4);
    *column = (i & 4) + (lane & 2) + (i & 1);
}

static void
place_f16(uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column)
{
    *row = lane % 4 + (lane < 16 ? 0 : 4);
    *column = i;
}

static float
half_of(const SimWarp *warp, const SimInsn *insn, uint32_t first, uint32_t lane, uint32_t i)
{
    return sim_f16(sim_r32(warp, insn->slot[first + i / 2])[lane] >> 16 * (i & 1) & 0xffffu);
}

static SimStep
mma_quad_pairs(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    float a[4][8 * 4], b[4][4 * 8], d[4][64];
    uint32_t n_d = insn->mode[2] ? 8 : 4, at_c = n_d + 4, out[SIM_LANES], row, column;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint32_t q = l / 4 % 4, upper = l < 16 ? 0 : 4;
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t r = insn->mode[0] ? i + upper : l % 4 + upper, k = insn->mode[0] ? l % 4 : i;
            a[q][r * 4 + k] = half_of(warp, insn, n_d, l, i);
            uint32_t c = insn->mode[1] ? l % 4 + upper : i + upper, p = insn->mode[1] ? i : l % 4;
            b[q][p * 8 + c] = half_of(warp, insn, n_d + 2, l, i);
        }
        for (uint32_t i = 0; i < 8; i++) {
            (insn->mode[3] ? place_f32 : place_f16)(l, i, &row, &column);
            d[q][row * 8 + column] = insn->mode[3] ? sim_f32(sim_r32(warp, insn->slot[at_c + i])[l])
                                                   : half_of(warp, insn, at_c, l, i);
        }
    }
    for (uint32_t q = 0; q < 4; q++)
        sim_matrix_f32(d[q], a[q], b[q], 8, 8, 4);
    for (uint32_t j = 0; j < n_d; j++) {
        for (uint32_t l = 0; l < SIM_LANES; l++) {
            const float *from = d[l / 4 % 4];
            if (insn->mode[2]) {
                place_f32(l, j, &row, &column);
                out[l] = sim_f32_result(from[row * 8 + column]);
            } else {
                place_f16(l, 2 * j, &row, &column);
                out[l] = sim_to_f16(from[row * 8 + column]) | sim_to_f16(from[row * 8 + column + 1])
                                                                  << 16;
            }
        }
        sim_put32(warp, insn->slot[j], out, mask);
    }
    return SIM_NEXT;
}

static bool
decode_quad_pairs(SimDecode *dx)
{
    SimInsn *out = dx->out;
    dec_take(dx, "m8n8k4");
    bool a_row = dec_take(dx, "row"), a_col = !a_row && dec_take(dx, "col");
    bool b_col = dec_take(dx, "col"), b_row = !b_col && dec_take(dx, "row");
    SimType d = dec_type(dx), a = dec_type(dx), b = dec_type(dx), c = dec_type(dx);
    if ((!a_row && !a_col) || (!b_row && !b_col) || a != SIM_F16 || b != SIM_F16 ||
        (d != SIM_F16 && d != SIM_F32) || (c != SIM_F16 && c != SIM_F32))
        return dec_fail(dx, "malformed m8n8k4");
    /* .row.col and .col.row: the first word is that of A */
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++)
        if (strcmp(dx->src->part[i], "row") == 0 || strcmp(dx->src->part[i], "col") == 0) {
            bool first_row = dx->src->part[i][0] == 'r', same = a_row != b_col;
            out->mode[0] = !first_row;
            out->mode[1] = same ? !first_row : first_row;
            break;
        }
    out->mode[2] = d == SIM_F32;
    out->mode[3] = c == SIM_F32;
    out->exec = mma_quad_pairs;
    return dec_count(dx, 4, 4) &&
           dec_dst_vector(dx, dec_operand(dx, 0), SIM_B32, out->mode[2] ? 8 : 4) &&
           dec_src_vector(dx, dec_operand(dx, 1), SIM_B32, 2) &&
           dec_src_vector(dx, dec_operand(dx, 2), SIM_B32, 2) &&
           dec_src_vector(dx, dec_operand(dx, 3), SIM_B32, out->mode[3] ? 8 : 4);
}

/* ------------------------------------------------------------------------ decoding */

static bool
has_part(const SimDecode *dx, const char *word, size_t length)
{
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++)
        if (strncmp(dx->src->part[i], word, length) == 0)
            return true;
    return false;
}

bool
sim_mma_is_form(const SimDecode *dx)
{
    return has_part(dx, "kind::", 6) || has_part(dx, "sp", 2) || has_part(dx, "s4", 3) ||
           has_part(dx, "u4", 3) || has_part(dx, "b1", 3) ||
           (has_part(dx, "m8n8k4", 7) && has_part(dx, "f16", 4));
}

int
sim_mma_next_type(SimDecode *dx)
{
    static const char *const own[] = {"s4", "u4", "b1"};
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++) {
        if (dx->taken[i])
            continue;
        for (int t = 1; t < SIM_TYPE_COUNT + 3; t++) {
            const char *name = t < SIM_TYPE_COUNT ? sim_type_info((SimType)t)->name
                                                  : own[t - SIM_TYPE_COUNT];
            if (strcmp(dx->src->part[i], name) == 0) {
                dx->taken[i] = true;
                return t;
            }
        }
    }
    return SIM_NO_TYPE;
}

typedef struct Form { /* of the element's bits; k of the whole A */
    const char *shape;
    uint8_t m;
    uint16_t k;
    uint8_t bits;
    bool sparse;
} Form;
static const Form forms[] = {
    {"m16n8k32", 16, 32, 8, false},   {"m16n8k64", 16, 64, 4, false},
    {"m8n8k32", 8, 32, 4, false},     {"m16n8k32", 16, 32, 4, false},
    {"m8n8k128", 8, 128, 1, false},   {"m16n8k128", 16, 128, 1, false},
    {"m16n8k256", 16, 256, 1, false}, {"m16n8k16", 16, 16, 16, true},
    {"m16n8k32", 16, 32, 16, true},   {"m16n8k8", 16, 8, 32, true},
    {"m16n8k16", 16, 16, 32, true},   {"m16n8k32", 16, 32, 8, true},
    {"m16n8k64", 16, 64, 8, true},    {"m16n8k64", 16, 64, 4, true},
    {"m16n8k128", 16, 128, 4, true},
};

static uint8_t
bits_of(const Wide *w)
{
    if (w->kind)
        return w->kind >= KIND_MXF4 ? 4 : 8;
    switch (w->a) {
    case TYPE_B1: return 1;
    case TYPE_S4:
    case TYPE_U4: return 4;
    case SIM_TF32: return 32;
    default: return (uint8_t)sim_type_info((SimType)w->a)->bits;
    }
}

/* One of the classes of types that go together. */
static char
class_of(int type)
{
    switch (type) {
    case SIM_F16: return 'h';
    case SIM_BF16: return 'b';
    case SIM_TF32: return 't';
    case SIM_S8:
    case SIM_U8: return 'i';
    case TYPE_S4:
    case TYPE_U4: return '4';
    case TYPE_B1: return '1';
    case SIM_E4M3:
    case SIM_E5M2: return 'e';
    case SIM_E2M1: return 'f';
    case SIM_E2M3:
    case SIM_E3M2: return 'g';
    default: return ' ';
    }
}

static bool
types_fit(const Wide *w)
{
    char a = class_of(w->a), b = class_of(w->b);
    bool integer = a == 'i' || a == '4' || a == '1';
    if (w->c != w->d || a == ' ' || b == ' ')
        return false;
    if (w->kind == KIND_F8F6F4 || w->kind == KIND_MXF8F6F4)
        return strchr("efg", a) && strchr("efg", b) &&
               (w->d == SIM_F32 || (w->d == SIM_F16 && w->kind == KIND_F8F6F4));
    if (w->kind)
        return a == 'f' && b == 'f' && w->d == SIM_F32;
    if (a != b || a == 'f' || a == 'g' || (strchr("hbt", a) && w->a != w->b))
        return false;
    if (integer)
        return w->d == SIM_S32 && (w->sparse || a != 'i');
    return w->sparse && (w->d == SIM_F32 || (w->d == SIM_F16 && (a == 'h' || a == 'e')));
}

static bool
take_scales(SimDecode *dx, Wide *w)
{
    static const char *const words[] = {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", NULL};
    if (w->kind <= KIND_F8F6F4)
        return true;
    int word = dec_choice(dx, words);
    if (!dec_take(dx, "block_scale"))
        return dec_fail(dx, "this kind needs .block_scale");
    w->ue4m3 = dec_take(dx, "ue4m3");
    if (!w->ue4m3 && !dec_take(dx, "ue8m0"))
        return dec_fail(dx, "needs the type of the scales, .ue8m0 or .ue4m3");
    if (word < 0 && w->kind != KIND_MXF4NVF4)
        word = w->kind == KIND_MXF4;
    w->scales = word < 0 ? 0 : (uint8_t)(1u << word);
    bool fits = w->kind == KIND_MXF8F6F4 ? word == 0 && !w->ue4m3
                : w->kind == KIND_MXF4   ? word == 1 && !w->ue4m3
                                         : word == 2 || (word == 1 && !w->ue4m3);
    return fits || dec_fail(dx, "these scales do not go with this kind");
}

/* {byte-id, thread-id}: 16-bit registers or constants. */
static bool
take_selector(SimDecode *dx, const PtxOperand *operand)
{
    return dec_src_vector(dx, operand, SIM_U16, 2);
}

static bool
take_operands(SimDecode *dx, Wide *w)
{
    size_t n = 4 + (w->sparse ? 2u : 0u) + (w->scales ? 4u : 0u), at = 4;
    SimType c = w->d == SIM_F16 ? SIM_B32 : w->d;
    int64_t selector = 0;
    if (!dec_count(dx, n, n) || !dec_dst_vector(dx, dec_operand(dx, 0), c, w->c_registers) ||
        !dec_src_vector(dx, dec_operand(dx, 1), SIM_B32, w->a_registers) ||
        !dec_src_vector(dx, dec_operand(dx, 2), SIM_B32, w->b_registers) ||
        !dec_src_vector(dx, dec_operand(dx, 3), c, w->c_registers))
        return false;
    w->tail = dx->out->slot_count;
    if (w->sparse) {
        if (!dec_src(dx, dec_operand(dx, 4), SIM_B32) ||
            !dec_immediate(dx, dec_operand(dx, 5), &selector))
            return false;
        int most = (int)sim_sparse_selectors(w->bits, w->k) - 1;
        if (selector < 0 || selector > most)
            return dec_fail(dx, "the selector of this shape is 0 to %d", most);
        w->selector = (uint8_t)selector;
        at = 6;
    }
    return !w->scales || (dec_src(dx, dec_operand(dx, at), SIM_B32) &&
                          take_selector(dx, dec_operand(dx, at + 1)) &&
                          dec_src(dx, dec_operand(dx, at + 2), SIM_B32) &&
                          take_selector(dx, dec_operand(dx, at + 3)));
}

bool
sim_decode_mma_form(SimDecode *dx)
{
    static const char *const kinds[] = {"kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4",
                                        "kind::mxf4nvf4", NULL};
    SimInsn *out = dx->out;
    Wide *w = sim_arena_alloc(&dx->mod->arena, sizeof *w);
    dec_aligned(dx);
    out->whole_warp = true;
    if (!out->converge)
        return dec_fail(dx, "needs .sync.aligned");
    if (has_part(dx, "m8n8k4", 7))
        return decode_quad_pairs(dx);
    w->kind = (Kind)(dec_choice(dx, kinds) + 1);
    w->sparse = dec_take(dx, "sp") || dec_take(dx, "sp::ordered_metadata");
    if (!dec_take(dx, "row") || !dec_take(dx, "col") || !take_scales(dx, w))
        return dec_fail(dx, "needs .row.col");
    w->satfinite = dec_take(dx, "satfinite");
    w->d = (SimType)sim_mma_next_type(dx);
    w->a = sim_mma_next_type(dx);
    w->b = sim_mma_next_type(dx);
    w->c = (SimType)sim_mma_next_type(dx);
    if (!types_fit(w))
        return dec_fail(dx, "these types do not go together, or are not supported");
    if (w->a == TYPE_B1) {
        w->exclusive = dec_take(dx, "xor");
        if ((!w->exclusive && !dec_take(dx, "and")) || !dec_take(dx, "popc"))
            return dec_fail(dx, "needs .xor.popc or .and.popc");
    }
    const Form *form = NULL;
    w->bits = bits_of(w);
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !form; i++)
        if (forms[i].bits == w->bits && forms[i].sparse == w->sparse && dec_take(dx, forms[i].shape))
            form = &forms[i];
    if (!form || (w->kind >= KIND_MXF4 && form->k != (w->sparse ? 128 : 64)))
        return dec_fail(dx, "this shape does not exist for these types");
    w->m = form->m;
    w->k = form->k;
    w->stored = (uint16_t)(w->sparse ? w->k / 2 : w->k);
    w->b_registers = (uint8_t)(w->k * w->bits / 128);
    w->a_registers = (uint8_t)(w->stored * w->bits / 128 * w->m / 8);
    w->c_registers = (uint8_t)(w->d == SIM_F16 ? w->m / 8 : w->m / 4);
    out->data = w;
    out->exec = mma_wide;
    return take_operands(dx, w);
}
