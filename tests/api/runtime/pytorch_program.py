"""pytorch_program.py - tilec.torch in PyTorch itself, on CPU tensors over the made-up driver.

Kernels do not run; what they would compute is computed here, from the arguments that they were launched
with (those of sm_80, where a parameter is an address or a number).  So this tests all that surrounds a
launch: autograd, operators, torch.compile, export, threads.  The simulator runs the kernels themselves
(pytorch_sim.py).

    pytorch_program.py FOLDER CASE    (the folder of the extension)
"""
import ctypes
import sys
import threading

import torch

import tilec

tilec.__path__.append(sys.argv[1])
import tilec.torch  # noqa: E402
from tilec.torch import attend, gpu  # noqa: E402

D = 64
launched = []  # names of the kernels
RUNNER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint))


class Arguments:
    """The parameters of a launch, read in order."""

    def __init__(self, values):
        self.values, self.at = values, 0

    def number(self, kind):
        self.at += 1
        return ctypes.cast(self.values[self.at - 1], ctypes.POINTER(kind))[0]

    def tensor(self, rank):
        """Address and strides of all dimensions but the last."""
        address = self.number(ctypes.c_uint64)
        return address, [self.number(ctypes.c_int64) for _ in range(rank - 1)] + [1]


def view(place, shape, dtype):
    address, strides = place
    span = sum((n - 1) * s for n, s in zip(shape, strides)) + 1
    raw = (ctypes.c_uint8 * (span * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype).as_strided(shape, strides)


def exact(q, k, v, scale):
    """Causal attention of [B, S, H, D] in float64: O, L, P."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = scale * q @ k.transpose(2, 3)
    there = torch.ones(s.shape[2:], dtype=torch.bool).tril(s.shape[3] - s.shape[2])
    s = s.masked_fill(~there, -torch.inf)
    p = s.softmax(-1)
    return (p @ v).transpose(1, 2), s.logsumexp(-1), p


def run_attention(a, dtype):
    q, k, v, o, l = a.tensor(4), a.tensor(4), a.tensor(4), a.tensor(4), a.tensor(3)
    b, sq, hq, sk, hk = (a.number(ctypes.c_int32) for _ in range(5))
    scale = a.number(ctypes.c_float)
    out, lse, _ = exact(view(q, (b, sq, hq, D), dtype), view(k, (b, sk, hk, D), dtype), view(v, (b, sk, hk, D), dtype),
                        scale)
    view(o, (b, sq, hq, D), dtype).copy_(out)
    view(l, (b, hq, sq), torch.float32).copy_(lse)


def run_delta(a, dtype):
    o, g, l, delta, l2 = a.tensor(4), a.tensor(4), a.tensor(3), a.tensor(3), a.tensor(3)
    b, sq, hq = (a.number(ctypes.c_int32) for _ in range(3))
    o, g = view(o, (b, sq, hq, D), dtype), view(g, (b, sq, hq, D), dtype)
    view(delta, (b, hq, sq), torch.float32).copy_((o.double() * g.double()).sum(-1).transpose(1, 2))
    view(l2, (b, hq, sq), torch.float32).copy_(view(l, (b, hq, sq), torch.float32) * 1.4426950408889634)


def run_backward(a, dtype):
    q, k, v, g, l2, delta = (a.tensor(rank) for rank in (4, 4, 4, 4, 3, 3))
    dq, dk, dv = (a.tensor(4) for _ in range(3))
    b, sq, hq, sk, hk = (a.number(ctypes.c_int32) for _ in range(5))
    scale = a.number(ctypes.c_float)
    q, g = (view(x, (b, sq, hq, D), dtype).double().transpose(1, 2) for x in (q, g))
    k, v = (view(x, (b, sk, hk, D), dtype).double().transpose(1, 2).repeat_interleave(hq // hk, 1) for x in (k, v))
    s = scale * 1.4426950408889634 * q @ k.transpose(2, 3)
    there = torch.ones(sq, sk, dtype=torch.bool).tril(sk - sq)
    p = torch.exp2(s - view(l2, (b, hq, sq), torch.float32).double()[..., None]).masked_fill(~there, 0)
    ds = p * (g @ v.transpose(2, 3) - view(delta, (b, hq, sq), torch.float32).double()[..., None])
    heads = lambda x: x.reshape(b, hk, hq // hk, sk, D).sum(2).transpose(1, 2)  # noqa: E731
    view(dq, (b, sq, hq, D), torch.float32).add_((ds @ k).transpose(1, 2))
    view(dk, (b, sk, hk, D), dtype).copy_(scale * heads(ds.transpose(2, 3) @ q))
    view(dv, (b, sk, hk, D), dtype).copy_(heads(p.transpose(2, 3) @ g))


def run_convert(a, dtype):
    total, dq = a.tensor(4), a.tensor(4)
    b, sq, hq = (a.number(ctypes.c_int32) for _ in range(3))
    scale = a.number(ctypes.c_float)
    view(dq, (b, sq, hq, D), dtype).copy_(view(total, (b, sq, hq, D), torch.float32) * scale)


RUN = {"attention": run_attention, "attention_bwd_delta": run_delta, "attention_bwd": run_backward,
       "attention_bwd_convert": run_convert}
failures = []


@RUNNER
def runner(name, values, grid):
    try:
        launched.append(name.decode())
        if name.decode() in RUN:
            with torch.no_grad():
                RUN[name.decode()](Arguments(values), torch.bfloat16)
    except BaseException as error:  # noqa: BLE001  (nothing passes through the driver)
        failures.append(error)


def operands(rows=80, keys=None, heads=(2, 2), seed=0, requires_grad=True):
    torch.manual_seed(seed)
    shapes = [(2, rows, heads[0], D), (2, keys or rows, heads[1], D), (2, keys or rows, heads[1], D)]
    return [torch.randn(shape).bfloat16().requires_grad_(requires_grad) for shape in shapes]


def near(have, want, allowed=0.02):
    error = (have.double() - want.double()).abs().max().item()
    assert error <= allowed * max(1.0, want.abs().max().item()), f"error {error}"


def attention(q, k, v):
    return tilec.torch.attention(q, k, v, causal=True)


def check(function, these):
    """Output and gradients of a function of q, k, v against float64."""
    want = exact(*these, D ** -0.5)[0]
    out, grad = function(*these), torch.randn(want.shape).bfloat16()
    near(out, want)
    out.backward(grad)
    for tensor, wanted in zip(these, torch.autograd.grad(want, these, grad.double())):
        near(tensor.grad, wanted)


def refused(text, function, kind=tilec.torch.Error):
    try:
        function()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


# ---- the cases ----


def eager():
    check(attention, operands())
    check(attention, operands(seed=1))
    check(attention, operands(40, 100, (4, 2)))
    assert attend.forward_kernel("bshd", False).plans.count == 2
    first = lambda q, k, v: tilec.torch.attention(*[x.transpose(1, 2) for x in (q, k, v)], causal=True,  # noqa: E731
                                                  layout="bhsd").transpose(1, 2)
    check(first, operands())
    these = operands()
    attention(*these).sum().backward()  # an expanded gradient, of strides 0
    assert launched.count("attention_bwd") == 5 and these[0].grad is not None
    with torch.inference_mode():
        assert attention(*these).is_inference()
    half = [torch.nn.Parameter(x.detach()) for x in operands()]
    check(attention, half)


def compiled():
    for backend in ("aot_eager", "inductor"):
        torch.compiler.reset()
        fast = torch.compile(attention, fullgraph=True, backend=backend)
        check(fast, operands(seed=2))
        check(fast, operands(96, seed=3))  # another size: shapes become symbols
        with torch.no_grad():
            near(fast(*operands(100)), exact(*operands(100), D ** -0.5)[0])
    name = attend.forward_kernel("bshd", False).registered()._schema.name
    assert name == "tilec::attention", name


def exported():
    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return attention(q, k, v) + 1

    these = operands(requires_grad=False)
    program = torch.export.export(Model(), tuple(these), strict=False)
    assert any("tilec.attention" in str(node.target) for node in program.graph.nodes), program
    near(program.module()(*these), exact(*these, D ** -0.5)[0] + 1)
    rows = torch.export.Dim("rows", min=2, max=512)
    program = torch.export.export(Model(), tuple(these), dynamic_shapes=[{1: rows}] * 3, strict=True)
    other = operands(90, requires_grad=False)  # fewer would take the kernels of few queries
    near(program.module()(*other), exact(*other, D ** -0.5)[0] + 1)


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    for reentrant in (False, True):
        del launched[:]
        check(lambda *these: checkpoint(attention, *these, use_reentrant=reentrant), operands(seed=4))
        assert launched.count("attention") == 2, launched


def watched():
    """Modes that watch operators see them."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch._subclasses.fake_tensor import FakeTensorMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Watch():
        check(attention, operands())
    assert "tilec.attention.default" in seen and "tilec.attention_backward.default" in seen, seen
    with FakeTensorMode() as mode:
        q, k, v = (mode.from_tensor(x) for x in operands())
        assert attention(q, k, v).shape == (2, 80, 2, D)
    operator = attend.forward_kernel("bshd", False).registered()
    torch.library.opcheck(operator, (*operands(), 0.125, 0.0, True))
    these = operands(requires_grad=False)
    both = torch.vmap(attention)(*[torch.stack([x, x + 1]) for x in these])
    near(both[1], exact(*[x + 1 for x in these], D ** -0.5)[0])


def twice():
    """Gradients are not differentiated."""
    these = operands()
    out = attention(*these)
    grads = torch.autograd.grad(out, these, torch.ones_like(out), create_graph=True)
    refused("no second derivatives", lambda: grads[0].float().square().sum().backward())
    fast = torch.compile(attention, backend="aot_eager", fullgraph=True)
    out = fast(*these)
    grads = lambda: torch.autograd.grad(out, these, torch.ones_like(out), create_graph=True)  # noqa: E731
    refused("", lambda: grads()[0].float().square().sum().backward(), RuntimeError)
    operator = attend.forward_kernel("bshd", False).registered()
    out = operator(*these, 0.125, 0.0, True)[0]
    grads = torch.autograd.grad(out, these, torch.ones_like(out), create_graph=True)
    refused("no second derivatives", lambda: grads[0].float().square().sum().backward())


def autocast():
    these = [x.detach().float().requires_grad_() for x in operands()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attention(*these)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert these[0].grad.dtype == torch.float32
    refused("cast it, or use torch.autocast", lambda: attention(*these))


def threads():
    wrong = []

    def work(seed):
        try:
            for i in range(5):
                check(attention, operands(70 + 8 * (seed % 3), seed=10 * seed + i))
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    all_ = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in all_:
        thread.start()
    for thread in all_:
        thread.join()
    assert not wrong, wrong[0]
    assert attend.forward_kernel("bshd", False).plans.count == 3


def refusals():
    q, k, v = operands(requires_grad=False)
    attention(q, k, v)
    refused("K must be bf16, not f16", lambda: attention(q, k.half(), v))
    refused("V is on the device 'meta'", lambda: attention(q, k, v.to("meta")))
    refused("V must be a tensor, not int", lambda: attend.forward_kernel("bshd", False).run(q, k, 3, *[None] * 7))
    refused("but Sk is 70", lambda: attention(q, k[:, :70], v))
    refused("the layout 'x' is not known", lambda: tilec.torch.attention(q, k, v, layout="x"))
    odd = torch.zeros(q.numel() + 1, dtype=q.dtype)[1:].view(q.shape)
    refused("the address of Q must be a multiple of 16 bytes", lambda: attention(odd, k, v))
    near(attention(q, k, v), exact(q, k, v, D ** -0.5)[0])


BACKWARD = """
kernel scale_bwd<T: type = bf16, C: int = 64>(dY: in T[R, C], dX: out T[R, C], a: f32)
{
    grid r in tiles(R, 16);
    store dX[r, :] = ((load dY[r, :] as f32) * a) as T;
}
"""
FORWARD = BACKWARD.replace("scale_bwd", "scale").replace("dX", "Z").replace("dY", "X").replace("Z:", "Y:").replace("Z[", "Y[")


def any_kernel():
    def scale(a):
        x, y = a.tensor(2), a.tensor(2)
        rows = a.number(ctypes.c_int32)
        view(y, (rows, D), torch.bfloat16).copy_(view(x, (rows, D), torch.bfloat16) * a.number(ctypes.c_float))

    RUN["scale"] = RUN["scale_bwd"] = lambda a, dtype: scale(a)
    kernel = tilec.torch.kernel(FORWARD, backward=tilec.torch.kernel(BACKWARD))
    plain = tilec.torch.kernel(FORWARD, name="plain_scale")
    x = torch.randn(30, D).bfloat16().requires_grad_()
    for function in (lambda x: kernel(X=x, a=3.0), torch.compile(lambda x: kernel(X=x, a=3.0), fullgraph=True)):
        y = function(x)
        near(y, 3 * x)
        (grad,) = torch.autograd.grad(y, x, torch.ones_like(y))
        near(grad, torch.full_like(x, 3.0))
    out = torch.empty_like(x)
    with torch.no_grad():
        assert plain(X=x, Y=out, a=2.0) is out
    near(out, 2 * x)
    refused("no backward was named", lambda: plain(X=x, a=2.0).sum().backward())
    refused("only called directly, without gradients", lambda: plain(X=x, Y=out, a=2.0))
    refused("no value for the scalar 'a'", lambda: plain(X=x.detach()))


def main():
    fake = ctypes.CDLL("libcuda.so.1")
    fake.fake_cuda_on_launch(runner)
    case = {"eager": eager, "compiled": compiled, "exported": exported, "checkpointed": checkpointed,
            "watched": watched, "twice": twice, "autocast": autocast, "threads": threads, "refusals": refusals,
            "any": any_kernel}[sys.argv[2]]
    case()
    assert not failures, failures[0]
    assert gpu.DEVICE_TYPE == "cpu"
    print("right")


main()
