/* simrun.c - a small driver of the simulator, for its own tests.
 *
 *     simrun FILE.ptx [--entry NAME] [--grid X,Y,Z] [--block X,Y,Z] [--cluster X,Y,Z]
 *            [--shared BYTES] [--seed N] [--seeds N] [--threads N] [--no-check] [--banks] [--lines]
 *            [--steps N] [--expect KIND] [--strict] ARG...
 *
 * Arguments, in the order of the kernel's parameters:
 *     u32:V s32:V u64:V f32:V      a number
 *     in:FILE                      a buffer filled from a file of raw bytes
 *     out:FILE:BYTES               a buffer written to a file afterwards, not initialised
 *     inout:FILE                   both
 *     zero:BYTES   scratch:BYTES   a buffer of zeros, or not initialised
 *     null                         a null pointer
 *     map:TYPE:SWIZZLE:SIZES:BOX:BUFFER   a tensor map over a dense array, TYPE as in bf16, SWIZZLE
 *                                  0, 32, 64, 128, sizes as 64x128, innermost first
 *
 * Exit status: that of SimStatus.  --expect KIND: 0 if a finding of that kind was made under some
 * seed, else 2.  --time: prints seconds and instructions.  --banks: passes of shared memory by line;
 * --lines: of all lines that ran.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

enum { MAX_ARGS = 64 };

typedef struct Argument {
    uint64_t value; /* of the parameter, or the buffer's address */
    char *save; /* file to write the buffer to, or NULL */
    size_t bytes;
    uint8_t map[128]; /* instead of the value, if is_map */
    bool is_map;
} Argument;

typedef struct Options {
    SimLaunch launch;
    const char *file, *expect;
    uint64_t seeds;
    bool time, banks, lines;
    const char *spec[MAX_ARGS];
    Argument arg[MAX_ARGS];
    void *pointer[MAX_ARGS];
    size_t count;
} Options;

static void
die(const char *what, const char *name)
{
    fprintf(stderr, "simrun: %s: %s\n", what, name);
    exit(1);
}

static char *
read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    size_t capacity = 1 << 16, used = 0, n;
    char *text = malloc(capacity);
    if (!f || !text)
        die("cannot read", path);
    while ((n = fread(text + used, 1, capacity - used, f)) > 0) {
        used += n;
        if (used == capacity && !(text = realloc(text, capacity *= 2)))
            die("out of memory", path);
    }
    fclose(f);
    *size = used;
    return text;
}

static void
triple(const char *text, uint32_t out[3])
{
    unsigned v[3] = {1, 1, 1};
    sscanf(text, "%u,%u,%u", &v[0], &v[1], &v[2]);
    for (int i = 0; i < 3; i++)
        out[i] = v[i];
}

static void
parse(Options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(a, "--no-check") == 0)
            o->launch.checks = false;
        else if (strcmp(a, "--strict") == 0)
            o->launch.strict = true;
        else if (strcmp(a, "--time") == 0)
            o->time = true;
        else if (strcmp(a, "--banks") == 0)
            o->banks = o->launch.count_banks = true;
        else if (strcmp(a, "--lines") == 0)
            o->lines = o->launch.count_banks = true;
        else if (strncmp(a, "--", 2) == 0) {
            i++;
            if (strcmp(a, "--entry") == 0)
                o->launch.entry = next;
            else if (strcmp(a, "--grid") == 0)
                triple(next, o->launch.grid);
            else if (strcmp(a, "--block") == 0)
                triple(next, o->launch.block);
            else if (strcmp(a, "--cluster") == 0)
                triple(next, o->launch.cluster);
            else if (strcmp(a, "--shared") == 0)
                o->launch.dynamic_shared = (uint32_t)strtoul(next, NULL, 0);
            else if (strcmp(a, "--seed") == 0)
                o->launch.seed = strtoull(next, NULL, 0);
            else if (strcmp(a, "--seeds") == 0)
                o->seeds = strtoull(next, NULL, 0);
            else if (strcmp(a, "--threads") == 0)
                o->launch.threads = (uint32_t)strtoul(next, NULL, 0);
            else if (strcmp(a, "--steps") == 0)
                o->launch.step_limit = strtoull(next, NULL, 0);
            else if (strcmp(a, "--expect") == 0)
                o->expect = next;
            else
                die("unknown option", a);
        } else if (!o->file) {
            o->file = a;
        } else if (o->count < MAX_ARGS) {
            o->spec[o->count++] = a;
        } else {
            die("too many arguments", a);
        }
    }
    if (!o->file)
        die("no file is given", "usage: simrun FILE.ptx [options] ARG...");
}

static void
make_buffer(SimDevice *dev, Argument *a, const char *name, size_t bytes, const void *content)
{
    a->bytes = bytes;
    a->value = sim_alloc(dev, bytes, name);
    if (!a->value)
        die("out of memory", name);
    if (content)
        sim_write(dev, a->value, content, bytes);
}

static void make_map(SimDevice *dev, char *spec, Argument *a);

static void
make_argument(SimDevice *dev, const char *spec, Argument *a)
{
    const char *colon = strchr(spec, ':');
    const char *rest = colon ? colon + 1 : "";
    size_t bytes;
    memset(a, 0, sizeof *a);
    if (strncmp(spec, "f32:", 4) == 0) {
        float f = strtof(rest, NULL);
        memcpy(&a->value, &f, sizeof f);
    } else if (strncmp(spec, "u32:", 4) == 0 || strncmp(spec, "s32:", 4) == 0 ||
               strncmp(spec, "u64:", 4) == 0) {
        a->value = (uint64_t)strtoll(rest, NULL, 0);
    } else if (strncmp(spec, "in:", 3) == 0 || strncmp(spec, "inout:", 6) == 0) {
        char *content = read_whole(rest, &bytes);
        make_buffer(dev, a, rest, bytes, content);
        free(content);
        a->save = spec[2] == ':' ? NULL : strdup(rest);
    } else if (strncmp(spec, "out:", 4) == 0) {
        const char *last = strrchr(rest, ':');
        if (!last)
            die("out: needs FILE:BYTES", spec);
        bytes = strtoull(last + 1, NULL, 0);
        a->save = strndup(rest, (size_t)(last - rest));
        make_buffer(dev, a, a->save, bytes, NULL);
    } else if (strncmp(spec, "zero:", 5) == 0 || strncmp(spec, "scratch:", 8) == 0) {
        bytes = strtoull(rest, NULL, 0);
        make_buffer(dev, a, spec, bytes, NULL);
        if (*spec == 'z')
            sim_fill(dev, a->value, 0, bytes);
    } else if (strncmp(spec, "map:", 4) == 0) {
        char *text = strdup(rest);
        make_map(dev, text, a);
        free(text);
    } else if (strcmp(spec, "null") != 0) {
        die("unknown argument", spec);
    }
}

/* "64x128" to numbers; returns how many. */
static uint32_t
sizes(const char *text, uint64_t out[5])
{
    uint32_t n = 0;
    for (char *end; n < 5; text = end + 1) {
        out[n++] = strtoull(text, &end, 0);
        if (*end != 'x')
            break;
    }
    return n;
}

static void
make_map(SimDevice *dev, char *spec, Argument *a)
{
    static const char *const types[] = {"u8", "u16", "u32", "s32", "u64", "s64",
                                        "f16", "f32", "f64", "bf16"};
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    char *field[4], *rest = spec;
    for (int i = 0; i < 4; i++) {
        field[i] = rest;
        char *colon = strchr(rest, ':');
        if (!colon)
            die("map: needs TYPE:SWIZZLE:SIZES:BOX:BUFFER", spec);
        *colon = '\0';
        rest = colon + 1;
    }
    make_argument(dev, rest, a);
    SimTensorMap map = {.type = UINT32_MAX, .address = a->value};
    uint64_t box[5];
    SimError error;
    for (uint32_t t = 0; t < sizeof types / sizeof *types; t++)
        if (strcmp(field[0], types[t]) == 0)
            map.type = t;
    if (map.type == UINT32_MAX)
        die("unknown type of a map", field[0]);
    long span = strtol(field[1], NULL, 0);
    map.swizzle = span == 32 ? 1 : span == 64 ? 2 : span == 128 ? 3 : 0;
    map.rank = sizes(field[2], map.size);
    if (sizes(field[3], box) != map.rank)
        die("the box has another rank", field[3]);
    for (uint32_t i = 0; i < map.rank; i++) {
        map.box[i] = (uint32_t)box[i];
        map.element_stride[i] = 1;
        if (i + 1 < map.rank)
            map.stride[i] = (i ? map.stride[i - 1] : bytes[map.type]) * map.size[i];
    }
    if (!sim_tensor_map_encode(&map, a->map, &error))
        die("no such map", error.message);
    a->is_map = true;
}

static void
save(SimDevice *dev, const Argument *a)
{
    char *content = malloc(a->bytes ? a->bytes : 1);
    FILE *f = fopen(a->save, "wb");
    if (!f || !content || !sim_read(dev, a->value, content, a->bytes) ||
        fwrite(content, 1, a->bytes, f) != a->bytes)
        die("cannot write", a->save);
    fclose(f);
    free(content);
}

static void
print_banks(const SimReport *report, bool all)
{
    for (size_t i = 0; i < report->line_count; i++) {
        const SimLine *l = &report->lines[i];
        if (l->wavefronts || all)
            printf("line %u %s: %llu executed, %llu wavefronts, %llu ideal\n", l->ptx_line,
                   l->mnemonic, (unsigned long long)l->executed,
                   (unsigned long long)l->wavefronts, (unsigned long long)l->ideal);
    }
}

static int
run_once(Options *o, const char *text, size_t size, bool *expected)
{
    SimError error;
    SimDevice *dev = sim_device_new();
    SimModule *mod = dev ? sim_module_load(dev, text, size, o->file, &error) : NULL;
    if (!mod) {
        fprintf(stderr, "%s:%u: error: %s\n", o->file, error.line, error.message);
        sim_device_free(dev);
        return SIM_STATUS_ERROR;
    }
    for (size_t i = 0; i < o->count; i++) {
        make_argument(dev, o->spec[i], &o->arg[i]);
        o->pointer[i] = o->arg[i].is_map ? (void *)o->arg[i].map : (void *)&o->arg[i].value;
    }
    o->launch.args = o->pointer;
    o->launch.arg_count = o->count;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    SimReport *report = sim_launch(mod, &o->launch);
    clock_gettime(CLOCK_MONOTONIC, &to);
    for (size_t i = 0; i < report->finding_count; i++)
        if (o->expect && strcmp(sim_finding_name(report->findings[i].kind), o->expect) == 0)
            *expected = true;
    if (!o->expect || report->status == SIM_STATUS_ERROR)
        sim_report_print(report, stdout);
    if (o->time)
        printf("%.3f s, %llu warp instructions\n",
               (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec),
               (unsigned long long)report->instructions);
    if (o->banks || o->lines)
        print_banks(report, o->lines);
    for (size_t i = 0; i < o->count; i++)
        if (o->arg[i].save) {
            save(dev, &o->arg[i]);
            free(o->arg[i].save);
        }
    int status = (int)report->status;
    sim_report_free(report);
    sim_device_free(dev);
    return status;
}

int
main(int argc, char **argv)
{
    Options o = {.launch = sim_launch_defaults(), .seeds = 1};
    size_t size;
    bool expected = false;
    int status = 0;
    parse(&o, argc, argv);
    char *text = read_whole(o.file, &size);
    for (uint64_t i = 0; i < o.seeds && (status == 0 || (o.expect && !expected)); i++) {
        status = run_once(&o, text, size, &expected);
        if (status == SIM_STATUS_ERROR)
            break;
        if (status && !o.expect)
            printf("(seed %llu)\n", (unsigned long long)o.launch.seed);
        o.launch.seed++;
    }
    free(text);
    return o.expect && status != SIM_STATUS_ERROR ? (expected ? 0 : 2) : status;
}
