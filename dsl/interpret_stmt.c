/* interpret_stmt.c - statements: variables, loops, branches, the grid. */
#include <string.h>

#include "dsl/interpret_internal.h"

/* ---- let, var, assignment ---- */

/* What a `var` holds: run-time scalars and tiles, and tuples of them. */
static RunValue
to_variable(Run *run, RunValue value)
{
    if (value.kind != RUN_TUPLE)
        return run_typed(run, value);
    RunValue out = tuple_new(run, value.fields->n);
    for (uint32_t i = 0; i < value.fields->n; i++) {
        out.fields->names[i] = value.fields->names[i];
        out.fields->at[i] = to_variable(run, value.fields->at[i]);
    }
    return out;
}

static void
run_let(Run *run, const Stmt *stmt)
{
    RunValue value = run_eval(run, stmt->a);

    if (value.kind == RUN_ERROR)
        return;
    if (stmt->kind == STMT_VAR)
        value = to_variable(run, value);
    for (uint32_t i = 0; i < stmt->names.n; i++)
        run_declare(run, stmt->names.at[i].text, stmt->tuple ? value.fields->at[i] : value);
}

/* `value` as a variable takes it that held `old` and was declared under `depth` loops. */
static RunValue
assigned(Run *run, Span span, const RunValue *old, RunValue value, uint32_t depth)
{
    if (old->kind == RUN_TUPLE && value.kind == RUN_TUPLE) {
        RunValue out = tuple_new(run, old->fields->n);
        for (uint32_t i = 0; i < old->fields->n; i++) {
            out.fields->names[i] = old->fields->names[i];
            out.fields->at[i] = assigned(run, span, &old->fields->at[i], value.fields->at[i], depth);
        }
        return out;
    }
    if (old->kind != RUN_TILE)
        return value;
    RunTile *now = run_fit(run, span, value, old->tile->type, &old->tile->shape);
    if (now == NULL)
        return (RunValue){.kind = RUN_ERROR};
    now = tile_assign(run, old->tile, now, depth);
    now->by_rows = now->by_rows || run->in_rows > 0;
    return tile_value(now);
}

static void
assign(Run *run, const Stmt *stmt, const Expr *target, Op op, RunValue value)
{
    if (value.kind == RUN_ERROR)
        return;
    if (target->kind == EXPR_TUPLE && op == OP_NONE) {
        for (uint32_t i = 0; i < target->args.n; i++)
            assign(run, stmt, target->args.at[i].value, OP_NONE, value.fields->at[i]);
        return;
    }
    RunPlace place = run_place(run, target);
    if (place.root == NULL)
        return;
    RunValue old = run_read(&place);
    run_see_rows(run, run->sees_rows || (old.kind == RUN_TILE && old.tile->by_rows));
    if (op != OP_NONE)
        value = run_binary(run, stmt->span, op, old, value);
    if (value.kind == RUN_ERROR)
        return;
    run_write(run, &place, assigned(run, stmt->span, &old, value, place.root->depth));
}

/* ---- what loops and the grid go over ---- */

static bool
find_steps(Run *run, const Expr *expr, RunSteps *out)
{
    RunValue value;

    *out = (RunSteps){.step = 1};
    if (expr->kind == EXPR_SPAN) {
        value = run_eval(run, expr->a);
        if (value.kind == RUN_ERROR)
            return false;
        out->lo = run_integer(run, &value);
        value = run_eval(run, expr->b);
    } else {
        value = run_eval(run, expr);
        if (value.kind == RUN_STEPS) {
            *out = *value.steps;
            return true;
        }
    }
    if (value.kind == RUN_ERROR)
        return false;
    out->hi = run_integer(run, &value);
    return !run->stopped;
}

static int64_t
count_steps(const RunSteps *steps)
{
    int64_t extent = (int64_t)steps->hi.value - (int64_t)steps->lo.value;

    return extent <= 0 ? 0 : (extent + steps->step - 1) / steps->step;
}

RunValue
run_step(Run *run, const RunSteps *steps, int64_t at, uint32_t depth)
{
    Num first = num_of(steps->lo.value + (double)(at * steps->step));

    first.error = steps->lo.error;
    if (steps->tile == 0)
        return scalar_value(run, DT_I32, first);
    RunRange *range = heap_new(run, OBJECT_RANGE, sizeof *range);
    range->start = first;
    range->number = num_of((double)at);
    range->length = steps->tile;
    range->step = 1;
    range->pads = pad_new(run, depth, steps->tile);
    for (int32_t i = 0; i < steps->tile; i++) {
        range->pads->mask[i] = first.value + i >= steps->hi.value;
        range->pads->some |= range->pads->mask[i] != 0;
    }
    return (RunValue){.kind = RUN_RANGE, .range = range};
}

/* ---- loops and branches ---- */

static bool
has_attribute(const Stmt *stmt, const char *name)
{
    for (uint32_t i = 0; i < stmt->attributes.n; i++)
        if (strcmp(stmt->attributes.at[i].name, name) == 0)
            return true;
    return false;
}

static void
change_looseness(Run *run, int by)
{
    run->loose = (uint32_t)((int)run->loose + by);
    run_see_rows(run, run->sees_rows);
}

void
run_change_order(Run *run, int by)
{
    run->any_order = (uint32_t)((int)run->any_order + by);
    run->rounding.any_order = run->any_order > 0;
    change_looseness(run, by);
}

/* The condition behind `while`, before an iteration. */
static bool
goes_on(Run *run, const Expr *condition)
{
    if (condition == NULL)
        return true;
    RunValue value = run_eval(run, condition);
    if (value.kind == RUN_ERROR)
        return false;
    if (value.kind != RUN_TILE)
        return value.integer != 0;
    run_decides(run, condition->span, &value.tile->at[0]);
    return value.tile->at[0].value != 0;
}

static void
run_for(Run *run, const Stmt *stmt)
{
    bool loose = has_attribute(stmt, "any_order");
    RunSteps steps;

    if (!find_steps(run, stmt->a, &steps))
        return;
    run_decides(run, stmt->a->span, &steps.lo);
    run_decides(run, stmt->a->span, &steps.hi);
    int64_t count = count_steps(&steps);
    run->depth++;
    run_change_order(run, loose);
    for (int64_t k = 0; k < count && run_works(run, stmt->span, 1); k++) {
        RunBinding *scope = run->frame->bindings;
        heap_collect(run);
        run_declare(run, stmt->names.at[0].text, run_step(run, &steps, k, run->depth));
        bool more = goes_on(run, stmt->b);
        if (more)
            run_block(run, stmt->body);
        run_leave(run, scope);
        if (!more)
            break;
    }
    run_change_order(run, -(int)loose);
    run->depth--;
}

static void
run_if(Run *run, const Stmt *stmt)
{
    RunValue condition = run_eval(run, stmt->a);
    bool holds, by_rows = has_attribute(stmt, "by_rows") && condition.kind == RUN_TILE;

    if (condition.kind == RUN_ERROR)
        return;
    if (condition.kind == RUN_TILE) {
        if (!by_rows) /* else either way is right for some of the rows */
            run_decides(run, stmt->a->span, &condition.tile->at[0]);
        holds = condition.tile->at[0].value != 0;
        if (by_rows && !holds && condition.tile->at[0].error > 0) /* all may be changed there */
            change_looseness(run, 1);
    } else {
        holds = condition.integer != 0;
    }
    const Block *taken = holds ? stmt->body : stmt->otherwise;
    run->behind_rows = run->behind_rows || by_rows;
    run->in_rows += by_rows;
    if (taken != NULL)
        run_block(run, taken);
    run->in_rows -= by_rows;
}

/* ---- the grid, require ---- */

static void
run_grid(Run *run, const Stmt *stmt)
{
    run->has_grid = true;
    run->n_axes = stmt->axes.n;
    for (uint32_t i = 0; i < stmt->axes.n; i++) {
        const GridAxis *axis = &stmt->axes.at[i];
        RunSteps steps;
        if (!find_steps(run, axis->value, &steps))
            return;
        run->extent[i] = count_steps(&steps);
        run->axis[i] = axis->name.text;
        run_declare(run, axis->name.text, run_step(run, &steps, run->index[i], 0));
    }
}

static void
run_require(Run *run, const Stmt *stmt)
{
    RunValue value = run_eval(run, stmt->a);
    Buf text;

    if (value.kind == RUN_ERROR)
        return;
    if (value.kind == RUN_TILE ? value.tile->at[0].value != 0 : value.integer != 0)
        return;
    buf_init(&text, run->arena);
    ast_print_expr(stmt->a, &text);
    run_fail(run, stmt->span, "E-REQUIRE: the requirement `%s` does not hold%s%s", text.at,
             stmt->text != NULL ? ": " : "", stmt->text != NULL ? stmt->text : "");
}

/* ---- all of them ---- */

static void
run_return(Run *run, const Stmt *stmt)
{
    RunValue value = {.kind = RUN_NOTHING};

    if (stmt->a != NULL)
        value = run_eval(run, stmt->a);
    run->frame->returned = true;
    run->frame->result = value;
}

static void
run_kind(Run *run, const Stmt *stmt)
{
    switch (stmt->kind) {
    case STMT_REQUIRE: run_require(run, stmt); break;
    case STMT_GRID: run_grid(run, stmt); break;
    case STMT_LET:
    case STMT_VAR: run_let(run, stmt); break;
    case STMT_ASSIGN: assign(run, stmt, stmt->b, stmt->op, run_eval(run, stmt->a)); break;
    case STMT_STORE:
    case STMT_ATOMIC: run_store(run, stmt); break;
    case STMT_EXPR: run_eval(run, stmt->a); break;
    case STMT_FOR: run_for(run, stmt); break;
    case STMT_IF: run_if(run, stmt); break;
    case STMT_RETURN: run_return(run, stmt); break;
    case STMT_BLOCK: run_block(run, stmt->body); break;
    case STMT_PRINT: run_print(run, stmt); break;
    case STMT_ASSERT: run_assert(run, stmt); break;
    }
}

/* Looks for the extents of the grid and at requirements: what else goes wrong is no matter then. */
static void
look_at(Run *run, const Stmt *stmt)
{
    bool outer = run->muted;

    if (stmt->kind == STMT_PRINT || stmt->kind == STMT_ASSERT)
        return;
    run->muted = stmt->kind != STMT_REQUIRE && stmt->kind != STMT_GRID;
    run_kind(run, stmt);
    run->stopped &= run->failed;
    run->muted = outer;
}

void
run_block(Run *run, const Block *block)
{
    RunBinding *scope = run->frame->bindings;
    bool outermost = block == run->kernel->body;

    for (uint32_t i = 0; i < block->stmts.n && !run->stopped && !run->frame->returned; i++) {
        const Stmt *stmt = block->stmts.at[i];
        bool behind = outermost && run->has_grid;
        heap_collect(run);
        run_see_rows(run, false);
        if (!run->setup)
            run_kind(run, stmt);
        else if (!behind || stmt->kind == STMT_LET || stmt->kind == STMT_VAR ||
                 stmt->kind == STMT_REQUIRE)
            look_at(run, stmt);
    }
    run_leave(run, scope);
}
