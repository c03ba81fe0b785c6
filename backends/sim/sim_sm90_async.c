/* sim_sm90_async.c - st.async and red.async (PTX ISA 9.7.9.12, 9.7.13.7). */
#include "sim_exec.h"
#include "sim_memory.h"
#include "sim_sm90_bulk.h"
#include "sim_trace.h"

/* 9.7.9.12, 9.7.13.7: up to 16 bytes to another block of the cluster.  data: the form; count
 * elements of mode[4] bytes; slots: address, values, mbarrier. */
typedef struct AsyncStore {
    Sm90Address to, mbarrier;
    SimSlot value[4];
    Sm90Reduce reduce;
    SimType type;
} AsyncStore;

typedef struct AsyncStoreOp {
    const AsyncStore *form;
    SimRun *run;
    SimMemory to, bar;
    uint32_t bytes;
    uint8_t data[16];
} AsyncStoreOp;

static void
land_async_store(SimCluster *cluster, SimOp *op)
{
    AsyncStoreOp *s = op->payload;
    if (s->form->reduce != SM90_COPY)
        sim_sm90_reduce(s->run, NULL, s->to.data, s->data, s->bytes, 0, s->form->reduce,
                        s->form->type);
    else
        memcpy(s->to.data, s->data, s->bytes);
    sim_mbarrier_complete_tx_op(cluster, op, s->bar.cta, s->bar.offset, s->bytes);
}

static SimStep
async_store(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const AsyncStore *form = insn->data;
    uint32_t element = insn->mode[4], bytes = element * insn->count;
    sim_each_lane (l, mask) {
        SimMemory to, bar;
        if (!sim_memory_find(warp, l, SIM_SHARED_CLUSTER, sim_sm90_address(warp, &form->to, l),
                             bytes, bytes, &to) ||
            !sim_sm90_barrier_for_op(warp, l, SIM_SHARED_CLUSTER,
                                     sim_sm90_address(warp, &form->mbarrier, l), &bar))
            continue;
        if (to.cta != bar.cta) {
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, to.generic, NULL,
                     "the destination and its mbarrier lie in different blocks");
            continue;
        }
        SimOp *op = sim_op_new(warp, sizeof(AsyncStoreOp));
        if (!op)
            return sim_fail(warp, "out of memory");
        AsyncStoreOp *s = op->payload;
        *s = (AsyncStoreOp){.form = form, .run = warp->run, .to = to, .bar = bar, .bytes = bytes};
        for (uint32_t i = 0; i < insn->count && (i + 1) * element <= sizeof s->data; i++) {
            if (element == 8)
                memcpy(s->data + 8 * i, &sim_r64(warp, form->value[i])[l], 8);
            else
                memcpy(s->data + 4 * i, &sim_r32(warp, form->value[i])[l], 4);
        }
        op->land = land_async_store;
        op->atomic = form->reduce != SM90_COPY;
        sim_shadow_async_write(warp, op, to.cta, to.offset, bytes, false);
        sim_trace_started(warp, op, bytes);
        sim_op_start(warp->cta->cluster, op, true);
    }
    warp->cta->cluster->progress++;
    return SIM_YIELD;
}

/* .release, to global memory and without an mbarrier: taken for the store or reduction that is not
 * asynchronous, which is one that completes at once. */
static bool
is_release(SimDecode *dx)
{
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++)
        if (strcmp(dx->src->part[i], "release") == 0) {
            dec_take(dx, "mmio");
            return true;
        }
    return false;
}

static bool
decode_async_store(SimDecode *dx, bool reduce)
{
    static const char *const vectors[] = {"v2", "v4", NULL};
    static const char *const ops[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", NULL};
    AsyncStore *form = sim_arena_alloc(&dx->mod->arena, sizeof *form);
    SimInsn *out = dx->out;
    if (is_release(dx))
        return reduce ? sim_decode_red(dx) : sim_decode_st(dx);
    dec_take(dx, "weak");
    dec_take(dx, "relaxed");
    dec_take(dx, "cluster");
    dec_take(dx, "shared::cluster");
    if (!dec_take(dx, "mbarrier::complete_tx::bytes"))
        return dec_fail(dx, "needs .mbarrier::complete_tx::bytes");
    out->count = (uint8_t)(1u << (dec_choice(dx, vectors) + 1));
    if (reduce) {
        int op = dec_choice(dx, ops);
        if (op < 0)
            return dec_fail(dx, "needs a reduction");
        form->reduce = (Sm90Reduce)(op + 1);
    }
    SimType type = dec_type(dx);
    uint32_t bits = sim_type_info(type)->bits;
    if ((bits != 32 && bits != 64) || bits * out->count > 128 || !dec_count(dx, 3, 3))
        return dec_fail(dx, "needs a type of 32 or 64 bits, an address, a value and an mbarrier");
    form->type = type == SIM_B32 ? SIM_U32 : type == SIM_B64 ? SIM_U64 : type;
    out->mode[4] = (uint8_t)(bits / 8);
    if (!sim_sm90_take_address(dx, dec_operand(dx, 0), &form->to) ||
        !dec_src_vector(dx, dec_operand(dx, 1), type, out->count))
        return false;
    for (uint32_t i = 0; i < out->count; i++)
        form->value[i] = out->slot[out->slot_count - out->count + i];
    if (!sim_sm90_take_address(dx, dec_operand(dx, 2), &form->mbarrier))
        return false;
    out->data = form;
    out->exec = async_store;
    return true;
}
bool
sim_sm90_decode_st_async(SimDecode *dx)
{
    return decode_async_store(dx, false);
}
bool
sim_sm90_decode_red_async(SimDecode *dx)
{
    return decode_async_store(dx, true);
}
