/* tilerun.h - the options of the command line, and the two ways to run a file. */
#ifndef TILEC_CUDA_TILERUN_H
#define TILEC_CUDA_TILERUN_H

#include "backends/cuda/machine.h"
#include "compiler/base/npy.h"

/* NAME=VALUE of --in, --out, --set, --strides. */
typedef struct NamedValue {
    const char *name, *value;
} NamedValue;

typedef struct RunOptions {
    const char *path;
    VEC(const char *) entries; /* none: all kernels */
    const char *device;        /* "gpu", "sim", or NULL: gpu where there is one */
    VEC(NamedValue) inputs;
    VEC(NamedValue) outputs;
    VEC(NamedValue) sets;
    VEC(NamedValue) strides;
    VEC(const char *) args; /* any: the PTX of another maker, described by hand */
    uint32_t grid[3], block[3], cluster[3], shared;
    bool grid_given, block_given;
    uint32_t time_runs; /* 0: not timed */
    const char *clock;  /* --time sm_90: by the simulator's clock; NULL: not */
    uint64_t seed;
    uint32_t seeds; /* how many, from `seed` on */
    bool no_checks, strict, late, quiet;
    bool random;       /* what is not given is made up */
    bool name_gpu;     /* only say which GPU there is */
    uint32_t sm_count; /* 0: as the machine says */
} RunOptions;

/* A PTX file read, and the machine it is loaded on. */
typedef struct RunContext {
    Arena *arena;
    const RunOptions *options;
    Machine *machine;
    Fault *fault;
    const char *image;
    size_t image_bytes;
    struct LaunchArgs **open; /* arguments by hand, while there are some: not on the arena */
} RunContext;

/* By the file's metadata. */
RunStatus run_described(RunContext *cx);
/* By --entry, --grid, --block, --smem and --arg. */
RunStatus run_by_hand(RunContext *cx);

/* Runs the launches in order; 0 seeds count as one.  Prints nothing. */
RunStatus run_launches(RunContext *cx, const LaunchReady *launches, uint32_t n);
/* Prints the median over `options->time_runs` runs. */
bool run_timed(RunContext *cx, const LaunchReady *launches, uint32_t n);
void print_launch(const RunContext *cx, const LaunchReady *launch);

#endif
