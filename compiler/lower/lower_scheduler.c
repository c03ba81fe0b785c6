/* lower_scheduler.c - the dynamic tile scheduler: a counter in global memory, and the pipeline through which the
 * producer broadcasts the tile indices that it has fetched.
 *
 *     counter   two words: how many tiles were fetched (each block's first tile is its own number and is not
 *               fetched), and how many blocks have ended
 *     pipeline  TILE_STAGES times three indices and a word that is 1 when there is no further tile; then the full
 *               and the empty barriers
 *
 * Only the producer computes the indices: that takes many instructions, and it has little else to do.
 */
#include "compiler/lower/lower.h"

static LirOperand
tile_stage(Lowering *lo, int32_t bytes, uint32_t offset)
{
    LirReg at = lir_op3(&lo->b, LIR_MAD_S32, LIR_B32, lir_reg(lo->role->tiles.stage),
                        lir_int(bytes), lir_reg(lower_shared_start(lo)));
    return lir_address(at, lo->fn->plan->tiles.offset + offset);
}

enum {
    TILE_FULL = TILE_INDEX_BYTES * TILE_STAGES,
    TILE_EMPTY = TILE_FULL + MBARRIER_BYTES * TILE_STAGES
};

/* The producer broadcasts the indices that it found; `none`: there is no further tile. */
void
lower_tell_tile(Lowering *lo, LirReg none)
{
    LirBuilder *b = &lo->b;
    LirOperand words[5] = {{0}};

    lower_wait_barrier(lo, tile_stage(lo, MBARRIER_BYTES, TILE_EMPTY), lo->role->tiles.phase);
    words[0] = tile_stage(lo, TILE_INDEX_BYTES, 0);
    for (uint32_t k = 0; k < 3; k++)
        words[k + 1] = k < lo->fn->grid.n ? lower_operand(lo, lo->role->grid[k]) : lir_int(0);
    words[4] = lir_reg(lir_op3(b, LIR_SEL_B32, LIR_B32, lir_int(1), lir_int(0), lir_reg(none)));
    lir_emit(b, LIR_ST_SHARED_V4, 0, 5, words);
    LirOperand full = tile_stage(lo, MBARRIER_BYTES, TILE_FULL);
    lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, &full);
    if (!lo->role->tiles_stay)
        lower_advance(lo, &lo->role->tiles, TILE_STAGES);
}

/* What the producer has broadcast; returns the word that says that there is no further tile. */
LirReg
lower_read_tile(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    LirOperand words[5], empty;
    LirReg same[3];

    for (uint32_t k = 0; k < 4; k++)
        words[k] = lir_reg(lir_new_reg(b, LIR_B32));
    words[4] = tile_stage(lo, TILE_INDEX_BYTES, 0);
    lir_emit(b, LIR_LD_SHARED_V4, 4, 5, words);
    for (uint32_t k = 0; k < lo->fn->grid.n; k++) {
        same[k] = lir_new_reg(b, LIR_B32);
        LirOperand from_first[] = {lir_reg(same[k]), words[k], lir_int(0)};
        lir_emit(b, LIR_SHFL_IDX, 1, 3, from_first);
    }
    empty = tile_stage(lo, MBARRIER_BYTES, TILE_EMPTY);
    lir_emit(b, LIR_MBARRIER_ARRIVE, 0, 1, &empty)->guard = lo->role->first_lane;
    if (!lo->role->tiles_stay)
        lower_advance(lo, &lo->role->tiles, TILE_STAGES);
    for (uint32_t k = 0; k < lo->fn->grid.n; k++)
        lower_set_place(lo, k, same[k]);
    return words[3].reg;
}

/* Waits for that. */
void
lower_await_tile(Lowering *lo)
{
    lower_wait_barrier(lo, tile_stage(lo, MBARRIER_BYTES, TILE_FULL), lo->role->tiles.phase);
}

/* Whether it is there, in a form that says that the warp stays together. */
LirReg
lower_is_told(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    LirReg there = lir_new_reg(b, LIR_PRED), agreed = lir_new_reg(b, LIR_PRED);
    LirOperand test[] = {lir_reg(there), tile_stage(lo, MBARRIER_BYTES, TILE_FULL),
                         lir_reg(lo->role->tiles.phase)};

    lir_emit(b, LIR_MBARRIER_TEST_WAIT, 1, 3, test);
    lir_emit(b, LIR_VOTE_ALL, 1, 2, (LirOperand[]){lir_reg(agreed), lir_reg(there)});
    return agreed;
}

/* Waits for it; returns the predicate that there is no further tile. */
LirReg
lower_hear_tile(Lowering *lo)
{
    LirBuilder *b = &lo->b;

    lower_await_tile(lo);
    LirReg word = lower_read_tile(lo);
    LirReg none = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(word), lir_int(0));
    LirReg agreed = lir_new_reg(b, LIR_PRED); /* a vote says that the warp stays together */
    LirOperand vote[] = {lir_reg(agreed), lir_reg(none)};
    lir_emit(b, LIR_VOTE_ANY, 1, 2, vote);
    return agreed;
}

static LirReg
counter_address(Lowering *lo)
{
    LirOperand at = {.kind = LIR_ADDRESS,
                     .symbol = arena_printf(lo->arena, "%s_tile_counter", lo->fn->name)};
    LirReg address = lir_op1(&lo->b, LIR_LD_PARAM_B64, LIR_B64, at);

    return lir_op1(&lo->b, LIR_CVTA_GLOBAL, LIR_B64, lir_reg(address));
}

/* Fetches the next number.  The counter does not count the first tiles, which blocks take by their own number. */
void
lower_fetch_tile(Lowering *lo, LirReg drawn)
{
    LirOperand add[] = {lir_reg(drawn), lir_address(counter_address(lo), 0), lir_int(1)};

    lir_emit(&lo->b, LIR_ATOM_ADD_U32, 1, 3, add);
}

/* The last block to end leaves the counter as it was: zero.  The second word counts blocks, and
 * wraps by itself. */
void
lower_clear_counter(Lowering *lo, LirReg blocks)
{
    LirBuilder *b = &lo->b;
    uint32_t end = lir_new_label(b);
    LirReg address = counter_address(lo), ended = lir_new_reg(b, LIR_B32);
    LirReg most = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(blocks), lir_int(-1));
    LirOperand count[] = {lir_reg(ended), lir_address(address, 4), lir_reg(most)};

    lir_emit(b, LIR_ATOM_INC_U32, 1, 3, count);
    LirReg others = lir_op2(b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(ended), lir_reg(most));
    lir_branch(b, end, others, false);
    LirOperand clear[] = {lir_reg(lir_new_reg(b, LIR_B32)), lir_address(address, 0), lir_int(0)};
    lir_emit(b, LIR_ATOM_EXCH_B32, 1, 3, clear);
    lir_label(b, end);
}

/* Pipelines over whose stages results leave go on when a tile ends: until then the stage is this tile's. */
void
lower_end_tile(Lowering *lo)
{
    for (uint32_t k = 0; k < lo->fn->shared.n && lower_computes(lo); k++) {
        if (lo->fn->shared.at[k]->release == RELEASE_NEXT_TILE)
            lower_advance(lo, &lo->role->pipelines[k], lo->fn->shared.at[k]->stages);
    }
}
