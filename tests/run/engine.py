#!/usr/bin/env python3
"""engine.py - the kinds of kernels that engines for inference and training ship, each as its engine's author would write it.

    engine.py --tilec T --tilerun R [--all] [--rows 26,30] [--arch sm_80,sm_90] [--seeds N] [--table]

tests/engine/ has the rows: kernels, the lines that they may have, sizes, references in NumPy.  Each row is held to that number of
lines without comments, or 1.2 times it, and to none of the idioms that stand for what a language lacks (IDIOMS).  A sample of them
runs in the interpreter and in the simulator, another one each hour; --all runs each on every target.  --table prints the table of
docs/lab/engine.md, which the rows are compared with: the number of lines, and, of those that run, what multiplies.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "engine"))  # before tests/run, which has an attention.py, too
import attention  # noqa: E402,F401
import elementwise  # noqa: E402,F401
import experts  # noqa: E402,F401
import products  # noqa: E402,F401
import states  # noqa: E402,F401
from table import ALLOWED, NATURAL, ROWS, from_bits  # noqa: E402

ARCHES = ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"]
SAMPLE = 17  # no divisor of the number of rows or targets
TABLE = os.path.join(ROOT, "docs", "lab", "engine.md")

# What stands for something that a language lacks, in a program without comments.
IDIOMS = {
    "parts of words": r"(>>|<<)[^;]*&\s*(15|255|65535|0x0*[fF]{1,4})\b|&\s*(15|255|65535|0xf{1,4})\b[^;]*(>>|<<)|<< \(?24[^;]*>> 24",
    "places by comparison of all with all": r"(\w+)\[None, :\] (<|<=|>|>=) \1\[:, None\][^;]*\|\||sum\(\(?(\w+)\[None, :\] (<|>) \3\[:, None\]",
    "a sum over a triangle in place of a scan": r"sum\(where\((tri\w*|[^;]*\[None, :\] <=? [^;]*\[:, None\]), \w+\[None, :\], 0",
    "rows of a tile taken or put by comparison": r"sum\(where\(\w+\[:, None\] == \w+, ",
    "a loop of selects in place of a table": r"(\w+) = where\([^;]*== \w+, load \w+\[[^\]]*\], \1\)",
    "how often by comparison with all": r"sum\(\([^;]*\[:, None\] == [^;]*\[None, :\]\) as i32",
    "the place of the greatest by comparison": r"min\(where\(\w+ == \w+\[:, None\], ",
    "rows copied to be read as a tile": r"store (\w+)\[[^;]*= load \w+\[load [^;]*;(?:(?!kernel).)*load \1\[",
}

# Lines that each of them must find.
PLANTED = """
let u = (w >> (nib * 4)[:, None]) & 15;
let less = x[None, :] < x[:, None] || (x[None, :] == x[:, None] && n[None, :] < n[:, None]);
let cum = sum(where(tri, g[None, :], 0.0), axis=1);
let row = sum(where(i[:, None] == r, g, 0.0), axis=0);
bias = where(bucket == i, load Tab[h, i], bias);
atomic_add Hist[:] += sum((x[:, None] == iota(NB)[None, :]) as i32, axis=0);
let at = min(where(x == best[:, None], c[None, :], E), axis=1);
store Tmp[t, i, :] = load C[load Idx[t, k * N + i], :]; } let v = load Tmp[t, :, iota(DV)];
""".strip().split("\n")


class Wrong(Exception):
    pass


def path_of(name):
    for folder in ("tests/engine", "examples"):
        path = os.path.join(ROOT, folder, name)
        if os.path.exists(path):
            return path
    raise Wrong(f"there is no {name}")


def program(name):
    """Without comments and blank lines."""
    with open(path_of(name), encoding="utf-8") as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    return [line for line in text.split("\n") if line.strip()]


def lines_of(row):
    return sum(len(program(name)) for name in row.files)


def idioms_in(text):
    return [what for what, pattern in IDIOMS.items() if re.search(pattern, text, re.S)]


def written(row):
    """What is wrong with how a row is written."""
    lines, bad = lines_of(row), []
    if row.listed and lines > 1.2 * row.listed:
        bad.append(f"{lines} lines, {row.listed} are listed")
    if not row.other:
        bad += [f"{name}: {what}" for name in row.files for what in idioms_in("\n".join(program(name)))]
    return bad


def command(options, case, path, arch, seed, folder):
    flags = [word for name, value in case.defines.items() for word in ("-D", f"{name}={value}")]
    flags += ["--kernel", case.kernel] if case.kernel else []
    if arch == "interpreter":
        return [options.tilec, "run", path, *flags], ""
    done = subprocess.run([options.tilec, path, "-arch", arch, "--verify", *flags, "-o", f"{folder}/k.ptx"], capture_output=True, text=True)
    if done.returncode:
        raise Wrong(done.stderr.strip())
    with open(f"{folder}/k.ptx", encoding="utf-8") as file:
        text = file.read()
    return [options.tilerun, f"{folder}/k.ptx", "--device", "sim", "--seed", str(seed)], text


def multiplies(text):
    return next((name for name, word in [("tcgen05", "tcgen05.mma"), ("wgmma", "wgmma.mma_async"), ("mma", "mma.sync")] if word in text), "-")


def run(options, case, path, arch, seed):
    """What the kernel multiplies with."""
    with tempfile.TemporaryDirectory() as folder:
        words, text = command(options, case, path, arch, seed, folder)
        for name, array in case.inputs.items():
            np.save(f"{folder}/{name}.npy", array.bits)
            words += ["--in", f"{name}={folder}/{name}.npy"]
        for name, value in case.sets.items():
            words += ["--set", f"{name}={value}"]
        for name in case.wanted:
            words += ["--out", f"{name}={folder}/{name}.out.npy"]
        done = subprocess.run(words, capture_output=True, text=True)
        said = done.stderr + done.stdout
        if done.returncode or "warning" in said or "were not written" in said:
            raise Wrong(said.strip() or "failed")
        for name, want in case.wanted.items():
            compare(case, name, np.load(f"{folder}/{name}.out.npy"), *(want if isinstance(want, tuple) else (want, None)))
    return multiplies(text)


def compare(case, name, bits, want, allowed):
    want, dtype = np.asarray(want), case.outputs[name]
    have = from_bits(bits, dtype, want.shape[-1])
    if have.shape != want.shape:
        raise Wrong(f"{name}: {have.shape}, should be {want.shape}")
    allowed = ALLOWED.get(dtype, 0) if allowed is None else allowed
    with np.errstate(invalid="ignore"):
        error = np.where(have == want, 0, np.abs(have.astype(np.float64) - want))
    largest = np.abs(np.where(np.isfinite(want), want, 0)).max(initial=0)
    if not error.max(initial=0) <= allowed * largest:  # NaN is wrong
        at = np.unravel_index(np.nanargmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        raise Wrong(f"{name}{[int(i) for i in at]}: {have[at]}, should be {want[at]}; {(error > allowed * largest).sum()} of {want.size} are "
                    f"off, {largest:.3g} is the largest")


def rows_to_run(options):
    if options.rows:
        return [(ROWS[int(n)], options.arches) for n in options.rows.split(",")]
    if options.all:
        return [(row, options.arches) for row in ROWS.values() if row.cases]
    hour, numbers = int(time.time()) // 3600, sorted(n for n in ROWS if ROWS[n].cases)  # some rows, each on a target of its own, the first case of each
    return [(ROWS[numbers[(SAMPLE * hour + i) % len(numbers)]], [options.arches[(hour + i) % len(options.arches)]]) for i in range(SAMPLE)]


def table():
    natural = sum(not row.other for row in ROWS.values())
    lines = [f"{len(ROWS)} kinds: {natural} as one would write them, {sum('trick' in row.other for row in ROWS.values())} by a trick, "
             f"{sum('impossible' in row.other for row in ROWS.values())} impossible.", "",
             "| | kernel | file | lines | listed | sm_90 | sm_100 | |", "|---|---|---|---|---|---|---|---|"]
    for _, row in sorted(ROWS.items()):
        files = " ".join(f"`{os.path.relpath(path_of(name), ROOT)}`" for name in row.files)
        lines.append(f"| {row.number} | {row.kernel} | {files} | {lines_of(row) or '-'} | {row.listed or '-'} | {row.sm_90} | {row.sm_100} | "
                     f"{row.other or 'natural'} |")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec")
    parser.add_argument("--tilerun")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--rows", default="")
    parser.add_argument("--arch", default=",".join(["interpreter", *ARCHES]))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.arches = options.arch.split(",")
    if options.table:
        print("\n".join(table()))
        return 0
    bad = [f"IDIOMS do not find {what} in {line}" for what, line in zip(IDIOMS, PLANTED) if what not in idioms_in(line)]
    bad += [f"row {row.number}: {what}" for row in ROWS.values() for what in written(row)]
    natural = sum(not row.other for row in ROWS.values())
    bad += [] if natural >= NATURAL else [f"{natural} rows are natural, should be {NATURAL}"]
    with open(TABLE, encoding="utf-8") as file:
        kept = file.read().split("\n")
        rows, where = table(), os.path.relpath(TABLE, ROOT)
        bad += [f"{where} should have: {line}" for line in rows if line not in kept]
        bad += [f"{where} has what is no row: {line}" for line in kept if line.startswith("|") and line not in rows]
    runs = 0
    for row, arches in rows_to_run(options):
        for arch in arches:
            for seed in range(options.seeds):
                cases = list(row.cases(np.random.default_rng(100 * seed + row.number)))
                if not options.all and not options.rows:
                    cases = cases[:1]
                for number, case in enumerate(cases):
                    runs += 1
                    try:
                        path = path_of(case.file or row.files[0])
                        with_what = run(options, case, path, arch, seed + 1)
                        wanted = {"sm_90": row.sm_90, "sm_100": row.sm_100}.get(arch)
                        if number == 0 and wanted and with_what != wanted:
                            raise Wrong(f"multiplies with {with_what}, the table has {wanted}")
                    except Wrong as wrong:
                        bad.append(f"row {row.number}, {os.path.basename(path)} {case.kernel} {case.defines} case {number} {arch} seed {seed}: "
                                   f"{str(wrong)[:700]}")
    print("\n".join([*bad, f"{len(ROWS)} rows, {runs} runs, {len(bad)} wrong"]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
