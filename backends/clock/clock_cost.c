/* clock_cost.c - PTX instructions to units, by mnemonic. */
#include "backends/clock/clock_cost.h"

#include "backends/clock/clock_anchor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
is_one_of(const char *mnemonic, const char *const *names)
{
    for (uint32_t k = 0; names[k] != NULL; k++) {
        if (mnemonic_is(mnemonic, names[k]))
            return true;
    }
    return false;
}

typedef struct NameRow {
    const char *name;
    ClockClass kind;
    ClockUnit unit;
    bool ends;
} NameRow;

/* The first that fits. */
static const NameRow name_rows[] = {
    {"mov", CLASS_FREE, UNIT_ISSUE, false},
    {"cvta", CLASS_FREE, UNIT_ISSUE, false},
    {"ld.param", CLASS_FREE, UNIT_ISSUE, false}, /* a constant operand of its users */
    {"bra", CLASS_BRANCH, UNIT_ISSUE, true},
    {"brx", CLASS_BRANCH, UNIT_ISSUE, true},
    {"call", CLASS_BRANCH, UNIT_ISSUE, true},
    {"ret", CLASS_BRANCH, UNIT_ISSUE, true},
    {"exit", CLASS_BRANCH, UNIT_ISSUE, true},
    {"bar.warp", CLASS_FENCE, UNIT_ISSUE, true},
    {"bar", CLASS_EVENT, UNIT_ISSUE, true},
    {"barrier", CLASS_EVENT, UNIT_ISSUE, true},
    {"mbarrier", CLASS_EVENT, UNIT_ISSUE, true},
    {"fence", CLASS_FENCE, UNIT_ISSUE, true},
    {"membar", CLASS_FENCE, UNIT_ISSUE, true},
    {"setmaxnreg", CLASS_FENCE, UNIT_ISSUE, true},
    {"griddepcontrol", CLASS_FENCE, UNIT_ISSUE, true},
    {"wgmma.mma_async", CLASS_GROUP_MMA, UNIT_TENSOR, true},
    {"wgmma.fence", CLASS_FENCE, UNIT_ISSUE, true},
    {"wgmma.commit_group", CLASS_GROUP_COMMIT, UNIT_ISSUE, true},
    {"wgmma.wait_group", CLASS_GROUP_WAIT, UNIT_ISSUE, true},
    {"cp.async.bulk.commit_group", CLASS_BULK_COMMIT, UNIT_ISSUE, true},
    {"cp.async.bulk.wait_group", CLASS_BULK_WAIT, UNIT_ISSUE, true},
    {"cp.async.bulk.prefetch", CLASS_FENCE, UNIT_ISSUE, true},
    {"cp.async.bulk", CLASS_BULK, UNIT_TMA_LOAD, true},
    {"cp.reduce.async.bulk", CLASS_BULK, UNIT_TMA_STORE, true},
    {"cp.async.commit_group", CLASS_COPY_COMMIT, UNIT_ISSUE, true},
    {"cp.async.wait_group", CLASS_COPY_WAIT, UNIT_ISSUE, true},
    {"cp.async.wait_all", CLASS_COPY_WAIT, UNIT_ISSUE, true},
    {"cp.async.mbarrier", CLASS_EVENT, UNIT_ISSUE, true},
    {"cp.async", CLASS_COPY, UNIT_GLOBAL, false},
    {"tcgen05.mma", CLASS_MMA, UNIT_ISSUE, true},
    {"tcgen05.cp", CLASS_MMA_COPY, UNIT_ISSUE, true},
    {"tcgen05.commit", CLASS_MMA_COMMIT, UNIT_ISSUE, true},
    {"tcgen05.ld", CLASS_TMEM_LOAD, UNIT_TMEM, true},
    {"tcgen05.st", CLASS_TMEM_STORE, UNIT_TMEM, true},
    {"tcgen05.wait::ld", CLASS_TMEM_LOADED, UNIT_ISSUE, true},
    {"tcgen05.wait::st", CLASS_TMEM_STORED, UNIT_ISSUE, true},
    {"tcgen05.alloc", CLASS_FENCE, UNIT_ISSUE, true},
    {"tcgen05.dealloc", CLASS_FENCE, UNIT_ISSUE, true},
    {"tcgen05", CLASS_FREE, UNIT_ISSUE, true}, /* fences, relinquish_alloc_permit */
    {"clusterlaunchcontrol.try_cancel", CLASS_NEXT_WORK, UNIT_ISSUE, true},
    {"clusterlaunchcontrol", CLASS_PLAIN, UNIT_ALU, false},
    {"st.async", CLASS_ASYNC_STORE, UNIT_ISSUE, true},
    {"prefetch", CLASS_PLAIN, UNIT_ALU, false},
    {"ldmatrix", CLASS_MATRIX, UNIT_SHARED, false},
    {"stmatrix", CLASS_MATRIX, UNIT_SHARED, false},
};

static const char *const mufu[] = {"ex2", "lg2", "rcp",  "rsqrt", "sqrt",
                                   "sin", "cos", "tanh", NULL};
static const char *const lanes_move[] = {"shfl", "vote", "match", "redux", "elect", NULL};
static const char *const adds_or_multiplies[] = {"fma", "mad", "mul", "add", "sub", "neg", NULL};
static const char *const arithmetic[] = {
    "abs",      "min",  "max",        "setp",      "set", "selp", "slct",  "and",
    "or",       "xor",  "not",        "lop3",      "shl", "shr",  "shf",   "prmt",
    "bfe",      "bfi",  "bfind",      "popc",      "clz", "brev", "testp", "bmsk",
    "szext",    "dp4a", "getctarank", "div",       "rem", "mapa", "sad",   "copysign",
    "isspacep", "fns",  "activemask", "nanosleep", NULL};
static const char *const floats[] = {"f32", "f16", "f16x2", "bf16", "bf16x2", "f32x2", NULL};

static bool
is_float(const char *mnemonic)
{
    for (uint32_t k = 0; floats[k] != NULL; k++) {
        if (mnemonic_has(mnemonic, floats[k]))
            return true;
    }
    return false;
}

/* Of an access: bytes that a lane moves. */
static double
lane_bytes(const char *mnemonic)
{
    static const struct {
        const char *type;
        double bytes;
    } types[] = {{"b128", 16}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8},
                 {"b16", 2},   {"u16", 2}, {"s16", 2}, {"f16", 2}, {"bf16", 2},
                 {"b8", 1},    {"u8", 1},  {"s8", 1}};
    double bytes = 4;

    for (uint32_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        if (mnemonic_has(mnemonic, types[k].type))
            bytes = types[k].bytes;
    }
    return bytes * (mnemonic_has(mnemonic, "v2")   ? 2
                    : mnemonic_has(mnemonic, "v4") ? 4
                    : mnemonic_has(mnemonic, "v8") ? 8
                                                   : 1);
}

static bool
memory_cost(const ClockFact *rows, const char *mnemonic, ClockCost *out)
{
    static const char *const accesses[] = {"ld", "ldu", "st", "atom", "red", NULL};

    if (!is_one_of(mnemonic, accesses))
        return false;
    bool shared = mnemonic_has(mnemonic, "shared") || mnemonic_has(mnemonic, "shared::cta") ||
                  mnemonic_has(mnemonic, "shared::cluster");
    out->kind = shared ? CLASS_SHARED : CLASS_GLOBAL;
    out->unit = shared ? UNIT_SHARED : UNIT_GLOBAL;
    out->clocks = lane_bytes(mnemonic);
    out->latency = rows[shared ? CLOCK_SHARED_LATENCY : CLOCK_GLOBAL_LATENCY].value;
    out->stores = !mnemonic_is(mnemonic, "ld") && !mnemonic_is(mnemonic, "ldu");
    out->adds = mnemonic_is(mnemonic, "atom") || mnemonic_is(mnemonic, "red");
    return true;
}

/* m64n256k16, of the types that make k what it is: operations. */
static double
mma_flops(const char *mnemonic)
{
    int m = 0, n = 0, k = 0;
    const char *shape = strstr(mnemonic, ".m");

    while (shape != NULL && sscanf(shape, ".m%dn%dk%d", &m, &n, &k) != 3)
        shape = strstr(shape + 1, ".m");
    bool bytes = mnemonic_has(mnemonic, "e4m3") || mnemonic_has(mnemonic, "e5m2") ||
                 mnemonic_has(mnemonic, "s8") || mnemonic_has(mnemonic, "u8");
    bool words = mnemonic_has(mnemonic, "tf32");
    bool halves = mnemonic_has(mnemonic, "kind::mxf4") || mnemonic_has(mnemonic, "kind::mxf4nvf4");
    return 2.0 * m * n * k *
           (halves  ? 0.25
            : bytes ? 0.5
            : words ? 2
                    : 1); /* in those of 16 bits */
}

double
clock_warp_mma(const ClockFact *rows, double flops)
{
    return flops * rows[CLOCK_SCHEDULERS].value / rows[CLOCK_WARP_MMA_FLOPS].value;
}

static bool
arithmetic_cost(const ClockFact *rows, const char *mnemonic, ClockCost *out)
{
    bool real = is_float(mnemonic);

    out->kind = CLASS_PLAIN;
    out->latency = rows[CLOCK_FIXED_LATENCY].value;
    if (is_one_of(mnemonic, mufu)) {
        out->unit = UNIT_MUFU;
        out->clocks = rows[CLOCK_MUFU].value;
        out->latency = rows[CLOCK_MUFU_LATENCY].value;
    } else if (is_one_of(mnemonic, lanes_move)) {
        out->unit = UNIT_SHUFFLE;
        out->clocks = rows[CLOCK_SHUFFLE].value;
        out->latency = rows[CLOCK_SHUFFLE_LATENCY].value;
    } else if (mnemonic_is(mnemonic, "mma")) {
        out->unit = UNIT_WARP_MMA;
        out->clocks = clock_warp_mma(rows, mma_flops(mnemonic));
        out->latency = rows[CLOCK_WARP_MMA_LATENCY].value;
    } else if (mnemonic_is(mnemonic, "cvt")) {
        bool pack = mnemonic_has(mnemonic, "bf16x2") || mnemonic_has(mnemonic, "f16x2") ||
                    mnemonic_has(mnemonic, "bf16") || mnemonic_has(mnemonic, "f16");
        out->unit = pack || !real ? UNIT_ALU : UNIT_MUFU; /* between f32 and whole numbers */
        out->clocks = rows[pack ? CLOCK_PACK : real ? CLOCK_MUFU : CLOCK_ALU].value;
        if (out->unit == UNIT_MUFU)
            out->latency = rows[CLOCK_MUFU_LATENCY].value;
    } else if (is_one_of(mnemonic, adds_or_multiplies) && real) {
        out->unit = UNIT_FMA;
        out->clocks = rows[mnemonic_has(mnemonic, "f32x2") ? CLOCK_PACKED : CLOCK_FMA].value;
    } else if (mnemonic_is(mnemonic, "mul") || mnemonic_is(mnemonic, "mad")) {
        out->unit = UNIT_FMA;
        out->clocks = rows[CLOCK_IMAD].value;
    } else {
        out->unit = UNIT_ALU;
        out->clocks = rows[CLOCK_ALU].value;
        if (!is_one_of(mnemonic, adds_or_multiplies) && !is_one_of(mnemonic, arithmetic))
            out->kind = CLASS_UNKNOWN;
    }
    return true;
}

void
clock_share(const ClockFact *rows, ClockUnit unit, bool whole_numbers, double clocks,
            double *beside, double *port)
{
    double products = 0;

    *port = 0;
    if (unit == UNIT_FMA) {
        *port = whole_numbers ? rows[CLOCK_PORT_IMAD].value /* a packed instruction is two */
                              : rows[CLOCK_PORT_FMA].value * clocks / rows[CLOCK_FMA].value;
        products = rows[CLOCK_ALU_PRODUCTS].value; /* but in a run */
    } else if (unit == UNIT_ALU) {
        *port = rows[CLOCK_PORT_ALU].value;
        products = rows[CLOCK_ALU_PRODUCTS].value;
    } else if (unit == UNIT_MUFU) {
        *port = rows[CLOCK_PORT_MUFU].value;
        products = rows[CLOCK_MUFU_PRODUCTS].value;
    }
    *beside = products > 0 ? products : clocks;
}

void
clock_cost(const ClockFact *rows, const char *mnemonic, ClockCost *out)
{
    *out = (ClockCost){.kind = CLASS_UNKNOWN};
    for (uint32_t k = 0; k < sizeof name_rows / sizeof name_rows[0]; k++) {
        const NameRow *row = &name_rows[k];
        if (!mnemonic_is(mnemonic, row->name))
            continue;
        *out = (ClockCost){.kind = row->kind, .unit = row->unit, .ends = row->ends};
        if (row->kind == CLASS_MATRIX) {
            out->latency = rows[CLOCK_MATRIX_LATENCY].value;
            out->clocks = 128 *
                          (mnemonic_has(mnemonic, "x4")   ? 4
                           : mnemonic_has(mnemonic, "x2") ? 2
                                                          : 1) /
                          rows[CLOCK_SHARED_BYTES].value;
            out->stores = mnemonic_is(mnemonic, "stmatrix");
        } else if (row->kind == CLASS_FENCE) {
            bool alloc = mnemonic_is(mnemonic, "tcgen05");
            bool light = mnemonic_is(mnemonic, "wgmma") || mnemonic_is(mnemonic, "bar.warp") ||
                         mnemonic_has(mnemonic, "mbarrier_init");
            bool proxy = mnemonic_has(mnemonic, "proxy");
            out->latency = light ? 1
                                 : rows[alloc   ? CLOCK_TMEM_ALLOC
                                        : proxy ? CLOCK_FENCE_PROXY
                                                : CLOCK_FENCE]
                                       .value;
        } else if (row->unit == UNIT_TMEM) {
            out->clocks = tmem_clocks(rows, mnemonic);
            out->latency = out->clocks + rows[CLOCK_TMEM_LATENCY].value;
        } else if (row->kind == CLASS_GROUP_MMA) {
            out->clocks = mma_flops(mnemonic) / rows[CLOCK_GROUP_MMA_FLOPS].value;
            out->latency = rows[CLOCK_GROUP_MMA_LATENCY].value;
        } else if (row->kind == CLASS_BULK && mnemonic_has(mnemonic, "bulk_group")) {
            out->unit = UNIT_TMA_STORE;
            out->adds = mnemonic_is(mnemonic, "cp.reduce");
        } else if (row->kind == CLASS_COPY) {
            out->clocks = 16;
            out->latency = rows[CLOCK_GLOBAL_LATENCY].value;
            out->stores = true;
        }
        return;
    }
    if (!memory_cost(rows, mnemonic, out))
        arithmetic_cost(rows, mnemonic, out);
}
