/* tir_scales.h - scales of a product's operand on their way to tensor memory.
 *
 * Four scales of a line (a row of A, a column of B) are a word.  A column of tensor memory has the
 * words of 32 lines, one in each lane, the next columns those of the next 32, up to 128 lines;
 * behind these come the next 128, then the next four scales of each. A stage of such a pipeline in
 * shared memory is in the order in which tcgen05.cp takes it: 16 bytes are the words of a lane in
 * four neighbouring columns.  Lanes fill it, and the mma role copies it.
 *
 * In TirShared: `scales` is 1 + the dimension of such a pipeline's tiles along which the scales of
 * a line lie, 0 of other buffers; `places` is how many stages there are in tensor memory, from
 * column `column` on: behind pass roles as many as in shared memory.
 */
#ifndef TILEC_TIR_SCALES_H
#define TILEC_TIR_SCALES_H

#include "compiler/ir/tir.h"

enum {
    SCALE_WORD = 4, /* scales, which are bytes */
    SCALE_RUNS = 4, /* of 32 lines: columns of a block of 128 */
    SCALE_LANE_BYTES = SCALE_WORD * SCALE_RUNS,
    SCALE_BLOCK_BYTES = SCALE_LANE_BYTES * 32
};

/* Columns of tensor memory for `each` scales of so many lines. */
uint32_t tir_scale_columns(int32_t lines, int32_t each);
/* Of a pipeline's stage: its lines, the scales of one; the words of one, blocks of 128 lines,
 * bytes. */
int32_t tir_scale_lines(const TirShared *pipeline);
int32_t tir_scales_of_line(const TirShared *pipeline);
uint32_t tir_scale_words(const TirShared *pipeline);
uint32_t tir_scale_blocks(const TirShared *pipeline);
uint32_t tir_scale_bytes(const TirShared *pipeline);

#endif
