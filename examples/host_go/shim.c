/* shim.c - what the header has as `static inline` functions, as functions that Go can call. */
#include "shim.h"

#include <stdlib.h>

CUresult
shim_load(attention_module **out, char *message, size_t bytes)
{
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = attention_load(*out, NULL, message, bytes);
    if (result != CUDA_SUCCESS)
        free(*out);
    return result;
}

void
shim_unload(attention_module *module)
{
    attention_unload(module);
    free(module);
}

/* Bytes of zeros that a launch needs; 0: this compilation takes none. */
size_t
shim_scratch_bytes(const attention_module *module, const attention_args *args)
{
#ifdef ATTENTION_HAS_SCRATCH_TILE_COUNTER
    return attention_bytes_tile_counter(module, args);
#else
    (void)module;
    (void)args;
    return 0;
#endif
}

void
shim_set_scratch(attention_args *args, CUdeviceptr address)
{
#ifdef ATTENTION_HAS_SCRATCH_TILE_COUNTER
    args->scratch_tile_counter = address;
#else
    (void)args;
    (void)address;
#endif
}

CUresult
shim_check(const attention_args *args, char *message, size_t bytes)
{
    return attention_check(args, message, bytes);
}

CUresult
shim_launch(const attention_module *module, const attention_args *args, CUstream stream)
{
    return attention_launch(module, args, stream);
}
