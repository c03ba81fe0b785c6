/* assemble.c - runs ptxas over PTX, and a disassembler over what came out. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "compiler/command/assemble.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/command/files.h"
#include "compiler/command/toolkit.h"

/* What stands behind .target in the PTX; the caller frees it. */
static char *
target_of(const char *ptx)
{
    const char *at = strstr(ptx, "\n.target");

    if (at == NULL)
        return text_printf("%s%s", "sm_80", ""); /* ptxas will say what is missing */
    at += strlen("\n.target");
    at += strspn(at, " \t");
    char *name = text_printf("%s%s", at, "");
    name[strcspn(name, " \t\r\n,")] = '\0';
    return name;
}

/* The architecture to assemble for.  "sm_90" asked for, where the PTX says "sm_90a", is that. */
static char *
arch_for(const Assembly *assembly)
{
    char *target = target_of(assembly->ptx);
    const char *asked = assembly->arch;

    if (asked == NULL || strncmp(target, asked, strlen(asked)) == 0)
        return target;
    free(target);
    return text_printf("%s%s", asked, "");
}

/* Runs ptxas over the file `input`; what it says goes to `*said`. */
static int
run_ptxas(const Assembly *assembly, const char *ptxas, const char *input, const char *cubin,
          char **said)
{
    char *target = arch_for(assembly), *arch = text_printf("-arch=%s%s", target, "");
    const char *arguments[] = {
        arch, "-v", input, "-o", cubin, assembly->line_info ? "-lineinfo" : NULL, NULL};
    int status = toolkit_run(ptxas, arguments, said, NULL);

    if (status == TOOLKIT_NOT_RUN) {
        complain("%s can not be run", ptxas);
        status = EXIT_USER;
    } else if (status != 0) {
        fputs(*said, stderr);
        if (assembly->given) {
            complain("%s refused %s for %s", ptxas, assembly->path, target);
            status = EXIT_USER;
        } else {
            complain("%s refused the PTX of tilec for %s", ptxas, target);
            status = EXIT_BUG;
        }
    }
    free(arch);
    free(target);
    return status;
}

/* The text of the machine code in `cubin`, by the first disassembler there is; NULL with `*reason`
 * when there is none.  The caller frees either. */
static char *
disassemble(const char *ptxas, const char *cubin, char **reason)
{
    static const char *const tools[][2] = {{"nvdisasm", "-c"}, {"cuobjdump", "-sass"}};

    *reason = text_printf("%s%s",
                          "neither nvdisasm nor cuobjdump was found beside ptxas, in PATH, "
                          "$CUDA_HOME/bin, $CUDA_PATH/bin or /usr/local/cuda/bin",
                          "");
    for (size_t k = 0; k < sizeof tools / sizeof tools[0]; k++) {
        char *tool = toolkit_find(tools[k][0], ptxas), *text, *wrong;
        if (tool == NULL)
            continue;
        const char *arguments[] = {tools[k][1], cubin, NULL};
        int status = toolkit_run(tool, arguments, &text, &wrong);
        if (status == 0) {
            free(*reason);
            *reason = NULL;
        } else {
            free(text);
            text = NULL;
            wrong[strcspn(wrong, "\n")] = '\0';
            free(*reason);
            *reason = text_printf("%s says: %s", tool, wrong);
        }
        free(wrong);
        free(tool);
        if (text != NULL)
            return text;
    }
    return NULL;
}

/* Says what there is to say; returns the exit status.  Nothing here changes a local variable
 * after setjmp. */
static int
judge(const Assembly *assembly, const char *said, const char *code, const char *no_code)
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
        ptxas_read(arena, said, assembly->ptx, heard);
        bool none = code != NULL && !sass_read(arena, code, kernels);
        if (assembly->report != NULL) {
            after_report(heard, kernels, none ? "the disassembler printed none" : no_code, report);
            fputs(report->at, assembly->report);
            fflush(assembly->report);
        }
        if (after_warnings(heard, assembly->ptx, assembly->path, &assembly->actions, messages) > 0)
            status = EXIT_USER;
        if (messages->n > 0)
            fputs(messages->at, stderr);
    } else {
        complain("out of memory");
        status = EXIT_BUG;
    }
    arena_free(arena);
    free(arena);
    return status;
}

/* A file of our own in /tmp; NULL after a complaint. */
static char *
temporary_file(const char *text, size_t n)
{
    char *path = text_printf("%s%s", "/tmp/tilec-XXXXXX", "");
    int handle = mkstemp(path);

    for (size_t done = 0; handle >= 0 && done < n;) {
        ssize_t written = write(handle, text + done, n - done);
        if (written < 0 && errno != EINTR) {
            int error = errno;
            close(handle);
            unlink(path);
            errno = error;
            handle = -1;
        } else if (written > 0) {
            done += (size_t)written;
        }
    }
    if (handle < 0) {
        complain("can not write a temporary file: %s", strerror(errno));
        free(path);
        return NULL;
    }
    close(handle);
    return path;
}

static void
remove_temporary(char *path)
{
    if (path != NULL)
        unlink(path);
    free(path);
}

static int
assemble_with(const Assembly *assembly, const char *ptxas, const char *output)
{
    /* the user's own file, so that ptxas names it in what it says */
    char *own = assembly->given ? NULL : temporary_file(assembly->ptx, assembly->n);
    const char *input = assembly->given ? assembly->path : own;
    char *cubin = temporary_file("", 0);
    char *said = NULL, *code = NULL, *no_code = NULL;
    int status = input == NULL || cubin == NULL ? EXIT_USER : 0;

    if (status == 0)
        status = run_ptxas(assembly, ptxas, input, cubin, &said);
    if (status == 0 && assembly->report != NULL)
        code = disassemble(ptxas, cubin, &no_code);
    if (status == 0)
        status = judge(assembly, said, code, no_code);
    if (status == 0 && output != NULL) {
        size_t n;
        char *bytes = read_file(cubin, &n);
        status = bytes == NULL ? complain("can not read %s: %s", cubin, strerror(errno))
                               : write_file(output, bytes, n);
        free(bytes);
    }
    remove_temporary(own);
    remove_temporary(cubin);
    free(said);
    free(code);
    free(no_code);
    return status;
}

int
assemble(const Assembly *assembly, const char *output)
{
    char *found = assembly->ptxas != NULL ? NULL : toolkit_find("ptxas", NULL);
    const char *ptxas = assembly->ptxas != NULL ? assembly->ptxas : found;
    int status;

    if (ptxas == NULL)
        status = complain("ptxas was not found in PATH, $CUDA_HOME/bin, $CUDA_PATH/bin or "
                          "/usr/local/cuda/bin; name it with --ptxas=PATH");
    else
        status = assemble_with(assembly, ptxas, output);
    free(found);
    return status;
}
