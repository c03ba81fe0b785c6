#!/usr/bin/env python3
"""tensor_memory_pairs.py - products of the two blocks of a pair (sm_100, cluster=2): right, without faults, and proved.

    tensor_memory_pairs.py --tilec T --tilerun R [--ptxas P] [--part K/N]

Sums of products whose operands lie either way in memory, of one tile of rows in a block and several, where the second
block of a pair has no rows, some or all, several tiles in turn, batches, two sums, loops without an iteration: in the
simulator under eight seeds (--seeds) against NumPy in float64; ptxas takes each without spills.  Of what the roles do to each other
every operation is left out of the tile IR, or changed, once: the verifier or check-roles refuses what comes of it.  What
tile IR does not say of pairs is changed in the PTX: the simulator finds a fault.
"""
import os
import re
import subprocess
import sys

import numpy as np

import ladder
import tensor_memory as one_block
from attention import Wrong, call

GEMM = os.path.join(ladder.ROOT, "examples", "gemm.tile")
BATCHES = """
kernel product<T: type = bf16, TM: int = 128, TN: int = 128, TK: int = 64>
(   A: in T[L, M, K] align(16), B: in T[L, K, N] align(16), C: out f32[L, M, N] align(16))
{
    grid n in tiles(N, TN), m in tiles(M, TM), l in L;
    var acc = zeros<f32>[TM, TN];
    for k in tiles(K, TK) { acc = mma(load A[l, m, k], load B[l, k, n], acc); }
    store C[l, m, n] = acc;
}
"""


def compiled(options, folder, text, defines, plan):
    ptx = one_block.compiled(options, folder, text, defines, f"--plan={plan},cluster=2")
    with open(ptx, encoding="utf-8") as file:
        if "tcgen05.mma.cta_group::2" not in file.read():
            raise Wrong("there are no products of two blocks")
    return ptx


def ways_to_lie(options, folder):
    """Operands that lie either way, sums that begin with a tile, columns of the product that are 32 to 256."""
    random = np.random.default_rng(21)
    cases = [((0, 0, 0), "bf16", (256, 64), 6, (300, 264, 200)), ((1, 0, 0), "f16", (128, 64), 4, (136, 264, 72)),
             ((0, 1, 0), "bf16", (224, 48), 3, (129, 424, 104)), ((1, 1, 0), "bf16", (128, 128), 2, (264, 136, 136)),
             ((0, 1, 1), "f16", (32, 16), 3, (128, 40, 64)), ((1, 1, 1), "bf16", (96, 64), 2, (520, 520, 8)),
             ((0, 0, 1), "bf16", (64, 32), 4, (257, 200, 40)),
             # halves of columns in narrower atoms, where rows of 128 bytes would reach into the other block's
             ((0, 0, 0), "f16", (32, 64), 3, (200, 72, 136)), ((1, 0, 0), "bf16", (96, 64), 3, (300, 200, 200)),
             ((0, 0, 0), "bf16", (192, 32), 4, (257, 392, 104)), ((0, 0, 0), "bf16", (160, 48), 2, (129, 328, 136))]
    for (a_turned, b_turned, begins), dtype, (tn, tk), stages, (m, n, k) in cases:
        a, b = (ladder.rounded(random.standard_normal(shape), dtype) for shape in ((m, k), (k, n)))
        c = ladder.rounded(random.standard_normal((m, n)), "f32")
        ptx = compiled(options, folder, one_block.program(a_turned, b_turned, begins),
                       {"T": dtype, "TM": 128, "TN": tn, "TK": tk}, f"consumers=1,stages={stages}")
        one_block.run(options, folder, ptx, {"A": (a.T if a_turned else a, dtype), "B": (b.T if b_turned else b, dtype),
                                             "C": (c, "f32")}, {"C": (a @ b + begins * c, "f32")}, "f32", 64)


def rows(options, folder):
    """Of a pair's second block no row lies inside, one, or all; of the first one only one does; tiles follow one another."""
    random = np.random.default_rng(22)
    for plan, defines, sizes in (
            ("consumers=1,stages=4", {"TN": 128}, ((1, 8, 8), (128, 128, 64), (129, 8, 72), (256, 136, 64),
                                                   (257, 128, 136), (900, 392, 200))),
            ("consumers=1,stages=2,persistent=0", {"TN": 256}, ((1, 264, 64), (385, 264, 8))),
            ("consumers=2,stages=3", {"TN": 128}, ((1, 8, 8), (257, 264, 136), (385, 128, 72), (1030, 136, 200))),
            ("consumers=4,stages=2", {"TN": 128}, ((300, 136, 72), (1100, 128, 136)))):
        ptx = compiled(options, folder, one_block.program(0, 0, 0), {"TM": 128, "TK": 64, **defines}, plan)
        for m, n, k in sizes:
            a, b = (ladder.rounded(random.standard_normal(shape), "bf16") for shape in ((m, k), (k, n)))
            one_block.run(options, folder, ptx, {"A": (a, "bf16"), "B": (b, "bf16"), "C": (np.zeros((m, n)), "f32")},
                          {"C": (a @ b, "f32")}, "f32", 64)


def batches(options, folder):
    random = np.random.default_rng(23)
    ptx = compiled(options, folder, BATCHES, {}, "consumers=1,stages=3")
    for l, m, n, k in ((3, 129, 136, 72), (2, 300, 8, 200)):
        a, b = (ladder.rounded(random.standard_normal(shape), "bf16") for shape in ((l, m, k), (l, k, n)))
        one_block.run(options, folder, ptx, {"A": (a, "bf16"), "B": (b, "bf16")}, {"C": (a @ b, "f32")}, "f32", 64)


def two_sums(options, folder):
    random = np.random.default_rng(24)
    a, b, g = (ladder.rounded(random.standard_normal(shape), "bf16") for shape in ((300, 136), (136, 264), (136, 264)))
    ptx = compiled(options, folder, one_block.TWO, {}, "consumers=1,stages=3")
    one_block.run(options, folder, ptx, {"A": (a, "bf16"), "B": (b, "bf16"), "G": (g, "bf16")},
                  {"C": ((a @ b) * np.maximum(a @ g, 0), "bf16")}, "bf16", 2)


def bias(options, folder):
    """The example, with what it does behind the loop."""
    random = np.random.default_rng(25)
    with open(GEMM, encoding="utf-8") as file:
        text = file.read()
    ptx = compiled(options, folder, text, {"TM": 128, "TN": 256, "TK": 64, "ACTIVATION": 1}, "consumers=1,stages=6")
    for m, n, k in ((300, 264, 200), (129, 520, 64)):
        a, b = (ladder.rounded(random.standard_normal(shape), "bf16") for shape in ((m, k), (k, n)))
        row = random.standard_normal(n).astype(np.float32)
        one_block.run(options, folder, ptx, {"A": (a, "bf16"), "B": (b, "bf16"), "bias": (row, "f32")},
                      {"C": (np.maximum(a @ b + row, 0), "bf16")}, "bf16", 2)


def no_iteration(options, folder):
    def pair(*of):
        return compiled(*of, "consumers=1,stages=2")
    list(one_block.no_iteration(options, folder, pair, 26))


# ---- planted faults ----

def changes(lines):
    """[(what was changed, lines)]"""
    changed = []
    for at, line in enumerate(lines):
        without = lines[:at] + lines[at + 1:]
        if re.match(r" *(producer_acquire|producer_commit|consumer_wait|consumer_release|tma_load) ", line):
            changed.append((f"left out: {line.strip()}", without))
        if re.match(r" *(consumer_release|producer_commit|tma_load) ", line):
            changed.append((f"twice: {line.strip()}", lines[:at] + [line] + lines[at:]))
        if re.search(r": bool = ne ", line):
            changed.append(("every product adds", lines[:at] + [line.replace("ne", "eq")] + lines[at + 1:]))
            changed.append(("no product adds", lines[:at] + [re.sub(r"= ne .*", "= const 0", line)] + lines[at + 1:]))
        if re.match(r" *tmem_mma ", line):
            changed.append(("a product too late", lines[:at] + [lines[at + 1], line] + lines[at + 2:]))
        if re.search(r"= tmem_read ", line):
            end = next(i for i, l in enumerate(lines) if re.match(r" *consumer_release \$acc", l))
            rest = lines[:end] + lines[end + 1:]
            changed.append(("a sum given back before it is read", rest[:at] + [lines[end]] + rest[at:]))
        if " halved " in line:
            for way in ("", "per_consumer "):
                changed.append((f"a tile that is {way or 'whole'}",
                                lines[:at] + [line.replace("halved ", way)] + lines[at + 1:]))
            changed.append(("half of the wrong side",
                            lines[:at] + [line.replace("[64,128]", "[32,256]")] + lines[at + 1:]))
        if " per_consumer " in line:
            changed.append(("a left operand that is halved",
                            lines[:at] + [line.replace("per_consumer ", "halved ")] + lines[at + 1:]))
        if " cluster 2 " in line:
            changed.append(("no clusters", lines[:at] + [line.replace("cluster 2 ", "")] + lines[at + 1:]))
        if re.search(r"= grid n$", line) and not any("tile_advance" in l for l in lines[:at]):
            changed.append(("blocks that copy halves of different tiles",
                            lines[:at] + [line.replace("grid n", "grid m")] + lines[at + 1:]))
    return changed


def refused(options, folder):
    text = call([options.tilec, GEMM, "-arch", "sm_100", "--plan=consumers=1,stages=2,cluster=2", "-DTM=128", "-DTN=256",
                 "-DTK=64", "-DBIAS=false", "--dump-ir=order_accesses", "-o", os.devnull])
    changed = changes(text.split("\n"))
    if len(changed) < 26:
        raise Wrong(f"only {len(changed)} changes")
    for _ in one_block.refused(options, folder, changed):
        pass


# What is in the text once for each (a place and what comes there; how many places).
IN_PTX = (
    ("products end for the first block only", r"(mov\.b16 %h\d+), 3;", r"\1, 1;", 0),
    ("products end for the second block only", r"(mov\.b16 %h\d+), 3;", r"\1, 2;", 0),
    ("the end of products is not told", r"@%p\d+ tcgen05\.commit[^;]*;", "", 3),
    ("bytes of one block are expected", r"(mbarrier\.arrive\.expect_tx\S* _, \S+, )32768;", r"\g<1>16384;", 2),
    ("both producers arrive", r"@%p\d+ (mbarrier\.arrive\.expect_tx)", r"\1", 2),
    ("a block's own barriers", r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;", 2),
    ("a sum is free when one block has read it", r"(mbarrier\.init\S* \S+, )8;", r"\g<1>4;", 0),
    ("a sum is not given back", r"@%p\d+ mbarrier\.arrive\.relaxed[^;]*;", "", 1),
    ("a sum is not waited for", r"(mbarrier\.try_wait\.parity\.relaxed\S* )(%p\d+)[^;]*;", r"setp.eq.s32 \2, 0, 0;", 1),
    ("the block begins before the other one is there",
     r"barrier\.cluster\.arrive\.release\.aligned;\s*barrier\.cluster\.wait\.acquire\.aligned;(?=\s*tcgen05\.fence::after)",
     "bar.sync 0;", 0),
    ("copies that do not know of pairs", r"complete_tx::bytes\.cta_group::2", "complete_tx::bytes", 3),
)


def found_in(options, folder, ptx, arrays, scalars, outputs, changes_of_text):
    """Each change [(what, place, new, how often the place is there; 0: it is, all at once)] makes the simulator find a fault."""
    with open(ptx, encoding="utf-8") as file:
        text = file.read()
    path = os.path.join(folder, "changed.ptx")
    command = ladder.with_arrays([options.tilerun, path, "--device", "sim", "--seeds", "4"], folder, arrays, scalars, outputs)
    for what, place, new, times in changes_of_text:
        places = list(re.finditer(place, text))
        if not places or (times > 0 and len(places) != times):
            raise Wrong(f"{what}: {len(places)} places in the PTX, expected {times}")
        ways = [re.sub(place, new, text)] if times == 0 else [
            text[:at.start()] + at.expand(new) + text[at.end():] for at in places]
        for number, changed in enumerate(ways):
            with open(path, "w", encoding="utf-8") as file:
                file.write(changed)
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0 or "fault: " not in done.stdout + done.stderr:
                raise Wrong(f"nobody saw it: {what} (place {number})\n{done.stdout}{done.stderr}")


def found(options, folder):
    random = np.random.default_rng(27)
    ptx = compiled(options, folder, one_block.program(0, 0, 0), {"TM": 128, "TN": 256, "TK": 64}, "consumers=1,stages=2")
    m, n, k = 600, 264, 328
    arrays = {"A": ladder.to_bits(random.standard_normal((m, k)), "bf16"),
              "B": ladder.to_bits(random.standard_normal((k, n)), "bf16"), "C": np.zeros((m, n), np.float32)}
    found_in(options, folder, ptx, arrays, {}, ["C"], IN_PTX)


def main():
    every = [(part.__name__, part)
             for part in (ways_to_lie, rows, batches, two_sums, bias, no_iteration, refused, found)]
    return one_block.run_part(one_block.arguments(), every)


if __name__ == "__main__":
    sys.exit(main())
