/* machine.h - what tilerun runs on: a GPU, or the simulator; the same calls for both. */
#ifndef TILEC_CUDA_MACHINE_H
#define TILEC_CUDA_MACHINE_H

#include "backends/cuda/launch.h"

typedef struct Machine Machine;

/* The worst last: of several launches the greatest counts. */
typedef enum RunStatus {
    RUN_OK,
    RUN_UNTIMED,  /* it ran; the clock's replay of it broke */
    RUN_FINDINGS, /* it ran; the simulator printed the faults that it found */
    RUN_FAULT     /* it did not run; the fault says why */
} RunStatus;

struct Machine {
    const char *name;
    void *state;
    uint64_t seed;         /* how the simulator orders things; the GPU ignores it */
    uint32_t seeds_before; /* of the same run */
    bool no_checks;        /* the simulator looks for no faults but those of bounds */
    bool strict;           /* the simulator's notes are faults */
    bool late;             /* it lets some warps run as late as they can */
    const char *clock;     /* the target whose time the simulator tells; NULL: none */
    /* the simulator shows on stderr how far a launch is, when it takes longer than a second */
    bool progress;
    const char
        *clock_json; /* a file to which the clock adds a line of JSON for each launch; NULL: none */
    uint32_t clock_seeds;    /* how many it takes the median of; 0: its own number */
    const char *clock_svg;   /* a file to which it draws; NULL: none */
    const char *clock_trace; /* and one for trace events */
    bool clock_cold;         /* the L2 cache holds nothing when a launch begins */
    bool clock_path;    /* it prints the whole critical path, and what would change with what */
    bool from_ptx;      /* the clock reads no machine code */
    bool sample;        /* it runs the blocks of one multiprocessor, and no others */
    uint32_t sm_count;  /* multiprocessors */
    uint32_t sm_shared; /* bytes of shared memory of one */
    /* Loads PTX text, or a cubin where the machine takes one. */
    bool (*load)(Machine *, const char *image, size_t n, const char *path, Fault *);
    /* A module-scope variable's bytes, on the arena; NULL and a fault when there is none. */
    char *(*global)(Machine *, Arena *, const char *name, size_t *bytes, Fault *);
    bool (*check_arch)(Machine *, const char *arch, Fault *);
    bool (*allocate)(Machine *, size_t bytes, const char *name, uint64_t *address, Fault *);
    bool (*write)(Machine *, uint64_t address, const void *from, size_t bytes, Fault *);
    bool (*read)(Machine *, uint64_t address, void *to, size_t bytes, Fault *);
    /* Zeros; `undefined`: and a read of it before it is written is a fault (where that is seen). */
    bool (*clear)(Machine *, uint64_t address, size_t bytes, bool undefined, Fault *);
    /* Bytes written so far, or `bytes` where that is not known. */
    size_t (*count_written)(Machine *, uint64_t address, size_t bytes);
    /* The 128 bytes of a tensor map, in the machine's own form. */
    bool (*make_map)(Machine *, const TensorMapValues *, void *out, Fault *);
    RunStatus (*launch)(Machine *, const LaunchReady *, Fault *);
    /* Milliseconds of each of `n` runs of all launches, after warm-up runs; NULL: cannot time. */
    bool (*time)(Machine *, const LaunchReady *launches, uint32_t n_launches, uint32_t n,
                 float *out, Fault *);
    void (*close)(Machine *);
};

bool machine_open_gpu(Machine *machine, Arena *arena, Fault *fault);
/* Fails with a sentence when tilerun was built without the simulator. */
bool machine_open_sim(Machine *machine, Arena *arena, Fault *fault);
/* From now on the simulator says how long launches would take on a target; kernels are told of as
 * many multiprocessors as that has. */
bool machine_sim_clock(Machine *machine, const char *target, Fault *fault);
/* The machine code of what is loaded, as text (clock_code.h), by which it says so; NULL: there is
 * none, and why. */
void machine_sim_code(Machine *machine, const char *listing, const char *why);

#endif
