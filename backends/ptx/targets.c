/* targets.c - the table of targets, and look-ups in it. */
#include "backends/ptx/targets.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const Target *const tilec_targets[] = {
    &target_sm80,  &target_sm86,  &target_sm89,  &target_sm90,
    &target_sm100, &target_sm103, &target_sm120,
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

/* What people call the chips, in lower case: a target for each that begins so. */
static const struct {
    const char *chip;
    long capability;
} chips[] = {
    {"ampere", 80},     {"a100", 80},   {"a800", 80},  {"a30", 80},    {"a10", 86},
    {"a40", 86},        {"a16", 86},    {"a2", 86},    {"a6000", 86},  {"rtx30", 86},
    {"ada", 89},        {"l4", 89},     {"l20", 89},   {"rtx40", 89},  {"hopper", 90},
    {"h100", 90},       {"h200", 90},   {"h800", 90},  {"h20", 90},    {"gh200", 90},
    {"blackwell", 100}, {"b100", 100},  {"b200", 100}, {"gb200", 100}, {"b300", 103},
    {"gb300", 103},     {"rtx50", 120}, {"gb10", 121}, {"thor", 110},  {"jetson", 87},
    {"orin", 87},
};

/* The compute capability that is meant, ten times the major number: 90 of "sm90", "90a",
 * "compute_90", "9.0" and "H100"; 0: none. */
static long
meant_capability(const char *name, bool *exact)
{
    char plain[16];
    size_t n = 0;

    for (const char *at = name; *at != '\0' && n + 1 < sizeof plain; at++)
        if (strchr(" _-", *at) == NULL)
            plain[n++] = (char)tolower((unsigned char)*at);
    plain[n] = '\0';
    for (size_t k = 0; k < sizeof chips / sizeof chips[0]; k++)
        if (strncmp(plain, chips[k].chip, strlen(chips[k].chip)) == 0)
            return chips[k].capability;
    char *end;
    const char *number = plain + strcspn(plain, "0123456789");
    long capability = strtol(number, &end, 10);
    if (end[0] == '.' && isdigit((unsigned char)end[1]) && capability < 100)
        capability = 10 * capability + strtol(end + 1, &end, 10);
    *exact = strcmp(end, "a") == 0;
    return capability;
}

const char *
target_hint(Arena *arena, const char *name)
{
    const Target *older = NULL;
    bool exact = false;
    long capability = meant_capability(name, &exact);

    if (strcmp(name, "native") == 0)
        return "`nvidia-smi --query-gpu=compute_cap --format=csv` says what this machine has: 9.0 is sm_90";
    for (uint32_t i = 0; i < tilec_target_count; i++) {
        const Target *target = tilec_targets[i];
        if (target->capability == capability)
            return arena_printf(arena, "did you mean '%s%s'?", target->name,
                                exact && target->capability >= 90 ? "a" : "");
        if (target->capability < capability)
            older = target;
    }
    if (older == NULL || capability >= 200)
        return "--list-targets shows them";
    /* PTX without instructions of one architecture alone runs on later ones, too */
    return arena_printf(arena, "PTX of `-arch %s%s` runs there", older->name,
                        older->ptx_target_exact != NULL ? " --plan=none" : "");
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
    tuned->ptx_target_exact = NULL; /* the chip has other instructions of its own, or none */
    return tuned;
}

Device
target_device(const Target *target)
{
    return (Device){.at = {[DEVICE_SM_COUNT] = target->chip.sm_count,
                           [DEVICE_SM_SHARED] = target->chip.shared_per_sm}};
}

bool
target_can(const Target *target, uint32_t abilities)
{
    return (target->abilities & abilities) == abilities;
}

/* Instructions of one architecture alone are not used for a chip of another one. */
static bool
is_usable(const Target *target, const MmaForm *form)
{
    return !form->exact || target->ptx_target_exact != NULL;
}

static const MmaForm *
find_mma(const Target *target, Issuer issuer, DType a, DType b, uint32_t blocks)
{
    for (uint32_t i = 0; i < target->n_mma; i++) {
        const MmaForm *form = &target->mma[i];
        if (form->issuer == issuer && form->a_type == a && form->b_type == b &&
            form->blocks == blocks && form->scales == 0 && is_usable(target, form))
            return form;
    }
    return NULL;
}

const MmaForm *
target_scaled_mma(const Target *target, Issuer issuer, DType a, DType b, DType scale)
{
    for (uint32_t i = 0; i < target->n_mma; i++) {
        const MmaForm *form = &target->mma[i];
        if (form->scales > 0 && form->issuer == issuer && form->scale == scale &&
            form->a_type == a && form->b_type == b && is_usable(target, form))
            return form;
    }
    return NULL;
}

const MmaForm *
target_mma(const Target *target, Issuer issuer, DType a, DType b)
{
    return find_mma(target, issuer, a, b, 0);
}

const MmaForm *
target_warp_mma(const Target *target, DType a, DType b)
{
    const MmaForm *form = target_mma(target, BY_WARP, a, b);

    for (uint32_t i = 0; i < target->n_mma && form == NULL; i++) {
        DType type = target->mma[i].a_type;
        if (dtype_holds(type, a) && dtype_holds(type, b))
            form = target_mma(target, BY_WARP, type, type);
    }
    return form;
}

const MmaForm *
target_pair_mma(const Target *target, DType a, DType b)
{
    return find_mma(target, BY_THREAD, a, b, 2);
}

double
target_mma_flops(const Target *target, const MmaForm *form)
{
    return target->chip.mma_flops[form->issuer] * form->rate;
}

PairRates
target_pair_rates(const Target *target)
{
    const ClockFact *clock = target->clock;

    return (PairRates){.sent = clock[CLOCK_CLUSTER_BYTES].value,
                       .added = clock[CLOCK_CHIP_ADD].value / clock[CLOCK_SMS].value,
                       .latency = clock[CLOCK_CLUSTER_LATENCY].value};
}

int32_t
target_entry_registers(const Target *target, uint32_t consumers)
{
    int32_t threads = (int32_t)(1 + consumers) * GROUP_LANES;
    int32_t each = target->chip.registers_per_sm / threads / REGISTER_STEP * REGISTER_STEP;

    return each < target->registers_per_thread ? each : target->registers_per_thread;
}

bool
target_holds_result(const Target *target, uint32_t consumers, uint32_t blocks, int32_t columns)
{
    return columns / 2 + BESIDE_RESULT <=
           target_entry_registers(target, consumers) / (int32_t)blocks;
}

uint32_t
target_blocks(const Target *target, uint32_t registers)
{
    uint32_t blocks = registers == 0 ? 1 : (uint32_t)target->chip.registers_per_sm / registers;

    return blocks > 1 ? blocks : 1;
}

int32_t
target_shared_limit(const Target *target, uint32_t blocks)
{
    int32_t share = target->chip.shared_per_sm / (int32_t)blocks - target->chip.shared_reserved;

    return blocks == 1 || share > target->chip.shared_per_block ? target->chip.shared_per_block
                                                                : share;
}

int32_t
target_tile_limit(const Target *target, uint32_t blocks)
{
    return target_shared_limit(target, blocks) - OTHER_SHARED;
}

const CopyForm *
target_copy(const Target *target, CopyKind kind)
{
    for (uint32_t i = 0; i < target->n_copies; i++) {
        if (target->copies[i].kind == kind)
            return &target->copies[i];
    }
    return NULL;
}

/* Whether a mnemonic is that of a form, with a number for its %d. */
static bool
is_named(const MmaForm *form, const char *mnemonic)
{
    size_t before = strcspn(form->mnemonic, "%");
    const char *behind = form->mnemonic + before;

    if (strncmp(form->mnemonic, mnemonic, before) != 0)
        return false;
    mnemonic += before;
    return *behind == '\0' ? *mnemonic == '\0'
                           : strcmp(behind + 2, mnemonic + strspn(mnemonic, "0123456789")) == 0;
}

const MmaForm *
target_mma_named(const Target *target, const char *mnemonic)
{
    for (uint32_t i = 0; i < target->n_mma; i++) {
        if (is_named(&target->mma[i], mnemonic))
            return &target->mma[i];
    }
    return NULL;
}

bool
target_has_mma(const Target *target, Issuer issuer)
{
    for (uint32_t i = 0; i < target->n_mma; i++) {
        if (target->mma[i].issuer == issuer && is_usable(target, &target->mma[i]))
            return true;
    }
    return false;
}

Issuer
target_issuer(const Target *target)
{
    return target_has_mma(target, BY_THREAD)       ? BY_THREAD
           : target_has_mma(target, BY_WARP_GROUP) ? BY_WARP_GROUP
                                                   : BY_WARP;
}

const MmaForm *
target_role_mma(const Target *target, DType a, DType b)
{
    return target_mma(target, target_issuer(target), a, b);
}

const MmaForm *
target_role_scaled_mma(const Target *target, DType a, DType b, DType scale)
{
    return target_scaled_mma(target, target_issuer(target), a, b, scale);
}

bool
target_has_roles(const Target *target)
{
    return target->ptx_target_exact != NULL &&
           target_can(target, CAN_COUNT_BYTES | CAN_MOVE_REGISTERS) &&
           target_copy(target, COPY_TENSOR_LOAD) != NULL;
}

bool
target_predicts_roles(const Target *target)
{
    return target_has_roles(target) && target->consumer_times.block > 0;
}
