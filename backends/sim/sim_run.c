/* sim_run.c - one launch: checking it, running clusters on host threads, the report. */
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim_async.h"
#include "sim_contract.h"
#include "sim_schedule.h"
#include "sim_sm90.h"
#include "sim_shadow.h"
#include "sim_sync.h"
#include "sim_trace.h"
#include "sim_warp.h"

enum { SLICE = 1 << 20, MAX_HOST_THREADS = 256 };
#define DEFAULT_STEP_LIMIT UINT64_C(400000000)

/* ------------------------------------------------------------------------ clusters */

static void
free_cluster(SimCluster *cluster)
{
    SimRun *run = cluster->run;
    sim_trace_end(cluster);
    pthread_mutex_lock(&run->lock);
    run->instructions += cluster->now;
    for (size_t i = 0; run->executed && cluster->executed && i < run->module->insn_count; i++) {
        run->executed[i] += cluster->executed[i];
        run->wavefronts[i] += cluster->wavefronts[i];
        run->ideal[i] += cluster->ideal[i];
    }
    pthread_mutex_unlock(&run->lock);
    sim_extensions_release(cluster->ext);
    for (uint32_t c = 0; cluster->ctas && c < cluster->cta_count; c++) {
        SimCta *cta = &cluster->ctas[c];
        sim_extensions_release(cta->ext);
        for (uint32_t w = 0; cta->warps && w < cta->warp_count; w++)
            sim_warp_end(&cta->warps[w]);
        sim_barrier_free(cta);
        sim_shadow_free(cta->shadow);
        free(cta->warps);
        free(cta->shared);
    }
    sim_async_free(cluster);
    sim_sync_cluster_end(cluster);
    free(cluster->ctas);
    free(cluster->executed);
    free(cluster);
}

static bool
start_cta(SimCluster *cluster, uint32_t rank)
{
    SimRun *run = cluster->run;
    SimCta *cta = &cluster->ctas[rank];
    cta->cluster = cluster;
    cta->rank = rank;
    uint32_t in[3] = {rank % run->cluster[0], rank / run->cluster[0] % run->cluster[1],
                      rank / run->cluster[0] / run->cluster[1]};
    for (int i = 0; i < 3; i++)
        cta->index[i] = cluster->index[i] * run->cluster[i] + in[i];
    cta->linear = cta->index[0] +
                  run->grid[0] * (cta->index[1] + (uint64_t)run->grid[1] * cta->index[2]);
    cta->shared_size = run->shared_bytes;
    size_t bytes = ((size_t)run->shared_bytes + 127) / 64 * 64;
    cta->shared = aligned_alloc(1024, (bytes + 1023) / 1024 * 1024);
    cta->warp_count = cta->live_warps = run->warps_per_cta;
    cta->warps = calloc(run->warps_per_cta, sizeof *cta->warps);
    if (!cta->shared || !cta->warps || !sim_barrier_init(cta))
        return false;
    memset(cta->shared, 0xa5, bytes); /* contents are undefined at the start */
    if (run->checks && !(cta->shadow = sim_shadow_new(run->shared_bytes, cluster->agents)))
        return false;
    for (uint32_t w = 0; w < run->warps_per_cta; w++)
        if (!sim_warp_start(&cta->warps[w], cta, w))
            return false;
    return true;
}

static SimCluster *
new_cluster(SimRun *run, uint64_t linear, const SimDealt *dealt)
{
    SimCluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return NULL;
    cluster->run = run;
    cluster->linear = linear;
    uint64_t wide = run->grid[0] / run->cluster[0], high = run->grid[1] / run->cluster[1];
    cluster->index[0] = (uint32_t)(linear % wide);
    cluster->index[1] = (uint32_t)(linear / wide % high);
    cluster->index[2] = (uint32_t)(linear / wide / high);
    cluster->cta_count = cluster->live_ctas = run->cluster[0] * run->cluster[1] * run->cluster[2];
    cluster->agents = cluster->cta_count * run->warps_per_cta;
    cluster->next_due = UINT64_MAX;
    cluster->dealt = dealt;
    cluster->random.state = run->launch->seed * UINT64_C(0x2545f4914f6cdd1d) + linear;
    sim_random(&cluster->random);
    cluster->ctas = calloc(cluster->cta_count, sizeof *cluster->ctas);
    bool ok = cluster->ctas != NULL;
    bool traced = run->trace && (dealt || linear % run->launch->trace_every == 0);
    if (ok && (run->launch->count_banks || traced)) {
        size_t n = run->module->insn_count;
        cluster->executed = calloc(3 * n, sizeof *cluster->executed);
        ok = cluster->executed != NULL;
        cluster->wavefronts = cluster->executed + n;
        cluster->ideal = cluster->executed + 2 * n;
    }
    if (ok && traced)
        ok = sim_trace_start(cluster) != NULL;
    for (uint32_t c = 0; ok && c < cluster->cta_count; c++)
        ok = start_cta(cluster, c);
    if (!ok) {
        free_cluster(cluster);
        return NULL;
    }
    return cluster;
}

static void
report_hang(SimCluster *cluster, const char *why)
{
    enum { ROOM = 2800 };
    char text[ROOM] = "";
    size_t used = 0;
    const SimInsn *first = NULL;
    const SimCta *in = NULL;
    for (uint32_t c = 0; c < cluster->cta_count; c++)
        for (uint32_t w = 0; w < cluster->ctas[c].warp_count && used < ROOM - 1; w++) {
            const SimWarp *warp = &cluster->ctas[c].warps[w];
            if (!warp->live)
                continue;
            if (cluster->cta_count > 1)
                used += (size_t)snprintf(text + used, ROOM - used,
                                         "\n    block %u of the cluster:", c);
            if (used < ROOM - 1) {
                sim_warp_describe(warp, text + used, ROOM - used);
                used += strlen(text + used);
            }
            const SimGroup *g = warp->group[0];
            if (!first) {
                first = g->waiting ? g->wait_insn : &g->frame->function->insns[g->pc];
                in = &cluster->ctas[c];
            }
        }
    if (used < ROOM - 1)
        sim_sm90_describe(cluster, text + used, ROOM - used);
    sim_find_at(cluster, in, SIM_FIND_HANG, first, -1, -1, 0, NULL, "%s%s", why, text);
}

/* When no warp can run and nothing is in flight. */
static bool
break_deadlock(SimCluster *cluster)
{
    for (uint32_t c = 0; c < cluster->cta_count; c++)
        for (uint32_t w = 0; w < cluster->ctas[c].warp_count; w++)
            if (sim_warp_break_stall(&cluster->ctas[c].warps[w]))
                return true;
    return false;
}

typedef enum ClusterState { CLUSTER_DONE, CLUSTER_MORE } ClusterState;

/* Runs a cluster for a slice. */
static ClusterState
run_slice(SimCluster *cluster)
{
    SimRun *run = cluster->run;
    uint64_t end = cluster->now + SLICE;
    while (cluster->live_ctas) {
        if (cluster->next_due <= cluster->now)
            sim_async_advance(cluster);
        SimWarp *warp = sim_schedule_pick(cluster);
        if (!warp) {
            if (sim_async_force_one(cluster) || break_deadlock(cluster) || sim_sm90_break(cluster))
                continue;
            report_hang(cluster, "no warp can go on:");
            return CLUSTER_DONE;
        }
        if (!sim_warp_run(warp, sim_schedule_budget(cluster)))
            return CLUSTER_DONE;
        if (cluster->now > run->step_limit) {
            report_hang(cluster, "the step limit is reached; warps that run are:");
            return CLUSTER_DONE;
        }
        if (cluster->now >= end || run->stop)
            return run->stop ? CLUSTER_DONE : CLUSTER_MORE;
    }
    while (sim_async_force_one(cluster)) /* what was never waited for still happens */
        continue;
    sim_sm90_finish(cluster);
    return CLUSTER_DONE;
}

/* ------------------------------------------------------------------------ host threads */

/* Clusters that used up a slice without ending are put back, so that one that waits for another
 * through global memory lets the other start. */
typedef struct Parked {
    SimCluster **cluster;
    size_t count;
} Parked;

typedef struct Pool {
    SimRun *run;
    Parked parked;
} Pool;

static void
fail_run(SimRun *run, const char *message)
{
    pthread_mutex_lock(&run->lock);
    if (run->report->status != SIM_STATUS_ERROR)
        snprintf(run->report->error.message, sizeof run->report->error.message, "%s", message);
    run->report->status = SIM_STATUS_ERROR;
    run->stop = true;
    pthread_mutex_unlock(&run->lock);
}

static SimCluster *
next_cluster(Pool *pool)
{
    SimRun *run = pool->run;
    SimCluster *parked = NULL;
    uint64_t linear = UINT64_MAX;
    const SimDealt *dealt = NULL;
    pthread_mutex_lock(&run->lock);
    if (run->launch->dealt && run->next_cluster < run->launch->dealt_count && !run->stop) {
        dealt = &run->launch->dealt[run->next_cluster++];
        linear = dealt->cluster;
    } else if (!run->launch->dealt && run->next_cluster < run->cluster_count && !run->stop) {
        linear = run->next_cluster;
        run->next_cluster += run->launch->trace_only ? run->launch->trace_every : 1;
        if (run->launch->trace_only && run->module->takes_clusters)
            run->next_cluster = run->cluster_count; /* it takes the others */
    } else if (pool->parked.count) {
        parked = pool->parked.cluster[0];
        pool->parked.count--;
        memmove(pool->parked.cluster, pool->parked.cluster + 1,
                pool->parked.count * sizeof(SimCluster *));
    }
    pthread_mutex_unlock(&run->lock);
    if (linear == UINT64_MAX)
        return parked;
    SimCluster *fresh = new_cluster(run, linear, dealt);
    if (!fresh)
        fail_run(run, "out of memory");
    return fresh;
}

static void
tell_progress(SimRun *run, bool ended)
{
    const SimLaunch *launch = run->launch;
    uint64_t every = launch->trace_only ? launch->trace_every : 1;
    uint64_t all = launch->dealt ? launch->dealt_count : (run->cluster_count + every - 1) / every;

    if (!launch->progress)
        return;
    pthread_mutex_lock(&run->lock);
    run->ended += ended;
    launch->progress(launch->progress_data, run->ended, all);
    pthread_mutex_unlock(&run->lock);
}

static void *
work(void *argument)
{
    Pool *pool = argument;
    SimRun *run = pool->run;
    sim_allocation_failed(); /* whatever was before */
    for (SimCluster *cluster; (cluster = next_cluster(pool)) != NULL;) {
        bool done = run->stop || run_slice(cluster) == CLUSTER_DONE;
        if (sim_allocation_failed()) {
            fail_run(run, "out of memory");
            done = true;
        }
        tell_progress(run, done);
        if (done) {
            free_cluster(cluster);
            continue;
        }
        pthread_mutex_lock(&run->lock);
        SimCluster **bigger = realloc(pool->parked.cluster,
                                      (pool->parked.count + 1) * sizeof(SimCluster *));
        if (bigger) {
            pool->parked.cluster = bigger;
            pool->parked.cluster[pool->parked.count++] = cluster;
        }
        pthread_mutex_unlock(&run->lock);
        if (!bigger) {
            fail_run(run, "out of memory");
            free_cluster(cluster);
        }
    }
    return NULL;
}

static void
run_clusters(SimRun *run)
{
    Pool pool = {.run = run};
    pthread_t thread[MAX_HOST_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t wanted = run->launch->threads ? run->launch->threads
                                           : (uint64_t)(cores > 0 ? cores : 1);
    if (wanted > run->cluster_count)
        wanted = run->cluster_count;
    if (wanted > MAX_HOST_THREADS)
        wanted = MAX_HOST_THREADS;
    uint64_t started = 0;
    while (started + 1 < wanted && !pthread_create(&thread[started], NULL, work, &pool))
        started++;
    work(&pool);
    for (uint64_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    while (pool.parked.count) /* left by a worker that stopped early */
        free_cluster(pool.parked.cluster[--pool.parked.count]);
    free(pool.parked.cluster);
}

/* ------------------------------------------------------------------------ launching */

SimLaunch
sim_launch_defaults(void)
{
    return (SimLaunch){.grid = {1, 1, 1}, .block = {0, 0, 0}, .checks = true, .max_findings = 12};
}

static bool
bad_launch(SimReport *report, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report->status = SIM_STATUS_ERROR;
    vsnprintf(report->error.message, sizeof report->error.message, format, args);
    va_end(args);
    return false;
}

static bool
all_zero(const uint32_t v[3])
{
    return v[0] == 0 && v[1] == 0 && v[2] == 0;
}

static bool
check_shape(SimRun *run, SimReport *report)
{
    const SimLaunch *launch = run->launch;
    const SimEntry *entry = &run->function->entry;
    memcpy(run->grid, launch->grid, sizeof run->grid);
    memcpy(run->block, all_zero(launch->block) ? entry->required_block : launch->block,
           sizeof run->block);
    memcpy(run->cluster, all_zero(launch->cluster) ? entry->required_cluster : launch->cluster,
           sizeof run->cluster);
    static const uint32_t most_blocks[3] = {INT32_MAX, UINT16_MAX, UINT16_MAX};
    for (int i = 0; i < 3; i++) {
        if (all_zero(launch->cluster) && all_zero(entry->required_cluster))
            run->cluster[i] = 1;
        if (run->block[i] == 0)
            run->block[i] = 1;
        if (run->grid[i] == 0)
            return bad_launch(report, "the grid is empty");
        if (run->grid[i] > most_blocks[i] || run->block[i] > SIM_MAX_WARPS * SIM_LANES ||
            run->cluster[i] > SIM_MAX_CLUSTER)
            return bad_launch(report,
                              "dimension %c of the launch is too large: %u blocks of %u "
                              "threads, clusters of %u",
                              "xyz"[i], run -> grid[i], run -> block[i], run -> cluster[i]);
        if (run->cluster[i] == 0 || run->grid[i] % run->cluster[i])
            return bad_launch(report, "the grid is not a multiple of the cluster");
        if (!all_zero(entry->required_block) && entry->required_block[i] != run->block[i])
            return bad_launch(report, "'%s' requires blocks of %ux%ux%u threads (.reqntid)",
                              entry->name, entry->required_block[0], entry->required_block[1],
                              entry->required_block[2]);
        if (!all_zero(entry->required_cluster) && entry->required_cluster[i] != run->cluster[i])
            return bad_launch(report, "'%s' requires clusters of %ux%ux%u (.reqnctapercluster)",
                              entry->name, entry->required_cluster[0], entry->required_cluster[1],
                              entry->required_cluster[2]);
    }
    uint64_t threads = (uint64_t)run->block[0] * run->block[1] * run->block[2];
    uint64_t most = (uint64_t)entry->max_block[0] * entry->max_block[1] * entry->max_block[2];
    if (threads > SIM_MAX_WARPS * SIM_LANES || (most && threads > most))
        return bad_launch(report, "a block of %llu threads is too large",
                          (unsigned long long)threads);
    uint64_t ctas = (uint64_t)run->cluster[0] * run->cluster[1] * run->cluster[2];
    if (ctas > SIM_MAX_CLUSTER)
        return bad_launch(report, "a cluster of %llu blocks is too large", (unsigned long long)ctas);
    run->threads_per_cta = (uint32_t)threads;
    run->warps_per_cta = (uint32_t)((threads + SIM_LANES - 1) / SIM_LANES);
    run->cluster_count = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2] / ctas;
    uint64_t shared = (uint64_t)run->function->shared_bytes + launch->dynamic_shared;
    if (shared > SIM_SHARED_LIMIT)
        return bad_launch(report, "%llu bytes of shared memory are more than a block can have (%d)",
                          (unsigned long long)shared, SIM_SHARED_LIMIT);
    run->shared_bytes = (uint32_t)shared;
    return true;
}

/* The parameters lie in an allocation of their own, at the param window. */
static bool
place_params(SimRun *run, SimAllocation *params, SimReport *report)
{
    const SimLaunch *launch = run->launch;
    const SimEntry *entry = &run->function->entry;
    if (launch->param_bytes && launch->param_size != entry->param_bytes)
        return bad_launch(report, "%zu parameter bytes are given, '%s' takes %u",
                          launch->param_size, entry->name, entry->param_bytes);
    if (!launch->param_bytes && launch->arg_count != entry->param_count)
        return bad_launch(report, "%zu arguments are given, '%s' takes %zu", launch->arg_count,
                          entry->name, entry->param_count);
    size_t bytes = entry->param_bytes;
    params->address = SIM_WINDOW_PARAM;
    params->size = bytes;
    params->data = aligned_alloc(128, (bytes + 128) / 128 * 128);
    params->read_only = true;
    params->name = "parameters";
    if (!params->data)
        return bad_launch(report, "out of memory");
    if (launch->param_bytes && bytes)
        memcpy(params->data, launch->param_bytes, bytes);
    for (size_t i = 0; !launch->param_bytes && i < entry->param_count; i++)
        memcpy(params->data + entry->params[i].offset, launch->args[i], entry->params[i].size);
    run->params = params;
    return true;
}

static const SimFunction *
find_entry(const SimModule *mod, const char *name)
{
    if (!name)
        return mod->entry_count == 1 ? mod->entries[0] : NULL;
    for (size_t i = 0; i < mod->entry_count; i++)
        if (strcmp(mod->entries[i]->name, name) == 0)
            return mod->entries[i];
    return NULL;
}

static int
by_level_and_line(const void *a, const void *b)
{
    const SimFinding *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->ptx_line != y->ptx_line)
        return x->ptx_line < y->ptx_line ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

static int
by_place(const void *a, const void *b)
{
    uint64_t x = ((const SimTracedCluster *)a)->place, y = ((const SimTracedCluster *)b)->place;
    return (x > y) - (x < y);
}

static void
fill_lines(SimRun *run, SimReport *report)
{
    const SimModule *mod = run->module;
    SimLine *lines = sim_calloc(mod->insn_count, sizeof *lines);
    size_t count = 0;
    for (size_t i = 0; lines && i < mod->insn_count; i++) {
        const SimInsn *insn = mod->insns[i];
        if (!run->executed[i])
            continue;
        SimLine *line = &lines[count++];
        *line = (SimLine){.ptx_line = insn->line,
                          .mnemonic = insn->mnemonic,
                          .executed = run->executed[i],
                          .wavefronts = run->wavefronts[i],
                          .ideal = run->ideal[i]};
        SimLoc loc = insn->loc ? mod->locs[insn->loc] : (SimLoc){0, 0};
        line->source_line = loc.line;
        line->source_file = insn->loc && loc.file < mod->file_count ? mod->files[loc.file] : NULL;
    }
    report->lines = lines;
    report->line_count = count;
}

static void
finish_report(SimRun *run, SimReport *report)
{
    if (run->finding_count)
        qsort(run->findings, run->finding_count, sizeof *run->findings, by_level_and_line);
    report->findings = run->findings;
    report->finding_count = run->finding_count;
    memcpy(report->count, run->count, sizeof report->count);
    report->instructions = run->instructions;
    for (int kind = 0; kind < SIM_FIND_KIND_COUNT; kind++) {
        uint64_t faults = run->count[SIM_FAULT][kind].total;
        report->finding_total += faults + run->count[SIM_NOTE][kind].total;
        if (report->status == SIM_STATUS_OK && faults)
            report->status = SIM_STATUS_FINDINGS;
    }
    if (run->executed)
        fill_lines(run, report);
    if (run->trace && run->trace->cluster_count)
        qsort(run->trace->clusters, run->trace->cluster_count, sizeof *run->trace->clusters,
              by_place);
}

SimReport *
sim_launch(SimModule *mod, const SimLaunch *launch)
{
    SimReport *report = calloc(1, sizeof *report);
    SimAllocation params = {0};
    SimRun run = {.module = mod,
                  .device = mod->device,
                  .launch = launch,
                  .checks = launch->checks,
                  .noted = launch->checks || launch->trace_every,
                  .report = report};
    if (!report)
        return NULL;
    run.function = find_entry(mod, launch->entry);
    run.step_limit = launch->step_limit ? launch->step_limit : DEFAULT_STEP_LIMIT;
    if (!run.function) {
        bad_launch(report, launch->entry ? "no entry '%s'" : "the module has %s entry",
                   launch->entry      ? launch->entry
                   : mod->entry_count ? "more than one"
                                      : "no");
        return report;
    }
    if (run.function->refused) {
        bad_launch(report, "%s", run.function->refused->message);
        report->error.line = run.function->refused->line;
        return report;
    }
    if (!check_shape(&run, report) || !place_params(&run, &params, report))
        return report;
    sim_contract_draw(mod, launch->seed - launch->seeds_before);
    mod->heap_used = 0;
    if (mod->grid_workspace) {
        SimAllocation *a = sim_device_find(mod->device, mod->grid_workspace);
        memset(a->data, 0, a->size);
        memset(a->init, 1, a->size);
    }
    if (launch->count_banks) {
        run.executed = calloc(3 * mod->insn_count, sizeof *run.executed);
        run.wavefronts = run.executed + mod->insn_count;
        run.ideal = run.executed + 2 * mod->insn_count;
    }
    if (launch->trace_every)
        run.trace = report->trace = calloc(1, sizeof *run.trace);
    if ((launch->count_banks && !run.executed) || (launch->trace_every && !run.trace) ||
        (run.checks && !(sim_sync_run_start(&run) && sim_global_start(&run)))) {
        bad_launch(report, "out of memory");
    } else {
        pthread_mutex_init(&run.lock, NULL);
        run_clusters(&run);
        pthread_mutex_destroy(&run.lock);
        finish_report(&run, report);
        if (sim_allocation_failed())
            bad_launch(report, "out of memory");
    }
    if (run.checks) {
        sim_global_end(&run);
        sim_sync_run_end(&run);
    }
    free(run.executed);
    free(run.finding_slots);
    free(params.data);
    return report;
}
