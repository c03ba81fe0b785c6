/* roles_tiles.c - the tile scheduler's operations: each role's program begins by finding its tile,
 * and ends with what leads to the next one.
 *
 *     producer { tile_send     ..  tile_draw }      of a dynamic scheduler
 *     body     { tile_receive  ..  tile_end }
 *     producer { tile_find     ..  tile_advance }   of a static one
 *     body     { tile_take     ..  tile_late }      of consumers that have `next_tile`
 *
 * With cluster launch control a producer asks for the next tile before it takes the answer.  Where
 * all tiles are alike it asks first, so that the answer is there when it has copied the tile at
 * hand.  Where they differ in length it asks last: who asks early has a tile in hand that another
 * block could begin.
 *
 *     producer { tile_send  tile_ask  ..  tile_answer }
 *     producer { tile_send  ..  tile_ask  tile_answer }
 */
#include "compiler/passes/schedule/roles.h"

static void
make_asking(TirFn *fn, TirBlock *producer)
{
    bool differ = tir_length_axis(fn) < fn->grid.n || tir_has_ended_axis(fn);
    TirBuilder at = {.fn = fn, .block = producer, .at = differ ? -1 : 1, .span = fn->span};

    tir_op_new(&at, TIR_TILE_ASK, 0, NULL, 0, NULL);
}

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
        if (tir_has_clc(fn->plan) && kind == ROLE_PRODUCER)
            make_asking(fn, program);
        TirBuilder tail = {.fn = fn, .block = program, .at = -1, .span = fn->span};
        tir_op_new(&tail, tir_tile_tail(fn->plan, kind), 0, NULL, 0, NULL);
    }
}
