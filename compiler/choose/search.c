/* search.c - what a search is about: a kernel, sizes of its tensors, the values to try for what it
 * leaves `auto`.
 *
 * Plans for which there is code are listed by their time (search_built.c), or all divisions among
 * warp groups, whether or not there is code for them, with what they take (search_divisions.c).
 * Nothing is measured and nothing lowered.
 */
#include "compiler/choose/search.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/cost/trips.h"
#include "compiler/passes/util/tir_util.h"

typedef struct Search {
    PassContext *px;
    TilecSearch asked;   /* `tiles` by the parameters that are open */
    const TirFn *sample; /* the kernel with middling sizes */
    AutoTiles open;      /* what it leaves open */
    int64_t *sizes;      /* of the tensors, by index */
} Search;

/* ---- the kernel ---- */

/* The one that is named, or the first of those with the most products. */
static const char *
choose_kernel(const Front *front, Diag *diag)
{
    TirModule *module = front_module(front);
    const TirFn *best = NULL;
    uint32_t most = 0;

    for (uint32_t k = 0; module != NULL && k < module->fns.n; k++) {
        uint32_t n = count_mmas(module->fns.at[k]->body);
        if (best == NULL || n > most) {
            best = module->fns.at[k];
            most = n;
        }
    }
    if (best != NULL && most == 0)
        diag_error(
            diag, best->span,
            "E-SEARCH: kernel '%s' has no products: there is nothing to divide among warp groups",
            best->name);
    return most == 0 ? NULL : best->name;
}

/* ---- the sizes of tensors ---- */

static bool
read_size(Search *s, const TilecDefine *define)
{
    char *end;
    long long value = strtoll(define->value, &end, 10);

    for (uint32_t k = 0; k < s->sample->sizes.n; k++) {
        if (strcmp(s->sample->sizes.at[k].name, define->name) != 0)
            continue;
        if (end == define->value || *end != '\0' || value < 1 || value > INT32_MAX) {
            diag_error(s->px->diag, (Span){0}, "E-SIZES: --size %s=%s: expected a positive number",
                       define->name, define->value);
            return false;
        }
        s->sizes[k] = value;
        return true;
    }
    diag_error(s->px->diag, (Span){0}, "E-SIZES: --size %s=%s: kernel '%s' has no size '%s'",
               define->name, define->value, s->sample->name, define->name);
    return false;
}

static bool
read_sizes(Search *s)
{
    s->sizes = trips_usual_sizes(s->px->arena, s->sample);
    for (size_t k = 0; k < s->asked.n_sizes; k++)
        if (!read_size(s, &s->asked.sizes[k]))
            return false;
    return true;
}

/* ---- the sizes of tiles ---- */

/* Whether there is a parameter for the sizes of list `k`. */
static bool
may_list(Search *s, const TilecSearch *search, uint32_t k, const char *const *autos, uint32_t n)
{
    static const char *const flags[TILEC_OPEN] = {"--tile-m", "--tile-n", "--tile-k"};

    if (search->n_tiles[k] == 0)
        return true;
    if (k >= n) {
        diag_error(s->px->diag, s->sample->span,
                   "E-SEARCH: %s: kernel '%s' has %" PRIu32 " parameters that are 'auto'", flags[k],
                   s->sample->name, n);
        return false;
    }
    if (!auto_is_open(&s->open, autos[k])) {
        diag_error(s->px->diag, s->sample->span,
                   "E-SEARCH: %s: parameter '%s' of kernel '%s' is pinned by -D", flags[k],
                   autos[k], s->sample->name);
        return false;
    }
    return true;
}

/* The lists by the places of the parameters that are open: the last one is for all further ones,
 * too.  Of divisions there are usual ones: rows and columns come first by custom. */
static bool
take_lists(Search *s, const Front *front, const TilecSearch *search)
{
    static const int32_t sides[] = {64, 80, 96, 112, 128, 144, 160, 176, 192, 256};
    static const int32_t depths[] = {32, 64, 128};
    const char *autos[MAX_AUTO];
    uint32_t n = front_autos(front, s->sample->name, autos, MAX_AUTO);

    for (uint32_t k = 0; k < TILEC_OPEN; k++)
        if (!may_list(s, search, k, autos, n))
            return false;
    memset(s->asked.n_tiles, 0, sizeof s->asked.n_tiles);
    for (uint32_t place = 0; place < TILEC_OPEN; place++) {
        uint32_t list = 0;
        bool open = place < s->open.asked;
        while (open && list + 1 < TILEC_OPEN && list + 1 < n &&
               strcmp(autos[list], s->open.names[place]) != 0)
            list++;
        if (open && search->n_tiles[list] > 0) {
            s->asked.tiles[place] = search->tiles[list];
            s->asked.n_tiles[place] = search->n_tiles[list];
        } else if (open && search->order == TILEC_BY_TRAFFIC) {
            s->asked.tiles[place] = list < 2 ? sides : depths;
            s->asked.n_tiles[place] = list < 2 ? sizeof sides / sizeof sides[0]
                                               : sizeof depths / sizeof depths[0];
        }
    }
    return true;
}

/* ---- the whole ---- */

static bool
can_search(PassContext *px)
{
    if (!target_predicts_roles(px->target))
        diag_error(
            px->diag, (Span){0},
            target_has_roles(px->target)
                ? "E-SEARCH: how long warp groups take on %s is not known: there are no plans to search"
                : "E-SEARCH: %s has no products of warp groups: there are no plans to search",
            px->target->name);
    return target_predicts_roles(px->target);
}

void
search_run(const Front *front, PassContext *px, Arena *trials, const TilecSearch *search, Buf *out,
           Buf *picture)
{
    Search *s = arena_new(px->arena, Search);
    Front sample = *front;

    *s = (Search){.px = px, .asked = *search};
    sample.arena = px->arena;
    const char *name = can_search(px) ? choose_kernel(&sample, px->diag) : NULL;
    s->sample = name == NULL ? NULL : front_kernel(&sample, name, NULL, &s->open);
    if (s->sample == NULL || !take_lists(s, &sample, search) || !read_sizes(s))
        return;
    if (search->order == TILEC_BY_TIME)
        search_print_built(front, px, trials, s->sample, &s->asked, s->sizes, out, picture);
    else
        search_print_divisions(front, px, trials, s->sample, &s->open, &s->asked, s->sizes, out);
}
