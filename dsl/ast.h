/* ast.h - the tree of a program: modules, kernels, functions, statements, expressions.
 *
 * The parser builds it and decides nothing: names are not resolved, types are not known.  Every
 * node carries the range of source text it came from.  The tree is never changed once built, so a
 * function may be lowered many times, with other arguments each time.
 */
#ifndef TILEC_DSL_AST_H
#define TILEC_DSL_AST_H

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"

typedef struct Expr Expr;
typedef struct Stmt Stmt;
typedef struct Block Block;

/* ---- expressions ---- */

typedef enum ExprKind {
    EXPR_INT,       /* `integer` */
    EXPR_FLOAT,     /* `number`, `text` as written */
    EXPR_BOOL,      /* `integer` */
    EXPR_NAME,      /* `text` */
    EXPR_TUPLE,     /* `args`, named or not */
    EXPR_UNARY,     /* `op` a */
    EXPR_BINARY,    /* a `op` b */
    EXPR_CAST,      /* a as b: b names a type */
    EXPR_CALL,      /* text(args) */
    EXPR_FIELD,     /* a.text */
    EXPR_SUBSCRIPT, /* a[index] */
    EXPR_LOAD,      /* load text[index] */
    EXPR_ZEROS,     /* zeros<a>[index] */
    EXPR_FULL,      /* full<a>[index](b) */
    EXPR_SPAN       /* a..b */
} ExprKind;

/* clang-format off */
typedef enum Op {
    OP_NEG, OP_NOT,                                 /* unary */
    OP_OR, OP_AND,                                  /* || && */
    OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE,
    OP_BIT_OR, OP_BIT_XOR, OP_BIT_AND, OP_SHL, OP_SHR,
    OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_REM,
    OP_NONE                                         /* in STMT_ASSIGN: plain `=` */
} Op;
/* clang-format on */

const char *op_text(Op op);

/* An argument of a call or an element of a tuple. */
typedef struct Arg {
    const char *name; /* NULL when positional */
    Span name_span;
    Expr *value;
} Arg;
typedef VEC(Arg) ArgList;

/* One position between brackets. */
typedef enum SubscriptKind { SUBSCRIPT_ALL, SUBSCRIPT_NONE, SUBSCRIPT_EXPR } SubscriptKind;
typedef struct Subscript {
    SubscriptKind kind; /* `:`, `None`, or `value` */
    Span span;
    Expr *value;
} Subscript;
typedef VEC(Subscript) SubscriptList;

struct Expr {
    ExprKind kind;
    Span span;
    Op op;
    int64_t integer;
    bool hexadecimal; /* the integer is written so */
    double number;
    const char *text;
    Span text_span; /* of `text` when it is a part of the expression only */
    Expr *a, *b;
    ArgList args;
    SubscriptList index;
    uint32_t depth; /* of operators below: left-recursive rules nest without end */
};

/* ---- statements ---- */

/* @name, @name(value) or @name(setting = value, ..) */
typedef struct Attribute {
    const char *name;
    Span span;
    Expr *value;      /* may be NULL */
    ArgList settings; /* all with names; without elements where there is a value or nothing */
} Attribute;
typedef VEC(Attribute) AttributeList;

typedef struct Name {
    const char *text;
    Span span;
} Name;
typedef VEC(Name) NameList;

/* name in value */
typedef struct GridAxis {
    Name name;
    Expr *value;
} GridAxis;
typedef VEC(GridAxis) GridAxisList;

/* What an atomic statement does with an element of memory and the one that it brings. */
typedef enum Atomic { ATOMIC_ADD, ATOMIC_MAX, ATOMIC_MIN, ATOMIC_COUNT } Atomic;
const char *atomic_text(Atomic atomic); /* "atomic_add", .. */

typedef enum StmtKind {
    STMT_REQUIRE, /* require a, "text" (text may be NULL) */
    STMT_GRID,    /* grid axes */
    STMT_LET,     /* let names = a; more than one name, or `tuple`: destructuring */
    STMT_VAR,     /* var names = a */
    STMT_ASSIGN,  /* b op= a, or b = a with OP_NONE */
    STMT_STORE,   /* store text[index] = a */
    /* atomic_add text[index] += a, or atomic_max text[index] = a; let names[0] = that, or no
     * names */
    STMT_ATOMIC,
    STMT_EXPR,   /* a */
    STMT_FOR,    /* for names[0] in a while b (may be NULL) body */
    STMT_IF,     /* if a body else otherwise */
    STMT_RETURN, /* return a (may be NULL) */
    STMT_BLOCK,  /* body */
    STMT_PRINT,  /* print("text", args): text may be NULL, and there may be no args */
    STMT_ASSERT  /* assert(a, "text") (text may be NULL) */
} StmtKind;

struct Stmt {
    StmtKind kind;
    Span span;
    Op op;
    Atomic atomic;
    const char *text;
    Span text_span;
    Expr *a, *b;
    NameList names;
    bool tuple; /* names stood between parentheses */
    GridAxisList axes;
    SubscriptList index;
    ArgList args;
    AttributeList attributes;
    Block *body, *otherwise;
};

struct Block {
    Span span;
    VEC(Stmt *) stmts;
};

/* ---- declarations ---- */

typedef enum ConstKind { CONST_KIND_INT, CONST_KIND_BOOL, CONST_KIND_TYPE } ConstKind;

/* A compile-time parameter of a kernel: name: kind = value. */
typedef struct ConstParam {
    Name name;
    ConstKind kind;
    bool is_auto; /* the default is `auto` */
    Expr *value;  /* the default; NULL: none (or auto) */
} ConstParam;
typedef VEC(ConstParam) ConstParamList;

/* The type written after a parameter: base, or base[dims]. */
typedef struct TypeRef {
    Span span;
    Name base;
    bool has_dims;
    SubscriptList dims; /* SUBSCRIPT_EXPR only */
} TypeRef;

typedef enum ParamMode { PARAM_VALUE, PARAM_IN, PARAM_OUT, PARAM_INOUT, PARAM_VAR } ParamMode;

/* A parameter of a kernel (tensor or scalar) or of a function. */
typedef struct Param {
    Name name;
    ParamMode mode; /* kernels: VALUE for scalars; functions: VALUE or VAR */
    TypeRef *type;  /* functions: may be NULL */
    Expr *align;    /* tensors: align(n), may be NULL */
    Span span;
} Param;
typedef VEC(Param) ParamList;

typedef struct Kernel {
    Name name;
    Span span;
    AttributeList attributes;
    ConstParamList constants;
    ParamList params;
    Block *body;
} Kernel;

typedef struct Function {
    Name name;
    Span span;
    ParamList params;
    Block *body;
    bool imported;         /* comes from a module that was used */
    struct Function *next; /* of its list (Ast) */
} Function;

typedef enum ItemKind { ITEM_USE, ITEM_KERNEL, ITEM_FUNCTION } ItemKind;

typedef struct Item {
    ItemKind kind;
    NameList uses;
    Kernel *kernel;
    Function *function;
} Item;

/* One file. */
typedef struct Module {
    const SourceFile *file;
    VEC(Item) items;
} Module;

enum { AST_LISTS = 64 };

/* A program: the main file, and each file it uses, once. */
typedef struct Ast {
    Module *main;
    VEC(Module *) modules;      /* the main one first, then in order of first use */
    VEC(Kernel *) kernels;      /* of the main file */
    VEC(Function *) functions;  /* of all files */
    Function *lists[AST_LISTS]; /* the same, by how their names begin (dsl_called) */
} Ast;

/* Prints a file as the language itself: parsing the text again gives the same tree. */
void ast_print(const Module *module, Buf *out);
void ast_print_expr(const Expr *expr, Buf *out);

const char *const_kind_name(ConstKind kind); /* "int", "bool", "type" */

#endif
