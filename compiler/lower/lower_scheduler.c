/* lower_scheduler.c - the dynamic tile scheduler: a counter in global memory, or cluster launch
 * control, and the pipeline through which the producer broadcasts the tile indices that it has
 * fetched.
 *
 *     counter   two words: how many tiles were fetched (each block's first tile is its own number
 *               and is not fetched), and how many blocks have ended
 *     pipeline  TILE_STAGES times three indices and a word that is 1 when there is no further tile;
 *               then the full and the empty barriers
 *
 * With cluster launch control there is no counter.  Each tile has a block in the launch; the
 * producer asks for one that has not begun, which then never does.  The answer is 16 bytes in
 * shared memory, and its arrival completes a barrier there:
 *
 *     tile_ask      expect 16 bytes; try_cancel               (of a pair: the first block, for both, as soon as the second one
 *     tile_answer   wait; read the answer: a number, or none   has read the last answer, which it says at a barrier of the first)
 *
 * Whoever is told that there is none does not ask again.
 *
 * Only the producer computes the indices: that takes many instructions, and it has little else to
 * do.
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

/* How many warps are told of a tile: of a pair whose products the first block issues, the second
 * block's mma role does not run. */
static LirOperand
count_readers(Lowering *lo)
{
    const TirPlan *plan = lo->fn->plan;
    uint32_t readers = tir_tile_readers(plan);

    if (!tir_multiplies_in_pairs(plan))
        return lir_int(readers);
    return lir_reg(
        lir_op2(&lo->b, LIR_SUB_S32, LIR_B32, lir_int(readers), lir_reg(lower_pair_rank(lo))));
}

void
lower_init_tile_barriers(Lowering *lo)
{
    const TirPlan *plan = lo->fn->plan;
    LirReg start = lower_shared_start(lo);

    if (!tir_is_dynamic(plan))
        return;
    LirOperand readers = count_readers(lo);
    for (uint32_t i = 0; i < 2 * TILE_STAGES; i++) {
        LirOperand init[] = {lir_address(start, plan->tiles.offset + TILE_FULL + MBARRIER_BYTES * i),
                             i < TILE_STAGES ? lir_int(1) : readers};
        lir_emit(&lo->b, LIR_MBARRIER_INIT, 0, 2, init);
    }
    uint32_t n = !tir_has_clc(plan) ? 0 : tir_is_clustered(plan) ? 2 : 1; /* answers */
    for (uint32_t at = CLC_FULL; at < CLC_FULL + n * MBARRIER_BYTES; at += MBARRIER_BYTES) {
        LirOperand init[] = {lir_address(start, plan->tiles.offset + at), lir_int(1)};
        lir_emit(&lo->b, LIR_MBARRIER_INIT, 0, 2, init);
    }
}

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
        lower_set_told_place(lo, k, same[k]);
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

/* ---- cluster launch control ---- */

static LirOperand
answer_part(Lowering *lo, LirReg start, uint32_t offset)
{
    return lir_address(start, lo->fn->plan->tiles.offset + offset);
}

/* Of a pair, whether this is the second block. */
static LirReg
is_second(Lowering *lo)
{
    return lir_op2(&lo->b, LIR_SETP_NE_S32, LIR_PRED, lir_reg(lower_pair_rank(lo)), lir_int(0));
}

/* The producer asks for the tile of a block that has not begun. */
void
lower_ask_tile(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    bool pair = tir_is_clustered(lo->fn->plan);
    LirReg start = lower_shared_start(lo);
    LirOperand full = answer_part(lo, start, CLC_FULL);
    uint32_t end = lir_new_label(b);

    lir_emit(b, LIR_MBARRIER_EXPECT_TX, 0, 2, (LirOperand[]){full, lir_int(CLC_ANSWER_BYTES)});
    if (pair)
        lir_branch(b, end, is_second(lo), false);
    lir_open(b, false);
    if (pair) {
        LirReg phase = lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(lo->role->answers.phase),
                               lir_int(1));
        lower_wait_for_other(lo, answer_part(lo, start, CLC_EMPTY), phase);
    }
    lir_emit(b, pair ? LIR_LAUNCH_TRY_CANCEL_BOTH : LIR_LAUNCH_TRY_CANCEL, 0, 2,
             (LirOperand[]){answer_part(lo, start, CLC_ANSWER), full});
    lir_close(b);
    if (pair)
        lir_label(b, end);
}

/* Waits for the answer: `tile` becomes the number of the tile, or -1.  That it has been read comes
 * before the next one, which the asynchronous proxy writes to the same place. */
void
lower_take_answer(Lowering *lo, LirReg tile)
{
    LirBuilder *b = &lo->b;
    LirReg start = lower_shared_start(lo), answer = lir_new_reg(b, LIR_B128),
           there = lir_new_reg(b, LIR_PRED);

    lower_wait_barrier(lo, answer_part(lo, start, CLC_FULL), lo->role->answers.phase);
    lir_emit(b, LIR_LD_SHARED_B128, 1, 2,
             (LirOperand[]){lir_reg(answer), answer_part(lo, start, CLC_ANSWER)});
    lir_emit(b, LIR_LAUNCH_IS_CANCELED, 1, 2, (LirOperand[]){lir_reg(there), lir_reg(answer)});
    lir_emit(b, LIR_MOV_B32, 1, 2, (LirOperand[]){lir_reg(tile), lir_int(-1)});
    lir_emit(b, LIR_LAUNCH_FIRST_X, 1, 2, (LirOperand[]){lir_reg(tile), lir_reg(answer)})->guard =
        there;
    lir_emit(b, LIR_FENCE_PROXY_ASYNC, 0, 0, NULL);
    if (tir_is_clustered(lo->fn->plan)) { /* blocks of a pair are neighbours; -1 stays */
        LirReg first = lir_op2(b, LIR_MAPA, LIR_B32, lir_reg(start), lir_int(0));
        LirReg says = lir_op2(b, LIR_AND_PRED, LIR_PRED, lir_reg(there), lir_reg(is_second(lo)));
        LirOperand empty = answer_part(lo, first, CLC_EMPTY);
        lir_emit(b, LIR_SHR_S32, 1, 3, (LirOperand[]){lir_reg(tile), lir_reg(tile), lir_int(1)});
        lir_emit(b, LIR_MBARRIER_ARRIVE_BOTH, 0, 1, &empty)->guard = says;
    }
    lower_advance(lo, &lo->role->answers, 1);
}

/* ---- the counter ---- */

static LirReg
counter_address(Lowering *lo)
{
    LirOperand at = {.kind = LIR_ADDRESS,
                     .symbol = arena_printf(lo->out->arena, "%s_tile_counter", lo->fn->name)};
    LirReg address = lir_op1(&lo->b, LIR_LD_PARAM_B64, LIR_B64, at);

    return lir_op1(&lo->b, LIR_CVTA_GLOBAL, LIR_B64, lir_reg(address));
}

/* Fetches the next number.  The counter does not count the first tiles, which blocks take by their
 * own number. */
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

/* Pipelines over whose stages results leave go on when a tile ends: till then it is this tile's. */
void
lower_end_tile(Lowering *lo)
{
    for (uint32_t k = 0; k < lo->fn->shared.n && lo->role->kind == ROLE_CONSUMER; k++) {
        if (lo->fn->shared.at[k]->held > 0)
            lower_advance(lo, &lo->role->pipelines[k], lo->fn->shared.at[k]->stages);
    }
}
