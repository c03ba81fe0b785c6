/* search_flags.c - what is behind the flags of `tilec search`. */
#include <stdlib.h>
#include <string.h>

#include "compiler/command/files.h"
#include "compiler/command/flags.h"

const FlagRow search_rows[] = {
    {"--mode", FLAG_MODE, FORM_NEXT, "NAME", "search FILE_NAME.tile next to FILE.tile: --mode bwd"},
    {"--tile-m", FLAG_TILE_M, FORM_NEXT, "LIST", "sizes to try for the first 'auto' parameter"},
    {"--tile-n", FLAG_TILE_N, FORM_NEXT, "LIST", "for the second one: --tile-n 64,96"},
    {"--tile-k", FLAG_TILE_K, FORM_NEXT, "LIST", "for all others"},
    {"--groups", FLAG_GROUPS, FORM_NEXT, "LIST", "warp groups that compute, 1 to 4"},
    {"--rows", FLAG_ROWS_SHOWN, FORM_NEXT, "N", "show the best N plans (20); 0: all"},
    {"--sort", FLAG_SORT, FORM_NEXT, "ORDER",
     "time: plans that tilec builds; traffic: all divisions among warp groups"},
    {"--built", FLAG_BUILT, FORM_ALONE, NULL, "with --rows 0: only plans that tilec builds"},
    {"--clusters", FLAG_CLUSTERS, FORM_ALONE, NULL,
     "also plans whose blocks run in clusters of two"},
    {"--measure", FLAG_MEASURE, FORM_ALONE, NULL,
     "time these plans on the GPU, and keep the times for 'auto' (--tuning)"},
    {"--simulate", FLAG_SIMULATE, FORM_ALONE, NULL,
     "time them with the simulator's clock instead, without a GPU"},
    {"--again", FLAG_AGAIN, FORM_ALONE, NULL, "also plans that were timed before"},
    {"--quiet", FLAG_QUIET, FORM_ALONE, NULL, "no progress bar, and no line for each plan"},
    {"--runs", FLAG_RUNS, FORM_NEXT, "N", "runs of each plan; the median counts (20)"},
    {"--time-limit", FLAG_LIMIT, FORM_NEXT, "SECONDS", "a plan that takes longer fails (60)"},
    {"--set", FLAG_SET, FORM_NEXT, "NAME=VALUE", "a scalar of the kernel, for the runs (1/16)"},
    {"--in", FLAG_ARRAY, FORM_NEXT, "NAME=FILE.npy", "a tensor, for the runs (random; integers 0)"},
    {"--tilerun", FLAG_TILERUN, FORM_NEXT, "PATH", "the tilerun to use"},
    {"--json", FLAG_JSON, FORM_ALONE, NULL, "a line of JSON for each plan"},
    {"--svg", FLAG_SVG, FORM_NEXT, "FILE",
     "draw the plans: predicted times, and those of the tuning database"},
};
const size_t search_row_count = sizeof search_rows / sizeof search_rows[0];

void
search_flags_init(SearchFlags *flags, size_t argc)
{
    *flags = (SearchFlags){.sizes = allocate(sizeof *flags->sizes * argc),
                           .sets = allocate(sizeof *flags->sets * argc),
                           .arrays = allocate(sizeof *flags->arrays * argc),
                           .runs = 20,
                           .limit = 60};
    flags->search.sizes = flags->sizes;
    flags->search.rows = 20;
    flags->search.order = TILEC_BY_TIME;
}

void
search_flags_free(SearchFlags *flags)
{
    for (size_t k = 0; k < flags->search.n_sizes; k++)
        free((char *)flags->sizes[k].name);
    for (size_t k = 0; k < flags->n_sets; k++)
        free((char *)flags->sets[k].name);
    for (size_t k = 0; k < flags->n_arrays; k++)
        free((char *)flags->arrays[k].name);
    free(flags->arrays);
    free(flags->sets);
    free(flags->sizes);
}

int
add_define(const char *flag, const char *text, TilecDefine *list, size_t *n)
{
    const char *equals = strchr(text, '=');

    if (equals == NULL || equals == text || equals[1] == '\0')
        return complain("%s %s: expected NAME=VALUE", flag, text);
    char *name = text_printf("%s%s", text, "");
    name[equals - text] = '\0';
    list[(*n)++] = (TilecDefine){name, equals + 1};
    return 0;
}

/* "64,80,96" to numbers. */
static int
read_list(const FlagRow *row, const char *text, int32_t least, int32_t most, int32_t *list,
          size_t *n)
{
    for (*n = 0; *n < MOST_LISTED;) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text || value < least || value > most || (*end != ',' && *end != '\0'))
            break;
        list[(*n)++] = (int32_t)value;
        if (*end == '\0')
            return 0;
        text = end + 1;
    }
    return complain("%s %s: expected up to %d numbers from %d to %d, with commas between them",
                    row->text, text, MOST_LISTED, least, most);
}

int
search_flag_set(SearchFlags *flags, const FlagRow *row, const char *value)
{
    enum { LARGEST_TILE = 4096, MOST_RUNS = 10000, LONGEST = 3600 };
    TilecSearch *asked = &flags->search;
    int32_t groups[MOST_LISTED];
    int status;

    switch (row->flag) {
    case FLAG_MODE: flags->mode = value; return 0;
    case FLAG_TILE_M:
    case FLAG_TILE_N:
    case FLAG_TILE_K: {
        size_t k = (size_t)(row->flag - FLAG_TILE_M);
        asked->tiles[k] = flags->tiles[k];
        return read_list(row, value, 1, LARGEST_TILE, flags->tiles[k], &asked->n_tiles[k]);
    }
    case FLAG_GROUPS:
        status = read_list(row, value, 1, TILEC_MOST_GROUPS, groups, &asked->n_groups);
        for (size_t k = 0; k < asked->n_groups; k++)
            flags->groups[k] = (uint32_t)groups[k];
        asked->groups = flags->groups;
        return status;
    case FLAG_SIZE: return add_define(row->text, value, flags->sizes, &asked->n_sizes);
    case FLAG_ROWS_SHOWN: {
        char *end;
        long n = strtol(value, &end, 10);
        if (end == value || *end != '\0' || n < 0)
            return complain("--rows %s: expected a number, or 0 for all", value);
        asked->rows = (size_t)n;
        return 0;
    }
    case FLAG_SORT:
        if (strcmp(value, "traffic") != 0 && strcmp(value, "time") != 0)
            return complain("--sort %s: expected traffic or time", value);
        asked->order = strcmp(value, "time") == 0 ? TILEC_BY_TIME : TILEC_BY_TRAFFIC;
        return 0;
    case FLAG_JSON: asked->json = true; return 0;
    case FLAG_SVG:
        flags->picture = value;
        asked->picture = true;
        return 0;
    case FLAG_BUILT: flags->built = true; return 0;
    case FLAG_CLUSTERS: asked->clusters = true; return 0;
    case FLAG_MEASURE: flags->measure = true; return 0;
    case FLAG_SIMULATE: flags->simulate = true; return 0;
    case FLAG_AGAIN: flags->again = true; return 0;
    case FLAG_QUIET: flags->quiet = true; return 0;
    case FLAG_TILERUN: flags->tilerun = value; return 0;
    case FLAG_SET: return add_define(row->text, value, flags->sets, &flags->n_sets);
    case FLAG_ARRAY: return add_define(row->text, value, flags->arrays, &flags->n_arrays);
    case FLAG_RUNS: {
        char *end;
        unsigned long n = strtoul(value, &end, 10);
        if (end == value || *end != '\0' || n < 1 || n > MOST_RUNS)
            return complain("--runs %s: expected a number from 1 to %d", value, MOST_RUNS);
        flags->runs = (uint32_t)n;
        return 0;
    }
    case FLAG_LIMIT: {
        char *end;
        flags->limit = strtod(value, &end);
        if (end == value || *end != '\0' || !(flags->limit > 0 && flags->limit <= LONGEST))
            return complain("--time-limit %s: expected seconds, up to %d", value, LONGEST);
        return 0;
    }
    default: return 0;
    }
}

char *
search_file(const char *path, const char *mode)
{
    if (mode == NULL || !ends_with(path, ".tile"))
        return text_printf("%s%s", path, "");
    char *base = text_printf("%s%s", path, "");
    base[strlen(base) - strlen(".tile")] = '\0';
    char *named = text_printf("%s_%s", base, mode);
    char *full = text_printf("%s.tile%s", named, "");
    free(base);
    free(named);
    if (file_is_there(full) || strcmp(mode, "fwd") != 0) /* one that is not there can not be read */
        return full;
    free(full);
    return text_printf("%s%s", path, "");
}
