/* sim_sm90_cluster.c - barrier.cluster (PTX ISA 9.7.13.3), mapa and getctarank (9.7.9.23, .24),
 * setmaxnreg (9.7.19.5), griddepcontrol (9.7.13.13), stmatrix (9.7.14.5.16). */
#include <stdlib.h>

#include "sim_exec.h"
#include "sim_sm90.h"
#include "sim_sync.h"
#include "sim_trace.h"

/* ------------------------------------------------------------------------ barrier.cluster */

/* Complete when every thread of the cluster that has not exited has arrived. */
static void
complete_if_full(SimCluster *cluster, Sm90Cluster *s)
{
    bool any = false;
    for (uint32_t c = 0; c < cluster->cta_count; c++)
        for (uint32_t w = 0; w < cluster->ctas[c].warp_count; w++) {
            const SimWarp *warp = &cluster->ctas[c].warps[w];
            any |= s->arrived[warp->agent] != 0;
            if (warp->live & ~s->arrived[warp->agent])
                return;
        }
    if (!any)
        return;
    s->generation++;
    memset(s->arrived, 0, cluster->agents * sizeof *s->arrived);
    memcpy(s->done_clock, s->clock, SIM_PLANES * (size_t)cluster->agents * sizeof *s->clock);
    cluster->progress++;
}

static SimStep
cluster_arrive(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimCluster *cluster = warp->cta->cluster;
    Sm90Cluster *s = sim_sm90_cluster(cluster);
    Sm90Warp *state = sim_sm90_warp(warp);
    if (!s || !state)
        return sim_fail(warp, "out of memory");
    if (state->cluster_arrived & mask)
        sim_find(warp, SIM_FIND_BARRIER, (int32_t)sim_first_lane(state->cluster_arrived & mask), 0,
                 NULL, "a thread arrives at the cluster barrier twice without waiting between");
    s->arrived[warp->agent] |= mask;
    state->cluster_arrived |= mask;
    state->cluster_generation = s->generation;
    sim_trace_arrive(warp, (SimPhaseName){SIM_PHASE_CLUSTER, 0, 0, s->generation});
    sim_sync_lanes_release(warp, mask);
    if (!insn->mode[0])
        sim_clock_release(warp, s->clock);
    else
        sim_clock_release_relaxed(warp, s->clock, true, sim_tensor_fenced(warp));
    cluster->progress++;
    complete_if_full(cluster, s);
    return SIM_YIELD;
}

static bool
cluster_ready(SimWarp *warp, SimGroup *group)
{
    SimCluster *cluster = warp->cta->cluster;
    Sm90Cluster *s = sim_sm90_cluster(cluster);
    if (!s)
        return false;
    complete_if_full(cluster, s); /* threads may have exited */
    if (s->generation == (uint32_t)group->wait.arg[0])
        return false;
    sim_clock_acquire(warp, s->done_clock);
    return true;
}

static void
describe_cluster(const SimWarp *warp, const SimGroup *group, char *text, size_t size)
{
    const SimCluster *cluster = warp->cta->cluster;
    const Sm90Cluster *s = cluster->ext[SIM_EXT_SM90].state;
    uint32_t missing = 0;
    (void)group;
    for (uint32_t c = 0; c < cluster->cta_count; c++)
        for (uint32_t w = 0; w < cluster->ctas[c].warp_count; w++) {
            const SimWarp *other = &cluster->ctas[c].warps[w];
            missing += (uint32_t)__builtin_popcount(other->live & ~s->arrived[other->agent]);
        }
    snprintf(text, size, "waits at the cluster barrier, where %u threads have not arrived", missing);
}

static SimStep
cluster_wait(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    Sm90Cluster *s = sim_sm90_cluster(warp->cta->cluster);
    Sm90Warp *state = sim_sm90_warp(warp);
    if (!s || !state)
        return sim_fail(warp, "out of memory");
    if (mask & ~state->cluster_arrived) {
        sim_find(warp, SIM_FIND_BARRIER, (int32_t)sim_first_lane(mask & ~state->cluster_arrived), 0,
                 NULL, "a thread waits at the cluster barrier without having arrived");
        return SIM_NEXT;
    }
    state->cluster_arrived &= ~mask;
    SimPhaseName phase = {SIM_PHASE_CLUSTER, 0, 0, state->cluster_generation};
    sim_trace_waited(warp, insn, phase, true);
    sim_trace_sleeps(warp);
    SimWait *wait = sim_warp_sleep(warp, cluster_ready, describe_cluster);
    wait->arg[0] = state->cluster_generation;
    return SIM_WAIT;
}

bool
sim_sm90_decode_cluster_barrier(SimDecode *dx)
{
    bool is_wait = dec_take(dx, "wait");
    if (!is_wait && !dec_take(dx, "arrive"))
        return dec_fail(dx, "needs .arrive or .wait");
    dx->out->mode[0] = !is_wait && dec_take(dx, "relaxed");
    dec_take(dx, is_wait ? "acquire" : "release");
    dx->out->converge = dec_take(dx, "aligned");
    dx->out->exec = is_wait ? cluster_wait : cluster_arrive;
    return dec_count(dx, 0, 0);
}

/* ------------------------------------------------------------------------ mapa, getctarank */

/* mode[0]: the operands have 64 bits, [1] they are generic addresses, [2] the address is 64
 * wide. */
static SimStep
mapa(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out32[SIM_LANES];
    uint64_t out64[SIM_LANES];
    const uint32_t *rank = sim_r32(warp, insn->slot[2]);
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint64_t a = insn->mode[0] ? sim_r64(warp, insn->slot[1])[l]
                                   : sim_r32(warp, insn->slot[1])[l];
        a = (a & ~(UINT64_C(0xff) << SIM_SHARED_RANK_SHIFT)) | (uint64_t)rank[l]
                                                                   << SIM_SHARED_RANK_SHIFT;
        out64[l] = a;
        out32[l] = (uint32_t)a;
        if (mask >> l & 1 && rank[l] >= warp->cta->cluster->cta_count)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, a, NULL, "the cluster has no block %u",
                     rank[l]);
    }
    if (insn->mode[0])
        sim_put64(warp, insn->slot[0], out64, mask);
    else
        sim_put32(warp, insn->slot[0], out32, mask);
    return SIM_NEXT;
}

bool
sim_sm90_decode_mapa(SimDecode *dx)
{
    SimInsn *out = dx->out;
    out->mode[1] = dec_space(dx) == SIM_GENERIC;
    out->mode[0] = dec_take(dx, "u64");
    if ((!out->mode[0] && !dec_take(dx, "u32")) || !dec_count(dx, 3, 3))
        return dec_fail(dx, "needs .u32 or .u64, an address and a rank");
    SimType type = out->mode[0] ? SIM_U64 : SIM_U32;
    out->exec = mapa;
    return dec_dst(dx, dec_operand(dx, 0), type) && dec_src(dx, dec_operand(dx, 1), type) &&
           dec_src(dx, dec_operand(dx, 2), SIM_U32);
}

static SimStep
getctarank(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES];
    for (uint32_t l = 0; l < SIM_LANES; l++)
        out[l] = (uint32_t)((insn->mode[0] ? sim_r64(warp, insn->slot[1])[l]
                                           : sim_r32(warp, insn->slot[1])[l]) >>
                            SIM_SHARED_RANK_SHIFT) &
                 0xff;
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}

bool
sim_sm90_decode_getctarank(SimDecode *dx)
{
    SimInsn *out = dx->out;
    dec_space(dx);
    out->mode[0] = dec_take(dx, "u64");
    if ((!out->mode[0] && !dec_take(dx, "u32")) || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs .u32 or .u64, and an address");
    out->exec = getctarank;
    return dec_dst(dx, dec_operand(dx, 0), SIM_U32) &&
           dec_src(dx, dec_operand(dx, 1), out->mode[0] ? SIM_U64 : SIM_U32);
}

/* ------------------------------------------------------------------------ setmaxnreg */

/* How many registers a thread starts with is ptxas' choice; the model is the most that the
 * launch can have: what .maxnreg says, or the register file divided by the threads (rounded up to
 * warpgroups) of the blocks that .minnctapersm asks for, a multiple of 8, at most 255, and no more
 * than the smallest .inc of the kernel. */
static uint32_t
initial_registers(const SimWarp *warp)
{
    const SimFunction *kernel = warp->run->function;
    uint32_t threads = (warp->run->threads_per_cta + 127) / 128 * 128;
    uint32_t ctas = warp->run->function->min_ctas ? warp->run->function->min_ctas : 1;
    uint32_t registers = 65536 / (threads * ctas) / 8 * 8;
    registers = registers > 255 ? 255 : registers;
    if (warp->run->function->max_registers)
        return warp->run->function->max_registers;
    for (size_t i = 0; i < kernel->insn_count; i++)
        if (strncmp(kernel->insns[i].mnemonic, "setmaxnreg.inc", 14) == 0 &&
            kernel->insns[i].imm < registers)
            registers = (uint32_t)kernel->insns[i].imm;
    return registers;
}

static Sm90Warp *
register_state(SimWarp *warp)
{
    Sm90Warp *s = sim_sm90_warp(warp);
    if (s && !s->registers)
        s->registers = initial_registers(warp);
    return s;
}

static bool
registers_ready(SimWarp *warp, SimGroup *group)
{
    Sm90Warp *s = sim_sm90_warp(warp);
    Sm90Cta *cta = sim_sm90_cta(warp->cta);
    int64_t wanted = (int64_t)group->wait.arg[0] - (int64_t)s->registers;
    if (!cta || cta->register_pool < wanted)
        return false;
    cta->register_pool -= wanted;
    s->registers = (uint32_t)group->wait.arg[0];
    warp->cta->cluster->progress++;
    return true;
}

static void
describe_registers(const SimWarp *warp, const SimGroup *group, char *text, size_t size)
{
    const Sm90Cta *cta = warp->cta->ext[SIM_EXT_SM90].state;
    const Sm90Warp *s = warp->ext[SIM_EXT_SM90].state;
    snprintf(text, size,
             "waits for %u registers a thread; it has %u, and the block's pool holds %lld",
             (uint32_t)group->wait.arg[0], s->registers, (long long)(cta ? cta->register_pool : 0));
}

/* imm: the new count.  mode[0]: .inc. */
static SimStep
setmaxnreg(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    Sm90Warp *s = register_state(warp);
    Sm90Cta *cta = sim_sm90_cta(warp->cta);
    uint32_t wanted = (uint32_t)insn->imm;
    const SimFunction *kernel = warp->run->function;
    (void)mask;
    if (!s || !cta)
        return sim_fail(warp, "out of memory");
    if (!kernel->max_registers && !kernel->min_ctas)
        sim_note(warp, SIM_FIND_INVALID, -1, 0, NULL,
                 "ptxas ignores this setmaxnreg (C7508): '%s' has neither .maxnreg nor "
                 ".minnctapersm, so it cannot tell how many registers there are at entry",
                 kernel->entry.name);
    if (insn->mode[0] ? wanted < s->registers : wanted > s->registers) {
        sim_find(warp, SIM_FIND_INVALID, -1, 0, NULL,
                 "setmaxnreg.%s to %u, but a thread has %u registers",
                 insn->mode[0] ? "inc" : "dec", wanted, s->registers);
        return SIM_NEXT;
    }
    /* Every warp of the warpgroup executes the same instruction: the others' must agree once they
     * have executed as many. */
    uint32_t first = warp->index / 4 * 4;
    for (uint32_t w = first; w < first + 4 && w < warp->cta->warp_count; w++) {
        const SimWarp *other = &warp->cta->warps[w];
        const Sm90Warp *o = other->ext[SIM_EXT_SM90].state;
        if (!o || o->setmaxnreg_count != s->setmaxnreg_count + 1 || o->setmaxnreg_insn == insn)
            continue;
        SimPlace place = {o->setmaxnreg_insn, (int32_t)other->index, warp->cta->rank};
        bool same = o->setmaxnreg_insn->mode[0] == insn->mode[0];
        (same ? sim_note
              : sim_find)(warp, SIM_FIND_NOT_UNIFORM, -1, 0, &place,
                          "the warps of a warpgroup execute different setmaxnreg instructions%s",
                          !same ? ", one gives registers back and one asks for more"
                          : o->setmaxnreg_insn->imm != insn->imm ? ", with different counts"
                                                                 : ", with one count");
    }
    s->setmaxnreg_count++;
    s->setmaxnreg_insn = insn;
    if (!insn->mode[0]) {
        cta->register_pool += (int64_t)s->registers - wanted;
        s->registers = wanted;
        warp->cta->cluster->progress++;
        return SIM_YIELD;
    }
    SimWait *wait = sim_warp_sleep(warp, registers_ready, describe_registers);
    wait->arg[0] = wanted;
    return SIM_WAIT;
}

bool
sim_sm90_decode_setmaxnreg(SimDecode *dx)
{
    SimInsn *out = dx->out;
    out->mode[0] = dec_take(dx, "inc");
    if (!out->mode[0] && !dec_take(dx, "dec"))
        return dec_fail(dx, "needs .inc or .dec");
    dec_aligned(dx);
    if (!out->converge || !dec_take(dx, "u32") || !dec_count(dx, 1, 1))
        return dec_fail(dx, "needs .sync.aligned.u32 and a count");
    if (!dec_immediate(dx, dec_operand(dx, 0), &out->imm))
        return false;
    if (out->imm < 24 || out->imm > 256 || out->imm % 8)
        return dec_fail(dx, "the count must be a multiple of 8 in 24..256");
    out->exec = setmaxnreg;
    return true;
}

/* ------------------------------------------------------------------------ griddepcontrol */

/* A launch runs alone here: every grid that it could depend on is complete. */
static SimStep
griddepcontrol(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)warp, (void)insn, (void)mask;
    return SIM_NEXT;
}

bool
sim_sm90_decode_griddepcontrol(SimDecode *dx)
{
    if (!dec_take(dx, "wait") && !dec_take(dx, "launch_dependents"))
        return dec_fail(dx, "needs .wait or .launch_dependents");
    dx->out->exec = griddepcontrol;
    return dec_count(dx, 0, 0);
}

/* ------------------------------------------------------------------------ stmatrix */

/* The mirror of ldmatrix: lane 8j + i holds the address of row i of matrix j; register j of lane l
 * is the pair of elements (row l/4, columns 2(l%4) and +1), or transposed. */
static SimStep
stmatrix(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t n = insn->count, offset[SIM_LANES] = {0};
    uint16_t row[SIM_LANES][8];
    (void)mask;
    for (uint32_t j = 0; j < n; j++) {
        const uint32_t *from = sim_r32(warp, insn->slot[1 + j]);
        for (uint32_t l = 0; l < SIM_LANES; l++)
            for (uint32_t h = 0; h < 2; h++) {
                uint32_t g = l / 4, t = 2 * (l % 4) + h;
                uint16_t value = (uint16_t)(from[l] >> 16 * h);
                if (insn->mode[0])
                    row[8 * j + t][g] = value;
                else
                    row[8 * j + g][t] = value;
            }
    }
    for (uint32_t l = 0; l < n * 8; l++) {
        SimMemory m;
        if (!sim_memory_find(warp, l, (SimSpace)insn->space, sim_lane_address(warp, insn, 0, l), 16,
                             16, &m))
            continue;
        if (m.space != SIM_SHARED) {
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, m.generic, NULL,
                     "stmatrix writes shared memory only");
            continue;
        }
        bool same = warp->run->checks && memcmp(m.data, row[l], 16) == 0;
        sim_memory_note_write(warp, &m, 16, l, same ? SIM_REPEATED : SIM_WEAK);
        memcpy(m.data, row[l], 16);
        offset[l] = m.offset;
    }
    sim_memory_count_banks(warp, insn, offset, n == 4 ? UINT32_MAX : (UINT32_C(1) << n * 8) - 1, 16);
    return SIM_NEXT;
}

bool
sim_sm90_decode_stmatrix(SimDecode *dx)
{
    static const char *const counts[] = {"x1", "x2", "x4", NULL};
    SimInsn *out = dx->out;
    dec_aligned(dx);
    out->whole_warp = true;
    if (!out->converge || !dec_take(dx, "m8n8"))
        return dec_fail(dx, "needs .sync.aligned.m8n8");
    int count = dec_choice(dx, counts);
    out->mode[0] = dec_take(dx, "trans");
    out->space = (uint8_t)dec_space(dx);
    if (count < 0 || !dec_take(dx, "b16") || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs .x1, .x2 or .x4, and .b16");
    out->count = (uint8_t)(1u << count);
    out->exec = stmatrix;
    return dec_address(dx, dec_operand(dx, 0)) &&
           dec_src_vector(dx, dec_operand(dx, 1), SIM_B32, out->count);
}
