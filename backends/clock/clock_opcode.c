/* clock_opcode.c - machine code to units.
 *
 * What an instruction's own result takes is in its control bits where it is fixed (stall counts);
 * here are the units that it keeps, and the latency of those that hold a scoreboard.  Pipes as the
 * rows of the table say that microbenchmarks found them; what has no microbenchmark is of the pipe
 * of its kind.
 */
#include "backends/clock/clock_opcode.h"

#include <stdlib.h>
#include <string.h>

#include "backends/clock/clock_anchor.h"

typedef struct OpcodeRow {
    const char *name;
    ClockClass kind;
    ClockUnit unit;
    ClockRow clocks, latency; /* CLOCK_SMS: none */
} OpcodeRow;

#define NONE CLOCK_SMS

/* clang-format off */
static const OpcodeRow opcodes[] = {
    {"FFMA", CLASS_PLAIN, UNIT_FMA, CLOCK_FMA, NONE}, /* rate_ffma_16w */
    {"FADD", CLASS_PLAIN, UNIT_FMA, CLOCK_FMA, NONE},
    {"FMUL", CLASS_PLAIN, UNIT_FMA, CLOCK_FMA, NONE},
    /* CUDA C++ Programming Guide: 256 results a clock and SM */
    {"HFMA2", CLASS_PLAIN, UNIT_FMA, CLOCK_FMA, NONE},
    {"HADD2", CLASS_PLAIN, UNIT_FMA, CLOCK_FMA, NONE},
    {"HMUL2", CLASS_PLAIN, UNIT_FMA, CLOCK_FMA, NONE},
    {"FFMA2", CLASS_PLAIN, UNIT_FMA, CLOCK_PACKED, NONE}, /* sm_100 */
    {"FADD2", CLASS_PLAIN, UNIT_FMA, CLOCK_PACKED, NONE},
    {"FMUL2", CLASS_PLAIN, UNIT_FMA, CLOCK_PACKED, NONE},
    {"IMAD", CLASS_PLAIN, UNIT_FMA, CLOCK_IMAD, NONE}, /* rate_imad_16w */
    {"IDP", CLASS_PLAIN, UNIT_FMA, CLOCK_IMAD, NONE},
    {"FMNMX", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE}, /* rate_fmnmx_16w */
    {"FMNMX3", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE}, /* sm_100 */
    {"VIMNMX3", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"FSETP", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"FSET", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"FSEL", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"FCHK", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"LOP3", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE}, /* rate_lop3_16w */
    {"PLOP3", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"PRMT", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE}, /* rate_prmt_16w */
    {"IADD3", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE}, /* rate_iadd_16w: half of them IMAD */
    {"VIADD", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"VIADDMNMX", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"IABS", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"IMNMX", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"VIMNMX", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"ISETP", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"LEA", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"SHF", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"SEL", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"MOV", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"BMSK", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"SGXT", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"R2P", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"P2R", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"I2FP", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"HMNMX2", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"HSETP2", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"HSET2", CLASS_PLAIN, UNIT_ALU, CLOCK_ALU, NONE},
    {"F2FP", CLASS_PLAIN, UNIT_ALU, CLOCK_PACK, NONE}, /* rate_f2fp_16w, mix_f2fp1_fmnmx_16w */
    /* rate_ex2_16w, rate_rsqrt_16w */
    {"MUFU", CLASS_PLAIN, UNIT_MUFU, CLOCK_MUFU, CLOCK_CODE_MUFU},
    /* CUDA C++ Programming Guide: 16 a clock and SM */
    {"F2I", CLASS_PLAIN, UNIT_MUFU, CLOCK_MUFU, CLOCK_CODE_MUFU},
    {"I2F", CLASS_PLAIN, UNIT_MUFU, CLOCK_MUFU, CLOCK_CODE_MUFU},
    {"F2F", CLASS_PLAIN, UNIT_MUFU, CLOCK_MUFU, CLOCK_CODE_MUFU},
    {"FRND", CLASS_PLAIN, UNIT_MUFU, CLOCK_MUFU, CLOCK_CODE_MUFU},
    {"POPC", CLASS_PLAIN, UNIT_MUFU, CLOCK_MUFU, CLOCK_CODE_MUFU},
    {"FLO", CLASS_PLAIN, UNIT_MUFU, CLOCK_MUFU, CLOCK_CODE_MUFU},
    {"BREV", CLASS_PLAIN, UNIT_MUFU, CLOCK_MUFU, CLOCK_CODE_MUFU},
    {"SHFL", CLASS_PLAIN, UNIT_SHUFFLE, CLOCK_SHUFFLE, CLOCK_SHUFFLE_LATENCY},
    {"REDUX", CLASS_PLAIN, UNIT_SHUFFLE, CLOCK_SHUFFLE, CLOCK_SHUFFLE_LATENCY},
    {"MATCH", CLASS_PLAIN, UNIT_SHUFFLE, CLOCK_SHUFFLE, CLOCK_SHUFFLE_LATENCY},
    /* what comes through the queue of memory instructions, of a latency that nobody measured: as of
     * LDS */
    {"S2R", CLASS_PLAIN, UNIT_ISSUE, NONE, CLOCK_SHARED_LATENCY},
    {"S2UR", CLASS_PLAIN, UNIT_ISSUE, NONE, CLOCK_SHARED_LATENCY},
    {"LDC", CLASS_PLAIN, UNIT_ISSUE, NONE, CLOCK_SHARED_LATENCY},
    {"LDCU", CLASS_PLAIN, UNIT_ISSUE, NONE, CLOCK_SHARED_LATENCY},
    {"LDL", CLASS_PLAIN, UNIT_ISSUE, NONE, CLOCK_SHARED_LATENCY},
    {"STL", CLASS_PLAIN, UNIT_ISSUE, NONE, CLOCK_SHARED_LATENCY},
    {"LDS", CLASS_SHARED, UNIT_SHARED, NONE, CLOCK_SHARED_LATENCY},
    {"STS", CLASS_SHARED, UNIT_SHARED, NONE, CLOCK_SHARED_LATENCY},
    {"ATOMS", CLASS_SHARED, UNIT_SHARED, NONE, CLOCK_SHARED_LATENCY},
    {"LDSM", CLASS_MATRIX, UNIT_SHARED, NONE, CLOCK_MATRIX_LATENCY},
    {"STSM", CLASS_MATRIX, UNIT_SHARED, NONE, CLOCK_MATRIX_LATENCY},
    {"LDG", CLASS_GLOBAL, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"STG", CLASS_GLOBAL, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"LD", CLASS_GLOBAL, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"ST", CLASS_GLOBAL, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"ATOM", CLASS_GLOBAL, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"ATOMG", CLASS_GLOBAL, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"RED", CLASS_GLOBAL, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"REDG", CLASS_GLOBAL, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"LDGSTS", CLASS_COPY, UNIT_GLOBAL, NONE, CLOCK_GLOBAL_LATENCY},
    {"HMMA", CLASS_PLAIN, UNIT_WARP_MMA, NONE, CLOCK_WARP_MMA_LATENCY},
    {"IMMA", CLASS_PLAIN, UNIT_WARP_MMA, NONE, CLOCK_WARP_MMA_LATENCY},
    {"QMMA", CLASS_PLAIN, UNIT_WARP_MMA, NONE, CLOCK_WARP_MMA_LATENCY},
    {"OMMA", CLASS_PLAIN, UNIT_WARP_MMA, NONE, CLOCK_WARP_MMA_LATENCY},
    {"LDTM", CLASS_TMEM_LOAD, UNIT_TMEM, NONE, NONE},
    {"STTM", CLASS_TMEM_STORE, UNIT_TMEM, NONE, NONE},
    {"UTCATOMSWS", CLASS_PLAIN, UNIT_ISSUE, NONE, CLOCK_TMEM_ALLOC},
    {"FENCE.VIEW.ASYNC.T", CLASS_TMEM_STORED, UNIT_ISSUE, NONE, NONE},
    {"MEMBAR", CLASS_FENCE, UNIT_ISSUE, NONE, CLOCK_CODE_FENCE},
    {"FENCE", CLASS_FENCE, UNIT_ISSUE, CLOCK_CODE_FENCE_PROXY, CLOCK_CODE_FENCE_PROXY},
    {"BRA", CLASS_BRANCH, UNIT_ISSUE, NONE, NONE},
    {"BRX", CLASS_BRANCH, UNIT_ISSUE, NONE, NONE},
    {"BRXU", CLASS_BRANCH, UNIT_ISSUE, NONE, NONE},
    {"JMP", CLASS_BRANCH, UNIT_ISSUE, NONE, NONE},
    {"CALL", CLASS_BRANCH, UNIT_ISSUE, NONE, NONE},
    {"RET", CLASS_BRANCH, UNIT_ISSUE, NONE, NONE},
    {"EXIT", CLASS_BRANCH, UNIT_ISSUE, NONE, NONE},
    {"BSYNC", CLASS_BRANCH, UNIT_ISSUE, NONE, NONE},
};

/* Beside those that begin with U: they take an issue slot. */
static const char *const issued_only[] = {
    "NOP", "BSSY", "WARPSYNC", "YIELD", "VOTE", "ELECT", "CS2R", "R2UR", "R2B", "B2R", "ERRBAR", "CCTL", "NANOSLEEP",
    "PREEXIT", "STAS", "ACQBULK", "BREAK", "DEPBAR", "WARPGROUP", "LEPC", "PMTRIG", "CGAERRBAR", "VOTEU", "SYNCS", "BAR",
    "ARRIVES", "LDGDEPBAR", "HGMMA", "QGMMA", "IGMMA", "WARPGROUPSET", "S2UR", "KILL", "BPT", "CREDUX", NULL};
/* clang-format on */

static ClockClass
class_of_token(CodeToken token)
{
    switch ((TokenKind)(token & TOKEN_KIND)) {
    case TOKEN_GROUP_MMA: return CLASS_GROUP_MMA;
    case TOKEN_GROUP_WAIT: return CLASS_GROUP_WAIT;
    case TOKEN_TENSOR_LOAD:
    case TOKEN_TENSOR_STORE:
    case TOKEN_TENSOR_ADD:
    case TOKEN_BULK:
    case TOKEN_BULK_ADD: return CLASS_BULK;
    case TOKEN_BULK_COMMIT: return CLASS_BULK_COMMIT;
    case TOKEN_COPY_COMMIT: return CLASS_COPY_COMMIT;
    case TOKEN_COPIES_WAIT: return CLASS_COPY_WAIT;
    case TOKEN_MMA: return CLASS_MMA;
    case TOKEN_MMA_COPY: return CLASS_MMA_COPY;
    case TOKEN_MMA_COMMIT: return CLASS_MMA_COMMIT;
    case TOKEN_ASYNC_STORE: return CLASS_ASYNC_STORE;
    case TOKEN_NONE:
    case TOKEN_GROUP_FENCE:
    case TOKEN_REGISTERS: return CLASS_PLAIN;
    default: return CLASS_EVENT;
    }
}

static bool
is_issued_only(const char *name)
{
    if (name[0] == 'U')
        return true;
    for (uint32_t k = 0; issued_only[k] != NULL; k++) {
        if (mnemonic_is(name, issued_only[k]))
            return true;
    }
    return false;
}

/* m16n8k16 of HMMA.16816, or of QMMA.SF.16832: operations. */
static double
warp_mma_flops(const char *name)
{
    const char *shape = strstr(name, ".168");
    double k = shape == NULL ? 16 : strtod(shape + 4, NULL); /* ".168" and k */

    return 2.0 * 16 * 8 * (k > 0 ? k : 16);
}

/* ---- registers ---- */

typedef struct Sources {
    int number[4]; /* -1: no register */
    bool reuse[4];
    uint32_t n;
} Sources;

/* The operands behind the first. */
static Sources
source_registers(const CodeInsn *insn)
{
    const char *at = strchr(insn->operands, ',');
    Sources out = {.n = 0};

    for (; at != NULL && out.n < 4; at = strchr(at, ',')) {
        at += 1 + strspn(at + 1, " -|~!");
        bool is = at[0] == 'R' && at[1] >= '0' && at[1] <= '9';
        size_t digits = is ? strspn(at + 1, "0123456789") : 0;
        out.reuse[out.n] = is && strncmp(at + 1 + digits, ".reuse", 6) == 0;
        out.number[out.n++] = is ? atoi(at + 1) : -1;
    }
    return out;
}

/* A source that the instruction before kept in the reuse cache of its place is not read again. */
static void
count_reads(const CodeKernel *kernel, uint32_t i, CodeCost *out)
{
    const CodeInsn *insn = &kernel->insns.at[i];
    Sources is = source_registers(insn), before = {.n = 0};

    if (i > kernel->blocks.at[insn->block].first)
        before = source_registers(insn - 1);
    for (uint32_t k = 0; k < is.n; k++) {
        bool kept = k < before.n && before.number[k] == is.number[k] && before.reuse[k];
        bool again = false;
        for (uint32_t j = 0; j < k; j++)
            again |= is.number[j] == is.number[k];
        if (is.number[k] >= 0 && !kept && !again)
            out->reads[is.number[k] & 1]++;
    }
}

static void
cost_of(const ClockFact *rows, const CodeInsn *insn, CodeCost *out)
{
    *out = (CodeCost){.kind = class_of_token(insn->token), .unit = UNIT_ISSUE};
    for (uint32_t k = 0; k < sizeof opcodes / sizeof opcodes[0]; k++) {
        const OpcodeRow *row = &opcodes[k];
        if (!mnemonic_is(insn->name, row->name))
            continue;
        out->kind = row->kind;
        out->unit = row->unit;
        out->clocks = row->clocks == NONE ? 0 : rows[row->clocks].value;
        out->latency = row->latency == NONE ? 0 : rows[row->latency].value;
        if (row->unit == UNIT_WARP_MMA)
            out->clocks = clock_warp_mma(rows, warp_mma_flops(insn->name));
        if (row->unit == UNIT_TMEM) {
            out->clocks = tmem_clocks(rows, insn->name);
            out->latency = out->clocks + rows[CLOCK_TMEM_LATENCY].value;
        }
        return;
    }
    out->reads_clock = mnemonic_is(insn->name, "CS2R") &&
                       strstr(insn->operands, "SR_CLOCK") != NULL;
    if (!is_issued_only(insn->name))
        out->kind = CLASS_UNKNOWN;
}

CodeCost *
code_costs(Arena *arena, const ClockFact *rows, const CodeKernel *kernel)
{
    CodeCost *costs = arena_array(arena, CodeCost, kernel->insns.n + 1);

    for (uint32_t i = 0; i < kernel->insns.n; i++) {
        cost_of(rows, &kernel->insns.at[i], &costs[i]);
        if (costs[i].unit == UNIT_FMA)
            count_reads(kernel, i, &costs[i]);
        clock_share(rows, costs[i].unit, mnemonic_is(kernel->insns.at[i].name, "IMAD"),
                    costs[i].clocks, &costs[i].beside, &costs[i].port);
    }
    return costs;
}
