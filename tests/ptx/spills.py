#!/usr/bin/env python3
"""spills.py - ptxas takes the chosen kernels, and spills no register of theirs.

    spills.py --tilec TILEC --ptxas PTXAS [--every N] [--print]

Both ways: with warp groups where the target has them (the default), and without (--plan=none), as
all targets can.  Of kernels of warp groups ptxas has nothing to say about their products either
(C75..: it keeps them apart, or waits for them by itself).  Not held to it: attention with LAZY=false
without warp groups, which is not the default.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def cases():
    """(file, kernel, target, definitions, options)"""
    for arch in ["sm_80", "sm_90", "sm_100"]:
        for flags in [[], ["--plan=none"]] if arch == "sm_90" else [[]]:
            for d in [64, 128]:
                for causal in ["false", "true"]:
                    for lazy in ["false", "true"]:
                        yield ("attention", "attention", arch,
                               {"D": d, "CAUSAL": causal, "LAZY": lazy}, flags)
                    for kernel in ["attention_bwd", "attention_bwd_dkdv", "attention_bwd_dq"]:
                        yield "attention_bwd", kernel, arch, {"D": d, "CAUSAL": causal}, flags
            yield "gemm", "gemm", arch, {}, flags
            for d in [64, 128]:
                yield "mlp", "mlp", arch, {"D": d}, flags
                for kernel in ["attention_decode", "attention_decode_split"]:
                    yield "attention_decode", kernel, arch, {"D": d, "G": 8}, flags
            yield "attention_decode", "attention_decode_combine", arch, {}, ["--plan=none"]
    for d in [160, 192]:  # what auto takes: pairs of blocks
        for causal in ["false", "true"]:
            yield "attention", "attention", "sm_100", {"D": d, "CAUSAL": causal}, []
    for d, plan in [(64, "consumers=4,stages=4,q_stages=2"), (128, "consumers=3,stages=3,q_stages=2"),
                    (256, "consumers=2,stages=2,q_stages=1")]:
        for causal in ["false", "true"]:
            for lazy in ["false", "true"]:
                yield ("attention", "attention", "sm_90",
                       {"D": d, "M": 64, "N": 64, "CAUSAL": causal, "LAZY": lazy}, ["--plan=" + plan])


def allowed(defines, has_roles):
    """Bytes of a thread; None: any."""
    return None if not has_roles and defines.get("LAZY") == "false" else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--ptxas", required=True)
    parser.add_argument("--every", type=int, default=1, help="only every n-th kernel")
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        ptx = os.path.join(folder, "a.ptx")
        for k, (file, kernel, arch, defines, flags) in enumerate(cases()):
            if (k + k // 2) % options.every:  # of full and causal now one, now the other
                continue
            name = " ".join([kernel, arch, *(f"{k}={v}" for k, v in defines.items()), *flags])
            subprocess.run([options.tilec, os.path.join(ROOT, "examples", file + ".tile"),
                            "-arch", arch, "--kernel", kernel, "-o", ptx, *flags] +
                           [part for k, v in defines.items() for part in ("-D", f"{k}={v}")],
                           check=True)
            with open(ptx, encoding="utf-8") as text:
                text = text.read()
            target = re.search(r"^\.target (\w+)", text, re.M)[1]
            has_roles = "wgmma.mma_async" in text
            if arch == "sm_90" and has_roles != (flags != ["--plan=none"]):
                print(f"{name}: {'it has' if has_roles else 'it has no'} products of warp groups")
                bad += 1
            said = subprocess.run([options.ptxas, f"-arch={target}", "-v", ptx, "-o",
                                   os.path.join(folder, "a.cubin")],
                                  capture_output=True, text=True)
            found = re.search(r"(\d+) bytes spill stores", said.stderr)
            if options.print:
                print(f"{name}: {', '.join(re.findall(r'Used .*|.* spill .*|.*C75.*', said.stderr))}")
            most = allowed(defines, has_roles)
            if said.returncode != 0 or not found:
                print(f"{name}: {said.stderr.strip()}")
                bad += 1
            elif most is not None and int(found[1]) > most:
                print(f"{name}: {found[1]} bytes spilled, at most {most}")
                bad += 1
            for message in re.findall(r"\(C75\d\d\).*", said.stderr):
                print(f"{name}: {message}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
