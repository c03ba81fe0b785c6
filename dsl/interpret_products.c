/* interpret_products.c - products of matrices, and how far a compiled one may be from them. */
#include <math.h>
#include <string.h>

#include "dsl/interpret_internal.h"

/* Marks the positions of the inner dimension that neither side has as padding. */
static void
mark_inner(const Pad *pads, uint8_t *skip)
{
    for (; pads != NULL; pads = pads->next)
        for (int32_t i = 0; i < pads->n && pads->some && pads->more == 0; i++)
            skip[i] |= pads->mask[i];
}

/* Of one row of the result.  Where sums are cut at the greatest product by its operands' exponents,
 * which of subnormals are that of the least normal number, also this product: of 8-bit floats,
 * where zeros count, too, and of others where an operand is subnormal. Of 8-bit floats also what
 * partial sums are no more than, up and down. */
typedef struct Row {
    double *value, *error, *size, *up, *down, *most;
    double least_a, least_b; /* these numbers */
    uint32_t step;           /* of the inner dimension, in the shortest instruction */
} Row;

/* The power of two of its exponent. */
static double
power_of(double x)
{
    int exponent;

    frexp(x, &exponent);
    return ldexp(1, exponent - 1);
}

static void
add_subnormal_row(const Row *row, Num a, const Num *b, uint32_t n)
{
    double of_a = fabs(a.value) + a.error;

    for (uint32_t k = 0; k < n && of_a > 0; k++) {
        double of_b = fabs(b[k].value) + b[k].error;
        if (of_b > 0 && (of_a < row->least_a || of_b < row->least_b))
            row->most[k] = fmax(row->most[k], power_of(fmax(of_a, row->least_a)) *
                                                  power_of(fmax(of_b, row->least_b)));
    }
}

static void
add_narrow_row(const Row *row, Num a, const Num *b, uint32_t n)
{
    double most = fmax(fabs(a.value) + a.error, row->least_a);

    for (uint32_t k = 0; k < n; k++) {
        double value = a.value * b[k].value, size = fabs(b[k].value) + b[k].error;
        double error = (fabs(a.value) + a.error) * size - fabs(value);
        if (isnan(value) || isnan(error))
            value = error = INFINITY;
        row->up[k] += error + (value > 0 ? value : 0);
        row->down[k] += error - (value < 0 ? value : 0);
        row->most[k] = fmax(row->most[k], most * fmax(size, row->least_b));
    }
}

static void
add_product_row(Run *run, const Row *row, Num a, const Num *b, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        row->value[k] += a.value * b[k].value;
    if (!run->rounding.bounds)
        return;
    if (row->up != NULL)
        add_narrow_row(row, a, b, n);
    else if (row->most != NULL)
        add_subnormal_row(row, a, b, n);
    for (uint32_t k = 0; k < n; k++) {
        double size = a.size == 0 || b[k].size == 0 ? 0 : a.size * b[k].size;
        row->size[k] += size;
        if (a.error > 0 || b[k].error > 0) {
            double error = a.error > 0 ? a.error * (fabs(b[k].value) + b[k].error) : 0;
            if (b[k].error > 0)
                error += fabs(a.value) * b[k].error;
            row->error[k] += error;
        }
    }
}

/* A power of two that all elements are multiples of; 0: none is known. */
static double
grain_of(const RunTile *x)
{
    double grain = INFINITY;

    for (uint32_t i = 0; i < x->n && grain > 0; i++)
        grain = x->at[i].error > 0 ? 0 : fmin(grain, num_grain(num_of(x->at[i].value)));
    return grain;
}

static bool
has_nan(const RunTile *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (isnan(x->at[i].value) && (x->skip == NULL || !x->skip[i]))
            return true;
    return false;
}

/* Whether element (i, j) is a NaN in every compiled kernel, too. */
static bool
product_is_nan(const RunTile *a, const RunTile *b, uint32_t i, uint32_t j, const uint8_t *skip,
               const Num *acc)
{
    uint32_t inner = (uint32_t)a->shape.dim[1], columns = (uint32_t)b->shape.dim[1];
    Special have = {0};

    if (acc != NULL)
        note_special(&have, acc->value, acc->error);
    for (uint32_t k = 0; k < inner; k++) {
        Num x = a->at[i * inner + k], y = b->at[(size_t)k * columns + j];
        bool nan = (isnan(x.value) && x.error == 0) || (isnan(y.value) && y.error == 0);
        if (!skip[k] && !isfinite(x.value * y.value) && (!isfinite(x.value) || !isfinite(y.value)))
            note_special(&have, x.value * y.value, nan ? 0 : x.error + y.error);
    }
    return makes_nan(&have);
}

static uint32_t
instructions(const Row *row, uint32_t inner)
{
    return (inner + row->step - 1) / row->step;
}

/* What tensor cores that keep 13 bits below the largest exponent may cut off a sum of multiples of
 * `grain` to which `before` belongs: in each instruction of each product, of what was summed, and
 * of the result.  What the language promises is no less. */
static double
narrow_cut(const Row *row, uint32_t k, uint32_t inner, double before, double grain)
{
    enum { BITS = 13 };
    double promised = 0x1p-6 * (row->size[k] + before);
    double most = fmax(row->most[k], fmax(row->up[k], row->down[k]) + before + promised);
    int exponent;

    if (!isfinite(most))
        return promised;
    frexp(most, &exponent);
    double unit = ldexp(1, exponent - 1 - BITS);
    if (grain >= unit)
        return 0;
    return fmin(promised, (inner + 2 * instructions(row, inner)) * (unit - grain));
}

/* The same of other floats, which keep 25 bits: more than f32 has, so only where subnormals raise
 * the exponent.  `of_all`: what the products and what was summed are multiples of. */
static double
subnormal_cut(const Row *row, uint32_t k, uint32_t inner, double of_all, double grain)
{
    enum { BITS = 25 };
    double unit = ldexp(row->most[k], -BITS);

    return inner * fmax(unit - grain, 0) + instructions(row, inner) * fmax(unit - of_all, 0);
}

/* `grain`: of the products. */
static Num
product_element(Run *run, const Row *row, uint32_t k, uint32_t inner, double grain, const Num *acc)
{
    Num out = {.value = row->value[k]};

    if (acc != NULL)
        out.value += acc->value;
    if (fabs(out.value) >= 0x1.ffffffp127 && isfinite(out.value))
        out.value = copysign(INFINITY, out.value);
    if (!run->rounding.bounds)
        return out;
    out.error = row->error[k] + (acc != NULL ? acc->error : 0);
    out.size = row->size[k] + (acc != NULL ? acc->size : 0);
    bool goes_on = run->fast && acc != NULL;
    bool known = acc == NULL ||
                 (acc->error == 0 && acc->fused == 0); /* no part of a multiply-add */
    double deferred = acc != NULL && isfinite(acc->deferred) ? acc->deferred : 0;
    double of_all = acc == NULL ? grain : fmin(grain, known ? num_grain(*acc) : 0);
    double cut = row->most == NULL ? 0
                 : row->up == NULL ? subnormal_cut(row, k, inner, of_all, grain)
                                   : narrow_cut(row, k, inner, goes_on ? acc->size + acc->error : 0,
                                                goes_on ? of_all : grain);
    bool exact = cut == 0 && out.error == 0 && num_is_exact(of_all, out.size);
    out.grain = exact && isfinite(of_all) ? of_all : 0;
    out.deferred = exact ? deferred : 0;
    if (!exact && !isinf(out.value)) /* the unit may cut off what it should round */
        out.error += (inner + 2) * (0x1p-23 * (out.size + out.error) + 0x1p-149) + cut + deferred;
    if (isnan(out.value) || isnan(out.error) ||
        (!(out.size + out.error < 0x1.ffffffp127) && !isinf(row->value[k])))
        out.error = out.size = INFINITY;
    return out;
}

/* Of i8 and u8: exact. */
static Num
product_integer(Run *run, Span span, const Row *row, uint32_t k, const Num *acc)
{
    Num out = num_of(row->value[k] + (acc != NULL ? acc->value : 0));

    if (run->rounding.bounds)
        out.error = row->error[k] + (acc != NULL ? acc->error : 0);
    if (out.value < INT32_MIN || out.value > INT32_MAX) {
        run_fail(run, span,
                 "E-ARITHMETIC: this product has a sum of %.0f, which does not fit in i32",
                 out.value);
        out = num_of(0);
    }
    return out;
}

enum { PER_COLUMN = 6 };
_Static_assert(PER_COLUMN * sizeof(double) <= sizeof(Num), "a row of these is a row of numbers");

static bool
has_below(const RunTile *x, double least)
{
    bool found = false;

    for (uint32_t i = 0; i < x->n && !found; i++) {
        double size = fabs(x->at[i].value) + x->at[i].error;
        found = size > 0 && size < least;
    }
    return found;
}

/* `room` for a row of the result. */
static Row
row_of(const Run *run, const RunTile *a, const RunTile *b, double *room)
{
    uint32_t n = (uint32_t)b->shape.dim[1];
    Row row = {.value = room, .error = room + n, .size = room + 2 * n};

    row.step = dtype_bits(a->type) > 16 ? 8 : 16;
    row.least_a = ldexp(1, dtype_least(a->type) + dtype_digits(a->type) - 1);
    row.least_b = ldexp(1, dtype_least(b->type) + dtype_digits(b->type) - 1);
    if (run->rounding.bounds && dtype_is_coded(a->type)) {
        row.up = room + 3 * n;
        row.down = room + 4 * n;
        row.most = room + 5 * n;
    } else if (run->rounding.bounds && (has_below(a, row.least_a) || has_below(b, row.least_b)))
        row.most = room + 5 * n;
    return row;
}

RunValue
tile_product(Run *run, Span span, RunTile *a, RunTile *b, RunTile *acc)
{
    uint32_t rows = (uint32_t)a->shape.dim[0], inner = (uint32_t)a->shape.dim[1];
    uint32_t columns = (uint32_t)b->shape.dim[1];
    Shape shape = {2, {a->shape.dim[0], b->shape.dim[1]}}, line = {1, {b->shape.dim[1]}};
    RunTile *out = tile_new(run, dtype_wide(a->type), &shape);
    RunTile *room = tile_new(run, DT_F32, &line);
    RunTile *skips = tile_new(run, DT_BOOL, &(Shape){1, {a->shape.dim[1]}});
    Row row = row_of(run, a, b, (double *)(void *)room->at);
    double grain_a = run->rounding.bounds ? grain_of(a) : 0,
           grain_b = grain_a > 0 ? grain_of(b) : 0;
    double grain = grain_b > 0 ? grain_a * grain_b : 0;
    bool excused = has_nan(a) || has_nan(b);

    if (!run_works(run, span, (uint64_t)rows * inner * columns / 8))
        return (RunValue){.kind = RUN_ERROR};
    uint8_t *skip = memset(skips->room, 0, inner);
    mark_inner(a->pads[1], skip);
    mark_inner(b->pads[0], skip);
    tile_move_pads(run, out, a, (int32_t[]){0, -1});
    tile_move_pads(run, out, b, (int32_t[]){-1, 1});
    if (acc != NULL)
        tile_take_pads(run, out, acc);
    tile_skips(run, out);
    for (uint32_t i = 0; i < rows; i++) {
        Num *to = out->at + (size_t)i * columns;
        memset(row.value, 0, PER_COLUMN * columns * sizeof *row.value);
        for (uint32_t k = 0; k < inner; k++)
            if (!skip[k])
                add_product_row(run, &row, a->at[i * inner + k], b->at + (size_t)k * columns,
                                columns);
        for (uint32_t j = 0; j < columns; j++) {
            const Num *plus = acc != NULL ? &acc->at[(size_t)i * columns + j] : NULL;
            if (!dtype_is_float(out->type)) {
                to[j] = product_integer(run, span, &row, j, plus);
                continue;
            }
            to[j] = product_element(run, &row, j, inner, grain, plus);
            if (run->options->sums != NULL)
                to[j] = num_of(sums_element(run, a, b, i, j, skip, plus == NULL ? 0 : plus->value));
            if (isnan(to[j].value) && run->rounding.bounds && product_is_nan(a, b, i, j, skip, plus))
                to[j].error = 0;
            if (isnan(to[j].value) && !excused && (plus == NULL || !isnan(plus->value)) &&
                (out->skip == NULL || !out->skip[(size_t)i * columns + j]))
                run_nan(run, span, "this product");
        }
    }
    return run->stopped ? (RunValue){.kind = RUN_ERROR} : tile_value(out);
}

/* Element `k` along the first dimension, of a tile of three. */
static RunTile *
slice_of(Run *run, const RunTile *x, uint32_t k)
{
    RunTile *out = tile_new(run, x->type, &(Shape){2, {x->shape.dim[1], x->shape.dim[2]}});

    memcpy(out->at, x->at + (size_t)k * out->n, out->n * sizeof *out->at);
    tile_move_pads(run, out, x, (int32_t[]){-1, 0, 1});
    tile_skips(run, out);
    return out;
}

RunValue
tile_products(Run *run, Span span, RunTile *a, RunTile *b, RunTile *acc)
{
    Shape shape = {3, {a->shape.dim[0], a->shape.dim[1], b->shape.dim[2]}};
    RunTile *out = NULL;

    for (uint32_t k = 0; k < (uint32_t)shape.dim[0]; k++) {
        RunValue one = tile_product(run, span, slice_of(run, a, k), slice_of(run, b, k),
                                    acc == NULL ? NULL : slice_of(run, acc, k));
        if (one.kind != RUN_TILE)
            return one;
        if (out == NULL)
            out = tile_new(run, one.tile->type, &shape);
        memcpy(out->at + (size_t)k * one.tile->n, one.tile->at, one.tile->n * sizeof *out->at);
    }
    tile_move_pads(run, out, a, (int32_t[]){0, 1, -1});
    tile_move_pads(run, out, b, (int32_t[]){0, -1, 2});
    if (acc != NULL)
        tile_take_pads(run, out, acc);
    tile_skips(run, out);
    return tile_value(out);
}
