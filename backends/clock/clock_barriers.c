/* clock_barriers.c - names of mbarriers, from the comments at the head of PTX that tilec made with -lineinfo:
 *
 *     // kernel gemm, entry gemm
 *     //   barriers  229376 4 $A_0 full
 *     //             229408 4 $A_0 empty
 */
#include <stdio.h>
#include <string.h>

#include "backends/clock/clock.h"

enum { BARRIER_BYTES = 8 };

const char *
clock_barrier_name(Arena *arena, const char *ptx, const char *kernel, uint32_t at)
{
    static const char word[] = "//   barriers ";
    const char *entry = arena_printf(arena, ", entry %s\n", kernel);
    const char *line = ptx == NULL ? NULL : strstr(ptx, entry);
    bool within = false;

    for (line = line == NULL ? NULL : line + strlen(entry);
         line != NULL && strncmp(line, "//   ", 5) == 0;) {
        unsigned first, n;
        int name = 0;
        if (strncmp(line, word, strlen(word)) == 0)
            within = true;
        else if (line[5] != ' ')
            within = false;
        if (within && sscanf(line + strlen(word) - 1, "%u %u %n", &first, &n, &name) == 2 &&
            at >= first && at - first < n * BARRIER_BYTES) {
            const char *from = line + strlen(word) - 1 + name;
            int length = (int)strcspn(from, "\n");
            return n == 1 ? arena_strndup(arena, from, (size_t)length)
                          : arena_printf(arena, "%.*s, %u of %u", length, from,
                                         (at - first) / BARRIER_BYTES + 1, n);
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return NULL;
}
