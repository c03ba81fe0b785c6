#!/usr/bin/env python3
"""simulate.py - `tilec search --simulate` with a tilerun that only says what its clock would.

    simulate.py --tilec TILEC

Looked at: that each plan has a line with its origin, that a search goes on where it stopped, that `auto` takes the winner where
nothing was measured and what was measured where something was, and what is said without machine code.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

from false_tilerun import ATTENTION, FalseTilerun

# Plans of tiles that `quick` names are quick
FALSE_TILERUN = """#!/bin/sh
[ "$1" = --gpu ] && echo "a false GPU" && exit 0
echo "$@" >>{0}/log
[ -f {0}/no-code ] && echo "  from PTX; machine code was not read: ptxas was not found" && exit 0
[ -f {0}/nothing ] && echo "tilerun: note: $(cat {0}/nothing) bytes of O were not written" >&2
[ -f {0}/no-time ] && echo "fault: race: write of global memory" && echo "tilerun: error: no room" >&2 && echo "  figures 1c04c6f1" && exit 1
us=90.50
grep -q "$(cat {0}/quick)" "$1" && us=10.25
case "$*" in *"--device gpu"*) echo "time: median 0.070 ms, fastest 0.070 ms, slowest 0.070 ms, of 3 runs"; exit 0 ;; esac
echo "attention, modelled on sm_90:"
echo "  12345 cycles (12340 to 12350 in 1 seeds, 12345 without jitter): $us us at 1980 MHz, 99.00 at the 1700 MHz of a chip"
"""


SIZES = [word for size in ["B=8", "Sq=4096", "Hq=8", "Sk=4096", "Hk=8"] for word in ("--size", size)]


class Test(FalseTilerun):
    def search(self, *options, sizes=True):
        return subprocess.run([self.tilec, "search", ATTENTION, "-arch", "sm_90", "-D", "D=64", "--rows", "6", f"--tuning={self.database}",
                               "--tilerun", self.tilerun, *(SIZES if sizes else []), *options], capture_output=True, text=True, timeout=120)

    def chosen(self):
        """What `auto` says that it took from the database."""
        said = subprocess.run([self.tilec, ATTENTION, "-arch", "sm_90", "-D", "D=64", f"--tuning={self.database}", "--remarks", "-o",
                               os.path.join(self.folder, "a.ptx")], capture_output=True, text=True).stderr
        return [line for line in said.split("\n") if " the best of " in line]

    def run(self):
        self.write("quick", "no tile is quick")
        self.write("no-code", "")
        got = self.search("--simulate")
        self.expect("without machine code", got.returncode == 1 and got.stderr.count("needs ptxas and nvdisasm") == 1, got.stderr)
        self.expect("nothing is written then", not os.path.exists(self.database) or not self.lines())
        os.remove(os.path.join(self.folder, "no-code"))
        self.log()
        built = [json.loads(line) for line in self.search("--built", "--json").stdout.splitlines()]
        slow = built[3]["tiles"]  # that the estimate takes for slower
        self.write("quick", f"M={slow['M']} N={slow['N']}")
        got = self.search("--simulate")
        runs, lines = self.log(), self.lines()
        self.expect("a search", got.returncode == 0, got.stderr)
        self.expect("each plan runs once", len(runs) == 6 == len(lines), len(runs), len(lines))
        self.expect("how", all("--device sim" in r and "--time sm_90,sample,seeds=1" in r for r in runs), runs[:1])
        self.expect("origin", all(line["origin"] == "simulated" and line["cycles"] == 12345 for line in lines), lines[:1])
        self.expect("table", " simulated" in got.stdout and "10.2 us" in got.stdout, got.stdout)
        rows = re.findall(r"^ *([\d.]+) us +([\d.]+) us +([-+]\d+) %", got.stdout, re.M)
        self.expect("how far predictions are off", len(rows) == 6 and
                    all(abs(100 * float(p) / float(m) - 100 - int(o)) < 2 + 0.01 * int(o) for m, p, o in rows), got.stdout)
        told = re.search(r"predictions are off by ([-+]\d+) to ([-+]\d+) %, .* Kendall's tau ([-\d.]+)", got.stdout)
        self.expect("and all of them", told and int(told[1]) == min(int(r[2]) for r in rows) and -1 <= float(told[3]) <= 1, got.stdout)
        self.expect("again", self.search("--simulate").returncode == 0 and not self.log())
        chosen = self.chosen()
        self.expect("auto takes the winner", any(f"M={slow['M']} N={slow['N']}" in c and "simulated, 10.2 us" in c for c in chosen), chosen)
        got = self.search("--measure", "--rows", "2")
        self.expect("what was simulated is not measured", got.returncode == 0 and len(self.log()) == 2, got.stderr)
        chosen = self.chosen()
        self.expect("what was measured counts more", chosen and all("measured, 70.0 us" in c for c in chosen), chosen)
        self.write("no-time", "")
        got = self.search("--simulate", "--again", "--rows", "1")
        self.expect("a plan that fails", got.returncode == 1 and self.lines()[-1].get("failed", "") == "exit status 1: tilerun: error: no room",
                    self.lines()[-1], got.stderr)
        os.remove(os.path.join(self.folder, "no-time"))
        self.log()
        for written, failed in (("64 of 64", "the kernel computes nothing with the tensors that it has"), ("32 of 64", "")):
            self.write("nothing", written)
            got = self.search("--simulate", "--again", "--rows", "1", "--in", "Q=q.npy")
            self.expect("nothing computed", self.lines()[-1].get("failed", "").startswith(failed) and (got.returncode == 1) == bool(failed),
                        written, self.lines()[-1])
        self.expect("given tensors", all(" --in Q=q.npy" in run for run in self.log()))
        os.remove(os.path.join(self.folder, "nothing"))
        got = self.search("--simulate", "--rows", "1", sizes=False)
        small = self.lines()[-1]["sizes"]
        self.expect("sizes that end", small["B"] == 8 and small["Sq"] <= 1024 and "sizes: B=8 " in got.stdout, got.stdout, small)
        got = self.search("--simulate", "--rows", "1", "--size", "Sq=4096", sizes=False)
        said = self.lines()[-1]["sizes"]
        self.expect("but what is said stays", said["Sq"] == 4096 and said["Sk"] < 4096, said)
        got = self.search("--simulate", "--measure")
        self.expect("one of them", got.returncode == 1 and "give one of them" in got.stderr, got.stderr)
        return self.bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = Test(args.tilec, folder, FALSE_TILERUN).run()
    print(f"{bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
