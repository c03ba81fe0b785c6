/* clock_whatif.c - replays a launch with one thing after the other 10 percent faster.
 *
 * A thing is some rows of the table: rates grow by a tenth, clocks and latencies shrink as much.
 * What the launch gains is told as its speed, so that a launch that is bound by one thing only
 * gains ten percent.
 */
#include "backends/clock/clock_whatif.h"

#include <string.h>

enum { MOST_ROWS = 8, SEEDS_OF_IT = 3 };
#define NOISE 0.4 /* percent: jitter */

typedef struct Thing {
    const char *name;
    ClockUnit unit;            /* that has to be busy; CLOCK_UNITS: none */
    PathKind kinds[3];         /* that the path goes through; ends with PATH_KINDS */
    ClockRow rates[MOST_ROWS]; /* end with CLOCK_ROWS */
    ClockRow clocks[MOST_ROWS];
    bool products, done; /* of the table of products: their clocks; their latency */
} Thing;

#define END CLOCK_ROWS
static const Thing things[] = {
    {"tensor unit",
     UNIT_TENSOR,
     {PATH_UNIT + UNIT_TENSOR, PATH_KINDS},
     {CLOCK_GROUP_MMA_FLOPS, END},
     {CLOCK_GROUP_MMA_LEAST, END},
     true,
     false},
    {"mma.sync",
     UNIT_WARP_MMA,
     {PATH_UNIT + UNIT_WARP_MMA, PATH_KINDS},
     {CLOCK_WARP_MMA_FLOPS, END},
     {END},
     false,
     false},
    {"MUFU",
     UNIT_MUFU,
     {PATH_UNIT + UNIT_MUFU, PATH_KINDS},
     {END},
     {CLOCK_MUFU, CLOCK_MUFU_PRODUCTS, END},
     false,
     false},
    {"FMA",
     UNIT_FMA,
     {PATH_UNIT + UNIT_FMA, PATH_KINDS},
     {END},
     {CLOCK_FMA, CLOCK_PACKED, CLOCK_IMAD, END},
     false,
     false},
    {"ALU",
     UNIT_ALU,
     {PATH_UNIT + UNIT_ALU, PATH_KINDS},
     {END},
     {CLOCK_ALU, CLOCK_PACK, CLOCK_ALU_PRODUCTS, END},
     false,
     false},
    {"shared pipes",
     CLOCK_UNITS,
     {PATH_SHARE, PATH_KINDS},
     {END},
     {CLOCK_PORT_FMA, CLOCK_PORT_ALU, CLOCK_PORT_IMAD, CLOCK_PORT_MUFU, CLOCK_BANK, END},
     false,
     false},
    {"shared memory",
     UNIT_SHARED,
     {PATH_UNIT + UNIT_SHARED, PATH_UNIT + UNIT_LOADS, PATH_KINDS},
     {CLOCK_SHARED_BYTES, CLOCK_LOAD_BYTES, CLOCK_STORE_BYTES, END},
     {END},
     false,
     false},
    {"tensor memory",
     UNIT_TMEM,
     {PATH_UNIT + UNIT_TMEM, PATH_KINDS},
     {CLOCK_TMEM_BYTES, END},
     {CLOCK_TMEM_ISSUE, CLOCK_TMEM_LEAST, END},
     false,
     false},
    {"L2 cache",
     CLOCK_UNITS,
     {PATH_UNIT + UNIT_GLOBAL, PATH_UNIT + UNIT_GLOBAL_STORE, PATH_KINDS},
     {CLOCK_GLOBAL_BYTES, CLOCK_ADD_BYTES, CLOCK_CHIP_READ, CLOCK_CHIP_READ_BOXES, CLOCK_CHIP_WRITE,
      CLOCK_CHIP_ADD, CLOCK_ADD_SECTOR, END},
     {END},
     false,
     false},
    {"HBM", UNIT_HBM, {PATH_UNIT + UNIT_HBM, PATH_KINDS}, {CLOCK_HBM, END}, {END}, false, false},
    {"copy engine",
     CLOCK_UNITS,
     {PATH_UNIT + UNIT_TMA_LOAD, PATH_UNIT + UNIT_TMA_STORE, PATH_KINDS},
     {CLOCK_TMA_BYTES, CLOCK_CODE_TMA_BYTES, CLOCK_TMA_STORE_BYTES, CLOCK_TMA_ADD_BYTES, END},
     {CLOCK_TMA_ISSUE, CLOCK_CODE_TMA_ISSUE, END},
     false,
     false},
    {"latency of barriers",
     CLOCK_UNITS,
     {PATH_BARRIER, PATH_MBARRIER, PATH_KINDS},
     {END},
     {CLOCK_ARRIVE, CLOCK_TRY, CLOCK_BARRIER, CLOCK_BARRIER_WARP, CLOCK_CODE_ARRIVE, CLOCK_CODE_TRY,
      CLOCK_CLUSTER_BARRIER, END},
     false,
     false},
    {"latency of products",
     UNIT_TENSOR,
     {PATH_PRODUCT, PATH_LATENCY + UNIT_TENSOR, PATH_KINDS},
     {END},
     {CLOCK_GROUP_MMA_LATENCY, CLOCK_CODE_GROUP_MMA, CLOCK_CODE_GROUP_MMA_RS, END},
     false,
     true},
    {"latency of mma.sync",
     UNIT_WARP_MMA,
     {PATH_LATENCY + UNIT_WARP_MMA, PATH_KINDS},
     {END},
     {CLOCK_WARP_MMA_LATENCY, END},
     false,
     false},
    {"latency of copies",
     CLOCK_UNITS,
     {PATH_COPY, PATH_LATENCY + UNIT_GLOBAL, PATH_KINDS},
     {END},
     {CLOCK_TMA_LATENCY, CLOCK_CODE_TMA, CLOCK_CODE_TMA_BOXES, CLOCK_TMA_STORE_LATENCY,
      CLOCK_GLOBAL_LATENCY, CLOCK_HBM_LATENCY, CLOCK_ADD_QUEUE, END},
     false,
     false},
    {"latency of tensor memory",
     UNIT_TMEM,
     {PATH_LATENCY + UNIT_TMEM, PATH_KINDS},
     {END},
     {CLOCK_TMEM_LATENCY, CLOCK_TMEM_STORED, END},
     false,
     false},
    {"latency of results",
     CLOCK_UNITS,
     {PATH_LATENCY + UNIT_MUFU, PATH_LATENCY + UNIT_SHARED, PATH_LATENCY + UNIT_SHUFFLE},
     {END},
     {CLOCK_CODE_MUFU, CLOCK_MUFU_LATENCY, CLOCK_SHARED_LATENCY, CLOCK_MATRIX_LATENCY,
      CLOCK_SHUFFLE_LATENCY, END},
     false,
     false},
};
#undef END

static void
change_products(Arena *arena, const Thing *thing, double by, ClockJob *job)
{
    uint32_t n = 0;

    if (job->products == NULL || (!thing->products && !thing->done))
        return;
    while (job->products[n++].blocks)
        continue;
    ClockProduct *rows = arena_copy(arena, job->products, n * sizeof *rows);
    for (uint32_t k = 0; k < n; k++) {
        rows[k].shared /= thing->products ? by : 1;
        rows[k].memory /= thing->products ? by : 1;
        rows[k].shared_done /= thing->done ? by : 1;
        rows[k].memory_done /= thing->done ? by : 1;
    }
    job->products = rows;
}

/* Cycles, the mean of some seeds; `thing`: as it is. */
static double
replay_with(Arena *arena, const ClockJob *job, const Thing *thing, double by, uint32_t seeds)
{
    Arena scratch;
    double all = 0;

    arena_init(&scratch, allocator_libc(), arena->on_failure);
    for (uint32_t seed = 1; seed <= seeds; seed++) {
        ClockJob one = *job;
        ClockResult result;
        ClockFact *rows = arena_copy(&scratch, job->rows, CLOCK_ROWS * sizeof *rows);
        for (uint32_t k = 0; thing != NULL && thing->rates[k] != CLOCK_ROWS; k++)
            rows[thing->rates[k]].value *= by;
        for (uint32_t k = 0; thing != NULL && thing->clocks[k] != CLOCK_ROWS; k++)
            rows[thing->clocks[k]].value /= by;
        if (thing != NULL)
            change_products(&scratch, thing, by, &one);
        one.rows = rows;
        one.seed = seed;
        one.log = NULL;
        clock_replay(&scratch, &one, &result);
        all += (double)result.cycles;
        arena_reset(&scratch);
    }
    arena_free(&scratch);
    return all / seeds;
}

static double
part_of_path(const ClockPath *path, const Thing *thing)
{
    double all = 0;

    for (uint32_t k = 0; k < 3 && thing->kinds[k] != PATH_KINDS; k++)
        all += path->part[thing->kinds[k]];
    return path->clocks > 0 ? all / path->clocks : 0;
}

void
clock_whatif(Arena *arena, const ClockJob *job, const ClockResult *result, const ClockPath *path,
             bool all, WhatIfs *out)
{
    double by = 1 + WHATIF_PERCENT / 100.0;

    *out = (WhatIfs){.seeds = SEEDS_OF_IT, .slower = all};
    for (uint32_t k = 0; k < sizeof things / sizeof things[0]; k++) {
        const Thing *thing = &things[k];
        double part = part_of_path(path, thing);
        bool used = thing->unit == CLOCK_UNITS || result->busy[thing->unit] > 0;
        if (!used || (!all && part < 0.1))
            continue;
        if (out->n == 0)
            out->cycles = replay_with(arena, job, NULL, 1, SEEDS_OF_IT);
        out->of[out->n++] = (WhatIf){
            .name = thing->name,
            .part = part,
            .faster = replay_with(arena, job, thing, by, SEEDS_OF_IT),
            .slower = all ? replay_with(arena, job, thing, 1 / by, SEEDS_OF_IT) : 0};
    }
}

/* ---- in words ---- */

/* How much faster, in percent; slower is below 0. */
static double
gain(const WhatIfs *of, double cycles)
{
    return cycles > 0 ? 100 * (of->cycles / cycles - 1) : 0;
}

static void
print_side(const WhatIfs *of, bool slower, Buf *out)
{
    bool done[MOST_WHATIFS] = {false};
    uint32_t shown = 0;

    buf_printf(out, "  by replay, 10 %% %s, and the launch is:", slower ? "slower" : "faster");
    for (uint32_t n = 0; n < of->n; n++) {
        uint32_t most = MOST_WHATIFS;
        double best = -1e300;
        for (uint32_t k = 0; k < of->n; k++) {
            double g = slower ? -gain(of, of->of[k].slower) : gain(of, of->of[k].faster);
            if (!done[k] && g > best) {
                best = g;
                most = k;
            }
        }
        done[most] = true;
        if (best >= NOISE)
            buf_printf(out, "%s %s: %.1f %% %s", shown++ ? "," : "", of->of[most].name, best,
                       slower ? "slower" : "faster");
        else
            buf_printf(out, "%s %s",
                       shown == n ? (shown ? "; no different:" : " no different:") : ",",
                       of->of[most].name);
    }
    buf_char(out, '\n');
}

void
clock_whatif_print(const WhatIfs *of, Buf *out)
{
    if (of->n == 0)
        return;
    print_side(of, false, out);
    if (of->slower)
        print_side(of, true, out);
}

void
clock_whatif_json(const WhatIfs *of, Buf *out)
{
    buf_printf(out, "\"what_if\": {\"percent\": %d, \"cycles\": %.1f, \"seeds\": %u, \"of\": [",
               WHATIF_PERCENT, of->cycles, (unsigned)of->seeds);
    for (uint32_t k = 0; k < of->n; k++) {
        buf_printf(out, "%s{\"name\": \"%s\", \"faster\": %.1f", k ? ", " : "", of->of[k].name,
                   of->of[k].faster);
        if (of->slower)
            buf_printf(out, ", \"slower\": %.1f", of->of[k].slower);
        buf_add(out, "}");
    }
    buf_add(out, "]}");
}
