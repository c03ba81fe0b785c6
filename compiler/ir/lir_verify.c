/* lir_verify.c - what must hold of lane IR: parameters, operand classes, labels, one assignment a
 * register, and a definition on every path to a use.
 */
#include <string.h>

#include "compiler/ir/lir.h"

/* One letter an operand: p, h, r, f, d, q a register of the class (or an immediate); w 32 bits of
 * either kind; s, g the register of an address in shared or global memory; n anything. */
typedef struct Signature {
    LirOpcode op;
    const char *classes;
} Signature;

/* Those that do not follow from the last type of the mnemonic. */
static const Signature signatures[] = {
    {LIR_BRA, "n"},
    {LIR_BRA_UNI, "n"},
    {LIR_LABEL, "n"},
    {LIR_MOV_B32, "rw"},
    {LIR_MOV_F32, "fw"},
    {LIR_PACK_B32, "rhh"},
    {LIR_UNPACK_B32, "hhr"},
    {LIR_MOV_B16, "hn"},
    {LIR_LD_PARAM_B64, "dn"},
    {LIR_LD_PARAM_B32, "rn"},
    {LIR_LD_PARAM_F32, "fn"},
    {LIR_CVTA_GLOBAL, "dd"},
    {LIR_SEL_B32, "rrrp"},
    {LIR_SEL_F32, "fffp"},
    {LIR_MUL_WIDE, "drr"},
    {LIR_MAD_WIDE, "drrd"},
    {LIR_SHL_B64, "ddr"},
    {LIR_CVT_S64_S32, "dr"},
    {LIR_CVT_U32_U64, "rd"},
    {LIR_CVT_BF16X2_F32, "rff"},
    {LIR_CVT_F16X2_F32, "rff"},
    {LIR_CVT_F32_F16, "fh"},
    {LIR_CVT_E4M3X2_F32, "hff"},
    {LIR_CVT_E5M2X2_F32, "hff"},
    {LIR_CVT_F16X2_E4M3X2, "rh"},
    {LIR_MMA, "ffffrrrrrrffff"},
    {LIR_MMA_S32, "rrrrrrrrrrrrrr"},
    {LIR_MMA_SCALED, "ffffrrrrrrffffrnnrnn"},
    {LIR_RED_ADD_F16, "gh"},
    {LIR_RED_ADD_BF16, "gh"},
    {LIR_RED_ADD_F16X2, "gr"},
    {LIR_RED_ADD_BF16X2, "gr"},
    {LIR_RED_ADD_V2_F16X2, "grr"},
    {LIR_RED_ADD_V4_F16X2, "grrrr"},
    {LIR_RED_ADD_V2_BF16X2, "grr"},
    {LIR_RED_ADD_V4_BF16X2, "grrrr"},
    {LIR_ATOM_CAS_B16, "hghh"},
    {LIR_ATOM_CAS_B32, "rgrr"},
    {LIR_CP_ASYNC_16, "sgr"},
    {LIR_CP_ASYNC_16_FULL, "sg"},
    {LIR_CP_ASYNC_8, "sgr"},
    {LIR_CP_ASYNC_4, "sgr"},
    {LIR_CP_ASYNC_WAIT, "n"},
    {LIR_BAR_SYNC, "n"},
    {LIR_BAR_WARP_SYNC, "n"},
    {LIR_ELECT, "p"},
    {LIR_BAR_RED_OR_SOME, "prrp"},
    {LIR_BAR_RED_AND_SOME, "prrp"},
    {LIR_WGMMA_WAIT, "n"},
    {LIR_TMEM_ALLOC, "sn"},
    {LIR_TMEM_DEALLOC, "rn"},
    {LIR_TMEM_MMA_SS, "sddrp"},
    {LIR_TMEM_MMA_TS, "ssdrp"},
    {LIR_TMEM_MMA_SCALED, "sddrssp"},
    {LIR_TMEM_COPY, "sd"},
    {LIR_TMEM_COMMIT, "s"},
    {LIR_TMEM_ALLOC_PAIR, "sn"},
    {LIR_TMEM_DEALLOC_PAIR, "rn"},
    {LIR_TMEM_COMMIT_PAIR, "sh"},
    {LIR_BULK_WAIT, "n"},
    {LIR_BULK_WAIT_READ, "n"},
    {LIR_MBARRIER_INIT, "sr"},
    {LIR_MBARRIER_TEST_WAIT, "psr"},
    {LIR_MBARRIER_TRY_WAIT, "psr"},
    {LIR_MBARRIER_TRY_WAIT_PAIR, "psr"},
    {LIR_MBARRIER_TRY_WAIT_BOTH, "psr"},
    {LIR_MBARRIER_EXPECT_TX, "sr"},
    {LIR_ST_ASYNC_V4, "swwwws"},
    {LIR_MAP_ADDRESS, "dn"},
    {LIR_PACK_B64, "dww"},
    {LIR_UNPACK_B64, "wwd"},
    {LIR_ADD_F32X2, "ddd"},
    {LIR_ADD_DOWN_F32X2, "ddd"},
    {LIR_SUB_F32X2, "ddd"},
    {LIR_MUL_F32X2, "ddd"},
    {LIR_FMA_F32X2, "dddd"},
    {LIR_ATOM_ADD_U32, "rgr"},
    {LIR_ATOM_ADD_F32, "fgf"},
    {LIR_ATOM_MAX_S32, "rgr"},
    {LIR_ATOM_MIN_S32, "rgr"},
    {LIR_ATOM_MAX_U32, "rgr"},
    {LIR_ATOM_MIN_U32, "rgr"},
    {LIR_ATOM_INC_U32, "rgr"},
    {LIR_ATOM_EXCH_B32, "rgr"},
    {LIR_LAUNCH_TRY_CANCEL, "ss"},
    {LIR_LAUNCH_TRY_CANCEL_BOTH, "ss"},
    {LIR_LD_SHARED_B128, "qs"},
    {LIR_LAUNCH_IS_CANCELED, "pq"},
    {LIR_LAUNCH_FIRST_X, "rq"},
    {LIR_PREFETCH_MAP, "g"},
    {LIR_TENSOR_LOAD_1, "sdrs"},
    {LIR_TENSOR_LOAD_2, "sdrrs"},
    {LIR_TENSOR_LOAD_3, "sdrrrs"},
    {LIR_TENSOR_LOAD_4, "sdrrrrs"},
    {LIR_TENSOR_LOAD_5, "sdrrrrrs"},
    {LIR_TENSOR_LOAD_PAIR_1, "sdrs"},
    {LIR_TENSOR_LOAD_PAIR_2, "sdrrs"},
    {LIR_TENSOR_LOAD_PAIR_3, "sdrrrs"},
    {LIR_TENSOR_LOAD_PAIR_4, "sdrrrrs"},
    {LIR_TENSOR_LOAD_PAIR_5, "sdrrrrrs"},
    {LIR_TENSOR_LOAD_OWN_1, "sdrs"},
    {LIR_TENSOR_LOAD_OWN_2, "sdrrs"},
    {LIR_TENSOR_LOAD_OWN_3, "sdrrrs"},
    {LIR_TENSOR_LOAD_OWN_4, "sdrrrrs"},
    {LIR_TENSOR_LOAD_OWN_5, "sdrrrrrs"},
    {LIR_TMA_REDUCE_ADD_1, "drs"},
    {LIR_TMA_REDUCE_ADD_2, "drrs"},
    {LIR_TMA_REDUCE_ADD_3, "drrrs"},
    {LIR_TMA_REDUCE_ADD_4, "drrrrs"},
    {LIR_TMA_REDUCE_ADD_5, "drrrrrs"},
    {LIR_TMA_STORE_1, "drs"},
    {LIR_TMA_STORE_2, "drrs"},
    {LIR_TMA_STORE_3, "drrrs"},
    {LIR_TMA_STORE_4, "drrrrs"},
    {LIR_TMA_STORE_5, "drrrrrs"},
};

typedef struct Block {
    uint32_t first, end; /* instructions */
    uint32_t next[2];    /* blocks that may follow; UINT32_MAX: none */
    uint64_t *in, *out;  /* registers that are set on every path; `out` NULL: not reached yet */
} Block;

typedef struct Checker {
    const LirFn *fn;
    Arena *arena;
    Buf *out;
    uint32_t words;     /* of a set of registers */
    uint32_t *assigned; /* how often, by register */
    uint32_t *places;   /* instruction of each label, plus one */
    VEC(Block) blocks;
    uint32_t faults;
} Checker;

enum { MOST_FAULTS = 20 };

static void
fault(Checker *c, uint32_t at, const char *what)
{
    if (c->faults++ >= MOST_FAULTS)
        return;
    buf_printf(c->out, "%s, instruction %u: %s: ", c->fn->name, at, what);
    LirText text;
    lir_text_begin(&text, c->fn, c->out->arena, c->out);
    lir_print_insn(&text, c->fn->insns.at[at], 0);
}

/* ---- classes ---- */

static char
letter_of(LirClass class)
{
    return "phrfdq"[class];
}

/* The class that the last type of a mnemonic stands for, or the one before. */
static char
letter_of_type(const char *mnemonic, bool last)
{
    const char *dot = strrchr(mnemonic, '.');

    while (!last && dot != NULL && dot > mnemonic && *--dot != '.') {
    }
    const char *type = dot == NULL ? "" : dot + 1;
    if (strcmp(type, "pred") == 0)
        return 'p';
    if (strcmp(type, "f32") == 0 || strncmp(type, "f32.", 4) == 0)
        return 'f';
    if (strstr(type, "64") != NULL)
        return 'd';
    if (strcmp(type, "u16") == 0 || strcmp(type, "u8") == 0)
        return 'h';
    return 'r';
}

static char
wanted(const LirInsn *insn, uint32_t k)
{
    const char *mnemonic = lir_op_info(insn->op)->mnemonic;

    if (insn->op == LIR_WGMMA_SS || insn->op == LIR_WGMMA_RS) {
        const char *rest = insn->op == LIR_WGMMA_SS ? "ddnnnrr" : "rrrrdnnnr";
        uint32_t at = k - insn->n_dst;
        if (k < insn->n_dst)
            return insn->text != NULL && strstr(insn->text, ".s32.") != NULL ? 'r' : 'f';
        return at < strlen(rest) ? rest[at] : '?';
    }
    if (insn->op == LIR_TMEM_LD)
        return k < insn->n_dst ? 'w' : 's';
    if (insn->op == LIR_TMEM_ST)
        return k == 0 ? 's' : 'w';
    for (uint32_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        if (signatures[i].op == insn->op)
            return k < strlen(signatures[i].classes) ? signatures[i].classes[k] : '?';
    }
    if (insn->operands[k].kind == LIR_ADDRESS)
        return strstr(mnemonic, "shared") != NULL ? 's' : 'g';
    if (strncmp(mnemonic, "setp.", 5) == 0 && k == 0)
        return 'p';
    char letter = letter_of_type(mnemonic, k > 0 || strncmp(mnemonic, "cvt.", 4) != 0);
    bool moves = strncmp(mnemonic, "st.", 3) == 0 || strncmp(mnemonic, "ld.", 3) == 0 ||
                 strncmp(mnemonic, "shfl.", 5) == 0;
    return moves && letter == 'r' ? 'w' : letter;
}

static bool
fits(const Checker *c, const LirOperand *operand, char want)
{
    char have;

    switch (operand->kind) {
    case LIR_INT: return strchr("rdwn", want) != NULL;
    case LIR_FLOAT: return want == 'f' || want == 'w';
    case LIR_SYMBOL: return strchr("rdwn", want) != NULL;
    case LIR_TARGET_LABEL: return want == 'n';
    case LIR_ADDRESS:
        if (operand->symbol != NULL)
            return want == 'n' || want == 's';
        have = letter_of(c->fn->regs.at[operand->reg].class);
        return (want == 's' && have == 'r') || (want == 'g' && have == 'd');
    case LIR_REG: break;
    }
    have = letter_of(c->fn->regs.at[operand->reg].class);
    return have == want || (want == 'w' && (have == 'r' || have == 'f'));
}

/* How many operands an instruction of this form has, and results; vectors count each. */
static uint32_t
count_operands(const LirInsn *insn, uint32_t *results)
{
    const LirOpInfo *info = lir_op_info(insn->op);
    uint32_t n = 0;

    *results = 0;
    for (const char *group = info->groups; *group != '\0';) {
        uint32_t length = (uint32_t)strcspn(group, ",");
        if (length == 1 && (*group == 'r' || *group == 'a' || *group == 'e'))
            n++;
        else if (length == 1 && *group == 'o')
            n += insn->n > n;
        else if (length == 1 && (*group == '2' || *group == '4'))
            n += (uint32_t)(*group - '0');
        else if (length == 1 && *group == '*')
            n += (info->flags & LF_NO_DST) == 0 ? insn->n_dst : insn->n > n ? insn->n - n : 0;
        else if (length == 2 && *group == 't')
            n += 1 + (uint32_t)(group[1] - '0');
        if (group == info->groups && (info->flags & LF_NO_DST) == 0)
            *results = n;
        group += length + (group[length] == ',');
    }
    return n;
}

static void
check_form(Checker *c, uint32_t at)
{
    const LirInsn *insn = c->fn->insns.at[at];
    uint32_t results, n = count_operands(insn, &results);

    if (insn->op == LIR_COMMENT || insn->op == LIR_LABEL)
        return;
    if (insn->n != n || insn->n_dst != results) {
        fault(c, at, "the number of operands is wrong");
        return;
    }
    if (insn->guard >= c->fn->regs.n ||
        (insn->guard != 0 && c->fn->regs.at[insn->guard].class != LIR_PRED))
        fault(c, at, "the guard is no predicate");
    for (uint32_t k = 0; k < insn->n; k++) {
        const LirOperand *operand = &insn->operands[k];
        bool reg = operand->kind == LIR_REG ||
                   (operand->kind == LIR_ADDRESS && operand->symbol == NULL);
        if (reg && (operand->reg == 0 || operand->reg >= c->fn->regs.n)) {
            fault(c, at, "a register that is none");
            return;
        }
        if (!fits(c, operand, wanted(insn, k)))
            fault(c, at, "an operand of the wrong class");
        if (k < insn->n_dst && operand->kind != LIR_REG)
            fault(c, at, "a result that is no register");
        else if (k < insn->n_dst)
            c->assigned[operand->reg]++;
    }
}

/* ---- control flow ---- */

static void
find_labels(Checker *c)
{
    for (uint32_t i = 0; i < c->fn->insns.n; i++) {
        const LirInsn *insn = c->fn->insns.at[i];
        if (insn->op != LIR_LABEL)
            continue;
        int64_t label = insn->operands[0].integer;
        if (label < 0 || label > c->fn->labels)
            fault(c, i, "a label out of range");
        else if (c->places[label] != 0)
            fault(c, i, "a label that stands twice");
        else
            c->places[label] = i + 1;
    }
    for (uint32_t i = 0; i < c->fn->insns.n; i++) {
        const LirInsn *insn = c->fn->insns.at[i];
        if (insn->op != LIR_BRA && insn->op != LIR_BRA_UNI)
            continue;
        int64_t label = insn->operands[0].integer;
        if (insn->operands[0].kind != LIR_TARGET_LABEL || label < 0 || label > c->fn->labels ||
            c->places[label] == 0)
            fault(c, i, "a branch to nowhere");
    }
}

static bool
ends_block(LirOpcode op)
{
    return op == LIR_BRA || op == LIR_BRA_UNI || op == LIR_RET;
}

static void
find_blocks(Checker *c)
{
    const LirFn *fn = c->fn;
    uint32_t *block_of = arena_array(c->arena, uint32_t, fn->insns.n + 1);

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        bool begins = i == 0 || fn->insns.at[i]->op == LIR_LABEL ||
                      ends_block(fn->insns.at[i - 1]->op);
        Block block = {.first = i, .end = i};
        if (begins)
            vec_push(c->arena, &c->blocks, block);
        block_of[i] = c->blocks.n - 1;
        c->blocks.at[c->blocks.n - 1].end = i + 1;
    }
    for (uint32_t b = 0; b < c->blocks.n; b++) {
        Block *block = &c->blocks.at[b];
        const LirInsn *last = fn->insns.at[block->end - 1];
        bool falls = !ends_block(last->op) || last->guard != 0;
        block->next[0] = falls && b + 1 < c->blocks.n ? b + 1 : UINT32_MAX;
        block->next[1] = UINT32_MAX;
        if (last->op == LIR_BRA || last->op == LIR_BRA_UNI)
            block->next[1] = block_of[c->places[last->operands[0].integer] - 1];
        block->in = arena_array(c->arena, uint64_t, c->words);
    }
}

static bool
is_set(const uint64_t *set, LirReg reg)
{
    return (set[reg / 64] >> reg % 64 & 1) != 0;
}

/* Whether the results of an instruction are read, too: a product that adds to what is there, unless
 * the operand that says so is 0. */
static bool
adds_up(const LirInsn *insn)
{
    uint32_t at = insn->n_dst + (insn->op == LIR_WGMMA_RS ? 5 : 2);

    return (lir_op_info(insn->op)->flags & LF_IN_OUT) != 0 && at < insn->n &&
           (insn->operands[at].kind != LIR_INT || insn->operands[at].integer != 0);
}

/* Walks a block from what is set at its begin; complains when `tell`. */
static void
walk_block(Checker *c, const Block *block, uint64_t *set, bool tell)
{
    for (uint32_t i = block->first; i < block->end; i++) {
        const LirInsn *insn = c->fn->insns.at[i];
        bool missing = insn->guard != 0 && !is_set(set, insn->guard);
        for (uint32_t k = adds_up(insn) ? 0 : insn->n_dst; k < insn->n; k++) {
            const LirOperand *operand = &insn->operands[k];
            bool reg = operand->kind == LIR_REG ||
                       (operand->kind == LIR_ADDRESS && operand->symbol == NULL);
            missing = missing || (reg && !is_set(set, operand->reg));
        }
        if (missing && tell)
            fault(c, i, "a register is read that is not set on every path to here");
        for (uint32_t k = 0; k < insn->n_dst && insn->guard == 0; k++)
            set[insn->operands[k].reg / 64] |= (uint64_t)1 << insn->operands[k].reg % 64;
    }
}

/* Gives block `to` what arrives from a block that ends with `set`; whether that was news. */
static bool
flow(Checker *c, uint32_t to, const uint64_t *set)
{
    if (to == UINT32_MAX)
        return false;
    Block *block = &c->blocks.at[to];
    if (block->out == NULL) {
        block->out = arena_array(c->arena, uint64_t, c->words);
        memcpy(block->in, set, c->words * sizeof *set);
        return true;
    }
    bool changed = false;
    for (uint32_t w = 0; w < c->words; w++) {
        changed = changed || (block->in[w] & ~set[w]) != 0;
        block->in[w] &= set[w];
    }
    return changed;
}

static void
check_definitions(Checker *c)
{
    bool changed = true;
    uint64_t *none = arena_array(c->arena, uint64_t, c->words);

    flow(c, 0, none);
    while (changed) {
        changed = false;
        for (uint32_t b = 0; b < c->blocks.n; b++) {
            Block *block = &c->blocks.at[b];
            if (block->out == NULL)
                continue;
            memcpy(block->out, block->in, c->words * sizeof *block->in);
            walk_block(c, block, block->out, false);
            for (uint32_t k = 0; k < 2; k++)
                changed |= flow(c, block->next[k], block->out);
        }
    }
    for (uint32_t b = 0; b < c->blocks.n; b++) {
        if (c->blocks.at[b].out != NULL)
            walk_block(c, &c->blocks.at[b], c->blocks.at[b].in, true);
    }
}

/* ---- parameters ---- */

static void
param_fault(Checker *c, const LirParam *param, const char *what)
{
    if (c->faults++ < MOST_FAULTS)
        buf_printf(c->out, "%s, parameter %s: %s\n", c->fn->name, param->name, what);
}

static bool
is_one_of(uint32_t value, const uint32_t choices[4])
{
    return value == choices[0] || value == choices[1] || value == choices[2] || value == choices[3];
}

static void
check_map(Checker *c, const LirParam *param)
{
    static const uint32_t swizzles[] = {0, 32, 64, 128}, promotions[] = {0, 64, 128, 256};
    const LirTensorMap *map = &c->fn->maps.at[param->index];

    if (map->rank < 1 || map->rank > BOX_RANK) {
        param_fault(c, param, "a tensor map has 1 to 5 dimensions");
        return;
    }
    for (uint32_t d = 0; d < map->rank; d++) {
        if (map->box[d] < 1 || map->box[d] > BOX_MOST)
            param_fault(c, param, "an extent of a box is 1 to 256");
        for (uint32_t e = 0; e < d; e++)
            /* but the last one, where a box ends */
            if (map->dim[e] == map->dim[d] && (e == 0 || d + 1 < map->rank))
                param_fault(c, param, "a tensor map names a dimension twice");
    }
    if (!is_one_of(map->swizzle_bytes, swizzles))
        param_fault(c, param, "a swizzle has 0, 32, 64 or 128 bytes");
    if (!is_one_of(map->l2_promotion_bytes, promotions))
        param_fault(c, param, "a promotion has 0, 64, 128 or 256 bytes");
}

static void
check_params(Checker *c)
{
    for (uint32_t i = 0; i < c->fn->params.n; i++) {
        const LirParam *param = &c->fn->params.at[i];
        bool wide = param->class == LIR_B64;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(c->fn->params.at[k].name, param->name) == 0)
                param_fault(c, param, "another one has this name");
        if (param->kind == LIR_PARAM_MAP) {
            if (param->index >= c->fn->maps.n)
                param_fault(c, param, "there is no such tensor map");
            else
                check_map(c, param);
            continue;
        }
        bool ok = param->class == LIR_B32 || param->class == LIR_F32 || wide;
        if (param->kind == LIR_PARAM_POINTER || param->kind == LIR_PARAM_STRIDE ||
            param->kind == LIR_PARAM_MEMORY)
            ok = wide;
        else if (param->kind == LIR_PARAM_SIZE || param->kind == LIR_PARAM_ZERO)
            ok = param->class == LIR_B32;
        else if (param->kind == LIR_PARAM_SCALAR)
            ok = ok && !wide;
        if (!ok)
            param_fault(c, param, "the class does not fit what it is");
    }
    if (c->fn->cluster[0] != 0 && (c->fn->cluster[1] == 0 || c->fn->cluster[2] == 0) &&
        c->faults++ < MOST_FAULTS)
        buf_printf(c->out, "%s: a cluster has three extents\n", c->fn->name);
}

bool
lir_verify(const LirFn *fn, Buf *out)
{
    Checker c = {.fn = fn, .arena = out->arena, .out = out};

    c.words = fn->regs.n / 64 + 1;
    c.assigned = arena_array(c.arena, uint32_t, fn->regs.n + 1);
    c.places = arena_array(c.arena, uint32_t, fn->labels + 1);
    check_params(&c);
    for (uint32_t i = 0; i < fn->insns.n; i++)
        check_form(&c, i);
    find_labels(&c);
    for (uint32_t r = 1; r < fn->regs.n; r++) {
        if (c.assigned[r] > 1 && !fn->regs.at[r].is_mutable && c.faults++ < MOST_FAULTS)
            buf_printf(out, "%s: register %u is set %u times and is not mutable\n", fn->name, r,
                       c.assigned[r]);
    }
    if (c.faults == 0 && fn->insns.n > 0) { /* the rest needs a function of the right form */
        find_blocks(&c);
        check_definitions(&c);
    }
    return c.faults == 0;
}
