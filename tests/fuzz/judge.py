#!/usr/bin/env python3
"""judge.py - random programs (program.py), compiled in many ways, against the reference interpreter.

    judge.py --tilec T --tilerun R [--first SEED] [--count N | --minutes M] [--jobs J]
             [--all] [--keep FOLDER] [--log FILE]
    judge.py --tilec T --tilerun R --case FILE.tile [-- FLAGS of tilec]
    judge.py --tilec T --tilerun R --cases FOLDER [--all]

`tilec run` says what a program means and how far each element may be off.  Every target at -O0 and
-O3, a choice of passes switched off (--all: each in turn), and random plans for warp groups run in
the simulator, each under a seed of its own.  A fault of tilec, a hang, a finding of the simulator, a
wrong number, and a refusal that no document mentions (LIMITS) are failures.  With --log the run can be
taken up again: seeds in the file are not done twice.
"""
import argparse
import collections
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

import program
from case import Case, from_bits

# What a legal program may be refused for: limits that the documents name.
LIMITS = [
    r"needs \d+ bytes of shared memory, but sm_\d+ gives a block",
    r"plan.*cannot|cannot have (this|a) plan|--plan",
]
# What a plan of somebody's choice may be refused for as well.
PLAN_LIMITS = [r"plan", r"registers", r"bands", r"warp group"]
LOOSE = 0.1  # a tolerance beyond this part of the values decides nothing

Failure = collections.namedtuple("Failure", "kind text flags seed")


class Refused(Exception):
    pass


class Undecided(Exception):
    pass


class Illegal(Exception):
    """The interpreter says that the program is wrong: a mistake of the generator."""


def plain(message):
    """A message without names and numbers, to count it by."""
    line = next((x for x in message.split("\n") if "error" in x or "fault" in x), message.split("\n")[0])
    line = re.sub(r"\S*\.tile:\d+:\d+: ", "", line)
    return re.sub(r"'[^']*'|\d+", "#", line)[:160]


class Judge:
    def __init__(self, tilec, tilerun, timeout=60):
        self.tilec, self.tilerun, self.timeout = tilec, tilerun, timeout
        done = subprocess.run([tilec, "run", "--help"], capture_output=True, text=True, check=False)
        self.tolerance = "--tolerance" in done.stdout
        self.interpreter = "tilec run" in done.stdout
        said = subprocess.run([tilec, "--list-passes"], capture_output=True, text=True, check=True)
        self.passes = re.findall(r"^(\S+)\s.* -O [14]\+", said.stdout, re.M)

    # ---- what is right ----

    def write(self, case, folder):
        with open(os.path.join(folder, "k.tile"), "w", encoding="utf-8") as file:
            file.write(case.text)
        for name in case.inputs():
            np.save(os.path.join(folder, name + ".npy"), case.array(name))

    def arguments(self, case, folder, suffix):
        made = []
        for name in case.inputs():
            made += ["--in", f"{name}={folder}/{name}.npy"]
        for name in case.outputs():
            made += ["--out", f"{name}={folder}/{name}{suffix}.npy"]
        for text in case.sets():
            made += ["--set", text]
        return made

    def expect(self, case, folder):
        """{output: (values, tolerance)} by the interpreter."""
        if not self.interpreter:
            return self.expect_crossed(case, folder)
        command = [self.tilec, "run", f"{folder}/k.tile"] + self.arguments(case, folder, ".want")
        for name in case.outputs() if self.tolerance else []:
            command += ["--tolerance", f"{name}={folder}/{name}.tol.npy"]
        done = self.call(command, 4 * self.timeout)
        if done.returncode == 1 and "not supported yet" in done.stderr:
            raise Undecided(done.stderr[:300])
        if done.returncode == 1:
            raise Illegal(done.stderr[:600])
        if done.returncode != 0:
            raise RuntimeError(f"tilec run exits {done.returncode}: {done.stderr[:300]}")
        want = {}
        for name in case.outputs():
            dtype = case.tensors[name][1]
            x = from_bits(np.load(f"{folder}/{name}.want.npy"), dtype)
            tol = np.load(f"{folder}/{name}.tol.npy").astype(np.float64) if self.tolerance else \
                roughly(case, name, x)
            want[name] = (x, tol)
        return want

    def expect_crossed(self, case, folder):
        """Without an interpreter: what sm_80 gives at -O0, loosely."""
        try:
            have = self.outputs_of(case, folder, ["-arch", "sm_80", "-O0"], 1)
        except Refused as refused:
            raise Undecided from refused
        if isinstance(have, Failure):
            raise CrossedFailure(have)
        want = {}
        for name, x in have.items():
            want[name] = (x, roughly(case, name, x))
        return want

    @staticmethod
    def undecided(want):
        loose = total = 0
        for x, tol in want.values():
            if x.size == 0:
                continue
            scale = np.where(np.isfinite(x), np.abs(x), 0.0)
            base = np.maximum(scale, 0.1 * scale.mean())
            loose += int((tol > LOOSE * base).sum() - ((tol > LOOSE * base) & (tol <= 1e-3)).sum())
            total += x.size
        return total > 0 and loose > 0.5 * total

    # ---- one way of compiling ----

    def call(self, command, timeout=None):
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout or self.timeout, check=False,
                              errors="replace")

    def compiled(self, folder, flags, seed):
        """The PTX's path, or a Failure; Refused."""
        ptx = f"{folder}/k.ptx"
        try:
            done = self.call([self.tilec, f"{folder}/k.tile", "-o", ptx, "--verify"] + flags)
        except subprocess.TimeoutExpired:
            return Failure("hang", "tilec does not end", flags, seed)
        if done.returncode == 1 and "internal" not in done.stderr:
            raise Refused(done.stderr)
        if done.returncode != 0:
            return Failure("crash", f"tilec exits {done.returncode}: {done.stderr[:400]}", flags, seed)
        return ptx

    def execute(self, command, seed):
        """(exit status, what was said) of tilerun; None: it does not end."""
        try:
            done = self.call([self.tilerun] + command + ["--device", "sim", "--seed", str(seed)], 4 * self.timeout)
        except subprocess.TimeoutExpired:
            return None
        return done.returncode, done.stderr + done.stdout

    def outputs_of(self, case, folder, flags, seed, done_before=None):
        """{output: values}, or a Failure, or None for text that was run before."""
        ptx = self.compiled(folder, flags, seed)
        if isinstance(ptx, Failure):
            return ptx
        if done_before is not None:
            with open(ptx, encoding="utf-8") as file:
                text = file.read()
            self.planned = ".target sm_90a" in text
            key = hash(text)
            if key in done_before:
                return None
            done_before.add(key)
        ended = self.execute([ptx] + self.arguments(case, folder, ".have"), seed)
        if ended is None:
            return Failure("hang", "the run does not end", flags, seed)
        status, said = ended
        if status != 0:
            said = [x.strip() for x in said.split("\n") if x.strip() and "grid" not in x]
            kind = "fault" if status == 3 else "crash" if status < 0 else "run"
            return Failure(kind, f"tilerun exits {status}: {'; '.join(said[:4])[:500]}", flags, seed)
        return {name: from_bits(np.load(f"{folder}/{name}.have.npy"), case.tensors[name][1])
                for name in case.outputs()}

    def try_way(self, case, folder, flags, seed, want, done_before=None):
        """None, or a Failure; Refused."""
        have = self.outputs_of(case, folder, flags, seed, done_before)
        if have is None or isinstance(have, Failure):
            return have
        for name, x in have.items():
            wrong = differs(name, x, *want[name])
            if wrong:
                return Failure("wrong", wrong, flags, seed)
        return None

    def ways(self, r, every):
        """(flags, seed of the simulator) of one program."""
        pick = lambda items: items[int(r.integers(len(items)))]
        seed = lambda: int(r.integers(1, 1000))
        yield ["-arch", "sm_80", "-O0"], seed()
        yield ["-arch", "sm_80"], seed()
        yield ["-arch", "sm_90"], seed()
        yield ["-arch", "sm_90", "-O0"] if r.random() < 0.3 else ["-arch", "sm_90", "--plan=none"], seed()
        yield ["-arch", "sm_100"], seed()
        if r.random() < 0.3:
            yield ["-arch", "sm_100", "-O0"], seed()
        if every:
            for arch in ("sm_80", "sm_90", "sm_100"):
                for name in self.passes:
                    yield ["-arch", arch, f"-fno-{name}"], seed()
                    yield ["-arch", arch, "-O0", f"-f{name}"], seed()
        else:
            for _ in range(2):
                yield ["-arch", pick(["sm_80", "sm_90", "sm_90", "sm_100"]), f"-fno-{pick(self.passes)}"], seed()
            yield ["-arch", pick(["sm_80", "sm_90", "sm_100"]), "-O0", f"-f{pick(self.passes)}"], seed()
        for _ in range(2):
            yield ["-arch", "sm_90", "--plan=" + self.plan(r, pick)], seed()
        flags = ["-arch", pick(["sm_80", "sm_90", "sm_100"])]
        if r.random() < 0.7:
            flags.append(f"--warps={pick([1, 2, 4, 8])}")
        if r.random() < 0.5:
            flags.append(f"--stages={int(r.integers(1, 5))}")
        yield flags, seed()

    @staticmethod
    def plan(r, pick):
        keys = [f"bands={int(r.integers(1, 5))}", f"stages={int(r.integers(1, 5))}", f"slots={int(r.integers(1, 3))}",
                f"persistent={int(r.integers(0, 2))}", f"dynamic={int(r.integers(0, 2))}",
                f"overlap={int(r.integers(0, 2))}", f"turns={int(r.integers(0, 2))}",
                f"divide={int(r.integers(0, 2))}", "cluster=2"]
        some = [keys[k] for k in sorted(r.permutation(len(keys))[:int(r.integers(1, 4))])]
        return ",".join(some)

    @staticmethod
    def is_limit(message, flags):
        limits = LIMITS + (PLAN_LIMITS if any(f.startswith("--plan=") for f in flags) else [])
        return any(re.search(x, message) for x in limits)

    def program(self, case, seed, every=False):
        """{status, runs, planned, failures, refusals} of one case."""
        made = {"seed": seed, "status": "ok", "runs": 0, "planned": False, "failures": [], "refusals": []}
        r = np.random.default_rng([seed, 99])
        with tempfile.TemporaryDirectory(prefix="judge") as folder:
            self.write(case, folder)
            try:
                want = self.expect(case, folder)
            except (Undecided, Illegal) as no:
                made["status"], made["why"] = type(no).__name__.lower(), str(no)
                return made
            except (RuntimeError, subprocess.TimeoutExpired, OSError) as problem:
                made["status"], made["why"] = "interpreter", str(problem)[:500]
                return made
            except CrossedFailure as crossed:
                made["failures"].append(crossed.failure._asdict())
                made["status"] = "failed"
                return made
            if self.undecided(want):
                made["status"] = "undecided"
                return made
            done_before = set()
            for flags, sim_seed in list(self.ways(r, every)):
                self.planned = False
                try:
                    failure = self.try_way(case, folder, flags, sim_seed, want, done_before)
                except Refused as refused:
                    message = str(refused)
                    if self.is_limit(message, flags):
                        made["refusals"].append(plain(message))
                        continue
                    failure = Failure("refused", message[:500], flags, sim_seed)
                made["runs"] += 1
                made["planned"] |= self.planned and flags == ["-arch", "sm_90"]
                if failure:
                    made["status"] = "failed"
                    made["failures"].append(failure._asdict())
        return made


def roughly(case, name, x):
    """A tolerance where nobody says one."""
    big = np.abs(x[np.isfinite(x)]).max(initial=0.0)
    rough = 0 if case.tensors[name][1] in ("i32", "bool") else 0.02
    return np.full(x.shape, rough * big + (1e-6 if rough else 0))


class CrossedFailure(Exception):
    def __init__(self, failure):
        super().__init__(failure.text)
        self.failure = failure


def differs(name, have, want, tol):
    if have.shape != want.shape:
        return f"{name} has the shape {have.shape}, expected {want.shape}"
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        near = np.abs(have - want) <= tol
    bad = ~(same | near | np.isposinf(tol))
    if not bad.any():
        return None
    at = tuple(int(k) for k in np.argwhere(bad)[0])
    return (f"{name}: {int(bad.sum())} of {bad.size} wrong, first at {list(at)}: {have[at]}, "
            f"expected {want[at]} (within {tol[at]:.3g})")


# ---- many programs ----

def work(task):
    options, seed = task
    judge = work.judge
    for draw in range(5):  # what cannot be decided is drawn again
        case = program.make(seed + draw * 10**9)
        made = judge.program(case, seed, options.all)
        made["draw"] = draw
        if made["status"] != "undecided":
            break
    if made["status"] not in ("ok", "undecided"):
        made["text"] = case.text
    return made


def begin(options):
    work.judge = Judge(options.tilec, options.tilerun, options.timeout)


def save(options, made):
    os.makedirs(options.keep, exist_ok=True)
    head = f"// {made['status']}: {made.get('why', '')}\n".replace("\n", "\n// ").rstrip("/ ").rstrip() + "\n"
    for f in made["failures"]:
        head += f"// {f['kind']}: tilec {' '.join(f['flags'])}; tilerun --seed {f['seed']}\n"
        head += "".join(f"//   {line}\n" for line in f["text"].split("\n") if line)
    with open(os.path.join(options.keep, f"{made['seed']}.tile"), "w", encoding="utf-8") as file:
        file.write(head + made["text"])


def kind_of(failure):
    text = re.sub(r"Y\d+|Z\d+", "T", failure["text"])
    return failure["kind"] + ": " + (plain(text) if failure["kind"] != "wrong" else "")


def many(options):
    done = set()
    if options.log and os.path.exists(options.log):
        with open(options.log, encoding="utf-8") as file:
            done = {json.loads(line)["seed"] for line in file if line.strip()}
    seeds = [s for s in range(options.first, options.first + options.count) if s not in done]
    count, why, begun = collections.Counter(), collections.Counter(), time.monotonic()
    log = open(options.log, "a", encoding="utf-8") if options.log else None
    with multiprocessing.Pool(options.jobs, options.begin, [options]) as pool:
        for made in pool.imap_unordered(work, [(options, s) for s in seeds]):
            count["programs"] += 1
            count[made["status"]] += 1
            count["runs"] += made["runs"]
            count["planned"] += made["planned"]
            count["redrawn"] += made["draw"]
            for message in made["refusals"]:
                why[message] += 1
            if made["status"] not in ("ok", "undecided"):
                for f in made["failures"][:3] or [None]:
                    said = f"{f['kind']}: {' '.join(f['flags'])} (--seed {f['seed']}): {f['text']}" if f else \
                        f"{made['status']}: {made.get('why', '')}"
                    print(f"seed {made['seed']}: {said[:300].strip()}", flush=True)
                if options.keep:
                    save(options, made)
            if log:
                made.pop("text", None)
                log.write(json.dumps(made) + "\n")
                log.flush()
            if count["programs"] % 50 == 0:
                print(f"... {summary(count, begun)}", flush=True)
            if options.minutes and time.monotonic() - begun > options.minutes * 60:
                pool.terminate()
                break
    print(summary(count, begun))
    for message, n in why.most_common():
        print(f"    {n} x refused: {message}")
    return 1 if count["failed"] + count["interpreter"] + count["illegal"] or not count["runs"] else 0


def summary(count, begun):
    bad = count["failed"] + count["interpreter"] + count["illegal"]
    return (f"{count['programs']} programs, {count['runs']} runs, {bad} failed "
            f"({count['illegal']} not legal, {count['interpreter']} by the interpreter's fault), "
            f"{count['planned']} with warp groups, {count['undecided']} undecided, {count['redrawn']} drawn again, "
            f"{time.monotonic() - begun:.0f} s")


def one(options):
    judge = Judge(options.tilec, options.tilerun, options.timeout)
    with open(options.case, encoding="utf-8") as file:
        case = Case(file.read())
    if not options.flags:
        made = judge.program(case, 0, options.all)
        print(json.dumps(made, indent=1))
        return 0 if made["status"] == "ok" else 1
    with tempfile.TemporaryDirectory() as folder:
        judge.write(case, folder)
        want = judge.expect(case, folder)
        failure = judge.try_way(case, folder, options.flags, options.seed, want)
    print(failure or "right")
    return 1 if failure else 0


def first_seed(text):
    """`fresh`: other programs for every commit, the same ones for one commit; TILEC_FUZZ_SEED says which."""
    if text != "fresh":
        return int(text)
    said = os.environ.get("TILEC_FUZZ_SEED", "")
    if not said:
        done = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short=7", "HEAD"],
                              capture_output=True, text=True, check=False)
        said = str(int(done.stdout[:7], 16)) if done.returncode == 0 else time.strftime("%Y%m%d000")
    print(f"first seed {said} (TILEC_FUZZ_SEED={said} judges the same programs)", flush=True)
    return int(said)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--first", type=first_seed, default=0, help="a number, or `fresh`: by the commit, or the day")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--keep", help="folder for the programs that fail")
    parser.add_argument("--log", help="a line of JSON for each program; seeds in it are not done again")
    return parser


def folder(options):
    """What once failed."""
    judge, failed = Judge(options.tilec, options.tilerun, options.timeout), 0
    names = sorted(n for n in os.listdir(options.cases) if n.endswith(".tile"))
    for name in names:
        with open(os.path.join(options.cases, name), encoding="utf-8") as file:
            made = judge.program(Case(file.read()), len(name), options.all)
        if made["status"] != "ok":
            failed += 1
            print(f"{name}: {made['status']} {made.get('why', '')}")
            for f in made["failures"]:
                print(f"    {f['kind']}: {' '.join(f['flags'])} (--seed {f['seed']}): {f['text']}")
    print(f"{len(names)} cases, {failed} failed")
    return 1 if failed or not names else 0


def main():
    parser = arguments()
    parser.add_argument("--all", action="store_true", help="every pass off in turn")
    parser.add_argument("--case", help="judges this file")
    parser.add_argument("--cases", help="judges the cases of this folder")
    parser.add_argument("--seed", type=int, default=1, help="of the simulator, with --case")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:at])
    options.flags, options.begin = sys.argv[at + 1:], begin
    return folder(options) if options.cases else one(options) if options.case else many(options)


if __name__ == "__main__":
    sys.exit(main())
