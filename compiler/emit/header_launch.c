/* header_launch.c - a launch in a generated header: tensor maps, parameters, attributes, graph
 * nodes. */
#include "compiler/emit/header.h"

static void
write_numbers(Buf *out, const char *type, const char *name, const uint32_t *numbers, uint32_t n)
{
    buf_printf(out, "static const %s %s[%u] = {", type, name, (unsigned)n);
    for (uint32_t i = 0; i < n; i++)
        buf_printf(out, "%s%u", i ? ", " : "", (unsigned)numbers[i]);
    buf_add(out, "};\n");
}

/* Encodes the CUtensorMap number `index`. */
static void
write_tensor_map(const HeaderWriter *w, const TirFn *fn, const LirTensorMap *map, uint32_t index)
{
    Buf *out = w->out;
    const TirTensor *t = map_tensor(fn, map);
    const char *name = header_identifier(out->arena, t->name);
    const char *swizzle = map->swizzle_bytes ? arena_printf(out->arena, "%uB", map->swizzle_bytes)
                                             : "NONE";
    const char *promotion = map->l2_promotion_bytes
                                ? arena_printf(out->arena, "L2_%uB", map->l2_promotion_bytes)
                                : "NONE";

    buf_add(out, "    {\n        ");
    write_numbers(out, "int", "dim", map->dim, map->rank);
    buf_add(out, "        ");
    write_numbers(out, "cuuint32_t", "box", map->box, map->rank);
    buf_printf(
        out,
        "        result = tilec_make_map(&map[%u], CU_TENSOR_MAP_DATA_TYPE_%s, %u, args->%s.data,\n"
        "                                args->%s.shape, args->%s.stride, %u, dim, box,\n"
        "                                CU_TENSOR_MAP_SWIZZLE_%s, "
        "CU_TENSOR_MAP_L2_PROMOTION_%s,\n"
        "                                module->zeros);\n"
        "        if (result != CUDA_SUCCESS) {\n            tilec_refuse(message, bytes, \"no tensor map can "
        "be made for %s\");\n            return tilec_leave(result, entered);\n        }\n    }\n",
        (unsigned)index, dtype_map_name(map_dtype(t, map)), (unsigned)dtype_bits(t->dtype) / 8,
        name, name, name, (unsigned)map->rank, swizzle, promotion, t->name);
}

/* The C type of parameter `p`; NULL: a map. */
static const char *
param_type(const TirFn *fn, const LirParam *p)
{
    switch (p->kind) {
    case LIR_PARAM_POINTER:
    case LIR_PARAM_MEMORY: return "CUdeviceptr";
    case LIR_PARAM_STRIDE: return "int64_t";
    case LIR_PARAM_SIZE: return "int32_t";
    case LIR_PARAM_SCALAR: return dtype_c(fn->scalars.at[p->index].dtype);
    case LIR_PARAM_ZERO: return "uint32_t";
    case LIR_PARAM_MAP:
    case LIR_PARAM_PLAIN: break;
    }
    return NULL;
}

/* KERNEL_call: what a launch needs, in one place. */
static void
write_call(const HeaderWriter *w, const TirFn *fn, const LirFn *code)
{
    Buf *out = w->out;
    uint32_t n = code->params.n;

    buf_add(out,
            "/* A launch, put together.  It points into itself: it stays where it was packed. */\n"
            "typedef struct {\n    CUfunction function;\n    unsigned grid[3];\n");
    for (uint32_t i = 0; i < n; i++)
        if (param_type(fn, &code->params.at[i]))
            buf_printf(out, "    %s p%u;\n", param_type(fn, &code->params.at[i]), (unsigned)i);
    if (code->maps.n) /* C99 has no way to ask for the 64 bytes that a map must be aligned to */
        buf_printf(out, "    cuuint64_t room[%u]; /* of the tensor maps */\n",
                   (unsigned)code->maps.n * 16 + 8);
    buf_printf(out, "    void *params[%u];\n} %s_call;\n\n", n ? (unsigned)n : 1,
               header_prefix(w, fn));
}

/* Parameter `i` and its address; a map has only the latter. */
static void
write_param(const HeaderWriter *w, const TirFn *fn, const LirParam *p, uint32_t i)
{
    Arena *arena = w->out->arena;
    unsigned at = (unsigned)i;
    const char *tensor = p->kind == LIR_PARAM_POINTER || p->kind == LIR_PARAM_STRIDE
                             ? header_identifier(arena, fn->tensors.at[p->index]->name)
                             : "";

    switch (p->kind) {
    case LIR_PARAM_POINTER:
        buf_printf(w->out, "    call->p%u = args->%s.data;\n", at, tensor);
        break;
    case LIR_PARAM_STRIDE:
        buf_printf(w->out, "    call->p%u = args->%s.shape[%u] > 1 ? args->%s.stride[%u] : 0;\n",
                   at, tensor, (unsigned)p->dim, tensor, (unsigned)p->dim);
        break;
    case LIR_PARAM_SIZE:
        buf_printf(w->out, "    call->p%u = (int32_t)size_%s;\n", at, fn->sizes.at[p->index].name);
        break;
    case LIR_PARAM_SCALAR:
        buf_printf(w->out, "    call->p%u = args->%s;\n", at,
                   header_identifier(arena, fn->scalars.at[p->index].name));
        break;
    case LIR_PARAM_MEMORY:
        buf_printf(w->out, "    call->p%u = args->%s;\n", at,
                   header_memory(arena, &fn->memories.at[p->index]));
        break;
    case LIR_PARAM_ZERO: buf_printf(w->out, "    call->p%u = 0;\n", at); break;
    case LIR_PARAM_MAP:
    case LIR_PARAM_PLAIN:
        buf_printf(w->out, "    call->params[%u] = &map[%u];\n", at, (unsigned)p->index);
        return;
    }
    buf_printf(w->out, "    call->params[%u] = &call->p%u;\n", at, at);
}

/* With room for the number of a tile that is not there. */
enum { MOST_TILES = INT32_MAX - 65535 };

/* Of a persistent kernel, how many tiles its blocks go through; NULL: it is none. */
static const HostExpr *
counted_tiles(const TirFn *fn)
{
    const HostExpr *e = fn->blocks[0];

    if (e != NULL && e->kind == HOST_MUL && e->a->kind == HOST_MIN) /* blocks of a pair */
        e = e->a;
    return e != NULL && e->kind == HOST_MIN ? e->b : NULL;
}

/* Factor by factor, where whole numbers could overflow. */
static void
write_real(Buf *out, const TirFn *fn, const HostExpr *e)
{
    if (e->kind == HOST_MUL) {
        write_real(out, fn, e->a);
        buf_add(out, " * ");
        write_real(out, fn, e->b);
        return;
    }
    buf_add(out, "(double)(");
    header_expression(out, fn, e, false);
    buf_add(out, ")");
}

/* The grid as far as CUDA launches it; tiles of a persistent kernel have numbers of 32 bits, also
 * the one behind the last tile that a block looks for. */
static void
write_grid_checks(const HeaderWriter *w, const TirFn *fn)
{
    static const int32_t most[3] = {INT32_MAX, 65535, 65535};
    const HostExpr *tiles = counted_tiles(fn);
    Buf *out = w->out, text;

    for (uint32_t d = 0; d < 3; d++) {
        if (launch_extent(out->arena, fn, d)->kind == HOST_INT)
            continue;
        buf_init(&text, out->arena);
        host_print(fn, launch_extent(out->arena, fn, d), &text);
        buf_printf(
            out,
            "    if (grid[%u] < 0 || grid[%u] > %d)\n"
            "        return tilec_refuse(message, bytes, \"the grid's dimension %u is %%s = %%lld; CUDA "
            "allows 0 to %d\",\n                            \"%s\", (long long)grid[%u]);\n",
            (unsigned)d, (unsigned)d, (int)most[d], (unsigned)d, (int)most[d], buf_text(&text),
            (unsigned)d);
    }
    if (tiles == NULL)
        return;
    buf_init(&text, out->arena);
    host_print(fn, tiles, &text);
    buf_add(out, "    if (");
    write_real(out, fn, tiles);
    buf_printf(
        out,
        " > %d.0)\n        return tilec_refuse(message, bytes, \"there are more than %d tiles, which the "
        "blocks cannot count: %%s\",\n                            \"%s\");\n",
        MOST_TILES, MOST_TILES, buf_text(&text));
}

static void
write_pack(const HeaderWriter *w, const TirFn *fn, const LirFn *code, uint32_t index)
{
    Buf *out = w->out;
    const char *prefix = header_prefix(w, fn);

    buf_printf(
        out,
        "/* %s; `message` (which may be NULL) says what is wrong. */\n"
        "static inline CUresult\n%s_pack(const %s_module *module, const %s_args *args, %s_call *call, "
        "char *message,\n    size_t bytes)\n{\n",
        w->kernel != NULL ? "Puts a launch of this form together, of arguments that are checked"
                          : "Checks the arguments and puts a launch together",
        prefix, w->stem, header_args_prefix(w, fn), prefix);
    buf_printf(
        out,
        "%s    int64_t grid[3];\n"
        "    if (result != CUDA_SUCCESS)\n        return result;\n"
        "    if (!module || !call)\n"
        "        return tilec_refuse(message, bytes, \"`%%s` is NULL\", call ? \"module\" : \"call\");\n"
        "    %s_grid(module, args, grid);\n",
        w->kernel != NULL /* the kernel's own function has checked */
            ? "    CUresult result = CUDA_SUCCESS;\n"
            : arena_printf(out->arena, "    CUresult result = %s_check(args, message, bytes);\n",
                           header_shared_prefix(w, fn)),
        prefix);
    header_sizes(w, fn);
    write_grid_checks(w, fn);
    buf_printf(out,
               "    call->function = module->kernel[%u];\n"
               "    for (int d = 0; d < 3; d++)\n        call->grid[d] = (unsigned)grid[d];\n",
               (unsigned)index);
    if (code->maps.n) /* which the driver makes only where a context is current */
        buf_add(out,
                "    CUtensorMap *map = (CUtensorMap *)(((uintptr_t)call->room + 63) / 64 * 64);\n"
                "    int entered;\n"
                "    result = tilec_enter(module->context, &entered);\n"
                "    if (result != CUDA_SUCCESS)\n        return result;\n");
    for (uint32_t i = 0; i < code->maps.n; i++)
        write_tensor_map(w, fn, &code->maps.at[i], i);
    if (code->maps.n)
        buf_add(out, "    tilec_leave(result, entered);\n");
    for (uint32_t i = 0; i < code->params.n; i++)
        write_param(w, fn, &code->params.at[i], i);
    buf_printf(out, "%s    return CUDA_SUCCESS;\n}\n\n",
               code->params.n ? "" : "    call->params[0] = NULL;\n");
}

/* KERNEL_node: for a graph that was captured or built, whose launches get other arguments. */
static void
write_node(const HeaderWriter *w, const TirFn *fn)
{
    const char *prefix = header_prefix(w, fn), *big = header_upper(w->out->arena, prefix);

    buf_printf(
        w->out,
        "/* A launch as a kernel node of a CUDA graph, for cuGraphAddKernelNode or "
        "cuGraphExecKernelNodeSetParams. */\n"
        "static inline void\n%s_node(const %s_call *call, CUDA_KERNEL_NODE_PARAMS *node)\n{\n"
        "    if (!node)\n        return;\n"
        "    memset(node, 0, sizeof *node);\n"
        "    if (!call)\n        return;\n"
        "    node->func = call->function;\n"
        "    node->gridDimX = call->grid[0];\n    node->gridDimY = call->grid[1];\n"
        "    node->gridDimZ = call->grid[2];\n    node->blockDimX = %s_BLOCK;\n"
        "    node->blockDimY = 1;\n    node->blockDimZ = 1;\n    node->sharedMemBytes = %s_SHARED;\n"
        "    node->kernelParams = (void **)(uintptr_t)call->params;\n}\n\n",
        prefix, prefix, big, big);
}

/* The driver's call, with the launch's attributes where it has any. */
static void
write_driver_call(const HeaderWriter *w, const TirFn *fn, const LirFn *code)
{
    Buf *out = w->out;
    const char *big = header_upper(out->arena, header_prefix(w, fn));
    bool cluster = has_cluster(code), early = code->starts_early;

    if (!cluster && !early) {
        buf_printf(
            out,
            "    result = cuLaunchKernel(call.function, call.grid[0], call.grid[1], call.grid[2],\n"
            "                            %s_BLOCK, 1, 1, %s_SHARED, stream, call.params, NULL);\n",
            big, big);
        return;
    }
    buf_printf(
        out,
        "    CUlaunchAttribute attribute[%d];\n    CUlaunchConfig config;\n"
        "    memset(attribute, 0, sizeof attribute);\n    memset(&config, 0, sizeof config);\n",
        cluster + early);
    if (cluster)
        for (int d = 0; d < 3; d++)
            buf_printf(out, "%s    attribute[0].value.clusterDim.%c = %s_CLUSTER_%c;\n",
                       d ? "" : "    attribute[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;\n",
                       "xyz"[d], big, "XYZ"[d]);
    if (early) /* the kernel itself waits for those before it */
        buf_printf(out,
                   "    attribute[%d].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;\n"
                   "    attribute[%d].value.programmaticStreamSerializationAllowed = 1;\n",
                   cluster, cluster);
    for (int d = 0; d < 3; d++)
        buf_printf(out, "    config.gridDim%c = call.grid[%d];\n", "XYZ"[d], d);
    buf_printf(
        out,
        "    config.blockDimX = %s_BLOCK;\n    config.blockDimY = 1;\n    config.blockDimZ = 1;\n"
        "    config.sharedMemBytes = %s_SHARED;\n    config.hStream = stream;\n"
        "    config.attrs = attribute;\n    config.numAttrs = %d;\n"
        "    result = cuLaunchKernelEx(&config, call.function, call.params, NULL);\n",
        big, big, cluster + early);
}

void
header_launch(const HeaderWriter *w, const TirFn *fn, const LirFn *code, uint32_t index)
{
    Buf *out = w->out;
    const char *prefix = header_prefix(w, fn);

    write_call(w, fn, code);
    write_pack(w, fn, code, index);
    write_node(w, fn);
    buf_printf(
        out,
        "/* %s; an empty grid is a success.  `message` (which may be NULL) says why not. */\n"
        "static inline CUresult\n%s_launch_message(const %s_module *module, const %s_args *args, "
        "CUstream stream,\n    char *message, size_t bytes)\n{\n",
        w->kernel != NULL ? "Launches this form, with arguments that are checked"
                          : "Checks the arguments and launches",
        prefix, w->stem, header_args_prefix(w, fn));
    buf_printf(
        out,
        "    %s_call call;\n    int entered;\n"
        "    CUresult result = %s_pack(module, args, &call, message, bytes);\n"
        "    if (result != CUDA_SUCCESS || call.grid[0] == 0 || call.grid[1] == 0 || call.grid[2] == 0)\n"
        "        return result;\n"
        "    result = tilec_enter(module->context, &entered);\n"
        "    if (result != CUDA_SUCCESS)\n"
        "        return tilec_driver_says(result, \"%s\", message, bytes);\n",
        prefix, prefix, code->name);
    write_driver_call(w, fn, code);
    buf_printf(
        out,
        "    return tilec_driver_says(tilec_leave(result, entered), \"%s\", message, bytes);\n}\n\n",
        code->name);
    header_plain_launch(w, prefix, header_args_prefix(w, fn));
}

void
header_plain_launch(const HeaderWriter *w, const char *prefix, const char *args)
{
    buf_printf(w->out,
               "static inline CUresult\n%s_launch(const %s_module *module, const %s_args *args, "
               "CUstream stream)\n{\n"
               "    return %s_launch_message(module, args, stream, NULL, 0);\n}\n\n",
               prefix, w->stem, args, prefix);
}
