/* tilec.h - the C API of the compiler (library `libtilec`).
 *
 *     TilecOptions options = tilec_default_options();
 *     options.arch = "sm_90";
 *     TilecResult result;
 *     if (tilec_compile(&options, "attention.tile", text, n, &result) == TILEC_OK)
 *         cuModuleLoadData(&module, result.output);
 *     else
 *         fputs(result.messages, stderr);
 *     tilec_result_free(&result);
 *
 * The library never exits, prints, reads the environment or opens a file: text comes in, text
 * goes out, and a callback finds the modules of `use`.  Two compilations may run at the same time
 * in two threads.  All strings of a result live until tilec_result_free.  An argument that is NULL
 * where something must stand is an error in `messages`, as any other; so is a result that is NULL,
 * but for the messages.
 */
#ifndef TILEC_H
#define TILEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILEC_VERSION "0.1.0"

/* Exported from the shared library. */
#if defined(__GNUC__)
#define TILEC_API __attribute__((visibility("default")))
#else
#define TILEC_API
#endif

typedef enum TilecStatus {
    TILEC_OK = 0,
    TILEC_ERROR = 1,        /* the program or an option is wrong; see `messages` */
    TILEC_BUG = 2,          /* the compiler broke an invariant of its own */
    TILEC_OUT_OF_MEMORY = 3 /* the allocator gave NULL */
} TilecStatus;

/* What `output` is. */
typedef enum TilecEmit {
    TILEC_EMIT_PTX,
    TILEC_EMIT_HEADER, /* a C header that launches the kernels */
    TILEC_EMIT_JSON,   /* the metadata of the PTX file (docs/metadata.md) */
    TILEC_EMIT_AST,    /* the parsed program, printed in the language */
    TILEC_EMIT_TIR,    /* tile IR before any pass */
    TILEC_EMIT_LIR,    /* lane IR */
    /* the source text, formatted in the style of the examples, with its comments; only the syntax
       is checked, and no module is imported */
    TILEC_EMIT_FORMATTED
} TilecEmit;

/* NAME=VALUE for a compile-time parameter. */
typedef struct TilecDefine {
    const char *name, *value;
} TilecDefine;

typedef struct TilecAllocator {
    void *(*allocate)(void *user, size_t bytes); /* may return NULL */
    void (*release)(void *user, void *block);
    void *user;
} TilecAllocator;

/* Finds the module `name` of `use name;`: its text, and its path for messages.  Both must live
 * until tilec_compile returns.  False: not found; the built-in library is searched next. */
typedef bool (*TilecImport)(void *user, const char *name, const char **path, const char **text,
                            size_t *n);

/* What to do with a kind of warning. */
typedef enum TilecAction { TILEC_AS_USUAL, TILEC_WARN, TILEC_IGNORE, TILEC_FAIL } TilecAction;

/* Machine code of the PTX that the same options give, for TILEC_EMIT_HEADER. */
typedef struct TilecCubin {
    const char *arch; /* it was assembled for: "sm_86", "sm_90a" */
    const void *bytes;
    size_t n;
    const char *target; /* of several: the one whose PTX it was made of; NULL: of one */
} TilecCubin;

typedef struct TilecOptions {
    /* "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", also "sm_90a" ..; for a
       header also several, "sm_80,sm_90": it takes the one that is nearest to the GPU */
    const char *arch;
    const char *tune; /* -mtune: the target whose chip the code is tuned for; NULL: `arch` */
    TilecEmit emit;
    int level; /* 0 .. 3 */
    const TilecDefine *defines;
    size_t n_defines;
    const TilecDefine *sizes; /* usual sizes of the tensors, for predictions: Sq=16384 */
    size_t n_sizes;
    const char *kernel;          /* compile this one only; NULL: all */
    const char *const *switches; /* "swizzle" or "no-swizzle": -fNAME, -fno-NAME */
    size_t n_switches;
    uint32_t warps, stages; /* of every kernel; 0: the source or the compiler decides */
    const char *plan;       /* "consumers=3,stages=3", "none"; NULL: the compiler decides */
    bool line_info;         /* .loc and .file lines */
    bool warnings_are_errors;
    bool remarks;                    /* remarks: what was done or not, and why */
    bool verify;                     /* check the IR after each pass */
    bool report, time_report;        /* fill these texts of the result */
    const char *dump_ir;             /* NULL: no; "": after every pass; "a,b": after these */
    bool schedule, schedule_picture; /* fill these texts of the result */
    bool page;                       /* fill `page` of the result; implies line_info */
    /* "a,b": run these passes only and print tile IR (TILEC_EMIT_TIR), or continue after the last
       of them to `emit` */
    const char *run_pass;
    const char *header_name;         /* prefix in TILEC_EMIT_HEADER; NULL: from the path */
    bool header_with_ptx;            /* TILEC_EMIT_HEADER: the PTX is in it */
    const TilecCubin *header_cubins; /* TILEC_EMIT_HEADER: they are in it */
    size_t n_header_cubins;
    bool ignore_debug;       /* leave out `print` and `assert`; otherwise they are errors */
    const char *tuning;      /* the text of a tuning database (docs/search.md); NULL: none */
    const char *tuning_path; /* its name, for messages */
    TilecImport import;      /* NULL: the built-in library only */
    void *import_user;
    const TilecAllocator *allocator; /* NULL: malloc and free */
    /* for roles of which check-roles can prove nothing; TILEC_AS_USUAL: TILEC_FAIL */
    TilecAction unproved;
    /* for a kernel without roles on a target that has them; TILEC_AS_USUAL: TILEC_WARN */
    TilecAction no_plan;
    /* "auto": kernels have several forms where that helps, each for other sizes; launchers choose
       (docs/metadata.md).  NULL: one each */
    const char *variants;
    /* for tensors, parameters and names that nothing uses, outputs that nothing writes; and for
       subscripts that count another size than their dimension; TILEC_AS_USUAL: TILEC_WARN */
    TilecAction unused, dimension;
    /* for vectors with an element for each row of a square tile that meet its columns, and for
       blocks of more threads than any tile has elements; TILEC_AS_USUAL: TILEC_WARN */
    TilecAction broadcast, repeated;
    /* for atomic statements whose result depends on the order of the programs; TILEC_AS_USUAL:
       TILEC_IGNORE */
    TilecAction order;
    /* for accesses narrower than 4 bytes because nothing promises where rows begin; as `order` */
    TilecAction narrow;
} TilecOptions;

typedef struct TilecResult {
    TilecStatus status;
    const char *output; /* NUL-terminated; NULL unless the status is TILEC_OK */
    size_t output_bytes;
    const char *messages; /* errors, warnings, remarks; "" when there are none */
    const char *dump;     /* dump_ir; "" when not asked for; also set after errors */
    const char *report, *time_report;
    const char *schedule;         /* roles, buffers, barriers and a timeline of each kernel */
    const char *schedule_picture; /* the same as SVG */
    const char *page; /* HTML: source, tile IR and PTX side by side, with a pane for machine code */
    unsigned errors, warnings;
    size_t memory_bytes; /* taken from the allocator */
    void *storage;       /* private */
} TilecResult;

/* sm_80, -O3, PTX. */
TILEC_API TilecOptions tilec_default_options(void);

/* Compiles `n` bytes of text.  `path` is used in messages; if it ends in ".tir", the text is tile
 * IR. Always fills `result`, which must be freed whatever the status. */
TILEC_API TilecStatus tilec_compile(const TilecOptions *options, const char *path, const char *text,
                                    size_t n, TilecResult *result);
TILEC_API void tilec_result_free(TilecResult *result);

/* A tensor of NumPy's: C order, little endian. */
enum { TILEC_MAX_RANK = 8 };
typedef struct TilecArray {
    const char *name; /* of the tensor */
    char kind;        /* NumPy's letter: f, i, u, b, V; bf16 is u, its bits */
    uint32_t bytes;   /* of an element */
    uint32_t rank;
    int64_t shape[TILEC_MAX_RANK];
    size_t total; /* bytes of all elements */
    const void *data;
    /* of a result, if TilecRun.tolerance: for each element, how far a compiled kernel may differ by
       rounding alone; infinite: not bounded */
    const double *tolerance;
} TilecArray;

typedef enum TilecNan {
    TILEC_NAN_NOTE, /* a warning, once for each place */
    TILEC_NAN_IGNORE,
    TILEC_NAN_ERROR
} TilecNan;

/* A run of the reference interpreter (docs/interpreter.md). */
typedef struct TilecRun {
    const TilecArray *inputs;
    size_t n_inputs;
    const TilecDefine *sets; /* sizes that no array has, and scalars */
    size_t n_sets;
    const char *const *outputs; /* names of the tensors wanted */
    size_t n_outputs;
    bool tolerance;      /* also compute the tolerances of the results */
    uint64_t seed;       /* draws the order of the programs; 0: the order of the grid */
    TilecNan nan;        /* for operations that make a NaN */
    uint64_t work_limit; /* elements to compute, about; 0: some minutes' worth */
    void (*print)(void *user, const char *text, size_t n); /* output of `print`; NULL: dropped */
    void *print_user;
    /* `inputs` may have tensors that are only written: elements that no program writes stay what
     * they are */
    bool keeps;
    /* the target as whose tensor cores products are summed, to the bit ("sm_90"); NULL: in double.
     * Not with tolerances */
    const char *sums;
} TilecRun;

typedef struct TilecRunResult {
    TilecStatus status;
    const char *messages;
    const TilecArray *outputs; /* in the order asked for; NULL unless the status is TILEC_OK */
    void *storage;             /* ours */
} TilecRunResult;

/* Interprets the kernels of a program, one after the other.  This is what they mean, whatever the
 * compiler does with them.  Uses the options defines, kernel, import and allocator.  Always fills
 * `result`, which must be freed whatever the status. */
TILEC_API TilecStatus tilec_run(const TilecOptions *options, const TilecRun *run, const char *path,
                                const char *text, size_t n, TilecRunResult *result);
TILEC_API void tilec_run_free(TilecRunResult *result);

/* The options of `tilec search`, besides those of a compilation. */
typedef enum TilecOrder {
    /* all divisions among warp groups, whether or not tilec has code for them, by bytes through the
       port of shared memory for each element */
    TILEC_BY_TRAFFIC,
    /* plans that tilec builds, by the time that is predicted for them; a line of JSON has the
     * options that compile this plan */
    TILEC_BY_TIME
} TilecOrder;

/* Lists of tile sizes; warp groups that compute, at most. */
enum { TILEC_OPEN = 3, TILEC_MOST_GROUPS = 4 };

typedef struct TilecSearch {
    /* sizes to try for the `auto` parameters, in the order of their declaration; none: the usual
     * ones.  The last list is used for all further parameters */
    const int32_t *tiles[TILEC_OPEN];
    size_t n_tiles[TILEC_OPEN];
    const uint32_t *groups;   /* numbers of warp groups that compute, 1 to TILEC_MOST_GROUPS */
    size_t n_groups;          /* 0: all */
    const TilecDefine *sizes; /* of the tensors, for the prediction: Sq=16384 */
    size_t n_sizes;
    size_t rows; /* at most so many plans; 0: all */
    TilecOrder order;
    bool json;     /* a line of JSON for each plan, not a table */
    bool clusters; /* by time: also plans whose blocks run in pairs */
    /* by time: sizes that nobody says are halved, the largest first, until the quickest plan takes
     * no longer; 0: are not */
    double most_microseconds;
    /* also draw the plans, with times of the tuning database: the result's schedule_picture, SVG;
       not of divisions (TILEC_BY_TRAFFIC) */
    bool picture;
} TilecSearch;

/* Lists the plans for warp groups that kernel `options->kernel` has (NULL: the one with the most
 * products), the best first; `output` is the list.  Nothing is compiled. */
TILEC_API TilecStatus tilec_search(const TilecOptions *options, const TilecSearch *search,
                                   const char *path, const char *text, size_t n,
                                   TilecResult *result);

/* Tables as text, one line each: `which` is "passes" or "targets"; NULL for anything else.  The
 * result is filled as by tilec_compile. */
TILEC_API TilecStatus tilec_list(const TilecAllocator *allocator, const char *which,
                                 TilecResult *result);

#ifdef __cplusplus
}
#endif

#endif
