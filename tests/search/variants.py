#!/usr/bin/env python3
"""variants.py - the rule of --variants=auto against the predictions of tilec search --built.

    variants.py --tilec TILEC [--show]

A file's rule knows a kernel by an expression of its sizes, the search by a model that samples the grid. For shapes drawn at
random, the form that the rule takes must be near the best plan that the search knows, and the estimate near its time.
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "examples", "python"))
import launch  # noqa: E402

SMS, MHZ = 132, 1980  # of the H200's record
CASES = [("attention", []), ("attention", ["-D", "CAUSAL=true"]), ("attention", ["-D", "D=64", "-D", "CAUSAL=true"]),
         ("attention", ["-D", "D=256"]), ("attention", ["-D", "CAUSAL=true", "-D", "WINDOW=1024"]),
         ("attention_bwd", ["--kernel", "attention_bwd_dkdv", "-D", "CAUSAL=true"]), ("gemm", [])]
SHAPES = 40
MEAN, MOST = 1.03, 1.25  # of the best plan's time: on average, at most
ERROR = 0.06  # of the estimate, on average


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=os.path.join(ROOT, "examples")).stdout


def drawn(example, rng):
    if example == "gemm":
        return {name: rng.choice([128, 512, 1024, 2048, 3072, 4096, 8192]) for name in "MNK"}
    heads, s = rng.choice([4, 8, 16, 32, 64]), rng.choice([256, 512, 1024, 1536, 2048, 4096, 8192, 16384])
    return {"B": rng.choice([1, 1, 2, 4, 8]), "Hq": heads, "Hk": heads // rng.choice([1, 1, 4]), "Sq": s,
            "Sk": s * rng.choice([1, 1, 1, 2])}


def plans_of(tilec, example, options, kernel, sizes):
    """Microseconds by plan, as the search has them."""
    said = run(tilec, "search", example + ".tile", "-arch", "sm_90", *options, "--built", "--json", "--rows", "0", "--kernel", kernel,
               *(word for name, value in sizes.items() for word in ("--size", f"{name}={value}")))
    plans = {}
    for line in said.splitlines():
        plan = json.loads(line)
        plans.setdefault((tuple(sorted(plan["tiles"].items())), plan["plan"].split(",pipelined")[0]), 1e3 * plan["predicted_ms"])
    return plans


def time_of(form, plans):
    """Of a form: that of the plan with its tiles and its block; of several, the nearest to what the form says."""
    threads = form["block"] // 128 - 1
    found = [(abs(math.log(t / form["us"])), t) for (tiles, plan), t in plans.items()
             if all(form["constants"][name] == str(value) for name, value in tiles) and f"consumers={threads}," in plan]
    return min(found)[1]


def measured(tilec):
    """Times in a tuning database count more than estimates: a plan that takes twice as long is not taken, one that takes half
    is, also with sizes that were not measured."""
    sizes, near = {"B": 1, "Sq": 1024, "Hq": 16, "Sk": 1024, "Hk": 16}, {"B": 1, "Sq": 1100, "Hq": 16, "Sk": 1100, "Hk": 16}
    said = run(tilec, "search", "attention.tile", "-arch", "sm_90", "--built", "--json", "--rows", "0",
               *(word for name, value in sizes.items() for word in ("--size", f"{name}={value}")))
    lines = [line.split(',"options"')[0] for line in said.splitlines()]
    times = [1e3 * json.loads(line)["predicted_ms"] for line in said.splitlines()]
    plans = [(json.loads(line)["tiles"], json.loads(line)["plan"]) for line in said.splitlines()]

    def taken(factors):
        with tempfile.NamedTemporaryFile("w", suffix=".tuning") as file:
            for line, time, factor in zip(lines, times, factors):
                file.write(f'{line},"microseconds":{time * factor}}}\n')
            file.flush()
            kernel = json.loads(run(tilec, "attention.tile", "-arch", "sm_90", "--variants=auto", "--emit=json",
                                    f"--tuning={file.name}"))["kernels"][0]
        forms = [kernel, *kernel.get("variants", [])]
        least = [min(forms, key=lambda form: launch.value(form["cost"], {**s, "sm_count": SMS})) for s in (sizes, near)] \
            if len(forms) > 1 else [kernel, kernel]
        return [(form["constants"]["N"], form["block"] // 128 - 1) for form in least]

    def of(plan):
        return str(plan[0]["N"]), int(plan[1].split("consumers=")[1][0])

    best, slow = of(plans[0]), next(k for k, plan in enumerate(plans) if of(plan) != of(plans[0]))
    want = [[best], [best] * 2, [of(plans[slow])] * 2]
    have = [taken([1.0] * len(plans))[:1], taken([1.0 if of(p) == best else 2.0 for p in plans]),
            taken([0.5 if k == slow else 1.0 for k in range(len(plans))])]
    slower = taken([2.0 if of(p) == best else 1.0 for p in plans])
    if have != want or best in slower:
        print(f"measured times: {have} and {slower}, expected {want}, and not {best}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    tilec, rng, bad = os.path.abspath(options.tilec), random.Random(1), 0
    bad += measured(tilec)
    for example, flags in CASES:
        kernel = json.loads(run(tilec, example + ".tile", "-arch", "sm_90", *flags, "--variants=auto", "--emit=json"))["kernels"][0]
        forms, ratios, alone, errors, taken = [kernel, *kernel["variants"]], [], [], [], {}
        for _ in range(SHAPES):
            sizes = drawn(example, rng)
            for form in forms:
                form["us"] = launch.value(form["cost"], {**sizes, "sm_count": SMS}) / MHZ
            plans = plans_of(tilec, example, flags, kernel["name"], sizes)
            best, form = min(plans.values()), min(forms, key=lambda f: f["us"])
            ratios.append(time_of(form, plans) / best)
            alone.append(time_of(kernel, plans) / best)
            errors.append(abs(math.log(form["us"] / time_of(form, plans))))
            taken[form["entry"]] = taken.get(form["entry"], 0) + 1
            if options.show:
                print(sizes, form["entry"], f"{ratios[-1]:.3f}, its first form alone {alone[-1]:.3f}")
        mean, first = (math.exp(sum(map(math.log, r)) / SHAPES) for r in (ratios, alone))
        print(f"{example} {' '.join(flags)}: {mean:.3f} of the best plan's time, at most {max(ratios):.3f}; one form alone {first:.3f}, "
              f"{max(alone):.3f}; estimates differ by {100 * sum(errors) / SHAPES:.1f} %; {taken}")
        if mean > MEAN or max(ratios) > MOST or mean > first or sum(errors) / SHAPES > ERROR:
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
