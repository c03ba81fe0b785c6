/* diag.h - source files, ranges of source text, and everything said to the user about them. */
#ifndef TILEC_BASE_DIAG_H
#define TILEC_BASE_DIAG_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/arena.h"

/* A half-open range of bytes.  All files of a compilation share one number space: file k begins
 * at its `base`, so a Span names its file.  Offset 0 belongs to no file: {0, 0} is "nowhere". */
typedef struct Span {
    uint32_t lo, hi;
} Span;

typedef struct SourceOrigin SourceOrigin;

typedef struct SourceFile {
    const char *path; /* as the user gave it, or "<stdlib>/softmax.tile" */
    const char *text; /* NUL-terminated */
    uint32_t n;       /* bytes of text */
    uint32_t base;    /* Span offset of its first byte */
    uint32_t index;   /* 1.. in order of addition */
    /* the file is tile IR as text; `origins` has the places in the program that it was made from */
    bool is_ir;
    VEC(SourceOrigin) origins;
} SourceFile;

/* Where a range begins: file (NULL for "nowhere"), line and column from 1; columns count characters
 * of UTF-8. */
typedef struct SourcePlace {
    const SourceFile *file;
    uint32_t line, column;
    uint32_t begin; /* byte of the file that the line begins with */
} SourcePlace;

/* The text at offset `at` of a tile IR file was made from this place in a program. */
struct SourceOrigin {
    uint32_t at;
    SourcePlace place;
};

typedef enum DiagKind { DIAG_ERROR, DIAG_WARNING, DIAG_REMARK, DIAG_NOTE } DiagKind;

typedef struct DiagMessage {
    DiagKind kind;
    Span span;
    const char *name; /* "E-SHAPE", which docs/errors.md explains; NULL: it has none */
    const char *text;
} DiagMessage;

/* What was said so far, and the files it is about. */
typedef struct Diag {
    Arena *arena;
    VEC(SourceFile *) files;
    VEC(DiagMessage) messages;
    uint32_t errors;
    bool show_remarks; /* remarks are dropped unless asked for */
    bool muted;        /* nothing is recorded: for trial evaluation */
    /* printed tile IR names the source place of every operation, not only of loops */
    bool all_places;
} Diag;

enum { DIAG_ERROR_LIMIT = 20 }; /* errors after this many are counted, not kept */

void diag_init(Diag *diag, Arena *arena);
/* Adds a file; the text is copied. */
SourceFile *diag_add_file(Diag *diag, const char *path, const char *text, size_t n);

/* Messages start in lower case and have no full stop.  A message may begin with its name, as in
 * "E-SHAPE: the shapes .."; docs/errors.md explains each name.  A note belongs to the message
 * before. */
void diag_error(Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warning(Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_remark(Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

SourcePlace diag_place(const Diag *diag, uint32_t offset);
/* The same, but for an offset in tile IR text the place in the program that it was made from;
 * nowhere if none was recorded for it.  Call diag_add_origin with ascending offsets. */
SourcePlace diag_origin(const Diag *diag, uint32_t offset);
void diag_add_origin(Diag *diag, uint32_t offset, SourcePlace place);
/* The file with this path; if there is none, it is added without text. */
const SourceFile *diag_named_file(Diag *diag, const char *path);
/* The file's number in `.file` and `.loc` lines; 0 for tile IR text that names its source. */
uint32_t diag_file_number(const Diag *diag, const SourceFile *file);
/* The path without its folders. */
const char *file_base_name(const char *path);

/* How much was said so far; what is said behind a mark can be unsaid. */
typedef struct DiagMark {
    uint32_t messages, errors;
} DiagMark;
DiagMark diag_mark(const Diag *diag);
void diag_rewind(Diag *diag, DiagMark mark);

uint32_t diag_warnings(const Diag *diag);
/* Removes all remarks and their notes. */
void diag_drop_remarks(Diag *diag);

/* All messages as text: `path:line:column: error: ... [E-NAME]`, the line, a caret line. */
void diag_print(const Diag *diag, Buf *out);

/* The length of the name that a message begins with, "E-SHAPE" in "E-SHAPE: .."; 0: it has no
 * name. */
size_t diag_name_length(const char *text);

static inline Span
span_join(Span a, Span b)
{
    if (a.lo == 0)
        return b;
    if (b.lo == 0)
        return a;
    return (Span){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

#endif
