/* clock_json.c - what a replay came to, for programs: one object on a line. */
#include "backends/clock/clock_whatif.h"

#include <string.h>

static void
add_units(const ClockResult *result, const ClockFact *rows, Buf *out)
{
    buf_add(out, "\"busy\": {");
    for (uint32_t unit = 0; unit < CLOCK_UNITS; unit++) {
        buf_printf(out, "%s\"%s\": %.4f", unit ? ", " : "", clock_unit_name((ClockUnit)unit),
                   clock_busy_part(result, rows, (ClockUnit)unit));
    }
    buf_add(out, "}");
}

static void
add_groups(const ClockResult *result, Buf *out)
{
    bool more = false;

    buf_add(out, "\"warps\": [");
    for (uint32_t g = 0; g < result->groups.n; g++) {
        const ClockGroup *group = &result->groups.at[g];
        double all = clock_group_cycles(group);
        if (all <= 0)
            continue;
        buf_printf(out, "%s{\"first\": %u, \"last\": %u", more ? ", " : "", (unsigned)group->first,
                   (unsigned)group->last);
        for (uint32_t s = 0; s < CLOCK_STALLS; s++)
            buf_printf(out, ", \"%s\": %.4f", clock_stall_name((ClockStall)s),
                       group->cycles[s] / all);
        if (group->clocks_read > 0)
            buf_printf(out, ", \"clocks\": %.0f", group->clocks_read);
        buf_add(out, "}");
        more = true;
    }
    buf_add(out, "]");
}

static void
add_waits(const ClockJob *job, const ClockResult *result, Buf *out)
{
    static const char *const kinds[] = {"mbarrier", "barrier", "cluster"};

    buf_add(out, "\"waits\": [");
    for (uint32_t k = 0; k < result->waits.n; k++) {
        const ClockWait *w = &result->waits.at[k];
        char name[120] = "";
        if (w->kind == SIM_PHASE_MBARRIER)
            sim_barrier_name(job->module, job->name, w->object, name, sizeof name);
        const char *named = *name == '\0' ? ""
                                          : arena_printf(out->arena, "\"name\": \"%s\", ", name);
        buf_printf(
            out,
            "%s{\"kind\": \"%s\", \"object\": %u, %s\"first\": %u, \"last\": %u, \"cycles\": %.0f, \"slack\": %.0f}",
            k ? ", " : "", kinds[w->kind], (unsigned)w->object, named, (unsigned)w->first,
            (unsigned)w->last, w->cycles, w->came > 0 ? w->early / w->came : 0);
    }
    buf_add(out, "]");
}

void
clock_json(const ClockJob *job, const ClockSummary *of, Buf *out)
{
    const ClockResult *result = of->median;

    if (of->whole)
        buf_printf(out,
                   "\"cycles\": %llu, \"least\": %llu, \"most\": %llu, \"without_jitter\": %llu, ",
                   (unsigned long long)result->cycles, (unsigned long long)of->least,
                   (unsigned long long)of->most, (unsigned long long)of->steady);
    else
        buf_add(out, "\"cycles\": null, ");
    if (job->dealt != NULL)
        buf_printf(out, "\"dealt\": \"%s\", ", job->dealt);
    buf_printf(out, "\"figures\": \"%08x\", \"by\": \"%s\", ",
               (unsigned)clock_table_hash(job->rows, job->products),
               result->from_code ? "machine code" : "ptx");
    buf_printf(out, "\"mhz\": %.0f, \"mhz_at_limit\": %.0f, \"blocks\": %u, \"resident\": %u, ",
               job->rows[CLOCK_MHZ].value, of->mhz_at_limit, (unsigned)result->blocks,
               (unsigned)result->resident);
    buf_printf(out,
               "\"instructions\": %llu, \"from_code\": %llu, \"unknown\": %llu, \"whole\": %s, ",
               (unsigned long long)result->issued, (unsigned long long)result->from_code,
               (unsigned long long)result->unknown, of->whole ? "true" : "false");
    if (result->from_code)
        buf_printf(out, "\"in_doubt\": %.4f, ",
                   result->warp_clocks > 0 ? result->misfit / result->warp_clocks : 0);
    add_units(result, job->rows, out);
    if (job->memory != NULL)
        buf_printf(
            out,
            ", \"memory\": {\"touched\": %.0f, \"bytes\": %.0f, \"read\": %.0f, \"written\": %.0f}",
            job->memory->launch, job->memory->share * job->memory->bytes,
            job->memory->share * job->memory->read, job->memory->share * job->memory->written);
    buf_add(out, ", ");
    add_groups(result, out);
    buf_add(out, ", ");
    add_waits(job, result, out);
    if (of->path == NULL)
        return;
    buf_add(out, ", ");
    clock_path_json(of->path, out);
    buf_add(out, ", ");
    clock_whatif_json(of->what_ifs, out);
}
