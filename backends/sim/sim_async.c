/* sim_async.c - the queue of asynchronous operations. */
#include "sim_async.h"

#include <stdlib.h>

#include "sim_shadow.h"

enum { SOON = 400, LATER = 20000 }; /* warp instructions of the cluster */

SimOp *
sim_op_new(SimWarp *warp, size_t payload_bytes)
{
    SimCluster *cluster = warp->cta->cluster;
    if (cluster->op_count == cluster->op_capacity) {
        size_t capacity = cluster->op_capacity ? 2 * cluster->op_capacity : 64;
        SimOp **bigger = sim_realloc(cluster->ops, capacity * sizeof(SimOp *));
        if (!bigger)
            return NULL;
        cluster->ops = bigger;
        cluster->op_capacity = capacity;
    }
    SimOp *op = sim_calloc(1, sizeof *op);
    void *payload = sim_calloc(1, payload_bytes ? payload_bytes : 1);
    if (!op || !payload) {
        free(op);
        free(payload);
        return NULL;
    }
    op->id = (uint32_t)cluster->op_count;
    op->agent = warp->agent;
    op->insn = warp->insn;
    op->warp = warp;
    op->cta = warp->cta;
    op->payload = payload;
    cluster->ops[cluster->op_count++] = op;
    return op;
}

static void
recompute_due(SimCluster *cluster)
{
    cluster->next_due = UINT64_MAX;
    for (size_t i = 0; i < cluster->pending_count; i++)
        if (cluster->pending[i]->due < cluster->next_due)
            cluster->next_due = cluster->pending[i]->due;
}

void
sim_op_finish(SimCluster *cluster, SimOp *op)
{
    if (op->landed)
        return;
    if (op->after)
        sim_op_finish(cluster, op->after);
    op->landed = true; /* first: a callback may look at it */
    if (op->fetch && !op->fetched)
        op->fetch(cluster, op);
    op->fetched = true;
    op->land(cluster, op);
    free(op->payload);
    op->payload = NULL;
    cluster->progress++;
    for (size_t i = 0; i < cluster->pending_count; i++)
        if (cluster->pending[i] == op) {
            cluster->pending[i] = cluster->pending[--cluster->pending_count];
            break;
        }
    recompute_due(cluster);
}

void
sim_op_start(SimCluster *cluster, SimOp *op, bool can_be_late)
{
    if (cluster->pending_count == cluster->pending_capacity) {
        size_t capacity = cluster->pending_capacity ? 2 * cluster->pending_capacity : 64;
        SimOp **bigger = sim_realloc(cluster->pending, capacity * sizeof(SimOp *));
        if (!bigger) { /* still right, only less adversarial */
            sim_op_finish(cluster, op);
            return;
        }
        cluster->pending = bigger;
        cluster->pending_capacity = capacity;
    }
    cluster->pending[cluster->pending_count++] = op;
    switch (sim_random_below(&cluster->random, 4)) {
    case 0: sim_op_finish(cluster, op); return;
    case 1: op->due = cluster->now + 1 + sim_random_below(&cluster->random, SOON); break;
    default:
        op->due = can_be_late ? UINT64_MAX
                              : cluster->now + 1 + sim_random_below(&cluster->random, LATER);
        break;
    }
    /* Reading early and writing late shows a source that is overwritten too soon as stale data in
     * half of the cases, and as new data in the other half. */
    if (op->fetch && sim_random_below(&cluster->random, 2)) {
        op->fetch(cluster, op);
        op->fetched = true;
    }
    if (op->due < cluster->next_due)
        cluster->next_due = op->due;
}

void
sim_async_advance(SimCluster *cluster)
{
    while (cluster->next_due <= cluster->now) {
        SimOp *found = NULL;
        size_t start = sim_random_below(&cluster->random, (uint32_t)cluster->pending_count);
        for (size_t i = 0; i < cluster->pending_count && !found; i++) {
            SimOp *op = cluster->pending[(start + i) % cluster->pending_count];
            if (op->due <= cluster->now)
                found = op;
        }
        if (!found) {
            recompute_due(cluster);
            return;
        }
        sim_op_finish(cluster, found);
    }
}

bool
sim_async_force_one(SimCluster *cluster)
{
    if (cluster->pending_count == 0)
        return false;
    uint32_t at = sim_random_below(&cluster->random, (uint32_t)cluster->pending_count);
    sim_op_finish(cluster, cluster->pending[at]);
    return true;
}

void
sim_async_free(SimCluster *cluster)
{
    for (size_t i = 0; i < cluster->op_count; i++) {
        free(cluster->ops[i]->payload);
        free(cluster->ops[i]->seen);
        free(cluster->ops[i]->tracked);
        free(cluster->ops[i]);
    }
    free(cluster->ops);
    free(cluster->pending);
}

void
sim_op_observe(SimWarp *warp, SimOp *op)
{
    if (!warp->clock)
        return;
    if (op->agent == warp->agent)
        op->lane_epoch = warp->lane_epoch;
    if (!op->seen)
        op->seen = sim_calloc(warp->cta->cluster->agents, sizeof *op->seen);
    if (op->seen && !op->seen[warp->agent])
        op->seen[warp->agent] = warp->clock[warp->agent];
    if (op->global)
        sim_global_observe(warp, op);
    if (op->observe)
        op->observe(warp, op);
}

static bool
known_by(const SimWarp *warp, const SimOp *op, const uint32_t *clock)
{
    if (!op->seen)
        return false;
    if (op->seen[warp->agent] && op->seen[warp->agent] <= clock[warp->agent])
        return true; /* mostly it waited itself */
    for (uint32_t a = 0; a < warp->cta->cluster->agents; a++)
        if (op->seen[a] && op->seen[a] <= clock[a])
            return true;
    return false;
}

bool
sim_op_known(const SimWarp *warp, const SimOp *op)
{
    return known_by(warp, op, warp->clock);
}

bool
sim_op_known_to_proxy(const SimWarp *warp, const SimOp *op)
{
    return known_by(warp, op, warp->proxy_clock);
}
