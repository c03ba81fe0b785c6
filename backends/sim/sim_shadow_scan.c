/* sim_shadow_scan.c - looks at many cells of the shadow of shared memory. */
#include "sim_shadow_cell.h"

SIM_HOT bool
sim_shadow_same_ops(const uint32_t *ops, uint32_t count)
{
    uint32_t differ = 0;
    for (uint32_t i = 0; i < count; i++)
        differ |= ops[i] ^ ops[0];
    return !differ;
}

SIM_HOT bool
sim_shadow_read_behind(const uint32_t *marks, uint32_t count, uint32_t clock)
{
    uint32_t unknown = 0;
    for (uint32_t c = 0; c < count; c++)
        unknown |= (uint32_t)((int32_t)READ_CLOCK(marks[c]) > (int32_t)clock);
    return unknown;
}

/* Four at a time. */
SIM_HOT bool
sim_shadow_same_writes(const Cell *c, uint32_t count)
{
    typedef uint64_t Four __attribute__((vector_size(4 * sizeof(Cell))));
    Cell four[4] = {*c, *c, *c, *c};
    Four first, next, differ = {0};
    uint32_t i = 0;
    memcpy(&first, four, sizeof first);
    for (; i + 4 <= count; i += 4) {
        memcpy(&next, c + i, sizeof next);
        differ |= next ^ first;
    }
    differ ^= first; /* as what the first one is, where nothing differs */
    memcpy(four, &differ, sizeof four);
    bool same = true;
    for (uint32_t j = 0; j < 4; j++)
        same = same && alike_by_write(&four[j], c);
    for (; i < count; i++)
        same = same && alike_by_write(c + i, c);
    return same;
}
