/* header_launch.c - the launch of a kernel in a generated header: maps, parameters, attributes. */
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
    const char *type = t->dtype == DT_F16    ? "FLOAT16"
                       : t->dtype == DT_BF16 ? "BFLOAT16"
                       : t->dtype == DT_F32  ? "FLOAT32"
                       : t->dtype == DT_TF32 ? "TFLOAT32"
                       : t->dtype == DT_I32  ? "INT32"
                                             : "UINT8";
    const char *swizzle = map->swizzle_bytes ? arena_printf(out->arena, "%uB", map->swizzle_bytes)
                                             : "NONE";
    const char *promotion =
        map->l2_promotion_bytes ? arena_printf(out->arena, "L2_%uB", map->l2_promotion_bytes) : "NONE";

    buf_add(out, "    {\n        ");
    write_numbers(out, "int", "dim", map->dim, map->rank);
    buf_add(out, "        ");
    write_numbers(out, "cuuint32_t", "box", map->box, map->rank);
    buf_printf(out,
               "        result = tilec_make_map(&map[%u], CU_TENSOR_MAP_DATA_TYPE_%s, %u, args->%s.data,\n"
               "                                args->%s.shape, args->%s.stride, %u, dim, box,\n"
               "                                CU_TENSOR_MAP_SWIZZLE_%s, "
               "CU_TENSOR_MAP_L2_PROMOTION_%s,\n"
               "                                module->zeros);\n"
               "        if (result != CUDA_SUCCESS)\n            return tilec_leave(result, entered);\n    }\n",
               (unsigned)index, type, (unsigned)dtype_bits(t->dtype) / 8, name, name, name,
               (unsigned)map->rank, swizzle, promotion);
}

/* Parameter `i` as the local `p<i>`; a map has none. */
static void
write_param_value(const HeaderWriter *w, const TirFn *fn, const LirParam *p, uint32_t i)
{
    Arena *arena = w->out->arena;
    const char *tensor = p->kind == LIR_PARAM_POINTER || p->kind == LIR_PARAM_STRIDE
                             ? header_identifier(arena, fn->tensors.at[p->index]->name) : "";

    switch (p->kind) {
    case LIR_PARAM_POINTER:
        buf_printf(w->out, "    CUdeviceptr p%u = args->%s.data;\n", (unsigned)i, tensor);
        break;
    case LIR_PARAM_STRIDE:
        buf_printf(w->out, "    int64_t p%u = args->%s.shape[%u] > 1 ? args->%s.stride[%u] : 0;\n",
                   (unsigned)i, tensor, (unsigned)p->dim, tensor, (unsigned)p->dim);
        break;
    case LIR_PARAM_SIZE:
        buf_printf(w->out, "    int32_t p%u = (int32_t)size_%s;\n", (unsigned)i,
                   fn->sizes.at[p->index].name);
        break;
    case LIR_PARAM_SCALAR:
        buf_printf(w->out, "    %s p%u = args->%s;\n",
                   fn->scalars.at[p->index].dtype == DT_F32 ? "float" : "int32_t", (unsigned)i,
                   header_identifier(arena, fn->scalars.at[p->index].name));
        break;
    case LIR_PARAM_MEMORY:
        buf_printf(w->out, "    CUdeviceptr p%u = args->%s;\n", (unsigned)i,
                   header_memory(arena, &fn->memories.at[p->index]));
        break;
    case LIR_PARAM_ZERO:
        buf_printf(w->out, "    uint32_t p%u = 0;\n", (unsigned)i);
        break;
    case LIR_PARAM_MAP:
    case LIR_PARAM_PLAIN:
        break;
    }
}

static void
write_param_values(const HeaderWriter *w, const TirFn *fn, const LirFn *code)
{
    Buf *out = w->out;
    uint32_t n = code->params.n;

    for (uint32_t i = 0; i < n; i++)
        write_param_value(w, fn, &code->params.at[i], i);
    buf_printf(out, "    void *params[%u] = {", n ? (unsigned)n : 1);
    for (uint32_t i = 0; i < n; i++) {
        const LirParam *p = &code->params.at[i];
        buf_add(out, i == 0 ? "" : i % 12 ? ", " : ",\n        ");
        buf_printf(out, p->kind == LIR_PARAM_MAP ? "&map[%u]" : "&p%u",
                   p->kind == LIR_PARAM_MAP ? (unsigned)p->index : (unsigned)i);
    }
    buf_add(out, n ? "};\n" : "NULL};\n");
}

void
header_launch(const HeaderWriter *w, const TirFn *fn, const LirFn *code, uint32_t index)
{
    Buf *out = w->out;
    const char *prefix = header_prefix(w, fn), *big = header_upper(out->arena, prefix);

    buf_printf(out,
               "/* Checks the arguments and launches; an empty grid is a success. */\n"
               "static inline CUresult\n%s_launch(const %s_module *module, const %s_args *args, "
               "CUstream stream)\n{\n", prefix, w->stem, prefix);
    buf_printf(out,
               "    CUresult result = %s_check(args, NULL, 0);\n    int64_t grid[3];\n"
               "    if (result != CUDA_SUCCESS)\n        return result;\n"
               "    %s_grid(module, args, grid);\n"
               "    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)\n        return CUDA_SUCCESS;\n"
               "    if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535)\n"
               "        return CUDA_ERROR_INVALID_VALUE;\n", prefix, prefix);
    buf_add(out, "    int entered;\n"
                 "    result = tilec_enter(module->context, &entered);\n"
                 "    if (result != CUDA_SUCCESS)\n        return result;\n");
    header_sizes(w, fn);
    if (code->maps.n) /* C99 has no way to ask for the 64 bytes that a map must be aligned to */
        buf_printf(out,
                   "    cuuint64_t room[%u];\n    CUtensorMap *map = (CUtensorMap *)(((uintptr_t)room + "
                   "63) / 64 * 64);\n", (unsigned)code->maps.n * 16 + 8);
    for (uint32_t i = 0; i < code->maps.n; i++)
        write_tensor_map(w, fn, &code->maps.at[i], i);
    write_param_values(w, fn, code);
    bool cluster = has_cluster(code), early = lir_starts_early(code);
    if (!cluster && !early) {
        buf_printf(out,
                   "    result = cuLaunchKernel(module->kernel[%u], (unsigned)grid[0], (unsigned)grid[1], "
                   "(unsigned)grid[2],\n                            %s_BLOCK, 1, 1, %s_SHARED, stream, "
                   "params, NULL);\n    return tilec_leave(result, entered);\n}\n\n", (unsigned)index, big, big);
        return;
    }
    buf_printf(out,
               "    CUlaunchAttribute attribute[%d];\n    CUlaunchConfig config;\n"
               "    memset(attribute, 0, sizeof attribute);\n    memset(&config, 0, sizeof config);\n",
               cluster + early);
    if (cluster)
        buf_printf(out,
                   "    attribute[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;\n"
                   "    attribute[0].value.clusterDim.x = %s_CLUSTER_X;\n"
                   "    attribute[0].value.clusterDim.y = %s_CLUSTER_Y;\n"
                   "    attribute[0].value.clusterDim.z = %s_CLUSTER_Z;\n", big, big, big);
    if (early) /* the kernel itself waits for those before it */
        buf_printf(out,
                   "    attribute[%d].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;\n"
                   "    attribute[%d].value.programmaticStreamSerializationAllowed = 1;\n", cluster, cluster);
    buf_printf(out,
               "    config.gridDimX = (unsigned)grid[0];\n    config.gridDimY = (unsigned)grid[1];\n"
               "    config.gridDimZ = (unsigned)grid[2];\n    config.blockDimX = %s_BLOCK;\n"
               "    config.blockDimY = 1;\n    config.blockDimZ = 1;\n"
               "    config.sharedMemBytes = %s_SHARED;\n    config.hStream = stream;\n"
               "    config.attrs = attribute;\n    config.numAttrs = %d;\n"
               "    result = cuLaunchKernelEx(&config, module->kernel[%u], params, NULL);\n"
               "    return tilec_leave(result, entered);\n}\n\n",
               big, big, cluster + early, (unsigned)index);
}
