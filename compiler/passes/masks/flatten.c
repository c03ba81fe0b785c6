/* flatten.c - tiles of more than two dimensions end here.
 *
 *   level    tile IR, as the front end makes it
 *   does     cuts the dimensions of every tile in two, rows and columns, each of which becomes one
 *            dimension: a pack, the last dimension the fastest.  [M, K / 32, 32], which is fold(x,
 *            1, 32), is [M, K] again when it is cut behind M, so a fold costs nothing; [B, M, K],
 *            loaded by three ranges, is [B M, K].  Tiles that meet element by element are cut
 *            alike, loops and branches keep the cut, and what moves dimensions moves it.  A
 *            reduction or a broadcast of all dimensions on one side of the cut is what it was; of
 *            others it is one along a part of a pack (reduce_part, spread).  Where two cuts meet,
 *            code would have to lay a tile out anew: that is an error so far, and none where they
 *            differ in dimensions of 1 alone
 *   leaves   tiles of at most two dimensions; no fold and no unfold
 *
 * A side without dimensions is no dimension: the rows of fold(x, 0, 32), where x is a vector, are
 * none, and the tile is the vector.  Padding needs nothing: that of a folded axis is that of the
 * axis, and a dimension of one element that may be padding stays a part of the pack.
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/masks/flatten.h"
#include "compiler/passes/masks/padding.h"
#include "compiler/passes/util/tir_util.h"

enum { UNKNOWN = -1 };

/* What an operation along one dimension does to padding of the others on its side, which have one
 * element each. */
typedef enum Beside {
    BESIDE_NOTHING, /* there is none */
    BESIDE_PARTS,   /* it stays, as they are parts of the pack */
    /* as a part, the dimension is none apart from theirs: it has one element, too, and no
     * padding */
    BESIDE_TWIN
} Beside;

typedef struct Flattener {
    PassContext *px;
    TirFn *fn;
    TirBuilder b;
    uint32_t n; /* of these lists */
    /* by the id of a value, as the front end made it */
    int8_t *cut;      /* so many dimensions are rows; UNKNOWN */
    TirType *type;    /* with all its dimensions */
    TirVal **instead; /* what stands for it; NULL: itself */
    Beside *beside;   /* of the operation that makes it */
    bool failed;
} Flattener;

/* ---- where tiles are cut ---- */

static bool
set_cut(Flattener *f, const TirVal *value, int32_t cut)
{
    if (cut < 0 || value->type.rank < 2 || f->cut[value->id] != UNKNOWN)
        return false;
    f->cut[value->id] = (int8_t)cut;
    return true;
}

static bool
cut_alike(Flattener *f, const TirVal *a, const TirVal *b)
{
    if (a->type.rank != b->type.rank)
        return false;
    return set_cut(f, a, f->cut[b->id]) || set_cut(f, b, f->cut[a->id]);
}

/* `wide` has dimension `axis`, `narrow` has not. */
static bool
cut_without(Flattener *f, const TirVal *narrow, const TirVal *wide, int32_t axis)
{
    int32_t cut = f->cut[narrow->id], wide_cut = f->cut[wide->id];

    if (wide_cut != UNKNOWN)
        return set_cut(f, narrow, wide_cut - (axis < wide_cut));
    /* between rows and columns it may be of either */
    return cut != UNKNOWN && cut != axis && set_cut(f, wide, cut + (axis < cut));
}

/* Dimension `axis` of `narrow` is two of `wide`. */
static bool
cut_folded(Flattener *f, const TirVal *narrow, const TirVal *wide, int32_t axis)
{
    int32_t cut = f->cut[narrow->id], wide_cut = f->cut[wide->id];

    if (wide_cut != UNKNOWN && wide_cut != axis + 1)
        return set_cut(f, narrow, wide_cut - (wide_cut > axis));
    return cut != UNKNOWN && set_cut(f, wide, cut + (axis < cut));
}

static bool
cut_region(Flattener *f, const TirOp *op)
{
    bool news = false;

    for (uint32_t r = 0; r < op->n_results; r++) {
        const TirVal *result = op->results[r];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            news |= cut_alike(f, result, block_yield(op->blocks[k])->args[r]);
        if (op->op != TIR_FOR)
            continue;
        news |= cut_alike(f, result, op->args[loop_first_initial(op) + r]);
        news |= cut_alike(f, result, op->blocks[0]->params.at[r + 1]);
    }
    return news;
}

/* What follows from the cuts that are known of an operation's tiles; whether that is news. */
static bool
cut_op(Flattener *f, const TirOp *op)
{
    const TirVal *result = op->n_results > 0 ? op->results[0] : NULL;
    bool news = false;

    switch (op->op) {
    case TIR_FOR:
    case TIR_IF: return cut_region(f, op);
    case TIR_EXPAND: return cut_without(f, op->args[0], result, (int32_t)op->axis);
    case TIR_SQUEEZE: return cut_without(f, result, op->args[0], (int32_t)op->axis);
    case TIR_FOLD: return cut_folded(f, op->args[0], result, (int32_t)op->axis);
    case TIR_UNFOLD: return cut_folded(f, result, op->args[0], (int32_t)op->axis);
    case TIR_BROADCAST: return cut_alike(f, result, op->args[0]);
    default: break;
    }
    switch (tir_axis_use(op)) {
    case AXIS_REDUCES: return cut_without(f, result, op->args[0], (int32_t)op->axis);
    case AXIS_ELEMENTWISE:
    case AXIS_SCANS:
    case AXIS_SORTS:
        for (uint32_t k = 0; k < op->n_args; k++)
            news |= cut_alike(f, result, op->args[k]);
        return news;
    default: return false;
    }
}

static void
cut_all(Flattener *f)
{
    for (bool news = true; news;) {
        news = false;
        for (TirWalk walk = tir_walk(f->fn->body); tir_walk_next(&walk);)
            news |= cut_op(f, walk.op);
    }
}

static void
begin_cut(Flattener *f, const TirVal *value, int32_t cut)
{
    if (set_cut(f, value, cut))
        cut_all(f);
}

/* Whether it goes along lines of a tile, which keeps its shape. */
static bool
keeps_lines(const TirOp *op)
{
    return tir_axis_use(op) == AXIS_SCANS || tir_axis_use(op) == AXIS_SORTS;
}

/* What reads or makes tiles as they are, of rows and one last dimension: products, transposes,
 * lists of places; or along a dimension that is a side of its own. */
static bool
is_natural(const TirOp *op)
{
    return op->op == TIR_MMA || op->op == TIR_TRANSPOSE ||
           (tir_is_access(op->op) && tir_has_places(op)) || keeps_lines(op);
}

static int32_t
natural_cut(const TirOp *op, const TirType *type)
{
    if (type->rank < 2)
        return UNKNOWN;
    return keeps_lines(op) && op->axis == 0 ? 1 : (int32_t)type->rank - 1;
}

static void
begin_natural(Flattener *f, const TirOp *op)
{
    for (uint32_t k = 0; k < op->n_args; k++)
        begin_cut(f, op->args[k], natural_cut(op, &op->args[k]->type));
    for (uint32_t k = 0; k < op->n_results; k++)
        begin_cut(f, op->results[k], natural_cut(op, &op->results[k]->type));
}

/* Of a fold or unfold. */
static void
begin_folded(Flattener *f, const TirOp *op, uint32_t rank)
{
    const TirVal *narrow = op->op == TIR_FOLD ? op->args[0] : op->results[0];
    const TirVal *wide = op->op == TIR_FOLD ? op->results[0] : op->args[0];

    if (narrow->type.rank != rank)
        return;
    if (rank == 1) /* a vector stays one */
        begin_cut(f, wide, 0);
    else
        begin_cut(f, narrow, (int32_t)rank - 1);
}

/* Cuts all tiles: those first that can be cut in one way only, then those that are folded, those of
 * three dimensions and more before their last, and the rest between rows and columns. */
static void
find_cuts(Flattener *f)
{
    const TirBlock *body = f->fn->body;

    for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
        if (is_natural(walk.op))
            begin_natural(f, walk.op);
    }
    for (uint32_t rank = 1; rank <= TIR_MAX_RANK; rank++) {
        for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
            if (walk.op->op == TIR_FOLD || walk.op->op == TIR_UNFOLD)
                begin_folded(f, walk.op, rank);
        }
    }
    for (uint32_t rank = TIR_MAX_RANK; rank >= 2; rank--) {
        for (TirWalk walk = tir_walk(body); tir_walk_next(&walk);) {
            for (uint32_t k = 0; k < walk.op->n_results; k++) {
                if (walk.op->results[k]->type.rank == rank)
                    begin_cut(f, walk.op->results[k], (int32_t)rank - 1);
            }
        }
    }
}

/* ---- what becomes of operations ---- */

/* The dimensions on one side of a cut: `n` from `first` on, all elements along them. */
typedef struct Side {
    uint32_t first, n;
    int32_t all;
    uint32_t axis; /* of the flat tile */
} Side;

static Side
side_of(const TirType *type, uint32_t cut, bool columns)
{
    Side side = {.first = columns ? cut : 0, .all = 1, .axis = columns && cut > 0};

    side.n = columns ? type->rank - cut : cut;
    for (uint32_t k = 0; k < side.n; k++)
        side.all *= type->dim[side.first + k];
    return side;
}

/* How many elements go along the dimensions of a side behind `axis`. */
static int32_t
elements_behind(const TirType *type, const Side *side, uint32_t axis)
{
    int32_t n = 1;

    for (uint32_t k = axis + 1; k < side->first + side->n; k++)
        n *= type->dim[k];
    return n;
}

static TirType
flat_type(const TirType *type, int32_t cut)
{
    TirType flat = {.dtype = type->dtype};

    if (type->rank < 2)
        return *type;
    for (uint32_t columns = 0; columns < 2; columns++) {
        Side side = side_of(type, (uint32_t)cut, columns > 0);
        if (side.n > 0)
            flat.dim[flat.rank++] = side.all;
    }
    return flat;
}

static void
refuse(Flattener *f, const TirOp *op, const char *why)
{
    if (!f->failed)
        diag_error(f->px->diag, op->span, "E-LARGE: %s: no code is made for that so far", why);
    f->failed = true;
}

static const char in_two_ways[] =
    "a tile of several dimensions is used in two ways, for which it would have to be laid out anew";

static TirVal *
stands_for(const Flattener *f, TirVal *value)
{
    return f->instead[value->id] != NULL ? f->instead[value->id] : value;
}

/* Operand `k` with the dimensions of a tile that is cut at `cut`. */
static TirVal *
operand(Flattener *f, const TirOp *op, uint32_t k, int32_t cut)
{
    const TirType *type = &f->type[op->args[k]->id];
    TirType have = flat_type(type, f->cut[op->args[k]->id]), want = flat_type(type, cut);

    if (!tir_same_shape(have, want))
        refuse(f, op, in_two_ways);
    return stands_for(f, op->args[k]);
}

/* `by` stands for the result: of its shape as that is cut. */
static void
replace(Flattener *f, const TirOp *op, TirVal *by)
{
    const TirVal *result = op->results[0];

    if (!tir_same_shape(by->type, flat_type(&f->type[result->id], f->cut[result->id])))
        refuse(f, op,
               op->op == TIR_FOLD || op->op == TIR_UNFOLD
                   ? "a tile is folded where it is cut in rows and columns"
                   : in_two_ways);
    if (by->name == NULL)
        by->name = op->results[0]->name;
    f->instead[op->results[0]->id] = by;
}

/* A dimension of one element more, or less, which may be one of the flat tile or not. */
static void
flatten_expand(Flattener *f, TirOp *op)
{
    TirVal *arg = op->args[0], *result = op->results[0];
    const TirVal *wide = op->op == TIR_EXPAND ? result : arg;
    int32_t cut = f->cut[wide->id], narrow = cut - ((int32_t)op->axis < cut);
    TirVal *from = operand(f, op, 0, op->op == TIR_EXPAND ? narrow : cut);
    TirType to = flat_type(&f->type[result->id], f->cut[result->id]);

    if (tir_same_shape(from->type, to)) {
        replace(f, op, from);
        return;
    }
    uint32_t axis = (int32_t)op->axis >= cut && cut > 0;
    TirOp *flat = tir_op_new(&f->b, op->op, 1, &from, 1, &to);
    flat->axis = axis;
    replace(f, op, flat->results[0]);
}

static void
flatten_broadcast(Flattener *f, TirOp *op)
{
    TirVal *result = op->results[0];
    int32_t cut = f->cut[result->id];
    TirType to = flat_type(&f->type[result->id], cut), now = f->type[op->args[0]->id];
    TirVal *value = operand(f, op, 0, cut);

    for (uint32_t columns = 0; columns < 2 && now.rank > 1; columns++) {
        Side side = side_of(&now, (uint32_t)cut, columns > 0);
        for (uint32_t k = side.first + side.n; k-- > side.first && side.all > 1;) {
            int32_t length = f->type[result->id].dim[k], behind = elements_behind(&now, &side, k);
            if (now.dim[k] == length)
                continue;
            side.all *= length;
            now.dim[k] = length;
            value = tir_spread(&f->b, value, side.axis, tir_part(length, behind, side.all));
        }
    }
    replace(f, op, tir_broadcast_to(&f->b, value, &to));
}

static void
flatten_fold(Flattener *f, TirOp *op)
{
    replace(f, op, stands_for(f, op->args[0]));
}

static void
flatten_reduction(Flattener *f, TirOp *op)
{
    const TirVal *arg = op->args[0];
    int32_t cut = f->cut[arg->id];
    TirType type = f->type[arg->id];
    TirVal *value = operand(f, op, 0, cut), *result;
    Side side = type.rank < 2 ? (Side){.n = 1, .all = type.dim[0]}
                              : side_of(&type, (uint32_t)cut, (int32_t)op->axis >= cut);

    if (f->beside[op->results[0]->id] == BESIDE_TWIN) {
        replace(f, op, value);
        return;
    }
    if (side.all != type.dim[op->axis] || f->beside[op->results[0]->id] == BESIDE_PARTS) {
        TirIndex part = tir_part(type.dim[op->axis], elements_behind(&type, &side, op->axis),
                                 side.all);
        result = tir_reduce_part(&f->b, op->reduce, value, side.axis, part);
    } else {
        result = tir_reduce(&f->b, op->reduce, value, side.axis);
        if (side.n > 1) /* there is one element along what is left */
            result = tir_expand(&f->b, result, side.axis);
    }
    replace(f, op, result);
}

static void
flatten_access(Flattener *f, TirOp *op, const TirVal *tile)
{
    const TirType *type = &f->type[tile->id];

    for (uint32_t columns = 2; columns-- > 0 && type->rank > 1;) {
        Side side = side_of(type, (uint32_t)f->cut[tile->id], columns > 0);
        if (side.n > 1 && !tir_join_dims(&f->b, op, side.first, side.n, type->dim + side.first))
            refuse(
                f, op,
                tir_has_places(op)
                    ? "several dimensions become a pack beside a list of places (of pages of 16 rows "
                      "one list has all rows: `load T[n / 16] * 16 + n % 16`, in a tensor [P * 16, ..])"
                    : "several dimensions become a pack beside another one");
    }
}

/* Of operations along an axis behind which it has no padding: that of other dimensions of its side
 * is the result's again. */
static void
keep_parts(Flattener *f, TirOp *op, uint32_t axis)
{
    const TirType *type = &f->type[op->results[0]->id];
    int32_t cut = f->cut[op->results[0]->id];
    Side side = side_of(type, (uint32_t)cut, (int32_t)axis >= cut);
    TirIndex part = tir_part(type->dim[axis], elements_behind(type, &side, axis), side.all);
    ReduceKind kind = op->args[0]->type.dtype == DT_BOOL ? REDUCE_ANY : REDUCE_MAX;
    TirVal *like = tir_reduce_part(&f->b, kind, op->args[0], op->axis, part);

    like = tir_spread(&f->b, like, op->axis, part);
    for (uint32_t r = 0; r < op->n_results; r++) {
        DType dtype = op->results[r]->type.dtype;
        TirVal *alike = dtype == like->type.dtype ? like : tir_cast(&f->b, like, dtype);
        TirVal *args[] = {op->results[r], alike};
        TirOp *keep = tir_op_new(&f->b, TIR_KEEP, 2, args, 1, &op->results[r]->type);
        keep->integer = INT32_MAX; /* it is there for its padding alone */
        f->instead[op->results[r]->id] = keep->results[0];
    }
}

/* An operation that stays, its operands cut like its results. */
static void
flatten_others(Flattener *f, TirOp *op)
{
    bool alike = tir_axis_use(op) == AXIS_ELEMENTWISE || keeps_lines(op);
    int32_t cut = op->n_results > 0 ? f->cut[op->results[0]->id] : UNKNOWN;
    bool writes = tir_writes(op);

    if (op->op == TIR_LOAD || writes)
        flatten_access(f, op, op->op == TIR_LOAD ? op->results[0] : op->args[op->n_args - 1]);
    if (keeps_lines(op) && f->type[op->results[0]->id].rank > 1) {
        const TirType *type = &f->type[op->results[0]->id];
        Side side = side_of(type, (uint32_t)cut, (int32_t)op->axis >= cut);
        /* along such a dimension it can, but for another use of the tile */
        bool could = op->axis == 0 || op->axis + 1 == type->rank;
        if (side.all != type->dim[op->axis])
            refuse(f, op,
                   could ? in_two_ways
                   : tir_axis_use(op) == AXIS_SCANS
                       ? "a tile of several dimensions is scanned along one of them"
                       : "a tile of several dimensions is sorted along one of them");
        op->axis = side.axis;
    }
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (op->args[k]->id >= f->n) /* an index of a joined dimension, made here */
            continue;
        int32_t own = f->cut[op->args[k]->id];
        int32_t natural = natural_cut(op, &f->type[op->args[k]->id]);
        op->args[k] = operand(f, op, k, alike ? cut : is_natural(op) ? natural : own);
    }
}

static TirWriteOp flatten_op;

/* What blocks yield, and loops begin with, is cut like the results. */
static void
flatten_region(Flattener *f, TirOp *op)
{
    uint32_t first = op->op == TIR_FOR ? loop_first_initial(op) : 0;

    for (uint32_t k = 0; k < op->n_args; k++) {
        bool initial = op->op == TIR_FOR && k >= first;
        op->args[k] = operand(f, op, k,
                              f->cut[initial ? op->results[k - first]->id : op->args[k]->id]);
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        TirBlock *block = op->blocks[k];
        for (uint32_t p = 0; p < block->params.n; p++)
            block->params.at[p]->type = flat_type(&f->type[block->params.at[p]->id],
                                                  f->cut[block->params.at[p]->id]);
        tir_write_anew(block, flatten_op, f);
    }
}

static bool
flatten_op(void *user, TirBlock *block, TirOp *op)
{
    Flattener *f = user;
    bool yields = op->op == TIR_YIELD && block->owner != NULL, stays = false;
    uint32_t axis = op->axis;

    f->b = (TirBuilder){.fn = f->fn, .block = block, .at = -1, .span = op->span};
    if (op->op == TIR_EXPAND || op->op == TIR_SQUEEZE)
        flatten_expand(f, op);
    else if (op->op == TIR_FOLD || op->op == TIR_UNFOLD)
        flatten_fold(f, op);
    else if (op->op == TIR_BROADCAST)
        flatten_broadcast(f, op);
    else if (tir_axis_use(op) == AXIS_REDUCES)
        flatten_reduction(f, op);
    else
        stays = true;
    if (!stays)
        return !f->failed;
    for (uint32_t k = 0; yields && k < op->n_args; k++)
        op->args[k] = operand(f, op, k, f->cut[block->owner->results[k]->id]);
    if (op->n_blocks > 0)
        flatten_region(f, op);
    else if (!yields)
        flatten_others(f, op);
    for (uint32_t k = 0; k < op->n_results; k++) {
        const TirType *type = &f->type[op->results[k]->id];
        op->results[k]->type = flat_type(type, f->cut[op->results[k]->id]);
        if (is_natural(op) &&
            !tir_same_shape(op->results[k]->type, flat_type(type, natural_cut(op, type))))
            refuse(f, op, in_two_ways);
    }
    vec_push(f->fn->arena, &block->ops, op);
    if (keeps_lines(op) && f->beside[op->results[0]->id] != BESIDE_NOTHING && !f->failed)
        keep_parts(f, op, axis);
    return !f->failed;
}

/* ---- padding of what is folded ---- */

/* What is wrong with the padding of an axis that is folded, or of the inner one of two that are
 * unfolded; NULL: nothing. */
static const char *
padding_fault(const Padding *p, const TirVal *value, uint32_t axis, bool inner)
{
    int32_t extent = value->type.dim[axis];
    Pads pads = padding_of(p, value, axis);
    bool coarse = false;

    for (uint32_t k = 0; k < pads.n; k++) {
        const TirIndex *part = &pads.at[k].part;
        int32_t all = part->rows > 0 ? part->rows : part->length;
        if (inner ? all == extent && value->type.dim[axis - 1] > 1
                  : part->rows > 0 && part->inner * part->length < part->rows)
            return "has padding that is not at the end of the axis: fold and unfold where padding, if "
                   "there is any, comes after all elements";
        coarse = coarse || part->rows > 0 || all < extent;
    }
    if (!coarse || inner)
        return NULL;
    /* both of its dimensions would have the padding of one */
    return "has padding that comes from the outer part of a pack, or of an unfolded axis, alone: no "
           "code is made for that so far";
}

/* Whether along its axis all is there behind it. */
static bool
ends_padding(const TirOp *op)
{
    return tir_axis_use(op) == AXIS_REDUCES ||
           (keeps_lines(op) && tir_axis_of_operand(op, 0, op->axis) == TIR_MAX_RANK);
}

/* Whether as parts of a pack two dimensions are the same: of one element, with nothing between
 * them. */
static bool
are_twins(const TirType *type, uint32_t a, uint32_t b)
{
    for (uint32_t k = a < b ? a : b; k <= (a < b ? b : a); k++) {
        if (type->dim[k] != 1)
            return false;
    }
    return true;
}

/* Notes of such an operation which padding stands beside its axis. */
static void
note_beside(Flattener *f, const Padding *padding, const TirOp *op)
{
    const TirVal *arg = op->args[0];
    uint32_t cut = (uint32_t)f->cut[arg->id];
    Beside *beside = &f->beside[op->results[0]->id];

    for (uint32_t k = 0; k < arg->type.rank && arg->type.rank > 1; k++) {
        if (k == op->axis || (k < cut) != (op->axis < cut) || !padding_of_one(padding, arg, k))
            continue;
        bool twins = are_twins(&arg->type, k, op->axis);
        if (twins && (keeps_lines(op) || padding_of_one(padding, arg, op->axis)))
            refuse(f, op, "a dimension of one element goes beside another one that may be padding");
        *beside = twins || *beside == BESIDE_TWIN ? BESIDE_TWIN : BESIDE_PARTS;
    }
}

/* Elements of an axis that is folded keep their order, and so padding must be at its end. */
static void
check_padding(Flattener *f, const Padding *padding)
{
    for (TirWalk walk = tir_walk(f->fn->body); tir_walk_next(&walk) && !f->failed;) {
        const TirOp *op = walk.op;
        bool unfolds = op->op == TIR_UNFOLD;
        if (!unfolds && op->op != TIR_FOLD)
            continue;
        const char *fault = padding_fault(padding, op->args[0], op->axis + unfolds, unfolds);
        f->failed = fault != NULL;
        if (fault != NULL)
            diag_error(f->px->diag, op->span, "E-FOLD: what is %s here %s",
                       unfolds ? "unfolded" : "folded", fault);
    }
}

/* ---- the kernel ---- */

/* Notes how values were made; whether there is a tile of more than two dimensions, or a fold. */
static bool
note_values(Flattener *f)
{
    bool any = false;

    for (TirWalk walk = tir_walk(f->fn->body); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; k < op->n_results; k++) {
            f->type[op->results[k]->id] = op->results[k]->type;
            any = any || op->results[k]->type.rank > 2;
        }
        for (uint32_t b = 0; b < op->n_blocks; b++) {
            for (uint32_t k = 0; k < op->blocks[b]->params.n; k++)
                f->type[op->blocks[b]->params.at[k]->id] = op->blocks[b]->params.at[k]->type;
        }
        any = any || op->op == TIR_FOLD || op->op == TIR_UNFOLD;
    }
    return any;
}

/* Dimensions of tiles have a limit, packs of them, too. */
static void
check_extents(Flattener *f)
{
    for (TirWalk walk = tir_walk(f->fn->body); tir_walk_next(&walk);) {
        for (uint32_t k = 0; k < walk.op->n_results; k++) {
            const TirVal *value = walk.op->results[k];
            TirType flat = flat_type(&value->type, f->cut[value->id]);
            for (uint32_t d = 0; d < flat.rank; d++) {
                if (flat.dim[d] > TILE_MAX_EXTENT)
                    refuse(f, walk.op,
                           "dimensions of this tile have more than 8192 elements together");
            }
        }
    }
}

bool
pass_flatten(PassContext *px, TirFn *fn)
{
    if (!flatten_products(px, fn))
        return true;
    Flattener f = {.px = px,
                   .fn = fn,
                   .n = fn->next_id + 1,
                   .cut = arena_array(px->arena, int8_t, fn->next_id + 1),
                   .type = arena_array(px->arena, TirType, fn->next_id + 1),
                   .instead = arena_array(px->arena, TirVal *, fn->next_id + 1),
                   .beside = arena_array(px->arena, Beside, fn->next_id + 1)};

    if (!note_values(&f))
        return false;
    for (uint32_t k = 0; k <= fn->next_id; k++)
        f.cut[k] = UNKNOWN;
    Padding padding = padding_find(px, fn);
    check_padding(&f, &padding);
    find_cuts(&f);
    check_extents(&f);
    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        if (ends_padding(walk.op))
            note_beside(&f, &padding, walk.op);
    }
    if (!f.failed)
        tir_write_anew(fn->body, flatten_op, &f);
    return true;
}
