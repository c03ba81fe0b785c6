/* roles_idle.c - iterations of the main loop in which the other block of a pair has something to compute, and this one has not.
 *
 * Where two blocks multiply together, a product has rows of two programs, and is issued in the iterations of both.  A consumer
 * that lacks some of them lets their results pass unread, and hands on operands of zeros, which leave its sums as they are:
 *
 *     for ..  { consumer_wait S; tmem_write P, 0; producer_commit P }
 *
 * (So no sum is made of loaded tiles alone: plan_pairs.c.)
 */
#include "compiler/passes/schedule/roles_chain.h"

Range
chain_issued(Roles *r, Range *own)
{
    TirBuilder *b = &r->b;
    Range issued = r->issued;

    if (issued.lo == NULL)
        return *own;
    if (roles_is_same(own->lo, issued.lo))
        return issued;
    /* one that has none may have its place anywhere */
    own->lo = tir_binary(b, TIR_MIN, tir_binary(b, TIR_MAX, own->lo, issued.lo), issued.hi);
    own->hi = tir_binary(b, TIR_MAX, own->lo, tir_binary(b, TIR_MIN, own->hi, issued.hi));
    return issued;
}

/* The operand of a second product. */
static void
pass_operand(Roles *r, const Product *p)
{
    TirBuilder *b = &r->b;
    TirVal *zeros = NULL;

    b->span = p->mma->span;
    if (p->second && !p->over)
        roles_plain(b, TIR_PRODUCER_ACQUIRE, p->pieces[p->n_pieces - 1], 0);
    for (uint32_t k = 0; k < p->n_pieces; k++) {
        if (k == 0)
            zeros = tir_splat_const(b, p->mma->args[0]->type, 0.0);
        tir_op_new(b, TIR_TMEM_WRITE, 1, &zeros, 0, NULL)->shared = p->pieces[k];
        roles_plain(b, TIR_PRODUCER_COMMIT, p->pieces[k], 0);
    }
}

/* Results over which operands lie, or others. */
static void
wait_for_results(Roles *r, bool covered)
{
    for (uint32_t k = 0; k < r->chain->products.n; k++) {
        const Product *p = &r->chain->products.at[k];
        if (p->sum > 0 || p->covered != covered)
            continue;
        roles_plain(&r->b, TIR_CONSUMER_WAIT, p->result, 0);
        if (!covered)
            roles_plain(&r->b, TIR_CONSUMER_RELEASE, p->result, 0);
    }
}

void
chain_let_pass(Roles *r, TirVal *from, TirVal *to)
{
    if (roles_is_same(from, to))
        return;
    r->b.span = r->loop->span;
    TirOp *loop = roles_begin_for(&r->b, from, to, r->loop->span);
    wait_for_results(r, true);
    for (uint32_t k = 0; k < r->chain->products.n; k++)
        pass_operand(r, &r->chain->products.at[k]);
    wait_for_results(r, false);
    r->b.span = r->loop->span;
    roles_end(&r->b, loop);
}
