/* sim_flow.c - branches, calls, exits (PTX ISA 9.7.12), and odds and ends of 9.7.19. */
#include "sim_exec.h"

/* ------------------------------------------------------------------------ branches */

static SimStep
bra(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    /* .uni promises that all lanes agree (9.7.12.2): active lanes that do not jump break it. */
    if (insn->mode[0] && mask != warp->running->mask && mask)
        sim_find(warp, SIM_FIND_NOT_UNIFORM, (int32_t)sim_first_lane(warp->running->mask & ~mask),
                 0, NULL, "bra.uni is taken by lanes %08x of %08x only", mask, warp->running->mask);
    sim_warp_branch(warp, mask, insn->target);
    return SIM_JUMP;
}

static bool
find_label(SimDecode *dx, const char *name, uint32_t *target)
{
    uint32_t index;
    const PtxSymbol *s = sim_parse_lookup(dx->src->scope, name, &index);
    if (!s || s->kind != PTX_LABEL)
        return dec_fail(dx, "'%s' is not a label", name);
    *target = s->target;
    return true;
}

static bool
decode_bra(SimDecode *dx)
{
    dx->out->mode[0] = dec_take(dx, "uni");
    dx->out->exec = bra;
    const PtxOperand *o = dec_operand(dx, 0);
    if (!dec_count(dx, 1, 1) || o->kind != PTX_NAME)
        return dec_fail(dx, "needs a label");
    return find_label(dx, o->name, &dx->out->target);
}

/* brx.idx: a jump table; count entries at data.  An index outside is undefined behaviour. */
static SimStep
brx(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const uint32_t *table = insn->data;
    uint32_t index[SIM_LANES];
    memcpy(index, sim_r32(warp, insn->slot[0]), sizeof index);
    SimGroup *rest = warp->running;
    sim_each_lane (l, mask)
        if (index[l] >= (uint64_t)insn->imm)
            return sim_fail(warp, "brx.idx: index %u, but the table has %lld entries", index[l],
                            (long long)insn->imm);
    while (mask) {
        uint32_t first = index[sim_first_lane(mask)], same = 0;
        sim_each_lane (l, mask)
            same |= (uint32_t)(index[l] == first) << l;
        mask &= ~same;
        warp->running = rest;
        uint32_t pc = rest->pc;
        sim_warp_branch(warp, same, table[first]);
        if (rest->mask && mask)
            rest->pc = pc; /* these have still to jump */
    }
    warp->running = NULL;
    return SIM_JUMP;
}

static const PtxSymbol *
find_targets(SimDecode *dx, const PtxOperand *operand)
{
    uint32_t index;
    if (!operand || operand->kind != PTX_NAME)
        return NULL;
    const PtxSymbol *s = sim_parse_lookup(dx->src->scope, operand->name, &index);
    return s && s->kind == PTX_TARGETS ? s : NULL;
}

static bool
decode_brx(SimDecode *dx)
{
    if (!dec_take(dx, "idx"))
        return dec_fail(dx, "needs .idx");
    dec_take(dx, "uni");
    const PtxSymbol *list = find_targets(dx, dec_operand(dx, 1));
    if (!list || !dec_count(dx, 2, 2))
        return dec_fail(dx, "needs an index and a list of targets");
    uint32_t *table = sim_arena_alloc(&dx->mod->arena, list->name_count * sizeof *table);
    for (size_t i = 0; i < list->name_count; i++)
        if (!find_label(dx, list->names[i], &table[i]))
            return false;
    dx->out->data = table;
    dx->out->imm = (int64_t)list->name_count;
    dx->out->exec = brx;
    return dec_src(dx, dec_operand(dx, 0), SIM_U32);
}

/* ------------------------------------------------------------------------ calls */

static SimStep
call(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const SimFunction *callee = warp->run->module->functions[insn->imm];
    sim_warp_call(warp, insn, callee, mask);
    return warp->run->stop ? SIM_FATAL : SIM_JUMP;
}

/* Whether results and arguments are as many, and as large, as the function's; they are copied by
 * its sizes. */
static bool
fits(const SimFunction *fn, const SimLocalVar *vars, size_t results, size_t args)
{
    if (fn->result_count != results || fn->param_count != args)
        return false;
    for (size_t i = 0; i < results; i++)
        if (fn->results[i].size != vars[i].size)
            return false;
    for (size_t i = 0; i < args; i++)
        if (fn->params[i].size != vars[results + i].size)
            return false;
    return true;
}

/* An indirect call: the lanes with the first lane's target go, the rest executes it again. */
static SimStep
call_indirect(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const uint64_t *target = sim_r64(warp, insn->slot[0]);
    uint64_t first = target[sim_first_lane(mask)];
    uint32_t same = 0;
    sim_each_lane (l, mask)
        same |= (uint32_t)(target[l] == first) << l;
    if (first - SIM_WINDOW_CODE >= warp->run->module->function_count)
        return sim_fail(warp, "call of 0x%llx, which is not a function", (unsigned long long)first);
    const SimFunction *callee = warp->run->module->functions[first - SIM_WINDOW_CODE];
    if (!callee->has_body || callee->is_entry)
        return sim_fail(warp, "call of '%s', which is not a defined device function", callee->name);
    if (!fits(callee, insn->data, (size_t)insn->imm, (size_t)insn->imm2))
        return sim_fail(warp, "call of '%s', which has other arguments or results", callee->name);
    SimGroup *rest = warp->running;
    uint32_t pc = rest->pc;
    sim_warp_call(warp, insn, callee, same);
    if (warp->running != rest && mask != same)
        rest->pc = pc;
    return warp->run->stop ? SIM_FATAL : SIM_JUMP;
}

static bool
collect_args(SimDecode *dx, const PtxOperand *list, SimLocalVar *vars, size_t *count)
{
    for (size_t i = 0; list && i < list->count; i++) {
        uint32_t index;
        const PtxOperand *o = &list->element[i];
        const PtxSymbol *s = o->kind == PTX_NAME ? sim_parse_lookup(dx->src->scope, o->name, &index)
                                                 : NULL;
        if (!s || s->kind != PTX_VARIABLE || s->space != PTX_PARAM)
            return dec_fail(dx, "arguments must be .param variables");
        vars[(*count)++] = (SimLocalVar){(uint32_t)s->address, (uint32_t)s->size};
    }
    return true;
}

/* call{.uni} {(results),} function {, (arguments)} {, prototype or targets} */
static bool
decode_call(SimDecode *dx)
{
    SimInsn *out = dx->out;
    SimModule *mod = dx->mod;
    dec_take(dx, "uni");
    size_t at = 0, count = 0;
    const PtxOperand *results = NULL, *args = NULL, *o = dec_operand(dx, 0);
    if (o && o->kind == PTX_LIST) {
        results = o;
        at = 1;
    }
    const PtxOperand *function = dec_operand(dx, at++);
    if (!function || function->kind != PTX_NAME)
        return dec_fail(dx, "needs a function");
    o = dec_operand(dx, at);
    if (o && o->kind == PTX_LIST)
        args = o;
    size_t total = (results ? results->count : 0) + (args ? args->count : 0);
    SimLocalVar *vars = sim_arena_alloc(&mod->arena, (total + 1) * sizeof *vars);
    if (!collect_args(dx, results, vars, &count) || !collect_args(dx, args, vars, &count))
        return false;
    out->data = vars;
    for (size_t i = 0; i < mod->function_count; i++) {
        const SimFunction *fn = mod->functions[i];
        if (strcmp(fn->name, function->name) != 0)
            continue;
        if (!fn->has_body &&
            sim_runtime_call(dx, fn->name, results ? results->count : 0, args ? args->count : 0))
            return true;
        if (!fn->has_body || fn->is_entry)
            return dec_fail(dx, "'%s' is not a defined device function", fn->name);
        if (!fits(fn, vars, results ? results->count : 0, args ? args->count : 0))
            return dec_fail(dx, "'%s' has other arguments or results", fn->name);
        out->imm = (int64_t)i;
        out->calls = true;
        out->exec = call;
        return true;
    }
    out->imm = results ? (int64_t)results->count : 0;
    out->imm2 = args ? (int64_t)args->count : 0;
    out->exec = call_indirect;
    return dec_src(dx, function, SIM_B64);
}

static SimStep
ret(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)insn;
    sim_warp_return(warp, mask);
    return SIM_JUMP;
}
static bool
decode_ret(SimDecode *dx)
{
    dec_take(dx, "uni");
    dx->out->exec = ret;
    return dec_count(dx, 0, 0);
}

static SimStep
exit_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)insn;
    sim_warp_exit_lanes(warp, mask);
    return SIM_JUMP;
}
static bool
decode_exit(SimDecode *dx)
{
    dx->out->exec = exit_lanes;
    return dec_count(dx, 0, 0);
}

/* trap aborts the grid (9.7.19.4): the lanes end here, after the finding. */
static SimStep
trap(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)insn;
    sim_find(warp, SIM_FIND_TRAP, (int32_t)sim_first_lane(mask), 0, NULL,
             "the kernel executed trap");
    sim_warp_exit_lanes(warp, mask);
    return SIM_JUMP;
}
static bool
decode_trap(SimDecode *dx)
{
    dx->out->exec = trap;
    return dec_count(dx, 0, 0);
}

/* nanosleep, brkpt, pmevent: no effect on values. */
static SimStep
pause(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    (void)warp, (void)insn, (void)mask;
    return SIM_YIELD;
}
static bool
decode_pause(SimDecode *dx)
{
    dec_take(dx, "u32");
    dec_take(dx, "mask");
    dx->out->exec = pause;
    return dec_count(dx, 0, 1);
}

const SimFamily sim_flow_families[] = {
    {"bra", decode_bra},       {"brx", decode_brx},
    {"call", decode_call},     {"ret", decode_ret},
    {"exit", decode_exit},     {"trap", decode_trap},
    {"brkpt", decode_pause},   {"nanosleep", decode_pause},
    {"pmevent", decode_pause}, {NULL, NULL},
};
