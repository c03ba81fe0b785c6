/* clock_state.h - the state of a replay, shared by its files. */
#ifndef TILEC_CLOCK_STATE_H
#define TILEC_CLOCK_STATE_H

#include "backends/clock/clock_cost.h"
#include "backends/clock/clock_log.h"
#include "backends/clock/clock_match.h"
#include "backends/clock/clock_opcode.h"

enum {
    MOST_SCHEDULERS = 8,
    MOST_GROUPS = 64,
    WINDOW = 1024,
    SCOREBOARDS = 6,
    BANKS = 2,
    INSN_BYTES = 16,
    PASS_BYTES = 128, /* that all banks of shared memory give */
    MOST_PRODUCTS = 128,
    MEMORY_LATE = 2048, /* clocks that count as of late */
    /* the same of additions: longer than a loop takes that adds a tile each turn */
    ADDED_LATE = 16384
};
#define CLOCK_NEVER 1e300

typedef struct ReplayWarp ReplayWarp;

/* Of a warp that waits for something whose time is not known yet. */
typedef struct ReplayWaiter {
    ReplayWarp *warp;
    int board; /* its scoreboard; -1: the warp itself */
    struct ReplayWaiter *next;
} ReplayWaiter;

typedef struct ReplayOp { /* of a traced cluster */
    uint32_t parts;       /* warps that have not issued it */
    double issued, done;  /* done: CLOCK_NEVER until it is known */
    uint32_t by;          /* 1 + its node in the log */
    ReplayWaiter *waiters;
    uint32_t first_signal, signals; /* in the sorted list */
} ReplayOp;

typedef struct ReplayPhase {
    uint32_t left;
    double complete; /* meaningful when nothing is left */
    uint32_t by;     /* 1 + the node of the last arrival */
    ReplayWaiter *waiters;
} ReplayPhase;

typedef struct ReplayCluster {
    const SimTracedCluster *traced;
    size_t index;
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
    uint32_t open_by; /* 1 + the node that `open` comes from */
    VEC(double) done; /* of each committed */
    VEC(uint32_t) op, by;
} ReplayGroups;

enum { GROUPS_MMA, GROUPS_BULK, GROUPS_COPY, GROUPS_KINDS };

struct ReplayWarp {
    ReplayCluster *cluster;
    const SimTracedWarp *traced;
    uint32_t sm, scheduler, group; /* group: of four warps, for the stalls */
    size_t at, window_end;         /* events */
    const uint16_t *order;         /* of the window; NULL: as they come */
    uint32_t in_window;
    double ready;  /* may issue its next instruction then */
    double issued; /* when it last did */
    double since;  /* .. for which it has waited since */
    ClockStall why;
    uint32_t waits_for; /* 1 + phase */
    uint32_t by;        /* 1 + the node that `ready` comes from; 0: its own last instruction */
    PathKind by_kind;   /* .. and what the time since is */
    uint32_t node;      /* 1 + that of its last instruction */
    uint32_t began;     /* 1 + that of who made room for its block; 0: nobody did */
    uint32_t last_insn; /* of it: for loops */
    double *result;     /* by register: when its value is there */
    ReplayGroups groups[GROUPS_KINDS];
    bool live;
    /* machine code */
    const CodePath *path; /* NULL: none */
    uint32_t part, run, insn;
    double earliest;  /* that the stall count allows */
    bool asleep;      /* not for a scoreboard only */
    size_t limit;     /* events of the part, where it has no machine code */
    uint32_t fma_run; /* FFMA and its like that it has issued in a row, without a stall between */
    double board[SCOREBOARDS];
    uint8_t unknown[SCOREBOARDS]; /* holders whose end is not known yet */
    ClockStall board_why[SCOREBOARDS];
    uint32_t board_for[SCOREBOARDS]; /* 1 + phase */
    uint32_t board_by[SCOREBOARDS];  /* as `by`, `by_kind` */
    PathKind board_kind[SCOREBOARDS];
    int holds;            /* scoreboard of the instruction that issues; -1: none */
    double started, done; /* of the access that was last issued */
    /* when what its last copy reads has come from memory; 0: it need not */
    double multicast_memory;
    uint32_t *bound; /* by instruction of PTX: events that have gone to one of machine code */
    double first_clock, last_clock; /* that it read */
    /* tcgen05: when its products, copies, and what it moved to and from tensor memory are done */
    double products_done, copied, tmem_free, tmem_stored, tmem_loaded;
    uint32_t products_by, tmem_by;
};

/* A product of the tensor unit, and the part of shared memory's port that its operands take. */
typedef struct ReplayProduct {
    double start, end, part;
    uint32_t by;
} ReplayProduct;

/* wgmma that has been issued (clock_products.c). */
typedef struct ReplayQueued {
    ReplayWarp *warp;
    uint32_t op, insn, node, by;        /* node: of its issue, by: what it began after */
    double issued, start, clocks, done; /* done: from its end to who waits for it */
    double port;                        /* clocks of the port of shared memory */
} ReplayQueued;

typedef struct ReplaySm {
    double unit[CLOCK_UNITS][MOST_SCHEDULERS]; /* free from then on */
    double bank[BANKS][MOST_SCHEDULERS];       /* of registers */
    double port[MOST_SCHEDULERS];              /* that pipes share */
    double barrier;                            /* what counts arrivals at bar.sync is */
    /* the nodes that these times come from, 1 + */
    uint32_t unit_by[CLOCK_UNITS][MOST_SCHEDULERS], bank_by[BANKS][MOST_SCHEDULERS];
    uint32_t port_by[MOST_SCHEDULERS], last_by[MOST_SCHEDULERS];
    ReplayWarp *last[MOST_SCHEDULERS];     /* that issued */
    ReplayProduct products[MOST_PRODUCTS]; /* the last ones, by their number */
    uint32_t n_products;
    uint32_t next_scheduler;
    /* wgmma, by number; how far FFMA of each scheduler has put off the one that runs, and when one
     * last issued */
    ReplayQueued queue[MOST_PRODUCTS];
    uint32_t products_queued, products_ended, products_admitted;
    double put_off[MOST_SCHEDULERS], put_off_most, fma_at[MOST_SCHEDULERS]; /* fma_at: of a run */
    /* clocks that FFMA in a row have taken and products not lost yet */
    double ahead[MOST_SCHEDULERS];
    double products_until; /* with what is behind the end of the last one */
    /* memory: until when the way there is kept; when it was last asked, and what part of its share
     * that had until then */
    double memory_port, memory_at, memory_busy, memory_last[2]; /* last: read, written */
    double store_port; /* the way of what is stored to the L2 cache: loads come behind it */
    /* additions: until when they keep the SM's share of the L2 cache, what part of it they had of
     * late, and as of when; until when the copy engine's are under way */
    double added_until, added_busy, added_at, engine_adds_until;
} ReplaySm;

typedef struct OrderRow {
    uint32_t first, n;
    uint16_t *order;
} OrderRow;

typedef struct Replay {
    Arena *arena;
    const ClockJob *job;
    const ClockFact *rows;
    ClockCost *costs;    /* by instruction of the module */
    CodeCost *code;      /* by instruction of the machine code; NULL: there is none */
    uint32_t *line_insn; /* by line of PTX: 1 + the first instruction */
    uint32_t n_lines;
    uint32_t n_insns, n_registers, schedulers;
    double *misfit; /* by line of PTX: clocks of warps */
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
    ClockLog *log;       /* NULL: none */
    uint32_t node;       /* 1 + the node that keeps units and arrives now */
    uint32_t bound_by;   /* 1 + the node of what stops an issue */
    PathKind bound_kind; /* .. and what the time since is */
} Replay;

/* The warp goes on no sooner. */
static inline void
replay_ready(ReplayWarp *w, double at, uint32_t by, PathKind kind)
{
    if (at <= w->ready)
        return;
    w->ready = at;
    w->by = by;
    w->by_kind = kind;
}

/* A time that issue has to wait for, if it is later than those before. */
static inline void
replay_bound(Replay *r, double *at, double until, uint32_t by, PathKind kind)
{
    if (until <= *at)
        return;
    *at = until;
    r->bound_by = by;
    r->bound_kind = kind;
}

/* Issues the warp's next event at `now`, if its unit is free; else says when it is.
 * (clock_issue.c) */
bool replay_issue(Replay *r, ReplayWarp *w, const SimEvent *event, double *free_at);
/* When the operands of the next event are there, beside what the warp itself waits for. */
double replay_operands(const Replay *r, const ReplayWarp *w, const SimEvent *event);
double replay_jitter(Replay *r);

/* Parts of it, for machine code.  (clock_units.c) */
double *replay_unit(Replay *r, const ReplayWarp *w, ClockUnit unit);
double replay_keep(Replay *r, const ReplayWarp *w, ClockUnit unit, double from, double clocks);
/* Bytes a clock: what one SM can do, or its share of what the chip can. */
double replay_share(const Replay *r, double alone, ClockRow all);
/* The same of additions, which are the slower the fewer sectors all SMs add to. */
double replay_add_share(const Replay *r, double alone, const ClockMissed *missed);
/* What the event's access finds missing in the L2 cache; NULL: it is no access. */
ClockMissed *replay_missed(const Replay *r, const ReplayWarp *w, const SimEvent *event);
/* When what comes from memory is as far as what the L2 cache has; 0: nothing does. */
double replay_memory(Replay *r, const ReplayWarp *w, ClockMissed *missed);
/* What is added to memory keeps the L2 cache; a copy waits for what other SMs add. */
void replay_added(Replay *r, const ReplayWarp *w, double bytes, const ClockMissed *missed);
double replay_wait_for_adds(Replay *r, const ReplayWarp *w);
/* Of an instruction of a pipe: when the pipe, and what pipes share, let it issue; keeping them. */
double replay_pipe_free(Replay *r, const ReplayWarp *w, ClockUnit unit, double port);
/* 1 + the node that keeps it. */
uint32_t *replay_unit_by(Replay *r, const ReplayWarp *w, ClockUnit unit);
/* What a unit does by itself from now on, since `start`: what it keeps and signals comes from that
 * node. */
void replay_begin_op(Replay *r, const ReplayWarp *w, ClockUnit unit, double start, double end,
                     uint32_t insn);
void replay_keep_pipe(Replay *r, const ReplayWarp *w, ClockUnit unit, double clocks, double beside,
                      double port);
/* False: the queue is full until *free_at.  Else w->started and w->done are known. */
bool replay_access(Replay *r, ReplayWarp *w, const SimEvent *event, double *free_at);
void replay_event(Replay *r, ReplayWarp *w, const SimEvent *event);
void replay_commit(Replay *r, ReplayGroups *groups);
void replay_wait_for_groups(Replay *r, ReplayWarp *w, ReplayGroups *groups, uint32_t pending,
                            double early, ClockStall why);
/* A scoreboard that was waited for is free at a time. */
void replay_free_board(Replay *r, ReplayWarp *w, int board, double at);

/* Waiting (clock_wake.c).  The account of a group of warps at a barrier. */
ClockWait *replay_waits(Replay *r, const ReplayWarp *w, uint32_t phase);
/* r->node arrives. */
void replay_arrive(Replay *r, ReplayCluster *c, uint32_t phase, uint32_t count, double at);
void replay_wait_for_phase(Replay *r, ReplayWarp *w, uint32_t phase, double least);
/* An operation is done. */
void replay_finish_op(Replay *r, ReplayWarp *w, uint32_t op, double at);

/* The log (clock_log.c). */
void clock_log_unit(ClockLog *log, const ReplayWarp *w, ClockUnit unit, double from, double to);
uint32_t clock_log_op(ClockLog *log, const ReplayWarp *w, ClockUnit unit, double end, uint32_t by,
                      uint32_t insn);
/* A warp issues an instruction: 1 + its node, until clock_log_undo says that it can not yet. */
uint32_t clock_log_issue(ClockLog *log);
void clock_log_undo(ClockLog *log, uint32_t node);
/* The wait of a warp is over, as it was `before`. */
void clock_log_waited(ClockLog *log, const ReplayWarp *before);
/* .. it did, after it waited as it was `before`. */
void clock_log_issued(const Replay *r, ReplayWarp *w, const ReplayWarp *before);

/* wgmma (clock_products.c). */
void replay_products_on(Replay *r);
double replay_products_next(const Replay *r);
void replay_queue_product(Replay *r, ReplayWarp *w, ReplayQueued product);
void replay_product_issued(Replay *r, const ReplayWarp *w, uint32_t op);
void replay_product_room(Replay *r, const ReplayWarp *w, const SimEvent *event, double *at);
void replay_put_off_product(Replay *r, const ReplayWarp *w);
bool replay_in_run(const Replay *r, const ReplayWarp *w);

/* tcgen05 (clock_tensor.c).  When the queue of products has room. */
double replay_mma_queue(Replay *r, const ReplayWarp *w, double *at);
void replay_cluster_queue(Replay *r, const ReplayWarp *w, double *at);
void replay_mma(Replay *r, ReplayWarp *w, const SimEvent *event);
void replay_mma_copy(Replay *r, ReplayWarp *w, const SimEvent *event);
void replay_mma_commit(Replay *r, ReplayWarp *w, const SimEvent *event);
/* A product of one SM, whose operands take `port` clocks of the port of shared memory. */
void replay_add_product(Replay *r, uint32_t sm, double start, double clocks, double port);
/* Keeps the port of shared memory beside products; gives when that begins, and its end. */
double replay_keep_port(Replay *r, const ReplayWarp *w, double clocks, double *end);
void replay_tmem(Replay *r, ReplayWarp *w, double clocks, bool store);
double replay_tmem_stored(const Replay *r, const ReplayWarp *w);

/* Machine code (clock_steps.c, clock_boards.c).  Is the warp in a part that has it? */
bool code_is_next(const ReplayWarp *w);
void code_next_part(ReplayWarp *w);
/* Sets when the next instruction can issue.  False: the path is at its end. */
bool code_look(const Replay *r, ReplayWarp *w);
bool code_issue(Replay *r, ReplayWarp *w, double *free_at);
void code_start(Replay *r, ReplayWarp *w, const CodePath *path);
/* What its scoreboards allow. */
void code_wait(const Replay *r, ReplayWarp *w);

#endif
