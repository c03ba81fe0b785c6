/* carry_choices.c - arithmetic that depends only on a branch's results moves into the branch.
 *
 *   level    tile IR, fused
 *   does     in a loop, a branch may leave carried values unchanged, and arithmetic after it may
 *            depend on these values alone:
 *
 *                m = if .. { new } else { m_before };  c = f(m)
 *
 *            If the branch is not taken, f(m) is the same as in the iteration before.  So f moves
 *            into the branch, and c becomes a carried value, too
 *   leaves   a branch and a loop with more results
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_inputs.h"
#include "compiler/passes/util/tir_util.h"

typedef VEC(TirVal *) ValueList;

typedef struct Carrier {
    TirFn *fn;
    TirOp *loop, *branch;
    TirBlock *body;
    bool *kept;    /* by value: a result that the branch may leave as it was before */
    bool *follows; /* by value: follows from kept results */
} Carrier;

/* Whether result `k` of the branch is the next value of a carried value that the branch's other way
 * gives back unchanged; which one. */
static TirVal *
carried_by(const Carrier *c, uint32_t k)
{
    TirVal *other = block_yield(c->branch->blocks[1])->args[k];

    if (other->block != c->body || other->def != NULL || other == c->body->params.at[0])
        return NULL;
    for (uint32_t j = 1; j < c->body->params.n; j++) {
        if (c->body->params.at[j] == other &&
            block_yield(c->body)->args[j - 1] == c->branch->results[k])
            return other;
    }
    return NULL;
}

static bool
is_arithmetic(const TirOp *op)
{
    return (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 && op->n_results == 1 &&
           op->results[0]->type.rank == 1 && !tir_is_mask(op);
}

/* A constant or a scalar spread over a vector, from outside the loop or a constant inside it. */
static bool
is_invariant(const Carrier *c, const TirVal *value)
{
    for (TirInputs in = tir_inputs(c->fn->arena, value); tir_inputs_next(&in);) {
        const TirOp *def = in.value->def;
        if (in.value->block != c->body) {
            if (!tir_is_inside(c->body, in.value->block))
                return false;
            continue;
        }
        if (def == NULL || !tir_can_be_again(def))
            return false;
        tir_inputs_follow(&in);
    }
    return true;
}

static uint32_t
branch_place(const Carrier *c)
{
    uint32_t at = 0;

    while (c->body->ops.at[at] != c->branch)
        at++;
    return at;
}

/* Marks what follows from the branch's kept results; returns how many operations. */
static uint32_t
find_followers(Carrier *c)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < c->branch->n_results; k++)
        c->kept[c->branch->results[k]->id] = carried_by(c, k) != NULL;
    for (uint32_t i = branch_place(c) + 1; i < c->body->ops.n; i++) {
        const TirOp *op = c->body->ops.at[i];
        bool some = false, all = is_arithmetic(op);
        for (uint32_t k = 0; all && k < op->n_args; k++) {
            const TirVal *arg = op->args[k];
            bool from = c->kept[arg->id] || c->follows[arg->id];
            some = some || from;
            all = from || is_invariant(c, arg);
        }
        if (all && some) {
            c->follows[op->results[0]->id] = true;
            n++;
        }
    }
    return n;
}

/* Whether an operation that does not follow from the branch's results uses `value`. */
static bool
used_elsewhere(const Carrier *c, const TirBlock *block, const TirVal *value)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        bool follows = op->n_results == 1 && c->follows[op->results[0]->id];
        for (uint32_t k = 0; k < op->n_args && !follows; k++) {
            if (op->args[k] == value)
                return true;
        }
    }
    return false;
}

/* `value` computed by `b`, `map` saying what the branch's results are there. */
static TirVal *
compute(Carrier *c, TirBuilder *b, CloneMap *map, TirVal *value)
{
    if (map->to[value->id] != NULL)
        return map->to[value->id];
    if (value->block != c->body || value->def == NULL)
        return value;
    for (uint32_t k = 0; k < value->def->n_args; k++)
        compute(c, b, map, value->def->args[k]);
    return clone_op(b, map, value->def)->results[0];
}

static void
add_yield(TirFn *fn, TirBlock *block, TirVal *value)
{
    op_add_arg(fn->arena, block_yield(block), value);
}

static TirVal *
add_result(TirFn *fn, TirOp *op, TirType type, const char *name)
{
    TirVal *result = arena_new(fn->arena, TirVal);
    TirVal **results = arena_array(fn->arena, TirVal *, op->n_results + 1);

    for (uint32_t k = 0; k < op->n_results; k++)
        results[k] = op->results[k];
    *result = (TirVal){.id = fn->next_id++,
                       .name = name,
                       .type = type,
                       .def = op,
                       .block = op->parent,
                       .index = op->n_results};
    results[op->n_results++] = result;
    op->results = results;
    return result;
}

static uint32_t
place_of(const TirBlock *block, const TirOp *op)
{
    uint32_t at = 0;

    while (block->ops.at[at] != op)
        at++;
    return at;
}

static void
carry(Carrier *c, TirVal *value)
{
    TirFn *fn = c->fn;
    uint32_t first = loop_first_initial(c->loop);
    TirBuilder before = {.fn = fn,
                         .block = c->loop->parent,
                         .span = value->def->span,
                         .at = (int32_t)place_of(c->loop->parent, c->loop)};
    TirBuilder inside = {.fn = fn,
                         .block = c->branch->blocks[0],
                         .span = value->def->span,
                         .at = (int32_t)(c->branch->blocks[0]->ops.n - 1)};
    CloneMap at_first = clone_map(fn), in_branch = clone_map(fn);

    for (uint32_t k = 0; k < c->branch->n_results; k++) {
        TirVal *result = c->branch->results[k];
        if (!c->kept[result->id])
            continue;
        TirVal *param = carried_by(c, k);
        clone_set(&at_first, result, c->loop->args[first + param->index - 1]);
        clone_set(&in_branch, result, block_yield(c->branch->blocks[0])->args[k]);
    }
    TirVal *initial = compute(c, &before, &at_first, value);
    TirVal *taken = compute(c, &inside, &in_branch, value);
    TirVal *param = loop_add_carried(fn, c->loop, initial, value->name);
    add_yield(fn, c->branch->blocks[0], taken);
    add_yield(fn, c->branch->blocks[1], param);
    TirVal *result = add_result(fn, c->branch, value->type, value->name);
    add_yield(fn, c->body, result);
    tir_replace_uses(fn, value, result);
}

static bool
carry_branch(Carrier *c)
{
    /* operations that move, at least, to pay for a carried value; carried values, which are
     * registers */
    enum { WORTH_IT = 2, MOST_CARRIED = 4 };
    ValueList values = {0};

    c->kept = arena_array(c->fn->arena, bool, c->fn->next_id + 1);
    c->follows = arena_array(c->fn->arena, bool, c->fn->next_id + 1);
    if (find_followers(c) < WORTH_IT)
        return false;
    for (uint32_t i = branch_place(c) + 1; i < c->body->ops.n; i++) {
        const TirOp *op = c->body->ops.at[i];
        if (op->n_results == 1 && c->follows[op->results[0]->id] &&
            used_elsewhere(c, c->body, op->results[0]))
            vec_push(c->fn->arena, &values, op->results[0]);
    }
    if (values.n == 0 || values.n > MOST_CARRIED)
        return false;
    for (uint32_t k = 0; k < values.n; k++)
        carry(c, values.at[k]);
    return true;
}

bool
pass_carry_choices(PassContext *px, TirFn *fn)
{
    bool changed = false;

    (void)px;
    for (uint32_t i = 0; i < fn->body->ops.n; i++) {
        TirOp *loop = fn->body->ops.at[i];
        if (loop->op != TIR_FOR)
            continue;
        uint32_t n = loop->blocks[0]->ops.n;
        for (uint32_t k = 0; k < n; k++) {
            Carrier c = {.fn = fn,
                         .loop = loop,
                         .body = loop->blocks[0],
                         .branch = loop->blocks[0]->ops.at[k]};
            if (c.branch->op == TIR_IF && carry_branch(&c)) {
                changed = true;
                i = place_of(fn->body, loop); /* what was put before the loop moved it */
            }
        }
    }
    return changed;
}
