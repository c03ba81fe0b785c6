/* sim_stack.c - alloca, stacksave, stackrestore (PTX ISA 7.3, 9.7.17).
 *
 * Each lane has its own top of the frame.  It grows upwards here, so that what stacksave gives is
 * the address of the next allocation, not of the last; all else that a program may do with it is
 * the same.
 */
#include "sim_exec.h"
#include "sim_warp.h"

enum { POISON = 0xa5, LEAST_ALIGN = 16 }; /* as a frame's */

/* mode[0]: the type has 64 bits; imm the alignment.  Slots: pointer, size. */
static SimStep
allocate(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimFrame *frame = warp->running->frame;
    uint64_t align = (uint64_t)insn->imm, out[SIM_LANES];
    uint32_t low[SIM_LANES];
    sim_each_lane (l, mask) {
        uint64_t size = insn->mode[0] ? sim_r64(warp, insn->slot[1])[l]
                                      : sim_r32(warp, insn->slot[1])[l];
        /* never address 0, which programs take for none */
        uint64_t from = frame->top[l] ? frame->top[l] : LEAST_ALIGN;
        from = (from + align - 1) & ~(align - 1);
        uint64_t end = size > UINT32_MAX ? UINT64_MAX : (from + size + 15) & ~UINT64_C(15);
        if (!sim_warp_reserve(warp, end))
            return SIM_FATAL;
        memset(warp->local + (size_t)l * warp->local_size + from, POISON, (size_t)size);
        frame->top[l] = (uint32_t)end;
        out[l] = low[l] = (uint32_t)from;
    }
    if (insn->mode[0])
        sim_put64(warp, insn->slot[0], out, mask);
    else
        sim_put32(warp, insn->slot[0], low, mask);
    return SIM_NEXT;
}

static SimStep
save(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const SimFrame *frame = warp->running->frame;
    uint64_t out[SIM_LANES];
    for (uint32_t l = 0; l < SIM_LANES; l++)
        out[l] = frame->top[l];
    if (insn->mode[0])
        sim_put64(warp, insn->slot[0], out, mask);
    else
        sim_put32(warp, insn->slot[0], frame->top, mask);
    return SIM_NEXT;
}

static SimStep
restore(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimFrame *frame = warp->running->frame;
    uint32_t least = frame->local_base + frame->function->local_bytes;
    sim_each_lane (l, mask) {
        uint64_t to = insn->mode[0] ? sim_r64(warp, insn->slot[0])[l]
                                    : sim_r32(warp, insn->slot[0])[l];
        if (to < least || to > frame->top[l] || to % LEAST_ALIGN)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, to, NULL,
                     "stackrestore of what stacksave did not give in this function, or of a place "
                     "that was freed");
        else
            frame->top[l] = (uint32_t)to;
    }
    return SIM_NEXT;
}

static bool
take_type(SimDecode *dx, SimType *type)
{
    *type = dec_type(dx);
    dx->out->mode[0] = *type == SIM_U64;
    return *type == SIM_U32 || *type == SIM_U64 || dec_fail(dx, "needs .u32 or .u64");
}

static bool
decode_alloca(SimDecode *dx)
{
    SimType type;
    int64_t align = 8;
    if (!take_type(dx, &type) || !dec_count(dx, 2, 3) || !dec_dst(dx, dec_operand(dx, 0), type) ||
        !dec_src(dx, dec_operand(dx, 1), type) ||
        (dx->operand_count == 3 && !dec_immediate(dx, dec_operand(dx, 2), &align)))
        return false;
    if (align < 1 || align > 1 << 23 || (align & (align - 1)))
        return dec_fail(dx, "the alignment is a power of 2 of at most 2^23");
    dx->out->imm = align < LEAST_ALIGN ? LEAST_ALIGN : align;
    dx->out->exec = allocate;
    return true;
}

static bool
decode_save(SimDecode *dx)
{
    SimType type;
    dx->out->exec = save;
    return take_type(dx, &type) && dec_count(dx, 1, 1) && dec_dst(dx, dec_operand(dx, 0), type);
}

static bool
decode_restore(SimDecode *dx)
{
    SimType type;
    dx->out->exec = restore;
    return take_type(dx, &type) && dec_count(dx, 1, 1) && dec_src(dx, dec_operand(dx, 0), type);
}

const SimFamily sim_stack_families[] = {
    {"alloca", decode_alloca},
    {"stacksave", decode_save},
    {"stackrestore", decode_restore},
    {NULL, NULL},
};
