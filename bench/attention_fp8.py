#!/usr/bin/env python3
"""attention_fp8.py - attention whose products are of e4m3, in the plans that tilec builds, beside bf16 and cuDNN, in one process.

    attention_fp8.py prepare --tilec TILEC --out FOLDER    compiles ours; needs no GPU
    attention_fp8.py measure FOLDER [--csv FILE] [--seconds N]

16,384 tokens and heads that are 2048 wide together, as bench.py.  Q, K and V are normal, or have outliers (--outliers: one of a
thousand ten times as large), in e4m3 with a scale for each head.  Ours: examples/attention_fp8.tile (V with keys side by
side) as tilec plans it (`auto`) and in each of FORMS, examples/attention.tile in bf16.  Peers: PyTorch's cuDNN and
FlashAttention-2 in bf16; cuDNN in e4m3 where the module `cudnn` is there, with one scale for each tensor and O in e4m3.
Errors, of some heads beside float64: `error` of what the codes say, `whole` of the numbers before they were rounded to
e4m3 (for bf16: to bf16), both rms over the rms of O.  256 MB are written before each timed call; an order shuffled anew;
medians (timing.py).
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
EXAMPLES = os.path.join(HERE, "..", "examples")
FIELDS = ["D", "S", "causal", "name", "ms", "min_ms", "tflops", "error", "whole"]
TOKENS, WIDTH = 16384, 2048
# by head dimension: N, consumers; with as many stages as fit
FORMS = {64: [(64, 4), (96, 3), (128, 3), (128, 2), (160, 2), (192, 2), (224, 2), (256, 2)],
         128: [(64, 3), (96, 3), (96, 2), (128, 2), (160, 2), (192, 2)],
         256: [(32, 2), (64, 2), (96, 2)]}
EXACT = {64: [(64, 3), (96, 3), (128, 2)], 128: [(64, 2), (96, 2), (128, 2)], 256: []}
STAGES = ["4,q_stages=2", "3,q_stages=2", "2,q_stages=2", "4", "3", "2", "1"]


def jobs_of():
    for d in FORMS:
        for causal in ("false", "true"):
            where = ["-D", f"D={d}", "-D", f"CAUSAL={causal}"]
            yield "attention.tile", f"{d}-{causal}+bf16", where, [None]
            yield "attention_fp8.tile", f"{d}-{causal}+auto", where, [None]
            for exact, forms in ((False, FORMS[d]), (True, EXACT[d])):
                for n, consumers in forms:
                    name = f"{d}-{causal}+{'exact-' if exact else ''}{n}x{consumers}"
                    more = [*where, "-D", "M=64", "-D", f"N={n}", "-D", f"FAST={'false' if exact else 'true'}"]
                    yield "attention_fp8.tile", name, more, [f"--plan=consumers={consumers},stages={s}" for s in STAGES]


def prepare(options):
    os.makedirs(options.out, exist_ok=True)

    def one(job):
        file, name, flags, plans = job
        for plan in plans:
            made = subprocess.run([options.tilec, os.path.join(EXAMPLES, file), "-arch", "sm_90", "-Werror=plan", "--tuning=none", *flags,
                                   *([plan] if plan else []), "-o", os.path.join(options.out, f"{name}.cubin")],
                                  capture_output=True, text=True, check=False)
            if made.returncode == 0:
                return name, plan, made.stderr
        return name, "", made.stderr

    with ThreadPoolExecutor(options.jobs) as pool:
        for name, plan, text in pool.map(one, jobs_of()):
            print(f"{name:24} {plan or ''} {' '.join(text.split())[:200]}", flush=True)
    return 0


def drawn(b, s, h, d, outliers):
    """Numbers [B, S, H, D], as e4m3 with a scale for each head, and whole."""
    import torch
    x = torch.randn(b, s, h, d, device="cuda")
    if outliers:
        x += 10 * torch.randn_like(x) * (torch.rand_like(x) < 0.001)
    scale = x.abs().amax((1, 3)) / 448
    return x, (x / scale[:, None, :, None]).to(torch.float8_e4m3fn), scale


def attended(q, k, v, causal, scale):
    """[heads, S, D] in float64, 2048 queries at a time."""
    import torch
    out, n = torch.empty_like(q), q.shape[1]
    for first in range(0, n, 2048):
        rows = slice(first, min(first + 2048, n))
        s = torch.einsum("hqd,hkd->hqk", q[:, rows], k) * scale
        if causal:
            keys = torch.arange(n, device="cuda")
            s.masked_fill_(keys[None, None] > keys[rows][None, :, None], -torch.inf)
        out[:, rows] = torch.softmax(s, -1) @ v
    return out


def cudnn_fp8(q, k, v, causal, scale, o_type):
    """A call of cuDNN's graph: Q, K, V with one scale each, O, in e4m3, with one, too."""
    import cudnn
    import torch
    b, s, h, d = q.shape
    e4m3, f32 = cudnn.data_type.FP8_E4M3, cudnn.data_type.FLOAT
    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
    graph = cudnn.pygraph(io_data_type=e4m3, intermediate_data_type=f32, compute_data_type=f32, handle=handle)
    codes, one = [], [1, 1, 1, 1]
    scales = {name: torch.ones(one, device="cuda") for name in ("dq", "dk", "dv", "ds", "ss", "so")}
    for name, x in zip(("dq", "dk", "dv"), (q, k, v)):
        whole = x.abs().max() / 448
        codes.append((x / whole).to(torch.float8_e4m3fn))
        scales[name].fill_(whole.item())
    scales["ss"].fill_(256.0)
    scales["ds"].fill_(1 / 256.0)
    o = torch.empty(b, s, h, d, device="cuda", dtype=o_type)
    dims, strides = [b, h, s, d], [s * h * d, d, h * d, 1]
    tensors = [graph.tensor(dim=dims, stride=strides, data_type=e4m3) for _ in codes]
    given = {name: graph.tensor(dim=one, stride=one, data_type=f32) for name in scales}
    out, _, amax_s, amax_o = graph.sdpa_fp8(
        q=tensors[0], k=tensors[1], v=tensors[2], descale_q=given["dq"], descale_k=given["dk"], descale_v=given["dv"],
        descale_s=given["ds"], scale_s=given["ss"], scale_o=given["so"], is_inference=True, attn_scale=scale, use_causal_mask=causal)
    out.set_output(True).set_dim(dims).set_stride(strides).set_data_type(e4m3 if o_type.itemsize == 1 else cudnn.data_type.BFLOAT16)
    most = {x: torch.zeros(one, device="cuda") for x in (amax_s, amax_o)}
    for x in most:
        x.set_output(True).set_dim(one).set_stride(one).set_data_type(f32)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()
    space = torch.empty(graph.get_workspace_size(), device="cuda", dtype=torch.uint8)
    pack = {**dict(zip(tensors, codes)), **{given[n]: scales[n] for n in scales}, out: o, **most}

    def run():
        graph.execute(pack, space, handle=handle)

    run()
    torch.cuda.synchronize()
    if o_type.itemsize == 1:
        scales["so"].fill_(448 / max(most[amax_o].item(), 1e-6))
    whole = [c.double() * scales[n].double() for c, n in zip(codes, ("dq", "dk", "dv"))]
    return run, lambda: o.float() / scales["so"].item(), whole


def contenders_of(d, s, causal, folder, modules, outliers):
    """{name: run}, {name: its O}, {name: Q, K, V as it has them}, the same before rounding"""
    import tilec_torch
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    b, h, scale = TOKENS // s, WIDTH // d, d ** -0.5
    torch.manual_seed(1)
    found = [drawn(b, s, h, d, outliers) for _ in range(3)]
    whole, codes, scales = zip(*found)
    half = [x.bfloat16() for x in whole]
    half_exact = [x.double() for x in half]
    across = codes[2].permute(0, 2, 3, 1).contiguous()
    ours = {"Q": codes[0], "K": codes[1], "V": across, "QS": scales[0], "KS": scales[1], "VS": scales[2]}
    exact = [c.double() * x.double()[:, None, :, None] for c, x in zip(codes, scales)]
    built, results, seen = {}, {}, {}
    for path in sorted(glob.glob(os.path.join(folder, f"{d}-{str(causal).lower()}+*.cubin"))):
        name = os.path.basename(path)[:-6].split("+")[1]
        if path not in modules:
            modules[path] = tilec_torch.load(path)
        o = torch.full((b, s, h, d), torch.nan, device="cuda", dtype=torch.bfloat16)
        lse = torch.full((b, h, s), torch.nan, device="cuda")
        given = dict(zip("QKV", half), softcap=1.0) if name == "bf16" else ours
        try:
            built["ours:" + name] = modules[path].prepare(**given, O=o, L=lse, scale=scale).run
        except tilec_torch.TilecError as error:
            print(f"# left out: {name}: {error}", flush=True)
            continue
        results["ours:" + name] = lambda o=o: o
        seen["ours:" + name] = half_exact if name == "bf16" else exact
    turned = [x.transpose(1, 2) for x in half]
    for name, backend in (("cudnn-bf16", SDPBackend.CUDNN_ATTENTION), ("fa2-bf16", SDPBackend.FLASH_ATTENTION)):
        def run(backend=backend):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=causal, scale=scale)
        built["peer:" + name] = run
        results["peer:" + name] = lambda run=run: run().transpose(1, 2)
        seen["peer:" + name] = half_exact
    for o_type in (torch.bfloat16, torch.float8_e4m3fn):
        name = f"peer:cudnn-e4m3-{'e4m3' if o_type.itemsize == 1 else 'bf16'}"
        try:
            built[name], results[name], seen[name] = cudnn_fp8(*whole, causal, scale, o_type)
            break
        except Exception as error:  # noqa: BLE001
            print(f"# {name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
    return built, results, seen, whole


def errors_of(built, results, seen, whole, causal, scale):
    """{name: (error of what it was given, error of all)}; leaves out what fails."""
    import torch
    heads, errors, wants = slice(0, 1), {}, {}
    few = lambda x: x[0, :, heads].transpose(0, 1).double().contiguous()
    rms = lambda x: x.square().mean().sqrt().item()
    all_of_it = attended(*(few(x) for x in whole), causal, scale)
    for name in list(built):
        try:
            built[name]()
            torch.cuda.synchronize()
            key = id(seen[name])
            if key not in wants:
                wants[key] = attended(*(few(x) for x in seen[name]), causal, scale)
            got, want = few(results[name]()), wants[key]
            last = results[name]()[-1, :, -1].float()
            errors[name] = (rms(got - want) / rms(want), rms(got - all_of_it) / rms(all_of_it))
            if not (errors[name][0] < 0.2 and last.isfinite().all()):
                raise ValueError(f"error {errors[name][0]:.3g}")
        except Exception as error:  # noqa: BLE001
            print(f"# left out: {name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
            del built[name]
    return errors


def measure(options):
    import timing
    import torch
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    order, modules, began = random.Random(0), {}, time.time()
    with open(options.csv, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for s in (4096, 16384, 1024, 2048):
            for d in FORMS:
                for causal in (False, True):
                    if time.time() - began > options.seconds:
                        return 0
                    built, results, seen, whole = contenders_of(d, s, causal, options.what[1], modules, options.outliers)
                    errors = errors_of(built, results, seen, whole, causal, d ** -0.5)
                    runs = {name: types.SimpleNamespace(run=run, kind="ours") for name, run in built.items()}
                    times = {} if options.outliers else timing.measure(runs, "spin", flush, order, options.reps, 2, 400_000)
                    flops = 4 * TOKENS * WIDTH * s * (0.5 if causal else 1)
                    print(f"d {d} s {s} {'causal' if causal else 'full'}", flush=True)
                    ms = {name: statistics.median(times.get(name, [float("nan")])) for name in built}
                    for name in sorted(built, key=ms.get):
                        rate = flops / ms[name] / 1e9
                        print(f"    {name:22} {ms[name]:8.4f} ms {rate:7.1f} TFLOPS  error {errors[name][0]:.2e} whole {errors[name][1]:.2e}", flush=True)
                        writer.writerow(dict(zip(FIELDS, (d, s, int(causal), name, f"{ms[name]:.4f}", f"{min(times.get(name, [0])):.4f}",
                                                          f"{rate:.1f}", f"{errors[name][0]:.3e}", f"{errors[name][1]:.3e}"))))
                    out.flush()
                    del built, results, seen, whole
                    torch.cuda.empty_cache()
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="prepare, or measure FOLDER")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--out", default="fp8")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--csv", default="attention_fp8.csv")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--reps", type=int, default=15)
    parser.add_argument("--outliers", action="store_true", help="errors only, of other numbers")
    options = parser.parse_args()
    return prepare(options) if options.what == ["prepare"] else measure(options)


if __name__ == "__main__":
    sys.exit(main())
