"""code.py - kernels compiled in this process, kept in memory and on disk.

PTX comes from libtilec; machine code of it from ptxas where TILEC_PTXAS names one, else from the driver as it
loads PTX, which has a cache of its own.  (The driver's linker would give a cubin to keep, but a worse one: it
compiles units that may call one another, in which warps cannot give registers away, and spills.)
"""
import functools
import glob
import hashlib
import json
import os
import re
import subprocess
import tempfile
import threading

import tilec
from tilec import _library
from tilec.torch import disk
from tilec.torch.error import Error

ABI = 1  # of the metadata that is understood here
_lock = threading.RLock()


@functools.lru_cache(maxsize=None)
def _compiler():
    """What tells this libtilec from any other."""
    path = _library.path()
    if path is None:
        return tilec.__name__
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


_METADATA = re.compile(r"\btilec_metadata\s*\[\s*\d*\s*\]\s*=\s*\{([^}]*)\}")


def metadata(ptx):
    """What a PTX file says of itself (docs/metadata.md)."""
    match = _METADATA.search(ptx, max(ptx.find("tilec_metadata") - 1, 0))
    if not match:
        raise Error("no constant 'tilec_metadata' in the PTX")
    data = bytes(map(int, match.group(1).split(",")))
    meta = json.loads(data.split(b"\0", 1)[0])
    if meta.get("tilec") != ABI:
        raise Error(f"the metadata has version {meta.get('tilec')}, and {ABI} is understood")
    return meta


class Source:
    """A program in the tile language: a path, or its text."""

    def __init__(self, source, modules=()):
        self.modules = [os.fspath(folder) for folder in modules]
        if isinstance(source, str) and ("{" in source or "\n" in source):
            self.path, self.text = "kernel.tile", source
        else:
            self.path = os.fspath(source)
            with open(self.path) as file:
                self.text = file.read()
            self.modules.insert(0, os.path.dirname(os.path.abspath(self.path)))

    def __getstate__(self):
        """Without what is of this process's compiler and folders."""
        return {"path": self.path, "text": self.text, "modules": self.modules}

    @functools.cached_property
    def digest(self):
        """Of all that a compilation may read: the text, and the files beside it that `use` may name."""
        parts = [_compiler(), self.text]
        for folder in self.modules:
            for path in sorted(glob.glob(os.path.join(folder, "*.tile"))):
                with open(path, "rb") as file:
                    parts += [os.path.basename(path), file.read()]
        return disk.digest(*parts)

    def compile(self, arch, defines, **options):
        return tilec.compile(self.text, arch, path=self.path, defines=defines, modules=self.modules, **options)


ENTRY, END = "\n.visible .entry ", "\n}\n"


def alone(ptx, entry):
    """The PTX with one of its kernels: the others need not become machine code."""
    head, *kernels = ptx.split(ENTRY)
    return head + "".join(ENTRY + text if text.startswith(entry + "(") else "\n" + text.partition(END)[2] for text in kernels)


class Code:
    """One compilation: PTX and what it says of itself; on each GPU its functions."""

    def __init__(self, ptx):
        self.ptx = ptx
        self.kernels = {kernel["name"]: kernel for kernel in metadata(ptx)["kernels"]}
        self._functions = {}

    def function(self, gpu, meta):
        """The handle of a kernel, or of the variant of it that `meta` is, on a GPU."""
        with _lock:
            key = gpu.number, meta["entry"]
            if key not in self._functions:
                module = gpu.handle.load(machine_code(alone(self.ptx, meta["entry"]), gpu))
                self._functions[key] = gpu.handle.function(module, meta["entry"], meta["shared"])
            return self._functions[key]


def _by_ptxas(ptx, gpu, ptxas):
    target = re.search(r"^\.target\s+(\w+)", ptx, re.M).group(1)
    if not target.endswith(("a", "f")):
        target = "sm_%d%d" % gpu.capability
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = os.path.join(folder, "k.ptx"), os.path.join(folder, "k.cubin")
        with open(source, "w") as file:
            file.write(ptx)
        done = subprocess.run([ptxas, "-arch", target, source, "-o", cubin], capture_output=True, text=True)
        if done.returncode != 0:
            raise Error(f"{ptxas}: {done.stderr.strip() or done.stdout.strip()}")
        with open(cubin, "rb") as file:
            return file.read()


def machine_code(ptx, gpu):
    """What cuModuleLoadData takes: a cubin of ptxas, from the disk or made now, or else the PTX."""
    ptxas = os.environ.get("TILEC_PTXAS")
    if not ptxas:
        return ptx.encode()
    key = disk.digest("cubin", ptx, gpu.capability, ptxas)
    cubin = disk.get(key)
    if cubin is None:
        cubin = _by_ptxas(ptx, gpu, ptxas)
        disk.put(key, cubin)
    return cubin


_codes = {}


def compiled(source, arch, defines, options):
    """The Code of a source for `arch`; `defines` and `options` are tuples of pairs."""
    key = (source.digest, arch, defines, options)
    with _lock:
        if key not in _codes:
            name = disk.digest("ptx", source.digest, source.path, arch, defines, options)
            kept = disk.get(name)
            if kept is None:
                given = {key: dict(value) if key == "sizes" else value for key, value in options}
                kept = source.compile(arch, dict(defines), **given).ptx.encode()
                disk.put(name, kept)
            _codes[key] = Code(kept.decode())
        return _codes[key]
