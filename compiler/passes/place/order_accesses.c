/* order_accesses.c - a program sees its own stores and additions.
 *
 *   level    tile IR with register layouts
 *   does     puts a barrier between two accesses of a program to one tensor that must keep their
 *            order (accesses.c), unless each element is touched by the same thread in both.  A
 *            barrier of the program's threads orders what they do to global memory, too: what was
 *            stored or added before it is seen by loads behind it, and loads before it see nothing
 *            of stores behind it
 *   leaves   barrier operations.  A branch that warps take by themselves has no stores, and the
 *            barrier for its loads stands before it
 *
 * Additions by `red` are relaxed operations at the scope of the GPU, and bar.sync synchronizes the
 * threads of a block (PTX ISA, memory consistency model: barriers are morally strong with one
 * another, causality order is transitive through them).  So a plain load behind the barrier has to
 * read the sum or something newer, wherever caches keep copies.  TMA copies and cp.async never
 * touch a tensor that its kernel writes (schedule.c, plan.c, roles_store.c).
 */
#include "compiler/ir/layout.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/util/accesses.h"

/* Whether every element of the tile is in one thread alone. */
static bool
has_no_copies(const TirFn *fn, const Layout *layout)
{
    return layout_warps(layout) == (int32_t)fn->warps && layout_copy_lanes(layout) == 0 &&
           !layout_copies_warps(layout);
}

static const Layout *
held_in(const TirOp *op)
{
    return op->op == TIR_LOAD ? op->results[0]->layout : op->args[op->n_args - 1]->layout;
}

/* Whether each element is accessed by the same thread both times, which keeps the order by itself.
 * Of several threads that hold a copy only the first stores, while all load. */
static bool
is_by_same_threads(const TirFn *fn, const AccessPair *pair)
{
    bool loads = pair->earlier->op == TIR_LOAD || pair->later->op == TIR_LOAD;

    if ((pair->earlier->op != TIR_LOAD && pair->earlier->op != TIR_STORE) ||
        (pair->later->op != TIR_LOAD && pair->later->op != TIR_STORE) || !access_same_place(pair))
        return false;
    const Layout *earlier = held_in(pair->earlier), *later = held_in(pair->later);
    if (earlier == NULL || later == NULL || earlier->rank == 0 || !layout_eq(earlier, later))
        return false;
    return !loads || has_no_copies(fn, earlier);
}

bool
pass_order_accesses(PassContext *px, TirFn *fn)
{
    AccessWalk walk = {.fn = fn, .settled = is_by_same_threads, .insert = true};

    (void)px;
    access_walk(&walk, fn->body);
    return walk.changed;
}
