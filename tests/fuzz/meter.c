/* meter.c - see fuzz.h. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

void *
meter_allocate(void *user, size_t bytes)
{
    Meter *meter = user;

    if (bytes > meter->most - meter->taken)
        return NULL;
    void *block = malloc(bytes);
    meter->taken += block == NULL ? 0 : bytes;
    return block;
}

void
meter_release(void *user, void *block)
{
    (void)user;
    free(block);
}
