/* header_cubins.c - --header-cubin: the program to PTX, and that through ptxas for each target. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "compiler/command/header_cubins.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/command/assemble.h"
#include "compiler/command/files.h"

/* One of the targets: its cubin behind the others. */
static int
add_cubin(HeaderCubins *cubins, Assembly *assembly)
{
    char path[] = "/tmp/tilec-XXXXXX";
    int handle = mkstemp(path);
    TilecCubin *cubin = &cubins->at[cubins->n];

    if (handle < 0)
        return complain("E-FILE: can not write a temporary file: %s", strerror(errno));
    close(handle);
    int status = assemble(assembly, path);

    status = status == EXIT_OLD_PTXAS ? EXIT_USER : status;
    if (status == 0) {
        cubin->bytes = read_file(path, &cubin->n);
        if (cubin->bytes == NULL)
            status = complain("E-FILE: can not read %s: %s", path, strerror(errno));
    }
    unlink(path);
    return status;
}

/* What is to be asked of ptxas: "sm_90" where the PTX is for "sm_90a" is that.  NULL: no machine code for this target can be
 * made of the PTX.  The caller frees it. */
static char *
target_of_ptx(const char *ptx, const char *asked)
{
    const char *at = strstr(ptx, "\n.target ");
    char *target = text_printf("%s%s", at == NULL ? "" : at + strlen("\n.target "), "");

    target[strcspn(target, " ,\r\n")] = '\0';
    size_t n = strlen(target);
    bool special = n > 0 && strchr("af", target[n - 1]) != NULL;
    if (special && strncmp(asked, target, n - 1) == 0)
        return target;
    if (!special && atoi(asked + 3) >= atoi(target + 3)) {
        free(target);
        return text_printf("%s%s", asked, "");
    }
    complain("--header-cubin: the code is for %s, of which there is no machine code for %s", target,
             asked);
    free(target);
    return NULL;
}

static int
add_cubins(HeaderCubins *cubins, const TilecResult *ptx, const char *path)
{
    int status = 0;

    for (const char *at = cubins->archs; status == 0 && *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        char arch[16] = "";
        if (n < 4 || n >= sizeof arch || strncmp(at, "sm_", 3) != 0 ||
            cubins->n == MAX_HEADER_CUBINS)
            return complain("--header-cubin=%s: expected up to %d targets, as in sm_80,sm_86",
                            cubins->archs, MAX_HEADER_CUBINS);
        memcpy(arch, at, n);
        char *target = target_of_ptx(ptx->output, arch);
        if (target == NULL)
            return EXIT_USER;
        Assembly assembly = {.ptxas = cubins->ptxas,
                             .arch = target,
                             .path = path,
                             .ptx = ptx->output,
                             .n = ptx->output_bytes};
        cubins->at[cubins->n].arch = target;
        status = add_cubin(cubins, &assembly);
        cubins->n++;
        at += n;
    }
    return status;
}

int
header_cubins(HeaderCubins *cubins, TilecOptions *options, const char *path, const char *text,
              size_t n)
{
    TilecOptions alone = *options;
    TilecResult ptx;

    if (cubins->archs == NULL)
        return 0;
    if (options->emit != TILEC_EMIT_HEADER)
        return complain("--header-cubin goes with --emit=header");
    alone.emit = TILEC_EMIT_PTX;
    alone.report = alone.time_report = alone.schedule = alone.schedule_picture = false;
    alone.dump_ir = NULL;
    TilecStatus status = tilec_compile(&alone, path, text, n, &ptx);
    int code = status == TILEC_OK ? 0 : status == TILEC_ERROR ? EXIT_USER : EXIT_BUG;
    if (code != 0)
        fputs(ptx.messages, stderr); /* else the header's compilation says them */
    else
        code = add_cubins(cubins, &ptx, path);
    tilec_result_free(&ptx);
    options->header_cubins = cubins->at;
    options->n_header_cubins = cubins->n;
    return code;
}

void
header_cubins_free(HeaderCubins *cubins)
{
    for (size_t i = 0; i < cubins->n; i++) {
        free((char *)cubins->at[i].arch);
        free((void *)cubins->at[i].bytes);
    }
    cubins->n = 0;
}
