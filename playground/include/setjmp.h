/* setjmp.h - for WebAssembly, which has no jumps over frames.  tilec jumps only where memory has
 * run out, and ends there: here it stops the instance, and the page says so and makes a new one. */
#ifndef TILEC_PLAYGROUND_SETJMP_H
#define TILEC_PLAYGROUND_SETJMP_H

typedef int jmp_buf[1];

static inline int
setjmp(jmp_buf at)
{
    at[0] = 0;
    return 0;
}

_Noreturn static inline void
longjmp(jmp_buf at, int value)
{
    (void)at;
    (void)value;
    __builtin_trap();
}

#endif
