/* metadata.c - see metadata.h: the parameter list, the JSON, the comment, the PTX array. */
#include "compiler/emit/metadata.h"

#include "compiler/emit/barriers.h"

#include <string.h>

/* ---- facts ---- */

const uint32_t *
param_offsets(Arena *arena, const LirFn *fn)
{
    uint32_t *offsets = arena_array(arena, uint32_t, fn->params.n + 1), offset = 0;

    for (uint32_t i = 0; i < fn->params.n; i++) {
        uint32_t bytes = lir_param_bytes(&fn->params.at[i]);
        offsets[i] = (offset + bytes - 1) / bytes * bytes;
        offset = offsets[i] + bytes;
    }
    return offsets;
}

const HostExpr *
launch_extent(Arena *arena, const TirFn *fn, uint32_t dimension)
{
    if (fn->blocks[0] != NULL)
        return fn->blocks[dimension];
    if (dimension >= fn->grid.n)
        return host_int(arena, 1);
    const HostExpr *extent = fn->grid.at[dimension].extent;
    for (uint32_t i = 3; dimension == 2 && i < fn->grid.n; i++)
        extent = host_binary(arena, HOST_MUL, extent, fn->grid.at[i].extent);
    return extent;
}

uint32_t
cluster_extent(const LirFn *fn, uint32_t dimension)
{
    return fn->cluster[dimension] > 0 ? fn->cluster[dimension] : 1;
}

bool
has_cluster(const LirFn *fn)
{
    return cluster_extent(fn, 0) * cluster_extent(fn, 1) * cluster_extent(fn, 2) > 1;
}

const TirTensor *
map_tensor(const TirFn *fn, const LirTensorMap *map)
{
    for (uint32_t i = 0; i < fn->tensors.n; i++)
        if (strcmp(fn->tensors.at[i]->name, map->tensor) == 0)
            return fn->tensors.at[i];
    return NULL;
}

static bool
param_exists(const TirFn *fn, const LirParam *param)
{
    switch (param->kind) {
    case LIR_PARAM_POINTER: return param->index < fn->tensors.n;
    case LIR_PARAM_STRIDE:
        return param->index < fn->tensors.n && param->dim < fn->tensors.at[param->index]->rank;
    case LIR_PARAM_SIZE: return param->index < fn->sizes.n;
    case LIR_PARAM_SCALAR: return param->index < fn->scalars.n;
    case LIR_PARAM_MEMORY: return param->index < fn->memories.n;
    case LIR_PARAM_ZERO:
    case LIR_PARAM_MAP: return true;
    case LIR_PARAM_PLAIN: break;
    }
    return false;
}

DType
map_dtype(const TirTensor *tensor, const LirTensorMap *map)
{
    DType dtype = tensor->dtype;

    if (map->rounds != NULL)
        dtype_parse(map->rounds, &dtype);
    return dtype;
}

/* What cuTensorMapEncodeTiled would refuse whatever the sizes are. */
static const char *
map_fault(const TirTensor *tensor, const LirTensorMap *map)
{
    if (tensor == NULL)
        return "there is no such tensor";
    for (uint32_t d = 0; d < map->rank; d++)
        if (map->dim[d] >= tensor->rank)
            return "there is no such dimension";
    if (map->dim[0] + 1 != tensor->rank)
        return "the innermost dimension of a map is the tensor's last";
    uint32_t bytes = map->box[0] * (uint32_t)dtype_bits(tensor->dtype) / 8;
    if (bytes % 16 != 0)
        return "a row of the box is no multiple of 16 bytes";
    if (map->swizzle_bytes > 0 && bytes > map->swizzle_bytes)
        return "a row of the box is longer than the swizzle";
    DType as = map_dtype(tensor, map);
    if (map->rounds != NULL && !dtype_rounds(tensor->dtype, as))
        return "its elements are not of that type when they are rounded";
    if (tensor->align % 16 != 0)
        return "the tensor is not aligned to 16 bytes";
    return NULL;
}

bool
launch_verify(const TirFn *fn, const LirFn *code, Buf *out)
{
    bool ok = true;

    for (uint32_t i = 0; i < code->params.n; i++) {
        if (param_exists(fn, &code->params.at[i]))
            continue;
        buf_printf(out, "%s, parameter %s: it stands for nothing of the kernel\n", code->name,
                   code->params.at[i].name);
        ok = false;
    }
    for (uint32_t i = 0; i < code->maps.n; i++) {
        const char *what = map_fault(map_tensor(fn, &code->maps.at[i]), &code->maps.at[i]);
        if (what == NULL)
            continue;
        buf_printf(out, "%s, tensor map of %s: %s\n", code->name, code->maps.at[i].tensor, what);
        ok = false;
    }
    return ok;
}

/* ---- pieces that more than one text uses ---- */

static void
add_quoted(Buf *out, const char *text)
{
    /* nearly always there is nothing that JSON wants written otherwise */
    static const char others[] = "\"\\\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24\25"
                                 "\26\27\30\31\32\33\34\35\36\37";

    buf_char(out, '"');
    for (size_t n; *text != '\0'; text += n) {
        unsigned char c = (unsigned char)*text;
        n = strcspn(text, others);
        buf_addn(out, text, n);
        if (n > 0)
            continue;
        n = 1;
        if (c >= 0x20)
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_add(out, "\\n");
        else
            buf_printf(out, "\\u%04x", c);
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
memory_kind_name(TirMemoryKind kind)
{
    return kind == MEMORY_SCRATCH ? "scratch" : "workspace";
}

static const char *
param_kind_name(const TirFn *fn, const LirParam *param)
{
    switch (param->kind) {
    case LIR_PARAM_POINTER: return "pointer";
    case LIR_PARAM_STRIDE: return "stride";
    case LIR_PARAM_SIZE: return "size";
    case LIR_PARAM_SCALAR: return "scalar";
    case LIR_PARAM_MAP: return "tensormap";
    case LIR_PARAM_MEMORY: return memory_kind_name(fn->memories.at[param->index].kind);
    case LIR_PARAM_ZERO: return "zero";
    case LIR_PARAM_PLAIN: break;
    }
    return "?";
}

static const char *
param_type_name(const TirFn *fn, const LirParam *param)
{
    switch (param->kind) {
    case LIR_PARAM_STRIDE: return "s64";
    case LIR_PARAM_SIZE: return "s32";
    case LIR_PARAM_SCALAR: return dtype_scalar(fn->scalars.at[param->index].dtype);
    case LIR_PARAM_ZERO: return "u32";
    case LIR_PARAM_MAP: return "b8x128";
    default: return "u64";
    }
}

static void
add_extent(Buf *out, const TirFn *fn, uint32_t dimension)
{
    host_print(fn, launch_extent(out->arena, fn, dimension), out);
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
        if (tensor->packed != tensor->dtype) {
            add_field(out, "packed", dtype_name(tensor->packed));
            buf_char(out, ',');
        }
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

/* What a parameter holds, beside its kind. */
static void
json_param_subject(Buf *out, const TirFn *fn, const LirFn *code, const LirParam *p)
{
    switch (p->kind) {
    case LIR_PARAM_SIZE: add_field(out, "name", fn->sizes.at[p->index].name); break;
    case LIR_PARAM_SCALAR: add_field(out, "name", fn->scalars.at[p->index].name); break;
    case LIR_PARAM_MEMORY: {
        Buf bytes;
        buf_init(&bytes, out->arena);
        host_print(fn, fn->memories.at[p->index].bytes, &bytes);
        add_field(out, "name", fn->memories.at[p->index].name);
        buf_char(out, ',');
        add_field(out, "size", bytes.at);
        break;
    }
    case LIR_PARAM_MAP:
        add_field(out, "tensor", code->maps.at[p->index].tensor);
        buf_printf(out, ",\"map\":%u", (unsigned)p->index);
        break;
    case LIR_PARAM_POINTER: add_field(out, "tensor", fn->tensors.at[p->index]->name); break;
    case LIR_PARAM_STRIDE:
        add_field(out, "tensor", fn->tensors.at[p->index]->name);
        buf_printf(out, ",\"dim\":%u", (unsigned)p->dim);
        break;
    case LIR_PARAM_ZERO:
    case LIR_PARAM_PLAIN: return;
    }
    buf_char(out, ',');
}

static void
json_params(Buf *out, const TirFn *fn, const LirFn *code)
{
    const uint32_t *offsets = param_offsets(out->arena, code);

    for (uint32_t i = 0; i < code->params.n; i++) {
        const LirParam *p = &code->params.at[i];
        buf_add(out, i ? ",{" : "{");
        add_field(out, "kind", param_kind_name(fn, p));
        buf_char(out, ',');
        json_param_subject(out, fn, code, p);
        add_field(out, "type", param_type_name(fn, p));
        buf_printf(out, ",\"offset\":%u,\"bytes\":%u}", (unsigned)offsets[i],
                   (unsigned)lir_param_bytes(p));
    }
}

static void
json_tensor_maps(Buf *out, const LirFn *code)
{
    for (uint32_t i = 0; i < code->maps.n; i++) {
        const LirTensorMap *map = &code->maps.at[i];
        buf_add(out, i ? ",{" : "{");
        add_field(out, "tensor", map->tensor);
        if (map->rounds != NULL) {
            buf_char(out, ',');
            add_field(out, "dtype", map->rounds);
        }
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

/* What one form of a kernel has of its own, behind the first of its fields. */
static void
json_form(Buf *out, const TirFn *fn, const LirFn *code, const HostExpr *cost)
{
    buf_add(out, "\"params\":[");
    json_params(out, fn, code);
    buf_add(out, "],\"tensormaps\":[");
    json_tensor_maps(out, code);
    buf_add(out, "],\"grid\":[");
    for (uint32_t d = 0; d < 3; d++) {
        Buf axis;
        buf_init(&axis, out->arena);
        add_extent(&axis, fn, d);
        if (d)
            buf_char(out, ',');
        add_quoted(out, axis.at);
    }
    buf_printf(out, "],\"block\":%u,\"shared\":%u,\"cluster\":[%u,%u,%u]", (unsigned)code->threads,
               (unsigned)code->shared_bytes, (unsigned)cluster_extent(code, 0),
               (unsigned)cluster_extent(code, 1), (unsigned)cluster_extent(code, 2));
    if (cost != NULL) {
        Buf clocks;
        buf_init(&clocks, out->arena);
        host_print(fn, cost, &clocks);
        buf_char(out, ',');
        add_field(out, "cost", clocks.at);
    }
}

/* Sizes that follow from others, where there are some. */
static void
json_follows(Buf *out, const TirFn *fn)
{
    bool some = false;

    for (uint32_t i = 0; i < fn->sizes.n; i++) {
        Buf value;
        if (fn->sizes.at[i].value == NULL)
            continue;
        buf_init(&value, out->arena);
        host_print(fn, fn->sizes.at[i].value, &value);
        buf_add(out, some ? "," : ",\"follows\":{");
        add_field(out, fn->sizes.at[i].name, value.at);
        some = true;
    }
    if (some)
        buf_char(out, '}');
}

static void
json_head(Buf *out, const TirFn *fn, const LirFn *code)
{
    add_field(out, "entry", code->name);
    buf_add(out, ",\"constants\":{");
    for (uint32_t i = 0; i < fn->constants.n; i++) {
        if (i)
            buf_char(out, ',');
        add_field(out, fn->constants.at[i].name, fn->constants.at[i].value);
    }
    buf_add(out, "},");
}

static void
json_kernel(Buf *out, const TirFn *fn, const LirFn *code, const KernelForms *forms)
{
    bool several = forms != NULL && forms->n > 1;

    buf_char(out, '{');
    add_field(out, "name", fn->name);
    buf_char(out, ',');
    json_head(out, fn, code);
    buf_add(out, "\"sizes\":[");
    for (uint32_t i = 0; i < fn->sizes.n; i++) {
        if (i)
            buf_char(out, ',');
        add_quoted(out, fn->sizes.at[i].name);
    }
    buf_char(out, ']');
    json_follows(out, fn);
    buf_add(out, ",\"scalars\":[");
    for (uint32_t i = 0; i < fn->scalars.n; i++) {
        buf_add(out, i ? ",{" : "{");
        add_field(out, "name", fn->scalars.at[i].name);
        buf_char(out, ',');
        add_field(out, "type", dtype_name(fn->scalars.at[i].dtype));
        buf_char(out, '}');
    }
    buf_add(out, "],\"tensors\":[");
    json_tensors(out, fn);
    buf_add(out, "],");
    json_form(out, fn, code, forms != NULL && forms->n > 0 ? forms->at[0].cost : NULL);
    buf_add(out, ",\"require\":[");
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
    buf_printf(out, "]%s", code->starts_early ? ",\"early_start\":true" : "");
    for (uint32_t i = 1; several && i < forms->n; i++) {
        const KernelForm *form = &forms->at[i];
        buf_add(out, i == 1 ? ",\"variants\":[{" : ",{");
        json_head(out, form->fn, form->code);
        json_form(out, form->fn, form->code, form->cost);
        buf_printf(out, ",\"early_start\":%s}", form->code->starts_early ? "true" : "false");
    }
    buf_add(out, several ? "]}" : "}");
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
        json_kernel(out, module->fns.at[i], facts->kernel[i],
                    facts->forms == NULL ? NULL : &facts->forms[i]);
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
                buf_add(out, tir_size_text(fn, tensor->dim[d].size));
        }
        if (tensor->packed != tensor->dtype)
            buf_printf(out, "] of %s, two to a byte", dtype_name(tensor->packed));
        else
            buf_char(out, ']');
        buf_printf(out, ", aligned to %u bytes%s\n", (unsigned)tensor->align,
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
                buf_printf(out, " --in %s=%s.npy", fn->tensors.at[i]->name, fn->tensors.at[i]->name);
        for (uint32_t i = 0; i < fn->scalars.n; i++)
            buf_printf(out, " --set %s=VALUE", fn->scalars.at[i].name);
        for (uint32_t i = 0; i < fn->tensors.n; i++)
            if (fn->tensors.at[i]->mode != TENSOR_IN)
                buf_printf(out, " --out %s=%s.npy", fn->tensors.at[i]->name,
                           fn->tensors.at[i]->name);
    }
    buf_add(out, module->fns.n > 1 ? " ...\n" : "\n");
}

/* "address and strides of Q, K; sizes B, S; ..": the parameters by kind, in their order. */
static void
comment_params(Buf *out, const TirFn *fn, const LirFn *code)
{
    uint32_t width = 0;

    for (uint32_t i = 0; i < code->params.n; i++) {
        const LirParam *p = &code->params.at[i];
        Buf one;
        buf_init(&one, out->arena);
        if (p->kind == LIR_PARAM_POINTER || p->kind == LIR_PARAM_STRIDE)
            buf_add(&one, fn->tensors.at[p->index]->name);
        if (p->kind == LIR_PARAM_STRIDE)
            buf_printf(&one, ".stride%u", (unsigned)p->dim);
        if (p->kind == LIR_PARAM_SIZE)
            buf_add(&one, fn->sizes.at[p->index].name);
        if (p->kind == LIR_PARAM_SCALAR)
            buf_add(&one, fn->scalars.at[p->index].name);
        if (p->kind == LIR_PARAM_MAP)
            buf_printf(&one, "map of %s", code->maps.at[p->index].tensor);
        if (p->kind == LIR_PARAM_MEMORY)
            buf_printf(&one, "%s %s", memory_kind_name(fn->memories.at[p->index].kind),
                       fn->memories.at[p->index].name);
        if (p->kind == LIR_PARAM_ZERO)
            buf_add(&one, "zero");
        if (i == 0 || width + one.n > 80) {
            buf_printf(out, "%s//   %-9s", i ? ",\n" : "", i ? "" : "arguments");
            width = 0;
        } else {
            buf_char(out, ',');
        }
        buf_printf(out, " %s", one.at);
        width += one.n + 2;
    }
    buf_add(out, code->params.n ? "\n" : "");
}

static void
comment_maps(Buf *out, const LirFn *code)
{
    for (uint32_t i = 0; i < code->maps.n; i++) {
        const LirTensorMap *map = &code->maps.at[i];
        buf_printf(out, "//   %-9s %s", i ? "" : "maps", map->tensor);
        if (map->rounds != NULL)
            buf_printf(out, " as %s", map->rounds);
        buf_add(out, " dims");
        for (uint32_t d = 0; d < map->rank; d++)
            buf_printf(out, "%s%u", d ? "," : " ", (unsigned)map->dim[d]);
        for (uint32_t d = 0; d < map->rank; d++)
            buf_printf(out, "%s%u", d ? "x" : " box ", (unsigned)map->box[d]);
        buf_printf(out, " swizzle %uB, L2 promotion %uB\n", (unsigned)map->swizzle_bytes,
                   (unsigned)map->l2_promotion_bytes);
    }
}

static void
comment_memories(Buf *out, const TirFn *fn)
{
    for (uint32_t i = 0; i < fn->memories.n; i++) {
        const TirMemory *memory = &fn->memories.at[i];
        buf_printf(out, "//   %-9s %s, ", memory_kind_name(memory->kind), memory->name);
        host_print(fn, memory->bytes, out);
        buf_printf(out, " bytes%s\n",
                   memory->kind == MEMORY_SCRATCH ? ", zero before and after each launch" : "");
    }
}

static void
comment_launch(Buf *out, const TirFn *fn, const LirFn *code)
{
    buf_add(out, "//   launch    grid (");
    for (uint32_t d = 0; d < 3; d++) {
        buf_add(out, d ? ", " : "");
        add_extent(out, fn, d);
    }
    buf_printf(out, "), block %u, dynamic shared memory %u bytes", (unsigned)code->threads,
               (unsigned)code->shared_bytes);
    if (has_cluster(code))
        buf_printf(out, ", cluster (%u, %u, %u)", (unsigned)cluster_extent(code, 0),
                   (unsigned)cluster_extent(code, 1), (unsigned)cluster_extent(code, 2));
    buf_add(out, code->starts_early ? ",\n//             may start early\n" : "\n");
}

static void
comment_cost(Buf *out, const TirFn *fn, const HostExpr *cost)
{
    buf_add(out, "//   clocks    ");
    host_print(fn, cost, out);
    buf_char(out, '\n');
}

/* What is said of a kernel, for another form of it: only what differs. */
static void
comment_variant(Buf *out, const TirFn *own, const KernelForm *form)
{
    buf_printf(out, "// or, where its clocks are fewer, entry %s\n//   constants", form->code->name);
    for (uint32_t i = 0; i < own->constants.n; i++)
        if (strcmp(own->constants.at[i].value, form->fn->constants.at[i].value) != 0)
            buf_printf(out, " %s=%s", form->fn->constants.at[i].name,
                       form->fn->constants.at[i].value);
    buf_char(out, '\n');
    comment_maps(out, form->code);
    comment_memories(out, form->fn);
    comment_params(out, form->fn, form->code);
    comment_launch(out, form->fn, form->code);
    comment_cost(out, form->fn, form->cost);
}

static void
comment_kernel(Buf *out, const TirFn *fn, const LirFn *code)
{
    buf_printf(out, "//\n// kernel %s, entry %s\n", fn->name, code->name);
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
    comment_maps(out, code);
    comment_memories(out, fn);
    comment_params(out, fn, code);
    comment_launch(out, fn, code);
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
    for (uint32_t i = 0; i < module->fns.n; i++) {
        const KernelForms *forms = facts->forms == NULL ? NULL : &facts->forms[i];
        comment_kernel(out, module->fns.at[i], facts->kernel[i]);
        if (facts->barriers)
            barriers_comment(module->fns.at[i], out);
        if (forms != NULL && forms->n > 0)
            comment_cost(out, module->fns.at[i], forms->at[0].cost);
        for (uint32_t k = 1; forms != NULL && k < forms->n; k++)
            comment_variant(out, module->fns.at[i], &forms->at[k]);
    }
    buf_add(out, "//\n// The same for programs: the JSON text in the constant " METADATA_SYMBOL
                 " (docs/metadata.md).\n");
}

/* ---- the PTX array ---- */

enum { CONSTANT_BYTES = 65536 /* of a module */ };

/* clang-format off */
#define TEN(tens) tens "0,", tens "1,", tens "2,", tens "3,", tens "4,", tens "5,", tens "6,", tens "7,", tens "8,", tens "9,",
/* Each byte as a number, with a comma. */
static const char byte_text[][5] = {
    TEN("") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5") TEN("6") TEN("7") TEN("8") TEN("9")
    TEN("10") TEN("11") TEN("12") TEN("13") TEN("14") TEN("15") TEN("16") TEN("17") TEN("18") TEN("19")
    TEN("20") TEN("21") TEN("22") TEN("23") TEN("24") TEN("25")};
#undef TEN
/* clang-format on */

void
metadata_declare(const TirModule *module, const ModuleFacts *facts, Buf *out)
{
    enum {
        ON_A_LINE = 24,
        LONGEST = 5 /* characters of a byte, with a comma, and its part of a line's end */
    };
    Buf json;

    buf_init(&json, out->arena);
    metadata_json(module, facts, &json);
    const uint32_t n = json.n + 1; /* the NUL as well */
    buf_printf(out, ".visible .%s .align 8 .b8 " METADATA_SYMBOL "[%u] = {",
               n > CONSTANT_BYTES ? "global" : "const", n);
    buf_reserve(out, LONGEST * ((size_t)n + ON_A_LINE));
    char *at = out->at + out->n;
    for (uint32_t i = 0; i < n;) {
        uint32_t end = i + ON_A_LINE < n ? i + ON_A_LINE : n;
        at = memcpy(at, "\n    ", strlen("\n    "));
        at += strlen("\n    ");
        for (; i < end; i++) {
            const char *text = byte_text[(uint8_t)json.at[i]];
            memcpy(at, text, sizeof byte_text[0]); /* there is room for a line's end more */
            at += strlen(text);
        }
    }
    out->n = (uint32_t)(at - 1 - out->at); /* without the last comma */
    buf_add(out, "\n};\n");
}
