"""torch_harness.py - checks on a GPU, each in a process of its own: for torch_product.py and torch_models.py.

A check is a function of no arguments that raises; what it notes is in the record.  None stops another: each
has a limit of time.  Those that measure run alone, last.  A table is printed, and the folder --out (else $OUT)
gets NAME.json.  The exit status is the number of checks that failed.
"""
import argparse
import concurrent.futures
import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
import traceback

LIMIT_S, SHORT_S = 90, 40  # of a check; of one after the first check failed
STUCK_S = 35  # then a check says where it is
CHECKS, TIMED = {}, []


def check(function):
    CHECKS[function.__name__] = function
    return function


def timed(function):
    TIMED.append(function.__name__)
    return check(function)


def note(what, value):
    """Keeps what a check found out, also where it does not come to its end."""
    print("ROW " + json.dumps((what, value)), flush=True)


def refused(text, function, kind=None):
    """`function` raises tilec.torch.Error, or `kind`, with `text` in it."""
    import tilec.torch

    try:
        function()
    except kind or tilec.torch.Error as error:
        assert text in str(error), f"said: {error}"
    else:
        raise AssertionError(f"not refused: {text}")


class stage:  # noqa: N801
    """with stage("what"): notes how long it took."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, kind, value, where):
        note(self.what + (": FAILED after s" if kind else ": s"), round(time.perf_counter() - self.start, 3))


def best_us(function, calls=100, repeats=15):
    """(best, middle) microseconds of host time of a call, with the queue of launches empty at first."""
    import torch

    for _ in range(10):
        function()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(calls):
            function()
        times.append((time.perf_counter_ns() - start) / calls / 1000)
    torch.cuda.synchronize()
    times.sort()
    return round(times[0], 2), round(times[len(times) // 2], 2)


def gpu_ms(function, calls=20):
    """Milliseconds of the GPU, the middle one of several."""
    import torch

    for _ in range(3):
        function()
    times = []
    for _ in range(5):
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        ends[0].record()
        for _ in range(calls):
            function()
        ends[1].record()
        torch.cuda.synchronize()
        times.append(ends[0].elapsed_time(ends[1]) / calls)
    return sorted(times)[2]


# ---- running ----


def run_one(program, name, limit):
    """A check in a process of its own: its record."""
    start, error = time.perf_counter(), None
    try:
        done = subprocess.run([sys.executable, program, "--run", name], capture_output=True, text=True, timeout=limit)
        out, said = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        out, said = (text.decode(errors="replace") if isinstance(text, bytes) else text or ""
                     for text in (late.stdout, late.stderr))
        error = f"longer than {limit} s"
    found = {"ROW": [], "RECORD": []}
    for line in out.splitlines():
        kind, _, text = line.partition(" ")
        if kind in found:
            found[kind].append(json.loads(text))
    if found["RECORD"]:
        record = found["RECORD"][-1]
    else:
        record = {"ok": False, "error": error or f"status {done.returncode}", "trace": said.strip()[-4000:]}
    return {"check": name, "seconds": round(time.perf_counter() - start, 1), **record, "rows": found["ROW"]}


def say_where(main_thread, ended):
    """Says now and then where the threads are.  faulthandler.dump_traceback_later() does it without the interpreter's
    lock, and now and then ends a process with a segmentation fault whose frames torch.compile is changing."""
    while not ended.wait(STUCK_S):
        for thread, frame in sys._current_frames().items():
            if thread != threading.get_ident():
                print(f"after {STUCK_S} s more, {'main thread' if thread == main_thread else hex(thread)}:", file=sys.stderr)
                traceback.print_stack(frame, file=sys.stderr)
        sys.stderr.flush()


def run_here(name):
    faulthandler.enable()
    ended = threading.Event()
    threading.Thread(target=say_where, args=(threading.get_ident(), ended), daemon=True).start()
    record = {"ok": True, "error": ""}
    try:
        CHECKS[name]()
    except BaseException as error:  # noqa: BLE001
        record = {"ok": False, "error": f"{type(error).__name__}: {error}"[:1500],
                  "trace": traceback.format_exc()[-3000:]}
    ended.set()
    print("RECORD " + json.dumps(record), flush=True)


def show(record):
    print(f"{'ok    ' if record['ok'] else 'FAILED'} {record['check']:20} {record['seconds']:6.1f} s  {record['error'][:1500]}")
    if record["rows"]:
        for what, value in record["rows"]:
            print(f"           {what}: {value}")
    sys.stdout.flush()


def main(program, description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="seconds of a check")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return run_here(options.run)
    chosen = options.only or list(CHECKS)
    first = chosen[0]  # alone: what it compiles is on the disk for the rest
    records = []
    os.makedirs(options.out, exist_ok=True)

    def keep(record):  # at once: a machine may be taken away
        records.append(record)
        show(record)
        with open(os.path.join(options.out, os.path.basename(program)[:-3] + ".json"), "w") as file:
            json.dump(records, file, indent=1)

    keep(run_one(program, first, options.limit))
    limit = options.limit if records[0]["ok"] else SHORT_S
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        later = [name for name in chosen[1:] if name not in TIMED]
        for done in concurrent.futures.as_completed([pool.submit(run_one, program, name, limit) for name in later]):
            keep(done.result())
    for name in chosen[1:]:
        if name in TIMED:
            keep(run_one(program, name, limit))
    failed = [record["check"] for record in records if not record["ok"]]
    for record in records:
        if record.get("trace"):
            print(f"---- {record['check']}\n{record['trace']}")
    print(f"{len(records) - len(failed)} passed, {len(failed)} failed" + (": " + " ".join(failed) if failed else ""))
    return len(failed)
