/* launch_args.h - the arguments of a launch, from words on a command line.
 *
 * What simrun and tilerun share.  It knows neither the simulator nor a GPU: the words become values
 * and buffers, with a list of the places that get the address of a buffer, and of the tensor maps
 * that somebody has to make once the buffers have addresses.  Nothing here prints or exits.
 */
#ifndef TILEC_LAUNCH_ARGS_H
#define TILEC_LAUNCH_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LAUNCH_ARGS_MOST = 256, LAUNCH_ARGS_MAP = 128 };

typedef struct LaunchBuffer {
    char *name;
    size_t bytes;
    uint8_t *content; /* what it begins with; NULL: it is not initialised */
    char *output;     /* a file for its bytes after the launch, or NULL */
    const void *form; /* of whoever took the word (LaunchArgs.other) */
    uint64_t address; /* of whoever makes it */
} LaunchBuffer;

typedef struct LaunchValue { /* of a parameter */
    uint8_t *bytes;          /* at least 8 of them */
    size_t size;
    bool is_number; /* of up to 8 bytes: it may stand for a smaller parameter */
} LaunchValue;

/* A part of a value, or of a buffer's content. */
typedef struct LaunchPlace {
    bool in_buffer;
    size_t index, offset;
} LaunchPlace;

/* 8 bytes: the address of a buffer, plus so many bytes. */
typedef struct LaunchAddress {
    LaunchPlace at;
    size_t buffer;
    uint64_t plus;
} LaunchAddress;

/* 128 bytes: a tensor map, as cuTensorMapEncodeTiled takes it; the numbers are the driver's. */
typedef struct LaunchMap {
    LaunchPlace at;
    bool in_buffer; /* the tensor; else at the address `plus` (0) */
    size_t buffer;
    uint64_t plus;
    uint32_t type, rank, swizzle, fill;
    uint64_t size[5], stride[5]; /* stride: in bytes, of dimensions 1 and up */
    uint32_t box[5], step[5];
    uint8_t im2col; /* as SimTensorMap.im2col; not 0: box is {channels, pixels} */
    int32_t lower[3], upper[3];
} LaunchMap;

typedef struct LaunchArgs LaunchArgs;
struct LaunchArgs {
    LaunchBuffer buffer[LAUNCH_ARGS_MOST];
    LaunchValue value[LAUNCH_ARGS_MOST];
    LaunchAddress address[LAUNCH_ARGS_MOST];
    LaunchMap map[LAUNCH_ARGS_MOST];
    size_t buffer_count, value_count, address_count, map_count;
    char error[512];
    /* Asked first: takes a word that makes a buffer, or leaves it alone.  May be NULL.  After an
     * error it fills `error`. */
    bool (*other)(LaunchArgs *args, const char *word, size_t *buffer);
    void *state; /* of `other` */
};

/* Reads the words of all parameters; false, and `error`, when one is wrong.  The forms:
 *     u32:V s32:V f32:V ..         a number: u8 s8 u16 s16 u32 s32 u64 s64 f32 f64
 *     in:FILE                      a buffer filled from a file of raw bytes
 *     out:FILE:BYTES               a buffer written to a file afterwards, not initialised
 *     inout:FILE                   both
 *     zero:BYTES   scratch:BYTES   a buffer of zeros, or not initialised
 *     at:N  at:N+BYTES             a place in the N-th buffer made before, from 0
 *     null                         a null pointer
 *     map:TYPE:SWIZZLE:SIZES:BOX:BUFFER
 *     bytes:FILE                   the bytes of a file, passed by value
 *     struct:SIZE @OFFSET=ARG ..   a structure passed by value and its fields
 *     mem:SIZE @OFFSET=ARG ..      the same in global memory, passed by its address */
bool launch_args_read(LaunchArgs *args, const char *const *word, size_t count);
/* A buffer; `content` is copied.  False when there is no room. */
bool launch_args_buffer(LaunchArgs *args, const char *name, size_t bytes, const void *content,
                        const char *output, size_t *index);
bool launch_args_fail(LaunchArgs *args, const char *what, const char *word);
/* The bytes of a place: where an address or a map goes. */
uint8_t *launch_args_at(LaunchArgs *args, LaunchPlace place);
/* The value fits a parameter of so many bytes; else false and `error`. */
bool launch_args_fits(LaunchArgs *args, size_t value, size_t bytes, const char *name);
void launch_args_free(LaunchArgs *args);

#endif
