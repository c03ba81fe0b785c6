/* emit_fixture.c - the metadata and the header of a module with every kind of parameter, made by
 * hand: the kernels of tests/run/parameters.ptx.
 *
 * usage: emit_fixture json|header|comment
 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "compiler/emit/metadata.h"

static const char *const names[] = {"B", "S", "H", "Sk"};

static HostExpr *
size_expr(Arena *arena, uint32_t index)
{
    HostExpr *expr = host_int(arena, 0);

    expr->kind = HOST_SIZE;
    expr->index = index;
    return expr;
}

static HostExpr *
times(Arena *arena, const HostExpr *a, const HostExpr *b)
{
    return host_binary(arena, HOST_MUL, a, b);
}

/* A tensor over the sizes numbered in `dims`; -1 ends them with an extent of 128. */
static void
add_tensor(TirFn *fn, const char *name, DType dtype, TensorMode mode, uint32_t rank, const int *dims)
{
    TirTensor *tensor = arena_new(fn->arena, TirTensor);

    tensor->name = name;
    tensor->dtype = tensor->packed = dtype;
    tensor->mode = mode;
    tensor->rank = rank;
    tensor->align = 16;
    for (uint32_t d = 0; d < rank; d++) {
        tensor->dim[d].constant = dims[d] < 0 ? 128 : 0;
        tensor->dim[d].size = dims[d] < 0 ? 0 : (uint32_t)dims[d];
    }
    vec_push(fn->arena, &fn->tensors, tensor);
}

static void
add_rows(TirFn *fn)
{
    Arena *arena = fn->arena;
    const HostExpr *rows = times(arena, times(arena, size_expr(arena, 0), size_expr(arena, 1)),
                                 size_expr(arena, 2));
    TirMemory memory = {"rows", MEMORY_WORKSPACE, times(arena, rows, host_int(arena, 4))};

    vec_push(arena, &fn->memories, memory);
}

static void
add_sizes(TirFn *fn, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        TirSize size = {.name = names[i]};
        vec_push(fn->arena, &fn->sizes, size);
    }
}

/* The address and the strides of tensor `index`. */
static void
add_address(const TirFn *fn, LirFn *code, uint32_t index)
{
    const char *name = fn->tensors.at[index]->name;

    lir_add_param(code, LIR_PARAM_POINTER, LIR_B64, name, index, 0);
    for (uint32_t d = 0; d + 1 < fn->tensors.at[index]->rank; d++)
        lir_add_param(code, LIR_PARAM_STRIDE, LIR_B64, arena_printf(fn->arena, "%s%u", name, d),
                      index, d);
}

static LirFn *
make_add_boxes(TirFn *fn)
{
    static const int x[] = {0, 1, 2, -1}, k[] = {0, 3, 2, -1};
    Arena *arena = fn->arena;
    LirFn *code = lir_fn_new(arena, "add_boxes");
    LirTensorMap map = {"X", 4, {3, 1, 2, 0}, {64, 32, 1, 1}, 128, 256, NULL};
    TirMemory counter = {"counter", MEMORY_SCRATCH, host_int(arena, 8)};
    HostExpr *sm_count = host_device(arena, DEVICE_SM_COUNT);
    HostExpr *tiles = times(arena,
                            host_binary(arena, HOST_CDIV, size_expr(arena, 1), host_int(arena, 32)),
                            size_expr(arena, 2));

    tiles = times(arena, times(arena, tiles, size_expr(arena, 0)), host_int(arena, 2));
    add_sizes(fn, 4);
    add_tensor(fn, "X", DT_F16, TENSOR_IN, 4, x);
    add_tensor(fn, "K", DT_F16, TENSOR_IN, 4, k);
    add_tensor(fn, "Y", DT_F16, TENSOR_OUT, 4, x);
    vec_push(arena, &fn->memories, counter);
    add_rows(fn);
    fn->blocks[0] = host_binary(arena, HOST_MIN, sm_count, tiles);
    fn->blocks[1] = fn->blocks[2] = host_int(arena, 1);

    lir_add_map(code, "map_x", &map);
    map.tensor = "K";
    map.l2_promotion_bytes = 0;
    lir_add_map(code, "map_k", &map);
    add_address(fn, code, 2);
    for (uint32_t i = 0; i < 3; i++)
        lir_add_param(code, LIR_PARAM_SIZE, LIR_B32, names[i], i, 0);
    lir_add_param(code, LIR_PARAM_MEMORY, LIR_B64, "counter", 0, 0);
    lir_add_param(code, LIR_PARAM_MEMORY, LIR_B64, "rows", 1, 0);
    lir_add_param(code, LIR_PARAM_ZERO, LIR_B32, "zero", 0, 0);
    code->threads = 64;
    code->shared_bytes = 8208;
    return code;
}

static LirFn *
make_copy_rows(TirFn *fn)
{
    static const int t[] = {0, 1, 2};
    LirFn *code = lir_fn_new(fn->arena, "copy_rows");

    add_sizes(fn, 3);
    add_tensor(fn, "T", DT_I32, TENSOR_OUT, 3, t);
    add_rows(fn);
    for (uint32_t i = 0; i < 2; i++) {
        TirGridAxis axis = {.name = names[i], .extent = size_expr(fn->arena, 1 - i)};
        vec_push(fn->arena, &fn->grid, axis);
    }
    add_address(fn, code, 0);
    lir_add_param(code, LIR_PARAM_MEMORY, LIR_B64, "rows", 0, 0);
    for (uint32_t i = 1; i < 3; i++)
        lir_add_param(code, LIR_PARAM_SIZE, LIR_B32, names[i], i, 0);
    code->threads = 32;
    return code;
}

int
main(int argc, char **argv)
{
    Arena arena;
    jmp_buf out_of_memory;
    const char *what = argc > 1 ? argv[1] : "";
    Span nowhere = {0};
    Buf out;

    if (setjmp(out_of_memory))
        return 2;
    arena_init(&arena, allocator_libc(), &out_of_memory);
    TirModule module = {.arena = &arena};
    TirFn *add = tir_fn_new(&module, "add_boxes", nowhere);
    TirFn *copy = tir_fn_new(&module, "copy_rows", nowhere);
    LirFn *code[] = {make_add_boxes(add), make_copy_rows(copy)};
    ModuleFacts facts = {"0.1.0", "parameters.ptx", "sm_90a", "8.0", code, NULL, false};

    buf_init(&out, &arena);
    for (int i = 0; i < 2; i++)
        if (!lir_verify(code[i], &out) || !launch_verify(module.fns.at[i], code[i], &out) ||
            !tir_verify_fn(module.fns.at[i], &out)) {
            fputs(out.at, stderr);
            return 1;
        }
    if (strcmp(what, "json") == 0)
        metadata_json(&module, &facts, &out);
    else if (strcmp(what, "header") == 0)
        header_print(&(HeaderBuild){.module = &module, .facts = &facts}, 1, NULL, &out);
    else
        metadata_comment(&module, &facts, &out);
    fputs(out.at, stdout);
    arena_free(&arena);
    return 0;
}
