#!/usr/bin/env python3
"""variant.py - the variant of docs/pytorch.md: a bias and a mask as data, and gradients, beside float64; in the interpreter and, compiled,
in the simulator.  Where PyTorch is installed, the page's Python is run, too.

    variant.py --tilec T --tilerun R [--extension FOLDER --library FILE]
"""
import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCALE = 0.125


def exact(q, k, v, bias, keep, g):
    """Results and gradients in float64, by name."""
    q, k, v, g = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v, g))
    s = np.where(keep[:, None, None, :] != 0, SCALE * (q @ k.transpose(0, 1, 3, 2)) + bias, -np.inf)
    top = s.max(axis=3, keepdims=True)
    e = np.exp(s - top)
    total = e.sum(axis=3, keepdims=True)
    p = e / total
    o = p @ v
    ds = p * (g @ v.transpose(0, 1, 3, 2) - (g * o).sum(axis=3, keepdims=True))
    back = {"O": o, "dQ": SCALE * (ds @ k), "dK": SCALE * (ds.transpose(0, 1, 3, 2) @ q), "dV": p.transpose(0, 1, 3, 2) @ g}
    return {name: x.transpose(0, 2, 1, 3) for name, x in back.items()} | {"L": (top + np.log(total))[..., 0], "dbias": ds}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--extension")
    parser.add_argument("--library")
    options = parser.parse_args()
    tilec, tilerun = os.path.abspath(options.tilec), os.path.abspath(options.tilerun)
    with open(os.path.join(ROOT, "docs", "pytorch.md"), encoding="utf-8") as file:
        blocks = dict(re.findall(r"^<!-- save: ([^\n]*) -->\n```\w*\n(.*?)^```$", file.read(), re.M | re.S))
    rng = np.random.default_rng(7)
    b, h, sq, sk, d = 2, 2, 20, 70, 64
    tensors = {name: rng.standard_normal((b, s, h, d)).astype(np.float16) for name, s in (("Q", sq), ("K", sk), ("V", sk), ("dO", sq))}
    tensors["bias"] = rng.standard_normal((b, h, sq, sk)).astype(np.float32)
    tensors["keep"] = rng.random((b, sk)) < 0.7
    tensors["keep"][0, 16:40] = False  # none of some tiles of keys
    want = exact(*(tensors[name] for name in ("Q", "K", "V", "bias", "keep", "dO")))
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        for name, text in blocks.items():
            with open(path(name), "w", encoding="utf-8") as file:
                file.write(text)
        for name, value in tensors.items():
            np.save(path(name + ".npy"), value)
        for arch in None, "sm_80", "sm_90", "sm_100":
            for program, ins, outs in (("biased", ("Q", "K", "V", "bias", "keep"), ("O", "L")),
                                       ("biased_bwd", ("Q", "K", "V", "bias", "keep", "O", "L", "dO"), ("dQ", "dbias", "dK", "dV"))):
                start = [tilec, "run", program + ".tile"]
                if arch:
                    subprocess.run([tilec, program + ".tile", "-arch", arch, "-Wno-plan", "-o", "x.ptx"], cwd=folder, check=True)
                    start = [tilerun, "x.ptx", "--device", "sim"]
                words = [f"--in={name}={name}.npy" for name in ins] + [f"--out={name}={name}.npy" for name in outs]
                words = [part for word in words for part in word.split("=", 1)] + ["--set", f"scale={SCALE}"]
                done = subprocess.run([*start, *words], cwd=folder, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(f"{arch} {program}: {done.stdout}{done.stderr}")
                for name in outs:
                    error = np.abs(np.load(path(name + ".npy")) - want[name]).max() / np.abs(want[name]).max()
                    if not error < 2e-3:
                        bad.append(f"{arch} {name}: off by {error}")
        if importlib.util.find_spec("torch") and options.extension and options.library:
            with open(path("sitecustomize.py"), "w", encoding="utf-8") as file:
                file.write(f"import tilec\ntilec.__path__.append({os.path.abspath(options.extension)!r})\n")
            environment = dict(os.environ, TILEC_INTERPRET="1", TILEC_LIBRARY=os.path.abspath(options.library), TILEC_CACHE_DIR="off",
                               PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=os.pathsep.join([folder, os.path.join(ROOT, "python")]))
            for call in "call_biased.py", "call_moe.py":
                done = subprocess.run([sys.executable, call], cwd=folder, env=environment, capture_output=True, text=True)
                if done.stdout != "right\n":
                    bad.append(f"{call}: {done.stdout}{done.stderr}")
    print("\n".join(bad) or "all are right")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
