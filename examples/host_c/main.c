/* main.c - attention from C with the CUDA Driver API and the header that tilec makes; no library.
 *
 *     tilec ../attention.tile -arch sm_90 -D D=64 -D CAUSAL=true --emit=header --header-ptx \
 *           -o attention.h
 *     cc -std=c99 -I. -I/usr/local/cuda/include main.c -o host_c -lcuda -lm
 *     ./host_c
 *
 * One sequence of 300 tokens, 4 heads; the result is compared with the same sums on the CPU.
 *
 * The same program launches what tilec makes for every target, or for several: `-arch sm_80,sm_90`
 * is a header with code for both, of which attention_load() takes what suits the GPU.  For sm_90
 * (`-arch sm_80` on older GPUs) the kernel is one of warp groups: attention_launch() makes its
 * tensor maps and finds how many blocks run at once; what is left to the program is the memory of
 * the counter from which blocks draw their tiles.
 */
#include "attention.h"

#include <math.h>
#include <stdlib.h>

enum { TOKENS = 300, HEADS = 4, DIM = 64, ELEMENTS = TOKENS * HEADS * DIM };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "%s:%d: %s: error %d %s\n", __FILE__, __LINE__, #call, (int)result_,   \
                    message);                                                                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static uint16_t
to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static float
from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One row of causal attention in double: query `i` of head `h`. */
static void
expected_row(const uint16_t *q, const uint16_t *k, const uint16_t *v, int i, int h, double scale,
             double out[DIM])
{
    double sum = 0, score[TOKENS];

    for (int d = 0; d < DIM; d++)
        out[d] = 0;
    for (int j = 0; j <= i; j++) {
        score[j] = 0;
        for (int d = 0; d < DIM; d++)
            score[j] += (double)from_bf16(q[(i * HEADS + h) * DIM + d]) *
                        (double)from_bf16(k[(j * HEADS + h) * DIM + d]);
        score[j] = exp(score[j] * scale);
        sum += score[j];
    }
    for (int j = 0; j <= i; j++)
        for (int d = 0; d < DIM; d++)
            out[d] += score[j] / sum * (double)from_bf16(v[(j * HEADS + h) * DIM + d]);
}

int
main(void)
{
    static uint16_t q[ELEMENTS], k[ELEMENTS], v[ELEMENTS], o[ELEMENTS];
    const tilec_view4 shape = {0, {1, TOKENS, HEADS, DIM}, {ELEMENTS, HEADS * DIM, DIM, 1}};
    const tilec_view3 rows = {0, {1, HEADS, TOKENS}, {HEADS * TOKENS, TOKENS, 1}};
    char message[4096] = "";
    CUdevice device;
    CUcontext context;
    attention_module module;
    attention_args args = {0};
    double worst = 0;

    for (int i = 0; i < ELEMENTS; i++) { /* numbers from -1 to 1 */
        q[i] = to_bf16((float)rand() / (float)RAND_MAX * 2 - 1);
        k[i] = to_bf16((float)rand() / (float)RAND_MAX * 2 - 1);
        v[i] = to_bf16((float)rand() / (float)RAND_MAX * 2 - 1);
    }
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(attention_load(&module, NULL, message, sizeof message)); /* the PTX inside the header */

    args.Q = args.K = args.V = args.O = shape;
    args.L = rows;
    args.scale = 1.0F / sqrtf((float)DIM);
    args.softcap = 0;
    CHECK(cuMemAlloc(&args.Q.data, sizeof q));
    CHECK(cuMemAlloc(&args.K.data, sizeof k));
    CHECK(cuMemAlloc(&args.V.data, sizeof v));
    CHECK(cuMemAlloc(&args.O.data, sizeof o));
    CHECK(cuMemAlloc(&args.L.data, sizeof(float) * HEADS * TOKENS));
    CHECK(cuMemcpyHtoD(args.Q.data, q, sizeof q));
    CHECK(cuMemcpyHtoD(args.K.data, k, sizeof k));
    CHECK(cuMemcpyHtoD(args.V.data, v, sizeof v));

#ifdef ATTENTION_HAS_SCRATCH_TILE_COUNTER /* causal programs differ in length, so they are drawn */
    /* 0: not by the code for this GPU */
    size_t bytes = attention_bytes_tile_counter(&module, &args);
    if (bytes > 0) {
        CHECK(cuMemAlloc(&args.scratch_tile_counter, bytes));
        /* once: each launch leaves it zero */
        CHECK(cuMemsetD8(args.scratch_tile_counter, 0, bytes));
    }
#endif

    CHECK(attention_check(&args, message, sizeof message)); /* says what is wrong, if anything is */
    for (int again = 0; again < 2; again++)
        CHECK(attention_launch(&module, &args, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(o, args.O.data, sizeof o));

    for (int i = 0; i < TOKENS; i += 7)
        for (int h = 0; h < HEADS; h++) {
            double row[DIM];
            expected_row(q, k, v, i, h, (double)args.scale, row);
            for (int d = 0; d < DIM; d++) {
                double error = fabs((double)from_bf16(o[(i * HEADS + h) * DIM + d]) - row[d]);
                if (!(error <= worst)) /* also when it is not a number */
                    worst = error;
            }
        }
    printf("%d tokens, %d heads: largest error %.5f\n", TOKENS, HEADS, worst);
    return worst < 0.02 ? 0 : 1; /* bf16 keeps 8 bits of a value below 1, and p is rounded to it */
}
