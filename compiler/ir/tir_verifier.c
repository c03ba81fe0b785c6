/* tir_verifier.c - how the verifier of tile IR says what is broken. */
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void
describe_op(Buf *out, const TirOp *op)
{
    buf_printf(out, "'%s'", tir_op_info(op->op)->text);
    if (op->n_results > 0)
        buf_printf(out, " (which makes %s#%" PRIu32 ")",
                   op->results[0]->name == NULL ? "" : op->results[0]->name, op->results[0]->id);
}

void
tir_fault(Verifier *v, const TirOp *op, const char *format, ...)
{
    char text[400];
    va_list args;

    v->ok = false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_printf(v->out, "kernel %s: ", v->fn->name);
    if (op != NULL) {
        describe_op(v->out, op);
        buf_add(v->out, ": ");
        if (op->span.lo != 0 && v->fn->diag != NULL) {
            SourcePlace place = diag_place(v->fn->diag, op->span.lo);
            if (place.file != NULL)
                buf_printf(v->out, "(%s:%" PRIu32 ") ", place.file->path, place.line);
        }
    }
    buf_printf(v->out, "%s\n", text);
}
