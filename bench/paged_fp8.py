#!/usr/bin/env python3
"""paged_fp8.py - decoding over pages of K and V in e4m3, beside the same in bf16, in one process.

    paged_fp8.py prepare --tilec TILEC --out FOLDER    compiles ours; needs no GPU
    paged_fp8.py measure FOLDER [--csv FILE]

examples/attention_paged_fp8.tile and examples/attention_paged.tile, each with attention_decode_combine, and with 1 to 32 programs that
share the keys of a head (the fastest is told); PyTorch's attention over dense keys in bf16, by the fastest of its backends.  One
query, head dimension 128.  GB/s: bytes of K and V that are read.  Errors beside float64 of what the codes say: rms over the rms of O, of the
first sequences.  256 MB are written before each timed call; an order shuffled anew; medians (timing.py).
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
EXAMPLES = os.path.join(HERE, "..", "examples")
sys.path[:0] = [HERE, os.path.join(EXAMPLES, "python")]
D, PROGRAMS, GROUPS, PAGES = 128, (1, 2, 4, 8, 16, 32), (1, 4, 8), (32, 64, 128)
# batch, heads of K and V, query heads to each, keys, keys of a page
SHAPES = [(1, 8, 4, 4096, 64), (1, 8, 8, 32768, 64), (1, 8, 8, 131072, 64), (8, 8, 4, 8192, 64), (16, 8, 8, 8192, 64), (16, 8, 8, 8192, 32),
          (16, 8, 8, 8192, 128), (64, 8, 8, 4096, 64), (64, 8, 4, 1024, 64), (32, 32, 1, 4096, 64), (128, 1, 8, 8192, 64)]
FIELDS = ["B", "Hk", "G", "keys", "page", "name", "programs", "us", "min_us", "gbps", "error"]


def prepare(options):
    os.makedirs(options.out, exist_ok=True)
    jobs = []
    for group in GROUPS:
        for page in PAGES:
            for example in ("attention_paged_fp8", "attention_paged"):
                rows = [] if example == "attention_paged_fp8" else ["-D", f"GP={group}"]
                jobs.append((example, example, group, page, ["-D", f"PS={page}", *rows]))
        jobs.append(("attention_decode", "attention_decode_combine", group, 0, []))
    for example, kernel, group, page, flags in jobs:
        subprocess.run([options.tilec, os.path.join(EXAMPLES, example + ".tile"), "-arch", "sm_90", "--kernel", kernel, "-D", f"D={D}", "-D", f"G={group}",
                        *flags, "-Wno-plan", "-o", os.path.join(options.out, f"{kernel}-{group}-{page}.cubin")], check=True)


def contenders_of(shape, folder, modules):
    import tilec_torch
    import torch
    batch, heads, group, keys, page = shape
    entries = keys // page
    torch.manual_seed(1)

    def module(kernel, group, page):
        file = os.path.join(folder, f"{kernel}-{group}-{page}.cubin")
        if file not in modules:
            modules[file] = tilec_torch.load(file)
        return modules[file].select(kernel)

    q = torch.randn(batch, 1, heads * group, D, device="cuda", dtype=torch.bfloat16)
    k8, v8 = (torch.randn(batch * entries, page, heads, D, device="cuda").mul_(16).to(torch.float8_e4m3fn) for _ in range(2))
    ks, vs = (torch.rand(heads, device="cuda") * 0.05 + 0.05 for _ in range(2))
    table = torch.randperm(batch * entries, device="cuda").int().reshape(batch, entries)
    lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
    common = {"Q": q, "table": table, "lengths": lengths, "scale": D**-0.5}
    k16, v16 = ((x.float() * s[:, None]).bfloat16() for x, s in ((k8, ks), (v8, vs)))
    of = {"fp8": ("attention_paged_fp8", {"K": k8, "V": v8.permute(0, 2, 3, 1).contiguous(), "KS": ks, "VS": vs}),
          "bf16": ("attention_paged", {"K": k16, "V": v16})}
    built, outputs = {}, {}
    for name, (kernel, cache) in of.items():
        for x in PROGRAMS:
            if x * 64 > keys or batch * heads * x > 132 * 32:
                continue
            try:
                first = module(kernel, group, page).prepare(**common, **cache, X=x)
                last = module("attention_decode_combine", group, 0).prepare(O_part=first.tensors["O_part"], L_part=first.tensors["L_part"],
                                                                            Hq=heads * group)
            except Exception as error:  # noqa: BLE001
                print(f"# {name}-{x}: {error}", flush=True)
                continue
            built[f"{name}-{x}"] = lambda first=first, last=last: (first.run(), last.run())
            outputs[f"{name}-{x}"] = last.tensors["O"]
    few = min(batch, 2)
    at = table[:few].long()
    k, v = ((x[at].double() * s[:, None].double()).reshape(few, keys, heads, D).repeat_interleave(group, 2) for x, s in ((k8, ks), (v8, vs)))
    weights = torch.einsum("bqhd,bkhd->bhqk", q[:few].double(), k).mul(D**-0.5).softmax(3)
    want = torch.einsum("bhqk,bkhd->bqhd", weights, v)
    dense = [x[table.long()].reshape(batch, keys, heads, D).transpose(1, 2) for x in (k16, v16)]
    for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
        def attend(backend=backend):
            with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
                return torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), *dense, enable_gqa=group > 1)
        try:
            outputs[backend] = attend().transpose(1, 2)
            built[backend] = attend
        except Exception as error:  # noqa: BLE001
            print(f"# {backend}: {str(error).splitlines()[0]}", flush=True)
    for run in built.values():
        run()
    torch.cuda.synchronize()
    errors = {name: ((o[:few].double() - want).square().mean().sqrt() / want.square().mean().sqrt()).item() for name, o in outputs.items()}
    return built, errors


def measure(options):
    import timing
    import torch
    flush, order, modules = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), random.Random(0), {}
    with open(options.csv, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for shape in SHAPES:
            built, errors = contenders_of(shape, options.what[1], modules)
            runs = {name: types.SimpleNamespace(run=run, kind="ours") for name, run in built.items()}
            times = timing.measure(runs, "spin", flush, order, options.reps, 2, 200_000)
            best = {}
            for name, found in times.items():
                us, kind = 1000 * statistics.median(found), name.split("-")[0]
                moved = 2 * shape[0] * shape[1] * shape[3] * D * (1 if kind == "fp8" else 2)
                row = (*shape, kind, name.split("-")[1] if "-" in name else "", f"{us:.2f}", f"{1000 * min(found):.2f}", f"{moved / us / 1e3:.0f}", f"{errors[name]:.2e}")
                writer.writerow(dict(zip(FIELDS, row)))
                if kind not in best or us < best[kind][0]:
                    best[kind] = (us, moved / us / 1e3, name, errors[name])
            out.flush()
            print(shape, "  ".join(f"{name} {us:.1f} us {rate:.0f} GB/s error {error:.1e}" for us, rate, name, error in best.values()), flush=True)
            del built
            torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="prepare, or measure FOLDER")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--out", default="paged_fp8")
    parser.add_argument("--csv", default="paged_fp8.csv")
    parser.add_argument("--reps", type=int, default=11)
    options = parser.parse_args()
    (prepare if options.what == ["prepare"] else measure)(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
