/* plan_mmas.c - which products and loads of the main loop a plan can have: pass `plan`.
 *
 * A product must lie along the consumers' axis, or be one that all consumers share out, with
 * operands that the instructions of the target read; a tile must be one that TMA brings and that
 * the producer can ask for.  What can not be is refused, with the reason.
 */
#include "compiler/passes/schedule/planner.h"

#include "compiler/ir/tir_walk.h"
#include "compiler/passes/util/iterations.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/tir_clone.h"
#include "compiler/passes/util/tir_util.h"

TirOp *
planner_load(const TirVal *value)
{
    TirOp *def = plan_viewed(value);

    return def != NULL && def->op == TIR_LOAD ? def : NULL;
}

/* Whether all that uses `value` are products, as an operand, through transposes. */
static bool
only_operand(const TirBlock *block, const TirVal *value)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; k < op->n_args; k++) {
            if (op->args[k] != value || (op->op == TIR_MMA && k < 2))
                continue;
            if ((op->op != TIR_TRANSPOSE && op->op != TIR_PART && op->op != TIR_OWN) ||
                !only_operand(op->parent, op->results[0]))
                return false;
        }
    }
    return true;
}

/* Why TMA can not bring the tile of a load, or the producer not ask for it; NULL: they can. */
static const char *
cannot_bring(const Planner *p, const TirOp *load)
{
    const CopyForm *form = target_copy(p->px->target, COPY_TENSOR_LOAD);
    const TirTensor *tensor = load->tensor;
    uint32_t last = tensor->rank - 1, order[TENSOR_MAX_RANK];

    if (tensor->rank > form->rank || tensor->align % (uint32_t)form->unit != 0)
        return "a tensor has more than 5 dimensions or rows that are not aligned to 16 bytes";
    if (tir_has_places(load))
        return "a tile is loaded from a list of places";
    if (!tir_is_contiguous(load))
        return "a tile does not run along the tensor's last dimension";
    if (!tir_box_order(load, order))
        return "a tile has some parts of a pack of ranges, but not all";
    if (!box_may_end(load, form->rank))
        return "a range ends elsewhere than the tensor that a product reads, along its last "
               "dimension or one of several";
    if (load->n_limits > 0 && !scalar_is_known_ahead(p->fn->arena, tir_limit_count(load, 0)))
        return "where a tile ends depends on data that the kernel computes";
    if (writes_tensor(p->fn->body, tensor))
        return "the kernel writes a tensor that its products read";
    for (TirDims d = tir_dims(load); tir_dims_next(&d);) {
        if (d.dim != last && d.length > form->box)
            return "a tile has more than 256 rows";
        if (d.at == NULL)
            continue;
        if (!scalar_is_known_ahead(p->fn->arena, d.at))
            return "the place of a tile depends on data";
        if (d.dim == last && tir_factor(d.at) * (int32_t)dtype_bits(tensor->dtype) / 8 < form->unit)
            return "a tile does not begin at a multiple of 16 bytes";
    }
    return NULL;
}

static bool
check_load(Planner *p, const TirOp *load)
{
    bool *brought = &p->brought[load->results[0]->id];
    const char *why = *brought ? NULL : cannot_bring(p, load);

    if (why == NULL && !*brought && !only_operand(load->parent, load->results[0]))
        why = "a tile is an operand of a product and used otherwise, too";
    *brought = why == NULL;
    return *brought || refuse(p, load->span, why);
}

/* Whether a load stands in the main loop or outside of all loops. */
static bool
check_place(Planner *p, const TirOp *load)
{
    if (load->parent == p->loop->blocks[0] || load->parent == p->fn->body)
        return true;
    return refuse(p, load->span, "a tile is loaded between the loops around the main loop");
}

/* Whether a form reads operand `k` of a product as its tile lies in memory, along the inner
 * dimension or across it. */
static bool
is_read_as_it_lies(const TirOp *op, uint32_t k, const MmaForm *form)
{
    uint8_t majors = (k == 0) != op->swap_ab ? form->a_major : form->b_major;
    bool along = k == 0;

    if (planner_load(op->args[k]) == NULL)
        return true;
    for (const TirOp *def = op->args[k]->def; def->op != TIR_LOAD; def = def->args[0]->def)
        along = along != (def->op == TIR_TRANSPOSE);
    return (majors & (along ? MAJOR_K : MAJOR_MN)) != 0;
}

/* Whether it reads both either way, so that it does not matter how consumers write a tile. */
static bool
reads_either_way(const MmaForm *form)
{
    return (form->a_major & form->b_major) == (MAJOR_K | MAJOR_MN);
}

/* A product that adds up over what the consumers have apart, and whose sum goes to memory: the
 * consumers exchange their parts of the left operand, and each computes a share of the result. */
static const char no_joint[] =
    "a product over all warp groups takes instructions that read both operands in shared memory";
static const char no_form[] = "warp groups have no product of these types";
static const char no_computed[] =
    "products of its type take the left operand from shared memory only, and it is computed";
static const char no_way[] =
    "products of its type read an operand only if it lies along the inner dimension";

static bool
check_coop_k(Planner *p, TirOp *op)
{
    uint32_t consumers = p->px->plan.consumers;
    const CopyForm *form = target_copy(p->px->target, COPY_TENSOR_ADD);
    const TirOp *add = plan_only_addition(p->loop->blocks[0], op->results[0]);
    TirOp *right = planner_load(op->args[1]);
    const MmaForm *mma = product_form(p->px->target, op);

    if (mma == NULL)
        return refuse(p, op->span, no_form);
    if (add == NULL)
        return refuse(p, op->span, "a product adds up over what the warp groups have apart");
    for (uint32_t k = 0; k + 1 < add->n_args; k++) {
        if (p->depends[add->args[k]->id])
            return refuse(p, op->span,
                          "a product over all warp groups is added to places that differ");
    }
    if (tir_has_places(add))
        return refuse(p, op->span, "a product over all warp groups is added at a list of places");
    CoopKShare share = coop_k_share(op->results[0]->type, consumers);
    if ((mma->a & IN_SHARED) == 0)
        return refuse(p, op->span, no_joint);
    if (!reads_either_way(mma))
        return refuse(p, op->span, no_way);
    if (consumers > MOST_SHARING || share.rows == 0)
        return refuse(p, op->span,
                      "a product over all warp groups can not be shared out between them");
    if (form == NULL || add->tensor->dtype != DT_F32 || add->tensor->rank > form->rank ||
        add->tensor->align % (uint32_t)form->unit != 0 || !tir_is_contiguous(add) ||
        !coop_k_may_be_added(share, add) || !box_may_be_written(add) || has_pack(add) ||
        !box_may_end(add, form->rank) || share.rows > form->box)
        return refuse(p, op->span, "TMA can not add to that tensor");
    if (right == NULL || right->parent != p->fn->body || op->args[1]->def != right ||
        planner_load(op->args[0]) != NULL || op->args[0]->type.dim[1] > GROUP_ROWS ||
        op->args[0]->type.dim[1] % mma->k != 0)
        return refuse(p, op->span, "a product over all warp groups has other operands than it may");
    if (!rows_end_with_axis(p->fn, p->axis, consumers, right))
        return refuse(
            p, right->span,
            "a program past the end of the grid would add to a product over all warp groups: the rows of its "
            "tile do not end where the grid's axis does");
    const TirBlock *body = p->loop->blocks[0]; /* one buffer takes the parts for all of them */
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *other = body->ops.at[i];
        if (other->op == TIR_MMA && other->coop_k &&
            !tir_type_eq(other->args[0]->type, op->args[0]->type))
            return refuse(p, op->span,
                          "products over all warp groups have left operands of different types");
    }
    op->coop_k = true;
    op->swap_ab = share.swap_ab;
    return check_load(p, right);
}

/* A product of parts that all consumers have computed, of which each consumer adds up some
 * columns. */
static bool
check_columns(Planner *p, TirOp *op)
{
    int32_t rows = op->results[0]->type.dim[0], cols = op->results[0]->type.dim[1];
    TirOp *right = planner_load(op->args[1]);
    const MmaForm *form = product_form(p->px->target, op);

    if (form == NULL)
        return refuse(p, op->span, no_form);
    if ((form->a & IN_SHARED) == 0)
        return refuse(p, op->span, no_joint);
    if (!reads_either_way(form))
        return refuse(p, op->span, no_way);
    if (rows != form->m || cols > form->n)
        return refuse(p, op->span,
                      "a sum over all warp groups has 64 rows, and up to 256 columns each");
    op->coop_k = true;
    op->swap_ab = false;
    return check_load(p, right) && check_place(p, right);
}

static bool
is_of_all_consumers(const TirVal *value)
{
    const TirOp *def = tir_untransposed(value)->def;

    return def != NULL && def->op == TIR_FROM;
}

/* Whether the operands of a product are tiles that TMA brings, or what it can have of computed
 * ones; `turned`: its right operand may be computed. */
static bool
check_operands(Planner *p, const TirOp *op, const MmaForm *form, bool turned)
{
    TirOp *left = planner_load(op->args[op->swap_ab ? 1 : 0]);
    TirOp *right = planner_load(op->args[op->swap_ab ? 0 : 1]);

    /* also where instructions could: its layout is that of a left operand */
    if (right == NULL && !turned)
        return refuse(p, op->span, "the right operand of a product is computed, not loaded");
    if (left == NULL && turned)
        return refuse(p, op->span, "the left operand of a product is computed, and has no 64 rows");
    if (left == NULL && (form->a & (IN_REGISTERS | IN_TENSOR_MEMORY)) == 0)
        return refuse(p, op->span, no_computed);
    if (left == NULL && op->args[0]->type.dim[1] % form->k != 0)
        return refuse(p, op->span,
                      arena_printf(p->fn->arena,
                                   "a computed operand's inner dimension is no multiple of %d",
                                   (int)form->k));
    if (form->issuer == BY_WARP_GROUP && form->sums > 0 && !op->fast &&
        op->args[0]->type.dim[1] > form->sums)
        return refuse(
            p, op->span,
            arena_printf(
                p->fn->arena,
                "a product of %s is added to others in f32 after %d of its inner dimension: make "
                "its tiles no longer, or say `fast = true`",
                dtype_name(op->args[0]->type.dtype), (int)form->sums));
    if (!is_read_as_it_lies(op, 0, form) || !is_read_as_it_lies(op, 1, form) ||
        (right == NULL && !reads_either_way(form)))
        return refuse(p, op->span, no_way);
    if (!plan_inner_fits(p->fn, op, form->k))
        return refuse(
            p, op->span,
            arena_printf(p->fn->arena,
                         "an inner dimension is no multiple of %d and not the whole of a tensor's",
                         (int)form->k));
    if ((right != NULL && !check_load(p, right)) || (left != NULL && !check_load(p, left)))
        return false;
    return (right == NULL || check_place(p, right)) && (left == NULL || check_place(p, left));
}

/* Whether all that uses the tile behind `value` is that product's scales. */
static bool
are_scales_of(const TirOp *op, uint32_t k, const TirOp *load)
{
    const TirVal *value = op->args[k];
    bool only = true;

    for (; value != load->results[0] && only; value = value->def->args[0])
        only = count_uses_in(value->block, value) == 1;
    return only && count_uses_in(value->block, value) == 1;
}

/* Why lanes can not bring scales of a product; NULL: they can. */
static const char *
cannot_bring_scales(const Planner *p, const TirOp *op, uint32_t k)
{
    const TirOp *load = planner_load(op->args[k]);

    if (load == NULL || load->op != TIR_LOAD || load->parent != p->loop->blocks[0])
        return "scales of a product are not loaded in the main loop";
    if (!are_scales_of(op, k, load))
        return "scales of a product are used otherwise, too";
    if (tir_has_places(load) || load->n_limits > 0 || writes_tensor(p->fn->body, load->tensor))
        return "scales are loaded from a list of places, or end elsewhere than their tensor, or the kernel writes it";
    for (TirDims d = tir_dims(load); tir_dims_next(&d);) {
        if (d.at != NULL && !scalar_is_known_ahead(p->fn->arena, d.at))
            return "the place of scales depends on data";
        if (!d.single && d.index->rows > 0)
            return "scales are loaded by a pack of ranges";
    }
    return NULL;
}

/* Scales that a thread's product takes: for one consumer, whose tiles are handed out without a
 * counter. */
static bool
check_scales(Planner *p, const TirOp *op, const MmaForm *form)
{
    const PlanHints *hints = &p->px->plan;
    bool differ = tir_length_axis(p->fn) < p->fn->grid.n || tir_has_ended_axis(p->fn);
    const char *why = NULL;

    if (hints->consumers > 1)
        why = "products in tensor memory with scales are of one warp group";
    else if (hints->persistent && (hints->clc || (hints->dynamic && differ)))
        why = "tiles of products in tensor memory with scales are dealt out, not drawn";
    else if (op->args[0]->type.dim[1] % form->k != 0)
        why = "the inner dimension of a product with scales is no whole number of instructions";
    for (uint32_t k = TIR_MMA_PLAIN; k < TIR_MMA_SCALED && why == NULL; k++)
        why = cannot_bring_scales(p, op, k);
    return why == NULL || refuse(p, op->span, why);
}

/* A product that a thread issues for a consumer: of as many rows as tensor memory has, which are
 * the consumer's; the columns may be that, where both operands are loaded; or neither, where the
 * result is added to memory. */
static bool
check_issued(Planner *p, TirOp *op, const MmaForm *form)
{
    TirType type = op->results[0]->type;
    uint8_t along = p->along[op->results[0]->id];
    bool added = along == 0 && plan_only_addition(p->loop->blocks[0], op->results[0]) != NULL;
    bool loaded = planner_load(op->args[0]) != NULL && planner_load(op->args[1]) != NULL;

    op->swap_ab = along == 2 && loaded;
    p->by_shape = type.dim[op->swap_ab] != form->m || type.dim[!op->swap_ab] > form->n;
    if (p->by_shape)
        return refuse(p, op->span, "a product in tensor memory has 128 rows, and up to 256 columns");
    if (type.dim[!op->swap_ab] % form->n_step != 0 &&
        (type.dim[!op->swap_ab] % MATRIX_COLUMNS != 0 ||
         !plan_ends_in_zeros(op->args[!op->swap_ab], !op->swap_ab)))
        return refuse(p, op->span,
                      "a product in tensor memory has a multiple of 16 columns, or all columns of a "
                      "tensor's last dimension, a multiple of 8");
    if (along != 1 && !op->swap_ab && !added)
        return refuse(p, op->span, "the rows of a product do not run along the warp groups' axis");
    if (form->scales > 0 && !check_scales(p, op, form))
        return false;
    return check_operands(p, op, form, false);
}

TirVal *
plan_computed_right(const TirBlock *body, const TirOp *op)
{
    if (op->op != TIR_MMA || op->coop_k)
        return NULL;
    bool transposed;
    TirVal *value = graph_base(op->args[op->swap_ab ? 0 : 1], &transposed);
    const TirOp *def = value->def;
    return def != NULL && def->parent == body && def->op != TIR_LOAD ? value : NULL;
}

bool
plan_has_computed_right(const TirBlock *body)
{
    bool has = false;

    for (uint32_t i = 0; i < body->ops.n; i++)
        has = has || plan_computed_right(body, body->ops.at[i]) != NULL;
    return has;
}

/* Whether a product adds up over what the consumers have apart. */
static bool
is_shared_out(const Planner *p, const TirOp *op)
{
    return op->op == TIR_MMA && p->along[op->results[0]->id] == 0 &&
           (p->along[op->args[0]->id] & 2) != 0;
}

/* A product of a consumer's own, along its rows or columns.  These become the rows of the
 * instruction; where consumers share out another product of the loop, and so meet in each
 * iteration, they may be its columns as well, and its right operand computed: it goes through
 * shared memory before they meet.  (Tiles of 48 keys of attention's backward at head dimension
 * 192. Elsewhere products of fewer than 64 rows were not measured.)  `may_turn`: one product is
 *      shared out; of two, the
 * second would write the exchange while others still read a right operand of the first. */
static bool
check_own(Planner *p, TirOp *op, const MmaForm *form, bool may_turn)
{
    TirType type = op->results[0]->type;

    op->swap_ab = p->along[op->results[0]->id] == 2;
    if (form == NULL)
        return refuse(p, op->span, no_form);
    /* four of them, side by side; as many columns as fit */
    bool by_warps = form->issuer == BY_WARP;
    int32_t each = by_warps ? GROUP_WARPS * form->m : form->m;
    bool turned = may_turn && !by_warps && (form->a & IN_SHARED) != 0 &&
                  type.dim[op->swap_ab] % each != 0 && type.dim[!op->swap_ab] % each == 0;
    op->swap_ab = op->swap_ab != turned;
    int32_t rows = type.dim[op->swap_ab], cols = type.dim[!op->swap_ab];
    if (by_warps && rows != each)
        return refuse(p, op->span, "a product of four warps has 64 rows");
    p->by_shape = rows % each != 0 || (!by_warps && cols > form->n);
    if (p->by_shape || cols % form->n_step != 0)
        return refuse(
            p, op->span,
            arena_printf(
                p->fn->arena,
                "a product of a warp group has a multiple of 64 rows, and a multiple of %d columns "
                "up to 256",
                (int)form->n_step));
    if (!target_holds_result(p->px->target, p->px->plan.consumers, 1, cols))
        return refuse(
            p, op->span,
            "a product has more columns than the registers of so many warp groups hold at once");
    if (rows / each * cols / 2 + BESIDE_RESULT >
        (int32_t)p->px->target->role_registers[p->px->plan.consumers].consumer)
        return refuse(p, op->span,
                      "a product has more rows and columns than the registers of a warp group hold");
    return check_operands(p, op, form, turned);
}

bool
planner_check_mmas(Planner *p)
{
    const TirBlock *body = p->loop->blocks[0];
    uint32_t shared_out = 0;

    for (uint32_t i = 0; i < body->ops.n; i++)
        shared_out += is_shared_out(p, body->ops.at[i]);
    for (uint32_t i = 0; i < body->ops.n; i++) {
        TirOp *op = body->ops.at[i];
        if (op->op != TIR_MMA)
            continue;
        op->coop_k = false;
        const MmaForm *form = product_form(p->px->target, op);
        uint8_t along = p->along[op->results[0]->id];
        bool ok;
        if (is_of_all_consumers(op->args[0]))
            ok = check_columns(p, op);
        else if (form != NULL && form->issuer == BY_THREAD)
            ok = check_issued(p, op, form);
        else if (is_shared_out(p, op))
            ok = check_coop_k(p, op);
        else if (along == 1 || along == 2)
            ok = check_own(p, op, form, shared_out == 1);
        else
            ok = refuse(p, op->span, "a product does not run along the warp groups' axis");
        if (!ok)
            return false;
    }
    return true;
}

bool
planner_copies(const Planner *p, const TirOp *op)
{
    return op->op == TIR_LOAD && op->shared == NULL && op->results[0]->type.rank == 2 &&
           cannot_bring(p, op) == NULL;
}
