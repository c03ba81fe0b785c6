/* sim_sm100.c - the table of sm_100 families.  Each row's decoder lives in a sim_sm100_*.c file. */
#include "sim_decode.h"

const SimFamily sim_sm100_families[] = {
    {NULL, NULL},
};
