/* sim_decode.h - turning one parsed instruction into a SimInsn.  What a family's author needs.
 *
 * A family is the dotted prefix of a mnemonic ("add", "cp.async", "cp.async.bulk.tensor"): the
 * longest prefix found in the tables of sim_families.c decodes the instruction.  Its decode
 * function takes the modifiers it knows (dec_take, dec_type, dec_choice), fetches the operands into
 * slots (dec_dst, dec_src, ...), sets out->exec, and returns true; or it returns dec_fail(...).
 * The caller then rejects any modifier that nobody took, so that nothing is ever ignored.
 */
#ifndef TILEC_SIM_DECODE_H
#define TILEC_SIM_DECODE_H

#include "sim_parse.h"

typedef struct SimDecode SimDecode;
struct SimDecode {
    PtxFile *file;
    SimModule *mod;
    PtxFunction *fn;
    const PtxInsn *src;
    SimInsn *out;
    bool *taken;         /* by part of the mnemonic */
    size_t family_parts; /* how many parts the family's name has */
    size_t operand_count;
    bool frame_relative_ok; /* the family honours out->frame_relative */
};

typedef bool (*SimDecodeFn)(SimDecode *dx);

typedef struct SimFamily {
    const char *name;
    SimDecodeFn decode;
} SimFamily;

/* The tables, one per file of families; each ends with a NULL name.  sim_families.c lists them. */
extern const SimFamily sim_int_families[];
extern const SimFamily sim_float_families[];
extern const SimFamily sim_convert_families[];
extern const SimFamily sim_compare_families[];
extern const SimFamily sim_flow_families[];
extern const SimFamily sim_warp_families[];
extern const SimFamily sim_barrier_families[];
extern const SimFamily sim_memory_families[];
extern const SimFamily sim_atomic_families[];
extern const SimFamily sim_sm80_families[];
extern const SimFamily sim_mma_families[];
extern const SimFamily sim_wmma_families[];
extern const SimFamily sim_video_families[];
extern const SimFamily sim_texture_families[];
extern const SimFamily sim_stack_families[];
extern const SimFamily sim_sm90_families[];
extern const SimFamily sim_sm100_families[];

const SimFamily *sim_family_find(const PtxInsn *insn, size_t *parts);

/* ---- errors: records the message with the line and returns false */
bool dec_fail(SimDecode *dx, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- modifiers: the parts after the family's name, in any order unless said */
bool dec_take(SimDecode *dx, const char *word);          /* present?  takes it */
SimType dec_type(SimDecode *dx);                         /* the next type word, SIM_NO_TYPE */
int dec_choice(SimDecode *dx, const char *const *words); /* index in a NULL-ended list, or -1 */
const char *dec_next(SimDecode *dx);                     /* the next word, or NULL; takes it */
/* .sync and .aligned.  A .sync without .aligned gathers the lanes of its mask by itself. */
void dec_aligned(SimDecode *dx);

/* ---- operands.  `at` counts from 0; a|b counts as one operand with a pair. */
bool dec_count(SimDecode *dx, size_t least, size_t most); /* how many operands there are */
const PtxOperand *dec_operand(SimDecode *dx, size_t at);
bool dec_is_immediate(const PtxOperand *operand);

/* Each appends slots to out->slot (in call order) and returns true. */
bool dec_dst(SimDecode *dx, const PtxOperand *operand, SimType type); /* register, or _ */
bool dec_src(SimDecode *dx, const PtxOperand *operand, SimType type); /* or a number, a name */
/* For ld, st and cvt, where the register may be wider than the operation (PTX ISA 9.4.1): any
 * register of at least the type's bits; *have is its type. */
bool dec_dst_wide(SimDecode *dx, const PtxOperand *operand, SimType type, SimType *have);
bool dec_src_wide(SimDecode *dx, const PtxOperand *operand, SimType type, SimType *have);
/* A vector {a, b, ...}, or a scalar when count is 1. */
bool dec_dst_vector(SimDecode *dx, const PtxOperand *operand, SimType type, size_t count);
bool dec_src_vector(SimDecode *dx, const PtxOperand *operand, SimType type, size_t count);
/* A predicate source; *negated tells of a `!` in front.  Literals 0 and 1 are accepted. */
bool dec_pred(SimDecode *dx, const PtxOperand *operand, bool *negated);
bool dec_immediate(SimDecode *dx, const PtxOperand *operand, int64_t *value);
/* [base + offset]: appends the base (32 or 64 bits wide) and sets out->imm.  The width of shared
 * addresses may be either; mode says what it is: out->mode[5] = 1 if the base is 64 bits wide. */
bool dec_address(SimDecode *dx, const PtxOperand *operand);
/* Is the address that of a parameter or result of a device function, or of a call? */
bool dec_is_frame_param(SimDecode *dx, const PtxOperand *operand);
/* A call of a function without a body that the CUDA runtime provides (sim_runtime.c); out->data has
 * its results and arguments already.  False if there is none. */
bool sim_runtime_call(SimDecode *dx, const char *name, size_t results, size_t args);
/* The state space among the modifiers: .global .shared[::cta|::cluster] .local .const .param. */
SimSpace dec_space(SimDecode *dx);
bool dec_slot(SimDecode *dx, SimSlot slot); /* appends a slot as it is */
/* The slot of a special register, if `name` is one that an operand of this type can read. */
bool dec_special(SimDecode *dx, const char *name, SimType type, SimSlot *slot);

/* Broadcast constants. */
SimSlot dec_const32(SimDecode *dx, uint32_t value);
SimSlot dec_const64(SimDecode *dx, uint64_t value);
SimSlot dec_const_pred(SimDecode *dx, bool value);

/* Does an operand of this width need 32-bit or 64-bit lanes? */
static inline bool
sim_type_is_wide(SimType type)
{
    return sim_type_info(type)->bits == 64;
}

#endif
