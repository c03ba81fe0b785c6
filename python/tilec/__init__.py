"""tilec - compile kernels of the tile language to PTX, in this process.

    import tilec
    attention = tilec.compile_file("attention.tile", arch="sm_90", defines={"D": 64, "CAUSAL": True})
    attention.ptx            # what cuModuleLoadData takes
    attention.messages       # warnings

The compiler is the C library libtilec; nothing of CUDA is needed.  `tilec.torch` launches what was
compiled on PyTorch tensors.
"""
import ctypes
import os

from tilec import _library
from tilec._library import Error

__all__ = ["Compiled", "Error", "compile", "compile_file"]


class Compiled:
    """What a compilation gave: `ptx`, and `messages` (warnings and remarks, \"\" when there are none)."""

    def __init__(self, ptx, messages):
        self.ptx, self.messages = ptx, messages


def _value(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


EMIT = {"ptx": 0, "header": 1, "json": 2, "ast": 3, "tir": 4, "lir": 5}


def compile(text, arch="sm_80", *, path="kernel.tile", defines=None, sizes=None, kernel=None, level=3,
            switches=(), plan=None, variants=None, modules=(), emit="ptx"):
    """Compiles the kernels of `text`; tilec.Error, with the compiler's words, when the program is wrong.

    arch      "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103" or "sm_120"
    path      the name that messages show
    defines   compile-time parameters by name: {"D": 64, "CAUSAL": True, "T": "f16"}
    sizes     sizes that the tensors have most often, for what is `auto`
    kernel    compile this one only
    level     0 to 3, as -O
    switches  passes: "swizzle" or "no-swizzle"
    plan      as --plan=
    variants  "auto": kernels have several forms where that helps, each for other sizes (docs/metadata.md)
    modules   folders to look for the modules of `use` in
    emit      what `ptx` of the result is: "ptx", or as --emit= "header", "json", "ast", "tir" or "lir"
    """
    options = _library.default_options()
    keep = []  # what the C structures point to

    def pairs(values):
        rows = (_library.Define * max(len(values), 1))()
        for row, (name, value) in zip(rows, values.items()):
            row.name, row.value = name.encode(), _value(value).encode()
        keep.append(rows)
        return rows, len(values)

    options.arch, options.level, options.emit = arch.encode(), level, EMIT[emit]
    options.defines, options.n_defines = pairs(defines or {})
    options.sizes, options.n_sizes = pairs(sizes or {})
    options.kernel = kernel.encode() if kernel else None
    options.plan = plan.encode() if plan else None
    options.variants = variants.encode() if variants else None
    names = (ctypes.c_char_p * max(len(switches), 1))(*[s.encode() for s in switches])
    options.switches, options.n_switches = names, len(switches)
    options.import_, importer = _library.importer(modules)
    keep += [names, importer]
    ptx, messages = _library.run(options, path, text)
    return Compiled(ptx, messages)


def compile_file(path, arch="sm_80", *, modules=(), **options):
    """`compile` of a file; the modules of `use` are looked for beside it, too."""
    with open(path) as file:
        text = file.read()
    folders = [os.path.dirname(os.path.abspath(path)), *modules]
    return compile(text, arch, path=os.fspath(path), modules=folders, **options)
