"""states.py - rows 64 to 70 of engine.py: state spaces, linear attention, delta rules."""
import numpy as np

from table import Array, Case, normal, row, sigmoid


@row(64, "causal convolution of four steps, backward, one step", "conv1d.tile conv1d_bwd.tile", 35)
def conv1d(random):
    for b, s, c in [(2, 70, 72), (1, 3, 5)]:
        x, w, bias = normal(random, "bf16", b, s, c), normal(random, "f32", 4, c), normal(random, "f32", c)
        back = lambda v, n: np.concatenate([np.zeros((b, min(n, s), c)), v[:, :max(s - n, 0)]], 1)
        y = sum(back(x.values, 3 - i) * w.values[i] for i in range(4))
        z = y + bias.values
        yield Case({"X": x, "Wt": w, "Bi": bias}, {"Y": z * sigmoid(z)}, {"Y": "bf16"})
        g = normal(random, "bf16", b, s, c)
        ahead = lambda v, n: np.concatenate([v[:, n:], np.zeros((b, min(n, s), c))], 1)
        dx = sum(ahead(g.values, 3 - i) * w.values[i] for i in range(4))
        dw = np.stack([(g.values * back(x.values, 3 - i)).sum((0, 1)) for i in range(4)])
        zero = lambda *shape: Array(np.zeros(shape), "f32")
        yield Case({"X": x, "Wt": w, "dY": g, "dW": zero(4, c), "dB": zero(c)}, {"dX": dx, "dW": dw, "dB": g.values.sum((0, 1))},
                   {"dX": "bf16", "dW": "f32", "dB": "f32"}, {}, {}, "conv1d_bwd", "conv1d_bwd.tile")
        one, state = normal(random, "bf16", b, c), normal(random, "bf16", b, 3, c)
        t = one.values * w.values[3] + (state.values * w.values[:3]).sum(1)
        yield Case({"X1": one, "Wt": w, "State": state}, {"Y": t * sigmoid(t), "State": (np.concatenate([state.values[:, 1:], one.values[:, None]], 1), 0)},
                   {"Y": "bf16", "State": "bf16"}, {}, {}, "conv1d_step", "conv1d_bwd.tile")


@row(65, "Mamba-2 in chunks", "ssd.tile", 28, "mma", "mma")
def ssd(random):
    for b, s, h, p, n in [(2, 100, 2, 64, 128), (1, 5, 1, 32, 64)]:
        x, dt = normal(random, "bf16", b, s, h, p), Array(random.uniform(0.01, 0.2, (b, s, h)), "f32")
        a, skip = Array(-random.uniform(0.1, 1, h), "f32"), normal(random, "f32", h)
        bm, cm, state = normal(random, "bf16", b, s, n), normal(random, "bf16", b, s, n), normal(random, "f32", b, h, n, p, size=0.3)
        y, now = np.zeros(x.values.shape), state.values.copy()
        for t in range(s):
            decay = np.exp(dt.values[:, t] * a.values)[..., None, None]
            now = decay * now + np.einsum("bn,bhp->bhnp", bm.values[:, t], x.values[:, t] * dt.values[:, t, :, None])
            y[:, t] = np.einsum("bn,bhnp->bhp", cm.values[:, t], now) + x.values[:, t] * skip.values[:, None]
        yield Case({"X": x, "Dt": dt, "A": a, "Bm": bm, "Cm": cm, "Ds": skip, "State": state}, {"Y": y, "State": (now, 2e-2)},
                   {"Y": "bf16", "State": "f32"}, {"P": p, "N": n})


def linear(q, k, v, gate, state):
    """o_t = q_t S_t, S_t = gate_t S_(t - 1) + k_t^T v_t, of [B, S, H, D]; a gate for each row of S."""
    o = np.zeros((*q.shape[:3], v.shape[3]))
    for t in range(q.shape[1]):
        state = gate[:, t, :, :, None] * state + np.einsum("bhk,bhv->bhkv", k[:, t], v[:, t])
        o[:, t] = np.einsum("bhk,bhkv->bhv", q[:, t], state)
    return o, state


def gated(random, channels, chunk):
    for b, s, h in [(2, 100, 2), (1, 5, 1)]:
        q, k, v = (normal(random, "bf16", b, s, h, 64, size=0.5) for _ in range(3))
        g = Array(-random.uniform(0, 0.2, (b, s, h, 64) if channels else (b, s, h)), "f32")
        state = normal(random, "f32", b, h, 64, 64, size=0.3)
        gate = np.exp(g.values if channels else np.repeat(g.values[..., None], 64, 3))
        o, end = linear(q.values, k.values, v.values, gate, state.values)
        yield Case({"Q": q, "K": k, "V": v, "G": g, "State": state}, {"O": o * 0.5, "State": (end, 2e-2)}, {"O": "bf16", "State": "f32"},
                   {"C": chunk}, {"scale": 0.5}, file="gla_channels.tile" if channels else "gla.tile")


@row(66, "gated linear attention, a gate for each head, or channel", "gla.tile gla_channels.tile", 53, "mma", "mma")
def gla(random):
    yield from gated(random, False, 64)
    yield from gated(random, True, 32)


def delta(q, k, v, beta, state):
    o = np.zeros((*q.shape[:3], v.shape[3]))
    for t in range(q.shape[1]):
        u = (v[:, t] - np.einsum("bhk,bhkv->bhv", k[:, t], state)) * beta[:, t, :, None]
        state = state + np.einsum("bhk,bhv->bhkv", k[:, t], u)
        o[:, t] = np.einsum("bhk,bhkv->bhv", q[:, t], state)
    return o, state


@row(67, "delta rule in chunks", "delta_rule.tile", 26, "mma", "mma", "a trick: a triangular solve by squaring")
def delta_rule(random):
    for b, s, h in [(2, 50, 2), (1, 5, 1)]:
        q, v = normal(random, "bf16", b, s, h, 64), normal(random, "bf16", b, s, h, 64)
        k = random.normal(size=(b, s, h, 64))
        k = Array(k / np.linalg.norm(k, axis=3, keepdims=True), "bf16")
        beta, state = Array(random.uniform(0.1, 1, (b, s, h)), "f32"), normal(random, "f32", b, h, 64, 64, size=0.3)
        o, end = delta(q.values, k.values, v.values, beta.values, state.values)
        yield Case({"Q": q, "K": k, "V": v, "Beta": beta, "State": state}, {"O": o, "State": (end, 2e-2)}, {"O": "bf16", "State": "f32"})


@row(68, "gated delta rule, one token", "gated_delta_step.tile", 13)
def gated_delta_step(random):
    for b, h, slots in [(3, 2, 5), (1, 1, 1)]:
        q, k, v = (normal(random, "bf16", b, h, 64) for _ in range(3))
        g, beta = Array(-random.uniform(0, 1, (b, h)), "f32"), Array(random.uniform(0, 1, (b, h)), "f32")
        slot, state = random.permutation(slots)[:b], normal(random, "f32", slots, h, 64, 64)
        new = state.values.copy()
        s = new[slot] * np.exp(g.values)[..., None, None]
        u = (v.values - np.einsum("bhk,bhkv->bhv", k.values, s)) * beta.values[..., None]
        new[slot] = s + np.einsum("bhk,bhv->bhkv", k.values, u)
        yield Case({"Q": q, "K": k, "V": v, "G": g, "Beta": beta, "Slot": Array(slot, "i32"), "State": state},
                   {"State": new, "O": np.einsum("bhk,bhkv->bhv", q.values, new[slot])}, {"State": "f32", "O": "bf16"})


@row(69, "linear attention, backward, chunks in reverse", "linear_attention_bwd.tile", 38, "mma", "mma")
def linear_bwd(random):
    for b, s, h in [(2, 100, 2), (1, 5, 1)]:
        q, k, v, g = (normal(random, "bf16", b, s, h, 64, size=0.5) for _ in range(4))
        seen = np.tril(np.ones((s, s)))
        product = lambda x, y: np.einsum("bihd,bjhd->bhij", x.values, y.values)
        over = lambda a, x, how: np.einsum(how, a * seen, x.values)
        a, p = product(g, v), product(q, k)
        yield Case({"K": k, "V": v, "dO": g}, {"dQ": over(a, k, "bhij,bjhd->bihd")}, {"dQ": "bf16"}, {}, {}, "lin_dq")
        yield Case({"Q": q, "K": k, "V": v, "dO": g}, {"dK": over(a, q, "bhij,bihd->bjhd"), "dV": over(p, g, "bhij,bihd->bjhd")},
                   {"dK": "bf16", "dV": "bf16"}, {}, {}, "lin_dkv")


@row(70, "Mamba-1: selective scan", "selective_scan.tile", 12)
def selective_scan(random):
    for b, s, d, n in [(2, 70, 12, 16), (1, 5, 3, 8)]:
        x, dt, a = normal(random, "f32", b, s, d), Array(random.uniform(0.01, 0.5, (b, s, d)), "f32"), Array(-random.uniform(0.1, 2, (d, n)), "f32")
        bm, cm = normal(random, "f32", b, s, n), normal(random, "f32", b, s, n)
        y, h = np.zeros((b, s, d)), 0
        for t in range(s):
            step = dt.values[:, t, :, None]
            h = np.exp(step * a.values) * h + step * x.values[:, t, :, None] * bm.values[:, t, None]
            y[:, t] = (h * cm.values[:, t, None]).sum(2)
        yield Case({"X": x, "Dt": dt, "A": a, "Bm": bm, "Cm": cm}, {"Y": y}, {"Y": "f32"}, {"DS": n})
