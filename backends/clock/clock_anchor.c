/* clock_anchor.c - tokens and tallies by the names of instructions. */
#include "backends/clock/clock_anchor.h"

#include <stdio.h>
#include <string.h>

bool
mnemonic_is(const char *mnemonic, const char *name)
{
    size_t n = strlen(name);

    return strncmp(mnemonic, name, n) == 0 && (mnemonic[n] == '\0' || mnemonic[n] == '.');
}

bool
mnemonic_has(const char *mnemonic, const char *modifier)
{
    size_t n = strlen(modifier);

    for (const char *at = strchr(mnemonic, '.'); at != NULL; at = strchr(at + 1, '.')) {
        if (strncmp(at + 1, modifier, n) == 0 && (at[n + 1] == '\0' || at[n + 1] == '.'))
            return true;
    }
    return false;
}

typedef struct TokenRow {
    const char *name, *modifier; /* NULL: any */
    TokenKind kind;
} TokenRow;

/* The first that fits. */
static const TokenRow ptx_rows[] = {
    {"wgmma.mma_async", NULL, TOKEN_GROUP_MMA},
    {"wgmma.fence", NULL, TOKEN_GROUP_FENCE},
    {"wgmma.wait_group", NULL, TOKEN_GROUP_WAIT},
    {"mbarrier.init", NULL, TOKEN_INIT},
    {"mbarrier.try_wait", NULL, TOKEN_TRY},
    {"mbarrier.test_wait", NULL, TOKEN_TRY},
    {"mbarrier.arrive", NULL, TOKEN_ARRIVE},
    {"mbarrier.expect_tx", NULL, TOKEN_ARRIVE},
    {"bar.warp", NULL, TOKEN_NONE},
    {"barrier.cluster", "arrive", TOKEN_CLUSTER_ARRIVE},
    {"barrier.cluster", "wait", TOKEN_CLUSTER_WAIT},
    {"bar", "arrive", TOKEN_BARRIER_ARRIVE},
    {"bar", NULL, TOKEN_BARRIER},
    {"barrier", "arrive", TOKEN_BARRIER_ARRIVE},
    {"barrier", NULL, TOKEN_BARRIER},
    {"cp.async.bulk.commit_group", NULL, TOKEN_BULK_COMMIT},
    {"cp.async.bulk.wait_group", NULL, TOKEN_COPIES_WAIT},
    {"cp.async.bulk.prefetch", NULL, TOKEN_NONE},
    {"cp.async.bulk.tensor", "bulk_group", TOKEN_TENSOR_STORE},
    {"cp.async.bulk.tensor", NULL, TOKEN_TENSOR_LOAD},
    {"cp.async.bulk", NULL, TOKEN_BULK},
    {"cp.reduce.async.bulk.tensor", NULL, TOKEN_TENSOR_ADD},
    {"cp.reduce.async.bulk", NULL, TOKEN_BULK_ADD},
    {"cp.async.commit_group", NULL, TOKEN_COPY_COMMIT},
    {"cp.async.wait_group", NULL, TOKEN_COPIES_WAIT},
    {"cp.async.wait_all", NULL, TOKEN_COPIES_WAIT},
    {"cp.async.mbarrier", NULL, TOKEN_COPY_ARRIVE},
    {"setmaxnreg", NULL, TOKEN_REGISTERS},
    {"tcgen05.mma", NULL, TOKEN_MMA},
    {"tcgen05.cp", NULL, TOKEN_MMA_COPY},
    {"tcgen05.commit", NULL, TOKEN_MMA_COMMIT},
    {"clusterlaunchcontrol.try_cancel", NULL, TOKEN_NEXT_WORK},
    {"st.async", NULL, TOKEN_ASYNC_STORE},
    {"tcgen05.ld", NULL, TOKEN_MEMORY_LOAD},
    {"tcgen05.st", NULL, TOKEN_MEMORY_STORE},
};

static const TokenRow code_rows[] = {
    {"HGMMA", NULL, TOKEN_GROUP_MMA},
    {"QGMMA", NULL, TOKEN_GROUP_MMA},
    {"IGMMA", NULL, TOKEN_GROUP_MMA},
    {"WARPGROUP.ARRIVE", NULL, TOKEN_GROUP_FENCE},
    {"WARPGROUP.DEPBAR", NULL, TOKEN_GROUP_WAIT},
    {"SYNCS.EXCH", NULL, TOKEN_INIT},
    {"SYNCS.PHASECHK", NULL, TOKEN_TRY},
    {"SYNCS.ARRIVE", NULL, TOKEN_ARRIVE},
    {"BAR", "ARV", TOKEN_BARRIER_ARRIVE},
    {"BAR", NULL, TOKEN_BARRIER},
    {"UCGABAR_ARV", NULL, TOKEN_CLUSTER_ARRIVE},
    {"UCGABAR_WAIT", NULL, TOKEN_CLUSTER_WAIT},
    {"UTMALDG", NULL, TOKEN_TENSOR_LOAD},
    {"UTMASTG", NULL, TOKEN_TENSOR_STORE},
    {"UTMAREDG", NULL, TOKEN_TENSOR_ADD},
    {"UBLKCP", NULL, TOKEN_BULK},
    {"UBLKRED", NULL, TOKEN_BULK_ADD},
    {"UTMACMDFLUSH", NULL, TOKEN_BULK_COMMIT},
    {"LDGDEPBAR", NULL, TOKEN_COPY_COMMIT},
    {"DEPBAR", NULL, TOKEN_COPIES_WAIT},
    {"ARRIVES", NULL, TOKEN_COPY_ARRIVE},
    {"USETMAXREG", NULL, TOKEN_REGISTERS},
    {"UTCHMMA", NULL, TOKEN_MMA},
    {"UTCQMMA", NULL, TOKEN_MMA},
    {"UTCOMMA", NULL, TOKEN_MMA},
    {"UTCIMMA", NULL, TOKEN_MMA},
    {"UTCCP", NULL, TOKEN_MMA_COPY},
    {"UTCBAR", NULL, TOKEN_MMA_COMMIT},
    {"UGETNEXTWORKID", NULL, TOKEN_NEXT_WORK},
    {"STAS", NULL, TOKEN_ASYNC_STORE},
    {"LDTM", NULL, TOKEN_MEMORY_LOAD},
    {"STTM", NULL, TOKEN_MEMORY_STORE},
    {"EXIT", NULL, TOKEN_END},
};

static TokenKind
kind_of(const TokenRow *rows, uint32_t n, const char *name)
{
    for (uint32_t k = 0; k < n; k++) {
        if (mnemonic_is(name, rows[k].name) &&
            (rows[k].modifier == NULL || mnemonic_has(name, rows[k].modifier)))
            return rows[k].kind;
    }
    return TOKEN_NONE;
}

/* Columns of a product, from m64n128k16 or 64x128x16. */
static CodeToken
with_shape(TokenKind kind, const char *name, const char *format)
{
    unsigned m = 0, n = 0;

    if (kind != TOKEN_GROUP_MMA)
        return kind;
    for (const char *at = strchr(name, '.'); at != NULL; at = strchr(at + 1, '.')) {
        if (sscanf(at + 1, format, &m, &n) == 2)
            break;
    }
    return kind | n << 8;
}

CodeToken
token_of_ptx(const char *mnemonic)
{
    return with_shape(kind_of(ptx_rows, sizeof ptx_rows / sizeof ptx_rows[0], mnemonic), mnemonic,
                      "m%un%uk");
}

CodeToken
token_of_code(const CodeInsn *insn)
{
    return with_shape(kind_of(code_rows, sizeof code_rows / sizeof code_rows[0], insn->name),
                      insn->name, "%ux%ux");
}

bool
token_is_optional(CodeToken token)
{
    switch ((TokenKind)(token & TOKEN_KIND)) {
    case TOKEN_GROUP_FENCE:
    case TOKEN_GROUP_WAIT:
    case TOKEN_BULK_COMMIT:
    case TOKEN_COPY_COMMIT:
    case TOKEN_COPIES_WAIT:
    case TOKEN_REGISTERS: return true;
    default: return false;
    }
}

/* ---- tallies ---- */

typedef enum Tally {
    TALLY_NONE,
    TALLY_SPECIAL,
    TALLY_FMA,
    TALLY_ADD,
    TALLY_MUL,
    TALLY_MAX,
    TALLY_SHUFFLE,
    TALLY_MMA,
    TALLY_LOAD_SHARED,
    TALLY_STORE_SHARED,
    TALLY_LOAD_MATRIX,
    TALLY_STORE_MATRIX,
    TALLY_LOAD_GLOBAL,
    TALLY_STORE_GLOBAL,
    TALLY_COPY,
    TALLY_ATOMIC,
    TALLY_VOTE,
    TALLY_PACK,
    TALLY_LOGIC,
    TALLY_PERMUTE,
    TALLY_FENCE,
    TALLY_INT_ADD,
    TALLY_INT_MAD,
    TALLY_FMA_PAIR,
    TALLY_ADD_PAIR,
    TALLY_MUL_PAIR,
    TALLY_TMEM_STORED
} Tally;

typedef struct TallyRow {
    const char *name, *modifier;
    Tally tally;
} TallyRow;

static const TallyRow ptx_tallies[] = {
    {"ex2", NULL, TALLY_SPECIAL},
    {"lg2", NULL, TALLY_SPECIAL},
    {"rcp", "approx", TALLY_SPECIAL},
    {"rsqrt", NULL, TALLY_SPECIAL},
    {"tanh", NULL, TALLY_SPECIAL},
    {"fma", "f32", TALLY_FMA},
    {"add", "f32", TALLY_ADD},
    {"sub", "f32", TALLY_ADD},
    {"mul", "f32", TALLY_MUL},
    {"fma", "f32x2", TALLY_FMA_PAIR},
    {"add", "f32x2", TALLY_ADD_PAIR},
    {"sub", "f32x2", TALLY_ADD_PAIR},
    {"mul", "f32x2", TALLY_MUL_PAIR},
    {"tcgen05.wait::st", NULL, TALLY_TMEM_STORED},
    {"max", "f32", TALLY_MAX},
    {"min", "f32", TALLY_MAX},
    {"shfl", NULL, TALLY_SHUFFLE},
    {"mma", NULL, TALLY_MMA},
    {"ld", "shared", TALLY_LOAD_SHARED},
    {"ld", "shared::cta", TALLY_LOAD_SHARED},
    {"st", "shared", TALLY_STORE_SHARED},
    {"st", "shared::cta", TALLY_STORE_SHARED},
    {"ldmatrix", NULL, TALLY_LOAD_MATRIX},
    {"stmatrix", NULL, TALLY_STORE_MATRIX},
    {"ld", "global", TALLY_LOAD_GLOBAL},
    {"st", "global", TALLY_STORE_GLOBAL},
    {"cp.async.ca", NULL, TALLY_COPY},
    {"cp.async.cg", NULL, TALLY_COPY},
    {"atom", NULL, TALLY_ATOMIC},
    {"red", NULL, TALLY_ATOMIC},
    {"vote", NULL, TALLY_VOTE},
    {"cvt", "bf16x2", TALLY_PACK},
    {"cvt", "f16x2", TALLY_PACK},
    {"lop3", NULL, TALLY_LOGIC},
    {"prmt", NULL, TALLY_PERMUTE},
    {"fence", "proxy", TALLY_FENCE},
    {"add", "s32", TALLY_INT_ADD},
    {"add", "u32", TALLY_INT_ADD},
    {"sub", "s32", TALLY_INT_ADD},
    {"sub", "u32", TALLY_INT_ADD},
    {"mad", "lo", TALLY_INT_MAD},
    {"mul", "lo", TALLY_INT_MAD},
};

static const TallyRow code_tallies[] = {
    {"IMAD", "MOV", TALLY_NONE},        {"IMAD", "U32", TALLY_NONE},
    {"IMAD", "SHL", TALLY_NONE},        {"IMAD", "X", TALLY_NONE},
    {"IMAD", "IADD", TALLY_INT_ADD},    {"IMAD", NULL, TALLY_INT_MAD},
    {"UIMAD", NULL, TALLY_INT_MAD},     {"IADD3", "X", TALLY_NONE},
    {"UIADD3", "X", TALLY_NONE},        {"IADD3", NULL, TALLY_INT_ADD},
    {"UIADD3", NULL, TALLY_INT_ADD},    {"VIADD", NULL, TALLY_INT_ADD},
    {"MUFU", NULL, TALLY_SPECIAL},      {"FFMA", NULL, TALLY_FMA},
    {"FADD", NULL, TALLY_ADD},          {"FMUL", NULL, TALLY_MUL},
    {"FMNMX", NULL, TALLY_MAX},         {"SHFL", NULL, TALLY_SHUFFLE},
    {"HMMA", NULL, TALLY_MMA},          {"IMMA", NULL, TALLY_MMA},
    {"QMMA", NULL, TALLY_MMA},          {"LDS", NULL, TALLY_LOAD_SHARED},
    {"STS", NULL, TALLY_STORE_SHARED},  {"LDSM", NULL, TALLY_LOAD_MATRIX},
    {"STSM", NULL, TALLY_STORE_MATRIX}, {"LDG", NULL, TALLY_LOAD_GLOBAL},
    {"STG", NULL, TALLY_STORE_GLOBAL},  {"LDGSTS", NULL, TALLY_COPY},
    {"ATOM", NULL, TALLY_ATOMIC},       {"ATOMG", NULL, TALLY_ATOMIC},
    {"ATOMS", NULL, TALLY_ATOMIC},      {"RED", NULL, TALLY_ATOMIC},
    {"REDG", NULL, TALLY_ATOMIC},       {"VOTE", NULL, TALLY_VOTE},
    {"F2FP", NULL, TALLY_PACK},         {"LOP3", NULL, TALLY_LOGIC},
    {"FFMA2", NULL, TALLY_FMA_PAIR},    {"FADD2", NULL, TALLY_ADD_PAIR},
    {"FMUL2", NULL, TALLY_MUL_PAIR},    {"FMNMX3", NULL, TALLY_MAX},
    {"FENCE", "T", TALLY_TMEM_STORED},  {"PRMT", NULL, TALLY_PERMUTE},
    {"FENCE", NULL, TALLY_FENCE},
};

static uint8_t
tally_in(const TallyRow *rows, uint32_t n, const char *name)
{
    for (uint32_t k = 0; k < n; k++) {
        if (mnemonic_is(name, rows[k].name) &&
            (rows[k].modifier == NULL || mnemonic_has(name, rows[k].modifier)))
            return (uint8_t)rows[k].tally;
    }
    return TALLY_NONE;
}

uint8_t
tally_of_ptx(const char *mnemonic)
{
    return tally_in(ptx_tallies, sizeof ptx_tallies / sizeof ptx_tallies[0], mnemonic);
}

uint8_t
tally_of_code(const CodeInsn *insn)
{
    return tally_in(code_tallies, sizeof code_tallies / sizeof code_tallies[0], insn->name);
}
