#!/usr/bin/env python3
"""completion.py - the completion of zsh and fish, by the shells themselves; those that are not installed are left out.

    completion.py --tilec build/tilec
"""
import argparse
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

CMAKE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "cmake")
# what is written, and what is offered, among others
CASES = [("tilec --em", ["--emit="]), ("tilec x.tile -arch sm_9", ["sm_90"]), ("tilec -mtune=sm_10", ["sm_100", "sm_103"]),
         ("tilec -fno-swi", ["swizzle"]), ("tilec explain E-SHA", ["E-SHAPE", "E-SHARED"]), ("tilec -Wno-b", ["broadcast"]),
         ("tilec -Werror=s", ["serialised", "setmaxnreg", "spill"]), ("tilec --plan=stages=2,co", ["consumers=", "correction="]),
         ("tilec --dump-ir=simplify,rol", ["roles"]), ("tilec --warps=", ["1", "16"]), ("tilec se", ["search"]),
         ("tilec search x.tile --sort t", ["time", "traffic"])]


def read(terminal, quiet, until=None):
    """What comes until nothing does for a while."""
    said, end = b"", time.time() + 60
    while time.time() < end and not (until and until in said):
        if not select.select([terminal], [], [], quiet)[0]:
            if until is None:
                break
            continue
        part = os.read(terminal, 65536)
        if not part:
            break
        said += part
    return said.decode(errors="replace")


def zsh(program, lines):
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="dumb", PATH=f"{program}:{os.environ['PATH']}")
        os.execvp("zsh", ["zsh", "-f", "-i"])
    os.write(terminal, f"unsetopt promptsp; unset zle_bracketed_paste; PS1='> '; fpath=({CMAKE} $fpath); autoload -Uz compinit; "
                       "compinit -u -D; bindkey '^D' list-choices; LISTMAX=9999; print RE''ADY\n".encode())
    read(terminal, 0.2, b"READY\r\n")
    read(terminal, 0.3)
    for line in lines:
        os.write(terminal, line.encode() + b"\x04")  # list what there is
        said = read(terminal, 0.2, b"> " + line.encode())
        os.write(terminal, b"\x15")  # the line is gone
        read(terminal, 0.1)
        yield said.replace(line, "", 1).split("> " + line)[0]
    os.close(terminal)
    os.waitpid(child, 0)


def fish(program, lines):
    for line in lines:
        ask = f"source {CMAKE}/tilec.fish; complete -C '{line}'"
        said = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": f"{program}:{os.environ['PATH']}"})
        yield said.stdout + said.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    tilec = os.path.abspath(parser.parse_args().tilec)
    wrong = subprocess.run([tilec, "x.tile", "--emit=x"], capture_output=True, text=True).stderr
    kinds = re.findall(r"\w+", re.search(r"expected (.*?) \[", wrong)[1].replace(" or ", " "))
    cases = CASES + [("tilec --emit=", kinds)]
    shells = [(name, ask) for name, ask in (("zsh", zsh), ("fish", fish)) if shutil.which(name)]
    bad = []
    for name, ask in shells:
        for (line, wanted), said in zip(cases, ask(os.path.dirname(tilec), [line for line, _ in cases])):
            offered = re.split(r"\s+", said)
            begins = line.split(" ")[-1]  # fish offers whole words
            bad += [f"{name}: {line}: no {one} in {offered[:12]}" for one in wanted
                    if not any(word == one or (word.endswith(one) and word.startswith(begins)) for word in offered)]
    print("\n".join(bad))
    print(f"{', '.join(name for name, _ in shells) or 'neither zsh nor fish is installed'}: {len(bad)} faults")
    return 77 if not shells else len(bad) > 0


if __name__ == "__main__":
    sys.exit(main())
