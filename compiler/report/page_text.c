/* page_text.c - text as HTML, and lines that are linked to the source. */
#include "compiler/report/page.h"

#include <string.h>

void
page_escape(Buf *out, const char *text, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        unsigned char c = (unsigned char)text[k];
        switch (c) {
        case '&': buf_add(out, "&amp;"); break;
        case '<': buf_add(out, "&lt;"); break;
        case '>': buf_add(out, "&gt;"); break;
        case '"': buf_add(out, "&quot;"); break;
        default: buf_char(out, c < ' ' && c != '\t' && c != '\n' ? ' ' : (char)c); break;
        }
    }
}

void
page_line(Buf *out, uint32_t file, uint32_t line, const char *text, size_t n)
{
    if (file != 0)
        buf_printf(out, "<div data-s=\"%u:%u\">", file, line);
    else
        buf_add(out, "<div>");
    page_escape(out, text, n);
    buf_add(out, n == 0 ? " </div>\n" : "</div>\n"); /* an empty one has no height */
}

uint32_t
page_file(const Diag *diag, const char *path, size_t n)
{
    for (uint32_t k = 0; k < diag->files.n; k++) {
        const SourceFile *file = diag->files.at[k];
        size_t length = strlen(file->path);
        bool ends = n >= length && memcmp(path + n - length, file->path, length) == 0;
        if (ends && (n == length || path[n - length - 1] == '/'))
            return file->index;
    }
    return 0;
}
