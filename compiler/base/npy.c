/* npy.c - see npy.h. */
#include "compiler/base/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/dtype.h"
#include "compiler/base/whole_file.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

bool
npy_type_of(const char *dtype, char *kind, uint32_t *bytes)
{
    DType type;

    if (!dtype_parse(dtype, &type))
        return false;
    *kind = dtype_npy(type);
    *bytes = dtype_bits(type) / 8;
    return true;
}

const char *
npy_types(Arena *arena)
{
    const char *names = dtype_name(0);

    for (int k = 1; k < DT_COUNT; k++)
        names = arena_printf(arena, "%s, %s", names, dtype_name((DType)k));
    return names;
}

static const char *
word_of(char kind)
{
    return kind == 'f'   ? "float"
           : kind == 'i' ? "int"
           : kind == 'u' ? "uint"
           : kind == 'b' ? "bool"
                         : "void";
}

const char *
npy_type_name(Arena *arena, const NpyArray *array)
{
    const char *word = word_of(array->kind);

    return array->kind == 'b' ? word
                              : arena_printf(arena, "%s%u", word, (unsigned)array->bytes * 8);
}

/* The text after `'key':` in the header, NULL when it is not there. */
static const char *
find_key(const char *header, const char *key)
{
    const char *at = strstr(header, key);

    if (!at)
        return NULL;
    at += strlen(key);
    at += strspn(at, " :");
    return at;
}

/* '<f4' and the like. */
static bool
unknown_type(const char *path, const char *type, int length, Fault *fault)
{
    char types[200] = "";
    size_t n = 0;

    for (int k = 0; k < DT_COUNT; k++) {
        char kind = dtype_npy((DType)k);
        bool bits = (kind == 'f') != dtype_is_float((DType)k);
        if (dtype_has((DType)k, USE_TENSOR) && !bits && n + 10 < sizeof types)
            n += (size_t)(kind == 'b' ? snprintf(types + n, sizeof types - n, "bool, ")
                                      : snprintf(types + n, sizeof types - n, "%s%u, ",
                                                 word_of(kind), (unsigned)dtype_bits((DType)k)));
    }
    return fault_set(fault,
                     "%s: arrays of type %.*s are not supported; those of tensors are of %sor "
                     "uint16 (the bits of bf16)",
                     path, length, type, types);
}

static bool
parse_type(const char *descr, const char *path, NpyArray *out, Fault *fault)
{
    int length = (int)strcspn(descr + 1, "'");
    char *end;

    if (length >= 2 && descr[1] == '>')
        return fault_set(fault, "%s: the array is big endian; save it as little endian", path);
    if (length < 3 || length > 8 || strchr("<|=", descr[1]) == NULL ||
        strchr("fiubV", descr[2]) == NULL || descr[3] < '0' || descr[3] > '9')
        return unknown_type(path, descr + 1, length < 40 ? length : 40, fault);
    unsigned long bytes = strtoul(descr + 3, &end, 10);
    if (*end != '\'' || bytes == 0 || bytes > 16)
        return unknown_type(path, descr + 1, length, fault);
    out->kind = descr[2];
    out->bytes = (uint32_t)bytes;
    return true;
}

/* (2, 3), (2,) or (). */
static bool
parse_shape(const char *shape, const char *path, NpyArray *out, Fault *fault)
{
    const char *at = shape + 1 + strspn(shape + 1, " ");

    out->rank = 0;
    out->total = out->bytes;
    while (*at != ')') {
        char *end;
        errno = 0;
        long long extent = strtoll(at, &end, 10);
        if (end == at || extent < 0 || errno != 0 || out->rank == NPY_MAX_RANK)
            return fault_set(fault, "%s: the shape of the array cannot be read", path);
        if (extent > 0 && out->total > SIZE_MAX / 4 / (uint64_t)extent)
            return fault_set(fault, "%s: the array is larger than memory", path);
        out->shape[out->rank++] = extent;
        out->total *= (size_t)extent;
        at = end + strspn(end, " L"); /* Python 2 wrote 3L */
        if (*at == ',')
            at += 1 + strspn(at + 1, " ");
        else if (*at != ')')
            return fault_set(fault, "%s: the shape of the array cannot be read", path);
    }
    return true;
}

static bool
parse_header(const char *header, const char *path, NpyArray *out, Fault *fault)
{
    const char *descr = find_key(header, "'descr'"), *order = find_key(header, "'fortran_order'");
    const char *shape = find_key(header, "'shape'");

    if (!descr || !order || !shape || *descr != '\'' || *shape != '(' ||
        (strncmp(order, "True", 4) != 0 && strncmp(order, "False", 5) != 0))
        return fault_set(fault, "%s: the header of the .npy file cannot be read", path);
    if (!parse_type(descr, path, out, fault) || !parse_shape(shape, path, out, fault))
        return false;
    if (strncmp(order, "True", 4) == 0 && out->rank > 1)
        return fault_set(fault, "%s: the array is in Fortran order; save np.ascontiguousarray(x)",
                         path);
    return true;
}

enum { HEADER_MOST = 1 << 16 };

/* Everything but the elements, which begin at `start`. */
static bool
read_header(FILE *file, const char *path, NpyArray *out, long *start, Fault *fault)
{
    unsigned char head[12] = {0};
    char header[HEADER_MOST + 1];
    size_t length;

    if (fread(head, 1, 10, file) != 10 || memcmp(head, magic, sizeof magic) != 0)
        return fault_set(fault, "%s is not a .npy file: %s", path,
                         memcmp(head, "PK", 2) == 0
                             ? "it is an archive; save each array with np.save"
                             : "save the array with np.save");
    if (head[6] < 1 || head[6] > 3)
        return fault_set(fault, "%s is a .npy file of version %u; 1 to 3 are known", path, head[6]);
    length = head[8] | (size_t)head[9] << 8;
    if (head[6] >= 2) {
        if (fread(head + 10, 1, 2, file) != 2)
            return fault_set(fault, "%s ends in its header", path);
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (length > HEADER_MOST)
        return fault_set(fault, "%s: the header of the .npy file cannot be read", path);
    if (fread(header, 1, length, file) != length)
        return fault_set(fault, "%s ends in its header", path);
    header[length] = '\0';
    *out = (NpyArray){0};
    if (!parse_header(header, path, out, fault))
        return false;
    /* the size is checked against the file before so much memory is taken */
    *start = ftell(file);
    if (*start < 0 || fseek(file, 0, SEEK_END) != 0 || ftell(file) < *start ||
        (size_t)(ftell(file) - *start) < out->total)
        return fault_set(fault,
                         "%s is shorter than its header says (%zu bytes of data): save it again",
                         path, out->total);
    return true;
}

/* The file is closed while memory is taken, which may jump away. */
bool
npy_read(Arena *arena, const char *path, NpyArray *out, Fault *fault)
{
    FILE *file = fopen(path, "rb");
    long start;

    if (!file)
        return fault_set(fault, "cannot open %s: %s", path, strerror(errno));
    bool ok = read_header(file, path, out, &start, fault);
    fclose(file);
    if (!ok)
        return false;
    out->data = arena_alloc(arena, out->total ? out->total : 1);
    file = fopen(path, "rb");
    if (!file)
        return fault_set(fault, "cannot open %s: %s", path, strerror(errno));
    ok = fseek(file, start, SEEK_SET) == 0 &&
         (out->total == 0 || fread(out->data, 1, out->total, file) == out->total);
    fclose(file);
    return ok || fault_set(fault, "%s cannot be read", path);
}

bool
npy_write(const char *path, const NpyArray *array, Fault *fault)
{
    char header[512];
    int n = snprintf(header, sizeof header,
                     "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
                     array->bytes == 1 ? '|' : '<', array->kind, (unsigned)array->bytes);

    for (uint32_t d = 0; d < array->rank; d++)
        n += snprintf(header + n, sizeof header - (size_t)n, "%s%lld", d ? ", " : "",
                      (long long)array->shape[d]);
    n += snprintf(header + n, sizeof header - (size_t)n, array->rank == 1 ? ",), }" : "), }");
    while ((10 + n + 1) % 64 != 0) /* the data begins at a multiple of 64 */
        header[n++] = ' ';
    header[n++] = '\n';

    unsigned char head[10] = {0};
    memcpy(head, magic, sizeof magic);
    head[6] = 1;
    head[8] = (unsigned char)(n & 255);
    head[9] = (unsigned char)(n >> 8);
    FilePart parts[] = {{head, sizeof head}, {header, (size_t)n}, {array->data, array->total}};
    if (!whole_file_write(path, parts, sizeof parts / sizeof parts[0]))
        return fault_set(fault, "cannot write %s: %s", path, strerror(errno));
    return true;
}
