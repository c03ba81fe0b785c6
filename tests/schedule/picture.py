#!/usr/bin/env python3
"""Pictures of schedules, and the text that docs/schedule.md shows.

    picture.py --tilec TILEC            every example's picture is well-formed, inside its frame, the same
                                        each time; that of product.svg and the text of the document are as
                                        they stand there
    picture.py --tilec TILEC --update   write these two anew
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SVG = "{http://www.w3.org/2000/svg}"
PRODUCT = ["examples/gemm.tile", "-arch", "sm_90", "--plan=consumers=2,stages=3", "-D", "TM=64",
           "-D", "TN=128", "-D", "TK=64", "-D", "BIAS=false"]
EXAMPLES = [
    ["examples/gemm.tile", "-arch", "sm_90"],
    ["examples/gemm.tile", "-arch", "sm_80"],
    ["examples/copy.tile", "-arch", "sm_100"],
    ["examples/attention.tile", "-arch", "sm_90"],
    ["examples/attention.tile", "-arch", "sm_90", "-D", "D=64", "-D", "CAUSAL=true"],
    ["examples/attention.tile", "-arch", "sm_90", "-D", "WINDOW=100", "-D", "SOFTCAP=true"],
    ["examples/attention.tile", "-arch", "sm_90", "-D", "D=256", "-D", "LAZY=false"],
    ["examples/attention_bwd.tile", "-arch", "sm_90"],
    ["examples/attention_bwd.tile", "-arch", "sm_90", "-D", "D=64", "-D", "CAUSAL=true"],
    # a role of its own issues products: chains, graphs, branches around products, pairs, a role that changes sums, answers
    ["examples/gemm.tile", "-arch", "sm_100"],
    ["examples/gemm.tile", "-arch", "sm_100", "-D", "TM=128", "-D", "TN=256", "-D", "TK=64", "-D", "BIAS=false",
     "--plan=consumers=1,stages=6,cluster=2"],
    ["examples/attention.tile", "-arch", "sm_103"],
    ["examples/attention.tile", "-arch", "sm_100", "-D", "D=64", "-D", "CAUSAL=true"],
    ["examples/attention.tile", "-arch", "sm_100", "-D", "M=128", "-D", "N=128",
     "--plan=consumers=2,stages=2,correction=1"],
    ["examples/attention_bwd.tile", "-arch", "sm_100"],
    ["examples/attention_bwd.tile", "-arch", "sm_100", "-D", "D=64", "-D", "CAUSAL=true"],
    ["examples/attention_varlen.tile", "-arch", "sm_100"],
    ["examples/mlp.tile", "-arch", "sm_100"],
]
NEAR = 0.33  # of the time of an iteration: how far that of the picture, which has no queues, may be from it


def rates(words):
    """(clocks of an iteration by the estimate, by the picture) of each kernel."""
    said = re.findall(r"time: an iteration takes (\d+) clocks", words)
    drawn = re.findall(r"an iteration each (\d+)", words)
    return list(zip(map(int, said), map(int, drawn), strict=True))


def draw(tilec, options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.svg")
        subprocess.run([tilec, *options, f"--dump-schedule={path}"], cwd=ROOT, check=True)
        with open(path, encoding="utf-8") as file:
            return file.read()


def faults_of(text, options):
    """What is wrong with a picture."""
    root = tree.fromstring(text)
    bad = []
    if root.tag != SVG + "svg":
        return ["it is no SVG"]
    width, height = float(root.get("width")), float(root.get("height"))
    for shape in root.iter(SVG + "rect"):
        if shape.get("width") == "100%":
            continue
        x, y = float(shape.get("x")), float(shape.get("y"))
        if x < 0 or y < 0 or float(shape.get("width")) < 0 or \
                x + float(shape.get("width")) > width or y + float(shape.get("height")) > height:
            bad.append(f"a shape lies outside: {shape.attrib}")
    for label in root.iter(SVG + "text"):
        if not 0 <= float(label.get("y")) <= height:
            bad.append(f"a text lies outside: {label.text}")
    words = "".join(root.itertext())
    planned = "one warp group copies" in words
    kernels = words.count("one warp group copies")
    for window in ["prologue, and the first iteration", "one iteration of the main loop", "epilogue"]:
        if words.count(window) != kernels and options[2] != "sm_90":
            bad.append(f"'{window}' of {words.count(window)} of {kernels} kernels")
    if options[2] not in ("sm_80", "sm_90"):
        bad += [f"an iteration takes {drawn} clocks, by the estimate {said}" for said, drawn in rates(words)
                if abs(drawn - said) > NEAR * said]
    if planned != ("tensor cores" in words):
        bad.append("a plan without a timeline")
    if options[2] == "sm_90" and "gemm" in options[0] and not planned:
        bad.append("no plan")
    if re.search(r"\bnan\b|\binf\b", words):
        bad.append("a number that is none")
    return bad


def document(tilec, update):
    path = os.path.join(ROOT, "docs", "schedule.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = re.search(r"    \$ tilec ([^\n]*--dump-schedule)\n((?:    [^\n]*\n|\n)*?)(?=\n?\S)", text)
    if not found:
        return ["docs/schedule.md shows no schedule"]
    said = subprocess.run([tilec, *found[1].split()], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout
    block = "".join(f"    {line}".rstrip() + "\n" for line in said.splitlines())
    if found[2].rstrip("\n") == block.rstrip("\n"):
        return []
    if not update:
        return ["docs/schedule.md does not show what tilec says now"]
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:found.start(2)] + block + "\n" + text[found.end(2):].lstrip("\n"))
    return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    tilec = os.path.abspath(options.tilec)
    bad = []
    for example in EXAMPLES:
        picture = draw(tilec, example)
        bad += [f"{' '.join(example)}: {fault}" for fault in faults_of(picture, example)]
        if picture != draw(tilec, example):
            bad.append(f"{' '.join(example)}: drawn again, it differs")
    golden = os.path.join(HERE, "product.svg")
    picture = draw(tilec, PRODUCT)
    if options.update:
        with open(golden, "w", encoding="utf-8") as file:
            file.write(picture)
    else:
        with open(golden, encoding="utf-8") as file:
            if file.read() != picture:
                bad.append("product.svg is not what tilec draws now; see --update")
    bad += document(tilec, options.update)
    print("\n".join(bad) if bad else f"{len(EXAMPLES)} pictures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
