"""Run by test_torch.py in a process of its own, with the made-up driver in LD_LIBRARY_PATH.  The
device memory of that driver is host memory, so that CPU tensors do."""

import sys
import types

sys.path.insert(0, sys.argv[1])
import tilec_torch  # noqa: E402
import torch  # noqa: E402

stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
torch.cuda.current_device = lambda: 0
torch.cuda.current_stream = lambda: stream
torch.cuda.get_device_capability = lambda device: (9, 0)

module = tilec_torch.load(sys.argv[2])
x = torch.randn(4, 50)[:, :37]
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
print("right")
