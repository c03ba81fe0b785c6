#!/usr/bin/env python3
"""measure.py - `tilec search --measure` with a tilerun that only says it measured.

    measure.py --tilec TILEC --tilerun TILERUN

The false tilerun reads from a file what to answer for each plan: a time, to hang, to fail.  Looked at:
that each plan has a line in the database, that a search goes on where it stopped, what is recorded of a
plan that hangs or fails, that `auto` takes the winner, and what is said where there is no GPU.
"""
import argparse
import contextlib
import os
import pty
import re
import subprocess
import sys
import tempfile

from false_tilerun import ATTENTION, FalseTilerun

# It tells plans apart by what the PTX says of its block, and keeps a log of what it was asked.
FALSE_TILERUN = """#!/bin/sh
if [ "$1" = --gpu ]; then
    [ -f {0}/no-gpu ] && echo "tilerun: error: no CUDA driver: nothing here" >&2 && exit 1
    echo "a false GPU"; exit 0
fi
echo "$@" >>{0}/log
n=$(grep -c . {0}/log)
answer=$(sed -n "${{n}}p" {0}/answers)
case "$answer" in
hang) exec sleep 100 ;;
crash) kill -9 $$ ;;
error) echo 'tilerun: error: "an illegal address"' >&2; exit 1 ;;
silent) exit 0 ;;
"") answer=5.0 ;;
esac
echo "time: median $answer ms, fastest 1.0 ms, slowest 9.0 ms, of 3 runs"
"""


def all_of(master):
    """What was written to a terminal that nobody has open any more: one read may give only a part of it."""
    text = b""
    with contextlib.suppress(OSError):  # EIO: that was all
        while piece := os.read(master, 1 << 16):
            text += piece
    os.close(master)
    return text.decode()


class Test(FalseTilerun):
    def search(self, *options, rows=6, tilerun=None, stderr=subprocess.PIPE):
        return subprocess.run(
            [self.tilec, "search", ATTENTION, "-arch", "sm_90", "-D", "D=64", "--rows", str(rows), "--measure",
             f"--tuning={self.database}", "--tilerun", tilerun or self.tilerun, "--time-limit", "2", *options],
            stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=120)

    def no_gpu(self):
        self.write("no-gpu", "")
        done = self.search()
        self.expect("no GPU", done.returncode == 1 and "--measure needs a GPU: tilerun: error: no CUDA driver"
                    in done.stderr and len(self.log()) == 0 and not os.path.exists(self.database), done)
        os.remove(os.path.join(self.folder, "no-gpu"))
        done = self.search(tilerun="/nowhere/tilerun")
        self.expect("no tilerun", done.returncode == 1 and "can not be run" in done.stderr, done)

    def failures(self):
        self.write("answers", "3.0\nhang\ncrash\nerror\nsilent\n2.5\n")
        done = self.search()
        said = [line.get("failed", line.get("microseconds")) for line in self.lines()]
        self.expect("each plan has a line", said == [
            3000.0, "did not end within 2 s", "exit status 137",
            "exit status 1: tilerun: error: 'an illegal address'", f"{self.tilerun} gave no time", 2500.0], said)
        self.expect("the table", done.returncode == 0 and done.stdout.splitlines()[1].startswith("  2500.0 us"),
                    done)
        self.expect("the progress", "6 of 6: " in done.stderr and "4 of 6: " in done.stderr
                    and "timing on a false GPU" in done.stderr, done.stderr)
        self.expect("what tilerun was asked", len(self.log()) == 6)

    def on_terminal(self):
        """There it is a bar, from the second second on, that goes away; --quiet says nothing."""
        said = []
        self.log()
        for more in [], ["--quiet"]:
            self.write("answers", "3.0\nhang\n")
            master, slave = pty.openpty()
            done = self.search("--again", *more, rows=2, stderr=slave)
            os.close(slave)
            said.append((all_of(master), done.stdout))
            self.log()
        (bar, table), (quiet, other) = said
        self.expect("a bar", "2 of 2, 1 failed, best 3000.0 us: " in bar and bar.rstrip().endswith("\r\x1b[K")
                    and "predicted" not in bar, bar)
        self.expect("no bar", quiet.split() == "timing on a false GPU".split(), quiet)
        self.expect("the same table", table == other, table, other)

    def resumed(self):
        self.write("answers", "4.1\n4.2\n4.3\n4.4\n")
        done = self.search()
        self.expect("what failed is tried again", len(self.log()) == 4 and "2 of 6 plans are in" in done.stderr, done)
        best = min((line for line in self.lines() if "microseconds" in line), key=lambda l: l["microseconds"])
        self.expect("the winner, and by how much", "'auto' now takes " in done.stdout and done.stdout.endswith(", 20.0 % quicker than the next\n"),
                    done)
        done = self.search()
        self.expect("nothing is timed twice", len(self.log()) == 0 and "6 of 6 plans are in" in done.stderr, done)
        with open(self.database) as file:
            lines = [line for line in file if "microseconds" in line]
        with open(self.database, "w") as file:  # as if broken off, in the middle of a line
            file.writelines(lines[:4] + [lines[4][:40]])
        self.write("answers", "4.0\n4.5\n")
        done = self.search()
        with open(self.database) as file:
            broken = file.readlines()
        self.expect("it goes on where it stopped", len(self.log()) == 2 and len(broken) == 7
                    and "4 of 6 plans are in" in done.stderr, done, broken)
        with open(self.database, "w") as file:
            file.writelines(broken[:4] + broken[5:])
        self.write("answers", "7.0\n6.0\n")
        done = self.search("--again", rows=2)
        self.expect("--again", len(self.log()) == 2 and self.lines()[-1]["microseconds"] == 6000.0
                    and done.stdout.splitlines()[1].startswith("  6000.0 us"), done)
        return best

    def chosen(self):
        """`auto` takes the winner, whatever is predicted: here the last of many."""
        os.remove(self.database)
        self.write("answers", "".join(f"{9 - k}.0\n" for k in range(8)))
        self.search(rows=8)
        winner = self.lines()[-1]
        out = os.path.join(self.folder, "out.ptx")
        done = subprocess.run([self.tilec, ATTENTION, "-arch", "sm_90", "-D", "D=64", f"--tuning={self.database}",
                               "--remarks", "-o", out], capture_output=True, text=True)
        tiles = " ".join(f"{name}={value}" for name, value in winner["tiles"].items())
        consumers = re.search(r"consumers=(\d)", winner["plan"])[1]
        self.expect("auto takes the winner", f"'attention': {tiles} consumers {consumers}" in done.stderr
                    and "the best of 8 measured, 2000.0 us" in done.stderr, winner, done.stderr)
        pinned = subprocess.run(
            [self.tilec, ATTENTION, "-arch", "sm_90", "-D", "D=64", "--tuning=none", "-o", out + "2", "--plan="
             + winner["plan"]] + [w for name, value in winner["tiles"].items() for w in ("-D", f"{name}={value}")],
            capture_output=True, text=True)
        with open(out) as one, open(out + "2") as two:
            same = [line for line in one if ".section" not in line] == [line for line in two if ".section" not in line]
        self.expect("the winner is what was timed", pinned.returncode == 0 and same, pinned.stderr)

    def drawn(self):
        """Under a window `auto` deals tiles out only where that was measured to be quicker."""
        window = ["-D", "CAUSAL=true", "-D", "WINDOW=1024"]
        sizes = [w for size in ("B=1", "Sq=16384", "Sk=16384", "Hq=32", "Hk=32") for w in ("--size", size)]
        os.remove(self.database)
        self.log()
        self.write("answers", "3.0\n2.0\n")
        self.search(*window, *sizes, rows=2)
        self.expect("drawing is predicted to be best", "dynamic=1" in self.lines()[0]["plan"], self.lines())
        for tuning, draws in ((self.database, False), ("none", True)):
            out = os.path.join(self.folder, "out.ptx")
            done = subprocess.run([self.tilec, ATTENTION, "-arch", "sm_90", "-D", "D=64", *window,
                                   f"--tuning={tuning}", "-o", out], capture_output=True, text=True)
            with open(out) as file:
                self.expect(f"auto draws, with --tuning={tuning}", done.returncode == 0
                            and ("tile_counter" in file.read()) == draws, done.stderr)


def real_tilerun(tilec, tilerun, folder):
    """--random: what is not given is made up, in the simulator, too."""
    ptx = os.path.join(folder, "a.ptx")
    subprocess.run([tilec, ATTENTION, "-arch", "sm_90", "-D", "D=64", "-o", ptx], check=True)
    sizes = [w for size in ("B=1", "Sq=96", "Sk=80", "Hq=2", "Hk=1") for w in ("--set", size)]
    done = subprocess.run([tilerun, ptx, "--device", "sim", "--random", "--out", f"O={folder}/o.npy"] + sizes,
                          capture_output=True, text=True)
    if done.returncode != 0:
        print("tilerun --random:", done)
        return 1
    with open(os.path.join(folder, "o.npy"), "rb") as file:
        data = file.read()[128:]
    return 0 if len(data) == 96 * 2 * 64 * 2 and len(set(data)) > 100 else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    tilec = os.path.abspath(options.tilec)
    with tempfile.TemporaryDirectory() as folder:
        test = Test(tilec, folder, FALSE_TILERUN)
        test.no_gpu()
        test.failures()
        test.resumed()
        test.chosen()
        test.drawn()
        test.on_terminal()
        bad = test.bad + real_tilerun(tilec, os.path.abspath(options.tilerun), folder)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
