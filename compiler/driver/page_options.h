/* page_options.h - what a page about a compilation is made of. */
#ifndef TILEC_DRIVER_PAGE_OPTIONS_H
#define TILEC_DRIVER_PAGE_OPTIONS_H

#include "compiler/tilec.h"

/* Options that make all that stands on the page; what the user did not ask for is on the page
 * alone. */
TilecOptions page_options(const TilecOptions *asked);

#endif
