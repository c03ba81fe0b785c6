/* auto_plan.c - choosing a plan for warp groups.
 *
 * A candidate is a value for each parameter that is `auto`, of which those that say how many rows a
 * band has are 64 (or more, where nothing is computed between products), and a number of bands.  Its kernel is made as far as the pass `plan`; then the
 * units that an iteration of the main loop keeps busy, for all bands of a block, give its cost for
 * each multiply-add:
 *
 *   products        n/2 clocks for 64 x n x 16: 4096 operations a clock
 *   shared memory   128 bytes a clock: the right operand 32 n bytes, the left one 2048 if it lies
 *                   there
 *   special unit    16 exponentials a clock
 *   issue           one instruction a clock for each of four schedulers, a warp of each band on each
 *
 *   L2              40 bytes a clock
 *
 * While a band computes, the products of the others fill the gap, as far as they last; without
 * overlap its own products wait as well.
 *
 * Where nothing is computed between products, the units named work at the same time, each well enough
 * to hide behind the busiest but not perfectly; a slot is filled while others are read, the more evenly
 * the more there are.  A product that is computed turned leaves its result turned, which costs more to
 * store.  Of the last tiles of a launch there may be fewer than the chip has room for: a launch of
 * usual sizes says how much of it stands idle.
 * What does not fit shared memory or registers is no candidate.
 */
#include "compiler/auto_plan.h"

#include <math.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/ir/layout.h"
#include "compiler/passes/tir_util.h"

enum {
    BAND_ROWS = 64,
    MOST_BANDS = 4,
    MOST_STAGES = 4,
    MOST_CHOICES = 160,
    ITERATION_CLOCKS = 60,  /* barriers and fill of the pipe, of each iteration */
    CHAIN_CLOCKS = 200,     /* latencies between products that depend on each other */
    CACHE_BYTES = 40,       /* from L2, a clock and SM */
    PORT_BYTES = 128,       /* of shared memory, a clock */
    USUAL_LENGTH = 4096,    /* of a loop or an axis of the grid, in elements */
    USUAL_TILE = 64,        /* what divides most sizes of tensors */
    OPERAND_REGISTERS = 30, /* of one product, beside its result */
    OTHER_SHARED = 1024,    /* barriers, alignment */
    JOINT_SHARED = 512      /* the same where all large buffers are counted */
};

typedef struct Work {
    double tensor, shared, special, issue; /* clocks of one band and iteration */
    double multiplies;
    int64_t ring_bytes_shared, ring_bytes_own; /* of a slot, of rings the loop goes around */
    int64_t once_bytes_shared, once_bytes_own;
    int64_t exchange_bytes; /* of a band: buffers of products that bands share out */
    int64_t accumulators, fresh; /* registers of a thread */
    int32_t widest, rows;        /* columns of a product; rows of a band's */
    bool joint, masks;           /* bands share a product; the program masks elements itself */
    bool turned;                 /* some sum is computed turned */
    int64_t tiles[3];            /* along each axis of the grid that counts tiles, of usual length */
    uint32_t band_axis;
    int64_t kept;                /* registers: tiles that are computed and used more than once */
    bool positions;              /* it computes with the elements' places, as numbers */
} Work;

typedef struct PlanSearch {
    Front front;
    PassContext *px;
    const char *kernel;
    TileChoice *found;
    uint32_t n, autos;
    bool one_block;  /* only bands of 64 rows */
} PlanSearch;

/* ---- one kernel ---- */

/* A kernel for the values of `choice`, as far as the pass `plan`; NULL: there is none.  What is
 * said about it is dropped. */
static TirFn *
planned_kernel(PlanSearch *s, const TileChoice *choice)
{
    Diag *diag = s->px->diag;
    uint32_t messages = diag->messages.n, errors = diag->errors;
    PassContext px = *s->px;
    Buf bugs;
    PassRun run = {.dump_after = -1, .bugs = &bugs};

    arena_reset(s->front.arena);
    buf_init(&bugs, s->front.arena);
    px.arena = s->front.arena;
    px.report = NULL;
    px.plan = choice->plan;
    TirFn *fn = front_kernel(&s->front, s->kernel, choice, NULL);
    bool done = fn != NULL && diag->errors == errors && passes_run_until(&px, fn, &run, "plan");
    diag->messages.n = messages;
    diag->errors = errors;
    return done && fn->plan != NULL ? fn : NULL;
}

/* Tiles of a loop that stay: in f32, computed from products, used by more than one operation. */
static void
add_kept(Work *w, const TirFn *fn, const TirBlock *body)
{
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const TirOp *op = body->ops.at[i];
        for (uint32_t k = 0; k < op->n_blocks; k++)
            add_kept(w, fn, op->blocks[k]);
        if (op->n_results != 1 || op->results[0]->type.rank != 2 ||
            op->results[0]->type.dtype != DT_F32 ||
            (tir_op_info(op->op)->flags & TF_ELEMENTWISE) == 0)
            continue;
        w->positions |= op->op == TIR_CAST && op->args[0]->type.dtype == DT_I32;
        if (op->op != TIR_PADMASK && count_uses(fn, op->results[0]) > 1)
            w->kept += tir_type_elements(op->results[0]->type) / (4 * WARP_LANES);
    }
}

static void
add_arithmetic(Work *w, const TirBlock *block)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_IF && op->by_rows) /* taken seldom */
            continue;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            add_arithmetic(w, op->blocks[k]);
        bool plain = (tir_op_info(op->op)->flags & TF_ELEMENTWISE) != 0 || op->op == TIR_REDUCE;
        const TirVal *sized = op->op == TIR_REDUCE ? op->args[0] : op->n_results == 1 ? op->results[0] : NULL;
        if (!plain || sized == NULL || sized->type.rank != 2)
            continue;
        bool masks = op->op == TIR_MASK || op->op == TIR_PADMASK;
        double each = (double)tir_type_elements(sized->type) / (4 * WARP_LANES);
        bool special = op->op == TIR_EXP || op->op == TIR_EXP2 || op->op == TIR_TANH;
        if (masks || op->results[0]->type.dtype == DT_BOOL || op->op == TIR_CONST)
            continue;
        w->issue += op->op == TIR_CAST ? each / 2 : each;
        if (special)
            w->special += (double)tir_type_elements(sized->type) / 16;
    }
}

static void
add_rings(Work *w, const TirBlock *block, bool in_loop)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_FOR)
            add_rings(w, op->blocks[0], true);
        if (op->op != TIR_LOAD || op->shared == NULL)
            continue;
        int64_t rows = (op->shared->rows + 7) / 8 * 8, cols = (op->shared->cols + 63) / 64 * 64;
        int64_t bytes = rows * cols * 2;
        int64_t *sum = in_loop ? op->shared->per_band ? &w->ring_bytes_own : &w->ring_bytes_shared
                       : op->shared->per_band ? &w->once_bytes_own
                                              : &w->once_bytes_shared;
        *sum += bytes;
    }
}

/* Whether the next iteration begins with `value`. */
static bool
is_carried(const TirBlock *body, const TirVal *value)
{
    const TirOp *yield = block_yield(body);

    for (uint32_t k = 0; k < yield->n_args; k++) {
        if (yield->args[k] == value)
            return true;
    }
    return false;
}

/* The products of the main loop, which may stand in other loops. */
static void
add_products(Work *w, const TirBlock *body, uint32_t bands)
{
    bool main_loop = false;

    for (uint32_t k = 0; k < body->ops.n; k++) {
        const TirOp *op = body->ops.at[k];
        if (op->op == TIR_LOAD && op->results[0]->type.rank == 1) /* copied ahead, to one of two slots */
            w->exchange_bytes += 2 * op->results[0]->type.dim[0] * 4;
        if (op->op == TIR_FOR)
            add_products(w, op->blocks[0], bands);
        w->masks |= op->op == TIR_MASK;
        if (op->op != TIR_MMA)
            continue;
        main_loop = true;
        TirType type = op->results[0]->type;
        double rows = op->joint ? BAND_ROWS : type.dim[op->swapped ? 1 : 0];
        double blocks = rows / BAND_ROWS, n = type.dim[op->swapped ? 0 : 1];
        double steps = (op->args[0]->type.dim[1] + 15) / 16;
        const TirVal *left = op->args[op->swapped ? 1 : 0];
        while (left->def != NULL && left->def->op == TIR_TRANSPOSE)
            left = left->def->args[0];
        bool in_shared = op->joint || (left->def != NULL && left->def->op == TIR_LOAD);
        w->joint |= op->joint;
        w->turned |= op->swapped;
        if (op->joint) { /* the parts of all bands, for a share of the columns */
            steps *= bands;
            n = op->swapped ? n : n / bands;
            w->exchange_bytes += 2 * (int64_t)type.dim[0] * BAND_ROWS * 2;
            w->exchange_bytes += (int64_t)type.dim[0] * type.dim[1] / bands * 4;
            w->shared += (double)type.dim[0] * (BAND_ROWS * 2 + 8.0 * type.dim[1] / bands) / 128;
        }
        w->widest = (int32_t)n > w->widest ? (int32_t)n : w->widest;
        w->rows = rows > w->rows ? (int32_t)rows : w->rows;
        w->tensor += steps * blocks * n / 2;
        w->shared += steps * blocks * (n / 4 + (in_shared ? 16 : 0));
        w->multiplies += rows * n * steps * 16;
        int64_t registers = (int64_t)(rows * n) / (4 * WARP_LANES);
        if (!is_carried(body, op->results[0]) && !op->joint)
            w->fresh += registers;
        else if (!op->joint) /* a joint product begins when the fresh ones have been used */
            w->accumulators += registers;
    }
    if (main_loop)
        add_arithmetic(w, body);
}

static Work
measure(const TirFn *fn, uint32_t bands)
{
    Work w = {.band_axis = fn->plan->band_axis};

    for (uint32_t k = 0; k < 3; k++) {
        const HostExpr *extent = k < fn->grid.n ? fn->grid.at[k].extent : NULL;
        bool tiles = extent != NULL && extent->kind == HOST_CDIV && extent->b->kind == HOST_INT;
        w.tiles[k] = tiles ? (USUAL_LENGTH + extent->b->integer - 1) / extent->b->integer : 1;
    }
    add_rings(&w, fn->body, false);
    add_products(&w, fn->body, bands);
    add_kept(&w, fn, fn->body);
    return w;
}

/* ---- candidates ---- */

static double
largest(double a, double b)
{
    return a > b ? a : b;
}

/* How much longer a launch of usual sizes takes than its blocks do on average. */
static double
last_wave(const Target *target, const Work *w, uint32_t bands)
{
    double blocks = 1;

    for (uint32_t k = 0; k < 3; k++)
        blocks *= k == w->band_axis ? ceil((double)w->tiles[k] / bands) : (double)w->tiles[k];
    double waves = blocks / target->sm_count;
    return ceil(waves) / waves;
}

/* Clocks of an SM for 1024 multiply-adds of a loop that has nothing but products. */
static double
cost_of_products(const Target *target, const Work *w, uint32_t bands, uint32_t stages)
{
    double n = bands, bytes = (double)(w->ring_bytes_shared + bands * w->ring_bytes_own);
    double cache = bytes / CACHE_BYTES, port = n * w->shared + bytes / PORT_BYTES;
    double power = 8, tensor = n * w->tensor;
    double busy = pow(pow(tensor, power) + pow(port, power) + pow(cache, power), 1 / power);
    double each = busy + ITERATION_CLOCKS + cache / (stages * stages);

    each *= last_wave(target, w, bands) * (w->turned ? 1.01 : 1);
    return 1024 * each / (n * w->multiplies);
}

/* Clocks of an SM for 1024 multiply-adds. */
static double
cost_of(const Target *target, const Work *w, uint32_t bands, uint32_t stages, bool overlapped)
{
    if (w->issue <= 0)
        return cost_of_products(target, w, bands, stages);
    double n = bands, units = largest(largest(w->tensor, w->shared), largest(w->special, w->issue));
    double bytes = (double)(w->ring_bytes_shared + bands * w->ring_bytes_own);
    double chain = w->issue > 0 ? w->issue + w->special + CHAIN_CLOCKS : 0;
    double hidden = (n - 1) * w->tensor, exposed = chain > hidden ? chain - hidden : 0;
    double each = largest(n * units, bytes / CACHE_BYTES) + ITERATION_CLOCKS;

    /* The bands' gaps lie side by side: each takes its share. */
    each += exposed / n;
    if (!overlapped && chain > 0)
        each += w->tensor / n;
    /* The first iteration of a tile has nothing beside it: its share in a loop of usual length. */
    double columns = 2.0 * (double)w->fresh;
    if (chain > 0)
        each += (w->tensor + chain) * columns / USUAL_LENGTH / n;
    if (stages == 1) /* copies wait for the slot that is being read */
        each += bytes / CACHE_BYTES;
    return 1024 * each / (n * w->multiplies);
}

static void
add_choice(PlanSearch *s, const TileChoice *values, const Work *w, uint32_t bands)
{
    const Target *target = s->px->target;
    int64_t limit = target->shared_per_block - bands * w->exchange_bytes -
                    (w->joint ? JOINT_SHARED : OTHER_SHARED);
    uint32_t registers = target->role_registers[bands].consumer, slots = 2, stages = 0;
    int64_t loop = w->ring_bytes_shared + bands * w->ring_bytes_own;
    int64_t once = w->once_bytes_shared + bands * w->once_bytes_own;
    enum { OTHER_REGISTERS = 32, SOME_REGISTERS = 24, MASK_REGISTERS = 12 };

    if (loop == 0 || limit <= 0 || s->n == MOST_CHOICES)
        return;
    for (; slots >= 1 && stages < 2; slots--) {
        stages = (uint32_t)((limit - slots * once) / loop);
        if (slots * once > limit)
            stages = 0;
        if (stages >= 2 || slots == 1)
            break;
    }
    if (s->px->stages > 0) /* pinned */
        stages = stages >= s->px->stages ? s->px->stages : 0;
    stages = stages > MOST_STAGES ? MOST_STAGES : stages;
    bool overlapped = !w->joint && w->accumulators > 0 && w->fresh > 0 &&
                      w->accumulators + w->fresh + w->fresh / 2 + OTHER_REGISTERS + w->fresh / 8 <=
                          registers + 4;
    int64_t needed = w->accumulators + w->fresh + SOME_REGISTERS;
    /* Where bands share a product, one tile that is computed takes the place of a result, and masks
     * are made as they are used. */
    if (!w->joint)
        needed += w->fresh / 4 + (w->masks ? MASK_REGISTERS : 0);
    else if (w->positions || w->kept > w->fresh / 2)
        needed += w->kept > w->fresh / 2 ? w->kept - w->fresh / 2 : w->fresh / 4;
    if (stages == 0 || needed > registers)
        return;
    TileChoice *choice = &s->found[s->n++];
    *choice = *values;
    choice->warps = 4;
    choice->plan = (PlanHints){.bands = bands,
                               .stages = stages,
                               .slots = slots,
                               .persistent = !w->joint, /* the place of a tile takes registers */
                               .dynamic = true,
                               .overlap = true,
                               .turns = bands > 1};
    choice->cost = (Cost){.fits = true, .per_work = cost_of(target, w, bands, stages, overlapped)};
    for (uint32_t k = 0; k < s->autos; k++) {
        if (choice->values[k] % USUAL_TILE != 0) /* the last tile of a size is mostly padding */
            choice->cost.per_work *= 1.015;
    }
}

/* Plans for some values, by what the pass finds for few bands; a product that bands share out needs
 * two at least, and looks different for each number. */
static bool
try_values(PlanSearch *s, TileChoice *values)
{
    bool some = false;

    for (uint32_t bands = 1; bands <= MOST_BANDS; bands++) {
        int32_t entry = s->px->target->registers_per_sm / (int32_t)((bands + 1) * 4 * WARP_LANES) / 8 * 8;
        if (s->px->plan.bands != 0 && s->px->plan.bands != bands)
            continue;
        values->plan = (PlanHints){
            .bands = bands, .stages = 2, .slots = 1, .persistent = true, .overlap = true};
        TirFn *fn = planned_kernel(s, values);
        if (fn == NULL)
            continue;
        some = true;
        if (fn->plan->joint) {
            Work w = measure(fn, bands);
            if (w.widest / 2 + OPERAND_REGISTERS <= entry)
                add_choice(s, values, &w, bands);
            continue;
        }
        Work w = measure(fn, 1);
        /* Several blocks of rows in one warp group spare it operands, but leave fewer others whose
         * products could run under its arithmetic. */
        if (w.rows > BAND_ROWS && (w.issue > 0 || s->one_block))
            return false;
        for (; bands <= MOST_BANDS; bands++) {
            entry = s->px->target->registers_per_sm / (int32_t)((bands + 1) * 4 * WARP_LANES) / 8 * 8;
            if (w.widest / 2 + OPERAND_REGISTERS <= entry &&
                (s->px->plan.bands == 0 || s->px->plan.bands == bands))
                add_choice(s, values, &w, bands);
        }
    }
    return some;
}

/* A parameter that the user pinned to several bands' rows: 64 rows, and that many bands. */
static bool
try_pinned_rows(PlanSearch *s, TileChoice *values)
{
    const TilecOptions *options = s->front.options;

    for (size_t k = 0; k < options->n_defines; k++) {
        for (uint32_t bands = 2; bands <= MOST_BANDS; bands++) {
            static const char *const rows[] = {"", "64", "128", "192", "256"};
            if (strcmp(options->defines[k].value, rows[bands]) != 0)
                continue;
            values->replaced = options->defines[k].name;
            values->replacement = rows[1];
            PlanHints before = s->px->plan;
            s->px->plan.bands = bands;
            bool ok = try_values(s, values);
            s->px->plan = before;
            if (ok)
                return true;
            values->replaced = values->replacement = NULL;
        }
    }
    return false;
}

TileChoices
auto_plan_search(const Front *front, PassContext *px, Arena *trials, const char *name)
{
    static const int32_t sizes[] = {64, 128, 96, 80, 112, 160, 192, 256, 48, 32};
    uint32_t n_sizes = sizeof sizes / sizeof sizes[0];
    PlanSearch s = {.front = *front, .px = px, .kernel = name};
    AutoTiles asked = {0};
    Diag *diag = px->diag;
    uint32_t messages = diag->messages.n, errors = diag->errors;
    TileChoice values = {0};

    if (px->target->group_mma == NULL || !pass_enabled(px, "plan") || px->warps > 0)
        return (TileChoices){0};
    s.front.arena = trials;
    s.found = arena_array(px->arena, TileChoice, MOST_CHOICES);
    TirFn *fn = front_kernel(&s.front, name, NULL, &asked);
    diag->messages.n = messages;
    diag->errors = errors;
    if (fn == NULL)
        return (TileChoices){0};
    s.autos = asked.asked < MAX_AUTO ? asked.asked : MAX_AUTO;
    for (uint32_t k = 0; k < MAX_AUTO; k++)
        values.values[k] = BAND_ROWS;
    s.one_block = true; /* what is pinned to more says how many rows a block has, if it can */
    bool some = try_values(&s, &values);
    s.one_block = false;
    if (some) {
        /* Those that may be other than 64: one at a time, and the large ones together. */
        for (uint32_t index = 1; s.autos == 3 && index < 27; index++) {
            TileChoice other = values;
            for (uint32_t k = 0, rest = index; k < 3; k++, rest /= 3)
                other.values[k] = BAND_ROWS << rest % 3;
            try_values(&s, &other);
        }
        for (uint32_t k = 0; k < s.autos; k++) {
            for (uint32_t j = 1; j < n_sizes && s.autos < 3; j++) {
                TileChoice other = values;
                other.values[k] = sizes[j];
                if (!try_values(&s, &other) && j == 1)
                    break;
            }
        }
    } else if (!try_pinned_rows(&s, &values)) {
        try_values(&s, &values);
    }
    for (uint32_t i = 1; i < s.n; i++) {
        TileChoice choice = s.found[i];
        uint32_t k = i;
        while (k > 0 && choice.cost.per_work < s.found[k - 1].cost.per_work) {
            s.found[k] = s.found[k - 1];
            k--;
        }
        s.found[k] = choice;
    }
    if (px->report != NULL) {
        for (uint32_t k = 0; k < s.n && k < 8; k++) {
            const TileChoice *choice = &s.found[k];
            buf_printf(px->report, "  %s", k == 0 ? "* " : "  ");
            for (uint32_t j = 0; j < s.autos; j++)
                buf_printf(px->report, "%s=%d ", asked.names[j], choice->values[j]);
            buf_printf(px->report, "bands %u stages %u slots %u: %.3f clocks for 1024 multiply-adds\n",
                       choice->plan.bands, choice->plan.stages, choice->plan.slots,
                       choice->cost.per_work);
        }
    }
    return (TileChoices){s.found, s.n < 3 ? s.n : 3};
}
