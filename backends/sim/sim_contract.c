/* sim_contract.c - a product that is added to something, rounded once.
 *
 * Additions and multiplications without a rounding modifier round to nearest, and "may be optimized
 * aggressively by the code optimizer": ptxas makes one multiply-add of a product and a sum wherever
 * neither says .rn, at -O0, too (PTX ISA 9.7.3, 9.7.4). A program must be right both ways.  Pairs
 * of instructions are found when a function is decoded, and each launch draws which of them are
 * one: seed 0 those that ptxas makes one of, whose product is read by such sums alone; seed 1 none;
 * any other each by itself.
 *
 * A pair lies in a basic block, so that whatever reads the product has it of that multiplication;
 * copies and changes of sign may be between.  The product's own result stays for its other readers.
 */
#include "sim_contract.h"

enum { ROW = 128, OPERANDS = 2 };

/* What a sum is where it is one with a product. */
typedef struct Together {
    SimInsn fma;
    bool turned[3];   /* operands whose sign is turned first, .. */
    SimSlot place[3]; /* .. and where they lie then */
} Together;

struct SimContraction {
    SimInsn *sum;
    SimExec apart;
    const bool *read_elsewhere[OPERANDS]; /* whether the product has other readers, too */
    const Together *ways[OPERANDS];       /* by which operand is the product; NULL: it is none */
};

/* A multiplication whose factors are overwritten before its product is added. */
typedef struct Keeping {
    SimExec multiply;
    SimSlot place[OPERANDS];
} Keeping;

/* What a register holds, within a block. */
typedef struct Held {
    uint32_t block;
    SimInsn *product;
    bool turned;
} Held;

typedef struct Finder {
    SimModule *mod;
    SimFunction *fn;
    Held *held;        /* by row of the registers */
    uint32_t *written; /* likewise: 1 + the last instruction that wrote it */
    /* by instruction: a product that other instructions read than sums of its block */
    bool *elsewhere;
    uint32_t block;
} Finder;

/* ------------------------------------------------------------------------ running */

static uint64_t
sign_bits(SimType type)
{
    switch (type) {
    case SIM_F16:
    case SIM_BF16: return 0x8000;
    case SIM_F16X2:
    case SIM_BF16X2: return 0x80008000;
    case SIM_F32: return 0x80000000;
    case SIM_F32X2: return UINT64_C(0x8000000080000000);
    default: return UINT64_C(0x8000000000000000);
    }
}

static void
copy_row(SimWarp *warp, SimType type, SimSlot to, SimSlot from, uint64_t turned, uint32_t mask)
{
    uint64_t wide[SIM_LANES];
    uint32_t narrow[SIM_LANES];
    if (sim_type_info(type)->bits == 64) {
        for (int l = 0; l < SIM_LANES; l++)
            wide[l] = sim_r64(warp, from)[l] ^ turned;
        sim_put64(warp, to, wide, mask);
    } else {
        for (int l = 0; l < SIM_LANES; l++)
            narrow[l] = sim_r32(warp, from)[l] ^ (uint32_t)turned;
        sim_put32(warp, to, narrow, mask);
    }
}

static SimStep
keeping(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Keeping *k = insn->data;
    for (uint32_t i = 0; i < OPERANDS; i++)
        copy_row(warp, (SimType)insn->type, k->place[i], insn->slot[i + 1], 0, mask);
    return k->multiply(warp, insn, mask);
}

static SimStep
together(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Together *t = insn->data;
    uint64_t sign = sign_bits((SimType)insn->type);
    for (uint32_t i = 0; i < 3; i++)
        if (t->turned[i])
            copy_row(warp, (SimType)insn->type, t->fma.slot[i + 1], t->place[i], sign, mask);
    return t->fma.exec(warp, &t->fma, mask);
}

void
sim_contract_draw(const SimModule *mod, uint64_t seed)
{
    for (size_t i = 0; i < mod->contraction_count; i++) {
        const SimContraction *c = &mod->contractions[i];
        SimRandom random = {seed * UINT64_C(0x2545f4914f6cdd1d) + c->sum->index};
        uint64_t drawn = sim_random(&random);
        bool may[OPERANDS];
        for (uint32_t k = 0; k < OPERANDS; k++)
            may[k] = c->ways[k] && seed != 1 &&
                     (seed == 0 ? !*c->read_elsewhere[k] : (drawn & 2) != 0);
        uint32_t first = seed == 0 ? 0 : drawn & 1, way = may[first] ? first : 1 - first;
        c->sum->exec = may[way] ? together : c->apart;
        c->sum->data = c->ways[way];
    }
}

/* ------------------------------------------------------------------------ finding */

static Held *
held_at(const Finder *f, SimSlot slot)
{
    Held *held = (slot & 3) == SIM_BANK_REGISTERS && slot != SIM_NO_SLOT ? &f->held[slot / ROW]
                                                                         : NULL;
    return held && held->block == f->block ? held : NULL;
}

/* A register of its own. */
static SimSlot
new_place(const Finder *f, SimType type)
{
    SimSlot place = f->fn->register_bytes | SIM_BANK_REGISTERS;
    f->fn->register_bytes += sim_type_info(type)->bits == 64 ? 2 * ROW : ROW;
    return place;
}

/* Where the factors of a product are when it is added. */
static const SimSlot *
factors(const Finder *f, SimInsn *product)
{
    bool same = true;
    for (uint32_t i = 1; i <= OPERANDS; i++)
        same = same && ((product->slot[i] & 3) != SIM_BANK_REGISTERS ||
                        f->written[product->slot[i] / ROW] <= product - f->fn->insns);
    if (same && !product->data)
        return product->slot + 1;
    if (!product->data) {
        Keeping *k = sim_arena_alloc(&f->mod->arena, sizeof *k);
        k->multiply = product->exec;
        for (uint32_t i = 0; i < OPERANDS; i++)
            k->place[i] = new_place(f, (SimType)product->type);
        product->exec = keeping;
        product->data = k;
    }
    return ((const Keeping *)product->data)->place;
}

static const Together *
way_of(const Finder *f, const SimInsn *sum, uint32_t operand, const Held *held)
{
    Together *t = sim_arena_alloc(&f->mod->arena, sizeof *t);
    bool subtracts = sim_float_subtracts(sum);
    const SimSlot *of = factors(f, held->product);
    t->fma = sim_float_contracted(sum);
    t->fma.slot = sim_arena_alloc(&f->mod->arena, 4 * sizeof *t->fma.slot);
    t->fma.slot_count = 4;
    t->place[0] = of[0];
    t->place[1] = of[1];
    t->place[2] = sum->slot[2 - operand];
    t->turned[0] = held->turned != (subtracts && operand == 1);
    t->turned[2] = subtracts && operand == 0;
    t->fma.slot[0] = sum->slot[0];
    for (uint32_t i = 0; i < 3; i++)
        t->fma.slot[i + 1] = t->turned[i] ? new_place(f, (SimType)sum->type) : t->place[i];
    return t;
}

static void
find_pair(const Finder *f, SimInsn *sum)
{
    SimContraction c = {.sum = sum, .apart = sum->exec};
    for (uint32_t i = 0; i < OPERANDS; i++) {
        const Held *held = held_at(f, sum->slot[i + 1]);
        if (!held || !sim_float_contracts(held->product, sum))
            continue;
        c.ways[i] = way_of(f, sum, i, held);
        c.read_elsewhere[i] = &f->elsewhere[held->product - f->fn->insns];
    }
    if (!c.ways[0] && !c.ways[1])
        return;
    SimModule *mod = f->mod;
    mod->contractions = sim_arena_grow(&mod->arena, mod->contractions, mod->contraction_count,
                                       &mod->contraction_capacity, sizeof *mod->contractions);
    mod->contractions[mod->contraction_count++] = c;
}

/* Where a basic block begins. */
static bool *
blocks(const Finder *f)
{
    bool *begins = sim_arena_alloc(&f->mod->arena, (f->fn->insn_count + 1) * sizeof *begins);
    for (uint32_t i = 0; i < f->fn->insn_count; i++) {
        const SimInsn *insn = &f->fn->insns[i];
        const uint32_t *table = insn->data;
        bool jumps = strncmp(insn->mnemonic, "bra", 3) == 0,
             chooses = strncmp(insn->mnemonic, "brx", 3) == 0;
        begins[i + 1] |= jumps || chooses;
        if (jumps)
            begins[insn->target] = true;
        for (int64_t k = 0; chooses && k < insn->imm; k++)
            begins[table[k]] = true;
    }
    return begins;
}

/* What reads a product and is no sum that it may be one with. */
static void
note_readers(const Finder *f, const SimInsn *insn)
{
    if (insn->contracts == SIM_COPY || insn->contracts == SIM_NEGATION)
        return;
    for (uint32_t i = insn->destination_count; i < insn->slot_count; i++) {
        SimSlot slot = insn->slot[i];
        if ((slot & 3) != SIM_BANK_REGISTERS || slot == SIM_NO_SLOT)
            continue;
        const Held *held = &f->held[slot / ROW];
        bool sum = held->block == f->block && insn->contracts == SIM_SUM &&
                   sim_float_contracts(held->product, insn) && insn->slot[1] != insn->slot[2];
        if (held->product && !sum)
            f->elsewhere[held->product - f->fn->insns] = true;
    }
}

static void
find_in(SimModule *mod, SimFunction *fn, const PtxWrite *write, const PtxWrite *end)
{
    bool some[SIM_NEGATION + 1] = {false};
    for (uint32_t i = 0; i < fn->insn_count; i++)
        some[fn->insns[i].contracts] = true;
    if (!some[SIM_PRODUCT] || !some[SIM_SUM])
        return;
    Finder f = {.mod = mod, .fn = fn, .block = 1};
    size_t rows = fn->register_bytes / ROW + 1;
    f.held = sim_arena_alloc(&f.mod->arena, rows * sizeof *f.held);
    f.written = sim_arena_alloc(&f.mod->arena, rows * sizeof *f.written);
    f.elsewhere = sim_arena_alloc(&f.mod->arena, fn->insn_count * sizeof *f.elsewhere);
    const bool *begins = blocks(&f);
    for (uint32_t i = 0; i < fn->insn_count; i++) {
        SimInsn *insn = &fn->insns[i];
        f.block += begins[i];
        note_readers(&f, insn);
        if (insn->contracts == SIM_SUM)
            find_pair(&f, insn);
        Held now = {f.block, insn, false};
        bool known = insn->contracts == SIM_PRODUCT;
        if (insn->contracts == SIM_COPY || insn->contracts == SIM_NEGATION) {
            const Held *held = held_at(&f, insn->slot[1]);
            known = held != NULL;
            if (known)
                now = (Held){f.block, held->product,
                             held->turned != (insn->contracts == SIM_NEGATION)};
        }
        for (; write < end && write->insn == insn->index; write++) {
            f.held[write->slot / ROW] = (Held){0};
            f.written[write->slot / ROW] = i + 1;
        }
        if (known && insn->guard == SIM_NO_SLOT && insn->slot[0] != SIM_NO_SLOT)
            f.held[insn->slot[0] / ROW] = now;
    }
}

void
sim_contract_find(const PtxFile *file)
{
    const PtxWrite *write = file->write, *end = write + file->write_count;
    for (size_t i = 0; write && i < file->function_count; i++) {
        SimFunction *fn = file->function[i].function;
        while (write < end && write->insn < fn->insns[0].index)
            write++;
        if (!fn->refused)
            find_in(file->mod, fn, write, end);
    }
}
