/* interpret_expr.c - expressions: names, fields, places, subscripts of tiles, tiles of one
 * value. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/interpret_internal.h"

static const RunValue error_value = {.kind = RUN_ERROR};

/* ---- names ---- */

RunBinding *
run_find(Run *run, const char *name)
{
    for (RunBinding *b = run->frame->bindings; b != NULL; b = b->next)
        if (strcmp(b->name, name) == 0)
            return b;
    return NULL;
}

RunBinding *
run_declare(Run *run, const char *name, RunValue value)
{
    RunBinding *binding = run->spare;

    if (binding != NULL)
        run->spare = binding->next;
    else
        binding = arena_new(run->arena, RunBinding);
    *binding = (RunBinding){
        .next = run->frame->bindings, .name = name, .value = value, .depth = run->depth};
    run->frame->bindings = binding;
    return binding;
}

void
run_leave(Run *run, RunBinding *until)
{
    while (run->frame->bindings != until) {
        RunBinding *binding = run->frame->bindings;
        run->frame->bindings = binding->next;
        binding->next = run->spare;
        run->spare = binding;
    }
}

bool
run_find_type(Run *run, const char *name, DType *type)
{
    RunBinding *binding = run_find(run, name);

    if (binding == NULL)
        return element_parse(name, type);
    *type = binding->value.type;
    return binding->value.kind == RUN_TYPE;
}

static RunValue
eval_name(Run *run, const Expr *expr)
{
    RunBinding *binding = run_find(run, expr->text);
    DType type;

    if (binding != NULL)
        return binding->is_alias ? run_read(&binding->place) : binding->value;
    if (element_parse(expr->text, &type))
        return (RunValue){.kind = RUN_TYPE, .type = type};
    if (strcmp(expr->text, "inf") == 0)
        return run_number(INFINITY);
    if (strcmp(expr->text, "pi") == 0)
        return run_number(3.14159265358979323846);
    return run_fail(run, expr->span, "E-INTERNAL: unknown name '%s'", expr->text);
}

/* ---- tuples and places ---- */

RunValue
tuple_new(Run *run, uint32_t n)
{
    RunFields *fields = heap_new(run, OBJECT_FIELDS,
                                 sizeof *fields + n * (sizeof(RunValue) + sizeof(char *)));

    fields->n = n;
    fields->names = (const char **)(void *)(fields->at + n);
    return (RunValue){.kind = RUN_TUPLE, .fields = fields};
}

/* Which field an expression `a.text` means; the front end has seen that there is one. */
static uint32_t
field_number(const RunFields *fields, const char *name)
{
    if (name[0] >= '0' && name[0] <= '9')
        return (uint32_t)strtoul(name, NULL, 10) % fields->n;
    for (uint32_t i = 0; i < fields->n; i++)
        if (fields->names[i] != NULL && strcmp(fields->names[i], name) == 0)
            return i;
    return 0;
}

static RunValue
eval_field(Run *run, const Expr *expr)
{
    RunValue base = run_eval(run, expr->a);

    if (base.kind == RUN_TUPLE)
        return base.fields->at[field_number(base.fields, expr->text)];
    if (base.kind == RUN_RANGE)
        return scalar_value(
            run, DT_I32, strcmp(expr->text, "first") == 0 ? base.range->start : base.range->number);
    if (base.kind != RUN_TILE)
        return error_value;
    return tile_value(tile_transpose(run, base.tile));
}

RunPlace
run_place(Run *run, const Expr *expr)
{
    RunPlace place = {0};

    if (expr->kind == EXPR_FIELD) {
        place = run_place(run, expr->a);
        if (place.root == NULL)
            return place;
        RunValue base = run_read(&place);
        if (base.kind != RUN_TUPLE || place.n == RUN_INDEX_PATH)
            return (RunPlace){0};
        place.path[place.n++] = field_number(base.fields, expr->text);
        return place;
    }
    RunBinding *binding = expr->kind == EXPR_NAME ? run_find(run, expr->text) : NULL;
    if (binding != NULL && binding->is_alias)
        return binding->place;
    place.root = binding;
    return place;
}

RunValue
run_read(const RunPlace *place)
{
    RunValue value = place->root->value;

    for (uint32_t i = 0; i < place->n && value.kind == RUN_TUPLE; i++)
        value = value.fields->at[place->path[i]];
    return value;
}

/* Tuples are shared between names: the one on the way to the place is made anew. */
static RunValue
with_field(Run *run, RunValue tuple, const uint32_t *path, uint32_t n, RunValue value)
{
    if (n == 0 || tuple.kind != RUN_TUPLE)
        return value;
    RunValue out = tuple_new(run, tuple.fields->n);
    for (uint32_t i = 0; i < tuple.fields->n; i++) {
        out.fields->names[i] = tuple.fields->names[i];
        out.fields->at[i] = tuple.fields->at[i];
    }
    out.fields->at[path[0]] = with_field(run, out.fields->at[path[0]], path + 1, n - 1, value);
    return out;
}

void
run_write(Run *run, const RunPlace *place, RunValue value)
{
    place->root->value = with_field(run, place->root->value, place->path, place->n, value);
}

static RunValue
eval_tuple(Run *run, const Expr *expr)
{
    uint32_t mark = run->temps.n;

    for (uint32_t i = 0; i < expr->args.n; i++) {
        RunValue field = run_eval(run, expr->args.at[i].value);
        if (field.kind == RUN_ERROR)
            return field;
        temp_push(run, field);
    }
    RunValue out = tuple_new(run, expr->args.n);
    for (uint32_t i = 0; i < expr->args.n; i++) {
        out.fields->names[i] = expr->args.at[i].name;
        out.fields->at[i] = run->temps.at[mark + i];
    }
    run->temps.n = mark;
    return out;
}

/* ---- tiles(lo..hi, N)[i], x[:, None] ---- */

static RunValue
eval_range_number(Run *run, const Expr *expr, RunValue steps)
{
    uint32_t mark = run->temps.n;

    temp_push(run, steps);
    RunValue at = run_eval(run, expr->index.at[0].value);
    Num number = run_integer(run, &at);
    if (run->stopped)
        return error_value;
    if (number.value < 0)
        return run_fail(run, expr->index.at[0].span,
                        "E-BOUNDS: the number of a range is %lld: the first one has 0",
                        (long long)number.value);
    const RunSteps *of = steps.steps;
    double last = of->lo.value + number.value * (double)of->step + of->tile - 1;
    if (last > INT32_MAX || last - of->hi.value > INT32_MAX)
        return run_fail(run, expr->index.at[0].span,
                        "E-ARITHMETIC: the indices of range %.0f do not fit in i32", number.value);
    RunValue range = run_step(run, steps.steps, (int64_t)number.value, run->depth);
    run->temps.n = mark;
    return range;
}

static RunValue
eval_subscript(Run *run, const Expr *expr)
{
    RunValue base = run_eval(run, expr->a);
    if (base.kind == RUN_STEPS)
        return eval_range_number(run, expr, base);
    base = range_tile(run, base);
    Shape shape = {0};
    int32_t to[RUN_TILE_RANK];
    uint32_t next = 0;

    if (base.kind != RUN_TILE)
        return error_value;
    for (uint32_t i = 0; i < expr->index.n && shape.rank < RUN_TILE_RANK; i++) {
        bool kept = expr->index.at[i].kind == SUBSCRIPT_ALL;
        if (kept)
            to[next] = (int32_t)shape.rank;
        shape.dim[shape.rank++] = kept ? base.tile->shape.dim[next] : 1;
        next += kept;
    }
    RunTile *out = tile_new(run, base.tile->type, &shape);
    memcpy(out->at, base.tile->at, out->n * sizeof *out->at);
    tile_move_pads(run, out, base.tile, to);
    tile_skips(run, out);
    return tile_value(out);
}

/* ---- zeros and full ---- */

bool
run_eval_int(Run *run, const Expr *expr, int64_t *out)
{
    RunValue value = run_eval(run, expr);

    *out = value.integer;
    return value.kind == RUN_INT;
}

static RunValue
eval_fill(Run *run, const Expr *expr)
{
    RunValue type = run_eval(run, expr->a), value = run_int(0);
    Shape shape = {0};
    int64_t extent;

    if (expr->kind == EXPR_FULL)
        value = run_eval(run, expr->b);
    if (type.kind != RUN_TYPE || value.kind == RUN_ERROR)
        return error_value;
    uint32_t mark = run->temps.n;
    temp_push(run, value);
    for (uint32_t i = 0; i < expr->index.n && i < RUN_TILE_RANK; i++) {
        if (!run_eval_int(run, expr->index.at[i].value, &extent))
            return error_value;
        shape.dim[shape.rank++] = (int32_t)extent;
    }
    run->temps.n = mark;
    RunTile *tile = run_fit(run, expr->span, value, type.type, &shape);
    return tile == NULL ? error_value : tile_value(tile);
}

/* ---- operators ---- */

static RunValue
eval_binary(Run *run, const Expr *expr)
{
    RunValue x = run_eval(run, expr->a);

    if (x.kind == RUN_ERROR || (x.kind == RUN_BOOL && expr->op == OP_AND && !x.integer) ||
        (x.kind == RUN_BOOL && expr->op == OP_OR && x.integer))
        return x;
    uint32_t mark = run->temps.n;
    temp_push(run, x);
    RunValue y = run_eval(run, expr->b);
    run->temps.n = mark;
    return run_binary(run, expr->span, expr->op, x, y);
}

static RunValue
eval_cast(Run *run, const Expr *expr)
{
    RunValue x = run_eval(run, expr->a);
    DType to;

    if (x.kind == RUN_ERROR || !run_find_type(run, expr->b->text, &to))
        return error_value;
    return run_cast(run, expr->span, x, to);
}

static RunValue
eval_kind(Run *run, const Expr *expr)
{
    switch (expr->kind) {
    case EXPR_INT: return run_int(expr->integer);
    case EXPR_FLOAT: return run_number(expr->number);
    case EXPR_BOOL: return run_bool(expr->integer != 0);
    case EXPR_NAME: return eval_name(run, expr);
    case EXPR_TUPLE: return eval_tuple(run, expr);
    case EXPR_UNARY: {
        RunValue x = run_eval(run, expr->a);
        return x.kind == RUN_ERROR ? x : run_unary(run, expr->span, expr->op, x);
    }
    case EXPR_BINARY: return eval_binary(run, expr);
    case EXPR_CAST: return eval_cast(run, expr);
    case EXPR_CALL: return run_call(run, expr);
    case EXPR_FIELD: return eval_field(run, expr);
    case EXPR_SUBSCRIPT: return eval_subscript(run, expr);
    case EXPR_LOAD: return run_load(run, expr);
    case EXPR_ZEROS:
    case EXPR_FULL: return eval_fill(run, expr);
    default: return error_value;
    }
}

void
run_see_rows(Run *run, bool sees)
{
    run->sees_rows = sees;
    run->rounding.loose = run->loose > 0 || sees;
}

RunValue
run_eval(Run *run, const Expr *expr)
{
    bool beside = run->sees_rows; /* of operands that are there already */

    if (run->stopped)
        return error_value;
    run_see_rows(run, false);
    RunValue value = eval_kind(run, expr);
    run_see_rows(run, beside || (value.kind == RUN_TILE ? value.tile->by_rows : run->sees_rows));
    if (value.kind == RUN_ERROR && !run->stopped)
        run_fail(run, expr->span,
                 "E-INTERNAL: the interpreter can not compute this (a fault of its own)");
    return run->stopped ? error_value : value;
}
