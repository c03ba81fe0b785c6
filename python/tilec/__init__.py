"""tilec - compile kernels of the tile language to PTX, in this process.

    import tilec
    attention = tilec.compile_file("attention.tile", arch="sm_90", defines={"D": 64, "CAUSAL": True})
    attention.ptx            # what cuModuleLoadData takes
    attention.messages       # warnings

    y = tilec.run(text, {"X": x, "a": 2.0})["Y"]     # on NumPy's arrays, in the reference interpreter

The compiler is the C library libtilec; nothing of CUDA is needed.  `tilec.torch` launches what was
compiled on PyTorch tensors; in a notebook, `%load_ext tilec` and `%%tilec` (docs/editors.md).
"""
import ctypes
import os

from tilec import _library
from tilec._library import Error
from tilec._interpret import Results, run, run_file

__all__ = ["Compiled", "Error", "Results", "compile", "compile_file", "run", "run_file"]


class Compiled:
    """What a compilation gave: `ptx`, `messages` (warnings and remarks, \"\" when there are none), and `page`, HTML where that
    was asked for."""

    def __init__(self, ptx, messages, page=""):
        self.ptx, self.messages, self.page = ptx, messages, page


EMIT = {"ptx": 0, "header": 1, "json": 2, "ast": 3, "tir": 4, "lir": 5}


def compile(text, arch="sm_80", *, path="kernel.tile", defines=None, sizes=None, kernel=None, level=3,
            switches=(), plan=None, variants=None, modules=(), emit="ptx", page=False, ignore_debug=False,
            line_info=False):
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
    ignore_debug  leave out `print` and `assert`, which are for `run`
    line_info  lines of the source in the code, for profilers and the simulator
    page      also the page of --emit=html, but for machine code
    """
    options = _library.default_options()
    options.arch, options.level, options.emit = arch.encode(), level, EMIT[emit]
    options.defines, options.n_defines = _library.settings(defines or {})  # ctypes keeps what it points to
    options.sizes, options.n_sizes = _library.settings(sizes or {})
    options.kernel = kernel.encode() if kernel else None
    options.plan = plan.encode() if plan else None
    options.variants = variants.encode() if variants else None
    names = (ctypes.c_char_p * max(len(switches), 1))(*[s.encode() for s in switches])
    options.switches, options.n_switches = names, len(switches)
    options.import_, importer = _library.importer(modules)
    options.page, options.ignore_debug, options.line_info = page, ignore_debug, line_info
    compiled = Compiled(*_library.run(options, path, text))
    del importer  # which has to live so long
    return compiled


def load_ipython_extension(shell):
    """`%load_ext tilec`: the cell magic %%tilec."""
    from tilec import _notebook
    _notebook.register(shell)


def compile_file(path, arch="sm_80", *, modules=(), **options):
    """`compile` of a file; the modules of `use` are looked for beside it, too."""
    with open(path) as file:
        text = file.read()
    folders = [os.path.dirname(os.path.abspath(path)), *modules]
    return compile(text, arch, path=os.fspath(path), modules=folders, **options)
