"""operators.py - kernels as operators of PyTorch: what torch.compile, export and the modes that watch
operators see.

An operator `tilec::NAME` takes the tensors of a kernel and its values, all of which may be left out.
Its fake computes shapes from the signature alone, so that tracing compiles nothing.
"""
import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from tilec.torch import gradient
from tilec.torch.elements import ELEMENTS
from tilec.torch.error import Error, Unsupported
from tilec.torch.expressions import evaluate, turn
from tilec.torch.gpu import DEVICE_TYPE

_library = torch.library.Library("tilec", "FRAGMENT")
_taken = {}
_SCHEMA = {"int": "int", **{name: row.schema for name, row in ELEMENTS.items() if row.schema}}


def schema(kernel):
    tensors = [f"Tensor {name}" for name in kernel.inputs]
    values = [f"{_SCHEMA[kind]}? {name}=None" for name, kind in kernel.values.items()]
    results = ", ".join(["Tensor"] * len(kernel.returns))
    return f"({', '.join(tensors + values)}) -> " + (results if len(kernel.returns) == 1 else f"({results})")


def _names(kernel, arguments):
    """Sizes, constants and values of a call by name, from shapes alone."""
    names = dict(kernel.defines)
    for name, tensor in zip(kernel.inputs, arguments):
        order, dims = kernel.order.get(name), kernel.tensors[name].dims
        if tensor.dim() != len(dims):
            raise Error(f"{kernel.name}: {name} must have {len(dims)} dimensions, not {tensor.dim()}")
        for d, dim in enumerate(dims):
            names.setdefault(dim, tensor.shape[order[d] if order else d])
    for name in kernel.inputs:
        for dim in kernel.tensors[name].dims:
            found = turn(dim, names[dim], names)
            names.update([found] if found else ())
    for name, value in zip(kernel.values, arguments[len(kernel.inputs):]):
        if value is not None:
            names[name] = value
    for name, constant in kernel.constants.items():
        if name not in names and constant.kind == "int" and constant.default not in (None, "auto"):
            names[name] = evaluate(constant.default, names)
    return names


def fake(kernel):
    """The function that makes outputs without data."""
    from tilec.torch.plan import DTYPES

    def make(*arguments):
        names, results = _names(kernel, arguments), []
        by_name = dict(zip(kernel.inputs, arguments))
        for name in kernel.returns:
            t = kernel.tensors[name]
            try:
                shape = [evaluate(dim, names) for dim in t.dims]
            except KeyError as missing:
                raise Error(f"{kernel.name}: the shape of {name} needs {missing.args[0]}, which no given tensor has") from None
            strides, step = [], 1
            for extent in reversed(shape):
                strides.insert(0, step)
                step = step * extent
            order = kernel.order.get(name) or range(len(shape))
            place = [list(order).index(d) for d in range(len(shape))]
            bound = kernel.bound.get(t.dtype)
            dtype = by_name[bound[0]].dtype if bound else DTYPES[kernel.defines.get(t.dtype, _default(kernel, t.dtype))]
            results.append(arguments[0].new_empty_strided([shape[d] for d in place], [strides[d] for d in place],
                                                          dtype=dtype))
        return results[0] if len(results) == 1 else tuple(results)

    return make


def _default(kernel, dtype):
    constant = kernel.constants.get(dtype)
    return constant.default if constant else dtype


def _real(kernel):
    def run(*arguments):
        tensors = [as_tensor(argument) for argument in arguments[:len(kernel.inputs)]]
        if kernel.is_backward:
            tensors = [gradient.fit(tensor) for tensor in tensors]
        out = kernel.run(*tensors, *arguments[len(kernel.inputs):])
        results = [_as_fake(kernel, name, tensor) for name, tensor in zip(kernel.returns, gradient.as_tuple(out))]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def _as_fake(kernel, name, tensor):
    """Without the space between rows that a kernel asked for, of which a fake knows nothing."""
    order = kernel.order.get(name)
    if (tensor.permute(order) if order else tensor).is_contiguous():
        return tensor
    return tensor.permute(order).contiguous().permute(*[order.index(d) for d in range(len(order))]) if order \
        else tensor.contiguous()


def as_tensor(tensor):
    """A tensor of a subclass as one of PyTorch's own; what the subclass does at operators was done."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return tensor
    return tensor.as_subclass(torch.Tensor)


def _keep(kernel, ctx, arguments, outputs):
    """What the gradient needs of a call."""
    n, table = len(kernel.inputs), gradient.links(kernel)
    ctx.save_for_backward(*table.keep(arguments[:n], outputs))
    ctx.values, ctx.shapes = arguments[n:], gradient.shapes_of(outputs)
    ctx.mark_non_differentiable(*[outputs[i] for i in table.plain])
    ctx.set_materialize_grads(False)


def _gradient(kernel, ctx, grads):
    table, rest = kernel.links, [None] * len(kernel.values)
    given = gradient.complete(table, grads, ctx.shapes)
    if given is None:
        return *[None] * len(kernel.inputs), *rest
    table = gradient.taking(table, given)
    taken = table.arguments(ctx.saved_tensors, given, ctx.values, fitted=False)  # they are where the operator runs
    made = gradient.as_tuple(table.kernel.registered()(*taken))
    return *[None if i is None else made[i] for i in table.results], *rest


def _differentiable(kernel, operator):
    """The operator where autograd watches: a node of autograd's, or of a level of torch.func's; what it does below, the
    dispatcher decides."""

    def below(keys, arguments):
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)

    class Node(_SingleLevelFunction):
        @staticmethod
        def forward(ctx, keys, *arguments):
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):  # of the levels below, if there are
                out = below(keys, arguments)
            if kernel.backward is not None:
                given = (*arguments, *[None] * (len(kernel.inputs) + len(kernel.values) - len(arguments)))
                _keep(kernel, ctx, given, gradient.as_tuple(out))
            ctx.arguments = len(arguments)
            return out

        @staticmethod
        def backward(ctx, *grads):
            if kernel.backward is None:
                raise Error((gradient.NO_SECOND if kernel.is_backward else gradient.NO_BACKWARD).format(kernel.name))
            return None, *_gradient(kernel, ctx, grads)[:ctx.arguments]

    def run(keys, *arguments):
        tensors = arguments[:len(kernel.inputs)]
        if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(t).tangent is not None for t in tensors):
            raise Unsupported(gradient.NO_FORWARD.format(kernel.name))
        if not torch.is_grad_enabled() or not any(t.requires_grad for t in tensors):
            return below(keys, arguments)
        if kernel.backward is not None:
            kernel.links.refuse(kernel, tensors)
        with enable_single_level_autograd_function():
            return Node.apply(keys, *arguments)

    return run


def _each(operator):
    """What torch.func.vmap does with an operator: a call for each element of the batch."""
    def element(x, place, i):
        return x if place is None else x.select(place, i) if i is not None else x.new_zeros(x.shape[:place] + x.shape[place + 1:])

    def run(info, places, *arguments):
        batch = range(info.batch_size) or [None]  # of an empty one the shapes are asked
        made = [gradient.as_tuple(operator(*[element(x, place, i) for x, place in zip(arguments, places)])) for i in batch]
        stacked = tuple(torch.stack(outputs)[:info.batch_size] for outputs in zip(*made))
        return (stacked[0], 0) if len(stacked) == 1 else (stacked, (0,) * len(stacked))

    return run


def taken():
    """The kernels that have an operator."""
    return list(_taken.values())


def register(kernel):
    """The operator of a kernel, made at its first use.  Names are taken by program and options, so that a
    program that was exported finds its operators in another process."""
    name = kernel.name
    if _taken.setdefault(name, kernel) is not kernel:
        from tilec.torch.disk import digest

        name = f"{name}_{digest(kernel.source.text, sorted(kernel.defines.items()), kernel.names, kernel.returns)[:8]}"
        if _taken.setdefault(name, kernel) is not kernel:
            name = f"{name}_{len(_taken)}"
            _taken[name] = kernel
    tags = [torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)]
    _library.define(name + schema(kernel), tags=tags)
    _library.impl(name, _real(kernel), "CUDA" if DEVICE_TYPE == "cuda" else "CPU")
    torch.library.register_fake(f"tilec::{name}", fake(kernel), lib=_library)
    operator = getattr(torch.ops.tilec, name).default
    if kernel.backward is not None:
        gradient.links(kernel)
        kernel.backward.registered()
        if kernel.backward_of_all is not None:
            kernel.backward_of_all.registered()
    _library.impl(name, _differentiable(kernel, operator), "Autograd", with_keyset=True)
    torch.library.register_vmap(operator, _each(operator), lib=_library)
    return operator
