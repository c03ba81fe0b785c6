/* help.c - what `tilec --help` prints, from the tables of options and warnings, and what options of
 * other compilers are here. */
#include "compiler/command/help.h"

#include <stdio.h>
#include <string.h>

#include "compiler/command/fmt.h"
#include "compiler/command/run.h"
#include "compiler/command/warnings.h"

static void
print_rows(const FlagRow *rows, int n)
{
    for (int k = 0; k < n; k++) {
        const FlagRow *row = &rows[k];
        char left[40];
        if (row->help == NULL)
            continue;
        snprintf(left, sizeof left,
                 row->form == FORM_MAYBE    ? "%s[=%s]"
                 : row->form == FORM_EQUALS ? "%s=%s"
                 : row->form == FORM_REST   ? "%s%s"
                 : row->value != NULL       ? "%s %s"
                                            : "%s%s",
                 row->text, row->value == NULL ? "" : row->value);
        printf("  %-20s %s\n", left, row->help);
    }
}

void
print_help(const FlagRow *rows, int n)
{
    puts(
        "usage: tilec FILE.tile [options]           - reads standard input\n"
        "       tilec search FILE.tile [options]    list or time plans for warp groups; see below\n"
        "       tilec run FILE.tile [options]       run it in the reference interpreter; see below\n"
        "       tilec watch FILE.tile [options]     compile whenever the file is saved: the page, or what --emit and -o say\n"
        "       tilec fmt [FILE.tile ..] [-i] [--check]    format source files; see below\n"
        "       tilec lsp [-I FOLDER ..]            a language server for editors (docs/editors.md)\n"
        "       tilec explain [E-NAME ..]           explain an error, or a finding of the simulator (S-NAME); or list all\n");
    print_rows(rows, n);
    puts("  -fNAME, -fno-NAME    switch a pass or a choice on or off; --list-passes shows them\n"
         "\nWarnings after ptxas, which runs for a cubin, for --report and for -Werror=NAME");
    for (int k = 0; k < AFTER_KINDS; k++)
        printf("  %-20s %s\n", after_rules[k].name, after_rules[k].help);
    puts("\nWarnings from tilec itself");
    for (int k = AFTER_KINDS; k < WARN_KINDS; k++)
        printf("  %-20s %s\n", after_rules[k].name, after_rules[k].help);
    puts(
        "\nOptions of tilec search, in addition to -arch, -D, -I, -o, --kernel, --stages (docs/search.md):");
    print_rows(search_rows, (int)search_row_count);
    puts("\nOptions of tilec run, in addition to -D, -I, --kernel (docs/interpreter.md):");
    print_rows(run_rows, (int)run_row_count);
    puts(
        "\nOptions of tilec fmt, which prints the files or standard input, formatted (docs/editors.md):");
    print_rows(fmt_rows, (int)fmt_row_count);
    puts("\n"
         "FILE.ptx instead of FILE.tile is passed to ptxas as it is.\n"
         "Without -o, PTX goes to FILE.ptx and a cubin to FILE.cubin in the current folder,\n"
         "and everything else to standard output.  Exit status: 0, 1 after errors in the program or\n"
         "the command line, 2 after a fault in tilec itself.");
}

const char *
foreign_option(const char *name)
{
    static const struct {
        const char *name, *ours;
    } foreign[] = {
        {"--target", "-arch sm_90"},
        {"-target", "-arch sm_90"},
        {"--gpu-architecture", "-arch sm_90"},
        {"--gpu-name", "-arch sm_90"},
        {"-gencode", "-arch sm_90"},
        {"--gencode", "-arch sm_90"},
        {"--arch", "-arch sm_90"},
        {"--cuda-gpu-arch", "-arch sm_90"},
        {"-march", "-arch sm_90"},
        {"-sm_", "-arch sm_90"},
        {"-archsm_", "-arch sm_90"},
        {"-v", "--version"},
        {"-V", "--version"},
        {"--verbose", "--report"},
        {"-S", "--emit=ptx"},
        {"-ptx", "--emit=ptx"},
        {"--ptx", "--emit=ptx"},
        {"-cubin", "--emit=cubin"},
        {"--cubin", "--emit=cubin"},
        {"-c", "--emit=cubin"},
        {"-g", "-lineinfo"},
        {"-G", "-lineinfo"},
        {"-w", "-Wno-NAME"},
        {"--output", "-o"},
        {"--output-file", "-o"},
    };

    for (size_t k = 0; k < sizeof foreign / sizeof foreign[0]; k++) {
        size_t n = strlen(foreign[k].name);
        if (strncmp(name, foreign[k].name, n) == 0 &&
            (name[n] == '\0' || foreign[k].name[n - 1] == '_'))
            return foreign[k].ours;
    }
    return NULL;
}
