/* lir_fragments.c - operands in registers of products in flight are left alone.
 *
 * From a wgmma on to the wgmma.wait_group that covers it, no other instruction may access the
 * registers of its operand A (PTX ISA, "Asynchronous wgmma operations"); other products may read
 * them.  The builder makes a pure instruction once, so that a word of an operand may be what
 * arithmetic behind the product reads.  Of such a word the product gets a copy, made before its
 * fence.
 */
#include <string.h>

#include "compiler/ir/lir.h"

enum {
    WORDS = 4, /* of an operand, in one instruction */
    LANDED = UINT8_MAX
};

typedef struct Product {
    LirInsn *insn;
    uint32_t fence; /* where the fence before it stands */
    uint32_t
        /* 1 + WORDS * product + word of another operand in the same register; 0: none */
        next[WORDS];
    bool copied[WORDS];
} Product;

typedef struct Copy {
    uint32_t at; /* before this instruction */
    LirReg from, to;
} Copy;

typedef struct Fragments {
    LirFn *fn;
    VEC(Product) products;
    uint32_t *operand; /* by register: as Product.next */
    /* by product: groups committed since its issue, its own among them, on the way that has the
     * fewest; LANDED: a wait has covered it on every way */
    uint8_t *now;
    uint8_t **labels;     /* by label, the same */
    bool changed;         /* at some label */
    VEC(Copy) copies;     /* by position */
    VEC(LirBefore) moves; /* that make them, in the same order */
} Fragments;

static LirReg *
word_of(const Product *product, uint32_t k)
{
    return &product->insn->operands[product->insn->n_dst + k].reg;
}

static void
find_products(Fragments *f)
{
    LirFn *fn = f->fn;
    uint32_t fence = 0;

    f->operand = arena_array(fn->scratch, uint32_t, fn->regs.n);
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        if (fn->insns.at[i]->op == LIR_WGMMA_FENCE)
            fence = i;
        if (fn->insns.at[i]->op != LIR_WGMMA_RS)
            continue;
        Product product = {.insn = fn->insns.at[i], .fence = fence};
        for (uint32_t k = 0; k < WORDS; k++) {
            uint32_t *first = &f->operand[*word_of(&product, k)];
            product.next[k] = *first;
            *first = 1 + WORDS * f->products.n + k;
        }
        vec_push(fn->scratch, &f->products, product);
    }
}

/* ---- what is in flight ---- */

static void
land_all(Fragments *f)
{
    memset(f->now, LANDED, f->products.n);
}

static void
flow_to(Fragments *f, int64_t label)
{
    for (uint32_t k = 0; k < f->products.n; k++) {
        if (f->now[k] < f->labels[label][k]) {
            f->labels[label][k] = f->now[k];
            f->changed = true;
        }
    }
}

static void
touch(Fragments *f, LirReg reg)
{
    for (uint32_t at = f->operand[reg]; reg != 0 && at != 0;) {
        Product *product = &f->products.at[(at - 1) / WORDS];
        uint32_t k = (at - 1) % WORDS;
        if (f->now[(at - 1) / WORDS] != LANDED)
            product->copied[k] = true;
        at = product->next[k];
    }
}

static void
step(Fragments *f, const LirInsn *insn, uint32_t *issued)
{
    switch (insn->op) {
    case LIR_LABEL:
        flow_to(f, insn->operands[0].integer);
        memcpy(f->now, f->labels[insn->operands[0].integer], f->products.n);
        return;
    case LIR_WGMMA_SS: return;
    case LIR_WGMMA_RS: f->now[(*issued)++] = 0; return;
    case LIR_WGMMA_COMMIT:
        for (uint32_t k = 0; k < f->products.n; k++)
            f->now[k] = f->now[k] < LANDED - 1 ? (uint8_t)(f->now[k] + 1) : f->now[k];
        return;
    case LIR_WGMMA_WAIT:
        for (uint32_t k = 0; k < f->products.n; k++)
            f->now[k] = f->now[k] > insn->operands[0].integer ? LANDED : f->now[k];
        return;
    default: break;
    }
    touch(f, insn->guard);
    for (uint32_t k = 0; k < insn->n; k++)
        touch(f, insn->operands[k].reg);
    if (insn->op == LIR_BRA || insn->op == LIR_BRA_UNI)
        flow_to(f, insn->operands[0].integer);
    if ((insn->op == LIR_BRA || insn->op == LIR_BRA_UNI || insn->op == LIR_RET) && insn->guard == 0)
        land_all(f);
}

static void
find_touched(Fragments *f)
{
    LirFn *fn = f->fn;

    f->now = arena_array(fn->scratch, uint8_t, f->products.n);
    f->labels = arena_array(fn->scratch, uint8_t *, fn->labels + 1);
    for (uint32_t k = 0; k <= fn->labels; k++) {
        f->labels[k] = arena_array(fn->scratch, uint8_t, f->products.n);
        memset(f->labels[k], LANDED, f->products.n);
    }
    do {
        uint32_t issued = 0;
        f->changed = false;
        land_all(f);
        for (uint32_t i = 0; i < fn->insns.n; i++)
            step(f, fn->insns.at[i], &issued);
    } while (f->changed);
}

/* ---- copies ---- */

static LirReg
copy_of(Fragments *f, LirReg reg, const Product *product)
{
    LirFn *fn = f->fn;

    for (uint32_t k = f->copies.n; k-- > 0 && f->copies.at[k].at == product->fence;) {
        if (f->copies.at[k].from == reg)
            return f->copies.at[k].to;
    }
    LirRegInfo info = {.class = LIR_B32, .depth = fn->regs.at[reg].depth};
    vec_push(fn->arena, &fn->regs, info);
    LirReg to = fn->regs.n - 1;
    LirOperand operands[] = {lir_reg(to), lir_reg(reg)};
    LirInsn move = {.op = LIR_MOV_B32, .n = 2, .n_dst = 1, .span = product->insn->span};
    move.operands = arena_copy(fn->arena, operands, sizeof operands);
    Copy copy = {product->fence, reg, to};
    LirBefore before = {product->fence, arena_copy(fn->arena, &move, sizeof move)};
    vec_push(fn->scratch, &f->copies, copy);
    vec_push(fn->scratch, &f->moves, before);
    return to;
}

void
lir_copy_fragments(LirFn *fn)
{
    ArenaMark begin = arena_mark(fn->scratch);
    Fragments f = {.fn = fn};

    if (!lir_may_have(fn, LIR_WGMMA_RS))
        return;
    find_products(&f);
    if (f.products.n > 0)
        find_touched(&f);
    for (uint32_t i = 0; i < f.products.n; i++) {
        const Product *product = &f.products.at[i];
        for (uint32_t k = 0; k < WORDS; k++) {
            if (product->copied[k])
                *word_of(product, k) = copy_of(&f, *word_of(product, k), product);
        }
    }
    if (f.moves.n > 0)
        lir_insert(fn, f.moves.at, f.moves.n);
    lir_end_work(fn, begin);
}
