#!/usr/bin/env python3
"""findings.py - docs/findings.md: each kind of finding has a section, whose wrong example has it and no fault of another kind first, and
whose right one has none; `tilec explain` prints them.

    findings.py --simrun SIMRUN --tilec TILEC
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECTION = re.compile(r"^## (S-[A-Z-]+): .*$", re.M)
EXAMPLE = re.compile(r"^(Wrong|Right):\n\n```ptx\n(.*?)^```$", re.M | re.S)


def kinds():
    with open(os.path.join(ROOT, "backends", "sim", "sim.h"), encoding="utf-8") as file:
        names = re.findall(r"\bSIM_FIND_([A-Z_]+)\b", file.read())
    return {"S-" + name.replace("_", "-") for name in names if name != "KIND_COUNT"}


def simulate(simrun, folder, frame, body, *options):
    text = frame.replace("    // .. the example\n", body)
    if "tcgen05" in body:
        text = text.replace(".target sm_90a", ".target sm_100a")
    path = os.path.join(folder, "k.ptx")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return subprocess.run([simrun, path, "--block", "128", "--seeds", "8", *options, "zero:4096", "scratch:4096"], capture_output=True,
                          text=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--simrun", required=True)
    parser.add_argument("--tilec", required=True)
    args = parser.parse_args()
    with open(os.path.join(ROOT, "docs", "findings.md"), encoding="utf-8") as file:
        text = file.read()
    frame = re.search(r"^```ptx\n(.*?)^```$", text, re.M | re.S)[1]
    parts = SECTION.split(text)
    sections, bad = dict(zip(parts[1::2], parts[2::2])), []
    bad += [f"{name}: no section" for name in kinds() - set(sections)] + [f"{name}: is no kind" for name in set(sections) - kinds()]
    with tempfile.TemporaryDirectory() as folder:
        for name, section in sections.items():
            examples = dict(EXAMPLE.findall(section))
            if set(examples) != {"Wrong", "Right"} or max(e.count("\n") for e in examples.values()) > 10:
                bad.append(f"{name}: wants a wrong and a right example of ten lines at most")
                continue
            wrong = simulate(args.simrun, folder, frame, examples["Wrong"])
            found = re.findall(r"^fault: ([a-z-]+):", wrong.stdout, re.M)
            if wrong.returncode != 3 or name[2:].lower() not in found:
                bad.append(f"{name}: the wrong example says {wrong.stdout}{wrong.stderr}")
            right = simulate(args.simrun, folder, frame, examples["Right"], "--strict")
            if right.returncode != 0 or right.stdout:
                bad.append(f"{name}: the right example says {right.stdout}{right.stderr}")
    said = subprocess.run([args.tilec, "explain"], capture_output=True, text=True).stdout
    bad += [f"{name}: tilec explain does not list it" for name in sections if len(re.findall(rf"^{name} ", said, re.M)) != 1]
    for word in ("S-RACE", "s-race", "[S-RACE]"):
        said = subprocess.run([args.tilec, "explain", word], capture_output=True, text=True).stdout
        if not said.startswith("S-RACE: two unordered accesses") or "    bar.sync 0;" not in said:
            bad.append(f"tilec explain {word}: {said}")
    for line in bad:
        print("FAILED:", line)
    print(f"{len(sections)} kinds, {len(bad)} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
