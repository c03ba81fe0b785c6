#!/usr/bin/env python3
"""flex.py - attention with scores and masks of one's own, beside FlexAttention compiled, in one process.

    flex.py prepare --tilec TILEC --out FOLDER      compiles ours; needs no GPU
    flex.py warm --share I/N                        compiles FlexAttention's kernels into its cache; N processes at once
    flex.py measure FOLDER.. [--csv FILE]           times both on the GPU; of several folders ours from each

bf16, 16,384 rows in all, 2048 / d heads, d 64 and 128, sequences of 1024 and 4096: sinks, ALiBi with slopes from memory, a bias and a
mask of bools from memory (of one head, as both have them), prefixes, a cap of the scores; forward, and for the caps and ALiBi
by `tilec.torch.attention` forward and backward.  FlexAttention gets a block mask where the mask is a function.  Ours are the
programs of tests/engine and examples.  Results are compared with each other.  Timed as gemm_shapes.py times.
"""

import argparse
import csv
import os
import random
import statistics
import subprocess
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "examples", "python")]
ENGINE = os.path.join(ROOT, "tests", "engine")
# name: file, kernel, flags
OURS = {"sinks": (f"{ENGINE}/sinks.tile", "attn_sink", []), "alibi": (f"{ENGINE}/alibi.tile", "attn", []),
        "bias": (f"{ENGINE}/bias.tile", "attn_bias", []), "bools": (f"{ENGINE}/bias.tile", "attn_bool", []),
        "prefix": (f"{ENGINE}/masks.tile", "attend", ["-D", "KIND=0"]),
        "softcap": (f"{ROOT}/examples/attention.tile", "attention", ["-D", "CAUSAL=true", "-D", "SOFTCAP=true"])}
BOTH = ("softcap-both", "alibi-both")
SHAPES = [(s, d) for d in (64, 128) for s in (1024, 4096)]


def prepare(options):
    os.makedirs(options.out, exist_ok=True)
    for name, (file, kernel, flags) in OURS.items():
        for d in (64, 128):
            if name not in options.names.split(","):
                continue
            subprocess.run([options.tilec, file, "-arch", "sm_90", "--kernel", kernel, "-D", f"D={d}", *flags, *options.flags.split(), "-Wno-plan", "--tuning=none",
                            "-o", os.path.join(options.out, f"{name}-{d}.cubin")], check=True)
    return 0


def flex_of(name, t, heads, s, d, batch):
    """FlexAttention, compiled, as a call of q, k, v."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    causal = lambda b, h, i, j: j <= i
    mask, score, lse = causal, None, False
    if name.startswith("alibi"):
        score = lambda x, b, h, i, j: x - t["Slopes"][h] * (i - j).abs()
    elif name.startswith("softcap"):
        score = lambda x, b, h, i, j: 30.0 * torch.tanh(x / 30.0)
    elif name == "bias":
        mask, score = None, lambda x, b, h, i, j: x + t["Bias"][i, j]
    elif name == "bools":
        mask = lambda b, h, i, j: t["Mask"][i, j]
    elif name == "prefix":
        mask = lambda b, h, i, j: (j <= i) | (j < t["Pre"][b])
    elif name == "sinks":
        lse = True
    block = create_block_mask(mask, batch if name == "prefix" else None, None, s, s, device="cuda") if mask else None
    compiled = torch.compile(flex_attention, dynamic=False)

    def run(q, k, v):
        if not lse:
            return compiled(q, k, v, score_mod=score, block_mask=block)
        o, l = compiled(q, k, v, score_mod=score, block_mask=block, return_lse=True)
        return o * torch.sigmoid(l - t["Sink"][None, :, None]).to(o.dtype)[..., None]
    return torch.compile(run, dynamic=False) if lse else run


def drawn(name, s, d):
    import torch
    heads, batch = 2048 // d, 16384 // s
    torch.manual_seed(1)
    make = lambda *extents: torch.randn(*extents, device="cuda", dtype=torch.bfloat16)
    t = {x: make(batch, s, heads, d) for x in "QKV"}
    slopes = 2.0 ** (-8 * (torch.arange(heads, device="cuda") + 1) / heads)
    extra = {"sinks": {"Sink": torch.randn(heads, device="cuda")}, "alibi": {"Slopes": slopes}, "alibi-both": {"Slopes": slopes},
             "bias": {"Bias": make(s, s)}, "bools": {"Mask": torch.rand(s, s, device="cuda") < 0.9},
             "prefix": {"Doc": torch.zeros(batch, s, dtype=torch.int32, device="cuda"),
                        "Pre": torch.randint(1, s // 4, (batch,), dtype=torch.int32, device="cuda")}}
    return t, extra.get(name, {}), heads, batch


def calls(name, s, d, folders):
    """{name: call}; each returns what is compared."""
    import torch
    t, extra, heads, batch = drawn(name, s, d)
    flex = flex_of(name, extra, heads, s, d, batch)
    q, k, v = (t[x].transpose(1, 2) for x in "QKV")
    if name in BOTH:
        grad = torch.randn_like(t["Q"])
        mine = [t[x].clone().requires_grad_() for x in "QKV"]
        theirs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        theirs_grad = grad.transpose(1, 2)

        def ours_both():
            import tilec.torch
            options = {"softcap": 30.0} if name.startswith("softcap") else {"alibi": True}
            out = tilec.torch.attention(*mine, causal=True, **options)
            return torch.autograd.grad(out, mine, grad)[0]

        def flex_both():
            return torch.autograd.grad(flex(*theirs), theirs, theirs_grad)[0].transpose(1, 2)
        return {"flex": flex_both, **({"ours": ours_both} if folders else {})}
    built = {"flex": lambda: flex(q, k, v).transpose(1, 2)}
    for index, folder in enumerate(folders):
        import tilec_torch
        out = torch.full_like(t["Q"], float("nan"))
        tensors = {**t, **extra, "O": out}
        module = tilec_torch.load(os.path.join(folder, f"{name}-{d}.cubin")).select(OURS[name][1])
        names = [x["name"] for x in module.kernels[0].meta["tensors"]]
        if "L" in names:
            tensors["L"] = torch.empty(batch, heads, s, device="cuda")
        values = {"scale": d ** -0.5, **({"softcap": 30.0} if name == "softcap" else {})}
        launch = module.prepare(**tensors, **values)

        def ours(launch=launch, out=out):
            launch.run()
            return out
        built["ours" + str(index or "")] = ours
    return built


def warm(options):
    import torch
    share, of = (int(x) for x in options.share.split("/"))
    jobs = [(name, s, d) for name in options.names.split(",") for s, d in SHAPES]
    with torch.set_grad_enabled(True):
        for name, s, d in jobs[share::of]:
            for call in calls(name, s, d, []).values():
                call()
    return 0


def measure(options):
    import timing
    import torch
    flush, order, rows, ratios = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), random.Random(0), [], {}
    for name in options.names.split(","):
        for s, d in SHAPES:
            try:
                built = calls(name, s, d, options.what[1:])
                want = built["flex"]().float()
                off = (built["ours"]().float() - want).abs().max().item() / want.abs().max().item()
            except Exception as error:  # noqa: BLE001
                print(f"{name} s={s} d={d}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            runs = {x: types.SimpleNamespace(run=call, kind="ours") for x, call in built.items()}
            times = timing.measure(runs, "spin", flush, order, 11, 1, 400_000)
            us = {x: 1000 * statistics.median(values) for x, values in times.items()}
            ratios.setdefault(name, []).append(us["flex"] / us["ours"])
            rows.append((name, s, d, f"{us['ours']:.1f}", f"{us['flex']:.1f}", f"{off:.1e}"))
            print(f"{name:13} s {s:5} d {d:3} ours {us['ours']:8.1f} flex {us['flex']:8.1f} {us['flex'] / us['ours']:.3f} off by {off:.1e}",
                  *(f"{x} {value:.1f}" for x, value in us.items() if x not in ("ours", "flex")), flush=True)
            del built
            torch._dynamo.reset()
    for name, found in ratios.items():
        print(f"{name}: {statistics.geometric_mean(found):.3f}, least {min(found):.3f}")
    with open(options.csv, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("case", "s", "d", "ours_us", "flex_us", "off"), *rows])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="prepare, warm, or measure FOLDER")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--out", default="flex")
    parser.add_argument("--names", default=",".join((*OURS, *BOTH)), help="only these cases")
    parser.add_argument("--flags", default="", help="prepare: more options of tilec")
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--csv", default="flex.csv")
    options = parser.parse_args()
    return {"prepare": prepare, "warm": warm}.get(options.what[0], measure)(options)


if __name__ == "__main__":
    sys.exit(main())
