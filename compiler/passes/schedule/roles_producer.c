/* roles_producer.c - the warp that fills the pipelines, for all consumers of a block.
 *
 * It goes through the iterations that some consumer of the block has.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* Whether what is loaded once for a tile is loaded behind the first tiles of the loop: their stages
 * are free sooner than its only one. */
static bool
once_behind(const Roles *r)
{
    bool behind = r->pipelined && r->around.n == 0;

    for (uint32_t k = 0; k < r->once.n; k++)
        behind = behind && r->once.at[k]->shared->stages == 1;
    return behind;
}

/* Steps that fill these pipelines. */
static void
add_fills(Roles *r, StepList *steps, const OpList *pipelines, int8_t stage, StepParts parts)
{
    for (uint32_t k = 0; k < pipelines->n; k++)
        roles_add_step(r, steps, STEP_FILL, pipelines->at[k], stage)->parts = parts;
}

/* Fills the pipelines of what is loaded once for a tile; what only the main loop reads where that
 * has an iteration. */
static void
fill_once(Roles *r)
{
    CloneMap none = clone_map(r->fn);
    TirVal *runs = NULL;

    for (uint32_t k = 0; k < r->once.n; k++) {
        bool in_loop = roles_is_for_loop(r, r->once.at[k]);
        if (in_loop && runs == NULL) {
            Range range = roles_range_of_all(r, r->loop, r->block_index);
            runs = tir_binary(&r->b, TIR_LT, range.lo, range.hi);
        }
        roles_fill(r, &none, r->once.at[k], in_loop ? runs : NULL);
    }
}

/* The main loop, of two stages if it is pipelined. */
static void
fill_loop(Roles *r, TirVal *block_index)
{
    Range range = roles_range_of_all(r, r->loop, block_index);
    Staged staged = {.bare = true};
    CloneMap map = clone_map(r->fn);

    range = roles_numbers(r, range, range);
    r->staggered = roles_stagger(r, block_index, range);
    add_fills(r, &staged.steps, &r->stage0_pipelines, 0, STEP_EVERYWHERE);
    if (!r->pipelined) {
        add_fills(r, &staged.steps, &r->stage1_pipelines, 0, STEP_EVERYWHERE);
        roles_emit_staged(r, &map, range, &staged, NULL);
        return;
    }
    staged.later = arena_array(r->fn->arena, bool, r->fn->next_id + 1);
    if (once_behind(r))
        add_fills(r, &staged.steps, &r->once, 0, STEP_HEAD | STEP_NONE);
    add_fills(r, &staged.steps, &r->stage1_pipelines, 1, STEP_EVERYWHERE);
    roles_emit_if_any(r, &map, range, &staged, NULL);
}

void
roles_make_producer(Roles *r)
{
    TirBlock *root = roles_begin_program(r);

    r->block_index = roles_read_block(r);
    if (r->block_index != NULL)
        r->extent = clone_host(&r->b, tir_consumer_axis(r->fn)->extent);
    if (!once_behind(r))
        fill_once(r);
    r->b.span = r->loop->span;
    roles_write_nest(r, r->block_index, fill_loop);
    tir_role(r->fn->plan, ROLE_PRODUCER)->program = root;
}

/* An iteration of few bytes in many boxes: one warp takes longer to ask for them than memory to
 * bring them.  Then the pipelines are shared out among the warps of the producer's warp group,
 * which have nothing else to do.  (A scheduler that fetches tiles, a pair of blocks, and roles in
 * those warps are for one producer.)
 *
 * Each of them keeps the order of the one producer among its own pipelines, and waits for less.  So
 * where the roles come to their end with one producer (check_roles.c), they do with several. */
void
roles_share_producer(Roles *r)
{
    const TirPlan *plan = r->fn->plan;
    const OpList *lists[] = {&r->stage0_pipelines, &r->stage1_pipelines};
    double asking = 0, bytes = 0;
    uint32_t n = 0;

    for (uint32_t j = 0; j < 2; j++) {
        for (uint32_t k = 0; k < lists[j]->n; k++, n++) {
            const TirShared *shared = lists[j]->at[k]->shared;
            double each = (double)shared->rows * shared->cols * dtype_bits(shared->dtype) / 8;
            asking += plan_asking_clocks(r->px->target, lists[j]->at[k], tir_consumers(plan));
            bytes += shared->each ? each * tir_consumers(plan) : each;
        }
    }
    if (n < 2 || asking * r->px->target->chip.memory_bytes <= bytes || tir_is_dynamic(plan) ||
        tir_is_clustered(plan) || tir_program(plan, ROLE_REDUCE) != NULL || r->mmas != BY_CONSUMERS)
        return;
    tir_role(plan, ROLE_PRODUCER)->instances = n < GROUP_WARPS ? n : GROUP_WARPS;
}
