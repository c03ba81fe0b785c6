/* tilerun.c - runs a PTX file on arrays from .npy files, on the GPU or in the simulator.
 *
 * Exit status: 0 all went well, 1 an error, 3 the simulator found faults, 4 all went well but
 * --time's replay broke.
 */
#define _POSIX_C_SOURCE 200809L /* fileno, isatty */
#include "backends/cuda/tilerun.h"
#include "backends/sim/launch_args.h"
#include "backends/sim/sim.h"
#include "compiler/command/listing.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef TILEC_VERSION
#define TILEC_VERSION "0.1.0"
#endif

static const char usage[] =
    "usage: tilerun FILE.ptx --in NAME=FILE.npy.. --set NAME=VALUE.. --out NAME=FILE.npy..\n"
    "       tilerun FILE.ptx --entry NAME --grid X,Y,Z --block N [--smem BYTES] --arg ..\n"
    "\n"
    "Runs a PTX file that tilec made, from what it says of itself: sizes come from the arrays.\n"
    "  --in NAME=FILE.npy     a tensor that the kernels read (f16: float16; bf16: uint16, the bits)\n"
    "  --out NAME=FILE.npy    a tensor to save after the run\n"
    "  --set NAME=VALUE       a scalar, or a size that no array has\n"
    "  --strides NAME=N,N,..  a tensor's strides in elements, of all dimensions but the last\n"
    "  --random               tensors that are not given get numbers from -1 to 1, scalars 1/16\n"
    "  --entry NAME           only this kernel (again: then that one); else all, in the file's order\n"
    "\n"
    "Any other PTX is described by hand, arguments in the order of the kernel's parameters:\n"
    "  --entry NAME  --grid X,Y,Z  --block N[,Y,Z]  --smem BYTES  --cluster X,Y,Z\n"
    "  --arg in=FILE.npy      --arg out=FILE.npy:TYPE:SHAPE, as out=o.npy:f32:2,256\n"
    "  --arg f32=VALUE        --arg i32=VALUE    --arg i64=VALUE    --arg scratch=BYTES\n"
    "  --arg map:TYPE:SWIZZLE:SIZES:BOX:BUFFER  a tensor map, as map:bf16:128:64x512:64x128:in=k.npy\n"
    "  --arg struct:BYTES --arg @OFFSET=ARG ..  a structure by value and its fields\n"
    "  --arg mem:BYTES --arg @OFFSET=ARG ..     the same in memory, by its address\n"
    "  --arg bytes:FILE       bytes by value     --arg at:N+BYTES   in the N-th buffer, from 0\n"
    "  --arg u8:V .. f64:V, in:FILE, out:FILE:BYTES, inout:FILE, zero:BYTES, scratch:BYTES, null\n"
    "\n"
    "  --device gpu|sim       where to run; else the GPU where there is one\n"
    "  --time N               then time N runs on the GPU and print the median\n"
    "  --time sm_90           simulator: how many cycles an H200 would take, by a model of its units that\n"
    "                         replays the machine code, where ptxas and nvdisasm are (docs/timing.md)\n"
    "  --time sm_100, sm_103  the same of a B200, B300, by figures that others published: nobody ran it there\n"
    "  --time sm_80, sm_86, sm_89, sm_120  .. of an A100, RTX 3090, RTX 4090, RTX 5090\n"
    "  --time sm_90,sample    and run the blocks of one SM only: results are not whole\n"
    "  --time sm_90,path      and print the critical path, and what 10 % faster units would gain\n"
    "  --time sm_90,svg=FILE  and draw some iterations: units, warps, the critical path\n"
    "  --time sm_90,trace=FILE the launch as trace events, for Perfetto (ui.perfetto.dev)\n"
    "  --time sm_90,json=FILE and add a line of JSON to the file for each launch\n"
    "  --time sm_90,ptx       by costs of PTX, which takes no other program and is less accurate\n"
    "  --time sm_90,NAME=X    with another figure than the table's, as mufu=4\n"
    "  --seed N  --seeds N    simulator: the first seed, and how many of them to run\n"
    "  --no-check             simulator: do not look for races and the like\n"
    "  --strict               simulator: notes are faults\n"
    "  --late                 simulator: some warps run as late as they can: finds hangs\n"
    "  --quiet                no progress on a terminal\n"
    "  --sm-count N           multiprocessors that persistent kernels count with, in place of the\n"
    "                         GPU's own number (simulator: of 3)\n"
    "  --gpu                  name the GPU, and no more: an error where there is none\n"
    "  --batch                read command lines from standard input, and run each\n"
    "  --version  --help\n";

enum { EXIT_FINDINGS = 3, EXIT_UNTIMED = 4 };

/* ---- what both ways of running share ---- */

void
print_launch(const RunContext *cx, const LaunchReady *launch)
{
    printf("%s: grid %u x %u x %u, block %u, %u bytes of dynamic shared memory, on %s\n",
           launch->entry, (unsigned)launch->grid[0], (unsigned)launch->grid[1],
           (unsigned)launch->grid[2],
           (unsigned)(launch->block[0] * launch->block[1] * launch->block[2]),
           (unsigned)launch->shared, cx->machine->name);
    fflush(stdout);
}

RunStatus
run_launches(RunContext *cx, const LaunchReady *launches, uint32_t n)
{
    RunStatus status = RUN_OK;

    for (uint32_t k = 0; k < n; k++) {
        RunStatus one = cx->machine->launch(cx->machine, &launches[k], cx->fault);
        if (one == RUN_FAULT)
            return one;
        if (one > status)
            status = one;
    }
    return status;
}

static int
compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

bool
run_timed(RunContext *cx, const LaunchReady *launches, uint32_t n)
{
    uint32_t runs = cx->options->time_runs;
    float *times = arena_array(cx->arena, float, runs);

    if (!cx->machine->time)
        return fault_set(cx->fault, "--time needs a GPU; this ran on %s", cx->machine->name);
    if (!cx->machine->time(cx->machine, launches, n, runs, times, cx->fault))
        return false;
    qsort(times, runs, sizeof *times, compare_floats);
    printf("time: median %.4f ms, fastest %.4f ms, slowest %.4f ms, of %u runs\n",
           (double)(runs % 2 ? times[runs / 2] : (times[runs / 2 - 1] + times[runs / 2]) / 2),
           (double)times[0], (double)times[runs - 1], (unsigned)runs);
    return true;
}

/* ---- the command line ---- */

/* Splits NAME=VALUE. */
static bool
split(Arena *arena, const char *option, const char *text, NamedValue *out, Fault *fault)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text || equals[1] == '\0')
        return fault_set(fault, "%s %s: expected NAME=VALUE", option, text);
    out->name = arena_strndup(arena, text, (size_t)(equals - text));
    out->value = equals + 1;
    return true;
}

static bool
parse_whole(const char *option, const char *text, uint64_t least, uint64_t limit, uint64_t *out,
            Fault *fault)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || *out < least || *out > limit)
        return fault_set(fault, "%s %s: expected a whole number from %llu to %llu", option, text,
                         (unsigned long long)least, (unsigned long long)limit);
    return true;
}

/* X[,Y[,Z]]; what is left out is 1. */
static bool
parse_three(const char *option, const char *text, uint32_t out[3], Fault *fault)
{
    const char *at = text;

    out[0] = out[1] = out[2] = 1;
    for (int d = 0; d < 3; d++) {
        char *end;
        errno = 0;
        unsigned long value = strtoul(at, &end, 10);
        if (*at < '0' || *at > '9' || errno || value > INT32_MAX || (*end && *end != ','))
            break;
        out[d] = (uint32_t)value;
        if (!*end)
            return true;
        at = end + 1;
    }
    return fault_set(fault, "%s %s: expected up to three numbers, as 8,4,2", option, text);
}

/* An option with a value. */
static bool
take_option(Arena *arena, RunOptions *o, const char *option, const char *value, Fault *fault)
{
    NamedValue named;
    uint64_t number;

    if (strcmp(option, "--arg") == 0) {
        vec_push(arena, &o->args, value);
        return true;
    }
    if (strcmp(option, "--in") == 0 || strcmp(option, "--out") == 0 ||
        strcmp(option, "--set") == 0 || strcmp(option, "--strides") == 0) {
        if (!split(arena, option, value, &named, fault))
            return false;
        if (option[2] == 'i')
            vec_push(arena, &o->inputs, named);
        else if (option[2] == 'o')
            vec_push(arena, &o->outputs, named);
        else if (option[3] == 'e')
            vec_push(arena, &o->sets, named);
        else
            vec_push(arena, &o->strides, named);
        return true;
    }
    if (strcmp(option, "--entry") == 0) {
        vec_push(arena, &o->entries, value);
        return true;
    }
    if (strcmp(option, "--device") == 0) {
        o->device = value;
        return strcmp(value, "gpu") == 0 || strcmp(value, "sim") == 0 ||
               fault_set(fault, "--device %s: expected gpu or sim", value);
    }
    if (strcmp(option, "--grid") == 0) {
        o->grid_given = true;
        return parse_three(option, value, o->grid, fault);
    }
    if (strcmp(option, "--block") == 0) {
        o->block_given = true;
        return parse_three(option, value, o->block, fault);
    }
    if (strcmp(option, "--cluster") == 0)
        return parse_three(option, value, o->cluster, fault);
    if (strcmp(option, "--seed") == 0)
        return parse_whole(option, value, 0, UINT64_MAX, &o->seed, fault);
    if (strcmp(option, "--time") == 0 && strncmp(value, "sm_", 3) == 0) {
        o->clock = value;
        return true;
    }
    if (strcmp(option, "--time") == 0 && isalpha((unsigned char)*value))
        return fault_set(
            fault,
            "--time %s: expected a number of runs on the GPU, or a chip for the simulator's "
            "clock: sm_80, sm_86, sm_89, sm_90, sm_100, sm_103 or sm_120",
            value);
    bool shared = strcmp(option, "--smem") == 0;
    if (!parse_whole(option, value, shared ? 0 : 1, shared ? 1 << 20 : 1000000, &number, fault))
        return false;
    if (shared)
        o->shared = (uint32_t)number;
    else if (strcmp(option, "--time") == 0)
        o->time_runs = (uint32_t)number;
    else if (strcmp(option, "--sm-count") == 0)
        o->sm_count = (uint32_t)number;
    else
        o->seeds = (uint32_t)number;
    return true;
}

static bool
parse_command_line(Arena *arena, int argc, char **argv, RunOptions *o, Fault *fault)
{
    static const char *const with_value[] = {
        "--in",   "--out",     "--set",  "--arg",  "--entry", "--device",   "--grid",   "--block",
        "--smem", "--cluster", "--time", "--seed", "--seeds", "--sm-count", "--strides"};

    *o = (RunOptions){.seeds = 1, .cluster = {1, 1, 1}};
    for (int i = 1; i < argc; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof with_value / sizeof *with_value; k++)
            known |= strcmp(argv[i], with_value[k]) == 0;
        if (known) {
            if (i + 1 == argc)
                return fault_set(fault, "%s needs a value", argv[i]);
            if (!take_option(arena, o, argv[i], argv[i + 1], fault))
                return false;
            i++;
        } else if (strcmp(argv[i], "--no-check") == 0) {
            o->no_checks = true;
        } else if (strcmp(argv[i], "--strict") == 0) {
            o->strict = true;
        } else if (strcmp(argv[i], "--late") == 0) {
            o->late = true;
        } else if (strcmp(argv[i], "--quiet") == 0) {
            o->quiet = true;
        } else if (strcmp(argv[i], "--random") == 0) {
            o->random = true;
        } else if (strcmp(argv[i], "--gpu") == 0) {
            o->name_gpu = true;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return fault_set(fault, "unknown option '%s' (tilerun --help lists them)", argv[i]);
        } else if (o->path) {
            return fault_set(fault, "one file at a time: '%s' and '%s'", o->path, argv[i]);
        } else {
            o->path = argv[i];
        }
    }
    if (!o->path && !o->name_gpu)
        return fault_set(fault, "which file? (tilerun --help)");
    return true;
}

/* ---- running ---- */

static bool
is_source(const char *path)
{
    size_t n = strlen(path), end = strlen(".tile");
    return n > end && strcmp(path + n - end, ".tile") == 0;
}

static bool
read_image(RunContext *cx)
{
    const char *path = cx->options->path;
    FILE *file = fopen(path, "rb");
    Buf text;
    char part[65536];
    size_t n, size = 0;

    if (!file)
        return fault_set(cx->fault, "cannot open %s: %s", path, strerror(errno));
    buf_init(&text, cx->arena);
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 0) /* room for all, or for none of it */
        size = (size_t)ftell(file);
    fclose(file);
    buf_reserve(&text, size + sizeof part);
    file = fopen(path, "rb");
    if (!file)
        return fault_set(cx->fault, "cannot open %s: %s", path, strerror(errno));
    while ((n = fread(part, 1, sizeof part, file)) > 0)
        buf_addn(&text, part, n);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed)
        return fault_set(cx->fault, "cannot read %s", path);
    if (text.n == 0)
        return fault_set(cx->fault, "%s is empty", path);
    if (is_source(path))
        return fault_set(cx->fault, "%s is no PTX but a program to compile: tilec %s -o kernel.ptx",
                         path, path);
    if (text.at[0] != '\x7f' && strlen(text.at) != text.n)
        return fault_set(cx->fault, "%s is no PTX: it is not text", path);
    cx->image = text.at;
    cx->image_bytes = text.n;
    return true;
}

static bool
open_machine(RunContext *cx)
{
    const char *device = cx->options->device;
    Fault no_gpu;

    if (cx->options->clock && (!device || strcmp(device, "sim") != 0))
        return fault_set(cx->fault, "--time %s is for the simulator: give --device sim, too",
                         cx->options->clock);
    if (device && strcmp(device, "gpu") == 0)
        return machine_open_gpu(cx->machine, cx->arena, cx->fault);
    if (!device && machine_open_gpu(cx->machine, cx->arena, &no_gpu))
        return true;
    if (!machine_open_sim(cx->machine, cx->arena, cx->fault))
        return device ? false
                      : fault_set(cx->fault, "%s, and this tilerun was built without the simulator",
                                  no_gpu.text);
    cx->machine->no_checks = cx->options->no_checks;
    cx->machine->strict = cx->options->strict;
    cx->machine->late = cx->options->late;
    cx->machine->progress = !cx->options->quiet && isatty(fileno(stderr)) == 1;
    return !cx->options->clock || machine_sim_clock(cx->machine, cx->options->clock, cx->fault);
}

/* The simulator's clock reads machine code, where it can be made. */
static void
give_code(RunContext *cx)
{
    char *why = NULL;

    if (!cx->machine->clock || cx->machine->from_ptx)
        return;
    char *listing = listing_of_ptx(cx->image, cx->image_bytes, &why);
    machine_sim_code(cx->machine, listing, why ? arena_strndup(cx->arena, why, strlen(why)) : NULL);
    free(listing);
    free(why);
}

static RunStatus
run(RunContext *cx)
{
    const RunOptions *o = cx->options;
    bool by_hand = o->args.n > 0 || o->grid_given || o->block_given;

    if (o->name_gpu) {
        if (!machine_open_gpu(cx->machine, cx->arena, cx->fault))
            return RUN_FAULT;
        puts(cx->machine->name);
        cx->machine->close(cx->machine);
        cx->machine->close = NULL;
        return RUN_OK;
    }
    if (by_hand && (o->inputs.n || o->outputs.n || o->sets.n || o->random)) {
        fault_set(cx->fault,
                  "--in, --out, --set and --random are for files that tilec made; with --grid, "
                  "--block and --arg everything is given by --arg");
        return RUN_FAULT;
    }
    if (!read_image(cx) || !open_machine(cx))
        return RUN_FAULT;
    if (o->sm_count > 0)
        cx->machine->sm_count = o->sm_count;
    RunStatus status = RUN_FAULT;
    bool loaded = cx->machine->load(cx->machine, cx->image, cx->image_bytes, o->path, cx->fault);
    if (loaded)
        give_code(cx);
    if (loaded)
        status = by_hand ? run_by_hand(cx) : run_described(cx);
    cx->machine->close(cx->machine);
    cx->machine->close = NULL;
    return status;
}

/* What a command line holds; not on the stack, where a jump would leave it undefined. */
typedef struct Call {
    Arena arena;
    jmp_buf out_of_memory;
    RunOptions options;
    Machine machine;
    Fault fault;
    struct LaunchArgs *args;
} Call;

/* Nothing here changes a local variable after setjmp. */
static RunStatus
run_guarded(Call *call, int argc, char **argv)
{
    if (setjmp(call->out_of_memory)) {
        if (call->machine.close)
            call->machine.close(&call->machine);
        if (call->args)
            launch_args_free(call->args);
        fault_set(&call->fault, "out of memory");
        return RUN_FAULT;
    }
    if (!parse_command_line(&call->arena, argc, argv, &call->options, &call->fault))
        return RUN_FAULT;
    RunContext cx = {&call->arena, &call->options, &call->machine, &call->fault, NULL, 0,
                     &call->args};
    return run(&cx);
}

/* One command line; the exit status. */
static int
run_command(int argc, char **argv)
{
    Call *call = calloc(1, sizeof *call);

    if (!call) {
        fputs("tilerun: error: out of memory\n", stderr);
        return 1;
    }
    arena_init(&call->arena, allocator_libc(), &call->out_of_memory);
    RunStatus status = run_guarded(call, argc, argv);
    if (status == RUN_FAULT)
        fprintf(stderr, "tilerun: error: %s\n", call->fault.text);
    arena_free(&call->arena);
    free(call);
    switch (status) {
    case RUN_OK: return 0;
    case RUN_UNTIMED: return EXIT_UNTIMED;
    case RUN_FINDINGS: return EXIT_FINDINGS;
    default: return 1;
    }
}

/* Command lines from standard input, words parted by spaces; says the status of each.  The GPU,
 * where there is one, stays open between them: opening it takes longer than most runs. */
static int
run_batch(void)
{
    enum { MOST_WORDS = 512 };
    static const char blanks[] = " \t\n";
    Arena arena;
    jmp_buf out_of_memory;
    Machine keeper = {0};
    Fault no_gpu;
    char *words[MOST_WORDS + 1], line[65536];

    if (setjmp(out_of_memory)) {
        fputs("tilerun: error: out of memory\n", stderr);
        return 1;
    }
    arena_init(&arena, allocator_libc(), &out_of_memory);
    bool kept = machine_open_gpu(&keeper, &arena, &no_gpu);
    while (fgets(line, sizeof line, stdin)) {
        int n = 1;
        words[0] = "tilerun";
        for (char *word = strtok(line, blanks); word && n < MOST_WORDS; word = strtok(NULL, blanks))
            words[n++] = word;
        words[n] = NULL;
        if (n == 1)
            continue;
        int status = run_command(n, words);
        fflush(stderr);
        printf("status %d\n", status);
        fflush(stdout);
    }
    if (kept)
        keeper.close(&keeper);
    arena_free(&arena);
    return 0;
}

int
main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--version") == 0) {
            puts("tilerun " TILEC_VERSION);
            return 0;
        }
    }
    sim_keep_memory();
    if (argc == 2 && strcmp(argv[1], "--batch") == 0)
        return run_batch();
    return run_command(argc, argv);
}
