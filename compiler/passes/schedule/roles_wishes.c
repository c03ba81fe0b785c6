/* roles_wishes.c - what the source asks for by name in @plan, and can not be had of this loop. */
#include "compiler/passes/schedule/roles.h"

typedef struct Wish {
    const char *key;
    bool wanted, had;
    const char *why; /* that stands against it */
} Wish;

void
roles_check_wishes(const Roles *r)
{
    const PlanHints *hints = &r->px->plan;
    const TirPlan *plan = r->fn->plan;
    const char *no_pingpong =
        tir_consumers(plan) < 2 ? "pingpong=1 needs more than one warp group"
        : tir_has_coop_k(r->fn)
            ? "pingpong=1 does not go with the products that this loop's warp groups "
              "share out"
        : !r->pipelined ? "pingpong=1 needs a pipelined loop, and this one is not"
                        : "pingpong=1 needs warp groups that all have the same iterations";
    const char *not_drawn = tir_is_clustered(plan)
                                ? "dynamic=1 does not go with cluster=2: the blocks of a pair "
                                  "take the same tile"
                            : tir_is_persistent(plan)
                                ? "dynamic=1 is for programs that differ in length, "
                                  "and these do not"
                                : "dynamic=1 needs persistent=1";
    const char *not_taken = hints->persistent
                                ? arena_printf(r->px->arena,
                                               "clc=1: %s has no cluster launch control",
                                               r->px->target->name)
                                : "clc=1 needs persistent=1";
    const Wish wishes[] = {{"clc", hints->clc, tir_has_clc(plan), not_taken},
                           {"dynamic", hints->dynamic, tir_is_dynamic(plan), not_drawn},
                           {"pingpong", hints->pingpong, r->pingpong, no_pingpong}};

    for (uint32_t k = 0; k < sizeof wishes / sizeof wishes[0]; k++) {
        if (!wishes[k].wanted || wishes[k].had || !plan_is_given(hints, wishes[k].key))
            continue;
        plan_not_kept(r->px, r->fn, r->loop->span, wishes[k].why);
        return; /* the others may follow from this one */
    }
}
