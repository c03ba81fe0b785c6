#!/usr/bin/env python3
"""first_run.py - what tilec's code does on a GPU that none of us has: is it right, how fast, and what do the units do?

    first_run.py --build BUILD [--target sm_100] [--out FILE.tar.gz] [--minutes 10]
    first_run.py --build BUILD --device sim       the first part at small sizes, without a GPU

Three parts, each of which goes on where the one before failed:

    right   each program as tilec makes it for the target (roles, tensor memory) beside the same program with --plan=none
            (cp.async, mma.sync), on the same numbers
    fast    the median of 20 launches, in microseconds and TFLOPS
    units   the microbenchmarks of bench/micro for the target, beside what others published

The lines go to the terminal, and everything, with the PTX and what nvidia-smi says, into one file to send back.  Needs
Python with NumPy and the CUDA driver; ptxas is used where it is in PATH, else the driver compiles.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy as np

from case import Case

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "examples")
# the largest difference, of the largest number: results are bf16, and are summed up in another order
ALLOWED = 0.02
RIGHT = ["fwd:64:2:4:1000:0", "fwd:64:2:4:1000:1", "fwd:128:2:4:1000:0", "fwd:128:2:4:1000:1", "fwd:256:1:2:600:1",
         "fwd:128:1:8/2:700/900:1", "bwd:64:1:4:1000:0", "bwd:64:1:4:1000:1", "bwd:128:1:4:1000:0", "bwd:128:1:4:1000:1",
         "counter:128:2:4:1000:1", "gemm:1000:760:520", "pairs:1000:760:520", "taken:1000:760:520", "mlp:900:1000:128"]
SMALL = ["fwd:64:1:1:150:1", "bwd:64:1:1:140:0", "gemm:130:136:72", "pairs:260:136:72", "taken:260:136:72", "mlp:100:130:64"]
FAST = ["fwd:64:4:32:4096:0", "fwd:64:4:32:4096:1", "fwd:128:4:16:4096:0", "fwd:128:4:16:4096:1", "fwd:128:1:16:16384:0",
        "fwd:128:1:16:16384:1", "fwd:256:4:8:4096:0", "bwd:64:4:32:4096:0", "bwd:64:4:32:4096:1", "bwd:128:4:16:4096:0",
        "bwd:128:4:16:4096:1", "counter:128:4:16:4096:1", "gemm:4096:4096:4096", "gemm:8192:8192:8192", "pairs:8192:8192:8192",
        "taken:8192:8192:8192", "mlp:16384:4096:128"]


class Program:
    """A program with sizes: of attention as case.py writes it, counter:.. forward with tiles from a counter in place of cluster launch
    control; gemm:M:N:K, pairs:M:N:K with products of two blocks, taken:M:N:K of pairs that take over others' tiles; mlp:ROWS:HIDDEN:D."""

    def __init__(self, text):
        self.text, self.kind = text, text.split(":")[0]
        self.plan = []  # flags, where it is not what the compiler chooses
        if self.kind == "counter":
            self.kind, text = "fwd", text.replace("counter", "fwd")
            self.plan = ["-DM=128", "-DN=128", "--plan=consumers=2,stages=2"]
        if self.kind in ("fwd", "bwd"):
            case = Case(text)
            self.file = "attention.tile" if self.kind == "fwd" else "attention_bwd.tile"
            self.defines = [f"-DD={case.d}"] + (["-DCAUSAL=true"] if case.causal else [])
            self.sizes = {"B": case.batch, "Sq": case.sq, "Sk": case.sk, "Hq": case.heads, "Hk": case.kv_heads}
            self.scalars = {"scale": case.d ** -0.5}
            self.outputs = ["O", "L"] if self.kind == "fwd" else ["dQ", "dK", "dV"]
            self.flops = case.flops()
            # of the backward: what adds dQ up in any order; the deterministic kernels are others
            self.entries = [] if self.kind == "fwd" else ["attention_bwd_delta", "attention_bwd", "attention_bwd_convert"]
            return
        a, b, c = map(int, text.split(":")[1:])
        if self.kind in ("pairs", "taken"):
            taken = ",clc=1" if self.kind == "taken" else ""
            self.kind = "gemm"
            self.plan = ["-DTM=128", "-DTN=256", "-DTK=64", "--plan=consumers=1,stages=6,cluster=2" + taken]
        self.file, self.entries, self.scalars = self.kind + ".tile", [], {}
        self.defines = [f"-DD={c}"] if self.kind == "mlp" else []
        self.sizes = {"M": a, "N": b, "K": c} if self.kind == "gemm" else {"S": a, "F": b}
        self.outputs = ["C"] if self.kind == "gemm" else ["Y"]
        self.flops = 2.0 * a * b * c * (2 if self.kind == "mlp" else 1)


class Runner:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.tilec = os.path.join(options.build, "tilec")
        self.tilerun = os.path.join(options.build, "backends", "cuda", "tilerun")

    def call(self, command, seconds=120):
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        if done.returncode != 0:
            raise RuntimeError(f"{os.path.basename(command[0])} exits with {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def compile(self, program, plain):
        name = program.text.replace(":", "_").replace("/", "x") + ("_plain" if plain else "")
        path = os.path.join(self.folder, name + ".ptx")
        self.call([self.tilec, os.path.join(EXAMPLES, program.file), "-arch", self.options.target, *program.defines,
                   *(["--plan=none"] if plain else program.plan), "-Wno-plan", "-o", path])
        return path

    def launch(self, program, ptx, more):
        command = [self.tilerun, ptx, "--random", "--quiet", "--device", self.options.device, *more]
        for name, value in {**program.sizes, **program.scalars}.items():
            command += ["--set", f"{name}={value}"]
        for entry in program.entries:
            command += ["--entry", entry]
        return self.call(command)

    def results(self, program, plain):
        ptx, found = self.compile(program, plain), []
        files = [os.path.join(self.folder, name + ".npy") for name in program.outputs]
        self.launch(program, ptx, [word for name, path in zip(program.outputs, files) for word in ["--out", f"{name}={path}"]])
        for path in files:
            x = np.load(path)
            if x.dtype == np.uint16:  # bf16
                x = (x.astype(np.uint32) << 16).view(np.float32)
            found.append(x.astype(np.float64))
            os.remove(path)
        return found

    def right(self, program):
        worst = 0.0
        for have, want in zip(self.results(program, False), self.results(program, True)):
            if not np.array_equal(np.isfinite(have), np.isfinite(want)):
                return float("inf")
            finite = np.isfinite(want)
            worst = max(worst, np.abs(have - want)[finite].max() / np.abs(want[finite]).max())
        return worst

    def fast(self, program):
        said = self.launch(program, self.compile(program, False), ["--time", "20"])
        return sum(map(float, re.findall(r"time: median ([\d.]+) ms", said)))


def chip(options):
    """What nvidia-smi says, or a sentence why nothing can be run."""
    if options.device == "sim":
        return "the simulator"
    query = "name,compute_cap,driver_version,clocks.max.sm,power.limit,vbios_version"
    try:
        said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit("first_run.py: there is no nvidia-smi: this is for a machine with a GPU (or --device sim)")
    found = said.stdout.strip().split("\n")[0]
    want = options.target[3:-1] + "." + options.target[-1]
    if said.returncode != 0 or f" {want}," not in found:
        sys.exit(f"first_run.py: {options.target} needs a GPU of compute capability {want}; this is '{found}'")
    return found


def say(report, kind, name, text, **figures):
    report.append({"kind": kind, "name": name, **figures})
    print(f"{kind:<6} {name:<28} {text}", flush=True)


def attempt(report, kind, name, what):
    """A figure, or the reason why there is none: the next one may work."""
    try:
        return what()
    except (RuntimeError, subprocess.TimeoutExpired, OSError, ValueError) as error:
        say(report, kind, name, f"FAILED: {str(error).splitlines()[0][:160]}", failed=str(error))
        return None


def units(options, folder, report):
    kernels, results = os.path.join(folder, "micro"), os.path.join(folder, "micro.json")
    micro = [sys.executable, os.path.join(HERE, "micro", "micro.py"), "--target", options.target.rstrip("a")]

    def run():
        subprocess.run([*micro, "--compile", kernels], check=False, timeout=300)
        subprocess.run([*micro, "--run", kernels, "--json", results], check=False, timeout=300)
        return subprocess.run([*micro, "--table", results], capture_output=True, text=True, timeout=60).stdout

    table = attempt(report, "units", "microbenchmarks", run)
    for line in (table or "").splitlines():
        say(report, "units", line.split()[0] if line.split() else "", line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="the folder that tilec was built in")
    parser.add_argument("--target", default="sm_100", help="sm_100 (B200), sm_103 (B300), or another that has roles")
    parser.add_argument("--device", default="gpu", choices=["gpu", "sim"])
    parser.add_argument("--out", default="first-run.tar.gz", help="the file to send back")
    parser.add_argument("--minutes", type=float, default=10, help="nothing new is begun after so long")
    options = parser.parse_args()
    report, end, where = [], time.time() + 60 * options.minutes, chip(options)
    print(f"{options.target} on {where}")
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, folder)
        for text in SMALL if options.device == "sim" else RIGHT:
            worst = attempt(report, "right", text, lambda: runner.right(Program(text)))
            if worst is not None:
                say(report, "right", text, f"{worst:.2e} of the largest{'' if worst <= ALLOWED else '   WRONG'}", difference=worst)
        for text in [] if options.device == "sim" else FAST:
            program = Program(text)
            ms = attempt(report, "fast", text, lambda: runner.fast(program)) if time.time() < end else None
            if ms:
                say(report, "fast", text, f"{1000 * ms:8.1f} us {program.flops / ms / 1e9:8.1f} TFLOPS", ms=ms)
        if options.device == "gpu" and time.time() < end:
            units(options, folder, report)
        version = runner.call([runner.tilec, "--version"]).strip()
        with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as file:
            json.dump({"chip": where, "target": options.target, "tilec": version, "lines": report}, file, indent=1)
        with tarfile.open(options.out, "w:gz") as archive:
            for name in sorted(os.listdir(folder)):
                if name != "micro":
                    archive.add(os.path.join(folder, name), name)
    wrong = [line["name"] for line in report if "failed" in line or line.get("difference", 0) > ALLOWED]
    print(f"{len(report)} figures in {options.out}" + (f"; failed or wrong: {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
