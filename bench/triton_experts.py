"""triton_experts.py - the experts of a mixture in Triton, in the form that engines use: products of tiles of sorted pairs, whose rows are
gathered from the tokens; SwiGLU, then the weighted sums, as kernels of their own.  Written here; no engine's code.

Sorted pairs are made before: what is timed has no routing.
"""
import torch
import triton
import triton.language as tl

# BM, BN, BK, GROUP, warps, stages
FEW = [(16, 64, 128, 1, 4, 4), (16, 128, 64, 1, 4, 5), (16, 128, 128, 1, 8, 3)]
SOME = [(32, 64, 128, 1, 4, 4), (64, 64, 128, 1, 4, 3), (64, 128, 64, 1, 4, 4)]
MANY = [(64, 128, 64, 8, 4, 4), (128, 128, 64, 16, 8, 4), (128, 256, 64, 16, 8, 3)]


def configs(each):
    """For so many tokens of an expert."""
    return FEW if each <= 12 else SOME if each <= 48 else SOME[1:] + MANY if each <= 160 else MANY


@triton.jit(do_not_specialize=["pairs", "tiles"])
def product(x, w, y, ids, experts, count, weights, n, k, pairs, tiles, TOP: tl.constexpr, WEIGHTED: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    columns = n // BN
    number = tl.program_id(0)
    group = number // (GROUP * columns)
    height = min(tiles - group * GROUP, GROUP)
    inside = number % (GROUP * columns)
    tile, column = group * GROUP + inside % height, inside // height
    if tile * BM >= tl.load(count):
        return
    pair = tl.load(ids + tile * BM + tl.arange(0, BM))
    inside = pair < pairs
    e = tl.load(experts + tile).to(tl.int64)
    along = tl.arange(0, BK)
    of_x = x + (pair // TOP).to(tl.int64)[:, None] * k + along[None, :]
    of_w = w + (e * n + column * BN + tl.arange(0, BN))[None, :] * k + along[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, k // BK):
        acc = tl.dot(tl.load(of_x, mask=inside[:, None], other=0.0), tl.load(of_w), acc)
        of_x += BK
        of_w += BK
    if WEIGHTED:
        acc *= tl.load(weights + pair, mask=inside, other=0.0)[:, None]
    to = y + pair.to(tl.int64)[:, None] * n + column * BN + tl.arange(0, BN)[None, :]
    tl.store(to, acc.to(tl.bfloat16), mask=inside[:, None])


@triton.jit
def silu_mul(a, h, f, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(a + row * 2 * f + at, mask=at < f).to(tl.float32)
    up = tl.load(a + row * 2 * f + f + at, mask=at < f).to(tl.float32)
    tl.store(h + row * f + at, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=at < f)


@triton.jit
def total(y, z, d, TOP: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(TOP):
        acc += tl.load(y + (row * TOP + k) * d + at, mask=at < d).to(tl.float32)
    tl.store(z + row * d + at, acc.to(tl.bfloat16), mask=at < d)


def sorted_pairs(ids, experts, bm):
    """Pairs by expert, each expert's filled up to whole tiles with a number that is no pair's; experts of tiles; how many."""
    flat = ids.flatten()
    count = torch.bincount(flat, minlength=experts)
    whole = (count + bm - 1) // bm * bm
    ends = whole.cumsum(0)
    order = flat.argsort(stable=True)
    first = (count.cumsum(0) - count)[flat[order]]
    place = (ends - whole)[flat[order]] + torch.arange(len(flat), device=ids.device) - first
    alone = min(len(flat), experts)
    tiles = alone + (len(flat) - alone) // bm
    made = torch.full((tiles * bm,), len(flat), dtype=torch.int32, device=ids.device)
    made[place] = order.int()
    of_tiles = torch.searchsorted(ends, torch.arange(tiles, device=ids.device) * bm, right=True).clamp(max=experts - 1).int()
    return made, of_tiles, ends[-1:].int()


class Experts:
    """A call with what it writes to; both products are in one configuration."""

    def __init__(self, config, x, weights, ids, g, w):
        self.config, self.x, self.weights, self.g, self.w = config, x, weights.flatten(), g, w
        (self.tokens, self.top), (self.experts, both, self.d) = ids.shape, g.shape
        self.ids, self.of_tiles, self.count = sorted_pairs(ids, self.experts, config[0])
        new = lambda *shape: torch.empty(*shape, dtype=torch.bfloat16, device=x.device)  # noqa: E731
        pairs = self.tokens * self.top
        self.a, self.h, self.y, self.z = new(pairs, both), new(pairs, both // 2), new(pairs, self.d), new(self.tokens, self.d)

    def one(self, x, w, y, top, weighted):
        bm, bn, bk, group, warps, stages = self.config
        (_, n, k), tiles = w.shape, len(self.of_tiles)
        product[(tiles * (n // bn),)](x, w, y, self.ids, self.of_tiles, self.count, self.weights, n, k, len(self.y), tiles, top, weighted, bm, bn, bk,
                                      group, num_warps=warps, num_stages=stages)

    def __call__(self):
        f, (pairs, _) = self.h.shape[1], self.a.shape
        self.one(self.x, self.g, self.a, self.top, False)
        silu_mul[(pairs, triton.cdiv(f, 1024))](self.a, self.h, f, 1024)
        self.one(self.h, self.w, self.y, 1, True)
        total[(self.tokens, triton.cdiv(self.d, 1024))](self.y, self.z, self.d, self.top, 1024)
        return self.z
