/* with_arena.h - a cmocka fixture: the state of a test is an arena of its own. */
#ifndef TILEC_TESTS_WITH_ARENA_H
#define TILEC_TESTS_WITH_ARENA_H

#include <setjmp.h>
#include <stdlib.h>

#include "compiler/base/arena.h"

static jmp_buf no_memory;

static int
set_up(void **state)
{
    Arena *arena = malloc(sizeof *arena);
    arena_init(arena, allocator_libc(), &no_memory);
    *state = arena;
    return 0;
}

static int
tear_down(void **state)
{
    arena_free(*state);
    free(*state);
    return 0;
}

#endif
