/* consumer_time.h - how long a kernel with a plan for warp groups takes, as this compiler builds it.
 *
 * group_time.h's question is what the best code for a division could do; here a plan exists, and the
 * answer is what its code does.  Three steps: what an iteration asks of the units (consumer_work), how
 * many iterations there are (trips.h), how long that takes (consumer_time).
 */
#ifndef TILEC_CONSUMER_TIME_H
#define TILEC_CONSUMER_TIME_H

#include "compiler/cost/trips.h"
#include "compiler/passes/pass.h"

enum { CONSUMER_LOOPS = 8 };

/* What one consumer asks for. */
typedef struct ConsumerWork {
    /* clocks of the units that an SM has, in an iteration of the loop that masks least */
    double tensor;       /* products */
    double shared;       /* the port of shared memory */
    double special;      /* exp2, .. */
    double issue;        /* instructions of tile arithmetic, for each of four schedulers */
    double stage0;       /* shares of the products: those of loaded tiles alone, .. */
    double first, after; /* .. the first of these, and of all others */
    /* elements of vectors that a consumer loads itself, an iteration */
    double vectors;
    double added;      /* elements that it adds to memory from registers */
    double multiplies; /* of an iteration */
    double stored;     /* bytes that leave after the loop */
    /* of what may leave through shared memory: 128 bytes of each row; 0: none */
    int64_t atom_column_bytes;
    /* it fits the stage of a tile that a consumer loads once (roles_store.c) */
    bool leaves_over;
    /* of a stage, of pipelines the loop goes around */
    int64_t pipeline_bytes_shared, pipeline_bytes_own;
    int64_t once_bytes_shared, once_bytes_own;
    int64_t exchange_bytes;      /* of a consumer: buffers of products that consumers share out */
    int64_t accumulators, fresh; /* registers of a thread */
    int64_t share;               /* the same: its share of a product that consumers share out */
    int32_t widest, rows;        /* columns of a product; rows of a consumer's */
    int64_t kept;                /* registers: tiles that are computed and used more than once */
    /* registers: the largest vector of an iteration, of which a thread of a product with swap_ab
       has one element in four */
    int64_t vector;
    bool positions;                 /* it computes with the elements' places, as numbers */
    bool swap_ab;                   /* some sum is computed with swap_ab */
    bool coop_k;                    /* consumers share a product: all have all iterations */
    bool cooperative;               /* consumers divide the tiles */
    bool lookahead;                 /* an iteration's first product begins in the one before */
    bool held;                      /* a tile is read from the first products to the last */
    bool program_masks;             /* the program masks elements itself */
    bool pairs;                     /* blocks can run in pairs that share loads */
    bool variable_trips;            /* tiles of the grid differ in length */
    bool sliding;                   /* those at the ends of an axis are shorter than others */
    TripLoop loops[CONSUMER_LOOPS]; /* those with products; masks in clocks of issue */
    uint32_t n_loops;
    uint32_t axis; /* of the grid, which consumers divide */
} ConsumerWork;

/* Of a kernel on which the passes up to `plan` have run, for `consumers` consumers. */
ConsumerWork consumer_work(const Target *target, const TirFn *fn, uint32_t consumers);
/* Whether its products run under the next iteration's arithmetic (as passes/schedule/plan.c decides). */
bool consumer_pipelines(const Target *target, const ConsumerWork *work, const PlanHints *plan);

/* Whether its loop has nothing but products. */
bool consumer_only_mmas(const ConsumerWork *work);

/* Clocks of an SM. */
typedef struct ConsumerClocks {
    double mmas, arithmetic; /* of one consumer and iteration, alone */
    double iteration;        /* of all consumers */
    double wait;             /* of that, for copies; not in a tile's first one */
    double start;            /* to begin and end a tile */
    double tile;             /* of the grid, on average */
    double total;            /* the launch */
} ConsumerClocks;

/* Iterations of the SM that has the most, when SM i goes through tiles i, i + SMs, .. */
double consumer_most_static(const Target *target, const ConsumerTrips *trips);
/* How many tiles have at least as many iterations as sample `k`. */
double consumer_as_long(const ConsumerTrips *trips, uint32_t k);
/* Of a launch with such `trips`; `whole_waves`: the last tiles leave SMs idle (that needs sizes that
 * are known). */
ConsumerClocks consumer_time(const Target *target, const ConsumerWork *work,
                             const ConsumerTrips *trips, const PlanHints *plan, bool whole_waves);

#endif
