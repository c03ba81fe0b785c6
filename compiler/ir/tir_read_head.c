/* tir_read_head.c - reads the head of a kernel, a line at a time, as tir_text_head.c writes it.
 */
#include "compiler/ir/tir_reader.h"

#include <stdlib.h>
#include <string.h>

static void
take_tensor_line(Reader *r)
{
    TirTensor *tensor = arena_new(r->arena, TirTensor);

    tensor->span = r->token.span;
    tensor->name = reader_take(r, TOK_NAME, "the name of a tensor");
    reader_expect(r, ":");
    if (reader_accept(r, "in"))
        tensor->mode = TENSOR_IN;
    else if (reader_accept(r, "out"))
        tensor->mode = TENSOR_OUT;
    else if (reader_accept(r, "inout"))
        tensor->mode = TENSOR_INOUT;
    else
        reader_fail(r, "expected in, out or inout");
    tensor->dtype = reader_dtype(r);
    reader_expect(r, "[");
    do {
        TensorDim dim = {0};
        if (r->token.kind == TOK_NUMBER)
            dim.constant = reader_extent(r);
        else
            dim.size = (uint32_t)reader_named(r, reader_find_size, "a size");
        if (tensor->rank == TENSOR_MAX_RANK)
            reader_fail(r, "a tensor has at most 6 dimensions");
        else
            tensor->dim[tensor->rank++] = dim;
    } while (!r->failed && reader_accept(r, ","));
    reader_expect(r, "]");
    tensor->packed = reader_accept(r, "packed") ? reader_dtype(r) : tensor->dtype;
    reader_expect(r, "align");
    tensor->align = reader_u32(r);
    tensor->atomic = reader_accept(r, "atomic");
    vec_push(r->arena, &r->fn->tensors, tensor);
}

static bool
take_role_kind(Reader *r, RoleKind *kind)
{
    bool known = !r->failed && r->token.kind == TOK_NAME && tir_role_kind_find(r->token.text, kind);

    if (known)
        reader_next(r);
    return known;
}

/* A buffer above that of the line; itself, which it can not be (tir_verify_plan.c): there is none
 * of that number. */
static const TirShared *
take_above(Reader *r, const TirShared *shared)
{
    uint32_t k = reader_u32(r);

    return k < r->fn->shared.n ? r->fn->shared.at[k] : shared;
}

/* pipeline per_consumer from consumer to mma consumer(1) 49152 shares_barrier 1 release_lag
 * lookahead */
static void
take_pipeline(Reader *r, TirShared *shared)
{
    shared->kind = reader_accept(r, "vector") ? SHARED_VECTORS
                   : reader_accept(r, "tmem") ? SHARED_TMEM
                                              : SHARED_PIPELINE;
    if (shared->kind == SHARED_TMEM && reader_accept(r, "aliases"))
        shared->over = take_above(r, shared);
    shared->in_registers = reader_accept(r, "in_registers");
    shared->each = reader_accept(r, "per_consumer") || shared->kind == SHARED_TMEM;
    shared->halved = reader_accept(r, "halved");
    shared->to = ROLE_CONSUMER;
    if (reader_accept(r, "from")) {
        bool known = take_role_kind(r, &shared->from);
        reader_expect(r, "to");
        if (!known || !take_role_kind(r, &shared->to))
            reader_fail(r, "expected the roles that fill and read the pipeline");
    }
    if (reader_accept(r, "consumer")) {
        reader_expect(r, "(");
        shared->of_consumer = 1 + reader_u32(r);
        reader_expect(r, ")");
    }
    shared->carried = reader_accept(r, "carried");
    if (reader_accept(r, "scales")) {
        shared->scales = (uint8_t)(1 + (reader_u32(r) & 1));
        reader_expect(r, "places");
        shared->places = (uint8_t)reader_u32(r);
    }
    if (reader_accept(r, "column"))
        shared->column = reader_u32(r);
    shared->barriers = reader_u32(r);
    if (reader_accept(r, "shares_barrier"))
        shared->with = take_above(r, shared);
    shared->lag = reader_accept(r, "release_lag");
    shared->reread = shared->lag > 0 && reader_accept(r, "lookahead");
    shared->held = reader_accept(r, "deferred_release");
}

static void
take_shared_kind(Reader *r, TirShared *shared)
{
    if (reader_accept(r, "pipeline"))
        take_pipeline(r, shared);
    else if (reader_accept(r, "coop_k"))
        shared->kind = SHARED_PARTS;
    else if (reader_accept(r, "staging"))
        shared->kind = SHARED_STAGING;
    else if (reader_accept(r, "sent")) {
        shared->kind = SHARED_SENT;
        shared->barriers = reader_u32(r);
    }
    if (shared->kind == SHARED_STAGING && reader_accept(r, "aliases"))
        shared->over = take_above(r, shared);
}

static void
take_shared_line(Reader *r)
{
    TirShared *shared = arena_new(r->arena, TirShared);
    Token name = r->token;

    reader_take(r, TOK_SHARED, "a shared buffer ('$name_number')");
    shared->id = r->fn->shared.n;
    const char *underscore = strrchr(name.text, '_');
    if (!r->failed && (underscore == NULL || strtoul(underscore + 1, NULL, 10) != shared->id))
        reader_fail_at(r, name.span,
                       arena_printf(r->arena,
                                    "shared buffers are numbered in order; this "
                                    "one is number %u",
                                    shared->id));
    if (underscore != NULL && underscore > name.text)
        shared->name = arena_strndup(r->arena, name.text, (size_t)(underscore - name.text));
    reader_expect(r, ":");
    TirType type = reader_type(r);
    if (!r->failed && type.rank != 2)
        reader_fail_at(r, name.span, "a shared buffer has two dimensions");
    shared->dtype = type.dtype;
    shared->rows = type.dim[0];
    shared->cols = type.dim[1];
    reader_expect(r, "stages");
    shared->stages = reader_u32(r);
    reader_expect(r, "offset");
    shared->offset = reader_u32(r);
    reader_expect(r, "bytes");
    shared->bytes = reader_u32(r);
    take_shared_kind(r, shared);
    if (reader_sees(r, "{"))
        shared->layout = reader_shared_layout(r);
    vec_push(r->arena, &r->fn->shared, shared);
}

/* A line of a plan: the first one makes it. */
static TirPlan *
plan_of(Reader *r)
{
    if (r->fn->plan == NULL) {
        r->fn->plan = arena_new(r->arena, TirPlan);
        r->fn->plan->tiles.axis = NO_AXIS;
    }
    return r->fn->plan;
}

static void
take_role_line(Reader *r)
{
    Span span = r->token.span;
    const char *name = reader_take(r, TOK_NAME, "the name of a role");
    RoleKind kind = ROLE_PRODUCER;

    plan_of(r);
    if (r->failed || (!tir_role_kind_find(name, &kind) && !take_role_kind(r, &kind))) {
        reader_fail_at(r, span, "expected producer, consumer, reduce, mma or next_tile");
        return;
    }
    if (tir_role(r->fn->plan, kind) != NULL) {
        reader_fail_at(r, span, "a role stands there already");
        return;
    }
    TirRole *role = tir_role_add(r->fn, kind, 0, 1, 0);
    role->name = name;
    if (reader_accept(r, "instances"))
        role->instances = reader_u32(r);
    if (reader_accept(r, "warps"))
        role->warps = reader_u32(r);
    if (reader_accept(r, "registers"))
        role->registers = reader_u32(r);
    if (reader_accept(r, "pressure"))
        role->pressure = reader_u32(r);
    if (reader_accept(r, "private"))
        role->private_bytes = reader_u32(r);
}

/* axis m reversed dynamic alternating cluster 2 swizzle 16 of h at 8192 shares Sk * 512 */
static void
take_tiles_line(Reader *r)
{
    TirTileOrder *tiles = &plan_of(r)->tiles;

    if (!reader_accept(r, "cooperative")) {
        reader_expect(r, "axis");
        tiles->axis = (uint32_t)reader_named(r, reader_find_axis, "a grid axis");
        tiles->reversed = reader_accept(r, "reversed");
    }
    if (reader_accept(r, "dynamic"))
        tiles->scheduler = TILES_DYNAMIC;
    else if (reader_accept(r, "clc"))
        tiles->scheduler = TILES_CLC;
    else if (reader_accept(r, "static"))
        tiles->scheduler = TILES_STATIC;
    else
        reader_expect(r, "one");
    tiles->alternating = reader_accept(r, "alternating");
    if (reader_accept(r, "cluster"))
        tiles->cluster = reader_u32(r);
    if (reader_accept(r, "swizzle")) {
        tiles->swizzle = reader_u32(r);
        reader_expect(r, "of");
        tiles->swizzle_axis = (uint32_t)reader_named(r, reader_find_axis, "a grid axis");
    }
    if (reader_accept(r, "at"))
        tiles->offset = reader_u32(r);
    if (reader_accept(r, "shares"))
        tiles->shared_bytes_each = reader_host(r);
}

static void
take_memory_line(Reader *r, TirMemoryKind kind)
{
    TirMemory memory = {.kind = kind};

    memory.name = reader_take(r, TOK_NAME, "a name");
    reader_expect(r, "=");
    memory.bytes = reader_host(r);
    reader_expect(r, "bytes");
    vec_push(r->arena, &r->fn->memories, memory);
}

/* from "attention.tile" 38 */
static void
take_from(Reader *r)
{
    r->from = diag_named_file(r->diag, reader_take(r, TOK_STRING, "the path of a file"));
    SourcePlace place = reader_line(r);
    place.file = r->from;
    if (!r->failed)
        diag_add_origin(r->diag, r->fn->span.lo, place);
}

/* split-loops: the name of a pass may have hyphens. */
static const char *
take_pass(Reader *r)
{
    const char *name = reader_take(r, TOK_NAME, "the name of a pass");

    while (reader_accept(r, "-"))
        name = arena_printf(r->arena, "%s-%s", name,
                            reader_take(r, TOK_NAME, "the rest of a pass's name"));
    return name;
}

/* chosen warps 8 stages 3 plan "consumers=2,stages=2" */
static void
take_choice(Reader *r)
{
    TirFn *fn = r->fn;

    fn->chosen_warps = reader_accept(r, "warps") ? reader_u32(r) : 0;
    fn->chosen_stages = reader_accept(r, "stages") ? reader_u32(r) : 0;
    if (reader_accept(r, "plan"))
        fn->chosen_plan = reader_take(r, TOK_STRING, "a plan, in quotes");
}

static void
take_constant_line(Reader *r)
{
    TirConstant constant = {0};
    constant.name = reader_take(r, TOK_NAME, "a name");
    reader_expect(r, "=");
    constant.value = reader_take(r, TOK_STRING, "a string");
    vec_push(r->arena, &r->fn->constants, constant);
}

static void
take_size_line(Reader *r)
{
    TirSize size = {.name = reader_take(r, TOK_NAME, "a name")};
    if (reader_accept(r, "usual"))
        size.usual = reader_integer(r, 1, INT32_MAX);
    if (reader_accept(r, "written"))
        size.text = reader_take(r, TOK_STRING, "a string");
    vec_push(r->arena, &r->fn->sizes, size);
}

static void
take_follows_line(Reader *r)
{
    int64_t size = reader_named(r, reader_find_size, "a size");
    reader_expect(r, "=");
    const HostExpr *value = reader_host(r);
    if (!r->failed)
        r->fn->sizes.at[size].value = value;
}

static void
take_scalar_line(Reader *r)
{
    TirScalar scalar = {.span = r->token.span};
    scalar.name = reader_take(r, TOK_NAME, "a name");
    reader_expect(r, ":");
    scalar.dtype = reader_dtype(r);
    vec_push(r->arena, &r->fn->scalars, scalar);
}

static void
take_require_line(Reader *r, Span span)
{
    TirRequire require = {.span = span};
    require.condition = reader_host(r);
    reader_expect(r, ",");
    require.message = reader_take(r, TOK_STRING, "the message, in quotes");
    vec_push(r->arena, &r->fn->requires, require);
}

static void
take_grid_line(Reader *r)
{
    TirGridAxis axis = {.span = r->token.span};
    axis.name = reader_take(r, TOK_NAME, "a name");
    reader_expect(r, "=");
    axis.extent = reader_host(r);
    axis.reversed = reader_accept(r, "reversed");
    axis.variable_trips = reader_accept(r, "variable_trips");
    axis.ended = reader_accept(r, "ended");
    axis.sliding = reader_accept(r, "sliding");
    axis.sliding_trips = axis.sliding ? reader_u32(r) : 0;
    axis.short_first = axis.sliding && reader_accept(r, "short_first");
    vec_push(r->arena, &r->fn->grid, axis);
}

static void
take_layout_line(Reader *r, Span span)
{
    reader_expect(r, "@");
    if (reader_u32(r) != r->layouts.n)
        reader_fail_at(r, span, "layouts are numbered in order");
    reader_expect(r, "=");
    const Layout *layout = reader_layout(r);
    const char *fault = r->failed ? NULL : layout_fault(r->arena, layout);
    if (fault != NULL)
        reader_fail_at(r, span, fault);
    vec_push(r->arena, &r->layouts, layout);
}

static void
take_blocks_line(Reader *r)
{
    for (uint32_t k = 0; k < 3; k++) {
        r->fn->blocks[k] = reader_host(r);
        if (k < 2)
            reader_expect(r, ",");
    }
}

void
reader_head_line(Reader *r)
{
    TirFn *fn = r->fn;
    Span span = r->token.span;

    if (reader_accept(r, "constant")) {
        take_constant_line(r);
    } else if (reader_accept(r, "size")) {
        take_size_line(r);
    } else if (reader_accept(r, "tensor")) {
        take_tensor_line(r);
    } else if (reader_accept(r, "scalar")) {
        take_scalar_line(r);
    } else if (reader_accept(r, "follows")) {
        take_follows_line(r);
    } else if (reader_accept(r, "require")) {
        take_require_line(r, span);
    } else if (reader_accept(r, "grid")) {
        take_grid_line(r);
    } else if (reader_accept(r, "file")) {
        diag_named_file(r->diag, reader_take(r, TOK_STRING, "the path of a file"));
    } else if (reader_accept(r, "from")) {
        take_from(r);
    } else if (reader_accept(r, "after")) {
        fn->after = take_pass(r);
    } else if (reader_accept(r, "chosen")) {
        take_choice(r);
    } else if (reader_accept(r, "hint_warps")) {
        fn->hint_warps = reader_u32(r);
    } else if (reader_accept(r, "hint_plan")) {
        fn->hint_plan_span = r->token.span;
        fn->hint_plan = reader_take(r, TOK_STRING, "a plan, in quotes");
    } else if (reader_accept(r, "warps")) {
        fn->warps = reader_u32(r);
    } else if (reader_accept(r, "role")) {
        take_role_line(r);
    } else if (reader_accept(r, "tiles")) {
        take_tiles_line(r);
    } else if (reader_accept(r, "tmem_columns")) {
        plan_of(r)->tmem_columns = reader_u32(r);
        reader_expect(r, "at");
        plan_of(r)->tmem_start = reader_u32(r);
    } else if (reader_accept(r, "mark")) {
        plan_of(r)->mark = reader_u32(r);
    } else if (reader_accept(r, "layout")) {
        take_layout_line(r, span);
    } else if (reader_accept(r, "shared")) {
        take_shared_line(r);
    } else if (reader_accept(r, "shared_bytes")) {
        fn->shared_bytes = reader_u32(r);
    } else if (reader_accept(r, "scratch")) {
        take_memory_line(r, MEMORY_SCRATCH);
    } else if (reader_accept(r, "workspace")) {
        take_memory_line(r, MEMORY_WORKSPACE);
    } else if (reader_accept(r, "blocks")) {
        take_blocks_line(r);
    } else {
        reader_fail(
            r,
            "expected constant, size, tensor, scalar, follows, require, grid, warps, role, shared or body");
    }
}
