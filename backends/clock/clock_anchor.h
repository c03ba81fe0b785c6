/* clock_anchor.h - what PTX and machine code have in common, instruction by instruction.
 *
 * Tokens are of instructions that the assembler neither leaves out, doubles nor exchanges with one
 * another: products of warp groups, copies of the copy engine, barriers.  A path through machine
 * code has the tokens of the path through PTX, in order.  Tallies are of instructions that become
 * one of a kind in machine code, but may move: how often they are on a path is the same.
 */
#ifndef TILEC_CLOCK_ANCHOR_H
#define TILEC_CLOCK_ANCHOR_H

#include "backends/clock/clock_code.h"

/* 0: none.  With the shape of a product in the upper bits. */
typedef uint32_t CodeToken;

typedef enum TokenKind {
    TOKEN_NONE,
    TOKEN_GROUP_MMA,
    TOKEN_GROUP_FENCE,
    TOKEN_GROUP_WAIT,
    TOKEN_INIT,
    TOKEN_TRY,
    TOKEN_ARRIVE,
    TOKEN_BARRIER,
    TOKEN_BARRIER_ARRIVE,
    TOKEN_CLUSTER_ARRIVE,
    TOKEN_CLUSTER_WAIT,
    TOKEN_TENSOR_LOAD,
    TOKEN_TENSOR_STORE,
    TOKEN_TENSOR_ADD,
    TOKEN_BULK,
    TOKEN_BULK_ADD,
    TOKEN_BULK_COMMIT,
    TOKEN_COPY_COMMIT,
    TOKEN_COPIES_WAIT, /* of either kind */
    TOKEN_COPY_ARRIVE,
    TOKEN_REGISTERS,
    TOKEN_MMA,
    TOKEN_MMA_COPY,
    TOKEN_MMA_COMMIT,
    TOKEN_NEXT_WORK,
    TOKEN_ASYNC_STORE, /* to another block */
    TOKEN_MEMORY_LOAD, /* tensor memory */
    TOKEN_MEMORY_STORE,
    TOKEN_END
} TokenKind;

enum { TOKEN_KIND = 255 };

CodeToken token_of_ptx(const char *mnemonic);
CodeToken token_of_code(const CodeInsn *insn);
/* The assembler adds some of them, or takes them away. */
bool token_is_optional(CodeToken token);

/* 0: none. */
uint8_t tally_of_ptx(const char *mnemonic);
uint8_t tally_of_code(const CodeInsn *insn);

/* Is `name` the first word of a mnemonic, up to a dot? */
bool mnemonic_is(const char *mnemonic, const char *name);
/* Has it the modifier, anywhere behind the first dot? */
bool mnemonic_has(const char *mnemonic, const char *modifier);

#endif
