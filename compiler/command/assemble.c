/* assemble.c - runs ptxas over PTX, and a disassembler over what came out. */
#include "compiler/command/assemble.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/command/files.h"
#include "compiler/command/listing.h"
#include "compiler/command/toolkit.h"
#include "compiler/report/page.h"

enum { DISASSEMBLERS = 2 };

/* The architecture to assemble for.  "sm_90" asked for, where the PTX says "sm_90a", is that. */
static char *
arch_for(const Assembly *assembly)
{
    char *target = ptx_target(assembly->ptx);
    const char *asked = assembly->arch;

    if (asked == NULL || strncmp(target, asked, strlen(asked)) == 0)
        return target;
    free(target);
    return text_printf("%s%s", asked, "");
}

/* The programs, and what came of running them. */
typedef struct Tools {
    const char *ptxas;
    char *target, *arch;               /* "sm_90a", "-arch=sm_90a" */
    char *disassembler[DISASSEMBLERS]; /* NULL: not found, or not wanted */
    int status, listing_status[DISASSEMBLERS];
    char *said;                   /* by ptxas */
    char *listing[DISASSEMBLERS]; /* of the machine code, by the first that could */
    char *wrong[DISASSEMBLERS];
    char *bytes; /* of the cubin; NULL: not wanted, or not to be read */
    size_t n;
    int error; /* errno then */
} Tools;

/* With -g, where there is a page: comments that name lines of the source. */
static const char *const disassemblers[DISASSEMBLERS][3] = {{"nvdisasm", "-c", "-g"},
                                                            {"cuobjdump", "-sass", NULL}};

/* ptxas over the file `input`, and a disassembler over what it makes.  There are temporary files
 * now, so nothing here may end the program. */
static void
run_tools(Tools *tools, const Assembly *assembly, const char *input, const char *cubin, bool keep)
{
    const char *arguments[] = {
        tools->arch, "-v", input, "-o", cubin, assembly->line_info ? "-lineinfo" : NULL, NULL};

    tools->status = toolkit_run(tools->ptxas, arguments, &tools->said, NULL);
    for (size_t k = 0; k < DISASSEMBLERS && tools->status == 0; k++) {
        const char *lines = assembly->page != NULL ? disassemblers[k][2] : NULL;
        const char *listing[] = {disassemblers[k][1], cubin, lines, NULL};
        if (tools->disassembler[k] == NULL)
            continue;
        tools->listing_status[k] = toolkit_run(tools->disassembler[k], listing, &tools->listing[k],
                                               &tools->wrong[k]);
        if (tools->listing_status[k] == 0)
            break;
    }
    if (keep && tools->status == 0) {
        tools->bytes = read_file(cubin, &tools->n);
        tools->error = errno;
    }
}

static int
no_room(const char *tool)
{
    complain("E-FILE: no memory or temporary file for what %s prints", tool);
    return EXIT_BUG;
}

/* The version of CUDA that brought a version of PTX, 10 * 8 + 7 for PTX 8.7. */
static int
cuda_of(int ptx)
{
    static const signed char of_eight[] = {0, 1, 2, 3, 4, 5, 7, 8, 9}; /* 12.6 has that of 12.5 */
    int major = ptx / 10, minor = ptx % 10;

    return 10 * (major + 4) +
           (major == 8 && minor < (int)sizeof of_eight ? of_eight[minor] : minor);
}

/* "8.7" behind `word` as 87; 0: it is not there. */
static int
version_behind(const char *text, const char *word)
{
    const char *at = text == NULL ? NULL : strstr(text, word);
    int major = 0, minor = 0;

    return at != NULL && sscanf(at + strlen(word), "%*[^0-9]%d.%d", &major, &minor) == 2
               ? 10 * major + minor
               : 0;
}

/* Whether ptxas does not know the PTX's version, or the chip: says which CUDA does.  The PTX of
 * tilec itself has the oldest version that its instructions have. */
static bool
is_too_old(const Tools *tools, const Assembly *assembly)
{
    int needed = version_behind(strncmp(assembly->ptx, ".version", strlen(".version")) == 0
                                    ? assembly->ptx
                                    : strstr(assembly->ptx, "\n.version"),
                                ".version");
    int known = version_behind(tools->said, "current version is");
    bool chip = strstr(tools->said, "is not defined for option 'gpu-name'") != NULL;

    if (needed == 0 || (known == 0 && !chip))
        return false;
    int cuda = cuda_of(needed);
    if (known > 0)
        complain(
            "E-PTXAS: %s is too old: it is of CUDA %d.%d, which knows PTX %d.%d, and this is PTX %d.%d: take one of "
            "CUDA %d.%d or later (--ptxas=PATH)",
            tools->ptxas, cuda_of(known) / 10, cuda_of(known) % 10, known / 10, known % 10,
            needed / 10, needed % 10, cuda / 10, cuda % 10);
    else
        complain(
            "E-PTXAS: %s is too old: it does not know %s: take one of CUDA %d.%d or later (--ptxas=PATH)",
            tools->ptxas, tools->target, cuda / 10, cuda % 10);
    return true;
}

/* What ptxas's exit status means for ours. */
static int
ptxas_status(const Tools *tools, const Assembly *assembly)
{
    if (tools->status == 0)
        return 0;
    if (tools->status == TOOLKIT_NO_ROOM)
        return no_room(tools->ptxas);
    if (tools->status == TOOLKIT_NOT_RUN)
        return complain("E-PTXAS: %s can not be run", tools->ptxas);
    if (is_too_old(tools, assembly))
        return EXIT_OLD_PTXAS;
    fputs(tools->said, stderr);
    if (assembly->given)
        return complain("E-PTXAS: %s refused %s for %s", tools->ptxas, assembly->path,
                        tools->target);
    complain("E-PTXAS: %s refused the PTX of tilec for %s", tools->ptxas, tools->target);
    return EXIT_BUG;
}

/* The machine code as text; NULL with `*reason` when there is none.  The caller frees the
 * reason. */
static int
listing_of(const Tools *tools, const char **code, char **reason)
{
    *code = NULL;
    *reason = text_printf("%s%s",
                          "neither nvdisasm nor cuobjdump was found beside ptxas, in PATH, "
                          "$CUDA_HOME/bin, $CUDA_PATH/bin or /usr/local/cuda/bin",
                          "");
    for (size_t k = 0; k < DISASSEMBLERS; k++) {
        if (tools->disassembler[k] == NULL)
            continue;
        if (tools->listing_status[k] == TOOLKIT_NO_ROOM)
            return no_room(tools->disassembler[k]);
        free(*reason);
        *reason = NULL;
        if (tools->listing_status[k] == 0) {
            *code = tools->listing[k];
            return 0;
        }
        tools->wrong[k][strcspn(tools->wrong[k], "\n")] = '\0';
        *reason = text_printf("%s says: %s", tools->disassembler[k], tools->wrong[k]);
    }
    return 0;
}

/* Writes the page with what is known of the machine code. */
static int
write_page(const Assembly *assembly, Arena *arena, const PageCode *code, const char *output)
{
    Buf text;

    buf_init(&text, arena);
    page_add_code(assembly->page, code, &text);
    return write_file(output, text.at, text.n);
}

/* Says what there is to say, and writes the page where one is wanted; `said` is NULL where ptxas
 * did not run.  Returns the exit status.  Nothing here changes a local variable after setjmp. */
static int
judge(const Assembly *assembly, const char *said, const char *code, const char *no_code,
      const char *output)
{
    jmp_buf on_failure;
    Arena *arena = allocate(sizeof *arena);
    int status = 0;

    arena_init(arena, allocator_libc(), &on_failure);
    if (setjmp(on_failure) == 0) {
        PtxasSaid *heard = arena_new(arena, PtxasSaid);
        SassKernels *kernels = arena_new(arena, SassKernels);
        Buf *report = arena_new(arena, Buf), *messages = arena_new(arena, Buf);
        buf_init(report, arena);
        buf_init(messages, arena);
        if (said != NULL)
            ptxas_read(arena, said, assembly->ptx, heard);
        bool none = code != NULL && !sass_read(arena, code, kernels);
        if (said != NULL && (assembly->report != NULL || assembly->page != NULL))
            after_report(heard, kernels, none ? "the disassembler printed none" : no_code, report);
        if (said != NULL && assembly->report != NULL) {
            fputs(report->at, assembly->report);
            fflush(assembly->report);
        }
        if (after_warnings(heard, assembly->ptx, assembly->path, &assembly->actions, messages) > 0)
            status = EXIT_USER;
        if (messages->n > 0)
            fputs(messages->at, stderr);
        if (status == 0 && assembly->page != NULL) {
            PageCode page = {none ? NULL : code, none ? "the disassembler printed none" : no_code,
                             said == NULL ? NULL : heard, report->at};
            status = write_page(assembly, arena, &page, output);
        }
    } else {
        complain("E-MEMORY: out of memory");
        status = EXIT_BUG;
    }
    arena_free(arena);
    free(arena);
    return status;
}

static bool
own_file(char *path, const char *text, size_t n)
{
    if (temporary_file(path, text, n))
        return true;
    complain("E-FILE: cannot write a temporary file: %s", strerror(errno));
    return false;
}

/* Makes the temporary files, runs the programs and takes the files away again. */
static bool
with_files(Tools *tools, const Assembly *assembly, bool keep)
{
    char own[] = "/tmp/tilec-XXXXXX", cubin[] = "/tmp/tilec-XXXXXX";
    bool made = assembly->given || own_file(own, assembly->ptx, assembly->n), both = false;

    if (made && own_file(cubin, "", 0)) {
        both = true;
        /* the user's own file, so that ptxas names it in what it says */
        run_tools(tools, assembly, assembly->given ? assembly->path : own, cubin, keep);
        unlink(cubin);
    }
    if (made && !assembly->given)
        unlink(own);
    return both;
}

static int
assemble_with(const Assembly *assembly, const char *ptxas, const char *output)
{
    Tools tools = {.ptxas = ptxas, .target = arch_for(assembly)};
    const char *code = NULL;
    char *no_code = NULL;
    bool page = assembly->page != NULL, look = page || assembly->report != NULL;

    tools.arch = text_printf("-arch=%s%s", tools.target, "");
    for (size_t k = 0; k < DISASSEMBLERS && look; k++)
        tools.disassembler[k] = toolkit_find(disassemblers[k][0], ptxas);
    int status = with_files(&tools, assembly, output != NULL && !page)
                     ? ptxas_status(&tools, assembly)
                     : EXIT_USER;
    if (status == EXIT_OLD_PTXAS && page &&
        judge(assembly, NULL, NULL, "ptxas is too old for this PTX.", output) != 0)
        status = EXIT_USER;
    if (status == 0 && look)
        status = listing_of(&tools, &code, &no_code);
    if (status == 0)
        status = judge(assembly, tools.said, code, no_code, output);
    if (status == 0 && output != NULL && !page)
        status = tools.bytes == NULL ? complain("E-FILE: cannot read what %s made: %s", ptxas,
                                                strerror(tools.error))
                                     : write_file(output, tools.bytes, tools.n);
    free(tools.target);
    free(tools.arch);
    for (size_t k = 0; k < DISASSEMBLERS; k++) {
        free(tools.disassembler[k]);
        free(tools.listing[k]);
        free(tools.wrong[k]);
    }
    free(tools.said);
    free(tools.bytes);
    free(no_code);
    return status;
}

int
assemble(const Assembly *assembly, const char *output)
{
    char *found = assembly->ptxas != NULL ? NULL : toolkit_find("ptxas", NULL);
    const char *ptxas = assembly->ptxas != NULL ? assembly->ptxas : found;
    int status;

    if (ptxas == NULL && assembly->page != NULL)
        status = judge(assembly, NULL, NULL, "Neither ptxas nor a disassembler was found.", output);
    else if (ptxas == NULL)
        status = complain("E-PTXAS: ptxas was not found in PATH, $CUDA_HOME/bin, $CUDA_PATH/bin or "
                          "/usr/local/cuda/bin; name it with --ptxas=PATH");
    else
        status = assemble_with(assembly, ptxas, output);
    free(found);
    return status;
}
