"""kernel.py - kernels of the tile language as functions on tensors.

    scale = tilec.torch.kernel("scale.tile")
    y = scale(X=x, a=2.0)                      # outputs are made; the types and extents of X choose the code

A Kernel is the kernels of a program that one call runs in order; they share tensors by name.  Its tensors
are arguments (`inputs`), results (`returns`) or pass from kernel to kernel; its `values` are scalars,
sizes that no tensor has, and compile-time parameters that no tensor decides.
"""
import contextlib
import functools
import os
import pickle

import torch

import tilec
from tilec._signature import PACKED, signatures
from tilec.torch import gradient, interpret, operators, values as numbers
from tilec.torch.code import Source, compiled
from tilec.torch.disk import digest
from tilec.torch.error import Error
from tilec.torch.expressions import names_in, turn
from tilec.torch.gpu import DEVICE_TYPE, launcher
from tilec.torch.plan import DTYPES, described, make_plan, refuse_devices
from tilec.torch.watch import is_deterministic, is_eager, outside
OPTIONS = ("order", "types", "values", "settle", "instead", "choose", "sizes", "plan", "switches", "level", "variants")


class Kernel:
    """See `kernel()` for the parameters; also

    backward a Kernel, or a function that makes it when the first gradient is recorded
    backward_of_all  a backward that also takes gradients of outputs of which `backward` takes none, and that runs where
             there are such
    order    by tensor: which of its dimensions is each of the kernel's, (0, 2, 1, 3) for heads before rows
    types    by type parameter: the element types it may have
    values   names of the values that a call says, in order; None: all that there are
    settle   what values mean for tensors of these shapes: settle(tensors, values) gives all values, or refuses them
    instead  another kernel for a call: instead(tensors, values) gives it and its values, or None
    choose   what is decided when a call is planned: choose(kernel, code, gpu, tensors, values) gives the names of
             the kernels to run, and all values
    """

    def __init__(self, source, kernels=None, *, name=None, returns=None, backward=None, defines=None, modules=(),
                 backward_of_all=None, order=None, choose=None, settle=None, instead=None, types=None, values=None, given=(), **options):
        self.source = source if isinstance(source, Source) else Source(source, modules)
        self.defines, self.options = dict(defines or {}), options
        self.order, self._choose = dict(order or {}), choose
        self._backwards = backward, backward_of_all
        self.types, self._settle, self._instead = dict(types or {}), settle, instead
        every = {s.name: s for s in signatures(self.source.compile("sm_80", {}, emit="ast").ptx)}
        self.names = [kernels] if isinstance(kernels, str) else list(kernels or every)
        if not self.names:
            raise Error(f"{self.source.path} has no kernel")
        for wanted in self.names:
            if wanted not in every:
                raise Error(f"{self.source.path} has no kernel '{wanted}', but {', '.join(every)}")
        self.signatures = [every[wanted] for wanted in self.names]
        self.name = name or self.names[0]
        self._read_tensors(returns, given)
        self._read_values(values)
        self.is_backward = False  # of another kernel
        self.plans = None
        self._made_deterministic = False  # whether plans were made under torch.use_deterministic_algorithms()
        self.operator = None
        self._variants = {}
        self._one_form = set()  # targets and compile-time parameters for which there can be no forms

    def _read_tensors(self, returns, given):
        """What is an argument, and what is made."""
        self.tensors = {}
        for signature in self.signatures:
            for t in signature.tensors:
                self.tensors.setdefault(t.name, t)
        self.inputs = [t.name for t in self.tensors.values() if t.mode == "in" or t.name in given]
        made = [t.name for t in self.tensors.values() if t.mode != "in"]
        self.returns = list(returns if returns is not None else made)
        for name in self.returns:
            if name not in self.tensors or self.tensors[name].mode == "in":
                raise Error(f"{self.name}: {name} is no output")
        self.given = [name for name in self.inputs if self.tensors[name].mode != "in"]

    def _read_values(self, chosen):
        """What a call has to say beside tensors, in order, with its type."""
        bound, self.values = {}, {}
        extents, needed = set(), set()
        for name in self.inputs:
            t = self.tensors[name]
            bound.setdefault(t.dtype, (name, None))
            for d, dim in enumerate(t.dims):
                bound.setdefault(dim, (name, d))
                extents.add(dim)
        for signature in self.signatures:
            self.values.update(signature.scalars)
        constants = {c.name: c for signature in self.signatures for c in signature.constants}
        for t in self.tensors.values():
            for dim in t.dims:
                needed |= names_in(dim)
                known = dict.fromkeys([*extents, *constants, *self.values], 1)
                found = turn(dim, None, known) if t.name in self.inputs else None
                extents.update(found[:1] if found else ())
        for name in sorted(needed - extents - set(constants)):
            self.values[name] = "i32"
        self.bound = {name: bound[name] for name in constants if name in bound and name not in self.defines}
        for name, c in constants.items():
            if name not in self.bound and name not in self.defines and c.kind != "type":
                self.values[name] = c.kind
        self.constants = constants
        if chosen is not None:
            self.values = {name: self.values[name] for name in chosen if name in self.values}

    @functools.cached_property
    def backward(self):
        return _made(self._backwards[0])

    @functools.cached_property
    def backward_of_all(self):
        return _made(self._backwards[1])

    # ---- a call ----

    def __deepcopy__(self, memo):
        return self  # it is what it was made from

    def _parts(self, names=("name", "returns", "defines", "order", "types", "given")):
        """What it was made from beside its source and names, but for its backwards."""
        return {**{name: getattr(self, name) for name in names}, "values": tuple(self.values), "choose": self._choose,
                "settle": self._settle, **self.options}

    @functools.cached_property
    def token(self):
        """Of what it was made from: the same in each process."""
        parts = {**self._parts(), "instead": self._instead}
        texts = [f"{name} {sorted(part.items()) if isinstance(part, dict) else part}" for name, part in sorted(parts.items())
                 if not callable(part)]
        functions = [pickle.dumps(part, 4) for _, part in sorted(parts.items()) if callable(part)]
        return digest(self.source.path, self.source.text, *self.source.modules, "", *self.names, "", *texts, *functions,
                      *[kernel.token if kernel else "" for kernel in (self.backward, self.backward_of_all)])

    def __reduce__(self):
        """Pickled it is what it was made from; in a process that has such a kernel it becomes that one."""
        if not self.given:
            self.registered()
        return _again, (self.token, self.source, self.names, {**self._parts(), "instead": self._instead, "backward": self.backward,
                                                              "backward_of_all": self.backward_of_all})

    def __call__(self, *unnamed, **arguments):
        if unnamed:
            raise Error(f"{self.name} takes tensors and values by name: {self.name}("
                        f"{', '.join(name + '=..' for name in [*self.inputs, *self.values])})")
        given = [name for name, value in arguments.items()
                 if name in self.tensors and name not in self.inputs and value is not None]
        if given:
            return self._with(given)(**self._without_shown(given, arguments))
        if not self.inputs:
            raise Error(f"{self.name} has no input, which would say where it runs: give it an output ({', '.join(self.returns)})")
        for name in arguments:
            if name not in self.tensors and name not in self.values:
                raise Error(f"{self.name} has no parameter '{name}', but {', '.join([*self.inputs, *self.values])}")
        for name in self.inputs:
            if name not in arguments:
                raise Error(f"{self.name}: no tensor for '{name}'")
        return self.call([arguments[name] for name in self.inputs], [arguments.get(name) for name in self.values])

    def call(self, tensors, values):
        """`tensors` in the order of `inputs`, `values` in that of `values`; None: as the program says."""
        values = [numbers.plain(self.name, *pair) for pair in zip(self.values, values)]
        if torch.compiler.is_compiling() or not is_eager():
            return self.by_operator(*tensors, *values)
        self.check_tensors(tensors)
        if any(t.is_neg() for t in tensors):
            tensors = self._resolved(tensors)
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            if self.backward is not None:
                return gradient.apply(self, tensors, values)
            return self.by_operator(*tensors, *values)  # which refuses when it is differentiated
        return self.run(*tensors, *values)

    def run(self, *arguments):
        """Launches: tensors and values in order; no gradients."""
        plans = self.plans or self._open(arguments)
        if is_deterministic() is not self._made_deterministic:
            self._forget()
        out = plans.run(*arguments)
        if out is NotImplemented:  # a subclass of Tensor: what it does at operators counts
            return self._other(arguments)
        if self.given:
            self._written(arguments)
        return out

    def record(self, *arguments):
        """Launches: what `run` gives, and the plan; None in place of it where the call went through the operator."""
        plans = self.plans or self._open(arguments)
        if is_deterministic() is not self._made_deterministic:
            self._forget()
        both = plans.record(*arguments)
        if both is NotImplemented:
            return self._other(arguments), None
        return both

    def _open(self, arguments):
        try:
            self.plans = launcher().Plans(len(self.inputs), self._miss)
        except Error:  # no driver: what is wrong with the call is said first
            tensors, _ = self._checked(arguments)
            refuse_devices(self.name, tensors)
            raise
        return self.plans

    def _refuse_shapes(self, tensors):
        """Types and extents, by the head of the kernel alone."""
        found = {}
        for name, tensor in tensors.items():
            t, have = self.tensors[name], described(name, tensor, self.order.get(name))
            if t.dtype in self.constants:
                self._refuse_type(t.dtype, have)
            elif t.dtype not in PACKED and DTYPES[have.dtype] != DTYPES.get(t.dtype, DTYPES[have.dtype]):
                raise Error(f"{self.name}: {name} must be {t.dtype}, not {have.dtype}")
            if len(have.shape) != len(t.dims):
                raise Error(f"{self.name}: {name} must have {len(t.dims)} dimensions [{', '.join(t.dims)}], not {len(have.shape)}")
            for d, (dim, extent) in enumerate(zip(t.dims, have.shape)):
                if dim.isidentifier() and found.setdefault(dim, (extent, d, name))[0] != extent:
                    first, at, other = found[dim]
                    raise Error(f"{self.name}: dimension {d} of {name} is {extent}, but {dim} is {first} (dimension {at} of {other})")

    def _refuse_type(self, parameter, have):
        """Where a type parameter is not any type."""
        if have.dtype not in self.types.get(parameter, (have.dtype,)):
            raise Error(f"{self.name}: {have.name} is {have.dtype}, and the kernel takes {' and '.join(self.types[parameter])}: cast it, "
                        "or use torch.autocast")

    def _forget(self):
        """Plans that were made under the other torch.use_deterministic_algorithms()."""
        self.plans.forget()
        self._made_deterministic = is_deterministic()

    def _written(self, arguments):
        """Given outputs have other values now, of which autograd has to know that saved them."""
        written = [t for name, t in zip(self.inputs, arguments) if name in self.given and not t.is_inference()]
        if torch.compiler.is_compiling():  # a call in a part that is not traced: a graph has no versions, and writes of its own
            for tensor in written:
                tensor.detach()[:0].zero_()
        else:
            torch.autograd.graph.increment_version(written)

    def _resolved(self, tensors):
        """Tensors whose memory has what they have: PyTorch keeps some with their signs to be changed later."""
        for name, tensor in zip(self.inputs, tensors):
            if name in self.given and tensor.is_neg():
                raise Error(f"{self.name}: {name} is a negated view, which kernels do not write: give {name}.resolve_neg()")
        return [t.resolve_neg() for t in tensors]

    def check_tensors(self, arguments):
        for name, tensor in zip(self.inputs, arguments):
            if not isinstance(tensor, torch.Tensor):
                raise Error(f"{self.name}: {name} must be a tensor, not {type(tensor).__name__}")
            if torch.nn.parameter.is_lazy(tensor):
                raise Error(f"{self.name}: {name} has no shape so far ({type(tensor).__name__}): its module has to be called once, "
                            "or initialized")
            if getattr(tensor, "is_nested", False):
                raise Error(f"{self.name}: {name} is a nested tensor, which kernels do not take; attention_varlen() takes "
                            "sequences of any lengths, one behind the other")

    def check_values(self, values):
        """The values by name, as parameters take them."""
        made = {}
        for (name, kind), value in zip(self.values.items(), values):
            value = numbers.plain(self.name, name, value)
            if value is not None:
                numbers.check(self.name, name, kind, value)
            made[name] = numbers.as_kind(kind, value)
        return made

    def _checked(self, arguments):
        """Tensors and values of a call by name, after what needs no GPU to be refused."""
        n = len(self.inputs)
        self.check_tensors(arguments)
        tensors = dict(zip(self.inputs, arguments))
        self._refuse_shapes(tensors)
        values = {**dict.fromkeys(self.values), **self.check_values(arguments[n:])}
        return tensors, values if self._settle is None else self._settle(tensors, values)

    def _miss(self, *arguments):
        """The plan of a call that has none."""
        tensors, values = self._checked(arguments)
        for name, tensor in tensors.items():  # of another device or layout, which is said where a plan is made, it is not asked
            if tensor.device.type == DEVICE_TYPE and tensor.layout == torch.strided and not tensor.data_ptr() and all(tensor.shape):
                raise Error(f"{self.name}: {name} has no memory: its storage was freed, or it stands for zeros, of which clone() is a tensor")
        other = self._instead(tensors, values) if self._instead is not None and not interpret.BY_PROGRAM else None
        return make_plan(*other) if other else make_plan(self, tensors, values)

    def _other(self, arguments):
        n = len(self.inputs)
        self.check_tensors(arguments)
        if self.given:
            return self.run(*map(operators.as_tensor, arguments[:n]), *arguments[n:])
        return self.by_operator(*arguments)

    def by_operator(self, *arguments):
        """A call by way of PyTorch's dispatcher."""
        try:
            return (self.operator or self.registered())(*arguments)
        except TypeError as error:
            for name, tensor in zip(self.inputs, arguments):
                if "NotImplemented" in str(error) and type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                    raise Error(f"{self.name}: {name} is a {type(tensor).__name__}, which says that it knows no operator "
                                f"{self.operator}: give a plain tensor") from error
            raise

    def _without_shown(self, given, arguments):
        """The arguments but for sizes that outputs which are given show."""
        left = dict(arguments)
        for size in set(self.values) - set(self._with(given).values):
            asked = left.pop(size, None)
            for name in given if asked is not None else ():
                dims, order = self.tensors[name].dims, self.order.get(name)
                for d, extent in enumerate(arguments[name].shape if size in dims else ()):
                    if dims[order.index(d) if order else d] == size and extent != asked:
                        raise Error(f"{self.name}: {size} is {asked}, but dimension {d} of {name} is {extent}")
        return left

    @outside("a kernel whose outputs are given writes to them, of which no graph of tilec's operators knows: let it make them")
    def _with(self, given):
        """This kernel with some of its outputs as arguments."""
        key = tuple(sorted([*given, *self.given]))
        if key not in self._variants:
            self._variants[key] = Kernel(self.source, self.names, **{**self._parts(), "given": key})
        return self._variants[key]

    def registered(self):
        """The operator of PyTorch's."""
        if self.operator is None:
            if self.given:
                raise Error(f"{self.name}: with given outputs ({', '.join(self.given)}) it is only called directly, "
                            "without gradients and not under torch.compile or a mode that watches operators")
            self.operator = operators.register(self)
        return self.operator

    # ---- what a plan needs ----

    def code(self, gpu, tensors, values):
        """The compiled program for described tensors and the values of a call."""
        defines = {name: value for name, value in self.defines.items()}
        for name, (tensor, dim) in self.bound.items():
            have = tensors[tensor]
            if dim is None:
                defines[name] = have.dtype
                self._refuse_type(name, have)
            elif dim < len(have.shape):
                defines[name] = have.shape[dim]
        for name, value in values.items():
            if name in self.constants and value is not None:
                defines[name] = value
        for name, constant in self.constants.items():
            if name not in defines and constant.default is None and constant.kind != "type":
                raise Error(f"{self.name}: no value for '{name}', a compile-time parameter: give it in the call, or in `defines`")
        return self._compiled(gpu.arch, tuple(sorted((k, _text(v)) for k, v in defines.items())))

    def _compiled(self, arch, defines):
        if interpret.WITHOUT:  # `print` and `assert` are for the interpreter
            return self._one_form_of(arch, defines, {"ignore_debug": True, "line_info": True, **self.options, "variants": None})
        if not {"plan", "variants"} & set(self.options) and (arch, defines) not in self._one_form:
            try:
                return compiled(self.source, arch, defines, (*sorted(self.options.items()), ("variants", "auto")))
            except tilec.Error:  # as where a file has no room for what it says of all forms; else it is met again
                self._one_form.add((arch, defines))
        return self._one_form_of(arch, defines, self.options)

    def _one_form_of(self, arch, defines, options):
        try:
            return compiled(self.source, arch, defines, tuple(sorted(options.items())))
        except tilec.Error as error:
            raise Error(f"{self.name} cannot be compiled for these tensors: {error}") from None

    def chosen(self, code, gpu, tensors, values):
        """The kernels to run, and all values."""
        if self._choose is None:
            return self.names, values
        return self._choose(self, code, gpu, tensors, values)


def _made(kernel):
    return kernel if kernel is None or isinstance(kernel, Kernel) else kernel()


def _again(token, source, names, parts):
    """The kernel of a pickle."""
    for kernel in operators.taken():
        with contextlib.suppress(AttributeError, TypeError, pickle.PicklingError):  # of one that cannot be pickled
            if kernel.token == token:
                return kernel
    kernel = Kernel(source, names, **parts)
    if not kernel.given:
        kernel.registered()
    return kernel


def _sizes(given):
    try:
        return tuple(sorted(dict(given).items()))
    except (TypeError, ValueError):
        raise Error(f"`sizes` of kernel() are numbers by name, as {{'S': 4096}}, not {given!r}") from None


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def kernel(source, kernels=None, *, name=None, returns=None, backward=None, defines=None, modules=(), **options):
    """The kernels of a program as a function on tensors.

    source    a path of a .tile file, or its text
    kernels   a name or names, in the order to run; None: all of the file
    returns   the outputs that a call gives, in order; None: all.  Others pass from kernel to kernel
    backward  a Kernel, or a path, for gradients: it takes what it needs of the inputs and outputs by their
              names, `dO` for the gradient of an output O, and returns `dX` for that of an input X
    defines   compile-time parameters; types and extents that tensors show need none
    modules   folders of modules that the program uses
    options   as of tilec.compile: sizes, plan, switches, level, variants ("auto" unless there is a plan: each call takes
              the form of the kernel that is for its sizes)

    The result is called with tensors and values by name: scale(X=x, a=2.0) gives a tensor, or a tuple where
    there are several outputs.  An output that is given is written to; one that kernels add to starts as it
    is given, or else from zero.
    """
    for option in options:
        if option not in OPTIONS:
            raise Error(f"kernel() has no option '{option}', but {', '.join(OPTIONS)}")
    if "sizes" in options:
        options["sizes"] = _sizes(options["sizes"])
    if "switches" in options:
        switches = options["switches"]
        options["switches"] = (switches,) if isinstance(switches, str) else tuple(switches)
    if isinstance(backward, (str, os.PathLike)):
        backward = Kernel(backward, modules=modules, **options)
    made = Kernel(source, kernels, name=name, returns=returns, backward=backward, defines=defines, modules=modules,
                  **options)
    made.registered()  # now, since torch.compile traces calls and not this
    return made
