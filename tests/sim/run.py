#!/usr/bin/env python3
"""Tests of the simulator:  run.py SIMRUN [NAME...]

faults/*.ptx   Each plants one fault.  The header says how to run it and what must be found:
                   // ARGS: simrun arguments
                   // FIND: race                    the kind of the fault (see sim_finding_name)
                   // NOTE: race                    instead: of a note, which --strict makes a fault
                   // AT: text                      must occur in the planted line that is reported
               A line ending in `//-` is missing from the faulty version; a line starting with `//+`
               is only in the faulty version.  The clean twin is the rest, and must have no finding
               under any of the seeds (neither a note, where the file is about one).
programs/*.ptx Write 1 to every word of OUT if all is well; clean under every seed.  COUNTING is a file
               of the bytes 0 to 63.
values.py      Single instructions against their definition in Python.
reports.py      Levels, limits and totals of findings, seeds.
sm90.py, sm100.py, sm100_sparse.py, sums.py  Matrix products, copies and tensor memory against NumPy.
foreign.py      What other compilers write, against Python.
"""
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CLEAN_SEEDS, FAULT_SEEDS = 32, 32


def header(text, key):
    found = re.search(rf"^// {key}: *(.*)$", text, re.M)
    return found.group(1).split() if found else []


def versions(text):
    clean, faulty = [], []
    for line in text.splitlines():
        blank = ""
        if line.startswith("//+"):
            clean.append(blank)
            faulty.append(line[3:])
        elif line.rstrip().endswith("//-"):
            clean.append(line)
            faulty.append(blank)
        else:
            clean.append(line)
            faulty.append(line)
    return "\n".join(clean) + "\n", "\n".join(faulty) + "\n"


def simulate(simrun, path, arguments):
    done = subprocess.run([simrun, str(path), *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def run_fault(simrun, path, scratch):
    text = path.read_text()
    note = header(text, "NOTE")
    arguments, kind = header(text, "ARGS"), (note or header(text, "FIND"))[0]
    strict = ["--strict"] if note else []
    clean, faulty = versions(text)
    for name, content in (("clean.ptx", clean), ("faulty.ptx", faulty)):
        (scratch / name).write_text(content)
    problems = []
    seeds = ["--seeds", str(FAULT_SEEDS)]
    status, output = simulate(simrun, scratch / "clean.ptx",
                              [*arguments, *strict, "--seeds", str(CLEAN_SEEDS)])
    if status != 0:
        problems.append(f"the clean twin exits with {status}:\n{output}")
    status, output = simulate(simrun, scratch / "faulty.ptx",
                              [*arguments, *strict, *seeds, "--expect", kind])
    if status != 0:
        problems.append(f"'{kind}' is not found, exit {status}:\n{output}")
    status, output = simulate(simrun, scratch / "faulty.ptx", [*arguments, *seeds])
    if note and (status != 0 or f"note: {kind}: " not in output or "fault: " in output):
        problems.append(f"'{kind}' is no note, exit {status}:\n{output}")
    at = " ".join(header(text, "AT"))
    if at and at not in output:
        problems.append(f"the report does not name '{at}':\n{output}")
    return problems


def run_program(simrun, path, scratch):
    (scratch / "counting.bin").write_bytes(bytes(range(64)))
    arguments = [a.replace("OUT", f"{scratch}/out.bin").replace("COUNTING", f"{scratch}/counting.bin")
                 for a in header(path.read_text(), "ARGS")]
    for seed in range(CLEAN_SEEDS):
        status, output = simulate(simrun, path, [*arguments, "--seed", str(seed)])
        if status != 0:
            return [f"exits with {status}:\n{output}"]
        words = memoryview((scratch / "out.bin").read_bytes()).cast("I")
        if any(word != 1 for word in words):
            return [f"seed {seed}: writes {list(words)}"]
    return []


def main():
    simrun, wanted = sys.argv[1], sys.argv[2:]
    failed = count = 0
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        work = [(p, run_fault) for p in sorted((HERE / "faults").glob("*.ptx"))]
        work += [(p, run_program) for p in sorted((HERE / "programs").glob("*.ptx"))]
        for path, test in work:
            if wanted and path.stem not in wanted:
                continue
            count += 1
            for problem in test(simrun, path, scratch):
                failed += 1
                print(f"FAIL {path.name}: {problem}")
        for module in ("reports", "values", "sm90", "sm100", "sm100_sparse", "sums", "foreign"):
            if not wanted or module in wanted:
                ran, bad = importlib.import_module(module).run(simrun, scratch)
                count += ran
                failed += bad
    print(f"{count} tests, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
