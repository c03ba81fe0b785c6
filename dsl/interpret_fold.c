/* interpret_fold.c - one axis as two, and two as one. */
#include <string.h>

#include "dsl/interpret_internal.h"

/* The same elements in another shape. */
static RunTile *
reshaped(Run *run, const RunTile *x, const Shape *shape)
{
    RunTile *out = tile_new(run, x->type, shape);

    memcpy(out->at, x->at, out->n * sizeof *out->at);
    return out;
}

RunValue
tile_fold(Run *run, Span span, RunTile *x, uint32_t axis, int32_t inner)
{
    int32_t extent = x->shape.dim[axis];
    Shape shape = {.rank = x->shape.rank + 1};

    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dim[d] = x->shape.dim[d > axis ? d - 1 : d];
    shape.dim[axis] = extent / inner;
    shape.dim[axis + 1] = inner;
    RunTile *out = reshaped(run, x, &shape);
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        for (const Pad *pad = x->pads[d]; pad != NULL; pad = pad->next) {
            int32_t had[RUN_TILE_RANK], dims[RUN_TILE_RANK];
            uint32_t n = 0, n_had = pad_dims(d, pad, had);
            for (uint32_t k = 0; k < n_had; k++) {
                bool folded = had[k] == (int32_t)axis;
                if (!folded || extent != inner || extent == 1)
                    dims[n++] = had[k] + (had[k] > (int32_t)axis);
                if (folded && inner > 1)
                    dims[n++] = had[k] + 1;
            }
            for (int32_t i = 1; i < pad->n && d == axis; i++)
                if (pad->mask[i - 1] && !pad->mask[i])
                    return run_fail(
                        run, span,
                        "E-FOLD: what is folded has padding that is not at the end of axis %u",
                        axis);
            put_pad(run, out, pad, dims, n);
        }
    }
    tile_skips(run, out);
    return tile_value(out);
}

/* `pad`, the last of whose dimensions becomes so many times as long. */
static Pad *
pad_longer(Run *run, const Pad *pad, int32_t times)
{
    Pad *longer = pad_new(run, pad->depth, pad->n * times);

    for (int32_t i = 0; i < longer->n; i++)
        longer->mask[i] = pad->mask[i / times];
    longer->some = pad->some;
    return longer;
}

RunValue
tile_unfold(Run *run, Span span, RunTile *x, uint32_t axis)
{
    int32_t outer = x->shape.dim[axis], inner = x->shape.dim[axis + 1];
    Shape shape = {.rank = x->shape.rank - 1};

    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dim[d] = x->shape.dim[d > axis ? d + 1 : d];
    shape.dim[axis] = outer * inner;
    RunTile *out = reshaped(run, x, &shape);
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        for (const Pad *pad = x->pads[d]; pad != NULL; pad = pad->next) {
            int32_t dims[RUN_TILE_RANK];
            uint32_t n = pad_dims(d, pad, dims), kept = 0;
            bool first = false, second = false;
            for (uint32_t k = 0; k < n; k++) {
                bool again = dims[k] == (int32_t)axis + 1 && first;
                first |= dims[k] == (int32_t)axis;
                second |= dims[k] == (int32_t)axis + 1;
                if (!again)
                    dims[kept++] = dims[k] - (dims[k] > (int32_t)axis);
            }
            if (second && !first && outer > 1 && pad->some)
                return run_fail(
                    run, span,
                    "E-FOLD: what is unfolded has padding that is not at the end of axis %u", axis);
            bool longer = first && !second && inner > 1;
            if (first || !second || outer == 1)
                put_pad(run, out, longer ? pad_longer(run, pad, inner) : pad, dims, kept);
        }
    }
    tile_skips(run, out);
    return tile_value(out);
}
