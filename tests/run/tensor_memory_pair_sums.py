#!/usr/bin/env python3
"""tensor_memory_pair_sums.py - pairs of blocks that add up what both would add to memory (sm_100): right, without faults, and proved.

    tensor_memory_pair_sums.py --tilec T --tilerun R [--ptxas P] [--part K/N]

Attention backward, of one block, two, and an odd number of them, ragged, with grouped heads, masked, runs in the simulator under eight
seeds (--seeds) against NumPy in float64.  What a thread sends stands between its additions.  ptxas takes each kernel without spills.  Of what the reduce roles do to each other every
operation is left out once, or changed: the verifier or check-roles refuses what comes of it.
"""
import os
import re
import sys

import attention
import tensor_memory_graphs as graphs
from attention import Wrong, call, make
from tensor_memory import arguments, refused, run_part

STEPS = {name: graphs.STEPS[name] for name in ("attention_bwd_delta", "attention_bwd", "attention_bwd_convert")}
TILES = ["-DM=128", "-DN=128"]


def plan(stages):
    return [*TILES, f"--plan=consumers=1,stages={stages},cluster=2"]


def in_pairs(options, folder, case):
    graphs.backward(options, folder, case, STEPS)
    with open(os.path.join(folder, "attention_bwd.ptx"), encoding="utf-8") as file:
        text = file.read()
    if "st.async" not in text or ".reqnctapercluster 2, 1, 1" not in text:
        raise Wrong("blocks do not add up in pairs")


def cases():
    out = []
    for keys in (1, 128, 130, 256, 257, 420, 600): # one block, two, three, four, five
        for causal in (False, True): # a block has an iteration that its neighbour has not
            out.append(make(300, keys, heads=2, kv_heads=1, causal=causal, flags=plan(3)))
    out += [make(1, 1, flags=plan(2)), make(130, 5, "f16", flags=plan(3)), make(300, 390, heads=4, kv_heads=2, flags=plan(1)),
            make(140, 400, d=32, heads=4, kv_heads=2, flags=plan(3)), make(260, 130, d=96, alibi=True, flags=plan(1)),
            make(200, 390, d=128, heads=2, flags=plan(2)), make(260, 390, d=128, causal=True, flags=plan(1)),
            make(200, 140, d=64, dv=128, flags=plan(1)),
            make(150, 260, d=72, flags=plan(1)), make(140, 300, d=24, dv=8, flags=plan(2)), make(200, 140, d=120, flags=plan(1)),
            make(700, 300, causal=True, flags=plan(2)), make(300, 700, causal=True, flags=plan(2)), make(513, 513, causal=True, heads=2, flags=plan(3)),
            make(300, 300, d=128, causal=True, window=150, flags=plan(1)), make(700, 700, causal=True, window=130, flags=plan(2)),
            make(150, 300, causal=True, flags=[*plan(2), "-fno-split-loops"]), make(400, 130, "f16", causal=True, heads=2, flags=plan(1)),
            make(300, 420, causal=True, heads=4, kv_heads=2, flags=plan("3,clc=1"))]
    return [(attention.name_of(case), lambda o, f, case=case: in_pairs(o, f, case)) for case in out]


def not_covered(options, folder):
    """What goes without pairs, and a remark says why."""
    for more, why in ((["-DSOFTCAP=true"], "products of two blocks are for sums and chains of products"),): # its consumer adds
        said = call([options.tilec, attention.BACKWARD, "-arch", "sm_100", "--kernel", "attention_bwd", "--verify", "--remarks", "-Wno-plan",
                     *plan(1), *more, "-o", os.devnull])
        if why not in said:
            raise Wrong(f"nothing says '{why}':\n{said}")


def by_turns(options, folder):
    """A thread sends between its own additions, begins with it, and has sent all before it waits for the other block."""
    for d, half in ((32, 4), (64, 16), (96, 24), (128, 32)):
        text = call([options.tilec, attention.BACKWARD, "-arch", "sm_100", "--kernel", "attention_bwd", *plan(1), f"-DD={d}", "-o", "-"])
        role = text[text.index("    // reduce,"):text.index("    // computing warp groups,")]
        order = "".join({"st.async": "s", "red.global": "a", "ld.shared.v4": "w"}[name]
                        for name in re.findall(r"\b(st\.async|red\.global|ld\.shared\.v4)\b", role))
        sends, adds = half // 4, (d - 2 * half) // 4
        ways = order[:order.index("w")] # where the tile is whole, and where it is not
        if len(ways) != 2 * (sends + adds) or ways[:len(ways) // 2] != ways[len(ways) // 2:]:
            raise Wrong(f"D={d}: what is sent and added is '{order}', expected {sends} and {adds} twice")
        between = ways[:len(ways) // 2].rstrip("a")
        if not ways.startswith("s") or (sends > 1 and between.count("a") < sends - 1) or "ss" in between:
            raise Wrong(f"D={d}: '{ways}' is not by turns")


def faults(options, folder, d, stages):
    text = call([options.tilec, attention.BACKWARD, "-arch", "sm_100", "--kernel", "attention_bwd", *plan(stages), f"-DD={d}",
                 "--dump-ir=order_accesses", "-o", os.devnull])
    lines = text.split("\n")
    begin = next(i for i, line in enumerate(lines) if re.match(r" *reduce .*\{", line))
    changed = []
    for at, line in enumerate(lines):
        if at < begin:
            continue
        if re.match(r" *(consumer_wait|consumer_release|atomic_add) |.* pair_send ", line):
            changed.append((f"{at} {line.strip()}", lines[:at] + lines[at + 1:]))
        if line.endswith(" sliced"): # the halves in the order of the columns
            changed.append((f"{at} not sliced", lines[:at] + [line.removesuffix(" sliced")] + lines[at + 1:]))
        if " pair_sum " in line: # its own half goes to memory as it is
            add = next(i for i in range(at, len(lines)) if " atomic_add " in lines[i])
            changed.append((f"{at} added twice", lines[:add + 1] + lines[add:]))
            changed.append((f"{at} not added", lines[:at] + lines[at + 1:add] + lines[add + 1:]))
            send = next(i for i in range(at, 0, -1) if "pair_send " in lines[i])
            changed.append((f"{at} sent when it has come", lines[:send] + lines[send + 1:at + 1] + [lines[send]] + lines[at + 1:]))
        if " rem " in line: # both blocks add the same half, or places that only one has
            changed.append((f"{at} the same half", lines[:at] + [line.replace(" rem ", " div ")] + lines[at + 1:]))
        bound = re.match(r"( *)for (%\d+): i32 in (%\d+) \.\. (%\d+) (.*)", line)
        if bound: # a block has iterations that the other one has not
            new = [f"{bound[1]}%9990: i32 = grid n uniform", f"{bound[1]}%9991: i32 = add {bound[4]}, %9990",
                   f"{bound[1]}for {bound[2]}: i32 in {bound[3]} .. %9991 {bound[5]}"]
            changed.append((f"{at} other iterations", lines[:at] + new + lines[at + 1:]))
    if len(changed) < 8:
        raise Wrong(f"only {len(changed)} changes")
    for _ in refused(options, folder, changed):
        pass


def main():
    every = [*((f"faults {d} {stages}", lambda o, f, of=(d, stages): faults(o, f, *of)) for d, stages in ((64, 3), (128, 2))),
             ("by turns", by_turns), ("what is not covered", not_covered), *cases()]
    return run_part(arguments(), every)


if __name__ == "__main__":
    sys.exit(main())
