/* sim_arena.c - memory that is released all at once. */
#include "sim_arena.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local bool failed;

static void *
noted(void *block)
{
    failed |= block == NULL;
    return block;
}

void *
sim_malloc(size_t bytes)
{
    return noted(malloc(bytes));
}

void *
sim_calloc(size_t count, size_t size)
{
    return noted(calloc(count, size));
}

void *
sim_realloc(void *block, size_t bytes)
{
    return noted(realloc(block, bytes));
}

void *
sim_aligned_alloc(size_t alignment, size_t bytes)
{
    return noted(aligned_alloc(alignment, bytes));
}

bool
sim_allocation_failed(void)
{
    bool before = failed;
    failed = false;
    return before;
}

struct SimArenaBlock {
    SimArenaBlock *next;
    size_t padding; /* keeps the payload 16-byte aligned */
};

#ifndef SIM_ARENA_BLOCK_BYTES /* tests/oom takes small ones */
#define SIM_ARENA_BLOCK_BYTES (64 * 1024)
#endif
enum { BLOCK_BYTES = SIM_ARENA_BLOCK_BYTES };

void *
sim_arena_alloc(SimArena *arena, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (arena->used + bytes > arena->size || !arena->head) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        SimArenaBlock *block = malloc(sizeof *block + size);
        if (!block)
            longjmp(*arena->out_of_memory, 1);
        block->next = arena->head;
        arena->head = block;
        arena->used = 0;
        arena->size = size;
    }
    void *result = (char *)(arena->head + 1) + arena->used;
    arena->used += bytes;
    return memset(result, 0, bytes);
}

char *
sim_arena_copy(SimArena *arena, const char *text, size_t length)
{
    char *copy = sim_arena_alloc(arena, length + 1);
    memcpy(copy, text, length);
    return copy;
}

void *
sim_arena_grow(SimArena *arena, void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    size_t wanted = *capacity ? 2 * *capacity : 4; /* most arrays are the operands of a line */
    void *bigger = sim_arena_alloc(arena, wanted * size);
    if (count)
        memcpy(bigger, array, count * size);
    *capacity = wanted;
    return bigger;
}

void
sim_arena_free(SimArena *arena)
{
    while (arena->head) {
        SimArenaBlock *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
    arena->used = arena->size = 0;
}
