/* trial.h - running passes to see what comes of them: nothing is said about it. */
#ifndef TILEC_TRIAL_H
#define TILEC_TRIAL_H

#include "compiler/passes/passrun.h"

typedef struct Trial {
    PassContext px; /* without a report; the trial's plan, warps and stages go here */
    PassRun run;
    Buf bugs;
    DiagMark before;
} Trial;

/* `arena` takes what passes make. */
void trial_begin(Trial *trial, const PassContext *px, Arena *arena);
/* Unsays what was said since. */
void trial_end(const Trial *trial);

#endif
