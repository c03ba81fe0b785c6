/* lir_text.c - prints lane IR; an instruction's text is its PTX. */
#include <string.h>

#include "compiler/ir/lir.h"

static const char *const prefixes[LIR_CLASSES] = {"%p", "%h", "%r", "%f", "%d"};

static void
print_reg(const LirFn *fn, LirReg reg, Buf *out)
{
    buf_printf(out, "%s%u", prefixes[fn->regs.at[reg].class], reg);
}

static void
print_operand(const LirFn *fn, const LirOperand *operand, Buf *out)
{
    uint32_t bits = 0;

    switch (operand->kind) {
    case LIR_REG:
        print_reg(fn, operand->reg, out);
        break;
    case LIR_INT:
        buf_printf(out, "%lld", (long long)operand->integer);
        break;
    case LIR_FLOAT:
        memcpy(&bits, &operand->number, sizeof bits);
        buf_printf(out, "0f%08X", bits);
        break;
    case LIR_ADDRESS:
        buf_char(out, '[');
        if (operand->symbol != NULL)
            buf_add(out, operand->symbol);
        else
            print_reg(fn, operand->reg, out);
        if (operand->integer != 0)
            buf_printf(out, "%+lld", (long long)operand->integer);
        buf_char(out, ']');
        break;
    case LIR_SYMBOL:
        buf_add(out, operand->symbol);
        break;
    case LIR_TARGET_LABEL:
        buf_printf(out, "$L%lld", (long long)operand->integer);
        break;
    }
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
    buf_add(out, insn->op == LIR_MMA ? insn->text : info->mnemonic);
    uint32_t next = 0;
    for (const char *group = info->groups; *group != '\0';) {
        uint32_t length = (uint32_t)strcspn(group, ",");
        buf_add(out, group == info->groups ? " " : ", ");
        if (length == 1 && (*group == 'r' || *group == 'a')) {
            print_operand(fn, &insn->operands[next++], out);
        } else if (length == 1 && (*group == '2' || *group == '4') && next < insn->n) {
            buf_char(out, '{');
            for (int k = 0; k < *group - '0'; k++) {
                buf_add(out, k > 0 ? ", " : "");
                print_operand(fn, &insn->operands[next++], out);
            }
            buf_char(out, '}');
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

void
lir_print(const LirFn *fn, Buf *out)
{
    static const char *const classes[LIR_CLASSES] = {"pred", "b16", "b32", "f32", "b64"};
    bool *seen = registers_seen(fn, out->arena), any = false;

    buf_printf(out, "lane %s threads %u shared %u blocks %u registers %u\n", fn->name, fn->threads,
               fn->shared_bytes, fn->min_blocks, fn->regs.n);
    for (uint32_t i = 0; i < fn->params.n; i++)
        buf_printf(out, "    param %s %s\n", fn->params.at[i].name,
                   classes[fn->params.at[i].class]);
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
