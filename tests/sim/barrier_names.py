#!/usr/bin/env python3
"""barrier_names.py - `tilerun --time` and its JSON, and findings about barriers, call them as --dump-schedule does, where PTX was
made with -lineinfo.

    barrier_names.py --tilec build/tilec --tilerun build/tilerun
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZES = ["--set", "M=128", "--set", "K=192", "--set", "N=256", "--random", "--device", "sim"]


def findings(options, ptx, arch, every, flags):
    """Stages that nobody expects: the launch hangs, and the report says at which barriers."""
    with open(ptx, encoding="utf-8") as file:
        text = file.read()
    cut = ptx + ".cut.ptx"
    with open(cut, "w", encoding="utf-8") as file:
        file.write(re.sub(r"^.*mbarrier\.arrive\.expect_tx.*;$", "", text, flags=re.M))
    done = subprocess.run([options.tilerun, cut, *SIZES, "--no-check"], capture_output=True, text=True)
    said = re.findall(r"^ +block \d+: mbarrier (?:(\$.+?)(?:, \d+ of \d+)?, )?at 0x([0-9a-f]+) ", done.stdout + done.stderr, re.M)
    want = {(name, at + 1024) for name, at in every} if flags else {("", int(at, 16)) for _, at in said}
    if not said or {(name, int(at, 16)) for name, at in said} - want:
        return [f"{arch} {flags}: a hang is told as {done.stdout}{done.stderr}"]
    return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        for arch in "sm_90", "sm_100":
            ptx = os.path.join(folder, "gemm.ptx")
            command = [options.tilec, os.path.join(ROOT, "examples/gemm.tile"), "-arch", arch, "-D", "TK=64"]
            told = subprocess.run([*command, "--dump-schedule"], capture_output=True, text=True, check=True).stdout
            rows = re.findall(r"^    (\S.*?\S)  +(\d+)(?: x (\d+))? +(\d+) +\d+  ", told.split("  barriers ")[1].split("  time: ")[0], re.M)
            for flags in ["-lineinfo"], []:
                subprocess.run([*command, *flags, "-o", ptx], check=True)
                with open(ptx, encoding="utf-8") as file:
                    head = file.read().split(".version")[0]
                named = re.findall(r"^//   (?:barriers | {9}) (\d+) (\d+) (.*)$", head, re.M)
                want = [(at, str(int(n) * int(parts or 1)), name) for name, n, parts, at in rows] if flags else []
                if sorted(named) != sorted(want) or (flags and len(want) < 4):
                    bad.append(f"{arch} {flags}: {named}, the schedule has {want}")
                done = subprocess.run([options.tilerun, ptx, *SIZES, "--time", f"{arch},ptx,seeds=1,json={ptx}.json", "--no-check"], capture_output=True, text=True)
                with open(ptx + ".json", encoding="utf-8") as file:
                    lines = [json.loads(line) for line in file]
                os.remove(ptx + ".json")
                called = {(wait.get("name", "").split(",")[0], wait["object"]) for wait in lines[0]["waits"] if wait["kind"] == "mbarrier"}
                every = {(name, int(at) + 8 * k) for at, n, name in named for k in range(int(n))}
                if not called or (flags and not called <= every) or (not flags and {name for name, _ in called} != {""}):
                    bad.append(f"{arch} {flags}: {called} in JSON")
                bad += findings(options, ptx, arch, every, flags)
                waits = re.findall(r"waited \d+ cycles at (.*)", done.stdout)
                memory = [wait for wait in waits if "mbarrier" in wait]
                good = [re.fullmatch(r"(.*?)(?:, (\d+) of (\d+))? \(the mbarrier at byte (\d+) of shared memory\)", wait) for wait in memory]
                if not memory or (not flags and any(good)):
                    bad.append(f"{arch} {flags}: {done.stdout}{done.stderr}")
                for wait, found in zip(memory, good if flags else []):
                    places = {(name, int(at) + 8 * k) for at, n, name in named for k in range(int(n))}
                    if not found or (found[1], int(found[4])) not in places:
                        bad.append(f"{arch}: {wait}")
    print("\n".join(bad) or "all are named")
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(main())
