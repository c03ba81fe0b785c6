/* program.c - a user's program: compiles a kernel with libtilec. */
#include <stdio.h>
#include <string.h>
#include <tilec.h>

int
main(void)
{
    const char *text = "kernel copy(X: in f32[S], Y: out f32[S])"
                       "{ grid i in tiles(S, 256); store Y[i] = load X[i]; }";
    TilecOptions options = tilec_default_options();
    TilecResult result;
    options.arch = "sm_90";
    TilecStatus status = tilec_compile(&options, "copy.tile", text, strlen(text), &result);
    fputs(status == TILEC_OK ? result.output : result.messages, stdout);
    tilec_result_free(&result);
    return status;
}
