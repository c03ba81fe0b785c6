#!/usr/bin/env python3
"""weights.py - products by weights of 4 bits beside others', in one process.

    weights.py prepare --tilec TILEC --out FOLDER [--jobs N]    compiles ours; needs no GPU
    weights.py measure FOLDER [--csv FILE] [--seconds N] [--rows 1,16]

Ours: examples/gemm_w4.tile in some tiles and plans (FORMS), each weight rounded to bf16 or sums scaled; the fastest is told.  Peers: cuBLAS on
the weights in bf16, PyTorch's _weight_int4pack_mm, and a kernel in Triton (triton_weights.py).  Groups of 128, bf16.  TB/s: bytes
of the codes.  Errors beside float64 of the exact weights: rms over the rms of Y, of some columns.  256 MB are written before each timed
call; an order shuffled anew; medians (timing.py).
"""
import argparse
import csv
import os
import random
import statistics
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "examples")
sys.path[:0] = [HERE, os.path.join(EXAMPLES, "python")]
G = 128
WEIGHTS = [(4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192)]  # N, K
ROWS = [1, 16, 64, 256, 1024, 4096]
# rows of a tile, columns, depth, sums scaled, plan
FEW = [(tm, tn, 128, sums, plan) for tm in (8, 16) for tn in (64, 128) for sums in (1, 0)
       for plan in ("consumers=1,stages=8", "consumers=2,stages=8", "consumers=4,stages=6")]
SOME = [(tm, tn, 128, sums, plan) for tm in (32, 64) for tn in (64, 128) for sums in (1, 0) for plan in ("consumers=1,stages=6", "consumers=2,stages=4")]
MANY = [(256, 64, 64, 0, "consumers=2,stages=4"), (256, 64, 64, 0, "consumers=2,stages=5"), (256, 64, 128, 0, "consumers=2,stages=2"),
        (256, 64, 128, 0, "consumers=2,stages=3"), (192, 64, 64, 0, "consumers=3,stages=4"), (192, 64, 128, 0, "consumers=3,stages=3"),
        (192, 64, 128, 0, "consumers=2,stages=3"), (160, 64, 128, 0, "consumers=3,stages=3"), (128, 128, 128, 0, "consumers=2,stages=3"),
        (128, 128, 128, 0, "consumers=2,stages=4"), (128, 128, 64, 0, "consumers=2,stages=4"), (128, 64, 128, 0, "consumers=3,stages=3"),
        (128, 64, 128, 0, "consumers=2,stages=4"), (64, 128, 128, 0, "consumers=3,stages=3"), (64, 64, 128, 0, "consumers=2,stages=4"),
        (64, 128, 128, 1, "consumers=2,stages=4"), (128, 64, 128, 1, "consumers=2,stages=4"), (64, 64, 128, 1, "consumers=3,stages=4")]
# of the kernel that divides K: rows of a tile, columns, programs, sums scaled, plan
SPLIT = [(tm, tn, parts, 1, plan) for tm in (8, 16) for tn in (64, 128) for parts in (2, 3, 4, 6, 8) for plan in ("consumers=1,stages=6", "consumers=2,stages=6", "consumers=4,stages=4")]
SPLIT_MORE = {64: [(64, 64, parts, 1, plan) for parts in (2, 4, 8) for plan in ("consumers=1,stages=6", "consumers=2,stages=4")],
              256: [(tm, 64, parts, 0, plan) for parts in (2, 4) for tm, plan in ((128, "consumers=2,stages=4"), (256, "consumers=2,stages=3"))]}
FIELDS = ["M", "N", "K", "name", "us", "min_us", "tbps", "tflops", "error"]


def forms_for(m):
    return [f for f in FEW if f[0] == 8 or m > 8] if m <= 16 else SOME if m <= 64 else MANY


def name_of(form):
    tm, tn, tk, sums, plan = form
    return f"w4-{tm}x{tn}x{tk}-{'sums' if sums else 'each'}-{plan.replace('consumers=', '').replace(',stages=', 'x')}"


def split_for(m):
    return SPLIT if m <= 16 else SPLIT_MORE.get(m, [])


def split_name(form):
    tm, tn, sums, plan = form
    return f"split-{tm}x{tn}-{'sums' if sums else 'each'}-{plan.replace('consumers=', '').replace(',stages=', 'x')}"


def compile_to(options, name, kernel, defines, plan=None):
    words = [word for key, value in defines.items() for word in ("-D", f"{key}={value}")] + ([f"--plan={plan}"] if plan else [])
    done = subprocess.run([options.tilec, os.path.join(EXAMPLES, "gemm_w4.tile"), "-arch", "sm_90", "--kernel", kernel, *words, "-Wno-plan", "-o",
                           os.path.join(options.out, name + ".cubin")], capture_output=True, text=True)
    return name, done.returncode, (done.stderr + done.stdout).strip()


def prepare(options):
    os.makedirs(options.out, exist_ok=True)

    jobs = [(name_of(f), "gemm_w4", {"TM": f[0], "TN": f[1], "TK": f[2], "SUMS": "true" if f[3] else "false"}, f[4]) for f in FEW + SOME + MANY]
    every = sorted({(tm, tn, sums, plan) for m in ROWS for tm, tn, _, sums, plan in split_for(m)})
    jobs += [(split_name(f), "gemm_w4_split", {"TM": f[0], "TN": f[1], "SUMS": "true" if f[2] else "false"}, f[3]) for f in every]
    jobs += [(f"sum-{tm}", "gemm_w4_sum", {"TM": tm}) for tm in (8, 16, 64)]
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, status, said in pool.map(lambda job: compile_to(options, *job), jobs):
            if status or said:
                print(f"# {name}: {said.splitlines()[0] if said else status}", flush=True)


def contenders_of(m, n, k, folder, modules):
    import tilec_torch
    import torch
    import triton_weights
    torch.manual_seed(1)
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    q = torch.randint(0, 16, (n, k), device="cuda", dtype=torch.uint8)
    s = (torch.rand(k // G, n, device="cuda") * 0.02 + 0.01).bfloat16()
    packed = q[:, 0::2] | q[:, 1::2] << 4
    w = ((q.float() - 8) * s.float().t().repeat_interleave(G, 1)).bfloat16()
    some = torch.arange(0, n, max(1, n // 64), device="cuda")
    exact = (q[some].double() - 8) * s.t()[some].double().repeat_interleave(G, 1)
    want = x.double() @ exact.t()
    runs, outputs = {}, {}
    for form in forms_for(m):
        name = name_of(form)
        file = os.path.join(folder, name + ".cubin")
        if not os.path.exists(file):
            continue
        try:
            if name not in modules:
                modules[name] = tilec_torch.load(file).select("gemm_w4")
            prepared = modules[name].prepare(X=x, Q=packed, S=s)
        except Exception as error:  # noqa: BLE001
            print(f"# {name}: {str(error).splitlines()[0]}", flush=True)
            continue
        runs[name], outputs[name] = prepared.run, lambda prepared=prepared: prepared.tensors["Y"]

    for tm, tn, parts, sums, plan in split_for(m):
        name = f"{split_name((tm, tn, sums, plan))}-{parts}"
        file, last = (os.path.join(folder, f + ".cubin") for f in (split_name((tm, tn, sums, plan)), f"sum-{min(tm, 64)}"))
        programs = -(-n // tn) * parts * -(-m // tm) / int(plan[len("consumers=")])
        if m <= 16 and (tm == 8) != (m <= 8) or k // G % parts != 0 or k // G // parts < 4 or not 100 <= programs <= 132 * 8:
            continue
        try:
            for at, kernel in (file, "gemm_w4_split"), (last, "gemm_w4_sum"):
                if at not in modules:
                    modules[at] = tilec_torch.load(at).select(kernel)
            first = modules[file].prepare(X=x.view(m, parts, -1), Q=packed.view(n, parts, -1), S=s.view(parts, -1, n))
            second = modules[last].prepare(Y=first.tensors["Y"])
        except Exception as error:  # noqa: BLE001
            print(f"# {name}: {str(error).splitlines()[0]}", flush=True)
            continue
        runs["w4-" + name] = lambda first=first, second=second: (first.run(), second.run())
        outputs["w4-" + name] = lambda second=second: second.tensors["Z"]

    def peer(name, run):
        held = {}

        def once():
            held["y"] = run()
        try:
            once()
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001
            print(f"# {name}: {str(error).splitlines()[0]}", flush=True)
            return
        runs[name], outputs[name] = once, lambda: held["y"]

    peer("cuBLAS", lambda: x @ w.t())
    try:  # of many rows it takes 20 times as long as cuBLAS; its bytes have the first element in the upper half
        tiny = torch._convert_weight_to_int4pack((q[:, 0::2] << 4 | q[:, 1::2]).contiguous(), 8)
        zeros = torch.stack([s, torch.zeros_like(s)], 2).contiguous()
        if m <= 64:
            peer("tinygemm", lambda: torch._weight_int4pack_mm(x, tiny, G, zeros))
    except Exception as error:  # noqa: BLE001
        print(f"# tinygemm: {str(error).splitlines()[0]}", flush=True)
    for config in triton_weights.configs(m):
        peer("triton-" + "x".join(map(str, config)), lambda config=config: triton_weights.product(config, x, packed, s))
    for run in runs.values():
        run()
    torch.cuda.synchronize()
    errors = {name: ((y()[:, some].double() - want).square().mean().sqrt() / want.square().mean().sqrt()).item() for name, y in outputs.items()}
    return runs, errors


def measure(options):
    import timing
    import torch
    flush, order, modules, began = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), random.Random(0), {}, time.time()
    shapes = [(m, n, k) for m in map(int, options.rows.split(",")) for n, k in WEIGHTS]
    shapes.sort(key=lambda shape: (shape[1:] == (28672, 8192) and shape[0] > 256, shape[0] in (64, 1024)))
    with open(options.csv, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for m, n, k in shapes:
            if time.time() - began > options.seconds:
                print(f"# {m} {n} {k}: no time left", flush=True)
                continue
            runs, errors = contenders_of(m, n, k, options.what[1], modules)
            wrong = [name for name, error in errors.items() if not error < 0.02]
            for name in wrong:
                print(f"# {name}: an error of {errors[name]:.3f}", flush=True)
                if name.startswith("w4"):
                    del runs[name]
            run = {name: types.SimpleNamespace(run=call, kind="ours" if name.startswith("w4") else "peer") for name, call in runs.items()}
            times = timing.measure(run, "spin", flush, order, options.reps if m <= 256 else 5, 1, 200_000)
            best = {}
            for name, found in sorted(times.items()):
                us, kind = 1000 * statistics.median(found), name.split("-")[0]
                row = (m, n, k, name, f"{us:.2f}", f"{1000 * min(found):.2f}", f"{n * k / 2 / us / 1e6:.3f}", f"{2 * m * n * k / us / 1e6:.1f}", f"{errors[name]:.2e}")
                writer.writerow(dict(zip(FIELDS, row)))
                if kind not in best or us < best[kind][0]:
                    best[kind] = (us, n * k / 2 / us / 1e6, 2 * m * n * k / us / 1e6, name, errors[name])
            out.flush()
            print(f"{m}x{n}x{k}", "  ".join(f"{name} {us:.1f} us {rate:.2f} TB/s {flops:.0f} TF error {error:.1e}" for us, rate, flops, name, error in best.values()), flush=True)
            del runs, run
            torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="prepare, or measure FOLDER")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--out", default="weights")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--csv", default="weights.csv")
    parser.add_argument("--reps", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    options = parser.parse_args()
    (prepare if options.what == ["prepare"] else measure)(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
