/* editor.h - facts about a program for an editor: messages, the meaning and declaration of each
 * name, and values as far as they are known.  Not part of the public API. */
#ifndef TILEC_FRONT_EDITOR_H
#define TILEC_FRONT_EDITOR_H

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/tilec.h"
#include "dsl/names.h"
#include "dsl/tokens.h"

typedef struct EditorFacts EditorFacts;

typedef struct Editor {
    Arena arena;
    jmp_buf on_failure;
    Diag diag;
    const SourceFile *file;
    const TilecOptions *options; /* the import is what counts */
    NameUseList uses;
    TokenList tokens; /* of the file itself */
    EditorFacts *facts;
    bool failed; /* out of memory: nothing else is in it */
} Editor;

/* A name that may be written, and what it is. */
typedef struct EditorName {
    const char *name, *what;
} EditorName;
typedef VEC(EditorName) EditorNameList;

/* Reads a program; NULL without memory.  The text is copied. */
Editor *editor_open(const TilecOptions *options, const char *path, const char *text, size_t n);
void editor_close(Editor *editor);
/* The use whose span has `offset` in it or at its end; NULL: there is none. */
const NameUse *editor_use(const Editor *editor, uint32_t offset);
/* What is said about a use when it is pointed at; NULL: nothing is known. */
const char *editor_about(Editor *editor, const NameUse *use);
bool editor_is_builtin(const char *name);
/* Everything with a name: what is declared before `offset`, functions, built-in functions, types,
 * keywords. */
EditorNameList editor_names(Editor *editor, uint32_t offset);

#endif
