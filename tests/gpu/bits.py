#!/usr/bin/env python3
"""bits.py - kernels on an H200 and in the simulator with the same inputs: are their results the same bits?

    bits.py all --tilec T --tilerun R --out DIR [--jobs N] [--seconds S] [--random N] [--first SEED] [--determined] [--kernels FOLDER] [TEST ..]
    bits.py report DIR

`all` runs, side by side: the tests of tests/run that compile for sm_90 and run in the simulator, with this file in place of tilerun; random
programs of tests/fuzz, as sm_90's with warp groups, without, and at -O0; and other compilers' kernels (bits_kernels.py writes such a folder).
Each launch of code for sm_90 runs in the simulator and on the GPU, and a line of JSON in DIR says which elements differ, with both values.
`report` sums up: launches without approximations and without additions whose order is open have to be the same to the bit; of others it
says by how much they differ.  A launch counts once, however often its code ran with the same inputs.  BITS_DEVICE=sim runs all in the simulator.
"""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import json
import multiprocessing
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RUN, FUZZ = (os.path.join(os.path.dirname(HERE), name) for name in ("run", "fuzz"))
TESTS = ["comparisons", "gathers", "bytes", "chains", "scatters", "ladder", "products8", "ranges", "philox", "sums", "tf32", "packed", "packs",
         "float8_products", "scaled_products", "scales", "casts", "folds", "three", "divisions", "scans", "scans_by", "float8", "greatest",
         "padding", "formats", "atomics", "bools", "strides", "wide_rows", "long_sums", "windows", "attention", "decode", "attention_fp8", "split"]
# what a chip computes by tables; sums by whoever comes first
APPROXIMATE = re.compile(r"\b(ex2|tanh|rcp|rsqrt|sqrt|lg2|sin|cos|div)\.(approx|full)")
UNORDERED = re.compile(r"\b((red|atom)\.[a-z.:0-9_]*add[a-z.:0-9_]*\.(f16x2|bf16x2|f16|bf16|f32)|cp\.reduce\.async\.bulk)")
WAYS = (["-arch", "sm_90"], ["-arch", "sm_90", "--plan=none"], ["-arch", "sm_90", "-O0"])
SHOWN = 12  # elements of a tensor that a line names


def words(array):
    return np.ascontiguousarray(array).view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def compare(sim, gpu):
    """Elements, how many differ, of floats the greatest difference over the greatest number, and the first: [place, simulator's, GPU's]; NaNs are alike."""
    if sim.shape != gpu.shape:
        return [int(sim.size), int(sim.size), None, [[[], str(sim.shape), str(gpu.shape)]]]
    a, b = words(sim), words(gpu)
    differ = a != b
    if sim.dtype.kind == "f":
        differ &= ~(np.isnan(sim) & np.isnan(gpu))
    most = None
    if sim.dtype.kind == "f" and differ.any():
        with np.errstate(all="ignore"):
            x, y = sim.astype(np.float64), gpu.astype(np.float64)
            scale = np.abs(x[np.isfinite(x)]).max(initial=0) or np.abs(y[np.isfinite(y)]).max(initial=0) or 1
            most = float(np.nan_to_num(np.abs(x - y)[differ] / scale, nan=np.inf).max())
    shown = [[[int(k) for k in at], f"{sim[tuple(at)]} {a[tuple(at)]:#x}", f"{gpu[tuple(at)]} {b[tuple(at)]:#x}"]
             for at in np.argwhere(differ)[:SHOWN]]
    return [int(differ.size), int(differ.sum()), most, shown]


def described(text, **more):
    """A line of the report, but for what differs."""
    return {"entries": re.findall(r"\.entry (\w+)", text), "approximate": bool(APPROXIMATE.search(text)), "unordered": bool(UNORDERED.search(text)),
            "differ": {}, **more}


def key_of(text, arguments):
    """Of a launch: its code, and what it is given."""
    known = hashlib.sha256("\n".join(line.split("//")[0].rstrip() for line in text.split("\n")).encode())
    for before, word in zip(["", *arguments], arguments):
        name, _, path = word.partition("=")
        if before == "--in" or before == "--arg" and name in ("in", "inout"):
            known.update(name.encode())
            with open(path.split(":")[0], "rb") as file:
                known.update(file.read())
        elif before in ("--set", "--strides", "--arg", "--entry", "--grid", "--block", "--smem", "--cluster") and name != "out":
            known.update(word.encode())
    return known.hexdigest()[:20]


def wrong(line):
    return bool(line.get("error")) or any(n[1] for n in line["differ"].values())


def keep(line, out, text, arguments, outputs):
    """What it takes to run a launch again, where its bits are determined and differ, and the outputs: {name: (simulator's file, GPU's)}."""
    if not wrong(line) or line["approximate"] or line["unordered"]:
        return
    line["kept"] = os.path.join(out, line["key"])
    os.makedirs(line["kept"], exist_ok=True)
    with open(os.path.join(line["kept"], "k.ptx"), "w", encoding="utf-8") as file:
        file.write(text)
    line["command"] = [re.sub(r"=/.*/", "=", os.path.basename(a) if a.startswith("/") else a) for a in arguments]
    for before, word in zip(["", *arguments], arguments):
        path = word.partition("=")[2].split(":")[0]
        if before in ("--in", "--arg") and os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
            shutil.copy(path, line["kept"])
    for name, files in outputs.items():
        for who, path in zip(("sim", "gpu"), files):
            if os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
                shutil.copy(path, os.path.join(line["kept"], f"{who}-{name}.npy"))


def write(out, name, line):
    with open(os.path.join(out, f"{name}.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


# ---- in place of tilerun ----

def in_place_of_tilerun(arguments):
    """Runs it as it is asked; code for sm_90 on the GPU before that, since an output may be an input's file."""
    real, out = os.environ["BITS_TILERUN"], os.environ["BITS_OUT"]
    ptx = next((a for a in arguments if a.endswith(".ptx")), None)
    text = ""
    if ptx and "--out" in arguments:
        with open(ptx, encoding="utf-8") as file:
            text = file.read()
    if not re.search(r"^\.target sm_90", text, re.M):
        return subprocess.run([real, *arguments, "--no-check"]).returncode
    line = described(text, test=os.environ["BITS_TEST"], key=key_of(text, arguments))
    with tempfile.TemporaryDirectory() as folder:
        command, outputs = [real], {}
        for at, word in enumerate(arguments):
            before = arguments[at - 1] if at else ""
            if before == "--out":
                name, _, path = word.partition("=")
                outputs[name] = path, os.path.join(folder, name + ".npy")
                word = f"{name}={outputs[name][1]}"
            command.append(os.environ.get("BITS_DEVICE", "gpu") if before == "--device" else word)
        done = subprocess.run(command, capture_output=True, text=True)
        given = os.path.join(folder, "given")  # inputs that outputs may overwrite
        os.mkdir(given)
        kept = [shutil.copy(w.partition("=")[2], given) and f"{w.partition('=')[0]}={given}/{os.path.basename(w)}" if b == "--in" else w
                for b, w in zip(["", *arguments], arguments)]
        status = subprocess.run([real, *arguments, "--no-check"]).returncode
        if status:
            return status
        if done.returncode:
            line["error"] = (done.stdout + done.stderr)[-300:]
        else:
            for name, (sim, gpu) in outputs.items():
                line["differ"][name] = compare(np.load(sim), np.load(gpu))
        keep(line, out, text, kept, outputs)
    write(out, os.environ["BITS_TEST"], line)
    return status


def run_test(args, test, end):
    path = os.path.join(RUN, test + ".py")
    if not os.path.exists(path):
        return test, "is no test"
    if time.monotonic() > end:
        return test, "not begun"
    environment = {**os.environ, "BITS_TILERUN": os.path.abspath(args.tilerun), "BITS_OUT": os.path.abspath(args.out), "BITS_TEST": test}
    try:
        done = subprocess.run([sys.executable, path, "--tilec", args.tilec, "--tilerun", os.path.abspath(__file__)], env=environment,
                              capture_output=True, text=True, timeout=max(1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return test, "out of time"
    return test, (done.stdout + done.stderr).strip().split("\n")[-1][:200]


# ---- launches that this process makes ----

class Batch:
    """A tilerun that reads command lines; begun again behind one that fails, which may have taken the context along."""

    def __init__(self, tilerun):
        self.tilerun, self.child = tilerun, None

    def stop(self):
        if self.child:
            self.child.kill()
            self.child.wait()
            self.child.stdin.close()
            self.child.stdout.close()
        self.child = None

    def run(self, words_of, seconds):
        """None, or what went wrong."""
        if self.child is None:
            self.child = subprocess.Popen([self.tilerun, "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.child.stdin.write((" ".join(words_of) + "\n").encode())
        self.child.stdin.flush()
        said, end = b"", time.monotonic() + seconds
        while True:
            if not select.select([self.child.stdout], [], [], max(0, end - time.monotonic()))[0]:
                self.stop()
                return f"no end within {seconds} s"
            part = os.read(self.child.stdout.fileno(), 65536)
            said += part
            last = said.rstrip(b"\n").split(b"\n")[-1]
            if not part or said.endswith(b"\n") and last.startswith(b"status "):
                if part and last == b"status 0":
                    return None
                self.stop()
                return said.decode(errors="replace")[-300:].strip()


def pairs(outputs):
    return {name: [path.replace("{}", who) for who in ("sim", "gpu")] for name, path in outputs.items()}


class Worker:
    def __init__(self, args):
        self.args = args
        self.gpu, self.sim = Batch(args.tilerun), Batch(args.tilerun)
        sys.path.insert(0, FUZZ)
        import judge  # which is not there where only `report` is wanted
        import program
        self.module, self.program = judge, program
        self.judge = judge.Judge(args.tilec, args.tilerun, 60)

    def launch(self, text, name, arguments, outputs, **more):
        """A line of the report, of arguments where `{}` of an output's path says who made it."""
        line = described(text, test=name, key=key_of(text, arguments), **more)
        begun = time.monotonic()
        made = {}
        for who, batch, device in (("gpu", self.gpu, os.environ.get("BITS_DEVICE", "gpu")), ("sim", self.sim, "sim")):
            said = batch.run([a.replace("{}", who) for a in arguments] + ["--device", device] + ["--no-check", "--seed", "0"] * (device == "sim"), 60)
            made[f"{who}_s"] = round(time.monotonic() - begun, 3)
            if said:
                line["error"] = f"{who}: {said}"
                return line
        line.update(made)
        for output, path in pairs(outputs).items():
            line["differ"][output] = compare(*map(np.load, path))
        return line

    def random(self, seed):
        case, seen = self.program.make(seed), set()
        with tempfile.TemporaryDirectory(prefix="bits") as folder:
            self.judge.write(case, folder)
            for flags in WAYS:
                try:
                    ptx = self.judge.compiled(folder, self.module.Way(list(flags), 0))
                except self.module.Refused:
                    continue
                if isinstance(ptx, self.module.Failure):
                    write(self.args.out, "random", {"test": "random", "seed": seed, "flags": flags, "error": ptx.text, "differ": {}, "entries": [],
                                                    "approximate": False, "unordered": False, "key": f"{seed} {flags}"})
                    continue
                made, inner = self.judge.resolve(case, folder, ptx)
                with open(ptx, encoding="utf-8") as file:
                    text = file.read()
                if self.args.determined and (APPROXIMATE.search(text) or UNORDERED.search(text)):
                    continue
                arguments = [ptx] + self.judge.arguments(made, inner, ".have")
                outputs = {name: f"{inner}/{name}.{{}}.npy" for name in made.outputs()}
                arguments = [f"{a.partition('=')[0]}={outputs[a.partition('=')[0]]}" if before == "--out" else a
                             for before, a in zip(["", *arguments], arguments)]
                line = self.launch(text, "random", arguments, outputs, seed=seed, flags=flags)
                if line["key"] in seen:
                    continue
                seen.add(line["key"])
                if wrong(line) and not line["approximate"] and not line["unordered"]:
                    line["interpreter"] = self.interpreted(made, inner, line)
                    keep(line, self.args.out, text, arguments, pairs(outputs))
                write(self.args.out, "random", line)

    def interpreted(self, case, folder, line):
        """What the reference interpreter says of the elements that differ: who computes what the language forbids may differ."""
        try:
            want = self.judge.expect(case, folder)
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"[:300]
        return {name: [[at, str(want[name][0][tuple(at)]), f"within {want[name][1][tuple(at)]:.3g}"] for at, _, _ in differ[3] if at or want[name][0].ndim == 0]
                for name, differ in line["differ"].items() if differ[1] and name in want}

    def kernel(self, path):
        """A launch that a file describes: {"name", "compiler", "ptx", "arguments", "outputs"}; `@` in them is the folder."""
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        at = os.path.dirname(os.path.abspath(path))
        with open(os.path.join(at, facts["ptx"]), encoding="utf-8") as file:
            text = file.read()
        with tempfile.TemporaryDirectory(prefix="bits") as folder:
            arguments = [os.path.join(at, facts["ptx"])] + [a.replace("@/", at + "/").replace("{}", folder + "/{}") for a in facts["arguments"]]
            outputs = {name: where.replace("{}", folder + "/{}") for name, where in facts["outputs"].items()}
            line = self.launch(text, facts["name"], arguments, outputs, compiler=facts["compiler"])
            keep(line, self.args.out, text, arguments, pairs(outputs))
        write(self.args.out, "kernels", line)


def begin(args):
    Worker.one = Worker(args)


def work(task):
    kind, what, end = task
    if time.monotonic() > end:  # of the machine, the same in all processes
        return 0
    try:
        getattr(Worker.one, kind)(what)
    except Exception as problem:  # of this script, or of the generator: the others go on
        write(Worker.one.args.out, kind, {"test": kind, "seed": what, "key": f"{kind} {what}", "entries": [], "approximate": False, "unordered": False, "differ": {},
                                          "error": f"{what}: {type(problem).__name__}: {problem}"[:300]})
    return 1


def run_all(args):
    os.makedirs(args.out, exist_ok=True)
    end = time.monotonic() + args.seconds
    args.out = os.path.abspath(args.out)
    tasks = [("kernel", path, end) for path in sorted(glob.glob(os.path.join(args.kernels, "*.json")))] if args.kernels else []
    tasks += [("random", seed, end) for seed in range(args.first, args.first + args.random)]
    tests = args.tests if args.tests != ["none"] else []
    with multiprocessing.Pool(args.jobs, begin, [args]) as pool, concurrent.futures.ThreadPoolExecutor(args.jobs) as threads:
        done = pool.imap_unordered(work, tasks)
        said = [threads.submit(run_test, args, test, end) for test in tests]
        count = sum(done)
        for one in said:
            print("{}: {}".format(*one.result()), flush=True)
    print(f"{count} of {len(tasks)} programs and kernels within {args.seconds - (end - time.monotonic()):.0f} s")
    return report(args.out)


def report(folder):
    kinds, bad, seen, elements = collections.defaultdict(lambda: [0, 0, 0, 0.0]), 0, set(), collections.Counter()
    sources = collections.defaultdict(collections.Counter)
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        for text in open(path, encoding="utf-8"):
            line = json.loads(text)
            if line["key"] in seen or not line.get("error") and not any(n[0] for n in line["differ"].values()):
                continue  # the same again; without an element
            seen.add(line["key"])
            kind = "unordered" if line["unordered"] else "approximate" if line["approximate"] else "determined"
            if "Illegal" in str(line.get("interpreter")):
                kind = "not legal"
            row, differ = kinds[kind], [n for n in line["differ"].values() if n[1]]
            elements[kind] += sum(n[0] for n in line["differ"].values())
            sources[kind][line.get("compiler", "random programs" if "seed" in line else "tests")] += 1
            row[0] += 1
            row[1] += not differ and not line.get("error")
            row[2] += bool(line.get("error"))
            row[3] = max([row[3]] + [n[2] for n in differ if n[2] is not None])
            if kind == "determined" and (differ or line.get("error")):
                bad += 1
                print(f"{line['test']} {line['entries']} {line.get('seed', '')} {line.get('flags', '')} {line.get('error', '')} {line.get('kept', '')}")
                for name, (size, count, _, shown) in line["differ"].items():
                    if count:
                        print(f"    {name}: {count} of {size} differ")
                        print("".join(f"        {at}: simulator {a}, GPU {b}\n" for at, a, b in shown), end="")
                if "interpreter" in line:
                    print(f"    interpreter: {str(line['interpreter'])[:500]}")
    for kind, (count, same, errors, most) in kinds.items():
        print(f"{kind}: {count} launches ({', '.join(f'{n} {who}' for who, n in sources[kind].items())}; {elements[kind]} elements), {same} the same bits, "
              f"{errors} not run, differences up to {most:.3g} of the greatest number")
    return 1 if bad or not kinds else 0


def main():
    if "BITS_TILERUN" in os.environ:
        return in_place_of_tilerun(sys.argv[1:])
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["all", "report"])
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--tilerun", default="tilerun")
    parser.add_argument("--out", default="bits")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--random", type=int, default=0, help="how many random programs")
    parser.add_argument("--first", type=int, default=5000001, help="the seed of the first one")
    parser.add_argument("--determined", action="store_true", help="of random programs, only launches whose bits are")
    parser.add_argument("--kernels", help="a folder of other compilers' kernels")
    parser.add_argument("tests", nargs="*", help="of tests/run; `none`: random programs and kernels only")
    args = parser.parse_intermixed_args()
    if args.what == "report":
        return report(args.tests[0])
    args.tests = args.tests or TESTS
    return run_all(args)


if __name__ == "__main__":
    sys.exit(main())
