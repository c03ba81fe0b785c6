/* sim_sarif.c - findings as SARIF 2.1.0, which editors and code scanning read (sim.h). */
#include <string.h>

#include "sim_core.h"

static void
put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c == '\n')
            fputs("\\n", out);
        else if ((unsigned char)*c < ' ')
            fprintf(out, "\\u%04x", (unsigned char)*c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

/* A place is told by its source where `.loc` gives one, else by the line of PTX; lines begin with
 * 1. */
static void
put_place(FILE *out, const char *source, uint32_t source_line, const char *ptx, uint32_t ptx_line)
{
    fputs("{\"physicalLocation\": {\"artifactLocation\": {\"uri\": ", out);
    put_text(out, source ? source : ptx);
    fprintf(out, "}, \"region\": {\"startLine\": %u}}", source ? source_line : ptx_line);
    if (source) {
        fputs(", \"logicalLocations\": [{\"fullyQualifiedName\": ", out);
        put_text(out, ptx);
        fprintf(out, ", \"name\": \"line %u of PTX\"}]", ptx_line);
    }
}

static void
put_finding(FILE *out, const SimFinding *f, const char *ptx)
{
    char rule[SIM_RULE_LENGTH];

    sim_finding_rule(f->kind, rule);
    fprintf(out, "    {\"ruleId\": \"%s\", \"level\": \"%s\", \"occurrenceCount\": %llu,\n", rule,
            f->level == SIM_FAULT ? "error" : "note", (unsigned long long)f->count);
    fputs("     \"message\": {\"text\": ", out);
    put_text(out, f->message);
    fputs("},\n     \"locations\": [", out);
    put_place(out, f->source_file, f->source_line, ptx, f->ptx_line ? f->ptx_line : 1);
    fputs("}]", out);
    if (f->other_ptx_line) {
        fputs(",\n     \"relatedLocations\": [", out);
        put_place(out, f->other_source_file, f->other_source_line, ptx, f->other_ptx_line);
        fputs(", \"message\": {\"text\": \"the other party\"}}]", out);
    }
    fputs("}", out);
}

void
sim_finding_rule(SimFindingKind kind, char out[SIM_RULE_LENGTH])
{
    const char *name = sim_finding_name(kind);
    size_t n = 2;

    memcpy(out, "S-", 2);
    for (; *name && n + 1 < SIM_RULE_LENGTH; name++, n++)
        out[n] = *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
    out[n] = '\0';
}

void
sim_sarif_begin(FILE *out)
{
    fputs(
        "{\"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\", \"version\": \"2.1.0\",\n"
        " \"runs\": [{\"tool\": {\"driver\": {\"name\": \"tilec-sim\", \"rules\": [\n",
        out);
    for (int kind = 0; kind < SIM_FIND_KIND_COUNT; kind++) {
        char rule[SIM_RULE_LENGTH];
        sim_finding_rule((SimFindingKind)kind, rule);
        fprintf(out, "    {\"id\": \"%s\", \"name\": \"%s\"}%s\n", rule,
                sim_finding_name((SimFindingKind)kind), kind + 1 < SIM_FIND_KIND_COUNT ? "," : "");
    }
    fputs("  ]}},\n  \"results\": [", out);
}

size_t
sim_sarif_add(FILE *out, const SimReport *report, const char *ptx, size_t before)
{
    for (size_t i = 0; i < report->finding_count; i++) {
        fputs(before + i ? ",\n" : "\n", out);
        put_finding(out, &report->findings[i], ptx);
    }
    return before + report->finding_count;
}

void
sim_sarif_end(FILE *out)
{
    fputs("\n  ]}]}\n", out);
}
