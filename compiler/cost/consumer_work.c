/* consumer_work.c - what an iteration of a planned kernel asks of the units of an SM.
 *
 *   products        what mma_use.h says
 *   shared memory   their operands, and what consumers exchange
 *   MUFU, issue     what ir/op_units.h says of each element; instructions go to four schedulers, a
 *                   warp of each consumer on each
 *
 * There may be several loops with products; the one that masks least stands for all.  What masks
 * add is counted apart, by the segments of a loop in which they are live.
 */
#include "compiler/cost/consumer_time.h"

#include <math.h>
#include <string.h>

#include "compiler/cost/mma_use.h"
#include "compiler/ir/layout.h"
#include "compiler/ir/op_units.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/schedule/plan.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Sum {
    const Target *target;
    ConsumerWork *work;
    const TirBlock *body;
    uint32_t consumers;
    bool cooperative;
    bool halved; /* products of two blocks */
} Sum;

static double
clocks_of(const TirVal *value)
{
    return (double)tir_type_elements(value->type) / GROUP_LANES;
}

static void
count_masks(TripLoop *loop, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (!tir_is_mask(op) || op->results[0]->type.rank != 2)
            continue;
        for (uint32_t k = 0; k < TRIP_SEGMENTS; k++)
            loop->masks[k] += (op->segments >> k & 1) != 0 ? clocks_of(op->results[0]) : 0;
    }
}

static void
add_arithmetic(ConsumerWork *w, const Target *target, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool seldom = op->op == TIR_IF && op->by_rows; /* its first block is taken seldom */
        for (uint32_t k = seldom; k < op->n_blocks; k++)
            add_arithmetic(w, target, op->blocks[k]);
        OpUse use = op_use(op);
        if (!op_use_is_steady(&use) || op->results[0]->type.dtype == DT_BOOL)
            continue; /* predicates are for masks */
        w->issue += (use.mufu + use.alu) * clocks_of(use.of);
        w->special += use.mufu * (double)tir_type_elements(use.of->type) / target->chip.special_ops;
    }
}

/* Tiles of the loop that stay: in f32, computed from products, used by more than one operation. */
static void
add_kept(ConsumerWork *w, const TirFn *fn, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        if (op->n_results != 1 || op->results[0]->type.rank != 2 ||
            op->results[0]->type.dtype != DT_F32 ||
            (tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0)
            continue;
        w->positions |= op->op == TIR_CAST && op->args[0]->type.dtype == DT_I32;
        if (op->op != TIR_BOUNDS_MASK && count_uses(fn, op->results[0]) > 1)
            w->kept += tir_type_elements(op->results[0]->type) / GROUP_LANES;
    }
}

/* Whether all products read what is loaded, so that the arithmetic only adds their results up. */
static bool
reads_loads(const Products *products)
{
    for (uint32_t k = 0; k < products->n; k++)
        if (products->at[k].load[0] == NULL || products->at[k].load[1] == NULL)
            return false;
    return true;
}

/* Tiles with which the next iteration begins and that no product adds to. */
static void
add_sums(ConsumerWork *w, const TirBlock *body)
{
    const TirOp *yield = block_yield(body);

    for (uint32_t k = 0; k < yield->n_args; k++) {
        const TirVal *value = yield->args[k];
        if (value->type.rank == 2 && value->type.dtype != DT_BOOL &&
            (value->def == NULL || value->def->op != TIR_MMA))
            w->sums += tir_type_elements(value->type) / GROUP_LANES;
    }
}

/* Results that do not fit beside the sums that they are added to are there one after the other
 * (stages_order.c). */
static void
take_turns(ConsumerWork *w, const Target *target, const Products *products, uint32_t consumers)
{
    if (!reads_loads(products) || w->accumulators > 0 ||
        w->sums + w->fresh + BESIDE_SUMS <= (int64_t)target->role_registers[consumers].consumer)
        return;
    w->fresh = 0;
    w->turns = true;
    for (uint32_t k = 0; k < products->n; k++) {
        int64_t own = tir_type_elements(products->at[k].mma->results[0]->type) / GROUP_LANES;
        w->fresh = own > w->fresh ? own : w->fresh;
    }
}

/* Vectors of a loop that is not pipelined: in pipelines, or copied ahead by each consumer, to one
 * of two stages (roles_vectors.c). */
static void
add_vectors(ConsumerWork *w, const TirBlock *body, uint32_t shared_by)
{
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_LOAD || op->results[0]->type.rank != 1)
            continue;
        int32_t elements = op->results[0]->type.dim[0];
        int64_t bytes = (int64_t)elements * 4;
        if (fits_vector_box(op))
            w->pipeline_bytes_shared += (bytes + BOX_ALIGN - 1) / BOX_ALIGN * BOX_ALIGN;
        else
            w->exchange_bytes += 2 * bytes / (int64_t)shared_by;
        w->vector = elements / 4 > w->vector ? elements / 4 : w->vector;
    }
}

/* The products that a consumer waits for: the first that could overlap each other's arithmetic. */
static void
add_waits(ConsumerWork *w, const Product *p, double clocks)
{
    double *first = p->early ? &w->first : &w->after;

    w->stage0 += p->early ? clocks : 0;
    *first = *first > 0 ? *first : clocks;
}

/* Whether products of both stages read some tile of the loop. */
static bool
is_held(const Products *products)
{
    bool held = false;

    for (uint32_t at = 0; at < 4 * products->n * products->n; at++) {
        const Product *p = &products->at[at / 4 / products->n],
                      *other = &products->at[at / 4 % products->n];
        const TirOp *load = p->viewed[at % 2];
        held = held || (p->early && !other->early && load->op == TIR_LOAD &&
                        load->parent == p->mma->parent && load == other->viewed[at / 2 % 2]);
    }
    return held;
}

/* Vectors that consumers load, and what they add to memory: a product that they share goes through
 * shared memory to the unit that makes tensor copies, all else is added from registers. */
static void
add_memory(const Sum *sum)
{
    ConsumerWork *w = sum->work;

    for (uint32_t i = 0; i < sum->body->ops.n; i++) {
        const TirOp *op = sum->body->ops.at[i];
        if (op->op == TIR_LOAD && op->results[0]->type.rank == 1 && !w->coop_k)
            w->vectors += op->results[0]->type.dim[0];
        if (op->op != TIR_ATOMIC_ADD)
            continue;
        const TirVal *value = op->args[op->n_args - 1];
        if (sum->cooperative || value->def == NULL || !value->def->coop_k)
            w->added += (double)tir_type_elements(value->type);
    }
}

static void
add_stream(const Sum *sum, const MmaForm *form, const MmaUse *use, double n, double depth)
{
    const Target *target = sum->target;
    double half = use->bytes - mma_bytes(form, n * depth) / 2;
    double paired = fmax(use->clocks, half / target->chip.shared_bytes +
                                          depth / form->k * target->consumer_times.pair_product);

    sum->work->stream_paired += paired;
    sum->work->stream += sum->halved ? paired
                                     : fmax(use->clocks, use->bytes / target->chip.shared_bytes);
}

static void
add_mma(const Sum *sum, const Product *p)
{
    const TirOp *op = p->mma;
    ConsumerWork *w = sum->work;
    TirType type = op->results[0]->type;
    CoopKShare share = {.rows = type.dim[0], .cols = type.dim[1]};
    bool shares = op->coop_k && !sum->cooperative; /* of the parts of all consumers */
    if (shares)
        share = coop_k_share(type, sum->consumers);
    double rows = op->swap_ab ? share.cols : share.rows, n = op->swap_ab ? share.rows : share.cols;
    double port = sum->target->chip.shared_bytes;
    const MmaForm *form = product_form(sum->target, op);
    double depth = (op->args[0]->type.dim[1] + form->k - 1) / form->k * form->k;
    double part = mma_bytes(form, (double)type.dim[0] * GROUP_ROWS); /* a left operand's */
    const TirVal *left = tir_untransposed(op->args[op->swap_ab ? 1 : 0]);
    bool in_shared = op->coop_k ||
                     (left->def != NULL && (left->def->op == TIR_LOAD || left->def->op == TIR_OWN));
    /* what all consumers write */
    if (op->coop_k && sum->cooperative && p->carried > 0) {
        w->coop_k = true;
        w->exchange_bytes += (int64_t)part;
        w->shared += part / port;
    }
    if (shares) { /* the parts of all consumers, for a share of the result */
        w->coop_k = true;
        depth *= sum->consumers;
        w->exchange_bytes += 2 * (int64_t)part;
        w->exchange_bytes += (int64_t)share.rows * share.cols * 4;
        w->shared += (part + 8.0 * share.rows * share.cols) / port;
    }
    w->swap_ab |= op->swap_ab;
    memcpy(w->sides, (int32_t[]){type.dim[0], type.dim[1], op->args[0]->type.dim[1]},
           sizeof w->sides);
    w->operand_bits = (int32_t)dtype_bits(op->args[0]->type.dtype);
    w->widest = (int32_t)n > w->widest ? (int32_t)n : w->widest;
    w->rows = (int32_t)rows > w->rows ? (int32_t)rows : w->rows;
    MmaUse use = mma_use(sum->target, form, rows, n, depth, in_shared);
    w->tensor += use.clocks;
    w->shared += use.bytes / port;
    add_stream(sum, form, &use, n, depth);
    add_waits(w, p, use.clocks);
    w->multiplies += rows * n * depth;
    int64_t registers = (int64_t)(rows * n) / GROUP_LANES;
    if (shares)
        w->share += registers;
    if (form->d == IN_TENSOR_MEMORY) {
        /* what is computed with, not what is added up there */
        w->fresh += p->carried > 0 || p->addition != NULL ? 0 : registers;
        return;
    }
    if (shares || (op->coop_k && p->carried == 0))
        return; /* it begins when the fresh ones have been used */
    if (tir_is_added_to(sum->body, op->results[0]))
        return;
    if (p->carried > 0)
        w->accumulators += registers;
    else if (sum->cooperative && left->def != NULL && left->def->op != TIR_OWN) /* so does it */
        w->fresh = w->fresh > registers ? w->fresh : registers;
    else
        w->fresh += registers;
}

static void
find_loops(ConsumerWork *w, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (walk.op->op == TIR_FOR && has_own_mma(walk.op->blocks[0]) && w->n_loops < CONSUMER_LOOPS)
            w->loops[w->n_loops++].op = walk.op;
    }
}

/* A result: whether it fits into the stage of a tile with as many rows that a consumer loads once,
 * and is the only result (roles_store.c needs a stage for each). */
static void
add_leaving(ConsumerWork *w, const TirBlock *body, TirType type, int64_t bits)
{
    bool first = w->atom_column_bytes == (int64_t)type.dim[0] * SWIZZLE_BYTES, fits = false;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirShared *pipeline = body->ops.at[i]->op == TIR_LOAD ? body->ops.at[i]->shared
                                                                    : NULL;
        fits = fits ||
               (pipeline != NULL && pipeline->each && pipeline->rows == type.dim[0] &&
                (int64_t)pipeline->cols * dtype_bits(pipeline->dtype) >= type.dim[1] * bits);
    }
    w->leaves_over = first && fits;
}

/* Bytes of a tile's row in shared memory, as plan_shared.c lays it out. */
static int64_t
row_bytes(const TirFn *fn, const TirOp *load)
{
    int32_t bytes = load->shared->cols * (int32_t)dtype_bits(load->shared->dtype) / 8;
    int32_t atom = tir_fitting_atom_column(bytes);
    int32_t half = tir_half_atom_column(load);
    bool fits = atom < SWIZZLE_BYTES && tir_fits_atom_columns(fn);

    for (TirWalk walk = tir_walk(fn->body); fits && tir_walk_next(&walk);)
        fits = walk.op->op != TIR_MMA || !walk.op->coop_k || walk.op->args[1]->def != load;
    atom = half > 0 ? half : fits ? atom : SWIZZLE_BYTES;
    if (load->shared->in_registers)
        atom = tir_atom_column_in_registers(bytes);
    return (bytes + atom - 1) / atom * atom;
}

static void
add_pipelines(ConsumerWork *w, const TirFn *fn, const TirBlock *block, bool in_loop)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_FOR)
            add_pipelines(w, fn, op->blocks[0], true);
        if (op->op == TIR_STORE && !in_loop) { /* the value is the last operand */
            TirType type = op->args[op->n_args - 1]->type;
            int64_t bits = dtype_bits(op->tensor->dtype);
            w->stored += (double)(tir_type_elements(type) * bits) / 8;
            if (type.rank == 2 && type.dim[1] * bits / 8 % SWIZZLE_BYTES == 0) {
                w->atom_column_bytes += (int64_t)type.dim[0] * SWIZZLE_BYTES;
                add_leaving(w, fn->body, type, bits);
            }
        }
        if (op->op != TIR_LOAD || op->shared == NULL)
            continue;
        int64_t rows = (op->shared->rows + SWIZZLE_ROWS - 1) / SWIZZLE_ROWS * SWIZZLE_ROWS;
        int64_t bytes = rows * row_bytes(fn, op);
        int64_t *total = in_loop
                             ? op->shared->each ? &w->pipeline_bytes_own : &w->pipeline_bytes_shared
                         : op->shared->each ? &w->once_bytes_own
                                            : &w->once_bytes_shared;
        *total += bytes;
    }
}

/* The pipelines of a loop that stands there several times hold the same tiles. */
static void
add_pipelines_of(ConsumerWork *w, const TirFn *fn, const TirOp *main_loop)
{
    add_pipelines(w, fn, fn->body, false);
    w->pipeline_bytes_shared = w->pipeline_bytes_own = 0;
    add_pipelines(w, fn, main_loop->blocks[0], true);
}

static void
add_asking(ConsumerWork *w, const Target *target, const TirBlock *body, uint32_t consumers)
{
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op == TIR_LOAD && op->shared != NULL)
            w->asking += plan_asking_clocks(target, op, consumers);
    }
}

/* Of right operands of products of two blocks each has half, and reads no more than that. */
static void
add_spared(ConsumerWork *w, const Target *target, const TirFn *fn, const TirBlock *body,
           const Products *products)
{
    bool halved = tir_multiplies_in_pairs(fn->plan);

    if (!w->pairs)
        return;
    for (uint32_t i = 0; i < products->n; i++) {
        const TirOp *load = products->at[i].load[1];
        bool again = false;
        for (uint32_t j = 0; j < i; j++)
            again = again || products->at[j].load[1] == load;
        if (load == NULL || load->parent != body)
            continue;
        TirType tile = load->results[0]->type;
        int64_t half = tir_type_elements(tile) * dtype_bits(tile.dtype) / 8 / 2;
        if (halved) /* it is in the bytes already */
            w->shared -= (double)half / target->chip.shared_bytes;
        else
            w->spared_port += (double)half / target->chip.shared_bytes;
        w->spared_bytes += halved || again ? 0 : half;
    }
}

/* Whether pipelines of a loop's tiles have more stages than others. */
static bool
stages_differ(const TirBlock *body)
{
    uint32_t least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        if (op->op != TIR_LOAD || op->shared == NULL || op->results[0]->type.rank != 2)
            continue;
        least = op->shared->stages < least ? op->shared->stages : least;
        most = op->shared->stages > most ? op->shared->stages : most;
    }
    return least < most;
}

ConsumerWork
consumer_work(const Target *target, const TirFn *fn, uint32_t consumers)
{
    ConsumerWork w = {.axis = fn->plan->tiles.axis,
                      .cooperative = tir_is_cooperative(fn->plan),
                      .lookahead = tir_has_lookahead(fn)};
    const TirOp *plain = NULL;
    double least = 0;

    find_loops(&w, fn->body);
    for (uint32_t k = 0; k < w.n_loops; k++) {
        double masks = 0;
        count_masks(&w.loops[k], w.loops[k].op->blocks[0]);
        for (uint32_t j = 0; j < TRIP_SEGMENTS; j++)
            masks += w.loops[k].masks[j];
        if (plain == NULL || masks < least) {
            plain = w.loops[k].op;
            least = masks;
        }
    }
    uint32_t axis = tir_length_axis(fn);
    w.variable_trips = axis < fn->grid.n && fn->grid.at[axis].variable_trips;
    w.ended = axis == fn->grid.n && tir_has_ended_axis(fn);
    w.sliding = axis < fn->grid.n && fn->grid.at[axis].sliding;
    if (plain == NULL)
        return w;
    Sum sum = {
        target, &w, plain->blocks[0], consumers, w.cooperative, tir_multiplies_in_pairs(fn->plan)};
    Products products = plan_products(fn, plain);
    for (uint32_t k = 0; k < products.n; k++)
        add_mma(&sum, &products.at[k]);
    for (uint32_t k = 0; k < w.n_loops; k++) {
        const TirBlock *body = w.loops[k].op->blocks[0];
        for (uint32_t j = 0; j < body->ops.n; j++)
            w.program_masks |= body->ops.at[j]->op == TIR_MASK;
    }
    w.stage0 /= w.tensor > 0 ? w.tensor : 1;
    w.first /= w.tensor > 0 ? w.tensor : 1;
    w.after /= w.tensor > 0 ? w.tensor : 1;
    w.held = is_held(&products);
    add_memory(&sum);
    add_arithmetic(&w, target, plain->blocks[0]);
    add_kept(&w, fn, plain->blocks[0]);
    if (target->consumer_times.mmas_sum > 0) {
        add_sums(&w, plain->blocks[0]);
        take_turns(&w, target, &products, consumers);
        w.adding = reads_loads(&products) ? w.issue : 0;
    }
    add_pipelines_of(&w, fn, plain);
    add_asking(&w, target, plain->blocks[0], consumers);
    w.pairs = plan_can_pair(target, fn, plain, &(Span){0}) == NULL;
    add_spared(&w, target, fn, plain->blocks[0], &products);
    w.lookahead = tir_has_lookahead(fn);
    w.spare_bytes = plan_spare_bytes(plain->blocks[0]);
    w.spare = w.spare_bytes > 0 && stages_differ(plain->blocks[0]);
    int64_t operands = plan_operand_bytes(target, fn, plain, consumers);
    w.exchange_bytes += operands > 0 ? operands : 0;
    if (operands >= 0) {
        w.fresh /= fn->warps / GROUP_WARPS;
        w.sums /= fn->warps / GROUP_WARPS;
        add_vectors(&w, plain->blocks[0], 1);
    }
    if (w.coop_k)
        add_vectors(&w, plain->blocks[0], sum.cooperative ? consumers : 1);
    return w;
}
