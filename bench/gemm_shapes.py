#!/usr/bin/env python3
"""gemm_shapes.py - 200 matrix products, ours by `--variants=auto` beside cuBLAS and Triton's kernels, in one process.

    gemm_shapes.py list                                    the shapes, as CSV
    gemm_shapes.py prepare --tilec TILEC --out FOLDER      compiles ours; needs no GPU
    gemm_shapes.py warm --share I/N                        compiles Triton's into its cache; N processes at once
    gemm_shapes.py measure FOLDER [--csv FILE] [--seconds N] [--only I/N]   times them on the GPU

A bf16 [M, K] by B, [K, N] (`nn`) or [N, K] (`nt`): M from 1 to 16384, 50 of the shapes with an odd M, 20 with an odd N or K, the
other N and K of today's models; drawn with a seed.  Ours is `rows/products.tile`, with a copy of what does not begin at
16 bytes row by row (`prepare_copied`), which is timed, too; each of its forms is timed beside the one that its rule takes.  Triton's: the fastest of its configurations in a run of three before it is timed with the
others.  Every result is compared with cuBLAS's.  256 MB are written before each timed call; an order shuffled anew; medians
(timing.py).  Shapes go in a shuffled order, so that those done by `--seconds` are a sample.
"""

import argparse
import csv
import math
import os
import random
import statistics
import subprocess
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "examples", "python")]
FIELDS = ["M", "N", "K", "B", "name", "us", "min_us", "taken"]
SEED, COUNT, ODD_ROWS, ODD_OTHERS = 36, 200, 50, 20
# of today's models: (N, K)
WEIGHTS = [(4096, 4096), (6144, 4096), (14336, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (10240, 8192), (28672, 8192),
           (8192, 28672), (5120, 5120), (7168, 2048), (3584, 18944), (4608, 3584), (2048, 7168), (12288, 3072), (1024, 4096),
           (2048, 2048), (8192, 2048), (24576, 1536), (32768, 512), (7168, 16384), (128256, 4096)]
ODD = [(50257, 768), (32001, 4096), (4097, 4096), (14337, 4096), (5121, 5120), (4096, 4095), (4096, 14337), (768, 50257), (8192, 2049),
       (5120, 13825)]


def drawn(seed=SEED):
    """[(M, N, K, B)]"""
    draw, found = random.Random(seed), []
    while len(found) < COUNT:
        count = len(found)
        m = round(2 ** draw.uniform(0, 14)) if draw.random() < 0.5 or count < ODD_ROWS else 2 ** draw.randint(0, 14)
        if count < ODD_ROWS:
            m |= 1
        elif count >= ODD_ROWS + ODD_OTHERS:
            m += m % 2 if m > 1 else 0
        n, k = draw.choice(ODD if ODD_ROWS <= count < ODD_ROWS + ODD_OTHERS else WEIGHTS)
        shape = (min(m, 16384), n, k, draw.choice(("nn", "nt")))
        if shape not in found and m * n < 2 ** 30:
            found.append(shape)
    return found


def ours_of(shape):
    """(file, kernel)"""
    return f"products-{16 if shape[1] % 8 == 0 else 2}.cubin", "product" if shape[3] == "nn" else "linear"


def prepare(options):
    os.makedirs(options.out, exist_ok=True)
    for of_c in (16, 2):
        subprocess.run([options.tilec, os.path.join(HERE, "rows", "products.tile"), "-arch", "sm_90", "-Wno-plan", "-D", f"OF_C={of_c}",
                        "--variants=auto", "--tuning=none", "-o", os.path.join(options.out, f"products-{of_c}.cubin")], check=True)
    return 0


# ---- ours ----------------------------------------------------------------------------------------


def forms_of(module, tensors):
    """{entry: plan} of all forms, and the entry of the one that the rule takes"""
    kernel = module.kernels[0]
    taken = kernel.form(kernel.sizes(tensors, {}))
    found = {}
    for form in (kernel, *kernel.variants):
        kernel.form = lambda env, form=form: form
        try:
            found[form.meta["entry"]] = module.prepare_copied(**tensors)
        finally:
            del kernel.form
    return found, taken.meta["entry"]


# ---- what is timed -------------------------------------------------------------------------------


def contenders_of(shape, modules, folder, triton_products):
    import tilec_torch
    import torch
    m, n, k, b_is = shape
    torch.manual_seed(1)
    make = lambda *extents: torch.randn(*extents, device="cuda", dtype=torch.bfloat16)
    a, b = make(m, k), make(k, n) if b_is == "nn" else make(n, k)
    right, results = b if b_is == "nn" else b.t(), {}

    def result(name):
        results[name] = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        return results[name]

    c = result("cublas")
    built = {"cublas": lambda: torch.matmul(a, right, out=c)}
    file, name = ours_of(shape)
    if file not in modules:
        modules[file] = tilec_torch.load(os.path.join(folder, file))
    forms, taken = forms_of(modules[file].select(name), {"A": a, "B": b, "C": result("ours")})
    for entry, launch in forms.items():
        built["ours:" + entry] = launch.run
    for config, run in triton_products.runs(a, right, result("triton")) if triton_products else []:
        built["triton:" + config] = run
    return built, "ours:" + taken, results


def check(built, results):
    """Leaves out what fails or differs from cuBLAS by more than a last place of the largest value."""
    import torch
    built["cublas"]()
    want = results["cublas"].float()
    largest = want.abs().max()
    for name in list(built)[1:]:
        got = results[name.split(":")[0]]
        got.fill_(float("nan"))
        try:
            built[name]()
            torch.cuda.synchronize()
            worst = ((got.float() - want).abs().max() / largest).item()
            wrong = "" if worst <= 2.0 ** -7 else f"differs by {worst:.1e} of the largest value"
        except Exception as error:  # Triton has errors of many kinds
            wrong = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if wrong:
            print(f"# left out: {name}: {wrong}", flush=True)
            del built[name]


def times_of(built, names, flush, order, budget, most):
    """{name: [us]}, as many repetitions as the budget (seconds) has room for, from 3 to `most`"""
    import timing
    import torch
    torch.cuda.synchronize()
    began = time.perf_counter()
    for name in names:
        built[name]()
    torch.cuda.synchronize()
    once = time.perf_counter() - began + 0.00025 * len(names)
    reps = max(3, min(most, int(budget / once)))
    runs = {name: types.SimpleNamespace(run=built[name], kind="ours") for name in names}
    found = timing.measure(runs, "spin", flush, order, reps, 2 if reps > 5 else 1, 200_000)
    return {name: [1000 * value for value in values] for name, values in found.items()}


def measure_shape(shape, modules, options, flush, triton_products):
    import torch
    built, taken, results = contenders_of(shape, modules, options.what[1], triton_products)
    check(built, results)
    if taken not in built:
        return []
    order = options.random
    tuned = [name for name in built if name.startswith("triton")]
    if len(tuned) > 1:
        first = times_of(built, tuned, flush, order, 0.05, 3)
        tuned = [min(tuned, key=lambda name: statistics.median(first[name]))]
    names = [name for name in built if not name.startswith("triton")] + tuned
    times = times_of(built, names, flush, order, options.budget, options.reps)
    rows = [dict(zip(FIELDS, (*shape, name, f"{statistics.median(values):.2f}", f"{min(values):.2f}", int(name == taken))))
            for name, values in times.items()]
    us = {name: statistics.median(values) for name, values in times.items()}
    forms = [name for name in us if name.startswith("ours")]
    best, peer = min(forms, key=us.get), min(us["cublas"], *(us[name] for name in tuned), math.inf)
    print(f"{'x'.join(map(str, shape[:3])):18} {shape[3]} ours {us[taken]:8.1f} {taken[5:]:11} best {us[taken] / us[best]:.3f} {best[5:]:11}"
          f" cuBLAS {us['cublas']:8.1f} {tuned[0] if tuned else 'no triton':32} {us[tuned[0]] if tuned else math.nan:8.1f}"
          f" | {peer / us[taken]:.3f}", flush=True)
    del built, results
    torch.cuda.empty_cache()
    return rows


# ---- the table -----------------------------------------------------------------------------------


def summary(rows):
    """By groups of rows of A: the best peer over ours, of the form taken and of the best form."""
    cases = {}
    for row in rows:
        cases.setdefault(tuple(row[f] for f in FIELDS[:4]), []).append(row)
    groups = {}
    for (m, n, k, b_is), found in cases.items():
        m, n, k = int(m), int(n), int(k)
        us = {row["name"]: float(row["us"]) for row in found}
        taken = next(float(row["us"]) for row in found if int(row["taken"]))
        best = min(value for name, value in us.items() if name.startswith("ours"))
        tuned = [value for name, value in us.items() if name.startswith("triton")]
        item = (min([us["cublas"], *tuned]) / taken, us["cublas"] / taken, best / taken,
                tuned[0] / taken if tuned else None)
        keys = ["all", b_is, "odd N or K" if n % 8 or k % 8 else "M <= 16" if m <= 16 else "M <= 128" if m <= 128 else
                "M <= 1024" if m <= 1024 else "M > 1024"] + (["odd M"] if m % 2 and m > 1 else [])
        if m <= 16 and n * k * 2 >= 64 << 20:
            keys.append("64 MB, TB/s")
            item = (*item, 2e-6 * (n * k + m * n + m * k) / taken)
        for key in keys:
            groups.setdefault(key, []).append(item)
    mean = lambda values: math.exp(statistics.fmean(map(math.log, values))) if values else math.nan
    print("group: shapes; of the better peer: mean, least, how many >= 0.97, >= 0.92; of cuBLAS; of Triton; best form / taken, within 3 %")
    for key, items in sorted(groups.items()):
        over = [item[0] for item in items]
        text = (f"{key:12} {len(items):3}; {mean(over):.3f}, {min(over):.3f}, {sum(x >= 0.97 for x in over)}, "
                f"{sum(x >= 0.92 for x in over)}; {mean([item[1] for item in items]):.3f}; "
                f"{mean([item[3] for item in items if item[3]]):.3f}; {mean([item[2] for item in items]):.3f}, "
                f"{sum(item[2] >= 1 / 1.03 for item in items)}")
        if key.endswith("TB/s"):
            text += "; TB/s " + " ".join(f"{item[4]:.2f}" for item in items)
        print(text)


def measure(options):
    import timing
    import torch
    triton_products = None
    if not options.without_triton:
        import triton_products
    began = time.perf_counter()
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton_products.VERSION if triton_products else 'left out'}")
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    part, parts = map(int, options.only.split("/"))
    shapes, rows, modules = drawn(options.seed), [], {}
    random.Random(1).shuffle(shapes)
    for shape in shapes[part::parts]:
        if time.perf_counter() - began > options.seconds:
            print("# out of time")
            break
        rows += measure_shape(shape, modules, options, flush, triton_products)
        if options.csv and rows:
            with open(options.csv, "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FIELDS)
                writer.writeheader()
                writer.writerows(rows)
    summary(rows)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", metavar="list | prepare | warm | measure FOLDER | table CSV")
    parser.add_argument("--tilec")
    parser.add_argument("--out")
    parser.add_argument("--csv")
    parser.add_argument("--share", default="0/1", metavar="I/N")
    parser.add_argument("--only", default="0/1", metavar="I/N")
    parser.add_argument("--reps", type=int, default=11)
    parser.add_argument("--budget", type=float, default=0.12, help="seconds for the repetitions of a shape")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=SEED, help="other shapes than those of the table")
    parser.add_argument("--without-triton", action="store_true")
    options = parser.parse_args()
    options.random = random.Random(1)
    if options.what[0] == "list":
        writer = csv.writer(sys.stdout)
        writer.writerow(FIELDS[:4])
        writer.writerows(drawn(options.seed))
        return 0
    if options.what[0] == "table":
        with open(options.what[1], newline="", encoding="utf-8") as file:
            summary(list(csv.DictReader(file)))
            return 0
    if options.what[0] == "warm":
        import triton_products
        return triton_products.warm(*map(int, options.share.split("/")))
    return prepare(options) if options.what[0] == "prepare" else measure(options)


if __name__ == "__main__":
    sys.exit(main())
