"""distributed_program.py - attention spread over processes (gloo), without a GPU, against that of one process in float64.

    distributed_program.py [grid|deep] [WORLD ..]      says `right` when all is

grid: a choice that continuous integration has time for; deep: all combinations, of many processes a part.
"""
import itertools
import os
import sys
import tempfile
import time
import traceback
import unittest.mock as mock
import warnings

import torch
import torch.distributed as dist
import torch.fx.experimental.symbolic_shapes  # noqa: F401  (else each process imports it when it first differentiates)
import torch.multiprocessing as mp

from tilec.torch import distributed as spread, scaling, wire
from tilec.torch.error import Error


def scores(q, k, mask):
    """(scores, d scores / d (scale q k^T)) of [B, H, rows, D]; queries and keys agree at their ends, but for the mask's shift."""
    s = mask.scale * (q @ k.transpose(2, 3))
    place = torch.arange(s.shape[2])[:, None] + s.shape[3] - s.shape[2] + mask.shift
    slope, key = torch.ones_like(s), torch.arange(s.shape[3])
    if mask.softcap:
        t = torch.tanh(s / mask.softcap)
        s, slope = mask.softcap * t, 1 - t * t
    if mask.alibi:
        heads = 2.0 ** (-8 * (torch.arange(s.shape[1], dtype=s.dtype) + mask.first + 1) / mask.heads)
        s = s - heads[:, None, None] * (place - key).abs()
    hidden = torch.zeros(s.shape[2:], dtype=torch.bool)
    if mask.causal:
        hidden |= key > place
    if mask.window > 0:
        hidden |= key <= place - mask.window
    if mask.right >= 0:
        hidden |= key > place + mask.right
    return s.masked_fill(hidden, -torch.inf), slope


def plain(q, k, v, mask):
    """(O, L) of attention by plain operations."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    s, _ = scores(q, k.repeat_interleave(group, 1), mask)
    lse = s.logsumexp(-1)
    return ((s - lse.masked_fill(lse == -torch.inf, 0)[..., None]).exp() @ v.repeat_interleave(group, 1)).transpose(1, 2), lse


class Reference:
    """What Blocks does, by plain operations."""

    rounded = None

    def __init__(self, packing):
        self.packing = packing

    def packs(self, mask):
        return self.packing

    def _each(self, mask, rows):
        if mask.starts is None:
            return [(0, rows)]
        return list(zip(mask.starts, mask.starts[1:]))

    def forward(self, q, k, v, mask):
        dtype, (q, k, v) = q.dtype, (x.double() for x in (q, k, v))
        made = [plain(*(x[:, a:b] for x in (q, k, v)), mask) if mask.starts else plain(q, k, v, mask)
                for a, b in self._each(mask, q.shape[1])]
        lse = torch.cat([lse for _, lse in made], 2)
        return torch.cat([o for o, _ in made], 1).to(dtype), lse if dtype == torch.float64 else lse.float()

    def backward(self, q, k, v, o, lse, grad, mask):
        if mask.starts is not None:
            made = [self._backward(*(x[:, a:b] for x in (q, k, v, o)), lse[:, :, a:b], grad[:, a:b], mask)
                    for a, b in self._each(mask, q.shape[1])]
            return [torch.cat(x, 1) for x in zip(*made)]
        return self._backward(q, k, v, o, lse, grad, mask)

    def query_sums(self, q):
        return torch.zeros_like(q, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)

    def backward_parts(self, q, k, v, o, lse, grad, mask, sums, keys=True):
        """float32 of 16 bits."""
        with mock.patch.object(self, "rounded", sums.dtype):
            dq, *those = self.backward(q, k, v, o, lse, grad, mask)
        sums += dq / mask.scale
        return [x if keys else x.to(q.dtype) for x in those]

    def query_gradient(self, sums, scale, dtype):
        return (sums * scale).to(dtype)

    def _backward(self, q, k, v, o, lse, grad, mask):
        group, dtype = q.shape[2] // k.shape[2], self.rounded or q.dtype
        q, k, v, o, grad = (x.transpose(1, 2).double() for x in (q, k, v, o, grad))
        many, values = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        s, slope = scores(q, many, mask)
        p = (s - lse.masked_fill(lse == -torch.inf, torch.inf)[..., None]).exp()
        ds = p * (grad @ values.transpose(2, 3) - (grad * o).sum(-1, keepdim=True)) * mask.scale * slope
        dk, dv = ds.transpose(2, 3) @ q, p.transpose(2, 3) @ grad
        dk, dv = (x.unflatten(1, (-1, group)).sum(2) for x in (dk, dv))
        return [x.transpose(1, 2).to(dtype) for x in (ds @ many, dk, dv)]

    def encode(self, x, scales):
        return (x / scales[:, None, :, None]).to(torch.float8_e4m3fn).view(torch.uint8)

    def decode(self, codes, scales, dtype):
        return codes.view(torch.float8_e4m3fn).to(dtype) * scales[:, None, :, None].to(dtype)

    def merge(self, o, lse, more, more_lse):
        both = torch.logaddexp(lse, more_lse)
        base = both.masked_fill(both == -torch.inf, 0)
        share = [(x - base).exp().transpose(1, 2)[..., None] for x in (lse, more_lse)]
        o.copy_(o * share[0] + more * share[1])
        lse.copy_(both)


class Eight(Reference):
    """What blocks.Eight does, by plain operations in float64."""

    def __init__(self, scale_q):
        super().__init__(False)
        self.scale_q = scale_q

    def forward(self, q, k, v, scale_k, scale_v, mask):
        assert {x.dtype for x in (q, k, v)} == {torch.uint8}
        return super().forward(*(self.decode(x, scale, torch.float64) for x, scale in ((q, self.scale_q), (k, scale_k), (v, scale_v))), mask)


class Case:
    """One way to spread, and the whole that it must equal."""

    def __init__(self, world, heads, key_heads, rows, order="zigzag", starts=None, **options):
        self.world, self.heads, self.key_heads, self.rows, self.order = world, heads, key_heads, rows, order
        self.starts, self.options = starts, options
        self.name = f"world {world} heads {heads}/{key_heads} rows {rows} {order} {starts or ''} {options}"
        if starts:
            self.at = spread.deal_packed(starts, causal=options.get("causal"), window=options.get("window"))
        else:
            self.at = spread.deal(rows, order=order)

    def whole(self):
        torch.manual_seed(self.rows + self.heads)
        b = 1 if self.starts else 2
        shapes = [(self.heads, 8), (self.key_heads, 8), (self.key_heads, 4)]
        whole = [torch.randn(b, self.rows, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
        given = {name: value for name, value in self.options.items() if name != "packing"}
        mask = spread._mask(whole[0], self.rows, {"scale": None, "softcap": 0.0, "causal": False, "window": None, "right": None,
                                                  "alibi": False, **given})
        mask = spread.replace(mask, heads=self.heads)
        starts = self.starts or (0, self.rows)
        made = [plain(*(x[:, a:b] for x in whole), mask) for a, b in zip(starts, starts[1:])]
        out, lse = torch.cat([o for o, _ in made], 1), torch.cat([lse for _, lse in made], 2)
        grad = torch.randn_like(out)
        return [x.detach() for x in whole], grad, [out.detach(), lse.detach(), *torch.autograd.grad(out, whole, grad)]

    def run(self, whole, grad, heads):
        mine = [spread.shard(x, at=self.at).requires_grad_() for x in whole]
        given = {name: value for name, value in self.options.items() if name != "packing"}
        blocks = Reference(self.options.get("packing", True))
        out, lse = spread.attention(*mine, at=self.at, heads=heads, return_lse=True, blocks=blocks, **given)
        return [out.detach(), lse, *torch.autograd.grad(out, mine, spread.shard(grad, at=self.at))]

    def check(self, divisions):
        """By each division; and twice with the same bits by the last."""
        whole, grad, want = self.whole()
        for heads in divisions:
            have = self.run(whole, grad, heads)
            for name, x, y in zip(("O", "L", "dQ", "dK", "dV"), have, want):
                dim = 2 if name == "L" else 1
                error = (x - spread.shard(y, at=self.at, dim=dim)).abs().max().item()
                assert error < 1e-12, f"{self.name} exchange {heads}: {name} is off by {error}"
        assert all(torch.equal(x, y) for x, y in zip(have, self.run(whole, grad, heads))), f"{self.name}: other bits"
        assert torch.equal(spread.unshard(spread.shard(whole[0], at=self.at), at=self.at), whole[0]), "unshard"


def deep(world):
    masks = [{}, {"causal": True}, *({"causal": causal, "window": w} for causal in (False, True) for w in (1, 3, 4, 7, 13)),
             {"right": 2}, {"right": 0, "window": 9}]
    masks += [{**mask, **more} for mask in masks
              for more in ({"softcap": 2.0}, {"alibi": True}, {"alibi": True, "softcap": 1.0, "scale": 0.7})]
    for order, rows, mask in itertools.product(("zigzag", "whole"), (4 * world, 4 * world + 1, 7 * world - 1), masks):
        for heads, key_heads in ((1, 1), (8, 1), (8, 2), (8, 8)):
            yield Case(world, heads, key_heads, rows, order, **mask)
    for lengths in ((20, 1, 3, 3), (4,) * 8, (2, 0, 30, 7, 9, 11, 1, 3), (50, 40)):
        starts = tuple(itertools.accumulate((0, *lengths)))
        for mask, packing in itertools.product(masks, (False, True)):
            try:
                yield Case(world, 8, 1, starts[-1], starts=starts, packing=packing, **mask)
            except Error as error:
                assert "would have none" in str(error)


def grid(world):
    """Every kind of case, and on many processes not all of them."""
    yield from itertools.islice(few(world), world % 2, None, 1 if world < 3 else 2 if world < 5 else 3)


def few(world):
    yield Case(world, 4, 4, 4 * world)
    yield Case(world, 8, 8, 2 * world, causal=True)  # parts of a row
    yield Case(world, 8, 1, 4 * world + 1, causal=True)
    yield Case(world, 1, 1, 6 * world, causal=True, softcap=2.0)
    yield Case(world, 8, 2, 4 * world, "whole", causal=True, window=1)
    yield Case(world, 8, 8, 4 * world + 1, "whole", causal=True, window=4)
    yield Case(world, 2, 1, 3 * world + 2, "whole", causal=True, window=9, alibi=True)
    yield Case(world, 8, 2, 4 * world, "whole", window=3, right=6, softcap=1.0)
    yield Case(world, 4, 2, 5 * world, causal=True, alibi=True)
    starts = (0, 40, 41, 44, 44, 60, 61, 70, 80)
    yield Case(world, 8, 1, 80, starts=starts, causal=True)
    yield Case(world, 2, 2, 80, starts=starts, packing=False, window=5)


def unlike(world):
    """Without a mask q may have other rows than k and v; a ring and Ulysses by their names; the rule."""
    torch.manual_seed(world)
    q, k, v = (torch.randn(1, rows * world, 4, 8, dtype=torch.float64) for rows in (3, 5, 5))
    want = plain(q, k, v, spread.Mask(scale=8 ** -0.5))[0]
    these = [spread.shard(x, order="whole") for x in (q, k, v)]
    made = [spread.ring_attention(*these, blocks=Reference(True)), spread.attention(*these, blocks=Reference(True))]
    if 4 % world == 0:
        made.append(spread.ulysses_attention(*these, blocks=Reference(True)))
    for x in made:
        assert (x - spread.shard(want, order="whole")).abs().max() < 1e-12
    q = torch.randn(1, 4 * world, 4, 8, dtype=torch.float64)
    want = spread.shard(plain(q, q, q, spread.Mask(scale=8 ** -0.5, causal=True))[0])
    mine = spread.shard(q)
    assert (spread.ring_attention(mine, mine, mine, causal=True, blocks=Reference(True)) - want).abs().max() < 1e-12


def narrow(world):
    """In 16 bits: results and gradients have the types of what they are of, and are rounded few times."""
    case = Case(world, 8, 2, 8 * world, causal=True)
    whole, grad, want = case.whole()
    for heads in (1, world if 8 % world == 0 and world < 4 else 1):
        have = case.run([x.bfloat16() for x in whole], grad.bfloat16(), heads)
        for x, y, dtype in zip(have, want, (torch.bfloat16, torch.float32, *[torch.bfloat16] * 3)):
            y = spread.shard(y, at=case.at, dim=2 if dtype == torch.float32 else 1)
            assert x.dtype == dtype and x.shape == y.shape and (x - y).abs().max() < 0.02 * max(1, y.abs().max())


def rounded_once(world):
    """Gradients of a ring in 16 bits are the sums of what each process finds, rounded once; of two dK and dV travel rounded."""
    for order, more in (("zigzag", {"causal": True}), ("whole", {"causal": True, "window": 5}), ("zigzag", {"causal": True, "alibi": True})):
        case = Case(world, 4, 2, 8 * world, order, **more)
        whole, grad, _ = case.whole()
        whole, grad = [x.bfloat16() for x in whole], grad.bfloat16()
        mine = [spread.shard(x, at=case.at).requires_grad_() for x in whole]
        out, lse = spread.attention(*mine, at=case.at, heads=1, return_lse=True, blocks=Reference(True), **more)
        have = torch.autograd.grad(out, mine, spread.shard(grad, at=case.at))
        mask = spread.replace(spread._mask(whole[0], case.rows, {name: more.get(name) for name in spread.attend.OPTIONS} | {
            "causal": True, "alibi": more.get("alibi", False)}), heads=4)
        saved = [spread.unshard(x.detach(), at=case.at, dim=dim) for x, dim in ((out, 1), (lse, 2))]
        want = Reference(True).backward(*(x.double() for x in (*whole, *saved, grad)), mask)
        for name, x, y in zip(("dQ", "dK", "dV"), have, want):
            y = spread.shard(y, at=case.at)
            ulp = torch.exp2(torch.floor(torch.log2(y.abs().clamp(min=2 ** -20))) - 7)
            ulps = ((x.double() - y).abs() - 1e-5).div(ulp).max()
            assert ulps <= 0.5 or (name != "dQ" and (world == 2 or "window" in more)), (case.name, name, ulps)


def of_whole(case, q, k, v, options):
    """O of the sequences of a case."""
    starts = case.starts or (0, case.rows)
    mask = spread._mask(q, case.rows, dict.fromkeys(spread.attend.OPTIONS) | {"causal": False, "alibi": False} | options)
    made = [plain(*(x[:, a:b] for x in (q, k, v)), mask)[0] for a, b in zip(starts, starts[1:])]
    return torch.cat(made, 1)


def some(world):
    yield Case(world, 8, 2, 8 * world, causal=True)
    yield Case(world, 8, 2, 8 * world + 3, "whole", causal=True, window=5)
    yield Case(world, 4, 1, 80, starts=(0, 40, 41, 44, 44, 60, 61, 70, 80), causal=True)
    yield Case(world, 2, 2, 5 * world, "whole")


def eight_bits(world):
    """q, k and v of 8 bits, with scales of each process's own."""
    for case in some(world):
        whole, _, _ = case.whole()
        torch.manual_seed(dist.get_rank())
        codes = [spread.shard(x, at=case.at).to(torch.float8_e4m3fn) for x in whole]
        scales = [torch.rand(x.shape[0], x.shape[2]) + 0.5 for x in codes]
        if case.order == "whole":
            scales[0], scales[2] = scales[0][0], 0.75
        numbers = [x.double() * (torch.full((1, 1), s) if isinstance(s, float) else s.expand(x.shape[0], -1))[:, None, :, None].double()
                   for x, s in zip(codes, scales)]
        want = of_whole(case, *(spread.unshard(x, at=case.at) for x in numbers), case.options)
        given = dict(zip(("scale_q", "scale_k", "scale_v"), scales))
        per_head = torch.as_tensor(scales[0]).expand(codes[0].shape[0], -1)
        have = spread.attention(*codes, at=case.at, blocks=Eight(per_head), **given, **case.options)
        error = (have - spread.shard(want, at=case.at)).abs().max()
        assert error < 1e-12, (case.name, error)


def on_the_wire(world):
    """wire="e4m3": keys that come from others are rounded, a process's own (those of the group that exchanges heads) are not, and
    gradients are of what was computed with."""
    for case in some(world):
        whole, grad, _ = case.whole()
        for heads in scaling.divisions(scaling.Shape(case.rows, case.heads, case.key_heads), world):
            groups, leaves = case.at.together(heads), [x.clone().requires_grad_() for x in whole]
            rounded = [whole[0], *(torch.empty_like(x) for x in whole[1:])]
            for x, y in zip(whole[1:], rounded[1:]):
                for places in map(groups.places, range(groups.world)):
                    theirs = torch.cat([x[:, a:b] for a, b in places], 1)
                    scales = wire.scales_of(theirs)
                    assert (theirs.abs().amax((1, 3)) / scales).le(448).all() and (theirs.abs().amax((1, 3)) / scales).gt(224).all()
                    theirs = Reference(True).decode(Reference(True).encode(theirs, scales), scales, x.dtype)
                    for (a, b), part in zip(places, theirs.split([b - a for a, b in places], 1)):
                        y[:, a:b] = part
            assert not torch.equal(rounded[1], whole[1])
            out, total = torch.empty_like(grad), 0.0
            for places in map(groups.places, range(groups.world)):
                mine = []
                for x, y, leaf in zip(whole, rounded, leaves):
                    y = y.clone()
                    for a, b in places:
                        y[:, a:b] = x[:, a:b]
                    mine.append(leaf + (y - leaf).detach())
                made = of_whole(case, *mine, case.options)
                for a, b in places:
                    out[:, a:b] = made[:, a:b].detach()
                    total = total + (made[:, a:b] * grad[:, a:b]).sum()
            want = [out, *torch.autograd.grad(total, leaves)]
            mine = [spread.shard(x, at=case.at).requires_grad_() for x in whole]
            have = spread.attention(*mine, at=case.at, heads=heads, blocks=Reference(True), wire="e4m3", **case.options)
            have = [have.detach(), *torch.autograd.grad(have, mine, spread.shard(grad, at=case.at))]
            for name, x, y in zip(("O", "dQ", "dK", "dV"), have, want):
                error = (x - spread.shard(y, at=case.at)).abs().max().item()
                assert error < 1e-12, f"{case.name} exchange {heads}: {name} is off by {error}"
    q = torch.ones(1, 4, 2, 8)
    k = q.clone()
    if dist.get_rank() == world - 1:
        k[0, 1, 0, 3] = torch.inf  # no e4m3: its head is no number to others
    have = spread.attention(q, k, q, heads=1, blocks=Reference(True), wire="e4m3")
    assert have[:, :, 0].isnan().all() and torch.allclose(have[:, :, 1], q[:, :, 1])
    assert wire.scales_of(torch.zeros(1, 2, 1, 4)).item() > 0


def refusals(world):
    def refused(words, function):
        try:
            function()
        except Error as error:
            assert words in str(error), str(error)
        else:
            raise AssertionError(f"not refused: {words}")

    x = torch.randn(1, 4, 6, 16)
    at = spread.deal(4 * world)
    if world > 1:
        refused("no multiple of", lambda: spread.ulysses_attention(x[:, :, :1], x[:, :, :1], x[:, :, :1]))
        refused("fewer than the", lambda: spread.shard(torch.zeros(1, 2 * world - 1)))
        refused("must divide", lambda: spread.attention(x, x, x, heads=world + 1))
    if world == 4:
        refused("neither of", lambda: spread.attention(x.repeat(1, 1, 2, 1), x[:, :, :3], x[:, :, :3], heads=4))
    refused("as many rows", lambda: spread.attention(x[:, :2], x, x, causal=True))
    refused("as many rows", lambda: spread.attention(x[:, :2], x, x, window=2))
    refused("4 dimensions", lambda: spread.attention(x[0], x, x))
    refused("do not fit", lambda: spread.attention(x[:, :, :5], x[:, :, :2], x[:, :, :2]))
    refused("is not known", lambda: spread.shard(x, order="odd"))
    refused("what deal()", lambda: spread.attention(x, x, x, at=4))
    refused("gives this process 4", lambda: spread.attention(x[:, :3], x[:, :3], x[:, :3], at=at))
    refused("deals out", lambda: spread.shard(torch.zeros(1, 4 * world + 1), at=at))
    refused("the window is", lambda: spread.attention(x, x, x, window=0))
    refused("the scale must", lambda: spread.attention(x, x, x, scale=0.0))
    refused("starts begin", lambda: spread.deal_packed([1, 2]))
    refused("layout", lambda: spread.ulysses_attention(x, x, x, layout="bhsd"))
    refused("wire is None", lambda: spread.attention(x, x, x, wire="int8"))
    refused("are for q, k and v in float8", lambda: spread.attention(x, x, x, scale_k=1.0))
    y = x.to(torch.float8_e4m3fn)
    refused("by a ring alone", lambda: spread.attention(y, y, y, heads=2))
    refused("go without a softcap", lambda: spread.attention(y, y, y, softcap=1.0))
    refused("have no gradients", lambda: spread.attention(y, y, y, scale_v=torch.ones(6, requires_grad=True)))
    refused("q has 4 dimensions and the type torch.float32", lambda: spread.attention(x, y, y))
    refused("scale_k has the shape [5]", lambda: spread.attention(y, y, y, scale_k=torch.ones(5)))
    packed = spread.deal_packed([0, *range(8, 8 * world + 1, 8)])
    if packed.rows(dist.get_rank()) == 8 and world > 1:
        y = torch.randn(2, 8, 2, 16)
        refused("batch of 1", lambda: spread.attention(y, y, y, at=packed))


def process(rank, world, which, folder):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # there is no GPU
    dist.init_process_group("gloo", init_method=f"file://{folder}/store{world}", rank=rank, world_size=world)
    begun, count = time.time(), 0
    cases = grid(world) if which == "grid" else itertools.islice(deep(world), 0, None, {1: 1, 2: 1, 3: 2, 4: 3}.get(world, 13))
    for case in cases:
        every = scaling.divisions(scaling.Shape(case.rows, case.heads, case.key_heads), world)
        case.check(every)
        count += len(every)
    unlike(world)
    narrow(world)
    rounded_once(world)
    eight_bits(world)
    on_the_wire(world)
    refusals(world)
    if rank == 0:
        print(f"{world} processes: {count} cases, {time.time() - begun:.1f} s", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def forked(*arguments):
    try:
        process(*arguments)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main():
    """Processes are forked, so that each need not import PyTorch again."""
    given = sys.argv[1:]
    which = next((x for x in given if x in ("grid", "deep")), "grid")
    worlds = [int(x) for x in given if x.isdigit()] or [1, 2, 3, 4, 8]
    with tempfile.TemporaryDirectory() as at:
        for world in worlds:
            processes = [mp.get_context("fork").Process(target=forked, args=(rank, world, which, at)) for rank in range(world)]
            for p in processes:
                p.start()
            while any(p.is_alive() for p in processes) and not any(p.exitcode for p in processes):
                processes[0].join(0.05)
                time.sleep(0.02)
            if any(p.exitcode for p in processes):
                for p in processes:
                    p.kill()
                sys.exit(1)
    print("right")


if __name__ == "__main__":
    main()
