/* tir_read.c - reads tile IR back from the text that tir_text.c writes.
 *
 * A recursive descent parser that reads the text once: definitions come before uses.  It stops at
 * the first error, since this text is written by programs and by people who work on the compiler.
 * Errors that one line does not show (types that disagree, dominance) are found by the verifier.
 */
#include "compiler/ir/tir_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

typedef VEC(TirVal *) ValueList;

static void
take_uses(Reader *r, ValueList *list)
{
    do {
        TirVal *value = reader_take_use(r);
        vec_push(r->arena, list, value);
    } while (reader_accept(r, ","));
}

/* ---- names of the kernel ---- */

static TirTensor *
take_tensor(Reader *r)
{
    Span span = r->token.span;
    const char *text = reader_take(r, TOK_NAME, "the name of a tensor");

    for (uint32_t k = 0; k < r->fn->tensors.n; k++)
        if (strcmp(r->fn->tensors.at[k]->name, text) == 0)
            return r->fn->tensors.at[k];
    reader_fail_at(r, span, arena_printf(r->arena, "there is no tensor '%s' in this kernel", text));
    return NULL;
}

/* "$name_0" or "$_0": the number decides. */
static TirShared *
take_shared(Reader *r)
{
    Span span = r->token.span;
    const char *text = reader_take(r, TOK_SHARED, "a shared buffer ('$name_number')");
    const char *underscore = strrchr(text, '_');

    if (r->failed)
        return NULL;
    unsigned long at = underscore == NULL ? ULONG_MAX : strtoul(underscore + 1, NULL, 10);
    if (at < r->fn->shared.n)
        return r->fn->shared.at[at];
    reader_fail_at(r, span, arena_printf(r->arena, "there is no shared buffer '$%s'", text));
    return NULL;
}

/* ---- operations ---- */

typedef struct Results {
    VEC(Token) names;
    VEC(TirType) types;
    VEC(const Layout *) layouts;
} Results;

/* "@3", or nothing */
static const Layout *
take_layout(Reader *r)
{
    if (!reader_accept(r, "@"))
        return NULL;
    Span span = r->token.span;
    uint32_t at = reader_u32(r);
    if (!r->failed && at >= r->layouts.n)
        reader_fail_at(r, span, "there is no layout of this number");
    return r->failed ? NULL : r->layouts.at[at];
}

enum { BLOCK_MAX_DEPTH = 100 };

static void take_block(Reader *r, TirBlock *block, uint32_t depth);

static bool
find_opcode(const char *text, TirOpcode *opcode)
{
    for (int k = 0; k < TIR_OPCODE_COUNT; k++) {
        if (strcmp(tir_op_info((TirOpcode)k)->text, text) == 0) {
            *opcode = (TirOpcode)k;
            return true;
        }
    }
    return false;
}

/* 128, or a part of a pack: 8 by 4 of 64 */
static TirIndex
take_range(Reader *r)
{
    TirIndex index = {.kind = INDEX_RANGE, .length = reader_extent(r)};

    if (reader_accept(r, "by")) {
        index.inner = reader_extent(r);
        reader_expect(r, "of");
        index.rows = reader_extent(r);
    }
    if (reader_accept(r, "step"))
        index.step = reader_extent(r);
    index.open = reader_accept(r, "open");
    if (reader_accept(r, "within"))
        index.within = reader_extent(r);
    return index;
}

/* limit(0, %count), limit(0, %count +: 8 by 4 of 64): any number of them */
static void
take_limits(Reader *r, TirOp *op, ValueList *args)
{
    VEC(TirLimit) limits = {0};

    while (reader_accept(r, "limit")) {
        TirLimit limit = {0};
        reader_expect(r, "(");
        limit.axis = reader_u32(r);
        reader_expect(r, ",");
        TirVal *count = reader_take_use(r);
        vec_push(r->arena, args, count);
        if (reader_accept(r, "+:"))
            limit.part = take_range(r);
        else if (reader_accept(r, "within"))
            limit.part.within = reader_extent(r);
        reader_expect(r, ")");
        vec_push(r->arena, &limits, limit);
    }
    op->limits = limits.at;
    op->n_limits = limits.n;
}

/* Name[%b, %m +: 128, :] and its limits */
static TirTensor *
take_index(Reader *r, TirOp *op, ValueList *args)
{
    TirTensor *tensor = take_tensor(r);
    TirIndex *index = op->index;

    reader_expect(r, "[");
    for (uint32_t k = 0; !r->failed && k < tensor->rank; k++) {
        if (k > 0)
            reader_expect(r, ",");
        if (reader_accept(r, ":")) {
            index[k] = (TirIndex){.kind = INDEX_FULL, .length = tensor->dim[k].constant};
            if (tensor->dim[k].constant == 0)
                reader_fail(r, "':' takes a dimension of constant extent");
            continue;
        }
        TirVal *value = reader_take_use(r);
        vec_push(r->arena, args, value);
        index[k] = (TirIndex){.kind = INDEX_SCALAR};
        if (reader_accept(r, "+:"))
            index[k] = take_range(r);
        else if (reader_accept(r, "each"))
            index[k] = tir_places(value->type);
    }
    reader_expect(r, "]");
    take_limits(r, op, args);
    return tensor;
}

static ReduceKind
take_reduce(Reader *r)
{
    for (uint32_t k = 0; k < REDUCE_COUNT; k++) {
        if (reader_accept(r, tir_reduction_info((ReduceKind)k)->text))
            return (ReduceKind)k;
    }
    reader_fail(r, "expected sum, max, min, any or all");
    return REDUCE_SUM;
}

static TirShared *
take_stage(Reader *r, ValueList *args)
{
    TirShared *shared = take_shared(r);

    reader_expect(r, "[");
    TirVal *stage = reader_take_use(r);
    vec_push(r->arena, args, stage);
    reader_expect(r, "]");
    return shared;
}

/* The operands of an operation without blocks, and the attributes behind them. */
/* "consumer(2)", if it comes next; what comes is counted from `first`. */
static void
take_consumer(Reader *r, TirOp *op, int64_t first)
{
    if (!reader_accept(r, "consumer"))
        return;
    reader_expect(r, "(");
    op->integer = first + (int64_t)reader_u32(r);
    reader_expect(r, ")");
}

/* What an operation on a buffer in shared memory names; false: it is none. */
static bool
take_shared_operands(Reader *r, TirOp *op, ValueList *args)
{
    switch (op->op) {
    case TIR_COPY_ASYNC:
        op->shared = take_stage(r, args);
        reader_expect(r, ",");
        op->tensor = take_index(r, op, args);
        return true;
    case TIR_TMA_LOAD:
        op->shared = take_shared(r);
        take_consumer(r, op, 0);
        reader_expect(r, ",");
        op->tensor = take_index(r, op, args);
        if (reader_accept(r, "if")) {
            TirVal *condition = reader_take_use(r);
            vec_push(r->arena, args, condition);
        }
        return true;
    case TIR_WANT:
        op->shared = take_shared(r);
        reader_expect(r, ",");
        op->tensor = take_index(r, op, args);
        return true;
    case TIR_CONSUMER_WAIT:
        op->shared = take_shared(r);
        op->own = reader_accept(r, "own");
        take_consumer(r, op, 0);
        return true;
    case TIR_CONSUMER_RELEASE:
        op->shared = take_shared(r);
        take_consumer(r, op, 0);
        if (reader_accept(r, ","))
            take_uses(r, args);
        return true;
    case TIR_PRODUCER_ACQUIRE:
    case TIR_PRODUCER_COMMIT:
    case TIR_TMEM_READ:
    case TIR_STAGING_EMPTY:
        op->shared = take_shared(r);
        take_consumer(r, op, 0);
        op->sliced = op->op == TIR_TMEM_READ && reader_accept(r, "sliced");
        return true;
    case TIR_TMEM_MMA:
    case TIR_TMEM_WRITE:
    case TIR_PAIR_SEND:
    case TIR_PAIR_SUM:
    case TIR_STAGING_WRITE:
        op->shared = take_shared(r);
        take_consumer(r, op, 0);
        reader_expect(r, ",");
        take_uses(r, args);
        return true;
    case TIR_SHARED_READ:
        op->shared = take_stage(r, args);
        op->coop_k = reader_accept(r, "coop_k");
        op->sliced = reader_accept(r, "sliced");
        op->own = reader_accept(r, "own");
        op->oldest = reader_accept(r, "oldest");
        take_consumer(r, op, op->coop_k ? 1 : 0);
        return true;
    case TIR_TMA_REDUCE_ADD:
    case TIR_TMA_STORE:
        op->shared = take_shared(r);
        reader_expect(r, ",");
        op->tensor = take_index(r, op, args);
        if (op->op == TIR_TMA_REDUCE_ADD)
            return true;
        reader_expect(r, ",");
        take_uses(r, args);
        return true;
    case TIR_SHARED_WRITE:
        op->shared = take_stage(r, args);
        reader_expect(r, ",");
        take_uses(r, args);
        return true;
    default: return false;
    }
}

static void
take_operands(Reader *r, TirOp *op, ValueList *args, const Results *results)
{
    switch (op->op) {
    case TIR_CONST:
        if (results->types.n > 0 && dtype_is_float(results->types.at[0].dtype))
            op->number = reader_number(r);
        else
            op->integer = reader_integer(r, INT64_MIN + 1, INT64_MAX);
        return;
    case TIR_PARAM: op->integer = reader_named(r, reader_find_scalar, "a scalar"); return;
    case TIR_SIZE: op->integer = reader_named(r, reader_find_size, "a size"); return;
    case TIR_GRID_FIRST:
    case TIR_GRID:
        op->integer = reader_named(r, reader_find_axis, "a grid axis");
        op->uniform = reader_accept(r, "uniform");
        return;
    case TIR_ASYNC_WAIT:
    case TIR_MMA_WAIT:
        op->integer = reader_integer(r, 0, INT32_MAX);
        if (reader_accept(r, ","))
            take_uses(r, args);
        return;
    case TIR_LOAD: op->tensor = take_index(r, op, args); return;
    case TIR_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD:
        op->tensor = take_index(r, op, args);
        reader_expect(r, ",");
        take_uses(r, args);
        return;
    default:
        if (tir_combines(op))
            op->reduce = take_reduce(r);
        if (take_shared_operands(r, op, args))
            return;
        break;
    }
    if (r->token.kind == TOK_VALUE && !r->token.new_line) /* else it begins the next operation */
        take_uses(r, args);
    if ((op->op == TIR_IOTA || tir_has_part(op)) && reader_accept(r, "+:"))
        op->index[0] = take_range(r);
    else if (op->op == TIR_IOTA && reader_accept(r, "within"))
        op->index[0].within = reader_extent(r);
}

static int8_t
take_pipeline_stage(Reader *r)
{
    if (!reader_accept(r, "stage"))
        return 0;
    reader_expect(r, "(");
    bool ahead = reader_accept(r, "-");
    uint32_t stage = reader_u32(r);
    reader_expect(r, ")");
    if (stage != 1)
        reader_fail(r, "a stage is 1 or -1, or none is written");
    return ahead ? -1 : 1;
}

/* What is known of an exponent, and how it is computed. */
static void
take_exponent(Reader *r, TirOp *op)
{
    op->small = reader_accept(r, "small");
    op->hides = reader_accept(r, "hides");
    if (!reader_accept(r, "polynomial"))
        return;
    reader_expect(r, "(");
    op->polynomial = reader_u32(r);
    reader_expect(r, ")");
    if (op->polynomial == 0 || op->polynomial > 16)
        reader_fail(r, "of 16 elements, 1 to 16 are computed by a polynomial");
}

/* part(0) by f_0: the number decides. */
static void
take_combine_of(Reader *r, TirOp *op)
{
    reader_expect(r, "part");
    reader_expect(r, "(");
    op->integer = reader_u32(r);
    reader_expect(r, ")");
    reader_expect(r, "by");
    Span span = r->token.span;
    const char *text = reader_take(r, TOK_NAME, "what combines two elements");
    const char *underscore = strrchr(text, '_');
    unsigned long at = underscore == NULL ? ULONG_MAX : strtoul(underscore + 1, NULL, 10);

    if (!r->failed && at < r->fn->combines.n)
        op->combine = r->fn->combines.at[at];
    else
        reader_fail_at(r, span,
                       arena_printf(r->arena, "there is no combine '%s' in this kernel", text));
}

static void
take_attributes(Reader *r, TirOp *op)
{
    if (tir_has_axis(op)) {
        reader_expect(r, "axis");
        reader_expect(r, "(");
        op->axis = reader_u32(r);
        reader_expect(r, ")");
        op->integer = op->op == TIR_PART ? -1 : 0;
        if (op->op == TIR_PART && reader_accept(r, "number")) {
            reader_expect(r, "(");
            op->integer = reader_u32(r);
            reader_expect(r, ")");
        }
        if (tir_combines_tuples(op))
            take_combine_of(r, op);
        op->partial = tir_combines(op) && reader_accept(r, "partial");
        op->vote_warp = tir_combines(op) && reader_accept(r, "vote_warp");
    } else if (op->op == TIR_FROM || op->op == TIR_KEEP) {
        reader_expect(r, "number");
        reader_expect(r, "(");
        op->integer = reader_u32(r);
        reader_expect(r, ")");
    } else if (op->op == TIR_EXP2) {
        take_exponent(r, op);
    } else if (op->op == TIR_ADD || op->op == TIR_SUB || op->op == TIR_MUL) {
        op->rounded = reader_accept(r, "rounded");
    } else if (op->op == TIR_MASK && reader_accept(r, "segments")) {
        reader_expect(r, "(");
        op->segments = reader_u32(r);
        reader_expect(r, ")");
    } else if (op->op == TIR_BOUNDS_MASK) {
        reader_expect(r, "value");
        reader_expect(r, "(");
        op->number = reader_number(r);
        reader_expect(r, ")");
        if (reader_accept(r, "segments")) {
            reader_expect(r, "(");
            op->segments = reader_u32(r);
            reader_expect(r, ")");
        }
    } else if (op->op == TIR_MMA) {
        if (reader_accept(r, "warps")) {
            reader_expect(r, "(");
            op->warps_m = reader_u32(r);
            reader_expect(r, ",");
            op->warps_n = reader_u32(r);
            reader_expect(r, ")");
        }
        op->fast = reader_accept(r, "fast");
        op->swap_ab = reader_accept(r, "swap_ab");
        op->async = reader_accept(r, "async");
        op->coop_k = reader_accept(r, "coop_k");
    }
    if (reader_accept(r, "kept")) {
        reader_expect(r, "(");
        op->kept = 1 + reader_u32(r);
        reader_expect(r, ")");
    }
    if (reader_accept(r, "through"))
        op->shared = take_shared(r);
    op->stage = take_pipeline_stage(r);
}

static TirOp *
make_op(Reader *r, TirBlock *block, TirOpcode opcode, Span span, const ValueList *args,
        const Results *results)
{
    TirBuilder b = {.fn = r->fn, .block = block, .at = -1, .span = span};
    return tir_op_new(&b, opcode, args->n, args->at, results->types.n, results->types.at);
}

static void
make_blocks(Reader *r, TirOp *op, uint32_t n)
{
    op->n_blocks = n;
    op->blocks = arena_array(r->arena, TirBlock *, n);
    for (uint32_t k = 0; k < n; k++) {
        op->blocks[k] = tir_block_new(r->fn);
        op->blocks[k]->owner = op;
    }
}

/* masked(j, b): `apart` has a bit for each of the grid's axes that are named. */
static bool
take_masked(Reader *r, uint32_t *apart)
{
    if (!reader_accept(r, "masked"))
        return false;
    if (!reader_accept(r, "("))
        return true;
    do
        *apart |= 1u << (reader_named(r, reader_find_axis, "a grid axis") & 31);
    while (!r->failed && reader_accept(r, ","));
    reader_expect(r, ")");
    return true;
}

/* %i: i32 in %lo .. %hi split(..) masked carry(..) stages(n) no_split any_order backwards staggered
 * { .. } */
static TirOp *
take_for(Reader *r, TirBlock *block, Span span, const Results *results, uint32_t depth)
{
    ValueList args = {0};
    Results params = {0};
    LoopHints hints = {0};
    uint32_t n_segments = 0;

    Token induction = r->token;
    reader_take(r, TOK_VALUE, "the induction variable");
    reader_expect(r, ":");
    TirType type = reader_type(r);
    const Layout *induction_layout = take_layout(r);
    reader_expect(r, "in");
    TirVal *lo = reader_take_use(r);
    vec_push(r->arena, &args, lo);
    reader_expect(r, "..");
    TirVal *hi = reader_take_use(r);
    vec_push(r->arena, &args, hi);
    if (reader_accept(r, "split")) {
        reader_expect(r, "(");
        if (!reader_sees(r, ")"))
            take_uses(r, &args);
        reader_expect(r, ")");
        n_segments = args.n - 1;
    }
    uint32_t apart = 0;
    bool masked = take_masked(r, &apart);
    if (reader_accept(r, "carry")) {
        reader_expect(r, "(");
        do {
            Token name = r->token;
            reader_take(r, TOK_VALUE, "the name of a carried value");
            const Layout *layout = take_layout(r);
            reader_expect(r, "=");
            TirVal *initial = reader_take_use(r);
            if (r->failed)
                return NULL;
            vec_push(r->arena, &params.names, name);
            vec_push(r->arena, &params.layouts, layout);
            vec_push(r->arena, &args, initial);
        } while (reader_accept(r, ","));
        reader_expect(r, ")");
    }
    if (reader_accept(r, "stages")) {
        reader_expect(r, "(");
        hints.stages = (int32_t)reader_integer(r, INT32_MIN, INT32_MAX);
        reader_expect(r, ")");
    }
    hints.no_split = reader_accept(r, "no_split");
    hints.any_order = reader_accept(r, "any_order");
    hints.backwards = reader_accept(r, "backwards");
    hints.staggered = reader_accept(r, "staggered");
    reader_place(r, span);
    if (r->failed)
        return NULL;

    TirOp *op = make_op(r, block, TIR_FOR, span, &args, results);
    op->n_segments = n_segments;
    op->masked = masked;
    op->apart = apart;
    op->hints = hints;
    make_blocks(r, op, 1);
    TirVal *index = tir_block_param(r->fn, op->blocks[0], type, NULL);
    index->layout = induction_layout;
    reader_define(r, induction, index);
    for (uint32_t k = 0; k < params.names.n; k++) {
        TirVal *initial = args.at[args.n - params.names.n + k];
        TirVal *param = tir_block_param(r->fn, op->blocks[0], initial->type, NULL);
        param->layout = params.layouts.at[k];
        reader_define(r, params.names.at[k], param);
    }
    uint32_t loops = 0; /* around it; the passes put up to four around the program's own */
    for (const TirBlock *at = block; at->owner != NULL; at = at->owner->parent)
        loops += at->owner->op == TIR_FOR;
    if (loops == LOOP_MAX_DEPTH + 4)
        reader_fail(r, "loops are nested too deeply");
    take_block(r, op->blocks[0], depth + 1);
    return op;
}

static TirOp *
take_if(Reader *r, TirBlock *block, Span span, const Results *results, uint32_t depth)
{
    ValueList args = {0};
    TirVal *condition = reader_take_use(r);

    if (r->failed)
        return NULL;
    vec_push(r->arena, &args, condition);
    TirOp *op = make_op(r, block, TIR_IF, span, &args, results);
    op->by_rows = reader_accept(r, "by_rows");
    op->stage = take_pipeline_stage(r);
    reader_place(r, span);
    make_blocks(r, op, 2);
    take_block(r, op->blocks[0], depth + 1);
    reader_expect(r, "else");
    take_block(r, op->blocks[1], depth + 1);
    return op;
}

/* "%a: f32, %b: f32 =", or nothing */
static void
take_results(Reader *r, Results *results)
{
    if (r->token.kind != TOK_VALUE)
        return;
    do {
        Token name = r->token;
        reader_take(r, TOK_VALUE, "a value to define");
        reader_expect(r, ":");
        TirType type = reader_type(r);
        const Layout *layout = take_layout(r);
        vec_push(r->arena, &results->names, name);
        vec_push(r->arena, &results->types, type);
        vec_push(r->arena, &results->layouts, layout);
    } while (reader_accept(r, ","));
    reader_expect(r, "=");
}

static TirOp *
take_simple(Reader *r, TirBlock *block, TirOpcode opcode, Span span, const Results *results)
{
    TirOp attributes = {.op = opcode, .segments = UINT32_MAX};
    ValueList args = {0};

    take_operands(r, &attributes, &args, results);
    take_attributes(r, &attributes);
    reader_place(r, span);
    if (r->failed)
        return NULL;
    int32_t wanted = tir_op_info(opcode)->args;
    if (wanted >= 0 && args.n != (uint32_t)wanted) {
        reader_fail_at(r, span,
                       arena_printf(r->arena, "'%s' takes %d operands, here are %u",
                                    tir_op_info(opcode)->text, (int)wanted, args.n));
        return NULL;
    }
    TirOp *op = make_op(r, block, opcode, span, &args, results);
    op->number = attributes.number;
    op->integer = attributes.integer;
    op->axis = attributes.axis;
    op->reduce = attributes.reduce;
    op->combine = attributes.combine;
    op->tensor = attributes.tensor;
    memcpy(op->index, attributes.index, sizeof op->index);
    op->limits = attributes.limits;
    op->n_limits = attributes.n_limits;
    op->segments = attributes.segments;
    op->shared = attributes.shared;
    op->warps_m = attributes.warps_m;
    op->warps_n = attributes.warps_n;
    op->vote_warp = attributes.vote_warp;
    op->fast = attributes.fast;
    op->swap_ab = attributes.swap_ab;
    op->partial = attributes.partial;
    op->rounded = attributes.rounded;
    op->small = attributes.small;
    op->hides = attributes.hides;
    op->polynomial = attributes.polynomial;
    op->uniform = attributes.uniform;
    op->async = attributes.async;
    op->coop_k = attributes.coop_k;
    op->sliced = attributes.sliced;
    op->own = attributes.own;
    op->oldest = attributes.oldest;
    op->kept = attributes.kept;
    op->stage = attributes.stage;
    return op;
}

static void
take_op(Reader *r, TirBlock *block, uint32_t depth)
{
    Results results = {0};
    Span span = r->token.span;
    TirOpcode opcode;
    TirOp *op;

    take_results(r, &results);
    Token name = r->token;
    reader_take(r, TOK_NAME, "an operation");
    if (r->failed)
        return;
    if (!find_opcode(name.text, &opcode)) {
        reader_fail_at(r, name.span,
                       arena_printf(r->arena, "there is no operation '%s'", name.text));
        return;
    }
    span = span_join(span, name.span);
    int32_t wanted = tir_op_info(opcode)->results;
    if (wanted >= 0 && results.types.n != (uint32_t)wanted) {
        reader_fail_at(r, name.span,
                       arena_printf(r->arena, "'%s' has %d results, here are %u", name.text,
                                    (int)wanted, results.types.n));
        return;
    }
    if (opcode == TIR_FOR)
        op = take_for(r, block, span, &results, depth);
    else if (opcode == TIR_IF)
        op = take_if(r, block, span, &results, depth);
    else
        op = take_simple(r, block, opcode, span, &results);
    for (uint32_t k = 0; !r->failed && k < results.names.n; k++) {
        op->results[k]->layout = results.layouts.at[k];
        reader_define(r, results.names.at[k], op->results[k]);
    }
}

static void
take_block(Reader *r, TirBlock *block, uint32_t depth)
{
    if (depth > BLOCK_MAX_DEPTH)
        reader_fail(r, "blocks are nested too deeply");
    reader_expect(r, "{");
    while (!r->failed && !reader_sees(r, "}"))
        take_op(r, block, depth);
    reader_expect(r, "}");
}

/* ---- kernels ---- */

/* The program of a role, or what consumers want, if its name stands here. */
static bool
take_program(Reader *r)
{
    Span span = r->token.span;

    if (r->fn->plan != NULL && r->fn->plan->wants == NULL && reader_accept(r, "wants")) {
        r->fn->plan->wants_alike = reader_accept(r, "alike");
        reader_place(r, span);
        r->fn->plan->wants = tir_block_new(r->fn);
        take_block(r, r->fn->plan->wants, 0);
        return true;
    }
    for (uint32_t k = 0; r->fn->plan != NULL && k < r->fn->plan->roles.n; k++) {
        TirRole *role = &r->fn->plan->roles.at[k];
        if (role->kind == ROLE_CONSUMER || role->program != NULL || !reader_accept(r, role->name))
            continue;
        reader_place(r, span);
        role->program = tir_block_new(r->fn);
        take_block(r, role->program, 0);
        return true;
    }
    return false;
}

/* combine f_0(%x_0: f32, %y_1: f32) { .. }, if it stands here. */
static bool
take_combine(Reader *r)
{
    TirFn *outer = r->fn;
    Span span = r->token.span;

    if (!reader_accept(r, "combine"))
        return false;
    const char *text = reader_take(r, TOK_NAME, "a name");
    const char *underscore = strrchr(text, '_');
    size_t n = underscore == NULL ? strlen(text) : (size_t)(underscore - text);
    r->fn = tir_combine_new(outer, arena_printf(r->arena, "%.*s", (int)n, text), span);
    reader_forget_values(r);
    reader_expect(r, "(");
    do {
        Token name = r->token;
        reader_take(r, TOK_VALUE, "an argument");
        reader_expect(r, ":");
        TirType type = reader_type(r);
        if (!r->failed)
            reader_define(r, name, tir_block_param(r->fn, r->fn->body, type, NULL));
    } while (!r->failed && reader_accept(r, ","));
    reader_expect(r, ")");
    take_block(r, r->fn->body, 0);
    reader_forget_values(r);
    r->fn = outer;
    return true;
}

static void
take_kernel(Reader *r)
{
    reader_expect(r, "kernel");
    Span span = r->token.span;
    const char *name = reader_take(r, TOK_NAME, "the name of a kernel");
    if (r->failed)
        return;
    r->fn = tir_fn_new(r->module, name, span);
    r->layouts.n = 0;
    r->from = NULL;
    reader_forget_values(r);
    reader_expect(r, "{");
    while (!r->failed && !reader_sees(r, "body")) {
        if (!take_program(r) && !take_combine(r))
            reader_head_line(r);
    }
    span = r->token.span;
    reader_expect(r, "body");
    reader_place(r, span);
    take_block(r, r->fn->body, 0);
    while (!r->failed && take_program(r))
        ;
    reader_expect(r, "}");
}

TirModule *
tir_read(Arena *arena, Diag *diag, const SourceFile *file)
{
    Reader r = {.arena = arena, .diag = diag, .file = file};

    r.module = arena_new(arena, TirModule);
    r.module->arena = arena;
    r.module->diag = diag;
    for (uint32_t k = 0; k < diag->files.n; k++)
        diag->files.at[k]->is_ir |= diag->files.at[k] == file;
    reader_next(&r);
    while (!r.failed && r.token.kind != TOK_END)
        take_kernel(&r);
    return r.failed ? NULL : r.module;
}
