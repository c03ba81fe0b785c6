/* roles_correction.c - the correction role: a warp group that has the consumers' sums in tensor
 * memory.
 *
 * A consumer hands it, in each iteration, a vector of factors for the rows of its sum, and goes on;
 * behind the loop likewise the vectors that results are made of, beside the sum (plan_correction.c
 * says which loops are like that):
 *
 *     consumer      for ..  { ..  shared_write factors; producer_commit factors  .. }   shared_write, producer_commit others
 *     correction    write what the sums begin with
 *                   for ..  { for each consumer: consumer_wait factors; if any is not 1: read the
 *                   sum, multiply, write it;
 *                             producer_commit ready }
 *                   for each consumer: wait for the sum and the vectors; make results and store
 *                   them
 *     mma           a product adds to the sum when its operand has been handed on, and `ready`
 *
 * Factors have no token of emptiness: that the scores of the next iteration are there says that the
 * product before them was issued, and that the factors of its iteration have been used.  (Pass
 * check-roles proves it.)  The vectors behind the loop have one, since a tile may have no
 * iteration.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

typedef struct Handed {
    TirVal *value;
    TirShared *buffer;
} Handed;

struct Correction {
    TirShared *factors, *ready;
    CorrectionParts parts;
    VEC(Handed) vectors; /* behind the loop */
    uint32_t carried;    /* the loop's result that is the sum */
};

static TirShared *
new_vector(Roles *r, const char *name)
{
    return roles_new_channel(r, name, tir_tile2(DT_F32, 1, TMEM_LANES), SHARED_VECTORS,
                             ROLE_CONSUMER, ROLE_CORRECTION);
}

/* Lists what of a value that results are made of a consumer hands over. */
static void
list_handed(Roles *r, TirVal *value)
{
    struct Correction *c = r->correction;
    bool known = value->def == NULL || c->parts.of_sum[value->id];

    for (uint32_t k = 0; k < c->vectors.n; k++)
        known = known || c->vectors.at[k].value == value;
    if (known)
        return;
    if (plan_is_handed_over(&c->parts, value)) {
        Handed handed = {value, new_vector(r, value->name)};
        vec_push(r->fn->arena, &c->vectors, handed);
        return;
    }
    for (uint32_t k = 0; k < value->def->n_args; k++)
        list_handed(r, value->def->args[k]);
}

/* Finds the operations behind the loop, from `*i` on, that are the correction role's; false behind
 * the last one. */
static bool
next_corrected(const Roles *r, uint32_t *i, TirOp **op)
{
    bool found = false;

    for (; *i < r->old->ops.n && !found; ++*i) {
        *op = r->old->ops.at[*i];
        found = plan_is_corrected(&r->correction->parts, *op);
    }
    return found;
}

void
roles_begin_correction(Roles *r, TirShared *sum, uint32_t carried)
{
    struct Correction *c = arena_new(r->fn->arena, struct Correction);
    TirOp *op;

    c->carried = carried;
    c->parts = plan_correction_parts(r->fn->arena, r->fn, r->loop, c->carried);
    c->ready = roles_new_channel(r, "ready", tir_tile2(sum->dtype, sum->rows, sum->cols),
                                 SHARED_TMEM, ROLE_CORRECTION, ROLE_MMA);
    sum->to = ROLE_CORRECTION;
    c->ready->over = sum;
    c->factors = new_vector(r, "factors");
    r->correction = c;
    for (uint32_t i = 0; next_corrected(r, &i, &op);) {
        for (uint32_t k = 0; k < op->n_args; k++)
            list_handed(r, op->args[k]);
    }
}

TirShared *
roles_ready_sum(const Roles *r)
{
    return r->correction->ready;
}

/* ---- what a consumer hands over ---- */

static void
hand_over(Roles *r, TirShared *buffer, TirVal *vector)
{
    roles_write(&r->b, buffer, vector);
    roles_plain(&r->b, TIR_PRODUCER_COMMIT, buffer, 0);
}

void
roles_hand_factors(Roles *r, CloneMap *map, const TirOp *change, uint32_t k)
{
    TirBuilder *b = &r->b;
    TirType vector = tir_tile1(DT_F32, TMEM_LANES);
    TirVal *one = tir_splat_const(b, vector, 1);
    TirVal *sum = tir_splat_const(b, r->loop->results[r->correction->carried]->type, 0);

    clone_set(map, r->body->params.at[r->correction->carried + 1], sum);
    roles_copy(r, map, change, false);
    TirOp *copy = b->block->ops.at[b->block->ops.n - 1];
    TirVal *factors = copy->results[k];
    for (uint32_t side = 0; copy->op == TIR_IF && side < 2; side++) {
        TirOp *yield = block_yield(copy->blocks[side]);
        TirVal *of_rows = yield->args[k] == sum ? one : plan_row_factor(yield->args[k], sum);
        yield->args[k] = of_rows;
    }
    if (copy->op == TIR_IF)
        factors->type = vector;
    else
        factors = plan_row_factor(factors, sum);
    hand_over(r, r->correction->factors, factors);
}

/* Makes a value of what stands behind the loop, unless it is known, and what it is made of. */
static TirVal *
make_again(Roles *r, CloneMap *map, TirVal *value)
{
    if (map->to[value->id] != NULL || value->def == NULL)
        return clone_of(map, value);
    for (uint32_t k = 0; k < value->def->n_args; k++)
        make_again(r, map, value->def->args[k]);
    r->b.span = value->def->span;
    clone_op(&r->b, map, value->def);
    return clone_of(map, value);
}

void
roles_hand_results(Roles *r, CloneMap *map)
{
    const struct Correction *c = r->correction;

    for (uint32_t k = 0; c != NULL && k < c->vectors.n; k++) {
        TirVal *vector = make_again(r, map, c->vectors.at[k].value);
        roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, c->vectors.at[k].buffer, 0);
        hand_over(r, c->vectors.at[k].buffer, vector);
    }
}

bool
roles_is_corrected(const Roles *r, const CloneMap *map, const TirOp *op)
{
    if (r->correction == NULL)
        return false;
    bool made = op->n_results == 1 && op->n_blocks == 0 && map->to[op->results[0]->id] != NULL;
    return made || plan_is_corrected(&r->correction->parts, op);
}

/* ---- the role's own program ---- */

static void
on_sum(Roles *r, TirOpcode opcode, TirShared *sum, uint32_t w, TirVal *value)
{
    TirOp *op = tir_op_new(&r->b, opcode, 1, &value, 0, NULL);

    op->shared = sum;
    op->integer = w;
}

static TirVal *
take_vector(Roles *r, TirShared *buffer, uint32_t w)
{
    roles_plain(&r->b, TIR_CONSUMER_WAIT, buffer, w);
    TirOp *read = roles_read(&r->b, buffer, tir_tile1(DT_F32, TMEM_LANES), NULL);
    read->integer = w;
    return read->results[0];
}

/* Where some factor of a warp's rows is not 1 it multiplies them. */
static void
scale_sum(Roles *r, TirShared *sum, uint32_t w)
{
    TirBuilder *b = &r->b;
    TirType type = tir_tile2(sum->dtype, sum->rows, sum->cols);
    TirVal *factors = take_vector(r, r->correction->factors, w);
    TirVal *column = tir_expand(b, factors, 1);
    TirVal *changes = tir_binary(b, TIR_NE, column, tir_splat_const(b, column->type, 1));
    TirVal *some = tir_reduce(b, REDUCE_ANY, tir_reduce(b, REDUCE_ANY, changes, 1), 0);
    TirOp *branch = roles_begin_if(b, some);

    branch->by_rows = true;
    TirVal *wide = tir_broadcast_to(b, column, &type);
    on_sum(r, TIR_TMEM_WRITE, sum, w, tir_binary(b, TIR_MUL, roles_read_tmem(&r->b, sum, w), wide));
    roles_end(b, branch);
    roles_plain(b, TIR_PRODUCER_COMMIT, r->correction->ready, w);
}

static void
scale_loop(Roles *r, TirShared *sum, const Range *own, Range all)
{
    TirBuilder *b = &r->b;
    TirOp *loop = roles_begin_for(b, all.lo, all.hi, r->loop->span);
    TirVal *number = loop->blocks[0]->params.at[0];

    for (uint32_t w = 0; w < tir_consumers(r->fn->plan); w++) {
        TirOp *branch = NULL;
        if (r->bounds_differ) {
            TirVal *begun = tir_binary(b, TIR_LE, own[w].lo, number);
            TirVal *going = tir_binary(b, TIR_LT, number, own[w].hi);
            branch = roles_begin_if(b, tir_binary(b, TIR_AND, begun, going));
        }
        scale_sum(r, sum, w);
        roles_end(b, branch);
    }
    roles_end(b, loop);
}

/* What is made of a consumer's sum; `index`: its place on the consumer axis. */
static void
leave_results(Roles *r, TirShared *sum, uint32_t w, Range own, TirVal *index)
{
    TirBuilder *b = &r->b;
    const struct Correction *c = r->correction;
    CloneMap map = roles_consumer_map(r, index);
    TirOp *branch = roles_begin_if(b, tir_binary(b, TIR_LT, own.lo, own.hi)), *op;
    uint32_t behind = 0;

    roles_plain(b, TIR_CONSUMER_WAIT, sum, w);
    roles_end(b, branch);
    for (uint32_t k = 0; k < c->vectors.n; k++)
        clone_set(&map, c->vectors.at[k].value, take_vector(r, c->vectors.at[k].buffer, w));
    branch = NULL;
    for (uint32_t i = 0; i < r->old->ops.n && tir_consumers(r->fn->plan) > 1; i++)
        behind = r->old->ops.at[i] == r->loop ? i : behind;
    if (behind > 0 && roles_has_effects(r, r->old, behind)) {
        if (r->extent == NULL)
            r->extent = clone_host(b, r->fn->grid.at[r->fn->plan->tiles.axis].extent);
        branch = roles_begin_if(b, roles_is_there(r, index));
        b->block = branch->blocks[1];
        b->at = 0;
        roles_read_tmem(&r->b, sum, w); /* there is nothing that it is needed for */
        b->block = branch->blocks[0];
        b->at = -1;
    }
    clone_set(&map, r->loop->results[c->carried], roles_read_tmem(&r->b, sum, w));
    for (uint32_t i = 0; next_corrected(r, &i, &op);) {
        for (uint32_t k = 0; k < op->n_args; k++)
            make_again(r, &map, op->args[k]);
        b->span = op->span;
        if (op->n_results == 0 || map.to[op->results[0]->id] == NULL)
            clone_op(b, &map, op);
    }
    roles_end(b, branch);
    for (uint32_t k = 0; k < c->vectors.n; k++)
        roles_plain(b, TIR_CONSUMER_RELEASE, c->vectors.at[k].buffer, w);
}

void
roles_write_correction(Roles *r, TirShared *sum, const Range *own, Range all)
{
    TirVal *block = roles_block_index(r, roles_grid(r));
    TirVal *begin = r->loop->args[loop_first_initial(r->loop) + r->correction->carried];
    CloneMap map = roles_uniform_map(r, NULL);

    for (uint32_t w = 0; w < tir_consumers(r->fn->plan); w++)
        on_sum(r, TIR_TMEM_WRITE, sum, w, make_again(r, &map, begin));
    scale_loop(r, sum, own, all);
    for (uint32_t w = 0; w < tir_consumers(r->fn->plan); w++)
        leave_results(r, sum, w, own[w], roles_consumer_index(r, block, w));
}
