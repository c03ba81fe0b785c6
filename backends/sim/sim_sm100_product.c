/* sim_sm100_product.c - what a tcgen05.mma computes: operands out of shared and tensor memory, the
 * product, and D's layouts in tensor memory (PTX ISA 9.7.16.10).
 *
 * The ISA gives the layouts A to G as figures only; lanes and columns here follow the layouts that
 * CUTLASS uses for the same instructions.
 */
#include <stdlib.h>

#include "sim_matrix.h"
#include "sim_sm100.h"

enum { ROW_BYTES = 32 }; /* of a row of A as it is stored, in every kind */

uint32_t
tensor_element_bytes(MmaKind kind)
{
    return kind == KIND_F16 ? 2 : kind == KIND_TF32 ? 4 : 1;
}

/* Table of 9.7.16.10.5.  Row of the block's own part of D. */
uint32_t
tensor_row_lane(const Product *product, uint32_t row)
{
    uint32_t rows = product->shape.m / product->form->group;
    if (rows == 64 && !product->form->ws && product->form->group == 1) /* layout F */
        return row % 16 + row / 16 * 32 + (product->d_address >> 16);
    return row;
}

uint32_t
tensor_part_lanes(const Product *product)
{
    return TENSOR_LANES / product->parts;
}

/* ------------------------------------------------------------------------ operands */

static bool
is_narrow(SimType type)
{
    return type == SIM_E2M1 || type == SIM_E2M3 || type == SIM_E3M2;
}

uint32_t
tensor_chunk_bytes(MmaKind kind, SimType type)
{
    if (kind == KIND_MXF4 || kind == KIND_MXF4NVF4 || !is_narrow(type))
        return 16;
    return type == SIM_E2M1 ? 8 : 12;
}

/* 16 bytes of shared memory to elements of one byte each; returns how many.  4- and 6-bit elements
 * lie as 16 packed ones followed by padding (9.7.16.10.4.4), in the mxf4 kinds without (.6). */
static uint32_t
unpack(const uint8_t *raw, SimType type, bool dense, uint8_t *out)
{
    uint32_t count = dense ? 32 : 16, bits = type == SIM_E2M1 ? 4 : 6;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i * bits, low = raw[at / 8], high = at / 8 < 15 ? raw[at / 8 + 1] : 0;
        out[i] = (uint8_t)((low | high << 8) >> at % 8 & ((1u << bits) - 1));
    }
    return count;
}

/* A chunk of 16 bytes to values; returns their number. */
static uint32_t
widen(const uint8_t *raw, MmaKind kind, SimType type, bool negate, uint32_t *value)
{
    uint32_t count = 16 / tensor_element_bytes(kind);
    uint8_t bytes[32];
    float wide[32];
    if (kind == KIND_I8) {
        for (uint32_t i = 0; i < 16; i++)
            value[i] = type == SIM_S8 ? (uint32_t)(int32_t)(int8_t)raw[i] : raw[i];
        return count;
    }
    if (is_narrow(type)) {
        count = unpack(raw, type, kind == KIND_MXF4 || kind == KIND_MXF4NVF4, bytes);
        sim_matrix_widen(wide, bytes, type, count);
    } else {
        uint64_t aligned[2];
        memcpy(aligned, raw, 16);
        sim_matrix_widen(wide, aligned, type, count);
    }
    for (uint32_t i = 0; negate && i < count; i++)
        wide[i] = -wide[i];
    memcpy(value, wide, count * sizeof *value);
    return count;
}

/* The same of elements that need no unpacking, and of whole matrices: lines are gathered, widened
 * together, and those that are columns turned, eight at a time. */
enum { SQUARE = 8, MOST_LENGTH = 256 };

SIM_HOT static void
turn(float *restrict out, size_t step, const float *restrict line, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        for (uint32_t j = 0; j < SQUARE; j++)
            out[i * step + j] = line[j * length + i];
}

static void
widen_lines(const SimCta *cta, const SharedMatrix *matrix, SimType type, bool negate,
            uint32_t lines, uint32_t length, uint32_t line_bytes, float *value, size_t step,
            size_t along)
{
    uint32_t raw[SQUARE * MOST_LENGTH];
    float wide[SQUARE * MOST_LENGTH];
    for (uint32_t line = 0; line < lines; line += SQUARE) {
        for (uint32_t j = 0; j < SQUARE; j++)
            for (uint32_t at = 0; at < line_bytes; at += 16)
                memcpy((uint8_t *)raw + j * line_bytes + at,
                       cta->shared + tensor_chunk(matrix, line + j, at), 16);
        sim_matrix_widen(wide, raw, type, SQUARE * length);
        for (uint32_t i = 0; negate && i < SQUARE * length; i++)
            wide[i] = -wide[i];
        if (along == 1)
            for (uint32_t j = 0; j < SQUARE; j++)
                memcpy(value + (line + j) * step, wide + j * length, length * sizeof *value);
        else
            turn(value + line, along, wide, length);
    }
}

/* Rows first.. of an operand from a block's shared memory into value[row * row_step + k * k_step].
 */
static void
gather(const SimCta *cta, const Product *product, const SharedMatrix *matrix, SimType type,
       bool negate, uint32_t rows, uint32_t columns, uint32_t *value, size_t row_step,
       size_t k_step)
{
    MmaKind kind = product->form->kind;
    uint32_t chunk[32];
    uint32_t lines = matrix->transposed ? columns : rows;
    uint32_t length = matrix->transposed ? rows : columns;
    uint32_t line_bytes = length * tensor_element_bytes(kind);
    size_t step = matrix->transposed ? k_step : row_step;
    size_t along = matrix->transposed ? row_step : k_step;
    if (kind != KIND_I8 && !is_narrow(type) && lines % SQUARE == 0 && line_bytes % 16 == 0 &&
        length <= MOST_LENGTH && (along == 1 || step == 1)) {
        widen_lines(cta, matrix, type, negate, lines, length, line_bytes, (float *)value, step,
                    along);
        return;
    }
    if (!matrix->transposed) {
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t at = 0, k = 0; k < columns; at += 16) {
                uint32_t n = widen(cta->shared + tensor_chunk(matrix, r, at), kind, type, negate,
                                   chunk);
                for (uint32_t i = 0; i < n; i++, k++)
                    value[r * row_step + k * k_step] = chunk[i];
            }
        return;
    }
    uint32_t bytes = rows * tensor_element_bytes(kind);
    for (uint32_t k = 0; k < columns; k++)
        for (uint32_t at = 0, r = 0; at < bytes; at += 16) {
            uint32_t n = widen(cta->shared + tensor_chunk(matrix, k, at), kind, type, negate, chunk);
            for (uint32_t i = 0; i < n; i++, r++)
                value[r * row_step + k * k_step] = chunk[i];
        }
}

void
tensor_product_fetch(SimCluster *cluster, SimOp *op)
{
    Product *p = op->payload;
    const MmaShape *s = &p->shape;
    uint32_t group = p->form->group;
    (void)cluster;
    for (uint32_t half = 0; half < group; half++) {
        const SimCta *cta = tensor_pair(op->cta, group, half);
        uint32_t rows = s->m / group, columns = s->n / group;
        if (!p->form->a_in_tensor_memory)
            gather(cta, p, &p->a, s->a, s->negate_a, rows, s->stored,
                   p->a_stored + (size_t)half * rows * s->stored, s->stored, 1);
        gather(cta, p, &p->b, s->b, s->negate_b, columns, s->k, p->b_value + half * columns, 1,
               s->n);
    }
}

/* A in tensor memory: lanes as for D, elements packed (9.7.16.10.4). */
static void
gather_tensor_memory(const SimOp *op, const Product *p)
{
    const MmaShape *s = &p->shape;
    uint32_t group = p->form->group, rows = s->m / group, column = p->a_address & 0xffff;
    uint32_t chunk[32];
    for (uint32_t half = 0; half < group; half++) {
        const TensorMemory *tm = tensor_memory(tensor_pair(op->cta, group, half));
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t *out = p->a_stored + ((size_t)half * rows + r) * s->stored;
            const uint32_t *from = &tm->data[tensor_row_lane(p, r)][column];
            for (uint32_t c = 0, k = 0; c < ROW_BYTES / 4; c += 4) {
                uint32_t n = widen((const uint8_t *)(from + c), p->form->kind, s->a, s->negate_a,
                                   chunk);
                memcpy(out + k, chunk, n * sizeof *out);
                k += n;
            }
        }
    }
}

/* ------------------------------------------------------------------------ sparse A */

/* Wide types have 32 bits of metadata for a row, others 64. */
static bool
wide_metadata(const Product *p)
{
    return p->form->kind == KIND_F16 || p->form->kind == KIND_TF32;
}

uint32_t
tensor_metadata_columns(const Product *p)
{
    return wide_metadata(p) ? 1 : 2;
}

/* Bits `bit` on of a row's metadata.  The ISA has figures only (9.7.16.10.8.4); CUTLASS lays it
 * out, and JAX copies it so, for 128 rows of a block: of 8-bit and 4-bit types row r is lane r of
 * two columns.  Of wider types two rows share the lanes 16 (r / 16) + r % 8, for the first half of
 * k, and the one 8 further, of the column that the selector names: row r has the lower half of the
 * word, row r + 8 the upper. */
static uint32_t
metadata_at(const TensorMemory *tm, const Product *p, uint32_t row, uint32_t bit)
{
    uint32_t column = p->metadata & 0xffff;
    if (!wide_metadata(p))
        return tm->data[row][column + bit / 32] >> bit % 32;
    return tm->data[row / 16 * 16 + bit / 16 * 8 + row % 8][column + p->shape.selector] >>
           (row / 8 % 2 * 16 + bit % 16);
}

/* Where the stored column c of a row stands (9.7.16.10.8.1 to .3). */
static uint32_t
column_of(const TensorMemory *tm, const Product *p, uint32_t row, uint32_t c)
{
    switch (p->form->kind) {
    case KIND_TF32: /* one of two: 0b0100 or 0b1110 */
        return 2 * c + (metadata_at(tm, p, row, 4 * c) >> 3 & 1);
    case KIND_MXF4:
    case KIND_MXF4NVF4: /* two pairs of four */
        return c / 4 * 8 + 2 * (metadata_at(tm, p, row, c / 2 * 2) & 3) + c % 2;
    default: return c / 2 * 4 + (metadata_at(tm, p, row, 2 * c) & 3);
    }
}

static void
spread(const SimOp *op, const Product *p)
{
    const MmaShape *s = &p->shape;
    uint32_t group = p->form->group, rows = s->m / group;
    memset(p->a_value, 0, (size_t)s->m * s->k * sizeof *p->a_value);
    for (uint32_t r = 0; r < s->m; r++) {
        const TensorMemory *tm = tensor_memory(tensor_pair(op->cta, group, r / rows));
        for (uint32_t c = 0; c < s->stored; c++)
            p->a_value[(size_t)r * s->k + column_of(tm, p, r % rows, c)] =
                p->a_stored[(size_t)r * s->stored + c];
    }
}

/* ------------------------------------------------------------------------ block scaling */

static float
scale_of(const Product *p, uint32_t word, uint32_t id, uint32_t index)
{
    uint32_t byte = word >> 8 * (id + index) & 0xff;
    return p->shape.scale_ue4m3 ? (float)sim_value(byte & 0x7f, SIM_E4M3)
                                : (float)sim_value(byte, SIM_UE8M0);
}

/* Scale of row r (of A or of B transposed): lane r % 32, column r / 32, the id picks the bytes
 * (9.7.16.10.7.2, .3).  The copies in the other quarters of the lanes are checked at issue. */
static void
apply_scales(const SimOp *op, const Product *p)
{
    const MmaShape *s = &p->shape;
    uint32_t group = p->form->group, rows = s->m / group, count = p->form->scale_vector;
    float *a = (float *)p->a_value, *b = (float *)p->b_value;
    for (uint32_t half = 0; half < group; half++) {
        const TensorMemory *tm = tensor_memory(tensor_pair(op->cta, group, half));
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t k = 0; k < s->k; k++)
                a[((size_t)half * rows + r) * s->k + k] *= scale_of(
                    p, tm->data[r % 32][(p->scale_a & 0xffff) + r / 32], s->scale_a_id,
                    k * count / s->k);
    }
    const TensorMemory *tm = tensor_memory(tensor_pair(op->cta, group, 0));
    for (uint32_t n = 0; n < s->n; n++)
        for (uint32_t k = 0; k < s->k; k++)
            b[k * s->n + n] *= scale_of(p, tm->data[n % 32][(p->scale_b & 0xffff) + n / 32],
                                        s->scale_b_id, k * count / s->k);
}

/* ------------------------------------------------------------------------ the product */

/* Words of D that hold columns [part * N / parts, ...) of a row. */
static uint32_t *
words_of_d(const SimOp *op, const Product *p, uint32_t row, uint32_t part, bool *disabled)
{
    uint32_t group = p->form->group, rows = p->shape.m / group, half = row / rows;
    TensorMemory *tm = tensor_memory(tensor_pair(op->cta, group, half));
    uint32_t lane = tensor_row_lane(p, row % rows) + part * tensor_part_lanes(p);
    *disabled = p->disabled[4 * half + lane / 32] >> lane % 32 & 1;
    return &tm->data[lane][p->d_address & 0xffff];
}

/* Loops of their own, so that compilers vectorise them. */
SIM_HOT static void
read_row(float *restrict to, const uint32_t *restrict d, size_t width, bool half, float scale)
{
    if (half)
        for (size_t c = 0; c < width; c++)
            to[c] = sim_f16(d[c] & 0xffff) * scale;
    else
        for (size_t c = 0; c < width; c++)
            to[c] = sim_f32(d[c]) * scale;
}

SIM_HOT static void
write_row(uint32_t *restrict d, const float *restrict from, size_t width, bool half)
{
    if (half)
        for (size_t c = 0; c < width; c++)
            d[c] = sim_to_f16(from[c]);
    else
        for (size_t c = 0; c < width; c++)
            d[c] = sim_f32_result(from[c]);
}

static void
multiply_floats(const SimOp *op, const Product *p, float *sum)
{
    const MmaShape *s = &p->shape;
    uint32_t width = s->n / p->parts;
    float scale = ldexpf(1.0f, -(int)p->form->scale_d);
    bool disabled, half = s->d == SIM_F16;
    for (uint32_t r = 0; p->enable_d && r < s->m; r++)
        for (uint32_t part = 0; part < p->parts; part++)
            read_row(sum + r * s->n + part * width, words_of_d(op, p, r, part, &disabled), width,
                     half, scale);
    sim_matrix_f32(sum, (const float *)p->a_value, (const float *)p->b_value, s->m, s->n, s->k);
    for (uint32_t r = 0; r < s->m; r++)
        for (uint32_t part = 0; part < p->parts; part++) {
            uint32_t *d = words_of_d(op, p, r, part, &disabled);
            if (!disabled)
                write_row(d, sum + r * s->n + part * width, width, half);
        }
}

static void
multiply_ints(const SimOp *op, const Product *p, int64_t *sum)
{
    const MmaShape *s = &p->shape;
    uint32_t width = s->n / p->parts;
    bool disabled;
    for (uint32_t r = 0; p->enable_d && r < s->m; r++)
        for (uint32_t part = 0; part < p->parts; part++) {
            const uint32_t *d = words_of_d(op, p, r, part, &disabled);
            for (uint32_t c = 0; c < width; c++)
                sum[r * s->n + part * width + c] = (int32_t)d[c];
        }
    sim_matrix_s32(sum, (const int32_t *)p->a_value, (const int32_t *)p->b_value, s->m, s->n, s->k);
    for (uint32_t r = 0; r < s->m; r++)
        for (uint32_t part = 0; part < p->parts; part++) {
            uint32_t *d = words_of_d(op, p, r, part, &disabled);
            for (uint32_t c = 0; !disabled && c < width; c++) {
                int64_t v = sum[r * s->n + part * width + c];
                if (s->saturate)
                    v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
                d[c] = (uint32_t)v;
            }
        }
}

void
tensor_product_land(SimCluster *cluster, SimOp *op)
{
    const Product *p = op->payload;
    tensor_finish_before(cluster, op);
    if (p->form->a_in_tensor_memory)
        gather_tensor_memory(op, p);
    if (p->form->sparse)
        spread(op, p);
    if (p->form->scale_vector)
        apply_scales(op, p);
    size_t cells = (size_t)p->shape.m * p->shape.n;
    void *sum = sim_calloc(cells, p->form->kind == KIND_I8 ? sizeof(int64_t) : sizeof(float));
    if (!sum)
        return; /* D keeps its poison: nothing better can be done here */
    if (p->form->kind == KIND_I8)
        multiply_ints(op, p, sum);
    else
        multiply_floats(op, p, sum);
    free(sum);
}
