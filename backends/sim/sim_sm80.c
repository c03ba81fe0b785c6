/* sim_sm80.c - cp.async (PTX ISA 9.7.9.25.2, 9.7.9.25.3), ldmatrix and movmatrix (9.7.14.5).
 *
 * The mbarrier form of cp.async (cp.async.mbarrier.arrive) lives with the mbarriers: it calls
 * sim_cp_async_outstanding() to learn what it must wait for.
 */
#include "sim_sm80.h"

#include <stdlib.h>

#include "sim_exec.h"
#include "sim_lanes.h"
#include "sim_memory.h"

/* ------------------------------------------------------------------------ cp.async */

typedef struct CopyLane {
    uint8_t *to;
    const uint8_t *from;  /* NULL: nothing is read */
    uint8_t size, source; /* bytes written, of them read; the rest is zero */
} CopyLane;

typedef struct Copy {
    CopyLane lane[SIM_LANES];
    uint8_t data[SIM_LANES][16];
    uint32_t mask;
} Copy;

static void
copy_fetch(SimCluster *cluster, SimOp *op)
{
    Copy *copy = op->payload;
    (void)cluster;
    sim_each_lane (l, copy->mask)
        if (copy->lane[l].source == 16) /* which compilers know how to do */
            memcpy(copy->data[l], copy->lane[l].from, 16);
        else if (copy->lane[l].from)
            memcpy(copy->data[l], copy->lane[l].from, copy->lane[l].source);
}

static void
copy_land(SimCluster *cluster, SimOp *op)
{
    const Copy *copy = op->payload;
    (void)cluster;
    sim_each_lane (l, copy->mask)
        if (copy->lane[l].size == 16)
            memcpy(copy->lane[l].to, copy->data[l], 16);
        else
            memcpy(copy->lane[l].to, copy->data[l], copy->lane[l].size);
}

/* Per thread: the group that each of its copies belongs to (9.7.9.25.3.1). */
typedef struct Pending {
    SimOp *op;
    uint32_t group[SIM_LANES];
} Pending;

typedef struct CopyState {
    Pending *pending;
    size_t count, capacity;
    uint32_t group[SIM_LANES]; /* that a thread's next copy joins; committing adds one */
} CopyState;

static void
release_copy_state(void *state)
{
    free(((CopyState *)state)->pending);
    free(state);
}

static CopyState *
copy_state(SimWarp *warp)
{
    return sim_extension(&warp->ext[SIM_EXT_SM80], sizeof(CopyState), release_copy_state);
}

static bool
remember(SimWarp *warp, SimOp *op)
{
    CopyState *s = copy_state(warp);
    if (!s)
        return false;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 32;
        Pending *bigger = sim_realloc(s->pending, capacity * sizeof *bigger);
        if (!bigger)
            return false;
        s->pending = bigger;
        s->capacity = capacity;
    }
    Pending *p = &s->pending[s->count++];
    p->op = op;
    memcpy(p->group, s->group, sizeof p->group);
    return true;
}

/* The lanes of a copy, with what each of them reads and writes. */
typedef struct CopyLanes {
    uint64_t to[SIM_LANES], from[SIM_LANES];
    uint32_t source[SIM_LANES];
} CopyLanes;

static void
copy_operands(SimWarp *warp, const SimInsn *insn, uint32_t mask, CopyLanes *lanes)
{
    uint32_t size = insn->mode[0];
    sim_each_lane (l, mask) {
        uint64_t to = insn->mode[4] ? sim_r64(warp, insn->slot[0])[l]
                                    : sim_r32(warp, insn->slot[0])[l];
        to += (uint64_t)insn->imm;
        lanes->to[l] = insn->mode[4] ? to : (uint32_t)to;
        lanes->from[l] = sim_r64(warp, insn->slot[1])[l] + (uint64_t)insn->imm2;
        lanes->source[l] = size;
        if (insn->mode[1] == 1)
            lanes->source[l] = sim_r32(warp, insn->slot[2])[l];
        else if (insn->mode[1] == 2 && (*sim_rp(warp, insn->slot[2]) >> l & 1) != insn->mode[2])
            lanes->source[l] = 0;
    }
}

/* All of a copy whose lanes read their bytes whole or not at all, from one place to another, with
 * nothing wrong. */
static bool
copy_together(SimWarp *warp, SimOp *op, const CopyLanes *lanes, uint32_t size, uint32_t mask,
              uint32_t offset[SIM_LANES])
{
    Copy *copy = op->payload;
    uint64_t address[SIM_LANES];
    uint32_t reads = 0;
    SimLanes to, from;
    if (warp->cta->cluster->tracer)
        return false;
    sim_each_lane (l, mask) {
        reads |= (uint32_t)(lanes->source[l] == size) << l;
        if (lanes->source[l] != 0 && lanes->source[l] != size)
            return false;
    }
    memcpy(address, lanes->to, sizeof address);
    if (!mask || !sim_lanes_find_at(warp, SIM_SHARED, address, mask, size, &to) || to.in)
        return false;
    memcpy(address, lanes->from, sizeof address);
    if (reads && (!sim_lanes_find_at(warp, SIM_GLOBAL, address, reads, size, &from) || !from.in ||
                  !sim_lanes_note_read(warp, &from, size, reads)))
        return false;
    sim_each_lane (l, mask) {
        copy->lane[l] = (CopyLane){to.base + to.offset[l], NULL, (uint8_t)size, 0};
        offset[l] = to.offset[l];
        op->lane = (uint8_t)(l + 1);
    }
    sim_each_lane (l, reads) {
        copy->lane[l].from = from.base + from.offset[l];
        copy->lane[l].source = (uint8_t)size;
    }
    copy->mask = mask;
    sim_shadow_async_write_lanes(warp, op, warp->cta, to.offset, size, mask);
    return true;
}

/* mode[0] bytes, [1] third operand: 0 none, 1 source size, 2 ignore-source predicate, [2] its
 * negation.  Slots: destination, source, third.  imm and imm2 are the two offsets; mode[4] and
 * mode[5] tell whether each address has 64 bits. */
static SimStep
cp_async(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimOp *op = sim_op_new(warp, sizeof(Copy));
    if (!op || !remember(warp, op))
        return sim_fail(warp, "out of memory");
    Copy *copy = op->payload;
    CopyLanes lanes = {0};
    uint32_t size = insn->mode[0], offset[SIM_LANES];
    copy_operands(warp, insn, mask, &lanes);
    uint32_t alone = copy_together(warp, op, &lanes, size, mask, offset) ? 0 : mask;
    sim_each_lane (l, alone) {
        CopyLane *c = &copy->lane[l];
        SimMemory from, to;
        uint32_t source = lanes.source[l];
        if (source > size) {
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, lanes.from[l], NULL,
                     "source size %u is larger than the copy of %u bytes", source, size);
            source = size;
        }
        if (!sim_memory_find(warp, l, SIM_SHARED, lanes.to[l], size, size, &to))
            continue;
        if (source) {
            if (!sim_memory_find(warp, l, SIM_GLOBAL, lanes.from[l], source, 1, &from))
                continue;
            if (lanes.from[l] & (size - 1))
                sim_find(warp, SIM_FIND_MISALIGNED, (int32_t)l, lanes.from[l], NULL,
                         "the source must be a multiple of %u", size);
            sim_memory_note_read(warp, &from, source, l, SIM_WEAK);
            c->from = from.data;
        }
        c->to = to.data;
        c->size = (uint8_t)size;
        c->source = (uint8_t)source;
        copy->mask |= UINT32_C(1) << l;
        offset[l] = to.offset;
        op->lane = (uint8_t)(l + 1);
        sim_shadow_async_write(warp, op, to.cta, to.offset, size, false);
    }
    op->generic_proxy = true; /* 9.7.9.25.2: cp.async is no operation of the async proxy */
    op->fetch = copy_fetch;
    op->land = copy_land;
    op->lanes_left = copy->mask;
    sim_memory_count_banks(warp, insn, offset, copy->mask, size);
    sim_op_start(warp->cta->cluster, op, true);
    return SIM_NEXT;
}

static bool
decode_cp_async(SimDecode *dx)
{
    static const char *const caches[] = {"ca", "cg", NULL};
    SimInsn *out = dx->out;
    bool policy, negated = false;
    int64_t size;
    int cache = dec_choice(dx, caches);
    dec_take(dx, "shared::cta");
    dec_take(dx, "shared");
    dec_take(dx, "global");
    sim_take_hints(dx, &policy);
    if (cache < 0 || !dec_count(dx, 3, 5))
        return dec_fail(dx, "needs .ca or .cg, and 3 to 5 operands");
    if (!dec_immediate(dx, dec_operand(dx, 2), &size))
        return false;
    if (!(size == 16 || (cache == 0 && (size == 4 || size == 8))))
        return dec_fail(dx, "a copy of %lld bytes is not possible", (long long)size);
    out->mode[0] = (uint8_t)size;
    if (!dec_address(dx, dec_operand(dx, 0)))
        return false;
    out->mode[4] = out->mode[5];
    int64_t to_offset = out->imm;
    if (!dec_address(dx, dec_operand(dx, 1)))
        return false;
    out->imm2 = out->imm;
    out->imm = to_offset;
    if (!out->mode[5])
        return dec_fail(dx, "a global address has 64 bits");
    out->exec = cp_async;
    size_t third = policy ? (dx->operand_count == 5 ? 3 : 0) : dx->operand_count > 3 ? 3 : 0;
    if (!third)
        return true;
    const PtxOperand *o = dec_operand(dx, third);
    uint32_t index;
    const PtxSymbol *s = o->kind == PTX_NAME ? sim_parse_lookup(dx->src->scope, o->name, &index)
                                             : NULL;
    bool is_pred = o->negated || (s && s->kind <= PTX_REGISTERS && s->type == SIM_PRED);
    out->mode[1] = is_pred ? 2 : 1;
    bool ok = is_pred ? dec_pred(dx, o, &negated) : dec_src(dx, o, SIM_U32);
    out->mode[2] = negated;
    return ok;
}

static SimStep
commit_group(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    CopyState *s = copy_state(warp);
    (void)insn;
    if (!s)
        return sim_fail(warp, "out of memory");
    sim_each_lane (l, mask)
        s->group[l]++;
    return SIM_NEXT;
}

/* Completes, for the lanes of the mask, all copies of groups before `keep` of the youngest ones. */
static void
wait_for_copies(SimWarp *warp, uint32_t mask, uint32_t keep)
{
    CopyState *s = copy_state(warp);
    SimCluster *cluster = warp->cta->cluster;
    if (!s)
        return;
    size_t left = 0;
    for (size_t i = 0; i < s->count; i++) {
        Pending *p = &s->pending[i];
        uint32_t done = 0, waits = mask & p->op->lanes_left;
        sim_each_lane (l, waits)
            if (p->group[l] + keep < s->group[l])
                done |= UINT32_C(1) << l;
        if (done) {
            sim_op_finish(cluster, p->op);
            p->op->lanes_left &= ~done;
            if (!p->op->lanes_left)
                sim_op_observe(warp, p->op);
        }
        if (p->op->lanes_left)
            s->pending[left++] = *p;
    }
    s->count = left;
}

static SimStep
wait_group(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    wait_for_copies(warp, mask, (uint32_t)insn->imm);
    return SIM_NEXT;
}

static SimStep
wait_all(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    commit_group(warp, insn, mask);
    wait_for_copies(warp, mask, 0);
    return SIM_NEXT;
}

static bool
decode_commit(SimDecode *dx)
{
    dx->out->exec = commit_group;
    return dec_count(dx, 0, 0);
}
static bool
decode_wait_group(SimDecode *dx)
{
    dx->out->exec = wait_group;
    return dec_count(dx, 1, 1) && dec_immediate(dx, dec_operand(dx, 0), &dx->out->imm);
}
static bool
decode_wait_all(SimDecode *dx)
{
    dx->out->exec = wait_all;
    return dec_count(dx, 0, 0);
}

size_t
sim_cp_async_outstanding(SimWarp *warp, uint32_t lane, SimOp **ops, size_t room)
{
    const CopyState *s = copy_state(warp);
    size_t n = 0;
    for (size_t i = 0; s && i < s->count; i++)
        if (s->pending[i].op->lanes_left >> lane & 1) {
            if (n < room)
                ops[n] = s->pending[i].op;
            n++;
        }
    return n;
}

/* ------------------------------------------------------------------------ ldmatrix */

/* 16 elements of 4 or 6 bits in front of padding, to a byte each. */
static void
widen_row(uint8_t row[16], uint32_t bits)
{
    uint8_t packed[17] = {0};
    memcpy(packed, row, 16);
    for (uint32_t i = 0; i < 16 && bits < 8; i++) {
        uint32_t at = i * bits, two = packed[at / 8] | (uint32_t)packed[at / 8 + 1] << 8;
        row[i] = (uint8_t)(two >> at % 8 & ((1u << bits) - 1));
    }
}

/* The rows of 16 bytes at the addresses of the first lanes.  mode[1]: bits of an element that is
 * widened to a byte; the padding behind 16 of them is not read. */
static void
load_rows(SimWarp *warp, const SimInsn *insn, uint32_t lanes, uint8_t row[SIM_LANES][16])
{
    uint32_t offset[SIM_LANES], bits = insn->mode[1] ? insn->mode[1] : 8;
    uint32_t mask = lanes == 32 ? UINT32_MAX : (UINT32_C(1) << lanes) - 1;
    SimLanes in_one;
    memset(row, 0, SIM_LANES * sizeof row[0]);
    if (sim_lanes_find(warp, insn, mask, insn->count, 16, &in_one) && !in_one.in &&
        sim_lanes_note_read(warp, &in_one, 2 * bits, mask)) {
        for (uint32_t l = 0; l < lanes; l++) {
            memcpy(row[l], in_one.base + in_one.offset[l], 16);
            if (bits < 8)
                widen_row(row[l], bits);
        }
        sim_memory_count_banks(warp, insn, in_one.offset, mask, 16);
        return;
    }
    for (uint32_t l = 0; l < lanes; l++) {
        SimMemory m;
        uint64_t address = sim_lane_address(warp, insn, insn->count, l);
        offset[l] = 0;
        if (!sim_memory_find(warp, l, (SimSpace)insn->space, address, 16, 16, &m))
            continue;
        if (m.space != SIM_SHARED) {
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, address, NULL,
                     "ldmatrix reads shared memory only");
            continue;
        }
        sim_memory_note_read(warp, &m, 2 * bits, l, SIM_WEAK);
        memcpy(row[l], m.data, 16);
        widen_row(row[l], bits);
        offset[l] = m.offset;
    }
    sim_memory_count_banks(warp, insn, offset, mask, 16);
}

/* Lane 8j + i holds the address of row i of matrix j.  Register j of lane l is the pair of elements
 * (row l/4, columns 2(l%4) and +1), or transposed. */
static SimStep
ldmatrix(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t n = insn->count;
    uint8_t bytes[SIM_LANES][16];
    uint16_t row[SIM_LANES][8];
    load_rows(warp, insn, 8 * n, bytes);
    memcpy(row, bytes, sizeof row);
    for (uint32_t j = 0; j < n; j++) {
        uint32_t out[SIM_LANES];
        for (uint32_t l = 0; l < SIM_LANES; l++) {
            uint32_t g = l / 4, t = l % 4;
            out[l] = insn->mode[0]
                         ? row[8 * j + 2 * t][g] | (uint32_t)row[8 * j + 2 * t + 1][g] << 16
                         : row[8 * j + g][2 * t] | (uint32_t)row[8 * j + g][2 * t + 1] << 16;
        }
        sim_put32(warp, insn->slot[j], out, mask);
    }
    return SIM_NEXT;
}

/* .m16n16.trans.b8: lane 16j + i holds the address of row i of matrix j, of bytes.  Register 2j + h
 * of lane l is column l/4 + 8h, rows 4(l%4) to +3. */
static SimStep
ldmatrix_bytes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint8_t row[SIM_LANES][16];
    load_rows(warp, insn, 8 * insn->count, row);
    for (uint32_t r = 0; r < insn->count; r++) {
        uint32_t out[SIM_LANES] = {0};
        for (uint32_t l = 0; l < SIM_LANES; l++)
            for (uint32_t b = 0; b < 4; b++)
                out[l] |= (uint32_t)row[16 * (r / 2) + 4 * (l % 4) + b][l / 4 + 8 * (r % 2)]
                          << 8 * b;
        sim_put32(warp, insn->slot[r], out, mask);
    }
    return SIM_NEXT;
}

/* The element: .b16, .b8, or .b8x16 of 16 packed ones of 4 or 6 bits. */
static bool
take_matrix_element(SimDecode *dx, int shape)
{
    static const char *const packed[] = {"b4x16_p64", "b6x16_p32", NULL};
    if (shape == 0)
        return dec_take(dx, "b16");
    if (shape == 1 && dec_take(dx, "b8"))
        return true;
    int which = dec_take(dx, "b8x16") ? dec_choice(dx, packed) : -1;
    dx->out->mode[1] = which == 0 ? 4 : 6;
    return which >= 0;
}

static bool
decode_ldmatrix(SimDecode *dx)
{
    static const char *const counts[] = {"x1", "x2", "x4", NULL};
    static const char *const shapes[] = {"m8n8", "m16n16", "m8n16", NULL};
    SimInsn *out = dx->out;
    dec_aligned(dx);
    out->whole_warp = true;
    int shape = dec_choice(dx, shapes);
    bool bytes = shape == 1;
    if (!out->converge || shape < 0)
        return dec_fail(dx, "needs .sync.aligned, and .m8n8, .m8n16 or .m16n16");
    int count = dec_choice(dx, counts);
    out->mode[0] = dec_take(dx, "trans");
    SimSpace space = dec_space(dx);
    if (count < 0 || !take_matrix_element(dx, shape) || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs .x1, .x2 or .x4, and .%s", bytes ? "b8" : "b16");
    if (bytes ? count > 1 || !out->mode[0] : shape == 2 && out->mode[0])
        return dec_fail(dx, ".m16n16 is .x1 or .x2, and .trans; .m8n16 is not");
    out->space = (uint8_t)space;
    out->count = (uint8_t)(1u << (count + bytes));
    out->exec = bytes ? ldmatrix_bytes : ldmatrix;
    return dec_dst_vector(dx, dec_operand(dx, 0), SIM_B32, out->count) &&
           dec_address(dx, dec_operand(dx, 1));
}

/* movmatrix (9.7.14.5.17): the transpose of one 8x8 fragment. */
static SimStep
movmatrix(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const uint32_t *a = sim_r32(warp, insn->slot[1]);
    uint32_t out[SIM_LANES];
    uint16_t tile[8][8];
    for (uint32_t l = 0; l < SIM_LANES; l++)
        for (uint32_t h = 0; h < 2; h++)
            tile[l / 4][2 * (l % 4) + h] = (uint16_t)(a[l] >> 16 * h);
    for (uint32_t l = 0; l < SIM_LANES; l++)
        out[l] = tile[2 * (l % 4)][l / 4] | (uint32_t)tile[2 * (l % 4) + 1][l / 4] << 16;
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}
static bool
decode_movmatrix(SimDecode *dx)
{
    dec_aligned(dx);
    dx->out->whole_warp = true;
    if (!dx->out->converge || !dec_take(dx, "m8n8") || !dec_take(dx, "trans") ||
        !dec_take(dx, "b16"))
        return dec_fail(dx, "needs .sync.aligned.m8n8.trans.b16");
    dx->out->exec = movmatrix;
    return dec_plain(dx, SIM_B32, SIM_B32, 1);
}

const SimFamily sim_sm80_families[] = {
    {"cp.async", decode_cp_async},
    {"cp.async.commit_group", decode_commit},
    {"cp.async.wait_group", decode_wait_group},
    {"cp.async.wait_all", decode_wait_all},
    {"ldmatrix", decode_ldmatrix},
    {"movmatrix", decode_movmatrix},
    {NULL, NULL},
};
