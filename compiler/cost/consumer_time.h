/* consumer_time.h - how long a kernel with a plan for warp groups takes, as this compiler builds
 * it.
 *
 * Three steps: what an iteration asks of the units (consumer_work), how many iterations there are
 * (trips.h), how long that takes (consumer_time).
 */
#ifndef TILEC_CONSUMER_TIME_H
#define TILEC_CONSUMER_TIME_H

#include "compiler/cost/trips.h"
#include "compiler/passes/pass.h"

enum { CONSUMER_LOOPS = TRIP_LOOPS };

/* The work of one consumer. */
typedef struct ConsumerWork {
    /* clocks of the SM's units for an iteration of the loop with the fewest masks */
    double tensor; /* products */
    double shared; /* the port of shared memory */
    /* products that a role issues: one after the other, each as long as the tensor cores or the
     * port take for it; and of two blocks, with half of the right operands in each */
    double stream, stream_paired;
    double special;      /* exp2, .. */
    double issue;        /* instructions of tile arithmetic, for each of four schedulers, .. */
    double adding;       /* .. all of them where they do no more than add products' results up */
    double stage0;       /* shares of `tensor`: products of loaded tiles alone, .. */
    double first, after; /* .. the first of these, and the first of the others */
    /* elements of vectors that a consumer loads itself, an iteration */
    double vectors;
    double added;      /* elements that it adds to memory from registers */
    double multiplies; /* of an iteration */
    double stored;     /* bytes that leave after the loop */
    double asking;     /* clocks that one warp takes to ask for the copies of an iteration */
    /* staging bytes for results that leave by TMA: 128 bytes of each row; 0: none do */
    int64_t atom_column_bytes;
    /* the result fits into the stage of a tile that a consumer loads once (roles_store.c) */
    bool leaves_over;
    /* bytes of a stage of the loop's pipelines, and of those filled once for a work tile: shared by
       the consumers, and each consumer's own */
    int64_t pipeline_bytes_shared, pipeline_bytes_own;
    int64_t once_bytes_shared, once_bytes_own;
    /* what a block has less of where pairs multiply together: bytes of a stage, clocks of the port
     * of a consumer */
    int64_t spared_bytes;
    double spared_port;
    int64_t exchange_bytes;      /* of a consumer: buffers of products that consumers divide */
    int64_t accumulators, fresh; /* registers of a thread */
    int64_t sums;  /* the same: tiles that are kept over an iteration and no product adds to */
    bool turns;    /* .. and results are added up one after the other: `fresh` is the largest */
    int64_t share; /* the same: its share of a product that consumers divide */
    int32_t widest, rows; /* the most columns of a product; rows of a consumer's products */
    int32_t sides[3];     /* of the last product, as the program has it: rows, columns, depth */
    int32_t operand_bits; /* of an element of its operands */
    int64_t kept;         /* registers: computed tiles that are used more than once */
    /* registers: the largest vector of an iteration (with swap_ab a thread holds a quarter of
     * it) */
    int64_t vector;
    bool positions;   /* index vectors are computed with (iota) */
    bool swap_ab;     /* some accumulator is computed with swap_ab */
    bool coop_k;      /* consumers share a product: all have all iterations */
    bool cooperative; /* consumers divide the tiles of one program */
    /* where right operands are computed: bytes of a stage of the tile that is read last beside one,
     * which gets a second stage if there is room (plan_spare.c), and whether there is */
    int64_t spare_bytes;
    bool spare;
    bool lookahead;                 /* an iteration's first product begins in the one before */
    bool held;                      /* a tile is read from the first products to the last */
    bool program_masks;             /* the program has masks of its own */
    bool pairs;                     /* blocks can run in pairs that share loads */
    bool variable_trips;            /* work tiles differ in their number of iterations */
    bool ended;                     /* some work tiles have nothing to do */
    bool sliding;                   /* only those at the ends of an axis are shorter */
    TripLoop loops[CONSUMER_LOOPS]; /* loops with products; masks in clocks of issue */
    uint32_t n_loops;
    uint32_t axis; /* the consumer axis of the grid */
} ConsumerWork;

/* Of a kernel on which the passes up to `plan` have run, for `consumers` consumers. */
ConsumerWork consumer_work(const Target *target, const TirFn *fn, uint32_t consumers);
/* Registers of a thread that its values take, at least; whether they fit so many. */
int64_t consumer_registers_needed(const ConsumerWork *work);
bool consumer_fits_registers(const ConsumerWork *work, uint32_t consumers, uint32_t registers);
/* Whether its products run under the next iteration's arithmetic (schedule/plan.c decides). */
bool consumer_pipelines(const Target *target, const ConsumerWork *work, const PlanHints *plan);

/* Whether it is one that waits for each of its products. */
bool consumer_waits_for_all(const Target *target, const ConsumerWork *work, const PlanHints *plan);

/* Clocks in which memory gives an SM what one consumer loads in an iteration; 0: not known. */
double consumer_load_clocks(const Target *target, const ConsumerWork *work);
/* Whether its loop has nothing but products and additions of their results. */
bool consumer_only_mmas(const ConsumerWork *work);

/* Whether memory binds a launch: what each program loads, no other one does, as far as the target's
 * record has the rates. stream_time.h says how long it takes. */
bool consumer_streams(const Target *target, const ConsumerWork *work, const ConsumerTrips *trips);

/* Clocks of an SM. */
typedef struct ConsumerClocks {
    double mmas, arithmetic; /* of one consumer and iteration, if it had the SM to itself */
    double iteration;        /* of all consumers together */
    double wait;             /* the part of it that waits for copies; not in a tile's first one */
    double start;            /* to begin and end a work tile */
    double tile;             /* of a work tile, on average */
    double total;            /* of the launch */
} ConsumerClocks;

/* Clocks of an iteration of this code if one consumer alone has a program; `clocks`: of all. */
double consumer_iteration_of_one(const Target *target, const ConsumerWork *work,
                                 const PlanHints *plan, const ConsumerClocks *clocks);
/* Clocks until tiles that a work tile loads once are there, if they are asked for when it
 * begins. */
double consumer_fill(const Target *target, const ConsumerWork *work, const PlanHints *plan);

/* Clocks to begin and end a work tile in which `clocks` has the iteration, when the barriers and
 * what comes before the loop take `tile`, and results leave at `store_bytes` a clock. */
double consumer_start(const Target *target, const ConsumerWork *work, const PlanHints *plan,
                      const ConsumerClocks *clocks, double tile, double store_bytes);
/* Clocks of a work tile's masks, when an element takes `mask` instructions. */
double consumer_masks(const Target *target, const ConsumerWork *work, const ConsumerTrips *trips,
                      const PlanHints *plan, double mask);
/* The most iterations of any SM under the static scheduler: SM i has tiles i, i + SMs, .. */
double consumer_most_static(const Target *target, const ConsumerTrips *trips);
/* How many tiles have at least as many iterations as sample `k`. */
double consumer_as_long(const ConsumerTrips *trips, uint32_t k);
/* Bytes of a block's tiles in shared memory. */
int64_t consumer_shared_bytes(const ConsumerWork *work, const PlanHints *plan);
/* The time of a launch with these `trips`; `whole_waves`: count the idle SMs of the last wave (only
 * for known sizes). */
ConsumerClocks consumer_time(const Target *target, const ConsumerWork *work,
                             const ConsumerTrips *trips, const PlanHints *plan, bool whole_waves);

#endif
