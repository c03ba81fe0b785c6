/* fuzz_tilec.c - any bytes into the compiler: it must give a status, and neither crash nor leak.
 *
 * The first byte chooses what is done with the rest: source text or tile IR, the level, the target,
 * how far to go, or a search for plans; and whether it is a tuning database, too.  With libFuzzer (cmake --preset fuzz) this is a fuzz target; with
 * -DREPLAY it is a program that mutates the files of its arguments itself, the same way every time:
 *
 *     fuzz_tilec_replay ROUNDS FILE..
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tilec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* At most 64 MiB: a program that asks for more is out of memory, not a hang. */
typedef struct Meter {
    size_t bytes;
} Meter;

static void *
meter_allocate(void *user, size_t bytes)
{
    Meter *meter = user;

    if (meter->bytes + bytes > 64u << 20)
        return NULL;
    meter->bytes += bytes;
    return malloc(bytes);
}

static void
meter_release(void *user, void *block)
{
    (void)user;
    free(block);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const archs[] = {"sm_80", "sm_90", "sm_100", "sm_90a"};
    static const TilecEmit emits[] = {TILEC_EMIT_AST, TILEC_EMIT_TIR, TILEC_EMIT_PTX,
                                      TILEC_EMIT_PTX};
    Meter meter = {0};
    TilecAllocator allocator = {meter_allocate, meter_release, &meter};
    TilecOptions options = tilec_default_options();
    TilecResult result;

    if (n == 0)
        return 0;
    options.level = (data[0] & 1) != 0 ? 3 : 0;
    options.emit = emits[data[0] >> 1 & 3];
    options.arch = archs[data[0] >> 3 & 3];
    options.allocator = &allocator;
    options.verify = true;
    options.remarks = true;
    const char *path = (data[0] & 128) != 0 ? "fuzz.tir" : "fuzz.tile";
    TilecSearch search = {.rows = 10, .json = (data[0] & 1) != 0};
    char *tuning = malloc(n); /* the same bytes once more: most lines are wrong */
    if (tuning != NULL) {
        memcpy(tuning, data + 1, n - 1);
        tuning[n - 1] = '\0';
    }
    options.tuning = (data[0] & 64) != 0 ? tuning : NULL;
    options.tuning_path = "fuzz.tuning";
    TilecStatus status =
        (data[0] & 32) != 0
            ? tilec_search(&options, &search, path, (const char *)data + 1, n - 1, &result)
            : tilec_compile(&options, path, (const char *)data + 1, n - 1, &result);
    free(tuning);
    if (status == TILEC_BUG) {
        fprintf(stderr, "%s", result.messages);
        abort();
    }
    tilec_result_free(&result);
    return 0;
}

#ifdef REPLAY

typedef struct Input {
    uint8_t *data;
    size_t n;
} Input;

static uint64_t
draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A word of the language in place of some bytes finds more than a random byte does. */
static const char *const words[] = {
    "for", "if", "let", "(", ")", "{", "}", "[", "]", ",", ";", "0", "1", "-1", "2147483647",
    "4294967296", "mma", "load", "store", "None", ":", "f32", "auto", ".T", "%0", "yield", "const",
    "\"", "/*", "//", "axis(9)", "1e999", "e", "\xff", "mask", "tiles", "as", "=", "==", "max",
};

static size_t
mutate(uint8_t *to, size_t room, const Input *from, const Input *other, uint64_t *state)
{
    size_t n = from->n < room ? from->n : room;

    memcpy(to, from->data, n);
    for (uint64_t k = 1 + draw(state) % 4; k > 0 && n > 2; k--) {
        size_t at = 1 + draw(state) % (n - 1), length = 1 + draw(state) % 12;
        const char *word = words[draw(state) % (sizeof words / sizeof words[0])];
        size_t m = strlen(word);
        switch (draw(state) % 5) {
        case 0:
            to[at] = (uint8_t)draw(state);
            break;
        case 1: /* cut */
            if (at + length < n) {
                memmove(to + at, to + at + length, n - at - length);
                n -= length;
            }
            break;
        case 2: /* insert */
            if (n + m <= room) {
                memmove(to + at + m, to + at, n - at);
                memcpy(to + at, word, m);
                n += m;
            }
            break;
        case 3: /* replace a word by another */
            if (at + m <= n)
                memcpy(to + at, word, m);
            break;
        default: /* a piece of another file */
            length *= 8;
            if (other->n > length + 1 && n + length <= room) {
                memmove(to + at + length, to + at, n - at);
                memcpy(to + at, other->data + draw(state) % (other->n - length), length);
                n += length;
            }
            break;
        }
    }
    return n;
}

/* The file behind the choosing byte; examples and golden files alike. */
static Input
read_input(const char *path)
{
    enum { CAP = 1 << 16 };
    Input input = {malloc(CAP), 1};
    FILE *file = fopen(path, "rb");
    size_t length = strlen(path);

    if (input.data == NULL || file == NULL) {
        fprintf(stderr, "can not read %s\n", path);
        exit(2);
    }
    input.data[0] = length > 4 && strcmp(path + length - 4, ".tir") == 0 ? 128 : 0;
    input.n += fread(input.data + 1, 1, CAP - 1, file);
    fclose(file);
    return input;
}

int
main(int argc, char **argv)
{
    enum { ROOM = 1 << 17 };
    uint64_t state = 88172645463325252u;
    uint8_t *data = malloc(ROOM);
    Input *inputs = calloc((size_t)argc, sizeof *inputs);
    int n_inputs = argc - 2;

    if (argc < 3 || data == NULL || inputs == NULL)
        return 2;
    for (int k = 0; k < n_inputs; k++)
        inputs[k] = read_input(argv[k + 2]);
    long rounds = strtol(argv[1], NULL, 10);
    for (long round = 0; round < rounds; round++) {
        const Input *from = &inputs[draw(&state) % (uint64_t)n_inputs];
        const Input *other = &inputs[draw(&state) % (uint64_t)n_inputs];
        size_t n = mutate(data, ROOM, from, other, &state);
        data[0] = (uint8_t)((data[0] & 128) | (draw(&state) & 127));
        /* what is about to run, should it crash */
        if (getenv("FUZZ_KEEP") != NULL) {
            FILE *file = fopen(getenv("FUZZ_KEEP"), "wb");
            if (file != NULL) {
                fwrite(data, 1, n, file);
                fclose(file);
            }
        }
        LLVMFuzzerTestOneInput(data, n);
    }
    for (int k = 0; k < n_inputs; k++)
        free(inputs[k].data);
    free(inputs);
    free(data);
    printf("%ld rounds\n", rounds);
    return 0;
}

#endif
