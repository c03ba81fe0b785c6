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

void
lir_print(const LirFn *fn, Buf *out)
{
    buf_printf(out, "lane %s threads %u shared %u\n{\n", fn->name, fn->threads, fn->shared_bytes);
    for (uint32_t i = 0; i < fn->insns.n; i++) {
        const LirInsn *insn = fn->insns.at[i];
        buf_add(out, insn->op == LIR_LABEL ? "" : "    ");
        lir_print_insn(fn, insn, out);
        buf_char(out, '\n');
    }
    buf_add(out, "}\n");
}
