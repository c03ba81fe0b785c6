"""interpret.py - kernels on CPU tensors, without a GPU: TILEC_INTERPRET=1, in the reference interpreter (docs/interpreter.md);
TILEC_INTERPRET=sim, the compiled code in the simulator, whose findings are errors (docs/simulator.md).

This stands where the extension tilec._launch does else: a plan is made as for a GPU, with all its checks, and its
steps are kernels with their tensors in place of launches.
"""
import builtins
import collections
import ctypes
import itertools
import os
import shutil
import subprocess
import tempfile
import warnings

import torch

from tilec import _library
from tilec._interpret import KINDS
from tilec.torch.error import Error

MODE = os.environ.get("TILEC_INTERPRET", "")
if MODE not in ("", "0", "1", "sim"):
    raise Error(f"TILEC_INTERPRET is {MODE}: expected 1 (the reference interpreter) or sim (the simulator)")
BY_PROGRAM, IN_SIMULATOR = MODE == "1", MODE == "sim"
WITHOUT = BY_PROGRAM or IN_SIMULATOR  # a GPU
PLANS = 256  # that a kernel remembers
STATUS_FINDINGS = 3  # of tilerun

# CUdevice_attribute: capability, multiprocessors, shared memory.  For the interpreter one multiprocessor, so that nothing is
# shared out; its code is compiled for what is said of it, and runs nowhere.
_FACTS = {75: 9, 76: 0, 16: 3, 81: 228 << 10} if IN_SIMULATOR else {75: 8, 76: 0, 16: 1, 81: 164 << 10}
_serials = itertools.count(1)


def tilerun():
    """The path of tilerun: $TILEC_TILERUN, in the package, where tilec is installed or was built."""
    package, library = os.path.dirname(os.path.dirname(os.path.abspath(__file__))), _library.path()
    beside = os.path.dirname(os.path.abspath(library)) if library else package
    given = os.environ.get("TILEC_TILERUN")
    for path in [given] if given else [os.path.join(package, "bin", "tilerun"), os.path.join(beside, "..", "bin", "tilerun"),
                                       os.path.join(beside, "backends", "cuda", "tilerun"), shutil.which("tilerun")]:
        if path and os.path.isfile(path):
            return path
    raise Error("TILEC_INTERPRET=sim: tilerun, which has the simulator, is not found; TILEC_TILERUN is its path")


def _view(tensor, have):
    """The memory of a tensor as the kernel sees it (a plan.Described), of plain words."""
    import numpy as np
    bytes_ = KINDS[have.dtype][2]
    if 0 in have.shape:
        return np.empty(have.shape, f"u{bytes_}")
    memory = (ctypes.c_char * have.bytes).from_address(tensor.data_ptr())
    return np.ndarray(have.shape, f"u{bytes_}", memory, strides=[s * bytes_ for s in have.stride])


class Step:
    """One kernel of a call, in the interpreter."""

    def __init__(self, kernel, meta, tensors, env):
        self.source, self.name, self.defines = kernel.source, meta["name"], meta["constants"]
        self.tensors = [(t, tensors[t["name"]]) for t in meta["tensors"]]
        names = [*meta["sizes"], *(s["name"] for s in meta["scalars"])]
        self.sets = {name: _value(env[name], kernel.values.get(name)) for name in names}
        extents = {f"{t['name']}_dim{d}" for t in meta["tensors"] for d in range(len(t["shape"]))}  # that the program has no name for
        self.named = {name: value for name, value in self.sets.items() if name not in extents}

    def run(self, memory, there):
        """`there`: which of the tensors have been given or written before."""
        import numpy as np
        views = {t["name"]: _view(memory[have.index], have) for t, have in self.tensors}
        read = {t["name"]: np.ascontiguousarray(views[t["name"]]) for t, have in self.tensors
                if t["mode"] != "out" or have.index in there}
        kinds = {t["name"]: KINDS[have.dtype] for t, have in self.tensors}

        def take(name, array):
            views[name][...] = array.view(views[name].dtype).reshape(views[name].shape)

        try:
            said = self.compute({name: array.view(kinds[name][0]) for name, array in read.items()},
                                [t["name"] for t, _ in self.tensors if t["mode"] != "in"], kinds, take)
        except _library.Error as error:
            raise Error(f"{self.name}: {error}") from None
        if said:
            warnings.warn(f"{self.name}: {said.strip()}", stacklevel=2)
        there.update(have.index for _, have in self.tensors)

    def compute(self, arrays, outputs, kinds, take):
        import numpy as np

        def taken(name, kind, bytes_, shape, address):
            size = bytes_ * int(np.prod(shape, dtype=np.int64))
            if size:
                take(name, np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8))

        rows = [(name, *kinds[name][1:], array.shape, array.ctypes.data) for name, array in arrays.items()]
        options = _library.default_options()
        options.defines, options.n_defines = _library.settings(self.defines)
        options.kernel = self.name.encode()
        options.unused = options.dimension = options.broadcast = _library.IGNORE
        options.import_, importer = _library.importer(self.source.modules)
        said = _library.interpret(options, self.source.path, self.source.text, rows, self.named, outputs, taken, show=_show,
                                 keeps=True)
        del importer  # which has to live so long
        return said


class SimulatedStep(Step):
    """One kernel of a call, as it is compiled, in the simulator."""

    def __init__(self, kernel, code, meta, tensors, env):
        super().__init__(kernel, meta, tensors, env)
        self.code, self.entry = code, meta["entry"]

    def compute(self, arrays, outputs, kinds, take):
        import numpy as np
        with tempfile.TemporaryDirectory() as folder:
            def place(name):
                return os.path.join(folder, name + ".npy")
            ptx = os.path.join(folder, self.name + ".ptx")
            with builtins.open(ptx, "w") as file:
                file.write(self.code.ptx)
            command = [tilerun(), ptx, "--device", "sim", "--quiet", "--entry", self.entry]
            for name, array in arrays.items():
                np.save(place(name), array)
                command += ["--in", f"{name}={place(name)}"]
            for name, value in self.sets.items():
                command += ["--set", f"{name}={value}"]
            for name in outputs:
                command += ["--out", f"{name}={place(name)}"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == STATUS_FINDINGS:
                raise Error(f"{self.name}: the simulator has found what a GPU would not:\n{done.stdout}{done.stderr}".strip())
            if done.returncode != 0:
                raise Error(f"{self.name}: {done.stderr or done.stdout}".strip())
            for name in outputs:
                take(name, np.load(place(name)))
        return ""


def step(kernel, code, meta, tensors, env):
    """What a plan has in place of a launch."""
    return SimulatedStep(kernel, code, meta, tensors, env) if IN_SIMULATOR else Step(kernel, meta, tensors, env)


def _value(value, kind):
    return bool(value) if kind == "bool" else repr(value) if isinstance(value, float) else value


def _show(text):
    print(text, end="")


# ---- what the extension has ----


class Device:
    def __init__(self, number, zeros):
        self.number = number

    def attribute(self, which):
        if which not in _FACTS:
            raise Error("the interpreter knows no such attribute")
        return _FACTS[which]


class Plan:
    """See python/launch/plan.c."""

    def __init__(self, device, masks, made, pieces, returns, single, steps):
        self.made, self.returns, self.single, self.steps = made, returns, single, steps
        every = [have.index for step in steps if isinstance(step, Step) for t, have in step.tensors if t["mode"] != "in"]
        self.between = set(every) - set(returns)  # kernels, if it was not given: what one leaves out no user sees, but as NaN where it is used
        self.shared = {index for index in every if every.count(index) > 1}  # which several kernels write parts of
        self.serial = next(_serials)

    def run(self, inputs):
        memory = [*inputs, *(make(*arguments, **how) for make, arguments, how in self.made)]
        between = {index for index in self.between if index >= len(inputs)}
        for index in between:
            ctypes.memset(memory[index].data_ptr(), 0xFF, memory[index].numel() * memory[index].element_size())
        there = {*range(len(inputs)), *self.shared, *between}
        for step in self.steps:
            if isinstance(step, Step):
                step.run(memory, there)
            else:
                ctypes.memset(memory[step[0]].data_ptr(), 0, step[1])
        out = tuple(memory[index] for index in self.returns)
        return out[0] if self.single else out


class Plans:
    """The plans of a kernel, by all that decides them."""
    types = ()

    def __init__(self, n_inputs, miss):
        self.n_inputs, self.miss, self.plans = n_inputs, miss, collections.OrderedDict()

    @property
    def count(self):
        return len(self.plans)

    def forget(self):
        self.plans.clear()

    def _plan(self, arguments):
        tensors, values = arguments[:self.n_inputs], arguments[self.n_inputs:]
        if any(type(t) not in self.types for t in tensors if isinstance(t, self.types[0])):
            return None
        if not all(isinstance(t, self.types[0]) and t.layout == torch.strided for t in tensors):
            return self.miss(*arguments)  # which refuses it
        key = (*((t.dtype, tuple(t.shape), tuple(t.stride()), t.data_ptr() and t.data_ptr() % 256 + 1, str(t.device)) for t in tensors),
               *((type(value), value) for value in values))
        if key not in self.plans:
            self.plans[key] = self.miss(*arguments)
            while len(self.plans) > PLANS:
                self.plans.popitem(last=False)
        return self.plans[key]

    def run(self, *arguments):
        plan = self._plan(arguments)
        return NotImplemented if plan is None else plan.run(arguments[:self.n_inputs])

    def record(self, *arguments):
        plan = self._plan(arguments)
        return NotImplemented if plan is None else (plan.run(arguments[:self.n_inputs]), plan)


def open(error, types, exchange, stream):
    Plans.types = types


def relax():
    pass
