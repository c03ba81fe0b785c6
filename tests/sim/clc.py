#!/usr/bin/env python3
"""clc.py - faults in cluster launch control: does the simulator notice them?

    clc.py --tilec T --tilerun R [--seeds S] [--print]

What tilec makes of a product of matrices with `--plan=..,clc=1`, of blocks by themselves and of pairs, is changed in one place: a
wait is left out or waits for the other phase, an answer's place is used again too early, a question too much is asked.  A finding (a note counts), a hang or a
wrong number must come of each, and nothing of the text as it is.  (That the fence behind the reading is missing shows in no run.)
"""
import argparse
import os
import re
import sys
import tempfile
import pathlib
import types

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import planned  # noqa: E402
from planned import attention  # noqa: E402

TRY = r"    clusterlaunchcontrol\.try_cancel\S* \[%r\d+\+\d+\], \[(%r\d+\+\d+)\];\n"


def change(text, pattern, to, at=0):
    """The match number `at` of a pattern in place of `to`."""
    found = list(re.finditer(pattern, text))
    if not found:
        raise RuntimeError(f"there is no {pattern}")
    return text[:found[at].start()] + found[at].expand(to) + text[found[at].end():]


def wait_at(barrier):
    """A loop that waits for a barrier in the producer's program: its predicate, its phase."""
    return (rf"    mbarrier\.try_wait\.parity\S*\.shared::cta\.b64 (%p\d+), \[{re.escape(barrier)}\], (%r\d+);\n"
            r"    @!\1 bra \$L\d+;\n")


def faults(text, pair):
    """(name, text) of each."""
    ask = re.search(TRY, text)
    full = ask[1]
    yield "the answer is not waited for", change(text, wait_at(full), "")
    yield "the other phase is waited for", change(text, wait_at(full), r"    xor.b32 \2, \2, 1;\n\g<0>    xor.b32 \2, \2, 1;\n")
    yield "two questions at once", text[:ask.end()] + text[ask.start():]
    expect = rf"    mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[{re.escape(full)}\], 16;\n"
    yield "the answer is not expected", change(text, expect, "")
    yield "fewer bytes are expected", change(text, expect, lambda_text(expect, text, ", 16;", ", 8;"))
    if pair:
        start, at = full.split("+")
        empty = f"{start}+{int(at) + 8}"
        yield "the second block is not waited for", change(text, wait_at(empty), "")
        says = r"    (@%p\d+ )mbarrier\.arrive\.release\.cluster\.shared::cluster\.b64 _, \[(%r\d+\+" + str(int(at) + 8) + r")\];\n"
        yield "the second block does not say that it has read", change(text, says, "")
        yield "the answer goes to one block", text.replace(".multicast::cluster::all.b128", ".b128")


def lambda_text(pattern, text, old, new):
    return re.search(pattern, text)[0].replace(old, new)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    options.arch, options.more = "sm_100", ["--strict"]
    random, missed, count = np.random.default_rng(4), 0, 0
    for plan, pair in [("consumers=1,stages=2,clc=1", False), ("consumers=1,stages=2,cluster=2,clc=1", True)]:
        program = planned.gemm(random, 1100, 136, 72, "bf16", 0, 128, 64, 64)
        case = types.SimpleNamespace(program=program, plan=plan, sm_count=2, flags=())
        with tempfile.TemporaryDirectory() as folder:
            ptx = planned.compile_program(options, program, plan, (), folder)
            text = pathlib.Path(ptx).read_text(encoding="utf-8")
            planned.simulate(options, case, ptx, folder)
            for name, other in faults(text, pair):
                if other == text:
                    raise RuntimeError(f"{name}: nothing changed")
                pathlib.Path(ptx).write_text(other, encoding="utf-8")
                count += 1
                try:
                    planned.simulate(options, case, ptx, folder)
                    missed += 1
                    print(f"missed: {plan}: {name}")
                except attention.Wrong as wrong:
                    if options.print:
                        said = str(wrong).split("\n", 1)
                        print(f"caught: {plan}: {name}: {said[-1].strip()[:300]}")
    print(f"{count - missed} of {count} faults are found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
