"""torch_states.py - tilec.torch on a GPU under PyTorch's transforms, modes and views, and gradients over all options.

    python3 tests/gpu/torch_states.py [--out FOLDER] [--only NAME..]     (tilec on PYTHONPATH)

torch_harness.py says how checks run and what is printed.
"""
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from torch_harness import CHECKS, TIMED, check, main, note, refused  # noqa: E402
from torch_product import attention, exact, operands, ratio, reference, worst  # noqa: E402

CHECKS.clear()  # of torch_product.py
TIMED.clear()


def options_at_random(rng):
    """(shape, options) of a call, of all that there are."""
    group = rng.choice((1, 1, 2, 4))
    heads = group * rng.choice((1, 2, 3))
    sq = rng.choice((1, 17, 64, 65, 128, 200, 333, 512))
    sk = rng.choice((sq, sq, 1, 40, 130, 257, 700))
    d = rng.choice((64, 64, 128, 128, 32, 80, 96, 192, 256))
    shape = {"b": rng.choice((1, 2)), "sq": sq, "sk": sk, "hq": heads, "hk": heads // group, "d": d,
             "dv": rng.choice((d, d, 64)), "dtype": rng.choice(("bfloat16", "bfloat16", "float16")), "seed": rng.randrange(1000)}
    options = {"causal": rng.random() < 0.5, "window": rng.choice((None, None, 1, 40, 129, 2**31 - 1)),
               "softcap": rng.choice((0.0, 0.0, 5.0, float("inf"))), "scale": rng.choice((None, None, 0.3, 1.0)),
               "alibi": rng.random() < 0.15, "deterministic": rng.random() < 0.3}
    if not options["causal"]:
        options["right"] = rng.choice((None, None, 0, 30, 10**9))
    return shape, options


def all_options(first):
    """Gradients beside float64 autograd, in error no more than twice those of a plain 16-bit computation."""
    import torch

    import tilec.torch

    rng, found, wrong = random.Random(first), [], []
    for _ in range(30):
        shape, options = options_at_random(rng)
        same = {name: value for name, value in options.items() if name != "deterministic"}
        same["softcap"] = same["softcap"] if same["softcap"] < 1e9 else 0.0
        these = operands(**{**shape, "dtype": getattr(torch, shape["dtype"])})
        try:
            error = worst(lambda *x: tilec.torch.attention(*x, **options), these, **same)  # noqa: B023
        except Exception as what:  # noqa: BLE001
            error = f"{type(what).__name__}: {what}"
        if isinstance(error, str) or not error <= 1:
            wrong.append(f"{shape} {options}: {error}")
        else:
            found.append(error)
    note("worst error / allowed", round(max(found, default=0), 3))
    assert not wrong, f"{len(wrong)} of 30: " + "; ".join(wrong[:4])


for _first in range(8):
    def _options(_first=_first):
        all_options(_first)
    _options.__name__ = f"options_{_first}"
    check(_options)


@check
def transforms():
    """torch.func and batched gradients beside those of float64, for many queries and few."""
    import torch

    for sq in (200, 16):
        q, k, v = operands(b=1, sq=sq, sk=200, grad=False)
        g = torch.randn_like(q)
        wide = [x.double().requires_grad_() for x in (q, k, v)]
        want = torch.autograd.grad((reference(*wide, causal=True)[0] * g.double()).sum(), wide)
        near = [x.clone().requires_grad_() for x in (q, k, v)]
        plain = torch.autograd.grad((reference(*near, causal=True)[0] * g).sum(), near)
        same = lambda have, i: ratio(have, want[i], plain[i]) <= 1  # noqa: B023, E731
        loss = lambda *these: (attention(*these) * g).sum()  # noqa: B023, E731
        assert all(same(x, i) for i, x in enumerate(torch.func.grad(loss, argnums=(0, 1, 2))(q, k, v)))
        assert all(same(x, i) for i, x in enumerate(torch.func.vjp(attention, q, k, v)[1](g)))
        assert same(torch.func.jacrev(loss)(q, k, v), 0)
        assert same(torch.func.vmap(torch.func.grad(loss), (0, None, None))(torch.stack([q, q]), k, v)[1], 0)
        leaf = q.clone().requires_grad_()
        for _ in range(3):
            both, = torch.autograd.grad(attention(leaf, k, v), leaf, torch.stack([g, -g]), is_grads_batched=True)
            assert same(both[0], 0) and same(-both[1], 0)
            assert same(torch.autograd.grad(attention(leaf, k, v), leaf, g)[0], 0)
        assert same(torch.compile(torch.func.grad(loss))(q, k, v), 0)
        refused("no forward-mode", lambda: torch.func.jvp(lambda x: attention(x, k, v), (q,), (q,)))  # noqa: B023
        refused("no second derivatives", lambda: torch.func.grad(lambda x: torch.func.grad(loss)(x, k, v).float().sum())(q))  # noqa: B023


@check
def of_lse():
    """Gradients of O and L together, in eager calls, compiled, and of packed sequences."""
    import torch

    import tilec.torch

    def loss(o, l):
        return (o * g.to(o.dtype)).sum() + (l * gl.to(l.dtype)).sum()

    worst_of = 0
    for shape, options in (({}, {"causal": True}), ({"d": 128, "hk": 2}, {}), ({"sq": 17, "sk": 300}, {"causal": True}),
                           ({"sq": 513, "softcap": 5.0}, {"causal": True, "deterministic": True})):
        cap = shape.pop("softcap", 0.0)
        these = operands(**shape)
        g, gl = torch.randn_like(these[0]), torch.randn(2, 4, these[0].shape[1], device="cuda")
        same = {"causal": options.get("causal", False), "softcap": cap}
        wide, near = [x.detach().double().requires_grad_() for x in these], [x.detach().clone().requires_grad_() for x in these]
        want = torch.autograd.grad(loss(*reference(*wide, **same)), wide)
        plain = torch.autograd.grad(loss(*reference(*near, **same)), near)
        both = lambda *x: tilec.torch.attention(*x, **options, softcap=cap, return_lse=True)  # noqa: B023, E731
        for function in (both, both, torch.compile(both)):
            have = torch.autograd.grad(loss(*function(*these)), these)
            worst_of = max(worst_of, *[ratio(*three) for three in zip(have, want, plain)])
        if these[0].shape == these[1].shape:
            rows = [x.detach()[0].clone().requires_grad_() for x in these]
            at = torch.tensor([0, rows[0].shape[0]], dtype=torch.int32, device="cuda")
            o, l = tilec.torch.attention_varlen(*rows, at, causal=same["causal"], softcap=cap, return_lse=True)
            have = torch.autograd.grad((o * g[0]).sum() + (l * gl[0]).sum(), rows)
            worst_of = max(worst_of, *[ratio(x, y[0], z[0]) for x, y, z in zip(have, want, plain)])
    note("worst error / allowed", round(worst_of, 3))
    assert worst_of <= 1, worst_of


@check
def same_bits():
    """Under torch.use_deterministic_algorithms(True) 40 runs have the same bits, and packed sequences are refused."""
    import torch

    import tilec.torch

    before = attention(*(first := operands(b=4, sq=4096, hq=16, d=128)))
    torch.use_deterministic_algorithms(True)
    for shape in ({"b": 1, "sq": 4096, "hq": 8, "d": 128}, {"b": 1, "sq": 1024, "hq": 16, "hk": 2}, {"sq": 130}):
        these = operands(**shape)
        g = torch.randn_like(these[0])
        runs = [torch.autograd.grad(attention(*these), these, g) for _ in range(40)]
        assert all(torch.equal(a, b) for run in runs for a, b in zip(run, runs[0])), shape
    refused("in any order", lambda: before.sum().backward())
    del first
    rows = [x.detach()[0].clone().requires_grad_() for x in operands(sq=300)]
    at = torch.tensor([0, 300], dtype=torch.int32, device="cuda")
    refused("in any order", lambda: tilec.torch.attention_varlen(*rows, at, longest_q=300).sum().backward())


@check
def nothing():
    """No sequences, queries or keys, backward, too."""
    import torch

    for b, sq, sk in ((0, 80, 80), (2, 0, 80), (2, 80, 0), (2, 0, 0), (0, 1, 5), (2, 1, 0)):
        for causal in (False, True):
            q, k, v = (torch.randn(b, s, 2, 64, device="cuda").bfloat16().requires_grad_() for s in (sq, sk, sk))
            for _ in range(2):
                attention(q, k, v, causal=causal).sum().backward()
                assert not any(x.grad.any() for x in (q, k, v))


@check
def many():
    """More sequences than a grid has beside its first dimension, and as many heads."""
    import torch

    for shape in ({"b": 65539, "sq": 5, "hq": 1}, {"b": 1, "sq": 7, "hq": 65539}, {"b": 65536, "sq": 2, "sk": 70, "hq": 2, "hk": 1}):
        found = worst(attention, operands(**shape), causal=True)
        note(f"{shape}: error / allowed", round(found, 3))
        assert found <= 1, (shape, found)


@check
def views():
    """Negated views, expanded gradients, subclasses, given outputs."""
    import torch

    import tilec.torch

    class Mine(torch.Tensor):
        pass

    q, k, v = operands(grad=False)
    allowed = 2 * (reference(q, k, v, causal=True)[0].double() - exact(q, k, v, causal=True)).abs().max()
    near = lambda have, want: (have.double() - want).abs().max() <= allowed  # noqa: E731
    assert near(attention(torch._neg_view(q), k, v), exact(-q, k, v, causal=True))
    leaf, g = q.clone().requires_grad_(), torch.randn_like(q)
    for _ in range(3):
        out = attention(leaf, k, v)
        minus, = torch.autograd.grad(out, leaf, torch._neg_view(g), retain_graph=True)
        plus, = torch.autograd.grad(out, leaf, g)
        assert (minus + plus).abs().max() < 1e-2 and plus.abs().max() > 0.1
    assert type(attention(q.as_subclass(Mine), k, v)) is Mine
    assert near(attention(q.as_subclass(Mine), k, leaf * 0 + v).as_subclass(torch.Tensor), exact(q, k, v, causal=True))
    scale = tilec.torch.kernel("kernel scale<T: type = f32>(X: in T[R, 64], Y: out T[R, 64], a: f32) { grid r in tiles(R, 16); "
                               "store Y[r, :] = ((load X[r, :] as f32) * a) as T; }")
    w, y = torch.ones(32, 64, device="cuda", requires_grad=True), torch.full((32, 64), 3.0, device="cuda")
    z = (w * y).sum()
    scale(X=y.clone(), Y=y, a=100.0)
    refused("modified by an inplace operation", z.backward, RuntimeError)
    refused("lie in one place", lambda: scale(X=y, Y=torch.zeros(1, 64, device="cuda").expand(32, -1), a=1.0))


@check
def packed_rest():
    """Rows in no sequence: zeros, and so are their gradients, whatever memory held."""
    import torch

    import tilec.torch

    total = 2000
    for starts in ([0, 700, 1900], [50, 700, 701, 1900], [0, 2000], [0, 0], [2000, 2000]):
        at = torch.tensor(starts, dtype=torch.int32, device="cuda")
        there = torch.zeros(total, dtype=torch.bool, device="cuda")
        there[starts[0]:starts[-1]] = True
        for _ in range(3):
            w = torch.nn.Linear(128, 512, device="cuda", dtype=torch.bfloat16)
            x = torch.randn(total, 128, device="cuda").bfloat16().requires_grad_()
            junk = [torch.full((total, 4, 64), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(12)]
            del junk
            q, k, v, g = w(x).view(total, 4, 2, 64).unbind(1)
            o, l = tilec.torch.attention_varlen(q, k, v, at, longest_q=1300, causal=True, return_lse=True)
            assert not o[~there].any() and torch.isneginf(l[:, ~there]).all()
            (o * g).float().pow(2).sum().backward()
            assert torch.isfinite(w.weight.grad).all() and torch.isfinite(x.grad).all()
            if not there.all():
                assert not x.grad[~there].any()


SCALE = ("kernel scale<T: type = f32, C: int = 64>(X: in T[R, C], Y: out T[R, C], a: f32) { grid r in tiles(R, 16); "
         "store Y[r, :] = ((load X[r, :] as f32) * a) as T; }")
SCALE_BWD = SCALE.replace("scale<", "scale_bwd<").replace("X", "dY").replace(" Y:", " dX:").replace("store Y", "store dX")


@check
def opchecks():
    """torch.library.opcheck of every operator: attention by layouts, options and sizes, packed, their backwards, a kernel of
    one's own."""
    import torch

    import tilec.torch
    from tilec.torch import attend, packed

    found = 0

    def both(kernel, tensors, values):
        nonlocal found
        operator = kernel.registered()
        torch.library.opcheck(operator, (*tensors, *values))
        with torch.no_grad():
            outs = operator(*tensors, *values)
        outs = outs if isinstance(outs, tuple) else (outs,)
        have = dict(zip(kernel.inputs, tensors)) | dict(zip(kernel.returns, outs))
        have |= {"d" + name: torch.randn_like(out) for name, out in have.items() if name in kernel.returns}
        back = kernel.backward
        given = dict(zip(kernel.values, values))
        arguments = [have[name].detach() for name in back.inputs], [given.get(name) for name in back.values]
        torch.library.opcheck(back.registered(), (*arguments[0], *arguments[1]))
        found += 2

    for layout in ("bshd", "bhsd"):
        for deterministic in (False, True):
            for shape, values in (({}, (None, 0.0, True, 0, -1, False, False)), ({"sq": 1, "hk": 1}, (0.1, 0.0, False, 0, -1, False, False)),
                                  ({"sk": 20, "d": 128}, (None, 5.0, False, 7, 3, True, True))):
                these = operands(**shape)
                if layout == "bhsd":
                    these = [x.detach().transpose(1, 2).requires_grad_() for x in these]
                both(attend.forward_kernel(layout, deterministic), these, values)
    rows = [x.detach()[0].clone().requires_grad_() for x in operands(sq=300)]
    at = torch.tensor([0, 100, 290], dtype=torch.int32, device="cuda")
    both(packed.packed_kernel(), (*rows, at, at), (190, None, 0.0, True, 0, False))
    both(tilec.torch.kernel(SCALE, backward=tilec.torch.kernel(SCALE_BWD)), [torch.randn(33, 64, device="cuda").requires_grad_()], (3.0,))
    note("operators", found)


def spawned(_rank, path, answer):
    import torch

    found = torch.load(path, weights_only=False)["layers"][0]["kernel"](X=torch.full((20, 64), 2.0, device="cuda"), a=3.0)
    torch.save(found.cpu(), answer)


@check
def pickled():
    """Kernels that were used go through torch.save with what holds them, and into a process that is spawned."""
    import copy
    import tempfile

    import torch

    import tilec.torch

    scale = tilec.torch.kernel(SCALE, backward=tilec.torch.kernel(SCALE_BWD))
    x = torch.ones(20, 64, device="cuda", requires_grad=True)
    scale(X=x, a=3.0).sum().backward()
    with tempfile.TemporaryDirectory() as folder:
        path, answer = os.path.join(folder, "kernel.pt"), os.path.join(folder, "answer.pt")
        torch.save({"layers": [{"kernel": scale}]}, path)
        assert torch.load(path, weights_only=False)["layers"][0]["kernel"] is scale and copy.deepcopy(scale) is scale
        torch.multiprocessing.spawn(spawned, (path, answer), nprocs=1)
        assert (torch.load(answer) == 6).all()


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(__file__), __doc__))
