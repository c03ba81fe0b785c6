/* lir_text.c - prints lane IR; an instruction's text is its PTX. */
#include <string.h>

#include "compiler/ir/lir.h"

static const char *const prefixes[LIR_CLASSES] = {"%p", "%h", "%r", "%f", "%d", "%q"};

enum { OPERAND_ROOM = 64 /* characters that an operand takes at most, besides a symbol */ };

/* The functions below write where there is room (lir_print_insn), and return the end. */

static char *
put(char *at, const char *text, size_t n)
{
    memcpy(at, text, n);
    return at + n;
}

/* A symbol is as long as the program has it: room is taken for it, and for the rest of the
 * instruction. */
static char *
put_symbol(LirText *text, const char *symbol, char *at)
{
    Buf *out = text->out;
    size_t n = strlen(symbol);

    out->n = (uint32_t)(at - out->at);
    buf_reserve(out, n + text->room);
    return put(out->at + out->n, symbol, n);
}

static char *
put_reg(LirText *text, LirReg reg, char *at)
{
    const LirRegName *name = &text->names[reg];

    text->used[name->class] = true;
    memcpy(at, name->text, sizeof name->text); /* there is room for all of it */
    return at + name->n;
}

/* 0f, and the eight digits of a float's bits. */
static char *
put_float(uint32_t bits, char *out)
{
    char text[] = "0f00000000";

    for (size_t at = sizeof text - 2; bits != 0; at--, bits >>= 4)
        text[at] = "0123456789ABCDEF"[bits & 15];
    return put(out, text, sizeof text - 1);
}

static char *
put_address(LirText *text, const LirOperand *operand, char *at)
{
    *at++ = '[';
    if (operand->symbol != NULL)
        at = put_symbol(text, operand->symbol, at);
    else
        at = put_reg(text, operand->reg, at);
    if (operand->integer != 0) { /* ptxas wants the plus in front of a minus, too */
        *at++ = '+';
        at = int_text(operand->integer, at);
    }
    *at++ = ']';
    return at;
}

static char *
put_operand(LirText *text, const LirOperand *operand, char *at)
{
    switch (operand->kind) {
    case LIR_REG: return put_reg(text, operand->reg, at);
    case LIR_INT: return int_text(operand->integer, at);
    case LIR_FLOAT: return put_float((uint32_t)operand->integer, at);
    case LIR_ADDRESS: return put_address(text, operand, at);
    case LIR_SYMBOL: return put_symbol(text, operand->symbol, at);
    case LIR_TARGET_LABEL: return int_text(operand->integer, put(at, "$L", strlen("$L")));
    }
    return at;
}

/* Each with a comma and a blank behind it.  Nearly all are registers; of what is none, its register,
 * whose name may be empty, is written over. */
static char *
put_operands(LirText *text, const LirOperand *operand, const LirOperand *end, char *at)
{
    for (; operand < end; operand++) {
        const LirRegName *reg = &text->names[operand->reg];
        char *begin = at;
        text->used[reg->class] |= operand->reg != 0;
        memcpy(at, reg->text, sizeof reg->text);
        at += reg->n;
        if (operand->kind != LIR_REG)
            at = put_operand(text, operand, begin);
        memcpy(at, ", ", 2);
        at += 2;
    }
    return at;
}

static char *
put_vector(LirText *text, const LirInsn *insn, uint32_t *next, uint32_t n, char *at)
{
    const LirOperand *operand = &insn->operands[*next];

    *at++ = '{';
    at = put_operands(text, operand, operand + n, at);
    at[-2] = '}';
    *next += n;
    return at - 1;
}

/* The operands of a group that is no single one, or the text that stands there as it is. */
static char *
put_group(LirText *text, const LirInsn *insn, const char *group, uint32_t length, uint32_t *next,
          char *at)
{
    char kind = (length == 1) | ((length == 2) & (*group == 't')) ? *group : '#';

    switch (kind) {
    case 'e': return put_operand(text, &insn->operands[(*next)++], put(at, "_|", 2));
    case '*':
        return put_vector(text, insn, next, insn->n_dst > 0 ? insn->n_dst : insn->n - *next, at);
    case 't':
        *at++ = '[';
        at = put(put_operand(text, &insn->operands[(*next)++], at), ", ", 2);
        at = put_vector(text, insn, next, (uint32_t)(group[1] - '0'), at);
        *at++ = ']';
        return at;
    case '2':
    case '4':
        if (*next < insn->n)
            return put_vector(text, insn, next, (uint32_t)(kind - '0'), at);
        break;
    default: break;
    }
    return put(at, group + (*group == '#'), length - (*group == '#'));
}

void
lir_text_begin(LirText *text, const LirFn *fn, Arena *arena, Buf *out)
{
    LirRegName *names = arena_take(arena, fn->regs.n * sizeof *names);

    *text = (LirText){.out = out, .names = names};
    for (LirReg tens = 0; tens < fn->regs.n; tens += 10) {
        LirRegName name;
        char *digit = tens > 0 ? digits_text(tens / 10, name.text + 2) : name.text + 2;
        LirReg last = fn->regs.n - tens < 10 ? fn->regs.n : tens + 10;
        name.n = (uint8_t)(digit + 1 - name.text);
        *digit = '0';
        for (LirReg reg = tens; reg < last; ++*digit, reg++) {
            name.class = (uint8_t)fn->regs.at[reg].class;
            memcpy(name.text, prefixes[name.class], 2);
            names[reg] = name;
        }
    }
    names[0].n = 0; /* none */
}

/* A comment, or a label. */
static void
print_mark(const LirInsn *insn, uint32_t indent, Buf *out)
{
    if (insn->op == LIR_COMMENT)
        buf_printf(out, "%*s// %s\n", (int)indent, "", insn->text);
    else
        buf_printf(out, "$L%lld:\n", (long long)insn->operands[0].integer);
}

/* Operands from number `next` on, which groups of the form `all` from `group` on are for. */
static char *
put_groups(LirText *text, const LirInsn *insn, const char *all, const char *group, uint32_t next,
           char *at)
{
    for (uint32_t first = group == all, n; *group != '\0'; first = 0) {
        n = (uint32_t)strcspn(group, ",");
        bool single = n == 1, optional = single & (*group == 'o');
        if (optional & (next == insn->n))
            break;
        memcpy(at, &", "[first], 2);
        at += 2 - first;
        if (optional | (single & ((*group == 'r') | (*group == 'a'))))
            at = put_operand(text, &insn->operands[next++], at);
        else
            at = put_group(text, insn, group, n, &next, at);
        group += n + (group[n] == ',');
    }
    return at;
}

void
lir_print_insn(LirText *text, const LirInsn *insn, uint32_t indent)
{
    const LirOpInfo *info = lir_op_info(insn->op);
    Buf *out = text->out;

    if (insn->op <= LIR_LABEL) {
        print_mark(insn, indent, out);
        return;
    }
    const char *const names[] = {info->mnemonic, insn->text}, *name = names[insn->text != NULL];
    size_t length = strlen(name);
    text->room = length + (insn->n + 4) * (size_t)OPERAND_ROOM;
    if (text->room >= out->cap - out->n)
        buf_reserve(out, text->room);
    char *at = memset(out->at + out->n, ' ', indent);
    at += indent;
    if (insn->guard != 0) {
        *at = '@';
        at[1] = '!';
        at = put_reg(text, insn->guard, at + 1 + insn->guard_not);
        *at++ = ' ';
    }
    at = put(at, name, length);
    const char *group = info->groups;
    size_t begin = strspn(group, "ra,"); /* most groups are single operands, in front of others */
    uint32_t singles = (uint32_t)(begin + (group[begin] == '\0')) / 2;
    singles *= singles <= insn->n;
    if (singles > 0) {
        const LirOperand *operand = insn->operands, *end = operand + singles;
        *at++ = ' ';
        at = put_operands(text, operand, end, at) - 2; /* the last one has no comma behind it */
        group += begin;
    }
    if (*group != '\0')
        at = put_groups(text, insn, info->groups, group, singles, at);
    memcpy(at, ";\n", sizeof ";\n");
    out->n = (uint32_t)(at + 2 - out->at);
}

static void
print_reg(LirText *text, LirReg reg)
{
    Buf *out = text->out;

    buf_reserve(out, OPERAND_ROOM);
    char *end = put_reg(text, reg, out->at + out->n);
    *end = '\0';
    out->n = (uint32_t)(end - out->at);
}

/* Which registers an instruction names: others are left from removed ones. */
static bool *
registers_seen(const LirFn *fn, Arena *arena)
{
    bool *seen = arena_array(arena, bool, fn->regs.n + 1);

    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        seen[insn->guard] = true;
        for (uint32_t k = 0; k < insn->n; k++)
            seen[insn->operands[k].reg] = true;
    }
    return seen;
}

static void
print_map(const LirTensorMap *map, Buf *out)
{
    buf_printf(out, " map %s", map->tensor);
    if (map->rounds != NULL)
        buf_printf(out, " as %s", map->rounds);
    buf_add(out, " dims");
    for (uint32_t d = 0; d < map->rank; d++)
        buf_printf(out, " %u", map->dim[d]);
    buf_add(out, " box");
    for (uint32_t d = 0; d < map->rank; d++)
        buf_printf(out, " %u", map->box[d]);
    buf_printf(out, " swizzle %u promotion %u\n", map->swizzle_bytes, map->l2_promotion_bytes);
}

static void
print_param(const LirFn *fn, const LirParam *param, Buf *out)
{
    static const char *const classes[LIR_CLASSES] = {"pred", "b16", "b32", "f32", "b64", "b128"};
    static const char *const kinds[] = {
        [LIR_PARAM_POINTER] = "pointer", [LIR_PARAM_STRIDE] = "stride", [LIR_PARAM_SIZE] = "size",
        [LIR_PARAM_SCALAR] = "scalar",   [LIR_PARAM_MEMORY] = "memory", [LIR_PARAM_ZERO] = "zero"};

    buf_printf(out, "    param %s", param->name);
    if (param->kind == LIR_PARAM_MAP) {
        print_map(&fn->maps.at[param->index], out);
        return;
    }
    buf_printf(out, " %s", classes[param->class]);
    if (param->kind != LIR_PARAM_PLAIN)
        buf_printf(out, " %s", kinds[param->kind]);
    if (param->kind != LIR_PARAM_PLAIN && param->kind != LIR_PARAM_ZERO)
        buf_printf(out, " %u", param->index);
    if (param->kind == LIR_PARAM_STRIDE)
        buf_printf(out, " %u", param->dim);
    buf_char(out, '\n');
}

void
lir_print(const LirFn *fn, Buf *out)
{
    bool *seen = registers_seen(fn, out->arena), any = false;
    LirText text;

    lir_text_begin(&text, fn, out->arena, out);
    buf_printf(out, "lane %s threads %u shared %u blocks %u", fn->name, fn->threads,
               fn->shared_bytes, fn->min_blocks);
    if (fn->cluster[0] != 0)
        buf_printf(out, " cluster %u %u %u", fn->cluster[0], fn->cluster[1], fn->cluster[2]);
    buf_printf(out, " registers %u\n", fn->regs.n);
    for (uint32_t i = 0; i < fn->params.n; i++)
        print_param(fn, &fn->params.at[i], out);
    for (uint32_t reg = 1; reg < fn->regs.n; reg++) {
        if (!fn->regs.at[reg].is_mutable || !seen[reg])
            continue;
        buf_add(out, any ? " " : "    mutable ");
        print_reg(&text, reg);
        any = true;
    }
    buf_add(out, any ? "\n{\n" : "{\n");
    for (uint32_t i = 0; i < fn->insns.n; i++)
        lir_print_insn(&text, fn->insns.at[i], LIR_INDENT);
    buf_add(out, "}\n");
}
