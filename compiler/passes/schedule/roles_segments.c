/* roles_segments.c - segments of the main loop for consumers that go in step.
 *
 * A loop is parted where masks begin or end to be live (split-loops), and each consumer has its own
 * places for that.  Consumers that meet in every iteration wait for the one with the most to do, so
 * that masks which only one of them needs cost nothing in the others: all take the places between
 * which the masks of every consumer are live.  They then run the same instructions, and come to
 * their barrier at the same one.  (The machine asks that of the threads of a warp alone;
 * compute-sanitizer's synccheck asks it of all that a barrier waits for.)
 *
 * Segments are parts of one loop until the lowering, unless they differ in more than masks: then
 * each becomes a loop of its own here, for what roles_segment says.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

enum { MOST_SEGMENTS = 3 };

/* Whether segment `a` has no mask that is not live in segment `b`, too. */
static bool
is_within(const TirBlock *block, uint32_t a, uint32_t b)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        uint32_t segments = walk.op->segments;
        if (tir_is_mask(walk.op) && (segments >> a & 1) != 0 && (segments >> b & 1) == 0)
            return false;
    }
    return true;
}

/* Lets masks of the last segment live in the first, too. */
static void
widen(TirBlock *block, uint32_t last)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (tir_is_mask(walk.op))
            walk.op->segments |= walk.op->segments >> last & 1;
    }
}

/* Place `k` between segments, where the first (TIR_MIN) or the last (TIR_MAX) consumer has it. */
static TirVal *
extreme_place(Roles *r, TirVal *block_index, uint32_t k, TirOpcode which)
{
    TirVal *place = NULL;

    for (uint32_t w = 0; w < tir_consumers(r->fn->plan); w++) {
        CloneMap map = roles_consumer_map(r, roles_consumer_index(r, block_index, w));
        TirVal *one = clone_scalar_tree(&r->b, &map, r->loop->args[2 + k]);
        if (one == NULL)
            return NULL;
        place = place == NULL ? one : tir_binary(&r->b, which, place, one);
    }
    return place;
}

void
roles_share_segments(Roles *r, CloneMap *map, TirVal *own)
{
    uint32_t n = r->loop->n_segments;
    TirVal *place[MOST_SEGMENTS] = {NULL};
    bool down = n == 2 && is_within(r->body, 1, 0), falls = is_within(r->body, 2, 0);

    if (n < 2 || n > MOST_SEGMENTS || (n == 2 && !down && !is_within(r->body, 0, 1)))
        return;
    if (n == 3 && (!is_within(r->body, 1, 0) || !is_within(r->body, 1, 2)))
        return;
    if (n == 3 && !falls && !is_within(r->body, 0, 2)) {
        /* one consumer's masks of the first segment, another's of the last */
        widen(r->body, 2);
        falls = true;
    }
    TirVal *block_index = roles_block_index(r, own);
    for (uint32_t k = 0; k + 1 < n; k++) {
        place[k] = extreme_place(r, block_index, k, k == 0 && (n == 3 || down) ? TIR_MAX : TIR_MIN);
        if (place[k] == NULL)
            return;
    }
    /* Of three, the middle one has the fewest masks.  It may be empty: then the outer one with more
     * masks takes what both want. */
    if (n == 3 && falls)
        place[1] = tir_binary(&r->b, TIR_MAX, place[0], place[1]);
    else if (n == 3)
        place[0] = tir_binary(&r->b, TIR_MIN, place[0], place[1]);
    for (uint32_t k = 0; k + 1 < n; k++)
        clone_set(map, r->loop->args[2 + k], place[k]);
}

Range
roles_segment(Roles *r, const CloneMap *map, Range all, uint32_t k, TirVal *from)
{
    Range part = {from, all.hi, all.base};

    if (k + 1 == r->loop->n_segments)
        return part;
    TirVal *place = clone_of(map, r->loop->args[2 + k]);
    /* it may lie before the segment, or behind the last iteration */
    part.hi = tir_binary(&r->b, TIR_MIN, tir_binary(&r->b, TIR_MAX, place, from), all.hi);
    return part;
}
