/* tir_text_parts.c - small parts of the text of tile IR: numbers, strings, names, host expressions.
 */
#include "compiler/ir/tir_printer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void
tir_print_indent(Printer *p)
{
    for (uint32_t k = 0; k < p->depth; k++)
        buf_add(p->out, "    ");
}

SourcePlace
tir_origin(const TirFn *fn, Span span)
{
    SourcePlace place = span.lo == 0 ? (SourcePlace){0} : diag_origin(fn->diag, span.lo);

    return place.file == NULL || place.file->is_ir ? (SourcePlace){0} : place;
}

/* The first loop; NULL: there is none. */
static const TirOp *
first_loop(const TirBlock *block)
{
    const TirOp *found = NULL;

    for (uint32_t i = 0; i < block->ops.n && found == NULL; i++) {
        const TirOp *op = block->ops.at[i];
        found = op->op == TIR_FOR ? op : NULL;
        for (uint32_t k = 0; k < op->n_blocks && found == NULL; k++)
            found = first_loop(op->blocks[k]);
    }
    return found;
}

Span
tir_role_span(const TirFn *fn, const TirBlock *role)
{
    const TirOp *loop = first_loop(role);

    return loop == NULL ? fn->span : loop->span;
}

void
tir_print_place(Printer *p, Span span)
{
    SourcePlace place = p->from.file == NULL ? p->from : tir_origin(p->fn, span);
    bool all = p->fn->diag->all_places;

    if (place.file == NULL)
        return;
    buf_printf(p->out, " at %" PRIu32, place.line);
    if (all)
        buf_printf(p->out, ":%" PRIu32, place.column);
    if (place.file != p->from.file) {
        buf_add(p->out, " of ");
        buf_quoted(p->out, all ? place.file->path : file_base_name(place.file->path));
    }
}

/* The shortest decimal that reads back as the same double, with a point whatever the locale. */
void
tir_print_number(Buf *out, double number)
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

/* "sizes.at[k].name", or "?" when there is none: the verifier prints broken functions too. */
const char *
tir_size_name(const TirFn *fn, int64_t k)
{
    return k >= 0 && k < fn->sizes.n ? fn->sizes.at[k].name : "?";
}

const char *
tir_scalar_name(const TirFn *fn, int64_t k)
{
    return k >= 0 && k < fn->scalars.n ? fn->scalars.at[k].name : "?";
}

const char *
tir_axis_name(const TirFn *fn, int64_t k)
{
    return k >= 0 && k < fn->grid.n ? fn->grid.at[k].name : "?";
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
    case HOST_FLOAT: tir_print_number(out, expr->number); return;
    case HOST_SIZE:
        buf_add(out, expr->index < fn->sizes.n ? fn->sizes.at[expr->index].name : "?");
        return;
    case HOST_DEVICE: buf_add(out, device_facts[expr->index].name); return;
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
