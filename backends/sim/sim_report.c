/* sim_report.c - findings: recording, merging of repeats, printing. */
#include <stdarg.h>
#include <stdlib.h>

#include "sim_core.h"

const char *
sim_finding_name(SimFindingKind kind)
{
    static const char *const names[SIM_FIND_KIND_COUNT] = {
        "out-of-bounds", "misaligned", "uninitialised", "race", "async-early",
        "async-overwrite", "proxy-fence", "mma-fence", "mma-registers", "transaction",
        "barrier", "phase", "tensor-memory", "leak", "not-uniform", "hang", "trap", "invalid",
    };
    return (unsigned)kind < SIM_FIND_KIND_COUNT ? names[kind] : "unknown";
}

static void
source_of(const SimModule *mod, const SimInsn *insn, const char **file, uint32_t *line)
{
    *file = NULL;
    *line = 0;
    if (!insn || !insn->loc)
        return;
    SimLoc loc = mod->locs[insn->loc];
    *line = loc.line;
    *file = loc.file < mod->file_count && mod->files[loc.file] ? mod->files[loc.file] : "?";
}

static size_t
print_place(const SimModule *mod, const SimInsn *insn, char *text, size_t size)
{
    const char *file;
    uint32_t line;
    source_of(mod, insn, &file, &line);
    int n = file ? snprintf(text, size, "%s:%u (%s:%u) `%s`", mod->name, insn->line, file, line,
                            insn->mnemonic)
                 : snprintf(text, size, "%s:%u `%s`", mod->name, insn->line, insn->mnemonic);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static void
record(SimRun *run, const SimCta *cta, SimFindingKind kind, const SimInsn *insn,
       int32_t warp_index, int32_t lane, uint64_t address, const SimPlace *other,
       const char *message)
{
    uint32_t line = insn ? insn->line : 0;
    uint32_t other_line = other && other->insn ? other->insn->line : 0;
    pthread_mutex_lock(&run->lock);
    run->finding_total++;
    for (size_t i = 0; i < run->finding_count; i++) {
        SimFinding *f = &run->findings[i];
        if (f->kind == kind && f->ptx_line == line && f->other_ptx_line == other_line) {
            f->count++;
            pthread_mutex_unlock(&run->lock);
            return;
        }
    }
    if (run->finding_count >= run->launch->max_findings) {
        pthread_mutex_unlock(&run->lock);
        return;
    }
    if (run->finding_count == run->finding_capacity) {
        size_t capacity = run->finding_capacity ? 2 * run->finding_capacity : 16;
        SimFinding *bigger = realloc(run->findings, capacity * sizeof *bigger);
        if (!bigger) {
            pthread_mutex_unlock(&run->lock);
            return;
        }
        run->findings = bigger;
        run->finding_capacity = capacity;
    }
    char text[4096];
    size_t used = 0;
    int n = snprintf(text, sizeof text, "%s: %s", sim_finding_name(kind), message);
    used = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    if (insn) {
        used += (size_t)snprintf(text + used, sizeof text - used, "\n    at ");
        used += print_place(run->module, insn, text + used, sizeof text - used);
    }
    if (cta && used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, "\n    block (%u, %u, %u)",
                                 cta->index[0], cta->index[1], cta->index[2]);
    if (warp_index >= 0 && used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, ", warp %d", warp_index);
    if (lane >= 0 && used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, ", lane %d", lane);
    if (address && used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, ", address 0x%llx",
                                 (unsigned long long)address);
    if (other_line && used < sizeof text) {
        used += (size_t)snprintf(text + used, sizeof text - used, "\n    other: warp %d at ",
                                 other->warp);
        if (used < sizeof text)
            print_place(run->module, other->insn, text + used, sizeof text - used);
    }
    SimFinding f = {.kind = kind, .count = 1, .message = strdup(text), .ptx_line = line,
                    .warp = warp_index, .lane = lane, .address = address,
                    .other_ptx_line = other_line, .other_warp = other ? other->warp : -1};
    source_of(run->module, insn, &f.source_file, &f.source_line);
    if (other)
        source_of(run->module, other->insn, &f.other_source_file, &f.other_source_line);
    if (cta)
        memcpy(f.block, cta->index, sizeof f.block);
    if (f.message)
        run->findings[run->finding_count++] = f;
    pthread_mutex_unlock(&run->lock);
}

void
sim_find(SimWarp *warp, SimFindingKind kind, int32_t lane, uint64_t address, const SimPlace *other,
         const char *format, ...)
{
    char message[3000];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    record(warp->run, warp->cta, kind, warp->insn, (int32_t)warp->index, lane, address, other,
           message);
}

void
sim_find_at(SimCluster *cluster, const SimCta *cta, SimFindingKind kind, const SimInsn *insn,
            int32_t warp_index, int32_t lane, uint64_t address, const SimPlace *other,
            const char *format, ...)
{
    char message[3000];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    record(cluster->run, cta, kind, insn, warp_index, lane, address, other, message);
}

SimStep
sim_fail(SimWarp *warp, const char *format, ...)
{
    SimRun *run = warp->run;
    va_list args;
    pthread_mutex_lock(&run->lock);
    if (run->report->status != SIM_STATUS_ERROR) {
        run->report->status = SIM_STATUS_ERROR;
        run->report->error.line = warp->insn ? warp->insn->line : 0;
        va_start(args, format);
        vsnprintf(run->report->error.message, sizeof run->report->error.message, format, args);
        va_end(args);
    }
    run->stop = true;
    pthread_mutex_unlock(&run->lock);
    return SIM_FATAL;
}

void
sim_report_free(SimReport *report)
{
    if (!report)
        return;
    for (size_t i = 0; i < report->finding_count; i++)
        free(report->findings[i].message);
    free((void *)(uintptr_t)report->findings);
    free((void *)(uintptr_t)report->lines);
    free(report);
}

void
sim_report_print(const SimReport *report, FILE *out)
{
    if (report->status == SIM_STATUS_ERROR) {
        if (report->error.line)
            fprintf(out, "error: line %u: %s\n", report->error.line, report->error.message);
        else
            fprintf(out, "error: %s\n", report->error.message);
    }
    for (size_t i = 0; i < report->finding_count; i++) {
        const SimFinding *f = &report->findings[i];
        fprintf(out, "%s\n", f->message);
        if (f->count > 1)
            fprintf(out, "    %llu times\n", (unsigned long long)f->count);
    }
}
