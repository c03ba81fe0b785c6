/* read_once.c - tiles that have each element of a range several times are loaded once, and spread
 * in registers.
 *
 * Of a packed type the bytes are loaded once for each element in them; as plain tiles of bytes they
 * can be copied.
 *
 *     %a = load W[%n +: 64, %k +: 32 by 2 of 64]          %b = load W[%n +: 64, %k +: 32]
 *                                                         %a = spread %b +: 2 by 1 of 64 axis(1)
 */
#include "compiler/passes/util/read_once.h"

bool
repeats_elements(const TirOp *load)
{
    TirDims last = tir_last_dim(load);

    if (load->op != TIR_LOAD || load->results[0]->type.rank != 2 || !last.range)
        return false;
    for (TirDims d = tir_dims(load); tir_dims_next(&d);)
        if (d.axis == last.axis && d.dim != last.dim)
            return false; /* another range of the same pack tells them apart */
    const TirIndex *index = last.index;
    return index->rows > 0 && index->inner > 1 && index->length * index->inner == index->rows;
}

void
read_bytes_once(TirFn *fn, TirBlock *block, uint32_t at)
{
    TirOp *load = block->ops.at[at];

    if (load->op != TIR_LOAD || load->n_limits > 0 || !repeats_elements(load))
        return;
    TirDims last = tir_last_dim(load);
    TirIndex *index = &load->index[last.dim], before = *index;
    TirVal *value = load->results[0];
    TirBuilder b = {.fn = fn, .block = block, .at = (int32_t)at + 1, .span = load->span};
    *index = tir_range(before.length);
    index->open = before.open;
    value->type.dim[last.axis] = before.length;
    TirVal *spread = tir_spread(&b, value, last.axis, tir_part(before.inner, 1, before.rows));
    tir_replace_uses(fn, value, spread);
    spread->def->args[0] = value;
}
