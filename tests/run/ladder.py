#!/usr/bin/env python3
"""ladder.py - the small examples, compiled, run in the simulator, compared with NumPy in float64.

    ladder.py --tilec T --tilerun R [--device sim] [EXAMPLE..]

Every case runs at -O0 and -O3 and for each target; ragged sizes, rows with gaps between them, and
each optional pass switched off in turn.  The simulator also fails a case for any race, read of
uninitialised memory or access out of bounds.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def product(indices, a, b):
    """np.einsum of two arrays that share what is summed, as matrix products: many times as quick."""
    (left, right), out = indices.split("->")[0].split(","), indices.split("->")[1]
    both = [i for i in out if i in left and i in right]
    rows, columns = [i for i in out if i not in right], [i for i in out if i not in left]
    summed = [i for i in left if i not in out]
    size = dict(zip(left, a.shape)) | dict(zip(right, b.shape))
    count = lambda names: int(np.prod([size[i] for i in names]))
    a = a.transpose([left.index(i) for i in both + rows + summed])
    b = b.transpose([right.index(i) for i in both + summed + columns])
    c = a.reshape(count(both), count(rows), count(summed)) @ b.reshape(count(both), count(summed), count(columns))
    order = both + rows + columns
    return c.reshape([size[i] for i in order]).transpose([order.index(i) for i in out])


def to_bits(x, dtype):
    """An array as tilerun reads it: bf16 travels as its bits."""
    if dtype != "bf16":
        return np.asarray(x, dtype={"f16": np.float16, "f32": np.float32, "i8": np.int8, "bool": np.bool_}[dtype])
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bits(x, dtype):
    if dtype != "bf16":
        return x.astype(np.float64)
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def with_arrays(command, folder, inputs, sets, outputs):
    """A command line of `tilec run` or tilerun with inputs saved in a folder; outputs will be there, too."""
    for name, values in inputs.items():
        path = os.path.join(folder, name + "-in.npy")
        np.save(path, values)
        command = command + ["--in", f"{name}={path}"]
    for name, value in sets.items():
        command = command + ["--set", f"{name}={value}"]
    return command + [word for name in outputs for word in ("--out", f"{name}={folder}/{name}-out.npy")]


def loaded(folder, outputs):
    return {name: np.load(os.path.join(folder, name + "-out.npy")) for name in outputs}


def rounded(x, dtype):
    return from_bits(to_bits(x, dtype), dtype)


EPSILON = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


class Case:
    """One example with sizes: what to define and set, its inputs, and what must come out."""

    def __init__(self, example, name, defines, scalars, inputs, outputs, out_dtype, slack):
        self.example, self.name, self.defines, self.scalars = example, name, defines, scalars
        self.inputs, self.outputs = inputs, outputs  # name: (values, dtype); name: values
        self.out_dtype = out_dtype
        self.slack = slack  # in units of the output's rounding, relative to the largest value


def copy_cases(random):
    for n in [1, 31, 1024, 3000]:
        x = random.standard_normal(n)
        for dtype in ["f32", "bf16"]:
            yield Case("copy", f"{n}-{dtype}", {"T": dtype}, {}, {"X": (x, dtype)},
                       {"Y": rounded(x, dtype)}, dtype, 0)


def add_cases(random):
    for rows, columns in [(1, 1), (17, 300), (33, 256), (5, 1000)]:
        x, y = random.standard_normal((2, rows, columns))
        for dtype in ["f32", "f16", "bf16"]:
            want = 0.5 * rounded(x, dtype) + rounded(y, dtype)
            yield Case("add", f"{rows}x{columns}-{dtype}", {"T": dtype}, {"a": 0.5},
                       {"X": (x, dtype), "Y": (y, dtype)}, {"Z": want}, dtype, 1)


def softmax_cases(random):
    for rows, columns in [(1, 1), (16, 256), (19, 600), (40, 257)]:
        x = 4 * random.standard_normal((rows, columns))
        for dtype in ["f32", "f16"]:
            exact = rounded(x, dtype)
            e = np.exp(exact - exact.max(axis=1, keepdims=True))
            yield Case("row_softmax", f"{rows}x{columns}-{dtype}", {"T": dtype}, {},
                       {"X": (x, dtype)}, {"Y": e / e.sum(axis=1, keepdims=True)}, dtype, 40)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = [lambda x: x, lambda x: np.maximum(x, 0), gelu_tanh, lambda x: x / (1 + np.exp(-x))]


def gemm_cases(random):
    for m, n, k, dtype, activation in [(128, 64, 64, "bf16", 0), (130, 72, 200, "f16", 1),
                                       (1, 8, 8, "bf16", 2), (200, 136, 96, "f16", 3),
                                       (64, 256, 320, "bf16", 0)]:
        a, b = random.standard_normal((m, k)), random.standard_normal((k, n))
        bias = random.standard_normal(n)
        want = ACTIVATIONS[activation](rounded(a, dtype) @ rounded(b, dtype) +
                                       rounded(bias, "f32"))
        yield Case("gemm", f"{m}x{n}x{k}-{dtype}-{activation}",
                   {"T": dtype, "ACTIVATION": activation}, {},
                   {"A": (a, dtype), "B": (b, dtype), "bias": (bias, "f32")}, {"C": want}, dtype, 2)


def mlp_cases(random):
    for rows, d, hidden, dv, dtype, activation in [(130, 64, 200, 64, "bf16", 2), (70, 128, 136, 64, "f16", 3),
                                                   (1, 8, 8, 16, "bf16", 1), (200, 40, 64, 128, "f16", 0),
                                                   (64, 128, 320, 128, "bf16", 2)]:
        x, w1, w2 = (random.standard_normal(s) for s in [(rows, d), (d, hidden), (hidden, dv)])
        b1, b2 = random.standard_normal(hidden), random.standard_normal(dv)
        h = ACTIVATIONS[activation](rounded(x, dtype) @ rounded(w1, dtype) + rounded(b1, "f32"))
        yield Case("mlp", f"{rows}x{d}x{hidden}x{dv}-{dtype}-{activation}",
                   {"T": dtype, "ACTIVATION": activation, "D": d, "DV": dv}, {},
                   {"X": (x, dtype), "W1": (w1, dtype), "W2": (w2, dtype), "b1": (b1, "f32"),
                    "b2": (b2, "f32")}, {"Y": h @ rounded(w2, dtype) + rounded(b2, "f32")}, dtype, 2)


def merge_cases(random):
    """Rows with keys in both parts, in one, in none."""
    for b, s, h, d, dtype, to in [(2, 70, 3, 64, "bf16", "f32"), (1, 1, 1, 40, "f16", "f32"), (1, 200, 2, 128, "bf16", "f32"),
                                  (1, 70, 2, 64, "f16", "f16"), (2, 33, 1, 128, "bf16", "bf16")]:
        p, o = random.standard_normal((2, b, s, h, d))
        lse, more = 3 * random.standard_normal((2, b, h, s))
        lse[0, 0, :5], more[0, 0, 3:9] = -np.inf, -np.inf
        o[0, :5, 0], p[0, 3:9, 0] = 0, 0
        p, o, lse, more = rounded(p, dtype), rounded(o, to), rounded(lse, "f32"), rounded(more, "f32")
        both = np.logaddexp(lse, more)
        base = np.where(np.isinf(both), 0, both)
        shares = [np.exp(x - base).transpose(0, 2, 1)[..., None] for x in (lse, more)]
        yield Case("attention_merge", f"{b}x{s}x{h}x{d}-{dtype}", {"T": dtype, "D": d}, {},
                   {"P": (p, dtype), "LP": (more, "f32"), "O": (o, "f32"), "L": (lse, "f32")},
                   {"O": o * shares[0] + p * shares[1], "L": both}, "f32", 16)


CASES = {"copy": copy_cases, "add": add_cases, "row_softmax": softmax_cases, "gemm": gemm_cases,
         "mlp": mlp_cases, "attention_merge": merge_cases}


def optional_passes(tilec):
    said = subprocess.run([tilec, "--list-passes"], capture_output=True, text=True, check=True)
    return re.findall(r"^(\S+)\s.* (?:-O |only -f)", said.stdout, re.M)


def largest(values):
    return np.abs(values[np.isfinite(values)]).max()


def largest_error(have, want):
    with np.errstate(invalid="ignore"):
        return np.where(have == want, 0, np.abs(have - want)).max()  # infinities are equal or wrong


def run(options, case, arch, flags, folder):
    """None when all is well, else what is wrong."""
    ptx = os.path.join(folder, "kernel.ptx")
    command = [options.tilec, os.path.join(ROOT, "examples", case.example + ".tile"), "-arch", arch,
               "-o", ptx] + flags
    for name, value in case.defines.items():
        command += ["-D", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr
    command = [options.tilerun, ptx, "--device", options.device]
    for name, (values, dtype) in case.inputs.items():
        np.save(os.path.join(folder, name + ".npy"), to_bits(values, dtype))
        command += ["--in", f"{name}={os.path.join(folder, name + '.npy')}"]
    for name, value in case.scalars.items():
        command += ["--set", f"{name}={value}"]
    for name in case.outputs:
        command += ["--out", f"{name}={os.path.join(folder, name + '.npy')}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr + done.stdout
    for name, want in case.outputs.items():
        have = from_bits(np.load(os.path.join(folder, name + ".npy")), case.out_dtype)
        if have.shape != want.shape:
            return f"{name} has the shape {have.shape}, expected {want.shape}"
        allowed, error = case.slack * EPSILON[case.out_dtype] * largest(want), largest_error(have, want)
        if not error <= allowed:  # NaN fails
            return f"{name}: error {error:.3g}, allowed {allowed:.3g}"
    return None


def failure(done):
    """What a program said that failed: never nothing, as one that a signal ended says."""
    return (done.stdout + done.stderr).strip() or f"exit status {done.returncode}"


def judge_all(judge, cases, more=lambda options, folder: []):
    """The main program of a test: `judge` says what is wrong with a case, run with these options in a folder that is not there yet,
    or "".  `more`: what else is judged, as (name, what is wrong).  The exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            if options.only in str(case):
                said.append((case, judge(options, os.path.join(folder, str(len(said))), case)))
        said += more(options, folder)
    wrong = [f"{case}: {what}" for case, what in said if what]
    print("\n".join(wrong + [f"{len(said)} cases, {len(wrong)} wrong"]))
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--device", default="sim", choices=["sim", "gpu"])
    parser.add_argument("examples", nargs="*")
    options = parser.parse_args()
    switches = [["-O0"], ["-O3"]] + [[f"-fno-{name}"] for name in optional_passes(options.tilec)]
    passed, failed = 0, 0
    for example in options.examples or list(CASES):
        random = np.random.default_rng(7)
        for number, case in enumerate(CASES[example](random)):
            for arch in ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]:
                # each switch on one target and a few cases; -O0 and -O3 on all
                chosen = switches if arch == "sm_80" and number % 3 == 1 else switches[:2]
                if arch in ["sm_86", "sm_89", "sm_120"]:  # others' instructions, tiles for less shared memory
                    chosen = [["-O3"]] if number % 6 == {"sm_86": 0, "sm_89": 3, "sm_120": 1}[arch] else []
                for flags in chosen:
                    with tempfile.TemporaryDirectory() as folder:
                        wrong = run(options, case, arch, flags, folder)
                    passed += wrong is None
                    failed += wrong is not None
                    if wrong:
                        print(f"{example} {case.name} {arch} {' '.join(flags)}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
