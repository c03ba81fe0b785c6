/* search.h - lists of plans for warp groups, for tilec_search. */
#ifndef TILEC_SEARCH_H
#define TILEC_SEARCH_H

#include "compiler/choose/auto_plan.h"
#include "compiler/front/front.h"
#include "compiler/passes/pass.h"

/* Lists the plans of a kernel as `search` asks to `out`.  `picture`: if it asks for one.  `trials`
 * is reset for each trial.  Reasons for an empty list go to px->diag. */
void search_run(const Front *front, PassContext *px, Arena *trials, const TilecSearch *search,
                Buf *out, Buf *picture);

/* The lists that it chooses from, as a table or as JSON.  Of plans that can be built: what `auto`
 * takes first, then by time; makes `sizes` smaller where `search` asks for short launches. */
void search_print_built(const Front *front, PassContext *px, Arena *trials, const TirFn *sample,
                        const TilecSearch *search, int64_t *sizes, Buf *out, Buf *picture);
/* Of all divisions among warp groups, by what they ask of shared memory; `open`: what is open. */
void search_print_divisions(const Front *front, PassContext *px, Arena *trials, const TirFn *sample,
                            const AutoTiles *open, const TilecSearch *search, const int64_t *sizes,
                            Buf *out);
/* The beginning of a line of the tuning database, which says what it is about:
 * "{..,"tiles":{..}". */
void search_print_key(const Target *target, const TirFn *sample, const AutoTiles *open,
                      const int64_t *sizes, const int32_t *values, Buf *out);

#endif
