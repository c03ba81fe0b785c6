/* clock_state.h - the state of a replay, shared by its files. */
#ifndef TILEC_CLOCK_STATE_H
#define TILEC_CLOCK_STATE_H

#include "backends/clock/clock_cost.h"

enum { MOST_SCHEDULERS = 8, MOST_GROUPS = 64, WINDOW = 1024 };
#define CLOCK_NEVER 1e300

typedef struct ReplayWarp ReplayWarp;

typedef struct ReplayOp { /* of a traced cluster */
    uint32_t parts;       /* warps that have not issued it */
    double issued, done;  /* done: CLOCK_NEVER until it is known */
    ReplayWarp *waiters;
    uint32_t first_signal, signals; /* in the sorted list */
} ReplayOp;

typedef struct ReplayPhase {
    uint32_t left;
    double complete; /* meaningful when nothing is left */
    ReplayWarp *waiters;
} ReplayPhase;

typedef struct ReplayCluster {
    const SimTracedCluster *traced;
    ReplayOp *ops;
    ReplayPhase *phases;
    SimSignal *signals; /* by operation */
    ReplayWarp *warps;
    uint32_t live;
} ReplayCluster;

/* Groups of asynchronous operations of one warp: wgmma, bulk, cp.async. */
typedef struct ReplayGroups {
    double open;      /* when all since the last commit are done */
    uint32_t open_op; /* 1 + the last operation whose end may not be known yet */
    VEC(double) done; /* of each committed */
    VEC(uint32_t) op;
} ReplayGroups;

enum { GROUPS_MMA, GROUPS_BULK, GROUPS_COPY, GROUPS_KINDS };

struct ReplayWarp {
    ReplayCluster *cluster;
    const SimTracedWarp *traced;
    uint32_t sm, scheduler, group; /* group: of four warps, for the stalls */
    size_t at, window_end;         /* events */
    const uint16_t *order;         /* of the window; NULL: as they come */
    uint32_t in_window;
    double ready; /* may issue its next instruction then */
    double since; /* .. for which it has waited since */
    ClockStall why;
    uint32_t waits_for; /* 1 + phase */
    ReplayWarp *next;   /* in a list of waiters */
    double *result;     /* by register: when its value is there */
    ReplayGroups groups[GROUPS_KINDS];
    bool live;
};

typedef struct ReplaySm {
    double unit[CLOCK_UNITS][MOST_SCHEDULERS]; /* free from then on */
    double barrier;                            /* what counts arrivals at bar.sync is */
    ReplayWarp *last[MOST_SCHEDULERS];         /* that issued */
    uint32_t next_scheduler;
} ReplaySm;

typedef struct OrderRow {
    uint32_t first, n;
    uint16_t *order;
} OrderRow;

typedef struct Replay {
    Arena *arena;
    const ClockJob *job;
    const ClockFact *rows;
    ClockCost *costs; /* by instruction of the module */
    uint32_t n_insns, n_registers, schedulers;
    ReplaySm *sms;
    uint32_t n_sms;
    VEC(ReplayWarp *) warps; /* that are resident */
    VEC(OrderRow) orders;
    uint32_t *order_slots, n_order_slots;
    uint64_t random;
    double now;
    size_t next_cluster;
    uint32_t running; /* clusters */
    ClockResult *out;
} Replay;

/* Issues the warp's next event at `now`, if its unit is free; else says when it is.  (clock_issue.c) */
bool replay_issue(Replay *r, ReplayWarp *w, const SimEvent *event, double *free_at);
/* When the operands of the next event are there, beside what the warp itself waits for. */
double replay_operands(const Replay *r, const ReplayWarp *w, const SimEvent *event);
double replay_jitter(Replay *r);

#endif
