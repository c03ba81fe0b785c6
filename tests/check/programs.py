#!/usr/bin/env python3
"""programs.py - what holds of every good program: it compiles to tile IR, and printing it and
parsing the print gives the same print.

    programs.py TILEC FILE..       .tile files, and .md files with ```tile blocks
"""
import os
import re
import subprocess
import sys
import tempfile


def run(tilec, *args):
    done = subprocess.run([tilec, *args], capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def programs(path):
    """(name, text) of each program in a file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not path.endswith(".md"):
        return [(path, text)]
    found = []
    for block in re.finditer(r"^```tile\n(.*?)^```$", text, re.M | re.S):
        found.append((f"{path}:{text.count(chr(10), 0, block.start()) + 1}", block[1]))
    if not found:
        raise SystemExit(f"{path} has no ```tile block")
    return found


def check(tilec, folder, name, text, library):
    problems = []
    source = os.path.join(folder, "program.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    printed = os.path.join(folder, "printed.tile")
    status, once, errors = run(tilec, "--emit=ast", source)
    if status != 0:
        return [f"{name}: does not parse\n{errors}"]
    with open(printed, "w", encoding="utf-8") as file:
        file.write(once)
    status, twice, errors = run(tilec, "--emit=ast", printed)
    if status != 0 or once != twice:
        problems.append(f"{name}: its print does not parse to the same print\n{errors}")
    if library:
        return problems
    lowered = []
    for path in (source, printed):
        status, tir, errors = run(tilec, "-O0", "--emit=tir", path)
        if status != 0:
            return problems + [f"{name}: does not compile\n{errors}"]
        lowered.append(re.sub(r'^ *from "[^"]*" \d+\n| at \d+(?: of "[^"]*")?(?= \{$)', "", tir, flags=re.M))
    if lowered[0] != lowered[1]:
        problems.append(f"{name}: its print has other tile IR")
    return problems


def main():
    tilec, problems, count = os.path.abspath(sys.argv[1]), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for path in sys.argv[2:]:
            for name, text in programs(path):
                count += 1
                problems += check(tilec, folder, name, text, "kernel " not in text)
    for problem in problems:
        print(problem)
    print(f"{count} programs, {len(problems)} problems")
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
