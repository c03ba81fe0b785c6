/* tir_verify_tiles.c - where the tile scheduler's operations stand in the programs of roles. */
#include "compiler/ir/tir_verifier.h"

#include <inttypes.h>

static void
check_no_tile_op(Verifier *v, const TirBlock *block, bool inside)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        const TirOp *op = block->ops.at[i];
        bool end = !inside && (i == 0 || i + 1 == block->ops.n);
        bool asks = op->op == TIR_TILE_ASK && !inside && !end; /* check_asking */
        if (tir_is_tile_op(op->op) && !asks && (!end || op->op == TIR_TILE_ASK))
            tir_fault(v, op, "stands elsewhere than at the begin or the end of a role's program");
        for (uint32_t k = 0; k < op->n_blocks; k++)
            check_no_tile_op(v, op->blocks[k], true);
    }
}

/* With cluster launch control a producer asks once for each answer, whatever its tile is. */
static void
check_asking(Verifier *v, const TirRole *role, const TirBlock *program)
{
    bool asks = tir_has_clc(v->fn->plan) && role->kind == ROLE_PRODUCER;
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->ops.n; i++)
        n += program->ops.at[i]->op == TIR_TILE_ASK;
    if (n != asks)
        tir_fault(v, NULL, "role %s asks for a tile %" PRIu32 " times, expected %d: %s", role->name,
                  n, asks,
                  asks ? "tile_answer takes the answer" : "no tile_answer takes the answer");
}

void
tir_check_tiles(Verifier *v, const TirRole *role, const TirBlock *program)
{
    TirOpcode head = tir_tile_head(v->fn->plan, role->kind),
              tail = tir_tile_tail(v->fn->plan, role->kind);
    uint32_t n = program->ops.n;

    if (n < 2 || program->ops.at[0]->op != head || program->ops.at[n - 1]->op != tail)
        tir_fault(v, n == 0 ? NULL : program->ops.at[0],
                  "the program of role %s begins with %s and ends with %s", role->name,
                  tir_op_info(head)->text, tir_op_info(tail)->text);
    check_no_tile_op(v, program, false);
    check_asking(v, role, program);
}
