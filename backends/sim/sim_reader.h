/* sim_reader.h - reading PTX text piece by piece: shared by the two halves of the parser. */
#ifndef TILEC_SIM_READER_H
#define TILEC_SIM_READER_H

#include "sim_parse.h"

typedef struct Reader {
    PtxFile *file;
    SimArena *arena;
    const char *at, *end;
    uint32_t line;
    uint32_t loc;    /* in force */
    uint32_t nested; /* operands, constants and initialisers in one another */
    PtxScope *scope;
    PtxFunction *function; /* NULL at module scope */
} Reader;

/* Reports an error at the reader's line and jumps. */
#define fail(r, ...) sim_parse_fail((r)->file, (r)->line, __VA_ARGS__)

void reader_skip_space(Reader *r); /* and comments */
char reader_peek(Reader *r);       /* the next character that is not space, or NUL */
bool reader_accept(Reader *r, char c);
void reader_expect(Reader *r, char c);
bool reader_is_name_start(char c);
const char *reader_name(Reader *r);
const char *reader_word(Reader *r); /* a directive or modifier, without its dot */
const char *reader_string(Reader *r);
bool reader_accept_word(Reader *r, const char *word); /* with its dot, if it has one */
PtxOperandKind reader_number(Reader *r, uint64_t *value);
uint64_t reader_constant(Reader *r, int level); /* an expression; level 0 is the whole of it */
uint64_t reader_constant_unary(Reader *r);
uint32_t reader_u32(Reader *r);
/* Around what may stand in itself: too deep is an error. */
void reader_enter(Reader *r);
void reader_leave(Reader *r);
PtxSymbol *reader_declare(Reader *r, PtxSymbolKind kind, const char *name);
void reader_open_scope(Reader *r);
void reader_instruction(Reader *r); /* appends it to the function */

#endif
