/* lower_mma.c - products on the tensor unit: fragments and mma.sync.
 *
 * The instruction computes a 16 x 8 block from a 16 x 16 block of its left operand and a 16 x 8
 * block of its right one.  A product with swap_ab computes the transposed result, so its left
 * operand is the second of the mma operation, transposed.
 *
 * Fragments come from registers when the operand's elements are already in the right threads,
 * else from shared memory by ldmatrix: matrices are 8 rows of 16 bytes, row addresses come from
 * the lanes (8 each), and `.trans` serves operands whose contracted dimension runs down the rows.
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/util/product_form.h"
#include "compiler/passes/util/shared_uses.h"
#include "compiler/passes/util/tir_util.h"

enum {
    ATOM_M = MMA_ROWS,
    ATOM_N = MMA_COLS,
    FOUR_LANES = 4 /* have a row of a matrix */,
    MOST_IN_WORD = 4
};

/* One operand of a product, as the instruction sees it. */
typedef struct Operand {
    TirVal *value;
    bool left;           /* 16-row blocks, four registers a fragment; else 8 columns, two */
    uint32_t blocks;     /* blocks of a warp along rows (left) or columns (right) */
    int32_t k, word;     /* elements of the contracted dimension in an instruction, in a register */
    uint32_t steps;      /* blocks along the contracted dimension */
    int32_t padded_from; /* from this contracted index on elements are undefined; 0: none are */
    /* from registers */
    const int32_t *map;
    /* from shared memory */
    const TirOp *read;
    bool contiguous; /* the contracted dimension runs along a row of the buffer */
    SharedPlace place;
    LirReg *kept; /* fragments in registers: [step][block][register] */
    /* of each block: words of four scales, and where they are */
    TirVal *scales;
    uint32_t scales_axis; /* of blocks */
    const int32_t *scales_map;
    uint32_t scale_words;
} Operand;

static uint32_t
ceil_div(int32_t a, int32_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

/* The first row (left) or column (right) of the warp, in elements. */
static Elem
warp_origin(Lowering *lo, const TirOp *mma, bool left, int32_t extent)
{
    LirReg warp = lower_warp(lo);

    if ((left ? mma->warps_m : mma->warps_n) == 1)
        return elem_int(0);
    if (left) {
        if (mma->warps_m < lo->fn->warps)
            warp = lower_remainder(lo, warp, mma->warps_m);
    } else {
        warp = lower_quotient(lo, warp, mma->warps_m);
        if (mma->warps_m * mma->warps_n < lo->fn->warps)
            warp = lower_remainder(lo, warp, mma->warps_n);
    }
    return lower_mul_const(lo, elem_reg(warp), extent);
}

static LirReg
lane_bit(Lowering *lo, int32_t bit, int32_t to)
{
    LirReg lane = lower_lane(lo);
    LirReg one = lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_int(1 << bit));
    if (to > bit)
        return lir_op2(&lo->b, LIR_SHL_B32, LIR_B32, lir_reg(one), lir_int(to - bit));
    if (to < bit)
        return lir_op2(&lo->b, LIR_SHR_U32, LIR_B32, lir_reg(one), lir_int(bit - to));
    return one;
}

/* Where the pipeline's stage that was last waited for begins: its cursor may be at the next one by
 * now. */
static Elem
stage_waited_for(Lowering *lo, const TirShared *pipeline)
{
    LirReg base = lo->role->pipelines[pipeline->id].base; /* in 16 bytes, of a pipeline at 0 */
    Elem start = elem_reg(lir_op2(&lo->b, LIR_SHL_B32, LIR_B32, lir_reg(base), lir_int(4)));

    start.integer = pipeline->offset;
    return start;
}

/* Where each lane's row address of ldmatrix points, for the block at the warp's origin.  Lane bits
 * 0-2 are the row inside a matrix; bits 3 and 4 pick the matrix. */
static void
set_place(Lowering *lo, const TirOp *mma, Operand *operand)
{
    LirReg lane = lower_lane(lo);
    Elem row = elem_reg(lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(lane), lir_int(7)));
    int32_t extent = (int32_t)operand->blocks * (operand->left ? ATOM_M : ATOM_N);
    Elem origin = warp_origin(lo, mma, operand->left, extent);
    Elem bit3_row = elem_reg(lane_bit(lo, 3, 3)), bit4_row = elem_reg(lane_bit(lo, 4, 3));
    Elem bit3_byte = elem_reg(lane_bit(lo, 3, 4)), bit4_byte = elem_reg(lane_bit(lo, 4, 4));
    SharedPlace *place = &operand->place;
    int32_t bytes = 4 / operand->word;
    uint32_t origin_mask = origin.kind == ELEM_INT ? 0 : ~(uint32_t)0;

    if (origin.kind != ELEM_INT) {
        uint32_t low = (uint32_t)extent & (0u - (uint32_t)extent);
        origin_mask = ~(low - 1);
    }
    place->layout = operand->read->shared->layout;
    /* What a warp group's product reads by itself is described here, too, but never loaded. */
    bool in_stage = tir_is_pipeline(operand->read->shared) &&
                    target_issuer(lo->px->target) == BY_WARP;
    place->base = in_stage ? stage_waited_for(lo, operand->read->shared)
                           : lower_stage_base(lo, operand->read->shared, operand->read->args[0]);
    /* A left fragment's registers run down the rows first, a right one's along the contracted
     * dimension first. */
    bool outer_first = operand->left;
    if (operand->contiguous) {
        place->lane_row = lower_add(lo, lower_add(lo, row, outer_first ? bit3_row : bit4_row),
                                    origin);
        place->lane_byte = outer_first ? bit4_byte : bit3_byte;
        place->row_mask = 15 | origin_mask;
        place->byte_mask = 16;
    } else {
        place->lane_row = lower_add(lo, row, outer_first ? bit4_row : bit3_row);
        place->lane_byte = lower_add(lo, outer_first ? bit3_byte : bit4_byte,
                                     lower_mul_const(lo, origin, bytes));
        place->row_mask = 15;
        place->byte_mask = 16 | origin_mask * (uint32_t)bytes;
    }
}

static bool
is_copied(const TirBlock *block, const TirShared *shared)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        if (walk.op->op == TIR_COPY_ASYNC && walk.op->shared == shared)
            return true;
    }
    return false;
}

static Operand
describe(Lowering *lo, const TirOp *mma, uint32_t k)
{
    TirType type = mma->args[k]->type;
    int32_t word = lower_per_word(mma->args[k]);
    Operand operand = {.value = mma->args[k],
                       .left = (k == 0) != mma->swap_ab,
                       .k = 2 * FOUR_LANES * word,
                       .word = word};
    int32_t outer = type.dim[k == 0 ? 0 : 1], inner = type.dim[k == 0 ? 1 : 0];
    bool transposed;

    operand.blocks = operand.left ? ceil_div(outer, ATOM_M * (int32_t)mma->warps_m)
                                  : ceil_div(outer, ATOM_N * (int32_t)mma->warps_n);
    operand.steps = ceil_div(inner, operand.k);
    operand.read = view_source(operand.value, &transposed);
    /* Copies fill a buffer with zeros past the tile; other writers and registers do not. */
    if (inner % operand.k != 0 &&
        (operand.read == NULL || !is_copied(lo->fn->body, operand.read->shared)))
        operand.padded_from = inner;
    if (operand.read != NULL) {
        operand.contiguous = k == 0 ? !transposed : transposed;
        operand.kept = lower_state(lo, operand.value)->fragments;
        if (operand.kept == NULL)
            set_place(lo, mma, &operand);
        return operand;
    }
    const Layout *want = operand.left ? layout_mma_a(lo->arena, outer, inner, word, mma->warps_m,
                                                     lo->fn->warps)
                                      : layout_mma_b(lo->arena, inner, outer, word, mma->warps_m,
                                                     mma->warps_n, lo->fn->warps);
    /* `want` is in the instruction's orientation: left rows x k, right k x columns. */
    if (mma->swap_ab)
        want = layout_transpose(lo->arena, want);
    operand.map = layout_register_map(lo->arena, operand.value->layout, want);
    if (operand.map == NULL) {
        buf_add(lo->px->bugs, "an operand of 'mma' is not where the product needs it\n");
        lo->failed = true;
        operand.map = arena_array(lo->arena, int32_t, layout_registers(want));
    }
    return operand;
}

/* Adds what is known of the operand's scales. */
static void
describe_scales(Lowering *lo, const TirOp *mma, uint32_t k, Operand *operand)
{
    TirVal *scales = mma->args[TIR_MMA_PLAIN + k];
    int32_t lines = scales->type.dim[k], each = scales->type.dim[1 - k];
    const Layout *want = layout_mma_scales(lo->arena, lines, each, operand->left, mma->warps_m,
                                           mma->warps_n, lo->fn->warps);

    operand->scales = scales;
    operand->scales_axis = 1 - k;
    operand->scale_words = ceil_div(each, MOST_IN_WORD);
    operand->scales_map = layout_register_map(lo->arena, scales->layout,
                                              k == 0 ? want : layout_transpose(lo->arena, want));
    if (operand->scales_map == NULL) {
        buf_add(lo->px->bugs, "the scales of 'mma' are not where the product needs them\n");
        lo->failed = true;
        operand->scales_map = arena_array(lo->arena, int32_t, layout_registers(want));
    }
}

/* The words of the operand's scales, [block][word], without signs; zeros behind the last. */
static LirReg *
scale_words(Lowering *lo, const Operand *operand)
{
    uint32_t words = operand->scale_words;
    LirReg *out = arena_array(lo->arena, LirReg, operand->blocks * words + 1);
    const TirType *type = &operand->scales->type;
    int32_t behind = type->dim[operand->scales_axis] % MOST_IN_WORD;
    bool has_sign = !dtype_is_scale(type->dtype);

    for (uint32_t i = 0; i < operand->blocks * words; i++) {
        out[i] = lower_word(lo, operand->scales, operand->scales_map[MOST_IN_WORD * i]);
        bool last = behind != 0 && i % words + 1 == words;
        int32_t kept = (last ? (1 << 8 * behind) - 1 : -1) & (has_sign ? 0x7f7f7f7f : -1);
        if (kept != -1)
            out[i] = lir_op2(&lo->b, LIR_AND_B32, LIR_B32, lir_reg(out[i]), lir_int(kept));
    }
    return out;
}

static void
load_matrices(Lowering *lo, const Operand *operand, uint32_t step, uint32_t block, uint32_t n,
              LirReg *out)
{
    LirOpcode op = operand->contiguous ? n == 4 ? LIR_LDMATRIX_X4 : LIR_LDMATRIX_X2
                   : n == 4            ? LIR_LDMATRIX_X4_TRANS
                                       : LIR_LDMATRIX_X2_TRANS;
    int32_t outer = (int32_t)block * (operand->left ? ATOM_M : ATOM_N);
    int32_t inner = (int32_t)step * operand->k, bytes = 4 / operand->word;
    LirOperand operands[5];

    for (uint32_t k = 0; k < n; k++) {
        out[k] = lir_new_reg(&lo->b, LIR_B32);
        operands[k] = lir_reg(out[k]);
    }
    operands[n] = operand->contiguous
                      ? lower_shared_address(lo, &operand->place, outer, inner * bytes)
                      : lower_shared_address(lo, &operand->place, inner, outer * bytes);
    lir_emit(&lo->b, op, n, n + 1, operands);
}

/* Clears the elements of a fragment past the end of the contracted dimension.  Register k of a lane
 * holds `word` neighbours along it, from word * (lane % 4) of half an instruction's on. */
static void
clear_padding(Lowering *lo, const Operand *operand, uint32_t step, uint32_t n, LirReg *out)
{
    LirBuilder *b = &lo->b;
    int32_t word = operand->word;

    for (uint32_t k = 0; k < n; k++) {
        int32_t second = (int32_t)(operand->left ? k / 2 : k % 2), half = operand->k / 2;
        int32_t inside = operand->padded_from - (operand->k * (int32_t)step + half * second);
        LirReg before[MOST_IN_WORD], mask = 0;
        if (inside >= half)
            continue;
        if (inside <= 0) {
            out[k] = lir_op1(b, LIR_MOV_B32, LIR_B32, lir_int(0));
            continue;
        }
        LirReg lane = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(lower_lane(lo)), lir_int(3));
        LirReg first = lower_elem_reg(lo, lower_mul_const(lo, elem_reg(lane), word), LIR_B32);
        for (int32_t e = 0; e < word; e++)
            before[e] = lir_op2(b, LIR_SETP_LT_S32, LIR_PRED, lir_reg(first), lir_int(inside - e));
        for (int32_t e = 0; e < word; e++) {
            int32_t bits = 32 / word * (e + 1);
            mask = lir_op3(b, LIR_SEL_B32, LIR_B32, lir_int(bits == 32 ? -1 : (1 << bits) - 1),
                           e == 0 ? lir_int(0) : lir_reg(mask), lir_reg(before[e]));
        }
        out[k] = lir_op2(b, LIR_AND_B32, LIR_B32, lir_reg(out[k]), lir_reg(mask));
    }
}

/* The four registers of a left fragment, or the two each of `n` right ones from `block` on. */
static void
fragment(Lowering *lo, const Operand *operand, uint32_t step, uint32_t block, uint32_t n,
         LirReg *out)
{
    uint32_t regs = operand->left ? 4 : 2;
    bool padded = operand->padded_from != 0 &&
                  operand->padded_from < operand->k * (int32_t)(step + 1);

    if (operand->kept != NULL) {
        for (uint32_t k = 0; k < n * regs; k++)
            out[k] = operand->kept[(step * operand->blocks + block) * regs + k];
        return;
    }
    if (operand->read != NULL) {
        load_matrices(lo, operand, step, block, n * regs, out);
        if (padded)
            clear_padding(lo, operand, step, n * regs, out);
        return;
    }
    for (uint32_t k = 0; k < n * regs; k++) {
        uint32_t per_step = operand->steps * 2; /* halves of instructions */
        uint32_t r;                             /* in words */
        if (operand->left)
            r = k % 2 + 2 * (2 * step + k / 2) + 2 * per_step * block;
        else
            r = 2 * step + k % 2 + per_step * (block + k / 2);
        out[k] = lower_word(lo, operand->value, operand->map[(uint32_t)operand->word * r]);
    }
    if (padded)
        clear_padding(lo, operand, step, n * regs, out);
}

/* How many right fragments one load brings. */
static uint32_t
right_width(const Lowering *lo, const Operand *right, uint32_t block)
{
    bool four = switch_is_on(lo->px, "ldmatrix-x4");
    return four && block + 1 < right->blocks ? 2 : 1;
}

/* In a role, sums have registers of their own. */
static LirReg
in_home(Lowering *lo, const TirVal *result, int32_t r, LirReg sum)
{
    if (lo->homes == NULL || lo->homes[result->id] == NULL)
        return sum;
    LirOperand move[] = {lir_reg(lo->homes[result->id][r]), lir_reg(sum)};
    lir_emit(&lo->b, lower_move(result->type.dtype), 1, 2, move);
    return move[0].reg;
}

/* Adds sums of a part of the inner dimension to those of all before it, and begins new ones; 0:
 * nothing was added up yet. */
static void
add_part(Lowering *lo, LirReg *before, LirReg *part, int32_t n)
{
    for (int32_t r = 0; r < n; r++) {
        if (part[r] != 0 && before[r] != 0)
            before[r] = lir_op2(&lo->b, LIR_ADD_F32, LIR_F32, lir_reg(before[r]), lir_reg(part[r]));
        else if (part[r] != 0)
            before[r] = part[r];
        part[r] = 0;
    }
}

void
lower_mma(Lowering *lo, TirOp *op)
{
    Operand left = describe(lo, op, op->swap_ab ? 1 : 0);
    Operand right = describe(lo, op, op->swap_ab ? 0 : 1);
    TirVal *result = op->results[0], *acc = op->args[2];
    const MmaForm *form = product_form_by_warp(lo->px->target, op);
    bool from_zero = tir_is_zero(acc), floats = dtype_is_float(result->type.dtype);
    LirClass class = lower_class(result->type.dtype);
    int32_t n = lower_registers(result);
    LirReg *d = arena_array(lo->arena, LirReg, n);

    if (form == NULL) {
        diag_error(lo->px->diag, op->span, "E-PRODUCT: %s has no product of %s operands here",
                   lo->px->target->name, dtype_name(op->args[0]->type.dtype));
        lo->failed = true;
        return;
    }
    for (int32_t r = 0; r < n; r++)
        d[r] = from_zero ? 0 : lower_elem_reg(lo, lower_elem(lo, acc, r), class);
    LirReg *scales[] = {NULL, NULL};
    for (uint32_t side = 0; side < 2 && form->scales > 0; side++) {
        Operand *of = side == 0 ? &left : &right;
        describe_scales(lo, op, (side == 0) == op->swap_ab ? 1 : 0, of);
        scales[side] = scale_words(lo, of);
    }
    LirReg *before = d;
    bool apart = form->sums > 0 && !op->fast;
    if (apart)
        d = arena_array(lo->arena, LirReg, n);
    for (uint32_t step = 0; step < left.steps; step++) {
        LirReg *a = arena_array(lo->arena, LirReg, left.blocks * 4);
        if (apart && (int32_t)step * form->k % form->sums == 0)
            add_part(lo, before, d, n);
        for (uint32_t m = 0; m < left.blocks; m++)
            fragment(lo, &left, step, m, 1, &a[4 * m]);
        for (uint32_t c = 0; c < right.blocks;) {
            uint32_t width = right_width(lo, &right, c);
            LirReg x[4];
            fragment(lo, &right, step, c, width, x);
            for (uint32_t w = 0; w < width; w++, c++) {
                /* Every other column walks the rows backwards: the left fragment is reused. */
                for (uint32_t k = 0; k < left.blocks; k++) {
                    uint32_t m = c % 2 == 0 ? k : left.blocks - 1 - k;
                    uint32_t first = 4 * (c + right.blocks * m);
                    LirOperand operands[20];
                    for (uint32_t i = 0; i < 4; i++) {
                        LirReg old = d[first + i];
                        if (old == 0)
                            old = lower_elem_reg(lo, floats ? elem_float(0) : elem_int(0), class);
                        operands[10 + i] = lir_reg(old);
                        operands[4 + i] = lir_reg(a[4 * m + i]);
                        d[first + i] = lir_new_reg(&lo->b, class);
                        operands[i] = lir_reg(d[first + i]);
                    }
                    operands[8] = lir_reg(x[2 * w]);
                    operands[9] = lir_reg(x[2 * w + 1]);
                    uint32_t n_operands = 14, first_scale = step * (uint32_t)form->scales;
                    for (uint32_t side = 0; side < 2 && form->scales > 0; side++) {
                        const Operand *of = side == 0 ? &left : &right;
                        uint32_t word = (side == 0 ? m : c) * of->scale_words + first_scale / 4;
                        operands[n_operands++] = lir_reg(scales[side][word]);
                        operands[n_operands++] = lir_int(first_scale % 4);
                        operands[n_operands++] = lir_int(0);
                    }
                    LirOpcode mma = form->scales > 0 ? LIR_MMA_SCALED
                                    : floats         ? LIR_MMA
                                                     : LIR_MMA_S32;
                    lir_emit(&lo->b, mma, 4, n_operands, operands)->text = form->mnemonic;
                }
            }
        }
    }
    if (apart)
        add_part(lo, before, d, n);
    for (int32_t r = 0; r < n; r++)
        lower_set_elem(lo, result, r, elem_reg(in_home(lo, result, r, before[r])));
}

/* ---- loop-invariant operands ---- */

/* The product in the loop that reads `value` and the position; NULL: none, or several that
 * disagree on the fragments. */
static const TirOp *
only_reader(const TirBlock *block, const TirVal *value, uint32_t *k_out, uint32_t *count)
{
    const TirOp *found = NULL;

    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        for (uint32_t k = 0; k < walk.op->n_args; k++) {
            if (walk.op->args[k] != value)
                continue;
            (*count)++;
            if (walk.op->op == TIR_MMA && k < 2) {
                found = walk.op;
                *k_out = k;
            }
        }
    }
    return found;
}

static void
keep_one(Lowering *lo, const TirOp *mma, uint32_t k)
{
    Operand operand = describe(lo, mma, k);
    uint32_t regs = operand.left ? 4 : 2;
    LirReg *kept = arena_array(lo->arena, LirReg, operand.steps * operand.blocks * regs);

    for (uint32_t step = 0; step < operand.steps; step++) {
        for (uint32_t block = 0; block < operand.blocks;) {
            uint32_t width = operand.left ? 1 : right_width(lo, &operand, block);
            fragment(lo, &operand, step, block, width,
                     &kept[(step * operand.blocks + block) * regs]);
            block += width;
        }
    }
    lower_state(lo, operand.value)->fragments = kept;
    vec_push(lo->arena, &lo->kept, operand.value);
}

static int64_t
held_registers(Lowering *lo)
{
    return accumulator_elements(lo->fn->body) / (WARP_LANES * (int64_t)lo->fn->warps);
}

static void
keep_in_block(Lowering *lo, const TirOp *loop, const TirBlock *block, int64_t *budget)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        for (uint32_t b = 0; b < op->n_blocks; b++)
            keep_in_block(lo, loop, op->blocks[b], budget);
        for (uint32_t k = 0; op->op == TIR_MMA && k < 2; k++) {
            TirVal *value = op->args[k];
            bool transposed;
            uint32_t at = 0, count = 0;
            const TirOp *read = view_source(value, &transposed);
            if (read == NULL || read->parent == block || lower_state(lo, value)->fragments != NULL)
                continue;
            const TirBlock *up = read->parent;
            if (up != loop->parent || only_reader(loop->blocks[0], value, &at, &count) != op ||
                count != 1)
                continue;
            bool left = (k == 0) != op->swap_ab;
            int64_t need = tir_type_elements(value->type) * dtype_bits(value->type.dtype) / 32 /
                           WARP_LANES / (int64_t)(left ? op->warps_m : op->warps_n);
            if (need > *budget)
                continue;
            *budget -= need;
            keep_one(lo, op, k);
        }
    }
}

uint32_t
lower_keep_operands(Lowering *lo, TirOp *loop)
{
    uint32_t before = lo->kept.n;
    int64_t budget = lo->px->target->registers_per_thread - BESIDE_KEPT - held_registers(lo);

    if (switch_is_on(lo->px, "keep-operands"))
        keep_in_block(lo, loop, loop->blocks[0], &budget);
    return before;
}

void
lower_drop_operands(Lowering *lo, uint32_t n)
{
    for (uint32_t k = n; k < lo->kept.n; k++)
        lower_state(lo, lo->kept.at[k])->fragments = NULL;
    lo->kept.n = n;
}
