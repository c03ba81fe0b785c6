/* homes.c - sums of products that live in one set of registers.
 *
 * A product of a warp group runs on after its instruction, and its accumulator may be neither copied
 * nor moved meanwhile.  So every chain of values that a product adds to - carried by loops, passed
 * through branches, scaled in between - lives in one set of registers, its home.
 *
 * What is computed from a result alone, while other products run, takes its place: it lives where the
 * result did.  The assembler does not find that by itself when nearly all registers are taken.
 */
#include "compiler/passes/homes.h"
#include "compiler/passes/tir_util.h"

typedef struct Homes {
    uint32_t *parent; /* union of values, by id */
    bool *product;    /* by class: some product's result is in it */
} Homes;

static uint32_t
root_of(Homes *h, uint32_t id)
{
    while (h->parent[id] != id)
        id = h->parent[id] = h->parent[h->parent[id]];
    return id;
}

static void
join(Homes *h, const TirVal *a, const TirVal *b)
{
    uint32_t x = root_of(h, a->id), y = root_of(h, b->id);

    if (x == y)
        return;
    h->parent[x] = y;
    h->product[y] |= h->product[x];
}

static bool
is_constant(const TirVal *value)
{
    return value->def != NULL && value->def->op == TIR_CONST;
}

static bool
is_zero(const TirVal *value)
{
    return is_constant(value) && value->def->number == 0;
}

/* Values that are the same tile as it goes around loops and through branches. */
static void
join_flow(Homes *h, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            join_flow(h, op->blocks[k]);
        if (op->op == TIR_MMA && op->async) {
            h->product[root_of(h, op->results[0]->id)] = true;
            if (!is_zero(op->args[2]))
                join(h, op->results[0], op->args[2]);
        }
        for (uint32_t k = 0; k < op->n_results; k++) {
            const TirVal *result = op->results[k];
            if (result->type.rank != 2 || result->type.dtype != DT_F32)
                continue;
            for (uint32_t j = 0; j < op->n_blocks; j++) {
                const TirVal *yielded = block_yield(op->blocks[j])->args[k];
                if (!is_constant(yielded))
                    join(h, result, yielded);
            }
            if (op->op == TIR_FOR) {
                const TirVal *initial = op->args[loop_first_initial(op) + k];
                join(h, result, op->blocks[0]->params.at[k + 1]);
                if (!is_constant(initial))
                    join(h, result, initial);
            }
        }
    }
}

/* What is computed from a tile of a chain and goes into the chain again is computed in place. */
static void
join_in_place(Homes *h, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            join_in_place(h, op->blocks[k]);
        if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0 ||
            !h->product[root_of(h, op->results[0]->id)])
            continue;
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (tir_type_eq(op->args[k]->type, op->results[0]->type) &&
                h->product[root_of(h, op->args[k]->id)]) {
                join(h, op->results[0], op->args[k]);
                break;
            }
        }
    }
}

/* The operand that an elementwise operation could take the place of: a tile of its type that nothing
 * else uses; NULL. */
static TirVal *
replaced_by(Homes *h, const TirFn *fn, const TirVal *value)
{
    const TirOp *op = value->def;
    TirVal *found = NULL;

    if (op == NULL || (tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0)
        return NULL;
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        bool begun = def == NULL && h->product[root_of(h, op->args[k]->id)]; /* by a product ahead */
        if (op->args[k]->block != op->parent || !tir_type_eq(op->args[k]->type, value->type) ||
            (!begun && (def == NULL || (def->op != TIR_MMA &&
                                        (tir_op_info(def->op)->flags & TF_ELEMENTWISE) == 0))))
            continue; /* one and the same for a row, or for all: it has no registers of its own */
        if (found != NULL || count_uses(fn, op->args[k]) != 1)
            return NULL;
        found = op->args[k];
    }
    return found;
}

static void
join_held(Homes *h, const TirFn *fn, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            join_held(h, fn, op->blocks[k]);
        for (uint32_t k = 0; op->op == TIR_MMA_WAIT && k < op->n_args; k++) {
            TirVal *from = op->args[k];
            while (from != NULL && !h->product[root_of(h, from->id)])
                from = replaced_by(h, fn, from);
            /* Only the last one, element by element from the result: what lies between is used by
             * nothing else, so nobody asks for it, or for the result, later. */
            if (from != NULL)
                join(h, op->args[k], from);
        }
    }
}

static bool
used_behind(const TirBlock *block, const TirOp *op, const TirVal *value)
{
    bool behind = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        if (behind && op_uses_deep(block->ops.at[i], value))
            return true;
        behind = behind || block->ops.at[i] == op;
    }
    return false;
}

/* Whether `value`, which `op` overwrites, may still be asked for afterwards. */
static bool
outlives(const TirOp *op, const TirVal *value)
{
    for (;;) {
        if (used_behind(op->parent, op, value))
            return true;
        if (op->parent == value->block)
            return false;
        op = op->parent->owner;
        if (op->op == TIR_FOR) /* the next iteration would find it overwritten */
            return true;
    }
}

static bool
check_homes(Homes *h, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            if (!check_homes(h, op->blocks[k]))
                return false;
        }
        for (uint32_t j = 0; op->op == TIR_FOR && j < op->n_results; j++) {
            for (uint32_t k = 0; k < j; k++) {
                uint32_t a = root_of(h, op->results[j]->id), b = root_of(h, op->results[k]->id);
                if (a == b && h->product[a])
                    return false;
            }
        }
        if (op->n_results != 1 || !h->product[root_of(h, op->results[0]->id)] || op->n_blocks > 0)
            continue;
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (root_of(h, op->args[k]->id) == root_of(h, op->results[0]->id) &&
                outlives(op, op->args[k]))
                return false;
        }
    }
    return true;
}

/* Numbers the homes in the order in which their values are first made. */
static void
number_homes(Homes *h, const TirBlock *block, uint32_t *of_class, uint32_t *next, uint32_t *out)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_results + (op->op == TIR_FOR ? op->n_results : 0); k++) {
            const TirVal *value = k < op->n_results
                                      ? op->results[k]
                                      : op->blocks[0]->params.at[k - op->n_results + 1];
            uint32_t class = root_of(h, value->id);
            if (!h->product[class] || value->type.rank != 2)
                continue;
            if (of_class[class] == 0)
                of_class[class] = ++*next;
            out[value->id] = of_class[class];
        }
        for (uint32_t k = 0; k < op->n_blocks; k++)
            number_homes(h, op->blocks[k], of_class, next, out);
    }
}

uint32_t *
product_homes(Arena *arena, const TirFn *fn)
{
    uint32_t n = fn->next_id + 1, homes = 0;
    Homes h = {.parent = arena_array(arena, uint32_t, n), .product = arena_array(arena, bool, n)};

    for (uint32_t k = 0; k < n; k++)
        h.parent[k] = k;
    join_flow(&h, fn->body);
    join_in_place(&h, fn->body);
    join_held(&h, fn, fn->body);
    if (!check_homes(&h, fn->body))
        return NULL;
    uint32_t *out = arena_array(arena, uint32_t, n);
    number_homes(&h, fn->body, arena_array(arena, uint32_t, n), &homes, out);
    return out;
}
