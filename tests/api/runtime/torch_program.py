"""Run by test_torch.py in a process of its own, with the made-up driver in LD_LIBRARY_PATH.  The
device memory of that driver is host memory, so that CPU tensors do."""

import contextlib
import os
import sys
import threading
import types

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [sys.argv[1], os.path.join(HERE, "..", "..", "run")]
try:
    import torch
except ImportError:
    sys.path.insert(0, os.path.join(HERE, "stand_in"))
    import torch
import parameters  # noqa: E402
import tilec_torch  # noqa: E402

stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
torch.cuda.synchronize = lambda: None
torch.cuda.is_current_stream_capturing = lambda: False
torch.cuda.get_device_properties = lambda device: types.SimpleNamespace(multi_processor_count=7)
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_capability = lambda device: (9, 0)
torch.cuda.device = lambda number: contextlib.nullcontext()
torch.cuda.current_stream = lambda device=None: stream


def refused(message, function, *args, **named):
    try:
        function(*args, **named)
    except tilec_torch.TilecError as error:
        assert str(error) == message, error
    else:
        raise AssertionError(f"not refused: {message}")


module = tilec_torch.load(sys.argv[2])
x = torch.randn(4, 50)[:, :37]
refused("scale_rows: X is on the device 'cpu', and kernels run on a GPU: give X.cuda()",
        module.select("scale_rows").launch, X=x, Y=x, factor=2.0)
refused("attention_decode: Q is on the device 'cpu', and kernels run on a GPU: give Q.cuda()",
        tilec_torch.check_devices, "attention_decode", {"Q": x, "K": x})
tilec_torch.DEVICE_TYPE = "cpu"
y = torch.zeros(4, 64)[:, :37]
out = module.select("scale_rows").launch(X=x.contiguous().new_zeros(4, 64)[:, :37].copy_(x), Y=y, factor=2.0)
assert torch.equal(out["Y"], 2 * x)
sums = module.select("row_sums").launch(Y=y)["S"]  # an accumulator that was not given starts from zeros
assert torch.allclose(sums, y.sum(1))
plan = module.select("row_sums").prepare(Y=y)
plan.run()
plan.run()
assert torch.allclose(plan.tensors["S"], y.sum(1))
try:
    module.select("scale_rows").launch(X=x, Y=y, factor=1.0)
except tilec_torch.TilecError as error:
    assert str(error) == "scale_rows: stride 0 of X is 200 bytes; it must be a multiple of 16", error
else:
    raise AssertionError("an unaligned stride was accepted")
plan = module.select("scale_rows").prepare_copied(X=x, Y=y, factor=3.0)
plan.run()
assert torch.equal(y, 3 * x) and len(plan.copies) == 1
x.copy_(torch.randn(4, 37))
plan.run()  # copies again
assert torch.equal(y, 3 * x)
right = y.new_zeros(4, 64)[:, :37].copy_(x)  # lies as it should
assert module.select("scale_rows").prepare_copied(X=right, Y=y, factor=1.0).copies == []
refused("scale_rows: stride 0 of Y is 148 bytes; it must be a multiple of 16",  # results are not copied
        module.select("scale_rows").prepare_copied, X=x, Y=y.new_zeros(4, 37), factor=1.0)


# Tensor maps, scratch, workspace, zero; the made-up driver adds the bits as integers.
def bits(*shape):
    return np.random.default_rng(5).integers(0, 1 << 15, shape).astype(np.uint16)


def tensor(array):
    return torch.from_numpy(array.view(np.float16))


def array(made, dtype):
    return (made.array if hasattr(made, "array") else made.numpy()).view(dtype)


module = tilec_torch.load(parameters.ptx_of(parameters.metadata(), "// every kind of parameter\n"))
for b, s, h, sk in [(2, 35, 3, 20), (1, 35, 1, 1), (2, 5, 3, 0)]:
    x, k = bits(b, s, h, 128), bits(b, sk, h, 128)
    plan = module.prepare(X=tensor(x), K=tensor(k))
    assert plan.launches[0].grid == (min(7, (s + 31) // 32 * h * b * 2), 1, 1), plan.launches[0].grid
    for stream.cuda_stream in (0, 5, 5):
        plan.run()
    failed = []

    def elsewhere():  # a thread that has no context, like that of a backward pass
        try:
            module.launch(X=tensor(x), K=tensor(k))
            plan.run()
        except tilec_torch.TilecError as error:
            failed.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert not failed, failed
    y, t = parameters.expected(x, k)
    np.testing.assert_array_equal(array(plan.tensors["Y"], np.uint16), y)
    np.testing.assert_array_equal(array(plan.tensors["T"], np.int32), t)
kernel = module.kernels[0]
assert sorted(kernel.scratches) == [(0, 0, 304, 8), (0, 5, 304, 8)], kernel.scratches
assert all(isinstance(address, int) for address in kernel.scratches.values())  # no memory of PyTorch's
torch.cuda.is_current_stream_capturing = lambda: True  # a graph has a scratch of its own
address, kept = kernel.scratch(304, 8, 5, 0)
assert address == kept.data_ptr() and address not in kernel.scratches.values()
torch.cuda.is_current_stream_capturing = lambda: False
on_another = tensor(bits(2, 3, 3, 128))
with_device = types.SimpleNamespace(**{n: getattr(on_another, n) for n in
                                       ("dim", "shape", "dtype", "stride", "numel", "element_size", "data_ptr")},
                                    device=torch.device("cpu", 1))
refused("add_boxes: K is on cpu:1, but X on cpu: all tensors of a launch must be on one GPU",
        tilec_torch.check_devices, "add_boxes", {"X": on_another, "K": with_device})
refused("add_boxes: X must be f16, not " + str(torch.float32), module.select("add_boxes").launch,
        X=torch.zeros(2, 3, 3, 128), K=tensor(k))
refused("add_boxes: X must have 4 dimensions [B, S, H, 128], not 3", module.select("add_boxes").launch,
        X=torch.zeros(2, 3, 128), K=tensor(k))
refused("add_boxes: dimension 3 of X must be 128, not 64", module.select("add_boxes").launch,
        X=torch.zeros(2, 3, 3, 64), K=tensor(k))
try:
    module.select("add_boxes").launch(X=tensor(bits(2, 3, 3, 256))[:, :, :, 4:132], K=tensor(k))
except tilec_torch.TilecError as error:
    assert str(error) == "add_boxes: the address of X must be a multiple of 16 bytes", error
else:
    raise AssertionError("an unaligned address was accepted")
recipe = parameters.recipe("X")
for strides, message in [((768, 4, 12, 1), "stride 1 of X is 8 bytes"), ((768, -128, 64, 1), "stride 1 of X is -256"),
                         ((2**39, 128, 64, 1), "stride 0 of X is 1099511627776 bytes")]:
    try:
        tilec_torch.map_values(recipe, 2, (2, 2, 2, 128), strides)
    except tilec_torch.TilecError as error:
        assert str(error).startswith(message), error
    else:
        raise AssertionError(message)
print("right")
