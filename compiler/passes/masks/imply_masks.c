/* imply_masks.c - keep padding out of reductions, and out of memory and variables.
 *
 *   level    tile IR, from the front end
 *   does     the padding of a tile (padding.h) has no defined value.  Wherever a reduction (or the
 *            contraction of an mma) runs along an axis with padding, a bounds_mask puts the
 *            reduction's neutral value there, unless a mask of the program does so already
 *            (implied_padding.c) or the tile is known to be zero there.  A store or an atomic
 *            addition whose value has padding besides that of its subscripts gets a limit.  A
 *            `keep` becomes a select between the assigned value and the variable's old one, which
 *            stays where the assigned value is padding of ranges of loops inside the variable's
 *            declaration
 *   leaves   bounds_mask ops whose conditions are affine in the range's start: split_loops removes
 *            them from all tiles but the last.  No `keep`
 *
 * Where a tile's padding depends on branches and loops, the program computes how many elements come
 * before it (padding_count), unless those elements hold the neutral value anyway.
 */
#include <math.h>

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/masks/implied_padding.h"
#include "compiler/passes/masks/padding.h"
#include "compiler/passes/util/noop_proof.h"
#include "compiler/passes/util/tir_util.h"

/* A mask already made. */
typedef struct Masked {
    TirVal *from, *to;
    Pad pad;
} Masked;

/* A value that was left as it is, because its padding is `fill` by itself.  Other masks must not
 * change that. */
typedef struct Trusted {
    TirVal *value;
    enum { TRUST_LOAD, TRUST_PROGRAM, TRUST_MASK } why;
    uint32_t axis;
    Pad pad;
    double fill;
    const TirOp *mask; /* TRUST_MASK: the mask that the value follows from */
} Trusted;

typedef struct Implier {
    PassContext *px;
    TirFn *fn;
    Padding padding;
    bool changed;
    VEC(Masked) masked;
    VEC(Trusted) trusted;
} Implier;

enum { DEEPEST_WAY = 16 }; /* definitions followed: a bound on work */

/* Whether a value is zero wherever it is padding by itself. */
static bool
is_zero_in_padding(const TirVal *value)
{
    const TirOp *op = value->def;

    while (op != NULL && (op->op == TIR_CAST || op->op == TIR_TRANSPOSE))
        op = op->args[0]->def;
    /* padding of a list of places is some place in the tensor, and a scale has no zero */
    return op != NULL && op->op == TIR_LOAD && !tir_has_places(op) &&
           !dtype_is_scale(op->results[0]->type.dtype);
}

/* Which elements of a tile are no padding along `axis`. */
static TirVal *
inside_of(Implier *im, TirBuilder *b, const TirType *type, uint32_t axis, const Pad *pad)
{
    TirVal *bound = padding_value(&im->padding, b, pad->bound);
    TirVal *index = tir_iota_part(b, padding_value(&im->padding, b, pad->start), bound, pad->part);
    TirVal *inside = tir_binary(b, TIR_LT, index, tir_broadcast_to(b, bound, &index->type));

    if (type->rank == 2)
        inside = tir_expand(b, inside, 1 - axis);
    return tir_broadcast_to(b, inside, type);
}

/* ---- masks ---- */

/* A builder behind a value and behind the scalars that define a pad, whichever comes last. */
static TirBuilder
behind_both(Implier *im, const TirVal *value, const Pad *pad)
{
    TirBuilder b = padding_behind(&im->padding, value);

    padding_move_behind(&b, pad->start);
    padding_move_behind(&b, pad->bound);
    return b;
}

typedef VEC(TirVal **) Uses;

static void
replace_in_op(Arena *arena, TirOp *op, const TirVal *from, TirVal *to, Uses *replaced)
{
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (op->args[k] == from) {
            op->args[k] = to;
            vec_push(arena, replaced, &op->args[k]);
        }
    }
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        for (uint32_t i = 0; i < op->blocks[k]->ops.n; i++)
            replace_in_op(arena, op->blocks[k]->ops.at[i], from, to, replaced);
    }
}

/* Replaces the uses of `from` behind the definition of `to`, which is in the same block; masks with
 * bounds of their own may read `from` between the two. */
static Uses
replace_behind(Arena *arena, const TirVal *from, TirVal *to)
{
    const TirBlock *block = to->block;
    bool behind = false;
    Uses replaced = {0};

    for (uint32_t i = 0; i < block->ops.n; i++) {
        if (behind)
            replace_in_op(arena, block->ops.at[i], from, to, &replaced);
        behind = behind || block->ops.at[i] == to->def;
    }
    return replaced;
}

/* A mask of `value` along `axis`, made right after the value; one value is masked once for each
 * fill. */
static TirVal *
mask_value(Implier *im, TirVal *value, uint32_t axis, const Pad *pad, double fill)
{
    TirVal *earlier = NULL;

    /* Padding has no defined value, so one value may be masked along every axis that some user
     * needs: a second mask is put on top of the first, and both users read it. */
    for (uint32_t i = 0; i < im->masked.n; i++) {
        const Masked *masked = &im->masked.at[i];
        const TirOp *made = masked->to->def;
        if (masked->from != value || made->number != fill)
            continue;
        if (made->axis == axis && padding_same(&masked->pad, pad))
            return masked->to;
        earlier = masked->to;
    }
    if (earlier != NULL && pad->start->block != value->block && pad->bound->block != value->block) {
        TirVal *both = mask_value(im, earlier, axis, pad, fill);
        replace_behind(im->px->arena, earlier, both);
        return both;
    }
    /* it may move what stands in this block */
    if (pad->bound->block == NULL && pad->bound->def->op == TIR_SIZE) {
        TirBuilder any = {.fn = im->fn, .block = NULL, .at = -1};
        padding_value(&im->padding, &any, pad->bound);
    }
    TirBuilder b = behind_both(im, value, pad);
    TirVal *inside = inside_of(im, &b, &value->type, axis, pad);
    TirVal *args[] = {value, inside};
    TirOp *mask = tir_op_new(&b, TIR_BOUNDS_MASK, 2, args, 1, &value->type);
    mask->number = fill;
    mask->axis = axis;
    mask->segments = ~0u;
    vec_push(im->px->arena, &im->masked, ((Masked){value, mask->results[0], *pad}));
    im->changed = true;
    return mask->results[0];
}

static PaddedRange
padded_range(const Pad *pad)
{
    if (pad->part.rows > 0)
        return (PaddedRange){NULL, NULL};
    return (PaddedRange){pad->start, pad->bound};
}

/* Whether the program's own masks hide all padding along `axis`. */
static bool
is_masked(Implier *im, const TirVal *value, uint32_t axis, const Pad *pad, double fill)
{
    PaddedRange across = {NULL, NULL};

    if (value->type.rank != 2 || !im->px->target->drops_hidden_padding)
        return false;
    Pads others = padding_of(&im->padding, value, 1 - axis);
    if (others.n == 1 && others.at[0].sure && padding_is_there(&others.at[0], value))
        across = padded_range(&others.at[0]);
    return padding_is_masked(im->px->arena, im->fn, value, axis, padded_range(pad), across, fill);
}

static void
trust(Implier *im, Trusted trusted)
{
    vec_push(im->px->arena, &im->trusted, trusted);
}

/* Whether a trusted value is still neutral in its padding, now that the readers of `from` read it
 * at -inf there. */
static bool
holds(Implier *im, const Trusted *t, const TirVal *from)
{
    if (t->value == from)
        return t->fill == -INFINITY;
    switch (t->why) {
    case TRUST_LOAD: return is_zero_in_padding(t->value);
    case TRUST_PROGRAM: return is_masked(im, t->value, t->axis, &t->pad, t->fill);
    default: return hidden_elements_are(im->px->arena, im->fn, t->mask, t->value, t->fill);
    }
}

static bool
all_hold(Implier *im, const TirVal *from)
{
    for (uint32_t i = 0; i < im->trusted.n; i++) {
        if (!holds(im, &im->trusted.at[i], from))
            return false;
    }
    return true;
}

/* Whether `value` is `fill` in the padding once all that is computed of an earlier value reads that
 * value's mask. */
static bool
follows_from_mask(Implier *im, TirVal *value, uint32_t axis, const Pad *pad, double fill)
{
    Arena *arena = im->px->arena;

    for (uint32_t i = 0; i < im->masked.n && im->px->target->masks_once; i++) {
        const Masked *masked = &im->masked.at[i];
        const TirOp *made = masked->to->def;
        if (masked->from == value || made->number != -INFINITY || made->axis != axis ||
            made->parent != value->block || !padding_same(&masked->pad, pad))
            continue;
        Uses replaced = replace_behind(arena, masked->from, masked->to);
        if (hidden_elements_are(arena, im->fn, made, value, fill) && all_hold(im, masked->from)) {
            trust(im, (Trusted){value, TRUST_MASK, axis, *pad, fill, made});
            return true;
        }
        for (uint32_t k = 0; k < replaced.n; k++)
            *replaced.at[k] = masked->from;
    }
    return false;
}

static TirVal *
mask_along(Implier *im, TirVal *value, uint32_t axis, const Pads *pads, double fill)
{
    for (uint32_t k = 0; k < pads->n; k++) {
        if (is_masked(im, value, axis, &pads->at[k], fill))
            trust(im, (Trusted){value, TRUST_PROGRAM, axis, pads->at[k], fill, NULL});
        else if (!follows_from_mask(im, value, axis, &pads->at[k], fill))
            value = mask_value(im, value, axis, &pads->at[k], fill);
    }
    return value;
}

/* Masks below casts and transposes, where the value is still f32. */
static TirVal *
mask_operand(Implier *im, TirVal *value, uint32_t axis, const Pads *pads)
{
    TirOp *op = value->def;

    if (op != NULL && (op->op == TIR_CAST || op->op == TIR_TRANSPOSE)) {
        TirVal *inner = mask_operand(im, op->args[0], op->op == TIR_CAST ? axis : 1 - axis, pads);
        if (count_uses(im->fn, value) == 1) {
            op->args[0] = inner;
            /* The masked value may be defined after this operation's old place: it is not, as
             * masks follow their value directly and the operation follows the value too. */
            return value;
        }
        TirBuilder b = padding_behind(&im->padding, value);
        TirOp *again = tir_op_new(&b, op->op, 1, &inner, 1, &value->type);
        return again->results[0];
    }
    return mask_along(im, value, axis, pads, 0);
}

/* ---- which pads there are ---- */

/* Whether `value` is `fill` in the place of the pad on all ways on which it does not have the
 * pad. */
static bool
is_filled(Implier *im, TirVal *value, uint32_t axis, const Pad *pad, double fill, TirVal **way,
          uint32_t depth)
{
    const TirOp *op = value->def != NULL ? value->def : value->block->owner;
    Pads pads = padding_of(&im->padding, value, axis);
    const Pad *own = padding_in(&pads, pad);
    double number;

    if (own != NULL && own->sure)
        return true;
    for (uint32_t k = 0; k < depth; k++) {
        if (way[k] == value)
            return true;
    }
    if (value_is_constant(im->px->arena, im->fn, value, &number))
        return number == fill;
    if (depth == DEEPEST_WAY || op == NULL || (op->op != TIR_FOR && op->op != TIR_IF) ||
        (value->def == NULL && value->index == 0))
        return false;
    way[depth] = value;
    uint32_t at = value->def != NULL ? value->index : value->index - 1;
    if (op->op == TIR_FOR &&
        !is_filled(im, op->args[loop_first_initial(op) + at], axis, pad, fill, way, depth + 1))
        return false;
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        if (!is_filled(im, block_yield(op->blocks[k])->args[at], axis, pad, fill, way, depth + 1))
            return false;
    }
    return true;
}

/* The pads of a tile that is reduced along `axis` with neutral value `fill`, in a form that masks
 * can express. */
static Pads
pads_to_mask(Implier *im, TirVal *value, uint32_t axis, double fill)
{
    Pads all = padding_of(&im->padding, value, axis), out = {0};
    TirVal *way[DEEPEST_WAY];

    for (uint32_t k = 0; k < all.n; k++) {
        Pad *pad = &all.at[k];
        bool plain = padding_is_there(pad, value) &&
                     (pad->sure || is_filled(im, value, axis, pad, fill, way, 0));
        if (plain) {
            padding_add(&im->padding, &out, *pad);
            continue;
        }
        TirVal *count = padding_count(&im->padding, value, axis, &pad->part, 0, UINT32_MAX);
        Linear *distance = arena_new(im->px->arena, Linear);
        *distance = (Linear){.ok = true};
        linear_add(distance, count, 1);
        Pad counted = {.start = padding_zero(&im->padding),
                       .bound = count,
                       .part = pad->part,
                       .distance = distance,
                       .sure = true};
        padding_add(&im->padding, &out, counted);
        im->changed = true;
    }
    return out;
}

/* The operation that alone reads `value`; NULL: there are several, or none. */
static TirOp *
only_reader(const TirBlock *block, const TirVal *value, uint32_t *n)
{
    TirOp *reader = NULL;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        for (uint32_t k = 0; k < walk.op->n_args; k++) {
            *n += walk.op->args[k] == value;
            reader = walk.op->args[k] == value ? walk.op : reader;
        }
    }
    return *n == 1 ? reader : NULL;
}

/* The branch that rows may take by themselves (@by_rows), if that is all that `any` decides: then
 * padding may be left in, since rows may take the branch without need.  But not where what has
 * padding behind the branch is a matter of whether it was taken (is_counted). */
static TirOp *
chosen_by_rows(TirOp *any)
{
    while (tir_reduces(any, REDUCE_ANY)) {
        uint32_t n = 0;
        TirOp *reader = only_reader(any->parent, any->results[0], &n);
        if (reader == NULL || reader->parent != any->parent)
            return NULL;
        any = reader;
    }
    return any->op == TIR_IF && any->by_rows ? any : NULL;
}

/* Whether something asks how much of the branch's results is padding: it has another result then
 * that says so. */
static bool
is_counted(const Implier *im, const TirOp *branch)
{
    for (uint32_t k = 0; k < im->padding.counts.n; k++) {
        if (im->padding.counts.at[k].tile->def == branch)
            return true;
    }
    return false;
}

/* A mask of operand `k` right before the product, where the scalars that define the other operand's
 * pad are known. */
static void
mask_before(Implier *im, TirOp *mma, uint32_t k, const Pad *pad)
{
    TirBuilder b = {.fn = im->fn, .block = mma->parent, .at = 0, .span = mma->span};
    TirVal *value = mma->args[k];

    while (b.block->ops.at[b.at] != mma)
        b.at++;
    TirVal *args[] = {value, inside_of(im, &b, &value->type, 1 - k, pad)};
    TirOp *mask = tir_op_new(&b, TIR_BOUNDS_MASK, 2, args, 1, &value->type);
    mask->axis = 1 - k;
    mma->args[k] = mask->results[0];
    im->changed = true;
}

/* A product sums over the positions at which neither operand is padding.  Where one operand is zero
 * the other need not be finite, so both are masked by the pads of both. */
static void
imply_mma(Implier *im, TirOp *mma)
{
    Pads pads[2];

    for (uint32_t k = 0; k < 2; k++)
        pads[k] = pads_to_mask(im, mma->args[k], 1 - k, 0);
    for (uint32_t k = 0; k < 2; k++) {
        if (pads[k].n > 0 && is_zero_in_padding(mma->args[k]))
            trust(im, (Trusted){.value = mma->args[k], .why = TRUST_LOAD});
        else if (pads[k].n > 0)
            mma->args[k] = mask_operand(im, mma->args[k], 1 - k, &pads[k]);
        for (uint32_t i = 0; i < pads[1 - k].n; i++) {
            if (padding_in(&pads[k], &pads[1 - k].at[i]) == NULL)
                mask_before(im, mma, k, &pads[1 - k].at[i]);
        }
    }
}

/* ---- stores ---- */

/* Keeps elements that are padding of `tile` along `along` out of memory, but for those that `known`
 * says: they are along `axis` of what is written. */
static void
limit_by(Implier *im, TirOp *store, uint32_t axis, TirVal *tile, uint32_t along, const Pads *known)
{
    Pads all = padding_of(&im->padding, tile, along), done = {0};

    for (uint32_t k = 0; k < all.n; k++) {
        const Pad *pad = &all.at[k];
        const Pad *same = padding_in(known, pad);
        bool drop = same != NULL && same->sure;
        for (uint32_t i = 0; i < done.n; i++)
            drop = drop || padding_same_part(&done.at[i].part, &pad->part);
        if (drop)
            continue;
        TirVal *count = padding_count(&im->padding, tile, along, &pad->part, 0, UINT32_MAX);
        TirLimit limit = {.axis = axis};
        if (pad->part.rows > 0)
            limit.part = pad->part;
        tir_add_limit(im->fn, store, limit, count);
        padding_add(&im->padding, &done, *pad);
        im->changed = true;
    }
}

/* Along `axis`: keeps elements that are padding of the value, or of a list of places, but not of
 * the ranges that are subscripts, out of memory. */
static void
limit_store(Implier *im, TirOp *store, uint32_t axis)
{
    TirVal *value = store->args[store->n_args - 1];
    Pads known = padding_of_access(&im->padding, store, axis);

    for (TirDims d = tir_dims(store); tir_dims_next(&d);) {
        if (!d.places || axis < d.axis || axis - d.axis >= d.at->type.rank)
            continue;
        limit_by(im, store, axis, d.at, axis - d.axis, &known);
        Pads of_list = padding_of(&im->padding, d.at, axis - d.axis);
        for (uint32_t k = 0; k < of_list.n; k++)
            padding_add(&im->padding, &known, of_list.at[k]);
    }
    limit_by(im, store, axis, value, axis, &known);
}

/* ---- variables ---- */

/* Whether `next` is `old` and something added to it that is zero in its padding. */
static bool
adds_zeros(const TirVal *next, const TirVal *old)
{
    const TirOp *op = next->def;

    return op != NULL && op->op == TIR_ADD &&
           ((op->args[0] == old && is_zero_in_padding(op->args[1])) ||
            (op->args[1] == old && is_zero_in_padding(op->args[0])));
}

/* The pads of ranges of loops further in than `loops`, those of each part as one if they are not
 * plain. */
static Pads
pads_within(Implier *im, TirVal *value, uint32_t axis, uint32_t loops)
{
    Pads all = padding_of(&im->padding, value, axis), out = {0};

    for (uint32_t k = 0; k < all.n; k++) {
        Pad pad = all.at[k];
        if (pad.loops <= loops)
            continue;
        if (!pad.sure || !padding_is_there(&pad, value)) {
            pad.bound = padding_count(&im->padding, value, axis, &pad.part, loops + 1, UINT32_MAX);
            pad.start = padding_zero(&im->padding);
            Linear *distance = arena_new(im->px->arena, Linear);
            *distance = (Linear){.ok = true};
            linear_add(distance, pad.bound, 1);
            pad.distance = distance;
        }
        padding_add(&im->padding, &out, pad);
    }
    return out;
}

/* Replaces a `keep` by a select, once all questions about its padding are answered. */
static void
lower_keep(Implier *im, TirOp *keep)
{
    TirVal *next = keep->args[0], *old = keep->args[1], *inside = NULL, *kept = next;
    Pads within[PADDING_AXES] = {{0}};
    uint32_t n = 0;

    for (uint32_t axis = 0; axis < PADDING_AXES; axis++) {
        within[axis] = pads_within(im, next, axis, (uint32_t)keep->integer);
        n += within[axis].n;
    }
    TirBuilder b = padding_behind(&im->padding, keep->results[0]);
    if (n > 0 && !adds_zeros(next, old)) {
        for (uint32_t axis = 0; axis < PADDING_AXES; axis++) {
            for (uint32_t k = 0; k < within[axis].n; k++) {
                TirVal *along = inside_of(im, &b, &next->type, axis, &within[axis].at[k]);
                inside = inside == NULL ? along : tir_binary(&b, TIR_AND, inside, along);
            }
        }
    }
    if (inside != NULL)
        kept = tir_select(&b, inside, next, old);
    if (kept->name == NULL)
        kept->name = keep->results[0]->name;
    tir_replace_uses(im->fn, keep->results[0], kept);
    im->changed = true;
}

/* ---- the kernel ---- */

static void
imply_reduction(Implier *im, TirOp *op)
{
    double fill = tir_neutral(op->reduce, op->args[0]->type.dtype);
    bool harmless = op->reduce == REDUCE_SUM && is_zero_in_padding(op->args[0]);
    Pads pads = {0};

    if (!harmless)
        pads = pads_to_mask(im, op->args[0], op->axis, fill);
    else if (padding_of(&im->padding, op->args[0], op->axis).n > 0)
        trust(im, (Trusted){.value = op->args[0], .why = TRUST_LOAD});
    op->args[0] = mask_along(im, op->args[0], op->axis, &pads, fill);
}

static void
imply_op(Implier *im, TirOp *op)
{
    const char *fault = padding_spread_fault(&im->padding, op);

    if (fault != NULL)
        diag_error(im->px->diag, op->span, "%s", fault);
    if (tir_combines(op) && chosen_by_rows(op) == NULL)
        imply_reduction(im, op);
    if (op->op == TIR_MMA)
        imply_mma(im, op);
    if (tir_writes(op)) {
        for (uint32_t axis = 0; axis < op->args[op->n_args - 1]->type.rank; axis++)
            limit_store(im, op, axis);
    }
}

/* The operations of a block and the blocks in it as they are now, those in it first. */
typedef VEC(TirOp *) OpList;

static void
list_ops(Implier *im, const TirBlock *block, OpList *out)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            list_ops(im, op->blocks[k], out);
        vec_push(im->px->arena, out, op);
    }
}

/* Of the reductions that choose rows, those whose branch must be taken for its own rows' sake;
 * their masks may ask of others. */
static void
imply_choices(Implier *im, const OpList *ops)
{
    TirOp **branch = arena_array(im->px->arena, TirOp *, ops->n + 1);
    bool more = true;

    for (uint32_t i = 0; i < ops->n; i++)
        branch[i] = tir_combines(ops->at[i]) ? chosen_by_rows(ops->at[i]) : NULL;
    while (more) {
        more = false;
        for (uint32_t i = 0; i < ops->n; i++) {
            if (branch[i] == NULL || !is_counted(im, branch[i]))
                continue;
            branch[i]->by_rows = false;
            branch[i] = NULL;
            imply_reduction(im, ops->at[i]);
            more = true;
        }
    }
}

bool
pass_imply_masks(PassContext *px, TirFn *fn)
{
    Implier im = {.px = px, .fn = fn, .padding = padding_find(px, fn)};
    OpList ops = {0};

    list_ops(&im, fn->body, &ops);
    for (uint32_t i = 0; i < ops.n; i++)
        imply_op(&im, ops.at[i]);
    imply_choices(&im, &ops);
    for (uint32_t i = 0; i < ops.n; i++) {
        if (ops.at[i]->op == TIR_KEEP)
            lower_keep(&im, ops.at[i]);
        ops.at[i]->index[0].within = 0; /* indices are alike from here on, wherever they are made */
    }
    if (im.changed)
        pass_simplify(px, fn); /* masks of one range share its index vector and condition */
    return im.changed;
}
