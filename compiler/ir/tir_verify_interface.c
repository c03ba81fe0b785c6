/* tir_verify_interface.c - the invariants of a kernel's interface, which stands before its body.
 *
 * Checked are: distinct names, tensors, scalars, the grid, host expressions, and the limits within
 * which passes count without overflow (warps of a block, elements of a tile, bytes of shared
 * memory).
 */
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>
#include <string.h>

/* ---- host expressions ---- */

static void
check_host(Verifier *v, const HostExpr *expr, const char *where)
{
    if (expr == NULL) {
        tir_fault(v, NULL, "an expression of %s is missing", where);
        return;
    }
    if (expr->kind == HOST_INT || expr->kind == HOST_FLOAT)
        return;
    if (expr->kind == HOST_DEVICE) {
        if (expr->index >= DEVICE_FACTS)
            tir_fault(v, NULL, "%s asks for a fact of the device that does not exist", where);
        return;
    }
    if (expr->kind == HOST_SIZE || expr->kind == HOST_SCALAR) {
        if (expr->index >= (expr->kind == HOST_SIZE ? v->fn->sizes.n : v->fn->scalars.n))
            tir_fault(v, NULL, "%s names a size or scalar that does not exist", where);
        return;
    }
    check_host(v, expr->a, where);
    if (expr->kind != HOST_NOT && expr->kind != HOST_NEG)
        check_host(v, expr->b, where);
}

/* ---- names ---- */

/* One name of the kernel's parameters; what it names. */
typedef struct Named {
    const char *what, *name;
} Named;

/* A program names each of them once: host expressions, lane IR and launchers find them by their
 * names. */
static void
check_names(Verifier *v)
{
    const TirFn *fn = v->fn;
    VEC(Named) names = {0};

    for (uint32_t k = 0; k < fn->tensors.n; k++)
        vec_push(v->out->arena, &names, ((Named){"tensor", fn->tensors.at[k]->name}));
    for (uint32_t k = 0; k < fn->sizes.n; k++)
        vec_push(v->out->arena, &names, ((Named){"size", fn->sizes.at[k].name}));
    for (uint32_t k = 0; k < fn->scalars.n; k++)
        vec_push(v->out->arena, &names, ((Named){"scalar", fn->scalars.at[k].name}));
    for (uint32_t k = 0; k < names.n; k++) {
        for (uint32_t j = 0; j < k; j++)
            if (strcmp(names.at[j].name, names.at[k].name) == 0)
                tir_fault(v, NULL, "'%s' names a %s and a %s", names.at[k].name, names.at[j].what,
                          names.at[k].what);
    }
    for (uint32_t k = 0; k < fn->grid.n; k++) {
        for (uint32_t j = 0; j < k; j++)
            if (strcmp(fn->grid.at[j].name, fn->grid.at[k].name) == 0)
                tir_fault(v, NULL, "two axes of the grid are called '%s'", fn->grid.at[k].name);
    }
    for (uint32_t k = 0; k < fn->memories.n; k++) {
        for (uint32_t j = 0; j < k; j++)
            if (strcmp(fn->memories.at[j].name, fn->memories.at[k].name) == 0)
                tir_fault(v, NULL, "two memories are called '%s'", fn->memories.at[k].name);
    }
}

/* ---- limits ---- */

void
tir_check_tile(Verifier *v, const TirOp *op, TirType type)
{
    int64_t elements = 1;

    for (uint32_t k = 0; k < type.rank && k < TIR_MAX_RANK; k++) {
        if (type.dim[k] > TILE_MAX_EXTENT)
            tir_fault(v, op, "a tile has at most %d elements in a dimension, not %" PRId32,
                      TILE_MAX_EXTENT, type.dim[k]);
        else
            elements *= type.dim[k];
    }
    if (elements > TILE_MAX_ELEMENTS)
        tir_fault(v, op, "a tile has at most %d elements, not %" PRId64, TILE_MAX_ELEMENTS,
                  elements);
}

static void
check_warps(Verifier *v)
{
    if (!warps_divide(v->fn->warps) || !warps_divide(v->fn->hint_warps))
        tir_fault(v, NULL, "a block has 1, 2, 4, 8, 16 or 32 warps");
}

/* Bytes and layouts are 0 and NULL until the passes that fill them in. */
static void
check_shared(Verifier *v, uint32_t k)
{
    const TirShared *shared = v->fn->shared.at[k];

    if (shared->stages == 0 || shared->stages > SHARED_MAX_STAGES)
        tir_fault(v, NULL, "buffer %" PRIu32 " has %" PRIu32 " stages, expected 1 .. %d", k,
                  shared->stages, SHARED_MAX_STAGES);
    if ((int64_t)shared->rows * shared->cols > SHARED_MAX_ELEMENTS)
        tir_fault(v, NULL, "buffer %" PRIu32 ": a stage has at most %d elements", k,
                  SHARED_MAX_ELEMENTS);
    if (shared->bytes > SHARED_MAX_BYTES || shared->offset > SHARED_MAX_BYTES ||
        shared->barriers > SHARED_MAX_BYTES)
        tir_fault(v, NULL, "buffer %" PRIu32 " has bytes past %d", k, SHARED_MAX_BYTES);
}

/* ---- the interface ---- */

void
tir_check_interface(Verifier *v)
{
    const TirFn *fn = v->fn;

    for (uint32_t k = 0; k < fn->tensors.n; k++) {
        const TirTensor *tensor = fn->tensors.at[k];
        if (tensor->rank == 0 || tensor->rank > TENSOR_MAX_RANK)
            tir_fault(v, NULL, "tensor '%s' has rank %" PRIu32, tensor->name, tensor->rank);
        if (tensor->align == 0 || (tensor->align & (tensor->align - 1)) != 0)
            tir_fault(v, NULL, "tensor '%s': alignment %" PRIu32 " is no power of two",
                      tensor->name, tensor->align);
        for (uint32_t j = 0; j < tensor->rank && j < TENSOR_MAX_RANK; j++)
            if (tensor->dim[j].constant < 0 ||
                (tensor->dim[j].constant == 0 && tensor->dim[j].size >= fn->sizes.n))
                tir_fault(v, NULL, "tensor '%s': dimension %" PRIu32 " has no extent", tensor->name,
                          j);
    }
    for (uint32_t k = 0; k < fn->scalars.n; k++)
        if (!dtype_has(fn->scalars.at[k].dtype, USE_PARAMETER))
            tir_fault(v, NULL, "there are no scalars of %s, as '%s' is",
                      dtype_name(fn->scalars.at[k].dtype), fn->scalars.at[k].name);
    for (uint32_t k = 0; k < fn->sizes.n; k++)
        if (fn->sizes.at[k].value != NULL)
            check_host(v, fn->sizes.at[k].value, "a size that follows");
    for (uint32_t k = 0; k < fn->requires.n; k++)
        check_host(v, fn->requires.at[k].condition, "a require");
    if (fn->grid.n > 3)
        tir_fault(v, NULL, "the grid has %" PRIu32 " axes, at most 3 exist", fn->grid.n);
    for (uint32_t k = 0; k < fn->grid.n; k++) {
        const TirGridAxis *axis = &fn->grid.at[k];
        check_host(v, axis->extent, "the grid");
        if (axis->variable_trips && axis->sliding)
            tir_fault(v, NULL, "axis '%s' of the grid has variable trips, and is sliding",
                      axis->name);
        if (axis->variable_trips && axis->ended)
            tir_fault(v, NULL, "axis '%s' of the grid has variable trips, and is ended", axis->name);
        if (!axis->sliding && (axis->short_first || axis->sliding_trips > 0))
            tir_fault(v, NULL, "axis '%s' of the grid is not sliding", axis->name);
    }
    for (uint32_t k = 0; k < 3 && fn->blocks[0] != NULL; k++)
        check_host(v, fn->blocks[k], "the blocks to launch");
    for (uint32_t k = 0; k < fn->memories.n; k++)
        check_host(v, fn->memories.at[k].bytes, "the bytes of a memory");
    for (uint32_t k = 0; k < fn->shared.n; k++)
        check_shared(v, k);
    check_names(v);
    check_warps(v);
}
