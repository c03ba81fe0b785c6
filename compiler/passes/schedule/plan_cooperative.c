/* plan_cooperative.c - warp groups that divide the tiles of one program.
 *
 * Where a consumer that is a program of its own would have more sums than registers, the consumers
 * of a block work on one program together.  The main loop goes along some axis in tiles; each
 * consumer has a part of every such tile, and of what is computed from it.  A product that adds up
 * along the axis then needs the parts of all consumers; its sum is divided, too, by columns:
 *
 *     for m {                                       for m {
 *         q = load Q[m +: 128, :]                       q = load Q[m +: 128, :]
 *         s = mma(q, k.T)                    [128,64]   s = mma(own q0, q1; k.T)              [64,64]
 *         p = ..                             [128,64]   p = ..                                [64,64]
 *         dv = mma(p.T, g, dv)               [64,256]   dv = mma(from p.T number(0), part g0, dv)
 *                                                       dv = mma(from p.T number(1), part g1, dv)
 *         atomic_add X[m +: 128, :] += ..               atomic_add X[m + 64 consumer +: 64, :] += ..
 *     }                                             }
 *     store dV[n, :] = dv                           store dV[n, 128 consumer +: 128] = dv
 *
 * Tiles that products read are loaded in parts, g0 and g1, that all consumers read: a part's place
 * is free again before the others'.  A product whose result is only added to memory is computed
 * some columns at a time, when all of them are more than the registers that are left.
 *
 * Types and operations are changed in place, in the order of the program: what an operation reads
 * is divided before it is.
 */
#include "compiler/passes/schedule/plan.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/tir_util.h"

enum {
    ATOM_COLUMN_COLUMNS = SWIZZLE_BYTES / 2, /* of 16 bits */
    LEAST_COLUMNS = SWIZZLE_LEAST / 2,       /* of the narrowest swizzle: plan_shared.c */
    OWN = -1 /* in place of a consumer's number: of the one that runs */
};

typedef struct Divider {
    TirFn *fn;
    TirBlock *body; /* of the main loop */
    uint32_t consumers;
    int32_t registers;
    uint32_t known;  /* values from here on are made here */
    uint8_t *along;  /* by value: bit d: dimension d runs along the loop's axis */
    bool *columns;   /* by value: a sum, of which each consumer has some columns */
    bool *whole;     /* by value: a loaded tile, or vector, that all consumers read */
    TirVal ***parts; /* by value: such a tile along the axis, loaded in parts */
    TirBuilder b;
    const char *why;
    Span where;
} Divider;

static bool
refuse(Divider *d, Span where, const char *why)
{
    if (d->why == NULL) {
        d->why = why;
        d->where = where;
    }
    return false;
}

static uint8_t
along(const Divider *d, const TirVal *value)
{
    return value->id < d->known ? d->along[value->id] : 0;
}

static bool
has_columns(const Divider *d, const TirVal *value)
{
    return value->id < d->known && d->columns[value->id];
}

/* ---- what is divided ---- */

/* A product that adds up along the loop's axis. */
static bool
adds_up(const Divider *d, const TirOp *op)
{
    return op->op == TIR_MMA && (along(d, op->args[0]) & 2) != 0 &&
           (along(d, op->args[1]) & 1) != 0;
}

static bool
mark(Divider *d, const TirVal *value)
{
    bool news = !d->columns[value->id] && (value->def == NULL || value->def->op != TIR_CONST);

    d->columns[value->id] |= news;
    return news;
}

/* Sums, as they go around loops and into what is computed from them behind.  Whether some are
 * new. */
static bool
spread_columns(Divider *d, const TirBlock *block)
{
    bool news = false;

    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            news |= spread_columns(d, op->blocks[k]);
        if (op->parent == d->body && adds_up(d, op)) {
            news |= mark(d, op->results[0]) || mark(d, op->args[2]);
        } else if (op->op == TIR_FOR) {
            const TirBlock *body = op->blocks[0];
            for (uint32_t k = 0; k < op->n_results; k++) {
                const TirVal *same[] = {op->results[k], body->params.at[k + 1],
                                        block_yield(body)->args[k],
                                        op->args[loop_first_initial(op) + k]};
                bool some = false;
                for (uint32_t j = 0; j < 4; j++)
                    some = some || d->columns[same[j]->id];
                for (uint32_t j = 0; j < 4 && some; j++)
                    news |= mark(d, same[j]);
            }
        } else if ((tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0) {
            for (uint32_t k = 0; k < op->n_args; k++)
                news |= d->columns[op->args[k]->id] && mark(d, op->results[0]);
        }
    }
    return news;
}

/* Whether the sums are used for nothing that needs all of their columns. */
static bool
check_columns(Divider *d, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (!d->columns[op->args[k]->id])
                continue;
            bool goes_on = op->op == TIR_FOR ||
                           (op->op == TIR_YIELD && walk.block->owner->op == TIR_FOR) ||
                           (op->op == TIR_MMA && k == 2) ||
                           (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0;
            if (!goes_on && !(tir_writes(op) && k + 1 == op->n_args && tir_is_contiguous(op)))
                return refuse(d, op->span,
                              "a sum of all warp groups is used for more than being stored");
        }
    }
    return true;
}

/* ---- changing it ---- */

static TirVal *
new_op(Divider *d, TirOpcode opcode, TirVal *arg, TirType type, uint32_t axis, int64_t integer)
{
    TirOp *op = tir_op_new(&d->b, opcode, 1, &arg, 1, &type);

    op->axis = axis;
    op->integer = integer;
    op->results[0]->name = arg->name;
    return op->results[0];
}

/* This consumer's part of a tile, or part `number` of parts of that size. */
static TirVal *
part_of(Divider *d, TirVal *tile, uint32_t axis, int32_t n, int64_t number)
{
    TirType type = tile->type;

    type.dim[axis] /= n;
    return new_op(d, TIR_PART, tile, type, axis, number);
}

/* `start`, or 0 where it is NULL, and `length` more for each consumer before `consumer`; OWN:
 * before this one. */
static TirVal *
shifted(Divider *d, TirVal *start, int32_t length, int32_t consumer)
{
    TirType i32 = tir_scalar(DT_I32);
    TirVal *by;

    if (consumer == OWN) {
        by = tir_op_new(&d->b, TIR_CONSUMER, 0, NULL, 1, &i32)->results[0];
        by = tir_binary(&d->b, TIR_MUL, by, tir_const_int(&d->b, length));
    } else {
        by = tir_const_int(&d->b, consumer * length);
    }
    return start == NULL ? by : tir_binary(&d->b, TIR_ADD, start, by);
}

/* The same values as `value`, which are known everywhere, as a tile of another shape; NULL: they
 * are not. */
static TirVal *
like(Divider *d, TirVal *value, TirType shape)
{
    TirOp *def = value->def;
    TirType type = shape;

    type.dtype = value->type.dtype;
    if (value->type.rank == 0 || tir_type_eq(value->type, type))
        return value;
    if (def == NULL || (def->op != TIR_CONST && def->op != TIR_BROADCAST))
        return NULL;
    for (uint32_t k = 0; def->op == TIR_BROADCAST && k < def->args[0]->type.rank; k++) {
        if (def->args[0]->type.dim[k] != 1 && def->args[0]->type.dim[k] != type.dim[k])
            return NULL;
    }
    TirOp *op = tir_op_new(&d->b, def->op, def->n_args, def->args, 1, &type);
    op->number = def->number;
    op->integer = def->integer;
    op->results[0]->name = value->name;
    return op->results[0];
}

/* Gives operands from `first` on the shape of the result. */
static bool
fit_operands(Divider *d, TirOp *op, uint32_t first)
{
    for (uint32_t k = first; k < op->n_args; k++) {
        op->args[k] = like(d, op->args[k], op->results[0]->type);
        if (op->args[k] == NULL)
            return refuse(d, op->span, "what meets a part of a tile can not be divided with it");
    }
    return true;
}

static const char in_a_pack[] = "a pack of ranges or a list of places lies along the loop's axis";

/* The dimensions of an access `from` that run along `bits` of its tile, each divided: `op`, the
 * same access, gets the part of consumer `consumer`, or of this one (OWN). */
static bool
divide_access(Divider *d, const TirOp *from, TirOp *op, uint8_t bits, int32_t consumer)
{
    for (TirDims k = tir_dims(from); tir_dims_next(&k);) {
        if (k.single || (bits >> k.axis & 1) == 0)
            continue;
        if (k.index->rows > 0 || k.places)
            return refuse(d, from->span, in_a_pack);
        int32_t length = k.length / (int32_t)d->consumers;
        tir_set_range(d->fn, op, k.dim, shifted(d, k.at, length, consumer), length);
    }
    return true;
}

/* The loaded tile behind an operand, itself. */
static bool
is_loaded_whole(const Divider *d, const TirVal *value)
{
    return value->id < d->known && d->whole[value->id];
}

/* An operand of which a product reads its own part, where it was loaded. */
static TirVal *
part_behind(Divider *d, TirVal *value)
{
    if (is_loaded_whole(d, value)) {
        TirVal **parts = d->parts[value->id];
        if (parts == NULL)
            return value;
        TirOp *own = tir_op_new(&d->b, TIR_OWN, d->consumers, parts, 1, &parts[0]->type);
        own->axis = along(d, value) == 1 ? 0 : 1;
        own->results[0]->name = value->name;
        return own->results[0];
    }
    if (value->def == NULL || value->def->op != TIR_TRANSPOSE ||
        !is_loaded_whole(d, value->def->args[0]) || along(d, value) == 0)
        return value;
    return tir_transpose(&d->b, part_behind(d, value->def->args[0]));
}

static bool
divide_sum(Divider *d, TirOp *op)
{
    TirVal *left = op->args[0], *right = op->args[1];
    const TirOp *source = tir_untransposed(left)->def;

    if (!is_loaded_whole(d, right) || d->parts[right->id] == NULL)
        return refuse(d, op->span,
                      "the right operand of a sum of all warp groups is not just loaded");
    if (source == NULL || source->op == TIR_LOAD)
        return refuse(d, op->span, "the left operand of a sum of all warp groups is not computed");
    op->results[0]->type.dim[1] /= (int32_t)d->consumers;
    if (op->results[0]->type.dim[1] % LEAST_COLUMNS != 0)
        return refuse(d, op->span, "the columns of a sum can not be divided among the warp groups");
    if (!fit_operands(d, op, 2))
        return false;
    for (uint32_t k = 0; k < d->consumers; k++) {
        TirVal *x = new_op(d, TIR_FROM, left, left->type, 0, k);
        TirVal *y = part_of(d, d->parts[right->id][k], 1, (int32_t)d->consumers, -1);
        TirVal *args[] = {x, y, op->args[2]};
        if (k + 1 < d->consumers) {
            TirOp *part = tir_op_new(&d->b, TIR_MMA, 3, args, 1, &op->results[0]->type);
            part->fast = op->fast;
            op->args[2] = part->results[0];
        } else {
            op->args[0] = x;
            op->args[1] = y;
        }
    }
    return true;
}

/* ---- columns of a product, some at a time ---- */

static int64_t
registers_of(const TirVal *value)
{
    return tir_type_elements(value->type) / (GROUP_ROWS * 2) *
           (int64_t)dtype_bits(value->type.dtype) / 32;
}

static bool
is_fresh(const TirOp *op)
{
    return op->op == TIR_MMA && op->args[2]->def != NULL && op->args[2]->def->op == TIR_CONST;
}

/* The addition to memory that alone uses a product, among what comes behind it. */
static TirOp *
only_addition(const TirOp *mma, const OpList *rest)
{
    TirOp *found = NULL;
    uint32_t uses = 0;

    for (uint32_t i = 0; i < rest->n; i++) {
        TirOp *op = rest->at[i];
        for (uint32_t k = 0; k < op->n_args; k++)
            uses += op->args[k] == mma->results[0];
        if (op->op == TIR_ATOMIC_ADD && op->args[op->n_args - 1] == mma->results[0])
            found = op;
    }
    return uses == 1 ? found : NULL;
}

/* How many pieces: so that the sums that live over iterations, a piece and its left operand leave
 * registers for all else. */
static int32_t
pieces_of(const Divider *d, const TirOp *mma)
{
    int64_t kept = BESIDE_SUMS + registers_of(mma->args[0]);
    int32_t cols = mma->results[0]->type.dim[1], n = 1;

    for (uint32_t k = 1; k < d->body->params.n; k++)
        kept += registers_of(d->body->params.at[k]);
    for (int32_t more = 2; kept + registers_of(mma->results[0]) / n > d->registers &&
                           more * ATOM_COLUMN_COLUMNS <= cols;
         more++)
        n = cols % (more * ATOM_COLUMN_COLUMNS) == 0 ? more : n;
    return n;
}

/* The product and its addition, piece by piece. */
static bool
divide_columns(Divider *d, TirOp *mma, TirOp *add, int32_t n)
{
    TirDims last = tir_last_dim(add);
    TirType type = mma->results[0]->type;
    TirVal *operands[TENSOR_MAX_RANK];

    type.dim[1] /= n;
    for (int32_t k = 0; k < n; k++) {
        TirVal *args[] = {mma->args[0], part_of(d, mma->args[1], 1, n, k),
                          tir_splat_const(&d->b, type, 0)};
        TirOp *piece = tir_op_new(&d->b, TIR_MMA, 3, args, 1, &type);
        piece->fast = mma->fast;
        TirOp again = *add;
        TirVal *by = tir_const_int(&d->b, (int64_t)k * type.dim[1]);
        TirVal *start = last.at == NULL ? by : tir_binary(&d->b, TIR_ADD, last.at, by);
        tir_set_range(d->fn, &again, last.dim, start, type.dim[1]);
        if (again.n_args > TENSOR_MAX_RANK + 1)
            return refuse(d, add->span, "a tensor has too many dimensions");
        for (uint32_t j = 0; j + 1 < again.n_args; j++)
            operands[j] = again.args[j];
        tir_store(&d->b, TIR_ATOMIC_ADD, add->tensor, again.index, operands, piece->results[0])
            ->span = add->span;
    }
    return true;
}

/* ---- an operation ---- */

/* A tile of products, loaded in parts along the loop's axis. */
static bool
load_parts(Divider *d, TirOp *op, uint8_t bits)
{
    TirVal **parts = arena_array(d->fn->arena, TirVal *, d->consumers);
    const TirVal *tile = op->results[0];

    for (uint32_t p = 0; p < d->consumers; p++) {
        TirOp part = *op;
        if (!divide_access(d, op, &part, bits, (int32_t)p))
            return false;
        parts[p] = tir_load(&d->b, op->tensor, part.index, part.args);
        parts[p]->name = tile->name;
    }
    d->parts[tile->id] = parts;
    return true;
}

static void
keep(Divider *d, TirOp *op)
{
    vec_push(d->fn->arena, &d->b.block->ops, op);
}

static bool
divide_mma(Divider *d, TirOp *op)
{
    uint8_t bits = along(d, op->results[0]);

    if (adds_up(d, op))
        return divide_sum(d, op);
    if (bits != 1 && bits != 2)
        return refuse(d, op->span, "a product does not run along the main loop's axis");
    op->results[0]->type.dim[bits - 1] /= (int32_t)d->consumers;
    op->args[0] = part_behind(d, op->args[0]);
    op->args[1] = part_behind(d, op->args[1]);
    return fit_operands(d, op, 2);
}

/* An operation of the main loop; what it needs goes before it.  `rest`: what comes behind. */
static bool
divide_op(Divider *d, TirOp *op, const OpList *rest, TirOp **skip)
{
    uint8_t bits = op->n_results == 1 ? along(d, op->results[0]) : 0;

    d->b.span = op->span;
    if (op->n_blocks > 0)
        return refuse(d, op->span, "the main loop has a loop or branch in it");
    for (uint32_t k = 0; k < op->n_args; k++) {
        if (is_loaded_whole(d, op->args[k]) && op->args[k]->type.rank == 1 &&
            along(d, op->args[k]) != 0) {
            if (op->args[k]->def->op == TIR_LOAD && has_pack(op->args[k]->def))
                return refuse(d, op->span, in_a_pack);
            op->args[k] = part_of(d, op->args[k], 0, (int32_t)d->consumers, -1);
        } else if (op->op != TIR_MMA && op->op != TIR_TRANSPOSE &&
                   is_loaded_whole(d, op->args[k]) && op->args[k]->type.rank == 2)
            return refuse(d, op->span, "a tile is an operand of a product and used otherwise, too");
    }
    if (op->op == TIR_MMA) {
        if (!divide_mma(d, op))
            return false;
        TirOp *add = is_fresh(op) && bits == 1 ? only_addition(op, rest) : NULL;
        int32_t n = add == NULL || op->args[1]->def == NULL || op->args[1]->def->op != TIR_LOAD ||
                            !tir_is_contiguous(add)
                        ? 1
                        : pieces_of(d, op);
        if (n > 1) {
            *skip = add;
            return divide_access(d, add, add, bits, OWN) && divide_columns(d, op, add, n);
        }
        keep(d, op);
        return true;
    }
    uint8_t through = 0;
    for (uint32_t k = 0; tir_combines(op) && k < op->n_args; k++)
        through |= along(d, op->args[k]);
    if (tir_combines(op) && (through >> op->axis & 1) != 0)
        return refuse(d, op->span,
                      tir_axis_use(op) == AXIS_REDUCES
                          ? "a tile is reduced along the main loop's axis"
                          : "a tile is scanned along the main loop's axis");
    if (tir_writes(op)) {
        const TirVal *value = op->args[op->n_args - 1];
        if (value->type.rank == 0 || along(d, value) == 0)
            return refuse(d, op->span, "all warp groups would write the same");
        if (!divide_access(d, op, op, along(d, value), OWN))
            return false;
    } else if (op->op == TIR_LOAD && bits != 0 && !d->whole[op->results[0]->id]) {
        if (!divide_access(d, op, op, bits, OWN))
            return false;
    } else if (op->op == TIR_IOTA && bits != 0) {
        if (op->index[0].rows > 0)
            return refuse(d, op->span, in_a_pack);
        op->args[0] = shifted(d, op->args[0], op->results[0]->type.dim[0] / (int32_t)d->consumers,
                              OWN);
    }
    if (op->op == TIR_LOAD && (bits == 1 || bits == 2) && op->results[0]->type.rank == 2 &&
        d->whole[op->results[0]->id])
        return load_parts(d, op, bits);
    if (op->op == TIR_TRANSPOSE && is_loaded_whole(d, op->args[0]) &&
        d->parts[op->args[0]->id] != NULL)
        return true; /* of its parts, where it is used */
    bool stays = op->n_results != 1 || d->whole[op->results[0]->id] ||
                 (op->op == TIR_TRANSPOSE && is_loaded_whole(d, op->args[0]));
    for (uint32_t k = 0; !stays && k < op->results[0]->type.rank; k++) {
        if ((bits >> k & 1) != 0)
            op->results[0]->type.dim[k] /= (int32_t)d->consumers;
    }
    if (op->n_results == 1 && has_columns(d, op->results[0]))
        op->results[0]->type.dim[1] /= (int32_t)d->consumers;
    bool alike = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 || tir_combines_tuples(op);
    if (alike && !fit_operands(d, op, 0))
        return false;
    keep(d, op);
    return true;
}

static bool
divide_body(Divider *d)
{
    OpList before = {0};
    TirOp *skip = NULL;

    for (uint32_t i = 0; i < d->body->ops.n; i++) {
        TirOp *op = d->body->ops.at[i];
        vec_push(d->fn->arena, &before, op);
        if (op->op == TIR_LOAD)
            d->whole[op->results[0]->id] = op->results[0]->type.rank == 1 ||
                                           feeds_mmas(d->body, op->results[0], 0);
    }
    d->body->ops.n = 0;
    d->b.block = d->body;
    for (uint32_t i = 0; i < before.n; i++) {
        OpList rest = {.at = before.at + i, .n = before.n - i};
        if (before.at[i] != skip && !divide_op(d, before.at[i], &rest, &skip))
            return false;
    }
    return true;
}

/* The sums outside of the main loop. */
static bool
divide_columns_around(Divider *d, TirBlock *block)
{
    OpList before = {0};

    before.at = arena_copy(d->fn->arena, block->ops.at, block->ops.n * sizeof *before.at);
    before.n = block->ops.n;
    block->ops.n = 0;
    for (uint32_t k = 0; k < block->params.n; k++) {
        if (has_columns(d, block->params.at[k]))
            block->params.at[k]->type.dim[1] /= (int32_t)d->consumers;
    }
    for (uint32_t i = 0; i < before.n; i++) {
        TirOp *op = before.at[i];
        d->b.block = block;
        d->b.span = op->span;
        for (uint32_t k = 0; k < op->n_results; k++) {
            if (!has_columns(d, op->results[k]))
                continue;
            op->results[k]->type.dim[1] /= (int32_t)d->consumers;
            if (op->op != TIR_FOR)
                continue;
            TirVal **initial = &op->args[loop_first_initial(op) + k];
            *initial = like(d, *initial, op->results[k]->type);
            if (*initial == NULL)
                return refuse(d, op->span, "what a sum begins with can not be divided with it");
        }
        bool flat = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0;
        if (flat && has_columns(d, op->results[0]) && !fit_operands(d, op, 0))
            return false;
        if (tir_writes(op) && has_columns(d, op->args[op->n_args - 1]) &&
            !divide_access(d, op, op, 2, OWN))
            return false;
        vec_push(d->fn->arena, &block->ops, op);
        for (uint32_t k = 0; k < op->n_blocks; k++) {
            bool main = op->blocks[k] == d->body;
            if (main) {
                for (uint32_t j = 1; j < d->body->params.n; j++) {
                    if (has_columns(d, d->body->params.at[j]))
                        d->body->params.at[j]->type.dim[1] /= (int32_t)d->consumers;
                }
            }
            if (main ? !divide_body(d) : !divide_columns_around(d, op->blocks[k]))
                return false;
        }
    }
    return true;
}

/* Whether what goes around the main loop, and what is written behind it, is divided: consumers that
 * all write the same would add it up several times. */
static bool
check_writes(Divider *d, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->parent != d->body && tir_writes(op) && !d->columns[op->args[op->n_args - 1]->id])
            return refuse(d, op->span, "all warp groups would write the same");
    }
    return true;
}

static bool
check_carried(Divider *d, const TirOp *loop)
{
    for (uint32_t k = 0; k < loop->n_results; k++) {
        if (d->along[loop->results[k]->id] != 0 ||
            (loop->results[k]->type.rank > 0 && !d->columns[loop->results[k]->id]))
            return refuse(d, loop->span, "the main loop carries more than sums");
    }
    return true;
}

/* Whether every dimension along the loop's axis has rows for each consumer. */
static bool
check_lengths(Divider *d)
{
    for (uint32_t i = 0; i < d->body->ops.n; i++) {
        const TirOp *op = d->body->ops.at[i];
        for (uint32_t k = 0; k < op->n_results; k++) {
            const TirType *type = &op->results[k]->type;
            for (uint32_t j = 0; j < type->rank; j++) {
                if ((d->along[op->results[k]->id] >> j & 1) != 0 &&
                    type->dim[j] % (int32_t)(d->consumers * GROUP_ROWS) != 0)
                    return refuse(d, op->span,
                                  "the main loop's tiles have no 64 rows for each warp group");
            }
        }
    }
    return true;
}

/* Whether all padding is that of ranges, which consumers have their parts of: what is counted from
 * a tile's first row is not. */
static bool
check_padding(Divider *d, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        const TirVal *bound = op->op == TIR_IOTA ? op->args[1] : NULL;
        bool counted = bound != NULL && op->args[0]->def != NULL &&
                       op->args[0]->def->op == TIR_CONST &&
                       (bound->block == d->body || bound->def == NULL || bound->def->n_blocks > 0);
        if (op->n_limits > 0 || counted)
            return refuse(d, op->span, "a range ends elsewhere than its tensor");
    }
    return true;
}

const char *
plan_cooperative(TirFn *fn, TirOp *loop, uint32_t consumers, int32_t registers, Span *where)
{
    enum { FIX_ROUNDS = 64 };
    uint32_t n = fn->next_id + 1;
    Divider d = {.fn = fn,
                 .body = loop->blocks[0],
                 .consumers = consumers,
                 .registers = registers,
                 .known = n,
                 .along = arena_array(fn->arena, uint8_t, n),
                 .columns = arena_array(fn->arena, bool, n),
                 .whole = arena_array(fn->arena, bool, n),
                 .parts = arena_array(fn->arena, TirVal **, n),
                 .b = {.fn = fn, .at = -1}};
    AxisDependence dependence = {NO_AXIS, arena_array(fn->arena, bool, n), d.along, consumers};

    dependence.depends[d.body->params.at[0]->id] = true;
    plan_axis_dependence(&dependence, d.body);
    for (uint32_t round = 0; round < FIX_ROUNDS && spread_columns(&d, fn->body); round++)
        ;
    bool ok = check_padding(&d, fn->body) && check_lengths(&d) && check_carried(&d, loop) &&
              check_columns(&d, fn->body) && check_writes(&d, fn->body) &&
              divide_columns_around(&d, fn->body);
    if (ok)
        return NULL;
    *where = d.where;
    return d.why;
}
