"""pytorch_calls.py - what PyTorch and its users do to tilec.torch beyond plain calls, on CPU tensors over the made-up driver:
transforms, modes, subclasses, views, outputs that are given, and wrong arguments.

    pytorch_calls.py FOLDER CASE    (the folder of the extension)
"""
import copy
import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.autograd.forward_ad as forward_ad
from pytorch_program import D, RUN, attention, check, exact, launched, main, near, operands, refused, view

import tilec.torch
from tilec.torch import attend, packed

Kernel = tilec.torch.kernel


def of_rows(compute, outputs=1, numbers=0):
    """What a kernel on [R, 64] of f32 does, with one input."""
    def run(a, _):
        places = [a.tensor(2) for _ in range(1 + outputs)]
        rows = a.number(ctypes.c_int32)
        x, *made = (view(place, (rows, 64), torch.float32) for place in places)
        for out, value in zip(made, compute(x, *(a.number(ctypes.c_float) for _ in range(numbers)))):
            out.copy_(value)
    return run


def program(name, head, body):
    return f"kernel {name}<T: type = f32>({head}) {{ grid r in tiles(R, 16); {body} }}"


SCALE = program("scale", "X: in T[R, 64], Y: out T[R, 64], a: f32", "store Y[r, :] = ((load X[r, :] as f32) * a) as T;")
SCALE_BWD = program("scale_bwd", "dY: in T[R, 64], dX: out T[R, 64], a: f32", "store dX[r, :] = ((load dY[r, :] as f32) * a) as T;")
FAN = program("fan", "X: in T[R, 64], Y: out T[R, 64], Z: out T[R, 64]", "store Y[r, :] = load X[r, :]; store Z[r, :] = load X[r, :];")
FAN_BWD = program("fan_bwd", "dY: in T[R, 64], dZ: in T[R, 64], dX: out T[R, 64]",
                  "store dX[r, :] = load dY[r, :] + load dZ[r, :];")
SUMS = "kernel sums<T: type = f32>(X: in T[R, 64], S: inout f32[64]) { grid r in tiles(R, 16); atomic_add S[:] += sum(load X[r, :] as f32, axis=0); }"
RUN["scale"] = RUN["scale_bwd"] = of_rows(lambda x, a: [x * a], 1, 1)
RUN["fan"] = of_rows(lambda x: [x, x], 2)


def run_fan_bwd(a, _):
    one, two, out = (a.tensor(2) for _ in range(3))
    rows = a.number(ctypes.c_int32)
    one, two, out = (view(place, (rows, 64), torch.float32) for place in (one, two, out))
    out.copy_(one + two)


RUN["fan_bwd"] = run_fan_bwd


def transforms():
    """torch.func and batched gradients: as PyTorch's own attention."""
    q, k, v = operands(requires_grad=False)
    cotangent = torch.randn(q.shape).bfloat16()
    want = lambda q, g: torch.autograd.grad(exact(q, k, v, D ** -0.5)[0], q, g.double())[0]  # noqa: E731
    leaf = q.clone().requires_grad_()
    right = want(leaf, cotangent)
    loss = lambda x: (attention(x, k, v) * cotangent).sum()  # noqa: E731
    near(torch.func.grad(loss)(q), right)
    near(torch.func.vjp(lambda x: attention(x, k, v), q)[1](cotangent)[0], right)
    near(torch.func.grad_and_value(loss)(q)[0], right)
    near(torch.func.vmap(torch.func.grad(loss))(torch.stack([q, q]))[1], right)
    near(torch.func.grad(lambda x: torch.func.vmap(loss)(torch.stack([x, x]))[1])(q), right)
    near(torch.func.jacrev(lambda x: (attention(x, k, v) * cotangent).sum((1, 2, 3)))(q)[0, 0], right[0])
    for function in (lambda x: attention(x, k, v), lambda x: tilec.torch.attention(x, k, v, causal=True, return_lse=True)[0]):
        out = function(leaf)
        batched, = torch.autograd.grad(out, leaf, torch.stack([cotangent, -cotangent]), is_grads_batched=True)
        near(batched[0], right)
        near(batched[1], -right)
    compiled = torch.compile(torch.func.grad(loss), backend="aot_eager", fullgraph=True)
    near(compiled(q), right)
    second = torch.func.grad(lambda x: torch.func.grad(loss)(x).float().square().sum())
    refused("no second derivatives", lambda: second(q))
    refused("no forward-mode", lambda: torch.func.hessian(loss)(q))
    at = torch.tensor([0, 80, 160], dtype=torch.int32)
    rows = [x.reshape(160, 2, D) for x in (q, k, v)]
    of_rows_ = torch.func.grad(lambda x: (tilec.torch.attention_varlen(x, *rows[1:], at, longest_q=80, causal=True)
                                          * cotangent.view(160, 2, D)).sum())(rows[0])
    near(of_rows_.view(q.shape), right)
    x, scale = torch.randn(32, 64), Kernel(SCALE, backward=Kernel(SCALE_BWD))
    near(torch.func.grad(lambda x: scale(X=x, a=3.0).sum())(x), torch.full_like(x, 3.0))
    near(torch.func.vmap(lambda x: scale(X=x, a=3.0))(torch.stack([x, x + 1]))[1], 3 * x + 3)
    refused("no backward was named", lambda: torch.func.grad(lambda x: Kernel(SCALE, name="bare")(X=x, a=3.0).sum())(x))


def forward_mode():
    """There are no forward-mode derivatives, and nobody gets zeros for them."""
    q, k, v = operands(requires_grad=False)
    scale, x = Kernel(SCALE, backward=Kernel(SCALE_BWD)), torch.randn(32, 64)
    at = torch.tensor([0, 80], dtype=torch.int32)
    calls = (lambda x: attention(x, k, v), lambda x: attention(q, x, v), lambda x: scale(X=x[0, :32, 0].float(), a=2.0),
             lambda x: tilec.torch.attention_varlen(x[0], k[0], v[0], at, longest_q=80), attend.forward_kernel("bshd", False).registered())
    for call in calls[:4]:
        for kind in (tilec.torch.Error, NotImplementedError):
            refused("no forward-mode derivatives", lambda: torch.func.jvp(call, (q,), (q,)), kind)
        refused("no forward-mode derivatives", lambda: torch.func.jacfwd(lambda x: call(x).float().sum())(q))
        refused("no forward-mode derivatives", lambda: torch.func.jvp(torch.func.vmap(call), (q[None],), (q[None],)))
        with forward_ad.dual_level():
            for leaf in (q, q.clone().requires_grad_()):
                refused("no forward-mode derivatives", lambda: call(forward_ad.make_dual(leaf, q)))
            call(q)  # without a tangent
            refused("no forward-mode derivatives", lambda: calls[4](forward_ad.make_dual(q, q), k, v))
    out, tangent = torch.func.jvp(lambda y: attention(q, k, v).float().sum() + y.sum(), (x,), (x,))
    near(tangent, x.sum())
    refused("no forward-mode derivatives", lambda: torch.compile(lambda x: torch.func.jvp(lambda y: attention(y, k, v), (x,), (x,)),
                                                                 backend="aot_eager")(q), Exception)


def lse():
    """L has a gradient, too, by itself and with that of O."""
    def both(q, k, v):
        return tilec.torch.attention(q, k, v, causal=True, return_lse=True)

    operator, these = attend.forward_kernel("bshd", False).registered(), operands()
    g, gl = torch.randn(these[0].shape).bfloat16(), torch.randn(2, 2, 80)
    losses = (lambda o, l: (l * gl.to(l.dtype)).sum() + o.sum() * 0, lambda o, l: l.sum() + o.sum() * 0, lambda o, l: (o * g.to(o.dtype)).sum(),
              lambda o, l: (o * g.to(o.dtype)).sum() + (l * gl.to(l.dtype)).sum())
    functions = (both, torch.compile(both, backend="aot_eager", fullgraph=True), lambda *these: operator(*these, None, 0.0, True))
    for loss in losses:
        want = torch.autograd.grad(loss(*exact(*these, D ** -0.5)[:2]), these)
        for function in functions:
            for _ in range(2):
                out, l = function(*these)
                assert out.requires_grad and l.requires_grad
                for have, exactly in zip(torch.autograd.grad(loss(out, l), these), want):
                    near(have, exactly)
        for i, exactly in enumerate(want):
            near(torch.func.grad(lambda *x: loss(*both(*x)), i)(*[x.detach() for x in these]), exactly)  # noqa: B023
    alone = torch.autograd.grad(both(*these)[1], these, gl)
    assert not alone[2].any()
    near(alone[0], torch.autograd.grad(exact(*these, D ** -0.5)[1], these[0], gl.double())[0])
    out, l = both(*these)
    twice, = torch.autograd.grad(l, these[0], gl, create_graph=True)
    refused("no second derivatives", lambda: twice.float().square().sum().backward())
    assert launched.count("attention_bwd_delta_of_all") > 20


def outputs():
    """Outputs that are given, several outputs, and gradients by their names."""
    scale = Kernel(SCALE)
    w, y = torch.ones(32, 64, requires_grad=True), torch.full((32, 64), 3.0)
    z, version = (w * y).sum(), y._version
    scale(X=y.clone(), Y=y, a=100.0)
    assert y._version > version
    near(y, torch.full_like(y, 300.0))
    refused("modified by an inplace operation", z.backward, RuntimeError)
    w, y = torch.ones(32, 64, requires_grad=True), torch.full((32, 64), 3.0)
    for backend in ("eager", "aot_eager"):  # a compiled function is in parts around such a call
        z = torch.compile(lambda y: ((w * y).sum(), scale(X=y.clone(), Y=y, a=100.0))[0], backend=backend)(y)  # noqa: B023
        refused("modified by an inplace operation", z.backward, RuntimeError)
    near(y, torch.full_like(y, 30000.0))
    with torch.inference_mode():
        out = torch.empty(32, 64)
        assert scale(X=out, Y=out, a=1.0) is out
    x = torch.randn(32, 64)
    for wrong in (torch.zeros(1, 64).expand(32, -1), torch.zeros(31 * 32 + 64).as_strided((32, 64), (32, 1))):
        refused("lie in one place", lambda: scale(X=x, Y=wrong, a=1.0))
    wide = torch.zeros(32, 128)
    scale(X=x, Y=wide[:, 64:], a=2.0)
    near(wide[:, 64:], 2 * x)
    assert not wide[:, :64].any()
    refused("is a negated view", lambda: scale(X=x, Y=torch._neg_view(torch.zeros(32, 64)), a=1.0))
    near(scale(X=torch._neg_view(x), a=2.0), -2 * x)
    near(scale(X=x, Y=None, a=2.0), 2 * x)

    fan = Kernel(FAN, backward=Kernel(FAN_BWD))
    for function in (lambda x: fan(X=x), torch.compile(lambda x: fan(X=x), backend="aot_eager"), fan.registered()):
        for used in ((0,), (1,), (0, 1)):
            x = torch.randn(32, 64, requires_grad=True)
            made = function(x)
            sum(made[i].sum() for i in used).backward()
            near(x.grad, torch.full_like(x, len(used)))
    dropped = type("Dropped", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x.clone()),
                                                          "backward": staticmethod(lambda ctx, g: None)})
    x = torch.randn(32, 64, requires_grad=True)
    dropped.apply(fan(X=x)[0]).sum().backward()
    assert x.grad is None
    slip = SCALE_BWD.replace("dX", "dW")
    refused("scale_bwd returns dW, which is not the gradient of an input of scale: dX", lambda: Kernel(SCALE, backward=Kernel(slip)))
    two = program("two", "X: in T[R, 64], W: in T[R, 64], Y: out T[R, 64], a: f32",
                  "store Y[r, :] = (((load X[r, :] as f32) + load W[r, :] as f32) * a) as T;")
    two = Kernel(two, backward=Kernel(SCALE_BWD))
    for function in (lambda x: two(X=x, W=x, a=1.0), lambda x: two.registered()(x, x, 1.0)):
        refused("W requires a gradient, and scale_bwd returns no dW", lambda: function(torch.ones(32, 64, requires_grad=True)))


def negated():
    """Views that are to be negated when they are read."""
    q, k, v = operands(requires_grad=False)
    near(attention(torch._neg_view(q), k, v), exact(-q, k, v, D ** -0.5)[0])
    near(attention(q, k, torch._neg_view(v)), -exact(q, k, v, D ** -0.5)[0])
    leaf = q.clone().requires_grad_()
    out, g = attention(leaf, k, v), torch.randn(q.shape).bfloat16()
    for _ in range(2):
        have, = torch.autograd.grad(out, leaf, torch._neg_view(g), retain_graph=True)
        near(have, -torch.autograd.grad(exact(leaf, k, v, D ** -0.5)[0], leaf, g.double())[0])
    minus, = torch.autograd.grad(attention(torch._neg_view(leaf), k, v), leaf, g)
    near(minus, torch.autograd.grad(exact(-leaf, k, v, D ** -0.5)[0], leaf, g.double())[0])
    nothing = torch._efficientzerotensor(q.shape, dtype=q.dtype)
    assert not torch.autograd.grad(out, leaf, nothing)[0].any()
    gone = q.clone()
    gone.untyped_storage().resize_(0)
    for wrong in (nothing, gone):
        for _ in range(2):
            refused("V has no memory", lambda: attention(q, k, wrong))  # noqa: B023
    near(attention(q, k, v), exact(q, k, v, D ** -0.5)[0])
    at = torch.tensor([0, 80], dtype=torch.int32)
    near(tilec.torch.attention_varlen(torch._neg_view(q[0]), k[0], v[0], at, longest_q=80),
         exact(-q[:1], k[:1], v[:1], D ** -0.5)[0][0])


def deterministic():
    """torch.use_deterministic_algorithms is obeyed, by what was planned before, too."""
    check(attention, operands())
    assert launched.count("attention_bwd") == 1
    these = operands()
    before = attention(*these)
    torch.use_deterministic_algorithms(True)
    for _ in range(2):
        check(attention, operands())
    fast = torch.compile(attention, fullgraph=True, backend="aot_eager")
    check(fast, operands())
    check(torch.func.vmap(lambda q, k, v: attention(q[None], k[None], v[None])[0]), operands())
    assert launched.count("attention_bwd") == 1 and launched.count("attention_bwd_dq") >= 4, launched
    refused("adds to dQ_sum in any order", lambda: before.sum().backward())
    at, rows = torch.tensor([0, 80], dtype=torch.int32), [x.detach()[0].clone().requires_grad_() for x in operands()]
    packed_ = tilec.torch.attention_varlen(*rows, at, longest_q=80, causal=True)
    refused("adds to dQ_sum in any order", lambda: packed_.sum().backward())
    sums, x = Kernel(SUMS), torch.ones(32, 64)
    refused("adds to S in any order", lambda: sums(X=x))
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sums(X=x)
    assert "adds to S in any order" in str(said[0].message)
    torch.use_deterministic_algorithms(False)
    sums(X=x)
    check(attention, operands())
    check(fast, operands())
    assert launched.count("attention_bwd") == 3


class Mine(torch.Tensor):
    pass


def subclasses():
    q, k, v = operands(requires_grad=False)
    want = exact(q, k, v, D ** -0.5)[0]
    for place in range(3):
        these = [q, k, v]
        these[place] = these[place].as_subclass(Mine)
        out = attention(*these)
        assert type(out) is Mine
        near(out.as_subclass(torch.Tensor), want)
        leaf = q.clone().requires_grad_()
        near(attention(*[leaf if i == 0 and place else x for i, x in enumerate(these)]).as_subclass(torch.Tensor), want)
        check(lambda *x: attention(*[y.as_subclass(Mine) if i == place else y for i, y in enumerate(x)]).as_subclass(torch.Tensor),  # noqa: B023
              operands())
    near(attention(type("P", (torch.nn.Parameter,), {})(q), k, v), want)
    near(attention(torch.nn.Buffer(q), k, v), want)
    scale, x = Kernel(SCALE), torch.randn(32, 64)
    near(scale(X=x.as_subclass(Mine), a=2.0).as_subclass(torch.Tensor), 2 * x)
    out = torch.empty(32, 64).as_subclass(Mine)
    scale(X=x.as_subclass(Mine), Y=out, a=2.0)
    near(out.as_subclass(torch.Tensor), 2 * x)


def nothing():
    """No sequences, no queries, no keys: gradients are there, and zero."""
    for b, sq, sk in ((0, 80, 80), (2, 0, 80), (2, 80, 0), (2, 0, 0), (0, 0, 0)):
        for function in (attention, torch.compile(attention, backend="aot_eager", dynamic=False)):
            q, k, v = (torch.randn(b, s, 2, D).bfloat16().requires_grad_() for s in (sq, sk, sk))
            out = function(q, k, v)
            assert out.shape == q.shape
            out.sum().backward()
            out = function(q, k, v)
            torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
            assert [x.grad.shape for x in (q, k, v)] == [x.shape for x in (q, k, v)]
    at = torch.zeros(3, dtype=torch.int32)
    q = torch.randn(0, 2, D).bfloat16().requires_grad_()
    tilec.torch.attention_varlen(q, q, q, at, causal=True).sum().backward()
    assert q.grad.shape == q.shape


def autocast():
    """Tensors of float64 stay what they are, and are refused."""
    q, k, v = operands(requires_grad=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near(attention(q.float(), k, v.half()), exact(q, k, v, D ** -0.5)[0])
        for these in ((q.double(), k, v), (q, k.double(), v), (q.double(), k.double(), v.double())):
            refused("float64, which kernels do not take", lambda: attention(*these))
        refused("Q must be a tensor, not int", lambda: attention(3, k, v))
        refused("Q must be a tensor, not NoneType", lambda: attention(None, k, v))


def few_keys():
    """Where all keys are one tile another kernel makes dQ: in turns with others, compiled, deterministic, and with L."""
    for n in (80, 40, 80, 1, 65, 64):
        for function in (attention, torch.compile(attention, backend="aot_eager", dynamic=False)):
            check(function, [x.detach()[:, :n].contiguous().requires_grad_() for x in operands()])
    torch.use_deterministic_algorithms(True)
    check(attention, [x.detach()[:, :40].contiguous().requires_grad_() for x in operands()])
    torch.use_deterministic_algorithms(False)
    assert launched.count("attention_bwd_dq_of_tile") >= 7 and launched[-1] == "attention_bwd_dkdv", launched
    these = [x.detach()[:, :40].contiguous().requires_grad_() for x in operands()]
    gl = torch.randn(2, 2, 40)
    o, l = tilec.torch.attention(*these, causal=True, return_lse=True)
    exactly = exact(*these, D ** -0.5)
    want = torch.autograd.grad(exactly[0].sum() + (exactly[1] * gl.double()).sum(), these)
    for have, w in zip(torch.autograd.grad(o.sum() + (l * gl).sum(), these), want):
        near(have, w)
    assert "attention_bwd_dq_of_tile_of_all" in launched


def pickled():
    """Kernels are what they were made from: copied, pickled, saved, and in another process."""
    Kernel(SCALE, name="of_this_process", settle=lambda tensors, values: values)  # before others, and not to be pickled
    scale = Kernel(SCALE, backward=Kernel(SCALE_BWD), defines={"T": "f32"})
    x = torch.randn(30, 64).requires_grad_()
    assert torch.autograd.grad(scale(X=x, a=3.0), x, torch.ones(30, 64))[0].eq(3).all()
    with torch.no_grad():
        scale(X=x, Y=torch.empty(30, 64), a=3.0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.pt")
        torch.save({"layers": [{"kernel": scale}]}, path)
        assert torch.load(path, weights_only=False)["layers"][0]["kernel"] is scale
        for each in (scale, scale.backward, packed.packed_kernel(), packed.packed_kernel().backward, attend.decode_kernel("bshd")):
            assert pickle.loads(pickle.dumps(each)) is copy.copy(each) is copy.deepcopy(each) is each
        others = Kernel(SCALE, defines={"T": "f32"}), Kernel(SCALE, backward=Kernel(SCALE_BWD), defines={"T": "f32"}, plan="none")
        assert len({kernel.token for kernel in (scale, *others)}) == 3
        text = ("import sys, torch, tilec; tilec.__path__.append(sys.argv[1]); import tilec.torch\n"
                "scale = torch.load(sys.argv[2], weights_only=False)['layers'][0]['kernel']\n"
                "again = torch.load(sys.argv[2], weights_only=False)['layers'][0]['kernel']\n"
                "print(scale is again, scale.name, scale.token, scale.backward.name, list(scale.values), scale.registered())")
        done = subprocess.run([sys.executable, "-c", text, sys.argv[1], path], capture_output=True, text=True)
        said = f"True scale {scale.token} scale_bwd ['a'] tilec.scale.default"
        assert done.stdout.strip() == said, (done.stdout, said, done.stderr)
    for error in (tilec.Error("no", 2), tilec.torch.Error("no")):  # as processes pass them on
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), "no", vars(error))


def kinds():
    """Tensors that kernels do not take, of each kind in words of their own."""
    from torch.masked import masked_tensor

    scale, x = Kernel(SCALE), torch.ones(3, 64)
    q, k, v = operands(requires_grad=False)
    at = torch.tensor([0, 160], dtype=torch.int32)
    rows = [y.reshape(160, 2, D) for y in (q, k, v)]

    def each(words, like, x, y):
        """As the input of a kernel, and as q, k and v of attention."""
        refused(words.format("scale: X"), lambda: scale(X=like(x), a=1.0))
        for i, name in enumerate("QKV"):
            def with_(these):
                return [like(y) if j == i else z for j, z in enumerate(these)]  # noqa: B023
            refused(words.format(f"attention: {name}"), lambda: attention(*with_((q, k, v))))  # noqa: B023
            refused(words.format(f"attention_varlen: {name}"),
                    lambda: tilec.torch.attention_varlen(*with_(rows), at, longest_q=160))  # noqa: B023

    lazy = torch.nn.parameter
    for kind in (lazy.UninitializedParameter, lazy.UninitializedBuffer):
        for dtype in (torch.float32, torch.bfloat16):
            each(f"{{}} has no shape so far ({kind.__name__})", lambda _: kind(dtype=dtype), x, q)  # noqa: B023
    refused("starts_q has no shape so far", lambda: tilec.torch.attention_varlen(*rows, lazy.UninitializedBuffer(dtype=torch.int32)))
    each("{} is a MaskedTensor, which says that it knows no operator", lambda y: masked_tensor(y, y > 0), x, q.float())
    leaf = masked_tensor(x, x > 0, requires_grad=True)
    refused("X is a MaskedTensor, which says that it knows no operator", lambda: scale(X=leaf, a=1.0))
    for make, layout in ((torch.Tensor.to_sparse, "sparse_coo"), (torch.Tensor.to_sparse_csr, "sparse_csr"), (torch.Tensor.to_mkldnn, "_mkldnn")):
        refused(f"X is not a strided tensor (torch.{layout}): give X.to_dense()", lambda: scale(X=make(x), a=1.0))  # noqa: B023
    refused("Q is a nested tensor", lambda: attention(torch.nested.nested_tensor([q[0]], layout=torch.jagged), k, v))
    refused("X is torch.complex64, which kernels do not take: they take float32", lambda: scale(X=x.to(torch.complex64), a=1.0))
    refused("X is on the device 'meta'", lambda: scale(X=x.to("meta"), a=1.0))
    refused("head dimensions are 1 or more, not 0 and 64", lambda: attention(q[..., :0], k[..., :0], v))
    refused("there are 2 heads of queries and 0 of keys", lambda: attention(q, k[:, :, :0], v[:, :, :0]))
    refused("Q must have 4 dimensions [B, Sq, Hq, D], not 3", lambda: attention(q[0], k, v))


def batches():
    """torch.func.vmap of operators: a call for each element, and no warning that PyTorch has no rule."""
    scale, x = Kernel(SCALE), torch.randn(3, 5, 64)
    q, k, v = operands(requires_grad=False)
    near(torch.vmap(lambda x: scale(X=x, a=3.0))(x), 3 * x)
    near(torch.vmap(lambda x: scale(X=x, a=3.0), in_dims=1, out_dims=1)(x.transpose(0, 1)), 3 * x.transpose(0, 1))
    near(torch.vmap(torch.vmap(lambda x: scale(X=x, a=3.0)))(x[None].expand(2, -1, -1, -1)), 3 * x[None].expand(2, -1, -1, -1))
    assert torch.vmap(lambda x: scale(X=x, a=3.0))(x[:0]).shape == (0, 5, 64)
    out, lse = torch.vmap(lambda q, k: tilec.torch.attention(q, k, v, causal=True, return_lse=True), (0, None))(torch.stack([q, q + 1]), k)
    near(out[1], exact(q + 1, k, v, D ** -0.5)[0])
    assert lse.shape == (2, 2, 2, 80)
    text = ("import sys, torch, tilec; tilec.__path__.append(sys.argv[1]); import tilec.torch\n"
            "scale = tilec.torch.kernel(sys.argv[2])\n"
            "with torch._subclasses.FakeTensorMode():\n"
            "    print(torch.vmap(lambda x: scale(X=x, a=3.0))(torch.ones(2, 5, 64)).shape)")
    done = subprocess.run([sys.executable, "-c", text, sys.argv[1], SCALE], capture_output=True, text=True)
    assert done.stdout.strip() == "torch.Size([2, 5, 64])" and "performance drop" not in done.stderr, done.stderr


def words():
    """Calls that are not what a kernel takes."""
    scale, x = Kernel(SCALE), torch.randn(5, 64)
    refused("scale takes tensors and values by name: scale(X=.., a=..)", lambda: scale(x, 2.0))
    for sizes in (["R"], 5, "R"):
        refused("`sizes` of kernel() are numbers by name", lambda: Kernel(SCALE, sizes=sizes))  # noqa: B023
    assert Kernel(SCALE, switches="no-swizzle").options == Kernel(SCALE, switches=["no-swizzle"]).options
    wide = Kernel("kernel wide<K: int>(X: in f32[R], Y: out f32[R, K]) { grid r in tiles(R, 16); "
                  "store Y[r, :] = (load X[r])[:, None] + zeros<f32>[16, K]; }")
    refused("wide: no value for 'K', a compile-time parameter", lambda: wide(X=x[:, 0].contiguous()))
    whole = torch.compile(lambda x, y: scale(X=x, Y=y, a=2.0) + 1, backend="aot_eager", fullgraph=True)
    refused("a kernel whose outputs are given writes to them", lambda: whole(x, torch.empty_like(x)), RuntimeError)


CASES = {function.__name__: function for function in (transforms, forward_mode, lse, outputs, negated, deterministic, subclasses,
                                                      nothing, autocast, few_keys, pickled, kinds, batches, words)}

if __name__ == "__main__":
    main(CASES)
