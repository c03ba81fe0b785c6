/* sim_exec.h - shorthand for writing the functions that execute one instruction for a warp.
 *
 * Each macro defines a function over 32 lanes: the operands are read into typed locals a, b, c, the
 * expression gives the result, and the lanes of the mask receive it.  slot[0] is the destination,
 * the sources follow.  `insn` is in scope for modifiers.
 */
#ifndef TILEC_SIM_EXEC_H
#define TILEC_SIM_EXEC_H

#include "sim_decode.h"
#include "sim_number.h"

/* Word of a register as a value of the C type, and back.  A narrow signed value sits zero-extended
 * in its word; the cast through the narrow type sign-extends it. */
#define SIM_EXEC_(name, word, put, T, reads, expression)                                           \
    SIM_HOT static SimStep name(SimWarp *warp, const SimInsn *insn, uint32_t mask)                 \
    {                                                                                              \
        word result[SIM_LANES];                                                                    \
        for (int l = 0; l < SIM_LANES; l++) {                                                      \
            reads;                                                                                 \
            result[l] = (word)(T)(expression);                                                     \
        }                                                                                          \
        put(warp, insn->slot[0], result, mask);                                                    \
        return SIM_NEXT;                                                                           \
    }

#define SIM_READ32(T, name, n) T name = (T)sim_r32(warp, insn->slot[n])[l]
#define SIM_READ64(T, name, n) T name = (T)sim_r64(warp, insn->slot[n])[l]
#define SIM_READF(name, n) float name = sim_f32(sim_r32(warp, insn->slot[n])[l])
#define SIM_READD(name, n) double name = sim_f64(sim_r64(warp, insn->slot[n])[l])

/* 8-, 16- and 32-bit integers in 32-bit words; the result is cut to U, the unsigned twin of T. */
#define SIM_EXEC1_32(name, T, U, expression)                                                       \
    SIM_EXEC_(name, uint32_t, sim_put32, U, SIM_READ32(T, a, 1), expression)
#define SIM_EXEC2_32(name, T, U, expression)                                                       \
    SIM_EXEC_(name, uint32_t, sim_put32, U, SIM_READ32(T, a, 1); SIM_READ32(T, b, 2), expression)
#define SIM_EXEC3_32(name, T, U, expression)                                                       \
    SIM_EXEC_(name, uint32_t, sim_put32, U, SIM_READ32(T, a, 1); SIM_READ32(T, b, 2);              \
              SIM_READ32(T, c, 3), expression)
#define SIM_EXEC1_64(name, T, expression)                                                          \
    SIM_EXEC_(name, uint64_t, sim_put64, uint64_t, SIM_READ64(T, a, 1), expression)
#define SIM_EXEC2_64(name, T, expression)                                                          \
    SIM_EXEC_(name, uint64_t, sim_put64, uint64_t, SIM_READ64(T, a, 1);                            \
              SIM_READ64(T, b, 2), expression)
#define SIM_EXEC3_64(name, T, expression)                                                          \
    SIM_EXEC_(name, uint64_t, sim_put64, uint64_t, SIM_READ64(T, a, 1); SIM_READ64(T, b, 2);       \
              SIM_READ64(T, c, 3), expression)

/* f32: the expression is a float; NaN becomes canonical.  A flushing twin handles .ftz. */
#define SIM_EXECF_(name, reads, expression, post)                                                  \
    SIM_EXEC_(name, uint32_t, sim_put32, uint32_t, reads, post(sim_f32_result(expression)))
#define SIM_SAME_(bits) (bits)
#define SIM_READFZ(name, n) float name = sim_f32(sim_flush(sim_r32(warp, insn->slot[n])[l]))
#define SIM_EXECF1(name, expression)                                                               \
    SIM_EXECF_(name, SIM_READF(a, 1), expression, SIM_SAME_)                                       \
    SIM_EXECF_(name##_ftz, SIM_READFZ(a, 1), expression, sim_flush)
#define SIM_EXECF2(name, expression)                                                               \
    SIM_EXECF_(name, SIM_READF(a, 1); SIM_READF(b, 2), expression, SIM_SAME_)                      \
    SIM_EXECF_(name##_ftz, SIM_READFZ(a, 1); SIM_READFZ(b, 2), expression, sim_flush)

/* The floating-point forms of mnemonics that integers also have (add, mul, min, ...): sim_float.c.
 * *handled tells whether the type was a floating-point one; then the result is the decoder's. */
bool sim_decode_float(SimDecode *dx, const char *op, bool *handled);

/* Decodes the plain shape: one destination and n sources of one type. */
static inline bool
dec_plain(SimDecode *dx, SimType dst, SimType src, size_t n)
{
    if (!dec_count(dx, n + 1, n + 1) || !dec_dst(dx, dec_operand(dx, 0), dst))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!dec_src(dx, dec_operand(dx, i + 1), src))
            return false;
    return true;
}

#endif
