/* lower_group.c - products of warp groups (wgmma): operands described in shared memory or held in
 * registers, results in registers that keep their names.  A product of several blocks of 64 rows is
 * an instruction for each block and step.
 *
 * A wgmma runs on after its instruction.  Its accumulator must be neither read nor written until a
 * wait, and ptxas serialises all products of a kernel in which an accumulator is copied.  So every
 * chain of values that a product adds to lives in one set of registers, its home
 * (passes/util/acc_classes.c finds them).  Words of a left operand in registers that something else
 * accesses meanwhile are copied in the end (ir/lir_fragments.c).
 *
 * PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": register
 * fragments, "Matrix Descriptor Format", "Strides", "Shared Memory Matrix Layout".
 */
#include "compiler/ir/tir_walk.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/util/acc_classes.h"
#include "compiler/passes/util/shared_uses.h"

/* ---- homes ---- */

static void
make_homes(Lowering *lo, const uint32_t *home_of, LirReg **made, const TirBlock *block)
{
    for (TirWalk walk = tir_walk(block); tir_walk_next(&walk);) {
        const TirOp *op = walk.op;
        for (uint32_t k = 0; k < op->n_results + (op->op == TIR_FOR ? op->n_results : 0); k++) {
            const TirVal *value = k < op->n_results
                                      ? op->results[k]
                                      : op->blocks[0]->params.at[k - op->n_results + 1];
            uint32_t home = home_of[value->id];
            if (home == 0)
                continue;
            if (made[home] == NULL) {
                int32_t n = lower_registers(value);
                made[home] = arena_array(lo->arena, LirReg, n);
                for (int32_t r = 0; r < n; r++)
                    made[home][r] = lir_new_home(&lo->b, lower_class(value->type.dtype));
            }
            lo->homes[value->id] = made[home];
        }
    }
}

void
lower_find_homes(Lowering *lo)
{
    uint32_t n = lo->fn->next_id + 1;
    MmaAccClasses found = mma_acc_classes(lo->arena, lo->fn);

    lo->homes = arena_array(lo->arena, LirReg *, n);
    lo->at_once = found.at_once;
    make_homes(lo, found.of, arena_array(lo->arena, LirReg *, n), lo->fn->body);
}

bool
lower_has_home(const Lowering *lo, const TirVal *value)
{
    return lo->homes != NULL && lo->homes[value->id] != NULL;
}

/* Evaluates a value now, because the home of an operand is about to receive another value.  A value
 * that only renames registers of the home is copied from them. */
void
lower_at_once(Lowering *lo, TirVal *value)
{
    int32_t n = lower_registers(value);

    lower_force(lo, value);
    LirClass class = lower_class(value->type.dtype);
    for (int32_t r = 0; r < n && lower_per_word(value) == 1 && class != LIR_PRED; r++) {
        Elem elem = lower_elem(lo, value, r);
        if (elem.kind != ELEM_REG || !lo->out->regs.at[elem.reg].is_home)
            continue;
        LirOperand move[] = {lir_reg(lir_new_reg(&lo->b, class)), lir_reg(elem.reg)};
        lir_emit(&lo->b, lower_move(value->type.dtype), 1, 2, move);
        lower_set_elem(lo, value, r, elem_reg(move[0].reg));
    }
}

/* ---- operands ---- */

/* Bytes of so many elements of a buffer. */
static int64_t
bytes_of(const TirShared *shared, int64_t elements)
{
    return elements * dtype_bits(shared->dtype) / 8;
}

/* Elements in a row of a swizzle atom. */
static int32_t
atom_width(const TirShared *shared)
{
    return shared->layout->pitch * 8 / (int32_t)dtype_bits(shared->dtype);
}

static const MmaForm *
role_form(const Lowering *lo, const TirOp *mma)
{
    return target_role_mma(lo->px->target, mma->args[mma->swap_ab ? 1 : 0]->type.dtype,
                           mma->args[mma->swap_ab ? 0 : 1]->type.dtype);
}

/* The high word of a descriptor: 8 rows of a swizzle atom column from one matrix to the next; the
 * swizzle, in bits 62 and 63: 1, 2, 3 for rows of 128, 64, 32 bytes. */
static int64_t
descriptor_high(const SharedLayout *layout)
{
    int64_t swizzle = 1 + SWIZZLE_BITS - layout->bits;

    return (int32_t)(swizzle << 30 | (layout->pitch * SWIZZLE_ROWS) >> 4);
}

typedef struct GroupOperand {
    TirVal *value;
    const TirOp *read;  /* NULL: in registers */
    const TirOp *part;  /* of what was read; NULL: all of it */
    bool contiguous;    /* the contracted dimension runs along rows in shared memory */
    int32_t k;          /* elements of it that an instruction takes */
    const int32_t *map; /* in registers: from the instruction's order */
} GroupOperand;

static GroupOperand
describe(Lowering *lo, const TirOp *mma, uint32_t k)
{
    GroupOperand operand = {.value = mma->args[k], .k = role_form(lo, mma)->k};
    TirType type = mma->args[k]->type;
    bool transposed;

    operand.read = view_source(operand.value, &transposed);
    operand.part = view_part(operand.value);
    if (operand.read != NULL) {
        operand.contiguous = k == 0 ? !transposed : transposed;
        return operand;
    }
    int32_t outer = type.dim[k == 0 ? 0 : 1], inner = type.dim[k == 0 ? 1 : 0];
    const Layout *want = layout_group_a(lo->arena, outer, inner, lower_per_word(operand.value));
    if (mma->swap_ab)
        want = layout_transpose(lo->arena, want);
    operand.map = layout_register_map(lo->arena, operand.value->layout, want);
    if (operand.map == NULL) {
        buf_add(lo->px->bugs, "an operand of a warp group's product is not where it needs it\n");
        lo->failed = true;
        operand.map = arena_array(lo->arena, int32_t, layout_registers(want));
    }
    return operand;
}

/* The descriptor of an operand `offset` bytes behind `base`, which is in units of 16 bytes; `anew`:
 * for the next product alone. */
static LirReg
descriptor_at(Lowering *lo, const SharedLayout *layout, LirReg base, int64_t offset,
              int32_t leading, bool anew)
{
    LirBuilder *b = &lo->b;
    LirOperand sum[] = {{0}, lir_reg(base), lir_int((offset >> 4) + ((int64_t)leading << 16))};
    LirReg low = anew ? lir_new_reg(b, LIR_B32) : lir_op2(b, LIR_ADD_S32, LIR_B32, sum[1], sum[2]);
    sum[0] = lir_reg(low);
    if (anew)
        lir_emit(b, LIR_ADD_S32, 1, 3, sum);
    LirReg descriptor = lir_new_reg(b, LIR_B64);
    LirOperand operands[] = {lir_reg(descriptor), lir_reg(low), lir_int(descriptor_high(layout))};

    lir_emit(b, LIR_PACK_B64, 1, 3, operands);
    return descriptor;
}

/* `base`, a tile's beginning in units of 16 bytes, moved to that of a part of it. */
static LirReg
base_of_part(Lowering *lo, const TirOp *part, const TirShared *shared, LirReg base)
{
    LirBuilder *b = &lo->b;
    const SharedLayout *layout = shared->layout;
    int32_t length = part->results[0]->type.dim[part->axis];
    int32_t width = atom_width(shared);
    int64_t bytes = part->axis == 0 ? (int64_t)length * layout->pitch
                                    : (int64_t)length / width * layout->rows * layout->pitch;

    if (part->axis == 1 && length % width != 0) /* inside of a swizzle atom column */
        bytes = bytes_of(shared, length);
    if (part->integer >= 0)
        return lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(base), lir_int(part->integer * bytes >> 4));
    LirReg own = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group), lir_int(-1));
    return lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(bytes >> 4), lir_reg(base));
}

int64_t
lower_step_offset(const TirShared *pipeline, bool contiguous, int64_t inner, int64_t *leading)
{
    const SharedLayout *layout = pipeline->layout;
    int32_t width = atom_width(pipeline);
    int64_t atom_column = layout->rows * layout->pitch;

    *leading = contiguous ? 1 : atom_column >> 4; /* when it counts */
    return contiguous ? inner / width * atom_column + bytes_of(pipeline, inner % width)
                      : inner * layout->pitch;
}

/* The descriptors of a pipeline's current stage, one for each step along the contracted dimension,
 * which runs along the rows in shared memory (`contiguous`) or across them; of 64 rows of a left
 * operand from `block` times 64 on. */
static LirReg *describe_coop_k(Lowering *lo, const GroupOperand *operand, uint32_t first,
                               uint32_t end, int32_t block);

static LirReg *
describe_steps(Lowering *lo, const GroupOperand *operand, uint32_t first, uint32_t end,
               int32_t block)
{
    const TirOp *read = operand->read;
    bool contiguous = operand->contiguous;
    const TirShared *pipeline = read->shared;
    if (read->coop_k || pipeline->kind == SHARED_PARTS)
        return describe_coop_k(lo, operand, first, end, block);
    PipelineCursor *cursor = &lo->role->pipelines[pipeline->id];
    const SharedLayout *layout = pipeline->layout;
    int32_t atom_column = layout->rows * layout->pitch;
    int64_t leading;
    LirReg *out = arena_array(lo->arena, LirReg, end);
    LirReg base = read->own ? cursor->own : cursor->base;

    if (operand->part != NULL)
        base = base_of_part(lo, operand->part, pipeline, base);
    else if (cursor->described[contiguous] != NULL && block == 0 && !read->own)
        return cursor->described[contiguous];
    for (uint32_t s = first; s < end; s++) {
        int64_t offset = lower_step_offset(pipeline, contiguous, (int64_t)s * operand->k, &leading);
        offset += (int64_t)block * GROUP_ROWS *
                  (contiguous ? layout->pitch : atom_column / atom_width(pipeline));
        out[s] = descriptor_at(lo, layout, base, (int64_t)pipeline->offset + offset,
                               (int32_t)leading, first + 1 == end);
    }
    return out;
}

static uint32_t
steps_of(const Lowering *lo, const TirOp *mma)
{
    int32_t k = role_form(lo, mma)->k;

    return (uint32_t)((mma->args[0]->type.dim[1] + k - 1) / k);
}

/* From the start of what consumers exchange to this one's share: rows of the buffer, or columns. */
static int64_t
share_bytes(const TirOp *read, int32_t atom_column)
{
    TirType share = read->results[0]->type;
    int32_t width = atom_width(read->shared);

    if (share.dim[0] < read->shared->rows)
        return (int64_t)share.dim[0] * read->shared->layout->pitch;
    /* whole swizzle atom columns, or all consumers in one */
    return share.dim[1] % width == 0 ? (int64_t)share.dim[1] / width * atom_column
                                     : bytes_of(read->shared, share.dim[1]);
}

/* The same for the parts of all consumers, one after the other along the contracted dimension:
 * those of an exchange buffer side by side, those of a pipeline stacked; of one of them this
 * consumer's share only.  Or for this consumer's own part of what it exchanges. */
static LirReg *
describe_coop_k(Lowering *lo, const GroupOperand *operand, uint32_t first, uint32_t end,
                int32_t block)
{
    const TirOp *read = operand->read;
    bool contiguous = operand->contiguous;
    const TirShared *shared = read->shared;
    LirBuilder *b = &lo->b;
    int64_t stage_bytes = shared->bytes / shared->stages,
            part = stage_bytes / tir_consumers(lo->fn->plan);
    int32_t inner_of_part = contiguous ? shared->cols : shared->rows;
    int32_t pitch = shared->layout->pitch, atom_column = shared->layout->rows * pitch,
            leading = contiguous ? 1 : atom_column >> 4;
    LirReg *out = arena_array(lo->arena, LirReg, end);
    LirReg start = lower_shared_start(lo);

    /* one consumer's alone */
    int64_t first_part = read->integer > 0 ? (read->integer - 1) * part : 0;
    start = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(start), lir_int(shared->offset + first_part));
    LirReg base = lower_described(lo, start);
    if (shared->stages > 1) {
        LirReg stage = lo->role->pipelines[shared->id].stage;
        base = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(stage), lir_int(stage_bytes >> 4),
                       lir_reg(base));
    }
    if (read->own) {
        LirReg own = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group), lir_int(-1));
        base = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(part >> 4), lir_reg(base));
    }
    if (read->sliced) {
        int64_t step = share_bytes(read, atom_column);
        LirReg own = lir_op2(b, LIR_ADD_S32, LIR_B32, lir_reg(lo->role->group), lir_int(-1));
        base = lir_op3(b, LIR_MAD_S32, LIR_B32, lir_reg(own), lir_int(step >> 4), lir_reg(base));
    }
    for (uint32_t s = first; s < end; s++) {
        int32_t all = (int32_t)s * operand->k, inner = all % inner_of_part;
        int64_t offset = all / inner_of_part * part +
                         (contiguous ? bytes_of(shared, inner) : inner * pitch);
        offset += (int64_t)block * GROUP_ROWS *
                  (contiguous ? pitch : atom_column / atom_width(shared));
        out[s] = descriptor_at(lo, shared->layout, base, offset, leading, false);
    }
    return out;
}

/* The most steps whose descriptors are made ahead of the product.  They occupy uniform registers,
 * of which a warp has 63; when these run out, ptxas does not move the descriptors down but uses
 * vector registers. */
enum { MOST_AHEAD = 8 };

/* Products in `block` and the blocks in it that read `pipeline`; the wait of another stage ends
 * it. */
static void
describe_for(Lowering *lo, const TirBlock *block, uint32_t from, const TirShared *pipeline)
{
    PipelineCursor *cursor = &lo->role->pipelines[pipeline->id];

    for (uint32_t i = from; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        if (op->op == TIR_CONSUMER_WAIT && op->shared == pipeline)
            return;
        for (uint32_t k = 0; k < op->n_blocks; k++)
            describe_for(lo, op->blocks[k], 0, pipeline);
        for (uint32_t k = 0; op->op == TIR_MMA && op->async && k < 2; k++) {
            bool transposed;
            const TirOp *read = view_source(op->args[k], &transposed);
            bool contiguous = k == 0 ? !transposed : transposed;
            GroupOperand operand = {.read = read,
                                    .part = view_part(op->args[k]),
                                    .contiguous = contiguous,
                                    .k = role_form(lo, op)->k};
            if (read == NULL || read->coop_k || read->own || read->shared != pipeline ||
                steps_of(lo, op) > MOST_AHEAD || operand.part != NULL)
                continue;
            cursor->described[contiguous] = describe_steps(lo, &operand, 0, steps_of(lo, op), 0);
        }
    }
}

void
lower_describe_pipeline(Lowering *lo, const TirOp *wait)
{
    PipelineCursor *cursor = &lo->role->pipelines[wait->shared->id];
    uint32_t at = 0;

    cursor->described[0] = cursor->described[1] = NULL;
    /* When registers are short, only what pays is kept over the loop: not the descriptors of the
     * loop's own stages, which are read once, nor those of the several operands of a cooperative-K
     * product. */
    const TirOp *loop = wait->parent->owner;
    if (tir_role(lo->fn->plan, ROLE_CONSUMER)->pressure > 0 &&
        (tir_has_coop_k(lo->fn) || (loop != NULL && loop->op == TIR_FOR)))
        return;
    while (wait->parent->ops.at[at] != wait)
        at++;
    describe_for(lo, wait->parent, at + 1, wait->shared);
}

void
lower_group_mma(Lowering *lo, TirOp *op)
{
    GroupOperand left = describe(lo, op, op->swap_ab ? 1 : 0);
    GroupOperand right = describe(lo, op, op->swap_ab ? 0 : 1);
    TirVal *result = op->results[0];
    const MmaForm *form = role_form(lo, op);
    int32_t n = lower_registers(result), cols = result->type.dim[op->swap_ab ? 0 : 1];
    int32_t blocks = (result->type.dim[op->swap_ab ? 1 : 0] + GROUP_ROWS - 1) / GROUP_ROWS;
    const char *mnemonic = arena_printf(lo->out->arena, form->mnemonic, cols);
    uint32_t steps = steps_of(lo, op),
             each = (uint32_t)(n / blocks); /* registers of a block's sum */
    LirReg **a = arena_array(lo->arena, LirReg *, blocks);
    LirReg *home = lo->homes[result->id];
    bool from_zero = tir_is_zero(op->args[2]);
    LirBuilder *b = &lo->b;

    bool ahead = steps <= MOST_AHEAD;
    for (int32_t m = 0; m < blocks && left.read != NULL && ahead; m++)
        a[m] = describe_steps(lo, &left, 0, steps, m);
    for (int32_t m = 0; m < blocks && left.read == NULL; m++) {
        a[m] = arena_array(lo->arena, LirReg, 4 * steps);
        for (uint32_t r = 0; r < 4 * steps; r++) {
            int32_t word = lower_per_word(left.value);
            a[m][r] = lower_word(lo, left.value,
                                 left.map[word * (int32_t)(r + 4 * steps * (uint32_t)m)]);
        }
    }
    LirReg *x = ahead ? describe_steps(lo, &right, 0, steps, 0) : NULL;
    if (!from_zero) {
        for (int32_t r = 0; r < n; r++) {
            LirOperand before = lower_operand(lo, lower_elem(lo, op->args[2], r));
            if (before.kind == LIR_REG && before.reg == home[r])
                continue;
            LirOperand move[] = {lir_reg(home[r]), before};
            lir_emit(b, lower_move(result->type.dtype), 1, 2, move);
        }
    }
    lir_emit(b, LIR_WGMMA_FENCE, 0, 0, NULL);
    LirOperand *operands = arena_array(lo->arena, LirOperand, each + 9);
    for (uint32_t s = 0; s < steps; s++) {
        if (!ahead)
            x = describe_steps(lo, &right, s, s + 1, 0);
        for (int32_t m = 0; m < blocks; m++) {
            uint32_t at = each;
            if (!ahead && left.read != NULL)
                a[m] = describe_steps(lo, &left, s, s + 1, m);
            for (uint32_t r = 0; r < each; r++)
                operands[r] = lir_reg(home[(uint32_t)m * each + r]);
            if (left.read != NULL)
                operands[at++] = lir_reg(a[m][s]);
            for (uint32_t k = 0; left.read == NULL && k < 4; k++)
                operands[at++] = lir_reg(a[m][4 * s + k]);
            operands[at++] = lir_reg(x[s]);
            operands[at++] = lir_int(s > 0 || !from_zero);
            for (uint32_t k = 0; k < 2 && dtype_is_float(form->a_type); k++)
                operands[at++] = lir_int(1); /* not negated */
            if (left.read != NULL && form->a_major == (MAJOR_K | MAJOR_MN))
                operands[at++] = lir_int(!left.contiguous);
            if (form->b_major == (MAJOR_K | MAJOR_MN))
                operands[at++] = lir_int(!right.contiguous);
            lir_emit(b, left.read != NULL ? LIR_WGMMA_SS : LIR_WGMMA_RS, each, at, operands)->text =
                mnemonic;
        }
    }
    lir_emit(b, LIR_WGMMA_COMMIT, 0, 0, NULL);
    for (int32_t r = 0; r < n; r++)
        lower_set_elem(lo, result, r, elem_reg(home[r]));
}
