/* sim_sm100_memory.c - tensor memory: its cells, and the order of the ops that touch them.
 *
 * Two conflicting ops are in order (PTX ISA 9.7.16.6) when
 *   - the later one's warp knows that the earlier one completed: its issuer waited (ld, st) or
 *     somebody waited for a commit of it (mma, cp), and synchronisation passed that on; or
 *   - the pair forms a pipeline (9.7.16.6.2) and both come from one thread, or from two threads
 * with tcgen05.fence::before_thread_sync and ::after_thread_sync around their synchronisation. A
 * module that uses tcgen05.fence at all is held to 9.7.16.6.4 word by word: the reader of what an
 * mbarrier or another warp announced needs ::after_thread_sync.  Compilers exist that never write
 * it and rely on "the standard memory consistency model synchronization mechanisms also apply"
 * (9.7.16.6.3); a module without any is read that way.
 */
#include "sim_sm100.h"

#include <stdlib.h>

#include "sim_mbarrier.h"

static void
release_memory(void *state)
{
    TensorMemory *tm = state;
    SimCluster *cluster = tm->cta->cluster;
    for (uint32_t i = 0; i < TENSOR_COLUMNS / TENSOR_UNIT; i++) {
        const TensorAllocation *a = &tm->allocation[i];
        if (a->columns && tm->cta->live_warps == 0 && !cluster->run->stop)
            sim_find_at(cluster, tm->cta, SIM_FIND_LEAK, a->insn, a->warp, -1, a->base, NULL,
                        "%u columns of tensor memory are never deallocated", a->columns);
    }
    for (uint32_t a = 0; tm->read && a < cluster->agents; a++)
        free(tm->read[a]);
    free(tm->read);
    free(tm);
}

TensorMemory *
tensor_memory(SimCta *cta)
{
    TensorMemory *tm = sim_extension(&cta->ext[SIM_EXT_SM100], sizeof *tm, release_memory);
    if (!tm || tm->cta)
        return tm;
    tm->cta = cta;
    memset(tm->data, 0xa5, sizeof tm->data); /* contents are undefined */
    tm->smallest = TENSOR_COLUMNS;
    if (cta->cluster->run->checks)
        tm->read = sim_calloc(cta->cluster->agents, sizeof *tm->read);
    return tm;
}

static void
release_warp(void *state)
{
    TensorWarp *tw = state;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        free(tw->issued[l].op);
    free(tw->loads.op);
    free(tw->stores.op);
    free(tw->after);
    free(tw->load_of);
    free(tw);
}

TensorWarp *
tensor_warp(SimWarp *warp)
{
    TensorWarp *tw = sim_extension(&warp->ext[SIM_EXT_SM100], sizeof *tw, release_warp);
    if (tw && !tw->after && warp->clock)
        tw->after = sim_calloc(warp->cta->cluster->agents, sizeof *tw->after);
    return tw;
}

bool
tensor_list_add(TensorList *list, SimOp *op)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        SimOp **bigger = sim_realloc(list->op, capacity * sizeof *bigger);
        if (!bigger)
            return false;
        list->op = bigger;
        list->capacity = capacity;
    }
    list->op[list->count++] = op;
    return true;
}

bool
sim_tensor_fenced(const SimWarp *warp)
{
    const TensorWarp *tw = warp->ext[SIM_EXT_SM100].state;
    return tw && tw->fenced;
}

bool
sim_tensor_in_use(const SimWarp *warp)
{
    return warp->cta->ext[SIM_EXT_SM100].state != NULL;
}

SimOp *
tensor_op_new(SimWarp *warp, size_t payload, TensorKind kind, uint32_t lane, uint32_t group)
{
    SimOp *op = sim_op_new(warp, payload);
    TensorOp *t = op ? sim_calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    op->tracked = t;
    t->kind = kind;
    t->lane = (uint8_t)lane;
    t->group = (uint8_t)group;
    TensorWarp *tw = tensor_warp(warp);
    if (tw)
        tw->fenced = false;
    t->issued = warp->clock ? warp->clock[warp->agent] : 0;
    return op;
}

SimCta *
tensor_pair(SimCta *cta, uint32_t group, uint32_t half)
{
    if (group == 1)
        return cta;
    return &cta->cluster->ctas[(cta->rank & ~UINT32_C(1)) + half]; /* 9.7.16.5.1 */
}

bool
tensor_in_bounds(SimWarp *warp, int32_t lane, SimCta *cta, uint32_t address, uint32_t columns)
{
    TensorMemory *tm = tensor_memory(cta);
    uint32_t column = address & 0xffff;
    if (!tm || (address >> 16) >= TENSOR_LANES || column + columns > TENSOR_COLUMNS) {
        sim_find(warp, SIM_FIND_TENSOR_MEMORY, lane, address, NULL,
                 "lane %u, columns %u to %u are outside tensor memory", address >> 16, column,
                 column + columns - 1);
        return false;
    }
    for (uint32_t u = column / TENSOR_UNIT; u <= (column + columns - 1) / TENSOR_UNIT; u++)
        if (!(tm->allocated >> u & 1)) {
            sim_find(warp, SIM_FIND_TENSOR_MEMORY, lane, address, NULL,
                     "columns %u to %u of tensor memory are used, of which %u is not allocated",
                     column, column + columns - 1,
                     u * TENSOR_UNIT > column ? u * TENSOR_UNIT : column);
            return false;
        }
    return true;
}

/* ------------------------------------------------------------------------ order */

static bool
known_at(const SimWarp *warp, const SimOp *op, const uint32_t *clock)
{
    if (!op->seen || !clock)
        return false;
    for (uint32_t a = 0; a < warp->cta->cluster->agents; a++)
        if (op->seen[a] && op->seen[a] <= clock[a])
            return true;
    return false;
}

typedef struct TensorCluster {
    bool looked, fences;
} TensorCluster;

/* Is the module held to tcgen05.fence::after_thread_sync: does it write one anywhere? */
static bool
uses_fences(SimWarp *warp)
{
    SimCluster *cluster = warp->cta->cluster;
    TensorCluster *tc = sim_extension(&cluster->ext[SIM_EXT_SM100], sizeof *tc, NULL);
    const SimModule *mod = warp->run->module;
    if (!tc)
        return false;
    for (size_t i = 0; !tc->looked && !tc->fences && i < mod->insn_count; i++)
        tc->fences = strncmp(mod->insns[i]->mnemonic, "tcgen05.fence::after", 20) == 0;
    tc->looked = true;
    return tc->fences;
}

typedef enum Hazard { READ_AFTER_WRITE, WRITE_AFTER_WRITE, WRITE_AFTER_READ } Hazard;

typedef enum Verdict {
    IN_ORDER,
    ORDER_OF_ISSUE, /* a later mma or cp overwrites what one before it in its thread reads */
    NO_AFTER_FENCE,
    NO_BEFORE_FENCE,
    ONLY_USED,    /* a ld that its issuer has not waited for, but its registers were used */
    NO_WAIT,      /* a ld or st that its issuer has not waited for */
    OTHER_SHAPE,  /* mma after mma, not the same accumulator and shape */
    NOT_COMPLETE, /* an mma or cp that nobody waited for */
    NO_SYNC       /* complete, or pipelined, but no synchronisation between the threads */
} Verdict;

/* Pairs that execute in the order of issue (9.7.16.6.2). */
static bool
pipelined(const TensorOp *p, const TensorOp *x)
{
    if (p->group != x->group || p->kind > TENSOR_CP || x->kind > TENSOR_CP)
        return false;
    if (p->kind == TENSOR_CP)
        return x->kind == TENSOR_MMA;
    return x->kind == TENSOR_MMA && p->d == x->d && p->m == x->m && p->n == x->n && p->k == x->k;
}

/* That a later mma or cp of the thread does not overwrite what an earlier one still reads is not in
 * that list; kernels in use depend on it. */
static bool
in_order_of_issue(const TensorOp *p, const TensorOp *x, Hazard hazard)
{
    return pipelined(p, x) || (hazard == WRITE_AFTER_READ && p->group == x->group &&
                               p->kind <= TENSOR_CP && x->kind <= TENSOR_CP);
}

static Verdict
judge(SimWarp *warp, const SimOp *later, const SimOp *earlier, Hazard hazard)
{
    static const TensorOp none = {.kind = TENSOR_ST};
    const TensorOp *p = tensor_op(earlier), *x = later ? tensor_op(later) : &none;
    const TensorWarp *tw = tensor_warp(warp);
    const uint32_t *clock = warp->tensor_clock;
    bool tensor_core = p->kind <= TENSOR_CP, known = known_at(warp, earlier, clock);
    bool same_thread = earlier->agent == warp->agent && p->lane == x->lane;
    if (known && (!later || (!tensor_core && earlier->agent == warp->agent)))
        return IN_ORDER; /* tcgen05.wait and dealloc are synchronous */
    if (known && tw && known_at(warp, earlier, tw->after))
        return IN_ORDER;
    /* what the thread learnt by waits does not matter */
    if (later && in_order_of_issue(p, x, hazard)) {
        if (same_thread)
            return pipelined(p, x) ? IN_ORDER : ORDER_OF_ISSUE;
        if (!known && p->fenced && p->fenced <= clock[earlier->agent])
            return tw && tw->after && p->fenced <= tw->after[earlier->agent] ? IN_ORDER
                                                                             : NO_AFTER_FENCE;
        if (!known)
            return p->issued <= clock[earlier->agent] && earlier->agent != warp->agent
                       ? NO_BEFORE_FENCE
                       : NO_SYNC;
    }
    if (known)
        return NO_AFTER_FENCE;
    /* a wait behind the release does not undo that the registers were used before */
    if (!tensor_core)
        return p->used && (p->used <= clock[earlier->agent] || earlier->agent == warp->agent)
                   ? ONLY_USED
               : earlier->seen && earlier->seen[earlier->agent] ? NO_SYNC
                                                                : NO_WAIT;
    if (later && x->kind == TENSOR_MMA && p->kind == TENSOR_MMA && p->group == x->group &&
        hazard == WRITE_AFTER_WRITE)
        return OTHER_SHAPE;
    return NOT_COMPLETE;
}

static const char *
kind_name(const SimOp *op)
{
    static const char *const names[] = {"tcgen05.mma", "tcgen05.cp", "tcgen05.ld", "tcgen05.st"};
    return op ? names[tensor_op(op)->kind] : "tcgen05.dealloc";
}

static void
report(SimWarp *warp, const SimOp *later, const SimOp *earlier, Hazard hazard, Verdict verdict,
       uint32_t address)
{
    SimPlace place = {earlier->insn, (int32_t)earlier->warp->index, earlier->cta->rank};
    int32_t lane = later && tensor_op(later)->kind <= TENSOR_CP ? tensor_op(later)->lane : -1;
    const char *x = kind_name(later), *p = kind_name(earlier);
    const char *verb = hazard == READ_AFTER_WRITE ? "reads tensor memory that"
                                                  : "overwrites "
                                                    "tensor memory that";
    const char *does = hazard == WRITE_AFTER_READ ? "reads" : "writes";
    switch (verdict) {
    case ORDER_OF_ISSUE:
        sim_note(warp, SIM_FIND_ASYNC_OVERWRITE, lane, address, &place,
                 "%s %s %s %s, whose completion was not waited for: the ISA's pipelines do not put "
                 "these two in the order of issue",
                 x, verb, p, does);
        break;
    case NO_AFTER_FENCE:
        (uses_fences(warp) ? sim_find : sim_note)(
            warp, SIM_FIND_MMA_FENCE, lane, address, &place,
            "%s %s %s %s, with no tcgen05.fence::after_thread_sync since the synchronisation "
            "between them",
            x, verb, p, does);
        break;
    case NO_BEFORE_FENCE:
        sim_find(warp, SIM_FIND_MMA_FENCE, lane, address, &place,
                 "%s %s %s %s, which has no tcgen05.fence::before_thread_sync before the "
                 "synchronisation between them",
                 x, verb, p, does);
        break;
    case ONLY_USED: /* on the chip the scoreboard orders it (docs/simulator-isa.md) */
        sim_note(warp, SIM_FIND_MMA_FENCE, lane, address, &place,
                 "%s %s %s %s, with no tcgen05.wait::ld after it; only that an instruction has used "
                 "its registers puts them in order",
                 x, verb, p, does);
        break;
    case NO_WAIT:
        sim_find(warp, SIM_FIND_MMA_FENCE, lane, address, &place,
                 "%s %s %s %s, with no tcgen05.wait::%s after it", x, verb, p, does,
                 tensor_op(earlier)->kind == TENSOR_LD ? "ld" : "st");
        break;
    case OTHER_SHAPE:
        sim_find(warp, SIM_FIND_ASYNC_OVERWRITE, lane, address, &place,
                 "two tcgen05.mma write the same tensor memory as different accumulators or "
                 "shapes: only a completed commit puts them in order");
        break;
    case NOT_COMPLETE:
        sim_find(warp, hazard == READ_AFTER_WRITE ? SIM_FIND_ASYNC_EARLY : SIM_FIND_ASYNC_OVERWRITE,
                 lane, address, &place,
                 "%s %s %s %s, whose completion (tcgen05.commit and its mbarrier) was not waited "
                 "for",
                 x, verb, p, does);
        break;
    default:
        sim_find(warp, SIM_FIND_RACE, lane, address, &place,
                 "%s %s %s of another thread %s, with no synchronisation between", x, verb, p,
                 does);
        break;
    }
}

typedef struct Memo { /* the ops judged last: neighbouring cells have the same */
    uint32_t good, bad;
} Memo;

static void
check(SimWarp *warp, const SimOp *op, uint32_t earlier, Hazard hazard, uint32_t address, Memo *memo)
{
    if (!earlier || earlier == memo->good || earlier == memo->bad || (op && earlier == op->id + 1))
        return;
    const SimOp *other = warp->cta->cluster->ops[earlier - 1];
    Verdict verdict = judge(warp, op, other, hazard);
    if (verdict == IN_ORDER) {
        memo->good = earlier;
        return;
    }
    memo->bad = earlier;
    report(warp, op, other, hazard, verdict, address);
}

/* Columns are mostly alike: then the first one stands for all. */
SIM_HOT static bool
same_cells(const TensorCell *cell, uint32_t count)
{
    uint64_t first, differ = 0;
    memcpy(&first, cell, sizeof first);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t next;
        memcpy(&next, cell + i, sizeof next);
        differ |= next ^ first;
    }
    return !differ;
}
_Static_assert(sizeof(TensorCell) == 8, "same_cells() compares all of it");

SIM_HOT static bool
same_reads(const uint32_t *read, uint32_t count)
{
    uint32_t differ = 0;
    for (uint32_t i = 0; i < count; i++)
        differ |= read[i] ^ read[0];
    return !differ;
}

static void
check_cells(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t strip, uint16_t lanes, uint32_t column,
            uint32_t columns, bool write)
{
    TensorMemory *tm = tensor_memory(cta);
    uint32_t agents = cta->cluster->agents;
    TensorCell *cell = tm->cell[strip];
    uint32_t lane = strip * TENSOR_STRIP + (uint32_t)__builtin_ctz(lanes), first = lane << 16;
    uint32_t looked_at = same_cells(cell + column, columns) ? 1 : columns;
    Memo memo = {0, 0};
    for (uint32_t c = column; c < column + looked_at; c++)
        if (cell[c].written & lanes)
            check(warp, op, cell[c].writer, write ? WRITE_AFTER_WRITE : READ_AFTER_WRITE, first | c,
                  &memo);
    if (!tm->read)
        return;
    if (write) {
        for (uint32_t a = 0; a < agents; a++) {
            if (!tm->read[a])
                continue;
            const uint32_t *read = tm->read[a] + strip * TENSOR_COLUMNS;
            looked_at = same_reads(read + column, columns) ? 1 : columns;
            memo = (Memo){0, 0};
            for (uint32_t c = column; c < column + looked_at; c++)
                check(warp, op, read[c], WRITE_AFTER_READ, first | c, &memo);
        }
        return;
    }
    uint32_t **plane = &tm->read[warp->agent];
    if (!*plane)
        *plane = sim_calloc((size_t)TENSOR_STRIPS * TENSOR_COLUMNS, sizeof **plane);
    for (uint32_t c = column; *plane && op && c < column + columns; c++)
        (*plane)[strip * TENSOR_COLUMNS + c] = op->id + 1;
}

void
tensor_note(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t strip, uint16_t lanes, uint32_t column,
            uint32_t columns, bool write)
{
    TensorMemory *tm = tensor_memory(cta);
    TensorCell *cell = tm->cell[strip];
    if (!warp->run->checks || !lanes)
        return;
    bool same = same_cells(cell + column, columns);
    if (!write) {
        for (uint32_t c = column; c < column + (same ? 1 : columns); c++)
            if ((cell[c].initialised & lanes) != lanes) {
                uint32_t bad = lanes & ~(uint32_t)cell[c].initialised;
                uint32_t lane = strip * TENSOR_STRIP + (uint32_t)__builtin_ctz(bad);
                sim_find(warp, SIM_FIND_UNINITIALISED, -1, lane << 16 | c, NULL,
                         "%s reads lane %u, column %u of tensor memory, which nobody wrote",
                         kind_name(op), lane, c);
                break;
            }
    }
    check_cells(warp, op, cta, strip, lanes, column, columns, write);
    for (uint32_t c = column; write && c < column + columns; c++) {
        if (same && c > column) {
            cell[c] = cell[column];
            continue;
        }
        if (cell[c].writer == op->id + 1)
            cell[c].written |= lanes;
        else
            cell[c].written = lanes;
        cell[c].writer = op->id + 1;
        cell[c].initialised |= lanes;
    }
}

void
tensor_note_free(SimWarp *warp, SimCta *cta, uint32_t column, uint32_t columns)
{
    TensorMemory *tm = tensor_memory(cta);
    if (!warp->run->checks)
        return;
    for (uint32_t s = 0; s < TENSOR_STRIPS; s++) {
        check_cells(warp, NULL, cta, s, 0xffff, column, columns, true);
        memset(&tm->cell[s][column], 0, columns * sizeof tm->cell[s][column]);
        for (uint32_t a = 0; tm->read && a < cta->cluster->agents; a++)
            if (tm->read[a])
                memset(&tm->read[a][s * TENSOR_COLUMNS + column], 0, columns * sizeof **tm->read);
    }
}

/* Columns that the later op writes and the earlier one still reads. */
static bool
overwrites(const TensorOp *x, const TensorOp *p)
{
    uint32_t from = x->d & 0xffff, to = from + x->n;
    for (int i = 0; i < 4; i++)
        if (p->read_columns[i] && p->reads[i] < to && from < p->reads[i] + p->read_columns[i])
            return true;
    return false;
}

void
tensor_finish_before(SimCluster *cluster, SimOp *op)
{
    const TensorOp *x = tensor_op(op);
    TensorList *list = &tensor_warp(op->warp)->issued[x->lane];
    for (size_t i = list->count; i-- > 0;) {
        SimOp *other = list->op[i];
        const TensorOp *p = tensor_op(other);
        if (other->id < op->id && !other->landed &&
            (pipelined(p, x) || (p->group == x->group && overwrites(x, p))))
            sim_op_finish(cluster, other);
    }
}

/* ------------------------------------------------------------------------ decoding */

uint32_t
tensor_take_group(SimDecode *dx)
{
    uint32_t group = dec_take(dx, "cta_group::1") ? 1 : dec_take(dx, "cta_group::2") ? 2 : 0;
    if (!group) {
        dec_fail(dx, "needs .cta_group::1 or .cta_group::2");
        return 0;
    }
    /* "All tcgen05 instructions within a kernel must specify the same value" (9.7.16.7.1). */
    const char *other = group == 1 ? ".cta_group::2" : ".cta_group::1";
    const PtxFunction *fn = dx->fn;
    for (size_t i = 0; i < fn->insn_count; i++) {
        const char *first = fn->insn[i].mnemonic;
        if (strncmp(first, "tcgen05.", 8) != 0 || !strstr(first, ".cta_group::"))
            continue;
        if (strstr(first, other)) {
            dec_fail(dx,
                     "the kernel has %s here and %s in line %u: all tcgen05 instructions of a "
                     "kernel must agree",
                     group == 1 ? ".cta_group::1" : ".cta_group::2", other, fn->insn[i].line);
            return 0;
        }
        break; /* the others are compared with this one, too */
    }
    return group;
}

bool
tensor_decode_address(SimDecode *dx, const PtxOperand *operand, TensorAddress *address)
{
    address->slot = dx->out->slot_count;
    if (!dec_address(dx, operand))
        return false;
    address->wide = dx->out->mode[5];
    address->offset = dx->out->imm;
    if (address->wide && operand->element[0].kind != PTX_INT)
        return dec_fail(dx, "an address in tensor memory has 32 bits");
    return true;
}

uint32_t
tensor_address(const SimWarp *warp, const SimInsn *insn, const TensorAddress *address, uint32_t lane)
{
    SimSlot slot = insn->slot[address->slot];
    uint32_t base = address->wide ? (uint32_t)sim_r64(warp, slot)[lane] : sim_r32(warp, slot)[lane];
    return base + (uint32_t)address->offset;
}
