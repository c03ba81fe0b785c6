/* interpret_print.c - `print` and `assert`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dsl/interpret_internal.h"

enum { SHOWN_ELEMENTS = 1000, EDGE = 3, NUMBER_BYTES = 32 };

static void
shape_text(DType type, const Shape *shape, Buf *out)
{
    buf_add(out, dtype_name(type));
    for (uint32_t d = 0; d < shape->rank; d++)
        buf_printf(out, "%s%d", d == 0 ? "[" : ", ", shape->dim[d]);
    if (shape->rank > 0)
        buf_char(out, ']');
}

static const char *
number_text(DType type, double x, char *text)
{
    if (type == DT_BOOL)
        return x != 0 ? "true" : "false";
    if (!dtype_is_float(type))
        snprintf(text, NUMBER_BYTES, "%.0f", x);
    else if (isnan(x))
        return "nan";
    else if (isinf(x))
        return x < 0 ? "-inf" : "inf";
    else
        snprintf(text, NUMBER_BYTES, "%.*g", type == DT_F32 ? 7 : type == DT_F16 ? 4 : 3, x);
    if (dtype_is_float(type) && strpbrk(text, ".e") == NULL)
        strcat(text, ".");
    return text;
}

static const char *
element_text(const RunTile *tile, uint32_t at, char *text)
{
    if (tile->skip != NULL && tile->skip[at])
        return ".";
    return number_text(tile->type, tile->at[at].value, text);
}

/* Whether position i of a dimension is left out of a large tile. */
static bool
is_hidden(const RunTile *tile, int32_t extent, int32_t i)
{
    return tile->n > SHOWN_ELEMENTS && extent > 2 * EDGE + 1 && i >= EDGE && i < extent - EDGE;
}

static int
widest(const RunTile *tile)
{
    char room[NUMBER_BYTES];
    int most = 0;

    for (uint32_t i = 0; i < tile->n; i++) {
        uint32_t rest = i;
        bool hidden = false;
        for (uint32_t d = tile->shape.rank; d-- > 0; rest /= (uint32_t)tile->shape.dim[d])
            hidden |= is_hidden(tile, tile->shape.dim[d],
                                (int32_t)(rest % (uint32_t)tile->shape.dim[d]));
        int n = hidden ? 0 : (int)strlen(element_text(tile, i, room));
        most = n > most ? n : most;
    }
    return most;
}

/* Dimensions from d on, from element `first`, as NumPy shows them. */
static void
print_part(const RunTile *tile, uint32_t d, uint32_t first, int width, Buf *out)
{
    char room[NUMBER_BYTES];
    uint32_t inner = 1;
    bool last = d + 1 == tile->shape.rank;

    for (uint32_t k = d + 1; k < tile->shape.rank; k++)
        inner *= (uint32_t)tile->shape.dim[k];
    buf_char(out, '[');
    for (int32_t i = 0; i < tile->shape.dim[d]; i++) {
        if (i > 0 && last)
            buf_char(out, ' ');
        if (i > 0 && !last)
            buf_printf(out, "\n%*s", (int)d + 3, "");
        if (is_hidden(tile, tile->shape.dim[d], i)) {
            buf_add(out, "..");
            i = tile->shape.dim[d] - EDGE - 1;
        } else if (last) {
            buf_printf(out, "%*s", width, element_text(tile, first + (uint32_t)i, room));
        } else {
            print_part(tile, d + 1, first + (uint32_t)i * inner, width, out);
        }
    }
    buf_char(out, ']');
}

static void
print_value(Run *run, RunValue value, const char *name, Buf *out)
{
    char room[NUMBER_BYTES];

    value = range_tile(run, value);
    if (value.kind == RUN_TUPLE) {
        for (uint32_t i = 0; i < value.fields->n; i++) {
            const char *field = value.fields->names[i];
            print_value(run, value.fields->at[i],
                        field != NULL ? arena_printf(run->arena, "%s.%s", name, field)
                                      : arena_printf(run->arena, "%s.%u", name, i),
                        out);
        }
        return;
    }
    buf_printf(out, "  %s: ", name);
    if (value.kind == RUN_TILE) {
        shape_text(value.tile->type, &value.tile->shape, out);
        if (value.tile->shape.rank == 0) {
            buf_printf(out, " = %s\n", element_text(value.tile, 0, room));
            return;
        }
        buf_add(out, "\n  ");
        print_part(value.tile, 0, 0, widest(value.tile), out);
        buf_char(out, '\n');
    } else if (value.kind == RUN_TYPE) {
        buf_printf(out, "type = %s\n", dtype_name(value.type));
    } else if (value.kind == RUN_NUMBER) {
        buf_printf(out, "number = %.17g\n", value.number);
    } else if (value.kind == RUN_BOOL) {
        buf_printf(out, "bool = %s\n", value.integer ? "true" : "false");
    } else {
        buf_printf(out, "int = %lld\n", (long long)value.integer);
    }
}

void
run_print(Run *run, const Stmt *stmt)
{
    SourcePlace place = diag_place(run->diag, stmt->span.lo);
    Buf out, name;

    if (run->setup)
        return;
    buf_init(&out, run->arena);
    buf_printf(&out, "%s:%u: ", place.file->path, place.line);
    program_text(run, &out);
    buf_printf(&out, "%s%s\n", stmt->text != NULL ? ": " : "", stmt->text != NULL ? stmt->text : "");
    for (uint32_t i = 0; i < stmt->args.n; i++) {
        RunValue value = run_eval(run, stmt->args.at[i].value);
        if (value.kind == RUN_ERROR)
            return;
        buf_init(&name, run->arena);
        ast_print_expr(stmt->args.at[i].value, &name);
        print_value(run, value, name.at, &out);
    }
    if (run->options->print != NULL)
        run->options->print(run->options->print_user, out.at, out.n);
}

void
run_assert(Run *run, const Stmt *stmt)
{
    RunValue value = run_eval(run, stmt->a);
    Buf text;

    if (value.kind == RUN_ERROR || run->setup || (value.kind == RUN_BOOL && value.integer))
        return;
    buf_init(&text, run->arena);
    ast_print_expr(stmt->a, &text);
    const char *more = stmt->text != NULL ? arena_printf(run->arena, ": %s", stmt->text) : "";
    if (value.kind == RUN_BOOL) {
        run_fail(run, stmt->span, "E-ASSERT: the assertion `%s` does not hold%s", text.at, more);
        return;
    }
    const RunTile *tile = value.tile;
    for (uint32_t i = 0; i < tile->n; i++) {
        if ((tile->skip != NULL && tile->skip[i]) || tile->at[i].value != 0)
            continue;
        Buf where;
        buf_init(&where, run->arena);
        uint32_t inner = tile->n, rest = i;
        for (uint32_t d = 0; d < tile->shape.rank; d++) {
            inner /= (uint32_t)tile->shape.dim[d];
            buf_printf(&where, "%s%u", d == 0 ? " at element [" : ", ", rest / inner);
            rest %= inner;
        }
        run_fail(run, stmt->span, "E-ASSERT: the assertion `%s` does not hold%s%s%s", text.at,
                 tile->shape.rank > 0 ? where.at : "", tile->shape.rank > 0 ? "]" : "", more);
        return;
    }
}
