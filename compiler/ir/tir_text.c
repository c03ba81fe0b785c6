/* tir_text.c - tile IR as text.
 *
 *     kernel scale {
 *         constant M = 128
 *         size S
 *         tensor X: in f16[S, 64] align 16
 *         tensor Y: out f16[S, 64] align 16
 *         scalar factor: f32
 *         grid m = cdiv(S, 128)
 *         from "scale.tile" 4        the line of the program; so says each loop: for .. at 7 {
 *         after simplify             the pass that ran last: a compilation goes on behind it
 *         combine f_0(%x_0: f32, %y_1: f32) { .. }     what scan_by and its like make of two elements
 *         body {
 *             %m_0: i32 = grid m
 *             %1: i32 = const 128
 *             %m_2: i32 = mul %m_0, %1
 *             %x_3: f16[128,64] = load X[%m_2 +: 128, :]
 *             ...
 *             store Y[%m_2 +: 128, :], %y_9
 *         }
 *     }
 *
 * Values are numbered by position, so that the text depends on nothing but the program; the name
 * in front of the number is the one from the source.  Attributes that have their default value
 * are left out.  tir_read.c reads exactly this, and what passes and lowering make of it is what
 * they make of the program (tests/lir/round_trip.py).  With -lineinfo every operation says where it
 * comes from.
 */
#include "compiler/ir/tir_printer.h"

#include <inttypes.h>
#include <string.h>

/* ---- numbering ---- */

static void
number_layout(Printer *p, const Layout *layout)
{
    uint32_t at = 0;

    if (layout == NULL)
        return;
    while (at < p->layouts.n && !layout_eq(p->layouts.at[at], layout))
        at++;
    if (at == p->layouts.n)
        vec_push(p->out->arena, &p->layouts, layout);
}

static void
number_value(Printer *p, const TirVal *value)
{
    p->number[value->id] = p->next++;
    number_layout(p, value->layout);
}

static void
number_block(Printer *p, const TirBlock *block)
{
    for (uint32_t k = 0; k < block->params.n; k++)
        number_value(p, block->params.at[k]);
    for (uint32_t k = 0; k < block->ops.n; k++) {
        const TirOp *op = block->ops.at[k];
        for (uint32_t j = 0; j < op->n_results; j++)
            number_value(p, op->results[j]);
        for (uint32_t j = 0; j < op->n_blocks; j++)
            number_block(p, op->blocks[j]);
    }
}

/* ---- small parts ---- */

static void
print_type(Buf *out, TirType type)
{
    buf_add(out, dtype_name(type.dtype));
    if (type.rank == 0)
        return;
    for (uint32_t k = 0; k < type.rank; k++)
        buf_printf(out, "%c%" PRId32, k == 0 ? '[' : ',', type.dim[k]);
    buf_char(out, ']');
}

static void
print_value(Printer *p, const TirVal *value)
{
    if (value == NULL) {
        buf_add(p->out, "%?");
        return;
    }
    buf_char(p->out, '%');
    if (value->name != NULL)
        buf_printf(p->out, "%s_", value->name);
    buf_printf(p->out, "%" PRIu32, p->number[value->id]);
}

/* " @3" */
static void
print_layout(Printer *p, const Layout *layout)
{
    uint32_t at = 0;

    if (layout == NULL)
        return;
    while (!layout_eq(p->layouts.at[at], layout))
        at++;
    buf_printf(p->out, " @%" PRIu32, at);
}

static void
print_definition(Printer *p, const TirVal *value)
{
    print_value(p, value);
    buf_add(p->out, ": ");
    print_type(p->out, value->type);
    print_layout(p, value->layout);
}

static void
print_values(Printer *p, uint32_t n, TirVal *const *values)
{
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0)
            buf_add(p->out, ", ");
        print_value(p, values[k]);
    }
}

/* ---- operations ---- */

static void
print_within(Printer *p, const TirIndex *index)
{
    if (index->within > 0)
        buf_printf(p->out, " within %" PRId32, index->within);
}

/* A range, or a part of a pack: +: 8 by 4 of 64; of indices that are apart: +: 8 step 2. */
static void
print_range(Printer *p, const TirIndex *index)
{
    buf_printf(p->out, " +: %" PRId32, index->length);
    if (index->rows > 0)
        buf_printf(p->out, " by %" PRId32 " of %" PRId32, index->inner, index->rows);
    if (index->step > 1)
        buf_printf(p->out, " step %" PRId32, index->step);
    if (index->open)
        buf_add(p->out, " open");
    print_within(p, index);
}

/* Tensor[%b_1, %m_2 +: 128, :], or by a tile of places Tensor[%t_3 each, :].  Limits stand behind
 * it, with the axis that each is along: Tensor[%m_2 +: 128 open, :] limit(0, %3). */
static void
print_index(Printer *p, const TirOp *op)
{
    buf_printf(p->out, "%s[", op->tensor->name);
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        if (d.dim > 0)
            buf_add(p->out, ", ");
        if (d.at == NULL)
            buf_char(p->out, ':');
        else
            print_value(p, d.at);
        if (d.range || d.strided)
            print_range(p, d.index);
        if (d.places)
            buf_add(p->out, " each");
    }
    buf_char(p->out, ']');
    for (uint32_t k = 0; k < op->n_limits; k++) {
        buf_printf(p->out, " limit(%" PRIu32 ", ", op->limits[k].axis);
        print_value(p, tir_limit_count(op, k));
        if (op->limits[k].part.rows > 0)
            print_range(p, &op->limits[k].part);
        else
            print_within(p, &op->limits[k].part);
        buf_char(p->out, ')');
    }
}

/* $name_0; an operation that lacks its buffer is printed, too: the verifier wants to show it. */
static void
print_shared(Printer *p, const TirShared *shared)
{
    uint32_t at = 0;

    while (at < p->fn->shared.n && p->fn->shared.at[at] != shared)
        at++;
    buf_printf(p->out, "$%s_%" PRIu32, shared == NULL || shared->name == NULL ? "" : shared->name,
               at);
}

/* $name_0[%stage] */
static void
print_stage(Printer *p, const TirOp *op)
{
    print_shared(p, op->shared);
    buf_char(p->out, '[');
    print_value(p, op->args[0]);
    buf_char(p->out, ']');
}

static void print_op(Printer *p, const TirOp *op);

static void
print_block(Printer *p, const TirBlock *block)
{
    buf_add(p->out, "{\n");
    p->depth++;
    for (uint32_t k = 0; k < block->ops.n; k++)
        print_op(p, block->ops.at[k]);
    p->depth--;
    tir_print_indent(p);
    buf_char(p->out, '}');
}

/* masked(j, b): the grid's axes along which the loop's bounds differ beside what masks have made of
 * them. */
static void
print_masked(Printer *p, const TirOp *loop)
{
    const char *before = "(";

    buf_add(p->out, " masked");
    for (uint32_t k = 0; k < p->fn->grid.n; k++) {
        if ((loop->apart >> k & 1) == 0)
            continue;
        buf_printf(p->out, "%s%s", before, tir_axis_name(p->fn, k));
        before = ", ";
    }
    buf_add(p->out, loop->apart != 0 ? ")" : "");
}

/* for %i: i32 in %lo .. %hi split(..) masked carry(%x = %initial, ..) stages(n) no_split any_order
 * backwards staggered { */
static void
print_for(Printer *p, const TirOp *op)
{
    const TirBlock *body = op->blocks[0];
    uint32_t bounds = op->n_segments > 1 ? op->n_segments - 1 : 0;

    print_definition(p, body->params.at[0]);
    buf_add(p->out, " in ");
    print_value(p, op->args[0]);
    buf_add(p->out, " .. ");
    print_value(p, op->args[1]);
    if (op->n_segments > 0) {
        buf_add(p->out, " split(");
        print_values(p, bounds, op->args + 2);
        buf_char(p->out, ')');
    }
    if (op->masked)
        print_masked(p, op);
    if (body->params.n > 1) {
        buf_add(p->out, " carry(");
        for (uint32_t k = 1; k < body->params.n; k++) {
            if (k > 1)
                buf_add(p->out, ", ");
            print_value(p, body->params.at[k]);
            print_layout(p, body->params.at[k]->layout);
            buf_add(p->out, " = ");
            print_value(p, k + 1 + bounds < op->n_args ? op->args[k + 1 + bounds] : NULL);
        }
        buf_char(p->out, ')');
    }
    if (op->hints.stages != 0)
        buf_printf(p->out, " stages(%" PRId32 ")", op->hints.stages);
    if (op->hints.no_split)
        buf_add(p->out, " no_split");
    if (op->hints.any_order)
        buf_add(p->out, " any_order");
    if (op->hints.backwards)
        buf_add(p->out, " backwards");
    if (op->hints.staggered)
        buf_add(p->out, " staggered");
    tir_print_place(p, op->span);
    buf_char(p->out, ' ');
    print_block(p, body);
}

static void
print_pipeline_stage(Printer *p, const TirOp *op)
{
    if (op->stage != 0)
        buf_printf(p->out, " stage(%d)", (int)op->stage);
}

static void
print_if(Printer *p, const TirOp *op)
{
    print_value(p, op->args[0]);
    buf_add(p->out, op->by_rows ? " by_rows" : "");
    print_pipeline_stage(p, op);
    if (p->fn->diag->all_places)
        tir_print_place(p, op->span);
    buf_char(p->out, ' ');
    print_block(p, op->blocks[0]);
    buf_add(p->out, " else ");
    print_block(p, op->blocks[1]);
}

/* Whose part of a buffer the mma role means. */
static void
print_consumer(Printer *p, const TirOp *op)
{
    if (op->integer > 0)
        buf_printf(p->out, " consumer(%" PRId64 ")", op->integer);
}

/* What an operation on a buffer in shared memory names, in the order of the text; false: it is
 * none. */
static bool
print_shared_operands(Printer *p, const TirOp *op)
{
    Buf *out = p->out;

    switch (op->op) {
    case TIR_COPY_ASYNC:
        print_stage(p, op);
        buf_add(out, ", ");
        print_index(p, op);
        return true;
    case TIR_TMA_LOAD:
    case TIR_WANT:
        print_shared(p, op->shared);
        if (op->op != TIR_WANT && op->shared != NULL && op->shared->each)
            buf_printf(out, " consumer(%" PRId64 ")", op->integer);
        buf_add(out, ", ");
        print_index(p, op);
        if (tir_copy_condition(op) != NULL) {
            buf_add(out, " if ");
            print_value(p, tir_copy_condition(op));
        }
        return true;
    case TIR_CONSUMER_WAIT:
        print_shared(p, op->shared);
        buf_add(out, op->own ? " own" : "");
        print_consumer(p, op);
        return true;
    case TIR_PRODUCER_ACQUIRE:
    case TIR_PRODUCER_COMMIT:
    case TIR_TMEM_READ:
    case TIR_STAGING_EMPTY:
        print_shared(p, op->shared);
        print_consumer(p, op);
        buf_add(out, op->op == TIR_TMEM_READ && op->sliced ? " sliced" : "");
        return true;
    case TIR_TMEM_MMA:
    case TIR_TMEM_WRITE:
    case TIR_PAIR_SEND:
    case TIR_PAIR_SUM:
    case TIR_STAGING_WRITE:
        print_shared(p, op->shared);
        print_consumer(p, op);
        buf_add(out, ", ");
        print_values(p, op->n_args, op->args);
        return true;
    case TIR_CONSUMER_RELEASE:
        print_shared(p, op->shared);
        print_consumer(p, op);
        if (op->n_args > 0) {
            buf_add(out, ", ");
            print_value(p, op->args[0]);
        }
        return true;
    case TIR_SHARED_READ:
        print_stage(p, op);
        buf_add(out, op->coop_k ? op->sliced ? " coop_k sliced" : " coop_k"
                     : op->own  ? " own"
                                : "");
        buf_add(out, op->oldest ? " oldest" : "");
        if (op->coop_k && op->integer > 0)
            buf_printf(out, " consumer(%" PRId64 ")", op->integer - 1);
        else if (!op->coop_k)
            print_consumer(p, op);
        return true;
    case TIR_TMA_REDUCE_ADD:
    case TIR_TMA_STORE:
        print_shared(p, op->shared);
        buf_add(out, ", ");
        print_index(p, op);
        if (op->op == TIR_TMA_REDUCE_ADD)
            return true;
        buf_add(out, ", ");
        print_value(p, op->args[op->n_args - 1]);
        return true;
    case TIR_SHARED_WRITE:
        print_stage(p, op);
        buf_add(out, ", ");
        print_value(p, op->args[1]);
        return true;
    default: return false;
    }
}

/* f_0 */
static void
print_combine_name(Printer *p, const TirFn *combine)
{
    uint32_t at = 0;

    while (at < p->fn->combines.n && p->fn->combines.at[at] != combine)
        at++;
    buf_printf(p->out, "%s_%" PRIu32, combine == NULL ? "" : combine->name, at);
}

/* What stands behind the operands. */
static void
print_attributes(Printer *p, const TirOp *op)
{
    Buf *out = p->out;

    if (tir_has_axis(op))
        buf_printf(out, " axis(%" PRIu32 ")", op->axis);
    if ((op->op == TIR_PART && op->integer >= 0) || op->op == TIR_FROM || op->op == TIR_KEEP)
        buf_printf(out, " number(%" PRId64 ")", op->integer);
    if (tir_combines_tuples(op)) {
        buf_printf(out, " part(%" PRId64 ") by ", op->integer);
        print_combine_name(p, op->combine);
    }
    if (op->partial)
        buf_add(out, " partial");
    buf_add(out, op->rounded ? " rounded" : "");
    if (op->small)
        buf_add(out, " small");
    buf_add(out, op->hides ? " hides" : "");
    if (op->polynomial > 0)
        buf_printf(out, " polynomial(%" PRIu32 ")", op->polynomial);
    if (op->vote_warp)
        buf_add(out, " vote_warp");
    if (op->op == TIR_BOUNDS_MASK) {
        buf_add(out, " value(");
        tir_print_number(out, op->number);
        buf_char(out, ')');
    }
    if (tir_is_mask(op) && op->segments != UINT32_MAX)
        buf_printf(out, " segments(%" PRIu32 ")", op->segments);
    if (op->op == TIR_MMA && (op->warps_m != 0 || op->warps_n != 0))
        buf_printf(out, " warps(%" PRIu32 ", %" PRIu32 ")", op->warps_m, op->warps_n);
    buf_add(out, op->fast ? " fast" : "");
    if (op->op == TIR_MMA && op->swap_ab)
        buf_add(out, " swap_ab");
    if (op->op == TIR_MMA && op->async)
        buf_add(out, op->coop_k ? " async coop_k" : " async");
}

static void
print_operands(Printer *p, const TirOp *op)
{
    Buf *out = p->out;

    switch (op->op) {
    case TIR_CONST:
        if (dtype_is_float(op->results[0]->type.dtype))
            tir_print_number(out, op->number);
        else
            buf_printf(out, "%" PRId64, op->integer);
        return;
    case TIR_PARAM: buf_add(out, tir_scalar_name(p->fn, op->integer)); return;
    case TIR_SIZE: buf_add(out, tir_size_name(p->fn, op->integer)); return;
    case TIR_GRID:
    case TIR_GRID_FIRST:
        buf_printf(out, "%s%s", tir_axis_name(p->fn, op->integer), op->uniform ? " uniform" : "");
        return;
    case TIR_LOAD: print_index(p, op); return;
    case TIR_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD:
        print_index(p, op);
        buf_add(out, ", ");
        print_value(p, op->args[op->n_args - 1]);
        return;
    case TIR_ASYNC_WAIT:
    case TIR_MMA_WAIT:
        buf_printf(out, "%" PRId64, op->integer);
        for (uint32_t k = 0; k < op->n_args; k++) {
            buf_add(out, ", ");
            print_value(p, op->args[k]);
        }
        return;
    default:
        if (tir_combines(op))
            buf_printf(out, "%s ", tir_reduction_info(op->reduce)->text);
        if (print_shared_operands(p, op))
            return;
        break;
    }
    print_values(p, op->n_args, op->args);
    if (tir_has_part(op))
        print_range(p, &op->index[0]);
    else if (op->op == TIR_IOTA)
        print_within(p, &op->index[0]);
    print_attributes(p, op);
}

/* Operations that name a buffer among their operands; others, which go through one, name it
 * last. */
static bool
names_shared(TirOpcode op)
{
    switch (op) {
    case TIR_COPY_ASYNC:
    case TIR_SHARED_READ:
    case TIR_SHARED_WRITE:
    case TIR_TMA_LOAD:
    case TIR_WANT:
    case TIR_CONSUMER_WAIT:
    case TIR_CONSUMER_RELEASE:
    case TIR_STAGING_WRITE:
    case TIR_STAGING_EMPTY:
    case TIR_PRODUCER_ACQUIRE:
    case TIR_PRODUCER_COMMIT:
    case TIR_TMEM_MMA:
    case TIR_TMEM_READ:
    case TIR_TMEM_WRITE:
    case TIR_PAIR_SEND:
    case TIR_PAIR_SUM:
    case TIR_TMA_REDUCE_ADD:
    case TIR_TMA_STORE: return true;
    default: return false;
    }
}

static void
print_op(Printer *p, const TirOp *op)
{
    tir_print_indent(p);
    for (uint32_t k = 0; k < op->n_results; k++) {
        if (k > 0)
            buf_add(p->out, ", ");
        print_definition(p, op->results[k]);
    }
    if (op->n_results > 0)
        buf_add(p->out, " = ");
    buf_add(p->out, tir_op_info(op->op)->text);
    if (op->n_args > 0 || op->n_blocks > 0 || tir_op_info(op->op)->args != 0 ||
        op->op == TIR_CONST || op->op == TIR_PARAM || op->op == TIR_SIZE || op->op == TIR_GRID ||
        op->op == TIR_GRID_FIRST || op->op == TIR_ASYNC_WAIT || op->op == TIR_MMA_WAIT ||
        names_shared(op->op))
        buf_char(p->out, ' ');
    if (op->op == TIR_FOR)
        print_for(p, op);
    else if (op->op == TIR_IF)
        print_if(p, op);
    else
        print_operands(p, op);
    if (op->kept != 0)
        buf_printf(p->out, " kept(%" PRIu32 ")", op->kept - 1);
    if (op->shared != NULL && !names_shared(op->op)) {
        buf_add(p->out, " through ");
        print_shared(p, op->shared);
    }
    if (op->n_blocks == 0)
        print_pipeline_stage(p, op);
    if (p->out->at[p->out->n - 1] == ' ') { /* a yield of nothing */
        p->out->n--;
        p->out->at[p->out->n] = '\0';
    }
    if (p->fn->diag->all_places && op->n_blocks == 0)
        tir_print_place(p, op->span);
    buf_char(p->out, '\n');
}

/* ---- kernels ---- */

static Printer
number_fn(const TirFn *fn, Buf *out)
{
    Printer p = {.fn = fn, .out = out};

    p.number = arena_array(out->arena, uint32_t, fn->next_id + 1);
    p.from = tir_origin(fn, fn->span);
    for (uint32_t k = 0; k < tir_program_count(fn); k++) {
        if (tir_program_at(fn, k) != NULL)
            number_block(&p, tir_program_at(fn, k));
    }
    if (fn->plan != NULL && fn->plan->wants != NULL)
        number_block(&p, fn->plan->wants);
    return p;
}

void
tir_print_op(const TirFn *fn, const TirOp *op, Buf *out)
{
    uint32_t begin = out->n;
    Printer p = number_fn(fn, out);

    print_op(&p, op);
    out->n = begin + (uint32_t)strcspn(out->at + begin, "\n");
    out->at[out->n] = '\0';
}

/* producer at 38 { .. }: the line is that of the role's first loop. */
static void
print_program(Printer *p, const char *name, const TirBlock *block)
{
    if (block == NULL)
        return;
    tir_print_indent(p);
    buf_add(p->out, name);
    if (p->fn->plan != NULL)
        tir_print_place(p, tir_role_span(p->fn, block));
    buf_char(p->out, ' ');
    print_block(p, block);
    buf_char(p->out, '\n');
}

/* combine f_0(%x_0: f32, %y_1: f32) { .. }: what scans make of two elements. */
static void
print_combine(Printer *p, const TirFn *combine)
{
    Printer own = number_fn(combine, p->out);

    own.depth = p->depth;
    own.from = p->from;
    tir_print_indent(p);
    buf_add(p->out, "combine ");
    print_combine_name(p, combine);
    buf_char(p->out, '(');
    for (uint32_t k = 0; k < combine->body->params.n; k++) {
        buf_add(p->out, k > 0 ? ", " : "");
        print_definition(&own, combine->body->params.at[k]);
    }
    buf_add(p->out, ") ");
    print_block(&own, combine->body);
    buf_char(p->out, '\n');
}

void
tir_print_fn(const TirFn *fn, Buf *out)
{
    Printer p = number_fn(fn, out);

    buf_printf(out, "kernel %s {\n", fn->name);
    p.depth = 1;
    tir_print_interface(&p);
    tir_print_schedule(&p);
    for (uint32_t k = 0; k < fn->combines.n; k++) /* behind the file that their places are of */
        print_combine(&p, fn->combines.at[k]);
    for (uint32_t k = 0; k < tir_program_count(fn); k++) {
        const TirBlock *program = tir_program_at(fn, k);
        print_program(&p, program == fn->body ? "body" : fn->plan->roles.at[k].name, program);
    }
    if (fn->plan != NULL)
        print_program(&p, fn->plan->wants_alike ? "wants alike" : "wants", fn->plan->wants);
    buf_add(out, "}\n");
}

void
tir_print(const TirModule *module, Buf *out)
{
    for (uint32_t k = 0; k < module->fns.n; k++) {
        if (k > 0)
            buf_char(out, '\n');
        tir_print_fn(module->fns.at[k], out);
    }
}
