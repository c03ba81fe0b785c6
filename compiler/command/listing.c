/* listing.c - runs ptxas over PTX and nvdisasm over what comes out. */
#include "compiler/command/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/command/files.h"
#include "compiler/command/toolkit.h"

char *
ptx_target(const char *ptx)
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

/* The first line of what a program printed. */
static char *
first_line(const char *program, char *said)
{
    if (said != NULL)
        said[strcspn(said, "\n")] = '\0';
    return text_printf("%s says: %s", program, said == NULL ? "" : said);
}

static char *
disassemble(const char *nvdisasm, const char *cubin, char **why)
{
    const char *arguments[] = {"-c", "-hex", "-gp", cubin, NULL};
    char *listing = NULL, *wrong = NULL;

    if (toolkit_run(nvdisasm, arguments, &listing, &wrong) != 0) {
        *why = first_line(nvdisasm, wrong);
        free(listing);
        listing = NULL;
    }
    free(wrong);
    return listing;
}

static char *
with_tools(const char *ptxas, const char *nvdisasm, const char *ptx, size_t n, char **why)
{
    char input[] = "/tmp/tilec-XXXXXX", cubin[] = "/tmp/tilec-XXXXXX";
    char *target = ptx_target(ptx), *arch = text_printf("-arch=%s%s", target, "");
    char *said = NULL, *listing = NULL;
    bool made = temporary_file(input, ptx, n), both = made && temporary_file(cubin, "", 0);

    if (both) {
        const char *arguments[] = {arch, "-lineinfo", input, "-o", cubin, NULL};
        if (toolkit_run(ptxas, arguments, &said, NULL) == 0)
            listing = disassemble(nvdisasm, cubin, why);
        else
            *why = first_line(ptxas, said);
        unlink(cubin);
    } else {
        *why = text_printf("%s: %s", "no temporary file", strerror(errno));
    }
    if (made)
        unlink(input);
    free(said);
    free(arch);
    free(target);
    return listing;
}

char *
listing_of_ptx(const char *ptx, size_t n, char **why)
{
    char *ptxas = toolkit_find("ptxas", NULL);
    char *nvdisasm = toolkit_find("nvdisasm", ptxas), *listing = NULL;

    *why = NULL;
    if (ptxas != NULL && nvdisasm != NULL)
        listing = with_tools(ptxas, nvdisasm, ptx, n, why);
    else
        *why = text_printf("%s%s", ptxas == NULL ? "ptxas" : "nvdisasm",
                           " was not found in PATH, $CUDA_HOME/bin, $CUDA_PATH/bin or "
                           "/usr/local/cuda/bin");
    free(ptxas);
    free(nvdisasm);
    return listing;
}
