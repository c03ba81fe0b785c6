"""_interpret.py - kernels in the reference interpreter, on NumPy's arrays (docs/interpreter.md)."""
import os
import re
import sys

from tilec import _library
from tilec._library import Error
from tilec._signature import signatures

# what elements are in NumPy, and to the interpreter; of the second, numbers that NumPy has no type for are their bits
KINDS = {"f32": ("float32", "f", 4), "f16": ("float16", "f", 2), "bf16": ("uint16", "u", 2), "i32": ("int32", "i", 4),
         "u32": ("uint32", "u", 4), "i8": ("int8", "i", 1), "u8": ("uint8", "u", 1), "bool": ("bool", "b", 1),
         **dict.fromkeys(("e4m3", "e5m2", "e8m0", "i4", "u4", "e2m1"), ("uint8", "u", 1))}
# types of the package ml_dtypes
OTHERS = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float8_e8m0fnu": "e8m0"}


class Results(dict):
    """The outputs of a run by name; `messages`: its warnings."""
    messages = ""


def _numpy():
    try:
        import numpy
    except ImportError as error:
        raise ImportError("tilec.run needs NumPy: pip install numpy") from error
    return numpy


def _element(np, array):
    """The element type that an array has; None: kernels take none such."""
    name = array.dtype.name
    return OTHERS.get(name) or next((element for element, row in KINDS.items() if row[0] == name), None)


def _rounded(np, array):
    """The bits of bf16, of float32."""
    bits = array.view(np.uint32).astype(np.uint64)
    even = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(array), bits >> 16 | 0x40, even).astype(np.uint16)


def _taken(np, name, array, dtype):
    """An array as the interpreter reads it."""
    have = _element(np, array)
    if dtype == "bf16" and have == "f32":
        return _rounded(np, array)
    want = KINDS[dtype][0]
    if have == dtype:
        return array.view(want)
    if array.dtype.name != want:
        what = f"numpy.{want}, the bits" if dtype not in ("f32", "f16", "i32", "u32", "i8", "u8", "bool") else f"numpy.{want}"
        also = "; numpy.float32 is rounded" if dtype == "bf16" else ""
        raise Error(f"{name} is {array.dtype.name}, and the kernel takes {dtype} ({what}{also}): give {name}.astype(numpy."
                    f"{'float32' if dtype == 'bf16' else want})", 1)
    return array


def _types_and_extents(np, every, given, defines):
    """The compile-time parameters that arrays show, beside those that are given."""
    defines = dict(defines)
    for signature in every:
        kinds = {c.name: c.kind for c in signature.constants}
        for t in signature.tensors:
            if t.name not in given:
                continue
            array = given[t.name]
            if kinds.get(t.dtype) == "type" and t.dtype not in defines and _element(np, array):
                defines[t.dtype] = _element(np, array)
            for dim, extent in zip(t.dims, array.shape):
                if kinds.get(dim) == "int":
                    defines.setdefault(dim, extent)
    return defines


def chosen(every, kernel):
    """The kernels of a program that run: all, or the one of a name."""
    if kernel is not None and kernel not in [s.name for s in every]:
        raise Error(f"there is no kernel '{kernel}', but {', '.join(s.name for s in every)}", 1)
    return [s for s in every if kernel in (None, s.name)]


def _dtype(signature, t, defines):
    constant = signature.constant(t.dtype)
    return defines.get(t.dtype, constant.default) if constant is not None else t.dtype


def _arguments(np, every, arguments):
    """Arrays and values of a call, by name."""
    tensors = {t.name: t for signature in every for t in signature.tensors}
    arrays, values = {}, {}
    scalars = list(dict.fromkeys(name for s in every for name in s.scalars))
    sizes = {name for t in tensors.values() for dim in t.dims for name in re.findall(r"[A-Za-z_]\w*", dim)}
    for name, value in arguments.items():
        if name not in tensors and name not in scalars and name not in sizes:
            raise Error(f"nothing of the program is called '{name}': it has {', '.join([*tensors, *scalars])}", 1)
        if name not in tensors:
            values[name] = value.item() if hasattr(value, "item") else value
            continue
        if tensors[name].mode == "out" and not any(t.mode != "out" for s in every for t in s.tensors if t.name == name):
            raise Error(f"{name} is an output: a run makes it", 1)
        try:
            arrays[name] = np.ascontiguousarray(value)
        except (TypeError, RuntimeError, ValueError) as error:
            raise Error(f"{name} becomes no array of NumPy's: {error}.  PyTorch's tensors are what tilec.torch.kernel() takes, "
                        "those of the CPU with TILEC_INTERPRET=1", 1) from None
        if arrays[name].ndim != np.ndim(value):
            arrays[name] = arrays[name].reshape(np.shape(value))
    for name in tensors:
        reads_first = next(t for s in every for t in s.tensors if t.name == name).mode == "in"
        if reads_first and name not in arrays:
            raise Error(f"no array for '{name}', which the kernel reads", 1)
    for name in scalars:
        if name not in values:
            raise Error(f"no value for '{name}': give it with the arrays, {{\"{name}\": 1.0}}", 1)
    return arrays, values


def run(text, arguments, *, defines=None, kernel=None, outputs=None, path="kernel.tile", modules=(), seed=0, nan="note",
        show=sys.stdout.write, sums=None):
    """Runs the kernels of `text`, one after the other, in the reference interpreter; the outputs by name.  tilec.Error, with the
    words of `tilec run`, when the program or an argument is wrong.

        tilec.run(text, {"X": x, "a": 2.0})["Y"]

    arguments  arrays of tensors, scalars, and sizes that no array has, by name.  An array of float32 is rounded for a tensor of
               bf16, whose results are float32, too; of other types that NumPy has none for, arrays are the bits
    defines    compile-time parameters; types and extents that arrays show need none
    kernel     run this one only
    outputs    names of the tensors that are wanted; None: all that are written
    modules    folders to look for the modules of `use` in
    seed       draws the order of the programs; 0: that of the grid
    nan        "note", "ignore" or "error": what an operation is that makes a NaN of operands that are none
    show       what is called with the text that `print` makes; None: nothing
    sums       "sm_90": products summed as this chip's tensor cores do, to the bit
    """
    import tilec
    np = _numpy()
    if nan not in _library.NAN:
        raise Error(f"nan is note, ignore or error, not {nan}", 1)
    every = signatures(tilec.compile(text, path=path, modules=modules, emit="ast").ptx)
    every = chosen(every, kernel)
    arrays, values = _arguments(np, every, arguments)
    defines = _types_and_extents(np, every, arrays, defines or {})
    dtypes = {t.name: _dtype(s, t, defines) for s in every for t in s.tensors}
    inputs = []
    for name, array in arrays.items():
        arrays[name] = array = _taken(np, name, array, dtypes[name])  # kept until the end
        inputs.append((name, array.dtype.kind, array.dtype.itemsize, array.shape, array.ctypes.data))
    if outputs is None:
        outputs = list(dict.fromkeys(t.name for s in every for t in s.tensors if t.mode != "in"))
    results = Results()

    def take(name, kind, bytes_, shape, address):
        array = np.empty(shape, np.dtype(f"{kind}{bytes_}" if kind != "b" else "bool"))
        _library.copy(array.ctypes.data, address, array.nbytes)
        if dtypes.get(name) == "bf16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        results[name] = array

    options = _library.default_options()
    options.defines, options.n_defines = _library.settings(defines)
    options.kernel = kernel.encode() if kernel else None
    options.import_, importer = _library.importer(modules)
    results.messages = _library.interpret(options, path, text, inputs, values, outputs, take, seed=seed, nan=nan, show=show,
                                          sums=sums)
    del importer  # which has to live so long
    return results


def run_file(path, arguments, *, modules=(), **options):
    """`run` of a file; the modules of `use` are looked for beside it, too."""
    with open(path) as file:
        text = file.read()
    folders = [os.path.dirname(os.path.abspath(path)), *modules]
    return run(text, arguments, path=os.fspath(path), modules=folders, **options)
