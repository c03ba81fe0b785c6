/* timeline_facts.c - roles, buffers and barriers of a kernel as text. */
#include "compiler/ir/layout.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"
#include "compiler/timeline/timeline.h"

#include <stdio.h>

/* Which programs a consumer computes. */
static void
print_programs(const TirPlan *plan, const TirGridAxis *axis, uint32_t consumer, Buf *out)
{
    uint32_t n = tir_consumers(plan), first = consumer * tir_program_step(plan),
             second = tir_multiplies_in_pairs(plan) ? first + 1 : consumer + n;

    if (axis == NULL)
        buf_printf(out, "computes part %u of every tile\n", consumer);
    else if (plan->tiles.reversed)
        buf_printf(out, "computes programs %s = last%s, last - %u, ..\n", axis->name,
                   consumer + 1 == n ? "" : arena_printf(out->arena, " - %u", n - 1 - consumer),
                   2 * n - 1 - consumer);
    else if (tir_is_clustered(plan))
        buf_printf(out, "computes programs %s = %u, %u, ..; in the second block %u, ..\n",
                   axis->name, first, first + 2 * n, second);
    else
        buf_printf(out, "computes programs %s = %u, %u, ..\n", axis->name, first, first + n);
}

/* Begins the line of a role, or of one consumer: name, warps, registers of a thread; false: there
 * is none.  The producer has all warps of its group that no other role has. */
static bool
print_role(const TirPlan *plan, RoleKind kind, uint32_t consumer, Buf *out)
{
    const TirRole *role = tir_role(plan, kind), *producer = tir_role(plan, ROLE_PRODUCER);
    bool one = kind == ROLE_CONSUMER, rest = kind == ROLE_PRODUCER;

    if (role == NULL)
        return false;
    for (uint32_t k = 1; k < plan->roles.n; k++) /* the producer is the first */
        rest = rest && (plan->roles.at[k].warps == 0 || plan->roles.at[k].warps >= GROUP_WARPS);
    uint32_t n = rest ? GROUP_WARPS : role->warps * (one ? 1 : role->instances);
    uint32_t first = tir_first_warp(plan, kind) + consumer * n;
    buf_printf(out, "    %-12s %-7s   %3u     ",
               one ? arena_printf(out->arena, "%s %u", role->name, consumer) : role->name,
               n > 1 ? arena_printf(out->arena, "%u-%u", first, first + n - 1)
                     : arena_printf(out->arena, "%u", first),
               role->registers > 0 ? role->registers : producer->registers);
    return true;
}

static void
print_roles(const TirFn *fn, Buf *out)
{
    const TirPlan *plan = fn->plan;

    buf_add(out, "  roles        warps   registers\n");
    print_role(plan, ROLE_PRODUCER, 0, out);
    buf_printf(out, "%s tiles into pipelines%s\n",
               tir_role(plan, ROLE_PRODUCER)->instances > 1
                   ? arena_printf(out->arena, "a thread of %u warps each copies its share of",
                                  tir_role(plan, ROLE_PRODUCER)->instances)
                   : "thread 0 copies",
               tir_has_clc(plan)      ? ", and asks for the next work tile"
               : tir_is_dynamic(plan) ? ", and fetches the next work tile"
                                      : "");
    if (print_role(plan, ROLE_MMA, 0, out))
        buf_printf(out, "one lane issues the consumers' products%s\n",
                   tir_multiplies_in_pairs(plan) ? ", the first block's those of both" : "");
    for (uint32_t consumer = 0; consumer < tir_consumers(plan); consumer++) {
        print_role(plan, ROLE_CONSUMER, consumer, out);
        print_programs(plan, tir_consumer_axis(fn), consumer, out);
    }
    if (print_role(plan, ROLE_REDUCE, 0, out))
        buf_add(out, tir_adding_warps(plan) > 0
                         ? "adds results of products to memory\n"
                         : "warp 1 + k adds what consumer k leaves to memory\n");
    if (print_role(plan, ROLE_CORRECTION, 0, out))
        buf_add(out,
                "multiplies rows of the consumers' sums between products, and stores results\n");
    const char *taken =
        plan->tiles.shared_bytes_each != NULL
            ? "takes over the work tiles of blocks that have not begun, the longest first"
            : "takes over the work tiles of blocks that have not begun";
    buf_printf(out, "    %s %s%s%s%s\n", tir_is_clustered(plan) ? "a pair of blocks" : "a block",
               tir_has_clc(plan)         ? taken
               : tir_is_dynamic(plan)    ? "fetches work tiles from a counter, the longest first"
               : tir_is_persistent(plan) ? tir_is_clustered(plan)
                                               ? "goes through tiles of the grid, two at a time"
                                               : "goes through tiles of the grid"
               : tir_is_clustered(plan)  ? "has two tiles of the grid, side by side"
                                         : "has one tile of the grid",
               tir_is_pipelined(fn) ? "; products run under the arithmetic of the next iteration"
                                    : "",
               tir_has_pingpong(fn) ? "; consumers in ping-pong" : "",
               tir_has_coop_k(fn) ? "; consumers share out a product in each iteration" : "");
}

/* How 16-byte pieces of rows are exchanged. */
static const char *
swizzle_text(Arena *arena, const SharedLayout *layout)
{
    if (layout == NULL)
        return "-";
    if (layout->bits == 0)
        return "none";
    if (layout->shift == 0)
        return arena_printf(arena, "%d bytes", SWIZZLE_PIECE << layout->bits);
    return arena_printf(arena, "%d bytes >> %d ", SWIZZLE_PIECE << layout->bits, layout->shift);
}

static void
print_buffers(const TirFn *fn, Buf *out)
{
    if (fn->shared.n == 0) {
        buf_add(out, "  no buffers in shared memory\n");
        return;
    }
    buf_printf(out,
               "  buffers        type  tile      stages    bytes       at  swizzle      (%u bytes "
               "in all)\n",
               fn->shared_bytes);
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *shared = fn->shared.at[k];
        char tile[32], stages[32];
        snprintf(tile, sizeof tile, "%dx%d", (int)shared->rows, (int)shared->cols);
        snprintf(stages, sizeof stages, "%u", shared->stages);
        if (fn->plan != NULL && (shared->each || shared->kind == SHARED_STAGING) &&
            tir_consumers(fn->plan) > 1)
            snprintf(stages, sizeof stages, "%u x %u", shared->stages, tir_consumers(fn->plan));
        const char *what =
            tir_is_handed(shared) ? "vector from a consumer to the correction role"
            : shared->from == ROLE_CORRECTION
                ? "the sum when it is ready to be added to, in tensor memory"
            : shared->from == ROLE_CONSUMER
                ? shared->kind != SHARED_TMEM ? "operand of products"
                  : shared->over != NULL      ? "operand of products, over results in tensor memory"
                  : shared->carried           ? "operand in all iterations, in tensor memory"
                                              : "operand of products, in tensor memory"
            : shared->carried ? "sum of products, in tensor memory, changed there"
            : shared->to == ROLE_REDUCE
                ? shared->over != NULL
                      ? "results that the reduce role adds, over others in tensor memory"
                      : "results that the reduce role adds, in tensor memory"
            : shared->kind == SHARED_TMEM ? "results of products, in tensor memory"
            : shared->scales > 0          ? "scales, loaded by two warps, copied to tensor memory"
            : tir_is_pipeline(shared)
                ? shared->each     ? "pipeline, each consumer its own"
                  : shared->halved ? "pipeline, for all consumers, half of a tile of the pair's"
                                   : "pipeline, for all consumers"
            : shared->kind == SHARED_SENT ? "what the other block of the pair sends, to be added up"
            : shared->kind == SHARED_PARTS   ? "each consumer writes its part, all read it"
            : shared->over != NULL           ? "on its way to memory, over a pipeline's stage"
            : shared->kind == SHARED_STAGING ? "on its way to memory, a consumer each"
                                             : NULL;
        const char *swizzle = swizzle_text(out->arena, shared->layout);
        buf_printf(
            out, "    %-12s %-4s  %-9s %-6s %7u %8u  %s%s\n", tir_buffer_name(out->arena, shared),
            dtype_name(shared->dtype), tile,
            shared->kind == SHARED_TMEM ? arena_printf(out->arena, "%s cols", stages) : stages,
            shared->kind == SHARED_TMEM ? shared->stages * tir_tmem_columns(shared) : shared->bytes,
            shared->offset, what == NULL ? swizzle : arena_printf(out->arena, "%-13s", swizzle),
            what == NULL ? "" : what);
    }
}

/* The copy that fills a pipeline: it says what a stage's barrier expects. */
static const TirOp *
find_copy(const TirBlock *block, const TirShared *pipeline)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (walk.op->op == TIR_TMA_LOAD && walk.op->shared == pipeline)
            return walk.op;
    }
    return NULL;
}

static void
print_barrier(Buf *out, const char *name, uint32_t stages, uint32_t parts, uint32_t at,
              uint32_t arrivals, const char *text)
{
    char count[32];

    snprintf(count, sizeof count, parts > 1 ? "%u x %u" : "%u", stages, parts);
    buf_printf(out, "    %-16s %-6s %7u %8u  %s\n", name, count, at, arrivals, text);
}

/* Who does it at a pipeline, of a kind of role. */
static const char *
role_text(Arena *arena, const TirShared *pipeline, RoleKind kind)
{
    switch (kind) {
    case ROLE_PRODUCER: return "the producer";
    case ROLE_CONSUMER: return pipeline->each ? "its consumer" : "all consumers";
    default: return arena_printf(arena, "the %s role", tir_role_kind_name(kind));
    }
}

/* What arrives at a barrier of a pipeline, and who waits there. */
static const char *
barrier_text(const TirFn *fn, const TirShared *pipeline, RoleKind from, RoleKind to, Arena *arena)
{
    const TirOp *copy = find_copy(tir_program(fn->plan, ROLE_PRODUCER), pipeline);
    long long bytes = copy == NULL ? 0 : (long long)timeline_copy_bytes(copy);
    bool pair = tir_multiplies_in_pairs(fn->plan), all = to == ROLE_CONSUMER && !pipeline->each;
    const char *who = role_text(arena, pipeline, from);

    if (from == ROLE_MMA)
        who = "the end of products";
    else if (from != ROLE_PRODUCER)
        who = arena_printf(arena, "a lane of each warp of %s%s", who, pair ? " in both blocks" : "");
    else if (pair && to == ROLE_MMA)
        who = arena_printf(arena, "%s, expecting %lld bytes of both blocks", who, 2 * bytes);
    else
        who = arena_printf(arena, "%s, expecting %lld bytes", who, bytes);
    return arena_printf(arena, "%s; %s wait%s", who, role_text(arena, pipeline, to), all ? "" : "s");
}

static void
print_channel(const TirFn *fn, const TirShared *pipeline, Buf *out)
{
    const char *name = tir_buffer_name(out->arena, pipeline);
    TirChannel channel = tir_channel(fn, pipeline);
    uint32_t n = pipeline->stages * channel.parts;

    print_barrier(out, arena_printf(out->arena, "%s full", name), pipeline->stages, channel.parts,
                  pipeline->barriers, channel.full,
                  barrier_text(fn, pipeline, pipeline->from, pipeline->to, out->arena));
    if (channel.empty > 0) /* else another barrier tells */
        print_barrier(out, arena_printf(out->arena, "%s empty", name), pipeline->stages,
                      channel.parts, pipeline->barriers + MBARRIER_BYTES * n, channel.empty,
                      barrier_text(fn, pipeline, pipeline->to, pipeline->from, out->arena));
}

/* Those of what the other block of a pair sends: each warp of the reduce role has its own. */
static void
print_sent_barriers(const TirFn *fn, const TirShared *sent, Buf *out)
{
    const char *name = tir_buffer_name(out->arena, sent);
    uint32_t warps = tir_adding_warps(fn->plan);

    print_barrier(out, arena_printf(out->arena, "%s full", name), 1, warps, sent->barriers, 1,
                  arena_printf(out->arena,
                               "a warp of the reduce role, expecting %u bytes of the other "
                               "block's; it waits itself",
                               sent->bytes / warps));
    print_barrier(out, arena_printf(out->arena, "%s empty", name), 1, warps,
                  sent->barriers + MBARRIER_BYTES * warps, 1,
                  "a warp of the other block's reduce role; this block's waits");
}

/* Those by which the producer learns the next tile, and tells the others. */
static void
print_tile_barriers(const TirFn *fn, Buf *out)
{
    const TirPlan *plan = fn->plan;
    uint32_t readers = tir_tile_readers(plan);
    const char *second = tir_multiplies_in_pairs(plan) ? "; in the second block one less" : "";

    if (!tir_is_dynamic(plan))
        return;
    if (tir_has_clc(plan))
        print_barrier(out, "next tile answer", 1, 1, plan->tiles.offset + CLC_FULL, 1,
                      arena_printf(out->arena, "the producer, expecting %d bytes; it waits itself",
                                   CLC_ANSWER_BYTES));
    if (tir_has_clc(plan) && tir_is_clustered(plan))
        print_barrier(out, "answer read", 1, 1, plan->tiles.offset + CLC_EMPTY, 1,
                      "the second block's producer; the first block's waits");
    print_barrier(out, "next tile index", TILE_STAGES, 1,
                  plan->tiles.offset + TILE_INDEX_BYTES * TILE_STAGES, 1,
                  "the producer; all consumers wait");
    print_barrier(out, "next tile heard", TILE_STAGES, 1,
                  plan->tiles.offset + (TILE_INDEX_BYTES + MBARRIER_BYTES) * TILE_STAGES, readers,
                  arena_printf(out->arena, "a lane of each warp of %s; the producer waits%s",
                               readers > tir_consumers(plan) * fn->warps ? "all other roles"
                                                                         : "all consumers",
                               second));
}

static void
print_barriers(const TirFn *fn, Buf *out)
{
    const TirPlan *plan = fn->plan;
    const TirRole *adder = tir_role(plan, ROLE_REDUCE);

    buf_add(out, "  barriers         number      at  arrivals\n");
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *pipeline = fn->shared.at[k];
        if (pipeline->kind == SHARED_SENT)
            print_sent_barriers(fn, pipeline, out);
        if (tir_is_pipeline(pipeline))
            print_channel(fn, pipeline, out);
    }
    print_tile_barriers(fn, out);
    if (adder != NULL && tir_adding_warps(plan) == 0) {
        uint32_t threads = (GROUP_WARPS + 1) * WARP_LANES;
        buf_printf(out, "    %-16s %-6u   named %8u  a reduce warp; its consumer waits\n",
                   "staging empty", tir_consumers(plan), threads);
        buf_printf(out, "    %-16s %-6u   named %8u  a consumer; its reduce warp waits\n",
                   "staging full", tir_consumers(plan), threads);
    }
    if (tir_has_pingpong(fn))
        buf_printf(
            out,
            "    %-16s %-6u   named %8u  the consumer before passes the ping-pong turn; the consumer waits\n",
            "pingpong", tir_consumers(plan), 2 * GROUP_LANES);
    if (tir_has_coop_k(fn))
        buf_printf(out, "    %-16s %-6u   named %8u  all consumers; all consumers wait\n",
                   "of all consumers", 1, tir_consumers(plan) * GROUP_LANES);
}

static void
print_launch(const TirFn *fn, Buf *out)
{
    bool none = fn->blocks[0] == NULL;
    uint32_t warps = fn->plan == NULL ? fn->warps : tir_block_warps(fn->plan);

    buf_add(out, "  launch       ");
    for (uint32_t k = 0; k < (none ? fn->grid.n : 1); k++) {
        buf_add(out, k == 0 ? "" : " x ");
        host_print(fn, none ? fn->grid.at[k].extent : fn->blocks[0], out);
    }
    buf_printf(out, " blocks of %u threads%s\n", warps * WARP_LANES,
               fn->plan != NULL && tir_is_clustered(fn->plan) ? ", in clusters of two" : "");
}

void
timeline_facts(const Target *target, const TimelineOf *of, Buf *out)
{
    const TirFn *fn = of->fn;
    const TirPlan *plan = fn->plan;
    const char *why = of->why;

    if (plan == NULL) {
        buf_printf(out, "kernel %s, %s: no plan for warp groups, all threads do the same%s\n",
                   fn->name, target->name,
                   has_operation(fn->body, TIR_COPY_ASYNC) ? "; a multistage loop copies ahead"
                                                           : "");
        if (why == NULL && !target_predicts_roles(target))
            why = target_has_roles(target) ? "none is chosen for this target: --plan gives one"
                                           : "the target has no products of warp groups";
        if (why != NULL)
            buf_printf(out, "  no plan      %s\n", why);
        print_launch(fn, out);
        print_buffers(fn, out);
        return;
    }
    buf_printf(out, "kernel %s, %s: one warp group copies%s, %u compute%s%s\n", fn->name,
               target->name, tir_has_issuer(plan) ? " and issues products" : "",
               tir_consumers(plan), tir_consumers(plan) == 1 ? "s" : "",
               tir_role(plan, ROLE_CORRECTION) != NULL ? ", one changes sums" : "");
    print_launch(fn, out);
    print_roles(fn, out);
    print_buffers(fn, out);
    print_barriers(fn, out);
    if (of->time != NULL) {
        buf_add(out, "  time: ");
        kernel_time_text(fn, of->time, out);
        buf_char(out, '\n');
    }
}
