#!/usr/bin/env python3
"""state_spaces.py - kernels of engines that carry a state along a sequence, written with scans, beside NumPy in float64.

    state_spaces.py --tilec T --tilerun R

Mamba-1's selective scan, the same backwards in time (its reverse), gated linear attention with a gate for each channel of K, and
Mamba-2's chunks: ragged lengths, a state that goes on from an earlier launch, in the interpreter and in the simulator.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

ARCHES = ["sm_80", "sm_90", "sm_100"]
SOURCE = """
fn step(x, y) { return (a = x.a * y.a, b = x.b * y.a + y.b); }

// h_t = exp(dt_t A) h_(t - 1) + dt_t B_t x_t; y_t = C_t h_t: N steps of M channels at once
kernel selective<N: int = 32, M: int = 8, DS: int = 16>
(   X: in f32[B, S, D], Dt: in f32[B, S, D], A: in f32[D, DS], Bm: in f32[B, S, DS], Cm: in f32[B, S, DS],
    Y: out f32[B, S, D], State: inout f32[B, D, DS])
{
    grid m in tiles(D, M), b in B;
    var h = load State[b, m, :];
    for n in tiles(S, N) {
        let dt = load Dt[b, n, m];
        let a = exp(dt[:, :, None] * (load A[m, :])[None, :, :]);
        let u = (dt * load X[b, n, m])[:, :, None] * (load Bm[b, n, :])[:, None, :];
        let t = scan(step, (a, u), axis = 0);
        store Y[b, n, m] = sum((t.a * h[None, :, :] + t.b) * (load Cm[b, n, :])[:, None, :], axis = 2);
        let last = reduce(step, (a, u), axis = 0);
        h = last.a * h + last.b;
    }
    store State[b, m, :] = h;
}

// its gradient of u: g_t = dy_t C_t + exp(dt_(t + 1) A) g_(t + 1), one tile of time
kernel backward<N: int = 64, DS: int = 16>(Dy: in f32[S, D], Dt: in f32[S1, D], A: in f32[D, DS], Cm: in f32[S, DS], G: out f32[S, D, DS])
{
    grid d in D;
    let n = tiles(S, N)[0];
    let a = exp((load Dt[n + 1, d])[:, None] * (load A[d, :])[None, :]);
    let u = (load Dy[n, d])[:, None] * load Cm[n, :];
    store G[n, d, :] = scan(step, (a, u), axis = 0, reverse = true).b;
}

// S_t = diag(exp(g_t)) S_(t - 1) + k_t^T v_t, o_t = q_t S_t: chunks of C
kernel gated<T: type = bf16, DK: int = 64, DV: int = 64, C: int = 32>
(   Q: in T[B, S, H, DK], K: in T[B, S, H, DK], V: in T[B, S, H, DV], G: in f32[B, S, H, DK],
    O: out T[B, S, H, DV], State: inout f32[B, H, DK, DV], scale: f32)
{
    grid h in H, b in B;
    var state = load State[b, h, :, :];
    let seen = iota(C)[None, :] <= iota(C)[:, None];
    for n in tiles(S, C) {
        let q = load Q[b, n, h, :] as f32;
        let k = load K[b, n, h, :] as f32;
        let v = load V[b, n, h, :];
        let g = load G[b, n, h, :];
        let (to, total) = (cumsum(g, axis = 0), sum(g, axis = 0));
        let qg = (q * exp(to)) as T;
        let p = where(seen, mma(qg, ((k * exp(-to)) as T).T), 0.0) as T;
        store O[b, n, h, :] = (mma(p, v, mma(qg, state as T)) * scale) as T;
        let kd = (k * exp(total[None, :] - to)) as T;
        state = mma(kd.T, v, state * exp(total)[:, None]);
    }
    store State[b, h, :, :] = state;
}

// the same with a gate for each head, which comes from dt: Mamba-2
kernel chunks<T: type = bf16, P: int = 32, N: int = 64, C: int = 64>
(   X: in T[B, S, H, P], Dt: in f32[B, S, H], A: in f32[H], Bm: in T[B, S, N], Cm: in T[B, S, N], Ds: in f32[H],
    Y: out T[B, S, H, P], State: inout f32[B, H, N, P])
{
    grid h in H, b in B;
    var state = load State[b, h, :, :];
    let seen = iota(C)[None, :] <= iota(C)[:, None];
    for n in tiles(S, C) {
        let x = load X[b, n, h, :];
        let dt = load Dt[b, n, h];
        let (bm, cm) = (load Bm[b, n, :], load Cm[b, n, :]);
        let (to, total) = (cumsum(dt * load A[h], axis = 0), sum(dt * load A[h]));
        let xd = (x as f32 * dt[:, None]) as T;
        let decay = where(seen, exp(to[:, None] - to[None, :]), 0.0);
        let y = mma((mma(cm, bm.T) * decay) as T, xd) + mma(cm, state as T) * exp(to)[:, None];
        store Y[b, n, h, :] = (y + x as f32 * load Ds[h]) as T;
        state = mma(((bm as f32 * exp(total - to)[:, None]) as T).T, xd, state * exp(total));
    }
    store State[b, h, :, :] = state;
}
"""


def selective(r, B, S, D, DS):
    x, dt, a = r.normal(size=(B, S, D)), r.uniform(0.01, 0.5, (B, S, D)), -r.uniform(0.1, 2, (D, DS))
    bm, cm, h = r.normal(size=(B, S, DS)), r.normal(size=(B, S, DS)), r.normal(size=(B, D, DS))
    inputs = {"X": x, "Dt": dt, "A": a, "Bm": bm, "Cm": cm, "State": h}
    inputs = {n: v.astype(np.float32) for n, v in inputs.items()}
    x, dt, a, bm, cm, h = (v.astype(np.float64) for v in inputs.values())
    y = np.zeros(x.shape)
    for t in range(S):
        h = np.exp(dt[:, t, :, None] * a) * h + (dt[:, t] * x[:, t])[:, :, None] * bm[:, t, None]
        y[:, t] = (h * cm[:, t, None]).sum(-1)
    return inputs, {"Y": y, "State": h}, {}


def backward(r, S, D, DS):
    inputs = {"Dy": r.normal(size=(S, D)), "Dt": r.uniform(0.01, 0.5, (S + 1, D)), "A": -r.uniform(0.1, 2, (D, DS)), "Cm": r.normal(size=(S, DS))}
    inputs = {n: v.astype(np.float32) for n, v in inputs.items()}
    dy, dt, a, cm = (v.astype(np.float64) for v in inputs.values())
    g, out = 0, np.zeros((S, D, DS))
    for t in reversed(range(S)):
        g = np.exp(dt[t + 1, :, None] * a) * g + dy[t, :, None] * cm[t]
        out[t] = g
    return inputs, {"G": out}, {}


def attention(r, B, S, H, DK, DV, gates):
    q, k, v = (r.normal(size=(B, S, H, d)) for d in (DK, DK, DV))
    g, state = -r.uniform(0.01, 0.2, gates), r.normal(size=(B, H, DK, DV))
    return ladder.rounded(q, "bf16"), ladder.rounded(k, "bf16"), ladder.rounded(v, "bf16"), g.astype(np.float32), state.astype(np.float32)


def stepped(q, k, v, g, state):
    state, out = state.astype(np.float64), np.zeros(v.shape)
    for t in range(q.shape[1]):
        state = state * np.exp(g[:, t].astype(np.float64))[..., None] + k[:, t, :, :, None] * v[:, t, :, None, :]
        out[:, t] = (q[:, t, :, :, None] * state).sum(-2)
    return out, state


def gated(r, B, S, H, D=64):
    q, k, v, g, state = attention(r, B, S, H, D, D, (B, S, H, D))
    out, last = stepped(q, k, v, g, state)
    bits = {n: ladder.to_bits(x, "bf16") for n, x in (("Q", q), ("K", k), ("V", v))}
    return {**bits, "G": g, "State": state}, {"O": out * 0.125, "State": last}, {"scale": 0.125}


def chunks(r, B, S, H, P=32, N=64):
    cm, bm, x, _, state = attention(r, B, S, H, N, P, (B, S, H))
    cm, bm, state = cm[:, :, 0], bm[:, :, 0], state[:, :, :N]
    dt, a, ds = (v.astype(np.float32) for v in (r.uniform(0.01, 0.3, (B, S, H)), -r.uniform(0.1, 1, H), r.normal(size=H)))
    shared = lambda x: np.broadcast_to(x[:, :, None], (B, S, H, N))
    out, last = stepped(shared(cm), shared(bm), x * dt[..., None], (dt * a)[..., None], state)
    bits = {n: ladder.to_bits(v, "bf16") for n, v in (("X", x), ("Bm", bm), ("Cm", cm))}
    return ({"X": bits["X"], "Dt": dt, "A": a, "Bm": bits["Bm"], "Cm": bits["Cm"], "Ds": ds, "State": state},
            {"Y": out + x * ds[:, None], "State": last}, {})


# the kernel, how its arguments are made, sizes, parameters, tolerance beside the largest value
CASES = [("selective", selective, (2, 75, 20, 16), {}, 1e-5), ("selective", selective, (1, 64, 8, 16), {"N": 64, "M": 4}, 1e-5),
         ("selective", selective, (1, 33, 5, 4), {"N": 16, "M": 16, "DS": 4}, 1e-5), ("selective", selective, (1, 7, 3, 1), {"DS": 1}, 1e-5),
         ("backward", backward, (50, 3, 16), {}, 1e-5), ("gated", gated, (1, 75, 2), {}, 2e-2), ("gated", gated, (2, 32, 1), {"C": 16}, 2e-2),
         ("chunks", chunks, (1, 150, 2), {}, 2e-2), ("chunks", chunks, (2, 40, 1), {"C": 32}, 2e-2)]


def run(options, folder, label, arch, kernel, defines, inputs, want, sets, tolerance):
    """None, or what is wrong."""
    source, ptx = os.path.join(folder, "k.tile"), os.path.join(folder, "k.ptx")
    defined = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")]
    command = [options.tilec, "run", source, "--kernel", kernel, *defined]
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    if arch != "interpreter":
        made = subprocess.run([options.tilec, source, "-arch", arch, "--kernel", kernel, "--verify", *defined, "-o", ptx], capture_output=True,
                              text=True)
        if made.returncode:
            return f"{label}: {made.stderr}"
        command = [options.tilerun, ptx, "--device", "sim", "--seeds", "2"]
    done = subprocess.run(ladder.with_arrays(command, folder, inputs, sets, want), capture_output=True, text=True)
    if done.returncode:
        return f"{label}: {done.stdout}{done.stderr}"
    for name, x in ladder.loaded(folder, want).items():
        x = ladder.from_bits(x, "bf16" if x.dtype == np.uint16 else "f32")
        off = np.abs(x - want[name]).max() / np.abs(want[name]).max()
        if not off <= tolerance:
            return f"{label}: {name} is off by {off:.2g} of the largest value"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    wrong, n = [], 0
    for number, (kernel, make, sizes, defines, tolerance) in enumerate(CASES):
        inputs, want, sets = make(np.random.default_rng(number), *sizes)
        for arch in ["interpreter", *ARCHES]:
            with tempfile.TemporaryDirectory() as folder:
                n += 1
                found = run(options, folder, f"{kernel} {sizes} {defines} {arch}", arch, kernel, defines, inputs, want, sets, tolerance)
                wrong += [found] if found else []
    print("\n".join(wrong + [f"{n} runs, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
