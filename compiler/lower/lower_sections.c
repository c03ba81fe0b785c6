/* lower_sections.c - the order of tiles of different lengths, from a counter (dynamic scheduler) or
 * a block each.
 *
 * The longest go first, in sections: some indices of the other axes side by side, as many as share
 * what the L2 cache holds, and one section after the other.  While the short tiles of one run, the
 * long ones of the next begin.  So only the last section ends unevenly, and the more so the fewer
 * tiles it has:
 *
 *     17 heads of 46 tiles, sections of 15   15 + 2: the long tiles of the last 2 begin when all others end
 *                                            17: what is left belongs to the last section
 *     8 heads of 15 tiles, sections of 2     an SM that has a long tile last, of each section: all end late
 *                                            8: a section has a tile for each SM, or nearly
 */
#include "compiler/lower/lower.h"

/* Tenths of the SMs that a section has tiles for (docs/lab/plans.md, "Sections of the order of
 * programs"); and from how many tiles of an index on.  Fewer differ little in length, as those of
 * few queries and many keys, and are better side by side, where they read the same keys at the same
 * time. */
enum { LEAST_TENTHS = 9, DOUBLINGS = 3, LEAST_TILES = 8 };

/* The largest power of two that is not above `n`. */
static LirReg
power_below(LirBuilder *b, LirReg n)
{
    for (int32_t by = 1; by < 32; by *= 2) { /* ones behind the first one */
        LirReg shifted = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(n), lir_int(by));
        n = lir_op2(b, LIR_OR_B32, LIR_B32, lir_reg(n), lir_reg(shifted));
    }
    LirReg half = lir_op2(b, LIR_SHR_U32, LIR_B32, lir_reg(n), lir_int(1));
    return lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(n), lir_reg(half));
}

/* Twice as many indices, again and again, while their tiles are fewer than SMs: blocks of two
 * sections run at once then, whatever the cache holds. */
static LirReg
enough_tiles(Lowering *lo, LirReg n, LirReg tiles)
{
    LirBuilder *b = &lo->b;
    int32_t least = lo->px->target->chip.sm_count * LEAST_TENTHS / 10;

    for (uint32_t k = 0; k < DOUBLINGS; k++) {
        LirReg have = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(n), lir_reg(tiles));
        LirReg few = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(have), lir_int(least));
        LirReg twice = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(n), lir_reg(n));
        n = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(twice), lir_reg(n), lir_reg(few));
    }
    return n;
}

/* Where there are several sections of a size that is no power of two, a division says where the
 * last one begins; with `few` tiles it is the rest alone. */
static LirReg
last_of(Lowering *lo, LirReg others, LirReg size, LirReg few, bool even)
{
    LirBuilder *b = &lo->b;
    LirReg whole;

    if (even) {
        LirReg mask = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_int(0), lir_reg(size));
        whole = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(others), lir_reg(mask));
    } else {
        LirReg quotient = others, left = lower_divide(lo, &quotient, size);
        whole = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(others), lir_reg(left));
    }
    LirReg last = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(whole), lir_reg(size));
    last = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(whole), lir_reg(last), lir_reg(few));
    return lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(last), lir_int(0));
}

/* Powers of two: where blocks draw no tiles, each of them asks, and a power of two costs no
 * division; and where only some programs are short, those of each section should come last. */
Sections
lower_sections(Lowering *lo, LirReg others, LirReg tiles, bool even)
{
    LirBuilder *b = &lo->b;
    LirReg each = lower_host(lo, lo->fn->plan->tiles.shared_bytes_each);
    LirReg some = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(each), lir_int(1));
    LirReg share = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(lo->px->target->chip.cache_share));
    LirReg n = lir_op2(b, LIR_DIV_U32, LIR_B32, lir_reg(share), lir_reg(some));
    n = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(n), lir_int(1));
    n = even ? power_below(b, n) : lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(n), lir_reg(others));
    LirReg few = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(tiles), lir_int(LEAST_TILES));
    LirReg enough = enough_tiles(lo, n, tiles);
    n = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(n), lir_reg(enough), lir_reg(few));
    LirReg size = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(n), lir_reg(others));
    size = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(size), lir_int(1));
    return (Sections){.size = size, .last = last_of(lo, others, even ? n : size, few, even)};
}

/* The indices of tile number `tile`: sections of the other axes one after the other; in each, all
 * of the axis of variable trips from its long end on, the section's indices side by side. */
void
lower_place_in_sections(Lowering *lo, LirReg tile, uint32_t variable, const LirReg counts[3],
                        LirReg others, const Sections *sections)
{
    LirBuilder *b = &lo->b;
    LirReg number = lower_copy_of(lo, tile);
    LirReg per_section = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(sections->size),
                                 lir_reg(counts[variable]));
    LirReg at = lir_op2(b, LIR_DIV_U32, LIR_B32, lir_reg(number), lir_reg(per_section));
    LirReg first = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(at), lir_reg(sections->size));
    first = lir_op2(b, LIR_MIN_S32, LIR_B32, lir_reg(first), lir_reg(sections->last));
    LirReg before = lir_op2(b, LIR_MUL_S32, LIR_B32, lir_reg(first), lir_reg(counts[variable]));
    LirReg rank = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(number), lir_reg(before));
    LirReg left = lir_op2(b, LIR_SUB_S32, LIR_B32, lir_reg(others), lir_reg(first));
    LirReg is_last = lir_op2(b, LIR_SETP_GE_S32, LIR_PRED, lir_reg(first), lir_reg(sections->last));
    LirReg width = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_reg(left), lir_reg(sections->size),
                           lir_reg(is_last));
    width = lir_op2(b, LIR_MAX_S32, LIR_B32, lir_reg(width),
                    lir_int(1)); /* past the end there is none */
    LirReg beside = lower_divide(lo, &rank, width);
    LirReg rest = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(first), lir_reg(beside));

    for (uint32_t k = 0; k < lo->fn->grid.n; k++) {
        uint32_t last = variable + 1 == lo->fn->grid.n ? lo->fn->grid.n - 2 : lo->fn->grid.n - 1;
        LirReg index = k == variable                     ? rank
                       : lo->fn->grid.n > 1 && k == last ? rest
                                                         : lower_divide(lo, &rest, counts[k]);
        lower_set_place(lo, k, lower_index_of_rank(lo, k, index, counts[k]));
    }
}
