/* search.h - the list of plans for warp groups, for tilec_search. */
#ifndef TILEC_SEARCH_H
#define TILEC_SEARCH_H

#include "compiler/choose/auto_plan.h"
#include "compiler/front/front.h"
#include "compiler/passes/pass.h"

/* Tries the tile sizes of `search` on a kernel with all divisions among warp groups and prints the list to
 * `out`.  `trials` is reset for each trial.  Reasons for an empty list go to px->diag. */
void search_run(const Front *front, PassContext *px, Arena *trials, const TilecSearch *search,
                Buf *out);

/* The list of plans that can be built, as a table or as JSON: what `auto` takes first, then by time.  Makes `sizes` smaller
 * where `search` asks for short launches. */
void search_print_built(const Front *front, PassContext *px, Arena *trials, const TirFn *sample,
                        const TilecSearch *search, int64_t *sizes, Buf *out);
/* The beginning of a line of the tuning database, which says what it is about: "{..,"tiles":{..}". */
void search_print_key(const Target *target, const TirFn *sample, const AutoTiles *open,
                      const int64_t *sizes, const int32_t *values, Buf *out);

#endif
