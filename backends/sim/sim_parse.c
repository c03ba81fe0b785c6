/* sim_parse.c - the module: variables, directives, functions (PTX ISA 5, 11).
 *
 * Debug sections are skipped; .loc and .file are kept, so that findings can name the source line.
 */
#include "sim_reader.h"

#include <ctype.h>
#include <stdlib.h>

/* More is a mistake in the text, and would overflow 32 bits somewhere. */
enum {
    MOST_REGISTERS = 1 << 20,      /* of one .reg with a range */
    MOST_NUMBERED = 1 << 16,       /* variables of one declaration with a range */
    MOST_PARAM_BYTES = 32764,      /* of an entry (PTX ISA 5.1.6) */
    MOST_LOCAL_BYTES = 512 * 1024, /* of a thread */
    MOST_SHARED_BYTES = 1 << 30,   /* whether a block can have them, its launch says */
    MOST_ALIGN = 1 << 16
};
#define MOST_ELEMENTS (UINT64_C(1) << 40)

/* ------------------------------------------------------------------------ variables */

static SimType
find_type(const char *word)
{
    for (int t = 1; t < SIM_TYPE_COUNT; t++)
        if (strcmp(sim_type_info((SimType)t)->name, word) == 0)
            return (SimType)t;
    return SIM_NO_TYPE;
}

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
    while (reader_peek(r) == '.') {
        r->at++;
        const char *word = reader_word(r);
        SimType type = find_type(word);
        if (type)
            d.type = type;
        else if (strcmp(word, "align") == 0)
            d.align = reader_u32(r);
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
            reader_expect(r, '(');
            while (reader_peek(r) && reader_peek(r) != ')')
                r->at++;
            reader_expect(r, ')');
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
    while (reader_accept(r, '[')) {
        *is_array = true;
        if (reader_accept(r, ']')) {
            elements = 0;
            continue;
        }
        uint64_t extent = reader_constant(r, 0);
        if (extent && elements > MOST_ELEMENTS / extent)
            fail(r, "an array of too many elements");
        elements *= extent;
        reader_expect(r, ']');
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
    char c = reader_peek(r);
    if (reader_is_name_start(c)) { /* an address: name, generic(name), name+4 */
        const char *name = reader_name(r);
        bool generic = strcmp(name, "generic") == 0 && reader_accept(r, '(');
        if (generic)
            name = reader_name(r);
        uint64_t addend = 0;
        if (generic)
            reader_expect(r, ')');
        if (reader_peek(r) == '+' || reader_peek(r) == '-')
            addend = reader_constant_unary(r);
        PtxFile *f = r->file;
        f->fixup = sim_arena_grow(r->arena, f->fixup, f->fixup_count, &f->fixup_capacity,
                                  sizeof *f->fixup);
        f->fixup[f->fixup_count++] = (PtxFixup){to, offset, name, addend, r->line, (uint32_t)size};
        return;
    }
    if (is_float) {
        negative = reader_accept(r, '-');
        PtxOperandKind kind = (reader_skip_space(r), reader_number(r, &value));
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
        value = reader_constant(r, 0);
    }
    if (offset + size > to->size)
        fail(r, "too many initialisers for '%s'", to->name);
    memcpy(to->data + offset, &value, size > 8 ? 8 : size);
}

static size_t
read_initialiser(Reader *r, SimAllocation *to, size_t offset, SimType type)
{
    if (!reader_accept(r, '{')) {
        store_scalar(r, to, offset, type);
        return offset + (size_t)type_bytes(type);
    }
    reader_enter(r);
    while (!reader_accept(r, '}')) {
        offset = read_initialiser(r, to, offset, type);
        if (!reader_accept(r, ',') && reader_peek(r) != '}')
            fail(r, "expected ',' or '}' in an initialiser");
    }
    reader_leave(r);
    return offset;
}

static uint64_t
align_up(uint64_t value, uint64_t align)
{
    return align ? (value + align - 1) / align * align : value;
}

/* Puts a variable behind what a space has up to `*end`, at most `most` bytes. */
static void
place_in(Reader *r, PtxSymbol *v, uint32_t *end, uint32_t most, const char *space)
{
    uint64_t at = align_up(*end, v->align);
    if (v->size > most || at > most - v->size)
        fail(r, "'%s' does not fit: more than %u bytes of %s", v->name, most, space);
    v->address = at;
    *end = (uint32_t)(at + v->size);
}

/* A static shared variable: of the module, or of an entry (then relative to where those start). */
static void
place_shared(Reader *r, PtxSymbol *v)
{
    PtxFile *f = r->file;
    SimFunction *fn = r->function && r->function->function->is_entry ? r->function->function : NULL;
    uint32_t *end = fn ? &fn->shared_bytes : &f->mod->shared_bytes;
    place_in(r, v, end, MOST_SHARED_BYTES, "shared memory");
    if (!fn) {
        v->address += SIM_SHARED_BASE;
        return;
    }
    f->entry_shared = sim_arena_grow(r->arena, f->entry_shared, f->entry_shared_count,
                                     &f->entry_shared_capacity, sizeof *f->entry_shared);
    f->entry_shared[f->entry_shared_count++] = v;
    if (v->align > f->entry_shared_align)
        f->entry_shared_align = v->align;
}

static void
check_align(Reader *r, uint32_t align)
{
    if (align & (align - 1) || align > MOST_ALIGN)
        fail(r, "alignment %u is not a power of two up to %d", align, MOST_ALIGN);
}

/* Variables of one declaration, up to the semicolon. */
static void
read_variables(Reader *r, PtxVarSpace space, bool is_extern)
{
    SimModule *mod = r->file->mod;
    Declaration d = read_declaration(r);
    do {
        const char *name = reader_name(r);
        uint32_t repeat = 1, index = 0;
        bool numbered = reader_accept(r, '<');
        if (numbered) {
            repeat = reader_u32(r);
            reader_expect(r, '>');
        }
        bool is_array;
        uint64_t elements = read_dimensions(r, &is_array);
        uint64_t unit = type_bytes(d.type) * (d.vector ? d.vector : 1);
        uint64_t size = elements * unit;
        uint32_t align = d.align ? d.align : (uint32_t)unit;
        check_align(r, align);
        if (repeat > MOST_NUMBERED)
            fail(r, "'%s<%u>' is too many variables", name, repeat);
        for (; index < repeat; index++) {
            char numbered_name[256];
            if (numbered)
                snprintf(numbered_name, sizeof numbered_name, "%s%u", name, index);
            const char *own = numbered
                                  ? sim_arena_copy(r->arena, numbered_name, strlen(numbered_name))
                                  : name;
            PtxSymbol *v = reader_declare(r, PTX_VARIABLE, own);
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
                    place_shared(r, v);
                }
            } else if (space == PTX_LOCAL || space == PTX_PARAM) {
                if (!r->function)
                    fail(r, "a %s variable must be inside a function",
                         space == PTX_LOCAL ? ".local" : ".param");
                SimFunction *fn = r->function->function;
                place_in(r, v, &fn->local_bytes, MOST_LOCAL_BYTES, "a thread's memory");
            } else if (!is_extern) {
                char *label = sim_arena_copy(r->arena, own, strlen(own));
                v->address = sim_alloc(mod->device, size ? (size_t)size : 1, label);
                if (!v->address)
                    longjmp(*r->arena->out_of_memory, 1);
                SimAllocation *a = sim_device_find(mod->device, v->address);
                memset(a->data, 0, a->size); /* zero where not initialised (PTX ISA 5.4.4) */
                memset(a->init, 1, a->size);
                a->read_only = space == PTX_CONST;
                if (reader_accept(r, '='))
                    read_initialiser(r, a, 0, d.type);
                mod->globals = sim_arena_grow(r->arena, mod->globals, mod->global_count,
                                              &mod->global_capacity, sizeof *mod->globals);
                mod->globals[mod->global_count++] = (SimGlobalVar){label, v->address, (size_t)size};
            } else {
                fail(r, "'%s' is .extern: linking of several files is not supported", own);
            }
        }
    } while (reader_accept(r, ','));
    reader_expect(r, ';');
}

static void
read_registers(Reader *r)
{
    Declaration d = read_declaration(r);
    do {
        const char *name = reader_name(r);
        uint32_t count = 1;
        bool range = reader_accept(r, '<');
        if (range) {
            count = reader_u32(r);
            reader_expect(r, '>');
        }
        if (count > MOST_REGISTERS)
            fail(r, "'%s<%u>' is too many registers", name, count);
        PtxSymbol *s = reader_declare(r, range ? PTX_REGISTERS : PTX_REGISTER, name);
        s->type = d.type;
        s->vector = d.vector;
        s->count = count;
        s->place = sim_arena_alloc(r->arena, ((size_t)count + 1) * sizeof *s->place);
    } while (reader_accept(r, ','));
    reader_expect(r, ';');
}

/* ------------------------------------------------------------------------ directives */

static void
read_loc(Reader *r)
{
    SimModule *mod = r->file->mod;
    SimLoc loc = {reader_u32(r), reader_u32(r)};
    reader_u32(r);               /* column */
    if (reader_accept(r, ',')) { /* function_name label [+ n], inlined_at file line column */
        if (!reader_accept_word(r, "function_name"))
            fail(r, "expected 'function_name' after .loc");
        reader_name(r);
        if (reader_accept(r, '+'))
            reader_u32(r);
        reader_expect(r, ',');
        if (!reader_accept_word(r, "inlined_at"))
            fail(r, "expected 'inlined_at' after .loc");
        reader_u32(r), reader_u32(r), reader_u32(r);
    }
    mod->locs = sim_arena_grow(r->arena, mod->locs, mod->loc_count, &mod->loc_capacity, sizeof loc);
    if (mod->loc_count == 0)
        mod->locs[mod->loc_count++] = (SimLoc){0}; /* 0 means none */
    mod->locs = sim_arena_grow(r->arena, mod->locs, mod->loc_count, &mod->loc_capacity, sizeof loc);
    mod->locs[mod->loc_count] = loc;
    r->loc = (uint32_t)mod->loc_count++;
}

static void
read_file(Reader *r)
{
    SimModule *mod = r->file->mod;
    uint32_t index = reader_u32(r);
    const char *name = reader_string(r);
    if (reader_accept(r, ',')) { /* timestamp, size */
        reader_constant(r, 0);
        reader_expect(r, ',');
        reader_constant(r, 0);
    }
    if (index > 100000)
        fail(r, ".file index %u is too large", index);
    while (index >= mod->file_count) {
        mod->files = sim_arena_grow(r->arena, mod->files, mod->file_count, &mod->file_capacity,
                                    sizeof *mod->files);
        mod->files[mod->file_count++] = NULL;
    }
    mod->files[index] = name;
}

static void
skip_section(Reader *r) /* .section .debug_info { ... } */
{
    reader_expect(r, '.');
    reader_word(r);
    reader_expect(r, '{');
    for (int depth = 1; depth > 0;) {
        char c = reader_peek(r);
        if (!c)
            fail(r, "section without end");
        depth += c == '{';
        depth -= c == '}';
        if (c == '"')
            reader_string(r);
        else
            r->at++;
    }
}

/* .nv_intermediate_source_section { .code_block { .. .source_begin text .source_end } }: what the
 * kernel was made of, in another language; its text is no PTX. */
static void
skip_source_section(Reader *r)
{
    static const char begin[] = ".source_begin", end[] = ".source_end";
    reader_expect(r, '{');
    for (int depth = 1; depth > 0;) {
        char c = reader_peek(r);
        if (!c)
            fail(r, "section without end");
        if (reader_accept_word(r, begin)) {
            while (r->at < r->end && ((size_t)(r->end - r->at) < sizeof end - 1 ||
                                      memcmp(r->at, end, sizeof end - 1)))
                r->line += *r->at++ == '\n';
            if (!reader_accept_word(r, end))
                fail(r, "'%s' without '%s'", begin, end);
            continue;
        }
        depth += c == '{';
        depth -= c == '}';
        if (c == '"')
            reader_string(r);
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
        symbol->names[symbol->name_count++] = reader_name(r);
    } while (reader_accept(r, ','));
    reader_expect(r, ';');
}

static bool
accept_space(Reader *r, PtxVarSpace *space)
{
    static const struct {
        const char *word;
        PtxVarSpace space;
    } spaces[] = {
        {".global", PTX_GLOBAL}, {".const", PTX_CONST}, {".shared", PTX_SHARED},
        {".local", PTX_LOCAL},   {".param", PTX_PARAM},
    };
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (reader_accept_word(r, spaces[i].word)) {
            *space = spaces[i].space;
            return true;
        }
    return false;
}

static void
skip_statement(Reader *r)
{
    while (reader_peek(r) && reader_peek(r) != ';')
        r->at++;
    reader_expect(r, ';');
}

static void
read_statement_label(Reader *r, const char *name)
{
    if (reader_accept_word(r, ".branchtargets") || reader_accept_word(r, ".calltargets")) {
        read_label_targets(r, reader_declare(r, PTX_TARGETS, name));
        return;
    }
    if (reader_accept_word(r, ".callprototype")) {
        reader_declare(r, PTX_TARGETS, name);
        skip_statement(r);
        return;
    }
    PtxSymbol *label = reader_declare(r, PTX_LABEL, name);
    label->target = (uint32_t)r->function->insn_count;
}

static void
read_body(Reader *r)
{
    PtxVarSpace space;
    int depth = 1;
    while (depth > 0) {
        char c = reader_peek(r);
        if (!c)
            fail(r, "function without end");
        if (reader_accept(r, '{')) {
            reader_open_scope(r);
            depth++;
        } else if (reader_accept(r, '}')) {
            r->scope = r->scope->outer;
            depth--;
        } else if (c == ';') {
            r->at++;
        } else if (c == '.') {
            if (reader_accept_word(r, ".reg"))
                read_registers(r);
            else if (reader_accept_word(r, ".loc"))
                read_loc(r);
            else if (reader_accept_word(r, ".pragma"))
                skip_statement(r);
            else if (reader_accept_word(r, ".file"))
                read_file(r);
            else if (reader_accept_word(r, ".section"))
                skip_section(r);
            else if (reader_accept_word(r, ".extern") && accept_space(r, &space))
                read_variables(r, space, true);
            else if (accept_space(r, &space))
                read_variables(r, space, false);
            else
                fail(r, "unknown directive in a function");
        } else if (reader_is_name_start(c)) {
            const char *back = r->at;
            uint32_t line = r->line;
            const char *name = reader_name(r);
            if (reader_peek(r) == ':' && !(r->at + 1 < r->end && r->at[1] == ':')) {
                r->at++;
                read_statement_label(r, name);
            } else {
                r->at = back;
                r->line = line;
                reader_instruction(r);
            }
        } else {
            reader_instruction(r);
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
    reader_expect(r, '(');
    while (!reader_accept(r, ')')) {
        if (reader_accept_word(r, ".reg"))
            fail(r, ".reg parameters (PTX before 2.0) are not supported");
        reader_accept_word(r, ".hidden"); /* the compiler's own, given like the others */
        if (!reader_accept_word(r, ".param"))
            fail(r, "expected '.param'");
        Declaration d = read_declaration(r);
        const char *name = reader_name(r);
        bool is_array;
        uint64_t elements = read_dimensions(r, &is_array);
        uint64_t unit = type_bytes(d.type) * (d.vector ? d.vector : 1);
        PtxSymbol *v = reader_declare(r, PTX_VARIABLE, name);
        v->space = of_entry ? PTX_ENTRY_PARAM : PTX_PARAM;
        v->size = elements * unit;
        v->align = d.align ? d.align : (uint32_t)unit;
        uint32_t *bytes = of_entry ? &fn->entry.param_bytes : &fn->local_bytes;
        check_align(r, v->align);
        place_in(r, v, bytes, of_entry ? MOST_PARAM_BYTES : MOST_LOCAL_BYTES,
                 of_entry ? "parameters" : "a thread's memory");
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
        if (!reader_accept(r, ',') && reader_peek(r) != ')')
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
    out[0] = reader_u32(r);
    out[1] = out[2] = 1;
    for (int i = 1; i < 3 && reader_accept(r, ','); i++)
        out[i] = reader_u32(r);
}

/* Performance directives (PTX ISA 11.4).  True when one was read. */
static bool
read_function_directive(Reader *r, SimFunction *fn)
{
    static const char *const ignored[] = {".maxnctapersm", ".maxclusterrank", ".language"};
    static const char *const bare[] = {".explicitcluster", ".blocksareclusters", ".noreturn",
                                       ".unified"};
    uint32_t unused[3];
    if (reader_accept_word(r, ".maxntid")) {
        read_triple(r, fn->entry.max_block);
        return true;
    }
    if (reader_accept_word(r, ".reqntid")) {
        read_triple(r, fn->entry.required_block);
        return true;
    }
    if (reader_accept_word(r, ".reqnctapercluster")) {
        read_triple(r, fn->entry.required_cluster);
        return true;
    }
    if (reader_accept_word(r, ".minnctapersm")) {
        fn->min_ctas = reader_u32(r);
        return true;
    }
    if (reader_accept_word(r, ".maxnreg")) {
        fn->max_registers = fn->entry.max_registers = reader_u32(r);
        return true;
    }
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (reader_accept_word(r, ignored[i])) {
            read_triple(r, unused);
            return true;
        }
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (reader_accept_word(r, bare[i]))
            return true;
    if (reader_accept_word(r, ".pragma")) {
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
    reader_open_scope(r);
    PtxScope *scope = r->scope;
    if (!is_entry && reader_peek(r) == '(')
        result_count = read_params(r, &scratch, false, &results);
    const char *name = reader_name(r);
    if (reader_peek(r) == '(')
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
    if (reader_accept(r, ';')) { /* a declaration */
        r->scope = scope->outer;
        return;
    }
    reader_expect(r, '{');
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
    if (reader_accept_word(r, ".version")) {
        uint64_t major = 0, minor = 0;
        char *after;
        reader_skip_space(r);
        major = strtoul(r->at, &after, 10);
        r->at = after;
        reader_expect(r, '.');
        minor = strtoul(r->at, &after, 10);
        r->at = after;
        mod->version = (uint32_t)(major * 10 + minor);
    } else if (reader_accept_word(r, ".target")) {
        mod->target = reader_name(r);
        while (reader_accept(r, ','))
            reader_name(r);
    } else {
        if (!reader_accept_word(r, ".address_size"))
            fail(r, "unknown directive at module scope");
        if (reader_u32(r) != 64)
            fail(r, "only .address_size 64 is supported");
    }
}

static void
read_module(Reader *r)
{
    PtxVarSpace space;
    while (reader_peek(r)) {
        bool is_extern = false;
        if (*r->at == ';') {
            r->at++;
            continue;
        }
        if (*r->at != '.')
            fail(r, "expected a directive at module scope");
        for (;;) {
            if (reader_accept_word(r, ".extern"))
                is_extern = true;
            else if (!reader_accept_word(r, ".visible") && !reader_accept_word(r, ".weak") &&
                     !reader_accept_word(r, ".common"))
                break;
        }
        if (reader_accept_word(r, ".entry"))
            read_function(r, true);
        else if (reader_accept_word(r, ".func")) {
            if (reader_accept_word(r, ".attribute"))
                fail(r, "function attributes are not supported");
            read_function(r, false);
        } else if (accept_space(r, &space))
            read_variables(r, space, is_extern);
        else if (reader_accept_word(r, ".file"))
            read_file(r);
        else if (reader_accept_word(r, ".section"))
            skip_section(r);
        else if (reader_accept_word(r, ".nv_intermediate_source_section"))
            skip_source_section(r);
        else if (reader_accept_word(r, ".pragma"))
            skip_statement(r);
        else
            read_header(r);
    }
}

/* The address that a name in an initialiser stands for: of a variable or a function. */
static uint64_t
address_of(PtxFile *f, const PtxFixup *x)
{
    uint32_t index;
    const SimModule *mod = f->mod;
    const PtxSymbol *s = sim_parse_lookup(f->scope, x->name, &index);
    if (s && s->kind == PTX_VARIABLE && (s->space == PTX_GLOBAL || s->space == PTX_CONST))
        return s->address;
    for (size_t i = 0; !s && i < mod->function_count; i++)
        if (strcmp(mod->functions[i]->name, x->name) == 0)
            return SIM_WINDOW_CODE + i;
    sim_parse_fail(f, x->line, "'%s' is neither a .global or .const variable nor a function",
                   x->name);
}

static void
resolve_fixups(PtxFile *f)
{
    for (size_t i = 0; i < f->fixup_count; i++) {
        PtxFixup *x = &f->fixup[i];
        uint64_t value = address_of(f, x) + x->addend;
        if (x->offset + x->bytes > x->at->size || x->bytes != 8)
            sim_parse_fail(f, x->line, "an address needs an 8-byte element");
        memcpy(x->at->data + x->offset, &value, 8);
    }
}

/* Variables of the entries come after those of the module; each entry starts there anew.  Arrays of
 * dynamic size lie behind: at one place for all entries if a device function may name them. */
static void
lay_out_shared(PtxFile *file)
{
    uint32_t align = file->shared_dynamic_align > 16 ? file->shared_dynamic_align : 16, most = 0;
    uint64_t start = align_up(file->mod->shared_bytes, file->entry_shared_align);
    bool has_devices = false;
    if (!file->entry_shared_count)
        start = file->mod->shared_bytes;
    for (size_t i = 0; i < file->entry_shared_count; i++)
        file->entry_shared[i]->address += SIM_SHARED_BASE + start;
    for (size_t i = 0; i < file->function_count; i++) {
        SimFunction *fn = file->function[i].function;
        has_devices |= !fn->is_entry && fn->has_body;
        fn->shared_bytes = (uint32_t)(fn->shared_bytes ? start + fn->shared_bytes
                                                       : file->mod->shared_bytes);
        if (file->dynamic_count)
            fn->shared_bytes = (uint32_t)align_up(fn->shared_bytes, align);
        most = fn->shared_bytes > most ? fn->shared_bytes : most;
    }
    for (size_t i = 0; i < file->function_count && has_devices && file->dynamic_count; i++)
        file->function[i].function->shared_bytes = most;
}

void
sim_parse(PtxFile *file, const char *text, size_t length)
{
    SimArena *arena = &file->mod->arena;
    const char *copy = sim_arena_copy(arena, text, length);
    Reader reader = {.file = file, .arena = arena, .at = copy, .end = copy + length, .line = 1};
    reader_open_scope(&reader);
    file->scope = reader.scope;
    read_module(&reader);
    resolve_fixups(file);
    lay_out_shared(file);
}
