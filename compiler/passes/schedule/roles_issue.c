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
    TirOp *branch = roles_begin_if(b, none);

    for (uint32_t k = 0; k < n; k++) {
        TirType type = tir_tile2(sums[k]->dtype, sums[k]->rows, sums[k]->cols);
        TirVal *zero = tir_splat_const(b, type, 0);
        tir_op_new(b, TIR_TMEM_WRITE, 1, &zero, 0, NULL)->shared = sums[k];
    }
    roles_end(b, branch);
}

void
roles_release_sums(Roles *r)
{
    for (uint32_t k = 0; k < r->sums.n; k++)
        roles_plain(&r->b, TIR_CONSUMER_RELEASE, r->sums.at[k], 0);
}
