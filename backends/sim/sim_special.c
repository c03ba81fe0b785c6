/* sim_special.c - special registers (PTX ISA 10). */
#include "sim_special.h"

/* clang-format off */
typedef enum Row {
    TID_X, TID_Y, TID_Z, NTID_X, NTID_Y, NTID_Z, CTAID_X, CTAID_Y, CTAID_Z, NCTAID_X, NCTAID_Y,
    NCTAID_Z, LANEID, WARPID, NWARPID, MASK_EQ, MASK_LE, MASK_LT, MASK_GE, MASK_GT, CLUSTERID_X,
    CLUSTERID_Y, CLUSTERID_Z, NCLUSTERID_X, NCLUSTERID_Y, NCLUSTERID_Z, CLUSTER_CTAID_X,
    CLUSTER_CTAID_Y, CLUSTER_CTAID_Z, CLUSTER_NCTAID_X, CLUSTER_NCTAID_Y, CLUSTER_NCTAID_Z,
    CLUSTER_CTARANK, CLUSTER_NCTARANK, SMID, NSMID, DYNAMIC_SMEM, TOTAL_SMEM, RESERVED_SMEM,
    CLOCK, CLOCK_HI, TIMER_LO, TIMER_HI, ZERO, EXPLICIT_CLUSTER,
    CLOCK64 = 46, TIMER = 48, GRIDID = 50, /* two rows each */
    ENVREG1 = 52, ENVREG2
} Row;
/* clang-format on */

static const struct {
    const char *name;
    uint8_t row, bits;
} specials[] = {
    {"%tid.x", TID_X, 32},
    {"%tid.y", TID_Y, 32},
    {"%tid.z", TID_Z, 32},
    {"%ntid.x", NTID_X, 32},
    {"%ntid.y", NTID_Y, 32},
    {"%ntid.z", NTID_Z, 32},
    {"%ctaid.x", CTAID_X, 32},
    {"%ctaid.y", CTAID_Y, 32},
    {"%ctaid.z", CTAID_Z, 32},
    {"%nctaid.x", NCTAID_X, 32},
    {"%nctaid.y", NCTAID_Y, 32},
    {"%nctaid.z", NCTAID_Z, 32},
    {"%laneid", LANEID, 32},
    {"%warpid", WARPID, 32},
    {"%nwarpid", NWARPID, 32},
    {"%lanemask_eq", MASK_EQ, 32},
    {"%lanemask_le", MASK_LE, 32},
    {"%lanemask_lt", MASK_LT, 32},
    {"%lanemask_ge", MASK_GE, 32},
    {"%lanemask_gt", MASK_GT, 32},
    {"%clusterid.x", CLUSTERID_X, 32},
    {"%clusterid.y", CLUSTERID_Y, 32},
    {"%clusterid.z", CLUSTERID_Z, 32},
    {"%nclusterid.x", NCLUSTERID_X, 32},
    {"%nclusterid.y", NCLUSTERID_Y, 32},
    {"%nclusterid.z", NCLUSTERID_Z, 32},
    {"%cluster_ctaid.x", CLUSTER_CTAID_X, 32},
    {"%cluster_ctaid.y", CLUSTER_CTAID_Y, 32},
    {"%cluster_ctaid.z", CLUSTER_CTAID_Z, 32},
    {"%cluster_nctaid.x", CLUSTER_NCTAID_X, 32},
    {"%cluster_nctaid.y", CLUSTER_NCTAID_Y, 32},
    {"%cluster_nctaid.z", CLUSTER_NCTAID_Z, 32},
    {"%cluster_ctarank", CLUSTER_CTARANK, 32},
    {"%cluster_nctarank", CLUSTER_NCTARANK, 32},
    {"%is_explicit_cluster", EXPLICIT_CLUSTER, 1},
    {"%smid", SMID, 32},
    {"%nsmid", NSMID, 32},
    {"%gridid", GRIDID, 64},
    {"%dynamic_smem_size", DYNAMIC_SMEM, 32},
    {"%total_smem_size", TOTAL_SMEM, 32},
    {"%aggr_smem_size", TOTAL_SMEM, 32},
    {"%reserved_smem_offset_begin", ZERO, 32},
    {"%reserved_smem_offset_end", RESERVED_SMEM, 32},
    {"%reserved_smem_offset_cap", RESERVED_SMEM, 32},
    {"%clock", CLOCK, 32},
    {"%clock_hi", CLOCK_HI, 32},
    {"%clock64", CLOCK64, 64},
    {"%globaltimer", TIMER, 64},
    {"%globaltimer_lo", TIMER_LO, 32},
    {"%globaltimer_hi", TIMER_HI, 32},
    {"%envreg1", ENVREG1, 32},
    {"%envreg2", ENVREG2, 32},
};

uint32_t
sim_special_find(const char *name, SimSlot *slot)
{
    if (*name != '%')
        return 0;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        /* this runs for each operand of a file, and most are other registers: %r1, %f2 */
        if (specials[i].name[1] == name[1] && strcmp(specials[i].name, name) == 0) {
            *slot = specials[i].row * 128u | SIM_BANK_SPECIAL;
            return specials[i].bits;
        }
    return 0;
}

SimSlot
sim_special_shared_address(SimModule *mod, uint64_t address, bool wide)
{
    size_t i = 0;
    while (i < mod->shared_address_count && mod->shared_address[i] != address)
        i++;
    if (i == mod->shared_address_count) {
        mod->shared_address = sim_arena_grow(
            &mod->arena, mod->shared_address, mod->shared_address_count,
            &mod->shared_address_capacity, sizeof *mod->shared_address);
        mod->shared_address[mod->shared_address_count++] = address;
    }
    size_t row = SIM_SPECIAL_BYTES + i * SIM_SHARED_ROW_BYTES + (wide ? 128 : 0);
    return (SimSlot)row | SIM_BANK_SPECIAL;
}

/* %envreg1 and 2 are the upper and the lower half of where cooperative groups keep the barrier of a
 * grid: two words, of which the second is the barrier (their driver_abi.h). */
bool
sim_special_needs_workspace(const char *name)
{
    return strcmp(name, "%envreg1") == 0 || strcmp(name, "%envreg2") == 0;
}

bool
sim_special_is_clock(const char *name)
{
    return strncmp(name, "%clock", 6) == 0 ||
           strncmp(name, "%globaltimer", sizeof "%globaltimer" - 1) == 0;
}

static void
fill(uint8_t *bank, Row row, uint32_t value)
{
    uint32_t *lane = (uint32_t *)(void *)(bank + row * 128);
    for (int l = 0; l < SIM_LANES; l++)
        lane[l] = value;
}

static void
fill_three(uint8_t *bank, Row row, const uint32_t value[3])
{
    for (int i = 0; i < 3; i++)
        fill(bank, (Row)((int)row + i), value[i]);
}

void
sim_special_fill(SimWarp *warp, uint8_t *bank)
{
    const SimRun *run = warp->run;
    const SimCta *cta = warp->cta;
    const SimCluster *cluster = cta->cluster;
    uint32_t *row = (uint32_t *)(void *)bank;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint32_t thread = warp->index * SIM_LANES + l;
        row[TID_X * 32 + l] = thread % run->block[0];
        row[TID_Y * 32 + l] = thread / run->block[0] % run->block[1];
        row[TID_Z * 32 + l] = thread / run->block[0] / run->block[1];
        row[LANEID * 32 + l] = l;
        row[MASK_EQ * 32 + l] = UINT32_C(1) << l;
        row[MASK_LT * 32 + l] = (UINT32_C(1) << l) - 1;
        row[MASK_LE * 32 + l] = (UINT32_C(2) << l) - 1;
        row[MASK_GE * 32 + l] = ~((UINT32_C(1) << l) - 1);
        row[MASK_GT * 32 + l] = ~((UINT32_C(2) << l) - 1);
    }
    uint32_t clusters[3], in_cluster[3];
    for (int i = 0; i < 3; i++) {
        clusters[i] = run->grid[i] / run->cluster[i];
        in_cluster[i] = cta->index[i] % run->cluster[i];
    }
    fill_three(bank, NTID_X, run->block);
    fill_three(bank, CTAID_X, cta->index);
    fill_three(bank, NCTAID_X, run->grid);
    fill_three(bank, CLUSTERID_X, cluster->index);
    fill_three(bank, NCLUSTERID_X, clusters);
    fill_three(bank, CLUSTER_CTAID_X, in_cluster);
    fill_three(bank, CLUSTER_NCTAID_X, run->cluster);
    fill(bank, CLUSTER_CTARANK, cta->rank);
    fill(bank, CLUSTER_NCTARANK, cluster->cta_count);
    fill(bank, WARPID, warp->index);
    fill(bank, NWARPID, run->warps_per_cta);
    fill(bank, SMID, (uint32_t)(cta->linear % 132)); /* an SM number is only a hint (10.10) */
    fill(bank, NSMID, 132);
    fill(bank, DYNAMIC_SMEM, run->launch->dynamic_shared);
    fill(bank, TOTAL_SMEM, run->shared_bytes);
    fill(bank, RESERVED_SMEM, SIM_SHARED_BASE);
    fill(bank, ENVREG1, (uint32_t)(run->module->grid_workspace >> 32));
    fill(bank, ENVREG2, (uint32_t)run->module->grid_workspace);
    fill(bank, EXPLICIT_CLUSTER, cluster->cta_count > 1 ? UINT32_MAX : 0);
    const SimModule *mod = run->module;
    for (size_t i = 0; i < mod->shared_address_count; i++) {
        uint8_t *at = bank + SIM_SPECIAL_BYTES + i * SIM_SHARED_ROW_BYTES;
        uint64_t *wide = (uint64_t *)(void *)(at + 128);
        uint64_t address = mod->shared_address[i] | (uint64_t)cta->rank << SIM_SHARED_RANK_SHIFT;
        fill(at, (Row)0, (uint32_t)address);
        for (int l = 0; l < SIM_LANES; l++)
            wide[l] = address;
    }
}

/* Time is counted in warp instructions of the cluster. */
void
sim_special_refresh_clock(SimWarp *warp)
{
    uint8_t *bank = warp->bank[SIM_BANK_SPECIAL];
    uint64_t now = warp->cta->cluster->now;
    uint64_t *wide = (uint64_t *)(void *)(bank + CLOCK64 * 128);
    uint64_t *timer = (uint64_t *)(void *)(bank + TIMER * 128);
    for (int l = 0; l < SIM_LANES; l++)
        wide[l] = timer[l] = now;
    fill(bank, CLOCK, (uint32_t)now);
    fill(bank, CLOCK_HI, (uint32_t)(now >> 32));
    fill(bank, TIMER_LO, (uint32_t)now);
    fill(bank, TIMER_HI, (uint32_t)(now >> 32));
}
