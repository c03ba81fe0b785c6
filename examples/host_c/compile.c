/* compile.c - a kernel compiled by libtilec while the program runs, and launched.
 *
 *     cc -std=c99 compile.c -ltilec -lcuda -o compile      (after cmake --install; here: make compile)
 *     ./compile
 *
 * The parameters are what docs/metadata.md says: a pointer for each tensor, its strides but the
 * last one (a vector has none), the sizes, the scalars.  --emit=header writes all of this for a
 * program that is known when the host is built.
 */
#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include <tilec.h>

enum { TILE = 256, WARPS = 4, N = 1000 };
#define CHECK(call)                                                                                \
    if ((error = (call)) != CUDA_SUCCESS)                                                          \
    return fprintf(stderr, "%s: %d\n", #call, (int)error)

static const char program[] = "kernel scale(X: in f32[N], Y: out f32[N], a: f32)\n"
                              "{\n"
                              "    grid i in tiles(N, 256);\n"
                              "    store Y[i] = a * load X[i];\n"
                              "}\n";

int
main(void)
{
    float x[N], y[N], a = 3;
    int n = N;
    CUdeviceptr at_x, at_y;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUresult error;

    /* the program to PTX, which runs on this GPU and on later ones */
    TilecOptions options = tilec_default_options(); /* sm_80 */
    TilecResult ptx;
    options.warps = WARPS;
    if (tilec_compile(&options, "scale.tile", program, strlen(program), &ptx) != TILEC_OK)
        return fputs(ptx.messages, stderr); /* scale.tile:LINE:COLUMN: error: .. */

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadDataEx(&module, ptx.output, 0, NULL,
                             NULL)); /* to machine code, by the driver */
    CHECK(cuModuleGetFunction(&kernel, module, "scale"));
    tilec_result_free(&ptx);

    for (int i = 0; i < n; i++)
        x[i] = (float)i;
    CHECK(cuMemAlloc(&at_x, sizeof x));
    CHECK(cuMemAlloc(&at_y, sizeof y));
    CHECK(cuMemcpyHtoD(at_x, x, sizeof x));
    void *parameters[] = {&at_x, &at_y, &n, &a};
    CHECK(cuLaunchKernel(kernel, (N + TILE - 1) / TILE, 1, 1, 32 * WARPS, 1, 1, 0, NULL, parameters,
                         NULL));
    CHECK(cuMemcpyDtoH(y, at_y, sizeof y));
    for (int i = 0; i < n; i++)
        if (y[i] != a * x[i])
            return fprintf(stderr, "y[%d] is %g\n", i, (double)y[i]);
    return puts("1000 numbers, scaled: right") < 0;
}
