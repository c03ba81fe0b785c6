/* sim_sm90_global.c - the global side of bulk and tensor copies: what is noted of it, reductions
 * (PTX ISA 9.7.9.25.4, 9.7.9.25.5). */
#include "sim_sm90_bulk.h"

#include "sim_exec.h"
#include "sim_trace.h"

static uint64_t
reduce_half(uint64_t a, uint64_t b, Sm90Reduce op, bool is_bf16)
{
    float x = is_bf16 ? sim_bf16((uint32_t)a) : sim_f16((uint32_t)a);
    float y = is_bf16 ? sim_bf16((uint32_t)b) : sim_f16((uint32_t)b);
    if (op != SM90_ADD && (isnan(x) || isnan(y)))
        return isnan(x) ? b : a;
    float r = op == SM90_ADD ? x + y : (x < y) == (op == SM90_MIN) ? x : y;
    return is_bf16 ? sim_to_bf16(r) : sim_to_f16(r);
}

static uint64_t
combine(uint64_t a, uint64_t b, Sm90Reduce op, SimType type)
{
    switch (op) {
    case SM90_AND: return a & b;
    case SM90_OR: return a | b;
    case SM90_XOR: return a ^ b;
    case SM90_INC: return (uint32_t)a >= (uint32_t)b ? 0 : a + 1;
    case SM90_DEC: return a == 0 || (uint32_t)a > (uint32_t)b ? b : a - 1;
    case SM90_COPY: return b;
    default: break;
    }
    bool less;
    switch (type) {
    case SIM_F32: { /* 9.7.9.25.4.2: .f32 add flushes subnormals */
        float r = sim_f32(sim_flush((uint32_t)a)) + sim_f32(sim_flush((uint32_t)b));
        return sim_flush(sim_f32_bits(r));
    }
    case SIM_F64: return sim_f64_bits(sim_f64(a) + sim_f64(b));
    case SIM_F16: return reduce_half(a, b, op, false);
    case SIM_BF16: return reduce_half(a, b, op, true);
    case SIM_S32: less = (int32_t)a < (int32_t)b; break;
    case SIM_S64: less = (int64_t)a < (int64_t)b; break;
    case SIM_U32: less = (uint32_t)a < (uint32_t)b; break;
    default: less = a < b; break;
    }
    if (op == SM90_ADD)
        return a + b;
    return less == (op == SM90_MIN) ? a : b;
}

void
sim_sm90_reduce(SimRun *run, const SimAllocation *global, uint8_t *at, const uint8_t *operand,
                uint32_t bytes, uint64_t address, Sm90Reduce op, SimType type)
{
    uint32_t size = sim_type_info(type)->bits / 8;
    for (uint32_t i = 0; i + size <= bytes; i += size) {
        uint64_t a = 0, b = 0;
        pthread_mutex_t *lock =
            global ? &run->device->atomic_lock[((address + i) >> 4) % SIM_ATOMIC_LOCKS] : NULL;
        memcpy(&b, operand + i, size);
        if (lock)
            pthread_mutex_lock(lock);
        memcpy(&a, at + i, size);
        a = combine(a, b, op, type);
        memcpy(at + i, &a, size);
        if (lock)
            pthread_mutex_unlock(lock);
    }
}

bool
sim_sm90_note_global(SimWarp *warp, uint32_t lane, const Sm90BulkForm *form, SimOp *writer,
                     const SimMemory *m, uint32_t bytes)
{
    SimAccess access = form->reduce != SM90_COPY ? SIM_STRONG : SIM_WEAK;
    if (form->direction == SM90_LOAD || form->reduce != SM90_COPY)
        sim_memory_note_read(warp, m, bytes, lane, access);
    if (form->direction != SM90_STORE)
        return true;
    if (!m->in || m->in->read_only) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, m->generic, NULL,
                 "a bulk copy to memory that is read-only");
        return false;
    }
    sim_trace_touch(warp, m->in, m->data, bytes, true);
    sim_global_async_write(warp, writer, m->in, m->data, bytes, access);
    return true;
}
