/* clock_row_names.c - rows of the timing model's tables by name, for who wants to see what one of
 * them does. */
#include "backends/clock/clock.h"

#include <stdio.h>
#include <string.h>

static const char *const names[CLOCK_ROWS] = {
    [CLOCK_SMS] = "sms",
    [CLOCK_MHZ] = "mhz",
    [CLOCK_MHZ_BUSY] = "mhz_busy",
    [CLOCK_MHZ_POINT] = "mhz_point",
    [CLOCK_SCHEDULERS] = "schedulers",
    [CLOCK_REGISTERS] = "registers",
    [CLOCK_THREADS] = "threads",
    [CLOCK_BLOCKS] = "blocks",
    [CLOCK_SHARED] = "shared",
    [CLOCK_SHARED_BLOCK] = "shared_block",
    [CLOCK_FMA] = "fma",
    [CLOCK_ALU] = "alu",
    [CLOCK_IMAD] = "imad",
    [CLOCK_MUFU] = "mufu",
    [CLOCK_PACK] = "pack",
    [CLOCK_PACKED] = "packed",
    [CLOCK_FIXED_LATENCY] = "fixed_latency",
    [CLOCK_MUFU_LATENCY] = "mufu_latency",
    [CLOCK_BRANCH] = "branch",
    [CLOCK_SHUFFLE] = "shuffle",
    [CLOCK_SHUFFLE_LATENCY] = "shuffle_latency",
    [CLOCK_SHARED_BYTES] = "shared_bytes",
    [CLOCK_LOAD_BYTES] = "load_bytes",
    [CLOCK_STORE_BYTES] = "store_bytes",
    [CLOCK_SHARED_LATENCY] = "shared_latency",
    [CLOCK_MATRIX_LATENCY] = "matrix_latency",
    [CLOCK_GLOBAL_BYTES] = "global_bytes",
    [CLOCK_GLOBAL_STORE_BYTES] = "global_store_bytes",
    [CLOCK_GLOBAL_LEAST] = "global_least",
    [CLOCK_GLOBAL_LINE] = "global_line",
    [CLOCK_STORE_MERGE] = "store_merge",
    [CLOCK_GLOBAL_LATENCY] = "global_latency",
    [CLOCK_MEMORY_QUEUE] = "memory_queue",
    [CLOCK_ADD_BYTES] = "add_bytes",
    [CLOCK_WARP_MMA_FLOPS] = "warp_mma_flops",
    [CLOCK_WARP_MMA_LATENCY] = "warp_mma_latency",
    [CLOCK_GROUP_MMA_FLOPS] = "group_mma_flops",
    [CLOCK_GROUP_MMA_LATENCY] = "group_mma_latency",
    [CLOCK_GROUP_MMA_LEAST] = "group_mma_least",
    [CLOCK_GROUP_MMA_QUEUE] = "group_mma_queue",
    [CLOCK_TMA_ISSUE] = "tma_issue",
    [CLOCK_TMA_BYTES] = "tma_bytes",
    [CLOCK_TMA_LATENCY] = "tma_latency",
    [CLOCK_TMA_STORE_BYTES] = "tma_store_bytes",
    [CLOCK_TMA_STORE_LATENCY] = "tma_store_latency",
    [CLOCK_TMA_STORE_READ] = "tma_store_read",
    [CLOCK_TMA_ADD_BYTES] = "tma_add_bytes",
    [CLOCK_TMA_IN_ORDER] = "tma_in_order",
    [CLOCK_MMA_QUEUE] = "mma_queue",
    [CLOCK_MMA_ISSUE] = "mma_issue",
    [CLOCK_MMA_COPY_BYTES] = "mma_copy_bytes",
    [CLOCK_TMEM_BYTES] = "tmem_bytes",
    [CLOCK_TMEM_ISSUE] = "tmem_issue",
    [CLOCK_TMEM_LEAST] = "tmem_least",
    [CLOCK_TMEM_LATENCY] = "tmem_latency",
    [CLOCK_TMEM_STORED] = "tmem_stored",
    [CLOCK_TMEM_ALLOC] = "tmem_alloc",
    [CLOCK_STORES_APART] = "stores_apart",
    [CLOCK_STORE_PRODUCTS] = "store_products",
    [CLOCK_TMA_STORE_PRODUCTS] = "tma_store_products",
    [CLOCK_BARRIER] = "barrier",
    [CLOCK_BARRIER_WARP] = "barrier_warp",
    [CLOCK_ARRIVE] = "arrive",
    [CLOCK_TRY] = "try",
    [CLOCK_CLUSTER_BARRIER] = "cluster_barrier",
    [CLOCK_CLUSTER_BYTES] = "cluster_bytes",
    [CLOCK_CLUSTER_LATENCY] = "cluster_latency",
    [CLOCK_FENCE] = "fence",
    [CLOCK_FENCE_PROXY] = "fence_proxy",
    [CLOCK_NEXT_WORK] = "next_work",
    [CLOCK_START] = "start",
    [CLOCK_CHIP_READ] = "chip_read",
    [CLOCK_CHIP_READ_BOXES] = "chip_read_boxes",
    [CLOCK_CHIP_WRITE] = "chip_write",
    [CLOCK_CHIP_WRITE_PARTS] = "chip_write_parts",
    [CLOCK_CHIP_ADD] = "chip_add",
    [CLOCK_ADD_QUEUE] = "add_queue",
    [CLOCK_ADD_SECTOR] = "add_sector",
    [CLOCK_L2_HELD] = "l2_held",
    [CLOCK_L2_LOST] = "l2_lost",
    [CLOCK_HBM] = "hbm",
    [CLOCK_HBM_BOTH] = "hbm_both",
    [CLOCK_HBM_LATENCY] = "hbm_latency",
    [CLOCK_HBM_QUEUE] = "hbm_queue",
    [CLOCK_CODE_MUFU] = "code_mufu",
    [CLOCK_CODE_BRANCH] = "code_branch",
    [CLOCK_CODE_TRY] = "code_try",
    [CLOCK_CODE_ARRIVE] = "code_arrive",
    [CLOCK_CODE_GROUP_MMA] = "code_group_mma",
    [CLOCK_CODE_GROUP_MMA_RS] = "code_group_mma_rs",
    [CLOCK_CODE_TMA_ISSUE] = "code_tma_issue",
    [CLOCK_CODE_TMA] = "code_tma",
    [CLOCK_CODE_TMA_BYTES] = "code_tma_bytes",
    [CLOCK_CODE_TMA_BOXES] = "code_tma_boxes",
    [CLOCK_CODE_FENCE] = "code_fence",
    [CLOCK_CODE_FENCE_PROXY] = "code_fence_proxy",
    [CLOCK_FETCH] = "fetch",
    [CLOCK_FETCH_BYTES] = "fetch_bytes",
    [CLOCK_BANK] = "bank",
    [CLOCK_BANK_SLACK] = "bank_slack",
    [CLOCK_PORT_FMA] = "port_fma",
    [CLOCK_PORT_ALU] = "port_alu",
    [CLOCK_PORT_IMAD] = "port_imad",
    [CLOCK_PORT_MUFU] = "port_mufu",
    [CLOCK_PORT_PRODUCTS] = "port_products",
    [CLOCK_ALU_PRODUCTS] = "alu_products",
    [CLOCK_MUFU_PRODUCTS] = "mufu_products",
    [CLOCK_FMA_PRODUCTS] = "fma_products",
    [CLOCK_FMA_RUN] = "fma_run",
    [CLOCK_FMA_ROOM] = "fma_room",
    [CLOCK_FMA_RECOVERS] = "fma_recovers",
    [CLOCK_MUFU_STORE_BYTES] = "mufu_store_bytes",
};

bool
clock_row_named(const char *name, size_t length, ClockRow *out)
{
    for (uint32_t k = 0; k < CLOCK_ROWS; k++) {
        if (names[k] != NULL && strlen(names[k]) == length && strncmp(names[k], name, length) == 0) {
            *out = (ClockRow)k;
            return true;
        }
    }
    return false;
}

const char *
clock_row_name(ClockRow row)
{
    return names[row];
}

/* FNV-1a of a row's name, or a shape, and its figures. */
static uint32_t
hash_on(uint32_t hash, const char *name, double a, double b)
{
    char text[128];

    snprintf(text, sizeof text, "%s=%.9g,%.9g;", name, a, b);
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return hash;
}

uint32_t
clock_table_hash(const ClockFact *rows, const ClockProduct *products)
{
    uint32_t hash = 2166136261u;

    for (uint32_t k = 0; k < CLOCK_ROWS; k++)
        hash = hash_on(hash, names[k], rows[k].value, 0);
    for (const ClockProduct *p = products; p != NULL && p->blocks; p++) {
        hash = hash_on(hash, "blocks", p->blocks, 0);
        hash = hash_on(hash, "shape", p->m, p->n);
        hash = hash_on(hash, "clocks", p->shared, p->memory);
        hash = hash_on(hash, "done", p->shared_done, p->memory_done);
    }
    return hash;
}
