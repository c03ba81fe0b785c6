/* sim_parse.c - reads PTX text (PTX ISA 4 and 5: syntax, directives, state spaces, variables).
 *
 * A hand-written reader over the characters: PTX has one token class per position, so a separate
 * token stream would only be copied.  Debug sections are skipped; .loc and .file are kept, so that
 * findings can name the source line.
 */
#include "sim_parse.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>

typedef struct Reader {
    PtxFile *file;
    SimArena *arena;
    const char *at, *end;
    uint32_t line;
    uint32_t loc; /* in force */
    PtxScope *scope;
    PtxFunction *function; /* NULL at module scope */
} Reader;

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

#define fail(r, ...) sim_parse_fail((r)->file, (r)->line, __VA_ARGS__)

/* ------------------------------------------------------------------------ characters */

static void
skip_space(Reader *r)
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

static char
peek(Reader *r)
{
    skip_space(r);
    return r->at < r->end ? *r->at : '\0';
}

static bool
accept(Reader *r, char c)
{
    if (peek(r) != c)
        return false;
    r->at++;
    return true;
}

static void
expect(Reader *r, char c)
{
    if (!accept(r, c)) {
        char found = peek(r);
        if (found)
            fail(r, "expected '%c' before '%c'", c, found);
        fail(r, "expected '%c' before the end of the text", c);
    }
}

static bool
is_name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static bool
is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static const char *
read_name(Reader *r)
{
    if (!is_name_start(peek(r)))
        fail(r, "expected a name");
    const char *start = r->at;
    while (r->at < r->end && is_name(*r->at))
        r->at++;
    return sim_arena_copy(r->arena, start, (size_t)(r->at - start));
}

/* A directive, modifier or mnemonic: letters, digits and "::" (as in .shared::cta). */
static const char *
read_word(Reader *r)
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

static const char *
read_string(Reader *r)
{
    expect(r, '"');
    const char *start = r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\n')
        r->at += *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
    if (r->at >= r->end || *r->at != '"')
        fail(r, "string without end");
    return sim_arena_copy(r->arena, start, (size_t)(r->at++ - start));
}

/* True, and skips it, if the next thing is the directive. */
static bool
accept_word(Reader *r, const char *word)
{
    size_t length = strlen(word);
    skip_space(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    if (r->at + length < r->end && (is_name(r->at[length]) || r->at[length] == ':'))
        return false;
    r->at += length;
    return true;
}

/* A number (PTX ISA 4.5): decimal, octal, hex, binary, 0f and 0d bit patterns, decimal fractions.
 * Returns its kind. */
static PtxOperandKind
read_number(Reader *r, uint64_t *value)
{
    const char *p = r->at;
    if (p[0] == '0' && p + 1 < r->end && strchr("fFdD", p[1]) && p + 2 < r->end &&
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

/* Constant expressions (PTX ISA 4.6) of integers: + - * / % << >> & | ^ ~ and parentheses. */
static uint64_t read_constant(Reader *r, int level);

static uint64_t
read_constant_unary(Reader *r)
{
    if (accept(r, '-'))
        return 0 - read_constant_unary(r);
    if (accept(r, '~'))
        return ~read_constant_unary(r);
    if (accept(r, '+'))
        return read_constant_unary(r);
    if (accept(r, '(')) {
        uint64_t value = read_constant(r, 0);
        expect(r, ')');
        return value;
    }
    uint64_t value;
    if (!isdigit((unsigned char)peek(r)))
        fail(r, "expected an integer");
    if (read_number(r, &value) != PTX_INT)
        fail(r, "expected an integer, not a fraction");
    return value;
}

static uint64_t
read_constant(Reader *r, int level)
{
    static const char *const levels[] = {"|", "^", "&", "<>", "+-", "*/%"};
    if (level == 6)
        return read_constant_unary(r);
    uint64_t left = read_constant(r, level + 1);
    for (;;) {
        char c = peek(r);
        if (!c || !strchr(levels[level], c) || ((c == '<' || c == '>') && r->at[1] != c))
            return left;
        r->at += c == '<' || c == '>' ? 2 : 1;
        uint64_t right = read_constant(r, level + 1);
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

static uint32_t
read_u32(Reader *r)
{
    uint64_t value = read_constant(r, 0);
    if (value > UINT32_MAX)
        fail(r, "number too large");
    return (uint32_t)value;
}

/* ------------------------------------------------------------------------ symbols */

static size_t
bucket_of(const char *name, size_t length)
{
    size_t hash = 5381;
    for (size_t i = 0; i < length; i++)
        hash = hash * 33 ^ (unsigned char)name[i];
    return hash % PTX_SCOPE_BUCKETS;
}

static PtxSymbol *
find_in_scope(const PtxScope *scope, const char *name)
{
    for (PtxSymbol *s = scope->bucket[bucket_of(name, strlen(name))]; s; s = s->next)
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

static PtxSymbol *
declare(Reader *r, PtxSymbolKind kind, const char *name)
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
    size_t bucket = bucket_of(name, symbol->length);
    symbol->next = r->scope->bucket[bucket];
    r->scope->bucket[bucket] = symbol;
    return symbol;
}

static void
open_scope(Reader *r)
{
    PtxScope *scope = sim_arena_alloc(r->arena, sizeof *scope);
    scope->outer = r->scope;
    r->scope = scope;
}

static SimType
find_type(const char *word)
{
    for (int t = 1; t < SIM_TYPE_COUNT; t++)
        if (strcmp(sim_type_info((SimType)t)->name, word) == 0)
            return (SimType)t;
    return SIM_NO_TYPE;
}

/* ------------------------------------------------------------------------ variables */

typedef struct Declaration {
    SimType type;
    uint32_t align, vector;
    bool is_pointer;
} Declaration;

/* The part of a declaration between the state space and the name: .align, .v2, type, .ptr. */
static Declaration
read_declaration(Reader *r)
{
    Declaration d = {0};
    while (peek(r) == '.') {
        r->at++;
        const char *word = read_word(r);
        SimType type = find_type(word);
        if (type)
            d.type = type;
        else if (strcmp(word, "align") == 0)
            d.align = read_u32(r);
        else if (strcmp(word, "v2") == 0)
            d.vector = 2;
        else if (strcmp(word, "v4") == 0)
            d.vector = 4;
        else if (strcmp(word, "ptr") == 0)
            d.is_pointer = true;
        else if (d.is_pointer && (strcmp(word, "global") == 0 || strcmp(word, "const") == 0 ||
                                  strcmp(word, "shared") == 0 || strcmp(word, "local") == 0))
            continue; /* the space a pointer parameter points to: a hint (PTX ISA 5.1.6.2) */
        else if (strcmp(word, "attribute") == 0) {
            expect(r, '(');
            while (peek(r) && peek(r) != ')')
                r->at++;
            expect(r, ')');
        } else {
            fail(r, "unknown word '.%s' in a declaration", word);
        }
    }
    if (d.is_pointer && d.align)
        d.align = 0; /* it was the alignment of the pointee */
    if (!d.type)
        fail(r, "declaration without a type");
    return d;
}

static uint64_t
type_bytes(SimType type)
{
    return type == SIM_PRED ? 1 : sim_type_info(type)->bits / 8;
}

/* Dimensions after a name.  Returns the number of elements, 0 for []. */
static uint64_t
read_dimensions(Reader *r, bool *is_array)
{
    uint64_t elements = 1;
    *is_array = false;
    while (accept(r, '[')) {
        *is_array = true;
        if (accept(r, ']')) {
            elements = 0;
            continue;
        }
        elements *= read_constant(r, 0);
        expect(r, ']');
    }
    return elements;
}

static void
store_scalar(Reader *r, SimAllocation *to, size_t offset, SimType type)
{
    uint64_t value = 0;
    size_t size = (size_t)type_bytes(type);
    bool is_float = sim_type_info(type)->kind == 'f';
    bool negative = false;
    char c = peek(r);
    if (is_name_start(c)) { /* an address: name, generic(name), name+4 */
        const char *name = read_name(r);
        bool generic = strcmp(name, "generic") == 0 && accept(r, '(');
        if (generic)
            name = read_name(r);
        uint64_t addend = 0;
        if (generic)
            expect(r, ')');
        if (peek(r) == '+' || peek(r) == '-')
            addend = read_constant_unary(r);
        PtxFile *f = r->file;
        f->fixup = sim_arena_grow(r->arena, f->fixup, f->fixup_count, &f->fixup_capacity,
                                  sizeof *f->fixup);
        f->fixup[f->fixup_count++] =
            (PtxFixup){to, offset, name, addend, r->line, (uint32_t)size};
        return;
    }
    if (is_float) {
        negative = accept(r, '-');
        PtxOperandKind kind = (skip_space(r), read_number(r, &value));
        double number;
        float narrow;
        if (kind == PTX_INT) {
            number = (double)value;
        } else if (kind == PTX_F64) {
            memcpy(&number, &value, sizeof number);
        } else {
            uint32_t bits = (uint32_t)value;
            memcpy(&narrow, &bits, sizeof narrow);
            number = (double)narrow;
        }
        number = negative ? -number : number;
        narrow = (float)number;
        if (size == 8)
            memcpy(&value, &number, sizeof value);
        else if (size == 4)
            memcpy(&value, &narrow, sizeof narrow);
        else
            fail(r, "initialiser of this floating-point type is not supported");
    } else {
        value = read_constant(r, 0);
    }
    if (offset + size > to->size)
        fail(r, "too many initialisers for '%s'", to->name);
    memcpy(to->data + offset, &value, size > 8 ? 8 : size);
}

static size_t
read_initialiser(Reader *r, SimAllocation *to, size_t offset, SimType type)
{
    if (!accept(r, '{')) {
        store_scalar(r, to, offset, type);
        return offset + (size_t)type_bytes(type);
    }
    while (!accept(r, '}')) {
        offset = read_initialiser(r, to, offset, type);
        if (!accept(r, ',') && peek(r) != '}')
            fail(r, "expected ',' or '}' in an initialiser");
    }
    return offset;
}

static uint64_t
align_up(uint64_t value, uint64_t align)
{
    return align ? (value + align - 1) / align * align : value;
}

/* Variables of one declaration, up to the semicolon. */
static void
read_variables(Reader *r, PtxVarSpace space, bool is_extern)
{
    SimModule *mod = r->file->mod;
    Declaration d = read_declaration(r);
    do {
        const char *name = read_name(r);
        uint32_t repeat = 1, index = 0;
        bool numbered = accept(r, '<');
        if (numbered) {
            repeat = read_u32(r);
            expect(r, '>');
        }
        bool is_array;
        uint64_t elements = read_dimensions(r, &is_array);
        uint64_t unit = type_bytes(d.type) * (d.vector ? d.vector : 1);
        uint64_t size = elements * unit;
        uint32_t align = d.align ? d.align : (uint32_t)unit;
        if (align & (align - 1))
            fail(r, "alignment %u is not a power of two", align);
        for (; index < repeat; index++) {
            char numbered_name[256];
            if (numbered)
                snprintf(numbered_name, sizeof numbered_name, "%s%u", name, index);
            const char *own =
                numbered ? sim_arena_copy(r->arena, numbered_name, strlen(numbered_name)) : name;
            PtxSymbol *v = declare(r, PTX_VARIABLE, own);
            v->space = space;
            v->align = align;
            v->size = size;
            if (space == PTX_SHARED) {
                if (elements == 0 || is_extern) {
                    PtxFile *f = r->file;
                    f->dynamic = sim_arena_grow(r->arena, f->dynamic, f->dynamic_count,
                                                &f->dynamic_capacity, sizeof *f->dynamic);
                    f->dynamic[f->dynamic_count++] = v;
                    if (align > f->shared_dynamic_align)
                        f->shared_dynamic_align = align;
                    v->size = 0;
                } else {
                    v->address = align_up(mod->shared_bytes, align);
                    mod->shared_bytes = (uint32_t)(v->address + size);
                    v->address += SIM_SHARED_BASE;
                }
            } else if (space == PTX_LOCAL || space == PTX_PARAM) {
                if (!r->function)
                    fail(r, "a %s variable must be inside a function",
                         space == PTX_LOCAL ? ".local" : ".param");
                SimFunction *fn = r->function->function;
                v->address = align_up(fn->local_bytes, align);
                fn->local_bytes = (uint32_t)(v->address + size);
            } else if (!is_extern) {
                char *label = sim_arena_copy(r->arena, own, strlen(own));
                v->address = sim_alloc(mod->device, size ? (size_t)size : 1, label);
                if (!v->address)
                    longjmp(*r->arena->out_of_memory, 1);
                SimAllocation *a = sim_device_find(mod->device, v->address);
                memset(a->init, 1, a->size); /* zero without an initialiser (PTX ISA 5.4.4) */
                a->read_only = space == PTX_CONST;
                if (accept(r, '='))
                    read_initialiser(r, a, 0, d.type);
                mod->globals = sim_arena_grow(r->arena, mod->globals, mod->global_count,
                                              &mod->global_capacity, sizeof *mod->globals);
                mod->globals[mod->global_count++] =
                    (SimGlobalVar){label, v->address, (size_t)size};
            } else {
                fail(r, "'%s' is .extern: linking of several files is not supported", own);
            }
        }
    } while (accept(r, ','));
    expect(r, ';');
}

static void
read_registers(Reader *r)
{
    Declaration d = read_declaration(r);
    do {
        const char *name = read_name(r);
        uint32_t count = 1;
        bool range = accept(r, '<');
        if (range) {
            count = read_u32(r);
            expect(r, '>');
        }
        PtxSymbol *s = declare(r, range ? PTX_REGISTERS : PTX_REGISTER, name);
        s->type = d.type;
        s->vector = d.vector;
        s->count = count;
        s->place = sim_arena_alloc(r->arena, ((size_t)count + 1) * sizeof *s->place);
    } while (accept(r, ','));
    expect(r, ';');
}

/* ------------------------------------------------------------------------ instructions */

static PtxOperand read_operand(Reader *r);

static void
add_element(Reader *r, PtxOperand *to, size_t *capacity, PtxOperand element)
{
    to->element =
        sim_arena_grow(r->arena, to->element, to->count, capacity, sizeof *to->element);
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
    if (base.kind == PTX_NAME && accept(r, '[')) { /* array element: [name[8]] */
        m.value += read_constant(r, 0);
        expect(r, ']');
    }
    add_element(r, &m, &capacity, base);
    while (accept(r, ','))
        add_element(r, &m, &capacity, read_operand(r));
    expect(r, ']');
    return m;
}

static PtxOperand
read_simple_operand(Reader *r)
{
    PtxOperand o = {0};
    size_t capacity = 0;
    char c = peek(r);
    if (accept(r, '!')) {
        o = read_operand(r);
        o.negated = !o.negated;
        return o;
    }
    if (accept(r, '[')) {
        return read_memory(r);
    }
    if (accept(r, '{')) {
        o.kind = PTX_VECTOR;
        while (!accept(r, '}')) {
            add_element(r, &o, &capacity, read_operand(r));
            if (!accept(r, ',') && peek(r) != '}')
                fail(r, "expected ',' or '}'");
        }
        return o;
    }
    if (is_name_start(c)) {
        const char *name = read_name(r);
        if (strcmp(name, "_") == 0) {
            o.kind = PTX_SINK;
            return o;
        }
        if (*name == '%' && r->at < r->end && *r->at == '.') { /* %tid.x */
            char whole[64];
            r->at++;
            snprintf(whole, sizeof whole, "%s.%s", name, read_word(r));
            name = sim_arena_copy(r->arena, whole, strlen(whole));
        }
        o.kind = PTX_NAME;
        o.name = name;
        c = peek(r);
        if (c == '+' || c == '-')
            o.value = read_constant_unary(r) + 0;
        while (o.value && (peek(r) == '+' || peek(r) == '-'))
            o.value += read_constant_unary(r);
        return o;
    }
    bool minus = false, invert = false;
    while (c == '-' || c == '+' || c == '~') {
        minus ^= c == '-';
        invert |= c == '~';
        r->at++;
        c = peek(r);
    }
    if (c == '(') {
        if (!minus && !invert) { /* an argument list, or a constant in parentheses */
            const char *back = r->at;
            uint32_t line = r->line;
            r->at++;
            char next = peek(r);
            if (next == ')' || is_name_start(next)) {
                o.kind = PTX_LIST;
                while (!accept(r, ')')) {
                    add_element(r, &o, &capacity, read_operand(r));
                    if (!accept(r, ',') && peek(r) != ')')
                        fail(r, "expected ',' or ')'");
                }
                return o;
            }
            r->at = back;
            r->line = line;
        }
        o.kind = PTX_INT;
        o.value = read_constant(r, 0);
    } else if (isdigit((unsigned char)c) || c == '.') {
        const char *back = r->at;
        o.kind = c == '.' ? PTX_F64 : read_number(r, &o.value);
        if (c == '.') {
            double number = strtod(r->at, (char **)(void *)&r->at);
            memcpy(&o.value, &number, sizeof number);
        }
        char next = peek(r);
        if (o.kind == PTX_INT && next && strchr("+-*/%<>&^", next)) {
            r->at = back;
            o.value = read_constant(r, 1); /* '|' separates operands of shfl and the like */
        }
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
    PtxOperand o = read_simple_operand(r);
    if (accept(r, '|')) {
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

static void
read_instruction(Reader *r)
{
    PtxFunction *fn = r->function;
    PtxInsn insn = {0};
    size_t capacity = 0;
    insn.line = r->line;
    insn.loc = r->loc;
    insn.scope = r->scope;
    if (accept(r, '@')) {
        insn.guarded = true;
        insn.guard_negated = accept(r, '!');
        insn.guard = read_name(r);
        skip_space(r);
        insn.line = r->line;
    }
    const char *start = r->at;
    while (r->at < r->end && (is_name(*r->at) || *r->at == '.' || *r->at == ':')) {
        if (*r->at == ':' && !(r->at + 1 < r->end && r->at[1] == ':') && r->at[-1] != ':')
            break;
        r->at++;
    }
    if (r->at == start)
        fail(r, "expected an instruction before '%c'", r->at < r->end ? *r->at : ' ');
    insn.mnemonic = sim_arena_copy(r->arena, start, (size_t)(r->at - start));
    split_mnemonic(r, &insn);
    while (peek(r) && peek(r) != ';') {
        insn.operand = sim_arena_grow(r->arena, insn.operand, insn.operand_count, &capacity,
                                      sizeof *insn.operand);
        insn.operand[insn.operand_count++] = read_operand(r);
        if (!accept(r, ',') && peek(r) != ';')
            fail(r, "expected ',' or ';' in '%s'", insn.mnemonic);
    }
    expect(r, ';');
    fn->insn =
        sim_arena_grow(r->arena, fn->insn, fn->insn_count, &fn->insn_capacity, sizeof insn);
    fn->insn[fn->insn_count++] = insn;
}

/* ------------------------------------------------------------------------ directives */

static void
read_loc(Reader *r)
{
    SimModule *mod = r->file->mod;
    SimLoc loc = {read_u32(r), read_u32(r)};
    read_u32(r); /* column */
    if (accept(r, ',')) { /* function_name label [+ n], inlined_at file line column */
        if (!accept_word(r, "function_name"))
            fail(r, "expected 'function_name' after .loc");
        read_name(r);
        if (accept(r, '+'))
            read_u32(r);
        expect(r, ',');
        if (!accept_word(r, "inlined_at"))
            fail(r, "expected 'inlined_at' after .loc");
        read_u32(r), read_u32(r), read_u32(r);
    }
    mod->locs =
        sim_arena_grow(r->arena, mod->locs, mod->loc_count, &mod->loc_capacity, sizeof loc);
    if (mod->loc_count == 0)
        mod->locs[mod->loc_count++] = (SimLoc){0}; /* 0 means none */
    mod->locs =
        sim_arena_grow(r->arena, mod->locs, mod->loc_count, &mod->loc_capacity, sizeof loc);
    mod->locs[mod->loc_count] = loc;
    r->loc = (uint32_t)mod->loc_count++;
}

static void
read_file(Reader *r)
{
    SimModule *mod = r->file->mod;
    uint32_t index = read_u32(r);
    const char *name = read_string(r);
    if (accept(r, ',')) { /* timestamp, size */
        read_constant(r, 0);
        expect(r, ',');
        read_constant(r, 0);
    }
    if (index > 100000)
        fail(r, ".file index %u is too large", index);
    if (index >= mod->file_count) {
        const char **files = sim_arena_alloc(r->arena, (index + 1) * sizeof *files);
        if (mod->file_count)
            memcpy(files, mod->files, mod->file_count * sizeof *files);
        mod->files = files;
        mod->file_count = index + 1;
    }
    mod->files[index] = name;
}

static void
skip_section(Reader *r) /* .section .debug_info { ... } */
{
    expect(r, '.');
    read_word(r);
    expect(r, '{');
    for (int depth = 1; depth > 0;) {
        char c = peek(r);
        if (!c)
            fail(r, "section without end");
        depth += c == '{';
        depth -= c == '}';
        if (c == '"')
            read_string(r);
        else
            r->at++;
    }
}

static void
read_label_targets(Reader *r, PtxSymbol *symbol)
{
    size_t capacity = 0;
    do {
        symbol->names = sim_arena_grow(r->arena, symbol->names, symbol->name_count, &capacity,
                                       sizeof *symbol->names);
        symbol->names[symbol->name_count++] = read_name(r);
    } while (accept(r, ','));
    expect(r, ';');
}

static bool
accept_space(Reader *r, PtxVarSpace *space)
{
    static const struct { const char *word; PtxVarSpace space; } spaces[] = {
        {".global", PTX_GLOBAL}, {".const", PTX_CONST}, {".shared", PTX_SHARED},
        {".local", PTX_LOCAL},   {".param", PTX_PARAM},
    };
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (accept_word(r, spaces[i].word)) {
            *space = spaces[i].space;
            return true;
        }
    return false;
}

static void
skip_statement(Reader *r)
{
    while (peek(r) && peek(r) != ';')
        r->at++;
    expect(r, ';');
}

static void
read_statement_label(Reader *r, const char *name)
{
    if (accept_word(r, ".branchtargets") || accept_word(r, ".calltargets")) {
        read_label_targets(r, declare(r, PTX_TARGETS, name));
        return;
    }
    if (accept_word(r, ".callprototype")) {
        declare(r, PTX_TARGETS, name);
        skip_statement(r);
        return;
    }
    PtxSymbol *label = declare(r, PTX_LABEL, name);
    label->target = (uint32_t)r->function->insn_count;
}

static void
read_body(Reader *r)
{
    PtxVarSpace space;
    int depth = 1;
    while (depth > 0) {
        char c = peek(r);
        if (!c)
            fail(r, "function without end");
        if (accept(r, '{')) {
            open_scope(r);
            depth++;
        } else if (accept(r, '}')) {
            r->scope = r->scope->outer;
            depth--;
        } else if (c == ';') {
            r->at++;
        } else if (c == '.') {
            if (accept_word(r, ".reg"))
                read_registers(r);
            else if (accept_word(r, ".loc"))
                read_loc(r);
            else if (accept_word(r, ".pragma"))
                skip_statement(r);
            else if (accept_word(r, ".file"))
                read_file(r);
            else if (accept_word(r, ".section"))
                skip_section(r);
            else if (accept_word(r, ".extern") && accept_space(r, &space))
                read_variables(r, space, true);
            else if (accept_space(r, &space))
                read_variables(r, space, false);
            else
                fail(r, "unknown directive in a function");
        } else if (is_name_start(c)) {
            const char *back = r->at;
            uint32_t line = r->line;
            const char *name = read_name(r);
            if (peek(r) == ':' && !(r->at + 1 < r->end && r->at[1] == ':')) {
                r->at++;
                read_statement_label(r, name);
            } else {
                r->at = back;
                r->line = line;
                read_instruction(r);
            }
        } else {
            read_instruction(r);
        }
    }
}

/* ------------------------------------------------------------------------ functions */

/* A parenthesised list of parameters; of an entry they lie in the launch's parameter block, of a
 * device function in its frame (PTX ISA 5.1.6). */
static uint32_t
read_params(Reader *r, SimFunction *fn, bool of_entry, SimLocalVar **vars)
{
    SimParam *params = NULL;
    SimLocalVar *locals = NULL;
    size_t count = 0, capacity = 0, local_capacity = 0;
    expect(r, '(');
    while (!accept(r, ')')) {
        if (accept_word(r, ".reg"))
            fail(r, ".reg parameters (PTX before 2.0) are not supported");
        if (!accept_word(r, ".param"))
            fail(r, "expected '.param'");
        Declaration d = read_declaration(r);
        const char *name = read_name(r);
        bool is_array;
        uint64_t elements = read_dimensions(r, &is_array);
        uint64_t unit = type_bytes(d.type) * (d.vector ? d.vector : 1);
        PtxSymbol *v = declare(r, PTX_VARIABLE, name);
        v->space = of_entry ? PTX_ENTRY_PARAM : PTX_PARAM;
        v->size = elements * unit;
        v->align = d.align ? d.align : (uint32_t)unit;
        uint32_t *bytes = of_entry ? &fn->entry.param_bytes : &fn->local_bytes;
        v->address = align_up(*bytes, v->align);
        *bytes = (uint32_t)(v->address + v->size);
        if (of_entry) {
            params = sim_arena_grow(r->arena, params, count, &capacity, sizeof *params);
            params[count] = (SimParam){.name = name,
                                       .size = (uint32_t)v->size,
                                       .align = v->align,
                                       .offset = (uint32_t)v->address,
                                       .is_array = is_array,
                                       .is_float = sim_type_info(d.type)->kind == 'f',
                                       .is_pointer = d.is_pointer};
        } else {
            locals = sim_arena_grow(r->arena, locals, count, &local_capacity, sizeof *locals);
            locals[count] = (SimLocalVar){(uint32_t)v->address, (uint32_t)v->size};
        }
        count++;
        if (!accept(r, ',') && peek(r) != ')')
            fail(r, "expected ',' or ')' in a parameter list");
    }
    if (of_entry) {
        fn->entry.params = params;
        fn->entry.param_count = count;
    } else {
        *vars = locals;
    }
    return (uint32_t)count;
}

static void
read_triple(Reader *r, uint32_t out[3])
{
    out[0] = read_u32(r);
    out[1] = out[2] = 1;
    for (int i = 1; i < 3 && accept(r, ','); i++)
        out[i] = read_u32(r);
}

/* Performance directives (PTX ISA 11.4).  True when one was read. */
static bool
read_function_directive(Reader *r, SimFunction *fn)
{
    static const char *const ignored[] = {".minnctapersm", ".maxnctapersm", ".maxnreg",
                                          ".maxclusterrank"};
    static const char *const bare[] = {".explicitcluster", ".blocksareclusters", ".noreturn",
                                       ".unified"};
    uint32_t unused[3];
    if (accept_word(r, ".maxntid")) {
        read_triple(r, fn->entry.max_block);
        return true;
    }
    if (accept_word(r, ".reqntid")) {
        read_triple(r, fn->entry.required_block);
        return true;
    }
    if (accept_word(r, ".reqnctapercluster")) {
        read_triple(r, fn->entry.required_cluster);
        return true;
    }
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (accept_word(r, ignored[i])) {
            read_triple(r, unused);
            return true;
        }
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (accept_word(r, bare[i]))
            return true;
    if (accept_word(r, ".pragma")) {
        skip_statement(r);
        return true;
    }
    return false;
}

static SimFunction *
find_function(const SimModule *mod, const char *name)
{
    for (size_t i = 0; i < mod->function_count; i++)
        if (strcmp(mod->functions[i]->name, name) == 0)
            return mod->functions[i];
    return NULL;
}

static void
read_function(Reader *r, bool is_entry)
{
    PtxFile *f = r->file;
    SimModule *mod = f->mod;
    SimFunction scratch = {0};
    SimLocalVar *results = NULL, *params = NULL;
    uint32_t result_count = 0, param_count = 0, line = r->line;
    open_scope(r);
    PtxScope *scope = r->scope;
    if (!is_entry && peek(r) == '(')
        result_count = read_params(r, &scratch, false, &results);
    const char *name = read_name(r);
    if (peek(r) == '(')
        param_count = read_params(r, &scratch, is_entry, &params);
    SimFunction *fn = find_function(mod, name);
    if (!fn) {
        fn = sim_arena_alloc(r->arena, sizeof *fn);
        mod->functions = sim_arena_grow(r->arena, mod->functions, mod->function_count,
                                        &mod->function_capacity, sizeof *mod->functions);
        mod->functions[mod->function_count++] = fn;
    } else if (fn->has_body) {
        fail(r, "function '%s' is already defined on line %u", name, fn->line);
    }
    *fn = scratch;
    fn->name = name;
    fn->is_entry = is_entry;
    fn->line = line;
    fn->params = params;
    fn->param_count = param_count;
    fn->results = results;
    fn->result_count = result_count;
    while (read_function_directive(r, fn))
        continue;
    if (accept(r, ';')) { /* a declaration */
        r->scope = scope->outer;
        return;
    }
    expect(r, '{');
    f->function = sim_arena_grow(r->arena, f->function, f->function_count, &f->function_capacity,
                                 sizeof *f->function);
    r->function = &f->function[f->function_count++];
    *r->function = (PtxFunction){.function = fn, .scope = scope};
    fn->has_body = true;
    r->loc = 0;
    read_body(r);
    r->function = NULL;
    fn->entry.name = name;
    fn->entry.line = line;
}

static void
read_header(Reader *r)
{
    SimModule *mod = r->file->mod;
    if (accept_word(r, ".version")) {
        uint64_t major = 0, minor = 0;
        char *after;
        skip_space(r);
        major = strtoul(r->at, &after, 10);
        r->at = after;
        expect(r, '.');
        minor = strtoul(r->at, &after, 10);
        r->at = after;
        mod->version = (uint32_t)(major * 10 + minor);
    } else if (accept_word(r, ".target")) {
        mod->target = read_name(r);
        while (accept(r, ','))
            read_name(r);
    } else {
        if (!accept_word(r, ".address_size"))
            fail(r, "unknown directive at module scope");
        if (read_u32(r) != 64)
            fail(r, "only .address_size 64 is supported");
    }
}

static void
read_module(Reader *r)
{
    PtxVarSpace space;
    while (peek(r)) {
        bool is_extern = false;
        if (*r->at == ';') {
            r->at++;
            continue;
        }
        if (*r->at != '.')
            fail(r, "expected a directive at module scope");
        for (;;) {
            if (accept_word(r, ".extern"))
                is_extern = true;
            else if (!accept_word(r, ".visible") && !accept_word(r, ".weak") &&
                     !accept_word(r, ".common"))
                break;
        }
        if (accept_word(r, ".entry"))
            read_function(r, true);
        else if (accept_word(r, ".func")) {
            if (accept_word(r, ".attribute"))
                fail(r, "function attributes are not supported");
            read_function(r, false);
        } else if (accept_space(r, &space))
            read_variables(r, space, is_extern);
        else if (accept_word(r, ".file"))
            read_file(r);
        else if (accept_word(r, ".section"))
            skip_section(r);
        else if (accept_word(r, ".pragma"))
            skip_statement(r);
        else
            read_header(r);
    }
}

static void
resolve_fixups(PtxFile *f)
{
    for (size_t i = 0; i < f->fixup_count; i++) {
        PtxFixup *x = &f->fixup[i];
        uint32_t index;
        const PtxSymbol *s = sim_parse_lookup(f->scope, x->name, &index);
        if (!s || s->kind != PTX_VARIABLE || (s->space != PTX_GLOBAL && s->space != PTX_CONST))
            sim_parse_fail(f, x->line, "'%s' is not a .global or .const variable", x->name);
        uint64_t value = s->address + x->addend;
        if (x->offset + x->bytes > x->at->size || x->bytes != 8)
            sim_parse_fail(f, x->line, "an address needs an 8-byte element");
        memcpy(x->at->data + x->offset, &value, 8);
    }
}

void
sim_parse(PtxFile *file, const char *text, size_t length)
{
    SimArena *arena = &file->mod->arena;
    const char *copy = sim_arena_copy(arena, text, length);
    Reader reader = {.file = file, .arena = arena, .at = copy, .end = copy + length, .line = 1};
    open_scope(&reader);
    file->scope = reader.scope;
    read_module(&reader);
    resolve_fixups(file);
    uint32_t align = file->shared_dynamic_align > 16 ? file->shared_dynamic_align : 16;
    if (file->dynamic_count)
        file->mod->shared_bytes = (uint32_t)align_up(file->mod->shared_bytes, align);
    for (size_t i = 0; i < file->dynamic_count; i++)
        file->dynamic[i]->address = SIM_SHARED_BASE + file->mod->shared_bytes;
}
