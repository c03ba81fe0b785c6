/* tir_reader.h - inside the reader of tile IR: tokens, and the small parts that they make up.
 * Only tir_token.c and tir_read*.c include it.
 */
#ifndef TILEC_IR_TIR_READER_H
#define TILEC_IR_TIR_READER_H

#include "compiler/ir/layout.h"
#include "compiler/ir/tir.h"

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
    VEC(const Layout *) layouts; /* of this kernel, by number */
    const SourceFile *from;      /* what it was made from; NULL: it does not say */
} Reader;

/* Only the first error is reported: after it every function does nothing and returns a harmless
 * value. */
void reader_fail_at(Reader *r, Span span, const char *message);
void reader_fail(Reader *r, const char *message);
void reader_next(Reader *r);
bool reader_sees(const Reader *r, const char *text);
bool reader_accept(Reader *r, const char *text);
void reader_expect(Reader *r, const char *text);
const char *reader_take(Reader *r, TokenKind kind, const char *what);
int64_t reader_integer(Reader *r, int64_t lowest, int64_t highest);
uint32_t reader_u32(Reader *r);
int32_t reader_extent(Reader *r);
double reader_number(Reader *r);
DType reader_dtype(Reader *r);
TirType reader_type(Reader *r);
/* Values by name (tir_read_values.c): forget all; define one; take the next token as the name of
 * one. */
void reader_forget_values(Reader *r);
void reader_define(Reader *r, Token name, TirVal *value);
TirVal *reader_take_use(Reader *r);
/* "{64x32 reg 2:0,1 .. | lane .. | warp ..}", as layout_print writes it. */
const Layout *reader_layout(Reader *r);
/* "{64x32 pitch 128 swizzle 3>>0}", as shared_layout_print writes it. */
const SharedLayout *reader_shared_layout(Reader *r);
/* The number of a size or scalar of the kernel; false: it has none of this name. */
bool reader_find_size(const TirFn *fn, const char *text, uint32_t *index);
bool reader_find_scalar(const TirFn *fn, const char *text, uint32_t *index);
/* Likewise of an axis of the grid; and the number of the name that comes next, by one of these. */
bool reader_find_axis(const TirFn *fn, const char *text, uint32_t *index);
int64_t reader_named(Reader *r, bool (*find)(const TirFn *, const char *, uint32_t *),
                     const char *what);
/* "57", "57:9": a line, and a column if it is told. */
SourcePlace reader_line(Reader *r);
/* "at 57", "at 57:9 of "softmax.tile"", or nothing: where what begins at `span` comes from. */
void reader_place(Reader *r, Span span);
/* One line of a kernel's head (tir_read_head.c). */
void reader_head_line(Reader *r);
/* "cdiv(Sq, 128) * H", as host_print writes it. */
const HostExpr *reader_host(Reader *r);

#endif
