#!/usr/bin/env python3
"""random_programs.py - random programs, compiled in many ways, run in the simulator.

    random_programs.py --tilec T --tilerun R [--seed N] [--count N | --minutes M] [--keep FOLDER]

Each program runs at -O3, at -O0 and with other switches (every optional pass off in turn with
--all), and as tile IR in tests/tir/interpret.py before and after the passes of -O3 that work on
whole tiles.  All must give what NumPy computes from the program itself.  A refused program (exit
status 1) is counted and left; a compiler fault, a finding of the simulator or a wrong number fails.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tir"))
import interpret  # noqa: E402
from bar import Bar  # noqa: E402
from random_tile import Generator, Reject, from_bits, to_bits  # noqa: E402


def make(seed):
    """The program of a seed; the seed beside it when the first ideas led nowhere."""
    for attempt in range(100):
        try:
            made = Generator([seed, attempt])
        except (Reject, IndexError):
            continue
        if made.outputs:
            made.fill()
            made.expect()
            return made
    raise RuntimeError("no program")


def differs(program, name, have):
    tensor = next(t for t in program.tensors if t.name == name)
    want = tensor.want
    if have.shape != want.shape:
        return f"{name} has the shape {have.shape}, expected {want.shape}"
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        near = np.abs(have - want) <= tensor.allowed
    bad = ~(same | near) & tensor.written
    if not bad.any():
        return None
    where = tuple(int(k) for k in np.argwhere(bad)[0])
    return (f"{name}: {int(bad.sum())} of {bad.size} wrong, first at {list(where)}: {have[where]}, "
            f"expected {want[where]} (within {tensor.allowed:.3g})")


class Refused(Exception):
    pass


def run_ptx(options, program, folder, flags):
    """None when all is well, else what is wrong."""
    ptx = os.path.join(folder, "k.ptx")
    done = subprocess.run([options.tilec, os.path.join(folder, "k.tile"), "-o", ptx, "--verify"] +
                          flags, capture_output=True, text=True, timeout=120)
    if done.returncode == 1:
        raise Refused(done.stderr)
    if done.returncode != 0:
        return f"tilec exits {done.returncode}: {done.stderr}"
    command = [options.tilerun, ptx, "--device", "sim"]
    for t in program.tensors:
        path = os.path.join(folder, t.name + ".npy")
        if t.mode != "out":
            command += ["--in", f"{t.name}={path}"]
        if t.mode != "in":
            command += ["--out", f"{t.name}={os.path.join(folder, t.name + '.out.npy')}"]
    for name in program.extra:
        command += ["--in", f"{name}={os.path.join(folder, name + '.npy')}"]
    in_dims = {d for t in program.tensors if t.mode != "out" for d in t.dims}
    for name, value in program.sizes.items():
        if name not in in_dims and "U" + name not in program.extra:
            command += ["--set", f"{name}={value}"]
    for name, (_, value) in program.scalars.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        said = "; ".join(line.strip() for line in (done.stderr + done.stdout).split("\n")[:5])
        return f"tilerun exits {done.returncode}: {said[:400]}"
    for t in program.outputs:
        have = from_bits(np.load(os.path.join(folder, t.name + ".out.npy")), t.dtype)
        wrong = differs(program, t.name, have)
        if wrong:
            return wrong
    return None


def run_tir(options, program, folder, passes):
    kernels = interpret.compile_file(options.tilec, os.path.join(folder, "k.tile"), {}, passes)
    tensors = {}
    for t in program.tensors:
        kind = np.int32 if t.dtype == "i32" else np.float32
        tensors[t.name] = np.zeros(t.want.shape, kind) if t.mode != "in" else t.data.astype(kind)
    for name, size in program.extra.items():
        tensors[name] = np.zeros(size, np.float32)
    scalars = {n: (np.float32 if t == "f32" else np.int32)(v)
               for n, (t, v) in program.scalars.items()}
    interpret.run(kernels["k"], tensors, program.sizes, scalars)
    for t in program.outputs:
        wrong = differs(program, t.name, tensors[t.name].astype(np.float64))
        if wrong:
            return wrong
    return None


def write(program, folder):
    with open(os.path.join(folder, "k.tile"), "w", encoding="utf-8") as file:
        file.write(program.text())
    for t in program.tensors:
        if t.mode != "out":
            np.save(os.path.join(folder, t.name + ".npy"),
                    to_bits(t.data if t.mode == "in" else np.zeros(t.want.shape), t.dtype))
    for name, size in program.extra.items():
        np.save(os.path.join(folder, name + ".npy"), np.zeros(size, np.float32))


def optional_passes(tilec):
    said = subprocess.run([tilec, "--list-passes"], capture_output=True, text=True, check=True)
    return re.findall(r"^(\S+)\s.* (?:-O |only -f)", said.stdout, re.M)


def ways(options, random):
    """The switches one program is compiled with."""
    yield ["-O3"]
    yield ["-O0"]
    off = [f"-fno-{name}" for name in options.passes]
    if options.all:
        for flag in off:
            yield [flag]
        return
    yield [off[int(random.integers(len(off)))]]
    yield ["-O0", "-f" + options.passes[int(random.integers(len(off)))]]
    flags = ["-arch", str(random.choice(["sm_80", "sm_90", "sm_100"]))]
    if random.random() < 0.7:
        flags.append(f"--warps={random.choice([1, 2, 4, 8])}")
    if random.random() < 0.5:
        flags.append(f"--stages={random.integers(1, 5)}")
    yield flags


class Tally:
    def __init__(self):
        self.programs = self.runs = self.refused = self.failed = 0
        self.why = {}


def attempt(options, seed, tally, bar):
    program = make(seed)
    random = np.random.default_rng([seed, 99])
    with tempfile.TemporaryDirectory() as folder:
        write(program, folder)
        tally.programs += 1
        for flags in list(ways(options, random)):
            try:
                wrong = run_ptx(options, program, folder, flags)
            except Refused as refused:
                tally.refused += 1
                why = re.sub(r"[^ ]*k\.tile:\d+:\d+: |\d+|'.*?'", "#", str(refused).split("\n")[0])
                tally.why[why] = tally.why.get(why, 0) + 1
                if options.verbose:
                    print(f"seed {seed}: {refused}")
                break
            except subprocess.TimeoutExpired:
                wrong = "no end"
            tally.runs += 1
            if wrong:
                report(options, seed, flags, wrong, program, tally, bar)
        else:
            for passes in ["simplify,imply_masks", "simplify,imply_masks,split-loops,fuse"]:
                try:
                    wrong = run_tir(options, program, folder, passes.split(","))
                except Exception as problem:  # the interpreter itself
                    wrong = f"interpreter: {problem!r}"
                tally.runs += 1
                if wrong:
                    report(options, seed, ["tile IR after", passes], wrong, program, tally, bar)


def report(options, seed, flags, wrong, program, tally, bar):
    tally.failed += 1
    bar.clear()
    print(f"seed {seed}, {' '.join(flags)}: {wrong}", flush=True)
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        with open(os.path.join(options.keep, f"{seed}.tile"), "w", encoding="utf-8") as file:
            file.write(program.text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--keep", help="folder for the programs that fail")
    parser.add_argument("--all", action="store_true", help="every optional pass off in turn")
    parser.add_argument("--print", action="store_true", help="print the programs only")
    parser.add_argument("--quiet", action="store_true", help="no progress on a terminal")
    parser.add_argument("--verbose", action="store_true", help="say why programs are refused")
    options = parser.parse_args()
    if options.print:
        for seed in range(options.seed, options.seed + options.count):
            print(f"// {seed}\n{make(seed).text()}")
        return 0
    options.passes = optional_passes(options.tilec)
    tally, begin, seed, bar = Tally(), time.monotonic(), options.seed, Bar(options.quiet)
    while (time.monotonic() - begin < options.minutes * 60 if options.minutes
           else seed < options.seed + options.count):
        attempt(options, seed, tally, bar)
        seed += 1
        bar.show(*((time.monotonic() - begin, options.minutes * 60) if options.minutes else (tally.programs, options.count)),
                 f"{tally.programs} programs, {tally.failed} failed")
    bar.clear()
    print(f"{tally.programs} programs, {tally.runs} runs, {tally.failed} failed, "
          f"{tally.refused} programs refused; next seed {seed}")
    for why, count in sorted(tally.why.items(), key=lambda item: -item[1]):
        print(f"    {count} x {why}")
    return 1 if tally.failed or tally.runs == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
