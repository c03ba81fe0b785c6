/* sim_parse.h - PTX text as a tree: functions, variables, instructions with unresolved operands.
 *
 * The parser knows the shape of the language (PTX ISA 4: directives, statements, scopes) and no
 * instruction.  sim_decode.c turns its instructions into SimInsn.
 */
#ifndef TILEC_SIM_PARSE_H
#define TILEC_SIM_PARSE_H

#include "sim_core.h"

typedef enum PtxOperandKind {
    PTX_NAME, /* register, variable, label, special register; with an offset if a variable */
    PTX_INT,
    PTX_F32,    /* 0f..., bits in value */
    PTX_F64,    /* 0d... or a decimal fraction, bits in value */
    PTX_VECTOR, /* {a, b, ...} */
    PTX_MEMORY, /* [base + value], [base, {...}, ...]: element 0 is the base, the rest follow */
    PTX_LIST,   /* (a, b) of a call */
    PTX_SINK    /* _ */
} PtxOperandKind;

typedef struct PtxOperand PtxOperand;
struct PtxOperand {
    PtxOperandKind kind;
    bool negated; /* ! in front, or - of a name */
    bool minus;   /* - */
    const char *name;
    uint64_t value; /* number, or offset of a name or memory operand */
    PtxOperand *element;
    size_t count;
    PtxOperand *pair; /* the b of a|b */
};

typedef enum PtxSymbolKind {
    PTX_REGISTER,
    PTX_REGISTERS, /* %r<100> */
    PTX_VARIABLE,
    PTX_LABEL,
    PTX_TARGETS /* a .branchtargets, .calltargets or .callprototype list */
} PtxSymbolKind;

typedef enum PtxVarSpace {
    PTX_GLOBAL,
    PTX_CONST,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM,
    PTX_ENTRY_PARAM
} PtxVarSpace;

typedef struct PtxSymbol {
    struct PtxSymbol *next; /* in its scope */
    PtxSymbolKind kind;
    const char *name;
    size_t length;
    uint32_t line;
    /* registers */
    SimType type;
    uint32_t vector; /* 0, 2 or 4 */
    uint32_t count;  /* of PTX_REGISTERS */
    uint32_t *place; /* byte offset in the frame + 1, 0 not used yet; one each */
    /* variables */
    PtxVarSpace space;
    uint64_t address; /* or offset in the space */
    uint64_t size;
    uint32_t align;
    /* labels */
    uint32_t target;    /* index of an instruction */
    const char **names; /* of PTX_TARGETS */
    size_t name_count;
} PtxSymbol;

typedef struct PtxScope {
    struct PtxScope *outer;
    uint32_t depth;
    PtxSymbol **bucket; /* by the hash of the name; their number grows with that of the names */
    size_t bucket_count, name_count;
    PtxSymbol *ranges; /* PTX_REGISTERS */
} PtxScope;

typedef struct PtxInsn {
    const char *mnemonic; /* whole, with dots */
    const char **part;    /* its parts between dots */
    size_t part_count;
    bool guarded, guard_negated;
    const char *guard;
    PtxOperand *operand;
    size_t operand_count;
    PtxScope *scope;
    uint32_t line, loc;
} PtxInsn;

typedef struct PtxFunction {
    SimFunction *function;
    PtxScope *scope;
    PtxInsn *insn;
    size_t insn_count, insn_capacity;
    const char **param_names;
} PtxFunction;

typedef struct PtxFixup { /* an address of a variable inside another's initialiser */
    SimAllocation *at;
    size_t offset;
    const char *name;
    uint64_t addend;
    uint32_t line, bytes;
} PtxFixup;

typedef struct PtxWrite { /* a register that an instruction writes */
    uint32_t insn;        /* SimInsn.index */
    SimSlot slot;
} PtxWrite;

enum { PTX_SEEN = 128 };

typedef struct PtxFile {
    SimModule *mod;
    PtxScope *scope; /* module scope */
    PtxFunction *function;
    size_t function_count, function_capacity;
    uint32_t shared_dynamic_align; /* of extern .shared arrays, 0 none */
    /* those arrays: their address is the end of a function's static part */
    PtxSymbol **dynamic;
    size_t dynamic_count, dynamic_capacity;
    PtxSymbol **entry_shared; /* static shared variables of entries */
    size_t entry_shared_count, entry_shared_capacity;
    uint32_t entry_shared_align;
    PtxFixup *fixup;
    size_t fixup_count, fixup_capacity;
    PtxWrite *write; /* of what is decoded, in order */
    size_t write_count, write_capacity;
    SimError *error;
    jmp_buf *failed;
    /* families of mnemonics that were looked up, by a hash: a file has many lines, and few
     * mnemonics */
    struct {
        const char *mnemonic;
        const struct SimFamily *family;
        size_t parts;
    } seen[PTX_SEEN];
} PtxFile;

/* Fills `file` from the text; on an error fills *file->error and jumps to *file->failed. */
void sim_parse(PtxFile *file, const char *text, size_t length);

PtxSymbol *sim_parse_lookup(const PtxScope *scope, const char *name, uint32_t *index);

/* Reports and jumps. */
_Noreturn void sim_parse_fail(PtxFile *file, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Decodes every function of the file into the module (sim_decode.c). */
void sim_decode_file(PtxFile *file);

#endif
