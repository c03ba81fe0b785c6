#!/usr/bin/env python3
"""forms_of_rows.py - what `auto` takes for kernels without products, beside what an H200 took for a few forms of each.

    forms_of_rows.py --tilec T

For each case of docs/lab/rows-h200.csv with two forms or more that `auto` has, too: the measured time of the one whose
estimate is the least, over that of the quickest.  On average no more than 3 % are lost, at worst less than half.  And few
long rows go in tiles of 8192 or more, which took a quarter less (cross-entropy of 128,256 classes,
docs/lab/rows-auto-h200.csv).
"""
import argparse
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "examples", "python"))
import launch  # noqa: E402
# kernel of the table: (file, kernel, the sizes' names, the tiles of the form without a name)
KERNELS = {"add": ("examples/add.tile", "add", ("R", "C"), (16, 256)),
           "softmax": ("examples/row_softmax.tile", "row_softmax", ("R", "C"), (16, 256)),
           "gradient": ("bench/rows/cross_entropy.tile", "gradient", ("R", "V"), (1, 4096))}
# its loop's bound is loaded: what a launch takes is no expression of the sizes alone
LOADED = """kernel rows<M: int = auto, N: int = auto>(X: in f32[R, C], Most: in i32[1], Y: out f32[R, C])
{
    grid m in tiles(R, M);
    let most = load Most[0];
    for n in tiles(most, N) { store Y[m, n] = load X[m, n] * 2.0; }
}
"""
ROW = re.compile(r"  [* ] M=(\d+) +N=(\d+) +warps 4 +(\d+): ")


def measured():
    """{(kernel, case): {(M, N): microseconds}}"""
    found = {}
    with open(os.path.join(ROOT, "docs", "lab", "rows-h200.csv"), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["kernel"] not in KERNELS or not row["name"].startswith("ours"):
                continue
            given = dict(text.split("=") for text in row["name"][len("ours:"):].split(",") if text)
            own = KERNELS[row["kernel"]][3]
            form = int(given.get("M", own[0])), int(given.get("N", own[1]))
            found.setdefault((row["kernel"], row["case"]), {})[form] = float(row["us"])
    return found


def estimates(tilec, kernel, case, folder):
    """{(M, N): clocks} of all that `auto` tries"""
    file, name, sizes, _ = KERNELS[kernel]
    given = [f"--size={size}={value}" for size, value in zip(sizes, case.split("x"))]
    done = subprocess.run([tilec, os.path.join(ROOT, file), "-arch", "sm_90", "-D", "T=bf16", "--emit=lir", "--report", *given,
                           "-o", os.path.join(folder, "k.lir")], capture_output=True, text=True, check=True)
    text = (done.stdout + done.stderr).split(f"choices for {name},")[1].split("\nkernel ")[0]
    return {(int(row[1]), int(row[2])): int(row[3]) for row in ROW.finditer(text)}


def loaded_bound(tilec, folder):
    """(M, N) of LOADED: rows are read by neighbours"""
    path = os.path.join(folder, "loaded.tile")
    with open(path, "w", encoding="utf-8") as file:
        file.write(LOADED)
    done = subprocess.run([tilec, path, "-arch", "sm_90", "--emit=json", "-o", "-"], capture_output=True, text=True, check=True)
    constants = json.loads(done.stdout)["kernels"][0]["constants"]
    return int(constants["M"]), int(constants["N"])


def long_rows(tilec):
    """(rows, classes, elements of a tile) where few long rows of a loop are not in tiles of 8192 or more, or short ones are."""
    done = subprocess.run([tilec, os.path.join(ROOT, "bench", "rows", "cross_entropy.tile"), "-arch", "sm_90", "-D", "T=bf16",
                           "--variants=auto", "--emit=json", "-o", "-"], capture_output=True, text=True, check=True)
    kernels = {kernel["name"]: kernel for kernel in json.loads(done.stdout)["kernels"]}
    bad = []
    for rows, classes, large in ((1, 128256, True), (16, 128256, True), (128, 128256, True), (128, 1000, False), (16, 256, False)):
        form = launch.chosen(kernels["loss"], {"R": rows, "V": classes, "sm_count": 132, "sm_shared": 228 << 10})
        elements = math.prod(int(form["constants"][name]) for name in "MN")
        if (elements >= 8192) != large:
            bad.append((rows, classes, elements))
    without_loop = [kernels["gradient"], *kernels["gradient"].get("variants", [])]
    bad += [form["constants"] for form in without_loop if math.prod(int(form["constants"].get(n, 1)) for n in "MN") > 4096]
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    options = parser.parse_args()
    lost = []
    with tempfile.TemporaryDirectory() as folder:
        for (kernel, case), times in measured().items():
            clocks = estimates(options.tilec, kernel, case, folder)
            both = [form for form in times if form in clocks]
            if len(both) > 1:
                taken = min(both, key=clocks.get)
                lost.append((times[taken] / min(times[form] for form in both), kernel, case, taken))
        rows, columns = loaded_bound(options.tilec, folder)
    wrong = long_rows(options.tilec)
    for entry in wrong:
        print("cross-entropy:", entry)
    mean = math.exp(statistics.fmean(math.log(entry[0]) for entry in lost))
    print(f"{len(lost)} cases, {100 * (mean - 1):.1f} % lost on average, at worst {max(lost)}; "
          f"of a loaded bound M={rows}, N={columns}")
    return 0 if len(lost) > 30 and mean <= 1.03 and max(lost)[0] < 1.5 and columns >= 256 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
