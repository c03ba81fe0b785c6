#!/usr/bin/env python3
"""clock_rows.py - what the simulator's clock says of launches that an H200 timed, beside the times.

    clock_rows.py --tilec TILEC --tilerun TILERUN [--only REGEX] [--how ,warm] [--csv FILE]

Rows and columns (docs/lab/rows-h200.csv, bench/rows.py): 256 MB were written before each timed call, so the cache is cold.  No
figure of the clock was fitted to them.  A time by events is 1.5 us beyond the kernel's own (docs/timing.md).  With --anchors
FILE (row,measured,..: h200-clock-rows of the shared measurements), attention forward of that file, too, which repeats its launches.
Wants ptxas and nvdisasm.
"""
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from rows import HERE, PROGRAMS

LAUNCH = 1.5  # us
SIZES = {"copy": lambda r, c: {"S": r * c}, "loss": lambda r, c: {"R": r, "V": c}, "gradient": lambda r, c: {"R": r, "V": c},
         "rope": lambda r, c: {"S": r, "H": c // 128},
         "rmsnorm": lambda r, c: {"R": r}, "layernorm": lambda r, c: {"R": r}}
FORWARD = re.compile(r"fwd d(\d+)( causal)?(?: b(\d+))? (?:s(\d+) )?h(\d+)(?:/(\d+))?(?: s(\d+))?(?: (\d+)/(\d+))?$")


def measured_rows():
    with open(os.path.join(HERE, "..", "docs", "lab", "rows-h200.csv"), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["name"].startswith("ours"):
                rows, width = map(int, row["case"].split("x"))
                yield row["kernel"], rows, width, row["name"].partition(":")[2], float(row["us"])


def row_launch(kernel, rows, width, form):
    """(file, kernel, constants, sizes); None: it takes two launches."""
    file, names, constants, _ = PROGRAMS[kernel]
    if " " in names:
        return None
    defines = [d for text in ((constants or "").format(C=width), form) for d in text.split(",") if d]
    sizes = SIZES.get(kernel, lambda r, c: {"R": r, "C": c})(rows, width)
    return file if "/" in file and file.startswith("examples") else "bench/" + file, names, defines + ["T=bf16"], sizes


def anchors(path):
    """Attention forward of the shared file: (name, launch, us)."""
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            of = FORWARD.match(row["row"])
            if not of or row["unit"] != "us":
                continue
            d, causal, b, s1, h, hk, s2, sq, sk = of.groups()
            s = s1 or s2
            sizes = {"B": int(b or 1), "Hq": int(h), "Hk": int(hk or h), "Sq": int(sq or s), "Sk": int(sk or s)}
            yield row["row"], ("examples/attention.tile", "attention", [f"D={d}"] + (["CAUSAL=true"] if causal else []), sizes), float(row["measured"])


def replay(args, folder, of, how):
    """The replay's object, or why there is none."""
    file, kernel, defines, sizes = of
    ptx, into = os.path.join(folder, "k.ptx"), os.path.join(folder, "k.json")
    done = subprocess.run([args.tilec, os.path.join(HERE, "..", file), "--kernel", kernel, "-arch", "sm_90", "-Wno-plan",
                           *[w for d in defines for w in ("-D", d)], "-o", ptx], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.split("\n")[0]
    if os.path.exists(into):
        os.remove(into)
    done = subprocess.run([args.tilerun, ptx, "--random", *[w for k, v in sizes.items() for w in ("--set", f"{k}={v}")], "--device", "sim",
                           "--no-check", "--time", f"sm_90,sample,seeds=1{how},json={into}"], capture_output=True, text=True)
    if not os.path.exists(into):
        return done.stderr
    with open(into, encoding="utf-8") as said:
        return json.loads(said.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--anchors")
    parser.add_argument("--how", default=",cold", help="behind sm_90,sample (an empty one: as if the launch came again and again)")
    parser.add_argument("--csv")
    args = parser.parse_args()
    wanted = [(f"{kernel} {rows}x{width}{' ' + form if form else ''}", row_launch(kernel, rows, width, form), us)
              for kernel, rows, width, form, us in measured_rows()]
    wanted = list(anchors(args.anchors)) if args.anchors else wanted
    errors, out = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, of, us in wanted:
            if of is None or not re.search(args.only, name):
                continue
            got = replay(args, folder, of, args.how)
            if isinstance(got, str) or got.get("cycles") is None:
                print(f"{name}: {got if isinstance(got, str) else 'the replay broke'}", flush=True)
                continue
            if got["by"] == "ptx":
                sys.exit("replayed by costs of PTX: ptxas or nvdisasm was not found")
            took = got["cycles"] / got["mhz_at_limit"] + LAUNCH
            errors.append(took / us - 1)
            out.append({"row": name, "measured_us": us, "replayed_us": f"{took:.2f}", "error": f"{errors[-1]:+.3f}", "figures": got["figures"]})
            print(f"{name:40} measured {us:8.2f} us, replayed {took:8.2f}: {100 * errors[-1]:+6.1f} %", flush=True)
    if errors:
        print(f"{len(errors)} launches: mean error {100 * statistics.mean(map(abs, errors)):.1f} %, median "
              f"{100 * statistics.median(map(abs, errors)):.1f} %, worst {100 * max(errors, key=abs):+.1f} %")
    if args.csv and out:
        with open(args.csv, "w", encoding="utf-8") as file:
            writer = csv.DictWriter(file, out[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
