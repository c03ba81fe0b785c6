/* plan_words.h - what is said of the plans that are tried: rows of a report, remarks, why one of
 * them is taken. */
#ifndef TILEC_PLAN_WORDS_H
#define TILEC_PLAN_WORDS_H

#include "compiler/choose/auto_plan.h"

enum {
    PLANS_SHOWN = 8, /* rows of a report */
    USUAL_TILE = 64  /* divides most sizes of tensors */
};

/* "M=64 N=64 consumers 3 stages 4 q_stages 2". */
void plan_print_choice(const AutoTiles *open, const TileChoice *choice, Buf *out);
/* A line about candidate `k` for remarks; NULL: nobody wants them. */
const char *plan_about(const PassContext *px, const PlanCandidates *found, uint32_t k);
/* Clocks of the loop for each multiplication. */
double plan_loop_clocks(const PlanCandidate *found);
/* "the quickest", or which of those that were built takes less than candidate `k`, and why `k` is
 * taken all the same. */
void plan_why(const PlanCandidates *found, uint32_t k, Buf *out);
/* A row for each: the first, which is taken, with the reason, the others by their times.
 * `choices`: of the first `n`, which are to know their rows. */
void plan_report_rows(const PlanCandidates *found, TileChoice *choices, uint32_t n, Buf *report);

#endif
