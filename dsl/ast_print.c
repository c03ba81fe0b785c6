/* ast_print.c - prints a tree as the language itself, in one form; parsing it again gives an equal
 * tree.  Comments are not part of the tree. */
#include <string.h>

#include "dsl/ast.h"

const char *
op_text(Op op)
{
    static const char *const text[] = {"-", "!", "||", "&&", "==", "!=", "<", "<=", ">", ">=", "|",
                                       "^", "&", "<<", ">>", "+",  "-",  "*", "/",  "%", ""};
    return text[op];
}

const char *
const_kind_name(ConstKind kind)
{
    static const char *const names[] = {"int", "bool", "type"};
    return names[kind];
}

/* How tightly things bind, from loose to tight. */
enum {
    LEVEL_SPAN,
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_COMPARE,
    LEVEL_BIT_OR,
    LEVEL_BIT_XOR,
    LEVEL_BIT_AND,
    LEVEL_SHIFT,
    LEVEL_SUM,
    LEVEL_PRODUCT,
    LEVEL_CAST,
    LEVEL_UNARY,
    LEVEL_POSTFIX
};

static int
op_level(Op op)
{
    switch (op) {
    case OP_OR: return LEVEL_OR;
    case OP_AND: return LEVEL_AND;
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE: return LEVEL_COMPARE;
    case OP_BIT_OR: return LEVEL_BIT_OR;
    case OP_BIT_XOR: return LEVEL_BIT_XOR;
    case OP_BIT_AND: return LEVEL_BIT_AND;
    case OP_SHL:
    case OP_SHR: return LEVEL_SHIFT;
    case OP_ADD:
    case OP_SUB: return LEVEL_SUM;
    default: return LEVEL_PRODUCT;
    }
}

static int
expr_level(const Expr *expr)
{
    switch (expr->kind) {
    case EXPR_SPAN: return LEVEL_SPAN;
    case EXPR_BINARY: return op_level(expr->op);
    case EXPR_CAST: return LEVEL_CAST;
    case EXPR_UNARY: return LEVEL_UNARY;
    case EXPR_INT: return expr->integer < 0 ? LEVEL_UNARY : LEVEL_POSTFIX;
    default: return LEVEL_POSTFIX;
    }
}

static void print_expr(const Expr *expr, int level, Buf *out);

static void
print_args(const ArgList *args, Buf *out)
{
    buf_char(out, '(');
    for (uint32_t i = 0; i < args->n; i++) {
        if (i > 0)
            buf_add(out, ", ");
        if (args->at[i].name != NULL)
            buf_printf(out, "%s = ", args->at[i].name);
        print_expr(args->at[i].value, LEVEL_SPAN, out);
    }
    buf_char(out, ')');
}

static void
print_index(const SubscriptList *index, Buf *out)
{
    buf_char(out, '[');
    for (uint32_t i = 0; i < index->n; i++) {
        const Subscript *subscript = &index->at[i];
        if (i > 0)
            buf_add(out, ", ");
        if (subscript->kind == SUBSCRIPT_ALL)
            buf_char(out, ':');
        else if (subscript->kind == SUBSCRIPT_NONE)
            buf_add(out, "None");
        else
            print_expr(subscript->value, LEVEL_SPAN, out);
    }
    buf_char(out, ']');
}

static void
print_bare(const Expr *expr, Buf *out)
{
    int level = expr_level(expr);

    switch (expr->kind) {
    case EXPR_INT:
        if (expr->hexadecimal && expr->integer > INT32_MAX)
            buf_printf(out, "0x%llx", (unsigned long long)expr->integer);
        else
            buf_printf(out, "%lld", (long long)expr->integer);
        break;
    case EXPR_FLOAT:
    case EXPR_NAME: buf_add(out, expr->text); break;
    case EXPR_BOOL: buf_add(out, expr->integer ? "true" : "false"); break;
    case EXPR_TUPLE: print_args(&expr->args, out); break;
    case EXPR_UNARY:
        buf_add(out, op_text(expr->op));
        print_expr(expr->a, level, out);
        break;
    case EXPR_BINARY:
        /* comparisons do not chain: both sides bind tighter */
        print_expr(expr->a, level + (level == LEVEL_COMPARE), out);
        buf_printf(out, " %s ", op_text(expr->op));
        print_expr(expr->b, level + 1, out);
        break;
    case EXPR_CAST:
        print_expr(expr->a, level, out);
        buf_printf(out, " as %s", expr->b->text);
        break;
    case EXPR_CALL:
        buf_add(out, expr->text);
        print_args(&expr->args, out);
        break;
    case EXPR_FIELD:
        print_expr(expr->a, level, out);
        buf_printf(out, ".%s", expr->text);
        break;
    case EXPR_SUBSCRIPT:
        print_expr(expr->a, level, out);
        print_index(&expr->index, out);
        break;
    case EXPR_LOAD:
        buf_printf(out, "load %s", expr->text);
        print_index(&expr->index, out);
        break;
    case EXPR_ZEROS:
    case EXPR_FULL:
        buf_printf(out, "%s<%s>", expr->kind == EXPR_ZEROS ? "zeros" : "full", expr->a->text);
        print_index(&expr->index, out);
        if (expr->kind == EXPR_FULL) {
            buf_char(out, '(');
            print_expr(expr->b, LEVEL_OR, out);
            buf_char(out, ')');
        }
        break;
    case EXPR_SPAN:
        print_expr(expr->a, LEVEL_OR, out);
        buf_add(out, "..");
        print_expr(expr->b, LEVEL_OR, out);
        break;
    }
}

static void
print_expr(const Expr *expr, int level, Buf *out)
{
    /* `(load x[i])[..]` reads better than `load x[i][..]`, which means the same */
    bool wrap = expr_level(expr) < level || (expr->kind == EXPR_LOAD && level == LEVEL_POSTFIX);

    if (wrap)
        buf_char(out, '(');
    print_bare(expr, out);
    if (wrap)
        buf_char(out, ')');
}

void
ast_print_expr(const Expr *expr, Buf *out)
{
    print_expr(expr, LEVEL_SPAN, out);
}

/* ---- statements ---- */

static void print_block(const Block *block, int depth, Buf *out);

static void
print_indent(int depth, Buf *out)
{
    for (int i = 0; i < depth; i++)
        buf_add(out, "    ");
}

static void
print_attributes(const AttributeList *attributes, Buf *out)
{
    for (uint32_t i = 0; i < attributes->n; i++) {
        buf_printf(out, "@%s", attributes->at[i].name);
        if (attributes->at[i].value != NULL) {
            buf_char(out, '(');
            ast_print_expr(attributes->at[i].value, out);
            buf_char(out, ')');
        }
        const ArgList *settings = &attributes->at[i].settings;
        for (uint32_t k = 0; k < settings->n; k++) {
            buf_printf(out, "%s%s = ", k == 0 ? "(" : ", ", settings->at[k].name);
            ast_print_expr(settings->at[k].value, out);
            buf_add(out, k + 1 == settings->n ? ")" : "");
        }
        buf_char(out, ' ');
    }
}

static void
print_names(const Stmt *stmt, Buf *out)
{
    if (stmt->tuple)
        buf_char(out, '(');
    for (uint32_t i = 0; i < stmt->names.n; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "", stmt->names.at[i].text);
    if (stmt->tuple)
        buf_char(out, ')');
}

static void
print_if(const Stmt *stmt, int depth, Buf *out)
{
    buf_add(out, "if ");
    ast_print_expr(stmt->a, out);
    buf_char(out, ' ');
    print_block(stmt->body, depth, out);
    if (stmt->otherwise == NULL)
        return;
    buf_add(out, " else ");
    const Block *block = stmt->otherwise;
    if (block->stmts.n == 1 && block->stmts.at[0]->kind == STMT_IF)
        print_if(block->stmts.at[0], depth, out);
    else
        print_block(block, depth, out);
}

/* The text of a message behind a condition, if there is one. */
static void
print_message(const Stmt *stmt, Buf *out)
{
    if (stmt->text == NULL)
        return;
    buf_add(out, ", ");
    buf_quoted(out, stmt->text);
}

static void
print_grid(const Stmt *stmt, Buf *out)
{
    buf_add(out, "grid ");
    for (uint32_t i = 0; i < stmt->axes.n; i++) {
        buf_printf(out, "%s%s in ", i > 0 ? ", " : "", stmt->axes.at[i].name.text);
        ast_print_expr(stmt->axes.at[i].value, out);
    }
}

static void
print_print(const Stmt *stmt, Buf *out)
{
    buf_add(out, "print(");
    if (stmt->text != NULL)
        buf_quoted(out, stmt->text);
    for (uint32_t i = 0; i < stmt->args.n; i++) {
        buf_add(out, i > 0 || stmt->text != NULL ? ", " : "");
        ast_print_expr(stmt->args.at[i].value, out);
    }
    buf_char(out, ')');
}

/* A statement that a semicolon ends, without it. */
static void
print_simple(const Stmt *stmt, Buf *out)
{
    switch (stmt->kind) {
    case STMT_REQUIRE:
        buf_add(out, "require ");
        ast_print_expr(stmt->a, out);
        print_message(stmt, out);
        break;
    case STMT_GRID: print_grid(stmt, out); break;
    case STMT_LET:
    case STMT_VAR:
        buf_add(out, stmt->kind == STMT_LET ? "let " : "var ");
        print_names(stmt, out);
        buf_add(out, " = ");
        ast_print_expr(stmt->a, out);
        break;
    case STMT_ASSIGN:
        ast_print_expr(stmt->b, out);
        buf_printf(out, " %s= ", op_text(stmt->op));
        ast_print_expr(stmt->a, out);
        break;
    case STMT_STORE:
    case STMT_ATOMIC:
        if (stmt->names.n > 0) {
            buf_add(out, "let ");
            print_names(stmt, out);
            buf_add(out, " = ");
        }
        buf_printf(out, "%s %s", stmt->kind == STMT_STORE ? "store" : atomic_text(stmt->atomic),
                   stmt->text);
        print_index(&stmt->index, out);
        buf_add(out, stmt->kind == STMT_ATOMIC && stmt->atomic == ATOMIC_ADD ? " += " : " = ");
        ast_print_expr(stmt->a, out);
        break;
    case STMT_RETURN:
        buf_add(out, stmt->a != NULL ? "return " : "return");
        if (stmt->a != NULL)
            ast_print_expr(stmt->a, out);
        break;
    case STMT_PRINT: print_print(stmt, out); break;
    case STMT_ASSERT:
        buf_add(out, "assert(");
        ast_print_expr(stmt->a, out);
        print_message(stmt, out);
        buf_char(out, ')');
        break;
    default: ast_print_expr(stmt->a, out); break;
    }
    buf_char(out, ';');
}

static void
print_stmt(const Stmt *stmt, int depth, Buf *out)
{
    print_indent(depth, out);
    switch (stmt->kind) {
    case STMT_FOR:
        print_attributes(&stmt->attributes, out);
        buf_printf(out, "for %s in ", stmt->names.at[0].text);
        ast_print_expr(stmt->a, out);
        if (stmt->b != NULL) {
            buf_add(out, " while ");
            ast_print_expr(stmt->b, out);
        }
        buf_char(out, ' ');
        print_block(stmt->body, depth, out);
        break;
    case STMT_IF:
        print_attributes(&stmt->attributes, out);
        print_if(stmt, depth, out);
        break;
    case STMT_BLOCK: print_block(stmt->body, depth, out); break;
    default: print_simple(stmt, out); break;
    }
    buf_char(out, '\n');
}

static void
print_block(const Block *block, int depth, Buf *out)
{
    buf_add(out, "{\n");
    for (uint32_t i = 0; i < block->stmts.n; i++)
        print_stmt(block->stmts.at[i], depth + 1, out);
    print_indent(depth, out);
    buf_char(out, '}');
}

/* ---- declarations ---- */

static void
print_type(const TypeRef *type, Buf *out)
{
    buf_add(out, type->base.text);
    if (type->has_dims)
        print_index(&type->dims, out);
}

static void
print_constants(const ConstParamList *constants, Buf *out)
{
    if (constants->n == 0)
        return;
    buf_char(out, '<');
    for (uint32_t i = 0; i < constants->n; i++) {
        const ConstParam *constant = &constants->at[i];
        buf_printf(out, "%s%s: %s", i > 0 ? ", " : "", constant->name.text,
                   const_kind_name(constant->kind));
        if (constant->is_auto)
            buf_add(out, " = auto");
        if (constant->value != NULL) {
            buf_add(out, " = ");
            print_expr(constant->value, LEVEL_SUM, out); /* `>` would end the list */
        }
    }
    buf_char(out, '>');
}

static void
print_param(const Param *param, Buf *out)
{
    static const char *const modes[] = {"", "in ", "out ", "inout ", ""};

    if (param->mode == PARAM_VAR)
        buf_add(out, "var ");
    buf_add(out, param->name.text);
    if (param->type == NULL)
        return;
    buf_printf(out, ": %s", modes[param->mode]);
    print_type(param->type, out);
    if (param->align != NULL) {
        buf_add(out, " align(");
        ast_print_expr(param->align, out);
        buf_char(out, ')');
    }
}

static void
print_kernel(const Kernel *kernel, Buf *out)
{
    print_attributes(&kernel->attributes, out);
    buf_printf(out, "kernel %s", kernel->name.text);
    print_constants(&kernel->constants, out);
    buf_add(out, "(\n");
    for (uint32_t i = 0; i < kernel->params.n; i++) {
        buf_add(out, "    ");
        print_param(&kernel->params.at[i], out);
        buf_add(out, i + 1 < kernel->params.n ? ",\n" : ")\n");
    }
    if (kernel->params.n == 0)
        buf_add(out, ")\n");
    print_block(kernel->body, 0, out);
    buf_char(out, '\n');
}

static void
print_function(const Function *function, Buf *out)
{
    buf_printf(out, "fn %s(", function->name.text);
    for (uint32_t i = 0; i < function->params.n; i++) {
        if (i > 0)
            buf_add(out, ", ");
        print_param(&function->params.at[i], out);
    }
    buf_add(out, ") ");
    print_block(function->body, 0, out);
    buf_char(out, '\n');
}

void
ast_print(const Module *module, Buf *out)
{
    for (uint32_t i = 0; i < module->items.n; i++) {
        const Item *item = &module->items.at[i];
        if (i > 0)
            buf_char(out, '\n');
        if (item->kind == ITEM_USE) {
            buf_add(out, "use ");
            for (uint32_t k = 0; k < item->uses.n; k++)
                buf_printf(out, "%s%s", k > 0 ? ", " : "", item->uses.at[k].text);
            buf_add(out, ";\n");
        } else if (item->kind == ITEM_KERNEL) {
            print_kernel(item->kernel, out);
        } else {
            print_function(item->function, out);
        }
    }
}
