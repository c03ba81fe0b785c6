/* arguments.c - what a caller of the library must give (see arguments.h).
 *
 * The messages are constants: they are made before there is an allocator to make others with.
 */
#include "compiler/driver/arguments.h"

#define ARGUMENT(name, what) "tilec: error: `" name "` " what " [E-OPTION]\n"
#define MISSING(name) ARGUMENT(name, "is NULL")
#define MISSING_IN(name) ARGUMENT(name, "is NULL, or something in it is")

static bool
lacks_define(const TilecDefine *defines, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (defines == NULL || defines[k].name == NULL || defines[k].value == NULL)
            return true;
    }
    return false;
}

static bool
lacks_text(const char *const *texts, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (texts == NULL || texts[k] == NULL)
            return true;
    }
    return false;
}

static bool
lacks_code(const TilecCubin *cubins, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (cubins == NULL || cubins[k].arch == NULL || cubins[k].bytes == NULL)
            return true;
    }
    return false;
}

const char *
arguments_missing_allocator(const TilecAllocator *allocator)
{
    if (allocator != NULL && (allocator->allocate == NULL || allocator->release == NULL))
        return MISSING("allocator->allocate or ->release");
    return NULL;
}

const char *
arguments_missing(const TilecOptions *options, const char *path, const char *text, size_t n)
{
    if (options == NULL)
        return MISSING("options");
    if (path == NULL)
        return ARGUMENT("path", "is NULL: messages need a name, such as \"kernel.tile\"");
    if (text == NULL && n > 0)
        return MISSING("text");
    if ((unsigned)options->emit > TILEC_EMIT_FORMATTED)
        return ARGUMENT("options->emit", "is no TilecEmit");
    if ((unsigned)options->unproved > TILEC_FAIL || (unsigned)options->no_plan > TILEC_FAIL)
        return ARGUMENT("options->unproved or ->no_plan", "is no TilecAction");
    if ((unsigned)options->unused > TILEC_FAIL || (unsigned)options->dimension > TILEC_FAIL)
        return ARGUMENT("options->unused or ->dimension", "is no TilecAction");
    if ((unsigned)options->broadcast > TILEC_FAIL || (unsigned)options->repeated > TILEC_FAIL ||
        (unsigned)options->order > TILEC_FAIL || (unsigned)options->narrow > TILEC_FAIL)
        return ARGUMENT("options->broadcast, ->repeated, ->order or ->narrow", "is no TilecAction");
    if (lacks_define(options->defines, options->n_defines))
        return MISSING_IN("options->defines");
    if (lacks_define(options->sizes, options->n_sizes))
        return MISSING_IN("options->sizes");
    if (lacks_text(options->switches, options->n_switches))
        return MISSING_IN("options->switches");
    if (lacks_code(options->header_cubins, options->n_header_cubins))
        return MISSING_IN("options->header_cubins");
    return arguments_missing_allocator(options->allocator);
}

const char *
arguments_missing_search(const TilecSearch *search)
{
    if (search == NULL)
        return MISSING("search");
    for (size_t k = 0; k < TILEC_OPEN; k++) {
        if (search->tiles[k] == NULL && search->n_tiles[k] > 0)
            return MISSING_IN("search->tiles");
    }
    if (search->groups == NULL && search->n_groups > 0)
        return MISSING("search->groups");
    return lacks_define(search->sizes, search->n_sizes) ? MISSING_IN("search->sizes") : NULL;
}

const char *
arguments_missing_run(const TilecRun *run)
{
    if (run == NULL)
        return MISSING("run");
    for (size_t k = 0; k < run->n_inputs; k++) {
        if (run->inputs == NULL || run->inputs[k].name == NULL ||
            (run->inputs[k].data == NULL && run->inputs[k].total > 0))
            return MISSING_IN("run->inputs");
        if (run->inputs[k].rank > TILEC_MAX_RANK)
            return ARGUMENT("run->inputs", "has an array of more than TILEC_MAX_RANK dimensions");
    }
    if ((unsigned)run->nan > TILEC_NAN_ERROR)
        return ARGUMENT("run->nan", "is no TilecNan");
    if (lacks_define(run->sets, run->n_sets))
        return MISSING_IN("run->sets");
    return lacks_text(run->outputs, run->n_outputs) ? MISSING_IN("run->outputs") : NULL;
}
