/* ast_to_tir_ends.c - loops and programs that end before their end, in words of the language that
 * has neither. */
#include "compiler/front/ast_to_tir_internal.h"

/* `for i in .. while c { .. }`: the loop goes over all of its range, and does nothing from the
 * first iteration on before which c is false.  A variable says so; its name can not stand in a
 * program:
 *
 *     var .while = true; for i in .. { if .while { if c { .. } else { .while = false; } } }
 */
static const char *const while_name = ".while";

void
declare_while(Lower *low, const Expr *condition)
{
    Binding *binding = arena_new(low->arena, Binding);
    Value yes = value_bool(true);

    *binding = (Binding){
        .name = while_name, .span = condition->span, .is_var = true, .loops = low->loops};
    low->b.span = condition->span;
    adapt_constant(low, condition->span, &yes, tir_scalar(DT_BOOL), &binding->value);
    push_binding(low, binding);
}

static Block *
block_of(Lower *low, Span span, Stmt *stmt)
{
    Block *block = arena_new(low->arena, Block);

    block->span = span;
    if (stmt != NULL)
        vec_push(low->arena, &block->stmts, stmt);
    return block;
}

static Stmt *
new_stmt(Lower *low, StmtKind kind, Span span, Expr *a)
{
    Stmt *stmt = arena_new(low->arena, Stmt);

    *stmt = (Stmt){.kind = kind, .span = span, .op = OP_NONE, .a = a};
    return stmt;
}

const Block *
while_body(Lower *low, const Stmt *loop)
{
    Span span = loop->b->span;
    Expr *name = arena_new(low->arena, Expr), *no = arena_new(low->arena, Expr);
    Stmt *stop = new_stmt(low, STMT_ASSIGN, span, no);
    Stmt *check = new_stmt(low, STMT_IF, span, loop->b),
         *first = new_stmt(low, STMT_IF, span, name);

    *name = (Expr){.kind = EXPR_NAME, .span = span, .text = while_name};
    *no = (Expr){.kind = EXPR_BOOL, .span = span};
    stop->b = name;
    check->text = "while";
    check->body = loop->body;
    check->otherwise = block_of(low, span, stop);
    first->body = block_of(low, span, check);
    return block_of(low, loop->body->span, first);
}

/* `if c { return; }` in the outermost block of a kernel. */
static bool
ends_program(const Lower *low, const Stmt *stmt)
{
    return low->frame->function == NULL && low->has_grid && stmt->kind == STMT_IF &&
           stmt->otherwise == NULL && stmt->attributes.n == 0 && stmt->body->stmts.n == 1 &&
           stmt->body->stmts.at[0]->kind == STMT_RETURN && stmt->body->stmts.at[0]->a == NULL;
}

const Stmt *
rest_of_program(Lower *low, const Block *block, uint32_t at)
{
    Stmt *rest;

    if (block != low->outermost || !ends_program(low, block->stmts.at[at]))
        return NULL;
    rest = arena_copy(low->arena, block->stmts.at[at], sizeof *rest);
    rest->body = block_of(low, block->span, NULL);
    rest->otherwise = block_of(low, block->span, NULL);
    for (uint32_t i = at + 1; i < block->stmts.n; i++)
        vec_push(low->arena, &rest->otherwise->stmts, block->stmts.at[i]);
    low->outermost = rest->otherwise;
    return rest;
}
