/* roles_stagger.c - programs that begin the main loop at different iterations, consumers that begin
 * it one after the other.
 *
 * Programs that run at once and add what each iteration gives to the same memory would all add to
 * the same place at a time, tile by tile, since they go through the loop at the same pace: the
 * slices of the cache that hold this tile are busy, the others idle.  Where the iterations may be
 * done in any order, program p begins with iteration p % 8 and does those before it at the end.  No
 * further away: what the programs share should still be read by all at about the same time.
 *
 *     number    0 1 2 ..  n - 1  | n ..      n: iterations without masks; those behind them stay
 *     iteration s s + 1 .. s - 1 | n ..      where they are
 *
 * Producer and consumers count the same numbers, and each computes the iteration that one stands
 * for.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/ir/op_units.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_util.h"

enum { APART = 8 }; /* a power of two */

bool
roles_can_stagger(const Roles *r)
{
    const TirPlan *plan = r->fn->plan;

    if (!switch_is_on(r->px, "stagger-starts") || !r->loop->hints.any_order ||
        !tir_shares_out(r->fn) || r->pipelined || tir_own_programs(plan) < 2 ||
        r->loop->n_segments > 2)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        if (roles_depends_on_consumer(r, r->loop->args[k]))
            return false;
    }
    if (r->loop->n_segments == 2) {
        bool first = false, last = false;
        roles_visit_masks(r, r->body, false, &first, &last);
        if (first)
            return false;
    }
    /* what consumers copy themselves, they copy for the number that comes next */
    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared == NULL && op->results[0]->type.rank > 0)
            return false;
    }
    return true;
}

Staggering
roles_stagger(Roles *r, TirVal *block_index, Range range)
{
    TirBuilder *b = &r->b;
    Staggering s = {.lo = range.lo, .end = range.hi};

    if (!r->loop->hints.staggered)
        return (Staggering){0};
    for (uint32_t w = 0; w < tir_consumers(r->fn->plan) && r->loop->n_segments == 2; w++) {
        CloneMap map = roles_consumer_map(r, roles_consumer_index(r, block_index, w));
        s.end = tir_binary(b, TIR_MIN, s.end, clone_scalar_tree(b, &map, r->loop->args[2]));
    }
    TirVal *apart = tir_const_int(b, APART), *none = tir_const_int(b, 0);
    s.n = tir_binary(b, TIR_SUB, s.end, s.lo);
    TirVal *start = tir_binary(b, TIR_AND, block_index, tir_const_int(b, APART - 1));
    s.start = tir_select(b, tir_binary(b, TIR_GE, s.n, apart), start, none);
    return s;
}

static TirVal *
stagger_iteration(TirBuilder *b, const Staggering *s, TirVal *number)
{
    TirVal *later = tir_binary(b, TIR_ADD, number, s->start);
    TirVal *around = tir_binary(b, TIR_SUB, later, s->n);
    TirVal *turned = tir_select(b, tir_binary(b, TIR_LT, later, s->end), later, around);

    return tir_select(b, tir_binary(b, TIR_LT, number, s->end), turned, number);
}

TirVal *
roles_iteration(Roles *r, TirVal *base, TirVal *number)
{
    TirBuilder *b = &r->b;

    if (r->staggered.start != NULL)
        return stagger_iteration(b, &r->staggered, number);
    if (base == NULL)
        return number;
    return tir_binary(b, TIR_SUB, tir_binary(b, TIR_SUB, base, tir_const_int(b, 1)), number);
}

/* About the share that one of four consumers has of an iteration, in clocks: 7/8 of what it asks of
 * the tensor cores and of MUFU. */
static int32_t
consumer_share(const Roles *r)
{
    const Target *target = r->px->target;
    double clocks = 0;

    for (uint32_t i = 0; i < r->body->ops.n; i++) {
        const TirOp *op = r->body->ops.at[i];
        if (op->n_results == 0 || op->results[0]->type.rank != 2)
            continue;
        double elements = (double)op->results[0]->type.dim[0] * op->results[0]->type.dim[1];
        if (op->op == TIR_MMA)
            clocks += 2 * elements * op->args[0]->type.dim[1] /
                      target_mma_flops(target, product_form(target, op));
        else
            clocks += op_use(op).mufu * elements / target->chip.special_ops;
    }
    return (int32_t)(clocks * 7 / 8);
}

/* Consumers that begin a tile together, and have no ping-pong, go through it in step: all want the
 * tensor cores at once, then the arithmetic units.  In a tile with many iterations consumer k
 * begins k shares of an iteration later, which costs what the last consumer waits, once. */
void
roles_delay(Roles *r, Range range)
{
    /* H200, causal, d = 64, four consumers 448 clocks apart: 1.2 % more at 16k, about what it costs
     * at 64 */
    enum { LONG_TILE = 64 };
    TirType i32 = tir_scalar(DT_I32);
    TirVal *iterations = tir_binary(&r->b, TIR_SUB, range.hi, range.lo);
    TirVal *is_long = tir_binary(&r->b, TIR_GE, iterations, tir_const_int(&r->b, LONG_TILE));
    TirVal *clocks = tir_const_int(&r->b, consumer_share(r)), *none = tir_const_int(&r->b, 0);
    TirVal *share = tir_select(&r->b, is_long, clocks, none);
    TirVal *consumer = tir_op_new(&r->b, TIR_CONSUMER, 0, NULL, 1, &i32)->results[0];

    TirVal *delay = tir_binary(&r->b, TIR_MUL, consumer, share);

    tir_op_new(&r->b, TIR_DELAY, 1, &delay, 0, NULL);
}
