/* timeline.h - what the roles of a planned kernel do, and when: for --dump-schedule.
 *
 * Everything is derived from the tile IR after the last pass: the operations at which roles meet,
 * and the computation between them.  The timeline shows an order, with every unit at its full rate
 * and the latencies of the target record.  The time of the kernel is that of cost/kernel_time.h,
 * which also counts imperfect overlap.
 */
#ifndef TILEC_TIMELINE_TIMELINE_H
#define TILEC_TIMELINE_TIMELINE_H

#include "compiler/cost/kernel_time.h"
#include "compiler/ir/op_units.h"
#include "compiler/ir/tir.h"
#include "compiler/target.h"

enum { TIMELINE_ROLES = 3 + 2 * MOST_CONSUMERS, TIMELINE_WINDOWS = 3 };

/* ---- timeline_trace.c: what each role does in one tile of the grid ---- */

typedef enum StepKind {
    STEP_OP,
    STEP_ITERATION,     /* one of the main loop begins .. */
    STEP_ITERATION_END, /* .. and ends */
} StepKind;

typedef struct RoleStep {
    StepKind kind;
    const TirOp *op;
    double weight; /* how often it runs: below 1 inside a branch that depends on data */
} RoleStep;

typedef VEC(RoleStep) RoleSteps;

/* Role 0 is the producer, role k consumer k - 1; behind the consumers are what adds results to
 * memory, what changes sums, and what issues products, where there are such. */
typedef struct RoleTrace {
    RoleSteps role[TIMELINE_ROLES];
    RoleKind kind[TIMELINE_ROLES];
    uint32_t consumer[TIMELINE_ROLES]; /* which one it is, or works for */
    uint32_t roles, lead;              /* the first that issues products */
    uint32_t iterations;               /* of the main loop, at least, of every one that does */
    const char *launch; /* the sizes, and which tile: "Sq=384 Sk=1024, tile m=0 h=0" */
} RoleTrace;

/* Traces a launch with enough iterations to show a steady state; false if none can be found. */
bool timeline_trace(Arena *arena, const TirFn *fn, RoleTrace *out);
/* Whether a value was computed from products. */
bool timeline_is_computed(const TirVal *value);

/* ---- timeline_cost.c: how long an operation keeps which unit busy ---- */

typedef struct OpCost {
    OpUnit unit;
    double clocks;
    double bytes; /* through the port of shared memory */
    bool async;   /* goes on by itself */
} OpCost;

OpCost timeline_cost(const Target *target, const TirOp *op, double weight);
/* Fills in the clocks of each unit in one iteration of the main loop; returns whether some product
 * waits for arithmetic. */
bool timeline_busy(const Target *target, const RoleTrace *trace, double busy[UNIT_COUNT]);
/* Whether an operation writes a tile to shared memory, from where TMA copies it. */
bool timeline_goes_through_shared(const TirOp *op);
/* Bytes that one copy into a pipeline brings. */
int64_t timeline_copy_bytes(const TirOp *copy);

/* ---- timeline_run.c: the roles side by side ---- */

typedef enum SpanKind {
    SPAN_WORK,  /* the role does it, on `unit` */
    SPAN_ASYNC, /* the role asked for it, `unit` does it */
    SPAN_WAIT,  /* the role waits until span `cause` ends */
    SPAN_SIGNAL /* a moment: a stage or a turn is passed on */
} SpanKind;

typedef struct TimeSpan {
    SpanKind kind;
    OpUnit unit;
    uint32_t role;
    double asked, begin, end; /* clocks; `asked` is before `begin` when the unit was busy */
    const TirOp *op;
    const char *text;
    int32_t cause; /* -1: none */
} TimeSpan;

typedef struct TimeWindow {
    const char *name;
    double begin, end;
} TimeWindow;

typedef struct Timeline {
    const TirFn *fn;
    RoleTrace trace;
    VEC(TimeSpan) spans; /* in the order in which they were asked for */
    TimeWindow windows[TIMELINE_WINDOWS];
    uint32_t n_windows;
    /* clocks from iteration to iteration at full rates, once it is steady; 0: never */
    double period;
    double busy[UNIT_COUNT]; /* in one iteration */
} Timeline;

/* NULL: the kernel has no plan, or nothing can be run. */
Timeline *timeline_run(Arena *arena, const Target *target, const TirFn *fn);

const char *timeline_unit_name(OpUnit unit);
const char *timeline_role_name(Arena *arena, const RoleTrace *trace, uint32_t role);
/* The consumer for which a role does an operation; -1: for all. */
int32_t timeline_consumer(const RoleTrace *trace, uint32_t role, const TirOp *op);
/* Whether it is an asynchronous product, whoever issues it. */
bool timeline_is_product(const TirOp *op);

/* ---- what is printed ---- */

/* A kernel to show: why it has no plan, or how long it takes; either may be NULL. */
typedef struct TimelineOf {
    const TirFn *fn;
    const char *why;
    const KernelTime *time;
} TimelineOf;

/* timeline_facts.c: roles, buffers, barriers and time; without a plan its buffers, and why. */
void timeline_facts(const Target *target, const TimelineOf *of, Buf *out);
/* timeline_text.c, timeline_svg.c: of some kernels. */
/* How busy an iteration keeps the units, and which launch is drawn. */
void timeline_times(const Timeline *line, Buf *out);
void timeline_text(const Target *target, const TimelineOf *of, Buf *out);
void timeline_svg(const Target *target, const TimelineOf *of, uint32_t n, Buf *out);

#endif
