/* sim_families.c - the tables of instruction families, and the look-up in them. */
#include "sim_decode.h"

static const SimFamily *const tables[] = {
    sim_int_families,    sim_float_families, sim_convert_families, sim_compare_families,
    sim_flow_families,   sim_warp_families,  sim_barrier_families, sim_memory_families,
    sim_atomic_families, sim_sm80_families,  sim_mma_families,     sim_sm90_families,
    sim_sm100_families,  sim_wmma_families,  sim_video_families,   sim_texture_families,
    sim_stack_families,
};

/* How many parts of the mnemonic the dotted name covers, 0 if it is not a prefix. */
static size_t
prefix_parts(const PtxInsn *insn, const char *name)
{
    size_t parts = 0;
    while (parts < insn->part_count) {
        for (const char *part = insn->part[parts]; *part; part++, name++)
            if (*name != *part)
                return 0;
        parts++;
        if (*name == '\0')
            return parts;
        if (*name++ != '.')
            return 0;
    }
    return 0;
}

const SimFamily *
sim_family_find(const PtxInsn *insn, size_t *parts)
{
    const SimFamily *best = NULL;
    *parts = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const SimFamily *f = tables[t]; f->name; f++) {
            /* most are told apart by their first letter; this runs once for each line of a file */
            if (insn->part_count > 0 && f->name[0] != insn->part[0][0])
                continue;
            size_t n = prefix_parts(insn, f->name);
            if (n > *parts) {
                best = f;
                *parts = n;
            }
        }
    return best;
}
