#!/usr/bin/env python3
"""quantised_few.py - examples/quantised/gptq_few.tile, awq_few.tile, int8_few.tile, mxfp4_few.tile,
few.tile and tiles.tile in the interpreter and the simulator, against float64.

    quantised_few.py --tilec T --tilerun R

Random words are weights of 4 bits with zero points; columns that fill no tile, groups of one tile and of two, one part of K and several.
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402
from packed_codes import NUMBERS, pack  # noqa: E402

FOLDER = os.path.join(ladder.ROOT, "examples", "quantised")
ONE = 0x3F800000


def cases():
    """kernels, arch, defines, rows, columns, rows of X W's sum, parts"""
    for at, arch in enumerate(("interpreter", "sm_90", "sm_80", "sm_100")):
        t = ("bf16", "f16")[at % 2]
        yield ["gptq_row"], arch, {"T": t, "TN": 64}, 1, 136, 512, 1 + at % 2
        yield ["apart", "gptq_few"], arch, {"T": t, "TM": 8 * (1 + at % 2), "TN": 64, "G": 256}, 3 + 7 * (at % 2), 136, 1024, 2
        yield ["awq_few"], arch, {"T": t, "TM": 8 * (1 + at % 2), "TW": 64 if at < 2 else 16, "G": 128 >> at % 2}, 6 + 5 * (at % 2), 544, 256, 1 + at % 2
        yield ["apart", "int8_words"], arch, {"T": t, "TM": 8 * (1 + at % 2), "TN": 64}, 7 + 3 * (at % 2), 136, 512, 1 + at % 2
        yield ["apart", "mxfp4_words"], arch, {"T": t, "TM": 8 * (1 + at % 2), "TN": 64}, 7 + 3 * (at % 2), 136, 512, 1 + at % 2
        for at_kernel, kernel in enumerate(("int8_few", "fp8_few", "mxfp4_few")):
            yield [kernel], arch, {"T": t, "TM": (8, 16)[at_kernel % 2]}, 11, 136, 272 if at_kernel < 2 else 288, 0
        for each, sums in enumerate(("true", "false")):
            tile = {"T": t, "TM": (16, 64)[each], "TK": 64 << at % 2, "G": 128, "SUMS": sums}
            yield ["gptq_tiles"], arch, {**tile, "MORE": each}, (11, 70)[each], 160, 512, 0
            yield [("gptq_parts", "awq_parts")[(at + each) % 2]], arch, {**tile, "SUMS": "true", "MORE": 0, "TM": 16}, 11, 160, 512, 2
            yield ["awq_tiles"], arch, tile, (11, 70)[each], 160, 512, 0
        yield ["mxfp4_tiles"], arch, {"T": t, "TM": 32}, 35, 136, 640, 0
        yield ["fp8_tiles"], arch, {"T": t, "TM": 32}, 35, 136, 272, 0
        yield ["mxfp4_parts"], arch, {"T": t, "TM": 8}, 5, 136, 768, 3
        yield ["fp8_parts"], arch, {"T": t, "SUMS": "true"}, 5, 136, 512, 2
        yield ["int8_parts"], arch, {"T": t}, 5, 136, 512, 4
    yield ["fp8_few"], "sm_90", {"T": "bf16", "TM": 64}, 70, 72, 256, 0
    yield ["gptq_row"], "sm_90", {"T": "bf16", "TN": 256, "MORE": 0}, 2, 264, 256, 2
    yield ["gptq"], "sm_90", {"T": "bf16", "TW": 2, "MORE": 1}, 0, 65536, 16, 0


def executed(options, folder, file, arch, kernel, defines, given, sets, output):
    """What a kernel writes, or what it says."""
    with open(os.path.join(FOLDER, file), encoding="utf-8") as source:
        text = source.read()
    head = text[text.index(f"kernel {kernel}<"):].partition(">")[0]
    words = [word for name, value in defines.items() if f"{name}:" in head for word in ("-D", f"{name}={value}")] + ["--kernel", kernel]
    command, ptx = [options.tilec, "run", os.path.join(FOLDER, file), *words], os.path.join(folder, kernel + ".ptx")
    if arch != "interpreter":
        done = subprocess.run([options.tilec, os.path.join(FOLDER, file), "-arch", arch, "--verify", "-Wno-plan", "-o", ptx, *words], capture_output=True, text=True)
        if done.returncode:
            return ladder.failure(done)
        command = [options.tilerun, ptx, "--device", "sim", "--seeds", "2"]
    done = subprocess.run(ladder.with_arrays(command, folder, given, sets, [output]), capture_output=True, text=True)
    return ladder.failure(done) if done.returncode else ladder.loaded(folder, [output])[output]


def in_words(options, folder, case, r):
    """Y of kernels that compute with words, the exact one, and that of absolute values."""
    kernels, arch, defines, m, n, k, parts = case
    dtype, group, more = defines["T"], int(defines.get("G", 128)), int(defines.get("MORE", 1))
    x, s = ladder.rounded(r.normal(size=(m, k)), dtype), ladder.rounded(r.uniform(0.25, 2, (k // group, n)), "f16")
    q, z = r.integers(0, 16, (k, n)).astype(np.uint32), r.integers(0, 16, (k // group, n)).astype(np.uint8)
    words = (q.reshape(k // 8, 8, n) << (4 * np.arange(8, dtype=np.uint32))[None, :, None]).sum(1, dtype=np.uint32)
    w = (q.astype(float) - ((z + more) & 15).repeat(group, 0)) * s.repeat(group, 0)
    given = {"Q": words.view(np.int32).reshape(parts, -1, n), "Z": pack(z).reshape(parts, -1, n // 2), "S": s.astype(np.float16).reshape(parts, -1, n)}
    bits = np.ascontiguousarray(ladder.to_bits(x, dtype))
    defines = {**defines, "W": k // 8 // parts, "N": n}
    if "apart" in kernels:
        given["R"] = executed(options, folder, "gptq_few.tile", arch, "apart", defines, {"X": bits.reshape(m, parts, -1, 8)}, {}, "R")
        if isinstance(given["R"], str):
            return given["R"], 0, 1
    else:
        given["X"] = bits.view(np.int32).reshape(m, parts, -1, 4)
    a = executed(options, folder, "gptq_few.tile", arch, kernels[-1], defines, given, {"one": ONE}, "A")
    y = a if isinstance(a, str) else executed(options, folder, "gptq_few.tile", arch, "sum_parts", {"TY": "f32"}, {"A": a}, {}, "Y")
    return y, x @ w, np.abs(x) @ np.abs(w)


def by_columns(options, folder, case, r):
    """Of AWQ's words of eight columns, too."""
    _, arch, defines, m, n, k, parts = case
    dtype, group = defines["T"], defines["G"]
    x, s = ladder.rounded(r.normal(size=(m, k)), dtype), ladder.rounded(r.uniform(0.25, 2, (k // group, n)), "f16")
    q, z = r.integers(0, 16, (k, n)).astype(np.uint32), r.integers(0, 16, (k // group, n)).astype(np.uint32)
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # the column of each nibble
    words = lambda codes: (codes.reshape(-1, n // 8, 8)[:, :, order] << 4 * np.arange(8, dtype=np.uint32)).sum(2, dtype=np.uint32).view(np.int32)  # noqa: E731
    given = {"Q": words(q).reshape(parts, -1, n // 8), "Z": words(z).reshape(parts, -1, n // 8), "S": s.astype(np.float16).reshape(parts, -1, n // 8, 8),
             "X": ladder.to_bits(x, dtype).reshape(m, parts, -1)}
    defines = {**defines, "K": k // parts, "W": n // 8}
    a = executed(options, folder, "awq_few.tile", arch, "awq_few", defines, given, {"one": ONE}, "A")
    y = a if isinstance(a, str) else executed(options, folder, "awq_few.tile", arch, "sum_words", {"TY": "f32", "W": n // 8}, {"A": a}, {}, "Y")
    w = (q.astype(float) - z.astype(float).repeat(group, 0)) * s.repeat(group, 0)
    return y, x @ w, np.abs(x) @ np.abs(w)


def along_k(options, folder, case, r):
    """Words of weights that are side by side in a row: int8 and MXFP4."""
    (_, kernel), arch, defines, m, n, k, parts = case
    x = ladder.rounded(r.normal(size=(m, k)), defines["T"])
    if kernel == "int8_words":
        s, q, of_word = r.uniform(0.25, 2, n).astype(np.float32), r.integers(-128, 128, (n, k)).astype(np.int8), 4
        w, first, last, sets = q * s.astype(float)[:, None], {}, ("sum_rows", {"S": s}), {"one": ONE}
    else:
        s, q, of_word = r.integers(120, 131, (n, k // 32)).astype(np.uint8), r.integers(0, 16, (n, k)).astype(np.uint8), 8
        w, first, last, sets = NUMBERS["e2m1"][q] * 2.0 ** (s.astype(float).repeat(32, 1) - 127), {"S": s.reshape(n, parts, -1)}, ("sum_parts", {}), {}
        q = pack(q)
    file, defines = kernel.replace("words", "few.tile"), {**defines, "W": k // of_word // parts, "N": n, "TY": "f32"}
    given = executed(options, folder, file, arch, "apart", defines, {"X": ladder.to_bits(x, defines["T"]).reshape(m, parts, -1, of_word)}, {}, "R")
    for name, inputs, numbers, out in ((kernel, {"Q": q.view(np.int32).reshape(n, parts, -1), **first}, sets, "A"), (*last, {}, "Y")):
        if isinstance(given, str):
            break
        given = executed(options, folder, file, arch, name, defines, {**inputs, ("R" if out == "A" else "A"): given}, numbers, out)
    return given, x @ w.T, np.abs(x) @ np.abs(w.T)


def as_stored(options, folder, case, r):
    kernels, arch, defines, m, n, k, _ = case
    kernel, dtype = kernels[0], defines["T"]
    x = ladder.rounded(r.normal(size=(m, k)), dtype)
    if kernel == "int8_few":
        q, s = r.integers(-128, 128, (n, k)).astype(np.int8), r.uniform(0.25, 2, n).astype(np.float32)
        w = q * s.astype(float)[:, None]
    elif kernel == "fp8_few":
        q, s = r.integers(0, 126, (n, k)).astype(np.uint8), r.uniform(0.25, 2, (-(-n // 128), -(-k // 128))).astype(np.float32)
        w = np.where(q < 8, q / 512, (8 + q % 8) * 2.0 ** (q // 8 - 10.0)) * s.astype(float).repeat(128, 0).repeat(128, 1)[:n, :k]
    else:
        q, s = r.integers(0, 16, (n, k)).astype(np.uint8), r.integers(120, 130, (n, k // 32)).astype(np.uint8)
        w, q = NUMBERS["e2m1"][q] * 2.0 ** (s.astype(float).repeat(32, 1) - 127), pack(q)
    y = executed(options, folder, "few.tile", arch, kernel, {**defines, "TY": "f32"}, {"X": ladder.to_bits(x, dtype), "Q": q, "S": s}, {}, "Y")
    return y, x @ w.T, np.abs(x) @ np.abs(w.T)


def in_tiles(options, folder, case, r):
    """Weights that are rounded to T, or sums that are scaled; in parts of K, too."""
    (kernel,), arch, defines, m, n, k, parts = case
    dtype, group = defines["T"], 128
    x = ladder.rounded(r.normal(size=(m, k)), dtype)
    if kernel.startswith(("gptq", "awq")):
        s = ladder.rounded(r.uniform(0.25, 2, (k // group, n)), "f16")
        q, z = r.integers(0, 16, (k, n)).astype(np.uint32), r.integers(0, 16, (k // group, n)).astype(np.uint32)
        w = ((q.astype(float) - ((z + defines.get("MORE", 0)) & 15).repeat(group, 0)) * s.repeat(group, 0)).T
        places = 4 * np.arange(8, dtype=np.uint32)
        if kernel.startswith("gptq"):
            words = (q.reshape(k // 8, 8, n) << places[None, :, None]).sum(1, dtype=np.uint32)
            zeros = (z.reshape(-1, n // 8, 8) << places).sum(2, dtype=np.uint32)
        else:
            words, zeros = ((codes.reshape(-1, n // 8, 8)[:, :, [0, 2, 4, 6, 1, 3, 5, 7]] << places).sum(2, dtype=np.uint32) for codes in (q, z))
        given = {"Q": words.view(np.int32), "Z": zeros.view(np.int32), "S": s.astype(np.float16)}
    elif kernel.startswith("int8"):
        q, s = r.integers(-128, 128, (n, k)).astype(np.int8), r.uniform(0.25, 2, n).astype(np.float32)
        w, given = q * s.astype(float)[:, None], {"Q": q}
    elif kernel.startswith("mxfp4"):
        q, s = r.integers(0, 16, (n, k)).astype(np.uint8), r.integers(120, 130, (n, k // 32)).astype(np.uint8)
        w, given = NUMBERS["e2m1"][q] * 2.0 ** (s.astype(float).repeat(32, 1) - 127), {"Q": pack(q).view(np.int32), "S": s.view(np.int32)}
    else:
        q, s = r.integers(0, 126, (n, k)).astype(np.uint8), r.uniform(0.25, 2, (-(-n // 128), -(-k // 128))).astype(np.float32)
        w = np.where(q < 8, q / 512, (8 + q % 8) * 2.0 ** (q // 8 - 10.0)).astype(np.float32) * s.repeat(128, 0).repeat(128, 1)[:n, :k]
        given = {"Q": q, "S": s}
    w = w.astype(float) if defines.get("SUMS") == "true" or kernel == "int8_parts" else ladder.rounded(w, dtype).astype(float)
    given["X"], output = ladder.to_bits(x, dtype), "Y"
    if parts:
        along_rows = kernel.startswith(("gptq", "awq"))  # K is the first dimension
        given = {name: a.reshape(parts, -1, a.shape[1]) if along_rows and name != "X" else a.reshape(len(a), parts, -1) for name, a in given.items()}
        output = "A"
    y = executed(options, folder, "tiles.tile", arch, kernel, {**defines, "TY": "f32"}, given, {}, output)
    if parts and not isinstance(y, str):
        last = ("sum_rows", {"S": s}) if kernel == "int8_parts" else ("sum_parts", {})
        y = executed(options, folder, "tiles.tile", arch, last[0], {"TY": "f32"}, {"A": y, **last[1]}, {}, "Y")
    return y, x @ w.T, np.abs(x) @ np.abs(w.T)


def every_scale(options, folder, case, r):
    """Weights by each scale that f16 has, also subnormal, infinite and none: bit by bit, but for what is no number."""
    _, arch, defines, _, n, k, _ = case
    bits, q = np.arange(n, dtype=np.uint16), r.integers(0, 16, (k, n)).astype(np.uint32)
    z = r.integers(0, 16, (1, n)).astype(np.uint8)
    words = (q.reshape(k // 8, 8, n) << (4 * np.arange(8, dtype=np.uint32))[None, :, None]).sum(1, dtype=np.uint32)
    given = {"Q": words.view(np.int32), "Z": pack(z), "S": bits.view(np.float16)[None]}
    w = executed(options, folder, "gptq.tile", arch, "gptq", {**defines, "G": k}, given, {"K": k}, "W")
    if isinstance(w, str):
        return w
    with np.errstate(invalid="ignore"):
        exact = (q.astype(np.float32) - ((z + defines["MORE"]) & 15)) * bits.view(np.float16).astype(np.float32)
    want = exact.view(np.uint32).astype(np.uint64)
    want = (want + 0x7fff + (want >> 16 & 1) >> 16).astype(np.uint16)  # to the nearest, or to even
    off = np.where(np.isnan(exact), w & 0x7fff <= 0x7f80, w != want)
    return f"{off.sum()} weights are others, first by the scale {np.broadcast_to(bits, off.shape)[off][0]:#x}" if off.any() else ""


def judge(options, folder, case):
    os.mkdir(folder)
    if case[0] == ["gptq"]:
        return every_scale(options, folder, case, np.random.default_rng(case[3:6]))
    y, want, size = (in_tiles if case[0][-1].endswith(("_tiles", "_parts")) else by_columns if case[0] == ["awq_few"] else along_k if case[0][-1] in ("int8_words", "mxfp4_words") else in_words if case[-1] else as_stored)(options, folder, case, np.random.default_rng(case[3:6]))
    if isinstance(y, str):
        return y
    off = np.abs(y - want) / size
    return "" if off.max() <= 2.0**-17 else f"an error of {off.max():.2e} of the sum of |x w|"


if __name__ == "__main__":
    sys.exit(ladder.judge_all(judge, cases()))
