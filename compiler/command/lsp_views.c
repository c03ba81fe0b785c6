/* lsp_views.c - what a document is made of, for editors: from the names of its tree, its tokens and
 * its messages. */
#include "compiler/command/lsp_views.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/base/dtype.h"
#include "compiler/command/files.h"
#include "compiler/command/lsp_places.h"

/* ---- what names are ---- */

/* The protocol's numbers for kinds of symbols, and the places of its words in our legend. */
enum {
    SYMBOL_FUNCTION = 12,
    SYMBOL_VARIABLE = 13,
    SYMBOL_CONSTANT = 14,
    SYMBOL_ARRAY = 18,
    SYMBOL_PARAMETER = 26
};
enum { WORD_FUNCTION, WORD_PARAMETER, WORD_CONSTANT, WORD_VARIABLE, WORD_TYPE, WORDS };
enum { IS_DECLARATION = 1, IS_READONLY = 2, IS_LIBRARY = 4 };

static const char *const words[WORDS] = {"function", "parameter", "typeParameter", "variable",
                                         "type"};

static const struct NameKind {
    const char *what;
    int symbol, word, modifiers;
} name_kinds[] = {
    {"kernel", SYMBOL_FUNCTION, WORD_FUNCTION, 0},
    {"function", SYMBOL_FUNCTION, WORD_FUNCTION, 0},
    {"compile-time parameter", SYMBOL_PARAMETER, WORD_CONSTANT, IS_READONLY},
    {"size", SYMBOL_PARAMETER, WORD_CONSTANT, IS_READONLY},
    {"tensor", SYMBOL_ARRAY, WORD_PARAMETER, 0},
    {"parameter", SYMBOL_VARIABLE, WORD_PARAMETER, IS_READONLY},
    {"let", SYMBOL_CONSTANT, WORD_VARIABLE, IS_READONLY},
    {"loop variable", SYMBOL_VARIABLE, WORD_VARIABLE, IS_READONLY},
    {"grid index", SYMBOL_VARIABLE, WORD_VARIABLE, IS_READONLY},
    {"var", SYMBOL_VARIABLE, WORD_VARIABLE, 0},
};

static const struct NameKind *
kind_of(const char *what)
{
    for (size_t k = 0; what != NULL && k < sizeof name_kinds / sizeof name_kinds[0]; k++)
        if (strcmp(name_kinds[k].what, what) == 0)
            return &name_kinds[k];
    return NULL;
}

static bool
is_here(const Editor *editor, Span span)
{
    return span.lo >= editor->file->base && span.hi <= editor->file->base + editor->file->n;
}

static bool
declares(const NameUse *use)
{
    return use->declared.lo != 0 && use->declared.lo == use->span.lo;
}

static bool
same_name(const NameUse *a, const NameUse *b)
{
    return a->declared.lo == b->declared.lo &&
           (a->declared.lo != 0 || strcmp(a->name, b->name) == 0);
}

/* ---- symbols ---- */

/* Where the block ends that begins behind `at`; `at` itself: none does. */
static uint32_t
end_of_block(const TokenList *tokens, uint32_t at)
{
    uint32_t depth = 0;

    for (uint32_t k = 0; k < tokens->n; k++) {
        const Token *token = &tokens->at[k];
        if (token->span.lo < at)
            continue;
        depth += token_is(token, "{");
        if (token_is(token, "}") && depth > 0 && --depth == 0)
            return token->span.hi;
    }
    return at;
}

static json_t *
symbol(const Editor *editor, const NameUse *use, Span whole)
{
    return json_pack("{s:s, s:s, s:i, s:o, s:o}", "name", use->name, "detail", use->what, "kind",
                     kind_of(use->what)->symbol, "range", lsp_range(editor->file, whole),
                     "selectionRange", lsp_range(editor->file, use->span));
}

json_t *
lsp_symbols(const Editor *editor)
{
    json_t *list = json_array(), *children = NULL;

    for (uint32_t k = 0; k < editor->uses.n; k++) { /* an item's names stand behind its own */
        const NameUse *use = &editor->uses.at[k];
        if (!declares(use) || kind_of(use->what) == NULL)
            continue;
        bool item = kind_of(use->what)->symbol == SYMBOL_FUNCTION;
        children = item ? NULL : children;
        if (!is_here(editor, use->span))
            continue;
        if (item) {
            Span whole = {use->span.lo, end_of_block(&editor->tokens, use->span.hi)};
            json_t *one = symbol(editor, use, whole);
            children = json_array();
            json_object_set_new(one, "children", children);
            json_array_append_new(list, one);
        } else if (children != NULL) {
            json_array_append_new(children, symbol(editor, use, use->span));
        }
    }
    return list;
}

json_t *
lsp_highlights(const Editor *editor, const NameUse *use)
{
    json_t *list = json_array();

    for (uint32_t k = 0; k < editor->uses.n; k++)
        if (is_here(editor, editor->uses.at[k].span) && same_name(use, &editor->uses.at[k]))
            json_array_append_new(
                list, json_pack("{s:o}", "range", lsp_range(editor->file, editor->uses.at[k].span)));
    return list;
}

/* ---- calls ---- */

/* The call around a place: the token of its name, and the argument that the place is in. */
typedef struct Call {
    const Token *name, *argument; /* the argument's first token; NULL: none is there yet */
    uint32_t commas;
} Call;

static bool
call_around(const TokenList *tokens, uint32_t offset, Call *call)
{
    uint32_t depth = 0, k = tokens->n;

    *call = (Call){0};
    while (k > 0 && tokens->at[k - 1].span.hi > offset)
        k--;
    for (; k-- > 0;) {
        const Token *token = &tokens->at[k];
        bool opens = token_is(token, "(") || token_is(token, "[");
        bool call_opens = opens && token_is(token, "(") && k > 0 &&
                          tokens->at[k - 1].kind == TOKEN_NAME;
        if (depth == 0 && call_opens)
            break;
        if (token_is(token, ";") || token_is(token, "{") || token_is(token, "}"))
            return false;
        depth += token_is(token, ")") || token_is(token, "]");
        if (opens && depth > 0) {
            depth--;
        } else if (opens) { /* the place is in these brackets, which are in an argument */
            call->commas = 0;
            call->argument = NULL;
        }
        if (depth == 0 && token_is(token, ","))
            call->commas++;
        else if (depth == 0 && call->commas == 0)
            call->argument = token;
    }
    if (k >= tokens->n)
        return false;
    call->name = &tokens->at[k - 1];
    return true;
}

/* "mma(a, b, acc)" as the protocol has it; the argument that is written, by its name if it has one,
 * is `active`. */
static json_t *
signature(const char *label, const Call *call)
{
    json_t *arguments = json_array();
    size_t begin = strcspn(label, "("), depth = 0, n = strcspn(label, "\n");
    uint32_t active = call->commas;

    begin += label[begin] == '(';
    for (size_t at = begin; at < n; at++) {
        bool closes = label[at] == ')' || label[at] == ']';
        bool ends = depth == 0 && (label[at] == ',' || closes);
        depth += label[at] == '(' || label[at] == '[';
        depth -= closes && depth > 0;
        if (!ends)
            continue;
        const char *name = label + begin + strspn(label + begin, " ");
        size_t length = strspn(name,
                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (call->argument != NULL && length == call->argument->n && length > 0 &&
            strncmp(name, call->argument->text, length) == 0 && call->argument[1].n == 1 &&
            token_is(&call->argument[1], "="))
            active = (uint32_t)json_array_size(arguments);
        if (at > begin)
            json_array_append_new(arguments,
                                  json_pack("{s:[i, i]}", "label", (int)(name - label), (int)at));
        begin = at + 1;
        if (closes)
            break;
    }
    const char *help = label[n] == '\n' ? label + n + strspn(label + n, "\n/ ") : NULL;
    return json_pack("{s:[{s:s%, s:s*, s:o}], s:i, s:i}", "signatures", "label", label, n,
                     "documentation", help, "parameters", arguments, "activeSignature", 0,
                     "activeParameter", (int)active);
}

json_t *
lsp_signature(Editor *editor, uint32_t offset)
{
    Call call;

    if (!call_around(&editor->tokens, offset, &call))
        return NULL;
    const NameUse *use = editor_use(editor, call.name->span.lo);
    char *name = allocate(call.name->n + 1);
    memcpy(name, call.name->text, call.name->n);
    NameUse as_written = {.span = call.name->span, .name = name};
    for (uint32_t k = 0; use == NULL && k < editor->uses.n;
         k++) { /* what does not parse has no uses */
        const NameUse *known = &editor->uses.at[k];
        if (declares(known) && strcmp(known->what, "function") == 0 &&
            strcmp(known->name, as_written.name) == 0)
            use = known;
    }
    const char *about = editor_about(editor, use != NULL ? use : &as_written);
    free(name);
    return about == NULL || strchr(about, '(') == NULL ? NULL : signature(about, &call);
}

/* ---- colours ---- */

json_t *
lsp_token_legend(void)
{
    json_t *list = json_array();

    for (size_t k = 0; k < WORDS; k++)
        json_array_append_new(list, json_string(words[k]));
    return json_pack("{s:o, s:[s, s, s]}", "tokenTypes", list, "tokenModifiers", "declaration",
                     "readonly", "defaultLibrary");
}

static int
by_place(const void *x, const void *y)
{
    const NameUse *a = *(const NameUse *const *)x, *b = *(const NameUse *const *)y;
    return a->span.lo < b->span.lo ? -1 : a->span.lo > b->span.lo;
}

/* The word and the modifiers of a name; false: the grammar's colours say it. */
static bool
word_of(const Editor *editor, const NameUse *use, int *word, int *modifiers)
{
    const struct NameKind *kind = kind_of(use->what);
    DType type;

    *modifiers = declares(use) ? IS_DECLARATION : 0;
    if (kind != NULL) {
        *word = kind->word;
        *modifiers |= kind->modifiers | (is_here(editor, use->declared) ? 0 : IS_LIBRARY);
        return true;
    }
    *word = dtype_parse(use->name, &type) ? WORD_TYPE : WORD_FUNCTION;
    *modifiers |= IS_LIBRARY;
    return *word == WORD_TYPE || editor_is_builtin(use->name);
}

json_t *
lsp_tokens(const Editor *editor)
{
    const NameUse **order = allocate((editor->uses.n + 1) * sizeof *order);
    json_t *data = json_array();
    json_int_t line = 0, column = 0;
    size_t n = 0;

    for (uint32_t k = 0; k < editor->uses.n; k++)
        if (is_here(editor, editor->uses.at[k].span) && editor->uses.at[k].span.lo != 0)
            order[n++] = &editor->uses.at[k];
    qsort(order, n, sizeof *order, by_place);
    for (size_t k = 0; k < n; k++) {
        int word, modifiers;
        bool again = k > 0 && order[k]->span.lo < order[k - 1]->span.hi;
        if (again || !word_of(editor, order[k], &word, &modifiers))
            continue;
        json_t *begin = lsp_position(editor->file, order[k]->span.lo);
        json_int_t at = json_integer_value(json_object_get(begin, "line")),
                   in = json_integer_value(json_object_get(begin, "character"));
        const json_int_t numbers[] = {at - line, at == line ? in - column : in,
                                      order[k]->span.hi - order[k]->span.lo, word, modifiers};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            json_array_append_new(data, json_integer(numbers[i]));
        line = at;
        column = in;
        json_decref(begin);
    }
    free(order);
    return json_pack("{s:o}", "data", data);
}

/* ---- mends ---- */

typedef struct Mends {
    const Editor *editor;
    const char *uri;
    json_t *list;
} Mends;

static void
add_mend(Mends *m, Span span, const char *title, const char *text)
{
    json_array_append_new(m->list, json_pack("{s:s, s:s, s:{s:{s:[{s:o, s:s}]}}}", "title", title,
                                             "kind", "quickfix", "edit", "changes", m->uri, "range",
                                             lsp_range(m->editor->file, span), "newText", text));
}

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

/* `cast it with `as f32` or `as bf16``: one mend for each. */
static void
mend_casts(Mends *m, Arena *arena, const DiagMessage *message, const char *text, size_t n)
{
    static const char quoted[] = "`as ";
    bool simple = strspn(text, letters) == n;

    for (const char *at = message->text; (at = strstr(at, quoted)) != NULL;) {
        const char *type = at += strlen(quoted);
        int length = (int)strspn(type, letters);
        if (type[length] == '`' && length > 0)
            add_mend(m, message->span, arena_printf(arena, "Cast it: as %.*s", length, type),
                     arena_printf(arena, simple ? "%.*s as %.*s" : "(%.*s) as %.*s", (int)n, text,
                                  length, type));
    }
}

/* `write `s[:, None]`, or `[None, :]` ..`: the name in the message's place gets a subscript. */
static void
mend_subscripts(Mends *m, Arena *arena, const DiagMessage *message, const char *text, size_t n)
{
    static const char write[] = "write `", *const subscripts[] = {"[:, None]", "[None, :]"};
    const char *name = strstr(message->text, write), *at = NULL;

    if (name == NULL)
        return;
    name += strlen(write);
    size_t length = strspn(name, letters), places = 0;
    for (size_t k = 0; length > 0 && k + length <= n; k += 1 + strspn(text + k, letters)) {
        if (strspn(text + k, letters) == length && strncmp(text + k, name, length) == 0) {
            places++;
            at = text + k;
        }
    }
    if (places != 1 || strncmp(name + length, subscripts[0], strlen(subscripts[0])) != 0)
        return;
    uint32_t lo = message->span.lo + (uint32_t)(at - text);
    for (size_t k = 0; k < 2; k++) {
        const char *text_of = arena_printf(arena, "%.*s%s", (int)length, name, subscripts[k]);
        add_mend(m, (Span){lo, lo + (uint32_t)length}, arena_printf(arena, "Write %s", text_of),
                 text_of);
    }
}

/* `did you mean 'softmax'?` */
static void
mend_spelling(Mends *m, Arena *arena, const DiagMessage *message, const char *text, size_t n)
{
    static const char *const asked[] = {"did you mean '", "did you mean `"};
    bool name = n > 0 && strspn(text, letters) >= n;

    for (size_t k = 0; name && k < 2; k++) {
        const char *at = strstr(message->text, asked[k]);
        if (at == NULL)
            continue;
        at += strlen(asked[k]);
        int length = (int)strspn(at, letters);
        if (length > 0 && (at[length] == '\'' || at[length] == '`'))
            add_mend(m, message->span, arena_printf(arena, "Write %.*s", length, at),
                     arena_printf(arena, "%.*s", length, at));
    }
}

json_t *
lsp_mends(Editor *editor, const char *uri, Span between)
{
    Mends m = {editor, uri, json_array()};

    if (setjmp(editor->on_failure) != 0)
        return NULL;
    for (uint32_t k = 0; k < editor->diag.messages.n; k++) {
        const DiagMessage *message = &editor->diag.messages.at[k];
        if (!is_here(editor, message->span) || message->span.lo > between.hi ||
            message->span.hi < between.lo)
            continue;
        size_t n = message->span.hi - message->span.lo;
        const char *text = arena_strndup(
            &editor->arena, editor->file->text + (message->span.lo - editor->file->base), n);
        mend_casts(&m, &editor->arena, message, text, n);
        mend_subscripts(&m, &editor->arena, message, text, n);
        mend_spelling(&m, &editor->arena, message, text, n);
    }
    return m.list;
}
