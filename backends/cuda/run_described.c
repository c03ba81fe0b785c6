/* run_described.c - runs a PTX file that tilec made, from what it says of itself.
 *
 * Tensors are shared by name between the kernels of the file.  Each is a Slot: given with --in, or
 * allocated with the shape that the named sizes give it, and then zero.  Memory that kernels want
 * beside their tensors is a Room: of one kernel when it is a scratch, by name when it is a
 * workspace.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/tilerun.h"
#include "compiler/base/dtype.h"
#include "compiler/base/whole_file.h"

typedef struct Slot {
    const MetaTensor *tensor; /* as the first kernel that has it describes it */
    const MetaKernel *kernel; /* that kernel */
    const NpyArray *input;    /* NULL: not given */
    const char *output;       /* path; NULL: not wanted */
    const char *strides;      /* of --strides; NULL: rows stand close together */
    bool shaped;
    bool written;   /* some kernel writes it */
    bool undefined; /* nothing reads it before a kernel writes it */
    TensorView view;
    size_t bytes;         /* of its memory, with space between rows */
    unsigned char *first; /* the output of the first seed */
} Slot;

typedef struct Room {
    const MetaMemory *memory;
    const MetaKernel *kernel; /* the (first) one that has it */
    uint64_t address;
    size_t bytes;
} Room;

typedef struct Session {
    RunContext *cx;
    Metadata *meta;
    VEC(const MetaKernel *) kernels; /* those to run */
    VEC(LaunchValues) values;        /* of each */
    VEC(Slot) slots;
    VEC(Room) rooms;
    uint64_t zeros; /* for maps of empty tensors */
} Session;

static Slot *
find_slot(Session *s, const char *name)
{
    for (uint32_t i = 0; i < s->slots.n; i++)
        if (strcmp(s->slots.at[i].tensor->name, name) == 0)
            return &s->slots.at[i];
    return NULL;
}

typedef VEC(const char *) Names;

static void
add_name(Session *s, Names *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i], name) == 0)
            return;
    vec_push(s->cx->arena, names, name);
}

/* "B, Sq, scale": the names of sizes and scalars that the user could have meant. */
static const char *
list_values(Session *s)
{
    Names names = {0};
    Buf out;

    for (uint32_t k = 0; k < s->kernels.n; k++) {
        const MetaKernel *kernel = s->kernels.at[k];
        for (uint32_t i = 0; i < kernel->sizes.n; i++)
            add_name(s, &names, kernel->sizes.at[i]);
        for (uint32_t i = 0; i < kernel->scalars.n; i++)
            add_name(s, &names, kernel->scalars.at[i].name);
    }
    buf_init(&out, s->cx->arena);
    for (uint32_t i = 0; i < names.n; i++)
        buf_printf(&out, "%s%s", i ? ", " : "", names.at[i]);
    return out.at ? out.at : "none";
}

/* "Q, K, V": the tensors. */
static const char *
list_tensors(Session *s)
{
    Buf out;

    buf_init(&out, s->cx->arena);
    for (uint32_t i = 0; i < s->slots.n; i++)
        buf_printf(&out, "%s%s", i ? ", " : "", s->slots.at[i].tensor->name);
    return out.at ? out.at : "none";
}

static bool
load_metadata(Session *s)
{
    RunContext *cx = s->cx;
    const char *json;

    if (cx->image_bytes >= 4 && memcmp(cx->image,
                                       "\x7f"
                                       "ELF",
                                       4) == 0) {
        size_t bytes;
        json = cx->machine->global(cx->machine, cx->arena, "tilec_metadata", &bytes, cx->fault);
    } else {
        json = metadata_find(cx->arena, cx->image, cx->image_bytes, cx->fault);
    }
    s->meta = json ? metadata_parse(cx->arena, json, cx->fault) : NULL;
    return s->meta && cx->machine->check_arch(cx->machine, s->meta->arch, cx->fault);
}

static void
add_kernel(Session *s, const MetaKernel *kernel)
{
    vec_push(s->cx->arena, &s->kernels, kernel);
    vec_push(s->cx->arena, &s->values,
             launch_values_new(s->cx->arena, kernel, s->cx->machine->sm_count,
                               s->cx->machine->sm_shared));
}

/* The variant of this name, whatever the sizes; ENTRY_v0 is the kernel's own form. */
static void
add_variant(Session *s, const MetaKernel *kernel, const char *entry)
{
    if (kernel->variants.n > 0 &&
        strcmp(entry, arena_printf(s->cx->arena, "%s_v0", kernel->entry)) == 0) {
        MetaKernel *own = arena_copy(s->cx->arena, kernel, sizeof *kernel);
        own->variants.n = 0;
        add_kernel(s, own);
    }
    for (uint32_t i = 0; i < kernel->variants.n; i++)
        if (strcmp(entry, kernel->variants.at[i]->entry) == 0)
            add_kernel(s, kernel->variants.at[i]);
}

static bool
choose_kernels(Session *s)
{
    const RunOptions *options = s->cx->options;
    Buf names;

    buf_init(&names, s->cx->arena);
    for (uint32_t i = 0; i < s->meta->kernels.n; i++) {
        buf_printf(&names, "%s%s", i ? ", " : "", s->meta->kernels.at[i].name);
        if (options->entries.n == 0)
            add_kernel(s, &s->meta->kernels.at[i]);
    }
    for (uint32_t e = 0; e < options->entries.n; e++) {
        uint32_t before = s->kernels.n;
        for (uint32_t i = 0; i < s->meta->kernels.n; i++)
            if (strcmp(options->entries.at[e], s->meta->kernels.at[i].name) == 0 ||
                strcmp(options->entries.at[e], s->meta->kernels.at[i].entry) == 0) {
                add_kernel(s, &s->meta->kernels.at[i]);
                break;
            }
        for (uint32_t i = 0; i < s->meta->kernels.n && s->kernels.n == before; i++)
            add_variant(s, &s->meta->kernels.at[i], options->entries.at[e]);
        if (s->kernels.n == before)
            return fault_set(s->cx->fault, "--entry %s: the file has %s", options->entries.at[e],
                             names.at);
    }
    return true;
}

/* One slot for each tensor name; kernels that share a name must agree about it. */
static bool
make_slots(Session *s)
{
    for (uint32_t k = 0; k < s->kernels.n; k++) {
        const MetaKernel *kernel = s->kernels.at[k];
        for (uint32_t i = 0; i < kernel->tensors.n; i++) {
            const MetaTensor *t = &kernel->tensors.at[i];
            Slot *slot = find_slot(s, t->name);
            if (!slot) {
                Slot made = {.tensor = t, .kernel = kernel};
                made.undefined = t->mode == META_OUT && !t->atomic;
                vec_push(s->cx->arena, &s->slots, made);
            } else if (strcmp(slot->tensor->dtype, t->dtype) != 0 || slot->tensor->rank != t->rank) {
                return fault_set(s->cx->fault,
                                 "kernels %s and %s of the file disagree about %s: run "
                                 "them one at a time with --entry",
                                 slot->kernel->name, kernel->name, t->name);
            }
        }
    }
    return true;
}

static bool
take_input(Session *s, const NamedValue *given)
{
    RunContext *cx = s->cx;
    Slot *slot = find_slot(s, given->name);
    NpyArray *array = arena_new(cx->arena, NpyArray);
    DType type;
    char kind;
    uint32_t bytes;

    if (!slot)
        return fault_set(cx->fault, "--in %s: there is no such tensor; the file has %s",
                         given->name, list_tensors(s));
    if (slot->tensor->mode == META_OUT && slot->output == NULL)
        return fault_set(cx->fault, "--in %s: %s only writes this tensor; use --out", given->name,
                         slot->kernel->name);
    if (slot->input)
        return fault_set(cx->fault, "--in %s is given twice", given->name);
    if (!npy_read(cx->arena, given->value, array, cx->fault))
        return false;
    if (!npy_type_of(slot->tensor->dtype, &kind, &bytes))
        return fault_set(cx->fault, "%s has the type %s, which has no .npy form", given->name,
                         slot->tensor->dtype);
    if (!dtype_parse(slot->tensor->dtype, &type) || !dtype_takes(type, array->kind, array->bytes))
        return fault_set(cx->fault, "%s is %s; %s must hold %s%s", given->name, slot->tensor->dtype,
                         given->value,
                         npy_type_name(cx->arena, &(NpyArray){.kind = kind, .bytes = bytes}),
                         arena_printf(cx->arena, "%s, not %s",
                                      dtype_is_float(type) && kind == 'u' ? " (the bits)" : "",
                                      npy_type_name(cx->arena, array)));
    slot->input = array;
    slot->undefined = false; /* of one that is only written: what it has before */
    return true;
}

static bool
take_set(Session *s, const NamedValue *given)
{
    bool found = false;

    for (uint32_t k = 0; k < s->kernels.n; k++) {
        const MetaKernel *kernel = s->kernels.at[k];
        LaunchValues *values = &s->values.at[k];
        char *end;
        for (uint32_t i = 0; i < kernel->sizes.n; i++)
            if (strcmp(kernel->sizes.at[i], given->name) == 0) {
                errno = 0;
                values->size[i] = strtoll(given->value, &end, 10);
                if (*end || end == given->value || errno || values->size[i] < 0 ||
                    values->size[i] > INT32_MAX)
                    return fault_set(s->cx->fault,
                                     "--set %s=%s: a size is a whole number from 0 to "
                                     "2147483647",
                                     given->name, given->value);
                values->size_known[i] = found = true;
            }
        for (uint32_t i = 0; i < kernel->scalars.n; i++)
            if (strcmp(kernel->scalars.at[i].name, given->name) == 0) {
                Number *n = &values->scalar[i];
                DType type = kernel->scalars.at[i].dtype;
                bool real = dtype_is_float(type);
                errno = 0;
                n->is_float = real;
                if (real)
                    n->real = (float)strtod(given->value, &end); /* what requirements are about */
                else
                    n->integer = strtoll(given->value, &end, 10);
                bool range = !real && (errno || (double)n->integer < dtype_lowest(type) ||
                                       (double)n->integer > dtype_highest(type));
                if (*end || end == given->value || range)
                    return fault_set(s->cx->fault, "--set %s=%s: this scalar is %s: expected %s",
                                     given->name, given->value, dtype_name(type),
                                     real ? "a number" : "an integer of 32 bits");
                values->scalar_known[i] = found = true;
            }
    }
    return found ||
           fault_set(s->cx->fault, "--set %s: there is no such size or scalar; the file has %s",
                     given->name, list_values(s));
}

/* Strides in C order, with rows, planes, .. widened where the kernel wants them aligned. */
static bool
choose_strides(Slot *slot, Fault *fault)
{
    const int64_t most = (int64_t)1 << 46; /* elements */
    const MetaTensor *t = slot->tensor;
    int64_t unit = t->align % t->element_bytes == 0 ? t->align / t->element_bytes : 1;
    int64_t stride = 1;

    for (uint32_t d = t->rank; d-- > 0;) {
        slot->view.stride[d] = stride;
        if (stride > 0 && slot->view.shape[d] > most / stride)
            return fault_set(fault, "%s is larger than memory", t->name);
        stride *= slot->view.shape[d];
        if (d > 0)
            stride = (stride + unit - 1) / unit * unit;
    }
    slot->bytes = (size_t)stride * t->element_bytes;
    return true;
}

/* The strides that --strides gives: the memory ends with the tensor's last element. */
static bool
take_strides(Slot *slot, Fault *fault)
{
    const int64_t most = (int64_t)1 << 40; /* elements */
    const MetaTensor *t = slot->tensor;
    const char *at = slot->strides;
    int64_t last = 0;
    bool empty = false, broadcast = false;

    if (t->rank < 2)
        return fault_set(fault, "--strides %s=%s: its only dimension has the stride 1", t->name,
                         slot->strides);
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t extent = slot->view.shape[d], stride = 1;
        if (d + 1 < t->rank) {
            char *end;
            errno = 0;
            stride = strtoll(at, &end, 10);
            if (*at < '0' || *at > '9' || errno || *end != (d + 2 < t->rank ? ',' : '\0'))
                return fault_set(fault, "--strides %s=%s: expected %u numbers, as 64,8", t->name,
                                 slot->strides, (unsigned)t->rank - 1);
            at = end + 1;
        }
        empty = empty || extent == 0;
        broadcast = broadcast || (stride == 0 && extent > 1);
        if (extent > 1 && stride > (most - last) / (extent - 1))
            return fault_set(fault, "%s is larger than memory", t->name);
        last += extent > 1 ? (extent - 1) * stride : 0;
        slot->view.stride[d] = stride;
    }
    if (broadcast && slot->written)
        return fault_set(fault, "--strides %s=%s: a stride of 0 is for tensors that are only read",
                         t->name, slot->strides);
    slot->bytes = empty ? 0 : (size_t)(last + 1) * t->element_bytes;
    return true;
}

/* Gives the sizes that this kernel's own tensors do not fix the value they have elsewhere. */
static void
borrow_sizes(Session *s, uint32_t k)
{
    LaunchValues *values = &s->values.at[k];

    for (uint32_t i = 0; i < values->kernel->sizes.n; i++)
        for (uint32_t other = 0; other < s->kernels.n && !values->size_known[i]; other++) {
            const LaunchValues *from = &s->values.at[other];
            for (uint32_t j = 0; j < from->kernel->sizes.n; j++)
                if (from->size_known[j] &&
                    strcmp(from->kernel->sizes.at[j], values->kernel->sizes.at[i]) == 0) {
                    values->size[i] = from->size[j];
                    values->size_known[i] = true;
                }
        }
}

static bool
bind_known_shapes(Session *s, uint32_t k)
{
    LaunchValues *values = &s->values.at[k];

    for (uint32_t i = 0; i < values->kernel->tensors.n; i++) {
        Slot *slot = find_slot(s, values->kernel->tensors.at[i].name);
        if (slot->shaped &&
            !launch_bind_shape(values, i, slot->view.rank, slot->view.shape, s->cx->fault))
            return false;
    }
    return true;
}

static void
set_shape(Slot *slot, uint32_t rank, const int64_t *shape)
{
    slot->view.rank = rank;
    for (uint32_t d = 0; d < rank; d++)
        slot->view.shape[d] = shape[d];
    slot->view.dtype = slot->tensor->dtype;
    slot->shaped = true;
}

static bool
shape_all(Session *s)
{
    for (uint32_t i = 0; i < s->slots.n; i++) {
        Slot *slot = &s->slots.at[i];
        if (!slot->input)
            continue;
        if (slot->input->rank > LAUNCH_MAX_RANK)
            return fault_set(s->cx->fault, "%s has too many dimensions", slot->tensor->name);
        set_shape(slot, slot->input->rank, slot->input->shape);
    }
    for (uint32_t k = 0; k < s->kernels.n; k++)
        if (!bind_known_shapes(s, k))
            return false;
    for (uint32_t k = 0; k < s->kernels.n; k++) {
        LaunchValues *values = &s->values.at[k];
        if (!bind_known_shapes(s, k))
            return false;
        borrow_sizes(s, k);
        if (!launch_follow(values, s->cx->fault))
            return false;
        for (uint32_t i = 0; i < values->kernel->tensors.n; i++) {
            const MetaTensor *t = &values->kernel->tensors.at[i];
            Slot *slot = find_slot(s, t->name);
            int64_t shape[LAUNCH_MAX_RANK];
            if (slot->shaped)
                continue;
            if (t->mode == META_IN && !s->cx->options->random)
                return fault_set(s->cx->fault, "%s reads %s: give it with --in %s=FILE.npy",
                                 values->kernel->name, t->name, t->name);
            if (!launch_shape(values, i, shape, s->cx->fault))
                return false;
            set_shape(slot, t->rank, shape);
        }
    }
    return true;
}

/* From here on each kernel is the variant of it that the sizes take. */
static void
choose_variants(Session *s)
{
    for (uint32_t k = 0; k < s->kernels.n; k++)
        s->kernels.at[k] = s->values.at[k].kernel = launch_variant(&s->values.at[k]);
}

static bool
allocate_all(Session *s)
{
    for (uint32_t i = 0; i < s->slots.n; i++) {
        Slot *slot = &s->slots.at[i];
        /* the largest alignment that any of the kernels wants */
        MetaTensor *widest = arena_copy(s->cx->arena, slot->tensor, sizeof *slot->tensor);
        for (uint32_t k = 0; k < s->kernels.n; k++)
            for (uint32_t j = 0; j < s->kernels.at[k]->tensors.n; j++) {
                const MetaTensor *t = &s->kernels.at[k]->tensors.at[j];
                if (strcmp(t->name, widest->name) != 0)
                    continue;
                slot->written = slot->written || t->mode != META_IN;
                if (t->align > widest->align)
                    widest->align = t->align;
            }
        slot->tensor = widest;
        if (!(slot->strides ? take_strides : choose_strides)(slot, s->cx->fault) ||
            !s->cx->machine->allocate(s->cx->machine, slot->bytes, slot->tensor->name,
                                      &slot->view.address, s->cx->fault))
            return false;
    }
    return true;
}

static Room *
find_room(Session *s, const MetaKernel *kernel, const MetaMemory *memory)
{
    for (uint32_t i = 0; i < s->rooms.n; i++) {
        Room *room = &s->rooms.at[i];
        if (memory->is_scratch == room->memory->is_scratch &&
            (!memory->is_scratch || room->kernel == kernel) &&
            strcmp(memory->name, room->memory->name) == 0)
            return room;
    }
    return NULL;
}

/* Scratch and workspaces; a workspace has the largest size that any kernel wants. */
static bool
allocate_rooms(Session *s)
{
    RunContext *cx = s->cx;
    bool maps = false;

    for (uint32_t k = 0; k < s->kernels.n; k++) {
        const MetaKernel *kernel = s->kernels.at[k];
        maps = maps || kernel->maps.n > 0;
        if (kernel->memories.n > 0 && !bind_known_shapes(s, k))
            return false;
        for (uint32_t i = 0; i < kernel->memories.n; i++) {
            const MetaMemory *memory = &kernel->memories.at[i];
            size_t bytes;
            if (!launch_memory_size(&s->values.at[k], i, &bytes, cx->fault))
                return false;
            Room *room = find_room(s, kernel, memory);
            if (!room) {
                Room made = {.memory = memory, .kernel = kernel};
                vec_push(cx->arena, &s->rooms, made);
                room = &s->rooms.at[s->rooms.n - 1];
            }
            room->bytes = bytes > room->bytes ? bytes : room->bytes;
        }
    }
    for (uint32_t i = 0; i < s->rooms.n; i++) {
        Room *room = &s->rooms.at[i];
        if (!cx->machine->allocate(cx->machine, room->bytes, room->memory->name, &room->address,
                                   cx->fault))
            return false;
    }
    return !maps ||
           (cx->machine->allocate(cx->machine, LAUNCH_MAP_BYTES, "zeros", &s->zeros, cx->fault) &&
            cx->machine->clear(cx->machine, s->zeros, LAUNCH_MAP_BYTES, false, cx->fault));
}

/* Copies between an array in C order and memory with the slot's strides. */
static void
copy_strided(const Slot *slot, unsigned char *array, unsigned char *memory, bool to_memory)
{
    uint32_t rank = slot->view.rank, element = slot->tensor->element_bytes;
    int64_t index[LAUNCH_MAX_RANK] = {0}, rows = 1;
    size_t row = rank ? (size_t)slot->view.shape[rank - 1] * element : element;

    if (row == 0) /* nothing, however many rows of it */
        return;
    for (uint32_t d = 0; d + 1 < rank; d++)
        rows *= slot->view.shape[d];
    for (int64_t r = 0; r < rows; r++, array += row) {
        int64_t offset = 0;
        for (uint32_t d = 0; d + 1 < rank; d++)
            offset += index[d] * slot->view.stride[d];
        unsigned char *at = memory + (size_t)offset * element;
        memcpy(to_memory ? at : array, to_memory ? array : at, row);
        for (uint32_t d = rank > 0 ? rank - 1 : 0; d-- > 0;) {
            if (++index[d] < slot->view.shape[d])
                break;
            index[d] = 0;
        }
    }
}

/* Numbers from -1 to 1 as elements of this type; zeros for types that are no floats. */
static void
put_random(const char *dtype, uint64_t state, unsigned char *at, size_t elements)
{
    bool wide = strcmp(dtype, "f32") == 0;
    bool half = strcmp(dtype, "f16") == 0, brain = strcmp(dtype, "bf16") == 0;

    for (size_t k = 0; k < elements && (wide || half || brain); k++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        float number = (float)(int32_t)(state >> 32) * 0x1p-31F;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        uint32_t exponent = bits >> 23 & 0xFF;
        uint16_t top = (uint16_t)(bits >> 16); /* bf16 */
        if (half)                              /* 5 bits of exponent, their bias is 15 */
            top = (uint16_t)((top & 0x8000) |
                             (exponent > 112 ? (exponent - 112) << 10 | (bits >> 13 & 0x3FF) : 0));
        if (wide)
            memcpy(at + 4 * k, &bits, 4);
        else
            memcpy(at + 2 * k, &top, 2);
    }
}

static bool
fill_random(Session *s, Slot *slot, uint32_t which)
{
    unsigned char *memory = calloc(slot->bytes ? slot->bytes : 1, 1);

    if (!memory)
        return fault_set(s->cx->fault, "out of memory");
    put_random(slot->tensor->dtype, s->cx->options->seed * 1000003 + which, memory,
               slot->bytes / slot->tensor->element_bytes);
    bool ok = s->cx->machine->write(s->cx->machine, slot->view.address, memory, slot->bytes,
                                    s->cx->fault);
    free(memory);
    return ok;
}

/* Scalars that were not given. */
static void
invent_scalars(Session *s)
{
    for (uint32_t k = 0; k < s->kernels.n; k++) {
        LaunchValues *values = &s->values.at[k];
        for (uint32_t i = 0; i < values->kernel->scalars.n; i++) {
            if (values->scalar_known[i])
                continue;
            bool real = dtype_is_float(values->kernel->scalars.at[i].dtype);
            values->scalar[i] = (Number){.is_float = real, .integer = 1, .real = 0.0625};
            values->scalar_known[i] = true;
        }
    }
}

enum { GAP = 0xFF }; /* NaN in every float: what reads between rows is seen */

/* A tensor with strides of its own: its elements, and GAP between its rows. */
static bool
fill_strided(Session *s, Slot *slot, uint32_t which)
{
    size_t bytes = slot->tensor->element_bytes;

    for (uint32_t d = 0; d < slot->view.rank; d++)
        bytes *= (size_t)slot->view.shape[d];
    unsigned char *memory = malloc(slot->bytes + 1), *array = calloc(bytes + 1, 1);
    bool ok = memory && array;
    if (!ok)
        fault_set(s->cx->fault, "out of memory");
    if (ok) {
        memset(memory, GAP, slot->bytes);
        if (!slot->input && slot->tensor->mode == META_IN)
            put_random(slot->tensor->dtype, s->cx->options->seed * 1000003 + which, array,
                       bytes / slot->tensor->element_bytes);
        copy_strided(slot, slot->input ? slot->input->data : array, memory, true);
        ok = s->cx->machine->write(s->cx->machine, slot->view.address, memory, slot->bytes,
                                   s->cx->fault);
    }
    free(memory);
    free(array);
    return ok;
}

/* What lies between the rows of such a tensor belongs to somebody else. */
static RunStatus
check_gaps(Session *s)
{
    RunContext *cx = s->cx;
    RunStatus status = RUN_OK;

    for (uint32_t i = 0; i < s->slots.n; i++) {
        Slot *slot = &s->slots.at[i];
        size_t at = 0;
        if (!slot->strides || !slot->written || slot->bytes == 0)
            continue;
        unsigned char *memory = malloc(slot->bytes), *gap = malloc(slot->bytes),
                      *array = calloc(slot->bytes, 1);
        bool ok = memory && gap && array;
        if (!ok)
            fault_set(cx->fault, "out of memory");
        ok = ok &&
             cx->machine->read(cx->machine, slot->view.address, memory, slot->bytes, cx->fault);
        if (ok) {
            memset(gap, GAP, slot->bytes);
            copy_strided(slot, array, gap, true);
            while (at < slot->bytes && (gap[at] == 0 || memory[at] == GAP))
                at++;
        }
        free(memory);
        free(gap);
        free(array);
        if (!ok)
            return RUN_FAULT;
        if (at == slot->bytes)
            continue;
        fprintf(stderr,
                "tilerun: something was written between the rows of %s, at byte %zu of %zu\n",
                slot->tensor->name, at, slot->bytes);
        status = RUN_FINDINGS;
    }
    return status;
}

/* Puts the inputs in memory, and zeros everywhere else. */
static bool
fill_all(Session *s, Machine *machine)
{
    for (uint32_t i = 0; i < s->rooms.n; i++) {
        const Room *room = &s->rooms.at[i];
        if (!machine->clear(machine, room->address, room->bytes, !room->memory->is_scratch,
                            s->cx->fault))
            return false;
    }
    for (uint32_t i = 0; i < s->slots.n; i++) {
        Slot *slot = &s->slots.at[i];
        if (slot->strides) {
            if (!fill_strided(s, slot, i))
                return false;
            continue;
        }
        if (!slot->input && slot->tensor->mode == META_IN) {
            if (!fill_random(s, slot, i))
                return false;
            continue;
        }
        if (!slot->input) {
            if (!machine->clear(machine, slot->view.address, slot->bytes, slot->undefined,
                                s->cx->fault))
                return false;
            continue;
        }
        unsigned char *memory = calloc(slot->bytes ? slot->bytes : 1, 1);
        if (!memory)
            return fault_set(s->cx->fault, "out of memory");
        copy_strided(slot, slot->input->data, memory, true);
        bool ok = machine->write(machine, slot->view.address, memory, slot->bytes, s->cx->fault);
        free(memory);
        if (!ok)
            return false;
    }
    return true;
}

static bool
fetch_output(Session *s, Slot *slot, NpyArray *out)
{
    RunContext *cx = s->cx;
    size_t total = slot->tensor->element_bytes;

    *out = (NpyArray){.rank = slot->view.rank};
    for (uint32_t d = 0; d < out->rank; d++) {
        out->shape[d] = slot->view.shape[d];
        total *= (size_t)slot->view.shape[d];
    }
    out->total = total;
    out->data = arena_alloc(cx->arena, total ? total : 1);
    unsigned char *memory = calloc(slot->bytes ? slot->bytes : 1, 1); /* the arena may jump away */
    if (!memory)
        return fault_set(cx->fault, "out of memory");
    bool ok = npy_type_of(slot->tensor->dtype, &out->kind, &out->bytes) &&
              cx->machine->read(cx->machine, slot->view.address, memory, slot->bytes, cx->fault);
    if (ok)
        copy_strided(slot, out->data, memory, false);
    free(memory);
    return ok;
}

static bool
save_outputs(Session *s)
{
    for (uint32_t i = 0; i < s->slots.n; i++) {
        Slot *slot = &s->slots.at[i];
        NpyArray array;
        if (!slot->output)
            continue;
        if (!fetch_output(s, slot, &array) || !npy_write(slot->output, &array, s->cx->fault))
            return false;
        printf("%s: %s[", slot->tensor->name, slot->tensor->dtype);
        for (uint32_t d = 0; d < array.rank; d++)
            printf("%s%lld", d ? ", " : "", (long long)array.shape[d]);
        printf("] in %s\n", slot->output);
    }
    return true;
}

/* What the simulator can tell beside its findings: outputs not written, and (with several seeds)
 * outputs that depend on the order of things. */
static bool
note_outputs(Session *s, bool first)
{
    for (uint32_t i = 0; i < s->slots.n; i++) {
        Slot *slot = &s->slots.at[i];
        NpyArray array;
        if (slot->undefined && !slot->strides && first) {
            size_t wanted = slot->tensor->element_bytes, written;
            for (uint32_t d = 0; d < slot->view.rank; d++)
                wanted *= (size_t)slot->view.shape[d];
            written = s->cx->machine->count_written(s->cx->machine, slot->view.address, slot->bytes);
            if (written < wanted)
                fprintf(stderr, "tilerun: note: %zu of %zu bytes of %s were not written\n",
                        wanted - written, wanted, slot->tensor->name);
        }
        if (!slot->output || s->cx->options->seeds <= 1)
            continue;
        if (!fetch_output(s, slot, &array))
            return false;
        if (first)
            slot->first = array.data;
        else if (slot->first && memcmp(slot->first, array.data, array.total) != 0) {
            fprintf(stderr, "tilerun: note: %s differs between seeds\n", slot->tensor->name);
            slot->first = NULL;
        }
    }
    return true;
}

/* Every kernel must leave its scratch zero, or the next launch goes wrong. */
static RunStatus
check_scratch(Session *s)
{
    RunContext *cx = s->cx;
    RunStatus status = RUN_OK;

    for (uint32_t i = 0; i < s->rooms.n; i++) {
        const Room *room = &s->rooms.at[i];
        size_t at = 0;
        if (!room->memory->is_scratch || room->bytes == 0)
            continue;
        unsigned char *bytes = calloc(room->bytes, 1);
        if (!bytes) {
            fault_set(cx->fault, "out of memory");
            return RUN_FAULT;
        }
        bool ok = cx->machine->read(cx->machine, room->address, bytes, room->bytes, cx->fault);
        while (ok && at < room->bytes && bytes[at] == 0)
            at++;
        free(bytes);
        if (!ok)
            return RUN_FAULT;
        if (at == room->bytes)
            continue;
        fprintf(stderr, "tilerun: %s leaves its scratch %s not zero, at byte %zu of %zu\n",
                room->kernel->name, room->memory->name, at, room->bytes);
        status = RUN_FINDINGS;
    }
    return status;
}

static RunStatus
run_seeds(Session *s, const LaunchReady *launches)
{
    RunContext *cx = s->cx;
    RunStatus status = RUN_OK;

    for (uint32_t i = 0; i < cx->options->seeds; i++) {
        cx->machine->seed = cx->options->seed + i;
        cx->machine->seeds_before = i;
        if (!fill_all(s, cx->machine))
            return RUN_FAULT;
        RunStatus one = run_launches(cx, launches, s->kernels.n);
        RunStatus after = one; /* a launch with findings may have ended early */
        if (after < RUN_FINDINGS && !cx->machine->sample) /* whose blocks are not all */
            after = check_scratch(s);
        if (after < RUN_FINDINGS)
            after = check_gaps(s);
        one = after > one ? after : one;
        if (one == RUN_FAULT || !note_outputs(s, i == 0))
            return RUN_FAULT;
        if (one > status)
            status = one;
    }
    return status;
}

/* The launch of kernel `k`, ready with its tensor maps. */
static bool
prepare(Session *s, uint32_t k, LaunchReady *out)
{
    RunContext *cx = s->cx;
    const MetaKernel *kernel = s->kernels.at[k];
    TensorView *views = arena_array(cx->arena, TensorView, kernel->tensors.n + 1);
    uint64_t *memory = arena_array(cx->arena, uint64_t, kernel->memories.n + 1);

    for (uint32_t i = 0; i < kernel->tensors.n; i++)
        views[i] = find_slot(s, kernel->tensors.at[i].name)->view;
    for (uint32_t i = 0; i < kernel->memories.n; i++)
        memory[i] = find_room(s, kernel, &kernel->memories.at[i])->address;
    if (!bind_known_shapes(s, k) ||
        !launch_prepare(cx->arena, &s->values.at[k], views, memory, s->zeros, out, cx->fault))
        return false;
    for (uint32_t i = 0; i < out->n_maps; i++)
        if (!cx->machine->make_map(cx->machine, &out->maps[i], out->params + out->maps[i].offset,
                                   cx->fault))
            return false;
    print_launch(cx, out);
    return true;
}

RunStatus
run_described(RunContext *cx)
{
    Session s = {.cx = cx};
    const RunOptions *options = cx->options;

    if (!load_metadata(&s) || !choose_kernels(&s) || !make_slots(&s))
        return RUN_FAULT;
    for (uint32_t i = 0; i < options->sets.n; i++)
        if (!take_set(&s, &options->sets.at[i]))
            return RUN_FAULT;
    if (options->random)
        invent_scalars(&s);
    for (uint32_t i = 0; i < options->outputs.n; i++) {
        Slot *slot = find_slot(&s, options->outputs.at[i].name);
        if (!slot) {
            fault_set(cx->fault, "--out %s: there is no such tensor; the file has %s",
                      options->outputs.at[i].name, list_tensors(&s));
            return RUN_FAULT;
        }
        slot->output = options->outputs.at[i].value;
        if (!whole_file_can_write(slot->output)) {
            fault_set(cx->fault, "cannot write %s: %s", slot->output, strerror(errno));
            return RUN_FAULT;
        }
    }
    for (uint32_t i = 0; i < options->inputs.n; i++)
        if (!take_input(&s, &options->inputs.at[i]))
            return RUN_FAULT;
    for (uint32_t i = 0; i < options->strides.n; i++) {
        Slot *slot = find_slot(&s, options->strides.at[i].name);
        if (!slot) {
            fault_set(cx->fault, "--strides %s: there is no such tensor; the file has %s",
                      options->strides.at[i].name, list_tensors(&s));
            return RUN_FAULT;
        }
        slot->strides = options->strides.at[i].value;
    }
    if (!shape_all(&s))
        return RUN_FAULT;
    choose_variants(&s);
    if (!allocate_all(&s) || !allocate_rooms(&s))
        return RUN_FAULT;

    LaunchReady *launches = arena_array(cx->arena, LaunchReady, s.kernels.n);
    for (uint32_t k = 0; k < s.kernels.n; k++)
        if (!prepare(&s, k, &launches[k]))
            return RUN_FAULT;
    RunStatus status = run_seeds(&s, launches);
    if (status == RUN_FAULT || !save_outputs(&s) ||
        (options->time_runs && !run_timed(cx, launches, s.kernels.n)))
        return RUN_FAULT;
    return status;
}
