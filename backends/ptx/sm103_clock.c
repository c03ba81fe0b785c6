/* sm103_clock.c - what the timing model takes for compute capability 10.3 (B300) in place of a
 * B200's figures.
 *
 * Published, as those of sm100_clock.c (which names the sources); nothing was measured here.
 */
#include "compiler/clock_rows.h"

/* clang-format off */
const ClockChange sm103_clock[] = {
    {CLOCK_MHZ, {2032, "MHz, of a chip that is not at its power limit", "QR", false}},
    {CLOCK_MHZ_BUSY, {1552, "MHz of a chip at its power limit whose tensor unit is busy all the time", "QR: cuBLAS with random data", false}},
    {CLOCK_MHZ_POINT, {3.8, "MHz more for each percent of the time that it is not", "a B200's (sm100_clock.c); nobody has published a B300's at another load that was sampled", true}},
    {CLOCK_MUFU, {4, "clocks of MUFU.EX2; other functions take 8 there, which is not modelled", "FA4, QR: 32 a clock and SM", false}},
    {CLOCK_ROWS, {0, 0, 0, false}},
};
/* clang-format on */
