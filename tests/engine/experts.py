"""experts.py - rows 59 to 63 and 71 to 73 of engine.py: mixtures of experts, quantising."""
import numpy as np

from table import Array, Case, normal, row, rounded, softmax


@row(59, "router: softmax, the best, normalised, counts", "router.tile", 20)
def router(random):
    for n, experts, best in [(70, 64, 4), (3, 16, 2)]:
        x = normal(random, "f32", n, experts)
        old = random.integers(0, 9, experts)
        at = np.argsort(-x.values, axis=1, kind="stable")[:, :best]
        w = np.take_along_axis(softmax(x.values), at, 1)
        yield Case({"X": x, "Count": Array(old, "i32")},
                   {"W": w / w.sum(1, keepdims=True), "Id": at, "Count": old + np.bincount(at.ravel(), minlength=experts)},
                   {"W": "f32", "Id": "i32", "Count": "i32"}, {"E": experts, "KK": best})


@row(60, "tokens in the order of experts, and back", "permute.tile", 30)
def permute(random):
    for n, experts, d in [(150, 10, 72), (3, 4, 8)]:
        experts_of = np.stack([random.permutation(experts)[:2] for _ in range(n)]).ravel()
        count = np.bincount(experts_of, minlength=experts)
        off = np.concatenate([[0], np.cumsum(count)])
        row_of = np.argsort(experts_of, kind="stable")
        place = np.empty(2 * n, int)
        place[row_of] = np.arange(2 * n)
        x, y, w = normal(random, "bf16", n, d), normal(random, "bf16", 2 * n, d), Array(random.uniform(size=2 * n), "f32")
        integers = {name: Array(value, "i32") for name, value in [("Exp", experts_of), ("Off", off), ("Count", count), ("From", row_of), ("Place", place)]}
        yield Case({"Count": integers["Count"]}, {"Off": off}, {"Off": "i32"}, {"E": experts}, {}, "offsets")
        yield Case({"Exp": integers["Exp"], "Off": integers["Off"]}, {"Place": place, "From": row_of}, {"Place": "i32", "From": "i32"}, {}, {},
                   "places")
        yield Case({"X": x, "From": integers["From"]}, {"Y": (x.values[row_of // 2], 0)}, {"Y": "bf16"}, {}, {}, "permute")
        yield Case({"Y": y, "Place": integers["Place"], "W": w}, {"Z": (y.values[place] * w.values[:, None]).reshape(n, 2, d).sum(1)},
                   {"Z": "bf16"}, {}, {}, "unpermute")


def by_experts(random, lengths, k, n):
    off = np.concatenate([[0], np.cumsum(lengths)])
    return off, normal(random, "bf16", off[-1], k), normal(random, "bf16", len(lengths), k, n)


@row(61, "grouped product by offsets; by experts of tiles", "grouped.tile grouped_padded.tile", 22, "wgmma", "mma")
def grouped(random):
    for lengths, k, n in [([70, 0, 33], 136, 72), ([5, 64], 64, 8)]:
        off, x, w = by_experts(random, lengths, k, n)
        y = np.concatenate([x.values[off[e]:off[e + 1]] @ w.values[e] for e in range(len(lengths))])
        yield Case({"X": x, "W": w, "Off": Array(off, "i32")}, {"Y": y}, {"Y": "bf16"})
        expert, x = random.integers(0, 3, 4), normal(random, "bf16", 256, k)
        turned = normal(random, "bf16", 3, n, k)
        y = np.concatenate([x.values[64 * t:64 * t + 64] @ turned.values[e].T for t, e in enumerate(expert)])
        yield Case({"X": x, "W": turned, "Exp": Array(expert, "i32")}, {"Y": y}, {"Y": "bf16"}, file="grouped_padded.tile")


@row(62, "fused experts: tokens picked by a list", "fused_moe.tile", 10, "wgmma", "mma")
def fused_moe(random):
    for tokens, tiles, k, n in [(90, 3, 136, 72), (5, 1, 64, 8)]:
        x, w = normal(random, "bf16", tokens, k), normal(random, "bf16", 4, k, n)
        picked, expert = random.integers(0, tokens, 64 * tiles), random.integers(0, 4, tiles)
        picked[60:64] = -1  # padding
        rows = np.where((picked >= 0)[:, None], x.values[np.maximum(picked, 0)], 0)
        y = np.concatenate([rows[64 * t:64 * t + 64] @ w.values[e] for t, e in enumerate(expert)])
        yield Case({"X": x, "W": w, "Tok": Array(picked, "i32"), "Exp": Array(expert, "i32")}, {"Y": y}, {"Y": "bf16"})


@row(63, "gradient of the weights of a grouped product", "grouped_wgrad.tile", 9, "wgmma", "mma")
def wgrad(random):
    for lengths, k, n in [([70, 0, 33], 136, 72), ([5, 64], 64, 8)]:
        off, x, _ = by_experts(random, lengths, k, n)
        dy = normal(random, "bf16", off[-1], n)
        dw = np.stack([x.values[off[e]:off[e + 1]].T @ dy.values[off[e]:off[e + 1]] for e in range(len(lengths))])
        yield Case({"X": x, "dY": dy, "Off": Array(off, "i32")}, {"dW": dw}, {"dW": "f32"})


def undecided(x, s, code):
    """x, with 0 for what lies so near to the middle of two codes of x / s that a quotient's rounding decides."""
    return Array(np.where(code(x.values / s * (1 - 1e-6)) == code(x.values / s * (1 + 1e-6)), x.values, 0), "bf16")


@row(71, "i8 by the greatest of each token", "int8_tokens.tile", 17)
def int8_tokens(random):
    for rows, columns in [(7, 600), (3, 33)]:
        x, whole = normal(random, "bf16", rows, columns), lambda y: rounded(np.rint(y), "f32")
        x = undecided(x, np.abs(x.values).max(1, keepdims=True) / 127, whole)
        wide = x.values.astype(np.float32)
        s = np.maximum(np.abs(wide).max(1), np.float32(1e-10)) / np.float32(127)
        yield Case({"X": x}, {"Y": np.rint(wide / s[:, None]).astype(int), "S": (s, 0)}, {"Y": "i8", "S": "f32"})


@row(72, "e4m3 by the greatest of each 128", "fp8_groups.tile", 30)
def fp8_groups(random):
    for rows, columns in [(11, 1280), (3, 128)]:
        x = normal(random, "bf16", rows, columns)
        most = np.abs(x.values).reshape(rows, -1, 128).max(2)
        x = undecided(x, np.repeat(most, 128, 1) / 448, lambda y: rounded(y, "e4m3"))
        wide = x.values.astype(np.float32).reshape(rows, -1, 128)
        s = np.maximum(np.abs(wide).max(2), np.float32(1e-10)) / np.float32(448)
        y = rounded((wide / s[..., None]).reshape(rows, columns), "e4m3")
        yield Case({"X": x}, {"Y": (y, 0), "S": (s, 0)}, {"Y": "e4m3", "S": "f32"}, {}, {"C": columns})


@row(73, "the greatest of a tensor, and e4m3 by it", "amax.tile", 0)
def amax(random):
    for size in [3000, 7]:
        x = normal(random, "bf16", size)
        most = np.abs(x.values).max()
        x = undecided(x, most / 448, lambda y: rounded(y, "e4m3"))
        yield Case({"X": x, "Amax": Array([0.0], "f32")}, {"Amax": (np.array([most]), 0)}, {"Amax": "f32"}, {}, {}, "amax")
        y = rounded(x.values.astype(np.float32) * (np.float32(448) / np.float32(most)), "e4m3")
        yield Case({"X": x, "Amax": Array([most], "f32")}, {"Y": (y, 0)}, {"Y": "e4m3"}, {}, {}, "quantize")
