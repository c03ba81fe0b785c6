/* interpret_sizes.c - the sizes of a run: names and expressions of names as dimensions of
 * tensors. */
#include "dsl/interpret_sizes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- by name ---- */

static Size *
find_size(Session *s, const char *name)
{
    for (uint32_t i = 0; i < s->sizes.n; i++)
        if (strcmp(s->sizes.at[i].name, name) == 0)
            return &s->sizes.at[i];
    return NULL;
}

bool
sizes_set(Session *s, Span span, const char *name, int64_t value, const char *from)
{
    Size *size = find_size(s, name);

    if (size != NULL && size->value != value) {
        run_fail(s->run, span, "E-RUN-INPUT: the size %s is %lld by %s, and %lld by %s", name,
                 (long long)size->value, size->from, (long long)value, from);
        return false;
    }
    if (size == NULL) {
        Size made = {name, value, from};
        vec_push(s->run->arena, &s->sizes, made);
    }
    return true;
}

const char *
run_setting(const Run *run, const char *name)
{
    const char *found = NULL;

    for (size_t i = 0; i < run->options->n_sets; i++)
        if (strcmp(run->options->sets[i].name, name) == 0)
            found = run->options->sets[i].value;
    return found;
}

bool
sizes_read(Run *run, const char *name, const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (*end == '\0' && end != text && errno == 0 && *out >= 0 && *out <= INT32_MAX)
        return true;
    run_fail(run, (Span){0},
             "E-RUN-INPUT: --set %s=%s: a size is a whole number from 0 to 2147483647", name, text);
    return false;
}

/* ---- expressions of names ---- */

static bool
is_scalar(const Kernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->params.n; i++)
        if (kernel->params.at[i].mode == PARAM_VALUE &&
            strcmp(kernel->params.at[i].name.text, name) == 0)
            return true;
    return false;
}

/* The value of a name in a dimension; false: it is not known (yet). */
static bool
name_value(Session *s, const Expr *name, int64_t *out)
{
    Run *run = s->run;
    const char *given = run_setting(run, name->text);
    const Size *size = find_size(s, name->text);

    if (is_scalar(run->kernel, name->text)) {
        *out = given == NULL ? 0 : strtoll(given, NULL, 0);
        return given != NULL;
    }
    if (size == NULL && given != NULL)
        return sizes_read(run, name->text, given, out) &&
               sizes_set(s, name->span, name->text, *out, "--set");
    *out = size == NULL ? 0 : size->value;
    return size != NULL;
}

/* Makes names of what is known for an expression; the last name that is not, how many there are. */
static const Expr *
declare_known(Session *s, const Expr *expr, uint32_t *unknown)
{
    const Expr *found = NULL, *parts[] = {expr->a, expr->b};
    int64_t value;

    if (expr->kind == EXPR_NAME) {
        if (run_find(s->run, expr->text) != NULL)
            return NULL;
        if (!name_value(s, expr, &value)) {
            ++*unknown;
            return expr;
        }
        run_declare(s->run, expr->text, run_int(value));
        return NULL;
    }
    for (uint32_t i = 0; i < 2 + expr->args.n; i++) {
        const Expr *part = i < 2 ? parts[i] : expr->args.at[i - 2].value;
        const Expr *name = part == NULL ? NULL : declare_known(s, part, unknown);
        found = name != NULL ? name : found;
    }
    return found;
}

static bool
has_name(const Expr *expr, const char *name)
{
    if (expr == NULL)
        return false;
    for (uint32_t i = 0; i < expr->args.n; i++)
        if (has_name(expr->args.at[i].value, name))
            return true;
    return (expr->kind == EXPR_NAME && strcmp(expr->text, name) == 0) || has_name(expr->a, name) ||
           has_name(expr->b, name);
}

/* What `name`, which stands in `expr` once, is where all of it is `whole`; false: that does not
 * follow. */
static bool
solve(Run *run, const Expr *expr, const char *name, int64_t whole, int64_t *out)
{
    int64_t other;

    *out = whole;
    if (expr->kind != EXPR_BINARY)
        return expr->kind == EXPR_NAME;
    bool left = has_name(expr->a, name);
    if (!run_eval_int(run, left ? expr->b : expr->a, &other))
        return false;
    switch (expr->op) {
    case OP_ADD: whole -= other; break;
    case OP_SUB: whole = left ? whole + other : other - whole; break;
    case OP_MUL:
        if (other == 0)
            return false;
        whole /= other;
        break;
    default: return false;
    }
    return solve(run, left ? expr->a : expr->b, name, whole, out);
}

/* Quotients leave no rest; false: one does. */
static bool
check_quotients(Run *run, const Expr *expr)
{
    int64_t x, by;
    Buf text, of;

    if (expr == NULL)
        return true;
    for (uint32_t i = 0; i < expr->args.n; i++)
        if (!check_quotients(run, expr->args.at[i].value))
            return false;
    if (!check_quotients(run, expr->a) || !check_quotients(run, expr->b))
        return false;
    if (expr->kind != EXPR_BINARY || expr->op != OP_DIV || !run_eval_int(run, expr->a, &x) ||
        !run_eval_int(run, expr->b, &by) || by == 0 || x % by == 0)
        return !run->stopped;
    buf_init(&text, run->arena);
    buf_init(&of, run->arena);
    ast_print_expr(expr->a, &text);
    ast_print_expr(expr->b, &of);
    if (expr->b->kind != EXPR_INT)
        buf_printf(&of, " = %lld", (long long)by);
    run_fail(run, expr->span, "E-REQUIRE: %s = %lld is no multiple of %s", text.at, (long long)x,
             of.at);
    return false;
}

/* A dimension all of whose names are known and declared. */
static bool
value_of(Run *run, const Expr *dim, int64_t *out)
{
    if (!check_quotients(run, dim) || !run_eval_int(run, dim, out))
        return false;
    if (*out >= 0 && *out <= INT32_MAX)
        return true;
    run_fail(run, dim->span,
             "E-RUN-INPUT: this dimension would be %lld: it is from 0 to 2147483647",
             (long long)*out);
    return false;
}

bool
sizes_extent(Session *s, const Expr *dim, int64_t *out)
{
    RunBinding *scope = s->run->frame->bindings;
    uint32_t unknown = 0;

    bool known = declare_known(s, dim, &unknown) == NULL && value_of(s->run, dim, out);
    run_leave(s->run, scope);
    return known;
}

/* ---- shapes ---- */

/* A name that follows from the extent of a dimension; false: what it would be is no size. */
static bool
take_name(Session *s, const Expr *dim, const Expr *name, int64_t extent, const char *from)
{
    int64_t value;

    if (is_scalar(s->run->kernel, name->text) || !solve(s->run, dim, name->text, extent, &value))
        return !s->run->stopped;
    if (value < 0 || value > INT32_MAX) {
        run_fail(s->run, dim->span,
                 "E-RUN-INPUT: the size %s would be %lld by %s: it is from 0 to 2147483647",
                 name->text, (long long)value, from);
        return false;
    }
    run_declare(s->run, name->text, run_int(value));
    return sizes_set(s, dim->span, name->text, value, from);
}

static bool
dim_of_shape(Session *s, RunTensor *tensor, const Expr *dim, uint32_t d, int round)
{
    bool packed = dtype_has(tensor->type, USE_PACKED) && d + 1 == tensor->rank;
    bool must = round == SIZES_ROUNDS - 1;
    int64_t extent = tensor->shape[d], wanted = 0;
    uint32_t unknown = 0;
    Run *run = s->run;

    if (!packed && dim->kind == EXPR_NAME && run_find(run, dim->text) == NULL) {
        if (extent <= INT32_MAX)
            return sizes_set(s, dim->span, dim->text, extent, tensor->name);
        run_fail(run, dim->span,
                 "E-RUN-INPUT: %s has %lld elements in a dimension: at most 2147483647 are possible",
                 tensor->name, (long long)extent);
        return false;
    }
    const Expr *name = declare_known(s, dim, &unknown);
    if (unknown == 1 && (!packed || round > 0) && !take_name(s, dim, name, extent, tensor->name))
        return false;
    unknown = 0;
    name = declare_known(s, dim, &unknown);
    if (name != NULL && must)
        run_fail(run, name->span,
                 "E-RUN-INPUT: the size %s is not known: give an array that has it with --in, or "
                 "--set %s=N",
                 name->text, name->text);
    if (name != NULL)
        return !run->stopped;
    if (!value_of(run, dim, &wanted))
        return false;
    if (packed && wanted + wanted % 2 == extent + extent % 2)
        tensor->shape[d] = extent = wanted;
    if (wanted == extent)
        return true;
    run_fail(run, dim->span, "E-RUN-INPUT: dimension %u of %s is %lld here, and %lld in its array",
             d, tensor->name, (long long)wanted, (long long)extent);
    return false;
}

bool
sizes_of_shape(Session *s, RunTensor *tensor, const Param *param, int round)
{
    RunBinding *scope = s->run->frame->bindings;
    bool right = true;

    for (uint32_t d = 0; d < tensor->rank && right; d++) {
        right = dim_of_shape(s, tensor, param->type->dims.at[d].value, d, round);
        run_leave(s->run, scope);
    }
    return right;
}

void
sizes_declare(Session *s, const Expr *dim)
{
    if (dim == NULL)
        return;
    const Size *size = dim->kind == EXPR_NAME ? find_size(s, dim->text) : NULL;
    if (size != NULL && run_find(s->run, dim->text) == NULL)
        run_declare(s->run, dim->text, scalar_value(s->run, DT_I32, num_of((double)size->value)));
    sizes_declare(s, dim->a);
    sizes_declare(s, dim->b);
    for (uint32_t i = 0; i < dim->args.n; i++)
        sizes_declare(s, dim->args.at[i].value);
}
