#!/usr/bin/env python3
"""unjudged.py - of how many random programs does the interpreter not know what rounding may make of their results?

    unjudged.py --tilec T [--first N] [--count 10000] [--jobs 2]

No program is compiled: `tilec run --tolerance` says of how many finite elements it knows no bound.  A program is counted
where that is more than half of an output, or where a condition that rounding may change takes all bounds away.  Exit status
1: that is 1 % of the programs, or more.
"""
import argparse
import concurrent.futures
import functools
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import judge  # noqa: E402
import program  # noqa: E402

MOST = 0.01
SAYS = re.compile(r"warning: (\d+) of (\d+) elements of (\w+) have no tolerance")


@functools.cache
def judge_of(tilec):
    return judge.Judge(tilec, None)


def unjudged(task):
    tilec, seed = task
    asker = judge_of(tilec)
    case = program.make(seed)
    with tempfile.TemporaryDirectory() as folder:
        asker.write(case, folder)
        command = [tilec, "run", f"{folder}/k.tile", "--nan=ignore"] + asker.arguments(case, folder, ".want")
        command += [f"-D{name}={value}" for name, value in case.defines.items()]
        for name in case.outputs():
            command += ["--tolerance", f"{name}={folder}/{name}.tol.npy"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    if done.returncode not in (0, 1):
        raise RuntimeError(f"seed {seed}: tilec run exits {done.returncode}: {done.stderr[:300]}")
    return seed, done.returncode == 0 and any(2 * int(n) > int(of) for n, of, _ in SAYS.findall(done.stderr))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    tasks = [(options.tilec, options.first + k) for k in range(options.count)]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        found = [seed for seed, yes in pool.map(unjudged, tasks, chunksize=8) if yes]
    part = len(found) / options.count
    print(f"{options.count} programs, {len(found)} without bounds ({100 * part:.2f} %): {found[:20]}")
    return part >= MOST


if __name__ == "__main__":
    sys.exit(main())
