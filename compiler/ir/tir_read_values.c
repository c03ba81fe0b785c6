/* tir_read_values.c - the values that the text of tile IR names: each defined once, before it is
 * used. */
#include "compiler/ir/tir_reader.h"

#include <string.h>

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

void
reader_forget_values(Reader *r)
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

void
reader_define(Reader *r, Token name, TirVal *value)
{
    if (r->failed)
        return;
    if (r->n_values * 2 >= r->values_cap)
        grow_values(r);
    ValueEntry *entry = find_entry(r, name.text);
    if (entry->text != NULL) {
        reader_fail_at(r, name.span, arena_printf(r->arena, "'%%%s' is defined twice", name.text));
        return;
    }
    *entry = (ValueEntry){name.text, value};
    r->n_values++;
    /* "s_12" is the 12th value and is called s; "12" has no name */
    const char *underscore = strrchr(name.text, '_');
    if (underscore != NULL && underscore > name.text)
        value->name = arena_strndup(r->arena, name.text, (size_t)(underscore - name.text));
}

TirVal *
reader_take_use(Reader *r)
{
    Token name = r->token;

    reader_take(r, TOK_VALUE, "a value ('%name_number')");
    if (r->failed)
        return NULL;
    TirVal *value = find_entry(r, name.text)->value;
    if (value == NULL)
        reader_fail_at(r, name.span,
                       arena_printf(r->arena, "'%%%s' is not defined before this", name.text));
    return value;
}

SourcePlace
reader_line(Reader *r)
{
    SourcePlace place = {.line = reader_u32(r), .column = 1};

    if (reader_accept(r, ":"))
        place.column = reader_u32(r);
    return place;
}

void
reader_place(Reader *r, Span span)
{
    Span here = r->token.span;

    if (r->token.new_line || !reader_accept(r, "at"))
        return;
    SourcePlace place = reader_line(r);
    place.file = r->from;
    if (reader_accept(r, "of"))
        place.file = diag_named_file(r->diag, reader_take(r, TOK_STRING, "the path of a file"));
    if (place.file == NULL)
        reader_fail_at(
            r, here,
            "the kernel does not say which file it is from: from \"name.tile\" LINE in front of its body");
    if (!r->failed)
        diag_add_origin(r->diag, span.lo, place);
}
