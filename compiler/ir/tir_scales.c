/* tir_scales.c - how many scales of a product's operand lie where. */
#include "compiler/ir/tir_scales.h"

#include "compiler/ir/isa.h"

static uint32_t
words_of(int32_t each)
{
    return ((uint32_t)each + SCALE_WORD - 1) / SCALE_WORD;
}

static uint32_t
blocks_of(int32_t lines)
{
    return ((uint32_t)lines + TMEM_LANES - 1) / TMEM_LANES;
}

uint32_t
tir_scale_columns(int32_t lines, int32_t each)
{
    return words_of(each) * blocks_of(lines) * SCALE_RUNS;
}

int32_t
tir_scale_lines(const TirShared *pipeline)
{
    return pipeline->scales == 1 ? pipeline->cols : pipeline->rows;
}

int32_t
tir_scales_of_line(const TirShared *pipeline)
{
    return pipeline->scales == 1 ? pipeline->rows : pipeline->cols;
}

uint32_t
tir_scale_words(const TirShared *pipeline)
{
    return words_of(tir_scales_of_line(pipeline));
}

uint32_t
tir_scale_blocks(const TirShared *pipeline)
{
    return blocks_of(tir_scale_lines(pipeline));
}

uint32_t
tir_scale_bytes(const TirShared *pipeline)
{
    return tir_scale_words(pipeline) * tir_scale_blocks(pipeline) * SCALE_BLOCK_BYTES;
}
