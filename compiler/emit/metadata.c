/* metadata.c - see metadata.h: the parameter list, the JSON, the comment, the PTX array. */
#include "compiler/emit/metadata.h"

#include <string.h>

/* ---- parameters ---- */

uint32_t
kernel_param_count(const TirFn *fn, const LaunchFacts *facts)
{
    uint32_t n = fn->sizes.n + fn->scalars.n + facts->n_maps;

    for (uint32_t i = 0; i < fn->tensors.n; i++)
        n += fn->tensors.at[i]->rank > 0 ? fn->tensors.at[i]->rank : 1;
    return n;
}

static void
add_param(KernelParam *param, KernelParam value, uint32_t align, uint32_t *offset)
{
    *offset = (*offset + align - 1) / align * align;
    *param = value;
    param->offset = *offset;
    *offset += param->bytes;
}

uint32_t
kernel_params(const TirFn *fn, const LaunchFacts *facts, KernelParam *out)
{
    uint32_t offset = 0;

    for (uint32_t i = 0; i < fn->tensors.n; i++) {
        add_param(out++, (KernelParam){PARAM_POINTER, i, 0, 0, 0, 8}, 8, &offset);
        for (uint32_t d = 0; d + 1 < fn->tensors.at[i]->rank; d++)
            add_param(out++, (KernelParam){PARAM_STRIDE, i, d, 0, 0, 8}, 8, &offset);
    }
    for (uint32_t i = 0; i < fn->sizes.n; i++)
        add_param(out++, (KernelParam){PARAM_SIZE, 0, 0, i, 0, 4}, 4, &offset);
    for (uint32_t i = 0; i < fn->scalars.n; i++)
        add_param(out++, (KernelParam){PARAM_SCALAR, 0, 0, i, 0, 4}, 4, &offset);
    for (uint32_t i = 0; i < facts->n_maps; i++)
        add_param(out++, (KernelParam){PARAM_TENSOR_MAP, facts->maps[i].tensor, 0, i, 0, 128}, 128,
                  &offset);
    return offset;
}

/* ---- pieces that more than one text uses ---- */

static void
add_quoted(Buf *out, const char *text)
{
    buf_char(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_add(out, "\\n");
        else if (c < 0x20)
            buf_printf(out, "\\u%04x", c);
        else
            buf_char(out, (char)c);
    }
    buf_char(out, '"');
}

/* "key": "text" */
static void
add_field(Buf *out, const char *key, const char *text)
{
    add_quoted(out, key);
    buf_char(out, ':');
    add_quoted(out, text);
}

static const char *
mode_name(TensorMode mode)
{
    return mode == TENSOR_IN ? "in" : mode == TENSOR_OUT ? "out" : "inout";
}

static const char *
param_kind_name(ParamKind kind)
{
    switch (kind) {
    case PARAM_POINTER:
        return "pointer";
    case PARAM_STRIDE:
        return "stride";
    case PARAM_SIZE:
        return "size";
    case PARAM_SCALAR:
        return "scalar";
    case PARAM_TENSOR_MAP:
        return "tensormap";
    }
    return "?";
}

static const char *
param_type_name(const TirFn *fn, const KernelParam *param)
{
    switch (param->kind) {
    case PARAM_POINTER:
        return "u64";
    case PARAM_STRIDE:
        return "s64";
    case PARAM_SIZE:
        return "s32";
    case PARAM_SCALAR:
        return fn->scalars.at[param->index].dtype == DT_F32 ? "f32" : "s32";
    case PARAM_TENSOR_MAP:
        return "b8x128";
    }
    return "?";
}

/* Grids have three dimensions: axes from the third on share the last one, the third varying
 * fastest. */
static void
add_grid_axis(Buf *out, const TirFn *fn, uint32_t dimension)
{
    if (dimension >= fn->grid.n) {
        buf_char(out, '1');
        return;
    }
    if (dimension < 2 || fn->grid.n <= 3) {
        host_print(fn, fn->grid.at[dimension].extent, out);
        return;
    }
    for (uint32_t i = dimension; i < fn->grid.n; i++) {
        buf_add(out, i == dimension ? "(" : " * (");
        host_print(fn, fn->grid.at[i].extent, out);
        buf_char(out, ')');
    }
}

static uint32_t
cluster_size(const LaunchFacts *facts, uint32_t dimension)
{
    return facts->cluster[dimension] ? facts->cluster[dimension] : 1;
}

/* ---- JSON ---- */

static void
json_tensors(Buf *out, const TirFn *fn)
{
    for (uint32_t i = 0; i < fn->tensors.n; i++) {
        const TirTensor *tensor = fn->tensors.at[i];
        buf_add(out, i ? ",{" : "{");
        add_field(out, "name", tensor->name);
        buf_char(out, ',');
        add_field(out, "dtype", dtype_name(tensor->dtype));
        buf_char(out, ',');
        add_field(out, "mode", mode_name(tensor->mode));
        buf_add(out, ",\"shape\":[");
        for (uint32_t d = 0; d < tensor->rank; d++) {
            if (d)
                buf_char(out, ',');
            if (tensor->dim[d].constant)
                buf_printf(out, "%d", (int)tensor->dim[d].constant);
            else
                add_quoted(out, fn->sizes.at[tensor->dim[d].size].name);
        }
        buf_printf(out, "],\"align\":%u,\"atomic\":%s}", (unsigned)tensor->align,
                   tensor->atomic ? "true" : "false");
    }
}

static void
json_params(Buf *out, const TirFn *fn, const LaunchFacts *facts)
{
    uint32_t n = kernel_param_count(fn, facts);
    KernelParam *params = arena_array(out->arena, KernelParam, n ? n : 1);

    kernel_params(fn, facts, params);
    for (uint32_t i = 0; i < n; i++) {
        const KernelParam *p = &params[i];
        buf_add(out, i ? ",{" : "{");
        add_field(out, "kind", param_kind_name(p->kind));
        buf_char(out, ',');
        if (p->kind == PARAM_SIZE)
            add_field(out, "name", fn->sizes.at[p->index].name);
        else if (p->kind == PARAM_SCALAR)
            add_field(out, "name", fn->scalars.at[p->index].name);
        else
            add_field(out, "tensor", fn->tensors.at[p->tensor]->name);
        if (p->kind == PARAM_STRIDE)
            buf_printf(out, ",\"dim\":%u", (unsigned)p->dim);
        if (p->kind == PARAM_TENSOR_MAP)
            buf_printf(out, ",\"map\":%u", (unsigned)p->index);
        buf_char(out, ',');
        add_field(out, "type", param_type_name(fn, p));
        buf_printf(out, ",\"offset\":%u,\"bytes\":%u}", (unsigned)p->offset, (unsigned)p->bytes);
    }
}

static void
json_tensor_maps(Buf *out, const TirFn *fn, const LaunchFacts *facts)
{
    for (uint32_t i = 0; i < facts->n_maps; i++) {
        const TensorMapFacts *map = &facts->maps[i];
        buf_add(out, i ? ",{" : "{");
        add_field(out, "tensor", fn->tensors.at[map->tensor]->name);
        buf_add(out, ",\"dims\":[");
        for (uint32_t d = 0; d < map->rank; d++)
            buf_printf(out, "%s%u", d ? "," : "", (unsigned)map->dim[d]);
        buf_add(out, "],\"box\":[");
        for (uint32_t d = 0; d < map->rank; d++)
            buf_printf(out, "%s%u", d ? "," : "", (unsigned)map->box[d]);
        buf_printf(out, "],\"swizzle\":%u,\"l2_promotion\":%u}", (unsigned)map->swizzle_bytes,
                   (unsigned)map->l2_promotion_bytes);
    }
}

static void
json_kernel(Buf *out, const TirFn *fn, const LaunchFacts *facts)
{
    buf_char(out, '{');
    add_field(out, "name", fn->name);
    buf_char(out, ',');
    add_field(out, "entry", facts->entry);
    buf_add(out, ",\"constants\":{");
    for (uint32_t i = 0; i < fn->constants.n; i++) {
        if (i)
            buf_char(out, ',');
        add_field(out, fn->constants.at[i].name, fn->constants.at[i].value);
    }
    buf_add(out, "},\"sizes\":[");
    for (uint32_t i = 0; i < fn->sizes.n; i++) {
        if (i)
            buf_char(out, ',');
        add_quoted(out, fn->sizes.at[i].name);
    }
    buf_add(out, "],\"scalars\":[");
    for (uint32_t i = 0; i < fn->scalars.n; i++) {
        buf_add(out, i ? ",{" : "{");
        add_field(out, "name", fn->scalars.at[i].name);
        buf_char(out, ',');
        add_field(out, "type", dtype_name(fn->scalars.at[i].dtype));
        buf_char(out, '}');
    }
    buf_add(out, "],\"tensors\":[");
    json_tensors(out, fn);
    buf_add(out, "],\"params\":[");
    json_params(out, fn, facts);
    buf_add(out, "],\"tensormaps\":[");
    json_tensor_maps(out, fn, facts);
    buf_add(out, "],\"grid\":[");
    for (uint32_t d = 0; d < 3; d++) {
        Buf axis;
        buf_init(&axis, out->arena);
        add_grid_axis(&axis, fn, d);
        if (d)
            buf_char(out, ',');
        add_quoted(out, axis.at);
    }
    buf_printf(out, "],\"block\":%u,\"shared\":%u,\"cluster\":[%u,%u,%u],\"require\":[",
               (unsigned)facts->block, (unsigned)facts->shared_bytes,
               (unsigned)cluster_size(facts, 0), (unsigned)cluster_size(facts, 1),
               (unsigned)cluster_size(facts, 2));
    for (uint32_t i = 0; i < fn->requires.n; i++) {
        Buf condition;
        buf_init(&condition, out->arena);
        host_print(fn, fn->requires.at[i].condition, &condition);
        buf_add(out, i ? ",{" : "{");
        add_field(out, "condition", condition.at ? condition.at : "1");
        buf_char(out, ',');
        add_field(out, "message", fn->requires.at[i].message ? fn->requires.at[i].message : "");
        buf_char(out, '}');
    }
    buf_add(out, "]}");
}

void
metadata_json(const TirModule *module, const ModuleFacts *facts, Buf *out)
{
    buf_printf(out, "{\"tilec\":%d,", METADATA_ABI);
    add_field(out, "version", facts->version);
    buf_char(out, ',');
    add_field(out, "arch", facts->arch);
    buf_char(out, ',');
    add_field(out, "ptx", facts->ptx);
    buf_char(out, ',');
    add_field(out, "source", facts->source);
    buf_add(out, ",\"kernels\":[");
    for (uint32_t i = 0; i < module->fns.n; i++) {
        if (i)
            buf_char(out, ',');
        json_kernel(out, module->fns.at[i], &facts->kernel[i]);
    }
    buf_add(out, "]}");
}

/* ---- the comment ---- */

static void
comment_tensors(Buf *out, const TirFn *fn)
{
    for (uint32_t i = 0; i < fn->tensors.n; i++) {
        const TirTensor *tensor = fn->tensors.at[i];
        buf_printf(out, "//   %-9s %-6s %-5s %s[", i ? "" : "tensors", tensor->name,
                   mode_name(tensor->mode), dtype_name(tensor->dtype));
        for (uint32_t d = 0; d < tensor->rank; d++) {
            buf_add(out, d ? ", " : "");
            if (tensor->dim[d].constant)
                buf_printf(out, "%d", (int)tensor->dim[d].constant);
            else
                buf_add(out, fn->sizes.at[tensor->dim[d].size].name);
        }
        buf_printf(out, "], aligned to %u bytes%s\n", (unsigned)tensor->align,
                   tensor->atomic ? ", added to atomically" : "");
    }
}

/* "tilerun FILE.ptx --in Q=Q.npy --set scale=... --out O=O.npy" */
static void
comment_command(Buf *out, const TirModule *module, const ModuleFacts *facts)
{
    const char *dot = strrchr(facts->source, '.');
    int stem = dot ? (int)(dot - facts->source) : (int)strlen(facts->source);

    buf_printf(out, "// run it:  tilerun %.*s.ptx", stem, facts->source);
    for (uint32_t k = 0; k < module->fns.n && k < 1; k++) {
        const TirFn *fn = module->fns.at[k];
        for (uint32_t i = 0; i < fn->tensors.n; i++)
            if (fn->tensors.at[i]->mode != TENSOR_OUT)
                buf_printf(out, " --in %s=%s.npy", fn->tensors.at[i]->name,
                           fn->tensors.at[i]->name);
        for (uint32_t i = 0; i < fn->scalars.n; i++)
            buf_printf(out, " --set %s=VALUE", fn->scalars.at[i].name);
        for (uint32_t i = 0; i < fn->tensors.n; i++)
            if (fn->tensors.at[i]->mode != TENSOR_IN)
                buf_printf(out, " --out %s=%s.npy", fn->tensors.at[i]->name,
                           fn->tensors.at[i]->name);
    }
    buf_add(out, module->fns.n > 1 ? " ...\n" : "\n");
}

static void
comment_kernel(Buf *out, const TirFn *fn, const LaunchFacts *facts)
{
    buf_printf(out, "//\n// kernel %s, entry %s\n", fn->name, facts->entry);
    if (fn->constants.n) {
        buf_add(out, "//   constants");
        for (uint32_t i = 0; i < fn->constants.n; i++)
            buf_printf(out, " %s=%s", fn->constants.at[i].name, fn->constants.at[i].value);
        buf_char(out, '\n');
    }
    comment_tensors(out, fn);
    if (fn->sizes.n) {
        buf_add(out, "//   sizes    ");
        for (uint32_t i = 0; i < fn->sizes.n; i++)
            buf_printf(out, " %s", fn->sizes.at[i].name);
        buf_add(out, " (s32)\n");
    }
    for (uint32_t i = 0; i < fn->scalars.n; i++)
        buf_printf(out, "//   %-9s %s: %s\n", i ? "" : "scalars", fn->scalars.at[i].name,
                   dtype_name(fn->scalars.at[i].dtype));
    buf_add(out, "//   parameters: of each tensor the address (u64) and the strides in elements of\n"
                 "//             all dimensions but the last (s64); then the sizes; then the scalars");
    buf_add(out, facts->n_maps ? ";\n//             then the tensor maps\n" : "\n");
    for (uint32_t i = 0; i < facts->n_maps; i++) {
        const TensorMapFacts *map = &facts->maps[i];
        buf_printf(out, "//   %-9s %s dims", i ? "" : "maps", fn->tensors.at[map->tensor]->name);
        for (uint32_t d = 0; d < map->rank; d++)
            buf_printf(out, "%s%u", d ? "," : " ", (unsigned)map->dim[d]);
        for (uint32_t d = 0; d < map->rank; d++)
            buf_printf(out, "%s%u", d ? "x" : " box ", (unsigned)map->box[d]);
        buf_printf(out, " swizzle %uB\n", (unsigned)map->swizzle_bytes);
    }
    buf_add(out, "//   launch    grid (");
    for (uint32_t d = 0; d < 3; d++) {
        buf_add(out, d ? ", " : "");
        add_grid_axis(out, fn, d);
    }
    buf_printf(out, "), block %u, dynamic shared memory %u bytes", (unsigned)facts->block,
               (unsigned)facts->shared_bytes);
    if (cluster_size(facts, 0) * cluster_size(facts, 1) * cluster_size(facts, 2) > 1)
        buf_printf(out, ", cluster (%u, %u, %u)", (unsigned)cluster_size(facts, 0),
                   (unsigned)cluster_size(facts, 1), (unsigned)cluster_size(facts, 2));
    buf_char(out, '\n');
    for (uint32_t i = 0; i < fn->requires.n; i++) {
        buf_printf(out, "//   %-9s ", i ? "" : "requires");
        host_print(fn, fn->requires.at[i].condition, out);
        buf_char(out, '\n');
    }
}

void
metadata_comment(const TirModule *module, const ModuleFacts *facts, Buf *out)
{
    buf_printf(out, "// made by tilec %s from %s for %s, PTX %s\n", facts->version, facts->source,
               facts->arch, facts->ptx);
    comment_command(out, module, facts);
    for (uint32_t i = 0; i < module->fns.n; i++)
        comment_kernel(out, module->fns.at[i], &facts->kernel[i]);
    buf_add(out, "//\n// The same for programs: the JSON text in the constant " METADATA_SYMBOL
                 " (docs/metadata.md).\n");
}

/* ---- the PTX array ---- */

void
metadata_declare(const TirModule *module, const ModuleFacts *facts, Buf *out)
{
    Buf json;

    buf_init(&json, out->arena);
    metadata_json(module, facts, &json);
    buf_printf(out, ".visible .const .align 8 .b8 " METADATA_SYMBOL "[%u] = {", json.n + 1);
    for (uint32_t i = 0; i <= json.n; i++) { /* the NUL as well */
        if (i % 24 == 0)
            buf_add(out, "\n    ");
        buf_printf(out, i < json.n ? "%u," : "%u", (unsigned)(unsigned char)json.at[i]);
    }
    buf_add(out, "\n};\n");
}
