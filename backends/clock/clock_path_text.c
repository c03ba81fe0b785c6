/* clock_path_text.c - the critical path in words, and in JSON. */
#include "backends/clock/clock_path.h"

const char *
clock_path_name(Arena *arena, PathKind kind)
{
    static const char *const names[PATH_UNIT] = {
        "instructions", "issue slots", "shared pipes", "branches", "barriers",
        "mbarriers",    "wgmma waits", "copy waits",   "start",
    };

    if (kind < PATH_UNIT)
        return names[kind];
    if (kind < PATH_LATENCY)
        return clock_unit_name((ClockUnit)(kind - PATH_UNIT));
    if (kind == PATH_LATENCY + UNIT_ISSUE)
        return "other latencies";
    return arena_printf(arena, "latency of %s", clock_unit_name((ClockUnit)(kind - PATH_LATENCY)));
}

/* The largest first; gives how much of them was left out. */
static double
add_parts(const double part[PATH_KINDS], double least, bool percent, double of, Buf *out)
{
    bool done[PATH_KINDS] = {false};
    double rest = 0;

    for (uint32_t n = 0; n < PATH_KINDS; n++) {
        uint32_t most = PATH_KINDS;
        for (uint32_t k = 0; k < PATH_KINDS; k++) {
            if (!done[k] && (most == PATH_KINDS || part[k] > part[most]))
                most = k;
        }
        done[most] = true;
        if (part[most] < least || part[most] <= 0) {
            rest += part[most];
            continue;
        }
        buf_printf(out, "%s %s %.0f%s", n ? "," : "", clock_path_name(out->arena, (PathKind)most),
                   percent ? 100 * part[most] / of : part[most], percent ? " %" : "");
    }
    return rest;
}

static void
print_piece(const PathPiece *p, Buf *out)
{
    if (p->actor >= PATH_ACTOR_UNIT)
        buf_printf(out, "    %6.0f %s:", p->clocks,
                   clock_unit_name((ClockUnit)(p->actor - PATH_ACTOR_UNIT)));
    else
        buf_printf(out, "    %6.0f warps %u to %u:", p->clocks, 4 * p->actor, 4 * p->actor + 3);
    double rest = add_parts(p->kind, 0.03 * p->clocks, false, p->clocks, out);
    if (rest >= 1)
        buf_printf(out, ", other %.0f", rest);
    buf_char(out, '\n');
}

void
clock_path_print(const ClockPath *path, bool all, Buf *out)
{
    if (path->loop)
        buf_printf(out,
                   "  critical path of an iteration of %.0f clocks (the loop at line %u of PTX, "
                   "warp %u):",
                   path->clocks, (unsigned)path->line, (unsigned)path->warp);
    else
        buf_printf(out, "  critical path of the launch, %.0f clocks:", path->clocks);
    double rest = add_parts(path->part, 0.02 * path->clocks, true, path->clocks, out);
    if (rest >= 0.005 * path->clocks)
        buf_printf(out, ", other %.0f %%", 100 * rest / path->clocks);
    buf_char(out, '\n');
    if (!all)
        return;
    buf_printf(out, "  one of %.0f clocks, in order:\n", path->one_to - path->one_from);
    for (uint32_t k = 0; k < path->pieces.n; k++)
        print_piece(&path->pieces.at[k], out);
}

static void
json_parts(const double part[PATH_KINDS], Buf *out)
{
    bool more = false;

    buf_add(out, "{");
    for (uint32_t k = 0; k < PATH_KINDS; k++) {
        if (part[k] <= 0)
            continue;
        buf_printf(out, "%s\"%s\": %.1f", more ? ", " : "",
                   clock_path_name(out->arena, (PathKind)k), part[k]);
        more = true;
    }
    buf_add(out, "}");
}

void
clock_path_json(const ClockPath *path, Buf *out)
{
    buf_printf(out, "\"path\": {\"loop\": %s, \"line\": %u, \"warp\": %u, \"clocks\": %.1f, ",
               path->loop ? "true" : "false", (unsigned)path->line, (unsigned)path->warp,
               path->clocks);
    buf_printf(out, "\"turns\": %u, \"part\": ", (unsigned)path->turns);
    json_parts(path->part, out);
    buf_add(out, ", \"pieces\": [");
    for (uint32_t k = 0; k < path->pieces.n; k++) {
        const PathPiece *p = &path->pieces.at[k];
        buf_printf(out, "%s{\"clocks\": %.1f, ", k ? ", " : "", p->clocks);
        if (p->actor >= PATH_ACTOR_UNIT)
            buf_printf(out, "\"unit\": \"%s\", ",
                       clock_unit_name((ClockUnit)(p->actor - PATH_ACTOR_UNIT)));
        else
            buf_printf(out, "\"first\": %u, \"last\": %u, ", 4 * p->actor, 4 * p->actor + 3);
        buf_add(out, "\"part\": ");
        json_parts(p->kind, out);
        buf_add(out, "}");
    }
    buf_add(out, "]}");
}
