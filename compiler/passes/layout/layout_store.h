/* layout_store.h - the layouts of one function, each made once.
 *
 * Inference tries many divisions of the products and derives the same few layouts again and again.
 * The store remembers each layout by the call that made it, and keeps one copy of equal layouts:
 * two layouts of a store are equal exactly if their pointers are.
 */
#ifndef TILEC_PASSES_LAYOUT_STORE_H
#define TILEC_PASSES_LAYOUT_STORE_H

#include "compiler/ir/layout.h"

enum { STORE_STAGES = 256, DISTINCT_LISTS = 64 };

typedef struct LayoutStore {
    Arena *arena;
    uint32_t warps;
    struct StoredLayout *stages[STORE_STAGES];
    VEC(const Layout *) distinct[DISTINCT_LISTS]; /* by what is quickly seen of them */
} LayoutStore;

/* As the functions of layout.h, with all of the function's warps. */
const Layout *stored_mma_c(LayoutStore *store, int32_t rows, int32_t cols, uint32_t warps_m,
                           uint32_t warps_n);
const Layout *stored_mma_a(LayoutStore *store, int32_t rows, int32_t k, int32_t word,
                           uint32_t warps_m);
const Layout *stored_mma_b(LayoutStore *store, int32_t k, int32_t cols, int32_t word,
                           uint32_t warps_m, uint32_t warps_n);
const Layout *stored_mma_scales(LayoutStore *store, int32_t lines, int32_t scales, bool left,
                                uint32_t warps_m, uint32_t warps_n);
const Layout *stored_group_c(LayoutStore *store, int32_t rows, int32_t cols);
const Layout *stored_group_a(LayoutStore *store, int32_t rows, int32_t k, int32_t word);
const Layout *stored_sorted(LayoutStore *store, TirType type, uint32_t axis);
const Layout *stored_rows(LayoutStore *store, int32_t cols);
const Layout *stored_blocked(LayoutStore *store, TirType type, int32_t vec);
const Layout *stored_transpose(LayoutStore *store, const Layout *layout);
const Layout *stored_slice(LayoutStore *store, const Layout *layout, uint32_t axis);
const Layout *stored_expand(LayoutStore *store, const Layout *layout, uint32_t axis);
const Layout *stored_collapse(LayoutStore *store, const Layout *layout, TirType shape);
/* NULL: the layout can not be cut along the part. */
const Layout *stored_drop_part(LayoutStore *store, const Layout *layout, LayoutPart part,
                               int32_t extent);
const Layout *stored_by_parts(LayoutStore *store, TirType type, LayoutPart part, int32_t vec);
/* NULL when there is none (layout_widen, layout_lengthen). */
const Layout *stored_widen(LayoutStore *store, const Layout *layout, uint32_t axis);
const Layout *stored_lengthen(LayoutStore *store, const Layout *layout, uint32_t axis, int32_t most);
/* Every element is already in the right thread. */
bool stored_in_place(LayoutStore *store, const Layout *from, const Layout *to);
/* One exchange between lanes, and other numbers of lanes, lead from one to the other, with elements
 * of that type. */
bool stored_one_exchange(LayoutStore *store, const Layout *from, const Layout *to, DType dtype);

#endif
