/* clock_boards.c - scoreboards: when the next instruction of machine code can issue. */
#include "backends/clock/clock_state.h"

bool
code_is_next(const ReplayWarp *w)
{
    return w->path != NULL && w->part < w->path->n && w->path->parts[w->part].code != NULL;
}

/* Later, if scoreboards ask for it. */
static void
wait_for_boards(const Replay *r, ReplayWarp *w)
{
    const CodeControl *control = &r->job->code->insns.at[w->insn].control;

    for (int b = 0; b < SCOREBOARDS && w->ready < CLOCK_NEVER; b++) {
        double at = w->unknown[b] ? CLOCK_NEVER : w->board[b];
        if (!(control->wait >> b & 1) || at <= w->ready)
            continue;
        w->ready = at;
        w->by = w->board_by[b];
        w->by_kind = w->board_kind[b];
        w->why = w->board_for[b] ? w->board_why[b] : STALL_RESULT;
        w->waits_for = w->board_for[b];
    }
}

void
code_wait(const Replay *r, ReplayWarp *w)
{
    w->ready = w->earliest > r->now + 1 ? w->earliest : r->now + 1;
    w->by = 0;
    wait_for_boards(r, w);
}

bool
code_look(const Replay *r, ReplayWarp *w)
{
    if (w->part >= w->path->n)
        return false;
    wait_for_boards(r, w);
    return true;
}
