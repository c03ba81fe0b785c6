/* layout_store.c - layouts by how they were made. */
#include "compiler/passes/layout/layout_store.h"

#include <stddef.h>
#include <string.h>

typedef enum Maker {
    MADE_MMA_C,
    MADE_MMA_A,
    MADE_MMA_B,
    MADE_MMA_SCALES,
    MADE_GROUP_C,
    MADE_GROUP_A,
    MADE_ROWS,
    MADE_BLOCKED,
    MADE_SORTED,
    MADE_TRANSPOSE,
    MADE_SLICE,
    MADE_EXPAND,
    MADE_COLLAPSE,
    MADE_WIDEN,
    MADE_LENGTHEN,
    MADE_DROP_PART,
    MADE_BY_PARTS,
    IS_IN_PLACE,    /* no layout: a fact about `from` and `to` */
    IS_ONE_EXCHANGE /* another */
} Maker;

enum { RECIPE_NUMBERS = 7 };

/* How it was made; what does not matter to the maker is 0. */
typedef struct Recipe {
    Maker maker;
    int32_t n[RECIPE_NUMBERS];
    const Layout *from, *to;
} Recipe;

typedef struct StoredLayout {
    struct StoredLayout *next;
    Recipe recipe;
    const Layout *layout; /* NULL: there is none */
    bool fact;
} StoredLayout;

static bool
same_recipe(const Recipe *a, const Recipe *b)
{
    return a->maker == b->maker && a->from == b->from && a->to == b->to &&
           memcmp(a->n, b->n, sizeof a->n) == 0;
}

static uint32_t
stage_of(const Recipe *recipe)
{
    uint64_t words[(RECIPE_NUMBERS + 1) / 2] = {0};

    memcpy(words, recipe->n, sizeof recipe->n);
    uint64_t hash = recipe->maker + 31 * (words[0] ^ words[0] >> 25);
    hash = hash * 31 + (words[1] ^ words[1] >> 25);
    hash = hash * 31 + (words[2] ^ words[2] >> 25) + 7 * words[3];
    hash = hash * 31 + (uint64_t)(uintptr_t)recipe->from / sizeof(max_align_t);
    hash = hash * 31 + (uint64_t)(uintptr_t)recipe->to / sizeof(max_align_t);
    return (uint32_t)(hash * 0x9E3779B97F4A7C15u >> 32) % STORE_STAGES;
}

/* What was made by `recipe`; `*is_new` when that is for the caller to fill in. */
static StoredLayout *
find(LayoutStore *store, const Recipe *recipe, bool *is_new)
{
    StoredLayout **stage = &store->stages[stage_of(recipe)];

    *is_new = false;
    for (StoredLayout *at = *stage; at != NULL; at = at->next) {
        if (same_recipe(&at->recipe, recipe))
            return at;
    }
    StoredLayout *made = arena_new(store->arena, StoredLayout);
    made->recipe = *recipe;
    made->next = *stage;
    *stage = made;
    *is_new = true;
    return made;
}

/* The one copy of a layout. */
static const Layout *
keep_one(LayoutStore *store, const Layout *layout)
{
    if (layout == NULL)
        return NULL;
    uint32_t hash = (uint32_t)layout->shape[0] + layout->reg.n + 3 * layout->lane.n;
    for (uint32_t k = 0; k < layout->reg.n; k++)
        hash = 31 * hash + (uint32_t)layout->reg.at[k].step[0] +
               5 * (uint32_t)layout->reg.at[k].step[1];
    hash += (hash >> 16) + (hash >> 8);
    hash %= DISTINCT_LISTS;
    for (uint32_t k = 0; k < store->distinct[hash].n; k++) {
        if (layout_eq(store->distinct[hash].at[k], layout))
            return store->distinct[hash].at[k];
    }
    vec_push(store->arena, &store->distinct[hash], layout);
    return layout;
}

static const Layout *
make(LayoutStore *store, const Recipe *recipe)
{
    const int32_t *n = recipe->n;
    const Layout *from = recipe->from;
    Arena *arena = store->arena;
    TirType type;

    switch (recipe->maker) {
    case MADE_MMA_C:
        return layout_mma_c(arena, n[0], n[1], (uint32_t)n[2], (uint32_t)n[3], store->warps);
    case MADE_MMA_A: return layout_mma_a(arena, n[0], n[1], n[4], (uint32_t)n[2], store->warps);
    case MADE_MMA_B:
        return layout_mma_b(arena, n[0], n[1], n[4], (uint32_t)n[2], (uint32_t)n[3], store->warps);
    case MADE_MMA_SCALES:
        return layout_mma_scales(arena, n[0], n[1], n[4] != 0, (uint32_t)n[2], (uint32_t)n[3],
                                 store->warps);
    case MADE_GROUP_C: return layout_group_c(arena, n[0], n[1]);
    case MADE_GROUP_A: return layout_group_a(arena, n[0], n[1], n[4]);
    case MADE_ROWS: return layout_rows(arena, n[0], store->warps);
    case MADE_BLOCKED:
        type = (TirType){.rank = (uint32_t)n[0], .dim = {n[1], n[2]}};
        return layout_blocked(arena, type, n[3], store->warps);
    case MADE_SORTED:
        type = (TirType){.rank = (uint32_t)n[0], .dim = {n[1], n[2]}};
        return layout_sorted(arena, type, (uint32_t)n[3], store->warps);
    case MADE_TRANSPOSE: return layout_transpose(arena, from);
    case MADE_SLICE: return layout_slice(arena, from, (uint32_t)n[0]);
    case MADE_EXPAND: return layout_expand(arena, from, (uint32_t)n[0]);
    case MADE_COLLAPSE:
        type = (TirType){.rank = (uint32_t)n[0], .dim = {n[1], n[2]}};
        return layout_collapse(arena, from, type);
    case MADE_WIDEN: return layout_widen(arena, from, (uint32_t)n[0]);
    case MADE_LENGTHEN: return layout_lengthen(arena, from, (uint32_t)n[0], n[1]);
    case MADE_DROP_PART:
        return layout_drop_part(arena, from, (LayoutPart){(uint32_t)n[0], n[1], n[2]}, n[3]);
    case MADE_BY_PARTS:
        type = (TirType){.rank = (uint32_t)n[0], .dim = {n[1], n[2]}};
        return layout_by_parts(arena, type, (LayoutPart){(uint32_t)n[3], n[4], n[5]}, n[6],
                               store->warps);
    case IS_IN_PLACE:
    case IS_ONE_EXCHANGE: break;
    }
    return NULL;
}

static const Layout *
stored(LayoutStore *store, Recipe recipe)
{
    bool is_new;
    StoredLayout *found = find(store, &recipe, &is_new);

    if (is_new)
        found->layout = keep_one(store, make(store, &recipe));
    return found->layout;
}

const Layout *
stored_mma_c(LayoutStore *store, int32_t rows, int32_t cols, uint32_t warps_m, uint32_t warps_n)
{
    return stored(
        store, (Recipe){MADE_MMA_C, {rows, cols, (int32_t)warps_m, (int32_t)warps_n}, NULL, NULL});
}

const Layout *
stored_mma_a(LayoutStore *store, int32_t rows, int32_t k, int32_t word, uint32_t warps_m)
{
    return stored(store, (Recipe){MADE_MMA_A, {rows, k, (int32_t)warps_m, 0, word}, NULL, NULL});
}

const Layout *
stored_mma_b(LayoutStore *store, int32_t k, int32_t cols, int32_t word, uint32_t warps_m,
             uint32_t warps_n)
{
    return stored(
        store,
        (Recipe){MADE_MMA_B, {k, cols, (int32_t)warps_m, (int32_t)warps_n, word}, NULL, NULL});
}

const Layout *
stored_mma_scales(LayoutStore *store, int32_t lines, int32_t scales, bool left, uint32_t warps_m,
                  uint32_t warps_n)
{
    return stored(store, (Recipe){MADE_MMA_SCALES,
                                  {lines, scales, (int32_t)warps_m, (int32_t)warps_n, left},
                                  NULL,
                                  NULL});
}

const Layout *
stored_group_c(LayoutStore *store, int32_t rows, int32_t cols)
{
    return stored(store, (Recipe){MADE_GROUP_C, {rows, cols, 0, 0}, NULL, NULL});
}

const Layout *
stored_group_a(LayoutStore *store, int32_t rows, int32_t k, int32_t word)
{
    return stored(store, (Recipe){MADE_GROUP_A, {rows, k, 0, 0, word}, NULL, NULL});
}

const Layout *
stored_rows(LayoutStore *store, int32_t cols)
{
    return stored(store, (Recipe){MADE_ROWS, {cols}, NULL, NULL});
}

const Layout *
stored_blocked(LayoutStore *store, TirType type, int32_t vec)
{
    return stored(
        store,
        (Recipe){MADE_BLOCKED, {(int32_t)type.rank, type.dim[0], type.dim[1], vec}, NULL, NULL});
}

const Layout *
stored_sorted(LayoutStore *store, TirType type, uint32_t axis)
{
    int32_t n[] = {(int32_t)type.rank, type.dim[0], type.rank > 1 ? type.dim[1] : 0};

    return stored(store, (Recipe){MADE_SORTED, {n[0], n[1], n[2], (int32_t)axis}, NULL, NULL});
}

const Layout *
stored_transpose(LayoutStore *store, const Layout *layout)
{
    return stored(store, (Recipe){MADE_TRANSPOSE, {0}, layout, NULL});
}

const Layout *
stored_slice(LayoutStore *store, const Layout *layout, uint32_t axis)
{
    return stored(store, (Recipe){MADE_SLICE, {(int32_t)axis, 0, 0, 0}, layout, NULL});
}

const Layout *
stored_expand(LayoutStore *store, const Layout *layout, uint32_t axis)
{
    return stored(store, (Recipe){MADE_EXPAND, {(int32_t)axis, 0, 0, 0}, layout, NULL});
}

const Layout *
stored_collapse(LayoutStore *store, const Layout *layout, TirType shape)
{
    return stored(
        store,
        (Recipe){MADE_COLLAPSE, {(int32_t)shape.rank, shape.dim[0], shape.dim[1], 0}, layout, NULL});
}

const Layout *
stored_drop_part(LayoutStore *store, const Layout *layout, LayoutPart part, int32_t extent)
{
    return stored(store, (Recipe){MADE_DROP_PART,
                                  {(int32_t)part.axis, part.inner, part.length, extent},
                                  layout,
                                  NULL});
}

const Layout *
stored_by_parts(LayoutStore *store, TirType type, LayoutPart part, int32_t vec)
{
    return stored(store, (Recipe){MADE_BY_PARTS,
                                  {(int32_t)type.rank, type.dim[0], type.rank == 2 ? type.dim[1] : 0,
                                   (int32_t)part.axis, part.inner, part.length, vec},
                                  NULL,
                                  NULL});
}

const Layout *
stored_widen(LayoutStore *store, const Layout *layout, uint32_t axis)
{
    return stored(store, (Recipe){MADE_WIDEN, {(int32_t)axis, 0, 0, 0}, layout, NULL});
}

const Layout *
stored_lengthen(LayoutStore *store, const Layout *layout, uint32_t axis, int32_t most)
{
    return stored(store, (Recipe){MADE_LENGTHEN, {(int32_t)axis, most, 0, 0}, layout, NULL});
}

bool
stored_in_place(LayoutStore *store, const Layout *from, const Layout *to)
{
    Recipe recipe = {IS_IN_PLACE, {0}, from, to};
    bool is_new;
    StoredLayout *found = find(store, &recipe, &is_new);

    if (is_new)
        found->fact = layout_register_map(store->arena, from, to) != NULL;
    return found->fact;
}

bool
stored_one_exchange(LayoutStore *store, const Layout *from, const Layout *to, DType dtype)
{
    int32_t word = (int32_t)dtype_per_word(dtype);
    Recipe recipe = {IS_ONE_EXCHANGE, {word}, from, to};
    LaneMoves moves;
    bool is_new;
    StoredLayout *found = find(store, &recipe, &is_new);

    if (is_new)
        found->fact = layout_find_moves(store->arena, from, to, word, &moves);
    return found->fact;
}
