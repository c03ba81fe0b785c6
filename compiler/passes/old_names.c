/* old_names.c - what keys of plans and passes were called before: taken for one release, and in no document. */
#include "compiler/passes/old_names.h"

#include <string.h>

static const struct {
    const char *old, *name;
} renamed[] = {
    /* keys of --plan, @plan and the tuning database */
    {"bands", "consumers"},
    {"overlap", "pipelined"},
    {"slots", "q_stages"},
    {"turns", "pingpong"},
    {"divide", "cooperative"},
    /* switches */
    {"spread-starts", "stagger-starts"},
    {"stagger-bands", "stagger-consumers"},
};

const char *
current_name(const char *name, size_t n)
{
    for (size_t k = 0; k < sizeof renamed / sizeof renamed[0]; k++)
        if (strlen(renamed[k].old) == n && strncmp(renamed[k].old, name, n) == 0)
            return renamed[k].name;
    return NULL;
}
