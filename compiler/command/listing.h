/* listing.h - PTX to the text of its machine code, for who looks at no more than that. */
#ifndef TILEC_COMMAND_LISTING_H
#define TILEC_COMMAND_LISTING_H

#include <stddef.h>

/* What stands behind .target in the PTX, "sm_90a"; the caller frees it. */
char *ptx_target(const char *ptx);

/* Machine code with its encodings and the lines of PTX that it was made of, as `nvdisasm -c -hex
 * -gp` prints it.  NULL and a reason when there is none; the caller frees either. */
char *listing_of_ptx(const char *ptx, size_t n, char **why);

#endif
