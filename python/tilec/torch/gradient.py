"""gradient.py - gradients of kernels for which a backward is named.

The backward's arguments are found by their names among the inputs and outputs of the forward; `dO` is the
gradient of the output O.  What it returns as `dX` is the gradient of X.  Eager calls go through a node in C++
(node.py), or else through one torch.autograd.Function here; the operators of operators.py use the same tables.
"""
from operator import itemgetter

import torch

from tilec.torch import node
from tilec.torch.error import Error
from tilec.torch.watch import is_batched, is_eager

NO_SECOND = "the gradients of {} cannot be differentiated: there are no second derivatives"
NO_FORWARD = ("{} has no forward-mode derivatives (torch.func.jvp, jacfwd, torch.autograd.forward_ad): only gradients, by "
              "backward(), torch.func.grad, vjp and jacrev")
NO_BACKWARD = "{} cannot be differentiated: no backward was named for it"


def fit(grad):
    """A gradient that a kernel takes: autograd gives any strides, of which kernels have no say, some that are to be negated, and
    zeros that are nowhere."""
    if grad.is_neg():
        grad = grad.resolve_neg()
    if grad._is_zerotensor():
        grad = torch.zeros(grad.shape, dtype=grad.dtype, device=grad.device)
    unit = grad.element_size()
    if grad.is_contiguous() and not grad.storage_offset() and grad.dim() and grad.shape[-1] * unit % 16 == 0:
        return grad
    strides = grad.stride()
    if (strides and strides[-1] != 1 and grad.shape[-1] > 1) or any(s * unit % 16 for s in strides[:-1]):
        return grad.contiguous()
    if grad.storage_offset() * unit % 16:
        return grad.clone(memory_format=torch.contiguous_format)
    return grad


class Links:
    """How the arguments of a backward come from a forward."""

    def __init__(self, forward, backward):
        self.kernel = backward
        backward.is_backward = True
        self.saved = []  # (is an output, index) of what the backward takes
        self.grads = []  # indices of outputs whose gradients it takes
        self.sources = []  # for each argument: (is a gradient, index into saved or grads)
        for name in backward.inputs:
            if name in forward.inputs:
                self._take(False, forward.inputs.index(name))
            elif name in forward.returns:
                self._take(True, forward.returns.index(name))
            elif name[:1] == "d" and name[1:] in forward.returns:
                self.sources.append((True, len(self.grads)))
                self.grads.append(forward.returns.index(name[1:]))
            else:
                raise Error(f"{backward.name}: '{name}' is neither a tensor of {forward.name} nor the gradient of one")
        for name in backward.returns:
            if name[:1] != "d" or name[1:] not in forward.inputs:
                raise Error(f"{backward.name} returns {name}, which is not the gradient of an input of {forward.name}: "
                            f"d{', d'.join(forward.inputs)}")
        # what is `auto` each finds for itself
        own = {name for name, constant in backward.constants.items() if constant.default == "auto"}
        self.values = [list(forward.values).index(name) if name in forward.values and name not in own else None
                       for name in backward.values]
        self.results = [backward.returns.index("d" + name) if "d" + name in backward.returns else None
                        for name in forward.inputs]
        self.without = [i for i, result in enumerate(self.results) if result is None]  # inputs that get no gradient
        self.plain = [i for i in range(len(forward.returns)) if i not in self.grads]  # have no gradient
        # the same for eager calls: tensors out of (*saved, *gradients), values as they are where the order is the same
        self.pick = itemgetter(*[len(self.saved) + i if is_gradient else i for is_gradient, i in self.sources], 0)
        self.same_values = self.values == list(range(len(forward.values)))
        self.same_results = self.results == list(range(len(backward.returns)))

    def _take(self, is_output, index):
        self.sources.append((False, len(self.saved)))
        self.saved.append((is_output, index))

    def keep(self, inputs, outputs):
        return [outputs[index] if is_output else inputs[index] for is_output, index in self.saved]

    def arguments(self, saved, grads, values, fitted=True):
        take = fit if fitted else lambda grad: grad
        tensors = [take(grads[self.grads[i]]) if is_gradient else saved[i] for is_gradient, i in self.sources]
        return tensors + [None if i is None else values[i] for i in self.values]

    def refuse(self, forward, tensors):
        """Refuses an input whose gradient would be missing without a word."""
        for i in self.without:
            if tensors[i].requires_grad:
                name = forward.inputs[i]
                raise Error(f"{forward.name}: {name} requires a gradient, and {forward.backward.name} returns no d{name}: give "
                            f"{name}.detach()")


def links(forward):
    """The links of a kernel's backward; with `more` those of the one that takes gradients of more outputs."""
    if not hasattr(forward, "links"):
        table = Links(forward, forward.backward)
        table.more = None
        if forward.backward_of_all is not None:
            table.more = Links(forward, forward.backward_of_all)
            assert table.more.saved == table.saved, "both backwards save the same"
            table.plain = table.more.plain
        # all outputs that have a gradient, those of the first backward before the others
        table.every = table.grads + [i for i in (table.more.grads if table.more else ()) if i not in table.grads]
        forward.links = table
    return forward.links


def taking(table, given):
    """The links of the backward that takes these gradients."""
    is_more = table.more is not None and any(given[i] is not None for i in table.every[len(table.grads):])
    return table.more if is_more else table


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


class Once(torch.autograd.Function):
    """Passes gradients on, and refuses to be differentiated: they would seem not to depend on the inputs."""

    @staticmethod
    def forward(ctx, name, n, *tensors):
        ctx.name = name
        return tuple(tensor.clone() for tensor in tensors[:n])

    @staticmethod
    def backward(ctx, *grads):
        raise Error(NO_SECOND.format(ctx.name))


def complete(table, given, shapes):
    """The gradients of outputs, zeros for those that are not used while others are; None: for all of them.  `shapes`: of the
    outputs, with their types."""
    given = [*given, *[None] * (len(shapes) - len(given))]  # of outputs that were not given there is no gradient
    there = [given[i] for i in table.every if given[i] is not None]
    if not there:
        return None
    for i in taking(table, given).grads:
        if given[i] is None:
            shape, dtype = shapes[i]
            given[i] = there[0].new_zeros(shape, dtype=dtype)
    return given


def shapes_of(outputs):
    return [(output.shape, output.dtype) for output in outputs]


def backward(kernel, values, saved, given):
    """The gradients of a kernel's inputs; with them the tensors that the backward took, and its plan (None: it went
    through its operator)."""
    table = taking(kernel.links, given)
    if not table.same_values:
        values = [None if i is None else values[i] for i in table.values]
    if is_eager() and not any(is_batched(given[i]) for i in table.grads):
        tensors = table.pick((*saved, *[fit(given[i]) for i in table.grads]))[:-1]
        made, plan = table.kernel.record(*tensors, *values)
    else:
        tensors, plan = table.pick((*saved, *[given[i] for i in table.grads]))[:-1], None
        made = table.kernel.registered()(*tensors, *values)
    if table is not kernel.links:
        plan = None  # of the other one, which the node knows
    made = as_tuple(made)
    if torch.is_grad_enabled():  # create_graph=True
        made = Once.apply(kernel.name, len(made), *made, *saved, *[g for g in given if g is not None])
    if not table.same_results:
        made = tuple(None if i is None else made[i] for i in table.results)
    return made, tensors, plan


class Differentiable(torch.autograd.Function):
    """`alone`: of several outputs the first is the only one that is given, and the only one with a gradient."""

    @staticmethod
    def forward(ctx, kernel, values, alone, *tensors):
        table, out = kernel.links, kernel.run(*tensors, *values)
        outputs = out if out.__class__ is tuple else (out,)
        ctx.save_for_backward(*table.keep(tensors, outputs))
        ctx.kernel, ctx.values, ctx.shapes = kernel, values, shapes_of(outputs)
        ctx.set_materialize_grads(False)
        if alone:
            return outputs[0]
        if table.plain:
            ctx.mark_non_differentiable(*[outputs[i] for i in table.plain])
        return out

    @staticmethod
    def backward(ctx, *given):
        given = complete(ctx.kernel.links, given, ctx.shapes)
        if given is None:
            return None, None, None, *[None] * len(ctx.kernel.inputs)
        made, _, _ = backward(ctx.kernel, ctx.values, ctx.saved_tensors, given)
        return (None, None, None, *made)


# Function.apply() without what it does for transforms, of which none is active where a call is eager.
_apply = super(torch.autograd.Function, Differentiable).apply


def apply(kernel, tensors, values, alone=False):
    """Launches a kernel and records it for autograd: by the node in C++ where there is one."""
    table = links(kernel)
    if table.without:
        table.refuse(kernel, tensors)
    alone = alone and table.grads == [0]
    if node.attach is None:
        node.start()
    if node.attach is None:
        return _apply(kernel, values, alone, *tensors)
    out, plan = kernel.record(*tensors, *values)
    if plan is None:
        return out[0] if alone else out
    outputs = out if out.__class__ is tuple else (out,)
    node.record(kernel, values, plan, tensors, outputs)
    return outputs[0] if alone else out
