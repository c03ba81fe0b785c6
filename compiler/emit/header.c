/* header.c - --emit=header: one C99 header that loads, checks and launches the kernels of a module
 * with the CUDA Driver API, for programs that link nothing of ours (see metadata.h).
 *
 * The text is also C++.  Names: STEM is the source's name, KERNEL the kernel's, with STEM_ before
 * it when it does not begin with STEM.
 *
 *     struct KERNEL_args                 a view for each tensor, a member for each scalar
 *     KERNEL_BLOCK, _SHARED, ..          what the launch needs, for bindings to other languages
 *     STEM_load, STEM_unload             module and functions, in the current context, where all
 *                                        threads launch
 *     KERNEL_check, _grid, _launch       refuse with a sentence; the grid; the launch
 *     KERNEL_pack, _node                 a launch put together, for nodes of CUDA graphs
 *     KERNEL_bytes_NAME                  bytes of memory that the caller gives beside the tensors
 *     KERNEL_form, KERNEL_v1_..          of a kernel of several forms: which one these arguments take
 *     KERNEL_sm_90_..                    of a program for several targets: of one of them
 */
#include <ctype.h>
#include <string.h>

#include "compiler/emit/header.h"

/* ---- names ---- */

static const char *
stem_name(Arena *arena, const char *source)
{
    const char *base = strrchr(source, '/');

    base = base ? base + 1 : source;
    char *stem = arena_strndup(arena, base, strcspn(base, "."));
    for (char *c = stem; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    return *stem && !isdigit((unsigned char)*stem) ? stem : arena_printf(arena, "tile_%s", stem);
}

/* A C string literal. */
static void
add_literal(Buf *out, const char *text)
{
    buf_char(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_printf(out, "\\%c", *text);
        else if (*text == '?')
            buf_add(out, "\\?"); /* no trigraphs */
        else if (*text == '\n')
            buf_add(out, "\\n");
        else
            buf_char(out, *text);
    }
    buf_char(out, '"');
}

/* ---- what every generated header shares, guarded so that several can be included ---- */

static void
write_shared_types(Buf *out)
{
    buf_add(
        out,
        "#ifndef TILEC_GENERATED_COMMON\n"
        "#define TILEC_GENERATED_COMMON\n"
        "/* A tensor in device memory.  Shapes and strides count elements; the last stride is 1. */\n");
    for (int rank = 1; rank <= TENSOR_MAX_RANK; rank++)
        buf_printf(out,
                   "typedef struct tilec_view%d {\n    CUdeviceptr data;\n    int64_t shape[%d], "
                   "stride[%d];\n} tilec_view%d;\n",
                   rank, rank, rank, rank);
    buf_add(out,
            "static inline int64_t\n"
            "tilec_div(int64_t a, int64_t b)\n"
            "{\n"
            "    return b ? a / b : 0;\n"
            "}\n"
            "static inline int64_t\n"
            "tilec_rem(int64_t a, int64_t b)\n"
            "{\n"
            "    return b ? a % b : 1; /* as if it did not divide */\n"
            "}\n"
            "static inline int64_t\n"
            "tilec_cdiv(int64_t a, int64_t b)\n"
            "{\n"
            "    return b ? (a + b - 1) / b : 0;\n"
            "}\n"
            "/* Why a launch is refused, in `message` (which may be NULL). */\n"
            "static inline CUresult\n"
            "tilec_refuse(char *message, size_t bytes, const char *format, ...)\n"
            "{\n"
            "    va_list list;\n"
            "\n"
            "    va_start(list, format);\n"
            "    if (message && bytes)\n"
            "        vsnprintf(message, bytes, format, list);\n"
            "    va_end(list);\n"
            "    return CUDA_ERROR_INVALID_VALUE;\n"
            "}\n"
            "/* A thread that has no context, or another one, launches in that of the module. */\n"
            "static inline CUresult\n"
            "tilec_enter(CUcontext context, int *entered)\n"
            "{\n"
            "    CUcontext now = NULL;\n"
            "    CUresult result = cuCtxGetCurrent(&now);\n"
            "\n"
            "    *entered = result == CUDA_SUCCESS && now != context;\n"
            "    if (*entered)\n"
            "        result = cuCtxPushCurrent(context);\n"
            "    return result;\n"
            "}\n"
            "static inline CUresult\n"
            "tilec_leave(CUresult result, int entered)\n"
            "{\n"
            "    CUcontext left;\n"
            "\n"
            "    if (entered)\n"
            "        cuCtxPopCurrent(&left);\n"
            "    return result;\n"
            "}\n");
}

/* Of the same: what the driver and the code say. */
static void
write_shared_checks(Buf *out)
{
    buf_add(
        out,
        "/* What the driver says of a launch that it refuses. */\n"
        "static inline CUresult\n"
        "tilec_driver_says(CUresult result, const char *kernel, char *message, size_t bytes)\n"
        "{\n"
        "    const char *text = NULL;\n"
        "\n"
        "    if (result != CUDA_SUCCESS && cuGetErrorString(result, &text) != CUDA_SUCCESS)\n"
        "        text = NULL;\n"
        "    if (result != CUDA_SUCCESS)\n"
        "        tilec_refuse(message, bytes, \"the driver does not launch %s: %s\", kernel,\n"
        "                     text ? text : \"an unknown error\");\n"
        "    return result;\n"
        "}\n"
        "/* Whether a module is what its header describes, by a digest of its metadata.  Code that has none is\n"
        " * taken as it is. */\n"
        "static inline int\n"
        "tilec_is_described(CUmodule module, uint64_t digest)\n"
        "{\n"
        "    uint64_t have = UINT64_C(0xcbf29ce484222325);\n"
        "    unsigned char part[256];\n"
        "    CUdeviceptr at;\n"
        "    size_t n, most;\n"
        "\n"
        "    if (cuModuleGetGlobal(&at, &n, module, \"" METADATA_SYMBOL "\") != CUDA_SUCCESS)\n"
        "        return 1;\n"
        "    for (size_t k = 0; k < n; k += most) {\n"
        "        most = n - k < sizeof part ? n - k : sizeof part;\n"
        "        if (cuMemcpyDtoH(part, at + k, most) != CUDA_SUCCESS)\n"
        "            return 0;\n"
        "        for (size_t i = 0; i < most; i++)\n"
        "            have = (have ^ part[i]) * UINT64_C(0x100000001b3);\n"
        "    }\n"
        "    return have == digest;\n"
        "}\n");
}

static void
write_check_view(Buf *out)
{
    buf_add(
        out,
        "/* Address, rank, alignment and strides of one tensor. */\n"
        "static inline CUresult\n"
        "tilec_check_view(const char *name, CUdeviceptr data, const int64_t *shape,\n"
        "                 const int64_t *stride, int rank, int element_bytes, int align,\n"
        "                 char *message, size_t bytes)\n"
        "{\n"
        "    int empty = 0;\n"
        "\n"
        "    for (int d = 0; d < rank; d++)\n"
        "        empty |= shape[d] == 0;\n"
        "    if (!data && !empty)\n"
        "        return tilec_refuse(message, bytes, \"the address of %s is null\", name);\n"
        "    if (data % (CUdeviceptr)align)\n"
        "        return tilec_refuse(message, bytes, \"the address of %s must be a multiple of %d "
        "bytes\",\n"
        "                            name, align);\n"
        "    for (int d = 0; d < rank; d++) {\n"
        "        if (shape[d] < 0 || shape[d] > INT32_MAX)\n"
        "            return tilec_refuse(message, bytes, \"dimension %d of %s is %lld, which 32 bits "
        "cannot hold\",\n"
        "                                d, name, (long long)shape[d]);\n"
        "        if (shape[d] > 1 && d == rank - 1 && stride[d] != 1)\n"
        "            return tilec_refuse(message, bytes, \"the last dimension of %s must be "
        "contiguous\", name);\n"
        "        if (shape[d] > 1 && d < rank - 1 && stride[d] * element_bytes % align)\n"
        "            return tilec_refuse(message, bytes, \"stride %d of %s is %lld bytes; it must be "
        "a multiple of %d\",\n"
        "                                d, name, (long long)stride[d] * element_bytes, align);\n"
        "    }\n"
        "    return CUDA_SUCCESS;\n"
        "}\n");
}

/* What the headers of several programs have in common, and include once. */
static void
write_shared_part(Buf *out)
{
    write_shared_types(out);
    write_shared_checks(out);
    write_check_view(out);
    buf_add(out, "#endif /* TILEC_GENERATED_COMMON */\n\n");
}

/* What headers with tensor maps share; it needs the cuda.h of CUDA 12. */
static void
write_map_part(Buf *out)
{
    buf_add(
        out,
        "#ifndef TILEC_GENERATED_MAPS\n"
        "#define TILEC_GENERATED_MAPS\n"
        "/* What a tensor map asks of the strides, beside what tilec_check_view does. */\n"
        "static inline CUresult\n"
        "tilec_check_map(const char *name, const int64_t *shape, const int64_t *stride, int rank,\n"
        "                int element_bytes, char *message, size_t bytes)\n"
        "{\n"
        "    for (int d = 0; d < rank - 1; d++) {\n"
        "        int64_t pitch = stride[d] * element_bytes;\n"
        "        if (shape[d] > 1 && (pitch < 0 || pitch >= INT64_C(1) << 40 || pitch % 16))\n"
        "            return tilec_refuse(message, bytes, \"stride %d of %s is %lld bytes; a tensor "
        "map takes \"\n"
        "                                \"multiples of 16 below 2^40\", d, name, (long long)pitch);\n"
        "    }\n"
        "    return CUDA_SUCCESS;\n"
        "}\n"
        "/* `dim` and `box` from the innermost dimension out.  A tensor without elements has no map of\n"
        " * its own: it gets one of a single zero, around which everything is out of bounds. */\n"
        "static inline CUresult\n"
        "tilec_make_map(CUtensorMap *map, CUtensorMapDataType type, int element_bytes, CUdeviceptr data,\n"
        "               const int64_t *shape, const int64_t *stride, int rank, const int *dim,\n"
        "               const cuuint32_t *box, CUtensorMapSwizzle swizzle,\n"
        "               CUtensorMapL2promotion promotion, CUdeviceptr zeros)\n"
        "{\n"
        "    cuuint64_t size[5], pitches[5] = {0};\n"
        "    cuuint32_t step[5] = {1, 1, 1, 1, 1};\n"
        "    int64_t span = element_bytes; /* bytes that the dimensions so far reach over */\n"
        "    int empty = 0;\n"
        "\n"
        "    for (int d = 0; d < rank; d++)\n"
        "        empty |= shape[dim[d]] == 0;\n"
        "    for (int d = 0; d < rank; d++) {\n"
        "        int64_t extent = empty ? 1 : shape[dim[d]], pitch = element_bytes;\n"
        "        if (d > 0) {\n"
        "            pitch = extent > 1 ? stride[dim[d]] * element_bytes : (span + 15) / 16 * 16;\n"
        "            pitches[d - 1] = (cuuint64_t)pitch;\n"
        "        }\n"
        "        size[d] = (cuuint64_t)extent;\n"
        "        span = extent * pitch > span ? extent * pitch : span;\n"
        "    }\n"
        "    for (int d = 1; d + 1 < rank && !empty; d++) {\n"
        "        if (dim[d] != dim[rank - 1])\n"
        "            continue;\n"
        "        pitches[rank - 2] = pitches[d - 1]; /* named twice: boxes end before the tensor does */\n"
        "        data -= box[d] * pitches[d - 1];\n"
        "        size[d] = box[d];\n"
        "        size[rank - 1]++;\n"
        "    }\n"
        "    return cuTensorMapEncodeTiled(map, type, (cuuint32_t)rank,\n"
        "                                  (void *)(uintptr_t)(empty ? zeros : data), size, pitches, box,\n"
        "                                  step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,\n"
        "                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);\n"
        "}\n"
        "#endif /* TILEC_GENERATED_MAPS */\n\n");
}

/* ---- one kernel ---- */

static void
write_memory_members(const HeaderWriter *w, const TirFn *fn, const TirMemory *memories, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const TirMemory *memory = &memories[i];
        buf_printf(
            w->out, "    CUdeviceptr %s; /* %s_bytes_%s() bytes, aligned to 256%s */\n",
            header_memory(w->out->arena, memory), header_args_prefix(w, fn), memory->name,
            memory->kind == MEMORY_SCRATCH
                ? ": zero before the first launch; each\n     * leaves it zero.  Launches that "
                  "may run at the same time need two"
                : "; shared with the module's\n     * other kernels that name it, for one run of "
                  "them");
    }
}

/* What a launch needs, for bindings to other languages. */
static void
write_numbers_of(const HeaderWriter *w, const TirFn *fn, const LirFn *code)
{
    Buf *out = w->out;
    const char *big = header_upper(out->arena, header_prefix(w, fn));

    buf_printf(out, "#define %s_ENTRY \"%s\"\n", big, code->name);
    buf_printf(out, "#define %s_BLOCK %u /* threads; it runs with no other number */\n", big,
               (unsigned)code->threads);
    buf_printf(out, "#define %s_SHARED %u /* bytes of dynamic shared memory */\n", big,
               (unsigned)code->shared_bytes);
    for (uint32_t d = 0; d < 3; d++)
        buf_printf(out, "#define %s_CLUSTER_%c %u\n", big, "XYZ"[d],
                   (unsigned)cluster_extent(code, d));
}

/* Adds what any form of the kernel takes, as many bytes as the one that takes the most. */
static void
add_memories(Arena *arena, const TirFn *fn, KernelForms forms, HeaderMemories *all)
{
    for (uint32_t k = 0; k == 0 || k < forms.n; k++) {
        const TirFn *form = k < forms.n ? forms.at[k].fn : fn;
        for (uint32_t i = 0; i < form->memories.n; i++) {
            const TirMemory *memory = &form->memories.at[i];
            uint32_t had = 0;
            while (had < all->n && strcmp(all->at[had].name, memory->name) != 0)
                had++;
            if (had == all->n)
                vec_push(arena, all, *memory);
            else
                all->at[had].bytes = host_binary(arena, HOST_MAX, all->at[had].bytes, memory->bytes);
        }
    }
}

/* What the launches of kernel number `k` need. */
static void
write_numbers(const HeaderWriter *w, uint32_t k)
{
    const TirFn *fn = w->module->fns.at[k];
    KernelForms forms = header_forms(w, k);
    Buf *out = w->out;

    buf_printf(out, "/* ---- kernel %s", fn->name);
    if (w->target != NULL)
        buf_printf(out, " for %s", w->target);
    for (uint32_t i = 0; i < fn->constants.n; i++)
        buf_printf(out, "%s%s=%s", i ? ", " : ": ", fn->constants.at[i].name,
                   fn->constants.at[i].value);
    buf_add(out, " ---- */\n");
    if (forms.n > 0)
        buf_printf(out, "#define %s_FORMS %u\n", header_upper(out->arena, header_prefix(w, fn)),
                   forms.n);
    for (uint32_t i = 0; i < forms.n; i++) {
        HeaderWriter form = *w;
        form.kernel = fn;
        form.form = i;
        write_numbers_of(&form, forms.at[i].fn, forms.at[i].code);
    }
    if (forms.n == 0)
        write_numbers_of(w, fn, w->facts->kernel[k]);
}

static void
write_args(const HeaderWriter *w, const TirFn *fn, const HeaderMemories *memories)
{
    Buf *out = w->out;
    const char *prefix = header_args_prefix(w, fn), *big = header_upper(out->arena, prefix);

    for (uint32_t i = 0; i < memories->n; i++) {
        const char *member = header_memory(out->arena, &memories->at[i]);
        buf_printf(
            out, "#define %s_HAS_%s 1 /* args.%s is there; another compilation may need none */\n",
            big, header_upper(out->arena, member), member);
    }
    buf_printf(out, "\ntypedef struct %s_args {\n", prefix);
    for (uint32_t i = 0; i < fn->tensors.n; i++) {
        const TirTensor *t = fn->tensors.at[i];
        buf_printf(out, "    tilec_view%u %s; /* %s %s[", (unsigned)t->rank,
                   header_identifier(out->arena, t->name),
                   t->mode == TENSOR_IN    ? "in"
                   : t->mode == TENSOR_OUT ? "out"
                                           : "inout",
                   dtype_name(t->dtype));
        for (uint32_t d = 0; d < t->rank; d++) {
            buf_add(out, d ? ", " : "");
            if (t->dim[d].constant)
                buf_printf(out, "%d", (int)t->dim[d].constant);
            else
                buf_add(out, tir_size_text(fn, t->dim[d].size));
        }
        buf_printf(out, "], aligned to %u bytes */\n", (unsigned)t->align);
    }
    for (uint32_t i = 0; i < fn->scalars.n; i++)
        buf_printf(out, "    %s %s;\n", dtype_c(fn->scalars.at[i].dtype),
                   header_identifier(out->arena, fn->scalars.at[i].name));
    write_memory_members(w, fn, memories->at, memories->n);
    buf_printf(out, "} %s_args;\n\n", prefix);
}

static void
write_check_tensor(const HeaderWriter *w, const TirFn *fn, const TirTensor *t)
{
    Buf *out = w->out;
    const char *name = header_identifier(out->arena, t->name);

    buf_printf(
        out,
        "    result = tilec_check_view(\"%s\", args->%s.data, args->%s.shape, args->%s.stride, "
        "%u, %u, %u,\n                              message, bytes);\n"
        "    if (result != CUDA_SUCCESS)\n        return result;\n",
        t->name, name, name, name, (unsigned)t->rank, (unsigned)dtype_bits(t->dtype) / 8,
        (unsigned)t->align);
    for (uint32_t d = 0; d < t->rank; d++) {
        if (t->dim[d].constant)
            buf_printf(
                out,
                "    if (args->%s.shape[%u] != %d)\n        return tilec_refuse(message, bytes, "
                "\"dimension %u of %s must be %d, not %%lld\",\n"
                "                            (long long)args->%s.shape[%u]);\n",
                name, (unsigned)d, (int)t->dim[d].constant, (unsigned)d, t->name,
                (int)t->dim[d].constant, name, (unsigned)d);
        else
            buf_printf(
                out,
                "    if (args->%s.shape[%u] != size_%s)\n        return tilec_refuse(message, "
                "bytes, \"dimension %u of %s is %%lld, but %s is %%lld\",\n"
                "                            (long long)args->%s.shape[%u], (long long)size_%s);"
                "\n",
                name, (unsigned)d, fn->sizes.at[t->dim[d].size].name, (unsigned)d, t->name,
                fn->sizes.at[t->dim[d].size].name, name, (unsigned)d,
                fn->sizes.at[t->dim[d].size].name);
    }
}

static bool
asks_for_device(const HostExpr *e)
{
    return e != NULL && (e->kind == HOST_DEVICE || asks_for_device(e->a) || asks_for_device(e->b));
}

/* A memory that has bytes has an address; how many it has may follow from the arguments alone. */
static void
write_check_memory(const HeaderWriter *w, const TirFn *fn, const TirMemory *memory)
{
    Buf *out = w->out;
    const char *member = header_memory(out->arena, memory);

    buf_printf(out, "    if (!args->%s", member);
    if (!asks_for_device(memory->bytes)) {
        buf_add(out, " && ");
        header_expression(out, fn, memory->bytes, false);
        buf_add(out, " > 0");
    }
    buf_printf(
        out,
        ")\n        return tilec_refuse(message, bytes, \"%s is null: it takes the address of "
        "%s_bytes_%s() bytes%s\");\n",
        member, header_args_prefix(w, fn), memory->name,
        memory->kind == MEMORY_SCRATCH ? " of zeros" : "");
}

static void
write_check_maps(const HeaderWriter *w, const TirFn *fn, const LirFn *code)
{
    Buf *out = w->out;

    for (uint32_t i = 0; i < code->maps.n; i++) {
        const TirTensor *t = map_tensor(fn, &code->maps.at[i]);
        const char *name = header_identifier(out->arena, t->name);
        bool again = false;
        for (uint32_t j = 0; j < i; j++)
            again |= map_tensor(fn, &code->maps.at[j]) == t;
        if (!again)
            buf_printf(
                out,
                "    result = tilec_check_map(\"%s\", args->%s.shape, args->%s.stride, %u, %u, "
                "message, bytes);\n"
                "    if (result != CUDA_SUCCESS)\n        return result;\n",
                t->name, name, name, (unsigned)t->rank, (unsigned)dtype_bits(t->dtype) / 8);
    }
}

static void
write_check(const HeaderWriter *w, const TirFn *fn, const LirFn *code, KernelForms forms,
            const HeaderMemories *memories)
{
    Buf *out = w->out;

    buf_printf(
        out,
        "/* CUDA_SUCCESS when the kernel can run with these arguments, else why not. */\n"
        "static inline CUresult\n%s_check(const %s_args *args, char *message, size_t bytes)\n{\n"
        "    CUresult result;\n"
        "    if (!args)\n        return tilec_refuse(message, bytes, \"`args` is NULL\");\n",
        header_shared_prefix(w, fn), header_args_prefix(w, fn));
    header_sizes(w, fn);
    buf_char(out, '\n');
    for (uint32_t i = 0; i < fn->tensors.n; i++)
        write_check_tensor(w, fn, fn->tensors.at[i]);
    write_check_maps(w, fn, code);
    for (uint32_t k = 1; k < forms.n; k++)
        write_check_maps(w, forms.at[k].fn, forms.at[k].code);
    for (uint32_t i = 0; i < memories->n; i++)
        write_check_memory(w, fn, &memories->at[i]);
    for (uint32_t i = 0; i < fn->requires.n; i++) {
        const TirRequire *require = &fn->requires.at[i];
        buf_add(out, "    if (!(");
        header_expression(out, fn, require->condition, false);
        buf_add(out, "))\n        return tilec_refuse(message, bytes, \"%s\", ");
        add_literal(out, require->message ? require->message : "a requirement is not met");
        buf_add(out, ");\n");
    }
    buf_add(out, "    (void)result;\n    return CUDA_SUCCESS;\n}\n\n");
}

void
header_grid(const HeaderWriter *w, const TirFn *fn)
{
    Buf *out = w->out;
    const char *prefix = header_prefix(w, fn);

    buf_printf(out,
               "static inline void\n%s_grid(const %s_module *module, const %s_args *args, "
               "int64_t grid[3])\n{\n"
               "    grid[0] = grid[1] = grid[2] = 0;\n"
               "    if (!module || !args)\n        return;\n",
               prefix, w->stem, header_args_prefix(w, fn));
    header_sizes(w, fn);
    buf_add(out, "    (void)module;\n    (void)args;\n");
    for (uint32_t d = 0; d < 3; d++) {
        buf_printf(out, "    grid[%u] = ", (unsigned)d);
        header_expression(out, fn, launch_extent(out->arena, fn, d), false);
        buf_add(out, ";\n");
    }
    buf_add(out, "}\n\n");
}

static void
write_memory_bytes(const HeaderWriter *w, const TirFn *fn, const HeaderMemories *memories)
{
    Buf *out = w->out;
    const char *prefix = header_prefix(w, fn);

    for (uint32_t i = 0; i < memories->n; i++) {
        buf_printf(
            out,
            "static inline size_t\n%s_bytes_%s(const %s_module *module, const %s_args *args)\n"
            "{\n    if (!module || !args)\n        return 0;\n",
            prefix, memories->at[i].name, w->stem, header_args_prefix(w, fn));
        header_sizes(w, fn);
        buf_add(out, "    (void)module;\n    (void)args;\n    return (size_t)(");
        header_expression(out, fn, memories->at[i].bytes, false);
        buf_add(out, ");\n}\n\n");
    }
}

/* ---- the module ---- */

/* What launches the code of one target. */
static void
write_kernel(const HeaderWriter *w, uint32_t k)
{
    const TirFn *fn = w->module->fns.at[k];
    const LirFn *code = w->facts->kernel[k];
    KernelForms forms = header_forms(w, k);
    HeaderMemories memories = {0};

    add_memories(w->out->arena, fn, forms, &memories);
    write_check(w, fn, code, forms, &memories);
    for (uint32_t i = 0; i < forms.n; i++) {
        HeaderWriter form = *w;
        form.kernel = fn;
        form.form = i;
        header_grid(&form, forms.at[i].fn);
        header_launch(&form, forms.at[i].fn, forms.at[i].code, header_function(w, k) + i);
    }
    if (forms.n > 0) {
        write_memory_bytes(w, fn, &memories);
        header_form_choice(w, fn, forms);
        return;
    }
    header_grid(w, fn);
    write_memory_bytes(w, fn, &memories);
    header_launch(w, fn, code, header_function(w, k));
}

/* A kernel: its arguments, and the code of each target. */
static void
write_kernels(const HeaderWriter *w, uint32_t k)
{
    HeaderMemories memories = {0};

    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        write_numbers(&own, k);
        add_memories(w->out->arena, own.module->fns.at[k], header_forms(&own, k), &memories);
    }
    write_args(w, w->module->fns.at[k], &memories);
    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        write_kernel(&own, k);
    }
    if (w->n_builds > 1)
        header_target_choice(w, k, &memories);
}

/* STEM_module. */
static void
write_module(const HeaderWriter *w)
{
    uint32_t most = 0;
    Buf *out = w->out;

    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        uint32_t n = header_function(&own, own.module->fns.n);
        most = n > most ? n : most;
    }
    buf_printf(
        out,
        "typedef struct %s_module {\n    CUcontext context; /* of the thread that loaded it */\n"
        "    CUmodule module;\n    CUfunction kernel[%u];\n"
        "    int %s, %s; /* of the device */\n",
        w->stem, (unsigned)most, device_facts[DEVICE_SM_COUNT].name,
        device_facts[DEVICE_SM_SHARED].name);
    for (uint32_t b = 0; w->n_builds > 1 && b < w->n_builds; b++)
        buf_printf(out, "%s %u %s%s", b == 0 ? "    int target; /* whose code is loaded:" : ",", b,
                   w->builds[b].facts->arch, b + 1 == w->n_builds ? " */\n" : "");
    if (header_has_maps(w))
        buf_add(out, "    CUdeviceptr zeros; /* for the maps of empty tensors */\n");
    buf_printf(out, "} %s_module;\n\n", w->stem);
}

static void
write_head(const HeaderWriter *w)
{
    const char *guard = header_upper(w->out->arena, w->stem);
    Buf *out = w->out;

    buf_printf(out,
               "/* %s.h - made by tilec %s from %s for %s: launches its kernels with the CUDA "
               "Driver API.\n *\n",
               w->stem, w->facts->version, w->facts->source, header_arch_list(w));
    buf_printf(out,
               " *     %s_module module;\n *     %s_load(&module, ptx, message, sizeof message);\n",
               w->stem, w->stem);
    for (uint32_t i = 0; i < w->module->fns.n; i++) {
        const char *prefix = header_args_prefix(w, w->module->fns.at[i]);
        buf_printf(out, " *     %s_launch(&module, &%s, stream); // a %s_args\n", prefix,
                   w->module->fns.n > 1 ? w->module->fns.at[i]->name : "args", prefix);
    }
    buf_add(out, " *\n * Nothing but the CUDA driver (libcuda) has to be linked. */\n");
    buf_printf(out,
               "#ifndef TILEC_GENERATED_%s_H\n#define TILEC_GENERATED_%s_H\n\n"
               "#include <cuda.h>\n#include <stdarg.h>\n#include <stdint.h>\n#include <stdio.h>\n"
               "#include <string.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
               guard, guard);
}

/* The highest rank first. */
static HeaderBuild *
sorted(Arena *arena, const HeaderBuild *builds, uint32_t n)
{
    HeaderBuild *all = arena_array(arena, HeaderBuild, n);

    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = k;
        for (; at > 0 && all[at - 1].rank < builds[k].rank; at--)
            all[at] = all[at - 1];
        all[at] = builds[k];
    }
    return all;
}

void
header_print(const HeaderBuild *builds, uint32_t n, const char *name, Buf *out)
{
    HeaderBuild *all = sorted(out->arena, builds, n);
    HeaderWriter w = {.out = out,
                      .module = all->module,
                      .facts = all->facts,
                      .stem = name ? name : stem_name(out->arena, all->facts->source),
                      .code = &all->code,
                      .builds = all,
                      .n_builds = n};

    write_head(&w);
    write_shared_part(out);
    if (header_has_maps(&w))
        write_map_part(out);
    header_forms_part(&w);
    header_code(&w);
    write_module(&w);
    header_load(&w);
    for (uint32_t k = 0; k < w.module->fns.n; k++)
        write_kernels(&w, k);
    buf_add(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}
