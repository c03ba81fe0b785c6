/* sim_sm100_shared.c - matrices in shared memory: descriptors and swizzles (PTX ISA 9.7.16.3,
 * 9.7.16.4.1, 9.7.16.10.6).
 *
 * A swizzle is an exclusive or of bits of the absolute shared address, so that it does not depend
 * on where in a pattern a matrix starts.
 */
#include "sim_sm100.h"

enum { MODE_NONE = 0, MODE_128B_32B_ATOM = 1, MODE_128B = 2, MODE_64B = 4, MODE_32B = 6 };

static const uint8_t span_of[8] = {16, 128, 128, 0, 64, 0, 32, 0}; /* bytes of a swizzled row */

bool
tensor_descriptor(SimWarp *warp, int32_t lane, uint64_t bits, SharedMatrix *matrix)
{
    const char *wrong = NULL;
    uint32_t mode = (uint32_t)(bits >> 61);
    if (bits >> 14 & 3 || bits >> 30 & 3)
        wrong = "a bit among 14-15 or 30-31 is set, which are reserved";
    else if ((bits >> 46 & 7) != 1)
        wrong = "bits 46-48 must hold the constant 0b001";
    else if (bits >> 52 & 1)
        wrong = "bit 52, an absolute leading dimension, exists on sm_103a only";
    else if (bits >> 53 & 0xff)
        wrong = "a bit among 53-60 is set, which must be 0";
    else if (!span_of[mode])
        wrong = "the swizzling mode in bits 61-63 is none of 0, 1, 2, 4, 6";
    if (wrong) {
        sim_find(warp, SIM_FIND_INVALID, lane, bits, NULL, "shared memory descriptor 0x%016llx: %s",
                 (unsigned long long)bits, wrong);
        return false;
    }
    if (bits >> 49 & 7) {
        sim_fail(warp,
                 "a matrix base offset other than 0 (bits 49-51 of descriptor 0x%016llx) is not "
                 "supported",
                 (unsigned long long)bits);
        return false;
    }
    matrix->start = (uint32_t)(bits & 0x3fff) << 4;
    matrix->leading = (uint32_t)(bits >> 16 & 0x3fff) << 4;
    matrix->stride = (uint32_t)(bits >> 32 & 0x3fff) << 4;
    matrix->mode = (uint8_t)mode;
    matrix->transposed = false;
    return true;
}

/* Where a chunk lies before the swizzle. */
static uint32_t
place_of(const SharedMatrix *matrix, uint32_t row, uint32_t at)
{
    uint32_t span = span_of[matrix->mode], x = matrix->start;
    uint32_t leading = matrix->leading, stride = matrix->stride;
    if (!matrix->transposed) {
        x += row / 8 * stride + row % 8 * span;
        x += matrix->mode == MODE_NONE ? at / 16 * leading : at;
    } else if (matrix->mode == MODE_NONE) {
        x += at / 16 * stride + row / 8 * leading + row % 8 * 16;
    } else if (matrix->mode == MODE_128B_32B_ATOM) {
        x += at / 128 * leading + row / 4 * stride + row % 4 * 128 + at % 128;
    } else {
        x += at / span * leading + row / 8 * stride + row % 8 * span + at % span;
    }
    return x;
}

static uint32_t
swizzled(const SharedMatrix *matrix, uint32_t x)
{
    switch (matrix->mode) {
    case MODE_32B: x ^= x >> 3 & 0x10; break;
    case MODE_64B: x ^= x >> 3 & 0x30; break;
    case MODE_128B: x ^= x >> 3 & 0x70; break;
    case MODE_128B_32B_ATOM: x ^= x >> 2 & 0x60; break;
    default: break;
    }
    return x - SIM_SHARED_BASE;
}

uint32_t
tensor_chunk(const SharedMatrix *matrix, uint32_t row, uint32_t at)
{
    return swizzled(matrix, place_of(matrix, row, at));
}

uint32_t
tensor_chunks_together(const SharedMatrix *matrix, uint32_t row, uint32_t at, uint32_t end,
                       uint32_t *part)
{
    uint32_t x = place_of(matrix, row, at), span = span_of[matrix->mode];
    while (span > 16 &&
           (x % span || at + span > end || place_of(matrix, row, at + span - 16) != x + span - 16))
        span /= 2;
    uint32_t offset = swizzled(matrix, x);
    *part = offset - (offset + SIM_SHARED_BASE) % span;
    return span / 16;
}
