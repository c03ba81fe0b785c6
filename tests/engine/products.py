"""products.py - rows 44 to 58 of engine.py: matrix products, with bytes, with four bits, with scales."""
import numpy as np

from elementwise import gelu
from table import Array, Case, normal, row, rounded, sigmoid

SIZES = [(70, 72, 200), (5, 136, 64)]  # M, N, K


@row(44, "product of bf16, bias, activation", "gemm.tile", 20, "wgmma", "tcgen05")
def gemm(random):
    for (m, n, k), activation in zip([(130, 72, 200), (5, 136, 64)], (2, 1)):
        a, b, bias = normal(random, "bf16", m, k), normal(random, "bf16", k, n), normal(random, "f32", n)
        x = a.values @ b.values + bias.values
        yield Case({"A": a, "B": b, "bias": bias}, {"C": gelu(x) if activation == 2 else np.maximum(x, 0)}, {"C": "bf16"}, {"ACTIVATION": activation})


@row(45, "product with the inner dimension shared by programs", "split_k.tile", 16, "wgmma", "tcgen05")
def split_k(random):
    for m, n, k in SIZES:
        a, b, c = normal(random, "bf16", m, k), normal(random, "bf16", k, n), normal(random, "f32", m, n)
        yield Case({"A": a, "B": b, "Cs": c}, {"Cs": c.values + a.values @ b.values}, {"Cs": "f32"}, {"TM": 128} if m > 64 else {}, {"X": 3})


@row(46, "stream-K: programs share all iterations", "stream_k.tile", 20, "mma", "mma")
def stream_k(random):
    for m, n, k in SIZES:
        a, b, c = normal(random, "bf16", m, k), normal(random, "bf16", k, n), normal(random, "f32", m, n)
        yield Case({"A": a, "B": b, "C": c}, {"C": c.values + a.values @ b.values}, {"C": "f32"}, {}, {"G": 5})


@row(47, "gate and up projections with SwiGLU", "gated_mlp.tile", 14, "wgmma", "tcgen05")
def gated_mlp(random):
    for m, n, k in SIZES:
        x, g, u = normal(random, "bf16", m, k), normal(random, "bf16", k, n), normal(random, "bf16", k, n)
        gate = x.values @ g.values
        yield Case({"X": x, "G": g, "U": u}, {"Y": gate * sigmoid(gate) * (x.values @ u.values)}, {"Y": "bf16"}, {"TM": 128} if m > 64 else {})


@row(48, "W8A8: i8 with scales of tokens and channels", "w8a8.tile", 15, "wgmma", "tcgen05")
def w8a8(random):
    for m, n, k in [(130, 72, 208), (5, 136, 64)]:
        a, w = (Array(random.integers(-128, 128, s), "i8") for s in [(m, k), (n, k)])
        sa, sw = Array(random.uniform(0, 0.01, m), "f32"), Array(random.uniform(0, 0.01, n), "f32")
        y = a.values.astype(float) @ w.values.astype(float).T * sa.values[:, None] * sw.values
        yield Case({"A": a, "W": w, "SA": sa, "SW": sw}, {"C": y}, {"C": "bf16"}, {"TM": 128} if m > 64 else {})


@row(49, "FP8 with scales of 1 x 128 and 128 x 128", "fp8_blocks.tile", 21, "wgmma", "mma")
def fp8_blocks(random):
    for m, n, k in [(70, 200, 384), (5, 72, 144)]:
        a, b = normal(random, "e4m3", m, k), normal(random, "e4m3", n, k)
        sa = Array(random.uniform(0.5, 1, (m, -(-k // 128))), "f32")
        sb = Array(random.uniform(0.5, 1, (-(-n // 128), -(-k // 128))), "f32")
        wide = np.repeat(np.repeat(sb.values, 128, 0)[:n], 128, 1)[:, :k]
        y = (a.values * np.repeat(sa.values, 128, 1)[:, :k]) @ (b.values * wide).T
        yield Case({"A": a, "B": b, "SA": sa, "SB": sb}, {"C": y}, {"C": "bf16"})


@row(50, "W4A16, a scale for each group of rows", "w4a16.tile", 16, "wgmma", "mma")
def w4a16(random):
    for m, n, k in [(70, 72, 192), (5, 130, 64)]:
        a, w = normal(random, "bf16", m, k), Array(random.integers(0, 16, (k, n)), "u4")
        s = Array(random.uniform(0.01, 0.1, (k // 64, n)), "bf16")
        b = rounded((w.values - 8) * np.repeat(s.values, 64, 0))
        yield Case({"A": a, "W": w, "S": s}, {"C": a.values @ b}, {"C": "bf16"}, {}, {"N": n})


def groups(random, m, n, k):
    """Codes of weights and zeros, scales, and what multiplies."""
    w, z = random.integers(0, 16, (k, n)), random.integers(0, 15, (k // 64, n))
    return normal(random, "f16", m, k), w, z, Array(random.uniform(0.01, 0.1, (k // 64, n)), "f16")


@row(51, "GPTQ: words of eight rows, packed zeros less 1", "gptq.tile", 18, "wgmma", "mma")
def gptq(random):
    for m, n, k in [(70, 72, 192), (5, 136, 64)]:
        a, w, z, s = groups(random, m, n, k)
        words = Array(w.reshape(k // 8, 8, n).transpose(0, 2, 1), "u4")
        b = rounded((w - np.repeat(z + 1, 64, 0)) * np.repeat(s.values, 64, 0), "f16")
        yield Case({"A": a, "W": words, "Z": Array(z, "u4"), "S": s}, {"C": a.values @ b}, {"C": "f16"})


@row(52, "AWQ: words of eight columns, even ones first", "awq.tile", 18, "wgmma", "mma")
def awq(random):
    for m, n, k in [(70, 72, 192), (5, 136, 64)]:
        a, w, z, s = groups(random, m, n, k)
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        words, zeros = (Array(x.reshape(len(x), n // 8, 8)[..., order].reshape(len(x), n // 8, 2, 4), "u4") for x in (w, z))
        b = rounded((w - np.repeat(z, 64, 0)) * np.repeat(s.values, 64, 0), "f16")
        yield Case({"A": a, "W": words, "Z": zeros, "S": s}, {"C": a.values @ b}, {"C": "f16"})


@row(53, "MXFP4 weights with a power of two for each 32", "mxfp4.tile", 23, "wgmma", "mma")
def mxfp4(random):
    for m, n, k in [(70, 72, 192), (5, 130, 96)]:
        a, w = normal(random, "bf16", m, k), Array(random.choice([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -3, -6], (n, k)), "e2m1")
        s = Array(2.0 ** random.integers(-5, 2, (n, k // 32)), "e8m0")
        yield Case({"A": a, "W": w, "S": s}, {"C": a.values @ (w.values * np.repeat(s.values, 32, 1)).T}, {"C": "bf16"})


@row(54, "MXFP8 and NVFP4, a scale for each 32 or 16 of a row", "block_scaled.tile", 0, "mma", "mma")
def block_scaled(random):
    for m, n, k in [(70, 72, 192), (5, 130, 96)]:
        a, b = normal(random, "e4m3", m, k), normal(random, "e4m3", n, k)
        sa, sb = (Array(2.0 ** random.integers(-5, 2, (x, k // 32)), "e8m0") for x in (m, n))
        wide = lambda x, s, group: x.values * np.repeat(s.values, group, 1)
        yield Case({"A": a, "B": b, "SA": sa, "SB": sb}, {"C": wide(a, sa, 32) @ wide(b, sb, 32).T}, {"C": "bf16"}, {}, {}, "mxfp8")
        a, b = (normal(random, "e2m1", x, k, size=2) for x in (m, n))
        sa, sb = (Array(random.uniform(0.1, 4, (x, k // 16)), "e4m3") for x in (m, n))
        yield Case({"A": a, "B": b, "SA": sa, "SB": sb}, {"C": wide(a, sa, 16) @ wide(b, sb, 16).T * 0.5}, {"C": "bf16"}, {}, {"scale": 0.5}, "nvfp4")


def tf32(array):
    """To ten bits of the fraction, ties to even."""
    bits = array.bits.view(np.uint32)
    return ((bits + 0xfff + ((bits >> 13) & 1)) & np.uint32(0xffffe000)).view(np.float32).astype(np.float64)


@row(55, "product of f32 by tf32", "tf32.tile", 0, "wgmma", "tcgen05")
def products_of_f32(random):
    for m, n, k in [(130, 72, 200), (5, 136, 64)]:
        a, b = normal(random, "f32", m, k), normal(random, "f32", n, k)
        yield Case({"A": a, "B": b}, {"C": tf32(a) @ tf32(b).T}, {"C": "f32"}, {"TM": 128} if m > 64 else {})


@row(56, "matrix by vector", "gemv.tile", 7)
def gemv(random):
    for n, k in [(70, 1300), (3, 33)]:
        x, w = normal(random, "bf16", 2, k), normal(random, "bf16", n, k)
        yield Case({"X": x, "W": w}, {"Y": x.values @ w.values.T}, {"Y": "bf16"})


@row(57, "batches of small matrices", "batched.tile", 9, "mma", "mma")
def batched(random):
    for b, r, k, c in [(7, 16, 16, 16), (3, 5, 7, 9)]:
        a, m = normal(random, "bf16", b, r, k), normal(random, "bf16", b, k, c)
        yield Case({"A": a, "Bm": m}, {"O": a.values @ m.values}, {"O": "f32"}, {"R": r, "K": k, "C": c})


@row(58, "LoRA by segments of tokens", "lora.tile", 13, "mma", "mma")
def lora(random):
    for lengths, k, n in [([70, 0, 33], 136, 72), ([5], 64, 8)]:
        start, adapters = np.concatenate([[0], np.cumsum(lengths)]), 4
        x, y = normal(random, "bf16", start[-1], k), normal(random, "bf16", start[-1], n)
        a, b = normal(random, "bf16", adapters, k, 16, size=0.1), normal(random, "bf16", adapters, 16, n)
        which, want = random.integers(0, adapters, len(lengths)), y.values.copy()
        for e, at in enumerate(which):
            rows = slice(start[e], start[e + 1])
            want[rows] += x.values[rows] @ a.values[at] @ b.values[at]
        yield Case({"X": x, "A": a, "B": b, "Start": Array(start, "i32"), "Ad": Array(which, "i32"), "Y": y}, {"Y": want}, {"Y": "bf16"})
