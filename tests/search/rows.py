#!/usr/bin/env python3
"""rows.py - tilec search against formulas for attention that were written for it by hand.

    rows.py --tilec TILEC

The compiler derives what a plan takes from the dataflow of a kernel and knows no attention.  The
public search for attention on this chip (flash-attention, flash_attn/cute/sm90_config_search.py) has
its formulas written out; here they stand once more, as sets of plans: within its ranges both must
find the same plans, with the same registers, bytes and traffic.  Then sample rows of that search, and
no program in the tree may bring tilec down.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ATTENTION = os.path.join(ROOT, "examples", "attention.tile")
LIMIT = {2: 216, 3: 128}
SHARED = 224 * 1024
FORWARD_N = range(64, 193, 16)
BACKWARD = range(64, 129, 16)


def search(tilec, d, dv, *words):
    """The plans as dictionaries; none when there is none."""
    command = [tilec, "search", ATTENTION, "-arch", "sm_90", "-D", f"D={d}", "-D", f"DV={dv}",
               "--rows", "0", "--json", "--groups", "2,3", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 1 and "no plan for warp groups" in done.stderr:
        return []
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def forward(d, dv):
    """Plan: (registers, bytes, traffic of a block)."""
    plans = {}
    for groups, n, from_registers, pipelined in itertools.product([2, 3], FORWARD_N, [True, False],
                                                                [True, False]):
        m = 64 * groups
        scores, output = m * n // (groups * 128), m * dv // (groups * 128)
        registers = int(scores * (1.5 if pipelined else 1)) + output
        through = 0 if from_registers else 2 * m * n
        memory = 2 * max(m * d, m * dv) + 4 * n * d + 4 * n * dv + through
        traffic = groups * (128 * d + 2 * n * d) + groups * (
            (0 if from_registers else 128 * n) + 2 * dv * n) + through
        if registers <= LIMIT[groups] and memory <= SHARED:
            plans[groups, m, n, from_registers, pipelined] = registers, memory, traffic
    return plans


def product(groups, m, n, k, along_m, swapped, from_registers):
    """Traffic of one product; None when it can not be divided like that."""
    if swapped:
        m, n, along_m = n, m, groups // along_m
    along_n = groups // along_m
    if m % (64 * along_m) != 0 or n % (8 * along_n) != 0:
        return None
    return m // 64 * along_n * ((0 if from_registers else 128 * k) + 2 * (n // along_n) * k)


def backward(d, dv):
    plans = {}
    for groups, m, n in itertools.product([2, 3], BACKWARD, BACKWARD):
        divisors = [k for k in range(1, groups + 1) if groups % k == 0]
        area = groups * 128
        scores, key, value, query = m * n // area, n * d // area, n * dv // area, m * d // area
        registers = max(2 * scores, query) + key + value
        for swaps in itertools.product([False, True], repeat=3):
            for splits in itertools.product(divisors, repeat=3):
                in_registers = (splits[0] == 1 and splits[1] == groups and swaps[0] and
                                not swaps[1])
                parts = [
                    product(groups, m, n, d, splits[0], swaps[0], False),
                    product(groups, m, n, dv, splits[0], swaps[0], False),
                    product(groups, n, dv, m, splits[1], swaps[1], in_registers),
                    product(groups, n, d, m, splits[1], swaps[1], in_registers),
                    product(groups, m, d, n, splits[2], swaps[2], False),
                ]
                staged = 2 * m * n * (1 if in_registers else 2)
                fixed = 4 * m * d + 2 * n * d + 2 * n * dv + staged + 4 * m * d
                memory = fixed + 4 * m * dv
                if memory > SHARED:
                    memory = fixed + 2 * m * dv
                if None in parts or memory > SHARED or registers > LIMIT[groups]:
                    continue
                traffic = sum(parts) + staged + 8 * m * d
                plans[groups, m, n, swaps, splits] = registers, memory, traffic
    return plans


def figures(row):
    return row["registers"], row["shared_bytes"], row["traffic"]


def compare(what, want, have, bad):
    for plan in sorted(set(want) | set(have), key=str):
        if want.get(plan) != have.get(plan):
            bad.append(f"{what}, plan {plan}: {have.get(plan)}, by hand {want.get(plan)}")


def check_forward(tilec, d, dv, bad):
    have = {}
    for row in search(tilec, d, dv):
        m, n, groups = row["tiles"]["M"], row["tiles"]["N"], row["groups"]
        if m == 64 * groups and n in FORWARD_N:
            have[groups, m, n, row["from_registers"], row["pipelined"]] = figures(row)
    compare(f"forward {d}, {dv}", forward(d, dv), have, bad)


def check_backward(tilec, d, dv, bad):
    """The search by hand takes registers where it can for dV and dK, and never for dQ."""
    rows = {}
    for row in search(tilec, d, dv, "--mode", "bwd"):
        m, n = row["tiles"]["M"], row["tiles"]["N"]
        plan = row["groups"], m, n, tuple(row["swapped"]), tuple(row["row_groups"])
        if m in BACKWARD and n in BACKWARD:
            rows.setdefault(plan, {})[row["from_registers"]] = figures(row)
    have = {}
    for plan, choices in rows.items():
        groups, _, _, swaps, splits = plan
        wanted = splits[0] == 1 and splits[1] == groups and swaps[0] and not swaps[1]
        if wanted in choices:
            have[plan] = choices[wanted]
    compare(f"backward {d}, {dv}", backward(d, dv), have, bad)


# head dimensions, warp groups, tile, (swaps and splits), registers, KiB, traffic for an element
SAMPLES = [
    (64, 64, 2, (128, 192), None, 176, 112, "4.7"),
    (64, 64, 3, (192, 128), None, 128, 88, "5.0"),
    (96, 96, 2, (128, 192), None, 192, 168, "7.0"),
    (128, 128, 2, (128, 192), None, 208, 224, "9.3"),
    (128, 128, 2, (128, 176), None, 196, 208, "9.5"),
    (128, 128, 2, (128, 128), None, 160, 160, "10.0"),
    (192, 192, 2, (128, 112), None, 180, 216, "15.4"),
    (192, 128, 2, (128, 128), None, 160, 208, "13.0"),
    (256, 256, 2, (128, 80), None, 188, 224, "22.4"),
    (64, 64, 2, (128, 128), "TFF122", 192, 160, "20.0"),
    (96, 96, 2, (64, 128), "TFF121", 160, 136, "33.0"),
    (128, 128, 2, (80, 128), "TFT121", 208, 204, "39.6"),
    (128, 128, 2, (64, 128), "TFF121", 192, 176, "42.0"),
    (192, 192, 2, (64, 96), "FTF121", 192, 216, "86.0"),
    (192, 192, 3, (64, 96), "FTF111", 128, 216, "88.0"),
    (192, 128, 2, (64, 112), "FTF121", 196, 210, "70.6"),
    (192, 128, 2, (64, 96), "FTF121", 168, 212, "76.7"),
]


def check_samples(tilec, bad):
    for d, dv, groups, (m, n), division, registers, memory, traffic in SAMPLES:
        words = ["--mode", "bwd"] if division else []
        found = []
        for row in search(tilec, d, dv, *words):
            name = "".join("FT"[s] for s in row["swapped"]) + "".join(map(str, row["row_groups"]))
            if (row["groups"] == groups and row["tiles"] == {"M": m, "N": n} and
                    division in (None, name) and (division or row["pipelined"])):
                found.append((row["registers"], row["shared_bytes"], f"{row['per_element']:.1f}"))
        if (registers, memory * 1024, traffic) not in found:
            bad.append(f"{d}/{dv} {groups} groups {m}x{n} {division or ''}: {found}")
    if search(tilec, 256, 256, "--mode", "bwd"):
        bad.append("backward 256 has plans, although not with two stages")
    best = search(tilec, 256, 256, "--mode", "bwd", "--stages=1", "--sort", "traffic")[0]  # the tile that is shipped
    if best["tiles"] != {"M": 64, "N": 64} or best["shared_bytes"] != 208 * 1024:
        bad.append(f"backward 256 with one stage: {best}")


def check_order(tilec, bad):
    for words, key in [([], "per_element"), (["--sort", "traffic"], "per_element"), (["--built"], "predicted_ms")]:
        numbers = [row[key] for row in search(tilec, 128, 128, *words) if "auto" not in row]
        if numbers != sorted(numbers) or not numbers:
            bad.append(f"{words}: not in order of {key}")


def check_programs(tilec, bad):
    for folder, _, names in os.walk(ROOT):
        for name in names:
            if name.endswith(".tile") and "/build" not in folder:
                path = os.path.join(folder, name)
                done = subprocess.run([tilec, "search", path, "-arch", "sm_90"],
                                      capture_output=True, text=True, errors="replace")
                if done.returncode not in (0, 1):
                    bad.append(f"{path}: exit status {done.returncode}: {done.stderr[:300]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    tilec = os.path.abspath(parser.parse_args().tilec)
    bad = []
    for d, dv in [(64, 64), (96, 96), (128, 128), (192, 192), (192, 128), (256, 256), (64, 256)]:
        check_forward(tilec, d, dv, bad)
        check_backward(tilec, d, dv, bad)
    check_samples(tilec, bad)
    check_order(tilec, bad)
    check_programs(tilec, bad)
    for line in bad[:40]:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
