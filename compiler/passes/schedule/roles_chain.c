/* roles_chain.c - a main loop with arithmetic between products that a role of their own issues.
 *
 * Products whose operands are both loaded are first ones; the others, with a left operand that is computed, are second
 * ones.  The mma role issues the first ones of an iteration beside the second ones of the iteration before, so that
 * they run while the consumer is still computing:
 *
 *     mma         first products of the first iteration
 *                 for ..  { first products; second products of the iteration before }
 *                 second products of the last iteration
 *     consumer    for ..  { wait for a first product, read it; compute; write the operand of the second one }
 *
 * It does so for one consumer after the other, in one stream: the products of one run under the arithmetic of the
 * others.  Consumers may differ in their iterations; a tile that is loaded for all of them is given back when the last
 * one's product has been issued.
 *
 * Pipelines in tensor memory lie between the two, each consumer's own: the mma role fills those of results, the consumer
 * those of operands.  Where there are not enough columns an operand lies over the result of a first product.  Products run
 * in the order in which they are issued, so that the next first product is issued behind the second one that reads what
 * it overwrites; and to hand the operand on is to give the result back.
 *
 * A sum that the loop carries stays in tensor memory as well.  The consumer may change it (by a factor, say) in each
 * iteration, in front of the product that adds to it.  No token of its own says whose it is:
 *
 *     consumer    it waits for a first product that was issued behind the second one of the iteration before, or until the
 *                 operand of that one has been read; changes the sum; writes the next operand and hands that on
 *     mma         a product adds to the sum when its operand has been handed on
 *
 * (Pass check-roles proves that.)  The consumer writes what it begins with.  A sum that is changed in front of a first
 * product goes from hand to hand by tokens of its own.
 */
#include "compiler/passes/schedule/roles_chain.h"

#include "compiler/passes/util/tir_util.h"

/* ---- what there is ---- */

/* Whether a first or a second product has its operands from a load. */
static bool
is_read_by(const struct Chain *chain, bool second, const TirOp *load)
{
    bool read = false;

    for (uint32_t k = 0; k < chain->products.n; k++) {
        const Product *p = &chain->products.at[k];
        read = read || (p->second == second && (p->load[0] == load || p->load[1] == load));
    }
    return read;
}

static void
list_loads(Roles *r, struct Chain *chain)
{
    for (uint32_t k = 0; k < r->stage0_pipelines.n; k++) {
        TirOp *load = r->stage0_pipelines.at[k];
        vec_push(r->fn->arena, &chain->loads[is_read_by(chain, true, load)], load);
    }
}

static TirShared *
new_piece(Roles *r, const TirVal *operand, int32_t from, int32_t to)
{
    TirType type = tir_tile2(operand->type.dtype, operand->type.dim[0], to - from);
    TirShared *piece = roles_new_channel(r, operand->name, type, SHARED_TMEM, ROLE_CONSUMER,
                                         ROLE_MMA);

    piece->column = (uint32_t)from;
    return piece;
}

static void
list_products(Roles *r, struct Chain *chain)
{
    chain->products = plan_products(r->fn, r->loop);
    for (uint32_t k = 0; k < chain->products.n; k++) {
        Product *p = &chain->products.at[k];
        const TirVal *result = p->mma->results[0], *operand = p->mma->args[0];
        p->result = p->mma->shared = roles_new_channel(r, result->name, result->type, SHARED_TMEM,
                                                       ROLE_MMA, ROLE_CONSUMER);
        p->result->carried = p->change != NULL;
        chain->second = chain->second || p->second;
        if (p->second)
            p->pieces[p->n_pieces++] = new_piece(r, operand, 0, operand->type.dim[1]);
    }
}

/* The last quarter of an operand becomes a piece of its own: products of the others run while it is computed.  That pays where an
 * operand lies over a result, since the next first product waits for all of them. */
static void
divide_operand(Roles *r, Product *p)
{
    int32_t columns = p->pieces[0]->cols;
    int32_t last = (columns / 4 + PIECE_COLUMNS - 1) / PIECE_COLUMNS * PIECE_COLUMNS;

    if (r->fn->warps > GROUP_WARPS || columns % PIECE_COLUMNS != 0 || columns < 4 * PIECE_COLUMNS ||
        p->sum == 0 || !switch_is_on(r->px, "operand-pieces"))
        return;
    p->pieces[0]->cols = columns - last;
    p->pieces[p->n_pieces++] = new_piece(r, p->mma->args[0], columns - last, columns);
}

/* Each operand over the result of a first product, where there are not the columns for all (`over`); else none. */
static void
lay_over(Roles *r, struct Chain *chain, bool over)
{
    chain->over = over;
    for (uint32_t k = 0; k < chain->products.n; k++) {
        Product *p = &chain->products.at[k];
        p->covered = p->covered && over;
        p->over = over ? p->over : 0;
        if (p->over == 0)
            continue;
        divide_operand(r, p);
        for (uint32_t i = 0; i < p->n_pieces; i++)
            p->pieces[i]->over = chain->products.at[p->over - 1].result;
    }
}

/* Where results and operands lie. */
static void
place_products(Roles *r, struct Chain *chain)
{
    uint32_t most = (uint32_t)r->px->target->chip.tmem_columns / tir_consumers(r->fn->plan);
    uint32_t columns = tir_tmem_part(r->fn);

    lay_over(r, chain, columns > most);
    if (plan_only_adds(r->fn, r->loop)) {
        /* the next tile's products run while a consumer reads the sums of this one's */
        for (uint32_t k = 0; k < chain->products.n; k++)
            chain->products.at[k].result->stages += 2 * columns <= most;
        return;
    }
    /* the next first products run while the consumer has the results of these */
    for (uint32_t k = 0; k < chain->products.n && !chain->over; k++) {
        const Product *p = &chain->products.at[k];
        columns += tir_tmem_columns(p->result);
        if (p->sum > 0 || p->second || columns > most)
            columns -= tir_tmem_columns(p->result);
        else
            p->result->stages = 2;
    }
}

static TirShared *
last_piece(const Product *p)
{
    return p->pieces[p->n_pieces - 1];
}

/* Whether the sum goes from hand to hand with its operand. */
static bool
goes_with_operand(const Product *p)
{
    return p->change != NULL && p->second;
}

/* ---- the mma role ---- */

static void
on_sum(Roles *r, TirOpcode opcode, const Product *p, uint32_t w)
{
    roles_plain(&r->b, opcode, p->result, w);
}

/* What lies in a pipeline, of consumer `w`. */
static TirVal *
read_stage(Roles *r, TirShared *pipeline, const TirVal *what, uint32_t w)
{
    TirBuilder *b = &r->b;
    TirType type = what->type;

    if (pipeline->kind == SHARED_TMEM) /* a piece */
        type.dim[1] = pipeline->cols;
    roles_plain(b, TIR_CONSUMER_WAIT, pipeline, w);
    TirOp *read = roles_read(b, pipeline, type, what->name);
    read->integer = w;
    return read->results[0];
}

/* Lets `maps` have an operand: the tile that a load brings, for each consumer or all, or a transpose of one. */
static void
read_operand(Roles *r, CloneMap *maps, const TirOp *op)
{
    uint32_t n = tir_consumers(r->fn->plan);
    TirVal *read = NULL;

    r->b.span = op->span;
    for (uint32_t w = 0; w < n; w++) {
        if (op->op != TIR_LOAD)
            roles_copy(r, &maps[w], op, false);
        else if (read == NULL || op->shared->each)
            read = read_stage(r, op->shared, op->results[0], w);
        if (op->op == TIR_LOAD)
            clone_set(&maps[w], op->results[0], read);
    }
}

static void
give_back(Roles *r, const OpList *loads)
{
    for (uint32_t k = 0; k < loads->n; k++) {
        TirShared *pipeline = loads->at[k]->shared;
        for (uint32_t w = 0; w < tir_parts(r->fn->plan, pipeline); w++)
            roles_plain(&r->b, TIR_CONSUMER_RELEASE, pipeline, w);
    }
}

static void
issue_piece(Roles *r, const CloneMap *map, const Product *p, TirVal *left, TirVal *add, uint32_t w)
{
    TirVal *args[] = {left, clone_of(map, p->mma->args[1]), add};
    TirOp *issued = tir_op_new(&r->b, TIR_TMEM_MMA, 3, args, 0, NULL);

    issued->shared = p->result;
    issued->integer = w;
}

static void
issue_product(Roles *r, const CloneMap *map, const Product *p, TirVal *add, uint32_t w)
{
    TirBuilder *b = &r->b;
    TirVal *left = clone_of(map, p->mma->args[0]);
    /* one stage for all iterations */
    bool all_in_one = p->sum > 0 && (p->change == NULL || p->second);

    if (p->corrected) /* it is there before the operand */
        roles_plain(b, TIR_CONSUMER_WAIT, roles_ready_sum(r), w);
    if (p->second)
        left = read_stage(r, p->pieces[0], p->mma->args[0], w);
    if (!all_in_one || p->change != NULL)
        add = tir_const_bool(b, p->sum > 0);
    if (!all_in_one && !p->covered)
        on_sum(r, TIR_PRODUCER_ACQUIRE, p, w);
    issue_piece(r, map, p, left, add, w);
    for (uint32_t k = 1; k < p->n_pieces; k++) {
        left = read_stage(r, p->pieces[k], p->mma->args[0], w);
        issue_piece(r, map, p, left, tir_const_bool(b, true), w);
    }
    if (!all_in_one)
        on_sum(r, TIR_PRODUCER_COMMIT, p, w);
    if (p->second && !p->over)
        roles_plain(b, TIR_CONSUMER_RELEASE, last_piece(p), w);
}

/* The first or the second products of one consumer in an iteration; `add`: whether there was one before. */
static void
issue_for(Roles *r, const CloneMap *map, bool second, TirVal *add, uint32_t w)
{
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        r->b.span = p->mma->span;
        if (p->second == second)
            issue_product(r, map, p, add, w);
    }
}

/* Where products are issued: in front of the loop, in it, behind it. */
typedef enum Part { IN_FRONT, INSIDE, BEHIND } Part;

/* Whether consumer `w` has the iteration whose products are issued there, where it may not: the first one, that of this
 * number or, second ones, of the number before, the last one.  NULL: it has. */
static TirVal *
has_iteration(Roles *r, Part part, bool second, TirVal *number, uint32_t w)
{
    const struct Chain *chain = r->chain;
    TirBuilder *b = &r->b;
    const Range *own = &chain->own[w];

    if (!r->bounds_differ)
        return NULL;
    number = part == IN_FRONT ? chain->all.lo : part == BEHIND ? chain->all.hi : number;
    TirVal *begun = tir_binary(b, second ? TIR_LT : TIR_LE, own->lo, number);
    return tir_binary(b, TIR_AND, begun, tir_binary(b, second ? TIR_LE : TIR_LT, number, own->hi));
}

/* Whether there was an iteration before that one. */
static TirVal *
had_iteration(Roles *r, Part part, bool second, TirVal *number, uint32_t w)
{
    TirBuilder *b = &r->b;
    TirVal *lo = r->chain->own[w].lo;

    if (part == IN_FRONT)
        return tir_const_bool(b, false);
    if (!second && r->chain->second && !r->bounds_differ)
        return tir_const_bool(b, true);
    if (!second)
        return tir_binary(b, TIR_NE, number, lo);
    TirVal *next = tir_binary(b, TIR_ADD, lo, tir_const_int(b, 1));
    return tir_binary(b, TIR_NE, part == BEHIND ? r->chain->all.hi : number, next);
}

static void
issue_if_there(Roles *r, const CloneMap *map, Part part, bool second, TirVal *number, uint32_t w)
{
    TirOp *branch = roles_begin_if(&r->b, has_iteration(r, part, second, number, w));

    issue_for(r, map, second, had_iteration(r, part, second, number, w), w);
    roles_end(&r->b, branch);
}

/* Tiles of the loop that first or second products read. */
static void
read_operands(Roles *r, CloneMap *maps, bool second)
{
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (plan_piped(op) != NULL && is_read_by(r->chain, second, plan_piped(op)))
            read_operand(r, maps, op);
    }
}

/* Sums that go with operands are done, where the consumer has had an iteration; there is one in the block. */
static void
commit_sums(Roles *r, uint32_t w)
{
    const Range *own = &r->chain->own[w];
    TirVal *some = r->bounds_differ ? tir_binary(&r->b, TIR_LT, own->lo, own->hi) : NULL;
    TirOp *branch = roles_begin_if(&r->b, some);

    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        if (goes_with_operand(&r->chain->products.at[k]))
            on_sum(r, TIR_PRODUCER_COMMIT, &r->chain->products.at[k], w);
    }
    roles_end(&r->b, branch);
}

/* The products that are issued at a place, for one consumer after the other. */
static void
issue_products(Roles *r, const CloneMap *outer, Part part, TirVal *number)
{
    const struct Chain *chain = r->chain;
    const uint32_t n = tir_consumers(r->fn->plan);
    CloneMap maps[MOST_CONSUMERS];
    const bool has[2] = {part != BEHIND, part != IN_FRONT && chain->second};

    for (uint32_t w = 0; w < n; w++)
        maps[w] = clone_map_copy(r->fn, &outer[w]);
    for (uint32_t w = 0; w < n; w++) {
        for (uint32_t turn = 0; turn < 2; turn++) {
            bool second = (turn == 0) == chain->over;
            if (!has[second])
                continue;
            if (w == 0)
                read_operands(r, maps, second);
            issue_if_there(r, &maps[w], part, second, number, w);
            if (w + 1 == n)
                give_back(r, &chain->loads[second]);
        }
        if (part == BEHIND)
            commit_sums(r, w);
    }
}

/* In a branch, for where there is an iteration. */
static void
issue_if_any(Roles *r, const CloneMap *maps, Part part)
{
    TirVal *some = tir_binary(&r->b, TIR_LT, r->chain->all.lo, r->chain->all.hi);
    TirOp *branch = roles_begin_if(&r->b, some);

    issue_products(r, maps, part, NULL);
    roles_end(&r->b, branch);
}

/* Gives back tiles that are loaded once, for second products or for others. */
static void
give_back_once(Roles *r, bool second)
{
    OpList loads = {0};

    for (uint32_t k = 0; k < r->once.n; k++) {
        if (is_read_by(r->chain, true, r->once.at[k]) == second)
            vec_push(r->fn->arena, &loads, r->once.at[k]);
    }
    give_back(r, &loads);
}

static void
issue_loop(Roles *r, const CloneMap *maps)
{
    TirBuilder *b = &r->b;
    Range all = r->chain->all;
    bool second = r->chain->second;

    if (second)
        issue_if_any(r, maps, IN_FRONT);
    TirVal *from = second ? tir_binary(b, TIR_ADD, all.lo, tir_const_int(b, 1)) : all.lo;
    TirOp *loop = roles_begin_for(b, from, all.hi, r->loop->span);
    issue_products(r, maps, INSIDE, b->block->params.at[0]);
    roles_end(b, loop);
    give_back_once(r, false);
    if (second)
        issue_if_any(r, maps, BEHIND);
    give_back_once(r, true);
}

/* On the sums of all consumers that nobody changes or, `by_token`, that go from hand to hand by tokens of their own. */
static void
on_sums(Roles *r, TirOpcode opcode, bool by_token)
{
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        bool has = p->sum > 0 && (p->change != NULL) == by_token && !goes_with_operand(p);
        for (uint32_t w = 0; has && w < tir_consumers(r->fn->plan); w++)
            on_sum(r, opcode, p, w);
    }
}

/* The iterations of each consumer, and of the block. */
static void
find_ranges(Roles *r)
{
    struct Chain *chain = r->chain;
    TirVal *index = roles_block_index(r, roles_grid(r)), *first_lo = NULL;
    uint32_t n = tir_consumers(r->fn->plan);

    if (r->bounds_differ) {
        r->extent = clone_host(&r->b, r->fn->grid.at[r->fn->plan->tiles.axis].extent);
        chain->all = roles_block_range(r, r->loop, index, &first_lo);
    }
    for (uint32_t w = 0; w < n && (w == 0 || r->bounds_differ); w++)
        chain->own[w] = roles_consumer_range(r, r->loop, roles_consumer_index(r, index, w),
                                             first_lo);
    for (uint32_t w = 0; w < n && !r->bounds_differ; w++)
        chain->all = chain->own[w] = chain->own[0];
}

static void
write_issuer(Roles *r)
{
    CloneMap maps[MOST_CONSUMERS];

    for (uint32_t w = 0; w < tir_consumers(r->fn->plan); w++)
        maps[w] = clone_map(r->fn);
    find_ranges(r);
    for (uint32_t i = 0; r->old->ops.at[i] != r->loop; i++) {
        if (plan_piped(r->old->ops.at[i]) != NULL)
            read_operand(r, maps, r->old->ops.at[i]);
    }
    r->b.span = r->loop->span;
    on_sums(r, TIR_PRODUCER_ACQUIRE, false);
    for (uint32_t k = 0; k < 2; k++) { /* to begin with, and for the first iteration */
        on_sums(r, TIR_PRODUCER_ACQUIRE, true);
        on_sums(r, TIR_PRODUCER_COMMIT, true);
    }
    issue_loop(r, maps);
    r->b.span = r->loop->span;
    on_sums(r, TIR_PRODUCER_COMMIT, false);
    r->once_given_back = true;
}

/* The correction role's, which has the sum that iterations change. */
static void
write_corrector(Roles *r)
{
    find_ranges(r);
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->corrected)
            roles_write_correction(r, p->result, r->chain->own, r->chain->all);
    }
}

/* ---- the consumer ---- */

static void
write_tmem(TirBuilder *b, TirShared *to, TirVal *value)
{
    tir_op_new(b, TIR_TMEM_WRITE, 1, &value, 0, NULL)->shared = to;
}

void
roles_drop_result(TirOp *op, uint32_t k)
{
    uint32_t initial = op->op == TIR_FOR ? loop_first_initial(op) : 0;

    for (uint32_t j = 0; j < op->n_blocks; j++) {
        TirBlock *block = op->blocks[j];
        TirOp *yield = block_yield(block);
        yield->n_args--;
        for (uint32_t i = k; i < yield->n_args; i++)
            yield->args[i] = yield->args[i + 1];
        if (op->op != TIR_FOR)
            continue;
        block->params.n--;
        for (uint32_t i = k + 1; i < block->params.n; i++) {
            block->params.at[i] = block->params.at[i + 1];
            block->params.at[i]->index = i;
        }
    }
    if (op->op == TIR_FOR) {
        op->n_args--;
        for (uint32_t i = initial + k; i < op->n_args; i++)
            op->args[i] = op->args[i + 1];
    }
    op->n_results--;
    for (uint32_t i = k; i < op->n_results; i++) {
        op->results[i] = op->results[i + 1];
        op->results[i]->index = i;
    }
}

/* A branch, as it was copied, one result of which is what becomes of a sum: `sum`, or what it writes there. */
static void
change_in_branch(Roles *r, TirOp *branch, const Product *p, TirVal *sum)
{
    uint32_t k = p->mma->args[2]->index;

    for (uint32_t side = 0; side < 2; side++) {
        TirBlock *block = branch->blocks[side];
        TirOp *yield = block_yield(block);
        TirVal *value = yield->args[k];
        TirBuilder b = {.fn = r->fn, .block = block, .at = 0, .span = branch->span};
        if (value == sum)
            continue;
        if (count_uses_in(block, sum) > 0)
            tir_replace_in_block(block, sum, roles_read_tmem(&b, p->result, 0));
        b.at = (int32_t)block->ops.n - 1;
        write_tmem(&b, p->result, value);
    }
    roles_drop_result(branch, k);
}

/* When the products of the last piece have ended, those of the others have. */
static void
acquire_operand(Roles *r, Product *p)
{
    roles_plain(&r->b, TIR_PRODUCER_ACQUIRE, last_piece(p), 0);
    p->acquired = true;
}

static void
change_sum(Roles *r, CloneMap *map, Product *p)
{
    TirBuilder *b = &r->b;

    if (!p->second)
        roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
    else if (!p->over) /* the product that read it has ended, and so has added to the sum */
        acquire_operand(r, p);
    if (p->corrected) {
        roles_hand_factors(r, map, p->change, p->mma->args[2]->index);
        return;
    }
    uint32_t at = b->block->ops.n;
    TirVal *sum = roles_read_tmem(b, p->result, 0);
    clone_set(map, r->body->params.at[p->sum], sum);
    roles_copy(r, map, p->change, false);
    if (p->change->op == TIR_IF) {
        TirOp *branch = b->block->ops.at[b->block->ops.n - 1];
        change_in_branch(r, branch, p, sum);
        b->block->ops.n = at; /* it reads the sum itself */
        vec_push(r->fn->arena, &b->block->ops, branch);
    } else {
        write_tmem(b, p->result, clone_of(map, p->mma->args[2]));
    }
    if (!p->second)
        roles_plain(b, TIR_CONSUMER_RELEASE, p->result, 0);
}

static void
meet_product(Roles *r, CloneMap *map, Product *p)
{
    TirBuilder *b = &r->b;

    if (p->second) {
        if (!p->acquired && !p->over)
            acquire_operand(r, p);
        p->acquired = false;
        for (uint32_t k = 0; k < p->n_pieces; k++) {
            write_tmem(b, p->pieces[k], clone_of(map, p->mma->args[0]));
            roles_plain(b, TIR_PRODUCER_COMMIT, p->pieces[k], 0);
            b->block->ops.at[b->block->ops.n - 1]->holds = k + 1 < p->n_pieces &&
                                                           switch_is_on(r->px, "hold-back");
        }
    }
    if (p->sum > 0) { /* the loop carries nothing */
        clone_set(map, p->mma->results[0], r->chain_none);
        return;
    }
    roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
    TirVal *read = roles_read_tmem(b, p->result, 0);
    read->name = p->mma->results[0]->name;
    clone_set(map, p->mma->results[0], read);
}

bool
roles_chain_op(Roles *r, CloneMap *map, const TirOp *op)
{
    if (r->chain == NULL)
        return false;
    if (plan_piped(op) != NULL) /* nothing that a consumer reads */
        return true;
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        Product *p = &r->chain->products.at[k];
        if (p->mma != op && p->change != op)
            continue;
        if (p->change == op)
            change_sum(r, map, p);
        else
            meet_product(r, map, p);
        return true;
    }
    return false;
}

/* Where there was no iteration nobody hands a sum on that goes with an operand. */
static void
wait_if_some(Roles *r, Range range, TirShared *sum)
{
    TirOp *branch = roles_begin_if(&r->b, tir_binary(&r->b, TIR_LT, range.lo, range.hi));

    roles_plain(&r->b, TIR_CONSUMER_WAIT, sum, 0);
    roles_end(&r->b, branch);
}

/* What the loop leaves: sums, which stages hold until the tile is done.  One to which products were issued is there, also where
 * none of them was for an iteration of this consumer's own program. */
static void
read_sums(Roles *r, CloneMap *map, Range issued, TirVal *const *initial)
{
    TirBuilder *b = &r->b;
    TirVal *none = tir_binary(b, TIR_GE, issued.lo, issued.hi);

    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->sum == 0 || p->corrected)
            continue;
        TirVal *begin = initial[p->sum - 1];
        if (goes_with_operand(p))
            wait_if_some(r, issued, p->result);
        else
            roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
        if (p->change == NULL)
            roles_zero_sums(r, none, &p->result, 1);
        TirVal *value = roles_read_tmem(b, p->result, 0);
        clone_set(map, r->loop->results[p->sum - 1],
                  tir_is_zero(begin) || p->change != NULL ? value
                                                          : tir_binary(b, TIR_ADD, begin, value));
    }
}

/* Sums that the loop changes begin with what the consumer writes. */
static void
write_initial(Roles *r, TirVal *const *initial)
{
    TirBuilder *b = &r->b;

    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->change == NULL || p->corrected)
            continue;
        if (!p->second)
            roles_plain(b, TIR_CONSUMER_WAIT, p->result, 0);
        write_tmem(b, p->result, initial[p->sum - 1]);
        if (!p->second)
            roles_plain(b, TIR_CONSUMER_RELEASE, p->result, 0);
    }
}

/* The first product over whose result the operand lies that goes with a sum which `op` changes; NULL: no such one. */
static const TirOp *
product_below(const struct Chain *chain, const TirOp *op)
{
    for (uint32_t k = 0; k < chain->products.n; k++) {
        const Product *p = &chain->products.at[k];
        for (uint32_t j = 0; p->change == op && goes_with_operand(p) && j < chain->products.n; j++) {
            if (p->pieces[0]->over == chain->products.at[j].result)
                return chain->products.at[j].mma;
        }
    }
    return NULL;
}

/* The consumer's operations in their order, but nothing in front of an operand that it does not need.  Where the result of a first product says that a sum may be changed, the change
 * comes behind it. */
static void
add_steps(Roles *r, Staged *staged)
{
    const TirBlock *body = r->body;
    OpList order = {0};

    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        const TirOp *below = product_below(r->chain, op);
        bool late = false;
        for (uint32_t j = i; j < body->ops.n && below != NULL; j++)
            late = late || body->ops.at[j] == below;
        if (op->op != TIR_YIELD && !late)
            vec_push(r->fn->arena, &order, op);
        for (uint32_t j = 0; j < i && op->op == TIR_MMA; j++) {
            if (product_below(r->chain, body->ops.at[j]) == op)
                vec_push(r->fn->arena, &order, body->ops.at[j]);
        }
    }
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        if (r->chain->products.at[k].second)
            stages_put_off(r, &order, r->chain->products.at[k].mma);
    }
    for (uint32_t i = 0; i < order.n; i++)
        roles_add_step(r, &staged->steps, STEP_OP, order.at[i], 0);
}

/* The consumer's loop, without products. */
static void
compute_loop(Roles *r, CloneMap *map, Range range)
{
    TirVal **values = roles_initial(r, map, 0);
    Staged staged = {0};

    add_steps(r, &staged);
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->sum == 0 && !p->covered)
            roles_add_step(r, &staged.steps, STEP_RELEASE, p->mma, 0);
    }
    r->chain_none = tir_const_int(&r->b, 0);
    roles_emit_staged(r, map, range, &staged, values);
    TirOp *loop = r->b.block->ops.at[r->b.block->ops.n - 1];
    for (uint32_t k = r->loop->n_results; k-- > 0;) {
        if (block_yield(loop->blocks[0])->args[k] == r->chain_none)
            roles_drop_result(loop, k);
        else
            clone_set(map, r->loop->results[k], values[k]);
    }
}

void
roles_chain(Roles *r, CloneMap *map, Range range)
{
    TirVal **initial = roles_initial(r, map, 0);

    r->chain = arena_new(r->fn->arena, struct Chain);
    list_products(r, r->chain);
    place_products(r, r->chain);
    list_loads(r, r->chain);
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        Product *p = &r->chain->products.at[k];
        p->corrected = p->change != NULL && tir_role(r->fn->plan, ROLE_CORRECTION) != NULL;
        if (p->corrected)
            roles_begin_correction(r, p->result, p->sum - 1);
    }
    roles_write_program(r, ROLE_MMA, write_issuer);
    if (r->correction != NULL)
        roles_write_program(r, ROLE_CORRECTION, write_corrector);
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->sum > 0 && !goes_with_operand(p))
            vec_push(r->fn->arena, &r->sums, p->result);
    }
    write_initial(r, initial);
    for (uint32_t k = 0; k < r->loop->n_results; k++)
        clone_set(map, r->loop->results[k], initial[k]);
    Range issued = chain_issued(r, &range);
    chain_let_pass(r, issued.lo, range.lo);
    if (r->mmas == AS_CHAIN)
        compute_loop(r, map, range);
    chain_let_pass(r, range.hi, issued.hi);
    read_sums(r, map, issued, initial);
    r->chain = NULL;
}
