/* interpret_heap.c - what programs compute: allocated one by one, freed when nothing holds it. */
#include <string.h>

#include "dsl/interpret_internal.h"

enum { COLLECT_BYTES = 32 << 20 };

void *
heap_new(Run *run, ObjectKind kind, size_t bytes)
{
    const Allocator *allocator = &run->options->allocator;
    Object *object = allocator->allocate(allocator->user, bytes);

    if (object == NULL)
        longjmp(*run->arena->on_failure, 1);
    memset(object, 0, kind == OBJECT_TILE ? sizeof(RunTile) : bytes); /* elements come later */
    *object = (Object){run->heap->objects, bytes, kind, false};
    run->heap->objects = object;
    run->heap->live_bytes += bytes;
    return object;
}

void
temp_push(Run *run, RunValue value)
{
    vec_push(run->arena, &run->temps, value);
}

/* ---- what is held ---- */

static void mark_value(const RunValue *value);

static void
mark_pads(Pad *pad)
{
    for (; pad != NULL; pad = pad->next)
        pad->object.marked = true;
}

static void
mark_tile(RunTile *tile)
{
    if (tile == NULL || tile->object.marked)
        return;
    tile->object.marked = true;
    for (uint32_t d = 0; d < tile->shape.rank; d++)
        mark_pads(tile->pads[d]);
}

static void
mark_value(const RunValue *value)
{
    switch (value->kind) {
    case RUN_TILE: mark_tile(value->tile); break;
    case RUN_STEPS: value->steps->object.marked = true; break;
    case RUN_RANGE:
        value->range->object.marked = true;
        mark_pads(value->range->pads);
        if (value->range->pack != NULL)
            value->range->pack->object.marked = true;
        break;
    case RUN_TUPLE:
        value->fields->object.marked = true;
        for (uint32_t i = 0; i < value->fields->n; i++)
            mark_value(&value->fields->at[i]);
        break;
    default: break;
    }
}

static void
release(const Interpret *options, Object *object)
{
    options->heap->live_bytes -= object->bytes;
    options->allocator.release(options->allocator.user, object);
}

void
heap_collect(Run *run)
{
    Object *all = run->heap->objects, *kept = NULL;

    if (run->heap->live_bytes < run->heap->collect_at)
        return;
    for (const RunFrame *frame = run->frame; frame != NULL; frame = frame->caller) {
        mark_value(&frame->result);
        for (const RunBinding *b = frame->bindings; b != NULL; b = b->next)
            mark_value(&b->value);
    }
    for (uint32_t i = 0; i < run->temps.n; i++)
        mark_value(&run->temps.at[i]);
    while (all != NULL) {
        Object *object = all;
        all = object->next;
        if (!object->marked) {
            release(run->options, object);
            continue;
        }
        object->marked = false;
        object->next = kept;
        kept = object;
    }
    run->heap->objects = kept;
    run->heap->collect_at = 2 * run->heap->live_bytes + COLLECT_BYTES;
}

void
interpret_free(const Interpret *options)
{
    while (options->heap->objects != NULL) {
        Object *object = options->heap->objects;
        options->heap->objects = object->next;
        release(options, object);
    }
}
