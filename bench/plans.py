"""plans.py - measures plans for warp groups, for bench/model.py to compare with what is predicted.

    python3 bench/plans.py prepare --tilec build/tilec --out FOLDER    # no GPU: cubins, FOLDER/plans.json
    python3 bench/plans.py measure FOLDER --csv FILE                   # on the GPU

`prepare` takes, of each case below, the configurations that the model predicts to be the best, some that
it ranks lower, and variants of the best in one point of the plan each; it leaves out what ptxas spills more
than 16 bytes of.  `measure` compares each with float32 on three heads, then times the one kernel in an
order shuffled anew in each repetition, with 256 MB written before each call:

A run that broke off goes on with the next case when it is started again.

burst      4 ms idle before each call: a cool chip at its full clock, which is what the model predicts
sustained  no pause: a chip at its power limit
"""

import argparse
import csv
import hashlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
import model  # noqa: E402

KERNELS = ("attention", "attention_bwd", "attention_bwd_dkdv", "attention_bwd_dq")
SPILLS = 16  # bytes that may be spilled
FLUSH_BYTES = 256 << 20
IDLE = 0.004  # seconds
SPIN = 400_000  # cycles for which the GPU waits before a call, or after an idle time the host comes too late with it
LONG = 6      # plans of a case that are timed at the largest length


def all_cases():
    """(kernel, d, mask, lengths): plans are chosen for the first length; for the last of three only the best."""
    found = [(k, d, m, [4096, 1024, 16384]) for k in KERNELS for d in (64, 128, 256) for m in ("full", "causal")]
    return found + [("attention", 128, "window1024", [16384]), ("attention", 128, "softcap", [4096]),
                    ("attention_bwd", 128, "window1024", [16384]), ("attention", 64, "window1024", [16384])]


# ---- which plans -----------------------------------------------------------------------------------


def variants(plan):
    """Plans that differ from this one in one point."""
    for stages in range(1, plan["stages"]):
        yield {**plan, "stages": stages}
    if plan["q_stages"] > 1:
        yield {**plan, "q_stages": 1}
    yield {**plan, "pipelined": 0}
    yield {**plan, "persistent": 1 - plan["persistent"]}
    if plan["pingpong"]:
        yield {**plan, "pingpong": 0}


def choose(features, constants, most, more):
    """[(tiles, plan)]: the `most` best predicted, with variants where those are few; `more` others."""
    known = []
    for line in features:
        plan = model.plan_of(line)
        known.append((model.predict(line, plan, constants), line, plan))
    known = sorted((k for k in known if k[0] is not None), key=lambda k: k[0])
    chosen = [(line, plan) for _, line, plan in known[:most]]
    rest = known[most:]
    chosen += [(line, plan) for _, line, plan in rest[::max(1, len(rest) // more)][:more]]
    for _, line, plan in known[:4]:
        if len(chosen) < most + more:
            chosen += [(line, other) for other in variants(plan) if (line, other) not in chosen]
    for _, line, plan in known[:2]:
        chosen += [(line, other) for other in variants(plan) if (line, other) not in chosen]
    return [(line["tiles"], plan) for line, plan in chosen]


def compile_plan(options, case, tiles, plan):
    """What plans.json says of one plan; None: tilec refuses it, or it is the same code as ..."""
    kernel, d, mask, _ = case
    text = ",".join(f"{k}={v}" for k, v in plan.items())
    name = "-".join([kernel, str(d), mask] + [str(v) for v in tiles.values()] + [str(v) for v in plan.values()])
    ptx, cubin = (os.path.join(options.out, f"{name}.{e}") for e in ("ptx", "cubin"))
    command = [options.tilec, model.source_of(kernel), "--kernel", kernel, "-arch", "sm_90", "--tuning=none", "-o", ptx,
               f"--plan={text}"] + model.defines(d, mask)
    for parameter, value in tiles.items():
        command += ["-D", f"{parameter}={value}"]
    if subprocess.run(command, capture_output=True).returncode:
        return None
    with open(ptx) as file:
        code = file.read()
    if "wgmma" not in code:
        return None
    made = {"name": name, "tiles": tiles, "plan": plan,
            "code": hashlib.sha1(re.sub(r"(?m)^//.*$|tilec_metadata.*", "", code).encode()).hexdigest()}
    if not os.path.exists(cubin):
        done = subprocess.run(["ptxas", "-arch=sm_90a", "-v", ptx, "-o", cubin], capture_output=True, text=True)
        if done.returncode:
            return None
        spilled = [int(n) for n in re.findall(r"(\d+) bytes spill stores", done.stderr)]
        with open(cubin + ".spills", "w") as file:
            file.write(str(max(spilled, default=0)))
    os.remove(ptx)
    with open(cubin + ".spills") as file:
        made["spilled"] = int(file.read())
    return made


def prepare(options):
    os.makedirs(options.out, exist_ok=True)
    constants, plans = model.read_record(), []
    for case in all_cases():
        kernel, d, mask, lengths = case
        if options.only and not re.search(options.only, f"{kernel}-{d}-{mask}"):
            continue
        features = model.search(options.tilec, kernel, d, mask, lengths[0], model.EVERY[kernel])
        features += model.search(options.tilec, kernel, d, mask, lengths[0], [])
        unique = {json.dumps([f["tiles"], f["plan"]]): f for f in features}
        wanted = choose(list(unique.values()), constants, options.most, options.more)
        with ThreadPoolExecutor(options.jobs) as pool:
            made = list(pool.map(lambda w: compile_plan(options, case, *w), wanted))
        codes, kept = set(), []
        for plan in made:
            if plan is None or plan["spilled"] > SPILLS or plan["code"] in codes:
                continue
            codes.add(plan["code"])
            kept.append({**plan, "kernel": kernel, "d": d, "mask": mask, "lengths": lengths})
        print(f"{kernel} {d} {mask}: {len(wanted)} wanted, {len(kept)} kept, "
              f"{sum(m is None for m in made)} refused, {sum(m is not None and m['spilled'] > SPILLS for m in made)} "
              f"spill", flush=True)
        plans += kept
        with open(os.path.join(options.out, "plans.json"), "w") as file:
            json.dump(plans, file)


# ---- on the GPU -------------------------------------------------------------------------------------


def tensors_of(torch, case):
    """(tensors by name, scalars, results in float32 of three heads)"""
    kernel, d, mask, length = case
    batch, heads = 16384 // length, 2048 // d
    causal, window, cap = mask in ("causal", "window1024"), 1024 if mask == "window1024" else 0, 15.0
    generator = torch.Generator(device="cuda").manual_seed(1)

    def make():
        return torch.randn(batch, length, heads, d, generator=generator, device="cuda", dtype=torch.bfloat16)
    q, k, v, g = make(), make(), make(), make()
    scale = d ** -0.5

    def head(b, h):
        q1, k1, v1, g1 = (x[b, :, h].float() for x in (q, k, v, g))
        s = q1 @ k1.T * scale
        if mask == "softcap":
            s = cap * torch.tanh(s / cap)
        if causal:
            s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu_(1), float("-inf"))
        if window:
            s.masked_fill_(torch.ones_like(s, dtype=torch.bool).tril_(-window), float("-inf"))
        lse = torch.logsumexp(s, 1)
        p = torch.exp(s - lse[:, None])
        out = p @ v1
        delta = (out * g1).sum(1)
        ds = p * (g1 @ v1.T - delta[:, None])
        return {"O": out, "L": lse, "delta": delta, "dQ": ds @ k1 * scale, "dK": ds.T @ q1 * scale, "dV": p.T @ g1}
    places = [(0, 0), (batch - 1, heads - 1), (batch // 2, heads // 2)]
    expected = {place: head(*place) for place in places}
    tensors = {"Q": q, "K": k, "V": v}
    if kernel != "attention":
        tensors["dO"] = g
        for name in ("L2", "delta"):
            tensors[name] = torch.empty(batch, heads, length, device="cuda")
        if mask in ("full", "causal"):
            o, lse = torch.ops.aten._scaled_dot_product_flash_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), 0.0, causal, False, scale=scale)[:2]
            tensors["L2"].copy_(lse * 1.4426950408889634)
            tensors["delta"].copy_((o.float() * g.transpose(1, 2).float()).sum(3))
        else:  # the time does not depend on the values
            for b in range(batch):
                for h in range(heads):
                    of = expected.get((b, h)) or expected[places[0]]
                    tensors["L2"][b, h], tensors["delta"][b, h] = of["L"] * 1.4426950408889634, of["delta"]
    return tensors, {"scale": scale, "softcap": cap}, expected


def build(torch, tilec_torch, folder, plan, tensors, scalars):
    module = tilec_torch.load(os.path.join(folder, plan["name"] + ".cubin"))
    known = {t["name"] for t in module.kernels[0].meta["tensors"]}
    names = {s["name"] for s in module.kernels[0].meta["scalars"]}
    return module.prepare(**{n: t for n, t in tensors.items() if n in known},
                          **{n: s for n, s in scalars.items() if n in names})


def wrong(torch, made, expected, scale):
    """What is wrong with the results of three heads; "" for nothing."""
    made.run()
    for name, factor in (("O", 1), ("dQ", 1), ("dK", 1), ("dV", 1), ("dQ_sum", scale)):
        if name not in made.tensors:
            continue
        for (b, h), of in expected.items():
            have, want = made.tensors[name][b, :, h].float() * factor, of[name.removesuffix("_sum")]
            error = ((have - want).norm() / want.norm()).item()
            if not error < 1e-2:
                return f"{name}: error {error:.1e} of the norm"
    return ""


def timed(torch, launches, reps, idle, flush, order):
    """{name: median milliseconds}"""
    times, names, pending = {n: [] for n in launches}, list(launches), []
    for _ in range(reps):
        order.shuffle(names)
        for name in names:
            if idle:
                torch.cuda.synchronize()
                time.sleep(IDLE)
            flush.zero_()
            torch.cuda._sleep(SPIN)
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for launch in launches[name].launches:
                launch.run()
            stop.record()
            pending.append((name, start, stop))
    torch.cuda.synchronize()
    for name, start, stop in pending:
        times[name].append(start.elapsed_time(stop))
    return {name: statistics.median(of) for name, of in times.items()}


def measure(options):
    import torch
    sys.path.insert(0, os.path.join(ROOT, "examples", "python"))
    import tilec_torch
    with open(os.path.join(options.folder, "plans.json")) as file:
        plans = json.load(file)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    order, began = random.Random(1), time.perf_counter()
    work = {}
    for plan in plans:
        for place, length in enumerate(plan["lengths"]):
            work.setdefault((place, plan["kernel"], plan["d"], plan["mask"], length), []).append(plan)
    begun = []  # by an earlier run that broke off: what it had begun is passed over
    if os.path.exists(options.csv + ".begun"):
        with open(options.csv + ".begun") as file:
            begun = file.read().split("\n")
    with open(options.csv, "a", newline="") as file, open(options.csv + ".begun", "a") as log:
        out = csv.writer(file)
        if not begun:
            out.writerow(model.FIELDS)
        for (place, *case), of_case in sorted(work.items(), key=lambda item: item[0][0]):
            if str(case) in begun:
                continue
            print(case, file=log, flush=True)
            if time.perf_counter() - began > options.limit:
                print(f"# no time left for {case}", flush=True)
                continue
            tensors, scalars, expected = tensors_of(torch, case)
            built = {}
            for plan in of_case[:LONG] if place == 2 else of_case:
                try:
                    made = build(torch, tilec_torch, options.folder, plan, dict(tensors), scalars)
                    said = wrong(torch, made, expected, scalars["scale"])
                except tilec_torch.TilecError as error:
                    said = str(error).splitlines()[0]
                if said:
                    print(f"# {plan['name']} at {case[-1]}: {said}", flush=True)
                else:
                    built[plan["name"]] = made
            burst = timed(torch, built, options.reps, True, flush, order)
            sustained = timed(torch, built, options.reps, False, flush, order) if place == 0 else {}
            for plan in of_case:
                if plan["name"] in burst:
                    out.writerow([plan["kernel"], plan["d"], plan["mask"], case[-1], *plan["tiles"].values(),
                                  *plan["plan"].values(), f"{burst[plan['name']]:.4f}",
                                  f"{sustained[plan['name']]:.4f}" if sustained else ""])
            file.flush()
            best = min(burst, key=burst.get, default="-")
            print(f"{case}: {len(burst)} timed, {best} {burst.get(best, 0):.3f} ms, "
                  f"{time.perf_counter() - began:.0f} s", flush=True)
            del built, tensors, expected
            torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("prepare")
    first.add_argument("--tilec", required=True)
    first.add_argument("--out", required=True)
    first.add_argument("--only", help="a regular expression over KERNEL-D-MASK")
    first.add_argument("--most", type=int, default=20)
    first.add_argument("--more", type=int, default=4)
    first.add_argument("--jobs", type=int, default=2)
    first.set_defaults(run=prepare)
    second = commands.add_parser("measure")
    second.add_argument("folder")
    second.add_argument("--csv", required=True)
    second.add_argument("--reps", type=int, default=6)
    second.add_argument("--limit", type=float, default=600, help="seconds, after which no case is begun")
    second.set_defaults(run=measure)
    options = parser.parse_args()
    if "tilec" in options:
        options.tilec = os.path.abspath(options.tilec)
    options.run(options)


if __name__ == "__main__":
    main()
