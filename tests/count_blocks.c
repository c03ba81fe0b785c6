/* count_blocks.c - how much a program computed: the basic blocks that it went through.
 *
 * Linked to a tilec that was compiled with -fsanitize-coverage=trace-pc, which calls this at each
 * block. The count does not depend on how busy the machine is, nor, without optimisation, much on
 * the version of GCC; what the C library does is not in it.  It goes to standard error at the end,
 * for house.py.
 */
#include <stdint.h>
#include <stdio.h>

static uint64_t blocks;

void __sanitizer_cov_trace_pc(void);

void
__sanitizer_cov_trace_pc(void)
{
    blocks++;
}

__attribute__((destructor)) static void
say_blocks(void)
{
    fprintf(stderr, "blocks %llu\n", (unsigned long long)blocks);
}
