#!/usr/bin/env python3
"""experts.py - the experts of a mixture (examples/experts.tile) beside others', in one process.

    experts.py warm PART PARTS         compiles a part of the peer's configurations ahead, into Triton's cache
    experts.py [--csv FILE] [--seconds N] [--tokens 1,16] [--shapes 0,1] [--parts]

Ours: from scores to weighted sums, in each form of FORMS that is for so many tokens of an expert; `products` are both products alone.
Peers: a kernel in Triton in the form that engines use (triton_experts.py: without its routing, the best of some configurations),
torch._grouped_mm with PyTorch's operators around it, and its products alone; for a look, PyTorch's loop over the experts.  bf16, scores
drawn, CUDA graphs (but for the loop).  256 MB are written before each timed call, an order shuffled anew, medians (timing.py).  `fp8`:
weights in e4m3 with scales of 128 x 128, rounded from the same.  Errors: rms beside float64 over the rms of some rows.  --parts: what each
kernel of a call takes, by PyTorch's profiler.
"""
import argparse
import csv
import os
import random
import statistics
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
SHAPES = [("qwen3-30b", 128, 8, 2048, 768), ("mixtral-8x7b", 8, 2, 4096, 14336), ("olmoe", 64, 8, 2048, 1024), ("deepseek-v3", 256, 8, 7168, 2048)]
TOKENS = [1, 16, 64, 256, 1024, 4096, 16384]
FIELDS = ["model", "E", "top_k", "D", "F", "tokens", "name", "us", "min_us", "error"]


def forms(each):
    """Those that were worth a look, for so many tokens of an expert."""
    from tilec.torch.experts import Form
    one, two = ("consumers=1,stages=8",) * 2, ("consumers=2,stages=6",) * 2
    if each <= 12:
        return [Form(16, True, (64, 64), (64, 64), one), Form(16, True, (64, 128), (64, 128), ("consumers=1,stages=6", "consumers=1,stages=8")),
                Form(16, True, (64, 64), (64, 64), two), Form(16, True, (64, 64), (64, 128), two)]
    if each <= 48:
        return [Form(32, True, (64, 64), (64, 64), two), Form(64, True, (64, 64), (64, 64), ("consumers=2,stages=5",) * 2),
                Form(64, False, (128, 64), (128, 64)), Form(32, True, (64, 128), (64, 128), ("consumers=1,stages=5", "consumers=2,stages=5"))]
    if each <= 160:
        return [Form(64, False, (128, 64), (128, 64)), Form(64, False, (128, 64), (256, 64)), Form(128, False, (128, 64), (256, 64)),
                Form(64, True, (128, 64), (128, 64))]
    return [Form(128, False, (128, 64), (256, 64)), Form(256, False, (128, 64), (256, 64)), Form(192, False, (128, 64), (192, 64)), Form(128, False, (128, 64), (128, 64))]


def name_of(form):
    plans = "".join("-" + p.replace("consumers=", "").replace(",stages=", "x") for p in form.plans if p)
    return f"ours-{form.tm}{'few' if form.few else ''}-{form.gate_up[0]}x{form.gate_up[1]}-{form.down[0]}x{form.down[1]}{plans}"


def data(torch, tokens, e, d, f):
    torch.manual_seed(1)
    new = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)  # noqa: E731
    return new(tokens, d), torch.randn(tokens, e, device="cuda"), new(e, 2 * f, d).mul_(d**-0.5), new(e, d, f).mul_(f**-0.5)


def call_of(kernel, tensors, values):
    arguments = [tensors[name] for name in kernel.inputs] + [values.get(name) for name in kernel.values]
    return lambda: kernel.run(*arguments)


def ours(torch, form, x, s, g, w, top_k):
    """The whole, and the products alone on what the whole makes before them."""
    from tilec.torch import experts
    from tilec.torch.kernel import Kernel
    pairs, e = x.shape[0] * top_k, g.shape[0]
    values = {"scale": 1.0, "KK": top_k, "SIGMOID": False, "NORMALIZE": True, "Y": experts.places_of(pairs, e, form.tm)}
    tensors, kernel = {"X": x, "Scores": s, "G": g.unflatten(1, (2, -1)), "W": w}, experts.kernel_of("routed", form)
    before = Kernel(kernel.source, kernel.names[:3], returns=("P", "Row", "End", "Expert"), types=kernel.types, defines=kernel.defines, name="moe_before")
    made = dict(zip(before.returns, call_of(before, tensors, values)()))
    products = Kernel(kernel.source, kernel.names[3:5], returns=("O",), types=kernel.types, defines=kernel.defines, name="moe_products")
    return call_of(kernel, tensors, values), call_of(products, {**tensors, **made}, values)


def grouped(torch, x, s, g, w, top_k):
    """torch._grouped_mm: the whole with PyTorch's operators, and its products alone."""
    e, turned_g, turned_w = g.shape[0], g.transpose(1, 2), w.transpose(1, 2)

    def route():
        weights, ids = s.softmax(-1).topk(top_k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        flat, order = ids.flatten().sort(stable=True)
        ends = torch.searchsorted(flat, torch.arange(1, e + 1, device=x.device)).int()
        return weights, order, ends, x[order // top_k]

    def products(rows, ends):
        gate, up = torch._grouped_mm(rows, turned_g, offs=ends).chunk(2, -1)
        return torch._grouped_mm(torch.nn.functional.silu(gate) * up, turned_w, offs=ends)

    def whole():
        weights, order, ends, rows = route()
        y = products(rows, ends)
        back = torch.empty_like(y)
        back[order] = y
        return (back.view(*weights.shape, -1) * weights[..., None].to(x.dtype)).sum(1)
    _, _, ends, rows = route()
    return whole, lambda: products(rows, ends)


def loop(torch, x, s, g, w, top_k):
    weights, ids = s.softmax(-1).topk(top_k, -1)
    weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
    z = torch.zeros_like(x)
    for e in ids.unique().tolist():
        row, k = (ids == e).nonzero(as_tuple=True)
        gate, up = (x[row] @ g[e].t()).chunk(2, -1)
        z.index_add_(0, row, (torch.nn.functional.silu(gate) * up) @ w[e].t() * weights[row, k, None])
    return z


def in_graph(torch, run):
    """What replays a call, and its result."""
    run()
    torch.cuda.synchronize()
    graph, held = torch.cuda.CUDAGraph(), {}
    with torch.cuda.graph(graph):
        held["z"] = run()
    return graph.replay, lambda: held["z"]


def contenders(torch, tokens, e, top_k, d, f):
    import tilec.torch
    import triton_experts
    x, s, g, w = data(torch, tokens, e, d, f)
    weights, ids = s.softmax(-1).topk(top_k, -1)
    weights = weights / weights.sum(-1, keepdim=True)
    some = torch.arange(0, tokens, max(1, tokens // 8), device="cuda")[:8]
    want = torch.zeros(len(some), d, device="cuda", dtype=torch.float64)
    for i, row in enumerate(some.tolist()):
        for k in range(top_k):
            gate, up = (g[ids[row, k]].double() @ x[row].double()).chunk(2)
            want[i] += weights[row, k].double() * (w[ids[row, k]].double() @ (torch.nn.functional.silu(gate) * up))
    runs, errors, each = {}, {}, tokens * top_k / e

    def add(name, run, whole=True, graph=True):
        try:
            replay, result = in_graph(torch, run) if graph else (run, run)
            replay()
            error = ((result()[some].double() - want).norm() / want.norm()).item() if whole else 0
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001
            print(f"# {name}: {repr(error)[:300]}", flush=True)
            return
        if not error < (0.08 if name == "fp8" else 0.02):
            print(f"# WRONG {name}: an error of {error:.3f}", flush=True)
            return
        runs[name], errors[name] = types.SimpleNamespace(run=replay, kind="ours" if name[:2] in ("ou", "mo", "fp") else "peer", memory=run), error
    add("moe", lambda: tilec.torch.moe(x, s, g, w, top_k))
    if d % 128 == 0 and f % 128 == 0:
        of_g, of_w = (t.abs().max().float() / 448 for t in (g, w))  # all blocks have one scale, which costs as much as many
        eight_g, eight_w = (g / of_g).to(torch.float8_e4m3fn), (w / of_w).to(torch.float8_e4m3fn)
        scales = of_g.expand(e, 2 * f // 128, d // 128).contiguous(), of_w.expand(e, d // 128, f // 128).contiguous()
        add("fp8", lambda: tilec.torch.moe(x, s, eight_g, eight_w, top_k, scale_gate_up=scales[0], scale_down=scales[1]))
    for form in forms(each):
        try:
            whole, products = ours(torch, form, x, s, g, w, top_k)
        except Exception as error:  # noqa: BLE001
            print(f"# {name_of(form)}: {repr(error)[:300]}", flush=True)
            continue
        add(name_of(form), whole)
        add(name_of(form).replace("ours", "our products"), products, whole=False)
    for config in triton_experts.configs(each):
        add("triton-" + "x".join(map(str, config)), triton_experts.Experts(config, x, weights, ids, g, w))
    whole, products = grouped(torch, x, s, g, w, top_k)
    add("grouped_mm", whole)
    add("grouped_mm products", products, whole=False)
    if tokens in (16, 1024):
        add("loop", lambda: loop(torch, x, s, g, w, top_k), graph=False)
    return runs, errors


def parts(torch, runs):
    """Microseconds of each kernel of a call, in order."""
    best = [name for name in ("moe", next((n for n in runs if n.startswith("triton")), "")) if name in runs]
    for name in best:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(3):
                runs[name].run()
            torch.cuda.synchronize()
        events = [(event.time_range.start, event.name, event.time_range.elapsed_us()) for event in profile.events() if "CUDA" in str(event.device_type)]
        events = sorted(events)[-len(events) // 3:]
        print(f"  parts of {name}: " + ", ".join(f"{what.split('(')[0][:28]} {us:.1f}" for _, what, us in events), flush=True)


def warm(part, parts):
    """Triton's kernels for all configurations; ours are kept by tilec's own cache."""
    import torch
    import triton_experts
    todo = [(config, top_k) for config in dict.fromkeys(triton_experts.FEW + triton_experts.SOME + triton_experts.MANY) for top_k in (8, 2)]
    for config, top_k in todo[part::parts]:
        x, s, g, w = data(torch, 4, 8, 256, 256)
        weights, ids = s.softmax(-1).topk(top_k, -1)
        try:
            triton_experts.Experts(config, x, weights, ids, g, w)()
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001
            print(f"# triton {config}: {repr(error)[:200]}", flush=True)
    return 0


def main():
    if sys.argv[1:2] == ["warm"]:
        return warm(int(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", default="experts.csv")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)))
    parser.add_argument("--shapes", default=",".join(map(str, range(len(SHAPES)))))
    parser.add_argument("--parts", action="store_true")
    options = parser.parse_args()
    import timing
    import torch
    flush, order, began = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), random.Random(0), time.time()
    with open(options.csv, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for shape in [SHAPES[int(number)] for number in options.shapes.split(",")]:
            for tokens in map(int, options.tokens.split(",")):
                if time.time() - began > options.seconds:
                    print(f"# {shape[0]} {tokens}: no time left", flush=True)
                    continue
                runs, errors = contenders(torch, tokens, *shape[1:])
                times = timing.measure(runs, "spin", flush, order, 9 if tokens <= 1024 else 5, 1, 100_000)
                best = {}
                for us, name, least in sorted((1000 * statistics.median(found), name, 1000 * min(found)) for name, found in times.items()):
                    row = (*shape, tokens, name, f"{us:.2f}", f"{least:.2f}", f"{errors[name]:.2e}")
                    writer.writerow(dict(zip(FIELDS, row)))
                    best.setdefault(name.split("-")[0], (us, name))
                out.flush()
                print(f"{shape[0]} {tokens} tokens ({time.time() - began:.0f} s): " + "; ".join(f"{name} {us:.1f} {errors[name]:.1e}" for us, name in best.values()), flush=True)
                if options.parts and tokens in (1, 64, 4096):
                    try:
                        parts(torch, runs)
                    except Exception as error:  # noqa: BLE001
                        print(f"# parts: {repr(error)[:200]}", flush=True)
                del runs
                torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
