/* sim_decode.c - parsed instructions to SimInsn: operands to slots, labels to indices. */
#include "sim_decode.h"

#include <stdarg.h>
#include <stdlib.h>

#include "sim_special.h"

static const SimTypeInfo types[SIM_TYPE_COUNT] = {
    [SIM_NO_TYPE] = {"", 0, ' '},
    [SIM_PRED] = {"pred", 1, 'p'},
    [SIM_B8] = {"b8", 8, 'b'},
    [SIM_B16] = {"b16", 16, 'b'},
    [SIM_B32] = {"b32", 32, 'b'},
    [SIM_B64] = {"b64", 64, 'b'},
    [SIM_B128] = {"b128", 128, 'b'},
    [SIM_U8] = {"u8", 8, 'u'},
    [SIM_U16] = {"u16", 16, 'u'},
    [SIM_U32] = {"u32", 32, 'u'},
    [SIM_U64] = {"u64", 64, 'u'},
    [SIM_S8] = {"s8", 8, 's'},
    [SIM_S16] = {"s16", 16, 's'},
    [SIM_S32] = {"s32", 32, 's'},
    [SIM_S64] = {"s64", 64, 's'},
    [SIM_F16] = {"f16", 16, 'f'},
    [SIM_BF16] = {"bf16", 16, 'f'},
    [SIM_TF32] = {"tf32", 32, 'f'},
    [SIM_F32] = {"f32", 32, 'f'},
    [SIM_F64] = {"f64", 64, 'f'},
    [SIM_F16X2] = {"f16x2", 32, 'v'},
    [SIM_BF16X2] = {"bf16x2", 32, 'v'},
    [SIM_F32X2] = {"f32x2", 64, 'v'},
    [SIM_U16X2] = {"u16x2", 32, 'v'},
    [SIM_S16X2] = {"s16x2", 32, 'v'},
    [SIM_E4M3] = {"e4m3", 8, 'x'},
    [SIM_E5M2] = {"e5m2", 8, 'x'},
    [SIM_E2M1] = {"e2m1", 8, 'x'},
    [SIM_E2M3] = {"e2m3", 8, 'x'},
    [SIM_E3M2] = {"e3m2", 8, 'x'},
    [SIM_UE8M0] = {"ue8m0", 8, 'x'},
    [SIM_E4M3X2] = {"e4m3x2", 16, 'x'},
    [SIM_E5M2X2] = {"e5m2x2", 16, 'x'},
    [SIM_E2M1X2] = {"e2m1x2", 8, 'x'},
    [SIM_E2M3X2] = {"e2m3x2", 16, 'x'},
    [SIM_E3M2X2] = {"e3m2x2", 16, 'x'},
    [SIM_UE8M0X2] = {"ue8m0x2", 16, 'x'},
    [SIM_E4M3X4] = {"e4m3x4", 32, 'x'},
    [SIM_E5M2X4] = {"e5m2x4", 32, 'x'},
    [SIM_E2M1X4] = {"e2m1x4", 16, 'x'},
    [SIM_E2M3X4] = {"e2m3x4", 32, 'x'},
    [SIM_E3M2X4] = {"e3m2x4", 32, 'x'},
};

const SimTypeInfo *
sim_type_info(SimType type)
{
    return &types[type];
}

bool
dec_fail(SimDecode *dx, const char *format, ...)
{
    SimError *error = dx->file->error;
    if (error->message[0])
        return false; /* the first error is the cause */
    va_list args;
    va_start(args, format);
    error->line = dx->src->line;
    int used = snprintf(error->message, sizeof error->message, "%s: ", dx->src->mnemonic);
    if (used > 0 && (size_t)used < sizeof error->message)
        vsnprintf(error->message + used, sizeof error->message - (size_t)used, format, args);
    va_end(args);
    return false;
}

/* ------------------------------------------------------------------------ modifiers */

/* Most words that are compared differ in the first letter, and a file has many lines. */
static inline bool
same_word(const char *a, const char *b)
{
    return *a == *b && strcmp(a, b) == 0;
}

bool
dec_take(SimDecode *dx, const char *word)
{
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++)
        if (!dx->taken[i] && same_word(dx->src->part[i], word))
            return dx->taken[i] = true;
    return false;
}

SimType
dec_type(SimDecode *dx)
{
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++)
        for (int t = 1; !dx->taken[i] && t < SIM_TYPE_COUNT; t++)
            if (same_word(dx->src->part[i], types[t].name)) {
                dx->taken[i] = true;
                return (SimType)t;
            }
    return SIM_NO_TYPE;
}

int
dec_choice(SimDecode *dx, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (dec_take(dx, words[i]))
            return i;
    return -1;
}

const char *
dec_next(SimDecode *dx)
{
    for (size_t i = dx->family_parts; i < dx->src->part_count; i++)
        if (!dx->taken[i]) {
            dx->taken[i] = true;
            return dx->src->part[i];
        }
    return NULL;
}

void
dec_aligned(SimDecode *dx)
{
    dec_take(dx, "sync");
    if (dec_take(dx, "aligned"))
        dx->out->converge = true;
}

SimSpace
dec_space(SimDecode *dx)
{
    static const struct {
        const char *word;
        SimSpace space;
    } spaces[] = {
        {"global", SIM_GLOBAL},       {"shared", SIM_SHARED},
        {"shared::cta", SIM_SHARED},  {"shared::cluster", SIM_SHARED_CLUSTER},
        {"local", SIM_LOCAL},         {"const", SIM_GLOBAL},
        {"param::entry", SIM_GLOBAL}, {"param::func", SIM_LOCAL},
    };
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (dec_take(dx, spaces[i].word))
            return spaces[i].space;
    return SIM_GENERIC;
}

/* ------------------------------------------------------------------------ constants */

struct SimConstant {
    SimConstant *next;
    uint64_t value;
    uint32_t lane_bytes;
    SimSlot slot;
};

enum { CONSTANT_BUCKETS = 256 };

/* Where a constant is looked for. */
static SimConstant **
bucket_of(SimModule *mod, uint64_t value, uint32_t lane_bytes)
{
    uint64_t hash = (value + lane_bytes) * UINT64_C(0x9e3779b97f4a7c15);
    if (!mod->constant_bucket)
        mod->constant_bucket = sim_arena_alloc(&mod->arena,
                                               CONSTANT_BUCKETS * sizeof *mod->constant_bucket);
    return &mod->constant_bucket[hash >> 56];
}

/* The pool is filled while decoding; equal constants share a row. */
static SimSlot
constant(SimDecode *dx, uint64_t value, uint32_t lane_bytes)
{
    SimModule *mod = dx->mod;
    uint64_t row[SIM_LANES];
    size_t bytes = lane_bytes ? lane_bytes * SIM_LANES : 8;
    SimConstant **bucket = bucket_of(mod, value, lane_bytes);
    for (const SimConstant *c = *bucket; c; c = c->next)
        if (c->value == value && c->lane_bytes == lane_bytes)
            return c->slot;
    memset(row, 0, sizeof row);
    for (size_t l = 0; l < SIM_LANES && lane_bytes; l++)
        memcpy((char *)row + l * lane_bytes, &value, lane_bytes);
    if (!lane_bytes)
        memcpy(row, &value, 4);
    if (mod->constant_bytes + bytes > mod->constant_capacity) {
        size_t capacity = mod->constant_capacity ? 2 * mod->constant_capacity : 16384;
        uint8_t *bigger = sim_arena_alloc(&mod->arena, capacity);
        if (mod->constant_bytes)
            memcpy(bigger, mod->constants, mod->constant_bytes);
        mod->constants = bigger;
        mod->constant_capacity = capacity;
    }
    SimSlot slot = (SimSlot)mod->constant_bytes | SIM_BANK_CONSTANTS;
    memcpy(mod->constants + mod->constant_bytes, row, bytes);
    mod->constant_bytes += bytes;
    SimConstant *added = sim_arena_alloc(&mod->arena, sizeof *added);
    *added = (SimConstant){*bucket, value, lane_bytes, slot};
    *bucket = added;
    return slot;
}

SimSlot
dec_const32(SimDecode *dx, uint32_t value)
{
    return constant(dx, value, 4);
}

SimSlot
dec_const64(SimDecode *dx, uint64_t value)
{
    return constant(dx, value, 8);
}

SimSlot
dec_const_pred(SimDecode *dx, bool value)
{
    return constant(dx, value ? UINT32_MAX : 0, 0);
}

/* ------------------------------------------------------------------------ operands */

bool
dec_count(SimDecode *dx, size_t least, size_t most)
{
    if (dx->operand_count < least || dx->operand_count > most)
        return dec_fail(dx,
                        least == most ? "has %zu operands, needs %zu"
                                      : "has %zu operands, needs %zu to %zu",
                        dx->operand_count, least, most);
    return true;
}

const PtxOperand *
dec_operand(SimDecode *dx, size_t at)
{
    return at < dx->operand_count ? &dx->src->operand[at] : NULL;
}

bool
dec_is_immediate(const PtxOperand *operand)
{
    return operand->kind == PTX_INT || operand->kind == PTX_F32 || operand->kind == PTX_F64;
}

bool
dec_slot(SimDecode *dx, SimSlot slot)
{
    SimInsn *out = dx->out;
    if (out->slot_count == UINT8_MAX)
        return dec_fail(dx, "too many operands");
    if (out->slot_count % 8 == 0) {
        SimSlot *bigger = sim_arena_alloc(&dx->mod->arena,
                                          ((size_t)out->slot_count + 8) * sizeof *bigger);
        if (out->slot_count)
            memcpy(bigger, out->slot, out->slot_count * sizeof *bigger);
        out->slot = bigger;
    }
    out->slot[out->slot_count++] = slot;
    return true;
}

/* Registers get a place in the frame when they are first used.  All begin at multiples of a row,
 * but for predicates, which have rows of their own: who watches a row watches one register. */
static SimSlot
place_register(SimDecode *dx, const PtxSymbol *symbol, uint32_t index)
{
    enum { ROW = 128, PREDICATE = 8 };
    uint32_t bits = types[symbol->type].bits, *place = &symbol->place[index];
    SimFunction *fn = dx->fn->function;
    if (!*place && symbol->type == SIM_PRED) {
        if (fn->next_predicate % ROW == 0) {
            fn->next_predicate = fn->register_bytes;
            fn->register_bytes += ROW;
        }
        *place = fn->next_predicate + 1;
        fn->next_predicate += PREDICATE;
    } else if (!*place) {
        *place = fn->register_bytes + 1;
        fn->register_bytes += bits <= 32 ? ROW : bits == 64 ? 2 * ROW : 4 * ROW;
    }
    return (*place - 1) | SIM_BANK_REGISTERS;
}

static const PtxSymbol *
find_register(SimDecode *dx, const char *name, SimSlot *slot)
{
    uint32_t index;
    const PtxSymbol *symbol = sim_parse_lookup(dx->src->scope, name, &index);
    if (!symbol || (symbol->kind != PTX_REGISTER && symbol->kind != PTX_REGISTERS))
        return NULL;
    *slot = place_register(dx, symbol, index);
    return symbol;
}

/* Is a register of this type usable where the operation wants `wanted`?  Sizes must agree; ld, st
 * and cvt allow a wider register (PTX ISA 9.4.1), which the families express by SIM_NO_TYPE. */
static bool
check_width(SimDecode *dx, const char *name, SimType have, SimType wanted)
{
    if ((have == SIM_PRED) != (wanted == SIM_PRED))
        return dec_fail(dx, "'%s' is a .%s register, .%s is needed", name, types[have].name,
                        types[wanted].name);
    if (types[have].bits == types[wanted].bits)
        return true;
    return dec_fail(dx, "'%s' is a .%s register, an operand of %u bits is needed", name,
                    types[have].name, types[wanted].bits);
}

/* Counted while nothing else has come before it. */
static bool
add_destination(SimDecode *dx, SimSlot slot)
{
    PtxFile *file = dx->file;
    if (dx->out->destination_count == dx->out->slot_count)
        dx->out->destination_count++;
    if (slot != SIM_NO_SLOT) {
        file->write = sim_arena_grow(&dx->mod->arena, file->write, file->write_count,
                                     &file->write_capacity, sizeof *file->write);
        file->write[file->write_count++] = (PtxWrite){dx->out->index, slot};
    }
    return dec_slot(dx, slot);
}

bool
dec_dst(SimDecode *dx, const PtxOperand *operand, SimType type)
{
    SimSlot slot;
    if (!operand)
        return dec_fail(dx, "too few operands");
    if (operand->kind == PTX_SINK)
        return add_destination(dx, SIM_NO_SLOT);
    if (operand->kind == PTX_VECTOR && operand->count == 1)
        operand = &operand->element[0];
    if (operand->kind != PTX_NAME || operand->value || operand->negated)
        return dec_fail(dx, "the destination must be a register");
    const PtxSymbol *symbol = find_register(dx, operand->name, &slot);
    if (!symbol)
        return dec_fail(dx, "'%s' is not a register", operand->name);
    return check_width(dx, operand->name, symbol->type, type) && add_destination(dx, slot);
}

/* The declared type of a register operand; `type` itself for anything else. */
static SimType
declared_type(SimDecode *dx, const PtxOperand *operand, SimType type)
{
    uint32_t index;
    if (!operand)
        return type;
    if (operand->kind == PTX_VECTOR && operand->count == 1)
        operand = &operand->element[0];
    if (operand->kind != PTX_NAME)
        return type;
    const PtxSymbol *s = sim_parse_lookup(dx->src->scope, operand->name, &index);
    if (!s || (s->kind != PTX_REGISTER && s->kind != PTX_REGISTERS) || s->type == SIM_PRED ||
        types[s->type].bits < types[type].bits)
        return type;
    return s->type;
}

bool
dec_dst_wide(SimDecode *dx, const PtxOperand *operand, SimType type, SimType *have)
{
    *have = declared_type(dx, operand, type);
    return dec_dst(dx, operand, *have);
}

bool
dec_src_wide(SimDecode *dx, const PtxOperand *operand, SimType type, SimType *have)
{
    *have = operand && dec_is_immediate(operand) ? type : declared_type(dx, operand, type);
    return dec_src(dx, operand, *have);
}

static bool
immediate_bits(SimDecode *dx, const PtxOperand *o, SimType type, uint64_t *bits)
{
    const SimTypeInfo *info = &types[type];
    if (o->kind == PTX_INT) {
        if (info->kind == 'f' && type != SIM_TF32)
            return dec_fail(dx, "an integer where .%s is expected: write it as 0f or 0d",
                            info->name);
        *bits = o->value;
    } else if (o->kind == PTX_F32) {
        if (type == SIM_F64) {
            float narrow;
            uint32_t low = (uint32_t)o->value;
            memcpy(&narrow, &low, sizeof narrow);
            double wide = (double)narrow;
            memcpy(bits, &wide, sizeof wide);
        } else if (info->bits == 32) {
            *bits = o->value;
        } else {
            return dec_fail(dx, "a 32-bit float where .%s is expected", info->name);
        }
    } else {
        double wide;
        memcpy(&wide, &o->value, sizeof wide);
        float narrow = (float)wide;
        uint32_t low;
        memcpy(&low, &narrow, sizeof low);
        if (info->bits != 64 && !(info->bits == 32 && info->kind == 'f'))
            return dec_fail(dx, "a floating-point number where .%s is expected", info->name);
        *bits = info->bits == 64 ? o->value : low;
    }
    return true;
}

/* The value of a variable's name is its address in its own space (PTX ISA 6.4.2). */
static bool
variable_address(SimDecode *dx, const PtxOperand *operand, const PtxSymbol *symbol, SimType type)
{
    uint64_t address = symbol->address + operand->value;
    if (types[type].bits > 64)
        return dec_fail(dx, "the address of '%s' cannot be a .b128 operand", symbol->name);
    if (symbol->space == PTX_LOCAL || symbol->space == PTX_PARAM)
        dx->out->frame_relative = true;
    if (symbol->space == PTX_ENTRY_PARAM) /* offset in the block of parameters, made generic */
        return sim_type_is_wide(type) ? dec_slot(dx, dec_const64(dx, SIM_WINDOW_PARAM + address))
                                      : dec_fail(dx, "the address of a parameter has 64 bits");
    if (symbol->space == PTX_SHARED)
        return dec_slot(dx, sim_special_shared_address(dx->mod, address, sim_type_is_wide(type)));
    if (sim_type_is_wide(type))
        return dec_slot(dx, dec_const64(dx, address));
    if (symbol->space == PTX_GLOBAL || symbol->space == PTX_CONST)
        return dec_fail(dx, "the address of '%s' has 64 bits", symbol->name);
    return dec_slot(dx, dec_const32(dx, (uint32_t)address));
}

static void
make_grid_workspace(SimModule *mod)
{
    enum { BYTES = 8 };
    if (mod->grid_workspace)
        return;
    mod->grid_workspace = sim_alloc(mod->device, BYTES, "grid workspace");
    if (!mod->grid_workspace)
        longjmp(*mod->arena.out_of_memory, 1);
    mod->globals = sim_arena_grow(&mod->arena, mod->globals, mod->global_count,
                                  &mod->global_capacity, sizeof *mod->globals);
    mod->globals[mod->global_count++] = (SimGlobalVar){"", mod->grid_workspace, BYTES};
}

bool
dec_special(SimDecode *dx, const char *name, SimType type, SimSlot *slot)
{
    if (strcmp(name, "WARP_SZ") == 0) { /* PTX ISA 4.4: predefined constant */
        if (types[type].bits > 64)
            return dec_fail(dx, "a number cannot be a .b%u operand", types[type].bits);
        *slot = types[type].bits == 64 ? dec_const64(dx, SIM_LANES) : dec_const32(dx, SIM_LANES);
        return true;
    }
    if (sim_special_needs_workspace(name))
        make_grid_workspace(dx->mod);
    uint32_t bits = sim_special_find(name, slot);
    if (bits > 0 && bits != types[type].bits)
        return dec_fail(dx, "'%s' has %u bits", name, bits);
    return bits > 0;
}

bool
dec_src(SimDecode *dx, const PtxOperand *operand, SimType type)
{
    uint64_t bits = 0;
    SimSlot slot;
    if (!operand)
        return dec_fail(dx, "too few operands");
    if (operand->negated)
        return dec_fail(dx, operand->minus ? "a register cannot be negated here"
                                           : "'!' is for predicates only");
    if (operand->kind == PTX_VECTOR && operand->count == 1)
        operand = &operand->element[0];
    if (dec_is_immediate(operand)) {
        if (types[type].bits == 128)
            return dec_fail(dx, "a number cannot be a .b128 operand");
        if (!immediate_bits(dx, operand, type, &bits))
            return false;
        uint32_t width = types[type].bits;
        if (width < 32)
            bits &= (UINT64_C(1) << width) - 1;
        return dec_slot(dx, width == 64 ? dec_const64(dx, bits) : dec_const32(dx, (uint32_t)bits));
    }
    if (operand->kind != PTX_NAME)
        return dec_fail(dx, "a register or a number is expected");
    if (dec_special(dx, operand->name, type, &slot))
        return dec_slot(dx, slot);
    uint32_t index;
    const PtxSymbol *symbol = sim_parse_lookup(dx->src->scope, operand->name, &index);
    if (!symbol)
        return dec_fail(dx, "'%s' is not declared", operand->name);
    if (symbol->kind == PTX_VARIABLE)
        return variable_address(dx, operand, symbol, type);
    if (symbol->kind != PTX_REGISTER && symbol->kind != PTX_REGISTERS)
        return dec_fail(dx, "'%s' is not a register", operand->name);
    if (operand->value)
        return dec_fail(dx, "an offset is for addresses only");
    return check_width(dx, operand->name, symbol->type, type) &&
           dec_slot(dx, place_register(dx, symbol, index));
}

static bool
vector(SimDecode *dx, const PtxOperand *operand, SimType type, size_t count, bool is_source)
{
    if (!operand)
        return dec_fail(dx, "too few operands");
    if (operand->kind != PTX_VECTOR) {
        if (count != 1)
            return dec_fail(dx, "a list of %zu registers is expected", count);
        return is_source ? dec_src(dx, operand, type) : dec_dst(dx, operand, type);
    }
    if (operand->count != count)
        return dec_fail(dx, "a list of %zu registers is expected, this has %zu", count,
                        operand->count);
    for (size_t i = 0; i < count; i++) {
        const PtxOperand *element = &operand->element[i];
        if (!(is_source ? dec_src(dx, element, type) : dec_dst(dx, element, type)))
            return false;
    }
    return true;
}

bool
dec_dst_vector(SimDecode *dx, const PtxOperand *operand, SimType type, size_t count)
{
    return vector(dx, operand, type, count, false);
}

bool
dec_src_vector(SimDecode *dx, const PtxOperand *operand, SimType type, size_t count)
{
    return vector(dx, operand, type, count, true);
}

bool
dec_pred(SimDecode *dx, const PtxOperand *operand, bool *negated)
{
    SimSlot slot;
    if (!operand)
        return dec_fail(dx, "too few operands");
    *negated = operand->negated;
    if (operand->minus)
        return dec_fail(dx, "a predicate is negated by '!'");
    if (operand->kind == PTX_INT)
        return dec_slot(dx, dec_const_pred(dx, operand->value != 0));
    if (operand->kind != PTX_NAME)
        return dec_fail(dx, "a predicate is expected");
    const PtxSymbol *symbol = find_register(dx, operand->name, &slot);
    if (!symbol)
        return dec_fail(dx, "'%s' is not a register", operand->name);
    return check_width(dx, operand->name, symbol->type, SIM_PRED) && dec_slot(dx, slot);
}

bool
dec_immediate(SimDecode *dx, const PtxOperand *operand, int64_t *value)
{
    if (!operand || operand->kind != PTX_INT)
        return dec_fail(dx, "an integer constant is expected");
    *value = (int64_t)operand->value;
    return true;
}

bool
dec_address(SimDecode *dx, const PtxOperand *operand)
{
    SimSlot slot;
    if (!operand || operand->kind != PTX_MEMORY)
        return dec_fail(dx, "an address in brackets is expected");
    const PtxOperand *base = &operand->element[0];
    dx->out->imm = (int64_t)operand->value;
    dx->out->mode[5] = 1;
    if (base->kind == PTX_INT)
        return dec_slot(dx, dec_const64(dx, base->value));
    if (base->kind != PTX_NAME)
        return dec_fail(dx, "a register or a name is expected in brackets");
    const PtxSymbol *reg = find_register(dx, base->name, &slot);
    if (reg) {
        uint32_t bits = types[reg->type].bits;
        if (bits != 64 && bits != 32)
            return dec_fail(dx, "'%s' cannot hold an address", base->name);
        dx->out->mode[5] = bits == 64;
        return dec_slot(dx, slot);
    }
    uint32_t index;
    const PtxSymbol *symbol = sim_parse_lookup(dx->src->scope, base->name, &index);
    if (!symbol || symbol->kind != PTX_VARIABLE)
        return dec_fail(dx, "'%s' is not declared", base->name);
    return variable_address(dx, base, symbol, SIM_B64);
}

bool
dec_is_frame_param(SimDecode *dx, const PtxOperand *operand)
{
    uint32_t index;
    if (!operand || operand->kind != PTX_MEMORY || operand->element[0].kind != PTX_NAME)
        return false;
    const PtxSymbol *s = sim_parse_lookup(dx->src->scope, operand->element[0].name, &index);
    return s && s->kind == PTX_VARIABLE && s->space == PTX_PARAM;
}

/* ------------------------------------------------------------------------ functions */

static bool
decode_guard(SimDecode *dx)
{
    const PtxInsn *src = dx->src;
    dx->out->guard = SIM_NO_SLOT;
    if (!src->guarded)
        return true;
    SimSlot slot;
    const PtxSymbol *symbol = find_register(dx, src->guard, &slot);
    if (!symbol || symbol->type != SIM_PRED)
        return dec_fail(dx, "'%s' is not a predicate register", src->guard);
    dx->out->guard = slot;
    dx->out->guard_negated = src->guard_negated;
    return true;
}

static const SimFamily *
family_of(SimDecode *dx)
{
    const char *mnemonic = dx->src->mnemonic;
    uint32_t hash = 0;
    for (const char *c = mnemonic; *c; c++)
        hash = hash * 31 + (uint8_t)*c;
    PtxFile *file = dx->file;
    size_t at = hash % PTX_SEEN;
    if (!file->seen[at].mnemonic || strcmp(file->seen[at].mnemonic, mnemonic) != 0) {
        file->seen[at].mnemonic = mnemonic;
        file->seen[at].family = sim_family_find(dx->src, &file->seen[at].parts);
    }
    dx->family_parts = file->seen[at].parts;
    return file->seen[at].family;
}

static bool
decode_insn(SimDecode *dx)
{
    const PtxInsn *src = dx->src;
    const SimFamily *family = family_of(dx);
    if (!family)
        return dec_fail(dx, "unknown instruction");
    dx->taken = sim_arena_alloc(&dx->mod->arena, src->part_count * sizeof *dx->taken);
    dx->operand_count = src->operand_count;
    if (!decode_guard(dx) || !family->decode(dx))
        return false;
    for (size_t i = dx->family_parts; i < src->part_count; i++)
        if (!dx->taken[i])
            return dec_fail(dx, "modifier '.%s' is not known here", src->part[i]);
    if (dx->out->frame_relative && !dx->frame_relative_ok)
        return dec_fail(dx, "the name of a .local or .param variable cannot stand here");
    if (!dx->out->exec)
        return dec_fail(dx, "this form is not supported");
    return true;
}

/* Runs in place of a function with an instruction that is not supported. */
static SimStep
refused(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const SimError *error = insn->data;
    (void)mask;
    return sim_fail(warp, "%s", error->message);
}

/* What the simulator cannot do refuses the function that has it, and who calls that, not the
 * module. */
static void
refuse(PtxFile *file, SimFunction *fn)
{
    SimInsn *last = file->mod->insns[file->mod->insn_count - 1];
    SimError *error = sim_arena_alloc(&file->mod->arena, sizeof *error);
    *error = *file->error;
    memset(file->error, 0, sizeof *file->error);
    fn->refused = error;
    fn->insns[0] = (SimInsn){.exec = refused,
                             .guard = SIM_NO_SLOT,
                             .line = error->line,
                             .loc = last->loc,
                             .index = fn->insns[0].index,
                             .data = error,
                             .mnemonic = last->mnemonic};
}

/* Functions that call a refused one, in any number of steps. */
static void
refuse_callers(SimModule *mod)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < mod->function_count; i++) {
            SimFunction *fn = mod->functions[i];
            for (uint32_t k = 0; !fn->refused && k < fn->insn_count; k++) {
                const SimInsn *insn = &fn->insns[k];
                if (insn->calls && mod->functions[insn->imm]->refused) {
                    fn->refused = mod->functions[insn->imm]->refused;
                    changed = true;
                }
            }
        }
    }
}

static void
decode_function(PtxFile *file, PtxFunction *pf)
{
    SimModule *mod = file->mod;
    SimFunction *fn = pf->function;
    for (size_t i = 0; i < file->dynamic_count; i++)
        file->dynamic[i]->address = SIM_SHARED_BASE + fn->shared_bytes;
    fn->insn_count = (uint32_t)pf->insn_count + 1;
    fn->insns = sim_arena_alloc(&mod->arena, fn->insn_count * sizeof *fn->insns);
    /* Control that falls off the end returns (PTX ISA 9.7.12: ret, exit). */
    static const char *const parts[] = {"ret"};
    PtxInsn end = {.mnemonic = "ret",
                   .part = (const char **)(uintptr_t)parts,
                   .part_count = 1,
                   .scope = pf->scope,
                   .line = pf->insn_count ? pf->insn[pf->insn_count - 1].line : fn->line};
    for (size_t i = 0; i < fn->insn_count; i++) {
        SimInsn *out = &fn->insns[i];
        const PtxInsn *src = i < pf->insn_count ? &pf->insn[i] : &end;
        SimDecode dx = {.file = file, .mod = mod, .fn = pf, .src = src, .out = out};
        out->line = src->line;
        out->loc = src->loc;
        out->mnemonic = src->mnemonic;
        out->index = (uint32_t)mod->insn_count;
        mod->insns = sim_arena_grow(&mod->arena, mod->insns, mod->insn_count, &mod->insn_capacity,
                                    sizeof *mod->insns);
        mod->insns[mod->insn_count++] = out;
        if (!decode_insn(&dx)) {
            refuse(file, fn);
            return;
        }
    }
    fn->entry.instruction_count = fn->insn_count - 1;
    fn->entry.static_shared = fn->shared_bytes;
}

void
sim_decode_file(PtxFile *file)
{
    SimModule *mod = file->mod;
    const SimError *first = NULL;
    size_t capacity = 0, usable = 0;
    for (size_t i = 0; i < file->function_count; i++)
        decode_function(file, &file->function[i]);
    refuse_callers(mod);
    for (size_t i = 0; i < mod->function_count; i++) {
        SimFunction *fn = mod->functions[i];
        if (!first)
            first = fn->refused;
        if (!fn->is_entry || !fn->has_body)
            continue;
        usable += !fn->refused;
        mod->entries = sim_arena_grow(&mod->arena, mod->entries, mod->entry_count, &capacity,
                                      sizeof *mod->entries);
        mod->entries[mod->entry_count++] = fn;
    }
    if (first && !usable) { /* nothing is left to run */
        *file->error = *first;
        longjmp(*file->failed, 1);
    }
}
