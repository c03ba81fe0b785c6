/* page_options.c - the options behind `page`. */
#include "compiler/driver/page_options.h"

TilecOptions
page_options(const TilecOptions *asked)
{
    TilecOptions options = *asked;

    options.line_info = options.remarks = options.report = options.schedule_picture = true;
    return options;
}
