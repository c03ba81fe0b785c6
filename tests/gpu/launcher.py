"""launcher.py - every kind of kernel parameter on the GPU through tilec_torch: no compiler needed.

    python3 tests/gpu/launcher.py [--tilerun R]

The kernels of tests/run/parameters.ptx (sm_90a) on tensors in many layouts, also empty ones and ones
whose rows are all the same memory; twice over one scratch, on two streams at a time, and in a CUDA
graph; and all that once more with kernels that may start early.  With --tilerun also
tests/run/parameters.py on the GPU.
"""

import argparse
import os
import subprocess
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "run"), os.path.join(HERE, "..", "..", "examples", "python")]
import parameters  # noqa: E402
import tilec_torch  # noqa: E402

bad = 0


def check(what, ok):
    global bad
    bad += not ok
    print(f"{what}: {'right' if ok else 'WRONG'}", flush=True)


def integers(*shape):
    return torch.randint(-100, 100, shape, device="cuda").half()


def right(out, x, k):
    y = x.clone()
    rows = min(x.shape[1], k.shape[1])
    y[:, :rows] += k[:, :rows]
    b, s, h = (torch.arange(n, device="cuda", dtype=torch.int32) for n in x.shape[:3])
    t = b[:, None, None] * 1000000 + s[None, :, None] * 1000 + h[None, None, :]
    return torch.equal(out["Y"], y) and torch.equal(out["T"], t)


def layouts():
    """(what, X, K)"""
    yield "contiguous", integers(2, 300, 5, 128), integers(2, 300, 5, 128)
    yield "K ends early", integers(3, 100, 2, 128), integers(3, 17, 2, 128)
    yield "extents of 1", integers(1, 33, 1, 128), integers(1, 1, 1, 128)
    yield "one row", integers(1, 1, 1, 128), integers(1, 40, 1, 128)
    yield "stored [B, H, S, D]", integers(2, 5, 130, 128).transpose(1, 2), integers(2, 5, 70, 128).transpose(1, 2)
    packed = integers(2, 90, 3, 4, 128)
    yield "cut from a packed tensor", packed[:, :, 0], packed[:, :, 1]
    yield "cut columns", integers(2, 90, 4, 256)[..., 64:192], integers(2, 90, 4, 136)[..., 8:]
    yield "K without rows", integers(2, 70, 3, 128), integers(2, 0, 3, 128)
    yield "nothing at all", integers(2, 0, 3, 128), integers(2, 4, 3, 128)
    yield "many tiles", integers(4, 2000, 8, 128), integers(4, 1999, 8, 128)
    yield "K the same for all heads (stride 0)", integers(2, 70, 3, 128), integers(2, 70, 1, 128).expand(2, 70, 3, 128)


def check_module(kind, module):
    for what, x, k in layouts():
        try:
            check(kind + what, right(module.launch(X=x, K=k), x, k))
        except tilec_torch.TilecError as error:
            check(f"{kind}{what}: {error}", False)

    x, k = integers(4, 1000, 8, 128), integers(4, 900, 8, 128)
    plan = module.prepare(X=x, K=k)
    for _ in range(50):
        plan.run()
    check(kind + "50 launches over one scratch", right(plan.tensors, x, k))

    streams = [torch.cuda.Stream() for _ in range(2)]
    plans = [module.prepare(X=x, K=k) for _ in streams]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream, one in zip(streams, plans):
            with torch.cuda.stream(stream):
                one.run()
    torch.cuda.synchronize()
    check(kind + "two streams at a time", all(right(one.tensors, x, k) for one in plans))

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan.run()
        plan.run()
    plan.tensors["Y"].zero_()
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    check(kind + "a CUDA graph", right(plan.tensors, x, k))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilerun")
    options = parser.parse_args()
    check_module("", tilec_torch.load(parameters.ptx_of(parameters.metadata(), None)))
    check_module("kernels that start early, ", tilec_torch.load(parameters.early_ptx()))

    failed = bool(bad)
    if options.tilerun:
        failed |= subprocess.run([sys.executable, os.path.join(HERE, "..", "run", "parameters.py"), "--tilerun",
                                  options.tilerun, "--device", "gpu"]).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
