#!/usr/bin/env python3
"""edited.py - a schedule edited as text compiles to PTX, and what the edit asks for is what the PTX does.

    edited.py --tilec T --examples FOLDER

A planned GEMM is printed behind `roles`; its text is changed and compiled on.  An edit that would race or hang is
refused by check-roles.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

OPTIONS = ["-arch", "sm_90"]
PLAN = ["-DTM=64", "-DTN=128", "-DTK=64", "-DBIAS=false", "--plan=consumers=2,stages=4"]


def compiled(tilec, text):
    """(PTX or None, what was said)"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "edited.tir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([tilec, path, *OPTIONS, "-o", "-"], capture_output=True, text=True, check=False)
    return (done.stdout if done.returncode == 0 else None), done.returncode, done.stderr


def dump(tilec, program, name, *more):
    return subprocess.run([tilec, program, *OPTIONS, *PLAN, *more, f"--dump-ir={name}"], capture_output=True, text=True,
                          check=True).stdout


def shared_bytes(ptx):
    return int(re.search(r"dynamic shared memory (\d+) bytes", ptx)[1])


def code(ptx):
    """Without comments and the metadata, which has the plan's own words."""
    return re.sub(r"^ *//.*\n", "", ptx[ptx.index(".visible .entry"):], flags=re.M)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--examples", required=True)
    arguments = parser.parse_args()
    tilec, program = arguments.tilec, os.path.join(arguments.examples, "gemm.tile")
    faults = []

    def expect(what, holds, said=""):
        if not holds:
            faults.append(f"{what}\n{said[-1500:]}")

    text = dump(tilec, program, "roles")
    four, _, said = compiled(tilec, text)
    expect("the text as it is compiles", four is not None, said)
    # the depth of both pipelines
    three, _, said = compiled(tilec, re.sub(r"(stages) 4( offset 0 bytes 0 pipeline)", r"\1 3\2", text))
    expect("three stages instead of four compile", three is not None, said)
    wanted = subprocess.run([tilec, program, *OPTIONS, *[o.replace("stages=4", "stages=3") for o in PLAN], "-o", "-"],
                            capture_output=True, text=True, check=True).stdout
    if four and three:
        expect("a stage less is less shared memory", shared_bytes(three) < shared_bytes(four))
        expect("they are the code of a plan with three", code(three) == code(wanted))
    # the order in which consumers wait
    moved = re.sub(r"^( +consumer_wait \$B_1\n)((?:(?! +consumer_).*\n)*)( +consumer_wait \$A_0\n)", r"\3\1\2", text, flags=re.M)
    expect("the waits stand as this test thinks", moved != text)
    other, _, said = compiled(tilec, moved)
    expect("waiting for A before B compiles", other is not None, said)
    expect("it is other code", other is not None and four is not None and code(other) != code(four))
    # what is not right
    no_release, status, said = compiled(tilec, re.sub(r"^ +consumer_release \$B_1.*\n", "", text, flags=re.M))
    expect("a stage that is never given back is refused", no_release is None and status in (1, 2), said)
    # a pinned number of registers
    fewer, _, said = compiled(tilec, re.sub(r"registers 24\b", "registers 40", re.sub(r"registers 240\b", "registers 232", text)))
    expect("other registers of roles compile", fewer is not None, said)
    expect("they are set", fewer is not None and "setmaxnreg.inc.sync.aligned.u32 232" in fewer, said)
    print("\n".join(faults) or "edited schedules compile as they say")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
