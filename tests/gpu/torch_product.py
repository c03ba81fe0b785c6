"""torch_product.py - tilec.torch on a GPU: is it right, is it quick, does PyTorch's machinery hold around it.

    python3 tests/gpu/torch_product.py [--out FOLDER] [--only NAME..]     (tilec on PYTHONPATH)

torch_harness.py says how checks run and what is printed.
"""
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from torch_harness import best_us, check, gpu_ms, main, note, refused, stage, timed  # noqa: E402


# ---- operands and references ----


def operands(b=2, sq=200, sk=None, hq=4, hk=None, d=64, dv=None, dtype=None, seed=0, grad=True):
    import torch

    torch.manual_seed(seed)
    dtype = dtype or torch.bfloat16
    shapes = [(b, sq, hq, d), (b, sk or sq, hk or hq, d), (b, sk or sq, hk or hq, dv or d)]
    return [torch.randn(shape, device="cuda").to(dtype).requires_grad_(grad) for shape in shapes]


def scores(q, k, causal=False, window=None, right=None, softcap=0.0, scale=None, alibi=False):
    """Of [B, H, Sq, D] and [B, H, Sk, D], by plain operations in their type; -inf where a key is not seen."""
    import torch

    (heads, sq), sk = q.shape[1:3], k.shape[2]
    s = (q @ k.transpose(2, 3)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    after = torch.arange(sk, device=q.device)[None] - (torch.arange(sq, device=q.device)[:, None] + sk - sq)
    if alibi:
        slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=q.device, dtype=torch.float64) / heads)
        s = s - (slope[:, None, None] * after.abs()).to(s.dtype)
    right = 0 if causal else right
    seen = torch.ones(sq, sk, dtype=torch.bool, device=q.device)
    if right is not None and right >= 0:
        seen &= after <= right
    if window:
        seen &= after > -window
    return s.masked_fill(~seen, -torch.inf)


def probabilities(s):
    import torch

    return torch.where((s > -torch.inf).any(-1, keepdim=True), s.softmax(-1), torch.zeros((), dtype=s.dtype, device=s.device))


def by_heads(q, k, v):
    """[B, H, S, D] with the keys of each query head."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)


def reference(q, k, v, *options, **named):
    """Attention of [B, S, H, D] by plain operations in the type of q: (O, L); options as of scores()."""
    q, k, v = by_heads(q, k, v)
    s = scores(q, k, *options, **named)
    return (probabilities(s) @ v).transpose(1, 2), s.logsumexp(-1)


def exact(*these, **options):
    return reference(*[x.double() for x in these], **options)[0]


ROUNDINGS = 2.0**-20  # of terms in float32, a few of them


def terms(q, k, v, grad, scale=None, **options):
    """The largest of what elements of dQ and of dK are sums of.  Each term of a sum is taken off their mean: a query that sees
    one key leaves nothing, and a plain computation has 0 there."""
    group, of_keys = q.shape[2] // k.shape[2], k.shape[:1] + k.shape[2:3]
    q, k, v = by_heads(q, k, v)
    p = probabilities(scores(q, k, scale=scale, **options))
    each = p * (grad.transpose(1, 2).abs() @ v.abs().transpose(2, 3)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    of_k = (each.transpose(2, 3) @ q.abs()).reshape(*of_keys, group, *k.shape[2:]).sum(2)
    return [x.max().item() if x.numel() else 0.0 for x in (each @ k.abs(), of_k)]


def ratio(have, want, plain, size=0.0):
    """The error as a part of what is allowed: twice that of a plain 16-bit computation, and roundings of terms of that size."""
    allowed = 2 * (plain.double() - want).abs().max().item() + 1e-5 + ROUNDINGS * size
    return (have.double() - want).abs().max().item() / allowed


def worst(function, these, **options):
    """The worst error / allowed of the output and the gradients of `function`."""
    import torch

    wide = [x.detach().double().requires_grad_() for x in these]
    want = reference(*wide, **options)[0]
    grad = torch.randn(want.shape, device="cuda").to(these[0].dtype)
    want = [want, *torch.autograd.grad(want, wide, grad.double())]
    near = [x.detach().clone().requires_grad_() for x in these]
    plain = reference(*near, **options)[0]
    plain = [plain, *torch.autograd.grad(plain, near, grad)]
    out = function(*these)
    have = [out, *torch.autograd.grad(out, these, grad)]
    sizes = [0.0, *terms(*[x.detach() for x in wide], grad.double(), **options), 0.0]
    return max(ratio(*four) for four in zip(have, want, plain, sizes))


def attention(*these, **options):
    import tilec.torch

    return tilec.torch.attention(*these, **{"causal": True, **options})


def good(function=attention, **shape):
    found = worst(function, operands(**shape), causal=True)
    assert found <= 1, f"error / allowed {found:.2f}"
    return found


# ---- right ----


@check
def smoke():
    """One forward and one backward, step by step."""
    with stage("import torch"):
        import torch
    with stage("a context"):
        torch.zeros(1, device="cuda").item()
    with stage("import tilec.torch"):
        import tilec.torch
        from tilec.torch import code

    def spoken(what, function):
        def run(*arguments, **options):
            with stage("  " + what):
                return function(*arguments, **options)
        return run

    code.Source.compile = spoken("libtilec", code.Source.compile)
    load = code.Code.function
    code.Code.function = lambda self, gpu, name: spoken(f"{name}: machine code by the driver, or from its cache", load)(self, gpu, name)
    these = operands(b=1, sq=128, hq=1, d=128)
    with stage("forward, returned"):
        out = attention(*these)
    with stage("forward, done"):
        torch.cuda.synchronize()
    with stage("backward, returned"):
        grads = torch.autograd.grad(out, these, torch.ones_like(out))
    with stage("backward, done"):
        torch.cuda.synchronize()
    assert (out.double() - exact(*these, causal=True)).abs().max() < 0.03 and len(grads) == 3


def right(cases):
    import tilec.torch

    failed = []
    for shape, options in cases:
        start = time.perf_counter()
        try:
            found = worst(lambda *these: tilec.torch.attention(*these, **options), operands(**shape),
                          **{k: v for k, v in options.items() if k != "deterministic"})
        except Exception as error:  # noqa: BLE001  (the next case is tried all the same)
            found = f"{type(error).__name__}: {error}"
        note(f"{shape} {options}", found if isinstance(found, str) else round(found, 3))
        note("seconds", round(time.perf_counter() - start, 2))
        if isinstance(found, str) or not found <= 1:
            failed.append(f"{shape} {options}: {found}")
    assert not failed, "; ".join(failed)


@check
def right_plain():
    right([({}, {}), ({}, {"causal": True}), ({"sq": 113, "sk": 203, "hk": 2}, {"causal": True}),
           ({"sq": 700, "d": 128}, {"causal": True}), ({"d": 128, "hq": 8, "hk": 1}, {}),
           ({"sq": 300, "sk": 100}, {}), ({"b": 1, "hq": 1, "sq": 65}, {"causal": True, "scale": 0.3})])


@check
def right_masks():
    right([({}, {"causal": True, "window": 50}), ({}, {"window": 20, "right": 30}), ({}, {"softcap": 5.0}),
           ({}, {"causal": True, "softcap": 30.0, "window": 70}), ({}, {"causal": True, "alibi": True})])


@check
def right_shapes():
    import torch

    right([({"d": 256, "hk": 2}, {"causal": True}), ({"d": 192, "dv": 128}, {"causal": True}),
           ({"d": 40}, {"causal": True}), ({"dtype": torch.float16}, {"causal": True}),
           ({"dtype": torch.float16, "d": 128}, {}), ({"d": 96}, {})])


@check
def right_deterministic():
    import torch

    right([({}, {"causal": True, "deterministic": True}), ({"d": 128, "hk": 2}, {"deterministic": True})])
    these, first = operands(sq=900), None
    for _ in range(5):
        out = attention(*these, deterministic=True)
        made = torch.autograd.grad(out, these, torch.ones_like(out))
        first = first or made
        assert all(torch.equal(a, b) for a, b in zip(made, first)), "bits differ from run to run"


@check
def right_layouts():
    import torch
    import tilec.torch

    def heads_first(q, k, v):
        return attention(*[x.transpose(1, 2) for x in (q, k, v)], layout="bhsd").transpose(1, 2)

    def stored_heads_first(q, k, v):
        return attention(*[x.transpose(1, 2).contiguous() for x in (q, k, v)], layout="bhsd").transpose(1, 2)

    def packed(q, k, v):
        return attention(*torch.stack([q, k, v], 2).unbind(2))

    for function in (heads_first, stored_heads_first, packed):
        note(function.__name__, round(good(function), 3))
    these = operands(grad=False)
    o, l = tilec.torch.attention(*these, causal=True, return_lse=True)
    want = reference(*[x.double() for x in these], causal=True)[1]
    assert (l.double() - want).abs().max().item() < 1e-3, "L is wrong"
    these = operands()
    attention(*these).sum().backward()  # a gradient of strides 0
    empty = [x[:, :0] for x in operands(grad=False)]
    assert attention(*empty).shape == (2, 0, 4, 64)


@check
def right_decode():
    import tilec.torch

    for shape in ({"b": 1, "sq": 1, "sk": 5000, "hq": 32, "hk": 8, "d": 128}, {"sq": 1, "sk": 77, "hq": 8, "hk": 1},
                  {"b": 3, "sq": 4, "sk": 1000, "hq": 12, "hk": 4, "d": 128}, {"sq": 1, "sk": 1},
                  {"sq": 7, "sk": 300, "hq": 6, "hk": 2, "d": 256}):
        for options in ({"causal": True}, {"causal": True, "window": 64}):
            these = operands(**shape, grad=False)
            want, plain = exact(*these, **options), reference(*these, **options)[0]
            found = ratio(tilec.torch.attention(*these, **options), want, plain)
            note(f"{shape} {options}", round(found, 3))
            assert found <= 1, f"{shape} {options}: error / allowed {found:.2f}"


def packed_reference(q, k, v, starts, **options):
    """Sequences of [T, H, D] one after the other."""
    import torch

    return torch.cat([reference(q[None, a:b], k[None, a:b], v[None, a:b], **options)[0][0]
                      for a, b in zip(starts, starts[1:])])


@check
def right_packed():
    """Packed sequences, forward and gradients."""
    import torch
    import tilec.torch

    lengths = {"few": (64, 129, 0, 333, 1, 513), "one": (700,), "long": (2048, 1000, 1, 1300)}
    for name, these in lengths.items():
        starts = [sum(these[:i]) for i in range(len(these) + 1)]
        at = torch.tensor(starts, dtype=torch.int32, device="cuda")
        for d, hk, options in ((128, 2, {"causal": True}), (64, 8, {}), (128, 8, {"causal": True, "window": 100, "softcap": 20.0})):
            q, k, v = (x[0].detach().requires_grad_() for x in operands(b=1, sq=starts[-1], hq=8, hk=hk, d=d))
            wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
            near = [x.detach().clone().requires_grad_() for x in (q, k, v)]
            grad = torch.randn(q.shape, device="cuda").bfloat16()
            want, plain = packed_reference(*wide, starts, **options), packed_reference(*near, starts, **options)
            want = [want, *torch.autograd.grad(want, wide, grad.double())]
            plain = [plain, *torch.autograd.grad(plain, near, grad)]
            for turn in range(4):  # in turns with the dense kernel
                out = tilec.torch.attention_varlen(q, k, v, at, longest_q=max(these), **options)
                have = [out, *torch.autograd.grad(out, (q, k, v), grad)]
                attention(q[None], k[None], v[None])
                torch.cuda.synchronize()
            found = max(ratio(*three) for three in zip(have, want, plain))
            note(f"{name} d{d} {options}", round(found, 3))
            assert found <= 1, f"{name} d{d} {options}: error / allowed {found:.2f}"


KERNEL = """
kernel NAME<T: type = bf16, C: int = 64>(FROM: in T[R, C], TO: out T[R, C], a: f32)
{
    grid r in tiles(R, 16);
    store TO[r, :] = ((load FROM[r, :] as f32) * a) as T;
}
"""


@check
def any_kernel():
    import torch
    import tilec.torch

    def text(name, source, target):
        return KERNEL.replace("NAME", name).replace("FROM", source).replace("TO", target)

    scale = tilec.torch.kernel(text("scale", "X", "Y"), backward=tilec.torch.kernel(text("scale_bwd", "dY", "dX")))
    x = torch.randn(30, 64, device="cuda").bfloat16().requires_grad_()
    for function in (lambda x: scale(X=x, a=3.0), torch.compile(lambda x: scale(X=x, a=3.0), fullgraph=True)):
        y = function(x)
        assert torch.equal(y, 3 * x)
        (grad,) = torch.autograd.grad(y, x, torch.ones_like(y))
        assert torch.equal(grad, torch.full_like(x, 3.0))
    out = torch.empty_like(x)
    with torch.no_grad():
        assert scale(X=x, Y=out, a=2.0) is out and torch.equal(out, 2 * x)
    refused("no value for the scalar 'a'", lambda: scale(X=x.detach()))


# ---- the rest of PyTorch ----


@check
def compiled():
    import torch

    for mode in ("default", "reduce-overhead"):
        torch.compiler.reset()
        fast = torch.compile(attention, fullgraph=True, mode=mode)
        for seed in range(4):  # reduce-overhead: warming up, capturing, replays
            found = worst(fast, operands(seed=seed), causal=True)
            assert found <= 1, f"{mode}, call {seed}: error / allowed {found:.2f}"
        note(mode, round(found, 3))
        found = worst(fast, operands(sq=333), causal=True)
        assert found <= 1, f"{mode}, another size: error / allowed {found:.2f}"
        with torch.no_grad():
            fast(*operands(sq=128, grad=False))


@check
def compiled_block():
    """A block of a model: projections, attention, normalization, in one graph."""
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.inner, self.outer = torch.nn.LayerNorm(256), torch.nn.Linear(256, 768), torch.nn.Linear(256, 256)

        def forward(self, x, attend):
            q, k, v = self.inner(self.norm(x)).view(*x.shape[:2], 3, 4, 64).unbind(2)
            return x + self.outer(attend(q, k, v).reshape(x.shape))

    torch.manual_seed(0)
    block = Block().cuda().bfloat16()
    x = torch.randn(2, 256, 256, device="cuda").bfloat16()

    def by_sdpa(*these):
        return torch.nn.functional.scaled_dot_product_attention(*[t.transpose(1, 2) for t in these],
                                                                is_causal=True).transpose(1, 2)

    def gradients(function):
        block.zero_grad()
        function(x).float().square().mean().backward()
        return [p.grad.clone() for p in block.parameters()]

    want = gradients(lambda x: block(x, by_sdpa))
    for mode in ("default", "reduce-overhead"):
        fast = torch.compile(lambda x: block(x, attention), fullgraph=True, mode=mode)
        for _ in range(3):
            for a, b in zip(gradients(fast), want):
                error = (a - b).norm() / b.norm()
                assert error < 0.03, f"{mode}: gradients differ by {error.item():.3f}"


@check
def exported():
    import torch
    from tilec.torch import attend

    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return attention(q, k, v) + 1

    these, rows_ = operands(grad=False), torch.export.Dim("rows", min=2, max=512)
    program = torch.export.export(Model(), tuple(these), dynamic_shapes=[{1: rows_}] * 3, strict=True)
    other = operands(sq=90, grad=False)
    assert (program.module()(*other).double() - exact(*other, causal=True) - 1).abs().max() < 0.03
    torch.library.opcheck(attend.forward_kernel("bshd", False).registered(), (*operands(), 0.125, 0.0, True))


@check
def graph_of_first_call():
    """What a process launches first is captured."""
    import torch

    these = operands(grad=False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(*these)
    for seed in range(3):
        for x, fresh in zip(these, operands(seed=seed, grad=False)):
            x.copy_(fresh)
        graph.replay()
        assert (out.double() - exact(*these, causal=True)).abs().max() < 0.03


@check
def graphs():
    import torch

    these = operands()
    grad = torch.randn(2, 200, 4, 64, device="cuda").bfloat16()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.autograd.grad(attention(*these), these, grad)
    torch.cuda.current_stream().wait_stream(side)
    made = []
    for _ in range(3):  # several graphs that live at the same time
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = attention(*these)
            made.append((graph, [out, *torch.autograd.grad(out, these, grad)]))
    with torch.no_grad():
        for x, fresh in zip(these, operands(seed=5)):
            x.copy_(fresh)
    wide = [x.detach().double().requires_grad_() for x in these]
    want = reference(*wide, causal=True)[0]
    want = [want, *torch.autograd.grad(want, wide, grad.double())]
    for k in range(20):  # in streams that may run at the same time
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            made[k % 3][0].replay()
        attention(*these)
    torch.cuda.synchronize()
    for _, have in made:
        for a, b in zip(have, want):
            assert (a.double() - b).abs().max() < 0.03 * max(1, b.abs().max().item()), "a graph's result is wrong"
    fast = torch.cuda.make_graphed_callables(attention, tuple(operands(seed=1)))
    for seed in range(3):
        found = worst(fast, operands(seed=seed), causal=True)
        assert found <= 1, f"make_graphed_callables: error / allowed {found:.2f}"


@check
def streams():
    import torch

    these = operands(b=1, sq=2000, hq=8, d=128, grad=False)
    want = attention(*these)
    side = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    outs = []
    for _ in range(50):
        for stream in side:
            with torch.cuda.stream(stream):
                outs.append(attention(*these))
    torch.cuda.synchronize()
    assert all(torch.equal(out, want) for out in outs), "streams disturb one another"


@check
def threads():
    import torch

    failed = []

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for k in range(6):
                    good(seed=seed, sq=100 + 30 * ((seed + k) % 5))
                torch.cuda.synchronize()
        except BaseException as error:  # noqa: BLE001
            failed.append(f"{type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed, failed[0]


@check
def checkpointed():
    from torch.utils.checkpoint import checkpoint

    import torch

    good(lambda *these: checkpoint(attention, *these, use_reentrant=False))
    plain, these = operands(), operands()
    attention(*plain).float().square().sum().backward()
    checkpoint(attention, *these, use_reentrant=True).float().square().sum().backward()
    assert all(torch.allclose(a.grad, b.grad, atol=0.02, rtol=0.02) for a, b in zip(plain, these))


@check
def autocast():
    import torch

    these = operands(dtype=torch.float32)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = attention(*these)
        grads = torch.autograd.grad(out.float().sum(), these)
    assert out.dtype == torch.bfloat16 and all(g.dtype == torch.float32 for g in grads)
    assert (out.double() - exact(*these, causal=True)).abs().max() < 0.03
    with torch.autocast("cuda", dtype=torch.float16):
        assert attention(*these).dtype == torch.float16


@check
def twice():
    import torch

    these = operands()
    out = attention(*these)
    grads = torch.autograd.grad(out, these, torch.ones_like(out), create_graph=True)
    refused("no second derivatives", lambda: grads[0].float().square().sum().backward())


@check
def refusals():
    """A sentence each, and the context goes on."""
    import torch
    import tilec.torch

    q, k, v = these = operands(grad=False)
    odd = torch.zeros(2 * 200 * 4 * 64 + 1, device="cuda", dtype=torch.bfloat16)[1:].view(2, 200, 4, 64)
    cases = [("is on the device 'cpu'", (q, k.cpu(), v)), ("must have 4 dimensions", (q, k[0], v)),
             ("the kernel takes f16 and bf16", tuple(x.float() for x in these)),
             ("K must be bf16", (q, k.half(), v)), ("must be contiguous", (q, k.transpose(1, 3).contiguous().transpose(1, 3), v)),
             ("address of Q must be a multiple", (odd, k, v)), ("dimension", (q, k[:, :, :, :32], v)),
             ("a multiple of the key heads", (q[:, :, :3], k[:, :, :2], v[:, :, :2])), ("", (q, k, v[:1])), ("must be a tensor", (q, None, v))]
    for text, call in cases:
        for function in (attention, lambda *x: attention(*[t.transpose(1, 2) if isinstance(t, torch.Tensor) and t.dim() == 4
                                                           else t for t in x], layout="bhsd")):
            try:
                function(*call)
            except (tilec.torch.Error, AttributeError, TypeError) as error:
                note(text or "refused", str(error)[:160])
                assert text in str(error), f"expected '{text}', said: {error}"
            else:
                raise AssertionError(f"not refused: {text} {[getattr(x, 'shape', x) for x in call]}")
        torch.cuda.synchronize()
    good()
    if torch.cuda.device_count() > 1:
        refused("cuda:1", lambda: attention(q, k.to("cuda:1"), v))


def wrong_kinds(t):
    """(what is wrong, a tensor like `t` of which this is so)"""
    import torch

    t = t.detach()
    for kind in ("cpu", "meta"):
        yield kind, t.to(kind)
    for dtype in (torch.float32, torch.float16, torch.float64, torch.int32, torch.bool, torch.complex64, torch.float8_e4m3fn):
        yield str(dtype), t.to(dtype)
    yield "last dimension of stride 2", t.new_zeros(*t.shape, 2)[..., 0]
    yield "rows of an odd number of bytes", t.new_zeros(*t.shape[:-1], t.shape[-1] + 1)[..., :-1]
    yield "an odd address", t.new_zeros(t.numel() + 1)[1:].view(t.shape)
    yield "a dimension less", t[0]
    yield "a dimension more", t[None]
    yield "no dimension", t.new_zeros(())
    yield "another last dimension", t.new_zeros(*t.shape[:-1], t.shape[-1] // 2)
    yield "nothing in the last dimension", t[..., :0]
    yield "sparse", t.to_sparse()
    yield "nested", torch.nested.nested_tensor([t[0], t[1]])
    for value in (None, 3.0, [1, 2]):
        yield repr(value), value


@check
def wrong_tensors():
    """Every kind of wrong tensor in every place of every function: a sentence each, and the context goes on."""
    import torch
    import tilec.torch
    from tilec.torch import flash_attn

    starts = torch.tensor([0, 80, 160], dtype=torch.int32, device="cuda")
    four, three, one = [(2, 80, 2, 64)] * 3, [(160, 2, 64)] * 3, [(2, 1, 2, 64), *[(2, 80, 2, 64)] * 2]
    functions = {
        "attention": (four, attention), "heads first": (four, lambda *x: attention(*x, layout="bhsd")),
        "decode": (one, attention), "deterministic": (four, lambda *x: attention(*x, deterministic=True)),
        "packed": (three, lambda *x: tilec.torch.attention_varlen(*x, starts, longest_q=80, causal=True)),
        "flash_attn": (four, lambda *x: flash_attn.flash_attn_func(*x, causal=True)),
        "flash_attn varlen": (three, lambda *x: flash_attn.flash_attn_varlen_func(*x, starts, starts, 80, 80, causal=True))}
    count, taken = 0, []
    for grad in (False, True):
        for name, (shapes, function) in functions.items():
            for at in range(3):
                these = [torch.randn(shape, device="cuda").bfloat16().requires_grad_(grad) for shape in shapes]
                for what, wrong in wrong_kinds(these[at]):
                    call = [*these[:at], wrong, *these[at + 1:]]
                    count += 1
                    try:
                        function(*call)
                    except tilec.torch.Error:
                        pass
                    except Exception as error:  # noqa: BLE001
                        taken.append(f"{name}, {at}, {what}: {type(error).__name__}: {error}"[:200])
                    else:
                        if at < 2 or what != "another last dimension":  # V may have a length of its own
                            taken.append(f"{name}, {at}, {what}: taken")
                torch.cuda.synchronize()
    note("wrong calls", count)
    note("not refused by a sentence", taken)
    good()
    assert not taken, f"{len(taken)} of {count}: {taken[:3]}"


@check
def gpus():
    import torch

    n = torch.cuda.device_count()
    note("GPUs", n)
    for number in range(n):
        these = [x.to(f"cuda:{number}") for x in operands(grad=False)]
        out = attention(*these)  # the current one is 0
        assert out.device.index == number
        assert (out.double() - exact(*these, causal=True)).abs().max() < 0.03


@check
def memory():
    """What the driver says is used beyond PyTorch's own does not grow with calls."""
    import torch

    def call(rows_):
        these = operands(b=4, sq=rows_, hq=8, d=128)
        attention(*these).float().sum().backward()
        attention(*[x.detach()[:, -1:] if i == 0 else x.detach() for i, x in enumerate(these)])

    def beyond():
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return total - free - torch.cuda.memory_reserved()

    for _ in range(2):  # code is loaded, and the driver finds room for what it spills and prints
        for rows_ in range(100, 2100, 100):
            call(rows_)
    before = beyond()
    for _ in range(5):
        for rows_ in range(100, 2100, 100):
            call(rows_)
    grown = beyond() - before
    note("bytes beyond PyTorch's, grown", grown)
    assert grown <= 0, f"{grown} bytes are not of PyTorch's allocator"
    held = torch.cuda.memory_allocated()
    for _ in range(30):
        call(700)
    assert torch.cuda.memory_allocated() == held, "memory is kept after calls"


@check
def cold_start():
    """From an empty cache on disk: how long the first calls take; then from a full one, in another process."""
    text = ("import time, torch, tilec.torch\n"
            "q, k, v = [torch.randn(2, 256, 4, 128, device='cuda').bfloat16().requires_grad_() for _ in range(3)]\n"
            "torch.cuda.synchronize(); s = time.perf_counter()\n"
            "o = tilec.torch.attention(q, k, v, causal=True); torch.cuda.synchronize(); m = time.perf_counter()\n"
            "o.float().sum().backward(); torch.cuda.synchronize(); e = time.perf_counter()\n"
            "print(round(1000 * (m - s)), round(1000 * (e - m)))")
    with tempfile.TemporaryDirectory() as folder:
        for what in ("nothing on disk", "all on disk"):
            done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                                  env=dict(os.environ, TILEC_CACHE_DIR=folder))
            assert done.returncode == 0, done.stderr[-600:]
            note(f"{what}: ms of the first forward, backward", done.stdout.strip())


# ---- quick ----


def sdpa(q, k, v, **options):
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


def meets(what, have, most):
    note(what + f" (at most {most})", have)
    return [] if have[0] <= most else [f"{what}: {have[0]} us, at most {most}"]


def host_time_parts(both, both_sdpa, leaves, grad):
    """What forward and backward through autograd consist of."""
    import torch

    class Trivial(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *leaves):
            ctx.save_for_backward(*leaves)
            return leaves[0].clone()

        @staticmethod
        def backward(ctx, grad):
            return ctx.saved_tensors and (grad, grad, grad)

    def trivial():
        torch.autograd.grad(Trivial.apply(*leaves), leaves, grad)

    native = lambda: torch.autograd.grad(leaves[0] * leaves[1] * leaves[2], leaves, grad)  # noqa: E731
    note("  an autograd.Function that only clones", best_us(trivial, 50))
    note("  two products of PyTorch's own", best_us(native, 50))
    with torch.autograd.set_multithreading_enabled(False):
        note("  in the calling thread: tilec", best_us(both, 50))
        note("  in the calling thread: SDPA", best_us(both_sdpa, 50))
        note("  in the calling thread: only clones", best_us(trivial, 50))


def drained_us(function, calls=100):
    """(best, middle) microseconds of host time of a call that finds the GPU idle."""
    import torch

    times = []
    for _ in range(calls):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        function()
        times.append((time.perf_counter_ns() - start) / 1000)
    times.sort()
    return round(times[0], 1), round(times[len(times) // 2], 1)


@timed
def large():
    """Tensors of more than 2 ** 31 elements: their last rows, forward and gradients."""
    import torch

    rows, heads, d, w = 600_000, 32, 128, 128
    q, k, v = (torch.randn(1, rows, heads, d, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
    assert q.numel() > 2 ** 31
    out = attention(q, k, v, window=w)
    grad = torch.zeros_like(out)
    grad[:, -w:] = torch.randn(1, w, heads, d, device="cuda").bfloat16()
    made = torch.autograd.grad(out, (q, k, v), grad)
    near = [x.detach()[:, -2 * w:].clone().requires_grad_() for x in (q, k, v)]
    wide = [x.detach().double().requires_grad_() for x in near]
    results = []
    for these in (wide, near):
        part = reference(*these, causal=True, window=w)[0]
        results.append([part[:, -w:], *[g[:, -w:] for g in torch.autograd.grad(part, these, grad[:, -2 * w:].to(part.dtype))]])
    found = [ratio(have[:, -w:], want, plain) for have, want, plain in zip((out, *made), *results)]
    note("error / allowed", [round(x, 3) for x in found])
    note("GiB at most", round(torch.cuda.max_memory_allocated() / 2 ** 30, 1))
    assert max(found) <= 1, f"error / allowed {max(found):.2f}"


@timed
def host_time_without_node():
    """Forward and backward through autograd by the Function in Python."""
    os.environ["TILEC_TORCH_NODE"] = "off"
    import torch

    q, k, v = operands(b=1, sq=128, hq=2, d=64)
    t, grad = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in (q, k, v)], torch.ones_like(q)
    for _ in range(2):
        note("forward and backward", best_us(lambda: torch.autograd.grad(attention(q, k, v), (q, k, v), grad), 50))
        note("forward and backward, SDPA",
             best_us(lambda: torch.autograd.grad(sdpa(*t, is_causal=True), t, grad.transpose(1, 2)), 50))


@timed
def host_time():
    """Microseconds of host time of eager calls, (best, middle); tensors as small as the kernels stay hidden."""
    import torch
    import tilec.torch
    from tilec.torch import attend, node

    missed = []
    q, k, v = operands(b=1, sq=128, hq=2, d=64)
    t = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in (q, k, v)]
    grad, grad_t = torch.ones_like(q), torch.ones_like(t[0])
    values = (None, 0.0, True, 0, -1, False, False)
    kernel = attend.forward_kernel("bshd", False)
    with torch.no_grad():
        missed += meets("forward", best_us(lambda: tilec.torch.attention(q, k, v, causal=True)), 20)
        note("forward, SDPA", best_us(lambda: sdpa(*t, is_causal=True)))
        note("forward, heads first", best_us(lambda: tilec.torch.attention(*t, causal=True, layout="bhsd")))
        note("  of which Kernel.run", best_us(lambda: kernel.run(q, k, v, *values)))
        note("  of which Plans.run", best_us(lambda: kernel.plans.run(q, k, v, *values)))
        note("  torch.empty_strided", best_us(lambda: torch.empty_strided((1, 128, 2, 64), (16384, 128, 64, 1),
                                                                          dtype=torch.bfloat16, device=q.device)))
        # a kernel that does next to nothing: what a launch itself costs
        one = torch.zeros(1, device="cuda")
        note("  PyTorch's add_ of one number", best_us(lambda: one.add_(1)))
    note("forward that records for autograd", best_us(lambda: tilec.torch.attention(q, k, v, causal=True)))
    note("forward that records, SDPA", best_us(lambda: sdpa(*t, is_causal=True)))

    def both():
        torch.autograd.grad(tilec.torch.attention(q, k, v, causal=True), (q, k, v), grad)

    def both_sdpa():
        torch.autograd.grad(sdpa(*t, is_causal=True), t, grad_t)

    note("why there is no node in C++", node.wait())
    for _ in range(2):  # what runs first in a process is slower
        found = best_us(both, 50)
        note("forward and backward", found)
        note("forward and backward, SDPA", best_us(both_sdpa, 50))
        note("forward and backward, the GPU idle", drained_us(both))
        note("forward and backward, SDPA, the GPU idle", drained_us(both_sdpa))
    missed += meets("forward and backward", found, 120)
    host_time_parts(both, both_sdpa, (q, k, v), grad)
    out = tilec.torch.attention(q, k, v, causal=True, return_lse=True)
    backward = kernel.backward
    known = dict(Q=q.detach(), K=k.detach(), V=v.detach(), O=out[0].detach(), L=out[1].detach(), dO=grad)
    arguments = [known[name] for name in backward.inputs]
    note("  of which the backward's Kernel.run", best_us(lambda: backward.run(*arguments, *values), 50))
    with torch.no_grad():
        q1, k1, v1 = operands(b=1, sq=1, sk=512, hq=8, hk=2, d=128, grad=False)
        q2, k2, v2 = (x.transpose(1, 2) for x in (q1, k1, v1))
        missed += meets("decode", best_us(lambda: tilec.torch.attention(q1, k1, v1, causal=True)), 20)
        note("decode, SDPA", best_us(lambda: sdpa(q2, k2, v2, enable_gqa=True)))
        lengths = [operands(b=1, sq=1, sk=600 + n, hq=8, hk=2, d=128, grad=False) for n in range(100)]
        start = time.perf_counter()
        for these in lengths:
            tilec.torch.attention(*these, causal=True)
        note("decode, a length that is new: us", round((time.perf_counter() - start) * 1e4, 1))
    assert not missed, "; ".join(missed)


@timed
def speed():
    """Milliseconds of the GPU, forward and both, tilec beside SDPA."""
    import torch
    import tilec.torch

    for b, s, hq, hk, d in ((4, 2048, 32, 8, 128), (4, 2048, 32, 32, 64), (1, 8192, 32, 8, 128)):
        q, k, v = operands(b=b, sq=s, hq=hq, hk=hk, d=d)
        t = [x.detach().transpose(1, 2).requires_grad_() for x in (q, k, v)]
        ways = {"tilec": (lambda: tilec.torch.attention(q, k, v, causal=True), (q, k, v)),
                "SDPA": (lambda: sdpa(*t, is_causal=True, enable_gqa=hq != hk), t)}
        for name, (function, leaves) in ways.items():
            with torch.no_grad():
                forward = gpu_ms(function)
            grad = torch.ones_like(function())
            note(f"B{b} S{s} H{hq}/{hk} d{d} {name}: forward, both",
                 (round(forward, 3), round(gpu_ms(lambda: torch.autograd.grad(function(), leaves, grad), 10), 3)))


@timed
def few_keys_speed():
    """Microseconds of the GPU of a backward where all keys are one tile: as it is taken, by the kernels that it would take without
    one of its own, and SDPA's (FlashAttention's)."""
    import torch
    from tilec.torch import attend

    ways_of = attend._backward_ways

    def without(ways, *rest):
        return ways_of(attend.WAYS[False] if ways == (attend.ONE_TILE,) else ways, *rest)

    def few(ways, *rest):
        return [(attend.FEW, {})] if ways == (attend.ONE_TILE,) else ways_of(ways, *rest)

    def graphed(make):
        """Of forward and backward, and of the forward alone."""
        times = []
        for both in (True, False):
            function, leaves, grad = make()
            run = (lambda: torch.autograd.grad(function(), leaves, grad)) if both else function  # noqa: B023
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    run()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(10):
                    run()
            times.append(gpu_ms(graph.replay, 5) * 100)
        return round(times[0] - times[1], 2)

    for b, rows, keys, heads, d in ((1, 2048, 64, 8, 64), (4, 2048, 32, 16, 64), (4, 2048, 16, 16, 128), (16, 64, 64, 16, 64),
                                    (16, 64, 64, 16, 128), (64, 32, 32, 8, 128), (256, 16, 16, 16, 64), (64, 4, 4, 16, 128)):
        these = operands(b=b, sq=rows, sk=keys, hq=heads, d=d)
        found = []
        for ways in (ways_of, without, few):
            attend._backward_ways = ways
            attend.forward_kernel.cache_clear()
            found.append(graphed(lambda: (lambda: attention(*these, causal=False), these, torch.ones_like(these[0]))))  # noqa: B023
        t = [x.detach().transpose(1, 2).requires_grad_() for x in these]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            found.append(graphed(lambda: (lambda: sdpa(*t), t, torch.ones_like(t[0]))))  # noqa: B023
        note(f"B{b} {rows} rows {keys} keys H{heads} d{d}: as it is, without, FEW, SDPA", found)


@timed
def decode_speed():
    """Microseconds of the GPU of a decode step, by CUDA graphs: tilec beside SDPA."""
    import torch
    import tilec.torch

    def graphed(function):
        function()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(10):
                function()
        return round(gpu_ms(graph.replay) * 100, 2)

    with torch.no_grad():
        for b, s in ((1, 4096), (8, 4096), (32, 2048)):
            q, k, v = operands(b=b, sq=1, sk=s, hq=32, hk=8, d=128, grad=False)
            t = [x.transpose(1, 2) for x in (q, k, v)]
            note(f"B{b} S{s} H32/8 d128: tilec, SDPA",
                 (graphed(lambda: tilec.torch.attention(q, k, v, causal=True)), graphed(lambda: sdpa(*t, enable_gqa=True))))


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(__file__), __doc__))
