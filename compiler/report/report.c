/* report.c - counts of the lane code of a kernel, for --report. */
#include "compiler/report/report.h"

#include <inttypes.h>
#include <string.h>

/* Kinds that the report counts, by how the mnemonic begins; the first match counts. */
typedef enum CountKind {
    COUNT_MMA,
    COUNT_WGMMA,
    COUNT_BULK,
    COUNT_LDMATRIX,
    COUNT_COPY,
    COUNT_GLOBAL_LOAD,
    COUNT_GLOBAL_STORE,
    COUNT_SHARED_LOAD,
    COUNT_SHARED_STORE,
    COUNT_ATOMIC,
    COUNT_SPECIAL,
    COUNT_FLOAT,
    COUNT_CONVERT,
    COUNT_SHUFFLE,
    COUNT_PREDICATE,
    COUNT_INTEGER,
    COUNT_MOVE,
    COUNT_BARRIER,
    COUNT_BRANCH,
    COUNT_KINDS
} CountKind;

static const char *const kind_names[COUNT_KINDS] = {
    "mma",
    "wgmma",
    "tensor copies",
    "ldmatrix",
    "cp.async",
    "global loads",
    "global stores",
    "shared loads",
    "shared stores",
    "atomics",
    "special functions",
    "f32 arithmetic",
    "conversions",
    "shuffles",
    "predicates",
    "integer arithmetic",
    "moves",
    "barriers and waits",
    "branches",
};

typedef struct KindRow {
    const char *begin; /* of the mnemonic */
    CountKind kind;
} KindRow;

static const KindRow kind_rows[] = {
    {"mma", COUNT_MMA},
    {"wgmma.", COUNT_BARRIER}, /* fence, commit_group, wait_group */
    {"wgmma", COUNT_WGMMA},
    {"mbarrier", COUNT_BARRIER},
    {"fence", COUNT_BARRIER},
    {"setmaxnreg", COUNT_BARRIER},
    {"griddepcontrol", COUNT_BARRIER},
    {"cp.async.bulk.commit", COUNT_BARRIER},
    {"cp.async.bulk.wait", COUNT_BARRIER},
    {"cp.async.bulk", COUNT_BULK},
    {"cp.reduce.async.bulk", COUNT_BULK},
    {"ldmatrix", COUNT_LDMATRIX},
    {"cp.async.commit", COUNT_BARRIER},
    {"cp.async.wait", COUNT_BARRIER},
    {"cp.async", COUNT_COPY},
    {"ld.global", COUNT_GLOBAL_LOAD},
    {"st.global", COUNT_GLOBAL_STORE},
    {"ld.shared", COUNT_SHARED_LOAD},
    {"st.shared", COUNT_SHARED_STORE},
    {"ld.param", COUNT_MOVE},
    {"red", COUNT_ATOMIC},
    {"atom", COUNT_ATOMIC},
    {"ex2", COUNT_SPECIAL},
    {"lg2", COUNT_SPECIAL},
    {"rcp", COUNT_SPECIAL},
    {"rsqrt", COUNT_SPECIAL},
    {"sqrt", COUNT_SPECIAL},
    {"sin", COUNT_SPECIAL},
    {"cos", COUNT_SPECIAL},
    {"tanh", COUNT_SPECIAL},
    {"div.rn.f32", COUNT_SPECIAL},
    {"div.full.f32", COUNT_SPECIAL},
    {"cvta", COUNT_INTEGER},
    {"cvt", COUNT_CONVERT},
    {"shfl", COUNT_SHUFFLE},
    {"vote", COUNT_SHUFFLE},
    {"setp", COUNT_PREDICATE},
    {"and.pred", COUNT_PREDICATE},
    {"or.pred", COUNT_PREDICATE},
    {"xor.pred", COUNT_PREDICATE},
    {"not.pred", COUNT_PREDICATE},
    {"bar", COUNT_BARRIER},
    {"bra", COUNT_BRANCH},
    {"ret", COUNT_BRANCH},
    {"mov", COUNT_MOVE},
};

static bool
begins_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

static CountKind
kind_of(const LirInsn *insn)
{
    const char *mnemonic = lir_op_info(insn->op)->mnemonic;

    for (size_t k = 0; k < sizeof kind_rows / sizeof kind_rows[0]; k++)
        if (begins_with(mnemonic, kind_rows[k].begin))
            return kind_rows[k].kind;
    return strstr(mnemonic, ".f32") != NULL ? COUNT_FLOAT : COUNT_INTEGER;
}

/* Bytes that all lanes of a warp move together with one instruction, at full guard. */
static uint32_t
warp_bytes(const LirInsn *insn)
{
    const char *mnemonic = lir_op_info(insn->op)->mnemonic, *groups = lir_op_info(insn->op)->groups;
    uint32_t each = strstr(mnemonic, "16") != NULL && strstr(mnemonic, "x2") == NULL ? 2
                    : strstr(mnemonic, "u8") != NULL                                 ? 1
                                                                                     : 4;

    if (begins_with(mnemonic, "cp.async.c"))
        return 32 * (strstr(groups, "16") != NULL ? 16 : strstr(groups, "8") != NULL ? 8 : 4);
    if (begins_with(mnemonic, "ldmatrix"))
        return 32 * (strstr(mnemonic, ".x4") != NULL ? 16 : 8);
    if (strstr(mnemonic, ".v4") != NULL)
        return 32 * 4 * each;
    return 32 * each * (strstr(mnemonic, ".v2") != NULL ? 2 : 1);
}

static void
count_range(const LirFn *fn, uint32_t lo, uint32_t hi, Buf *out)
{
    uint32_t count[COUNT_KINDS] = {0}, bytes[COUNT_KINDS] = {0}, total = 0;

    for (uint32_t k = lo; k < hi; k++) {
        const LirInsn *insn = fn->insns.at[k];
        if (insn->op == LIR_LABEL || insn->op == LIR_COMMENT)
            continue;
        CountKind kind = kind_of(insn);
        count[kind]++;
        total++;
        if (kind >= COUNT_LDMATRIX && kind <= COUNT_ATOMIC)
            bytes[kind] += warp_bytes(insn);
    }
    for (uint32_t k = 0; k < COUNT_KINDS; k++) {
        if (count[k] == 0)
            continue;
        buf_printf(out, "    %6" PRIu32 "  %s", count[k], kind_names[k]);
        if (bytes[k] > 0)
            buf_printf(out, ", %" PRIu32 " bytes a warp", bytes[k]);
        buf_char(out, '\n');
    }
    buf_printf(out, "    %6" PRIu32 "  in all\n", total);
}

/* The position of a label, or UINT32_MAX. */
static uint32_t
find_label(const LirFn *fn, int64_t label)
{
    for (uint32_t k = 0; k < fn->insns.n; k++)
        if (fn->insns.at[k]->op == LIR_LABEL && fn->insns.at[k]->operands[0].integer == label)
            return k;
    return UINT32_MAX;
}

static bool
is_branch(const LirInsn *insn)
{
    return insn->op == LIR_BRA || insn->op == LIR_BRA_UNI;
}

/* A loop that waits for a barrier: as often as it has to, so it says nothing. */
static bool
only_waits(const LirFn *fn, uint32_t lo, uint32_t hi)
{
    bool waits = false;

    for (uint32_t k = lo; k < hi; k++) {
        const LirInsn *insn = fn->insns.at[k];
        bool tries = insn->op == LIR_MBARRIER_TRY_WAIT || insn->op == LIR_MBARRIER_TRY_WAIT_PAIR;
        waits |= tries;
        if (insn->op != LIR_LABEL && insn->op != LIR_COMMENT && !tries)
            return false;
    }
    return waits;
}

/* A loop is what lies between a label and the last branch back to it; it is innermost when no
 * other branch inside goes backwards, but to wait. */
static bool
is_innermost(const LirFn *fn, uint32_t lo, uint32_t hi)
{
    for (uint32_t k = lo; k < hi; k++) {
        if (!is_branch(fn->insns.at[k]))
            continue;
        uint32_t target = find_label(fn, fn->insns.at[k]->operands[0].integer);
        if (target <= k && target > lo && !only_waits(fn, target, k))
            return false;
    }
    return true;
}

void
report_kernel(const TirFn *fn, const LirFn *lowered, const Target *target, Buf *out)
{
    uint32_t loops = 0;

    buf_printf(out,
               "  %" PRIu32 " threads, %" PRIu32 " bytes of shared memory of %" PRId32
               " a block may have\n",
               lowered->threads, lowered->shared_bytes, target->chip.shared_per_block);
    for (uint32_t k = 0; k < fn->shared.n; k++) {
        const TirShared *shared = fn->shared.at[k];
        buf_printf(out,
                   "    %-12s %s[%" PRId32 ",%" PRId32 "] x %" PRIu32 " at %" PRIu32 ", %" PRIu32
                   " bytes\n",
                   shared->name == NULL ? "?" : shared->name, dtype_name(shared->dtype),
                   shared->rows, shared->cols, shared->stages, shared->offset, shared->bytes);
    }
    for (uint32_t k = 0; k < lowered->insns.n; k++) {
        const LirInsn *insn = lowered->insns.at[k];
        if (!is_branch(insn))
            continue;
        uint32_t target_at = find_label(lowered, insn->operands[0].integer);
        if (target_at > k || only_waits(lowered, target_at, k) ||
            !is_innermost(lowered, target_at, k))
            continue;
        buf_printf(out, "  inner loop %" PRIu32 ", one iteration of one warp:\n", loops++);
        count_range(lowered, target_at, k + 1, out);
    }
    buf_add(out, "  the whole kernel, as written:\n");
    count_range(lowered, 0, lowered->insns.n, out);
}
