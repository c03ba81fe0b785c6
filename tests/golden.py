#!/usr/bin/env python3
"""Golden tests: run lines, input and expected output in one file.

    // RUN: %t --run-pass=simplify %s      %t tilec, %s this file, %S its folder, %T a fresh folder
    //| expected standard output, one line each; the whole of it
    // HAS: text                           the output contains it
    // NOT: text                           the output does not contain it
    // COUNT 4: text                       it occurs exactly so often
    // THEN: text                          a line of the output has it, behind the line of the THEN before
    // NEXT: text                          likewise, and it is the very next line
    // FAILS: text                         exit status 1 (or as STATUS says), and standard error
                                           has exactly this line
    // SAYS: text                          standard error has exactly this line, whatever the status
    // STATUS: 2                           another exit status than expected
    let x = y + 1;   // ERROR: message     an error on this line with exactly this message
    let x = 1;       // WARNING: message   likewise

The name at the end of an error ([E-SHAPE]) is left out here: each error must have one that `tilec explain` knows.

What stands behind a RUN line, up to the next one, is about it; ERROR and WARNING are about every
RUN line.  In all of these but ERROR and WARNING {{..}} is a regular expression; but for FAILS and SAYS
runs of blanks are one blank.  In THEN and NEXT [[x:regex]] is one whose text is called x, and [[x]] is that text
further on: a value's name, which is a number in a dump, is not what a test is about.  From which line of a program a kernel, a loop or a section of PTX comes is left out of
the output, unless the file has `// PLACES`: most programs stand in the test itself.  Likewise what lints say (-Wunused, -Wdimension, -Wbroadcast, -Wrepeated), unless
it has `// LINTS`: most programs have what only their subject needs.

    golden.py --tilec build/tilec tests            run them
    golden.py --tilec build/tilec --update tests   rewrite the //| blocks; refused for a file whose
                                                   status, errors or other checks do not hold
"""
import argparse
import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

DIRECTIVE = re.compile(r"//\s*(RUN|HAS|NOT|COUNT \d+|THEN|NEXT|FAILS|SAYS|STATUS):\s*(.*?)\s*$")
ON_LINE = re.compile(r"//\s*(ERROR|WARNING):\s*(.*?)\s*$")
PLACES = re.compile(r"^ +from \"[^\"]*\" \d+\n| at \d+(?: of \"[^\"]*\")?(?= \{$)|(?<=\w), line \d+ of \S+$", re.M)
MESSAGE = re.compile(r"^(.*?):(\d+):\d+: (error|warning): (.*)$")
NAME = re.compile(r" \[(E-[A-Z-]+)\]$")
LINT = re.compile(r"^[^ ]+:\d+:\d+: warning: .* \[-W(unused|dimension|broadcast|repeated)\]\n.*\n.*\n", re.M)


class Run:
    def __init__(self, command, line):
        self.command, self.line = command, line
        self.block = None  # first line, last line + 1, text
        self.checks = []  # (kind, text)
        self.fails = []
        self.says = []
        self.status = None


def read_test(path):
    """The runs of a file, and what it expects on its lines."""
    runs, expected = [], []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines):
        on_line = ON_LINE.search(line)
        if on_line:
            expected.append((number + 1, on_line[1].lower(), on_line[2]))
            continue
        if line.startswith("//|") and runs:
            block = runs[-1].block
            if block and block[1] != number:
                raise ValueError(f"{path}:{number + 1}: a second //| block for one RUN")
            text = line[4:] if line.startswith("//| ") else line[3:]
            runs[-1].block = (block[0] if block else number, number + 1,
                              (block[2] if block else []) + [text])
            continue
        directive = DIRECTIVE.match(line)
        if not directive:
            continue
        kind, text = directive[1], directive[2]
        if kind == "RUN":
            runs.append(Run(text, number + 1))
        elif not runs:
            raise ValueError(f"{path}:{number + 1}: {kind} before any RUN")
        elif kind == "FAILS":
            runs[-1].fails.append(text)
        elif kind == "SAYS":
            runs[-1].says.append(text)
        elif kind == "STATUS":
            runs[-1].status = int(text)
        else:
            runs[-1].checks.append((kind, text))
    return lines, runs, expected


def pattern(text):
    parts = re.split(r"\{\{(.*?)\}\}", re.sub(r"\s+", " ", text))
    return re.compile("".join(p if k % 2 else re.escape(p) for k, p in enumerate(parts)))


def in_order(checks, stdout):
    """What is wrong with the THEN and NEXT lines, in a list."""
    lines = [re.sub(r"\s+", " ", line) for line in stdout.split("\n")]
    at, known = -1, {}
    for kind, text in checks:
        parts = re.split(r"(\{\{.*?\}\}|\[\[\w+(?::.*?)?\]\])", re.sub(r"\s+", " ", text))
        want, new = "", []
        for k, part in enumerate(parts):
            name = part[2:-2].partition(":")
            if k % 2 == 0:
                want += re.escape(part)
            elif part.startswith("{{"):
                want += part[2:-2]
            elif name[1]:
                want += f"(?P<{name[0]}>{name[2]})"
                new.append(name[0])
            elif name[0] in known:
                want += re.escape(known[name[0]]) + r"(?!\w)"
            else:
                return [f"{kind}: {text}: nothing is called {name[0]} yet"]
        found = None
        for line in range(at + 1, min(at + 2, len(lines)) if kind == "NEXT" else len(lines)):
            found = re.search(want, lines[line])
            if found:
                break
        if not found:
            said = f" ('{lines[at + 1]}')" if kind == "NEXT" and at + 1 < len(lines) else ""
            values = "".join(f", {name} is '{value}'" for name, value in known.items() if f"[[{name}]]" in text)
            return [f"behind line {at + 1} of the output {'the next line does not have' if kind == 'NEXT' else 'no line has'} "
                    f"'{text}'{said}{values}"]
        at = line
        known.update((name, found[name]) for name in new)
    return []


def same_line(want, line):
    parts = re.split(r"\{\{(.*?)\}\}", want)
    return re.fullmatch("".join(p if k % 2 else re.escape(p) for k, p in enumerate(parts)), line)


@functools.lru_cache(maxsize=None)
def known_names(tilec):
    """The names of errors that `tilec explain` lists."""
    said = subprocess.run([tilec, "explain"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in said.splitlines()}


def without_names(stderr, tilec):
    """(text without names of errors, problems with them)"""
    lines, problems = [], []
    for line in stderr.split("\n"):
        name = NAME.search(line)
        if re.match(r"^([^ :]+:\d+:\d+|tilec): error: ", line) and not re.search(r"\d+ more errors not shown$", line):
            if not name:
                problems.append(f"an error without a name: '{line}'")
            elif name[1] not in known_names(tilec):
                problems.append(f"docs/errors.md has no {name[1]}: '{line}'")
        lines.append(line[:name.start()] if name else line)
    return "\n".join(lines), problems


def on_lines(path, stderr):
    """Errors and warnings at lines of the test itself, and the others as whole lines."""
    found, others = [], []
    for line in stderr.split("\n"):
        message = MESSAGE.match(line)
        if message and os.path.basename(message[1]) == os.path.basename(path):
            found.append((int(message[2]), message[3], message[4]))
        elif message or re.match(r"^[^ :]+(:\d+)?: (error|warning|internal error): ", line):
            others.append(line)
    return found, others


def run_one(path, run, expected, tilec, folder, places, lints):
    """Returns (problems, stdout): what does not hold, the //| block aside."""
    names = {"%t": tilec, "%s": os.path.basename(path), "%S": ".", "%T": folder}
    words = [re.sub(r"%[tsST]", lambda m: names[m[0]], w) for w in shlex.split(run.command)]
    try:
        done = subprocess.run(words, cwd=os.path.dirname(path) or ".", capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"can not run: {error}"], ""
    stdout = done.stdout.decode("utf-8", "replace")
    if not places:
        stdout = PLACES.sub("", stdout)
    stderr = done.stderr.decode("utf-8", "replace")
    if not lints:
        stderr = LINT.sub("", stderr)
    stderr, problems = without_names(stderr, tilec)
    errors = [e for e in expected if e[1] == "error"]
    status = run.status if run.status is not None else int(bool(errors or run.fails))
    if done.returncode != status:
        problems.append(f"exit status {done.returncode}, expected {status}")
    found, others = on_lines(path, stderr)
    for want in expected:
        if want in found:
            found.remove(want)
        else:
            problems.append(f"line {want[0]}: no {want[1]} '{want[2]}'")
    for extra in found:
        problems.append(f"line {extra[0]}: unexpected {extra[1]} '{extra[2]}'")
    for want in run.fails + run.says:
        lines = [line for line in stderr.split("\n") if same_line(want, line)]
        if not lines:
            problems.append(f"standard error has no line '{want}'")
        elif lines[0] in others:
            others.remove(lines[0])
    for extra in others:
        problems.append(f"unexpected '{extra}'")
    problems += in_order([check for check in run.checks if check[0] in ("THEN", "NEXT")], stdout)
    flat = re.sub(r"\s+", " ", stdout)
    for kind, text in run.checks:
        if kind in ("THEN", "NEXT"):
            continue
        count = len(pattern(text).findall(flat))
        if kind == "HAS" and count == 0:
            problems.append(f"the output does not have '{text}'")
        elif kind == "NOT" and count != 0:
            problems.append(f"the output has '{text}'")
        elif kind.startswith("COUNT") and count != int(kind.split()[1]):
            problems.append(f"'{text}' occurs {count} times, expected {kind.split()[1]}")
    if problems and stderr and not found:
        problems.append("standard error was:\n      " + stderr.rstrip().replace("\n", "\n      "))
    if not (run.block or run.checks or run.fails or run.says or expected or run.status is not None):
        problems.append("this RUN checks nothing")
    return problems, stdout


def difference(want, have):
    import difflib
    lines = difflib.unified_diff(want, have, "expected", "found", lineterm="", n=2)
    return "\n".join("      " + line for line in lines)


def run_file(path, tilec, update):
    """Returns the problems of a file; with `update`, rewrites its blocks."""
    lines, runs, expected = read_test(path)
    problems, blocks = [], []
    if not runs:
        return ["there is no RUN line"]
    for run in runs:
        with tempfile.TemporaryDirectory() as folder:
            bad, stdout = run_one(path, run, expected, tilec, folder, "// PLACES" in lines, "// LINTS" in lines)
        problems += [f"line {run.line}: {p}" for p in bad]
        if run.block is None:
            continue
        have = stdout.split("\n")
        if have[-1] == "":
            have.pop()
        have = [line.rstrip() for line in have]
        if have != [line.rstrip() for line in run.block[2]]:
            blocks.append((run, have))
    if update and blocks and not problems:
        for run, have in reversed(blocks):
            text = ["//| " + line if line else "//|" for line in have] or ["//|"]
            lines[run.block[0]:run.block[1]] = text
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("\n".join(lines))
        print(f"updated {path}")
        return []
    for run, have in blocks:
        problems.append(f"line {run.line}: the output differs\n{difference(run.block[2], have)}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    tilec = os.path.abspath(options.tilec)
    files = []
    for path in options.paths:
        if os.path.isfile(path):
            files.append(path)
        for folder, _, names in sorted(os.walk(path)):
            files += [os.path.join(folder, n) for n in sorted(names)
                      if n.endswith((".tile", ".tir", ".lir", ".ptx")) and
                      "// RUN:" in open(os.path.join(folder, n), errors="replace").read()]
    begin, failed = time.time(), 0
    for path in files:
        problems = run_file(path, tilec, options.update)
        failed += bool(problems)
        for problem in problems:
            print(f"{path}: {problem}")
    print(f"{len(files) - failed} passed, {failed} failed ({time.time() - begin:.1f} s)")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
