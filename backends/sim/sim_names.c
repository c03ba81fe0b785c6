/* sim_names.c - names of mbarriers, from the comments at the head of PTX that tilec made with
 * -lineinfo:
 *
 *     // kernel gemm, entry gemm
 *     //   barriers  229376 4 $A_0 full
 *     //             229408 4 $A_0 empty
 */
#include <string.h>

#include "sim_core.h"

enum { BARRIER_BYTES = 8 };

void
sim_keep_head(SimModule *mod, const char *text, size_t length)
{
    size_t n = 0;

    while (n + 1 < length && text[n] == '/' && text[n + 1] == '/') {
        const char *end = memchr(text + n, '\n', length - n);
        n = end == NULL ? length : (size_t)(end - text) + 1;
    }
    mod->head = sim_arena_copy(&mod->arena, text, n);
}

bool
sim_barrier_name(const SimModule *mod, const char *entry, uint32_t at, char *text, size_t size)
{
    static const char word[] = "//   barriers ", of[] = ", entry ";
    const char *line = mod->head;
    bool kernel = false, within = false;

    for (; line != NULL && *line != '\0'; line = line == NULL ? NULL : line + 1) {
        int length = (int)strcspn(line, "\n"), name = 0;
        unsigned first, n;
        if (strncmp(line, "//   ", 5) != 0) {
            const char *found = strstr(line, of);
            size_t called = strlen(entry);
            within = false;
            kernel = found != NULL && found < line + length &&
                     strncmp(found + sizeof of - 1, entry, called) == 0 &&
                     found + sizeof of - 1 + called == line + length;
        } else if (strncmp(line, word, sizeof word - 1) == 0 || line[5] != ' ') {
            within = strncmp(line, word, sizeof word - 1) == 0;
        }
        if (kernel && within &&
            sscanf(line + sizeof word - 2, "%u %u %n", &first, &n, &name) == 2 && at >= first &&
            at - first < n * BARRIER_BYTES) {
            const char *from = line + sizeof word - 2 + name;
            length = (int)strcspn(from, "\n\"\\"); /* reports quote it */
            if (n == 1)
                snprintf(text, size, "%.*s", length, from);
            else
                snprintf(text, size, "%.*s, %u of %u", length, from,
                         (at - first) / BARRIER_BYTES + 1, n);
            return true;
        }
        line = strchr(line, '\n');
    }
    return false;
}
