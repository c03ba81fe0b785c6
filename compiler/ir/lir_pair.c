/* lir_pair.c - what is read in turns lies side by side.
 *
 * A thread's elements of a tile of sums lie in two rows, and multiply-adds of one row and the other
 * take turns.  An operand that differs by row, as the factor and the offset of a softmax do, can
 * stay in the cache of that operand's place, which has an entry for even registers and one for odd
 * ones, if one row's register is even and the other's odd: ptxas says so with .reuse.  It gives
 * both an even one as easily, and reads them again for each second instruction.  What is a register
 * of 64 bits has an even one and the odd one behind it:
 *
 *     mov.f32 a, ..                    mov.f32 a, ..
 *     mov.f32 b, ..                    mov.f32 b, ..          mov.b64 d, {a, b}
 *     ..                               ..
 *     loop:                            loop:                  mov.b64 {a, b}, d
 *       fma x, s, a, ..                  fma x, s, a, ..
 *       fma y, t, b, ..                  fma y, t, b, ..
 *
 * So `d` alone is alive from block to block; ptxas makes no instruction of it.  Only values that a
 * loop or a branch sets are such: others ptxas makes where it likes.
 */
#include "compiler/ir/lir.h"

enum {
    FEWEST_READS = 8,
    PLACES = 4
}; /* of a register by multiply-adds; their operands, the result among them */

typedef struct Pair {
    LirReg reg[2], both;
} Pair;

/* What a block does with the registers of a pair, as places of the function. */
typedef struct Uses {
    uint32_t first,
        last_set; /* its first instruction that has one, behind the last that sets one */
    bool read_first[2], set[2];
    bool any;
} Uses;

typedef struct Pairing {
    LirFn *fn;
    uint32_t *reads; /* by register: of multiply-adds */
    bool *other;     /* by register: something else than a move sets it */
    uint32_t *slot;  /* by register: 1 + 2 * pair + which of both; 0: none */
    VEC(Pair) pairs;
    Uses *uses; /* by pair, of the block */
    VEC(LirBefore) before;
} Pairing;

static bool
ends_block(const LirInsn *insn)
{
    return insn->op == LIR_BRA || insn->op == LIR_BRA_UNI || insn->op == LIR_RET;
}

/* ---- which ---- */

static void
count_reads(Pairing *p)
{
    const LirFn *fn = p->fn;

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        for (uint32_t k = 0; k < insn->n_dst; k++)
            p->other[insn->operands[k].reg] |= insn->op != LIR_MOV_F32 || insn->guard != 0;
        for (uint32_t k = insn->n_dst; insn->op == LIR_FMA_F32 && k < insn->n; k++)
            p->reads[insn->operands[k].reg]++;
    }
}

static bool
may_pair(const Pairing *p, LirReg reg)
{
    return reg != 0 && p->fn->regs.at[reg].is_mutable && p->fn->regs.at[reg].class == LIR_F32 &&
           !p->other[reg] && p->reads[reg] >= FEWEST_READS;
}

/* Registers that follow one another as the same operand of multiply-adds. */
static void
find_pairs(Pairing *p)
{
    const LirFn *fn = p->fn;
    LirReg last[PLACES] = {0};

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->op == LIR_LABEL || ends_block(insn)) {
            for (uint32_t k = 0; k < PLACES; k++)
                last[k] = 0;
        }
        for (uint32_t k = 1; insn->op == LIR_FMA_F32 && k < PLACES; k++) {
            LirReg reg = insn->operands[k].kind == LIR_REG ? insn->operands[k].reg : 0;
            if (!may_pair(p, reg))
                continue;
            if (last[k] != 0 && last[k] != reg && p->slot[reg] == 0 && p->slot[last[k]] == 0) {
                p->slot[last[k]] = 1 + 2 * p->pairs.n;
                p->slot[reg] = 2 + 2 * p->pairs.n;
                vec_push(fn->scratch, &p->pairs, ((Pair){.reg = {last[k], reg}}));
            }
            last[k] = reg;
        }
    }
}

/* ---- in each block ---- */

static void
put(Pairing *p, uint32_t at, const Pair *pair, bool pack)
{
    LirFn *fn = p->fn;
    LirInsn *insn = arena_new(fn->arena, LirInsn);

    insn->op = pack ? LIR_PACK_B64 : LIR_UNPACK_B64;
    insn->n = 3;
    insn->n_dst = pack ? 1 : 2;
    insn->operands = arena_array(fn->arena, LirOperand, 3);
    insn->operands[pack ? 0 : 2] = lir_reg(pair->both);
    for (uint32_t k = 0; k < 2; k++)
        insn->operands[k + pack] = lir_reg(pair->reg[k]);
    insn->span = fn->insns.at[at]->span;
    lir_note_op(fn, insn->op);
    vec_push(fn->scratch, &p->before, ((LirBefore){at, insn}));
    for (uint32_t i = p->before.n - 1; i > 0 && p->before.at[i - 1].at > at; i--) {
        LirBefore later = p->before.at[i - 1];
        p->before.at[i - 1] = p->before.at[i];
        p->before.at[i] = later;
    }
}

static void
note(Pairing *p, uint32_t at, LirReg reg, bool sets)
{
    if (p->slot[reg] == 0)
        return;
    uint32_t k = (p->slot[reg] - 1) % 2;
    Uses *uses = &p->uses[(p->slot[reg] - 1) / 2];
    if (!uses->any)
        uses->first = at;
    uses->any = true;
    uses->read_first[k] |= !sets && !uses->set[k];
    uses->set[k] |= sets;
    if (sets)
        uses->last_set = at + 1;
}

/* Has `both` taken apart before a block's first use, unless it sets each before it reads it, and
 * put together behind the last that sets one. */
static void
end_block(Pairing *p)
{
    for (uint32_t k = 0; k < p->pairs.n; k++) {
        Uses *uses = &p->uses[k];
        bool sets = uses->set[0] || uses->set[1];
        if (uses->read_first[0] || uses->read_first[1] || uses->set[0] != uses->set[1])
            put(p, uses->first, &p->pairs.at[k], false);
        if (sets)
            put(p, uses->last_set, &p->pairs.at[k], true);
        *uses = (Uses){0};
    }
}

static void
walk_blocks(Pairing *p)
{
    const LirFn *fn = p->fn;

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        if (insn->op == LIR_LABEL)
            end_block(p);
        note(p, i, insn->guard, false);
        for (uint32_t k = insn->n_dst; k < insn->n; k++)
            note(p, i, insn->operands[k].reg, false);
        for (uint32_t k = 0; k < insn->n_dst; k++)
            note(p, i, insn->operands[k].reg, true);
        if (ends_block(insn))
            end_block(p);
    }
    end_block(p);
}

void
lir_pair(LirFn *fn)
{
    ArenaMark begin = arena_mark(fn->scratch);
    Pairing p = {.fn = fn,
                 .reads = arena_array(fn->scratch, uint32_t, fn->regs.n),
                 .other = arena_array(fn->scratch, bool, fn->regs.n),
                 .slot = arena_array(fn->scratch, uint32_t, fn->regs.n)};

    count_reads(&p);
    find_pairs(&p);
    if (p.pairs.n > 0) {
        p.uses = arena_array(fn->scratch, Uses, p.pairs.n);
        for (uint32_t k = 0; k < p.pairs.n; k++) {
            LirRegInfo info = {.class = LIR_B64, .is_mutable = true};
            p.pairs.at[k].both = fn->regs.n;
            vec_push(fn->arena, &fn->regs, info);
        }
        walk_blocks(&p);
        lir_insert(fn, p.before.at, p.before.n);
    }
    lir_end_work(fn, begin);
}
