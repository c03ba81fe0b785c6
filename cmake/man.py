#!/usr/bin/env python3
"""man.py PROGRAM FILE - a man page from what `PROGRAM --help` says."""
import os
import subprocess
import sys

TITLES = {"tilec": "compile kernels of the tile language to PTX",
          "tilerun": "run PTX on a GPU or in the simulator"}


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def page(name, help_text, version):
    lines = [f'.TH {name.upper()} 1 "" "{version}" "User Commands"', ".SH NAME",
             f"{name} \\- {TITLES[name]}", ".SH SYNOPSIS", ".nf"]
    synopsis, _, rest = help_text.partition("\n\n")
    lines += [escaped(line.replace("usage: ", "").strip()) for line in synopsis.splitlines()]
    lines += [".fi", ".SH OPTIONS", ".nf"]
    lines += [escaped(line) for line in rest.splitlines()]
    lines += [".fi", ".SH FILES", "The language and all options are described in docs/ beside the README, of the sources or under",
              "share/doc/tilec of what is installed; programs to begin with are under share/tilec/examples."]
    return "\n".join(lines) + "\n"


def main():
    program, output = sys.argv[1:]

    def said(option):
        return subprocess.run([program, option], check=True, capture_output=True, text=True).stdout

    with open(output, "w") as file:
        file.write(page(os.path.basename(program), said("--help"), said("--version").strip()))


if __name__ == "__main__":
    main()
