/* search.c - which tile sizes and which divisions among warp groups a kernel can have.
 *
 * The kernel is made with each combination of sizes for what it leaves `auto`, taken through the
 * passes up to `fuse`, read as a flow of products (flow.h), and divided in every way that the
 * target allows (group_plans.h).  Nothing is measured and nothing lowered: a list of thousands
 * takes less than a second.
 */
#include "compiler/choose/search.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/choose/trial.h"
#include "compiler/cost/flow.h"
#include "compiler/cost/group_plans.h"
#include "compiler/cost/trips.h"
#include "compiler/passes/util/tir_util.h"

enum { MOST_CANDIDATES = 4096, MOST_ROWS = 16384, KIB = 1024 };

/* One combination of tile sizes. */
typedef struct Candidate {
    int32_t values[MAX_AUTO];
    Trips trips;
    const Flow *flow; /* of which only what is no tile IR may be looked at */
} Candidate;

typedef struct Row {
    GroupPlan plan;
    const Candidate *of;
    double milliseconds;
} Row;

typedef struct Search {
    Front front; /* into the arena of trials */
    PassContext *px;
    const TilecSearch *asked;
    const TirFn *sample;         /* the kernel with middling sizes */
    AutoTiles open;              /* what it leaves open */
    const char *autos[MAX_AUTO]; /* what it would leave open if nothing were pinned */
    uint32_t n_autos;
    int64_t *sizes; /* of the tensors, by index */
    VEC(Row) rows;
    GroupNeeds needs;
    const char *obstacle; /* of the last candidate for which there was no plan */
    Span where;
    uint32_t tried;
    uint32_t found; /* plans; more than rows, when only the best are kept */
} Search;

/* ---- the kernel ---- */

/* The one that is named, or the first of those with the most products. */
static const char *
choose_kernel(const Search *s)
{
    TirModule *module = front_module(&s->front);
    const TirFn *best = NULL;
    uint32_t most = 0;

    for (uint32_t k = 0; module != NULL && k < module->fns.n; k++) {
        uint32_t n = count_mmas(module->fns.at[k]->body);
        if (best == NULL || n > most) {
            best = module->fns.at[k];
            most = n;
        }
    }
    if (best != NULL && most == 0)
        diag_error(
            s->px->diag, best->span,
            "E-SEARCH: kernel '%s' has no products: there is nothing to divide among warp groups",
            best->name);
    return most == 0 ? NULL : best->name;
}

/* ---- the sizes of tensors ---- */

static bool
read_size(Search *s, const TilecDefine *define)
{
    char *end;
    long long value = strtoll(define->value, &end, 10);

    for (uint32_t k = 0; k < s->sample->sizes.n; k++) {
        if (strcmp(s->sample->sizes.at[k].name, define->name) != 0)
            continue;
        if (end == define->value || *end != '\0' || value < 1 || value > INT32_MAX) {
            diag_error(s->px->diag, (Span){0}, "E-SIZES: --size %s=%s: expected a positive number",
                       define->name, define->value);
            return false;
        }
        s->sizes[k] = value;
        return true;
    }
    diag_error(s->px->diag, (Span){0}, "E-SIZES: --size %s=%s: kernel '%s' has no size '%s'",
               define->name, define->value, s->sample->name, define->name);
    return false;
}

static bool
read_sizes(Search *s)
{
    s->sizes = trips_usual_sizes(s->px->arena, s->sample);
    for (size_t k = 0; k < s->asked->n_sizes; k++) {
        if (!read_size(s, &s->asked->sizes[k]))
            return false;
    }
    return true;
}

/* ---- order ---- */

static int
compare_numbers(double a, double b)
{
    return a < b ? -1 : a > b;
}

/* Larger tiles first, the last parameter before the others: fewer iterations. */
static int
compare_tiles(const Row *a, const Row *b)
{
    for (uint32_t k = MAX_AUTO; k-- > 0;) {
        if (a->of->values[k] != b->of->values[k])
            return a->of->values[k] > b->of->values[k] ? -1 : 1;
    }
    return 0;
}

static int
compare_rest(const Row *a, const Row *b)
{
    int c = compare_tiles(a, b);

    if (c == 0)
        c = compare_numbers(a->plan.registers, b->plan.registers);
    if (c == 0)
        c = compare_numbers((double)a->plan.shared_bytes, (double)b->plan.shared_bytes);
    if (c == 0)
        c = compare_numbers(a->plan.consumers, b->plan.consumers);
    for (uint32_t d = 0; d < FLOW_MMAS && c == 0; d++) {
        c = compare_numbers(a->plan.swapped[d], b->plan.swapped[d]);
        if (c == 0)
            c = compare_numbers(a->plan.row_groups[d], b->plan.row_groups[d]);
    }
    return c;
}

static int
by_traffic(const void *x, const void *y)
{
    const Row *a = x, *b = y;
    int c = compare_numbers(a->plan.per_element, b->plan.per_element);

    if (c == 0)
        c = compare_numbers(a->milliseconds, b->milliseconds);
    return c != 0 ? c : compare_rest(a, b);
}

static int
by_time(const void *x, const void *y)
{
    const Row *a = x, *b = y;
    int c = compare_numbers(a->milliseconds, b->milliseconds);

    if (c == 0)
        c = compare_numbers(a->plan.per_element, b->plan.per_element);
    return c != 0 ? c : compare_rest(a, b);
}

/* The best first; of very many, only those are kept. */
static void
sort_rows(Search *s)
{
    qsort(s->rows.at, s->rows.n, sizeof *s->rows.at,
          s->asked->order == TILEC_BY_TIME ? by_time : by_traffic);
    if (s->rows.n > MOST_ROWS)
        s->rows.n = MOST_ROWS;
}

/* ---- one candidate ---- */

/* An estimate of the milliseconds of a launch: blocks go to the SMs as these get free. */
static double
estimate(const Target *target, const Trips *trips, const GroupClocks *clocks)
{
    double extra = clocks->total + target->group_times.start;
    double each = trips->each * clocks->total + extra, most = trips->most * clocks->total + extra;
    double waves = trips->blocks / target->chip.sm_count, total;

    if (trips->most - trips->each < 0.5)
        total = ceil(waves) * each;
    else
        total = waves * each > most ? waves * each : most;
    return total / (1e3 * target->chip.clock_mhz);
}

/* What is shown of a flow must outlive the trial. */
static void
keep_names(Search *s, Flow *flow)
{
    for (uint32_t k = 0; k < flow->n_mmas; k++) {
        const char *name = flow->mmas[k].name;
        flow->mmas[k].op = NULL;
        if (name != NULL)
            flow->mmas[k].name = arena_strndup(s->px->arena, name, strlen(name));
    }
    for (uint32_t k = 0; k < flow->n_tiles; k++) {
        const char *name = flow->tiles[k].name;
        flow->tiles[k].value = NULL;
        if (name != NULL)
            flow->tiles[k].name = arena_strndup(s->px->arena, name, strlen(name));
    }
    for (uint32_t k = 0; k < flow->n_values; k++)
        flow->values[k].value = NULL;
    flow->loop = NULL;
}

_Static_assert((int)TILEC_MOST_GROUPS == (int)MOST_CONSUMERS, "the API says how many there are");

static void
try_candidate(Search *s, const TileChoice *choice)
{
    static const uint32_t all[MOST_CONSUMERS] = {1, 2, 3, 4};
    const Target *target = s->px->target;
    Trial trial;

    arena_reset(s->front.arena);
    trial_begin(&trial, s->px, s->front.arena);
    TirFn *fn = tile_choice_kernel(&s->front, s->sample->name, choice);
    bool good = fn != NULL && passes_run_until(&trial.px, fn, &trial.run, "fuse");
    trial_end(&trial); /* sizes that the kernel refuses are not worth a word */
    if (!good)
        return;
    s->tried++;
    Flow *flow = arena_new(s->px->arena, Flow);
    if (!flow_read(trial.px.arena, fn, flow)) {
        s->obstacle = flow->obstacle;
        s->where = flow->where;
        return;
    }
    Candidate *candidate = arena_new(s->px->arena, Candidate);
    memcpy(candidate->values, choice->values, sizeof candidate->values);
    candidate->flow = flow;
    candidate->trips = trips_of(fn, flow->loop, s->sizes);
    GroupPlans plans = {0};
    const uint32_t *groups = s->asked->n_groups > 0 ? s->asked->groups : all;
    size_t n = s->asked->n_groups > 0 ? s->asked->n_groups : sizeof all / sizeof all[0];
    for (size_t k = 0; k < n; k++)
        group_plans(trial.px.arena, target, flow, groups[k], s->px->stages, &plans, &s->needs);
    keep_names(s, flow);
    for (uint32_t k = 0; k < plans.n; k++) {
        Row row = {.plan = plans.at[k], .of = candidate};
        row.milliseconds = estimate(target, &candidate->trips, &row.plan.clocks);
        vec_push(s->px->arena, &s->rows, row);
    }
    s->found += plans.n;
    if (s->rows.n > MOST_ROWS)
        sort_rows(s);
}

/* ---- all candidates ---- */

/* The list that parameter `name` takes its sizes from. */
static uint32_t
list_of(const Search *s, const char *name)
{
    uint32_t k = 0;

    while (k + 1 < s->n_autos && strcmp(s->autos[k], name) != 0)
        k++;
    return k < TILEC_OPEN ? k : TILEC_OPEN - 1;
}

static const int32_t *
sizes_for(const Search *s, uint32_t k, size_t *n)
{
    static const int32_t sides[] = {64, 80, 96, 112, 128, 144, 160, 176, 192, 256};
    static const int32_t depths[] = {32, 64, 128};
    uint32_t list = list_of(s, s->open.names[k]);

    *n = s->asked->n_tiles[list];
    if (*n > 0)
        return s->asked->tiles[list];
    if (list < 2) { /* rows and columns come first by custom */
        *n = sizeof sides / sizeof sides[0];
        return sides;
    }
    *n = sizeof depths / sizeof depths[0];
    return depths;
}

static void
try_all(Search *s)
{
    uint32_t autos = s->open.asked < MAX_AUTO ? s->open.asked : MAX_AUTO;
    size_t total = 1, n;

    for (uint32_t k = 0; k < autos; k++) {
        sizes_for(s, k, &n);
        total *= n;
    }
    if (total > MOST_CANDIDATES) {
        diag_error(
            s->px->diag, s->sample->span,
            "E-SEARCH: there are %zu combinations of tile sizes, at most %d: pin some with -D",
            total, MOST_CANDIDATES);
        return;
    }
    for (size_t index = 0; index < total; index++) {
        TileChoice choice = {0};
        size_t rest = index;
        for (uint32_t k = 0; k < autos; k++) {
            const int32_t *sizes = sizes_for(s, k, &n);
            choice.values[k] = sizes[rest % n];
            rest /= n;
        }
        try_candidate(s, &choice);
    }
}

static const char *
tile_name(const FlowTile *tile)
{
    return tile->name == NULL ? "tile" : tile->name;
}

/* ---- the list as a table ---- */

static void
print_bytes(int64_t bytes, char *text, size_t n)
{
    if (bytes % KIB == 0)
        snprintf(text, n, "%" PRId64 " K", bytes / KIB);
    else
        snprintf(text, n, "%.1f K", (double)bytes / KIB);
}

/* "T F T 1,2,1": what is swapped, and how many warp groups lie along the rows, by division. */
static void
print_division(const Flow *flow, const GroupPlan *plan, Buf *out)
{
    for (uint32_t d = 0; d < flow->divisions; d++)
        buf_printf(out, "%c ", plan->swapped[d] ? 'T' : 'F');
    for (uint32_t d = 0; d < flow->divisions; d++)
        buf_printf(out, "%s%" PRIu32, d > 0 ? "," : "", plan->row_groups[d]);
}

/* What takes the longest. */
static const char *
bound_by(const GroupClocks *c)
{
    double most = c->tensor;
    const char *name = "products";

    if (c->port > most) {
        most = c->port;
        name = "port";
    }
    if (c->special > most || c->lanes > most) {
        most = c->special > c->lanes ? c->special : c->lanes;
        name = "arithmetic";
    }
    return c->chain + c->exchange >= c->total ? "latency" : name;
}

static const char *
operands_text(const Flow *flow, const GroupPlan *plan)
{
    if (flow->n_values == 0)
        return plan->pipelined ? "ol" : "";
    if (plan->from_registers != 0)
        return plan->pipelined ? "RS ol" : "RS";
    return plan->pipelined ? "SS ol" : "SS";
}

static void
print_operand(const Flow *flow, FlowOperand operand, Buf *out)
{
    bool transposed = operand.transposed;

    if (operand.origin == FLOW_LOADED) {
        buf_printf(out, " %s", tile_name(&flow->tiles[operand.index]));
    } else {
        const FlowValue *value = &flow->values[operand.index];
        const char *before = " (";
        for (uint32_t k = 0; k < flow->n_mmas; k++) {
            if ((value->mmas >> k & 1) == 0)
                continue;
            buf_printf(out, "%s%" PRIu32, before, k + 1);
            before = " ";
        }
        buf_char(out, ')');
        transposed = transposed != value->transposed;
    }
    buf_add(out, transposed ? ".T" : "");
}

/* "(2) dv += (1).T dO": product 2 accumulates, its left operand is made of product 1. */
static void
print_mma(const Flow *flow, uint32_t k, Buf *out)
{
    const FlowMma *p = &flow->mmas[k];

    buf_printf(out, "(%" PRIu32 ")%s%s%s %s", k + 1, p->name == NULL ? "" : " ",
               p->name == NULL ? "" : p->name, p->output_bytes > 0 ? " (out)" : "",
               p->carried ? "+=" : "=");
    print_operand(flow, p->a, out);
    print_operand(flow, p->b, out);
}

static void
print_head(const Search *s, size_t shown, Buf *out)
{
    const Row *first = &s->rows.at[0];
    const Flow *flow = first->of->flow;

    buf_printf(out, "%s, %s", s->sample->name, s->px->target->name);
    for (uint32_t k = 0; k < s->sample->constants.n; k++) {
        if (!auto_is_open(&s->open, s->sample->constants.at[k].name))
            buf_printf(out, "%s%s=%s", k == 0 ? ": " : " ", s->sample->constants.at[k].name,
                       s->sample->constants.at[k].value);
    }
    buf_printf(out, "\n%" PRIu32 " plan%s for %" PRIu32 " tile size%s, ", s->found,
               s->found == 1 ? "" : "s", s->tried, s->tried == 1 ? "" : "s");
    if (shown < s->found)
        buf_printf(out, "the best %zu ", shown);
    buf_printf(out, "by %s\n",
               s->asked->order == TILEC_BY_TIME ? "estimated time" : "traffic of shared memory");
    for (uint32_t d = 0; d < flow->divisions; d++) {
        const char *before = "";
        buf_printf(out, "  division %" PRIu32 ":  ", d + 1);
        for (uint32_t k = 0; k < flow->n_mmas; k++) {
            if (flow->mmas[k].division != d)
                continue;
            buf_add(out, before);
            print_mma(flow, k, out);
            before = ";  ";
        }
        buf_char(out, '\n');
    }
    if (flow->outside > 0)
        buf_printf(out, "  %" PRIu32 " products outside of the main loop are not counted\n",
                   flow->outside);
    if (s->needs.cut)
        buf_add(out, "  there are more ways to divide the products; not all were tried\n");
    buf_add(out, "  estimated for");
    for (uint32_t k = 0; k < s->sample->sizes.n; k++)
        buf_printf(out, " %s=%" PRId64, s->sample->sizes.at[k].name, s->sizes[k]);
    buf_add(out, "\n\n  ");
}

static void
print_table(const Search *s, size_t shown, Buf *out)
{
    const Flow *flow = s->rows.at[0].of->flow;
    uint32_t autos = s->open.asked < MAX_AUTO ? s->open.asked : MAX_AUTO;
    int wide = (int)(2 * flow->divisions + 2 * flow->divisions);

    print_head(s, shown, out);
    for (uint32_t k = 0; k < autos; k++)
        buf_printf(out, "%4s ", s->open.names[k]);
    buf_printf(out, "groups  %-*s  %-8s %-9s %9s  %8s  %7s  %6s  %-10s %7s\n", wide > 8 ? wide : 8,
               "division", "operands", "registers", "memory", "traffic", "~clocks", "tensor",
               "bound", "~ms");
    for (size_t i = 0; i < shown; i++) {
        const Row *row = &s->rows.at[i];
        const GroupPlan *plan = &row->plan;
        const GroupClocks *c = &plan->clocks;
        char registers[32], memory[32];
        Buf division;
        buf_init(&division, s->px->arena);
        print_division(flow, plan, &division);
        snprintf(registers, sizeof registers, "%" PRId32 "/%" PRId32, plan->registers,
                 plan->register_limit);
        print_bytes(plan->shared_bytes, memory, sizeof memory);
        buf_add(out, "  ");
        for (uint32_t k = 0; k < autos; k++)
            buf_printf(out, "%4" PRId32 " ", row->of->values[k]);
        buf_printf(out, "%6" PRIu32 "  %-*s  %-8s %-9s %9s  %8.1f  %7.0f  %4.0f %%  %-10s %7.3f",
                   plan->consumers, wide > 8 ? wide : 8, division.at, operands_text(flow, plan),
                   registers, memory, plan->per_element, c->total, 100 * c->tensor / c->total,
                   bound_by(c), row->milliseconds);
        for (uint32_t k = 0; k < flow->n_tiles; k++) {
            if (flow->tiles[k].in_loop && plan->stages[k] == 1)
                buf_printf(out, "  %s: one stage", tile_name(&flow->tiles[k]));
        }
        buf_char(out, '\n');
    }
}

/* ---- the list as lines of JSON ---- */

static void
print_tile_json(const Search *s, const Row *row, Buf *out)
{
    const Flow *flow = row->of->flow;
    const GroupPlan *plan = &row->plan;

    search_print_key(s->px->target, s->sample, &s->open, s->sizes, row->of->values, out);
    buf_printf(out, ",\"groups\":%" PRIu32 ",\"swapped\":[", plan->consumers);
    for (uint32_t d = 0; d < flow->divisions; d++)
        buf_printf(out, "%s%s", d > 0 ? "," : "", plan->swapped[d] ? "true" : "false");
    buf_add(out, "],\"row_groups\":[");
    for (uint32_t d = 0; d < flow->divisions; d++)
        buf_printf(out, "%s%" PRIu32, d > 0 ? "," : "", plan->row_groups[d]);
    buf_printf(out, "],\"from_registers\":%s,\"pipelined\":%s,\"stages\":{",
               plan->from_registers != 0 ? "true" : "false", plan->pipelined ? "true" : "false");
    for (uint32_t k = 0; k < flow->n_tiles; k++)
        buf_printf(out, "%s\"%s\":%" PRIu32, k > 0 ? "," : "", tile_name(&flow->tiles[k]),
                   plan->stages[k]);
    buf_add(out, "}");
}

static void
print_json(const Search *s, size_t shown, Buf *out)
{
    for (size_t i = 0; i < shown; i++) {
        const Row *row = &s->rows.at[i];
        const GroupPlan *plan = &row->plan;
        const GroupClocks *c = &plan->clocks;
        print_tile_json(s, row, out);
        buf_printf(out,
                   ",\"registers\":%" PRId32 ",\"register_limit\":%" PRId32
                   ",\"shared_bytes\":%" PRId64 ",\"traffic\":%" PRId64 ",\"copied\":%" PRId64
                   ",\"per_element\":%.6g,\"estimate\":{\"tensor\":%.6g,\"port\":%.6g,"
                   "\"special\":%.6g,\"lanes\":%.6g,\"chain\":%.6g,\"total\":%.6g},"
                   "\"estimated_ms\":%.6g}\n",
                   plan->registers, plan->register_limit, plan->shared_bytes, plan->traffic,
                   plan->copied, plan->per_element, c->tensor, c->port, c->special, c->lanes,
                   c->chain, c->total, row->milliseconds);
    }
}

/* ---- the whole ---- */

/* Whether there is a parameter for the sizes of list `k`. */
static bool
check_list(Search *s, uint32_t k)
{
    static const char *const flags[TILEC_OPEN] = {"--tile-m", "--tile-n", "--tile-k"};

    if (s->asked->n_tiles[k] == 0)
        return true;
    if (k >= s->n_autos) {
        diag_error(s->px->diag, s->sample->span,
                   "E-SEARCH: %s: kernel '%s' has %" PRIu32 " parameters that are 'auto'", flags[k],
                   s->sample->name, s->n_autos);
        return false;
    }
    if (!auto_is_open(&s->open, s->autos[k])) {
        diag_error(s->px->diag, s->sample->span,
                   "E-SEARCH: %s: parameter '%s' of kernel '%s' is pinned by -D", flags[k],
                   s->autos[k], s->sample->name);
        return false;
    }
    return true;
}

/* Why there is not one plan. */
static void
say_why(const Search *s)
{
    const GroupNeeds *needs = &s->needs;
    const Target *target = s->px->target;
    Span span = s->obstacle != NULL ? s->where : s->sample->span;
    const char *why = s->obstacle;

    if (why == NULL && s->tried == 0)
        why = "it can not have these tile sizes";
    if (why == NULL && needs->missing != NULL)
        why = arena_printf(s->px->arena, "warp groups of %s have no product of %s and %s",
                           target->name, dtype_name(needs->missing->args[0]->type.dtype),
                           dtype_name(needs->missing->args[1]->type.dtype));
    if (why == NULL && needs->divisions == 0)
        why = "no division gives each warp group 64 rows or a multiple of them, columns by the "
              "eight, and whole rows where rows are reduced";
    if (why == NULL && needs->registers > 0)
        why = arena_printf(
            s->px->arena, "accumulators take %" PRId32 " registers or more, and there are %" PRId32,
            needs->registers, needs->register_limit);
    if (why == NULL)
        why = arena_printf(s->px->arena,
                           "tiles take %" PRId64
                           " KiB of shared memory or more, and there are %" PRId32
                           "; --stages=1 takes the least",
                           (needs->shared_bytes + KIB - 1) / KIB, target->group_tile_bytes / KIB);
    diag_error(s->px->diag, span, "E-SEARCH: no plan for warp groups in kernel '%s': %s",
               s->sample->name, why);
}

static bool
prepare(Search *s)
{
    Diag *diag = s->px->diag;

    if (!target_predicts_roles(s->px->target)) {
        diag_error(
            diag, (Span){0},
            target_has_roles(s->px->target)
                ? "E-SEARCH: how long warp groups take on %s is not known: there are no plans to search"
                : "E-SEARCH: %s has no products of warp groups: there are no plans to search",
            s->px->target->name);
        return false;
    }
    const char *name = choose_kernel(s);
    if (name == NULL)
        return false;
    s->front.arena = s->px->arena;
    s->sample = front_kernel(&s->front, name, NULL, &s->open);
    if (s->sample == NULL)
        return false;
    s->n_autos = front_autos(&s->front, name, s->autos, MAX_AUTO);
    for (uint32_t k = 0; k < TILEC_OPEN; k++) {
        if (!check_list(s, k))
            return false;
    }
    return read_sizes(s);
}

void
search_run(const Front *front, PassContext *px, Arena *trials, const TilecSearch *search, Buf *out)
{
    Search *s = arena_new(px->arena, Search);

    s->front = *front;
    s->px = px;
    s->asked = search;
    if (!prepare(s))
        return;
    if (search->built) {
        search_print_built(front, px, trials, s->sample, search, s->sizes, out);
        return;
    }
    s->front.arena = trials;
    try_all(s);
    if (px->diag->errors > 0)
        return;
    if (s->rows.n == 0) {
        say_why(s);
        return;
    }
    sort_rows(s);
    size_t shown = search->rows > 0 && search->rows < s->rows.n ? search->rows : s->rows.n;
    if (search->json)
        print_json(s, shown, out);
    else
        print_table(s, shown, out);
}
