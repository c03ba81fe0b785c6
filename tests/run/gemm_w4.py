#!/usr/bin/env python3
"""gemm_w4.py - examples/gemm_w4.tile in the interpreter and the simulator, against float64.

    gemm_w4.py --tilec T --tilerun R

Rows and columns that fill no tile, several groups, all three types of 4 bits, both ways to multiply by scales; on sm_90 weights are
copied ahead as they are stored.  With K divided between programs, too.
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402
from packed_codes import NUMBERS, pack  # noqa: E402

SOURCE = os.path.join(ladder.ROOT, "examples", "gemm_w4.tile")


def cases():
    """arch, options, defines, M, N, K, what must be in the PTX"""
    yield "sm_90", [], {}, 21, 136, 384, "Q dims 1,0 box 64x64"
    yield "sm_90", [], {"SUMS": "true"}, 16, 200, 256, "Q dims 1,0 box 64x64"
    yield "sm_90", [], {"T": "f16", "TM": 8, "G": 256}, 3, 64, 512, "Q dims 1,0 box 64x64"
    yield "sm_90", ["--plan=consumers=2,stages=2"], {"TM": 128, "TK": 64}, 140, 200, 256, "Q dims 1,0 box 32x64"
    yield "sm_90", ["--plan=consumers=1,stages=3"], {"W": "i4", "ZERO": 0, "TN": 128}, 40, 200, 256, "Q dims 1,0 box 64x128"
    yield "sm_90", [], {"W": "e2m1", "ZERO": 0, "SUMS": "true", "G": 32, "TK": 32}, 9, 136, 96, "Q dims 1,0 box 32x64"
    yield "sm_90", ["--plan=none"], {}, 21, 136, 384, "mma.sync"
    for at, arch in enumerate(("sm_80", "sm_89", "sm_100", "sm_120")):
        yield arch, [], {"W": ("u4", "i4", "e2m1")[at % 3], "ZERO": 8 if at % 3 == 0 else 0, "SUMS": "true" if at % 2 else "false"}, 21, 136, 384, "mma"
    yield "interpreter", [], {"T": "f16"}, 21, 136, 384, ""
    yield "sm_90", ["--plan=consumers=2,stages=3"], {"PARTS": 2}, 5, 200, 768, "Q dims 2,1,0 box 64x1x64"
    yield "sm_90", [], {"PARTS": 3, "TM": 8, "T": "f16"}, 5, 72, 384, "Q dims 2,1,0 box 64x1x64"
    yield "sm_80", [], {"PARTS": 2}, 17, 72, 512, "mma"
    yield "interpreter", [], {"PARTS": 2}, 17, 72, 512, ""
    yield "sm_90", ["--plan=consumers=2,stages=3"], {"PARTS": 2, "SUMS": "false", "TM": 64}, 70, 136, 512, "Q dims 2,1,0 box 64x1x64"


def executed(options, folder, arch, flags, kernel, defines, given, sets, output, need=""):
    """What a kernel writes, or what it says."""
    words = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")] + ["--kernel", kernel]
    command, ptx = [options.tilec, "run", SOURCE, *words], os.path.join(folder, kernel + ".ptx")
    if arch != "interpreter":
        done = subprocess.run([options.tilec, SOURCE, "-arch", arch, "--verify", "-Wno-plan", "-o", ptx, *words, *flags], capture_output=True, text=True)
        if done.returncode:
            return ladder.failure(done)
        with open(ptx, encoding="utf-8") as file:
            if need not in file.read():
                return f"no {need} in the PTX"
        command = [options.tilerun, ptx, "--device", "sim", "--seeds", "2"]
    done = subprocess.run(ladder.with_arrays(command, folder, given, sets, [output]), capture_output=True, text=True)
    return ladder.failure(done) if done.returncode else ladder.loaded(folder, [output])[output]


def judge(options, folder, case):
    arch, flags, defines, m, n, k, need = case
    os.mkdir(folder)
    r, defines = np.random.default_rng([m, n, k]), dict(defines)
    parts = defines.pop("PARTS", 0)
    dtype, sums = defines.get("T", "bf16"), defines.get("SUMS", "true" if parts else "false") == "true"
    q = r.integers(0, 16, (n, k)).astype(np.uint8)
    x, s = ladder.rounded(r.normal(size=(m, k)), dtype), ladder.rounded(r.uniform(0.25, 2, (k // int(defines.get("G", 128)), n)), dtype)
    w = (NUMBERS[defines.get("W", "u4")][q] - int(defines.get("ZERO", 8))) * np.repeat(s.T, k // len(s), axis=1)
    w = w if sums else ladder.rounded(w, dtype)
    given = {"X": ladder.to_bits(x, dtype), "Q": pack(q), "S": ladder.to_bits(s, dtype)}
    if parts:  # the same memory
        given = {"X": given["X"].reshape(m, parts, -1), "Q": given["Q"].reshape(n, parts, -1), "S": given["S"].reshape(parts, -1, n)}
    y = executed(options, folder, arch, flags, "gemm_w4_split" if parts else "gemm_w4", defines, given, {}, "Y", need)
    if parts and not isinstance(y, str):
        y = executed(options, folder, arch, [], "gemm_w4_sum", {"T": dtype}, {"Y": y}, {}, "Z")
    if isinstance(y, str):
        return y
    y = ladder.from_bits(y, dtype)
    off = np.abs(y - x @ w.T) / (np.abs(x) @ np.abs(w.T) * 2.0**-18 + np.abs(x @ w.T) * ladder.EPSILON[dtype])
    return "" if off.max() <= 0.6 else f"an error of {off.max():.2f} units"


if __name__ == "__main__":
    sys.exit(ladder.judge_all(judge, cases()))
