#!/usr/bin/env python3
"""decode_called.py - attention of one query as it is called (tilec.torch.attention), beside PyTorch's backends, in one process.

    decode_called.py [--csv FILE]

bf16, one query, 32 heads that share 4 of K and V, 1 to 131,072 keys, batches of 1, 8 and 64, head dimensions 64 and 128: 41 cases.
Each result is compared with the default backend's.  Time on the GPU (timing.py): 256 MB written before each call, an order shuffled
anew, the median of 15.
"""
import argparse
import csv
import math
import os
import random
import statistics
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
CASES = [(b, s, d) for d in (64, 128) for b in (1, 8, 64) for s in (1, 128, 1024, 4096, 16384, 32768, 131072)][:-1]


def contenders(torch, tilec_torch, batch, keys, d):
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
    torch.manual_seed(1)
    make = lambda heads, rows: torch.randn(batch, heads, rows, d, device="cuda", dtype=torch.bfloat16)
    q, k, v = make(32, 1), make(4, keys), make(4, keys)

    def backend(which):
        def run():
            with sdpa_kernel(which):
                return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return run
    return {"ours": lambda: tilec_torch.attention(q, k, v, layout="bhsd"),
            "default": lambda: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            "FA2": backend(SDPBackend.FLASH_ATTENTION), "cuDNN": backend(SDPBackend.CUDNN_ATTENTION)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv")
    options = parser.parse_args()
    import tilec.torch
    import timing
    import torch
    flush, order, ratios, rows = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), random.Random(1), [], []
    with torch.no_grad():
        for batch, keys, d in CASES:
            built = contenders(torch, tilec.torch, batch, keys, d)
            want = built["default"]().float()
            for name in list(built):
                try:
                    off = (built[name]().float() - want).abs().max().item()
                    wrong = "" if off < 0.02 else f"differs by {off:.1e}"
                except RuntimeError as error:
                    wrong = str(error).splitlines()[0][:80]
                if wrong:
                    print(f"# {batch} x {keys}, d {d}: {name}: {wrong}", flush=True)
                    del built[name]
            runs = {name: types.SimpleNamespace(run=run, kind="peer") for name, run in built.items()}
            times = timing.measure(runs, "spin", flush, order, 15, 4, 500_000)
            us = {name: 1000 * statistics.median(values) for name, values in times.items()}
            rows += [(batch, keys, d, name, f"{value:.2f}") for name, value in us.items()]
            peer = min(value for name, value in us.items() if name != "ours")
            ratios.append(peer / us["ours"])
            print(f"B{batch} S{keys} d{d}: " + ", ".join(f"{name} {value:.1f}" for name, value in us.items()) + f" | {ratios[-1]:.3f}", flush=True)
            del built, runs
            torch.cuda.empty_cache()
    print(f"{len(ratios)} cases: best peer over ours {math.exp(statistics.fmean(map(math.log, ratios))):.3f} in the geometric mean, least "
          f"{min(ratios):.3f}; {sum(r >= 0.98 for r in ratios)} at 0.98 or more")
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("batch", "keys", "d", "name", "us"), *rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
