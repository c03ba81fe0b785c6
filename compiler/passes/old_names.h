/* old_names.h - names that were others before. */
#ifndef TILEC_OLD_NAMES_H
#define TILEC_OLD_NAMES_H

#include <stddef.h>

/* What is called `name` (of `n` characters) now; NULL: nothing was called so. */
const char *current_name(const char *name, size_t n);

#endif
