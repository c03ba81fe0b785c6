/* trial.c - running passes to see what comes of them. */
#include "compiler/choose/trial.h"

void
trial_begin(Trial *trial, const PassContext *px, Arena *arena)
{
    *trial = (Trial){.px = *px, .run = {.bugs = &trial->bugs}, .before = diag_mark(px->diag)};
    trial->px.arena = arena;
    trial->px.report = NULL;
    buf_init(&trial->bugs, arena);
}

void
trial_end(const Trial *trial)
{
    diag_rewind(trial->px.diag, trial->before);
}
