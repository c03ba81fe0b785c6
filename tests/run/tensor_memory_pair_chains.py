#!/usr/bin/env python3
"""tensor_memory_pair_chains.py - chains product, arithmetic, product over the two blocks of a pair (sm_100, cluster=2).

    tensor_memory_pair_chains.py --tilec T --tilerun R [--ptxas P] [--part K/N]

Attention forward, two layers in one kernel and loops that show one thing each: where the second block of a pair, or a
consumer, has no rows, some or all, one tile of queries in a block and two, operands over results and with columns of their
own, several tiles in turn.  In the simulator under eight seeds (--seeds) against NumPy in float64; ptxas takes each without spills.
Of what the roles do to each other every operation is left out of the tile IR once: the verifier or check-roles refuses
what comes of it.  What tile IR does not say of pairs is changed in the PTX: the simulator finds a fault.
"""
import sys

import attention
import tensor_memory_chains as chains
from attention import make
from tensor_memory import arguments, run_part
from tensor_memory_pairs import found_in

PAIR = ["cluster=2"]


def attention_cases():
    """(consumers, case)"""
    pair = lambda *a, flags=(), **k: make(*a, flags=PAIR + list(flags), **k)
    out = []
    for dtype in ("bf16", "f16"):
        for d in (64, 128):
            out += [(n, pair(rows, 700, dtype, d=d, heads=2, kv_heads=1)) for n, rows in ((1, 300), (2, 300), (2, 1100))]
    out += [(n, case) for n in (1, 2) for case in
            (pair(1, 1), pair(129, 5), pair(400, 140, d=128, flags=["grow", "stages=3"]), pair(140, 400, "f16", d=128, flags=["grow"]),
             pair(200, 260, d=64, dv=128), pair(256, 384, flags=["-DLAZY=false"]), pair(130, 200, softcap=True),
             pair(300, 260, d=128, heads=2, flags=["persistent=0"]))]
    out += [(1, pair(200, 260, d=96, flags=["-DN=64"])), (2, pair(600, 300, d=192, flags=["-DN=64"])), (2, pair(200, 260, d=96)),
            (1, pair(140, 200, d=32))]
    # programs of the two blocks with iterations of their own: of none, one more, at both ends, in tiles that follow one another
    causal = lambda *a, flags=(), **k: pair(*a, causal=True, flags=flags, **k)
    for dtype in ("bf16", "f16"):
        out += [(n, causal(rows, 700, dtype, d=d, heads=2, kv_heads=1)) for d in (64, 128) for n, rows in ((1, 300), (2, 600))]
    out += [(n, case) for n in (1, 2) for case in
            (causal(1, 1), causal(257, 5), causal(700, 300, d=128, flags=["stages=3", "grow"]), causal(600, 520, d=128, window=150),
             causal(500, 800, window=33), causal(140, 200, heads=2, alibi=True), causal(300, 140, d=64, dv=128),
             causal(600, 500, d=128, heads=2, flags=["persistent=0"]), causal(600, 500, heads=2, flags=["clc=1"]),
             causal(400, 700, d=128, flags=["-fno-split-loops"]))]
    out += [(2, causal(1100, 1100, d=128, heads=2)), (2, causal(1100, 1100, window=300)), (2, causal(270, 140, d=96)), (2, causal(500, 500, d=192, flags=["-DN=64"])),
            (2, pair(600, 300, d=160, flags=["-DN=96", "stages=3"])), (2, causal(600, 420, "f16", d=160, flags=["-DN=96", "stages=3", "clc=1"]))]
    return [(f"{n} consumers, " + attention.name_of(case), lambda o, f, n=n, case=case: chains.attend(o, f, case, n))
            for n, case in out]


# What is in the text once for each (a place and what comes there; how many places).
IN_PTX = (
    ("products end for the first block only", r"(mov\.b16 %h\d+), 3;", r"\1, 1;", 0),
    ("products end for the second block only", r"(mov\.b16 %h\d+), 3;", r"\1, 2;", 0),
    ("an operand is there when one block has written it", r"(mbarrier\.init\S* \S+, )8;", r"\g<1>4;", 0),
    ("an operand is not waited for", r"(mbarrier\.try_wait\.parity\.relaxed\S* )(%p\d+)[^;]*;", r"setp.eq.s32 \2, 0, 0;", 0),
    ("bytes of one block are expected", r"(mbarrier\.arrive\.expect_tx\S* _, \S+, )32768;", r"\g<1>16384;", 0),
    ("both producers arrive", r"@%p\d+ (mbarrier\.arrive\.expect_tx)", r"\1", 0),
    ("a block's own barriers", r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), %r\d+;", r"mov.b32 \1, \2;", 2),
    ("copies that do not know of pairs", r"complete_tx::bytes\.cta_group::2", "complete_tx::bytes", 0),
)


def without_zeros(options, folder):
    """Of iterations that a program lacks: operands of other numbers than zero, or none, are refused."""
    text = chains.call([options.tilec, attention.FORWARD, "-arch", "sm_100", "--plan=consumers=2,stages=2,cluster=2", "-DD=128", "-DM=128",
                        "-DN=128", "-DCAUSAL=true", "--dump-ir=order_accesses", "-o", chains.os.devnull])
    lines = text.split("\n")
    zeros = next(i for i, line in enumerate(lines) if chains.re.search(r"%\d+: bf16\[128,128\].* = const 0\.0", line))
    written = [i for i in range(zeros, zeros + 6) if "tmem_write" in lines[i]]
    if len(written) != 2:
        raise chains.Wrong(f"zeros are written {len(written)} times")
    changed = [("other numbers", lines[:zeros] + [lines[zeros].replace("const 0.0", "const 1.0")] + lines[zeros + 1:])]
    changed += [("left out", lines[:i] + lines[i + 1:]) for i in written]
    for _ in chains.refused(options, folder, changed):
        pass


# A sum that the loop does not change.  With BY above 0 the first program has no iteration of its own.
ADDED_UP = """
kernel added_up<BY: int = 0>(Q: in bf16[S, 64] align(16), K: in bf16[S, 64] align(16), Y: out f32[S, 64])
{
    grid m in tiles(S, 128);
    let q = load Q[m, :];
    var y = zeros<f32>[128, 64];
    for n in tiles(S, 64) {
        let p = exp2(mask(mma(q, load K[n, :].T) * 0.125, n[None, :] + BY <= m[:, None]));
        y = mma(p as bf16, load K[n, :], y);
    }
    store Y[m, :] = y;
}
"""


def added_up(options, folder, rows, by, consumers, flags=()):
    """Programs that lack all iterations, behind the axis and on it."""
    random = chains.np.random.default_rng(rows)
    q, k = (chains.ladder.rounded(random.standard_normal((rows, 64)) * 0.5, "bf16") for _ in range(2))
    source = chains.os.path.join(folder, "added_up.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(ADDED_UP)
    ptx = chains.compiled(options, folder, source, {"BY": by}, PAIR + list(flags), consumers)
    arrays = {"Q": chains.ladder.to_bits(q, "bf16"), "K": chains.ladder.to_bits(k, "bf16")}
    at = chains.np.arange(rows)
    p = chains.np.where(at[None, :] + by <= at[:, None], chains.np.exp2(q @ k.T * 0.125), 0)
    have = chains.run(options, folder, ptx, arrays, {}, ["Y"])["Y"]
    chains.near("Y", have, chains.ladder.rounded(p, "bf16") @ k, 5e-2) # some of p are rounded to its neighbour


def found(options, folder):
    case = make(600, 400, d=128)
    random, scale = chains.np.random.default_rng(27), float(chains.np.float32(128 ** -0.5))
    ptx = chains.compiled(options, folder, attention.FORWARD, {"D": 128, "M": 128, "N": 128}, PAIR, 2)
    arrays = {name: chains.ladder.to_bits(random.standard_normal((1, n, 1, case.d)), "bf16")
              for name, n in (("Q", case.rows), ("K", case.keys), ("V", case.keys))}
    found_in(options, folder, ptx, arrays, {"scale": scale, "softcap": 1.0}, ["O", "L"], IN_PTX)


def main():
    every = [("planted in PTX", found), ("zeros", without_zeros), ("the largest of a row", lambda o, f: chains.top(o, f, PAIR))]
    for n in (1, 2):
        every += [(f"{n} consumers, a scaled operand", lambda o, f, n=n: chains.scaled(o, f, chains.SCALED, n, PAIR)),
                  (f"{n} consumers, a result that is added", lambda o, f, n=n: chains.scaled(o, f, chains.ADDED, n, PAIR))]
        for dtype, rows, width, defines in (("bf16", 200, 320, {"N": 64}), ("f16", 600, 256, {"N": 128}), ("bf16", 1, 32, {"N": 64})):
            every.append((f"{n} consumers, layers {dtype} {rows} {width}",
                          lambda o, f, a=(dtype, rows, width, defines, n, PAIR): chains.layers(o, f, *a)))
        every += [(f"{n} consumers, added up {rows} {by}", lambda o, f, a=(rows, by, n): added_up(o, f, *a))
                  for rows, by in ((62, 0), (300, 0), (700, 130))]
    # operands with a place of their own, and over results
    for flags in (("--plan=consumers=1,stages=2,cluster=2", "-DD=64", "-DM=128", "-DN=64"),
                  ("--plan=consumers=2,stages=2,cluster=2", "-DD=128", "-DM=128", "-DN=128"),
                  ("--plan=consumers=2,stages=2,cluster=2", "-DD=128", "-DM=128", "-DN=128", "-DCAUSAL=true"),
                  ("--plan=consumers=1,stages=2,cluster=2", "-DD=64", "-DM=128", "-DN=64", "-DCAUSAL=true")):
        every.append(("faults " + " ".join(flags), lambda o, f, flags=flags: chains.faults(o, f, flags)))
    every += attention_cases()
    return run_part(arguments(), every)


if __name__ == "__main__":
    sys.exit(main())
