/* tir_printer.h - inside the printer of tile IR.  Only tir_text*.c include it.
 */
#ifndef TILEC_IR_TIR_PRINTER_H
#define TILEC_IR_TIR_PRINTER_H

#include "compiler/ir/layout.h"
#include "compiler/ir/tir.h"

typedef struct Printer {
    const TirFn *fn;
    Buf *out;
    uint32_t *number; /* position of each value, by id */
    uint32_t next;
    uint32_t depth;
    VEC(const Layout *) layouts; /* the different ones, in order of first appearance */
    /* the kernel's place in its program; no file: it was not made from a program */
    SourcePlace from;
} Printer;

/* The parts that the files have in common (tir_text_parts.c).  A new line begins. */
void tir_print_indent(Printer *p);
void tir_print_number(Buf *out, double number);
/* at 57: where a range comes from; nothing if that is not known.  `at 57:9 of "softmax.tile"` where
 * the diagnostics want all places. */
void tir_print_place(Printer *p, Span span);
/* The name of a size, a scalar or an axis, or "?" when there is none: the verifier prints broken
 * functions, too. */
const char *tir_size_name(const TirFn *fn, int64_t k);
const char *tir_scalar_name(const TirFn *fn, int64_t k);
const char *tir_axis_name(const TirFn *fn, int64_t k);
/* The head of a kernel (tir_text_head.c): constants, sizes, tensors, scalars, the grid; then the
 * plan, layouts and buffers. */
void tir_print_interface(Printer *p);
void tir_print_schedule(Printer *p);

#endif
