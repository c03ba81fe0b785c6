/* unseen_rows.c - goes through a kernel with two values of a parameter, the rows of its programs,
 * side by side.
 *
 * Along one axis of the grid a program p of the wide kernel has W rows, and programs c p .. c p + c
 * - 1 of the narrow one have R = W / c each.  Of each pair of values is kept how they compare,
 * where program c p + j of the narrow kernel runs:
 *
 *     alike      the same
 *     by rows    tiles with W and R elements along one dimension: the narrow one is part j of the
 *                wide one
 *     index      p and c p + j, of the grid
 *     rows       the constants W and R
 *     first      p W and (c p + j) R, and the same number added: where their rows begin
 *     vote       whether some or all rows say so: where branches are told that rows may decide by
 *                themselves
 *     live       whether the program has rows at all (first < a limit): where it has none it writes
 *                nothing
 *     unlike     all else
 *
 * Nobody sees the rows if all that is written is by rows, from where the rows begin, and no loop,
 * branch, place or shape follows from anything but what is alike.  Of what is not known here, the
 * rows are taken to be seen.
 */
#include "compiler/choose/unseen_rows.h"

#include <string.h>

#include "compiler/passes/util/linear.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

typedef enum Kind { UNLIKE, ALIKE, BY_ROWS, INDEX, ROWS, FIRST, VOTE, LIVE } Kind;

typedef struct Pair {
    const TirVal *narrow; /* NULL: not met yet */
    Kind kind;
} Pair;

enum { NO_DIMENSION = TIR_MAX_RANK };

typedef struct Rows {
    Arena *arena;
    const TirFn *wide, *narrow;
    int64_t w, r;
    uint32_t axis;
    Pair *of;                /* by the wide value's id */
    VEC(const TirOp *) live; /* comparisons of the narrow kernel that something follows from */
    bool voted;              /* in a branch that rows decide by themselves */
} Rows;

/* ---- the interface ---- */

/* Whether the grids are alike but for one axis, which counts the rows of both. */
static bool
find_axis(Rows *s)
{
    uint32_t n = 0;

    if (s->wide->grid.n != s->narrow->grid.n)
        return false;
    for (uint32_t k = 0; k < s->wide->grid.n; k++) {
        const HostExpr *a = s->wide->grid.at[k].extent, *b = s->narrow->grid.at[k].extent;
        if (host_equal(a, b))
            continue;
        if (a->kind != HOST_CDIV || b->kind != HOST_CDIV || !host_equal(a->a, b->a) ||
            a->b->kind != HOST_INT || b->b->kind != HOST_INT)
            return false;
        s->axis = k;
        s->w = a->b->integer;
        s->r = b->b->integer;
        n++;
    }
    return n == 1 && s->r > 0 && s->w > s->r && s->w % s->r == 0;
}

static bool
same_interface(const TirFn *a, const TirFn *b)
{
    bool same = a->tensors.n == b->tensors.n && a->sizes.n == b->sizes.n &&
                a->requires.n == b->requires.n;

    for (uint32_t k = 0; k < a->tensors.n && same; k++) {
        const TirTensor *x = a->tensors.at[k], *y = b->tensors.at[k];
        same = x->rank == y->rank;
        for (uint32_t d = 0; d < x->rank && same; d++)
            same = x->dim[d].constant == y->dim[d].constant && x->dim[d].size == y->dim[d].size;
    }
    for (uint32_t k = 0; k < a->requires.n && same; k++)
        same = host_equal(a->requires.at[k].condition, b->requires.at[k].condition);
    return same;
}

/* ---- values ---- */

static Kind
kind_of(const Rows *s, const TirVal *wide, const TirVal *narrow)
{
    const Pair *pair = &s->of[wide->id];

    return pair->narrow == narrow ? pair->kind : UNLIKE;
}

/* The dimension along which a tile has the rows; NO_DIMENSION: none.  False: the types differ
 * otherwise. */
static bool
rows_of(const Rows *s, TirType wide, TirType narrow, uint32_t *dimension)
{
    *dimension = NO_DIMENSION;
    if (wide.rank != narrow.rank || wide.dtype != narrow.dtype)
        return false;
    for (uint32_t d = 0; d < wide.rank; d++) {
        if (wide.dim[d] == narrow.dim[d])
            continue;
        if (*dimension != NO_DIMENSION || wide.dim[d] != s->w || narrow.dim[d] != s->r)
            return false;
        *dimension = d;
    }
    return true;
}

static void
note(Rows *s, const TirVal *wide, const TirVal *narrow, Kind kind)
{
    uint32_t dimension;

    if (!rows_of(s, wide->type, narrow->type, &dimension))
        kind = UNLIKE;
    else if (kind == ALIKE || kind == BY_ROWS)
        kind = dimension != NO_DIMENSION ? BY_ROWS : kind == ALIKE ? ALIKE : UNLIKE;
    s->of[wide->id] = (Pair){narrow, kind};
}

/* Whether all operands from `from` on are alike, or by rows. */
static bool
all_known(const Rows *s, const TirOp *wide, const TirOp *narrow, uint32_t from, bool *by_rows)
{
    *by_rows = false;
    for (uint32_t k = from; k < wide->n_args; k++) {
        Kind kind = kind_of(s, wide->args[k], narrow->args[k]);
        if (kind != ALIKE && kind != BY_ROWS)
            return false;
        *by_rows = *by_rows || kind == BY_ROWS;
    }
    return true;
}

/* ---- operations ---- */

static Kind
constant(const Rows *s, const TirOp *wide, const TirOp *narrow)
{
    if (wide->integer == narrow->integer &&
        memcmp(&wide->number, &narrow->number, sizeof wide->number) == 0)
        return ALIKE;
    bool rows = wide->results[0]->type.rank == 0 && wide->results[0]->type.dtype == DT_I32 &&
                wide->integer == s->w && narrow->integer == s->r;
    return rows ? ROWS : UNLIKE;
}

/* Of scalars that are not all alike. */
static Kind
scalar(Rows *s, const TirOp *wide, const TirOp *narrow)
{
    Kind kind[3] = {UNLIKE, UNLIKE, UNLIKE};

    for (uint32_t k = 0; k < wide->n_args && k < 3; k++)
        kind[k] = kind_of(s, wide->args[k], narrow->args[k]);
    if (wide->op == TIR_MUL &&
        ((kind[0] == INDEX && kind[1] == ROWS) || (kind[0] == ROWS && kind[1] == INDEX)))
        return FIRST;
    if (wide->op == TIR_ADD &&
        ((kind[0] == FIRST && kind[1] == ALIKE) || (kind[0] == ALIKE && kind[1] == FIRST)))
        return FIRST;
    if (wide->op == TIR_SUB && kind[0] == FIRST && kind[1] == ALIKE)
        return FIRST;
    if (wide->op == TIR_LT && kind[0] == FIRST && kind[1] == ALIKE)
        return LIVE;
    if (wide->op == TIR_SELECT && kind[0] == LIVE && kind[1] == ALIKE && kind[2] == ALIKE) {
        vec_push(s->arena, &s->live, narrow->args[0]->def);
        return ALIKE;
    }
    return UNLIKE;
}

static Kind
elementwise(Rows *s, const TirOp *wide, const TirOp *narrow)
{
    bool by_rows;

    if (wide->integer != narrow->integer)
        return UNLIKE;
    if (all_known(s, wide, narrow, 0, &by_rows))
        return by_rows ? BY_ROWS : ALIKE;
    return wide->results[0]->type.rank == 0 ? scalar(s, wide, narrow) : UNLIKE;
}

/* Of operations that move elements, or combine those along an axis. */
static Kind
reshaped(const Rows *s, const TirOp *wide, const TirOp *narrow)
{
    Kind kind = kind_of(s, wide->args[0], narrow->args[0]);
    uint32_t dimension;

    if (wide->n_args > 1 || wide->axis != narrow->axis || wide->reduce != narrow->reduce ||
        (kind != ALIKE && kind != BY_ROWS))
        return UNLIKE;
    rows_of(s, wide->args[0]->type, narrow->args[0]->type, &dimension);
    if (!tir_combines(wide) || dimension != wide->axis)
        return kind;
    return tir_is_vote(wide) ? VOTE : UNLIKE;
}

static Kind
product(const Rows *s, const TirOp *wide, const TirOp *narrow)
{
    uint32_t left, right;
    bool by_rows;

    if (!all_known(s, wide, narrow, 0, &by_rows))
        return UNLIKE;
    rows_of(s, wide->args[0]->type, narrow->args[0]->type, &left);
    rows_of(s, wide->args[1]->type, narrow->args[1]->type, &right);
    return left == 1 || right == 0 ? UNLIKE : by_rows ? BY_ROWS : ALIKE;
}

/* A range of rows begins with the rows, and has as many. */
static bool
range_of_rows(const Rows *s, Kind start, int32_t wide, int32_t narrow)
{
    return start == FIRST ? wide == s->w && narrow == s->r : start == ALIKE && wide == narrow;
}

static Kind
iota(const Rows *s, const TirOp *wide, const TirOp *narrow)
{
    Kind start = kind_of(s, wide->args[0], narrow->args[0]);

    if (wide->index[0].rows != 0 || narrow->index[0].rows != 0 ||
        kind_of(s, wide->args[1], narrow->args[1]) != ALIKE ||
        !range_of_rows(s, start, wide->results[0]->type.dim[0], narrow->results[0]->type.dim[0]))
        return start == ALIKE && tir_type_eq(wide->results[0]->type, narrow->results[0]->type) &&
                       tir_same_index(&wide->index[0], &narrow->index[0]) &&
                       kind_of(s, wide->args[1], narrow->args[1]) == ALIKE
                   ? ALIKE
                   : UNLIKE;
    return start == FIRST ? BY_ROWS : ALIKE;
}

/* Whether an access is to the same places, or those of the rows; `rows`: it has a range of rows. */
static bool
same_place(const Rows *s, const TirOp *wide, const TirOp *narrow, bool *rows)
{
    *rows = false;
    if (strcmp(wide->tensor->name, narrow->tensor->name) != 0 || wide->n_limits != narrow->n_limits)
        return false;
    for (TirDims d = tir_dims(wide), e = tir_dims(narrow); tir_dims_next(&d) && tir_dims_next(&e);) {
        const TirIndex *a = d.index, *b = e.index;
        if (a->kind != b->kind || a->open != b->open)
            return false;
        Kind start = d.at == NULL ? ALIKE : kind_of(s, d.at, e.at);
        if (start == FIRST && d.range && a->rows == 0 && b->rows == 0 && !*rows &&
            range_of_rows(s, start, a->length, b->length)) {
            *rows = true;
            continue;
        }
        if (start != ALIKE || !tir_same_index(a, b))
            return false;
    }
    for (uint32_t k = 0; k < wide->n_limits; k++) {
        const TirVal *a = tir_limit_count(wide, k), *b = tir_limit_count(narrow, k);
        Kind count = kind_of(s, a, b);
        const TirOp *x = a->def, *y = b->def;
        /* what is left of a range from where the rows begin */
        bool left = *rows && x != NULL && x->op == TIR_SUB && y != NULL && y->op == TIR_SUB &&
                    kind_of(s, x->args[0], y->args[0]) == ALIKE &&
                    kind_of(s, x->args[1], y->args[1]) == FIRST;
        if (wide->limits[k].axis != narrow->limits[k].axis ||
            !tir_same_index(&wide->limits[k].part, &narrow->limits[k].part) ||
            (count != ALIKE && !left))
            return false;
    }
    return true;
}

static bool
depends_on_data(const Rows *s, const TirVal *value)
{
    for (TirInputs in = tir_inputs(s->arena, value); tir_inputs_next(&in);) {
        if (in.value->def == NULL)
            continue;
        if (in.value->def->op == TIR_LOAD)
            return true;
        tir_inputs_follow(&in);
    }
    return false;
}

/* Whether one of its limits says that a write of no rows writes nothing, as `live` has it. */
static bool
ends_with(const TirOp *write, const Linear *live)
{
    bool ends = false;

    for (uint32_t k = 0; k < write->n_limits; k++) {
        Linear count = {.ok = true};
        linear_add(&count, tir_limit_count(write, k), 1);
        ends = ends || (count.ok && live->ok && linear_equal(&count, live));
    }
    return ends;
}

/* Whether the rows behind the grid's last ones, of which the wide kernel may have more, are not
 * written: what the grid counts ends there, or data says where. */
static bool
ends_with_grid(const Rows *s, const TirOp *write)
{
    bool ends = writes_nothing_past(s->narrow, s->axis, write);

    for (uint32_t k = 0; k < write->n_limits; k++)
        ends = ends || depends_on_data(s, tir_limit_count(write, k));
    for (uint32_t k = 0; k < s->live.n && ends; k++) {
        Linear live = linear_slack(s->live.at[k]);
        ends = ends_with(write, &live);
    }
    return ends;
}

static bool same_block(Rows *s, const TirBlock *wide, const TirBlock *narrow);

static bool
write(const Rows *s, const TirOp *wide, const TirOp *narrow)
{
    const TirVal *a = wide->args[wide->n_args - 1], *b = narrow->args[narrow->n_args - 1];
    Kind value = kind_of(s, a, b);
    bool rows;

    return !s->voted && (value == ALIKE || value == BY_ROWS) &&
           same_place(s, wide, narrow, &rows) && rows && ends_with_grid(s, narrow);
}

static bool
branch(Rows *s, const TirOp *wide, const TirOp *narrow)
{
    Kind kind = kind_of(s, wide->args[0], narrow->args[0]);
    bool before = s->voted;

    if (wide->by_rows != narrow->by_rows || (kind != ALIKE && (kind != VOTE || !wide->by_rows)))
        return false;
    s->voted = before || kind == VOTE;
    bool same = same_block(s, wide->blocks[0], narrow->blocks[0]) &&
                same_block(s, wide->blocks[1], narrow->blocks[1]);
    s->voted = before;
    for (uint32_t k = 0; k < wide->n_results && same; k++) {
        Kind both = ALIKE;
        for (uint32_t side = 0; side < 2; side++) {
            const TirOp *x = block_yield(wide->blocks[side]),
                        *y = block_yield(narrow->blocks[side]);
            Kind one = kind_of(s, x->args[k], y->args[k]);
            both = one == ALIKE || one == BY_ROWS ? (both == ALIKE ? one : both) : UNLIKE;
            same = same && both != UNLIKE;
        }
        /* a scalar that rows decide by themselves would be one of each */
        same = same && (kind == ALIKE || wide->results[k]->type.rank > 0);
        note(s, wide->results[k], narrow->results[k], both);
    }
    return same;
}

static bool
loop(Rows *s, const TirOp *wide, const TirOp *narrow)
{
    const TirBlock *a = wide->blocks[0], *b = narrow->blocks[0];
    bool by_rows, same = all_known(s, wide, narrow, 0, &by_rows) &&
                         wide->n_results == narrow->n_results &&
                         kind_of(s, wide->args[0], narrow->args[0]) == ALIKE &&
                         kind_of(s, wide->args[1], narrow->args[1]) == ALIKE;

    if (!same)
        return false;
    note(s, a->params.at[0], b->params.at[0], ALIKE);
    for (uint32_t k = 0; k < wide->n_results; k++)
        note(s, a->params.at[k + 1], b->params.at[k + 1],
             kind_of(s, wide->args[k + 2], narrow->args[k + 2]));
    if (!same_block(s, a, b))
        return false;
    const TirOp *x = block_yield(a), *y = block_yield(b);
    for (uint32_t k = 0; k < wide->n_results && same; k++) {
        Kind kind = kind_of(s, x->args[k], y->args[k]);
        same = kind == kind_of(s, a->params.at[k + 1], b->params.at[k + 1]);
        note(s, wide->results[k], narrow->results[k], kind);
    }
    return same;
}

/* False: the rows are seen. */
static bool
operation(Rows *s, const TirOp *wide, const TirOp *narrow)
{
    Kind kind = UNLIKE;
    bool rows;

    switch (wide->op) {
    case TIR_STORE:
    case TIR_ATOMIC_MAX:
    case TIR_ATOMIC_MIN:
    case TIR_ATOMIC_ADD: return !tir_fetches(wide) && write(s, wide, narrow);
    case TIR_IF: return branch(s, wide, narrow);
    case TIR_FOR: return loop(s, wide, narrow);
    case TIR_YIELD: return true;
    case TIR_CONST: kind = constant(s, wide, narrow); break;
    case TIR_PARAM:
    case TIR_SIZE: kind = wide->integer == narrow->integer ? ALIKE : UNLIKE; break;
    case TIR_GRID:
        if (wide->integer == narrow->integer)
            kind = wide->integer == (int64_t)s->axis ? INDEX : ALIKE;
        break;
    case TIR_IOTA: kind = iota(s, wide, narrow); break;
    case TIR_MMA: kind = product(s, wide, narrow); break;
    case TIR_LOAD:
        /* (a program that reads what others write sees in which order they come) */
        if (!writes_tensor(s->wide->body, wide->tensor) && same_place(s, wide, narrow, &rows))
            kind = rows ? BY_ROWS : ALIKE;
        break;
    default:
        if (tir_axis_use(wide) == AXIS_NONE || tir_has_part(wide))
            return false;
        kind = tir_axis_use(wide) == AXIS_ELEMENTWISE ? elementwise(s, wide, narrow)
                                                      : reshaped(s, wide, narrow);
    }
    note(s, wide->results[0], narrow->results[0], kind);
    return true;
}

static bool
same_block(Rows *s, const TirBlock *wide, const TirBlock *narrow)
{
    bool same = wide->ops.n == narrow->ops.n;

    for (uint32_t i = 0; i < wide->ops.n && same; i++) {
        const TirOp *a = wide->ops.at[i], *b = narrow->ops.at[i];
        same = a->op == b->op && a->n_args == b->n_args && a->n_results == b->n_results &&
               operation(s, a, b);
    }
    return same;
}

bool
rows_are_unseen(Arena *arena, const TirFn *wide, const TirFn *narrow)
{
    Rows s = {.arena = arena,
              .wide = wide,
              .narrow = narrow,
              .of = arena_array(arena, Pair, wide->next_id + 1)};

    return same_interface(wide, narrow) && find_axis(&s) &&
           same_block(&s, wide->body, narrow->body);
}
