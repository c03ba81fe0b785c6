/* tir_to_lir.c - lowers tile IR, with all fields filled in, to the program of one thread.
 *
 * Operations are taken in order.  Those with an effect, products, reductions and loads are lowered
 * where they stand; elements of all other values are computed when an instruction needs them
 * (lower.h).  Values that a loop or branch needs from outside are computed before it.
 */
#include "compiler/lower/tir_to_lir.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/passrun.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

/* Registers that ptxas 13.0 needs besides those counted as alive.  Found on 190 kernels: those that
 * left less often spilled, and did not once nothing was hoisted. */
enum { OTHER_ALIVE = 27 };

static LirClass
value_class(const TirVal *value)
{
    return lower_per_word(value) > 1 ? LIR_B32 : lower_class(value->type.dtype);
}

/* ---- control flow ---- */

/* Whether a value is made again wherever it is used: it costs next to nothing. */
static bool
is_remade(const TirVal *value)
{
    const TirOp *def = value->def;
    bool transposed;

    if (def == NULL)
        return true; /* already in registers */
    if (view_source(value, &transposed) != NULL)
        return true;
    if (def->op == TIR_CONST || def->op == TIR_IOTA)
        return true;
    if (def->op == TIR_EXPAND || def->op == TIR_BROADCAST || def->op == TIR_TRANSPOSE)
        return is_remade(def->args[0]);
    return false;
}

/* Makes what the operations of `block` need from outside it; values of blocks nested in the one
 * being entered are not outside. */
static void
force_inputs(Lowering *lo, const TirBlock *block, const TirBlock *outer)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            TirVal *value = op->args[k];
            bool nested = false;
            for (const TirBlock *at = value->block; at != NULL;
                 at = at->owner == NULL ? NULL : at->owner->parent)
                nested = nested || at == outer;
            if (nested)
                continue;
            while (is_remade(value) && value->def != NULL && value->def->n_args > 0 &&
                   value->def->op != TIR_IOTA && value->def->op != TIR_SHARED_READ)
                value = value->def->args[0]; /* what is made again needs its operand */
            if (!is_remade(value))
                lower_force(lo, value);
            if (value->def != NULL && value->def->op == TIR_IOTA)
                lower_force(lo, value->def->args[0]);
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            force_inputs(lo, op->blocks[k], outer);
    }
}

static void
clear_block(Lowering *lo, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        for (uint32_t k = 0; k < walk.op->n_results; k++)
            lower_clear(lo, walk.op->results[k]);
    }
}

static LirOperand
word_operand(Lowering *lo, TirVal *value, int32_t word)
{
    if (lower_per_word(value) > 1)
        return lir_reg(lower_shared_word(lo, value, word));
    return lower_operand(lo, lower_elem(lo, value, word));
}

static void
set_word_reg(Lowering *lo, TirVal *value, int32_t word, LirReg reg)
{
    if (lower_per_word(value) > 1)
        lower_state(lo, value)->words[word] = reg;
    else
        lower_set_elem(lo, value, word, elem_reg(reg));
}

static void
emit_move(Lowering *lo, LirReg to, LirOperand from)
{
    static const LirOpcode moves[LIR_CLASSES] = {LIR_MOV_PRED, 0, LIR_MOV_B32, LIR_MOV_F32,
                                                 LIR_MOV_B64};
    LirOperand operands[] = {lir_reg(to), from};
    if (from.kind == LIR_REG && from.reg == to)
        return;
    lir_emit(&lo->b, moves[lir_class(&lo->b, to)], 1, 2, operands);
}

/* Moves values into mutable registers as if at once. */
static void
emit_moves(Lowering *lo, uint32_t n, const LirReg *to, LirOperand *from)
{
    LirReg least = UINT32_MAX, most = 0; /* of the targets before */

    /* A source that is itself a target, and another one, is saved first. */
    for (uint32_t k = 0; k < n; k++) {
        LirReg reg = from[k].kind == LIR_REG ? from[k].reg : 0;
        uint32_t before = reg >= least && reg <= most ? k : 0;
        bool clobbered = false;
        for (uint32_t j = 0; j < before; j++)
            clobbered |= to[j] == reg;
        if (clobbered && reg != to[k]) {
            LirReg saved = lir_new_reg(&lo->b, lir_class(&lo->b, reg));
            emit_move(lo, saved, from[k]);
            from[k] = lir_reg(saved);
        }
        least = to[k] < least ? to[k] : least;
        most = to[k] > most ? to[k] : most;
    }
    for (uint32_t k = 0; k < n; k++)
        emit_move(lo, to[k], from[k]);
}

typedef struct Words {
    VEC(LirReg) regs;
} Words;

static void
lower_yield(Lowering *lo, const TirOp *yield, const Words *targets)
{
    const TirBlock *around = lo->block;
    VEC(LirOperand) from = {0};

    lo->block = yield->parent;
    for (uint32_t k = 0; k < yield->n_args; k++) {
        for (int32_t w = 0; w < lower_words(yield->args[k]); w++) {
            LirOperand operand = word_operand(lo, yield->args[k], w);
            vec_push(lo->arena, &from, operand);
        }
    }
    emit_moves(lo, from.n, targets->regs.at, from.at);
    lo->block = around;
}

/* A condition on which all lanes of a warp agree, in a form that says so to ptxas: it keeps
 * descriptors in uniform registers only where it knows that a warp stays together. */
static LirReg
same_in_warp(Lowering *lo, LirReg condition)
{
    LirReg same = lir_new_reg(&lo->b, LIR_PRED);
    LirOperand vote[] = {lir_reg(same), lir_reg(condition)};

    lir_emit(&lo->b, LIR_VOTE_ANY, 1, 2, vote);
    return same;
}

/* Repeats a loop on whose end all lanes of a warp agree.  An mma role votes: without that ptxas,
 * which takes a uniform branch at its word where it is, keeps descriptors in vector registers
 * (attention backward). */
static void
repeat_together(Lowering *lo, uint32_t head, LirReg goes_on)
{
    if (lo->fn->plan->tmem_columns == 0 || lo->role->kind == ROLE_MMA) {
        lir_branch(&lo->b, head, same_in_warp(lo, goes_on), false);
        return;
    }
    LirOperand label = {.kind = LIR_TARGET_LABEL, .integer = head};
    lir_emit(&lo->b, LIR_BRA_UNI, 0, 1, &label)->guard = goes_on;
}

/* ---- branches that replace a carried value ---- */

/* Whether something behind `op` in its block reads `value`, or what is made of it when asked
 * for. */
static bool
read_behind(const TirOp *op, const TirVal *value, uint32_t depth)
{
    enum { DEEPEST = 12 };
    const TirBlock *block = op->parent;
    bool behind = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *other = block->ops.at[i];
        if (other == op) {
            behind = true;
            continue;
        }
        if (!op_uses_deep(other, value))
            continue;
        if (behind)
            return true;
        bool there = !tir_can_be_again(other);
        for (uint32_t k = 0; !there && k < other->n_results; k++) {
            if (depth == DEEPEST || read_behind(op, other->results[k], depth + 1))
                return true;
        }
    }
    return false;
}

/* The carried value of the loop around `branch` whose registers result `k` may share: one side of
 * the branch yields that value unchanged, and nothing reads it afterwards.  That side then needs no
 * moves, which ptxas would not remove by itself. */
static TirVal *
replaced_by(const Lowering *lo, const TirOp *branch, uint32_t k)
{
    const TirBlock *body = branch->parent;

    if (lo->role == NULL || body->owner == NULL || body->owner->op != TIR_FOR ||
        lower_per_word(branch->results[k]) > 1)
        return NULL;
    for (uint32_t side = 2; side-- > 0;) {
        TirVal *value = block_yield(branch->blocks[side])->args[k];
        bool carried = value->def == NULL && value->block == body && value != body->params.at[0];
        for (uint32_t j = 0; carried && j < branch->n_results; j++) /* the place of one result */
            carried = j == k || (block_yield(branch->blocks[0])->args[j] != value &&
                                 block_yield(branch->blocks[1])->args[j] != value);
        if (carried && !lower_has_home(lo, value) && value->layout == branch->results[k]->layout &&
            !read_behind(branch, value, 0))
            return value;
    }
    return NULL;
}

/* Whether some branch in the loop's body writes the registers of a carried value. */
static bool
is_replaced(const Lowering *lo, const TirBlock *body, const TirVal *param)
{
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        for (uint32_t k = 0; op->op == TIR_IF && k < op->n_results; k++) {
            if (replaced_by(lo, op, k) == param)
                return true;
        }
    }
    return false;
}

/* Whether the iterations of a loop depend on numbers that were loaded. */
static bool
ends_where_loaded(Arena *arena, const TirOp *loop)
{
    bool loaded = false;

    for (uint32_t k = 0; k < loop_first_initial(loop); k++)
        loaded = loaded || tir_is_loaded(arena, loop->args[k]);
    return loaded;
}

/* One run of the loop's body over [iv, hi). */
static void
lower_segment(Lowering *lo, TirOp *loop, LirReg iv, LirOperand hi, const Words *carried)
{
    LirBuilder *b = &lo->b;
    TirBlock *body = loop->blocks[0];
    uint32_t head = lir_new_label(b), end = lir_new_label(b);
    LirReg done = lir_new_reg(b, LIR_PRED);
    LirOperand at_end[] = {lir_reg(done), lir_reg(iv), hi};

    /* Not shared: the segment before has moved iv, and may end at the same place. */
    lir_emit(b, LIR_SETP_GE_S32, 1, 3, at_end);
    /* Every lane counts alike; a loop that may afford it, or that ptxas could not know it of, says
     * so (see lower_if). */
    bool says_so = lo->role != NULL && lo->role->kind != ROLE_PRODUCER &&
                   lo->role->kind != ROLE_CORRECTION &&
                   (!has_own_mma(body) || ends_where_loaded(lo->arena, loop));
    if (says_so)
        done = same_in_warp(lo, done);
    uint32_t borrowed = lo->borrowed.n;
    lir_open(b, true); /* what is hoisted goes before everything here */
    lir_branch(b, end, done, false);
    lir_label(b, head);
    clear_block(lo, body);
    lo->hidden = (HiddenRuns){0};
    uint32_t word = 0;
    lower_set_elem(lo, body->params.at[0], 0, elem_reg(iv));
    for (uint32_t k = 1; k < body->params.n; k++) {
        lower_clear(lo, body->params.at[k]);
        for (int32_t w = 0; w < lower_words(body->params.at[k]); w++)
            set_word_reg(lo, body->params.at[k], w, carried->regs.at[word++]);
    }
    lower_tile_block(lo, body);
    lower_yield(lo, block_yield(body), carried);
    LirOperand step[] = {lir_reg(iv), lir_reg(iv), lir_int(1)};
    lir_emit(b, LIR_ADD_S32, 1, 3, step);
    LirOperand test[] = {lir_reg(lir_new_reg(b, LIR_PRED)), lir_reg(iv), hi};
    lir_emit(b, LIR_SETP_LT_S32, 1, 3, test);
    if (says_so)
        repeat_together(lo, head, test[0].reg);
    else
        lir_branch(b, head, test[0].reg, false);
    lir_close(b);
    lower_forget(lo, borrowed);
    lir_label(b, end);
}

void
lower_section(Lowering *lo, const char *what, Span span)
{
    SourcePlace place = tir_origin(lo->fn, span);

    if (place.file != NULL)
        what = arena_printf(lo->out->arena, "%s, line %u of %s", what, place.line,
                            file_base_name(place.file->path));
    lir_comment(&lo->b, what);
}

static void
lower_for(Lowering *lo, TirOp *op)
{
    LirBuilder *b = &lo->b;
    TirBlock *body = op->blocks[0];
    uint32_t first = loop_first_initial(op), segments = op->n_segments > 1 ? op->n_segments : 1;
    uint32_t depth = b->region->depth + 1, saved = lo->segment;
    Words carried = {0};
    VEC(LirOperand) from = {0};

    force_inputs(lo, body, body);
    uint32_t kept = lower_keep_operands(lo, op);
    for (uint32_t k = first; k < op->n_args; k++) {
        TirVal *initial = op->args[k];
        for (int32_t w = 0; w < lower_words(initial); w++) {
            LirOperand operand = word_operand(lo, initial, w);
            const TirVal *param = body->params.at[k - first + 1];
            bool home = lower_has_home(lo, param);
            LirReg reg = home                           ? lo->homes[param->id][w]
                         : is_replaced(lo, body, param) ? lir_new_home(b, value_class(initial))
                                                        : lir_new_mutable(b, value_class(initial));
            if (!home)
                lo->out->regs.at[reg].depth = depth;
            vec_push(lo->arena, &from, operand);
            vec_push(lo->arena, &carried.regs, reg);
        }
    }
    LirReg iv = lir_new_mutable(b, LIR_B32);
    lo->out->regs.at[iv].depth = depth;
    emit_moves(lo, from.n, carried.regs.at, from.at);
    emit_move(lo, iv, lower_scalar(lo, op->args[0]));
    for (uint32_t s = 0; s < segments; s++) {
        lo->segment = s;
        const char *what = segments == 1 ? "loop"
                                         : arena_printf(lo->out->arena, "loop, segment %u of %u",
                                                        s + 1, segments);
        lower_section(lo, what, op->span);
        LirOperand hi = lower_scalar(lo, op->args[s + 1 == segments ? 1 : 2 + s]);
        lower_segment(lo, op, iv, hi, &carried);
    }
    lo->segment = saved;
    lower_drop_operands(lo, kept);
    if (lo->role != NULL && has_own_mma(body))
        lir_forget(b);
    uint32_t word = 0;
    for (uint32_t k = 0; k < op->n_results; k++) {
        for (int32_t w = 0; w < lower_words(op->results[k]); w++)
            set_word_reg(lo, op->results[k], w, carried.regs.at[word++]);
    }
}

static void
lower_if(Lowering *lo, TirOp *op)
{
    LirBuilder *b = &lo->b;
    Elem condition = lower_elem(lo, op->args[0], 0);
    Words results = {0};

    for (uint32_t k = 0; k < 2; k++)
        force_inputs(lo, op->blocks[k], op->blocks[k]);
    for (uint32_t k = 0; k < op->n_results; k++) {
        bool home = lower_has_home(lo, op->results[k]);
        TirVal *replaced = home ? NULL : replaced_by(lo, op, k);
        for (int32_t w = 0; w < lower_words(op->results[k]); w++) {
            LirReg reg = home               ? lo->homes[op->results[k]->id][w]
                         : replaced != NULL ? word_operand(lo, replaced, w).reg
                                            : lir_new_mutable(b, value_class(op->results[k]));
            vec_push(lo->arena, &results.regs, reg);
            set_word_reg(lo, op->results[k], w, reg);
        }
    }
    if (condition.kind == ELEM_BOOL) {
        TirBlock *taken = op->blocks[condition.integer ? 0 : 1];
        lower_tile_block(lo, taken);
        lower_yield(lo, block_yield(taken), &results);
        return;
    }
    if (lo->role != NULL && lo->role->kind != ROLE_PRODUCER &&
        !op->by_rows) /* rows decide by a vote anyway */
        condition.reg = same_in_warp(lo, condition.reg);
    bool has_else = op->blocks[1]->ops.n > 1 || op->n_results > 0;
    Early early = lower_begin_early(lo, op);
    uint32_t borrowed = lo->borrowed.n;
    uint32_t no = lir_new_label(b), end = has_else ? lir_new_label(b) : no;
    lir_branch(b, no, condition.reg, true);
    lir_open(b, false);
    const TirOp *voted = lo->voted;
    lo->voted = op->args[0]->def;
    lower_tile_block(lo, op->blocks[0]);
    lo->voted = voted;
    lower_yield(lo, block_yield(op->blocks[0]), &results);
    lower_early_again(lo, &early, op->blocks[0]);
    if (has_else)
        lir_branch(b, end, 0, false);
    lir_close(b);
    lower_forget(lo, borrowed);
    if (has_else) {
        lir_label(b, no);
        lir_open(b, false);
        lower_tile_block(lo, op->blocks[1]);
        lower_yield(lo, block_yield(op->blocks[1]), &results);
        lir_close(b);
        lower_forget(lo, borrowed);
    }
    lir_label(b, end);
    lower_end_early(lo, &early);
}

/* ---- operations ---- */

/* Computes a value at its place, into the registers where products go on from it. */
static void
lower_into_home(Lowering *lo, TirVal *value)
{
    int32_t n = lower_registers(value);

    for (int32_t r = 0; r < n; r++) {
        LirReg home = lo->homes[value->id][r];
        emit_move(lo, home, lower_operand(lo, lower_elem(lo, value, r)));
        lower_set_elem(lo, value, r, elem_reg(home));
    }
}

/* Whether products of a role are those of a warp group. */
static bool
has_group_mma(const Lowering *lo)
{
    return target_issuer(lo->px->target) == BY_WARP_GROUP;
}

static void
lower_op(Lowering *lo, TirOp *op)
{
    switch (op->op) {
    case TIR_MMA:
        if (op->async && has_group_mma(lo))
            lower_group_mma(lo, op);
        else
            lower_mma(lo, op);
        break;
    case TIR_MMA_WAIT: {
        LirOperand n = lir_int(op->integer);
        for (uint32_t k = 0; k < op->n_args; k++)
            lower_force(lo, op->args[k]);
        if (op->n_args > 0)
            lower_hold(lo, op->args[0]);
        if (has_group_mma(lo)) /* others are done in line */
            lir_emit(&lo->b, LIR_WGMMA_WAIT, 0, 1, &n);
        break;
    }
    case TIR_CONSUMER_BARRIER: lower_consumer_barrier(lo); break;
    case TIR_TMA_STORE: lower_tma_store(lo, op); break;
    case TIR_STAGING_WRITE: lower_staging_write(lo, op); break;
    case TIR_STAGING_EMPTY: lower_staging_empty(lo); break;
    case TIR_PAIR_SEND: lower_pair_send(lo, op); break;
    case TIR_PAIR_SUM: lower_pair_sum(lo, op); break;
    case TIR_TMA_REDUCE_ADD: lower_tma_reduce_add(lo, op); break;
    case TIR_PINGPONG_WAIT:
    case TIR_PINGPONG_ARRIVE: lower_pingpong(lo, op->op == TIR_PINGPONG_ARRIVE); break;
    case TIR_DELAY: lower_delay(lo, op); break;
    case TIR_NEXT_TILE: lower_next_tile(lo); break;
    case TIR_TILE_FIND:
    case TIR_TILE_SEND:
    case TIR_TILE_RECEIVE:
    case TIR_TILE_TAKE: lower_tile_head(lo, op->op); break;
    case TIR_TILE_ASK: lower_ask_tile(lo); break;
    case TIR_TILE_ADVANCE:
    case TIR_TILE_DRAW:
    case TIR_TILE_ANSWER:
    case TIR_TILE_LATE:
    case TIR_TILE_END: lower_tile_tail(lo, op->op); break;
    case TIR_PRODUCER_ACQUIRE: lower_tmem_wait(lo, op, true); break;
    case TIR_PRODUCER_COMMIT: lower_hand_on(lo, op, false); break;
    case TIR_TMEM_MMA: lower_tmem_mma(lo, op); break;
    case TIR_TMEM_WRITE: lower_tmem_write(lo, op); break;
    case TIR_CONSUMER_WAIT: lower_consumer_wait(lo, op); break;
    case TIR_CONSUMER_RELEASE: lower_consumer_release(lo, op); break;
    case TIR_TMA_LOAD:
        if (lower_fills(lo, op->shared))
            lower_tma_load(lo, op);
        break;
    case TIR_REDUCE:
    case TIR_REDUCE_PART: lower_reduce(lo, op); break;
    case TIR_SCAN:
    case TIR_SCAN_BACK:
    case TIR_SCAN_BY:
    case TIR_SCAN_BY_BACK:
    case TIR_TOTAL_BY: lower_scan(lo, op); break;
    case TIR_SORT: lower_sort(lo, op); break;
    case TIR_LOAD: lower_load(lo, op); break;
    case TIR_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD: tir_fetches(op) ? lower_fetch(lo, op) : lower_store(lo, op); break;
    case TIR_ASYNC_COMMIT: lir_emit(&lo->b, LIR_CP_ASYNC_COMMIT, 0, 0, NULL); break;
    case TIR_ASYNC_WAIT: {
        LirOperand n = lir_int(op->integer);
        lir_emit(&lo->b, LIR_CP_ASYNC_WAIT, 0, 1, &n);
        break;
    }
    case TIR_BARRIER: lower_barrier(lo); break;
    case TIR_SHARED_WRITE: lower_shared_write(lo, op); break;
    case TIR_CONVERT: lower_convert(lo, op); break;
    case TIR_COMBINE: lower_combine(lo, op); break;
    case TIR_FOR: lower_for(lo, op); break;
    case TIR_IF: lower_if(lo, op); break;
    default: /* made when asked for; shared_read: at its uses; yield: by the owner */
        if (op->n_results == 1 && lower_has_home(lo, op->results[0]))
            lower_into_home(lo, op->results[0]);
        else if (op->n_results == 1 && lo->at_once != NULL && lo->at_once[op->results[0]->id])
            lower_at_once(lo, op->results[0]);
        break;
    }
}

/* Copies with nothing between them but values that are made when asked for. */
static void
lower_run_of_copies(Lowering *lo, const TirBlock *block, uint32_t *at)
{
    VEC(TirOp *) run = {0};
    uint32_t last = *at;

    for (uint32_t i = *at; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        if (op->op == TIR_COPY_ASYNC) {
            vec_push(lo->arena, &run, op);
            last = i;
        } else if (!tir_can_be_again(op) || op->op == TIR_CONVERT) {
            break;
        }
    }
    *at = last;
    lower_copies(lo, run.n, run.at);
}

void
lower_tile_block(Lowering *lo, TirBlock *block)
{
    const TirBlock *around = lo->block;

    lo->block = block;
    for (uint32_t i = 0; i < block->ops.n && !lo->failed; i++) {
        TirOp *op = block->ops.at[i];
        lo->b.span = op->span;
        if (op->op == TIR_COPY_ASYNC)
            lower_run_of_copies(lo, block, &i);
        else
            lower_op(lo, op);
    }
    lo->block = around;
}

static void
add_params(Lowering *lo)
{
    TirFn *fn = lo->fn;

    for (uint32_t t = 0; t < fn->tensors.n; t++) {
        const TirTensor *tensor = fn->tensors.at[t];
        lir_add_param(lo->out, LIR_PARAM_POINTER, LIR_B64,
                      arena_printf(lo->out->arena, "%s_t_%s", fn->name, tensor->name), t, 0);
        for (uint32_t d = 0; d + 1 < tensor->rank; d++)
            lir_add_param(lo->out, LIR_PARAM_STRIDE, LIR_B64,
                          arena_printf(lo->out->arena, "%s_s_%s_%u", fn->name, tensor->name, d), t,
                          d);
    }
    for (uint32_t k = 0; k < fn->sizes.n; k++)
        lir_add_param(lo->out, LIR_PARAM_SIZE, LIR_B32,
                      arena_printf(lo->out->arena, "%s_n_%s", fn->name, fn->sizes.at[k].name), k,
                      0);
    for (uint32_t k = 0; k < fn->scalars.n; k++)
        lir_add_param(lo->out, LIR_PARAM_SCALAR, lower_class(fn->scalars.at[k].dtype),
                      arena_printf(lo->out->arena, "%s_p_%s", fn->name, fn->scalars.at[k].name), k,
                      0);
}

/* Before the wait for earlier kernels of the stream only the block's own set-up runs: no memory is
 * touched that they may still read or write.  All blocks of every kernel wait, so a kernel that has
 * ended implies that all earlier ones have, and the next kernel need only wait for this one. */
void
lower_early_start(Lowering *lo)
{
    if (!lo->px->in_sequence || !target_can(lo->px->target, CAN_START_EARLY) ||
        !switch_is_on(lo->px, "early-start"))
        return;
    lir_emit(&lo->b, LIR_GRID_WAIT, 0, 0, NULL);
    lo->out->starts_early = true;
    lir_emit(&lo->b, LIR_GRID_LAUNCH, 0, 0, NULL);
}

/* The program, and in front of it those for launches of even rows. */
static void
lower_programs(Lowering *lo)
{
    LirBuilder *b = &lo->b;
    uint32_t end = 0, least = 0;

    if (b->share && !lo->products) /* what products load is staged */
        least = lower_least_even(lo);
    for (uint32_t unit = 16; least > 0 && unit >= least; unit /= 4) {
        Lowering begin = *lo;
        LirReg even = lower_even_test(lo, unit);
        if (even == 0)
            continue;
        uint32_t other = lir_new_label(b);
        end = end == 0 ? lir_new_label(b) : end;
        lir_branch(b, other, even, true);
        lir_open(b, false);
        lo->even = unit;
        const Layout **dealt = arena_array(lo->arena, const Layout *, lo->fn->next_id + 1);
        bool words = lower_deal_words(lo, dealt);
        lower_tile_block(lo, lo->fn->body);
        if (words)
            lower_change_layouts(lo, dealt);
        lir_branch(b, end, 0, false);
        lir_close(b);
        lir_label(b, other);
        begin.b = lo->b;
        begin.failed = lo->failed;
        begin.states = arena_array(lo->arena, TileState, lo->fn->next_id + 1);
        begin.sides = lower_new_sides(lo->arena, lo->fn);
        begin.least_even = unit;
        *lo = begin;
    }
    lower_tile_block(lo, lo->fn->body);
    if (end != 0)
        lir_label(b, end);
}

static LirFn *
lower_once(PassContext *px, TirFn *fn, bool hoist, bool spare)
{
    Lowering lo = {.px = px, .fn = fn, .whole_sums = spare};

    lo.out = lir_fn_new(px->arena, fn->name);
    lo.out->scratch = lo.arena = px->scratch != NULL ? px->scratch : px->arena;
    ArenaMark begin = arena_mark(lo.arena);
    lo.head = lower_find_head(&lo);
    lo.states = arena_array(lo.arena, TileState, fn->next_id + 1);
    lo.sides = lower_new_sides(lo.arena, fn);
    lo.b.share = switch_is_on(px, "share");
    lo.b.hoist = hoist;
    lo.b.fold = switch_is_on(px, "fold");
    lo.fast = pass_enabled(px, "fuse");
    lo.products = count_mmas(fn->body) > 0;
    lo.out->threads = fn->warps * WARP_LANES;
    lo.out->shared_bytes = fn->shared_bytes;
    add_params(&lo);
    lir_begin(&lo.b, lo.out);
    if (fn->plan != NULL) {
        lower_roles(&lo);
    } else {
        lower_early_start(&lo);
        lower_programs(&lo);
    }
    lir_emit(&lo.b, LIR_RET, 0, 0, NULL);
    lir_end(&lo.b);
    lir_end_work(lo.out, begin);
    lir_remove_dead(lo.out);
    return lo.failed ? NULL : lo.out;
}

/* Whether consumers whose results take most of their registers have given some to a producer that
 * hands out tiles: one register for what advances together matters there.  H200, attention's key
 * gradients, head dimension 128, causal: 1.7 to 2.8 % faster; kernels with registers to spare take
 * from 2.5 % more to 4 % less, with no rule to it (docs/ptxas.md). */
static bool
lacks_registers(const Target *target, const TirPlan *plan)
{
    const TirRole *consumer = plan == NULL ? NULL : tir_role(plan, ROLE_CONSUMER);

    return consumer != NULL && consumer->pressure == 2 && tir_is_dynamic(plan) &&
           consumer->warps == GROUP_WARPS &&
           consumer->registers < target->role_registers[consumer->instances].consumer;
}

/* Hoisted values occupy registers during the loop, so that ptxas spills if the loop itself needs
 * nearly all of them; it hoists by itself as far as it finds room.  Partial sums of lanes make it
 * spill, too: their terms stay alive into the next products, where an exchange between lanes would
 * have forced the sum. */
static LirFn *
lower_and_spare(PassContext *px, TirFn *fn, bool counted)
{
    bool hoist = switch_is_on(px, "hoist"), tight = fn->plan != NULL;
    ArenaMark before = arena_mark(px->arena);
    LirFn *out = lower_once(px, fn, hoist, false);

    if (out != NULL && switch_is_on(px, "merge-registers"))
        lir_merge(out, px->target->merges_opposites, lacks_registers(px->target, fn->plan));
    if (out != NULL && px->target->splits_at_ends && switch_is_on(px, "split-at-ends") &&
        lir_split(out))
        lir_remove_dead(out);
    if (out != NULL && px->target->carries_addresses && switch_is_on(px, "carry-addresses") &&
        lir_carry(out))
        lir_remove_dead(out);
    if (out == NULL || !switch_is_on(px, "spare-registers"))
        return out;
    if (!tight) { /* warp groups share the registers out, and leave none over */
        uint32_t enough = (uint32_t)px->target->registers_per_thread - OTHER_ALIVE;
        if (counted)
            out->need = lir_need(out, enough);
        tight = counted ? out->need.alive > enough : lir_exceeds(out, enough);
        if (tight) { /* nothing is left of the first attempt, which had nothing to say */
            arena_rewind(px->arena, before);
            out = lower_once(px, fn, false, true);
        }
    }
    if (tight && out != NULL) {
        lir_remake(out);
        lir_remove_dead(out);
        if (counted && fn->plan == NULL)
            out->need = lir_need(out, UINT32_MAX);
    }
    return out;
}

LirFn *
lower_kernel(PassContext *px, TirFn *fn, bool counted)
{
    LirFn *out = lower_and_spare(px, fn, counted);

    /* (one that fills its threads' registers without roles spills by it: attention, causal, head
     * dimension 128) */
    if (out != NULL && fn->plan != NULL && px->target->pairs_operands &&
        switch_is_on(px, "pair-registers"))
        lir_pair(out);
    if (out != NULL)
        lir_copy_fragments(out);
    return out;
}
