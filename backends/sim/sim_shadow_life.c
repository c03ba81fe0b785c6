/* sim_shadow_life.c - the shadow of shared memory comes and goes. */
#include <stdlib.h>

#include "sim_shadow_cell.h"

SimShadow *
sim_shadow_new(uint32_t bytes, uint32_t agents)
{
    SimShadow *s = sim_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->cells = (bytes + 3) / 4;
    s->agents = agents;
    s->cell = sim_calloc(s->cells ? s->cells : 1, sizeof *s->cell);
    s->line = sim_calloc(s->cells / LINE + 1, sizeof *s->line);
    s->last_read = sim_calloc(s->cells ? s->cells : 1, sizeof *s->last_read);
    s->read = sim_calloc(agents, sizeof *s->read);
    s->read_op = sim_calloc(agents, sizeof *s->read_op);
    s->readers = sim_calloc(agents, sizeof *s->readers);
    s->newest = sim_calloc(agents, sizeof *s->newest);
    if (!s->cell || !s->line || !s->last_read || !s->read || !s->read_op || !s->readers ||
        !s->newest) {
        sim_shadow_free(s);
        return NULL;
    }
    return s;
}

void
sim_shadow_free(SimShadow *s)
{
    if (!s)
        return;
    for (uint32_t a = 0; a < s->agents; a++) {
        if (s->read)
            free(s->read[a]);
        if (s->read_op)
            free(s->read_op[a]);
    }
    free(s->cell);
    free(s->line);
    free(s->last_read);
    free(s->bytes);
    free(s->read);
    free(s->read_op);
    free(s->readers);
    free(s->newest);
    free(s);
}
