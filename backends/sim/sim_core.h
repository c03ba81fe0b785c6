/* sim_core.h - what a decoded program and a running block are made of.
 *
 *   device     allocations in one 64-bit address space, and the modules loaded into it
 *   module     functions made of SimInsn: one function pointer and a few operand slots each
 *   launch     one run of an entry; its clusters are handed out to host threads
 *   cluster    1..16 blocks that run together on one host thread (most launches: one block)
 *   block      shared memory, barriers, warps
 *   warp       32 lanes: groups of lanes with a program counter each, and a register file
 *
 * Registers lie lane-contiguous: a 32-bit register is 32 consecutive words, so that executing one
 * instruction for a warp is one loop over an array.  8- and 16-bit registers use 32-bit words with
 * a zero upper part, 64-bit ones 32 doublewords, 128-bit ones two rows of doublewords (low, high).
 * A predicate is one word, a bit per lane.
 */
#ifndef TILEC_SIM_CORE_H
#define TILEC_SIM_CORE_H

#include <pthread.h>
#include <string.h>

#include "sim.h"
#include "sim_arena.h"

enum {
    SIM_LANES = 32,
    SIM_MAX_WARPS = 32,       /* of a block (PTX ISA: 1024 threads) */
    SIM_MAX_CLUSTER = 16,     /* blocks */
    SIM_BARRIERS = 16,        /* named barriers of a block (PTX ISA 9.7.13.1) */
    SIM_SHARED_BASE = 1024,   /* first address of a block's shared memory, so that 0 is invalid */
    SIM_SHARED_LIMIT = 232448 /* bytes a block can have on any target */
};

/* An event is a warp (agent) above its clock. */
enum { SIM_CLOCK_BITS = 22 };
#define SIM_CLOCK_MAX ((UINT32_C(1) << SIM_CLOCK_BITS) - 1)

/* Vector clocks come in this number (SimWarp.clock). */
enum { SIM_PLANES = 4 };

/* Windows of the generic address space.  Everything else is global: constants and the
 * entry's parameters too (the param window lies inside the global one, PTX ISA 6.4.3). */
#define SIM_WINDOW_SHARED UINT64_C(0x0000100000000000)
#define SIM_WINDOW_LOCAL UINT64_C(0x0000200000000000)
#define SIM_WINDOW_PARAM UINT64_C(0x0000300000000000) /* the entry's parameters */
#define SIM_WINDOW_CODE UINT64_C(0x0000400000000000)  /* functions, by index */
#define SIM_WINDOW_SIZE UINT64_C(0x0000000100000000)
/* A 32-bit shared::cluster address is the block's rank above a 24-bit offset. */
#define SIM_SHARED_RANK_SHIFT 24
#define SIM_SHARED_OFFSET_MASK UINT32_C(0x00ffffff)

typedef struct SimInsn SimInsn;
typedef struct SimFunction SimFunction;
typedef struct SimWarp SimWarp;
typedef struct SimGroup SimGroup;
typedef struct SimCta SimCta;
typedef struct SimCluster SimCluster;
typedef struct SimRun SimRun;
typedef struct SimOp SimOp;
typedef struct SimShadow SimShadow;
typedef struct SimSyncTable SimSyncTable;
typedef struct SimRegisterWatch SimRegisterWatch;
typedef struct SimSnapshot SimSnapshot;
typedef struct SimForeignList SimForeignList;
typedef struct SimTracer SimTracer;
typedef struct SimGlobalSync SimGlobalSync;
typedef struct SimGlobalShadow SimGlobalShadow;

/* ------------------------------------------------------------------------ types */

/* clang-format off */
typedef enum SimType {
    SIM_NO_TYPE,
    SIM_PRED,
    SIM_B8, SIM_B16, SIM_B32, SIM_B64, SIM_B128,
    SIM_U8, SIM_U16, SIM_U32, SIM_U64,
    SIM_S8, SIM_S16, SIM_S32, SIM_S64,
    SIM_F16, SIM_BF16, SIM_TF32, SIM_F32, SIM_F64,
    SIM_F16X2, SIM_BF16X2, SIM_F32X2, SIM_U16X2, SIM_S16X2,
    SIM_E4M3, SIM_E5M2, SIM_E2M1, SIM_E2M3, SIM_E3M2, SIM_UE8M0,
    SIM_E4M3X2, SIM_E5M2X2, SIM_E2M1X2, SIM_E2M3X2, SIM_E3M2X2, SIM_UE8M0X2,
    SIM_E4M3X4, SIM_E5M2X4, SIM_E2M1X4, SIM_E2M3X4, SIM_E3M2X4,
    SIM_TYPE_COUNT
} SimType;
/* clang-format on */

typedef struct SimTypeInfo {
    const char *name;
    uint8_t bits; /* of a register that holds it */
    char kind;    /* p predicate, b bits, u unsigned, s signed, f float, v packed, x narrow float */
} SimTypeInfo;

const SimTypeInfo *sim_type_info(SimType type);

typedef enum SimSpace {
    SIM_GENERIC,
    SIM_GLOBAL,         /* also const, and the parameters of an entry: all are device allocations */
    SIM_SHARED,         /* shared::cta: the address carries the block's own rank, or none */
    SIM_SHARED_CLUSTER, /* the address carries the rank of the block it names */
    SIM_LOCAL           /* also the parameters of a device function: per-thread stack */
} SimSpace;

/* ------------------------------------------------------------------------ decoded program */

/* Where an operand lies: a byte offset into one of the warp's banks, the bank in the low bits. */
typedef uint32_t SimSlot;
enum { SIM_BANK_REGISTERS, SIM_BANK_CONSTANTS, SIM_BANK_SPECIAL, SIM_BANK_COUNT };
#define SIM_NO_SLOT UINT32_MAX

/* What executing an instruction tells the warp's loop. */
typedef enum SimStep {
    SIM_NEXT,  /* go on with the next instruction */
    SIM_JUMP,  /* the groups' program counters are already right */
    SIM_WAIT,  /* done, but the group sleeps until group->wait is ready; then the next one */
    SIM_STALL, /* not done: the group needs lanes that are elsewhere; try again when they join */
    SIM_YIELD, /* done, and let another warp run */
    SIM_FATAL  /* the error is recorded; the launch ends */
} SimStep;

typedef SimStep (*SimExec)(SimWarp *warp, const SimInsn *insn, uint32_t mask);

struct SimInsn {
    SimExec exec;
    SimSlot *slot; /* operands, destinations first, in the order that the family chooses */
    SimSlot guard; /* predicate, or SIM_NO_SLOT */
    bool guard_negated;
    bool converge;       /* .aligned: needs every lane of the warp that has not exited */
    bool calls;          /* the function of index imm */
    bool meets;          /* lanes that execute it at other places meet these (bar.warp.sync) */
    bool whole_warp;     /* and none may have exited (mma, ldmatrix and the like) */
    bool frame_relative; /* an address operand is an offset in the frame's part of the stack */
    uint8_t slot_count;
    uint8_t destination_count; /* of the slots, the first ones */
    uint8_t type;              /* SimType of the operation */
    uint8_t type2;             /* of the source, where it differs */
    uint8_t space;             /* SimSpace */
    uint8_t count;             /* of a vector */
    uint8_t mode[6];           /* the family's own modifiers */
    uint8_t contracts;         /* SIM_PRODUCT and the like (sim_contract.h) */
    int64_t imm;               /* address offset, or the family's own */
    int64_t imm2;
    uint32_t target;  /* branch: index of an instruction */
    uint32_t line;    /* of the PTX text */
    uint32_t loc;     /* index into module->locs, 0 none */
    uint32_t index;   /* in module->insns */
    const void *data; /* the family's own, in the module's arena */
    const char *mnemonic;
};

typedef struct SimLoc {
    uint32_t file, line;
} SimLoc;

typedef struct SimLocalVar { /* of a function: a .local or .param variable */
    uint32_t offset, size;
} SimLocalVar;

struct SimFunction {
    const char *name;
    bool is_entry, has_body;
    uint32_t line;
    SimInsn *insns; /* the last one is always an exit or a return */
    uint32_t insn_count;
    uint32_t register_bytes; /* of a frame */
    /* place in the last row of predicates; a multiple of a row: it is full */
    uint32_t next_predicate;
    uint32_t local_bytes; /* of a frame, per lane: locals, call parameters */
    SimLocalVar *params;  /* of a device function, in its frame */
    uint32_t param_count;
    SimLocalVar *results;
    uint32_t result_count;
    SimEntry entry;          /* of an entry */
    uint32_t shared_bytes;   /* static shared memory, of an entry with that of the module */
    uint32_t max_registers;  /* .maxnreg, 0 if absent */
    uint32_t min_ctas;       /* .minnctapersm, 0 if absent */
    const SimError *refused; /* it, or what it calls, has an instruction that is not supported */
};

/* A row of the bank of immediates; more in the same bucket behind it. */
typedef struct SimConstant SimConstant;

/* An addition that may be one with a product (sim_contract.c). */
typedef struct SimContraction SimContraction;

typedef struct SimGlobalVar {
    const char *name;
    uint64_t address;
    size_t size;
} SimGlobalVar;

/* What instructions of every target ask of the one at hand: a row for each of which there is
 * something to say. */
typedef struct SimTarget {
    uint32_t capability; /* 90; 0: the module names none */
    bool known_sums;     /* products of mma.sync and wmma are summed as by sim_matrix_sm90 */
} SimTarget;

struct SimModule {
    SimArena arena;
    SimDevice *device;
    SimModule *next;
    const char *name, *target;
    SimTarget facts;
    const char *head; /* comments in front of all else: they may name barriers (sim_names.c) */
    uint32_t version; /* 87 for 8.7 */
    SimFunction **functions;
    size_t function_count, function_capacity;
    SimFunction **entries;
    size_t entry_count;
    SimGlobalVar *globals;
    size_t global_count, global_capacity;
    SimLoc *locs;
    size_t loc_count, loc_capacity;
    const char **files; /* by index of .file */
    size_t file_count, file_capacity;
    SimInsn **insns; /* of all functions, by SimInsn.index */
    size_t insn_count, insn_capacity;
    SimContraction *contractions;
    size_t contraction_count, contraction_capacity;
    SimConstant **constant_bucket; /* of what is in the bank below */
    uint8_t *constants;            /* bank of immediates, each broadcast to 32 lanes */
    size_t constant_bytes, constant_capacity;
    /* addresses of shared variables that operands name: rows of the special bank after
       SIM_SPECIAL_BYTES, with the rank put in */
    uint64_t *shared_address;
    size_t shared_address_count, shared_address_capacity;
    uint64_t heap; /* of the kernels' malloc, 0 none: SIM_HEAP_BYTES */
    size_t heap_used;
    /* of cooperative groups, two words that are zero at a launch; 0 none */
    uint64_t grid_workspace;
    bool takes_clusters;   /* has clusterlaunchcontrol.try_cancel */
    uint32_t shared_bytes; /* static shared memory that every entry has */
};

/* sim_names.c: keeps the comments in front of a module's text. */
void sim_keep_head(SimModule *mod, const char *text, size_t length);

/* ------------------------------------------------------------------------ device memory */

typedef struct SimAllocation {
    uint64_t address;
    size_t size;
    uint8_t *data;
    uint8_t *init; /* a byte for each: 1 if written */
    const char *name;
    bool read_only;
    struct SimGlobalPage **shadow; /* during a launch with checks */
} SimAllocation;

enum { SIM_ATOMIC_LOCKS = 64, SIM_HEAP_BYTES = 8 << 20 };

struct SimDevice {
    SimAllocation **allocations; /* by address */
    size_t count, capacity;
    uint64_t next_address;
    uint64_t bytes_left; /* of the budget (sim_device_limit) */
    SimModule *modules;
    pthread_mutex_t atomic_lock[SIM_ATOMIC_LOCKS];
};

SimAllocation *sim_device_find(const SimDevice *dev, uint64_t address);

/* ------------------------------------------------------------------------ running */

typedef struct SimRandom {
    uint64_t state;
} SimRandom;

static inline uint64_t
sim_random(SimRandom *random) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint32_t
sim_random_below(SimRandom *random, uint32_t bound)
{
    return (uint32_t)(((sim_random(random) >> 32) * bound) >> 32);
}

/* One activation of a function, shared by the lanes that called it together. */
typedef struct SimFrame {
    struct SimFrame *caller;
    const SimFunction *function;
    uint8_t *registers;
    uint32_t local_base; /* offset in each lane's stack */
    uint32_t top[32];    /* of each lane: where it may allocate (alloca), a multiple of 16 */
    uint32_t lanes;      /* that have not returned yet */
    uint32_t return_pc;  /* in the caller */
    uint32_t depth;
    const SimInsn *call; /* the instruction that made it */
} SimFrame;

/* What a sleeping group waits for.  `ready` is asked until it says true; it then has done what the
 * end of the wait implies (acquire, write a result).  `describe` writes a line for hang reports. */
typedef struct SimWait {
    bool (*ready)(SimWarp *warp, SimGroup *group);
    void (*describe)(const SimWarp *warp, const SimGroup *group, char *text, size_t size);
    uint64_t arg[4];
} SimWait;

/* Lanes of a warp at one program counter (PTX ISA 3.2: lanes may diverge and run apart). */
struct SimGroup {
    uint32_t mask;
    uint32_t pc;
    SimFrame *frame;
    bool stalled; /* waits for other lanes of the warp to join it at pc */
    bool waiting;
    bool forced;  /* run the stalled instruction even so: the finding is made */
    uint32_t met; /* lanes whose partners have come to a bar.warp.sync elsewhere */
    SimWait wait;
    const SimInsn *wait_insn;
};

/* State that an extension (a file family such as sim_sm90_*.c) keeps on a warp, block or cluster.
 * It is allocated on first use and released with its owner. */
typedef enum SimExtensionId {
    SIM_EXT_SM80,
    SIM_EXT_SM90,
    SIM_EXT_SM100,
    SIM_EXT_COUNT
} SimExtensionId;

typedef struct SimExtension {
    void *state;
    void (*release)(void *state);
} SimExtension;

struct SimWarp {
    uint8_t *bank[SIM_BANK_COUNT]; /* [REGISTERS] belongs to the frame that runs now */
    SimCta *cta;
    SimRun *run;
    uint32_t index;         /* in the block */
    uint32_t agent;         /* in the cluster: the component of the vector clocks */
    uint32_t present, live; /* lanes that exist; that have not exited */
    SimGroup *group[SIM_LANES];
    SimGroup *running;
    uint32_t group_count;
    SimGroup group_pool[SIM_LANES];
    const SimInsn *insn; /* executing now, or last */
    uint32_t lanes_run;  /* of it: what its guard let through */
    uint32_t carry;      /* the condition code register, a bit per lane (PTX ISA 9.7.2) */
    uint8_t *local;      /* lane l's stack is at local + l * local_size */
    uint32_t local_size, local_top;
    /* Vector clocks: what this warp knows of every agent.  SIM_PLANES of them, one behind the
     * other: in general; the part of it that a proxy fence covers (PTX ISA 8.6); and more than in
     * general, for the order of tensor memory, and of mbarriers just initialised (sim_sync.h). */
    uint32_t *clock, *proxy_clock, *tensor_clock, *init_clock;
    uint32_t *
        /* SIM_KNOWN_OPS of its ops that it knows, and as many known to the proxy (sim_shadow.c) */
        known_ops;
    struct SimWarpSync *sync; /* fences and relaxed accesses */
    uint32_t lane_epoch;      /* counts what orders the lanes of the warp among themselves */
    uint32_t lane_whole;      /* the one that began when all of them were last in order */
    /* [l][m]: before which epoch lane l knows what lane m did; NULL before some lanes alone were
     * put in order. */
    uint32_t (*lane_known)[SIM_LANES];
    uint32_t lanes_clock;   /* its own clock when its lanes were last in order among themselves */
    uint32_t written_clock; /* and when it last stored to shared memory */
    struct SimPartial *partial; /* releases by some of its lanes only, by clock */
    uint32_t partial_count, partial_capacity;
    SimAllocation *recent; /* the allocation accessed last */
    SimRandom random;
    SimRegisterWatch *watch; /* over registers of wgmma, NULL before the first */
    /* tcgen05.ld without a wait whose registers no instruction has touched */
    uint32_t unread_loads;
    SimExtension ext[SIM_EXT_COUNT];
};

typedef struct SimNamedBarrier {
    uint32_t arrived, expected; /* threads; expected 0: nobody yet, UINT32_MAX: all of the block */
    uint32_t generation;
    uint32_t warps;                /* that arrived, a bit each */
    uint32_t lanes[SIM_MAX_WARPS]; /* of them, the lanes */
    uint32_t reduce_or, reduce_popc;
    bool reduce_and;
    const SimInsn *insn; /* of the first arrival */
    uint32_t *clock;     /* SIM_PLANES */
} SimNamedBarrier;

struct SimCta {
    SimCluster *cluster;
    uint32_t rank; /* in the cluster */
    uint32_t index[3];
    uint64_t linear;
    uint8_t *shared; /* the bytes from SIM_SHARED_BASE on */
    uint32_t shared_size;
    SimWarp *warps;
    uint32_t warp_count, live_warps;
    SimNamedBarrier barrier[SIM_BARRIERS];
    SimShadow *shadow; /* of shared memory; NULL without checks */
    SimExtension ext[SIM_EXT_COUNT];
};

struct SimCluster {
    SimRun *run;
    SimCta *ctas;
    uint32_t cta_count, live_ctas;
    uint32_t agents;       /* warps of all blocks: length of the vector clocks */
    uint64_t linear;       /* index of the cluster in the grid */
    const SimDealt *dealt; /* NULL: it is not of SimLaunch.dealt */
    uint32_t index[3];
    uint64_t now;      /* warp instructions executed so far: the clock of asynchronous ops */
    uint64_t progress; /* changes whenever something happens that may end a wait */
    SimRandom random;
    struct {                  /* with SimLaunch.late */
        uint32_t warp, draws; /* the agent that is late, and how many have been drawn */
        uint32_t spun;        /* how often the others ran for long without it */
        uint64_t until;       /* when the next one is drawn */
        uint64_t since;       /* when it last ran */
    } late;
    SimOp **pending; /* asynchronous ops that have not landed */
    size_t pending_count, pending_capacity;
    uint64_t next_due; /* earliest time in pending */
    SimOp **ops;       /* all ops by id, for the shadow */
    size_t op_count, op_capacity;
    SimSyncTable *sync;      /* memory locations used for synchronisation, for the clocks */
    SimForeignList *foreign; /* what its warps learnt of other clusters */
    uint64_t *executed, *wavefronts, *ideal; /* by instruction, when banks are counted */
    SimTracer *tracer;                       /* when it is traced (sim_trace.h) */
    SimExtension ext[SIM_EXT_COUNT];
};

struct SimRun {
    SimModule *module;
    SimDevice *device;
    const SimFunction *function;
    const SimLaunch *launch;
    bool checks;
    bool noted; /* accesses to memory are: for checks, or for a trace */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t threads_per_cta, warps_per_cta;
    uint32_t shared_bytes;
    uint64_t cluster_count, step_limit;
    SimAllocation *params;
    SimGlobalSync *global_sync; /* with checks */
    SimGlobalShadow *global_shadow;
    pthread_mutex_t lock; /* guards the rest */
    uint64_t next_cluster, ended;
    uint64_t next_taken; /* where one SM's clusters run only: what the first one takes over next */
    _Atomic bool stop;   /* an error ended the launch */
    SimReport *report;
    SimFinding *findings;
    size_t finding_count, finding_capacity;
    /* a hash table over them: 1 + the index; twice as many slots as there is room, at least */
    uint32_t *finding_slots;
    uint32_t kept[SIM_LEVEL_COUNT][SIM_FIND_KIND_COUNT]; /* of the findings */
    SimFindingCount count[SIM_LEVEL_COUNT][SIM_FIND_KIND_COUNT];
    uint64_t instructions;
    uint64_t *executed, *wavefronts, *ideal;
    SimTrace *trace;
    size_t trace_capacity;
};

/* The extension's state on `ext`, made by calloc on first use.  `release` may be NULL: free(). */
void *sim_extension(SimExtension *ext, size_t size, void (*release)(void *state));
void sim_extensions_release(SimExtension *ext);

/* ------------------------------------------------------------------------ operand access */

static inline uint32_t *
sim_r32(const SimWarp *warp, SimSlot slot)
{
    return (uint32_t *)(void *)(warp->bank[slot & 3] + (slot & ~UINT32_C(3)));
}

static inline uint64_t *
sim_r64(const SimWarp *warp, SimSlot slot)
{
    return (uint64_t *)(void *)(warp->bank[slot & 3] + (slot & ~UINT32_C(3)));
}

/* A predicate is a word with a bit per lane. */
static inline uint32_t *
sim_rp(const SimWarp *warp, SimSlot slot)
{
    return sim_r32(warp, slot);
}

/* Writes a result for the lanes of the mask; a sink (`_`) takes nothing. */
static inline void
sim_put32(const SimWarp *warp, SimSlot slot, const uint32_t *value, uint32_t mask)
{
    if (slot == SIM_NO_SLOT)
        return;
    uint32_t *d = sim_r32(warp, slot);
    if (mask == UINT32_MAX) {
        memcpy(d, value, SIM_LANES * sizeof *d);
        return;
    }
    for (uint32_t l = 0; l < SIM_LANES; l++)
        d[l] = mask >> l & 1 ? value[l] : d[l];
}

static inline void
sim_put64(const SimWarp *warp, SimSlot slot, const uint64_t *value, uint32_t mask)
{
    if (slot == SIM_NO_SLOT)
        return;
    uint64_t *d = sim_r64(warp, slot);
    if (mask == UINT32_MAX) {
        memcpy(d, value, SIM_LANES * sizeof *d);
        return;
    }
    for (uint32_t l = 0; l < SIM_LANES; l++)
        d[l] = mask >> l & 1 ? value[l] : d[l];
}

static inline void
sim_put_pred(const SimWarp *warp, SimSlot slot, uint32_t value, uint32_t mask)
{
    if (slot == SIM_NO_SLOT)
        return;
    uint32_t *d = sim_rp(warp, slot);
    *d = (*d & ~mask) | (value & mask);
}

static inline uint32_t
sim_first_lane(uint32_t mask) /* mask != 0 */
{
    return (uint32_t)__builtin_ctz(mask);
}

/* Loops over the lanes of a mask. */
#define sim_each_lane(l, mask)                                                                     \
    for (uint32_t sim_rest_ = (mask), l; sim_rest_ && (l = sim_first_lane(sim_rest_), true);       \
         sim_rest_ &= sim_rest_ - 1)

/* Hot loops are compiled for AVX2 and AVX-512, too; the loader picks.  Sanitizers cannot run the
 * resolver of such functions, and clang 14 has no such attribute for these targets. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__ELF__) &&         \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SIM_HOT __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SIM_HOT
#endif

/* ------------------------------------------------------------------------ warp execution */

/* Splits the running group: `mask` goes to `pc`, the rest stays.  For branches. */
void sim_warp_branch(SimWarp *warp, uint32_t mask, uint32_t pc);
void sim_warp_exit_lanes(SimWarp *warp, uint32_t mask);
void sim_warp_call(SimWarp *warp, const SimInsn *insn, const SimFunction *callee, uint32_t mask);
void sim_warp_return(SimWarp *warp, uint32_t mask);

/* For a .sync op that lanes `needed` must execute together: true if the running group has them all
 * (or was forced on).  When false, return SIM_STALL.  Reports what can never become right. */
bool sim_warp_gather(SimWarp *warp, const SimInsn *insn, uint32_t mask, uint32_t needed);

/* The same for an op with a member mask in each lane: which of the lanes have all their members
 * here. Return the step of sim_warp_members_step (sim_warp.h). */
uint32_t sim_warp_gather_members(SimWarp *warp, const SimInsn *insn, uint32_t mask,
                                 const uint32_t *members);

/* Puts the running group to sleep; return SIM_WAIT after it.  Clears the wait's arguments. */
SimWait *sim_warp_sleep(SimWarp *warp, bool (*ready)(SimWarp *, SimGroup *),
                        void (*describe)(const SimWarp *, const SimGroup *, char *, size_t));

/* ------------------------------------------------------------------------ reporting */

typedef struct SimPlace { /* the other party of a finding */
    const SimInsn *insn;  /* NULL: none */
    int32_t warp;
    uint32_t rank; /* of its block in the cluster */
} SimPlace;

/* Records a fault about the executing instruction (warp->insn).  lane may be -1. */
void sim_find(SimWarp *warp, SimFindingKind kind, int32_t lane, uint64_t address,
              const SimPlace *other, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Records a note (SIM_NOTE), which strict mode makes a fault. */
void sim_note(SimWarp *warp, SimFindingKind kind, int32_t lane, uint64_t address,
              const SimPlace *other, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* A fault where no instruction is executing, or it is not to blame. */
void sim_find_at(SimCluster *cluster, const SimCta *cta, SimFindingKind kind, const SimInsn *insn,
                 int32_t warp_index, int32_t lane, uint64_t address, const SimPlace *other,
                 const char *format, ...) __attribute__((format(printf, 9, 10)));

/* Ends the launch with an error at the executing instruction; return SIM_FATAL after it. */
SimStep sim_fail(SimWarp *warp, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
