#!/usr/bin/env python3
"""links.py - each function that a public header declares can be linked, and the shared library exports no other.

    links.py --cc CC HEADER=LIBRARY..      a program that has the address of all; .so: what is exported is compared
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FUNCTION = re.compile(r"^(?!typedef|static)[A-Za-z_][\w \n*]*?\b((?:tilec|sim)_\w+)\([^;{]*\)[^;{]*;", re.M)


def declared(header):
    with open(os.path.join(ROOT, header), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/|^ *#.*?[^\\]$", "", file.read(), flags=re.S | re.M)
    return sorted(set(FUNCTION.findall(text)))


def check(cc, header, library, folder):
    names = declared(header)
    source, program = os.path.join(folder, "all.c"), os.path.join(folder, "all")
    with open(source, "w", encoding="utf-8") as file:
        file.write(f'#include "{header}"\ntypedef void Any(void);\nAny *const all[] = {{' + ", ".join(f"(Any *){n}" for n in names) +
                   "};\nint main(void) { return all[0] == 0; }\n")
    built = subprocess.run([cc, "-I" + ROOT, source, "-o", program, library, "-lm", "-lpthread", "-Wl,-rpath," + os.path.dirname(library)],
                           capture_output=True, text=True)
    bad = [f"{header} with {os.path.basename(library)}: {built.stderr}"] if built.returncode else []
    if ".so" in library:
        table = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        exported = sorted(line.split()[2] for line in table.splitlines() if line.split()[1] == "T")
        if exported != names:
            bad.append(f"{os.path.basename(library)} exports {exported}, and {header} declares {names}")
    print(f"{header}: {len(names)} functions, {os.path.basename(library)}")
    return bad if names else bad + [f"{header} declares nothing"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True)
    parser.add_argument("pairs", nargs="+")
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in options.pairs:
            bad += check(options.cc, *pair.split("="), folder)
    print("\n".join(bad) or "all right")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
