/* tiles_said.c - tables and remarks of what a search for tiles has tried. */
#include "compiler/choose/tiles_said.h"

void
tile_choice_print(const TilesTried *tried, const TileChoice *choice, int width, Buf *out)
{
    for (uint32_t j = 0; j < tried->autos && j < MAX_AUTO; j++)
        buf_printf(out, "%s=%-*d ", tried->names[j], width, choice->values[j]);
    buf_printf(out, "warps %u", choice->warps);
    if (choice->stages > 0)
        buf_printf(out, " stages %u", choice->stages);
}

/* The unit that is busy for longest. */
static const char *
bound_by(const CostUnits *units)
{
    const char *name = "products";
    double most = units->tensor;

    if (units->shared > most) {
        most = units->shared;
        name = "shared memory";
    }
    if (units->special + units->lanes > most) {
        most = units->special + units->lanes;
        name = "arithmetic";
    }
    return units->global > most ? "global memory" : name;
}

static const char *
figure_of(const TilesTried *tried)
{
    return tried->products ? "clocks of an SM for each 1024 multiply-adds"
                           : "clocks of a launch, over small and large sizes";
}

void
tiles_report(const TilesTried *tried, Buf *out)
{
    buf_printf(out, "choices for %s, estimated %s:\n", tried->kernel, figure_of(tried));
    for (uint32_t k = 0; k < tried->n; k++) {
        const TileChoice *choice = &tried->at[k];
        const Cost *cost = &choice->cost;
        const CostUnits *units = &cost->units;
        double each = cost->work > 0 ? 1024 / cost->work : 0;
        buf_add(out, k == 0 && cost->fits ? "  * " : "    ");
        tile_choice_print(tried, choice, 3, out);
        if (!cost->fits) {
            buf_printf(out, "  does not fit: %s; %d registers, %d bytes shared\n", cost->misfit,
                       cost->registers, cost->shared_bytes);
            continue;
        }
        if (!tried->products) {
            buf_printf(out, "  %7.0f: %d registers%s, %d on an SM\n", cost->per_work,
                       cost->registers, cost->spilled > 0 ? " (spills)" : "", cost->blocks);
            continue;
        }
        buf_printf(out,
                   "  %7.3f: products %.3f shared %.3f special %.3f lanes %.3f global %.3f "
                   "atomic %.3f barriers %.4f; %d registers%s, %d bytes shared, %d on an SM",
                   cost->per_work, each * units->tensor, each * units->shared,
                   each * units->special, each * units->lanes, each * units->global,
                   each * units->atomic, each * units->barriers, cost->registers,
                   cost->spilled > 0 ? " (spills)" : "", cost->shared_bytes, cost->blocks);
        if (cost->alive > 0)
            buf_printf(out, "; %d alive in its code", cost->alive);
        buf_char(out, '\n');
    }
}

void
tiles_remark(const TilesTried *tried, const PassContext *px, Span span)
{
    const TileChoice *best = &tried->at[0];
    Buf text;

    if (tried->n == 0 || !best->cost.fits)
        return;
    buf_init(&text, px->arena);
    tile_choice_print(tried, best, 0, &text);
    buf_printf(&text, ": %.*f %s", tried->products ? 2 : 0, best->cost.per_work, figure_of(tried));
    if (tried->products)
        buf_printf(&text, ", bound by %s", bound_by(&best->cost.units));
    if (tried->n > 1 && tried->at[1].cost.fits) {
        buf_printf(&text, "; the next of %u tried, ", tried->n);
        tile_choice_print(tried, &tried->at[1], 0, &text);
        buf_printf(&text, ", takes %.1f %% longer",
                   100 * (tried->at[1].cost.per_work / best->cost.per_work - 1));
    }
    diag_remark(px->diag, span, "kernel '%s': %s", tried->kernel, text.at);
    if (px->report != NULL)
        buf_printf(px->report, "  %s\n", text.at);
}
