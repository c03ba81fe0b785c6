#!/usr/bin/env python3
"""places.py - kernels whose places depend on data, beside those of fixed places, in one process.

    places.py compile FOLDER --tilec T      PTX, which needs no GPU
    places.py time FOLDER [--only packed,paged,grouped] [--reps N]
    places.py pair OLD NEW [--reps N] [--mode burst]     the other kernels of two compilers, FOLDER/x_*.ptx

packed: attention_varlen over sequences of one length beside attention.tile; paged: attention_paged (each file
paged_PAGE_WAY.ptx) beside attention_decode_split; grouped: grouped_gemm beside cuBLAS.  What is timed first has
been compared with the kernel beside it or with PyTorch.  The dense attention kernels are FOLDER/dense_*.ptx.
"""
import argparse
import glob
import os
import random
import subprocess
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "examples")
sys.path[:0] = [HERE, os.path.join(EXAMPLES, "python")]

PAGES = (16, 32, 64, 128, 256)
PACKED = [(16, 1024), (4, 4096), (2, 8192)]            # sequences, length
PAGED = [(1, 32768), (8, 8192), (16, 8192), (32, 4096)]  # sequences, keys
GROUPED = [(8, 8192, 4096, 4096, "equal"), (8, 8192, 4096, 4096, "drawn"), (8, 16384, 4096, 4096, "drawn"),
           (64, 16384, 4096, 2048, "equal"), (64, 16384, 4096, 2048, "drawn")]


def compile_all(folder, tilec):
    os.makedirs(folder, exist_ok=True)

    def make(name, example, *options):
        subprocess.run([tilec, os.path.join(EXAMPLES, example + ".tile"), "-arch", "sm_90", *options, "-o",
                        os.path.join(folder, name + ".ptx")], check=True)

    for causal in ("false", "true"):
        for name, example in [("dense_fwd", "attention"), ("dense_bwd", "attention_bwd"), ("varlen", "attention_varlen"),
                              ("varlen_bwd", "attention_varlen_bwd")]:
            make(f"{name}_{causal}", example, "-D", f"CAUSAL={causal}")
    for page in PAGES:
        make(f"paged_{page}_auto", "attention_paged", "-D", "G=4", "-D", "CAUSAL=false", "-D", f"PS={page}")
    make("decode", "attention_decode", "-D", "G=4", "-D", "CAUSAL=false")
    make("grouped", "grouped_gemm")


class Bench:
    def __init__(self, torch, folder, reps, mode="spin"):
        import timing
        self.torch, self.folder, self.reps, self.mode, self.timing = torch, folder, reps, mode, timing
        self.flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self.order = random.Random(1)

    def load(self, name):
        import tilec_torch
        for end in (".cubin", ".ptx"):
            path = os.path.join(self.folder, name + end)
            if os.path.exists(path):
                return tilec_torch.load(path)
        return None

    def times(self, runs, reps=None):
        """Median microseconds of each."""
        made = {n: types.SimpleNamespace(run=f, kind="ours") for n, f in runs.items()}
        times = self.timing.measure(made, self.mode, self.flush, self.order, reps or self.reps, 3, 200000, 0.02)
        return {n: sorted(t)[len(t) // 2] * 1e3 for n, t in times.items()}

    def off(self, found, want):
        """How far off, of the largest."""
        self.torch.cuda.synchronize()
        return ((found.float() - want.float()).abs().max() / want.float().abs().max()).item()


def packed(bench):
    torch = bench.torch
    for causal in ("false", "true"):
        forward, dense = bench.load(f"varlen_{causal}"), bench.load(f"dense_fwd_{causal}")
        backward, dense_back = bench.load(f"varlen_bwd_{causal}"), bench.load(f"dense_bwd_{causal}")
        for b, s in PACKED:
            make = lambda: torch.randn(b, s, 16, 128, device="cuda", dtype=torch.bfloat16)
            q, k, v, g = (make() for _ in range(4))
            scalars = dict(scale=128**-0.5, softcap=0.0)
            starts = torch.arange(b + 1, device="cuda", dtype=torch.int32) * s
            flat = lambda x: x.view(b * s, 16, 128)
            one = dense.prepare(Q=q, K=k, V=v, **scalars)
            two = forward.prepare(Q=flat(q), K=flat(k), V=flat(v), starts_q=starts, starts_k=starts, longest=s, **scalars)
            one.run(), two.run()
            off = bench.off(two.tensors["O"], flat(one.tensors["O"]))
            t = bench.times({"dense": one.run, "packed": two.run})
            print(f"packed fwd causal={causal} {b}x{s}: dense {t['dense']:.1f} packed {t['packed']:.1f} ratio "
                  f"{t['dense'] / t['packed']:.3f} off {off:.1e}", flush=True)
            o, l = one.tensors["O"], one.tensors["L"]
            flat_l = two.tensors["L"]
            one = dense_back.select("attention_bwd_delta", "attention_bwd", "attention_bwd_convert").prepare(
                Q=q, K=k, V=v, O=o, L=l, dO=g, **scalars)
            two = backward.prepare(Q=flat(q), K=flat(k), V=flat(v), O=flat(o), L=flat_l, dO=flat(g), starts_q=starts,
                                   starts_k=starts, longest=s, R=b * s + 4 * (b + 1), **scalars)
            one.run(), two.run()
            off = max(bench.off(two.tensors[n], flat(one.tensors[n])) for n in ("dQ", "dK", "dV"))
            t = bench.times({"dense": one.run, "packed": two.run}, max(8, bench.reps // 2))
            print(f"packed bwd causal={causal} {b}x{s}: dense {t['dense']:.1f} packed {t['packed']:.1f} ratio "
                  f"{t['dense'] / t['packed']:.3f} off {off:.1e}", flush=True)
            del q, k, v, g, one, two


def paged(bench):
    import tilec_torch
    torch = bench.torch
    unpaged = bench.load("decode")

    def combined(plan):
        parts = {n: plan.tensors[n] for n in ("O_part", "L_part")}
        return unpaged.select("attention_decode_combine").launch(**parts, Hq=32)["O"]

    names = sorted(os.path.basename(p).rsplit(".", 1)[0] for p in glob.glob(os.path.join(bench.folder, "paged_*")))
    for b, s in PAGED:
        make = lambda *size: torch.randn(*size, device="cuda", dtype=torch.bfloat16)
        q, k, v = make(b, 1, 32, 128), make(b, s, 8, 128), make(b, s, 8, 128)
        one = tilec_torch.prepare_decode(q, k, v, unpaged)
        splits = one.tensors["O_part"].shape[1] if "O_part" in one.tensors else 1
        one = unpaged.select("attention_decode_split").prepare(Q=q, K=k, V=v, scale=128**-0.5, X=splits)
        one.run()
        runs, off = {"unpaged": one.run}, {}
        for name in dict.fromkeys(names):
            page = int(name.split("_")[1])
            module = bench.load(name)
            order = torch.randperm(b * s // page, device="cuda")
            pages = [torch.empty_like(x).view(-1, page, 8, 128).index_copy_(0, order, x.view(-1, page, 8, 128)) for x in (k, v)]
            table = order.view(b, s // page).int()
            lengths = torch.full((b,), s, dtype=torch.int32, device="cuda")
            twice = "sm_count * 2" in module.kernels[0].meta["grid"][0]
            for factor in (1, 2) if twice else (1,):  # two blocks an SM want as many programs
                two = module.prepare(Q=q, K=pages[0], V=pages[1], table=table, lengths=lengths, scale=128**-0.5,
                                     X=splits * factor)
                two.run()
                label = name + ("*2" if factor == 2 else "")
                runs[label] = two.run
                off[label] = bench.off(combined(two), combined(one))
        t = bench.times(runs)
        print(f"paged {b}x{s} X={splits} unpaged {t['unpaged']:.1f} us: " +
              " ".join(f"{n} {t['unpaged'] / x:.3f}" for n, x in t.items() if n != "unpaged") +
              f" worst {max(off.values(), default=0):.1e}", flush=True)


def grouped(bench):
    torch = bench.torch
    modules = {n: bench.load(n) for n in sorted({os.path.basename(p).rsplit(".", 1)[0]
                                                 for p in glob.glob(os.path.join(bench.folder, "grouped*"))})}
    for groups, m, n, k, kind in GROUPED:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(groups, k, n, device="cuda", dtype=torch.bfloat16)
        if kind == "equal":
            sizes = torch.full((groups,), m // groups)
        else:
            sizes = torch.bincount(torch.randint(groups, (m,), generator=torch.Generator().manual_seed(5)), minlength=groups)
        offsets = torch.cat([torch.zeros(1), sizes.cumsum(0)]).int().cuda()
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        runs = {"cublas": lambda: torch.mm(a, b[0], out=c)}
        want = torch.cat([a[offsets[e]:offsets[e + 1]] @ b[e] for e in range(groups)])
        off = {}
        for name, module in modules.items():
            tile = int(module.kernels[0].meta["constants"]["TM"])
            two = module.prepare(A=a, B=b, offsets=offsets, M=m, X=-(-m // tile) + groups)
            two.run()
            off[name] = bench.off(two.tensors["C"], want)
            runs[name] = two.run
        t = bench.times(runs)
        print(f"grouped {groups} of {m}x{n}x{k} {kind} cublas {t['cublas']:.1f} us: " +
              " ".join(f"{x} {t[x]:.1f} us {t['cublas'] / t[x]:.3f} off {off[x]:.0e}" for x in modules), flush=True)


# ---- other kernels of two compilers -------------------------------------------------------------------


def pair_cases(torch, stem):
    """(name, how to prepare it) for each case of a file."""
    import tilec_torch
    make = lambda *size: torch.randn(*size, device="cuda", dtype=torch.bfloat16) / 2
    kind, *rest = stem.removeprefix("x_").split("_")
    if kind == "gemm":
        for size in [(int(rest[0]),) * 3] if rest else [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 1024)]:
            m, n, k = size
            a, b, bias = make(m, k), make(k, n), torch.randn(n, device="cuda")
            yield f"{m}x{n}x{k}", lambda module, a=a, b=b, bias=bias: module.prepare(A=a, B=b, bias=bias), ["C"]
    elif kind == "mlp":
        import few_queries
        for s, d, f in few_queries.MLP:
            if d == int(rest[0]):
                data = few_queries.mlp_data(torch, s, d, f)
                yield f"{s},{d},{f}", lambda module, data=data: module.prepare(**data), None
    elif kind == "decode":
        import few_queries
        for b, hk, group, sq, sk in few_queries.DECODE:
            if group == int(rest[0]):
                q, k, v = make(b, sq, hk * group, 128), make(b, sk, hk, 128), make(b, sk, hk, 128)
                yield f"{b},{hk},{group},{sq},{sk}", lambda module, x=(q, k, v): tilec_torch.prepare_decode(*x, module), ["O"]
    else:
        for b, s in [(4, 4096), (1, 16384)]:
            q, k, v, g = (make(b, s, 16, 128) for _ in range(4))
            given = dict(Q=q, K=k, V=v)
            if kind == "bwd":
                given |= dict(O=make(b, s, 16, 128), L=torch.full((b, 16, s), 8.0, device="cuda"), dO=g)

            def prepare(module, given=given):
                known = {t["name"] for x in module.kernels for t in x.meta["tensors"]}
                if "dO" in given:
                    module = module.select("attention_bwd_delta", "attention_bwd", "attention_bwd_convert")
                return module.prepare(**{n: x for n, x in given.items() if n in known}, scale=128**-0.5, softcap=15.0)
            yield f"{b}x{s}", prepare, ["O"] if kind == "fwd" else ["dQ", "dK", "dV"]


def pair(torch, old, new, options):
    import math
    benches = [Bench(torch, f, options.reps, options.mode) for f in (old, new)]
    logs = []
    for stem in sorted({os.path.basename(p).rsplit(".", 1)[0] for p in glob.glob(os.path.join(new, "x_*"))}):
        modules = [bench.load(stem) for bench in benches]
        for name, prepare, outputs in pair_cases(torch, stem):
            plans = [prepare(module) for module in modules]
            for plan in plans:
                plan.run()
            off = max([benches[0].off(plans[1].tensors[n], plans[0].tensors[n]) for n in outputs or []], default=0)
            t = benches[0].times({"old": plans[0].run, "new": plans[1].run})
            logs.append(math.log(t["old"] / t["new"]))
            print(f"{stem} {name}: old {t['old']:.1f} new {t['new']:.1f} us ratio {t['old'] / t['new']:.3f} off {off:.0e}",
                  flush=True)
            del plans
    print(f"{len(logs)} cases, geometric mean {math.exp(sum(logs) / len(logs)):.4f}, least {math.exp(min(logs)):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["compile", "time", "pair"])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--only", default="packed,paged,grouped")
    parser.add_argument("--reps", type=int, default=30)
    parser.add_argument("--mode", default="spin")
    options = parser.parse_args()
    if options.what == "compile":
        return compile_all(options.folders[0], options.tilec)
    import torch
    torch.manual_seed(1)
    with torch.no_grad():
        if options.what == "pair":
            return pair(torch, *options.folders, options)
        bench = Bench(torch, options.folders[0], options.reps)
        for name in options.only.split(","):
            {"packed": packed, "paged": paged, "grouped": grouped}[name](bench)
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
