/* shim.h - what the header has as `static inline` functions, as functions: cgo sees no others. */
#ifndef SHIM_H
#define SHIM_H

#include "attention.h"

CUresult shim_load(attention_module **out, char *message, size_t bytes);
void shim_unload(attention_module *module);
size_t shim_scratch_bytes(const attention_module *module, const attention_args *args);
void shim_set_scratch(attention_args *args, CUdeviceptr address);
CUresult shim_check(const attention_args *args, char *message, size_t bytes);
CUresult shim_launch(const attention_module *module, const attention_args *args, CUstream stream);

#endif
