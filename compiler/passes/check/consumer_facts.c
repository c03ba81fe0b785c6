/* consumer_facts.c - part of pass `check-roles`: what is the same in all runs of the consumer's program. */
#include "compiler/passes/check/consumer_facts.h"

#include "compiler/ir/layout.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/acc_classes.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/votes.h"

static bool
is_inside(const TirVal *value, const TirOp *region)
{
    for (const TirBlock *at = value->block; at != NULL;
         at = at->owner == NULL ? NULL : at->owner->parent) {
        if (at->owner == region)
            return true;
    }
    return false;
}

static void
find_inputs(ConsumerFacts *f, Region *region)
{
    for (TirReads reads = tir_reads(region->op); tir_reads_next(&reads);) {
        TirVal *value = reads.value;
        bool known = value->type.rank == 0 || f->acc_class[value->id] != 0 || value->def == NULL ||
                     reads.op == region->op || is_inside(value, region->op);
        for (uint32_t j = 0; j < region->inputs.n && !known; j++)
            known = region->inputs.at[j] == value;
        if (!known)
            vec_push(f->arena, &region->inputs, value);
    }
}

static bool
is_renaming(const ConsumerFacts *f, const TirOp *op)
{
    switch (op->op) {
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_BROADCAST:
    case TIR_TRANSPOSE:
    case TIR_PART:
    case TIR_OWN:
    case TIR_FROM:
    case TIR_MASK:
    case TIR_BOUNDS_MASK:
    case TIR_SELECT: return true;
    case TIR_CAST: return op->args[0]->type.dtype == op->results[0]->type.dtype;
    case TIR_CONVERT: {
        const Layout *from = op->args[0]->layout, *to = op->results[0]->layout;
        bool transposed;
        return op->shared == NULL && view_source(op->args[0], &transposed) == NULL &&
               (from == NULL || to == NULL || layout_register_map(f->arena, from, to) != NULL);
    }
    default: return tir_axis_use(op) == AXIS_REDUCES && vote_makes_rows(f->fn, op);
    }
}

static void
find_facts(ConsumerFacts *f, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->n_results == 1)
            f->renames[op->results[0]->id] = is_renaming(f, op) && !f->at_once[op->results[0]->id];
        if (op->n_blocks == 0)
            continue;
        Region region = {.op = op};
        find_inputs(f, &region);
        vec_push(f->arena, &f->regions, region);
    }
}

ConsumerFacts *
consumer_facts(Arena *arena, const TirFn *fn)
{
    ConsumerFacts *f = arena_new(arena, ConsumerFacts);
    MmaAccClasses acc_classes = mma_acc_classes(arena, fn);

    *f = (ConsumerFacts){.arena = arena,
                         .fn = fn,
                         .acc_class = acc_classes.of,
                         .at_once = acc_classes.at_once,
                         .renames = arena_array(arena, bool, fn->next_id + 1)};
    for (uint32_t k = 0; k <= fn->next_id; k++)
        f->acc_classes = f->acc_class[k] > f->acc_classes ? f->acc_class[k] : f->acc_classes;
    find_facts(f, fn->body);
    return f;
}
