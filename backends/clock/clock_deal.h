/* clock_deal.h - which SM ends last, when each takes its next tile as it becomes free.
 *
 * A sample of a launch is what one SM does.  Blocks that draw tiles from a counter, and blocks
 * beyond those that the chip holds at once, go to whichever SM is free: the one whose first tile
 * was long gets no other.  So some tiles of each kind are run and replayed by themselves, all tiles
 * are dealt to all SMs by the times that these took, and the SM that ends last is the one that is
 * sampled.
 */
#ifndef TILEC_CLOCK_DEAL_H
#define TILEC_CLOCK_DEAL_H

#include "backends/clock/clock.h"

typedef struct DealJob {
    Arena *arena;
    SimModule *module;
    const SimLaunch *launch; /* that ran in turn, of one SM */
    const SimTrace *trace;   /* what it came to */
    /* of that; without machine code: only what tiles take beside one another counts */
    ClockJob clock;
    uint64_t clusters; /* in the grid */
    uint64_t sms;      /* or clusters that run on as many SMs each */
} DealJob;

/* What the SM that ends last does, and how it was found; NULL: as it is in turn, or nothing can be
 * said. */
SimReport *clock_deal(const DealJob *job, const char **told);

#endif
