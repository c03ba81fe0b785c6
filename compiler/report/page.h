/* page.h - one HTML page about a compilation: source, tile IR, PTX and machine code beside each
 * other, linked line by line; the schedule as a picture; what a launch is bound by; shared memory
 * and its banks; what --report and --remarks say.  For --emit=html.
 *
 * The page is self-contained: styles and script are in it, and nothing is fetched.  It is made from
 * the texts themselves, each of which names the source place of its lines, so it shows exactly what
 * the files contain.
 */
#ifndef TILEC_REPORT_PAGE_H
#define TILEC_REPORT_PAGE_H

#include "compiler/base/diag.h"
#include "compiler/ir/tir.h"
#include "compiler/report/after_ptxas.h"
#include "compiler/target.h"

typedef struct Page {
    const Diag *diag;        /* the files, and what was said */
    const char *path;        /* of the program */
    const char *options;     /* "sm_90, -O3" */
    const TirModule *module; /* behind the last pass; `diag` wants all places */
    const Target *target;
    const char *ptx;     /* with .loc lines */
    const char *picture; /* SVG: the schedules */
    const char *roofs;   /* HTML: what launches are bound by; "": not known */
    const char *report;
} Page;

/* Prints the page with an empty pane for the machine code. */
void page_print(const Page *page, Buf *out);

/* What only ptxas can provide. */
typedef struct PageCode {
    const char *listing;   /* of nvdisasm -g; NULL: there is none, */
    const char *missing;   /* and why */
    const PtxasSaid *said; /* NULL: ptxas did not run */
    const char *report;    /* what it comes to, as text; NULL: nothing */
} PageCode;

/* Prints `page` with the machine code in that pane. */
void page_add_code(const char *page, const PageCode *code, Buf *out);

/* ---- parts (page_text.c) ---- */

/* Text as HTML shows it. */
void page_escape(Buf *out, const char *text, size_t n);
/* A line of a pane, linked to a line of a source file; 0: to none. */
void page_line(Buf *out, uint32_t file, uint32_t line, const char *text, size_t n);
/* The number of the file that `path` names, as a tool may have made it absolute; 0: none. */
uint32_t page_file(const Diag *diag, const char *path, size_t n);
/* The shared memory of a block, drawn, and how many blocks of so many threads an SM has room for
 * (page_memory.c). */
void page_memory(const TirFn *fn, const Target *target, uint32_t threads, Buf *out);
/* The banks that its tiles lie in (page_banks.c). */
void page_banks(const TirFn *fn, Buf *out);

extern const char page_style[], page_script[]; /* page_browser.c */

#endif
