/* targets.c - the table of targets, and look-ups in it. */
#include "backends/ptx/targets.h"

#include <string.h>

const Target *const tilec_targets[] = {
    &target_sm80,
    &target_sm90,
    &target_sm100,
};
const uint32_t tilec_target_count = sizeof tilec_targets / sizeof tilec_targets[0];

const Target *
target_find(const char *name)
{
    for (uint32_t i = 0; i < tilec_target_count; i++) {
        const Target *target = tilec_targets[i];
        size_t n = strlen(target->name);
        if (strncmp(name, target->name, n) != 0)
            continue;
        if (name[n] == '\0' || (target->capability >= 90 && strcmp(name + n, "a") == 0))
            return target;
    }
    return NULL;
}

const Target *
target_tuned(Arena *arena, const Target *target, const Target *chip)
{
    if (chip == target)
        return target;
    if (chip->capability < target->capability)
        return NULL;
    Target *tuned = arena_copy(arena, target, sizeof *target);
    tuned->name = arena_printf(arena, "%s -mtune=%s", target->name, chip->name);
    tuned->chip = chip->chip;
    tuned->group_mma = NULL; /* instructions of one architecture only: the chip has them not */
    tuned->n_group_mma = 0;
    return tuned;
}

const MmaAtom *
target_group_mma(const Target *target, DType dtype)
{
    for (uint32_t i = 0; i < target->n_group_mma; i++) {
        if (target->group_mma[i].dtype == dtype)
            return &target->group_mma[i];
    }
    return NULL;
}

const MmaAtom *
target_mma(const Target *target, DType dtype)
{
    for (uint32_t i = 0; i < target->n_mma; i++) {
        if (target->mma[i].dtype == dtype)
            return &target->mma[i];
    }
    return NULL;
}
