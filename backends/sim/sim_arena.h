/* sim_arena.h - memory that is released all at once, and growing arrays. */
#ifndef TILEC_SIM_ARENA_H
#define TILEC_SIM_ARENA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SimArenaBlock SimArenaBlock;

typedef struct SimArena {
    SimArenaBlock *head;
    size_t used, size;      /* of the head block */
    jmp_buf *out_of_memory; /* where to go when malloc fails; the API edge sets it */
} SimArena;

void *sim_arena_alloc(SimArena *arena, size_t bytes); /* zeroed, 16-byte aligned, never NULL */
char *sim_arena_copy(SimArena *arena, const char *text, size_t length); /* with a final NUL */
void sim_arena_free(SimArena *arena);

/* As those of the C library, for what kernels need while they run.  That one has failed is
 * remembered by the thread, and ends its launch as out of memory (sim_run.c), whatever the caller
 * does without: a check that is not made, or a product that does not land, must not pass for a
 * result. */
void *sim_malloc(size_t bytes);
void *sim_calloc(size_t count, size_t size);
void *sim_realloc(void *block, size_t bytes);
void *sim_aligned_alloc(size_t alignment, size_t bytes);
/* Whether one has failed in this thread since it was asked last. */
bool sim_allocation_failed(void);

/* Makes room for one more element in an array that lives in the arena; returns the array. */
void *sim_arena_grow(SimArena *arena, void *array, size_t count, size_t *capacity, size_t size);

#endif
