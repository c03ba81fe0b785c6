/* launch_args.c - the arguments of a launch, from words on a command line. */
#include "launch_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
launch_args_fail(LaunchArgs *args, const char *what, const char *word)
{
    snprintf(args->error, sizeof args->error, "%s: %s", what, word);
    return false;
}

static const char *
after(const char *word, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(word, prefix, n) == 0 ? word + n : NULL;
}

static char *
copy_of(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

/* A word on the way to a value: its bytes, and what has to be filled in at their begin. */
typedef enum Needs { NOTHING, AN_ADDRESS, A_MAP } Needs;
typedef struct Part {
    LaunchValue value;
    Needs needs;
    size_t buffer;
    uint64_t plus;
    LaunchMap map;
} Part;

static bool
new_value(LaunchArgs *args, size_t size, bool is_number, LaunchValue *v)
{
    *v = (LaunchValue){calloc(1, size < 8 ? 8 : size), size, is_number};
    return v->bytes || launch_args_fail(args, "out of memory", "arguments");
}

static bool
read_file(LaunchArgs *args, const char *path, uint8_t **bytes, size_t *size)
{
    FILE *f = fopen(path, "rb");
    size_t capacity = 1 << 16, used = 0, n;
    uint8_t *text = f ? malloc(capacity) : NULL;
    while (text && (n = fread(text + used, 1, capacity - used, f)) > 0) {
        used += n;
        if (used < capacity)
            continue;
        uint8_t *bigger = realloc(text, capacity *= 2);
        if (!bigger)
            free(text);
        text = bigger;
    }
    if (f)
        fclose(f);
    *bytes = text;
    *size = used;
    return text || launch_args_fail(args, "cannot read", path);
}

/* ------------------------------------------------------------------------ buffers */

bool
launch_args_buffer(LaunchArgs *args, const char *name, size_t bytes, const void *content,
                   const char *output, size_t *index)
{
    if (args->buffer_count == LAUNCH_ARGS_MOST)
        return launch_args_fail(args, "too many buffers", name);
    LaunchBuffer *b = &args->buffer[args->buffer_count];
    *b = (LaunchBuffer){.name = copy_of(name, strlen(name)),
                        .bytes = bytes,
                        .content = content ? malloc(bytes ? bytes : 1) : NULL,
                        .output = output ? copy_of(output, strlen(output)) : NULL};
    *index = args->buffer_count++; /* counts from here on, for launch_args_free */
    if (!b->name || (content && !b->content) || (output && !b->output))
        return launch_args_fail(args, "out of memory", name);
    if (content)
        memcpy(b->content, content, bytes);
    return true;
}

/* The word after its last colon. */
static bool
byte_count(LaunchArgs *args, const char *word, const char *text, size_t *bytes)
{
    char *end;
    *bytes = strtoull(text, &end, 0);
    return (end != text && !*end) || launch_args_fail(args, "not a number of bytes", word);
}

/* in:FILE inout:FILE out:FILE:BYTES zero:BYTES scratch:BYTES; *known tells whether it is one. */
static bool
buffer_of(LaunchArgs *args, const char *word, bool *known, size_t *index)
{
    const char *rest;
    size_t bytes;
    uint8_t *content = NULL;
    bool both = after(word, "inout:") != NULL, ok;
    *known = true;
    if (both || after(word, "in:")) {
        rest = strchr(word, ':') + 1;
        if (!read_file(args, rest, &content, &bytes))
            return false;
        ok = launch_args_buffer(args, rest, bytes, content, both ? rest : NULL, index);
        free(content);
        return ok;
    }
    if ((rest = after(word, "out:")) != NULL) {
        const char *last = strrchr(rest, ':');
        if (!last)
            return launch_args_fail(args, "out: needs FILE:BYTES", word);
        char *file = copy_of(rest, (size_t)(last - rest));
        if (!file)
            return launch_args_fail(args, "out of memory", word);
        ok = byte_count(args, word, last + 1, &bytes) &&
             launch_args_buffer(args, file, bytes, NULL, file, index);
        free(file);
        return ok;
    }
    bool zeros = after(word, "zero:") != NULL;
    if (!zeros && !after(word, "scratch:")) {
        *known = false;
        return true;
    }
    if (!byte_count(args, word, strchr(word, ':') + 1, &bytes))
        return false;
    if (zeros && !(content = calloc(1, bytes ? bytes : 1)))
        return launch_args_fail(args, "out of memory", word);
    ok = launch_args_buffer(args, word, bytes, content, NULL, index);
    free(content);
    return ok;
}

static bool
address_of(LaunchArgs *args, size_t buffer, uint64_t plus, Part *part)
{
    *part = (Part){.needs = AN_ADDRESS, .buffer = buffer, .plus = plus};
    return new_value(args, 8, true, &part->value);
}

/* at:N+BYTES: into the N-th buffer that was made, from 0. */
static bool
place_in_buffer(LaunchArgs *args, const char *word, const char *rest, Part *part)
{
    char *end;
    size_t n = strtoull(rest, &end, 0);
    if (n >= args->buffer_count)
        return launch_args_fail(args, "there is no such buffer yet", word);
    return address_of(args, n, *end == '+' ? strtoull(end + 1, NULL, 0) : 0, part);
}

/* ------------------------------------------------------------------------ tensor maps */

static bool part_of(LaunchArgs *args, const char *word, Part *part);

/* "64x128" to numbers; returns how many. */
static uint32_t
sizes(const char *text, uint64_t out[5], const char **rest)
{
    uint32_t n = 0;
    for (char *end; n < 5; text = end + 1) {
        out[n++] = strtoull(text, &end, 0);
        *rest = end;
        if (*end != 'x')
            break;
    }
    return n;
}

static bool
map_type(LaunchArgs *args, LaunchMap *map, const char *name, uint32_t *bits)
{
    static const char *const types[] = {
        "u8",  "u16",  "u32",     "s32",  "u64",      "s64",    "f16",     "f32",
        "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz", "16u4_8", "16u4_16", "16u6_16"};
    static const uint8_t bits_of[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
    size_t length = strcspn(name, "+");
    *bits = 0;
    for (uint32_t t = 0; t < sizeof types / sizeof *types; t++)
        if (strlen(types[t]) == length && strncmp(name, types[t], length) == 0) {
            map->type = t;
            *bits = bits_of[t];
        }
    if (!*bits || (name[length] && strcmp(name + length, "+nan") != 0))
        return launch_args_fail(args, "unknown type of a map", name);
    map->fill = name[length] != '\0';
    return true;
}

/* ^-1x-1^0x0 behind the box of an im2col map: the corners of the box of pixels; ^w^-1^0 and
 * ^w128^-1^0 behind that of one for im2col::w and im2col::w::128. */
static bool
map_corners(LaunchArgs *args, const char *word, LaunchMap *map, const char **more)
{
    uint32_t dimensions = map->rank < 3 ? 0 : map->rank - 2u;
    map->im2col = 1;
    for (uint8_t wide = 2; wide < 4; wide++) {
        const char *mode = wide == 2 ? "^w^" : "^w128^";
        if (strncmp(*more, mode, strlen(mode)) == 0) {
            *more += strlen(mode) - 1;
            map->im2col = wide;
            dimensions = 1;
            break;
        }
    }
    for (int which = 0; which < 2; which++) {
        int32_t *corner = which ? map->upper : map->lower;
        for (uint32_t i = 0; i < dimensions; i++) {
            char *end;
            if (**more != (i ? 'x' : '^'))
                return launch_args_fail(args, "an im2col map has two corners of its pixels", word);
            corner[i] = (int32_t)strtol(*more + 1, &end, 10);
            *more = end;
        }
    }
    return true;
}

static bool
map_shape(LaunchArgs *args, const char *word, char *const field[4], LaunchMap *map)
{
    uint64_t box[5], strides[5] = {0}, step[5] = {1, 1, 1, 1, 1};
    uint32_t bits;
    const char *more;
    if (!map_type(args, map, field[0], &bits))
        return false;
    long span = strtol(field[1], NULL, 0);
    map->swizzle = span == 32 ? 1 : span == 64 ? 2 : span == 128 ? 3 : 0;
    map->rank = sizes(field[2], map->size, &more);
    bool dense = *more != '@';
    if (!dense && sizes(more + 1, strides, &more) + 1 != map->rank)
        return launch_args_fail(args, "a map has a stride for each dimension but the first", word);
    uint32_t boxes = sizes(field[3], box, &more);
    if (*more == '^' && boxes == 2) { /* channels, pixels */
        if (!map_corners(args, word, map, &more))
            return false;
        for (; boxes < map->rank && boxes < 5; boxes++)
            box[boxes] = 1;
    }
    if (boxes != map->rank)
        return launch_args_fail(args, "the box has another rank", word);
    if (*more == '/' && sizes(more + 1, step, &more) != map->rank)
        return launch_args_fail(args, "the steps have another rank", word);
    for (uint32_t i = 0; i < map->rank; i++) {
        map->box[i] = (uint32_t)box[i];
        map->step[i] = (uint32_t)step[i];
        if (i + 1 < map->rank)
            map->stride[i] = !dense ? strides[i]
                             : i    ? map->stride[i - 1] * map->size[i]
                                    : map->size[i] * bits / 8;
    }
    return true;
}

/* TYPE:SWIZZLE:SIZES:BOX:BUFFER */
static bool
map_of(LaunchArgs *args, const char *word, const char *fields, Part *part)
{
    char *text = copy_of(fields, strlen(fields)), *field[4], *rest = text;
    Part tensor = {.needs = NOTHING};
    for (int i = 0; rest && i < 4; i++) {
        field[i] = rest;
        rest = strchr(rest, ':');
        if (rest)
            *rest++ = '\0';
    }
    *part = (Part){.needs = A_MAP};
    bool ok = rest ? map_shape(args, word, field, &part->map) && part_of(args, rest, &tensor)
                   : launch_args_fail(args, "map: needs TYPE:SWIZZLE:SIZES:BOX:BUFFER", word);
    free(tensor.value.bytes);
    free(text);
    part->map.in_buffer = tensor.needs == AN_ADDRESS;
    part->map.buffer = tensor.buffer;
    part->map.plus = tensor.plus;
    return ok && new_value(args, LAUNCH_ARGS_MAP, false, &part->value);
}

/* ------------------------------------------------------------------------ values */

typedef struct NumberKind {
    const char *prefix;
    uint8_t size;
    bool is_float;
} NumberKind;

static const NumberKind *
number_kind(const char *word, const char **rest)
{
    static const NumberKind kinds[] = {{"u8:", 1, false},  {"s8:", 1, false},  {"u16:", 2, false},
                                       {"s16:", 2, false}, {"u32:", 4, false}, {"s32:", 4, false},
                                       {"u64:", 8, false}, {"s64:", 8, false}, {"f32:", 4, true},
                                       {"f64:", 8, true}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((*rest = after(word, kinds[i].prefix)) != NULL)
            return &kinds[i];
    return NULL;
}

static bool
number_of(LaunchArgs *args, const NumberKind *kind, const char *word, const char *text, Part *part)
{
    char *end = NULL;
    *part = (Part){.needs = NOTHING};
    if (!new_value(args, kind->size, true, &part->value))
        return false;
    if (kind->is_float) {
        double d = strtod(text, &end);
        float f = strtof(text, NULL);
        memcpy(part->value.bytes, kind->size == 8 ? (void *)&d : (void *)&f, kind->size);
    } else {
        uint64_t n = *text == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
        memcpy(part->value.bytes, &n, sizeof n);
    }
    return (end != text && !*end) || launch_args_fail(args, "not a number", word);
}

/* One word.  On failure the value's bytes may be there already: the caller frees them. */
static bool
part_of(LaunchArgs *args, const char *word, Part *part)
{
    const char *rest;
    size_t buffer = SIZE_MAX;
    bool known = false;
    *part = (Part){.needs = NOTHING};
    if (args->other) {
        if (!args->other(args, word, &buffer))
            return false;
        if (buffer != SIZE_MAX)
            return address_of(args, buffer, 0, part);
    }
    const NumberKind *kind = number_kind(word, &rest);
    if (kind)
        return number_of(args, kind, word, rest, part);
    if (strcmp(word, "null") == 0)
        return new_value(args, 8, true, &part->value);
    if ((rest = after(word, "at:")) != NULL)
        return place_in_buffer(args, word, rest, part);
    if ((rest = after(word, "map:")) != NULL)
        return map_of(args, word, rest, part);
    if ((rest = after(word, "bytes:")) != NULL)
        return read_file(args, rest, &part->value.bytes, &part->value.size);
    if (!buffer_of(args, word, &known, &buffer))
        return false;
    return known ? address_of(args, buffer, 0, part)
                 : launch_args_fail(args, "unknown argument", word);
}

/* Notes what has to be filled in for a part that lies at a place. */
static bool
note(LaunchArgs *args, const char *word, const Part *part, LaunchPlace at)
{
    if (args->address_count == LAUNCH_ARGS_MOST || args->map_count == LAUNCH_ARGS_MOST)
        return launch_args_fail(args, "too many arguments", word);
    if (part->needs == AN_ADDRESS)
        args->address[args->address_count++] = (LaunchAddress){at, part->buffer, part->plus};
    if (part->needs == A_MAP) {
        args->map[args->map_count] = part->map;
        args->map[args->map_count++].at = at;
    }
    return true;
}

/* @OFFSET=ARG of a structure. */
static bool
field_of(LaunchArgs *args, const char *word, LaunchPlace at, uint8_t *bytes, size_t size)
{
    char *end;
    size_t offset = strtoull(word + 1, &end, 0);
    if (*end != '=')
        return launch_args_fail(args, "@OFFSET=ARG is expected", word);
    Part part;
    bool ok = part_of(args, end + 1, &part);
    if (ok && (offset > size || part.value.size > size - offset))
        ok = launch_args_fail(args, "the field does not fit", word);
    if (ok)
        memcpy(bytes + offset, part.value.bytes, part.value.size);
    free(part.value.bytes);
    at.offset = offset;
    return ok && note(args, word, &part, at);
}

/* struct:SIZE or mem:SIZE and its fields; *taken: the words. */
static bool
structure_of(LaunchArgs *args, const char *const *word, size_t count, size_t *taken, LaunchValue *v)
{
    bool in_memory = after(word[0], "mem:") != NULL;
    size_t size, buffer = 0;
    LaunchPlace at = {.in_buffer = in_memory, .index = args->value_count};
    Part whole = {.needs = NOTHING};
    uint8_t *bytes;
    if (!byte_count(args, word[0], strchr(word[0], ':') + 1, &size))
        return false;
    if (in_memory) {
        uint8_t *zeros = calloc(1, size ? size : 1);
        bool ok = zeros ? launch_args_buffer(args, word[0], size, zeros, NULL, &buffer)
                        : launch_args_fail(args, "out of memory", word[0]);
        free(zeros);
        if (!ok || !address_of(args, buffer, 0, &whole))
            return false;
        at.index = buffer;
        bytes = args->buffer[buffer].content;
    } else {
        if (!new_value(args, size, false, &whole.value))
            return false;
        bytes = whole.value.bytes;
    }
    *v = whole.value;
    for (*taken = 1; *taken < count && word[*taken][0] == '@'; ++*taken)
        if (!field_of(args, word[*taken], at, bytes, size))
            return false;
    return note(args, word[0], &whole, (LaunchPlace){false, args->value_count, 0});
}

bool
launch_args_read(LaunchArgs *args, const char *const *word, size_t count)
{
    for (size_t i = 0, taken; i < count; i += taken) {
        if (args->value_count == LAUNCH_ARGS_MOST)
            return launch_args_fail(args, "too many arguments", word[i]);
        LaunchValue *v = &args->value[args->value_count];
        bool ok;
        taken = 1;
        if (after(word[i], "struct:") || after(word[i], "mem:")) {
            ok = structure_of(args, word + i, count - i, &taken, v);
        } else {
            Part part;
            ok = part_of(args, word[i], &part);
            *v = part.value;
            ok = ok && note(args, word[i], &part, (LaunchPlace){false, args->value_count, 0});
        }
        args->value_count++; /* also after an error, for launch_args_free */
        if (!ok)
            return false;
    }
    return true;
}

uint8_t *
launch_args_at(LaunchArgs *args, LaunchPlace place)
{
    return (place.in_buffer ? args->buffer[place.index].content : args->value[place.index].bytes) +
           place.offset;
}

bool
launch_args_fits(LaunchArgs *args, size_t value, size_t bytes, const char *name)
{
    const LaunchValue *v = &args->value[value];
    if (v->is_number ? bytes <= 8 : bytes == v->size)
        return true;
    snprintf(args->error, sizeof args->error,
             "the parameter '%.200s' has %zu bytes, its argument %zu", name, bytes, v->size);
    return false;
}

void
launch_args_free(LaunchArgs *args)
{
    for (size_t i = 0; i < args->value_count; i++)
        free(args->value[i].bytes);
    for (size_t i = 0; i < args->buffer_count; i++) {
        free(args->buffer[i].name);
        free(args->buffer[i].content);
        free(args->buffer[i].output);
    }
    args->value_count = args->buffer_count = 0;
}
