/* ast_to_tir_dims.c - dimensions of tensors that follow from names: `S: out f32[R, C / 32]`, `X: in
 * T[R, 2 * C]`.
 *
 * Such a dimension is a size of its own, `S_dim1`, that launchers require to be what the expression
 * says.  A name that no tensor has as a dimension and that is no parameter is defined by the first
 * expression that can be turned around: `2 * C` alone makes C half of that dimension.  They are
 * settled when all parameters are known.
 */
#include <string.h>

#include "compiler/front/ast_to_tir_internal.h"
#include "compiler/ir/tir_compute.h"

/* ---- names of an expression ---- */

static uint32_t
count_name(const Expr *expr, const char *name)
{
    if (expr == NULL)
        return 0;
    uint32_t n = expr->kind == EXPR_NAME && strcmp(expr->text, name) == 0;
    for (uint32_t k = 0; k < expr->args.n; k++)
        n += count_name(expr->args.at[k].value, name);
    return n + count_name(expr->a, name) + count_name(expr->b, name);
}

bool
expr_has_name(const Expr *expr, const char *name)
{
    return count_name(expr, name) > 0;
}

static const char *
expr_text(Lower *low, const Expr *expr)
{
    Buf text;

    buf_init(&text, low->arena);
    ast_print_expr(expr, &text);
    return text.at;
}

/* The first name that is not known when compiled: one that means nothing yet, or (not with
 * `unbound`) a size or a parameter, too; NULL: there is none.  `n` counts them. */
static const Expr *
find_late(Lower *low, const Expr *expr, bool unbound, uint32_t *n)
{
    DType dtype;

    if (expr == NULL)
        return NULL;
    if (expr->kind == EXPR_NAME) {
        const Binding *binding = find_binding(low, expr->text);
        bool constant = dtype_parse(expr->text, &dtype) || strcmp(expr->text, "inf") == 0 ||
                        strcmp(expr->text, "pi") == 0;
        bool late = binding == NULL ? !constant : !unbound && binding->value.kind == VALUE_TILE;
        *n += late;
        return late ? expr : NULL;
    }
    const Expr *left = find_late(low, expr->a, unbound, n);
    const Expr *right = find_late(low, expr->b, unbound, n);
    const Expr *found = left != NULL ? left : right;
    for (uint32_t k = 0; k < expr->args.n; k++) {
        const Expr *name = find_late(low, expr->args.at[k].value, unbound, n);
        found = found == NULL ? name : found;
    }
    return found;
}

/* Names are defined by what launchers are given, where there is such a tensor: an output has its
 * shape from them. */
static bool
is_given_before(const TirTensor *a, const TirTensor *b)
{
    return a->mode != b->mode && (a->mode == TENSOR_IN || b->mode == TENSOR_OUT);
}

bool
add_late_dim(Lower *low, const Expr *expr, TirTensor *tensor, uint32_t dim)
{
    LateDim late = {.expr = expr, .tensor = tensor, .dim = dim};
    uint32_t n = 0;

    if (expr->kind == EXPR_NAME || find_late(low, expr, false, &n) == NULL)
        return false;
    late.text = expr_text(low, expr);
    vec_push(low->arena, &low->late, late);
    for (uint32_t k = low->late.n - 1; k > 0 && is_given_before(tensor, low->late.at[k - 1].tensor);
         k--) {
        low->late.at[k] = low->late.at[k - 1];
        low->late.at[k - 1] = late;
    }
    return true;
}

/* ---- sizes ---- */

static bool
is_taken(Lower *low, const char *name)
{
    bool taken = false;

    for (uint32_t k = 0; k < low->fn->sizes.n; k++)
        taken |= strcmp(low->fn->sizes.at[k].name, name) == 0;
    for (uint32_t k = 0; k < low->fn->tensors.n; k++)
        taken |= strcmp(low->fn->tensors.at[k]->name, name) == 0;
    for (uint32_t k = 0; k < low->fn->scalars.n; k++)
        taken |= strcmp(low->fn->scalars.at[k].name, name) == 0;
    for (uint32_t k = 0; k < low->late.n; k++)
        taken |= expr_has_name(low->late.at[k].expr, name);
    return taken;
}

static Value
new_size(Lower *low, const char *name, const char *text)
{
    TirFn *fn = low->fn;
    HostExpr *host = arena_new(low->arena, HostExpr);
    TirSize size = {.name = name, .text = text};

    *host = (HostExpr){.kind = HOST_SIZE, .index = fn->sizes.n};
    vec_push(fn->arena, &fn->sizes, size);
    return (Value){.kind = VALUE_TILE, .type = tir_scalar(DT_I32), .host = host};
}

/* The dimension as a size, under a name that the program has not. */
static void
name_dim(Lower *low, LateDim *late)
{
    const char *name = arena_printf(low->arena, "%s_dim%u", late->tensor->name, late->dim);

    while (is_taken(low, name))
        name = arena_printf(low->arena, "%s_", name);
    late->binding = arena_new(low->arena, Binding);
    *late->binding = (Binding){.name = name, .value = new_size(low, name, late->text)};
}

static void
add_require(Lower *low, Span span, const HostExpr *condition, const char *message)
{
    TirRequire require = {condition, message, span};

    vec_push(low->fn->arena, &low->fn->requires, require);
}

/* Quotients leave no rest. */
static void
require_quotients(Lower *low, const LateDim *late, const Expr *expr)
{
    if (expr == NULL)
        return;
    require_quotients(low, late, expr->a);
    require_quotients(low, late, expr->b);
    for (uint32_t k = 0; k < expr->args.n; k++)
        require_quotients(low, late, expr->args.at[k].value);
    if (expr->kind != EXPR_BINARY || expr->op != OP_DIV)
        return;
    Value x = eval(low, expr->a), by = eval(low, expr->b), zero = value_int(0);
    if (by.kind == VALUE_INT && by.integer == 0) {
        fail(low, expr->span, "E-ARITHMETIC: division by zero: %s", late->text);
        return;
    }
    Value rest = value_binary(low, expr->span, OP_REM, &x, &by);
    Value none = value_binary(low, expr->span, OP_EQ, &rest, &zero);
    const char *text = expr_text(low, expr->a), *of = expr_text(low, expr->b);
    if (none.kind == VALUE_BOOL && !none.integer)
        fail(low, expr->span,
             "E-REQUIRE: %s = %lld is no multiple of %s: dimension %u of %s is %s; cdiv rounds up",
             text, (long long)x.integer, of, late->dim, late->tensor->name, late->text);
    else if (none.kind == VALUE_TILE && none.host != NULL)
        add_require(low, expr->span, none.host,
                    arena_printf(low->arena, "%s must be a multiple of %s: dimension %u of %s is %s",
                                 text, of, late->dim, late->tensor->name, late->text));
}

void
require_whole_dim(Lower *low, const Expr *expr, TirTensor *tensor, uint32_t dim)
{
    LateDim known = {.expr = expr, .text = expr_text(low, expr), .tensor = tensor, .dim = dim};

    require_quotients(low, &known, expr);
}

/* ---- turning an expression around ---- */

/* What `name`, which stands in `expr` once, is where `expr` is `whole`; NULL: that does not
 * follow.  `exact`: it is a size wherever the dimension is one. */
static const HostExpr *
turned(Lower *low, const Expr *expr, const char *name, const HostExpr *whole, bool *exact)
{
    if (expr->kind == EXPR_NAME)
        return whole;
    if (is_packed_dim(low, expr)) { /* bytes: as many elements as there is room for */
        *exact = false;
        return turned(low, expr->args.at[0].value, name,
                      host_binary(low->arena, HOST_MUL, whole, host_int(low->arena, 2)), exact);
    }
    if (expr->kind != EXPR_BINARY)
        return NULL;
    bool left = expr_has_name(expr->a, name);
    Value other = eval(low, left ? expr->b : expr->a);
    const HostExpr *o = host_of(low, &other);
    if (o == NULL || (other.kind != VALUE_INT && !is_scalar_of(&other, DT_I32)))
        return NULL;
    *exact &= expr->op == OP_MUL && other.kind == VALUE_INT && other.integer > 0;
    if (expr->op == OP_MUL && !(other.kind == VALUE_INT && other.integer == 0))
        whole = host_binary(low->arena, HOST_DIV, whole, o);
    else if (expr->op == OP_ADD)
        whole = host_binary(low->arena, HOST_SUB, whole, o);
    else if (expr->op == OP_SUB)
        whole = left ? host_binary(low->arena, HOST_ADD, whole, o)
                     : host_binary(low->arena, HOST_SUB, o, whole);
    else
        return NULL;
    return turned(low, left ? expr->a : expr->b, name, whole, exact);
}

/* Defines the one name that a dimension has and that nothing else says; false: it can not. */
static bool
define_name(Lower *low, LateDim *late)
{
    HostExpr probe = {.kind = HOST_INT};
    uint32_t n = 0;
    bool exact = true;
    const Expr *name = find_late(low, late->expr, true, &n);

    if (n != 1 || turned(low, late->expr, name->text, &probe, &exact) == NULL)
        return false;
    name_dim(low, late);
    Value size = new_size(low, name->text, NULL);
    low->fn->sizes.at[size.host->index].value = turned(low, late->expr, name->text,
                                                       late->binding->value.host, &exact);
    declare(low, name->text, name->span, size)->what = "size";
    if (exact)
        return true;
    const HostExpr *least = host_binary(low->arena, HOST_GE, size.host, host_int(low->arena, 0));
    const HostExpr *most = host_binary(low->arena, HOST_LE, size.host,
                                       host_int(low->arena, INT32_MAX));
    add_require(low, name->span, host_binary(low->arena, HOST_AND, least, most),
                arena_printf(low->arena, "%s must be from 0 to 2147483647: dimension %u of %s is %s",
                             name->text, late->dim, late->tensor->name, late->text));
    return true;
}

/* ---- all of them ---- */

static Binding *
find_dim(const Lower *low, const HostExpr *value)
{
    for (uint32_t k = 0; value != NULL && k < low->late.n; k++)
        if (low->late.at[k].value != NULL && low->late.at[k].binding != NULL &&
            host_equal(low->late.at[k].value, value))
            return low->late.at[k].binding;
    return NULL;
}

Value
size_of_value(Lower *low, const Value *value)
{
    Binding *binding = value->kind == VALUE_TILE ? find_dim(low, value->host) : NULL;

    return binding != NULL ? read_binding(low, binding) : *value;
}

/* Sizes that other tensors have follow from this dimension where those tensors are not given: X[R,
 * 2 * C] says what the C of an output is. */
static void
turn_sizes(Lower *low, const LateDim *late, const Expr *expr)
{
    bool exact = true;

    if (expr == NULL)
        return;
    for (uint32_t k = 0; k < expr->args.n; k++)
        turn_sizes(low, late, expr->args.at[k].value);
    turn_sizes(low, late, expr->a);
    turn_sizes(low, late, expr->b);
    const Binding *binding = expr->kind == EXPR_NAME ? find_binding(low, expr->text) : NULL;
    if (binding == NULL || binding->value.host == NULL || binding->value.host->kind != HOST_SIZE ||
        count_name(late->expr, expr->text) != 1)
        return;
    TirSize *size = &low->fn->sizes.at[binding->value.host->index];
    if (size->value == NULL)
        size->value = turned(low, late->expr, expr->text, late->binding->value.host, &exact);
}

/* A dimension all of whose names are known. */
static void
settle_dim(Lower *low, LateDim *late)
{
    Value value = eval(low, late->expr);
    const HostExpr *host = host_of(low, &value);

    late->done = true;
    if (value.kind == VALUE_ERROR)
        return;
    if (!is_scalar_of(&value, DT_I32) || host == NULL) {
        fail(low, late->expr->span,
             "E-SIZES: a dimension of a tensor is an i32 that the launcher can compute, not %s",
             value_text(low, &value));
        return;
    }
    Binding *same = late->binding == NULL ? find_dim(low, host) : NULL;
    if (same != NULL) { /* another tensor has this dimension */
        late->binding = same;
    } else {
        require_quotients(low, late, late->expr);
        if (late->binding == NULL)
            name_dim(low, late);
        const HostExpr *size = late->binding->value.host;
        low->fn->sizes.at[size->index].value = host;
        add_require(low, late->expr->span, host_binary(low->arena, HOST_EQ, size, host),
                    arena_printf(low->arena, "dimension %u of %s must be %s", late->dim,
                                 late->tensor->name, late->text));
    }
    turn_sizes(low, late, late->expr);
    late->value = host;
    late->tensor->dim[late->dim].size = late->binding->value.host->index;
}

/* What an expression is of usual sizes; 0: not all are known, or it has none. */
static int64_t
usual_value(const TirFn *fn, const HostExpr *e)
{
    if (e->kind == HOST_INT)
        return e->integer;
    if (e->kind == HOST_SIZE)
        return fn->sizes.at[e->index].usual;
    if (e->b == NULL)
        return 0;
    int64_t a = usual_value(fn, e->a), b = usual_value(fn, e->b);
    if (a <= 0 || b <= 0 || a > INT32_MAX || b > INT32_MAX)
        return 0;
    int64_t n = 0;
    host_compute(e->kind, a, b, &n);
    return n;
}

void
settle_usual_dims(Lower *low)
{
    for (uint32_t k = 0; k < low->fn->sizes.n; k++) {
        TirSize *size = &low->fn->sizes.at[k];
        int64_t usual = size->usual == 0 && size->value != NULL ? usual_value(low->fn, size->value)
                                                                : 0;
        if (usual > 0 && usual <= INT32_MAX)
            size->usual = usual;
    }
}

void
settle_late_dims(Lower *low)
{
    bool outer = low->host_only;

    low->host_only = true;
    for (bool news = true; news;) {
        LateDim *first = NULL;
        news = false;
        for (uint32_t k = 0; k < low->late.n; k++) {
            LateDim *late = &low->late.at[k];
            uint32_t n = 0;
            if (late->done)
                continue;
            if (find_late(low, late->expr, true, &n) == NULL) {
                settle_dim(low, late);
                news = true;
            } else if (first == NULL) {
                first = late;
            }
        }
        for (uint32_t k = 0; !news && first != NULL && k < low->late.n; k++)
            news = !low->late.at[k].done && define_name(low, &low->late.at[k]);
        if (news || first == NULL)
            continue;
        uint32_t n = 0;
        const Expr *name = find_late(low, first->expr, true, &n);
        fail(low, name->span,
             "E-SIZES: nothing says what '%s' is, and it does not follow from %s: a tensor with the "
             "dimension %s, or a parameter %s: i32, would%s",
             name->text, first->text, name->text, name->text, suggest_name(low, name->text, false));
    }
    low->host_only = outer;
    for (uint32_t k = 0; k < low->late.n; k++)
        if (low->late.at[k].binding == NULL || !low->late.at[k].done) /* an error was said */
            low->late.at[k].tensor->dim[low->late.at[k].dim].constant = 1;
}
