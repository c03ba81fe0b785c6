/* main.c - the command line of tilec: arguments to options, files in and out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/near.h"
#include "compiler/command/assemble.h"
#include "compiler/command/depend.h"
#include "compiler/command/explain.h"
#include "compiler/command/files.h"
#include "compiler/command/header_cubins.h"
#include "compiler/command/help.h"
#include "compiler/command/flags.h"
#include "compiler/command/fmt.h"
#include "compiler/command/measure.h"
#include "compiler/command/run.h"
#include "compiler/command/lsp.h"
#include "compiler/command/warnings.h"
#include "compiler/command/watch.h"
#include "compiler/tilec.h"

/* ---- the options ---- */

static const FlagRow flag_rows[] = {
    {"-arch", FLAG_ARCH, FORM_NEXT, "TARGET",
     "sm_80, sm_86, sm_89, sm_90, sm_100, sm_103, sm_120 (also sm_90a, sm_100a ..); several for a header: sm_80,sm_90"},
    {"-mtune", FLAG_TUNE, FORM_EQUALS, "TARGET",
     "tune code for -arch to the chip of TARGET: its shared memory, its rates"},
    {"-o", FLAG_OUTPUT, FORM_NEXT, "FILE", "write FILE (.cubin: through ptxas); -: standard output"},
    {"-MD", FLAG_DEPEND, FORM_ALONE, NULL,
     "also write FILE.d next to the output: a make rule with the files that were read"},
    {"-MF", FLAG_DEPEND_FILE, FORM_NEXT, "FILE", "write that rule to FILE"},
    {"-D", FLAG_DEFINE, FORM_NEXT, "NAME=VALUE", "set a compile-time parameter"},
    {"-I", FLAG_INCLUDE, FORM_NEXT, "FOLDER", "search FOLDER for the modules of 'use'"},
    {"-O0", FLAG_O0, FORM_ALONE, NULL, "only what correctness requires"},
    {"-O1", FLAG_O1, FORM_ALONE, NULL, NULL},
    {"-O2", FLAG_O2, FORM_ALONE, NULL, NULL},
    {"-O3", FLAG_O3, FORM_ALONE, NULL, "everything (the default)"},
    {"--emit", FLAG_EMIT, FORM_EQUALS, "KIND", "ptx, cubin, header, json, ast, tir, lir or html"},
    {"--kernel", FLAG_KERNEL, FORM_NEXT, "NAME", "compile this kernel only"},
    {"--dump-ir", FLAG_DUMP, FORM_MAYBE, "P,Q",
     "print tile IR after these passes, or after every pass"},
    {"--dump-schedule", FLAG_SCHEDULE, FORM_MAYBE, "FILE.svg",
     "print roles, buffers, barriers and a timeline, or draw them"},
    {"--list-passes", FLAG_LIST_PASSES, FORM_ALONE, NULL,
     "list the passes in order, and the switches, with what each does"},
    {"--run-pass", FLAG_RUN_PASS, FORM_EQUALS, "P,Q",
     "run only these passes and print tile IR, or continue after them to what --emit says"},
    {"--report", FLAG_REPORT, FORM_ALONE, NULL,
     "report what the code is made of, before and after ptxas"},
    {"--time-report", FLAG_TIME_REPORT, FORM_ALONE, NULL, "report how long each part took"},
    {"--warps", FLAG_WARPS, FORM_EQUALS, "N", "warps per block: 1, 2, 4, 8 or 16"},
    {"--stages", FLAG_STAGES, FORM_EQUALS, "N", "buffers of each pipelined load, 1 to 8"},
    {"--plan", FLAG_PLAN, FORM_EQUALS, "LIST",
     "warp groups: consumers=,stages=,q_stages=,persistent=,dynamic=,clc=,pipelined=,pingpong=,cooperative=,cluster=,blocks=,correction=; or none"},
    {"--variants", FLAG_VARIANTS, FORM_EQUALS, "auto",
     "several forms of a kernel for different sizes; launchers choose by a rule in the file"},
    {"--size", FLAG_SIZE, FORM_NEXT, "NAME=N",
     "a size of the tensors, used by 'auto' and 'search': Sq=16384"},
    {"--remarks", FLAG_REMARKS, FORM_ALONE, NULL, "report what was and was not done, and why"},
    {"--verify", FLAG_VERIFY, FORM_ALONE, NULL, "check the IR after each pass"},
    {"--list-targets", FLAG_LIST_TARGETS, FORM_ALONE, NULL, "list the targets"},
    {"--header-name", FLAG_HEADER_NAME, FORM_EQUALS, "NAME", "prefix of the names in the header"},
    {"--header-ptx", FLAG_HEADER_PTX, FORM_ALONE, NULL, "put the PTX into the header"},
    {"--header-cubin", FLAG_HEADER_CUBIN, FORM_EQUALS, "ARCH,..",
     "put machine code for each ARCH into the header; chosen by the GPU at run time"},
    {"--tuning", FLAG_TUNING, FORM_EQUALS, "FILE",
     "measured times for 'auto' (default: FILE.tuning next to FILE.tile); none: no file"},
    {"--ignore-debug", FLAG_IGNORE_DEBUG, FORM_ALONE, NULL,
     "leave out `print` and `assert`, which are for 'tilec run'; otherwise they are errors"},
    {"-lineinfo", FLAG_LINEINFO, FORM_ALONE, NULL, "line numbers of the source, for profilers"},
    {"--ptxas", FLAG_PTXAS, FORM_EQUALS, "PATH", "the ptxas to use"},
    {"-Werror", FLAG_WERROR, FORM_MAYBE, "NAME",
     "make all warnings errors, or one of those listed below"},
    {"-Wno-error", FLAG_WNO_ERROR, FORM_EQUALS, "NAME", "not an error, even with -Werror"},
    {"-Wno-", FLAG_WNO, FORM_REST, "NAME", "do not show this warning"},
    {"-W", FLAG_W, FORM_REST, "NAME", "show this warning, also one that is off by default"},
    {"--version", FLAG_VERSION, FORM_ALONE, NULL, NULL},
    {"--help", FLAG_HELP, FORM_ALONE, NULL, NULL},
    {"-h", FLAG_HELP, FORM_ALONE, NULL, NULL},
};
enum { FLAG_ROWS = sizeof flag_rows / sizeof flag_rows[0] };

/* A file that was read, kept until the end. */
typedef struct LoadedFile {
    char *path, *text;
    size_t n;
} LoadedFile;

typedef struct Command {
    TilecOptions options;
    Warnings warnings;
    TilecDefine *defines;
    const char **switches;
    const char **folders; /* -I, in order */
    size_t n_folders;
    char *source_folder; /* where the source lies: looked at before the -I folders */
    LoadedFile *loaded;
    size_t n_loaded;
    const char *input, *output, *ptxas, *picture; /* of --dump-schedule=FILE */
    const char *tuning;                           /* --tuning */
    const char *depend_file;                      /* -MF */
    const char *self;                             /* argv[0] */
    const char *list;                             /* "passes" or "targets" */
    bool search;                                  /* tilec search */
    bool run;                                     /* tilec run */
    WatchRound *round;                            /* tilec watch; else NULL */
    SearchFlags asked;
    RunFlags run_flags;
    HeaderCubins cubins; /* --header-cubin */
    bool arch_given, emit_given, cubin, depend, help, version;
} Command;

/* The command whose flag this is, of those that are not asked for; NULL: there is none. */
static const char *
command_of_flag(const char *name)
{
    for (size_t k = 0; k < run_row_count; k++)
        if (strcmp(run_rows[k].text, name) == 0)
            return "run";
    for (size_t k = 0; k < search_row_count; k++)
        if (strcmp(search_rows[k].text, name) == 0)
            return "search";
    return NULL;
}

/* The rows that the command knows: those of a search or a run stand behind the others. */
static int
n_rows(const Command *command)
{
    size_t more = command->search ? search_row_count : command->run ? run_row_count : 0;
    return FLAG_ROWS + (int)more;
}

static const FlagRow *
row_at(const Command *command, int k)
{
    if (k < FLAG_ROWS)
        return &flag_rows[k];
    return command->run ? &run_rows[k - FLAG_ROWS] : &search_rows[k - FLAG_ROWS];
}

static int
unknown_flag(const Command *command, const char *argument)
{
    const char *best = NULL;
    uint32_t least = UINT32_MAX;
    size_t n = strcspn(argument, "=");
    char *name = text_printf("%s%s", argument, "");

    name[n] = '\0';
    for (int k = 0; k < n_rows(command); k++) {
        uint32_t distance = n > 1 && strncmp(row_at(command, k)->text, name, n) == 0
                                ? 0 /* as -O of -O3 */
                                : word_distance(name, row_at(command, k)->text);
        if (distance <= least) { /* of -O0 to -O3 the last */
            least = distance;
            best = row_at(command, k)->text;
        }
    }
    const char *other = command_of_flag(name);
    const char *foreign = foreign_option(name);
    bool near = foreign != NULL || word_is_near(name, least);
    if (foreign != NULL)
        best = foreign;
    if (other != NULL)
        complain("'%s' is an option of 'tilec %s'", name, other);
    else
        complain("unknown option '%s'%s%s%s", name, near ? "; did you mean '" : "; see --help",
                 near ? best : "", near ? "'?" : "");
    free(name);
    return EXIT_USER;
}

static int
set_emit(Command *command, const char *value)
{
    static const struct {
        const char *name;
        TilecEmit emit;
        bool cubin, page;
    } kinds[] = {
        {"ptx", TILEC_EMIT_PTX, false, false},       {"cubin", TILEC_EMIT_PTX, true, false},
        {"header", TILEC_EMIT_HEADER, false, false}, {"json", TILEC_EMIT_JSON, false, false},
        {"ast", TILEC_EMIT_AST, false, false},       {"tir", TILEC_EMIT_TIR, false, false},
        {"lir", TILEC_EMIT_LIR, false, false},       {"html", TILEC_EMIT_PTX, false, true},
    };

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (strcmp(kinds[k].name, value) == 0) {
            command->options.emit = kinds[k].emit;
            command->cubin = kinds[k].cubin;
            command->options.page = kinds[k].page;
            command->emit_given = true;
            return 0;
        }
    }
    return complain("--emit=%s: expected ptx, cubin, header, json, ast, tir, lir or html", value);
}

/* A small count: at most `limit`, and a power of two when asked. */
static int
set_count(const char *value, const char *flag, const char *expected, long limit, bool power,
          uint32_t *out)
{
    char *end;
    long n = strtol(value, &end, 10);

    if (end == value || *end != '\0' || n < 1 || n > limit || (power && (n & (n - 1)) != 0))
        return complain("%s=%s: expected %s", flag, value, expected);
    *out = (uint32_t)n;
    return 0;
}

/* The names in the header begin with it. */
static int
set_header_name(TilecOptions *options, const char *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    if (strspn(value, letters) != strlen(value) || strspn(value, "0123456789") > 0)
        return complain("--header-name=%s: expected a name as in C, of letters, digits and _",
                        value);
    options->header_name = value;
    return 0;
}

static int
set_flag(Command *command, const FlagRow *row, const char *value)
{
    TilecOptions *options = &command->options;

    switch (row->flag) {
    case FLAG_ARCH:
        options->arch = value;
        command->arch_given = true;
        return 0;
    case FLAG_TUNE: options->tune = value; return 0;
    case FLAG_OUTPUT: command->output = value; return 0;
    case FLAG_DEPEND: command->depend = true; return 0;
    case FLAG_DEPEND_FILE:
        command->depend_file = value;
        command->depend = true;
        return 0;
    case FLAG_DEFINE: return add_define("-D", value, command->defines, &options->n_defines);
    case FLAG_INCLUDE: command->folders[command->n_folders++] = value; return 0;
    case FLAG_EMIT: return set_emit(command, value);
    case FLAG_DUMP: options->dump_ir = value == NULL ? "" : value; return 0;
    case FLAG_SCHEDULE:
        if (value != NULL && !ends_with(value, ".svg"))
            return complain("--dump-schedule=%s: expected a name that ends in .svg", value);
        options->schedule |= value == NULL;
        options->schedule_picture |= value != NULL;
        command->picture = value != NULL ? value : command->picture;
        return 0;
    case FLAG_LIST_PASSES: command->list = "passes"; return 0;
    case FLAG_RUN_PASS: options->run_pass = value; return 0;
    case FLAG_REPORT: options->report = true; return 0;
    case FLAG_WARPS:
        return set_count(value, "--warps", "1, 2, 4, 8 or 16", 16, true, &options->warps);
    case FLAG_STAGES: return set_count(value, "--stages", "1 to 8", 8, false, &options->stages);
    case FLAG_PLAN: options->plan = value; return 0;
    case FLAG_VARIANTS: options->variants = value; return 0;
    case FLAG_TIME_REPORT: options->time_report = true; return 0;
    case FLAG_REMARKS: options->remarks = true; return 0;
    case FLAG_LIST_TARGETS: command->list = "targets"; return 0;
    case FLAG_LINEINFO: options->line_info = true; return 0;
    case FLAG_VERSION: command->version = true; return 0;
    case FLAG_HELP: command->help = true; return 0;
    case FLAG_WERROR:
        if (value != NULL)
            return warnings_set(&command->warnings, value, WARNING_FAIL);
        options->warnings_are_errors = true;
        return 0;
    case FLAG_WNO_ERROR: return warnings_set(&command->warnings, value, WARNING_NEVER_FAIL);
    case FLAG_WNO: return warnings_set(&command->warnings, value, WARNING_HIDE);
    case FLAG_W: return warnings_set(&command->warnings, value, WARNING_SHOW);
    case FLAG_KERNEL: options->kernel = value; return 0;
    case FLAG_PTXAS: command->ptxas = value; return 0;
    case FLAG_VERIFY: options->verify = true; return 0;
    case FLAG_HEADER_NAME: return set_header_name(options, value);
    case FLAG_TUNING: command->tuning = value; return 0;
    case FLAG_HEADER_PTX: options->header_with_ptx = true; return 0;
    case FLAG_HEADER_CUBIN: command->cubins.archs = value; return 0;
    case FLAG_IGNORE_DEBUG: options->ignore_debug = true; return 0;
    case FLAG_O0:
    case FLAG_O1:
    case FLAG_O2:
    case FLAG_O3: options->level = (int)(row->flag - FLAG_O0); return 0;
    default:
        return row->flag >= FLAG_RUN_IN ? run_flag_set(&command->run_flags, row, value)
                                        : search_flag_set(&command->asked, row, value);
    }
}

/* Handles argument `*at`, and the one after it when it is its value. */
static int
read_flag(Command *command, int argc, char **argv, int *at)
{
    const char *argument = argv[*at];

    if (strncmp(argument, "-f", 2) == 0 && argument[2] != '\0') {
        command->switches[command->options.n_switches++] = argument + 2;
        return 0;
    }
    for (int k = 0; k < n_rows(command); k++) {
        const FlagRow *row = row_at(command, k);
        size_t n = strlen(row->text);
        bool one_letter = n == 2;
        if (strncmp(argument, row->text, n) != 0)
            continue;
        const char *rest = argument + n;
        if (*rest == '\0') {
            if (row->form == FORM_ALONE || row->form == FORM_MAYBE)
                return set_flag(command, row, NULL);
            if (row->form == FORM_EQUALS)
                return complain("%s needs a value: %s=%s", row->text, row->text, row->value);
            if (row->form == FORM_REST)
                return complain("%s needs a name: %s%s", row->text, row->text, row->value);
            if (*at + 1 >= argc)
                return complain("%s needs a value: %s %s", row->text, row->text, row->value);
            return set_flag(command, row, argv[++*at]);
        }
        if (*rest == '=' && row->form != FORM_ALONE && !one_letter) {
            if (rest[1] == '\0')
                return complain("%s needs a value: %s=%s", row->text, row->text, row->value);
            return set_flag(command, row, rest + 1);
        }
        if (row->form == FORM_REST || (row->form == FORM_NEXT && one_letter))
            return set_flag(command, row, rest);
    }
    return unknown_flag(command, argument);
}

static int
second_input(const char *first, const char *second)
{
    static const char *const commands[] = {"search", "run", "watch", "fmt", "lsp", "explain"};

    for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++)
        if (!file_is_there(first) && word_is_near(first, word_distance(first, commands[k])))
            return complain("there is no command '%s'; did you mean 'tilec %s'?", first,
                            commands[k]);
    return complain("more than one input file: '%s' and '%s'", first, second);
}

static int
read_command(Command *command, int argc, char **argv)
{
    command->self = argc > 0 ? argv[0] : "tilec";
    command->options = tilec_default_options();
    command->defines = allocate(sizeof *command->defines * (size_t)argc);
    command->switches = allocate(sizeof *command->switches * (size_t)argc);
    command->folders = allocate(sizeof *command->folders * (size_t)argc);
    search_flags_init(&command->asked, (size_t)argc);
    run_flags_init(&command->run_flags, (size_t)argc);
    command->options.defines = command->defines;
    command->options.switches = command->switches;
    command->search = argc > 1 && strcmp(argv[1], "search") == 0;
    command->run = argc > 1 && strcmp(argv[1], "run") == 0;
    bool watch = argc > 1 && strcmp(argv[1], "watch") == 0;
    for (int at = command->search || command->run || watch ? 2 : 1; at < argc; at++) {
        if (argv[at][0] == '-' && argv[at][1] != '\0') {
            int status = read_flag(command, argc, argv, &at);
            if (status != 0)
                return status;
        } else if (command->input != NULL) {
            return second_input(command->input, argv[at]);
        } else {
            command->input = argv[at];
        }
    }
    return 0;
}

/* ---- files ---- */

/* The callback of the library: NAME.tile beside the source, then in the -I folders. */
static bool
import_module(void *user, const char *name, const char **path, const char **text, size_t *n)
{
    Command *command = user;

    for (size_t k = 0; k <= command->n_folders; k++) {
        const char *folder = k == 0 ? command->source_folder : command->folders[k - 1];
        char *folder_name = text_printf("%s/%s", folder, name);
        char *full = text_printf("%s.tile%s", folder_name, "");
        free(folder_name);
        watch_saw(command->round, full);
        /* a file that uses a module of its own name means another one */
        char *contents = same_file(full, command->input) ? NULL : read_file(full, n);
        if (contents == NULL && errno == ENOMEM) /* not: there is none, look elsewhere */
            out_of_memory();
        if (contents == NULL) {
            free(full);
            continue;
        }
        LoadedFile *grown = realloc(command->loaded,
                                    (command->n_loaded + 1) * sizeof *command->loaded);
        if (grown == NULL)
            out_of_memory();
        command->loaded = grown;
        command->loaded[command->n_loaded++] = (LoadedFile){full, contents, *n};
        *path = strncmp(full, "./", 2) == 0 ? full + 2 : full;
        *text = contents;
        return true;
    }
    return false;
}

/* ---- the run ---- */

/* Where the output goes when -o does not say: FILE.ptx, FILE.cubin, or standard output. */
static char *
default_output(const Command *command)
{
    const char *name = strrchr(command->input, '/');
    bool text = command->options.emit != TILEC_EMIT_PTX || strcmp(command->input, "-") == 0;

    if (text && !command->cubin)
        return text_printf("%s%s", "-", "");
    name = name == NULL ? command->input : name + 1;
    char *base = text_printf("%s%s", strcmp(name, "-") == 0 ? "out" : name, "");
    char *dot = strrchr(base, '.');
    if (dot != NULL && dot != base)
        *dot = '\0';
    char *path = text_printf("%s.%s", base,
                             command->cubin          ? "cubin"
                             : command->options.page ? "html"
                                                     : "ptx");
    free(base);
    return path;
}

/* The rule of -MD: the output `path` is made of the source, its modules and the tuning database. */
static int
write_rule(const Command *command, const char *path)
{
    const char **files = allocate(sizeof *files * (command->n_loaded + 2));
    size_t n = 0;

    files[n++] = command->input;
    for (size_t k = 0; k < command->n_loaded; k++) {
        bool again = false;
        for (size_t other = 0; other < k; other++)
            again |= strcmp(command->loaded[k].path, command->loaded[other].path) == 0;
        if (!again)
            files[n++] = command->loaded[k].path;
    }
    if (command->options.tuning != NULL)
        files[n++] = command->options.tuning_path;
    int status = write_dependencies(command->depend_file, path, files, n);
    free(files);
    return status;
}

/* What would be wrong with the results is so before anything is compiled, too. */
static int
check_outputs(const Command *command)
{
    const TilecOptions *options = &command->options;
    bool is_ptx = options->emit == TILEC_EMIT_PTX;
    char *path = command->output != NULL ? text_printf("%s%s", command->output, "")
                                         : default_output(command);
    int status = 0;

    if (command->depend && (strcmp(path, "-") == 0 || strcmp(command->input, "-") == 0))
        status = complain("-MD is about files: give the source by its name, and -o FILE");
    else if (!is_ptx && warnings_need_ptxas(&command->warnings))
        status = complain("-Werror=NAME is about what ptxas makes of the PTX: it goes with PTX and "
                          "cubins only");
    free(path);
    if (status == 0)
        status = check_writable(command->output);
    if (status == 0 && options->schedule_picture)
        status = check_writable(command->picture);
    return status != 0 ? status : check_writable(command->depend_file);
}

static int
write_results(Command *command, const TilecResult *result)
{
    char *path = command->output != NULL ? text_printf("%s%s", command->output, "")
                                         : default_output(command);
    const TilecOptions *options = &command->options;
    bool is_ptx = options->emit == TILEC_EMIT_PTX;
    bool dumps = options->dump_ir != NULL || options->schedule || options->schedule_picture;
    bool only_dump = dumps && command->output == NULL && !command->emit_given && is_ptx;
    FILE *beside = strcmp(path, "-") == 0 && !only_dump ? stderr : stdout;
    Assembly assembly = {
        .ptxas = command->ptxas,
        .arch = options->arch,
        .path = command->input,
        .ptx = result->output,
        .n = result->output_bytes,
        .line_info = options->line_info || options->page,
        .actions = warnings_after(&command->warnings, options->warnings_are_errors),
        .report = options->report ? beside : NULL,
        .page = options->page ? result->page : NULL,
    };
    int status = 0;

    fputs(result->dump, beside);
    fputs(result->report, beside);
    fputs(result->schedule, beside);
    if (status == 0 && options->schedule_picture)
        status = write_file(command->picture, result->schedule_picture,
                            strlen(result->schedule_picture));
    if (status == 0 && is_ptx && !only_dump &&
        (command->cubin || options->page || options->report ||
         warnings_need_ptxas(&command->warnings)))
        status = assemble(&assembly, command->cubin || options->page ? path : NULL);
    bool old = status == EXIT_OLD_PTXAS, wanted = warnings_need_ptxas(&command->warnings);
    if ((status == 0 || (old && !wanted)) && !only_dump && !command->cubin && !options->page)
        status = write_file(path, result->output, result->output_bytes);
    status = old ? EXIT_USER : status;
    if (status == 0 && command->depend && !only_dump)
        status = write_rule(command, path);
    fputs(result->time_report, beside);
    free(path);
    return status;
}

/* PTX in: only ptxas is left to run. */
static int
compile_ptx(Command *command, const char *text, size_t n)
{
    const TilecOptions *options = &command->options;
    bool look = command->output == NULL &&
                (options->report || warnings_need_ptxas(&command->warnings));
    Assembly assembly = {
        .ptxas = command->ptxas,
        .arch = command->arch_given ? options->arch : NULL,
        .path = command->input,
        .ptx = text,
        .n = n,
        .given = true,
        .line_info = options->line_info,
        .actions = warnings_after(&command->warnings, options->warnings_are_errors),
        .report = options->report ? stdout : NULL,
    };

    if (options->n_defines > 0 || options->n_switches > 0 || options->kernel != NULL ||
        command->depend || options->run_pass != NULL || options->dump_ir != NULL ||
        options->schedule || options->schedule_picture || options->page ||
        options->emit != TILEC_EMIT_PTX)
        return complain("%s is PTX: options that change what is compiled do not go with it",
                        command->input);
    if (strlen(text) != n)
        return complain("E-FILE: %s is not text", command->input);
    command->cubin = true;
    char *path = look                      ? NULL
                 : command->output != NULL ? text_printf("%s%s", command->output, "")
                                           : default_output(command);
    if (path != NULL && strcmp(path, "-") == 0 && options->report)
        assembly.report = stderr;
    int status = assemble(&assembly, path);
    free(path);
    return status == EXIT_OLD_PTXAS ? EXIT_USER : status;
}

/* The tuning database: the one that is named, or the one beside the source.  The caller frees the
 * text and the name. */
static int
read_tuning(Command *command, char **path, char **text)
{
    const char *named = command->tuning;
    size_t n;

    *path = *text = NULL;
    if (named != NULL && strcmp(named, "none") == 0)
        return 0;
    if (named == NULL && !ends_with(command->input, ".tile"))
        return 0;
    char *base = text_printf("%s%s", named == NULL ? command->input : named, "");
    if (named == NULL)
        base[strlen(base) - strlen(".tile")] = '\0';
    *path = text_printf("%s%s", base, named == NULL ? ".tuning" : "");
    free(base);
    watch_saw(command->round, *path);
    *text = read_file(*path, &n);
    if (*text == NULL && (named != NULL || file_is_there(*path)))
        return complain("E-FILE: cannot read %s: %s", *path, strerror(errno));
    command->options.tuning = *text;
    command->options.tuning_path = *path;
    return 0;
}

/* The text of a program, which the caller frees; its modules are looked for beside it.  Complains;
 * returns the exit status. */
static int
open_program(Command *command, const char *path, char **text, size_t *n)
{
    *text = read_file(path, n);
    if (*text == NULL)
        return complain("E-FILE: cannot read %s: %s", path, strerror(errno));
    command->source_folder = folder_of(path);
    command->options.import = import_module;
    command->options.import_user = command;
    return 0;
}

static int
compile(Command *command)
{
    TilecResult result;
    char *text;
    size_t n;

    if (open_program(command, command->input, &text, &n) != 0)
        return EXIT_USER;
    if (ends_with(command->input, ".ptx")) {
        int done = compile_ptx(command, text, n);
        free(text);
        return done;
    }
    const char *path = strcmp(command->input, "-") == 0 ? "<stdin>" : command->input;
    char *tuning_path, *tuning;
    int failed = read_tuning(command, &tuning_path, &tuning);
    if (failed == 0)
        failed = check_outputs(command);
    if (failed != 0) {
        free(tuning);
        free(tuning_path);
        free(text);
        return failed;
    }
    command->options.sizes = command->asked.search.sizes;
    command->options.n_sizes = command->asked.search.n_sizes;
    warnings_to_options(&command->warnings, &command->options);
    command->cubins.ptxas = command->ptxas;
    int code = header_cubins(&command->cubins, &command->options, path, text, n);
    if (code == 0) {
        TilecStatus status = tilec_compile(&command->options, path, text, n, &result);
        fputs(result.messages, stderr);
        if (command->round != NULL)
            command->round->messages = text_printf("%s%s", result.messages, "");
        code = status == TILEC_OK ? 0 : status == TILEC_ERROR ? EXIT_USER : EXIT_BUG;
        if (code == 0)
            code = write_results(command, &result);
        else
            fputs(result.dump, stdout);
        tilec_result_free(&result);
    }
    header_cubins_free(&command->cubins);
    free(tuning);
    free(tuning_path);
    free(text);
    return code;
}

/* Times plans; the database is the one that compiling the source reads. */
static int
measure(Command *command, const char *path, const char *text, size_t n)
{
    bool named = command->tuning != NULL;
    int length = (int)strlen(path) - (ends_with(path, ".tile") ? (int)strlen(".tile") : 0);

    if (named && strcmp(command->tuning, "none") == 0)
        return complain("%s needs a file for what it finds: --tuning=FILE",
                        command->asked.simulate ? "--simulate" : "--measure");
    if (!named && strcmp(path, "-") == 0)
        return complain("standard input has no tuning database beside it: --tuning=FILE");
    char *base = text_printf("%s%s", named ? command->tuning : path, "");
    if (!named)
        base[length] = '\0';
    char *database = text_printf("%s%s", base, named ? "" : ".tuning");
    Measuring m = {.options = &command->options,
                   .asked = &command->asked,
                   .path = path,
                   .text = text,
                   .n = n,
                   .database = database,
                   .self = command->self};
    int status = measure_plans(&m);
    free(database);
    free(base);
    return status;
}

/* Lists plans, and draws them; `table`: the list is wanted, too. */
static int
list_plans(Command *command, const char *path, const char *text, size_t n, bool table)
{
    const char *picture = command->asked.picture;
    char *tuning_path, *tuning;
    TilecResult result;

    if (check_writable(picture) != 0 ||
        (picture != NULL && read_tuning(command, &tuning_path, &tuning) != 0))
        return EXIT_USER;
    TilecStatus status = tilec_search(&command->options, &command->asked.search,
                                      strcmp(path, "-") == 0 ? "<stdin>" : path, text, n, &result);
    fputs(result.messages, stderr);
    int code = status == TILEC_OK ? 0 : status == TILEC_ERROR ? EXIT_USER : EXIT_BUG;
    if (code == 0 && table)
        code = write_file(command->output == NULL ? "-" : command->output, result.output,
                          result.output_bytes);
    if (code == 0 && picture != NULL)
        code = write_file(picture, result.schedule_picture, strlen(result.schedule_picture));
    tilec_result_free(&result);
    if (picture != NULL) {
        free(tuning);
        free(tuning_path);
    }
    return code;
}

static int
search(Command *command)
{
    const TilecOptions *options = &command->options;
    bool timed = command->asked.measure || command->asked.simulate;
    size_t n;

    if (options->dump_ir != NULL || options->run_pass != NULL || command->emit_given ||
        options->report || options->schedule || options->schedule_picture || options->warps > 0)
        return complain("a search compiles nothing: --emit, --report, --dump-ir, --dump-schedule, "
                        "--run-pass and --warps do not go with it");
    if (!command->arch_given)
        return complain("a search needs a target: -arch sm_90");
    if (command->asked.measure && command->asked.simulate)
        return complain("--measure times plans on a GPU, --simulate without one: give one of them");
    char *path = search_file(command->input, command->asked.mode), *text;
    if (open_program(command, path, &text, &n) != 0) {
        free(path);
        return EXIT_USER;
    }
    command->input = path;
    bool all = command->asked.search.rows == 0;
    if (all || command->asked.built) /* everything that there is, but for plans that can be built */
        command->asked.search.order = command->asked.built || timed ? TILEC_BY_TIME
                                                                    : TILEC_BY_TRAFFIC;
    bool divisions = command->asked.search.order == TILEC_BY_TRAFFIC;
    int code = 0;
    if (command->asked.picture != NULL && divisions)
        code = complain(
            "--svg draws plans that tilec builds: divisions, which --rows 0 and --sort traffic list, have "
            "no times; --built --rows 0 has all plans");
    if (code == 0 && timed)
        code = measure(command, path, text, n);
    if (code == 0 && (!timed || command->asked.picture != NULL))
        code = list_plans(command, path, text, n, !timed);
    free(text);
    free(path);
    return code;
}

static int
interpret_file(Command *command)
{
    const TilecOptions *options = &command->options;
    char *text;
    size_t n;

    if (options->dump_ir != NULL || options->run_pass != NULL || command->emit_given ||
        options->report || options->schedule || options->schedule_picture ||
        command->output != NULL)
        return complain(
            "a run compiles nothing: -o, --emit, --report, --dump-ir, --dump-schedule and "
            "--run-pass do not go with it; tensors are saved with --out NAME=FILE.npy");
    if (open_program(command, command->input, &text, &n) != 0)
        return EXIT_USER;
    warnings_to_options(&command->warnings, &command->options);
    int status = run_program(options, &command->run_flags,
                             strcmp(command->input, "-") == 0 ? "<stdin>" : command->input, text,
                             n);
    free(text);
    return status;
}

static void
free_command(Command *command)
{
    for (size_t k = 0; k < command->options.n_defines; k++)
        free((char *)command->defines[k].name);
    search_flags_free(&command->asked);
    run_flags_free(&command->run_flags);
    for (size_t k = 0; k < command->n_loaded; k++) {
        free(command->loaded[k].path);
        free(command->loaded[k].text);
    }
    free(command->loaded);
    free(command->source_folder);
    free(command->defines);
    free(command->switches);
    free(command->folders);
}

static int
run_command(Command *command)
{
    if (command->help) {
        print_help(flag_rows, FLAG_ROWS);
        return 0;
    }
    if (command->version) {
        puts("tilec " TILEC_VERSION);
        return 0;
    }
    if (command->list != NULL) {
        TilecResult result;
        TilecStatus status = tilec_list(NULL, command->list, &result);
        if (status == TILEC_OK)
            fputs(result.output, stdout);
        else
            fputs(result.messages, stderr);
        tilec_result_free(&result);
        return status == TILEC_OK ? 0 : EXIT_BUG;
    }
    if (command->input == NULL)
        return complain("no input file; see --help");
    if (command->search)
        return search(command);
    if (command->run)
        return interpret_file(command);
    if (command->output != NULL && ends_with(command->output, ".cubin") && !command->emit_given)
        command->cubin = true;
    else if (command->options.run_pass != NULL && !command->emit_given)
        command->options.emit = TILEC_EMIT_TIR;
    return compile(command);
}

/* ---- tilec watch ---- */

typedef struct Words {
    int argc;
    char **argv;
} Words;

/* The command as it stands, but that it makes a page where nobody says what. */
static void
watched_round(void *user, WatchRound *round)
{
    const Words *words = user;
    Command command = {.round = round};
    int status = read_command(&command, words->argc, words->argv);

    if (!command.emit_given && command.output == NULL)
        set_emit(&command, "html");
    if (status == 0)
        status = run_command(&command);
    if (command.input != NULL && command.options.page)
        round->page = command.output != NULL ? text_printf("%s%s", command.output, "")
                                             : default_output(&command);
    round->status = status;
    free_command(&command);
}

/* What is wrong with the command line ends it; what is wrong with files does not. */
static int
watch(Words words)
{
    Command command = {0};
    int status = read_command(&command, words.argc, words.argv);
    const char *input = command.input;

    if (status == 0 && (input == NULL || strcmp(input, "-") == 0))
        status = complain("a watch is about a file: tilec watch FILE.tile");
    else if (status == 0 &&
             (command.help || command.version || command.list != NULL || ends_with(input, ".ptx")))
        status = complain(
            "a watch compiles a program: --help, --version, --list-passes, --list-targets and "
            "FILE.ptx do not go with it");
    else if (status == 0 && command.output != NULL && strcmp(command.output, "-") == 0 &&
             command.options.page)
        status = complain("a page that is watched is a file: -o FILE.html");
    if (status == 0)
        status = watch_files(watched_round, &words, input);
    free_command(&command);
    return status;
}

int
main(int argc, char **argv)
{
    Command command = {0};

    if (argc > 1 && strcmp(argv[1], "watch") == 0)
        return watch((Words){argc, argv});

    if (argc > 1 && strcmp(argv[1], "fmt") == 0)
        return fmt_files(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "lsp") == 0)
        return lsp_serve(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "explain") == 0)
        return explain(argc - 2, argv + 2);
    int status = read_command(&command, argc, argv);

    if (status == 0)
        status = run_command(&command);
    free_command(&command);
    return status;
}
