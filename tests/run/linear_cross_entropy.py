#!/usr/bin/env python3
"""linear_cross_entropy.py - examples/linear_cross_entropy.tile in the interpreter and the simulator, against float64.

    linear_cross_entropy.py --tilec T --tilerun R

Losses and log-sum-exps, and the gradients of X and W by classes in two parts; targets at both ends, in neither part, rows that do not
count; sizes that fill no tile; softcap and smoothing.
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

NAME = "linear_cross_entropy"
SOURCE = os.path.join(ladder.ROOT, "examples", NAME + ".tile")
FLAGS = "SMOOTH", "SOFTCAP"
# by kernel: compile-time parameters, scalars, inputs, outputs
KERNELS = {
    "parts": (("T", *FLAGS), ("softcap", "S"), ("X", "W"), ("Most", "Sum", "All")),
    "rows": (("T", *FLAGS), ("softcap", "smoothing"), ("X", "W", "Y", "Most", "Sum", "All"), ("Loss", "L")),
    "logits": (("T", *FLAGS), ("first", "classes", "softcap", "smoothing"), ("X", "W", "Y", "L", "A", "B"), ("G",)),
    "dw": (("T",), (), ("G", "X", "Scale"), ("dW",)),
    "dx": (("T",), (), ("G", "W", "Scale", "dX"), ("dX",)),
}


def cases():
    """arch, type, rows, features, classes, softcap, smoothing"""
    yield "interpreter", "bf16", 33, 64, 300, 0.0, 0.0
    yield "sm_90", "bf16", 70, 136, 600, 0.0, 0.0
    yield "sm_90", "f16", 130, 64, 520, 4.0, 0.2
    yield "sm_90", "bf16", 1, 8, 3, 0.0, 0.1
    yield "sm_80", "bf16", 21, 72, 277, 0.0, 0.1
    yield "sm_80", "f16", 40, 64, 264, 3.0, 0.0
    yield "sm_100", "bf16", 150, 72, 300, 0.0, 0.0
    yield "sm_100", "bf16", 20, 64, 530, 5.0, 0.3
    yield "sm_120", "bf16", 37, 200, 290, 2.0, 0.1
    yield "sm_120", "f16", 8, 64, 257, 0.0, 0.0


def executed(options, folder, arch, name, have, values):
    """What a kernel writes."""
    constants, scalars, inputs, outputs = KERNELS[name]
    words = [word for c in constants for word in ("-D", f"{c}={values[c]}")] + ["--kernel", f"{NAME}_{name}"]
    command, ptx = [options.tilec, "run", SOURCE, *words], os.path.join(folder, name + ".ptx")
    if arch != "interpreter":
        done = subprocess.run([options.tilec, SOURCE, "-arch", arch, "--verify", "-o", ptx, *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(name + ": " + ladder.failure(done))
        command = [options.tilerun, ptx, "--device", "sim", "--seeds", "2"]
    done = subprocess.run(ladder.with_arrays(command, folder, {i: have[i] for i in inputs}, {s: values[s] for s in scalars}, outputs),
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(name + ": " + ladder.failure(done))
    return ladder.loaded(folder, outputs)


def exact(x, w, y, a, b, cap, smoothing):
    """Losses, log-sum-exps, gradients of X and W where a and b are those of the losses and what L adds."""
    s = x @ w.T
    t = np.tanh(s / cap) if cap else s
    logits = cap * t if cap else s
    top = logits.max(axis=1, keepdims=True)
    lse = top + np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
    goal = np.full(s.shape, smoothing / len(w))
    valid = (y >= 0) & (y < len(w))
    goal[np.flatnonzero(valid), y[valid]] += 1 - smoothing
    loss = np.where(valid, lse[:, 0] - (goal * logits).sum(axis=1), 0.0)
    g = np.exp(logits - lse) * a[:, None] - goal * b[:, None]
    g = g * (1 - t * t) if cap else g
    return loss, lse[:, 0], g @ w, g.T @ x


def near(name, have, want, limit):
    off = np.abs(have - want).max() / limit
    return "" if off <= 1 else f"{name}: an error of {off:.2f} of its limit; "


def judge(options, folder, case):
    arch, dtype, rows, d, v, cap, smoothing = case
    os.mkdir(folder)
    r = np.random.default_rng([rows, d, v])
    x, w = ladder.rounded(r.normal(size=(rows, d)), dtype), ladder.rounded(r.normal(size=(v, d)) * 2 / d**0.5, dtype)
    y = r.integers(0, v, rows)
    y[: min(rows, 6)] = [v - 1, -1, 0, v, v - 2, -100][: min(rows, 6)]
    half = max(v // 512, 1) * 256  # classes in the first part, which is of whole tiles
    valid = (y >= 0) & (y < v)
    b = np.where(valid, r.uniform(0.5, 1.5, rows), 0.0).astype(np.float32)
    a = (b + r.uniform(-0.5, 0.5, rows)).astype(np.float32)
    values = {"T": dtype, "SMOOTH": str(smoothing > 0).lower(), "SOFTCAP": str(cap > 0).lower(), "softcap": cap, "smoothing": smoothing,
              "S": -(-v // 256) if smoothing else 0, "classes": v}
    have = {"X": ladder.to_bits(x, dtype), "W": ladder.to_bits(w, dtype), "Y": y.astype(np.int32), "A": a / np.float32(0.5), "B": b / np.float32(0.5),
            "Scale": np.array([0.5], np.float32),
            "dX": np.zeros((rows, d), np.float32)}  # (A and B come in units of Scale)
    try:
        for name in ("parts", "rows"):
            have.update(executed(options, folder, arch, name, have, values))
        every, dw = have["W"], []
        for first, last in ((0, min(half, v)), (half, v)):
            if first < last:
                have["W"] = every[first:last]
                for name in ("logits", "dw", "dx"):
                    have.update(executed(options, folder, arch, name, have, {**values, "first": first}))
                dw.append(ladder.from_bits(have["dW"], dtype))
    except RuntimeError as error:
        return str(error)
    loss, lse, dx, all_dw = exact(x, w, y, a.astype(np.float64), b.astype(np.float64), cap, smoothing)
    epsilon = 2 * ladder.EPSILON[dtype]
    return (near("Loss", have["Loss"], loss, 2e-5 * (1 + np.abs(lse).max())) + near("L", have["L"], lse, 2e-5 * (1 + np.abs(lse).max()))
            + near("dX", have["dX"], dx, epsilon * np.abs(dx).max()) + near("dW", np.concatenate(dw), all_dw, epsilon * np.abs(all_dw).max()))


if __name__ == "__main__":
    sys.exit(ladder.judge_all(judge, cases()))
