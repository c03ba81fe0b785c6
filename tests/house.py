#!/usr/bin/env python3
"""house.py - rules of the house that no compiler checks.

    house.py layers            who may include whom
    house.py sizes             no source file of more than 900 lines
    house.py mutable LIBRARY.. the libraries have no mutable data but what MUTABLE has a reason for
    house.py limits TILEC [COUNTED [update]]
                               the binary is small; compiling takes little memory and little work,
                               which COUNTED counts (count_blocks.c), so that it does not matter how
                               busy the machine is; `update` writes work.txt anew
"""
import os
import re
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# folder: what its files may include, beside their own folder
LAYERS = {
    "compiler/base": [],
    "dsl": ["compiler/base"],
    "compiler/ir": ["compiler/base"],
    "compiler/emit": ["compiler/base", "compiler/ir"],
    "compiler/command": ["compiler/base", "compiler/tilec.h", "compiler/after_ptxas.h",
                         "compiler/sass.h"],
    "compiler/passes": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/pass.h"],
    "compiler/timeline": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/cost.h",
                          "compiler/group_plans.h", "compiler/flow.h", "compiler/passes"],
    "compiler/lower": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/pass.h", "compiler/passrun.h",
                       "compiler/emit/metadata.h", "compiler/passes", "dsl"],
    "backends/ptx": ["compiler/base", "compiler/ir", "compiler/target.h"],
    "backends/sim": [],
    "backends/cuda": ["compiler/base", "backends/sim/sim.h", "backends/sim/launch_args.h"],
}
# the tree and tile IR meet here only
MEETING = re.compile(r"compiler/lower/ast_to_tir\w*\.[ch]$")


def sources(*suffixes):
    for folder in ["dsl", "compiler", "backends", "stdlib"]:
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(where, name), ROOT)


def layers():
    bad = []
    for path in sources(".c", ".h", ".l", ".y"):
        folder = os.path.dirname(path)
        if folder not in LAYERS:
            continue
        with open(os.path.join(ROOT, path)) as file:
            text = file.read()
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            if "/" not in name:
                if name.endswith(".tab.h"):
                    continue
                name = f"{folder}/{name}"  # beside the file
            allowed = any(name == a or name.startswith(a + "/") for a in LAYERS[folder] + [folder])
            if allowed and name.startswith("dsl/") and folder == "compiler/lower":
                allowed = bool(MEETING.search(path))
            if allowed and MEETING.search(path) and name.startswith("compiler/passes"):
                allowed = False
            if not allowed:
                bad.append(f"{path}: may not include {name}")
    return bad


def sizes():
    bad = []
    for path in sources(".c", ".h", ".l", ".y"):
        with open(os.path.join(ROOT, path)) as file:
            lines = sum(1 for _ in file)
        if lines > 900:
            bad.append(f"{path}: {lines} lines, at most 900")
    return bad


# member of a library and section: why there is mutable data after all
MUTABLE = {
    ("sim_arena.c.o", ".tbss"): "a byte for each thread: that an allocation of the launch it runs has failed. A launch is over "
                                "when a thread of it sees that; the 60 places that allocate have no other handle in common, and "
                                "two launches of one process never share a thread's byte (sim_run.c clears it first)",
}


def mutable(*libraries):
    return [line for library in libraries for line in mutable_data(library)]


def mutable_data(library):
    """Sections of writable data; tables of constant pointers are in .data.rel.ro."""
    bad, member = [], ""
    said = subprocess.run(["size", "-A", library], capture_output=True, text=True, check=True).stdout
    for line in said.split("\n"):
        heading = re.match(r"^(\S+)\s+\(ex ", line)
        if heading:
            member = heading[1]
        section = re.match(r"^(\.data|\.bss|\.tdata|\.tbss)(\.\S+)?\s+(\d+)", line)
        if section and int(section[3]) > 0 and not line.startswith(".data.rel.ro") \
                and (member, section[1]) not in MUTABLE:
            bad.append(f"{member}: {section[3]} bytes in {section[1]}{section[2] or ''}")
    return bad if said else ["size said nothing"]


def compile_examples(tilec):
    """(name and target, what it did) for each example."""
    examples = os.path.join(ROOT, "examples")
    for name in sorted(os.listdir(examples)):
        for arch in ["sm_80", "sm_86", "sm_90", "sm_100"] if name.endswith(".tile") else []:
            command = [tilec, os.path.join(examples, name), "-arch", arch, "-o", "/dev/null"]
            yield f"{name[:-5]} {arch}", subprocess.run(command, capture_output=True, text=True)
    large = os.path.join(ROOT, "tests", "large") # thousands of operations: no pass may be quadratic in them
    for name in sorted(os.listdir(large)):
        command = [tilec, os.path.join(large, name), "-arch", "sm_90", "-O1", "-o", "/dev/null"]
        yield f"large/{name[:-5]} sm_90", subprocess.run(command, capture_output=True, text=True)


def limits(tilec, counted=None, update=None):
    """Compiling takes at most half as many blocks again as work.txt says (in thousands), where it has been counted."""
    bad, work = [], {}
    if os.path.getsize(tilec) > 3 << 20:
        bad.append(f"the binary has {os.path.getsize(tilec)} bytes, at most 3 MiB")
    for what, done in compile_examples(tilec):
        if done.returncode != 0:
            bad.append(f"{what}: {done.stderr.strip()}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if peak > 64 << 10:
        bad.append(f"{peak >> 10} MiB of memory, at most 64")
    if counted is None:
        print("only GCC counts blocks: how much is computed is not looked at")
        return bad
    for what, done in compile_examples(counted):
        said = re.search(r"^blocks (\d+)$", done.stderr, re.M)
        work[what] = int(said[1]) if said else 0
    path = os.path.join(ROOT, "tests", "work.txt")
    if update:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{what} {blocks // 1000}\n" for what, blocks in work.items())
        return bad
    with open(path, encoding="utf-8") as file:
        expected = {" ".join(line.split()[:2]): float(line.split()[2]) for line in file}
    for what, blocks in work.items():
        have, want = blocks / 1000, expected.get(what, 0)
        if not 0 < have <= 1.5 * want:
            bad.append(f"{what}: {have:.0f} thousand blocks, work.txt has {want:.0f}")
    return bad


def main():
    checks = {"layers": layers, "sizes": sizes, "mutable": mutable, "limits": limits}
    bad = checks[sys.argv[1]](*sys.argv[2:])
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
