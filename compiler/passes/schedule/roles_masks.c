/* roles_masks.c - masks of the iteration that stands before a pipelined loop.
 *
 *   does     segments say which masks an iteration needs (split-loops), but this one lies in one or
 *            another of them: in the first, or, where that is empty, in a later one.  A mask of a
 *            product's result that lives at one end of the loop stands under the question whether
 *            this iteration lies there, which is the same for all threads of a consumer:
 *
 *                s = mask s, window        first = lo < split            last = lo >= split'
 *                s = mask s, diagonal  ->  if first { mask s, window }   if last { mask s, diagonal }
 *
 *            A loop that goes backwards has the masks of its end in its first iteration but in rare
 *            tiles: no question about those.
 *   leaves   the conditions of those masks inside of the branches
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

/* Whether a mask is all that reads its tile, and that has the registers of a product's result: then
 * the side without the mask moves nothing.  (What is computed before it, as a tanh, runs beside the
 * mask.) */
static bool
takes_place(const Roles *r, const TirOp *op)
{
    const TirVal *tile = op->args[0];
    const TirOp *def = tile->def;

    if (def == NULL || def->parent != r->body || count_uses_in(r->body, tile) != 1)
        return false;
    return def->op == TIR_MMA || (def->op == TIR_MASK && takes_place(r, def));
}

/* Whether a mask lives at one end of the loop alone: before (TIR_LT) or behind (TIR_GE) place `k`
 * between its segments. */
static bool
is_of_one_end(const Roles *r, const TirOp *op, uint32_t *k, TirOpcode *side)
{
    uint32_t n = r->loop->n_segments, first = 0, last = 0;

    if (op->op != TIR_MASK || !takes_place(r, op) || !roles_is_remade(r, op->args[1]))
        return false;
    while (first < n && (op->segments >> first & 1) != 0)
        first++;
    while (last < n && (op->segments >> (n - 1 - last) & 1) != 0)
        last++;
    /* segments have changed places; the question is about the loop as it was written */
    if (r->backwards) {
        *k = last - 1;
        *side = TIR_LT;
        return first == 0 && last > 0;
    }
    *k = first > 0 ? first - 1 : n - 1 - last;
    *side = first > 0 ? TIR_LT : TIR_GE;
    return (first > 0) != (last > 0);
}

/* A tile; what a row or a column has in common is little work, and is better done under the
 * product. */
static bool
is_tile(const TirVal *value)
{
    return value->type.rank == 2 && value->type.dim[0] > 1 && value->type.dim[1] > 1;
}

/* Lists the tiles that only masks under a test read: nobody computes them for all. */
static void
find_only_tested(Roles *r)
{
    uint32_t n = r->body->ops.n, place;
    TirOp *const *ops = r->body->ops.at;
    TirOpcode side;

    for (uint32_t i = n; i-- > 0;) {
        const TirVal *value = ops[i]->n_results == 1 ? ops[i]->results[0] : NULL;
        uint32_t uses = 0;
        if (value == NULL || !is_tile(value) || !roles_is_remade(r, value))
            continue;
        for (uint32_t k = i + 1; k < n; k++) {
            bool tested = is_of_one_end(r, ops[k], &place, &side);
            bool only = ops[k]->n_results == 1 && r->only_tested[ops[k]->results[0]->id];
            for (uint32_t j = 0; j < ops[k]->n_args; j++)
                uses += ops[k]->args[j] == value && (only || (tested && j == 1));
        }
        r->only_tested[value->id] = uses > 0 && uses == count_uses_in(r->body, value);
    }
}

void
roles_find_tests(Roles *r, const CloneMap *map, TirVal *iteration)
{
    uint32_t n = r->loop->n_segments;

    if (n < 2 || r->clean_head)
        return;
    r->head = iteration;
    r->splits = arena_array(r->fn->arena, TirVal *, n);
    for (uint32_t k = 0; k + 1 < n; k++)
        r->splits[k] = clone_of(map, r->loop->args[2 + k]);
    r->only_tested = arena_array(r->fn->arena, bool, r->fn->next_id + 1);
    find_only_tested(r);
}

bool
roles_test_mask(Roles *r, CloneMap *map, const TirOp *op)
{
    uint32_t place;
    TirOpcode side;

    if (r->head == NULL)
        return false;
    if (op->n_results == 1 && r->only_tested[op->results[0]->id])
        return true;
    if (!is_of_one_end(r, op, &place, &side))
        return false;
    TirBlock *around = r->b.block;
    TirVal *whole = clone_of(map, op->args[0]);
    CloneMap own = clone_map_copy(r->fn, map);
    r->b.span = op->span;
    TirVal *test = tir_binary(&r->b, side, r->head, r->splits[place]);
    TirOp *branch = tir_if(&r->b, test, 1, &op->results[0]->type);
    r->b.block = branch->blocks[0];
    roles_remake(r, &own, op->args[1]);
    TirOp *mask = clone_op(&r->b, &own, op);
    mask->segments = UINT32_MAX;
    tir_yield(&r->b, 1, &mask->results[0]);
    r->b.block = branch->blocks[1];
    tir_yield(&r->b, 1, &whole);
    r->b.block = around;
    branch->results[0]->name = op->results[0]->name;
    clone_set(map, op->results[0], branch->results[0]);
    return true;
}
