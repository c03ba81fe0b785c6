#!/usr/bin/env python3
"""head_dims.py - ptxas runs no product of attention after another, whatever the head dimensions are.

    head_dims.py --tilec TILEC --ptxas PTXAS [--all | --eighth N|fresh] [--every N] [--jobs N] [--print] [WORD ..]

Attention forward and backward on sm_90, by length and in packed sequences, full and causal, for pairs D, DV of
multiples of 8 up to 256: of what has products of warp groups, ptxas may say nothing about them (C75..).  Which tiles
and consumers a kernel gets, and what waits for what, depends on registers that the compiler estimates; ptxas decides.

Without --all a pair in sixteen, so drawn that each D and each DV is there with each kernel, and those that models
use.  Of those that are not, --eighth 0 to 7 takes an eighth, drawn over kernels, D and DV;
`fresh`: which one depends on the commit (or on TILEC_FUZZ_SEED).  With WORDs, kernels that have one in their name.  It is one of --all that a change of the estimate is for: that
takes an hour of processor time.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "fuzz"))
import judge  # noqa: E402
KERNELS = [("attention", "attention"), ("attention_bwd", "attention_bwd"), ("attention_bwd", "attention_bwd_dkdv"),
           ("attention_bwd", "attention_bwd_dq"), ("attention_varlen", "attention_varlen"),
           ("attention_varlen_bwd", "attention_varlen_bwd")]
DIMS = range(8, 257, 8)
# with a tile size that is given: three consumers whose registers would just not suffice
PINNED = [("attention_bwd", 192, 16, "M=32"), ("attention_varlen_bwd", 192, 16, "M=32"), ("attention_bwd", 192, 8, "M=32")]
# Misses that are known: what ptxas (13.0) serialises, whose registers the estimate counts too low
KNOWN = {"attention_varlen_bwd D=176 DV=24 causal "}
USED = [(64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256)]


def is_drawn(number, d, dv, causal, eighths=range(8)):
    """Whether a pair is one of those without --all, for the kernel of this number."""
    at = (d // 8 + 3 * (dv // 8) + 5 * number + 8 * causal) % 32
    return (d, dv) in USED or at % 16 == 0 and at // 16 + 2 * ((number + causal) % 2) + 4 * (dv // 16 % 2) in eighths


def eighths(text):
    if text != "fresh":
        return (int(text),)
    return (judge.first_seed(text) % 8,)


def compiled(options, case):
    """The PTX of a case."""
    file, kernel, d, dv, causal, *pinned = case
    return subprocess.run([options.tilec, os.path.join(ROOT, "examples", file + ".tile"), "-arch", "sm_90",
                           "--kernel", kernel, "-D", f"D={d}", "-D", f"DV={dv}",
                           "-D", f"CAUSAL={'true' if causal else 'false'}", "-Wno-plan", *[word for p in pinned for word in ("-D", p)],
                           "-o", "-"],
                          check=True, capture_output=True, text=True).stdout


def assembled(options, case):
    """(case, what ptxas says of it; None: no products of warp groups)"""
    text = compiled(options, case)
    if "wgmma.mma_async" not in text:
        return case, None
    target = re.search(r"^\.target (\w+)", text, re.M)[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.ptx")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        said = subprocess.run([options.ptxas, f"-arch={target}", "-v", path, "-o", os.path.join(folder, "a.cubin")],
                              capture_output=True, text=True)
    return case, said.stderr if said.returncode == 0 else "(C7500) ptxas fails: " + said.stderr.strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--ptxas", required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--eighth", type=eighths, default=range(8), metavar="N|fresh")
    parser.add_argument("--every", type=int, default=1, help="only every n-th of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--print", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    cases = [(file, kernel, d, dv, causal) for number, (file, kernel) in enumerate(KERNELS)
             for d in DIMS for dv in DIMS for causal in (False, True)
             if (options.all or is_drawn(number, d, dv, causal, options.eighth))
             and (not options.words or any(word in kernel for word in options.words))]
    cases += [(kernel, kernel, d, dv, causal, pinned) for kernel, d, dv, pinned in PINNED for causal in (False, True)
              if not options.words or any(word in kernel for word in options.words)]
    cases = [c for k, c in enumerate(cases) if (k + k // 2) % options.every == 0]  # of full and causal now one, now the other
    bad, grouped, known = 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (_, kernel, d, dv, causal, *pinned), said in pool.map(lambda case: assembled(options, case), cases):
            if said is None:
                continue
            grouped += 1
            name = f"{kernel} D={d} DV={dv}{' causal' if causal else ''} {' '.join(pinned)}"
            messages = re.findall(r"\(C75\d\d\).*", said)
            for message in messages:
                print(f"{name}: {message}")
            known += name in KNOWN and messages != []
            bad += len(messages) if name not in KNOWN else 0
            if name in KNOWN and not messages:
                print(f"{name}: no miss any more: take it out of KNOWN")
                bad += 1
            if options.print:
                print(f"{name}: {', '.join(re.findall(r'Used [0-9]+ registers|[0-9]+ bytes spill stores', said))}", flush=True)
    print(f"{len(cases)} kernels, {grouped} of them with products of warp groups, {known} known misses, {bad} other messages")
    if grouped == 0:
        print("there is nothing that could fail")
    return 1 if bad or grouped == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
