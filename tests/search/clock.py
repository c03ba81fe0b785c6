#!/usr/bin/env python3
"""clock.py - one clock: whatever says how long a kernel takes says the same.

    clock.py --tilec TILEC

For every example, without options and for plans of `tilec search --built`: the clocks of an iteration and
the microseconds of a launch in the search's JSON, in --report's list of candidates for `auto`, in --report of the
kernel and in --dump-schedule are the same numbers. A kernel without a plan has none in any of them.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAID = re.compile(r"time: an iteration takes (\d+) clocks, a launch for .* ([\d.]+) us")
TAKEN = re.compile(r"^  \* .*: an iteration takes (\d+) clocks, a launch ([\d.]+) us", re.M)
PARAMETERS = {"attention": [[], ["-D", "CAUSAL=true", "-D", "WINDOW=1024"]], "attention_bwd": [["-D", "CAUSAL=true"]]}
PLANS = 2  # of each list: from the first to the last, evenly spaced


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def said_of(tilec, example, options):
    """What --report and --dump-schedule say, as lists of (clocks, microseconds), and what `auto` took."""
    # what ptxas would say is not looked at, and it would take ten times as long
    done = run(tilec, example, "-arch", "sm_90", *options, "-o", os.devnull, "--report", "--ptxas=/bin/true", "--dump-schedule")
    if done.returncode != 0:
        return None
    text = done.stdout + done.stderr
    times = [(int(a), float(b)) for a, b in SAID.findall(text)]
    return times, [(int(a), float(b)) for a, b in TAKEN.findall(text)]


def check_example(tilec, example, parameters):
    bad = []
    name = " ".join([example, *parameters])
    times, taken = said_of(tilec, example, parameters)
    # each kernel once in the report, once in the schedule
    half = len(times) // 2
    if sorted(times[:half]) != sorted(times[half:]):
        bad.append(f"{name}: --report and --dump-schedule differ: {times}")
    if any(time not in times for time in taken):
        bad.append(f"{name}: auto took {taken}, the kernels take {times}")
    searched = run(tilec, "search", example, "-arch", "sm_90", *parameters, "--built", "--json", "--rows", "0")
    plans = [json.loads(line) for line in searched.stdout.splitlines()] if searched.returncode == 0 else []
    compared = 0
    for plan in plans[::max(1, len(plans) // PLANS)]:
        options = [*parameters, *plan["options"].split(), "--kernel", plan["kernel"]]
        said = said_of(tilec, example, options)
        if said is None:  # the list is of plans that fit by an estimate of registers
            continue
        expected = (round(plan["clocks"]["iteration"]), round(1e3 * plan["predicted_ms"], 1))
        close = [t for t in said[0] if abs(t[0] - expected[0]) <= 1 and abs(t[1] - expected[1]) <= 0.11]  # six digits
        if len(said[0]) != 2 or len(close) != 2:
            bad.append(f"{example} {' '.join(options)}: the search says {expected}, the kernel {said[0]}")
        compared += 1
    return bad, len(times), compared


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    tilec = os.path.abspath(parser.parse_args().tilec)
    bad, kernels, plans = [], 0, 0
    for path in sorted(glob.glob(os.path.join(ROOT, "examples", "*.tile"))):
        example = os.path.relpath(path, ROOT)
        for parameters in PARAMETERS.get(os.path.basename(path)[:-5], [[]]):
            faults, times, compared = check_example(tilec, example, parameters)
            bad += faults
            kernels += times
            plans += compared
    print("\n".join(bad))
    print(f"{kernels} times of kernels, {plans} plans")
    return 1 if bad or kernels < 10 or plans < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
