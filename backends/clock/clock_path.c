/* clock_path.c - the critical path of an iteration.
 *
 * Needs a log (clock_log.h).  Finds the loop in which the warps that issue most spend the launch,
 * takes turns from the middle of its longest steady run, and walks back over causes from the last
 * one's beginning to the first one's. Leaves where that time went, and of one turn the pieces in
 * order.
 */
#include "backends/clock/clock_path.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_TURNS = 4, MOST_TURNS = 16, MOST_PIECES = 10, WARPS_OF_CLUSTER = 1024 };

/* ---- the loop ---- */

typedef struct LoopRun { /* turns of one warp in one loop, one after the other */
    uint32_t first, n;   /* in the sorted turns */
    double gap, covers;  /* clocks of a turn, of all of them */
} LoopRun;

static int
by_loop(const void *a, const void *b)
{
    const PathTurn *x = a, *y = b;

    if (x->warp != y->warp)
        return (x->warp > y->warp) - (x->warp < y->warp);
    if (x->insn != y->insn)
        return (x->insn > y->insn) - (x->insn < y->insn);
    return (x->node > y->node) - (x->node < y->node);
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
turn_at(const ClockLog *log, const PathTurn *turn)
{
    return log->nodes.at[turn->node - 1].at;
}

/* Of the turns of one loop: the longest run of those that take about as long as the median one. */
static LoopRun
steady_run(Arena *arena, const ClockLog *log, const PathTurn *turns, uint32_t first, uint32_t n)
{
    LoopRun best = {.first = first};

    if (n < LEAST_TURNS)
        return best;
    double *gaps = arena_array(arena, double, n);
    for (uint32_t k = 0; k + 1 < n; k++)
        gaps[k] = turn_at(log, &turns[first + k + 1]) - turn_at(log, &turns[first + k]);
    double *sorted = arena_copy(arena, gaps, (n - 1) * sizeof *gaps);
    qsort(sorted, n - 1, sizeof *sorted, compare_doubles);
    best.gap = sorted[(n - 1) / 2];
    for (uint32_t k = 0, from = 0; k < n; k++) {
        if (k + 1 < n && gaps[k] <= 1.5 * best.gap) {
            best.covers += gaps[k];
            continue;
        }
        if (k - from > best.n) {
            best.first = first + from;
            best.n = k - from; /* whole turns */
        }
        from = k + 1;
    }
    return best;
}

static bool
is_busy_group(const ClockResult *result, uint32_t group)
{
    double most = 0;

    for (uint32_t g = 0; g < result->groups.n; g++)
        most = result->groups.at[g].cycles[STALL_ISSUED] > most
                   ? result->groups.at[g].cycles[STALL_ISSUED]
                   : most;
    return group < result->groups.n && result->groups.at[group].cycles[STALL_ISSUED] > 0.6 * most;
}

/* The innermost loop that takes a third of the launch, or of a block's part of it; `turns` are
 * sorted. */
static LoopRun
main_loop(Arena *arena, const ClockLog *log, const ClockResult *result, const PathTurn *turns)
{
    LoopRun best = {0};
    double rounds = result->blocks > result->resident && result->resident
                        ? (double)result->blocks / result->resident
                        : 1;
    double least = (double)result->cycles / rounds / 3;

    for (uint32_t first = 0, end; first < log->turns.n; first = end) {
        const PathTurn *t = &turns[first];
        for (end = first + 1; end < log->turns.n; end++) {
            if (turns[end].warp != t->warp || turns[end].insn != t->insn)
                break;
        }
        if (!is_busy_group(result, t->warp % WARPS_OF_CLUSTER / 4))
            continue;
        LoopRun run = steady_run(arena, log, turns, first, end - first);
        if (run.n < LEAST_TURNS - 1 || run.covers < least)
            continue;
        if (best.n == 0 || run.gap < 0.9 * best.gap)
            best = run;
    }
    return best;
}

/* ---- the walk ---- */

bool
clock_path_step(const ClockLog *log, uint32_t *node, double *at, PathStep *out)
{
    if (*node == 0)
        return false;
    const PathNode *n = &log->nodes.at[*node - 1];
    double since = n->cause ? log->nodes.at[n->cause - 1].at : 0;
    bool unit = n->kind >= PATH_UNIT && n->kind < PATH_LATENCY;

    *out = (PathStep){.from = since < *at ? since : *at,
                      .to = *at,
                      .actor = unit ? PATH_ACTOR_UNIT + n->kind - PATH_UNIT : n->group,
                      .group = n->group,
                      .kind = n->kind};
    *at = out->from;
    *node = n->cause;
    return true;
}

static void
add_piece(ClockPath *path, Arena *arena, const PathStep *step, double clocks)
{
    if (path->pieces.n == 0 || path->pieces.at[path->pieces.n - 1].actor != step->actor) {
        PathPiece fresh = {.actor = step->actor};
        vec_push(arena, &path->pieces, fresh);
    }
    PathPiece *piece = &path->pieces.at[path->pieces.n - 1];
    piece->clocks += clocks;
    piece->kind[step->kind] += clocks;
}

/* Pieces that are small go to the one beside, until there are few. */
static void
join_pieces(ClockPath *path)
{
    while (path->pieces.n > 1) {
        PathPiece *p = path->pieces.at;
        uint32_t least = 0, into;
        for (uint32_t k = 1; k < path->pieces.n; k++)
            least = p[k].clocks < p[least].clocks ? k : least;
        if (path->pieces.n <= MOST_PIECES && p[least].clocks > 0.02 * path->clocks)
            return;
        into = least == 0 ? 1 : least - 1;
        if (least > 0 && least + 1 < path->pieces.n && p[least + 1].clocks > p[into].clocks)
            into = least + 1;
        p[into].clocks += p[least].clocks;
        for (uint32_t k = 0; k < PATH_KINDS; k++)
            p[into].kind[k] += p[least].kind[k];
        memmove(p + least, p + least + 1, (path->pieces.n - least - 1) * sizeof *p);
        path->pieces.n--;
        for (uint32_t k = 0; k + 1 < path->pieces.n;) { /* neighbours of one actor */
            if (p[k].actor != p[k + 1].actor) {
                k++;
                continue;
            }
            p[k].clocks += p[k + 1].clocks;
            for (uint32_t q = 0; q < PATH_KINDS; q++)
                p[k].kind[q] += p[k + 1].kind[q];
            memmove(p + k + 1, p + k + 2, (path->pieces.n - k - 2) * sizeof *p);
            path->pieces.n--;
        }
    }
}

static void
reverse_pieces(ClockPath *path)
{
    for (uint32_t k = 0; k < path->pieces.n / 2; k++) {
        PathPiece keep = path->pieces.at[k];
        path->pieces.at[k] = path->pieces.at[path->pieces.n - 1 - k];
        path->pieces.at[path->pieces.n - 1 - k] = keep;
    }
}

/* A stretch of time. */
typedef struct Window {
    double from, to;
} Window;

/* From a node back to the window's beginning: what lies in the window.  `pieces`: NULL, or their
 * path. */
static void
walk(Arena *arena, const ClockLog *log, uint32_t node, Window in, double part[PATH_KINDS],
     ClockPath *pieces)
{
    double at = log->nodes.at[node - 1].at;
    PathStep step;

    for (uint32_t k = 0; k < PATH_KINDS; k++)
        part[k] = 0;
    while (at > in.from && clock_path_step(log, &node, &at, &step)) {
        double to = step.to < in.to ? step.to : in.to,
               from = step.from > in.from ? step.from : in.from;
        if (from >= to)
            continue;
        part[step.kind] += to - from;
        if (pieces != NULL)
            add_piece(pieces, arena, &step, to - from);
    }
}

/* The turn that is most like the mean one, and its pieces. */
static void
take_one(Arena *arena, const ClockLog *log, uint32_t last, const PathTurn *turns, ClockPath *path)
{
    double part[PATH_KINDS], least = 1e300;

    for (uint32_t k = 0; path->loop && k < path->turns; k++) {
        Window in = {turn_at(log, &turns[k]), turn_at(log, &turns[k + 1])};
        double differs = 0;
        walk(arena, log, last, in, part, NULL);
        for (uint32_t q = 0; q < PATH_KINDS; q++)
            differs += part[q] > path->part[q] ? part[q] - path->part[q] : path->part[q] - part[q];
        if (differs >= least)
            continue;
        least = differs;
        path->one_from = in.from;
        path->one_to = in.to;
    }
    walk(arena, log, last, (Window){path->one_from, path->one_to}, part, path);
    join_pieces(path);
    reverse_pieces(path);
}

bool
clock_path(Arena *arena, const ClockLog *log, const ClockResult *result, ClockPath *out)
{
    *out = (ClockPath){.turns = 1};
    if (log->nodes.n == 0)
        return false;
    PathTurn *turns = arena_array(arena, PathTurn, log->turns.n + 1);
    if (log->turns.n)
        memcpy(turns, log->turns.at, log->turns.n * sizeof *turns);
    qsort(turns, log->turns.n, sizeof *turns, by_loop);
    LoopRun run = main_loop(arena, log, result, turns);
    const PathTurn *first = &turns[run.first];
    uint32_t last = log->nodes.n;
    out->loop = run.n > 0;
    if (out->loop) {
        uint32_t n = run.n / 2 < MOST_TURNS ? run.n / 2 : MOST_TURNS;
        first += (run.n - n) / 2;
        last = first[n].node;
        out->turns = n;
        out->line = first->line;
        out->warp = first->warp % WARPS_OF_CLUSTER;
        out->from = turn_at(log, first);
    } else {
        for (uint32_t k = 0; k < log->nodes.n; k++)
            last = log->nodes.at[k].at > log->nodes.at[last - 1].at ? k + 1 : last;
    }
    out->last = last;
    out->to = log->nodes.at[last - 1].at;
    out->one_to = out->to;
    out->clocks = (out->to - out->from) / out->turns;
    walk(arena, log, last, (Window){out->from, out->to}, out->part, NULL);
    for (uint32_t k = 0; k < PATH_KINDS; k++)
        out->part[k] /= out->turns;
    take_one(arena, log, last, first, out);
    return true;
}
