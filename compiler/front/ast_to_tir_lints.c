/* ast_to_tir_lints.c - what is right and yet most likely a mistake, where it takes the kernel's
 * values to see it.
 *
 * Vectors that meet square tiles: `acc * alpha` is right where the tile is as wide as it is high,
 * and means columns.  Which dimensions run along together is found by joining those that an
 * operation has go through the same indices, over the whole kernel, but for the vectors in
 * question: one that runs along the rows of the tile, and not along its columns, was most likely
 * meant as a column. */
#include "compiler/front/ast_to_tir_internal.h"

typedef VEC(const TirOp *) OpList;

static void
list_operations(const Lower *low, const TirBlock *block, OpList *list)
{
    for (uint32_t k = 0; k < block->ops.n; k++) {
        const TirOp *op = block->ops.at[k];
        vec_push(low->arena, list, op);
        for (uint32_t b = 0; b < op->n_blocks; b++)
            list_operations(low, op->blocks[b], list);
    }
}

/* Dimensions that run along together, as a forest: `TIR_MAX_RANK` for each value, and one for where
 * ranges begin. */
typedef struct Together {
    uint32_t *parent;
    const Lower *low;
} Together;

enum { OF_VALUE = TIR_MAX_RANK + 1, BEGIN = TIR_MAX_RANK };

static uint32_t
root_of(Together *t, const TirVal *value, uint32_t axis)
{
    uint32_t at = OF_VALUE * value->id + axis;

    while (t->parent[at] != at)
        at = t->parent[at] = t->parent[t->parent[at]];
    return at;
}

static void
join(Together *t, const TirVal *a, uint32_t i, const TirVal *b, uint32_t k)
{
    bool tiles = i != BEGIN && k != BEGIN;

    if (!tiles || (i < a->type.rank && k < b->type.rank && a->type.dim[i] == b->type.dim[k]))
        t->parent[root_of(t, a, i)] = root_of(t, b, k);
}

static void
join_all(Together *t, const TirVal *a, const TirVal *b)
{
    for (uint32_t axis = 0; axis < a->type.rank && a->type.rank == b->type.rank; axis++)
        join(t, a, axis, b, axis);
}

/* Whether an operation is what made a row of a vector for want of `[:, None]`. */
static bool
is_in_question(const Together *t, const TirOp *op)
{
    for (uint32_t k = 0; k < t->low->meetings.n && op->op == TIR_EXPAND; k++)
        if (op->results[0] == t->low->meetings.at[k].row)
            return true;
    return false;
}

static void
join_region(Together *t, const TirOp *op)
{
    uint32_t first = op->op == TIR_FOR ? 2 : 1; /* behind the bounds, or the condition */

    for (uint32_t b = 0; b < op->n_blocks; b++) {
        const TirBlock *block = op->blocks[b];
        const TirOp *last = block->ops.n > 0 ? block->ops.at[block->ops.n - 1] : NULL;
        for (uint32_t k = 0; k < op->n_results; k++) {
            if (op->op == TIR_FOR) {
                join_all(t, op->results[k], op->args[first + k]);
                join_all(t, op->results[k], block->params.at[1 + k]);
            }
            if (last != NULL && last->op == TIR_YIELD && k < last->n_args)
                join_all(t, op->results[k], last->args[k]);
        }
    }
}

static void
join_operands(Together *t, const TirOp *op)
{
    const TirVal *result = op->n_results > 0 ? op->results[0] : NULL;

    if (op->op == TIR_FOR || op->op == TIR_IF) {
        join_region(t, op);
        return;
    }
    if (op->op == TIR_IOTA)
        join(t, result, 0, op->args[0], BEGIN);
    if (tir_is_access(op->op)) {
        const TirVal *tile = result != NULL && op->op == TIR_LOAD ? result
                                                                  : op->args[op->n_args - 1];
        for (TirDims d = tir_dims(op); tir_dims_next(&d);)
            if (d.range && d.at != NULL && d.axis < tile->type.rank)
                join(t, tile, d.axis, d.at, BEGIN);
    }
    if (op->op == TIR_MMA && op->args[0]->type.rank == 2)
        join(t, op->args[0], 1, op->args[1], 0);
    for (uint32_t k = 0; result != NULL && k < op->n_args && !is_in_question(t, op); k++) {
        for (uint32_t axis = 0; axis < result->type.rank; axis++) {
            uint32_t from = op->args[k]->type.rank == 0 ? TIR_MAX_RANK
                                                        : tir_axis_of_operand(op, k, axis);
            if (from < op->args[k]->type.rank)
                join(t, result, axis, op->args[k], from);
        }
    }
}

/* The place in the kernel itself, of what stands in functions that it calls. */
static Span
outermost(const Lower *low, Span span)
{
    for (const Frame *frame = low->frame; frame != NULL && frame->function != NULL;
         frame = frame->caller)
        span = frame->call;
    return span;
}

void
note_meeting(Lower *low, Span span, const TirVal *vector, const TirVal *tile, const TirVal *wide)
{
    TirType x = vector->type, y = tile->type;

    if (low->options->lints == NULL || x.rank != 1 || y.rank != 2 || x.dim[0] == 1 ||
        y.dim[0] != x.dim[0] || y.dim[1] != x.dim[0])
        return;
    const TirVal *row = wide->def != NULL && wide->def->op == TIR_BROADCAST ? wide->def->args[0]
                                                                            : wide;
    vec_push(low->arena, &low->meetings, ((Meeting){vector, tile, row, outermost(low, span)}));
}

static void
report(const Lower *low, LintKind kind, Span span, const char *text)
{
    LintList *lints = low->options->lints;

    for (uint32_t k = 0; k < lints->n; k++)
        if (lints->at[k].kind == kind && lints->at[k].span.lo == span.lo)
            return;
    vec_push(low->arena, lints, ((Lint){kind, span, text}));
}

static void
lint_meetings(const Lower *low, const OpList *ops)
{
    uint32_t n = low->meetings.n == 0 ? 0 : OF_VALUE * low->fn->next_id;
    Together t = {arena_array(low->arena, uint32_t, n + 1), low};

    if (n == 0)
        return;
    for (uint32_t k = 0; k < n; k++)
        t.parent[k] = k;
    for (uint32_t k = 0; k < ops->n; k++)
        join_operands(&t, ops->at[k]);
    for (uint32_t k = 0; k < low->meetings.n; k++) {
        const Meeting *meeting = &low->meetings.at[k];
        uint32_t along = root_of(&t, meeting->vector, 0);
        if (along != root_of(&t, meeting->tile, 0) || along == root_of(&t, meeting->tile, 1))
            continue;
        const char *name = meeting->vector->name;
        report(low, LINT_BROADCAST, meeting->span,
               arena_printf(low->arena,
                            "%s%s%s has an element for each row of the tile, and meets its columns: "
                            "write `%s[:, None]`, or `[None, :]` if it is meant so",
                            name == NULL ? "the vector" : "'", name == NULL ? "" : name,
                            name == NULL ? "" : "'", name == NULL ? "v" : name));
    }
}

/* A block without products has four warps, if nobody says otherwise. */
static void
lint_threads(const Lower *low, const OpList *ops)
{
    uint32_t said = low->options->warps > 0 ? low->options->warps : low->fn->hint_warps;
    uint32_t threads = 32 * (said > 0 ? said : 4);
    int64_t most = 1, warps = 1;

    for (uint32_t k = 0; k < low->kernel->constants.n; k++)
        if (low->kernel->constants.at[k].is_auto) /* that decides */
            return;
    for (uint32_t i = 0; i < ops->n; i++) {
        for (uint32_t k = 0; k < ops->at[i]->n_results; k++) {
            int64_t elements = tir_type_elements(ops->at[i]->results[k]->type);
            most = elements > most ? elements : most;
        }
    }
    while (64 * warps <= most)
        warps *= 2;
    if (most < threads && threads > 32)
        report(
            low, LINT_REPEATED, low->kernel->name.span,
            arena_printf(
                low->arena,
                "a block of '%s' has %u threads, and no tile more than %lld element%s: the others repeat "
                "the work; take larger tiles, or @warps(%lld)",
                low->kernel->name.text, threads, (long long)most, most == 1 ? "" : "s",
                (long long)warps));
}

static void
lint_order(const Lower *low, const OpList *ops)
{
    for (uint32_t k = 0; k < ops->n; k++) {
        const TirOp *op = ops->at[k];
        if (tir_fetches(op))
            report(low, LINT_ORDER, op->span, "what was there depends on which program comes first");
        else if (op->op == TIR_ATOMIC_ADD && dtype_is_float(op->tensor->dtype))
            report(low, LINT_ORDER, op->span,
                   arena_printf(
                       low->arena,
                       "sums of %s are rounded in the order in which programs come: the last bits "
                       "differ from launch to launch",
                       dtype_name(op->tensor->dtype)));
    }
}

void
lint_kernel(Lower *low)
{
    if (low->options->lints == NULL)
        return;
    OpList ops = {0};
    list_operations(low, low->fn->body, &ops);
    lint_meetings(low, &ops);
    lint_threads(low, &ops);
    lint_order(low, &ops);
}
