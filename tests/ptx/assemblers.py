#!/usr/bin/env python3
"""assemblers.py - what several versions of ptxas make of the default kernels: the table of docs/ptxas.md.

    assemblers.py --tilec TILEC PTXAS ..        compare with what is known
    assemblers.py --tilec TILEC --print PTXAS .. the table, in markdown

Each must take them all; a spill or a serialised product that is not in KNOWN is a fault.  `pip download --no-deps nvidia-cuda-nvcc==13.5.*`
(nvidia-cuda-nvcc-cu12 before 13.0) has a ptxas.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# bytes that a thread spills, by target, program, definitions and version
KNOWN = {}


def cases():
    for target in "sm_80", "sm_90", "sm_100":
        for program in "gemm", "mlp", "attention_varlen", "attention_decode":
            yield target, program, ""
        for program in "attention", "attention_bwd":
            for d in 64, 128:
                for causal in "false", "true":
                    yield target, program, f"D={d} CAUSAL={causal}"


def version_of(ptxas):
    return re.search(r"release (\d+\.\d+)", subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout)[1]


def assembled(ptxas, ptx, folder):
    """(taken, bytes that are spilled, products that run one after another)"""
    with open(ptx, encoding="utf-8") as file:
        target = re.search(r"^\.target (\w+)", file.read(), re.M)[1]
    done = subprocess.run([ptxas, "-v", "-arch", target, ptx, "-o", os.path.join(folder, "x.cubin")], capture_output=True, text=True)
    said = done.stdout + done.stderr
    return (done.returncode == 0, sum(map(int, re.findall(r"(\d+) bytes spill stores", said))),
            len(re.findall(r"wgmma.*serializ", said, re.I)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--print", action="store_true")
    parser.add_argument("ptxas", nargs="+")
    options = parser.parse_args()
    tools = {version_of(ptxas): ptxas for ptxas in options.ptxas}
    bad, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        for target, program, defines in cases():
            ptx = os.path.join(folder, "x.ptx")
            words = [word for define in defines.split() for word in ("-D", define)]
            subprocess.run([options.tilec, f"{ROOT}/examples/{program}.tile", "-arch", target, *words, "-o", ptx], check=True,
                           capture_output=True)
            found = {}
            for version, ptxas in tools.items():
                taken, spilled, serialised = found[version] = assembled(ptxas, ptx, folder)
                known = KNOWN.get((target, program, defines, version), 0)
                if not taken or serialised > 0 or spilled > known:
                    bad.append(f"{target} {program} {defines}, ptxas {version}: " + (
                        f"{spilled} bytes spilled, {serialised} serialised" if taken else "is refused"))
            if any(not taken or spilled or serialised for taken, spilled, serialised in found.values()):
                rows.append(f"| {target} | `{program}` {defines} | " + " | ".join(
                    "refused" if not t else f"{s} bytes" + ", serialised" * (n > 0) if s or n else "-" for t, s, n in found.values()) + " |")
    if options.print:
        print("\n".join(["| target | kernel | " + " | ".join(tools) + " |", "|---" * (2 + len(tools)) + "|", *rows]))
    print("\n".join(bad), file=sys.stderr)
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(main())
