/* arena.h - the one allocator of a compilation: bump allocation, freed as a whole.
 *
 * An Arena never returns NULL.  When the underlying allocator fails it jumps to
 * `on_failure`, which the API edge (tilec.c) sets; nothing else in the compiler jumps.
 */
#ifndef TILEC_BASE_ARENA_H
#define TILEC_BASE_ARENA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_GAPS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_GAPS 1
#endif

/* Whether two texts are the same; most that are compared differ in their first character. */
static inline bool
same_text(const char *a, const char *b)
{
    return a[0] == b[0] && strcmp(a, b) == 0;
}

/* Where blocks come from.  `allocate` may return NULL; `user` is passed through. */
typedef struct Allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} Allocator;

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena {
    Allocator allocator;
    ArenaBlock *blocks;   /* newest first */
    ArenaBlock *spare;    /* kept by arena_reset, to be used again */
    char *cursor, *limit; /* free part of the newest block */
    size_t total_bytes;   /* taken from the allocator so far */
    jmp_buf *on_failure;  /* jumped to when memory runs out; set it before the first use */
} Arena;

/* The allocator of the C library. */
Allocator allocator_libc(void);

void arena_init(Arena *arena, Allocator allocator, jmp_buf *on_failure);
void arena_free(Arena *arena);
/* Forgets what was allocated but keeps the memory, for arenas that are filled again and again. */
void arena_reset(Arena *arena);

/* A place to go back to: what was allocated since is forgotten, and the memory kept as by
 * arena_reset. */
typedef struct ArenaMark {
    ArenaBlock *block;
    char *cursor;
} ArenaMark;
ArenaMark arena_mark(const Arena *arena);
void arena_rewind(Arena *arena, ArenaMark mark);
/* Bytes that were asked for, and what is left of blocks that are full. */
size_t arena_held(const Arena *arena);

/* Memory with anything in it, aligned for any type, from wherever there is some. */
void *arena_take_more(Arena *arena, size_t bytes);

/* The same; nearly always the block at hand has room. */
static inline void *
arena_take(Arena *arena, size_t bytes)
{
#ifndef ARENA_GAPS
    size_t filled = bytes + (bytes == 0) + sizeof(max_align_t) - 1,
           rounded = filled / sizeof(max_align_t) * sizeof(max_align_t);
    if (rounded <= (size_t)(arena->limit - arena->cursor)) {
        void *at = arena->cursor;
        arena->cursor += rounded;
        return at;
    }
#endif
    return arena_take_more(arena, bytes);
}

/* Zeroed memory of `bytes` bytes, aligned for any type. */
static inline void *
arena_alloc(Arena *arena, size_t bytes)
{
    return memset(arena_take(arena, bytes), 0, bytes);
}

/* A copy of `bytes` bytes at `from`. */
static inline void *
arena_copy(Arena *arena, const void *from, size_t bytes)
{
    void *to = arena_take(arena, bytes);

    return bytes > 0 ? memcpy(to, from, bytes) : to;
}

/* A NUL-terminated copy of `n` characters. */
char *arena_strndup(Arena *arena, const char *text, size_t n);
/* printf into the arena. */
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define arena_new(arena, Type) ((Type *)arena_alloc((arena), sizeof(Type)))
#define arena_array(arena, Type, n) ((Type *)arena_alloc((arena), sizeof(Type) * (size_t)(n)))

/* A growable array on an arena: VEC(Type) is a struct { Type *at; uint32_t n, cap; }. */
#define VEC(Type)                                                                                  \
    struct {                                                                                       \
        Type *at;                                                                                  \
        uint32_t n, cap;                                                                           \
    }
#define vec_push(arena, vec, value)                                                                \
    do {                                                                                           \
        if ((vec)->n == (vec)->cap)                                                                \
            (vec)->at = arena_grow((arena), (vec)->at, sizeof *(vec)->at, (vec)->n, &(vec)->cap);  \
        (vec)->at[(vec)->n++] = (value);                                                           \
    } while (0)
void *arena_grow(Arena *arena, void *at, size_t element_bytes, uint32_t n, uint32_t *cap);

/* A text builder on an arena; `at` is always NUL-terminated once anything was added. */
typedef struct Buf {
    Arena *arena;
    char *at;
    uint32_t n, cap;
} Buf;

void buf_init(Buf *buf, Arena *arena);
/* Room for `more` characters, so that adding them moves nothing. */
void buf_reserve(Buf *buf, size_t more);
void buf_cut(Buf *buf, uint32_t n);       /* back to its first n characters */
const char *buf_text(const Buf *buf);     /* "" of an empty one */
void buf_int(Buf *buf, int64_t value);    /* decimal */
char *int_text(int64_t value, char *out); /* the same into 20 characters at most; the end */
char *digits_text(uint64_t n, char *out); /* likewise, without a sign */
/* A string in quotes, with \" \\ \n escaped, as in programs and in tile IR. */
void buf_quoted(Buf *buf, const char *text);
void buf_printf(Buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Most of a compilation's text is made of these three, a few characters at a time. */
static inline void
buf_addn(Buf *buf, const char *text, size_t n)
{
    if (buf->n + n + 1 > buf->cap)
        buf_reserve(buf, n);
    if (n > 0)
        memcpy(buf->at + buf->n, text, n);
    buf->n += (uint32_t)n;
    buf->at[buf->n] = '\0';
}

static inline void
buf_add(Buf *buf, const char *text)
{
    buf_addn(buf, text, strlen(text));
}

static inline void
buf_char(Buf *buf, char c)
{
    if (buf->n + 2 > buf->cap)
        buf_reserve(buf, 1);
    buf->at[buf->n++] = c;
    buf->at[buf->n] = '\0';
}

#endif
