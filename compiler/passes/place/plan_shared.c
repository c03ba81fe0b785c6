/* plan_shared.c - the swizzle of each shared buffer, and where it lies.
 *
 *   level    tile IR with register layouts
 *   does     gives each buffer the swizzle with the fewest bank conflicts, counted over the
 *            accesses that the program makes; places buffers so that those which are never alive
 *            together share bytes; refuses kernels that need more than the target has
 *   leaves   layout, offset and bytes of each buffer; fn->shared_bytes
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/isa.h"
#include "compiler/ir/tir_scales.h"
#include "compiler/ir/tir_walk.h"
#include "compiler/passes/layout/layout_infer.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

enum { BUFFER_ALIGN = BOX_ALIGN };

typedef struct Usage {
    TirShared *shared;
    int32_t rows, cols;       /* physical extents that some access needs */
    bool matrix;              /* read by ldmatrix */
    const Layout *layouts[8]; /* register layouts that are written from or read into */
    uint32_t n_layouts;
    uint32_t first, last; /* positions in the program between which it is alive */
    bool used;
} Usage;

/* Extra passes of ldmatrix over a row of matrices, which depend on nothing else. */
typedef struct MatrixConflicts {
    int32_t pitch, bits, shift, conflicts;
} MatrixConflicts;

typedef struct Planner {
    PassContext *px;
    TirFn *fn;
    Usage *usage;
    uint32_t position;
    VEC(MatrixConflicts) matrix; /* counted so far */
} Planner;

/* Bytes of an element in a buffer; a bool takes a word, but where copies bring it. */
static int32_t
element_bytes(const TirShared *shared)
{
    return shared->dtype == DT_BOOL && !tir_is_pipeline(shared)
               ? 4
               : (int32_t)dtype_bits(shared->dtype) / 8;
}

static int32_t
round_up(int32_t n, int32_t to)
{
    return (n + to - 1) / to * to;
}

static void
need_layout(Usage *usage, const Layout *layout, bool transposed)
{
    if (layout == NULL)
        return;
    int32_t rows = layout->rank == 2 ? layout->shape[transposed ? 1 : 0] : 1;
    int32_t cols = layout->shape[layout->rank == 2 && !transposed ? 1 : 0];
    usage->rows = rows > usage->rows ? rows : usage->rows;
    usage->cols = cols > usage->cols ? cols : usage->cols;
    if (usage->n_layouts < 8 && !transposed)
        usage->layouts[usage->n_layouts++] = layout;
}

static void
touch(Usage *usage, uint32_t first, uint32_t last)
{
    if (!usage->used || first < usage->first)
        usage->first = first;
    if (!usage->used || last > usage->last)
        usage->last = last;
    usage->used = true;
}

static void
collect_op(Planner *p, const TirOp *op)
{
    SharedUse uses[MAX_SHARED_USES];
    uint32_t n = shared_uses(op, uses);

    for (uint32_t k = 0; k < n; k++) {
        Usage *usage = &p->usage[uses[k].shared->id];
        touch(usage, p->position, p->position);
        if (op->op == TIR_MMA)
            usage->matrix = true;
    }
    bool transposed;
    if (op->op == TIR_SHARED_WRITE)
        need_layout(&p->usage[op->shared->id], op->args[1]->layout, false);
    if (op->op == TIR_CONVERT) {
        const TirOp *read = view_source(op->args[0], &transposed);
        if (read != NULL)
            need_layout(&p->usage[read->shared->id], op->results[0]->layout, transposed);
        if (op->shared != NULL) {
            need_layout(&p->usage[op->shared->id], op->args[0]->layout, false);
            need_layout(&p->usage[op->shared->id], op->results[0]->layout, false);
        }
    }
}

/* Walks the program in order.  A buffer read in a loop, by a read made before the loop, stays
 * alive until the loop ends; a pipeline is alive over the whole loop. */
static void
collect_block(Planner *p, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        uint32_t first = ++p->position;
        collect_op(p, op);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            collect_block(p, op->blocks[k]);
        uint32_t last = ++p->position;
        if (op->op != TIR_FOR)
            continue;
        for (uint32_t k = 0; k < p->fn->shared.n; k++) {
            Usage *usage = &p->usage[k];
            bool inside = usage->used && usage->last >= first;
            bool from_before = usage->used && usage->first < first;
            if (inside && (from_before || usage->shared->stages > 1))
                touch(usage, first, last);
        }
    }
}

/* ---- swizzle ---- */

/* One instruction of a warp: the row and the byte in it that each lane accesses. */
typedef struct Access {
    int32_t row[WARP_LANES], byte[WARP_LANES];
    int32_t bytes; /* each */
    int32_t times; /* layouts that it is an instruction of */
} Access;

typedef VEC(Access) AccessList;

/* The instructions that move registers to and from a buffer; the first few are representative of
 * all. */
static AccessList
list_accesses(Arena *arena, const Usage *usage)
{
    int32_t element = element_bytes(usage->shared);
    AccessList list = {0};

    for (uint32_t k = 0; k < usage->n_layouts; k++) {
        const Layout *regs = usage->layouts[k];
        uint32_t last = regs->rank - 1;
        int32_t run = 1, registers = layout_registers(regs);
        if (regs->reg.n > 0 && regs->reg.at[0].step[last] == 1)
            run = regs->reg.at[0].extent;
        while (run * element > 16)
            run /= 2;
        for (int32_t r = 0; r < registers && r < 4 * run; r += run) {
            Access access = {.bytes = run * element, .times = 1};
            for (int32_t lane = 0; lane < WARP_LANES; lane++) {
                int32_t where[LAYOUT_RANK];
                layout_coordinates(regs, r, lane, 0, where);
                access.row[lane] = regs->rank == 2 ? where[0] : 0;
                access.byte[lane] = where[last] * element;
            }
            uint32_t had = 0;
            while (had < list.n && (list.at[had].bytes != access.bytes ||
                                    memcmp(list.at[had].row, access.row, sizeof access.row) != 0 ||
                                    memcmp(list.at[had].byte, access.byte, sizeof access.byte) != 0))
                had++;
            if (had < list.n)
                list.at[had].times++;
            else
                vec_push(arena, &list, access);
        }
    }
    return list;
}

static int32_t
matrix_conflicts(Planner *p, const SharedLayout *layout)
{
    MatrixConflicts counted = {layout->pitch, layout->bits, layout->shift, 0};
    int32_t at[MATRIX_ROWS];

    for (uint32_t k = 0; k < p->matrix.n; k++) {
        const MatrixConflicts *had = &p->matrix.at[k];
        if (had->pitch == counted.pitch && had->bits == counted.bits && had->shift == counted.shift)
            return had->conflicts;
    }
    for (int32_t chunk = 0; chunk < layout->pitch / SWIZZLE_PIECE; chunk++) {
        for (int32_t row = 0; row < MATRIX_ROWS; row++)
            at[row] = shared_offset(layout, row, chunk * SWIZZLE_PIECE);
        counted.conflicts += shared_conflicts(at, MATRIX_ROWS, SWIZZLE_PIECE);
    }
    vec_push(p->px->arena, &p->matrix, counted);
    return counted.conflicts;
}

/* Extra passes of those accesses, and of ldmatrix, to a buffer laid out like `layout`; `enough`
 * of them are not counted further. */
static int32_t
count_conflicts(Planner *p, const Usage *usage, AccessList *list, const SharedLayout *layout,
                int32_t enough)
{
    int32_t total = usage->matrix ? matrix_conflicts(p, layout) : 0, at[WARP_LANES];

    for (uint32_t k = 0, costly = 0; k < list->n && total < enough; k++) {
        Access *access = &list->at[k], had = *access;
        for (int32_t lane = 0; lane < WARP_LANES; lane++)
            at[lane] = shared_offset(layout, access->row[lane], access->byte[lane]);
        int32_t more = access->times * shared_conflicts(at, WARP_LANES, access->bytes);
        total += more;
        if (more > 0) { /* what has conflicts is looked at first the next time */
            *access = list->at[costly];
            list->at[costly++] = had;
        }
    }
    return total;
}

/* Gives `layout` the swizzle with the fewest conflicts; tells how many are left. */
static int32_t
choose_swizzle(Planner *p, const Usage *usage, SharedLayout *layout)
{
    AccessList accesses = list_accesses(p->px->arena, usage);
    int32_t least = count_conflicts(p, usage, &accesses, layout, INT32_MAX);
    bool swizzle = switch_is_on(p->px, "swizzle");

    for (int32_t bits = 1; swizzle && bits <= SWIZZLE_BITS; bits++) {
        for (int32_t shift = 0; shift <= SWIZZLE_BITS && least > 0; shift++) {
            SharedLayout trial = *layout;
            trial.bits = bits;
            trial.shift = shift;
            if ((trial.pitch / SWIZZLE_PIECE) % (1 << bits) != 0)
                continue;
            int32_t conflicts = count_conflicts(p, usage, &accesses, &trial, least);
            if (conflicts < least) {
                least = conflicts;
                *layout = trial;
            }
        }
    }
    return least;
}

static void
lay_out(Planner *p, const Usage *usage)
{
    TirShared *shared = usage->shared;
    SharedLayout *layout = arena_new(p->px->arena, SharedLayout);
    int32_t element = element_bytes(shared);

    layout->rows = usage->matrix ? round_up(usage->rows, MMA_ROWS) : usage->rows;
    layout->cols = round_up(usage->cols, usage->matrix ? MMA_BYTES / element : 16);
    layout->pitch = round_up(layout->cols * element, 16);
    shared->layout = layout;
    int32_t conflicts = p->px->trial ? 0 : choose_swizzle(p, usage, layout);
    /* a vector's stages lie one behind the other */
    int32_t bytes = round_up(layout->pitch * layout->rows, usage->rows > 1 ? BUFFER_ALIGN : 16);
    shared->bytes = (uint32_t)bytes * shared->stages;
    if (p->px->report != NULL) {
        buf_printf(p->px->report, "shared %s: %u stages of %d bytes, ", shared->name,
                   shared->stages, bytes);
        shared_layout_print(layout, p->px->report);
        buf_printf(p->px->report, ", bank conflicts %d\n", conflicts);
    }
}

/* ---- places ---- */

static bool
overlap(const Usage *a, const Usage *b)
{
    return a->used && b->used && a->first <= b->last && b->first <= a->last;
}

/* Buffers that TMA or products of warp groups use. */
static bool
is_of_roles(const TirShared *shared)
{
    return tir_is_pipeline(shared) || shared->kind == SHARED_PARTS ||
           shared->kind == SHARED_STAGING || shared->kind == SHARED_SENT;
}

/* Whether a product starts between two places of a block. */
static bool
starts_between(const TirBlock *block, uint32_t from, uint32_t to)
{
    bool starts = false;

    for (uint32_t i = from; i < to && !starts; i++)
        starts = block->ops.at[i]->op == TIR_MMA;
    return starts;
}

/* Whether `sharer` is filled, waited for and released in each block of operations in which
 * `pipeline` is: filled and waited for after it, released before it.  There must be no product
 * between the two waits: ptxas would move reads of the vector before that product, which would then
 * start late. */
static bool
goes_with(const TirBlock *block, const TirShared *pipeline, const TirShared *sharer)
{
    static const TirOpcode steps[] = {TIR_TMA_LOAD, TIR_CONSUMER_WAIT, TIR_CONSUMER_RELEASE};
    bool goes = true;

    for (uint32_t s = 0; s < 3 && goes; s++) {
        uint32_t n[2] = {0, 0}, at[2] = {0, 0};
        for (uint32_t i = 0; i < block->ops.n; i++) {
            const TirOp *op = block->ops.at[i];
            if (op->op != steps[s] || (op->shared != pipeline && op->shared != sharer))
                continue;
            n[op->shared == sharer]++;
            at[op->shared == sharer] = i;
        }
        bool before = steps[s] != TIR_CONSUMER_RELEASE;
        goes = n[0] == n[1] && n[0] <= 1 && (n[0] == 0 || (at[0] < at[1]) == before);
        if (goes && n[0] == 1 && steps[s] == TIR_CONSUMER_WAIT)
            goes = !starts_between(block, at[0], at[1]);
    }
    for (uint32_t i = 0; i < block->ops.n && goes; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks && goes; k++)
            goes = goes_with(op->blocks[k], pipeline, sharer);
    }
    return goes;
}

/* A vector needs no barriers of its own if a pipeline before it goes around in step with it: a wait
 * for the pipeline covers the vector, and both are released together. */
static void
find_ride(Planner *p, TirShared *vector)
{
    vector->with = NULL;
    for (uint32_t k = 0; vector->kind == SHARED_VECTORS && !tir_is_handed(vector) &&
                         vector->with == NULL && k < vector->id;
         k++) {
        const TirShared *pipeline = p->fn->shared.at[k];
        if (tir_is_pipeline(pipeline) && pipeline->with == NULL && !pipeline->each &&
            pipeline->lag == 0 && pipeline->stages == vector->stages &&
            goes_with(tir_program(p->fn->plan, ROLE_PRODUCER), pipeline, vector) &&
            goes_with(p->fn->body, pipeline, vector))
            vector->with = pipeline;
    }
}

/* The stages of a consumer's pipelines in tensor memory, side by side; then the next consumer's;
 * then the word that says where they begin. */
static void
place_in_tmem(Planner *p, uint32_t *offset)
{
    TirPlan *plan = p->fn->plan;
    uint32_t columns = 0;

    for (uint32_t k = 0; k < p->fn->shared.n; k++) {
        TirShared *pipeline = p->fn->shared.at[k];
        if (pipeline->kind != SHARED_TMEM)
            continue;
        pipeline->offset = columns;
        if (pipeline->over != NULL)
            pipeline->offset = pipeline->over->offset + tir_tmem_first(pipeline);
        if (pipeline->over == NULL)
            columns += pipeline->stages * tir_tmem_columns(pipeline);
        if (p->px->report != NULL)
            buf_printf(p->px->report, "pipeline %s: %u stages of %u columns of tensor memory%s%s\n",
                       pipeline->name != NULL ? pipeline->name : "of a computed operand",
                       pipeline->stages, tir_tmem_columns(pipeline),
                       tir_consumers(plan) > 1 ? " for each consumer" : "",
                       pipeline->over != NULL ? ", over results" : "");
    }
    for (uint32_t k = 0; k < p->fn->shared.n; k++) {
        TirShared *scales = p->fn->shared.at[k];
        if (scales->scales == 0)
            continue;
        scales->column = columns;
        columns += scales->places * tir_tmem_columns(scales);
    }
    if (columns == 0)
        return;
    columns *= tir_consumers(plan);
    plan->tmem_columns = TMEM_LEAST;
    while (plan->tmem_columns < columns)
        plan->tmem_columns *= 2;
    plan->tmem_start = *offset;
    *offset += MBARRIER_BYTES;
}

/* Of halves of columns, by the copies that fill them; 0: it has none. */
static int32_t
half_atom_column_bytes(const TirFn *fn, const TirShared *pipeline)
{
    for (uint32_t k = 0; k < tir_program_count(fn); k++) {
        if (tir_program_at(fn, k) == NULL) /* text that pass roles has not been at */
            continue;
        for (TirWalk walk = tir_walk(tir_program_at(fn, k)); tir_walk_next(&walk);) {
            if (walk.op->op == TIR_TMA_LOAD && walk.op->shared == pipeline)
                return tir_half_atom_column(walk.op);
        }
    }
    return 0;
}

/* `bytes`, or as few as a share of a row is whole atom columns of. */
static int32_t
whole_columns(int32_t bytes, int32_t share)
{
    while (bytes > SWIZZLE_LEAST && share % bytes != 0)
        bytes /= 2;
    return bytes;
}

/* Bytes of a row in a pipeline's swizzle atom columns: 128, or as few as a consumer's share of the
 * columns is whole atom columns of.  Columns inside of an only atom column are reached in it. */
static int32_t
atom_column_bytes(const TirFn *fn, const TirShared *pipeline)
{
    int32_t bytes = SWIZZLE_BYTES, element = element_bytes(pipeline);
    int32_t half = pipeline->in_registers ? tir_atom_column_in_registers(pipeline->cols * element)
                                          : half_atom_column_bytes(fn, pipeline);
    bool sliced = false;

    if (half > 0)
        return half;
    for (TirWalk walk = tir_walk(fn->body); tir_walk_next(&walk);) {
        for (uint32_t k = 0; walk.op->op == TIR_MMA && k < 2; k++) {
            bool transposed;
            const TirOp *read = view_source(walk.op->args[k], &transposed);
            const TirOp *part = view_part(walk.op->args[k]);
            sliced = sliced || (read != NULL && read->shared == pipeline && read->coop_k);
            if (read != NULL && read->shared == pipeline && read->coop_k && read->sliced &&
                pipeline->cols * element > SWIZZLE_BYTES)
                bytes = whole_columns(bytes, read->results[0]->type.dim[1] * element);
            if (read == NULL || part == NULL || read->shared != pipeline || part->axis != 1 ||
                pipeline->cols * element <= SWIZZLE_BYTES)
                continue;
            bytes = whole_columns(bytes, part->results[0]->type.dim[1] * element);
        }
    }
    int32_t fitting = tir_fitting_atom_column(pipeline->cols * element);
    if (fitting < SWIZZLE_BYTES && !sliced && tir_is_pipeline(pipeline) && tir_fits_atom_columns(fn))
        bytes = fitting;
    return bytes;
}

/* The pattern of a swizzle whose rows have so many bytes: pieces of rows that lie in one row of 128
 * bytes are permuted together. */
static SharedLayout *
atom_column_layout(Planner *p, const TirShared *pipeline, int32_t bytes)
{
    SharedLayout *layout = arena_new(p->px->arena, SharedLayout);

    *layout = (SharedLayout){.rows = round_up(pipeline->rows, SWIZZLE_ROWS),
                             .cols = round_up(pipeline->cols, bytes / element_bytes(pipeline)),
                             .pitch = bytes,
                             .bits = SWIZZLE_BITS,
                             .atom_columns = true};
    for (; bytes < SWIZZLE_BYTES; bytes *= 2) {
        layout->bits--;
        layout->shift++;
    }
    return layout;
}

/* Scales lie as tensor memory takes them, 16 bytes for each of 32 lanes and four of its columns. */
static SharedLayout *
scale_layout(Planner *p, const TirShared *scales)
{
    SharedLayout *layout = arena_new(p->px->arena, SharedLayout);

    *layout = (SharedLayout){.rows = (int32_t)tir_scale_bytes(scales) / SCALE_LANE_BYTES,
                             .cols = SCALE_LANE_BYTES,
                             .pitch = SCALE_LANE_BYTES,
                             .shift = SWIZZLE_BITS,
                             .atom_columns = true};
    return layout;
}

/* What the other block of a pair sends: each thread's elements, 16 bytes at a time, side by side;
 * then a full and an empty barrier for each warp. */
static void
place_sent(Planner *p, uint32_t *offset)
{
    for (uint32_t k = 0; k < p->fn->shared.n; k++) {
        TirShared *sent = p->fn->shared.at[k];
        if (sent->kind != SHARED_SENT)
            continue;
        sent->offset = (uint32_t)round_up((int32_t)*offset, BUFFER_ALIGN);
        sent->bytes = (uint32_t)(sent->rows * sent->cols * element_bytes(sent));
        sent->barriers = sent->offset + sent->bytes;
        *offset = sent->barriers + 2 * MBARRIER_BYTES * tir_adding_warps(p->fn->plan);
    }
}

/* Places pipelines (swizzle atom columns, as TMA writes and products read them, at multiples of the
 * widest swizzle's span), then their barriers.  Other buffers come after these, once for each
 * consumer.  Returns where they begin. */
static uint32_t
place_pipelines(Planner *p)
{
    TirPlan *plan = p->fn->plan;
    uint32_t offset = 0;

    for (uint32_t k = 0; k < p->fn->shared.n; k++) {
        TirShared *pipeline = p->fn->shared.at[k];
        if (!is_of_roles(pipeline) || pipeline->kind == SHARED_VECTORS ||
            pipeline->kind == SHARED_TMEM || pipeline->kind == SHARED_SENT)
            continue;
        int32_t element = element_bytes(pipeline);
        SharedLayout *layout = pipeline->scales > 0
                                   ? scale_layout(p, pipeline)
                                   : atom_column_layout(p, pipeline,
                                                        atom_column_bytes(p->fn, pipeline));
        pipeline->layout = layout;
        if (pipeline->over != NULL) {
            const TirShared *below = pipeline->over;
            pipeline->offset = below->offset;
            if (p->px->report != NULL)
                buf_printf(p->px->report, "buffer %s: aliases the stages of %s\n", pipeline->name,
                           below->name);
            continue;
        }
        pipeline->offset = offset;
        pipeline->bytes = (uint32_t)(layout->rows * layout->cols * element) * pipeline->stages *
                          (pipeline->each || !tir_is_pipeline(pipeline) ? tir_consumers(plan) : 1);
        offset += (pipeline->bytes + SWIZZLE_SPAN - 1) / SWIZZLE_SPAN * SWIZZLE_SPAN;
        if (p->px->report != NULL)
            buf_printf(p->px->report, "%s %s: %u stages%s, %u bytes in all\n",
                       tir_is_pipeline(pipeline) ? "pipeline" : "buffer", pipeline->name,
                       pipeline->stages,
                       pipeline->each     ? " for each warp group"
                       : pipeline->halved ? " of half a tile"
                                          : "",
                       pipeline->bytes);
    }
    for (uint32_t k = 0; k < p->fn->shared.n; k++) {
        TirShared *pipeline = p->fn->shared.at[k];
        if (pipeline->kind != SHARED_VECTORS)
            continue;
        SharedLayout *layout = arena_new(p->px->arena, SharedLayout);
        *layout = (SharedLayout){
            .rows = 1,
            .cols = pipeline->cols,
            .pitch = round_up(pipeline->cols * element_bytes(pipeline), BOX_ALIGN)};
        pipeline->layout = layout;
        pipeline->offset = offset;
        pipeline->bytes = (uint32_t)layout->pitch * pipeline->stages * tir_parts(plan, pipeline);
        offset += pipeline->bytes;
    }
    for (uint32_t k = 0; k < p->fn->shared.n; k++) {
        TirShared *pipeline = p->fn->shared.at[k];
        if (!tir_is_pipeline(pipeline))
            continue;
        find_ride(p, pipeline);
        if (pipeline->with != NULL) {
            pipeline->barriers = pipeline->with->barriers;
            continue;
        }
        pipeline->barriers = offset;
        offset += MBARRIER_BYTES * tir_channel(p->fn, pipeline).barriers;
    }
    place_sent(p, &offset);
    place_in_tmem(p, &offset);
    if (tir_role(plan, ROLE_CONSUMER)->pressure > 1 || tir_has_coop_k(p->fn)) {
        plan->mark = offset;
        offset += MBARRIER_BYTES;
    }
    if (tir_is_dynamic(plan)) {
        plan->tiles.offset = offset = (uint32_t)round_up((int32_t)offset, TILE_INDEX_BYTES);
        offset += TILE_PIPELINE_BYTES + (uint32_t)(tir_has_clc(plan) ? CLC_BYTES : 0);
    }
    return (offset + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

static void
place_buffers(Planner *p)
{
    uint32_t n = p->fn->shared.n, total = 0;
    bool *placed = arena_array(p->px->arena, bool, n + 1);

    /* The largest first; each at the lowest offset that no buffer alive with it covers. */
    for (uint32_t round = 0; round < n; round++) {
        uint32_t pick = n;
        for (uint32_t k = 0; k < n; k++) {
            if (!placed[k] && !is_of_roles(p->fn->shared.at[k]) &&
                (pick == n || p->fn->shared.at[k]->bytes > p->fn->shared.at[pick]->bytes))
                pick = k;
        }
        if (pick == n)
            break;
        TirShared *shared = p->fn->shared.at[pick];
        uint32_t offset = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t k = 0; k < n; k++) {
                const TirShared *other = p->fn->shared.at[k];
                if (!placed[k] || !overlap(&p->usage[k], &p->usage[pick]))
                    continue;
                if (offset < other->offset + other->bytes &&
                    other->offset < offset + shared->bytes) {
                    offset = (uint32_t)round_up((int32_t)(other->offset + other->bytes),
                                                BUFFER_ALIGN);
                    moved = true;
                }
            }
        }
        shared->offset = offset;
        placed[pick] = true;
        if (offset + shared->bytes > total)
            total = (uint32_t)round_up((int32_t)(offset + shared->bytes), BUFFER_ALIGN);
    }
    p->fn->shared_bytes = total;
    if (p->fn->plan == NULL)
        return;
    uint32_t begin = place_pipelines(p);
    for (uint32_t k = 0; k < n; k++) {
        if (!is_of_roles(p->fn->shared.at[k]))
            p->fn->shared.at[k]->offset += begin;
    }
    tir_role(p->fn->plan, ROLE_CONSUMER)->private_bytes = total;
    p->fn->shared_bytes = begin + total * tir_consumers(p->fn->plan);
}

/* "M = 128, N = 64": the numbers among the compile-time parameters, which tiles are made of; NULL:
 * none. */
static const char *
tile_parameters(PassContext *px, const TirFn *fn)
{
    const char *list = NULL;

    for (uint32_t k = 0; k < fn->constants.n; k++) {
        const TirConstant *constant = &fn->constants.at[k];
        if (strtol(constant->value, NULL, 10) > 1)
            list = list == NULL
                       ? arena_printf(px->arena, "%s = %s", constant->name, constant->value)
                       : arena_printf(px->arena, "%s, %s = %s", list, constant->name,
                                      constant->value);
    }
    return list;
}

/* The largest buffers, and how much all others take. */
static const char *
largest_buffers(PassContext *px, const TirFn *fn)
{
    enum { SHOWN = 3 };
    bool *shown = arena_array(px->arena, bool, fn->shared.n + 1);
    uint32_t others = 0, bytes = 0;
    Buf text;

    buf_init(&text, px->arena);
    for (uint32_t n = 0; n < SHOWN; n++) {
        uint32_t best = fn->shared.n;
        for (uint32_t k = 0; k < fn->shared.n; k++) {
            uint32_t size = fn->shared.at[k]->bytes; /* 0: it lies over another */
            if (!shown[k] && size > 0 && (best == fn->shared.n || size > fn->shared.at[best]->bytes))
                best = k;
        }
        if (best == fn->shared.n)
            break;
        const TirShared *shared = fn->shared.at[best];
        buf_printf(&text, "%s'%s' takes %u bytes (%u x %d x %d%s)", n == 0 ? "" : ", ",
                   shared->name, shared->bytes, shared->stages, shared->rows, shared->cols,
                   shared->each ? ", for each consumer" : "");
        shown[best] = true;
    }
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        others += !shown[k] && fn->shared.at[k]->bytes > 0;
        bytes += shown[k] ? 0 : fn->shared.at[k]->bytes;
    }
    if (others > 0)
        buf_printf(&text, ", %u other%s %u", others, others == 1 ? "" : "s", bytes);
    return buf_text(&text);
}

/* Says what takes the memory, and what would change it. */
static void
refuse(PassContext *px, const TirFn *fn, int32_t limit)
{
    const char *parameters = tile_parameters(px, fn);

    diag_error(
        px->diag, fn->span,
        "E-SHARED: kernel '%s' needs %u bytes of shared memory, but %s gives a block %d; make its "
        "tiles smaller or use fewer stages",
        fn->name, fn->shared_bytes, px->target->name, limit);
    diag_note(px->diag, fn->span, "%s%s%s%s", largest_buffers(px, fn),
              parameters == NULL ? "" : "; its tiles come from ",
              parameters == NULL ? "" : parameters,
              parameters == NULL ? "" : ": -D NAME=VALUE gives others");
    if (px->plan_span.lo != 0)
        diag_note(px->diag, px->plan_span, "the plan is pinned here");
}

bool
pass_plan_shared(PassContext *px, TirFn *fn)
{
    Planner p = {.px = px, .fn = fn};

    p.usage = arena_array(px->arena, Usage, fn->shared.n + 1);
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        TirShared *shared = fn->shared.at[k];
        p.usage[k] = (Usage){.shared = shared, .rows = shared->rows, .cols = shared->cols};
    }
    collect_block(&p, fn->body);
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        if (!is_of_roles(fn->shared.at[k]))
            lay_out(&p, &p.usage[k]);
    }
    place_buffers(&p);
    if (px->report != NULL)
        buf_printf(px->report, "shared memory: %u bytes\n", fn->shared_bytes);
    uint32_t blocks = fn->plan == NULL ? 1
                                       : target_blocks(px->target, tir_role_registers(fn->plan));
    int32_t limit = target_shared_limit(px->target, blocks);
    if (fn->shared_bytes > (uint32_t)limit)
        refuse(px, fn, limit);
    return true;
}
