/* tir_verify_memory.c - where pipelines and their barriers lie in shared memory, and in tensor
 * memory, once they are placed.
 *
 * Each has a place of its own, but for those that are over another one or share its barriers, and
 * all lie in what the kernel asks for.  Other buffers lie behind them, in what each consumer has
 * for itself, and may lie over one another there: `place_sync` has the barriers between their uses.
 */
#include "compiler/ir/isa.h"
#include "compiler/ir/layout.h"
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>

enum { MOST_RANGES = 256, NO_BUFFER = UINT32_MAX };

typedef struct Range {
    int64_t begin, end;
    uint32_t buffer; /* NO_BUFFER: of the plan */
    const char *what;
} Range;

typedef struct Ranges {
    uint32_t n;
    Range at[MOST_RANGES];
} Ranges;

static const char *
range_name(Verifier *v, const Range *range)
{
    return range->buffer == NO_BUFFER
               ? range->what
               : arena_printf(v->fn->arena, "%s of buffer %" PRIu32, range->what, range->buffer);
}

/* A place from `begin` on, before `end_of_all`, where nothing else is. */
static void
take(Verifier *v, Ranges *ranges, Range own, int64_t end_of_all)
{
    if (own.end > end_of_all)
        tir_fault(v, NULL, "the %s end at %" PRId64 ", and there are %" PRId64, range_name(v, &own),
                  own.end, end_of_all);
    for (uint32_t k = 0; k < ranges->n; k++) {
        const Range *other = &ranges->at[k];
        if (own.begin < other->end && other->begin < own.end)
            tir_fault(v, NULL, "the %s lie where the %s do", range_name(v, &own),
                      range_name(v, other));
    }
    if (ranges->n < MOST_RANGES)
        ranges->at[ranges->n++] = own;
}

/* What the plan has for itself. */
static void
take_words(Verifier *v, Ranges *bytes, int64_t end_of_all)
{
    const TirPlan *plan = v->fn->plan;
    int64_t tiles = plan->tiles.offset;
    const Range words[] = {
        {tiles, tiles + TILE_PIPELINE_BYTES + (tir_has_clc(plan) ? CLC_BYTES : 0), NO_BUFFER,
         "tile indices"},
        {plan->mark, plan->mark + MBARRIER_BYTES, NO_BUFFER, "phases of the mark"},
        {plan->tmem_start, plan->tmem_start + MBARRIER_BYTES, NO_BUFFER,
         "addresses of tensor memory"}};
    const bool has[] = {tir_is_dynamic(plan), plan->mark != 0, plan->tmem_columns != 0};

    for (uint32_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        if (has[k])
            take(v, bytes, words[k], end_of_all);
    }
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
        return (int64_t)layout->pitch * shared->stages * parts;
    return layout->rows * row * shared->stages * parts;
}

static void
check_shared_memory(Verifier *v, const TirShared *shared, Ranges *bytes, int64_t end_of_all)
{
    const SharedLayout *layout = shared->layout;
    int64_t begin = shared->offset, end = begin + stage_bytes(v->fn, shared);

    if (shared->over != NULL) {
        begin = shared->over->offset;
        if (begin != shared->offset)
            tir_fault(v, NULL, "buffer %" PRIu32 " does not lie over buffer %" PRIu32, shared->id,
                      shared->over->id);
    }
    if (shared->over == NULL && tir_is_pipeline(shared) && end - begin != shared->bytes)
        tir_fault(v, NULL, "buffer %" PRIu32 " has %" PRIu32 " bytes, and its stages %" PRId64,
                  shared->id, shared->bytes, end - begin);
    bool known = layout->bits >= 0 && layout->bits <= SWIZZLE_BITS &&
                 layout->shift == SWIZZLE_BITS - layout->bits &&
                 layout->pitch == SWIZZLE_BYTES >> layout->shift;
    if (!known && shared->kind != SHARED_VECTORS)
        tir_fault(v, NULL, "buffer %" PRIu32 " has not the swizzle of rows of %" PRId32 " bytes",
                  shared->id, layout->pitch);
    if (shared->over == NULL)
        take(v, bytes, (Range){begin, end, shared->id, "stages"}, end_of_all);
}

/* The buffers that are no pipelines, in what the first consumer has for itself. */
static void
check_private(Verifier *v, const TirShared *shared, int64_t begin, int64_t bytes)
{
    const SharedLayout *layout = shared->layout;
    int64_t first = shared->offset, end = first + shared->bytes;

    if (layout != NULL && (int64_t)layout->rows * layout->pitch * shared->stages > shared->bytes)
        tir_fault(v, NULL, "buffer %" PRIu32 " has %" PRIu32 " bytes for %" PRIu32 " stages",
                  shared->id, shared->bytes, shared->stages);
    if (first < begin || end > begin + bytes)
        tir_fault(v, NULL,
                  "buffer %" PRIu32 " lies from %" PRId64 " to %" PRId64
                  ", and a consumer's own memory from %" PRId64 " to %" PRId64,
                  shared->id, first, end, begin, begin + bytes);
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
    const TirRole *consumers = tir_role(fn->plan, ROLE_CONSUMER);
    int64_t private = consumers->private_bytes;
    int64_t end = fn->shared_bytes - private * tir_consumers(fn->plan); /* of what is not */
    take_words(v, &bytes, end);
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *shared = fn->shared.at[k];
        int64_t barriers = shared->barriers;
        if (tir_is_pipeline(shared) && shared->with == NULL)
            take(v, &bytes,
                 (Range){barriers,
                         barriers + (int64_t)MBARRIER_BYTES * tir_channel(fn, shared).barriers, k,
                         "barriers"},
                 end);
        if (shared->scales > 0)
            take(v, &columns,
                 (Range){shared->column, shared->column + shared->places * tir_tmem_columns(shared),
                         k, "columns"},
                 fn->plan->tmem_columns);
        if (shared->kind == SHARED_TMEM)
            check_tensor_memory(v, shared, &columns);
        else if (shared->kind == SHARED_TILE)
            check_private(v, shared, end, private);
        else if (shared->kind != SHARED_SENT && shared->layout != NULL)
            check_shared_memory(v, shared, &bytes, end);
    }
}
