/* sim_extension.c - state that families keep on warps, blocks and clusters. */
#include <stdlib.h>

#include "sim_core.h"

void *
sim_extension(SimExtension *ext, size_t size, void (*release)(void *state))
{
    if (!ext->state) {
        ext->state = sim_calloc(1, size);
        ext->release = release ? release : free;
    }
    return ext->state;
}

void
sim_extensions_release(SimExtension *ext)
{
    for (int i = 0; i < SIM_EXT_COUNT; i++)
        if (ext[i].state)
            ext[i].release(ext[i].state);
}
