#!/usr/bin/env python3
"""unjudged.py - of how many random programs does the interpreter not know well enough what rounding may make of their results?

    unjudged.py --tilec T [--first N] [--count 10000] [--jobs 2]

No program is compiled.  A program is counted where the judge would draw another one: more than half the elements of an output
have a tolerance that decides nothing, or an infinite one.  Exit status 1: that is 1 % of the programs, or more.
"""
import argparse
import concurrent.futures
import functools
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import judge  # noqa: E402
import program  # noqa: E402

MOST = 0.01


@functools.cache
def judge_of(tilec):
    return judge.Judge(tilec, None)


def unjudged(task):
    """The seed, and the outputs that are not judged."""
    tilec, seed = task
    asker, case = judge_of(tilec), program.make(seed)
    with tempfile.TemporaryDirectory() as folder:
        asker.write(case, folder)
        try:
            want = asker.expect(case, folder)
        except (judge.Undecided, judge.Illegal) as no:
            return seed, type(no).__name__.lower()
        return seed, " ".join(name for name in want if asker.undecided({name: want[name]}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    tasks = [(options.tilec, options.first + k) for k in range(options.count)]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        found = [f"{seed} ({why})" for seed, why in pool.map(unjudged, tasks, chunksize=8) if why]
    print(f"{options.count} programs, {len(found)} not judged ({100 * len(found) / options.count:.2f} %): {', '.join(found[:20])}")
    return len(found) >= MOST * options.count


if __name__ == "__main__":
    sys.exit(main())
