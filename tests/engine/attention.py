"""attention.py - rows 1 to 25 of engine.py: attention, its masks, its caches, its gradients, rotary embeddings."""
import numpy as np

from table import Array, Case, logsumexp, normal, row, rounded, softmax


def scores(q, k, scale):
    """q [B, Sq, H, D] by k [B, Sk, Hk, D]: [B, H, Sq, Sk]."""
    k = np.repeat(k, q.shape[2] // k.shape[2], axis=2)
    return np.einsum("bqhd,bkhd->bhqk", q, k) * scale


def attended(s, v, sink=None):
    """O [B, Sq, H, D] and L [B, H, Sq]; rows that see nothing are 0 and -inf.  A sink [H] is one more score."""
    v = np.repeat(v, s.shape[1] // v.shape[2], axis=2)
    if sink is not None:
        s = np.concatenate([s, np.broadcast_to(sink[None, :, None, None], (*s.shape[:3], 1))], axis=3)
    lse = logsumexp(s)
    p = np.exp(s - np.where(np.isinf(lse), 0, lse)[..., None])[..., :v.shape[1]]
    return np.einsum("bhqk,bkhd->bqhd", p, v), lse


def causal(sq, sk):
    return np.arange(sk)[None, :] <= np.arange(sq)[:, None] + sk - sq


def hidden(s, seen):
    return np.where(seen, s, -np.inf)


def drawn(random, b, sq, sk, h, hk, d=64, dtype="bf16", kv=None):
    q = normal(random, dtype, b, sq, h, d)
    return {"Q": q, **{name: normal(random, kv or dtype, b, sk, hk, d) for name in "KV"}}


def outputs(given, s, sink=None, lse=True):
    o, l = attended(s, given["V"].values, sink)
    return ({"O": o, "L": l}, {"O": "bf16", "L": "f32"}) if lse else ({"O": o}, {"O": "bf16"})


SCALE = {"scale": 0.125}
SHAPES = [(1, 70, 150, 4, 2), (2, 33, 65, 2, 1)]  # B, Sq, Sk, H, Hk


@row(1, "FP8 attention, all products of e4m3", "fp8_attention.tile", 0, "mma", "mma")
def fp8_attention(random):
    for b, sq, sk, h in [(1, 70, 150, 2), (2, 33, 165, 1)]:
        given = drawn(random, b, sq, sk, h, h, dtype="e4m3")
        factors = {name: Array(random.uniform(0.5, 1, (b, h)), "f32") for name in ("QS", "KS", "VS")}
        unit = (factors["QS"].values * factors["KS"].values)[..., None, None]
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125) * unit, causal(sq, sk))
        o, _ = attended(s, given["V"].values)
        # weights have four bits: each is off by a 16th at most
        yield Case({**given, **factors}, {"O": (o * factors["VS"].values[:, None, :, None], 1 / 16)}, {"O": "bf16"}, {}, SCALE)


@row(2, "FP8 cache of keys and values, products of bf16", "fp8_cache.tile", 27, "mma", "mma")
def fp8_cache(random):
    for b, sq, sk, h, _ in SHAPES:
        given = drawn(random, b, sq, sk, h, h, kv="e4m3")
        ks, vs = (Array(random.uniform(0.5, 1, h), "f32") for _ in range(2))
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125) * ks.values[:, None, None], causal(sq, sk))
        o, _ = attended(s, given["V"].values)
        yield Case({**given, "KS": ks, "VS": vs}, {"O": o * vs.values[:, None]}, {"O": "bf16"}, {}, SCALE)


@row(3, "attention with sinks; the gradient of the sinks", "sinks.tile", 31, "wgmma", "tcgen05")
def sinks(random):
    for (b, sq, sk, h, hk), window in zip(SHAPES, [0, 20]):
        given, sink = drawn(random, b, sq, sk, h, hk), normal(random, "f32", h)
        seen = causal(sq, sk)
        if window:
            seen &= np.arange(sk)[None, :] > np.arange(sq)[:, None] + sk - sq - window
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125), seen)
        wanted, types = outputs(given, s, sink.values)
        yield Case({**given, "Sink": sink}, wanted, types, {"WINDOW": window}, SCALE, "attn_sink")
        o, g = Array(wanted["O"], "bf16"), normal(random, "bf16", b, sq, h, 64)
        p = np.exp(sink.values[None, :, None] - wanted["L"])
        delta = (o.values * g.values).sum(3).transpose(0, 2, 1)
        yield Case({"O": o, "dO": g, "Sink": sink, "L": Array(wanted["L"], "f32"), "dSink": Array(np.zeros(h), "f32")},
                   {"dSink": -(p * delta).sum((0, 2))}, {"dSink": "f32"}, {}, {}, "sink_bwd")


@row(4, "ALiBi with slopes from memory", "alibi.tile", 20, "wgmma", "tcgen05")
def alibi(random):
    for b, sq, sk, h, _ in SHAPES:
        given, slopes = drawn(random, b, sq, sk, h, h), Array(random.uniform(0.05, 0.5, h), "f32")
        away = np.abs(np.arange(sk)[None, :] - np.arange(sq)[:, None] - (sk - sq))
        s = scores(given["Q"].values, given["K"].values, 0.125) - slopes.values[:, None, None] * away
        yield Case({**given, "Slopes": slopes}, *outputs(given, hidden(s, causal(sq, sk)), lse=False), {}, SCALE)


@row(5, "a bias, or a mask of bools, from memory", "bias.tile", 38, "wgmma", "tcgen05")
def biases(random):
    for (b, sq, sk, h, _), align in [(SHAPES[0], 2), (SHAPES[1], 1), ((1, 70, 160, 4, 4), 16)]:
        given, bias = drawn(random, b, sq, sk, h, h), normal(random, "bf16", sq, sk)
        s = scores(given["Q"].values, given["K"].values, 0.125)
        yield Case({**given, "Bias": bias}, *outputs(given, s + bias.values), {"ALIGN": max(align, 2)}, SCALE, "attn_bias")
        seen = random.random((sq, sk)) < 0.5
        seen[3] = False
        yield Case({**given, "Mask": Array(seen, "bool")}, *outputs(given, hidden(s, seen)), {"ALIGN": align}, SCALE, "attn_bool")


def gradients(given, s, g, scale):
    """dQ, dK, dV and the gradient of the scores, of attention whose heads have keys of their own."""
    q, k, v = (given[name].values for name in "QKV")
    o, lse = attended(s, v)
    o = Array(o, "bf16")
    delta = (o.values * g.values).sum(3).transpose(0, 2, 1)
    p = np.exp(s - lse[..., None])
    ds = p * (np.einsum("bqhd,bkhd->bhqk", g.values, v) - delta[..., None])
    inputs = {**given, "dO": g, "L": Array(lse, "f32"), "delta": Array(delta, "f32"), "dQ": Array(np.zeros(q.shape), "f32")}
    return inputs, {"dQ": np.einsum("bhqk,bkhd->bqhd", ds, k) * scale, "dK": np.einsum("bhqk,bqhd->bkhd", ds, q) * scale,
                    "dV": np.einsum("bhqk,bqhd->bkhd", p, g.values)}, ds, o


GRADIENTS = {"dQ": "f32", "dK": "bf16", "dV": "bf16"}


def loosely(wanted):
    """What is a product of numbers that were rounded to bf16."""
    return {name: (value, 2e-2) for name, value in wanted.items()}


@row(6, "a bias's gradient by atomic additions", "bias_bwd.tile", 35, "wgmma", "mma")
def bias_bwd(random):
    for b, sq, sk, h, align in [(1, 70, 150, 2, 2), (2, 33, 65, 1, 2), (1, 170, 200, 2, 16)]:
        given, bias = drawn(random, b, sq, sk, h, h), normal(random, "bf16", h, sq, sk)
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125) + bias.values, causal(sq, sk))
        inputs, wanted, ds, o = gradients(given, s, normal(random, "bf16", b, sq, h, 64), 0.125)
        inputs |= {"Bias": bias, "dBias": Array(np.zeros((h, sq, sk)), "f32")}
        yield Case(inputs, loosely({**wanted, "dBias": ds.sum(0)}), {**GRADIENTS, "dBias": "f32"}, {"ALIGN": align}, SCALE, "bwd")
        yield Case({"O": o, "dO": inputs["dO"]}, {"delta": inputs["delta"].values}, {"delta": "f32"}, {}, {}, "delta")


def bucket(rel, buckets=32, most=128):
    d, near = np.abs(rel), buckets // 4
    far = near + (np.log(np.maximum(d, 1) / near) / np.log(most / near) * (buckets // 2 - near) + 1e-5).astype(int)
    return np.where(rel > 0, buckets // 2, 0) + np.where(d < near, d, np.minimum(far, buckets // 2 - 1))


@row(7, "T5's bias of relative places", "t5_bias.tile", 28, "wgmma", "tcgen05")
def t5(random):
    for b, sq, sk, h, _ in SHAPES:
        given, table = drawn(random, b, sq, sk, h, h), Array(random.uniform(-1, 1, (h, 32)).round(1), "f32")
        # neighbours of a bucket's end, which rounding may move, have its bias
        table.values[:, [14, 30]] = table.values[:, [13, 29]]
        at = bucket(np.arange(sk)[None, :] - np.arange(sq)[:, None])
        s = scores(given["Q"].values, given["K"].values, 0.125) + table.values[:, at]
        yield Case({**given, "Tab": Array(table.values, "f32")}, *outputs(given, s, lse=False), {}, SCALE)


@row(8, "masks of prefixes, chunks, documents, windows, pictures", "masks.tile", 32, "wgmma", "tcgen05")
def masks(random):
    for kind, (b, n, h, hk) in enumerate([(1, 70, 2, 1), (2, 130, 2, 2), (1, 150, 2, 1), (1, 190, 1, 1), (1, 144, 2, 1)]):
        given, width = drawn(random, b, n, n, h, hk), 12 if kind == 4 else 16
        doc, pre = np.sort(random.integers(0, 3, (b, n))), random.integers(1, 50, b)
        i, j = np.arange(n)[:, None], np.arange(n)[None, :]
        p = pre[:, None, None]
        seen = [(j <= i) | (j < p), (j <= i) & (j >= i // width * width) & (p > 0),
                (doc[:, :, None] == doc[:, None, :]) & ((j <= i) | (j < p)), (j <= i) & ((j > i - width) | (j < 4)) & (p > 0),
                (abs(i // width - j // width) <= 2) & (abs(i % width - j % width) <= 2) & (p > 0)][kind]
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125), seen[:, None])
        yield Case({**given, "Doc": Array(doc, "i32"), "Pre": Array(pre, "i32")}, *outputs(given, s, lse=False), {"KIND": kind, "W": width}, SCALE)


@row(9, "tree mask of speculative decoding", "tree.tile", 32, "wgmma", "tcgen05")
def tree(random):
    for b, sq, sk, h, hk in [(2, 32, 150, 4, 2), (1, 7, 65, 2, 1)]:
        given = drawn(random, b, sq, sk, h, hk)
        bits = random.random((b, sq, sq)) < 0.3
        bits[:, range(sq), range(sq)] = True
        words = (bits.astype(np.uint64) << np.arange(sq, dtype=np.uint64)).sum(2)
        seen = np.concatenate([np.ones((b, sq, sk - sq), bool), bits], axis=2)
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125), seen[:, None])
        yield Case({**given, "Tree": Array(words, "u32")}, *outputs(given, s), {}, SCALE)


def documents_of(random, b, n):
    doc = np.sort(random.integers(0, 4, (b, n)), axis=1)
    return Array(doc, "i32"), (doc[:, :, None] == doc[:, None, :])[:, None] & causal(n, n)


@row(10, "documents, with tiles of others left out", "documents.tile", 23, "mma", "mma")
def documents(random):
    for b, n, h in [(2, 150, 2), (1, 33, 1)]:
        given = drawn(random, b, n, n, h, h)
        doc, seen = documents_of(random, b, n)
        yield Case({**given, "Doc": doc}, *outputs(given, hidden(scores(given["Q"].values, given["K"].values, 0.125), seen)), {}, SCALE)


@row(11, "documents, backward", "documents_bwd.tile", 27, "wgmma", "mma")
def documents_bwd(random):
    for b, n, h in [(1, 150, 2), (2, 33, 1)]:
        given = drawn(random, b, n, n, h, h)
        doc, seen = documents_of(random, b, n)
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125), seen)
        inputs, wanted, _, _ = gradients(given, s, normal(random, "bf16", b, n, h, 64), 0.125)
        yield Case({**inputs, "Doc": doc}, loosely(wanted), GRADIENTS, {}, SCALE)


@row(12, "a window by the bounds of the loop", "window.tile", 21, "mma", "mma")
def window(random):
    for b, n, h, width in [(1, 300, 2, 100), (2, 65, 1, 7)]:
        given = drawn(random, b, n, n, h, h)
        i, j = np.arange(n)[:, None], np.arange(n)[None, :]
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125), (j <= i) & (j > i - width))
        yield Case(given, *outputs(given, s, lse=False), {"W": width}, SCALE)


def lists(random, shape, tiles):
    """For each place of a shape some of the tiles up to its own."""
    idx, count = np.zeros((*shape, tiles), int), np.zeros(shape, int)
    for at in np.ndindex(*shape):
        own = at[-1] * tiles // shape[-1]
        some = [t for t in range(own) if random.random() < 0.5] + [own]
        idx[at][:len(some)], count[at] = some, len(some)
    return idx, count


@row(13, "lists of tiles of keys for tiles of queries", "block_lists.tile", 22, "mma", "mma")
def block_lists(random):
    for b, n, h, hk in [(2, 200, 2, 1), (1, 90, 1, 1)]:
        given, tiles = drawn(random, b, n, n, h, hk), -(-n // 64)
        idx, count = lists(random, (b, h, tiles), tiles)
        seen = np.zeros((b, h, n, n), bool)
        for at in np.ndindex(b, h, tiles):
            for t in idx[at][:count[at]]:
                seen[at[0], at[1], at[2] * 64:at[2] * 64 + 64, t * 64:t * 64 + 64] = True
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125), seen & causal(n, n))
        yield Case({**given, "Idx": Array(idx, "i32"), "Cnt": Array(count, "i32")}, *outputs(given, s, lse=False), {}, SCALE)


@row(14, "NSA: lists of tiles for each query, a group's heads as rows", "nsa_tokens.tile", 21, "mma", "mma")
def nsa_tokens(random):
    for n, hk, g in [(70, 2, 16), (33, 1, 16)]:
        given, tiles = drawn(random, 1, n, n, hk * g, hk), -(-n // 16)
        idx, count = lists(random, (hk, n), tiles)
        seen = np.zeros((hk, n, n), bool)
        for at in np.ndindex(hk, n):
            for t in idx[at][:count[at]]:
                seen[at[0], at[1], t * 16:t * 16 + 16] = True
        s = hidden(scores(given["Q"].values, given["K"].values, 0.125), np.repeat(seen, g, axis=0) & causal(n, n))
        o, _ = attended(s, given["V"].values)
        yield Case({**{name: Array(x.values[0], "bf16") for name, x in given.items()}, "Idx": Array(idx, "i32"), "Cnt": Array(count, "i32")},
                   {"O": o[0]}, {"O": "bf16"}, {"N": 16, "G": g}, SCALE)


@row(15, "DSA: the best keys of a query, gathered", "dsa.tile", 26, "mma", "mma")
def dsa(random):
    for n, rows, h, keys, dv, dr in [(5, 200, 16, 70, 512, 64), (3, 90, 20, 33, 128, 64)]:
        q, c = normal(random, "bf16", n, h, dv + dr), normal(random, "bf16", rows, dv + dr)
        idx = np.stack([random.permutation(rows)[:keys] for _ in range(n)])
        k = c.values[idx]
        p = softmax(np.einsum("nhd,nkd->nhk", q.values, k) * 0.04)
        yield Case({"Q": q, "C": c, "Idx": Array(idx, "i32")}, {"O": p @ k[..., :dv]}, {"O": "bf16"}, {"DV": dv, "DR": dr, "M": 16, "N": 32}, {"scale": 0.04})


@row(16, "MLA, decoding: 576 columns of keys, 512 of them values", "mla.tile", 22, "mma", "mma")
def mla(random):
    for b, h, sk in [(2, 16, 150), (1, 20, 33)]:
        q, c = normal(random, "bf16", b, h, 576), normal(random, "bf16", b, sk, 576)
        s = np.einsum("bhd,bkd->bhk", q.values, c.values) * 0.04
        yield Case({"Q": q, "C": c}, {"O": softmax(s) @ c.values[..., :512], "L": logsumexp(s)}, {"O": "bf16", "L": "f32"}, {}, {"scale": 0.04})


@row(17, "MLA, prefill, 192 and 128 columns; backward", "attention.tile attention_bwd.tile", 0, "wgmma", "tcgen05")
def mla_prefill(random):
    sizes = {"D": 192, "DV": 128, "CAUSAL": "true"}
    for b, sq, sk, h in [(1, 70, 150, 2), (1, 33, 65, 1)]:
        given = drawn(random, b, sq, sk, h, h, 192)
        given["V"] = normal(random, "bf16", b, sk, h, 128)
        s = hidden(scores(given["Q"].values, given["K"].values, 0.07), causal(sq, sk))
        yield Case(given, *outputs(given, s), sizes, {"scale": 0.07, "softcap": 1}, "attention")
        inputs, wanted, _, _ = gradients(given, s, normal(random, "bf16", b, sq, h, 128), 0.07)
        inputs |= {"L2": Array(inputs.pop("L").values * np.log2(np.e), "f32"), "dQ_sum": inputs.pop("dQ")}
        wanted["dQ_sum"] = wanted.pop("dQ") / 0.07
        yield Case(inputs, loosely(wanted), {**GRADIENTS, "dQ_sum": "f32"}, sizes, {"scale": 0.07, "softcap": 1}, "attention_bwd",
                   "attention_bwd.tile")


def pages_of(random, lengths, page, hk, d=64):
    """K and V in pages, a table of them, and the rows of each sequence."""
    most = max(-(-n // page) for n in lengths)
    count = sum(-(-n // page) for n in lengths)
    k, v = (normal(random, "bf16", count + 2, page, hk, d) for _ in range(2))
    order = random.permutation(count + 2)
    table, at, rows = np.zeros((len(lengths), most), int), 0, []
    for b, n in enumerate(lengths):
        mine = order[at:at - (-n // page)]
        at += len(mine)
        table[b, :len(mine)] = mine
        rows.append([x.values[mine].reshape(-1, hk, d)[:n] for x in (k, v)])
    return {"KP": k, "VP": v, "Table": Array(table, "i32"), "Len": Array(lengths, "i32")}, rows


@row(18, "pages of keys, lengths of sequences", "paged.tile paged_small.tile", 52, "wgmma", "mma")
def paged(random):
    for sq, lengths, hk, page in [(3, [150, 65, 3], 2, 64), (1, [17], 1, 16)]:
        given, rows = pages_of(random, lengths, page, hk)
        q = normal(random, "bf16", len(lengths), sq, hk * 4, 64)
        both = [attended(hidden(scores(q.values[b:b + 1], k[None], 0.125), causal(sq, len(k))), v[None]) for b, (k, v) in enumerate(rows)]
        wanted, types = {name: np.concatenate([x[i] for x in both]) for i, name in enumerate("OL")}, {"O": "bf16", "L": "f32"}
        yield Case({**given, "Q": q}, wanted, types, {"P": page}, SCALE)
        rows_of = {name: Array(given[name].values.reshape(-1, hk, 64), "bf16") for name in ("KP", "VP")}
        yield Case({**given, **rows_of, "Q": q}, wanted, types, {"P": page}, SCALE, file="paged_small.tile")


@row(19, "pages of keys, queries one sequence behind the other", "ragged_paged.tile", 30, "wgmma", "tcgen05")
def ragged_paged(random):
    for queries, lengths, h, hk in [([70, 1, 0, 33], [150, 65, 10, 40], 2, 1), ([1, 1], [17, 64], 2, 2)]:
        given, rows = pages_of(random, lengths, 64, hk)
        starts = np.concatenate([[0], np.cumsum(queries)])
        q = normal(random, "bf16", starts[-1], h, 64)
        o, lse = np.zeros(q.values.shape), np.zeros((h, starts[-1]))
        for b, (k, v) in enumerate(rows):
            m = slice(starts[b], starts[b + 1])
            got = attended(hidden(scores(q.values[None, m], k[None], 0.125), causal(queries[b], len(k))), v[None])
            o[m], lse[:, m] = got[0][0], got[1][0]
        yield Case({**given, "Q": q, "Start": Array(starts, "i32")}, {"O": o, "L": lse}, {"O": "bf16", "L": "f32"},
                   {"M": 128} if h > hk else {}, {**SCALE, "longest": max(queries)})


@row(20, "sequences one behind the other", "attention_varlen.tile", 47, "wgmma", "tcgen05")
def varlen(random):
    for queries, keys, h, hk in [([70, 0, 33], [150, 10, 33], 2, 1), ([5], [64], 1, 1)]:
        starts, firsts = (np.concatenate([[0], np.cumsum(n)]) for n in (queries, keys))
        q = normal(random, "bf16", starts[-1], h, 128)
        k, v = (normal(random, "bf16", firsts[-1], hk, 128) for _ in range(2))
        o, lse = np.zeros(q.values.shape), np.zeros((h, starts[-1]))
        for b in range(len(queries)):
            m, n = slice(starts[b], starts[b + 1]), slice(firsts[b], firsts[b + 1])
            got = attended(hidden(scores(q.values[None, m], k.values[None, n], 0.09), causal(queries[b], keys[b])), v.values[None, n])
            o[m], lse[:, m] = got[0][0], got[1][0]
        yield Case({"Q": q, "K": k, "V": v, "starts_q": Array(starts, "i32"), "starts_k": Array(firsts, "i32")}, {"O": o, "L": lse},
                   {"O": "bf16", "L": "f32"}, {"CAUSAL": "true"}, {"longest": max(queries), "scale": 0.09, "softcap": 1})


@row(21, "keys shared by programs, and their parts put together", "split_kv.tile", 40, "wgmma", "mma")
def split_kv(random):
    for b, sq, sk, hk, g, parts, lengths in [(2, 2, 300, 2, 8, 3, [300, 70]), (2, 1, 65, 1, 4, 5, [33, 0])]:
        given = drawn(random, b, sq, sk, hk * g, hk, 128)
        seen = np.arange(sk)[None, None, None, :] < np.array(lengths)[:, None, None, None]
        o, _ = attended(hidden(scores(given["Q"].values, given["K"].values, 0.09), seen), given["V"].values)
        yield Case({**given, "Len": Array(lengths, "i32")}, {"O": o}, {"O": "bf16"}, {"split.G": g, "split.N": 64}, {"scale": 0.09, "X": parts})


@row(22, "attention over two parts of the keys, merged", "attention_merge.tile", 19)
def merge(random):
    for b, n, h in [(2, 70, 3), (1, 3, 1)]:
        p, o = normal(random, "bf16", b, n, h, 128), normal(random, "f32", b, n, h, 128)
        more, lse = normal(random, "f32", b, h, n, size=3), normal(random, "f32", b, h, n, size=3)
        both = np.logaddexp(lse.values, more.values)
        w, x = (np.exp(l.values - both).transpose(0, 2, 1)[..., None] for l in (lse, more))
        yield Case({"P": p, "LP": more, "O": o, "L": lse}, {"O": o.values * w + p.values * x, "L": both}, {"O": "f32", "L": "f32"})


def turned(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def angles(random, places, d=64):
    a = random.uniform(0, 6, (places, d // 2))
    return Array(np.cos(a), "f32"), Array(np.sin(a), "f32")


@row(23, "keys, turned, and values to slots of a cache", "kv_append.tile", 17)
def kv_append(random):
    for n, pages, h in [(37, 5, 2), (3, 1, 1)]:
        k, v, old = normal(random, "bf16", n, h, 64), normal(random, "bf16", n, h, 64), normal(random, "bf16", pages * 16, h, 64)
        cos, sin = angles(random, 50)
        slot, at = random.permutation(pages * 16)[:n], random.integers(0, 50, n)
        slot[1] = -1
        kc, vc, kept = old.values.copy(), old.values.copy(), slot >= 0
        kc[slot[kept]] = turned(k.values, cos.values[at][:, None], sin.values[at][:, None])[kept]
        vc[slot[kept]] = v.values[kept]
        yield Case({"K": k, "V": v, "Cos": cos, "Sin": sin, "Pos": Array(at, "i32"), "Slot": Array(slot, "i32"), "KC": old, "VC": old},
                   {"KC": kc, "VC": (vc, 0)}, {"KC": "bf16", "VC": "bf16"}, {}, {"NP": pages})


@row(24, "rotary embedding of halves and of pairs, forward and backward", "rope.tile", 23)
def rope(random):
    for (b, n, h), sign in zip([(2, 70, 2), (1, 3, 1)], (1, -1)):
        x, (cos, sin) = normal(random, "bf16", b, n, h, 64), angles(random, n)
        c, s = cos.values[:, None], sign * sin.values[:, None]
        yield Case({"X": x, "Cos": cos, "Sin": sin}, {"Y": turned(x.values, c, s)}, {"Y": "bf16"}, {"SIGN": sign}, {}, "rope_half")
        pairs = Array(x.values.reshape(b, n, h, 32, 2), "bf16")
        a, z = pairs.values[..., 0], pairs.values[..., 1]
        yield Case({"XP": pairs, "Cos": cos, "Sin": sin}, {"YP": np.stack([a * c - z * s, z * c + a * s], axis=-1)}, {"YP": "bf16"},
                   {"SIGN": sign}, {}, "rope_pairs")


@row(25, "rotary embedding in attention", "rope_attention.tile", 29, "wgmma", "mma")
def rope_attention(random):
    for b, sq, sk, h, hk in SHAPES:
        given, (cos, sin) = drawn(random, b, sq, sk, h, hk), angles(random, sk)
        q = rounded(turned(given["Q"].values, cos.values[sk - sq:, None], sin.values[sk - sq:, None]))
        s = hidden(scores(q, given["K"].values, 0.125), causal(sq, sk))
        yield Case({**given, "Cos": cos, "Sin": sin}, *outputs(given, s, lse=False), {}, SCALE)
