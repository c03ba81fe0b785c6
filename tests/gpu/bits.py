#!/usr/bin/env python3
"""bits.py - kernels on an H200 and in the simulator with the same inputs: are their results the same bits?

    bits.py all --tilec T --tilerun R --out DIR [--jobs N] [--seconds S] [TEST ..]
    bits.py report DIR

`all` runs the tests of tests/run that compile for sm_90 and run in the simulator, with this file in place of tilerun.  Each launch of code for
sm_90 then runs twice, in the simulator and on the GPU, and a line of JSON in DIR says where their outputs differ.  `report` sums up:
launches without approximations and without additions whose order is open have to be the same to the bit; of others it says by how
much they differ.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.path.join(os.path.dirname(HERE), "run")
TESTS = ["ladder", "attention", "decode", "float8_products", "products8", "scaled_products", "scales", "casts", "folds", "three", "packs", "packed",
         "chains", "divisions", "scans", "scans_by", "scatters", "gathers", "float8", "bytes", "sums", "split", "greatest", "padding", "tf32",
         "comparisons", "attention_fp8", "formats", "atomics", "philox", "bools", "strides", "wide_rows", "windows", "long_sums", "ranges"]
# what a chip computes by tables; sums by whoever comes first
APPROXIMATE = re.compile(r"\b(ex2|tanh|rcp|rsqrt|sqrt|lg2|sin|cos|div)\.(approx|full)")
UNORDERED = re.compile(r"\b((red|atom)\.[a-z.:0-9_]*add[a-z.:0-9_]*\.(f16x2|bf16x2|f16|bf16|f32)|cp\.reduce\.async\.bulk)")


def words(array):
    return np.ascontiguousarray(array).view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def compare(sim, gpu):
    """[elements, different ones, of floats the greatest difference over the greatest number]; NaNs are alike."""
    differ = words(sim) != words(gpu)
    if sim.dtype.kind == "f":
        differ &= ~(np.isnan(sim) & np.isnan(gpu))
    most = None
    if sim.dtype.kind == "f" and differ.any():
        with np.errstate(all="ignore"):
            a, b = sim.astype(np.float64), gpu.astype(np.float64)
            scale = np.abs(a[np.isfinite(a)]).max(initial=1e-300)
            most = float(np.nan_to_num(np.abs(a - b)[differ] / scale, nan=np.inf).max())
    return [int(differ.size), int(differ.sum()), most]


def in_place_of_tilerun(arguments):
    """Runs it as it is asked; code for sm_90 on the GPU before that, since an output may be an input's file."""
    real, out = os.environ["BITS_TILERUN"], os.environ["BITS_OUT"]
    ptx = next((a for a in arguments if a.endswith(".ptx")), None)
    text = ""
    if ptx and "--out" in arguments:
        with open(ptx, encoding="utf-8") as file:
            text = file.read()
    if not re.search(r"^\.target sm_90", text, re.M):
        return subprocess.run([real, *arguments]).returncode
    line = {"test": os.environ["BITS_TEST"], "entries": re.findall(r"\.entry (\w+)", text), "approximate": bool(APPROXIMATE.search(text)),
            "unordered": bool(UNORDERED.search(text)), "differ": {}}
    with tempfile.TemporaryDirectory() as folder:
        command, outputs = [real], {}
        for at, word in enumerate(arguments):
            before = arguments[at - 1] if at else ""
            if before == "--out":
                name, _, path = word.partition("=")
                outputs[name] = path, os.path.join(folder, name + ".npy")
                word = f"{name}={outputs[name][1]}"
            command.append(os.environ.get("BITS_DEVICE", "gpu") if before == "--device" else word)
        done = subprocess.run(command, capture_output=True, text=True)
        status = subprocess.run([real, *arguments]).returncode
        if status:
            return status
        if done.returncode:
            line["error"] = (done.stdout + done.stderr)[-300:]
        else:
            for name, (sim, gpu) in outputs.items():
                line["differ"][name] = compare(np.load(sim), np.load(gpu))
    if line.get("error") or any(n[1] for n in line["differ"].values()):
        kept = os.path.join(out, f"{os.getpid()}.ptx")
        if not line["approximate"] and not line["unordered"]:
            with open(kept, "w", encoding="utf-8") as file:
                file.write(text)
            line["ptx"], line["command"] = kept, [os.path.basename(a) for a in arguments]
    with open(os.path.join(out, f"{os.environ['BITS_TEST']}.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return status


def run_all(args):
    os.makedirs(args.out, exist_ok=True)
    end = time.monotonic() + args.seconds

    def one(test):
        path = os.path.join(RUN, test + ".py")
        if not os.path.exists(path):
            return test, "is no test"
        environment = {**os.environ, "BITS_TILERUN": os.path.abspath(args.tilerun), "BITS_OUT": os.path.abspath(args.out), "BITS_TEST": test}
        try:
            done = subprocess.run([sys.executable, path, "--tilec", args.tilec, "--tilerun", os.path.abspath(__file__)], env=environment,
                                  capture_output=True, text=True, timeout=max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return test, "out of time"
        return test, (done.stdout + done.stderr).strip().split("\n")[-1][:200]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for test, said in pool.map(one, args.tests or TESTS):
            print(f"{test}: {said}", flush=True)
    return report(args.out)


def report(folder):
    kinds, wrong = collections.defaultdict(lambda: [0, 0, 0, 0.0]), 0
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        for text in open(path, encoding="utf-8"):
            line = json.loads(text)
            kind = "unordered" if line["unordered"] else "approximate" if line["approximate"] else "determined"
            row, differ = kinds[kind], [n for n in line["differ"].values() if n[1]]
            row[0] += 1
            row[1] += not differ and not line.get("error")
            row[2] += bool(line.get("error"))
            row[3] = max([row[3]] + [n[2] for n in differ if n[2] is not None])
            if kind == "determined" and (differ or line.get("error")):
                wrong += 1
                print(f"{line['test']} {line['entries']}: {line['differ']} {line.get('error', '')} {line.get('ptx')}")
    for kind, (count, same, errors, most) in kinds.items():
        print(f"{kind}: {count} launches, {same} the same bits, {errors} not run, differences up to {most:.3g} of the greatest number")
    return 1 if wrong or not kinds else 0


def main():
    if "BITS_TILERUN" in os.environ:
        return in_place_of_tilerun(sys.argv[1:])
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["all", "report"])
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--tilerun", default="tilerun")
    parser.add_argument("--out", default="bits")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("tests", nargs="*")
    args = parser.parse_intermixed_args()
    return report(args.tests[0]) if args.what == "report" else run_all(args)


if __name__ == "__main__":
    sys.exit(main())
