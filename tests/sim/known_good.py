#!/usr/bin/env python3
"""known_good.py - attention kernels for sm_90a that are known to be right, in the simulator.

    known_good.py SIMRUN [--seeds 4] [--jobs N] [NAME..]

Runs each file of known_good/ (README.md there says what they are and how they are launched) at small
sizes under several seeds: no finding but the ones listed in EXPECTED, and the results within the
error that rounding P to bf16 makes, against float64.  mutate.py breaks the same files.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "known_good"
MEGABYTE = 1 << 20

# (rows of a query tile, threads, dynamic shared memory, rows of the boxes of k and v)
FORWARD = {"d64": (256, 640, 131456, 64), "d64_causal": (256, 640, 131456, 64),
           "d128": (128, 384, 164096, 128), "d128_causal": (128, 384, 164096, 128),
           "d128_192x64": (192, 512, 196864, 64), "d128_causal_192x64": (192, 512, 196864, 64),
           "d256": (128, 384, 196864, 64), "d256_causal": (128, 384, 196864, 64)}

# Found in a file as it is, and right to be found: kind and text of the line.  The causal forward
# kernels draw tiles from a counter with relaxed atomics, and who comes last sets it back with weak
# stores.  Nothing orders those after the atomics of the other blocks (PTX ISA 8.10), so by the ISA it
# is a race.  With .acq_rel on the last atomic (`repaired`) there is no finding.
RESET = re.compile(r"st\.global\.u32 +\[cnt(\+4)?\], zero;")
DRAW = re.compile(r"atom\.global\.add(\.u32 +nxt, \[cnt\+4\], 1;)")


def repaired(text):
    return DRAW.sub(r"atom.acq_rel.gpu.global.add\1", text)


def expected(text, said):
    """Whether all that was said is known: races between the reset and an atomic."""
    lines = text.split("\n")
    places = [lines[int(n) - 1] for n in re.findall(r"\.ptx:(\d+) ", said)]
    kinds = re.findall(r"^(?:fault|note): ([a-z-]+): ", said, re.M)
    return bool(kinds) and set(kinds) == {"race"} and all(
        RESET.search(p) or "[cnt" in p for p in places)


def bf16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def value(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def power_of_two(number, limit):
    """The largest one that divides the number and does not exceed the limit."""
    two = 1
    while number % (2 * two) == 0 and 2 * two <= limit:
        two *= 2
    return two


class Case:
    """One size of one file: its launches, and what they must give."""

    def __init__(self, stem, b, h, s, grid=2, grow=0.0, seed=1):
        name = stem.removeprefix("sm90a_attention_")
        self.path, self.backward = FOLDER / f"{stem}.ptx", name.startswith("bwd")
        self.name = name.split("_", 1)[1]
        self.d = int(re.search(r"d(\d+)", name).group(1))
        self.causal = "causal" in name
        self.b, self.h, self.s, self.grid = b, h, s, grid
        random = np.random.default_rng(seed)
        shape = (b, s, h, self.d)
        self.q, self.k, self.v, self.do = (bf16(random.standard_normal(shape)) for _ in range(4))
        if grow:  # scores that grow along the keys, in the order in which the kernels take them: backwards
            ramp = np.arange(s)[::-1].reshape(1, s, 1, 1) / 64 * grow
            self.k = bf16(value(self.k) + ramp * np.sign(value(self.q[:, :1]).mean((1,), keepdims=True)))
            self.q = bf16(np.abs(value(self.q)) * np.sign(value(self.q[:, :1])))
        self.reference()

    def describe(self):
        return f"{self.path.stem} b{self.b} h{self.h} s{self.s}"

    def reference(self):
        q, k, v, do = (value(x).transpose(0, 2, 1, 3) for x in (self.q, self.k, self.v, self.do))
        scale = self.d ** -0.5
        score = q @ k.transpose(0, 1, 3, 2) * scale
        if self.causal:
            score = np.where(np.tril(np.ones((self.s, self.s), bool)), score, -np.inf)
        top = score.max(-1, keepdims=True)
        p = np.exp(score - top)
        total = p.sum(-1, keepdims=True)
        p /= total
        self.lse = (top + np.log(total))[..., 0]
        o = p @ v
        self.o = o.transpose(0, 2, 1, 3)
        if not self.backward:
            return
        ds = p * (do @ v.transpose(0, 1, 3, 2) - (do * o).sum(-1, keepdims=True)) * scale
        self.dq, self.dk, self.dv = (x.transpose(0, 2, 1, 3) for x in (
            ds @ k, ds.transpose(0, 1, 3, 2) @ q, p.transpose(0, 1, 3, 2) @ do))

    def write_inputs(self, folder):
        for name in ("q", "k", "v", "do"):
            getattr(self, name).tofile(folder / f"{name}.bin")
        bf16(self.o).tofile(folder / "o_in.bin")
        self.lse.astype(np.float32).tofile(folder / "lse_in.bin")

    def map(self, folder, name, rows):
        d, b, h, s = self.d, self.b, self.h, self.s
        return (f"map:bf16:128:{d}x{s}x{h}x{b}@{h * d * 2}x{d * 2}x{s * h * d * 2}:64x{rows}x1x1:"
                f"in:{folder}/{name}.bin")

    def launches(self, folder):
        """Words for simrun, launch by launch."""
        return self.backward_launches(folder) if self.backward else [self.forward_launch(folder)]

    def forward_launch(self, folder):
        d, b, h, s = self.d, self.b, self.h, self.s
        rows, threads, shared, keys = FORWARD[self.name]
        tiles = -(-s // rows)
        section = power_of_two(b * h, 32 * MEGABYTE // (s * 4 * d)) if self.causal else 1
        return ["--entry", f"attention_fwd_{self.name}", "--grid", str(self.grid), "--block", str(threads),
                "--shared", str(shared), self.map(folder, "q", 64), self.map(folder, "k", keys),
                self.map(folder, "v", keys), f"out:{folder}/o.bin:{b * s * h * d * 2}",
                f"out:{folder}/lse.bin:{b * h * s * 4}", "zero:8" if self.causal else "null", f"u32:{s}",
                f"u32:{h}", f"u32:{tiles}", f"u32:{section}", f"u32:{tiles * b * h}",
                f"f32:{float(np.log2(np.e) / np.sqrt(d))!r}", "u32:0"]

    def backward_launches(self, folder):
        d, b, h, s = self.d, self.b, self.h, self.s
        queries, keys = -(-s // 80), -(-s // 128)
        rows = b * h * queries * 80
        section = power_of_two(b * h, 40 * MEGABYTE // (s * 1024)) if self.causal else 1
        size, scale = b * s * h * d * 2, d ** -0.5
        sums, stats = f"{folder}/sums.bin", [f"{folder}/lse2.bin", f"{folder}/delta.bin"]
        pre = ["--entry", "attention_bwd_pre", "--grid", str(-(-rows // 64)), "--block", "256",
               f"in:{folder}/o_in.bin", f"in:{folder}/do.bin", f"in:{folder}/lse_in.bin",
               f"out:{stats[0]}:{rows * 4}", f"out:{stats[1]}:{rows * 4}", f"out:{sums}:{rows * 512}",
               f"u32:{s}", f"u32:{h}", f"u32:{queries}", f"u32:{rows}", f"f32:{float(-np.log2(np.e))!r}"]
        main = ["--entry", f"attention_bwd_{self.name}", "--grid", str(keys * b * h), "--block", "384",
                "--shared", "231040", self.map(folder, "q", 80), self.map(folder, "k", 128),
                self.map(folder, "v", 128), self.map(folder, "do", 80), f"out:{folder}/dk.bin:{size}",
                f"out:{folder}/dv.bin:{size}", f"inout:{sums}", f"in:{stats[0]}", f"in:{stats[1]}",
                f"u32:{s}", f"u32:{h}", f"u32:{keys}", f"u32:{queries}", f"u32:{section}",
                f"f32:{float(np.log2(np.e) * scale)!r}", f"f32:{scale!r}", "u32:0"]
        post = ["--entry", "attention_bwd_post", "--grid", str(queries * b * h), "--block", "256",
                f"in:{sums}", f"out:{folder}/dq.bin:{size}", f"u32:{s}", f"u32:{h}", f"u32:{queries}",
                f"f32:{scale!r}"]
        return [pre, main, post]

    def wrong(self, folder):
        """What is wrong with the results, or None."""
        shape = self.o.shape
        for name in (("dq", "dk", "dv") if self.backward else ("o",)):
            want = getattr(self, name)
            have = value(np.fromfile(folder / f"{name}.bin", np.uint16)).reshape(shape)
            error = np.linalg.norm(have - want) / np.linalg.norm(want)
            if not error <= 4e-3:  # NaN fails
                return f"{name}: relative error {error:.3g}"
        if not self.backward:
            have = np.fromfile(folder / "lse.bin", np.float32).reshape(self.lse.shape)
            error = np.abs(have - self.lse).max()
            if not error <= 1e-4 * max(1, np.abs(self.lse).max()):
                return f"lse: error {error:.3g}"
        return None


# More tiles than blocks, more key blocks than stages, ragged ends, several heads and batches.
CASES = [
    ("sm90a_attention_fwd_d64", dict(b=1, h=2, s=330)),
    ("sm90a_attention_fwd_d64", dict(b=1, h=1, s=320, grid=1, grow=3.0)),
    ("sm90a_attention_fwd_d64_causal", dict(b=2, h=1, s=400)),
    ("sm90a_attention_fwd_d64_causal", dict(b=1, h=1, s=450, grow=3.0)),
    ("sm90a_attention_fwd_d128", dict(b=1, h=2, s=333)),
    ("sm90a_attention_fwd_d128_causal", dict(b=1, h=2, s=300)),
    ("sm90a_attention_fwd_d128_192x64", dict(b=1, h=2, s=300)),
    ("sm90a_attention_fwd_d128_192x64", dict(b=1, h=1, s=250, grow=3.0)),
    ("sm90a_attention_fwd_d128_causal_192x64", dict(b=1, h=2, s=300)),
    ("sm90a_attention_fwd_d128_causal_192x64", dict(b=1, h=1, s=350, grow=3.0)),
    ("sm90a_attention_fwd_d256", dict(b=1, h=1, s=200, grid=1)),
    ("sm90a_attention_fwd_d256", dict(b=1, h=1, s=200, grow=3.0)),
    ("sm90a_attention_fwd_d256_causal", dict(b=1, h=2, s=250)),
    ("sm90a_attention_fwd_d256_causal", dict(b=1, h=1, s=250, grow=3.0)),
    ("sm90a_attention_fwd_d256_causal", dict(b=1, h=3, s=40, grid=1)),
    ("sm90a_attention_bwd_d128", dict(b=1, h=1, s=250)),
    ("sm90a_attention_bwd_d128", dict(b=1, h=2, s=70)),
    ("sm90a_attention_bwd_d128_causal", dict(b=1, h=1, s=250)),
    ("sm90a_attention_bwd_d128_causal", dict(b=2, h=1, s=70)),
]


def simulate(simrun, path, words, seed, threads=1):
    done = subprocess.run([simrun, str(path), "--threads", str(threads), "--seed", str(seed), *words],
                          capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout + done.stderr


def run_case(simrun, stem, sizes, seeds):
    case = Case(stem, **sizes)
    text, problems = case.path.read_text(), []
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        case.write_inputs(folder)
        versions = [("", text)]
        if DRAW.search(text):
            versions.append((", repaired", repaired(text)))
        seen = False
        for seed in range(seeds):
            which, content = versions[seed % len(versions)]
            path = folder / "kernel.ptx"
            path.write_text(content)
            for words in case.launches(folder):
                status, said = simulate(simrun, path, words, seed)
                known = status == 3 and not which and expected(content, said)
                seen |= known
                if status and not known:
                    return [f"{case.describe()}{which}, seed {seed}: exit {status}:\n{said[:2000]}"]
            wrong = case.wrong(folder)
            if wrong:
                problems.append(f"{case.describe()}{which}, seed {seed}: {wrong}")
        if len(versions) > 1 and case.grid > 1 and not seen:
            problems.append(f"{case.describe()}: the race on the tile counter was not found")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("simrun")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", help="only files with one of these in their name")
    options = parser.parse_intermixed_args()
    work = [c for c in CASES if not options.names or any(n in c[0] for n in options.names)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for problems in pool.map(lambda c: run_case(options.simrun, *c, options.seeds), work):
            failed += len(problems)
            for problem in problems:
                print(f"FAIL {problem}", flush=True)
    print(f"{len(work)} cases under {options.seeds} seeds, {failed} failures")
    return 1 if failed or not work else 0


if __name__ == "__main__":
    sys.exit(main())
