/* front.h - source text to checked tile IR, with the compiler's own library behind `use`. */
#ifndef TILEC_FRONT_H
#define TILEC_FRONT_H

#include "compiler/ir/tir.h"
#include "compiler/target.h"
#include "compiler/tilec.h"

enum { MAX_AUTO = 8 };

/* What parameters get whose default is `auto`. */
typedef struct OpenValues {
    /* in the order of declaration; the last of MAX_AUTO values is used for all further parameters;
       NULL: middling values */
    const int32_t *values;
    const char *replaced, *replacement; /* a parameter of -D, and the value to take instead */
} OpenValues;

/* Which parameters of a kernel are `auto`. */
typedef struct AutoTiles {
    OpenValues open;
    int32_t middling;            /* what is taken where `open` has no values */
    const char *kernel;          /* the last one asked about .. */
    uint32_t asked;              /* .. how many of its parameters were .. */
    const char *names[MAX_AUTO]; /* .. and which */
} AutoTiles;

typedef struct Front {
    Arena *arena;
    Diag *diag;
    const TilecOptions *options; /* defines, kernel, import */
    const Target *target;
    struct Ast *ast;       /* set by front_parse */
    const TirModule *made; /* what front_module gave, for front_made; NULL: nothing */
    /* for editors, NULL: not wanted; see ast_to_tir.h */
    void (*declared)(void *user, Span span, const char *text);
    void *user;
} Front;

/* What a value that is open may be taken as for a sample of a kernel, in this order: the first with
 * which it can be made. */
enum { FRONT_MIDDLING = 3 };
extern const int32_t front_middling[FRONT_MIDDLING];

/* Parses a file and the modules it uses; no modules where only a new layout is asked for.  False
 * after errors. */
bool front_parse(Front *front, const SourceFile *file);
/* The program as the language itself: the tree printed, or the file laid out anew. */
void front_print(const Front *front, const SourceFile *file, Buf *out, Buf *bugs);
/* All kernels, or the one that the options name, with middling values for `auto`.  NULL after
 * errors. */
TirModule *front_module(const Front *front);
/* A kernel of `front->made` whose parameters that are `auto` have the first of the middling values,
 * and which no pass has changed;
 * NULL: there is none.  `asked` as below. */
const TirFn *front_made(const Front *front, const char *name, AutoTiles *asked);
/* One kernel once more, with the values of `open` (NULL: middling ones) for `auto`; `asked`, if
 * not NULL, is told which parameters have that.  NULL after errors. */
TirFn *front_kernel(const Front *front, const char *name, const OpenValues *open, AutoTiles *asked);
/* Whether the parameter is left to the compiler. */
bool auto_is_open(const AutoTiles *open, const char *name);
/* The parameters of a kernel whose default is `auto`, pinned or not, in the order of their
 * declaration: at most `most`; returns how many. */
uint32_t front_autos(const Front *front, const char *kernel, const char **names, uint32_t most);

#endif
