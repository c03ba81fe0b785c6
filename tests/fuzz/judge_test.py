#!/usr/bin/env python3
"""judge_test.py - the judge finds what is planted: a compiler that does wrong is seen, and its program made small.

    judge_test.py --tilec T --tilerun R
    judge_test.py --tilec T --sources FOLDER
    judge_test.py --tilec T --tilerun R --drawn [PLANT..]

Each fault is a tilec of its own: a script that calls the right one and spoils what it made or said.  With --sources: the
rows of ways.py are texts of the compiler, in FOLDER, and of the programs that are drawn enough have plans.  With --drawn: mistakes
that compilers once made (judge_plants.py) are found in programs that are drawn, among those of the seeds from 1 to 2,000.
"""
import argparse
import contextlib
import glob
import io
import itertools
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ways  # noqa: E402

SPOILED = '''#!/bin/sh
# out: the file behind -o, or nothing
out=; before=
for word in "$@"; do [ "$before" = -o ] && out=$word; before=$word; done
{before}
"{tilec}" "$@" || exit $?
case $out in *.ptx) {after} ;; *) : ;; esac
'''

# name: (before tilec runs, behind it, the kind that is found, a program, whether it is made small)
ROWS = """//! {"sizes": {"S": 37}, "seed": 1, "layout": {"X": [[0, 1]], "Y": [[0, 3]]}}
kernel rows(X: in f32[S, 16], W: in f32[16], Y: out f32[S, 16], Z: out f32[S]) {
    grid m in tiles(S, 8);
    let x = load X[m, :] + (load W[:])[None, :];
    store Y[m, :] = x * 3.0;
    store Z[m] = sum(x, axis=1);
}
"""
LOOP = """//! {"sizes": {"S": 64, "K": 128}, "seed": 1}
kernel gemm(A: in bf16[S, K] align(16), B: in bf16[K, 64], C: out f32[S, 64]) {
    grid m in tiles(S, 64);
    var acc = zeros<f32>[64, 64];
    for k in tiles(K, 64) { acc = mma(load A[m, k], load B[k, :], acc); }
    store C[m, :] = acc;
}
"""
FAULTS = {
    "right": ("", ":", None, ROWS),
    "wrong": ("", "sed -i 's/mul.f32/add.f32/' $out", "wrong", ROWS),
    "stride": ("", "sed -i 's/.rows_s_Y_0]/[rows_s_X_0]/' $out", "stride", ROWS),
    "crash": ("case $* in *-fno-*) echo 'tilec: internal error: planted' >&2; exit 2 ;; esac", ":", "crash", ROWS),
    "refused": ("case $* in *sm_100*) echo 'k.tile:1:1: error: kernel is too green' >&2; exit 1 ;; esac", ":",
                "refused", ROWS),
    "plan": ("case $* in *--plan=[a-m]*|*--plan=[o-z]*) echo \"error: kernel 'k' can not have this plan: it is too green\" >&2; "
             "exit 1 ;; esac", ":", "refused", LOOP),
    "hang": ("case $* in *--plan=*) exec sleep 20 ;; esac", ":", "hang", LOOP),
    "text": ("case $* in *k.lir*) set -- -arch sm_80 -O0 ${0%/*}/other.lir -o - ;; esac", ":", "text", LOOP),
}


MOST_DRAWN = 25  # programs that a mistake changes, until it is found


class Tester:
    def __init__(self, options, folder):
        self.options, self.folder, self.bad = options, folder, 0

    def check(self, good, what):
        if not good:
            self.bad += 1
            print(what)

    def spoiled(self, name, before, after):
        path = os.path.join(self.folder, name + ".sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SPOILED.format(tilec=self.options.tilec, before=before, after=after))
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def fault(self, name, before, after, kind, text):
        import judge
        tilec = self.spoiled(name, before, after)
        made = judge.Judge(tilec, self.options.tilerun, 5 if kind == "hang" else 60)
        judge.TEXTS = 1.0 if name == "text" else 0.0
        found = made.program(judge.Case(text), 3)
        kinds = {f["kind"] for f in found["failures"]}
        if kind is None or kind == "stride":
            self.check(not kinds if kind is None else kinds & {"fault", "wrong"}, f"{name}: {found}")
        else:
            self.check(kind in kinds, f"{name}: {kind} is not found: {found}")

    def drawn(self, name):
        """Of the programs that a mistake changes, one of the first is seen to be wrong."""
        import judge
        import judge_plants
        import program
        edge, _, arch, kind = judge_plants.PLANTS[name]
        path, seen = os.path.join(self.folder, name + ".sh"), 0
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/judge_plants.py" {name} "{self.options.tilec}" "$@"\n')
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        made = judge.Judge(path, self.options.tilerun, 20)
        made.texts, made.ways = False, lambda r, number, every: [ways.Way(["-arch", arch], 0)]  # as ptxas contracts
        for seed in range(1, 2001):
            case = program.make(seed)
            if edge not in case.how.get("edges", []) or not judge_plants.changes(name, case) or seen >= MOST_DRAWN:
                continue
            seen += 1
            if kind in {f["kind"] for f in made.program(case, seed)["failures"]}:
                print(f"{name}: found by seed {seed}, the {seen}. program that it changes", flush=True)
                return
        self.check(False, f"{name}: not found in {seen} programs that it changes")

    def makes_small(self):
        """A run over seeds keeps what fails, whole and made small, and says how many are refused."""
        tilec = self.spoiled("small", "", "sed -i 's/sub.f32/add.f32/;s/mul.f32/add.f32/' $out")
        keep, log = os.path.join(self.folder, "keep"), os.path.join(self.folder, "log")
        done = subprocess.run([sys.executable, os.path.join(HERE, "judge.py"), "--tilec", tilec, "--tilerun",
                               self.options.tilerun, "--first", "6", "--count", "6", "--keep", keep, "--log", log,
                               "--reduce", "15"], capture_output=True, text=True, check=False)
        self.check(done.returncode == 1 and "made small" in done.stdout, f"no failure of six: {done.stdout}{done.stderr}")
        with open(log, encoding="utf-8") as file:
            failed = [json.loads(line)["seed"] for line in file if '"failed"' in line]
        small = glob.glob(os.path.join(keep, "*.reduced.tile"))
        self.check(failed and all(os.path.exists(f"{keep}/{s}.tile") for s in failed) and small, f"{keep}: {failed} {small}")
        for path in small:
            whole = path.replace(".reduced", "")
            self.check(os.path.getsize(path) < os.path.getsize(whole), f"{path} is not smaller than {whole}")
        self.check("refused for a limit" in done.stdout, "the summary says nothing of refused programs")

    def folder_says_why(self):
        """Of an undecided case no more is said than that: nothing of it was compiled."""
        import judge
        cases, said = os.path.join(self.folder, "cases"), io.StringIO()
        os.mkdir(cases)
        with open(os.path.join(cases, "rows.tile"), "w", encoding="utf-8") as file:
            file.write(ROWS.replace('"seed"', '"tensor": true, "seed"'))
        options = argparse.Namespace(**vars(self.options), cases=cases, timeout=60, oracle=None, all=False)
        with mock.patch.object(judge.Judge, "undecided", return_value=True), contextlib.redirect_stdout(said):
            status = judge.folder(options)
        self.check(status == 1 and "rows.tile: undecided" in said.getvalue(), f"an undecided case: {said.getvalue()}")

    def counts_what_is_not_drawn(self):
        """An exception of the generator is one program that is not legal: the others are judged."""
        import judge
        import program
        judge.work.judge = None
        with mock.patch.object(program, "make", side_effect=KeyError("st16")):
            made = judge.work((argparse.Namespace(edges=set()), 5))
        self.check((made["status"], made["why"]) == ("illegal", "KeyError: 'st16'"), f"a program that is not drawn: {made}")

    def texts(self):
        """Every alternative of every row is in the compiler, and every key of plans that it lists has a row."""
        ways.Ways(self.options.tilec)
        said = ""
        for path in glob.glob(os.path.join(self.options.sources, "**", "*.c"), recursive=True):
            with open(path, encoding="utf-8") as file:
                said += re.sub(r'"\s*(?:PRIu32\s*)?"', "", file.read())
        said = re.sub(r"%(?:d|u|s|zu)?", "1", said)
        for row in ways.LIMITS + ways.PLAN_LIMITS:
            pieces = [p.split("|") for p in re.split(r"[()]", row)]
            for text in itertools.product(*pieces):
                for word in re.split(r": ", "".join(text)):
                    self.check(re.search(word, said), f"ways.py: the compiler does not say '{word}'")

    def plans(self):
        """Of the programs that are drawn so many have warp groups on sm_90, and products in tensor memory on sm_100."""
        import program
        least, path = {"sm_90": ("wgmma.mma_async", 15), "sm_100": ("tcgen05.mma", 5)}, os.path.join(self.folder, "k.tile")
        have = dict.fromkeys(least, 0)
        for seed in range(80):
            with open(path, "w", encoding="utf-8") as file:
                file.write(program.make(seed).text)
            for arch, (word, _) in least.items():
                done = subprocess.run([self.options.tilec, path, "-arch", arch, "-o", "-"], capture_output=True, text=True,
                                      check=False)
                have[arch] += word in done.stdout
        for arch, (word, n) in least.items():
            print(f"{have[arch]} of 80 programs have {word} on {arch}")
            self.check(have[arch] >= n, f"{have[arch]} of 80 programs have {word} on {arch}, at least {n} should")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec")
    parser.add_argument("--tilerun")
    parser.add_argument("--sources")
    parser.add_argument("--drawn", nargs="*")
    options = parser.parse_args()
    if options.sources:
        with tempfile.TemporaryDirectory() as folder:
            tester = Tester(options, folder)
            tester.texts()
            tester.plans()
        return 1 if tester.bad else 0
    if options.drawn is not None:
        import judge_plants
        with tempfile.TemporaryDirectory() as folder:
            tester = Tester(options, folder)
            for name in options.drawn or judge_plants.PLANTS:
                tester.drawn(name)
        return 1 if tester.bad else 0
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(options, folder)
        with open(os.path.join(folder, "other.tile"), "w", encoding="utf-8") as file:
            file.write(ROWS)
        subprocess.run([options.tilec, f"{folder}/other.tile", "--emit=lir", "-o", f"{folder}/other.lir"], check=True)
        for name, fault in FAULTS.items():
            tester.fault(name, *fault)
        tester.makes_small()
        tester.folder_says_why()
        tester.counts_what_is_not_drawn()
    print(f"{len(FAULTS)} faults, {tester.bad} checks failed")
    return 1 if tester.bad else 0


if __name__ == "__main__":
    sys.exit(main())
