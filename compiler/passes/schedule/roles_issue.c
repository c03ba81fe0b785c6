/* roles_issue.c - sums of products that a role of their own issues, as consumers have them behind the loop.
 *
 * Of a loop that does nothing but add products up a consumer has no iterations (roles_chain.c writes the loop):
 *
 *     mma         acquire a stage of each sum; for .. { wait for operands, issue products, give operands back };
 *                 commit the stages
 *     consumer    wait for the stages; what stands behind the loop reads them; give them back
 *
 * A sum has two stages where tensor memory has room: the next tile's products run while a consumer reads this one's.  Where
 * the loop has no iteration, the consumer writes zeros itself.
 */
#include "compiler/passes/schedule/roles.h"

#include "compiler/passes/util/tir_util.h"

void
roles_zero_sums(Roles *r, TirVal *none, TirShared *const *sums, uint32_t n)
{
    TirBuilder *b = &r->b;
    TirOp *branch = tir_if(b, none, 0, NULL);
    TirBlock *around = b->block;

    for (uint32_t side = 0; side < 2; side++) {
        b->block = branch->blocks[side];
        for (uint32_t k = 0; k < n && side == 0; k++) {
            TirVal *zero = tir_splat_const(
                b, tir_tile2(sums[k]->dtype, sums[k]->rows, sums[k]->cols), 0);
            tir_op_new(b, TIR_TMEM_WRITE, 1, &zero, 0, NULL)->shared = sums[k];
        }
        tir_yield(b, 0, NULL);
    }
    b->block = around;
}

void
roles_release_sums(Roles *r)
{
    for (uint32_t k = 0; k < r->sums.n; k++)
        roles_plain(&r->b, TIR_CONSUMER_RELEASE, r->sums.at[k], 0);
}
