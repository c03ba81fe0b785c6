/* lir_text.c - prints lane IR; an instruction's text is its PTX. */
#include <string.h>

#include "compiler/ir/lir.h"

static const char *const prefixes[LIR_CLASSES] = {"%p", "%h", "%r", "%f", "%d", "%q"};

static void
print_reg(const LirFn *fn, LirReg reg, Buf *out)
{
    buf_addn(out, prefixes[fn->regs.at[reg].class], strlen("%r"));
    buf_int(out, reg);
}

/* 0f, and the eight digits of a float's bits. */
static void
print_float(uint32_t bits, Buf *out)
{
    char text[] = "0f00000000";

    for (size_t at = sizeof text - 2; bits != 0; at--, bits >>= 4)
        text[at] = "0123456789ABCDEF"[bits & 15];
    buf_addn(out, text, sizeof text - 1);
}

static void
print_operand(const LirFn *fn, const LirOperand *operand, Buf *out)
{
    uint32_t bits = 0;

    switch (operand->kind) {
    case LIR_REG: print_reg(fn, operand->reg, out); break;
    case LIR_INT: buf_int(out, operand->integer); break;
    case LIR_FLOAT:
        memcpy(&bits, &operand->number, sizeof bits);
        print_float(bits, out);
        break;
    case LIR_ADDRESS:
        buf_char(out, '[');
        if (operand->symbol != NULL)
            buf_add(out, operand->symbol);
        else
            print_reg(fn, operand->reg, out);
        if (operand->integer != 0) { /* ptxas wants the plus in front of a minus, too */
            buf_char(out, '+');
            buf_int(out, operand->integer);
        }
        buf_char(out, ']');
        break;
    case LIR_SYMBOL: buf_add(out, operand->symbol); break;
    case LIR_TARGET_LABEL:
        buf_add(out, "$L");
        buf_int(out, operand->integer);
        break;
    }
}

static void
print_vector(const LirFn *fn, const LirInsn *insn, uint32_t *next, uint32_t n, Buf *out)
{
    buf_char(out, '{');
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0)
            buf_add(out, ", ");
        print_operand(fn, &insn->operands[(*next)++], out);
    }
    buf_char(out, '}');
}

void
lir_print_insn(const LirFn *fn, const LirInsn *insn, Buf *out)
{
    const LirOpInfo *info = lir_op_info(insn->op);

    if (insn->op == LIR_COMMENT) {
        buf_printf(out, "// %s", insn->text);
        return;
    }
    if (insn->op == LIR_LABEL) {
        print_operand(fn, &insn->operands[0], out);
        buf_char(out, ':');
        return;
    }
    if (insn->guard != 0) {
        buf_add(out, insn->guard_not ? "@!" : "@");
        print_reg(fn, insn->guard, out);
        buf_char(out, ' ');
    }
    buf_add(out, insn->text != NULL ? insn->text : info->mnemonic);
    uint32_t next = 0;
    for (const char *group = info->groups; *group != '\0';) {
        uint32_t length = 0;
        while (group[length] != ',' && group[length] != '\0')
            length++;
        if (length == 1 && *group == 'o' && next == insn->n)
            break;
        if (group != info->groups)
            buf_char(out, ',');
        buf_char(out, ' ');
        if (length == 1 && (*group == 'r' || *group == 'a' || *group == 'o')) {
            print_operand(fn, &insn->operands[next++], out);
        } else if (length == 1 && (*group == '2' || *group == '4') && next < insn->n) {
            print_vector(fn, insn, &next, (uint32_t)(*group - '0'), out);
        } else if (length == 1 && *group == 'e') {
            buf_add(out, "_|");
            print_operand(fn, &insn->operands[next++], out);
        } else if (length == 1 && *group == '*') {
            print_vector(fn, insn, &next, insn->n_dst > 0 ? insn->n_dst : insn->n - next, out);
        } else if (length == 2 && *group == 't') {
            buf_char(out, '[');
            print_operand(fn, &insn->operands[next++], out);
            buf_add(out, ", ");
            print_vector(fn, insn, &next, (uint32_t)(group[1] - '0'), out);
            buf_char(out, ']');
        } else {
            buf_addn(out, group + (*group == '#'), length - (*group == '#'));
        }
        group += length + (group[length] == ',');
    }
    buf_char(out, ';');
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
    buf_printf(out, " map %s dims", map->tensor);
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
