/* clock_log.c - notes what instructions waited for while a replay runs (clock_log.h). */
#include "backends/clock/clock_log.h"

#include "backends/clock/clock_state.h"

enum { WARPS_OF_CLUSTER = 1024, FROM_PTX = 1u << 31 };

static uint32_t
add_node(ClockLog *log, PathNode node)
{
    if (log->nodes.n >= MOST_NODES)
        return 0;
    vec_push(log->arena, &log->nodes, node);
    return log->nodes.n;
}

static void
add_span(ClockLog *log, PathSpan span)
{
    if (span.from < log->to && span.to > log->from && span.to > span.from)
        vec_push(log->arena, &log->spans, span);
}

void
clock_log_unit(ClockLog *log, const ReplayWarp *w, ClockUnit unit, double from, double to)
{
    if (w->sm == 0)
        add_span(log, (PathSpan){.from = from,
                                 .to = to,
                                 .unit = (uint8_t)unit,
                                 .group = (uint8_t)w->group,
                                 .scheduler = (uint8_t)w->scheduler});
}

uint32_t
clock_log_op(ClockLog *log, const ReplayWarp *w, ClockUnit unit, double end, uint32_t by,
             uint32_t insn)
{
    return add_node(log, (PathNode){.at = end,
                                    .cause = by,
                                    .insn = insn,
                                    .kind = (uint8_t)(PATH_UNIT + unit),
                                    .group = (uint8_t)w->group,
                                    .op = true});
}

uint32_t
clock_log_issue(ClockLog *log)
{
    return add_node(log, (PathNode){0});
}

void
clock_log_undo(ClockLog *log, uint32_t node)
{
    if (node != 0 && node == log->nodes.n)
        log->nodes.n--;
}

/* Without which it would have issued earlier. */
static uint32_t
cause_of(const Replay *r, const ReplayWarp *before, PathKind *kind)
{
    double could = before->ready > before->since ? before->ready : before->since;

    if (r->now - could >= 1 && r->sms[before->sm].last_by[before->scheduler]) {
        *kind = PATH_SLOTS;
        return r->sms[before->sm].last_by[before->scheduler];
    }
    *kind = before->by_kind;
    if (before->by)
        return before->by;
    *kind = before->node == 0             ? PATH_START
            : before->why == STALL_BRANCH ? PATH_BRANCH
                                          : PATH_INSTRUCTIONS;
    return before->node ? before->node : before->began;
}

/* Which instruction it was; `first`: of a block of PTX, or any of machine code. */
static uint32_t
insn_of(const ReplayWarp *before, bool *first)
{
    *first = true;
    if (code_is_next(before))
        return before->insn;
    *first = before->in_window == 0;
    return before->traced->events[before->at].insn | FROM_PTX;
}

static uint32_t
line_of(const Replay *r, uint32_t insn)
{
    SimInsnView v = {.line = 0};

    if (!(insn & FROM_PTX))
        return r->job->code->insns.at[insn].ptx_line;
    sim_insn_at(r->job->module, insn & ~(uint32_t)FROM_PTX, &v);
    return v.line;
}

/* One warp of each four speaks for them. */
static bool
tells(const ReplayWarp *w)
{
    return w->sm == 0 && w->traced->warp % 4 == 0;
}

void
clock_log_waited(ClockLog *log, const ReplayWarp *before)
{
    if (tells(before) && log->to > log->from) {
        double could = before->ready > before->since ? before->ready : before->since;
        PathSpan span = {.from = before->since,
                         .to = could,
                         .unit = CLOCK_UNITS,
                         .group = (uint8_t)before->group,
                         .why = (uint8_t)before->why,
                         .block = (uint32_t)before->cluster->index};
        add_span(log, span);
    }
}

void
clock_log_issued(const Replay *r, ReplayWarp *w, const ReplayWarp *before)
{
    ClockLog *log = r->log;
    PathKind kind;
    uint32_t cause = cause_of(r, before, &kind);
    bool first;
    uint32_t insn = insn_of(before, &first);

    if (r->node != 0) {
        log->nodes.at[r->node - 1] = (PathNode){.at = r->now,
                                                .cause = cause,
                                                .insn = insn,
                                                .kind = (uint8_t)kind,
                                                .group = (uint8_t)before->group};
    }
    clock_log_waited(log, before);
    if (!first)
        return;
    if (tells(before) && before->last_insn >= insn && before->node != 0 && r->node != 0) {
        PathTurn turn = {(uint32_t)before->cluster->index * WARPS_OF_CLUSTER + before->traced->warp,
                         insn, line_of(r, insn), r->node};
        vec_push(log->arena, &log->turns, turn);
    }
    w->last_insn = insn;
}
