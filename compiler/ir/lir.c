/* lir.c - building lane IR: regions, sharing of common subexpressions, hoisting. */
#include "compiler/ir/lir.h"

#include "compiler/ir/lir_fold.h"

#include <string.h>

static const LirOpInfo infos[] = {
#define LIR_OP(name, mnemonic, groups, flags) {mnemonic, groups, flags},
#include "compiler/ir/lir.def"
#undef LIR_OP
};

enum {
    MADE_SLOTS = 256, /* of the table of the instructions already made, at first */
    MADE_IN_SLOT = 2  /* on average, before it gets more of them */
};

const LirOpInfo *
lir_op_info(LirOpcode op)
{
    return &infos[op];
}

LirFn *
lir_fn_new(Arena *arena, const char *name)
{
    LirFn *fn = arena_new(arena, LirFn);
    LirRegInfo none = {.class = LIR_PRED}; /* takes no register */

    fn->arena = fn->scratch = arena;
    fn->name = name;
    vec_push(arena, &fn->regs, none);
    return fn;
}

LirInsn **
lir_take_insns(LirFn *fn, uint32_t more)
{
    LirInsn **taken = arena_copy(fn->scratch, fn->insns.at, fn->insns.n * sizeof *taken);

    while (fn->insns.cap < fn->insns.n + more)
        fn->insns.at = arena_grow(fn->arena, NULL, sizeof *taken, 0, &fn->insns.cap);
    fn->insns.n = 0;
    return taken;
}

void
lir_insert(LirFn *fn, const LirBefore *before, uint32_t n)
{
    ArenaMark begin = arena_mark(fn->scratch);
    uint32_t n_old = fn->insns.n, next = 0;
    LirInsn **old = lir_take_insns(fn, n);

    for (uint32_t i = 0; i < n_old; i++) {
        for (; next < n && before[next].at == i; next++)
            fn->insns.at[fn->insns.n++] = before[next].insn;
        fn->insns.at[fn->insns.n++] = old[i];
    }
    lir_end_work(fn, begin);
}

void
lir_add_param(LirFn *fn, LirParamKind kind, LirClass class, const char *name, uint32_t index,
              uint32_t dim)
{
    LirParam param = {name, class, kind, index, dim};

    vec_push(fn->arena, &fn->params, param);
}

void
lir_add_map(LirFn *fn, const char *name, const LirTensorMap *map)
{
    lir_add_param(fn, LIR_PARAM_MAP, LIR_B64, name, fn->maps.n, 0);
    vec_push(fn->arena, &fn->maps, *map);
}

uint32_t
lir_param_bytes(const LirParam *param)
{
    if (param->kind == LIR_PARAM_MAP)
        return LIR_MAP_BYTES;
    return param->class == LIR_B64 ? 8 : 4;
}

LirRegion *
lir_open(LirBuilder *b, bool is_loop)
{
    LirRegion *region = arena_new(b->fn->scratch, LirRegion);

    region->parent = b->region;
    region->depth = b->region == NULL ? 0 : b->region->depth + 1;
    region->is_loop = is_loop;
    region->is_open = true;
    b->region = region;
    return region;
}

void
lir_close(LirBuilder *b)
{
    LirRegion *region = b->region, *into = region->parent;
    uint32_t n = into->insns.n + region->insns.n;

    b->region = into;
    region->is_open = false;
    while (into->insns.cap < n)
        into->insns.at = arena_grow(b->fn->scratch, into->insns.at, sizeof *into->insns.at,
                                    into->insns.n, &into->insns.cap);
    if (region->insns.n > 0)
        memcpy(into->insns.at + into->insns.n, region->insns.at,
               region->insns.n * sizeof *region->insns.at);
    into->insns.n = n;
}

void
lir_begin(LirBuilder *b, LirFn *fn)
{
    b->fn = fn;
    b->region = NULL;
    b->made_count = 0;
    b->made_size = MADE_SLOTS;
    b->made = arena_array(fn->scratch, LirInsn *, b->made_size);
    lir_open(b, false);
}

void
lir_end(LirBuilder *b)
{
    enum { ROOM = 8 }; /* for an eighth more, which passes insert */
    LirFn *fn = b->fn;

    fn->insns.n = b->region->insns.n;
    fn->insns.cap = fn->insns.n + fn->insns.n / ROOM;
    fn->insns.at = arena_take(fn->arena, fn->insns.cap * sizeof *fn->insns.at);
    memcpy(fn->insns.at, b->region->insns.at, fn->insns.n * sizeof *fn->insns.at);
    b->region = NULL;
}

static LirReg
new_reg(LirBuilder *b, LirClass class, uint32_t depth, bool is_mutable)
{
    LirRegInfo info = {.class = class, .is_mutable = is_mutable, .depth = depth};
    vec_push(b->fn->arena, &b->fn->regs, info);
    return b->fn->regs.n - 1;
}

LirReg
lir_new_reg(LirBuilder *b, LirClass class)
{
    return new_reg(b, class, b->region->depth, false);
}

LirReg
lir_new_mutable(LirBuilder *b, LirClass class)
{
    return new_reg(b, class, b->region->depth, true);
}

LirReg
lir_new_home(LirBuilder *b, LirClass class)
{
    LirReg reg = new_reg(b, class, b->region->depth, true);

    b->fn->regs.at[reg].is_home = b->fn->has_homes = true;
    return reg;
}

uint32_t
lir_new_label(LirBuilder *b)
{
    return ++b->fn->labels;
}

LirClass
lir_class(const LirBuilder *b, LirReg reg)
{
    return b->fn->regs.at[reg].class;
}

static LirInsn *
new_insn(LirBuilder *b, LirOpcode op, uint32_t n_dst, uint32_t n, const LirOperand *operands)
{
    LirInsn *insn = arena_take(b->fn->arena, sizeof *insn + n * sizeof *operands);

    *insn = (LirInsn){
        .op = op, .n = n, .n_dst = n_dst, .operands = (LirOperand *)(insn + 1), .span = b->span};
    lir_note_op(b->fn, op);
    if (n > 0)
        memcpy(insn->operands, operands, n * sizeof *operands);
    return insn;
}

LirInsn *
lir_emit(LirBuilder *b, LirOpcode op, uint32_t n_dst, uint32_t n, const LirOperand *operands)
{
    LirInsn *insn = new_insn(b, op, n_dst, n, operands);
    vec_push(b->fn->scratch, &b->region->insns, insn);
    return insn;
}

static bool
same_operands(const LirOperand *a, const LirOperand *b, uint32_t n)
{
    if (memcmp(a, b, n * sizeof *a) == 0)
        return true;
    for (uint32_t i = 0; i < n; i++) { /* symbols may be the same text elsewhere */
        bool same = (a[i].kind == b[i].kind) & (a[i].reg == b[i].reg) &
                    (a[i].integer == b[i].integer) &
                    ((a[i].symbol == NULL) == (b[i].symbol == NULL));
        if (!same || (a[i].symbol != NULL && strcmp(a[i].symbol, b[i].symbol) != 0))
            return false;
    }
    return true;
}

static uint32_t
hash_insn(LirOpcode op, uint32_t n, const LirOperand *sources)
{
    uint32_t h = 2166136261u ^ (uint32_t)op;
    for (const LirOperand *source = sources; source < sources + n; source++) {
        /* of a symbol, that there is one: few instructions have any */
        h = (h ^ source->reg) * 16777619u;
        h = (h ^ (uint32_t)source->integer) * 16777619u;
        h = (h ^ (uint32_t)source->kind ^ (uint32_t)(source->symbol != NULL) << 8) * 16777619u;
    }
    return h ^ h >> 15;
}

/* An instruction of the open regions that computes the same under the same guard; NULL when there
 * is none. */
static LirInsn *
find_made(const LirBuilder *b, LirOpcode op, uint32_t n, const LirOperand *sources, LirReg guard,
          uint32_t hash)
{
    for (LirInsn *insn = b->made[hash % b->made_size]; insn != NULL; insn = insn->next_made) {
        if (insn->hash != hash)
            continue;
        bool same = insn->made_in->is_open & (insn->op == op) & (insn->n == n + 1) &
                    (insn->guard == guard);
        if (same && same_operands(&insn->operands[1], sources, n))
            return insn;
    }
    return NULL;
}

/* The outermost region an instruction may go to: out of loops whose values it does not use. */
static LirRegion *
place_for(const LirBuilder *b, uint32_t flags, uint32_t n, const LirOperand *sources)
{
    LirRegion *region = b->region;
    uint32_t depth = 0;

    if (!b->hoist & ((flags & LF_DEAR) == 0))
        return region;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = b->fn->regs.at[sources[i].reg].depth; /* 0 of what is no register */
        depth = d > depth ? d : depth;
    }
    while (region->parent != NULL && region->is_loop && region->depth > depth)
        region = region->parent;
    return region;
}

static void
put_into_slot(LirBuilder *b, LirInsn *insn)
{
    LirInsn **slot = &b->made[insn->hash % b->made_size];

    insn->next_made = *slot;
    *slot = insn;
    b->made_count++;
}

/* A table of more slots, without what closed regions have made. */
static void
widen_made(LirBuilder *b)
{
    LirInsn **had = b->made;
    uint32_t n = b->made_size;

    b->made_size *= 4;
    b->made_count = 0;
    b->made = arena_array(b->fn->scratch, LirInsn *, b->made_size);
    for (uint32_t k = 0; k < n; k++) {
        for (LirInsn *insn = had[k], *next; insn != NULL; insn = next) {
            next = insn->next_made;
            if (insn->made_in->is_open)
                put_into_slot(b, insn);
        }
    }
}

/* The instruction is found again while the region is open. */
static void
remember(LirBuilder *b, const LirRegion *region, LirInsn *insn, uint32_t hash)
{
    if (b->made_count >= MADE_IN_SLOT * b->made_size)
        widen_made(b);
    insn->hash = hash;
    insn->made_in = region;
    put_into_slot(b, insn);
}

static bool
reads_home(const LirBuilder *b, uint32_t n, const LirOperand *sources)
{
    bool home = false;

    for (uint32_t i = 0; i < n; i++)
        home |= sources[i].kind == LIR_REG && b->fn->regs.at[sources[i].reg].is_home;
    return home;
}

/* The same instruction is found with its operands either way around. */
static void
order_registers(LirOperand *sources)
{
    LirOperand first = sources[0];

    if ((first.kind == LIR_REG) & (sources[1].kind == LIR_REG) & (first.reg > sources[1].reg)) {
        sources[0] = sources[1];
        sources[1] = first;
    }
}

static LirReg
make_pure(LirBuilder *b, LirOpcode op, LirClass class, uint32_t n, LirOperand *sources)
{
    uint32_t flags = infos[op].flags, hash = 0;
    LirReg folded;
    bool share = b->share;

    if ((flags & LF_COMMUTES) != 0)
        order_registers(sources);
    if (((flags & LF_FOLDS) != 0) & b->fold && lir_fold(b, op, n, sources, &folded))
        return folded;
    /* in front of a loop there may be nothing to load */
    bool stays = ((flags & (LF_LOAD | LF_KEEP)) != 0) | !b->region->is_loop;
    if (b->fn->has_homes && reads_home(b, n, sources)) {
        share = false;
        stays = true;
    }
    if (share) {
        hash = hash_insn(op, n, sources);
        const LirInsn *same = find_made(b, op, n, sources, 0, hash);
        if (same != NULL)
            return same->operands[0].reg;
    }
    LirRegion *region = stays ? b->region : place_for(b, flags, n, sources);
    LirOperand operands[4] = {lir_reg(new_reg(b, class, region->depth, false))};
    memcpy(operands + 1, sources, n * sizeof *sources);
    LirInsn *insn = new_insn(b, op, 1, n + 1, operands);
    vec_push(b->fn->scratch, &region->insns, insn);
    b->fn->regs.at[operands[0].reg].def = insn;
    if (share)
        remember(b, region, insn, hash);
    return operands[0].reg;
}

LirReg
lir_load_or_zero(LirBuilder *b, LirOpcode op, LirClass class, LirOperand address, LirReg guard)
{
    if (guard == 0)
        return lir_op1(b, op, class, address);
    uint32_t hash = hash_insn(op, 1, &address);
    LirInsn *same = b->share ? find_made(b, op, 1, &address, guard, hash) : NULL;
    if (same != NULL)
        return same->operands[0].reg;
    LirOperand operands[] = {lir_reg(lir_new_mutable(b, class)), address};
    LirOperand zero[] = {operands[0], lir_int(0)};
    lir_emit(b, LIR_MOV_B32, 1, 2, zero);
    LirInsn *load = lir_emit(b, op, 1, 2, operands);
    load->guard = guard;
    if (b->share)
        remember(b, b->region, load, hash);
    return operands[0].reg;
}

LirReg
lir_op1(LirBuilder *b, LirOpcode op, LirClass class, LirOperand x)
{
    LirOperand sources[] = {x};
    return make_pure(b, op, class, 1, sources);
}

LirReg
lir_op2(LirBuilder *b, LirOpcode op, LirClass class, LirOperand x, LirOperand y)
{
    LirOperand sources[] = {x, y};
    return make_pure(b, op, class, 2, sources);
}

LirReg
lir_op3(LirBuilder *b, LirOpcode op, LirClass class, LirOperand x, LirOperand y, LirOperand z)
{
    LirOperand sources[] = {x, y, z};
    return make_pure(b, op, class, 3, sources);
}

LirReg
lir_made1(const LirBuilder *b, LirOpcode op, LirOperand x)
{
    LirInsn *same = b->share ? find_made(b, op, 1, &x, 0, hash_insn(op, 1, &x)) : NULL;

    return same != NULL ? same->operands[0].reg : 0;
}

void
lir_forget(LirBuilder *b)
{
    memset(b->made, 0, b->made_size * sizeof *b->made);
    b->made_count = 0;
}

void
lir_label(LirBuilder *b, uint32_t label)
{
    LirOperand operand = {.kind = LIR_TARGET_LABEL, .integer = label};
    lir_emit(b, LIR_LABEL, 0, 1, &operand);
}

void
lir_branch(LirBuilder *b, uint32_t label, LirReg guard, bool guard_not)
{
    LirOperand operand = {.kind = LIR_TARGET_LABEL, .integer = label};
    LirInsn *insn = lir_emit(b, LIR_BRA, 0, 1, &operand);
    insn->guard = guard;
    insn->guard_not = guard_not;
}

void
lir_comment(LirBuilder *b, const char *text)
{
    lir_emit(b, LIR_COMMENT, 0, 0, NULL)->text = text;
}

bool
lir_has_roles(const LirFn *fn)
{
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        if ((infos[fn->insns.at[i]->op].flags & LF_ROLES) != 0)
            return true;
    }
    return false;
}

bool
lir_has_group_mma(const LirFn *fn)
{
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        if (fn->insns.at[i]->op == LIR_WGMMA_SS || fn->insns.at[i]->op == LIR_WGMMA_RS)
            return true;
    }
    return false;
}

/* Whether a result is read, or an effect wanted. */
static bool
is_wanted(const LirInsn *insn, const uint32_t *reads)
{
    /* what adds to its results reads them */
    uint32_t flags = infos[insn->op].flags, wanted = ((flags & (LF_PURE | LF_LOAD)) == 0) |
                                                     (flags & LF_IN_OUT) | (insn->n_dst == 0);

    for (uint32_t k = 0; k < insn->n_dst; k++)
        wanted |= reads[insn->operands[k].reg];
    return wanted != 0;
}

/* Of instructions that nothing wanted reads behind them, in `at` from the last one on: takes those
 * out that are read by others of them, or by something before them, in a loop.  A mutable
 * register's moves keep each other alive, and those few are harmless. */
static uint32_t
leave_unread(const LirFn *fn, uint32_t *at, uint32_t n, uint32_t *reads)
{
    bool *dead = arena_array(fn->scratch, bool, n), again = true;

    for (uint32_t j = 0; j < n; j++) {
        const LirInsn *insn = fn->insns.at[at[j]];
        reads[insn->guard]++;
        for (uint32_t k = insn->n_dst; k < insn->n; k++)
            reads[insn->operands[k].reg]++;
    }
    while (again) {
        again = false;
        for (uint32_t j = 0; j < n; j++) {
            const LirInsn *insn = fn->insns.at[at[j]];
            if (dead[j] || is_wanted(insn, reads))
                continue;
            dead[j] = again = true;
            reads[insn->guard]--;
            for (uint32_t k = insn->n_dst; k < insn->n; k++)
                reads[insn->operands[k].reg]--;
        }
    }
    uint32_t left = 0;
    for (uint32_t j = 0; j < n; j++)
        if (dead[j])
            at[left++] = at[j];
    return left;
}

void
lir_remove_dead(LirFn *fn)
{
    ArenaMark begin = arena_mark(fn->scratch);
    uint32_t *reads = arena_array(fn->scratch, uint32_t, fn->regs.n);
    uint32_t *unread = arena_take(fn->scratch, fn->insns.n * sizeof *unread), n = 0;

    reads[0] = 1; /* no register */
    for (uint32_t i = fn->insns.n; i-- > 0;) {
        const LirInsn *insn = fn->insns.at[i];
        if (!is_wanted(insn, reads)) {
            unread[n++] = i;
            continue;
        }
        uint32_t first = insn->n_dst * ((infos[insn->op].flags & LF_IN_OUT) == 0);
        reads[insn->guard] = 1;
        for (uint32_t k = first; k < insn->n; k++)
            reads[insn->operands[k].reg] = 1;
    }
    n = leave_unread(fn, unread, n, reads);
    uint32_t kept = n > 0 ? unread[n - 1] : fn->insns.n;
    while (n-- > 0) { /* what stands between two of them moves up */
        uint32_t next = unread[n] + 1, end = n > 0 ? unread[n - 1] : fn->insns.n;
        memmove(fn->insns.at + kept, fn->insns.at + next, (end - next) * sizeof *fn->insns.at);
        kept += end - next;
    }
    fn->insns.n = kept;
    lir_end_work(fn, begin);
}
