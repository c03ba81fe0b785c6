#!/usr/bin/env python3
"""judge_plants.py - a compiler that is wrong in a way that compilers once were: what judge_test.py plants.

    judge_plants.py NAME TILEC ARGUMENTS..    runs TILEC, after it has changed its program or its arguments

`tilec run`, which says what a program means, is left alone.  Each plant is what the mistake made of a program, as text: so it
can be told which programs it changes at all (`changes`).  OUTPUTS: or what it made of PTX.
"""
import os
import re
import subprocess
import sys
import tempfile


def compares(text):
    """a > b + c is a - b > c, which overflows."""
    leaf = r"\((?:[^()]|\([^()]*\))*\)(?:\[[^\]]*\])?|\w+"
    return re.sub(rf"\(({leaf}) (<=?|>=?) \(({leaf}) ([+-]) (\d+)\)\)", r"((\1 - \3) \2 (0 \4 \5))", text)


def begins_early(text):
    """A tile that begins before its tensor is read as zeros."""
    return re.sub(r"\bload (X\d+)\[([^\[\]]*\b(m|n\d+) - (\d+)\b[^\[\]]*)\]", r"where(all(\3 >= \4), load \1[\2], 0)", text)


def loaded_early(text):
    """A tile of a range whose first number is loaded is read as zeros where it begins before its tensor."""
    for name in re.findall(r"for (n\d+) in tiles\(lo\d+\.\.", text):
        text = re.sub(rf"\bload (X\d+)\[([^\[\]]*\b{name}\b[^\[\]]*)\]", rf"where(all({name} >= 0), load \1[\2], 0)", text)
    return text


def packs(text):
    """A vector with parts of a pack, as if it were one range."""
    for first, second in re.findall(r"let \((\w+), (\w+)\) = pack", text):
        text = re.sub(rf"\bload (X\d+)\[([^\[\]:]*)\b{first}, {second}\]", rf"load \1[\2{first}, 0]", text)
    return text


def numbered_outside(text):
    """A range that a loop makes by the same number in each iteration, as if it were made in front of the loop."""
    return re.sub(r"^( *)(for [^\n]*\{)\n *(let n\d+ = tiles\(\w+, \w+\)\[\d+\];)\n", r"\1\3\n\1\2\n", text, flags=re.M)


def pads(text):
    """The reductions of a loop see its padding."""
    if not re.search(r"\b(any|all|min|max)\(v\d+[^()]*axis", text):
        return text
    return re.sub(r"\btiles\((S\d+), (\w+)\) \{", r"tiles(0..cdiv(\1, \2) * \2, \2) {", text)


def copied(text):
    """What is reduced of a tile that a loop copies ahead are other rows."""
    return re.sub(r"\b(let f\d+ = \(?load X\d+\[(?:[^\[\]]*, )?)m, (n\d+)\]", r"\1m + 1, \2]", text)


def scores(text):
    """The product and the difference before an exponential are one multiply-add, which leaves 2^-24 of the score."""
    return re.sub(r"\bexp2\(\((v\d+) - (\w+)\[:, None\]\) \* ([\d.]+)\)", r"exp2((\1 - \2[:, None]) * \3 + \1 * 0.00000006)", text)


def unread(text):
    """Nobody reads this sum: (the compiler gives up)."""
    for name in set(re.findall(r"\b(v\d+) = mma\(.*, \1\);", text)):
        if all(re.search(rf"\b{name} = |var {name}\b", line) for line in text.split("\n") if re.search(rf"\b{name}\b", line)):
            return text + "// unread\n"
    return text


def turned(text):
    """A sum of products that are issued transposed is stored so."""
    square = re.search(r"TM: int = (\d+)>.*\bj in tiles\(S1, \1\)", text, re.S)
    return re.sub(r"(store Y0\[m, j\] = )(.*);", r"\1(\2).T;", text) if square else text


def rounded_once(text):
    """(Marks a difference of two products, which OUTPUTS lets an assembler round once.)"""
    return re.sub(r"\bexp2\(v\d+ \* ([\d.]+) - \(?\w+(?: \* \1\)\[:, None\]|\[:, None\] \* \1)\)", r"\g<0> // once", text)


# name: (what is drawn, how a program is changed, on which target it shows, and as what)
PLANTS = {
    "compares": ("compare", compares, "sm_80", "wrong"),
    "sizes": ("given", None, "sm_90", "wrong"),
    "begins-early": ("shifted", begins_early, "sm_80", "wrong"),
    "loaded-early": ("shifted", loaded_early, "sm_80", "wrong"),
    "numbered-outside": ("numbered", numbered_outside, "sm_80", "wrong"),
    "packs": ("packed", packs, "sm_80", "wrong"),
    "copied": ("copied", copied, "sm_90", "wrong"),
    "pads": ("reductions", pads, "sm_80", "wrong"),
    "scores": ("low", scores, "sm_80", "wrong"),
    "rounded-once": ("low", rounded_once, "sm_80", "wrong"),
    "turned": ("turned", turned, "sm_100", "wrong"),
    "unread": ("unread", unread, "sm_100", "crash"),
}


# name: what is left out of PTX
OUTPUTS = {"rounded-once": (r"\b(add|sub)\.rn\.f32\b", r"\1.f32")}


def smaller(word):
    """A tile size given as 128 or more is compiled as 64."""
    return re.sub(r"^-DGM=(\d+)$", lambda m: "-DGM=64" if int(m[1]) > 64 else m[0], word)


def changes(name, case):
    _, change, _, _ = PLANTS[name]
    if change is None:
        return case.given.get("GM", 0) > 64
    return change(case.text) != case.text


def changed_output(name, tilec, words):
    status = subprocess.run([tilec, *words], check=False).returncode
    path = words[words.index("-o") + 1] if "-o" in words else ""
    if status == 0 and path.endswith(".ptx"):
        with open(path, encoding="utf-8") as file:
            text = re.sub(*OUTPUTS[name], file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return status


def main():
    name, tilec, *words = sys.argv[1:]
    if words[:1] == ["run"]:
        return subprocess.run([tilec, *words], check=False).returncode
    _, change, arch, kind = PLANTS[name]
    if change is None and arch in words:
        words = [smaller(word) for word in words]
    if name in OUTPUTS:
        return changed_output(name, tilec, words)
    with tempfile.TemporaryDirectory() as folder:
        for k, word in enumerate(words):
            if change is None or not word.endswith(".tile"):
                continue
            with open(word, encoding="utf-8") as file:
                text = change(file.read())
            if kind == "crash" and arch in words and text.endswith("// unread\n"):
                print("tilec: internal error: planted", file=sys.stderr)
                return 2
            words[k] = os.path.join(folder, os.path.basename(word))
            with open(words[k], "w", encoding="utf-8") as file:
                file.write(text)
        return subprocess.run([tilec, *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
