#!/usr/bin/env python3
"""mlp.py - two layers, Y = gelu(X W1 + b1) W2 + b2, on one GPU: examples/mlp.tile in one kernel, examples/gemm.tile in two,
beside cuBLAS with the gelu fused, in one process.

    mlp.py --tilec TILEC [--reps N]

bf16, rows of 16 to 16,384, D of 128 to 4096, F = 4 D.  `two` are two launches of gemm.tile with `--variants=auto`.  Every result is
compared with float64 (at most twice the error of the same with what a 16-bit program stores rounded).  How it measures:
timing.py.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "examples")
sys.path[:0] = [HERE, os.path.join(EXAMPLES, "python")]
CASES = [(rows, d) for d in (128, 256, 512, 4096) for rows in (16, 128, 2048, 16384)]


def load_all(tilec, folder):
    """{name: module}; no `one` where tilec refuses it"""
    import tilec_torch
    wanted = {f"one_{d}": ["mlp", "-D", f"D={d}"] for d in sorted({d for _, d in CASES})}
    wanted.update({f"two_{k}": ["gemm", "-D", f"ACTIVATION={k}", "--variants=auto"] for k in (0, 2)})
    found = {}
    for name, (example, *options) in wanted.items():
        path = os.path.join(folder, name + ".ptx")
        done = subprocess.run([tilec, os.path.join(EXAMPLES, example + ".tile"), "-arch", "sm_90", *options, "-o", path],
                              capture_output=True, text=True)
        if done.returncode:
            print(f"# {name}: {done.stderr.splitlines()[0]}")
        else:
            found[name] = tilec_torch.load(path)
    return found


def contenders(torch, modules, data):
    """{name: (what runs, its result)}"""
    s, d = data["X"].shape
    hidden, y = torch.empty(s, data["W1"].shape[1], device="cuda", dtype=torch.bfloat16), torch.empty_like(data["X"])
    up = modules["two_2"].prepare(A=data["X"], B=data["W1"], bias=data["b1"], C=hidden)
    down = modules["two_0"].prepare(A=hidden, B=data["W2"], bias=data["b2"], C=y)
    x, w1, w2, b1, b2 = (data[name].bfloat16() for name in ("X", "W1", "W2", "b1", "b2"))
    out = {"two": (lambda: (up.run(), down.run()), lambda: y),
           "cuBLAS": (lambda: torch.addmm(b2, torch._addmm_activation(b1, x, w1, use_gelu=True), w2), None)}
    if f"one_{d}" in modules:
        whole = torch.empty_like(y)
        one = modules[f"one_{d}"].prepare(**data, Y=whole)
        out["one"] = (one.run, lambda: whole)
    return out


def errors(torch, data, built):
    """{name: error over what is allowed}"""
    exact = {name: x.double() for name, x in data.items()}

    def compute(cut):
        hidden = torch.nn.functional.gelu(cut(exact["X"] @ exact["W1"]) + exact["b1"], approximate="tanh")
        return cut(cut(hidden) @ exact["W2"] + exact["b2"])

    want = compute(lambda x: x)
    allowed = 2 * (compute(lambda x: x.bfloat16().double()) - want).abs().max().item() + 1e-5
    found = {}
    for name, (run, result) in built.items():
        if result is not None:
            result().fill_(float("nan"))
            run()
            found[name] = (result().double() - want).abs().max().item() / allowed
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--reps", type=int, default=15)
    options = parser.parse_args()
    import timing
    import torch
    flush, order = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda"), random.Random(1)
    bad = 0
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        modules = load_all(options.tilec, folder)
        for s, d in CASES:
            torch.manual_seed(1)
            draw = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
            data = {"X": draw(s, d), "W1": draw(d, 4 * d) * d**-0.5, "W2": draw(4 * d, d) * (4 * d)**-0.5,
                    "b1": torch.randn(4 * d, device="cuda"), "b2": torch.randn(d, device="cuda")}
            built = contenders(torch, modules, data)
            off = errors(torch, data, built)
            bad += sum(not error <= 1 for error in off.values())
            runs = {name: types.SimpleNamespace(run=run) for name, (run, _) in built.items()}
            times = timing.measure(runs, "spin", flush, order, options.reps, 5, 400000, 0.02)
            us = {name: 1e3 * sorted(t)[len(t) // 2] for name, t in times.items()}
            best = min(us[name] for name in us if name != "cuBLAS")
            print(f"{s:6} x {d:4} x {4 * d:5}: " + ", ".join(f"{name} {value:.1f} us" for name, value in sorted(us.items())) +
                  f"; {us['cuBLAS'] / best:.3f} of cuBLAS; errors {', '.join(f'{n} {e:.2f}' for n, e in off.items())}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
