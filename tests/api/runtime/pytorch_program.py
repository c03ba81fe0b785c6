"""pytorch_program.py - tilec.torch in PyTorch itself, on CPU tensors over the made-up driver.

Kernels do not run; what they would compute is computed here, from the arguments that they were launched
with (those of sm_80, where a parameter is an address or a number).  So this tests all that surrounds a
launch: autograd, operators, torch.compile, export, threads.  The simulator runs the kernels themselves
(pytorch_sim.py).

    pytorch_program.py FOLDER CASE    (the folder of the extension)
"""
import ctypes
import re
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
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
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


def run_delta(a, dtype, of_all=False):
    o, g, l = a.tensor(4), a.tensor(4), a.tensor(3)
    gl, delta, l2 = a.tensor(3) if of_all else None, a.tensor(3), a.tensor(3)
    b, sq, hq = (a.number(ctypes.c_int32) for _ in range(3))
    o, g = view(o, (b, sq, hq, D), dtype), view(g, (b, sq, hq, D), dtype)
    more = view(gl, (b, hq, sq), torch.float32).double() if of_all else 0
    view(delta, (b, hq, sq), torch.float32).copy_((o.double() * g.double()).sum(-1).transpose(1, 2) - more)
    view(l2, (b, hq, sq), torch.float32).copy_(view(l, (b, hq, sq), torch.float32) * 1.4426950408889634)


def gradients(q, k, v, g, l2, delta, scale):
    """dQ / scale, dK and dV of [B, S, H, D], from rows' L in base 2 and delta [B, H, S]."""
    group, heads = q.shape[2] // k.shape[2], k.shape[2]
    q, g = (x.double().transpose(1, 2) for x in (q, g))
    k, v = (x.double().transpose(1, 2).repeat_interleave(group, 1) for x in (k, v))
    s = scale * 1.4426950408889634 * q @ k.transpose(2, 3)
    there = torch.ones(s.shape[2:], dtype=torch.bool).tril(s.shape[3] - s.shape[2])
    p = torch.exp2(s - l2.double()[..., None]).masked_fill(~there, 0)
    ds = p * (g @ v.transpose(2, 3) - delta.double()[..., None])
    summed = lambda x: x.reshape(x.shape[0], heads, group, *x.shape[2:]).sum(2).transpose(1, 2)  # noqa: E731
    return (ds @ k).transpose(1, 2), scale * summed(ds.transpose(2, 3) @ q), summed(p.transpose(2, 3) @ g)


def run_backward(a, dtype):
    q, k, v, g, l2, delta = (a.tensor(rank) for rank in (4, 4, 4, 4, 3, 3))
    dq, dk, dv = (a.tensor(4) for _ in range(3))
    b, sq, hq, sk, hk = (a.number(ctypes.c_int32) for _ in range(5))
    made = gradients(view(q, (b, sq, hq, D), dtype), view(k, (b, sk, hk, D), dtype), view(v, (b, sk, hk, D), dtype),
                     view(g, (b, sq, hq, D), dtype), view(l2, (b, hq, sq), torch.float32),
                     view(delta, (b, hq, sq), torch.float32), a.number(ctypes.c_float))
    view(dq, (b, sq, hq, D), torch.float32).add_(made[0])
    view(dk, (b, sk, hk, D), dtype).copy_(made[1])
    view(dv, (b, sk, hk, D), dtype).copy_(made[2])


def run_dkdv(a, dtype):
    q, k, v, g, l2, delta = (a.tensor(rank) for rank in (4, 4, 4, 4, 3, 3))
    dk, dv = (a.tensor(4) for _ in range(2))
    b, sq, hq, sk, hk = (a.number(ctypes.c_int32) for _ in range(5))
    made = gradients(view(q, (b, sq, hq, D), dtype), view(k, (b, sk, hk, D), dtype), view(v, (b, sk, hk, D), dtype),
                     view(g, (b, sq, hq, D), dtype), view(l2, (b, hq, sq), torch.float32),
                     view(delta, (b, hq, sq), torch.float32), a.number(ctypes.c_float))
    view(dk, (b, sk, hk, D), dtype).copy_(made[1])
    view(dv, (b, sk, hk, D), dtype).copy_(made[2])


def run_dq(a, dtype):
    q, k, v, g, l2, delta = (a.tensor(rank) for rank in (4, 4, 4, 4, 3, 3))
    dq = a.tensor(4)
    b, sq, hq, sk, hk = (a.number(ctypes.c_int32) for _ in range(5))
    scale = a.number(ctypes.c_float)
    made = gradients(view(q, (b, sq, hq, D), dtype), view(k, (b, sk, hk, D), dtype), view(v, (b, sk, hk, D), dtype),
                     view(g, (b, sq, hq, D), dtype), view(l2, (b, hq, sq), torch.float32),
                     view(delta, (b, hq, sq), torch.float32), scale)
    view(dq, (b, sq, hq, D), dtype).copy_(made[0] * scale)


def run_of_tile(a, dtype, of_all=False):
    q, k, v, g, l = (a.tensor(rank) for rank in (4, 4, 4, 4, 3))
    gl, dq, delta, l2 = a.tensor(3) if of_all else None, a.tensor(4), a.tensor(3), a.tensor(3)
    b, sq, hq, sk, hk = (a.number(ctypes.c_int32) for _ in range(5))
    scale = a.number(ctypes.c_float)
    q, k, v, g = view(q, (b, sq, hq, D), dtype), view(k, (b, sk, hk, D), dtype), view(v, (b, sk, hk, D), dtype), view(g, (b, sq, hq, D), dtype)
    more = view(gl, (b, hq, sq), torch.float32).double() if of_all else 0
    out = exact(q, k, v, scale)[0]
    view(delta, (b, hq, sq), torch.float32).copy_((out * g.double()).sum(-1).transpose(1, 2) - more)
    view(l2, (b, hq, sq), torch.float32).copy_(view(l, (b, hq, sq), torch.float32) * 1.4426950408889634)
    made = gradients(q, k, v, g, view(l2, (b, hq, sq), torch.float32), view(delta, (b, hq, sq), torch.float32), scale)
    view(dq, (b, sq, hq, D), dtype).copy_(made[0] * scale)


def run_convert(a, dtype):
    total, dq = a.tensor(4), a.tensor(4)
    b, sq, hq = (a.number(ctypes.c_int32) for _ in range(3))
    scale = a.number(ctypes.c_float)
    view(dq, (b, sq, hq, D), dtype).copy_(view(total, (b, sq, hq, D), torch.float32) * scale)


def sequences(starts_q, starts_k, places):
    """Slices of queries and keys of packed sequences."""
    starts = [view(starts, (places,), torch.int32).tolist() for starts in (starts_q, starts_k)]
    return [(slice(*q), slice(*k)) for q, k in zip(*(zip(these, these[1:]) for these in starts))]


def run_packed(a, dtype):
    q, k, v, starts_q, starts_k, o, l = (a.tensor(rank) for rank in (3, 3, 3, 1, 1, 3, 2))
    tq, hq, tk, hk, places, longest = (a.number(ctypes.c_int32) for _ in range(6))
    q, o = view(q, (tq, hq, D), dtype), view(o, (tq, hq, D), dtype)
    k, v, l = view(k, (tk, hk, D), dtype), view(v, (tk, hk, D), dtype), view(l, (hq, tq), torch.float32)
    scale = a.number(ctypes.c_float)
    for m, n in sequences(starts_q, starts_k, places):
        assert m.stop - m.start <= longest
        out, lse, _ = exact(q[None, m], k[None, n], v[None, n], scale)
        o[m].copy_(out[0])
        l[:, m].copy_(lse[0])


def rows_between(m, index):
    """Where the rows of a sequence are in what lies between the kernels of the backward."""
    begin = (m.start // 4 + index) * 4
    return slice(begin, begin + m.stop - m.start)


def run_packed_delta(a, dtype, of_all=False):
    o, g, l = (a.tensor(rank) for rank in (3, 3, 2))
    gl = a.tensor(2) if of_all else None
    starts, delta, l2 = (a.tensor(rank) for rank in (1, 2, 2))
    tq, hq, places, rows, longest = (a.number(ctypes.c_int32) for _ in range(5))
    o, g = view(o, (tq, hq, D), dtype), view(g, (tq, hq, D), dtype)
    l, delta, l2 = view(l, (hq, tq), torch.float32), *(view(x, (hq, rows), torch.float32) for x in (delta, l2))
    gl = view(gl, (hq, tq), torch.float32) if of_all else torch.zeros(hq, tq)
    for i, (m, _) in enumerate(sequences(starts, starts, places)):
        assert m.stop - m.start <= longest
        delta[:, rows_between(m, i)].copy_((o[m].double() * g[m].double()).sum(-1).T - gl[:, m])
        l2[:, rows_between(m, i)].copy_(l[:, m] * 1.4426950408889634)


def run_packed_backward(a, dtype):
    q, k, v, g, l2, delta, starts_q, starts_k, dq, dk, dv = (a.tensor(rank) for rank in (3, 3, 3, 3, 2, 2, 1, 1, 3, 3, 3))
    tq, hq, tk, hk, rows, places, longest = (a.number(ctypes.c_int32) for _ in range(7))
    q, g = view(q, (tq, hq, D), dtype), view(g, (tq, hq, D), dtype)
    k, v, dk, dv = (view(x, (tk, hk, D), dtype) for x in (k, v, dk, dv))
    l2, delta = view(l2, (hq, rows), torch.float32), view(delta, (hq, rows), torch.float32)
    dq, scale = view(dq, (tq, hq, D), torch.float32), a.number(ctypes.c_float)
    for i, (m, n) in enumerate(sequences(starts_q, starts_k, places)):
        assert n.stop - n.start <= longest
        r = rows_between(m, i)
        made = gradients(q[None, m], k[None, n], v[None, n], g[None, m], l2[None, :, r], delta[None, :, r], scale)
        dq[m].add_(made[0][0])
        dk[n].copy_(made[1][0])
        dv[n].copy_(made[2][0])


def run_packed_convert(a, dtype):
    total, dq = a.tensor(3), a.tensor(3)
    tq, hq = (a.number(ctypes.c_int32) for _ in range(2))
    view(dq, (tq, hq, D), dtype).copy_(view(total, (tq, hq, D), torch.float32) * a.number(ctypes.c_float))


RUN = {"attention_varlen": run_packed, "attention_varlen_bwd_delta": run_packed_delta,
       "attention_varlen_bwd_delta_of_all": lambda a, dtype: run_packed_delta(a, dtype, True),
       "attention_varlen_bwd": run_packed_backward, "attention_varlen_bwd_convert": run_packed_convert,
       "attention": run_attention, "attention_bwd_delta": run_delta, "attention_bwd": run_backward,
       "attention_bwd_delta_of_all": lambda a, dtype: run_delta(a, dtype, True), "attention_bwd_dkdv": run_dkdv, "attention_bwd_dq": run_dq, "attention_bwd_convert": run_convert,
       "attention_bwd_dq_of_tile": run_of_tile, "attention_bwd_dq_of_tile_of_all": lambda a, dtype: run_of_tile(a, dtype, True)}
failures = []


@RUNNER
def runner(name, values, grid):
    try:
        kernel = re.sub(r"_v\d+$", "", name.decode())  # of any of its forms
        launched.append(kernel)
        if kernel in RUN:
            with torch.no_grad():
                RUN[kernel](Arguments(values), torch.bfloat16)
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


def packed():
    """Packed sequences: gradients, operators, the names of flash_attn."""
    from tilec.torch import flash_attn as flash
    from tilec.torch.packed import packed_kernel

    at, there = torch.tensor([0, 70, 70, 80]), torch.tensor([0, 90, 99, 120], dtype=torch.int32)

    def wanted(q, k, v, starts, others):
        parts = [exact(q[None, a:b], k[None, c:d], v[None, c:d], D ** -0.5)[0][0]
                 for a, b, c, d in zip(starts, starts[1:], others, others[1:])]
        return torch.cat(parts)

    def check_packed(function, starts, others, heads):
        shapes = [(int(starts[-1]), heads[0], D), (int(others[-1]), heads[1], D), (int(others[-1]), heads[1], D)]
        these = [torch.randn(shape).bfloat16().requires_grad_() for shape in shapes]
        want, out = wanted(*these, starts.tolist(), others.tolist()), function(*these)
        grad = torch.randn(want.shape).bfloat16()
        near(out, want)
        for have, exactly in zip(torch.autograd.grad(out, these, grad), torch.autograd.grad(want, these, grad.double())):
            near(have, exactly)

    def ours(q, k, v):
        return tilec.torch.attention_varlen(q, k, v, at, there, causal=True)

    def named(q, k, v):
        return flash.flash_attn_varlen_func(q, k, v, there, there, 90, 90, causal=True)

    for _ in range(2):
        check_packed(ours, at, there, (4, 2))
    check_packed(named, there, there, (2, 2))
    assert packed_kernel().plans.count == 2 and launched.count("attention_varlen_bwd") == 3
    torch.compiler.reset()
    check_packed(torch.compile(named, fullgraph=True, backend="aot_eager"), there, there, (2, 2))
    q = torch.randn(120, 2, D).bfloat16()
    near(named(q, q, q), wanted(q, q, q, there.tolist(), there.tolist()))
    both = tilec.torch.attention_varlen(q, q, q, there, causal=True)  # the longest is read from the tensor
    near(both, wanted(q, q, q, there.tolist(), there.tolist()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert tilec.torch.attention_varlen(q.float(), q, q, there).dtype == torch.bfloat16
    operator = packed_kernel().registered()
    several = [torch.randn(120, 2, D).bfloat16().requires_grad_() for _ in range(3)]
    torch.library.opcheck(operator, (*several, there, there, 90, 0.125, 0.0, True))
    q.requires_grad_()
    refused("no deterministic gradients", lambda: flash.flash_attn_varlen_func(q, q, q, there, there, 90, 90, deterministic=True))
    refused("Q must have 3 dimensions", lambda: tilec.torch.attention_varlen(*[q.detach()[None]] * 3, there))


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


def node_in_c():
    """The node in C++: Python sees the first backward of each kind, and what the node leaves to it."""
    from tilec.torch import gradient, node

    assert node.wait() is None, node.why_not()
    in_python, of_python = [], gradient.backward

    def watched_backward(*arguments):
        in_python.append(arguments[0].name)
        return of_python(*arguments)

    gradient.backward = watched_backward
    for seed in range(3):
        check(attention, operands(seed=seed))
    assert in_python == ["attention"] and len(node._records) == 1, in_python
    assert attention(*operands()).grad_fn.name() == "TilecBackward"
    these = operands()
    weight = torch.randn(2, 2, 80, D).bfloat16()
    for _ in range(2):  # a gradient of strides 0 is made contiguous; one with heads first has a plan of its own
        attention(*these).sum().backward()
        attention(*these).transpose(1, 2).mul(weight).sum().backward()
    assert len(in_python) == 2, in_python
    out = attention(*these)
    first = torch.autograd.grad(out, these, torch.ones_like(out), retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(out, these, torch.ones_like(out))):
        assert torch.equal(a, b)
    refused("second time", lambda: torch.autograd.grad(out, these, torch.ones_like(out)), RuntimeError)
    del in_python[:]
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
        check(attention, operands())
    with torch.no_grad():
        changed = operands()
    out = attention(*changed)
    with torch.no_grad():
        changed[0].mul_(2)
    refused("modified by an inplace operation", lambda: out.sum().backward(), RuntimeError)
    out, lse = tilec.torch.attention(*operands(), causal=True, return_lse=True)
    assert out.requires_grad and lse.requires_grad
    assert not in_python, in_python
    some = operands()  # gradients of some inputs only
    some[1].requires_grad_(False)
    attention(*some).sum().backward()
    assert some[1].grad is None and some[2].grad is not None
    node.RECORDS = 2  # what was forgotten is known again at its next forward, and until then where it is needed
    for rows in (72, 88, 96, 72, 80):
        check(attention, operands(rows))
    before = [(these, attention(*these)) for these in map(operands, (72, 88, 96))]
    for these, out in before:
        out.sum().backward()
        assert these[0].grad is not None
    del before, these, out, lse
    assert len(node._records) == 2, list(node._records)
    with torch.autograd.forward_ad.dual_level():
        q, k, v = operands()
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        refused("no forward-mode derivatives", lambda: attention(dual, k, v), NotImplementedError)


def no_node():
    import os

    from tilec.torch import node

    eager()
    checkpointed()
    twice()
    assert os.environ["REASON"] in node.why_not() and node.wait() == node.why_not()
    assert "Differentiable" in type(attention(*operands()).grad_fn).__name__


def model():
    import transformers

    import tilec.torch.transformers

    config = dict(vocab_size=100, hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
                  num_key_value_heads=1, head_dim=D)
    ids, found = torch.randint(1, 100, (2, 80)), []
    for kind in ("eager", "tilec"):
        torch.manual_seed(0)
        made = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**config), attn_implementation=kind,
                                                             dtype=torch.bfloat16)
        for function in (made, torch.compile(made)) if kind == "tilec" else (made,):
            made.zero_grad()
            out = function(ids, use_cache=False).logits.float()
            (out * torch.linspace(-1, 1, out.numel()).view(out.shape).sin()).sum().backward()
            found.append((out.detach(), made.model.layers[0].self_attn.q_proj.weight.grad.float()))
    for have in found[1:]:
        for a, b in zip(have, found[0]):
            assert (a - b).norm() < 0.03 * b.norm(), (a - b).norm() / b.norm()
    assert launched.count("attention") == launched.count("attention_bwd") == 4, launched


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


def main(cases):
    fake = ctypes.CDLL("libcuda.so.1")
    fake.fake_cuda_on_launch(runner)
    attend.ways.least = lambda every, *_: every[0]  # of the ways, one that RUN has
    attend._is_few = lambda *_: False
    attend._other_programs = lambda *_: None
    cases[sys.argv[2]]()
    assert not failures, failures[0]
    assert gpu.DEVICE_TYPE == "cpu"
    print("right")


if __name__ == "__main__":
    main({"eager": eager, "packed": packed, "compiled": compiled, "exported": exported, "checkpointed": checkpointed,
          "watched": watched, "twice": twice, "autocast": autocast, "threads": threads, "refusals": refusals,
          "any": any_kernel, "node": node_in_c, "no_node": no_node, "model": model})
