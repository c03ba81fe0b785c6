#!/usr/bin/env python3
"""clock_kernels.py - the hidden half: kernels that the simulator's clock was not made with, predicted before an H200 counts them.

    clock_kernels.py prepare --tilec TILEC --out FOLDER           no GPU: FOLDER/NAME.ptx and .cubin, FOLDER/commands
    clock_kernels.py predict --tilerun TILERUN --out FOLDER --csv FILE
    ncu --clock-control none --cache-control none --metrics METRICS --csv --page raw tilerun --batch < commands      (on the GPU, in FOLDER)
    clock_kernels.py compare --csv FILE     beside what an H200 counted, of tests/sim/hidden-h200.csv

Each case was chosen before any was run: plans of tests/search/measured_h200.csv that bench/clock_plans.py does not count as seen, evenly
spaced in the file; the other masks, kernels of tile programs of all kinds, and code of others.  What a launch reads fits the L2 cache,
but for decode128 (67 MB).  tests/sim/hidden-h200.csv has what was predicted then, with the hash of the figures, and what was counted.
"""
import argparse
import collections
import csv
import json
import os
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from clock_plans import PLAN, ROOT, SEEN, SMS, tau

LENGTH = 4096
# of the file's rows with that head dimension and mask, length 4096
PLANS = {(64, "full"): [9, 14, 19, 24, 29], (128, "full"): [10, 15, 20, 25, 30], (256, "full"): [0, 7, 14], (64, "causal"): [0, 8, 16, 24],
         (128, "causal"): [0, 8, 16, 24], (256, "causal"): [0, 12]}
BACKWARD_PLANS = {("attention_bwd", 64, "full"): [4, 12], ("attention_bwd", 128, "full"): [4, 9], ("attention_bwd", 64, "causal"): [0],
                  ("attention_bwd", 128, "causal"): [0], ("attention_bwd_dkdv", 64, "full"): [6], ("attention_bwd_dkdv", 128, "full"): [6],
                  ("attention_bwd_dq", 64, "full"): [8], ("attention_bwd_dq", 128, "full"): [8]}
FORWARD = {"B": 1, "Hq": 8, "Hk": 8, "Sq": LENGTH, "Sk": LENGTH}
# name: (file, kernels or None for all, constants, sizes)
PROGRAMS = {
    "softcap128": ("attention", None, ["D=128", "SOFTCAP=true"], FORWARD),
    "window64": ("attention", None, ["D=64", "CAUSAL=true", "WINDOW=1024"], {**FORWARD, "Hq": 16, "Hk": 16}),
    "alibi128": ("attention", None, ["D=128", "ALIBI=true", "CAUSAL=true"], FORWARD),
    "grouped128": ("attention", None, ["D=128"], {**FORWARD, "Hk": 2, "Sq": 2048}),
    "short64": ("attention", None, ["D=64"], {**FORWARD, "B": 8, "Hq": 16, "Hk": 16, "Sq": 512, "Sk": 512}),
    "long128": ("attention", None, ["D=128"], {**FORWARD, "Hq": 4, "Hk": 4, "Sk": 16384}),
    "decode128": ("attention_decode", ["attention_decode_split"], ["D=128", "G=8"],
                  {"B": 4, "Sq": 1, "Hq": 32, "Hk": 4, "Sk": 8192, "X": 8}),
    "combine128": ("attention_decode", ["attention_decode_combine"], ["D=128", "G=8"], {"B": 4, "Sq": 1, "Hq": 32, "Hk": 4, "X": 8, "P": 8}),
    "merge128": ("attention_merge", None, ["D=128"], {"B": 1, "S": 4096, "H": 8}),
    "gemm4096": ("gemm", None, [], {"M": 4096, "N": 4096, "K": 4096}),
    "gemm_narrow": ("gemm", None, ["ACTIVATION=2"], {"M": 2048, "N": 1024, "K": 4096}),
    "mlp128": ("mlp", None, ["D=128"], {"S": 16384, "F": 512}),
    "row_softmax": ("row_softmax", None, [], {"R": 4096, "C": 1024}),
    "copy": ("copy", None, [], {"S": 1 << 22}),
    "add": ("add", None, [], {"R": 4096, "C": 1024}),
}
# PTX that Triton made: (file, entry, threads, shared memory, heads, rows of a block, bytes of scratch memory a block)
OTHERS = {"triton_wgmma64": ("attn_ptr_c_sm90", "attn_fwd_ptr", 128, 40960, 8, 64, 0),
          "triton_tma64": ("attn_tma_c_sm90", "attn_fwd", 256, 81952, 8, 128, 512)}
# The second hidden half: other plans, of two tiles an SM, and other sizes and kernels
PLANS_2 = {(64, "full"): [11, 21, 27], (128, "full"): [12, 17, 22, 28], (256, "full"): [3, 11], (64, "causal"): [5, 20], (128, "causal"): [5, 19],
           (256, "causal"): [6]}
BACKWARD_PLANS_2 = {("attention_bwd", 64, "full"): [8], ("attention_bwd", 128, "full"): [7], ("attention_bwd", 128, "causal"): [4],
                    ("attention_bwd_dkdv", 64, "full"): [3], ("attention_bwd_dq", 128, "full"): [4]}
PROGRAMS_2 = {
    "gemm2048": ("gemm", None, [], {"M": 2048, "N": 2048, "K": 2048}),
    "gemm_deep": ("gemm", None, ["ACTIVATION=1"], {"M": 1024, "N": 2048, "K": 8192}),
    "gemm_flat": ("gemm", None, [], {"M": 8192, "N": 2048, "K": 512}),
    "mlp64": ("mlp", None, ["D=64"], {"S": 8192, "F": 1024}),
    "decode64": ("attention_decode", ["attention_decode_split"], ["D=64", "G=4"], {"B": 2, "Sq": 1, "Hq": 32, "Hk": 8, "Sk": 4096, "X": 8}),
    "softmax_wide": ("row_softmax", None, [], {"R": 2048, "C": 4096}),
    "copy_small": ("copy", None, [], {"S": 1 << 20}),
    "merge64": ("attention_merge", None, ["D=64"], {"B": 1, "S": 8192, "H": 8}),
    "softcap64": ("attention", None, ["D=64", "SOFTCAP=true"], {**FORWARD, "Sq": 2048, "Sk": 2048}),
    "grouped64_causal": ("attention", None, ["D=64", "CAUSAL=true"], {**FORWARD, "Hq": 16, "Hk": 4, "Sq": 2048, "Sk": 2048}),
    "window128": ("attention", None, ["D=128", "CAUSAL=true", "WINDOW=512"], {**FORWARD, "Hq": 16, "Hk": 16}),
    "short128": ("attention", None, ["D=128"], {**FORWARD, "B": 4, "Hq": 16, "Hk": 16, "Sq": 512, "Sk": 512}),
}
# The third: launches that memory bounds, or whose tensors the L2 cache does not hold
PROGRAMS_3 = {
    "decode128_long": ("attention_decode", ["attention_decode_split"], ["D=128", "G=8"], {"B": 8, "Sq": 1, "Hq": 32, "Hk": 4, "Sk": 8192, "X": 8}),
    "decode64_wide": ("attention_decode", ["attention_decode_split"], ["D=64", "G=4"], {"B": 8, "Sq": 1, "Hq": 32, "Hk": 8, "Sk": 4096, "X": 4}),
    "softmax_tall": ("row_softmax", None, [], {"R": 4096, "C": 4096}),
    "softmax_mid": ("row_softmax", None, [], {"R": 2112, "C": 2048}),
    "copy_big": ("copy", None, [], {"S": 1 << 24}),
    "copy_mid": ("copy", None, [], {"S": 5 << 20}),
    "merge_big": ("attention_merge", None, ["D=128"], {"B": 1, "S": 8192, "H": 16}),
    "add_big": ("add", None, [], {"R": 8192, "C": 2048}),
    "add_small": ("add", None, [], {"R": 2048, "C": 1024}),
    "short128_wide": ("attention", None, ["D=128"], {**FORWARD, "B": 16, "Hq": 16, "Hk": 16, "Sq": 512, "Sk": 512}),
    "gemm_tall": ("gemm", None, [], {"M": 16384, "N": 1024, "K": 1024}),
}
METRICS = "sm__cycles_active.max,sm__cycles_active.avg,sm__cycles_elapsed.max,smsp__inst_executed.sum"


def measured_rows(kernel, head, mask):
    with open(os.path.join(ROOT, "tests", "search", "measured_h200.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [r for r in rows if r["kernel"] == kernel and r["mask"] == mask and int(r["seqlen"]) == LENGTH and int(r["d"]) == head]


def planned(kernel, head, mask, number, tiles=3):
    """A case of one plan: three tiles of work for an SM, or two where some are short."""
    row = measured_rows(kernel, head, mask)[number]
    if kernel == "attention" and mask == "full":
        assert number >= SEEN.get(head, 0)
    flags = [word for constant in [f"D={head}", f"M={row['M']}", f"N={row['N']}"] + (["CAUSAL=true"] if mask == "causal" else [])
             for word in ["-D", constant]] + ["--plan=" + ",".join(f"{name}={row[name]}" for name in PLAN)]
    each = -(-LENGTH // (int(row["consumers"]) * int(row["N" if kernel in ("attention_bwd", "attention_bwd_dkdv") else "M"])))
    heads = max(1, SMS * (tiles if mask == "full" else 2) // each) if kernel == "attention" else 8
    source = "attention" if kernel == "attention" else "attention_bwd"
    return {"source": source, "kernels": [kernel], "flags": flags, "sizes": {**FORWARD, "Hq": heads, "Hk": heads}, "group": f"{kernel} {head} {mask}"}


def all_cases(half=1):
    out = {}
    plans, backward, programs, others, tiles = {1: (PLANS, BACKWARD_PLANS, PROGRAMS, OTHERS, 3), 2: (PLANS_2, BACKWARD_PLANS_2, PROGRAMS_2, {}, 2),
                                                3: ({}, {}, PROGRAMS_3, {}, 0)}[half]
    for (head, mask), numbers in plans.items():
        for number in numbers:
            out[f"{mask}{head}_{number}"] = planned("attention", head, mask, number, tiles)
    for (kernel, head, mask), numbers in backward.items():
        for number in numbers:
            out[f"{kernel[10:]}{head}_{mask}_{number}"] = planned(kernel, head, mask, number)
    for name, (source, kernels, constants, sizes) in programs.items():
        out[name] = {"source": source, "kernels": kernels, "flags": [word for c in constants for word in ["-D", c]], "sizes": sizes,
                     "group": ""}
    for name in others:
        out[name] = {"source": None, "group": ""}
    return out


def prepare_one(args, name, case):
    ptx, cubin = (os.path.join(args.out, f"{name}.{end}") for end in ["ptx", "cubin"])
    if case["source"] is None:
        with open(os.path.join(args.triton, OTHERS[name][0] + ".ptx"), encoding="utf-8") as file, open(ptx, "w", encoding="utf-8") as into:
            into.write(file.read())
    else:
        kernels = [word for k in case["kernels"] or [] for word in ["--kernel", k]]
        done = subprocess.run([args.tilec, os.path.join(ROOT, "examples", case["source"] + ".tile"), *kernels, "-arch", "sm_90", "-Wno-plan",
                               *case["flags"], "-o", ptx], capture_output=True, text=True)
        if done.returncode:
            return f"{name}: {done.stderr}"
    done = subprocess.run(["ptxas", "-arch=sm_90a", ptx, "-o", cubin], capture_output=True, text=True)
    return f"{name}: {done.stderr}" if done.returncode else ""


def launch(name, case):
    """What tilerun is told behind the file."""
    if case["source"] is None:
        _, entry, threads, shared, heads, rows, scratch = OTHERS[name]
        tensor = f"zero:{heads * LENGTH * 64 * 2}"
        values = [tensor] * 4 + [f"zero:{heads * LENGTH * 4}", "f32=0.125", f"i32={LENGTH}", f"i32={LENGTH * 64}",
                                 f"zero:{max(128, scratch * heads * LENGTH // rows)}", "null"]
        return ["--entry", entry, "--grid", f"{LENGTH // rows},{heads}", "--block", str(threads), "--smem", str(shared)] + \
            [word for v in values for word in ["--arg", v]]
    return ["--random"] + [word for k, v in case["sizes"].items() for word in ["--set", f"{k}={v}"]]


def prepare(args):
    os.makedirs(args.out, exist_ok=True)
    cases = all_cases(args.half)
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda pair: prepare_one(args, *pair), cases.items()))
    good = [name for name, bad in zip(cases, said) if not bad]
    print("\n".join(line for line in said if line))
    with open(os.path.join(args.out, "commands"), "w", encoding="utf-8") as file:
        for name in good:
            file.write(" ".join([name + ".cubin", *launch(name, cases[name]), "--device", "gpu"]) + "\n")
    print(f"{len(good)} of {len(cases)} cases in {args.out}")
    return len(good) != len(cases)


def predict(args):
    rows = []
    for name, case in all_cases(args.half).items():
        if args.only and not re.search(args.only, name):
            continue
        into = os.path.join(args.out, name + ".json")
        if not os.path.exists(into) or args.again:
            if os.path.exists(into):
                os.remove(into)
            said = subprocess.run([args.tilerun, os.path.join(args.out, name + ".ptx"), *launch(name, case), "--device", "sim", "--no-check", "--time",
                                   f"sm_90,sample{args.how},json={into}"], capture_output=True, text=True)
            if not os.path.exists(into):  # a sample may leave a counter behind: no fault here
                print(f"{name}: {said.stderr}")
                continue
        with open(into, encoding="utf-8") as file:
            for line in map(json.loads, file):
                if line.get("by") == "ptx":  # costs of PTX are off by 50 % and more: no prediction
                    sys.exit(f"{name}: replayed by costs of PTX, since nvdisasm or ptxas is not in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin")
                rows.append({"name": name, "kernel": line["kernel"], "group": case["group"], "figures": line["figures"], "cycles": line["cycles"]})
                print(",".join(map(str, rows[-1].values())), flush=True)
    with open(args.csv, "w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


def compare(args):
    with open(os.path.join(ROOT, "tests", "sim", f"hidden-h200-{args.half}.csv" if args.half > 1 else "hidden-h200.csv"), encoding="utf-8") as file:
        counted = {(row["name"], row["kernel"]): row for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    with open(args.csv, encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    errors, groups = [], collections.defaultdict(list)
    for row in rows:
        have = counted.get((row["name"], row["kernel"]))
        if not have:
            print(f"{row['name']} {row['kernel']}: not counted")
            continue
        pair = (int(have["cycles_active_max"]), int(row["cycles"]))
        errors.append(pair[1] / pair[0] - 1)
        print(f"{row['name']} {row['kernel']}: counted {pair[0]}, predicted {pair[1]} ({100 * errors[-1]:+.1f} %)")
        if row["group"]:
            groups[row["group"]].append((errors[-1], pair))
    for group, of in groups.items():
        if len(of) > 2:
            print(f"{group}: mean error {100 * statistics.mean(abs(e) for e, _ in of):.1f} %, Kendall's tau {tau([p for _, p in of]):.2f}")
    print(f"{len(errors)} launches: mean error {100 * statistics.mean(map(abs, errors)):.1f} %, median {100 * statistics.median(map(abs, errors)):.1f} %, worst "
          f"{100 * max(map(abs, errors)):.1f} %, on average {100 * statistics.mean(errors):+.1f} %")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "predict", "compare"])
    parser.add_argument("--tilec")
    parser.add_argument("--tilerun")
    parser.add_argument("--out")
    parser.add_argument("--csv")
    parser.add_argument("--triton", help="a folder with PTX that Triton made (OTHERS)")
    parser.add_argument("--second", action="store_const", const=2, default=1, dest="half", help="the second hidden half")
    parser.add_argument("--third", action="store_const", const=3, dest="half", help="the third: bound by memory")
    parser.add_argument("--only")
    parser.add_argument("--how", default="", help="behind sm_90,sample: ,seeds=1, or figures in place of the table's")
    parser.add_argument("--again", action="store_true", help="replay what was replayed before, too")
    args = parser.parse_args()
    return {"prepare": prepare, "predict": predict, "compare": compare}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
