/* sim_sm100_ldst.c - tcgen05.ld, st and wait (PTX ISA 9.7.16.8).
 *
 * A ld gives its registers at once: consumers are ordered by the register dependence even without a
 * wait (9.7.16.6.4.5).  To everything else it is in progress until tcgen05.wait::ld.  A st writes
 * tensor memory at a time drawn from the seed.
 */
#include "sim_sm100.h"

#include <stdlib.h>

#include "sim_number.h"

typedef enum Shape {
    SHAPE_32X32B,
    SHAPE_16X64B,
    SHAPE_16X128B,
    SHAPE_16X256B,
    SHAPE_16X32BX2
} Shape;

typedef enum Reduction { REDUCE_NONE, REDUCE_MIN, REDUCE_MAX } Reduction;

typedef struct Move { /* SimInsn.data */
    Shape shape;
    uint32_t registers, columns; /* columns of one access, in 32-bit words without packing */
    uint32_t split;              /* .16x32bx2: columns from the first to the second half */
    bool packed;
    Reduction reduction; /* of ld.red, whose result has the slot behind the last register's */
    bool absolute, keep_nan;
    SimType type;  /* of the reduction */
    uint8_t first; /* slot of the first register */
    TensorAddress address;
} Move;

/* Where register i of a lane lies, from the base (9.7.16.2.3.1; figures 183 to 187). */
static void
place_of(const Move *move, uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column)
{
    uint32_t g = lane / 4, t = lane % 4;
    switch (move->shape) {
    case SHAPE_32X32B:
        *row = lane;
        *column = i;
        break;
    case SHAPE_16X64B:
        *row = g + 8 * (lane & 1);
        *column = 2 * i + (lane >> 1 & 1);
        break;
    case SHAPE_16X128B:
        *row = g + 8 * (i & 1);
        *column = 4 * (i / 2) + t;
        break;
    case SHAPE_16X256B:
        *row = g + 8 * (i >> 1 & 1);
        *column = 8 * (i / 4) + 2 * t + (i & 1);
        break;
    default: /* SHAPE_16X32BX2 */
        *row = lane % 16;
        *column = i;
        break;
    }
    if (move->packed)
        *column *= 2;
    if (move->shape == SHAPE_16X32BX2 && lane >= 16)
        *column += move->split;
}

/* Checks the address against the warp's lanes and the allocation (9.7.16.8.1). */
static bool
check_address(SimWarp *warp, const SimInsn *insn, uint32_t mask, uint32_t *address)
{
    const Move *move = insn->data;
    uint32_t width = move->columns * (move->packed ? 2 : 1);
    uint32_t rows = move->shape == SHAPE_32X32B ? 32 : 16;
    *address = tensor_address(warp, insn, &move->address, sim_first_lane(mask));
    sim_each_lane (l, mask)
        if (tensor_address(warp, insn, &move->address, l) != *address) {
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l,
                     tensor_address(warp, insn, &move->address, l), NULL,
                     "the address differs between the lanes of the warp");
            break;
        }
    uint32_t lane = *address >> 16, quarter = warp->index % 4;
    if (lane < 32 && quarter) { /* the chip ignores the bits that name the warp */
        sim_note(warp, SIM_FIND_TENSOR_MEMORY, -1, *address, NULL,
                 "the address names lane %u of warp 0's: warp %u accesses its own, lanes %u to %u",
                 lane, warp->index, quarter * 32, quarter * 32 + 31);
        *address += quarter * 32 << 16;
        lane += quarter * 32;
    }
    if (lane / 32 != quarter || lane % rows) {
        sim_find(warp, SIM_FIND_TENSOR_MEMORY, -1, *address, NULL,
                 "warp %u may access lanes %u to %u of tensor memory only; the address names lane "
                 "%u%s",
                 warp->index, quarter * 32, quarter * 32 + 31, lane,
                 lane / 32 == quarter ? ", which the shape does not allow" : "");
        return false;
    }
    if (!tensor_in_bounds(warp, -1, warp->cta, *address, width))
        return false;
    return move->shape != SHAPE_16X32BX2 ||
           tensor_in_bounds(warp, -1, warp->cta, *address + move->split, width);
}

static void
note(SimWarp *warp, SimOp *op, const Move *move, uint32_t address, bool write)
{
    uint32_t strip = (address >> 16) / TENSOR_STRIP, column = address & 0xffff;
    uint32_t width = move->columns * (move->packed ? 2 : 1);
    for (uint32_t s = strip; s < strip + (move->shape == SHAPE_32X32B ? 2u : 1u); s++)
        tensor_note(warp, op, warp->cta, s, 0xffff, column, width, write);
    if (move->shape == SHAPE_16X32BX2)
        tensor_note(warp, op, warp->cta, strip, 0xffff, column + move->split, width, write);
}

/* ------------------------------------------------------------------------ ld */

/* Which registers of a warp a ld will fill, by rows of 128 bytes (no two registers share one). */
enum { ROW = 128 };

static uint32_t
loaded_registers(const Move *move)
{
    return move->registers + (move->reduction != REDUCE_NONE);
}

static bool
watch_load(SimWarp *warp, SimOp *op, const SimSlot *slot, uint32_t count)
{
    TensorWarp *tw = tensor_warp(warp);
    const SimFrame *frame = warp->running->frame;
    if (tw->frame != frame) { /* of another function: their loads stay without a use */
        free(tw->load_of);
        tw->load_of = sim_calloc(frame->function->register_bytes / ROW + 1, sizeof *tw->load_of);
        tw->frame = frame;
        warp->unread_loads = 0;
        if (!tw->load_of)
            return false;
    }
    for (uint32_t i = 0; i < count; i++)
        if ((slot[i] & 3) == SIM_BANK_REGISTERS)
            tw->load_of[slot[i] / ROW] = op->id + 1;
    warp->unread_loads++;
    return true;
}

static void
forget_load(SimWarp *warp, const SimOp *op)
{
    TensorWarp *tw = tensor_warp(warp);
    const Move *move = op->insn->data;
    const SimSlot *slot = op->insn->slot + move->first;
    bool any = false;
    for (uint32_t i = 0; tw->load_of && i < loaded_registers(move); i++) {
        uint32_t *at = &tw->load_of[slot[i] / ROW];
        if ((slot[i] & 3) != SIM_BANK_REGISTERS || *at != op->id + 1)
            continue;
        *at = 0;
        any = true;
    }
    warp->unread_loads -= any && warp->unread_loads;
}

/* One ld has one scoreboard: the first instruction that touches any of its registers waits for
 * all. */
void
sim_sm100_watch(SimWarp *warp, const SimInsn *insn)
{
    const TensorWarp *tw = tensor_warp(warp);
    if (!tw || tw->frame != warp->running->frame)
        return;
    for (uint32_t i = 0; i < insn->slot_count; i++) {
        SimSlot slot = insn->slot[i];
        uint32_t load = (slot & 3) == SIM_BANK_REGISTERS ? tw->load_of[slot / ROW] : 0;
        if (!load)
            continue;
        SimOp *op = warp->cta->cluster->ops[load - 1];
        tensor_op(op)->used = warp->clock[warp->agent];
        forget_load(warp, op);
    }
}

/* The smaller or larger one; of f32 as min and max do it (9.7.3.11): without .NaN a NaN loses. */
static uint32_t
choose(const Move *move, uint32_t a, uint32_t b)
{
    bool is_min = move->reduction == REDUCE_MIN;
    if (move->type == SIM_U32)
        return (a < b) == is_min ? a : b;
    if (move->type == SIM_S32)
        return ((int32_t)a < (int32_t)b) == is_min ? a : b;
    float x = sim_f32(a), y = sim_f32(b);
    if (isnan(x) || isnan(y))
        return move->keep_nan || (isnan(x) && isnan(y)) ? 0x7fffffffu : isnan(x) ? b : a;
    bool less = x < y || (x == y && a >> 31 > b >> 31); /* -0 is less than +0 */
    return less == is_min ? a : b;
}

static void
reduce_loaded(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Move *move = insn->data;
    uint32_t out[SIM_LANES], drop = move->absolute ? 0x80000000u : 0;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        out[l] = sim_r32(warp, insn->slot[move->first])[l] & ~drop;
        for (uint32_t i = 1; i < move->registers; i++)
            out[l] = choose(move, out[l], sim_r32(warp, insn->slot[move->first + i])[l] & ~drop);
    }
    sim_put32(warp, insn->slot[move->first + move->registers], out, mask);
}

static SimStep
tcgen05_ld(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Move *move = insn->data;
    TensorMemory *tm = tensor_memory(warp->cta);
    TensorWarp *tw = tensor_warp(warp);
    uint32_t address, zero[SIM_LANES] = {0}, value[SIM_LANES];
    if (!tm || !tw)
        return sim_fail(warp, "out of memory");
    if (!check_address(warp, insn, mask, &address)) {
        for (uint32_t i = 0; i < loaded_registers(move); i++)
            sim_put32(warp, insn->slot[move->first + i], zero, mask);
        return SIM_NEXT;
    }
    if (warp->run->checks) {
        SimOp *op = tensor_op_new(warp, 0, TENSOR_LD, 0, 0);
        if (!op || !tensor_list_add(&tw->loads, op))
            return sim_fail(warp, "out of memory");
        op->fetched = op->landed = true;
        note(warp, op, move, address, false);
        if (!watch_load(warp, op, insn->slot + move->first, loaded_registers(move)))
            return sim_fail(warp, "out of memory");
    }
    uint32_t lane = address >> 16, base = address & 0xffff;
    for (uint32_t i = 0; i < move->registers; i++) {
        for (uint32_t l = 0; l < SIM_LANES; l++) {
            uint32_t row, column;
            place_of(move, l, i, &row, &column);
            const uint32_t *from = &tm->data[lane + row][base + column];
            value[l] = move->packed ? (from[0] & 0xffff) | from[1] << 16 : from[0];
        }
        sim_put32(warp, insn->slot[move->first + i], value, mask);
    }
    if (move->reduction != REDUCE_NONE)
        reduce_loaded(warp, insn, mask);
    return SIM_NEXT;
}

/* ------------------------------------------------------------------------ st */

typedef struct Store {
    uint32_t address;
    uint32_t value[]; /* by register, then lane */
} Store;

static void
store_land(SimCluster *cluster, SimOp *op)
{
    const Store *store = op->payload;
    const Move *move = op->insn->data;
    TensorMemory *tm = tensor_memory(op->cta);
    uint32_t lane = store->address >> 16, base = store->address & 0xffff;
    (void)cluster;
    for (uint32_t i = 0; i < move->registers; i++)
        for (uint32_t l = 0; l < SIM_LANES; l++) {
            uint32_t row, column, value = store->value[i * SIM_LANES + l];
            place_of(move, l, i, &row, &column);
            uint32_t *to = &tm->data[lane + row][base + column];
            to[0] = move->packed ? value & 0xffff : value;
            if (move->packed)
                to[1] = value >> 16;
        }
}

static SimStep
tcgen05_st(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Move *move = insn->data;
    TensorMemory *tm = tensor_memory(warp->cta);
    TensorWarp *tw = tensor_warp(warp);
    uint32_t address;
    if (!tm || !tw)
        return sim_fail(warp, "out of memory");
    if (!check_address(warp, insn, mask, &address))
        return SIM_NEXT;
    size_t bytes = sizeof(Store) + move->registers * SIM_LANES * sizeof(uint32_t);
    SimOp *op = tensor_op_new(warp, bytes, TENSOR_ST, 0, 0);
    if (!op || !tensor_list_add(&tw->stores, op))
        return sim_fail(warp, "out of memory");
    Store *store = op->payload;
    store->address = address;
    for (uint32_t i = 0; i < move->registers; i++)
        memcpy(&store->value[i * SIM_LANES], sim_r32(warp, insn->slot[move->first + i]),
               SIM_LANES * sizeof(uint32_t));
    op->land = store_land;
    note(warp, op, move, address, true);
    sim_op_start(warp->cta->cluster, op, true);
    return SIM_NEXT;
}

/* .min or .max, {.abs}{.NaN}.f32, .u32 or .s32. */
static bool
take_reduction(SimDecode *dx, Move *move, int shape, int count)
{
    static const char *const ops[] = {"min", "max", NULL};
    move->reduction = (Reduction)(dec_choice(dx, ops) + 1);
    move->absolute = dec_take(dx, "abs");
    move->keep_nan = dec_take(dx, "NaN");
    move->type = dec_type(dx);
    bool real = move->type == SIM_F32;
    if (move->reduction == REDUCE_NONE ||
        (!real &&
         (move->absolute || move->keep_nan || (move->type != SIM_U32 && move->type != SIM_S32))))
        return dec_fail(dx, "needs .min or .max, and {.abs}{.NaN}.f32, .u32 or .s32");
    if (shape == SHAPE_16X32BX2)
        return dec_fail(dx, ".16x32bx2 is not supported: the PTX ISA does not say whether its two "
                            "halves are reduced together");
    return (shape == SHAPE_32X32B && count > 0) || dec_fail(dx, "needs .32x32b and .x2 or more");
}

static bool
decode_move(SimDecode *dx, bool is_load, bool reduces)
{
    static const char *const shapes[] = {"32x32b",  "16x64b",   "16x128b",
                                         "16x256b", "16x32bx2", NULL};
    static const char *const counts[] = {"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128", NULL};
    static const uint32_t factor[] = {1, 1, 2, 4, 1}, width[] = {1, 2, 4, 8, 1};
    Move *move = sim_arena_alloc(&dx->mod->arena, sizeof *move);
    dec_aligned(dx);
    dx->out->whole_warp = true;
    int shape = dec_choice(dx, shapes), count = dec_choice(dx, counts);
    move->packed = dec_take(dx, is_load ? "pack::16b" : "unpack::16b");
    if (reduces && !take_reduction(dx, move, shape, count))
        return false;
    if (!dx->out->converge || shape < 0 || count < 0 || (!reduces && !dec_take(dx, "b32")))
        return dec_fail(dx, "needs .sync.aligned, a shape, .x1 to .x128 and .b32");
    move->shape = (Shape)shape;
    move->registers = (1u << count) * factor[shape];
    move->columns = (1u << count) * width[shape];
    if (move->registers > 128) /* tables 49 and 50 */
        return dec_fail(dx, "this shape has no .%s", counts[count]);
    size_t operands = shape == SHAPE_16X32BX2 || reduces ? 3 : 2;
    if (!dec_count(dx, operands, operands))
        return false;
    size_t at_address = is_load ? 1u + reduces : 0, at_split = is_load ? 2 : 1;
    size_t at_registers = is_load ? 0 : operands - 1;
    if (shape == SHAPE_16X32BX2) {
        int64_t split;
        if (!dec_immediate(dx, dec_operand(dx, at_split), &split))
            return false;
        if (split < 0 || split >= TENSOR_COLUMNS)
            return dec_fail(dx, "the offset of the second half is out of range");
        move->split = (uint32_t)split;
    }
    if (!tensor_decode_address(dx, dec_operand(dx, at_address), &move->address))
        return false;
    move->first = dx->out->slot_count;
    dx->out->data = move;
    dx->out->exec = is_load ? tcgen05_ld : tcgen05_st;
    const PtxOperand *registers = dec_operand(dx, at_registers);
    if (!is_load)
        return dec_src_vector(dx, registers, SIM_B32, move->registers);
    return dec_dst_vector(dx, registers, SIM_B32, move->registers) &&
           (!reduces || dec_dst(dx, dec_operand(dx, 1), move->type));
}

bool
sim_decode_tcgen05_ld(SimDecode *dx)
{
    return decode_move(dx, true, false);
}
bool
sim_decode_tcgen05_ld_red(SimDecode *dx)
{
    return decode_move(dx, true, true);
}
bool
sim_decode_tcgen05_st(SimDecode *dx)
{
    return decode_move(dx, false, false);
}

/* ------------------------------------------------------------------------ wait */

static void
wait_for(SimWarp *warp, TensorList *list)
{
    for (size_t i = 0; i < list->count; i++) {
        sim_op_finish(warp->cta->cluster, list->op[i]);
        sim_op_observe(warp, list->op[i]);
    }
    list->count = 0;
}

static SimStep
wait_ld(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    TensorWarp *tw = tensor_warp(warp);
    (void)insn;
    (void)mask;
    if (!tw)
        return sim_fail(warp, "out of memory");
    for (size_t i = 0; warp->unread_loads && i < tw->loads.count; i++)
        forget_load(warp, tw->loads.op[i]);
    warp->unread_loads = 0;
    wait_for(warp, &tw->loads);
    return SIM_NEXT;
}

static SimStep
wait_st(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    TensorWarp *tw = tensor_warp(warp);
    (void)insn;
    (void)mask;
    if (!tw)
        return sim_fail(warp, "out of memory");
    wait_for(warp, &tw->stores);
    return SIM_NEXT;
}

static bool
decode_wait(SimDecode *dx, SimExec exec)
{
    dec_aligned(dx);
    dx->out->whole_warp = true;
    if (!dx->out->converge)
        return dec_fail(dx, "needs .sync.aligned");
    dx->out->exec = exec;
    return dec_count(dx, 0, 0);
}

bool
sim_decode_tcgen05_wait_ld(SimDecode *dx)
{
    return decode_wait(dx, wait_ld);
}
bool
sim_decode_tcgen05_wait_st(SimDecode *dx)
{
    return decode_wait(dx, wait_st);
}
