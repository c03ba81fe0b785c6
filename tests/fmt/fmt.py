#!/usr/bin/env python3
"""fmt.py - `tilec fmt` on every .tile file of the project, and on those files with their layout spoiled.

For each file that parses: laid out twice it is as laid out once; the tree is the same (--emit=ast); the comments are the same, in
order; files of examples/ and stdlib/ do not change.  Spoiled files (blanks doubled or removed, lines joined or indented by
chance) have the same tree and comments too, and come to rest after one more time.

    fmt.py --tilec TILEC [--seeds 3]
"""
import argparse
import glob
import os
import random
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ["examples", "stdlib", "tests/fuzz/cases", "tests/fuzz/regressions", "tests/interpret", "tests/check", "tests/parse", "tests/ptx",
           "tests/lex", "tests/passes", "tests/limits", "tests/run", "tests/search", "tests/schedule", "bench", "tests/gpu"]
FIXED = ("examples/", "stdlib/")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\[^\n])*"|\s+|[0-9][0-9.]*e[-+][0-9]+|[A-Za-z_0-9.]+|<<|>>|[-+*/=!<>]=|&&|\|\||->|.', re.S)


def run(tilec, *words, text=None):
    done = subprocess.run([tilec, *words], input=text, capture_output=True)
    return done.returncode, done.stdout, done.stderr


def fmt(tilec, text):
    return run(tilec, "fmt", "-", text=text)


def tree(tilec, path, text, scratch):
    """The program as the parser understands it; None when it does not parse."""
    name = os.path.join(scratch, "program.tile")
    with open(name, "wb") as file:
        file.write(text)
    status, out, _ = run(tilec, name, "-I", os.path.dirname(path), "--emit=ast", "-o", "-")
    return out if status == 0 else None


def pieces(text):
    return TOKEN.findall(text.decode("utf-8", "surrogateescape"))


def comments(text):
    return [piece.rstrip() for piece in pieces(text) if piece.startswith(("//", "/*"))]


def spoiled(text, seed):
    """The same program, laid out badly."""
    chance, out, last = random.Random(seed), [], ""
    for piece in pieces(text):
        if piece.isspace():
            after_comment = last.startswith("//")
            choice = chance.randrange(6)
            if choice == 0:
                piece = "   "
            elif choice == 1:
                piece = "\n" + " " * chance.randrange(9)
            elif choice == 2:
                piece = "\r\n\n\n\t"
            elif choice == 3:
                piece = " "
            if after_comment and "\n" not in piece:
                piece = "\n" + piece
        elif chance.randrange(12) == 0 and not last.startswith("//"):
            out.append(chance.choice([" ", "  ", "\n"]))
        out.append(piece)
        last = piece
    return "".join(out).encode("utf-8", "surrogateescape")


def check(tilec, path, text, scratch, seed):
    """What is wrong with one file: sentences."""
    status, once, said = fmt(tilec, text)
    before = tree(tilec, path, text, scratch)
    if status == 1 and before is None:
        return ["does not parse"] if seed is not None else []
    if status != 0:
        return [f"status {status}: {said.decode(errors='replace')[:300]}"]
    bad = []
    if tree(tilec, path, once, scratch) != before:
        bad.append("another tree")
    if comments(once) != comments(text):
        bad.append("other comments")
    status, twice, _ = fmt(tilec, once)
    if status != 0 or twice != once:
        bad.append("changes when laid out again")
    if seed is None and path.startswith(FIXED) and once != text:
        bad.append("is laid out in another way than fmt does")
    return bad


def command_line(tilec, scratch):
    """The options: sentences on what is wrong."""
    name, bad = os.path.join(scratch, "a.tile"), []
    with open("examples/copy.tile", "rb") as file:
        good = file.read()
    ugly = good.replace(b"= load", b"=  load")

    def want(what, done, status, out):
        if done[0] != status or (out is not None and done[1] != out):
            bad.append(f"{what}: {done}")

    def write(text):
        with open(name, "wb") as file:
            file.write(text)

    write(ugly)
    want("--check", run(tilec, "fmt", "--check", name, "examples/add.tile"), 1, name.encode() + b"\n")
    want("print", run(tilec, "fmt", name), 0, good)
    want("-", run(tilec, "fmt", "-", text=ugly), 0, good)
    want("nothing", run(tilec, "fmt", text=ugly), 0, good)
    want("-i", run(tilec, "fmt", "-i", name), 0, b"")
    want("--check", run(tilec, "fmt", "--check", name), 0, b"")
    want("-i -", run(tilec, "fmt", "-i", "-", text=ugly), 1, b"")
    want("-i --check", run(tilec, "fmt", "-i", "--check", name), 1, b"")
    want("unknown option", run(tilec, "fmt", "-x", name), 1, b"")
    want("no file", run(tilec, "fmt", name + "x"), 1, b"")
    want("tile IR", run(tilec, "fmt", "x.tir"), 1, b"")
    want("empty", run(tilec, "fmt", text=b""), 0, b"")
    want("no module", run(tilec, "fmt", text=b"use  nowhere ;"), 0, b"use nowhere;\n")
    write(b"kernel k( {")
    want("syntax", run(tilec, "fmt", "-i", name), 1, b"")
    with open(name, "rb") as file:
        if file.read() != b"kernel k( {":
            bad.append("a file with errors was written")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    tilec, bad, files = os.path.abspath(options.tilec), 0, 0
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as scratch:
        for sentence in command_line(tilec, scratch):
            print(sentence)
            bad += 1
        for folder in FOLDERS:
            for path in sorted(glob.glob(f"{folder}/**/*.tile", recursive=True)):
                with open(path, "rb") as file:
                    text = file.read()
                files += 1
                parses = fmt(tilec, text)[0] == 0
                for seed in [None] + (list(range(options.seeds)) if parses and folder != "tests/lex" else []):
                    given = text if seed is None else spoiled(text, f"{path} {seed}")
                    for sentence in check(tilec, path, given, scratch, seed):
                        print(f"{path} (seed {seed}): {sentence}")
                        bad += 1
    print(f"{files} files, {bad} faults")
    return bad > 0 or files < 100


if __name__ == "__main__":
    sys.exit(main())
