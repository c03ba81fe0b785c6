"""grid_sim.py - the grid of cases.py in the simulator, through tilerun, against float64 on the CPU.

    python3 tests/gpu/grid_sim.py out/grid --tilerun build/release/backends/cuda/tilerun [--every 10]

No GPU is needed, but PyTorch is (for the references; any build).  Acceptance is that of grid.py;
instead of guard bands the simulator looks for accesses out of bounds, uninitialised reads and races.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import cases as grid_cases  # noqa: E402
import grid  # noqa: E402

torch.set_num_threads(1)


def to_numpy(x):
    x = x.contiguous()
    return x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy()


def from_numpy(array, dtype):
    x = torch.from_numpy(array.view(np.int16) if array.dtype == np.uint16 else array)
    return x.view(torch.bfloat16) if dtype == torch.bfloat16 and x.dtype == torch.int16 else x


def tilerun(options, folder, ptx, entries, inputs, outputs):
    """({name: tensor}, what went wrong)."""
    command = [options.tilerun, ptx, "--device", "sim", "--seeds", str(options.seeds)]
    for entry in entries:
        command += ["--entry", entry]
    for name, x in inputs.items():
        if isinstance(x, torch.Tensor):
            np.save(f"{folder}/{name}.npy", to_numpy(x))
            command += ["--in", f"{name}={folder}/{name}.npy"]
        else:
            command += ["--set", f"{name}={x}"]
    for name in outputs:
        command += ["--out", f"{name}={folder}/{name}.out.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    wrong = done.stderr.strip() if done.returncode or "not written" in done.stderr else ""
    if done.returncode == 1:
        return {}, wrong or "failed"
    return {n: from_numpy(np.load(f"{folder}/{n}.out.npy"), t) for n, t in outputs.items()}, wrong


def judged(direction, case, got, wrong, exact, plain):
    """(direction, worst error / allowed, complaint)"""
    worst = 0.0
    for name, x in got.items():
        ratio, error, allowed, note = grid.compare(case, name, x, exact[name], plain[name])
        worst = max(worst, ratio)
        if not ratio <= 1:
            wrong = (wrong + "\n" if wrong else "") + (note or f"{name}: {error:.2e} of {allowed:.2e}")
    return direction, worst, wrong


def run(options, index, case):
    """[(direction, worst error / allowed, complaint)]"""
    v = case.variant
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[v.dtype]
    generator = torch.Generator().manual_seed(1000 + index)

    if case.group == "bias":
        values = grid.bias_values(case, dtype, generator, "cpu")
        exact = grid.bias_reference(case, *values, case.scale)
        with tempfile.TemporaryDirectory() as folder:
            ptx = os.path.join(options.folder, grid_cases.variant_name(v, "bias") + ".ptx")
            got, wrong = tilerun(options, folder, ptx, [], {**dict(zip(("Q", "K", "V", "Bias"), values)), "scale": case.scale},
                                 {"O": dtype, "L": torch.float32})
        return [judged("bias", case, got, wrong, exact, exact)]

    def random(*shape):
        return torch.randn(*shape, generator=generator).to(dtype)
    values = grid.limit_values(case, dtype, generator, "cpu") if case.rule == "limits" else [random(case.batch, case.sq, case.hq, v.d), random(case.batch, case.sk, case.hk, v.d),
              random(case.batch, case.sk, case.hk, v.dv)]
    grad = random(case.batch, case.sq, case.hq, v.dv)
    slopes = torch.tensor([2.0 ** (-8 * (i + 1) / case.hq) for i in range(case.hq)])
    scale = case.scale or v.d ** -0.5
    backward = set(options.directions) & set(grid.BACKWARD) & set(grid_cases.directions_of(case))
    exact = grid.with_gradients(case, values, slopes, scale, grad, torch.float64, backward)
    plain = grid.with_gradients(case, values, slopes, scale, grad, dtype, backward)
    given = {**dict(zip("QKV", values)), "scale": scale, "softcap": case.cap}
    out = []

    def judge(direction, got, wrong):
        out.append(judged(direction, case, got, wrong, exact, plain))
    with tempfile.TemporaryDirectory() as folder:
        ptx = os.path.join(options.folder, grid_cases.variant_name(v, "fwd") + ".ptx")
        got, wrong = tilerun(options, folder, ptx, [], given, {"O": dtype, "L": torch.float32})
        judge("fwd", got, wrong)
        given.update(O=got.get("O", exact["O"].to(dtype)), L=got.get("L", exact["L"].float()), dO=grad)
        for direction in grid.directions_of(options, case):
            if direction == "fwd":
                continue
            if direction.startswith("split"):
                given["P"] = grid.parts_of(case)
            ptx = os.path.join(options.folder, grid_cases.variant_name(v, "bwd") + ".ptx")
            got, wrong = tilerun(options, folder, ptx, grid.BACKWARD[direction], given,
                                 {"dQ": dtype, "dK": dtype, "dV": dtype})
            judge(direction, got, wrong)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--directions", default="fwd,bwd,det,split,split-det,bias", type=lambda s: s.split(","))
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--match")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--wide", action="store_true", help="the wide grid, too")
    parser.add_argument("--only", type=int, action="append", help="the case of this number")
    parser.set_defaults(part=None)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    picked = [(i, c) for i, c in grid.chosen_cases(options) if c.group != "long"]
    worst, failed, ran = {}, 0, 0

    def one(item):
        try:
            return item, run(options, *item)
        except (subprocess.TimeoutExpired, OSError) as error:
            return item, [("fwd", float("inf"), str(error))]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (_, case), results in pool.map(one, picked):
            for direction, ratio, wrong in results:
                ran += 1
                worst[direction] = max(worst.get(direction, 0), ratio)
                if wrong:
                    failed += 1
                    first = "\n    ".join(wrong.splitlines()[:4])
                    print(f"FAILED {direction} {grid_cases.variant_name(case.variant, 'x')} b{case.batch} "
                          f"h{case.hq}/{case.hk} s{case.sq}/{case.sk}:\n    {first}", flush=True)
    print(f"{ran} runs, {failed} failed; worst error / allowed: "
          + ", ".join(f"{d} {r:.3f}" for d, r in worst.items()))
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
