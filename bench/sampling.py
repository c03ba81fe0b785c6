#!/usr/bin/env python3
"""sampling.py - tokens drawn from logits, and the cross-entropy of a linear layer, beside others' in one process.

    sampling.py sample [--csv FILE] [--seconds N] [--rows 1,64] [--flashinfer LIB]
    sampling.py loss [--csv FILE] [--seconds N] [--shapes 0,1]

sample: tilec.torch.sample of logits in float32 and bfloat16 beside torch (sort or topk, softmax, cumsum, multinomial, as engines without kernels
have it, also compiled) and FlashInfer's kernels (LIB: topk, mask, softmax, top-p, joint and logits of its sampling.cuh and topk.cuh with C names, float32
alone), in the orders of its Python functions.  All are CUDA graphs.  `peaked` logits have 40 tokens above the others, `flat` ones are normal.
A token is right if the exact sums of probabilities, in float64, hold its number.

loss: tilec.torch.linear_cross_entropy, forward alone and with gradients, beside Liger's fused one and torch (a product, then cross_entropy of
its logits as float32; compiled, too).  Errors beside float64 of some rows.

256 MB are written before each timed call, the order is shuffled anew, medians (timing.py).
"""
import argparse
import csv
import ctypes
import os
import random
import statistics
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import tilec.torch  # noqa: E402
import timing  # noqa: E402

ROWS, VOCABULARY = [1, 8, 64, 256, 512], [128256, 151936, 32000]
# name, temperature, top-k, top-p, min-p, logits
OPTIONS = [("top-k top-p", 0.8, 50, 0.9, 0.0, "peaked"), ("top-p", 0.8, 0, 0.9, 0.0, "peaked"), ("top-p", 1.0, 0, 0.9, 0.0, "flat"),
           ("none", 1.0, 0, 1.0, 0.0, "flat"), ("top-k 1000", 1.0, 1000, 1.0, 0.0, "flat")]
# rows, features, classes, softcap
SHAPES = [(4096, 4096, 128256, 0.0), (8192, 4096, 128256, 0.0), (16384, 2048, 151936, 0.0), (8192, 2304, 256000, 30.0), (1024, 4096, 128256, 0.0),
          (16384, 1024, 32000, 0.0)]


def logits_of(rows, v, kind):
    x = torch.randn(rows, v, device="cuda")
    if kind == "peaked":
        x *= 2
        x.scatter_(1, torch.randint(0, v, (rows, 40), device="cuda"), 6 + 8 * torch.rand(rows, 40, device="cuda"))
    return x


# ---- peers ----


def by_sort(x, t, k, p):
    """Sorted, masked from where the sum before exceeds p; one of them, and its place."""
    values, at = torch.sort(x / t, dim=-1, descending=True) if k <= 0 else torch.topk(x / t, k, dim=-1)
    probabilities = torch.softmax(values, dim=-1)
    if p < 1:
        probabilities = torch.where(probabilities.cumsum(-1) - probabilities < p, probabilities, 0.0)
    return at.gather(1, torch.multinomial(probabilities, 1)).squeeze(1)


def by_softmax(x, t, k, p):
    return torch.multinomial(torch.softmax(x / t, dim=-1), 1).squeeze(1)


class FlashInfer:
    """Its kernels with the memory that its Python functions give them."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.space = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
        self.states = torch.zeros(8 << 20, dtype=torch.uint8, device="cuda")

    def call(self, name, *arguments):
        given = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in arguments]
        status = getattr(self.c, "fi_" + name)(*given, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        assert status == 0, (name, status)

    def top_p(self, probabilities, p):
        rows, d = probabilities.shape
        out, valid = probabilities.new_empty(rows, dtype=torch.int32), probabilities.new_empty(rows, dtype=torch.bool)
        self.call("topp", probabilities, out, valid, rows, ctypes.c_float(p), d, ctypes.c_uint64(5), ctypes.c_uint64(3))
        return out

    def softmax(self, x, t):
        y = torch.empty_like(x)
        self.call("softmax", x, y, *x.shape, ctypes.c_float(t), self.space, ctypes.c_size_t(self.space.numel()))
        return y

    def first(self, x, t, k, p):
        """top_k_top_p_sampling_from_logits, k up to 256: the k greatest, and of these."""
        rows, d = x.shape
        at, values = x.new_empty(rows, k, dtype=torch.int32), x.new_empty(rows, k)
        self.call("topk", x, at, values, rows, k, d, self.states)
        return at.gather(1, self.top_p(torch.softmax(values / t, -1), p).view(-1, 1).long()).squeeze(1)

    def masked(self, x, t, k, p):
        y = torch.empty_like(x)
        self.call("mask", x, y, x.shape[0], k, x.shape[1], self.states)
        return self.top_p(self.softmax(y, t), p)

    def joint(self, x, t, k, p):
        rows, d = x.shape
        out, valid = x.new_empty(rows, dtype=torch.int32), x.new_empty(rows, dtype=torch.bool)
        self.call("joint", self.softmax(x, t), out, valid, rows, k, ctypes.c_float(p), d, ctypes.c_uint64(5), ctypes.c_uint64(3))
        return out

    def only_p(self, x, t, k, p):
        return self.top_p(self.softmax(x, t), p)

    def none(self, x, t, k, p):
        out = x.new_empty(x.shape[0], dtype=torch.int32)
        self.call("logits", x / t if t != 1 else x, out, *x.shape, ctypes.c_uint64(5), ctypes.c_uint64(3))
        return out


def graphed(call):
    """What replays a call."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        graph.out = call()
    return graph


def wrong_tokens(x, u, token, t, k, p, m):
    """How many tokens no exact sums allow."""
    wrong = 0
    for i in range(min(x.shape[0], 64)):
        row, at, found = x[i].double(), int(token[i]), False
        w = torch.exp((row - row.max()) / t)
        if k > 0:
            w = torch.where(row >= row.topk(k).values[-1], w, 0.0)
        w = torch.where(w >= m, w, 0.0)
        ordered, index = w.sort(descending=True)
        sums = ordered.cumsum(0)
        for slack in (-1e-5, 0, 1e-5) if p < 1 else (0,):
            least = ordered[min(int(torch.searchsorted(sums, p * (1 + slack) * sums[-1])), len(w) - 1)] if p < 1 else 0.0
            kept = torch.where(w >= least, w, 0.0)
            ends = kept.cumsum(0) / kept.sum()
            found |= bool(kept[at] > 0 and ends[at] - kept[at] / kept.sum() - 2e-5 <= u[i] <= ends[at] + 2e-5)
        wrong += not found
    return wrong


def sampling(options):
    order, flush, began, rows_of_csv = random.Random(0), torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), time.time(), []
    flash = FlashInfer(options.flashinfer) if options.flashinfer else None
    for v in VOCABULARY:
        for rows in [int(n) for n in options.rows.split(",")]:
            for name, t, k, p, m, kind in OPTIONS:
                if time.time() - began > options.seconds:
                    print("no time left:", v, rows, name, flush=True)
                    continue
                torch.manual_seed(rows)
                x, u = logits_of(rows, v, kind), torch.rand(rows, device="cuda")
                calls = {}
                for dtype in ("float32", "bfloat16"):
                    given = x.to(getattr(torch, dtype))
                    calls[f"tilec {dtype}"] = lambda given=given: tilec.torch.sample(given, t, k, p, m, uniform=u)  # noqa: B023
                calls["torch"] = lambda: (by_sort if k > 0 or p < 1 else by_softmax)(x, t, k, p)  # noqa: B023
                if flash:
                    for way in (("first", "joint") if 0 < k <= 256 else ("masked", "joint") if k else ("only_p",) if p < 1 else ("none",)):
                        calls[f"FlashInfer {way}"] = lambda way=way: getattr(flash, way)(x, t, k, p)  # noqa: B023
                contenders, wrong = {}, {}
                if options.warm:
                    for which in calls:
                        if which.startswith("tilec"):
                            calls[which]()
                    continue
                for which, call in calls.items():
                    try:
                        graph = graphed(call)
                    except Exception as error:
                        print(which, "is left out:", str(error)[:200], flush=True)
                        torch.cuda.synchronize()
                        continue
                    contenders[which] = types.SimpleNamespace(run=graph.replay, kind="graph")
                    graph.replay()
                    if which.startswith("tilec"):
                        wrong[which] = wrong_tokens(x.to(getattr(torch, which.split()[1])), u, graph.out, t, k, p, m)
                times = timing.measure(contenders, "spin", flush, order, options.reps, 2, 20000)
                us = {which: statistics.median(values) * 1e3 for which, values in times.items()}
                if "tilec float32" not in us:
                    continue
                best = min((time_ for which, time_ in us.items() if not which.startswith("tilec")), default=0)
                print(f"{v} x {rows} {kind} {name}: " + ", ".join(f"{which} {time_:.1f}" for which, time_ in us.items())
                      + f"; {best / us['tilec float32']:.2f}; wrong {wrong}", flush=True)
                rows_of_csv += [{"vocabulary": v, "rows": rows, "logits": kind, "options": name, "name": which, "us": f"{time_:.2f}",
                                 "wrong": wrong.get(which, "")} for which, time_ in us.items()]
    return rows_of_csv


# ---- the loss ----


def plain_loss(x, w, y, cap):
    logits = x @ w.t()
    if cap:
        logits = cap * torch.tanh(logits / cap)
    return F.cross_entropy(logits.float(), y)


def losses(options):
    order, flush, began, rows_of_csv = random.Random(0), torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), time.time(), []
    compiled = torch.compile(plain_loss, dynamic=False)
    try:
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction as Liger
        from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy
    except ImportError as error:
        Liger = None
        print("Liger is left out:", error, flush=True)
    for i in [int(n) for n in options.shapes.split(",")]:
        rows, d, v, cap = SHAPES[i]
        if time.time() - began > options.seconds:
            print("no time left:", SHAPES[i], flush=True)
            continue
        torch.manual_seed(i)
        x = (torch.randn(rows, d, device="cuda") * 2).bfloat16().requires_grad_()
        w = (torch.randn(v, d, device="cuda") / d**0.5).bfloat16().requires_grad_()
        y = torch.randint(0, v, (rows,), device="cuda")
        calls = {"tilec": lambda: tilec.torch.linear_cross_entropy(x, w, y, softcap=cap or None), "torch": lambda: plain_loss(x, w, y, cap),  # noqa: B023
                 "compiled": lambda: compiled(x, w, y, cap)}  # noqa: B023
        if Liger:
            calls["Liger"] = lambda: liger_fused_linear_cross_entropy(x, w, y, softcap=cap or None)  # noqa: B023
        contenders, errors, memory = {}, {}, {}
        if i != int(options.shapes.split(",")[0]):
            del calls["compiled"]  # which takes seconds to be compiled
        if options.warm:
            for call in calls.values():
                torch.autograd.grad(call(), (x, w))
            torch.cuda.synchronize()
            del x, w, y, calls
            torch.cuda.empty_cache()
            continue
        some = torch.arange(0, rows, rows // 32, device="cuda")
        logits = x.detach()[some].double() @ w.detach().double().t() if v * d < 2**30 else (x.detach()[some].float() @ w.detach().float().t()).double()
        raw = logits
        logits = cap * torch.tanh(logits / cap) if cap else logits
        p = torch.softmax(logits, 1)
        p[torch.arange(len(some)), y[some]] -= 1
        p = p * (1 - torch.tanh(raw / cap) ** 2) if cap else p
        dx = (p.float() @ w.detach().float()) / rows
        for which, call in calls.items():
            for kind in ("forward", "both"):
                def run(call=call, kind=kind):
                    if kind == "forward":
                        with torch.no_grad():
                            return call()
                    return torch.autograd.grad(call(), (x, w))  # noqa: B023
                try:
                    run()
                    torch.cuda.synchronize()
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                    made = run()
                    torch.cuda.synchronize()
                    memory[which, kind] = (torch.cuda.max_memory_allocated() - before) / 2**20
                except Exception as error:
                    print(which, kind, "is left out:", str(error)[:300], flush=True)
                    continue
                if kind == "both":
                    errors[which, kind] = float((made[0][some].float() - dx).norm() / dx.norm())
                else:
                    errors[which, kind] = float(made)  # the loss itself
                del made
                contenders[which, kind] = types.SimpleNamespace(run=run, kind="peer")
        times = timing.measure(contenders, "spin", flush, order, options.reps, 1, 20000)
        for (which, kind), values in times.items():
            ms = statistics.median(values)
            print(f"{SHAPES[i]} {kind} {which}: {ms:.2f} ms, {memory[which, kind]:.0f} MiB, {errors[which, kind]:.6g}", flush=True)
            rows_of_csv.append({"rows": rows, "features": d, "classes": v, "softcap": cap, "what": kind, "name": which, "ms": f"{ms:.3f}",
                                "mib": f"{memory[which, kind]:.0f}", "error": f"{errors[which, kind]:.6g}"})
        del x, w, y, contenders, calls, raw, logits, p, dx
        torch.cuda.empty_cache()
    return rows_of_csv


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["sample", "loss"])
    parser.add_argument("--csv")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--shapes", default=",".join(map(str, range(len(SHAPES)))))
    parser.add_argument("--flashinfer")
    parser.add_argument("--warm", action="store_true", help="compile what is measured, and no more")
    parser.add_argument("--reps", type=int, default=15)
    options = parser.parse_args()
    found = sampling(options) if options.what == "sample" else losses(options)
    if options.csv and found:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(found[0]))
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    main()
