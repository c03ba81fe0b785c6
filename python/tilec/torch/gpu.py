"""gpu.py - the GPUs of the process: what they are, code on them, memory that launches find zero.

TILEC_TORCH_DEVICE=cpu makes CPU tensors the ones that kernels run on: for tests with a driver that is
made up.  So does TILEC_INTERPRET (interpret.py).
"""
import functools
import os
import threading

import torch

from tilec.torch import interpret
from tilec.torch.error import Error
from tilec.torch.interpret import WITHOUT

DEVICE_TYPE = "cpu" if WITHOUT else os.environ.get("TILEC_TORCH_DEVICE", "cuda")
SM_COUNT, SM_SHARED, MAJOR, MINOR, CLOCK, MEMORY_CLOCK, BUS_BITS = 16, 81, 75, 76, 13, 36, 37  # CUdevice_attribute
USUAL_BYTES_PER_CLOCK, SUSTAINED = 2000, 0.85
ARENA_BYTES = 1 << 16  # that scratch is taken from
UNIT = 256  # an address of scratch is a multiple of it

_lock = threading.RLock()
_gpus = {}
_launcher = None


def launcher():
    """The extension tilec._launch, with the driver opened; once it is, nobody waits for the lock."""
    global _launcher
    if _launcher is not None:
        return _launcher
    with _lock:
        if _launcher is None and WITHOUT:
            interpret.open(Error, (torch.Tensor, torch.nn.Parameter), None, None)
            _launcher = interpret
        if _launcher is None:
            try:
                from tilec import _launch
            except ImportError as error:
                raise Error(f"the extension tilec._launch is missing (install the package by pip): {error}") from None
            exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
            if os.environ.get("TILEC_TORCH_READ") == "methods":  # to compare the two ways
                exchange = None
            stream = torch._C._cuda_getCurrentRawStream if DEVICE_TYPE == "cuda" else None
            _launch.open(Error, (torch.Tensor, torch.nn.Parameter), exchange, stream)
            _launcher = _launch
    return _launcher


class Gpu:
    """One GPU; `number` as PyTorch counts."""

    def __init__(self, number):
        self.number = number
        self.device = torch.device(DEVICE_TYPE, number) if DEVICE_TYPE == "cuda" else torch.device(DEVICE_TYPE)
        if DEVICE_TYPE == "cuda":
            torch.cuda.init()
        self.handle = launcher().Device(number, zeros)
        self.capability = self.handle.attribute(MAJOR), self.handle.attribute(MINOR)
        self.facts = {"sm_count": self.handle.attribute(SM_COUNT), "sm_shared": self.handle.attribute(SM_SHARED)}  # of launch expressions
        self.sm_count = self.facts["sm_count"]
        self.arenas, self.used = [], 0  # tensors of zeros, and what of the last one is taken

    @functools.cached_property
    def bytes_per_clock(self):
        """What the GPU's memory gives in a clock of its multiprocessors, where the driver says so."""
        try:
            clock, memory, bits = (self.handle.attribute(which) for which in (CLOCK, MEMORY_CLOCK, BUS_BITS))
            return SUSTAINED * 2 * memory * bits / 8 / clock or USUAL_BYTES_PER_CLOCK
        except (Error, ZeroDivisionError):
            return USUAL_BYTES_PER_CLOCK

    @property
    def arch(self):
        """The target that code for this GPU is compiled for."""
        major, minor = self.capability
        if major == 9:
            return "sm_90"
        if major == 10:
            return "sm_100"
        if self.capability >= (8, 0):
            return "sm_80"
        raise Error(f"the GPU is of compute capability {major}.{minor}; kernels need 8.0 or later")


def gpu(number):
    with _lock:
        if number not in _gpus:
            _gpus[number] = Gpu(number)
        return _gpus[number]


def _fresh_zeros(on, bytes_):
    """A tensor of zeros that is PyTorch's, but of no CUDA graph: another thread makes it, on a stream of its
    own, since this one may be capturing a graph or warming one up, whose memory serves others later."""
    made, launch = [], launcher()  # whoever waits for the thread has the lock: it must not ask for it

    def work():
        launch.relax()
        if DEVICE_TYPE != "cuda":
            made.append(torch.zeros(bytes_, dtype=torch.uint8))
            return
        stream = torch.cuda.Stream(on.number)
        with torch.cuda.device(on.number), torch.cuda.stream(stream):
            made.append(torch.zeros(bytes_, dtype=torch.uint8, device=on.device))
            stream.synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if not made:
        raise Error(f"{bytes_} bytes of zeros could not be had on GPU {on.number}")
    return made[0]


def zeros(number, bytes_):
    """The address of so many bytes that are zero, for as long as the process lives."""
    on, bytes_ = gpu(number), -(-max(bytes_, 1) // UNIT) * UNIT
    with _lock:
        if not on.arenas or on.used + bytes_ > on.arenas[-1].numel() - UNIT:
            on.arenas.append(_fresh_zeros(on, max(ARENA_BYTES, bytes_) + UNIT))
            on.used = -on.arenas[-1].data_ptr() % UNIT
        address = on.arenas[-1].data_ptr() + on.used
        on.used += bytes_
        return address
