#!/usr/bin/env python3
"""forms.py - how good the rule is by which a launch takes one of the forms of a kernel: every form of
every kernel, timed at many sizes.

    sweep.py compile FOLDER --tilec T
    forms.py FOLDER --sweep N:K [--out FILE.csv]      on a GPU
    forms.py --read FILE.csv                          the summary again

A row a case, way (sums by atomic additions or two kernels), kernel with forms and form: its time within
the whole launch, what the rule expects in clocks, and whether it takes it.  All other kernels of the
launch take what their own rule says.
"""

import argparse
import copy
import csv
import math
import random
import statistics
import sys

import case as cases_of
import sweep

FIELDS = ["case", "way", "kernel", "form", "ms", "least_ms", "clocks", "taken"]


def with_form(module, name, index):
    """The module, but its kernel `name` has one form alone: 0 is the kernel itself, 1 its first variant."""
    part = module.select(*(kernel.name for kernel in module.kernels))
    for k, kernel in enumerate(part.kernels):
        if kernel.name == name:
            part.kernels[k] = copy.copy([kernel, *kernel.variants][index])
            part.kernels[k].variants = []
    return part


def forms_of(module):
    """[(kernel's name, form)] of the kernels that have several."""
    return [(kernel.name, index) for kernel in module.kernels for index in range(1 + len(kernel.variants)) if kernel.variants]


def clocks(module, name, plan, scalars):
    """What the rule expects of each form of the kernel, for the tensors of a prepared launch."""
    kernel = next(kernel for kernel in module.kernels if kernel.name == name)
    own = {t["name"]: plan.tensors[t["name"]] for t in kernel.meta["tensors"]}
    env = kernel.sizes(own, scalars, complete=False)
    return [form.cost(env) for form in (kernel, *kernel.variants)]


def measure_case(case, files, flush, options):
    import contenders
    import timing
    x = contenders.Inputs(case)
    built, facts = {}, {}
    for file in files:
        for way, module in file.ways(case) if file.fits(case) and not file.few and not file.shares_keys else []:
            for name, index in forms_of(module):
                one = contenders.ours(case, x, with_form(module, name, index))
                expected = clocks(module, name, one.run.__self__, {"scale": x.scale})
                taken = int(index == min(range(len(expected)), key=expected.__getitem__))
                built[way, name, index] = one
                facts[way, name, index] = expected[index], taken
    if not built:
        return []
    times = timing.measure(built, "spin", flush, random.Random(0), options.reps, 3, 200_000)
    return [{"case": case.text, "way": way, "kernel": name, "form": index, "ms": f"{statistics.median(values):.5f}",
             "least_ms": f"{min(values):.5f}", "clocks": facts[way, name, index][0], "taken": facts[way, name, index][1]}
            for (way, name, index), values in times.items()]


def summary(rows):
    """Lines for people: how often the rule takes a form near the fastest."""
    groups = {}
    for row in rows:
        groups.setdefault((row["case"], row["way"], row["kernel"]), []).append(row)
    by_kernel = {}
    for (_, way, kernel), group in groups.items():
        least = min(float(r["ms"]) for r in group)
        taken = next(float(r["ms"]) for r in group if int(r["taken"]))
        by_kernel.setdefault(kernel + way, []).append(taken / least)
    lines = []
    for name, values in sorted(by_kernel.items()):
        mean = math.exp(sum(map(math.log, values)) / len(values))
        shares = [sum(v <= 1 + most for v in values) for most in (0.03, 0.08)]
        lines.append(f"{name}: within 3 % of the fastest form in {shares[0]} of {len(values)} cases, within 8 % in {shares[1]}; "
                     f"{mean:.3f} times its time in the geometric mean, {max(values):.2f} at worst")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--sweep", metavar="COUNT:SEED", help="cases drawn at random")
    parser.add_argument("--case", action="append", default=[], help=cases_of.Case.__doc__)
    parser.add_argument("--reps", type=int, default=11)
    parser.add_argument("--out", default="forms.csv")
    parser.add_argument("--read", metavar="FILE")
    options = parser.parse_args()
    if options.read:
        with open(options.read, newline="") as file:
            print("\n".join(summary(list(csv.DictReader(file)))))
        return 0
    if not options.folder:
        parser.error("which folder? (sweep.py compile makes one)")
    chosen = [cases_of.Case(text) for text in options.case] + (sweep.parse_sweep(options.sweep) if options.sweep else [])
    import contenders
    import timing
    import torch
    files = contenders.find_files("forms=" + options.folder)[1]
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    rows = []
    with open(options.out, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for case in chosen:
            if sweep.is_decode(case):
                continue
            try:
                of_case = measure_case(case, files, flush, options)
            except torch.cuda.OutOfMemoryError as error:
                print(f"# {case}: {str(error).splitlines()[0]}", flush=True)
                of_case = []
            rows += of_case
            writer.writerows(of_case)
            file.flush()
            torch.cuda.empty_cache()
    print("\n".join(summary(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
