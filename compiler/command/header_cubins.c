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
        return complain("E-FILE: cannot write a temporary file: %s", strerror(errno));
    close(handle);
    int status = assemble(assembly, path);

    status = status == EXIT_OLD_PTXAS ? EXIT_USER : status;
    if (status == 0) {
        cubin->bytes = read_file(path, &cubin->n);
        if (cubin->bytes == NULL)
            status = complain("E-FILE: cannot read %s: %s", path, strerror(errno));
    }
    unlink(path);
    return status;
}

/* What is to be asked of ptxas: "sm_90" where the PTX is for "sm_90a" is that.  NULL: no machine
 * code for this target can be made of the PTX.  The caller frees it. */
static char *
target_of_ptx(const char *target, const char *asked)
{
    size_t n = strlen(target);
    bool special = n > 0 && strchr("af", target[n - 1]) != NULL;

    if (special && strncmp(asked, target, n - 1) == 0)
        return text_printf("%s%s", target, "");
    if (!special && atoi(asked + 3) >= atoi(target + 3))
        return text_printf("%s%s", asked, "");
    return NULL;
}

/* The PTX of the highest target that machine code for `asked` can be made of; NULL: of none. */
static const CubinSource *
source_for(const HeaderCubins *cubins, const char *asked)
{
    const CubinSource *best = NULL;

    for (size_t k = 0; k < cubins->n_sources; k++) {
        const CubinSource *source = &cubins->sources[k];
        char *target = target_of_ptx(source->ptx_target, asked);
        if (target != NULL &&
            (best == NULL || atoi(source->ptx_target + 3) > atoi(best->ptx_target + 3)))
            best = source;
        free(target);
    }
    return best;
}

static int
no_source(const HeaderCubins *cubins, const char *asked)
{
    char *list = text_printf("%s%s", cubins->sources[0].ptx_target, "");

    for (size_t k = 1; k < cubins->n_sources; k++) {
        char *longer = text_printf(k + 1 < cubins->n_sources ? "%s, %s" : "%s and %s", list,
                                   cubins->sources[k].ptx_target);
        free(list);
        list = longer;
    }
    complain("--header-cubin: the code is for %s, of which there is no machine code for %s", list,
             asked);
    free(list);
    return EXIT_USER;
}

static int
add_cubins(HeaderCubins *cubins, const char *path)
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
        const CubinSource *source = source_for(cubins, arch);
        if (source == NULL)
            return no_source(cubins, arch);
        char *target = target_of_ptx(source->ptx_target, arch);
        Assembly assembly = {.ptxas = cubins->ptxas,
                             .arch = target,
                             .path = path,
                             .ptx = source->ptx.output,
                             .n = source->ptx.output_bytes};
        cubins->at[cubins->n].arch = target;
        cubins->at[cubins->n].target = source->arch;
        status = add_cubin(cubins, &assembly);
        cubins->n++;
        at += n;
    }
    return status;
}

/* The PTX for one of the targets of -arch. */
static int
add_source(HeaderCubins *cubins, const TilecOptions *options, const char *arch, const char *path,
           const char *text, size_t n)
{
    CubinSource *source = &cubins->sources[cubins->n_sources];
    TilecOptions alone = *options;

    alone.arch = arch;
    alone.emit = TILEC_EMIT_PTX;
    alone.report = alone.time_report = alone.schedule = alone.schedule_picture = false;
    alone.dump_ir = NULL;
    TilecStatus status = tilec_compile(&alone, path, text, n, &source->ptx);
    cubins->n_sources++;
    if (status != TILEC_OK)
        return status == TILEC_ERROR ? EXIT_USER : EXIT_BUG;
    const char *at = strstr(source->ptx.output, "\n.target ");
    at = at == NULL ? "" : at + strlen("\n.target ");
    source->ptx_target = text_printf("%s%s", at, "");
    source->ptx_target[strcspn(source->ptx_target, " ,\r\n")] = '\0';
    return 0;
}

int
header_cubins(HeaderCubins *cubins, TilecOptions *options, const char *path, const char *text,
              size_t n)
{
    const char *archs = options->arch;
    int code = 0;

    if (cubins->archs == NULL)
        return 0;
    if (options->emit != TILEC_EMIT_HEADER)
        return complain("--header-cubin goes with --emit=header");
    cubins->sources = allocate((strlen(archs) + 1) * sizeof *cubins->sources);
    for (const char *at = archs; code == 0; at++) {
        char *arch = text_printf("%s%s", at, "");
        at += strcspn(at, ",");
        arch[strcspn(arch, ",")] = '\0';
        cubins->sources[cubins->n_sources].arch = arch;
        code = add_source(cubins, options, arch, path, text, n);
        if (*at == '\0')
            break;
    }
    if (code != 0) { /* the header's compilation says why, of all targets together */
        TilecResult header;
        tilec_compile(options, path, text, n, &header);
        fputs(header.messages, stderr);
        tilec_result_free(&header);
        return code;
    }
    code = add_cubins(cubins, path);
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
    for (size_t k = 0; k < cubins->n_sources; k++) {
        free(cubins->sources[k].arch);
        free(cubins->sources[k].ptx_target);
        tilec_result_free(&cubins->sources[k].ptx);
    }
    free(cubins->sources);
    cubins->n = cubins->n_sources = 0;
}
