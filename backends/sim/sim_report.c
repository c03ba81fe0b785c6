/* sim_report.c - findings: recording, merging of repeats, printing. */
#include <stdarg.h>
#include <stdlib.h>

#include "sim_trace.h"
#include "sim_core.h"

const char *
sim_finding_name(SimFindingKind kind)
{
    static const char *const names[SIM_FIND_KIND_COUNT] = {
        "out-of-bounds", "misaligned",  "uninitialised",
        "race",          "async-early", "async-overwrite",
        "proxy-fence",   "mma-fence",   "mma-registers",
        "transaction",   "barrier",     "phase",
        "tensor-memory", "leak",        "not-uniform",
        "hang",          "trap",        "invalid",
    };
    return (unsigned)kind < SIM_FIND_KIND_COUNT ? names[kind] : "unknown";
}

const char *
sim_level_name(SimLevel level)
{
    return level == SIM_NOTE ? "note" : "fault";
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

/* Appends to a text that is cut where it is full. */
typedef struct Text {
    char at[4096];
    size_t used;
} Text;

static void __attribute__((format(printf, 2, 0)))
add_list(Text *text, const char *format, va_list args)
{
    int n = vsnprintf(text->at + text->used, sizeof text->at - text->used, format, args);
    if (n > 0)
        text->used += (size_t)n;
    if (text->used >= sizeof text->at)
        text->used = sizeof text->at - 1;
}

static void __attribute__((format(printf, 2, 3))) add(Text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_list(text, format, args);
    va_end(args);
}

static void
add_place(Text *text, const SimModule *mod, const SimInsn *insn)
{
    const char *file;
    uint32_t line;
    source_of(mod, insn, &file, &line);
    add(text, "%s:%u", mod->name, insn->line);
    if (file)
        add(text, " (%s:%u)", file, line);
    add(text, " `%s`", insn->mnemonic);
}

/* What a finding is about. */
typedef struct About {
    SimFindingKind kind;
    SimLevel level;
    const SimCta *cta;
    const SimInsn *insn;
    int32_t warp, lane;
    uint64_t address;
    const SimPlace *other;
} About;

static uint32_t
line_of(const SimInsn *insn)
{
    return insn ? insn->line : 0;
}

/* The slot of the finding that is like this, or the empty one where it would stand.  A launch may
 * have millions of occurrences: they are not compared with each finding. */
static uint32_t *
find_slot(const SimRun *run, SimFindingKind kind, SimLevel level, uint32_t line, uint32_t other_line)
{
    size_t mask = 2 * run->finding_capacity - 1;
    uint32_t hash = (line * 2654435761u ^ other_line) * 2246822519u + (uint32_t)kind * 2u +
                    (uint32_t)level;
    size_t at = (hash ^ hash >> 15) & mask;

    for (; run->finding_slots[at] != 0; at = (at + 1) & mask) {
        const SimFinding *f = &run->findings[run->finding_slots[at] - 1];
        if (f->kind == kind && f->level == level && f->ptx_line == line &&
            f->other_ptx_line == other_line)
            break;
    }
    return &run->finding_slots[at];
}

/* Room for twice as many findings, and their slots. */
static bool
grow_findings(SimRun *run)
{
    size_t capacity = run->finding_capacity ? 2 * run->finding_capacity : 16;
    SimFinding *bigger = sim_realloc(run->findings, capacity * sizeof *bigger);
    uint32_t *slots = sim_calloc(2 * capacity, sizeof *slots);

    if (bigger)
        run->findings = bigger;
    if (!bigger || !slots) {
        free(slots);
        return false;
    }
    free(run->finding_slots);
    run->finding_slots = slots;
    run->finding_capacity = capacity;
    for (size_t i = 0; i < run->finding_count; i++) {
        const SimFinding *f = &bigger[i];
        *find_slot(run, f->kind, f->level, f->ptx_line, f->other_ptx_line) = (uint32_t)i + 1;
    }
    return true;
}

/* Counts an occurrence.  True if it is the first of its kind, level and pair of lines, and there is
 * room to keep it: a kind that comes at very many lines does not hide the others. */
static bool
is_new(SimRun *run, const About *about)
{
    SimFindingCount *count = &run->count[about->level][about->kind];
    uint32_t other_line = about->other ? line_of(about->other->insn) : 0;

    count->total++;
    if (run->finding_count > 0) {
        uint32_t slot = *find_slot(run, about->kind, about->level, line_of(about->insn), other_line);
        if (slot != 0) {
            run->findings[slot - 1].count++;
            return false;
        }
    }
    if (run->kept[about->level][about->kind] >= run->launch->max_findings) {
        count->left_out++;
        return false;
    }
    return run->finding_count < run->finding_capacity || grow_findings(run);
}

static void
keep(SimRun *run, SimFinding f)
{
    *find_slot(run, f.kind, f.level, f.ptx_line, f.other_ptx_line) = (uint32_t)run->finding_count +
                                                                     1;
    run->findings[run->finding_count++] = f;
    run->kept[f.level][f.kind]++;
}

static char *
copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = sim_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

static void __attribute__((format(printf, 3, 0)))
record(SimRun *run, About about, const char *format, va_list args)
{
    const SimInsn *other = about.other ? about.other->insn : NULL;
    if (run->launch->strict)
        about.level = SIM_FAULT;
    pthread_mutex_lock(&run->lock);
    if (!is_new(run, &about)) {
        pthread_mutex_unlock(&run->lock);
        return;
    }
    Text text = {.used = 0};
    add(&text, "%s: ", sim_finding_name(about.kind));
    add_list(&text, format, args);
    if (about.insn) {
        add(&text, "\n    at ");
        add_place(&text, run->module, about.insn);
    }
    if (about.cta)
        add(&text, "\n    block (%u, %u, %u)", about.cta->index[0], about.cta->index[1],
            about.cta->index[2]);
    if (about.warp >= 0)
        add(&text, ", warp %d", about.warp);
    if (about.lane >= 0)
        add(&text, ", lane %d", about.lane);
    if (about.address)
        add(&text, ", address 0x%llx", (unsigned long long)about.address);
    if (other) {
        add(&text, "\n    other: warp %d at ", about.other->warp);
        add_place(&text, run->module, other);
    }
    SimFinding f = {.kind = about.kind,
                    .level = about.level,
                    .count = 1,
                    .message = copy_text(text.at),
                    .ptx_line = line_of(about.insn),
                    .warp = about.warp,
                    .lane = about.lane,
                    .address = about.address,
                    .other_ptx_line = line_of(other),
                    .other_warp = about.other ? about.other->warp : -1};
    source_of(run->module, about.insn, &f.source_file, &f.source_line);
    if (about.other)
        source_of(run->module, other, &f.other_source_file, &f.other_source_line);
    if (about.cta)
        memcpy(f.block, about.cta->index, sizeof f.block);
    if (f.message)
        keep(run, f);
    pthread_mutex_unlock(&run->lock);
}

void
sim_find(SimWarp *warp, SimFindingKind kind, int32_t lane, uint64_t address, const SimPlace *other,
         const char *format, ...)
{
    About about = {kind, SIM_FAULT, warp->cta, warp->insn, (int32_t)warp->index,
                   lane, address,   other};
    va_list args;
    va_start(args, format);
    record(warp->run, about, format, args);
    va_end(args);
}

void
sim_note(SimWarp *warp, SimFindingKind kind, int32_t lane, uint64_t address, const SimPlace *other,
         const char *format, ...)
{
    About about = {kind, SIM_NOTE, warp->cta, warp->insn, (int32_t)warp->index,
                   lane, address,  other};
    va_list args;
    va_start(args, format);
    record(warp->run, about, format, args);
    va_end(args);
}

void
sim_find_at(SimCluster *cluster, const SimCta *cta, SimFindingKind kind, const SimInsn *insn,
            int32_t warp_index, int32_t lane, uint64_t address, const SimPlace *other,
            const char *format, ...)
{
    About about = {kind, SIM_FAULT, cta, insn, warp_index, lane, address, other};
    va_list args;
    va_start(args, format);
    record(cluster->run, about, format, args);
    va_end(args);
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
    sim_trace_free(report->trace);
    free(report);
}

static void
print_left_out(const SimReport *report, SimLevel level, FILE *out)
{
    for (int kind = 0; kind < SIM_FIND_KIND_COUNT; kind++) {
        const SimFindingCount *c = &report->count[level][kind];
        if (c->left_out)
            fprintf(out, "%s: %s: at other lines %llu times more, of %llu\n", sim_level_name(level),
                    sim_finding_name((SimFindingKind)kind), (unsigned long long)c->left_out,
                    (unsigned long long)c->total);
    }
}

/* "2 faults, 17 times": the places printed, and all occurrences. */
static void
print_total(const SimReport *report, SimLevel level, FILE *out)
{
    uint64_t total = 0, left_out = 0;
    size_t places = 0;
    for (size_t i = 0; i < report->finding_count; i++)
        places += report->findings[i].level == level;
    for (int kind = 0; kind < SIM_FIND_KIND_COUNT; kind++) {
        total += report->count[level][kind].total;
        left_out += report->count[level][kind].left_out;
    }
    fprintf(out, "%zu %s%s%s", places, sim_level_name(level), places == 1 ? "" : "s",
            left_out ? " and more" : "");
    if (total > places)
        fprintf(out, " (%llu times)", (unsigned long long)total);
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
        fprintf(out, "%s: %s\n", sim_level_name(f->level), f->message);
        if (f->count > 1)
            fprintf(out, "    %llu times\n", (unsigned long long)f->count);
    }
    if (!report->finding_count)
        return;
    print_left_out(report, SIM_FAULT, out);
    print_left_out(report, SIM_NOTE, out);
    print_total(report, SIM_FAULT, out);
    fprintf(out, ", ");
    print_total(report, SIM_NOTE, out);
    fprintf(out, "\n");
}
