"""triton_weights.py - a product by weights of 4 bits in Triton: bytes of two along K, unpacked beside tl.dot, a scale for each group."""
import triton
import triton.language as tl

G = 128
# BM, BN, BK, parts of K, stages, warps: those of fifteen that won in a first run
FEW = [(16, 16, 128, 4, 6, 2), (16, 32, 128, 1, 6, 2), (16, 64, 128, 1, 5, 4), (16, 128, 128, 2, 4, 4)]
SOME = [(64, 32, 128, 2, 4, 4), (64, 64, 128, 1, 4, 4), (64, 128, 128, 1, 3, 8)]
MANY = [(128, 128, 64, 1, 4, 8), (128, 64, 128, 1, 4, 4)]


def configs(m):
    return FEW if m <= 16 else SOME if m <= 64 else MANY


@triton.jit(do_not_specialize=["m"])
def kernel(x, q, s, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr, GROUP: tl.constexpr, ADD: tl.constexpr):
    columns = tl.cdiv(n, BN)
    tile, part = tl.program_id(0), tl.program_id(1)
    row, column = tile // columns, tile % columns
    rows = (row * BM + tl.arange(0, BM)) % m
    cols = column * BN + tl.arange(0, BN)
    first = part * (k // PARTS)
    of_x = x + rows[:, None] * k + first + tl.arange(0, BK)[None, :]
    of_q = q + cols[:, None] * (k // 2) + first // 2 + tl.arange(0, BK // 2)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, k // PARTS, BK):
        two = tl.load(of_q)
        codes = tl.reshape(tl.join(two & 15, two >> 4), (BN, BK))
        scale = tl.load(s + (first + i) // GROUP * n + cols)
        w = ((codes.to(tl.float32) - 8.0) * scale.to(tl.float32)[:, None]).to(tl.bfloat16)
        acc = tl.dot(tl.load(of_x), w.T, acc)
        of_x += BK
        of_q += BK // 2
    rows = row * BM + tl.arange(0, BM)
    at = y + rows[:, None] * n + cols[None, :]
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    if ADD:
        tl.atomic_add(at, acc, mask=inside)
    else:
        tl.store(at, acc.to(tl.bfloat16), mask=inside)


def product(config, x, q, s):
    import torch
    bm, bn, bk, parts, stages, warps = config
    (m, k), n = x.shape, q.shape[0]
    y = torch.zeros(m, n, device=x.device, dtype=torch.float32) if parts > 1 else torch.empty(m, n, device=x.device, dtype=x.dtype)
    kernel[(triton.cdiv(m, bm) * triton.cdiv(n, bn), parts)](x, q, s, y, m, n, k, bm, bn, bk, parts, G, parts > 1, num_stages=stages, num_warps=warps)
    return y.to(x.dtype) if parts > 1 else y
