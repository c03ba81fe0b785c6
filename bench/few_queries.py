#!/usr/bin/env python3
"""few_queries.py - attention_decode and mlp of examples/ on a GPU: right against float64, and timed
against PyTorch in one process.

    few_queries.py compile FOLDER --tilec T     cubins, where ptxas is; needs no GPU
    few_queries.py check FOLDER   960 cases of decoding, 35 of the MLP
    few_queries.py time FOLDER [--reps N]       decoding against PyTorch's backends, the MLP against cuBLAS

A result is right when its error is at most twice that of the same computation with what a 16-bit
program stores rounded to 16 bits, plus 1e-5.
"""

import argparse
import os
import random
import subprocess
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "examples")
sys.path[:0] = [HERE, os.path.join(EXAMPLES, "python")]

GROUPS = [1, 3, 4, 7, 8]
PADDED = {3: 4, 7: 8}  # rows for each query, where the heads of a group do not divide 64
PINNED = ["-D", "N=64", "--plan=consumers=1,stages=3"]
# batch, heads of K and V, query heads to each, queries, keys
DECODE = [(1, 8, 8, 1, 256), (1, 8, 8, 1, 1024), (1, 8, 4, 1, 4096), (1, 8, 4, 1, 32768),
          (1, 8, 8, 1, 65536), (1, 32, 1, 1, 8192), (8, 1, 8, 1, 16384), (2, 8, 4, 1, 2048),
          (8, 8, 4, 1, 8192), (16, 8, 8, 1, 8192), (24, 8, 4, 1, 4096), (64, 8, 4, 1, 4096),
          (1, 4, 7, 1, 32768), (8, 4, 7, 1, 8192), (4, 8, 4, 4, 4096), (1, 8, 4, 8, 32768)]
MLP = [(16384, 64, 256), (65536, 64, 1024), (16384, 128, 512), (65536, 128, 512), (16384, 128, 4096),
       (16384, 256, 1024), (65536, 256, 1024), (16384, 256, 4096)]


def variants():
    """name: (example, options)"""
    out = {}
    for group in GROUPS:
        padded = PADDED.get(group, group)
        for causal in ["true", "false"]:
            given = ["-D", f"G={group}", "-D", f"GP={padded}", "-D", f"CAUSAL={causal}"]
            out[f"decode_{group}_{causal}_pinned"] = ("attention_decode", given + PINNED)
            if group not in PADDED:
                out[f"decode_{group}_{causal}_auto"] = ("attention_decode", given)
                out[f"decode_{group}_{causal}_none"] = ("attention_decode", given + ["--plan=none"])
    for d in [64, 128, 256]:
        out[f"mlp_{d}_auto"] = ("mlp", ["-D", f"D={d}"])
    for d, stages in [(64, 3), (128, 2)]:
        out[f"mlp_{d}_pinned"] = ("mlp", ["-D", f"D={d}", "-D", "M=64", "-D", "N=128",
                                          f"--plan=consumers=2,stages={stages},q_stages=2"])
    return out


def compile_all(folder, tilec):
    os.makedirs(folder, exist_ok=True)
    for name, (example, options) in variants().items():
        subprocess.run([tilec, os.path.join(EXAMPLES, example + ".tile"), "-arch", "sm_90", *options, "-o",
                        os.path.join(folder, name + ".cubin")], check=True)


def load_all(folder):
    import tilec_torch
    out = {}
    for name in variants():
        with open(os.path.join(folder, name + ".cubin"), "rb") as file:
            out[name] = tilec_torch.load(file.read())
    return out


# ---- right or not ------------------------------------------------------------------------------


def reference(torch, q, k, v, causal, cut):
    """O and L in float64; `cut` rounds what a 16-bit program stores."""
    b, sq, hq, d = q.shape
    sk, hk = k.shape[1:3]
    rows = q.double().view(b, sq, hk, hq // hk, d).permute(0, 2, 3, 1, 4).reshape(b, hk, -1, d)
    s = cut(rows @ k.double().permute(0, 2, 3, 1)) * d**-0.5
    if causal:
        i = torch.arange(sq, device=q.device).repeat(hq // hk)[:, None] + sk - sq
        s.masked_fill_(torch.arange(sk, device=q.device)[None] > i, -torch.inf)
    top = s.amax(-1, keepdim=True)
    top = torch.where(top.isinf(), 0, top)
    e = (s - top).exp()
    total = e.sum(-1, keepdim=True)
    o = cut(cut(e / torch.where(total == 0, 1, total)) @ v.double().permute(0, 2, 1, 3))
    lse = (total.log() + top).view(b, hk, hq // hk, sq).reshape(b, hq, sq)
    return o.view(b, hk, hq // hk, sq, d).permute(0, 3, 1, 2, 4).reshape(b, sq, hq, d), lse


class Tally:
    def __init__(self):
        self.n, self.bad, self.worst = 0, 0, 0.0

    def add(self, what, error, allowed):
        self.n += 1
        self.worst = max(self.worst, error / allowed)
        if not error <= allowed:  # NaN is wrong
            self.bad += 1
            print(f"wrong: {what}: error {error:.3g}, allowed {allowed:.3g}", flush=True)


def check_decode(torch, modules):
    import tilec_torch
    keys = [1, 2, 3, 17, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257, 1000, 1023, 4095, 4096, 4097,
            10007, 32767, 32768, 65535, 65536]
    draw, tally = random.Random(1), Tally()
    for sq, group, sk in [(sq, group, sk) for sq in range(1, 9) for group in GROUPS for sk in keys]:
        b, hk, swap = draw.choice([1, 1, 2, 3]), draw.choice([1, 2, 4]), draw.random() < 0.5
        if b * hk * group * sq * sk > 3e7:
            b = hk = 1
        name = draw.choice([n for n in modules if n.startswith(f"decode_{group}_")])
        splits = draw.choice([None, None, None, 1, 2, 3, 7, 33])

        def make(s, h):  # half of the tensors lie in memory as [B, H, S, D]
            shape = (b, h, s, 128) if swap else (b, s, h, 128)
            x = torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
            return x.transpose(1, 2) if swap else x

        q, k, v = make(sq, hk * group), make(sk, hk), make(sk, hk)
        o, lse = tilec_torch.decode(q, k, v, modules[name], splits=splits)
        want, want_l = reference(torch, q, k, v, "_true_" in name, lambda x: x)
        plain, _ = reference(torch, q, k, v, "_true_" in name, lambda x: x.bfloat16().double())
        what = f"{name} {b=} {hk=} {sq=} {sk=} {splits=} {swap=}"
        tally.add(what, (o - want).abs().max().item(), 2 * (plain - want).abs().max().item() + 1e-5)
        empty = want_l.isinf()
        tally.bad += not torch.equal(lse[empty].double(), want_l[empty])
        if not empty.all():
            tally.bad += not (lse - want_l)[~empty].abs().max().item() <= 1e-4
    return tally


def mlp_data(torch, s, d, f):
    draw = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return {"X": draw(s, d), "W1": draw(d, f) * d**-0.5, "W2": draw(f, d) * f**-0.5,
            "b1": torch.randn(f, device="cuda"), "b2": torch.randn(d, device="cuda")}


def check_mlp(torch, modules):
    gelu, tally = torch.nn.functional.gelu, Tally()
    for name in [n for n in modules if n.startswith("mlp")]:
        d = int(name.split("_")[1])
        for s, f in [(1, 8), (64, 64), (65, 72), (1000, 1000), (4096, 512), (333, 4096), (20000, 136)]:
            data = mlp_data(torch, s, d, f)
            y = modules[name].launch(**data)["Y"]
            exact = {n: x.double() for n, x in data.items()}

            def compute(cut):
                h = gelu(cut(exact["X"] @ exact["W1"]) + exact["b1"], approximate="tanh")
                return cut(cut(h) @ exact["W2"] + exact["b2"])

            want, plain = compute(lambda x: x), compute(lambda x: x.bfloat16().double())
            tally.add(f"{name} {s=} {f=}", (y - want).abs().max().item(),
                      2 * (plain - want).abs().max().item() + 1e-5)
    return tally


# ---- fast or not -------------------------------------------------------------------------------


def decode_contenders(torch, modules, b, hk, group, sq, sk):
    import tilec_torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    draw = lambda s, h: torch.randn(b, h, s, 128, device="cuda", dtype=torch.bfloat16)
    q, k, v = draw(sq, hk * group), draw(sk, hk), draw(sk, hk)
    out = {}
    for name in [n for n in modules if n.startswith(f"decode_{group}_false_")]:
        plan = tilec_torch.prepare_decode(*(x.transpose(1, 2) for x in (q, k, v)), modules[name])
        out[name.split("_")[-1]] = plan.run

    def peer(backend, queries, gqa):
        def run():
            with sdpa_kernel(backend):
                torch.nn.functional.scaled_dot_product_attention(queries, k, v, enable_gqa=gqa)
        return run

    for name, backend in [("FA2", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)]:
        out[name] = peer(backend, q, True)
        if sq == 1:  # without a mask the heads of a group are as good as queries of one head
            out[name + " packed"] = peer(backend, q.view(b, hk, group, 128), False)
    return out


def mlp_contenders(torch, modules, s, d, f):
    data = mlp_data(torch, s, d, f)
    out = {n.split("_")[-1]: modules[n].prepare(**data).run for n in modules if n.startswith(f"mlp_{d}_")}
    x, w1, w2, b1, b2 = (data[n].bfloat16() for n in ("X", "W1", "W2", "b1", "b2"))
    gelu = lambda h: torch.nn.functional.gelu(h, approximate="tanh")
    out["cuBLAS"] = lambda: torch.addmm(b2, gelu(torch.addmm(b1, x, w1)), w2)
    out["cuBLAS, gelu fused"] = lambda: torch.addmm(b2, torch._addmm_activation(b1, x, w1, use_gelu=True), w2)
    out["cuBLAS, products alone"] = lambda: torch.mm(torch.mm(x, w1), w2)
    return out


def time_all(torch, modules, reps):
    import timing
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    order = random.Random(1)
    for kind, cases, make in [("decode", DECODE, decode_contenders), ("mlp", MLP, mlp_contenders)]:
        for case in cases:
            contenders = {n: types.SimpleNamespace(run=f) for n, f in make(torch, modules, *case).items()}
            times = timing.measure(contenders, "spin", flush, order, reps, 5, 400000, 0.02)
            each = {n: sorted(t)[len(t) // 2] for n, t in times.items()}
            work = 512 * case[0] * case[1] * case[4] if kind == "decode" else 4 * case[0] * case[1] * case[2]
            unit = (1e6, "GB/s") if kind == "decode" else (1e9, "TFLOPS")
            print(kind, *case, " ".join(f"| {n} {t * 1e3:.1f} us {work / unit[0] / t:.0f} {unit[1]}"
                                        for n, t in each.items()), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["compile", "check", "time"])
    parser.add_argument("folder")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--reps", type=int, default=30)
    options = parser.parse_args()
    if options.what == "compile":
        return compile_all(options.folder, options.tilec)
    import torch
    modules = load_all(options.folder)
    with torch.no_grad():
        if options.what == "time":
            return time_all(torch, modules, options.reps)
        tallies = {"mlp": check_mlp(torch, modules), "decode": check_decode(torch, modules)}
    for name, tally in tallies.items():
        print(f"{name}: {tally.n} cases, {tally.bad} wrong, worst error {tally.worst:.2f} of the allowed")
    return 1 if any(t.bad or not t.n for t in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
