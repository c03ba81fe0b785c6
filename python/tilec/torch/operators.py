"""operators.py - kernels as operators of PyTorch: what torch.compile, export and the modes that watch
operators see.

An operator `tilec::NAME` takes the tensors of a kernel and its values, all of which may be left out.
Its fake computes shapes from the signature alone, so that tracing compiles nothing.
"""
import torch

from tilec.torch import gradient
from tilec.torch.error import Error
from tilec.torch.expressions import evaluate
from tilec.torch.gpu import DEVICE_TYPE

_library = torch.library.Library("tilec", "FRAGMENT")
_taken = {}
_SCHEMA = {"f32": "float", "i32": "int", "int": "int", "bool": "bool"}


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
            shape = [evaluate(dim, names) for dim in t.dims]
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
        out = kernel.run(*arguments)
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


def _refuse(kernel):
    words = gradient.NO_SECOND if kernel.is_backward else gradient.NO_BACKWARD

    def backward(ctx, *grads):
        raise Error(words.format(kernel.name))

    return backward


def _gradient(kernel):
    table = gradient.links(kernel)

    def setup(ctx, inputs, output):
        n = len(kernel.inputs)
        ctx.save_for_backward(*table.keep(inputs[:n], gradient.as_tuple(output)))
        ctx.values = inputs[n:]
        ctx.set_materialize_grads(False)

    def backward(ctx, *grads):
        given = list(grads)
        for i in table.grads:
            if given[i] is None:
                raise Error(f"{kernel.backward.name}: the gradient of {kernel.returns[i]} is missing")
        made = gradient.as_tuple(kernel.backward.registered()(*table.arguments(ctx.saved_tensors, given, ctx.values)))
        return (*[None if i is None else made[i] for i in table.results], *[None] * len(kernel.values))

    return setup, backward


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
    if kernel.backward is not None:
        kernel.backward.registered()
        setup, backward = _gradient(kernel)
        torch.library.register_autograd(f"tilec::{name}", backward, setup_context=setup, lib=_library)
    else:
        torch.library.register_autograd(f"tilec::{name}", _refuse(kernel), lib=_library)
    return getattr(torch.ops.tilec, name).default
