"""launch_program.py - the extension tilec._launch by itself over the made-up driver: no PyTorch, no tilec.

A tensor is anything with shape, stride(), dtype, get_device() and data_ptr().

    launch_program.py FOLDER CASE
"""
import ctypes
import os
import struct
import sys
import threading

sys.path.insert(0, sys.argv[1])
import _launch  # noqa: E402

RUNNER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint))
seen = []


class Wrong(RuntimeError):
    pass


class Tensor:
    def __init__(self, shape, dtype="f32", offset=0):
        self.shape, self.dtype, self.count = tuple(shape), dtype, 1
        for n in shape:
            self.count *= n
        self.memory = (ctypes.c_float * (self.count + 80))()
        self.start = -ctypes.addressof(self.memory) % 256 + offset

    def stride(self):
        steps, step = [], 1
        for n in reversed(self.shape):
            steps.insert(0, step)
            step *= n
        return tuple(steps)

    def get_device(self):
        return 0

    def data_ptr(self):
        return ctypes.addressof(self.memory) + self.start

    def values(self):
        return list((ctypes.c_float * self.count).from_address(self.data_ptr()))


streams = [0]
zeros_made = []


def zeros(device, bytes_):
    memory = (ctypes.c_uint8 * (bytes_ + 256))()
    zeros_made.append(memory)
    return ctypes.addressof(memory) + -ctypes.addressof(memory) % 256


def opened():
    _launch.open(Wrong, (), None, lambda device: streams[0])
    device = _launch.Device(0, zeros)
    module = device.load(b"// made up")
    return device, lambda name: device.function(module, name, 1000)


def scale_plan(device, function, shape, factor, early=False, scratch=()):
    """Y = factor X by the driver's kernel `scale_entry`: X, its stride, Y, its stride, rows, columns, factor."""
    rows, columns = shape
    packed = struct.pack("<QqQqiif4x", 0, columns, 0, columns, rows, columns, factor)
    step = (function("scale_entry"), (1, 1, 1), 128, 0, (1, 1, 1), early, packed, (0, 8, 16, 24, 32, 36, 40),
            ((0, 0), (16, 1)), (), scratch)
    return _launch.Plan(device, (15,), ((Tensor, (shape,), {"dtype": "f32"}),), (), (1,), True, (step,))


def plans():
    device, function = opened()
    misses = []

    def miss(tensor, factor, flag=None):
        misses.append((tensor.shape, factor))
        if tensor.data_ptr() % 16:
            raise Wrong("not aligned")
        return scale_plan(device, function, tensor.shape, factor)

    kernel = _launch.Plans(1, miss)
    for _ in range(3):
        for shape, factor in (((3, 8), 2.0), ((5, 8), 2.0), ((3, 8), 3.0)):
            x = Tensor(shape)
            x.memory[x.start // 4 + 1] = 7.0
            y = kernel.run(x, factor)
            assert isinstance(y, Tensor) and y.values() == [factor * v for v in x.values()] and y.values()[1] == 7 * factor
    assert len(misses) == 3 and kernel.count == 3
    kernel.run(Tensor((3, 8), "other"), 2.0)  # another type is another plan
    kernel.run(Tensor((3, 8)), 2.0, True)
    kernel.run(Tensor((3, 8)), 2.0, None)
    assert kernel.count == 6
    for wrong, text in (((Tensor((3, 8), offset=4), 2.0), "not aligned"), ((Tensor((3, 8)), "2"), "not a float"),
                        ((None, 2.0), "shape"), ((), "1 tensors")):
        try:
            kernel.run(*wrong)
        except (Wrong, TypeError, AttributeError, struct.error) as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)
    kernel.forget()
    assert kernel.count == 0 and kernel.run(Tensor((3, 8)), 2.0)
    for i in range(5000):  # it does not grow for ever
        kernel.run(Tensor((1, 8)), float(i))
    assert kernel.count <= 4096


def malformed():
    device, function = opened()
    good = (function("scale_entry"), (1, 1, 1), 128, 0, (1, 1, 1), False, bytes(48), (0,), (), (), ())
    for step in (good[:7] + ((48,),) + good[8:], good[:8] + (((44, 0),),) + good[9:], good[:8] + (((0, 9),),) + good[9:],
                 good[:10] + (((41, 8),),), good[:6] + (bytes(5000),) + good[7:], (7, 8), (0,) + good[1:], good[:5]):
        try:
            _launch.Plan(device, (0,), (), (), (), False, (step,))
        except (ValueError, TypeError):
            pass
        else:
            raise AssertionError(step)
    assert _launch.Plan(device, (0,), (), (), (0,), True, (good,))


@RUNNER
def note(name, values, grid):
    seen.append(ctypes.cast(values[0], ctypes.POINTER(ctypes.c_uint64))[0])


def scratch():
    """One for each stream, another for each graph that is being captured."""
    ctypes.CDLL("libcuda.so.1").fake_cuda_on_launch(note)
    device, function = opened()
    step = (function("noted"), (1, 1, 1), 128, 0, (1, 1, 1), False, bytes(8), (0,), (), (), ((0, 8),))
    kernel = _launch.Plans(1, lambda t: _launch.Plan(device, (0,), (), (), (0,), True, (step,)))
    x = Tensor((2, 2))
    for stream, capture in ((0, None), (0, None), (64, None), (0, None), (64, "5"), (64, "5"), (64, "6"), (64, None)):
        streams[0] = stream
        os.environ.pop("FAKE_CUDA_CAPTURE", None)
        if capture:
            os.environ["FAKE_CUDA_CAPTURE"] = capture
        ctypes.CDLL(None).setenv(b"FAKE_CUDA_CAPTURE", capture.encode(), 1) if capture else \
            ctypes.CDLL(None).unsetenv(b"FAKE_CUDA_CAPTURE")
        assert kernel.run(x) is x
    a, b, c, d = seen[0], seen[2], seen[4], seen[6]
    assert seen == [a, a, b, a, c, c, d, b] and len({a, b, c, d}) == 4 and all(s % 256 == 0 for s in seen)


def threads():
    """Threads that have no context; the plans of one kernel."""
    device, function = opened()
    kernel = _launch.Plans(1, lambda t, factor: scale_plan(device, function, t.shape, factor))
    wrong = []

    def work(seed):
        try:
            for i in range(300):
                x = Tensor((2, 8 * (1 + i % 3)))
                x.memory[x.start // 4] = float(i)
                assert kernel.run(x, float(seed)).values()[0] == i * seed
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    all_ = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in all_:
        thread.start()
    for thread in all_:
        thread.join()
    assert not wrong, wrong[0]
    assert kernel.count == 18


def failures():
    """What the driver says becomes the error that open() was given."""
    device, function = opened()
    kernel = _launch.Plans(1, lambda t, factor: scale_plan(device, function, t.shape, factor))
    for call in (lambda: kernel.run(Tensor((3, 8)), 2.0), lambda: device.load(b"BROKEN")):
        try:
            call()
        except Wrong as error:
            assert "out of memory" in str(error) or "it says BROKEN" in str(error), error
        else:
            raise AssertionError("no error")


CASES = {"plans": plans, "malformed": malformed, "threads": threads, "scratch": scratch}
if sys.argv[2] == "failures":
    failures()
for name, case in CASES.items():
    if sys.argv[2] in ("all", name):
        case()
print("right")
