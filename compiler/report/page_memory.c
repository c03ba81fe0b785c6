/* page_memory.c - the shared memory of a block as a picture: a box for each buffer at its place,
 * what lies over another in a row of its own. */
#include "compiler/report/page.h"

#include <string.h>

enum { WIDE = 1080, ROW = 26, LETTER = 7 };

static uint32_t
end_of(const TirShared *shared)
{
    return shared->offset + shared->bytes;
}

/* The first row in which nothing else lies where this buffer does. */
static uint32_t
row_of(const TirFn *fn, uint32_t k, const uint32_t *rows)
{
    for (uint32_t row = 0;; row++) {
        bool free = true;
        for (uint32_t j = 0; j < k && free; j++)
            free = rows[j] != row || end_of(fn->shared.at[j]) <= fn->shared.at[k]->offset ||
                   end_of(fn->shared.at[k]) <= fn->shared.at[j]->offset;
        if (free)
            return row;
    }
}

static void
draw_buffer(const TirShared *shared, uint32_t row, double scale, Buf *out)
{
    double x = shared->offset * scale, width = shared->bytes * scale;
    const char *name = shared->name == NULL ? "?" : shared->name;
    char *about = arena_printf(out->arena, "%s: %s[%d,%d] x %u at %u, %u bytes", name,
                               dtype_name(shared->dtype), shared->rows, shared->cols,
                               shared->stages, shared->offset, shared->bytes);

    buf_add(out, "<g><title>");
    page_escape(out, about, strlen(about));
    buf_printf(out, "</title><rect class=\"%s\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\"/>",
               row == 0 ? "buffer" : "over", x, row * ROW, width, ROW - 2);
    for (uint32_t stage = 1; stage < shared->stages; stage++)
        buf_printf(out, "<path stroke=\"#fff\" d=\"M%.1f %uv%d\"/>",
                   x + width * stage / shared->stages, row * ROW, ROW - 2);
    if ((double)strlen(name) * LETTER < width) {
        buf_printf(out, "<text x=\"%.1f\" y=\"%u\">", x + 3, row * ROW + 16);
        page_escape(out, name, strlen(name));
        buf_add(out, "</text>");
    }
    buf_add(out, "</g>\n");
}

/* What registers allow, and so what an SM has at once, page_code.c adds, when ptxas has said how
 * many a thread has: hence the comment. */
static void
blocks_of_sm(const TirFn *fn, const Chip *chip, uint32_t threads, uint32_t used, Buf *out)
{
    int32_t by_shared = chip->shared_per_sm / ((int32_t)used + chip->shared_reserved);
    int32_t by_threads = chip->threads_per_sm / (int32_t)threads;
    int32_t blocks = by_shared < by_threads ? by_shared : by_threads;

    blocks = blocks < chip->blocks_per_sm ? blocks : chip->blocks_per_sm;
    buf_printf(
        out,
        "<p>%s: an SM has room for %d block%s by shared memory, %d by threads (%u of %d)</p>\n"
        "<!-- %u threads of %s share %d registers, %d blocks, %d threads -->\n",
        fn->name, by_shared, by_shared == 1 ? "" : "s", by_threads, threads, chip->threads_per_sm,
        threads, fn->name, chip->registers_per_sm, blocks, chip->threads_per_sm);
}

void
page_memory(const TirFn *fn, const Target *target, uint32_t threads, Buf *out)
{
    uint32_t *rows = arena_array(out->arena, uint32_t, fn->shared.n + 1), n_rows = 1, used = 0;
    double scale = (double)WIDE / target->chip.shared_per_block;

    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *shared = fn->shared.at[k];
        rows[k] = row_of(fn, k, rows);
        n_rows = rows[k] + 1 > n_rows ? rows[k] + 1 : n_rows;
        used = end_of(shared) > used ? end_of(shared) : used;
    }
    used = fn->shared_bytes > used ? fn->shared_bytes : used;
    buf_printf(out,
               "<p>%s: %u bytes of %d</p>\n<svg class=\"memory\" width=\"%d\" height=\"%u\">\n"
               "<rect class=\"room\" width=\"%d\" height=\"%d\"/>\n",
               fn->name, used, target->chip.shared_per_block, WIDE, n_rows * ROW, WIDE, ROW - 2);
    for (uint32_t k = 0; k < fn->shared.n; k++)
        if (fn->shared.at[k]->bytes > 0)
            draw_buffer(fn->shared.at[k], rows[k], scale, out);
    buf_add(out, "</svg>\n");
    if (threads > 0)
        blocks_of_sm(fn, &target->chip, threads, used, out);
}
