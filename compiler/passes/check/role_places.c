/* role_places.c - part of pass `check-roles`: what copies bring and loads want, and who reads
 * it. */
#include "compiler/passes/check/check_roles.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/shared_uses.h"

typedef struct Collector {
    Arena *arena;
    const Walk *walk;
    Places *places;
} Collector;

static PlaceOf *
place_of(Arena *arena, const TirOp *op)
{
    PlaceOf *of = arena_new(arena, PlaceOf);
    uint32_t part = op->op == TIR_TMA_LOAD ? (uint32_t)op->integer : 0;
    TirVal *at[TENSOR_MAX_RANK];

    *of = (PlaceOf){.op = op,
                    .condition = tir_copy_condition(op),
                    .slot = op->shared->id * MOST_CONSUMERS + part};
    tir_dim_operands(op, at);
    for (uint32_t d = 0; d < op->tensor->rank; d++) {
        of->dim[of->n] = d;
        of->at[of->n] = at[d];
        of->n += at[d] != NULL;
    }
    return of;
}

static bool
collect(void *user, const TirOp *op)
{
    Collector *k = user;
    PlaceOf *of = *k->walk->kept;

    if (of == NULL)
        *k->walk->kept = of = place_of(k->arena, op);
    Place place = {.of = of};
    for (uint32_t i = 0; i < of->n; i++) {
        Scalar at = walk_value(k->walk, of->at[i]);
        place.at[of->dim[i]] = at.value * at.known;
        place.known |= (uint32_t)at.known << of->dim[i];
    }
    if (of->condition != NULL) { /* where it is not known there may be nothing */
        Scalar copies = walk_value(k->walk, of->condition);
        place.empty = !copies.known || copies.value == 0;
    }
    vec_push(k->arena, &k->places[of->slot], place);
    return true;
}

bool
list_places(Arena *arena, const TirFn *fn, Walk *walk, WalkProgram *program, Places **places)
{
    uint32_t n = (fn->shared.n + 1) * MOST_CONSUMERS;

    if (*places == NULL)
        *places = arena_array(arena, Places, n);
    for (uint32_t k = 0; k < n; k++)
        (*places)[k].n = 0;
    Collector collector = {.arena = arena, .walk = walk, .places = *places};
    return walk_run_at(walk, program, collect, &collector);
}

bool
same_place(const Place *a, const Place *b)
{
    const TirTensor *tensor = a->of->op->tensor;
    bool same = a->known == b->known && memcmp(a->at, b->at, sizeof a->at) == 0;

    for (uint32_t k = 0; k < tensor->rank && !same; k++)
        if ((a->known & b->known & 1u << k) != 0 && a->at[k] != b->at[k])
            return false;
    if (tensor != b->of->op->tensor)
        return false;
    if (b->of->like != a->of->op && tir_same_ways(a->of->op, b->of->op))
        b->of->like = a->of->op;
    return b->of->like == a->of->op;
}

typedef struct Search {
    const TirShared *pipeline;
    const TirOp *reader;
} Search;

static bool
search(void *user, const TirOp *op)
{
    Search *s = user;
    bool transposed, view = op->op == TIR_TRANSPOSE || op->op == TIR_PART;

    for (uint32_t k = 0; k < op->n_args && !view; k++) {
        const TirOp *read = view_source(op->args[k], &transposed);
        if (read != NULL && read->op == TIR_SHARED_READ && read->shared == s->pipeline)
            s->reader = op;
    }
    return s->reader == NULL;
}

bool
find_reader(Walk *walk, WalkProgram *program, const TirShared *pipeline, const TirOp **reader)
{
    Search s = {.pipeline = pipeline};

    bool whole = walk_run_at(walk, program, search, &s);
    *reader = s.reader;
    return whole;
}

/* Whether two scalars are computed in the same way; `same`, by id: what was found to be. */
static bool
same_expression(const TirVal **same, const TirVal *a, const TirVal *b)
{
    const TirOp *x = a->def, *y = b->def;
    uint32_t k = 0;

    if (a == b || same[a->id] == b)
        return true;
    if (x == NULL || y == NULL || x->op != y->op || x->integer != y->integer ||
        x->tensor != y->tensor || x->n_args != y->n_args || !tir_type_eq(a->type, b->type) ||
        x->n_blocks > 0)
        return false;
    while (k < x->n_args && same_expression(same, x->args[k], y->args[k]))
        k++;
    same[a->id] = k == x->n_args ? b : NULL;
    return k == x->n_args;
}

const TirOp *
changed_kept(Arena *arena, const TirFn *fn)
{
    const TirBlock *finds = tir_program(fn->plan, ROLE_NEXT_TILE);
    const TirVal **same = arena_array(arena, const TirVal *, fn->next_id + 1);
    const TirOp **found = arena_array(arena, const TirOp *, fn->next_id + 1), *other = NULL;

    if (finds == NULL)
        return NULL;
    for (TirWalk walk = tir_walk(finds); tir_walk_next(&walk);)
        if (walk.op->kept != 0)
            found[walk.op->kept] = walk.op;
    for (TirWalk walk = tir_walk(fn->body); other == NULL && tir_walk_next(&walk);) {
        const TirOp *of = found[walk.op->kept];
        if (walk.op->kept != 0 && of != NULL &&
            !same_expression(same, of->results[0], walk.op->results[0]))
            other = of;
    }
    return other;
}

void
print_place(Buf *out, const char *what, const Place *place)
{
    buf_printf(out, "    %s %s[", what, place->of->op->tensor->name);
    for (TirDims d = tir_dims(place->of->op); tir_dims_next(&d);) {
        buf_add(out, d.dim > 0 ? ", " : "");
        if (d.at == NULL)
            buf_char(out, ':');
        else if ((place->known >> d.dim & 1) != 0)
            buf_printf(out, "%lld", (long long)place->at[d.dim]);
        else
            buf_char(out, '?');
        if (d.range)
            buf_printf(out, " +: %d", (int)d.length);
        if (d.index->rows > 0)
            buf_printf(out, " by %d", (int)d.index->inner);
    }
    buf_add(out, "]\n");
}
