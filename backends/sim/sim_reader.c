/* sim_reader.c - PTX text piece by piece: names, numbers, operands, instructions (PTX ISA 4).
 *
 * A hand-written reader over the characters: PTX has one token class per position, so a separate
 * token stream would only be copied.
 */
#include "sim_reader.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>

_Noreturn void
sim_parse_fail(PtxFile *file, uint32_t line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    file->error->line = line;
    vsnprintf(file->error->message, sizeof file->error->message, format, args);
    va_end(args);
    longjmp(*file->failed, 1);
}

/* ------------------------------------------------------------------------ characters */

void
reader_skip_space(Reader *r)
{
    while (r->at < r->end) {
        char c = *r->at;
        if (c == '\n') {
            r->line++;
            r->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
            r->at++;
        } else if (c == '/' && r->at + 1 < r->end && r->at[1] == '/') {
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        } else if (c == '/' && r->at + 1 < r->end && r->at[1] == '*') {
            uint32_t start = r->line;
            r->at += 2;
            while (r->at + 1 < r->end && !(r->at[0] == '*' && r->at[1] == '/'))
                r->line += *r->at++ == '\n';
            if (r->at + 1 >= r->end)
                sim_parse_fail(r->file, start, "comment without end");
            r->at += 2;
        } else if (c == '#') { /* line markers of a C preprocessor */
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        } else {
            break;
        }
    }
}

char
reader_peek(Reader *r)
{
    reader_skip_space(r);
    return r->at < r->end ? *r->at : '\0';
}

bool
reader_accept(Reader *r, char c)
{
    if (reader_peek(r) != c)
        return false;
    r->at++;
    return true;
}

void
reader_expect(Reader *r, char c)
{
    if (!reader_accept(r, c)) {
        char found = reader_peek(r);
        if (found)
            fail(r, "expected '%c' before '%c'", c, found);
        fail(r, "expected '%c' before the end of the text", c);
    }
}

bool
reader_is_name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static bool
is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

const char *
reader_name(Reader *r)
{
    if (!reader_is_name_start(reader_peek(r)))
        fail(r, "expected a name");
    const char *start = r->at;
    while (r->at < r->end && is_name(*r->at))
        r->at++;
    return sim_arena_copy(r->arena, start, (size_t)(r->at - start));
}

/* A directive, modifier or mnemonic: letters, digits and "::" (as in .shared::cta). */
const char *
reader_word(Reader *r)
{
    const char *start = r->at;
    while (r->at < r->end) {
        if (is_name(*r->at))
            r->at++;
        else if (*r->at == ':' && r->at + 1 < r->end && r->at[1] == ':')
            r->at += 2;
        else
            break;
    }
    if (r->at == start)
        fail(r, "expected a word");
    return sim_arena_copy(r->arena, start, (size_t)(r->at - start));
}

const char *
reader_string(Reader *r)
{
    reader_expect(r, '"');
    const char *start = r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\n')
        r->at += *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
    if (r->at >= r->end || *r->at != '"')
        fail(r, "string without end");
    return sim_arena_copy(r->arena, start, (size_t)(r->at++ - start));
}

/* True, and skips it, if the next thing is the directive. */
bool
reader_accept_word(Reader *r, const char *word)
{
    size_t length = strlen(word);
    reader_skip_space(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    if (r->at + length < r->end && (is_name(r->at[length]) || r->at[length] == ':'))
        return false;
    r->at += length;
    return true;
}

/* A number (PTX ISA 4.5): decimal, octal, hex, binary, 0f and 0d bit patterns, decimal fractions.
 * Returns its kind. */
PtxOperandKind
reader_number(Reader *r, uint64_t *value)
{
    const char *p = r->at;
    if (p[0] == '0' && p + 1 < r->end && p[1] && strchr("fFdD", p[1]) && p + 2 < r->end &&
        isxdigit((unsigned char)p[2])) {
        bool single = p[1] == 'f' || p[1] == 'F';
        uint64_t bits = 0;
        int digits = 0;
        for (p += 2; p < r->end && isxdigit((unsigned char)*p); p++, digits++) {
            int digit = *p <= '9' ? *p - '0' : (*p | 32) - 'a' + 10;
            bits = bits << 4 | (uint64_t)digit;
        }
        if (digits != (single ? 8 : 16))
            fail(r, "a floating-point pattern needs %d hex digits", single ? 8 : 16);
        r->at = p;
        *value = bits;
        return single ? PTX_F32 : PTX_F64;
    }
    int base = 10;
    if (p[0] == '0' && p + 1 < r->end && (p[1] | 32) == 'x')
        base = 16, p += 2;
    else if (p[0] == '0' && p + 1 < r->end && (p[1] | 32) == 'b')
        base = 2, p += 2;
    else if (p[0] == '0')
        base = 8;
    const char *digits = p;
    uint64_t n = 0;
    for (; p < r->end && isalnum((unsigned char)*p); p++) {
        int digit = isdigit((unsigned char)*p) ? *p - '0' : (*p | 32) - 'a' + 10;
        if (digit >= (base == 8 ? 10 : base))
            break;
        n = n * (uint64_t)base + (uint64_t)digit;
    }
    if (p < r->end && base != 16 && base != 2 && (*p == '.' || (*p | 32) == 'e')) {
        char *after = NULL; /* the text ends in NUL: sim_parse copies it */
        double number = strtod(digits, &after);
        memcpy(value, &number, sizeof number);
        r->at = after;
        return PTX_F64;
    }
    if (p == digits)
        fail(r, "malformed number");
    if (p < r->end && (*p == 'U' || *p == 'u'))
        p++;
    if (p < r->end && is_name(*p))
        fail(r, "malformed number");
    r->at = p;
    *value = n;
    return PTX_INT;
}

void
reader_enter(Reader *r)
{
    enum { MOST_NESTED = 200 };
    if (++r->nested > MOST_NESTED)
        fail(r, "nested too deeply");
}

void
reader_leave(Reader *r)
{
    r->nested--;
}

static uint64_t read_constant_unary(Reader *r);

uint64_t
reader_constant_unary(Reader *r)
{
    reader_enter(r);
    uint64_t value = read_constant_unary(r);
    reader_leave(r);
    return value;
}

/* Constant expressions (PTX ISA 4.6) of integers: + - * / % << >> & | ^ ~ and parentheses. */
static uint64_t
read_constant_unary(Reader *r)
{
    if (reader_accept(r, '-'))
        return 0 - reader_constant_unary(r);
    if (reader_accept(r, '~'))
        return ~reader_constant_unary(r);
    if (reader_accept(r, '+'))
        return reader_constant_unary(r);
    if (reader_accept(r, '(')) {
        uint64_t value = reader_constant(r, 0);
        reader_expect(r, ')');
        return value;
    }
    uint64_t value;
    if (!isdigit((unsigned char)reader_peek(r)))
        fail(r, "expected an integer");
    if (reader_number(r, &value) != PTX_INT)
        fail(r, "expected an integer, not a fraction");
    return value;
}

uint64_t
reader_constant(Reader *r, int level)
{
    static const char *const levels[] = {"|", "^", "&", "<>", "+-", "*/%"};
    if (level == 6)
        return reader_constant_unary(r);
    uint64_t left = reader_constant(r, level + 1);
    for (;;) {
        char c = reader_peek(r);
        if (!c || !strchr(levels[level], c) || ((c == '<' || c == '>') && r->at[1] != c))
            return left;
        r->at += c == '<' || c == '>' ? 2 : 1;
        uint64_t right = reader_constant(r, level + 1);
        if ((c == '/' || c == '%') && right == 0)
            fail(r, "division by zero in a constant");
        switch (c) {
        case '|': left |= right; break;
        case '^': left ^= right; break;
        case '&': left &= right; break;
        case '<': left <<= right & 63; break;
        case '>': left >>= right & 63; break;
        case '+': left += right; break;
        case '-': left -= right; break;
        case '*': left *= right; break;
        case '/': left /= right; break;
        default: left %= right; break;
        }
    }
}

uint32_t
reader_u32(Reader *r)
{
    uint64_t value = reader_constant(r, 0);
    if (value > UINT32_MAX)
        fail(r, "number too large");
    return (uint32_t)value;
}

/* ------------------------------------------------------------------------ symbols */

static PtxSymbol **
bucket_of(const PtxScope *scope, const char *name)
{
    size_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 ^ (unsigned char)*name;
    return &scope->bucket[hash % scope->bucket_count];
}

static void
add_name(Reader *r, PtxScope *scope, PtxSymbol *symbol)
{
    if (scope->name_count == 2 * scope->bucket_count) {
        PtxScope old = *scope;
        scope->bucket_count *= 4;
        scope->bucket = sim_arena_alloc(r->arena, scope->bucket_count * sizeof *scope->bucket);
        for (size_t b = 0; b < old.bucket_count; b++)
            for (PtxSymbol *s = old.bucket[b], *next; s; s = next) {
                PtxSymbol **end = bucket_of(scope, s->name);
                while (*end) /* in the old order: of two declarations the later one is found */
                    end = &(*end)->next;
                next = s->next;
                s->next = NULL;
                *end = s;
            }
    }
    PtxSymbol **bucket = bucket_of(scope, symbol->name);
    symbol->next = *bucket;
    *bucket = symbol;
    scope->name_count++;
}

static PtxSymbol *
find_in_scope(const PtxScope *scope, const char *name)
{
    for (PtxSymbol *s = *bucket_of(scope, name); s; s = s->next)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

PtxSymbol *
sim_parse_lookup(const PtxScope *scope, const char *name, uint32_t *index)
{
    size_t length = strlen(name), stem = length;
    while (stem > 0 && isdigit((unsigned char)name[stem - 1]))
        stem--;
    unsigned long number = stem < length ? strtoul(name + stem, NULL, 10) : ULONG_MAX;
    *index = 0;
    for (; scope; scope = scope->outer) {
        PtxSymbol *found = find_in_scope(scope, name);
        if (found)
            return found;
        if (stem == length || (name[stem] == '0' && length - stem > 1))
            continue;
        for (PtxSymbol *s = scope->ranges; s; s = s->next)
            if (s->length == stem && memcmp(s->name, name, stem) == 0 && number < s->count) {
                *index = (uint32_t)number;
                return s;
            }
    }
    return NULL;
}

PtxSymbol *
reader_declare(Reader *r, PtxSymbolKind kind, const char *name)
{
    PtxSymbol *symbol = sim_arena_alloc(r->arena, sizeof *symbol);
    symbol->kind = kind;
    symbol->name = name;
    symbol->length = strlen(name);
    symbol->line = r->line;
    if (kind == PTX_REGISTERS) {
        symbol->next = r->scope->ranges;
        r->scope->ranges = symbol;
        return symbol;
    }
    const PtxSymbol *before = find_in_scope(r->scope, name);
    if (before && !(before->kind == PTX_VARIABLE && before->size == 0))
        fail(r, "'%s' is already declared on line %u", name, before->line);
    add_name(r, r->scope, symbol);
    return symbol;
}

void
reader_open_scope(Reader *r)
{
    enum { MOST_SCOPES = 256, FIRST_BUCKETS = 64 };
    PtxScope *scope = sim_arena_alloc(r->arena, sizeof *scope);
    scope->outer = r->scope;
    scope->depth = r->scope ? r->scope->depth + 1 : 0;
    scope->bucket_count = FIRST_BUCKETS;
    scope->bucket = sim_arena_alloc(r->arena, FIRST_BUCKETS * sizeof *scope->bucket);
    if (scope->depth > MOST_SCOPES)
        fail(r, "blocks nested too deeply");
    r->scope = scope;
}

/* ------------------------------------------------------------------------ instructions */

static PtxOperand read_operand(Reader *r);

static void
add_element(Reader *r, PtxOperand *to, size_t *capacity, PtxOperand element)
{
    to->element = sim_arena_grow(r->arena, to->element, to->count, capacity, sizeof *to->element);
    to->element[to->count++] = element;
}

static PtxOperand
read_memory(Reader *r)
{
    PtxOperand m = {.kind = PTX_MEMORY};
    size_t capacity = 0;
    PtxOperand base = read_operand(r);
    m.value = base.value;
    if (base.kind == PTX_NAME)
        base.value = 0;
    else if (base.kind == PTX_INT)
        m.value = 0;
    if (base.kind == PTX_NAME && reader_accept(r, '[')) { /* array element: [name[8]] */
        m.value += reader_constant(r, 0);
        reader_expect(r, ']');
    }
    add_element(r, &m, &capacity, base);
    while (reader_accept(r, ','))
        add_element(r, &m, &capacity, read_operand(r));
    reader_expect(r, ']');
    return m;
}

/* Elements up to `end`, which the first one stands before. */
static PtxOperand
read_elements(Reader *r, PtxOperandKind kind, char end)
{
    PtxOperand o = {.kind = kind};
    size_t capacity = 0;

    while (!reader_accept(r, end)) {
        add_element(r, &o, &capacity, read_operand(r));
        if (!reader_accept(r, ',') && reader_peek(r) != end)
            fail(r, "expected ',' or '%c'", end);
    }
    return o;
}

/* %tid.x, a variable with a constant behind it, _ */
static PtxOperand
read_named_operand(Reader *r)
{
    PtxOperand o = {.kind = PTX_NAME};
    const char *name = reader_name(r);

    if (strcmp(name, "_") == 0)
        return (PtxOperand){.kind = PTX_SINK};
    if (reader_peek(r) == '.') { /* %tid.x, also with a blank, and x.b0 of video instructions */
        char whole[64];
        r->at++;
        snprintf(whole, sizeof whole, "%s.%s", name, reader_word(r));
        name = sim_arena_copy(r->arena, whole, strlen(whole));
    }
    o.name = name;
    char c = reader_peek(r);
    if (c == '+' || c == '-')
        o.value = reader_constant_unary(r) + 0;
    while (o.value && (reader_peek(r) == '+' || reader_peek(r) == '-'))
        o.value += reader_constant_unary(r);
    return o;
}

/* A number, or a constant that begins with one. */
static PtxOperand
read_number_operand(Reader *r)
{
    const char *back = r->at;
    PtxOperand o = {.kind = PTX_F64};

    if (reader_peek(r) == '.') {
        double number = strtod(r->at, (char **)(void *)&r->at);
        memcpy(&o.value, &number, sizeof number);
    } else {
        o.kind = reader_number(r, &o.value);
    }
    char next = reader_peek(r);
    if (o.kind == PTX_INT && next && strchr("+-*/%<>&^", next)) {
        r->at = back;
        o.value = reader_constant(r, 1); /* '|' separates operands of shfl and the like */
    }
    return o;
}

/* Whether an argument list begins here; its parenthesis is read then.  Else it is a constant in
 * parentheses. */
static bool
begins_list(Reader *r)
{
    const char *back = r->at;
    uint32_t line = r->line;

    r->at++;
    char next = reader_peek(r);
    if (next == ')' || reader_is_name_start(next))
        return true;
    r->at = back;
    r->line = line;
    return false;
}

static PtxOperand
read_simple_operand(Reader *r)
{
    PtxOperand o = {0};
    char c = reader_peek(r);
    if (reader_accept(r, '!')) {
        o = read_operand(r);
        o.negated = !o.negated;
        return o;
    }
    if (reader_accept(r, '['))
        return read_memory(r);
    if (reader_accept(r, '{'))
        return read_elements(r, PTX_VECTOR, '}');
    if (reader_is_name_start(c))
        return read_named_operand(r);
    bool minus = false, invert = false;
    const char *back = r->at;
    while (c == '-' || c == '+' || c == '~') {
        minus ^= c == '-';
        invert |= c == '~';
        r->at++;
        c = reader_peek(r);
    }
    if (minus && reader_is_name_start(c) && r->at == back + 1) { /* of vmad */
        o = read_named_operand(r);
        o.negated = o.minus = true;
        return o;
    }
    if (c == '(') {
        if (!minus && !invert && begins_list(r))
            return read_elements(r, PTX_LIST, ')');
        o.kind = PTX_INT;
        o.value = reader_constant(r, 0);
    } else if (isdigit((unsigned char)c) || c == '.') {
        o = read_number_operand(r);
    } else {
        fail(r, c ? "expected an operand before '%c'" : "expected an operand%c", c ? c : ' ');
    }
    if (minus && o.kind == PTX_F32)
        o.value ^= UINT64_C(0x80000000);
    else if (minus && o.kind == PTX_F64)
        o.value ^= UINT64_C(0x8000000000000000);
    else if (minus)
        o.value = 0 - o.value;
    if (invert)
        o.value = ~o.value;
    return o;
}

static PtxOperand
read_operand(Reader *r)
{
    reader_enter(r);
    PtxOperand o = read_simple_operand(r);
    reader_leave(r);
    if (reader_accept(r, '|')) {
        o.pair = sim_arena_alloc(r->arena, sizeof *o.pair);
        *o.pair = read_simple_operand(r);
    }
    return o;
}

static void
split_mnemonic(Reader *r, PtxInsn *insn)
{
    size_t capacity = 0, length = strlen(insn->mnemonic);
    const char *start = insn->mnemonic;
    for (const char *p = start;; p++) {
        if (*p != '.' && *p != '\0')
            continue;
        insn->part = sim_arena_grow(r->arena, insn->part, insn->part_count, &capacity,
                                    sizeof *insn->part);
        insn->part[insn->part_count++] = sim_arena_copy(r->arena, start, (size_t)(p - start));
        start = p + 1;
        if (p == insn->mnemonic + length)
            return;
    }
}

/* Letters, dots and "::" of an instruction's name. */
static size_t
skip_mnemonic(Reader *r)
{
    const char *start = r->at;
    while (r->at < r->end && (is_name(*r->at) || *r->at == '.' || *r->at == ':')) {
        if (*r->at == ':' && !(r->at + 1 < r->end && r->at[1] == ':') && r->at[-1] != ':')
            break;
        r->at++;
    }
    return (size_t)(r->at - start);
}

/* A modifier may stand behind a blank: `add .u32`. */
static bool
begins_modifier(Reader *r)
{
    return reader_peek(r) == '.' && r->at + 1 < r->end && is_name(r->at[1]) &&
           !isdigit((unsigned char)r->at[1]);
}

static const char *
read_mnemonic(Reader *r)
{
    const char *start = r->at;
    size_t length = skip_mnemonic(r);
    if (!length)
        fail(r, "expected an instruction before '%c'", r->at < r->end ? *r->at : ' ');
    char *mnemonic = sim_arena_copy(r->arena, start, length);
    while (begins_modifier(r)) {
        start = r->at;
        size_t more = skip_mnemonic(r);
        char *longer = sim_arena_alloc(r->arena, length + more + 1);
        memcpy(longer, mnemonic, length);
        memcpy(longer + length, start, more);
        mnemonic = longer;
        length += more;
    }
    return mnemonic;
}

void
reader_instruction(Reader *r)
{
    PtxFunction *fn = r->function;
    PtxInsn insn = {0};
    size_t capacity = 0;
    insn.line = r->line;
    insn.loc = r->loc;
    insn.scope = r->scope;
    if (reader_accept(r, '@')) {
        insn.guarded = true;
        insn.guard_negated = reader_accept(r, '!');
        insn.guard = reader_name(r);
        reader_skip_space(r);
        insn.line = r->line;
    }
    insn.mnemonic = read_mnemonic(r);
    split_mnemonic(r, &insn);
    while (reader_peek(r) && reader_peek(r) != ';') {
        insn.operand = sim_arena_grow(r->arena, insn.operand, insn.operand_count, &capacity,
                                      sizeof *insn.operand);
        insn.operand[insn.operand_count++] = read_operand(r);
        if (!reader_accept(r, ',') && reader_peek(r) != ';')
            fail(r, "expected ',' or ';' in '%s'", insn.mnemonic);
    }
    reader_expect(r, ';');
    fn->insn = sim_arena_grow(r->arena, fn->insn, fn->insn_count, &fn->insn_capacity, sizeof insn);
    fn->insn[fn->insn_count++] = insn;
}
