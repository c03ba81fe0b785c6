/* search_divisions.c - the accounting of `tilec search`: which divisions among warp groups a kernel
 * can have.
 *
 * The kernel is made with each combination of sizes for what it leaves `auto`, taken through the
 * passes up to `fuse`, read as a flow of products (flow.h), and divided in every way that the
 * target allows (group_plans.h), whether or not tilec has code for it.  So there is no time: a list
 * of thousands takes less than a second.
 */
#include "compiler/choose/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/choose/trial.h"
#include "compiler/cost/flow.h"
#include "compiler/cost/group_plans.h"

enum { MOST_CANDIDATES = 4096, MOST_ROWS = 16384, KIB = 1024 };

/* One combination of tile sizes. */
typedef struct Candidate {
    int32_t values[MAX_AUTO];
    const Flow *flow; /* of which only what is no tile IR may be looked at */
} Candidate;

typedef struct Row {
    GroupPlan plan;
    const Candidate *of;
} Row;

typedef struct Search {
    Front front; /* into the arena of trials */
    PassContext *px;
    const TilecSearch *asked;
    const TirFn *sample;
    const AutoTiles *open;
    const int64_t *sizes; /* of the tensors, by index */
    VEC(Row) rows;
    const char *obstacle; /* of the last candidate for which there was no division */
    Span where;
    uint32_t tried;
    uint32_t found; /* divisions; more than rows, when only the best are kept */
    bool cut;       /* of some candidate there are more than were tried */
} Search;

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

    return c != 0 ? c : compare_rest(a, b);
}

/* The best first; of very many, only those are kept. */
static void
sort_rows(Search *s)
{
    qsort(s->rows.at, s->rows.n, sizeof *s->rows.at, by_traffic);
    if (s->rows.n > MOST_ROWS)
        s->rows.n = MOST_ROWS;
}

/* ---- one candidate ---- */

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
    GroupPlans plans = {0};
    const uint32_t *groups = s->asked->n_groups > 0 ? s->asked->groups : all;
    size_t n = s->asked->n_groups > 0 ? s->asked->n_groups : sizeof all / sizeof all[0];
    for (size_t k = 0; k < n; k++)
        s->cut |= !group_plans(trial.px.arena, s->px->target, flow, groups[k], s->px->stages,
                               &plans);
    keep_names(s, flow);
    for (uint32_t k = 0; k < plans.n; k++)
        vec_push(s->px->arena, &s->rows, ((Row){.plan = plans.at[k], .of = candidate}));
    s->found += plans.n;
    if (s->rows.n > MOST_ROWS)
        sort_rows(s);
}

/* ---- all candidates ---- */

static const int32_t *
sizes_for(const Search *s, uint32_t k, size_t *n)
{
    uint32_t list = k < TILEC_OPEN ? k : TILEC_OPEN - 1;

    *n = s->asked->n_tiles[list];
    return s->asked->tiles[list];
}

static void
try_all(Search *s)
{
    uint32_t autos = s->open->asked < MAX_AUTO ? s->open->asked : MAX_AUTO;
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
        if (!auto_is_open(s->open, s->sample->constants.at[k].name))
            buf_printf(out, "%s%s=%s", k == 0 ? ": " : " ", s->sample->constants.at[k].name,
                       s->sample->constants.at[k].value);
    }
    buf_printf(out, "\n%" PRIu32 " division%s for %" PRIu32 " tile size%s, ", s->found,
               s->found == 1 ? "" : "s", s->tried, s->tried == 1 ? "" : "s");
    if (shown < s->found)
        buf_printf(out, "the best %zu ", shown);
    buf_add(out, "by traffic of shared memory, with or without code for them\n");
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
    if (s->cut)
        buf_add(out, "  there are more ways to divide the products; not all were tried\n");
    buf_add(out, "\n  ");
}

static void
print_table(const Search *s, size_t shown, Buf *out)
{
    const Flow *flow = s->rows.at[0].of->flow;
    uint32_t autos = s->open->asked < MAX_AUTO ? s->open->asked : MAX_AUTO;
    int wide = flow->divisions > 2 ? (int)(4 * flow->divisions) : 8;

    print_head(s, shown, out);
    for (uint32_t k = 0; k < autos; k++)
        buf_printf(out, "%4s ", s->open->names[k]);
    buf_printf(out, "groups  %-*s  %-8s %-9s %9s  %8s\n", wide, "division", "operands", "registers",
               "memory", "traffic");
    for (size_t i = 0; i < shown; i++) {
        const Row *row = &s->rows.at[i];
        const GroupPlan *plan = &row->plan;
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
        buf_printf(out, "%6" PRIu32 "  %-*s  %-8s %-9s %9s  %8.1f", plan->consumers, wide,
                   division.at, operands_text(flow, plan), registers, memory, plan->per_element);
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

    search_print_key(s->px->target, s->sample, s->open, s->sizes, row->of->values, out);
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
        print_tile_json(s, row, out);
        buf_printf(out,
                   ",\"registers\":%" PRId32 ",\"register_limit\":%" PRId32
                   ",\"shared_bytes\":%" PRId64 ",\"traffic\":%" PRId64 ",\"copied\":%" PRId64
                   ",\"per_element\":%.6g}\n",
                   plan->registers, plan->register_limit, plan->shared_bytes, plan->traffic,
                   plan->copied, plan->per_element);
    }
}

/* ---- the whole ---- */

void
search_print_divisions(const Front *front, PassContext *px, Arena *trials, const TirFn *sample,
                       const AutoTiles *open, const TilecSearch *search, const int64_t *sizes,
                       Buf *out)
{
    Search *s = arena_new(px->arena, Search);

    *s = (Search){
        .front = *front, .px = px, .asked = search, .sample = sample, .open = open, .sizes = sizes};
    s->front.arena = trials;
    try_all(s);
    if (px->diag->errors > 0)
        return;
    if (s->rows.n == 0) {
        diag_error(px->diag, s->obstacle != NULL ? s->where : sample->span,
                   "E-SEARCH: no plan for warp groups in kernel '%s': %s", sample->name,
                   s->obstacle != NULL ? s->obstacle
                                       : "none fits instructions, registers and shared memory");
        return;
    }
    sort_rows(s);
    size_t shown = search->rows > 0 && search->rows < s->rows.n ? search->rows : s->rows.n;
    if (search->json)
        print_json(s, shown, out);
    else
        print_table(s, shown, out);
}
