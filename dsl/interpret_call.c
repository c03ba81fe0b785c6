/* interpret_call.c - calls: the built-in functions, and functions of the program. */
#include <math.h>
#include <string.h>

#include "dsl/builtins.h"
#include "dsl/dsl.h"
#include "dsl/interpret_internal.h"

static const RunValue error_value = {.kind = RUN_ERROR};

/* ---- built-in functions ---- */

/* A call of one, its arguments evaluated. */
typedef struct Call {
    Run *run;
    const Expr *expr;
    int code;
    uint32_t n;
    const RunValue *args;
    const RunValue *named[BUILTIN_NAMED]; /* NULL: it is not there */
} Call;

/* What one means. */
typedef struct Meaning {
    int code;
    RunValue (*run)(const Call *call);
} Meaning;

/* What the compiled program computes of it must be i32: how many steps there are, and the indices
 * of each range. */
static RunValue
steps_value(const Call *call, Num lo, Num hi, int64_t step, int32_t tile)
{
    Run *run = call->run;
    double extent = hi.value - lo.value;

    if (extent - tile < INT32_MIN || extent + (double)(step - 1) > INT32_MAX)
        return run_fail(run, call->expr->span,
                        "E-ARITHMETIC: %.0f - %.0f, and a step of %lld more, does not fit in i32",
                        hi.value, lo.value, (long long)step);
    if (hi.value + tile - 1 > INT32_MAX && tile > 0)
        return run_fail(run, call->expr->span,
                        "E-ARITHMETIC: the indices of a range of %d at %.0f do not fit in i32",
                        tile, hi.value);
    RunSteps *steps = heap_new(run, OBJECT_STEPS, sizeof *steps);
    steps->lo = lo;
    steps->hi = hi;
    steps->step = step;
    steps->tile = tile;
    return (RunValue){.kind = RUN_STEPS, .steps = steps};
}

static RunValue
call_tiles(const Call *call)
{
    Run *run = call->run;
    const Expr *over = call->expr->args.at[0].value;
    bool span = over->kind == EXPR_SPAN;
    RunValue lo = span ? run_eval(run, over->a) : run_int(0);
    Num first = run_integer(run, &lo);
    RunValue hi = run_eval(run, span ? over->b : over);
    Num last = run_integer(run, &hi);
    int64_t tile;

    if (run->stopped || !run_eval_int(run, call->expr->args.at[1].value, &tile))
        return error_value;
    return steps_value(call, first, last, tile, (int32_t)tile);
}

static RunValue
call_range(const Call *call)
{
    Run *run = call->run;
    Num lo = call->n > 1 ? run_integer(run, &call->args[0]) : num_of(0);
    Num hi = run_integer(run, &call->args[call->n > 1 ? 1 : 0]);

    return steps_value(call, lo, hi, call->n > 2 ? call->args[2].integer : 1, 0);
}

static RunValue
call_iota(const Call *call)
{
    RunRange *range = heap_new(call->run, OBJECT_RANGE, sizeof *range);
    int64_t length;

    if (!run_eval_int(call->run, call->expr->args.at[0].value, &length))
        return error_value;
    range->length = (int32_t)length;
    range->step = 1;
    return (RunValue){.kind = RUN_RANGE, .range = range};
}

/* Ranges whose indices one dimension runs over, the last the fastest; a position is padding where
 * one of them has padding. */
static RunValue
call_pack(const Call *call)
{
    Run *run = call->run;
    RunPack *pack = heap_new(run, OBJECT_PACK, sizeof *pack);
    RunValue out = tuple_new(run, call->n);
    Pad *pads = NULL;
    int32_t rows = 1, inner = 1;

    for (uint32_t i = 0; i < call->n; i++)
        rows *= call->args[i].range->length;
    pack->n = call->n;
    pack->rows = rows;
    for (uint32_t i = call->n; i-- > 0;) {
        const RunRange *given = call->args[i].range;
        RunRange *part = heap_new(run, OBJECT_RANGE, sizeof *part);
        part->start = given->start;
        part->length = given->length;
        part->step = given->step;
        part->pack = pack;
        part->inner = inner;
        part->part = i;
        out.fields->at[i] = (RunValue){.kind = RUN_RANGE, .range = part};
        for (const Pad *pad = given->pads; pad != NULL; pad = pad->next) {
            Pad *wide = pad_new(run, pad->depth, rows);
            for (int32_t r = 0; r < rows; r++)
                wide->mask[r] = pad->mask[r / inner % given->length];
            wide->some = pad->some;
            pads = pads_join(run, pads, wide);
        }
        inner *= given->length;
    }
    for (uint32_t i = 0; i < call->n; i++)
        out.fields->at[i].range->pads = pads;
    return out;
}

static RunValue
call_cdiv(const Call *call)
{
    return run_cdiv(call->run, call->expr->span, call->args[0], call->args[1]);
}

static RunValue
call_math(const Call *call)
{
    return run_math(call->run, call->expr->span, (Math)call->code, call->args[0]);
}

/* The axis that a call names, of a tile; -1: it names none. */
static int32_t
axis_of(const Call *call, const RunTile *x)
{
    if (call->named[0] == NULL)
        return -1;
    int64_t axis = call->named[0]->integer;
    return (int32_t)(axis < 0 ? axis + x->shape.rank : axis);
}

static RunValue
call_reduction(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return tile_reduce(call->run, call->expr->span, (Reduction)call->code, x.tile,
                       axis_of(call, x.tile));
}

static RunValue
call_scan(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return tile_scan(call->run, call->expr->span, (Reduction)call->code, x.tile,
                     axis_of(call, x.tile), call->named[1] != NULL && call->named[1]->integer != 0);
}

/* By a function of the program, whose name the first argument is. */
static RunValue
call_by_function(const Call *call)
{
    const Expr *name = dsl_argument(call->expr, 0);
    const Function *function = dsl_called(call->run->ast, name,
                                          builtin_find(name->text) != BUILTIN_COUNT);
    RunValue value = run_eval(call->run, dsl_argument(call->expr, 1));
    if (value.kind == RUN_ERROR)
        return error_value;
    return run_by_function(call->run, call->expr->span, function, value, call->named[0],
                           call->named[1] != NULL && call->named[1]->integer != 0, call->code != 0);
}

static RunValue
call_arg(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return tile_arg(call->run, call->expr->span, call->code == REDUCTION_MAX, x.tile,
                    axis_of(call, x.tile));
}

static RunValue
call_top(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return tile_top(call->run, call->expr->span, x.tile, axis_of(call, x.tile),
                    (int32_t)call->args[1].integer);
}

static RunValue
call_sort(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return tile_sort(call->run, call->expr->span, x.tile, axis_of(call, x.tile));
}

static RunValue
call_minmax(const Call *call)
{
    if (call->n == 1)
        return call_reduction(call);
    return run_minmax(call->run, call->expr->span, call->code == REDUCTION_MAX, call->args[0],
                      call->args[1]);
}

static RunValue
call_where(const Call *call)
{
    return run_where(call->run, call->expr->span, call->args[0], call->args[1], call->args[2]);
}

static RunValue
call_fma(const Call *call)
{
    return run_fma(call->run, call->expr->span, call->args);
}

static RunValue
call_mulhi(const Call *call)
{
    return run_mulhi(call->run, call->expr->span, call->args[0], call->args[1]);
}

static RunValue
call_bits(const Call *call)
{
    const RunValue *type = call->n > 1 ? &call->args[1] : NULL;

    return run_bits(call->run, call->expr->span, call->args[0], type != NULL ? &type->type : NULL);
}

static RunValue
call_mask(const Call *call)
{
    RunValue lowest = run_number(-INFINITY);

    if (call->args[0].kind != RUN_TILE)
        return error_value;
    return run_where(call->run, call->expr->span, call->args[1], call->args[0], lowest);
}

/* Whether no scale is negative: instructions have no sign for them. */
static bool
scales_have_no_sign(const Call *call, RunTile *scales)
{
    tile_skips(call->run, scales);
    for (uint32_t k = 0; k < scales->n; k++) {
        if ((scales->skip == NULL || !scales->skip[k]) && scales->at[k].value < 0) {
            run_fail(call->run, call->expr->span, "E-PRODUCT: a scale of %g: scales have no sign",
                     scales->at[k].value);
            return false;
        }
    }
    return true;
}

/* A side of a product and its scales, each repeated for a block of the inner dimension `axis`, in
 * bf16. */
static RunValue
scaled_side(const Call *call, RunValue x, const RunValue *scale, uint32_t axis)
{
    Span span = call->expr->span;

    if (x.kind == RUN_TILE && scale != NULL && scale->kind == RUN_TILE) {
        int32_t block = x.tile->shape.dim[axis] / scale->tile->shape.dim[axis];
        RunValue wide = run_cast(call->run, span, x, DT_F32);
        RunValue factor = run_cast(call->run, span, *scale, DT_F32);
        if (wide.kind != RUN_TILE || factor.kind != RUN_TILE ||
            !scales_have_no_sign(call, factor.tile))
            return error_value;
        wide = tile_fold(call->run, span, wide.tile, axis, block);
        factor = tile_fold(call->run, span, factor.tile, axis, 1); /* one for a block */
        x = run_binary(call->run, span, OP_MUL, wide, factor);
        if (x.kind == RUN_TILE)
            x = tile_unfold(call->run, span, x.tile, axis);
    }
    return x.kind == RUN_TILE ? run_cast(call->run, span, x, DT_BF16) : error_value;
}

static RunValue
call_mma(const Call *call)
{
    RunValue sides[] = {call->args[0], call->args[1]};
    bool scaled = call->named[1] != NULL || call->named[2] != NULL;

    for (uint32_t k = 0; k < 2; k++) {
        if (sides[k].kind == RUN_TILE && scaled)
            sides[k] = scaled_side(call, sides[k], call->named[1 + k],
                                   sides[k].tile->shape.rank - 1 - k);
        if (sides[k].kind != RUN_TILE)
            return error_value;
    }
    RunTile *a = sides[0].tile, *b = sides[1].tile, *acc = NULL;
    if (call->n > 2) {
        Shape shape = a->shape;
        shape.dim[shape.rank - 1] = b->shape.dim[shape.rank - 1];
        acc = run_fit(call->run, call->expr->span, call->args[2], dtype_wide(a->type), &shape);
        if (acc == NULL)
            return error_value;
    }
    call->run->fast = call->named[0] != NULL && call->named[0]->integer != 0;
    return a->shape.rank == 2 ? tile_product(call->run, call->expr->span, a, b, acc)
                              : tile_products(call->run, call->expr->span, a, b, acc);
}

static RunValue
call_shape(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return run_int(x.tile->shape.dim[call->args[1].integer]);
}

static RunValue
call_fold(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return tile_fold(call->run, call->expr->span, x.tile, (uint32_t)call->args[1].integer,
                     (int32_t)call->args[2].integer);
}

static RunValue
call_unfold(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return tile_unfold(call->run, call->expr->span, x.tile, (uint32_t)call->args[1].integer);
}

static RunValue
call_dtype(const Call *call)
{
    RunValue x = range_tile(call->run, call->args[0]);

    if (x.kind != RUN_TILE)
        return error_value;
    return (RunValue){.kind = RUN_TYPE, .type = x.tile->type};
}

static const Meaning meanings[BUILTIN_COUNT] = {
    [BUILTIN_TILES] = {0, call_tiles},
    [BUILTIN_RANGE] = {0, call_range},
    [BUILTIN_IOTA] = {0, call_iota},
    [BUILTIN_PACK] = {0, call_pack},
    [BUILTIN_CDIV] = {0, call_cdiv},
    [BUILTIN_MAX] = {REDUCTION_MAX, call_minmax},
    [BUILTIN_MIN] = {REDUCTION_MIN, call_minmax},
    [BUILTIN_SUM] = {REDUCTION_SUM, call_reduction},
    [BUILTIN_ANY] = {REDUCTION_ANY, call_reduction},
    [BUILTIN_ALL] = {REDUCTION_ALL, call_reduction},
    [BUILTIN_CUMSUM] = {REDUCTION_SUM, call_scan},
    [BUILTIN_CUMMAX] = {REDUCTION_MAX, call_scan},
    [BUILTIN_SCAN] = {0, call_by_function},
    [BUILTIN_REDUCE] = {1, call_by_function},
    [BUILTIN_ARGMAX] = {REDUCTION_MAX, call_arg},
    [BUILTIN_ARGMIN] = {REDUCTION_MIN, call_arg},
    [BUILTIN_TOP] = {0, call_top},
    [BUILTIN_SORT] = {0, call_sort},
    [BUILTIN_WHERE] = {0, call_where},
    [BUILTIN_FMA] = {0, call_fma},
    [BUILTIN_MASK] = {0, call_mask},
    [BUILTIN_MMA] = {0, call_mma},
    [BUILTIN_EXP] = {MATH_EXP, call_math},
    [BUILTIN_EXP2] = {MATH_EXP2, call_math},
    [BUILTIN_LOG] = {MATH_LOG, call_math},
    [BUILTIN_LOG2] = {MATH_LOG2, call_math},
    [BUILTIN_SQRT] = {MATH_SQRT, call_math},
    [BUILTIN_RSQRT] = {MATH_RSQRT, call_math},
    [BUILTIN_RCP] = {MATH_RCP, call_math},
    [BUILTIN_TANH] = {MATH_TANH, call_math},
    [BUILTIN_SIN] = {MATH_SIN, call_math},
    [BUILTIN_COS] = {MATH_COS, call_math},
    [BUILTIN_FLOOR] = {MATH_FLOOR, call_math},
    [BUILTIN_ROUND] = {MATH_ROUND, call_math},
    [BUILTIN_ABS] = {MATH_ABS, call_math},
    [BUILTIN_FOLD] = {0, call_fold},
    [BUILTIN_UNFOLD] = {0, call_unfold},
    [BUILTIN_MULHI] = {0, call_mulhi},
    [BUILTIN_BITS] = {0, call_bits},
    [BUILTIN_SHAPE] = {0, call_shape},
    [BUILTIN_DTYPE] = {0, call_dtype},
};

static RunValue
call_builtin(Run *run, Builtin builtin, const Expr *expr)
{
    Call call = {.run = run, .expr = expr, .code = meanings[builtin].code};
    RunValue args[BUILTIN_ARGS] = {{0}}, named[BUILTIN_NAMED];
    uint32_t mark = run->temps.n;

    for (uint32_t i = 0; i < expr->args.n; i++) {
        if (builtin_info(builtin)->as_written && expr->args.at[i].name == NULL)
            continue;
        RunValue value = run_eval(run, expr->args.at[i].value);
        if (value.kind == RUN_ERROR)
            return value;
        if (expr->args.at[i].name != NULL) {
            uint32_t at = builtin_argument(builtin, expr->args.at[i].name);
            named[at] = value;
            call.named[at] = &named[at];
            continue;
        }
        temp_push(run, value);
        if (call.n < BUILTIN_ARGS)
            args[call.n++] = value;
    }
    run->temps.n = mark;
    call.args = args;
    return meanings[builtin].run(&call);
}

/* ---- functions of the program ---- */

/* The argument for parameter `at`: by name, else by its place. */
static const Expr *
argument_for(const Function *function, const Expr *call, uint32_t at)
{
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Arg *arg = &call->args.at[i];
        if (arg->name == NULL ? i == at : strcmp(arg->name, function->params.at[at].name.text) == 0)
            return arg->value;
    }
    return NULL;
}

/* What a typed parameter makes of its argument; names of extents are declared. */
static RunValue
take_argument(Run *run, const Param *param, RunValue value)
{
    const TypeRef *type = param->type;
    DType element;

    if (type == NULL)
        return value;
    if (!type->has_dims) {
        if (value.kind == RUN_INT && run_find_type(run, type->base.text, &element) &&
            element == DT_F32)
            value = run_number((double)value.integer);
        return value;
    }
    value = range_tile(run, value);
    for (uint32_t i = 0; i < type->dims.n && value.kind == RUN_TILE; i++) {
        const Expr *dim = type->dims.at[i].value;
        if (dim->kind == EXPR_NAME && run_find(run, dim->text) == NULL)
            run_declare(run, dim->text, run_int(value.tile->shape.dim[i]));
    }
    return value;
}

/* Gives parameter `at` of the function in `frame` its argument, evaluated in the caller's frame. */
static bool
bind_argument(Run *run, const Function *function, uint32_t at, const Expr *call, RunFrame *frame)
{
    const Param *param = &function->params.at[at];
    const Expr *argument = argument_for(function, call, at);
    RunValue value = {.kind = RUN_ERROR};
    RunPlace place = {0};

    if (argument != NULL && param->mode == PARAM_VAR) {
        place = run_place(run, argument);
        if (place.root != NULL)
            value = run_read(&place);
    } else if (argument != NULL) {
        value = run_eval(run, argument);
    }
    if (value.kind == RUN_ERROR)
        return false;
    temp_push(run, value);
    run->frame = frame;
    RunBinding *binding = run_declare(run, param->name.text, take_argument(run, param, value));
    run->frame = frame->caller;
    binding->is_alias = param->mode == PARAM_VAR;
    binding->place = place;
    return true;
}

/* What a function returns, run in its frame, where the arguments are; `mark`: the temporaries in
 * front of them. */
static RunValue
run_body(Run *run, RunFrame *frame, uint32_t mark)
{
    run->frame = frame;
    run_block(run, frame->function->body);
    run_leave(run, NULL);
    run->frame = frame->caller;
    run->temps.n = mark;
    return run->stopped      ? error_value
           : frame->returned ? frame->result
                             : (RunValue){.kind = RUN_NOTHING};
}

static RunValue
call_function(Run *run, const Function *function, const Expr *call)
{
    uint32_t mark = run->temps.n;
    RunFrame frame = {.caller = run->frame, .function = function, .call = call->span};

    for (uint32_t i = 0; i < function->params.n; i++)
        if (!bind_argument(run, function, i, call, &frame))
            return error_value;
    return run_body(run, &frame, mark);
}

RunValue
run_call_with(Run *run, const Function *function, Span call, const RunValue *args)
{
    uint32_t mark = run->temps.n;
    RunFrame frame = {.caller = run->frame, .function = function, .call = call};

    for (uint32_t i = 0; i < function->params.n; i++)
        temp_push(run, args[i]);
    run->frame = &frame;
    for (uint32_t i = 0; i < function->params.n; i++) {
        const Param *param = &function->params.at[i];
        run_declare(run, param->name.text, take_argument(run, param, args[i]));
    }
    return run_body(run, &frame, mark);
}

RunValue
run_call(Run *run, const Expr *call)
{
    Builtin builtin = builtin_find(call->text);
    const Function *function = dsl_called(run->ast, call, builtin != BUILTIN_COUNT);

    if (function != NULL)
        return call_function(run, function, call);
    return builtin == BUILTIN_COUNT ? error_value : call_builtin(run, builtin, call);
}
