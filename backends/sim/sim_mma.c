/* sim_mma.c - mma.sync (PTX ISA 9.7.14.5): fragments of a warp to matrices and back.
 *
 * All shapes share one rule.  With g = lane / 4, t = lane % 4 and E elements in a register:
 *   A, register j:  row g + 8 (j & 1), k = E t + 4 E (j >> 1) + e   (8-row shapes: row g, one
 *                                                                     block of k per register)
 *   B, register j:  column g,          k = E t + 4 E j + e
 *   C and D, element i: row g + 8 (i >> 1), column 2 t + (i & 1)
 */
#include "sim_exec.h"
#include "sim_matrix.h"
#include "sim_mma.h"

enum { MAX_K = 32, N = 8, MAX_M = 16 };

typedef struct Shape {
    uint8_t m, k;
    uint8_t a_registers, b_registers, c_registers, d_registers;
    uint8_t per_register; /* E */
    SimType a, b, c, d;
    bool satfinite;
    bool known_sums; /* of sm_90 */
} Shape;

static uint32_t
element_row(const Shape *s, uint32_t lane, uint32_t j)
{
    return s->m == 8 ? lane / 4 : lane / 4 + 8 * (j & 1);
}

static uint32_t
element_k(const Shape *s, uint32_t lane, uint32_t block, uint32_t e)
{
    return s->per_register * (lane % 4) + 4u * s->per_register * block + e;
}

/* Register j, widened: of lanes 4 g to 4 g + 3 the elements are 4 E in a row, k from 4 E times a
 * block on. */
static void
gather_a(const SimWarp *warp, const SimInsn *insn, const Shape *s, float *a)
{
    uint32_t n = 4u * s->per_register;
    for (uint32_t j = 0; j < s->a_registers; j++) {
        float value[SIM_LANES * 4];
        sim_matrix_widen(value, sim_r32(warp, insn->slot[s->d_registers + j]), s->a, 8 * n);
        float *to = s->m == 8 ? a + j * n : a + 8 * (j & 1) * s->k + (j >> 1) * n;
        for (uint32_t g = 0; g < 8; g++)
            if (n == 8) /* of 16 bits, mostly */
                memcpy(to + g * s->k, value + g * 8, 8 * sizeof *to);
            else
                memcpy(to + g * s->k, value + g * n, n * sizeof *to);
    }
}

SIM_HOT static void
turn(float *restrict b, const float *restrict value) /* 8 rows of 8 */
{
    for (uint32_t q = 0; q < 8; q++)
        for (uint32_t g = 0; g < N; g++)
            b[q * N + g] = value[g * 8 + q];
}

static void
gather_b(const SimWarp *warp, const SimInsn *insn, const Shape *s, float *b)
{
    uint32_t first = s->d_registers + s->a_registers, n = 4u * s->per_register;
    for (uint32_t j = 0; j < s->b_registers; j++) {
        float value[SIM_LANES * 4];
        sim_matrix_widen(value, sim_r32(warp, insn->slot[first + j]), s->b, 8 * n);
        if (n == 8)
            turn(b + j * 8 * N, value);
        else
            for (uint32_t q = 0; q < n; q++)
                for (uint32_t g = 0; g < N; g++)
                    b[(j * n + q) * N + g] = value[g * n + q];
    }
}

/* Element i of a lane is row l/4 + 8(i>>1), column 2(l%4) + (i&1): of N columns the rows of a half
 * follow one another. */
static uint32_t
c_at(uint32_t lane, uint32_t i)
{
    return (lane / 4 + 8 * (i >> 1)) * N + 2 * (lane % 4) + (i & 1);
}

SIM_HOT static void
gather_c(float *restrict d, const uint32_t *restrict even, const uint32_t *restrict odd)
{
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        d[2 * l] = sim_f32(even[l]);
        d[2 * l + 1] = sim_f32(odd[l]);
    }
}

SIM_HOT static void
scatter_d(uint32_t *restrict out, const float *restrict d)
{
    for (uint32_t l = 0; l < SIM_LANES; l++)
        out[l] = sim_f32_result(d[2 * l]);
}

/* 8-bit types on sm_90: a product of f16 for each half of the columns, k mod 4 of 0 and 1 first,
 * which begins at zero, and an addition of C that is rounded to nearest.  (So ptxas writes it; f16
 * results are f16 throughout.) */
static void
multiply_bytes_sm90(const Shape *s, float *d, const float *a, const float *b)
{
    static const SimSums f16 = {SIM_F16, SIM_F16, 25};
    float sum[MAX_M * N] = {0}, half_a[MAX_M * MAX_K], half_b[MAX_K * N];
    uint32_t k = s->k / 2u, cells = (uint32_t)s->m * N;
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t p = 0; p < k; p++) {
            uint32_t from = p / 2 * 4 + 2 * half + p % 2;
            for (uint32_t r = 0; r < s->m; r++)
                half_a[r * k + p] = a[r * s->k + from];
            memcpy(half_b + p * N, b + from * N, N * sizeof *b);
        }
        sim_matrix_sm90(sum, half_a, half_b, s->m, N, k, &f16);
        for (uint32_t i = 0; s->d == SIM_F16 && i < cells; i++)
            sum[i] = sim_f16(sim_to_f16(sum[i]));
    }
    for (uint32_t i = 0; i < cells; i++)
        d[i] += sum[i];
}

static void
multiply(const Shape *s, float *d, const float *a, const float *b)
{
    SimSums sums = {s->a, s->b, 25};
    if (!s->known_sums)
        sim_matrix_f32(d, a, b, s->m, N, s->k);
    else if (s->a == SIM_E4M3 || s->a == SIM_E5M2)
        multiply_bytes_sm90(s, d, a, b);
    else
        sim_matrix_sm90(d, a, b, s->m, N, s->k, &sums);
}

static SimStep
mma_float(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Shape *s = insn->data;
    float a[MAX_M * MAX_K], b[MAX_K * N], d[MAX_M * N];
    uint32_t first = (uint32_t)(s->d_registers + s->a_registers + s->b_registers);
    uint32_t out[SIM_LANES];
    gather_a(warp, insn, s, a);
    gather_b(warp, insn, s, b);
    for (uint32_t i = 0; i < 4 && s->c == SIM_F16; i++) {
        const uint32_t *c = sim_r32(warp, insn->slot[first + i / 2]);
        for (uint32_t l = 0; l < SIM_LANES; l++)
            d[c_at(l, i)] = sim_f16(c[l] >> 16 * (i & 1) & 0xffffu);
    }
    for (uint32_t i = 0; i < 4 && s->c != SIM_F16; i += 2)
        gather_c(d + c_at(0, i), sim_r32(warp, insn->slot[first + i]),
                 sim_r32(warp, insn->slot[first + i + 1]));
    multiply(s, d, a, b);
    for (uint32_t j = 0; j < s->d_registers; j++) {
        if (s->d == SIM_F16)
            for (uint32_t l = 0; l < SIM_LANES; l++)
                out[l] = sim_to_f16(d[c_at(l, 2 * j)]) | sim_to_f16(d[c_at(l, 2 * j + 1)]) << 16;
        else
            scatter_d(out, d + c_at(0, j));
        sim_put32(warp, insn->slot[j], out, mask);
    }
    return SIM_NEXT;
}

static SimStep
mma_double(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Shape *s = insn->data;
    double a[MAX_M * MAX_K], b[MAX_K * N], d[MAX_M * N];
    uint32_t at_a = s->d_registers, at_b = at_a + s->a_registers, at_c = at_b + s->b_registers;
    uint64_t out[SIM_LANES];
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        for (uint32_t j = 0; j < s->a_registers; j++)
            a[element_row(s, l, j) * s->k + element_k(s, l, s->m == 8 ? j : j >> 1, 0)] = sim_f64(
                sim_r64(warp, insn->slot[at_a + j])[l]);
        for (uint32_t j = 0; j < s->b_registers; j++)
            b[element_k(s, l, j, 0) * N + l / 4] = sim_f64(sim_r64(warp, insn->slot[at_b + j])[l]);
        for (uint32_t i = 0; i < s->c_registers; i++)
            d[c_at(l, i)] = sim_f64(sim_r64(warp, insn->slot[at_c + i])[l]);
    }
    sim_matrix_f64(d, a, b, s->m, N, s->k);
    for (uint32_t i = 0; i < s->d_registers; i++) {
        for (uint32_t l = 0; l < SIM_LANES; l++)
            out[l] = sim_f64_bits(d[c_at(l, i)]);
        sim_put64(warp, insn->slot[i], out, mask);
    }
    return SIM_NEXT;
}

static int32_t
integer_element(uint32_t bits, uint32_t e, SimType type)
{
    uint32_t byte = bits >> 8 * e & 0xff;
    return type == SIM_S8 ? (int8_t)byte : (int32_t)byte;
}

static SimStep
mma_integer(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Shape *s = insn->data;
    int32_t a[MAX_M * MAX_K], b[MAX_K * N];
    int64_t d[MAX_M * N];
    uint32_t at_a = s->d_registers, at_b = at_a + s->a_registers, at_c = at_b + s->b_registers;
    uint32_t out[SIM_LANES];
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        for (uint32_t j = 0; j < s->a_registers; j++)
            for (uint32_t e = 0; e < 4; e++)
                a[element_row(s, l, j) * s->k + element_k(s, l, s->m == 8 ? j : j >> 1, e)] =
                    integer_element(sim_r32(warp, insn->slot[at_a + j])[l], e, s->a);
        for (uint32_t j = 0; j < s->b_registers; j++)
            for (uint32_t e = 0; e < 4; e++)
                b[element_k(s, l, j, e) * N + l / 4] = integer_element(
                    sim_r32(warp, insn->slot[at_b + j])[l], e, s->b);
        for (uint32_t i = 0; i < s->c_registers; i++)
            d[c_at(l, i)] = (int32_t)sim_r32(warp, insn->slot[at_c + i])[l];
    }
    sim_matrix_s32(d, a, b, s->m, N, s->k);
    for (uint32_t i = 0; i < s->d_registers; i++) {
        for (uint32_t l = 0; l < SIM_LANES; l++) {
            int64_t v = d[c_at(l, i)];
            if (s->satfinite)
                v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            out[l] = (uint32_t)v;
        }
        sim_put32(warp, insn->slot[i], out, mask);
    }
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ decoding */

/* Which operand types a shape takes: k counts for each class of A (PTX ISA 9.7.14.5.14). */
typedef struct Form {
    const char *shape;
    uint8_t m, k;
    char class; /* h f16, b bf16, t tf32, d f64, i s8/u8, e e4m3/e5m2 */
} Form;
static const Form forms[] = {
    {"m16n8k8", 16, 8, 'h'},   {"m16n8k16", 16, 16, 'h'}, {"m16n8k8", 16, 8, 'b'},
    {"m16n8k16", 16, 16, 'b'}, {"m16n8k4", 16, 4, 't'},   {"m16n8k8", 16, 8, 't'},
    {"m8n8k4", 8, 4, 'd'},     {"m16n8k4", 16, 4, 'd'},   {"m16n8k8", 16, 8, 'd'},
    {"m16n8k16", 16, 16, 'd'}, {"m8n8k16", 8, 16, 'i'},   {"m16n8k16", 16, 16, 'i'},
    {"m16n8k32", 16, 32, 'i'}, {"m16n8k16", 16, 16, 'e'}, {"m16n8k32", 16, 32, 'e'},
};

static char
class_of(SimType type)
{
    switch (type) {
    case SIM_F16: return 'h';
    case SIM_BF16: return 'b';
    case SIM_TF32: return 't';
    case SIM_F64: return 'd';
    case SIM_S8:
    case SIM_U8: return 'i';
    case SIM_E4M3:
    case SIM_E5M2: return 'e';
    default: return ' ';
    }
}

static bool
accumulator_fits(char class, SimType type)
{
    switch (class) {
    case 'd': return type == SIM_F64;
    case 'i': return type == SIM_S32;
    case 'h':
    case 'e': return type == SIM_F32 || type == SIM_F16;
    default: return type == SIM_F32;
    }
}

static uint8_t
accumulator_registers(SimType type, uint32_t m)
{
    return (uint8_t)(type == SIM_F16 ? m / 8 : m / 4);
}

static bool
decode_operands(SimDecode *dx, const Shape *s)
{
    SimType ab = s->a == SIM_F64 ? SIM_F64 : SIM_B32;
    SimType d = s->d == SIM_F16 ? SIM_B32 : s->d, c = s->c == SIM_F16 ? SIM_B32 : s->c;
    return dec_count(dx, 4, 4) && dec_dst_vector(dx, dec_operand(dx, 0), d, s->d_registers) &&
           dec_src_vector(dx, dec_operand(dx, 1), ab, s->a_registers) &&
           dec_src_vector(dx, dec_operand(dx, 2), ab, s->b_registers) &&
           dec_src_vector(dx, dec_operand(dx, 3), c, s->c_registers);
}

static bool
decode_mma(SimDecode *dx)
{
    SimInsn *out = dx->out;
    const Form *form = NULL;
    if (sim_mma_is_form(dx))
        return sim_decode_mma_form(dx);
    Shape *s = sim_arena_alloc(&dx->mod->arena, sizeof *s);
    dec_aligned(dx);
    out->whole_warp = true;
    if (!out->converge || !dec_take(dx, "row") || !dec_take(dx, "col"))
        return dec_fail(dx, "needs .sync.aligned and .row.col");
    s->satfinite = dec_take(dx, "satfinite");
    s->known_sums = dx->mod->facts.known_sums;
    s->d = dec_type(dx);
    s->a = dec_type(dx);
    s->b = dec_type(dx);
    s->c = dec_type(dx);
    char class = class_of(s->a);
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !form; i++)
        if (forms[i].class == class && dec_take(dx, forms[i].shape))
            form = &forms[i];
    if (!form)
        return dec_fail(dx, "this shape does not exist for '.%s', or is not supported",
                        sim_type_info(s->a)->name);
    if (class_of(s->b) != class || (class != 'i' && class != 'e' && s->a != s->b) ||
        !accumulator_fits(class, s->c) || !accumulator_fits(class, s->d))
        return dec_fail(dx, "these types do not go together");
    if (class == 'e' && s->c != s->d)
        return dec_fail(dx, "C and D must have one type");
    if (s->satfinite && class != 'i')
        return dec_fail(dx, ".satfinite is for integers");
    s->m = form->m;
    s->k = form->k;
    uint32_t bits = class == 't' ? 32 : sim_type_info(s->a)->bits;
    s->per_register = (uint8_t)(class == 'd' ? 1 : 32 / bits);
    s->b_registers = (uint8_t)(s->k / (4 * s->per_register));
    s->a_registers = (uint8_t)(s->b_registers * s->m / 8);
    s->c_registers = accumulator_registers(s->c, s->m);
    s->d_registers = accumulator_registers(s->d, s->m);
    out->data = s;
    out->exec = class == 'd' ? mma_double : class == 'i' ? mma_integer : mma_float;
    return decode_operands(dx, s);
}

const SimFamily sim_mma_families[] = {
    {"mma", decode_mma},
    {NULL, NULL},
};
