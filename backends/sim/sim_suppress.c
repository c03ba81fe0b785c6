/* sim_suppress.c - findings that are known and not wanted again, by kind, file and line (sim.h).
 *
 *     # what is behind # is a comment
 *     race      kernels/softmax.cu:118
 *     leak      gemm.ptx:*
 *     *         third_party.cu:*
 */
#include <stdlib.h>
#include <string.h>

#include "sim_core.h"

typedef struct Rule {
    int kind; /* -1: any */
    char *file;
    uint32_t line; /* 0: any */
    uint32_t at;   /* line of the text */
    bool used;
} Rule;

struct SimSuppressions {
    Rule *rule;
    size_t count;
};

static int
kind_named(const char *name, size_t n)
{
    if (n == 1 && *name == '*')
        return -1;
    for (int kind = 0; kind < SIM_FIND_KIND_COUNT; kind++) {
        const char *have = sim_finding_name((SimFindingKind)kind);
        if (strlen(have) == n && strncmp(have, name, n) == 0)
            return kind;
    }
    return -2;
}

static bool
wrong(SimError *error, uint32_t line, const char *what)
{
    error->line = line;
    snprintf(error->message, sizeof error->message, "%s", what);
    return false;
}

/* "race softmax.cu:118" of `n` bytes without blanks around. */
static bool
read_rule(SimSuppressions *s, const char *at, size_t n, uint32_t line, SimError *error)
{
    size_t word = 0, colon = n;
    Rule rule = {.at = line};

    while (word < n && at[word] != ' ' && at[word] != '\t')
        word++;
    while (colon > word && at[colon - 1] != ':')
        colon--;
    if ((rule.kind = kind_named(at, word)) == -2)
        return wrong(error, line,
                     "expected a kind of finding (race, hang, ..) or *, then FILE:LINE");
    size_t file = word + strspn(at + word, " \t");
    if (colon <= file + 1 || colon == n)
        return wrong(error, line, "expected FILE:LINE, or FILE:*, after the kind");
    char *end = NULL;
    if (at[colon] != '*')
        rule.line = (uint32_t)strtoul(at + colon, &end, 10);
    if (end ? end != at + n || rule.line == 0 : colon + 1 != n)
        return wrong(error, line, "expected the number of a line, or *, after the colon");
    Rule *bigger = realloc(s->rule, (s->count + 1) * sizeof *bigger);
    if (!bigger)
        return wrong(error, 0, "out of memory");
    s->rule = bigger;
    rule.file = strndup(at + file, colon - 1 - file);
    s->rule[s->count++] = rule;
    return rule.file != NULL || wrong(error, 0, "out of memory");
}

SimSuppressions *
sim_suppressions_read(const char *text, SimError *error)
{
    SimSuppressions *s = calloc(1, sizeof *s);

    for (uint32_t line = 1; s && *text; line++) {
        size_t n = strcspn(text, "\n"), used = strcspn(text, "#\n");
        const char *at = text;
        while (used && (*at == ' ' || *at == '\t'))
            at++, used--;
        while (used && (at[used - 1] == ' ' || at[used - 1] == '\t' || at[used - 1] == '\r'))
            used--;
        if (used && !read_rule(s, at, used, line, error)) {
            sim_suppressions_free(s);
            return NULL;
        }
        text += n + (text[n] == '\n');
    }
    return s;
}

void
sim_suppressions_free(SimSuppressions *s)
{
    for (size_t i = 0; s && i < s->count; i++)
        free(s->rule[i].file);
    if (s)
        free(s->rule);
    free(s);
}

/* The last parts of a path: "softmax.cu" and "kernels/softmax.cu" of
 * "/home/me/kernels/softmax.cu". */
static bool
ends_in(const char *path, const char *file)
{
    size_t n = strlen(path), m = strlen(file);

    return m <= n && strcmp(path + n - m, file) == 0 && (m == n || path[n - m - 1] == '/');
}

static bool
is_at(const Rule *rule, const char *file, uint32_t line)
{
    return file && ends_in(file, rule->file) && (rule->line == 0 || rule->line == line);
}

static bool
is_suppressed(const SimSuppressions *s, const SimFinding *f, const char *ptx)
{
    for (size_t i = 0; i < s->count; i++) {
        Rule *rule = &s->rule[i];
        if ((rule->kind < 0 || rule->kind == (int)f->kind) &&
            (is_at(rule, f->source_file, f->source_line) || is_at(rule, ptx, f->ptx_line))) {
            rule->used = true;
            return true;
        }
    }
    return false;
}

size_t
sim_report_suppress(SimReport *report, const SimSuppressions *suppressions, const char *ptx)
{
    SimFinding *findings = (SimFinding *)(uintptr_t)report->findings;
    size_t kept = 0, before = report->finding_count;
    uint64_t faults = 0;

    for (size_t i = 0; i < before; i++) {
        SimFinding f = findings[i];
        if (!is_suppressed(suppressions, &f, ptx)) {
            findings[kept++] = f;
            continue;
        }
        report->count[f.level][f.kind].total -= f.count;
        report->finding_total -= f.count;
        free(f.message);
    }
    report->finding_count = kept;
    for (int kind = 0; kind < SIM_FIND_KIND_COUNT; kind++)
        faults += report->count[SIM_FAULT][kind].total; /* those that were not kept stay */
    if (report->status == SIM_STATUS_FINDINGS && faults == 0)
        report->status = SIM_STATUS_OK;
    return before - kept;
}

uint32_t
sim_suppression_unused(const SimSuppressions *suppressions, size_t *from)
{
    for (; *from < suppressions->count; ++*from) {
        const Rule *rule = &suppressions->rule[*from];
        if (!rule->used) {
            ++*from;
            return rule->at;
        }
    }
    return 0;
}
