#!/usr/bin/env python3
"""judge.py - random programs (program.py), compiled in many ways, against the reference interpreter.

    judge.py --tilec T --tilerun R [--first SEED] [--count N | --minutes M] [--jobs J]
             [--all] [--keep FOLDER] [--log FILE] [--reduce SECONDS] [--edges KIND,..] [--oracle T]
    judge.py --tilec T --tilerun R --case FILE.tile [-- FLAGS of tilec]
    judge.py --tilec T --tilerun R --cases FOLDER [--all]

`tilec run` says what a program means and how far each element may be off (--oracle: that of another commit).  Every target at -O0 and
-O3, a choice of passes switched off (--all: each in turn, on one target), and random plans for warp groups run in
the simulator, each under a seed of its own (ways.py); on a share of programs what --dump-ir prints
after one pass, and the lane IR, are read again and go on to the same.  A fault of tilec, a hang, a finding
of the simulator, a wrong number, a program that the interpreter calls wrong, and a refusal that no
document mentions are failures.  Elements that may be anything are counted (`blind`), and a program of which more than half the elements of a
tensor are is undecided.  --edges: only programs that draw one of these kinds (program_edges.py).  What fails is made small (reduce.py, for --reduce seconds; 0: not),
and kept in FOLDER as SEED.tile and SEED.reduced.tile.  With --log the run can be taken up again:
seeds in the file are not done twice.
"""
import argparse
import collections
import itertools
import json
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

import program
from bar import Bar
from case import Case, from_bits
from ways import Way, Ways, refusal, with_plan

TEXTS = 0.15  # of the programs, whose IR is read again
# A tolerance beyond this part of the values decides nothing.  A tenth would leave 1.75 % of programs undecided: sums of both
# signs over 16-bit values that a loop in any order rounds elsewhere are off by a seventh of themselves, by right.
LOOSE = 0.25

class Failure(collections.namedtuple("Failure", "kind text flags seed plan", defaults=[None])):
    """What went wrong with these flags, under this seed of the simulator; `plan`: with @plan in the text."""


class Refused(Exception):
    """Of a kind of ways.refusal."""

    def __init__(self, message, kind=None):
        super().__init__(message)
        self.kind = kind


class Undecided(Exception):
    pass


QUIET = ["-Wno-unused", "-Wno-dimension", "-Wno-broadcast", "-Wno-repeated"]  # what is drawn, and what is left of a program made small, is full of them


class Illegal(Exception):
    """The interpreter says that the program is wrong: a mistake of the generator."""


def plain(message):
    """A message without names and numbers, to count it by."""
    line = next((x for x in message.split("\n") if "error" in x or "fault" in x), message.split("\n")[0])
    line = re.sub(r"\S*\.tile:\d+:\d+: ", "", line)
    return re.sub(r"'[^']*'|\d+", "#", line)[:160]


class Judge:
    texts = True

    def __init__(self, tilec, tilerun, timeout=60, oracle=None):
        self.tilec, self.tilerun, self.timeout, self.oracle = tilec, tilerun, timeout, oracle or tilec
        self.given = []
        done = subprocess.run([self.oracle, "run", "--help"], capture_output=True, text=True, check=False)
        self.tolerance = "--tolerance" in done.stdout
        self.interpreter = "tilec run" in done.stdout
        self.ways_of = Ways(tilec)
        self.seen = collections.Counter()  # kinds of failures that were made small
        self.noted = []  # what the last compilation said beside errors

    # ---- what is right ----

    def write(self, case, folder):
        self.given = [f"-D{name}={value}" for name, value in case.given.items()]  # of the case at hand
        with open(os.path.join(folder, "k.tile"), "w", encoding="utf-8") as file:
            file.write(case.text)
        for name in case.inputs():
            np.save(os.path.join(folder, name + ".npy"), case.array(name))

    def arguments(self, case, folder, suffix):
        made = case.layouts() if suffix == ".have" else []
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
        command = [self.oracle, "run", f"{folder}/k.tile", "--nan=ignore", *QUIET] + self.arguments(case, folder, ".want")
        command += [f"-D{name}={value}" for name, value in case.defines.items()]
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

    def resolve(self, case, folder, ptx):
        """The case and its folder with what tilec chose for `auto`; one kernel has such parameters."""
        if not case.autos:
            return case, folder
        with open(ptx, encoding="utf-8") as file:
            chosen = dict(re.findall(r"(\w+)=(\d+)", " ".join(re.findall(r"^//   constants (.*)$", file.read(20000), re.M))))
        made = case.resolved({name: int(chosen[name]) for name in case.autos})
        inner = os.path.join(folder, "_".join(str(v) for v in made.defines.values()))
        if not os.path.isdir(inner):
            os.mkdir(inner)
            self.write(made, inner)
        return made, inner

    def expected(self, case, folder, want):
        """What `want` holds of the values chosen for `auto`, or else the interpreter says."""
        key = tuple(case.defines.items())
        if key not in want:
            want[key] = self.expect(case, folder)
        return want[key]

    def expect_crossed(self, case, folder):
        """Without an interpreter: what sm_80 gives at -O0, loosely."""
        try:
            have = self.outputs_of(case, folder, Way(["-arch", "sm_80", "-O0"], 1))[0]
        except Refused as refused:
            raise Undecided from refused
        if isinstance(have, Failure):
            raise CrossedFailure(have)
        want = {}
        for name, x in have.items():
            want[name] = (x, roughly(case, name, x))
        return want

    @staticmethod
    def loose(want):
        """For each output (elements that decide nothing, elements)."""
        for x, tol in want.values():
            scale = np.where(np.isfinite(x), np.abs(x), 0.0)
            base = np.maximum(scale, 0.1 * scale.mean()) if x.size else scale
            yield int(((tol > LOOSE * base) & (tol > 1e-3)).sum()), x.size

    @classmethod
    def undecided(cls, want):
        """In some tensor more than half of the elements may be nearly anything."""
        return any(loose > 0.5 * n for loose, n in cls.loose(want))

    # ---- one way of compiling ----

    def call(self, command, timeout=None):
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout or self.timeout, check=False,
                              errors="replace")

    def compiled(self, folder, way, name="k"):
        """The PTX's path, or a Failure; Refused."""
        ptx = f"{folder}/{name}.ptx"
        try:
            done = self.call([self.tilec, f"{folder}/{name}.tile", "-o", ptx, "--verify", *QUIET] + self.given + way.flags)
        except subprocess.TimeoutExpired:
            return Failure("hang", "tilec does not end", way.flags, way.seed, way.plan)
        if done.returncode == 1 and "internal" not in done.stderr:
            raise Refused(done.stderr, refusal(done.stderr, way))
        if done.returncode != 0:
            return Failure("crash", f"tilec exits {done.returncode}: {done.stderr[:400]}", way.flags, way.seed, way.plan)
        self.noted = re.findall(r"warning: (.*)", done.stderr)
        return ptx

    def execute(self, command, seed):
        """(exit status, what was said) of tilerun; None: it does not end."""
        try:
            done = self.call([self.tilerun] + command + ["--device", "sim", "--seed", str(seed)], 4 * self.timeout)
        except subprocess.TimeoutExpired:
            return None
        return done.returncode, done.stderr + done.stdout

    def outputs_of(self, case, folder, way, done_before=None):
        """({output: values}, or a Failure, or None for text that was run before; the case; its folder)."""
        name = "k"
        if way.plan:
            name = "planned"
            with open(f"{folder}/planned.tile", "w", encoding="utf-8") as file:
                file.write(with_plan(case.text, way.plan))
        ptx = self.compiled(folder, way, name)
        if isinstance(ptx, Failure):
            return ptx, case, folder
        if way.plan:
            wrong = self.attribute_differs(case, folder, way, ptx)
            if wrong:
                return wrong, case, folder
        if done_before is not None:
            with open(ptx, encoding="utf-8") as file:
                text = file.read()
            self.planned, self.tensor = ".target sm_90a" in text, "tcgen05.mma" in text
            # the kernels, and how they are launched
            key = hash((text[text.find(".visible .entry"):], *re.findall(r"^//   launch .*\n.*", text, re.M)))
            if key in done_before:
                return None, case, folder
            done_before.add(key)
        case, folder = self.resolve(case, folder, ptx)
        ended = self.execute([ptx] + self.arguments(case, folder, ".have"), way.seed)
        if ended is None:
            return Failure("hang", "the run does not end", way.flags, way.seed, way.plan), case, folder
        status, said = ended
        if status != 0:
            said = [x.strip() for x in said.split("\n") if x.strip() and "grid" not in x]
            kind = "fault" if status == 3 else "crash" if status < 0 else "run"
            return Failure(kind, f"tilerun exits {status}: {'; '.join(said[:4])[:500]}", way.flags, way.seed,
                           way.plan), case, folder
        return {name: from_bits(np.load(f"{folder}/{name}.have.npy"), case.tensors[name][1])
                for name in case.outputs()}, case, folder

    def attribute_differs(self, case, folder, way, ptx):
        """@plan(..) is --plan=.. in the text: the kernels are the same."""
        if case.autos or re.search(r"^@(?!plan)", with_plan(case.text, way.plan), re.M):  # sizes are chosen otherwise
            return None
        twin = Way(way.flags + [f"--plan={way.plan}"], way.seed)
        try:
            other = self.compiled(folder, twin)
        except Refused as refused:
            return Failure("refused", f"@plan({way.plan}) is taken, --plan is not: {refused}"[:500], twin.flags, way.seed)
        if isinstance(other, Failure):
            return other
        if kernels(ptx) == kernels(other):
            return None
        return Failure("attribute", f"@plan({way.plan}) and --plan give other code", way.flags, way.seed, way.plan)

    def try_way(self, case, folder, way, want, done_before=None):
        """None, or a Failure; Refused."""
        have, case, folder = self.outputs_of(case, folder, way, done_before)
        if have is None or isinstance(have, Failure):
            return have
        want = self.expected(case, folder, want)
        for name, x in have.items():
            wrong = differs(name, x, *want[name])
            if wrong:
                return Failure("wrong", wrong, way.flags, way.seed, way.plan)
        return None

    def ways(self, r, number, every):
        return self.ways_of.of(r, number, every)

    def round_trip(self, folder, r):
        """What is dumped behind one pass goes on to the same tile IR, the lane IR to the same PTX."""
        flags = ["-arch", ["sm_80", "sm_90", "sm_100"][int(r.integers(3))]]
        if r.random() < 0.3:
            flags.append("-O0")
        for check in (self.lane_ir_differs, self.tile_ir_differs):
            wrong = check(folder, flags, r)
            if wrong:
                return Failure("text", wrong, flags, 0)
        return None

    def printed(self, path, *flags):
        given = self.given if path.endswith(".tile") else []
        done = self.call([self.tilec, path, *given, *flags, "-o", "-"])
        if done.returncode == 1 and refusal(done.stderr, Way(list(flags), 0)) == "limit":
            raise Refused(done.stderr, "limit")
        return done.stdout if done.returncode == 0 else f"tilec exits {done.returncode}: {done.stderr[:300]}"

    def lane_ir_differs(self, folder, flags, _):
        with open(f"{folder}/k.lir", "w", encoding="utf-8") as file:
            file.write(self.printed(f"{folder}/k.tile", *flags, "--emit=lir"))
        first, again = (kernels_of(self.printed(f"{folder}/{name}", *flags[:2 + (name == "k.tile")]))
                        for name in ("k.tile", "k.lir"))
        return first_difference("the lane IR's PTX", first, again)

    def tile_ir_differs(self, folder, flags, r):
        dumps = [(n, self.call([self.tilec, f"{folder}/k.tile", *self.given, *flags, f"--dump-ir={n}", "-o", f"{folder}/dump.ptx"]).stdout)
                 for n in self.ways_of.tile_ir]
        dumps = [(n, text) for n, text in dumps if text]
        at = int(r.integers(len(dumps)))
        (name, text), rest = dumps[at], [n for n, _ in dumps[at + 1:]]
        with open(f"{folder}/k.tir", "w", encoding="utf-8") as file:
            file.write(text)
        wrong = first_difference(f"tile IR after {name}, read and printed", lines_of(text),
                                 lines_of(self.printed(f"{folder}/k.tir", "--emit=tir")))
        if wrong or not rest:
            return wrong
        for kernel, end in re.findall(r"^kernel (\w+) (\{.*?^\})\n", dumps[-1][1], re.M | re.S):
            begun = re.search(rf"^kernel {kernel} \{{.*?^\}}\n", text, re.M | re.S)
            planned = re.search(r"^    plan ", end, re.M)
            if not begun or planned and not re.search(r"^    plan ", begun[0], re.M):
                continue  # what plan was chosen the text before `plan` does not say
            again = self.printed(f"{folder}/k.tir", *flags, "--run-pass=" + ",".join(rest), f"--kernel={kernel}")
            wrong = first_difference(f"tile IR after {name}, gone on with", lines_of(f"kernel {kernel} {end}\n"),
                                     lines_of(again))
            if wrong:
                return wrong
        return None

    def program(self, case, seed, every=False):
        """{status, runs, planned, failures, refusals, notes} of one case."""
        made = {"seed": seed, "status": "ok", "runs": 0, "planned": False, "tensor": False, "refused": False, "texts": 0, "blind": 0, "elements": 0,
                "failures": [], "refusals": [], "notes": []}
        r = np.random.default_rng([seed, 99])
        with tempfile.TemporaryDirectory(prefix="judge") as folder:
            self.write(case, folder)
            try:
                want = {tuple(case.defines.items()): self.expect(case, folder)}
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
            sure = next(iter(want.values()))
            made["blind"], made["elements"] = map(sum, zip(*self.loose(sure)))
            if self.undecided(sure):
                made["status"], made["why"] = "undecided", "more than half of a tensor's elements may be nearly anything"
                return made
            self.judge_ways(case, folder, made, list(self.ways(r, seed, every)), want)
            if self.texts and r.random() < TEXTS:
                self.judge_text(folder, made, r)
        return made

    def judge_ways(self, case, folder, made, ways, want):
        done_before = set()
        for way in ways:
            self.planned, self.tensor, self.noted = False, False, []
            try:
                failure = self.try_way(case, folder, way, want, done_before)
            except Refused as refused:
                message = str(refused)
                if refused.kind == "unproved" or refused.kind == "unbuilt":
                    made["notes"].append(f"{refused.kind}: {plain(message)}")
                    continue
                if refused.kind:
                    made["refusals"].append(f"{refused.kind}: {plain(message)}")
                    made["refused"] |= refused.kind == "limit" and not way.plan and len(way.flags) == 2
                    continue
                failure = Failure("refused", message[:500], way.flags, way.seed, way.plan)
            except (Undecided, Illegal, RuntimeError) as problem:  # with other values for `auto`
                failure = Failure("interpreter", f"{type(problem).__name__}: {problem}"[:500], way.flags, way.seed)
            made["notes"] += [f"unbuilt: {plain(text)}" for text in self.noted if "please report" in text]
            made["runs"] += 1
            made["planned"] |= self.planned and way.flags == ["-arch", "sm_90"]
            made["tensor"] |= self.tensor and way.flags == ["-arch", "sm_100"]
            if failure:
                made["status"] = "failed"
                made["failures"].append(failure._asdict())

    def judge_text(self, folder, made, r):
        try:
            failure = self.round_trip(folder, r)
        except Refused:
            return
        made["texts"] += 1
        if failure:
            made["status"] = "failed"
            made["failures"].append(failure._asdict())


def kernels_of(ptx):
    """The kernels alone: without metadata, comments and blank lines."""
    lines = [code for code in (line.split("//")[0].rstrip() for line in ptx.split("\n")) if code]
    return re.findall(r"^(?:\.extern \.shared [^\n]*\n)?\.visible \.entry .*?^\}", "\n".join(lines), re.M | re.S) or lines


def kernels(path):
    with open(path, encoding="utf-8") as file:
        return kernels_of(file.read())


def lines_of(text):
    return [line for line in text.split("\n") if line.strip()]


def first_difference(what, first, second):
    if first == second:
        return None
    pairs = itertools.zip_longest("\n".join(first).split("\n"), "\n".join(second).split("\n"))
    number, pair = next(((k, p) for k, p in enumerate(pairs) if p[0] != p[1]))
    return f"{what}: line {number + 1}: '{pair[0]}' is '{pair[1]}'"[:500]


def roughly(case, name, x):
    """A tolerance where nobody says one."""
    big = np.abs(x[np.isfinite(x)]).max(initial=0.0)
    rough = 0 if case.tensors[name][1] in ("i32", "u32", "bool", "i8", "u8") else 0.02
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
    judge, begun = work.judge, core_seconds()
    for draw in range(5):  # what cannot be decided is drawn again
        try:
            case = program.make(seed + draw * 10**9)
        except Exception as problem:  # a mistake of the generator: the others are judged
            return {"seed": seed, "status": "illegal", "why": f"{type(problem).__name__}: {problem}", "draw": draw, "runs": 0,
                    "planned": False, "tensor": False, "refused": False, "texts": 0, "failures": [], "refusals": [], "notes": [],
                    "edges": [], "core": 0.0, "text": ""}
        if options.edges and not options.edges & set(case.how.get("edges", [])):
            return None
        made = judge.program(case, seed, options.all)
        made["draw"] = draw
        if made["status"] != "undecided":
            break
    if made["status"] not in ("ok", "undecided"):
        made["text"] = case.text
        if options.reduce:
            made["reduced"] = reduced(judge, case, made["failures"], options.reduce)
    made["edges"] = case.how.get("edges", [])
    made["core"] = round(core_seconds() - begun, 3)
    return made


def core_seconds():
    """Of this process and of those that it ran."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def reduced(judge, case, failures, seconds):
    """The program made small, by the first failure that such a thing can be done with; or None."""
    from reduce import Reducer  # which needs this module
    for failure in failures:
        kind = kind_of(failure)
        if failure["kind"] in ("text", "interpreter") or judge.seen[kind] == 3:
            continue
        judge.seen[kind] += 1
        way = Way(failure["flags"], failure["seed"], failure["plan"])
        reducer = Reducer(judge, case, way, seconds)
        text = reducer.run()
        return text and f"// {reducer.wanted[0]}: {reducer.wanted[1]}\n// {said_way(failure)}\n{text}"
    return None


def said_way(f):
    plan = f", with @plan({f['plan']})" if f["plan"] else ""
    return f"tilec {' '.join(f['flags'])}{plan}; tilerun --seed {f['seed']}"


def begin(options):
    work.judge = Judge(options.tilec, options.tilerun, options.timeout, options.oracle)


def save(options, made):
    os.makedirs(options.keep, exist_ok=True)
    head = f"// {made['status']}: {made.get('why', '')}\n".replace("\n", "\n// ").rstrip("/ ").rstrip() + "\n"
    for f in made["failures"]:
        head += f"// {f['kind']}: {said_way(f)}\n"
        head += "".join(f"//   {line}\n" for line in f["text"].split("\n") if line)
    with open(os.path.join(options.keep, f"{made['seed']}.tile"), "w", encoding="utf-8") as file:
        file.write(head + made["text"])
    if made.get("reduced"):
        with open(os.path.join(options.keep, f"{made['seed']}.reduced.tile"), "w", encoding="utf-8") as file:
            file.write(made["reduced"])


def kind_of(failure):
    text = re.sub(r"Y\d+|Z\d+", "T", failure["text"])
    return failure["kind"] + ": " + (plain(text) if failure["kind"] != "wrong" else "")


def many(options):
    done = set()
    if options.log and os.path.exists(options.log):
        with open(options.log, encoding="utf-8") as file:
            done = {json.loads(line)["seed"] for line in file if line.endswith("}\n")}  # the last one may be cut off
    seeds = [s for s in range(options.first, options.first + options.count) if s not in done]
    count, why, begun = collections.Counter(), collections.Counter(), time.monotonic()
    log = open(options.log, "a", encoding="utf-8") if options.log else None
    bar = Bar(options.quiet)
    Ways(options.tilec)  # says here what it does not know: a worker that fails to begin is begun again, for ever
    with multiprocessing.Pool(options.jobs, options.begin, [options]) as pool:
        for made in pool.imap_unordered(work, [(options, s) for s in seeds]):
            if made is None:
                continue
            count["programs"] += 1
            count["blind"] += made.get("blind", 0)
            count["elements"] += made.get("elements", 0)
            count[made["status"]] += 1
            count["runs"] += made["runs"]
            count["planned"] += made["planned"]
            count["tensor"] += made["tensor"]
            count["redrawn"] += made["draw"]
            count["refused"] += made["refused"]
            count["texts"] += made["texts"]
            count["core"] += made["core"]
            for message in made["refusals"] + made["notes"]:
                why[message] += 1
            if made["status"] not in ("ok", "undecided"):
                bar.clear()
                for f in made["failures"][:3] or [None]:
                    said = f"{f['kind']}: {said_way(f)}: {f['text']}" if f else \
                        f"{made['status']}: {made.get('why', '')}"
                    print(f"seed {made['seed']}: {said[:300].strip()}", flush=True)
                if made.get("reduced"):
                    print("    made small:\n" + re.sub("(?m)^", "    ", made["reduced"].strip()), flush=True)
                if options.keep:
                    save(options, made)
            if log:
                made.pop("text", None)
                made.pop("reduced", None)
                log.write(json.dumps(made) + "\n")
                log.flush()
            if options.minutes:
                bar.show(time.monotonic() - begun, options.minutes * 60, summary(count, begun))
            else:
                bar.show(count["programs"], len(seeds), f"{count['programs']} of {len(seeds)}, {bad_of(count)} failed")
            if count["programs"] % 50 == 0 and not bar.on:
                print(f"... {summary(count, begun)}", flush=True)
            if options.minutes and time.monotonic() - begun > options.minutes * 60:
                pool.terminate()
                break
    bar.clear()
    print(summary(count, begun))
    for message, n in why.most_common():
        print(f"    {n} x {message}")
    return 1 if bad_of(count) or not count["runs"] else 0


def bad_of(count):
    return count["failed"] + count["interpreter"] + count["illegal"]


def summary(count, begun):
    return (f"{count['programs']} programs, {count['runs']} runs, {bad_of(count)} failed "
            f"({count['illegal']} not legal, {count['interpreter']} by the interpreter's fault), "
            f"{count['refused']} refused for a limit, {count['planned']} with warp groups, {count['tensor']} in "
            f"tensor memory, {count['texts']} read again, "
            f"{count['undecided']} undecided, {count['redrawn']} drawn again, "
            f"{100 * count['blind'] / max(1, count['elements']):.2f} % of elements blind, {time.monotonic() - begun:.0f} s, "
            f"{count['core']:.0f} core seconds")


def one(options):
    judge = Judge(options.tilec, options.tilerun, options.timeout, options.oracle)
    with open(options.case, encoding="utf-8") as file:
        case = Case(file.read())
    if not options.flags:
        made = judge.program(case, 0, options.all)
        print(json.dumps(made, indent=1))
        return 0 if made["status"] == "ok" else 1
    with tempfile.TemporaryDirectory() as folder:
        judge.write(case, folder)
        want = {tuple(case.defines.items()): judge.expect(case, folder)}
        failure = judge.try_way(case, folder, Way(options.flags, options.seed, options.attribute), want)
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
    parser.add_argument("--reduce", type=float, default=60, help="seconds to make a failing program small; 0: not")
    parser.add_argument("--edges", type=lambda text: set(text.split(",")), help="only programs with one of these, as compare,low")
    parser.add_argument("--oracle", help="another tilec, whose interpreter says what is right")
    parser.add_argument("--log", help="a line of JSON for each program; seeds in it are not done again")
    parser.add_argument("--quiet", action="store_true", help="no progress on a terminal")
    return parser


def folder(options):
    """What once failed."""
    judge, failed = Judge(options.tilec, options.tilerun, options.timeout, options.oracle), 0
    names = sorted(n for n in os.listdir(options.cases) if n.endswith(".tile"))
    for name in names:
        with open(os.path.join(options.cases, name), encoding="utf-8") as file:
            case = Case(file.read())
        made = judge.program(case, len(name), options.all)
        if made["status"] == "ok" and case.how.get("tensor") and not made["tensor"]:
            made["status"], made["why"] = "lost", "nothing lies in tensor memory on sm_100"
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
    parser.add_argument("--attribute", help="with @plan(..) of this in the text, with --case")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:at])
    options.flags, options.begin = sys.argv[at + 1:], begin
    return folder(options) if options.cases else one(options) if options.case else many(options)


if __name__ == "__main__":
    import judge as this  # one module, whoever asks for it: reduce.py does
    sys.exit(this.main())
