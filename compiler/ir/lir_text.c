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

static char *
put_reg(const LirFn *fn, LirReg reg, char *at)
{
    memcpy(at, prefixes[fn->regs.at[reg].class], strlen("%r"));
    return digits_text(reg, at + strlen("%r"));
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
put_address(const LirFn *fn, const LirOperand *operand, char *at)
{
    *at++ = '[';
    if (operand->symbol != NULL)
        at = put(at, operand->symbol, strlen(operand->symbol));
    else
        at = put_reg(fn, operand->reg, at);
    if (operand->integer != 0) { /* ptxas wants the plus in front of a minus, too */
        *at++ = '+';
        at = int_text(operand->integer, at);
    }
    *at++ = ']';
    return at;
}

static char *
put_operand(const LirFn *fn, const LirOperand *operand, char *at)
{
    switch (operand->kind) {
    case LIR_REG: return put_reg(fn, operand->reg, at);
    case LIR_INT: return int_text(operand->integer, at);
    case LIR_FLOAT: return put_float((uint32_t)operand->integer, at);
    case LIR_ADDRESS: return put_address(fn, operand, at);
    case LIR_SYMBOL: return put(at, operand->symbol, strlen(operand->symbol));
    case LIR_TARGET_LABEL: return int_text(operand->integer, put(at, "$L", strlen("$L")));
    }
    return at;
}

static char *
put_vector(const LirFn *fn, const LirInsn *insn, uint32_t *next, uint32_t n, char *at)
{
    *at++ = '{';
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0)
            at = put(at, ", ", 2);
        at = put_operand(fn, &insn->operands[(*next)++], at);
    }
    *at++ = '}';
    return at;
}

/* The operands of a group that is no single one, or the text that stands there as it is. */
static char *
put_group(const LirFn *fn, const LirInsn *insn, const char *group, uint32_t length, uint32_t *next,
          char *at)
{
    char kind = length == 1 || (length == 2 && *group == 't') ? *group : '#';

    switch (kind) {
    case 'e': return put_operand(fn, &insn->operands[(*next)++], put(at, "_|", 2));
    case '*':
        return put_vector(fn, insn, next, insn->n_dst > 0 ? insn->n_dst : insn->n - *next, at);
    case 't':
        *at++ = '[';
        at = put(put_operand(fn, &insn->operands[(*next)++], at), ", ", 2);
        at = put_vector(fn, insn, next, (uint32_t)(group[1] - '0'), at);
        *at++ = ']';
        return at;
    case '2':
    case '4':
        if (*next < insn->n)
            return put_vector(fn, insn, next, (uint32_t)(kind - '0'), at);
        break;
    default: break;
    }
    return put(at, group + (*group == '#'), length - (*group == '#'));
}

/* Characters that an instruction takes at most. */
static size_t
room_for(const LirInsn *insn, const char *name, const char *groups)
{
    size_t room = strlen(name) + strlen(groups) + (insn->n + 2) * (size_t)OPERAND_ROOM;

    uintptr_t symbols = 0;

    for (uint32_t k = 0; k < insn->n; k++)
        symbols |= (uintptr_t)insn->operands[k].symbol;
    for (uint32_t k = 0; symbols != 0 && k < insn->n; k++) {
        if (insn->operands[k].symbol != NULL)
            room += strlen(insn->operands[k].symbol);
    }
    return room;
}

/* A comment, or a label. */
static void
print_mark(const LirInsn *insn, Buf *out)
{
    if (insn->op == LIR_COMMENT)
        buf_printf(out, "// %s", insn->text);
    else
        buf_printf(out, "$L%lld:", (long long)insn->operands[0].integer);
}

void
lir_print_insn(const LirFn *fn, const LirInsn *insn, Buf *out)
{
    const LirOpInfo *info = lir_op_info(insn->op);

    if ((insn->op == LIR_COMMENT) | (insn->op == LIR_LABEL)) {
        print_mark(insn, out);
        return;
    }
    const char *name = insn->text != NULL ? insn->text : info->mnemonic;
    buf_reserve(out, room_for(insn, name, info->groups));
    char *at = out->at + out->n;
    if (insn->guard != 0) {
        at = insn->guard_not ? put(at, "@!", 2) : put(at, "@", 1);
        at = put_reg(fn, insn->guard, at);
        *at++ = ' ';
    }
    uint32_t next = 0;
    at = put(at, name, strlen(name));
    const char *group = info->groups;
    size_t begin = strspn(group, "ra,"); /* most groups are single operands, in front of others */
    uint32_t singles = (uint32_t)(begin + (group[begin] == '\0')) / 2;
    if ((singles > 0) & (singles <= insn->n)) {
        *at++ = ' ';
        at = put_operand(fn, &insn->operands[next++], at);
        while (next < singles)
            at = put_operand(fn, &insn->operands[next++], put(at, ", ", 2));
        group += begin;
    }
    while (*group != '\0') {
        uint32_t length = (uint32_t)strcspn(group, ",");
        bool single = length == 1, optional = single & (*group == 'o');
        if (optional & (next == insn->n))
            break;
        if (group != info->groups)
            *at++ = ',';
        *at++ = ' ';
        bool plain = optional | (single & ((*group == 'r') | (*group == 'a')));
        at = plain ? put_operand(fn, &insn->operands[next++], at)
                   : put_group(fn, insn, group, length, &next, at);
        group += length + (group[length] == ',');
    }
    *at++ = ';';
    *at = '\0';
    out->n = (uint32_t)(at - out->at);
}

static void
print_reg(const LirFn *fn, LirReg reg, Buf *out)
{
    buf_reserve(out, OPERAND_ROOM);
    char *end = put_reg(fn, reg, out->at + out->n);
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
        print_reg(fn, reg, out);
        any = true;
    }
    buf_add(out, any ? "\n{\n" : "{\n");
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        buf_add(out, insn->op == LIR_LABEL ? "" : "    ");
        lir_print_insn(fn, insn, out);
        buf_char(out, '\n');
    }
    buf_add(out, "}\n");
}
