/* check_roles.c - proves that warp groups with different roles neither race nor wait for ever.
 *
 *   level    tile IR, all fields filled in, with a plan
 *   does     runs the roles over small launches (role_cases.c): every number of
 *            iterations from none to one that takes each pipeline around several times, for each
 *            consumer that can have its own, and tile after tile when blocks are persistent
 *   leaves   nothing changed.  What is wrong is a fault of ours and goes to px->bugs, with the
 *            launch, the operation and what the roles had done
 *
 * What is proved of a launch, and why that is enough.
 *
 * 1. Each role by itself (check_consumer.c): a stage is read between its wait and its release, a
 *    release follows the mma_wait for every product that reads the stage, nothing of a product
 *    still running is looked at or overwritten.  A copy begins when all readers have released the
 *    stage - that is what tma_load waits for - so with this no order of events lets it run into a
 *    reader.  Releases and waits of a consumer alternate, and a wait lets it pass only when the
 *    stage is full; so a consumer arrives once at each phase of a barrier, and phases never lap
 *    each other.
 * 2. Counts: in every tile each consumer waits for as many stages of each pipeline as are filled,
 *    and releases as many.  So a tile leaves the pipelines as it found them.  A reduce warp adds as
 *    many tiles as its consumer leaves in the staging buffer.
 * 3. Contents: the n-th stage of a pipeline that a consumer reads holds what the kernel, before it
 *    was parted, has the consumer load at that place (roles_stagger.c: at another, one for all
 *    pipelines): same coordinates.
 * 4. No dead end.  A role's steps do not depend on time, only on sizes; a step that can be taken
 *    stays so until its role takes it, because what it needs - filled stages, released stages, the
 *    only turn there is, the others at a barrier - is taken away by nobody else; and two steps of
 *    different roles can be taken in either order with the same outcome.  So all orders that go on
 *    as long as they can end alike, and one of them is run, here round by round.  (The argument is
 *    that for Kahn networks with bounded buffers.)
 *
 * Runs that go the same way are looked at once.
 */
#include "compiler/passes/check/check_roles.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/passes/check/role_cases.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/place/place_sync.h"
#include "compiler/passes/util/iterations.h"
#include "compiler/passes/util/unread.h"

enum {
    MOST_BLOCKS = 100000, /* runs of blocks in one role's run */
    ALL_BLOCKS = 1000000, /* .. and in all */
    HISTORY = 10          /* events shown with a fault */
};

typedef VEC(RoleRun *) RoleRuns;

/* A run that is known for the launch at hand, by the indices of the grid that decide its way. */
typedef struct LaunchRun {
    int64_t grid[WALK_AXES];
    RoleRun *run;
} LaunchRun;

typedef struct Order {
    /* which of the tiles that a consumer is to load it reads first, second, .. */
    uint32_t n, *read;
} Order;

typedef struct Checker {
    PassContext *px;
    Arena *arena;
    TirFn *fn;
    uint32_t consumers, roles;                   /* in a block */
    RoleKind kind[BLOCK_ROLES];                  /* of these */
    uint32_t consumer[BLOCK_ROLES];              /* role_consumer */
    uint32_t number[ROLE_KINDS][MOST_CONSUMERS]; /* role_number */
    const ConsumerFacts *facts;
    WalkProgram *way[ROLE_KINDS], *full[ROLE_KINDS];
    WalkProgram *brief;                 /* of a consumer, what it does to others */
    WalkProgram *copies, *loads;        /* of the producer, of the kernel before it was parted */
    Places *filled, *wanted, *of_first; /* of the tile at hand; by a pair's first block */
    bool axis_decides[ROLE_KINDS][WALK_AXES];
    WalkSetting setting;
    Scalar *values;
    uint32_t choices;
    bool chose, staggered; /* some way depended on data; programs begin the main loop apart */
    bool pairs;            /* tir_multiplies_in_pairs */
    RoleRuns known[ROLE_KINDS];
    VEC(LaunchRun) here[ROLE_KINDS];
    VEC(TileRun *) tiles;
    VEC(Sequence) sequences;     /* of the first ones of classes */
    Columns *columns[PAIR];      /* NULL: no role issues products of others */
    uint32_t stages, most_trips; /* of the deepest pipeline; of a loop */
    int64_t step, *own; /* consumers' step; their index in `setting`, NULL: they divide tiles */
    int64_t counts[WALK_AXES]; /* blocks along each axis of the grid */
    int64_t consumer_indices;  /* along the consumer axis */
    int64_t tile_index[WALK_AXES];
    bool again, failed; /* its contents have been compared in this launch */
    uint32_t rank;      /* of the block in its pair */
    uint32_t blocks;    /* how many runs of blocks are left */
    uint32_t given_up;  /* launches that were too long to judge */
} Checker;

/* ---- saying what is wrong ---- */

static void
say_op(Checker *c, const TirOp *op)
{
    Buf *out = c->px->bugs;
    SourcePlace place = diag_place(c->px->diag, op->span.lo);

    if (place.file != NULL)
        buf_printf(out, "        %s:%u:%u: ", place.file->path, place.line, place.column);
    else
        buf_add(out, "        ");
    tir_print_op(c->fn, op, out);
    buf_char(out, '\n');
}

/* Nothing is proved of the kernel: an error or a warning, as was asked for. */
static void
say_unproved(const PassContext *px, const TirFn *fn, const char *why)
{
    if (px->unproved == UNPROVED_ERROR)
        diag_error(
            px->diag, fn->span,
            "E-UNPROVED: kernel '%s': check-roles can prove nothing of its warp groups: %s; take another plan, or "
            "-Wno-error=unproved [-Werror=unproved]",
            fn->name, why);
    else if (px->unproved == UNPROVED_WARNING)
        diag_warning(
            px->diag, fn->span,
            "kernel '%s': check-roles can prove nothing of its warp groups: %s [-Wunproved]",
            fn->name, why);
}

/* `role`: see Together. */
static const char *
role_name(Checker *c, uint32_t role)
{
    static const char *const names[] = {"the producer", "consumer ", "the reduce warp of consumer ",
                                        "the mma role", "the correction role"};
    uint32_t own = role % c->roles, kind = c->kind[own];
    bool several = kind == ROLE_CONSUMER || kind == ROLE_REDUCE;
    const char *number = several ? arena_printf(c->arena, "%u", role_consumer(c->fn, own)) : "";

    return arena_printf(c->arena, "%s%s%s", names[kind], number,
                        role < c->roles ? "" : " of the pair's second block");
}

static void
say_way(Checker *c, const RoleRun *run)
{
    bool first = true;

    for (uint32_t k = 0; run != NULL && k < run->way.n; k++) {
        if (run->way.at[k] < 0)
            continue;
        buf_printf(c->px->bugs, "%s%d", first ? " " : ", ", (int)run->way.at[k]);
        first = false;
    }
    if (first)
        buf_add(c->px->bugs, " -");
}

static void begin_fault(Checker *c, const TileRun *tile, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The headline, then the launch. */
static void
begin_fault(Checker *c, const TileRun *tile, const char *format, ...)
{
    char text[400];
    Buf *out = c->px->bugs;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->failed = true;
    buf_printf(out, "check-roles: kernel '%s': %s\n    launch: ", c->fn->name, text);
    walk_print_launch(c->fn, c->setting.sizes, c->setting.scalars, out);
    buf_add(out, "; tile");
    walk_print_tile(c->fn, c->tile_index, out);
    buf_char(out, '\n');
    if (tile == NULL)
        return;
    buf_add(out, "    iterations of the loops:");
    for (uint32_t role = 0; role < c->roles; role++) {
        buf_printf(out, "%s%s", role == 0 ? " " : "; ", role_name(c, role));
        say_way(c, tile->role[role]);
    }
    buf_char(out, '\n');
}

static void
say_history(Checker *c, uint32_t role, const RoleEvents *events)
{
    uint32_t first = events->n > HISTORY ? events->n - HISTORY : 0;

    buf_printf(c->px->bugs, "    %s had done%s:\n", role_name(c, role),
               events->n == 0 ? " nothing to others"
               : first > 0    ? ", last"
                              : "");
    for (uint32_t i = first; i < events->n; i++)
        say_op(c, events->at[i]);
}

/* Where something is wrong, another operation that it involves or NULL, what the role had done. */
static void
say_place_of(Checker *c, uint32_t role, const TirOp *op, const TirOp *other, RoleEvents done)
{
    say_op(c, op);
    if (other != NULL) {
        buf_add(c->px->bugs, "    about\n");
        say_op(c, other);
    }
    say_history(c, role, &done);
}

/* ---- one role ---- */

static void
set_place(Checker *c, uint32_t role)
{
    if (c->own != NULL) /* roles for all have the first consumer's */
        *c->own = role > 0 || c->step > 1 ? c->setting.first + c->step * c->consumer[role]
                                          : c->tile_index[c->fn->plan->tiles.axis];
    c->setting.consumer = c->consumer[role];
}

static Walk
begin_walk(Checker *c)
{
    return (Walk){.setting = &c->setting,
                  .values = c->values,
                  .choices = c->choices,
                  .blocks = c->blocks < MOST_BLOCKS ? c->blocks : MOST_BLOCKS,
                  .arena = c->arena};
}

/* The first known run of a role of this class. */
static void
find_alike(Checker *c, RoleKind kind, RoleRun *run)
{
    role_run_class(c->arena, c->stages, run);
    for (uint32_t i = 0; i < c->known[kind].n && run->alike == NULL; i++) {
        if (walk_same_way(&run->class, &c->known[kind].at[i]->class))
            run->alike = c->known[kind].at[i]->alike;
    }
}

/* Checks a way that is new; a consumer's rules are checked only if no way of the same class was.
 * False after a fault, and when the run is too long. */
static bool
judge_run(Checker *c, uint32_t role, RoleRun *run)
{
    Walk walk = begin_walk(c);
    RoleKind kind = c->kind[role];
    RoleFault fault = {0};
    bool good;

    find_alike(c, kind, run);
    if (kind != ROLE_CONSUMER || run->alike != NULL)
        good = list_role_events(c->arena, c->fn, kind, &walk,
                                kind == ROLE_CONSUMER ? c->brief : c->full[kind], run, &fault);
    else
        good = check_consumer(c->facts, &walk, c->full[kind], &run->events, &fault);

    if (run->alike == NULL)
        run->alike = run;
    if (good) {
        sort_role_events(c->arena, c->fn, tir_serves_all(kind), run);
        return true;
    }
    if (fault.text == NULL) { /* too long a run */
        c->given_up++;
        return false;
    }
    begin_fault(c, NULL, "%s: %s", role_name(c, role), fault.text);
    buf_add(c->px->bugs, "    iterations of its loops:");
    say_way(c, run);
    buf_add(c->px->bugs, "\n    at\n");
    say_place_of(c, role, fault.op, fault.other, run->events);
    return false;
}

static bool
same_start(const Checker *c, const LaunchRun *known, RoleKind kind)
{
    bool same = true;

    for (uint32_t k = 0; k < c->fn->grid.n && same; k++)
        same = !c->axis_decides[kind][k] || known->grid[k] == c->setting.grid[k];
    return same;
}

/* What a role does in the current tile; NULL: too long to judge, or after a fault. */
static RoleRun *
run_role(Checker *c, uint32_t role)
{
    RoleKind kind = c->kind[role];
    WalkWay way = {0};

    set_place(c, role);
    for (uint32_t i = 0; i < c->here[kind].n; i++)
        if (same_start(c, &c->here[kind].at[i], kind))
            return c->here[kind].at[i].run;
    Walk walk = begin_walk(c);
    walk.way = &way;
    uint32_t blocks = walk.blocks;
    bool whole = walk_run(&walk, c->way[kind]);
    c->blocks -= blocks - walk.blocks;
    if (!whole) {
        c->given_up++;
        return NULL;
    }
    c->chose = c->chose || walk.unknown > 0;
    RoleRun *run = NULL;
    for (uint32_t i = 0; i < c->known[kind].n && run == NULL; i++)
        run = walk_same_way(&c->known[kind].at[i]->way, &way) ? c->known[kind].at[i] : NULL;
    if (run == NULL) {
        run = arena_new(c->arena, RoleRun);
        run->way = way;
        if (!judge_run(c, role, run))
            return NULL;
        for (uint32_t k = 0; kind == ROLE_PRODUCER && k < way.n; k++)
            c->most_trips = way.at[k] > (int32_t)c->most_trips ? (uint32_t)way.at[k]
                                                               : c->most_trips;
        vec_push(c->arena, &c->known[kind], run);
    }
    LaunchRun here = {.run = run};
    memcpy(here.grid, c->setting.grid, sizeof here.grid);
    vec_push(c->arena, &c->here[kind], here);
    return run;
}

/* ---- one tile: counts and contents ---- */

/* What consumers leave in a staging buffer is added to memory. */
static bool
check_added(Checker *c, const TileRun *tile, const TirShared *staging)
{
    for (uint32_t role = 1; tir_program(c->fn->plan, ROLE_REDUCE) != NULL && role <= c->consumers;
         role++) {
        uint32_t left = tile->role[role]->counts[role_slot(staging, false, 0)];
        uint32_t added = tile->role[c->consumers + role]->counts[role_slot(staging, false, 0)];
        if (left == added)
            continue;
        begin_fault(c, tile, "in a tile %s leaves %u tiles in %s, but %s adds %u",
                    role_name(c, role), left, tir_buffer_name(c->arena, staging),
                    role_name(c, c->consumers + role), added);
        return false;
    }
    return true;
}

static bool
check_counts(Checker *c, const TileRun *tile)
{
    for (uint32_t k = 0; k < c->fn->shared.n; k++) {
        const TirShared *pipeline = c->fn->shared.at[k];
        if (pipeline->kind == SHARED_STAGING && !check_added(c, tile, pipeline))
            return false;
        for (uint32_t of = 0; tir_is_pipeline(pipeline) && of < c->consumers; of++) {
            uint32_t role = c->number[pipeline->to][of], by = c->number[pipeline->from][of];
            bool parts = tir_serves_all(c->kind[by]) || c->kind[by] == ROLE_PRODUCER;
            uint32_t filled = tile->role[by]->counts[role_slot(pipeline, parts, of)];
            uint32_t awaited = tile->role[role]
                                   ->counts[role_slot(pipeline, tir_serves_all(c->kind[role]), of)];
            if (filled == awaited)
                continue;
            begin_fault(c, tile, "in a tile %u stages of %s are filled, but %s waits for %u",
                        filled, tir_buffer_name(c->arena, pipeline), role_name(c, role), awaited);
            return false;
        }
    }
    return true;
}

/* The places of a program's copies or loads in the current tile, in `room`; NULL: too long. */
static Places *
collect_places(Checker *c, WalkProgram *program, uint32_t role, Places **room)
{
    Walk walk = begin_walk(c);

    set_place(c, role);
    return list_places(c->arena, c->fn, &walk, program, room) ? *room : NULL;
}

/* Checks that nobody reads a stage to which nothing is copied in this tile. */
static bool
check_unread(Checker *c, const TileRun *tile, uint32_t role, const TirShared *pipeline,
             const Places *filled)
{
    const TirOp *reader = NULL, *empty = NULL;

    for (uint32_t i = 0; i < filled->n && empty == NULL; i++)
        empty = filled->at[i].empty ? filled->at[i].of->op : NULL;
    if (empty == NULL)
        return true;
    Walk walk = begin_walk(c);
    set_place(c, role);
    bool whole = find_reader(&walk, c->full[c->kind[role]], pipeline, &reader);
    if (reader == NULL)
        return whole;
    begin_fault(c, tile, "%s reads a stage of %s to which nothing is copied", role_name(c, role),
                tir_buffer_name(c->arena, pipeline));
    say_op(c, empty);
    say_op(c, reader);
    return false;
}

/* Checks that one consumer reads from one pipeline what the kernel has it load, in this order.
 * With staggered starts the order differs, but must be the same for all pipelines with equally many
 * tiles: `order`, which the first of them sets. */
static bool
check_pipeline(Checker *c, const TileRun *tile, uint32_t consumer, const TirShared *pipeline,
               const Places *filled, const Places *wanted, Order *order)
{
    uint32_t role = c->number[pipeline->to][consumer];
    uint32_t own = tir_serves_all(c->kind[role]) ? consumer : 0;
    const RoleEvents *stages = &tile->role[role]->stages[pipeline->id * MOST_CONSUMERS + own];
    uint32_t issued = 0, reads = 0, *read = arena_array(c->arena, uint32_t, wanted->n + 1);
    bool *taken = arena_array(c->arena, bool, wanted->n + 1);
    bool staggered = c->staggered, issues = c->kind[role] == ROLE_MMA;
    int64_t unread = wanted->n;

    for (uint32_t i = 0; i < stages->n && issues; i++)
        unread -= stages->at[i] != NULL && stages->at[i]->op == TIR_TMEM_MMA;
    for (uint32_t i = 0; i < stages->n && i < filled->n; i++) {
        if (stages->at[i] == NULL)
            continue;
        /* no product reads it: it is another consumer's, or for a loop without an iteration */
        bool idle = issues & (stages->at[i]->op != TIR_TMEM_MMA);
        if (idle & (unread <= 0))
            continue;
        /* the other block's program has the iteration, this one looks at no result of it */
        if (!idle && c->pairs && filled->at[i].of->op->parent->owner != NULL &&
            role_lets_pass(c->fn, tile->role[1 + consumer], issued++))
            continue;
        uint32_t k = staggered ? 0 : reads;
        while (staggered && k < wanted->n &&
               (taken[k] || !same_place(&wanted->at[k], &filled->at[i])))
            k++;
        if (k < wanted->n && same_place(&wanted->at[k], &filled->at[i])) {
            taken[k] = true;
            read[reads++] = k;
            unread -= idle;
            continue;
        }
        if (idle || c->fn->plan->wants_alike)
            continue; /* it takes part in what others have to do, which is nothing to it */
        begin_fault(c, tile, "stage %u of %s in a tile does not hold what %s reads it for", i + 1,
                    tir_buffer_name(c->arena, pipeline), role_name(c, role));
        print_place(c->px->bugs, "it holds", &filled->at[i]);
        say_op(c, filled->at[i].of->op);
        if (reads < wanted->n)
            print_place(c->px->bugs, "the consumer wants", &wanted->at[reads]);
        else
            buf_add(c->px->bugs, "    the consumer wants no more\n");
        say_op(c, stages->at[i]);
        return false;
    }
    if (order->read == NULL && reads > 1)
        *order = (Order){reads, read};
    bool alike = order->n != reads || reads == 0 ||
                 memcmp(read, order->read, reads * sizeof *read) == 0;
    if (reads == wanted->n && alike)
        return true;
    begin_fault(c, tile, "%s reads %u stages of %s in a tile%s %u", role_name(c, role), reads,
                tir_buffer_name(c->arena, pipeline),
                alike ? ", but should" : " in its own order, of", wanted->n);
    return false;
}

/* Blocks of a pair fill halves of the same tiles, whatever is wanted: `filled`, by the second. */
static bool
check_halves(Checker *c, const TileRun *tile, const Places *filled)
{
    uint32_t axis = c->fn->plan->tiles.axis;

    c->tile_index[axis]--;
    c->own = walk_set_tile(&c->setting, c->fn, c->tile_index, c->consumer_indices);
    const Places *first = collect_places(c, c->copies, 0, &c->of_first);
    c->tile_index[axis]++;
    c->own = walk_set_tile(&c->setting, c->fn, c->tile_index, c->consumer_indices);
    for (uint32_t k = 0; first != NULL && k < c->fn->shared.n; k++) {
        const TirShared *pipeline = c->fn->shared.at[k];
        const Places *a = &first[k * MOST_CONSUMERS], *b = &filled[k * MOST_CONSUMERS];
        uint32_t same = 0;
        if (!pipeline->halved)
            continue;
        while (same < a->n && same < b->n && same_place(&a->at[same], &b->at[same]))
            same++;
        if (same == a->n && same == b->n)
            continue;
        begin_fault(c, tile,
                    "the two blocks of a pair fill stage %u of %s with halves of different tiles",
                    same + 1, tir_buffer_name(c->arena, pipeline));
        for (uint32_t block = 0; block < PAIR; block++) {
            const Places *own = block == 0 ? a : b;
            if (same >= own->n)
                continue;
            print_place(c->px->bugs, block == 0 ? "the first one" : "the second one",
                        &own->at[same]);
            say_op(c, own->at[same].of->op);
        }
        return false;
    }
    return true;
}

/* Consumers outside of their axis have no results to check.  Of tiles whose roles go the same ways,
 * by existing consumers and the beginnings of axes, the first, second, fourth, .. are checked:
 * behind a window the same way has other places. */
static bool
check_contents(Checker *c, TileRun *tile)
{
    uint32_t there = c->consumers, place = 0;
    int64_t first = c->own != NULL ? c->setting.first : 0,
            left = c->own != NULL ? c->consumer_indices - first : there;
    uint32_t in_front = first < 0 ? (uint32_t)-first : 0;

    left = (left + c->step - 1) / c->step;
    there = left < 0 ? 0 : left < there ? (uint32_t)left : there; /* 0: a pair's second block */
    there -= in_front;
    for (uint32_t k = 0; k < c->fn->grid.n; k++)
        place |= (uint32_t)(c->tile_index[k] > 0) << k;
    place = PAIR * (place + (1u << WALK_AXES) * there) + c->rank;
    tile->seen[place] += !c->again;
    if (c->again || (tile->seen[place] & (tile->seen[place] - 1)) != 0)
        return true;
    Places *filled = collect_places(c, c->copies, 0, &c->filled);

    if (filled != NULL && c->rank > 0 && !check_halves(c, tile, filled))
        return false;
    for (uint32_t role = 1 + in_front; filled != NULL && role <= in_front + there; role++) {
        Places *wanted = c->loads == NULL ? NULL : collect_places(c, c->loads, role, &c->wanted);
        Order order = {0};
        for (uint32_t k = 0; k < c->fn->shared.n; k++) {
            const TirShared *pipeline = c->fn->shared.at[k];
            uint32_t at = k * MOST_CONSUMERS;
            const Places *own = &filled[at + (pipeline->each ? role - 1 : 0)];
            if (tir_is_pipeline(pipeline) && pipeline->kind != SHARED_TMEM &&
                (!check_unread(c, tile, c->number[pipeline->to][role - 1], pipeline, own) ||
                 (wanted != NULL &&
                  !check_pipeline(c, tile, role - 1, pipeline, own, &wanted[at], &order))))
                return false;
        }
    }
    return true;
}

/* Checks that consumers which meet at barriers go the same way: then what check_consumer.c proves
 * of one holds for all. */
static bool
check_alike(Checker *c, const TileRun *tile)
{
    const RoleEvents *events = &tile->role[1]->events;

    for (uint32_t role = 2; role <= c->consumers; role++) {
        if (tile->role[role] == tile->role[1])
            continue;
        for (uint32_t i = 0; i < events->n; i++) {
            if (events->at[i]->op != TIR_CONSUMER_BARRIER)
                continue;
            begin_fault(c, tile, "consumers that meet at barriers go different ways");
            say_op(c, events->at[i]);
            return false;
        }
    }
    return true;
}

/* Whether the roles of two tiles go ways of the same classes, and consumers that go as another does
 * in one do so in the other: how far one is in front of another does not change, then, with loops
 * that are cut short. */
static bool
alike_tiles(const Checker *c, const TileRun *a, const TileRun *b)
{
    bool alike = true;

    for (uint32_t role = 0; role < c->roles && alike; role++)
        alike = a->role[role]->alike == b->role[role]->alike;
    for (uint32_t role = 2; role <= c->consumers && alike; role++)
        alike = a->role[role] == a->role[1] && b->role[role] == b->role[1];
    return alike;
}

static const TileRun *
run_tile(Checker *c)
{
    TileRun tile = {0};

    c->own = walk_set_tile(&c->setting, c->fn, c->tile_index, c->consumer_indices);
    for (uint32_t role = 0; role < c->roles; role++) {
        tile.role[role] = run_role(c, role);
        if (tile.role[role] == NULL)
            return NULL;
    }
    for (uint32_t i = 0; i < c->tiles.n; i++) {
        TileRun *known = c->tiles.at[i];
        if (memcmp(known->role, tile.role, sizeof tile.role) == 0)
            return check_contents(c, known) ? known : NULL;
    }
    if (!check_counts(c, &tile) || !check_alike(c, &tile))
        return NULL;
    TileRun *kept = arena_copy(c->arena, &tile, sizeof tile);
    kept->alike = kept;
    for (uint32_t i = 0; i < c->tiles.n && kept->alike == kept; i++)
        kept->alike = alike_tiles(c, c->tiles.at[i], kept) ? c->tiles.at[i]->alike : kept;
    vec_push(c->arena, &c->tiles, kept);
    return check_contents(c, kept) ? kept : NULL;
}

/* ---- the roles together ---- */

static void
say_stuck(Checker *c, const Together *t, uint32_t role)
{
    const TirOp *op = role_next_event(t, role);
    uint32_t block = role / c->roles, own = role % c->roles;
    Buf *out = c->px->bugs;

    buf_printf(out, "    %s ", role_name(c, role));
    if (op == NULL) {
        bool done = role_is_done(t, role);
        buf_add(out, done ? "is done\n" : "waits to send or receive the next tile index\n");
        return;
    }
    buf_printf(out, "in tile %u ", t->tile[role]);
    const TirShared *pipeline = op->shared;
    if (pipeline == NULL) {
        buf_add(out, op->op == TIR_CONSUMER_BARRIER ? "waits for the other consumers"
                     : op->op == TIR_TILE_ASK       ? "waits for the last answer to be read"
                                                    : "waits for its ping-pong turn");
    } else if (op->op == TIR_TMA_LOAD || op->op == TIR_PRODUCER_ACQUIRE) {
        bool each = tir_parts(c->fn->plan, pipeline) > 1;
        uint32_t part = each ? role_step(t, role).consumer : 0;
        buf_printf(out, "waits for an empty stage of %s (%u): it has filled %u",
                   tir_buffer_name(c->arena, pipeline), pipeline->stages,
                   t->counts[pipeline->id][block][part].filled);
        for (uint32_t k = 0; k < t->roles; k++) {
            uint32_t of = k / c->roles, consumer = role_consumer(c->fn, k % c->roles);
            bool issues = tir_serves_all(c->kind[k % c->roles]);
            if (role_number(c->fn, pipeline->to, issues ? part : consumer) == k % c->roles &&
                of == block && (!each || issues || consumer == part))
                buf_printf(out, ", %s has released %u", role_name(c, k),
                           t->counts[pipeline->id][of][issues ? part : consumer].released);
        }
    } else if (pipeline->kind == SHARED_STAGING) {
        buf_printf(out, "waits for %s to be %s", tir_buffer_name(c->arena, pipeline),
                   op->op == TIR_STAGING_WRITE ? "empty" : "full");
    } else {
        buf_printf(out, "waits for stage %u of %s, which is not filled",
                   t->counts[pipeline->id][block][role_step(t, role).consumer].waited + 1,
                   tir_buffer_name(c->arena, pipeline));
    }
    buf_add(out, " at\n");
    RoleEvents done = t->sequence->tile[block][t->tile[role] - 1]->role[own]->events;
    done.n = t->event[role];
    say_place_of(c, role, op, NULL, done);
}

/* The step of a role that was wrong. */
static void
say_wrong(Checker *c, const Together *t)
{
    uint32_t role = t->wrong_role, block = role / c->roles, own = role % c->roles;
    const TileRun *tile = t->sequence->tile[block][t->tile[role] - 1];
    RoleEvents done = tile->role[own]->events;

    begin_fault(c, tile, "%s: %s", role_name(c, role), t->wrong);
    buf_printf(c->px->bugs, "    at, in tile %u\n", t->tile[role]);
    done.n = t->event[role];
    say_place_of(c, role, tile->role[own]->events.at[done.n], t->other, done);
}

static bool
check_together(Checker *c, const Sequence *sequence)
{
    const Together *t = roles_run_together(c->arena, c->fn, sequence, c->columns);

    if (t->wrong != NULL) {
        say_wrong(c, t);
        return false;
    }
    for (uint32_t role = 0; role < t->roles; role++) {
        if (role_is_done(t, role))
            continue;
        uint32_t tile = t->tile[role] == 0 || t->tile[role] > sequence->n ? 1 : t->tile[role];
        begin_fault(c, sequence->tile[role / c->roles][tile - 1],
                    "the roles wait for each other for ever");
        for (uint32_t stuck = 0; stuck < t->roles; stuck++)
            say_stuck(c, t, stuck);
        return false;
    }
    return true;
}

/* ---- launches ---- */

/* The block's indices of tile `tile`, the first block's of a pair; the first axis runs fastest. */
static void
find_tile(Checker *c, int64_t tile)
{
    const TirPlan *plan = c->fn->plan;
    int64_t swizzled[2] = {0}; /* of the first axis and that of the swizzle */

    if (plan->tiles.swizzle > 0) {
        int64_t along = c->counts[plan->tiles.swizzle_axis],
                per_swizzle = c->counts[0] * plan->tiles.swizzle;
        int64_t inside = tile % (c->counts[0] * along),
                first = inside / per_swizzle * plan->tiles.swizzle;
        int64_t width = along - first < plan->tiles.swizzle ? along - first : plan->tiles.swizzle;
        swizzled[0] = inside % per_swizzle / width;
        swizzled[1] = first + inside % per_swizzle % width;
        tile /= c->counts[0] * along;
    }
    for (uint32_t k = 0; k < c->fn->grid.n; k++) {
        bool swizzled_axis = plan->tiles.swizzle > 0 && (k == 0 || k == plan->tiles.swizzle_axis);
        int64_t index = swizzled_axis ? swizzled[k > 0] : tile % c->counts[k];
        tile = swizzled_axis ? tile : tile / c->counts[k];
        c->tile_index[k] = c->fn->grid.at[k].reversed ? c->counts[k] - 1 - index : index;
        if (tir_is_clustered(plan) && k == plan->tiles.axis)
            c->tile_index[k] *= PAIR;
    }
}

static bool
count_blocks(Checker *c, int64_t *total)
{
    *total = 1;
    for (uint32_t k = 0; k < c->fn->grid.n; k++) {
        Scalar n = walk_host(c->fn->grid.at[k].extent, c->setting.sizes, c->setting.scalars);
        if (!n.known || n.value <= 0)
            return false;
        c->counts[k] = n.value;
        if (k == c->fn->plan->tiles.axis) {
            c->consumer_indices = n.value;
            int64_t programs = (int64_t)c->consumers * (tir_is_clustered(c->fn->plan) ? PAIR : 1);
            c->counts[k] = (n.value + programs - 1) / programs;
        }
        *total *= c->counts[k];
    }
    return true;
}

/* Tiles `first`, `first` + `step`, .. in one block; `again`: another has had the first of all. */
static bool
check_tiles(Checker *c, int64_t first, int64_t step, int64_t total, bool again)
{
    Sequence sequence = {0}, class = {0};
    uint32_t most = tir_is_persistent(c->fn->plan) ? MOST_TILES : 1;

    for (int64_t tile = first; tile < total && sequence.n < most; tile += step) {
        c->again = again && tile < MOST_TILES;
        find_tile(c, tile);
        for (c->rank = 0; c->rank < (tir_is_clustered(c->fn->plan) ? PAIR : 1); c->rank++) {
            if (c->rank > 0)
                c->tile_index[c->fn->plan->tiles.axis]++;
            sequence.tile[c->rank][sequence.n] = run_tile(c);
            if (sequence.tile[c->rank][sequence.n] == NULL)
                return !c->failed;
            class.tile[c->rank][sequence.n] = sequence.tile[c->rank][sequence.n]->alike;
        }
        class.n = ++sequence.n;
    }
    for (uint32_t i = 0; i < c->sequences.n; i++)
        if (memcmp(&c->sequences.at[i], &class, sizeof class) == 0)
            return true;
    vec_push(c->arena, &c->sequences, class);
    return check_together(c, &sequence);
}

static bool
check_launch(Checker *c)
{
    int64_t total;

    for (uint32_t kind = 0; kind < ROLE_KINDS; kind++)
        c->here[kind].n = 0;
    if (!count_blocks(c, &total))
        return true;
    if (tir_is_persistent(c->fn->plan))
        return check_tiles(c, 0, 1, total, false) &&
               check_tiles(c, 0, 1 + total / MOST_TILES, total, true) &&
               check_tiles(c, total / 2, 2, total, true);
    for (int64_t tile = 0; tile < total; tile += 1 + total / (2 * MOST_TILES))
        if (!check_tiles(c, tile, total, total, false))
            return false;
    return true;
}

static void
check_launches(Checker *c, bool as_written)
{
    static const uint32_t choices[] = {0, UINT32_MAX, 0x55555555, 0x6db6db6d};
    const WalkProgram *deciders[] = {c->way[0], c->way[1]};
    RoleCases *cases = role_cases(c->arena, c->fn, deciders, 2, 2 * c->stages + 2, as_written);

    for (uint32_t k = 0; k < sizeof choices / sizeof choices[0] && (k == 0 || c->chose); k++) {
        c->choices = choices[k];
        while (role_cases_next(cases, &c->setting, false))
            if (!check_launch(c))
                return;
    }
    while (!walk_enter_all(c->way, ROLE_KINDS) && role_cases_next(cases, &c->setting, true))
        if (!check_launch(c))
            return;
    if (c->tiles.n == 0)
        say_unproved(c->px, c->fn,
                     c->given_up > 0 ? "its loops are long whatever the sizes"
                                     : "no launch is small enough");
    if (c->px->report != NULL)
        buf_printf(
            c->px->report,
            "roles: proved for up to %u iterations of a loop, %u ways of tiles, %u runs together\n",
            c->most_trips, c->tiles.n, c->sequences.n);
}

bool
pass_check_roles(PassContext *px, TirFn *fn)
{
    const TirPlan *plan = fn->plan;

    if (plan == NULL || tir_program(plan, ROLE_PRODUCER) == NULL || px->bugs == NULL ||
        sync_is_missing(px, fn))
        return false;
    if (tir_consumers(plan) > MOST_CONSUMERS || fn->grid.n > WALK_AXES) {
        say_unproved(px, fn, "it has too many of them, or axes of the grid");
        return false;
    }
    Arena *arena = px->scratch != NULL ? px->scratch : px->arena;
    ArenaMark mark = arena_mark(arena);
    Checker c = {.blocks = ALL_BLOCKS,
                 .px = px,
                 .arena = arena,
                 .fn = fn,
                 .consumers = tir_consumers(plan),
                 .pairs = tir_multiplies_in_pairs(plan),
                 .step = tir_program_step(plan),
                 .roles = roles_of_block(fn)};

    for (uint32_t block = 0; block < PAIR && tir_has_issuer(plan); block++)
        c.columns[block] = columns_new(c.arena, fn, c.roles);
    for (uint32_t own = 0; own < c.roles; own++) {
        c.kind[own] = role_kind(fn, own);
        c.consumer[own] = role_consumer(fn, own);
        for (uint32_t k = 0; k < MOST_CONSUMERS; k++)
            c.number[c.kind[own]][k] = role_number(fn, c.kind[own], k);
    }
    c.facts = consumer_facts(c.arena, fn);
    c.values = arena_array(c.arena, Scalar, fn->next_id + 1);
    for (uint32_t k = 0; k < fn->shared.n; k++)
        if (tir_is_pipeline(fn->shared.at[k]) && fn->shared.at[k]->stages > c.stages)
            c.stages = fn->shared.at[k]->stages;
    for (uint32_t k = 0; k < ROLE_KINDS; k++) {
        const TirBlock *program = k == ROLE_CONSUMER ? fn->body : tir_program(plan, (RoleKind)k);
        if (program == NULL || k == ROLE_NEXT_TILE)
            continue;
        c.way[k] = walk_program(c.arena, fn, program, 0);
        c.full[k] = walk_program(c.arena, fn, program,
                                 k == ROLE_CONSUMER ? WALK_TILES : WALK_CHANNELS);
        walk_deciding_axes(c.way[k], program, c.axis_decides[k]);
    }
    c.brief = walk_program(c.arena, fn, fn->body, WALK_CHANNELS);
    c.copies = walk_program(c.arena, fn, tir_program(plan, ROLE_PRODUCER), WALK_PLACES);
    if (plan->wants != NULL) {
        c.loads = walk_program(c.arena, fn, plan->wants, WALK_PLACES);
        c.staggered = tir_is_staggered(plan->wants);
    }
    Checker again = c;
    uint32_t said = px->bugs->n;
    const TirOp *changed = changed_kept(arena, fn);
    const TirOp *unread = find_unread(arena, fn, fn->body, TIR_TMEM_READ);
    if (changed == NULL && unread == NULL) {
        check_launches(&c, false);
    } else if (changed == NULL) {
        buf_printf(px->bugs, "check-roles: kernel '%s': a sum is read, and not written back\n",
                   fn->name);
        say_op(&c, unread);
    } else {
        buf_printf(px->bugs, "check-roles: kernel '%s': the next tile's number is another one\n",
                   fn->name);
        say_op(&c, changed);
    }
    /* the program as it is must have the fault, too, if its runs are not too long */
    if (c.failed) {
        const char *fault = arena_printf(arena, "%s", buf_text(px->bugs) + said);
        buf_cut(px->bugs, said);
        again.setting.launch = c.setting.launch;
        check_launches(&again, true);
        if (!again.failed && again.given_up > 0)
            buf_add(px->bugs, fault);
    }
    if (plan->wants == NULL && px->bugs->n == said && c.tiles.n > 0)
        say_unproved(px, fn,
                     "nothing says what they want to find in their pipelines (`wants { .. }`)");
    if (px->scratch != NULL)
        arena_rewind(arena, mark);
    return false;
}
