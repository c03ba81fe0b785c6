/* fuzz_run.c - a program for the reference interpreter, on small arrays.
 *
 * Two bytes choose the order of the programs, tolerances and sizes.  What the program's tensors and
 * scalars are called is looked for in its text: `NAME: in TYPE[..]` gets an array.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tilec.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_ARRAYS = 16, ROOM = 64, MOST_ELEMENTS = 4096, WORK = 300000 };

const size_t fuzz_choices = 2;

void
fuzz_choose(const char *path, uint64_t draw, uint8_t *choice)
{
    (void)path;
    choice[0] = (uint8_t)draw;
    choice[1] = (uint8_t)(draw >> 8);
}

typedef struct Names {
    char text[3 * MOST_ARRAYS][ROOM];
    TilecArray inputs[MOST_ARRAYS];
    const char *outputs[MOST_ARRAYS];
    TilecDefine sets[MOST_ARRAYS];
    size_t n_text, n_inputs, n_outputs, n_sets;
} Names;

/* The word that begins at `at`; NULL when there is none, or no room. */
static const char *
take_word(Names *names, const char *at)
{
    size_t n = 0;

    at += strspn(at, " \t\n");
    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    if (n == 0 || n >= ROOM || names->n_text == sizeof names->text / ROOM)
        return NULL;
    char *word = names->text[names->n_text++];
    memcpy(word, at, n);
    word[n] = '\0';
    return word;
}

/* The word that ends before the colon at `at`. */
static const char *
word_before(Names *names, const char *text, const char *at)
{
    while (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
        at--;
    return take_word(names, at);
}

static bool
set_type(Names *names, const char *text, const char *type, TilecArray *array)
{
    static const struct {
        const char *name;
        char kind;
        uint32_t bytes;
    } types[] = {{"f16", 'f', 2},  {"bf16", 'u', 2}, {"f32", 'f', 4},
                 {"tf32", 'f', 4}, {"i32", 'i', 4},  {"bool", 'b', 1}};
    char wanted[ROOM + 16];

    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        if (strcmp(types[k].name, type) != 0)
            continue;
        array->kind = types[k].kind;
        array->bytes = types[k].bytes;
        return true;
    }
    snprintf(wanted, sizeof wanted, "%s: type = ", type); /* a parameter */
    const char *at = strstr(text, wanted);
    const char *real = at == NULL ? NULL : take_word(names, at + strlen(wanted));
    return real != NULL && strcmp(real, type) != 0 && set_type(names, text, real, array);
}

/* From "[M, 64]"; a name is as long as its first letter says. */
static bool
set_shape(const char *at, uint8_t choice, TilecArray *array)
{
    size_t elements = 1;

    for (at += strspn(at, " "); *at == '[' || *at == ',';) {
        at += 1 + strspn(at + 1, " ");
        char *end;
        int64_t extent = strtol(at, &end, 10);
        if (end == at)
            extent = (unsigned char)*at % 7 * (choice & 7) + (choice >> 3 & 15);
        at = end;
        while (isalnum((unsigned char)*at) || *at == '_')
            at++;
        if (extent < 0 || extent > MOST_ELEMENTS || array->rank == TILEC_MAX_RANK)
            return false;
        array->shape[array->rank++] = extent;
        elements *= (size_t)extent;
        if (elements > MOST_ELEMENTS)
            return false;
    }
    array->total = elements * array->bytes;
    return true;
}

static void
find_names(Names *names, const char *text, uint8_t choice, const uint8_t *data)
{
    for (const char *at = strchr(text, ':'); at != NULL; at = strchr(at + 1, ':')) {
        const char *behind = at + 1 + strspn(at + 1, " ");
        const char *name = word_before(names, text, at), *mode = take_word(names, behind);
        if (name == NULL || mode == NULL)
            continue;
        bool in = strcmp(mode, "in") == 0, both = strcmp(mode, "inout") == 0;
        if ((strcmp(mode, "f32") == 0 || strcmp(mode, "i32") == 0) && names->n_sets < MOST_ARRAYS)
            names->sets[names->n_sets++] = (TilecDefine){name, "1"};
        if ((both || strcmp(mode, "out") == 0) && names->n_outputs < MOST_ARRAYS)
            names->outputs[names->n_outputs++] = name;
        if ((!in && !both) || names->n_inputs == MOST_ARRAYS)
            continue;
        TilecArray *array = &names->inputs[names->n_inputs];
        *array = (TilecArray){.name = name, .data = data};
        behind += strlen(mode);
        behind += strspn(behind, " ");
        const char *type = take_word(names, behind);
        if (type != NULL && set_type(names, text, type, array) &&
            set_shape(behind + strlen(type), choice, array))
            names->n_inputs++;
    }
}

static void
ignore(void *user, const char *text, size_t n)
{
    (void)user;
    (void)text;
    (void)n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    Meter meter = {0, 256u << 20};
    TilecAllocator allocator = {meter_allocate, meter_release, &meter};
    TilecOptions options = tilec_default_options();
    TilecRunResult result;

    if (n < fuzz_choices)
        return 0;
    Names *names = calloc(1, sizeof *names);
    uint8_t *numbers = calloc(4, MOST_ELEMENTS);
    char *text = calloc(n, 1);
    if (names != NULL && numbers != NULL && text != NULL) {
        memcpy(text, data + fuzz_choices, n - fuzz_choices);
        for (size_t k = 0; k < 4 * MOST_ELEMENTS; k++)
            numbers[k] = (uint8_t)(k % 4 == 3 ? 0x3e : k % 2 == 1 ? 0x3c : k / 16 & 1);
        find_names(names, text, data[1], numbers);
        options.allocator = &allocator;
        TilecRun run = {.inputs = names->inputs,
                        .n_inputs = names->n_inputs,
                        .sets = names->sets,
                        .n_sets = names->n_sets,
                        .outputs = names->outputs,
                        .n_outputs = names->n_outputs,
                        .tolerance = (data[0] & 1) != 0,
                        .seed = data[0] >> 1 & 3,
                        .nan = (TilecNan)(data[0] >> 3 & 1),
                        .work_limit = WORK,
                        .print = ignore};
        tilec_run(&options, &run, "fuzz.tile", text, n - fuzz_choices, &result);
        tilec_run_free(&result);
    }
    free(text);
    free(numbers);
    free(names);
    return 0;
}
