/* search.h - the list of plans for warp groups, for tilec_search. */
#ifndef TILEC_SEARCH_H
#define TILEC_SEARCH_H

#include "compiler/front.h"
#include "compiler/passrun.h"

/* Tries the tile sizes of `search` on a kernel, with all divisions among warp groups; the list goes
 * to `out`.  `trials` is emptied again and again.  What stands against it goes to px->diag. */
void search_run(const Front *front, PassContext *px, Arena *trials, const TilecSearch *search,
                Buf *out);

#endif
