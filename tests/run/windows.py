#!/usr/bin/env python3
"""windows.py - attention with the least and the greatest limits: WINDOW and RIGHT near 2^31, and those that are refused.

    windows.py --tilec T --tilerun R

In the simulator, against float64, with fewer queries than keys, as many, and more: a query's place less the window, or with what
is to its right, must be an i32.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attention  # noqa: E402
import decode  # noqa: E402
import ladder  # noqa: E402
import places  # noqa: E402
import split  # noqa: E402

MOST = 2 ** 31 - 1
LENGTHS = [(70, 150), (100, 100), (150, 70)]
# by example whether it has RIGHT
REFUSED = {"attention": True, "attention_bwd": True, "attention_decode": False, "attention_grouped": True, "attention_paged": False,
           "attention_split": True, "attention_varlen": False, "attention_varlen_bwd": False}


def cases():
    out = []
    for n, arch in enumerate(["sm_80", "sm_90", "sm_100"]):
        on = {"arch": arch, "window": MOST}
        for rows, keys in LENGTHS:
            out += [(attention, attention.make(rows, keys, right=MOST, **on)),
                    (split, split.make(rows, keys, 2, right=MOST, **on))]
        rows, keys = LENGTHS[n]
        out += [(attention, attention.make(rows, keys, causal=True, deterministic=True, arch=arch, window=MOST - 200)),
                (attention, attention.make(rows, keys, arch=arch, right=2 ** 30 + 1)),
                (decode, decode.make(150, 70, splits=2, **on)), (decode, decode.make(20, 70, **on)),
                (decode, decode.make(150, 70, splits=decode.GROUPED, **on)),
                (places, places.Varlen((150, 64), (70, 100), None, (1, 2), 64, 64, 1, 1, False, MOST, 0, True, "bf16", (64, 64),
                                       arch, ())),
                (places, places.Paged((30, 70), 32, 1, 64, 64, 50, 1, 4, 4, 2, False, MOST, "bf16", arch, ()))]
    return out


def refusals(options):
    """Where a limit that means nothing is not refused by a sentence about it."""
    failed = 0
    for example, right in REFUSED.items():
        for define in ["WINDOW=-5", "WINDOW=-2147483648", *(["RIGHT=-2", "RIGHT=-2147483648"] if right else [])]:
            done = subprocess.run([options.tilec, f"{ladder.ROOT}/examples/{example}.tile", "-arch", "sm_90", "-D", define, "-o", "-"],
                                  capture_output=True, text=True)
            if done.returncode != 1 or "[E-REQUIRE]" not in done.stderr or f"{define.split('=')[0]} must be at least" not in done.stderr \
                    and "and RIGHT at least" not in done.stderr:
                print(f"FAILED {example} {define}: it must be refused\n{done.stderr}")
                failed += 1
    return failed


def main():
    parser = attention.arguments()
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    return attention.run_cases(options, cases(), lambda o, case, folder: case[0].run(o, case[1], folder), called=str,
                               failed=refusals(options))


if __name__ == "__main__":
    sys.exit(main())
