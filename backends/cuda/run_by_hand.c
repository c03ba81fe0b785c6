/* run_by_hand.c - runs anybody's PTX: entry, grid, block, shared memory and arguments as given. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/tilerun.h"
#include "backends/sim/launch_args.h"
#include "compiler/base/whole_file.h"

/* ---- the words of --arg ---- */

static bool
parse_number(const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 0);
    return end != text && *end == '\0' && !errno && *out >= low && *out <= high;
}

static bool
wrong_output(RunContext *cx, const char *text)
{
    return fault_set(cx->fault,
                     "--arg out=%s: expected out=FILE.npy:TYPE:SHAPE, as "
                     "out=o.npy:f32:2,256",
                     text);
}

/* FILE:dtype:2,256 */
static bool
parse_output(RunContext *cx, const char *text, NpyArray *array, const char **file)
{
    char *copy = arena_strndup(cx->arena, text, strlen(text));
    char *shape = strrchr(copy, ':');

    *array = (NpyArray){0};
    if (!shape)
        return wrong_output(cx, text);
    *shape++ = '\0';
    char *type = strrchr(copy, ':');
    if (!type)
        return wrong_output(cx, text);
    *type++ = '\0';
    if (!npy_type_of(type, &array->kind, &array->bytes))
        return fault_set(cx->fault, "--arg out=%s: unknown type '%s' (%s)", text, type,
                         npy_types(cx->arena));
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
    *file = copy;
    return true;
}

static bool
ends_in_npy(const char *word)
{
    size_t n = strlen(word);

    return n > 4 && strcmp(word + n - 4, ".npy") == 0;
}

/* LaunchArgs.other: in=FILE.npy, in: and inout: of a FILE.npy, out=FILE.npy:TYPE:SHAPE. */
static bool
take_array(LaunchArgs *args, const char *word, size_t *buffer)
{
    RunContext *cx = args->state;
    bool equals = strncmp(word, "in=", 3) == 0, both = strncmp(word, "inout:", 6) == 0;
    bool reads = equals || ((both || strncmp(word, "in:", 3) == 0) && ends_in_npy(word));
    const char *file = word + strcspn(word, "=:") + 1, *output = NULL;

    if (!reads && strncmp(word, "out=", 4) != 0)
        return true;
    NpyArray *array = arena_new(cx->arena, NpyArray);
    if (reads ? !npy_read(cx->arena, file, array, cx->fault)
              : !parse_output(cx, file, array, &output))
        return launch_args_fail(args, "--arg", word); /* the fault says more */
    if (!launch_args_buffer(args, reads ? file : output, array->total, reads ? array->data : NULL,
                            both ? file : output, buffer))
        return false;
    args->buffer[*buffer].form = array;
    return true;
}

/* KIND=VALUE of numbers and scratch memory, in the form that the reader of arguments takes. */
static bool
plain_word(RunContext *cx, const char *word, const char **out)
{
    size_t kind = strcspn(word, "=:");
    const char *text = word + kind + 1;
    int64_t integer;
    char *end;

    *out = word;
    if (word[kind] != '=' || *word == '@' || strncmp(word, "in=", 3) == 0 ||
        strncmp(word, "out=", 4) == 0)
        return true;
    if (strncmp(word, "scratch=", 8) == 0) {
        if (!parse_number(text, 0, INT64_MAX / 2, &integer))
            return fault_set(cx->fault, "--arg scratch=%s: expected a number of bytes", text);
        *out = arena_printf(cx->arena, "zero:%lld", (long long)integer);
        return true;
    }
    if (strncmp(word, "i32=", 4) == 0) {
        if (!parse_number(text, INT32_MIN, UINT32_MAX, &integer))
            return fault_set(cx->fault, "--arg i32=%s: expected a whole number of 32 bits", text);
        *out = arena_printf(cx->arena, "u32:%lu", (unsigned long)(uint32_t)integer);
        return true;
    }
    if (strncmp(word, "i64=", 4) == 0) {
        if (!parse_number(text, INT64_MIN, INT64_MAX, &integer))
            return fault_set(cx->fault, "--arg i64=%s: expected a whole number", text);
        *out = arena_printf(cx->arena, "s64:%lld", (long long)integer);
        return true;
    }
    if (strncmp(word, "f32=", 4) == 0) {
        (void)strtof(text, &end);
        if (end == text || *end)
            return fault_set(cx->fault, "--arg f32=%s: expected a number", text);
        *out = arena_printf(cx->arena, "f32:%s", text);
        return true;
    }
    return fault_set(cx->fault,
                     "--arg %.*s=: expected in, out, f32, i32, i64 or scratch, or one of the "
                     "forms with a colon (docs/command-line.md)",
                     (int)kind, word);
}

static bool
can_write_all(RunContext *cx, const LaunchArgs *args)
{
    for (size_t i = 0; i < args->buffer_count; i++) {
        const char *path = args->buffer[i].output;
        if (path != NULL && !whole_file_can_write(path))
            return fault_set(cx->fault, "cannot write %s: %s", path, strerror(errno));
    }
    return true;
}

static bool
read_words(RunContext *cx, LaunchArgs *args)
{
    uint32_t n = cx->options->args.n;
    const char **words = arena_array(cx->arena, const char *, n + 1);

    for (uint32_t i = 0; i < n; i++)
        if (!plain_word(cx, cx->options->args.at[i], &words[i]))
            return false;
    args->other = take_array;
    args->state = cx;
    if (launch_args_read(args, words, n))
        return can_write_all(cx, args);
    return cx->fault->text[0] ? false : fault_set(cx->fault, "--arg: %s", args->error);
}

/* ---- on the machine ---- */

static bool
make_map(RunContext *cx, LaunchArgs *args, const LaunchMap *map)
{
    TensorMapValues values = {
        .type = map->type, .rank = map->rank, .swizzle = map->swizzle, .fill = map->fill};

    if (map->im2col)
        return fault_set(cx->fault, "a map of the mode im2col: simrun takes it, tilerun does not");
    values.address = (map->in_buffer ? args->buffer[map->buffer].address : 0) + map->plus;
    for (uint32_t d = 0; d < map->rank; d++) {
        values.size[d] = map->size[d];
        values.stride[d] = map->stride[d];
        values.box[d] = map->box[d];
        values.step[d] = map->step[d];
    }
    return cx->machine->make_map(cx->machine, &values, launch_args_at(args, map->at), cx->fault);
}

/* Gives buffers their memory, and the values the addresses and tensor maps. */
static bool
place_all(RunContext *cx, LaunchArgs *args)
{
    for (size_t i = 0; i < args->buffer_count; i++) {
        LaunchBuffer *b = &args->buffer[i];
        if (!cx->machine->allocate(cx->machine, b->bytes, b->name, &b->address, cx->fault))
            return false;
    }
    for (size_t i = 0; i < args->address_count; i++) {
        const LaunchAddress *a = &args->address[i];
        uint64_t address = args->buffer[a->buffer].address + a->plus;
        memcpy(launch_args_at(args, a->at), &address, sizeof address);
    }
    for (size_t i = 0; i < args->map_count; i++)
        if (!make_map(cx, args, &args->map[i]))
            return false;
    return true;
}

static bool
fill_all(RunContext *cx, const LaunchArgs *args)
{
    Machine *machine = cx->machine;

    for (size_t i = 0; i < args->buffer_count; i++) {
        const LaunchBuffer *b = &args->buffer[i];
        if (b->content ? !machine->write(machine, b->address, b->content, b->bytes, cx->fault)
                       : !machine->clear(machine, b->address, b->bytes, true, cx->fault))
            return false;
    }
    return true;
}

static bool
write_bytes(RunContext *cx, const LaunchBuffer *b, const void *bytes)
{
    FilePart whole = {bytes, b->bytes};

    return whole_file_write(b->output, &whole, 1) ||
           fault_set(cx->fault, "cannot write %s: %s", b->output, strerror(errno));
}

static bool
save_all(RunContext *cx, const LaunchArgs *args)
{
    for (size_t i = 0; i < args->buffer_count; i++) {
        const LaunchBuffer *b = &args->buffer[i];
        if (!b->output)
            continue;
        void *bytes = arena_alloc(cx->arena, b->bytes + 1);
        if (!cx->machine->read(cx->machine, b->address, bytes, b->bytes, cx->fault))
            return false;
        NpyArray array = b->form ? *(const NpyArray *)b->form : (NpyArray){0};
        array.data = bytes;
        if (b->form ? !npy_write(b->output, &array, cx->fault) : !write_bytes(cx, b, bytes))
            return false;
        printf("%s written\n", b->output);
    }
    return true;
}

static RunStatus
run_seeds(RunContext *cx, const LaunchArgs *args, const LaunchReady *ready)
{
    const RunOptions *o = cx->options;
    RunStatus status = RUN_OK;

    for (uint32_t seed = 0; seed < o->seeds; seed++) {
        cx->machine->seed = o->seed + seed;
        cx->machine->seeds_before = seed;
        if (!fill_all(cx, args))
            return RUN_FAULT;
        RunStatus one = run_launches(cx, ready, 1);
        if (one == RUN_FAULT)
            return one;
        if (one > status)
            status = one;
    }
    return status;
}

static RunStatus
run_with(RunContext *cx, LaunchArgs *args)
{
    const RunOptions *o = cx->options;
    LaunchReady ready = {.entry = o->entries.at[0], .shared = o->shared, .by_hand = true};

    for (int d = 0; d < 3; d++) {
        ready.grid[d] = o->grid[d];
        ready.block[d] = o->block[d];
        ready.cluster[d] = o->cluster[d];
    }
    if (!read_words(cx, args) || !place_all(cx, args))
        return RUN_FAULT;
    ready.n_args = (uint32_t)args->value_count;
    ready.args = arena_array(cx->arena, void *, args->value_count + 1);
    ready.arg_bytes = arena_array(cx->arena, uint32_t, args->value_count + 1);
    for (size_t i = 0; i < args->value_count; i++) {
        ready.args[i] = args->value[i].bytes;
        ready.arg_bytes[i] = (uint32_t)args->value[i].size;
    }
    print_launch(cx, &ready);
    RunStatus status = run_seeds(cx, args, &ready);
    if (status == RUN_FAULT || !save_all(cx, args) || (o->time_runs && !run_timed(cx, &ready, 1)))
        return RUN_FAULT;
    return status;
}

RunStatus
run_by_hand(RunContext *cx)
{
    const RunOptions *o = cx->options;

    if (o->entries.n != 1 || !o->grid_given || !o->block_given) {
        fault_set(cx->fault,
                  "%s has to be described by hand: --entry NAME --grid X,Y,Z --block N "
                  "[--smem BYTES] --arg ..",
                  o->path);
        return RUN_FAULT;
    }
    LaunchArgs *args = arena_new(cx->arena, LaunchArgs);
    *cx->open = args;
    RunStatus status = run_with(cx, args);
    *cx->open = NULL;
    launch_args_free(args);
    return status;
}
