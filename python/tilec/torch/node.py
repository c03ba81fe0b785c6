"""node.py - the gradient of a kernel as a node in C++ (node.cpp), where a compiler is there to build it.

It is built once for a version of PyTorch, in the background, into the cache's folder (disk.py); until it is there,
and where it cannot be had, gradients go through the torch.autograd.Function of gradient.py, with the same results.
$TILEC_TORCH_NODE: off, never; wait, the first gradient waits for it.  $CXX, else c++, is the compiler.
"""
import collections
import contextlib
import fcntl
import os
import shutil
import subprocess
import threading
import weakref

import torch

from tilec.torch import disk, interpret
from tilec.torch.gpu import launcher

RECORDS = 8192  # plans of forwards that are known; then what is oldest is forgotten, and made anew where it is met

_lock = threading.Lock()
_thread = None
_reason = "it was not asked for so far"
_records = weakref.WeakValueDictionary()  # by the serial of a forward's plan; the node keeps them
_order = collections.deque()  # of their serials
attach = None  # (serial, inputs, outputs): whether outputs depend on inputs now


def why_not():
    """Why there is no node in C++; None: there is."""
    return None if attach is not None else _reason


def _command(source, fresh, path):
    """Compiles to `fresh` and moves that to `path`, also when this process ends before; None: there is no compiler."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        return None
    base = os.path.dirname(torch.__file__)
    standard = "20" if tuple(map(int, torch.__version__.split(".")[:2])) > (2, 11) else "17"  # which its headers are in
    headers = [os.path.join(base, "include"), os.path.join(base, "include", "torch", "csrc", "api", "include")]
    # the mark at its end says that it is the cache's; who loads it does not read so far
    return ["sh", "-c", 'fresh=$1 path=$2 mark=$3; shift 3; "$@" && printf "%s\\n" "$mark" >>"$fresh" && mv -f "$fresh" "$path"',
            "sh", fresh, path, disk.MARK.decode().strip(),
            compiler, "-std=c++" + standard, "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            *[word for folder in headers for word in ("-isystem", folder)], source, "-o", fresh,
            "-L" + os.path.join(base, "lib"), "-lc10", "-ltorch_cpu"]


def _library():
    """The path of the library, built now if nobody did; or (None, the reason)."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node.cpp")
    with open(source) as file:
        key = disk.digest(file.read(), torch.__version__, torch.compiled_with_cxx11_abi())
    path = disk.place("node-" + key, ".so")
    if path is None:
        return None, "there is no folder to keep it in (TILEC_CACHE_DIR)"
    if os.path.exists(path):
        disk.touch(path)
        return path, None
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path + ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process builds, the others wait
        if not os.path.exists(path):
            file, fresh = disk.fresh()
            file.close()
            try:
                command = _command(source, fresh, path)
                if command is None:
                    return None, "there is no C++ compiler"
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != 0:
                    return None, done.stderr.strip()[:2000]
            finally:
                for own in (fresh, path + ".lock"):
                    with contextlib.suppress(OSError):
                        os.unlink(own)
    return path, None


def _open():
    global _reason, attach
    try:
        path, _reason = _library()
        if path is None:
            return
        torch.ops.load_library(path)
        library = torch.library.Library("tilec_node", "IMPL")
        library.impl("backward", _backward, "CompositeImplicitAutograd")
        _backward.library = library  # for as long as the process lives
        attach = torch.ops.tilec_node.attach.default
    except Exception as error:  # noqa: BLE001  (gradients go through Python)
        _reason = f"{type(error).__name__}: {error}"


def start():
    """Begins to build, or to open, the node where nobody did."""
    global _thread, _reason
    with _lock:
        if _thread is not None:
            return
        how = os.environ.get("TILEC_TORCH_NODE", "")
        _thread = threading.Thread(target=_open, daemon=True, name="tilec-node")
        if interpret.WITHOUT:
            _reason = "TILEC_INTERPRET is set"
            return
        if how == "off" or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            _reason = "TILEC_TORCH_NODE=off" if how == "off" else "it needs PyTorch 2.10 or later"
            return
        _reason = "it is being built"
        _thread.start()
    if how == "wait":
        wait()


def wait():
    """Waits until the node is there; the reason why it is not, else None."""
    start()
    if _thread.ident is not None:
        _thread.join()
    return why_not()


# ---- a call ----


class Record:
    """What the plan of a forward belongs to."""
    __slots__ = "kernel", "values", "__weakref__"

    def __init__(self, kernel, values):
        self.kernel, self.values = kernel, values


def record(kernel, values, plan, tensors, outputs):
    """Makes the outputs of a plan's launch depend on its tensors."""
    serial = plan.serial
    if attach(serial, tensors, outputs):
        return
    table, of_plan = kernel.links, Record(kernel, values)
    with _lock:
        of_plan = _records.setdefault(serial, of_plan)
        _order.append(serial)
        old = _order.popleft() if len(_order) > RECORDS else None
    if old is not None:
        torch.ops.tilec_node.forget(old)
    pairs = lambda these: [int(x) for pair in these for x in pair]  # noqa: E731
    torch.ops.tilec_node.register(serial, launcher().native(), id(of_plan), pairs(table.saved), table.every,
                                  pairs(table.sources), [-1 if i is None else i for i in table.results])
    attach(serial, tensors, outputs)


def _backward(serial, saved, grads):
    """What the node leaves to Python: its gradients, those that there are."""
    from tilec.torch import gradient

    of_plan = _records[serial]
    kernel, values = of_plan.kernel, of_plan.values
    given = [None] * len(kernel.returns)
    for i, grad in zip(kernel.links.every, grads):
        given[i] = grad
    made, tensors, plan = gradient.backward(kernel, values, saved, given)
    if plan is not None:
        like = [how(*arguments, **{**named, "device": "meta"}) for how, arguments, named in plan.made]
        torch.ops.tilec_node.remember(serial, tensors, id(plan), like, plan.returns)
    return [grad for grad in made if grad is not None]
