/* clock_steps.c - issues machine code along the path that a warp took.
 *
 * An instruction issues when the stall count of the one before has run out, the scoreboards that it
 * waits for are free, its pipe is, and the banks of the register file have given out what was read
 * before.  What an instruction means beside that is an event of the trace: the token's of its part,
 * or for an access to memory the next one of its line.
 */
#include "backends/clock/clock_state.h"

#include <stdlib.h>
#include <string.h>

#include "backends/clock/clock_anchor.h"

static double
later(double a, double b)
{
    return a > b ? a : b;
}

static const CodePart *
part_of(const ReplayWarp *w)
{
    return &w->path->parts[w->part];
}

/* ---- along the path ---- */

static void
begin_part(ReplayWarp *w)
{
    w->run = 0;
    if (w->part >= w->path->n)
        return;
    const CodePart *part = part_of(w);
    if (part->code != NULL) {
        w->insn = part->code->runs[0].first;
    } else {
        const SimTracedWarp *t = w->traced;
        w->at = part->from; /* what belongs to the token before has run with it */
        while (w->at < part->to && (t->events[w->at].kind == SIM_EVENT_ARRIVED_TOO ||
                                    t->events[w->at].kind == SIM_EVENT_STARTED_TOO))
            w->at++;
        w->window_end = w->at;
        w->limit = part->to;
    }
}

void
code_start(Replay *r, ReplayWarp *w, const CodePath *path)
{
    w->path = path;
    w->holds = -1;
    w->first_clock = w->last_clock = -1;
    w->bound = arena_array(r->arena, uint32_t, r->n_insns + 1);
    begin_part(w);
}

void
code_next_part(ReplayWarp *w)
{
    w->part++;
    begin_part(w);
}

/* To the next instruction; gives whether that follows in the code. */
static bool
step(ReplayWarp *w)
{
    const CodeStretch *code = part_of(w)->code;
    uint32_t last = w->insn;

    if (++w->insn >= code->runs[w->run].end) {
        if (++w->run < code->n) {
            w->insn = code->runs[w->run].first;
        } else {
            code_next_part(w);
        }
    }
    return !code_is_next(w) || w->insn == last + 1;
}

/* ---- events ---- */

/* Whether a part ends with a store to another SM: ptxas moves accesses over any number of these,
 * which wait for nothing. */
static bool
ends_with_store(const Replay *r, const ReplayWarp *w, uint32_t part)
{
    const SimEvent *event = &w->traced->events[w->path->parts[part].to - 1];

    return r->costs[event->insn].kind == CLASS_ASYNC_STORE;
}

/* The next event of the instruction's line that nothing was bound to, not too far from here. */
static const SimEvent *
event_for(const Replay *r, ReplayWarp *w, const CodeInsn *insn)
{
    const CodePath *path = w->path;
    uint32_t first = w->part, last = w->part;

    while (first > 0 && ends_with_store(r, w, first - 1))
        first--;
    while (last + 1 < path->n && ends_with_store(r, w, last))
        last++;
    uint32_t from = path->parts[first ? first - 1 : 0].from;
    uint32_t to = path->parts[last + 1 < path->n ? last + 1 : last].to;
    uint8_t tally = tally_of_code(insn);
    SimInsnView v;

    if (insn->ptx_line >= r->n_lines || r->line_insn[insn->ptx_line] == 0)
        return NULL;
    for (uint32_t k = r->line_insn[insn->ptx_line] - 1; sim_insn_at(r->job->module, k, &v); k++) {
        if (v.line != insn->ptx_line)
            break;
        if (tally_of_ptx(v.mnemonic) != tally)
            continue;
        for (uint32_t e = w->bound[k] > from ? w->bound[k] : from; e < to; e++) {
            if (w->traced->events[e].insn == k) {
                w->bound[k] = e + 1;
                return &w->traced->events[e];
            }
        }
    }
    return NULL;
}

/* What the token of the part means, and tokens before it that the path has no instruction for. */
static void
run_token(Replay *r, ReplayWarp *w)
{
    const CodePart *part = part_of(w);
    const SimTracedWarp *t = w->traced;
    uint32_t at = part->to - 1;

    for (uint32_t e = part->from; e < at; e++) {
        SimEventKind kind = (SimEventKind)t->events[e].kind;
        if (kind == SIM_EVENT_ARRIVED || kind == SIM_EVENT_STARTED)
            replay_event(r, w, &t->events[e]);
    }
    if (t->events[at].kind > SIM_EVENT_OFF)
        replay_event(r, w, &t->events[at]);
    for (uint32_t e = part->to; e < t->event_count; e++) {
        if (t->events[e].kind != SIM_EVENT_ARRIVED_TOO && t->events[e].kind != SIM_EVENT_STARTED_TOO)
            break;
        replay_event(r, w, &t->events[e]);
    }
}

/* The number behind the last comma: of groups that may be under way. */
static uint32_t
pending_groups(const CodeInsn *insn)
{
    const char *at = strrchr(insn->operands, ',');

    return at == NULL ? 0 : (uint32_t)strtoul(at + 1, NULL, 0);
}

static void
wait_for_copies(Replay *r, ReplayWarp *w, const CodeInsn *insn, const SimEvent *event)
{
    SimInsnView v = {.mnemonic = ""};

    if (event != NULL)
        sim_insn_at(r->job->module, event->insn, &v);
    bool bulk = strncmp(v.mnemonic, "cp.async.bulk", 13) == 0;
    double early = bulk && strstr(v.mnemonic, ".read") ? r->rows[CLOCK_TMA_STORE_READ].value : 0;
    if (event != NULL && event->kind == SIM_EVENT_OFF)
        return;
    if (event != NULL && strstr(v.mnemonic, "wait_all"))
        replay_commit(r, &w->groups[GROUPS_COPY]);
    if (event != NULL)
        replay_wait_for_groups(r, w, &w->groups[bulk ? GROUPS_BULK : GROUPS_COPY],
                               pending_groups(insn), early, STALL_COPY);
}

/* An instruction with a token; `event`: the part's, when it is that one. */
static void
issue_token(Replay *r, ReplayWarp *w, const CodeInsn *insn, const SimEvent *event)
{
    bool off = event == NULL || event->kind == SIM_EVENT_OFF;

    switch (r->code[w->insn].kind) {
    case CLASS_GROUP_WAIT:
        w->holds = -1;
        if (event != NULL)
            replay_wait_for_groups(r, w, &w->groups[GROUPS_MMA], pending_groups(insn), 0,
                                   STALL_PRODUCT);
        return;
    case CLASS_COPY_WAIT:
        w->holds = -1;
        wait_for_copies(r, w, insn, event);
        return;
    case CLASS_BULK_COMMIT:
        if (!off)
            replay_commit(r, &w->groups[GROUPS_BULK]);
        return;
    case CLASS_COPY_COMMIT: replay_commit(r, &w->groups[GROUPS_COPY]); return;
    default: break;
    }
    if (!off)
        run_token(r, w);
    if (r->code[w->insn].kind == CLASS_GROUP_MMA && strstr(insn->operands, "gsb0") != NULL)
        replay_commit(r, &w->groups[GROUPS_MMA]);
}

/* ---- accesses, pipes ---- */

/* False: the queue is full.  An access of which nothing was recorded is of a guard that is off, or
 * of all lanes. */
static bool
issue_access(Replay *r, ReplayWarp *w, const CodeInsn *insn, double *free_at)
{
    uint32_t bound = 0, line = insn->ptx_line;
    const SimEvent *event = event_for(r, w, insn);
    const CodeCost *cost = &r->code[w->insn];

    w->started = r->now;
    w->done = r->now + cost->latency;
    if (event == NULL || event->kind == SIM_EVENT_OFF)
        return true;
    bound = event->insn;
    if (replay_access(r, w, event, free_at))
        return true;
    if (line < r->n_lines)
        w->bound[bound]--; /* it is asked for again */
    return false;
}

static bool
is_access(ClockClass kind)
{
    return kind == CLASS_SHARED || kind == CLASS_GLOBAL || kind == CLASS_MATRIX ||
           kind == CLASS_COPY;
}

/* When the pipe and the banks of registers let it issue. */
static double
free_from(Replay *r, const ReplayWarp *w, const CodeCost *cost, const SimEvent *event)
{
    const ReplaySm *sm = &r->sms[w->sm];
    double at = replay_pipe_free(r, w, cost->unit, cost->port);

    if (cost->kind == CLASS_MMA)
        replay_mma_queue(r, w, &at);
    if (cost->kind == CLASS_ASYNC_STORE)
        replay_cluster_queue(r, w, &at);
    if (cost->kind == CLASS_GROUP_MMA)
        replay_product_room(r, w, event, &at);
    if (cost->unit == UNIT_TMEM)
        replay_bound(r, &at, w->tmem_free, w->tmem_by, PATH_UNIT + UNIT_TMEM);
    for (uint32_t b = 0; b < BANKS; b++) {
        if (cost->reads[b])
            replay_bound(r, &at, sm->bank[b][w->scheduler] - r->rows[CLOCK_BANK_SLACK].value,
                         sm->bank_by[b][w->scheduler], PATH_SHARE);
    }
    return at;
}

static void
keep_pipe(Replay *r, ReplayWarp *w, const CodeCost *cost)
{
    ReplaySm *sm = &r->sms[w->sm];

    replay_keep_pipe(r, w, cost->unit, cost->clocks, cost->beside, cost->port);
    for (uint32_t b = 0; b < BANKS; b++) {
        double *free = &sm->bank[b][w->scheduler];
        if (cost->reads[b]) {
            *free = later(*free, r->now) + cost->reads[b] * r->rows[CLOCK_BANK].value;
            sm->bank_by[b][w->scheduler] = r->node;
        }
    }
    w->fma_run = cost->unit == UNIT_FMA     ? w->fma_run + 1
                 : cost->unit == UNIT_ISSUE ? w->fma_run
                                            : 0;
    w->done = r->now + cost->latency;
    w->started = cost->kind == CLASS_FENCE ? w->done - 1 : r->now;
    if (cost->unit == UNIT_TMEM)
        replay_tmem(r, w, cost->clocks, cost->kind == CLASS_TMEM_STORE);
    if (cost->kind == CLASS_TMEM_STORED)
        w->done = replay_tmem_stored(r, w);
}

/* ---- one instruction ---- */

static void
hold_board(const Replay *r, ReplayWarp *w, uint8_t board, double until, ClockUnit unit)
{
    if (board >= SCOREBOARDS || until <= w->board[board])
        return;
    w->board[board] = until;
    w->board_for[board] = 0;
    w->board_by[board] = r->node;
    w->board_kind[board] = PATH_LATENCY + unit;
}

static void
hold_boards(const Replay *r, ReplayWarp *w, const CodeControl *control, ClockUnit unit)
{
    hold_board(r, w, control->write, w->done, unit);
    hold_board(r, w, control->read, w->started + 1, unit);
}

static void
read_clock(ReplayWarp *w, double now)
{
    w->first_clock = w->first_clock < 0 ? now : w->first_clock;
    w->last_clock = now;
}

/* What comes between this instruction and the next one of the warp. */
static void
go_behind(Replay *r, ReplayWarp *w, const CodeInsn *insn)
{
    double stall = insn->control.stall ? insn->control.stall : 1;
    uint32_t from = w->insn;

    if (!step(w)) {
        uint32_t far = (w->insn > from ? w->insn - from : from - w->insn) * INSN_BYTES;
        stall += r->rows[CLOCK_CODE_BRANCH].value;
        if (far > r->rows[CLOCK_FETCH_BYTES].value)
            stall += r->rows[CLOCK_FETCH].value;
        if (w->ready < CLOCK_NEVER && r->now + stall > w->ready)
            w->why = STALL_BRANCH;
    }
    if (stall > 1)
        w->fma_run = 0;
    w->since = r->now + 1;
    w->earliest = r->now + stall;
    if (w->ready < CLOCK_NEVER)
        replay_ready(w, w->earliest, 0, PATH_INSTRUCTIONS);
}

bool
code_issue(Replay *r, ReplayWarp *w, double *free_at)
{
    const CodeInsn *insn = &r->job->code->insns.at[w->insn];
    const CodePart *part = part_of(w);
    const CodeCost *cost = &r->code[w->insn];
    bool last = w->run + 1 == part->code->n && w->insn + 1 == part->code->runs[w->run].end;

    const SimEvent *event = last ? &w->traced->events[part->to - 1] : NULL;
    *free_at = free_from(r, w, cost, event);
    if (*free_at > r->now && !is_access(cost->kind))
        return false;
    if (is_access(cost->kind) && !issue_access(r, w, insn, free_at))
        return false;
    w->ready = r->now + 1;
    w->why = STALL_RESULT;
    w->waits_for = 0;
    w->by = 0;
    if (!is_access(cost->kind))
        keep_pipe(r, w, cost);
    w->holds = insn->control.write < SCOREBOARDS ? insn->control.write : -1;
    if (insn->token && insn->token != TOKEN_END)
        issue_token(r, w, insn, event);
    if (insn->token == 0 || w->holds < 0 || cost->unit == UNIT_TMEM)
        hold_boards(r, w, &insn->control, cost->unit);
    if (cost->kind == CLASS_FENCE)
        w->ready = r->now + cost->clocks;
    if (cost->reads_clock)
        read_clock(w, r->now);
    r->out->unknown += cost->kind == CLASS_UNKNOWN;
    if (cost->kind == CLASS_UNKNOWN)
        r->out->unknown_name = insn->name;
    r->out->from_code += w->sm == 0;
    go_behind(r, w, insn);
    return true;
}
