"""variants.py - the tuning mode of bench.py: several compilations of one kernel, one line each.

A variant may hang, or break the context of the GPU for all that come after it in the process.  So a
worker checks and times, and a supervisor that does not touch the GPU watches it: what does not end in
time, or does not survive, is left out, and the work goes on without it in a new worker.

The worker writes lines for people, and for the supervisor lines "@WORD JSON":
    @limit [SECONDS, NAME or null]   until the next one no more than this; NAME runs alone on the GPU
    @bad [NAME, REASON]              left out from now on
    @checked [CASE, NAME, ERRORS]    compared with float32
    @about [NAME, KIND, REGISTERS]
    @times [CASE, MODE, {NAME: [MS..]}, MHZ, WATTS]
"""

import csv
import json
import lzma
import os
import queue
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import assemble
import yardsticks
from case import Case

CHECK_LIMIT = 30  # seconds for a few runs of one kernel


# ---- the supervisor ----------------------------------------------------------------------------------


def read_text(path):
    with open(path, "rb") as file:
        data = file.read()
    return lzma.decompress(data) if path.endswith(".xz") else data


def stem(path):
    name = os.path.basename(path)
    return name.removesuffix(".xz").removesuffix(".ptx")


def unpack(paths, where, prefix=""):
    """[[name, path of the plain text]]; names are those of the files."""
    made, taken = [], set()
    for path in paths:
        name = prefix + stem(path)
        if name in taken:
            raise SystemExit(f"two variants are named {name}")
        taken.add(name)
        plain = os.path.join(where, name.replace(":", "-") + ".ptx")
        try:
            with open(plain, "wb") as file:
                file.write(read_text(path))
        except (OSError, lzma.LZMAError) as error:
            raise SystemExit(f"{path}: {error}") from None
        made.append([name, plain])
    return made


class Worker:
    """A process whose lines come one at a time, with a time to wait for each."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace", env=environment)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self, seconds):
        """The next line; None at the end; TimeoutError."""
        try:
            return self.lines.get(timeout=max(seconds, 0.01))
        except queue.Empty:
            raise TimeoutError from None

    def stop(self):
        self.process.kill()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            return None


class Supervisor:
    def __init__(self, state, where, command, say=print):
        self.state, self.where, self.command, self.say = state, where, command, say
        self.bad, self.checked, self.about, self.times = {}, {}, {}, {}
        self.clocks = {}

    def leave_out(self, name, reason):
        self.bad[name] = reason
        self.say(f"# {name}: {reason}")

    def run(self):
        """Until all is timed; False when that was not possible."""
        for _ in range(len(self.state["variants"]) + len(self.state["yardsticks"]) + 2):
            ended, alone, reason = self.once()
            if ended:
                return True
            if alone is None:
                self.say(f"# the worker {reason}")
                return False
            self.leave_out(alone, reason)
        return False

    def once(self):
        """(whether the work was done, what ran when it was not, why it was not)"""
        path = os.path.join(self.where, "state.json")
        done = [list(key) for key in self.times]
        with open(path, "w") as file:
            json.dump({**self.state, "bad": list(self.bad), "done": done,
                       "checked": [list(key) for key in self.checked]}, file)
        worker = Worker(self.command + [path], assemble.environment())
        limit, alone, last = 120.0, None, ""
        end = time.monotonic() + limit
        while True:
            try:
                line = worker.line(end - time.monotonic())
            except TimeoutError:
                worker.stop()
                return False, alone, f"did not end within {limit:g} s"
            if line is None:
                status = worker.process.wait()
                return status == 0, alone, f"ended with status {status}" + (f": {last}" if last else "")
            if not line.startswith("@"):
                last = line
                self.say(line)
                continue
            word, _, rest = line[1:].partition(" ")
            what = json.loads(rest)
            if word == "limit":
                (limit, alone), last = what, ""
                end = time.monotonic() + limit
            elif word == "bad":
                self.leave_out(*what)
            elif word == "checked":
                self.checked[tuple(what[:2])] = what[2]
            elif word == "about":
                self.about[what[0]] = what[1:]
            elif word == "times":
                self.times[tuple(what[:2])] = what[2]
                self.clocks[tuple(what[:2])] = what[3:]


def rows_of(supervisor, modes):
    """One row a contender and case: TFLOPS and the ratio to the best yardstick, by mode."""
    rows = []
    for text in supervisor.state["cases"]:
        case, names = Case(text), []
        for mode in modes:
            names += [n for n in supervisor.times.get((text, mode), {}) if n not in names]
        best = {}
        for name in names:
            kind, registers = supervisor.about.get(name, ["ours", ""])
            row = {"case": text, "name": name, "kind": kind, "registers": registers}
            errors = supervisor.checked.get((text, name))
            row["error"] = "" if not errors else f"{errors[0]:.1e}"
            for mode in modes:
                values = supervisor.times.get((text, mode), {}).get(name)
                row[mode] = case.tflops(statistics.median(values)) if values else None
                row[mode + "_ms"] = statistics.median(values) if values else None
                if kind == "yardstick" and values:
                    best[mode] = max(best.get(mode, 0.0), row[mode])
            rows.append(row)
        for row in rows:
            if row["case"] == text:
                for mode in modes:
                    row[mode + "_ratio"] = row[mode] / best[mode] if row[mode] and mode in best else None
    return rows


def number(value, form):
    return "-" if value is None else format(value, form)


def print_rows(rows, modes, clocks, say=print):
    for text in dict.fromkeys(row["case"] for row in rows):
        of_case = [row for row in rows if row["case"] == text]
        of_case.sort(key=lambda row: [-(row[mode] or 0.0) for mode in modes])
        width = max(len(row["name"]) for row in of_case) + 1
        clock = ", ".join("{} {:.0f} MHz {:.0f} W".format(mode, *clocks[text, mode]) for mode in modes
                          if (text, mode) in clocks)
        say(f"{Case(text)}   ({clock})")
        say("  " + " " * width + "".join(f"{mode:>11} ratio" for mode in modes) + "  error    registers")
        for row in of_case:
            mark = "" if row["kind"] == "ours" else "*"
            say(f"  {mark + row['name']:<{width}}"
                + "".join(f"{number(row[mode], '.1f'):>11} {number(row[mode + '_ratio'], '.3f'):>5}" for mode in modes)
                + f"  {row['error'] or '-':<8} {row['registers']}")


def print_means(rows, modes, say=print):
    """Over several cases: the geometric mean of the ratios to the best yardstick of each."""
    cases = {row["case"] for row in rows}
    means = []
    for name in dict.fromkeys(row["name"] for row in rows if row["kind"] == "ours"):
        ratios = [row[mode + "_ratio"] for row in rows if row["name"] == name for mode in modes]
        if len(ratios) == len(cases) * len(modes) and all(ratios):
            means.append((statistics.geometric_mean(ratios), name))
    if len(cases) > 1 and means:
        say("all cases: geometric mean of the ratios to the best yardstick")
        for mean, name in sorted(means, reverse=True):
            say(f"  {mean:.3f}  {name}")


def write_csv(rows, path):
    if rows:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def supervise(options, cases, modes):
    """bench.py --variants; the exit status."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="variants-") as where:
        variants = unpack(options.variants, where)
        print(f"# {len(variants)} variants, {len(cases)} cases: a variant is tried for those that it fits", flush=True)
        files = yardsticks.folder(options.yardsticks) if options.yardsticks else []
        rulers = []
        for name, path in unpack(files, where, "yardstick:"):
            facts = yardsticks.Facts(os.path.basename(path).removeprefix("yardstick-"), read_text(path).decode())
            if any(facts.fits(case) for case in cases):
                rulers.append(["yardstick:" + facts.name, path])
        state = {"cases": [case.text for case in cases], "modes": modes, "variants": variants,
                 "yardsticks": rulers, "reps": options.reps, "warmups": options.warmups, "seed": options.seed,
                 "peers": ["fa2", "cudnn"] if options.peers is None else options.peers.split(","),
                 "spin": options.sleep}
        supervisor = Supervisor(state, where, [sys.executable, os.path.abspath(__file__)],
                                lambda line: print(line, flush=True))
        said = assemble.all_of([path for _, path in variants + rulers], options.jobs, options.limit)
        for name, path in variants + rulers:
            if "error" in said[path]:
                supervisor.leave_out(name, said[path]["error"])
        seconds = [s["seconds"] for s in said.values() if "seconds" in s]
        print(f"# {len(seconds)} files compiled in {time.perf_counter() - began:.1f} s, one after the other it "
              f"were {sum(seconds):.1f} s", flush=True)
        if all(name in supervisor.bad for name, _ in variants):
            print("# no variant is left")
            return 1
        complete = supervisor.run()
    rows = rows_of(supervisor, modes)
    print_rows(rows, modes, supervisor.clocks)
    print_means(rows, modes)
    for name, reason in supervisor.bad.items():
        print(f"left out: {name}: {reason}")
    os.makedirs(options.out, exist_ok=True)
    path = os.path.join(options.out, "variants.csv")
    write_csv(rows, path)
    print(f"# {path}; {time.perf_counter() - began:.0f} s in all")
    return 0 if complete and not supervisor.bad else 1


# ---- the worker --------------------------------------------------------------------------------------


def tell(word, *what):
    print(f"@{word} {json.dumps(what)}", flush=True)


class Work:
    def __init__(self, state):
        import contenders  # with torch, which the supervisor does not need
        import timing
        import torch
        self.torch, self.contenders, self.timing, self.state = torch, contenders, timing, state
        self.bad = set(state["bad"])
        self.checked = {tuple(key) for key in state["checked"]}

    def load(self):
        """{name: File or Yardstick}, each loaded in a thread of its own."""
        from concurrent.futures import ThreadPoolExecutor
        loaded, torch = {}, self.torch
        torch.cuda.synchronize()
        self.contenders.tilec_torch.driver()

        def one(entry):
            name, path, ours = entry
            try:
                torch.cuda.set_device(0)
                torch.cuda.current_stream().synchronize()
                if ours:
                    file = self.contenders.File(path)
                    file.module.handle()
                    return name, file, None
                with open(path) as text:
                    name_of_file = name.replace("yardstick:", "sm90a_attention_") + ".ptx"
                    yardstick = yardsticks.Yardstick(name_of_file, text.read())
                yardstick.load()
                return name, yardstick, None
            except Exception as error:  # whatever it is, the others can go on
                return name, None, f"{type(error).__name__}: {error}"
        entries = [(n, p, True) for n, p in self.state["variants"] if n not in self.bad]
        entries += [(n, p, False) for n, p in self.state["yardsticks"] if n not in self.bad]
        with ThreadPoolExecutor(16) as pool:
            for name, made, error in pool.map(one, entries):
                if error:
                    tell("bad", name, error.replace("\n", " "))
                    self.bad.add(name)
                else:
                    loaded[name] = made
        return loaded

    def build(self, case, x, loaded):
        built = {}
        for name in self.state["peers"]:
            if name in self.bad or name not in self.contenders.peers():
                continue
            try:
                built[name] = self.contenders.peers()[name](case, x)
                built[name].run()
                self.torch.cuda.synchronize()
            except Exception as error:
                built.pop(name, None)
                print(f"#   {name}: cannot run here: {str(error).splitlines()[0]}", flush=True)
        for name, made in loaded.items():
            try:
                if isinstance(made, yardsticks.Yardstick):
                    if made.facts.fits(case):
                        built[name] = self.contenders.yardstick(case, x, made)
                elif made.fits(case):
                    built[name] = self.contenders.ours(case, x, made.ways(case)[0][1])
            except Exception as error:
                tell("bad", name, f"{type(error).__name__}: {error}".replace("\n", " "))
                self.bad.add(name)
        for name, contender in built.items():
            tell("about", name, contender.kind, contender.registers)
        return built

    def check(self, case, built, expected):
        """Leaves out what is wrong; ends the process when one breaks the GPU's context."""
        torch = self.torch
        for name in list(built):
            if (case.text, name) in self.checked:
                continue
            mine = built[name].kind != "peer"
            tell("limit", CHECK_LIMIT, name if mine else None)
            try:
                for y in built[name].results() if mine else ():
                    y.fill_(float("nan"))  # what is not written should be seen
                first = [y.clone() for y in built[name].results()]
                torch.cuda.synchronize()
                errors = list(self.contenders.compare(case, first, expected))
                for _ in range(3):  # what a launch leaves behind, and races
                    again = built[name].results()
                    if not errors[3] and case.direction == "fwd" and mine:
                        if not all(torch.equal(a, b) for a, b in zip(first, again)):
                            errors[3] = "another result at another run"
                if case.direction == "bwd" and not errors[3]:
                    errors = list(self.contenders.compare(case, again, expected))
                torch.cuda.synchronize()
            except Exception as error:
                print(f"#   {name}: {type(error).__name__}: {error}".replace("\n", " "), flush=True)
                os._exit(3)  # the supervisor knows the name
            if errors[3]:
                tell("bad", name, f"WRONG RESULT for {case}: {errors[3]}")
                self.bad.add(name)
                del built[name]
            else:
                tell("checked", case.text, name, errors)

    def time(self, case, mode, built, flush, watch):
        spin = self.state["spin"] or (400_000 if case.direction == "fwd" else 1_000_000)
        began = len(watch.samples)
        reps, warmups = self.state["reps"], self.state["warmups"]
        if mode == "sustained":
            warmups = 2
        order = random.Random(self.state["seed"])
        times = self.timing.measure(built, mode, flush, order, reps, warmups, spin,
                                    announce=lambda name: tell("limit", 30 if name else 300, name))
        tell("times", case.text, mode, times, *watch.since(began))

    def run(self):
        torch = self.torch
        tell("limit", 300, None)
        loaded = self.load()
        flush = torch.empty(self.timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        watch = self.timing.Watch()
        done = {tuple(key) for key in self.state["done"]}
        for text in self.state["cases"]:
            modes = [mode for mode in self.state["modes"] if (text, mode) not in done]
            if not modes:
                continue
            tell("limit", 120, None)
            case = Case(text)
            x = self.contenders.Inputs(case)
            built = self.build(case, x, {n: m for n, m in loaded.items() if n not in self.bad})
            if any((text, name) not in self.checked for name in built):
                self.check(case, built, self.contenders.reference(case, x))
            tell("limit", 300, None)
            torch.cuda.empty_cache()
            for mode in modes:
                if any(c.kind == "ours" for c in built.values()):
                    self.time(case, mode, built, flush, watch)
            del built, x
            torch.cuda.empty_cache()
        watch.close()


def main():
    with open(sys.argv[1]) as file:
        Work(json.load(file)).run()
    sys.stdout.flush()
    os._exit(0)  # no need to wait for Python to take all apart


if __name__ == "__main__":
    main()
