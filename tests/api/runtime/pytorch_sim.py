"""pytorch_sim.py - tilec.torch over the simulator's driver: real kernels against float64.

Run with the folders of sim_torch, of the package and of its extension; CASE names what is run.
"""
import copy
import os
import sys
import types

import numpy as np

import tilec

tilec.__path__.append(sys.argv[1])
import torch  # noqa: E402  (the one of sim_torch)

import tilec.torch  # noqa: E402
from tilec.torch import attend as attention_module  # noqa: E402
from tilec.torch.plan import Described  # noqa: E402

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "run"))
from float8_codes import NUMBERS  # noqa: E402
from packed_codes import NUMBERS as PACKED, pack  # noqa: E402

RNG = np.random.default_rng(0)


def operand(*shape, dtype=torch.bfloat16):
    """A tensor, and its values in float64."""
    tensor = torch.from_numpy(RNG.standard_normal(shape).astype(np.float32), dtype)
    return tensor, tensor.numpy().astype(np.float64)


def exact(q, k, v, scale, causal=False, window=0, softcap=0.0):
    """(O, L, probabilities) in float64; [B, S, H, D]."""
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, 2), np.repeat(v, group, 2)
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * scale
    if softcap:
        s = softcap * np.tanh(s / softcap)
    place, key = np.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1], np.arange(k.shape[1])[None, :]
    there = (key <= place) if causal else np.ones_like(key <= place)
    if window:
        there = there & (key > place - window)
    s = np.where(there, s, -np.inf)
    most = s.max(-1, keepdims=True, initial=-1e300)
    p = np.exp(s - most)
    total = p.sum(-1, keepdims=True)
    p = np.divide(p, total, out=np.zeros_like(p), where=total > 0)
    with np.errstate(divide="ignore"):
        return np.einsum("bhqk,bkhd->bqhd", p, v), (most + np.log(total))[..., 0], p


def near(have, want, allowed):
    error = np.abs(np.asarray(have, np.float64) - want).max()
    assert error <= allowed * max(1.0, np.abs(want).max()), error


def forward(causal, group, layout):
    (q, q64), (k, k64), (v, v64) = (operand(1, 150, 2, 64), operand(1, 170, 2 // group, 64),
                                    operand(1, 170, 2 // group, 64))
    if layout == "bhsd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    for _ in range(2):  # the second time by the kept plan
        o, l = tilec.torch.attention(q, k, v, causal=causal, layout=layout, return_lse=True)
        want = exact(q64, k64, v64, 0.125, causal)
        near((o.transpose(1, 2) if layout == "bhsd" else o).numpy(), want[0], 0.01)
        near(l.numpy(), want[1], 1e-3)
    assert attention_module.forward_kernel(layout, False).plans.count == 1


def machine():
    """Kernels by themselves, and on a GPU of sm_90 products of warp groups."""
    from tilec.torch import code

    both = attention_module.forward_kernel("bshd", False)
    for kernel, entries in ((both, ["attention"]), (both.backward, ["attention_bwd"])):
        for arch in ("sm_80", "sm_90"):
            ptx = kernel.source.compile(arch, {"D": 128, "CAUSAL": True}).ptx
            for entry in entries:
                one = code.alone(ptx, entry)
                assert one.count(".visible .entry") == 1 and f".visible .entry {entry}(" in one
                assert ("wgmma.mma_async" in one) == ("setmaxnreg" in one) == (arch == "sm_90"), (entry, arch)


def one_form():
    """Where forms cannot be had, the kernel is compiled without."""
    kernel_module = sys.modules["tilec.torch.kernel"]  # the function has its name
    asked, real = [], kernel_module.compiled

    def compiled(source, arch, defines, options):
        asked.append(options)
        if ("variants", "auto") in options:
            raise tilec.Error("no room", 1)
        return real(source, arch, defines, options)

    kernel_module.compiled = compiled
    try:
        scale = tilec.torch.kernel(SCALE)
        for rows in (20, 30):
            x, x64 = operand(rows, 64, dtype=torch.float16)
            y, _ = scale(X=x, a=2.0)
            near(y.numpy(), 2 * x64, 1e-3)
        assert asked == [(("variants", "auto"),), (), ()], asked
        refused("cannot be compiled for these tensors", lambda: tilec.torch.kernel(SCALE, level=9)(X=x, a=2.0))
    finally:
        kernel_module.compiled = real


def forms():
    """Each call takes the form of the kernel for its sizes, where there are several; only those become machine code."""
    from tilec.torch import code
    from tilec.torch.gpu import gpu

    entries = lambda: {entry for made in code._codes.values() for _, entry in made._functions}  # noqa: E731
    for heads, rows in ((1, 80), (2, 136), (5, 264), (3, 80)):
        (q, q64), (k, k64), (v, v64) = (operand(1, rows, heads, 64) for _ in range(3))
        near(tilec.torch.attention(q, k, v).numpy(), exact(q64, k64, v64, 0.125)[0], 0.01)
    kernel = next(made.kernels["attention"] for made in code._codes.values()
                  if made.kernels.get("attention", {}).get("constants", {}).get("CAUSAL") == "false")
    several = {kernel["entry"], *(form["entry"] for form in kernel.get("variants", ()))}
    taken = several & entries()
    least = {"sm_80": 2, "sm_90": 2, "sm_100": 1}[gpu(0).arch]
    assert len(taken) >= least and len(several) > 1, (several, taken)


def masks():
    (q, q64), (k, k64), (v, v64) = (operand(1, 100, 1, 64) for _ in range(3))
    o = tilec.torch.attention(q, k, v, causal=True, window=30, softcap=5.0, scale=0.3)
    near(o.numpy(), exact(q64, k64, v64, 0.3, True, 30, 5.0)[0], 0.01)
    (q, q64) = operand(1, 3, 1, 64)  # few queries, with a mask that the kernels for them have not
    near(tilec.torch.attention(q, k, v, right=0).numpy(), exact(q64, k64, v64, 0.125, True)[0], 0.01)
    refused("must be a multiple of the key heads", lambda: tilec.torch.attention(*[operand(1, 3, h, 64)[0] for h in (3, 2, 2)]))


def options():
    """Limits that leave everything are none, numbers of NumPy are numbers, and what cannot be said to a kernel is refused."""
    inf, largest = float("inf"), 2**31 - 1
    for rows in (70, 1, 130):  # as many, few, and more queries than keys
        (q, q64), (k, k64), (v, v64) = operand(1, rows, 2, 64), operand(1, 70, 1, 64), operand(1, 70, 1, 64)
        for causal in (False, True):
            want = exact(q64, k64, v64, 0.125, causal)[0]
            for name, values in (("window", (70, 2**16, 2**20, largest - rows, largest - 1, largest, 2**31, 2**63, 10**30, inf, None)),
                                 ("right", (130, 2**16, 2**20, largest - 70, largest - 1, largest, 2**31, 2**63, inf, None)),
                                 ("softcap", (None, 0, inf, 1e30, 2.0**64, 1e300, 10**400))):
                for value in values[::1 if rows == 70 else 3]:
                    near(tilec.torch.attention(q, k, v, causal=causal, **{name: value}).numpy(), want, 0.01)
    (q, q64), (k, k64), (v, v64) = (operand(1, 70, 1, 64) for _ in range(3))
    near(tilec.torch.attention(q, k, v, causal=np.bool_(True), window=np.int64(5), scale=np.float32(0.3), softcap=np.float16(5)).numpy(),
         exact(q64, k64, v64, float(np.float32(0.3)), True, 5, 5.0)[0], 0.01)
    near(tilec.torch.attention(q, k, v, scale=1, causal=1, alibi=0).numpy(), exact(q64, k64, v64, 1.0, True)[0], 0.01)
    for scale in (inf, -inf, float("nan"), 1e30, 2**70, 0, 0.0, -1, 2.0**16 + 1, 10**400):
        refused("the scale must be positive and at most 65536", lambda: tilec.torch.attention(q, k, v, scale=scale))
        refused("the scale must be positive and at most 65536", lambda: tilec.torch.attention(q[:, :1], k, v, scale=scale))
    for name, value, words in (("window", -5, "window"), ("window", -10**30, "window"), ("right", -10**30, "right"), ("window", 5.5, "whole number"),
                               ("window", "5", "not str"), ("right", [1], "not list"), ("softcap", -inf, "softcap"),
                               ("softcap", "x", "not str"), ("causal", 2, "must be a bool"), ("alibi", "yes", "must be a"),
                               ("window", float("nan"), "whole number"), ("scale", q, "not Tensor")):
        refused(words, lambda: tilec.torch.attention(q, k, v, **{name: value}))
    at = torch.from_numpy(np.array([0, 70], np.int32))
    rows = [x._part((slice(0, 1),)).unbind(0)[0] for x in (q, k, v)]
    for option in ({"window": largest}, {"window": 10**30}, {"softcap": inf}, {"softcap": None}, {"scale": np.float64(0.125)}):
        near(tilec.torch.attention_varlen(*rows, at, longest_q=np.int32(70), causal=True, **option).numpy(),
             exact(q64, k64, v64, 0.125, True)[0][0], 0.01)
    refused("the scale must be positive and at most", lambda: tilec.torch.attention_varlen(*rows, at, longest_q=70, scale=1e30))
    refused("must be a number", lambda: tilec.torch.attention_varlen(*rows, at, longest_q="70"))


ADD = """kernel add<T: type = bf16, M: int = auto, N: int = 256>(X: in T[R, C], Y: in T[R, C], Z: out T[R, C], a: f32)
{ grid c in tiles(C, N), r in tiles(R, M); store Z[r, c] = (a * (load X[r, c] as f32) + (load Y[r, c] as f32)) as T; }"""
FILL = "kernel fill<T: type = f32>(Y: out T[R, 64], a: f32) { grid r in tiles(R, 16); store Y[r, :] = zeros<f32>[16, 64] + a; }"


def kernel_options():
    """What kernel() takes, and calls of what it gives."""
    K = tilec.torch.kernel
    x, x64 = operand(64, 256)
    add = K(ADD)
    for more in ({}, {"M": 16}, {"M": np.int64(32), "N": 64}, {"N": 128.0}, {"Z": None}):
        near(add(X=x, Y=x, a=1.0, **more).numpy(), 2 * x64, 0.02)
    assert {made.kernels["add"]["constants"]["M"] for (*_, defines, _), made in code_of(add) if ("M", "32") in defines} == {"32"}
    for sizes in ({"R": 64}, (("R", 64),), [("R", 64), ("C", 256)]):
        near(K(ADD, sizes=sizes)(X=x, Y=x, a=1.0).numpy(), 2 * x64, 0.02)
    near(K(ADD, switches=["no-swizzle"])(X=x, Y=x, a=np.float32(1)).numpy(), 2 * x64, 0.02)
    again = copy.deepcopy({"kernel": add})["kernel"]
    near(again(X=x, Y=x, a=1).numpy(), 2 * x64, 0.02)
    y = torch.empty(32, 64)
    assert K(FILL)(Y=y, a=3.0) is y and (y.numpy() == 3).all()
    assert K(FILL)(Y=y, R=32, a=4) is y and (y.numpy() == 4).all()
    K(FILL)(Y=y, a=float("inf"))
    assert np.isinf(y.numpy()).all()
    refused("has no input, which would say where it runs", lambda: K(FILL)(R=32, a=3.0))
    refused("R is 33, but dimension 0 of Y is 32", lambda: K(FILL)(Y=y, R=33, a=3.0))
    refused("X must be a tensor, not list", lambda: add(X=[1], Y=x, a=1.0))
    refused("X must be a tensor, not NoneType", lambda: add(X=None, Y=x, a=1.0))
    refused("Z must be a tensor, not int", lambda: add(X=x, Y=x, Z=3, a=1.0))
    refused("a = 1e+300 does not fit f32", lambda: add(X=x, Y=x, a=1e300))
    refused("a must be a number or a bool, not str", lambda: add(X=x, Y=x, a="1"))
    refused("M must be a whole number, not 16.5", lambda: add(X=x, Y=x, a=1.0, M=16.5))
    refused("does not fit 32 bits", lambda: add(X=x, Y=x, a=1.0, M=2**40))
    refused("does not fit 32 bits", lambda: add(X=x, Y=x, a=1.0, M=2**70))
    refused("has no parameter 'b', but X, Y, a, M, N", lambda: add(X=x, Y=x, b=1))
    refused("has no kernel", lambda: K("\n"))
    refused("has no kernel", lambda: K("fn f(x: f32) { return x; }"))
    refused("kernel() has no option 'emit'", lambda: K(ADD, emit="tir"))
    tall = torch.empty(1_100_000, 8, dtype=torch.bfloat16)
    refused("with R = 1100000", lambda: add(X=tall, Y=tall, a=1.0, M=16))
    scale = K(SCALE)
    wide = torch.empty(50, 64, dtype=torch.float16)
    refused("lie in one place", lambda: scale(X=wide, Y=torch.Tensor(wide.base, (50, 64), (0, 1), torch.float16), a=1.0))


def of_bytes():
    """int8 and uint8, also as the type that a tensor gives."""
    kernel = tilec.torch.kernel("""kernel of_bytes<T: type = i8>(X: in T[R, 64], Y: out u8[R, 64], Z: out T[R, 64]) {
        grid r in tiles(R, 16); store Y[r, :] = (load X[r, :] as i32 + 3) as u8; store Z[r, :] = load X[r, :]; }""")
    for kind in np.int8, np.uint8:
        x = RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max, (40, 64), kind, endpoint=True)
        y, z = kernel(X=torch.from_numpy(x))
        assert y.dtype is torch.uint8 and (y.numpy() == np.clip(x.astype(int) + 3, 0, 255)).all()
        assert z.dtype is {np.int8: torch.int8, np.uint8: torch.uint8}[kind] and (z.numpy() == x).all()
    refused("must be u8, not i8", lambda: kernel(X=torch.from_numpy(x), Y=torch.from_numpy(x.view(np.int8))))


def of_words():
    """uint32, and scalars of u32: sums wrap."""
    kernel = tilec.torch.kernel("""kernel of_words(X: in u32[R, 64], Y: out u32[R, 64], s: u32) {
        grid r in tiles(R, 16); store Y[r, :] = load X[r, :] * 3 + s; }""")
    x = RNG.integers(0, 2**32 - 1, (40, 64), np.uint32, endpoint=True)
    y = kernel(X=torch.from_numpy(x), s=2**32 - 1)
    assert y.dtype is torch.uint32 and (y.numpy() == x * np.uint32(3) - np.uint32(1)).all()
    refused("does not fit u32", lambda: kernel(X=torch.from_numpy(x), s=-1))
    refused("does not fit u32", lambda: kernel(X=torch.from_numpy(x), s=2**32))


def of_float8():
    """float8_e4m3fn and float8_e5m2: all codes."""
    kernel = tilec.torch.kernel("""kernel of_float8<T: type = e4m3>(X: in T[R, 64], Y: out f32[R, 64], Z: out T[R, 64]) {
        grid r in tiles(R, 16); store Y[r, :] = load X[r, :] as f32; store Z[r, :] = (load X[r, :] as f32) as T; }""")
    numbers = {**NUMBERS, "e8m0": np.append(2.0 ** np.arange(-127, 128), np.nan)}
    for name, kind in ("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2), ("e8m0", torch.float8_e8m0fnu):
        codes = np.arange(256, dtype=np.uint8).reshape(4, 64)
        y, z = kernel(X=torch.from_numpy(codes, kind))
        want = numbers[name].reshape(4, 64)
        assert y.dtype is torch.float32 and np.array_equal(y.numpy(), want.astype(np.float32), equal_nan=True)
        assert z.dtype is kind and ((z.numpy() == codes) | ~np.isfinite(want)).all()
    refused("must be e5m2, not e4m3", lambda: kernel(X=torch.from_numpy(codes, torch.float8_e5m2), Z=torch.from_numpy(codes, torch.float8_e4m3fn)))


def attention_of_float8():
    """Scales for each head, and none; heads before rows; V, which another kernel turns, of lengths that are no multiple of 16."""
    codes = np.flatnonzero(np.abs(NUMBERS["e4m3"]) <= 2).astype(np.uint8)
    for sq, sk, causal, scaled, layout in ((40, 70, False, True, "bshd"), (33, 33, True, False, "bhsd")):
        drawn = [RNG.choice(codes, (2, rows, heads, 64)) for rows, heads in ((sq, 4), (sk, 2), (sk, 2))]
        scales = [RNG.uniform(0.5, 1, (2, heads)).astype(np.float32) for heads in (4, 2, 2)] if scaled else [np.float32(1)] * 3
        q, k, v = (NUMBERS["e4m3"][x] * (s[:, None, :, None] if scaled else 1) for x, s in zip(drawn, scales))
        given = {f"scale_{name}": torch.from_numpy(s) for name, s in zip("qkv", scales)} if scaled else {}
        tensors = [torch.from_numpy(x, torch.float8_e4m3fn) for x in drawn]
        if layout == "bhsd":
            tensors = [x.transpose(1, 2) for x in tensors]
        o, l = tilec.torch.attention(*tensors, causal=causal, layout=layout, return_lse=True, **given)
        want = exact(q, k, v, 0.125, causal)
        near((o.transpose(1, 2) if layout == "bhsd" else o).numpy(), want[0], 0.05)
        near(l.numpy(), want[1], 2e-3)
    refused("go without a softcap", lambda: tilec.torch.attention(*tensors, softcap=2.0))
    refused("are for q, k and v in float8_e4m3fn", lambda: tilec.torch.attention(*[operand(1, 8, 1, 64)[0]] * 3, scale_q=1.0))


def wire():
    """Keys as they travel between processes: e4m3 with scales, and back; steps of what are such bytes already."""
    from tilec.torch import blocks as module

    table, blocks = NUMBERS["e4m3"][:127], module.Blocks()
    for d, dtype in (5, torch.float16), (64, torch.bfloat16):
        x, x64 = operand(2, 70, 3, d, dtype=dtype)
        scales = (2.0 ** RNG.integers(-6, -2, (2, 3))).astype(np.float32)
        there = (np.abs(x64) / scales[:, None, :, None]).clip(0, 448)
        above = np.searchsorted(table, there).clip(1)
        less, more = there - table[above - 1], table[above] - there
        want = np.where((more < less) | ((more == less) & (above % 2 == 0)), above, above - 1) | np.where(np.signbit(x64), 128, 0)
        scales[1, 2] = np.nan
        codes = blocks.encode(x, torch.from_numpy(scales))
        want[1, :, 2] = codes.numpy()[1, :, 2]
        assert codes.dtype is torch.uint8 and np.array_equal(codes.numpy(), want) and ((want[1, :, 2] & 127) == 127).all()
        back = blocks.decode(codes, torch.from_numpy(scales), dtype)
        with np.errstate(invalid="ignore"):
            want = NUMBERS["e4m3"][want] * scales[:, None, :, None]
        assert back.dtype is dtype and np.array_equal(back.numpy(), want.astype(np.float32), equal_nan=True)
    codes = np.flatnonzero(np.abs(NUMBERS["e4m3"]) <= 2).astype(np.uint8)
    drawn = [RNG.choice(codes, (1, rows, heads, 64)) for rows, heads in ((40, 4), (70, 2), (70, 2))]
    scales = [RNG.uniform(0.5, 1, (1, heads)).astype(np.float32) for heads in (4, 2, 2)]
    q, k, v = (NUMBERS["e4m3"][x] * s[:, None, :, None] for x, s in zip(drawn, scales))
    mask = types.SimpleNamespace(starts=None, scale=0.125, causal=True, window=20)
    scale_q, *others = map(torch.from_numpy, scales)
    o, l = module.Eight(scale_q).forward(*map(torch.from_numpy, drawn), *others, mask)
    want = exact(q, k, v, 0.125, True, 20)
    near(o.numpy(), want[0], 0.05)
    near(l.numpy(), want[1], 2e-3)


def of_tf32():
    """Operands that copies round on their way, where warp groups multiply: numbers between two of tf32."""
    kernel = tilec.torch.kernel("""kernel of_tf32(A: in f32[M, K] align(16), B: in f32[N, K] align(16), C: out f32[M, N]) {
        grid m in tiles(M, 128), n in tiles(N, 64); var acc = zeros<f32>[128, 64];
        for k in tiles(K, 32) { acc = mma(load A[m, k] as tf32, (load B[n, k] as tf32).T, acc); } store C[m, n] = acc; }""")
    a, b = (RNG.integers(1, 2**14, (rows, 68)).astype(np.float32) for rows in (140, 72))  # up to 14 digits
    c = kernel(A=torch.from_numpy(a), B=torch.from_numpy(b))
    a, b = (((x.view(np.uint32) + 0xFFF + (x.view(np.uint32) >> 13 & 1)) & 0xFFFFE000).view(np.float32).astype(np.float64) for x in (a, b))
    assert np.max(np.abs(c.numpy() - a @ b.T) / (a @ b.T)) < 70 * 2.0**-23


def of_packed():
    """Two elements a byte: uint8, or float4_e2m1fn_x2."""
    source = """kernel of_packed(W: in {0}[R, N], S: in f32[N], Y: out f32[R, N], Z: out {0}[R, N]) {{
        grid r in tiles(R, 16); for n in tiles(N, 32) {{ store Y[r, n] = load W[r, n] as f32; store Z[r, n] = load W[r, n]; }} }}"""
    for name, kind in ("u4", torch.uint8), ("i4", torch.uint8), ("e2m1", torch.uint8), ("e2m1", torch.float4_e2m1fn_x2):
        kernel, w = tilec.torch.kernel(source.format(name)), RNG.integers(0, 16, (20, 51)).astype(np.uint8)
        y, z = kernel(W=torch.from_numpy(pack(w), kind), S=torch.from_numpy(np.ones(51, np.float32)))
        assert np.array_equal(y.numpy(), PACKED[name][w].astype(np.float32)) and z.dtype is torch.uint8 and (z.numpy() == pack(w)).all()
    refused("dimension 1 of W must be cdiv(N, 2)", lambda: kernel(W=torch.from_numpy(pack(w)), S=torch.from_numpy(np.ones(40, np.float32))))


def code_of(kernel):
    from tilec.torch import code

    return [(key, made) for key, made in code._codes.items() if key[0] == kernel.source.digest]


def decode():
    for rows, heads, keys in ((1, 4, 700), (2, 3, 90), (1, 1, 5000)):
        (q, q64), (k, k64), (v, v64) = operand(1, rows, heads, 64), operand(1, keys, 1, 64), operand(1, keys, 1, 64)
        o = tilec.torch.attention(q, k, v, causal=True)
        near(o.numpy(), exact(q64, k64, v64, 0.125, True)[0], 0.01)
    assert attention_module.forward_kernel("bshd", False).plans.count == 3


def grouped():
    """Queries of a group's heads share tiles where that is estimated to be quicker; else, and with other masks, they do not."""
    grouped = attention_module.grouped_kernel
    for layout in ("bshd", "bhsd"):
        (q, q64), (k, k64), (v, v64) = operand(1, 72, 16, 64), operand(1, 200, 2, 64), operand(1, 200, 2, 64)
        if layout == "bhsd":
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        for values in ({"causal": True}, {"causal": True, "window": 50}, {"softcap": 4.0}):
            taken = []
            real, attention_module.ways.clocks = attention_module.ways.clocks, lambda names, *_: taken.append(names) or -len(taken)
            try:
                o, l = tilec.torch.attention(q, k, v, layout=layout, return_lse=True, **values)
            finally:
                attention_module.ways.clocks = real
            want = exact(q64, k64, v64, 0.125, "causal" in values, values.get("window", 0), values.get("softcap", 0.0))
            near((o.transpose(1, 2) if layout == "bhsd" else o).numpy(), want[0], 0.01)
            near(l.numpy(), want[1], 2e-3)
            arch = sys.modules["tilec.torch.gpu"].gpu(0).arch
            known = {"sm_80": 2, "sm_90": 2, "sm_100": 1}[arch]  # 64 rows are no tile on sm_100
            assert taken == [["attention"], ["attention_grouped"]][:0 if "softcap" in values else known], taken
    assert attention_module.rows_spared(79, 4) and attention_module.rows_spared(2108, 2)
    assert not attention_module.rows_spared(384, 4) and not attention_module.rows_spared(1000, 1)
    assert grouped("bshd").names == ["attention_grouped"]


def shared_keys():
    """Programs share the keys where they are few and keys are many, if that is estimated to be quicker."""
    parts, taken = attention_module.parts, []
    real = parts.least
    parts.least = lambda *args: taken.append(real(*args)[1]) or real(*args)
    known = sys.modules["tilec.torch.gpu"].gpu(0).arch != "sm_100"  # what kernels take there
    try:
        for layout, rows, keys, heads, causal, asked in (("bshd", 100, 4000, 1, False, 1), ("bhsd", 100, 3500, 2, True, 2),
                                                         ("bshd", 100, 500, 1, False, 0)):
            (q, q64), (k, k64), (v, v64) = operand(1, rows, heads, 64), operand(1, keys, 1, 64), operand(1, keys, 1, 64)
            if layout == "bhsd":
                q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            o, l = tilec.torch.attention(q, k, v, causal=causal, layout=layout, return_lse=True)
            want = exact(q64, k64, v64, 0.125, causal)
            near((o.transpose(1, 2) if layout == "bhsd" else o).numpy(), want[0], 0.01)
            near(l.numpy(), want[1], 1e-3)
            assert len(taken) == (asked if known else 0) and all(n > 1 for n in taken), taken
            taken.clear()
        from tilec.torch import code
        launched = {entry for made in code._codes.values() for _, entry in made._functions}
        assert ("attention_split_combine" in launched) == known, launched
        (q, q64), (k, k64), (v, v64) = operand(1, 100, 1, 64), operand(1, 600, 1, 64), operand(1, 600, 1, 64)
        near(tilec.torch.attention(q, k, v, causal=True, window=80).numpy(), exact(q64, k64, v64, 0.125, True, 80)[0], 0.01)
        assert not taken
    finally:
        parts.least = real


def filled():
    """Where an estimate has memory at its full rate with some of the programs, all multiprocessors get one nevertheless."""
    parts = attention_module.parts
    cost = ("14000 + 9000000 / min(B * 4 * X, 60)",)
    for batch, keys, asked in ((1, 131072, 33), (8, 131072, 4), (1, 256, 4)):
        sizes = (("B", batch), ("Sk", keys), ("sm_count", 132))
        found = parts.least(cost, parts.OF_ROW._replace(at_once=1000), sizes, 0, 1, 4 * batch)[1]
        assert found == asked, (batch, keys, found)
    assert parts.least(cost, parts.OF_ROWS, (("B", 1), ("Sk", 131072), ("sm_count", 132)), 0, 1, 4)[1] < 20  # not measured for these
    assert parts.idle(132, 132) == parts.idle(132, 264) == parts.idle(132, 300) == 0 < parts.idle(132, 133) < 0.5


def backward():
    least = attention_module.ways.least
    for deterministic, way in ((False, (attention_module.BACKWARD, {})), (False, (attention_module.DETERMINISTIC, {})),
                               (False, (attention_module.SPLIT, {"P": 2})), (True, (attention_module.SPLIT_DETERMINISTIC, {"P": 2})),
                               (True, (attention_module.DETERMINISTIC, {}))):
        attention_module.ways.least = lambda *_: way  # noqa: B023  (called in this iteration)
        kernel = attention_module.forward_kernel("bshd", deterministic)
        if kernel.backward.plans:
            kernel.backward.plans.forget()
        (q, q64), (k, k64), (v, v64), (g, g64) = (operand(1, 100, h, 64) for h in (2, 1, 1, 2))
        values = {"scale": 0.125, "softcap": 0.0, "CAUSAL": True}
        o, l = kernel.run(q, k, v, *[values.get(name) for name in kernel.values])
        table = tilec.torch.gradient.links(kernel)
        tilec.torch.gradient.fit = lambda grad: grad
        made = kernel.backward.run(*table.arguments(table.keep((q, k, v), (o, l)), (g, None),
                                                    [values.get(name) for name in kernel.values]))
        out, _, p = exact(q64, k64, v64, 0.125, True)
        dp = np.einsum("bqhd,bkhd->bhqk", g64, np.repeat(v64, 2, 2))
        ds = p * (dp - (out * g64).sum(-1).transpose(0, 2, 1)[..., None])
        near(made[0].numpy(), np.einsum("bhqk,bkhd->bqhd", ds, np.repeat(k64, 2, 2)) * 0.125, 0.02)
        near(made[1].numpy(), np.einsum("bhqk,bqhd->bkhd", ds, q64).sum(2, keepdims=True) * 0.125, 0.02)
        near(made[2].numpy(), np.einsum("bhqk,bqhd->bkhd", p, g64).sum(2, keepdims=True), 0.02)
    attention_module.ways.least = least


def backward_parts():
    """Gradients before they are rounded, of each way; rounded they are those of the backward, to the bit where it is deterministic."""
    from tilec.torch import blocks as module

    least, m = attention_module.ways.least, attention_module
    mask = types.SimpleNamespace(starts=None, scale=0.125, softcap=0.0, causal=True, window=0, right=-1, first=0, heads=2, shift=0)
    for deterministic, way in ((False, (m.BACKWARD, {})), (False, (m.SPLIT, {"P": 2})), (True, (m.DETERMINISTIC, {})),
                               (True, (m.FEW, {})), (True, (m.SPLIT_DETERMINISTIC, {"P": 2})), (True, None)):
        m.ways.least = lambda every, products, code, *_: (m._present(way[0], code), way[1])  # noqa: B023  (called in this iteration)
        blocks, mask.alibi = module.Blocks(deterministic), way is None
        for kernel in (blocks.kernel(mask).backward, *(module.summed_backward(deterministic, keys) for keys in (True, False))):
            if kernel.plans:
                kernel.plans.forget()
        (q, q64), (k, k64), (v, v64), (g, g64) = (operand(1, 150, h, 64) for h in (2, 1, 1, 2))
        out, _, p = exact(q64, k64, v64, 0.125, True)
        ds = p * (np.einsum("bqhd,bkhd->bhqk", g64, np.repeat(v64, 2, 2)) - (out * g64).sum(-1).transpose(0, 2, 1)[..., None])
        want = (np.einsum("bhqk,bkhd->bqhd", ds, np.repeat(k64, 2, 2)) * 0.125,
                np.einsum("bhqk,bqhd->bkhd", ds, q64).sum(2, keepdims=True) * 0.125,
                np.einsum("bhqk,bqhd->bkhd", p, g64).sum(2, keepdims=True))
        o, l = blocks.forward(q, k, v, mask)

        def parts(k=k, v=v, o=o, l=l, sums=None, **more):  # noqa: B023
            sums = blocks.query_sums(q) if sums is None else sums  # noqa: B023
            those = blocks.backward_parts(q, k, v, o, l, g, mask, sums, **more)  # noqa: B023
            return torch.from_numpy(sums.numpy() * np.float32(0.125), torch.float32), *those

        made = blocks.backward(q, k, v, o, l, g, mask), parts()
        for narrow, wide, exactly in zip(*made, want):
            assert wide.dtype == torch.float32 and narrow.dtype == torch.bfloat16, (way, wide.dtype)
            rounded = torch.from_numpy(wide.numpy(), torch.bfloat16).numpy()
            assert not np.array_equal(rounded, wide.numpy()), way
            if deterministic:
                assert np.array_equal(rounded, narrow.numpy()), way
            if way is not None:
                near(wide.numpy(), exactly, 0.02)
        if deterministic:  # dK and dV rounded
            made = parts(keys=False), made[0]
            assert [x.dtype for x in made[0]] == [torch.float32, torch.bfloat16, torch.bfloat16], way
            assert all(np.array_equal(x.numpy(), y.numpy()) for x, y in zip(made[0][1:], made[1][1:])), way
        if way is not None:  # by the keys of a tile and by the others, as they are in two processes
            m.ways.least = least
            mask.causal = False
            o, l = blocks.forward(q, k, v, mask)
            out, _, p = exact(q64, k64, v64, 0.125)
            ds = p * (np.einsum("bqhd,bkhd->bhqk", g64, np.repeat(v64, 2, 2)) - (out * g64).sum(-1).transpose(0, 2, 1)[..., None])
            sums = blocks.query_sums(q)
            some = [parts(k[:, a:b], v[:, a:b], o, l, sums) for a, b in ((0, 40), (40, 150))]
            near(some[1][0].numpy(), np.einsum("bhqk,bkhd->bqhd", ds, np.repeat(k64, 2, 2)) * 0.125, 0.01)
            near(np.concatenate([x[1].numpy() for x in some], 1), np.einsum("bhqk,bqhd->bkhd", ds, q64).sum(2, keepdims=True) * 0.125, 0.01)
            dq = blocks.query_gradient(sums, 0.125, torch.bfloat16)
            assert np.array_equal(dq.numpy(), torch.from_numpy(some[1][0].numpy(), torch.bfloat16).numpy()), way
            mask.causal = True
    m.ways.least = least
    for d in (5, 64):  # two parts into rows of a whole; sums whose rows are padded
        (a, a64), (b, b64) = operand(2, 70, 3, d, dtype=torch.float32), operand(2, 70, 3, d)
        out = torch.zeros(2, 90, 3, d, dtype=torch.bfloat16)
        module.Blocks().add(a, b, out[:, 7:77])
        want = torch.from_numpy((a64 + b64).astype(np.float32), torch.bfloat16).numpy()
        assert np.array_equal(out.numpy()[:, 7:77], want) and not out.numpy()[:, :7].any() and not out.numpy()[:, 77:].any()
        sums = module.Blocks().query_sums(b)
        assert sums.shape == b.shape and not sums.numpy().any() and all(s % 4 == 0 for s in sums.stride()[:3])


def backward_of_all():
    """Gradients of O and of L, dense and packed."""
    from tilec.torch import packed as module

    tilec.torch.gradient.fit = lambda grad: grad
    least = attention_module.ways.least
    (q, q64), (k, k64), (v, v64), (g, g64), (gl, gl64) = (operand(1, 100, 2, 64), operand(1, 100, 1, 64), operand(1, 100, 1, 64),
                                                          operand(1, 100, 2, 64), operand(1, 2, 100, dtype=torch.float32))
    out, _, p = exact(q64, k64, v64, 0.125, True)
    dp = np.einsum("bqhd,bkhd->bhqk", g64, np.repeat(v64, 2, 2))
    ds = p * (dp - (out * g64).sum(-1).transpose(0, 2, 1)[..., None] + gl64[..., None])
    want = (np.einsum("bhqk,bkhd->bqhd", ds, np.repeat(k64, 2, 2)) * 0.125,
            np.einsum("bhqk,bqhd->bkhd", ds, q64).sum(2, keepdims=True) * 0.125,
            np.einsum("bhqk,bqhd->bkhd", p, g64).sum(2, keepdims=True))

    def check(kernel, these, values, grads, shown):
        values = [values.get(name) for name in kernel.values]
        o, l = kernel.run(*these, *values)
        table = tilec.torch.gradient.links(kernel)
        assert table.every == [0, 1] and table.more.grads == [0, 1] and not table.plain
        made = kernel.backward_of_all.run(*table.more.arguments(table.more.keep(these, (o, l)), grads, values))
        for have, exactly in zip(made, want):
            near(shown(have.numpy()), exactly, 0.02)

    for deterministic, ways in ((False, ("BACKWARD", "DETERMINISTIC", "SPLIT")), (True, ("SPLIT_DETERMINISTIC", "DETERMINISTIC"))):
        for way in ways:
            attention_module.ways.least = lambda *_: (getattr(attention_module, way), {"P": 2})  # noqa: B023
            kernel = attention_module.forward_kernel("bshd", deterministic)
            if kernel.backward_of_all.plans:
                kernel.backward_of_all.plans.forget()
            check(kernel, (q, k, v), {"scale": 0.125, "softcap": 0.0, "CAUSAL": True}, (g, gl), lambda x: x)
    attention_module.ways.least = least
    at = torch.from_numpy(np.array([0, 100], np.int32))
    rows = [x.unbind(0)[0] for x in (q, k, v)]
    plain = torch.empty
    torch.empty = lambda *shape, **how: plain(*shape, **how).fill(0xFF)  # as in packed()
    check(module.packed_kernel(), (*rows, at, at), {"longest": 100, "scale": 0.125, "softcap": 0.0, "CAUSAL": True},
          (g.unbind(0)[0], gl.unbind(0)[0]), lambda x: x[None])
    torch.empty = plain


def backward_of_one_tile():
    """Where all keys are one tile, delta comes of it: gradients of O, and of O and L, also of dO's that are alike, whose
    differences are what is left of large sums."""
    from tilec.torch import code

    tilec.torch.gradient.fit = lambda grad: grad
    for layout, rows, keys, heads, softcap, causal, deterministic, scale in (
            ("bshd", 100, 40, 2, 0.0, True, False, 0.125), ("bhsd", 70, 48, 2, 5.0, False, True, 0.125), ("bshd", 20, 1, 1, 0.0, False, False, 0.125),
            ("bshd", 20, 1, 1, 0.0, False, False, 16.0)):
        kernel = attention_module.forward_kernel(layout, deterministic)
        (q, q64), (k, k64), (v, v64), (g, g64), (gl, gl64) = (operand(1, rows, heads, 64), operand(1, keys, 1, 64), operand(1, keys, 1, 64),
                                                              operand(1, rows, heads, 64), operand(1, heads, rows, dtype=torch.float32))
        v, v64 = (torch.from_numpy((v64 + 8).astype(np.float32), torch.bfloat16), None)
        v64 = v.numpy().astype(np.float64)
        g, g64 = (torch.from_numpy((abs(g64) + 1).astype(np.float32), torch.bfloat16), None)
        g64 = g.numpy().astype(np.float64)
        values = {"scale": scale, "softcap": softcap, "CAUSAL": causal, "SOFTCAP": softcap > 0}
        values = [values.get(name) for name in kernel.values]
        shown = (lambda x: x.transpose(1, 2)) if layout == "bhsd" else (lambda x: x)
        these, given = [shown(x) for x in (q, k, v)], shown(g)
        o, l = kernel.run(*these, *values)
        table = tilec.torch.gradient.links(kernel)
        out, _, p = exact(q64, k64, v64, scale, causal, softcap=softcap)
        slope = 1 - np.tanh(np.einsum("bqhd,bkhd->bhqk", q64, np.repeat(k64, heads, 2)) * scale / softcap) ** 2 if softcap else 1
        dp = np.einsum("bqhd,bkhd->bhqk", g64, np.repeat(v64, heads, 2))
        for of_l in (False, True):
            if of_l:
                made = kernel.backward_of_all.run(*table.more.arguments(table.more.keep(these, (o, l)), (given, gl), values))
            else:
                made = kernel.backward.run(*table.arguments(table.keep(these, (o, l)), (given, None), values))
            ds = p * (dp - (p * dp).sum(-1, keepdims=True) + (gl64[..., None] if of_l else 0)) * slope
            want = (np.einsum("bhqk,bkhd->bqhd", ds, np.repeat(k64, heads, 2)) * scale,
                    np.einsum("bhqk,bqhd->bkhd", ds, q64).sum(2, keepdims=True) * scale)
            for have, exactly in zip(made, want):
                error = np.abs(shown(have).numpy() - exactly).max()
                assert error <= 2.0**-7 * max(0.4 * scale, np.abs(exactly).max()), (layout, rows, keys, scale, of_l, error, np.abs(exactly).max())
            if keys == 1 and not of_l:  # P is 1, and dS is what roundings of terms leave, not those of L
                assert np.abs(made[0].numpy()).max() <= 2.0**-21 * np.abs(dp).max() * np.abs(k64).max() * scale, np.abs(made[0].numpy()).max()
            near(shown(made[2]).numpy(), np.einsum("bhqk,bqhd->bkhd", p, g64).sum(2, keepdims=True), 0.02)
    launched = {entry for made in code._codes.values() for _, entry in made._functions}
    assert {attention_module.OF_TILE, attention_module.OF_TILE_OF_ALL} <= launched, launched


def backward_ways():
    """Sums of dQ in memory, or another pass over K and V: what is estimated to take less on an H200."""
    gpu = types.SimpleNamespace(sm_count=132, facts={"sm_count": 132, "sm_shared": 228 << 10}, bytes_per_clock=2100, arch="sm_90", number=0)
    kernel = attention_module.forward_kernel("bshd", False).backward
    summed, twice = (attention_module.BACKWARD, None), (attention_module.DETERMINISTIC, None)
    few = (attention_module.FEW, None)
    split, split_twice = attention_module.SPLIT, attention_module.SPLIT_DETERMINISTIC
    for b, s, heads, d, causal, want in (
            (8, 2048, 8, 256, False, twice), (1, 16384, 8, 256, True, twice),  # measured: 2.6 and 3.6 ms of 4096 rows
            (4, 4096, 16, 128, True, summed), (32, 512, 16, 128, True, twice), (8, 2048, 32, 64, False, summed),
            (1, 512, 32, 64, True, twice), (1, 308, 21, 64, True, few), (1, 256, 8, 96, False, few),
            (1, 768, 18, 64, True, summed), (2, 4096, 16, 96, True, summed), (2, 4096, 16, 192, False, twice),
            # few programs go through all query heads of a group
            (1, 11501, (8, 1), 128, True, (split, 8)), (1, 4096, (64, 8), 128, True, (split, 16)),  # measured: n 8 of 2, 4, 8; 1.20 ms for 1.46
            (1, 576, (4, 1), 128, False, (split_twice, 4)),
            (2, 384, (8, 1), 192, False, (split_twice, 8)), (2, 8192, (64, 8), 128, True, summed),
            # more than a grid has beside its first dimension
            (65536, 16, 2, 64, True, few), (65536, 200, 1, 128, False, few), (1, 100, 65536, 64, True, few)):
        heads, kv = heads if isinstance(heads, tuple) else (heads, heads)
        tensors = {name: Described(name, "bf16", (b, s, h, d), (s * h * d, h * d, d, 1))
                   for name, h in (("Q", heads), ("K", kv), ("V", kv), ("dO", heads), ("O", heads))}
        tensors["L"] = Described("L", "f32", (b, heads, s), (heads * s, s, 1))
        values = {**dict.fromkeys(kernel.values), "scale": None, "softcap": 0.0, "CAUSAL": causal, "SOFTCAP": False}
        code = kernel.code(gpu, tensors, values)
        names, values = kernel.chosen(code, gpu, tensors, values)
        assert (names, values.get("P")) == want and values["scale"] == d ** -0.5, (b, s, heads, d, causal, names, values.get("P"))


SCALE = """
kernel scale<T: type = f16, C: int = 64>(X: in T[R, C], Y: out T[R, C], S: inout f32[R], a: f32)
{
    grid r in tiles(R, 16);
    let x = load X[r, :];
    store Y[r, :] = ((x as f32) * a) as T;
    store S[r] = load S[r] + sum(x as f32, axis=1);
}
"""


def any_kernel():
    scale = tilec.torch.kernel(SCALE)
    for dtype, columns in ((torch.float16, 64), (torch.bfloat16, 128), (torch.float16, 64)):
        x, x64 = operand(50, columns, dtype=dtype)
        y, s = scale(X=x, a=2.0)
        near(y.numpy(), 2 * x64, 0.01)
        near(s.numpy(), x64.sum(1), 0.01)
    again = scale(X=x, S=s, a=0.5)
    near(again[1].numpy(), 2 * x64.sum(1), 0.01)
    assert again[1] is s and scale.plans.count == 2


def empty():
    (q, _), (k, k64), (v, v64) = operand(1, 0, 2, 64), operand(1, 80, 2, 64), operand(1, 80, 2, 64)
    assert tilec.torch.attention(q, k, v).shape == (1, 0, 2, 64)
    (none, _), (q, _) = operand(1, 0, 2, 64), operand(1, 80, 2, 64)
    assert not tilec.torch.attention(q, none, none).numpy().any()


def refused(text, function):
    try:
        function()
    except tilec.torch.Error as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


def refusals():
    q, k, v = (operand(1, 80, 2, 64)[0] for _ in range(3))
    attend = tilec.torch.attention
    attend(q, k, v)
    half = operand(1, 80, 2, 64, dtype=torch.float16)[0]
    refused("K must be bf16, not f16", lambda: attend(q, half, v))
    refused("takes f16 and bf16: cast it", lambda: attend(*[operand(1, 80, 2, 64, dtype=torch.float32)[0]] * 3))
    refused("the scale must be positive", lambda: attend(q, k, v, scale=-1.0))
    refused("must be a multiple of the key heads", lambda: attend(operand(1, 80, 3, 64)[0], k, v))
    refused("must have 4 dimensions", lambda: attend(torch.empty(1, 80, 64, dtype=torch.bfloat16), k, v))
    far = torch.Tensor(q.base, q.shape, q.strides, q.dtype, where="meta")
    refused("K is on the device 'meta'", lambda: attend(q, far, v))
    refused("Q must be a tensor, not NoneType", lambda: attention_module.forward_kernel("bshd", False).run(None, k, v, *[None] * 7))
    wide = operand(1, 80, 2, 65)[0]
    narrow = torch.Tensor(wide.base, (1, 80, 2, 64), wide.strides, wide.dtype)
    refused("stride 1 of Q is 260 bytes", lambda: attend(narrow, k, v))
    odd = torch.Tensor(wide.base, (1, 80, 2, 64), (80 * 128, 128, 64, 1), wide.dtype, offset=1)
    refused("the address of Q must be a multiple of 16", lambda: attend(odd, k, v))
    turned = torch.Tensor(q.base, (1, 80, 2, 64), (80 * 128, 128, 1, 2), q.dtype)
    refused("the last dimension of V must be contiguous", lambda: attend(q, k, turned))
    refused("Q must have 4 dimensions", lambda: attend(torch.Tensor(q.base, (), (), q.dtype), k, v))
    refused("2 heads of queries and 0 of keys", lambda: attend(q, k[:, :, :0], v[:, :, :0]))
    for option, value in (("window", 0), ("window", -5), ("right", -1), ("softcap", -1.0), ("softcap", float("nan"))):
        refused(option, lambda: attend(q, k, v, **{option: value}))
        refused(option, lambda: attend(q[:, :1], k, v, **{option: value}))  # few queries
    refused("scale must be a number or a bool, not str", lambda: attend(q, k, v, scale="1"))
    refused("a must be a number or a bool, not list", lambda: tilec.torch.kernel(SCALE)(X=q, a=[1]))
    refused("has no parameter 'b'", lambda: tilec.torch.kernel(SCALE)(X=q, b=1))
    refused("no tensor for 'X'", lambda: tilec.torch.kernel(SCALE)(a=1.0))
    refused("has no parameter 'x', but X", lambda: tilec.torch.kernel(SCALE)(x=q, a=1.0))
    refused("has no kernel 'none'", lambda: tilec.torch.kernel(SCALE, "none"))


def flash_names():
    from tilec.torch import flash_attn as flash

    (q, q64), (kv, kv64) = operand(1, 100, 2, 64), operand(1, 120, 2, 2, 64)
    k64, v64 = kv64[:, :, 0], kv64[:, :, 1]
    near(flash.flash_attn_kvpacked_func(q, kv, causal=True).numpy(), exact(q64, k64, v64, 0.125, True)[0], 0.01)
    o, l, none = flash.flash_attn_func(q, *kv.unbind(2), 0.0, 0.3, True, (29, -1), softcap=5.0, return_attn_probs=True)
    want = exact(q64, k64, v64, 0.3, True, 30, 5.0)
    near(o.numpy(), want[0], 0.01)
    near(l.numpy(), want[1], 1e-3)
    assert none is None
    (qkv, all64) = operand(1, 90, 3, 2, 64)
    near(flash.flash_attn_qkvpacked_func(qkv).numpy(), exact(*np.moveaxis(all64, 2, 0), 0.125)[0], 0.01)
    (one, one64), (new, new64), (cache, cache64) = operand(1, 1, 2, 64), operand(1, 1, 2, 64), operand(1, 200, 2, 64)
    cache64[:, 80] = new64[:, 0]
    o = flash.flash_attn_with_kvcache(one, cache, cache, new, new, cache_seqlens=80, causal=True)
    near(o.numpy(), exact(one64, cache64[:, :81], cache64[:, :81], 0.125)[0], 0.01)
    refused("no dropout", lambda: flash.flash_attn_func(q, q, q, 0.1))
    refused("no room for 1 new keys behind 200", lambda: flash.flash_attn_with_kvcache(one, cache, cache, new, new, cache_seqlens=200))
    refused("cache_seqlens is 201, and the cache has 200 rows", lambda: flash.flash_attn_with_kvcache(one, cache, cache, cache_seqlens=201))
    refused("cache_seqlens must be an int", lambda: flash.flash_attn_with_kvcache(one, cache, cache, cache_seqlens=new))


def packed_exact(q, k, v, starts, others, scale, *mask):
    """(O, L, probabilities of each sequence) of packed sequences."""
    parts = [exact(q[None, a:b], k[None, c:d], v[None, c:d], scale, *mask)
             for a, b, c, d in zip(starts, starts[1:], others, others[1:])]
    return np.concatenate([o[0] for o, _, _ in parts]), np.concatenate([l[0] for _, l, _ in parts], 1), [p[0] for *_, p in parts]


def packed():
    """Several sequences in one tensor: a long one, none, one of one row, few queries of many keys."""
    from tilec.torch import flash_attn as flash
    from tilec.torch import packed as module

    empty = torch.empty
    starts, others = np.array([0, 70, 70, 71, 80], np.int32), np.array([0, 70, 75, 76, 176], np.int32)
    at, there = torch.from_numpy(starts), torch.from_numpy(others)
    (q, q64), (k, k64), (v, v64), (g, g64) = (operand(n, h, 64) for n, h in ((80, 2), (176, 1), (176, 1), (80, 2)))
    for mask, options in (((False,), {}), ((True,), {"causal": True}), ((True, 20, 5.0), {"causal": True, "window": 20, "softcap": 5.0})):
        o, l = tilec.torch.attention_varlen(q, k, v, at, there, longest_q=70, longest_k=100, return_lse=True, **options)
        want, lse, _ = packed_exact(q64, k64, v64, starts, others, 0.125, *mask)
        near(o.numpy(), want, 0.01)
        near(l.numpy(), lse, 1e-3)
    (qkv, all64) = operand(80, 3, 2, 64)
    o, l, none = flash.flash_attn_varlen_qkvpacked_func(qkv, at, 70, 0.0, 0.3, True, (29, -1), return_attn_probs=True)
    near(o.numpy(), packed_exact(*np.moveaxis(all64, 1, 0), starts, starts, 0.3, True, 30)[0], 0.01)
    (kv, both64) = operand(176, 2, 1, 64)
    o = flash.flash_attn_varlen_kvpacked_func(q, kv, at, there, 70, 100, window_size=(-1, 0))
    near(o.numpy(), packed_exact(q64, *np.moveaxis(both64, 1, 0), starts, others, 0.125, True)[0], 0.01)
    kernel = module.packed_kernel()
    torch.empty = lambda *shape, **how: empty(*shape, **how).fill(0xFF)  # between sequences nobody writes, and masks hide it
    values = {"longest": 100, "scale": 0.125, "softcap": 0.0, "CAUSAL": True}
    values = [values.get(name) for name in kernel.values]
    o, l = kernel.run(q, k, v, at, there, *values)
    table = tilec.torch.gradient.links(kernel)
    tilec.torch.gradient.fit = lambda grad: grad
    made = kernel.backward.run(*table.arguments(table.keep((q, k, v, at, there), (o, l)), (g, None), values))
    torch.empty = empty
    out, _, ps = packed_exact(q64, k64, v64, starts, others, 0.125, True)
    want = np.zeros((80, 2, 64)), np.zeros((176, 1, 64)), np.zeros((176, 1, 64))
    for p, a, b, c, d in zip(ps, starts, starts[1:], others, others[1:]):
        dp = np.einsum("qhd,khd->hqk", g64[a:b], np.repeat(v64[c:d], 2, 1))
        ds = p * (dp - (out[a:b] * g64[a:b]).sum(-1).T[..., None])
        want[0][a:b] = np.einsum("hqk,khd->qhd", ds, np.repeat(k64[c:d], 2, 1)) * 0.125
        want[1][c:d, 0] = np.einsum("hqk,qhd->kd", ds, q64[a:b]) * 0.125
        want[2][c:d, 0] = np.einsum("hqk,qhd->kd", p, g64[a:b])
    for have, exactly in zip(made, want):
        near(have.numpy(), exactly, 0.02)
    refused("no window to the right", lambda: flash.flash_attn_varlen_func(q, k, v, at, there, 70, 100, window_size=(3, 3)))
    refused("no dropout", lambda: flash.flash_attn_varlen_func(q, k, v, at, there, 70, 100, 0.1))
    refused("no block_table", lambda: flash.flash_attn_varlen_func(q, k, v, at, there, 70, 100, block_table=at))
    refused("dimension 0 of starts_k is 4", lambda: tilec.torch.attention_varlen(q, k, v, at, there[1:], longest_q=70))
    refused("starts_q must be a tensor", lambda: tilec.torch.attention_varlen(q, k, v, [0, 80], longest_q=70))
    refused("the longest sequence has -1 rows", lambda: tilec.torch.attention_varlen(q, k, v, at, longest_q=-1))
    refused("longest = 2147483648 does not fit 32 bits", lambda: tilec.torch.attention_varlen(q, k, v, at, longest_q=2**31))
    refused("the window is the number", lambda: tilec.torch.attention_varlen(q, k, v, at, longest_q=70, window=0))
    refused("starts_q has no number", lambda: tilec.torch.attention_varlen(q, k, v, at[:0], longest_q=70))


def packed_rest():
    """Rows in no sequence, and those that are beyond the longest that was said: zeros, where memory held something else."""
    from tilec.torch import packed as module

    tilec.torch.gradient.fit = lambda grad: grad
    strided = torch.empty_strided
    torch.empty_strided = lambda *shape, **how: strided(*shape, **how).fill(0xFF)
    try:
        for starts, longest in (([3, 40, 40, 60], 40), ([0, 70], 70), ([80, 80], 1), ([0, 37, 80], 37), ([0, 0], 0), ([5], 9)):
            at = torch.from_numpy(np.array(starts, np.int32))
            (q, _), (k, _), (v, _), (g, _) = (operand(80, h, 64) for h in (2, 1, 1, 2))
            kernel = module.packed_kernel()
            values = {"longest": longest, "scale": 0.125, "softcap": 0.0, "CAUSAL": True}
            values = [values.get(name) for name in kernel.values]
            o, l = kernel.run(q, k, v, at, at, *values)
            table = tilec.torch.gradient.links(kernel)
            made = kernel.backward.run(*table.arguments(table.keep((q, k, v, at, at), (o, l)), (g, None), values))
            there = np.zeros(80, bool)
            for a, b in zip(starts, starts[1:]):
                there[a:min(b, a + longest)] = True
            for tensor in (o, *made[1:]):
                assert not tensor.numpy()[~there].any() and np.isfinite(tensor.numpy()).all(), (starts, longest)
                assert not there.any() or tensor.numpy()[there].any()
            inside = np.concatenate([np.arange(a, b) for a, b in zip(starts, starts[1:])] or [np.arange(0)])
            assert not np.delete(made[0].numpy(), inside, 0).any()
            assert np.isneginf(l.numpy()[:, ~there]).all() and np.isfinite(l.numpy()[:, there]).all()
    finally:
        torch.empty_strided = strided


def of_mask(b, sq, sk, heads, mask, seen, **options):
    """A layer's attention with a Mask, against scores that `seen` [B, Sq, Sk] leaves."""
    from tilec.torch import transformers as models

    (q, q64), (k, k64), (v, v64) = operand(b, sq, heads, 64), operand(b, sk, 1, 64), operand(b, sk, 1, 64)
    layer = types.SimpleNamespace(is_causal=True)
    out, none = models.attention(layer, *[x.transpose(1, 2) for x in (q, k, v)], mask, scaling=0.2, **options)
    s = np.where(seen[:, None], np.einsum("bqhd,bkhd->bhqk", q64, np.repeat(k64, heads, 2)) * 0.2, -np.inf)
    p = np.exp(s - np.maximum(s.max(-1, keepdims=True), -1e300))
    p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)
    near(out.numpy(), np.einsum("bhqk,bkhd->bqhd", p, np.repeat(v64, heads, 2)), 0.01)
    assert none is None


def causal(b, h, q, k):
    return k <= q


def models():
    """What transformers asks for, with padding, windows, packing and caches."""
    from tilec.torch import transformers as models
    from transformers import AttentionInterface, AttentionMaskInterface

    assert AttentionInterface.functions["tilec"] is models.attention
    mask = AttentionMaskInterface.functions["tilec"]
    host = lambda rows: np.array(rows, bool).view(torch.Host)  # noqa: E731
    for more in ({}, {"attention_mask": host([[1] * 50, [1] * 30 + [0] * 20])}):  # a mask, and none that says of parts
        made = mask(2, 50, 50, mask_function=causal, **more)
        assert made.causal and made.parts is None and not made.window
    of_mask(1, 70, 70, 1, mask(1, 70, 70, mask_function=causal), (np.arange(70)[None] <= np.arange(70)[:, None])[None])
    q, k = np.arange(70)[:, None], np.arange(70)[None]
    left = host([[0] * 20 + [1] * 50, [1] * 70, [0] * 70])
    made = mask(3, 70, 70, mask_function=causal, attention_mask=left)
    assert made.parts == (((20, 70, 20, 70),), ((0, 70, 0, 70),), ())
    of_mask(3, 70, 70, 2, made, ((k <= q) & left[:, None] & left[:, :, None]))
    made = mask(3, 1, 70, 69, mask_function=causal, attention_mask=left)  # a token, with a cache
    of_mask(3, 1, 70, 2, made, np.broadcast_to(left[:, None], (3, 1, 70)))
    made = mask(1, 70, 70, mask_function=causal, local_size=16)
    assert made.parts is None and made.window == 16
    of_mask(1, 70, 70, 1, made, ((k <= q) & (k > q - 16))[None], sliding_window=16)
    several = np.repeat([0, 1, 2], [30, 1, 39])
    made = mask(1, 70, 70, mask_function=lambda b, h, q, k: (k <= q) & (several[q] == several[k]), allow_is_causal_skip=False)
    assert made.parts == (((0, 30, 0, 30), (30, 31, 30, 31), (31, 70, 31, 70)),)
    of_mask(1, 70, 70, 1, made, ((k <= q) & (several[q] == several[k]))[None])
    made = mask(2, 40, 90, 10, mask_function=causal)  # a static cache of 90 that holds 10
    assert made.parts == (((0, 40, 0, 50),),) * 2
    of_mask(2, 40, 90, 1, made, np.broadcast_to(np.arange(90)[None] <= np.arange(40)[:, None] + 10, (2, 40, 90)))
    both = lambda b, h, q, k: q >= 0  # noqa: E731
    made = mask(3, 70, 70, mask_function=both, attention_mask=left, allow_is_causal_skip=False, allow_is_bidirectional_skip=True)
    of_mask(3, 70, 70, 1, made, np.broadcast_to(left[:, None], (3, 70, 70)))
    made = mask(1, 70, 70, mask_function=both, local_size=9, allow_is_causal_skip=False, allow_is_bidirectional_skip=True)
    of_mask(1, 70, 70, 1, made, (abs(q - k) <= 9)[None])
    refused("has a hole", lambda: mask(1, 4, 4, mask_function=causal, attention_mask=host([[1, 0, 1, 1]])))
    refused("a mask of its own", lambda: mask(1, 4, 4, mask_function=causal, use_vmap=True, allow_is_causal_skip=False))
    refused("see later ones", lambda: mask(1, 4, 4, mask_function=lambda b, h, q, k: abs(q - k) < 2, allow_is_causal_skip=False))
    refused_layers(models, mask)


def refused_layers(models, mask):
    blocks = np.array([0, -1, 0, -1]).view(torch.Host)  # one that is seen from afar, and not by its neighbour

    def or_mask(b, h, q, k):
        return (k <= q) | ((blocks[q] == blocks[k]) & (blocks[q] >= 0))

    refused("see later ones", lambda: mask(1, 4, 4, mask_function=or_mask, allow_is_causal_skip=False))
    blocks[2] = -1
    assert mask(1, 4, 4, mask_function=or_mask, allow_is_causal_skip=False).parts is None
    layer, (x, _) = types.SimpleNamespace(), operand(1, 2, 70, 64)
    ask = lambda given=None, of=layer, keys=x, **options: models.attention(of, x, keys, keys, given, **options)  # noqa: E731
    refused("no dropout", lambda: ask(dropout=0.1))
    for name in ("s_aux", "position_bias", "indices", "anything"):
        refused(f"the layer's {name}", lambda name=name: ask(**{name: x}))
    refused("keep no attention weights", lambda: ask(output_attentions=True))
    refused("the mask is of 1 queries", lambda: ask(mask(1, 1, 4, mask_function=causal, local_size=2)))
    plain = mask(1, 2, 2, mask_function=causal, config=types.SimpleNamespace(model_type="some"))
    refused("a mask was given as a tensor", lambda: ask(x))
    refused("does not say whether it is causal", ask)
    refused("what its window means", lambda: ask(of=types.SimpleNamespace(is_causal=True), sliding_window=1))
    longer = operand(1, 2, 90, 64)[0]
    refused("though it is causal", lambda: ask(of=types.SimpleNamespace(is_causal=True)))
    refused("set config.is_causal", lambda: ask(mask(1, 70, 70, mask_function=causal), is_causal=False))
    refused("where its", lambda: ask(is_causal=True, keys=longer))
    for use in (lambda: plain + 1, lambda: 1 - plain, lambda: plain.dtype, lambda: plain[:, :, :, :1], lambda: plain >= 0,
                lambda: plain.masked_fill(0, 1), lambda: len(plain), lambda: [*plain]):
        refused("some computes with the mask", use)
    assert plain[:, :, :, :2] is plain and not hasattr(plain, "dtype")


MODELS = """
import torch, transformers
{table}
class {name}Attention(torch.nn.Module):
    def forward(self, q):
        return {called}
class {name}FlashAttention({name}Attention):
    pass
class {name}OutputWithCrossAttentions:
    pass
class {name}Model(transformers.PreTrainedModel):
    config = None
"""


def model_classes():
    """Which models of transformers are refused when they are made, by what their files have."""
    import transformers

    from tilec.torch import transformers as models  # noqa: F401  asks from here on

    def made(name, called, table=""):
        file = sys.modules["models_" + name] = types.ModuleType("models_" + name)
        exec(MODELS.format(name=name, called=called, table=table), file.__dict__)
        return vars(file)[name + "Model"]

    asks = "ALL_ATTENTION_FUNCTIONS.get_interface(q, None)(self, q)"
    new, own = made("New", asks), made("Own", "q.softmax(-1)")
    late = made("Late", "(lambda: ALL_ATTENTION_FUNCTIONS)()")  # in a function within
    old = made("Old", asks, 'OLD_ATTENTION_CLASSES = {"eager": 1}')
    for kind in (new, late, type("Mine", (new,), {"__module__": "none"})):
        assert kind().get_correct_attn_implementation("tilec") == "tilec"
    for kind in (own, old):
        assert kind().get_correct_attn_implementation("sdpa") == "sdpa"
    refused("OwnModel has attention code of its own (OwnAttention)", lambda: own().get_correct_attn_implementation("tilec"))
    refused("a table of its own (OLD_ATTENTION_CLASSES)", lambda: old().get_correct_attn_implementation("tilec", is_init_check=True))
    refused("Mine has attention code", lambda: type("Mine", (own,), {"__module__": "none"})().get_correct_attn_implementation("tilec"))


HALVES = """
kernel halves<T: type = f16, N: int = 32>(X: in T[R, 2 * C], S: out f32[R, cdiv(C, 32)], Z: out T[R, C]) {
    grid r in tiles(R, 4), c in tiles(C, N);
    let z = load X[r, c] * load X[r, c + C];
    store Z[r, c] = z;
    if c.number < cdiv(C, 32) { store S[r, c.number] = sum(z as f32, axis = 1); }
}"""


def follows():
    """Shapes of outputs that follow from dimensions of inputs, and C that no input has by itself."""
    halves = tilec.torch.kernel(HALVES)
    for rows, columns in ((5, 40), (1, 1), (3, 32), (4, 33)):
        x, x64 = operand(rows, 2 * columns, dtype=torch.float16)
        s, z = halves(X=x)
        near(z.numpy(), x64[:, :columns] * x64[:, columns:], 2e-3)
        assert tuple(s.shape) == (rows, -(-columns // 32)) and halves.plans.count > 0
        near(s.numpy().sum(1), (x64[:, :columns] * x64[:, columns:]).sum(1), 2e-2)
    refused("dimension 1 of X must be 2 * C", lambda: halves(X=operand(5, 41, dtype=torch.float16)[0]))
    names = tilec.torch.operators._names(halves, [operand(5, 40, dtype=torch.float16)[0]])
    assert names["C"] == 20 and names["R"] == 5 and "C" not in halves.values


def chain():
    """As many launches as a plan has, with a tensor from each to the next."""
    def of(n):
        text = "".join(f"kernel add_{i}(A{i}: in f32[S], A{i + 1}: out f32[S]) {{ grid m in tiles(S, 64); store A{i + 1}[m] = load A{i}[m] + 1.0; }}\n"
                       for i in range(n))
        return tilec.torch.kernel(text, [f"add_{i}" for i in range(n)], returns=(f"A{n}",))

    x, x64 = operand(100, dtype=torch.float32)
    near(of(24)(A0=x).numpy(), x64 + 24, 1e-6)
    try:
        of(25)(A0=x)
    except ValueError as error:
        assert "a plan takes a tuple of at most 24 steps" in str(error), error
    else:
        raise AssertionError("not refused")


CASES = {"chain": chain, "follows": follows, "forward": lambda: forward(True, 1, "bshd"), "heads first": lambda: forward(False, 2, "bhsd"), "forms": forms, "one form": one_form,
         "machine": machine, "masks": masks, "options": options, "kernel_options": kernel_options, "bytes": of_bytes, "words": of_words, "float8": of_float8, "attention of float8": attention_of_float8, "tf32": of_tf32, "two to a byte": of_packed,
         "decode": decode, "grouped": grouped, "shared_keys": shared_keys, "filled": filled, "backward": backward, "backward_parts": backward_parts, "wire": wire, "backward_of_all": backward_of_all, "backward_of_one_tile": backward_of_one_tile,
         "backward_ways": backward_ways, "any": any_kernel, "empty": empty, "flash": flash_names, "packed": packed, "packed_rest": packed_rest, "models": models,
         "model_classes": model_classes,
         "refusals": refusals}


def main():
    for name, case in CASES.items():
        if sys.argv[2] in ("all", name):
            for kernel in (attention_module.forward_kernel(layout, False) for layout in ("bshd", "bhsd")):
                if kernel.plans is not None:
                    kernel.plans.forget()
            case()
    print("right")


main()
