/* simrun_args.c - words of the command line to arguments (their forms: the head of simrun.c). */
#include "simrun_args.h"

#include <stdlib.h>
#include <string.h>

/* A value as it lies in parameter memory. */
typedef struct Value {
    uint8_t *bytes;
    size_t size;
    bool is_number; /* may be given for a narrower parameter */
} Value;

_Noreturn void
simrun_die(const char *what, const char *name)
{
    fprintf(stderr, "simrun: %s: %s\n", what, name);
    exit(1);
}

static void *
new_bytes(size_t size)
{
    void *p = calloc(1, size < 8 ? 8 : size);
    if (!p)
        simrun_die("out of memory", "arguments");
    return p;
}

char *
simrun_read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    size_t capacity = 1 << 16, used = 0, n;
    char *text = malloc(capacity);
    if (!f || !text)
        simrun_die("cannot read", path);
    while ((n = fread(text + used, 1, capacity - used, f)) > 0) {
        used += n;
        if (used == capacity && !(text = realloc(text, capacity *= 2)))
            simrun_die("out of memory", path);
    }
    fclose(f);
    *size = used;
    return text;
}

static const char *
after(const char *word, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(word, prefix, n) == 0 ? word + n : NULL;
}

/* ------------------------------------------------------------------------ buffers */

static Value
new_buffer(SimrunArgs *args, const char *name, size_t bytes, const void *content)
{
    Value v = {new_bytes(8), 8, true};
    uint64_t address = sim_alloc(args->dev, bytes, name);
    if (!address || args->buffer_count == SIMRUN_MAX_ARGS)
        simrun_die("no room for a buffer", name);
    if (content)
        sim_write(args->dev, address, content, bytes);
    args->buffer[args->buffer_count++] = address;
    memcpy(v.bytes, &address, sizeof address);
    return v;
}

static void
save_later(SimrunArgs *args, char *file, const Value *buffer, size_t bytes)
{
    SimrunSaved *s = &args->saved[args->saved_count++]; /* no more of them than buffers */
    *s = (SimrunSaved){.file = file, .bytes = bytes};
    memcpy(&s->address, buffer->bytes, sizeof s->address);
}

/* in:FILE inout:FILE out:FILE:BYTES zero:BYTES scratch:BYTES; no bytes if it is none of them. */
static Value
buffer_of(SimrunArgs *args, const char *word)
{
    Value v = {0};
    size_t bytes;
    const char *rest;
    bool both = after(word, "inout:") != NULL;
    if (both || after(word, "in:")) {
        rest = strchr(word, ':') + 1;
        char *content = simrun_read_whole(rest, &bytes);
        v = new_buffer(args, rest, bytes, content);
        free(content);
        if (both)
            save_later(args, strdup(rest), &v, bytes);
    } else if ((rest = after(word, "out:")) != NULL) {
        const char *last = strrchr(rest, ':');
        if (!last)
            simrun_die("out: needs FILE:BYTES", word);
        bytes = strtoull(last + 1, NULL, 0);
        char *file = strndup(rest, (size_t)(last - rest));
        v = new_buffer(args, file, bytes, NULL);
        save_later(args, file, &v, bytes);
    } else if (after(word, "zero:") || after(word, "scratch:")) {
        bytes = strtoull(strchr(word, ':') + 1, NULL, 0);
        v = new_buffer(args, word, bytes, NULL);
        if (*word == 'z')
            sim_fill(args->dev, args->buffer[args->buffer_count - 1], 0, bytes);
    }
    return v;
}

/* at:N+BYTES: into the N-th buffer that was made, from 0. */
static Value
place_in_buffer(const SimrunArgs *args, const char *word, const char *rest)
{
    Value v = {new_bytes(8), 8, true};
    char *end;
    size_t n = strtoull(rest, &end, 0);
    if (n >= args->buffer_count)
        simrun_die("there is no such buffer yet", word);
    uint64_t address = args->buffer[n] + (*end == '+' ? strtoull(end + 1, NULL, 0) : 0);
    memcpy(v.bytes, &address, sizeof address);
    return v;
}

/* ------------------------------------------------------------------------ tensor maps */

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

static Value value_of(SimrunArgs *args, const char *word);

static void
map_type(SimTensorMap *map, const char *name, uint32_t *element)
{
    static const char *const types[] = {"u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32",
                                        "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz"};
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    size_t length = strcspn(name, "+");
    for (uint32_t t = 0; t < sizeof types / sizeof *types; t++)
        if (strlen(types[t]) == length && strncmp(name, types[t], length) == 0) {
            map->type = t;
            *element = bytes[t];
        }
    if (!*element || (name[length] && strcmp(name + length, "+nan") != 0))
        simrun_die("unknown type of a map", name);
    map->fill = name[length] != '\0';
}

/* TYPE:SWIZZLE:SIZES:BOX:BUFFER */
static Value
map_of(SimrunArgs *args, const char *word, const char *fields)
{
    char *text = strdup(fields), *field[4], *rest = text;
    for (int i = 0; i < 4; i++) {
        field[i] = rest;
        char *colon = strchr(rest, ':');
        if (!colon)
            simrun_die("map: needs TYPE:SWIZZLE:SIZES:BOX:BUFFER", word);
        *colon = '\0';
        rest = colon + 1;
    }
    Value place = value_of(args, rest), v = {new_bytes(128), 128, false};
    SimTensorMap map = {0};
    uint64_t box[5], strides[5] = {0}, step[5] = {1, 1, 1, 1, 1};
    uint32_t element = 0;
    const char *more;
    memcpy(&map.address, place.bytes, sizeof map.address);
    free(place.bytes);
    map_type(&map, field[0], &element);
    long span = strtol(field[1], NULL, 0);
    map.swizzle = span == 32 ? 1 : span == 64 ? 2 : span == 128 ? 3 : 0;
    map.rank = sizes(field[2], map.size, &more);
    bool dense = *more != '@';
    if (!dense && sizes(more + 1, strides, &more) + 1 != map.rank)
        simrun_die("a map has a stride for each dimension but the first", word);
    if (sizes(field[3], box, &more) != map.rank)
        simrun_die("the box has another rank", word);
    if (*more == '/' && sizes(more + 1, step, &more) != map.rank)
        simrun_die("the steps have another rank", word);
    for (uint32_t i = 0; i < map.rank; i++) {
        map.box[i] = (uint32_t)box[i];
        map.element_stride[i] = (uint32_t)step[i];
        if (i + 1 < map.rank)
            map.stride[i] = !dense ? strides[i]
                                   : (i ? map.stride[i - 1] : element) * map.size[i];
    }
    SimError error;
    if (!sim_tensor_map_encode(&map, v.bytes, &error))
        simrun_die(error.message, word);
    free(text);
    return v;
}

/* ------------------------------------------------------------------------ values */

static bool
number_of(const char *word, Value *v)
{
    static const struct {
        const char *prefix;
        uint8_t size;
        bool is_float;
    } kinds[] = {{"u8:", 1, false}, {"s8:", 1, false}, {"u16:", 2, false}, {"s16:", 2, false},
                 {"u32:", 4, false}, {"s32:", 4, false}, {"u64:", 8, false}, {"s64:", 8, false},
                 {"f32:", 4, true}, {"f64:", 8, true}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *rest = after(word, kinds[i].prefix);
        if (!rest)
            continue;
        *v = (Value){new_bytes(8), kinds[i].size, true};
        char *end = NULL;
        if (kinds[i].is_float) {
            double d = strtod(rest, &end);
            float f = strtof(rest, NULL);
            memcpy(v->bytes, kinds[i].size == 8 ? (void *)&d : (void *)&f, kinds[i].size);
        } else {
            uint64_t n = *rest == '-' ? (uint64_t)strtoll(rest, &end, 0) : strtoull(rest, &end, 0);
            memcpy(v->bytes, &n, sizeof n);
        }
        if (end == rest || *end)
            simrun_die("not a number", word);
        return true;
    }
    return false;
}

static Value
value_of(SimrunArgs *args, const char *word)
{
    const char *rest;
    Value v = {0};
    if (number_of(word, &v))
        return v;
    if (strcmp(word, "null") == 0)
        return (Value){new_bytes(8), 8, true};
    if ((rest = after(word, "at:")) != NULL)
        return place_in_buffer(args, word, rest);
    if ((rest = after(word, "map:")) != NULL)
        return map_of(args, word, rest);
    if ((rest = after(word, "bytes:")) != NULL) {
        v.bytes = (uint8_t *)simrun_read_whole(rest, &v.size);
        return v;
    }
    v = buffer_of(args, word);
    if (!v.bytes)
        simrun_die("unknown argument", word);
    return v;
}

/* struct:SIZE or mem:SIZE and its fields, @OFFSET=ARG each; returns the words taken. */
static size_t
structure_of(SimrunArgs *args, const char *const *word, size_t count, Value *v)
{
    bool in_memory = after(word[0], "mem:") != NULL;
    size_t n = 1, size = strtoull(strchr(word[0], ':') + 1, NULL, 0);
    uint8_t *bytes = new_bytes(size);
    for (; n < count && word[n][0] == '@'; n++) {
        char *end;
        size_t offset = strtoull(word[n] + 1, &end, 0);
        if (*end != '=')
            simrun_die("@OFFSET=ARG is expected", word[n]);
        Value field = value_of(args, end + 1);
        if (offset > size || field.size > size - offset)
            simrun_die("the field does not fit", word[n]);
        memcpy(bytes + offset, field.bytes, field.size);
        free(field.bytes);
    }
    if (in_memory) {
        *v = new_buffer(args, word[0], size, bytes);
        free(bytes);
    } else {
        *v = (Value){bytes, size, false};
    }
    return n;
}

void
simrun_make_args(SimrunArgs *args, SimDevice *dev, const SimEntry *entry, const char *const *word,
                 size_t count)
{
    memset(args, 0, sizeof *args);
    args->dev = dev;
    for (size_t i = 0; i < count; args->count++) {
        Value v;
        bool fields = after(word[i], "struct:") || after(word[i], "mem:");
        size_t taken = fields ? structure_of(args, word + i, count - i, &v) : 1;
        if (!fields)
            v = value_of(args, word[i]);
        if (entry && args->count < entry->param_count) {
            size_t want = entry->params[args->count].size;
            if (v.is_number ? want > 8 : want != v.size) {
                char text[160];
                snprintf(text, sizeof text, "the parameter '%.80s' has %zu bytes, its argument %zu",
                         entry->params[args->count].name, want, v.size);
                simrun_die(text, word[i]);
            }
        }
        args->value[args->count] = v.bytes;
        i += taken;
    }
}

void
simrun_save(const SimrunArgs *args)
{
    for (size_t i = 0; i < args->saved_count; i++) {
        const SimrunSaved *s = &args->saved[i];
        char *content = malloc(s->bytes ? s->bytes : 1);
        FILE *f = fopen(s->file, "wb");
        if (!f || !content || !sim_read(args->dev, s->address, content, s->bytes) ||
            fwrite(content, 1, s->bytes, f) != s->bytes)
            simrun_die("cannot write", s->file);
        fclose(f);
        free(content);
    }
}

void
simrun_free_args(SimrunArgs *args)
{
    for (size_t i = 0; i < args->count; i++)
        free(args->value[i]);
    for (size_t i = 0; i < args->saved_count; i++)
        free(args->saved[i].file);
}
