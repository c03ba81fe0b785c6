"""triton_products.py - matrix products in Triton, as its tutorials write them, with configurations to choose from: of plain
pointers, and persistent with tensor descriptors."""

import functools

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

VERSION = triton.__version__
GROUP = 8
# BM, BN, BK, stages, warps
FEW = [(16, 64, 128, 5, 4), (16, 32, 256, 4, 4), (16, 128, 128, 4, 4), (32, 64, 128, 5, 4), (64, 64, 128, 4, 4), (64, 128, 64, 4, 4)]
MANY = [(64, 64, 128, 4, 4), (64, 128, 64, 4, 4), (128, 128, 64, 4, 4), (128, 128, 64, 4, 8), (64, 256, 64, 4, 4), (128, 256, 64, 3, 8)]
DESCRIPTORS = [(64, 128, 64, 5, 4), (64, 256, 64, 4, 4), (128, 128, 64, 4, 8), (128, 128, 128, 3, 8), (128, 256, 64, 3, 8)]


@triton.jit
def place(tile, m, n, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    rows, columns = tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = tile // (GROUP * columns)
    first = group * GROUP
    height = min(rows - first, GROUP)
    inside = tile % (GROUP * columns)
    return first + inside % height, inside // height


@triton.jit(do_not_specialize=["m"])
def product(a, b, c, m, n, k, step_a, step_bk, step_bn, step_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            WHOLE: tl.constexpr, GROUP: tl.constexpr):
    row, column = place(tl.program_id(0), m, n, BM, BN, GROUP)
    rows = (row * BM + tl.arange(0, BM)) % m
    columns = (column * BN + tl.arange(0, BN)) % n
    along = tl.arange(0, BK)
    of_a = a + rows[:, None] * step_a + along[None, :]
    of_b = b + along[:, None] * step_bk + columns[None, :] * step_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(k, BK)):
        if WHOLE:
            x, y = tl.load(of_a), tl.load(of_b)
        else:
            x = tl.load(of_a, mask=along[None, :] < k - i * BK, other=0.0)
            y = tl.load(of_b, mask=along[:, None] < k - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        of_a += BK
        of_b += BK * step_bk
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * step_c + columns[None, :], acc.to(tl.bfloat16), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit(do_not_specialize=["m"])
def persistent(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TRANSPOSED: tl.constexpr,
               GROUP: tl.constexpr, SMS: tl.constexpr):
    tiles = tl.cdiv(m, BM) * tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tiles, SMS, flatten=True):
        row, column = place(tile, m, n, BM, BN, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(0, tl.cdiv(k, BK)):
            x = a.load([row * BM, i * BK])
            if TRANSPOSED:
                y = b.load([column * BN, i * BK]).T
            else:
                y = b.load([i * BK, column * BN])
            acc = tl.dot(x, y, acc)
        c.store([row * BM, column * BN], acc.to(tl.bfloat16))


def sms():
    import torch
    return torch.cuda.get_device_properties(0).multi_processor_count


def run_plain(config, a, b, c):
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk, stages, warps = config
    product[(triton.cdiv(m, bm) * triton.cdiv(n, bn),)](a, b, c, m, n, k, a.stride(0), *b.stride(), c.stride(0), bm, bn, bk,
                                                       k % bk == 0, GROUP, num_stages=stages, num_warps=warps)


def run_persistent(config, count, maps, m, n, k, transposed):
    bm, bn, bk, stages, warps = config
    persistent[(min(count, triton.cdiv(m, bm) * triton.cdiv(n, bn)),)](*maps, m, n, k, bm, bn, bk, transposed, GROUP, count,
                                                                      num_stages=stages, num_warps=warps)


def runs(a, b, c):
    """[(name, function)] of all configurations for a product of a and b, whose rows or columns are contiguous"""
    (m, k), n = a.shape, b.shape[1]
    found = [("plain-" + "-".join(map(str, config)), functools.partial(run_plain, config, a, b, c))
             for config in (FEW if m <= 64 else MANY)]
    if m > 64 and n % 8 == 0 and k % 8 == 0:
        transposed = b.stride(0) == 1
        for config in DESCRIPTORS:
            bm, bn, bk = config[:3]
            maps = [TensorDescriptor.from_tensor(a, [bm, bk]),
                    TensorDescriptor.from_tensor(b.t(), [bn, bk]) if transposed else TensorDescriptor.from_tensor(b, [bk, bn]),
                    TensorDescriptor.from_tensor(c, [bm, bn])]
            found.append(("descriptors-" + "-".join(map(str, config)),
                          functools.partial(run_persistent, config, sms(), maps, m, n, k, transposed)))
    return found


def warm(part, parts):
    """Compiles into Triton's cache what `runs` may take, a part of it."""
    import torch
    todo = [(m, n, k, transposed, number) for m in (64, 128) for n, k in ((512, 512), (513, 512), (512, 513))
            for transposed in (False, True) for number in range(11)]
    for m, n, k, transposed, number in todo[part::parts]:
        a, c = (torch.zeros(m, width, device="cuda", dtype=torch.bfloat16) for width in (k, n))
        b = torch.zeros(n, k, device="cuda", dtype=torch.bfloat16).t() if transposed else torch.zeros(k, n, device="cuda", dtype=a.dtype)
        for name, run in runs(a, b, c)[number:number + 1]:
            try:
                run()
                torch.cuda.synchronize()
            except Exception as error:
                print(f"# {name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    return 0
