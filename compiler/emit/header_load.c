/* header_load.c - STEM_load and STEM_unload of a generated header: the module and its functions, in
 * the current context.
 *
 * A program that was compiled for several targets has the functions of all of them in one table;
 * `target` says whose code is loaded.
 */
#include <inttypes.h>

#include "compiler/emit/header.h"

static bool
build_has_maps(const HeaderWriter *w)
{
    for (uint32_t i = 0; i < w->module->fns.n; i++) {
        KernelForms forms = header_forms(w, i);
        for (uint32_t k = 1; k < forms.n; k++)
            if (forms.at[k].code->maps.n > 0)
                return true;
        if (w->facts->kernel[i]->maps.n > 0)
            return true;
    }
    return false;
}

bool
header_has_maps(const HeaderWriter *w)
{
    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        if (build_has_maps(&own))
            return true;
    }
    return false;
}

/* Of the function that loads the code: its variables, and what it asks of the GPU. */
static void
write_facts(const HeaderWriter *w)
{
    Buf *out = w->out;

    buf_printf(
        out,
        "    char jit_log[2048] = \"\";\n"
        "    CUjit_option keys[2] = {CU_JIT_ERROR_LOG_BUFFER, "
        "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};\n"
        "    void *values[2] = {jit_log, (void *)(uintptr_t)sizeof jit_log};\n"
        "    int major = 0, minor = 0, have, limit = 0;\n"
        "    CUdevice device;\n"
        "    CUresult result;\n\n"
        "%s"
        "    result = cuCtxGetDevice(&device);\n"
        "    if (result == CUDA_SUCCESS)\n"
        "        result = cuCtxGetCurrent(&out->context);\n"
        "    if (result == CUDA_SUCCESS)\n"
        "        result = cuDeviceGetAttribute(\n"
        "            &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);\n"
        "    if (result == CUDA_SUCCESS)\n"
        "        result = cuDeviceGetAttribute(\n"
        "            &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);\n"
        "    if (result == CUDA_SUCCESS)\n"
        "        result = cuDeviceGetAttribute(\n"
        "            &limit, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);\n",
        header_has_code(w)
            ? "    if (!out)\n        return tilec_refuse(message, bytes, \"the module is NULL\");\n"
            : "    if (!out || !ptx)\n"
              "        return tilec_refuse(message, bytes, \"the %s is NULL\", out ? \"PTX\" : "
              "\"module\");\n");
    for (uint32_t k = 0; k < DEVICE_FACTS; k++)
        buf_printf(out,
                   "    if (result == CUDA_SUCCESS)\n"
                   "        result = cuDeviceGetAttribute(\n"
                   "            &out->%s, CU_DEVICE_ATTRIBUTE_%s, device);\n",
                   device_facts[k].name, device_facts[k].attribute);
    buf_add(out, "    if (result != CUDA_SUCCESS) {\n"
                 "        tilec_refuse(message, bytes, \"no CUDA context is current\");\n"
                 "        return result;\n    }\n"
                 "    have = major * 10 + minor;\n    if (!(");
    for (uint32_t b = 0; b < w->n_builds; b++) {
        const char *condition = header_arch_condition(out->arena, w->builds[b].facts->arch);
        buf_printf(out, w->n_builds > 1 ? "%s(%s)" : "%s%s", b > 0 ? " || " : "", condition);
    }
    buf_printf(
        out,
        ")) {\n"
        "        tilec_refuse(message, bytes, \"the code is for %s; this GPU is sm_%%d\", have);\n"
        "        return CUDA_ERROR_NO_BINARY_FOR_GPU;\n    }\n",
        header_arch_list(w));
}

/* FNV-1a, as tilec_is_described has it, of the metadata with the NUL behind it. */
static uint64_t
digest_of(const HeaderBuild *build, Arena *arena)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    Buf json;

    buf_init(&json, arena);
    metadata_json(build->module, build->facts, &json);
    for (uint32_t k = 0; k <= json.n; k++)
        digest = (digest ^ (unsigned char)json.at[k]) * UINT64_C(0x100000001b3);
    return digest;
}

/* Code of another compilation is refused; code that the caller gives may be for any of the
 * targets. */
static void
write_digests(const HeaderWriter *w)
{
    Buf *out = w->out;
    static const char refusal[] =
        "result = tilec_refuse(message, bytes,\n"
        "                              \"the code is of another compilation than this header: make both with the "
        "same options\");\n";

    if (w->n_builds == 1) {
        buf_printf(out,
                   "    if (!tilec_is_described(out->module, UINT64_C(0x%016" PRIx64
                   ")))\n        %s",
                   digest_of(w->builds, out->arena), refusal);
        return;
    }
    buf_printf(
        out,
        "    out->target = target;\n"
        "    for (int k = 0; k < %u && !tilec_is_described(out->module, digests[out->target]); k++)\n"
        "        out->target = k;\n"
        "    if (!tilec_is_described(out->module, digests[out->target]))\n        %s",
        w->n_builds, refusal);
}

/* The module and its kernels. */
static void
write_kernels(const HeaderWriter *w)
{
    Buf *out = w->out;
    uint32_t n = header_function(w, w->module->fns.n);
    bool one = w->n_builds == 1;

    header_choose_code(w);
    buf_add(out,
            "    result = cuModuleLoadDataEx(&out->module, ptx, 2, keys, values);\n"
            "    if (result != CUDA_SUCCESS) {\n"
            "        tilec_refuse(message, bytes, \"the code cannot be loaded: %s\", jit_log);\n"
            "        return result;\n    }\n");
    write_digests(w);
    buf_printf(
        out,
        "    for (int i = %s; i < %s && result == CUDA_SUCCESS; i++) {\n"
        "        if (shared[i] > limit) {\n"
        "            tilec_refuse(message, bytes, \"%%s needs %%d bytes of shared memory; this "
        "GPU has %%d\",\n"
        "                         entries[i], shared[i], limit);\n"
        "            result = CUDA_ERROR_INVALID_VALUE;\n            break;\n        }\n"
        "        CUfunction *kernel = &out->kernel[%s];\n"
        "        result = cuModuleGetFunction(kernel, out->module, entries[i]);\n"
        "        if (result == CUDA_SUCCESS && shared[i] > 48 * 1024)\n"
        "            result = cuFuncSetAttribute(*kernel,\n"
        "                                        "
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared[i]);\n"
        "        if (result != CUDA_SUCCESS)\n"
        "            tilec_refuse(message, bytes, \"the kernel %%s cannot be set up\", "
        "entries[i]);\n    }\n",
        one ? "0" : "first[out->target]",
        one ? arena_printf(out->arena, "%u", (unsigned)n) : "first[out->target + 1]",
        one ? "i" : "i - first[out->target]");
}

/* All that the module of a target has, forms of a kernel together; returns how many. */
static uint32_t
functions_of(const HeaderWriter *w, const LirFn ***functions)
{
    uint32_t n = header_function(w, w->module->fns.n);
    const LirFn **all = arena_array(w->out->arena, const LirFn *, n + 1);

    for (uint32_t k = 0; k < w->module->fns.n; k++) {
        const LirFn **at = all + header_function(w, k);
        KernelForms forms = header_forms(w, k);
        at[0] = w->facts->kernel[k];
        for (uint32_t i = 1; i < forms.n; i++)
            at[i] = forms.at[i].code;
    }
    *functions = all;
    return n;
}

/* What is known of the functions of all targets, one target behind the other. */
static void
write_tables(const HeaderWriter *w)
{
    Buf entries, shared, first, digests, *out = w->out;
    uint32_t n = 0;

    buf_init(&entries, out->arena);
    buf_init(&shared, out->arena);
    buf_init(&first, out->arena);
    buf_init(&digests, out->arena);
    for (uint32_t b = 0; b < w->n_builds; b++) {
        HeaderWriter own = header_of_build(w, b);
        const LirFn **functions;
        uint32_t of_build = functions_of(&own, &functions);
        for (uint32_t i = 0; i < of_build; i++) {
            buf_printf(&entries, "%s\"%s\"", n + i ? ", " : "", functions[i]->name);
            buf_printf(&shared, "%s%u", n + i ? ", " : "", (unsigned)functions[i]->shared_bytes);
        }
        n += of_build;
        buf_printf(&first, ", %u", (unsigned)n);
        buf_printf(&digests, "%sUINT64_C(0x%016" PRIx64 ")", b ? ", " : "",
                   digest_of(&w->builds[b], out->arena));
    }
    buf_printf(out, "    static const char *const entries[%u] = {%s};\n", (unsigned)n,
               buf_text(&entries));
    buf_printf(out, "    static const int shared[%u] = {%s};\n", (unsigned)n, buf_text(&shared));
    if (w->n_builds > 1)
        buf_printf(out,
                   "    static const int first[%u] = {0%s}; /* of a target */\n"
                   "    static const uint64_t digests[%u] = {%s};\n",
                   w->n_builds + 1, buf_text(&first), w->n_builds, buf_text(&digests));
}

static void
write_zeros(const HeaderWriter *w)
{
    buf_add(
        w->out,
        "    out->zeros = 0;\n"
        "    if (result == CUDA_SUCCESS) {\n"
        "        result = cuMemAlloc(&out->zeros, 128);\n"
        "        if (result == CUDA_SUCCESS)\n"
        "            result = cuMemsetD8(out->zeros, 0, 128);\n"
        "        if (result != CUDA_SUCCESS)\n"
        "            tilec_refuse(message, bytes, \"128 bytes of device memory cannot be had\");\n"
        "        if (result != CUDA_SUCCESS && out->zeros)\n"
        "            cuMemFree(out->zeros);\n"
        "    }\n");
}

void
header_load(const HeaderWriter *w)
{
    Buf *out = w->out;

    buf_printf(out,
               "/* Loads the PTX into the current context%s.\n"
               " * On failure `message` (which may be NULL) says why. */\n"
               "static inline CUresult\n"
               "%s_load(%s_module *out, const char *ptx, char *message, size_t bytes)\n{\n",
               !header_has_code(w) ? ""
               : w->n_builds == 1  ? " (ptx NULL: the code below)"
                                  : " (ptx NULL: the code below for the target nearest to the GPU)",
               w->stem, w->stem);
    write_tables(w);
    write_facts(w);
    write_kernels(w);
    if (header_has_maps(w))
        write_zeros(w);
    buf_printf(out,
               "    if (result != CUDA_SUCCESS)\n        cuModuleUnload(out->module);\n"
               "    return result;\n}\n\n"
               "static inline CUresult\n%s_unload(%s_module *module)\n{\n"
               "    if (!module)\n        return CUDA_ERROR_INVALID_VALUE;\n%s"
               "    return cuModuleUnload(module->module);\n}\n\n",
               w->stem, w->stem, header_has_maps(w) ? "    cuMemFree(module->zeros);\n" : "");
}
