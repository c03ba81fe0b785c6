#!/usr/bin/env python3
"""clock_plans.py - the simulator's clock against kernels that an H200 ran (docs/timing.md).

    clock_plans.py --tilec TILEC --tilerun TILERUN [--ptx] [--head 64|128] [--json FILE]
    clock_plans.py --tilec TILEC --tilerun TILERUN --counted      beside cycles that Nsight Compute counted (tests/sim/ncu-h200.csv)
    clock_plans.py --tilec TILEC --tilerun TILERUN --launches     the same of 8 heads by tilec's own plans: forward, causal, backward
    clock_plans.py --tilec TILEC --tilerun TILERUN --ladder [--head 64|128] [--backward]   forms for sm_100, which nothing has run

Plans of examples/attention.tile, forward, without a mask, length 4096, of tests/search/measured_h200.csv: the first eight of
head dimension 64 and the first nine of 128 count as seen; the others of that file stay unseen until the figures of
the clock are frozen.  Each is replayed with one and with three tiles of work for an SM; from these follow the clocks of a tile
in the steady state, and those of the launch that was measured: `burst_ms` beside 1980 MHz, `sustained_ms` beside the frequency that
the clock gives for a chip at its power limit.

--ladder: attention forward for sm_100 by switches, each rung with what those before it have, and today's form without one
switch.  Clocks of 256 rows by 128 keys: the difference of launches of 4096 and 2048 keys (with a causal mask: and queries), 8 heads.
With --backward kernel attention_bwd, without a mask: clocks of 128 x 128, the difference of launches of 2048 and 1024 queries, 4096
keys.  Additions to memory have twice the table's rate, since by that one they bind every form with roles.
"""
import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEEN = {64: 8, 128: 9}
TOKENS, HEADS_WIDE, LENGTH, SMS, MHZ = 16384, 2048, 4096, 132, 1980
BUSY_MHZ, POINT_MHZ = 1627, 4.2  # of sm90_clock.c
PLAN = ["consumers", "stages", "q_stages", "persistent", "dynamic", "pipelined", "pingpong", "cooperative"]


def seen_rows(head):
    with open(os.path.join(ROOT, "tests", "search", "measured_h200.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    rows = [r for r in rows if r["kernel"] == "attention" and r["mask"] == "full" and int(r["seqlen"]) == LENGTH and
            int(r["d"]) == head]
    return rows[:SEEN[head]]


def compile_plan(tilec, row, path):
    plan = ",".join(f"{name}={row[name]}" for name in PLAN)
    done = subprocess.run([tilec, os.path.join(ROOT, "examples", "attention.tile"), "-arch", "sm_90", "-D", f"D={row['d']}", "-D",
                           f"M={row['M']}", "-D", f"N={row['N']}", f"--plan={plan}", "-o", path], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)


def replay(tilerun, path, heads, how):
    said = subprocess.run([tilerun, path, "--random", "--set", "B=1", "--set", f"Hq={heads}", "--set", f"Hk={heads}", "--set",
                           f"Sq={LENGTH}", "--set", f"Sk={LENGTH}", "--device", "sim", "--no-check", "--time",
                           "sm_90,sample" + how], capture_output=True, text=True)
    found = re.search(r"(\d+) cycles \(", said.stdout)
    if not found or "never comes" in said.stdout:
        raise RuntimeError(said.stdout + said.stderr)
    if "machine code was not read" in said.stdout and ",ptx" not in how:
        sys.exit("clock_plans.py: costs of PTX are off by 50 % and more: nvdisasm or ptxas is missing (--ptx takes them all the same)")
    tensor = re.search(r"tensor unit (\d+) %", said.stdout)
    return int(found[1]), int(tensor[1]), said.stdout


def tau(pairs):
    """Kendall's, of (measured, replayed)."""
    signs = [((a[0] > b[0]) - (a[0] < b[0])) * ((a[1] > b[1]) - (a[1] < b[1])) for i, a in enumerate(pairs) for b in pairs[:i]]
    return sum(signs) / len(signs)


def counted(args):
    """Launches of three tiles an SM: cycles of the SM that is busy longest."""
    with open(os.path.join(ROOT, "tests", "sim", "ncu-h200.csv"), encoding="utf-8") as file:
        known = {row["name"]: row for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.ptx")
        for head in [args.head] if args.head else SEEN:
            pairs = []
            for number, row in enumerate(seen_rows(head)):
                if args.only is not None and number != args.only:
                    continue
                compile_plan(args.tilec, row, path)
                measured = known[f"plan{head}_{number}"]
                cycles, _, _ = replay(args.tilerun, path, int(measured["heads"]), ",ptx" if args.ptx else "")
                pairs.append((int(measured["cycles_active_max"]), cycles))
                print(f"d {head} plan {number}: counted {pairs[-1][0]}, replayed {cycles} ({100 * cycles / pairs[-1][0] - 100:+.1f} %)",
                      flush=True)
            errors = [r / m - 1 for m, r in pairs]
            rank = f"; Kendall's tau {tau(pairs):.2f}" if len(pairs) > 1 else ""
            print(f"d {head}: mean error {100 * sum(map(abs, errors)) / len(errors):.1f} %, worst {100 * max(map(abs, errors)):.1f} %, on "
                  f"average {100 * sum(errors) / len(errors):+.1f} %{rank}")
    return 0


LAUNCHES = {"fwd64_full": [], "fwd64_causal": ["CAUSAL=true"], "fwd128_full": [], "fwd128_causal": ["CAUSAL=true"], "bwd64_full": [],
            "bwd128_full": []}


def launches(args):
    """Kernels of launches of 8 heads; and how long the mean SM is active, where tiles were dealt."""
    with open(os.path.join(ROOT, "tests", "sim", "ncu-h200.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    with tempfile.TemporaryDirectory() as folder:
        path, into = os.path.join(folder, "a.ptx"), os.path.join(folder, "a.json")
        for name, constants in LAUNCHES.items():
            head = name[3:].split("_")[0]
            if args.head and head != str(args.head):
                continue
            source = "attention.tile" if name.startswith("fwd") else "attention_bwd.tile"
            subprocess.run([args.tilec, os.path.join(ROOT, "examples", source), "-arch", "sm_90", "-D", f"D={head}",
                            *[word for c in constants for word in ["-D", c]], "-o", path], check=True, capture_output=True)
            replay(args.tilerun, path, 8, f",json={into}" + (",ptx" if args.ptx else ""))
            with open(into, encoding="utf-8") as file:
                got = {line["kernel"]: line for line in map(json.loads, file)}
            os.remove(into)
            for row in rows:
                line = got.get(row["kernel"])
                if row["name"] != name or line is None:
                    continue
                counted, mean = int(row["cycles_active_max"]), re.search(r"mean one at (\d+) %", line.get("dealt", ""))
                share = f"; the mean SM {100 * int(row['cycles_active_avg']) / counted:.0f} % of it, dealt {mean[1]} %" if mean else ""
                print(f"{name} {row['kernel']}: counted {counted}, replayed {line['cycles']} "
                      f"({100 * line['cycles'] / counted - 100:+.1f} %){share}", flush=True)


OFF = ["-fno-split-exp2", "-fno-operand-pieces", "-fno-begin-early"]
TWO = ["-D", "M=128", "-D", "N=128", "--plan=consumers=2,stages=2"]
RUNGS = [
    ("one role, products of warps", ["--plan=none"]),
    ("roles, tensor memory, one tile of queries", ["-D", "M=128", "-D", "N=128", "--plan=consumers=1,stages=2", *OFF]),
    ("two tiles of queries", TWO + OFF),
    ("exponentials partly by polynomial", TWO + OFF[1:]),
    ("operands in pieces", TWO + OFF[2:]),
    ("begun before the vote: today's form", TWO),
    ("today's form without polynomials", TWO + OFF[:1]),
    ("today's form without pieces", TWO + OFF[1:2]),
    ("today's form, sums changed by a role of their own", TWO[:-1] + [TWO[-1] + ",correction=1"]),
    ("today's form over pairs of blocks", TWO[:-1] + [TWO[-1] + ",cluster=2"]),
    ("what auto chooses", []),
]


def sample(args, path, sizes, time):
    """(cycles, warp instructions, blocks of one SM, all blocks) of a launch of which the blocks of one SM are run."""
    said = subprocess.run([args.tilerun, path, "--random", *(w for k, v in sizes.items() for w in ("--set", f"{k}={v}")), "--device",
                           "sim", "--no-check", "--time", time], capture_output=True, text=True).stdout
    if "machine code was not read" in said:
        sys.exit("clock_plans.py: costs of PTX are no prediction: nvdisasm or ptxas is missing")
    cycles = re.search(r"(\d+) cycles \(", said)
    part = re.search(r"of one SM: (\d+) of (\d+) blocks.* (\d+) warp instructions", said)
    if not cycles or not part or "never comes" in said:
        raise RuntimeError(said)
    return int(cycles[1]), int(part[3]), int(part[1]), int(part[2])


def rung(args, path, flags, causal):
    """(clocks, warp instructions) of 256 rows by 128 keys."""
    done = subprocess.run([args.tilec, os.path.join(ROOT, "examples", "attention.tile"), "-arch", "sm_100", "-D", f"D={args.head or 128}",
                           "-D", f"CAUSAL={'true' if causal else 'false'}", "-Wno-plan", "-o", path, *flags], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    at = []
    for keys in [LENGTH // 2, LENGTH]:
        sizes = {"B": 1, "Hq": 8, "Hk": 8, "Sq": keys if causal else LENGTH, "Sk": keys}
        cycles, instructions, here, blocks = sample(args, path, sizes, "sm_100,sample")
        rows = here / blocks * sizes["Sq"] * 8
        if any("cluster=2" in flag for flag in flags): # the sample has both blocks, side by side
            rows /= 2
        at.append((cycles, instructions, rows))
    per = (LENGTH // 2 / 128) * at[1][2] / 256
    return tuple((at[1][k] - at[0][k]) / per for k in range(2))


BACKWARD = ["-D", "M=128", "-D", "N=128"]
RUNGS_BACKWARD = [
    ("one role, products of warps", ["--plan=none"]),
    ("roles, tensor memory, one stage of tiles", BACKWARD + ["--plan=consumers=1,stages=1", "-fno-stmatrix"]),
    ("dS to shared memory by matrices (`stmatrix`)", BACKWARD + ["--plan=consumers=1,stages=1"]),
    ("two stages, the next scores under dS: today's form", BACKWARD + ["--plan=consumers=1,stages=2"]),
    ("today's form without `stmatrix`", BACKWARD + ["--plan=consumers=1,stages=2", "-fno-stmatrix"]),
    ("what auto chooses", []),
]


def rung_backward(args, path, flags):
    """(clocks, warp instructions) of 128 queries by 128 keys."""
    subprocess.run([args.tilec, os.path.join(ROOT, "examples", "attention_bwd.tile"), "-arch", "sm_100", "-D", f"D={args.head or 128}",
                    "--kernel", "attention_bwd", "-Wno-plan", "-Wno-spill", "-o", path, *flags], check=True, capture_output=True)
    at = []
    for queries in [LENGTH // 4, LENGTH // 2]:
        sizes = {"B": 1, "Hq": 8, "Hk": 8, "Sq": queries, "Sk": LENGTH}
        cycles, instructions, here, blocks = sample(args, path, sizes, "sm_100,sample,chip_add=4000")
        at.append((cycles, instructions, -(-LENGTH // 128 * 8 // blocks) if blocks <= 148 else here))
    tiles = LENGTH // 4 // 128 * at[1][2]
    return tuple((at[1][k] - at[0][k]) / tiles for k in range(2))


def ladder_backward(args):
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in RUNGS_BACKWARD:
            clocks, count = rung_backward(args, os.path.join(folder, "a.ptx"), flags)
            print(f"| {name} | {clocks:.0f} | {count:.0f} |", flush=True)
    return 0


def ladder(args):
    """The rows of the table in docs/performance.md."""
    if args.backward:
        return ladder_backward(args)
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in RUNGS:
            masks = [False, True] if any(f.startswith(TWO[-1]) for f in flags) or not flags else [False]  # of causal tiles one SM's are of two lengths else
            cells = [rung(args, os.path.join(folder, "a.ptx"), flags, causal) for causal in masks]
            print(f"| {name} | " + " | ".join(f"{clocks:.0f} | {count:.0f}" for clocks, count in cells) + " |", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--ptx", action="store_true", help="costs of PTX, no machine code")
    parser.add_argument("--head", type=int, choices=SEEN)
    parser.add_argument("--only", type=int, help="the plan of this number")
    parser.add_argument("--json")
    parser.add_argument("--counted", action="store_true")
    parser.add_argument("--launches", action="store_true")
    parser.add_argument("--ladder", action="store_true")
    parser.add_argument("--backward", action="store_true", help="with --ladder")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if args.counted or args.launches:
        return counted(args) if args.counted else launches(args)
    if args.ladder:
        return ladder(args)
    out = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.ptx")
        for head in [args.head] if args.head else SEEN:
            for number, row in enumerate(seen_rows(head)):
                if args.only is not None and number != args.only:
                    continue
                compile_plan(args.tilec, row, path)
                each = LENGTH // (int(row["consumers"]) * int(row["M"]))  # tiles of work of a head, the last one short
                each += LENGTH % (int(row["consumers"]) * int(row["M"])) != 0
                cycles = {}
                for tiles in [1, 3]:
                    heads = max(1, SMS * tiles // each)
                    cycles[-(-heads * each // SMS)], busy, said = replay(args.tilerun, path, heads, ",ptx" if args.ptx else "")
                (few, first), (many, last) = min(cycles.items()), max(cycles.items())
                tile = (last - first) / (many - few)
                waves = -(-TOKENS // LENGTH * HEADS_WIDE // head * each // SMS)
                launch = first + (waves - few) * tile
                limit = min(MHZ, BUSY_MHZ + POINT_MHZ * (100 - busy))
                burst, sustained = float(row["burst_ms"]), float(row["sustained_ms"])
                out.append({"head": head, "plan": number, "M": row["M"], "N": row["N"], "consumers": row["consumers"], "tile": tile,
                            "launch": launch, "measured": burst, "error": launch / (1e3 * MHZ) / burst - 1, "tensor": busy,
                            "error_at_limit": launch / (1e3 * limit) / sustained - 1})
                print(f"d {head} plan {number} ({row['consumers']} x {row['M']} x {row['N']}): a tile {tile:.0f} clocks, the launch "
                      f"{launch:.0f}: {launch / 1e3 / MHZ:.4f} ms at {MHZ} MHz, measured {burst} ({100 * out[-1]['error']:+.1f} %); "
                      f"{launch / 1e3 / limit:.4f} at {limit:.0f} MHz, measured without pause {sustained} "
                      f"({100 * out[-1]['error_at_limit']:+.1f} %)", flush=True)
                if args.verbose:
                    print(said)
    for head in sorted({o["head"] for o in out}):
        of = [o for o in out if o["head"] == head]
        rank = f"; Kendall's tau {tau([(o['measured'], o['launch']) for o in of]):.2f}" if len(of) > 1 else ""
        for key, what in [("error", f"at {MHZ} MHz, burst"), ("error_at_limit", "at the power limit, without pause")]:
            errors = [o[key] for o in of]
            mean = sum(errors) / len(errors)
            print(f"d {head}, {what}: mean error {100 * sum(map(abs, errors)) / len(errors):.1f} %, worst "
                  f"{100 * max(map(abs, errors)):.1f} %, around their mean {100 * max(abs(e - mean) for e in errors):.1f} %{rank}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(out, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
