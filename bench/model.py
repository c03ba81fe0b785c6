"""model.py - the time that tilec predicts for plans of warp groups, against times measured on a GPU.

    python3 bench/model.py --tilec build/tilec                       # predicted against measured
    python3 bench/model.py --tilec build/tilec --fit [--rounds 200]  # constants that fit better

The measured times are the rows of tests/search/measured_h200.csv (--csv).  What a plan asks of the
units comes from `tilec search --built --json`; from there on this file computes as compiler/band_time.c
does, with the constants read from backends/ptx/sm90.c, and says so if the two disagree.  --fit changes
only constants that are properties of the chip (and of the code that tilec makes for it), never one for
each kernel.  --check BOUND: exit status 1 when one of the 20 best configurations of a case is predicted
worse than that, or the measured best (or one within 0.7 % of it) is not among the first three predicted.
"""

import argparse
import csv
import json
import math
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLAN = ("bands", "stages", "slots", "persistent", "dynamic", "overlap", "turns")
FIELDS = ("dir", "d", "causal", "seqlen", "M", "N") + PLAN + ("burst_ms", "sustained_ms", "around_ms")
BEST = 20
NOISE = 0.007  # two runs of one plan differ by up to 0.9 %


def read_record():
    """Constants of the target's record: band_times and three facts of the chip."""
    with open(os.path.join(ROOT, "backends", "ptx", "sm90.c")) as file:
        text = file.read()
    block = re.search(r"\.band_times = \{(.*?)\}", text, re.S)[1]
    times = {name: float(value) for name, value in re.findall(r"\.(\w+) = ([\d.]+)", block)}
    for name in ("sm_count", "burst_mhz", "copy_bytes"):
        times[name] = float(re.search(rf"\.{name} = (\d+)", text)[1])
    return times


# ---- band_time.c once more -----------------------------------------------------------------------------


def norm(a, b, power):
    most, least = max(a, b), min(a, b)
    return most * (1 + (least / most) ** power) ** (1 / power) if most > 0 else 0.0


def round_of(n, first, second, gap):
    at_first = at_second = total = 0.0
    for k in range(1, n + 1):
        a, b = first * (1 + at_first), second * (1 + at_second)
        total = a + b + gap
        at_first, at_second = k * a / total, k * b / total
    return total


def predict(features, plan, t):
    """Milliseconds; None for what the model has no features of."""
    work, trips, n = features["work"], features["trips"], plan["bands"]
    products = norm(work["tensor"], work["shared"], t["port_power"])
    arithmetic = work["special"] + t["issue"] * work["issue"]
    if features["joint"]:
        clocks = n * (products + arithmetic) + t["joint"]
    elif features["overlapped"] and plan["overlap"]:
        clocks = round_of(2 * n, products / 2, arithmetic / 2, t["gap"])
    else:
        clocks = round_of(n, products, arithmetic, t["gap"])
    clocks = max(clocks + n * t["band"], work["ring_bytes"] / t["copy_bytes"])
    if plan["stages"] == 1:
        clocks += t["copy_latency"] + work["ring_bytes"] / t["copy_bytes"] / 2
    start = t["tile"] + n * work["stored"] / t["copy_bytes"]
    if not plan["persistent"]:
        start += t["block"]
    draws = features["uneven"] and plan["persistent"] and plan["dynamic"]
    if features["joint"] and not features["ahead"] and draws:
        start += t["draw"]
    masks = 0 if features["joint"] else t["issue"] * trips["masks"] * n * t["mask"]
    tile = trips["each"] * clocks + start + masks
    waves = trips["blocks"] / t["sm_count"]
    if not features["uneven"]:
        total = math.ceil(waves) * tile
    elif plan["dynamic"] or not plan["persistent"]:
        total = (waves + t["tail"]) * tile
    else:
        return None  # tiles of different length, dealt out blindly: nobody chooses that
    return (total + t["launch"]) / t["burst_mhz"] / 1e3


# ---- features ------------------------------------------------------------------------------------------


def key_of(row):
    return (row["dir"], row["d"], row["causal"], row["seqlen"])


def features_of(tilec, rows):
    """{(case, M, N, bands): the line of JSON}, checked against this file's own formula."""
    record, found = read_record(), {}
    cases = {}
    for row in rows:
        cases.setdefault(key_of(row), set()).add((row["M"], row["N"], row["bands"]))
    for case, wanted in cases.items():
        direction, d, causal, length = case
        heads, batch = 2048 // d, 16384 // length
        lists = ["--tile-m", ",".join(str(m) for m in sorted({w[0] for w in wanted})),
                 "--tile-n", ",".join(str(n) for n in sorted({w[1] for w in wanted}))]
        command = [tilec, "search", os.path.join(ROOT, "examples", "attention.tile"), "-arch", "sm_90", "--built",
                   "--json", "--rows", "0", "-D", f"D={d}", "-D", f"CAUSAL={'true' if causal else 'false'}"] + lists
        for name, value in (("Sq", length), ("Sk", length), ("Hq", heads), ("Hk", heads), ("B", batch)):
            command += ["--size", f"{name}={value}"]
        if direction == "bwd":
            command += ["--mode", "bwd"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for text in done.stdout.splitlines():
            line = json.loads(text)
            plan = {name: int(value) for name, value in (p.split("=") for p in line["plan"].split(","))}
            mine = predict(line, plan, record)
            if mine is not None and abs(mine / line["predicted_ms"] - 1) > 1e-4:
                raise SystemExit(f"{text}\nmodel.py predicts {mine} ms: it does not compute as band_time.c does")
            found[case, line["tiles"]["M"], line["tiles"]["N"], plan["bands"]] = line
    return found


def read_rows(path):
    with open(path, newline="") as file:
        lines = (line for line in file if not line.startswith("#"))
        return [{name: value if name == "dir" else float(value) if name.endswith("_ms") else int(value)
                 for name, value in row.items()} for row in csv.DictReader(lines)]


def judged(rows, features, times):
    """{case: [(measured, predicted, row)]}, the quickest first; without what does not fit."""
    cases = {}
    for row in rows:
        line = features.get((key_of(row), row["M"], row["N"], row["bands"]))
        predicted = predict(line, row, times) if line else None
        if predicted is not None:
            cases.setdefault(key_of(row), []).append((row["burst_ms"] - row["around_ms"], predicted, row))
    return {case: sorted(of_case, key=lambda r: r[0]) for case, of_case in cases.items()}


def name_of(row):
    flags = "" if row["persistent"] else " tile a block"
    flags += "" if row["overlap"] else " no overlap"
    flags += "" if row["turns"] or row["bands"] == 1 else " no turns"
    return f"{row['M']}x{row['N']} bands {row['bands']} stages {row['stages']} slots {row['slots']}{flags}"


def rank_of_best(of_case):
    """The place, by prediction, of the best measured; plans that differ in nothing predicted share one."""
    good = min(measured for measured, _, _ in of_case) * (1 + NOISE)
    order = sorted({round(predicted, 6) for _, predicted, _ in of_case})
    return 1 + min(order.index(round(predicted, 6)) for measured, predicted, _ in of_case if measured <= good)


def report(cases, quiet):
    worst, last = 0.0, 0
    for case, of_case in cases.items():
        direction, d, causal, length = case
        best = of_case[:BEST]
        errors = [predicted / measured - 1 for measured, predicted, _ in best]
        rank = rank_of_best(of_case)
        largest = max(errors, key=abs)
        print(f"{direction} d={d} {'causal' if causal else 'full'} s={length}: {len(of_case)} plans; the {len(best)} "
              f"best: largest error {100 * largest:+.1f} %, mean {100 * sum(map(abs, errors)) / len(best):.1f} %; "
              f"the measured best is predicted to be number {rank}")
        worst, last = max(worst, abs(largest)), max(last, rank)
        for measured, predicted, row in [] if quiet else best:
            print(f"  {measured:7.3f} ms  predicted {predicted:7.3f}  {100 * (predicted / measured - 1):+6.1f} %  "
                  f"{name_of(row)}")
    return worst, last


# ---- fitting -------------------------------------------------------------------------------------------

FITTED = ("port_power", "issue", "gap", "band", "joint", "tile", "block", "draw", "mask", "tail",
          "copy_latency")


def loss(rows, features, times):
    total = n = 0.0
    for of_case in judged(rows, features, times).values():
        best = of_case[0][0]
        for measured, predicted, _ in of_case:
            weight = (best / measured) ** 4  # what is far from the best matters little
            total += weight * math.log(predicted / measured) ** 2
            n += weight
    return math.sqrt(total / n)


def fit(rows, features, times, rounds):
    steps = {name: 0.2 for name in FITTED}
    best = loss(rows, features, times)
    for _ in range(rounds):
        for name in FITTED:
            before = times[name]
            for sign in (1, -1):
                times[name] = before * (1 + sign * steps[name])
                now = loss(rows, features, times)
                if now < best - 1e-9:
                    best, steps[name] = now, min(0.5, steps[name] * 1.3)
                    break
                times[name] = before
            else:
                steps[name] *= 0.6
        if max(steps.values()) < 1e-3:
            break
    print(f"root of the mean square error {100 * best:.2f} %")
    for name in FITTED:
        print(f"  .{name} = {times[name]:.4g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--csv", default=os.path.join(ROOT, "tests", "search", "measured_h200.csv"))
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--check", type=float, metavar="BOUND", help="largest error allowed, as 0.15")
    options = parser.parse_args()
    rows, times = read_rows(options.csv), read_record()
    features = features_of(os.path.abspath(options.tilec), rows)
    if options.fit:
        fit(rows, features, times, options.rounds)
    worst, last = report(judged(rows, features, times), options.quiet)
    print(f"largest error {100 * worst:.1f} %, worst place of a measured best {last}")
    return 1 if options.check is not None and (worst > options.check or last > 3) else 0


if __name__ == "__main__":
    sys.exit(main())
