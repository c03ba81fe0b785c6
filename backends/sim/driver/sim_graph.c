/* sim_graph.c - CUDA graphs of kernel nodes, for sim_cuda.c: nodes run in the order in which they
 * were added. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/driver/sim_cuda.h"
#include "backends/sim/sim.h"

enum { MOST_NODES = 16 };

/* CUDA_KERNEL_NODE_PARAMS, its second form. */
typedef struct NodeParams {
    void *function;
    unsigned grid[3], block[3], shared;
    void **params, **extra, *kernel, *context;
} NodeParams;

typedef struct Node {
    NodeParams of;
    unsigned char *bytes; /* the parameters, copied */
    size_t n_bytes;
} Node;

/* A graph, and what is made of one to be launched. */
typedef struct Graph {
    Node nodes[MOST_NODES];
    unsigned n;
    struct Graph *from;
} Graph;

/* of sim_cuda.c */
Result cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared, void *stream, void **args,
                      void **extra);

static Result
keep(Node *node, const NodeParams *given)
{
    const SimEntry *entry = sim_cuda_entry(given->function);
    unsigned char *bytes = calloc(1, entry->param_bytes + 1);

    if (bytes == NULL)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < entry->param_count; i++)
        memcpy(bytes + entry->params[i].offset, given->params[i], entry->params[i].size);
    free(node->bytes);
    *node = (Node){*given, bytes, entry->param_bytes};
    return OK;
}

EXPORT Result
cuGraphCreate(Graph **graph, unsigned flags)
{
    *graph = flags == 0 ? calloc(1, sizeof **graph) : NULL;
    return flags != 0 ? INVALID_VALUE : *graph == NULL ? OUT_OF_MEMORY : OK;
}

/* A node is known by its number and one. */
EXPORT Result
cuGraphAddKernelNode_v2(uintptr_t *node, Graph *graph, const uintptr_t *before, size_t n_before,
                        const NodeParams *given)
{
    if (graph->n == MOST_NODES || given->extra != NULL)
        return INVALID_VALUE;
    for (size_t i = 0; i < n_before; i++)
        if (before[i] == 0 || before[i] > graph->n)
            return INVALID_VALUE;
    *node = graph->n + 1;
    return keep(&graph->nodes[graph->n++], given);
}

EXPORT Result
cuGraphInstantiateWithFlags(Graph **exec, Graph *graph, unsigned long long flags)
{
    *exec = flags == 0 ? calloc(1, sizeof **exec) : NULL;
    if (*exec == NULL)
        return flags == 0 ? OUT_OF_MEMORY : INVALID_VALUE;
    (*exec)->from = graph;
    for (unsigned i = 0; i < graph->n; i++) {
        Node *node = &(*exec)->nodes[(*exec)->n++];
        *node = graph->nodes[i];
        node->bytes = malloc(node->n_bytes + 1);
        memcpy(node->bytes, graph->nodes[i].bytes, node->n_bytes);
    }
    return OK;
}

EXPORT Result
cuGraphExecKernelNodeSetParams_v2(Graph *exec, uintptr_t node, const NodeParams *given)
{
    if (node == 0 || node > exec->n || given->extra != NULL ||
        sim_cuda_entry(given->function) != sim_cuda_entry(exec->nodes[node - 1].of.function))
        return INVALID_VALUE;
    return keep(&exec->nodes[node - 1], given);
}

EXPORT Result
cuGraphLaunch(Graph *exec, void *stream)
{
    for (unsigned i = 0; i < exec->n; i++) {
        const NodeParams *of = &exec->nodes[i].of;
        const SimEntry *entry = sim_cuda_entry(of->function);
        void *args[128];
        for (size_t k = 0; k < entry->param_count; k++)
            args[k] = exec->nodes[i].bytes + entry->params[k].offset;
        Result result = cuLaunchKernel(of->function, of->grid[0], of->grid[1], of->grid[2],
                                       of->block[0], of->block[1], of->block[2], of->shared, stream,
                                       args, NULL);
        if (result != OK)
            return result;
    }
    return OK;
}

static Result
release(Graph *graph)
{
    for (unsigned i = 0; i < graph->n; i++)
        free(graph->nodes[i].bytes);
    free(graph);
    return OK;
}

EXPORT Result
cuGraphExecDestroy(Graph *exec)
{
    return release(exec);
}

EXPORT Result
cuGraphDestroy(Graph *graph)
{
    return release(graph);
}
