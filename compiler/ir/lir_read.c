/* lir_read.c - reads the text of lane IR back.
 *
 *     lane NAME threads N shared N blocks N [cluster N N N] registers N
 *         param NAME b64 [pointer N | stride N N | size N | scalar N | memory N | zero]
 *         param NAME map TENSOR dims N .. box N .. swizzle N promotion N
 *         mutable %r4 %f5
 *     {
 *         add.s32 %r6, %r4, 1;
 *     $L1:
 *         @!%p7 bra $L1;
 *     }
 *
 * One line, one instruction.  An instruction is the row of lir.def whose mnemonic and operand
 * groups fit the line.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/lir.h"

enum { MOST_REGISTERS = 1 << 24, MOST_OPERANDS = 144, MOST_RESULTS = 128 };

typedef struct LirReader {
    Arena *arena;
    Diag *diag;
    const SourceFile *file;
    const char *at, *end; /* of the text */
    LirFn *fn;
    bool failed;
} LirReader;

static void
fail(LirReader *r, const char *at, const char *message)
{
    uint32_t lo = r->file->base + (uint32_t)(at - r->file->text);

    if (!r->failed)
        diag_error(r->diag, (Span){lo, lo + 1}, "E-LANE-IR: %s", message);
    r->failed = true;
}

static void
skip_blanks(LirReader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

static void
skip_lines(LirReader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) != NULL)
        r->at++;
}

/* Whether `text` stands here; then it is passed. */
static bool
accept(LirReader *r, const char *text)
{
    size_t n = strlen(text);

    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
        return false;
    r->at += n;
    return true;
}

static bool
is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == ':' || c == '%' || c == '$';
}

static const char *
take_word(LirReader *r, const char *what)
{
    skip_blanks(r);
    const char *from = r->at;
    while (r->at < r->end && is_word(*r->at))
        r->at++;
    if (r->at == from)
        fail(r, from, what);
    return arena_strndup(r->arena, from, (size_t)(r->at - from));
}

static uint32_t
take_number(LirReader *r, uint32_t most)
{
    skip_blanks(r);
    const char *from = r->at;
    uint64_t value = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && value <= most)
        value = value * 10 + (uint64_t)(*r->at++ - '0');
    if (r->at == from || value > most)
        fail(r, from, "expected a number, and not a larger one");
    return (uint32_t)(value > most ? 0 : value);
}

/* ---- operands ---- */

/* "%r12", when one stands here. */
static bool
accept_register(LirReader *r, LirReg *out)
{
    static const char letters[] = "phrfdq";
    const char *from = r->at;

    if (r->end - r->at < 3 || *from != '%' || from[1] == '\0' || strchr(letters, from[1]) == NULL ||
        from[2] < '0' || from[2] > '9')
        return false;
    LirClass class = (LirClass)(strchr(letters, from[1]) - letters);
    r->at += 2;
    LirReg reg = take_number(r, MOST_REGISTERS);
    if (reg == 0 || reg >= r->fn->regs.n) {
        fail(r, from, "there is no such register: the head says how many there are");
        return true;
    }
    LirRegInfo *info = &r->fn->regs.at[reg];
    if (info->depth != 0 && info->class != class)
        fail(r, from, "the register has another letter elsewhere");
    info->class = class;
    info->depth = 1; /* seen */
    *out = reg;
    return true;
}

/* An integer with a sign, when one stands here. */
static bool
accept_integer(LirReader *r, int64_t *out)
{
    const char *from = r->at;
    const char *digits = from + (from < r->end && (*from == '-' || *from == '+'));
    char *stop;

    if (digits >= r->end || *digits < '0' || *digits > '9')
        return false;
    *out = strtoll(from, &stop, 10);
    r->at = stop;
    return true;
}

static bool
take_operand(LirReader *r, LirOperand *out)
{
    skip_blanks(r);
    *out = (LirOperand){0};
    if (accept_register(r, &out->reg)) {
        out->kind = LIR_REG;
        return true;
    }
    if (r->end - r->at >= 10 && r->at[0] == '0' && r->at[1] == 'f') {
        uint32_t bits = (uint32_t)strtoul(arena_strndup(r->arena, r->at + 2, 8), NULL, 16);
        out->kind = LIR_FLOAT;
        out->integer = bits;
        r->at += 10;
        return true;
    }
    if (accept_integer(r, &out->integer)) {
        out->kind = LIR_INT;
        return true;
    }
    if (accept(r, "$L")) {
        out->kind = LIR_TARGET_LABEL;
        out->integer = take_number(r, UINT32_MAX / 2);
        if (out->integer > r->fn->labels)
            r->fn->labels = (uint32_t)out->integer;
        return true;
    }
    if (r->at >= r->end || !is_word(*r->at))
        return false;
    out->kind = LIR_SYMBOL;
    out->symbol = take_word(r, "expected an operand");
    return true;
}

static bool
take_address(LirReader *r, LirOperand *out)
{
    *out = (LirOperand){.kind = LIR_ADDRESS};
    if (!accept(r, "["))
        return false;
    if (!accept_register(r, &out->reg))
        out->symbol = take_word(r, "expected a register or a name");
    accept(r, "+"); /* [%r1+-8] */
    accept_integer(r, &out->integer);
    return accept(r, "]");
}

static bool
take_vector(LirReader *r, int32_t n, LirOperand *out)
{
    if (!accept(r, "{"))
        return false;
    for (int32_t k = 0; k < n; k++) {
        if ((k > 0 && !accept(r, ",")) || !take_operand(r, &out[k]))
            return false;
    }
    return accept(r, "}");
}

/* A vector of as many as there are. */
static bool
take_any_vector(LirReader *r, LirOperand *out, uint32_t *n)
{
    if (!accept(r, "{"))
        return false;
    do {
        if (*n == MOST_RESULTS || !take_operand(r, &out[(*n)++]))
            return false;
    } while (accept(r, ","));
    return accept(r, "}");
}

/* ---- instructions ---- */

/* The operands of an instruction in the form of `op`, up to the semicolon; false: another form. */
static bool
take_form(LirReader *r, LirOpcode op, LirOperand *operands, uint32_t *n, uint32_t *n_dst)
{
    const LirOpInfo *info = lir_op_info(op);

    *n = *n_dst = 0;
    for (const char *group = info->groups; *group != '\0';) {
        uint32_t length = (uint32_t)strcspn(group, ",");
        bool ok = group == info->groups || accept(r, ",");
        if (length == 1 && *group == 'o' && !ok)
            break;
        if (length == 1 && (*group == 'r' || *group == 'o')) {
            ok = ok && take_operand(r, &operands[(*n)++]);
        } else if (length == 1 && *group == 'a') {
            ok = ok && take_address(r, &operands[(*n)++]);
        } else if (length == 1 && (*group == '2' || *group == '4')) {
            ok = ok && take_vector(r, *group - '0', &operands[*n]);
            *n += (uint32_t)(*group - '0');
        } else if (length == 1 && *group == 'e') {
            ok = ok && accept(r, "_|") && take_operand(r, &operands[(*n)++]);
        } else if (length == 1 && *group == '*') {
            ok = ok && take_any_vector(r, operands, n);
        } else if (length == 2 && *group == 't') {
            int32_t rank = group[1] - '0';
            ok = ok && accept(r, "[") && take_operand(r, &operands[*n]) && accept(r, ",") &&
                 take_vector(r, rank, &operands[*n + 1]) && accept(r, "]");
            *n += 1 + (uint32_t)rank;
        } else {
            const char *literal = group + (*group == '#');
            size_t rest = length - (*group == '#');
            ok = ok && accept(r, arena_strndup(r->arena, literal, rest)) &&
                 (r->at == r->end || *r->at < '0' || *r->at > '9');
        }
        if (!ok)
            return false;
        if (group == info->groups && (info->flags & LF_NO_DST) == 0)
            *n_dst = *n;
        group += length + (group[length] == ',');
    }
    return accept(r, ";");
}

static LirInsn *
add_insn(LirReader *r, LirOpcode op, uint32_t n_dst, uint32_t n, const LirOperand *operands)
{
    LirInsn *insn = arena_new(r->arena, LirInsn);

    insn->op = op;
    lir_note_op(r->fn, op);
    insn->n_dst = n_dst;
    insn->n = n;
    insn->operands = arena_copy(r->arena, operands, n * sizeof *operands);
    vec_push(r->arena, &r->fn->insns, insn);
    return insn;
}

static bool
is_mnemonic_of(LirOpcode op, const char *mnemonic)
{
    if (op == LIR_COMMENT || op == LIR_LABEL)
        return false;
    if (op == LIR_MMA || op == LIR_MMA_S32 ||
        op == LIR_MMA_SCALED) /* the type of the sum stands last */
        return strncmp(mnemonic, "mma.", 4) == 0 &&
               (strstr(mnemonic, ".s32") != NULL) == (op == LIR_MMA_S32) &&
               (strstr(mnemonic, ".block_scale") != NULL) == (op == LIR_MMA_SCALED);
    if (op == LIR_WGMMA_SS || op == LIR_WGMMA_RS)
        return strncmp(mnemonic, "wgmma.mma_async.", 16) == 0;
    if (op == LIR_TMEM_LD || op == LIR_TMEM_ST || op == LIR_TMEM_MMA_SS || op == LIR_TMEM_MMA_TS ||
        op == LIR_TMEM_MMA_SCALED) {
        size_t n = strlen(lir_op_info(op)->mnemonic);
        return strncmp(mnemonic, lir_op_info(op)->mnemonic, n) == 0 && mnemonic[n] == '.';
    }
    return strcmp(lir_op_info(op)->mnemonic, mnemonic) == 0;
}

static void
take_insn(LirReader *r)
{
    LirReg guard = 0;
    bool guard_not = false, known = false;
    const char *line = r->at;

    if (accept(r, "@")) {
        guard_not = accept(r, "!");
        if (!accept_register(r, &guard))
            fail(r, r->at, "expected a predicate");
    }
    const char *begin = r->at;
    const char *mnemonic = take_word(r, "expected an instruction");
    const char *after = r->at;
    for (uint32_t op = 0; op < LIR_OPCODE_COUNT && !r->failed; op++) {
        LirOperand operands[MOST_OPERANDS];
        uint32_t n, n_dst;
        if (!is_mnemonic_of((LirOpcode)op, mnemonic))
            continue;
        known = true;
        r->at = after;
        if (!take_form(r, (LirOpcode)op, operands, &n, &n_dst))
            continue;
        LirInsn *insn = add_insn(r, (LirOpcode)op, n_dst, n, operands);
        insn->guard = guard;
        insn->guard_not = guard_not;
        bool named = strcmp(lir_op_info((LirOpcode)op)->mnemonic, mnemonic) != 0;
        insn->text = named ? mnemonic : NULL;
        return;
    }
    if (!known)
        fail(r, begin, "there is no such instruction in lane IR");
    else
        fail(r, line, "the operands do not fit the instruction");
}

static void
take_comment(LirReader *r)
{
    const char *from = r->at + (r->at < r->end && *r->at == ' ');
    const char *stop = memchr(from, '\n', (size_t)(r->end - from));

    stop = stop == NULL ? r->end : stop;
    add_insn(r, LIR_COMMENT, 0, 0, NULL)->text = arena_strndup(r->arena, from,
                                                               (size_t)(stop - from));
    r->at = stop;
}

/* ---- functions ---- */

/* Whether the word `text` stands next on this line; then it is passed. */
static bool
accept_word(LirReader *r, const char *text)
{
    const char *from = r->at;

    if (accept(r, text) && (r->at == r->end || !is_word(*r->at)))
        return true;
    r->at = from;
    return false;
}

static uint32_t
take_numbers(LirReader *r, uint32_t *out, uint32_t most)
{
    uint32_t n = 0;

    for (skip_blanks(r); r->at < r->end && *r->at >= '0' && *r->at <= '9' && n < most && !r->failed;
         skip_blanks(r))
        out[n++] = take_number(r, UINT32_MAX / 2);
    return n;
}

static void
take_word_number(LirReader *r, const char *word, uint32_t *out)
{
    if (!accept_word(r, word))
        fail(r, r->at, "expected swizzle and promotion, each with a number of bytes");
    else
        *out = take_number(r, UINT32_MAX / 2);
}

static void
take_map(LirReader *r, const char *name)
{
    LirTensorMap map = {.tensor = take_word(r, "expected the name of a tensor")};

    if (accept_word(r, "as"))
        map.rounds = take_word(r, "expected the name of a type");
    const char *at = r->at;
    if (accept_word(r, "dims"))
        map.rank = take_numbers(r, map.dim, BOX_RANK);
    if (map.rank == 0 || !accept_word(r, "box") || take_numbers(r, map.box, BOX_RANK) != map.rank)
        fail(r, at, "expected dims and box, each with the same 1 to 5 numbers");
    take_word_number(r, "swizzle", &map.swizzle_bytes);
    take_word_number(r, "promotion", &map.l2_promotion_bytes);
    lir_add_map(r->fn, name, &map);
}

static void
take_param(LirReader *r)
{
    static const char *const classes[LIR_CLASSES] = {"pred", "b16", "b32", "f32", "b64", "b128"};
    static const char *const kinds[] = {"pointer", "stride", "size", "scalar", "memory", "zero"};
    const char *name = take_word(r, "expected the name of the parameter");
    LirClass class = LIR_CLASSES;
    LirParamKind kind = LIR_PARAM_PLAIN;
    uint32_t number[2] = {0};

    if (accept_word(r, "map")) {
        take_map(r, name);
        return;
    }
    skip_blanks(r);
    const char *at = r->at;
    const char *text = take_word(r, "expected the class of the parameter");
    for (uint32_t k = 0; k < LIR_CLASSES; k++) {
        if (strcmp(text, classes[k]) == 0)
            class = (LirClass)k;
    }
    if (class == LIR_CLASSES) {
        fail(r, at, "the class of a parameter is b32, f32 or b64");
        return;
    }
    for (uint32_t k = 0; k < sizeof kinds / sizeof kinds[0] && kind == LIR_PARAM_PLAIN; k++) {
        if (accept_word(r, kinds[k]))
            kind = (LirParamKind)(LIR_PARAM_POINTER + k);
    }
    at = r->at;
    uint32_t wanted = kind == LIR_PARAM_PLAIN || kind == LIR_PARAM_ZERO ? 0
                      : kind == LIR_PARAM_STRIDE                        ? 2
                                                                        : 1;
    if (take_numbers(r, number, 2) != wanted)
        fail(r, at, "expected pointer N, stride N N, size N, scalar N, memory N or zero");
    lir_add_param(r->fn, kind, class, name, number[0], number[1]);
}

static void
take_head(LirReader *r)
{
    const char *name = take_word(r, "expected the name of the function");
    LirFn *fn = r->fn = lir_fn_new(r->arena, name);

    if (accept(r, "threads"))
        fn->threads = take_number(r, 1024);
    if (accept(r, "shared"))
        fn->shared_bytes = take_number(r, UINT32_MAX / 2);
    if (accept(r, "blocks"))
        fn->min_blocks = take_number(r, 1024);
    if (accept_word(r, "cluster"))
        for (uint32_t d = 0; d < 3; d++)
            fn->cluster[d] = take_number(r, 1024);
    uint32_t registers = accept(r, "registers") ? take_number(r, MOST_REGISTERS) : 1;
    for (uint32_t k = 1; k < registers; k++) {
        LirRegInfo unknown = {.class = LIR_B32};
        vec_push(r->arena, &fn->regs, unknown);
    }
    for (skip_lines(r); accept_word(r, "param") && !r->failed; skip_lines(r))
        take_param(r);
    if (accept(r, "mutable")) {
        LirReg reg = 0;
        for (skip_blanks(r); !r->failed && accept_register(r, &reg); skip_blanks(r))
            fn->regs.at[reg].is_mutable = true;
    }
    skip_lines(r);
    if (!accept(r, "{"))
        fail(r, r->at, "expected '{' and the instructions");
}

static void
take_function(LirReader *r)
{
    take_head(r);
    for (skip_lines(r); !r->failed && !accept(r, "}"); skip_lines(r)) {
        if (r->at >= r->end) {
            fail(r, r->end, "expected '}' at the end of the function");
        } else if (accept(r, "//")) {
            take_comment(r);
        } else if (*r->at == '$') {
            LirOperand label;
            if (take_operand(r, &label) && label.kind == LIR_TARGET_LABEL && accept(r, ":"))
                add_insn(r, LIR_LABEL, 0, 1, &label);
            else
                fail(r, r->at, "expected a label, as in $L1:");
        } else {
            take_insn(r);
        }
    }
    for (uint32_t k = 0; k < r->fn->regs.n; k++)
        r->fn->regs.at[k].depth = 0;
}

bool
lir_read(Arena *arena, Diag *diag, const SourceFile *file, LirFnList *out)
{
    LirReader r = {
        .arena = arena, .diag = diag, .file = file, .at = file->text, .end = file->text + file->n};

    for (skip_lines(&r); r.at < r.end && !r.failed; skip_lines(&r)) {
        if (out->n == 0 && accept(&r, "//")) { /* comments before the first function */
            while (r.at < r.end && *r.at != '\n')
                r.at++;
            continue;
        }
        if (!accept(&r, "lane ")) {
            fail(&r, r.at, "expected 'lane' and the name of a function");
            break;
        }
        take_function(&r);
        vec_push(arena, out, r.fn);
    }
    if (!r.failed && out->n == 0)
        fail(&r, r.at, "there is no function in the file");
    return !r.failed;
}
