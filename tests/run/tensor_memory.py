#!/usr/bin/env python3
"""tensor_memory.py - products whose results lie in tensor memory (sm_100): right, without faults, and proved.

    tensor_memory.py --tilec T --tilerun R [--ptxas P]

Loops that add products up, with operands that lie either way in memory, several sums, sums that begin with a tile, ragged
sizes and loops without an iteration, run in the simulator under eight seeds (--seeds) against NumPy in float64.  ptxas takes each
without spills.  Of what the roles do to each other every operation is left out once: the verifier or check-roles refuses
what comes of it.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import ladder
from attention import Wrong, call

HEAD = """
kernel product<T: type = bf16, TM: int = auto, TN: int = auto, TK: int = auto>
(   A: in T[%s] align(16), B: in T[%s] align(16), C: inout f32[M, N] align(16))
{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = %s;
"""
LOOP = """    for k in tiles(K, TK) { acc = mma(load %s, load %s, acc); }
    store C[m, n] = acc;
}
"""
TWO = """
kernel product<T: type = bf16, TM: int = 128, TN: int = 128, TK: int = 64>
(   A: in T[M, K] align(16), B: in T[K, N] align(16), G: in T[K, N] align(16), C: out T[M, N] align(16))
{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var up = zeros<f32>[TM, TN];
    var gate = zeros<f32>[TM, TN];
    for k in tiles(K, TK) {
        let a = load A[m, k];
        up = mma(a, load B[k, n], up);
        gate = mma(a, load G[k, n], gate);
    }
    store C[m, n] = (up * max(gate, 0.0)) as T;
}
"""

# A vector with an element for each row: a row lies in one thread, which stores 16 bytes of it at a time.
BY_ROWS = """
kernel product<T: type = bf16, U: type = bf16, TM: int = 128, TN: int = 128, TK: int = 64>
(   A: in T[M, K] align(16), B: in T[K, N] align(16), R: in f32[M], C: out U[M, N] align(16))
{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = zeros<f32>[TM, TN];
    for k in tiles(K, TK) { acc = mma(load A[m, k], load B[k, n], acc); }
    let r = load R[m];
    store C[m, n] = (acc * (r * r + 1.0)[:, None]) as U;
}
"""


def program(a_turned, b_turned, begins):
    begin = "load C[m, n]" if begins else "zeros<f32>[TM, TN]"
    return (HEAD % ("K, M" if a_turned else "M, K", "N, K" if b_turned else "K, N", begin) +
            LOOP % ("A[k, m].T" if a_turned else "A[m, k]", "B[n, k].T" if b_turned else "B[k, n]"))


def compiled(options, folder, text, defines, *flags):
    source, ptx = os.path.join(folder, "product.tile"), os.path.join(folder, "product.ptx")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    call([options.tilec, source, "-arch", "sm_100", "--verify", *flags, "-o", ptx,
          *(f"-D{name}={value}" for name, value in defines.items())])
    with open(ptx, encoding="utf-8") as file:
        if "tcgen05.mma" not in file.read():
            raise Wrong("there is no tcgen05.mma")
    if options.ptxas:
        said = call([options.ptxas, "-arch=sm_100a", "-v", ptx, "-o", os.path.join(folder, "product.cubin")])
        if "0 bytes spill stores, 0 bytes spill loads" not in said:
            raise Wrong("ptxas spills:\n" + said)
    return ptx


def run(options, folder, ptx, inputs, outputs, dtype, slack):
    """inputs: name: (values, dtype); outputs: name: (wanted, begins with, dtype)."""
    arrays = {name: np.ascontiguousarray(ladder.to_bits(x, kind)) for name, (x, kind) in inputs.items()}
    command = ladder.with_arrays([options.tilerun, ptx, "--device", "sim", "--seeds", str(options.seeds)], folder, arrays, {},
                                 outputs)
    call(command)
    for name, (want, kind) in outputs.items():
        have = ladder.from_bits(ladder.loaded(folder, [name])[name], kind)
        error = np.abs(have - want).max()
        allowed = slack * ladder.EPSILON[dtype] * max(1, np.abs(want).max())
        if have.shape != want.shape or not error <= allowed:
            raise Wrong(f"{name}: error {error:.3g}, allowed {allowed:.3g}")


def sums(options, folder):
    """Every way that operands may lie, and what a sum may begin with."""
    random = np.random.default_rng(17)
    cases = [((0, 0, 0), "bf16", {}, (300, 136, 200)), ((1, 0, 0), "f16", {}, (136, 264, 72)),
             ((0, 1, 0), "bf16", {"TN": 208, "TK": 48, "TM": 128}, (129, 424, 104)),
             ((1, 1, 0), "bf16", {"TN": 128, "TK": 128, "TM": 128}, (264, 136, 136)),
             ((0, 1, 1), "f16", {"TN": 16, "TK": 16, "TM": 128}, (128, 40, 64)),
             ((1, 1, 1), "bf16", {"TN": 96, "TK": 64, "TM": 128}, (520, 520, 8))]
    for (a_turned, b_turned, begins), dtype, defines, (m, n, k) in cases:
        a, b = (ladder.rounded(random.standard_normal(shape), dtype) for shape in ((m, k), (k, n)))
        c = ladder.rounded(random.standard_normal((m, n)), "f32")
        ptx = compiled(options, folder, program(a_turned, b_turned, begins), {"T": dtype, **defines})
        run(options, folder, ptx, {"A": (a.T if a_turned else a, dtype), "B": (b.T if b_turned else b, dtype),
                                   "C": (c, "f32")},
            {"C": (a @ b + begins * c, "f32")}, "f32", 64)
        yield f"sum {m}x{n}x{k} {dtype} {a_turned}{b_turned}{begins}"


def row_tiles(options, folder):
    """Several tiles of rows in a block, the last of which may have none."""
    random = np.random.default_rng(20)
    for consumers, tn, (m, n, k) in ((2, 256, (300, 520, 200)), (2, 96, (129, 200, 64)), (3, 160, (520, 168, 136)),
                                     (4, 128, (640, 136, 200))):
        a, b = (ladder.rounded(random.standard_normal(shape), "bf16") for shape in ((m, k), (k, n)))
        ptx = compiled(options, folder, program(0, 0, 0), {"TM": 128, "TN": tn, "TK": 64},
                       f"--plan=consumers={consumers},stages=2")
        run(options, folder, ptx, {"A": (a, "bf16"), "B": (b, "bf16"), "C": (np.zeros((m, n)), "f32")},
            {"C": (a @ b, "f32")}, "f32", 64)
        yield f"{consumers} tiles of rows {m}x{n}x{k}"


def two_sums(options, folder):
    random = np.random.default_rng(18)
    a, b, g = (ladder.rounded(random.standard_normal(shape), "bf16") for shape in ((200, 136), (136, 264), (136, 264)))
    ptx = compiled(options, folder, TWO, {})
    run(options, folder, ptx, {"A": (a, "bf16"), "B": (b, "bf16"), "G": (g, "bf16")},
        {"C": ((a @ b) * np.maximum(a @ g, 0), "bf16")}, "bf16", 2)
    yield "two sums"


def by_rows(options, folder):
    random = np.random.default_rng(20)
    a, b = (ladder.rounded(random.standard_normal(shape), "bf16") for shape in ((200, 136), (136, 264)))
    r = random.standard_normal(200).astype(np.float32)
    for kind, width, slack in (("bf16", 128, 2), ("f32", 64, 64), ("f32", 256, 64), ("bf16", 192, 2)):
        ptx = compiled(options, folder, BY_ROWS, {"U": kind, "TN": width})
        with open(ptx, encoding="utf-8") as file:
            if "tcgen05.ld.sync.aligned.32x32b" not in file.read():
                raise Wrong("rows do not lie in threads")
        run(options, folder, ptx, {"A": (a, "bf16"), "B": (b, "bf16"), "R": (r, "f32")},
            {"C": ((a @ b) * (r * r + 1.0)[:, None], kind)}, kind, slack)
        yield f"by rows {kind} {width}"


NO_ITERATION = """
kernel product<T: type = bf16>(A: in T[M, K] align(16), B: in T[K, N] align(16), C: out f32[M, N] align(16), n_k: i32)
{
    grid n in tiles(N, 128), m in tiles(M, 128);
    var acc = zeros<f32>[128, 128];
    for i in 0..n_k {
        let k = tiles(K, 64)[i];
        acc = mma(load A[m, k], load B[k, n], acc);
    }
    store C[m, n] = acc;
}
"""


def no_iteration(options, folder, make=None, seed=19):
    """A loop that a scalar ends before its first iteration leaves zeros."""
    random = np.random.default_rng(seed)
    a, b = (ladder.rounded(random.standard_normal(shape), "bf16") for shape in ((200, 192), (192, 264)))
    ptx = (make or compiled)(options, folder, NO_ITERATION, {})
    for n_k in (0, 2):
        arrays = {"A": ladder.to_bits(a, "bf16"), "B": ladder.to_bits(b, "bf16")}
        call(ladder.with_arrays([options.tilerun, ptx, "--device", "sim", "--seeds", str(options.seeds)], folder, arrays,
                                {"n_k": n_k}, ["C"]))
        have = ladder.loaded(folder, ["C"])["C"]
        if np.abs(have - a[:, :64 * n_k] @ b[:64 * n_k]).max() > 1e-3:
            raise Wrong(f"{n_k} iterations: wrong")
    yield "no iteration"


def refused(options, folder, changed):
    """Tile IR for sm_100, [(what was changed in it, its lines)]: each is refused."""
    path = os.path.join(folder, "changed.tir")
    for what, change in changed:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(change))
        done = subprocess.run([options.tilec, path, "-arch", "sm_100", "--verify", "-o", os.devnull], capture_output=True,
                              text=True)
        if done.returncode == 0:
            raise Wrong(f"left out, or changed, and nobody saw it: {what}")
        yield f"refused: {what}"


def too_early(lines, at, stop, passed):
    """[(what, lines)]: line `at` in front of the operation behind which it stands, the first that `stop` finds some lines
    back, if that is one that `passed` finds, of the same pipeline."""
    back = at - 1
    while re.search(stop, lines[back]) is None and back > at - 8:
        back -= 1
    if re.search(passed, lines[back]) is None or lines[at].split()[1].rstrip(",") not in lines[back]:
        return []
    return [(f"{at} too early: {lines[at].strip()}", lines[:back] + [lines[at]] + lines[back:at] + lines[at + 1:])]


def without_first_value(lines):
    initial = next(i for i, l in enumerate(lines) if " tmem_write " in l)
    return ("no first value", lines[:initial] + lines[initial + 1:])


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--ptxas")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--seeds", type=int, default=8)
    return parser.parse_args()


def run_part(options, every):
    """Runs --part of [(name, function of options and a folder)]; the exit status."""
    part, parts = map(int, options.part.split("/"))
    passed = failed = 0
    for name, one in every[part - 1::parts]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                one(options, folder)
                passed += 1
            except Wrong as wrong:
                failed += 1
                print(f"{name}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed < 1 else 0


def faults(options, folder):
    """Each operation that roles meet at left out of the tile IR in front of check-roles; and a sum that adds to what is
    there from the start."""
    ladder_gemm = os.path.join(ladder.ROOT, "examples", "gemm.tile")
    text = call([options.tilec, ladder_gemm, "-arch", "sm_100", "--plan=consumers=1,stages=2", "-DTM=128", "-DTN=64",
                 "-DTK=64", "-DBIAS=false", "--dump-ir=order_accesses", "-o", os.devnull])
    lines = text.split("\n")
    changed = []
    for at, line in enumerate(lines):
        if re.match(r" *(producer_acquire|producer_commit|consumer_wait|consumer_release|tma_load) ", line):
            changed.append((line.strip(), lines[:at] + lines[at + 1:]))
        if re.search(r": bool = ne ", line):
            changed.append(("every product adds", lines[:at] + [line.replace("ne", "eq")] + lines[at + 1:]))
            changed.append(("no product adds", lines[:at] + [re.sub(r"= ne .*", "= const 0", line)] + lines[at + 1:]))
        if re.match(r" *tmem_mma ", line):
            changed.append(("a product too late", lines[:at] + [lines[at + 1], line] + lines[at + 2:]))
        if re.search(r"= tmem_read ", line):
            end = next(i for i, l in enumerate(lines) if re.match(r" *consumer_release \$acc", l))
            release = lines[end]
            rest = lines[:end] + lines[end + 1:]
            changed.append(("a sum given back before it is read", rest[:at] + [release] + rest[at:]))
    if len(changed) < 14:
        raise Wrong(f"only {len(changed)} changes")
    yield from refused(options, folder, changed)


def main():
    options = arguments()
    passed = failed = 0
    for part in (sums, row_tiles, two_sums, by_rows, no_iteration, faults):
        with tempfile.TemporaryDirectory() as folder:
            try:
                for _ in part(options, folder):
                    passed += 1
            except Wrong as wrong:
                failed += 1
                print(f"{part.__name__}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
