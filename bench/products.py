#!/usr/bin/env python3
"""products.py - the plans that tilec takes for matrix products, against those that were measured to be the fastest.

    products.py --tilec TILEC --measured CSV [--most 1.03] [--least N] [--miss N] [--off PERCENT]   needs no GPU
    products.py prepare --tilec TILEC --out FOLDER [--shapes 40:1]      plans of shapes drawn at random, as machine code; no GPU
    products.py measure FOLDER --csv CSV                                times them on the GPU, beside cuBLAS

The first prints for each shape of the CSV what the search ranks first (bf16, without bias), its time over that of the fastest
plan where it was measured, else what is predicted of the two; and how the prediction is off.  CSV: lines of
M,N,K,TM,TN,TK,consumers,stages,us, as `measure` writes them; of several lines the least counts.
`prepare` takes of each shape the plans that are ranked within 12 % of the first, `--plans` at most.
"""

import argparse
import csv
import json
import math
import os
import random
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GEMM = os.path.join(ROOT, "examples", "gemm.tile")
FIELDS = ["M", "N", "K", "TM", "TN", "TK", "consumers", "stages", "us"]
WITHIN = 1.12
# of today's models: (N, K)
WEIGHTS = [(4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (8192, 8192), (28672, 8192), (5120, 5120), (7168, 2048),
           (3584, 18944), (2048, 7168), (12288, 3072), (1024, 4096)]


def plan_of(line):
    """(TM, TN, TK, consumers, stages) of a line of `search --json`."""
    hints = dict(part.split("=") for part in line["plan"].split(","))
    return (*(line["tiles"][name] for name in ("TM", "TN", "TK")), int(hints["consumers"]), int(hints["stages"]))


def ranked(tilec, shape):
    """[(plan, predicted us)], the first one first."""
    sizes = [word for name, n in zip("MNK", shape) for word in ("--size", f"{name}={n}")]
    said = subprocess.run([tilec, "search", GEMM, "-arch", "sm_90", "-D", "BIAS=false", "--built", "--json", "--rows", "0",
                           "--tuning=none", *sizes], capture_output=True, text=True, check=True).stdout
    lines = [json.loads(line) for line in said.splitlines()]
    return [(plan_of(line), 1000 * line["predicted_ms"]) for line in lines]


def measured(path):
    """{shape: {plan: us}}"""
    found = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            shape, plan = tuple(int(row[k]) for k in FIELDS[:3]), tuple(int(row[k]) for k in FIELDS[3:8])
            times = found.setdefault(shape, {})
            times[plan] = min(times.get(plan, math.inf), float(row["us"]))
    return found


def text_of(plan):
    return "{}x{}x{} {} {}".format(*plan)


def compare(options):
    shapes, good, known, unknown, off = measured(options.measured), 0, 0, 0, []
    print("M x N x K | taken, predicted | fastest, measured | taken / fastest")
    for shape, times in sorted(shapes.items()):
        plans = ranked(options.tilec, shape)
        predicted, (taken, expected) = dict(plans), plans[0]
        fastest = min(times, key=times.get)
        off += [math.log(predicted[plan] / us) for plan, us in times.items() if plan in predicted]
        if taken in times:
            over, how = times[taken] / times[fastest], "measured"
            known += 1
            good += over <= options.most
        else:
            unknown += 1
            over, how = expected / predicted.get(fastest, math.inf), "predicted"
        print(f"{'x'.join(map(str, shape)):18} | {text_of(taken):18} {expected:8.1f} | {text_of(fastest):18} {times[fastest]:8.1f}"
              f" | {over:.3f} {how}")
    print(f"{len(shapes)} shapes: {known} of the plans taken were measured, {good} of them are within "
          f"{100 * (options.most - 1):.0f} % of the fastest; {unknown} were not")
    average = 100 * statistics.mean(map(abs, off)) if off else 0
    if off:
        print(f"{len(off)} times predicted: {average:.1f} % off on average, {100 * min(off):+.0f} to {100 * max(off):+.0f} %")
    return 1 if good < max(known - options.miss, options.least) or average > options.off else 0


def drawn(text):
    count, seed = map(int, text.split(":"))
    draw = random.Random(seed)
    rows = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    return [(draw.choice(rows) if k % 4 else round(2 ** draw.uniform(0, 13)), *draw.choice(WEIGHTS)) for k in range(count)]


def prepare(options):
    os.makedirs(options.out, exist_ok=True)
    jobs, wanted = {}, []
    for shape in drawn(options.shapes):
        plans = ranked(options.tilec, shape)
        chosen = [plan for plan, us in plans if us <= WITHIN * plans[0][1]][:options.plans]
        wanted.append({"shape": shape, "plans": chosen})
        jobs.update(dict.fromkeys(chosen))

    def compile_one(plan):
        name = os.path.join(options.out, "-".join(map(str, plan)) + ".cubin")
        command = [options.tilec, GEMM, "-arch", "sm_90", "-D", "BIAS=false", "--tuning=none", "-o", name,
                   f"--plan=consumers={plan[3]},stages={plan[4]},q_stages=2" + (",pingpong=1" if plan[3] > 1 else "")]
        for name, value in zip(("TM", "TN", "TK"), plan):
            command += ["-D", f"{name}={value}"]
        return subprocess.run(command, check=False).returncode

    with ThreadPoolExecutor(options.jobs) as pool:
        failed = sum(code != 0 for code in pool.map(compile_one, jobs))
    with open(os.path.join(options.out, "products.json"), "w", encoding="utf-8") as file:
        json.dump(wanted, file)
    print(f"{len(wanted)} shapes, {len(jobs)} plans, {failed} failed")
    return 1 if failed else 0


def measure(options):
    sys.path.insert(0, os.path.join(ROOT, "examples", "python"))
    import gemm
    import timing
    import torch
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    with open(os.path.join(options.what[1], "products.json"), encoding="utf-8") as file:
        wanted = json.load(file)
    with open(options.csv, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(FIELDS + ["cublas_us"])
        for case in wanted:
            shape = tuple(case["shape"])
            inputs = gemm.Inputs(shape, "bf16")
            files = [("-".join(map(str, plan)), os.path.join(options.what[1], "-".join(map(str, plan)) + ".cubin"))
                     for plan in case["plans"]]
            built, _, bad = gemm.contenders_of(files, inputs, "bf16")
            for name, reason in bad.items():
                print(f"# {shape} {name}: {reason}")
            times = timing.measure(built, "spin", flush, random.Random(0), options.reps, 3, 200_000, warm_seconds=0.05)
            us = {name: 1000 * statistics.median(values) for name, values in times.items()}
            for name, value in us.items():
                if name != "cublas":
                    writer.writerow([*shape, *name.split("-"), f"{value:.2f}", f"{us['cublas']:.2f}"])
            out.flush()
            mine = [n for n in us if n != "cublas"]
            best = min(mine, key=us.get)
            first = "-".join(map(str, case["plans"][0]))
            print(f"{'x'.join(map(str, shape)):18} taken {first} {us.get(first, math.nan):.1f} us, fastest {best} {us[best]:.1f}, "
                  f"{us.get(first, math.nan) / us[best]:.3f}; cuBLAS {us['cublas']:.1f}, "
                  f"{us['cublas'] / us.get(first, math.nan):.3f} of it", flush=True)
            del inputs, built
            torch.cuda.empty_cache()
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="prepare, or measure FOLDER")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--measured", metavar="CSV")
    parser.add_argument("--most", type=float, default=1.03)
    parser.add_argument("--least", type=int, default=0, metavar="N", help="shapes whose plan must be known and that fast, at least")
    parser.add_argument("--miss", type=int, default=0, metavar="N", help="of those whose plan is known, so many may be slower")
    parser.add_argument("--off", type=float, default=math.inf, metavar="PERCENT", help="predictions are off by no more, on average")
    parser.add_argument("--out", default="products")
    parser.add_argument("--shapes", default="40:1", metavar="N:SEED")
    parser.add_argument("--plans", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--csv", default="products.csv")
    parser.add_argument("--reps", type=int, default=11)
    options = parser.parse_args()
    if os.sep in options.tilec:
        options.tilec = os.path.abspath(options.tilec)
    if options.what[:1] == ["prepare"]:
        return prepare(options)
    if options.what[:1] == ["measure"] and len(options.what) == 2:
        return measure(options)
    if not options.measured:
        parser.error("--measured CSV, prepare, or measure FOLDER")
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
