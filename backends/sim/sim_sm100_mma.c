/* sim_sm100_mma.c - tcgen05.mma: forms, instruction descriptors, checks at issue (PTX
 * ISA 9.7.16.2.1, 9.7.16.4.2, 9.7.16.10.9). */
#include "sim_sm100.h"
#include "sim_trace.h"

/* ------------------------------------------------------------------------ instruction descriptor
 */

static const SimType narrow_types[8] = {SIM_E4M3, SIM_E5M2, SIM_NO_TYPE, SIM_E2M3,
                                        SIM_E3M2, SIM_E2M1, SIM_NO_TYPE, SIM_NO_TYPE};

static SimType
operand_type(MmaKind kind, uint32_t code)
{
    static const SimType f16[8] = {SIM_F16, SIM_BF16}, i8[8] = {SIM_U8, SIM_S8};
    switch (kind) {
    case KIND_F16: return f16[code];
    case KIND_TF32: return code == 2 ? SIM_TF32 : SIM_NO_TYPE;
    case KIND_I8: return i8[code];
    case KIND_MXF4:
    case KIND_MXF4NVF4: return code == 1 ? SIM_E2M1 : SIM_NO_TYPE;
    default: return narrow_types[code];
    }
}

/* Table 39.  NULL if the shape exists. */
static const char *
wrong_shape(const MmaForm *form, const MmaShape *s)
{
    uint32_t m = s->m, n = s->n;
    bool scaled = form->scale_vector != 0;
    if (form->ws && form->sparse && n == 256)
        return ".ws with a sparse A has N of 64, 128";
    if (form->ws)
        return (m == 32 || m == 64 || m == 128) && (n == 64 || n == 128 || n == 256)
                   ? NULL
                   : ".ws has M of 32, 64, 128 and N of 64, 128, 256";
    if (form->group == 1) {
        if (!(m == 128 || (m == 64 && !scaled)))
            return scaled ? "M must be 128" : "M must be 64 or 128 with .cta_group::1";
        if (n < 8 || n > 256 || (form->kind == KIND_I8 && n > 32 && n % 16))
            return "N is not among those of this kind";
    } else {
        uint32_t step = form->kind == KIND_I8 ? 32 : 16;
        if (scaled && form->sparse && m != 256)
            return "M must be 256 with .cta_group::2, block scales and a sparse A";
        if (m != 128 && m != 256)
            return "M must be 128 or 256 with .cta_group::2";
        if (n < step || n > 256 || n % step)
            return form->kind == KIND_I8 ? "N must be a multiple of 32 from 32 to 256"
                                         : "N must be a multiple of 16 from 16 to 256";
    }
    if (s->transpose_b && tensor_element_bytes(form->kind) == 1 &&
        n % (form->group == 1 ? 16 : 32)) /* table 52 */
        return "N does not fit an 8-bit B with N as its leading dimension";
    return NULL;
}

static const char *
decode_descriptor(const MmaForm *form, uint32_t bits, MmaShape *s)
{
    MmaKind kind = form->kind;
    bool scaled = form->scale_vector != 0, four = kind == KIND_MXF4 || kind == KIND_MXF4NVF4;
    memset(s, 0, sizeof *s);
    if ((bits >> 2 & 1) != form->sparse)
        return form->sparse ? "bit 2 says dense, the instruction is sparse"
                            : "bit 2 says sparse, the instruction is dense";
    s->selector = bits & 3;
    if (s->selector && (scaled || !form->sparse))
        return scaled ? "bits 0-1 are reserved"
                      : "bits 0-1 select sparsity metadata, there is none";
    if (s->selector && (kind == KIND_F8F6F4 || kind == KIND_I8)) /* 9.7.16.10.8.4.6 */
        return "bits 0-1: the sparsity selector of this kind must be 0";
    if (bits >> 6 & 1)
        return "bit 6 is reserved";
    s->saturate = bits >> 3 & 1;
    if (s->saturate && kind != KIND_I8)
        return scaled ? "bit 3 is reserved" : "bit 3 (saturate) is for kind::i8";
    s->a = operand_type(kind, bits >> 7 & 7);
    s->b = operand_type(kind, four ? bits >> 10 & 3 : bits >> 10 & 7);
    if (!s->a || !s->b)
        return s->a ? "bits 10-12 hold no type of B of this kind"
                    : "bits 7-9 hold no type of A of this kind";
    if (four && bits >> 12 & 1)
        return "bit 12 is reserved";
    s->negate_a = bits >> 13 & 1;
    s->negate_b = bits >> 14 & 1;
    s->transpose_a = bits >> 15 & 1;
    s->transpose_b = bits >> 16 & 1;
    if (kind == KIND_I8 && (s->negate_a || s->negate_b))
        return "bits 13-14: kind::i8 cannot negate";
    if (four && (s->transpose_a || s->transpose_b))
        return "bits 15-16: 4-bit kinds cannot transpose";
    s->n = (bits >> 17 & 0x3f) << 3;
    s->m = (bits >> 24 & 0x1f) << 4;
    s->stored = four ? 64 : 32 / tensor_element_bytes(kind);
    s->k = form->sparse ? 2 * s->stored : s->stored;
    if (scaled) {
        s->scale_b_id = bits >> 4 & 3;
        s->scale_a_id = bits >> 29 & 3;
        s->d = SIM_F32;
        s->scale_ue4m3 = !(bits >> 23 & 1);
        if (bits >> 24 & 7)
            return "bits 24-26 are reserved";
        if (s->scale_ue4m3 && kind != KIND_MXF4NVF4)
            return "bit 23 must say UE8M0 scales for this kind";
        if (s->scale_ue4m3 && form->scale_vector != 4)
            return "UE4M3 scales need .scale_vec::4X or .block16";
        if (form->scale_vector == 2 && (s->scale_a_id & 1 || s->scale_b_id & 1))
            return "a scale factor id must be 0 or 2 when a row has two scales";
        if (form->scale_vector == 4 && (s->scale_a_id || s->scale_b_id))
            return "a scale factor id must be 0 when a row has four scales";
        if (bits >> 31)
            return four ? "bit 31: K of 96 exists on sm_103a only" : "bit 31 is reserved";
    } else {
        static const SimType d_types[4] = {SIM_F16, SIM_F32, SIM_S32, SIM_NO_TYPE};
        s->d = d_types[bits >> 4 & 3];
        bool fits = kind == KIND_I8 ? s->d == SIM_S32
                                    : s->d == SIM_F32 || (s->d == SIM_F16 && kind != KIND_TF32);
        if (!fits)
            return "bits 4-5 hold no type of D of this kind";
        if (s->d == SIM_F16 && kind == KIND_F16 && (s->a != SIM_F16 || s->b != SIM_F16))
            return "bits 4-5: D of f16 needs A and B of f16";
        if (bits >> 23 & 1 || bits >> 29 & 1)
            return "a bit among 23 and 29 is set, which are reserved";
        if (bits >> 30 && !form->ws)
            return "bits 30-31 are for .ws";
    }
    return wrong_shape(form, s);
}

/* ------------------------------------------------------------------------ checks at issue */

static bool
invalid(SimWarp *warp, uint32_t lane, uint64_t value, const char *what)
{
    sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, value, NULL, "%s", what);
    return false;
}

/* What the ISA allows and the simulator cannot do ends the launch. */
static bool
unsupported(SimWarp *warp, const char *what)
{
    sim_fail(warp, "%s is not supported", what);
    return false;
}

static bool
check_matrix(SimWarp *warp, SimOp *op, uint32_t lane, const Product *p, const SharedMatrix *matrix,
             uint32_t rows, uint32_t columns, SimType type, const char *name)
{
    uint32_t used = tensor_chunk_bytes(p->form->kind, type);
    uint32_t element = tensor_element_bytes(p->form->kind);
    bool tf32_atoms = matrix->mode == 1;
    if (!matrix->transposed && tf32_atoms)
        return unsupported(warp, "128-byte swizzling with 32-byte atoms and K leading");
    if (matrix->transposed && (element == 4) != tf32_atoms) { /* table 54 */
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, matrix->mode, NULL,
                 "%s: 32-bit types with M or N leading need 128-byte swizzling with 32-byte atoms, "
                 "other types must not have it",
                 name);
        return false;
    }
    uint32_t row_bytes = 32 * (columns / p->shape.stored);
    if (!matrix->transposed && matrix->mode == 6 &&
        row_bytes > 32) /* "swizzled layouts: not used" */
        return unsupported(warp, "a row of 64 bytes with K leading under 32-byte swizzling");
    uint32_t lines = matrix->transposed ? columns : rows;
    uint32_t bytes = matrix->transposed ? rows * element : row_bytes;
    op->lane = (uint8_t)(lane + 1);
    for (uint32_t half = 0; half < p->form->group; half++) {
        SimCta *cta = tensor_pair(op->cta, p->form->group, half);
        for (uint32_t r = 0; r < lines; r++)
            for (uint32_t at = 0; at < bytes; at += 16) {
                uint32_t part, chunks = tensor_chunks_together(matrix, r, at, bytes, &part);
                if (used == 16 && chunks > 1 && cta->shadow && part < cta->shared_size &&
                    cta->shared_size - part >= 16 * chunks &&
                    sim_shadow_async_read_quietly(warp, op, cta, part, 16 * chunks, true)) {
                    at += 16 * (chunks - 1);
                    continue;
                }
                uint32_t offset = tensor_chunk(matrix, r, at);
                if (offset > cta->shared_size || cta->shared_size - offset < 16) {
                    sim_find(warp, SIM_FIND_OUT_OF_BOUNDS, (int32_t)lane, offset + SIM_SHARED_BASE,
                             NULL, "matrix %s lies outside the block's %u bytes of shared memory",
                             name, cta->shared_size);
                    return false;
                }
                sim_shadow_async_read(warp, op, cta, offset, used, true);
            }
    }
    return true;
}

/* Notes lanes [0, 128) or the strips of D for one block. */
static void
note_d(SimWarp *warp, SimOp *op, const Product *p, uint32_t half, bool write)
{
    SimCta *cta = tensor_pair(op->cta, p->form->group, half);
    uint32_t rows = p->shape.m / p->form->group, width = p->shape.n / p->parts;
    for (uint32_t part = 0; part < p->parts; part++)
        for (uint32_t row = 0; row < rows; row += TENSOR_STRIP) {
            uint32_t lane = tensor_row_lane(p, row) + part * tensor_part_lanes(p);
            uint32_t off = p->disabled[4 * half + lane / 32] >> lane % 32;
            tensor_note(warp, op, cta, lane / TENSOR_STRIP, (uint16_t)~off, p->d_address & 0xffff,
                        width, write);
        }
}

static void
note_a(SimWarp *warp, SimOp *op, const Product *p, uint32_t half)
{
    SimCta *cta = tensor_pair(op->cta, p->form->group, half);
    uint32_t rows = p->shape.m / p->form->group;
    for (uint32_t row = 0; row < rows; row += TENSOR_STRIP)
        for (uint32_t copy = 0; copy < (p->parts == 2 ? 2u : 1u); copy++)
            tensor_note(warp, op, cta, tensor_row_lane(p, row) / TENSOR_STRIP + 4 * copy, 0xffff,
                        p->a_address & 0xffff, 8, false);
}

static bool
note_scales(SimWarp *warp, SimOp *op, const Product *p, uint32_t half, uint32_t address,
            uint32_t rows)
{
    SimCta *cta = tensor_pair(op->cta, p->form->group, half);
    uint32_t columns = (rows + 31) / 32;
    if (!tensor_in_bounds(warp, tensor_op(op)->lane, cta, address, columns))
        return false;
    for (uint32_t s = 0; s < TENSOR_STRIPS; s++)
        tensor_note(warp, op, cta, s, 0xffff, address & 0xffff, columns, false);
    return true;
}

/* Every lane: of fewer rows than a block has the metadata are there again for the other parts of
 * N. */
static bool
note_metadata(SimWarp *warp, SimOp *op, const Product *p, uint32_t half)
{
    SimCta *cta = tensor_pair(op->cta, p->form->group, half);
    uint32_t columns = tensor_metadata_columns(p), from = p->metadata + p->shape.selector;
    if (!tensor_in_bounds(warp, tensor_op(op)->lane, cta, from, columns))
        return false;
    for (uint32_t s = 0; s < TENSOR_STRIPS; s++)
        tensor_note(warp, op, cta, s, 0xffff, from & 0xffff, columns, false);
    return true;
}

/* Operands in tensor memory: where they may lie, and who else touches them. */
static bool
check_tensor_memory(SimWarp *warp, SimOp *op, uint32_t lane, const Product *p)
{
    const MmaForm *form = p->form;
    uint32_t rows = p->shape.m / form->group, width = p->shape.n / p->parts;
    bool half_used = rows == 64 && form->group == 1 && !form->ws; /* layout F */
    uint32_t base = p->d_address >> 16;
    if (base != 0 && !(half_used && base == 16))
        return invalid(warp, lane, p->d_address,
                       half_used ? "the lane of D must be 0 or 16 (9.7.16.10.5)"
                                 : "the lane of D must be 0 (9.7.16.10.5)");
    if (form->a_in_tensor_memory && p->a_address >> 16 != base)
        return invalid(warp, lane, p->a_address,
                       "A and D must be at the same lane of tensor memory (9.7.16.10.5)");
    for (uint32_t half = 0; half < form->group; half++) {
        SimCta *cta = tensor_pair(op->cta, form->group, half);
        if (!tensor_in_bounds(warp, (int32_t)lane, cta, p->d_address, width) ||
            (form->a_in_tensor_memory &&
             !tensor_in_bounds(warp, (int32_t)lane, cta, p->a_address, 8)))
            return false;
        if (form->scale_vector && (!note_scales(warp, op, p, half, p->scale_a, rows) ||
                                   !note_scales(warp, op, p, half, p->scale_b, p->shape.n)))
            return false;
        if (form->sparse && !note_metadata(warp, op, p, half))
            return false;
        if (form->a_in_tensor_memory)
            note_a(warp, op, p, half);
        if (p->enable_d)
            note_d(warp, op, p, half, false);
        note_d(warp, op, p, half, true);
    }
    return true;
}

/* ------------------------------------------------------------------------ execution */

/* Figures show where metadata lie for M of 64 a block, which has half of the lanes, and which
 * columns the selectors 2 and 3 name; no published kernel uses them. */
static bool
read_metadata(SimWarp *warp, const SimInsn *insn, uint32_t lane, Product *p)
{
    const MmaForm *form = insn->data;
    const MmaShape *s = &p->shape;
    p->metadata = tensor_address(warp, insn, &form->metadata, lane);
    if (p->metadata >> 16)
        return invalid(warp, lane, p->metadata, "the lane of the metadata must be that of D, 0");
    if (!form->ws && s->m / form->group < TENSOR_LANES)
        return unsupported(warp,
                           "a sparse A of 64 rows a block, whose metadata the PTX ISA shows as a "
                           "figure only,");
    if (s->selector > 1)
        return unsupported(warp,
                           "a sparsity selector of 2 or 3, which the PTX ISA shows as a figure "
                           "only,");
    if (p->metadata & 1)
        return unsupported(warp, "metadata at an odd column of tensor memory");
    return true;
}

static bool
read_operands(SimWarp *warp, const SimInsn *insn, uint32_t lane, Product *p)
{
    const MmaForm *form = insn->data;
    const MmaShape *s = &p->shape;
    if (form->group == 2 && (warp->cta->rank | 1) >= warp->cta->cluster->cta_count)
        return invalid(warp, lane, 0,
                       ".cta_group::2 in a block that has no peer: launch it in "
                       "clusters of an even size");
    p->form = form;
    p->parts = form->ws && s->m == 64            ? 2
               : form->ws && s->m == 32          ? 4
               : form->group == 2 && s->m == 128 ? 2
                                                 : 1;
    if (form->sparse && !read_metadata(warp, insn, lane, p))
        return false;
    p->d_address = tensor_address(warp, insn, &form->d, lane);
    uint32_t enabled = *sim_rp(warp, insn->slot[form->enable_slot]) >> lane & 1;
    p->enable_d = enabled != form->negated;
    for (uint32_t i = 0; i < form->mask_count; i++)
        p->disabled[i] = sim_r32(warp, insn->slot[form->mask_slot + i])[lane];
    if (form->has_zero_mask) {
        uint64_t zero = sim_r64(warp, insn->slot[form->zero_slot])[lane];
        if (zero >> 36 & 7)
            return invalid(warp, lane, zero, "bits 36-38 of the zero-column mask are reserved");
        if (zero >> 39 & 1 || zero >> 56 & 0x3f)
            return unsupported(warp, "a zero-column mask that is not zero");
    }
    if (form->a_in_tensor_memory) {
        p->a_address = tensor_address(warp, insn, &form->a, lane);
        if (s->transpose_a)
            return invalid(warp, lane, 0, "A in tensor memory cannot be transposed");
        if (s->a == SIM_E2M3 || s->a == SIM_E3M2 || s->a == SIM_E2M1)
            return unsupported(warp, "A of 4 or 6 bits in tensor memory, whose packing the PTX ISA "
                                     "shows as a figure only,");
        if (form->ws && s->m < 128)
            return unsupported(warp, "A in tensor memory with .ws and M below 128");
    } else if (!tensor_descriptor(warp, (int32_t)lane,
                                  sim_r64(warp, insn->slot[form->a_slot])[lane], &p->a)) {
        return false;
    }
    if (!tensor_descriptor(warp, (int32_t)lane, sim_r64(warp, insn->slot[form->b_slot])[lane],
                           &p->b))
        return false;
    p->a.transposed = s->transpose_a;
    p->b.transposed = s->transpose_b;
    if (form->scale_vector) {
        if (form->group == 2 && s->m == 128)
            return unsupported(warp, "block scaling with M of 128 over a pair");
        p->scale_a = tensor_address(warp, insn, &form->scale_a, lane);
        p->scale_b = tensor_address(warp, insn, &form->scale_b, lane);
    }
    return true;
}

static bool
issue(SimWarp *warp, const SimInsn *insn, uint32_t lane)
{
    const MmaForm *form = insn->data;
    TensorWarp *tw = tensor_warp(warp);
    uint32_t bits = sim_r32(warp, insn->slot[form->idesc_slot])[lane];
    MmaShape shape;
    const char *wrong = decode_descriptor(form, bits, &shape);
    if (wrong) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, bits, NULL,
                 "instruction descriptor 0x%08x (M %u, N %u): %s", bits, shape.m, shape.n, wrong);
        return true;
    }
    size_t words = (size_t)shape.m * shape.k + (size_t)shape.k * shape.n;
    size_t stored = form->sparse ? (size_t)shape.m * shape.stored : 0;
    SimOp *op = tensor_op_new(warp, sizeof(Product) + (words + stored) * sizeof(uint32_t),
                              TENSOR_MMA, lane, form->group);
    if (!op || !tw)
        return false;
    Product *p = op->payload;
    TensorOp *t = tensor_op(op);
    p->shape = shape;
    p->a_value = p->room;
    p->b_value = p->room + (size_t)shape.m * shape.k;
    p->a_stored = form->sparse ? p->room + words : p->a_value;
    op->landed = true; /* until it is started */
    if (!read_operands(warp, insn, lane, p))
        return true;
    t->d = p->d_address;
    t->m = shape.m;
    t->n = shape.n / p->parts;
    t->k = shape.k | (uint32_t)form->ws << 16;
    if (form->a_in_tensor_memory) {
        t->reads[0] = p->a_address & 0xffff;
        t->read_columns[0] = 8;
    }
    if (form->scale_vector) {
        t->reads[1] = p->scale_a & 0xffff;
        t->read_columns[1] = (shape.m / form->group + 31) / 32;
        t->reads[2] = p->scale_b & 0xffff;
        t->read_columns[2] = (shape.n + 31) / 32;
    }
    if (form->sparse) {
        t->reads[3] = (p->metadata & 0xffff) + shape.selector;
        t->read_columns[3] = tensor_metadata_columns(p);
    }
    if ((!form->a_in_tensor_memory && !check_matrix(warp, op, lane, p, &p->a, shape.m / form->group,
                                                    shape.stored, shape.a, "A")) ||
        !check_matrix(warp, op, lane, p, &p->b, shape.n / form->group, shape.k, shape.b, "B") ||
        !check_tensor_memory(warp, op, lane, p))
        return true;
    if (!tensor_list_add(&tw->issued[lane], op))
        return false;
    op->landed = false;
    op->fetch = tensor_product_fetch;
    op->land = tensor_product_land;
    sim_trace_started(warp, op, 0);
    sim_trace_product(warp->cta->cluster, op,
                      (SimTracedProduct){.m = (uint16_t)shape.m,
                                         .n = (uint16_t)shape.n,
                                         .blocks = form->group,
                                         .a_shared = !form->a_in_tensor_memory});
    sim_op_start(warp->cta->cluster, op, true);
    return true;
}

/* Each thread that executes it issues one (9.7.16.5). */
static SimStep
tcgen05_mma(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    if (!tensor_memory(warp->cta))
        return sim_fail(warp, "out of memory");
    sim_each_lane (l, mask)
        if (!issue(warp, insn, l))
            return sim_fail(warp, "out of memory");
    return warp->run->stop ? SIM_FATAL : SIM_NEXT;
}

/* ------------------------------------------------------------------------ decoding */

static bool
decode_scale_vector(SimDecode *dx, MmaForm *form)
{
    static const char *const words[] = {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X",
                                        "block16",       "block32",       NULL};
    int word = dec_choice(dx, words);
    MmaKind kind = form->kind;
    if (!dec_take(dx, "block_scale"))
        return dec_fail(dx, "kinds with mx need .block_scale");
    if (word < 0 && kind == KIND_MXF4NVF4)
        return dec_fail(dx, "kind::mxf4nvf4 needs a scale vector size");
    if (kind == KIND_MXF8F6F4 && (word < 0 || word == 0 || word == 4))
        form->scale_vector = 1;
    else if (kind != KIND_MXF8F6F4 && (word < 0 || word == 1 || word == 4))
        form->scale_vector = 2;
    else if (kind == KIND_MXF4NVF4 && (word == 2 || word == 3))
        form->scale_vector = 4;
    else
        return dec_fail(dx, ".%s does not go with this kind (table 57)", words[word]);
    return true;
}

/* Collector qualifiers only permit reuse of what must not change anyway (9.7.16.10). */
static bool
decode_collector(SimDecode *dx, const MmaForm *form)
{
    static const char *const a[] = {"collector::a::fill", "collector::a::use",
                                    "collector::a::lastuse", "collector::a::discard", NULL};
    static const char *const buffers[] = {"b0", "b1", "b2", "b3"};
    static const char *const ops[] = {"fill", "use", "lastuse", "discard"};
    if (!form->ws) {
        dec_choice(dx, a);
        return true;
    }
    for (size_t b = 0; b < 4; b++)
        for (size_t o = 0; o < 4; o++) {
            char word[40];
            snprintf(word, sizeof word, "collector::%s::%s", buffers[b], ops[o]);
            if (dec_take(dx, word))
                return true;
        }
    return true;
}

static uint8_t
next_slot(const SimDecode *dx)
{
    return dx->out->slot_count;
}

/* After idesc: scales, or a mask of lanes; enable-input-d; scale-input-d or the zero-column mask.
 */
static bool
decode_tail(SimDecode *dx, MmaForm *form)
{
    size_t at = form->sparse ? 5 : 4;
    if (form->scale_vector) {
        if (!tensor_decode_address(dx, dec_operand(dx, at), &form->scale_a) ||
            !tensor_decode_address(dx, dec_operand(dx, at + 1), &form->scale_b))
            return false;
        at += 2;
    } else if (!form->ws && at < dx->operand_count && dec_operand(dx, at)->kind == PTX_VECTOR) {
        form->mask_slot = next_slot(dx);
        form->mask_count = form->group == 1 ? 4 : 8;
        if (!dec_src_vector(dx, dec_operand(dx, at), SIM_B32, form->mask_count))
            return false;
        at++;
    }
    bool negated = false;
    form->enable_slot = next_slot(dx);
    if (!dec_pred(dx, dec_operand(dx, at), &negated))
        return false;
    form->negated = negated;
    at++;
    if (at == dx->operand_count)
        return true;
    if (form->ws) {
        form->has_zero_mask = true;
        form->zero_slot = next_slot(dx);
        return dec_count(dx, at + 1, at + 1) && dec_src(dx, dec_operand(dx, at), SIM_B64);
    }
    int64_t scale;
    if (form->kind != KIND_F16 && form->kind != KIND_TF32)
        return dec_fail(dx, "scale-input-d is for kind::f16 and kind::tf32");
    if (!dec_count(dx, at + 1, at + 1) || !dec_immediate(dx, dec_operand(dx, at), &scale))
        return false;
    if (scale < 0 || scale > 15)
        return dec_fail(dx, "scale-input-d must be 0 to 15");
    form->scale_d = (uint8_t)scale;
    return true;
}

bool
sim_decode_tcgen05_mma(SimDecode *dx)
{
    static const char *const kinds[] = {
        "kind::f16",      "kind::tf32", "kind::f8f6f4",   "kind::i8",
        "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4", NULL};
    MmaForm *form = sim_arena_alloc(&dx->mod->arena, sizeof *form);
    form->ws = dec_take(dx, "ws");
    form->sparse = dec_take(dx, "sp");
    if (dec_take(dx, "ashift"))
        return dec_fail(dx, ".ashift is not supported: the PTX ISA leaves open which way rows move");
    form->group = (uint8_t)tensor_take_group(dx);
    int kind = dec_choice(dx, kinds);
    if (!form->group)
        return false;
    if (kind < 0)
        return dec_fail(dx, "needs a .kind");
    form->kind = (MmaKind)kind;
    if (form->ws && (form->group == 2 || kind >= KIND_MXF8F6F4))
        return dec_fail(dx, ".ws is for .cta_group::1 and kinds without block scales");
    if (kind >= KIND_MXF8F6F4 && !decode_scale_vector(dx, form))
        return false;
    size_t most = (form->scale_vector || !form->ws ? 7u : 6u) + form->sparse;
    if (!decode_collector(dx, form) ||
        !dec_count(dx, (form->scale_vector ? 7u : 5u) + form->sparse, most))
        return false;
    if (!tensor_decode_address(dx, dec_operand(dx, 0), &form->d))
        return false;
    form->a_in_tensor_memory = dec_operand(dx, 1)->kind == PTX_MEMORY;
    form->a_slot = next_slot(dx);
    if (!(form->a_in_tensor_memory ? tensor_decode_address(dx, dec_operand(dx, 1), &form->a)
                                   : dec_src(dx, dec_operand(dx, 1), SIM_B64)))
        return false;
    form->b_slot = next_slot(dx);
    if (!dec_src(dx, dec_operand(dx, 2), SIM_B64))
        return false;
    if (form->sparse && !tensor_decode_address(dx, dec_operand(dx, 3), &form->metadata))
        return false;
    form->idesc_slot = next_slot(dx);
    if (!dec_src(dx, dec_operand(dx, form->sparse ? 4 : 3), SIM_B32) || !decode_tail(dx, form))
        return false;
    dx->out->data = form;
    dx->out->exec = tcgen05_mma;
    return true;
}
