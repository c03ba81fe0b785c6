/* main.c - the command line of tilec: arguments to options, files in and out, ptxas. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, fdopen, fork */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/base/near.h"
#include "compiler/tilec.h"

enum { EXIT_USER = 1, EXIT_BUG = 2 };

/* ---- the options ---- */

typedef enum Flag {
    FLAG_ARCH,
    FLAG_OUTPUT,
    FLAG_DEFINE,
    FLAG_INCLUDE,
    FLAG_EMIT,
    FLAG_DUMP,
    FLAG_LIST_PASSES,
    FLAG_RUN_PASS,
    FLAG_REPORT,
    FLAG_WARPS,
    FLAG_STAGES,
    FLAG_TIME_REPORT,
    FLAG_LIST_TARGETS,
    FLAG_LINEINFO,
    FLAG_VERSION,
    FLAG_HELP,
    FLAG_WERROR,
    FLAG_KERNEL,
    FLAG_PTXAS,
    FLAG_VERIFY,
    FLAG_REMARKS,
    FLAG_HEADER_NAME,
    FLAG_HEADER_PTX,
    FLAG_O0,
    FLAG_O1,
    FLAG_O2,
    FLAG_O3
} Flag;

/* How a flag takes its value. */
typedef enum FlagForm {
    FORM_ALONE,  /* -x */
    FORM_NEXT,   /* -x value, or -xvalue for flags of one letter, or --x=value */
    FORM_EQUALS, /* --x=value */
    FORM_MAYBE   /* --x or --x=value */
} FlagForm;

typedef struct FlagRow {
    const char *text;
    Flag flag;
    FlagForm form;
    const char *value, *help;
} FlagRow;

static const FlagRow flag_rows[] = {
    {"-arch", FLAG_ARCH, FORM_NEXT, "TARGET", "sm_80, sm_90, sm_100 (also sm_90a, sm_100a)"},
    {"-o", FLAG_OUTPUT, FORM_NEXT, "FILE",
     "write FILE (.cubin: through ptxas); -: standard output"},
    {"-D", FLAG_DEFINE, FORM_NEXT, "NAME=VALUE", "set a compile-time parameter"},
    {"-I", FLAG_INCLUDE, FORM_NEXT, "FOLDER", "look there for the modules of 'use'"},
    {"-O0", FLAG_O0, FORM_ALONE, NULL, "only what correctness needs"},
    {"-O1", FLAG_O1, FORM_ALONE, NULL, NULL},
    {"-O2", FLAG_O2, FORM_ALONE, NULL, NULL},
    {"-O3", FLAG_O3, FORM_ALONE, NULL, "everything (the default)"},
    {"--emit", FLAG_EMIT, FORM_EQUALS, "KIND", "ptx, cubin, header, json, ast, tir or lir"},
    {"--kernel", FLAG_KERNEL, FORM_NEXT, "NAME", "compile this kernel only"},
    {"--dump-ir", FLAG_DUMP, FORM_MAYBE, "PASS", "print tile IR after PASS, or after every pass"},
    {"--list-passes", FLAG_LIST_PASSES, FORM_ALONE, NULL,
     "the passes in order, and what each does"},
    {"--run-pass", FLAG_RUN_PASS, FORM_EQUALS, "P,Q", "run these passes only, and print tile IR"},
    {"--report", FLAG_REPORT, FORM_ALONE, NULL, "say what the code is made of; registers by ptxas"},
    {"--time-report", FLAG_TIME_REPORT, FORM_ALONE, NULL, "say how long each part took"},
    {"--warps", FLAG_WARPS, FORM_EQUALS, "N", "warps of a block: 1, 2, 4, 8 or 16"},
    {"--stages", FLAG_STAGES, FORM_EQUALS, "N", "buffers of each pipelined load, 1 to 8"},
    {"--remarks", FLAG_REMARKS, FORM_ALONE, NULL, "say what was done or not, and why"},
    {"--verify", FLAG_VERIFY, FORM_ALONE, NULL, "check the IR after each pass"},
    {"--list-targets", FLAG_LIST_TARGETS, FORM_ALONE, NULL, "the targets"},
    {"--header-name", FLAG_HEADER_NAME, FORM_EQUALS, "NAME", "prefix of the names in the header"},
    {"--header-ptx", FLAG_HEADER_PTX, FORM_ALONE, NULL, "put the PTX into the header"},
    {"-lineinfo", FLAG_LINEINFO, FORM_ALONE, NULL, "line numbers of the source, for profilers"},
    {"--ptxas", FLAG_PTXAS, FORM_EQUALS, "PATH", "the ptxas to use"},
    {"-Werror", FLAG_WERROR, FORM_ALONE, NULL, "warnings are errors"},
    {"--version", FLAG_VERSION, FORM_ALONE, NULL, NULL},
    {"--help", FLAG_HELP, FORM_ALONE, NULL, NULL},
};
enum { FLAG_ROWS = sizeof flag_rows / sizeof flag_rows[0] };

/* A file that was read, kept until the end. */
typedef struct LoadedFile {
    char *path, *text;
    size_t n;
} LoadedFile;

typedef struct Command {
    TilecOptions options;
    TilecDefine *defines;
    const char **switches;
    const char **folders; /* -I, in order */
    size_t n_folders;
    char *source_folder; /* where the source lies: looked at before the -I folders */
    LoadedFile *loaded;
    size_t n_loaded;
    const char *input, *output, *ptxas;
    const char *list; /* "passes" or "targets" */
    bool emit_given, cubin, help, version;
} Command;

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints an error about the command line; returns the exit status. */
static int
complain(const char *format, ...)
{
    va_list args;

    fputs("tilec: error: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return EXIT_USER;
}

static void *
allocate(size_t bytes)
{
    void *block = calloc(1, bytes);

    if (block == NULL) {
        fputs("tilec: error: out of memory\n", stderr);
        exit(EXIT_BUG);
    }
    return block;
}

static char *
text_printf(const char *format, const char *a, const char *b)
{
    int n = snprintf(NULL, 0, format, a, b);
    char *text = allocate((size_t)n + 1);

    snprintf(text, (size_t)n + 1, format, a, b);
    return text;
}

static int
unknown_flag(const char *argument)
{
    const char *best = NULL;
    uint32_t least = UINT32_MAX;
    size_t n = strcspn(argument, "=");
    char *name = text_printf("%s%s", argument, "");

    name[n] = '\0';
    for (int k = 0; k < FLAG_ROWS; k++) {
        uint32_t distance = word_distance(name, flag_rows[k].text);
        if (distance < least) {
            least = distance;
            best = flag_rows[k].text;
        }
    }
    bool near = word_is_near(name, least);
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
        bool cubin;
    } kinds[] = {
        {"ptx", TILEC_EMIT_PTX, false},       {"cubin", TILEC_EMIT_PTX, true},
        {"header", TILEC_EMIT_HEADER, false}, {"json", TILEC_EMIT_JSON, false},
        {"ast", TILEC_EMIT_AST, false},       {"tir", TILEC_EMIT_TIR, false},
        {"lir", TILEC_EMIT_LIR, false},
    };

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (strcmp(kinds[k].name, value) == 0) {
            command->options.emit = kinds[k].emit;
            command->cubin = kinds[k].cubin;
            command->emit_given = true;
            return 0;
        }
    }
    return complain("--emit=%s: expected ptx, cubin, header, json, ast, tir or lir", value);
}

static int
add_define(Command *command, const char *text)
{
    const char *equals = strchr(text, '=');

    if (equals == NULL || equals == text || equals[1] == '\0')
        return complain("-D %s: expected NAME=VALUE", text);
    char *name = text_printf("%s%s", text, "");
    name[equals - text] = '\0';
    command->defines[command->options.n_defines++] = (TilecDefine){name, equals + 1};
    return 0;
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

static int
set_flag(Command *command, const FlagRow *row, const char *value)
{
    TilecOptions *options = &command->options;

    switch (row->flag) {
    case FLAG_ARCH: options->arch = value; return 0;
    case FLAG_OUTPUT: command->output = value; return 0;
    case FLAG_DEFINE: return add_define(command, value);
    case FLAG_INCLUDE: command->folders[command->n_folders++] = value; return 0;
    case FLAG_EMIT: return set_emit(command, value);
    case FLAG_DUMP: options->dump_ir = value == NULL ? "" : value; return 0;
    case FLAG_LIST_PASSES: command->list = "passes"; return 0;
    case FLAG_RUN_PASS: options->run_pass = value; return 0;
    case FLAG_REPORT: options->report = true; return 0;
    case FLAG_WARPS:
        return set_count(value, "--warps", "1, 2, 4, 8 or 16", 16, true, &options->warps);
    case FLAG_STAGES: return set_count(value, "--stages", "1 to 8", 8, false, &options->stages);
    case FLAG_TIME_REPORT: options->time_report = true; return 0;
    case FLAG_REMARKS: options->remarks = true; return 0;
    case FLAG_LIST_TARGETS: command->list = "targets"; return 0;
    case FLAG_LINEINFO: options->line_info = true; return 0;
    case FLAG_VERSION: command->version = true; return 0;
    case FLAG_HELP: command->help = true; return 0;
    case FLAG_WERROR: options->warnings_are_errors = true; return 0;
    case FLAG_KERNEL: options->kernel = value; return 0;
    case FLAG_PTXAS: command->ptxas = value; return 0;
    case FLAG_VERIFY: options->verify = true; return 0;
    case FLAG_HEADER_NAME: options->header_name = value; return 0;
    case FLAG_HEADER_PTX: options->header_with_ptx = true; return 0;
    case FLAG_O0:
    case FLAG_O1:
    case FLAG_O2:
    case FLAG_O3: options->level = (int)(row->flag - FLAG_O0); return 0;
    }
    return 0;
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
    for (int k = 0; k < FLAG_ROWS; k++) {
        const FlagRow *row = &flag_rows[k];
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
            if (*at + 1 >= argc)
                return complain("%s needs a value: %s %s", row->text, row->text, row->value);
            return set_flag(command, row, argv[++*at]);
        }
        if (*rest == '=' && row->form != FORM_ALONE && !one_letter) {
            if (rest[1] == '\0')
                return complain("%s needs a value: %s=%s", row->text, row->text, row->value);
            return set_flag(command, row, rest + 1);
        }
        if (row->form == FORM_NEXT && one_letter)
            return set_flag(command, row, rest);
    }
    return unknown_flag(argument);
}

static int
read_command(Command *command, int argc, char **argv)
{
    command->options = tilec_default_options();
    command->defines = allocate(sizeof *command->defines * (size_t)argc);
    command->switches = allocate(sizeof *command->switches * (size_t)argc);
    command->folders = allocate(sizeof *command->folders * (size_t)argc);
    command->options.defines = command->defines;
    command->options.switches = command->switches;
    for (int at = 1; at < argc; at++) {
        if (argv[at][0] == '-' && argv[at][1] != '\0') {
            int status = read_flag(command, argc, argv, &at);
            if (status != 0)
                return status;
        } else if (command->input != NULL) {
            return complain("more than one input file: '%s' and '%s'", command->input, argv[at]);
        } else {
            command->input = argv[at];
        }
    }
    return 0;
}

static void
print_help(void)
{
    puts("usage: tilec FILE.tile [options]      - reads standard input\n");
    for (int k = 0; k < FLAG_ROWS; k++) {
        const FlagRow *row = &flag_rows[k];
        char left[40];
        if (row->help == NULL)
            continue;
        snprintf(left, sizeof left,
                 row->form == FORM_MAYBE    ? "%s[=%s]"
                 : row->form == FORM_EQUALS ? "%s=%s"
                 : row->value != NULL       ? "%s %s"
                                            : "%s%s",
                 row->text, row->value == NULL ? "" : row->value);
        printf("  %-20s %s\n", left, row->help);
    }
    puts("  -fPASS, -fno-PASS    switch a pass on or off; --list-passes shows them\n"
         "\n"
         "Without -o, PTX goes to FILE.ptx and a cubin to FILE.cubin in the current folder,\n"
         "everything else to standard output.  Exit status: 0, 1 after errors in the program or\n"
         "the command line, 2 after a fault of tilec itself.");
}

/* ---- files ---- */

/* Reads a file, or standard input for "-".  NULL with errno set. */
static char *
read_file(const char *path, size_t *n)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t cap = 1 << 16;
    char *text = NULL;

    *n = 0;
    if (file == NULL)
        return NULL;
    for (;;) {
        char *grown = realloc(text, cap);
        if (grown == NULL)
            break;
        text = grown;
        *n += fread(text + *n, 1, cap - 1 - *n, file);
        if (*n < cap - 1)
            break;
        cap *= 2;
    }
    bool bad = ferror(file) != 0 || text == NULL;
    int error = errno;
    if (file != stdin)
        fclose(file);
    if (bad) {
        free(text);
        errno = error == 0 ? EIO : error;
        return NULL;
    }
    text[*n] = '\0';
    return text;
}

/* A file appears whole or not at all: it is written beside its place and then renamed. */
static int
write_file(const char *path, const char *text, size_t n)
{
    if (strcmp(path, "-") == 0) {
        if (fwrite(text, 1, n, stdout) != n || fflush(stdout) != 0)
            return complain("can not write to standard output: %s", strerror(errno));
        return 0;
    }
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) { /* /dev/null, a pipe: no renaming */
        FILE *file = fopen(path, "wb");
        bool good = file != NULL && fwrite(text, 1, n, file) == n;
        int error = errno;
        good = (file != NULL && fclose(file) == 0) && good;
        return good ? 0 : complain("can not write %s: %s", path, strerror(error));
    }
    char *beside = text_printf("%s.XXXXXX", path, "");
    int handle = mkstemp(beside);
    FILE *file = handle < 0 ? NULL : fdopen(handle, "wb");
    int status = 0;

    if (file == NULL || fwrite(text, 1, n, file) != n || fflush(file) != 0)
        status = complain("can not write %s: %s", path, strerror(errno));
    mode_t mask = umask(0);
    umask(mask);
    if (file != NULL && fchmod(handle, (mode_t)(0666 & ~mask)) != 0 && status == 0)
        status = complain("can not write %s: %s", path, strerror(errno));
    if (file != NULL && fclose(file) != 0 && status == 0)
        status = complain("can not write %s: %s", path, strerror(errno));
    if (status == 0 && rename(beside, path) != 0)
        status = complain("can not write %s: %s", path, strerror(errno));
    if (status != 0 && handle >= 0)
        unlink(beside);
    free(beside);
    return status;
}

static bool
same_file(const char *a, const char *b)
{
    struct stat one, two;

    return stat(a, &one) == 0 && stat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

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
        /* a file that uses a module of its own name means another one */
        char *contents = same_file(full, command->input) ? NULL : read_file(full, n);
        if (contents == NULL) {
            free(full);
            continue;
        }
        LoadedFile *grown =
            realloc(command->loaded, (command->n_loaded + 1) * sizeof *command->loaded);
        if (grown == NULL) {
            free(contents);
            free(full);
            return false;
        }
        command->loaded = grown;
        command->loaded[command->n_loaded++] = (LoadedFile){full, contents, *n};
        *path = strncmp(full, "./", 2) == 0 ? full + 2 : full;
        *text = contents;
        return true;
    }
    return false;
}

static char *
folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return text_printf("%s%s", ".", "");
    char *folder = text_printf("%s%s", path, "");
    folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

/* ---- ptxas ---- */

static char *
executable_in(const char *folder, const char *below)
{
    char *start = text_printf("%s/%s", folder, below);
    char *path = text_printf("%s%s", start, "ptxas");

    free(start);
    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

/* PATH, then the places a CUDA Toolkit is installed in. */
static char *
find_ptxas(void)
{
    static const char *const homes[] = {"CUDA_HOME", "CUDA_PATH"};
    const char *path = getenv("PATH");
    char *found = NULL;

    while (path != NULL && *path != '\0' && found == NULL) {
        size_t n = strcspn(path, ":");
        char *folder = allocate(n + 2);
        memcpy(folder, n == 0 ? "." : path, n == 0 ? 1 : n);
        found = executable_in(folder, "");
        free(folder);
        path += n;
        path += *path == ':';
    }
    for (size_t k = 0; k < 2 && found == NULL; k++)
        if (getenv(homes[k]) != NULL)
            found = executable_in(getenv(homes[k]), "bin/");
    if (found == NULL)
        found = executable_in("/usr/local/cuda", "bin/");
    return found;
}

/* Runs ptxas over PTX text into the file `cubin`; what it prints goes to `*said`. */
static int
run_ptxas(const Command *command, const TilecResult *result, const char *cubin, char **said)
{
    char *found = command->ptxas != NULL ? NULL : find_ptxas();
    const char *program = command->ptxas != NULL ? command->ptxas : found;
    char input[] = "/tmp/tilec-ptx-XXXXXX", log[] = "/tmp/tilec-log-XXXXXX";
    int status = 0, code = 0;
    size_t n;

    *said = NULL;
    if (program == NULL)
        return complain("ptxas was not found in PATH, $CUDA_HOME/bin, $CUDA_PATH/bin or "
                        "/usr/local/cuda/bin; name it with --ptxas=PATH");
    int in = mkstemp(input), out = mkstemp(log);
    FILE *file = in < 0 ? NULL : fdopen(in, "wb");
    if (file == NULL || out < 0 ||
        fwrite(result->output, 1, result->output_bytes, file) != result->output_bytes ||
        fclose(file) != 0)
        status = complain("can not write a temporary file: %s", strerror(errno));
    char *arch = text_printf("-arch=%s%s", command->options.arch, "");
    if (status == 0) {
        pid_t child = fork();
        if (child == 0) {
            dup2(out, 1);
            dup2(out, 2);
            execlp(program, program, arch, "-v", command->options.line_info ? "-lineinfo" : "-O3",
                   input, "-o", cubin, (char *)NULL);
            fprintf(stderr, "can not run %s: %s\n", program, strerror(errno));
            _exit(127);
        }
        if (child < 0 || waitpid(child, &code, 0) < 0)
            status = complain("can not run %s: %s", program, strerror(errno));
    }
    *said = read_file(log, &n);
    if (status == 0 && (!WIFEXITED(code) || WEXITSTATUS(code) != 0)) {
        fprintf(stderr, "%s", *said == NULL ? "" : *said);
        if (WIFEXITED(code) && WEXITSTATUS(code) == 127) {
            status = complain("%s can not be run", program);
        } else {
            complain("%s refused the PTX of tilec for %s", program, command->options.arch);
            status = EXIT_BUG;
        }
    }
    if (in >= 0)
        unlink(input);
    if (out >= 0) {
        close(out);
        unlink(log);
    }
    free(arch);
    free(found);
    return status;
}

/* Makes a cubin at `path` (NULL: only to hear what ptxas says). */
static int
write_cubin(const Command *command, const TilecResult *result, const char *path, char **said)
{
    char cubin[] = "/tmp/tilec-cubin-XXXXXX";
    int handle = mkstemp(cubin);
    size_t n;

    *said = NULL;
    if (handle < 0)
        return complain("can not write a temporary file: %s", strerror(errno));
    close(handle);
    int status = run_ptxas(command, result, cubin, said);
    if (status == 0 && path != NULL) {
        char *bytes = read_file(cubin, &n);
        status = bytes == NULL ? complain("can not read %s: %s", cubin, strerror(errno))
                               : write_file(path, bytes, n);
        free(bytes);
    }
    unlink(cubin);
    return status;
}

/* ---- the run ---- */

static bool
ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Where the output goes when -o does not say: FILE.ptx, FILE.cubin, or standard output. */
static char *
default_output(const Command *command)
{
    const char *name = strrchr(command->input, '/');
    bool text = command->options.emit != TILEC_EMIT_PTX || command->options.run_pass != NULL ||
                strcmp(command->input, "-") == 0;

    if (text && !command->cubin)
        return text_printf("%s%s", "-", "");
    name = name == NULL ? command->input : name + 1;
    char *base = text_printf("%s%s", strcmp(name, "-") == 0 ? "out" : name, "");
    char *dot = strrchr(base, '.');
    if (dot != NULL && dot != base)
        *dot = '\0';
    char *path = text_printf("%s.%s", base, command->cubin ? "cubin" : "ptx");
    free(base);
    return path;
}

/* What ptxas -v says, without the lines that only repeat the command. */
static void
print_said(FILE *out, const char *said)
{
    for (const char *line = said; line != NULL && *line != '\0';) {
        size_t n = strcspn(line, "\n");
        fprintf(out, "%.*s\n", (int)n, line);
        line += n;
        line += *line == '\n';
    }
}

static int
write_results(Command *command, const TilecResult *result)
{
    char *path = command->output != NULL ? text_printf("%s%s", command->output, "")
                                         : default_output(command);
    bool is_ptx = command->options.emit == TILEC_EMIT_PTX && command->options.run_pass == NULL;
    bool only_dump = command->options.dump_ir != NULL && command->output == NULL &&
                     !command->emit_given && command->options.run_pass == NULL;
    FILE *beside = strcmp(path, "-") == 0 && !only_dump ? stderr : stdout;
    char *said = NULL;
    int status = 0;

    fputs(result->dump, beside);
    if (only_dump)
        status = 0;
    else if (command->cubin)
        status = write_cubin(command, result, path, &said);
    else
        status = write_file(path, result->output, result->output_bytes);
    fputs(result->report, beside);
    if (status == 0 && command->options.report && is_ptx) {
        if (said == NULL)
            status = write_cubin(command, result, NULL, &said);
        print_said(beside, said);
    }
    fputs(result->time_report, beside);
    free(said);
    free(path);
    return status;
}

static int
compile(Command *command)
{
    TilecResult result;
    size_t n;

    char *text = read_file(command->input, &n);
    if (text == NULL)
        return complain("can not read %s: %s", command->input, strerror(errno));
    command->source_folder = folder_of(command->input);
    command->options.import = import_module;
    command->options.import_user = command;
    const char *path = strcmp(command->input, "-") == 0 ? "<stdin>" : command->input;
    TilecStatus status = tilec_compile(&command->options, path, text, n, &result);
    fputs(result.messages, stderr);
    int code = status == TILEC_OK ? 0 : status == TILEC_ERROR ? EXIT_USER : EXIT_BUG;
    if (code == 0)
        code = write_results(command, &result);
    else
        fputs(result.dump, stdout);
    tilec_result_free(&result);
    free(text);
    return code;
}

static void
free_command(Command *command)
{
    for (size_t k = 0; k < command->options.n_defines; k++)
        free((char *)command->defines[k].name);
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
        print_help();
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
    if (command->output != NULL && ends_with(command->output, ".cubin") && !command->emit_given)
        command->cubin = true;
    return compile(command);
}

int
main(int argc, char **argv)
{
    Command command = {0};
    int status = read_command(&command, argc, argv);

    if (status == 0)
        status = run_command(&command);
    free_command(&command);
    return status;
}
