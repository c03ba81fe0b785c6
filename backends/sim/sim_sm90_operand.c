/* sim_sm90_operand.c - matrices that wgmma reads from shared memory (PTX ISA 9.7.15.5.1). */
#include "sim_matrix.h"
#include "sim_sm90_wgmma.h"

typedef struct Matrix { /* a matrix in shared memory, 9.7.15.5.1.2.2 */
    uint32_t start, leading, stride, swizzle, span;
    bool transposed;
} Matrix;

static Matrix
unpack(uint64_t d, bool transposed)
{
    static const uint32_t spans[4] = {16, 128, 64, 32};
    uint32_t mode = (uint32_t)(d >> 62);
    return (Matrix){.start = (uint32_t)(d & 0x3fff) << 4,
                    .leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
                    .stride = (uint32_t)(d >> 32 & 0x3fff) << 4,
                    .swizzle = mode,
                    .span = spans[mode],
                    .transposed = transposed};
}

/* Where one 16-byte piece lies before the swizzle.  K-major: `line` is the row of A (column of B),
 * `piece` counts along K.  Transposed (MN-major): `line` is k, `piece` counts along M or N.
 * Formulas of 9.7.15.5.1.2.1; the swizzle works on bits of the address. */
static uint32_t
piece_place(const Matrix *m, uint32_t line, uint32_t piece)
{
    uint32_t x;
    if (!m->transposed)
        x = m->swizzle ? (line / 8) * m->stride + (line % 8) * m->span + piece * 16
                       : (line / 8) * m->stride + (line % 8) * 16 + piece * m->leading;
    else
        x = m->swizzle ? piece * 16 / m->span * m->leading + (line / 8) * m->stride +
                             (line % 8) * m->span + piece * 16 % m->span
                       : piece * m->stride + (line / 8) * m->leading + (line % 8) * 16;
    return (m->start + x) & 0x3ffff;
}

/* Its offset in shared memory. */
static uint32_t
piece_offset(const Matrix *m, uint32_t line, uint32_t piece)
{
    uint32_t x = piece_place(m, line, piece);
    switch (m->swizzle) {
    case 1: x ^= x >> 3 & 0x70; break;
    case 2: x ^= x >> 3 & 0x30; break;
    case 3: x ^= x >> 3 & 0x10; break;
    default: break;
    }
    return x - SIM_SHARED_BASE;
}

/* `count` elements to floats, or to int32 for integer products. */
void
sim_sm90_widen(float *out, const uint32_t *words, SimType type, uint32_t count)
{
    if (type == SIM_S8 || type == SIM_U8) {
        const uint8_t *piece = (const uint8_t *)words;
        int32_t *integers = (int32_t *)(void *)out;
        for (uint32_t i = 0; i < count; i++)
            integers[i] = type == SIM_S8 ? (int8_t)piece[i] : piece[i];
        return;
    }
    sim_matrix_widen(out, words, type, count);
}

uint32_t
sim_sm90_element_bytes(SimType type)
{
    return type == SIM_TF32 ? 4 : type == SIM_F16 || type == SIM_BF16 ? 2 : 1;
}

enum { SQUARE = 8, MOST_BYTES = 256 * 32 };

/* Lines of 8, `length` long, to columns. */
SIM_HOT static void
turn(float *restrict out, uint32_t step, const float *restrict line, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        for (uint32_t j = 0; j < SQUARE; j++)
            out[i * step + j] = line[j * length + i];
}

/* Copies lines [first, first + lines) of a matrix to where they lie one after the other.  What is
 * outside of shared memory, which was reported at the issue, is zero. */
static void
gather_lines(const SimCta *cta, const Matrix *m, uint32_t first, uint32_t lines, uint32_t pieces,
             uint8_t *out)
{
    for (uint32_t line = first; line < first + lines; line++)
        for (uint32_t p = 0; p < pieces; p++, out += 16) {
            uint32_t offset = piece_offset(m, line, p);
            if (cta->shared_size >= 16 && offset <= cta->shared_size - 16)
                memcpy(out, cta->shared + offset, 16);
            else
                memset(out, 0, 16);
        }
}

/* Fills out[row * row_step + k * k_step] for `rows` rows and k columns; one of the steps is 1, the
 * other one goes to the next line.  Rows and k are multiples of 8. */
void
sim_sm90_read_matrix(const SimCta *cta, uint64_t descriptor, SimType type, bool transposed,
                     uint32_t rows, uint32_t k, float *out, uint32_t row_step, uint32_t k_step)
{
    Matrix m = unpack(descriptor, transposed);
    uint32_t per_piece = 16 / sim_sm90_element_bytes(type);
    uint32_t lines = transposed ? k : rows, length = transposed ? rows : k;
    uint32_t step = transposed ? k_step : row_step; /* from line to line */
    uint32_t along = transposed ? row_step : k_step, pieces = length / per_piece;
    uint32_t raw[MOST_BYTES / 4];
    if (along == 1 && step == length) {
        gather_lines(cta, &m, 0, lines, pieces, (uint8_t *)raw);
        sim_sm90_widen(out, raw, type, lines * length);
        return;
    }
    for (uint32_t line = 0; line < lines; line += SQUARE) {
        float wide[SQUARE * 256];
        gather_lines(cta, &m, line, SQUARE, pieces, (uint8_t *)raw);
        sim_sm90_widen(wide, raw, type, SQUARE * length);
        turn(out + line, along, wide, length);
    }
}

/* How many pieces of a line from p on, below `end`, fill an aligned part of shared memory, in
 * whatever order a swizzle has them: a line of the swizzle, or two pieces; else 1.  *part is its
 * offset. */
static uint32_t
pieces_together(const Matrix *m, uint32_t line, uint32_t p, uint32_t end, uint32_t *part)
{
    uint32_t count = m->span / 16, offset = piece_offset(m, line, p);
    if (m->swizzle && p + count <= end && piece_place(m, line, p) % m->span == 0 &&
        piece_place(m, line, p + count - 1) == piece_place(m, line, p) + m->span - 16) {
        *part = offset - (offset + SIM_SHARED_BASE) % m->span;
        return count;
    }
    *part = offset & ~16u;
    if (p + 1 < end && piece_offset(m, line, p + 1) == (offset ^ 16))
        return 2;
    *part = offset;
    return 1;
}

/* Whether all pieces up to these lie inside, by a bound; if it does not say so, they are looked at
 * one by one. */
static bool
surely_inside(const SimCta *cta, const Matrix *m, uint32_t last_line, uint32_t last_piece)
{
    uint64_t span = m->span, x = m->start + 7 * span;
    if (!m->transposed)
        x += last_line / 8 * (uint64_t)m->stride +
             last_piece * (uint64_t)(m->swizzle ? 16 : m->leading);
    else if (m->swizzle)
        x += last_piece * 16 / span * m->leading + last_line / 8 * (uint64_t)m->stride + span;
    else
        x += last_piece * (uint64_t)m->stride + last_line / 8 * (uint64_t)m->leading;
    x |= 127; /* wherever a swizzle puts it */
    return m->start >= SIM_SHARED_BASE && x < 0x40000 &&
           x < SIM_SHARED_BASE + (uint64_t)cta->shared_size;
}

/* Notes rows [first, first + rows) of a matrix as read by the op, for the executing warp.  Pieces
 * that lie together are noted together where nothing is wrong. */
bool
sim_sm90_note_matrix(SimWarp *warp, SimOp *op, uint64_t descriptor, SimType type, bool transposed,
                     uint32_t first, uint32_t rows, uint32_t k, const char *which)
{
    Matrix m = unpack(descriptor, transposed);
    SimCta *cta = warp->cta;
    uint32_t per_piece = 16 / sim_sm90_element_bytes(type);
    uint32_t first_line = transposed ? 0 : first, lines = transposed ? k : rows;
    uint32_t first_piece = transposed ? first / per_piece : 0;
    uint32_t pieces = (transposed ? rows : k) / per_piece;
    if (!cta->shadow && surely_inside(cta, &m, first_line + lines - 1, first_piece + pieces - 1))
        return true;
    for (uint32_t line = first_line; line < first_line + lines; line++)
        for (uint32_t p = first_piece; p < first_piece + pieces; p++) {
            uint32_t offset = piece_offset(&m, line, p);
            if (offset > cta->shared_size - 16 || cta->shared_size < 16) {
                sim_find(warp, SIM_FIND_OUT_OF_BOUNDS, -1, offset + SIM_SHARED_BASE, NULL,
                         "%s reaches outside the block's %u bytes of shared memory (descriptor "
                         "%016llx)",
                         which, cta->shared_size, (unsigned long long)descriptor);
                return false;
            }
            if (!cta->shadow)
                continue;
            uint32_t part, count = pieces_together(&m, line, p, first_piece + pieces, &part);
            if (count > 1 && part + 16 * count <= cta->shared_size &&
                sim_shadow_async_read_quietly(warp, op, cta, part, 16 * count, true)) {
                p += count - 1;
                continue;
            }
            sim_shadow_async_read(warp, op, cta, offset, 16, true);
        }
    return true;
}
