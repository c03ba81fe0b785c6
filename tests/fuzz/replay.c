/* replay.c - a fuzz target without libFuzzer: the same mutations every time.
 *
 *     fuzz_NAME_replay ROUNDS WORDS.dict FILE..    mutates the files
 *     fuzz_NAME_replay --inputs FILE..             whole inputs, as libFuzzer writes them
 *     fuzz_NAME_replay --seeds FOLDER FILE..       writes inputs for libFuzzer: the files with choices
 *
 * A folder stands for the files in it.  With FUZZ_KEEP=FILE in the environment the input that is
 * about to run lies there.
 */
#define _POSIX_C_SOURCE 200809L /* scandir */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/base/bar.h"
#include "tests/fuzz/fuzz.h"

enum { ROOM = 1 << 17, MOST_WORDS = 1024, SEEDS_OF_A_FILE = 8 };

typedef struct Input {
    uint8_t *data;
    size_t n;
    char *path;
} Input;

typedef struct Inputs {
    Input *at;
    size_t n;
} Inputs;

static void
die(const char *what, const char *path)
{
    fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
    exit(2);
}

/* The file behind `front` bytes. */
static void
add_file(Inputs *inputs, const char *path, size_t front)
{
    Input input = {calloc(ROOM, 1), front, malloc(strlen(path) + 1)};
    Input *grown = realloc(inputs->at, (inputs->n + 1) * sizeof *grown);
    FILE *file = fopen(path, "rb");

    if (input.data == NULL || input.path == NULL || grown == NULL || file == NULL)
        die("can not read", path);
    strcpy(input.path, path);
    input.n += fread(input.data + front, 1, ROOM / 2 - front, file);
    fclose(file);
    inputs->at = grown;
    inputs->at[inputs->n++] = input;
}

static int
is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* A file, or those of a folder by their names. */
static void
add_inputs(Inputs *inputs, const char *path, size_t front)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_shown, alphasort);

    if (n < 0) {
        add_file(inputs, path, front);
        return;
    }
    for (int k = 0; k < n; k++) {
        char full[4096];
        snprintf(full, sizeof full, "%s/%s", path, entries[k]->d_name);
        add_inputs(inputs, full, front);
        free(entries[k]);
    }
    free(entries);
}

/* The words of a dictionary of libFuzzer: lines of "text", with \xAB, \\ and \" in them. */
static size_t
read_words(const char *path, char **words)
{
    FILE *file = fopen(path, "r");
    char line[256];
    size_t n = 0;

    if (file == NULL)
        die("can not read", path);
    while (n < MOST_WORDS && fgets(line, sizeof line, file) != NULL) {
        char *from = line[0] == '#' ? NULL : strchr(line, '"'), *to = line;
        if (from == NULL)
            continue;
        for (from++; *from != '"' && *from != '\0'; from++) {
            unsigned code;
            if (from[0] == '\\' && from[1] == 'x' && sscanf(from + 2, "%2x", &code) == 1) {
                *to++ = (char)code;
                from += 3;
            } else {
                from += *from == '\\';
                *to++ = *from;
            }
        }
        *to = '\0';
        words[n] = malloc(strlen(line) + 1);
        if (words[n] != NULL)
            strcpy(words[n++], line);
    }
    fclose(file);
    return n;
}

static void
write_input(const char *path, const uint8_t *data, size_t n)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(data, 1, n, file) != n || fclose(file) != 0)
        die("can not write", path);
}

static void
run(const uint8_t *data, size_t n)
{
    uint8_t *exact = malloc(n == 0 ? 1 : n); /* so that a read behind the end is found */

    if (exact == NULL)
        return;
    memcpy(exact, data, n);
    if (getenv("FUZZ_KEEP") != NULL)
        write_input(getenv("FUZZ_KEEP"), data, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

static void
mutate_all(long rounds, const char *dictionary, const Inputs *inputs)
{
    uint64_t state = 88172645463325252u;
    char *words[MOST_WORDS];
    size_t n_words = read_words(dictionary, words);
    uint8_t *data = malloc(ROOM);

    Bar bar = bar_begin(false);
    for (long round = 0; data != NULL && round < rounds; round++) {
        bar_show(&bar, (uint64_t)round, (uint64_t)rounds, " inputs");
        const Input *from = &inputs->at[fuzz_draw(&state) % inputs->n];
        const Input *other = &inputs->at[fuzz_draw(&state) % inputs->n];
        memcpy(data, from->data, from->n);
        fuzz_choose(from->path, fuzz_draw(&state), data);
        size_t n = fuzz_mutate(data, from->n, ROOM, other->data, other->n,
                               (const char *const *)words, n_words, &state);
        run(data, n);
    }
    bar_end(&bar);
    free(data);
    while (n_words > 0)
        free(words[--n_words]);
    printf("%ld rounds\n", rounds);
}

static void
write_seeds(const char *folder, const Inputs *inputs)
{
    uint64_t state = 88172645463325252u;
    char path[4096];

    mkdir(folder, 0777);
    for (size_t k = 0; k < inputs->n; k++) {
        Input *input = &inputs->at[k];
        for (int seed = 0; seed < (fuzz_choices > 0 ? SEEDS_OF_A_FILE : 1); seed++) {
            const char *slash = strrchr(input->path, '/');
            snprintf(path, sizeof path, "%s/%zu-%d-%s", folder, k, seed,
                     slash == NULL ? input->path : slash + 1);
            fuzz_choose(input->path, fuzz_draw(&state), input->data);
            write_input(path, input->data, input->n);
        }
    }
}

int
main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    bool whole = strcmp(argv[1], "--inputs") == 0;
    Inputs inputs = {0};

    for (int k = whole ? 2 : 3; k < argc; k++)
        add_inputs(&inputs, argv[k], whole ? 0 : fuzz_choices);
    if (whole) {
        for (size_t k = 0; k < inputs.n; k++)
            run(inputs.at[k].data, inputs.at[k].n);
        printf("%zu inputs\n", inputs.n);
    } else if (strcmp(argv[1], "--seeds") == 0) {
        write_seeds(argv[2], &inputs);
    } else if (inputs.n > 0) {
        mutate_all(strtol(argv[1], NULL, 10), argv[2], &inputs);
    }
    for (size_t k = 0; k < inputs.n; k++) {
        free(inputs.at[k].data);
        free(inputs.at[k].path);
    }
    free(inputs.at);
    return 0;
}
