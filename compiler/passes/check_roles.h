/* check_roles.h - one role's run over one tile, as pass check-roles sees it. */
#ifndef TILEC_PASSES_CHECK_ROLES_H
#define TILEC_PASSES_CHECK_ROLES_H

#include "compiler/passes/role_walk.h"

/* How many slots of a ring a band may hold at once: the lowering has one cursor for each ring, which
 * a release moves on; of those that lag, one for waits and one for releases. */
enum { RING_HELD_MOST = 1, RING_HELD_LAGGING = 2 };

/* What a role does to others, in order: copies; or waits, shared_reads of what
 * they bring, releases, turns. */
typedef VEC(const TirOp *) RoleEvents;

typedef struct RoleFault {
    const char *text;        /* NULL: all is well */
    const TirOp *op, *other; /* where it shows; what it is about, or NULL */
} RoleFault;

/* What stays the same over all runs of the band's program. */
typedef struct BandFacts BandFacts;
BandFacts *band_facts(Arena *arena, const TirFn *fn);

/* Runs a band's program, everything kept, over one tile and checks what depends on the band alone.
 * False, and why, when something is wrong; `events` then end where it shows.  False without a reason
 * when the run is too long. */
bool check_band(const BandFacts *facts, Walk *walk, const WalkProgram *program, RoleEvents *events,
                RoleFault *fault);
/* Only lists what a band does to others. */
bool list_band_events(Arena *arena, Walk *walk, const WalkProgram *program, RoleEvents *events);
/* Likewise the producer's: the parts of a slot are filled in order. */
bool check_producer(Arena *arena, const TirFn *fn, Walk *walk, const WalkProgram *program,
                    RoleEvents *events, RoleFault *fault);

#endif
