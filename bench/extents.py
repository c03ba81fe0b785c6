#!/usr/bin/env python3
"""extents.py - kernels of rows with extents known at run time beside the same with constant ones, in one process.

    extents.py prepare --tilec TILEC --out FOLDER     needs no GPU
    extents.py measure FOLDER

Programs of bench/rows and the examples, the same tiles for both; constant is the length of rows.  Each is loaded COPIES
times, and the middle copy counts: short launches vary by 0.6 us with where their code lies.
"""
import argparse
import math
import os
import random
import re
import statistics
import subprocess
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "examples", "python")]
# name: (file, kernel, size of a row, tiles, widths)
PROGRAMS = {
    "add": ("../examples/add.tile", "add", "C", "M=1,N=2048", (8192, 4098)),
    "softmax": ("../examples/row_softmax.tile", "row_softmax", "C", "M=1,N=4096", (8192, 4098, 128256)),
    "swiglu": ("rows/glu.tile", "glu", "C", "M=4,N=256", (14336, 14338)),
    "loss": ("rows/cross_entropy.tile", "loss", "V", "M=1,N=8192", (128256,)),
    "gradient": ("rows/cross_entropy.tile", "gradient", "V", "M=4,N=1024", (128256,)),
    "column-sums": ("rows/columns.tile", "column_sums", "C", "M=128,N=64", (8192, 4098)),
    "transpose": ("rows/columns.tile", "transpose", "C", "M=64,N=64", (8192, 4098)),
    "quantise": ("rows/quantise.tile", "quantise", "C", "M=16", (14336,)),
}
ROWS = (16, 128, 2048, 16384)
COPIES = 5


def prepare(options):
    os.makedirs(options.out, exist_ok=True)
    bad = 0
    for name, (file, kernel, size, tiles, widths) in PROGRAMS.items():
        with open(os.path.join(HERE, file), encoding="utf-8") as source:
            text = source.read()
        for width in (0, *widths):
            changed = re.sub(r"(kernel \w+<)", rf"\g<1>{size}: int = {width}, ", text) if width else text
            path = os.path.join(options.out, f"{name}-{width}")
            with open(path + ".tile", "w", encoding="utf-8") as out:
                out.write(changed)
            words = [w for t in tiles.split(",") for w in ("-D", t)] + ["-D", "T=bf16"]
            done = subprocess.run([options.tilec, path + ".tile", "-arch", "sm_90", "-Wno-plan", "--kernel", kernel, *words, "-o", path + ".cubin"],
                                  capture_output=True, text=True)
            if done.returncode:
                print(name, width, done.stderr.splitlines()[:2])
                bad += 1
    return bad


def tensors(torch, name, rows, width):
    x = torch.randn(rows, width, device="cuda").bfloat16()
    y = torch.randint(0, width, (rows,), device="cuda", dtype=torch.int32)
    if name == "add":
        return {"X": x, "Y": torch.randn_like(x), "a": 0.5}, "Z"
    if name == "swiglu":
        return {"X": torch.randn(rows, 2 * width, device="cuda").bfloat16()}, "Y"
    if name == "loss":
        return {"X": x, "Y": y}, "Loss"
    if name == "gradient":
        return {"X": x, "Y": y, "L": torch.logsumexp(x.float(), -1), "scale": 0.25}, "dX"
    return {"X": x}, {"column-sums": "S", "quantise": "Q"}.get(name, "Y")


def measure(options):
    import tilec_torch
    import timing
    import torch
    flush, order, every = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), random.Random(1), []
    for name, (_, kernel, _, _, widths) in PROGRAMS.items():
        found = []
        for width in widths:
            for rows in ROWS:
                if rows * width > 2 ** 30:
                    continue
                torch.manual_seed(1)
                given, result = tensors(torch, name, rows, width)
                plans = {}
                for which, key in (("run time", 0), ("constant", width)):
                    path = os.path.join(options.what[1], f"{name}-{key}.cubin")
                    try:
                        for copy in range(COPIES):
                            plans[which, copy] = tilec_torch.load(path).select(kernel).prepare(**given)
                    except (tilec_torch.TilecError, OSError) as error:
                        print(f"# {name} {rows}x{width} {which}: {str(error).splitlines()[0][:100]}", flush=True)
                if len(plans) < 2 * COPIES:
                    continue
                first, same = None, True
                for plan in plans.values():
                    plan.run()
                    got = plan.tensors[result].float()
                    first = got if first is None else first
                    same = same and torch.allclose(first, got, rtol=1e-2, atol=1e-2)
                runs = {which: types.SimpleNamespace(run=plan.run, kind="ours") for which, plan in plans.items()}
                copies = {}
                for (which, _), values in timing.measure(runs, "spin", flush, order, 21, 3, 300_000).items():
                    copies.setdefault(which, []).append(1000 * statistics.median(values))
                us = {which: statistics.median(values) for which, values in copies.items()}
                found.append(us["run time"] / us["constant"])
                print(f"{name} {rows}x{width}: run time {us['run time']:.2f} us, constant {us['constant']:.2f}, {found[-1]:.3f}{'' if same else ' DIFFER'}", flush=True)
                del plans, runs, given, first, got
                torch.cuda.empty_cache()
        if found:
            every += found
            print(f"= {name}: {math.exp(statistics.fmean(map(math.log, found))):.3f} in the mean, at most {max(found):.3f}", flush=True)
    print(f"= all {len(every)}: {math.exp(statistics.fmean(map(math.log, every))):.3f}, at most {max(every):.3f}, {sum(x <= 1.02 for x in every)} within 1.02")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+")
    parser.add_argument("--tilec")
    parser.add_argument("--out")
    options = parser.parse_args()
    return prepare(options) if options.what[0] == "prepare" else measure(options)


if __name__ == "__main__":
    sys.exit(main())
