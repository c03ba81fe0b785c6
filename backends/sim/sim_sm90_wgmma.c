/* sim_sm90_wgmma.c - warpgroup matrix products (PTX ISA 9.7.15).
 *
 * The four warps of a warpgroup issue the same wgmma at their own times; number i of one warp and
 * number i of another are the same product.  Once all four have issued it, it is an op like any
 * other: it reads shared memory and completes when the seed says, in order of issue.  A warp that
 * waits for a group waits until its products are issued by all, and then makes them complete.
 */
#include "sim_sm90_wgmma.h"

#include <stdlib.h>

#include "sim_exec.h"
#include "sim_matrix.h"
#include "sim_mma.h"
#include "sim_trace.h"

enum { WARPS = 4, ROWS = 64 };

typedef struct Product {
    SimOp *op;
    const SimInsn *insn;
    uint32_t issued; /* warps, a bit each */
    uint64_t descriptor[2];
    bool scale_d, mismatch;
} Product;

struct Sm90Warpgroup {
    Product *product;
    size_t count, capacity;
    size_t issued[WARPS]; /* by warp: how many */
    size_t waited[WARPS]; /* of them, the first so many are known to be complete */
    size_t *group[WARPS]; /* ends of the committed groups */
    size_t group_count[WARPS], group_capacity[WARPS];
};

/* The warp's part: where its fragments live, and its A registers as they were at the issue. */
typedef struct Part {
    const SimFrame *frame;
    const SimFunction *function;
    uint8_t *registers;
    SimWarp *warp;
    uint32_t a[4][SIM_LANES];
    uint32_t metadata[SIM_LANES];
} Part;

typedef struct Payload {
    const Sm90Wgmma *form;
    SimCta *cta;
    uint64_t a_descriptor, b_descriptor;
    bool scale_d;
    Part part[WARPS];
    float *a, *b; /* [64][k] and [k][n]; for integers the same bits are int32_t */
} Payload;

static void
warpgroup_free(Sm90Warpgroup *g)
{
    for (int w = 0; w < WARPS; w++)
        free(g->group[w]);
    free(g->product);
    free(g);
}

static Sm90Warpgroup *
warpgroup_of(SimWarp *warp)
{
    Sm90Cta *s = sim_sm90_cta(warp->cta);
    if (!s)
        return NULL;
    Sm90Warpgroup **at = &s->warpgroup[warp->index / WARPS];
    s->free_warpgroup = warpgroup_free;
    if (!*at)
        *at = sim_calloc(1, sizeof **at);
    return *at;
}

/* ------------------------------------------------------------------------ descriptors */

/* Bits 14-15, 30-31, 46-48 and 52-61 are reserved; the base offset is for patterns that do not
 * start at their natural boundary. */
#define DESCRIPTOR_RESERVED UINT64_C(0x3ff1c000c000c000)

static bool
check_descriptor(SimWarp *warp, uint64_t d, const char *which)
{
    uint32_t base = (uint32_t)(d >> 49 & 7);
    if (d & DESCRIPTOR_RESERVED) {
        sim_find(warp, SIM_FIND_INVALID, -1, d, NULL,
                 "the descriptor of %s, %016llx, has reserved bits set: %016llx", which,
                 (unsigned long long)d, (unsigned long long)(d & DESCRIPTOR_RESERVED));
        return false;
    }
    if (base) {
        sim_fail(warp, "the descriptor of %s has a base offset of %u: only 0 is supported", which,
                 base);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------ fetch and land */

/* A fragments (9.7.15.5.1.1): 32-bit register j of lane l holds row 16w + l/4 + 8(j&1) and the
 * bytes 4(l%4) + 16(j>>1) of that row's 32 bytes of K. */
static void
unpack_a(const Payload *p, float *a, uint32_t columns)
{
    uint32_t per_word = 4 / sim_sm90_element_bytes(p->form->a_type);
    uint32_t length = 4 * per_word; /* of four lanes, which have a row's part */
    for (uint32_t w = 0; w < WARPS; w++)
        for (uint32_t j = 0; j < 4; j++) {
            float wide[4 * SIM_LANES];
            float *to = a + (16 * w + 8 * (j & 1)) * columns + (j >> 1) * length;
            sim_sm90_widen(wide, p->part[w].a[j], p->form->a_type, SIM_LANES * per_word);
            for (uint32_t row = 0; row < 8; row++)
                memcpy(to + row * columns, wide + row * length, length * sizeof *to);
        }
}

static void
negate(float *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        values[i] = -values[i];
}

static uint32_t
stored_columns(const Sm90Wgmma *f)
{
    return f->sparse ? f->k / 2u : f->k;
}

/* Puts the stored columns of A where the metadata of each warp, for its 16 rows, says. */
static void
spread(const Payload *p, const float *stored)
{
    const Sm90Wgmma *f = p->form;
    uint32_t columns = stored_columns(f), bits = 8 * sim_sm90_element_bytes(f->a_type);
    memset(p->a, 0, sizeof *p->a * ROWS * f->k);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t c = 0; c < columns; c++)
            p->a[r * f->k + sim_sparse_column(p->part[r / 16].metadata, bits, f->k, f->selector,
                                              r % 16, c)] = stored[r * columns + c];
}

static void
fetch_product(SimCluster *cluster, SimOp *op)
{
    Payload *p = op->payload;
    const Sm90Wgmma *f = p->form;
    float stored[ROWS * 32];
    float *a = f->sparse ? stored : p->a;
    uint32_t columns = stored_columns(f);
    (void)cluster;
    if (f->a_count)
        unpack_a(p, a, columns);
    else
        sim_sm90_read_matrix(p->cta, p->a_descriptor, f->a_type, f->transpose_a, ROWS, columns, a,
                             columns, 1);
    if (f->sparse)
        spread(p, stored);
    sim_sm90_read_matrix(p->cta, p->b_descriptor, f->b_type, f->transpose_b, f->n, f->k, p->b, 1,
                         f->n);
    if (f->negate_a)
        negate(p->a, ROWS * (uint32_t)f->k);
    if (f->negate_b)
        negate(p->b, f->n * (uint32_t)f->k);
}

/* Where the fragment is, if the frame still exists. */
static uint8_t *
registers_of(const Part *part)
{
    const SimWarp *warp = part->warp;
    for (uint32_t i = 0; warp && i < warp->group_count; i++)
        for (const SimFrame *f = warp->group[i]->frame; f; f = f->caller)
            if (f == part->frame && f->function == part->function)
                return f->registers;
    return NULL;
}

/* Two registers of 32 lanes to eight rows of eight columns, of which each has every other one; and
 * back. */
SIM_HOT static void
part_to_matrix(uint32_t *restrict m, uint32_t n, const uint32_t *restrict even,
               const uint32_t *restrict odd)
{
    for (uint32_t g = 0; g < 8; g++, m += n, even += 4, odd += 4)
        for (uint32_t t = 0; t < 4; t++) {
            m[2 * t] = even[t];
            m[2 * t + 1] = odd[t];
        }
}

SIM_HOT static void
part_to_registers(uint32_t *restrict even, uint32_t *restrict odd, const uint32_t *restrict m,
                  uint32_t n)
{
    for (uint32_t g = 0; g < 8; g++, m += n, even += 4, odd += 4)
        for (uint32_t t = 0; t < 4; t++) {
            even[t] = m[2 * t];
            odd[t] = m[2 * t + 1];
        }
}

/* D fragments (9.7.15.5.1.1): element i of lane l is row 16w + l/4 + 8((i>>1)&1), column
 * 8(i>>2) + 2(l%4) + (i&1). */
static void
move_d32(const Payload *p, uint32_t *matrix, bool to_registers)
{
    uint32_t n = p->form->n;
    uint32_t none[2][SIM_LANES] = {{0}}; /* for sinks */
    for (uint32_t w = 0; w < WARPS; w++) {
        uint8_t *registers = registers_of(&p->part[w]);
        if (!registers && !to_registers)
            memset(matrix + 16 * w * n, 0, 16 * n * sizeof *matrix);
        for (uint32_t i = 0; i < p->form->d_count && registers; i += 2) {
            SimSlot even = p->form->d[i], odd = p->form->d[i + 1];
            uint32_t *m = matrix + (16 * w + 8 * (i >> 1 & 1)) * n + 8 * (i >> 2);
            uint32_t *r = (even & 3) == SIM_BANK_REGISTERS ? (void *)(registers + even) : none[0];
            uint32_t *q = (odd & 3) == SIM_BANK_REGISTERS ? (void *)(registers + odd) : none[1];
            if (to_registers)
                part_to_registers(r, q, m, n);
            else
                part_to_matrix(m, n, r, q);
        }
    }
}

/* f16 accumulators: register j holds row + 8(j&1), columns 8(j>>1) + 2t and the next. */
static void
move_d16(const Payload *p, float *matrix, bool to_registers)
{
    uint32_t n = p->form->n;
    for (uint32_t w = 0; w < WARPS; w++) {
        uint8_t *registers = registers_of(&p->part[w]);
        for (uint32_t j = 0; j < p->form->d_count && registers; j++) {
            if ((p->form->d[j] & 3) != SIM_BANK_REGISTERS)
                continue;
            uint32_t *r = (uint32_t *)(void *)(registers + p->form->d[j]);
            for (uint32_t l = 0; l < SIM_LANES; l++) {
                float *m = matrix + (16 * w + l / 4 + 8 * (j & 1)) * n + 8 * (j >> 1) + 2 * (l % 4);
                if (to_registers) {
                    r[l] = sim_to_f16(m[0]) | sim_to_f16(m[1]) << 16;
                } else {
                    m[0] = sim_f16(r[l] & 0xffff);
                    m[1] = sim_f16(r[l] >> 16);
                }
            }
        }
    }
}

/* .and.popc of bytes of single bits. */
static void
count_bits(const Sm90Wgmma *f, int64_t *sum, const int32_t *a, const int32_t *b)
{
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t k = 0; k < f->k; k++)
            for (uint32_t c = 0; c < f->n; c++)
                sum[r * f->n + c] += __builtin_popcount(
                    (uint32_t)(a[r * f->k + k] & b[k * f->n + c]));
}

static void
multiply_integers(const Payload *p, uint32_t *d)
{
    const Sm90Wgmma *f = p->form;
    size_t size = ROWS * (size_t)f->n;
    int64_t *sum = sim_malloc(size * sizeof *sum);
    if (!sum)
        return;
    for (size_t i = 0; i < size; i++)
        sum[i] = (int32_t)d[i];
    const int32_t *a = (const int32_t *)(const void *)p->a,
                  *b = (const int32_t *)(const void *)p->b;
    if (f->single_bits)
        count_bits(f, sum, a, b);
    else
        sim_matrix_s32(sum, a, b, ROWS, f->n, f->k);
    for (size_t i = 0; i < size; i++) {
        if (f->saturate)
            sum[i] = sum[i] > INT32_MAX ? INT32_MAX : sum[i] < INT32_MIN ? INT32_MIN : sum[i];
        d[i] = (uint32_t)sum[i];
    }
    free(sum);
}

/* What was not measured is added in f32, in order: f16 results of 8-bit types. */
static void
multiply_floats(const Payload *p, float *d)
{
    const Sm90Wgmma *f = p->form;
    bool bytes = sim_sm90_element_bytes(f->a_type) == 1;
    SimSums sums = {f->a_type, f->b_type, bytes ? 13 : 25};
    if (bytes && f->d_type == SIM_F16)
        sim_matrix_f32(d, p->a, p->b, ROWS, f->n, f->k);
    else
        sim_matrix_sm90(d, p->a, p->b, ROWS, f->n, f->k, &sums);
}

static void
land_product(SimCluster *cluster, SimOp *op)
{
    Payload *p = op->payload;
    const Sm90Wgmma *f = p->form;
    (void)cluster;
    size_t size = ROWS * (size_t)f->n;
    bool filled = p->scale_d && f->d_type != SIM_F16;
    uint32_t *d = filled ? sim_malloc(size * sizeof *d) : sim_calloc(size, sizeof *d);
    if (!d)
        return;
    float *real = (float *)(void *)d;
    if (p->scale_d && f->d_type == SIM_F16)
        move_d16(p, real, false);
    else if (p->scale_d)
        move_d32(p, d, false);
    if (f->d_type == SIM_S32)
        multiply_integers(p, d);
    else
        multiply_floats(p, real);
    if (f->d_type == SIM_F16)
        move_d16(p, real, true);
    else
        move_d32(p, d, true);
    free(d);
}

/* ------------------------------------------------------------------------ issue */

static Product *
product_at(SimWarp *warp, Sm90Warpgroup *g, size_t index, const SimInsn *insn)
{
    if (index < g->count)
        return &g->product[index];
    if (g->count == g->capacity) {
        size_t capacity = g->capacity ? 2 * g->capacity : 64;
        Product *bigger = sim_realloc(g->product, capacity * sizeof *bigger);
        if (!bigger)
            return NULL;
        g->product = bigger;
        g->capacity = capacity;
    }
    const Sm90Wgmma *f = insn->data;
    size_t a = ROWS * (size_t)f->k, b = (size_t)f->n * f->k;
    SimOp *op = sim_op_new(warp, sizeof(Payload) + (a + b) * sizeof(float));
    if (!op)
        return NULL;
    Payload *p = op->payload;
    p->form = f;
    p->cta = warp->cta;
    p->a = (float *)(void *)(p + 1);
    p->b = p->a + a;
    op->fetch = fetch_product;
    op->land = land_product;
    if (g->count && !g->product[g->count - 1].op->landed)
        op->after = g->product[g->count - 1].op;
    g->product[g->count] = (Product){.op = op, .insn = insn};
    return &g->product[g->count++];
}

static uint64_t
uniform64(SimWarp *warp, SimSlot slot, const char *which)
{
    const uint64_t *v = sim_r64(warp, slot);
    for (uint32_t l = 1; l < SIM_LANES; l++)
        if (v[l] != v[0]) {
            sim_find(warp, SIM_FIND_NOT_UNIFORM, (int32_t)l, v[l], NULL,
                     "lanes give different descriptors of %s: %016llx and %016llx", which,
                     (unsigned long long)v[0], (unsigned long long)v[l]);
            break;
        }
    return v[0];
}

/* The part of one warp.  The first to come decides; the others must agree (9.7.15.5.2). */
static bool
check_agreement(SimWarp *warp, const Product *product, const SimInsn *insn, uint64_t a, uint64_t b,
                bool scale_d)
{
    SimPlace place = {product->insn, -1, warp->cta->rank};
    if (product->insn != insn) {
        sim_find(warp, SIM_FIND_NOT_UNIFORM, -1, 0, &place,
                 "the warps of a warpgroup execute different wgmma instructions");
        return false;
    }
    if (product->issued &&
        (product->descriptor[0] != a || product->descriptor[1] != b || product->scale_d != scale_d))
        sim_find(warp, SIM_FIND_NOT_UNIFORM, -1, 0, &place,
                 "the warps of a warpgroup give different descriptors or scale-d: %016llx, "
                 "%016llx and %016llx, %016llx",
                 (unsigned long long)a, (unsigned long long)b,
                 (unsigned long long)product->descriptor[0],
                 (unsigned long long)product->descriptor[1]);
    return true;
}

static SimStep
wgmma(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const Sm90Wgmma *f = insn->data;
    Sm90Warpgroup *g = warpgroup_of(warp);
    uint32_t w = warp->index % WARPS;
    if (!g)
        return sim_fail(warp, "out of memory");
    if (warp->index / WARPS * WARPS + WARPS > warp->cta->warp_count) {
        sim_find(warp, SIM_FIND_NOT_UNIFORM, -1, 0, NULL,
                 "a wgmma needs a warpgroup of four whole warps");
        return SIM_NEXT;
    }
    uint64_t b = uniform64(warp, f->b_descriptor, "B");
    uint64_t a = f->a_count ? 0 : uniform64(warp, f->a_descriptor, "A");
    bool scale_d = (*sim_rp(warp, f->scale_d) >> sim_first_lane(mask) & 1) != f->scale_d_negated;
    if (!check_descriptor(warp, b, "B") || (!f->a_count && !check_descriptor(warp, a, "A")))
        return warp->run->stop ? SIM_FATAL : SIM_NEXT;
    size_t index = g->issued[w];
    Product *product = product_at(warp, g, index, insn);
    if (!product)
        return sim_fail(warp, "out of memory");
    if (!check_agreement(warp, product, insn, a, b, scale_d))
        return SIM_NEXT;
    Payload *p = product->op->payload;
    if (!product->issued) {
        product->descriptor[0] = p->a_descriptor = a;
        product->descriptor[1] = p->b_descriptor = b;
        product->scale_d = p->scale_d = scale_d;
    }
    g->issued[w]++;
    product->issued |= 1u << w;
    sim_trace_started(warp, product->op, 0);
    Part *part = &p->part[w];
    *part = (Part){
        .frame = warp->running->frame, .function = warp->running->frame->function, .warp = warp};
    for (uint32_t j = 0; j < f->a_count; j++)
        memcpy(part->a[j], sim_r32(warp, f->a[j]), sizeof part->a[j]);
    if (f->sparse)
        memcpy(part->metadata, sim_r32(warp, f->metadata), sizeof part->metadata);
    sim_sm90_watch_issue(warp, insn, f, (uint32_t)index);
    if (!f->a_count && !sim_sm90_note_matrix(warp, product->op, a, f->a_type, f->transpose_a,
                                             16 * w, 16, stored_columns(f), "A"))
        product->mismatch = true;
    bool first = product->issued ==
                 1u << w; /* the others have the same B: only what each of them knows differs */
    if ((first || warp->cta->shadow) &&
        !sim_sm90_note_matrix(warp, product->op, b, f->b_type, f->transpose_b, 0, f->n, f->k, "B"))
        product->mismatch = true;
    if (product->issued == (1u << WARPS) - 1) {
        warp->cta->cluster->progress++;
        sim_op_start(warp->cta->cluster, product->op, true);
    }
    return SIM_NEXT;
}

const SimExec sim_sm90_wgmma_exec = wgmma;

/* ------------------------------------------------------------------------ fence, commit, wait */

static SimStep
wgmma_fence(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)insn, (void)mask;
    sim_sm90_watch_fence(warp);
    return SIM_NEXT;
}

static SimStep
wgmma_commit(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    Sm90Warpgroup *g = warpgroup_of(warp);
    uint32_t w = warp->index % WARPS;
    (void)insn, (void)mask;
    if (!g)
        return sim_fail(warp, "out of memory");
    if (g->group_count[w] == g->group_capacity[w]) {
        size_t capacity = g->group_capacity[w] ? 2 * g->group_capacity[w] : 32;
        size_t *bigger = sim_realloc(g->group[w], capacity * sizeof *bigger);
        if (!bigger)
            return sim_fail(warp, "out of memory");
        g->group[w] = bigger;
        g->group_capacity[w] = capacity;
    }
    g->group[w][g->group_count[w]++] = g->issued[w];
    return SIM_NEXT;
}

/* Are the products below `end` issued by all four warps?  Then they are complete, and the warp
 * knows of it. */
static bool
finish_products(SimWarp *warp, Sm90Warpgroup *g, size_t end)
{
    uint32_t w = warp->index % WARPS;
    SimCluster *cluster = warp->cta->cluster;
    for (size_t i = g->waited[w]; i < end; i++)
        if (g->product[i].issued != (1u << WARPS) - 1)
            return false;
    for (size_t i = g->waited[w]; i < end; i++) {
        Product *product = &g->product[i];
        sim_op_finish(cluster, product->op);
        sim_op_observe(warp, product->op);
        sim_sm90_watch_done(warp, product->insn->data, (uint32_t)i);
    }
    g->waited[w] = end > g->waited[w] ? end : g->waited[w];
    return true;
}

static bool
wait_ready(SimWarp *warp, SimGroup *group)
{
    Sm90Warpgroup *g = warpgroup_of(warp);
    SimGroup *running = warp->running;
    if (!g)
        return true;
    warp->running = group; /* its frame is the one that the registers belong to */
    bool done = finish_products(warp, g, (size_t)group->wait.arg[0]);
    warp->running = running;
    return done;
}

static void
describe_wait(const SimWarp *warp, const SimGroup *group, char *text, size_t size)
{
    const Sm90Cta *s = warp->cta->ext[SIM_EXT_SM90].state;
    const Sm90Warpgroup *g = s->warpgroup[warp->index / WARPS];
    size_t i = g->waited[warp->index % WARPS];
    while (i < (size_t)group->wait.arg[0] && g->product[i].issued == (1u << WARPS) - 1)
        i++;
    if (i == (size_t)group->wait.arg[0]) {
        snprintf(text, size, "has waited for a wgmma that is done");
        return;
    }
    snprintf(text, size,
             "waits for the wgmma in line %u, which warps %x of the warpgroup have "
             "not issued",
             g->product[i].insn->line, ~g->product[i].issued & 15u);
}

bool
sim_sm90_wait_for_all(SimWarp *warp)
{
    Sm90Warpgroup *g = warpgroup_of(warp);
    size_t end = g ? g->issued[warp->index % WARPS] : 0;
    if (!g || finish_products(warp, g, end))
        return true;
    SimWait *wait = sim_warp_sleep(warp, wait_ready, describe_wait);
    wait->arg[0] = end;
    return false;
}

/* 9.7.15.7.3: all groups but the N youngest. */
static SimStep
wgmma_wait(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    Sm90Warpgroup *g = warpgroup_of(warp);
    uint32_t w = warp->index % WARPS;
    (void)mask;
    if (!g)
        return sim_fail(warp, "out of memory");
    size_t groups = g->group_count[w], keep = (size_t)insn->imm;
    sim_sm90_watch_wait(warp, (uint32_t)g->issued[w]);
    if (groups <= keep)
        return SIM_NEXT;
    size_t end = g->group[w][groups - keep - 1];
    if (finish_products(warp, g, end))
        return SIM_NEXT;
    SimWait *wait = sim_warp_sleep(warp, wait_ready, describe_wait);
    wait->arg[0] = end;
    return SIM_WAIT;
}

/* ------------------------------------------------------------------------ decoding */

static bool
take_sync(SimDecode *dx)
{
    dec_aligned(dx);
    dx->out->whole_warp = true;
    return dx->out->converge || dec_fail(dx, "needs .sync.aligned");
}

bool
sim_sm90_decode_wgmma_fence(SimDecode *dx)
{
    dx->out->exec = wgmma_fence;
    return take_sync(dx) && dec_count(dx, 0, 0);
}

bool
sim_sm90_decode_wgmma_commit(SimDecode *dx)
{
    dx->out->exec = wgmma_commit;
    return take_sync(dx) && dec_count(dx, 0, 0);
}

bool
sim_sm90_decode_wgmma_wait(SimDecode *dx)
{
    dx->out->exec = wgmma_wait;
    return take_sync(dx) && dec_count(dx, 1, 1) &&
           dec_immediate(dx, dec_operand(dx, 0), &dx->out->imm);
}

/* m64nNkK among the modifiers. */
static bool
take_shape(SimDecode *dx, Sm90Wgmma *f)
{
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++) {
        unsigned n, k;
        int used = 0;
        const char *p = dx->src->part[i];
        if (sscanf(p, "m64n%uk%u%n", &n, &k, &used) == 2 && p[used] == '\0') {
            dx->taken[i] = true;
            f->n = (uint16_t)n;
            f->single_bits = k == 256;
            k = f->single_bits ? k / 8 : k;
            f->k = (uint8_t)k;
            return n >= 8 && n <= 256 && n % 8 == 0 && k <= 64;
        }
    }
    return false;
}

static bool
types_fit(const Sm90Wgmma *f)
{
    uint32_t k = stored_columns(f);
    bool half = f->a_type == f->b_type && (f->a_type == SIM_F16 || f->a_type == SIM_BF16);
    bool fp8 = (f->a_type == SIM_E4M3 || f->a_type == SIM_E5M2) &&
               (f->b_type == SIM_E4M3 || f->b_type == SIM_E5M2);
    bool integer = (f->a_type == SIM_S8 || f->a_type == SIM_U8) &&
                   (f->b_type == SIM_S8 || f->b_type == SIM_U8);
    if (integer) /* N: 8, 16, 24, then steps of 16 (9.7.15.2) */
        return f->d_type == SIM_S32 && k == 32 && (f->n % 16 == 0 || f->n == 8 || f->n == 24);
    if (f->a_type == SIM_TF32)
        return f->b_type == SIM_TF32 && f->d_type == SIM_F32 && k == 8;
    if (half)
        return k == 16 && (f->d_type == SIM_F32 || (f->d_type == SIM_F16 && f->a_type == SIM_F16));
    return fp8 && k == 32 && (f->d_type == SIM_F32 || f->d_type == SIM_F16);
}

static bool
take_types(SimDecode *dx, Sm90Wgmma *f)
{
    if (f->single_bits) {
        f->a_type = f->b_type = SIM_U8;
        return !f->sparse && !f->saturate && dec_take(dx, "b1") && dec_take(dx, "b1") &&
               dec_take(dx, "and") && dec_take(dx, "popc");
    }
    f->a_type = dec_type(dx);
    f->b_type = dec_type(dx);
    return true;
}

static bool
take_scale(SimDecode *dx, size_t at, bool *negative)
{
    int64_t value;
    if (!dec_immediate(dx, dec_operand(dx, at), &value))
        return false;
    *negative = value == -1;
    return value == 1 || value == -1 || dec_fail(dx, "a scale is 1 or -1");
}

static bool
take_flag(SimDecode *dx, size_t at, bool *flag)
{
    int64_t value;
    if (!dec_immediate(dx, dec_operand(dx, at), &value))
        return false;
    *flag = value == 1;
    return value == 0 || value == 1 || dec_fail(dx, "a transposition flag is 0 or 1");
}

/* The metadata and its selector (9.7.15.6). */
static bool
take_metadata(SimDecode *dx, Sm90Wgmma *f)
{
    int64_t selector;
    int most = (int)sim_sparse_selectors(8 * sim_sm90_element_bytes(f->a_type), f->k) - 1;
    if (!dec_src(dx, dec_operand(dx, 3), SIM_B32) ||
        !dec_immediate(dx, dec_operand(dx, 4), &selector))
        return false;
    f->metadata = dx->out->slot[dx->out->slot_count - 1];
    f->selector = (uint8_t)selector;
    return (selector >= 0 && selector <= most) ||
           dec_fail(dx, "the selector of this shape is 0 to %d", most);
}

static bool
take_tail(SimDecode *dx, Sm90Wgmma *f)
{
    bool integer = f->d_type == SIM_S32, half = f->a_type == SIM_F16 || f->a_type == SIM_BF16;
    size_t at = f->sparse ? 5 : 3;
    size_t n = at + (integer ? 1 : half ? (f->a_count ? 4 : 5) : 3);
    if (!dec_count(dx, n, n) || (f->sparse && !take_metadata(dx, f)) ||
        !dec_pred(dx, dec_operand(dx, at), &f->scale_d_negated))
        return false;
    f->scale_d = dx->out->slot[dx->out->slot_count - 1];
    if (integer)
        return true;
    if (!take_scale(dx, at + 1, &f->negate_a) || !take_scale(dx, at + 2, &f->negate_b))
        return false;
    if (!half)
        return true;
    return (f->a_count || take_flag(dx, at + 3, &f->transpose_a)) &&
           take_flag(dx, n - 1, &f->transpose_b);
}

bool
sim_sm90_decode_wgmma(SimDecode *dx)
{
    Sm90Wgmma *f = sim_arena_alloc(&dx->mod->arena, sizeof *f);
    SimInsn *out = dx->out;
    if (!take_sync(dx))
        return false;
    if (!take_shape(dx, f))
        return dec_fail(dx, "needs a shape m64nNkK that exists");
    f->sparse = dec_take(dx, "sp");
    f->saturate = dec_take(dx, "satfinite");
    f->d_type = dec_type(dx);
    if (!take_types(dx, f) || !types_fit(f) || (f->saturate && f->d_type != SIM_S32))
        return dec_fail(dx, "these types and this shape do not go together");
    f->d_count = (uint8_t)(f->d_type == SIM_F16 ? f->n / 4 : f->n / 2);
    if (!dec_dst_vector(dx, dec_operand(dx, 0), SIM_B32, f->d_count))
        return false;
    for (uint32_t i = 0; i < f->d_count; i++)
        f->d[i] = out->slot[i];
    const PtxOperand *a = dec_operand(dx, 1);
    f->a_count = a && a->kind == PTX_VECTOR ? 4 : 0;
    if (f->a_count ? !dec_src_vector(dx, a, SIM_B32, 4) : !dec_src(dx, a, SIM_B64))
        return false;
    for (uint32_t i = 0; i < f->a_count; i++)
        f->a[i] = out->slot[f->d_count + i];
    f->a_descriptor = out->slot[f->d_count];
    if (!dec_src(dx, dec_operand(dx, 2), SIM_B64))
        return false;
    f->b_descriptor = out->slot[out->slot_count - 1];
    out->data = f;
    out->exec = wgmma;
    return take_tail(dx, f);
}
