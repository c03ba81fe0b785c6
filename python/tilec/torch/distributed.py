"""distributed.py - attention over sequences that are spread over the processes of a group, a GPU each.

    from tilec.torch import distributed as spread
    q, k, v = (spread.shard(x, group) for x in (q, k, v))            # [B, my rows, H, D] each
    o = spread.attention(q, k, v, group=group, causal=True)          # my rows of the result

A ring sends K and V from process to process while each computes with what it has; results are merged by their
logarithms of sums in a kernel (attention_merge.tile).  With heads=h, groups of h processes side by side exchange
heads for rows first, by all-to-all, and a ring goes through these groups; h = 1 is a ring alone, h = all of them
Ulysses.  Under a causal mask the rows of the sequence are dealt out in zigzag, part r and part 2 W - 1 - r of 2 W
to process r, so that each has as much to do in each step.  A window's ring ends where the window does, and sends no
rows that nobody sees: there the order "whole" is the one to take.

All is differentiable once.  The order of sums does not depend on time: with deterministic=True a run gives the
same bits as any other of as many processes.
"""
import os
from dataclasses import replace

import torch
import torch.distributed as dist

from tilec.torch import attend, eight, scaling, wire as wires
from tilec.torch.blocks import Blocks, Eight
from tilec.torch.error import Error
from tilec.torch.ring import Attention, Exchange, Messages, Ring
from tilec.torch.shares import Mask, Shares, dealt, dealt_packed, route

WIRES = (None, "e4m3")
__all__ = ["Blocks", "attention", "deal", "deal_packed", "heads_for", "ring_attention", "shard", "ulysses_attention", "unshard"]


# ---- who has which rows ----


def deal(rows, group=None, *, order="zigzag"):
    """Who has which rows of sequences of so many, for `at`: any number that gives each part one."""
    return dealt(rows, dist.get_world_size(group), order)


def deal_packed(starts, group=None, *, causal=False, window=None):
    """Who has which rows of sequences that lie one behind the other, b from starts[b] to starts[b + 1] - 1, for `at`: evenly by
    their work under this mask.  The longest are cut among all processes where that must be, the others are in one each."""
    starts = [int(start) for start in starts]
    if len(starts) < 2 or starts[0] != 0 or any(a > b for a, b in zip(starts, starts[1:])):
        raise Error(f"deal_packed: starts begin with 0 and never fall, with one more than there are sequences, not {starts[:8]}")
    lengths = tuple(b - a for a, b in zip(starts, starts[1:]))
    return dealt_packed(lengths, dist.get_world_size(group), bool(causal), window or 0)


def _at(at, rows, group, order):
    if at is None:
        return deal(rows, group, order=order)
    _check_at(at, group)
    return at


def _check_at(at, group):
    if not isinstance(at, Shares) or at.world != dist.get_world_size(group):
        raise Error(f"`at` is what deal() or deal_packed() give for this group of {dist.get_world_size(group)} processes")


def shard(x, group=None, *, order="zigzag", dim=1, at=None):
    """This process's rows of a whole tensor."""
    at, rank = _at(at, x.shape[dim], group, order), dist.get_rank(group)
    if at.total != x.shape[dim]:
        raise Error(f"shard: dimension {dim} has {x.shape[dim]} rows, and `at` deals out {at.total}")
    return torch.cat([x.narrow(dim, begin, end - begin) for begin, end in at.places(rank)], dim).contiguous()


def unshard(x, group=None, *, order="zigzag", dim=1, at=None):
    """The whole tensor of every process's rows; without gradients."""
    world = dist.get_world_size(group)
    at, dim = _at(at, x.shape[dim] * world, group, order), dim % x.dim()
    shapes = [(*x.shape[:dim], at.rows(rank), *x.shape[dim + 1:]) for rank in range(world)]
    most = max(torch.Size(shape).numel() for shape in shapes)
    mine = x.new_empty(most)  # all_gather takes the same size from each
    mine[:x.numel()] = x.detach().reshape(-1)
    every = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(every, mine, group)
    pieces = []
    for rank, (these, shape) in enumerate(zip(every, shapes)):
        read, these = 0, these[:torch.Size(shape).numel()].view(shape)
        for begin, end in at.places(rank):
            pieces.append((begin, these.narrow(dim, read, end - begin)))
            read += end - begin
    return torch.cat([piece for _, piece in sorted(pieces, key=lambda pair: pair[0])], dim)


# ---- attention ----


def _check_shapes(name, q, k, v, at, mask, rank):
    for letter, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise Error(f"{name}: {letter} must have 4 dimensions [B, my rows, H, D], not {x.dim()}")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or not k.shape[2] or q.shape[2] % k.shape[2]:
        raise Error(f"{name}: q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit together")
    if q.shape[1] != k.shape[1] and (at is not None or mask.causal or mask.window or mask.right >= 0 or mask.alibi):
        raise Error(f"{name}: under a mask, or as they are dealt out by `at`, each process has as many rows of q as of k, not "
                    f"{q.shape[1]} and {k.shape[1]}")
    if at is not None and q.shape[1] != at.rows(rank):
        raise Error(f"{name}: q has {q.shape[1]} rows, and `at` gives this process {at.rows(rank)}")
    if at is not None and len(at.lengths) > 1 and q.shape[0] != 1:
        raise Error(f"{name}: packed sequences have a batch of 1, not {q.shape[0]}")


def _mask(q, rows, options):
    """What tilec.torch.attention is given, and the same refusals."""
    scale, softcap, causal, window, right, _, alibi = attend.options(**options)
    attend._check({"WINDOW": window, "RIGHT": right, "softcap": softcap, "scale": scale})
    return Mask(scale=(q.shape[-1] or 1) ** -0.5 if scale is None else scale, softcap=softcap, causal=causal,
                window=0 if window >= rows else window, right=-1 if right >= rows else right, alibi=alibi)


def heads_for(heads, key_heads, rows, world, *, head_dim=128, causal=False, links=None, wire=None):
    """How many processes side by side should exchange heads for rows: what scaling.py estimates to be the quickest, forward and
    backward, of what these heads allow.  Where no links are given, nodes are as large as torchrun says."""
    _check_wire("heads_for", wire)
    if links is None:
        here = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        links = scaling.Links(node=here if world % here == 0 else world)
    return scaling.best(scaling.Shape(rows, heads, key_heads, head_dim, causal, 1 if wire else 2), world, links).heads


def _check_wire(name, wire):
    if wire not in WIRES:
        raise Error(f"{name}: wire is None, as which keys and values travel as they are, or 'e4m3', in 8 bits with scales, not {wire!r}")


def _is_near(shares, mask):
    """Whether a ring passes on no more than each process's own keys, as where a window ends soon or no sequence is cut."""
    if not mask.window and mask.right < 0 and len(shares[1].lengths) == 1:
        return False  # which need not be counted
    ring = route(*shares, mask)
    return all(ring.sent(rank) <= shares[1].rows(rank) for rank in range(shares[1].world))


def _check_heads(name, heads, q, k, world):
    if heads < 1 or world % heads:
        raise Error(f"{name}: heads = {heads} must divide the {world} processes")
    if q.shape[2] % heads:
        raise Error(f"{name}: the {q.shape[2]} heads of q are no multiple of {heads}: take fewer, down to heads=1, a ring")
    if k.shape[2] % heads and heads % k.shape[2]:
        raise Error(f"{name}: neither of {heads} processes and the {k.shape[2]} heads of k is a multiple of the other: take a "
                    "divisor of both, down to heads=1, a ring")


def attention(q, k, v, *, group=None, order="zigzag", at=None, heads=None, links=None, causal=False, window=None,
              right=None, softcap=0.0, scale=None, alibi=False, deterministic=False, return_lse=False, blocks=None, wire=None,
              scale_q=None, scale_k=None, scale_v=None):
    """softmax(scale q k^T + mask) v for this process's rows of q and the rows of k and v of all processes.

    q [B, my rows, Hq, D], k [B, my rows, Hk, D], v [B, my rows, Hk, DV], as `shard` deals them out.

    order      as given to `shard`: "zigzag" for a causal mask, "whole" for windows; without a mask any
    at         who has which rows, where not all have as many (`deal`), or several sequences (`deal_packed`, B = 1)
    heads      how many processes side by side exchange heads for rows: a divisor of them and of Hq; Hk is a multiple or a
               divisor.  1: a ring, all: Ulysses; None: `heads_for`, with these `links`, and 1 where a window ends soon
    causal ..  as of tilec.torch.attention; without a mask q may have other rows than k and v
    wire       "e4m3": a ring sends 16-bit k and v in 8 bits, with a scale for each process, sequence and head; what is exchanged
               for heads goes as it is
    scale_q .. with q, k and v in float8_e4m3fn, which travel as they are: as of tilec.torch.attention, those of this process's
               rows; by a ring alone, without gradients
    blocks     computes one step (a Blocks)
    """
    return _attention("attention", q, k, v, group, order, at, heads, links, deterministic, return_lse, blocks, wire,
                      (scale_q, scale_k, scale_v), {"scale": scale, "softcap": softcap, "causal": causal, "window": window, "right": right, "alibi": alibi})


def _eight(name, q, k, v, scales, heads, options):
    """Bytes in place of q, k and v of 8 bits, and their scales."""
    scales = eight.checked(q, k, v, scales, attend.options(**options), "bshd")
    if heads not in (None, 1):
        raise Error(f"{name}: q, k and v of 8 bits have scales of each process's rows, and go by a ring alone: heads=1, not {heads}")
    return [x.view(torch.uint8) for x in (q, k, v)], scales


def _attention(name, q, k, v, group, order, at, heads, links, deterministic, return_lse, blocks, wire, scales, options):
    messages = Messages(group)
    world, rank = messages.world, messages.rank
    if at is not None:
        _check_at(at, group)
    _check_wire(name, wire)
    rows = at.total if at is not None else world * max(x.shape[1] if x.dim() > 1 else 0 for x in (q, k))
    mask = _mask(q, rows, options)
    _check_shapes(name, q, k, v, at, mask, rank)
    if attend.E4M3 in (q.dtype, k.dtype, v.dtype):
        (q, k, v), (scale_q, scale_k, scale_v) = _eight(name, q, k, v, scales, heads, options)
        blocks, heads = blocks or Eight(scale_q), 1
        wire = wires.Scaled(scale_k, scale_v)
    elif any(scale is not None for scale in scales):
        raise Error(f"{name}: scale_q, scale_k and scale_v are for q, k and v in float8_e4m3fn; wire='e4m3' finds its own")
    else:
        blocks = blocks or Blocks(deterministic)
        wire = wires.Rounded(blocks, k.dtype) if wire else wires.Plain()
    free = mask.before is None and mask.after is None and not mask.alibi and at is None  # then any order will do
    shares = [_at(at, x.shape[1] * world, group, "whole" if free else order) for x in (q, k)]
    if heads is None:
        near = _is_near(shares, mask)
        heads = 1 if near else heads_for(q.shape[2], k.shape[2], shares[1].total, world, head_dim=q.shape[3], causal=mask.causal,
                                         links=links, wire="e4m3" if isinstance(wire, wires.Rounded) else None)
    _check_heads(name, heads, q, k, world)
    exchange = Exchange(shares, heads, messages) if heads > 1 else None
    if mask.alibi:
        mask = replace(mask, heads=q.shape[2], first=exchange.heads(q.shape[2], exchange.me)[0] if exchange else 0)
    ring = Ring(route(*(x.together(heads) for x in shares), mask), list(range(rank % heads, world, heads)), messages,
                blocks, wire)
    out, lse = Attention.apply(q, k, v, ring, exchange)
    return (out, lse) if return_lse else out


def ring_attention(q, k, v, *, group=None, causal=False, scale=None, deterministic=False, return_lse=False, blocks=None, **more):
    """attention with heads=1: q and k as `shard` deals them out in the order "zigzag"."""
    return attention(q, k, v, group=group, heads=1, causal=causal, scale=scale, deterministic=deterministic,
                     return_lse=return_lse, blocks=blocks, **more)


def ulysses_attention(q, k, v, *, group=None, order="whole", **more):
    """attention with heads=W: the rows in the order "whole", W a divisor of Hq."""
    if "layout" in more:
        raise Error("ulysses_attention: layout is not among its options")
    return attention(q, k, v, group=group, order=order, heads=dist.get_world_size(group), **more)
