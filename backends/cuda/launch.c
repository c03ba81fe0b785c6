/* launch.c - checks a launch against the metadata and packs its parameters (see launch.h). */
#include "backends/cuda/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/dtype.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

/* Of a persistent kernel: its blocks' next tile, behind the last one, is a number of 32 bits,
 * too. */
enum { MOST_TILES = INT32_MAX - 65535 };

bool
launch_check_arch(const char *arch, int major, int minor, Fault *fault)
{
    char *end;
    long number = strncmp(arch, "sm_", 3) == 0 ? strtol(arch + 3, &end, 10) : 0;

    if (number < 10)
        return fault_set(fault, "the metadata names an unknown architecture '%s'", arch);
    int have = major * 10 + minor;
    const char *reason = NULL;
    if (*end == 'a' && have != number)
        reason = "runs on that GPU alone";
    else if (*end == 'f' && (major != number / 10 || have < number))
        reason = "runs on that family alone";
    else if (have < number)
        reason = "needs that GPU or a newer one";
    if (!reason)
        return true;
    return fault_set(fault,
                     "the code is for %s and %s; this GPU is sm_%d: compile with -arch sm_%d", arch,
                     reason, have, have);
}

LaunchValues
launch_values_new(Arena *arena, const MetaKernel *kernel, uint32_t sm_count, uint32_t sm_shared)
{
    uint32_t sizes = kernel->sizes.n + 1, scalars = kernel->scalars.n + 1;

    return (LaunchValues){kernel,
                          arena_array(arena, int64_t, sizes),
                          arena_array(arena, bool, sizes),
                          arena_array(arena, Number, scalars),
                          arena_array(arena, bool, scalars),
                          sm_count,
                          sm_shared};
}

bool
launch_bind_shape(LaunchValues *values, uint32_t tensor, uint32_t rank, const int64_t *shape,
                  Fault *fault)
{
    const MetaKernel *kernel = values->kernel;
    const MetaTensor *t = &kernel->tensors.at[tensor];

    if (rank != t->rank)
        return fault_set(fault, "%s: %s must have %u dimension%s, not %u", kernel->name, t->name,
                         (unsigned)t->rank, t->rank == 1 ? "" : "s", (unsigned)rank);
    for (uint32_t d = 0; d < rank; d++) {
        if (t->extent[d] >= 0) {
            if (shape[d] != t->extent[d])
                return fault_set(fault, "%s: dimension %u of %s must be %lld, not %lld",
                                 kernel->name, (unsigned)d, t->name, (long long)t->extent[d],
                                 (long long)shape[d]);
            continue;
        }
        uint32_t size = t->size[d];
        if (values->size_known[size] && values->size[size] != shape[d])
            return fault_set(fault, "%s: dimension %u of %s is %lld, but %s is %lld", kernel->name,
                             (unsigned)d, t->name, (long long)shape[d], kernel->sizes.at[size],
                             (long long)values->size[size]);
        if (shape[d] < 0 || shape[d] > INT32_MAX)
            return fault_set(fault, "%s: %s = %lld does not fit 32 bits", kernel->name,
                             kernel->sizes.at[size], (long long)shape[d]);
        values->size[size] = shape[d];
        values->size_known[size] = true;
    }
    return true;
}

bool
launch_shape(const LaunchValues *values, uint32_t tensor, int64_t *shape, Fault *fault)
{
    const MetaTensor *t = &values->kernel->tensors.at[tensor];

    for (uint32_t d = 0; d < t->rank; d++) {
        if (t->extent[d] < 0 && !values->size_known[t->size[d]])
            return fault_set(fault,
                             "%s: the shape of %s needs %s, which no given array has: add "
                             "--set %s=VALUE",
                             values->kernel->name, t->name, values->kernel->sizes.at[t->size[d]],
                             values->kernel->sizes.at[t->size[d]]);
        shape[d] = t->extent[d] >= 0 ? t->extent[d] : values->size[t->size[d]];
    }
    return true;
}

static bool
look_up(const void *user, const char *name, size_t n, Number *out)
{
    const LaunchValues *values = user;
    const MetaKernel *kernel = values->kernel;

    for (uint32_t i = 0; i < kernel->sizes.n; i++)
        if (strlen(kernel->sizes.at[i]) == n && strncmp(kernel->sizes.at[i], name, n) == 0) {
            *out = (Number){.integer = values->size[i]};
            return values->size_known[i];
        }
    for (uint32_t i = 0; i < kernel->scalars.n; i++)
        if (strlen(kernel->scalars.at[i].name) == n &&
            strncmp(kernel->scalars.at[i].name, name, n) == 0) {
            *out = values->scalar[i];
            return values->scalar_known[i];
        }
    const struct {
        const char *name;
        uint32_t value;
    } facts[] = {{"sm_count", values->sm_count}, {"sm_shared", values->sm_shared}};
    for (uint32_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (strlen(facts[i].name) == n && strncmp(name, facts[i].name, n) == 0) {
            *out = (Number){.integer = facts[i].value};
            return true;
        }
    return false;
}

bool
launch_follow(LaunchValues *values, Fault *fault)
{
    const MetaKernel *kernel = values->kernel;
    /* a name is not known yet, or what is wrong is found when the launch is checked */
    Fault unsaid;
    Number number;

    for (bool news = true; news;) {
        news = false;
        for (uint32_t i = 0; i < kernel->sizes.n; i++) {
            if (values->size_known[i] || kernel->follows.at[i] == NULL ||
                !expression_evaluate(kernel->follows.at[i], look_up, values, &number, &unsaid))
                continue;
            if (number.is_float || number.integer < 0 || number.integer > INT32_MAX)
                return fault_set(fault, "%s: %s = %s would be %lld: a size is from 0 to 2147483647",
                                 kernel->name, kernel->sizes.at[i], kernel->follows.at[i],
                                 (long long)number.integer);
            values->size[i] = number.integer;
            values->size_known[i] = news = true;
        }
    }
    return true;
}

const MetaKernel *
launch_variant(const LaunchValues *values)
{
    const MetaKernel *kernel = values->kernel, *best = kernel;
    Fault unsaid; /* what is wrong with the sizes is found when the launch is checked */
    Number least, cost;

    if (kernel->variants.n == 0 ||
        !expression_evaluate(kernel->cost, look_up, values, &least, &unsaid))
        return kernel;
    for (uint32_t i = 0; i < kernel->variants.n; i++) {
        const MetaKernel *variant = kernel->variants.at[i];
        if (!expression_evaluate(variant->cost, look_up, values, &cost, &unsaid))
            return kernel;
        if (number_real(cost) < number_real(least)) {
            least = cost;
            best = variant;
        }
    }
    return best;
}

bool
launch_memory_size(const LaunchValues *values, uint32_t memory, size_t *bytes, Fault *fault)
{
    const MetaMemory *m = &values->kernel->memories.at[memory];
    const int64_t most = (int64_t)1 << 46;
    Number number;

    if (!expression_evaluate(m->size, look_up, values, &number, fault))
        return false;
    if (number.is_float || number.integer < 0 || number.integer > most)
        return fault_set(fault, "%s: %s would have %s = %lld bytes", values->kernel->name, m->name,
                         m->size, (long long)number.integer);
    *bytes = (size_t)number.integer;
    return true;
}

static bool
check_view(const MetaKernel *kernel, const MetaTensor *t, const TensorView *view, Fault *fault)
{
    if (strcmp(view->dtype, t->dtype) != 0)
        return fault_set(fault, "%s: %s must be %s, not %s", kernel->name, t->name, t->dtype,
                         view->dtype);
    if (view->address % t->align != 0)
        return fault_set(fault, "%s: the address of %s must be a multiple of %u bytes",
                         kernel->name, t->name, (unsigned)t->align);
    if (t->rank > 0 && view->shape[t->rank - 1] > 1 && view->stride[t->rank - 1] != 1)
        return fault_set(fault,
                         "%s: the last dimension of %s must be contiguous (its stride is %lld)",
                         kernel->name, t->name, (long long)view->stride[t->rank - 1]);
    for (uint32_t d = 0; d + 1 < t->rank; d++)
        if (view->shape[d] > 1 && view->stride[d] * (int64_t)t->element_bytes % t->align != 0)
            return fault_set(fault,
                             "%s: stride %u of %s is %lld bytes; it must be a multiple of %u",
                             kernel->name, (unsigned)d, t->name,
                             (long long)view->stride[d] * t->element_bytes, (unsigned)t->align);
    return true;
}

/* The sizes in an expression, and their values: "Hq = 16, B = 70000". */
static const char *
sizes_in(const LaunchValues *values, const char *expression, char *room, size_t bytes)
{
    const MetaKernel *kernel = values->kernel;
    size_t used = 0;

    room[0] = '\0';
    for (const char *at = expression; *at != '\0';) {
        size_t n = strspn(at, NAME_LETTERS);
        for (uint32_t i = 0; i < kernel->sizes.n + kernel->scalars.n && used < bytes; i++) {
            bool is_size = i < kernel->sizes.n;
            const char *name = is_size ? kernel->sizes.at[i]
                                       : kernel->scalars.at[i - kernel->sizes.n].name;
            if (strlen(name) == n && strncmp(name, at, n) == 0)
                used += (size_t)snprintf(
                    room + used, bytes - used, "%s%s = %lld", used > 0 ? ", " : "", name,
                    (long long)(is_size ? values->size[i]
                                        : values->scalar[i - kernel->sizes.n].integer));
        }
        at += n > 0 ? n : 1;
    }
    return room;
}

/* A persistent kernel launches no more blocks than run at once, which go through tiles by their
 * number: that has 32 bits, and the last block looks one stride behind the last tile. */
static bool
check_tiles(const LaunchValues *values, Fault *fault)
{
    const MetaKernel *kernel = values->kernel;
    LaunchValues unlimited = *values;
    char room[256];
    Number tiles;

    if (strstr(kernel->grid[0], "sm_count") == NULL)
        return true;
    unlimited.sm_count = UINT32_MAX;
    if (!expression_evaluate(kernel->grid[0], look_up, &unlimited, &tiles, fault))
        return false;
    if (tiles.is_float || tiles.integer < 0 || tiles.integer > MOST_TILES)
        return fault_set(
            fault,
            "%s: there are more than %d tiles, which its blocks cannot count: the grid is %s, "
            "with %s",
            kernel->name, (int)MOST_TILES, kernel->grid[0],
            sizes_in(values, kernel->grid[0], room, sizeof room));
    return true;
}

static bool
check_grid(const LaunchValues *values, LaunchReady *out, Fault *fault)
{
    static const int64_t grid_limit[3] = {INT32_MAX, 65535, 65535};
    const MetaKernel *kernel = values->kernel;
    char room[256];
    Number number;

    for (uint32_t d = 0; d < 3; d++) {
        if (!expression_evaluate(kernel->grid[d], look_up, values, &number, fault))
            return false;
        if (number.is_float || number.integer < 0 || number.integer > grid_limit[d])
            return fault_set(
                fault, "%s: the grid's dimension %u is %s = %lld, with %s; CUDA allows 0 to %lld",
                kernel->name, (unsigned)d, kernel->grid[d], (long long)number.integer,
                sizes_in(values, kernel->grid[d], room, sizeof room), (long long)grid_limit[d]);
        out->grid[d] = (uint32_t)number.integer;
        out->cluster[d] = kernel->cluster[d] ? kernel->cluster[d] : 1;
        if (out->grid[d] % out->cluster[d] != 0)
            return fault_set(
                fault, "%s: the grid's dimension %u is %u, no multiple of the cluster's %u",
                kernel->name, (unsigned)d, (unsigned)out->grid[d], (unsigned)out->cluster[d]);
    }
    return check_tiles(values, fault);
}

static bool
check_launch(const LaunchValues *values, const TensorView *view, LaunchReady *out, Fault *fault)
{
    const MetaKernel *kernel = values->kernel;
    Number number;

    for (uint32_t i = 0; i < kernel->sizes.n; i++)
        if (!values->size_known[i])
            return fault_set(fault, "%s: no value for the size %s: add --set %s=VALUE",
                             kernel->name, kernel->sizes.at[i], kernel->sizes.at[i]);
    for (uint32_t i = 0; i < kernel->scalars.n; i++)
        if (!values->scalar_known[i])
            return fault_set(fault, "%s: no value for the scalar %s: add --set %s=VALUE",
                             kernel->name, kernel->scalars.at[i].name, kernel->scalars.at[i].name);
    for (uint32_t i = 0; i < kernel->tensors.n; i++)
        if (!check_view(kernel, &kernel->tensors.at[i], &view[i], fault))
            return false;
    for (uint32_t i = 0; i < kernel->requires.n; i++) {
        const MetaRequire *require = &kernel->requires.at[i];
        if (!expression_evaluate(require->condition, look_up, values, &number, fault))
            return false;
        if (!number_true(number))
            return fault_set(fault, "%s: %s (%s)", kernel->name,
                             *require->message ? require->message : "a requirement is not met",
                             require->condition);
    }
    return check_grid(values, out, fault);
}

/* The driver's number of an element type. */
static uint32_t
map_type(const char *dtype)
{
    DType type;

    return dtype_parse(dtype, &type) ? (uint32_t)dtype_map(type) : MAP_UINT8;
}

static uint64_t
round_up_16(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* A tensor map by the sizes and strides of this launch (docs/metadata.md, "Tensor maps"). */
static bool
fill_map(const MetaKernel *kernel, const MetaTensorMap *map, const TensorView *view, uint64_t zeros,
         TensorMapValues *out, Fault *fault)
{
    static const uint32_t promotions[] = {0, 64, 128, 256};
    const MetaTensor *t = &kernel->tensors.at[map->tensor];
    uint64_t span = t->element_bytes; /* bytes that the dimensions so far reach over */
    bool empty = false;

    for (uint32_t d = 0; d < t->rank; d++)
        empty = empty || view->shape[d] == 0;
    *out = (TensorMapValues){.type = map_type(map->dtype),
                             .rank = map->rank,
                             .address = empty ? zeros : view->address,
                             .swizzle = map->swizzle == 128 ? 3 : map->swizzle / 32};
    while (promotions[out->l2_promotion] != map->l2_promotion)
        out->l2_promotion++;
    if (out->address % 16 != 0)
        return fault_set(fault,
                         "%s: the address of %s must be a multiple of 16 bytes for its tensor map",
                         kernel->name, t->name);
    for (uint32_t d = 0; d < map->rank; d++) {
        uint32_t of = map->dim[d];
        int64_t extent = empty ? 1 : view->shape[of];
        int64_t pitch = d == 0       ? t->element_bytes
                        : extent > 1 ? view->stride[of] * (int64_t)t->element_bytes
                                     : (int64_t)round_up_16(span);
        if (d > 0 && (pitch < 0 || pitch >= (int64_t)1 << 40 || pitch % 16 != 0))
            return fault_set(fault,
                             "%s: stride %u of %s is %lld bytes; a tensor map takes multiples of "
                             "16 below 2^40",
                             kernel->name, (unsigned)of, t->name, (long long)pitch);
        if (d > 0)
            out->stride[d - 1] = (uint64_t)pitch;
        out->size[d] = (uint64_t)extent;
        out->box[d] = map->box[d];
        if ((uint64_t)extent * (uint64_t)pitch > span)
            span = (uint64_t)extent * (uint64_t)pitch;
    }
    for (uint32_t d = 1; d + 1 < map->rank && !empty; d++) {
        if (map->dim[d] != map->dim[map->rank - 1])
            continue;
        /* named twice: boxes end before the tensor does */
        out->stride[map->rank - 2] = out->stride[d - 1];
        out->address -= map->box[d] * out->stride[d - 1];
        out->size[d] = map->box[d];
        out->size[map->rank - 1]++;
    }
    return true;
}

bool
launch_prepare(Arena *arena, const LaunchValues *values, const TensorView *view,
               const uint64_t *memory, uint64_t zeros, LaunchReady *out, Fault *fault)
{
    const MetaKernel *kernel = values->kernel;
    TensorMapValues *maps = arena_array(arena, TensorMapValues, kernel->params.n + 1);

    *out = (LaunchReady){.entry = kernel->entry,
                         .block = {kernel->block, 1, 1},
                         .shared = kernel->shared,
                         .early_start = kernel->early_start,
                         .param_bytes = kernel->param_bytes,
                         .n_args = kernel->params.n,
                         .maps = maps};
    if (!check_launch(values, view, out, fault))
        return false;
    out->params = arena_alloc(arena, kernel->param_bytes + 1);
    out->args = arena_array(arena, void *, kernel->params.n + 1);
    for (uint32_t i = 0; i < kernel->params.n; i++) {
        const MetaParam *p = &kernel->params.at[i];
        unsigned char *to = out->params + p->offset;
        out->args[i] = to;
        switch (p->kind) {
        case META_POINTER: memcpy(to, &view[p->index].address, 8); break;
        case META_STRIDE: {
            /* the stride of an extent of 1 is never used; 0 keeps it aligned */
            int64_t stride = view[p->index].shape[p->dim] > 1 ? view[p->index].stride[p->dim] : 0;
            memcpy(to, &stride, 8);
            break;
        }
        case META_SIZE: {
            int32_t size = (int32_t)values->size[p->index];
            memcpy(to, &size, 4);
            break;
        }
        case META_SCALAR: {
            const Number *value = &values->scalar[p->index];
            float real = (float)number_real(*value);
            uint32_t integer = (uint32_t)value->integer;
            bool is_float = dtype_is_float(kernel->scalars.at[p->index].dtype);
            memcpy(to, is_float ? (void *)&real : (void *)&integer, 4);
            break;
        }
        case META_TENSOR_MAP: {
            const MetaTensorMap *map = &kernel->maps.at[p->index];
            TensorMapValues *made = &maps[out->n_maps++];
            if (!fill_map(kernel, map, &view[map->tensor], zeros, made, fault))
                return false;
            made->offset = p->offset;
            break;
        }
        case META_MEMORY: memcpy(to, &memory[p->index], 8); break;
        case META_ZERO: break; /* it is zero already */
        }
    }
    return true;
}
