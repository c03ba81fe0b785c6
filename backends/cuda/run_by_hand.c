/* run_by_hand.c - runs anybody's PTX: entry, grid, block, shared memory and arguments as given. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/tilerun.h"

/* One argument; memory arguments have `bytes` > 0 or `is_memory`. */
typedef struct Argument {
    bool is_memory;
    NpyArray array; /* what goes in, and the form of what comes out */
    bool has_input;
    const char *output;
    uint64_t address;
    uint32_t value_bytes; /* of the parameter */
    unsigned char value[8];
} Argument;

static bool
parse_number(const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 0);
    return end != text && *end == '\0' && !errno && *out >= low && *out <= high;
}

/* FILE:dtype:2,256 */
static bool
parse_output(RunContext *cx, const char *text, Argument *argument)
{
    char *copy = arena_strndup(cx->arena, text, strlen(text));
    char *shape = strrchr(copy, ':');

    if (!shape)
        return fault_set(cx->fault, "--arg out=%s: expected out=FILE.npy:TYPE:SHAPE, as "
                                    "out=o.npy:f32:2,256", text);
    *shape++ = '\0';
    char *type = strrchr(copy, ':');
    if (!type)
        return fault_set(cx->fault, "--arg out=%s: expected out=FILE.npy:TYPE:SHAPE, as "
                                    "out=o.npy:f32:2,256", text);
    *type++ = '\0';
    NpyArray *array = &argument->array;
    if (!npy_type_of(type, &array->kind, &array->bytes))
        return fault_set(cx->fault, "--arg out=%s: unknown type '%s' (f16, bf16, f32, i32, bool, e4m3)",
                         text, type);
    array->total = array->bytes;
    for (char *at = shape; *at;) {
        char *end;
        long long extent = strtoll(at, &end, 10);
        if (end == at || extent < 0 || extent > INT32_MAX || array->rank == NPY_MAX_RANK ||
            (*end && *end != ','))
            return fault_set(cx->fault, "--arg out=%s: '%s' is no shape, as 2,256", text, shape);
        array->shape[array->rank++] = extent;
        array->total *= (size_t)extent;
        at = *end ? end + 1 : end;
    }
    argument->output = copy;
    return true;
}

static bool
parse_argument(RunContext *cx, const NamedValue *given, Argument *argument)
{
    const char *text = given->value;
    int64_t integer;
    char *end;

    *argument = (Argument){.value_bytes = 8};
    if (strcmp(given->name, "in") == 0) {
        argument->is_memory = argument->has_input = true;
        return npy_read(cx->arena, text, &argument->array, cx->fault);
    }
    if (strcmp(given->name, "out") == 0) {
        argument->is_memory = true;
        return parse_output(cx, text, argument);
    }
    if (strcmp(given->name, "scratch") == 0) {
        argument->is_memory = true;
        if (!parse_number(text, 0, INT64_MAX / 2, &integer))
            return fault_set(cx->fault, "--arg scratch=%s: expected a number of bytes", text);
        argument->array.total = (size_t)integer;
        return true;
    }
    if (strcmp(given->name, "i32") == 0) {
        if (!parse_number(text, INT32_MIN, UINT32_MAX, &integer))
            return fault_set(cx->fault, "--arg i32=%s: expected a whole number of 32 bits", text);
        uint32_t bits = (uint32_t)integer;
        memcpy(argument->value, &bits, sizeof bits);
        argument->value_bytes = 4;
        return true;
    }
    if (strcmp(given->name, "i64") == 0) {
        if (!parse_number(text, INT64_MIN, INT64_MAX, &integer))
            return fault_set(cx->fault, "--arg i64=%s: expected a whole number", text);
        memcpy(argument->value, &integer, sizeof integer);
        return true;
    }
    if (strcmp(given->name, "f32") == 0) {
        float real = strtof(text, &end);
        if (end == text || *end)
            return fault_set(cx->fault, "--arg f32=%s: expected a number", text);
        memcpy(argument->value, &real, sizeof real);
        argument->value_bytes = 4;
        return true;
    }
    return fault_set(cx->fault, "--arg %s=: expected in, out, f32, i32, i64 or scratch", given->name);
}

/* Allocates what an argument points to. */
static bool
place_argument(RunContext *cx, uint32_t index, Argument *argument)
{
    const char *name = arena_printf(cx->arena, "argument %u", (unsigned)index);

    if (!argument->is_memory)
        return true;
    if (!cx->machine->allocate(cx->machine, argument->array.total, name, &argument->address,
                               cx->fault))
        return false;
    memcpy(argument->value, &argument->address, 8);
    return true;
}

static bool
fill_argument(RunContext *cx, const Argument *argument)
{
    size_t bytes = argument->array.total;

    if (!argument->is_memory)
        return true;
    if (argument->has_input)
        return cx->machine->write(cx->machine, argument->address, argument->array.data, bytes,
                                  cx->fault);
    return cx->machine->clear(cx->machine, argument->address, bytes, argument->output != NULL,
                              cx->fault);
}

static bool
save_argument(RunContext *cx, Argument *argument)
{
    if (!argument->output)
        return true;
    argument->array.data = arena_alloc(cx->arena, argument->array.total + 1);
    if (!cx->machine->read(cx->machine, argument->address, argument->array.data,
                           argument->array.total, cx->fault) ||
        !npy_write(argument->output, &argument->array, cx->fault))
        return false;
    printf("%s written\n", argument->output);
    return true;
}

RunStatus
run_by_hand(RunContext *cx)
{
    const RunOptions *o = cx->options;
    uint32_t n = o->args.n, offset = 0;
    Argument *arguments = arena_array(cx->arena, Argument, n + 1);
    LaunchReady ready = {.shared = o->shared, .n_args = n, .by_hand = true};
    RunStatus status = RUN_OK;

    if (o->entries.n != 1 || !o->grid_given || !o->block_given) {
        fault_set(cx->fault, "%s has to be described by hand: --entry NAME --grid X,Y,Z --block N "
                             "[--smem BYTES] --arg ..", o->path);
        return RUN_FAULT;
    }
    ready.entry = o->entries.at[0];
    for (int d = 0; d < 3; d++) {
        ready.grid[d] = o->grid[d];
        ready.block[d] = o->block[d];
        ready.cluster[d] = o->cluster[d];
    }
    ready.params = arena_alloc(cx->arena, (size_t)n * 8 + 8);
    ready.args = arena_array(cx->arena, void *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (!parse_argument(cx, &o->args.at[i], &arguments[i]) ||
            !place_argument(cx, i, &arguments[i]))
            return RUN_FAULT;
        uint32_t bytes = arguments[i].value_bytes;
        offset = (offset + bytes - 1) / bytes * bytes;
        ready.args[i] = ready.params + offset;
        memcpy(ready.args[i], arguments[i].value, bytes);
        offset += bytes;
    }
    ready.param_bytes = offset;
    print_launch(cx, &ready);
    for (uint32_t seed = 0; seed < o->seeds; seed++) {
        cx->machine->seed = o->seed + seed;
        for (uint32_t i = 0; i < n; i++)
            if (!fill_argument(cx, &arguments[i]))
                return RUN_FAULT;
        RunStatus one = run_launches(cx, &ready, 1);
        if (one == RUN_FAULT)
            return one;
        if (one == RUN_FINDINGS)
            status = one;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!save_argument(cx, &arguments[i]))
            return RUN_FAULT;
    return o->time_runs && !run_timed(cx, &ready, 1) ? RUN_FAULT : status;
}
