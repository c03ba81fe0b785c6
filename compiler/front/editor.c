/* editor.c - reads a program for an editor: runs the front end and records every declaration. */
#include "compiler/front/editor.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/front/front.h"
#include "compiler/front/ast_to_tir.h"
#include "dsl/builtins.h"
#include "dsl/tokens.h"

/* What the value of a declared name was; a function's names have one for each kind of call. */
typedef struct Fact {
    Span span;
    const char *text;
} Fact;

struct EditorFacts {
    Arena *arena;
    VEC(Fact) at;
};

enum { FACTS_SHOWN = 4, FACTS_MOST = 1 << 14 };

static void
hear(void *user, Span span, const char *text)
{
    EditorFacts *facts = user;

    for (uint32_t k = 0; k < facts->at.n; k++)
        if (facts->at.at[k].span.lo == span.lo && strcmp(facts->at.at[k].text, text) == 0)
            return;
    if (facts->at.n < FACTS_MOST)
        vec_push(facts->arena, &facts->at, ((Fact){span, text}));
}

/* Nothing here changes a local variable after setjmp. */
static void
read_file_text(Editor *editor, const char *path, const char *text, size_t n)
{
    if (setjmp(editor->on_failure) != 0) {
        editor->failed = true;
        return;
    }
    diag_init(&editor->diag, &editor->arena);
    editor->facts = arena_new(&editor->arena, EditorFacts);
    editor->facts->arena = &editor->arena;
    editor->file = diag_add_file(&editor->diag, path, text, n);
    Front front = {.arena = &editor->arena,
                   .diag = &editor->diag,
                   .options = editor->options,
                   .declared = hear,
                   .user = editor->facts};
    if (front_parse(&front, editor->file))
        front_module(&front);
    editor->uses = dsl_names(&editor->arena, front.ast);
    editor->tokens = dsl_tokens(&editor->arena, editor->file);
}

Editor *
editor_open(const TilecOptions *options, const char *path, const char *text, size_t n)
{
    Editor *editor = calloc(1, sizeof *editor);

    if (editor == NULL)
        return NULL;
    editor->options = options;
    arena_init(&editor->arena, allocator_libc(), &editor->on_failure);
    read_file_text(editor, path, text, n);
    return editor;
}

void
editor_close(Editor *editor)
{
    if (editor == NULL)
        return;
    arena_free(&editor->arena);
    free(editor);
}

const NameUse *
editor_use(const Editor *editor, uint32_t offset)
{
    for (uint32_t k = 0; k < editor->uses.n; k++)
        if (editor->uses.at[k].span.lo <= offset && offset <= editor->uses.at[k].span.hi)
            return &editor->uses.at[k];
    return NULL;
}

/* The comment lines right above a declaration's line, and that line up to its { . */
static void
add_declaration(const Editor *editor, Span declared, Buf *out)
{
    SourcePlace place = diag_place(&editor->diag, declared.lo);

    if (place.file == NULL)
        return;
    const char *text = place.file->text, *line = text + place.begin;
    const char *top = line;
    while (top - text >= 2) {
        const char *above = top - 1;
        while (above > text && above[-1] != '\n')
            above--;
        if (strncmp(above, "//", 2) != 0)
            break;
        top = above;
    }
    size_t n = strcspn(line, "{\n");
    while (n > 0 && line[n - 1] == ' ')
        n--;
    buf_printf(out, "%.*s", (int)n, line);
    for (const char *at = top; at < line; at += strcspn(at, "\n") + 1)
        buf_printf(out, "\n%.*s", (int)strcspn(at, "\n"), at);
}

const char *
editor_about(Editor *editor, const NameUse *use)
{
    uint32_t shown = 0;
    Buf text;

    if (setjmp(editor->on_failure) != 0)
        return NULL;
    buf_init(&text, &editor->arena);
    if (use->declared.lo == 0) {
        Builtin builtin = builtin_find(use->name);
        if (builtin == BUILTIN_COUNT)
            return NULL;
        const BuiltinInfo *info = builtin_info(builtin);
        buf_printf(&text, "%s\n// %s", info->usage, info->help);
        return text.at;
    }
    if (strcmp(use->what, "function") == 0 || strcmp(use->what, "kernel") == 0) {
        add_declaration(editor, use->declared, &text);
        return text.at;
    }
    buf_printf(&text, "%s %s", use->what, use->name);
    for (uint32_t k = 0; k < editor->facts->at.n && shown < FACTS_SHOWN; k++) {
        const Fact *fact = &editor->facts->at.at[k];
        if (fact->span.lo == use->declared.lo)
            buf_printf(&text, "%s%s", shown++ == 0 ? ": " : "\n    or ", fact->text);
    }
    return text.at;
}

bool
editor_is_builtin(const char *name)
{
    return builtin_find(name) != BUILTIN_COUNT;
}

EditorNameList
editor_names(Editor *editor, uint32_t offset)
{
    static const char *const words[] = {"int", "type", "inf", "pi"};
    EditorNameList list = {0};

    if (setjmp(editor->on_failure) != 0)
        return (EditorNameList){0};
    for (uint32_t k = 0; k < editor->uses.n; k++) {
        const NameUse *use = &editor->uses.at[k];
        bool here = use->span.lo >= editor->file->base && use->span.lo < offset;
        bool declares = use->declared.lo == use->span.lo && use->declared.lo != 0;
        if (declares && (here || strcmp(use->what, "function") == 0) &&
            strcmp(use->what, "kernel") != 0)
            vec_push(&editor->arena, &list, ((EditorName){use->name, use->what}));
    }
    for (uint32_t k = 0; k < BUILTIN_COUNT; k++)
        vec_push(&editor->arena, &list,
                 ((EditorName){builtin_info((Builtin)k)->name, "built-in function"}));
    for (int k = 0; k < DT_COUNT; k++) {
        if (dtype_has((DType)k, USE_NAMED))
            vec_push(&editor->arena, &list,
                     ((EditorName){dtype_name((DType)k), "type or constant"}));
    }
    for (uint32_t k = 0; k < sizeof words / sizeof words[0]; k++)
        vec_push(&editor->arena, &list, ((EditorName){words[k], "type or constant"}));
    for (uint32_t k = 0; dsl_keywords[k] != NULL; k++)
        vec_push(&editor->arena, &list, ((EditorName){dsl_keywords[k], "keyword"}));
    return list;
}
