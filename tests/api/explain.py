#!/usr/bin/env python3
"""explain.py - the names of errors: `tilec explain`, docs/errors.md and the sources agree.

    explain.py --tilec build/tilec

Every error of the sources has a name, every name has one section, every section is of an error that exists.  Each wrong
example gives that error and no other, each right one compiles.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECTION = re.compile(r"^## (E-[A-Z-]+): (.*)$", re.M)
EXAMPLE = re.compile(r"^(Wrong|Right):\n\n```(tile|sh)\n(.*?)^```$", re.M | re.S)
SAYING = re.compile(r"\b(diag_error|run_fail|fail)\(([^;]*?)\"([^\"]*)[^;]*;")
# their fail() is a part of an error, which has its name where it is put together
PARTS = ("compiler/ir/", "compiler/passes/check/check_consumer.c")


def sources():
    for folder in ["dsl", "compiler"]:
        for where, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            for name in sorted(names):
                if name.endswith((".c", ".l", ".y")):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, ROOT), file.read()


def names_in_sources(known):
    """Problems: names without a section, sections without an error, errors without a name."""
    problems, used = [], set()
    for path, text in sources():
        for match in re.finditer(r"\"(E-[A-Z-]+): |\[(E-[A-Z-]+)\]|\"(E-[A-Z-]+)\"", text):
            name = match[1] or match[2] or match[3]
            if name not in known and name != "E-NAME":
                problems.append(f"{path}: {name} has no section in docs/errors.md")
            used.add(name)
        for match in SAYING.finditer(text):
            said = match[3]
            part = match[1] == "fail" and path.startswith(PARTS)
            if said != "%s" and not re.match(r"E-[A-Z-]+: ", said) and not part:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{path}:{line}: this error begins with no name, as in \"E-SHAPE: ..\": {said!r}")
    return problems + [f"no error of the sources has the name {name}" for name in sorted(set(known) - used)]


def run(options, folder, kind, code):
    """(exit status, names of the errors, what was said) of an example."""
    first = code.split("\n", 1)[0]
    words = shlex.split(code if kind == "sh" else first[3:] if first.startswith("// tilec") else "tilec example.tile")
    if kind == "tile":
        with open(os.path.join(folder, "example.tile"), "w", encoding="utf-8") as file:
            file.write(code)
    more = [] if {"run", "search", "--report"} & set(words) else ["-o", "out"]
    done = subprocess.run([options.tilec, *words[1:], *more], cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, re.findall(r"error: .* \[(E-[A-Z-]+)\]$", done.stderr, re.M), done.stderr


def arrays(folder):
    """What the examples of `tilec run` read: 100 floats and one, made without NumPy."""
    for name, values in ("x", 100), ("one", 1):
        head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % values
        head = head.ljust(117) + "\n"
        with open(os.path.join(folder, name + ".npy"), "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(4 * values))


def examples(options, text):
    problems, count = [], 0
    sections = SECTION.split(text)[1:]
    for name, body in zip(sections[0::3], sections[2::3]):
        found = EXAMPLE.findall(body)
        if [what for what, _, _ in found] not in ([], ["Wrong", "Right"]):
            problems.append(f"{name}: expected one wrong example and one right one")
        for what, kind, code in found:
            count += 1
            with tempfile.TemporaryDirectory() as folder:
                shutil.copy(os.path.join(ROOT, "examples", "copy.tile"), folder)
                arrays(folder)
                status, names, said = run(options, folder, kind, code)
            # behind a wrong character the syntax may be wrong, too
            if what == "Wrong" and (status != 1 or names[:1] != [name] or not set(names) <= {name, "E-SYNTAX"}):
                problems.append(f"{name}: the wrong example gave status {status} and {names}\n{said}")
            if what == "Right" and status != 0:
                problems.append(f"{name}: the right example gave status {status}\n{said}")
    return problems, count


def told(options, *words):
    done = subprocess.run([options.tilec, "explain", *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def explanations(options, text):
    problems = []
    rows = SECTION.findall(text)
    listed = [tuple(line.split(None, 1)) for line in told(options)[1].splitlines() if line.startswith("E-")]  # S-: tests/sim/findings.py
    if listed != rows or len(set(name for name, _ in rows)) != len(rows):
        problems.append("`tilec explain` does not list the sections of docs/errors.md, each once")
    for name, summary in rows:
        status, out, _ = told(options, name)
        if status != 0 or not out.startswith(f"{name}: {summary}\n\n") or out.endswith("\n\n") or "```" in out or "\n## " in out:
            problems.append(f"`tilec explain {name}` is not its section:\n{out}")
    shape = told(options, "E-SHAPE")
    if not all(told(options, word) == shape for word in ("shape", "e-shape", "[E-SHAPE]")):
        problems.append("shape, e-shape and [E-SHAPE] are not E-SHAPE")
    if told(options, "shape", "axis")[1] != shape[1] + "\n" + told(options, "axis")[1]:
        problems.append("two names are not explained one after the other")
    for word, said in [("E-SHAP", "there is no error or finding 'E-SHAP'; did you mean 'E-SHAPE'?"),
                       ("zzzzzz", "there is no error or finding 'E-ZZZZZZ'; 'tilec explain' lists them")]:
        if told(options, word) != (1, "", f"tilec: error: {said} [E-OPTION]\n"):
            problems.append(f"`tilec explain {word}` said {told(options, word)}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    options = parser.parse_args()
    options.tilec = os.path.abspath(options.tilec)
    with open(os.path.join(ROOT, "docs", "errors.md"), encoding="utf-8") as file:
        text = file.read()
    problems = names_in_sources({name for name, _ in SECTION.findall(text)}) + explanations(options, text)
    more, count = examples(options, text)
    for problem in problems + more:
        print(problem)
    print(f"{count} examples")
    return 1 if problems or more or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
