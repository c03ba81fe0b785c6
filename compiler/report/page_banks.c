/* page_banks.c - bank conflicts as a picture: for each buffer of tiles, which banks its first eight
 * rows lie in.
 *
 * Matrices are read and written eight rows of 16 bytes at a time (ldmatrix, stmatrix, the operands
 * of wgmma and tcgen05). A pass of shared memory serves 128 bytes, eight groups of four banks:
 * eight pieces in eight groups take one pass.  The picture has a column for each group; a piece is
 * drawn where it lies, with the number of its column in the buffer, those of the first column full,
 * red where two of them are in one group.
 */
#include "compiler/report/page.h"

#include <string.h>

#include "compiler/ir/layout.h"

enum { ROWS = 8, PIECE = 16, GROUPS = 8, WIDE = 18, HIGH = 13, CAPTION = 32 };

static int32_t
group_of(const SharedLayout *layout, int32_t row, int32_t piece)
{
    return shared_offset(layout, row, piece * PIECE) / PIECE % GROUPS;
}

/* Passes beyond the fewest for all pieces of eight rows. */
static int32_t
conflicts_of(const SharedLayout *layout)
{
    int32_t at[ROWS], extra = 0;

    for (int32_t piece = 0; piece < layout->pitch / PIECE; piece++) {
        for (int32_t row = 0; row < ROWS; row++)
            at[row] = shared_offset(layout, row, piece * PIECE);
        extra += shared_conflicts(at, ROWS, PIECE);
    }
    return extra;
}

static void
draw_piece(const SharedLayout *layout, int32_t row, int32_t piece, double x, Buf *out)
{
    int32_t group = group_of(layout, row, piece), same = 0;
    double left = x + group * WIDE;

    for (int32_t other = 0; other < ROWS; other++)
        same += group_of(layout, other, piece) == group;
    buf_printf(out,
               "<rect class=\"%s\" x=\"%.0f\" y=\"%d\" width=\"%d\" height=\"%d\"/>"
               "<text x=\"%.0f\" y=\"%d\">%d</text>\n",
               piece > 0  ? "piece"
               : same > 1 ? "clash"
                          : "first",
               left, row * HIGH, WIDE - 1, HIGH - 1, left + 4, row * HIGH + 10, piece);
}

static void
draw_buffer(const TirShared *shared, double x, Buf *out)
{
    const SharedLayout *layout = shared->layout;
    int32_t pieces = layout->pitch / PIECE, extra = conflicts_of(layout);

    buf_add(out, "<g><title>");
    page_escape(out, shared->name, strlen(shared->name));
    buf_printf(
        out, ": eight rows of each of %d columns of 16 bytes take %d passes, at best %d</title>\n",
        pieces, pieces + extra, pieces);
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t piece = 0; piece < (pieces < GROUPS ? pieces : GROUPS); piece++)
            draw_piece(layout, row, piece, x, out);
    buf_printf(out, "<text x=\"%.0f\" y=\"%d\">", x, ROWS * HIGH + 12);
    page_escape(out, shared->name, strlen(shared->name));
    buf_printf(out, "</text><text class=\"%s\" x=\"%.0f\" y=\"%d\">", extra > 0 ? "bad" : "good", x,
               ROWS * HIGH + 26);
    if (extra > 0)
        buf_printf(out, "%d for %d passes", pieces + extra, pieces);
    else
        buf_add(out, "no conflicts");
    buf_add(out, "</text></g>\n");
}

static bool
is_drawn(const TirShared *shared)
{
    return shared->layout != NULL && shared->name != NULL && shared->bytes > 0 &&
           shared->layout->rows >= ROWS && shared->layout->pitch >= PIECE;
}

void
page_banks(const TirFn *fn, Buf *out)
{
    enum { STEP = GROUPS * WIDE + 24 };
    uint32_t n = 0;

    for (uint32_t k = 0; k < fn->shared.n; k++)
        n += is_drawn(fn->shared.at[k]);
    if (n == 0)
        return;
    buf_printf(
        out,
        "<p>%s: banks of shared memory, in groups of four, and which columns of 16 bytes of the first eight "
        "rows lie there: <i class=\"key first\"></i>the first column <i class=\"key piece\"></i>others "
        "<i class=\"key clash\"></i>two of the first in one group</p>\n<svg class=\"banks\" width=\"%u\" height=\"%d\">\n",
        fn->name, n * STEP, ROWS * HIGH + CAPTION);
    n = 0;
    for (uint32_t k = 0; k < fn->shared.n; k++)
        if (is_drawn(fn->shared.at[k]))
            draw_buffer(fn->shared.at[k], STEP * n++, out);
    buf_add(out, "</svg>\n");
}
