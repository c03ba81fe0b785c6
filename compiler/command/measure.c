/* measure.c - compiles one plan after the other, has tilerun time it (on a GPU, or by the
 * simulator's clock), and adds a line to the tuning database for each.
 *
 * A plan runs in a process of its own with a limit of time: one that hangs or breaks the GPU's
 * context is recorded as failed, and the next one goes on.  A line is written as soon as its plan
 * has been timed, and a plan that has a line is passed over, so a search that was broken off goes
 * on where it stopped.
 */
#define _POSIX_C_SOURCE 200809L /* fork, mkdtemp, poll, clock_gettime, fileno */
#include "compiler/command/measure.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler/base/bar.h"
#include "compiler/command/files.h"
#include "compiler/command/toolkit.h"

enum {
    MOST_WORDS = 128, /* of a command line */
    SAID = 8192,      /* characters of what a child says that are kept */
    NOT_RUN = 127,
    MOST_JOBS = 64
};

/* One plan: pieces of its line of JSON. */
typedef struct Entry {
    char *key; /* how its line in the database begins: all that it is about */
    char *kernel, *options, *plan;
    double predicted; /* ms */
    double measured;  /* us; 0: not */
    double cycles;    /* of the simulator's clock */
    char *failed;     /* NULL: did not */
    bool before;      /* was in the database */
} Entry;

typedef struct Bench {
    const Measuring *m;
    Entry *entries;
    size_t n;
    char *tilerun;
    size_t done, failed, known;
    bool lines; /* a line for each plan: where there is no bar */
    Bar bar;
} Bench;

/* What a launch that is simulated takes at most, where nobody says how large it is: a few seconds
 * of a processor. */
static const double short_microseconds = 50;

/* A member of each line that no GPU timed. */
/* Of a process that simulates: costs of PTX do not tell plans apart.  Said once for all of them. */
enum { EXIT_NO_CODE = 3 };

static const char SIMULATED[] = "\"origin\":\"simulated\"";

static char *format(const char *how, ...) __attribute__((format(printf, 1, 2)));

static char *
format(const char *how, ...)
{
    va_list list;

    va_start(list, how);
    int n = vsnprintf(NULL, 0, how, list);
    va_end(list);
    char *text = allocate((size_t)n + 1);
    va_start(list, how);
    vsnprintf(text, (size_t)n + 1, how, list);
    va_end(list);
    return text;
}

static char *
copy_n(const char *text, size_t n)
{
    char *copy = allocate(n + 1);
    memcpy(copy, text, n);
    return copy;
}

/* ---- a child ---- */

static double
now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Runs a program, its output in `said`; returns its exit status, 128 + the number of a signal, or
 * -1 when it did not end within `limit` seconds. */
static int
run_child(char *const *words, double limit, char *said)
{
    double end = now() + limit;
    size_t n = 0;
    int pipes[2], code = 0;

    said[0] = '\0';
    if (pipe(pipes) != 0)
        return NOT_RUN;
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        close(pipes[0]);
        close(pipes[1]);
        execvp(words[0], words);
        _exit(NOT_RUN);
    }
    close(pipes[1]);
    bool open = child > 0, late = false;
    while (open && !late) {
        struct pollfd wait = {.fd = pipes[0], .events = POLLIN};
        double left = end - now();
        char part[1024];
        int ready = left > 0 ? poll(&wait, 1, (int)(left * 1000) + 1) : 0;
        late = ready == 0;
        ssize_t got = ready > 0 ? read(pipes[0], part, sizeof part) : 0;
        open = ready == 0 || (ready < 0 && errno == EINTR) || got > 0;
        for (ssize_t k = 0; k < got && n + 1 < SAID; k++)
            said[n++] = part[k];
        said[n] = '\0';
    }
    close(pipes[0]);
    if (child <= 0)
        return NOT_RUN;
    if (late)
        kill(child, SIGKILL);
    if (waitpid(child, &code, 0) != child)
        return NOT_RUN;
    return late ? -1 : WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}

/* ---- plans ---- */

/* The text of member `name` of a line of JSON that tilec printed; the caller frees it. */
static char *
member(const char *line, const char *name)
{
    char *wanted = format("\"%s\":\"", name);
    const char *at = strstr(line, wanted);
    char *text = NULL;

    if (at != NULL) {
        at += strlen(wanted);
        text = copy_n(at, strcspn(at, "\""));
    }
    free(wanted);
    return text;
}

static void
read_entry(const char *line, Entry *entry)
{
    const char *end = strstr(line, ",\"options\""), *predicted = strstr(line, "\"predicted_ms\":");

    *entry = (Entry){.key = copy_n(line, end == NULL ? 0 : (size_t)(end - line)),
                     .kernel = member(line, "kernel"),
                     .options = member(line, "options"),
                     .plan = member(line, "plan")};
    if (predicted != NULL)
        entry->predicted = strtod(predicted + strlen("\"predicted_ms\":"), NULL);
}

/* The plans to time, the best predicted first. */
static int
list_plans(Bench *b)
{
    const Measuring *m = b->m;
    TilecSearch search = m->asked->search;
    TilecResult result;

    search.order = TILEC_BY_TIME;
    search.json = true;
    if (m->asked->simulate)
        search.most_microseconds = short_microseconds;
    TilecStatus status = tilec_search(m->options, &search, m->path, m->text, m->n, &result);
    fputs(result.messages, stderr);
    const char *at = status == TILEC_OK ? result.output : "";
    for (const char *p = at; *p != '\0'; p++)
        b->n += *p == '\n';
    b->entries = allocate((b->n + 1) * sizeof *b->entries);
    for (size_t k = 0; k < b->n; k++) {
        char *line = copy_n(at, strcspn(at, "\n"));
        read_entry(line, &b->entries[k]);
        at += strlen(line) + 1;
        free(line);
    }
    tilec_result_free(&result);
    return status == TILEC_OK ? 0 : status == TILEC_ERROR ? EXIT_USER : EXIT_BUG;
}

/* What the database knows of the plans: `before` this search, or now, with what failed. */
static void
read_lines(Bench *b, bool before)
{
    size_t n;
    char *text = read_file(b->m->database, &n);

    if (text == NULL && errno == ENOMEM)
        out_of_memory();
    for (char *line = text; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        for (size_t k = 0; k < b->n; k++) {
            Entry *entry = &b->entries[k];
            if (length < strlen(entry->key) || strncmp(line, entry->key, strlen(entry->key)) != 0)
                continue;
            char *own = copy_n(line, length);
            bool simulated = strstr(own, SIMULATED) != NULL;
            if (simulated != b->m->asked->simulate) { /* of the other kind */
                free(own);
                continue;
            }
            const char *time = strstr(own, "\"microseconds\":");
            if (time == NULL && before) { /* it failed, which it may not do again */
                free(own);
                continue;
            }
            b->known += !entry->before;
            entry->before = true;
            free(entry->failed);
            entry->failed = member(own, "failed");
            entry->measured = time == NULL ? 0 : strtod(time + strlen("\"microseconds\":"), NULL);
            free(own);
        }
        line += length + (line[length] == '\n');
    }
    free(text);
}

/* ---- timing one ---- */

static void
compile_plan(const Bench *b, const Entry *entry, TilecResult *result)
{
    const Measuring *m = b->m;
    TilecOptions options = *m->options;
    TilecDefine *defines = allocate((options.n_defines + MOST_WORDS) * sizeof *defines);
    char *words = format("%s", entry->options), *names[MOST_WORDS];
    size_t n_names = 0;

    memcpy(defines, options.defines, options.n_defines * sizeof *defines);
    options.defines = defines;
    options.kernel = entry->kernel;
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        if (strncmp(word, "--plan=", strlen("--plan=")) == 0) {
            options.plan = word + strlen("--plan=");
        } else if (equals != NULL && n_names < MOST_WORDS) {
            names[n_names] = copy_n(word, (size_t)(equals - word));
            defines[options.n_defines++] = (TilecDefine){names[n_names++], equals + 1};
        }
    }
    tilec_compile(&options, m->path, m->text, m->n, result);
    while (n_names > 0)
        free(names[--n_names]);
    free(words);
    free(defines);
}

static void
add_word(char **words, size_t *n, char *word)
{
    if (*n + 1 < MOST_WORDS)
        words[(*n)++] = word;
    else
        free(word);
}

/* NAME=VALUE of each pair in {"Sq":4096,..} of the line, as --set. */
static void
add_sizes(const Entry *entry, char **words, size_t *n)
{
    const char *at = strstr(entry->key, "\"sizes\":{");

    at = at == NULL ? "}" : at + strlen("\"sizes\":{");
    while (*at == '"') {
        const char *name = at + 1, *value = strchr(at, ':') + 1;
        size_t length = strcspn(value, ",}");
        add_word(words, n, format("--set"));
        add_word(words, n, format("%.*s=%.*s", (int)strcspn(name, "\""), name, (int)length, value));
        at = value + length + (value[length] == ',');
    }
}

/* n characters, fit for a string of JSON; the caller frees them. */
static char *
quotable(const char *text, size_t n)
{
    char *copy = copy_n(text, n);

    for (char *p = copy; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
            *p = '\'';
    }
    return copy;
}

/* What a program says last; of tilerun, what is wrong. */
static char *
last_line(const char *said)
{
    static const char *const wrong[] = {"tilerun: error: ", "fault: "};
    size_t n = strlen(said);

    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        const char *at = strstr(said, wrong[k]);
        if (at != NULL)
            return quotable(at, strcspn(at, "\n"));
    }

    while (n > 0 && said[n - 1] == '\n')
        n--;
    size_t begin = n;
    while (begin > 0 && said[begin - 1] != '\n')
        begin--;
    return quotable(said + begin, n - begin);
}

/* Runs `words`, whose second one is `path`, with the PTX in a file there.  In between nothing may
 * end this program, as want of memory does: the file would stay.  As run_child; NOT_RUN with errno
 * when there is no file. */
static int
run_on_file(char *const *words, char *folder, char *path, const TilecResult *result, double limit,
            char *said)
{
    errno = 0;
    if (mkdtemp(folder) == NULL)
        return NOT_RUN;
    memcpy(path, folder, strlen(folder));
    FILE *file = fopen(path, "wb");
    bool ok = file != NULL &&
              fwrite(result->output, 1, result->output_bytes, file) == result->output_bytes;
    if (file != NULL)
        ok = fclose(file) == 0 && ok;
    int error = errno, status = ok ? run_child(words, limit, said) : NOT_RUN;
    remove(path);
    rmdir(folder);
    errno = error;
    return status;
}

/* What tilerun is told, beside the sizes. */
static void
add_how(const Bench *b, const Entry *entry, char **words, size_t *n)
{
    const SearchFlags *asked = b->m->asked;
    char *target = member(entry->key, "target");

    add_word(words, n, format("--device"));
    add_word(words, n, format(asked->simulate ? "sim" : "gpu"));
    add_word(words, n, format("--time"));
    if (asked->simulate) {
        add_word(words, n, format("%s,sample,seeds=1", target == NULL ? "" : target));
        add_word(words, n, format("--no-check"));
        add_word(words, n, format("--quiet"));
    } else {
        add_word(words, n, format("%u", (unsigned)asked->runs));
    }
    free(target);
}

/* "  104693 cycles (..): 52.88 us at 1980 MHz", from machine code. */
static void
read_clock(const Bench *b, Entry *entry, const char *said)
{
    const char *cycles = strstr(said, " cycles ("), *time = strstr(said, "jitter): ");
    const char *begin = cycles;

    while (begin != NULL && begin > said && begin[-1] >= '0' && begin[-1] <= '9')
        begin--;
    if (cycles == NULL || time == NULL || strstr(said, "never comes") != NULL) {
        entry->failed = format("%s gave no cycles", b->tilerun);
        return;
    }
    entry->cycles = strtod(begin, NULL);
    entry->measured = strtod(time + strlen("jitter): "), NULL);
}

/* Whether a kernel has written nothing of some output: "tilerun: note: 64 of 64 bytes of C were not
 * written". */
static bool
nothing_done(const char *said)
{
    static const char begin[] = "tilerun: note: ";

    for (const char *at = strstr(said, begin); at != NULL; at = strstr(at + 1, begin)) {
        char *end;
        unsigned long long missing = strtoull(at + strlen(begin), &end, 10);
        unsigned long long all = strncmp(end, " of ", 4) == 0 ? strtoull(end + 4, &end, 10) : 0;
        if (all > 0 && missing == all && strncmp(end, " bytes of ", 10) == 0)
            return true;
    }
    return false;
}

/* Complains and returns the exit status where it is not the plan's fault that there is no time. */
static int
run_plan(const Bench *b, Entry *entry, const TilecResult *result)
{
    const SearchFlags *asked = b->m->asked;
    char folder[] = "/tmp/tilec-measure-XXXXXX", path[] = "/tmp/tilec-measure-XXXXXX/plan.ptx";
    char *words[MOST_WORDS + 1] = {NULL}, *said = allocate(SAID);
    size_t n = 0;

    add_word(words, &n, format("%s", b->tilerun));
    words[n++] = path;
    add_word(words, &n, format("--random"));
    add_how(b, entry, words, &n);
    add_sizes(entry, words, &n);
    for (size_t k = 0; k < asked->n_sets; k++) {
        add_word(words, &n, format("--set"));
        add_word(words, &n, format("%s=%s", asked->sets[k].name, asked->sets[k].value));
    }
    for (size_t k = 0; k < asked->n_arrays; k++) {
        add_word(words, &n, format("--in"));
        add_word(words, &n, format("%s=%s", asked->arrays[k].name, asked->arrays[k].value));
    }
    int status = run_on_file(words, folder, path, result, asked->limit, said), error = errno;
    const char *time = strstr(said, "time: median ");
    bool no_code = asked->simulate && strstr(said, "machine code was not read") != NULL;
    char *last = last_line(said);
    if (status == -1)
        entry->failed = format("did not end within %g s%s", asked->limit,
                               asked->simulate ? "; smaller sizes (--size) end sooner" : "");
    else if (status != 0 && status != NOT_RUN)
        entry->failed = format("exit status %d%s%s", status, *last == '\0' ? "" : ": ", last);
    else if (nothing_done(said))
        entry->failed = format(
            "the kernel computes nothing with the tensors that it has: integers are 0 "
            "where no --in NAME=FILE.npy gives them");
    else if (asked->simulate)
        read_clock(b, entry, said);
    else if (time == NULL || strtod(time + strlen("time: median "), NULL) <= 0)
        entry->failed = format("%s gave no time", b->tilerun);
    else
        entry->measured = 1e3 * strtod(time + strlen("time: median "), NULL);
    free(last);
    while (n > 0) {
        if (words[--n] != path)
            free(words[n]);
    }
    free(said);
    if (no_code)
        return EXIT_NO_CODE;
    if (status != NOT_RUN)
        return 0;
    return error != 0 ? complain("E-FILE: cannot write %s: %s", path, strerror(error))
                      : complain("E-MEASURE: %s can not be run", b->tilerun);
}

/* As run_plan.  Want of memory says nothing of the plan either. */
static int
time_plan(const Bench *b, Entry *entry)
{
    TilecResult result;
    int status = 0;

    compile_plan(b, entry, &result);
    if (result.status == TILEC_OK) {
        status = run_plan(b, entry, &result);
    } else if (result.status == TILEC_OUT_OF_MEMORY) {
        fputs(result.messages, stderr);
        status = EXIT_BUG;
    } else {
        char *first = quotable(result.messages, strcspn(result.messages, "\n"));
        entry->failed = format("not compiled: %s", first);
        free(first);
    }
    tilec_result_free(&result);
    return status;
}

/* Adds the line of a plan; it is in the file before the next plan runs.  What a search that was
 * broken off left of a line stays a line of its own. */
static int
write_line(const Bench *b, const Entry *entry)
{
    FILE *file = fopen(b->m->database, "a+");
    bool ok = file != NULL;

    if (ok && fseek(file, -1, SEEK_END) == 0 && fgetc(file) != '\n')
        ok = fseek(file, 0, SEEK_END) == 0 && fputc('\n', file) != EOF;
    if (ok)
        ok = fseek(file, 0, SEEK_END) == 0;
    if (ok && entry->failed != NULL)
        ok = fprintf(file, "%s,\"failed\":\"%s\"%s%s}\n", entry->key, entry->failed,
                     b->m->asked->simulate ? "," : "", b->m->asked->simulate ? SIMULATED : "") > 0;
    else if (ok && b->m->asked->simulate)
        ok = fprintf(file, "%s,\"microseconds\":%.2f,\"cycles\":%.0f,%s}\n", entry->key,
                     entry->measured, entry->cycles, SIMULATED) > 0;
    else if (ok)
        ok = fprintf(file, "%s,\"microseconds\":%.2f}\n", entry->key, entry->measured) > 0;
    if (file != NULL)
        ok = fclose(file) == 0 && ok;
    return ok ? 0 : complain("E-FILE: cannot write %s: %s", b->m->database, strerror(errno));
}

/* ---- what the user sees ---- */

static const Entry *
best_of(const Bench *b)
{
    const Entry *best = NULL;

    for (size_t k = 0; k < b->n; k++) {
        const Entry *entry = &b->entries[k];
        if (entry->measured > 0 && (best == NULL || entry->measured < best->measured))
            best = entry;
    }
    return best;
}

static void
show_bar(Bench *b)
{
    const Entry *best = best_of(b);
    size_t done = b->done + b->known;
    char failed[48] = "";

    if (b->failed > 0)
        snprintf(failed, sizeof failed, ", %zu failed", b->failed);
    if (best != NULL)
        bar_show(&b->bar, done, b->n, "%s, best %.1f us: %s", failed, best->measured, best->options);
    else
        bar_show(&b->bar, done, b->n, "%s", failed);
}

/* By how much the prediction is off, of 1. */
static double
off_by(const Entry *entry)
{
    return 1e3 * entry->predicted / entry->measured - 1;
}

static void
show_line(const Bench *b, const Entry *entry)
{
    size_t done = b->done + b->known;

    if (b->lines && b->m->asked->simulate && entry->failed == NULL)
        fprintf(stderr, "%s: %.0f cycles, %.1f us, predicted %.1f (%+.0f %%)\n", entry->options,
                entry->cycles, entry->measured, 1e3 * entry->predicted, 100 * off_by(entry));
    else if (b->lines && b->m->asked->simulate)
        fprintf(stderr, "%s: failed: %s\n", entry->options, entry->failed);
    else if (b->lines && entry->failed != NULL)
        fprintf(stderr, "%zu of %zu: %s: failed: %s\n", done, b->n, entry->options, entry->failed);
    else if (b->lines)
        fprintf(stderr, "%zu of %zu: %s: %.1f us, predicted %.1f\n", done, b->n, entry->options,
                entry->measured, 1e3 * entry->predicted);
}

static int
compare_measured(const void *x, const void *y)
{
    const Entry *a = x, *b = y;

    if ((a->measured > 0) != (b->measured > 0))
        return a->measured > 0 ? -1 : 1;
    return a->measured < b->measured ? -1 : a->measured > b->measured;
}

/* How far predictions are off, and whether they rank plans as their times do: pairs of plans in the
 * same order less those in the other, of all.  Entries are sorted by their times, those without
 * behind. */
static void
print_differences(const Bench *b)
{
    double mean = 0, around = 0, least = 0, most = 0, pairs = 0, order = 0;
    size_t n = 0;

    while (n < b->n && b->entries[n].measured > 0)
        n++;
    for (size_t k = 0; k < n; k++) {
        double off = off_by(&b->entries[k]);
        mean += off / (double)n;
        least = k == 0 || off < least ? off : least;
        most = k == 0 || off > most ? off : most;
        for (size_t j = 0; j < k; j++) {
            double before = b->entries[j].predicted, behind = b->entries[k].predicted;
            pairs++;
            if (b->entries[j].measured < b->entries[k].measured)
                order += (before < behind) - (before > behind);
        }
    }
    for (size_t k = 0; k < n; k++)
        around += fabs(off_by(&b->entries[k]) - mean) / (double)n;
    if (n > 1)
        printf(
            "predictions are off by %+.0f to %+.0f %%, %+.0f %% on average and %.0f %% around that; "
            "Kendall's tau %.2f\n",
            100 * least, 100 * most, 100 * mean, 100 * around, order / pairs);
}

/* "sizes: Sq=4096 ..". */
static void
print_sizes(const Bench *b)
{
    char *words[MOST_WORDS + 1] = {NULL};
    size_t n = 0;

    add_sizes(&b->entries[0], words, &n);
    printf("sizes:");
    for (size_t k = 1; k < n; k += 2) /* behind each --set */
        printf(" %s", words[k]);
    puts(b->m->asked->search.n_sizes == 0 ? " (small, for the simulator; --size says others)" : "");
    while (n > 0)
        free(words[--n]);
}

static void
print_table(Bench *b)
{
    qsort(b->entries, b->n, sizeof *b->entries, compare_measured);
    printf("%s  predicted  off by\n", b->m->asked->simulate ? " simulated" : "  measured");
    for (size_t k = 0; k < b->n; k++) {
        const Entry *entry = &b->entries[k];
        if (entry->measured > 0)
            printf("%8.1f us %8.1f us  %+5.0f %%  %s\n", entry->measured, 1e3 * entry->predicted,
                   100 * off_by(entry), entry->options);
        else
            printf("    failed %8.1f us           %s: %s\n", 1e3 * entry->predicted, entry->options,
                   entry->failed == NULL ? "not timed" : entry->failed);
    }
    print_differences(b);
    if (b->m->asked->simulate && b->n > 0)
        print_sizes(b);
    const Entry *best = best_of(b), *next = b->n > 1 ? &b->entries[1] : NULL;
    if (best != NULL && next != NULL && next->measured > 0)
        printf("%s: 'auto' now takes %s, %.1f %% quicker than the next\n", b->m->database,
               best->options, 100 * (next->measured / best->measured - 1));
    else if (best != NULL)
        printf("%s: 'auto' now takes %s\n", b->m->database, best->options);
}

/* ---- the whole ---- */

static int
find_tilerun(Bench *b)
{
    const char *given = b->m->asked->tilerun;

    b->tilerun = given != NULL ? format("%s", given) : toolkit_find("tilerun", b->m->self);
    if (b->tilerun == NULL && strchr(b->m->self, '/') != NULL) { /* in the tree it was built in */
        char *folder = folder_of(b->m->self);
        b->tilerun = format("%s/backends/cuda/tilerun", folder);
        free(folder);
    }
    if (b->tilerun == NULL)
        return complain("E-MEASURE: %s needs the program tilerun, which was found neither beside "
                        "tilec nor in PATH; --tilerun PATH says where it is",
                        b->m->asked->simulate ? "--simulate" : "--measure");
    return 0;
}

/* Asks tilerun for the GPU. */
static int
find_gpu(Bench *b)
{
    char said[SAID];
    char *words[] = {b->tilerun, "--gpu", NULL};
    int status = run_child(words, b->m->asked->limit, said);
    if (status == NOT_RUN)
        return complain("E-MEASURE: %s can not be run; --tilerun PATH says which tilerun to use",
                        b->tilerun);
    char *last = last_line(said);
    if (status != 0)
        complain("E-MEASURE: --measure needs a GPU: %s%s", *last == '\0' ? b->tilerun : last,
                 *last == '\0' ? " found none" : "");
    else
        fprintf(stderr, "timing on %s\n", last);
    free(last);
    return status == 0 ? 0 : EXIT_USER;
}

/* Every `step`-th plan from `first` on. */
static int
time_some(Bench *b, size_t first, size_t step)
{
    int status = 0;

    for (size_t k = first; k < b->n && status == 0; k += step) {
        Entry *entry = &b->entries[k];
        if (entry->before)
            continue;
        show_bar(b);
        status = time_plan(b, entry);
        if (status != 0)
            break;
        b->done++;
        b->failed += entry->failed != NULL;
        status = write_line(b, entry);
        show_bar(b);
        show_line(b, entry);
    }
    return status;
}

/* As many processes as there are processors share the plans; what they find is in the database. */
static int
simulate_all(Bench *b)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t jobs = processors < 1 ? 1 : processors > MOST_JOBS ? MOST_JOBS : (size_t)processors;
    pid_t child[MOST_JOBS];
    int status = 0, code;

    bar_end(&b->bar);
    b->bar.on = false;
    fflush(stdout);
    fflush(stderr);
    for (size_t j = 0; j < jobs; j++) {
        child[j] = fork();
        if (child[j] == 0) {
            code = time_some(b, j, jobs);
            fflush(stderr);
            _exit(code);
        }
    }
    for (size_t j = 0; j < jobs; j++) {
        if (child[j] < 0 || waitpid(child[j], &code, 0) != child[j])
            status = complain("E-MEASURE: a process could not be started");
        else if (!WIFEXITED(code) || WEXITSTATUS(code) != 0)
            status = WIFEXITED(code) ? WEXITSTATUS(code) : EXIT_BUG;
    }
    if (status == EXIT_NO_CODE)
        return complain("E-MEASURE: --simulate needs ptxas and nvdisasm: it replays machine code");
    if (status == 0) {
        b->known = 0;
        b->done = b->n;
        read_lines(b, false);
    }
    return status;
}

static int
time_all(Bench *b)
{
    int status = 0;

    if (b->known > 0)
        fprintf(stderr, "%zu of %zu plans are in %s already\n", b->known, b->n, b->m->database);
    if (b->known == b->n)
        return 0;
    status = find_tilerun(b);
    if (status != 0)
        return status;
    if (b->m->asked->simulate)
        return simulate_all(b);
    status = find_gpu(b);
    return status != 0 ? status : time_some(b, 0, 1);
}

int
measure_plans(const Measuring *m)
{
    Bench b = {.m = m, .bar = bar_begin(m->asked->quiet)};
    int status = list_plans(&b);

    b.lines = !b.bar.on && !m->asked->quiet;
    if (status == 0) {
        if (!m->asked->again)
            read_lines(&b, true);
        status = time_all(&b);
    }
    bar_end(&b.bar);
    if (status == 0)
        print_table(&b);
    if (status == 0 && best_of(&b) == NULL)
        status = complain("E-MEASURE: none of the plans could be timed");
    for (size_t k = 0; k < b.n; k++) {
        free(b.entries[k].key);
        free(b.entries[k].kernel);
        free(b.entries[k].options);
        free(b.entries[k].plan);
        free(b.entries[k].failed);
    }
    free(b.entries);
    free(b.tilerun);
    return status;
}
