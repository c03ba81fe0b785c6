/* lower_pair_sums.c - what the reduce roles of a pair's blocks add up before they add it to memory.
 *
 * Each block keeps half of the columns.  A thread sends what it has of the others to the thread of
 * its number in the other block, into that block's shared memory, and adds what that one sends to
 * its own:
 *
 *     full     a lane of the warp arrives, and expects its 32 lanes' bytes; they complete there
 *     empty    a lane of the other block's warp arrives when all have read theirs
 *
 * Each warp has barriers of its own, so that one sends while another adds.  Of a result that is not
 * added up whole each thread sends between its additions of the other columns.  What is sent lies
 * 16 bytes of each thread side by side: no banks conflict.
 *
 * PTX ISA, "st.async", "mbarrier" (scopes), "mapa".
 */
#include "compiler/lower/lower.h"

/* Where things lie, but for constants. */
typedef struct Sides {
    LirReg own, other; /* shared memory that a thread reads here, and writes in the other block */
    LirReg barriers, barriers_of_other; /* a warp's */
} Sides;

void
lower_init_sent(Lowering *lo)
{
    uint32_t n = 2 * tir_adding_warps(lo->fn->plan);

    for (uint32_t k = 0; k < lo->fn->shared.n; k++) {
        const TirShared *sent = lo->fn->shared.at[k];
        for (uint32_t i = 0; sent->kind == SHARED_SENT && i < n; i++) {
            LirOperand operands[] = {
                lir_address(lower_shared_start(lo), sent->barriers + MBARRIER_BYTES * i),
                lir_int(1)};
            lir_emit(&lo->b, LIR_MBARRIER_INIT, 0, 2, operands);
        }
    }
}

static Sides
find_sides(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    LirReg start = lower_shared_start(lo);
    LirReg other = lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(lower_pair_rank(lo)), lir_int(1));
    LirReg there = lir_op2(b, LIR_MAPA, LIR_B32, lir_reg(start), lir_reg(other));
    LirReg thread = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(lo->role->warp), lir_int(WARP_LANES),
                            lir_reg(lower_lane(lo)));
    LirReg place = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(thread), lir_int(4));
    LirReg warp = lir_op2(b, LIR_SHL_B32, LIR_B32, lir_reg(lo->role->warp), lir_int(3));

    return (Sides){
        .own = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(start), lir_reg(place)),
        .other = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(there), lir_reg(place)),
        .barriers = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(start), lir_reg(warp)),
        .barriers_of_other = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(there), lir_reg(warp))};
}

/* What is sent between additions to memory. */
typedef struct PairSending {
    const TirOp *op;
    Sides sides;
    int32_t from, next; /* the register of the value where it begins; the next column of the half */
} PairSending;

/* Elements of the other block's half from column `k` on. */
static void
send_piece(Lowering *lo, const PairSending *s, int32_t k)
{
    const TirShared *sent = s->op->shared;
    int64_t each = (int64_t)sent->rows * SENT_AT_ONCE * 4;
    LirOperand operands[SENT_AT_ONCE + 2];

    operands[0] = lir_address(s->sides.other, sent->offset + k / SENT_AT_ONCE * each);
    for (int32_t j = 0; j < SENT_AT_ONCE; j++)
        operands[1 + j] = lir_reg(
            lower_elem_reg(lo, lower_elem(lo, s->op->args[0], s->from + k + j), LIR_F32));
    operands[SENT_AT_ONCE + 1] = lir_address(s->sides.barriers_of_other, sent->barriers);
    lir_emit(&lo->b, LIR_ST_ASYNC_V4, 0, SENT_AT_ONCE + 2, operands);
}

/* Who sends waits until the way to the other SM has room, who adds for that to memory: by turns
 * both are busy.  (ptxas would move additions ahead of what is sent, but for a barrier.) */
void
lower_send_between(Lowering *lo, int32_t done, int32_t of)
{
    PairSending *s = lo->role == NULL ? NULL : lo->role->sending;
    LirOperand all = lir_int(-1);

    if (s == NULL)
        return;
    if (done == 0)
        s->next = 0;
    PairRates rates = target_pair_rates(lo->px->target);
    for (; s->next < s->op->shared->cols; s->next += SENT_AT_ONCE) {
        double sent = s->next / rates.sent, added = done * SENT_AT_ONCE / rates.added;
        if (done < of && sent > added)
            break;
        send_piece(lo, s, s->next);
        lir_emit(&lo->b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    }
}

/* Adds what has come to this block's half, which begins at register `from`. */
static void
add_up(Lowering *lo, const TirOp *op, const Sides *sides, int32_t from)
{
    LirBuilder *b = &lo->b;
    const TirShared *sent = op->shared;
    int64_t each = (int64_t)sent->rows * SENT_AT_ONCE * 4;

    for (int32_t k = 0; k < sent->cols; k += SENT_AT_ONCE) {
        LirOperand operands[SENT_AT_ONCE + 1];
        for (int32_t j = 0; j < SENT_AT_ONCE; j++)
            operands[j] = lir_reg(lir_new_reg(b, LIR_B32));
        operands[SENT_AT_ONCE] = lir_address(sides->own, sent->offset + k / SENT_AT_ONCE * each);
        lir_emit(b, LIR_LD_SHARED_V4, SENT_AT_ONCE, SENT_AT_ONCE + 1, operands);
        for (int32_t j = 0; j < SENT_AT_ONCE; j++) {
            LirReg came = lir_op1(b, LIR_MOV_F32, LIR_F32, operands[j]);
            LirReg own = lower_elem_reg(lo, lower_elem(lo, op->args[0], from + k + j), LIR_F32);
            LirReg sum = lir_op2(b, LIR_ADD_F32, LIR_F32, lir_reg(own), lir_reg(came));
            lower_keep_elem(lo, op->results[0], k + j, elem_reg(sum));
        }
    }
}

static int64_t
empty_barriers(const Lowering *lo, const TirShared *sent)
{
    return sent->barriers + MBARRIER_BYTES * (int64_t)tir_adding_warps(lo->fn->plan);
}

void
lower_pair_send(Lowering *lo, TirOp *op)
{
    LirBuilder *b = &lo->b;
    const TirShared *sent = op->shared;
    PipelineCursor *cursor = &lo->role->pipelines[sent->id];
    int32_t before = op->args[0]->type.dim[1] - 2 * sent->cols;
    Sides sides = find_sides(lo);

    LirOperand expect[] = {lir_address(sides.barriers, sent->barriers),
                           lir_int((int64_t)sent->cols * 4 * WARP_LANES)};
    lir_emit(b, LIR_MBARRIER_EXPECT_TX, 0, 2, expect)->guard = lo->role->first_lane;
    LirReg phase = lir_op2(b, LIR_XOR_B32, LIR_B32, lir_reg(cursor->phase), lir_int(1));
    lower_wait_for_other(lo, lir_address(sides.barriers, empty_barriers(lo, sent)), phase);
    PairSending sending = {op, sides, before + sent->cols, 0};
    for (int32_t k = 0; k < sent->cols && before == 0; k += SENT_AT_ONCE)
        send_piece(lo, &sending, k);
    if (before > 0) { /* between its additions, which may be in branches */
        lower_force(lo, op->args[0]);
        lo->role->sending = arena_new(lo->arena, PairSending);
        *lo->role->sending = sending;
    }
    for (int32_t k = 0; k < before; k++)
        lower_keep_elem(lo, op->results[0], k, lower_elem(lo, op->args[0], k));
}

void
lower_pair_sum(Lowering *lo, TirOp *op)
{
    LirBuilder *b = &lo->b;
    const TirShared *sent = op->shared;
    PipelineCursor *cursor = &lo->role->pipelines[sent->id];
    LirOperand all = lir_int(-1);
    Sides sides = find_sides(lo);

    lower_send_between(lo, 1, 1); /* what no addition has taken along */
    lo->role->sending = NULL;
    lower_wait_for_other(lo, lir_address(sides.barriers, sent->barriers), cursor->phase);
    add_up(lo, op, &sides, op->args[0]->type.dim[1] - 2 * sent->cols);
    lir_emit(b, LIR_BAR_WARP_SYNC, 0, 1, &all);
    LirOperand read = lir_address(sides.barriers_of_other, empty_barriers(lo, sent));
    lir_emit(b, LIR_MBARRIER_ARRIVE_BOTH, 0, 1, &read)->guard = lo->role->first_lane;
    lower_advance(lo, cursor, 1);
}
