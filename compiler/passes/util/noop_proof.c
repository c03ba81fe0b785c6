/* noop_proof.c - evaluates a loop body symbolically with a mask's result at -inf.
 *
 * A symbol stands for a whole tile.  Constants are the same in every element, so shapes do not
 * matter to them; everything else is an expression over the carried values and unknown data, kept
 * once for each form, so that two symbols are the same tile exactly when they are the same pointer.
 */
#include "compiler/passes/util/noop_proof.h"

#include <math.h>
#include <string.h>

#include "compiler/passes/util/tir_util.h"

enum { DEEPEST_POSITIVE = 16, DEEPEST_WITHIN = 3 };

typedef enum SymbolKind { SYM_CONST, SYM_CARRIED, SYM_DATA, SYM_EXPR } SymbolKind;

typedef struct Symbol {
    SymbolKind kind;
    double number;       /* SYM_CONST */
    const TirVal *value; /* SYM_CARRIED, SYM_DATA: the tile it is */
    const TirOp *op;     /* SYM_EXPR: an operation of this form */
    const struct Symbol *args[3];
    bool may_be_minus_inf, may_be_plus_inf;
    bool positive;
    uint32_t nth; /* which it is of all */
    struct Symbol *next;
} Symbol;

enum { SYMBOL_LISTS = 64 };

typedef struct Prover {
    Arena *arena;
    const TirFn *fn;
    const TirOp *mask;
    uint32_t n;
    Symbol *all[SYMBOL_LISTS]; /* every symbol made, by kind and first operand */
    const Symbol **of;         /* by TirVal id */
    bool by_element;           /* only what the mask hides is at -inf: nothing is known of rows */
    bool failed;
    uint32_t
        within; /* how many proofs that asked for this one: what loops carry comes back to itself */
} Prover;

static const Symbol *
intern(Prover *p, Symbol wanted)
{
    uint32_t hash = wanted.kind;
    hash += wanted.value != NULL ? wanted.value->id : 0;
    hash += wanted.args[0] != NULL ? 3 * wanted.args[0]->nth : 0;
    hash += wanted.args[1] != NULL ? 5 * wanted.args[1]->nth : 0;
    Symbol **list = &p->all[hash % SYMBOL_LISTS];

    for (Symbol *s = *list; s != NULL; s = s->next) {
        bool same = s->kind == wanted.kind && s->value == wanted.value &&
                    memcmp(&s->number, &wanted.number, sizeof s->number) == 0;
        if (same && wanted.kind == SYM_EXPR)
            same = s->op->op == wanted.op->op && s->op->axis == wanted.op->axis &&
                   s->op->reduce == wanted.op->reduce && s->op->integer == wanted.op->integer &&
                   s->op->number == wanted.op->number &&
                   (!tir_has_part(s->op) ||
                    tir_same_index(&s->op->index[0], &wanted.op->index[0])) &&
                   tir_type_eq(s->op->results[0]->type, wanted.op->results[0]->type) &&
                   memcmp(s->args, wanted.args, sizeof s->args) == 0;
        if (same)
            return s;
    }
    Symbol *s = arena_copy(p->arena, &wanted, sizeof wanted);
    s->nth = ++p->n;
    s->next = *list;
    *list = s;
    return s;
}

static const Symbol *
constant(Prover *p, double number)
{
    return intern(p, (Symbol){.kind = SYM_CONST,
                              .number = number == 0 ? 0.0 : number,
                              .may_be_minus_inf = number == -INFINITY,
                              .may_be_plus_inf = number == INFINITY,
                              .positive = number > 0});
}

static bool
is_const(const Symbol *s, double number)
{
    return s->kind == SYM_CONST && s->number == number;
}

static bool
is_finite(const Symbol *s)
{
    return !s->may_be_minus_inf && !s->may_be_plus_inf;
}

/* `require scalar > 0`. */
static bool
required_positive(const TirFn *fn, uint32_t scalar)
{
    for (uint32_t i = 0; i < fn->requires.n; i++) {
        const HostExpr *e = fn->requires.at[i].condition;
        const HostExpr *greater = e->kind == HOST_GT ? e->a : e->kind == HOST_LT ? e->b : NULL;
        const HostExpr *less = e->kind == HOST_GT ? e->b : e->a;
        if (greater == NULL || greater->kind != HOST_SCALAR || greater->index != scalar)
            continue;
        if ((less->kind == HOST_INT && less->integer >= 0) ||
            (less->kind == HOST_FLOAT && less->number >= 0))
            return true;
    }
    return false;
}

static const Symbol *eval(Prover *p, const TirVal *value);

static double
fold(TirOpcode op, double a, double b)
{
    switch (op) {
    case TIR_ADD: return a + b;
    case TIR_SUB: return a - b;
    case TIR_MUL: return a * b;
    case TIR_DIV: return a / b;
    case TIR_MIN: return fmin(a, b);
    case TIR_MAX: return fmax(a, b);
    case TIR_EQ: return a == b;
    case TIR_NE: return a != b;
    case TIR_LT: return a < b;
    case TIR_LE: return a <= b;
    case TIR_GT: return a > b;
    case TIR_GE: return a >= b;
    case TIR_AND: return a != 0 && b != 0;
    case TIR_OR: return a != 0 || b != 0;
    default: return NAN;
    }
}

/* Whether an operation makes infinities or NaN of finite operands.  Data is taken to be such that
 * it does not, but padding is zeros. */
static bool
may_leave_finite(const TirOp *op, const Symbol *a, const Symbol *b)
{
    switch (op->op) {
    case TIR_DIV: return !b->positive && (b->kind != SYM_CONST || b->number == 0);
    case TIR_LOG:
    case TIR_LOG2:
    case TIR_RCP:
    case TIR_SQRT:
    case TIR_RSQRT: return !a->positive;
    default: return false;
    }
}

/* Whether +inf is written where the value comes from; what is computed from finite data is not. */
static bool
may_start_at_plus_inf(const TirVal *value, uint32_t depth)
{
    const TirOp *op = value->def;

    if (!dtype_is_float(value->type.dtype))
        return false;
    if (depth > 12)
        return true;
    if (op == NULL) { /* carried by a loop around this one */
        const TirOp *loop = value->block->owner;
        return loop != NULL && loop->op == TIR_FOR && value->index > 0 &&
               may_start_at_plus_inf(loop->args[loop_first_initial(loop) + value->index - 1],
                                     depth + 1);
    }
    if (op->op == TIR_CONST)
        return isinf(op->number);
    if (op->op == TIR_FOR)
        return may_start_at_plus_inf(op->args[loop_first_initial(op) + value->index], depth + 1);
    if (op->op == TIR_IF) {
        return may_start_at_plus_inf(block_yield(op->blocks[0])->args[value->index], depth + 1) ||
               may_start_at_plus_inf(block_yield(op->blocks[1])->args[value->index], depth + 1);
    }
    bool shapes = op->op == TIR_BROADCAST || op->op == TIR_EXPAND || op->op == TIR_SQUEEZE ||
                  op->op == TIR_TRANSPOSE;
    if (!shapes && (tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0)
        return false;
    for (uint32_t k = 0; k < op->n_args; k++) {
        const TirOp *def = op->args[k]->def;
        bool minus = def != NULL && def->op == TIR_CONST && def->number == -INFINITY;
        if (!(minus && op->op != TIR_NEG && op->op != TIR_SUB && op->op != TIR_MUL) &&
            may_start_at_plus_inf(op->args[k], depth + 1))
            return true;
    }
    return false;
}

/* An expression about which nothing simpler is known. */
static const Symbol *
expression(Prover *p, const TirOp *op, const Symbol *a, const Symbol *b, const Symbol *c)
{
    Symbol s = {.kind = SYM_EXPR, .op = op, .args = {a, b, c}};
    bool minus = false, plus = false;

    for (uint32_t k = 0; k < 3; k++) {
        minus = minus || (s.args[k] != NULL && s.args[k]->may_be_minus_inf);
        plus = plus || (s.args[k] != NULL && s.args[k]->may_be_plus_inf);
    }
    s.may_be_minus_inf = s.may_be_plus_inf = minus || plus;
    switch (op->op) {
    case TIR_MUL:
        s.positive = a->positive && b->positive;
        if (a->positive && is_finite(a)) { /* keeps the sign of the other */
            s.may_be_minus_inf = b->may_be_minus_inf;
            s.may_be_plus_inf = b->may_be_plus_inf;
        } else if (b->positive && is_finite(b)) {
            s.may_be_minus_inf = a->may_be_minus_inf;
            s.may_be_plus_inf = a->may_be_plus_inf;
        }
        break;
    case TIR_ADD:
        s.may_be_minus_inf = minus;
        s.may_be_plus_inf = plus;
        break;
    case TIR_DIV: s.positive = a->positive && b->positive; break;
    case TIR_EXP:
    case TIR_EXP2:
        s.positive = true;
        s.may_be_minus_inf = false;
        s.may_be_plus_inf = plus;
        break;
    case TIR_SELECT:
        s.positive = b->positive && c->positive;
        s.may_be_minus_inf = b->may_be_minus_inf || c->may_be_minus_inf;
        s.may_be_plus_inf = (b->may_be_plus_inf || c->may_be_plus_inf) &&
                            may_start_at_plus_inf(op->results[0], 0); /* as what a branch chooses */
        /* where(x == -inf, y, x): not -inf by x */
        if (a->kind == SYM_EXPR && a->op->op == TIR_EQ && a->args[0] == c &&
            is_const(a->args[1], -INFINITY))
            s.may_be_minus_inf = b->may_be_minus_inf;
        break;
    case TIR_MAX:
        s.positive = a->positive || b->positive;
        s.may_be_minus_inf = a->may_be_minus_inf && b->may_be_minus_inf;
        s.may_be_plus_inf = plus;
        break;
    case TIR_MIN:
        s.positive = a->positive && b->positive;
        s.may_be_plus_inf = a->may_be_plus_inf && b->may_be_plus_inf;
        s.may_be_minus_inf = minus;
        break;
    case TIR_MASK:
        s.may_be_minus_inf = true;
        s.may_be_plus_inf = plus;
        break;
    case TIR_BOUNDS_MASK:
        s.may_be_minus_inf = minus || op->number == -INFINITY;
        s.may_be_plus_inf = plus || op->number == INFINITY;
        break;
    case TIR_BROADCAST:
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_TRANSPOSE:
    case TIR_CAST:
        s.positive = a->positive;
        s.may_be_minus_inf = a->may_be_minus_inf;
        s.may_be_plus_inf = a->may_be_plus_inf;
        break;
    case TIR_TANH: s.may_be_minus_inf = s.may_be_plus_inf = false; break;
    default: break;
    }
    if (p->by_element && may_leave_finite(op, a, b))
        s.may_be_minus_inf = s.may_be_plus_inf = true;
    return intern(p, s);
}

static const Symbol *
multiply(Prover *p, const TirOp *op, const Symbol *a, const Symbol *b)
{
    if ((is_const(a, 0) && is_finite(b)) || (is_const(b, 0) && is_finite(a)))
        return constant(p, 0);
    if (is_const(a, 1))
        return b;
    if (is_const(b, 1))
        return a;
    if (is_const(a, -INFINITY) && b->positive && is_finite(b))
        return a;
    if (is_const(b, -INFINITY) && a->positive && is_finite(a))
        return b;
    return expression(p, op, a, b, NULL);
}

static const Symbol *
add_or_subtract(Prover *p, const TirOp *op, const Symbol *a, const Symbol *b, bool subtract)
{
    if (is_const(b, 0))
        return a;
    if (is_const(a, 0) && !subtract)
        return b;
    if (subtract && a == b && is_finite(a))
        return constant(p, 0);
    if (is_const(a, -INFINITY) && !(subtract ? b->may_be_minus_inf : b->may_be_plus_inf))
        return a;
    if (is_const(b, -INFINITY) && !subtract && !a->may_be_plus_inf)
        return b;
    return expression(p, op, a, b, NULL);
}

static const Symbol *
compare(Prover *p, const TirOp *op, const Symbol *a, const Symbol *b)
{
    if (a == b) /* no NaN among finite data */
        return constant(p, op->op == TIR_EQ || op->op == TIR_LE || op->op == TIR_GE);
    if ((op->op == TIR_GT && is_const(a, -INFINITY)) || (op->op == TIR_LT && is_const(b, -INFINITY)))
        return constant(p, 0); /* nothing is less than -inf */
    if ((op->op == TIR_LE && is_const(a, -INFINITY)) || (op->op == TIR_GE && is_const(b, -INFINITY)))
        return constant(p, 1);
    if (op->op == TIR_GT && is_const(b, -INFINITY) && !a->may_be_minus_inf)
        return constant(p, 1);
    if (op->op == TIR_EQ && ((is_const(a, -INFINITY) && !b->may_be_minus_inf) ||
                             (is_const(b, -INFINITY) && !a->may_be_minus_inf)))
        return constant(p, 0);
    return expression(p, op, a, b, NULL);
}

static const Symbol *
eval_binary(Prover *p, const TirOp *op, const Symbol *a, const Symbol *b)
{
    if (dtype_kind(op->results[0]->type.dtype) == KIND_UNSIGNED) /* wraps */
        return expression(p, op, a, b, NULL);
    if (a->kind == SYM_CONST && b->kind == SYM_CONST) {
        double folded = fold(op->op, a->number, b->number);
        if (!isnan(folded))
            return constant(p, folded);
    }
    switch (op->op) {
    case TIR_MUL: return multiply(p, op, a, b);
    case TIR_ADD: return add_or_subtract(p, op, a, b, false);
    case TIR_SUB: return add_or_subtract(p, op, a, b, true);
    case TIR_MAX:
        if (is_const(a, -INFINITY) || a == b)
            return b;
        if (is_const(b, -INFINITY))
            return a;
        break;
    case TIR_EQ:
    case TIR_NE:
    case TIR_LT:
    case TIR_LE:
    case TIR_GT:
    case TIR_GE: return compare(p, op, a, b);
    case TIR_AND:
        if (is_const(a, 0) || is_const(b, 1))
            return a;
        if (is_const(b, 0) || is_const(a, 1))
            return b;
        break;
    case TIR_OR:
        if (is_const(a, 1) || is_const(b, 0))
            return a;
        if (is_const(b, 1) || is_const(a, 0))
            return b;
        break;
    default: break;
    }
    return expression(p, op, a, b, NULL);
}

static const Symbol *
eval_combined(Prover *p, const TirOp *op, const Symbol *a)
{
    if (a->kind == SYM_CONST && (op->reduce != REDUCE_SUM || a->number == 0))
        return a;
    return expression(p, op, a, NULL, NULL);
}

static const Symbol *
eval_unary(Prover *p, const TirOp *op, const Symbol *a)
{
    switch (op->op) {
    case TIR_EXP:
    case TIR_EXP2:
        if (is_const(a, -INFINITY))
            return constant(p, 0);
        if (is_const(a, 0))
            return constant(p, 1);
        break;
    case TIR_NEG:
        if (a->kind == SYM_CONST)
            return constant(p, -a->number);
        break;
    case TIR_NOT:
        if (a->kind == SYM_CONST)
            return constant(p, a->number == 0);
        break;
    case TIR_CAST: /* 0, 1 and the infinities are the same in every float type */
        if (a->kind == SYM_CONST && (a->number == 0 || a->number == 1 || isinf(a->number)) &&
            dtype_is_float(op->results[0]->type.dtype))
            return a;
        break;
    case TIR_EXPAND:
    case TIR_SQUEEZE:
    case TIR_BROADCAST:
    case TIR_TRANSPOSE:
        if (a->kind == SYM_CONST)
            return a;
        break;
    default: break;
    }
    return expression(p, op, a, NULL, NULL);
}

static void eval_block(Prover *p, const TirBlock *block);

/* A branch: the side that is taken when the condition is known, else what both sides agree on. */
static void
eval_if(Prover *p, const TirOp *op)
{
    const Symbol *condition = eval(p, op->args[0]);

    for (uint32_t k = 0; k < 2; k++) {
        bool taken = condition->kind != SYM_CONST || (condition->number != 0) == (k == 0);
        if (taken)
            eval_block(p, op->blocks[k]);
    }
    for (uint32_t r = 0; r < op->n_results; r++) {
        const Symbol *sides[2] = {NULL, NULL};
        for (uint32_t k = 0; k < 2; k++) {
            bool taken = condition->kind != SYM_CONST || (condition->number != 0) == (k == 0);
            if (taken)
                sides[k] = eval(p, block_yield(op->blocks[k])->args[r]);
        }
        if (sides[0] == NULL)
            sides[0] = sides[1];
        if (sides[1] == NULL)
            sides[1] = sides[0];
        bool positive = sides[0]->positive && sides[1]->positive;
        bool plus = may_start_at_plus_inf(op->results[r], 0);
        p->of[op->results[r]->id] = sides[0] == sides[1]
                                        ? sides[0]
                                        : intern(p, (Symbol){.kind = SYM_DATA,
                                                             .value = op->results[r],
                                                             .may_be_minus_inf = !positive,
                                                             .may_be_plus_inf = plus,
                                                             .positive = positive});
    }
}

static bool is_positive(const Prover *asks, const TirVal *value);

/* Whether a float is above zero and finite, and what a loop carries always is; `carried` is such a
 * value that is looked at. */
static bool
stays_positive(const Prover *p, const TirVal *value, const TirVal *carried, uint32_t depth)
{
    const TirOp *op = value->def, *loop = op != NULL ? op : value->block->owner;

    if (value == carried)
        return true;
    if (depth == DEEPEST_POSITIVE || !dtype_is_float(value->type.dtype))
        return false;
    if (loop != NULL && loop->op == TIR_FOR) {
        uint32_t k = op != NULL ? value->index : value->index - 1;
        if (op == NULL && value->index == 0)
            return false;
        return stays_positive(p, loop->args[loop_first_initial(loop) + k], carried, depth + 1) &&
               stays_positive(p, block_yield(loop->blocks[0])->args[k],
                              loop->blocks[0]->params.at[k + 1], depth + 1);
    }
    if (op == NULL)
        return false;
    switch (op->op) {
    case TIR_CONST: return op->number > 0 && !isinf(op->number);
    case TIR_BROADCAST:
    case TIR_EXPAND: return stays_positive(p, op->args[0], carried, depth + 1);
    case TIR_SELECT:
        return stays_positive(p, op->args[1], carried, depth + 1) &&
               stays_positive(p, op->args[2], carried, depth + 1);
    case TIR_IF:
        return stays_positive(p, block_yield(op->blocks[0])->args[value->index], carried,
                              depth + 1) &&
               stays_positive(p, block_yield(op->blocks[1])->args[value->index], carried, depth + 1);
    default: return value->type.rank == 0 && is_positive(p, value);
    }
}

static const Symbol *
anything(Prover *p, const TirVal *value)
{
    bool is_float = dtype_is_float(value->type.dtype);
    bool positive = is_float && stays_positive(p, value, NULL, 0);

    return intern(p, (Symbol){.kind = SYM_DATA,
                              .value = value,
                              .may_be_minus_inf = is_float && !positive,
                              .may_be_plus_inf = is_float && !positive,
                              .positive = positive});
}

static const Symbol *
eval_op(Prover *p, const TirOp *op)
{
    bool moves = tir_combines(op) || tir_axis_use(op) == AXIS_SPREADS || op->op == TIR_TRANSPOSE ||
                 op->op == TIR_MMA;
    if ((p->by_element && moves) || tir_combines_tuples(op))
        return anything(p, op->results[0]);
    const Symbol *a = op->n_args > 0 ? eval(p, op->args[0]) : NULL;
    const Symbol *b = op->n_args > 1 ? eval(p, op->args[1]) : NULL;
    const Symbol *c = op->n_args > 2 ? eval(p, op->args[2]) : NULL;
    const TirVal *result = op->results[0];

    switch (op->op) {
    case TIR_CONST:
        return constant(p, dtype_is_float(result->type.dtype) ? op->number : (double)op->integer);
    case TIR_PARAM:
        return intern(p, (Symbol){.kind = SYM_DATA,
                                  .value = result,
                                  .positive = required_positive(p->fn, (uint32_t)op->integer)});
    case TIR_BITS: return anything(p, result);
    case TIR_MASK:
        if (op == p->mask || is_const(a, -INFINITY))
            return constant(p, -INFINITY);
        return expression(p, op, a, b, NULL);
    case TIR_BOUNDS_MASK:
        if (is_const(a, op->number) || (p->by_element && op == p->mask))
            return constant(p, op->number);
        return expression(p, op, a, b, NULL);
    case TIR_SELECT:
        if (a->kind == SYM_CONST)
            return a->number != 0 ? b : c;
        return b == c ? b : expression(p, op, a, b, c);
    case TIR_FMA: {
        const Symbol *mma = multiply(p, op, a, b);
        return add_or_subtract(p, op, mma, c, false);
    }
    case TIR_MMA:
        if ((is_const(a, 0) && is_finite(b)) || (is_const(b, 0) && is_finite(a)))
            return c;
        return expression(p, op, a, b, c);
    case TIR_LOAD:
    case TIR_SIZE:
    case TIR_GRID:
    case TIR_GRID_FIRST:
    case TIR_IOTA: return intern(p, (Symbol){.kind = SYM_DATA, .value = result});
    default:
        if (tir_combines(op))
            return eval_combined(p, op, a);
        if (op->n_args == 1)
            return eval_unary(p, op, a);
        if (op->n_args == 2)
            return eval_binary(p, op, a, b);
        return intern(p, (Symbol){.kind = SYM_DATA,
                                  .value = result,
                                  .may_be_minus_inf = true,
                                  .may_be_plus_inf = true});
    }
}

static const Symbol *
eval(Prover *p, const TirVal *value)
{
    const Symbol *known = p->of[value->id];

    if (known != NULL)
        return known;
    if (value->def == NULL || (value->def->n_blocks > 0 && value->def->op != TIR_IF)) {
        known = anything(p, value);
    } else if (value->def->op == TIR_IF) {
        eval_if(p, value->def);
        known = p->of[value->id];
    } else {
        known = eval_op(p, value->def);
    }
    p->of[value->id] = known;
    return known;
}

/* Effects: an addition of zeros is none; anything else is one too many. */
static void
eval_block(Prover *p, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        switch (op->op) {
        case TIR_STORE:
        case TIR_ATOMIC_MAX:
        case TIR_ATOMIC_MIN:
        case TIR_FOR: p->failed = true; break;
        case TIR_ATOMIC_ADD:
            if (!is_const(eval(p, op->args[op->n_args - 1]), 0))
                p->failed = true;
            break;
        case TIR_IF: eval_if(p, op); break;
        default: break;
        }
    }
}

bool
iteration_is_noop(Arena *arena, const TirFn *fn, const TirOp *loop, const TirOp *mask)
{
    Prover p = {.arena = arena, .fn = fn, .mask = mask};
    const TirBlock *body = loop->blocks[0];

    p.of = arena_array(arena, const Symbol *, fn->next_id + 1);
    for (uint32_t k = 1; k < body->params.n; k++) {
        const TirVal *param = body->params.at[k];
        /* Carried floats that begin below +inf stay there when data is finite; -inf is a usual
         * start. */
        const TirVal *initial = loop->args[loop_first_initial(loop) + k - 1];
        const TirOp *def = initial->def;
        bool low = def != NULL && def->op == TIR_CONST && def->number == -INFINITY;
        bool positive = stays_positive(&p, param, NULL, 0);
        p.of[param->id] = intern(
            &p, (Symbol){.kind = SYM_CARRIED,
                         .value = param,
                         .may_be_minus_inf = !positive,
                         .may_be_plus_inf = !positive && !low && may_start_at_plus_inf(initial, 0),
                         .positive = positive});
    }
    eval_block(&p, body);
    const TirOp *yield = block_yield(body);
    for (uint32_t k = 0; k < yield->n_args; k++) {
        if (eval(&p, yield->args[k]) != p.of[body->params.at[k + 1]->id])
            return false;
    }
    return !p.failed;
}

bool
branch_is_noop_at_first(Arena *arena, const TirFn *fn, const TirOp *loop, const TirOp *branch)
{
    Prover p = {.arena = arena, .fn = fn};
    const TirBlock *body = loop->blocks[0];

    p.of = arena_array(arena, const Symbol *, fn->next_id + 1);
    for (uint32_t k = 1; k < body->params.n; k++)
        p.of[body->params.at[k]->id] = eval(&p, loop->args[loop_first_initial(loop) + k - 1]);
    for (uint32_t k = 0; k < 2; k++)
        eval_block(&p, branch->blocks[k]);
    for (uint32_t r = 0; r < branch->n_results; r++) {
        if (eval(&p, block_yield(branch->blocks[0])->args[r]) !=
            eval(&p, block_yield(branch->blocks[1])->args[r]))
            return false;
    }
    return !p.failed;
}

bool
value_is_constant(Arena *arena, const TirFn *fn, const TirVal *value, double *number)
{
    Prover p = {.arena = arena, .fn = fn};

    p.of = arena_array(arena, const Symbol *, fn->next_id + 1);
    const Symbol *known = eval(&p, value);
    *number = known->number;
    return known->kind == SYM_CONST;
}

static bool
is_positive(const Prover *asks, const TirVal *value)
{
    Prover p = {.arena = asks->arena, .fn = asks->fn, .within = asks->within + 1};

    if (p.within > DEEPEST_WITHIN)
        return false;
    p.of = arena_array(p.arena, const Symbol *, p.fn->next_id + 1);
    const Symbol *known = eval(&p, value);
    return known->kind == SYM_CONST ? known->number > 0 && !isinf(known->number)
                                    : known->positive && is_finite(known);
}

bool
value_is_positive(Arena *arena, const TirFn *fn, const TirVal *value)
{
    return is_positive(&(Prover){.arena = arena, .fn = fn}, value);
}

bool
hidden_elements_are(Arena *arena, const TirFn *fn, const TirOp *mask, const TirVal *value,
                    double number)
{
    Prover p = {.arena = arena, .fn = fn, .mask = mask, .by_element = true};

    p.of = arena_array(arena, const Symbol *, fn->next_id + 1);
    return tir_same_shape(mask->results[0]->type, value->type) && is_const(eval(&p, value), number);
}
