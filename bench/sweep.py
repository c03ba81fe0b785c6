#!/usr/bin/env python3
"""sweep.py - shapes of attention drawn at random, the files of tilec that they need, and how its kernels
compare with the best of the others.

    sweep.py compile FOLDER --tilec T [--count N] [--seed K] [--cubins]     needs no GPU
    bench.py --sweep N:K --ours tilec=FOLDER --out out/sweep     measures the same N cases

A case: 1 to 64 batches, 4 to 64 heads in groups of 1 to 8, 64 to 32k queries and keys, in half of the cases
as many of both, head dimensions of DIMS, with and without a causal mask; forward, backward, and decoding
(1 to 8 queries).  What takes too long or too much memory is drawn again.
"""

import argparse
import math
import os
import random
import subprocess
import sys

from case import Case

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")
DIMS = ["64", "80", "96", "128", "192", "192/128", "256"]
KINDS = ["fwd", "fwd", "bwd", "bwd", "decode"]
MOST_FLOPS, MOST_ELEMENTS = 1.5e13, 1 << 30  # some 30 ms on an H200; elements of all tensors of a case


def drawn(count, seed):
    """The same list for the same seed, whatever the count: a longer one begins with the shorter one."""
    draw = random.Random(seed)
    out = []
    while len(out) < count:
        case = draw_one(draw)
        rows = case.batch * (case.heads * case.sq + 2 * case.kv_heads * case.sk)
        if case.flops() <= MOST_FLOPS and rows * max(case.d, case.dv) <= MOST_ELEMENTS:
            out.append(case)
    return out


def draw_one(draw):
    def length():
        n = int(2 ** draw.uniform(6, 15))
        return n // 64 * 64 if draw.random() < 0.5 else n  # half of them are whole tiles
    kind, d, causal = draw.choice(KINDS), draw.choice(DIMS), draw.randrange(2)
    group = draw.choice([1, 1, 2, 4, 8])
    heads = group * draw.randint(max(1, -(-4 // group)), 64 // group)
    batch, sk = int(2 ** draw.uniform(0, 6.01)), length()
    sq = draw.choice([1, 1, 1, 2, 4, 8]) if kind == "decode" else sk if draw.random() < 0.5 else length()
    if kind == "decode":
        d, causal = "128", int(causal and sq > 1)
    return Case(f"{'fwd' if kind == 'decode' else kind}:{d}:{batch}:{heads}/{heads // group}:{sq}/{sk}:{causal}")


def is_decode(case):
    return case.direction == "fwd" and case.sq <= 8


def files(cases):
    """{name: (example, options of tilec)}"""
    out = {}
    for case in cases:
        causal = "true" if case.causal else "false"
        options = ["-D", f"D={case.d}", "-D", f"DV={case.dv}", "-D", f"CAUSAL={causal}"]
        name = f"{case.direction}_{case.d}_{case.dv}_{causal}"
        if is_decode(case):
            group = case.heads // case.kv_heads
            out[f"decode_{group}_{causal}"] = ("attention_decode", options + ["-D", f"G={group}", "--variants=auto"])
        else:
            example, group = "attention" if case.direction == "fwd" else "attention_bwd", case.heads // case.kv_heads
            if case.direction == "fwd" and case.groups_fill():
                out[f"grouped_{case.d}_{case.dv}_{causal}_{group}"] = ("attention_grouped", options + ["-D", f"G={group}", "--variants=auto"])
            for n in case.packs() if case.direction == "fwd" and case.shares_keys() else ():
                out[f"split_{case.d}_{case.dv}_{causal}_{n}"] = ("attention_split", options + ["-D", f"G={n}", "--variants=auto"])
            out[name] = (example, options + ["--variants=auto"])
    return out


def compile_all(folder, tilec, arch, cases, ending=".ptx"):
    os.makedirs(folder, exist_ok=True)
    failed = 0
    for name, (example, options) in files(cases).items():
        done = subprocess.run([tilec, os.path.join(EXAMPLES, example + ".tile"), "-arch", arch, *options, "-o",
                               os.path.join(folder, name + ending)], check=False)
        failed += done.returncode != 0
    return 1 if failed else 0


def ratios(rows):
    """[(ratio, row)]: the best of the others' times over the best of ours, a case and mode each, the worst first;
    and how many cases had no other that ran."""
    groups = {}
    for row in rows:
        key = tuple(row[c] for c in ("dir", "hd", "hdv", "heads", "kv_heads", "seqlen", "seqlen_k", "batch", "causal", "mode"))
        groups.setdefault(key, []).append(row)
    found, alone = [], 0
    for group in groups.values():
        right = [r for r in group if float(r["difference"]) < 0.02]
        ours, others = ([r for r in right if r["kind"] == kind] for kind in ("ours", "peer"))
        if not others:
            alone += 1
        elif not ours:
            found.append((0.0, group[0]))
        else:
            best, other = (min(of, key=lambda r: float(r["median_ms"])) for of in (ours, others))
            found.append((float(other["median_ms"]) / float(best["median_ms"]), {**best, "other": other["name"]}))
    return sorted(found, key=lambda pair: pair[0]), alone


def summary(rows, worst=20):
    """Lines for people."""
    found, alone = ratios(rows)
    lines = [f"sweep: {len(found)} cases with a peer, {alone} without"]
    if found:
        values = [ratio for ratio, _ in found]
        mean = math.exp(sum(math.log(max(v, 1e-9)) for v in values) / len(values))
        ahead, least = sum(v >= 1.0 for v in values), sum(v < 0.95 for v in values)
        lines.append(f"best of the others over tilec: geometric mean {mean:.3f}, at least 1.00 in {ahead / len(values):.1%}, "
                     f"under 0.95 in {least}, least {values[0]:.3f}")
    for ratio, r in found[:worst]:
        lines.append(f"  {ratio:.3f} {r['dir']} d={r['hd']}/{r['hdv']} b={r['batch']} h={r['heads']}/{r['kv_heads']} "
                     f"s={r['seqlen']}/{r['seqlen_k']} {'causal' if r['causal'] else 'full'}: {r['name']} "
                     f"{r['median_ms']} ms, beside {r.get('other', '-')}")
    return lines


def parse_sweep(text):
    """COUNT:SEED"""
    count, _, seed = text.partition(":")
    if not count.isdigit() or not (seed or "1").isdigit():
        raise SystemExit(f"--sweep {text}: expected COUNT:SEED")
    return drawn(int(count), int(seed or "1"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compile"])
    parser.add_argument("folder")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cubins", action="store_true", help="machine code, where ptxas is")
    options = parser.parse_args()
    return compile_all(options.folder, options.tilec, options.arch, drawn(options.count, options.seed),
                       ".cubin" if options.cubins else ".ptx")


if __name__ == "__main__":
    sys.exit(main())
