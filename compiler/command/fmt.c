/* fmt.c - `tilec fmt`: reads files, has the library lay them out, prints, writes or compares. */
#include "compiler/command/fmt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/command/files.h"

const FlagRow fmt_rows[] = {
    {"-i", FLAG_FMT_IN_PLACE, FORM_ALONE, NULL, "write files that change in place"},
    {"--check", FLAG_FMT_CHECK, FORM_ALONE, NULL,
     "list files that would change, and exit with 1 if there are any"},
};
const size_t fmt_row_count = sizeof fmt_rows / sizeof fmt_rows[0];

typedef struct Asked {
    bool in_place, check;
} Asked;

static int
use_result(const Asked *asked, const char *path, const char *text, size_t n,
           const TilecResult *result)
{
    bool same = result->output_bytes == n && memcmp(result->output, text, n) == 0;

    if (asked->check) {
        if (!same)
            puts(path);
        return same ? 0 : EXIT_USER;
    }
    if (!asked->in_place)
        return write_file("-", result->output, result->output_bytes);
    return same ? 0 : write_file(path, result->output, result->output_bytes);
}

static int
fmt_file(const Asked *asked, const char *path)
{
    TilecOptions options = tilec_default_options();
    TilecResult result;
    size_t n;

    if (ends_with(path, ".tir") || ends_with(path, ".lir") || ends_with(path, ".ptx"))
        return complain("%s is not in the tile language", path);
    char *text = read_file(path, &n);
    if (text == NULL)
        return complain("E-FILE: cannot read %s: %s", path, strerror(errno));
    options.emit = TILEC_EMIT_FORMATTED;
    TilecStatus status = tilec_compile(&options, strcmp(path, "-") == 0 ? "<stdin>" : path, text, n,
                                       &result);
    fputs(result.messages, stderr);
    int code = status == TILEC_OK      ? use_result(asked, path, text, n, &result)
               : status == TILEC_ERROR ? EXIT_USER
                                       : EXIT_BUG;
    tilec_result_free(&result);
    free(text);
    return code;
}

int
fmt_files(int argc, char **argv)
{
    Asked asked = {0};
    int status = 0, files = 0;

    for (int k = 0; k < argc; k++) {
        bool flag = argv[k][0] == '-' && argv[k][1] != '\0';
        asked.in_place |= strcmp(argv[k], fmt_rows[0].text) == 0;
        asked.check |= strcmp(argv[k], fmt_rows[1].text) == 0;
        if (flag && strcmp(argv[k], fmt_rows[0].text) != 0 && strcmp(argv[k], fmt_rows[1].text) != 0)
            return complain("unknown option '%s' of fmt; see --help", argv[k]);
        files += !flag;
        if (strcmp(argv[k], "-") == 0 && asked.in_place)
            return complain("standard input has no place to be written to: -i needs files");
    }
    if (asked.in_place && asked.check)
        return complain("-i writes the files and --check does not: one of them");
    if (asked.in_place && files == 0)
        return complain("standard input has no place to be written to: -i needs files");
    if (files == 0)
        return fmt_file(&asked, "-");
    for (int k = 0; k < argc; k++) {
        if (argv[k][0] == '-' && argv[k][1] != '\0')
            continue;
        int code = fmt_file(&asked, argv[k]);
        status = code > status ? code : status;
    }
    return status;
}
