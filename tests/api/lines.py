#!/usr/bin/env python3
"""lines.py - the lines of the source that PTX, the page and the schedule give, against the source.

    lines.py --tilec TILEC

For every example and target: an instruction that reads a tensor is on a line of the source that loads (or asks for an element),
one that writes a tensor on a line that stores or adds to memory, a product on a line with a product, an exponential on one with an exponential.  (A counter of tiles
belongs to the kernel.)  The page and --dump-schedule are asked about one kernel a target.
"""
import argparse
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGETS = ["sm_80", "sm_90", "sm_100"]
OF_KERNEL = re.compile(r"^kernel ")
# what an instruction is, and what stands on a line of the source that asks for it
KINDS = [
    ("a copy", re.compile(r"cp\.async\.c[ag]\.|cp\.async\.bulk(\.tensor\.\dd)?\.shared::cluster\.global|ld\.global"), re.compile(r"\bload\b|\bgather|\w\[")),
    ("a store", re.compile(r"cp\.async\.bulk(\.tensor\.\dd)?\.global\.shared|st\.global|red\.|atom\.global|cp\.reduce"),
     re.compile(r"\bstore\b|\batomic_\w+|\w\[")),
    ("a product", re.compile(r"mma\.sync|wgmma\.mma_async|tcgen05\.mma"), re.compile(r"\bmma\w*\(")),
    ("an exponential", re.compile(r"ex2\.approx"), re.compile(r"\bexp2?\(")),
]


def source_line(path, line, texts):
    if path.startswith("<stdlib>/"):
        path = os.path.join(ROOT, "stdlib", path[len("<stdlib>/"):])
    if path not in texts:
        with open(path) as file:
            texts[path] = file.read().split("\n")
    return texts[path][line - 1]


def check(tilec, example, target, texts, bad):
    done = subprocess.run([tilec, example, "-arch", target, "-lineinfo", "-o", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        bad.append(f"{example} {target}: {done.stderr}")
        return 0
    files = dict((int(n), path) for n, path in re.findall(r'^\t?\.file (\d+) "([^"]*)"', done.stdout, re.M))
    where, wrong, n = None, set(), 0
    for text in done.stdout.split("\n"):
        loc = re.match(r"\s*\.loc (\d+) (\d+)", text)
        if loc:
            where = files[int(loc[1])], int(loc[2])
        for kind, instruction, words in KINDS:
            if re.match(r"\s*(@!?%p\d+ )?(" + instruction.pattern + ")", text) and where:
                n += 1
                line = source_line(*where, texts)
                counter = "atom.global" in text and OF_KERNEL.match(line)
                if not words.search(line.split("//")[0]) and not counter:
                    wrong.add((kind, where, line.strip()[:60], text.strip().split()[0 if text.strip()[0] != "@" else 1]))
    for kind, where, line, text in sorted(wrong):
        bad.append(f"{os.path.basename(example)} {target}: {kind}, {text}, is on line {where[1]} of {where[0]}: {line}")
    return n


def check_pictures(tilec, target, texts, bad):
    """Copies in tile IR and PTX of the page, and in the schedule as text."""
    example = os.path.join(ROOT, "examples", "attention.tile")
    page = subprocess.run([tilec, example, "-arch", target, "--emit=html", "-o", "-"], capture_output=True, text=True,
                          env={**os.environ, "PATH": "/nowhere"}).stdout
    schedule = subprocess.run([tilec, example, "-arch", target, "--dump-schedule"], capture_output=True, text=True).stdout
    copies = re.findall(r'data-s="1:(\d+)"> *(?:tma_load|cp\.async\.bulk\.tensor\S+global\S* )', page)
    copies += re.findall(r"starts copy into .*\[attention.tile:(\d+)\]", schedule)
    wrong = [line for line in copies if not re.search(r"\bload\b", source_line(example, int(line), texts))]
    if wrong or len(copies) < 4:
        bad.append(f"page and schedule {target}: {len(copies)} copies, not on lines that load: {wrong}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    tilec = os.path.abspath(parser.parse_args().tilec)
    bad, texts, n = [], {}, 0
    for example in sorted(glob.glob(os.path.join(ROOT, "examples", "*.tile"))):
        for target in TARGETS:
            n += check(tilec, example, target, texts, bad)
    for target in ["sm_90", "sm_100"]:
        check_pictures(tilec, target, texts, bad)
    print("\n".join(bad))
    print(f"{n} instructions, {len(bad)} findings")
    return 1 if bad or n < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
