/* lint.c - unused names, and subscripts over another size.
 *
 * Names that begin with `_` are not asked for a use, and of `let (a, b) = ..` one is enough.  A
 * size is compared by its name: two names stand for one extent, or for what the program knows of,
 * where a `require` has both. */
#include "dsl/lint.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/base/bar.h"
#include "dsl/dsl.h"
#include "dsl/names.h"

/* A name in scope whose values count a size. */
typedef struct Counter {
    const char *name, *size;
} Counter;

typedef struct Walk {
    Arena *arena;
    NameUseList uses;
    LintList found;
    const Kernel *kernel; /* NULL in functions */
    NameList written;     /* tensors */
    VEC(const Expr *) required;
    VEC(Counter) counters; /* the newest last */
} Walk;

static void
report(Walk *w, LintKind kind, Span span, const char *text)
{
    vec_push(w->arena, &w->found, ((Lint){kind, span, text}));
}

static bool
is_used(const Walk *w, const Name *name)
{
    if (name->text[0] == '_')
        return true;
    for (uint32_t k = 0; k < w->uses.n; k++) {
        const NameUse *use = &w->uses.at[k];
        if (use->declared.lo == name->span.lo && use->span.lo != name->span.lo)
            return true;
    }
    return false;
}

/* ---- ranges ---- */

static const char *
plain_name(const Expr *expr)
{
    return expr != NULL && expr->kind == EXPR_NAME ? expr->text : NULL;
}

/* A size by its name, or a number as it is written in decimals. */
static const char *
size_text(const Walk *w, const Expr *expr)
{
    return expr != NULL && expr->kind == EXPR_INT
               ? arena_printf(w->arena, "%lld", (long long)expr->integer)
               : plain_name(expr);
}

static bool
is_number(const char *size)
{
    return *size >= '0' && *size <= '9';
}

/* The size that a range or an index counts: `tiles(S, N)`, a tile of it, `0..S`, `S`, and, where it
 * is gone through, `8`; NULL: not to be seen. */
static const char *
counted_size(const Walk *w, const Expr *expr, bool iterates)
{
    if (expr == NULL)
        return NULL;
    if (expr->kind == EXPR_SUBSCRIPT)
        return counted_size(w, expr->a, false);
    if (expr->kind == EXPR_CALL && strcmp(expr->text, "tiles") == 0 && expr->args.n > 0)
        return size_text(w, expr->args.at[0].value);
    if (expr->kind == EXPR_SPAN && expr->a->kind == EXPR_INT && expr->a->integer == 0)
        return size_text(w, expr->b);
    return iterates ? size_text(w, expr) : plain_name(expr);
}

static void
count(Walk *w, const Name *name, const char *size)
{
    if (size != NULL)
        vec_push(w->arena, &w->counters, ((Counter){name->text, size}));
}

static const char *
size_of(const Walk *w, const char *name)
{
    for (uint32_t k = w->counters.n; k-- > 0;)
        if (strcmp(w->counters.at[k].name, name) == 0)
            return w->counters.at[k].size;
    return NULL;
}

static bool
mentions(const Expr *expr, const char *name)
{
    if (expr == NULL)
        return false;
    if (expr->kind == EXPR_NAME && strcmp(expr->text, name) == 0)
        return true;
    if (expr->kind == EXPR_INT && is_number(name) && atoll(name) == (long long)expr->integer)
        return true;
    for (uint32_t k = 0; k < expr->args.n; k++)
        if (mentions(expr->args.at[k].value, name))
            return true;
    return mentions(expr->a, name) || mentions(expr->b, name);
}

static bool
is_related(const Walk *w, const char *size, const char *other)
{
    for (uint32_t k = 0; k < w->required.n; k++)
        if (mentions(w->required.at[k], size) && mentions(w->required.at[k], other))
            return true;
    return false;
}

/* Whether a tensor of the kernel has the name as a dimension by itself: else it may be any
 * number. */
static bool
is_size(const Walk *w, const char *name)
{
    for (uint32_t k = 0; k < w->kernel->params.n; k++) {
        const TypeRef *type = w->kernel->params.at[k].type;
        for (uint32_t i = 0; type != NULL && i < type->dims.n; i++) {
            const char *dim = plain_name(type->dims.at[i].value);
            if (dim != NULL && strcmp(dim, name) == 0)
                return true;
        }
    }
    return false;
}

static void
check_access(Walk *w, const char *tensor, const SubscriptList *index)
{
    const TypeRef *type = NULL;

    for (uint32_t k = 0; w->kernel != NULL && k < w->kernel->params.n; k++)
        if (strcmp(w->kernel->params.at[k].name.text, tensor) == 0)
            type = w->kernel->params.at[k].type;
    if (type == NULL || type->dims.n != index->n)
        return;
    for (uint32_t k = 0; k < index->n; k++) {
        const char *dim = size_text(w, type->dims.at[k].value),
                   *name = plain_name(index->at[k].value);
        const char *size = name == NULL ? NULL : size_of(w, name);
        if (dim == NULL || size == NULL || strcmp(dim, size) == 0)
            continue;
        if (is_number(size) ? !is_number(dim) || atoll(size) <= atoll(dim)
                            : !is_size(w, size) || is_related(w, dim, size))
            continue;
        const char *text =
            is_number(size)
                ? arena_printf(
                      w->arena,
                      "'%s' counts %s, but dimension %u of %s is %s: the subscripts may be out of order",
                      name, size, k, tensor, dim)
                : arena_printf(
                      w->arena,
                      "'%s' counts %s, but dimension %u of %s is %s: write `require %s == %s;` if they are one, else the "
                      "subscripts may be out of order",
                      name, size, k, tensor, dim, size, dim);
        report(w, LINT_DIMENSION, index->at[k].span, text);
    }
}

/* ---- the walk ---- */

static void
walk_expr(Walk *w, const Expr *expr)
{
    if (expr == NULL)
        return;
    if (expr->kind == EXPR_LOAD)
        check_access(w, expr->text, &expr->index);
    walk_expr(w, expr->a);
    walk_expr(w, expr->b);
    for (uint32_t k = 0; k < expr->index.n; k++)
        walk_expr(w, expr->index.at[k].value);
    for (uint32_t k = 0; k < expr->args.n; k++)
        walk_expr(w, expr->args.at[k].value);
}

static void
check_names(Walk *w, const Stmt *stmt)
{
    for (uint32_t k = 0; k < stmt->names.n; k++)
        if (is_used(w, &stmt->names.at[k]))
            return;
    const Name *name = &stmt->names.at[0];
    report(w, LINT_UNUSED, name->span, arena_printf(w->arena, "'%s' is never used", name->text));
}

static void
walk_block(Walk *w, const Block *block)
{
    uint32_t counters = w->counters.n;

    for (uint32_t k = 0; block != NULL && k < block->stmts.n; k++) {
        const Stmt *stmt = block->stmts.at[k];
        uint32_t before = w->counters.n;
        bool names = stmt->kind != STMT_FOR; /* a loop may be there to repeat */
        if (stmt->kind == STMT_STORE || stmt->kind == STMT_ATOMIC) {
            vec_push(w->arena, &w->written, ((Name){stmt->text, stmt->text_span}));
            check_access(w, stmt->text, &stmt->index);
        }
        walk_expr(w, stmt->a);
        walk_expr(w, stmt->b);
        if (names && stmt->names.n > 0)
            check_names(w, stmt);
        for (uint32_t i = 0; i < stmt->axes.n; i++)
            count(w, &stmt->axes.at[i].name, counted_size(w, stmt->axes.at[i].value, true));
        if (stmt->names.n == 1 && stmt->kind != STMT_VAR)
            count(w, &stmt->names.at[0], counted_size(w, stmt->a, !names));
        walk_block(w, stmt->body);
        walk_block(w, stmt->otherwise);
        if (stmt->kind == STMT_FOR)
            w->counters.n = before;
    }
    w->counters.n = counters;
}

static void
find_required(Walk *w, const Block *block)
{
    for (uint32_t k = 0; block != NULL && k < block->stmts.n; k++) {
        const Stmt *stmt = block->stmts.at[k];
        if (stmt->kind == STMT_REQUIRE)
            vec_push(w->arena, &w->required, stmt->a);
        find_required(w, stmt->body);
        find_required(w, stmt->otherwise);
    }
}

static void
check_params(Walk *w)
{
    const Kernel *kernel = w->kernel;

    for (uint32_t k = 0; k < kernel->constants.n; k++) {
        const Name *name = &kernel->constants.at[k].name;
        if (!is_used(w, name))
            report(w, LINT_UNUSED, name->span,
                   arena_printf(w->arena, "the parameter '%s' is never used", name->text));
    }
    for (uint32_t k = 0; k < kernel->params.n; k++) {
        const Param *param = &kernel->params.at[k];
        bool writes = param->mode == PARAM_OUT || param->mode == PARAM_INOUT, written = false;
        for (uint32_t i = 0; i < w->written.n; i++)
            written = written || strcmp(w->written.at[i].text, param->name.text) == 0;
        if (writes && !written && param->name.text[0] != '_')
            report(w, LINT_UNUSED, param->name.span,
                   arena_printf(
                       w->arena, "nothing is stored to '%s', which is %s", param->name.text,
                       param->mode == PARAM_OUT ? "`out`" : "`inout`: `in` if it is read only"));
        else if (!writes && !is_used(w, &param->name))
            report(w, LINT_UNUSED, param->name.span,
                   arena_printf(w->arena, "the %s '%s' is never used",
                                param->mode == PARAM_IN ? "tensor" : "parameter", param->name.text));
    }
}

static bool
is_in(const SourceFile *file, uint32_t offset)
{
    return file->base <= offset && offset <= file->base + file->n;
}

/* The module that `use name;` brings; NULL: it is not there. */
static const SourceFile *
module_named(const Ast *ast, const char *name)
{
    size_t n = strlen(name);

    for (uint32_t k = 0; k < ast->modules.n; k++) {
        const char *base = file_base_name(ast->modules.at[k]->file->path);
        if (strncmp(base, name, n) == 0 && strcmp(base + n, ".tile") == 0)
            return ast->modules.at[k]->file;
    }
    return NULL;
}

/* Modules of which `user` uses nothing itself. */
static void
check_modules(Walk *w, const Ast *ast, const Module *user, const NameList *names)
{
    for (uint32_t k = 0; k < names->n; k++) {
        const SourceFile *module = module_named(ast, names->at[k].text);
        bool used = module == NULL;
        for (uint32_t i = 0; i < w->uses.n && !used; i++)
            used = is_in(user->file, w->uses.at[i].span.lo) &&
                   is_in(module, w->uses.at[i].declared.lo);
        if (!used)
            report(w, LINT_UNUSED, names->at[k].span,
                   arena_printf(w->arena, "nothing of the module '%s' is used", names->at[k].text));
    }
}

static int
by_place(const void *a, const void *b)
{
    const Lint *x = a, *y = b;

    return x->span.lo < y->span.lo ? -1 : x->span.lo > y->span.lo;
}

void
dsl_sort_lints(LintList *lints)
{
    if (lints->n > 1)
        qsort(lints->at, lints->n, sizeof *lints->at, by_place);
}

LintList
dsl_lint(Arena *arena, const Ast *ast)
{
    Walk w = {.arena = arena, .uses = dsl_names(arena, ast)};

    for (uint32_t k = 0; k < ast->modules.n; k++) {
        const Module *module = ast->modules.at[k];
        for (uint32_t i = 0; i < module->items.n && !dsl_is_library(module->file); i++) {
            const Item *item = &module->items.at[i];
            const Block *body = item->kind == ITEM_KERNEL     ? item->kernel->body
                                : item->kind == ITEM_FUNCTION ? item->function->body
                                                              : NULL;
            if (item->kind == ITEM_USE)
                check_modules(&w, ast, module, &item->uses);
            w.kernel = item->kind == ITEM_KERNEL ? item->kernel : NULL;
            w.written.n = w.required.n = 0;
            find_required(&w, body);
            walk_block(&w, body);
            if (w.kernel != NULL)
                check_params(&w);
        }
    }
    dsl_sort_lints(&w.found);
    return w.found;
}
