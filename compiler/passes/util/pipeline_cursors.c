/* pipeline_cursors.c - pipelines that a role goes around together.
 *
 * A cursor is a stage and a phase, two registers that a role keeps from tile to tile.  Pipelines of
 * as many stages that are filled, or read, the same number of times between any two places of the
 * program have the same stage and phase at each of them.  Consumers with a looked-ahead product,
 * and their producer, are short of registers: there one cursor serves such pipelines.
 */
#include "compiler/passes/util/pipeline_cursors.h"

/* The place, counted from 1, of the only operation of a kind with `pipeline` that is in no loop or
 * branch; 0: there is not exactly one. */
static uint32_t
only_place(const TirBlock *body, TirOpcode op, const TirShared *pipeline)
{
    uint32_t n = 0, at = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        if (body->ops.at[i]->op != op || body->ops.at[i]->shared != pipeline)
            continue;
        n++;
        at = i + 1;
    }
    return n == 1 ? at : 0;
}

/* Whether the producer fills both pipelines wherever it fills one, once a block and with no loop or
 * branch between, `pipeline` before `other`. */
static bool
filled_together(const TirFn *fn, const TirBlock *block, const TirShared *pipeline,
                const TirShared *other)
{
    uint32_t n[2] = {0, 0}, last[2] = {0, 0}, owners = 0, inside = 0;
    bool together;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        owners += op->n_blocks > 0 && n[0] + n[1] > 0;
        if (op->op != TIR_TMA_LOAD || (op->shared != pipeline && op->shared != other))
            continue;
        n[op->shared == other]++;
        last[op->shared == other] = i;
        inside = owners;
    }
    together = (n[0] == 0 && n[1] == 0) ||
               (n[0] == tir_parts(fn->plan, pipeline) && n[1] == tir_parts(fn->plan, other) &&
                last[0] < last[1] && inside == 0);
    for (uint32_t i = 0; i < block->ops.n && together; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks && together; k++)
            together = filled_together(fn, op->blocks[k], pipeline, other);
    }
    return together;
}

/* The last pipeline that the producer fills together with `pipeline`: one cursor is enough for
 * those.  One that draws tiles, where consumers can spare no register, has few. */
static const TirShared *
pipeline_to_fill_with(const TirFn *fn, const TirShared *pipeline)
{
    const TirShared *found = NULL;

    for (uint32_t k = 0; k < fn->shared.n && tir_is_dynamic(fn->plan) && tir_has_lookahead(fn);
         k++) {
        const TirShared *other = fn->shared.at[k];
        const TirShared *before = found == NULL ? pipeline : found;
        if (tir_is_pipeline(other) && other != pipeline && other != found &&
            other->stages == pipeline->stages &&
            filled_together(fn, tir_program(fn->plan, ROLE_PRODUCER), before, other))
            found = other;
    }
    return found;
}

/* Pipelines that are filled once for a tile and have as many stages go around together: one cursor
 * is enough, that of the pipeline given back last, and consumers that keep it from tile to tile are
 * short of registers.  (What is waited for once in a tile, and given back once, is so in no loop:
 * pass check-roles.) */
static const TirShared *
pipeline_to_follow(const TirFn *fn, const TirShared *pipeline)
{
    const TirBlock *body = fn->body;
    uint32_t first = only_place(body, TIR_CONSUMER_WAIT, pipeline);
    uint32_t own = only_place(body, TIR_CONSUMER_RELEASE, pipeline), last = own;
    const TirShared *found = NULL;

    if (!tir_is_persistent(fn->plan) || !tir_has_lookahead(fn) || first == 0 || own < first)
        return NULL;
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *other = fn->shared.at[k];
        uint32_t begins = only_place(body, TIR_CONSUMER_WAIT, other);
        uint32_t ends = only_place(body, TIR_CONSUMER_RELEASE, other);
        if (!tir_is_pipeline(other) || other->lag > 0 || other->stages != pipeline->stages ||
            begins == 0 || begins > own || ends <= last || pipeline_to_follow(fn, other) != NULL)
            continue;
        last = ends;
        found = other;
    }
    return found;
}

/* Whether a pipeline goes around with that of tile numbers, which then waits for the end of a
 * tile. */
static bool
follows_tiles(const TirFn *fn, bool producer, const TirShared *pipeline)
{
    const TirPlan *plan = fn->plan;
    const TirBlock *body = fn->body;
    bool once = false;

    if (!tir_is_dynamic(plan) || plan->tiles.alternating || !tir_has_lookahead(fn) ||
        pipeline->lag + pipeline->held > 0 || pipeline->stages != TILE_STAGES)
        return false;
    if (!producer)
        return only_place(body, TIR_CONSUMER_WAIT, pipeline) != 0 &&
               only_place(body, TIR_CONSUMER_RELEASE, pipeline) >
                   only_place(body, TIR_CONSUMER_WAIT, pipeline);
    for (uint32_t i = 0; i < tir_program(plan, ROLE_PRODUCER)->ops.n; i++) {
        const TirOp *op = tir_program(plan, ROLE_PRODUCER)->ops.at[i];
        once = once || (op->op == TIR_TMA_LOAD && op->shared == pipeline);
    }
    return once;
}

CursorLeader *
pipeline_cursors(const TirFn *fn, bool producer)
{
    CursorLeader *leaders = arena_array(fn->arena, CursorLeader, fn->shared.n + 1);

    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *pipeline = fn->shared.at[k], *other = NULL;
        if (!tir_is_pipeline(pipeline))
            continue;
        if (producer)
            other = pipeline_to_fill_with(fn, pipeline);
        else if (pipeline->lag == 0)
            other = pipeline_to_follow(fn, pipeline);
        leaders[k].pipeline = other;
        leaders[k].tiles = follows_tiles(fn, producer, other == NULL ? pipeline : other);
    }
    return leaders;
}
