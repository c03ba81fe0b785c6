/* clock_code.c - the text of a disassembler to instructions with their control bits. */
#include "backends/clock/clock_code.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backends/clock/clock_anchor.h"

typedef struct Label {
    const char *name;
    uint32_t at; /* the instruction behind it */
} Label;

typedef struct Reader {
    Arena *arena;
    CodeKernel *kernel;
    VEC(Label) labels;
    uint32_t ptx_line;
    bool half; /* the second line of the last instruction is still to come */
} Reader;

static const uint32_t NOWHERE = UINT32_MAX;

CodeControl
code_control(uint64_t high)
{
    return (CodeControl){.stall = high >> 41 & 15,
                         .yield = !(high >> 45 & 1),
                         .write = high >> 46 & 7,
                         .read = high >> 49 & 7,
                         .wait = high >> 52 & 63,
                         .reuse = high >> 58 & 15};
}

static bool
starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- lines ---- */

static const char *
skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

static size_t
word_length(const char *at)
{
    return strcspn(at, " \t;");
}

/* The last comment of a line is 64 bits of an encoding. */
static bool
read_half(const char *line, uint64_t *half)
{
    const char *at = NULL;

    for (const char *next = strstr(line, "/* 0x"); next != NULL; next = strstr(next + 1, "/* 0x"))
        at = next;
    if (at == NULL)
        return false;
    *half = strtoull(at + 3, NULL, 16);
    return true;
}

/* An instruction stands behind its address in a comment. */
static bool
read_insn(Reader *r, const char *line)
{
    CodeInsn insn = {.ptx_line = r->ptx_line};
    char *behind;
    const char *at = skip_blanks(line);

    if (!starts(at, "/*"))
        return false;
    insn.address = (uint32_t)strtoul(at + 2, &behind, 16);
    if (behind == at + 2 || !starts(behind, "*/"))
        return false;
    at = skip_blanks(behind + 2);
    if (*at == '@') {
        insn.guarded = true;
        at = skip_blanks(at + word_length(at));
    }
    size_t n = word_length(at);
    if (n == 0 || *at < 'A' || *at > 'Z')
        return false;
    insn.name = arena_strndup(r->arena, at, n);
    at = skip_blanks(at + n);
    insn.operands = arena_strndup(r->arena, at, strcspn(at, ";"));
    insn.token = token_of_code(&insn);
    if (!read_half(line, &insn.low))
        return false;
    vec_push(r->arena, &r->kernel->insns, insn);
    r->half = true;
    return true;
}

/* The name behind "Function : " (cuobjdump) or ".section .text." (nvdisasm); NULL: neither. */
static const char *
kernel_name(Arena *arena, const char *line)
{
    static const char function[] = "Function : ", section[] = ".section\t.text.";
    const char *at = skip_blanks(line);
    size_t skip = starts(at, function)  ? sizeof function - 1
                  : starts(at, section) ? sizeof section - 1
                                        : 0;

    return skip ? arena_strndup(arena, at + skip, strcspn(at + skip, " ,\t")) : NULL;
}

static void
read_line(Reader *r, const char *line)
{
    static const char place[] = ".nv_debug_ptx_txt\", line ";
    const char *said = strstr(line, place), *at = skip_blanks(line);
    size_t n = strcspn(at, ":");

    if (said != NULL) {
        r->ptx_line = (uint32_t)strtoul(said + sizeof place - 1, NULL, 10);
    } else if (r->half && read_half(line, &r->kernel->insns.at[r->kernel->insns.n - 1].high)) {
        CodeInsn *insn = &r->kernel->insns.at[r->kernel->insns.n - 1];
        insn->control = code_control(insn->high);
        r->half = false;
    } else if (!read_insn(r, line) && n > 0 && strcspn(at, " \t") > n && at[n] == ':' &&
               at[n + 1] == '\0') {
        vec_push(r->arena, &r->labels,
                 ((Label){arena_strndup(r->arena, at, n), r->kernel->insns.n}));
    }
}

/* ---- blocks ---- */

/* Where a jump leads: `(.L_x_3), or 0x320, its last operand. */
static uint32_t
target_of(const Reader *r, const CodeInsn *insn)
{
    const char *label = strstr(insn->operands, "`(");
    const char *address = strrchr(insn->operands, ' ');

    if (label != NULL) {
        size_t n = strcspn(label + 2, ")");
        for (uint32_t k = 0; k < r->labels.n; k++) {
            if (strlen(r->labels.at[k].name) == n &&
                strncmp(r->labels.at[k].name, label + 2, n) == 0)
                return r->labels.at[k].at < r->kernel->insns.n ? r->labels.at[k].at : NOWHERE;
        }
        return NOWHERE;
    }
    for (address = insn->operands; address != NULL && !starts(address, "0x");)
        address = strchr(address, ' ') ? strchr(address, ' ') + 1 : NULL;
    for (uint32_t k = 0; address != NULL && k < r->kernel->insns.n; k++) {
        if (r->kernel->insns.at[k].address == strtoul(address, NULL, 16))
            return k;
    }
    return NOWHERE;
}

static bool
is_named(const CodeInsn *insn, const char *name)
{
    size_t n = strlen(name);

    return strncmp(insn->name, name, n) == 0 && (insn->name[n] == '\0' || insn->name[n] == '.');
}

/* Where threads go on that met at a BSYNC: what the BSSY of this barrier says, the last one before
 * it. */
static uint32_t
meeting_place(const Reader *r, uint32_t at)
{
    const char *barrier = r->kernel->insns.at[at].operands;
    size_t n = strcspn(barrier, " ");

    for (uint32_t k = at; k-- > 0;) {
        const CodeInsn *insn = &r->kernel->insns.at[k];
        if (is_named(insn, "BSSY") && strncmp(insn->operands, barrier, n) == 0 &&
            insn->operands[n] == ',')
            return target_of(r, insn);
    }
    return NOWHERE;
}

/* ptxas leaves a loop of sm_80 by a call of what is behind it; calls of functions come back. */
static bool
leaves_by_call(const Reader *r, const CodeInsn *insn)
{
    return is_named(insn, "CALL") && strstr(insn->operands, "`(.L") != NULL &&
           target_of(r, insn) != NOWHERE;
}

/* What may follow an instruction that ends a block; false: it ends none. */
static bool
leads_to(const Reader *r, uint32_t at, uint32_t next[2], uint32_t *n)
{
    const CodeInsn *insn = &r->kernel->insns.at[at];
    bool jumps = is_named(insn, "BRA") || is_named(insn, "JMP") || leaves_by_call(r, insn);
    bool ends = is_named(insn, "EXIT") || is_named(insn, "RET") || is_named(insn, "BRX") ||
                is_named(insn, "BRXU");
    /* BRA.U UP0 and BRA.DIV have a condition of their own before the place */
    bool falls = insn->guarded || (jumps && strchr(insn->operands, ',') != NULL);
    bool meets = is_named(insn, "BSYNC");
    uint32_t target = jumps ? target_of(r, insn) : meets ? meeting_place(r, at) : NOWHERE;

    *n = 0;
    if (!jumps && !ends && target == NOWHERE)
        return false;
    if (falls && at + 1 < r->kernel->insns.n)
        next[(*n)++] = at + 1;
    if (target != NOWHERE && (*n == 0 || next[0] != target))
        next[(*n)++] = target;
    return true;
}

static void
make_blocks(Reader *r)
{
    CodeKernel *kernel = r->kernel;
    uint32_t n = kernel->insns.n, next[2], n_next;
    bool *begins = arena_array(r->arena, bool, n + 1);

    begins[0] = true;
    for (uint32_t k = 0; k < n; k++) {
        if (!leads_to(r, k, next, &n_next))
            continue;
        begins[k + 1] = true;
        for (uint32_t j = 0; j < n_next; j++)
            begins[next[j]] = true;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (begins[k])
            vec_push(r->arena, &kernel->blocks, ((CodeBlock){.first = k}));
        kernel->insns.at[k].block = kernel->blocks.n - 1;
        kernel->blocks.at[kernel->blocks.n - 1].end = k + 1;
    }
    for (uint32_t b = 0; b < kernel->blocks.n; b++) {
        CodeBlock *block = &kernel->blocks.at[b];
        if (!leads_to(r, block->end - 1, next, &n_next) && block->end < n) {
            next[0] = block->end;
            n_next = 1;
        }
        for (block->n_next = 0; block->n_next < n_next; block->n_next++)
            block->next[block->n_next] = kernel->insns.at[next[block->n_next]].block;
    }
}

/* Registers are given out by eights. */
static uint32_t
count_registers(const CodeKernel *kernel)
{
    uint32_t most = 0;

    for (uint32_t k = 0; k < kernel->insns.n; k++) {
        for (const char *at = kernel->insns.at[k].operands; (at = strchr(at, 'R')) != NULL; at++) {
            uint32_t number = (uint32_t)strtoul(at + 1, NULL, 10) + 1;
            bool whole = at == kernel->insns.at[k].operands || !isalnum((unsigned char)at[-1]);
            most = whole && isdigit((unsigned char)at[1]) && number > most ? number : most;
        }
    }
    return (most + 2 + 7) / 8 * 8; /* two are for the hardware */
}

static void
finish_kernel(Reader *r)
{
    if (r->kernel != NULL && r->kernel->insns.n > 0) {
        make_blocks(r);
        r->kernel->registers = count_registers(r->kernel);
    }
    r->labels.n = 0;
    r->ptx_line = 0;
    r->half = false;
}

bool
code_read(Arena *arena, const char *text, CodeKernels *out, const char **why)
{
    Reader r = {.arena = arena};
    bool any = false;

    *why = "there is no machine code with its encodings (nvdisasm -hex, cuobjdump -sass)";
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        const char *line = arena_strndup(arena, text, n), *name = kernel_name(arena, line);
        text += n + (text[n] == '\n');
        if (name != NULL) {
            finish_kernel(&r);
            vec_push(arena, out, ((CodeKernel){.name = name}));
            r.kernel = &out->at[out->n - 1];
        } else if (r.kernel != NULL) {
            read_line(&r, line);
        }
    }
    if (r.half) {
        *why = "the last instruction has only half of its encoding";
        return false;
    }
    finish_kernel(&r);
    for (uint32_t k = 0; k < out->n; k++)
        any |= out->at[k].insns.n > 0;
    return any;
}
