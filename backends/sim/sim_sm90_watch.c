/* sim_sm90_watch.c - registers of wgmma in flight, and who touches them (PTX ISA 9.7.15.7.1, .3).
 *
 * Between its issue and a wgmma.wait_group that covers it, the accumulator and A registers of a
 * wgmma may not be accessed at all.  And wgmma.fence must stand between an access by an ordinary
 * instruction and a wgmma of the same registers, except that accumulators pass from one wgmma to
 * the next of the same shape.
 *
 * Registers are told apart by rows of 128 bytes: no two of them share one (place_register).
 */
#include <stdlib.h>

#include "sim_sm90_wgmma.h"

enum { ROW = 128 };

static void
release_arrays(SimRegisterWatch *w)
{
    free(w->stamp);
    free(w->touched_by);
    free(w->op);
    free(w->op_insn);
    free(w->shape);
    free(w->shape_epoch);
}

void
sim_sm90_watch_free(SimWarp *warp)
{
    if (!warp->watch)
        return;
    release_arrays(warp->watch);
    free(warp->watch);
    warp->watch = NULL;
}

/* The watch of the running frame; a frame entered anew starts without a history. */
static SimRegisterWatch *
watch_of(SimWarp *warp)
{
    const SimFrame *frame = warp->running->frame;
    if (!warp->run->checks)
        return NULL;
    if (!warp->watch && !(warp->watch = sim_calloc(1, sizeof *warp->watch)))
        return NULL;
    SimRegisterWatch *w = warp->watch;
    uint32_t rows = frame->function->register_bytes / ROW + 1;
    if (w->frame == frame && w->rows == rows)
        return w;
    release_arrays(w);
    *w = (SimRegisterWatch){.frame = frame, .rows = rows};
    w->stamp = sim_calloc(rows, sizeof *w->stamp);
    w->touched_by = sim_calloc(rows, sizeof *w->touched_by);
    w->op = sim_calloc(rows, sizeof *w->op);
    w->op_insn = sim_calloc(rows, sizeof *w->op_insn);
    w->shape = sim_calloc(rows, sizeof *w->shape);
    w->shape_epoch = sim_calloc(rows, sizeof *w->shape_epoch);
    if (!w->stamp || !w->touched_by || !w->op || !w->op_insn || !w->shape || !w->shape_epoch)
        sim_sm90_watch_free(warp);
    return warp->watch;
}

/* Does the instruction read an accumulator in flight, with no wgmma.wait_group since its wgmma?
 * ptxas puts the wait there (and says so, C7517), so that the chip gives the right values. */
bool
sim_sm90_reads_early(SimWarp *warp, const SimInsn *insn)
{
    const SimRegisterWatch *w = warp->watch;
    if (insn->exec == sim_sm90_wgmma_exec || w->frame != warp->running->frame)
        return false;
    for (uint32_t i = insn->destination_count; i < insn->slot_count; i++) {
        uint32_t row = insn->slot[i] / ROW;
        if ((insn->slot[i] & 3) != SIM_BANK_REGISTERS || !w->op[row] || !w->shape[row] ||
            w->op[row] <= w->asked)
            continue;
        SimPlace place = {w->op_insn[row], (int32_t)warp->index, warp->cta->rank};
        sim_note(
            warp, SIM_FIND_MMA_REGISTERS, -1, 0, &place,
            "an accumulator is read with no wgmma.wait_group since its wgmma: ptxas puts one in "
            "(C7517), and so does the simulator");
        return true;
    }
    return false;
}

void
sim_sm90_watch(SimWarp *warp, const SimInsn *insn)
{
    SimRegisterWatch *w = warp->watch;
    if (insn->exec == sim_sm90_wgmma_exec || w->frame != warp->running->frame)
        return;
    for (uint32_t i = 0; i < insn->slot_count; i++) {
        SimSlot slot = insn->slot[i];
        if ((slot & 3) != SIM_BANK_REGISTERS)
            continue;
        uint32_t row = slot / ROW;
        w->stamp[row] = w->epoch;
        w->touched_by[row] = insn->index;
        if (!w->op[row])
            continue;
        SimPlace place = {w->op_insn[row], (int32_t)warp->index, warp->cta->rank};
        sim_find(warp, SIM_FIND_MMA_REGISTERS, -1, 0, &place,
                 "a register is accessed while a wgmma has it in flight: no wgmma.wait_group "
                 "between has waited for it");
        w->op[row] = 0; /* once is enough */
    }
}

void
sim_sm90_watch_wait(SimWarp *warp, uint32_t issued)
{
    SimRegisterWatch *w = warp->watch;
    if (w)
        w->asked = issued;
}

void
sim_sm90_watch_fence(SimWarp *warp)
{
    SimRegisterWatch *w = watch_of(warp);
    if (w)
        w->epoch++;
}

static void
missing_fence(SimWarp *warp, const SimRegisterWatch *w, uint32_t row, const char *which)
{
    SimPlace place = {warp->run->module->insns[w->touched_by[row]], (int32_t)warp->index,
                      warp->cta->rank};
    sim_find(warp, SIM_FIND_MMA_FENCE, -1, 0, &place,
             "no wgmma.fence between an access to %s of this wgmma and the wgmma", which);
}

static bool
same_shape(const Sm90Wgmma *a, const Sm90Wgmma *b)
{
    return a->n == b->n && a->k == b->k && a->d_type == b->d_type;
}

static bool
check_rows(SimWarp *warp, SimRegisterWatch *w, const Sm90Wgmma *form, const SimSlot *slots,
           uint32_t count, bool accumulator)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = slots[i] / ROW;
        if ((slots[i] & 3) != SIM_BANK_REGISTERS)
            continue;
        if (w->stamp[row] == w->epoch) {
            missing_fence(warp, w, row, accumulator ? "an accumulator" : "an A register");
            return false;
        }
        /* Accumulators pass on within a shape; two wgmma may read the same A registers. */
        bool chained = accumulator ? w->shape[row] && same_shape(w->shape[row], form)
                                   : !w->shape[row];
        SimPlace place = {w->op_insn[row], (int32_t)warp->index, warp->cta->rank};
        if (w->op[row] && !chained) {
            sim_find(warp, SIM_FIND_MMA_REGISTERS, -1, 0, &place,
                     "%s of this wgmma is in flight in another one of a different shape or role",
                     accumulator ? "an accumulator" : "an A register");
            return false;
        }
        if (!chained && w->shape[row] && w->shape_epoch[row] == w->epoch) {
            place.insn = w->op_insn[row];
            sim_find(warp, SIM_FIND_MMA_FENCE, -1, 0, &place,
                     "no wgmma.fence between two wgmma of different shapes or roles that access "
                     "the same register");
            return false;
        }
    }
    return true;
}

void
sim_sm90_watch_issue(SimWarp *warp, const SimInsn *insn, const Sm90Wgmma *form, uint32_t op)
{
    SimRegisterWatch *w = watch_of(warp);
    if (!w)
        return;
    if (w->epoch == 0) {
        sim_find(warp, SIM_FIND_MMA_FENCE, -1, 0, NULL,
                 "no wgmma.fence before the first wgmma of the warp");
        w->epoch = 1;
    } else if (check_rows(warp, w, form, form->d, form->d_count, true)) {
        check_rows(warp, w, form, form->a, form->a_count, false);
    }
    for (uint32_t i = 0; i < form->d_count + (uint32_t)form->a_count; i++) {
        bool accumulator = i < form->d_count;
        SimSlot slot = accumulator ? form->d[i] : form->a[i - form->d_count];
        uint32_t row = slot / ROW;
        if ((slot & 3) != SIM_BANK_REGISTERS)
            continue;
        w->op[row] = op + 1;
        w->op_insn[row] = insn;
        w->shape[row] = accumulator ? form : NULL;
        w->shape_epoch[row] = w->epoch;
    }
}

void
sim_sm90_watch_done(SimWarp *warp, const Sm90Wgmma *form, uint32_t op)
{
    SimRegisterWatch *w = warp->watch;
    if (!w || w->frame != warp->running->frame)
        return;
    for (uint32_t i = 0; i < form->d_count + (uint32_t)form->a_count; i++) {
        SimSlot slot = i < form->d_count ? form->d[i] : form->a[i - form->d_count];
        if ((slot & 3) == SIM_BANK_REGISTERS && w->op[slot / ROW] == op + 1)
            w->op[slot / ROW] = 0;
    }
}
