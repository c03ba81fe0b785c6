/* role_cases.c - small launches that take the roles of a kernel through all they can do.
 *
 * Only sizes and integer parameters that decide which way a role goes, or how far the consumer axis
 * runs, get several values.  Where a size is divided by a tile's extent it goes through that many
 * tiles, whole ones and parts in turn; constants larger than tiles, as windows are, have launches
 * behind them.  Numbers that are loaded and decide are drawn, some sets of them.  Of numbers that
 * only say how often a loop goes around, none is larger than takes all pipelines around.  The rest
 * has one value.  A launch must keep what the kernel requires.
 *
 * Far constants.  How long the launches behind a window take must not depend on the window.  What
 * decides which way a role goes compares sums of sizes, indices and constants, and divides them by
 * tiles.  So between one constant and the next larger one, and below the least, there is a number
 * of whole tiles, of every extent that something is divided by, whose number does not matter beyond
 * some.  The rest is taken out: the roles run with smaller constants, in the same order, with the
 * same remainders, and the same differences where these are small.  Where a fault is found the
 * program as it is must have it, too (check_roles.c): there may be constants that are made of
 * others.
 */
#include "compiler/passes/check/role_cases.h"

#include <string.h>

#include "compiler/ir/isa.h"
#include "compiler/ir/tir_walk.h"

enum {
    MOST_LAUNCHES = 100,
    MOST_WITH_DATA = 280, /* .. where numbers that are loaded decide */
    LAUNCH_STEP = 10007,  /* a prime that is larger than lists of values are long */
    LARGEST_SIZE = 1 << 20,
    DATA_SETS = 8,
    MOST_TRIPS = 32, /* of a constant that numbers of iterations are compared with */
    FAR_TILES = 3,   /* of the largest extent: constants from there on are far */
    /* what the extents of tiles have in common; larger ones are left out of it */
    MOST_COMMON = 4096,
};

typedef VEC(int64_t) Values;

typedef struct Variable {
    enum { OF_SIZE, OF_SCALAR, OF_DATA } kind;
    uint32_t index;
    Values values;
    uint32_t at;
} Variable;

struct RoleCases {
    Arena *arena;
    const TirFn *fn;
    int64_t *sizes;
    Scalar *scalars;
    VEC(Variable) variables;
    int64_t *unit; /* of each size: what it is divided by; 0: nothing */
    bool *size_decides, *scalar_decides;
    bool *size_is_far; /* it meets a far constant */
    bool data_decides; /* numbers that are loaded */
    bool *scalar_is_place,
        data_is_place; /* it is more than a number of iterations: something is computed from it */
    int64_t largest;   /* unit */
    int64_t data, most_data;
    Values units; /* all of them */
    Values far;   /* constants that decide, without sign */
    /* those that something is compared with: numbers of iterations, if they are small */
    Values trips;
    Values bits; /* .. and those that are no summands */
    VEC(WalkConstant) constants;
    int64_t *wide; /* of each size that only counts tiles of the grid: two tiles; 0: another size */
    int64_t rest;  /* the sizes that decide nothing, where that keeps what the kernel requires .. */
    bool chosen;   /* .. which is known */
    uint64_t launch, left, next; /* how many are left, and which combination of values is next */
    bool other_rests;
    bool started, lawless; /* nothing keeps what the kernel requires: go on without */
};

/* Keeps the list in order, every value once. */
static void
add_value(RoleCases *c, Values *values, int64_t value)
{
    uint32_t at = 0;

    if (value < 0)
        return;
    while (at < values->n && values->at[at] < value)
        at++;
    if (at < values->n && values->at[at] == value)
        return;
    vec_push(c->arena, values, value);
    for (uint32_t k = values->n - 1; k > at; k--)
        values->at[k] = values->at[k - 1];
    values->at[at] = value;
}

static bool
has_value(const Values *values, int64_t value)
{
    bool has = false;

    for (uint32_t k = 0; k < values->n; k++)
        has = has || values->at[k] == value;
    return has;
}

/* ---- what the programs say ---- */

/* Notes the constants that an operation compares with, or does anything with but add and choose. */
static void
find_bits(RoleCases *c, const TirOp *op)
{
    bool compares = op->results[0]->type.dtype == DT_BOOL;

    switch (op->op) {
    case TIR_DIV:
    case TIR_REM:
    case TIR_AND:
    case TIR_OR:
    case TIR_XOR:
    case TIR_SHL:
    case TIR_SHR: break;
    default:
        if (!compares)
            return;
    }
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        if (def != NULL && def->op == TIR_CONST && op->args[k]->type.dtype == DT_I32)
            add_value(c, compares ? &c->trips : &c->bits,
                      def->integer < 0 ? -def->integer : def->integer);
    }
}

/* A size is divided by `unit`; one that follows from others: they are, and decide as it does. */
static void
divide_size(RoleCases *c, const HostExpr *expr, int64_t unit)
{
    if (expr == NULL)
        return;
    bool tiles = (expr->kind == HOST_CDIV || expr->kind == HOST_DIV) && expr->b->kind == HOST_INT;
    if (expr->kind == HOST_SIZE) {
        int64_t *have = &c->unit[expr->index];
        *have = *have == 0 || unit < *have ? unit : *have;
        c->size_decides[expr->index] = true;
        c->largest = unit > c->largest ? unit : c->largest;
    }
    divide_size(c, expr->a, tiles ? unit * expr->b->integer : unit);
    divide_size(c, expr->b, unit);
}

/* Every size below `value` is divided by `unit`; not those that say where a number is loaded
 * from. */
static void
divide_below(RoleCases *c, const TirVal *value, int64_t unit, uint32_t depth)
{
    const TirOp *def = value->def;

    if (def == NULL || depth == 0 || def->op == TIR_LOAD)
        return;
    if (def->op == TIR_SIZE) {
        int64_t *have = &c->unit[def->integer];
        *have = *have == 0 || unit < *have ? unit : *have;
    }
    for (uint32_t k = 0; k < def->n_args; k++)
        divide_below(c, def->args[k], unit, depth - 1);
}

static bool
is_decider(const WalkProgram *const *programs, uint32_t n, const TirVal *value)
{
    bool decides = false;

    for (uint32_t k = 0; k < n; k++)
        decides = decides || walk_is_decided_by(programs[k], value);
    return decides;
}

/* Marks the parameters and what is loaded of which an operation makes something that decides,
 * beyond iterating so often. */
static void
find_places(RoleCases *c, const WalkProgram *const *programs, uint32_t n, const TirOp *op)
{
    bool counts = op->op == TIR_FOR && !is_decider(programs, n, op->blocks[0]->params.at[0]);

    if (op->n_results == 1 && op->n_blocks == 0 && !is_decider(programs, n, op->results[0]))
        return;
    for (uint32_t k = counts ? 2 : 0; k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        if (def != NULL && def->op == TIR_PARAM)
            c->scalar_is_place[def->integer] = true;
        c->data_is_place |= def != NULL && def->op == TIR_LOAD &&
                            is_decider(programs, n, op->args[k]);
    }
}

static void
look_at(RoleCases *c, const WalkProgram *const *programs, uint32_t n, const TirBlock *block)
{
    enum { DEEPEST = 12 };

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        find_places(c, programs, n, op);
        if (op->n_results != 1 || !is_decider(programs, n, op->results[0]))
            continue;
        if (op->op == TIR_SIZE)
            c->size_decides[op->integer] = true;
        if (op->op == TIR_PARAM)
            c->scalar_decides[op->integer] = true;
        c->data_decides |= op->op == TIR_LOAD;
        find_bits(c, op);
        if (op->op == TIR_DIV && op->args[1]->def != NULL && op->args[1]->def->op == TIR_CONST) {
            int64_t unit = op->args[1]->def->integer;
            if (unit > MOST_CONSUMERS) { /* else it counts consumers */
                divide_below(c, op->args[0], unit, DEEPEST);
                c->largest = unit > c->largest ? unit : c->largest;
                add_value(c, &c->units, unit);
            }
        }
        if (op->op == TIR_CONST && op->results[0]->type.dtype == DT_I32) {
            int64_t constant = op->integer < 0 ? -op->integer : op->integer;
            add_value(c, &c->far, constant);
        }
    }
}

/* ---- far constants ---- */

/* Sizes and constants of a sum, or of what is compared. */
typedef struct Meeting {
    bool *sizes, far;
    uint32_t steps;
} Meeting;

static bool
is_constant(const TirVal *value)
{
    return value->def != NULL && value->def->op == TIR_CONST;
}

static void
add_host_sizes(Meeting *m, const HostExpr *expr)
{
    if (expr == NULL)
        return;
    if (expr->kind == HOST_SIZE)
        m->sizes[expr->index] = true;
    add_host_sizes(m, expr->a);
    add_host_sizes(m, expr->b);
}

static void
add_meeting(const RoleCases *c, Meeting *m, const TirVal *value)
{
    enum { MOST_STEPS = 256 };
    const TirOp *def = value->def, *owner = def == NULL ? value->block->owner : NULL;

    if (m->steps++ >= MOST_STEPS)
        return;
    if (owner != NULL && owner->op == TIR_FOR && value->index == 0) {
        add_meeting(c, m, owner->args[0]);
        add_meeting(c, m, owner->args[1]);
    }
    if (def == NULL)
        return;
    switch (def->op) {
    case TIR_CONST:
        m->far = m->far || def->integer >= FAR_TILES * c->largest ||
                 def->integer <= -FAR_TILES * c->largest;
        return;
    case TIR_SIZE: m->sizes[def->integer] = true; return;
    case TIR_GRID:
    case TIR_GRID_FIRST: add_host_sizes(m, c->fn->grid.at[def->integer].extent); return;
    case TIR_MUL:
    case TIR_DIV:
        if (!is_constant(def->args[0]) && !is_constant(def->args[1]))
            return; /* as numbers of heads in a group: nothing that is compared */
        break;
    case TIR_LOAD: return;
    default: break;
    }
    for (uint32_t k = 0; k < def->n_args && def->n_blocks == 0; k++)
        add_meeting(c, m, def->args[k]);
}

/* Finds the sizes that meet far constants where ways are decided: these have launches behind
 * them. */
static void
find_far_sizes(RoleCases *c, const WalkProgram *const *programs, uint32_t n, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        Meeting m = {0};
        if (op->n_results != 1 || op->n_blocks > 0 || !is_decider(programs, n, op->results[0]))
            continue;
        m.sizes = arena_array(c->arena, bool, c->fn->sizes.n + 1);
        add_meeting(c, &m, op->results[0]);
        for (uint32_t k = 0; k < c->fn->sizes.n && m.far; k++)
            c->size_is_far[k] |= m.sizes[k];
    }
}

/* Runs the roles with constants between which there are few tiles, but `trips` and more, where
 * there are many between those of the program. */
static void
bring_near(RoleCases *c, uint32_t trips)
{
    int64_t common = 1, before = 0, shift = 0;
    uint32_t n = 0;

    for (uint32_t k = 0; k < c->units.n; k++) {
        int64_t more = common;
        while (more % c->units.at[k] != 0 && more <= MOST_COMMON)
            more += common;
        common = more <= MOST_COMMON ? more : common;
    }
    for (uint32_t k = 0; k < c->far.n; k++) {
        int64_t of = c->far.at[k], gap = of - before - trips * c->largest;
        if (gap >= common && !has_value(&c->bits, of))
            shift += gap / common * common;
        before = of;
        if (has_value(&c->bits, of))
            continue;
        c->far.at[n++] = of - shift;
        if (shift == 0)
            continue;
        vec_push(c->arena, &c->constants, ((WalkConstant){of, of - shift}));
        vec_push(c->arena, &c->constants, ((WalkConstant){-of, shift - of}));
    }
    c->far.n = n;
}

/* ---- values ---- */

/* The size that an extent counts tiles of, and their extent. */
static bool
counts_tiles(const HostExpr *extent, uint32_t size, int64_t *unit)
{
    *unit = 1;
    if (extent->kind == HOST_CDIV && extent->b->kind == HOST_INT) {
        *unit = extent->b->integer;
        extent = extent->a;
    }
    return extent->kind == HOST_SIZE && extent->index == size;
}

/* How far the tiles of a block's first and last consumer are apart, or of a pair's. */
static int64_t
span_of_consumers(const RoleCases *c)
{
    const TirGridAxis *axis = tir_consumer_axis(c->fn);
    int64_t unit = 0, programs = tir_consumers(c->fn->plan);

    for (uint32_t k = 0; k < c->fn->sizes.n && axis != NULL; k++)
        if (counts_tiles(axis->extent, k, &unit))
            return unit * (programs * (tir_is_clustered(c->fn->plan) ? 2 : 1) - 1);
    return 0;
}

/* A far constant has a launch behind it, of a tile of each consumer. */
static void
add_trips(RoleCases *c, Values *values, int64_t unit, uint32_t trips, bool is_far)
{
    int64_t last = (FAR_TILES - 1) * c->largest, span = is_far ? span_of_consumers(c) : 0;

    add_value(c, values, 0);
    add_value(c, values, 1);
    for (int64_t k = 1; k <= trips; k++)
        add_value(c, values, k * unit - (k % 2 == 1 ? unit / 2 : 0));
    for (uint32_t k = 0; k < c->trips.n && trips > 0 && unit > MOST_CONSUMERS; k++)
        if (c->trips.at[k] > trips && c->trips.at[k] < MOST_TRIPS)
            add_value(c, values, (c->trips.at[k] + 1) * unit);
    for (uint32_t k = 0; k < c->far.n && is_far; k++) {
        if (c->far.at[k] < last + c->largest || /* no tile from the one before */
            c->far.at[k] > LARGEST_SIZE)
            continue;
        last = c->far.at[k];
        add_value(c, values, last);
        add_value(c, values, last + unit + 1 + span);
    }
}

/* Blocks of the consumer axis: part of one, one, two and three. */
static void
add_blocks(RoleCases *c, Values *values, int64_t unit)
{
    int64_t consumers = tir_consumers(c->fn->plan);

    add_value(c, values, 1);
    add_value(c, values, unit * consumers - unit / 2);
    add_value(c, values, unit * consumers + 1);
    add_value(c, values, unit * 2 * consumers + unit + 1);
    add_value(c, values, unit * 3 * consumers);
    for (int64_t left = 0;
         left < 2 && (tir_multiplies_in_pairs(c->fn->plan) || tir_adds_in_pairs(c->fn->plan));
         left++)
        add_value(c, values,
                  unit * (2 * consumers - left)); /* a pair, whole and without its last program */
}

/* Whether there are no programs where a size is 0, by one extent of the grid. */
static bool
empties(const HostExpr *extent, uint32_t size)
{
    if (extent->kind == HOST_MUL)
        return empties(extent->a, size) || empties(extent->b, size);
    if (extent->kind == HOST_CDIV || extent->kind == HOST_DIV)
        return empties(extent->a, size);
    return extent->kind == HOST_SIZE && extent->index == size;
}

/* Launches without programs show nothing, and take the place of others. */
static void
drop_empty(const RoleCases *c, uint32_t size, Values *values)
{
    bool none = false;

    for (uint32_t k = 0; k < c->fn->grid.n; k++)
        none = none || empties(c->fn->grid.at[k].extent, size);
    if (!none || values->n < 2 || values->at[0] != 0)
        return;
    values->n--;
    memmove(values->at, values->at + 1, values->n * sizeof *values->at);
}

static bool
asks_scalar(const HostExpr *expr, uint32_t scalar)
{
    return expr != NULL && ((expr->kind == HOST_SCALAR && expr->index == scalar) ||
                            asks_scalar(expr->a, scalar) || asks_scalar(expr->b, scalar));
}

/* Whether a parameter says how often loops go around, and has nothing to do with tiles. */
static bool
scalar_counts(const RoleCases *c, uint32_t scalar)
{
    bool place = c->scalar_is_place[scalar];

    for (uint32_t k = 0; k < c->fn->grid.n; k++)
        place = place || asks_scalar(c->fn->grid.at[k].extent, scalar);
    for (uint32_t k = 0; k < c->fn->requires.n; k++)
        place = place || asks_scalar(c->fn->requires.at[k].condition, scalar);
    return !place;
}

static void
make_variables(RoleCases *c, uint32_t trips)
{
    const TirFn *fn = c->fn;

    for (uint32_t k = 0; k < fn->sizes.n; k++) { /* of what nothing divides, the grid has tiles */
        int64_t unit;
        for (uint32_t g = 0; g < fn->grid.n && c->size_decides[k] && c->unit[k] == 0; g++)
            if (counts_tiles(fn->grid.at[g].extent, k, &unit))
                c->unit[k] = unit;
    }
    for (uint32_t k = 0; k < fn->sizes.n; k++)
        divide_size(c, c->size_decides[k] ? fn->sizes.at[k].value : NULL,
                    c->unit[k] == 0 ? 1 : c->unit[k]);
    for (uint32_t k = 0; k < fn->sizes.n; k++) {
        Values values = {0};
        int64_t unit;
        const TirGridAxis *axis = tir_consumer_axis(fn);
        bool of_axis = axis != NULL && counts_tiles(axis->extent, k, &unit);
        if (of_axis)
            add_blocks(c, &values, unit);
        if (c->size_decides[k] &&
            fn->sizes.at[k].value == NULL) /* along the axis, consumers have trips enough */
            add_trips(c, &values, c->unit[k] == 0 ? 1 : c->unit[k], of_axis ? 0 : trips,
                      c->size_is_far[k]);
        if (c->size_decides[k] && of_axis &&
            c->unit[k] > 0) /* as far as others go, where they are compared */
            add_value(c, &values, trips * c->largest);
        drop_empty(c, k, &values);
        if (values.n > 0)
            vec_push(c->arena, &c->variables, ((Variable){OF_SIZE, k, values, 0}));
    }
    for (uint32_t k = 0; k < fn->scalars.n; k++) {
        Values values = {0};
        if (!c->scalar_decides[k] || fn->scalars.at[k].dtype != DT_I32)
            continue;
        add_value(c, &values, 0);
        add_value(c, &values, 1);
        add_value(c, &values, scalar_counts(c, k) ? 2 : c->largest + 1);
        add_value(c, &values, scalar_counts(c, k) ? trips + 1 : 4 * c->largest);
        vec_push(c->arena, &c->variables, ((Variable){OF_SCALAR, k, values, 0}));
    }
    Values data = {0};
    for (int64_t k = 0; k < DATA_SETS && c->data_decides; k++)
        add_value(c, &data, k);
    if (c->data_decides)
        vec_push(c->arena, &c->variables, ((Variable){OF_DATA, 0, data, 0}));
    c->most_data = c->data_is_place ? trips * c->largest : trips + 1;
}

/* ---- launches ---- */

/* On to the next combination of the variables' values; of too many a sample, from the last one on
 * in steps that lead to each. */
static bool
advance(RoleCases *c)
{
    uint64_t all = 1;

    for (uint32_t k = 0; k < c->variables.n; k++)
        all *= c->variables.at[k].values.n;
    uint32_t most = c->data_decides ? MOST_WITH_DATA : MOST_LAUNCHES;
    bool whole = all <= most;
    if (!c->started) {
        c->left = whole ? all : most;
        c->next = whole ? 0 : c->next > 0 ? c->next : all - 1; /* where another round ended */
    }
    c->started = c->left > 0;
    if (!c->started)
        return false;
    uint64_t rest = c->next;
    for (uint32_t k = 0; k < c->variables.n; k++) {
        Variable *variable = &c->variables.at[k];
        variable->at = (uint32_t)(rest % variable->values.n);
        rest /= variable->values.n;
    }
    c->next = (c->next + (whole ? 1 : LAUNCH_STEP)) % all;
    c->left--;
    return true;
}

static int64_t
mixed(uint64_t n)
{
    return (int64_t)(n * 2654435761u >> 16 & INT32_MAX);
}

static bool
keeps_requires(const RoleCases *c)
{
    for (uint32_t k = 0; k < c->fn->requires.n; k++) {
        Scalar holds = walk_host(c->fn->requires.at[k].condition, c->sizes, c->scalars);
        if (holds.known && holds.value == 0)
            return false;
    }
    return true;
}

/* Whether a launch has two tiles along axes whose sizes decide nothing: a copy may be of the wrong
 * one.  That of the largest values has, and some of the others. */
static bool
is_wide(const RoleCases *c)
{
    enum { EVERY = 8 };
    bool last = true;

    for (uint32_t k = 0; k < c->variables.n; k++)
        last = last && c->variables.at[k].at + 1 == c->variables.at[k].values.n;
    return last || mixed(c->launch) % EVERY == 0;
}

static const int64_t tries[] = {2, 1, 4, 8, 16, 64, 128, 256, 1024}; /* of what decides nothing */
enum { TRIES = sizeof tries / sizeof tries[0] };

/* Gives the launch its numbers: those of the variables, `rest` or, where it is to be wide, two
 * tiles for other sizes, and what follows from others.  Whether the kernel allows them. */
static bool
set_numbers(RoleCases *c, int64_t rest, bool wide)
{
    for (uint32_t k = 0; k < c->fn->sizes.n; k++)
        c->sizes[k] = wide && c->wide[k] > 0 ? c->wide[k] : rest;
    for (uint32_t k = 0; k < c->variables.n; k++) {
        const Variable *variable = &c->variables.at[k];
        int64_t value = variable->values.at[variable->at];
        int64_t unit = variable->kind == OF_SIZE ? c->unit[variable->index] : 0;
        if (c->other_rests && value >= unit && unit > MOST_CONSUMERS)
            value -= mixed(c->launch + k) % unit;
        if (variable->kind == OF_SCALAR)
            c->scalars[variable->index] = (Scalar){value, true};
        else
            *(variable->kind == OF_DATA ? &c->data : &c->sizes[variable->index]) = value;
    }
    for (uint32_t k = 0; k < c->fn->sizes.n; k++) {
        const HostExpr *expr = c->fn->sizes.at[k].value;
        Scalar follows = expr == NULL ? (Scalar){0} : walk_host(expr, c->sizes, c->scalars);
        c->sizes[k] = follows.known ? follows.value : c->sizes[k];
    }
    return c->lawless || keeps_requires(c);
}

bool
role_cases_next(RoleCases *c, WalkSetting *setting, bool other_rests)
{
    c->other_rests = other_rests;
    while (!(other_rests && c->data_decides) && advance(c)) {
        c->launch++;
        bool found = false;
        for (int wide = c->chosen && is_wide(c); wide >= 0 && !found; wide--)
            for (uint32_t t = 0; t <= (c->chosen ? TRIES : 0) && !found; t++)
                found = set_numbers(c, t == 0 ? c->rest : tries[t - 1], wide == 1);
        if (!found)
            continue;
        setting->sizes = c->sizes;
        setting->scalars = c->scalars;
        setting->data = c->data;
        setting->most_data = c->most_data;
        setting->constants = c->constants.at;
        setting->n_constants = c->constants.n;
        setting->launch++;
        return true;
    }
    return false;
}

/* Whether a launch has programs: an axis may count parts of a size, as groups of heads. */
static bool
has_programs(const RoleCases *c)
{
    for (uint32_t k = 0; k < c->fn->grid.n; k++) {
        Scalar n = walk_host(c->fn->grid.at[k].extent, c->sizes, c->scalars);
        if (!n.known || n.value <= 0)
            return false;
    }
    return true;
}

/* Gives the sizes that do not matter a value with which some launch meets the kernel's `require`
 * lines and has programs; if there is no such value, one with which it meets the `require`
 * lines. */
static void
choose_rest(RoleCases *c)
{
    WalkSetting setting;

    for (uint32_t t = 0; t < 2 * TRIES; t++) {
        c->rest = tries[t % TRIES];
        while (role_cases_next(c, &setting, false)) {
            if (t < TRIES && !has_programs(c))
                continue;
            c->started = false;
            return;
        }
    }
    c->lawless = true;
}

/* Finds the sizes that have one value, less than a tile of the grid: now and then two tiles. */
static void
find_wide(RoleCases *c)
{
    for (uint32_t k = 0; k < c->fn->sizes.n; k++) {
        bool varies = false;
        int64_t unit;
        for (uint32_t v = 0; v < c->variables.n; v++)
            varies = varies ||
                     (c->variables.at[v].kind == OF_SIZE && c->variables.at[v].index == k);
        for (uint32_t g = 0; g < c->fn->grid.n && !varies; g++) {
            if (counts_tiles(c->fn->grid.at[g].extent, k, &unit) && unit >= c->rest)
                c->wide[k] = unit + (unit + 1) / 2;
        }
    }
    c->chosen = true;
    c->launch = c->next = 0;
}

RoleCases *
role_cases(Arena *arena, const TirFn *fn, const WalkProgram *const *programs, uint32_t n_programs,
           uint32_t trips, bool as_written)
{
    RoleCases *c = arena_new(arena, RoleCases);

    *c = (RoleCases){.arena = arena,
                     .fn = fn,
                     .sizes = arena_array(arena, int64_t, fn->sizes.n + 1),
                     .scalars = arena_array(arena, Scalar, fn->scalars.n + 1),
                     .unit = arena_array(arena, int64_t, fn->sizes.n + 1),
                     .wide = arena_array(arena, int64_t, fn->sizes.n + 1),
                     .size_decides = arena_array(arena, bool, fn->sizes.n + 1),
                     .size_is_far = arena_array(arena, bool, fn->sizes.n + 1),
                     .scalar_decides = arena_array(arena, bool, fn->scalars.n + 1),
                     .scalar_is_place = arena_array(arena, bool, fn->scalars.n + 1),
                     .largest = 1};
    look_at(c, programs, n_programs, tir_program(fn->plan, ROLE_PRODUCER));
    look_at(c, programs, n_programs, fn->body);
    find_far_sizes(c, programs, n_programs, tir_program(fn->plan, ROLE_PRODUCER));
    find_far_sizes(c, programs, n_programs, fn->body);
    if (!as_written)
        bring_near(c, trips);
    for (uint32_t k = 0; k < fn->scalars.n; k++)
        c->scalars[k] = (Scalar){1, fn->scalars.at[k].dtype == DT_I32};
    make_variables(c, trips);
    choose_rest(c);
    find_wide(c);
    return c;
}
