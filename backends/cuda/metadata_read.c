/* metadata_read.c - the metadata of a PTX module: from text to MetaKernel (see launch.h). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/json.h"
#include "backends/cuda/launch.h"

#include "compiler/base/dtype.h"

#define SYMBOL "tilec_metadata"

enum { MOST_ALIGN = 1 << 16 }; /* bytes */

const char *
metadata_find(Arena *arena, const char *ptx, size_t n, Fault *fault)
{
    char *text = arena_strndup(arena, ptx, n);

    for (char *at = strstr(text, SYMBOL); at; at = strstr(at + 1, SYMBOL)) {
        char *end = at + strlen(SYMBOL);
        end += strspn(end, " \t\r\n");
        if (*end != '[')
            continue;
        end = strchr(end, ']');
        if (!end)
            break;
        end++;
        end += strspn(end, " \t\r\n");
        if (*end != '=')
            continue;
        end++;
        end += strspn(end, " \t\r\n");
        if (*end != '{')
            continue;
        end++;
        Buf bytes;
        buf_init(&bytes, arena);
        for (;;) {
            end += strspn(end, " \t\r\n,");
            if (!isdigit((unsigned char)*end))
                break;
            unsigned long byte = strtoul(end, &end, 0);
            if (byte == 0)
                break;
            buf_char(&bytes, (char)byte);
        }
        return bytes.at ? bytes.at : "";
    }
    fault_set(fault, "the PTX has no constant '" SYMBOL "': tilec did not make it; give --entry, "
                     "--grid, --block and --arg");
    return NULL;
}

/* ---- JSON ---- */

typedef struct Reader {
    Arena *arena;
    Fault *fault;
    bool failed;
} Reader;

static void
fail(Reader *r, const char *what)
{
    if (!r->failed)
        fault_set(r->fault, "the metadata of the PTX cannot be read: %s", what);
    r->failed = true;
}

static const char *
get_text(Reader *r, const Json *object, const char *key)
{
    const Json *item = json_get(object, key);

    if (item && item->kind == JSON_TEXT)
        return item->text;
    fail(r, arena_printf(r->arena, "no text '%s'", key));
    return "";
}

static DType
get_scalar_type(Reader *r, const Json *scalar)
{
    const char *name = get_text(r, scalar, "type");
    DType type = DT_F32;

    if (!r->failed && (!dtype_parse(name, &type) || !dtype_has(type, USE_PARAMETER)))
        fail(r, arena_printf(r->arena, "no scalars of type '%s'", name));
    return type;
}

static uint32_t
get_number(Reader *r, const Json *object, const char *key)
{
    const Json *item = json_get(object, key);

    if (item && item->kind == JSON_NUMBER && item->number >= 0 && item->number <= UINT32_MAX)
        return (uint32_t)item->number;
    fail(r, arena_printf(r->arena, "no number '%s'", key));
    return 0;
}

static const Json *
get_array(Reader *r, const Json *object, const char *key)
{
    const Json *item = json_get(object, key);

    if (item && item->kind == JSON_LIST)
        return item;
    fail(r, arena_printf(r->arena, "no list '%s'", key));
    return NULL;
}

static void
get_numbers(Reader *r, const Json *object, const char *key, uint32_t *out, uint32_t n)
{
    uint32_t i = 0;

    json_each (item, get_array(r, object, key))
        if (i < n && item->kind == JSON_NUMBER && item->number >= 0 && item->number <= UINT32_MAX)
            out[i++] = (uint32_t)item->number;
    if (i != n)
        fail(r, arena_printf(r->arena, "'%s' must have %u numbers", key, (unsigned)n));
}

static uint32_t
find_tensor(Reader *r, const MetaKernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->tensors.n; i++)
        if (strcmp(kernel->tensors.at[i].name, name) == 0)
            return i;
    fail(r, arena_printf(r->arena, "no tensor '%s'", name));
    return 0;
}

static uint32_t
find_size(Reader *r, const MetaKernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->sizes.n; i++)
        if (strcmp(kernel->sizes.at[i], name) == 0)
            return i;
    fail(r, arena_printf(r->arena, "no size '%s'", name));
    return 0;
}

static uint32_t
find_scalar(Reader *r, const MetaKernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->scalars.n; i++)
        if (strcmp(kernel->scalars.at[i].name, name) == 0)
            return i;
    fail(r, arena_printf(r->arena, "no scalar '%s'", name));
    return 0;
}

static uint32_t
dtype_bytes(Reader *r, const char *dtype)
{
    DType type;

    if (dtype_parse(dtype, &type))
        return dtype_bits(type) / 8;
    fail(r, arena_printf(r->arena, "unknown element type '%s'", dtype));
    return 1;
}

static void
read_tensor(Reader *r, MetaKernel *kernel, const Json *item)
{
    MetaTensor tensor = {.name = get_text(r, item, "name"), .dtype = get_text(r, item, "dtype")};
    const char *mode = get_text(r, item, "mode");

    tensor.element_bytes = dtype_bytes(r, tensor.dtype);
    tensor.mode = strcmp(mode, "in") == 0    ? META_IN
                  : strcmp(mode, "out") == 0 ? META_OUT
                                             : META_INOUT;
    tensor.align = get_number(r, item, "align");
    if (tensor.align == 0)
        tensor.align = 1;
    if (tensor.align > MOST_ALIGN)
        fail(r, "an alignment is too large");
    tensor.atomic = json_get(item, "atomic") && json_get(item, "atomic")->number != 0;
    json_each (dim, get_array(r, item, "shape")) {
        if (tensor.rank == LAUNCH_MAX_RANK) {
            fail(r, "a tensor has too many dimensions");
            return;
        }
        uint32_t d = tensor.rank++;
        bool fixed = dim->kind == JSON_NUMBER && dim->number >= 0 && dim->number <= INT32_MAX;
        tensor.extent[d] = fixed ? (int64_t)dim->number : -1;
        if (dim->kind == JSON_TEXT)
            tensor.size[d] = find_size(r, kernel, dim->text);
        else if (!fixed)
            fail(r, "a shape that is no number and no size");
    }
    vec_push(r->arena, &kernel->tensors, tensor);
}

static void
read_memory(Reader *r, MetaKernel *kernel, MetaParam *param, const Json *item, bool is_scratch)
{
    MetaMemory memory = {get_text(r, item, "name"), get_text(r, item, "size"), is_scratch};

    param->kind = META_MEMORY;
    param->index = kernel->memories.n;
    vec_push(r->arena, &kernel->memories, memory);
}

static void
read_param(Reader *r, MetaKernel *kernel, const Json *item)
{
    const char *kind = get_text(r, item, "kind");
    MetaParam param = {.offset = get_number(r, item, "offset"),
                       .bytes = get_number(r, item, "bytes")};

    if (strcmp(kind, "pointer") == 0) {
        param.kind = META_POINTER;
        param.index = find_tensor(r, kernel, get_text(r, item, "tensor"));
    } else if (strcmp(kind, "stride") == 0) {
        param.kind = META_STRIDE;
        param.index = find_tensor(r, kernel, get_text(r, item, "tensor"));
        param.dim = get_number(r, item, "dim");
        if (param.dim >= LAUNCH_MAX_RANK)
            fail(r, "a stride of a dimension that is not there");
    } else if (strcmp(kind, "size") == 0) {
        param.kind = META_SIZE;
        param.index = find_size(r, kernel, get_text(r, item, "name"));
    } else if (strcmp(kind, "scalar") == 0) {
        param.kind = META_SCALAR;
        param.index = find_scalar(r, kernel, get_text(r, item, "name"));
    } else if (strcmp(kind, "tensormap") == 0) {
        param.kind = META_TENSOR_MAP;
        param.index = get_number(r, item, "map");
    } else if (strcmp(kind, "scratch") == 0 || strcmp(kind, "workspace") == 0) {
        read_memory(r, kernel, &param, item, strcmp(kind, "scratch") == 0);
    } else if (strcmp(kind, "zero") == 0) {
        param.kind = META_ZERO;
    } else {
        fail(r, arena_printf(r->arena, "unknown kind of parameter '%s'", kind));
    }
    static const uint32_t bytes_of_kind[] = {8, 8, 4, 4, LAUNCH_MAP_BYTES, 8, 4};
    if (param.bytes != bytes_of_kind[param.kind] || param.offset > 32764)
        fail(r, "a parameter has a wrong size or offset");
    if (param.offset + param.bytes > kernel->param_bytes)
        kernel->param_bytes = param.offset + param.bytes;
    vec_push(r->arena, &kernel->params, param);
}

static void
read_map(Reader *r, MetaKernel *kernel, const Json *item)
{
    MetaTensorMap map = {.tensor = find_tensor(r, kernel, get_text(r, item, "tensor")),
                         .swizzle = get_number(r, item, "swizzle"),
                         .l2_promotion = get_number(r, item, "l2_promotion")};

    json_each (dim, get_array(r, item, "dims"))
        map.rank += dim != NULL;
    uint32_t rank = r->failed ? 0 : kernel->tensors.at[map.tensor].rank;
    map.dtype = r->failed ? "" : kernel->tensors.at[map.tensor].dtype;
    if (json_get(item, "dtype") != NULL) {
        DType from, to;
        const char *rounded = get_text(r, item, "dtype");
        if (!dtype_parse(map.dtype, &from) || !dtype_parse(rounded, &to) || !dtype_rounds(from, to))
            fail(r, arena_printf(r->arena, "a tensor map of %s does not round to '%s'", map.dtype,
                                 rounded));
        map.dtype = rounded;
    }
    if (map.rank < 1 || map.rank > LAUNCH_MAP_RANK || (map.rank != rank && map.rank != rank + 1)) {
        fail(
            r,
            "a tensor map must have the dimensions of its tensor, and perhaps one of them twice: 1 to 5");
        return;
    }
    get_numbers(r, item, "dims", map.dim, map.rank);
    get_numbers(r, item, "box", map.box, map.rank);
    uint32_t seen = 0;
    for (uint32_t d = 0; d < map.rank; d++) {
        bool twice = d == rank && map.dim[d] != map.dim[0];
        if (map.dim[d] >= rank || ((seen >> map.dim[d] & 1) != 0 && !twice))
            fail(r, "a tensor map names a dimension that is not there, or names it twice");
        else
            seen |= 1U << map.dim[d];
        if (map.box[d] < 1 || map.box[d] > 256)
            fail(r, "an extent of a tensor map's box must be 1 to 256");
    }
    if (map.dim[0] + 1 != rank)
        fail(r, "a tensor map must begin with the tensor's last dimension");
    if (map.swizzle != 0 && map.swizzle != 32 && map.swizzle != 64 && map.swizzle != 128)
        fail(r, "the swizzle of a tensor map must be 0, 32, 64 or 128 bytes");
    if (map.l2_promotion != 0 && map.l2_promotion != 64 && map.l2_promotion != 128 &&
        map.l2_promotion != 256)
        fail(r, "the L2 promotion of a tensor map must be 0, 64, 128 or 256 bytes");
    vec_push(r->arena, &kernel->maps, map);
}

/* What a kernel and each of its variants has of its own. */
static void
read_form(Reader *r, MetaKernel *kernel, const Json *object)
{
    json_each (item, get_array(r, object, "tensormaps"))
        read_map(r, kernel, item);
    json_each (item, get_array(r, object, "params"))
        read_param(r, kernel, item);
    for (uint32_t i = 0; i < kernel->params.n; i++) {
        const MetaParam *p = &kernel->params.at[i];
        if (p->kind == META_STRIDE && !r->failed && p->dim >= kernel->tensors.at[p->index].rank)
            fail(r, "a stride of a dimension that is not there");
        if (p->kind == META_TENSOR_MAP && p->index >= kernel->maps.n)
            fail(r, "a parameter names a tensor map that is not there");
    }
    uint32_t axes = 0;
    json_each (item, get_array(r, object, "grid"))
        if (item->kind == JSON_TEXT && axes < 3)
            kernel->grid[axes++] = item->text;
    if (axes != 3)
        fail(r, "'grid' must have 3 expressions");
    kernel->block = get_number(r, object, "block");
    kernel->shared = get_number(r, object, "shared");
    get_numbers(r, object, "cluster", kernel->cluster, 3);
    const Json *early = json_get(object, "early_start");
    kernel->early_start = early != NULL && early->kind == JSON_BOOL && early->number != 0;
}

static void
read_variant(Reader *r, MetaKernel *kernel, const Json *object)
{
    MetaKernel *variant = arena_new(r->arena, MetaKernel);

    *variant = (MetaKernel){
        .name = kernel->name,
        .entry = get_text(r, object, "entry"),
        .cost = get_text(r, object, "cost"),
        .sizes = {kernel->sizes.at, kernel->sizes.n, kernel->sizes.n},
        .follows = {kernel->follows.at, kernel->follows.n, kernel->follows.n},
        .scalars = {kernel->scalars.at, kernel->scalars.n, kernel->scalars.n},
        .tensors = {kernel->tensors.at, kernel->tensors.n, kernel->tensors.n},
        .requires = {kernel->requires.at, kernel->requires.n, kernel->requires.n}};
    read_form(r, variant, object);
    vec_push(r->arena, &kernel->variants, variant);
}

static void
read_kernel(Reader *r, Metadata *meta, const Json *object)
{
    MetaKernel kernel = {.name = get_text(r, object, "name"), .entry = get_text(r, object, "entry")};

    json_each (item, get_array(r, object, "sizes"))
        if (item->kind == JSON_TEXT)
            vec_push(r->arena, &kernel.sizes, item->text);
    const Json *follows = json_get(object, "follows");
    for (uint32_t i = 0; i < kernel.sizes.n; i++) {
        const Json *value = follows == NULL ? NULL : json_get(follows, kernel.sizes.at[i]);
        vec_push(r->arena, &kernel.follows,
                 value != NULL && value->kind == JSON_TEXT ? value->text : NULL);
    }
    json_each (item, get_array(r, object, "scalars")) {
        MetaScalar scalar = {get_text(r, item, "name"), get_scalar_type(r, item)};
        vec_push(r->arena, &kernel.scalars, scalar);
    }
    json_each (item, get_array(r, object, "tensors"))
        read_tensor(r, &kernel, item);
    read_form(r, &kernel, object);
    json_each (item, get_array(r, object, "require")) {
        MetaRequire require = {get_text(r, item, "condition"), get_text(r, item, "message")};
        vec_push(r->arena, &kernel.requires, require);
    }
    const Json *variants = json_get(object, "variants");
    if (variants != NULL) {
        kernel.cost = get_text(r, object, "cost");
        json_each (item, get_array(r, object, "variants"))
            read_variant(r, &kernel, item);
    }
    vec_push(r->arena, &meta->kernels, kernel);
}

Metadata *
metadata_parse(Arena *arena, const char *json, Fault *fault)
{
    Reader reader = {arena, fault, false};
    const Json *root = json_read(arena, json);
    Metadata *meta = arena_new(arena, Metadata);

    if (!root) {
        fail(&reader, "it is no JSON");
        return NULL;
    }
    uint32_t abi = get_number(&reader, root, "tilec");
    if (!reader.failed && abi != LAUNCH_ABI) {
        fault_set(fault,
                  "the PTX has metadata of version %u, this program reads version %d: use the "
                  "tilerun that came with the tilec that made it",
                  (unsigned)abi, LAUNCH_ABI);
        reader.failed = true;
    }
    if (!reader.failed) {
        meta->version = get_text(&reader, root, "version");
        meta->arch = get_text(&reader, root, "arch");
        meta->source = get_text(&reader, root, "source");
        json_each (item, get_array(&reader, root, "kernels"))
            read_kernel(&reader, meta, item);
        if (meta->kernels.n == 0)
            fail(&reader, "it has no kernel");
    }
    return reader.failed ? NULL : meta;
}
