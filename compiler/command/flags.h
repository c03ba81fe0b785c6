/* flags.h - the rows of the command line's table of flags, and those of `tilec search`. */
#ifndef TILEC_COMMAND_FLAGS_H
#define TILEC_COMMAND_FLAGS_H

#include "compiler/tilec.h"

typedef enum Flag {
    FLAG_ARCH,
    FLAG_TUNE,
    FLAG_OUTPUT,
    FLAG_DEPEND,
    FLAG_DEPEND_FILE,
    FLAG_DEFINE,
    FLAG_INCLUDE,
    FLAG_EMIT,
    FLAG_DUMP,
    FLAG_SCHEDULE,
    FLAG_LIST_PASSES,
    FLAG_RUN_PASS,
    FLAG_REPORT,
    FLAG_WARPS,
    FLAG_STAGES,
    FLAG_TIME_REPORT,
    FLAG_LIST_TARGETS,
    FLAG_LINEINFO,
    FLAG_VERSION,
    FLAG_HELP,
    FLAG_WERROR,
    FLAG_WNO_ERROR,
    FLAG_WNO,
    FLAG_W,
    FLAG_KERNEL,
    FLAG_PTXAS,
    FLAG_VERIFY,
    FLAG_PLAN,
    FLAG_VARIANTS,
    FLAG_REMARKS,
    FLAG_HEADER_NAME,
    FLAG_HEADER_PTX,
    FLAG_HEADER_CUBIN,
    FLAG_TUNING,
    FLAG_O0,
    FLAG_O1,
    FLAG_O2,
    FLAG_O3,
    FLAG_MODE,
    FLAG_TILE_M,
    FLAG_TILE_N,
    FLAG_TILE_K,
    FLAG_GROUPS,
    FLAG_SIZE,
    FLAG_ROWS_SHOWN,
    FLAG_SORT,
    FLAG_JSON,
    FLAG_SVG,
    FLAG_BUILT,
    FLAG_CLUSTERS,
    FLAG_MEASURE,
    FLAG_SIMULATE,
    FLAG_AGAIN,
    FLAG_QUIET,
    FLAG_RUNS,
    FLAG_LIMIT,
    FLAG_TILERUN,
    FLAG_SET,
    FLAG_ARRAY,
    FLAG_IGNORE_DEBUG,
    FLAG_RUN_IN,
    FLAG_RUN_OUT,
    FLAG_RUN_SET,
    FLAG_RUN_TOLERANCE,
    FLAG_RUN_SEED,
    FLAG_RUN_SUMS,
    FLAG_RUN_NAN,
    FLAG_FMT_CHECK,
    FLAG_FMT_IN_PLACE
} Flag;

/* How a flag takes its value. */
typedef enum FlagForm {
    FORM_ALONE,  /* -x */
    FORM_NEXT,   /* -x value, or -xvalue for flags of one letter, or --x=value */
    FORM_EQUALS, /* --x=value */
    FORM_MAYBE,  /* --x or --x=value */
    FORM_REST    /* -xvalue */
} FlagForm;

typedef struct FlagRow {
    const char *text;
    Flag flag;
    FlagForm form;
    const char *value, *help;
} FlagRow;

/* NAME=VALUE behind `flag`: added to `list`.  Complains; returns the exit status. */
int add_define(const char *flag, const char *text, TilecDefine *list, size_t *n);

enum { MOST_LISTED = 32 };

/* What `tilec search` is told beside -arch, -D, -I, -o, --kernel, --stages. */
typedef struct SearchFlags {
    TilecSearch search; /* its pointers lead to the fields below */
    TilecDefine *sizes;
    int32_t tiles[TILEC_OPEN][MOST_LISTED];
    uint32_t groups[MOST_LISTED];
    const char *mode;
    bool built; /* of all rows: only plans that can be built */
    /* of --measure */
    const char *picture; /* --svg */
    bool measure, simulate, again, quiet;
    uint32_t runs;
    double limit; /* seconds for each plan */
    const char *tilerun;
    TilecDefine *sets; /* scalars */
    size_t n_sets;
    TilecDefine *arrays; /* files of tensors */
    size_t n_arrays;
} SearchFlags;

extern const FlagRow search_rows[];
extern const size_t search_row_count;

/* For a command line of `argc` words. */
void search_flags_init(SearchFlags *flags, size_t argc);
void search_flags_free(SearchFlags *flags);
int search_flag_set(SearchFlags *flags, const FlagRow *row, const char *value);
/* FILE_MODE.tile beside FILE.tile, where there is one, else FILE.tile; the caller frees it. */
char *search_file(const char *path, const char *mode);

#endif
