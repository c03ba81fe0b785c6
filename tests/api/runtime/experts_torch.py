"""experts_torch.py CASE - tilec.torch.moe in PyTorch itself, on CPU tensors without a GPU: TILEC_INTERPRET=1 and =sim; DEVICE=cuda: on one.

Beside float64, with what the kernels round rounded: the products of an expert, to the type of x.
"""
import itertools
import os
import sys

import torch

import tilec.torch
from tilec.torch import experts, moe

DEVICE = os.environ.get("DEVICE", "cpu")  # cuda, on a GPU
SIMULATED = tilec.torch.interpret.IN_SIMULATOR
OPCHECKS = "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"


def refused(words, call, kind=tilec.torch.Error):
    try:
        call()
    except kind as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError("not refused: " + words)


def made(tokens, count, d, f, dtype=torch.bfloat16, scores=torch.float32, seed=0):
    """x, scores, w_gate_up, w_down."""
    random = torch.Generator().manual_seed(seed)
    number = lambda *shape: torch.randn(*shape, generator=random)  # noqa: E731
    x, s, g, w = number(tokens, d), number(tokens, count), number(count, 2 * f, d) * d**-0.5, number(count, d, f) * f**-0.5
    return x.to(DEVICE, dtype), s.to(DEVICE, scores), g.to(DEVICE, dtype), w.to(DEVICE, dtype)


def chosen(scores, top_k, scoring="softmax", normalize=True, bias=None, groups=None, scale=1.0):
    """The weights and the experts of each token, by PyTorch's operators in float64."""
    scores = scores.double()
    s = scores.softmax(-1) if scoring == "softmax" else scores.sigmoid()
    choice = s if bias is None else s + bias.double()
    if groups:
        parts = choice.unflatten(-1, (groups[0], -1))
        best = parts.topk(2, -1).values.sum(-1).topk(groups[1], -1).indices
        is_open = torch.zeros_like(parts[..., 0], dtype=torch.bool).scatter_(-1, best, True)
        choice = parts.masked_fill(~is_open[..., None], -torch.inf).flatten(-2)
    ids = choice.topk(top_k, -1).indices
    weights = s.gather(-1, ids)
    return weights * scale / (weights.sum(-1, keepdim=True) if normalize else 1), ids


def wanted(x, weights, ids, g, w):
    z, count = torch.zeros(x.shape, dtype=torch.float64, device=x.device), len(g)
    for e in range(count):
        row, k = (ids == e).nonzero(as_tuple=True)
        gate, up = (x[row].double() @ g[e].double().t()).chunk(2, -1)
        h = (torch.nn.functional.silu(gate) * up).to(x.dtype).double()
        z.index_add_(0, row, weights[row, k].double()[:, None] * (h @ w[e].double().t()).to(x.dtype).double())
    return z


def near(have, want):
    epsilon = 2.0**-8 if have.dtype == torch.bfloat16 else 2.0**-11
    assert have.shape == want.shape, (have.shape, want.shape)
    error = (have.double() - want).abs().max() if want.numel() else 0
    assert error <= 3 * epsilon * want.abs().max() if want.numel() else True, (error, want.abs().max())


SIZES = [(37, 8, 2, 72, 40), (1, 40, 8, 72, 40), (5, 3, 1, 64, 24)] if DEVICE == "cpu" else [
    (1, 128, 8, 2048, 768), (7, 64, 4, 1024, 512), (300, 8, 2, 1024, 1408), (2000, 60, 4, 520, 264), (4096, 128, 8, 512, 256), (5000, 256, 8, 256, 128)]


def numbers():
    for (tokens, count, top_k, d, f), dtype in itertools.product(SIZES, (torch.bfloat16, torch.float16)):
        x, s, g, w = made(tokens, count, d, f, dtype)
        z = moe(x, s, g, w, top_k)
        assert z.dtype == dtype
        near(z, wanted(x, *chosen(s, top_k), g, w))
        assert torch.equal(moe(x, s, g, w, top_k), z)
        print(tokens, count, top_k, dtype, flush=True)
    x, s, g, w = made(*SIZES[0][:2], *SIZES[0][3:])
    s[:, 1] += 50  # one expert has all tokens, others none
    near(moe(x, s, g, w, 2), wanted(x, *chosen(s, 2), g, w))
    if not SIMULATED and DEVICE == "cpu":
        x, s, g, w = made(180, 3, 72, 40)
        near(moe(x, s, g, w, 2), wanted(x, *chosen(s, 2), g, w))
        x, s, g, w = made(1200, 3, 8, 8)  # counted in two parts
        near(moe(x, s, g, w, 1), wanted(x, *chosen(s, 1), g, w))


def routers():
    x, s, g, w = made(19, 16, 72, 40, scores=torch.bfloat16)
    bias = torch.linspace(-1, 8, 16, device=DEVICE)
    for options in ({"normalize": False}, {"scale": 2.5}, {"scoring": "sigmoid"}, {"scoring": "sigmoid", "normalize": False},
                    {"scoring": "sigmoid", "bias": bias, "scale": 2.0}, {"scoring": "sigmoid", "groups": (4, 2)},
                    {"scoring": "sigmoid", "bias": bias, "groups": (8, 4), "normalize": False}, {"scoring": "sigmoid", "bias": bias, "groups": (1, 1)}):
        near(moe(x, s, g, w, 4, **options), wanted(x, *chosen(s, 4, **options), g, w))
    weights, ids = chosen(s, 3)
    weights = weights.float()
    want = wanted(x, weights, ids, g, w)
    near(moe(x, None, g, w, weights=weights, ids=ids), want)
    near(moe(x, None, g, w, 3, weights=weights, ids=ids.int()), want)
    ids[::2, 1], ids[1::3, 0] = -1, 16  # elsewhere
    near(moe(x, None, g, w, weights=weights, ids=ids), wanted(x, weights, ids, g, w))
    for form in (x[:18].view(2, 9, -1), x.repeat(1, 2)[:, 72:], x.t().contiguous().t(), torch._neg_view(x)):
        rows = form.reshape(-1, 72)
        near(moe(form, s[:len(rows)].view(*form.shape[:-1], 16), g, w, 4).reshape(rows.shape), wanted(rows.clone(), *chosen(s[:len(rows)], 4), g, w))
    assert moe(x[:0], s[:0], g, w, 4).shape == (0, 72)
    equal = torch.zeros_like(s)  # the lowest numbers win
    near(moe(x, equal, g, w, 2), wanted(x, torch.full((19, 2), 0.5), torch.arange(2).repeat(19, 1), g, w) if DEVICE == "cpu" else moe(x, equal, g, w, 2).double())


def in_blocks(*shape, seed=0):
    """Weights in e4m3, their scales, and what they stand for."""
    random = torch.Generator().manual_seed(seed)
    q = torch.randn(shape, generator=random).to(torch.float8_e4m3fn)
    s = (torch.rand(*shape[:-2], shape[-2] // 128, shape[-1] // 128, generator=random) + 0.5) * shape[-1]**-0.5
    return q.to(DEVICE), s.to(DEVICE), (q.double() * s.double().repeat_interleave(128, -2).repeat_interleave(128, -1)).to(DEVICE)


def rounded_fp8(x):
    """On the host: on a GPU PyTorch divides by 448 with a rounded reciprocal, and numbers in the middle of two codes take the other one."""
    parts = x.cpu().float().unflatten(-1, (-1, 128))
    s = parts.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
    return ((parts / s).to(torch.float8_e4m3fn).double() * s.double()).flatten(-2).to(x.device)


def eights():
    """Weights in e4m3."""
    for tokens, count, top_k, d, f in [(5, 6, 2, 256, 128), (1, 9, 3, 128, 256)] if DEVICE == "cpu" else [
            (1, 64, 8, 2048, 768), (64, 256, 8, 1024, 256), (700, 16, 2, 512, 1408), (3000, 8, 2, 384, 640)]:
        for dtype in torch.bfloat16, torch.float16:
            x, s, _, _ = made(tokens, count, d, 8, dtype)
            (g, sg, wide_g), (w, sw, wide_w) = in_blocks(count, 2 * f, d), in_blocks(count, d, f, seed=1)
            have = moe(x, s, g, w, top_k, scale_gate_up=sg, scale_down=sw)
            weights, ids = chosen(s, top_k)
            z, rows = torch.zeros(x.shape, dtype=torch.float64, device=x.device), rounded_fp8(x)
            for e in range(count):
                row, k = (ids == e).nonzero(as_tuple=True)
                gate, up = (rows[row] @ wide_g[e].t()).to(dtype).double().chunk(2, -1)
                z.index_add_(0, row, weights[row, k, None] * (rounded_fp8(torch.nn.functional.silu(gate) * up) @ wide_w[e].t()).to(dtype).double())
            assert have.dtype == dtype and have.shape == z.shape
            error = (have.double() - z).norm() / z.norm()  # a hidden number may be rounded to its other neighbour
            assert error < 0.02, (tokens, count, error)
            call = lambda x, s: moe(x, s, g, w, top_k, scale_gate_up=sg, scale_down=sw)  # noqa: B023, E731
            if not SIMULATED:
                torch._dynamo.reset()
                assert torch.equal(torch.compile(call, backend="aot_eager", fullgraph=True)(x, s), have)
    given = moe(x, None, g, w, weights=weights.float(), ids=ids.int(), scale_gate_up=sg, scale_down=sw)
    assert (given.double() - have.double()).norm() <= 2.0**-10 * have.double().norm()  # weights are rounded in another way
    if not SIMULATED:
        torch.library.opcheck(experts.forward_kernel("routed", True).registered(), (s, x, g, sg, w, sw, 1.0, top_k, False, True),
                              test_utils=OPCHECKS[1:])  # the first multiplies what it is given, which e4m3 does not
    for words, ask in (
            ("scale_gate_up is NoneType; it must be float32", lambda: moe(x, s, g, w, 2)),
            ("scale_down is float32", lambda: moe(x, s, g, w, 2, scale_gate_up=sg, scale_down=sg)),
            ("w_down is float32", lambda: moe(x, s, g, w.float(), 2, scale_gate_up=sg, scale_down=sw)),
            ("of float8_e4m3fn, D and F are multiples of 128", lambda: moe(x[:, :64], s, g[..., :64], w[:, :64], 2)),
            ("scale_gate_up and scale_down are of weights in float8_e4m3fn, and these are", lambda: moe(x, s, g.to(x.dtype), w.to(x.dtype), 2, scale_down=sw))):
        refused(words, ask)


def transforms():
    x, s, g, w = made(11, 8, 72, 40)
    bias = torch.linspace(-1, 1, 8, device=DEVICE)
    weights, ids = chosen(s, 2)
    calls = (lambda x, s: moe(x, s, g, w, 2), lambda x, s: moe(x, s, g, w, 2, scoring="sigmoid", bias=bias, groups=(4, 2), scale=2.0),
             lambda x, s: moe(x, None, g, w, weights=weights.float()[:len(x)], ids=ids[:len(x)]))
    for call in calls:
        want = call(x, s)
        torch._dynamo.reset()
        fast = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=False)
        assert torch.equal(fast(x, s), want)
        torch._dynamo.reset()
        fast = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=True)
        for rows in (11, 7, 3):
            assert torch.equal(fast(x[:rows], s[:rows]), call(x[:rows], s[:rows]))
    assert torch.equal(torch.vmap(calls[0])(torch.stack([x, x]), torch.stack([s, s]))[1], calls[0](x, s))
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert torch.equal(moe(x.float(), s, g.float(), w.float(), 2), calls[0](x, s))

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("g", g)
            self.register_buffer("w", w)

        def forward(self, x, s):
            return moe(x, s, self.g, self.w, 2) + 1

    assert torch.equal(torch.export.export(Layer(), (x, s)).module()(x, s), Layer()(x, s))


def checked():
    """PyTorch's own checks of the operators."""
    x, s, g, w = made(5, 8, 72, 40)
    g, bias, ids = g.unflatten(1, (2, 40)), torch.zeros(8, device=DEVICE), chosen(s, 2)[1].int().reshape(-1)
    for kind, arguments in (("routed", (s, x, g, w, 1.0, 2, False, True)), ("biased", (s.reshape(-1), bias, x, g, w, 1.0, 2, 4, 2, True)),
                            ("given", (ids, x, g, w, torch.ones(10, device=DEVICE), 2))):
        torch.library.opcheck(experts.forward_kernel(kind).registered(), arguments, test_utils=OPCHECKS)


def forms():
    """All forms compile for all targets, and multiply as they should."""
    for arch, few, many in (("sm_80", "mma.sync", "mma.sync"), ("sm_90", "wgmma.mma_async", "wgmma.mma_async"), ("sm_100", "mma.sync", "tcgen05.mma"),
                            ("sm_120", "mma.sync", "mma.sync")):
        for tokens, fp8 in itertools.product((8, 16, 32, 512, 5000), (False, True)):
            form = experts.form_for(tokens, 2, 4 if tokens < 1000 else 8, arch, fp8)
            kernel = experts.kernel_of("routed", form)
            assert set(kernel.bound) == {"T", "TL", "E"}, kernel.bound  # no tile has the size of a tensor
            defines = {**kernel.defines, "T": "bf16", "TL": "f32", "E": 8, "KK": 2}
            code = kernel._compiled(arch, tuple(sorted((name, str(value)) for name, value in defines.items())))
            wanted = "mma" if fp8 and arch == "sm_100" else many if tokens >= 512 and not fp8 else few
            for name in kernel.names[3], kernel.names[-2]:
                text = code.ptx[code.ptx.index(f".entry {name}("):]
                assert wanted in text[:text.index("\n}\n")], (arch, tokens, fp8, name, wanted)


def graphs():
    """On a GPU: under CUDA graphs, and what the host does in a call."""
    import time
    x, s, g, w = made(64, 128, 2048, 768)
    moe(x, s, g, w, 8)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = moe(x, s, g, w, 8)
    for seed in (1, 2):
        for have, new in zip((x, s), made(64, 128, 2048, 768, seed=seed)):
            have.copy_(new)
        graph.replay()
        near(z, wanted(x, *chosen(s, 8), g, w))
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(200):
        moe(x, s, g, w, 8)
    print(f"{(time.perf_counter() - began) / 200 * 1e6:.1f} us of host time a call", flush=True)
    torch.cuda.synchronize()


def refusals():
    x, s, g, w = made(5, 8, 72, 40)
    weights, ids = torch.ones(5, 2, device=DEVICE), torch.zeros(5, 2, dtype=torch.int32, device=DEVICE)
    for words, ask in (
            ("x must be a tensor, not list", lambda: moe([1.0], s, g, w, 2)),
            ("x is float32 [5, 72]; it must be float16 or bfloat16 [.., D]: cast it, or use torch.autocast", lambda: moe(x.float(), s, g, w, 2)),
            ("w_gate_up is float32 [8, 80, 72]; it must be bfloat16 [E, 2 F, 72]", lambda: moe(x, s, g.float(), w, 2)),
            ("w_gate_up is bfloat16 [8, 80, 64]", lambda: moe(x, s, g[..., :64], w, 2)), ("w_gate_up is NoneType", lambda: moe(x, s, None, w, 2)),
            ("D and F are multiples of 8", lambda: moe(x, s, g[:, :72], w, 2)),
            ("w_down is bfloat16 [8, 72, 32]; it must be bfloat16 [E, D, F], here [8, 72, 40]", lambda: moe(x, s, g, w[..., :32], 2)),
            ("scores is float32 [5, 7]; it must be float32, bfloat16 or float16 [5, 8]", lambda: moe(x, s[:, :7], g, w, 2)),
            ("scores is float64", lambda: moe(x, s.double(), g, w, 2)),
            ("top_k is a whole number from 1 to 8, not None", lambda: moe(x, s, g, w)), ("from 1 to 8, not 9", lambda: moe(x, s, g, w, 9)),
            ("from 1 to 8, not 2.0", lambda: moe(x, s, g, w, 2.0)), ("scoring is 'softmax' or 'sigmoid', not 'tanh'", lambda: moe(x, s, g, w, 2, scoring="tanh")),
            ("bias and groups are for scoring='sigmoid'", lambda: moe(x, s, g, w, 2, groups=(2, 1))),
            ("bias is float32 [7]; it must be float32 [8]", lambda: moe(x, s, g, w, 2, scoring="sigmoid", bias=s[0, :7])),
            ("8 experts cannot be in 3 groups", lambda: moe(x, s, g, w, 2, scoring="sigmoid", groups=(3, 1))),
            ("8 experts cannot be in 8 groups of two or more, of which 1", lambda: moe(x, s, g, w, 1, scoring="sigmoid", groups=(8, 1))),
            ("groups are (how many there are, how many are chosen), not 4", lambda: moe(x, s, g, w, 2, scoring="sigmoid", groups=4)),
            ("1 of 4 groups have 2 experts, fewer than top_k = 3", lambda: moe(x, s, g, w, 3, scoring="sigmoid", groups=(4, 1))),
            ("without scores there are weights and ids", lambda: moe(x, None, g, w, 2)),
            ("weights and ids are given in place of scores", lambda: moe(x, s, g, w, 2, ids=ids)),
            ("scoring, bias, groups and scale are about scores", lambda: moe(x, None, g, w, weights=weights, ids=ids, scale=2.0)),
            ("ids is int32 [5, 2]; it must be int32 [5, 3]", lambda: moe(x, None, g, w, 3, weights=weights, ids=ids)),
            ("weights is float64 [5, 2]; it must be float32 [5, 2]", lambda: moe(x, None, g, w, weights=weights.double(), ids=ids)),
            ("scale must be a number, not None", lambda: moe(x, s, g, w, 2, scale=None)),
            ("is on the device 'meta'", lambda: moe(x, s, g.to("meta"), w, 2))):
        refused(words, ask)
    y = x.clone().requires_grad_()
    refused("moe_routed cannot be differentiated", lambda: moe(y, s, g, w, 2).sum().backward())


if __name__ == "__main__":
    {case.__name__: case for case in (numbers, routers, eights, transforms, checked, forms, graphs, refusals)}[sys.argv[1]]()
    print("right")
