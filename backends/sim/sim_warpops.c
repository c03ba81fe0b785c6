/* sim_warpops.c - shfl, vote, match, redux, elect, bar.warp, activemask (PTX ISA 9.7.9.6, 9.7.13.2,
 * 9.7.13.7 to 9.7.13.11).
 *
 * All but activemask take a member mask: the lanes in it (that have not exited) must execute the op
 * together.  One instruction may run with several masks, in different lanes.
 */
#include "sim_exec.h"
#include "sim_sync.h"
#include "sim_warp.h"

/* Runs the op for the lanes of each member mask among those that execute it: lanes that name
 * another mask are another set, with values of their own.  A set that is not complete yet waits;
 * the lanes of the complete ones go on. */
typedef void Collective(SimWarp *warp, const SimInsn *insn, uint32_t lanes);

static SimStep
by_members(SimWarp *warp, const SimInsn *insn, SimSlot slot, uint32_t mask, Collective *op)
{
    const uint32_t *members = sim_r32(warp, slot);
    uint32_t ready = sim_warp_gather_members(warp, insn, mask, members), rest = ready;
    while (rest) {
        uint32_t named = members[sim_first_lane(rest)], lanes = 0;
        sim_each_lane (l, rest)
            lanes |= (uint32_t)(members[l] == named) << l;
        rest &= ~lanes;
        if (lanes & ~named)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)sim_first_lane(lanes & ~named), 0, NULL,
                     "lane executes `%s` without being in its member mask %08x", insn->mnemonic,
                     named);
        op(warp, insn, lanes);
    }
    return sim_warp_members_step(warp, mask, ready);
}

/* shfl.sync (9.7.9.6).  A source lane that does not take part gives an undefined value: garbage. */
SIM_HOT static void
shfl_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const uint32_t *a = sim_r32(warp, insn->slot[2]), *b = sim_r32(warp, insn->slot[3]);
    const uint32_t *c = sim_r32(warp, insn->slot[4]);
    uint32_t out[SIM_LANES], valid = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint32_t segment = c[l] >> 8 & 31, clamp = c[l] & 31, by = b[l] & 31;
        uint32_t low = l & segment, high = low | (clamp & ~segment), j;
        bool in;
        switch (insn->mode[0]) {
        case 0: /* up */
            j = l - by;
            in = (int32_t)j >= (int32_t)high;
            break;
        case 1: /* down */
            j = l + by;
            in = j <= high;
            break;
        case 2: /* bfly */
            j = l ^ by;
            in = j <= high;
            break;
        default: /* idx */
            j = low | (by & ~segment);
            in = j <= high;
            break;
        }
        j = in ? j : l;
        out[l] = mask >> (j & 31) & 1 ? a[j & 31] : UINT32_C(0xa5a5a5a5);
        valid |= (uint32_t)in << l;
    }
    sim_put32(warp, insn->slot[0], out, mask);
    sim_put_pred(warp, insn->slot[1], valid, mask);
}

static SimStep
shfl(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    return by_members(warp, insn, insn->slot[5], mask, shfl_lanes);
}

static bool
decode_shfl(SimDecode *dx)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
    const PtxOperand *d = dec_operand(dx, 0);
    if (!dec_take(dx, "sync"))
        return dec_fail(dx, "shfl without .sync does not exist since sm_70");
    int mode = dec_choice(dx, modes);
    if (mode < 0 || !dec_take(dx, "b32") || !dec_count(dx, 5, 5))
        return dec_fail(dx, "malformed shfl");
    dx->out->mode[0] = (uint8_t)mode;
    dx->out->exec = shfl;
    if (!dec_dst(dx, d, SIM_B32))
        return false;
    if (d->pair ? !dec_dst(dx, d->pair, SIM_PRED) : !dec_slot(dx, SIM_NO_SLOT))
        return false;
    for (size_t i = 1; i < 5; i++)
        if (!dec_src(dx, dec_operand(dx, i), SIM_B32))
            return false;
    return true;
}

/* vote.sync: slots d, a, mask; mode[0] which, [1] a negated */
static void
vote_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t p = *sim_rp(warp, insn->slot[1]), out[SIM_LANES];
    p = (insn->mode[1] ? ~p : p) & mask;
    bool yes = insn->mode[0] == 0 ? p == mask : insn->mode[0] == 1 ? p != 0 : p == 0 || p == mask;
    if (insn->mode[0] < 3) {
        sim_put_pred(warp, insn->slot[0], yes ? UINT32_MAX : 0, mask);
        return;
    }
    for (int l = 0; l < SIM_LANES; l++)
        out[l] = p;
    sim_put32(warp, insn->slot[0], out, mask);
}

static SimStep
vote(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    return by_members(warp, insn, insn->slot[2], mask, vote_lanes);
}

static bool
decode_vote(SimDecode *dx)
{
    static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
    bool negated = false;
    if (!dec_take(dx, "sync"))
        return dec_fail(dx, "vote without .sync does not exist since sm_70");
    int mode = dec_choice(dx, modes);
    SimType type = dec_type(dx);
    if (mode < 0 || type != (mode == 3 ? SIM_B32 : SIM_PRED) || !dec_count(dx, 3, 3))
        return dec_fail(dx, "malformed vote");
    dx->out->mode[0] = (uint8_t)mode;
    dx->out->exec = vote;
    if (!dec_dst(dx, dec_operand(dx, 0), type) || !dec_pred(dx, dec_operand(dx, 1), &negated))
        return false;
    dx->out->mode[1] = negated;
    return dec_src(dx, dec_operand(dx, 2), SIM_B32);
}

/* match: slots d, p, a, mask; mode[0] all */
static void
match_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    bool wide = sim_type_is_wide((SimType)insn->type);
    uint64_t v[SIM_LANES];
    uint32_t out[SIM_LANES] = {0}, all = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        v[l] = wide ? sim_r64(warp, insn->slot[2])[l] : sim_r32(warp, insn->slot[2])[l];
    sim_each_lane (l, mask) {
        for (uint32_t k = 0; k < SIM_LANES; k++)
            if (mask >> k & 1 && v[k] == v[l])
                out[l] |= UINT32_C(1) << k;
        all = out[l];
    }
    if (insn->mode[0])
        for (int l = 0; l < SIM_LANES; l++)
            out[l] = all == mask ? mask : 0;
    sim_put32(warp, insn->slot[0], out, mask);
    sim_put_pred(warp, insn->slot[1], all == mask ? UINT32_MAX : 0, mask);
}

static SimStep
match(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    return by_members(warp, insn, insn->slot[3], mask, match_lanes);
}

static bool
decode_match(SimDecode *dx)
{
    static const char *const modes[] = {"any", "all", NULL};
    const PtxOperand *d = dec_operand(dx, 0);
    int mode = dec_choice(dx, modes);
    SimType type = dec_take(dx, "sync") ? dec_type(dx) : SIM_NO_TYPE;
    if (mode < 0 || (type != SIM_B32 && type != SIM_B64) || !dec_count(dx, 3, 3))
        return dec_fail(dx, "malformed match");
    dx->out->mode[0] = (uint8_t)mode;
    dx->out->type = (uint8_t)type;
    dx->out->exec = match;
    if (!dec_dst(dx, d, SIM_B32))
        return false;
    if (d->pair ? !dec_dst(dx, d->pair, SIM_PRED) : !dec_slot(dx, SIM_NO_SLOT))
        return false;
    return dec_src(dx, dec_operand(dx, 1), type) && dec_src(dx, dec_operand(dx, 2), SIM_B32);
}

/* redux.sync: slots d, a, mask; mode[0] op, [1] .abs, [2] .NaN */
static uint32_t
reduce(const SimInsn *insn, uint32_t x, uint32_t y)
{
    if (insn->type == SIM_F32) {
        float a = sim_f32(x), b = sim_f32(y);
        if (isnan(a) || isnan(b))
            return insn->mode[2] || (isnan(a) && isnan(b)) ? 0x7fffffffu : isnan(a) ? y : x;
        bool less = a < b || (a == b && x >> 31 > y >> 31);
        return less == (insn->mode[0] == 1) ? x : y;
    }
    bool less = insn->type == SIM_S32 ? (int32_t)x < (int32_t)y : x < y;
    switch (insn->mode[0]) {
    case 0: return x + y;
    case 1: return less ? x : y;
    case 2: return less ? y : x;
    case 3: return x & y;
    case 4: return x | y;
    default: return x ^ y;
    }
}

static void
redux_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const uint32_t *a = sim_r32(warp, insn->slot[1]);
    uint32_t keep = insn->mode[1] ? 0x7fffffffu : UINT32_MAX, out[SIM_LANES];
    uint32_t r = a[sim_first_lane(mask)] & keep, rest = mask & (mask - 1);
    sim_each_lane (l, rest)
        r = reduce(insn, r, a[l] & keep);
    for (int l = 0; l < SIM_LANES; l++)
        out[l] = r;
    sim_put32(warp, insn->slot[0], out, mask);
}

static SimStep
redux(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    return by_members(warp, insn, insn->slot[2], mask, redux_lanes);
}

static bool
decode_redux(SimDecode *dx)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", NULL};
    SimInsn *out = dx->out;
    bool sync = dec_take(dx, "sync");
    int op = dec_choice(dx, ops);
    out->mode[1] = dec_take(dx, "abs");
    out->mode[2] = dec_take(dx, "NaN");
    SimType type = dec_type(dx);
    bool ok = op >= 3   ? type == SIM_B32
              : op == 0 ? type == SIM_U32 || type == SIM_S32
                        : type == SIM_U32 || type == SIM_S32 || type == SIM_F32;
    if (!sync || op < 0 || !ok || ((out->mode[1] || out->mode[2]) && type != SIM_F32))
        return dec_fail(dx, "malformed redux");
    out->mode[0] = (uint8_t)op;
    out->type = (uint8_t)type;
    out->exec = redux;
    return dec_count(dx, 3, 3) && dec_dst(dx, dec_operand(dx, 0), type) &&
           dec_src(dx, dec_operand(dx, 1), type) && dec_src(dx, dec_operand(dx, 2), SIM_B32);
}

/* elect.sync d|p, mask: the lowest member is the leader; which one is unspecified (9.7.13.11). */
static void
elect_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t leader = sim_first_lane(mask), out[SIM_LANES];
    for (int l = 0; l < SIM_LANES; l++)
        out[l] = leader;
    sim_put32(warp, insn->slot[0], out, mask);
    sim_put_pred(warp, insn->slot[1], UINT32_C(1) << leader, mask);
}

static SimStep
elect(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    return by_members(warp, insn, insn->slot[2], mask, elect_lanes);
}

static bool
decode_elect(SimDecode *dx)
{
    const PtxOperand *d = dec_operand(dx, 0);
    if (!dec_take(dx, "sync") || !dec_count(dx, 2, 2) || !d->pair)
        return dec_fail(dx, "needs .sync, d|p and a mask");
    dx->out->exec = elect;
    return dec_dst(dx, d, SIM_B32) && dec_dst(dx, d->pair, SIM_PRED) &&
           dec_src(dx, dec_operand(dx, 1), SIM_B32);
}

static void
bar_warp_lanes(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    sim_order_some_lanes(warp, sim_r32(warp, insn->slot[0])[sim_first_lane(mask)]);
    sim_sync_lanes(warp);
}

static SimStep
bar_warp(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    return by_members(warp, insn, insn->slot[0], mask, bar_warp_lanes);
}

static bool
decode_bar_warp(SimDecode *dx)
{
    if (!dec_take(dx, "sync") || !dec_count(dx, 1, 1))
        return dec_fail(dx, "needs .sync and a mask");
    dx->out->exec = bar_warp;
    dx->out->meets = true;
    return dec_src(dx, dec_operand(dx, 0), SIM_B32);
}

static SimStep
activemask(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t out[SIM_LANES];
    for (int l = 0; l < SIM_LANES; l++)
        out[l] = mask;
    sim_put32(warp, insn->slot[0], out, mask);
    return SIM_NEXT;
}
static bool
decode_activemask(SimDecode *dx)
{
    dx->out->exec = activemask;
    return dec_take(dx, "b32") && dec_count(dx, 1, 1) && dec_dst(dx, dec_operand(dx, 0), SIM_B32);
}

const SimFamily sim_warp_families[] = {
    {"shfl", decode_shfl},
    {"vote", decode_vote},
    {"match", decode_match},
    {"redux", decode_redux},
    {"elect", decode_elect},
    {"bar.warp", decode_bar_warp},
    {"activemask", decode_activemask},
    {NULL, NULL},
};
