/* tir_verify_roles.c - the invariants of the programs of the reduce role and the correction role:
 * which operations they have, and in which order.
 */
#include "compiler/ir/tir_verifier.h"

#include "compiler/ir/isa.h"
#include "compiler/ir/tir_walk.h"

#include <inttypes.h>

bool
tir_is_scalar_op(const TirOp *op)
{
    bool scalar = true;

    for (uint32_t k = 0; k < op->n_args; k++)
        scalar = scalar && op->args[k]->type.rank == 0;
    for (uint32_t k = 0; k < op->n_results; k++)
        scalar = scalar && op->results[k]->type.rank == 0;
    return scalar;
}

bool
tir_is_of_any_role(const TirOp *op)
{
    bool control = op->op == TIR_FOR || op->op == TIR_IF || op->op == TIR_YIELD;

    return control || tir_is_tile_op(op->op) || (tir_op_info(op->op)->flags & TF_PURE) != 0 ||
           (op->op == TIR_LOAD && op->tensor->mode == TENSOR_IN);
}

static bool
is_integer(const TirVal *value, int64_t integer)
{
    return value->def != NULL && value->def->op == TIR_CONST && value->def->integer == integer;
}

/* Whether it is the block's index along the plan's axis: read, or times or over its consumer. */
static bool
is_own_index(const TirFn *fn, const TirVal *value)
{
    const TirOp *def = value->def;

    while (def != NULL && (def->op == TIR_MUL || def->op == TIR_DIV) && is_integer(def->args[1], 1))
        def = def->args[0]->def;
    return def != NULL && def->op == TIR_GRID && def->integer == (int64_t)fn->plan->tiles.axis;
}

/* Whether `value` is the block's number in the pair times `by`. */
static bool
is_rank_times(const TirFn *fn, const TirVal *value, int64_t by)
{
    const TirOp *mul = value->def;
    const TirOp *rank = mul != NULL && mul->op == TIR_MUL ? mul->args[0]->def : NULL;

    return rank != NULL && rank->op == TIR_REM && is_own_index(fn, rank->args[0]) &&
           is_integer(rank->args[1], 2) && is_integer(mul->args[1], by);
}

/* Whether an addition is of this block's half of what a pair adds up, or of the columns before;
 * `at`: the operand that is the first column. */
static bool
adds_part(const TirFn *fn, const TirOp *add, uint32_t *at)
{
    const TirOp *part = add->args[add->n_args - 1]->def;
    TirDims last = tir_last_dim(add);
    bool of_pair = part != NULL && (part->op == TIR_PAIR_SUM || part->op == TIR_PAIR_SEND);

    if (!of_pair || !last.range || last.index->rows > 0)
        return false;
    *at = last.arg;
    const TirVal *first = last.at;
    int32_t before = part->args[0]->type.dim[1] - 2 * part->shared->cols;
    if (part->op == TIR_PAIR_SEND)
        return is_integer(first, 0);
    if (before == 0)
        return is_rank_times(fn, first, last.length);
    return first->def != NULL && first->def->op == TIR_ADD &&
           is_integer(first->def->args[1], before) &&
           is_rank_times(fn, first->def->args[0], last.length);
}

/* The blocks of a pair add to the same places, each its half of the columns: nothing else tells one
 * from the other.  `apart`: by value, whether it may differ.  (Which pair it is, a block's index
 * over 2, both have in common.) */
static void
check_pair_adds(Verifier *v, const TirBlock *block, bool *apart)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        bool own = op->op == TIR_GRID && op->integer == (int64_t)v->fn->plan->tiles.axis;
        uint32_t at = UINT32_MAX;
        if (op->op == TIR_ATOMIC_ADD && !adds_part(v->fn, op, &at))
            tir_fault(v, op, "is of no part of what a pair adds up");
        for (uint32_t k = 0; k < op->n_args; k++)
            own = own || (apart[op->args[k]->id] && k != at);
        if (op->op == TIR_DIV && is_integer(op->args[1], 2) && is_own_index(v->fn, op->args[0]))
            own = false;
        if (own && (op->n_results != 1 || op->n_blocks > 0))
            tir_fault(v, op, "tells the blocks of a pair apart, which add to the same places");
        for (uint32_t k = 0; k < op->n_results; k++)
            apart[op->results[k]->id] = own;
    }
}

/* A reduce role of whole warp groups: in each block a result is waited for and read, then released
 * and added to memory, in either order.  Those of a pair of blocks add both results up before. */
static void
check_adders(Verifier *v, const TirBlock *block)
{
    const TirOp *held = NULL, *read = NULL, *added = NULL; /* of a result that is not through */
    const TirOp *sent = NULL, *rest = NULL, *sum = NULL;   /* in pairs */
    bool pairs = tir_adds_in_pairs(v->fn->plan);

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool of_pair = op->op == TIR_PAIR_SEND || op->op == TIR_PAIR_SUM,
             own = op->op == TIR_CONSUMER_WAIT || op->op == TIR_CONSUMER_RELEASE ||
                   op->op == TIR_TMEM_READ || op->op == TIR_TRANSPOSE || op->op == TIR_ATOMIC_ADD ||
                   (of_pair && pairs);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            check_adders(v, op->blocks[k]);
        if (op->op == TIR_TRANSPOSE)
            own = own && op->args[0]->def == read;
        if (!own && (!tir_is_scalar_op(op) || !tir_is_of_any_role(op)))
            tir_fault(v, op, "is nothing that the reduce role does");
        if (op->shared != NULL && op->shared->to != ROLE_REDUCE && !of_pair)
            tir_fault(v, op, "is about what the reduce role does not read");
        bool in_turn = op->op == TIR_CONSUMER_WAIT ? held == NULL && read == NULL
                       : op->op == TIR_TMEM_READ
                           ? held != NULL && read == NULL && op->sliced == pairs
                       : op->op == TIR_PAIR_SEND
                           ? read != NULL && sent == NULL && op->args[0]->def == read
                       : op->op == TIR_PAIR_SUM
                           ? sent != NULL && sum == NULL && op->args[0] == sent->args[0] &&
                                 op->shared == sent->shared
                       : op->op == TIR_ATOMIC_ADD
                           ? read != NULL && added == NULL &&
                                 (rest == NULL || op->args[op->n_args - 1]->def != sent)
                       : op->op == TIR_CONSUMER_RELEASE ? held != NULL && read != NULL
                                                        : op->n_blocks == 0 || held == NULL;
        if (!in_turn ||
            (held != NULL && op->shared != NULL && op->shared != held->shared && !of_pair))
            tir_fault(v, op, "a result is not waited for, read, then added and released");
        held = op->op == TIR_CONSUMER_WAIT ? op : op->op == TIR_CONSUMER_RELEASE ? NULL : held;
        read = op->op == TIR_TMEM_READ ? op : read;
        sent = op->op == TIR_PAIR_SEND ? op : sent;
        sum = op->op == TIR_PAIR_SUM ? op : sum;
        if (op->op == TIR_ATOMIC_ADD) {
            const TirOp *value = op->args[op->n_args - 1]->def;
            rest = rest == NULL && sent != NULL && value == sent ? op : rest;
            added = !pairs || value == sum ? op : added;
        }
        bool whole = sent == NULL || sent->n_results == 0 || rest != NULL; /* all columns */
        if (held == NULL && added != NULL && whole)
            read = added = sent = rest = sum = NULL;
    }
    if (held != NULL || read != NULL)
        tir_fault(v, held != NULL ? held : read,
                  "a result is not added and released in the block in which it is waited for");
}

/* In each block a buffer is said to be empty, then added from, one after the other. */
static void
check_reduce_warp(Verifier *v, const TirBlock *block)
{
    const TirShared *empty = NULL;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool adds = op->op == TIR_TMA_REDUCE_ADD;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            check_reduce_warp(v, op->blocks[k]);
        if (!tir_is_scalar_op(op) ||
            (!adds && op->op != TIR_STAGING_EMPTY && !tir_is_of_any_role(op)))
            tir_fault(v, op, "is nothing that the reduce role does");
        if (empty != NULL &&
            (op->n_blocks > 0 || op->op == TIR_STAGING_EMPTY || op->op == TIR_YIELD))
            tir_fault(v, op, "stands between a buffer that is empty and the addition from it");
        if (adds && op->shared != empty)
            tir_fault(v, op, "adds from a buffer that was not said to be empty");
        empty = op->op == TIR_STAGING_EMPTY ? op->shared : adds ? NULL : empty;
    }
    if (empty != NULL)
        tir_fault(v, NULL, "the reduce role ends with an empty buffer");
}

void
tir_check_reduce(Verifier *v, const TirBlock *program)
{
    if (tir_adding_warps(v->fn->plan) > 0)
        check_adders(v, program);
    if (tir_adds_in_pairs(v->fn->plan))
        check_pair_adds(v, program, arena_array(v->fn->arena, bool, v->fn->next_id + 1));
    if (tir_adding_warps(v->fn->plan) == 0)
        check_reduce_warp(v, program);
}

/* Whether the correction role may do that to a buffer. */
static bool
is_corrected(const TirOp *op)
{
    const TirShared *shared = op->shared;
    bool sum = shared->kind == SHARED_TMEM && shared->carried;

    switch (op->op) {
    case TIR_CONSUMER_WAIT: return sum || tir_is_handed(shared);
    case TIR_CONSUMER_RELEASE:
    case TIR_SHARED_READ: return tir_is_handed(shared);
    case TIR_TMEM_READ:
    case TIR_TMEM_WRITE: return sum;
    case TIR_PRODUCER_COMMIT: return shared->from == ROLE_CORRECTION;
    default: return tir_exchanges(op);
    }
}

void
tir_check_correction(Verifier *v, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        bool own = op->shared != NULL
                       ? is_corrected(op)
                       : op->op == TIR_STORE || op->op == TIR_LOAD || tir_is_of_any_role(op);
        if (!own || op->op == TIR_MMA)
            tir_fault(v, op, "is nothing that the correction role does");
        if (op->shared != NULL && tir_is_pipeline(op->shared) &&
            (op->integer < 0 || op->integer >= (int64_t)tir_consumers(v->fn->plan)))
            tir_fault(v, op, "is for consumer %" PRId64 " of %" PRIu32, op->integer,
                      tir_consumers(v->fn->plan));
    }
}
