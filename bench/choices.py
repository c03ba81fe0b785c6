#!/usr/bin/env python3
"""choices.py - two compilers' choices among the forms of attention's kernels, where they differ, against each other.

    choices.py compile FOLDER --tilec NEW --old OLD [--sweep N:K] [--case CASE]     needs no GPU
    choices.py FOLDER --json OUT                                                    on a GPU

NEW's sets must have all forms of OLD's: what OLD takes is timed in NEW's code.  FOLDER gets machine code (some 20 MB at most for
the 400 shapes of the sweep) and choices.json; the second command times each kernel whose choice differs within its whole launch, and
ten where it does not, in one process: medians of 11, spin mode.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys

import case as cases_of
import sweep

sys.path.insert(0, os.path.join(sweep.EXAMPLES, "python"))
import launch  # noqa: E402

CONTROLS = 10
KERNELS = ("attention", "attention_bwd", "attention_bwd_dkdv", "attention_bwd_dq")
SMS = 132


def of(form):
    """What tells forms of a kernel apart."""
    constants = form["constants"]
    return constants.get("M"), constants.get("N"), form["block"], "sm_count * 2" in form.get("cost", "")


def forms_of(tilec, example, options):
    """{kernel: [form]}, by the compiler's JSON."""
    said = subprocess.run([tilec, os.path.join(sweep.EXAMPLES, example + ".tile"), "-arch", "sm_90", *options, "--emit=json"],
                          capture_output=True, text=True, check=True).stdout
    return {k["name"]: [k, *k.get("variants", [])] for k in json.loads(said)["kernels"] if "cost" in k and k["name"] in KERNELS}


def taken(forms, case):
    sizes = {"B": case.batch, "Hq": case.heads, "Hk": case.kv_heads, "Sq": case.sq, "Sk": case.sk, "sm_count": SMS}
    return min(range(len(forms)), key=lambda k: launch.value(forms[k]["cost"], sizes))


def compile_choices(options, cases):
    known, differ, alike = {}, [], []
    for case in cases:
        if sweep.is_decode(case):
            continue
        name = f"{case.direction}_{case.d}_{case.dv}_{'true' if case.causal else 'false'}"
        file = sweep.files([case])[name]
        if name not in known:
            known[name] = [forms_of(os.path.abspath(t), *file) for t in (options.old, options.tilec)]
        for kernel, news in known[name][1].items():
            olds = known[name][0].get(kernel, [])
            places = [of(form) for form in news]
            if len(news) < 2 or not all(of(form) in places for form in olds):
                continue
            old, new = places.index(of(olds[taken(olds, case)])), taken(news, case)
            (differ if old != new else alike).append([case.text, name, kernel, old, new])
    random.Random(0).shuffle(alike)
    chosen = differ + alike[:CONTROLS]
    os.makedirs(options.what[1], exist_ok=True)
    with open(os.path.join(options.what[1], "choices.json"), "w", encoding="utf-8") as out:
        json.dump(chosen, out, indent=0)
    failed = 0
    for name in sorted({choice[1] for choice in chosen}):
        example, flags = sweep.files([c for c in cases if not sweep.is_decode(c)])[name]
        failed += subprocess.run([options.tilec, os.path.join(sweep.EXAMPLES, example + ".tile"), "-arch", "sm_90", *flags, "-o",
                                  os.path.join(options.what[1], name + ".cubin")], check=False).returncode != 0
    print(f"{len(differ)} choices differ, {len(alike)} do not")
    return 1 if failed else 0


def measure(options):
    import contenders
    import forms
    import timing
    import torch
    folder, rows, files = options.what[0], [], {}
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    with open(os.path.join(folder, "choices.json"), encoding="utf-8") as source:
        choices = json.load(source)
    for text, name, kernel, old, new in choices:
        case = cases_of.Case(text)
        if name not in files:
            files[name] = contenders.File(os.path.join(folder, name + ".cubin"))
        module = next(m for _, m in files[name].ways(case) if m.has(kernel))
        x = contenders.Inputs(case)
        built = {form: contenders.ours(case, x, forms.with_form(module, kernel, form)) for form in sorted({old, new})}
        results = {form: [t.float().clone() for t in one.results()] for form, one in built.items()}
        apart = max(((a - b).norm() / b.norm().clamp_min(1e-6)).item() for a, b in zip(results[old], results[new]))
        times = timing.measure(built, "spin", flush, random.Random(0), 11, 2, 200_000, warm_seconds=0.05)
        ms = {form: statistics.median(values) for form, values in times.items()}
        rows.append({"case": text, "kernel": kernel, "old": old, "new": new, "old_ms": ms[old], "new_ms": ms[new],
                     "over": ms[new] / ms[old], "apart": apart})
        print(f"{case} {kernel}: {ms[old]:.5f} -> {ms[new]:.5f} ms, {ms[new] / ms[old]:.3f}, results {apart:.1e} apart", flush=True)
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
    for kernel in KERNELS:
        over = [r["over"] for r in rows if r["kernel"] == kernel and r["old"] != r["new"]]
        if over:
            print(f"{kernel}: new over old {statistics.geometric_mean(over):.3f} of {len(over)}, {min(over):.3f} to {max(over):.3f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="compile FOLDER, or FOLDER")
    parser.add_argument("--tilec", default="tilec")
    parser.add_argument("--old")
    parser.add_argument("--sweep", default="400:1", metavar="N:K")
    parser.add_argument("--case", action="append", default=[], help=cases_of.Case.__doc__)
    parser.add_argument("--json", default="choices.json")
    options = parser.parse_args()
    if options.what[0] != "compile":
        return measure(options)
    if len(options.what) != 2 or not options.old:
        parser.error("compile FOLDER --tilec NEW --old OLD")
    return compile_choices(options, [cases_of.Case(text) for text in options.case] + sweep.parse_sweep(options.sweep))


if __name__ == "__main__":
    sys.exit(main())
