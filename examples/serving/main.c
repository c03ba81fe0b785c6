/* main.c - a decode loop as in serving: a CUDA graph that is made once, a cache of keys and values
 * that grows.
 *
 *     make && ./serving
 *
 * Each step writes a token's keys and values behind the others, sets the arguments of the graph's
 * first kernel to one key more (cuGraphExecKernelNodeSetParams), and launches the graph.  Nothing
 * is captured again, built again or allocated: what a kernel takes is put together by
 * attention_decode_split_pack().
 *
 * The result of each step is compared with the same sums on the CPU.
 */
#include "attention_decode.h"

#include <math.h>
#include <stdlib.h>

/* query heads, those that share a head of K and V, programs that share its keys */
enum { HEADS = 4, GROUP = 4, KV_HEADS = HEADS / GROUP, DIM = 64, SPLITS = 3 };
enum { PROMPT = 150, STEPS = 40, MOST = 256, ROW = KV_HEADS * DIM };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "%s:%d: %s: error %d %s\n", __FILE__, __LINE__, #call, (int)result_,   \
                    message);                                                                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static char message[4096];
static uint16_t keys[MOST][KV_HEADS][DIM], values[MOST][KV_HEADS][DIM], query[HEADS][DIM],
    out[HEADS][DIM];

static uint16_t
to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static double
from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

/* Numbers from -1 to 1. */
static void
fill(uint16_t *at, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = to_bf16((float)rand() / (float)RAND_MAX * 2 - 1);
}

/* The largest difference of `out` from attention to the first `n` keys. */
static double
worst_error(int n)
{
    double worst = 0;

    for (int h = 0; h < HEADS; h++) {
        double sum = 0, row[DIM] = {0};
        for (int j = 0; j < n; j++) {
            double score = 0;
            for (int d = 0; d < DIM; d++)
                score += from_bf16(query[h][d]) * from_bf16(keys[j][h / GROUP][d]);
            score = exp(score / sqrt(DIM));
            sum += score;
            for (int d = 0; d < DIM; d++)
                row[d] += score * from_bf16(values[j][h / GROUP][d]);
        }
        for (int d = 0; d < DIM; d++) {
            double error = fabs(from_bf16(out[h][d]) - row[d] / sum);
            if (!(error <= worst)) /* also when it is not a number */
                worst = error;
        }
    }
    return worst;
}

/* The arguments of both kernels, but for the number of keys. */
static void
allocate(attention_decode_split_args *split, attention_decode_combine_args *combine)
{
    const tilec_view4 one = {0, {1, 1, HEADS, DIM}, {HEADS * DIM, HEADS * DIM, DIM, 1}};
    const tilec_view4 cache = {0, {1, PROMPT, KV_HEADS, DIM}, {MOST * ROW, ROW, DIM, 1}};

    split->Q = combine->O = one;
    split->K = split->V = cache;
    split->O_part = (tilec_view6){
        0,
        {1, SPLITS, 1, KV_HEADS, GROUP, DIM},
        {SPLITS * HEADS * DIM, HEADS * DIM, HEADS * DIM, GROUP * DIM, DIM, 1}};
    split->L_part = (tilec_view5){
        0, {1, SPLITS, KV_HEADS, GROUP, 1}, {SPLITS * HEADS, HEADS, GROUP, 1, 1}};
    split->scale = 1.0F / sqrtf((float)DIM);
    combine->L = (tilec_view3){0, {1, HEADS, 1}, {HEADS, 1, 1}};
    CHECK(cuMemAlloc(&split->Q.data, sizeof query));
    CHECK(cuMemAlloc(&split->K.data, sizeof keys)); /* as many as there will ever be */
    CHECK(cuMemAlloc(&split->V.data, sizeof values));
    CHECK(cuMemAlloc(&split->O_part.data, sizeof(float) * SPLITS * HEADS * DIM));
    CHECK(cuMemAlloc(&split->L_part.data, sizeof(float) * SPLITS * HEADS));
    CHECK(cuMemAlloc(&combine->O.data, sizeof out));
    CHECK(cuMemAlloc(&combine->L.data, sizeof(float) * HEADS));
    combine->O_part = split->O_part;
    combine->L_part = split->L_part;
}

int
main(void)
{
    CUdevice device;
    CUcontext context;
    CUgraph graph;
    CUgraphNode node[2];
    CUgraphExec exec;
    CUDA_KERNEL_NODE_PARAMS params;
    attention_decode_module module;
    attention_decode_split_args split;
    attention_decode_combine_args combine;
    attention_decode_split_call split_call;
    attention_decode_combine_call combine_call;
    double worst = 0;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(attention_decode_load(&module, NULL, message, sizeof message));
    allocate(&split, &combine);
    fill(&keys[0][0][0], PROMPT * ROW);
    fill(&values[0][0][0], PROMPT * ROW);
    CHECK(cuMemcpyHtoD(split.K.data, keys, PROMPT * ROW * sizeof(uint16_t)));
    CHECK(cuMemcpyHtoD(split.V.data, values, PROMPT * ROW * sizeof(uint16_t)));

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(attention_decode_split_pack(&module, &split, &split_call, message, sizeof message));
    attention_decode_split_node(&split_call, &params);
    CHECK(cuGraphAddKernelNode(&node[0], graph, NULL, 0, &params));
    CHECK(attention_decode_combine_pack(&module, &combine, &combine_call, message, sizeof message));
    attention_decode_combine_node(&combine_call, &params);
    CHECK(cuGraphAddKernelNode(&node[1], graph, &node[0], 1, &params));
    CHECK(cuGraphInstantiate(&exec, graph, 0));

    for (int n = PROMPT; n < PROMPT + STEPS; n++) { /* the token at place n */
        fill(&query[0][0], HEADS * DIM);
        fill(&keys[n][0][0], ROW);
        fill(&values[n][0][0], ROW);
        CHECK(cuMemcpyHtoD(split.Q.data, query, sizeof query));
        CHECK(cuMemcpyHtoD(split.K.data + (CUdeviceptr)n * sizeof keys[0], keys[n], sizeof keys[0]));
        CHECK(cuMemcpyHtoD(split.V.data + (CUdeviceptr)n * sizeof values[0], values[n],
                           sizeof values[0]));

        split.K.shape[1] = split.V.shape[1] = n + 1;
        CHECK(attention_decode_split_pack(&module, &split, &split_call, message, sizeof message));
        attention_decode_split_node(&split_call, &params);
        CHECK(cuGraphExecKernelNodeSetParams(exec, node[0], &params));
        CHECK(cuGraphLaunch(exec, NULL));
        CHECK(cuCtxSynchronize());

        CHECK(cuMemcpyDtoH(out, combine.O.data, sizeof out));
        double error = worst_error(n + 1);
        if (!(error <= worst))
            worst = error;
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    printf("%d tokens behind %d, one graph: largest error %.5f\n", STEPS, PROMPT, worst);
    return worst < 0.02 ? 0 : 1; /* bf16 keeps 8 bits of a value below 1, and p is rounded to it */
}
