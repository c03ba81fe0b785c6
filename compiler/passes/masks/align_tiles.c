/* align_tiles.c - tiles of a loop begin where a mask begins to keep something.
 *
 *   level    tile IR, padding masks implied, loops not yet split
 *   does     a loop over tiles of L rows whose mask keeps nothing before row x of this program
 *
 *                for i in 0 .. cdiv(S, L)       rows i * L + (0 .. L)
 *
 *            would begin with the tile that contains x and compute its rows before x in vain.  It
 *            becomes
 *
 *                origin = max(x, 0) & -16
 *                for i in 0 .. cdiv(S - origin, L)       rows origin + i * L + (0 .. L)
 *
 *   needs    that the rows can be divided into tiles in any way: each row is loaded, computed and
 *            written by itself, and only sums of products run over all rows
 *   leaves   the loop unchanged where x is a multiple of L anyway
 *
 * Programs that share a block share its tiles, so x must be that of the first of them: the
 * program's index is replaced by that of the first program of its block (GRID_FIRST), which a plan
 * for warp groups makes a number (plan.c).  Therefore x must not decrease from one program to the
 * next.
 */
#include "compiler/passes/masks/affine.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/noop_proof.h"
#include "compiler/passes/util/tir_util.h"

/* Rows that the origin is a multiple of: vectors of f32, and of 16 bits, stay aligned to 16
 * bytes. */
enum { ORIGIN = 16 };

typedef struct Aligner {
    PassContext *px;
    TirFn *fn;
    TirOp *loop;
    TirVal *base;   /* i * L */
    int64_t length; /* L */
    uint8_t *along; /* by value: bit d: dimension d runs along the rows */
    bool changed;
} Aligner;

/* ---- whether rows are apart ---- */

static bool
is_carried(const Aligner *a, const TirVal *value)
{
    const TirBlock *body = a->loop->blocks[0];

    return value->def == NULL && value->block == body && value->index > 0;
}

/* Which dimensions of the tile that `op` addresses run along the rows; false if it depends on the
 * rows in another way. */
static bool
along_of_access(const Aligner *a, const TirOp *op, uint8_t *along)
{
    *along = 0;
    for (TirDims d = tir_dims(op); tir_dims_next(&d);) {
        if (d.places) /* they are of rows where the list, or the tile, is */
            *along |= (uint8_t)(a->along[d.at->id] << d.axis);
        if (d.at != a->base)
            continue;
        if (!d.range || d.length != a->length || d.index->rows != 0)
            return false;
        *along |= (uint8_t)(1u << d.axis);
    }
    return true;
}

/* Whether a product that contracts over the rows is only added to a carried value. */
static bool
is_sum_of_rows(const Aligner *a, const TirOp *op)
{
    const TirBlock *body = a->loop->blocks[0];
    const TirVal *sum = op->args[2], *result = op->results[0];

    return is_carried(a, sum) && count_uses_in(body, sum) == 1 &&
           count_uses_in(body, result) == 1 && block_yield(body)->args[sum->index - 1] == result;
}

static bool
row_of_mma(Aligner *a, const TirOp *op)
{
    uint8_t left = a->along[op->args[0]->id], right = a->along[op->args[1]->id], along;

    if ((left & 2) != 0 || (right & 1) != 0) /* over the rows */
        return left == 2 && right == 1 && is_sum_of_rows(a, op);
    along = (uint8_t)((left & 1) | (right & 2));
    if (is_carried(a, op->args[2]) || (a->along[op->args[2]->id] & ~along) != 0)
        return false;
    a->along[op->results[0]->id] = along;
    return true;
}

/* Whether the effect of `op` on a row depends on that row alone; notes along which dimensions its
 * results have rows. */
static bool
is_by_rows(Aligner *a, const TirOp *op)
{
    const TirVal *i = a->loop->blocks[0]->params.at[0];
    uint8_t along = 0;

    if (op->n_blocks > 0)
        return false;
    if (op->op == TIR_YIELD) {
        for (uint32_t k = 0; k < op->n_args; k++) {
            const TirOp *def = op->args[k]->def;
            bool kept = is_carried(a, op->args[k]) && op->args[k]->index == k + 1;
            if (!kept && (def == NULL || def->op != TIR_MMA || def->parent != a->loop->blocks[0] ||
                          !is_carried(a, def->args[2]) || def->args[2]->index != k + 1 ||
                          !is_sum_of_rows(a, def)))
                return false;
        }
        return true;
    }
    if (op->op == TIR_MMA)
        return row_of_mma(a, op);
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (is_carried(a, op->args[k]) || (op->args[k] == i && op->results[0] != a->base))
            return false;
    }
    switch (op->op) {
    case TIR_LOAD:
        if (!along_of_access(a, op, &along))
            return false;
        break;
    case TIR_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD: {
        const TirVal *value = op->args[op->n_args - 1];
        return along_of_access(a, op, &along) && along != 0 && a->along[value->id] == along;
    }
    case TIR_IOTA:
        if (op->args[0] == a->base &&
            (op->index[0].rows != 0 || op->results[0]->type.dim[0] != a->length))
            return false;
        along = op->args[0] == a->base;
        break;
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_TRANSPOSE: along = tir_moved_dimensions(op, a->along[op->args[0]->id]); break;
    default:
        if (tir_combines(op)) {
            for (uint32_t k = 0; k < op->n_args; k++)
                along |= a->along[op->args[k]->id];
            if ((along >> op->axis & 1) != 0 || op->results[0]->type.rank == 0)
                return along == 0;
            along = tir_moved_dimensions(op, along);
            break;
        }
        if ((tir_op_info(op->op)->flags & TF_PURE) == 0 || op->n_results != 1)
            return false;
        bool plain = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 || op->op == TIR_BROADCAST;
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] == a->base || (a->along[op->args[k]->id] != 0 && !plain))
                return false;
            along |= a->along[op->args[k]->id];
        }
        break;
    }
    a->along[op->results[0]->id] = along;
    return true;
}

static bool
rows_are_apart(Aligner *a)
{
    const TirBlock *body = a->loop->blocks[0];

    a->along = arena_array(a->px->arena, uint8_t, a->fn->next_id + 1);
    for (uint32_t k = 0; k < body->ops.n; k++) {
        if (!is_by_rows(a, body->ops.at[k]))
            return false;
    }
    return true;
}

/* ---- the loop's form ---- */

static bool
is_number(const TirVal *value, int64_t *out)
{
    if (value->def == NULL || value->def->op != TIR_CONST || value->type.rank != 0)
        return false;
    *out = value->def->integer;
    return true;
}

/* The number of rows, if the loop's end is that number divided by L and rounded up; else NULL. */
static TirVal *
end_of_rows(const Aligner *a)
{
    const TirOp *quotient = a->loop->args[1]->def, *sum;
    int64_t by, more;

    if (quotient == NULL || quotient->op != TIR_DIV || !is_number(quotient->args[1], &by) ||
        by != a->length)
        return NULL;
    sum = quotient->args[0]->def;
    if (sum == NULL || sum->op != TIR_ADD || !is_number(sum->args[1], &more) || more != by - 1)
        return NULL;
    return sum->args[0];
}

/* Finds i * L, if that is the only use of i. */
static bool
find_base(Aligner *a)
{
    const TirBlock *body = a->loop->blocks[0];
    const TirVal *i = body->params.at[0];

    a->base = NULL;
    for (uint32_t k = 0; k < body->ops.n; k++) {
        const TirOp *op = body->ops.at[k];
        if (op->op == TIR_MUL && op->args[0] == i && is_number(op->args[1], &a->length)) {
            a->base = op->results[0];
            return a->length > 0 && count_uses_in(body, i) == 1;
        }
    }
    return false;
}

/* Whether the condition keeps all rows from a certain one on, which does not decrease from program
 * to program, and tiles of L rows do not begin where tiles of the grid do anyway. */
static bool
is_wanted(const Aligner *a, const Affine *f, uint32_t *rows)
{
    bool moves = false;

    *rows = f->beta[1] == 1 && f->extent[1] == a->length ? 1 : 0;
    if (f->alpha != a->length || f->beta[*rows] != 1 || f->extent[*rows] != a->length ||
        f->inner[*rows] != 0)
        return false;
    for (uint32_t k = 0; k < f->n; k++) {
        const TirOp *def = f->terms[k].value->def;
        int64_t step = -f->terms[k].coefficient;
        if (def == NULL || (def->op != TIR_SIZE && def->op != TIR_GRID))
            return false;
        if (def->op != TIR_GRID || step == 0)
            continue;
        if (step < 0 || step % a->length == 0 || a->length % step == 0)
            return false;
        moves = true;
    }
    return moves;
}

/* The first row that the condition keeps for the first program of the block. */
static TirVal *
first_row(TirBuilder *b, Affine f, uint32_t rows)
{
    TirType i32 = tir_scalar(DT_I32);

    for (uint32_t k = 0; k < f.n; k++) {
        const TirOp *def = f.terms[k].value->def;
        if (def->op != TIR_GRID)
            continue;
        TirOp *first = tir_op_new(b, TIR_GRID_FIRST, 0, NULL, 1, &i32);
        first->integer = def->integer;
        f.terms[k].value = first->results[0];
    }
    f.beta[rows] = 0;
    return affine_rest(b, &f, affine_extreme(&f, true), -1);
}

static void
align_loop(Aligner *a, const Affine *f, uint32_t rows, TirVal *end)
{
    TirBlock *body = a->loop->blocks[0];
    TirBuilder b = {.fn = a->fn, .block = a->loop->parent, .at = 0, .span = a->loop->span};

    while (b.block->ops.at[b.at] != a->loop)
        b.at++;
    TirVal *zero = tir_const_int(&b, 0);
    TirVal *origin = tir_binary(&b, TIR_MAX, first_row(&b, *f, rows), zero);
    origin = tir_binary(&b, TIR_AND, origin, tir_const_int(&b, -ORIGIN));
    TirVal *left = tir_binary(&b, TIR_MAX, tir_binary(&b, TIR_SUB, end, origin), zero);
    left = tir_binary(&b, TIR_ADD, left, tir_const_int(&b, a->length - 1));
    a->loop->args[1] = tir_binary(&b, TIR_DIV, left, tir_const_int(&b, a->length));

    b = (TirBuilder){.fn = a->fn, .block = body, .at = 0, .span = a->base->def->span};
    while (body->ops.at[b.at] != a->base->def)
        b.at++;
    b.at++;
    TirVal *row = tir_binary(&b, TIR_ADD, origin, origin);
    tir_replace_uses(a->fn, a->base, row);
    row->def->args[0] = a->base;
    a->changed = true;
}

static void
try_loop(Aligner *a, TirOp *loop)
{
    TirBlock *body = loop->blocks[0];
    int64_t from;

    a->loop = loop;
    TirVal *end = find_base(a) ? end_of_rows(a) : NULL;
    if (end == NULL || !is_number(loop->args[0], &from) || from != 0 || loop->hints.no_split)
        return;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        Affine forms[AFFINE_CONDITIONS];
        uint32_t n = 0, rows;
        if (op->op != TIR_MASK || !affine_conditions(op->args[1], body, forms, &n) || n != 1 ||
            !is_wanted(a, &forms[0], &rows))
            continue;
        if (rows_are_apart(a) && iteration_is_noop(a->px->arena, a->fn, loop, op))
            align_loop(a, &forms[0], rows, end);
        return;
    }
}

static void
align_block(Aligner *a, TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            align_block(a, op->blocks[k]);
        if (op->op == TIR_FOR && op->n_segments <= 1) {
            try_loop(a, op);
            while (block->ops.at[i] != op) /* what was put before it */
                i++;
        }
    }
}

bool
pass_align_tiles(PassContext *px, TirFn *fn)
{
    Aligner a = {.px = px, .fn = fn};

    align_block(&a, fn->body);
    if (a.changed)
        pass_simplify(px, fn);
    return a.changed;
}
