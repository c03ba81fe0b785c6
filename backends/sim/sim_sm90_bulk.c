/* sim_sm90_bulk.c - bulk copies and reductions, and their groups (PTX ISA 9.7.9.25.4, 9.7.9.25.6).
 *
 * A load is an op: `fetch` reads the source, `land` writes the destination and signals.  Each
 * destination block of a multicast is an op of its own.  A store is two ops, since its two halves
 * can be waited for separately: one reads shared memory, the other, after it, writes.
 */
#include "sim_sm90_bulk.h"

#include <stdlib.h>

#include "sim_exec.h"
#include "sim_trace.h"

/* ------------------------------------------------------------------------ fetch and land */

static void
fetch_copy(SimCluster *cluster, SimOp *op)
{
    Sm90Copy *c = op->payload;
    (void)cluster;
    switch (c->form->direction) {
    case SM90_LOAD:
        if (c->form->tensor)
            sim_sm90_box_read(c);
        else
            memcpy(c->data, c->global->data + (c->address - c->global->address), c->bytes);
        break;
    case SM90_TO_CLUSTER: memcpy(c->data, c->from_cta->shared + c->from_offset, c->bytes); break;
    default: break;
    }
}

void
sim_sm90_land_load(SimCluster *cluster, SimOp *op)
{
    Sm90Copy *c = op->payload;
    uint8_t *to = c->cta->shared;
    if (c->form->reduce != SM90_COPY)
        sim_sm90_reduce(c->run, NULL, to + c->offset, c->data, c->bytes, 0, c->form->reduce,
                        c->form->type);
    else if (c->form->tensor && c->map.swizzle)
        for (uint32_t i = 0; i < c->bytes; i += 16)
            memcpy(to + sim_sm90_box_place(c, i), c->data + i, 16);
    else
        memcpy(to + c->offset, c->data, c->bytes);
    sim_mbarrier_complete_tx_op(cluster, op, c->mbarrier_cta, c->mbarrier, c->bytes);
}

/* The first half of a store; its payload names the second. */
static void
land_reader(SimCluster *cluster, SimOp *op)
{
    Sm90Copy *c = (*(SimOp **)op->payload)->payload;
    (void)cluster;
    if (!c->form->tensor || !c->map.swizzle) {
        memcpy(c->data, c->cta->shared + c->offset, c->bytes);
        return;
    }
    for (uint32_t i = 0; i < c->bytes; i += 16)
        memcpy(c->data + i, c->cta->shared + sim_sm90_box_place(c, i), 16);
}

static void
store_linear(Sm90Copy *c)
{
    uint8_t *at = c->global->data + (c->address - c->global->address);
    if (c->form->reduce != SM90_COPY) {
        sim_sm90_reduce(c->run, c->global, at, c->data, c->bytes, c->address, c->form->reduce,
                        c->form->type);
        return;
    }
    for (uint32_t i = 0; i < c->bytes; i += 16)
        for (uint32_t j = 0; j < 16; j++)
            if (c->byte_mask >> j & 1)
                at[i + j] = c->data[i + j];
    if (c->global->init)
        memset(c->global->init + (c->address - c->global->address), 1, c->bytes);
}

void
sim_sm90_land_store(SimCluster *cluster, SimOp *op)
{
    Sm90Copy *c = op->payload;
    (void)cluster;
    if (c->form->tensor)
        sim_sm90_box_write(c);
    else
        store_linear(c);
}

/* ------------------------------------------------------------------------ groups */

static bool
track(SimWarp *warp, SimOp *op, SimOp *reader, uint32_t lane)
{
    Sm90Warp *s = sim_sm90_warp(warp);
    if (!s)
        return false;
    if (s->bulk_count == s->bulk_capacity) {
        size_t capacity = s->bulk_capacity ? 2 * s->bulk_capacity : 16;
        Sm90Bulk *bigger = sim_realloc(s->bulk, capacity * sizeof *bigger);
        if (!bigger)
            return false;
        s->bulk = bigger;
        s->bulk_capacity = capacity;
    }
    s->bulk[s->bulk_count++] = (Sm90Bulk){op, reader, lane, s->bulk_group[lane]};
    return true;
}

static SimStep
bulk_commit(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    Sm90Warp *s = sim_sm90_warp(warp);
    (void)insn;
    if (!s)
        return sim_fail(warp, "out of memory");
    sim_each_lane (l, mask)
        s->bulk_group[l]++;
    return SIM_NEXT;
}

/* 9.7.9.25.6.2: all but the N youngest groups of the thread.  mode[0]: .read, the sources only. */
static SimStep
bulk_wait(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    Sm90Warp *s = sim_sm90_warp(warp);
    SimCluster *cluster = warp->cta->cluster;
    size_t left = 0;
    if (!s)
        return sim_fail(warp, "out of memory");
    for (size_t i = 0; i < s->bulk_count; i++) {
        Sm90Bulk *p = &s->bulk[i];
        bool waits = mask >> p->lane & 1 && p->group + (uint64_t)insn->imm < s->bulk_group[p->lane];
        if (waits) {
            sim_op_finish(cluster, p->reader);
            sim_op_observe(warp, p->reader);
        }
        if (waits && !insn->mode[0]) {
            sim_op_finish(cluster, p->op);
            sim_op_observe(warp, p->op);
        }
        if (!waits || insn->mode[0])
            s->bulk[left++] = *p;
    }
    s->bulk_count = left;
    return SIM_NEXT;
}

bool
sim_sm90_decode_bulk_commit(SimDecode *dx)
{
    dx->out->exec = bulk_commit;
    return dec_count(dx, 0, 0);
}

bool
sim_sm90_decode_bulk_wait(SimDecode *dx)
{
    dx->out->mode[0] = dec_take(dx, "read");
    dx->out->exec = bulk_wait;
    return dec_count(dx, 1, 1) && dec_immediate(dx, dec_operand(dx, 0), &dx->out->imm);
}

/* ------------------------------------------------------------------------ issue */

static SimOp *
new_copy(SimWarp *warp, const Sm90BulkForm *form, uint32_t bytes)
{
    SimOp *op = sim_op_new(warp, sizeof(Sm90Copy) + bytes);
    if (!op)
        return NULL;
    Sm90Copy *c = op->payload;
    c->form = form;
    c->bytes = bytes;
    c->run = warp->run;
    c->byte_mask = 0xffff;
    op->fetch = form->direction == SM90_STORE ? NULL : fetch_copy;
    op->land = form->direction == SM90_STORE ? sim_sm90_land_store : sim_sm90_land_load;
    op->atomic = form->reduce != SM90_COPY;
    sim_trace_started(warp, op, bytes);
    return op;
}

/* The bytes of one lane's linear copy, 0 after a report. */
static uint32_t
linear_bytes(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane)
{
    uint32_t bytes = sim_r32(warp, form->size)[lane];
    if (bytes % 16)
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, bytes, NULL,
                 "the size of %u bytes is not a multiple of 16", bytes);
    return bytes % 16 ? 0 : bytes;
}

/* The global side of a linear copy. */
static bool
find_global_side(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane, SimOp *writer,
                 uint64_t address, uint32_t bytes, SimMemory *m)
{
    return sim_memory_find(warp, lane, SIM_GLOBAL, address, bytes, 16, m) &&
           sim_sm90_note_global(warp, lane, form, writer, m, bytes);
}

static bool
check_dims(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane, const SimTensorMap *map)
{
    if (map->rank != form->dims)
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, 0, NULL,
                 "the tensor map has %u dimensions, the instruction %u", map->rank, form->dims);
    else if (form->four_rows && map->box[1] != 1) /* 5.5.3.4.1 */
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, 0, NULL,
                 "the box has %u rows; for gather4 and scatter4 it has one", map->box[1]);
    else
        return true;
    return false;
}

/* The destination of a store; false after a report. */
static bool
prepare_destination(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane, SimOp *writer,
                    Sm90Copy *c)
{
    SimMemory to;
    if (form->tensor) {
        for (uint32_t i = 0; i < form->coordinates; i++)
            c->coordinate[i] = (int32_t)sim_r32(warp, form->coordinate[i])[lane];
        c->global = sim_device_find(warp->run->device, c->map.address);
        return sim_sm90_box_check(warp, lane, c, writer);
    }
    if (!find_global_side(warp, form, lane, writer, sim_sm90_address(warp, &form->to, lane),
                          c->bytes, &to))
        return false;
    c->global = to.in;
    c->address = to.generic;
    if (form->byte_mask != SIM_NO_SLOT)
        c->byte_mask = sim_r32(warp, form->byte_mask)[lane] & 0xffff;
    return true;
}

static uint32_t
span_of(const Sm90Copy *c)
{
    return c->form->tensor ? sim_sm90_box_span(c) : c->bytes;
}

/* `lanes` issue this store, with equal operands; the first is `lane`. */
static SimStep
issue_store(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane, uint32_t lanes)
{
    SimMemory from;
    Sm90Copy like = {.form = form};
    if (form->tensor) {
        if (!sim_sm90_map_load(warp, lane, sim_sm90_address(warp, &form->to, lane), &like.map) ||
            !check_dims(warp, form, lane, &like.map))
            return SIM_NEXT;
        like.bytes = sim_sm90_box_bytes(form, &like.map, 0);
        if (!sim_sm90_box_rows(warp, &like))
            return SIM_FATAL;
    } else if (!(like.bytes = linear_bytes(warp, form, lane))) {
        return SIM_NEXT;
    }
    if (!sim_memory_find(warp, lane, SIM_SHARED, sim_sm90_address(warp, &form->from, lane),
                         span_of(&like), form->tensor ? 128 : 16, &from))
        return SIM_NEXT;
    SimOp *op = new_copy(warp, form, like.bytes), *reader = sim_op_new(warp, sizeof op);
    if (!op || !reader)
        return sim_fail(warp, "out of memory");
    Sm90Copy *c = op->payload;
    c->cta = from.cta;
    c->offset = from.offset;
    c->map = like.map;
    c->row_bytes = like.row_bytes;
    c->pitch = like.pitch;
    memcpy(reader->payload, &op, sizeof op);
    reader->land = land_reader;
    op->after = reader;
    if (!prepare_destination(warp, form, lane, op, c)) {
        op->landed = reader->landed = true; /* it never starts */
        op->land = reader->land = NULL;
        return SIM_NEXT;
    }
    reader->lane = (uint8_t)(lanes & (lanes - 1) ? 0 : lane + 1);
    if (form->tensor)
        sim_sm90_box_note(warp, reader, c, false);
    else
        sim_shadow_async_read(warp, reader, from.cta, from.offset, like.bytes, true);
    reader->lane = 0;
    sim_each_lane (l, lanes)
        if (!track(warp, op, reader, l))
            return sim_fail(warp, "out of memory");
    sim_op_start(warp->cta->cluster, reader, true);
    sim_op_start(warp->cta->cluster, op, true);
    return SIM_NEXT;
}

/* One destination block of a load, or of a copy to another block; NULL: no memory. */
static SimOp *
start_load(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane, const Sm90Copy *like,
           SimCta *cta, uint32_t offset, SimCta *mbarrier_cta, uint32_t mbarrier)
{
    SimOp *op = new_copy(warp, form, like->bytes);
    if (!op)
        return NULL;
    Sm90Copy *c = op->payload;
    *c = *like;
    c->cta = cta;
    c->offset = offset;
    c->mbarrier_cta = mbarrier_cta;
    c->mbarrier = mbarrier;
    op->lane = (uint8_t)(lane + 1);
    if (form->direction == SM90_TO_CLUSTER)
        sim_shadow_async_read(warp, op, c->from_cta, c->from_offset, c->bytes, true);
    op->lane = 0;
    if (form->tensor)
        sim_sm90_box_note(warp, op, c, true);
    else
        sim_shadow_async_write(warp, op, cta, offset, c->bytes, true);
    sim_op_start(warp->cta->cluster, op, true);
    return op;
}

static SimStep
issue_multicast(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane, const Sm90Copy *like,
                const SimMemory *to, const SimMemory *bar)
{
    SimCluster *cluster = warp->cta->cluster;
    uint32_t ctas = sim_r32(warp, form->cta_mask)[lane] & 0xffff, before = 0;
    if (ctas >> cluster->cta_count) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, 0, NULL,
                 "the multicast mask %04x names blocks beyond the cluster's %u", ctas,
                 cluster->cta_count);
        ctas &= (1u << cluster->cta_count) - 1;
    }
    sim_each_lane (rank, ctas) {
        SimMemory m, there;
        /* .cta_group::2: of each destination's pair, the block whose rank has the mbarrier's
         * parity */
        uint32_t signalled = form->cta_group == 2 ? (rank & ~1u) | (bar->cta->rank & 1) : rank;
        if (!sim_sm90_barrier_for_op(
                warp, lane, SIM_SHARED_CLUSTER,
                signalled << SIM_SHARED_RANK_SHIFT | (bar->offset + SIM_SHARED_BASE), &m) ||
            !sim_memory_find(warp, lane, SIM_SHARED_CLUSTER,
                             rank << SIM_SHARED_RANK_SHIFT | (to->offset + SIM_SHARED_BASE),
                             span_of(like), form->tensor ? 128 : 16, &there))
            continue;
        const SimOp *op = start_load(warp, form, lane, like, there.cta, there.offset, m.cta,
                                     m.offset);
        if (!op)
            return sim_fail(warp, "out of memory");
        sim_trace_fills(there.cta, op, (uint32_t)__builtin_popcount(ctas), before++ > 0);
    }
    return SIM_NEXT;
}

static bool
prepare_source(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane, Sm90Copy *like)
{
    SimMemory from;
    uint64_t address = sim_sm90_address(warp, &form->from, lane);
    like->form = form;
    like->run = warp->run;
    if (form->tensor) {
        if (!sim_sm90_map_load(warp, lane, address, &like->map))
            return false;
        if (!check_dims(warp, form, lane, &like->map))
            return false;
        for (uint32_t i = 0; i < form->coordinates; i++)
            like->coordinate[i] = (int32_t)sim_r32(warp, form->coordinate[i])[lane];
        for (uint32_t i = 0; i < form->offsets; i++)
            like->pixel_offset[i] = (int32_t)(sim_r32(warp, form->offset[i])[lane] & 0xffff);
        uint32_t halo = form->im2col > SIM_IM2COL ? (uint32_t)like->pixel_offset[0] : 0;
        like->bytes = sim_sm90_box_bytes(form, &like->map, halo);
        like->global = sim_device_find(warp->run->device, like->map.address);
        return sim_sm90_box_rows(warp, like) && sim_sm90_box_check(warp, lane, like, NULL);
    }
    like->bytes = linear_bytes(warp, form, lane);
    if (!like->bytes)
        return false;
    if (form->direction == SM90_TO_CLUSTER) {
        if (!sim_memory_find(warp, lane, SIM_SHARED, address, like->bytes, 16, &from))
            return false;
        like->from_cta = from.cta;
        like->from_offset = from.offset;
        return true;
    }
    if (!find_global_side(warp, form, lane, NULL, address, like->bytes, &from))
        return false;
    like->global = from.in;
    like->address = from.generic;
    return true;
}

static SimStep
issue_load(SimWarp *warp, const Sm90BulkForm *form, uint32_t lane)
{
    SimMemory to, bar;
    Sm90Copy like = {0};
    uint64_t mbarrier = sim_sm90_address(warp, &form->mbarrier, lane);
    if (!prepare_source(warp, form, lane, &like) ||
        !sim_memory_find(warp, lane, form->to_space, sim_sm90_address(warp, &form->to, lane),
                         span_of(&like), form->tensor ? 128 : 16, &to) ||
        !sim_sm90_barrier_for_op(warp, lane, form->to_space, mbarrier, &bar))
        return SIM_NEXT;
    if (form->multicast)
        return issue_multicast(warp, form, lane, &like, &to, &bar);
    uint32_t apart = to.cta->rank ^ bar.cta->rank;
    if (form->cta_group == 2 ? apart > 1 : apart > 0)
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, mbarrier, NULL,
                 "the destination and its mbarrier lie in different %s",
                 form->cta_group == 2 ? "pairs of blocks" : "blocks");
    const SimOp *op = start_load(warp, form, lane, &like, to.cta, to.offset, bar.cta, bar.offset);
    if (!op)
        return sim_fail(warp, "out of memory");
    if (form->direction != SM90_TO_CLUSTER)
        sim_trace_fills(to.cta, op, 1, false);
    return SIM_NEXT;
}

/* The lanes of the mask whose store is that of the lane.  ptxas makes one store of equal operands
 * (of lane-varying ones a loop over the different ones), but of loads, with their mbarrier, and of
 * reductions one for each lane: shipped kernels rely on the first, and sums on the last. */
static uint32_t
lanes_of_store(const SimWarp *warp, const Sm90BulkForm *form, uint32_t lane, uint32_t mask)
{
    uint32_t same = 0;
    if (form->reduce != SM90_COPY)
        return UINT32_C(1) << lane;
    sim_each_lane (l, mask) {
        bool equal = sim_sm90_address(warp, &form->to, l) ==
                         sim_sm90_address(warp, &form->to, lane) &&
                     sim_sm90_address(warp, &form->from, l) ==
                         sim_sm90_address(warp, &form->from, lane);
        for (uint32_t i = 0; i < form->coordinates; i++) {
            const uint32_t *c = sim_r32(warp, form->coordinate[i]);
            equal &= c[l] == c[lane];
        }
        if (!form->tensor)
            equal &= sim_r32(warp, form->size)[l] == sim_r32(warp, form->size)[lane];
        if (form->byte_mask != SIM_NO_SLOT)
            equal &= sim_r32(warp, form->byte_mask)[l] == sim_r32(warp, form->byte_mask)[lane];
        same |= (uint32_t)equal << l;
    }
    return same;
}

static SimStep
bulk(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Sm90BulkForm *form = insn->data;
    for (uint32_t rest = mask, lanes; rest; rest &= ~lanes) {
        uint32_t l = sim_first_lane(rest);
        bool store = form->direction == SM90_STORE;
        lanes = store ? lanes_of_store(warp, form, l, rest) : UINT32_C(1) << l;
        if (lanes & (lanes - 1))
            sim_note(warp, SIM_FIND_RACE, (int32_t)l, 0, NULL,
                     "%d lanes issue one and the same store; it is taken for a single one, as "
                     "assemblers do",
                     __builtin_popcount(lanes));
        SimStep step = store ? issue_store(warp, form, l, lanes) : issue_load(warp, form, l);
        if (step == SIM_FATAL)
            return step;
    }
    warp->cta->cluster->progress++;
    return SIM_YIELD;
}

/* ------------------------------------------------------------------------ decoding */

static bool
take_reduction(SimDecode *dx, Sm90BulkForm *form)
{
    static const char *const ops[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", NULL};
    int op = dec_choice(dx, ops);
    if (op < 0)
        return dec_fail(dx, "needs a reduction");
    form->reduce = (Sm90Reduce)(op + 1);
    dec_take(dx, "noftz");
    if (form->tensor)
        return true;
    form->type = dec_type(dx);
    if (form->type == SIM_NO_TYPE)
        return dec_fail(dx, "needs a type");
    if (form->type == SIM_B32)
        form->type = SIM_U32;
    if (form->type == SIM_B64)
        form->type = SIM_U64;
    return true;
}

/* The tensor map and its coordinates: [map, {c0, c1}]. */
static bool
take_map(SimDecode *dx, const PtxOperand *operand, Sm90BulkForm *form, Sm90Address *address)
{
    if (!operand || operand->kind != PTX_MEMORY || operand->count != 2)
        return dec_fail(dx, "[map, {coordinates}] is expected");
    const PtxOperand *c = &operand->element[1];
    size_t have = c->kind == PTX_VECTOR ? c->count : 1;
    if (have != form->coordinates)
        return dec_fail(dx, "%u coordinates are expected", form->coordinates);
    if (!sim_sm90_take_address(dx, operand, address))
        return false;
    if (!address->wide)
        return dec_fail(dx, "the address of a tensor map is a generic one, of 64 bits");
    for (uint32_t i = 0; i < form->coordinates; i++) {
        if (!dec_src(dx, c->kind == PTX_VECTOR ? &c->element[i] : c, SIM_S32))
            return false;
        form->coordinate[i] = dx->out->slot[dx->out->slot_count - 1];
    }
    return true;
}

static bool
take_slot(SimDecode *dx, const PtxOperand *operand, SimType type, SimSlot *slot)
{
    if (!dec_src(dx, operand, type))
        return false;
    *slot = dx->out->slot[dx->out->slot_count - 1];
    return true;
}

/* {w, h, d}, or {wHalo, wOffset}: how far the pixels lie from those that the coordinates name
 * (5.5.4). */
static bool
take_offsets(SimDecode *dx, const PtxOperand *operand, Sm90BulkForm *form)
{
    if (!dec_src_vector(dx, operand, SIM_U16, form->offsets))
        return false;
    for (uint32_t i = 0; i < form->offsets; i++)
        form->offset[i] = dx->out->slot[dx->out->slot_count - form->offsets + i];
    return true;
}

/* Destination and source, in this order. */
static bool
take_spaces(SimDecode *dx, Sm90BulkForm *form)
{
    const char *seen[2] = {NULL, NULL};
    size_t n = 0;
    for (size_t i = dx->family_parts; i < dx->src->part_count && n < 2; i++) {
        const char *p = dx->src->part[i];
        if (strcmp(p, "global") == 0 || strcmp(p, "shared::cta") == 0 ||
            strcmp(p, "shared::cluster") == 0) {
            seen[n++] = p;
            dx->taken[i] = true;
        }
    }
    if (n < 2)
        return dec_fail(dx, "needs the state spaces of destination and source");
    bool to_global = strcmp(seen[0], "global") == 0, from_global = strcmp(seen[1], "global") == 0;
    bool from_cta = strcmp(seen[1], "shared::cta") == 0;
    bool to_cluster = strcmp(seen[0], "shared::cluster") == 0;
    if (to_global && from_cta)
        form->direction = SM90_STORE;
    else if (!to_global && from_global)
        form->direction = SM90_LOAD;
    else if (to_cluster && from_cta)
        form->direction = SM90_TO_CLUSTER;
    else
        return dec_fail(dx, "a copy from %s to %s does not exist", seen[1], seen[0]);
    form->to_space = to_cluster ? SIM_SHARED_CLUSTER : SIM_SHARED;
    return true;
}

/* The mode, and how many offsets it has: of a wide one wHalo and wOffset. */
static bool
take_im2col(SimDecode *dx, Sm90BulkForm *form)
{
    static const char *const modes[] = {"im2col", "im2col::w", "im2col::w::128", NULL};
    bool load = form->direction == SM90_LOAD;
    form->im2col = load ? (uint8_t)(dec_choice(dx, modes) + 1) : dec_take(dx, "im2col_no_offs");
    if (form->im2col && form->dims < 3)
        return dec_fail(dx, "im2col needs .3d to .5d");
    if (form->im2col && load)
        form->offsets = form->im2col == SIM_IM2COL ? (uint8_t)(form->dims - 2) : 2;
    return true;
}

static bool
take_modifiers(SimDecode *dx, Sm90BulkForm *form, bool reduce, bool *policy, bool *masked)
{
    static const char *const dims[] = {"1d", "2d", "3d", "4d", "5d", NULL};
    static const char *const groups[] = {"cta_group::1", "cta_group::2", NULL};
    if (!take_spaces(dx, form))
        return false;
    if (form->tensor) {
        int d = dec_choice(dx, dims);
        if (d < 0)
            return dec_fail(dx, "needs .1d to .5d");
        form->dims = (uint8_t)(d + 1);
        dec_take(dx, "tile");
        bool gather = dec_take(dx, "tile::gather4"), scatter = dec_take(dx, "tile::scatter4");
        form->four_rows = gather || scatter;
        form->coordinates = form->four_rows ? 5 : form->dims;
        if (form->four_rows && (gather != (form->direction == SM90_LOAD) || d != 1 || reduce))
            return dec_fail(dx, "gather4 loads, scatter4 stores, both in .2d");
        if (!take_im2col(dx, form))
            return false;
    }
    bool by_barrier = dec_take(dx, "mbarrier::complete_tx::bytes");
    bool by_group = dec_take(dx, "bulk_group");
    if (by_group != (form->direction == SM90_STORE) || by_barrier == by_group)
        return dec_fail(dx, "needs .%s",
                        form->direction == SM90_STORE ? "bulk_group"
                                                      : "mbarrier::complete_tx::bytes");
    form->multicast = dec_take(dx, "multicast::cluster");
    form->cta_group = (uint8_t)(dec_choice(dx, groups) + 1);
    *policy = dec_take(dx, "L2::cache_hint");
    *masked = dec_take(dx, "cp_mask");
    return !reduce || take_reduction(dx, form);
}

bool
sim_sm90_decode_bulk_form(SimDecode *dx, bool tensor, bool reduce)
{
    Sm90BulkForm *form = sim_arena_alloc(&dx->mod->arena, sizeof *form);
    bool policy = false, masked = false;
    size_t at = 0;
    form->tensor = tensor;
    form->cta_mask = form->byte_mask = SIM_NO_SLOT;
    if (!take_modifiers(dx, form, reduce, &policy, &masked))
        return false;
    bool store = form->direction == SM90_STORE;
    size_t n = 2u + !tensor + !store + (form->offsets > 0) + form->multicast + policy + masked;
    if (!dec_count(dx, n, n))
        return false;
    if (tensor && store ? !take_map(dx, dec_operand(dx, at++), form, &form->to)
                        : !sim_sm90_take_address(dx, dec_operand(dx, at++), &form->to))
        return false;
    if (tensor && !store ? !take_map(dx, dec_operand(dx, at++), form, &form->from)
                         : !sim_sm90_take_address(dx, dec_operand(dx, at++), &form->from))
        return false;
    if (!tensor && !take_slot(dx, dec_operand(dx, at++), SIM_U32, &form->size))
        return false;
    if (!store && !sim_sm90_take_address(dx, dec_operand(dx, at++), &form->mbarrier))
        return false;
    if (form->offsets && !take_offsets(dx, dec_operand(dx, at++), form))
        return false;
    if (form->multicast && !take_slot(dx, dec_operand(dx, at++), SIM_B16, &form->cta_mask))
        return false;
    SimSlot unused;
    if (policy && !take_slot(dx, dec_operand(dx, at++), SIM_B64, &unused))
        return false;
    if (masked && !take_slot(dx, dec_operand(dx, at++), SIM_B16, &form->byte_mask))
        return false;
    dx->out->data = form;
    dx->out->exec = bulk;
    return true;
}

bool
sim_sm90_decode_bulk(SimDecode *dx)
{
    return sim_sm90_decode_bulk_form(dx, false, false);
}
bool
sim_sm90_decode_bulk_reduce(SimDecode *dx)
{
    return sim_sm90_decode_bulk_form(dx, false, true);
}
bool
sim_sm90_decode_tensor(SimDecode *dx)
{
    return sim_sm90_decode_bulk_form(dx, true, false);
}
bool
sim_sm90_decode_tensor_reduce(SimDecode *dx)
{
    return sim_sm90_decode_bulk_form(dx, true, true);
}

/* A prefetch has no effect that can be seen. */
static SimStep
prefetch(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)warp, (void)insn, (void)mask;
    return SIM_NEXT;
}
bool
sim_sm90_decode_bulk_prefetch(SimDecode *dx)
{
    while (dec_next(dx))
        continue;
    dx->out->exec = prefetch;
    return dec_count(dx, 1, 3);
}

/* ------------------------------------------------------------------------ the end of a cluster */

/* Nobody waited for it, so it may write or read shared memory that is gone. */
void
sim_sm90_finish(SimCluster *cluster)
{
    for (size_t i = 0; cluster->run->checks && i < cluster->op_count; i++) {
        const SimOp *op = cluster->ops[i];
        if (op->seen || (op->land != sim_sm90_land_load && op->land != land_reader))
            continue;
        bool load = op->land == sim_sm90_land_load;
        sim_find_at(cluster, op->cta, SIM_FIND_LEAK, op->insn, (int32_t)op->warp->index, -1, 0,
                    NULL,
                    load ? "the kernel ends without anybody having waited for this copy into "
                           "shared memory"
                         : "the kernel ends without having waited until this copy has read "
                           "shared memory");
    }
    sim_sm90_finish_barriers(cluster);
}
