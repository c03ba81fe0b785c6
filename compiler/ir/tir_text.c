/* tir_text.c - tile IR as text.
 *
 *     kernel scale {
 *         constant M = 128
 *         size S
 *         tensor X: in f16[S, 64] align 16
 *         tensor Y: out f16[S, 64] align 16
 *         scalar factor: f32
 *         grid m = cdiv(S, 128)
 *         body {
 *             %m_0: i32 = grid m
 *             %1: i32 = const 128
 *             %m_2: i32 = mul %m_0, %1
 *             %x_3: f16[128,64] = load X[%m_2 +: 128, :]
 *             ...
 *             store Y[%m_2 +: 128, :], %y_9
 *         }
 *     }
 *
 * Values are numbered by position, so that the text depends on nothing but the program; the name
 * in front of the number is the one from the source.  Attributes that have their default value
 * are left out.  tir_read.c reads exactly this.
 */
#include "compiler/ir/layout.h"
#include "compiler/ir/tir.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Printer {
    const TirFn *fn;
    Buf *out;
    uint32_t *number; /* position of each value, by id */
    uint32_t next;
    uint32_t depth;
    VEC(const Layout *) layouts; /* the different ones, in order of first appearance */
} Printer;

/* ---- numbering ---- */

static void
number_layout(Printer *p, const Layout *layout)
{
    uint32_t at = 0;

    if (layout == NULL)
        return;
    while (at < p->layouts.n && !layout_eq(p->layouts.at[at], layout))
        at++;
    if (at == p->layouts.n)
        vec_push(p->out->arena, &p->layouts, layout);
}

static void
number_value(Printer *p, const TirVal *value)
{
    p->number[value->id] = p->next++;
    number_layout(p, value->layout);
}

static void
number_block(Printer *p, const TirBlock *block)
{
    for (uint32_t k = 0; k < block->params.n; k++)
        number_value(p, block->params.at[k]);
    for (uint32_t k = 0; k < block->ops.n; k++) {
        const TirOp *op = block->ops.at[k];
        for (uint32_t j = 0; j < op->n_results; j++)
            number_value(p, op->results[j]);
        for (uint32_t j = 0; j < op->n_blocks; j++)
            number_block(p, op->blocks[j]);
    }
}

/* ---- small parts ---- */

static void
begin_line(Printer *p)
{
    for (uint32_t k = 0; k < p->depth; k++)
        buf_add(p->out, "    ");
}

static void
print_string(Buf *out, const char *text)
{
    buf_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            buf_add(out, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\')
            buf_char(out, '\\');
        buf_char(out, *text);
    }
    buf_char(out, '"');
}

/* The shortest decimal that reads back as the same double, with a point whatever the locale. */
static void
print_number(Buf *out, double number)
{
    char text[40];

    if (isinf(number) || isnan(number)) {
        buf_add(out, isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    bool whole = true;
    for (char *c = text; *c != '\0'; c++) {
        if (*c != '-' && *c != '+' && *c != 'e' && (*c < '0' || *c > '9'))
            *c = '.';
        whole = whole && *c != '.' && *c != 'e';
    }
    buf_add(out, text);
    if (whole)
        buf_add(out, ".0");
}

static void
print_type(Buf *out, TirType type)
{
    buf_add(out, dtype_name(type.dtype));
    if (type.rank == 0)
        return;
    for (uint32_t k = 0; k < type.rank; k++)
        buf_printf(out, "%c%" PRId32, k == 0 ? '[' : ',', type.dim[k]);
    buf_char(out, ']');
}

static void
print_value(Printer *p, const TirVal *value)
{
    if (value == NULL) {
        buf_add(p->out, "%?");
        return;
    }
    buf_char(p->out, '%');
    if (value->name != NULL)
        buf_printf(p->out, "%s_", value->name);
    buf_printf(p->out, "%" PRIu32, p->number[value->id]);
}

/* " @3" */
static void
print_layout(Printer *p, const Layout *layout)
{
    uint32_t at = 0;

    if (layout == NULL)
        return;
    while (!layout_eq(p->layouts.at[at], layout))
        at++;
    buf_printf(p->out, " @%" PRIu32, at);
}

static void
print_definition(Printer *p, const TirVal *value)
{
    print_value(p, value);
    buf_add(p->out, ": ");
    print_type(p->out, value->type);
    print_layout(p, value->layout);
}

static void
print_values(Printer *p, uint32_t n, TirVal *const *values)
{
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0)
            buf_add(p->out, ", ");
        print_value(p, values[k]);
    }
}

/* ---- host expressions ---- */

typedef struct HostOp {
    const char *text;
    int precedence; /* 0: written as a function */
} HostOp;

static HostOp
host_op(HostKind kind)
{
    switch (kind) {
    case HOST_OR: return (HostOp){" || ", 1};
    case HOST_AND: return (HostOp){" && ", 2};
    case HOST_EQ: return (HostOp){" == ", 3};
    case HOST_NE: return (HostOp){" != ", 3};
    case HOST_LT: return (HostOp){" < ", 4};
    case HOST_LE: return (HostOp){" <= ", 4};
    case HOST_GT: return (HostOp){" > ", 4};
    case HOST_GE: return (HostOp){" >= ", 4};
    case HOST_ADD: return (HostOp){" + ", 5};
    case HOST_SUB: return (HostOp){" - ", 5};
    case HOST_MUL: return (HostOp){" * ", 6};
    case HOST_DIV: return (HostOp){" / ", 6};
    case HOST_REM: return (HostOp){" % ", 6};
    case HOST_NEG: return (HostOp){"-", 7};
    case HOST_NOT: return (HostOp){"!", 7};
    case HOST_CDIV: return (HostOp){"cdiv", 0};
    case HOST_MIN: return (HostOp){"min", 0};
    case HOST_MAX: return (HostOp){"max", 0};
    default: return (HostOp){"?", 0};
    }
}

static void
print_host(const TirFn *fn, const HostExpr *expr, int around, Buf *out)
{
    switch (expr->kind) {
    case HOST_INT: buf_printf(out, "%" PRId64, expr->integer); return;
    case HOST_FLOAT: print_number(out, expr->number); return;
    case HOST_SIZE:
        buf_add(out, expr->index < fn->sizes.n ? fn->sizes.at[expr->index].name : "?");
        return;
    case HOST_SM_COUNT: buf_add(out, "sm_count"); return;
    case HOST_SCALAR:
        buf_add(out, expr->index < fn->scalars.n ? fn->scalars.at[expr->index].name : "?");
        return;
    default: break;
    }
    HostOp op = host_op(expr->kind);
    if (op.precedence == 0) {
        buf_printf(out, "%s(", op.text);
        print_host(fn, expr->a, 0, out);
        buf_add(out, ", ");
        print_host(fn, expr->b, 0, out);
        buf_char(out, ')');
        return;
    }
    if (op.precedence < around)
        buf_char(out, '(');
    if (expr->kind == HOST_NEG || expr->kind == HOST_NOT) {
        buf_add(out, op.text);
        print_host(fn, expr->a, op.precedence + 1, out); /* never two signs in a row */
    } else {
        print_host(fn, expr->a, op.precedence, out);
        buf_add(out, op.text);
        print_host(fn, expr->b, op.precedence + 1, out);
    }
    if (op.precedence < around)
        buf_char(out, ')');
}

void
host_print(const TirFn *fn, const HostExpr *expr, Buf *out)
{
    print_host(fn, expr, 0, out);
}

/* ---- operations ---- */

static const char *const reduce_names[] = {"sum", "max", "min", "any", "all"};

/* A range, or a part of a pack: +: 8 by 4 of 64. */
static void
print_range(Printer *p, const TirIndex *index)
{
    buf_printf(p->out, " +: %" PRId32, index->length);
    if (index->rows > 0)
        buf_printf(p->out, " by %" PRId32 " of %" PRId32, index->inner, index->rows);
    if (index->open)
        buf_add(p->out, " open");
}

/* Tensor[%b_1, %m_2 +: 128, :]; `operands` are the index operands.  Limits stand behind it, with the axis that each
 * is along: Tensor[%m_2 +: 128 open, :] limit(0, %3). */
static void
print_index(Printer *p, const TirOp *op, TirVal *const *operands)
{
    const TirTensor *tensor = op->tensor;
    uint32_t next = 0;

    buf_printf(p->out, "%s[", tensor->name);
    for (uint32_t k = 0; k < tensor->rank; k++) {
        const TirIndex *index = &op->index[k];
        if (k > 0)
            buf_add(p->out, ", ");
        if (index->kind != INDEX_FULL)
            print_value(p, operands[next++]);
        if (index->kind == INDEX_RANGE)
            print_range(p, index);
        if (index->kind == INDEX_FULL)
            buf_char(p->out, ':');
    }
    buf_char(p->out, ']');
    for (uint32_t k = 0; k < op->n_limits; k++) {
        buf_printf(p->out, " limit(%" PRIu32 ", ", op->limits[k].axis);
        print_value(p, operands[next + k]);
        if (op->limits[k].part.rows > 0)
            print_range(p, &op->limits[k].part);
        buf_char(p->out, ')');
    }
}

/* $name_0; an operation that lacks its buffer is printed, too: the verifier wants to show it. */
static void
print_shared(Printer *p, const TirShared *shared)
{
    uint32_t at = 0;

    while (at < p->fn->shared.n && p->fn->shared.at[at] != shared)
        at++;
    buf_printf(p->out, "$%s_%" PRIu32, shared == NULL || shared->name == NULL ? "" : shared->name,
               at);
}

/* $name_0[%stage] */
static void
print_stage(Printer *p, const TirOp *op)
{
    print_shared(p, op->shared);
    buf_char(p->out, '[');
    print_value(p, op->args[0]);
    buf_char(p->out, ']');
}

static void print_op(Printer *p, const TirOp *op);

static void
print_block(Printer *p, const TirBlock *block)
{
    buf_add(p->out, "{\n");
    p->depth++;
    for (uint32_t k = 0; k < block->ops.n; k++)
        print_op(p, block->ops.at[k]);
    p->depth--;
    begin_line(p);
    buf_char(p->out, '}');
}

/* for %i: i32 in %lo .. %hi split(..) carry(%x = %initial, ..) stages(n) no_split any_order { */
static void
print_for(Printer *p, const TirOp *op)
{
    const TirBlock *body = op->blocks[0];
    uint32_t bounds = op->n_segments > 1 ? op->n_segments - 1 : 0;

    print_definition(p, body->params.at[0]);
    buf_add(p->out, " in ");
    print_value(p, op->args[0]);
    buf_add(p->out, " .. ");
    print_value(p, op->args[1]);
    if (op->n_segments > 0) {
        buf_add(p->out, " split(");
        print_values(p, bounds, op->args + 2);
        buf_char(p->out, ')');
    }
    if (body->params.n > 1) {
        buf_add(p->out, " carry(");
        for (uint32_t k = 1; k < body->params.n; k++) {
            if (k > 1)
                buf_add(p->out, ", ");
            print_value(p, body->params.at[k]);
            print_layout(p, body->params.at[k]->layout);
            buf_add(p->out, " = ");
            print_value(p, k + 1 + bounds < op->n_args ? op->args[k + 1 + bounds] : NULL);
        }
        buf_char(p->out, ')');
    }
    if (op->hints.stages != 0)
        buf_printf(p->out, " stages(%" PRId32 ")", op->hints.stages);
    if (op->hints.no_split)
        buf_add(p->out, " no_split");
    if (op->hints.any_order)
        buf_add(p->out, " any_order");
    buf_char(p->out, ' ');
    print_block(p, body);
}

static void
print_if(Printer *p, const TirOp *op)
{
    print_value(p, op->args[0]);
    buf_add(p->out, op->by_rows ? " by_rows " : " ");
    print_block(p, op->blocks[0]);
    buf_add(p->out, " else ");
    print_block(p, op->blocks[1]);
}

/* "sizes.at[k].name", or "?" when there is none: the verifier prints broken functions too. */
static const char *
size_name(const TirFn *fn, int64_t k)
{
    return k >= 0 && k < fn->sizes.n ? fn->sizes.at[k].name : "?";
}

static const char *
scalar_name(const TirFn *fn, int64_t k)
{
    return k >= 0 && k < fn->scalars.n ? fn->scalars.at[k].name : "?";
}

static const char *
grid_name(const TirFn *fn, int64_t k)
{
    return k >= 0 && k < fn->grid.n ? fn->grid.at[k].name : "?";
}

static void
print_operands(Printer *p, const TirOp *op)
{
    Buf *out = p->out;

    switch (op->op) {
    case TIR_CONST:
        if (dtype_is_float(op->results[0]->type.dtype))
            print_number(out, op->number);
        else
            buf_printf(out, "%" PRId64, op->integer);
        return;
    case TIR_PARAM: buf_add(out, scalar_name(p->fn, op->integer)); return;
    case TIR_SIZE: buf_add(out, size_name(p->fn, op->integer)); return;
    case TIR_GRID:
    case TIR_GRID_FIRST:
        buf_printf(out, "%s%s", grid_name(p->fn, op->integer), op->uniform ? " uniform" : "");
        return;
    case TIR_LOAD: print_index(p, op, op->args); return;
    case TIR_STORE:
    case TIR_ATOMIC_ADD:
        print_index(p, op, op->args);
        buf_add(out, ", ");
        print_value(p, op->args[op->n_args - 1]);
        return;
    case TIR_COPY_ASYNC:
        print_stage(p, op);
        buf_add(out, ", ");
        print_index(p, op, op->args + 1);
        return;
    case TIR_TMA_LOAD:
        print_shared(p, op->shared);
        if (op->shared != NULL && op->shared->per_consumer)
            buf_printf(out, " consumer(%" PRId64 ")", op->integer);
        buf_add(out, ", ");
        print_index(p, op, op->args);
        return;
    case TIR_CONSUMER_WAIT:
        print_shared(p, op->shared);
        buf_add(out, op->own ? " own" : "");
        return;
    case TIR_CONSUMER_RELEASE:
        print_shared(p, op->shared);
        if (op->n_args > 0) {
            buf_add(out, ", ");
            print_value(p, op->args[0]);
        }
        return;
    case TIR_SHARED_READ:
        print_stage(p, op);
        buf_add(out, op->coop_k ? op->sliced ? " coop_k sliced" : " coop_k" : op->own ? " own" : "");
        if (op->coop_k && op->integer > 0)
            buf_printf(out, " consumer(%" PRId64 ")", op->integer - 1);
        return;
    case TIR_TMA_REDUCE_ADD:
    case TIR_TMA_STORE:
        print_shared(p, op->shared);
        buf_add(out, ", ");
        print_index(p, op, op->args);
        buf_add(out, ", ");
        print_value(p, op->args[op->n_args - 1]);
        return;
    case TIR_SHARED_WRITE:
        print_stage(p, op);
        buf_add(out, ", ");
        print_value(p, op->args[1]);
        return;
    case TIR_ASYNC_WAIT:
    case TIR_MMA_WAIT:
        buf_printf(out, "%" PRId64, op->integer);
        for (uint32_t k = 0; k < op->n_args; k++) {
            buf_add(out, ", ");
            print_value(p, op->args[k]);
        }
        return;
    case TIR_REDUCE: buf_printf(out, "%s ", reduce_names[op->reduce]); break;
    default: break;
    }
    print_values(p, op->n_args, op->args);
    if (op->op == TIR_IOTA && op->index[0].rows > 0)
        print_range(p, &op->index[0]);
    if (op->op == TIR_REDUCE || op->op == TIR_EXPAND || op->op == TIR_SQUEEZE ||
        op->op == TIR_PART || op->op == TIR_OWN)
        buf_printf(out, " axis(%" PRIu32 ")", op->axis);
    if ((op->op == TIR_PART && op->integer >= 0) || op->op == TIR_FROM || op->op == TIR_KEEP)
        buf_printf(out, " number(%" PRId64 ")", op->integer);
    if (op->op == TIR_REDUCE && op->partial)
        buf_add(out, " partial");
    if (op->op == TIR_REDUCE && op->vote_warp)
        buf_add(out, " vote_warp");
    if (op->op == TIR_BOUNDS_MASK) {
        buf_add(out, " value(");
        print_number(out, op->number);
        buf_char(out, ')');
    }
    if ((op->op == TIR_MASK || op->op == TIR_BOUNDS_MASK) && op->segments != UINT32_MAX)
        buf_printf(out, " segments(%" PRIu32 ")", op->segments);
    if (op->op == TIR_MMA && (op->warps_m != 0 || op->warps_n != 0))
        buf_printf(out, " warps(%" PRIu32 ", %" PRIu32 ")", op->warps_m, op->warps_n);
    if (op->op == TIR_MMA && op->swap_ab)
        buf_add(out, " swap_ab");
    if (op->op == TIR_MMA && op->async)
        buf_add(out, op->coop_k ? " async coop_k" : " async");
}

/* Operations that name a buffer among their operands; others, which go through one, name it last. */
static bool
names_shared(TirOpcode op)
{
    switch (op) {
    case TIR_COPY_ASYNC:
    case TIR_SHARED_READ:
    case TIR_SHARED_WRITE:
    case TIR_TMA_LOAD:
    case TIR_CONSUMER_WAIT:
    case TIR_CONSUMER_RELEASE:
    case TIR_TMA_REDUCE_ADD:
    case TIR_TMA_STORE: return true;
    default: return false;
    }
}

static void
print_op(Printer *p, const TirOp *op)
{
    begin_line(p);
    for (uint32_t k = 0; k < op->n_results; k++) {
        if (k > 0)
            buf_add(p->out, ", ");
        print_definition(p, op->results[k]);
    }
    if (op->n_results > 0)
        buf_add(p->out, " = ");
    buf_add(p->out, tir_op_info(op->op)->text);
    if (op->n_args > 0 || op->n_blocks > 0 || tir_op_info(op->op)->args != 0 ||
        op->op == TIR_CONST || op->op == TIR_PARAM || op->op == TIR_SIZE || op->op == TIR_GRID ||
        op->op == TIR_GRID_FIRST ||
        op->op == TIR_ASYNC_WAIT || op->op == TIR_MMA_WAIT || op->op == TIR_CONSUMER_WAIT)
        buf_char(p->out, ' ');
    if (op->op == TIR_FOR)
        print_for(p, op);
    else if (op->op == TIR_IF)
        print_if(p, op);
    else
        print_operands(p, op);
    if (op->shared != NULL && !names_shared(op->op)) {
        buf_add(p->out, " through ");
        print_shared(p, op->shared);
    }
    if (p->out->at[p->out->n - 1] == ' ') { /* a yield of nothing */
        p->out->n--;
        p->out->at[p->out->n] = '\0';
    }
    buf_char(p->out, '\n');
}

/* ---- kernels ---- */

static void
print_tensor(Printer *p, const TirTensor *tensor)
{
    static const char *const modes[] = {"in", "out", "inout"};

    begin_line(p);
    buf_printf(p->out, "tensor %s: %s %s[", tensor->name, modes[tensor->mode],
               dtype_name(tensor->dtype));
    for (uint32_t k = 0; k < tensor->rank; k++) {
        if (k > 0)
            buf_add(p->out, ", ");
        if (tensor->dim[k].constant != 0)
            buf_printf(p->out, "%" PRId32, tensor->dim[k].constant);
        else
            buf_add(p->out, size_name(p->fn, tensor->dim[k].size));
    }
    buf_printf(p->out, "] align %" PRIu32 "%s\n", tensor->align, tensor->atomic ? " atomic" : "");
}

static void
print_interface(Printer *p)
{
    const TirFn *fn = p->fn;
    Buf *out = p->out;

    for (uint32_t k = 0; k < fn->constants.n; k++) {
        begin_line(p);
        buf_printf(out, "constant %s = ", fn->constants.at[k].name);
        print_string(out, fn->constants.at[k].value);
        buf_char(out, '\n');
    }
    for (uint32_t k = 0; k < fn->sizes.n; k++) {
        begin_line(p);
        buf_printf(out, "size %s", fn->sizes.at[k].name);
        if (fn->sizes.at[k].usual != 0)
            buf_printf(out, " usual %" PRId64, fn->sizes.at[k].usual);
        buf_char(out, '\n');
    }
    for (uint32_t k = 0; k < fn->tensors.n; k++)
        print_tensor(p, fn->tensors.at[k]);
    for (uint32_t k = 0; k < fn->scalars.n; k++) {
        begin_line(p);
        buf_printf(out, "scalar %s: %s\n", fn->scalars.at[k].name,
                   dtype_name(fn->scalars.at[k].dtype));
    }
    for (uint32_t k = 0; k < fn->requires.n; k++) {
        begin_line(p);
        buf_add(out, "require ");
        host_print(fn, fn->requires.at[k].condition, out);
        buf_add(out, ", ");
        print_string(out, fn->requires.at[k].message == NULL ? "" : fn->requires.at[k].message);
        buf_char(out, '\n');
    }
    for (uint32_t k = 0; k < fn->grid.n; k++) {
        begin_line(p);
        buf_printf(out, "grid %s = ", fn->grid.at[k].name);
        host_print(fn, fn->grid.at[k].extent, out);
        buf_printf(out, "%s%s", fn->grid.at[k].reversed ? " reversed" : "",
                   fn->grid.at[k].variable_trips ? " variable_trips" : "");
        if (fn->grid.at[k].sliding)
            buf_printf(out, " sliding %" PRIu32 "%s", fn->grid.at[k].sliding_trips,
                       fn->grid.at[k].short_first ? " short_first" : "");
        buf_char(out, '\n');
    }
}

static void
print_schedule(Printer *p)
{
    const TirFn *fn = p->fn;

    if (fn->hint_warps != 0) {
        begin_line(p);
        buf_printf(p->out, "hint_warps %" PRIu32 "\n", fn->hint_warps);
    }
    if (fn->hint_plan != NULL) {
        begin_line(p);
        buf_printf(p->out, "hint_plan \"%s\"\n", fn->hint_plan);
    }
    if (fn->warps != 0) {
        begin_line(p);
        buf_printf(p->out, "warps %" PRIu32 "\n", fn->warps);
    }
    if (fn->plan != NULL) {
        begin_line(p);
        buf_printf(p->out, "plan consumers %" PRIu32 " %s%s%s registers %" PRIu32 " %" PRIu32 "%s%s",
                   fn->plan->consumers, fn->plan->cooperative ? "cooperative" : "axis ",
                   fn->plan->cooperative ? "" : grid_name(fn, fn->plan->consumer_axis),
                   fn->plan->reversed_raster ? " reversed_raster" : "",
                   fn->plan->producer_registers, fn->plan->consumer_registers,
                   fn->plan->dynamic ? " dynamic" : fn->plan->persistent ? " persistent" : "",
                   fn->plan->pipelined ? " pipelined" : "");
        buf_add(p->out, fn->plan->paired ? " paired" : "");
        buf_add(p->out, fn->plan->pingpong ? " pingpong" : "");
        buf_add(p->out, fn->plan->balance_swap ? " balance_swap" : "");
        if (fn->plan->reg_pressure > 0)
            buf_printf(p->out, " reg_pressure %" PRIu32, fn->plan->reg_pressure);
        buf_add(p->out, fn->plan->coop_k ? " coop_k" : "");
        buf_add(p->out, fn->plan->lookahead ? " lookahead" : "");
        if (fn->plan->tile_swizzle != 0)
            buf_printf(p->out, " tile_swizzle %" PRIu32 " of %s", fn->plan->tile_swizzle,
                       grid_name(fn, fn->plan->swizzle_axis));
        if (fn->plan->tiles != 0)
            buf_printf(p->out, " tiles %" PRIu32, fn->plan->tiles);
        if (fn->plan->mark != 0)
            buf_printf(p->out, " mark %" PRIu32, fn->plan->mark);
        if (fn->plan->private_bytes != 0)
            buf_printf(p->out, " private %" PRIu32, fn->plan->private_bytes);
        if (fn->plan->shared_bytes_each != NULL) {
            buf_add(p->out, " shares ");
            host_print(fn, fn->plan->shared_bytes_each, p->out);
        }
        buf_char(p->out, '\n');
    }
    for (uint32_t k = 0; k < p->layouts.n; k++) {
        begin_line(p);
        buf_printf(p->out, "layout @%" PRIu32 " = ", k);
        layout_print(p->layouts.at[k], p->out);
        buf_char(p->out, '\n');
    }
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *shared = fn->shared.at[k];
        begin_line(p);
        buf_printf(p->out,
                   "shared $%s_%" PRIu32 ": %s[%" PRId32 ",%" PRId32 "] stages %" PRIu32
                   " offset %" PRIu32 " bytes %" PRIu32,
                   shared->name == NULL ? "" : shared->name, k, dtype_name(shared->dtype),
                   shared->rows, shared->cols, shared->stages, shared->offset, shared->bytes);
        if (shared->is_coop_k || shared->is_staging)
            buf_add(p->out, shared->is_coop_k ? " coop_k" : " staging");
        if (shared->aliases != 0)
            buf_printf(p->out, " aliases %" PRIu32, shared->aliases - 1);
        if (shared->is_pipeline)
            buf_printf(p->out, " pipeline%s",
                       shared->per_consumer    ? " per_consumer"
                       : shared->paired    ? " paired"
                       : shared->is_vector ? " vector"
                                           : "");
        if (shared->is_pipeline && shared->of_consumer > 0)
            buf_printf(p->out, " consumer(%" PRIu32 ")", shared->of_consumer - 1);
        if (shared->is_pipeline)
            buf_printf(p->out, " %" PRIu32, shared->barriers);
        if (shared->shares_barrier != 0)
            buf_printf(p->out, " shares_barrier %" PRIu32, shared->shares_barrier - 1);
        if (shared->release_lag)
            buf_add(p->out, shared->lookahead ? " release_lag lookahead" : " release_lag");
        if (shared->deferred_release)
            buf_add(p->out, " deferred_release");
        if (shared->layout != NULL) {
            buf_char(p->out, ' ');
            shared_layout_print(shared->layout, p->out);
        }
        buf_char(p->out, '\n');
    }
    if (fn->shared_bytes != 0) {
        begin_line(p);
        buf_printf(p->out, "shared_bytes %" PRIu32 "\n", fn->shared_bytes);
    }
    for (uint32_t k = 0; k < fn->memories.n; k++) {
        const TirMemory *memory = &fn->memories.at[k];
        begin_line(p);
        buf_printf(p->out, "%s %s = ", memory->kind == MEMORY_SCRATCH ? "scratch" : "workspace",
                   memory->name);
        host_print(fn, memory->bytes, p->out);
        buf_add(p->out, " bytes\n");
    }
    if (fn->blocks[0] != NULL) {
        begin_line(p);
        for (uint32_t k = 0; k < 3; k++) {
            buf_add(p->out, k > 0 ? ", " : "blocks ");
            host_print(fn, fn->blocks[k], p->out);
        }
        buf_char(p->out, '\n');
    }
}

static Printer
number_fn(const TirFn *fn, Buf *out)
{
    Printer p = {.fn = fn, .out = out};

    p.number = arena_array(out->arena, uint32_t, fn->next_id + 1);
    if (fn->plan != NULL && fn->plan->producer != NULL)
        number_block(&p, fn->plan->producer);
    number_block(&p, fn->body);
    return p;
}

void
tir_print_op(const TirFn *fn, const TirOp *op, Buf *out)
{
    uint32_t begin = out->n;
    Printer p = number_fn(fn, out);

    print_op(&p, op);
    out->n = begin + (uint32_t)strcspn(out->at + begin, "\n");
    out->at[out->n] = '\0';
}

void
tir_print_fn(const TirFn *fn, Buf *out)
{
    Printer p = number_fn(fn, out);

    buf_printf(out, "kernel %s {\n", fn->name);
    p.depth = 1;
    print_interface(&p);
    print_schedule(&p);
    if (fn->plan != NULL && fn->plan->producer != NULL) {
        begin_line(&p);
        buf_add(out, "producer ");
        print_block(&p, fn->plan->producer);
        buf_char(out, '\n');
    }
    begin_line(&p);
    buf_add(out, "body ");
    print_block(&p, fn->body);
    buf_add(out, "\n}\n");
}

void
tir_print(const TirModule *module, Buf *out)
{
    for (uint32_t k = 0; k < module->fns.n; k++) {
        if (k > 0)
            buf_char(out, '\n');
        tir_print_fn(module->fns.at[k], out);
    }
}
