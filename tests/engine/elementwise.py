"""elementwise.py - rows 26 to 43 of engine.py: norms, losses, optimisers, samplers, layouts, convolutions."""
import numpy as np

from table import Array, Case, logsumexp, normal, row, sigmoid, softmax


@row(26, "LayerNorm, RMSNorm, forward and backward", "norm.tile", 52)
def norms(random):
    for rows, columns, rms in [(5, 300, False), (9, 70, True), (1, 1, False)]:
        x, dy = normal(random, "bf16", rows, columns), normal(random, "bf16", rows, columns)
        w, b = normal(random, "f32", columns), normal(random, "f32", columns)
        mean = 0 if rms else x.values.mean(1, keepdims=True)
        rstd = 1 / np.sqrt(((x.values - mean) ** 2).mean(1, keepdims=True) + 1e-3)
        xh = (x.values - mean) * rstd
        wg = dy.values * w.values
        dx = wg - xh * (wg * xh).mean(1, keepdims=True) - (0 if rms else wg.mean(1, keepdims=True))
        mean = np.broadcast_to(mean, (rows, 1))[:, 0]
        flag = {"RMS": str(rms).lower()}
        yield Case({"X": x, "W": w, "Bi": b}, {"Y": xh * w.values + (0 if rms else b.values), "Mean": mean, "Rstd": rstd[:, 0]},
                   {"Y": "bf16", "Mean": "f32", "Rstd": "f32"}, flag, {"eps": 1e-3}, "ln_fwd")
        wanted = {"dX": dx * rstd, "dW": (dy.values * xh).sum(0), "dB": 0 * w.values if rms else dy.values.sum(0)}
        yield Case({"X": x, "W": w, "dY": dy, "Mean": Array(mean, "f32"), "Rstd": Array(rstd[:, 0], "f32"),
                    "dW": Array(0 * w.values, "f32"), "dB": Array(0 * w.values, "f32")},
                   wanted, {"dX": "bf16", "dW": "f32", "dB": "f32"}, flag, {}, "ln_bwd")


@row(27, "residual add and RMSNorm, forward and backward", "add_norm.tile", 34)
def add_norms(random):
    for rows, columns in [(5, 600), (6, 33)]:
        x, r, w = (normal(random, "bf16", *s) for s in [(rows, columns), (rows, columns), (columns,)])
        z = Array(x.values + r.values, "bf16")
        rstd = 1 / np.sqrt((z.values**2).mean(1) + 1e-3)
        yield Case({"X": x, "Res": r, "W": w}, {"Res": z.values, "Y": z.values * rstd[:, None] * w.values, "Rstd": rstd},
                   {"Res": "bf16", "Y": "bf16", "Rstd": "f32"}, {}, {"eps": 1e-3}, "add_rms")
        dy, into = normal(random, "bf16", rows, columns), normal(random, "bf16", rows, columns)
        zh, wg = z.values * rstd[:, None], dy.values * w.values
        yield Case({"dY": dy, "Z": z, "W": w, "RstdIn": Array(rstd, "f32"), "dRes": into, "dW": Array(np.zeros(columns), "f32")},
                   {"dRes": into.values + (wg - zh * (wg * zh).mean(1, keepdims=True)) * rstd[:, None], "dW": (dy.values * zh).sum(0)},
                   {"dRes": "bf16", "dW": "f32"}, {}, {}, "add_rms_bwd")


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@row(28, "SwiGLU, GeGLU; SwiGLU backward", "glu.tile", 20)
def glus(random):
    for rows, columns, is_gelu in [(9, 300, True), (3, 17, False)]:
        x, dy = normal(random, "bf16", rows, 2 * columns), normal(random, "bf16", rows, columns)
        a, b = np.split(x.values, 2, axis=1)
        s = sigmoid(a)
        yield Case({"X": x}, {"Y": (gelu(a) if is_gelu else a * s) * b}, {"Y": "bf16"}, {"GELU": str(is_gelu).lower()}, {}, "glu")
        yield Case({"X": x, "dY": dy}, {"dX": np.concatenate([dy.values * b * s * (1 + a * (1 - s)), dy.values * a * s], axis=1)},
                   {"dX": "bf16"}, {}, {}, "swiglu_bwd")


@row(29, "cross-entropy of many classes, forward and backward", "cross_entropy.tile", 22)
def cross_entropy(random):
    for rows, classes in [(5, 1300), (9, 77)]:
        x, y = normal(random, "bf16", rows, classes, size=3), random.integers(0, classes, rows)
        y[1] = -100
        live = (y >= 0)[:, None]
        hot = np.arange(classes)[None, :] == y[:, None]
        loss = np.where(live[:, 0], logsumexp(x.values) - (x.values * hot).sum(1), 0)
        yield Case({"X": x, "Y": Array(y, "i32")}, {"Loss": loss, "dX": np.where(live, (softmax(x.values) - hot) * 0.5, 0)},
                   {"Loss": "f32", "dX": "bf16"}, {}, {"gscale": 0.5})


@row(30, "linear layer and cross-entropy without logits", "linear_cross_entropy.tile", 18, "wgmma", "mma")
def linear_cross_entropy(random):
    for rows, d, classes in [(70, 96, 200), (5, 64, 65)]:
        x, w = normal(random, "bf16", rows, d), normal(random, "bf16", classes, d)
        y, s = random.integers(0, classes, rows), x.values @ w.values.T
        lse = logsumexp(s)
        yield Case({"X": x, "W": w, "Y": Array(y, "i32")}, {"Loss": lse - s[np.arange(rows), y], "Lse": lse}, {"Loss": "f32", "Lse": "f32"})


@row(31, "embedding; its gradient by atomic additions", "embedding.tile", 10)
def embedding(random):
    for rows, words, d in [(70, 30, 300), (3, 5, 33)]:
        ids, w, dy = random.integers(0, words, rows), normal(random, "bf16", words, d), normal(random, "bf16", rows, d)
        dw = np.zeros((words, d))
        np.add.at(dw, ids, dy.values)
        yield Case({"Ids": Array(ids, "i32"), "W": w}, {"Y": (w.values[ids], 0)}, {"Y": "bf16"}, {}, {}, "embed")
        yield Case({"Ids": Array(ids, "i32"), "dY": dy, "dW": Array(0 * dw, "f32")}, {"dW": dw}, {"dW": "f32"}, {}, {}, "embed_bwd")
        yield Case({"Ids": Array(ids, "i32"), "dY": dy, "dW": Array(0 * dw, "bf16")}, {"dW": dw}, {"dW": "bf16"}, {"TW": "bf16"}, {}, "embed_bwd")


@row(32, "argmax of long rows; the k greatest and where", "greatest.tile", 30)
def greatest(random):
    for rows, columns in [(6, 700), (3, 5)]:
        x = Array(np.round(random.normal(size=(rows, columns)) * 20), "f32")  # equal ones
        order = np.argsort(-x.values, axis=1, kind="stable")
        yield Case({"X": x}, {"Val": (x.values.max(1), 0), "Idx": order[:, 0]}, {"Val": "f32", "Idx": "i32"}, {}, {}, "greedy")
        at = order[:, :5]
        yield Case({"X": x}, {"Best": (np.take_along_axis(x.values, at, 1), 0), "At": at}, {"Best": "f32", "At": "i32"}, {"KK": 5}, {},
                   "top_k")


@row(33, "top-p sampling", "top_p.tile", 48)
def top_p(random):
    for rows, words in [(7, 1300), (4, 90)]:
        x = Array(random.normal(size=(rows, words)) * 4, "f32")
        want = random.uniform(0.3, 0.95, rows)
        p = softmax(x.values)
        tokens, kept, u = np.zeros(rows, int), np.zeros(rows), np.zeros(rows)
        for r in range(rows):
            order = np.argsort(-p[r], kind="stable")
            count = np.searchsorted(np.cumsum(p[r][order]), want[r]) + 1
            inside = np.isin(np.arange(words), order[:count])
            sums = np.cumsum(p[r] * inside)
            tokens[r] = random.choice(np.flatnonzero(inside))
            u[r] = (sums[tokens[r]] - 0.5 * p[r][tokens[r]]) / sums[-1]  # the middle of the token's share
            kept[r] = sums[-1]
        yield Case({"X": x, "U": Array(u, "f32"), "P": Array(want, "f32")}, {"Tok": tokens, "Kept": (kept, 1e-4)}, {"Tok": "i32", "Kept": "f32"})


def philox(place, seed):
    """Word 0 of Philox 4x32-10 with the key (seed, 0) and the counter (place, 0, 0, 0)."""
    c = [place.astype(np.uint64)] + [np.zeros(place.shape, np.uint64)] * 3
    k = [seed, 0]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high, low, word = np.uint64(32), np.uint64(0xffffffff), [np.uint64(x) for x in k]
        c = [(b >> high) ^ c[1] ^ word[0], b & low, (a >> high) ^ c[3] ^ word[1], a & low]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c[0]


@row(34, "dropout by Philox", "dropout.tile", 55)
def dropout(random):
    for rows, columns in [(6, 200), (5, 33)]:
        x, seed = normal(random, "bf16", rows, columns), int(random.integers(0, 2**31))
        u = (philox(np.arange(rows * columns).reshape(rows, columns), seed) >> np.uint64(8)) * 2.0**-24
        yield Case({"X": x}, {"Y": np.where(u < np.float32(0.7), softmax(x.values) / 0.7, 0)}, {"Y": "bf16"}, {}, {"seed": seed, "keep": 0.7})


@row(35, "AdamW with parameters in f32 beside; sum of squares", "adam.tile", 21)
def adam(random):
    for size in [1500, 7]:
        g, p, m = normal(random, "bf16", size), normal(random, "f32", size), normal(random, "f32", size)
        v = Array(random.uniform(0, 2, size), "f32")
        n, w = 0.9 * m.values + 0.1 * g.values, 0.99 * v.values + 0.01 * g.values**2
        q = p.values - 0.01 * (n * 1.2 / (np.sqrt(w * 1.5) + 1e-3) + 0.1 * p.values)
        yield Case({"G": g, "P": p, "M1": m, "V1": v}, {"P": q, "PB": q, "M1": n, "V1": w},
                   {"P": "f32", "PB": "bf16", "M1": "f32", "V1": "f32"}, {},
                   {"lr": 0.01, "b1": 0.9, "b2": 0.99, "eps": 1e-3, "wd": 0.1, "c1": 1.2, "c2": 1.5}, "adamw")
        yield Case({"G": g, "Total": Array([0.0], "f32")}, {"Total": np.array([(g.values**2).sum()])}, {"Total": "f32"}, {}, {}, "sumsq")


def shifted(x, i, j):
    """x[b, y + i, x + j, c], zero outside."""
    y = np.zeros_like(x)
    h, w = x.shape[1:3]
    y[:, max(-i, 0):h - max(i, 0), max(-j, 0):w - max(j, 0)] = x[:, max(i, 0):h - max(-i, 0), max(j, 0):w - max(-j, 0)]
    return y


@row(36, "transpose, concatenation, im2col", "transpose.tile im2col.tile", 26)
def layouts(random):
    for rows, columns in [(70, 90), (3, 65)]:
        x = normal(random, "bf16", rows, columns)
        yield Case({"X": x}, {"Y": (x.values.T, 0)}, {"Y": "bf16"})
        y = normal(random, "bf16", rows, 5)
        yield Case({"A": x, "Bx": y}, {"Z": (np.concatenate([x.values, y.values], 1), 0)}, {"Z": "bf16"}, kernel="concat", file="im2col.tile")
    x = normal(random, "bf16", 2, 4, 35, 66)
    patches = np.stack([np.stack([shifted(x.values, i, j) for j in (-1, 0, 1)], 3) for i in (-1, 0, 1)], 3)
    yield Case({"X": x}, {"Y": (patches, 0)}, {"Y": "bf16"}, kernel="im2col", file="im2col.tile")


def convolutions(random):
    for b, h, w, c, o in [(2, 5, 70, 40, 72), (1, 3, 9, 8, 16)]:
        x, f = normal(random, "bf16", b, h, w, c), normal(random, "bf16", 3, 3, c, o)
        y = sum(shifted(x.values, i - 1, j - 1) @ f.values[i, j] for i in range(3) for j in range(3))
        yield Case({"X": x, "F": f}, {"Y": y}, {"Y": "bf16"})


row(37, "2-D convolution by shifted products", "conv2d.tile", 27, "wgmma", "mma")(convolutions)
row(38, "2-D convolution, a patch of pixels as rows", "conv2d_patch.tile", 27, "mma", "mma")(convolutions)


@row(39, "histogram", "histogram.tile", 11)
def histogram(random):
    for size, bins in [(1000, 70), (5, 3)]:
        x, old = random.integers(0, bins, size), random.integers(0, 9, bins)
        yield Case({"X": Array(x, "i32"), "Hist": Array(old, "i32")}, {"Hist": old + np.bincount(x, minlength=bins)}, {"Hist": "i32"})


@row(40, "sort of rows", "sort.tile", 14)
def sort(random):
    for rows, columns in [(6, 101), (5, 128), (3, 1)]:
        x = Array(np.round(random.normal(size=(rows, columns)) * 9), "f32")
        yield Case({"X": x}, {"Y": (np.sort(x.values, 1), 0)}, {"Y": "f32"})


@row(41, "Hadamard transform", "hadamard.tile", 12, "mma", "mma")
def hadamard(random):
    h = np.ones((1, 1))
    for _ in range(6):
        h = np.block([[h, h], [h, -h]])
    for rows in [70, 3]:
        x = normal(random, "bf16", rows, 64)
        yield Case({"X": x}, {"Y": x.values @ h * 0.125}, {"Y": "bf16"})


@row(42, "running sums of rows", "cumsum.tile", 12)
def running(random):
    for rows, columns in [(5, 300), (3, 7)]:
        x = normal(random, "f32", rows, columns)
        yield Case({"X": x}, {"Y": np.cumsum(x.values, 1)}, {"Y": "f32"})


@row(43, "speculative verification by rejection", "verify.tile", 23)
def verify(random):
    for batch, drafts, words in [(9, 4, 256), (3, 3, 64)]:
        pt, pd = (Array(random.dirichlet(np.full(words, 0.3), (batch, n)), "f32") for n in (drafts + 1, drafts))
        draft, u = random.integers(0, words, (batch, drafts)), random.integers(0, 99, (batch, drafts + 1)) / 100
        out, length = np.full((batch, drafts + 1), -1), np.zeros(batch, int)
        pd.values[:, 0], draft[:, 0] = pt.values[:, 0], pt.values[:, 0].argmax(1)  # the first is accepted
        pd = Array(pd.values, "f32")
        for b in range(batch):
            n = 0
            while n < drafts and np.float32(u[b, n]) * pd.values[b, n, draft[b, n]] < pt.values[b, n, draft[b, n]]:
                out[b, n] = draft[b, n]
                n += 1
            w = np.maximum(pt.values[b, n] - (pd.values[b, n] if n < drafts else 0), 0)
            sums = np.cumsum(w)
            out[b, n] = random.choice(np.flatnonzero(w > 1e-4))
            u[b, drafts] = 0
            length[b] = n + 1
            goal = (sums[out[b, n]] - 0.5 * w[out[b, n]]) / sums[-1]
            u[b, drafts] = goal
        yield Case({"PT": pt, "PD": pd, "Draft": Array(draft, "i32"), "U": Array(u, "f32")}, {"Out": out, "Len": length},
                   {"Out": "i32", "Len": "i32"}, {"V": words, "KD": drafts})

