#!/usr/bin/env python3
"""places.py - the examples whose tiles lie where loaded numbers say, in the simulator or interpreted, against float64.

    places.py --tilec T --tilerun R [--part K/N] [--seeds N] [--only WORD]

Packed sequences forward and backward, K and V in pages, products of groups of rows: lengths of 0 and 1, ragged ones and
whole tiles.  What no program may read is NaN: a sequence in the middle of a pack, rows outside of all, rows of pages behind the
last key, pages and entries of the table that are not used.  A result is accepted when its largest error is at most twice that of
the same computation with what a 16-bit program stores rounded to 16 bits, plus 1e-5.
"""
import os
import re
import subprocess
import sys
from collections import namedtuple

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import attention  # noqa: E402
import ladder  # noqa: E402

PLANS = {"sm_80": [[]], "sm_90": [[], ["--plan=none"]], "sm_100": [[]], "tilec": [[]]}

# queries, keys: the lengths of the sequences; poisoned: the one that is NaN; around: rows before the first and behind the last
Varlen = namedtuple("Varlen", "queries keys poisoned around d dv heads kv_heads causal window softcap backward dtype tiles arch flags")
# keys: the lengths; spare: unused entries of each row of the table
Paged = namedtuple("Paged", "keys page spare d dv rows kv_heads group padded splits causal window dtype arch flags")
Grouped = namedtuple("Grouped", "groups poisoned around k n dtype tiles arch flags")


def example(name):
    return os.path.join(ladder.ROOT, "examples", name + ".tile")


def cases():
    out = []

    def varlen(queries, keys=None, poisoned=None, around=(0, 0), d=64, dv=None, heads=1, kv_heads=1, causal=False, window=0,
               softcap=0, backward=True, dtype="bf16", tiles=(64, 64), arch="sm_80", flags=()):
        out.append(Varlen(tuple(queries), tuple(keys or queries), poisoned, around, d, dv or d, heads, kv_heads, causal, window,
                          softcap, backward, dtype, tiles, arch, tuple(flags)))

    def paged(keys, page, spare=1, d=64, dv=None, rows=1, kv_heads=1, group=4, padded=None, splits=2, causal=True, window=0,
              dtype="bf16", arch="sm_80", flags=()):
        out.append(Paged(tuple(keys), page, spare, d, dv or d, rows, kv_heads, group, padded or group, splits, causal, window,
                         dtype, arch, tuple(flags)))

    def grouped(groups, poisoned=None, around=(0, 0), k=96, n=72, dtype="bf16", tiles=(128, 64, 32), arch="sm_80", flags=()):
        out.append(Grouped(tuple(groups), poisoned, around, k, n, dtype, tiles, arch, tuple(flags)))

    for arch, ways in PLANS.items():
        for flags in ways:
            on = dict(arch=arch, flags=flags)
            varlen([1, 0, 70, 64, 3], around=(2, 5), backward=arch != "tilec", **on)
            varlen([30, 64, 5, 0], [100, 1, 0, 7], heads=2, causal=True, **on)
            varlen([65, 40, 150], poisoned=1, causal=True, backward=False, **on)
            paged([1, 70, 200], 64, **on)
            paged([33, 0, 31], 32, rows=3, kv_heads=2, group=2, **on)
            paged([300], 128, d=128, group=8, splits=3, window=90, **on)
            grouped([1, 0, 70, 64, 3], around=(2, 5), **on)
            grouped([100, 30, 65], poisoned=1, k=64, n=64, **on)
    varlen([130], d=128, window=40, causal=True, around=(1, 0), arch="sm_90")
    varlen([90, 20], [120, 33], softcap=2.0, dtype="f16")
    varlen([200, 77], causal=True, tiles=(128, 32), poisoned=1, arch="sm_90")
    varlen([50, 129], dv=128, arch="sm_100", causal=True)
    for flags in (["--plan=consumers=1,stages=2"], ["--plan=consumers=2,stages=2"]):  # tcgen05
        varlen([200, 300, 0, 90], [330, 200, 7, 90], arch="sm_100", causal=True, heads=2, tiles=(128, 64), backward=False, flags=flags)
    varlen([129, 520, 1], d=128, arch="sm_100", around=(2, 5), tiles=(128, 128), backward=False, flags=["--plan=consumers=2,stages=2"])
    for page in [1, 2, 8, 16, 48, 256]:
        paged([2 * page + 1, page, 5], page, splits=1, d=64)
    paged([70, 9], 16, d=128, rows=9, group=3, padded=4, splits=2, arch="sm_90", causal=False, dtype="f16")
    paged([300, 129, 0], 256, d=128, splits=3, arch="sm_90")
    grouped([129, 1, 1, 40], tiles=(128, 64, 64), k=130, n=136, dtype="f16", arch="sm_90")
    grouped([70, 0, 200, 128], tiles=(128, 128, 64), k=136, n=264, around=(3, 1), arch="sm_90")
    grouped([129, 1, 1, 40], tiles=(128, 64, 64), k=130, n=136, dtype="f16", arch="sm_100")
    grouped([70, 0, 200, 128], tiles=(128, 128, 64), k=136, n=264, around=(3, 1), arch="sm_100")
    grouped([40, 64, 33], tiles=(64, 64, 32))
    for tiles in [(256, 128, 64), (384, 64, 64), (512, 128, 32)]:  # programs have half of these rows
        grouped([70, 0, 200, 300], tiles=tiles, k=72, n=136, around=(3, 1), arch="sm_90")
    for arch in ["sm_80", "sm_90"]:  # of the first three groups none comes late
        grouped([70, 30, 129, 3, 0, 64, 128, 20, 65, 1, 200], tiles=(128, 128, 64), k=72, n=136, arch=arch)
    # the reduce roles of two blocks add up what both would add to dQ: of one sequence, one of them without keys, NaN beside it
    pairs = dict(tiles=(128, 128), arch="sm_100", flags=["--plan=consumers=1,stages=2,cluster=2", "-Wno-plan"])
    varlen([300, 130, 5, 260], [100, 1, 0, 400], heads=2, causal=True, **pairs)
    varlen([300, 400, 260], poisoned=1, causal=True, window=100, **pairs)
    return out


# ---- running -----------------------------------------------------------------------------------


class Runner:
    def __init__(self, options, case, folder):
        self.options, self.case, self.folder, self.ptx = options, case, folder, {}

    def source(self, name, known):
        """The example, with `inout` for the outputs that are known before: what is not written shows."""
        with open(example(name)) as file:
            text = file.read()
        for tensor in known:
            text = re.sub(rf"\b{tensor}:( +)out\b", rf"{tensor}:\1inout", text)
        path = os.path.join(self.folder, "-".join([name, *known]) + ".tile")
        with open(path, "w") as file:
            file.write(text)
        return path

    def __call__(self, source, kernel, defines, inputs, outputs, sets):
        """The outputs of one kernel, which begin as what `inputs` says if they stand there, too."""
        options, case = self.options, self.case
        path = self.source(source, [name for name in outputs if name in inputs])
        words = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")]
        if case.arch == "tilec":
            command = [options.tilec, "run", path, "--kernel", kernel, *words]
        else:
            key = (path, *words)
            if key not in self.ptx:
                self.ptx[key] = os.path.join(self.folder, f"{source}-{len(self.ptx)}.ptx")
                attention.call([options.tilec, path, "-arch", case.arch, "--verify", *words, "-Wno-plan", "-o",
                                self.ptx[key], *case.flags])
            command = [options.tilerun, self.ptx[key], "--entry", kernel, "--device", "sim", "--seeds", str(options.seeds)]
        command = ladder.with_arrays(command, self.folder, inputs, sets, outputs)
        done = subprocess.run(command, capture_output=True, text=True)
        said = done.stderr + done.stdout
        if done.returncode != 0 or "differs between seeds" in said:
            raise attention.Wrong(" ".join(command) + "\n" + said)
        return ladder.loaded(self.folder, outputs)


def judge(name, found, exact, plain):
    infinite = np.isinf(exact)
    if not np.array_equal(found[infinite], exact[infinite]):
        raise attention.Wrong(f"{name} is not infinite where it should be")
    with np.errstate(invalid="ignore"):
        error = np.where(infinite, 0, np.abs(found - exact)).max(initial=0)
        allowed = 2 * np.where(infinite, 0, np.abs(plain - exact)).max(initial=0) + 1e-5
    if not error <= allowed:  # NaN fails
        raise attention.Wrong(f"{name}: error {error:.3g}, allowed {allowed:.3g}")


# ---- packed sequences --------------------------------------------------------------------------


SIDE = {"Q": "q", "dO": "q", "O": "q", "dQ": "q", "L": "q", "K": "k", "V": "k", "dK": "k", "dV": "k"}


def one_sequence(case, rows, keys, arrays, scale, exact):
    if rows == 0 or keys == 0:
        q, k, v, _ = arrays
        return {"O": np.zeros((rows, case.heads, case.dv)), "L": np.full((case.heads, rows), -np.inf), "dQ": 0 * q, "dK": 0 * k,
                "dV": 0 * v}
    whole = attention.make(rows, keys, case.dtype, case.d, case.dv, case.heads, case.kv_heads, case.causal, case.window,
                           softcap=case.softcap)
    return attention.reference(whole, *arrays, scale, exact)


def run_varlen(case, call):
    random = np.random.default_rng(5)
    draw = lambda *size: ladder.rounded(random.standard_normal(size), case.dtype)
    starts = {"q": np.cumsum([case.around[0], *case.queries]), "k": np.cumsum([case.around[0], *case.keys])}
    rows, keys = starts["q"][-1] + case.around[1], starts["k"][-1] + case.around[1]
    have = {"Q": draw(rows, case.heads, case.d), "K": draw(keys, case.kv_heads, case.d),
            "V": draw(keys, case.kv_heads, case.dv), "dO": draw(rows, case.heads, case.dv)}
    for name, x in have.items():
        of = starts[SIDE[name]]
        x[:of[0]] = x[of[-1]:] = np.nan
        if case.poisoned is not None:
            x[of[case.poisoned]:of[case.poisoned + 1]] = np.nan
    scale = float(np.float32(case.d ** -0.5))
    bits = {name: ladder.to_bits(x, case.dtype) for name, x in have.items()}
    for of in "qk":
        bits[f"starts_{of}"] = starts[of].astype(np.int32)
    options = {"CAUSAL": str(case.causal).lower(), "WINDOW": case.window, "SOFTCAP": str(bool(case.softcap)).lower()}
    defines = {"T": case.dtype, "D": case.d, "DV": case.dv}
    tiles = dict(zip("MN", case.tiles))
    sets = {"scale": scale, "softcap": case.softcap}
    pick = lambda *names: {name: bits[name] for name in names}
    before = lambda shape: ladder.to_bits(np.full(shape, 7.0), case.dtype)
    bits["O"], bits["L"] = before((rows, case.heads, case.dv)), np.full((case.heads, rows), 7, np.float32)
    bits.update(call("attention_varlen", "attention_varlen", {**defines, **options, **tiles},
                     pick("Q", "K", "V", "starts_q", "starts_k", "O", "L"), ["O", "L"],
                     {**sets, "longest": max(case.queries) + 3}))
    out = {name: bits[name] for name in ("O", "L")}
    if case.backward:
        out.update(run_backward(case, call, bits, (rows, keys), defines, {**options, **tiles}, sets))
    judge_sequences(case, out, have, starts, scale)


def run_backward(case, call, bits, shape, defines, options, sets):
    (rows, keys), out = shape, {}
    pick = lambda *names: {name: bits[name] for name in names}
    source = "attention_varlen_bwd"
    room = {"R": rows + 4 * (len(case.queries) + 1)}
    bits.update(call(source, source + "_delta", defines, pick("O", "dO", "L", "starts_q"), ["delta", "L2"],
                     {**room, "longest": max(case.queries) + 1}))
    bits["dQ_sum"] = np.zeros((rows, case.heads, case.d), np.float32)
    before = lambda shape: ladder.to_bits(np.full(shape, 7.0), case.dtype)
    bits["dK"], bits["dV"] = before((keys, case.kv_heads, case.d)), before((keys, case.kv_heads, case.dv))
    out.update(call(source, source, {**defines, **options},
                    pick("Q", "K", "V", "dO", "L2", "delta", "starts_q", "starts_k", "dQ_sum", "dK", "dV"),
                    ["dQ_sum", "dK", "dV"], {**sets, "longest": max(case.keys)}))
    out.update(call(source, source + "_convert", {"T": case.dtype, "D": case.d}, {"dQ_sum": out.pop("dQ_sum")}, ["dQ"],
                    {"scale": sets["scale"]}))
    return out


def judge_sequences(case, out, have, starts, scale):
    for name, x in out.items():
        values = ladder.from_bits(x, "f32" if name == "L" else case.dtype)
        values = values.T if name == "L" else values  # rows first
        of = starts[SIDE[name]]
        outside = np.concatenate([values[:of[0]], values[of[-1]:]])
        if np.any(outside != (0 if name == "dQ" else 7)):
            raise attention.Wrong(f"{name} is written outside of all sequences")
        found, exact, plain = [], [], []
        for b, (n, m) in enumerate(zip(case.queries, case.keys)):
            if b == case.poisoned:
                continue
            part = {a: have[a][starts[SIDE[a]][b]:starts[SIDE[a]][b + 1]] for a in have}
            arrays = [part[a] for a in ("Q", "K", "V", "dO")]
            for into, e in [(exact, True), (plain, False)]:
                result = one_sequence(case, n, m, arrays, scale, e)[name]
                into.append(result.T.ravel() if name == "L" else result.ravel())
            found.append(values[of[b]:of[b + 1]].ravel())
        judge(name, *(np.concatenate(x) for x in (found, exact, plain)))


# ---- pages -------------------------------------------------------------------------------------


def run_paged(case, call):
    random = np.random.default_rng(6)
    draw = lambda *size: ladder.rounded(random.standard_normal(size), case.dtype)
    heads, batch = case.kv_heads * case.group, len(case.keys)
    counts = [-(-n // case.page) for n in case.keys]
    entries = max(counts) + case.spare
    order = random.permutation(sum(counts) + 3)  # of more pages than there are in use
    table = np.full((batch, entries), 1 << 20, np.int32)
    k = np.full((len(order), case.page, case.kv_heads, case.d), np.nan)
    v = np.full((len(order), case.page, case.kv_heads, case.dv), np.nan)
    q, sequences, at = draw(batch, case.rows, heads, case.d), [], 0
    for b, n in enumerate(case.keys):
        one = draw(n, case.kv_heads, case.d), draw(n, case.kv_heads, case.dv)
        sequences.append(one)
        for i in range(counts[b]):
            table[b, i] = order[at]
            at += 1
            for pool, x in zip((k, v), one):
                rows = x[i * case.page:(i + 1) * case.page]
                pool[table[b, i], :len(rows)] = rows
    scale = float(np.float32(case.d ** -0.5))
    options = {"T": case.dtype, "D": case.d, "DV": case.dv, "G": case.group}
    bits = {n: ladder.to_bits(x, case.dtype) for n, x in [("Q", q), ("K", k), ("V", v)]}
    parts = call("attention_paged", "attention_paged",
                 {**options, "GP": case.padded, "PS": case.page, "CAUSAL": str(case.causal).lower(), "WINDOW": case.window},
                 {**bits, "table": table, "lengths": np.array(case.keys, np.int32)}, ["O_part", "L_part"],
                 {"scale": scale, "X": case.splits})
    found = call("attention_decode", "attention_decode_combine", options, parts, ["O", "L"], {"Hq": heads})
    for name in "OL":
        values = ladder.from_bits(found[name], "f32" if name == "L" else case.dtype)
        exact, plain = [], []
        for b, (n, (kb, vb)) in enumerate(zip(case.keys, sequences)):
            whole = Varlen((case.rows,), (n,), None, (0, 0), case.d, case.dv, heads, case.kv_heads, case.causal, case.window, 0,
                           False, case.dtype, None, None, None)
            for into, e in [(exact, True), (plain, False)]:
                into.append(one_sequence(whole, case.rows, n, (q[b], kb, vb, np.zeros((case.rows, heads, case.dv))), scale,
                                         e)[name])
        judge(name, values, np.stack(exact), np.stack(plain))


# ---- groups of rows ----------------------------------------------------------------------------


def run_grouped(case, call):
    random = np.random.default_rng(7)
    draw = lambda *size: ladder.rounded(random.standard_normal(size), case.dtype)
    offsets = np.cumsum([case.around[0], *case.groups]).astype(np.int32)
    rows = int(offsets[-1]) + case.around[1]
    a, b = draw(rows, case.k), draw(len(case.groups), case.k, case.n)
    a[:offsets[0]] = a[offsets[-1]:] = np.nan
    if case.poisoned is not None:
        a[offsets[case.poisoned]:offsets[case.poisoned + 1]] = b[case.poisoned] = np.nan
    places = -(-rows // case.tiles[0]) + len(case.groups) + 2
    defines = dict(zip(("TM", "TN", "TK"), case.tiles))
    tables = call("grouped_gemm", "grouped_gemm_tiles", {**defines, "T": case.dtype}, {"offsets": offsets}, ["row", "end", "expert"],
                  {"M": rows, "X": places})
    before = ladder.to_bits(np.full((rows, case.n), 7.0), case.dtype)
    found = call("grouped_gemm", "grouped_gemm", {**defines, "T": case.dtype},
                 {"A": ladder.to_bits(a, case.dtype), "B": ladder.to_bits(b, case.dtype), **tables,
                  "C": before}, ["C"], {})["C"]
    values = ladder.from_bits(found, case.dtype)
    for e in range(len(case.groups)):
        part = slice(offsets[e], offsets[e + 1])
        exact = a[part] @ b[e]
        if e != case.poisoned:
            judge(f"group {e}", values[part], exact, ladder.rounded(exact, case.dtype))
    if np.any(np.concatenate([values[:offsets[0]], values[offsets[-1]:]]) != 7):
        raise attention.Wrong("C is written outside of all groups")


RUN = {"Varlen": run_varlen, "Paged": run_paged, "Grouped": run_grouped}


def name_of(case):
    return " ".join([type(case).__name__] + [f"{k}={v}" for k, v in case._asdict().items() if v not in (False, (), None)])


def run(options, case, folder):
    RUN[type(case).__name__](case, Runner(options, case, folder))


def main():
    parser = attention.arguments()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    return attention.run_cases(options, [case for case in cases() if options.only in name_of(case)], run, name_of)


if __name__ == "__main__":
    sys.exit(main())
