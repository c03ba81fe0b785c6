"""bench.py - attention on one GPU: tilec's kernels, those of others, and PyTorch's, in one process.

    python3 bench/bench.py --ours tilec=out/ptx --out out/bench          # all cases against PyTorch
    python3 bench/bench.py --ours tilec=out/ptx --yardsticks DIR --anchors FILE
                                                  # a table against the best kernels for the GPU
    python3 bench/bench.py --variants out/v_*.ptx --yardsticks DIR --cases fwd:d128:causal:4k,16k
                                                  # tuning: one line a variant, the fastest first
    python3 bench/bench.py --ladder out/ladder --case fwd:128:4:16:4096:0
    python3 bench/bench.py --sweep 400:1 --ours tilec=out/sweep          # shapes at random: sweep.py

`--ours NAME=PATH`: PATH is a PTX or cubin file, a folder or a glob of them.  What each file is for
(direction, head dims, dtype, mask) is read from the file itself; a case takes the files that fit.
`--variants FILE..`: PTX, also compressed (.ptx.xz), each compiled with other choices.  They are compiled
in parallel, compared with float32 in a process that may hang or die, and timed.
`--yardsticks DIR`: a folder of sm90a_attention_*.ptx.

Which cases: `--cases fwd:d128:causal:4k,16k` (lists with commas; what is left out is all; may be
repeated) for 16384 tokens and heads that are 2048 wide together, or `--case` for any shape.

How it measures: every contender of a case runs once in each repetition, in an order shuffled anew;
256 MB are written before each timed call; CUDA events; the median.  `--mode` burst, sustained or
spin, several with commas: timing.py says what they are.  FLOPs are 4 b h sq sk d forward, half of that
when causal, 2.5 times that for the backward with its kernels before and after.  Every contender's
result is compared before it is timed: with that of PyTorch's FlashAttention-2, or with float32.
"""

import argparse
import csv
import datetime
import glob
import os
import random
import statistics
import sys

import case as cases_of
import sweep

FIELDS = ["dir", "hd", "hdv", "heads", "kv_heads", "seqlen", "seqlen_k", "batch", "causal", "dtype", "name", "kind",
          "mode", "median_ms", "min_ms", "tflops", "max_tflops", "over_fa2", "difference", "sm_mhz", "watts"]


def worst_difference(results, reference):
    """Largest difference, relative to the largest finite value of the reference; nan stays nan."""
    worst = 0.0
    for a, b in zip(results, reference):
        a, b = a.float(), b.float()
        if a.shape != b.shape:
            return float("nan")
        same = a == b  # infinities, too: L of a row that sees no key
        finite = b[b.isfinite()].abs()
        largest = finite.max().clamp_min(1e-20) if finite.numel() else 1.0
        difference = ((a - b).masked_fill(same, 0.0).abs().max() / largest).item()
        if difference != difference:
            return difference
        worst = max(worst, difference)
    return worst


def run_case(case, options, bench):
    """Measures a case in each mode, writes its rows and returns them."""
    import torch
    built = bench.build(case)
    if not built:
        return []
    reference = None
    differences = {}
    for name in sorted(built, key=lambda n: n != "fa2"):
        results = built[name].results()
        torch.cuda.synchronize()
        if reference is None:
            reference = [r.clone() for r in results]
        differences[name] = worst_difference(results, reference)
    rows = []
    # autograd's own host time must fit in the spin
    spin = options.sleep or (400_000 if case.direction == "fwd" else 1_000_000)
    for mode in options.modes:
        first = len(bench.watch.samples)
        times = bench.timing.measure(built, mode, bench.flush, options.random, options.reps, options.warmups, spin)
        clock, power = bench.watch.since(first)
        base = statistics.median(times["fa2"]) if "fa2" in times else None
        of_mode = []
        for name, values in times.items():
            median = statistics.median(values)
            of_mode.append({
                "dir": case.direction, "hd": case.d, "hdv": case.dv, "heads": case.heads,
                "kv_heads": case.kv_heads, "seqlen": case.sq, "seqlen_k": case.sk, "batch": case.batch,
                "causal": int(case.causal), "dtype": case.dtype, "name": name,
                "kind": built[name].kind, "mode": mode,
                "median_ms": f"{median:.4f}", "min_ms": f"{min(values):.4f}",
                "tflops": f"{case.tflops(median):.1f}", "max_tflops": f"{case.tflops(min(values)):.1f}",
                "over_fa2": f"{base / median:.3f}" if base else "",
                "difference": f"{differences[name]:.2e}", "sm_mhz": f"{clock:.0f}", "watts": f"{power:.0f}"})
        of_mode.sort(key=lambda r: float(r["median_ms"]))
        if options.verbose or not options.yardsticks or mode == options.modes[0]:
            print(f"{case}   {mode} ({clock:.0f} MHz, {power:.0f} W)", flush=True)
        for r in of_mode:
            # 2 % of the largest value: far above rounding in 16 bits, far below a wrong element
            wrong = not float(r["difference"]) < 0.02
            if options.yardsticks and not wrong and not options.verbose:
                continue  # the table at the end has the best of them
            print(f"  {r['name']:<28} {r['median_ms']:>9} ms {r['tflops']:>7} TFLOPS  max {r['max_tflops']:>7}"
                  f"  x{r['over_fa2'] or '-':<6} diff {r['difference']}{'  WRONG RESULT' if wrong else ''}",
                  flush=True)
        rows += of_mode
    return rows


class Bench:
    """What all cases share: the files, loaded, and memory."""

    def __init__(self, options):
        import contenders
        import timing
        import torch
        import yardsticks
        self.contenders, self.timing, self.torch = contenders, timing, torch
        self.scores = options.scores
        self.files = [contenders.find_files(spec) for spec in options.ours]
        self.rungs = []
        if options.ladder:
            for path in contenders.one_a_stem(glob.glob(os.path.join(options.ladder, "*.ptx"))
                                              + glob.glob(os.path.join(options.ladder, "*.cubin"))):
                self.rungs.append(os.path.splitext(os.path.basename(path))[0])
                self.files.append((self.rungs[-1], [contenders.File(path)]))
        self.yardsticks = yardsticks.fitting(options.yardsticks, options.chosen) if options.yardsticks else []
        self.peer_makers = contenders.peers()
        if options.peers is not None:
            wanted = options.peers.split(",")
            self.peer_makers = {n: m for n, m in self.peer_makers.items() if n in wanted}
        self.flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self.watch = timing.Watch()
        self.compile(options)

    def compile(self, options):
        """Lets the driver compile the yardsticks and our PTX in processes of their own."""
        import assemble
        paths = [y.path for y in self.yardsticks]
        paths += [f.path for _, group in self.files for f in group
                  if f.path.endswith(".ptx") and any(f.fits(c) for c in options.chosen)]
        for path, said in assemble.all_of(paths, options.jobs, options.limit).items():
            if "error" in said:
                print(f"# {path}: {said['error']}", flush=True)
        for yardstick in self.yardsticks:
            yardstick.load()

    def build(self, case):
        """The contenders of a case by name; what cannot run is said and left out."""
        x = self.contenders.Inputs(case, scores=self.scores)
        built = {}
        for name, make in self.peer_makers.items():
            try:
                built[name] = make(case, x)
                built[name].run()
                self.torch.cuda.synchronize()
            except Exception as error:
                built.pop(name, None)
                print(f"#   {name}: cannot run here: {str(error).splitlines()[0]}", flush=True)
        for yardstick in self.yardsticks:
            if yardstick.facts.fits(case):
                built["yardstick:" + yardstick.name] = self.contenders.yardstick(case, x, yardstick)
        for name, group in self.files:
            fitting = self.contenders.least_estimated(case, [f for f in group if f.fits(case)])
            for f in fitting:
                stem = os.path.splitext(os.path.basename(f.path))[0]
                label = name if len(fitting) == 1 else f"{name}:{stem}"
                for suffix, module in f.ways(case):
                    try:
                        built[label + suffix] = self.contenders.ours(case, x, module)
                    except self.contenders.tilec_torch.TilecError as error:
                        print(f"#   {label}{suffix}: {error}", flush=True)
            if not fitting:
                print(f"#   {name}: no file fits {case}", flush=True)
        return built


def still_works(torch):
    """Whether the GPU still takes work: some errors end all work of a process."""
    try:
        torch.cuda.synchronize()
        return True
    except RuntimeError:
        return False


def measure_all(options):
    import report
    import torch
    anchors = report.read_anchors(options.anchors)
    bench = Bench(options)
    os.makedirs(options.out, exist_ok=True)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, cudnn "
          f"{torch.backends.cudnn.version()}, {datetime.date.today()}; {options.warmups} warm-ups, median "
          f"of {options.reps}, 256 MB written before each call", flush=True)
    base = os.path.join(options.out, "ladder" if options.ladder else "bench")
    rows, failed = [], False
    with open(base + ".csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for case in options.chosen:
            try:
                of_case = run_case(case, options, bench)
            except torch.cuda.OutOfMemoryError as error:
                print(f"# {case}: {str(error).splitlines()[0]}", flush=True)
                of_case = []
            except RuntimeError as error:  # the driver's, PyTorch's and ours: what was measured is still worth a table
                failed, going_on, of_case = True, still_works(torch), []
                print(f"# {case}: {error}; {'the next case' if going_on else 'no further cases'}", flush=True)
                if not going_on:
                    break
            writer.writerows(of_case)
            rows += of_case
            file.flush()
            torch.cuda.empty_cache()
    bench.watch.close()
    if options.yardsticks:
        report.against_yardsticks(rows, options.modes, anchors, base)
    if options.sweep:
        print("\n".join(sweep.summary(rows)), flush=True)
    elif rows:
        if options.ladder:
            report.plot_ladder(rows, list(bench.peer_makers) + bench.rungs, base)
        else:
            report.plot(rows, options.modes, base)
    print(f"# {base}.csv, .png, .svg")
    return 1 if failed or any(not float(r["difference"]) < 0.02 for r in rows) else 0


def numbers(text):
    return [cases_of.number(x) for x in text.split(",")]


def chosen_cases(options):
    if options.sweep:
        return sweep.parse_sweep(options.sweep)
    if options.case or options.cases:
        return ([cases_of.Case(text) for text in options.case]
                + [c for text in options.cases for c in cases_of.selected(text, options.lengths, options.dtype)])
    return [cases_of.shaped(direction, d, s, causal, options.dtype) for direction in options.directions.split(",")
            for d in options.dims for causal in (0, 1) for s in options.lengths]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--variants", nargs="+", metavar="FILE", help="PTX files to tune between")
    parser.add_argument("--ladder", metavar="DIR", help="one rung a file, in the order of their names")
    parser.add_argument("--yardsticks", metavar="DIR", help="others' kernels: sm90a_attention_*.ptx")
    parser.add_argument("--anchors", metavar="FILE", help="CSV with what others measured (fa3_over_cudnn)")
    parser.add_argument("--case", action="append", default=[], help=cases_of.Case.__doc__)
    parser.add_argument("--cases", action="append", default=[], help=cases_of.selected.__doc__)
    parser.add_argument("--sweep", metavar="COUNT:SEED", help="so many shapes drawn at random, and a summary")
    parser.add_argument("--directions", default="fwd,bwd")
    parser.add_argument("--dims", type=numbers, default=list(cases_of.DIMS))
    parser.add_argument("--lengths", type=numbers)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f16"])
    parser.add_argument("--mode", help="burst, sustained, spin")
    parser.add_argument("--scores", default="plain", choices=["plain", "growing", "falling"],
                        help="growing, falling: by 3 every 64 keys")
    parser.add_argument("--peers", default=None, help="which of them, by name; 'none': only ours")
    parser.add_argument("--reps", type=int)
    parser.add_argument("--warmups", type=int)
    parser.add_argument("--sleep", type=int, default=None, help="cycles of GPU spin before a call")
    parser.add_argument("--verbose", action="store_true", help="every contender, also with --yardsticks")
    parser.add_argument("--quick", action="store_true", help="3 warm-ups, 10 repetitions")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 1), help="compiling at a time")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds to compile a file")
    parser.add_argument("--out", default="bench-out", help="folder for the CSV and the plots")
    options = parser.parse_args(arguments)
    both = bool(options.yardsticks or options.variants)
    options.modes = (options.mode or ("burst,sustained" if both else "spin")).split(",")
    if not set(options.modes) <= {"burst", "sustained", "spin"}:
        parser.error(f"--mode {options.mode}: burst, sustained or spin")
    if options.variants and not (options.case or options.cases):
        parser.error("--variants needs --cases or --case")
    options.lengths = options.lengths or ([512, 1024, 4096, 16384] if both else
                                          [512, 1024, 2048, 4096, 8192, 16384])
    options.reps = options.reps or (10 if options.quick else 20 if both else 30)
    if options.warmups is None:
        options.warmups = 3 if options.quick or both else 10
    options.random = random.Random(options.seed)
    options.chosen = chosen_cases(options)
    return options


def main():
    options = parse(sys.argv[1:])
    if options.variants:
        import variants
        return variants.supervise(options, options.chosen, options.modes)
    return measure_all(options)


if __name__ == "__main__":
    sys.exit(main())
