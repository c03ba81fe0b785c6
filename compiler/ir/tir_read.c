/* tir_read.c - reads tile IR back from the text that tir_text.c writes.
 *
 * A hand-written recursive descent over one pass of the text.  Definitions come before uses, so no
 * second pass is needed.  The first error ends the reading: this text is written by programs and
 * by people who work on the compiler.  What a single line can not show (types that disagree,
 * dominance) is the verifier's to find.
 */
#include "compiler/ir/tir.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum TokenKind {
    TOK_END,
    TOK_NAME,   /* identifier or keyword */
    TOK_VALUE,  /* %name_12 or %12; the text is without the sign */
    TOK_SHARED, /* $name_0 */
    TOK_NUMBER, /* 12, 1.5, 1e-3; sign not included */
    TOK_STRING, /* the text is the contents, unescaped */
    TOK_SIGN    /* punctuation, one or two characters */
} TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *text;
    Span span;
    bool new_line; /* the first one on its line */
} Token;

/* Values by their text; open addressing, grown at half full. */
typedef struct ValueEntry {
    const char *text;
    TirVal *value;
} ValueEntry;

typedef struct Reader {
    Arena *arena;
    Diag *diag;
    const SourceFile *file;
    uint32_t at; /* first byte that is not tokenised */
    Token token; /* the one to look at */
    bool failed;
    TirModule *module;
    TirFn *fn;
    ValueEntry *values;
    uint32_t n_values, values_cap;
} Reader;

/* ---- errors and tokens ---- */

static void
fail_at(Reader *r, Span span, const char *message)
{
    if (!r->failed)
        diag_error(r->diag, span, "%s", message);
    r->failed = true;
}

static void
fail(Reader *r, const char *message)
{
    fail_at(r, r->token.span, message);
}

static bool
is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void
skip_blanks(Reader *r)
{
    const char *text = r->file->text;

    for (;;) {
        while (r->at < r->file->n && isspace((unsigned char)text[r->at]))
            r->at++;
        if (r->at + 1 >= r->file->n || text[r->at] != '/' || text[r->at + 1] != '/')
            return;
        while (r->at < r->file->n && text[r->at] != '\n')
            r->at++;
    }
}

static const char *
unescape(Reader *r, uint32_t lo, uint32_t hi)
{
    Buf out;

    buf_init(&out, r->arena);
    buf_add(&out, "");
    for (uint32_t k = lo; k < hi; k++) {
        char c = r->file->text[k];
        if (c == '\\' && k + 1 < hi) {
            c = r->file->text[++k];
            if (c == 'n')
                c = '\n';
        }
        buf_char(&out, c);
    }
    return out.at;
}

static uint32_t
scan_number(const char *text, uint32_t at)
{
    while (isdigit((unsigned char)text[at]))
        at++;
    if (text[at] == '.' && isdigit((unsigned char)text[at + 1])) {
        at++;
        while (isdigit((unsigned char)text[at]))
            at++;
    }
    if (text[at] == 'e' || text[at] == 'E') {
        uint32_t sign = text[at + 1] == '-' || text[at + 1] == '+';
        if (isdigit((unsigned char)text[at + 1 + sign])) {
            at += 1 + sign;
            while (isdigit((unsigned char)text[at]))
                at++;
        }
    }
    return at;
}

static uint32_t
scan_sign(const char *text, uint32_t at)
{
    static const char *const pairs[] = {"..", "+:", "==", "!=", "<=", ">=", "&&", "||"};

    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++)
        if (text[at] == pairs[k][0] && text[at + 1] == pairs[k][1])
            return at + 2;
    return at + 1;
}

static void
set_token(Reader *r, TokenKind kind, uint32_t lo, uint32_t text_lo, uint32_t hi)
{
    r->token.kind = kind;
    r->token.span = (Span){r->file->base + lo, r->file->base + hi};
    r->token.text = arena_strndup(r->arena, r->file->text + text_lo, hi - text_lo);
    r->at = hi;
}

static void
next(Reader *r)
{
    const char *text = r->file->text; /* ends with a NUL, which stops every scan */

    uint32_t before = r->at;
    skip_blanks(r);
    uint32_t lo = r->at, hi = lo;
    char c = text[lo];
    r->token.new_line = memchr(text + before, '\n', lo - before) != NULL;
    if (lo >= r->file->n || r->failed) {
        r->token = (Token){TOK_END, "", {r->file->base + lo, r->file->base + lo}, true};
    } else if (isalpha((unsigned char)c) || c == '_') {
        while (is_word(text[hi]))
            hi++;
        set_token(r, TOK_NAME, lo, lo, hi);
    } else if ((c == '%' || c == '$') && is_word(text[lo + 1])) {
        hi++;
        while (is_word(text[hi]))
            hi++;
        set_token(r, c == '%' ? TOK_VALUE : TOK_SHARED, lo, lo + 1, hi);
    } else if (isdigit((unsigned char)c)) {
        set_token(r, TOK_NUMBER, lo, lo, scan_number(text, lo));
    } else if (c == '"') {
        for (hi++; hi < r->file->n && text[hi] != '"' && text[hi] != '\n'; hi++)
            hi += text[hi] == '\\' && hi + 1 < r->file->n;
        if (hi >= r->file->n || text[hi] != '"') {
            fail_at(r, (Span){r->file->base + lo, r->file->base + lo + 1},
                    "this string does not end on its line");
            return;
        }
        set_token(r, TOK_STRING, lo, lo, hi + 1);
        r->token.text = unescape(r, lo + 1, hi);
    } else {
        set_token(r, TOK_SIGN, lo, lo, scan_sign(text, lo));
    }
}

static bool
looking_at(const Reader *r, const char *text)
{
    return (r->token.kind == TOK_NAME || r->token.kind == TOK_SIGN) &&
           strcmp(r->token.text, text) == 0;
}

static bool
accept(Reader *r, const char *text)
{
    if (r->failed || !looking_at(r, text))
        return false;
    next(r);
    return true;
}

static void
expect(Reader *r, const char *text)
{
    if (!accept(r, text))
        fail(r, arena_printf(r->arena, "expected '%s', found %s%s%s", text,
                             r->token.kind == TOK_END ? "the end of the file" : "'",
                             r->token.kind == TOK_END ? "" : r->token.text,
                             r->token.kind == TOK_END ? "" : "'"));
}

static const char *
take(Reader *r, TokenKind kind, const char *what)
{
    const char *text = r->token.text;

    if (r->token.kind != kind) {
        fail(r, arena_printf(r->arena, "expected %s", what));
        return "";
    }
    next(r);
    return text;
}

static int64_t
take_integer(Reader *r, int64_t lowest, int64_t highest)
{
    Span span = r->token.span;
    bool negative = accept(r, "-");
    const char *text = take(r, TOK_NUMBER, "an integer");
    char *end = NULL;

    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    if (*text != '\0' && (*end != '\0' || errno != 0))
        fail_at(r, span, "this is not an integer of 64 bits");
    if (negative)
        value = -value;
    if (value < lowest || value > highest)
        fail_at(r, span, arena_printf(r->arena, "this number must lie in %lld .. %lld",
                                      (long long)lowest, (long long)highest));
    return r->failed ? lowest : value;
}

static uint32_t
take_u32(Reader *r)
{
    return (uint32_t)take_integer(r, 0, UINT32_MAX);
}

static int32_t
take_extent(Reader *r)
{
    return (int32_t)take_integer(r, 1, INT32_MAX);
}

/* strtod wants the radix character of the locale; the text always has a point. */
static double
decimal(Reader *r, const char *text)
{
    char sample[8];
    char *copy = arena_strndup(r->arena, text, strlen(text));

    snprintf(sample, sizeof sample, "%.1f", 1.5);
    for (char *c = copy; *c != '\0'; c++)
        if (*c == '.')
            *c = sample[1];
    return strtod(copy, NULL);
}

static double
take_number(Reader *r)
{
    bool negative = accept(r, "-");
    double value;

    if (accept(r, "inf"))
        value = INFINITY;
    else if (accept(r, "nan"))
        value = NAN;
    else
        value = decimal(r, take(r, TOK_NUMBER, "a number"));
    return negative ? -value : value;
}

static DType
take_dtype(Reader *r)
{
    Span span = r->token.span;
    const char *text = take(r, TOK_NAME, "an element type");
    DType dtype = DT_F32;

    if (!r->failed && !dtype_parse(text, &dtype))
        fail_at(r, span, arena_printf(r->arena, "there is no element type '%s'", text));
    return dtype;
}

static TirType
take_type(Reader *r)
{
    TirType type = tir_scalar(take_dtype(r));

    if (!accept(r, "["))
        return type;
    do {
        if (type.rank == TIR_MAX_RANK) {
            fail(r, "a tile has at most 4 dimensions");
            break;
        }
        type.dim[type.rank++] = take_extent(r);
    } while (accept(r, ","));
    expect(r, "]");
    return type;
}

/* ---- values ---- */

static uint32_t
hash_text(const char *text)
{
    uint32_t hash = 2166136261u;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

static ValueEntry *
find_entry(const Reader *r, const char *text)
{
    uint32_t at = hash_text(text) & (r->values_cap - 1);

    while (r->values[at].text != NULL && strcmp(r->values[at].text, text) != 0)
        at = (at + 1) & (r->values_cap - 1);
    return &r->values[at];
}

static void
forget_values(Reader *r)
{
    r->values_cap = 256;
    r->n_values = 0;
    r->values = arena_array(r->arena, ValueEntry, r->values_cap);
}

static void
grow_values(Reader *r)
{
    ValueEntry *old = r->values;
    uint32_t n = r->values_cap;

    r->values_cap = n * 2;
    r->values = arena_array(r->arena, ValueEntry, r->values_cap);
    for (uint32_t k = 0; k < n; k++)
        if (old[k].text != NULL)
            *find_entry(r, old[k].text) = old[k];
}

static void
define(Reader *r, Token name, TirVal *value)
{
    if (r->failed)
        return;
    if (r->n_values * 2 >= r->values_cap)
        grow_values(r);
    ValueEntry *entry = find_entry(r, name.text);
    if (entry->text != NULL) {
        fail_at(r, name.span, arena_printf(r->arena, "'%%%s' is defined twice", name.text));
        return;
    }
    *entry = (ValueEntry){name.text, value};
    r->n_values++;
    /* "s_12" is the 12th value and is called s; "12" has no name */
    const char *underscore = strrchr(name.text, '_');
    if (underscore != NULL && underscore > name.text)
        value->name = arena_strndup(r->arena, name.text, (size_t)(underscore - name.text));
}

static TirVal *
take_use(Reader *r)
{
    Token name = r->token;

    take(r, TOK_VALUE, "a value ('%name_number')");
    if (r->failed)
        return NULL;
    TirVal *value = find_entry(r, name.text)->value;
    if (value == NULL)
        fail_at(r, name.span, arena_printf(r->arena, "'%%%s' is not defined before this",
                                           name.text));
    return value;
}

typedef VEC(TirVal *) ValueList;

static void
take_uses(Reader *r, ValueList *list)
{
    do {
        TirVal *value = take_use(r);
        vec_push(r->arena, list, value);
    } while (accept(r, ","));
}

/* ---- names of the kernel ---- */

static TirTensor *
take_tensor(Reader *r)
{
    Span span = r->token.span;
    const char *text = take(r, TOK_NAME, "the name of a tensor");

    for (uint32_t k = 0; k < r->fn->tensors.n; k++)
        if (strcmp(r->fn->tensors.at[k]->name, text) == 0)
            return r->fn->tensors.at[k];
    fail_at(r, span, arena_printf(r->arena, "there is no tensor '%s' in this kernel", text));
    return NULL;
}

static bool
find_size(const TirFn *fn, const char *text, uint32_t *index)
{
    for (*index = 0; *index < fn->sizes.n; ++*index)
        if (strcmp(fn->sizes.at[*index].name, text) == 0)
            return true;
    return false;
}

static bool
find_scalar(const TirFn *fn, const char *text, uint32_t *index)
{
    for (*index = 0; *index < fn->scalars.n; ++*index)
        if (strcmp(fn->scalars.at[*index].name, text) == 0)
            return true;
    return false;
}

static bool
find_axis(const TirFn *fn, const char *text, uint32_t *index)
{
    for (*index = 0; *index < fn->grid.n; ++*index)
        if (strcmp(fn->grid.at[*index].name, text) == 0)
            return true;
    return false;
}

static int64_t
take_named(Reader *r, bool (*find)(const TirFn *, const char *, uint32_t *), const char *what)
{
    Span span = r->token.span;
    const char *text = take(r, TOK_NAME, what);
    uint32_t index = 0;

    if (!r->failed && !find(r->fn, text, &index))
        fail_at(r, span, arena_printf(r->arena, "'%s' is not %s of this kernel", text, what));
    return index;
}

/* "$name_0" or "$_0": the number decides. */
static TirShared *
take_shared(Reader *r)
{
    Span span = r->token.span;
    const char *text = take(r, TOK_SHARED, "a shared buffer ('$name_number')");
    const char *underscore = strrchr(text, '_');

    if (r->failed)
        return NULL;
    unsigned long at = underscore == NULL ? ULONG_MAX : strtoul(underscore + 1, NULL, 10);
    if (at < r->fn->shared.n)
        return r->fn->shared.at[at];
    fail_at(r, span, arena_printf(r->arena, "there is no shared buffer '$%s'", text));
    return NULL;
}

/* ---- host expressions ---- */

typedef struct HostSign {
    const char *text;
    HostKind kind;
    int precedence;
} HostSign;

static const HostSign host_signs[] = {
    {"||", HOST_OR, 1}, {"&&", HOST_AND, 2}, {"==", HOST_EQ, 3},  {"!=", HOST_NE, 3},
    {"<", HOST_LT, 4},  {"<=", HOST_LE, 4},  {">", HOST_GT, 4},   {">=", HOST_GE, 4},
    {"+", HOST_ADD, 5}, {"-", HOST_SUB, 5},  {"*", HOST_MUL, 6},  {"/", HOST_DIV, 6},
    {"%", HOST_REM, 6},
};

enum { HOST_MAX_DEPTH = 200 };

static const HostExpr *take_host(Reader *r, int lowest, int depth);

/* "-5" is a constant, not the negative of one. */
static const HostExpr *
negated(Reader *r, const HostExpr *constant)
{
    HostExpr *expr = arena_copy(r->arena, constant, sizeof *constant);
    expr->integer = -expr->integer;
    expr->number = -expr->number;
    return expr;
}

static const HostExpr *
take_host_leaf(Reader *r, int depth)
{
    HostExpr *expr = arena_new(r->arena, HostExpr);
    uint32_t index;

    if (r->failed || depth > HOST_MAX_DEPTH) {
        fail(r, "this expression is nested too deeply");
        return expr;
    }
    if (accept(r, "(")) {
        const HostExpr *inside = take_host(r, 0, depth + 1);
        expect(r, ")");
        return inside;
    }
    if (accept(r, "-") || looking_at(r, "!")) {
        expr->kind = accept(r, "!") ? HOST_NOT : HOST_NEG;
        expr->a = take_host_leaf(r, depth + 1);
        if (expr->kind == HOST_NEG && (expr->a->kind == HOST_INT || expr->a->kind == HOST_FLOAT))
            return negated(r, expr->a);
        return expr;
    }
    if (r->token.kind == TOK_NUMBER) {
        if (strpbrk(r->token.text, ".e") != NULL) {
            expr->kind = HOST_FLOAT;
            expr->number = take_number(r);
            return expr;
        }
        return host_int(r->arena, take_integer(r, 0, INT64_MAX));
    }
    Token name = r->token;
    take(r, TOK_NAME, "a size, a scalar or a number");
    bool cdiv = strcmp(name.text, "cdiv") == 0, min = strcmp(name.text, "min") == 0;
    if ((cdiv || min || strcmp(name.text, "max") == 0) && accept(r, "(")) {
        const HostExpr *a = take_host(r, 0, depth + 1);
        expect(r, ",");
        const HostExpr *b = take_host(r, 0, depth + 1);
        expect(r, ")");
        return host_binary(r->arena, cdiv ? HOST_CDIV : min ? HOST_MIN : HOST_MAX, a, b);
    }
    if (find_size(r->fn, name.text, &index))
        expr->kind = HOST_SIZE;
    else if (find_scalar(r->fn, name.text, &index))
        expr->kind = HOST_SCALAR;
    else
        fail_at(r, name.span,
                arena_printf(r->arena, "'%s' is neither a size nor a scalar", name.text));
    expr->index = index;
    return expr;
}

static const HostExpr *
take_host(Reader *r, int lowest, int depth)
{
    const HostExpr *left = take_host_leaf(r, depth);

    while (!r->failed) {
        const HostSign *sign = NULL;
        for (size_t k = 0; k < sizeof host_signs / sizeof host_signs[0]; k++)
            if (looking_at(r, host_signs[k].text) && host_signs[k].precedence > lowest)
                sign = &host_signs[k];
        if (sign == NULL)
            return left;
        next(r);
        left = host_binary(r->arena, sign->kind, left, take_host(r, sign->precedence, depth + 1));
    }
    return left;
}

/* ---- operations ---- */

typedef struct Results {
    VEC(Token) names;
    VEC(TirType) types;
} Results;

enum { BLOCK_MAX_DEPTH = 100 };

static void take_block(Reader *r, TirBlock *block, uint32_t depth);

static bool
find_opcode(const char *text, TirOpcode *opcode)
{
    for (int k = 0; k < TIR_OPCODE_COUNT; k++) {
        if (strcmp(tir_op_info((TirOpcode)k)->text, text) == 0) {
            *opcode = (TirOpcode)k;
            return true;
        }
    }
    return false;
}

/* Name[%b, %m +: 128, :] */
static TirTensor *
take_index(Reader *r, TirIndex *index, ValueList *args)
{
    TirTensor *tensor = take_tensor(r);

    expect(r, "[");
    for (uint32_t k = 0; !r->failed && k < tensor->rank; k++) {
        if (k > 0)
            expect(r, ",");
        if (accept(r, ":")) {
            index[k] = (TirIndex){INDEX_FULL, tensor->dim[k].constant};
            if (tensor->dim[k].constant == 0)
                fail(r, "':' takes a dimension of constant extent");
            continue;
        }
        TirVal *value = take_use(r);
        vec_push(r->arena, args, value);
        index[k] = (TirIndex){INDEX_SCALAR, 0};
        if (accept(r, "+:"))
            index[k] = (TirIndex){INDEX_RANGE, take_extent(r)};
    }
    expect(r, "]");
    return tensor;
}

static ReduceKind
take_reduce(Reader *r)
{
    static const char *const names[] = {"sum", "max", "min", "any", "all"};

    for (int k = 0; k < 5; k++)
        if (accept(r, names[k]))
            return (ReduceKind)k;
    fail(r, "expected sum, max, min, any or all");
    return REDUCE_SUM;
}

static TirShared *
take_slot(Reader *r, ValueList *args)
{
    TirShared *shared = take_shared(r);

    expect(r, "[");
    TirVal *slot = take_use(r);
    vec_push(r->arena, args, slot);
    expect(r, "]");
    return shared;
}

/* The operands of an operation without blocks, and the attributes behind them. */
static void
take_operands(Reader *r, TirOp *op, ValueList *args, const Results *results)
{
    switch (op->op) {
    case TIR_CONST:
        if (results->types.n > 0 && dtype_is_float(results->types.at[0].dtype))
            op->number = take_number(r);
        else
            op->integer = take_integer(r, INT64_MIN + 1, INT64_MAX);
        return;
    case TIR_PARAM:
        op->integer = take_named(r, find_scalar, "a scalar");
        return;
    case TIR_SIZE:
        op->integer = take_named(r, find_size, "a size");
        return;
    case TIR_GRID:
        op->integer = take_named(r, find_axis, "a grid axis");
        return;
    case TIR_ASYNC_WAIT:
        op->integer = take_integer(r, 0, INT32_MAX);
        return;
    case TIR_LOAD:
        op->tensor = take_index(r, op->index, args);
        return;
    case TIR_STORE:
    case TIR_ATOMIC_ADD:
        op->tensor = take_index(r, op->index, args);
        expect(r, ",");
        take_uses(r, args);
        return;
    case TIR_COPY_ASYNC:
        op->shared = take_slot(r, args);
        expect(r, ",");
        op->tensor = take_index(r, op->index, args);
        return;
    case TIR_SHARED_READ:
        op->shared = take_slot(r, args);
        return;
    case TIR_SHARED_WRITE:
        op->shared = take_slot(r, args);
        expect(r, ",");
        take_uses(r, args);
        return;
    case TIR_REDUCE:
        op->reduce = take_reduce(r);
        break;
    default:
        break;
    }
    if (r->token.kind == TOK_VALUE && !r->token.new_line) /* else it begins the next operation */
        take_uses(r, args);
}

static void
take_attributes(Reader *r, TirOp *op)
{
    if (op->op == TIR_REDUCE || op->op == TIR_EXPAND || op->op == TIR_SQUEEZE) {
        expect(r, "axis");
        expect(r, "(");
        op->axis = take_u32(r);
        expect(r, ")");
    } else if (op->op == TIR_MASK && accept(r, "segments")) {
        expect(r, "(");
        op->segments = take_u32(r);
        expect(r, ")");
    } else if (op->op == TIR_PADMASK) {
        expect(r, "value");
        expect(r, "(");
        op->number = take_number(r);
        expect(r, ")");
    } else if (op->op == TIR_MMA && accept(r, "warps")) {
        expect(r, "(");
        op->warps_m = take_u32(r);
        expect(r, ",");
        op->warps_n = take_u32(r);
        expect(r, ")");
    }
}

static TirOp *
make_op(Reader *r, TirBlock *block, TirOpcode opcode, Span span, const ValueList *args,
        const Results *results)
{
    TirBuilder b = {.fn = r->fn, .block = block, .at = -1, .span = span};
    return tir_op_new(&b, opcode, args->n, args->at, results->types.n, results->types.at);
}

static void
make_blocks(Reader *r, TirOp *op, uint32_t n)
{
    op->n_blocks = n;
    op->blocks = arena_array(r->arena, TirBlock *, n);
    for (uint32_t k = 0; k < n; k++) {
        op->blocks[k] = tir_block_new(r->fn);
        op->blocks[k]->owner = op;
    }
}

/* %i: i32 in %lo .. %hi split(..) carry(..) stages(n) no_split { .. } */
static TirOp *
take_for(Reader *r, TirBlock *block, Span span, const Results *results, uint32_t depth)
{
    ValueList args = {0};
    Results params = {0};
    LoopHints hints = {0};
    uint32_t n_segments = 0;

    Token induction = r->token;
    take(r, TOK_VALUE, "the induction variable");
    expect(r, ":");
    TirType type = take_type(r);
    expect(r, "in");
    TirVal *lo = take_use(r);
    vec_push(r->arena, &args, lo);
    expect(r, "..");
    TirVal *hi = take_use(r);
    vec_push(r->arena, &args, hi);
    if (accept(r, "split")) {
        expect(r, "(");
        if (!looking_at(r, ")"))
            take_uses(r, &args);
        expect(r, ")");
        n_segments = args.n - 1;
    }
    if (accept(r, "carry")) {
        expect(r, "(");
        do {
            Token name = r->token;
            take(r, TOK_VALUE, "the name of a carried value");
            expect(r, "=");
            TirVal *initial = take_use(r);
            if (r->failed)
                return NULL;
            vec_push(r->arena, &params.names, name);
            vec_push(r->arena, &args, initial);
        } while (accept(r, ","));
        expect(r, ")");
    }
    if (accept(r, "stages")) {
        expect(r, "(");
        hints.stages = (int32_t)take_integer(r, INT32_MIN, INT32_MAX);
        expect(r, ")");
    }
    hints.no_split = accept(r, "no_split");
    if (r->failed)
        return NULL;

    TirOp *op = make_op(r, block, TIR_FOR, span, &args, results);
    op->n_segments = n_segments;
    op->hints = hints;
    make_blocks(r, op, 1);
    define(r, induction, tir_block_param(r->fn, op->blocks[0], type, NULL));
    for (uint32_t k = 0; k < params.names.n; k++) {
        TirVal *initial = args.at[args.n - params.names.n + k];
        define(r, params.names.at[k],
               tir_block_param(r->fn, op->blocks[0], initial->type, NULL));
    }
    take_block(r, op->blocks[0], depth + 1);
    return op;
}

static TirOp *
take_if(Reader *r, TirBlock *block, Span span, const Results *results, uint32_t depth)
{
    ValueList args = {0};
    TirVal *condition = take_use(r);

    if (r->failed)
        return NULL;
    vec_push(r->arena, &args, condition);
    TirOp *op = make_op(r, block, TIR_IF, span, &args, results);
    make_blocks(r, op, 2);
    take_block(r, op->blocks[0], depth + 1);
    expect(r, "else");
    take_block(r, op->blocks[1], depth + 1);
    return op;
}

/* "%a: f32, %b: f32 =", or nothing */
static void
take_results(Reader *r, Results *results)
{
    if (r->token.kind != TOK_VALUE)
        return;
    do {
        Token name = r->token;
        take(r, TOK_VALUE, "a value to define");
        expect(r, ":");
        TirType type = take_type(r);
        vec_push(r->arena, &results->names, name);
        vec_push(r->arena, &results->types, type);
    } while (accept(r, ","));
    expect(r, "=");
}

static TirOp *
take_simple(Reader *r, TirBlock *block, TirOpcode opcode, Span span, const Results *results)
{
    TirOp attributes = {.op = opcode, .segments = UINT32_MAX};
    ValueList args = {0};

    take_operands(r, &attributes, &args, results);
    take_attributes(r, &attributes);
    if (r->failed)
        return NULL;
    int32_t wanted = tir_op_info(opcode)->args;
    if (wanted >= 0 && args.n != (uint32_t)wanted) {
        fail_at(r, span, arena_printf(r->arena, "'%s' takes %d operands, here are %u",
                                      tir_op_info(opcode)->text, (int)wanted, args.n));
        return NULL;
    }
    TirOp *op = make_op(r, block, opcode, span, &args, results);
    op->number = attributes.number;
    op->integer = attributes.integer;
    op->axis = attributes.axis;
    op->reduce = attributes.reduce;
    op->tensor = attributes.tensor;
    memcpy(op->index, attributes.index, sizeof op->index);
    op->segments = attributes.segments;
    op->shared = attributes.shared;
    op->warps_m = attributes.warps_m;
    op->warps_n = attributes.warps_n;
    return op;
}

static void
take_op(Reader *r, TirBlock *block, uint32_t depth)
{
    Results results = {0};
    Span span = r->token.span;
    TirOpcode opcode;
    TirOp *op;

    take_results(r, &results);
    Token name = r->token;
    take(r, TOK_NAME, "an operation");
    if (r->failed)
        return;
    if (!find_opcode(name.text, &opcode)) {
        fail_at(r, name.span, arena_printf(r->arena, "there is no operation '%s'", name.text));
        return;
    }
    span = span_join(span, name.span);
    int32_t wanted = tir_op_info(opcode)->results;
    if (wanted >= 0 && results.types.n != (uint32_t)wanted) {
        fail_at(r, name.span, arena_printf(r->arena, "'%s' has %d results, here are %u", name.text,
                                           (int)wanted, results.types.n));
        return;
    }
    if (opcode == TIR_FOR)
        op = take_for(r, block, span, &results, depth);
    else if (opcode == TIR_IF)
        op = take_if(r, block, span, &results, depth);
    else
        op = take_simple(r, block, opcode, span, &results);
    for (uint32_t k = 0; !r->failed && k < results.names.n; k++)
        define(r, results.names.at[k], op->results[k]);
}

static void
take_block(Reader *r, TirBlock *block, uint32_t depth)
{
    if (depth > BLOCK_MAX_DEPTH)
        fail(r, "blocks are nested too deeply");
    expect(r, "{");
    while (!r->failed && !looking_at(r, "}"))
        take_op(r, block, depth);
    expect(r, "}");
}

/* ---- kernels ---- */

static void
take_tensor_line(Reader *r)
{
    TirTensor *tensor = arena_new(r->arena, TirTensor);

    tensor->span = r->token.span;
    tensor->name = take(r, TOK_NAME, "the name of a tensor");
    expect(r, ":");
    if (accept(r, "in"))
        tensor->mode = TENSOR_IN;
    else if (accept(r, "out"))
        tensor->mode = TENSOR_OUT;
    else if (accept(r, "inout"))
        tensor->mode = TENSOR_INOUT;
    else
        fail(r, "expected in, out or inout");
    tensor->dtype = take_dtype(r);
    expect(r, "[");
    do {
        TensorDim dim = {0};
        if (r->token.kind == TOK_NUMBER)
            dim.constant = take_extent(r);
        else
            dim.size = (uint32_t)take_named(r, find_size, "a size");
        if (tensor->rank == TENSOR_MAX_RANK)
            fail(r, "a tensor has at most 6 dimensions");
        else
            tensor->dim[tensor->rank++] = dim;
    } while (!r->failed && accept(r, ","));
    expect(r, "]");
    expect(r, "align");
    tensor->align = take_u32(r);
    tensor->atomic = accept(r, "atomic");
    vec_push(r->arena, &r->fn->tensors, tensor);
}

static void
take_shared_line(Reader *r)
{
    TirShared *shared = arena_new(r->arena, TirShared);
    Token name = r->token;

    take(r, TOK_SHARED, "a shared buffer ('$name_number')");
    shared->id = r->fn->shared.n;
    const char *underscore = strrchr(name.text, '_');
    if (!r->failed &&
        (underscore == NULL || strtoul(underscore + 1, NULL, 10) != shared->id))
        fail_at(r, name.span, arena_printf(r->arena, "shared buffers are numbered in order; this "
                                                     "one is number %u", shared->id));
    if (underscore != NULL && underscore > name.text)
        shared->name = arena_strndup(r->arena, name.text, (size_t)(underscore - name.text));
    expect(r, ":");
    TirType type = take_type(r);
    if (!r->failed && type.rank != 2)
        fail_at(r, name.span, "a shared buffer has two dimensions");
    shared->dtype = type.dtype;
    shared->rows = type.dim[0];
    shared->cols = type.dim[1];
    expect(r, "slots");
    shared->slots = take_u32(r);
    expect(r, "offset");
    shared->offset = take_u32(r);
    expect(r, "bytes");
    shared->bytes = take_u32(r);
    vec_push(r->arena, &r->fn->shared, shared);
}

static void
take_line(Reader *r)
{
    TirFn *fn = r->fn;
    Span span = r->token.span;

    if (accept(r, "constant")) {
        TirConstant constant = {0};
        constant.name = take(r, TOK_NAME, "a name");
        expect(r, "=");
        constant.value = take(r, TOK_STRING, "a string");
        vec_push(r->arena, &fn->constants, constant);
    } else if (accept(r, "size")) {
        TirSize size = {take(r, TOK_NAME, "a name")};
        vec_push(r->arena, &fn->sizes, size);
    } else if (accept(r, "tensor")) {
        take_tensor_line(r);
    } else if (accept(r, "scalar")) {
        TirScalar scalar = {.span = r->token.span};
        scalar.name = take(r, TOK_NAME, "a name");
        expect(r, ":");
        scalar.dtype = take_dtype(r);
        vec_push(r->arena, &fn->scalars, scalar);
    } else if (accept(r, "require")) {
        TirRequire require = {.span = span};
        require.condition = take_host(r, 0, 0);
        expect(r, ",");
        require.message = take(r, TOK_STRING, "the message, in quotes");
        vec_push(r->arena, &fn->requires, require);
    } else if (accept(r, "grid")) {
        TirGridAxis axis = {.span = r->token.span};
        axis.name = take(r, TOK_NAME, "a name");
        expect(r, "=");
        axis.extent = take_host(r, 0, 0);
        axis.reversed = accept(r, "reversed");
        vec_push(r->arena, &fn->grid, axis);
    } else if (accept(r, "hint_warps")) {
        fn->hint_warps = take_u32(r);
    } else if (accept(r, "warps")) {
        fn->warps = take_u32(r);
    } else if (accept(r, "shared")) {
        take_shared_line(r);
    } else if (accept(r, "shared_bytes")) {
        fn->shared_bytes = take_u32(r);
    } else {
        fail(r, "expected constant, size, tensor, scalar, require, grid, warps, shared or body");
    }
}

static void
take_kernel(Reader *r)
{
    expect(r, "kernel");
    Span span = r->token.span;
    const char *name = take(r, TOK_NAME, "the name of a kernel");
    if (r->failed)
        return;
    r->fn = tir_fn_new(r->module, name, span);
    forget_values(r);
    expect(r, "{");
    while (!r->failed && !looking_at(r, "body"))
        take_line(r);
    expect(r, "body");
    take_block(r, r->fn->body, 0);
    expect(r, "}");
}

TirModule *
tir_read(Arena *arena, Diag *diag, const SourceFile *file)
{
    Reader r = {.arena = arena, .diag = diag, .file = file};

    r.module = arena_new(arena, TirModule);
    r.module->arena = arena;
    r.module->diag = diag;
    next(&r);
    while (!r.failed && r.token.kind != TOK_END)
        take_kernel(&r);
    return r.failed ? NULL : r.module;
}
