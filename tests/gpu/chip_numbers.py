#!/usr/bin/env python3
"""chip_numbers.py - scripts of tests/run, which judge code in the simulator, on the GPU of this machine.

    chip_numbers.py --tilec T --tilerun R [--only casts,tf32]

They are the same scripts, with the targets whose code an H200 runs, and a tilerun that is told `gpu` where they say `sim`
(and no seed, which is the simulator's); text of other chips that they have besides runs in the simulator.  Exit status 1
where one of them fails.
"""
import argparse
import importlib
import os
import stat
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run"))
SCRIPTS = ["casts", "tf32", "scales", "products8", "float8_products", "scaled_products", "gathers", "state_spaces", "formats", "engine"]
ARCHES = ("sm_80", "sm_86", "sm_89", "sm_90")
STAND_IN = """#!/bin/sh
# tilerun, on the GPU where the text, its first argument, is one of the GPU's
grep -qE '^\\.target sm_(80|86|89|90a?)$' "$1" || exec "%s" "$@"
n=$#
while [ $n -gt 0 ]; do
    case $1 in
    --seed|--seeds) shift; n=$((n - 1)) ;;
    sim) set -- "$@" gpu ;;
    *) set -- "$@" "$1" ;;
    esac
    shift; n=$((n - 1))
done
exec "%s" "$@"
"""


def run(name, tilec, tilerun):
    """True where the script says that all is right."""
    script = importlib.import_module(name)
    script.ARCHES = type(script.ARCHES)(arch for arch in script.ARCHES if arch in (*ARCHES, "interpreter"))
    sys.argv = [name + ".py", "--tilec", tilec, "--tilerun", tilerun]
    sys.argv += {"engine": ["--arch", ",".join(script.ARCHES)], "casts": ["--all"]}.get(name, [])
    try:
        return not script.main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
        return not end.code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--only", default=",".join(SCRIPTS))
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        tilerun = os.path.join(folder, "tilerun")
        with open(tilerun, "w", encoding="utf-8") as file:
            file.write(STAND_IN % ((os.path.abspath(options.tilerun),) * 2))
        os.chmod(tilerun, stat.S_IRWXU)
        for name in options.only.split(","):
            begin = time.time()
            right = run(name, os.path.abspath(options.tilec), tilerun)
            bad += [] if right else [name]
            print(f"{name}: {'right' if right else 'WRONG'}, {time.time() - begin:.0f} s", flush=True)
    sys.exit(f"wrong: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
