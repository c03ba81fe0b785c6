#!/usr/bin/env python3
"""kernels.py - every kernel of examples/ on every target under many seeds, no finding allowed.

    kernels.py --tilec T --tilerun R [--seeds 8] [--every N] [--jobs N] [--arch A] [NAME..]

The cases and the float64 references are those of tests/run (ladder.py, attention.py, decode.py), which
run each case once on one target.  Here each runs on all three, a seed after the other; the result of
the last seed is compared with float64, and those of the others must be the same bits, except what
is summed up by atomics.  Every byte of an output must have been written.  --every 2: case and target are drawn like
the fields of a chessboard, so that each case runs on one or two of the three targets.
"""
import argparse
import concurrent.futures
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "run"))
import attention  # noqa: E402
import decode  # noqa: E402
import ladder  # noqa: E402

TARGETS = ["sm_80", "sm_90", "sm_100"]
SUMMED = {"dQ_sum", "dQ"}  # in an order that depends on the seed


def run_checked(command, seeds, may_differ=()):
    """What is wrong, or None."""
    done = subprocess.run([*command, "--seeds", str(seeds)], capture_output=True, text=True)
    said = done.stderr + done.stdout
    if done.returncode != 0:
        return f"exit {done.returncode}: " + " ".join(command) + "\n" + said
    for line in said.splitlines():
        if "were not written" in line:
            return line
        if "differs between seeds" in line and line.split()[2] not in may_differ:
            return line
    return None


def run_ladder(options, case, arch, folder):
    ptx = os.path.join(folder, "kernel.ptx")
    command = [options.tilec, os.path.join(ladder.ROOT, "examples", case.example + ".tile"),
               "-arch", arch, "-o", ptx]
    for name, value in case.defines.items():
        command += ["-D", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr
    command = [options.tilerun, ptx, "--device", "sim"]
    for name, (values, dtype) in case.inputs.items():
        path = os.path.join(folder, name + ".npy")
        np.save(path, ladder.to_bits(values, dtype))
        command += ["--in", f"{name}={path}"]
    for name, value in case.scalars.items():
        command += ["--set", f"{name}={value}"]
    for name in case.outputs:
        command += ["--out", f"{name}={os.path.join(folder, name + '.npy')}"]
    wrong = run_checked(command, options.seeds)
    for name, want in case.outputs.items():
        if wrong:
            return wrong
        have = ladder.from_bits(np.load(os.path.join(folder, name + ".npy")), case.out_dtype)
        allowed = case.slack * ladder.EPSILON[case.out_dtype] * ladder.largest(want)
        error = ladder.largest_error(have, want) if have.shape == want.shape else np.inf
        if not error <= allowed:  # NaN fails
            wrong = f"{name}: error {error:.3g}, allowed {allowed:.3g}"
    return wrong


@functools.lru_cache(maxsize=None)
def compiled(*command):
    """The PTX; cases that differ in lengths alone have the same kernels."""
    done = subprocess.run([*command, "-o", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        raise attention.Wrong(" ".join(command) + "\n" + done.stderr)
    return done.stdout


def run_attention(options, case, arch, folder):
    """attention.run, each of its runs under all seeds."""
    module = types.SimpleNamespace(**vars(attention))

    def call(command):
        if command[0] != options.tilerun:
            at = command.index("-o")
            pathlib.Path(command[at + 1]).write_text(compiled(*command[:at], *command[at + 2:]), encoding="utf-8")
            return
        wrong = run_checked(command, options.seeds, SUMMED)
        if wrong:
            raise attention.Wrong(wrong)

    def bound(function):
        return types.FunctionType(function.__code__, vars(module), function.__name__,
                                  function.__defaults__)

    module.call = call
    module.compile_case, module.kernel = bound(attention.compile_case), bound(attention.kernel)
    try:
        bound(attention.run)(options, case._replace(arch=arch), folder)
    except attention.Wrong as wrong:
        return str(wrong)
    return None


def run_decode(options, case, arch, folder):
    try:
        decode.run(options, case._replace(arch=arch), folder)
    except attention.Wrong as wrong:
        return str(wrong)
    return None


def all_cases():
    random = np.random.default_rng(7)
    for example, make in ladder.CASES.items():
        for case in make(random):
            yield f"{example} {case.name}", run_ladder, case
    seen = set()
    for case in attention.cases():
        case = case._replace(flags=(), arch="sm_80")
        if case not in seen:  # without their flags many are the same
            seen.add(case)
            yield "attention " + attention.name_of(case), run_attention, case
    for case in dict.fromkeys(case._replace(flags=(), arch="sm_80") for case in decode.cases()):
        yield "attention_decode " + attention.name_of(case), run_decode, case


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--arch", choices=TARGETS, help="only this target")
    parser.add_argument("names", nargs="*", help="only cases with one of these words in their name")
    options = parser.parse_args()

    def one(work):
        name, test, case, arch = work
        with tempfile.TemporaryDirectory() as folder:
            return name, arch, test(options, case, arch, folder)

    work = [(name, test, case, arch) for at, (name, test, case) in enumerate(all_cases())
            for to, arch in enumerate(TARGETS)
            if (at + to) % options.every == 0 and (options.arch or arch) == arch
            and (not options.names or any(n in name for n in options.names))]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, arch, wrong in pool.map(one, work):
            if wrong:
                failed += 1
                print(f"FAIL {name} {arch}: {wrong.strip()[:3000]}", flush=True)
    print(f"{len(work)} cases under {options.seeds} seeds, {failed} failures")
    return 1 if failed or not work else 0


if __name__ == "__main__":
    sys.exit(main())
