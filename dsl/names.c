/* names.c - walks the tree with a stack of what is declared and notes each use of a name. */
#include "dsl/names.h"

#include <string.h>

#include "compiler/base/dtype.h"

typedef struct Walk {
    Arena *arena;
    const Ast *ast;
    NameUseList uses;
    NameUseList bound; /* what is declared here, the newest last */
} Walk;

static void
declare(Walk *w, const Name *name, const char *what)
{
    NameUse use = {name->span, name->span, name->text, what};

    vec_push(w->arena, &w->uses, use);
    vec_push(w->arena, &w->bound, use);
}

static const Function *
find_function(const Ast *ast, const char *name)
{
    for (uint32_t k = 0; k < ast->functions.n; k++)
        if (strcmp(ast->functions.at[k]->name.text, name) == 0)
            return ast->functions.at[k];
    return NULL;
}

static const NameUse *
find_bound(const Walk *w, const char *name)
{
    for (uint32_t k = w->bound.n; k-- > 0;)
        if (strcmp(w->bound.at[k].name, name) == 0)
            return &w->bound.at[k];
    return NULL;
}

static void
use_name(Walk *w, const char *name, Span span)
{
    const NameUse *bound = find_bound(w, name);
    const Function *function = find_function(w->ast, name);
    NameUse use = {.span = span, .name = name};

    if (bound != NULL) {
        use.declared = bound->declared;
        use.what = bound->what;
    } else if (function != NULL) {
        use.declared = function->name.span;
        use.what = "function";
    }
    vec_push(w->arena, &w->uses, use);
}

/* The name of an argument is that of the parameter. */
static void
use_argument(Walk *w, const Function *function, const Arg *arg)
{
    for (uint32_t k = 0; function != NULL && k < function->params.n; k++) {
        const Name *name = &function->params.at[k].name;
        NameUse use = {arg->name_span, name->span, arg->name, "parameter"};
        if (strcmp(name->text, arg->name) == 0)
            vec_push(w->arena, &w->uses, use);
    }
}

static void walk_expr(Walk *w, const Expr *expr);

static void
walk_index(Walk *w, const SubscriptList *index)
{
    for (uint32_t k = 0; k < index->n; k++)
        walk_expr(w, index->at[k].value);
}

static void
walk_expr(Walk *w, const Expr *expr)
{
    if (expr == NULL)
        return;
    if (expr->kind == EXPR_NAME)
        use_name(w, expr->text, expr->span);
    if (expr->kind == EXPR_LOAD || expr->kind == EXPR_CALL)
        use_name(w, expr->text, expr->text_span);
    const Function *called = expr->kind == EXPR_CALL ? find_function(w->ast, expr->text) : NULL;
    walk_expr(w, expr->a);
    walk_expr(w, expr->b);
    walk_index(w, &expr->index);
    for (uint32_t k = 0; k < expr->args.n; k++) {
        if (expr->args.at[k].name != NULL)
            use_argument(w, called, &expr->args.at[k]);
        walk_expr(w, expr->args.at[k].value);
    }
}

static void
walk_attributes(Walk *w, const AttributeList *attributes)
{
    for (uint32_t k = 0; k < attributes->n; k++) {
        if (strcmp(attributes->at[k].name, "plan") != 0)
            walk_expr(w, attributes->at[k].value);
        for (uint32_t i = 0; i < attributes->at[k].settings.n; i++)
            walk_expr(w, attributes->at[k].settings.at[i].value);
    }
}

static void walk_stmt(Walk *w, const Stmt *stmt);

static void
walk_block(Walk *w, const Block *block)
{
    uint32_t bound = w->bound.n;

    for (uint32_t k = 0; block != NULL && k < block->stmts.n; k++)
        walk_stmt(w, block->stmts.at[k]);
    w->bound.n = bound;
}

static void
walk_stmt(Walk *w, const Stmt *stmt)
{
    uint32_t bound = w->bound.n;

    walk_attributes(w, &stmt->attributes);
    if (stmt->kind == STMT_STORE || stmt->kind == STMT_ATOMIC)
        use_name(w, stmt->text, stmt->text_span);
    if (stmt->kind != STMT_FOR)
        walk_expr(w, stmt->b);
    walk_index(w, &stmt->index);
    walk_expr(w, stmt->a);
    for (uint32_t k = 0; k < stmt->args.n; k++)
        walk_expr(w, stmt->args.at[k].value);
    for (uint32_t k = 0; k < stmt->axes.n; k++) {
        walk_expr(w, stmt->axes.at[k].value);
        declare(w, &stmt->axes.at[k].name, "grid index");
    }
    for (uint32_t k = 0; k < stmt->names.n; k++)
        declare(w, &stmt->names.at[k],
                stmt->kind == STMT_FOR   ? "loop variable"
                : stmt->kind == STMT_VAR ? "var"
                                         : "let");
    if (stmt->kind == STMT_FOR) /* its `while` sees the loop variable */
        walk_expr(w, stmt->b);
    walk_block(w, stmt->body);
    walk_block(w, stmt->otherwise);
    if (stmt->kind == STMT_FOR)
        w->bound.n = bound;
}

/* Sizes are declared where they stand first. */
static void
walk_dim(Walk *w, const Expr *dim)
{
    DType type;

    if (dim == NULL)
        return;
    if (dim->kind == EXPR_NAME && find_bound(w, dim->text) == NULL && !dtype_parse(dim->text, &type))
        declare(w, &(Name){dim->text, dim->span}, "size");
    else if (dim->kind == EXPR_BINARY) {
        walk_dim(w, dim->a);
        walk_dim(w, dim->b);
    } else if (dim->kind == EXPR_CALL) {
        use_name(w, dim->text, dim->text_span);
        for (uint32_t k = 0; k < dim->args.n; k++)
            walk_dim(w, dim->args.at[k].value);
    } else {
        walk_expr(w, dim);
    }
}

static void
walk_type(Walk *w, const TypeRef *type)
{
    if (type == NULL)
        return;
    use_name(w, type->base.text, type->base.span);
    for (uint32_t k = 0; k < type->dims.n; k++)
        walk_dim(w, type->dims.at[k].value);
}

static void
walk_params(Walk *w, const ParamList *params)
{
    for (uint32_t k = 0; k < params->n; k++) {
        const Param *param = &params->at[k];
        walk_type(w, param->type);
        walk_expr(w, param->align);
        declare(w, &param->name,
                param->type != NULL && param->type->has_dims && param->mode != PARAM_VALUE &&
                        param->mode != PARAM_VAR
                    ? "tensor"
                    : "parameter");
    }
}

static void
walk_item(Walk *w, const Item *item)
{
    w->bound.n = 0;
    if (item->kind == ITEM_FUNCTION) {
        const Name *name = &item->function->name;
        NameUse use = {name->span, name->span, name->text, "function"};
        vec_push(w->arena, &w->uses, use);
        walk_params(w, &item->function->params);
        walk_block(w, item->function->body);
    } else if (item->kind == ITEM_KERNEL) {
        const Kernel *kernel = item->kernel;
        NameUse use = {kernel->name.span, kernel->name.span, kernel->name.text, "kernel"};
        vec_push(w->arena, &w->uses, use);
        for (uint32_t k = 0; k < kernel->constants.n; k++) {
            walk_expr(w, kernel->constants.at[k].value);
            declare(w, &kernel->constants.at[k].name, "compile-time parameter");
        }
        walk_params(w, &kernel->params);
        walk_attributes(w, &kernel->attributes);
        walk_block(w, kernel->body);
    }
}

NameUseList
dsl_names(Arena *arena, const Ast *ast)
{
    Walk w = {.arena = arena, .ast = ast};

    for (uint32_t k = 0; k < ast->modules.n; k++)
        for (uint32_t i = 0; i < ast->modules.at[k]->items.n; i++)
            walk_item(&w, &ast->modules.at[k]->items.at[i]);
    for (uint32_t k = 0; k < ast->functions.n; k++) { /* what nothing names is not parsed */
        const Name *name = &ast->functions.at[k]->name;
        NameUse use = {name->span, name->span, name->text, "function"};
        if (ast->functions.at[k]->body == NULL)
            vec_push(arena, &w.uses, use);
    }
    return w.uses;
}
