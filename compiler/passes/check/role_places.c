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

static bool
collect(void *user, const TirOp *op)
{
    Collector *k = user;
    uint32_t part = op->op == TIR_TMA_LOAD ? (uint32_t)op->integer : 0;

    Place place = {.op = op};
    TirVal *at[TENSOR_MAX_RANK];
    tir_dim_operands(op, at);
    for (uint32_t d = 0; d < op->tensor->rank; d++)
        place.at[d] = at[d] != NULL ? walk_value(k->walk, at[d]) : (Scalar){0};
    if (tir_copy_condition(op) != NULL) { /* where it is not known there may be nothing */
        Scalar copies = walk_value(k->walk, tir_copy_condition(op));
        place.empty = !copies.known || copies.value == 0;
    }
    vec_push(k->arena, &k->places[op->shared->id * MOST_CONSUMERS + part], place);
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
    if (a->op->tensor != b->op->tensor)
        return false;
    for (uint32_t k = 0; k < a->op->tensor->rank; k++) {
        if (a->at[k].known && b->at[k].known && a->at[k].value != b->at[k].value)
            return false;
    }
    return tir_same_ways(a->op, b->op);
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
    buf_printf(out, "    %s %s[", what, place->op->tensor->name);
    for (TirDims d = tir_dims(place->op); tir_dims_next(&d);) {
        buf_add(out, d.dim > 0 ? ", " : "");
        if (d.at == NULL)
            buf_char(out, ':');
        else if (place->at[d.dim].known)
            buf_printf(out, "%lld", (long long)place->at[d.dim].value);
        else
            buf_char(out, '?');
        if (d.range)
            buf_printf(out, " +: %d", (int)d.length);
        if (d.index->rows > 0)
            buf_printf(out, " by %d", (int)d.index->inner);
    }
    buf_add(out, "]\n");
}
