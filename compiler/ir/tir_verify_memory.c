/* tir_verify_memory.c - where pipelines and their barriers lie in shared memory, and in tensor memory, once they are placed.
 *
 * Each has a place of its own, but for those that are over another one or share its barriers, and all lie in what the kernel
 * asks for.  Other buffers may lie over one another: `place_sync` has the barriers between their uses.
 */
#include "compiler/ir/isa.h"
#include "compiler/ir/layout.h"
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>

enum { MOST_RANGES = 256 };

typedef struct Range {
    int64_t begin, end;
    uint32_t buffer;
    const char *what;
} Range;

typedef struct Ranges {
    uint32_t n;
    Range at[MOST_RANGES];
} Ranges;

/* A place from `begin` on, before `end_of_all`, where nothing else is. */
static void
take(Verifier *v, Ranges *ranges, Range own, int64_t end_of_all)
{
    if (own.end > end_of_all)
        tir_fault(v, NULL,
                  "the %s of buffer %" PRIu32 " end at %" PRId64 ", and there are %" PRId64,
                  own.what, own.buffer, own.end, end_of_all);
    for (uint32_t k = 0; k < ranges->n; k++) {
        const Range *other = &ranges->at[k];
        if (own.begin < other->end && other->begin < own.end)
            tir_fault(v, NULL,
                      "the %s of buffer %" PRIu32 " lie where the %s of buffer %" PRIu32 " do",
                      own.what, own.buffer, other->what, other->buffer);
    }
    if (ranges->n < MOST_RANGES)
        ranges->at[ranges->n++] = own;
}

/* Bytes of all stages of a buffer in shared memory. */
static int64_t
stage_bytes(const TirFn *fn, const TirShared *shared)
{
    const SharedLayout *layout = shared->layout;
    int64_t row = (int64_t)layout->cols * dtype_bits(shared->dtype) / 8;
    uint32_t parts = tir_is_pipeline(shared) ? tir_parts(fn->plan, shared)
                                             : tir_consumers(fn->plan);

    if (shared->kind == SHARED_VECTORS)
        return (int64_t)layout->pitch * shared->stages * (tir_is_handed(shared) ? parts : 1);
    return layout->rows * row * shared->stages * parts;
}

static void
check_shared_memory(Verifier *v, const TirShared *shared, Ranges *bytes)
{
    const SharedLayout *layout = shared->layout;
    int64_t begin = shared->offset, end = begin + stage_bytes(v->fn, shared);

    bool known = layout->bits >= 0 && layout->bits <= SWIZZLE_BITS &&
                 layout->shift == SWIZZLE_BITS - layout->bits &&
                 layout->pitch == SWIZZLE_BYTES >> layout->shift;
    if (!known && shared->kind != SHARED_VECTORS)
        tir_fault(v, NULL, "buffer %" PRIu32 " has not the swizzle of rows of %" PRId32 " bytes",
                  shared->id, layout->pitch);
    take(v, bytes, (Range){begin, end, shared->id, "stages"}, v->fn->shared_bytes);
}

static void
check_tensor_memory(Verifier *v, const TirShared *pipeline, Ranges *columns)
{
    int64_t begin = pipeline->offset;
    int64_t all = v->fn->plan->tmem_columns / tir_consumers(v->fn->plan);

    if (pipeline->over != NULL) {
        if (begin != pipeline->over->offset + (int64_t)tir_tmem_first(pipeline))
            tir_fault(v, NULL, "buffer %" PRIu32 " does not lie over buffer %" PRIu32, pipeline->id,
                      pipeline->over->id);
        return;
    }
    int64_t end = begin + (int64_t)pipeline->stages * tir_tmem_columns(pipeline);
    take(v, columns, (Range){begin, end, pipeline->id, "columns"}, all);
}

void
tir_check_memory(Verifier *v)
{
    const TirFn *fn = v->fn;
    Ranges bytes = {0}, columns = {0};

    if (fn->plan == NULL || fn->shared_bytes == 0)
        return;
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *shared = fn->shared.at[k];
        int64_t barriers = shared->barriers;
        if (tir_is_pipeline(shared) && shared->with == NULL)
            take(v, &bytes,
                 (Range){barriers,
                         barriers + (int64_t)MBARRIER_BYTES * tir_channel(fn, shared).barriers, k,
                         "barriers"},
                 fn->shared_bytes);
        if (shared->kind == SHARED_TMEM)
            check_tensor_memory(v, shared, &columns);
        else if (shared->kind != SHARED_TILE && shared->kind != SHARED_SENT &&
                 shared->over == NULL && shared->layout != NULL)
            check_shared_memory(v, shared, &bytes);
    }
}
