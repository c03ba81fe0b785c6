#!/usr/bin/env python3
"""eight.py - products of eight bits, in the forms that tilec builds, beside cuBLASLt, in one process.

    eight.py list                                          the shapes, as CSV
    eight.py prepare --tilec TILEC --out FOLDER [--forms KINDS]  compiles ours; needs no GPU
    eight.py measure FOLDER [--csv FILE] [--seconds N]     times them on the GPU

C (bf16) = A W^T, both e4m3 with a scale each (`whole`) or one for each row (`rows`), with sums as the tensor cores have them
(`fast`) or in f32 (`exact`); with a scale for each 128 of a row of A and for 128 x 128 of W (`blocks`); and i32 of i8 (`i8`).  Peers: torch._scaled_mm and torch._int_mm.  Every N and K is one of today's
models; drawn with a seed.  Ours is `rows/eight.tile` by `--variants=auto`, and of the kinds of --forms each of FORMS besides.
Results are compared with the peer's.  256 MB are written before each timed call; an order shuffled anew; medians (timing.py).
"""

import argparse
import csv
import glob
import os
import random
import statistics
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "examples", "python")]
FIELDS = ["M", "N", "K", "kind", "name", "us", "min_us", "taken"]
SEED, COUNT = 38, 40
WEIGHTS = [(4096, 4096), (6144, 4096), (14336, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (10240, 8192), (28672, 8192),
           (8192, 28672), (5120, 5120), (7168, 2048), (2048, 7168), (12288, 3072), (1024, 4096), (7168, 16384), (24576, 1536)]
KINDS = {"exact": ("floats", []), "fast": ("floats", ["-D", "FAST=true"]),
         "exact-rows": ("floats", ["-D", "ROWS=true"]), "fast-rows": ("floats", ["-D", "FAST=true", "-D", "ROWS=true"]),
         "blocks": ("blocks", []), "i8": ("integers", [])}
# TM, TN, TK, consumers; with as many stages as fit
FORMS = [(tm, tn, tk, c) for tm, tn in [(16, 64), (16, 128), (32, 64), (32, 128), (64, 64), (64, 128), (64, 192), (64, 256), (128, 64),
                                        (128, 128), (128, 192)]
         for tk in (128, 256) for c in (1, 2, 3, 4) if tm * tn * c <= 32768]
STAGES = (8, 7, 6, 5, 4, 3)


def drawn():
    """[(M, N, K)]"""
    draw, found = random.Random(SEED), []
    while len(found) < COUNT:
        shape = (2 ** draw.randint(0, 13), *draw.choice(WEIGHTS))
        if shape not in found:
            found.append(shape)
    return found


def compile_one(options, kind, name, flags):
    kernel, own = KINDS[kind]
    made = subprocess.run([options.tilec, os.path.join(HERE, "rows", "eight.tile"), "-arch", "sm_90", "-Wno-plan", "--kernel", kernel,
                           "--tuning=none", *own, *flags, "-o", os.path.join(options.out, f"{kind}+{name}.cubin")],
                          capture_output=True, text=True, check=False)
    return made.returncode, made.stderr


def prepare(options):
    os.makedirs(options.out, exist_ok=True)
    jobs = [(kind, form) for kind in KINDS for form in [None, *(FORMS if kind in options.forms.split(",") else [])]]

    def one(job):
        kind, form = job
        if form is None:
            return compile_one(options, kind, "auto", ["--variants=auto"])
        if kind == "blocks" and (form[1] > 128 or form[2] > 128):
            return 1, ""
        tiles = [word for name, size in zip(("TM", "TN") if kind == "blocks" else ("TM", "TN", "TK"), form) for word in ("-D", f"{name}={size}")]
        for stages in STAGES:
            name = "{}x{}x{}-{}-{}".format(*form, stages)
            code, text = compile_one(options, kind, name, [*tiles, f"--plan=consumers={form[3]},stages={stages},q_stages=2"])
            if code == 0 and "spills" in text:
                os.unlink(os.path.join(options.out, f"{kind}+{name}.cubin"))
            if code == 0:
                break
        return code, text

    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(one, jobs))
    print(f"{len(jobs)} programs, {sum(code != 0 for code, _ in done)} can not be built, {sum('spills' in text for _, text in done)} spill")
    for (kind, form), (code, text) in zip(jobs, done):
        if form is None and (code or text):
            print(kind, text)
    return 0


def peers_of(kind, a, w, sa, sw, c):
    import torch
    if kind == "i8":
        return {"int_mm": lambda: torch._int_mm(a, w.t(), out=c)} if a.shape[0] > 16 else {}
    if kind == "blocks":  # of A's scales those of a block's columns lie side by side, of W's those of a row
        turned = sa.t()
        return {"scaled_mm": lambda: torch._scaled_mm(a, w.t(), turned, sw.t(), out_dtype=torch.bfloat16, out=c)}
    fast = kind.startswith("fast")
    if kind.endswith("rows"):
        sa, sw = sa[:, None], sw[None, :]
    return {"scaled_mm": lambda: torch._scaled_mm(a, w.t(), sa, sw, out_dtype=torch.bfloat16, use_fast_accum=fast, out=c)}


def contenders_of(shape, kind, folder, modules):
    import tilec_torch
    import torch
    m, n, k = shape
    torch.manual_seed(1)
    if kind == "i8":
        a, w = (torch.randint(-128, 128, (r, k), device="cuda", dtype=torch.int8) for r in (m, n))
        sa = sw = None
    else:
        a, w = (torch.randn(r, k, device="cuda").to(torch.float8_e4m3fn) for r in (m, n))
        rows = kind.endswith("rows")
        of = [(k // 128, m), (n // 128, k // 128)] if kind == "blocks" else [(m,), (n,)] if rows else [(1,), (1,)]
        sa, sw = (torch.rand(*extents, device="cuda") + 0.5 for extents in of)
    dtype = torch.int32 if kind == "i8" else torch.bfloat16
    results = {name: torch.full((m, n), -1, device="cuda", dtype=dtype) for name in ("ours", "peer")}
    tensors = {"A": a, "W": w, "C": results["ours"], **({} if kind == "i8" else {"SA": sa, "SW": sw})}
    built = {"peer:" + name: run for name, run in peers_of(kind, a, w, sa, sw, results["peer"]).items()}
    taken = None
    for file in sorted(glob.glob(os.path.join(folder, glob.escape(kind) + "+*.cubin"))):
        name = os.path.basename(file)[len(kind) + 1:-6]
        if name != "auto":
            tm, tn = (int(x) for x in name.split("x")[:2])
            if tm < 64 and m > 64 or m <= 16 and max(tm, tn) > 128 or m <= 8 and tm > 64:
                continue
        if file not in modules:
            modules[file] = tilec_torch.load(file)
        module = modules[file].select(KINDS[kind][0])
        kernel = module.kernels[0]
        if name != "auto":
            built["ours:" + name] = module.prepare(**tensors).run
            continue
        chosen = kernel.form(kernel.sizes(tensors, {}))
        for form in (kernel, *kernel.variants):
            kernel.form = lambda env, form=form: form
            try:
                built["ours:auto-" + form.meta["entry"]] = module.prepare(**tensors).run
            finally:
                del kernel.form
        taken = "ours:auto-" + chosen.meta["entry"]
    return built, taken, results


def check(built, results, kind):
    """Leaves out what fails or differs from the peer."""
    import torch
    want = None
    for name in list(built):
        got = results[name.split(":")[0]]
        got.fill_(-1)
        try:
            built[name]()
            torch.cuda.synchronize()
            wrong = ""
            if want is None:
                want = got.double()
            else:
                worst = (got.double() - want).abs().max().item()
                allowed = 0 if kind == "i8" else (2.0 ** -5 if kind.startswith("fast") else 2.0 ** -7) * want.abs().max().item()
                wrong = "" if worst <= allowed else f"differs by {worst:.2e}, of {want.abs().max().item():.2e}"
        except Exception as error:  # noqa: BLE001
            wrong = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if wrong:
            print(f"# left out: {name}: {wrong}", flush=True)
            del built[name]


def times_of(built, flush, order, budget, most):
    import timing
    import torch
    torch.cuda.synchronize()
    began = time.perf_counter()
    for run in built.values():
        run()
    torch.cuda.synchronize()
    once = time.perf_counter() - began + 0.00025 * len(built)
    reps = max(3, min(most, int(budget / once)))
    runs = {name: types.SimpleNamespace(run=run, kind="ours") for name, run in built.items()}
    found = timing.measure(runs, "spin", flush, order, reps, 1, 200_000)
    return {name: [1000 * value for value in values] for name, values in found.items()}


def measure(options):
    import timing
    import torch
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    order, modules, began, ratios = random.Random(0), {}, time.time(), {}
    shapes = drawn()
    random.Random(1).shuffle(shapes)
    with open(options.csv, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for shape in shapes:
            if time.time() - began > options.seconds:
                break
            for kind in options.kinds.split(","):
                if kind == "blocks" and shape[0] % 4:
                    continue  # rows of scales begin at 16 bytes
                built, taken, results = contenders_of(shape, kind, options.what[1], modules)
                check(built, results, kind)
                if not built:
                    continue
                times = times_of(built, flush, order, options.budget, options.reps)
                us = {name: statistics.median(values) for name, values in times.items()}
                for name, values in times.items():
                    writer.writerow(dict(zip(FIELDS, (*shape, kind, name, f"{us[name]:.2f}", f"{min(values):.2f}",
                                                      int(name == taken)))))
                out.flush()
                ours = [name for name in us if name.startswith("ours")]
                peers = [us[name] for name in us if name.startswith("peer")]
                if not ours or taken not in us:
                    print("x".join(map(str, shape)), kind, "nothing of ours", taken)
                    continue
                best = min(ours, key=us.get)
                peer = min(peers) if peers else float("nan")
                ratios.setdefault(kind, []).append((peer / us[taken], peer / us[best]))
                print(f"{'x'.join(map(str, shape)):18} {kind:10} peer {peer:8.1f} ours {us[taken]:8.1f} {peer / us[taken]:.3f} best {us[best]:8.1f} "
                      f"{peer / us[best]:.3f} {best[5:]}", flush=True)
                del built, results
                torch.cuda.empty_cache()
    for kind, found in ratios.items():
        taken, best = ([x for x in column if x == x] for column in zip(*found))
        if taken:
            print(f"{kind}: {len(taken)} shapes, geometric mean {statistics.geometric_mean(taken):.3f}, least {min(taken):.3f}; of the best form "
                  f"{statistics.geometric_mean(best):.3f}, least {min(best):.3f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="list, prepare, or measure FOLDER")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--out", default="eight")
    parser.add_argument("--forms", default="", metavar="KINDS")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--csv", default="eight.csv")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--budget", type=float, default=0.25, help="seconds a shape and kind")
    parser.add_argument("--reps", type=int, default=15)
    options = parser.parse_args()
    if options.what == ["list"]:
        print("M,N,K", *(",".join(map(str, shape)) for shape in drawn()), sep="\n")
        return 0
    if options.what == ["prepare"]:
        return prepare(options)
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
