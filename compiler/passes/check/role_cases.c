/* role_cases.c - small launches that take the roles of a kernel through all they can do.
 *
 * Only sizes and integer parameters that decide which way a role goes, or how far the consumer axis runs,
 * get several values.  Where a size is divided by a tile's extent it goes through that many tiles,
 * whole ones and parts in turn; constants larger than tiles, as windows are, have launches behind
 * them.  Numbers that are loaded and decide are drawn, some sets of them.  The rest has one value.  A launch must keep
 * what the kernel requires.
 */
#include "compiler/passes/check/role_cases.h"

#include <string.h>

#include "compiler/ir/isa.h"

enum { MOST_LAUNCHES = 400, LARGEST_SIZE = 1 << 20, DATA_SETS = 8 };

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
    bool data_decides; /* numbers that are loaded */
    int64_t largest;   /* unit */
    int64_t data, most_data;
    Values far;            /* constants larger than that */
    bool started, lawless; /* nothing keeps what the kernel requires: go on without */
};

/* Keeps the list in order, every value once. */
static void
add_value(RoleCases *c, Values *values, int64_t value)
{
    uint32_t at = 0;

    if (value < 0 || value > LARGEST_SIZE)
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

/* ---- what the programs say ---- */

/* Every size below `value` is divided by `unit`; not those that say where a number is loaded from. */
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

static void
look_at(RoleCases *c, const WalkProgram *const *programs, uint32_t n, const TirBlock *block)
{
    enum { DEEPEST = 12 };

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool decides = false;
        for (uint32_t k = 0; k < n && op->n_results == 1; k++)
            decides = decides || walk_is_decided_by(programs[k], op->results[0]);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            look_at(c, programs, n, op->blocks[k]);
        if (!decides)
            continue;
        if (op->op == TIR_SIZE)
            c->size_decides[op->integer] = true;
        if (op->op == TIR_PARAM)
            c->scalar_decides[op->integer] = true;
        c->data_decides |= op->op == TIR_LOAD;
        if (op->op == TIR_DIV && op->args[1]->def != NULL && op->args[1]->def->op == TIR_CONST) {
            int64_t unit = op->args[1]->def->integer;
            if (unit > MOST_CONSUMERS) { /* else it counts consumers */
                divide_below(c, op->args[0], unit, DEEPEST);
                c->largest = unit > c->largest ? unit : c->largest;
            }
        }
        if (op->op == TIR_CONST && op->results[0]->type.dtype == DT_I32) {
            int64_t constant = op->integer < 0 ? -op->integer : op->integer;
            add_value(c, &c->far, constant);
        }
    }
}

/* ---- values ---- */

static void
add_trips(RoleCases *c, Values *values, int64_t unit, uint32_t trips)
{
    int64_t last = 2 * c->largest;

    add_value(c, values, 0);
    add_value(c, values, 1);
    for (int64_t k = 1; k <= trips; k++)
        add_value(c, values, k * unit - (k % 2 == 1 ? unit / 2 : 0));
    for (uint32_t k = 0; k < c->far.n; k++) {
        if (c->far.at[k] < last + c->largest) /* no tile from the one before */
            continue;
        last = c->far.at[k];
        add_value(c, values, last);
        add_value(c, values, last + unit + 1);
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

/* Launches without programs show nothing, and take the place of others where numbers are drawn: there are many then. */
static void
drop_empty(const RoleCases *c, uint32_t size, Values *values)
{
    bool none = false;

    for (uint32_t k = 0; k < c->fn->grid.n && c->data_decides; k++)
        none = none || empties(c->fn->grid.at[k].extent, size);
    if (!none || values->n < 2 || values->at[0] != 0)
        return;
    values->n--;
    memmove(values->at, values->at + 1, values->n * sizeof *values->at);
}

static void
add_variable(RoleCases *c, int kind, uint32_t index, Values values)
{
    Variable variable = {.kind = kind, .index = index, .values = values};
    vec_push(c->arena, &c->variables, variable);
}

static void
make_variables(RoleCases *c, uint32_t trips)
{
    const TirFn *fn = c->fn;

    for (uint32_t k = 0; k < fn->sizes.n; k++) {
        Values values = {0};
        int64_t unit;
        bool of_axis = !tir_is_cooperative(fn->plan) &&
                       counts_tiles(fn->grid.at[fn->plan->tiles.axis].extent, k, &unit);
        if (of_axis)
            add_blocks(c, &values, unit);
        if (c->size_decides[k]) /* along the axis, consumers have trips enough */
            add_trips(c, &values, c->unit[k] == 0 ? 1 : c->unit[k], of_axis ? 0 : trips);
        drop_empty(c, k, &values);
        if (values.n > 0)
            add_variable(c, OF_SIZE, k, values);
    }
    for (uint32_t k = 0; k < fn->scalars.n; k++) {
        Values values = {0};
        if (!c->scalar_decides[k] || fn->scalars.at[k].dtype != DT_I32)
            continue;
        add_value(c, &values, 0);
        add_value(c, &values, 1);
        add_value(c, &values, c->largest + 1);
        add_value(c, &values, 4 * c->largest);
        add_variable(c, OF_SCALAR, k, values);
    }
    Values data = {0};
    for (int64_t k = 0; k < DATA_SETS && c->data_decides; k++)
        add_value(c, &data, k);
    if (c->data_decides)
        add_variable(c, OF_DATA, 0, data);
    c->most_data = trips * c->largest;
}

/* Drops every second value of the longest list until there are few enough launches. */
static void
thin_out(RoleCases *c)
{
    for (;;) {
        uint64_t launches = 1;
        Variable *longest = NULL;
        for (uint32_t k = 0; k < c->variables.n; k++) {
            Variable *variable = &c->variables.at[k];
            launches *= variable->values.n;
            if (longest == NULL || variable->values.n > longest->values.n)
                longest = variable;
        }
        if (launches <= MOST_LAUNCHES || longest->values.n <= 2)
            return;
        uint32_t n = 0;
        for (uint32_t k = 0; k < longest->values.n; k++) {
            if (k % 2 == 0 || k + 1 == longest->values.n)
                longest->values.at[n++] = longest->values.at[k];
        }
        longest->values.n = n;
    }
}

/* ---- launches ---- */

static bool
advance(RoleCases *c)
{
    if (!c->started) {
        c->started = true;
        for (uint32_t k = 0; k < c->variables.n; k++)
            c->variables.at[k].at = 0;
        return true;
    }
    for (uint32_t k = 0; k < c->variables.n; k++) {
        Variable *variable = &c->variables.at[k];
        if (++variable->at < variable->values.n)
            return true;
        variable->at = 0;
    }
    c->started = false;
    return false;
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

bool
role_cases_next(RoleCases *c, WalkSetting *setting)
{
    while (advance(c)) {
        for (uint32_t k = 0; k < c->variables.n; k++) {
            const Variable *variable = &c->variables.at[k];
            int64_t value = variable->values.at[variable->at];
            if (variable->kind == OF_SCALAR)
                c->scalars[variable->index] = (Scalar){value, true};
            else if (variable->kind == OF_DATA)
                c->data = value;
            else
                c->sizes[variable->index] = value;
        }
        if (!c->lawless && !keeps_requires(c))
            continue;
        setting->sizes = c->sizes;
        setting->scalars = c->scalars;
        setting->data = c->data;
        setting->most_data = c->most_data;
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

/* Gives the sizes that do not matter a value with which some launch meets the kernel's `require` lines and has programs;
 * if there is no such value, one with which it meets the `require` lines. */
static void
choose_rest(RoleCases *c)
{
    static const int64_t tries[] = {2, 1, 4, 8, 16, 64, 128, 256};
    enum { TRIES = sizeof tries / sizeof tries[0] };
    WalkSetting setting;

    for (uint32_t t = 0; t < 2 * TRIES; t++) {
        for (uint32_t k = 0; k < c->fn->sizes.n; k++)
            c->sizes[k] = tries[t % TRIES];
        while (role_cases_next(c, &setting)) {
            if (t < TRIES && !has_programs(c))
                continue;
            c->started = false;
            return;
        }
    }
    c->lawless = true;
}

RoleCases *
role_cases(Arena *arena, const TirFn *fn, const WalkProgram *const *programs, uint32_t n_programs,
           uint32_t trips)
{
    RoleCases *c = arena_new(arena, RoleCases);

    *c = (RoleCases){.arena = arena,
                     .fn = fn,
                     .sizes = arena_array(arena, int64_t, fn->sizes.n + 1),
                     .scalars = arena_array(arena, Scalar, fn->scalars.n + 1),
                     .unit = arena_array(arena, int64_t, fn->sizes.n + 1),
                     .size_decides = arena_array(arena, bool, fn->sizes.n + 1),
                     .scalar_decides = arena_array(arena, bool, fn->scalars.n + 1),
                     .largest = 1};
    look_at(c, programs, n_programs, tir_program(fn->plan, ROLE_PRODUCER));
    look_at(c, programs, n_programs, fn->body);
    for (uint32_t k = 0; k < fn->scalars.n; k++)
        c->scalars[k] = (Scalar){1, fn->scalars.at[k].dtype == DT_I32};
    make_variables(c, trips);
    thin_out(c);
    choose_rest(c);
    return c;
}
