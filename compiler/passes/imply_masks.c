/* imply_masks.c - keep the padding of edge tiles out of every reduction.
 *
 *   level    tile IR, from the front end
 *   does     a tile loaded with a range may reach past the end of its tensor; those elements load
 *            as zero, and what is computed from them means nothing.  Wherever a reduction (or the
 *            contraction of an mma) runs along such an axis, a padmask puts the reduction's
 *            neutral value there, unless a mask of the program's own has done so
 *            (implied_padding.c).  What a loop carries meets a range of its own in every iteration, so
 *            that an element may be padding of one tile and an element of another: where such a tile
 *            is reduced, in the loop or behind it, its elements keep what they had in those iterations in
 *            which they are padding
 *   leaves   padmask ops, with conditions that are affine in the range's start: split_loops
 *            removes them from all tiles but the last
 */
#include <math.h>

#include "compiler/passes/implied_padding.h"
#include "compiler/passes/tir_util.h"
#include "compiler/passrun.h"

/* The range behind one axis of a tile, or one of a pack of ranges: elements at or past `bound` are
 * padding. */
typedef struct Domain {
    bool there;
    TirVal *start, *bound; /* i32 scalars; bound NULL: the constant */
    int32_t constant;      /* bound when it is known at compile time, else 0 */
    uint32_t size;         /* index of the named size, when `bound` is NULL and constant is 0 */
    TirIndex index;
    TirOp *loop; /* that carries the tile, and in which the range begins; NULL: none does */
    uint32_t carried, axis; /* which of the carried ones, and along which of its axes */
} Domain;

enum {
    MAX_DOMAINS = 8,
    AXES = 2 /* of tiles that code is made for: others are refused later */
};

/* All ranges behind one axis. */
typedef struct Domains {
    uint32_t n;
    bool lost; /* there are more */
    Domain at[MAX_DOMAINS];
} Domains;

/* What a loop yields once its padding keeps what it had: along `axis` there is no padding any more. */
typedef struct Kept {
    TirOp *loop;
    uint32_t carried, axis;
    TirVal *value;
} Kept;

typedef struct Implier {
    PassContext *px;
    TirFn *fn;
    bool changed;
    /* masks already made */
    VEC(TirVal *) masked_from;
    VEC(TirVal *) masked_to;
    VEC(TirIndex) masked_along;
    VEC(Kept) kept; /* of what loops carry */
    Domains **known;  /* by id and axis, of the first `n_known` values; NULL: none */
    uint32_t n_known;
} Implier;

/* Whether every tile of the range lies inside its bound. */
static bool
divides(const TirVal *start, int32_t length, int64_t bound)
{
    if (bound % length != 0 || start == NULL)
        return false;
    const TirOp *def = start->def;
    if (def == NULL)
        return false;
    if (def->op == TIR_CONST)
        return def->integer >= 0 && def->integer + length <= bound;
    if (def->op != TIR_MUL)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        const TirOp *factor = def->args[k]->def;
        if (factor != NULL && factor->op == TIR_CONST && factor->integer == length)
            return true; /* a whole number of tiles from 0; the loop or grid bounds it */
    }
    return false;
}

/* Whether a value is defined where an operation of `block` can use it. */
static bool
is_visible(const TirVal *value, const TirBlock *block)
{
    if (value == NULL)
        return true;
    while (block != NULL && block != value->block)
        block = block->owner == NULL ? NULL : block->owner->parent;
    return block != NULL;
}

static void
add_domain(Domains *domains, Domain domain)
{
    bool have = !domain.there;

    if (domain.bound == NULL && domain.constant != 0)
        have = have || divides(domain.start, domain.index.length, domain.constant);
    for (uint32_t k = 0; k < domains->n && domain.index.rows > 0; k++)
        have = have || (domains->at[k].start == domain.start &&
                        tir_same_index(&domains->at[k].index, &domain.index));
    if (!have && domains->n < MAX_DOMAINS)
        domains->at[domains->n++] = domain;
    else
        domains->lost = domains->lost || !have;
}

static Domains
domains_of_load(const TirOp *op, uint32_t axis)
{
    Domains domains = {0};
    uint32_t operand = 0;

    for (uint32_t d = 0; d < op->tensor->rank; d++) {
        const TirIndex *index = &op->index[d];
        if (index->kind == INDEX_RANGE && tir_tile_dimension(op, d) == axis)
            add_domain(&domains, (Domain){.there = true,
                                          .start = op->args[operand],
                                          .constant = op->tensor->dim[d].constant,
                                          .size = op->tensor->dim[d].size,
                                          .index = *index});
        operand += index->kind != INDEX_FULL;
    }
    return domains;
}

static Domains
domains_of_iota(const TirOp *op)
{
    Domains domains = {0};
    Domain domain = {.there = true, .start = op->args[0], .bound = op->args[1]};
    const TirOp *bound = op->args[1]->def;

    domain.index = op->index[0];
    if (domain.index.rows == 0)
        domain.index = (TirIndex){.kind = INDEX_RANGE, .length = op->results[0]->type.dim[0]};
    if (bound != NULL && bound->op == TIR_CONST &&
        (bound->integer >= INT32_MAX / 2 ||
         divides(domain.start, domain.index.length, bound->integer)))
        domain.there = false;
    add_domain(&domains, domain);
    return domains;
}

static Domains domains_of(const Implier *im, const TirVal *value, uint32_t axis);

/* Whether `domain` is to be kept beside `all`: several of one pack, and of what several loops carry. */
static bool
is_another(const Domains *all, const Domain *domain)
{
    for (uint32_t k = 0; k < all->n; k++) {
        const Domain *other = &all->at[k];
        bool packed = other->index.rows > 0 && domain->index.rows > 0;
        if (!packed && other->loop == domain->loop && other->carried == domain->carried)
            return false;
    }
    return true;
}

static void
add_domains(Domains *all, Domains more)
{
    all->lost = all->lost || more.lost;
    for (uint32_t k = 0; k < more.n; k++) {
        if (is_another(all, &more.at[k]))
            add_domain(all, more.at[k]);
    }
}

/* Of what a loop carries: what its body yields, and what it begins with.  In a loop inside the one whose range it is,
 * padding is of another iteration only if the outer one carries the tile, too. */
static Domains
domains_of_carried(const Implier *im, TirOp *loop, uint32_t carried, uint32_t axis)
{
    TirVal *initial = loop->args[loop_first_initial(loop) + carried];
    Domains domains = domains_of(im, block_yield(loop->blocks[0])->args[carried], axis);
    Domains before = domains_of(im, initial, axis);
    bool outside = false;

    for (uint32_t k = 0; k < before.n; k++)
        outside = outside || before.at[k].loop != NULL;
    uint32_t n = domains.n;
    for (uint32_t k = 0; k < n; k++) {
        Domain *domain = &domains.at[k], own = *domain;
        if (!is_visible(domain->start, loop->blocks[0]) ||
            (!outside && is_visible(domain->start, loop->parent)))
            continue;
        own.loop = loop;
        own.carried = carried;
        own.axis = axis;
        if (domain->loop == NULL)
            *domain = own;
        else if (domain->loop != loop && is_another(&domains, &own)) /* of a loop inside, and of this one */
            add_domain(&domains, own);
    }
    add_domains(&domains, before);
    return domains;
}

/* Those of `all` that begin where `block` sees it: one, or several of one pack. */
static Domains
visible_domains(const Domains *all, const TirBlock *block)
{
    Domains domains = {0};

    for (uint32_t k = 0; k < all->n; k++) {
        Domain domain = all->at[k];
        domain.loop = NULL;
        domain.carried = 0;
        if (is_visible(domain.start, block) && is_another(&domains, &domain))
            add_domain(&domains, domain);
    }
    return domains;
}

/* By what the operands have. */
static Domains
find_domains(const Implier *im, const TirVal *value, uint32_t axis)
{
    TirOp *op = value->def;
    Domains none = {0}, all = {0};

    if (op == NULL) { /* carried by a loop: what the body yields */
        TirOp *loop = value->block->owner;
        if (loop == NULL || loop->op != TIR_FOR || value->index == 0)
            return none;
        return domains_of_carried(im, loop, value->index - 1, axis);
    }
    switch (op->op) {
    case TIR_LOAD:
        return domains_of_load(op, axis);
    case TIR_IOTA:
        return domains_of_iota(op);
    case TIR_MMA:
        return domains_of(im, op->args[axis], axis);
    case TIR_TRANSPOSE:
        return domains_of(im, op->args[0], 1 - axis);
    case TIR_EXPAND:
        if (axis == op->axis)
            return none;
        return domains_of(im, op->args[0], axis > op->axis ? axis - 1 : axis);
    case TIR_SQUEEZE:
        return domains_of(im, op->args[0], axis >= op->axis ? axis + 1 : axis);
    case TIR_BROADCAST:
        if (op->args[0]->type.rank == 0 || op->args[0]->type.dim[axis] == 1)
            return none;
        return domains_of(im, op->args[0], axis);
    case TIR_REDUCE:
        return domains_of(im, op->args[0], axis >= op->axis ? axis + 1 : axis);
    case TIR_FOR:
        return domains_of_carried(im, op, value->index, axis);
    case TIR_IF:
        for (uint32_t k = 0; k < op->n_blocks; k++)
            add_domains(&all, domains_of(im, block_yield(op->blocks[k])->args[value->index], axis));
        return all;
    default: /* one range, or parts of one pack that stand in several operands */
        for (uint32_t k = 0; k < op->n_args; k++)
            add_domains(&all, domains_of(im, op->args[k], axis));
        return all;
    }
}

static Domains
domains_of(const Implier *im, const TirVal *value, uint32_t axis)
{
    Domains none = {0};

    for (uint32_t k = 0; k < im->kept.n; k++) {
        if (im->kept.at[k].value == value && im->kept.at[k].axis == axis)
            return none;
    }
    if (axis >= value->type.rank || axis >= AXES)
        return none;
    if (value->id >= im->n_known) /* made by this pass */
        return find_domains(im, value, axis);
    const Domains *known = im->known[AXES * value->id + axis];
    return known != NULL ? *known : none;
}

static bool
same_domains(const Domains *a, const Domains *b)
{
    bool same = a->n == b->n && a->lost == b->lost;

    for (uint32_t k = 0; k < a->n && same; k++) {
        const Domain *x = &a->at[k], *y = &b->at[k];
        same = x->start == y->start && x->bound == y->bound && x->constant == y->constant &&
               x->size == y->size && x->loop == y->loop && x->carried == y->carried && x->axis == y->axis &&
               tir_same_index(&x->index, &y->index);
    }
    return same;
}

/* Whether something was found out about `value` that was not known. */
static bool
learn_value(Implier *im, const TirVal *value)
{
    bool news = false;

    for (uint32_t axis = 0; axis < value->type.rank && axis < AXES; axis++) {
        Domains **known = &im->known[AXES * value->id + axis], now = find_domains(im, value, axis);
        if (*known == NULL ? now.n == 0 && !now.lost : same_domains(*known, &now))
            continue;
        if (*known == NULL)
            *known = arena_new(im->px->arena, Domains);
        **known = now;
        news = true;
    }
    return news;
}

static bool
learn_block(Implier *im, const TirBlock *block)
{
    bool news = false;

    for (uint32_t k = 0; k < block->params.n; k++)
        news |= learn_value(im, block->params.at[k]);
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            news |= learn_block(im, op->blocks[k]);
        for (uint32_t k = 0; k < op->n_results; k++)
            news |= learn_value(im, op->results[k]);
    }
    return news;
}

/* Finds the ranges behind all values: those of operands first, and again while loops give more. */
static void
learn(Implier *im)
{
    im->n_known = im->fn->next_id;
    im->known = arena_array(im->px->arena, Domains *, AXES * im->n_known + 1);
    for (uint32_t rounds = 0; learn_block(im, im->fn->body); rounds++) {
        if (rounds > im->n_known) {
            buf_add(im->px->bugs, "the ranges behind the tiles of loops do not settle\n");
            return;
        }
    }
}


/* Whether a value is zero wherever it is padding. */
static bool
is_zero_in_padding(const TirVal *value, uint32_t axis)
{
    const TirOp *op = value->def;

    if (op == NULL)
        return false;
    if (op->op == TIR_LOAD)
        return true;
    if (op->op == TIR_CAST)
        return is_zero_in_padding(op->args[0], axis);
    if (op->op == TIR_TRANSPOSE)
        return is_zero_in_padding(op->args[0], 1 - axis);
    return false;
}

/* A named size as a value that the whole kernel sees. */
static TirVal *
size_value(Implier *im, uint32_t size)
{
    TirBlock *body = im->fn->body;
    TirBuilder b = {.fn = im->fn, .block = body, .at = 0, .span = im->fn->span};
    TirType i32 = tir_scalar(DT_I32);

    for (uint32_t i = 0; i < body->ops.n && body->ops.at[i]->op == TIR_SIZE; i++) {
        if (body->ops.at[i]->integer == size)
            return body->ops.at[i]->results[0];
    }
    TirOp *op = tir_op_new(&b, TIR_SIZE, 0, NULL, 1, &i32);
    op->integer = size;
    return op->results[0];
}

/* Which elements of a tile are no padding along `axis`. */
static TirVal *
inside_of(TirBuilder *b, const TirType *type, uint32_t axis, const Domain *domain, TirVal *bound)
{
    TirVal *index = tir_iota_part(b, domain->start, bound, domain->index);
    TirVal *inside = tir_binary(b, TIR_LT, index, tir_broadcast_to(b, bound, &index->type));

    if (type->rank == 2)
        inside = tir_expand(b, inside, 1 - axis);
    return tir_broadcast_to(b, inside, type);
}

/* Whether `next` is `carried` and something added to it that is zero in padding. */
static bool
adds_zeros(const TirVal *next, const TirVal *carried, uint32_t axis)
{
    const TirOp *op = next->def;

    if (op == NULL || op->op != TIR_ADD)
        return next == carried;
    return (op->args[0] == carried && is_zero_in_padding(op->args[1], axis)) ||
           (op->args[1] == carried && is_zero_in_padding(op->args[0], axis));
}

/* The place in the loop's body where `next` and the range are known. */
static int32_t
place_behind(const TirBlock *body, const TirVal *next, const Domain *domain)
{
    int32_t at = 0;

    for (uint32_t i = 0; i + 1 < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op == next->def || op == domain->start->def || (domain->bound != NULL && op == domain->bound->def))
            at = (int32_t)i + 1;
    }
    return at;
}

/* Lets elements that are padding in an iteration keep what they had before it.  Whether something had to
 * be done for that. */
static bool
keep_carried(Implier *im, const TirOp *op, const Domain *domain)
{
    if (domain->loop == NULL || !is_visible(domain->start, domain->loop->blocks[0])) {
        diag_error(im->px->diag, op->span, "padding of a tile that a branch made can not be told from its "
                   "elements here");
        return false;
    }
    TirBlock *body = domain->loop->blocks[0];
    TirOp *yield = block_yield(body);
    TirVal *next = yield->args[domain->carried], *carried = body->params.at[domain->carried + 1];
    TirVal *bound = domain->bound;
    Kept kept = {.loop = domain->loop, .carried = domain->carried, .axis = domain->axis};

    for (uint32_t i = 0; i < im->kept.n; i++) {
        if (im->kept.at[i].loop == domain->loop && im->kept.at[i].carried == domain->carried &&
            im->kept.at[i].axis == domain->axis)
            return false;
    }
    if (adds_zeros(next, carried, domain->axis)) {
        kept.value = next;
        vec_push(im->px->arena, &im->kept, kept);
        learn(im);
        return true;
    }
    if (bound == NULL && domain->constant == 0)
        bound = size_value(im, domain->size);
    TirBuilder b = {.fn = im->fn, .block = body, .at = place_behind(body, next, domain), .span = yield->span};
    if (bound == NULL)
        bound = tir_const_int(&b, domain->constant);
    TirVal *inside = inside_of(&b, &next->type, domain->axis, domain, bound);
    kept.value = tir_select(&b, inside, next, carried);
    tir_replace_uses(im->fn, next, kept.value);
    kept.value->def->args[1] = next;
    for (uint32_t k = 0; k < yield->n_args; k++) { /* what others are given keeps what they had */
        if (k != domain->carried && yield->args[k] == kept.value)
            yield->args[k] = next;
    }
    vec_push(im->px->arena, &im->kept, kept);
    im->changed = true;
    learn(im);
    return true;
}

static bool
is_in_loop(const TirOp *op, const TirOp *loop)
{
    const TirBlock *block = op->parent;

    while (block != NULL && block->owner != loop)
        block = block->owner == NULL ? NULL : block->owner->parent;
    return block != NULL;
}

/* Whether a range is, where `op` stands, that of other iterations: what a loop around it carries has it. */
static bool
is_of_others(const Domains *all, const Domain *domain, const TirOp *op)
{
    for (uint32_t k = 0; k < all->n && domain->loop != NULL; k++) {
        const Domain *other = &all->at[k];
        if (other->loop != NULL && other->start == domain->start && is_in_loop(op, other->loop))
            return true;
    }
    return false;
}

/* The ranges along which padding can be told from elements of operand `k` where `op` stands; of others, which
 * are those of other iterations, loops keep it out of what they carry. */
static Domains
domains_at(Implier *im, const TirOp *op, uint32_t k, uint32_t axis)
{
    Domains own;
    bool again = true;

    while (again) { /* the operand is another when something is kept */
        Domains all = domains_of(im, op->args[k], axis);
        own = (Domains){0};
        again = false;
        if (all.lost)
            diag_error(im->px->diag, op->span, "more than %d ranges meet in this tile", MAX_DOMAINS);
        for (uint32_t i = 0; i < all.n; i++) {
            Domain *domain = &all.at[i];
            if (is_of_others(&all, domain, op) || !is_visible(domain->start, op->parent))
                again |= keep_carried(im, op, domain);
            else
                own.at[own.n++] = *domain;
        }
    }
    return visible_domains(&own, op->parent);
}

/* A mask of `value` along `axis`, made right after the value; one value is masked once for each
 * fill. */
static TirVal *
mask_value(Implier *im, TirVal *value, uint32_t axis, const Domain *domain, double fill)
{
    TirBlock *block = value->block;
    TirBuilder b = {.fn = im->fn, .block = block, .at = 0};

    for (uint32_t i = 0; i < im->masked_from.n; i++) {
        const TirOp *made = im->masked_to.at[i]->def;
        if (im->masked_from.at[i] == value && made->axis == axis && made->number == fill &&
            im->masked_along.at[i].inner == domain->index.inner &&
            im->masked_along.at[i].length == domain->index.length)
            return im->masked_to.at[i];
    }
    /* Padding never matters, so one value may be masked along every axis that some user asks for:
     * a second mask goes on top of the first, and both users read it. */
    TirVal *earlier = NULL;
    for (uint32_t i = 0; i < im->masked_from.n; i++) {
        if (im->masked_from.at[i] == value && im->masked_to.at[i]->def->number == fill)
            earlier = im->masked_to.at[i];
    }
    if (earlier != NULL && domain->start->block != block &&
        (domain->bound == NULL || domain->bound->block != block)) {
        TirVal *both = mask_value(im, earlier, axis, domain, fill);
        tir_replace_uses(im->fn, earlier, both);
        both->def->args[0] = earlier;
        return both;
    }
    /* After the definitions of the value and of the range, whichever comes last. */
    TirVal *bound = domain->bound;
    if (bound == NULL && domain->constant == 0)
        bound = size_value(im, domain->size); /* first: it may move what stands in this block */
    int32_t at = 0;
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op == value->def || op == domain->start->def ||
            (domain->bound != NULL && op == domain->bound->def))
            at = (int32_t)i + 1;
    }
    b.at = at < (int32_t)block->ops.n ? at : -1;
    b.span = value->def != NULL ? value->def->span : im->fn->span;
    if (bound == NULL)
        bound = tir_const_int(&b, domain->constant);
    TirVal *args[] = {value, inside_of(&b, &value->type, axis, domain, bound)};
    TirOp *mask = tir_op_new(&b, TIR_PADMASK, 2, args, 1, &value->type);
    mask->number = fill;
    mask->axis = axis;
    mask->segments = ~0u;
    vec_push(im->px->arena, &im->masked_from, value);
    vec_push(im->px->arena, &im->masked_to, mask->results[0]);
    vec_push(im->px->arena, &im->masked_along, domain->index);
    im->changed = true;
    return mask->results[0];
}

/* A bound as a value of its own, to be compared with others. */
typedef struct Bound {
    TirOp op;
    TirVal value;
} Bound;

static PaddedRange
padded_range(const Domain *domain, Bound *made)
{
    if (!domain->there || domain->start == NULL || domain->index.rows > 0)
        return (PaddedRange){NULL, NULL};
    *made = (Bound){.op = {.op = TIR_SIZE, .integer = (int64_t)domain->size},
                    .value = {.type = tir_scalar(DT_I32)}};
    if (domain->constant != 0)
        made->op = (TirOp){.op = TIR_CONST, .integer = domain->constant};
    made->value.def = &made->op;
    return (PaddedRange){domain->start, domain->bound != NULL ? domain->bound : &made->value};
}

/* Whether the program's own masks leave nothing of the padding along `axis`. */
static bool
is_masked(Implier *im, const TirVal *value, uint32_t axis, const Domain *domain, double fill)
{
    Bound bounds[2];

    if (value->type.rank != 2 || !im->px->target->drops_hidden_padding)
        return false;
    Domains all = domains_of(im, value, 1 - axis), others = visible_domains(&all, value->block);
    PaddedRange none = {NULL, NULL};
    return padding_is_masked(im->px->arena, im->fn, value, axis, padded_range(domain, &bounds[0]),
                             others.n == 1 ? padded_range(&others.at[0], &bounds[1]) : none, fill);
}

static TirVal *
mask_along(Implier *im, TirVal *value, uint32_t axis, const Domains *domains, double fill)
{
    for (uint32_t k = 0; k < domains->n; k++) {
        if (!is_masked(im, value, axis, &domains->at[k], fill))
            value = mask_value(im, value, axis, &domains->at[k], fill);
    }
    return value;
}

/* Masks below casts and transposes, where the value is still f32. */
static TirVal *
mask_operand(Implier *im, TirVal *value, uint32_t axis, const Domains *domains)
{
    TirOp *op = value->def;

    if (op != NULL && (op->op == TIR_CAST || op->op == TIR_TRANSPOSE)) {
        TirVal *inner = mask_operand(im, op->args[0], op->op == TIR_CAST ? axis : 1 - axis, domains);
        if (count_uses(im->fn, value) == 1) {
            op->args[0] = inner;
            /* The masked value may be defined after this operation's old place: it is not, as
             * masks follow their value directly and the operation follows the value too. */
            return value;
        }
        TirBuilder b = {.fn = im->fn, .block = op->parent, .at = -1, .span = op->span};
        for (uint32_t i = 0; i < op->parent->ops.n; i++) {
            if (op->parent->ops.at[i] == op)
                b.at = (int32_t)i + 1;
        }
        TirOp *again = tir_op_new(&b, op->op, 1, &inner, 1, &value->type);
        return again->results[0];
    }
    return mask_along(im, value, axis, domains, 0);
}

static double
neutral(const TirOp *op)
{
    bool ints = op->args[0]->type.dtype == DT_I32;

    switch (op->reduce) {
    case REDUCE_MAX:
        return ints ? (double)INT32_MIN : -INFINITY;
    case REDUCE_MIN:
        return ints ? (double)INT32_MAX : INFINITY;
    case REDUCE_ALL:
        return 1;
    default:
        return 0;
    }
}

/* The operation that alone reads `value`; NULL: there are several, or none. */
static const TirOp *
only_reader(const TirBlock *block, const TirVal *value, uint32_t *n)
{
    const TirOp *reader = NULL;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_args; k++) {
            *n += op->args[k] == value;
            reader = op->args[k] == value ? op : reader;
        }
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            const TirOp *inner = only_reader(op->blocks[k], value, n);
            reader = inner != NULL ? inner : reader;
        }
    }
    return *n == 1 ? reader : NULL;
}

/* Whether `any` only finds out if something holds for the rows of a branch: padding may let rows
 * take it for which nothing holds. */
static bool
only_chooses_rows(const TirOp *any)
{
    while (any->op == TIR_REDUCE && any->reduce == REDUCE_ANY) {
        uint32_t n = 0;
        const TirOp *reader = only_reader(any->parent, any->results[0], &n);
        if (reader == NULL || reader->parent != any->parent)
            return false;
        any = reader;
    }
    return any->op == TIR_IF && any->by_rows;
}

static void
imply_block(Implier *im, TirBlock *block)
{
    VEC(TirOp *) ops = {0};

    for (uint32_t i = 0; i < block->ops.n; i++)
        vec_push(im->px->arena, &ops, block->ops.at[i]);
    for (uint32_t i = 0; i < ops.n; i++) {
        TirOp *op = ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            imply_block(im, op->blocks[k]);
        if (op->op == TIR_REDUCE && !only_chooses_rows(op)) {
            Domains domains = domains_at(im, op, 0, op->axis);
            bool harmless = op->reduce == REDUCE_SUM && is_zero_in_padding(op->args[0], op->axis);
            if (!harmless)
                op->args[0] = mask_along(im, op->args[0], op->axis, &domains, neutral(op));
        }
        for (uint32_t k = 0; op->op == TIR_MMA && k < 2; k++) {
            uint32_t axis = 1 - k;
            Domains domains = domains_at(im, op, k, axis);
            if (domains.n > 0 && !is_zero_in_padding(op->args[k], axis))
                op->args[k] = mask_operand(im, op->args[k], axis, &domains);
        }
    }
}

bool
pass_imply_masks(PassContext *px, TirFn *fn)
{
    Implier im = {.px = px, .fn = fn};
    learn(&im);
    imply_block(&im, fn->body);
    if (im.changed)
        pass_simplify(px, fn); /* masks of one range share its index vector and condition */
    return im.changed;
}
