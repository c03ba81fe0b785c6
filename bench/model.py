"""model.py - the time that tilec predicts for plans of warp groups, against times measured on a GPU.

    python3 bench/model.py --tilec build/tilec                       # predicted against measured
    python3 bench/model.py --tilec build/tilec --fit [--rounds 200]  # constants that fit better

The measured times are the rows of tests/search/measured_h200.csv (--csv).  What a plan asks of the
units comes from `tilec search --built --json`; from there on this file computes as compiler/cost/consumer_time.c
does, with the constants read from backends/ptx/sm90.c and targets.h, and says so if the two disagree.  --fit changes
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
PLAN = ("consumers", "stages", "q_stages", "persistent", "dynamic", "pipelined", "pingpong", "cooperative")
CASE = ("kernel", "d", "mask", "seqlen")
FIELDS = CASE + ("M", "N") + PLAN + ("burst_ms", "sustained_ms")
BEST = 20
NOISE = 0.007  # two runs of one plan differ by up to 0.9 %


def read_record():
    """Constants of the target's record: consumer_times and three facts of the chip."""
    with open(os.path.join(ROOT, "backends", "ptx", "sm90.c")) as file:
        text = file.read()
    with open(os.path.join(ROOT, "backends", "ptx", "targets.h")) as file:
        shared = re.search(r"#define H200_TILES(.*?)\n\n", file.read(), re.S)[1]
    block = re.search(r"\.consumer_times = \{(.*?)\}", text, re.S)[1] + shared
    times = {name: float(value) for name, value in re.findall(r"\.(\w+) = ([\d.]+)", block)}
    for name in ("sm_count", "burst_mhz", "copy_bytes"):
        times[name] = float(re.search(rf"\.{name} = (\d+)", text)[1])
    return times


# ---- consumer_time.c once more -----------------------------------------------------------------------------


def norm(a, b, power):
    most, least = max(a, b), min(a, b)
    return most * (1 + (least / most) ** power) ** (1 / power) if most > 0 else 0.0


def round_of(n, waited, under, second, gap):
    at_first = at_second = total = 0.0
    first = waited + under
    for k in range(1, n + 1):
        a, b = waited + first * at_first, second * (1 + at_second)
        total = max(a + b + gap, k * first, k * second)
        at_first, at_second = k * (a + under) / total, k * b / total
    return total


def iteration_of(features, plan, t):
    """Clocks of an iteration, and what all but a tile's first wait for copies."""
    work, n = features["work"], plan["consumers"]
    products = norm(work["tensor"], work["shared"], t["port_power"])
    arithmetic = work["special"] + t["issue"] * work["issue"] + t["vector"] * work["vectors"]
    arithmetic += 0 if features["coop_k"] else t["round"]
    pipelines = features["pipelined"] and plan["pipelined"]
    ahead = work["lookahead"] and plan["pipelined"] and plan["stages"] > 1
    share = work["stage0"] if pipelines else work["after"] + (0 if ahead else work["first"])
    in_order = not pipelines and not features["coop_k"]
    share += 0 if in_order else t["under"] * (1 - share)
    clocks = round_of(n, products * share, products * (1 - share), arithmetic,
                      t["gap"] + (t["gap_in_order"] if in_order else 0))
    clocks += (n - 1) * t["coop_k"] if features["coop_k"] else 0
    clocks = max(clocks, work["pipeline_bytes"] / t["copy_bytes"])
    clocks += t["added"] * n * work["added"]
    spare = work.get("spare", False)  # one tile has a second stage, and the other one
    if work["cooperative"] or (plan["stages"] > 1 and not spare):
        return clocks, 0.0
    if spare:
        return clocks, t["copy_latency"]
    if features["coop_k"]:
        return clocks, t["copy_latency"] + work["tensor"]
    return clocks, t["copy_latency"] * (1 if pipelines or work["held"] else t["copy_part"])


def drawn_in_rounds(trips, each, clocks, tile, sm_count):
    """Clocks of tiles that are drawn, the longest first: all of them shared out evenly, or the longest in rounds."""
    rounds = [math.ceil(as_long / sm_count) * (tile + (length / trips["each"] - 1) * each * clocks)
              for length, as_long in trips["lengths"]]
    return max([trips["blocks"] / sm_count * tile] + rounds)


def predict(features, plan, t):
    """Milliseconds; None for what the model has no features of."""
    work, trips, n = features["work"], features["trips"], plan["consumers"]
    clocks, wait = iteration_of(features, plan, t)
    start = t["tile"] + t["fill"] * clocks + n * work["stored"] / t["store_bytes"]
    if not plan["persistent"]:
        start += t["block"]
    elif plan["q_stages"] == 1:
        pipelines = features["pipelined"] and plan["pipelined"]
        start += (t["stage"] if pipelines else 1) * (t["copy_latency"] + work["once_bytes"] / t["copy_bytes"])
    masks = t["issue"] * trips["masks"] * n * t["mask"] * (t["mask_coop_k"] if features["coop_k"] else 1)
    each = trips["each"] + t["idle"] * (trips["most"] - trips["each"])
    tile = each * (clocks + wait) - wait + start + masks
    waves = trips["blocks"] / t["sm_count"]
    drawn = features["variable_trips"] and (plan["dynamic"] or not plan["persistent"])
    if drawn or (features["sliding"] and plan["dynamic"]):
        total = drawn_in_rounds(trips, each, clocks + wait, tile, t["sm_count"])
    elif features["sliding"] and plan["persistent"]:  # the SM that is dealt the most
        dealt = each / trips["each"] * trips["static"]
        total = math.ceil(waves) * (start - wait + masks) + dealt * (clocks + wait)
    elif not features["variable_trips"]:
        total = math.ceil(waves) * tile
    else:
        return None  # tiles of different length, dealt out blindly: nobody chooses that
    return (total + t["launch"]) / t["burst_mhz"] / 1e3


# ---- features ------------------------------------------------------------------------------------------

MASKS = {"full": {}, "causal": {"CAUSAL": "true"}, "window1024": {"CAUSAL": "true", "WINDOW": "1024"},
         "softcap": {"SOFTCAP": "true"}}
EVERY_16 = ",".join(str(n) for n in range(32, 257, 16))
UP_TO_128 = "32,48,64,80,96,112,128"
# sizes of tiles to look at, by kernel
EVERY = {"attention": ["--tile-m", "64", "--tile-n", EVERY_16],
         "attention_bwd": ["--tile-m", UP_TO_128, "--tile-n", "64"],
         "attention_bwd_dkdv": ["--tile-m", UP_TO_128, "--tile-n", "64"],
         "attention_bwd_dq": ["--tile-m", "64", "--tile-n", EVERY_16]}


def source_of(kernel):
    return os.path.join(ROOT, "examples", "attention.tile" if kernel == "attention" else "attention_bwd.tile")


def defines(d, mask):
    return [word for name, value in {"D": d, **MASKS[mask]}.items() for word in ("-D", f"{name}={value}")]


def search(tilec, kernel, d, mask, length, lists):
    """What tilec says of all plans that it builds, with such lists of tiles: [line of JSON]"""
    command = [tilec, "search", source_of(kernel), "--kernel", kernel, "-arch", "sm_90", "--built", "--json", "--rows",
               "0"] + defines(d, mask) + lists
    heads, batch = 2048 // d, 16384 // length
    for name, value in (("Sq", length), ("Sk", length), ("Hq", heads), ("Hk", heads), ("B", batch)):
        command += ["--size", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    return [json.loads(text) for text in done.stdout.splitlines()] if done.returncode == 0 else []


def plan_of(line):
    said = dict(p.split("=") for p in line["plan"].split(","))
    return {name: int(said.get(name, 0)) for name in PLAN}


def key_of(row):
    return tuple(row[name] for name in CASE)


def features_of(tilec, rows):
    """{(case, M, N, consumers): the line of JSON}, checked against this file's own formula."""
    record, found, cases = read_record(), {}, {}
    for row in rows:
        cases.setdefault(key_of(row), set()).add((row["M"], row["N"], row["cooperative"]))
    for case, wanted in cases.items():
        lines = []
        for divide in sorted({w[2] for w in wanted}):
            lists = ["--tile-m", ",".join(str(m) for m in sorted({w[0] for w in wanted if w[2] == divide})),
                     "--tile-n", ",".join(str(n) for n in sorted({w[1] for w in wanted if w[2] == divide}))]
            lines += search(tilec, *case, [] if divide else lists)
        for line in lines:
            if "blocks=2" in line["plan"]:  # of two blocks an SM no row was measured
                continue
            plan = plan_of(line)
            mine = predict(line, plan, record)
            if mine is not None and abs(mine / line["predicted_ms"] - 1) > 1e-4:
                raise SystemExit(f"{line}\nmodel.py predicts {mine} ms: it does not compute as consumer_time.c does")
            found[case, line["tiles"]["M"], line["tiles"]["N"], plan["consumers"]] = line
    return found


def value_of(name, text):
    if name in ("kernel", "mask"):
        return text
    return (float(text) if text else None) if name.endswith("_ms") else int(text)


def read_rows(path):
    with open(path, newline="") as file:
        lines = (line for line in file if not line.startswith("#"))
        return [{name: value_of(name, text) for name, text in row.items()} for row in csv.DictReader(lines)]


def judged(rows, features, times):
    """{case: [(measured, predicted, row)]}, the quickest first; without what does not fit."""
    cases = {}
    for row in rows:
        line = features.get((key_of(row), row["M"], row["N"], row["consumers"]))
        predicted = predict(line, row, times) if line else None
        if predicted is not None:
            cases.setdefault(key_of(row), []).append((row["burst_ms"], predicted, row))
    return {case: sorted(of_case, key=lambda r: r[0]) for case, of_case in cases.items()}


def name_of(row):
    flags = "" if row["persistent"] else " tile a block"
    flags += "" if row["pipelined"] else " no overlap"
    flags += "" if row["pingpong"] or row["consumers"] == 1 else " no ping-pong"
    return f"{row['M']}x{row['N']} consumers {row['consumers']} stages {row['stages']} q_stages {row['q_stages']}{flags}"


def rank_of_best(of_case):
    """The place, by prediction, of the best measured; plans that differ in nothing predicted share one."""
    good = min(measured for measured, _, _ in of_case) * (1 + NOISE)
    order = sorted({round(predicted, 6) for _, predicted, _ in of_case})
    return 1 + min(order.index(round(predicted, 6)) for measured, predicted, _ in of_case if measured <= good)


def report(cases, quiet):
    worst, last = 0.0, 0
    for case, of_case in cases.items():
        kernel, d, mask, length = case
        best = of_case[:BEST]
        errors = [predicted / measured - 1 for measured, predicted, _ in best]
        rank = rank_of_best(of_case)
        largest = max(errors, key=abs)
        print(f"{kernel} d={d} {mask} s={length}: {len(of_case)} plans; the {len(best)} "
              f"best: largest error {100 * largest:+.1f} %, mean {100 * sum(map(abs, errors)) / len(best):.1f} %; "
              f"the measured best is predicted to be number {rank}")
        worst, last = max(worst, abs(largest)), max(last, rank)
        for measured, predicted, row in [] if quiet else best:
            print(f"  {measured:7.3f} ms  predicted {predicted:7.3f}  {100 * (predicted / measured - 1):+6.1f} %  "
                  f"{name_of(row)}")
    return worst, last


# ---- fitting -------------------------------------------------------------------------------------------

FITTED = ("port_power", "issue", "round", "gap", "gap_in_order", "under", "coop_k", "vector", "added", "tile", "fill",
          "block", "slot", "idle", "store_bytes", "mask", "mask_coop_k", "copy_latency", "copy_part")


def solved(matrix, right):
    """x of matrix x = right, by elimination."""
    n = len(right)
    rows = [matrix[i][:] + [right[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(n):
            if r != i:
                times = rows[r][i] / rows[i][i]
                rows[r] = [a - times * b for a, b in zip(rows[r], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def residuals(chosen, times):
    """What the fit makes small: errors, of what is far from the best of its case less; how errors differ within a
    case, among its best (they decide what is chosen); how far constants go from those of the record."""
    found = []
    for of_case in chosen:
        errors = [math.log(max(predict(line, row, times), 1e-6) / row["burst_ms"]) for line, row, _ in of_case]
        near = [share ** 6 for _, _, share in of_case]
        mean = sum(e * w for e, w in zip(errors, near)) / sum(near)
        found += [e * share ** 2 for e, (_, _, share) in zip(errors, of_case)]
        found += [(e - mean) * w for e, w in zip(errors, near)]
    return found


def fit(rows, features, times, rounds, keep):
    """The method of Levenberg and Marquardt, for logarithms of the constants."""
    names = [name for name in FITTED if name not in keep]
    chosen, record = [], dict(times)
    for of_case in judged(rows, features, times).values():
        best = of_case[0][0]
        chosen.append([(features[key_of(row), row["M"], row["N"], row["consumers"]], row, best / measured)
                       for measured, _, row in of_case])

    def at(x):
        times.update((name, record[name] * math.exp(v)) for name, v in zip(names, x))
        return residuals(chosen, times) + x

    x, damping, step = [0.0] * len(names), 1e-2, 1e-3
    now = at(x)
    for _ in range(rounds):
        slopes = [[(a - b) / step for a, b in zip(at(x[:k] + [x[k] + step] + x[k + 1:]), now)] for k in range(len(x))]
        square = [[sum(a * b for a, b in zip(s, r)) for r in slopes] for s in slopes]
        right = [-sum(a * e for a, e in zip(s, now)) for s in slopes]
        loss, better = sum(e * e for e in now), False
        while not better and damping < 1e7:
            damped = [[v * (1 + damping) if i == k else v for k, v in enumerate(row)] for i, row in enumerate(square)]
            there = [v + max(-0.3, min(0.3, d)) for v, d in zip(x, solved(damped, right))]
            after = at(there)
            better = sum(e * e for e in after) < loss
            damping *= 0.3 if better else 5
        if not better:
            break
        small = sum(e * e for e in after) > loss * (1 - 2e-5)
        x, now = there, after
        if small:
            break
    at(x)
    for name in FITTED:
        print(f"  .{name} = {times[name]:.4g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--csv", default=os.path.join(ROOT, "tests", "search", "measured_h200.csv"))
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--keep", default="", metavar="NAME,..", help="constants that --fit leaves as they are")
    parser.add_argument("--only", default="", metavar="REGEX", help="fit these cases alone: KERNEL-D-MASK-LENGTH")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--check", type=float, metavar="BOUND", help="largest error allowed, as 0.15")
    options = parser.parse_args()
    rows, times = read_rows(options.csv), read_record()
    features = features_of(os.path.abspath(options.tilec), rows)
    if options.fit:
        fit([row for row in rows if re.search(options.only, "-".join(map(str, key_of(row))))], features, times,
            options.rounds, options.keep.split(","))
    worst, last = report(judged(rows, features, times), options.quiet)
    print(f"largest error {100 * worst:.1f} %, worst place of a measured best {last}")
    return 1 if options.check is not None and (worst > options.check or last > 3) else 0


if __name__ == "__main__":
    sys.exit(main())
