/* sim_atomic.c - atom and red (PTX ISA 9.7.13.5, 9.7.13.6). */
#include <stdlib.h>

#include "sim_exec.h"
#include "sim_memory.h"
#include "sim_sync.h"
#include "sim_trace.h"

/* clang-format off */
typedef enum AtomicOp {
    ATOM_AND, ATOM_OR, ATOM_XOR, ATOM_CAS, ATOM_EXCH, ATOM_ADD, ATOM_INC, ATOM_DEC, ATOM_MIN,
    ATOM_MAX
} AtomicOp;
/* clang-format on */
static const char *const op_words[] = {"and", "or",  "xor", "cas", "exch", "add",
                                       "inc", "dec", "min", "max", NULL};

/* mode[0] AtomicOp, [1] has a result, [2] SimOrder, [4] bytes of an element;
 * count elements.  Slots: results (atom), address, b, then c of cas, then an ignored policy. */

static float
add_f32(float a, float b, bool flush)
{
    uint32_t x = sim_f32_bits(a), y = sim_f32_bits(b);
    if (!flush)
        return a + b;
    return sim_f32(sim_flush(sim_f32_bits(sim_f32(sim_flush(x)) + sim_f32(sim_flush(y)))));
}

static uint32_t
operate_half(AtomicOp op, uint32_t a, uint32_t b, bool is_bf16)
{
    float x = is_bf16 ? sim_bf16(a) : sim_f16(a), y = is_bf16 ? sim_bf16(b) : sim_f16(b);
    if (op != ATOM_ADD && isnan(x))
        return b;
    if (op != ATOM_ADD && isnan(y))
        return a;
    float r = op == ATOM_ADD ? x + y : (x < y) == (op == ATOM_MIN) ? x : y;
    return is_bf16 ? sim_to_bf16(r) : sim_to_f16(r);
}

static uint64_t
operate(const SimInsn *insn, uint64_t old, uint64_t b, uint64_t c, bool is_global)
{
    AtomicOp op = (AtomicOp)insn->mode[0];
    SimType type = (SimType)insn->type;
    switch (op) {
    case ATOM_AND: return old & b;
    case ATOM_OR: return old | b;
    case ATOM_XOR: return old ^ b;
    case ATOM_CAS: return old == b ? c : old;
    case ATOM_EXCH: return b;
    case ATOM_INC: return (uint32_t)old >= (uint32_t)b ? 0 : old + 1;
    case ATOM_DEC: return old == 0 || (uint32_t)old > (uint32_t)b ? b : old - 1;
    default: break;
    }
    switch (type) {
    case SIM_F32: /* global additions flush subnormals, shared ones do not (9.7.13.5) */
        return sim_f32_bits(add_f32(sim_f32((uint32_t)old), sim_f32((uint32_t)b), is_global));
    case SIM_F64: return sim_f64_bits(sim_f64(old) + sim_f64(b));
    case SIM_F16:
    case SIM_BF16:
        return operate_half(op, (uint32_t)old & 0xffff, (uint32_t)b & 0xffff, type == SIM_BF16);
    case SIM_F16X2:
    case SIM_BF16X2:
        return operate_half(op, (uint32_t)old & 0xffff, (uint32_t)b & 0xffff, type == SIM_BF16X2) |
               operate_half(op, (uint32_t)(old >> 16) & 0xffff, (uint32_t)(b >> 16) & 0xffff,
                            type == SIM_BF16X2)
                   << 16;
    default: break;
    }
    if (op == ATOM_ADD)
        return old + b;
    bool less = type == SIM_S32   ? (int32_t)old < (int32_t)b
                : type == SIM_S64 ? (int64_t)old < (int64_t)b
                : type == SIM_U32 ? (uint32_t)old < (uint32_t)b
                                  : old < b;
    return less == (op == ATOM_MIN) ? old : b;
}

static uint64_t
read_slot(const SimWarp *warp, SimSlot slot, uint32_t lane, bool wide)
{
    return wide ? sim_r64(warp, slot)[lane] : sim_r32(warp, slot)[lane];
}

/* The whole step is under the lock: the acquire, the access, and the release after it. */
static pthread_mutex_t *
begin_atomic(SimWarp *warp, const SimInsn *insn, uint32_t lane, const SimMemory *m)
{
    uint32_t size = insn->mode[4] * insn->count;
    pthread_mutex_t *lock = sim_memory_lock(warp, m);
    if (lock)
        pthread_mutex_lock(lock);
    if (warp->run->checks)
        sim_sync_read(warp, m->generic, m->space == SIM_GLOBAL, insn->mode[2]);
    sim_memory_note_read(warp, m, size, lane, SIM_STRONG);
    sim_memory_note_write(warp, m, size, lane, SIM_STRONG);
    return lock;
}

static void
end_atomic(SimWarp *warp, const SimInsn *insn, const SimMemory *m, pthread_mutex_t *lock)
{
    if (warp->run->checks)
        sim_sync_write(warp, m->generic, m->space == SIM_GLOBAL, insn->mode[2], true);
    if (lock)
        pthread_mutex_unlock(lock);
}

/* A number from a counter: an addition to memory that gives what was there. */
static bool
draws(const SimInsn *insn, const SimMemory *m)
{
    return insn->mode[0] == ATOM_ADD && insn->mode[1] && insn->count == 1 &&
           m->space == SIM_GLOBAL &&
           (insn->type == SIM_U32 || insn->type == SIM_S32 || insn->type == SIM_U64);
}

/* A launch of which one SM's clusters run: the others would draw from a counter as often.  What is
 * added to memory for its sum (red) stays. */
static uint64_t
step_of(const SimWarp *warp, const SimInsn *insn, const SimMemory *m, uint64_t b)
{
    const SimLaunch *launch = warp->run->launch;

    return launch->trace_only && draws(insn, m) ? b * launch->trace_every : b;
}

/* What it gives: what was there, or what was dealt out. */
static uint64_t
drawn(SimWarp *warp, const SimMemory *m, uint64_t before, uint64_t step)
{
    const SimLaunch *launch = warp->run->launch;
    const SimDealt *dealt = warp->cta->cluster->dealt;

    if (!warp->cta->cluster->tracer)
        return before;
    if (!dealt || launch->counter != m->generic) {
        sim_trace_drew(warp, m->generic, before, step);
        return before;
    }
    size_t index = sim_trace_drawn(warp->cta->cluster);
    uint64_t value = index < dealt->drawn_count ? dealt->drawn[index] : launch->drawn_last;
    sim_trace_drew(warp, m->generic, value, step);
    return value;
}

static void
atomic_lane(SimWarp *warp, const SimInsn *insn, uint32_t lane, const SimMemory *m)
{
    uint32_t bytes = insn->mode[4], results = insn->mode[1] ? insn->count : 0;
    bool wide = bytes == 8;
    pthread_mutex_t *lock = begin_atomic(warp, insn, lane, m);
    uint64_t old[8];
    for (uint32_t i = 0; i < insn->count; i++) {
        uint32_t b = results + 1 + i, c = results + 1 + insn->count + i;
        uint64_t value, before = 0;
        memcpy(&before, m->data + i * bytes, bytes);
        uint64_t step = read_slot(warp, insn->slot[b], lane, wide);
        value = operate(insn, before, step_of(warp, insn, m, step),
                        insn->mode[0] == ATOM_CAS ? read_slot(warp, insn->slot[c], lane, wide) : 0,
                        m->space == SIM_GLOBAL);
        memcpy(m->data + i * bytes, &value, bytes);
        old[i] = draws(insn, m) ? drawn(warp, m, before, step) : before;
    }
    end_atomic(warp, insn, m, lock);
    for (uint32_t i = 0; i < results; i++) {
        if (insn->slot[i] == SIM_NO_SLOT)
            continue;
        if (wide)
            sim_r64(warp, insn->slot[i])[lane] = old[i];
        else
            sim_r32(warp, insn->slot[i])[lane] = (uint32_t)old[i];
    }
}

/* cas and exch of 128 bits. */
static void
atomic_128(SimWarp *warp, const SimInsn *insn, uint32_t lane, const SimMemory *m)
{
    pthread_mutex_t *lock = begin_atomic(warp, insn, lane, m);
    uint64_t old[2], b[2], c[2] = {0, 0};
    for (uint32_t h = 0; h < 2; h++) {
        b[h] = sim_r64(warp, insn->slot[2] + 256 * h)[lane];
        if (insn->mode[0] == ATOM_CAS)
            c[h] = sim_r64(warp, insn->slot[3] + 256 * h)[lane];
    }
    memcpy(old, m->data, 16);
    if (insn->mode[0] == ATOM_EXCH)
        memcpy(m->data, b, 16);
    else if (memcmp(old, b, 16) == 0)
        memcpy(m->data, c, 16);
    end_atomic(warp, insn, m, lock);
    for (uint32_t h = 0; h < 2 && insn->slot[0] != SIM_NO_SLOT; h++)
        sim_r64(warp, insn->slot[0] + 256 * h)[lane] = old[h];
}

static SimStep
atomic(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t results = insn->mode[1] ? insn->count : 0, bytes = insn->mode[4];
    uint32_t size = bytes * insn->count;
    sim_each_lane (l, mask) {
        SimMemory m;
        uint64_t address = sim_lane_address(warp, insn, results, l);
        if (!sim_memory_find(warp, l, (SimSpace)insn->space, address, size, size, &m))
            continue;
        if (m.in && m.in->read_only) {
            sim_memory_note_write(warp, &m, size, l, SIM_STRONG);
            continue;
        }
        if (bytes == 16)
            atomic_128(warp, insn, l, &m);
        else
            atomic_lane(warp, insn, l, &m);
    }
    warp->cta->cluster->progress++;
    return SIM_YIELD;
}

static bool
type_allowed(AtomicOp op, SimType type)
{
    uint32_t bits = sim_type_info(type)->bits;
    char kind = sim_type_info(type)->kind;
    switch (op) {
    case ATOM_AND:
    case ATOM_OR:
    case ATOM_XOR: return kind == 'b' && (bits == 32 || bits == 64);
    case ATOM_CAS: return kind == 'b' && bits >= 16;
    case ATOM_EXCH: return kind == 'b' && bits >= 32;
    case ATOM_INC:
    case ATOM_DEC: return type == SIM_U32;
    case ATOM_ADD:
        return type == SIM_U32 || type == SIM_S32 || type == SIM_U64 || type == SIM_F32 ||
               type == SIM_F64 || type == SIM_F16 || type == SIM_BF16 || type == SIM_F16X2 ||
               type == SIM_BF16X2;
    default:
        return type == SIM_U32 || type == SIM_S32 || type == SIM_U64 || type == SIM_S64 ||
               type == SIM_F16 || type == SIM_BF16 || type == SIM_F16X2 || type == SIM_BF16X2;
    }
}

/* "Half precision" in 9.7.13.5 and 9.7.13.6: such types want .noftz, and .bf16 and vectors want
 * sm_90. */
static bool
words_fit(SimDecode *dx, SimType type, bool vector, bool noftz)
{
    bool bf16 = type == SIM_BF16 || type == SIM_BF16X2;
    bool narrow = bf16 || type == SIM_F16 || type == SIM_F16X2;
    uint32_t capability = dx->mod->facts.capability;

    if (narrow != noftz)
        return dec_fail(dx, "'.noftz' stands with f16 and bf16, and only there");
    if ((bf16 || vector) && capability > 0 && capability < 90)
        return dec_fail(dx, "%s needs sm_90", bf16 ? "an atomic of bf16" : "a vector of atomics");
    return true;
}

static bool
decode_atomic(SimDecode *dx, bool has_result)
{
    static const char *const vectors[] = {"v2", "v4", "v8", NULL};
    SimInsn *out = dx->out;
    bool policy;
    out->space = (uint8_t)dec_space(dx);
    out->mode[2] = (uint8_t)(sim_take_order(dx) | SIM_ORDER_STRONG);
    sim_take_hints(dx, &policy);
    int op = dec_choice(dx, op_words);
    bool noftz = dec_take(dx, "noftz");
    int vector = dec_choice(dx, vectors);
    SimType type = dec_type(dx);
    uint32_t bits = sim_type_info(type)->bits;
    if (op < 0 || !type_allowed((AtomicOp)op, type))
        return dec_fail(dx, "this operation does not exist for '.%s'", sim_type_info(type)->name);
    if (!words_fit(dx, type, vector >= 0, noftz))
        return false;
    out->count = (uint8_t)(1u << (vector + 1));
    if (vector >= 0 && (out->space == SIM_SHARED || out->space == SIM_SHARED_CLUSTER))
        return dec_fail(dx, "vectors are for global memory only");
    out->type = (uint8_t)type;
    out->mode[0] = (uint8_t)op;
    out->mode[1] = has_result;
    out->mode[4] = (uint8_t)(bits / 8);
    out->exec = atomic;
    dx->frame_relative_ok = true;
    size_t at = has_result ? 1 : 0, n = at + (op == ATOM_CAS ? 3 : 2) + policy;
    if (!dec_count(dx, n, n))
        return false;
    if (has_result && !dec_dst_vector(dx, dec_operand(dx, 0), type, out->count))
        return false;
    if (!dec_address(dx, dec_operand(dx, at)) ||
        !dec_src_vector(dx, dec_operand(dx, at + 1), type, out->count))
        return false;
    return op != ATOM_CAS || dec_src_vector(dx, dec_operand(dx, at + 2), type, out->count);
}
static bool
decode_atom(SimDecode *dx)
{
    return decode_atomic(dx, true);
}
bool
sim_decode_red(SimDecode *dx)
{
    return decode_atomic(dx, false);
}

const SimFamily sim_atomic_families[] = {
    {"atom", decode_atom},
    {"red", sim_decode_red},
    {"multimem.red", sim_decode_red}, /* of a multicast object of one device: its memory */
    {NULL, NULL},
};
