/* page_code.c - the machine code in the page of --emit=html, and what ptxas says of it. */
#include "compiler/report/page.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char code_room[] = "<!-- machine code -->\n", memory[] = "<section id=\"memory\">";

enum { MOST_REGISTERS = 255 };

/* The number that the page has for the file `path`, which may have become absolute; 0: none.  Its
 * source pane names them in order. */
static uint32_t
file_in_page(const char *page, const char *path, size_t n, Arena *arena)
{
    const char *end = strstr(page, "</section>");
    uint32_t number = 0;

    for (const char *at = page; (at = strstr(at, "<b>")) != NULL && at < end;) {
        Buf name;
        size_t length = strcspn(at += strlen("<b>"), "\n") - strlen("</b>");
        number++;
        for (size_t from = 0; from < n; from++) { /* a tail of the path, from a slash on */
            if (from > 0 && path[from - 1] != '/')
                continue;
            buf_init(&name, arena);
            page_escape(&name, path + from, n - from);
            if (name.n == length && memcmp(name.at, at, length) == 0)
                return number;
        }
    }
    return 0;
}

/* Instructions and labels; the directives of the listing say nothing here. */
static bool
is_shown(const char *line, size_t n)
{
    size_t blanks = strspn(line, " \t");

    return n > blanks &&
           (strncmp(line + blanks, "/*", 2) == 0 || (line[n - 1] == ':' && line[0] != '\t'));
}

static void
listing_pane(const char *page, const char *listing, Buf *out)
{
    static const char comment[] = "//## File \"";
    uint32_t file = 0, line = 0;

    for (const char *at = listing; *at != '\0';) {
        size_t n = strcspn(at, "\n"), blanks = strspn(at, " \t");
        const char *text = at + blanks;
        if (strncmp(text, comment, strlen(comment)) == 0) {
            const char *path = text + strlen(comment);
            size_t length = strcspn(path, "\"\n");
            const char *number = strstr(path + length, "line ");
            file = file_in_page(page, path, length, out->arena);
            line = number == NULL ? 0 : (uint32_t)strtoul(number + strlen("line "), NULL, 10);
        } else if (is_shown(at, n)) {
            page_line(out, file, line, text, n - blanks);
        }
        if (strncmp(text, ".section", strlen(".section")) == 0)
            file = 0;
        at += n + (at[n] == '\n');
    }
}

/* How many blocks the registers of an SM are enough for, and what it has at once by all of its
 * limits (page_memory.c). */
static void
blocks_of_sm(const char *page, const PtxasKernel *kernel, Buf *out)
{
    const char *said = arena_printf(out->arena, " threads of %s share ", kernel->name);
    const char *at = strstr(page, said), *begin = at;
    uint32_t each = (kernel->registers + 7) / 8 * 8, of_sm, room, most;

    while (begin != NULL && begin > page && isdigit((unsigned char)begin[-1]))
        begin--;
    uint32_t threads = at == NULL ? 0 : (uint32_t)strtoul(begin, NULL, 10);
    if (threads == 0 || each == 0 ||
        sscanf(at + strlen(said), "%u registers, %u blocks, %u threads", &of_sm, &room, &most) != 3)
        return;
    uint32_t blocks = of_sm / (threads * each), least = blocks < room ? blocks : room;
    buf_printf(out, "<p>%s: an SM has registers for %u block%s</p>\n", kernel->name, blocks,
               blocks == 1 ? "" : "s");
    buf_printf(
        out,
        "<p><meter max=\"%u\" value=\"%u\"></meter> %s: occupancy %u %%, %u block%s of %u threads "
        "on an SM, limited by %s</p>\n",
        most, least * threads, kernel->name, 100 * least * threads / most, least,
        least == 1 ? "" : "s", threads,
        blocks < room   ? "registers"
        : blocks > room ? "shared memory or threads"
                        : "registers and shared memory or threads");
}

static void
registers(const char *page, const PtxasSaid *said, Buf *out)
{
    for (uint32_t k = 0; k < said->kernels.n; k++) {
        const PtxasKernel *kernel = &said->kernels.at[k];
        buf_printf(
            out,
            "<p><meter max=\"%d\" high=\"%d\" value=\"%u\"></meter> %s: %u registers of a thread, ",
            MOST_REGISTERS, MOST_REGISTERS - 1, kernel->registers, kernel->name, kernel->registers);
        buf_printf(out, "%u bytes spilled, %u loaded again, %u barriers</p>\n",
                   kernel->spill_stores, kernel->spill_loads, kernel->barriers);
        blocks_of_sm(page, kernel, out);
    }
}

void
page_add_code(const char *page, const PageCode *code, Buf *out)
{
    const char *room = strstr(page, code_room), *behind = room + strlen(code_room);
    const char *figures = strstr(behind, memory);

    buf_addn(out, page, (size_t)(room - page));
    buf_printf(out,
               "<section class=\"pane%s\" id=\"code\"><h2>Machine code</h2><div class=\"lines\">\n",
               code->listing == NULL ? " bare" : "");
    if (code->listing != NULL)
        listing_pane(page, code->listing, out);
    else
        page_line(out, 0, 0, code->missing, strlen(code->missing));
    buf_add(out, "</div></section>\n");
    buf_addn(out, behind, (size_t)(figures - behind));
    if (code->said == NULL && code->report == NULL) {
        buf_add(out, figures);
        return;
    }
    buf_add(out, "<section id=\"registers\"><h2>Registers</h2>\n");
    if (code->said != NULL)
        registers(page, code->said, out);
    buf_add(out, "<pre class=\"wide\">");
    if (code->report != NULL)
        page_escape(out, code->report, strlen(code->report));
    buf_add(out, "</pre></section>\n");
    buf_add(out, figures);
}
