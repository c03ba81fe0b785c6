#!/usr/bin/env python3
"""mistakes.py - what people write wrong, and all that tilec says of it: mistakes.txt has a section for each.

    mistakes.py --tilec T [--update]

    == what went wrong              a title
    $ -arch sm_90                   behind `tilec k.tile`; none: nothing
    kernel k(..) { .. }             k.tile; `...` alone on a line stands for HEAD
    --
    k.tile:3:5: error: ..           the whole of standard error; `exit 0` before it where that is the status

--update writes anew what is said: to be read as code is.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mistakes.txt")
HEAD = "kernel k(X: in f32[N], Y: out f32[N]) {\n    grid i in tiles(N, 1024);"
LEAST = 40  # mistakes


def sections(text):
    for part in text.split("\n== ")[1:]:
        head, says = part.split("\n--\n")
        title, *program = head.split("\n")
        options = program.pop(0)[2:] if program and program[0].startswith("$ ") else ""
        yield title, options, "\n".join(program), says.strip("\n")


def said(tilec, options, program, folder):
    with open(os.path.join(folder, "k.tile"), "w", encoding="utf-8", newline="") as file:
        file.write(re.sub(r"^(\ufeff?)\.\.\.$", rf"\1{HEAD}", program.replace("\\ufeff", "\ufeff"), count=1, flags=re.M) + "\n")
    words = shlex.split(options)
    output = [] if "-o" in words or "-h" in words else ["-o", "out.ptx"]
    done = subprocess.run([tilec, *(words if "-h" in words else ["k.tile", *words, *output])], cwd=folder,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    text = done.stderr.rstrip("\n") if done.stderr or done.returncode else done.stdout.split("\n")[0]
    return text if done.returncode == 1 else f"exit {done.returncode}\n{text}".rstrip("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    with open(TABLE, encoding="utf-8") as file:
        text = file.read()
    head, rows, bad = text.split("\n== ")[0], list(sections(text)), 0
    with tempfile.TemporaryDirectory() as folder:
        for k, (title, words, program, says) in enumerate(rows):
            found = said(os.path.abspath(options.tilec), words, program, folder)
            if found != says:
                bad += 1
                print(f"{title}: should say\n{says}\nand says\n{found}\n")
            rows[k] = (title, words, program, found)
    if options.update:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(head + "".join(f"\n== {title}\n" + (f"$ {words}\n" if words else "") + f"{program}\n--\n{found}\n"
                                      for title, words, program, found in rows))
    print(f"{len(rows)} mistakes, {bad} with other messages")
    return len(rows) < LEAST or (bad > 0 and not options.update)


if __name__ == "__main__":
    sys.exit(main())
