/* roles_tiles.c - the tile scheduler's operations: each role's program begins by finding its tile, and ends with
 * what leads to the next one.
 *
 *     producer { tile_send     ..  tile_draw }      of a dynamic scheduler
 *     body     { tile_receive  ..  tile_end }
 *     producer { tile_find     ..  tile_advance }   of a static one
 *     body     { tile_take     ..  tile_late }      of consumers that have `next_tile`
 */
#include "compiler/passes/schedule/roles.h"

void
roles_make_tiles(TirFn *fn)
{
    for (uint32_t k = 0; k < fn->plan->roles.n; k++) {
        RoleKind kind = fn->plan->roles.at[k].kind;
        TirBlock *program = tir_program_at(fn, k);
        if (kind == ROLE_NEXT_TILE)
            continue;
        TirBuilder head = {.fn = fn, .block = program, .at = 0, .span = fn->span};
        tir_op_new(&head, tir_tile_head(fn->plan, kind), 0, NULL, 0, NULL);
        TirBuilder tail = {.fn = fn, .block = program, .at = -1, .span = fn->span};
        tir_op_new(&tail, tir_tile_tail(fn->plan, kind), 0, NULL, 0, NULL);
    }
}
