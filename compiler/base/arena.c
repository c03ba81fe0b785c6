/* arena.c - bump allocation, growable arrays and the text builder. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif
#include "compiler/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With AddressSanitizer, memory that nobody asked for can not be touched, and there is some of it
 * between any two pieces: what is read behind the end of an array is found. */
#ifdef ARENA_GAPS
#include <sanitizer/asan_interface.h>
enum { GAP = 64 };
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
enum { GAP = 0 };
#endif

struct ArenaBlock {
    ArenaBlock *next;
    size_t bytes; /* of data */
    max_align_t data[];
};

/* Most blocks are as large as a huge page, for which Linux takes less time than for some 100 small
 * ones: a fourth of a compilation went into pages that were touched for the first time.  Not the
 * first few, which are enough for small kernels, and not those behind 8 MiB, where the memory that
 * the last one leaves empty matters more. */
enum { HUGE_PAGE = 2 << 20, WIDE_FROM = 3 << 18, WIDE_TO = 8 << 20 };
#ifndef ARENA_BLOCK_BYTES /* tests/oom takes small ones */
enum { BLOCK_BYTES = 1 << 18, WIDE_BYTES = HUGE_PAGE - sizeof(ArenaBlock) };
#else
enum { BLOCK_BYTES = ARENA_BLOCK_BYTES, WIDE_BYTES = BLOCK_BYTES };
#endif
enum { ALIGNMENT = sizeof(max_align_t) };

static void *
libc_allocate(void *user, size_t bytes)
{
    (void)user;
#ifdef MADV_HUGEPAGE
    if (bytes == HUGE_PAGE) {
        void *block = aligned_alloc(HUGE_PAGE, bytes);
        if (block != NULL)
            madvise(block, bytes, MADV_HUGEPAGE); /* advice: without it there are small pages */
        return block;
    }
#endif
    return malloc(bytes);
}

static void
libc_release(void *user, void *block)
{
    (void)user;
    free(block);
}

Allocator
allocator_libc(void)
{
    return (Allocator){libc_allocate, libc_release, NULL};
}

void
arena_init(Arena *arena, Allocator allocator, jmp_buf *on_failure)
{
    *arena = (Arena){.allocator = allocator, .on_failure = on_failure};
}

static void
release_all(Arena *arena, ArenaBlock *block)
{
    while (block != NULL) {
        ArenaBlock *next = block->next;
        ASAN_UNPOISON_MEMORY_REGION(block->data, block->bytes);
        arena->allocator.release(arena->allocator.user, block);
        block = next;
    }
}

void
arena_free(Arena *arena)
{
    release_all(arena, arena->blocks);
    release_all(arena, arena->spare);
    arena->blocks = arena->spare = NULL;
    arena->cursor = arena->limit = NULL;
}

ArenaMark
arena_mark(const Arena *arena)
{
    return (ArenaMark){arena->blocks, arena->cursor};
}

void
arena_rewind(Arena *arena, ArenaMark mark)
{
    while (arena->blocks != mark.block) {
        ArenaBlock *block = arena->blocks;
        arena->blocks = block->next;
        block->next = arena->spare;
        arena->spare = block;
    }
    arena->cursor = mark.cursor;
    arena->limit = mark.block == NULL ? NULL : (char *)mark.block->data + mark.block->bytes;
    if (mark.block != NULL)
        ASAN_POISON_MEMORY_REGION(arena->cursor, (size_t)(arena->limit - arena->cursor));
}

void
arena_reset(Arena *arena)
{
    arena_rewind(arena, (ArenaMark){0});
}

size_t
arena_held(const Arena *arena)
{
    size_t bytes = 0;

    for (const ArenaBlock *block = arena->blocks; block != NULL; block = block->next)
        bytes += block->bytes;
    return bytes - (size_t)(arena->limit - arena->cursor);
}

/* A block with room for so much that was used before, or a new one. */
static ArenaBlock *
next_block(Arena *arena, size_t room)
{
    for (ArenaBlock **at = &arena->spare; *at != NULL; at = &(*at)->next) {
        ArenaBlock *block = *at;
        if (block->bytes >= room) {
            *at = block->next;
            return block;
        }
    }
    bool wide = arena->total_bytes >= WIDE_FROM && arena->total_bytes < WIDE_TO;
    size_t usual = wide ? WIDE_BYTES : BLOCK_BYTES, bytes = room > usual ? room : usual;
    ArenaBlock *block = arena->allocator.allocate(arena->allocator.user, sizeof(ArenaBlock) + bytes);
    if (block == NULL)
        longjmp(*arena->on_failure, 1);
    block->bytes = bytes;
    arena->total_bytes += sizeof(ArenaBlock) + bytes;
    return block;
}

void *
arena_take_more(Arena *arena, size_t bytes)
{
    size_t rounded = (bytes + (bytes == 0) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP;

    if (rounded > (size_t)(arena->limit - arena->cursor)) { /* none of an empty arena */
        ArenaBlock *block = next_block(arena, rounded);
        block->next = arena->blocks;
        arena->blocks = block;
        arena->cursor = (char *)block->data;
        arena->limit = arena->cursor + block->bytes;
        ASAN_POISON_MEMORY_REGION(block->data, block->bytes);
    }
    void *at = arena->cursor;
    arena->cursor += rounded;
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    return at;
}

char *
arena_strndup(Arena *arena, const char *text, size_t n)
{
    char *copy = arena_alloc(arena, n + 1);
    if (n > 0)
        memcpy(copy, text, n);
    return copy;
}

char *
arena_printf(Arena *arena, const char *format, ...)
{
    char small[128];
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    char *text = arena_take(arena, (size_t)n + 1);
    if ((size_t)n < sizeof small)
        memcpy(text, small, (size_t)n + 1);
    else
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

void *
arena_grow(Arena *arena, void *at, size_t element_bytes, uint32_t n, uint32_t *cap)
{
    uint32_t wider = *cap < 8 ? 8 : *cap * 2;
    void *grown = arena_take(arena, element_bytes * wider);
    if (n > 0)
        memcpy(grown, at, element_bytes * n);
    *cap = wider;
    return grown;
}

void
buf_init(Buf *buf, Arena *arena)
{
    *buf = (Buf){.arena = arena};
}

void
buf_reserve(Buf *buf, size_t more)
{
    size_t need = buf->n + more + 1;
    if (need <= buf->cap)
        return;
    size_t cap = buf->cap < 256 ? 256 : buf->cap;
    while (cap < need)
        cap *= 2;
    char *grown = arena_take(buf->arena, cap);
    if (buf->n > 0)
        memcpy(grown, buf->at, buf->n);
    buf->at = grown;
    buf->cap = (uint32_t)cap;
}

void
buf_quoted(Buf *buf, const char *text)
{
    buf_char(buf, '"');
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            buf_add(buf, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\')
            buf_char(buf, '\\');
        buf_char(buf, *text);
    }
    buf_char(buf, '"');
}

enum { LONGEST_INT = 20 }; /* digits of 2^63, and a sign */

char *
digits_text(uint64_t n, char *out)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";

    if (n >= 1000) {
        out = digits_text(n / 100, out);
    } else if (n >= 100) {
        *out++ = (char)('0' + n / 100);
    } else if (n < 10) {
        *out = (char)('0' + n);
        return out + 1;
    }
    memcpy(out, pairs + n % 100 * 2, 2);
    return out + 2;
}

char *
int_text(int64_t value, char *out)
{
    if (value >= 0)
        return digits_text((uint64_t)value, out);
    *out = '-';
    return digits_text(0 - (uint64_t)value, out + 1);
}

void
buf_int(Buf *buf, int64_t value)
{
    char text[LONGEST_INT];

    buf_addn(buf, text, (size_t)(int_text(value, text) - text));
}

void
buf_printf(Buf *buf, const char *format, ...)
{
    char small[256];
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if ((size_t)n < sizeof small) {
        buf_addn(buf, small, (size_t)n);
    } else {
        buf_reserve(buf, (size_t)n);
        vsnprintf(buf->at + buf->n, (size_t)n + 1, format, again);
        buf->n += (uint32_t)n;
    }
    va_end(again);
}

void
buf_cut(Buf *buf, uint32_t n)
{
    buf->n = n;
    if (buf->at != NULL)
        buf->at[n] = '\0';
}

const char *
buf_text(const Buf *buf)
{
    return buf->at == NULL ? "" : buf->at;
}
