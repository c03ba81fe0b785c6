"""interpreted_torch.py CASE - tilec.torch in PyTorch itself, on CPU tensors without a GPU: TILEC_INTERPRET=1 and =sim; without it
what is said before a driver is looked for."""
import contextlib
import io
import sys
import warnings

import torch

import tilec
import tilec.torch

attention, varlen, SIMULATED = tilec.torch.attention, tilec.torch.attention_varlen, tilec.torch.interpret.IN_SIMULATOR
SCALE = ("kernel scale<T: type = f32, C: int = 64>(X: in T[R, C], Y: out T[R, C], a: f32) { grid r in tiles(R, 16); "
         "store Y[r, :] = ((load X[r, :] as f32) * a) as T; }")
SCALE_BWD = SCALE.replace("scale<", "scale_bwd<").replace("X", "dY").replace(" Y:", " dX:").replace("store Y", "store dX")


def refused(words, call, kind=tilec.torch.Error):
    try:
        call()
    except kind as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError("not refused: " + words)


def near(have, want, allowed=0.02):
    assert have.shape == want.shape, (have.shape, want.shape)
    error = (have.double() - want).abs().max().item()
    assert error <= allowed * max(1.0, want.abs().max().item()), error


def exact(q, k, v, causal=False, scale=None, window=0, softcap=0.0):
    """O [B, S, H, D] and L [B, H, S] in float64."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    s = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    after = torch.arange(k.shape[2])[None] - (torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2])
    s = s.masked_fill(((after > 0) & causal) | ((after <= -window) & (window > 0)), -torch.inf)
    return (s.softmax(-1) @ v).transpose(1, 2), s.logsumexp(-1)


def operands(rows=20, keys=None, heads=(2, 1), d=32, dtype=torch.bfloat16, seed=0):
    torch.manual_seed(seed)
    shapes = [(1, rows, heads[0], d), (1, keys or rows, heads[1], d), (1, keys or rows, heads[1], d)]
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def gradients(loss, these):
    return torch.autograd.grad(loss, [x for x in these if x.requires_grad])


def attentions():
    """Forward and gradients by autograd, of O and of O and L, beside float64."""
    for shape, options, dtype in (({"rows": 20}, {"causal": True}, torch.bfloat16), ({"rows": 70, "keys": 90}, {"softcap": 5.0}, torch.float16),
                                  ({"rows": 3, "keys": 40}, {"causal": True, "window": 17}, torch.bfloat16)):
        q, k, v = operands(dtype=dtype, **shape)
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        o, lse = exact(*wide, **options)
        g, gl = torch.randn(o.shape), torch.randn(lse.shape)
        wanted, of_both = (torch.autograd.grad(loss, wide, retain_graph=True) for loss in ((o * g).sum(), (o * g).sum() + (lse * gl).sum()))
        for layout in ("bshd", "bhsd") if shape == {"rows": 20} else ("bshd",):
            turn = (lambda x: x.transpose(1, 2)) if layout == "bhsd" else lambda x: x
            these = [turn(x) for x in (q, k, v)]
            have = turn(attention(*these, layout=layout, **options))
            near(have, o)
            for made, want in zip(gradients((have * g.to(dtype)).sum(), (q, k, v)), wanted):
                near(made, want, 0.03)
        have, l = attention(q, k, v, return_lse=True, **options)
        near(l, lse, 2e-3)
        for made, want in zip(gradients((have * g.to(dtype)).sum() + (l * gl).sum(), (q, k, v)), of_both):
            near(made, want, 0.03)
    for which in range(1, 7):  # gradients of some
        q, k, v = (x.requires_grad_(bool(which >> i & 1)) for i, x in enumerate(operands()))
        wide = [x.detach().double().requires_grad_(x.requires_grad) for x in (q, k, v)]
        for made, want in zip(gradients(attention(q, k, v).sum(), (q, k, v)), gradients(exact(*wide)[0].sum(), wide)):
            near(made, want, 0.03)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # rows in no sequence are another kernel's
        q, k, v = (x.detach()[0].clone().requires_grad_() for x in operands())
        out = varlen(q, k, v, torch.tensor([3, 8, 20]), causal=True)
        assert not out[:3].any()
        for first, end in ((3, 8), (8, 20)):
            near(out[first:end], exact(*(x[None, first:end] for x in (q, k, v)), True)[0][0])
        out.float().pow(2).sum().backward()
        assert all(torch.isfinite(x.grad).all() and not x.grad[:3].any() and x.grad[3:].any() for x in (q, k, v))


def transforms():
    """torch.compile, export, vmap, torch.func, autocast, views."""
    q, k, v = (x.detach() for x in operands(heads=(2, 2)))
    want = exact(q, k, v, True)[0]
    causal = lambda *these: attention(*these, causal=True)  # noqa: E731
    fast = torch.compile(causal, backend="aot_eager", fullgraph=True)
    near(fast(q, k, v), want)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    for a, b in zip(gradients(fast(*leaves).float().sum(), leaves), gradients(causal(*leaves).float().sum(), leaves)):
        assert torch.equal(a, b)

    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return causal(q, k, v) + 1

    near(torch.export.export(Model(), (q, k, v)).module()(q, k, v), want + 1)
    near(torch.vmap(causal)(*(torch.stack([x, x]) for x in (q, k, v)))[1], want)
    assert torch.func.grad(lambda x: causal(x, k, v).float().sum())(q).shape == q.shape
    refused("no forward-mode", lambda: torch.func.jvp(lambda x: causal(x, k, v), (q,), (q,)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near(causal(q.float(), k, v.half()), want)
    with torch.inference_mode():
        assert causal(q, k, v).is_inference()
    near(causal(torch._neg_view(q), k, v), exact(-q, k, v, True)[0])
    packed = torch.randn(1, 40, 3, 2, 32).bfloat16()
    near(causal(*packed[:, 5:].unbind(2)), exact(*packed[:, 5:].unbind(2), True)[0])  # views
    near(causal(*(x[:, ::2] for x in (q, k, v))), exact(*(x[:, ::2] for x in (q, k, v)), True)[0])
    near(attention(q, k[:, :1].expand(-1, 9, -1, -1), v[:, :1].expand(-1, 9, -1, -1)), v[:, :1].double().expand(-1, 20, -1, -1))
    for cut in (0, 5):  # memory that is gone, also where there is a plan for such a tensor
        freed = q.clone()
        freed.untyped_storage().resize_(0)
        refused("Q has no memory", lambda: causal(freed, k, v))  # noqa: B023
    assert attention(q, k[:, :0], v[:, :0]).eq(0).all() and attention(q[:0], k[:0], v[:0]).shape == (0, 20, 2, 32)


def kernels():
    """Kernels of one's own: gradients, outputs that are given and added to, findings, what `print` says."""
    scale, x = tilec.torch.kernel(SCALE, backward=tilec.torch.kernel(SCALE_BWD)), torch.randn(20, 64, requires_grad=True)
    y = scale(X=x, a=3.0)
    assert torch.equal(y, 3 * x) and torch.equal(gradients(y.sum(), [x])[0], torch.full((20, 64), 3.0))
    given = torch.zeros(20, 128)
    saved = torch.ones(20, 64, requires_grad=True) * given[:, :64]
    with torch.no_grad():
        scale(X=x, Y=given[:, :64], a=2.0)
    assert torch.equal(given[:, :64], 2 * x.detach()) and not given[:, 64:].any()
    refused("modified by an inplace operation", lambda: saved.sum().backward(), RuntimeError)
    add = tilec.torch.kernel("kernel add(X: in f32[S, C], Y: inout f32[C]) { grid i in tiles(S, 4); for c in tiles(C, 64) {"
                             " atomic_add Y[c] += sum(load X[i, c], axis=0); } }")
    near(add(X=x.detach()), x.detach().double().sum(0), 1e-5)
    near(add(X=x.detach(), Y=torch.full((64,), 5.0)), x.detach().double().sum(0) + 5, 1e-5)
    race = tilec.torch.kernel("kernel race(X: in f32[S], Y: out f32[S]) { grid i in tiles(S, 64), j in 2; store Y[i] = load X[i] + j as f32; }")
    refused("the simulator has found" if SIMULATED else "another program stores to it", lambda: race(X=x.detach()[0].clone()))
    said = io.StringIO()
    loud = tilec.torch.kernel(SCALE.replace("grid r in tiles(R, 16);", 'grid r in tiles(R, 16); print("tile", r.number);'))
    with contextlib.redirect_stdout(said):
        loud(X=x.detach(), a=1.0)
    assert ("tile" in said.getvalue()) == (not SIMULATED)
    for words, tensor in (("on the device 'meta', and kernels run on the CPU", x.to("meta")), ("float64, which kernels do not take", x.double()),
                          ("the last dimension of X must be contiguous", x[:, :20].t()), ("sparse_coo", x.to_sparse()), ("not int", 3),
                          ("must have 2 dimensions [R, C], not 1", x[0])):
        refused(words, lambda: scale(X=tensor if isinstance(tensor, int) else tensor.detach(), a=1.0))  # noqa: B023
    results = tilec.run(SCALE, {"X": x.detach(), "a": 2.0})
    assert (results["Y"] == 2 * x.detach().numpy()).all()
    refused("tilec.torch.kernel()", lambda: tilec.run(SCALE, {"X": x.bfloat16().detach(), "a": 2.0}), tilec.Error)


def eights():
    """Attention of 8 bits."""
    q, k, v = (x.detach().to(torch.float8_e4m3fn) for x in operands(heads=(2, 2)))
    want = exact(*(x.float() for x in (q, k, v)), True)[0]
    causal = lambda *these, **scales: attention(*these, causal=True, **scales)  # noqa: E731
    by_head = torch.tensor([0.5, 2.0])
    for function in (causal, torch.compile(causal, backend="aot_eager", fullgraph=True)):
        near(function(q, k, v), want, 0.05)
        near(function(q, k, v, scale_v=by_head), want * by_head[:, None], 0.05)
    near(torch.vmap(causal)(*(torch.stack([x, x]) for x in (q, k, v)))[1], want, 0.05)
    near(attention(*(x.transpose(1, 2) for x in (q, k, v)), causal=True, layout="bhsd").transpose(1, 2), want, 0.05)
    assert causal(q, k[:, :0], v[:, :0]).eq(0).all() and causal(q[:, :0], k, v).shape == (1, 0, 2, 32)
    lazy = torch.nn.parameter.UninitializedBuffer(dtype=torch.float8_e4m3fn)
    for words, call in (("and their scales have no gradients", lambda: causal(q, k, v, scale_q=torch.ones(2, requires_grad=True))),
                        ("K must be a tensor, not NoneType", lambda: causal(q, None, v)), ("Q has no shape so far", lambda: causal(lazy, k, v)),
                        ("k has 4 dimensions and the type torch.float32", lambda: causal(q, k.float(), v)),
                        ("head dimensions are 1 or more", lambda: causal(q[..., :0], k[..., :0], v)),
                        ("it is a number, or [B, heads]", lambda: causal(q, k, v, scale_k=torch.ones(3)))):
        refused(words, call)


def collate(rows):
    return tilec.torch.kernel(SCALE)(X=torch.stack(rows), a=2.0)


def processes():
    """Kernels in a loader's processes, and in modules that go there."""
    scale, rows = tilec.torch.kernel(SCALE), torch.randn(8, 64)
    scale(X=rows, a=1.0)

    loader = torch.utils.data.DataLoader(list(rows), batch_size=4, num_workers=1, multiprocessing_context="spawn", collate_fn=Collate(scale))
    assert torch.equal(torch.cat(list(loader)), 3 * rows)
    loader = torch.utils.data.DataLoader(list(rows), batch_size=4, num_workers=1, multiprocessing_context="fork", collate_fn=collate)
    assert torch.equal(torch.cat(list(loader)), 2 * rows)


class Collate:
    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, rows):
        return self.kernel(X=torch.stack(rows), a=3.0)


def without():
    """No variable and no driver: what is wrong is said first, then what is missing."""
    q, k, v = (x.detach() for x in operands(heads=(2, 2)))
    refused("Q is on the device 'cpu', and kernels run on a GPU: give Q.cuda(), or set TILEC_INTERPRET=1", lambda: attention(q, k, v))
    refused("Q must have 4 dimensions [B, Sq, Hq, D], not 3", lambda: attention(q[0], k, v))
    refused("but Sk is 20", lambda: attention(q, k, v[:, :7]))
    refused("cast it, or use torch.autocast", lambda: attention(q.float(), k, v))
    refused("not int", lambda: attention(q, 3, v))
    refused("the scale must be positive", lambda: attention(q, k, v, scale=-1.0))
    for scale in (1e-46, 1e-40, 1e30):  # 0 in f32, of which thresholds are infinite, without digits
        refused("the scale must be positive and at most 65536 (and 2^-120 or more)", lambda: attention(q, k, v, scale=scale))  # noqa: B023
    refused("the softcap is positive (2^-64 or more)", lambda: attention(q, k, v, softcap=1e-40))
    refused("the layout None is not known", lambda: attention(q, k, v, layout=None))
    refused("starts_q must be a tensor", lambda: varlen(q[0], k[0], v[0], [0, 20]))
    scale = tilec.torch.kernel(SCALE)
    refused("X must have 2 dimensions [R, C], not 1", lambda: scale(X=torch.ones(3), a=1.0))
    refused("X is on the device 'cpu'", lambda: scale(X=torch.ones(3, 64), a=1.0))
    assert torch.compile(lambda x: scale(X=x, a=1.0), backend="eager")(torch.ones(3, 64, device="meta")).shape == (3, 64)


if __name__ == "__main__":
    {case.__name__: case for case in (attentions, transforms, kernels, eights, processes, without)}[sys.argv[1]]()
    print("right")
