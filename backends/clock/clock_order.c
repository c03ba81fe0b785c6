/* clock_order.c - the order of a block's instructions, where no machine code gives it.
 *
 * PTX is written in any order; the assembler reorders what lies between two branches or barriers so
 * that latencies overlap.  This does what list schedulers do: of the instructions whose operands
 * are on the way, the one that begins the longest chain of latencies goes first.  Registers are as
 * many as it takes.
 */
#include "backends/clock/clock_cost.h"

#include <string.h>

typedef struct Edge {
    uint16_t to;
    float latency;
    uint32_t next; /* 1 + index; 0: the last one */
} Edge;

typedef struct Node {
    uint32_t edges; /* 1 + index of the first */
    uint32_t waits; /* for so many that are not placed */
    float length;   /* of the longest chain from here */
    float ready;
    bool placed;
} Node;

typedef struct Writer { /* of a register, in the block */
    uint32_t slot;
    uint32_t writer; /* 1 + node */
    VEC(uint16_t) readers;
} Writer;

typedef struct Order {
    Arena *arena;
    Node *node;
    VEC(Edge) edges;
    VEC(Writer) registers;
    uint32_t *slots, n_slots; /* hash table: 1 + index in registers */
} Order;

static Writer *
writer_of(Order *o, uint32_t slot)
{
    uint32_t at = (slot * 2654435761u) & (o->n_slots - 1);

    while (o->slots[at] && o->registers.at[o->slots[at] - 1].slot != slot)
        at = (at + 1) & (o->n_slots - 1);
    if (!o->slots[at]) {
        vec_push(o->arena, &o->registers, ((Writer){.slot = slot}));
        o->slots[at] = o->registers.n;
    }
    return &o->registers.at[o->slots[at] - 1];
}

static void
add_edge(Order *o, uint32_t from, uint32_t to, double latency)
{
    if (from == to)
        return;
    vec_push(o->arena, &o->edges, ((Edge){(uint16_t)to, (float)latency, o->node[from].edges}));
    o->node[from].edges = o->edges.n;
    o->node[to].waits++;
}

static bool
is_register(uint32_t slot)
{
    return slot != UINT32_MAX && (slot & 3) == 0;
}

static void
reads(Order *o, const ClockCost *cost, uint32_t k, uint32_t slot)
{
    if (!is_register(slot))
        return;
    Writer *w = writer_of(o, slot);
    if (w->writer)
        add_edge(o, w->writer - 1, k, cost[w->writer - 1].latency);
    vec_push(o->arena, &w->readers, (uint16_t)k);
}

static void
writes(Order *o, uint32_t k, uint32_t slot)
{
    if (!is_register(slot))
        return;
    Writer *w = writer_of(o, slot);
    for (uint32_t r = 0; r < w->readers.n; r++)
        add_edge(o, w->readers.at[r], k, 0);
    if (w->writer)
        add_edge(o, w->writer - 1, k, 1);
    w->writer = k + 1;
    w->readers.n = 0;
}

static bool
is_access(const ClockCost *cost)
{
    return cost->kind == CLASS_SHARED || cost->kind == CLASS_GLOBAL || cost->kind == CLASS_MATRIX ||
           cost->kind == CLASS_COPY;
}

/* What must stay behind what: registers, and memory behind and before what stores. */
static void
find_edges(Order *o, const SimModule *module, const ClockCost *cost, uint32_t first, uint32_t n)
{
    uint32_t store = 0;        /* 1 + the last */
    VEC(uint16_t) loads = {0}; /* since then */

    for (uint32_t k = 0; k < n; k++) {
        SimInsnView v;
        sim_insn_at(module, first + k, &v);
        reads(o, cost, k, v.guard);
        for (uint32_t s = v.destination_count; s < v.slot_count; s++)
            reads(o, cost, k, v.slots[s]);
        for (uint32_t s = 0; s < v.destination_count; s++)
            writes(o, k, v.slots[s]);
        if (is_access(&cost[k])) {
            if (store)
                add_edge(o, store - 1, k, 1);
            if (cost[k].stores) {
                for (uint32_t l = 0; l < loads.n; l++)
                    add_edge(o, loads.at[l], k, 1);
                loads.n = 0;
                store = k + 1;
            } else {
                vec_push(o->arena, &loads, (uint16_t)k);
            }
        }
        for (uint32_t e = 0; cost[k].ends && e < k; e++)
            add_edge(o, e, k, 0);
    }
}

void
clock_order(Arena *arena, const SimModule *module, const ClockCost *costs, uint32_t first,
            uint32_t n, uint16_t *order)
{
    Order o = {.arena = arena, .n_slots = 4096};
    float now = 0;

    o.node = arena_array(arena, Node, n);
    o.slots = arena_array(arena, uint32_t, o.n_slots);
    find_edges(&o, module, costs + first, first, n);
    for (uint32_t k = n; k-- > 0;) {
        for (uint32_t e = o.node[k].edges; e; e = o.edges.at[e - 1].next) {
            const Edge *edge = &o.edges.at[e - 1];
            float length = edge->latency + o.node[edge->to].length;
            o.node[k].length = length > o.node[k].length ? length : o.node[k].length;
        }
    }
    for (uint32_t done = 0; done < n; done++, now += 1) {
        uint32_t best = n;
        for (uint32_t k = 0; k < n; k++) {
            const Node *a = &o.node[k], *b = &o.node[best < n ? best : k];
            if (a->placed || a->waits)
                continue;
            bool a_late = a->ready > now, b_late = b->ready > now;
            if (best == n || (a_late != b_late ? b_late
                              : a_late         ? a->ready < b->ready
                                               : a->length > b->length))
                best = k;
        }
        Node *node = &o.node[best];
        node->placed = true;
        now = node->ready > now ? node->ready : now;
        order[done] = (uint16_t)best;
        for (uint32_t e = node->edges; e; e = o.edges.at[e - 1].next) {
            const Edge *edge = &o.edges.at[e - 1];
            Node *to = &o.node[edge->to];
            to->waits--;
            to->ready = now + edge->latency > to->ready ? now + edge->latency : to->ready;
        }
    }
}
