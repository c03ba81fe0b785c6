"""sampling_torch.py CASE.. - tilec.torch.sample and linear_cross_entropy in PyTorch itself, on CPU tensors without a GPU: TILEC_INTERPRET=1 and =sim.

What may be drawn, losses and gradients are worked out in float64.  (tests/run/sampling.py has the odd rows.)
"""
import os
import sys

import torch
import torch.nn.functional as F

import tilec.torch
from tilec.torch import linear, linear_cross_entropy, sample

DEVICE = os.environ.get("DEVICE", "cpu")  # cuda, on a GPU
TYPES = [getattr(torch, name) for name in os.environ.get("TYPES", "float32,bfloat16,float16").split(",")]
OPCHECKS = "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"
LEAVES = "test_schema", "test_faketensor"  # (gradients in 16 bits are not those by finite differences)


def refused(words, call, kind=tilec.torch.Error):
    try:
        call()
    except kind as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError("not refused: " + words)


def allowed(token, x, u, t, k, p, m):
    """Whether a token may be drawn, by exact sums; limits may be off by the rounding of f32."""
    x = x.double().cpu()
    x = torch.where(x.isnan(), -torch.inf, x)
    if t == 0:
        return token == int(x.argmax())
    for slack in (0, -2e-5, 2e-5):
        w = torch.where(x == x.max(), 1.0, torch.exp((x - x.max()) / t))
        kept = (w >= m * (1 + slack)) & (x > -torch.inf)
        if k > 0:
            kept &= x >= x.topk(min(k, len(x))).values[-1]
        if p < 1:
            values = x[kept].unique().flip(0)
            sums = torch.stack([w[kept & (x >= v)].sum() for v in values]) if len(values) < 500 else torch.where(
                kept, w, 0.0)[x.argsort(descending=True)].cumsum(0)
            values = values if len(values) < 500 else x.sort(descending=True).values
            kept &= x >= values[int(torch.searchsorted(sums, min(p * (1 + slack), 1) * sums[-1]).clamp(max=len(sums) - 1))]
        w = torch.where(kept, w, 0.0)
        ends = w.cumsum(0) / w.sum()
        if w[token] > 0 and ends[token] - w[token] / w.sum() - 2e-5 <= u <= ends[token] + 2e-5:
            return True
    return False


def judged(x, token, u, t, k, p, m):
    assert token.dtype == torch.int32 and token.shape == x.shape[:1]
    each = [value.tolist() if isinstance(value, torch.Tensor) else [value] * len(x) for value in (t, k, p, m)]
    wrong = [(i, int(token[i])) for i in range(len(x)) if not allowed(int(token[i]), x[i], float(u[i]), *[value[i] for value in each])]
    assert not wrong, (wrong, t, k, p, m)


def logits(rows, v, scale=2.0, dtype=torch.float32, seed=0):
    return (scale * torch.randn(rows, v, generator=torch.Generator().manual_seed(seed))).to(DEVICE, dtype)


def numbers(rows, seed=1):
    return torch.rand(rows, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def tokens():
    """Each option as a number and by rows; types; strides; sizes."""
    sizes = ((3, 700), (2, 9000)) if DEVICE == "cpu" else ((3, 128256), (130, 5000), (2, 262144))
    for rows, v in sizes:
        u = numbers(rows)
        each = [torch.linspace(a, b, rows, device=DEVICE) for a, b in ((0.5, 1.5), (1, 60), (0.3, 0.95), (0.0, 0.1))]
        each[1] = each[1].long()
        for dtype in TYPES if v < 1000 or DEVICE != "cpu" else TYPES[1:2]:
            x = logits(rows, v, dtype=dtype)
            for t, k, p, m in ((0.8, 20, 0.9, 0.0), (1.0, 0, 0.9, 0.0), (1.0, 0, 1.0, 0.0), (1.0, 0, 1.0, 0.05), (0, 0, 1.0, 0.0), (1.0, v + 1, 1, 0.0),
                               (1.2, -1, 0.5, 0.01), (each[0], each[1], each[2], each[3]), (1.0, each[1], 1.0, 0.0), (1.0, 0, each[2], 0.0)):
                judged(x, sample(x, t, k, p, m, uniform=u), u, t, k, p, m)
    x = logits(4, 300)
    wide = torch.full((4, 500), 50.0, device=DEVICE)
    wide[:, 100:400] = x
    want = sample(x, 0.9, 30, uniform=numbers(4))
    for view in (wide[:, 100:400], x.t().contiguous().t(), torch._neg_view(-x), x.repeat(1, 2)[:, :300]):
        assert torch.equal(sample(view, 0.9, 30, uniform=numbers(4)), want)
    assert torch.equal(sample(x.view(2, 2, 300), 0.9, 30, uniform=numbers(4)), want.view(2, 2))
    assert torch.equal(sample(x[0], 0.9, 30, uniform=numbers(4)[:1]), want[0]) and sample(x[:0]).shape == (0,)
    assert sample(logits(5, 1)).tolist() == [0] * 5 and sample(torch.full((2, 40), -torch.inf, device=DEVICE)).tolist() == [-1, -1]


def forms():
    """What code is compiled for is known before it is: rows that top-p leaves flat are not looked through twice."""
    kernel, x = tilec.torch.sampling.sampling_kernel(False), logits(2, 9000, 1.0)
    sample(x, top_p=0.9, uniform=numbers(2))
    for k, p, m, flat in ((0, 0.9, 0.0, True), (0, 1.0, 0.0, False), (5, 0.9, 0.0, False), (0, 0.9, 0.1, False)):
        values = {**dict.fromkeys(kernel.values, False), "temperature": 1.0, "top_k": k, "top_p": p, "min_p": m}
        values = kernel._settle({"X": x}, values)
        assert values["FLAT"] is flat and (values["N"], values["H"], values["L"]) == (4096, 128, 64)
        names, chosen = kernel.chosen(None, None, {"X": tilec.torch.plan.described("X", x, None)}, values)
        assert ("sampling_flat" in names) is flat and chosen == values


def seeds():
    """The same token for the same seed and offset, wherever the row is; another for others, as often as probabilities say."""
    x = logits(1, 50, 1.0).expand(64, 50)
    made = sample(x, seed=5)
    assert torch.equal(made, sample(x, seed=5)) and not torch.equal(made, sample(x, seed=6)) and len(made.unique()) > 8
    assert torch.equal(made, sample(x, seed=5 + 2**32, offset=torch.arange(64, device=DEVICE)))
    each = torch.arange(64, device=DEVICE).flip(0)
    assert torch.equal(sample(x, seed=5, offset=each), made.flip(0)) and len(sample(x, seed=each, offset=3).unique()) > 8
    assert len(sample(x, seed=7, offset=0).unique()) == 1
    torch.manual_seed(3)
    made = sample(x)
    torch.manual_seed(3)
    assert torch.equal(made, sample(x)) and not torch.equal(made, sample(x))
    generator = torch.Generator(DEVICE).manual_seed(4)
    assert torch.equal(sample(x, generator=generator), sample(x, uniform=torch.rand(64, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(4))))
    x = logits(1, 5, 1.0).expand(400, 5)
    counts = torch.bincount(sample(x, 0.7, seed=1).long(), minlength=5).double().cpu() / 400
    assert (counts - torch.softmax(x[0].double().cpu() / 0.7, 0)).abs().max() < 0.08


def exact(x, w, y, cap=None, z=0.0, smoothing=0.0, reduction="mean"):
    """The loss in float64; y < 0: a row that does not count."""
    logits = x @ w.t()
    logits = cap * torch.tanh(logits / cap) if cap else logits
    y, kept = y.to(x.device), (y >= 0).to(x.device)
    loss = F.cross_entropy(logits, y.clamp(min=0), label_smoothing=smoothing, reduction="none") + z * torch.logsumexp(logits, 1) ** 2
    loss = torch.where(kept, loss, 0.0)
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.sum() / kept.sum()


def layer(rows, d, v, dtype=torch.bfloat16, seed=0):
    g = torch.Generator().manual_seed(seed)
    x, w = torch.randn(rows, d, generator=g), 2 * torch.randn(v, d, generator=g) / d**0.5
    y = torch.randint(0, v, (rows,), generator=g)
    return x.to(DEVICE, dtype).requires_grad_(), w.to(DEVICE, dtype).requires_grad_(), y.to(DEVICE)


def compared(x, w, y, **options):
    """Loss and gradients against float64."""
    ours = {"softcap": options.get("cap"), "z_loss": options.get("z", 0.0), "label_smoothing": options.get("smoothing", 0.0),
            "reduction": options.get("reduction", "mean")}
    loss = linear_cross_entropy(x, w, torch.where(y < 0, -100, y), **ours)
    weights = (1 + torch.arange(loss.numel(), device=DEVICE).view(loss.shape) / 7) * options.get("times", 1.0)
    made = torch.autograd.grad((loss * weights).sum(), (x, w))
    xd, wd = (t.detach().double().requires_grad_() for t in (x, w))
    want = exact(xd, wd, y, **{name: value for name, value in options.items() if name != "times"})
    right = torch.autograd.grad((want * weights).sum(), (xd, wd))
    assert loss.dtype == torch.float32 and (loss - want).abs().max() <= 2e-5 * (1 + want.abs().max()), (loss, want, options)
    epsilon = 2.0**-8 if x.dtype == torch.bfloat16 else 2.0**-11
    for name, have, wanted, other in (("dX", made[0], right[0], w), ("dW", made[1], right[1], x)):
        assert have.dtype == x.dtype and have.shape == wanted.shape
        limit = 3 * epsilon * wanted.abs().max() + 2e-6 * float(other.detach().abs().max() * weights.max()) / (len(x) if not loss.dim() and ours["reduction"] == "mean" else 1)  # of float32
        assert (have.double() - wanted).abs().max() <= limit, (name, (have.double() - wanted).abs().max(), limit, options)


def losses():
    every = ({}, {"cap": 3.0}, {"z": 1e-3}, {"smoothing": 0.1}, {"cap": 5.0, "z": 0.01, "smoothing": 0.3}, {"reduction": "none"}, {"reduction": "sum"})
    shapes = ((37, 64, 600), (5, 72, 257), (1, 8, 1)) if DEVICE == "cpu" else ((1000, 512, 5003), (130, 264, 32000), (1, 64, 300), (300, 2048, 70000))
    for rows, d, v in shapes:
        for dtype in (torch.bfloat16, torch.float16):
            x, w, y = layer(rows, d, v, dtype)
            y[-1], y[0] = v - 1, 0
            if rows > 2:
                y[1] = -1
            for options in every if rows != 5 else every[:3:2]:
                compared(x, w, y, **options)
    x, w, y = layer(9, 64, 600)
    compared(*layer(64, 64, 3000, torch.float16), smoothing=0.1, times=0.01)  # of logits, gradients are subnormal numbers
    before, linear.BYTES = linear.BYTES, 2 * 9 * 256  # a tile of classes at a time
    compared(x, w, y, smoothing=0.1)
    linear.BYTES = before
    for none in (torch.full_like(y, -100), torch.full_like(y, 600), torch.full_like(y, -7)):  # rows that do not count
        loss = linear_cross_entropy(x, w, none, reduction="sum")
        made = torch.autograd.grad(loss, (x, w))
        assert loss == 0 and not made[0].any() and not made[1].any()
        assert linear_cross_entropy(x, w, none).isnan()
    assert linear_cross_entropy(x, w, torch.full_like(y, 3), ignore_index=3, reduction="none").tolist() == [0.0] * 9
    want = linear_cross_entropy(x, w, y)
    assert torch.equal(linear_cross_entropy(x.view(3, 3, 64), w, y.view(3, 3)), want) and torch.equal(linear_cross_entropy(x, w, y.int()), want)
    wide = torch.zeros(9, 100, dtype=x.dtype, device=DEVICE)
    wide[:, 3:67] = x.detach()
    assert torch.equal(linear_cross_entropy(wide[:, 3:67], w.detach().t().contiguous().t(), y), want)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert torch.equal(linear_cross_entropy(x.float(), w.float(), y), want)
    for given in ((x, w.detach()), (x.detach(), w)):
        of = [t for t in given if t.requires_grad]
        assert torch.equal(torch.autograd.grad(linear_cross_entropy(*given, y), of)[0], torch.autograd.grad(linear_cross_entropy(x, w, y), of)[0])
    empty = linear_cross_entropy(x[:0], w, y[:0], reduction="sum")
    assert empty == 0 and not torch.autograd.grad(empty, w)[0].any()


def transforms():
    x, u = logits(3, 500), numbers(3)
    t = torch.tensor([0.5, 1.0, 0.0], device=DEVICE)
    call = lambda x, t: sample(x, t, 20, 0.9, uniform=u) + 1  # noqa: E731
    want = call(x, t)
    assert torch.equal(torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=False)(x, t), want)
    fast = torch.compile(lambda x: sample(x, 0.8, top_p=0.9, seed=3), backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (2, 5, 7):
        x = logits(rows, 500)
        assert torch.equal(fast(x), sample(x, 0.8, top_p=0.9, seed=3))
    x, w, y = layer(9, 64, 600)

    def loss(x, w, y):
        return linear_cross_entropy(x * 2, w, y, softcap=6.0, z_loss=0.01)

    want = torch.autograd.grad(loss(x, w, y), (x, w))
    torch._dynamo.reset()
    have = torch.autograd.grad(torch.compile(loss, backend="aot_eager", fullgraph=True)(x, w, y), (x, w))
    assert all(map(torch.equal, have, want))


def checked():
    """PyTorch's own checks of the operators."""
    x, u = logits(3, 300), numbers(3)
    one = torch.ones(3, device=DEVICE)
    kernel = tilec.torch.sampling.sampling_kernel(False)
    given = {"X": x, "U": u, "Temp": one, "TopK": one.int(), "TopP": one, "MinP": one}
    values = 0.9, 20, 0.9, 0.0, False, False, False, False
    torch.library.opcheck(kernel.registered(), (*[given[name] for name in kernel.inputs], *values), test_utils=OPCHECKS)
    x, w, y = layer(5, 64, 300)
    torch.library.opcheck(torch.ops.tilec.linear_cross_entropy.default, (x.detach(), w.detach(), y.int(), 0.0, 0.1), test_utils=OPCHECKS)
    torch.library.opcheck(torch.ops.tilec.linear_cross_entropy.default, (x, w, y.int(), 0.0, 0.1), test_utils=LEAVES)


def refusals():
    x = logits(3, 50)
    u = numbers(3)
    for words, call in (
            ("logits must be a tensor, not list", lambda: sample([1.0])), ("logits are [.., vocabulary], and have the shape []", lambda: sample(x[0, 0])),
            ("and have the shape [3, 0]", lambda: sample(x[:, :0])), ("X is torch.float64, which kernels do not take", lambda: sample(x.double())),
            ("temperature is 0 or more, and not -1.0", lambda: sample(x, -1.0)), ("temperature is 0 or more, and not inf", lambda: sample(x, float("inf"))),
            ("top_p is from 0 to 1, and not 1.5", lambda: sample(x, top_p=1.5)), ("min_p is from 0 to 1, and not nan", lambda: sample(x, min_p=float("nan"))),
            ("top_k must be a whole number, not 2.5", lambda: sample(x, top_k=2.5)), ("top_p must be a number, not None", lambda: sample(x, top_p=None)),
            ("top_k must be a number or a bool, not str", lambda: sample(x, top_k="a")),
            ("temperature is [2], and must be a number, or one for each row, [3]", lambda: sample(x, u[:2])),
            ("top_k is float32, and must be whole numbers", lambda: sample(x, top_k=u)), ("uniform must be a tensor, not float", lambda: sample(x, uniform=0.5)),
            ("uniform is [2]", lambda: sample(x, uniform=u[:2])), ("one of these", lambda: sample(x, uniform=u, seed=1)),
            ("one of these", lambda: sample(x, offset=1)), ("seed must be a whole number of 64 bits, not 1.5", lambda: sample(x, seed=1.5)),
            ("top_p is on meta, but logits on", lambda: sample(x, top_p=u.to("meta"))),
            ("rows of 600000 tokens, and at most 524288 are taken", lambda: sample(x.new_zeros(1, 600000)))):
        refused(words, call)
    x, w, y = layer(4, 64, 300)
    for words, call in (
            ("x is float32, and the kernels take float16 and bfloat16: cast it", lambda: linear_cross_entropy(x.float(), w, y)),
            ("weight must be a tensor, not NoneType", lambda: linear_cross_entropy(x, None, y)),
            ("x is bfloat16 and weight float16", lambda: linear_cross_entropy(x, w.half(), y)),
            ("weight is [64], and must be [classes, features]", lambda: linear_cross_entropy(x, w[0], y)),
            ("both have the same number of features, a multiple of 8", lambda: linear_cross_entropy(x[:, :60], w[:, :60], y)),
            ("both have the same number of features", lambda: linear_cross_entropy(x[:, :32], w, y)),
            ("target is float32 [4], and must be int64 or int32 [4]", lambda: linear_cross_entropy(x, w, y.float())),
            ("target is int64 [3]", lambda: linear_cross_entropy(x, w, y[:3])), ("target is a int", lambda: linear_cross_entropy(x, w, 3)),
            ("reduction is mean, sum or none, not avg", lambda: linear_cross_entropy(x, w, y, reduction="avg")),
            ("label_smoothing is from 0 to 1, and not 2", lambda: linear_cross_entropy(x, w, y, label_smoothing=2)),
            ("softcap is 0 or more, and not -1", lambda: linear_cross_entropy(x, w, y, softcap=-1)),
            ("z_loss must be a number, not None", lambda: linear_cross_entropy(x, w, y, z_loss=None)),
            ("z_loss must be a number or a bool, not str", lambda: linear_cross_entropy(x, w, y, z_loss="a"))):
        refused(words, call)
    made = torch.autograd.grad(linear_cross_entropy(x, w, y), x, create_graph=True)[0]
    refused("there are no second derivatives", lambda: torch.autograd.grad(made.sum(), x))


def graphs():
    """On a GPU: under CUDA graphs, and what the host does in a call."""
    import time
    x, u = logits(8, 32000), numbers(8)
    calls = (("sample", lambda: sample(x, 0.8, 50, 0.9, uniform=u)), ("top-p", lambda: sample(x, 0.8, 0, 0.9, uniform=u)), ("random", lambda: sample(x, 0.8)))
    for name, call in calls:
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            token = call()
        for seed in (1, 2):
            x.copy_(logits(8, 32000, seed=seed))
            graph.replay()
            if name != "random":
                assert torch.equal(token, call()), name
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(200):
            call()
        print(f"{name}: {(time.perf_counter() - began) / 200 * 1e6:.1f} us of host time a call", flush=True)
        torch.cuda.synchronize()


if __name__ == "__main__":
    every = {case.__name__: case for case in (tokens, forms, seeds, losses, transforms, checked, refusals, graphs)}
    for name in sys.argv[1:]:
        every[name]()
        print(name, "right", flush=True)
    print("right")
