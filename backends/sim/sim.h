/* sim.h - the public interface of the PTX simulator (library `tilec_sim`).
 *
 * The simulator reads PTX text from any compiler and runs it on the CPU with the semantics of the
 * PTX ISA. It reports races, hangs, reads of data that has not arrived, accesses out of bounds and
 * other faults as findings.  It needs no GPU, depends only on libc, libm and pthreads, never calls
 * exit() and never writes to stdout or stderr by itself.
 *
 *     SimDevice *dev = sim_device_new();
 *     SimError err;
 *     SimModule *mod = sim_module_load(dev, text, length, "attn.ptx", &err);
 *     uint64_t q = sim_alloc(dev, bytes, "Q");           // device memory, not initialised
 *     sim_write(dev, q, host, bytes);                     // now initialised
 *     void *args[] = { &q, &k, &v, &o, &scale, &s };      // as for cuLaunchKernel
 *     SimLaunch launch = sim_launch_defaults();
 *     launch.entry = "attention";  launch.grid[0] = 4;  launch.block[0] = 128;
 *     launch.args = args;          launch.arg_count = 6;
 *     SimReport *report = sim_launch(mod, &launch);
 *     sim_report_print(report, stdout);                   // prints nothing when all is well
 *     sim_report_free(report);
 *
 * Handles are opaque; what one function allocates its `_free` partner releases.  A device and its
 * modules belong to one thread at a time (a launch uses several threads inside).
 */
#ifndef TILEC_SIM_H
#define TILEC_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SimDevice SimDevice; /* device memory: allocations in one address space */
typedef struct SimModule SimModule; /* one PTX file, decoded */

/* The values are the exit codes that a command line over this library should use. */
typedef enum SimStatus {
    SIM_STATUS_OK = 0,      /* ran to the end without a fault; there may be notes */
    SIM_STATUS_ERROR = 1,   /* malformed or unsupported PTX, a bad launch, or out of memory */
    SIM_STATUS_FINDINGS = 3 /* ran, and found at least one fault */
} SimStatus;

/* Where and why something failed.  `line` is the line of the PTX text, 0 if none applies. */
typedef struct SimError {
    uint32_t line;
    char message[500];
} SimError;

/* ------------------------------------------------------------------------ device memory */

SimDevice *sim_device_new(void);
void sim_device_free(SimDevice *dev); /* also frees every allocation and module of the device */

/* Allocates device memory; the address is a multiple of 1024 and there is a gap after every
 * allocation, so that running off the end is found.  The bytes count as uninitialised until the
 * host or a kernel writes them.  `name` is used in reports, may be NULL, and is copied.
 * Returns 0 when out of memory. */
uint64_t sim_alloc(SimDevice *dev, size_t bytes, const char *name);
bool sim_free(SimDevice *dev, uint64_t address);
/* Limits further allocations (sim_alloc and variables of modules) to `bytes` in total; freed memory
 * is not credited.  Without a call the only limit is the host's memory. */
void sim_device_limit(SimDevice *dev, uint64_t bytes);

/* Copies to or from device memory.  False if the range is not inside one allocation. */
bool sim_write(SimDevice *dev, uint64_t address, const void *source, size_t bytes);
bool sim_read(const SimDevice *dev, uint64_t address, void *destination, size_t bytes);
bool sim_fill(SimDevice *dev, uint64_t address, int byte, size_t bytes);

/* Declares bytes initialised or not without touching them. */
bool sim_mark(SimDevice *dev, uint64_t address, size_t bytes, bool initialised);
/* What lies in memory, to be put back; no allocation may come or go between.  NULL: no memory for
 * it. */
typedef struct SimSaved SimSaved;
SimSaved *sim_device_save(const SimDevice *dev);
void sim_device_restore(SimDevice *dev, const SimSaved *saved);
void sim_saved_free(SimSaved *saved);

/* How many bytes of the range a kernel or the host has written so far. */
size_t sim_count_initialised(const SimDevice *dev, uint64_t address, size_t bytes);

/* ------------------------------------------------------------------------ modules */

/* Decodes PTX text.  Every instruction of every function must be known: an unknown one is an error
 * with its line.  Module-scope `.global` and `.const` variables get device memory here.  On failure
 * returns NULL and fills `*err` (which may be NULL). */
SimModule *sim_module_load(SimDevice *dev, const char *text, size_t length, const char *name,
                           SimError *err);
void sim_module_free(SimModule *mod);

typedef struct SimParam {
    const char *name;
    uint32_t size;  /* bytes; an array parameter (a tensor map, a struct) counts whole */
    uint32_t align; /* bytes */
    uint32_t offset;
    bool is_array;   /* declared with [] */
    bool is_float;   /* declared .f32 or .f64 */
    bool is_pointer; /* declared with .ptr */
} SimParam;

typedef struct SimEntry {
    const char *name;
    const SimParam *params;
    size_t param_count;
    uint32_t param_bytes;
    uint32_t required_block[3];   /* .reqntid, all 0 if absent */
    uint32_t max_block[3];        /* .maxntid, all 0 if absent */
    uint32_t max_registers;       /* .maxnreg, 0 if absent */
    uint32_t required_cluster[3]; /* .reqnctapercluster, all 0 if absent */
    uint32_t static_shared;       /* bytes of shared memory it declares itself */
    uint32_t instruction_count;
    uint32_t line;
} SimEntry;

size_t sim_entry_count(const SimModule *mod);
const SimEntry *sim_entry_at(const SimModule *mod, size_t index);
const SimEntry *sim_entry_find(const SimModule *mod, const char *name); /* NULL: the only entry */

/* A module-scope variable: its device address (0 if there is none) and size. */
uint64_t sim_global_find(const SimModule *mod, const char *name, size_t *size);

const char *sim_module_target(const SimModule *mod); /* "sm_90a" */

/* What the mbarrier at a byte of a kernel's shared memory is called, "$A_0 full, 2 of 4", by the
 * comments that tilec writes with -lineinfo; false: they do not say. */
bool sim_barrier_name(const SimModule *mod, const char *entry, uint32_t at, char *text, size_t size);

/* ------------------------------------------------------------------------ tensor maps */

/* What cuTensorMapEncodeTiled takes (CUDA driver API); the enumerations have the driver's values.
 * `strides` are in bytes, of dimensions 1 and up, as there. */
typedef struct SimTensorMap {
    uint32_t type; /* 0 u8, 1 u16, 2 u32, 3 s32, 4 u64, 5 s64, 6 f16, 7 f32, 8 f64, 9 bf16, ... */
    uint32_t rank; /* 1..5 */
    uint64_t address;
    uint64_t size[5];
    uint64_t stride[4];
    uint32_t box[5];
    uint32_t element_stride[5];
    uint32_t interleave; /* 0 none, 1 16 bytes, 2 32 bytes */
    uint32_t swizzle;    /* 0 none, 1 32B, 2 64B, 3 128B, 4.. as the driver */
    uint32_t l2_promotion;
    uint32_t fill; /* 0 zeros, 1 NaN */
    /* cuTensorMapEncodeIm2col: box is then {channels of a pixel, pixels}, and these are the corners
     * of the pixels' box in the dimensions between the first and the last, offsets from the
     * tensor's; of cuTensorMapEncodeIm2colWide those of the second dimension */
    uint32_t im2col; /* 0 tiled, 1 im2col, 2 im2col::w, 3 im2col::w::128 */
    int32_t lower[3], upper[3];
} SimTensorMap;

/* Checks the driver's rules and writes 128 bytes to pass as the kernel's parameter.  They are in
 * the simulator's own format, which the CUDA driver does not read, nor does the simulator read the
 * driver's. On failure returns false and fills `*err` (which may be NULL). */
bool sim_tensor_map_encode(const SimTensorMap *map, void *out128, SimError *err);

/* ------------------------------------------------------------------------ launching */

/* A cluster that runs, and what it draws from a counter. */
typedef struct SimDealt {
    uint64_t cluster; /* its place in the grid */
    const uint64_t *drawn;
    size_t drawn_count;
} SimDealt;

/* In place of a counter's address: cluster launch control.  What is drawn is the number of a
 * cluster that does not begin; where there is none of that number, the request fails. */
enum { SIM_LAUNCHES = 1 };

typedef struct SimLaunch {
    const char *entry;       /* NULL: the module's only entry */
    uint32_t grid[3];        /* blocks */
    uint32_t block[3];       /* threads; zeros: take .reqntid */
    uint32_t cluster[3];     /* blocks in a cluster; zeros: take .reqnctapercluster, else 1 */
    uint32_t dynamic_shared; /* bytes */
    void *const *args;       /* pointers to the values, in order, as for cuLaunchKernel */
    size_t arg_count;
    /* the packed parameter block (SimParam.offset); if set, replaces args */
    const void *param_bytes;
    size_t param_size;

    /* schedules and asynchronous completion times are drawn from it, and which products and sums
     * are one multiply-add (sim_contract.c: what ptxas makes one of under 0, nothing under 1) */
    uint64_t seed;
    uint64_t
        /* of a series: the first seed draws the multiply-adds, since all run the same code */
        seeds_before;
    bool checks;      /* races, uninitialised reads, asynchronous hazards (bounds are always on) */
    uint32_t threads; /* host threads; 0: one per core.  With 1 a run repeats exactly */
    /* findings (pairs of lines) to keep of each kind and level; all are counted */
    uint32_t max_findings;
    /* warp instructions a cluster may run before it counts as hung; 0: a generous default */
    uint64_t step_limit;
    bool count_banks; /* fill SimReport.lines with shared-memory bank conflicts */
    bool strict;      /* notes are faults */
    bool late; /* a warp runs as late as it can, each in turn: finds phases that pass without one */
    /* keep what every n-th cluster's warps did, from the first on, in SimReport.trace; 0: none */
    uint64_t trace_every;
    /* and run no others: what they would have written is missing; an atom.add that gives what was
     * there counts for them, too, so that a counter deals out tiles as to all */
    bool trace_only;
    /* or run and keep these clusters, and no others; NULL: not.  From `counter` they draw what is
     * said, then `drawn_last`; as often as they like */
    const SimDealt *dealt;
    size_t dealt_count;
    uint64_t counter, drawn_last; /* counter: an address, or SIM_LAUNCHES; 0: none */
    /* called now and then, by one thread at a time, with how many clusters have ended; or NULL */
    void (*progress)(void *data, uint64_t done, uint64_t of);
    void *progress_data;
} SimLaunch;

/* Checks on, seed 0, one host thread a core, grid 1x1x1, block and cluster as the entry says. */
SimLaunch sim_launch_defaults(void);
/* For commands: each block of a launch takes some MB for a short time, which stay with the process
 * for the next one. Got from the system anew, page by page, they would cost more than a quarter of
 * the time. */
void sim_keep_memory(void);

typedef enum SimFindingKind {
    SIM_FIND_OUT_OF_BOUNDS,
    SIM_FIND_MISALIGNED,
    SIM_FIND_UNINITIALISED,
    SIM_FIND_RACE,            /* two warps, no order between them, at least one writes */
    SIM_FIND_ASYNC_EARLY,     /* touched before the asynchronous op that fills it was waited for */
    SIM_FIND_ASYNC_OVERWRITE, /* written while an asynchronous op still reads or fills it */
    SIM_FIND_PROXY_FENCE,     /* crossed between generic and async proxy without fence.proxy */
    SIM_FIND_MMA_FENCE,       /* a wgmma.fence, tcgen05.fence or tcgen05.wait is missing */
    SIM_FIND_MMA_REGISTERS,   /* registers of a wgmma touched in flight */
    SIM_FIND_TRANSACTION,     /* transaction bytes expected and delivered differ */
    SIM_FIND_BARRIER,         /* over- or under-arrival, counts that disagree, misuse */
    SIM_FIND_PHASE,           /* a barrier phase overrun or reused */
    SIM_FIND_TENSOR_MEMORY,   /* tensor memory not allocated, wrong lanes, ... */
    SIM_FIND_LEAK,            /* something still allocated or in flight at exit */
    SIM_FIND_NOT_UNIFORM,     /* an .aligned or .sync op that not all its lanes executed together */
    SIM_FIND_HANG,
    SIM_FIND_TRAP,    /* the kernel executed trap */
    SIM_FIND_INVALID, /* operand values that the ISA declares undefined or reserved */
    SIM_FIND_KIND_COUNT
} SimFindingKind;

const char *sim_finding_name(SimFindingKind kind); /* "race", "out-of-bounds", ... */

/* clang-format off */
typedef enum SimLevel {
    SIM_FAULT, /* the ISA forbids it or leaves its result open */
    /* the ISA's text does not allow it, but assemblers and chips give it one meaning, and shipped
     * code relies on that (docs/simulator.md says which) */
    SIM_NOTE,
    SIM_LEVEL_COUNT
} SimLevel;
/* clang-format on */

const char *sim_level_name(SimLevel level); /* "fault", "note" */

typedef struct SimFinding {
    SimFindingKind kind;
    SimLevel level;
    uint64_t count;          /* occurrences of this pair of lines in the launch */
    char *message;           /* one or several lines of text that name all places below */
    uint32_t ptx_line;       /* 0 if none */
    const char *source_file; /* from .loc; NULL if none */
    uint32_t source_line;
    uint32_t block[3];
    int32_t warp, lane; /* -1 if none */
    uint64_t address;
    uint32_t other_ptx_line; /* the other party; 0 if none */
    const char *other_source_file;
    uint32_t other_source_line;
    int32_t other_warp;
} SimFinding;

/* Of one kind and level. */
typedef struct SimFindingCount {
    uint64_t total;    /* occurrences */
    uint64_t left_out; /* how many belong to pairs of lines beyond SimLaunch.max_findings */
} SimFindingCount;

/* ------------------------------------------------------------------------ what warps did */

typedef enum SimEventKind {
    SIM_EVENT_RAN,         /* `object`: 1 + which draw of the cluster's it is; 0: none */
    SIM_EVENT_OFF,         /* its guard let no lane through */
    SIM_EVENT_ARRIVED,     /* at the phase `object`, `passes` times */
    SIM_EVENT_ARRIVED_TOO, /* the same instruction as the event before, at another phase */
    SIM_EVENT_WAITED,      /* until the phase was complete */
    SIM_EVENT_TRIED,       /* a wait that gave up before */
    SIM_EVENT_MET,         /* arrived at the phase and waited for it */
    SIM_EVENT_STARTED,     /* the asynchronous operation `object`, or has a part in it */
    SIM_EVENT_STARTED_TOO  /* the same instruction as the event before, another operation */
} SimEventKind;

typedef struct SimEvent {
    uint32_t insn; /* for sim_insn_at */
    uint8_t kind, lanes;
    uint16_t passes; /* of shared memory */
    uint32_t object; /* a phase or an operation of the cluster */
} SimEvent;

typedef enum SimPhaseKind { SIM_PHASE_MBARRIER, SIM_PHASE_BARRIER, SIM_PHASE_CLUSTER } SimPhaseKind;

/* One phase of one barrier; complete when all that arrived in it has. */
typedef struct SimPhase {
    uint8_t kind;
    uint32_t block, object, index; /* the barrier (offset, or number), and which of its phases */
    uint32_t arrivals;             /* and signals of operations */
} SimPhase;

/* tcgen05.mma: what its instruction descriptor says. */
typedef struct SimTracedProduct {
    uint16_t m, n;
    uint8_t blocks; /* 2: of a pair */
    bool a_shared;  /* A is in shared memory, not in tensor memory */
} SimTracedProduct;

typedef struct SimTracedOp {
    uint32_t insn, bytes;
    uint32_t parts; /* warp instructions that start it together: 4 of a wgmma */
    uint32_t drew;  /* 1 + which draw of the cluster's it is (SIM_LAUNCHES); 0: none */
    uint16_t to;    /* of a bulk load: the block of the cluster whose shared memory it fills */
    uint8_t copies; /* of a multicast: how many blocks get what its instruction reads once */
    bool follows;   /* .. and it is not the first of them */
    SimTracedProduct product;
} SimTracedOp;

typedef struct SimSignal {
    uint32_t op, phase;
} SimSignal;

typedef struct SimTracedWarp {
    uint32_t block, warp; /* in the cluster, in the block */
    SimEvent *events;
    size_t event_count;
} SimTracedWarp;

/* A line of global memory that an instruction reads or writes, once; bulk copies when they are
 * issued. */
typedef struct SimTouch {
    uint64_t line;        /* its address by SIM_LINE_BYTES */
    uint32_t warp, event; /* whose, of the cluster's warps, and which of its events */
    uint32_t area;        /* of the cluster's areas */
    uint8_t sectors;      /* which of its pieces of SIM_SECTOR_BYTES, a bit each */
    uint8_t bytes;        /* of them, SIM_LINE_BYTES at most */
    bool writes;
} SimTouch;

enum { SIM_LINE_BYTES = 128, SIM_SECTOR_BYTES = 32 };

/* An allocation, a tensor as a rule, of which something was touched. */
typedef struct SimArea {
    uint64_t address, bytes;
} SimArea;

typedef struct SimTracedCluster {
    uint64_t linear;
    uint32_t blocks;
    SimTracedWarp *warps;
    size_t warp_count;
    SimPhase *phases;
    size_t phase_count;
    SimTracedOp *ops;
    size_t op_count;
    SimSignal *signals; /* which phases an operation arrives at when it completes */
    size_t signal_count;
    SimTouch *touches; /* in the order in which they came */
    size_t touch_count;
    SimArea *areas;
    size_t area_count;
    /* what it drew from a counter: atom.add that gives what was there; of several counters, the
     * first, and told so */
    uint64_t *drawn, counter, step;
    size_t drawn_count;
    bool counters;
    uint64_t place; /* in the trace: that in the grid, or in SimLaunch.dealt */
} SimTracedCluster;

typedef struct SimTrace {
    SimTracedCluster *clusters; /* by their place in the grid */
    size_t cluster_count;
} SimTrace;

/* What a clock asks about an instruction.  A slot says where an operand is kept: the same slot, the
 * same register of one function; the low two bits of a register's are 0, of a constant's 1. */
typedef struct SimInsnView {
    const char *mnemonic; /* with all modifiers */
    uint32_t line;
    int64_t imm;
    const uint32_t *slots; /* operands; destinations first */
    uint32_t slot_count, destination_count;
    uint32_t guard; /* UINT32_MAX: none */
} SimInsnView;

bool sim_insn_at(const SimModule *mod, uint32_t index, SimInsnView *out);

/* ------------------------------------------------------------------------ reports */

/* Counts of one PTX line over the launch (only lines that ran). */
typedef struct SimLine {
    uint32_t ptx_line;
    const char *source_file;
    uint32_t source_line;
    const char *mnemonic;
    uint64_t executed;   /* warp instructions */
    uint64_t wavefronts; /* passes through shared memory; 0 if it does not access it */
    uint64_t ideal;      /* the passes it would take without bank conflicts */
} SimLine;

typedef struct SimReport {
    SimStatus status;
    SimError error;             /* when status is SIM_STATUS_ERROR */
    const SimFinding *findings; /* faults first, then by PTX line */
    size_t finding_count;
    uint64_t finding_total; /* occurrences of faults and notes, including those not kept */
    SimFindingCount count[SIM_LEVEL_COUNT][SIM_FIND_KIND_COUNT];
    const SimLine *lines; /* when count_banks */
    size_t line_count;
    uint64_t instructions; /* warp instructions executed */
    SimTrace *trace;       /* when trace_every */
} SimReport;

/* Runs a kernel to its end.  NULL only if there is no memory for the report. */
SimReport *sim_launch(SimModule *mod, const SimLaunch *launch);
void sim_report_free(SimReport *report);

/* Prints the error, the findings (a paragraph each, beginning with its level) and their number, as
 * text for people. */
void sim_report_print(const SimReport *report, FILE *out);

/* "S-RACE": the name under which `tilec explain` has the kind, and SARIF. */
enum { SIM_RULE_LENGTH = 32 };
void sim_finding_rule(SimFindingKind kind, char out[SIM_RULE_LENGTH]);

/* SARIF 2.1.0 of several reports: begin, add each, end.  `before`: how many findings were added
 * before; gives how many there are then.  `ptx`: the file. */
void sim_sarif_begin(FILE *out);
size_t sim_sarif_add(FILE *out, const SimReport *report, const char *ptx, size_t before);
void sim_sarif_end(FILE *out);

/* Findings that are known: lines `KIND FILE:LINE`, with * for any kind or line; FILE by the last
 * parts of its path, the source's where `.loc` gives one, or the PTX's.  NULL: `error` says what is
 * wrong with which line. */
typedef struct SimSuppressions SimSuppressions;
SimSuppressions *sim_suppressions_read(const char *text, SimError *error);
void sim_suppressions_free(SimSuppressions *suppressions);
/* Takes them out of the report and gives how many these were; without other faults its status is
 * SIM_STATUS_OK then. */
size_t sim_report_suppress(SimReport *report, const SimSuppressions *suppressions, const char *ptx);
/* The line of the next suppression that has matched nothing so far, `from` (0 at first) on; 0: no
 * more. */
uint32_t sim_suppression_unused(const SimSuppressions *suppressions, size_t *from);

#ifdef __cplusplus
}
#endif

#endif
