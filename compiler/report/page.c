/* page.c - the panes of the page of --emit=html.  Each line of a text is linked to the line of the
 * source that it comes from: of tile IR by what its printer adds (`at 57:9`), of PTX by .loc, of
 * machine code by nvdisasm's comments. */
#include "compiler/report/page.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char code_room[] = "<!-- machine code -->\n";

/* A line of a source file; file 0: none. */
typedef struct Place {
    uint32_t file, line;
} Place;

static void
open_pane(Buf *out, const char *id, const char *title)
{
    buf_printf(out, "<section class=\"pane\" id=\"%s\"><h2>%s</h2><div class=\"lines\">\n", id,
               title);
}

static void
close_pane(Buf *out)
{
    buf_add(out, "</div></section>\n");
}

static void
source_pane(const Page *page, Buf *out)
{
    open_pane(out, "source", "Source");
    for (uint32_t k = 0; k < page->diag->files.n; k++) {
        const SourceFile *file = page->diag->files.at[k];
        uint32_t line = 1;
        buf_add(out, "<b>");
        page_escape(out, file->path, strlen(file->path));
        buf_add(out, "</b>\n");
        for (const char *at = file->text; *at != '\0'; line++) {
            size_t n = strcspn(at, "\n");
            buf_printf(out, "<div data-s=\"%u:%u\"><i>%u</i>", file->index, line, line);
            page_escape(out, at, n);
            buf_add(out, "</div>\n");
            at += n + (at[n] == '\n');
        }
    }
    close_pane(out);
}

/* ---- tile IR ---- */

/* ` at 57:9` or ` at 57:9 of "path"` at the end of a line, but for ` {`: where it comes from, and
 * how long the line is without that. */
static Place
place_of_operation(const Page *page, uint32_t own, const char *text, size_t *n)
{
    char *line = arena_strndup(page->diag->arena, text, *n), *at = NULL, *end;

    for (char *next = line; (next = strstr(next, " at ")) != NULL; next++)
        if (isdigit((unsigned char)next[strlen(" at ")]))
            at = next;
    if (at == NULL)
        return (Place){0};
    Place place = {own, (uint32_t)strtoul(at + strlen(" at "), &end, 10)};
    if (*end != ':')
        return (Place){0};
    strtoul(end + 1, &end, 10);
    if (strncmp(end, " of \"", 5) == 0) {
        size_t length = strcspn(end + 5, "\"");
        place.file = page_file(page->diag, end + 5, length);
        end += 5 + length + (end[5 + length] == '"');
    }
    if (*end == '\0')
        *n = (size_t)(at - line);
    return place;
}

static void
tile_ir_pane(const Page *page, Buf *out)
{
    static const char from[] = "    from \"";
    Buf text;
    uint32_t own = 0;

    buf_init(&text, out->arena);
    tir_print(page->module, &text);
    open_pane(out, "tile-ir", "Tile IR after the last pass");
    for (const char *at = text.at == NULL ? "" : text.at; *at != '\0';) {
        size_t n = strcspn(at, "\n"), shown = n;
        Place place = place_of_operation(page, own, at, &shown);
        /* the kernel's own place; those in its file do not name it */
        if (strncmp(at, from, strlen(from)) == 0) {
            const char *path = at + strlen(from);
            size_t length = strcspn(path, "\"\n");
            own = page_file(page->diag, path, length);
            place = (Place){
                own, path[length] == '"' ? (uint32_t)strtoul(path + length + 1, NULL, 10) : 0};
        }
        page_line(out, place.file, place.line, at, shown);
        at += n + (at[n] == '\n');
    }
    close_pane(out);
}

/* ---- PTX ---- */

enum { MOST_FILES = 64 };

static void
ptx_pane(const Page *page, Buf *out)
{
    uint32_t files[MOST_FILES] = {0}; /* the numbers of .file lines */
    Place place = {0};

    open_pane(out, "ptx", "PTX");
    for (const char *at = page->ptx; *at != '\0';) {
        size_t n = strcspn(at, "\n");
        const char *text = arena_strndup(out->arena, at, n);
        unsigned number, line;
        int quote = 0;
        if (sscanf(text, ".file %u %n", &number, &quote) == 1 && quote > 0 && number < MOST_FILES)
            files[number] = page_file(page->diag, at + quote + 1, n - (size_t)quote - 2);
        else if (sscanf(text, " .loc %u %u", &number, &line) == 2)
            place = (Place){number < MOST_FILES ? files[number] : 0, line};
        else
            page_line(out, place.file, place.line, at, n);
        if (*at == '}') /* the end of a kernel */
            place = (Place){0};
        at += n + (at[n] == '\n');
    }
    close_pane(out);
}

/* ---- the rest ---- */

/* Each message is linked to the line that it is about. */
static void
messages_section(const Page *page, Buf *out)
{
    Buf text;

    buf_init(&text, out->arena);
    diag_print(page->diag, &text);
    if (text.n == 0)
        return;
    buf_add(out, "<section id=\"remarks\"><h2>What was decided, and why</h2><div class=\"wide\">\n");
    for (const char *at = text.at == NULL ? "" : text.at; *at != '\0';) {
        size_t n = strcspn(at, "\n"), path = strcspn(at, ":\n");
        uint32_t line = at[path] == ':' ? (uint32_t)strtoul(at + path + 1, NULL, 10) : 0;
        page_line(out, line == 0 ? 0 : page_file(page->diag, at, path), line, at, n);
        at += n + (at[n] == '\n');
    }
    buf_add(out, "</div></section>\n");
}

static void
text_section(Buf *out, const char *id, const char *title, const char *text)
{
    if (text[0] == '\0')
        return;
    buf_printf(out, "<section id=\"%s\"><h2>%s</h2><pre class=\"wide\">", id, title);
    page_escape(out, text, strlen(text));
    buf_add(out, "</pre></section>\n");
}

/* Of a block, as the PTX says; 0: it does not. */
static uint32_t
threads_of(const Page *page, const char *kernel)
{
    const char *entry = arena_printf(page->diag->arena, ".entry %s(", kernel);
    const char *at = strstr(page->ptx, entry), *n = at == NULL ? NULL : strstr(at, "ntid ");

    return n == NULL ? 0 : (uint32_t)strtoul(n + strlen("ntid "), NULL, 10);
}

void
page_print(const Page *page, Buf *out)
{
    const char *picture = strstr(page->picture, "<svg");

    buf_add(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                 "<meta name=\"viewport\" content=\"width=device-width\"><title>");
    page_escape(out, page->path, strlen(page->path));
    buf_printf(out, "</title><style>%s</style></head><body>\n<h1>", page_style);
    page_escape(out, page->path, strlen(page->path));
    buf_add(out, "</h1>\n<p>");
    page_escape(out, page->options, strlen(page->options));
    buf_add(
        out,
        ". Point at a line: what it becomes lights up. Click: it stays, and comes into view.</p>\n"
        "<main class=\"panes\">\n");
    source_pane(page, out);
    tile_ir_pane(page, out);
    ptx_pane(page, out);
    buf_add(out, code_room);
    buf_add(out, "</main>\n");
    if (picture != NULL)
        buf_printf(out,
                   "<section id=\"timeline\"><h2>Roles, channels and barriers</h2>"
                   "<div class=\"wide\">\n%s</div></section>\n",
                   picture);
    if (page->roofs[0] != '\0')
        buf_printf(
            out,
            "<section id=\"roofline\"><h2>What a launch is bound by</h2>"
            "<p><i class=\"key best\"></i>at best <i class=\"key predicted\"></i>as it is predicted; "
            "lines: what each unit of the chip allows at its full clock</p>"
            "<div class=\"wide\">\n%s</div></section>\n",
            page->roofs);
    buf_add(out, "<section id=\"memory\"><h2>Shared memory of a block</h2>\n"
                 "<p><i class=\"key buffer\"></i>a buffer, divided where its stages begin "
                 "<i class=\"key over\"></i>over another one, when that is not needed</p>\n");
    for (uint32_t k = 0; k < page->module->fns.n; k++) {
        page_memory(page->module->fns.at[k], page->target,
                    threads_of(page, page->module->fns.at[k]->name), out);
        page_banks(page->module->fns.at[k], out);
    }
    buf_add(out, "</section>\n");
    text_section(out, "report", "What was chosen, and what the code is made of", page->report);
    messages_section(page, out);
    buf_printf(out, "<script>\n%s</script>\n</body></html>\n", page_script);
}
