"""quantised_torch.py CASE - tilec.torch.matmul in PyTorch itself, on CPU tensors without a GPU: TILEC_INTERPRET=1 and =sim.

Weights are those that the packages of the field packed (tests/formats); what they stand for is worked out here in float64, bit by bit, and
compared with what the packages unpack, too.
"""
import os
import sys

import numpy as np
import torch

import tilec.torch
from tilec.torch import matmul

HERE = os.path.dirname(os.path.abspath(__file__))
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6] + [-x for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6)])
OPCHECKS = "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"
DEVICE = os.environ.get("DEVICE", "cpu")  # cuda, on a GPU
SIMULATED = tilec.torch.interpret.IN_SIMULATOR


def refused(words, call, kind=tilec.torch.Error):
    try:
        call()
    except kind as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError("not refused: " + words)


def data(name):
    return dict(np.load(os.path.join(HERE, "..", "..", "formats", name + ".npz")))


def bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def e4m3(codes):
    """By the definition: a sign, 4 bits of exponent, 3 of mantissa."""
    codes = codes.astype(np.int64)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return np.where(codes & 127 == 127, np.nan, np.where(codes & 128, -value, value))


def nibbles(words, n):
    """The nibbles of words, from the lowest on, in a dimension behind."""
    return words.view(np.uint32)[..., None] >> (4 * np.arange(n)) & 15


def gptq(p, weight, zeros, more, index):
    q = nibbles(p[weight], 8).transpose(0, 2, 1).reshape(-1, p[weight].shape[1]).astype(np.float64)
    z = (nibbles(p[zeros], 8).reshape(len(p[zeros]), -1) + more) & 15
    return ((q - z[index]) * p["scales"].astype(np.float64)[index]).T


def awq(p):
    def columns(words):
        return nibbles(words, 8)[..., [0, 4, 1, 5, 2, 6, 3, 7]].reshape(len(words), -1).astype(np.float64)
    group = len(p["qweight"]) // len(p["scales"])
    return ((columns(p["qweight"]) - columns(p["qzeros"]).repeat(group, 0)) * p["scales"].astype(np.float64).repeat(group, 0)).T


def pairs(packed):
    """Codes along K, the lower nibble first."""
    return np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)


def tensor(x, dtype=None):
    made = torch.from_numpy(np.ascontiguousarray(x)).to(DEVICE)
    return made.view(dtype) if dtype else made


def cases():
    """(layout, arguments, W [N, K] in float64, what the package unpacks)"""
    p = data("gptq")
    groups = np.arange(64) // 32
    for layout, zeros, more in (("gptq", "qzeros", 1), ("gptq_v2", "qzeros_v2", 0)):
        given = [tensor(p[name]) for name in ("qweight", "scales", zeros)]
        yield layout, given, {}, gptq(p, "qweight", zeros, more, groups), p["weights"].T
        given = [tensor(p[name]) for name in ("act_order_qweight", "scales", zeros)]
        yield (layout, given, {"index": tensor(p["act_order_g_idx"])}, gptq(p, "act_order_qweight", zeros, more, p["act_order_g_idx"]),
               p["act_order_weights"].T)
    p = data("awq")
    yield "awq", [tensor(p[name]) for name in ("qweight", "scales", "qzeros")], {}, awq(p), p["weights"].T
    p = data("mxfp4")
    for e in range(len(p["blocks"])):
        blocks, scales = p["blocks"][e], p["scales"][e]
        want = E2M1[pairs(blocks.reshape(len(blocks), -1))] * 2.0 ** (scales.astype(np.float64).repeat(32, 1) - 127)
        yield "mxfp4", [tensor(blocks), tensor(scales)], {}, want, bf16(p["weights"][e]).T
    yield "mxfp4", [tensor(blocks.reshape(len(blocks), -1)), tensor(scales, torch.float8_e8m0fnu)], {}, want, bf16(p["weights"][e]).T
    p = data("nvfp4")
    for layout, names, power in (("nvfp4", ("packed", "scale", "global", "weights"), -1),
                                 ("nvfp4_multiplied", ("torchao_packed", "torchao_scale", "torchao_per_tensor", "torchao_weights"), 1)):
        packed, scale, every, unpacked = (p[name] for name in names)
        want = E2M1[pairs(packed)] * e4m3(scale).repeat(16, 1) * every.astype(np.float64).item() ** power
        yield (layout, [tensor(packed), tensor(scale, torch.float8_e4m3fn)], {"global_scale": tensor(every)}, want,
               bf16(unpacked) if unpacked.dtype == np.uint16 else unpacked)
    p = data("nf4")
    codes = np.stack([p["packed"] >> 4, p["packed"] & 15], -1).reshape(24, 128)
    want = p["code"].astype(np.float64)[codes] * p["absmax"].astype(np.float64).reshape(24, 2).repeat(64, 1)
    yield "nf4", [tensor(p["packed"]), tensor(p["absmax"])], {}, want, p["weights"]
    table = (np.arange(16) / 8 - 1).astype(np.float32)
    yield ("nf4", [tensor(p["packed"].reshape(24, 64)), tensor(p["absmax"].reshape(24, 2))], {"table": tensor(table)},
           table.astype(np.float64)[codes] * p["absmax"].astype(np.float64).reshape(24, 2).repeat(64, 1), None)
    p = data("fp8")
    want = e4m3(p["weight"]) * p["scale_inv"].astype(np.float64).repeat(128, 0).repeat(128, 1)[:136, :144]
    yield "fp8_blocks", [tensor(p["weight"], torch.float8_e4m3fn), tensor(p["scale_inv"])], {}, want, p["weights"]
    p = data("gguf")
    for layout, bytes_ in (("q4_0", 18), ("q8_0", 34)):
        blocks = p[layout].reshape(8, 3, bytes_)
        d = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16).astype(np.float64)
        codes = np.concatenate([blocks[:, :, 2:] & 15, blocks[:, :, 2:] >> 4], 2) - 8.0 if layout == "q4_0" else blocks[:, :, 2:].view(np.int8)
        yield layout, [tensor(p[layout].reshape(8, -1))], {}, (codes * d).reshape(8, 96), p[layout + "_weights"]
    r = np.random.default_rng(0)
    for shape in (40,), (40, 1):
        q, s = r.integers(-128, 128, (40, 80)).astype(np.int8), r.uniform(0.5, 2, shape).astype(np.float32)
        yield "int8", [tensor(q), tensor(s)], {}, q * s.astype(np.float64).reshape(40, 1), None


def near(have, x, w, epsilon):
    """Within the rounding of weights and sums to the types that have them."""
    x = x.double().cpu().numpy()
    want, size = x @ w.T, np.abs(x) @ np.abs(w.T)
    assert tuple(have.shape) == want.shape, (have.shape, want.shape)
    error = np.abs(have.double().cpu().numpy() - want) - epsilon * size - 2.0**-20 * size
    assert error.max(initial=-1) <= 0, (error.max(), epsilon)


def x_of(k, *rows, dtype=torch.bfloat16):
    return torch.randn(*rows, k, generator=torch.Generator().manual_seed(k)).to(DEVICE, dtype)


def layouts():
    seen = set()
    for layout, given, options, w, unpacked in cases():
        if unpacked is not None:  # within the rounding of the package's own type
            assert np.abs(w - unpacked).max() <= 2.0**-8 * np.abs(w).max(), layout
        first, k = layout not in seen, w.shape[1]
        seen.add(layout)
        for dtype, epsilon in ((torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)):
            if dtype == torch.float16 and np.abs(w).max() > 60000:
                continue  # MXFP4 of that size is for bf16
            wide = 2.0**-25 * k if dtype == torch.float16 else 0  # of weights that are subnormal in f16
            x = x_of(k, 5, dtype=dtype)
            near(matmul(x, *given, layout=layout, **options), x, w, 2 * epsilon + wide)
            near(matmul(x, *given, layout=layout, out_dtype=torch.float32, **options), x, w, epsilon + wide)
        if first and not SIMULATED:
            x = x_of(k, 2, 3)
            have = matmul(x, *given, layout=layout, **options)
            assert have.shape == (2, 3, len(w)) and have.dtype == torch.bfloat16
            near(have.view(6, -1), x.view(6, k), w, 2.0**-7)
            assert matmul(x[:0], *given, layout=layout, **options).shape == (0, 3, len(w))
            assert torch.equal(matmul(x[0, 0], *given, layout=layout, **options), have[0, 0])
            wide = x_of(2 * k, 5)
            for view in (wide[:, k:], x_of(5, k).t(), x_of(k, 5, 2)[:, 1], wide[::2, ::2], torch._neg_view(x[0])):
                near(matmul(view, *given, layout=layout, **options), view, w, 2.0**-7)
            turned = [t.t().contiguous().t() if t.dim() == 2 else t for t in given]
            near(matmul(x[0], *turned, layout=layout, **options), x[0], w, 2.0**-7)
    assert seen == set(tilec.torch.quantised.LAYOUTS), seen


def transforms():
    for layout, given, options, w, _ in cases():
        x, names = x_of(w.shape[1], 3), [*options]
        call = lambda x, *these: matmul(x, *these[:len(given)], layout=layout, **dict(zip(names, these[len(given):])))  # noqa: B023, E731
        these = *given, *options.values()
        want = call(x, *these)
        near(want, x, w, 2.0**-7)
        torch._dynamo.reset()
        fast = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=False)
        assert torch.equal(fast(x, *these), want), layout
        assert torch.equal(torch.vmap(lambda x: call(x, *these))(torch.stack([x, x]))[1], want)  # noqa: B023
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            assert torch.equal(call(x.float(), *these), want)
    torch._dynamo.reset()
    rows = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=True)
    for m in (2, 7, 9):
        x = x_of(w.shape[1], m)
        near(rows(x, *these), x, w, 2.0**-7)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", given[0])
            self.register_buffer("scales", given[1])

        def forward(self, x):
            return matmul(x, self.weight, self.scales, layout=layout) + 1

    assert torch.equal(torch.export.export(Layer(), (x,)).module()(x), Layer()(x))


def checked():
    """PyTorch's own checks of an operator."""
    for name in tilec.torch.quantised.KERNELS:
        tilec.torch.quantised._prepare(name, "bf16")
    for layout, given, options, w, _ in cases():
        x = x_of(w.shape[1], 3)
        all_given = {"weight": given[0], "scales": None, "zeros": None, "index": None, "global_scale": None, "table": None, **options}
        all_given.update(zip(("scales", "zeros"), given[1:]))
        name, tensors, values = tilec.torch.quantised.LAYOUTS[layout](tilec.torch.quantised.Given(layout, w.shape[1], **all_given))
        operator = tilec.torch.quantised.forward_kernel(name, "bf16").registered()
        tests = [test for test in OPCHECKS if not (test == "test_schema" and torch.float8_e4m3fn in [t.dtype for t in tensors])]  # it multiplies them
        torch.library.opcheck(operator, (*tensors, x, *values), test_utils=tests)


def sizes():
    """GPTQ, AWQ, int8 and MXFP4 at sizes of layers, by each kernel that a number of rows takes."""
    r, words = np.random.default_rng(1), not tilec.torch.interpret.BY_PROGRAM  # without another kernel, weights are rounded
    for n, k, group, every in ((288, 512, 128, (1, 9, 35, 70, 140)), (64, 2048, 256, (1, 16)), (136, 768, 384, (1, 3, 17))) if DEVICE == "cpu" else (
            (1536, 2048, 128, (1, 2, 5, 16, 17, 300)), (4096, 4096, 128, (1, 16, 64)), (200, 14336, 128, (1, 8)), (1032, 1280, 64, (1, 16))):
        p = {"qweight": r.integers(-2**31, 2**31, (k // 8, n), dtype=np.int32), "qzeros": r.integers(-2**31, 2**31, (k // group, n // 8), dtype=np.int32),
             "scales": r.uniform(0.5, 1.5, (k // group, n)).astype(np.float16)}
        w, given = gptq(p, "qweight", "qzeros", 1, np.arange(k) // group), [tensor(p[name]) for name in ("qweight", "scales", "qzeros")]
        other = {**p, "qweight": r.integers(-2**31, 2**31, (k, n // 8), dtype=np.int32)}
        q8, s8 = r.integers(-128, 128, (n, k)).astype(np.int8), r.uniform(0.5, 1.5, n).astype(np.float32)
        q4, s4 = r.integers(0, 256, (n, k // 2)).astype(np.uint8), r.integers(120, 131, (n, k // 32)).astype(np.uint8)
        for layout, given, w, tile in (("gptq", given, w, 128), ("awq", [tensor(other[name]) for name in ("qweight", "scales", "qzeros")], awq(other), 64),
                                       ("int8", [tensor(q8), tensor(s8)], q8 * s8.astype(np.float64)[:, None], 1),
                                       ("mxfp4", [tensor(q4), tensor(s4)], E2M1[pairs(q4)] * 2.0 ** (s4.astype(np.float64).repeat(32, 1) - 127), 1)):
            for rows in every:
                for dtype in (torch.bfloat16, torch.float16):
                    x = x_of(k, rows, dtype=dtype)
                    exact = rows <= 64 and not group % tile and words and (layout != "awq" or not n % 32)
                    near(matmul(x, *given, layout=layout), x, w, 2.0**-7)
                    near(matmul(x, *given, layout=layout, out_dtype=torch.float32), x, w, 2.0**-18 if exact else 2.0**-8)


def graphs():
    """On a GPU: under CUDA graphs, and what the host does in a call."""
    import time
    for layout, given, options, w, _ in cases():
        x = x_of(w.shape[1], 3)
        call = lambda: matmul(x, *given, layout=layout, **options)  # noqa: B023, E731
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = call()
        for seed in (1, 2):
            x.copy_(torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)))
            graph.replay()
            near(y, x, w, 2.0**-7)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(200):
            call()
        print(f"{layout}: {(time.perf_counter() - began) / 200 * 1e6:.1f} us of host time a call", flush=True)
        torch.cuda.synchronize()


def refusals():
    p = data("gptq")
    q, s, z = (tensor(p[name]) for name in ("qweight", "scales", "qzeros"))
    x = x_of(64, 3)
    call = lambda *these, layout="gptq", **options: matmul(*these, layout=layout, **options)  # noqa: E731
    for words, ask in (
            ("the layout 'gguf' is not known, but gptq, gptq_v2, awq", lambda: call(x, q, s, z, layout="gguf")),
            ("x is float32, and products by quantised weights take float16 and bfloat16: cast it", lambda: call(x.float(), q, s, z)),
            ("x is float64", lambda: call(x.double(), q, s, z)), ("x must be a tensor, not list", lambda: call([1.0], q, s, z)),
            ("x is [.., K], and has the shape []", lambda: call(x[0, 0], q, s, z)),
            ("weight must be a tensor, not NoneType: the layout 'gptq' has weights of int32 [K / 8, N], here [8, N]", lambda: call(x, None, s, z)),
            ("weight is int64 [8, 32]; with K = 64 the layout 'gptq' has weights of int32", lambda: call(x, q.long(), s, z)),
            ("weight is int32 [8, 32]; with K = 72 the layout 'gptq' has weights of int32 [K / 8, N], here [9, N]", lambda: call(x_of(72, 3), q, s, z)),
            ("scales is float16 [2, 31]", lambda: call(x, q, s[:, :31], z)), ("scales must be a tensor, not NoneType", lambda: call(x, q)),
            ("there are 3 rows of scales, which do not divide K = 64", lambda: call(x, q, s.repeat(2, 1)[:3], z)),
            ("zeros is int32 [2, 4, 1]; with K = 64 the layout 'gptq' has zero points of int32 [K / group, N / 8], here [2, 4]", lambda: call(x, q, s, z[..., None])),
            ("the layout 'gptq' has no table", lambda: call(x, q, s, z, table=s)), ("the layout 'awq' has no index", lambda: call(x, q, s, z, layout="awq", index=s)),
            ("index is int32 [63]", lambda: call(x, q, s, z, index=torch.zeros(63, dtype=torch.int32, device=DEVICE))),
            ("out_dtype is float16, bfloat16 or float32, not torch.int8", lambda: call(x, q, s, z, out_dtype=torch.int8)),
            ("the layout 'int8' has weights of int8 [N, K]", lambda: call(x, q, s, layout="int8")),
            ("it is a multiple of 32", lambda: call(x_of(40, 2), q, layout="q4_0")),
            ("has a global_scale of float32 [1]", lambda: call(x, torch.zeros(8, 32, dtype=torch.uint8), torch.zeros(8, 4).to(torch.float8_e4m3fn), layout="nvfp4")),
            ("Q is on the device 'meta'", lambda: call(x, q.to("meta"), s, z))):
        refused(words, ask)
    w = x.clone().requires_grad_()
    refused("matmul_gptq_bf16 cannot be differentiated", lambda: call(w, q, s, z).sum().backward())


if __name__ == "__main__":
    {case.__name__: case for case in (layouts, sizes, transforms, checked, graphs, refusals)}[sys.argv[1]]()
    print("right")
