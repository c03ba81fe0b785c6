/* ast_to_tir_stmt.c - statements: variables, stores, loops, branches, the grid. */
#include <string.h>

#include "compiler/front/ast_to_tir_internal.h"
#include "dsl/builtins.h"
#include "dsl/dsl.h"

static const Value error_value = {.kind = VALUE_ERROR};

/* ---- let, var, assignment ---- */

/* Gives the operations behind a value the name they have in the source. */
static void
name_value(const Value *value, const char *name)
{
    if (value->kind == VALUE_TILE && value->tir != NULL && value->tir->name == NULL)
        value->tir->name = name[0] == '.' ? name + 1 : name;
}

/* What a `var` may hold: run-time scalars and tiles, and tuples of them. */
static Value
to_variable(Lower *low, Span span, const Value *value)
{
    Value out = *value;

    if (value->kind == VALUE_TUPLE) {
        Value *fields = arena_array(low->arena, Value, value->n_fields);
        for (uint32_t i = 0; i < value->n_fields; i++) {
            fields[i] = to_variable(low, span, &value->fields[i]);
            if (fields[i].kind == VALUE_ERROR)
                return error_value;
        }
        out.fields = fields;
        return out;
    }
    low->b.span = span;
    out = to_runtime(low, span, value);
    if (out.kind != VALUE_TILE && out.kind != VALUE_ERROR)
        return fail(low, span, "E-ASSIGN: a variable cannot hold %s", value_text(low, value));
    return out;
}

static void
lower_let(Lower *low, const Stmt *stmt)
{
    Value value = eval(low, stmt->a);

    if (value.kind == VALUE_STEPS || value.kind == VALUE_TENSOR || value.kind == VALUE_NOTHING)
        value = value.kind == VALUE_STEPS
                    ? fail(low, stmt->a->span, "E-RANGE: tiles and range can only be looped over")
                : value.kind == VALUE_TENSOR
                    ? fail(low, stmt->a->span,
                           "E-TENSOR: '%s' is a tensor: read a tile of it with "
                           "`load %s[..]`",
                           value.tensor->name, value.tensor->name)
                    : fail(low, stmt->a->span, "E-RETURN: this call returns nothing");
    if (stmt->kind == STMT_VAR)
        value = to_variable(low, stmt->a->span, &value);
    if (stmt->tuple && value.kind != VALUE_ERROR &&
        (value.kind != VALUE_TUPLE || value.n_fields != stmt->names.n))
        value = fail(low, stmt->span, "E-TUPLE: %u names for %s", stmt->names.n,
                     value_text(low, &value));
    for (uint32_t i = 0; i < stmt->names.n; i++) {
        const Name *name = &stmt->names.at[i];
        Value part = stmt->tuple && value.kind == VALUE_TUPLE ? value.fields[i] : value;
        name_value(&part, name->text);
        declare(low, name->text, name->span, part)->is_var = stmt->kind == STMT_VAR;
    }
}

/* `value` as the type that `old` has; a variable keeps its type. */
static Value
convert_to(Lower *low, Span span, const Value *old, const Value *value)
{
    Value out, tile = range_to_tile(low, value);

    if (old->kind == VALUE_TUPLE && value->kind == VALUE_TUPLE && old->n_fields == value->n_fields) {
        Value *fields = arena_array(low->arena, Value, old->n_fields);
        for (uint32_t i = 0; i < old->n_fields; i++) {
            fields[i] = convert_to(low, span, &old->fields[i], &value->fields[i]);
            if (fields[i].kind == VALUE_ERROR)
                return error_value;
        }
        out = *old;
        out.fields = fields;
        return out;
    }
    if (old->kind == VALUE_TILE && is_constant(&tile))
        return adapt_constant(low, span, &tile, old->type, &out) ? out : error_value;
    if (old->kind == VALUE_TILE && tile.kind == VALUE_TILE && tir_type_eq(old->type, tile.type))
        return tile;
    if (tile.kind == VALUE_ERROR || old->kind == VALUE_ERROR)
        return error_value;
    return fail(
        low, span, "E-ASSIGN: a variable of %s cannot become %s: a variable keeps its type%s",
        value_text(low, old), value_text(low, value),
        old->kind == VALUE_TILE && tile.kind == VALUE_TILE && tir_same_shape(old->type, tile.type)
            ? "; cast with `as`"
            : "");
}

static void assign(Lower *low, Span span, const Expr *target, Op op, Value value);

/* (a, b) = value */
static void
assign_tuple(Lower *low, Span span, const Expr *target, Value value)
{
    if (value.kind == VALUE_ERROR)
        return;
    if (value.kind != VALUE_TUPLE || value.n_fields != target->args.n) {
        fail(low, span, "E-TUPLE: %u places for %s", target->args.n, value_text(low, &value));
        return;
    }
    for (uint32_t i = 0; i < target->args.n; i++)
        assign(low, span, target->args.at[i].value, OP_NONE, value.fields[i]);
}

static void
assign(Lower *low, Span span, const Expr *target, Op op, Value value)
{
    if (target->kind == EXPR_TUPLE && op == OP_NONE) {
        assign_tuple(low, span, target, value);
        return;
    }
    Place place = eval_place(low, target);
    if (place.root == NULL || value.kind == VALUE_ERROR)
        return;
    Value old = read_place(low, &place);
    if (op != OP_NONE)
        value = value_binary(low, span, op, &old, &value);
    low->b.span = span;
    if (value.kind != VALUE_ERROR)
        value = convert_to(low, span, &old, &value);
    if (value.kind == VALUE_ERROR)
        return;
    value = keep_padding(low, place.root->loops, &old, &value);
    if (place.n == 0)
        name_value(&value, place.root->name);
    write_place(low, &place, value);
}

/* let name = atomic_add ..: once a program, of one element. */
static Value
old_value(Lower *low, const Stmt *stmt, TirOpcode opcode, const Access *access, TirVal *added)
{
    if (stmt->tuple)
        return fail(low, stmt->span, "E-TUPLE: %u names for a scalar", stmt->names.n);
    if (access->type.rank > 0)
        return fail(low, stmt->text_span,
                    "E-ATOMIC: `let %s = %s ..` is of one element: subscripts of '%s' are scalars",
                    stmt->names.at[0].text, atomic_text(stmt->atomic), stmt->text);
    TirOp *op = tir_fetch(&low->b, opcode, access->tensor, access->index, access->operands, added);
    return value_tile(op->results[0], NULL);
}

/* What an atomic statement gives, where there is a name for it. */
static Value
lower_write(Lower *low, const Stmt *stmt)
{
    static const TirOpcode opcodes[ATOMIC_COUNT] = {TIR_ATOMIC_ADD, TIR_ATOMIC_MAX, TIR_ATOMIC_MIN};
    bool atomic = stmt->kind == STMT_ATOMIC;
    TirOpcode opcode = atomic ? opcodes[stmt->atomic] : TIR_STORE;
    const char *name = atomic ? atomic_text(stmt->atomic) : "the store";
    Value value = eval(low, stmt->a), fitted;
    Access access;

    if (!eval_access(low, stmt->text, stmt->text_span, stmt->span, &stmt->index, true, &access) ||
        value.kind == VALUE_ERROR)
        return error_value;
    TirTensor *tensor = access.tensor;
    if (atomic && tensor->mode != TENSOR_INOUT)
        return fail(low, stmt->text_span, "E-ATOMIC: %s needs an `inout` tensor, '%s' is `out`",
                    name, tensor->name);
    TypeUse use = tir_op_info(opcode)->use;
    if (atomic && !dtype_has(tensor->dtype, use))
        return fail(low, stmt->text_span, "E-ATOMIC: %s works on %s, '%s' is of %s", name,
                    types_with(low, use, " and "), tensor->name, dtype_name(tensor->packed));
    const char *what = arena_printf(low->arena, "%s to '%s'", name, tensor->name);
    bool fits = access.packed != NULL ||
                fit_to(low, stmt->a->span, what, &value, access.type, &fitted);
    if (access.packed != NULL)
        fitted.tir = pack_store(low, stmt->a->span, &access, &value);
    if (!fits || fitted.tir == NULL)
        return error_value;
    low->b.span = stmt->span;
    tensor->atomic |= atomic;
    if (stmt->names.n > 0)
        return old_value(low, stmt, opcode, &access, fitted.tir);
    TirOp *op = tir_store(&low->b, opcode, tensor, access.index, access.operands, fitted.tir);
    limit_access(low, &access, op);
    return error_value;
}

static void
lower_store(Lower *low, const Stmt *stmt)
{
    Value old = lower_write(low, stmt);

    for (uint32_t k = 0; k < stmt->names.n; k++) {
        name_value(&old, stmt->names.at[k].text);
        declare(low, stmt->names.at[k].text, stmt->names.at[k].span, old);
    }
}

/* ---- what loops and the grid go over ---- */

static const Steps *
eval_steps(Lower *low, const Expr *expr)
{
    Steps *steps = arena_new(low->arena, Steps);
    Value value;

    steps->lo = value_int(0);
    steps->step = value_int(1);
    if (expr->kind == EXPR_SPAN) {
        steps->lo = eval(low, expr->a);
        value = eval(low, expr->b);
    } else {
        value = eval(low, expr);
        if (value.kind == VALUE_STEPS)
            return value.steps;
    }
    steps->lo = size_of_value(low, &steps->lo);
    steps->hi = size_of_value(low, &value);
    for (int i = 0; i < 2; i++) {
        const Value *bound = i == 0 ? &steps->lo : &steps->hi;
        if (bound->kind == VALUE_ERROR)
            return NULL;
        if (bound->kind == VALUE_INT && !int_fits(low, expr->span, bound, DT_I32))
            return NULL;
        if (bound->kind != VALUE_INT && !is_scalar_of(bound, DT_I32)) {
            fail(low, expr->span,
                 "E-RANGE: tiles(S, N), lo..hi, range(..) or an integer is needed after "
                 "`in`, not %s%s",
                 value_text(low, bound), integer_hint(low, bound, DT_I32));
            return NULL;
        }
    }
    return steps;
}

static bool
is_int(const Value *value, int64_t integer)
{
    return value->kind == VALUE_INT && value->integer == integer;
}

/* How many steps there are. */
static Value
count_steps(Lower *low, Span span, const Steps *steps)
{
    Value extent = steps->hi;

    if (!is_int(&steps->lo, 0))
        extent = value_binary(low, span, OP_SUB, &steps->hi, &steps->lo);
    if (!is_int(&steps->step, 1))
        extent = value_cdiv(low, span, &extent, &steps->step);
    return extent;
}

Value
step_value(Lower *low, Span span, const Steps *steps, Value at, bool there)
{
    Value number = at;

    if (!is_int(&steps->step, 1))
        at = value_binary(low, span, OP_MUL, &at, &steps->step);
    if (!is_int(&steps->lo, 0))
        at = value_binary(low, span, OP_ADD, &at, &steps->lo);
    if (steps->tile == 0)
        return at;
    Range *range = arena_new(low->arena, Range);
    *range = (Range){.start = at,
                     .bound = steps->hi,
                     .number = number,
                     .length = steps->tile,
                     .loops = low->loops,
                     .numbered = !there};
    range->exact = there && steps->lo.kind == VALUE_INT && steps->hi.kind == VALUE_INT &&
                   (steps->hi.integer - steps->lo.integer) % steps->tile == 0;
    return (Value){.kind = VALUE_RANGE, .range = range};
}

/* Counts the operations of an expression; false: there are more than are left. */
static bool
count_operations(const HostExpr *e, uint32_t *left)
{
    if (e == NULL || e->a == NULL)
        return true;
    if (*left == 0)
        return false;
    --*left;
    return count_operations(e->a, left) && count_operations(e->b, left);
}

/* Says so where the launcher would compute too much: what is used twice is computed twice. */
static bool
is_too_long(Lower *low, Span span, const HostExpr *host)
{
    uint32_t left = HOST_MAX_COUNT;

    if (count_operations(host, &left))
        return false;
    fail(low, span, "E-NESTING: the launcher would compute more than %d operations here",
         HOST_MAX_COUNT);
    return true;
}

static void
lower_axis(Lower *low, const GridAxis *axis)
{
    TirFn *fn = low->fn;
    Span span = span_join(axis->name.span, axis->value->span);
    const HostExpr *host = NULL;

    low->host_only = true;
    const Steps *steps = eval_steps(low, axis->value);
    if (steps != NULL) {
        Value extent = count_steps(low, axis->value->span, steps);
        host = host_of(low, &extent);
        if (extent.kind == VALUE_INT && extent.integer <= 0)
            fail(low, axis->value->span, "E-GRID: the grid is empty: this is %lld long",
                 (long long)extent.integer);
        else if (host == NULL && extent.kind != VALUE_ERROR)
            fail(low, axis->value->span,
                 "E-LAUNCHER: the launcher must be able to compute the grid: only "
                 "sizes, scalar parameters and integers may be used here");
        else if (is_too_long(low, axis->value->span, host))
            host = NULL;
    }
    low->host_only = false;
    if (host == NULL) {
        declare(low, axis->name.text, axis->name.span, error_value);
        return;
    }
    /* once more for run-time values, where there are any */
    if (steps->tile != 0 || steps->lo.kind != VALUE_INT)
        steps = eval_steps(low, axis->value);
    low->b.span = span;
    TirType type = tir_scalar(DT_I32);
    TirOp *op = tir_op_new(&low->b, TIR_GRID, 0, NULL, 1, &type);
    op->integer = fn->grid.n;
    op->results[0]->name = axis->name.text;
    TirGridAxis made = {.name = axis->name.text, .extent = host, .span = span};
    vec_push(fn->arena, &fn->grid, made);
    Value value = steps == NULL
                      ? error_value
                      : step_value(low, span, steps, value_tile(op->results[0], NULL), true);
    declare(low, axis->name.text, axis->name.span, value);
}

static void
lower_grid(Lower *low, const Stmt *stmt, bool top)
{
    if (!top || low->frame->function != NULL) {
        refuse_grid(low, stmt, "`grid` belongs in the outermost block of a kernel");
        return;
    }
    if (low->has_grid) {
        refuse_grid(low, stmt, "a kernel has one `grid`, with a list of axes: `i in A, j in B`");
        return;
    }
    low->has_grid = true;
    if (stmt->axes.n > GRID_MAX_AXES) {
        fail(low, stmt->span, "E-GRID: a grid has at most %d axes", GRID_MAX_AXES);
        return;
    }
    for (uint32_t i = 0; i < stmt->axes.n; i++)
        lower_axis(low, &stmt->axes.at[i]);
}

static void
lower_require(Lower *low, const Stmt *stmt)
{
    bool outer = low->host_only;
    Buf text;

    low->host_only = true;
    Value value = eval(low, stmt->a);
    low->host_only = outer;
    if (value.kind == VALUE_ERROR)
        return;
    if (value.kind != VALUE_BOOL && !is_scalar_of(&value, DT_BOOL)) {
        fail(low, stmt->a->span, "E-TYPE: `require` needs a condition, not %s",
             value_text(low, &value));
        return;
    }
    buf_init(&text, low->arena);
    ast_print_expr(stmt->a, &text);
    if (value.kind == VALUE_BOOL) {
        if (!value.integer)
            fail(low, stmt->span, "E-REQUIRE: the requirement `%s` does not hold%s%s", text.at,
                 stmt->text != NULL ? ": " : "", stmt->text != NULL ? stmt->text : "");
        return;
    }
    if (value.host == NULL) {
        not_for_launchers(low, stmt->a->span);
        return;
    }
    if (is_too_long(low, stmt->a->span, value.host))
        return;
    TirRequire require = {value.host, stmt->text != NULL ? stmt->text : text.at, stmt->span};
    vec_push(low->fn->arena, &low->fn->requires, require);
}

/* ---- variables across loops and branches ---- */

/* Every variable that code here could assign, taken apart into run-time values. */
typedef struct Vars {
    VEC(Binding *) bindings;
    VEC(const char *) names; /* of the leaves */
    VEC(uint32_t) loops;     /* around the declaration of each leaf */
    uint32_t n;              /* leaves */
} Vars;

static void
add_leaves(Lower *low, Vars *vars, const Value *value, const char *name, uint32_t loops)
{
    if (value->kind == VALUE_TILE) {
        vec_push(low->arena, &vars->names, name);
        vec_push(low->arena, &vars->loops, loops);
        vars->n++;
        return;
    }
    for (uint32_t i = 0; i < value->n_fields; i++) {
        const char *field = value->names != NULL ? value->names[i] : NULL;
        field = field != NULL ? arena_printf(low->arena, "%s_%s", name, field)
                              : arena_printf(low->arena, "%s_%u", name, i);
        add_leaves(low, vars, &value->fields[i], field, loops);
    }
}

static Vars
collect_vars(Lower *low)
{
    Vars vars = {0};

    for (const Frame *frame = low->frame; frame != NULL; frame = frame->caller) {
        for (Binding *binding = frame->bindings; binding != NULL; binding = binding->next) {
            if (!binding->is_var || binding->is_alias || binding->value.kind == VALUE_ERROR)
                continue;
            vec_push(low->arena, &vars.bindings, binding);
            add_leaves(low, &vars, &binding->value, binding->name + (binding->name[0] == '.'),
                       binding->loops);
        }
    }
    return vars;
}

static void
flatten(const Value *value, TirVal **out, uint32_t *n)
{
    if (value->kind == VALUE_TILE)
        out[(*n)++] = value->tir;
    for (uint32_t i = 0; value->kind == VALUE_TUPLE && i < value->n_fields; i++)
        flatten(&value->fields[i], out, n);
}

static Value
unflatten(Lower *low, const Value *like, TirVal *const *from, uint32_t *n)
{
    if (like->kind == VALUE_TILE) {
        TirVal *tir = from[(*n)++];
        return tir == like->tir ? *like : value_tile(tir, NULL);
    }
    Value *fields = arena_array(low->arena, Value, like->n_fields);
    for (uint32_t i = 0; i < like->n_fields; i++)
        fields[i] = unflatten(low, &like->fields[i], from, n);
    Value out = *like;
    out.fields = fields;
    return out;
}

static TirVal **
read_vars(Lower *low, const Vars *vars)
{
    TirVal **values = arena_array(low->arena, TirVal *, vars->n);
    uint32_t n = 0;

    for (uint32_t i = 0; i < vars->bindings.n; i++)
        flatten(&vars->bindings.at[i]->value, values, &n);
    return values;
}

static Value *
save_vars(Lower *low, const Vars *vars)
{
    Value *saved = arena_array(low->arena, Value, vars->bindings.n);

    for (uint32_t i = 0; i < vars->bindings.n; i++)
        saved[i] = vars->bindings.at[i]->value;
    return saved;
}

/* Sets the variables to `values`, in the form they have in `saved`. */
static void
write_vars(Lower *low, const Vars *vars, const Value *saved, TirVal *const *values)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < vars->bindings.n; i++)
        vars->bindings.at[i]->value = unflatten(low, &saved[i], values, &n);
}

/* Lowers a block of the source into a block of tile IR, with its own scope. */
static void
lower_into(Lower *low, TirBlock *into, const Block *block)
{
    TirBuilder outer = low->b;

    low->b.block = into;
    low->b.at = -1;
    low->frame->runtime_depth++;
    if (block != NULL)
        lower_block(low, block);
    low->frame->runtime_depth--;
    low->b = outer;
}

static void
yield_from(Lower *low, TirBlock *block, uint32_t n, TirVal *const *values)
{
    TirBuilder b = {low->fn, block, -1, low->b.span};
    tir_yield(&b, n, values);
}

/* ---- for ---- */

static LoopHints
loop_hints(Lower *low, const Stmt *stmt)
{
    const AttributeList *attributes = &stmt->attributes;
    LoopHints hints = {.no_split = stmt->b != NULL};

    for (uint32_t i = 0; i < attributes->n; i++) {
        const Attribute *attribute = &attributes->at[i];
        int64_t stages;
        if (strcmp(attribute->name, "stages") == 0) {
            if (attribute->value == NULL)
                fail(low, attribute->span, "E-ATTRIBUTE: @stages needs a number, as in @stages(3)");
            else if (eval_int(low, attribute->value, "the number of stages", 1, LOOP_MAX_STAGES,
                              &stages))
                hints.stages = (int32_t)stages;
        } else if (strcmp(attribute->name, "no_split") == 0 && attribute->value == NULL &&
                   attribute->settings.n == 0) {
            hints.no_split = true;
        } else if (strcmp(attribute->name, "any_order") == 0 && attribute->value == NULL) {
            hints.any_order = true;
            if (stmt->b != NULL)
                fail(low, attribute->span,
                     "E-ATTRIBUTE: @any_order can not stand before a loop with `while`: which "
                     "iterations there are follows from their order");
        } else {
            fail(low, attribute->span,
                 "E-ATTRIBUTE: unknown attribute of a loop: @stages(n), @no_split and "
                 "@any_order are known");
        }
    }
    return hints;
}

static void
replace_value(TirBlock *block, const TirVal *from, TirVal *to)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++)
            if (op->args[k] == from)
                op->args[k] = to;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            replace_value(op->blocks[k], from, to);
    }
}

/* The loop operation for a body walked with one argument for each leaf of `vars`: those that the
 * body leaves alone are dropped.  `values` become what the variables are after the loop. */
static void
finish_for(Lower *low, const Stmt *stmt, TirVal *lo, TirVal *hi, TirBlock *body, const Vars *vars,
           TirVal *const *initial, TirVal **values)
{
    TirVal **args = arena_array(low->arena, TirVal *, vars->n + 2);
    TirVal **yields = arena_array(low->arena, TirVal *, vars->n);
    TirType *types = arena_array(low->arena, TirType, vars->n);
    uint32_t kept[64], n = 0;
    uint32_t *at = vars->n <= 64 ? kept : arena_array(low->arena, uint32_t, vars->n);

    args[0] = lo;
    args[1] = hi;
    for (uint32_t k = 0; k < vars->n; k++) {
        if (values[k] != body->params.at[k + 1]) {
            at[n++] = k;
            continue;
        }
        replace_value(body, body->params.at[k + 1], initial[k]);
        for (uint32_t i = 0; i < vars->n; i++)
            if (i != k && values[i] == body->params.at[k + 1])
                values[i] = initial[k];
    }
    for (uint32_t i = 0; i < n; i++) {
        TirVal *param = body->params.at[at[i] + 1];
        args[i + 2] = initial[at[i]];
        yields[i] = values[at[i]];
        types[i] = param->type;
        param->index = i + 1;
        body->params.at[i + 1] = param; /* at[i] >= i: not overwritten before it is read */
    }
    body->params.n = n + 1;
    low->b.span = stmt->span;
    yield_from(low, body, n, yields);
    TirOp *op = tir_op_new(&low->b, TIR_FOR, n + 2, args, n, types);
    op->hints = loop_hints(low, stmt);
    op->n_blocks = 1;
    op->blocks = arena_array(low->arena, TirBlock *, 1);
    op->blocks[0] = body;
    body->owner = op;
    for (uint32_t k = 0; k < vars->n; k++)
        values[k] = initial[k];
    for (uint32_t i = 0; i < n; i++) {
        values[at[i]] = op->results[i];
        op->results[i]->name = vars->names.at[at[i]];
    }
}

static void
lower_for(Lower *low, const Stmt *stmt)
{
    const Name *name = &stmt->names.at[0];
    const Steps *steps = eval_steps(low, stmt->a);
    Binding *scope = low->frame->bindings;
    Span span = stmt->a->span;
    TirVal *lo = NULL, *hi = NULL;
    bool plain = false; /* the induction variable is the integer itself */

    if (low->host_only) {
        fail(low, stmt->span, "E-LAUNCHER: the launcher computes this: no loops can be used");
        return;
    }
    if (low->loops == LOOP_MAX_DEPTH) {
        fail(low, stmt->span,
             "E-NESTING: loops stand in one another %d deep at most, calls expanded",
             LOOP_MAX_DEPTH);
        return;
    }
    if (steps != NULL) {
        plain = steps->tile == 0 && is_int(&steps->step, 1);
        low->b.span = span;
        Value first = plain ? steps->lo : value_int(0);
        Value count = plain ? steps->hi : count_steps(low, span, steps);
        lo = index_operand(low, span, &first);
        hi = index_operand(low, span, &count);
    }
    if (stmt->b != NULL)
        declare_while(low, stmt->b);
    Vars vars = collect_vars(low);
    Value *saved = save_vars(low, &vars);
    TirVal **initial = read_vars(low, &vars);
    TirBlock *body = tir_block_new(low->fn);
    TirVal *index = tir_block_param(low->fn, body, tir_scalar(DT_I32), name->text);
    for (uint32_t k = 0; k < vars.n; k++)
        note_carried(low, tir_block_param(low->fn, body, initial[k]->type, vars.names.at[k]),
                     vars.loops.at[k]);
    write_vars(low, &vars, saved, body->params.at + 1);
    low->loops++;

    TirBuilder outer = low->b;
    low->b.block = body;
    low->b.at = -1;
    Value at = value_tile(index, NULL);
    if (steps == NULL)
        at = error_value;
    else if (!plain)
        at = step_value(low, span, steps, at, true);
    low->b = outer;
    declare(low, name->text, name->span, at)->what = "loop variable";
    lower_into(low, body, stmt->b != NULL ? while_body(low, stmt) : stmt->body);
    pop_bindings(low, scope);
    low->loops--;

    TirVal **values = read_vars(low, &vars);
    if (lo != NULL && hi != NULL)
        finish_for(low, stmt, lo, hi, body, &vars, initial, values);
    write_vars(low, &vars, saved, values);
}

/* ---- if ---- */

static void
lower_runtime_if(Lower *low, const Stmt *stmt, TirVal *condition, bool by_rows)
{
    Vars vars = collect_vars(low);
    Value *saved = save_vars(low, &vars);
    TirVal **before = read_vars(low, &vars);
    TirBlock *blocks[2] = {tir_block_new(low->fn), tir_block_new(low->fn)};
    TirVal **after[2], **yields = arena_array(low->arena, TirVal *, vars.n);
    TirType *types = arena_array(low->arena, TirType, vars.n);
    uint32_t n = 0;

    for (int i = 0; i < 2; i++) {
        lower_into(low, blocks[i], i == 0 ? stmt->body : stmt->otherwise);
        after[i] = read_vars(low, &vars);
        for (uint32_t k = 0; k < vars.bindings.n; k++)
            vars.bindings.at[k]->value = saved[k];
    }
    for (uint32_t k = 0; k < vars.n; k++)
        if (after[0][k] != before[k] || after[1][k] != before[k])
            types[n++] = before[k]->type;
    low->b.span = stmt->span;
    TirOp *op = tir_op_new(&low->b, TIR_IF, 1, &condition, n, types);
    op->by_rows = by_rows;
    op->n_blocks = 2;
    op->blocks = arena_copy(low->arena, blocks, sizeof blocks);
    for (int i = 0; i < 2; i++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < vars.n; k++)
            if (after[0][k] != before[k] || after[1][k] != before[k])
                yields[count++] = after[i][k];
        yield_from(low, blocks[i], n, yields);
        blocks[i]->owner = op;
    }
    n = 0;
    for (uint32_t k = 0; k < vars.n; k++) {
        if (after[0][k] == before[k] && after[1][k] == before[k])
            continue;
        before[k] = op->results[n++];
        before[k]->name = vars.names.at[k];
    }
    write_vars(low, &vars, saved, before);
}

static bool
has_by_rows(Lower *low, const AttributeList *attributes)
{
    bool found = false;

    for (uint32_t i = 0; i < attributes->n; i++) {
        const Attribute *attribute = &attributes->at[i];
        if (strcmp(attribute->name, "by_rows") == 0 && attribute->value == NULL &&
            attribute->settings.n == 0)
            found = true;
        else
            fail(low, attribute->span, "E-ATTRIBUTE: unknown attribute of `if`: @by_rows is known");
    }
    return found;
}

static void
lower_if(Lower *low, const Stmt *stmt)
{
    const char *what = stmt->text != NULL ? stmt->text : "if"; /* "while" */
    bool by_rows = has_by_rows(low, &stmt->attributes);
    Value condition = eval(low, stmt->a);

    if (condition.kind == VALUE_ERROR)
        return;
    if (condition.kind == VALUE_BOOL) {
        const Block *taken = condition.integer ? stmt->body : stmt->otherwise;
        if (taken != NULL)
            lower_block(low, taken);
        return;
    }
    if (condition.kind != VALUE_TILE || condition.type.dtype != DT_BOOL) {
        fail(low, stmt->a->span, "E-CONDITION: the condition of `%s` is a bool, not %s", what,
             value_text(low, &condition));
        return;
    }
    if (condition.type.rank > 0) {
        fail(low, stmt->a->span,
             "E-CONDITION: the condition of `%s` is one bool, not %s: say any(..) or "
             "all(..) of it",
             what, value_text(low, &condition));
        return;
    }
    if (low->host_only) {
        fail(low, stmt->span,
             "E-LAUNCHER: the launcher computes this: only conditions known at compile time "
             "can be used");
        return;
    }
    lower_runtime_if(low, stmt, condition.tir, by_rows);
}

/* ---- the rest ---- */

static void
lower_return(Lower *low, const Stmt *stmt)
{
    Frame *frame = low->frame;
    Value value = {.kind = VALUE_NOTHING};

    if (frame->function == NULL) {
        fail(low, stmt->span,
             stmt->a != NULL
                 ? "E-RETURN: a kernel returns nothing: it stores its results"
                 : "E-RETURN: `return;` of a kernel stands alone, as in `if c { return; }`, in its "
                   "outermost block after `grid`");
        return;
    }
    if (stmt->a != NULL)
        value = eval(low, stmt->a);
    if (frame->runtime_depth > 0) {
        fail(low, stmt->span,
             "E-RETURN: `return` cannot stand in a loop, nor under a condition that is "
             "known at run time only");
        value = error_value;
    }
    if (value.kind == VALUE_STEPS || value.kind == VALUE_TENSOR)
        value = fail(low, stmt->a->span, "E-RETURN: a function cannot return %s",
                     value_text(low, &value));
    frame->returned = true;
    frame->result = value;
}

static void
lower_expr(Lower *low, const Stmt *stmt)
{
    bool builtin = stmt->a->kind == EXPR_CALL && builtin_find(stmt->a->text) != BUILTIN_COUNT;

    if (stmt->a->kind == EXPR_CALL && (!builtin || dsl_called(low->ast, stmt->a, builtin) != NULL)) {
        eval(low, stmt->a);
        return;
    }
    if (eval(low, stmt->a).kind != VALUE_ERROR)
        fail(low, stmt->a->span, "E-UNUSED: this value is not used: assign it to something");
}

/* `print` and `assert` are for `tilec run`: checked here, and then forgotten. */
static void
lower_debug(Lower *low, const Stmt *stmt)
{
    TirBuilder outer = low->b;

    if (!low->options->ignore_debug)
        fail(low, stmt->span,
             "E-DEBUG: `%s` is for `tilec run`: compiled kernels have it with --ignore-debug, which "
             "leaves it out",
             stmt->kind == STMT_PRINT ? "print" : "assert");
    low->b.block = tir_block_new(low->fn);
    low->b.at = -1;
    for (uint32_t i = 0; i < stmt->args.n; i++) {
        Value value = eval(low, stmt->args.at[i].value);
        if (value.kind == VALUE_STEPS || value.kind == VALUE_TENSOR || value.kind == VALUE_NOTHING)
            fail(low, stmt->args.at[i].value->span, "E-DEBUG: `print` shows values, not %s",
                 value_text(low, &value));
    }
    if (stmt->kind == STMT_ASSERT) {
        Value value = eval(low, stmt->a);
        if (value.kind != VALUE_ERROR && value.kind != VALUE_BOOL &&
            (value.kind != VALUE_TILE || value.type.dtype != DT_BOOL))
            fail(low, stmt->a->span, "E-DEBUG: `assert` needs a bool, or a tile of bools, not %s",
                 value_text(low, &value));
    }
    low->b = outer;
}

static void
lower_stmt(Lower *low, const Stmt *stmt, bool top)
{
    low->b.span = stmt->span;
    switch (stmt->kind) {
    case STMT_REQUIRE: lower_require(low, stmt); break;
    case STMT_GRID: lower_grid(low, stmt, top); break;
    case STMT_LET:
    case STMT_VAR: lower_let(low, stmt); break;
    case STMT_ASSIGN: assign(low, stmt->span, stmt->b, stmt->op, eval(low, stmt->a)); break;
    case STMT_STORE:
    case STMT_ATOMIC: lower_store(low, stmt); break;
    case STMT_EXPR: lower_expr(low, stmt); break;
    case STMT_FOR: lower_for(low, stmt); break;
    case STMT_IF: lower_if(low, stmt); break;
    case STMT_RETURN: lower_return(low, stmt); break;
    case STMT_BLOCK: lower_block(low, stmt->body); break;
    case STMT_PRINT:
    case STMT_ASSERT: lower_debug(low, stmt); break;
    }
}

void
lower_block(Lower *low, const Block *block)
{
    Binding *scope = low->frame->bindings;
    bool top = block == low->kernel->body;

    if (low->nesting >= NESTING_MAX) {
        fail(low, block->span,
             "E-NESTING: this is nested too deeply: %d levels are possible, calls expanded",
             NESTING_MAX);
        return;
    }
    low->nesting++;
    for (uint32_t i = 0; i < block->stmts.n && !low->frame->returned; i++) {
        const Stmt *rest = rest_of_program(low, block, i);
        if (rest != NULL) {
            lower_if(low, rest);
            break;
        }
        lower_stmt(low, block->stmts.at[i], top);
    }
    low->nesting--;
    pop_bindings(low, scope);
}
