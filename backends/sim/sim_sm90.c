/* sim_sm90.c - the table of sm_90 families.  Each row's decoder lives in a sim_sm90_*.c file. */
#include "sim_decode.h"

const SimFamily sim_sm90_families[] = {
    {NULL, NULL},
};
