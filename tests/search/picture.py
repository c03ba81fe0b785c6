#!/usr/bin/env python3
"""picture.py - `tilec search --svg`: a bar for each plan, as long as it is predicted, and dots for what the tuning database has.

    picture.py --tilec build/tilec
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SVG = "{http://www.w3.org/2000/svg}"
bad = 0


def want(what, condition, seen=""):
    global bad
    if not condition:
        print(f"{what}: {str(seen)[:1500]}")
        bad += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    options = parser.parse_args()
    tilec = os.path.abspath(options.tilec)
    with tempfile.TemporaryDirectory() as folder:
        def search(*words):
            return subprocess.run([tilec, "search", f"{ROOT}/examples/attention.tile", "-arch", "sm_90", "-D", "D=64", "--size", "B=2", *words],
                                  cwd=folder, capture_output=True, text=True)

        def drawn(*words):
            done = search("--rows", "6", "--svg", "plans.svg", *words)
            want("it is drawn", done.returncode == 0 and not done.stderr, done)
            return done.stdout, xml.parse(os.path.join(folder, "plans.svg")).getroot()

        plans = [json.loads(line) for line in search("--rows", "6", "--json").stdout.splitlines()]
        table, picture = drawn()
        want("the table is there, too", table == search("--rows", "6").stdout)
        bars = [float(e.get("width")) for e in picture.iter(f"{SVG}rect") if "plan" in e.get("class", "") and e.get("x") != "10" and e.get("x") != "220"]
        predicted = [plan["predicted_ms"] for plan in plans]
        want("bars are as long as launches", len(bars) == 6 and all(
            abs(bar / bars[0] - ms / predicted[0]) < 0.01 for bar, ms in zip(bars, predicted)), (bars, predicted))
        words = [e.text for e in picture.iter(f"{SVG}text")]
        want("sizes and plans", any("B=2" in w for w in words) and sum(w.startswith("M=") for w in words) == 6, words)
        want("no dots without times", not list(picture.iter(f"{SVG}circle")))
        with open(os.path.join(folder, "times.tuning"), "w", encoding="utf-8") as file:
            for k, plan in enumerate(plans[:4]):
                line = {key: plan[key] for key in ("tuning", "target", "kernel", "constants", "sizes", "tiles", "plan")}
                if k == 3:  # another launch
                    line["sizes"] = {**line["sizes"], "B": 3}
                file.write(json.dumps({**line, "microseconds": 1e3 * plan["predicted_ms"] * (1.25 if k == 0 else 0.9)}) + "\n")
        _, picture = drawn("--tuning=times.tuning")
        dots = [(float(e.get("cx")), e.find(f"{SVG}title").text) for e in picture.iter(f"{SVG}circle") if e.find(f"{SVG}title") is not None]
        bars = [e for e in picture.iter(f"{SVG}rect") if re.fullmatch("plan( first)?", e.get("class", "")) and e.get("x") not in ("10", "220")]
        ends = [float(e.get("x")) + float(e.get("width")) for e in bars]
        left = float(bars[0].get("x"))
        want("a dot for each time of this launch", len(dots) == 3, dots)
        want("where the time is", all(abs((x - left) / (end - left) - part) < 0.01 for (x, _), end, part in zip(dots, ends, (1.25, 0.9, 0.9))),
             (dots, ends))
        want("what auto takes stands out", [e.get("class") for e in bars].count("plan first") == 1 and bars[0].get("class") == "plan first")
        done = search("--rows", "0", "--svg", "no.svg")
        want("divisions have no picture", done.returncode == 1 and "divisions" in done.stderr and not os.path.exists(f"{folder}/no.svg"), done)
        done = search("--svg", "nowhere/no.svg")
        want("where it can not be written", done.returncode == 1 and "nowhere" in done.stderr and not done.stdout, done)
        done = search("--tuning=none.tuning", "--svg", "no.svg")
        want("a database that is not there", done.returncode == 1 and "none.tuning" in done.stderr, done)
    print(f"{bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
