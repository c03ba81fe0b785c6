"""torch_gradients.py - gradients of tilec.torch's attention beside float64 autograd, over all options, drawn at random.

    python3 tests/gpu/torch_gradients.py [--first SEED] [--count N] [--jobs J] [--seconds S] [--out FOLDER]    (tilec on PYTHONPATH)
    python3 tests/gpu/torch_gradients.py --seed SEED                          one call, and what is wrong with it

A call's O, dQ, dK and dV may be off by twice the larger of two errors, plus 1e-5: that of the same formula in PyTorch's plain 16-bit
operations and autograd, and what rounding the exact result to 16 bits costs.  Gradients of Q and K are what is left where each term of
a sum is taken off their mean; a query that sees one key leaves nothing, and the plain computation has 0 there.  So 2^-20 of the terms'
sizes, a few roundings to float32, are allowed as well.  L, which is float32 and has a gradient in some calls, may be off by 1e-4 and
1e-6 of itself, and with a softcap by 2^-16 of that, as the GPU's tanh is.  A refusal in words is counted apart.  Calls begin while S
seconds are not over; those that do not are counted, too.  Exit status: the number of calls that are wrong.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from torch_product import ROUNDINGS, reference, terms  # noqa: E402

HEADS = (64, 128, 8, 16, 24, 32, 40, 48, 80, 96, 112, 120, 160, 192, 224, 256, 7, 33, 65, 77, 100, 129, 203, 255)
OPTIONS = ("causal", "window", "right", "softcap", "scale", "alibi", "deterministic", "lse", "packed", "grouped", "other_dv", "odd_d",
           "one_query", "one_key", "unlike", "float16", "heads_first", "view", "strided_grad")


def head_dim(rng):
    return rng.choice(HEADS) if rng.random() < 0.7 else rng.choice((64, 128))


def draw(seed):
    """A call: its sizes, its options, how its tensors lie."""
    rng = random.Random(seed)
    group, heads = rng.choice((1, 1, 1, 2, 4, 6, 8)), rng.choice((1, 1, 2, 3))
    rows = (1, 2, 17, 63, 64, 65, 128, 200, 333, 512, 700, 1100)
    sq = rng.choice(rows)
    d = head_dim(rng)
    case = {"seed": seed, "b": rng.choice((1, 2, 3)), "sq": sq, "sk": rng.choice((sq, sq, *rows, 2000)), "hq": group * heads, "hk": heads,
            "d": d, "dv": d if rng.random() < 0.7 else head_dim(rng), "dtype": rng.choice(("bfloat16", "bfloat16", "float16")),
            "lies": rng.choice(("bshd", "bshd", "bhsd", "view", "fused")), "grad": rng.choice(("whole", "whole", "turned", "expanded")),
            "lse": rng.random() < 0.25, "packed": rng.random() < 0.2}
    options = {"causal": rng.random() < 0.5, "window": rng.choice((None, None, None, 1, 2, 40, 129, 1000, 2**31 - 1)),
               "softcap": rng.choice((0.0, 0.0, 0.0, 1.5, 5.0, 50.0, float("inf"))), "scale": rng.choice((None, None, 0.03, 0.3, 1.0))}
    if not case["packed"]:
        options |= {"alibi": rng.random() < 0.15, "deterministic": rng.random() < 0.3}
        if not options["causal"]:
            options["right"] = rng.choice((None, None, 0, 1, 30, 300, 10**9))
    else:
        case["lies"], case["same"] = "bshd", rng.random() < 0.5  # lengths of queries and keys
        case["lengths"] = [(rng.choice(rows), rng.choice(rows)) for _ in range(rng.choice((1, 2, 5)))]
        if rng.random() < 0.3:
            case["lengths"].append((0, rng.choice((0, 40))))
        if case["same"]:
            case["lengths"] = [(q, q) for q, _ in case["lengths"]]
        case["behind"] = rng.choice((0, 0, 37))  # rows in no sequence
    return case, options


def kinds(case, options):
    """Which of OPTIONS a call has."""
    rows = [n for n in case["lengths"] if n[0]] if case["packed"] else [(case["sq"], case["sk"])]
    some = {"causal": options["causal"], "window": options["window"], "right": options.get("right") is not None, "softcap": options["softcap"],
            "scale": options["scale"], "alibi": options.get("alibi"), "deterministic": options.get("deterministic"), "lse": case["lse"],
            "packed": case["packed"], "grouped": case["hq"] > case["hk"], "other_dv": case["dv"] != case["d"], "odd_d": case["d"] % 2 or case["dv"] % 2,
            "one_query": any(q == 1 for q, _ in rows), "one_key": any(k == 1 for _, k in rows), "unlike": any(q != k for q, k in rows), "float16": case["dtype"] == "float16",
            "heads_first": case["lies"] == "bhsd", "view": case["lies"] in ("view", "fused"), "strided_grad": case["grad"] != "whole"}
    return [name for name in OPTIONS if some[name]]


def values_of(case):
    """Random operands [B, S, H, D] on the GPU, or [T, H, D] of packed sequences."""
    import torch

    torch.manual_seed(case["seed"])
    dtype = getattr(torch, case["dtype"])
    if case["packed"]:
        rows = [sum(n[i] for n in case["lengths"]) + case["behind"] for i in (0, 1)]
        shapes = [(rows[0], case["hq"], case["d"]), (rows[1], case["hk"], case["d"]), (rows[1], case["hk"], case["dv"])]
        grads = [(rows[0], case["hq"], case["dv"]), (case["hq"], rows[0])]
    else:
        b, sq, sk = case["b"], case["sq"], case["sk"]
        shapes = [(b, sq, case["hq"], case["d"]), (b, sk, case["hk"], case["d"]), (b, sk, case["hk"], case["dv"])]
        grads = [(b, sq, case["hq"], case["dv"]), (b, case["hq"], sq)]
    q, k, v, grad = (torch.randn(shape, device="cuda").to(dtype) for shape in (*shapes, grads[0]))
    if case["grad"] == "turned":
        grad = grad.transpose(0, 1).contiguous().transpose(0, 1)
    elif case["grad"] == "expanded":
        grad = grad[:1].expand(grad.shape)
    return (q, k, v), grad, torch.randn(grads[1], device="cuda")


def laid(case, x):
    """A leaf that lies as the case says, and what is given of it."""
    import torch

    if case["lies"] == "bhsd":
        leaf = x.transpose(1, 2).contiguous().requires_grad_()
        return leaf, leaf, lambda grad: grad.transpose(1, 2)
    if case["lies"] == "view":  # a part of wider rows
        wide = torch.cat([x, x], -2).requires_grad_()
        return wide, wide[:, :, :x.shape[2]], lambda grad: grad[:, :, :x.shape[2]]
    if case["lies"] == "fused":  # two tensors, row by row
        both = torch.stack([x, x], 2).requires_grad_()
        return both, both[:, :, 0], lambda grad: grad[:, :, 0]
    leaf = x.clone().requires_grad_()
    return leaf, leaf, lambda grad: grad


def ours(case, options, values, grad, grad_lse):
    """O, L, dQ, dK, dV of tilec.torch."""
    import torch

    import tilec.torch

    leaves, given, back = zip(*(laid(case, x) for x in values))
    if case["packed"]:
        starts = [torch.tensor([0, *(sum(n[i] for n in case["lengths"][:k + 1]) for k in range(len(case["lengths"])))],
                               dtype=torch.int32, device="cuda") for i in (0, 1)]
        o, l = tilec.torch.attention_varlen(*given, starts[0], None if case["same"] else starts[1], return_lse=True, **options)
    else:
        heads_first = case["lies"] == "bhsd"
        o, l = tilec.torch.attention(*given, return_lse=True, layout="bhsd" if heads_first else "bshd", **options)
        o = o.transpose(1, 2) if heads_first else o
    made = torch.autograd.grad([o, l] if case["lse"] else [o], leaves, [grad, grad_lse] if case["lse"] else [grad])
    return [o, l, *(f(x) for f, x in zip(back, made))]


def formula(options):
    """What the formula knows of the options."""
    same = {name: value for name, value in options.items() if name != "deterministic"}
    return {**same, "softcap": same["softcap"] if same["softcap"] < 1e9 else 0.0}


def plainly(case, options, values, grad, grad_lse, dtype):
    """The same by plain operations in a type."""
    import torch

    leaves, same = [x.to(dtype).clone().requires_grad_() for x in values], formula(options)
    if case["packed"]:
        o = torch.zeros(grad.shape, dtype=dtype, device="cuda")
        l = torch.full(grad_lse.shape, -torch.inf, dtype=dtype, device="cuda")
        q0 = k0 = 0
        for nq, nk in case["lengths"]:
            if nq and nk:
                part_o, part_l = reference(leaves[0][None, q0:q0 + nq], *(x[None, k0:k0 + nk] for x in leaves[1:]), **same)
                o = torch.cat([o[:q0], part_o[0], o[q0 + nq:]])
                l = torch.cat([l[:, :q0], part_l[0], l[:, q0 + nq:]], 1)
            q0, k0 = q0 + nq, k0 + nk
    else:
        o, l = reference(*leaves, **same)
    outs, grads = ([o, l], [grad.to(dtype), grad_lse.to(dtype)]) if case["lse"] else ([o], [grad.to(dtype)])
    made = torch.autograd.grad(outs, leaves, grads, allow_unused=True)
    return [o, l, *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, made))]


def sizes(case, options, values, grad):
    """The largest of what dQ and dK are sums of."""
    q, k, v, g = (x.double() for x in (*values, grad))
    parts = [(q, k, v, g)]
    if case["packed"]:
        parts, q0, k0 = [], 0, 0
        for nq, nk in case["lengths"]:
            if nq and nk:
                parts.append((q[None, q0:q0 + nq], k[None, k0:k0 + nk], v[None, k0:k0 + nk], g[None, q0:q0 + nq]))
            q0, k0 = q0 + nq, k0 + nk
    most = [0.0, 0.0]
    for part in parts:
        most = [max(old, new) for old, new in zip(most, terms(*part, **formula(options)))]
    return {"dQ": most[0], "dK": most[1]}


def error(have, want):
    import torch

    same = (have.double() == want) | (torch.isnan(have.double()) & torch.isnan(want))
    off = torch.where(same, 0.0, (have.double() - want).abs())
    return off.max().item() if off.numel() else 0.0


def judged(case, options):
    """{output: error / allowed} of a call."""
    import torch

    values, grad, grad_lse = values_of(case)
    have = ours(case, options, values, grad, grad_lse)
    want = plainly(case, options, values, grad, grad_lse, torch.float64)
    plain = plainly(case, options, values, grad, grad_lse, values[0].dtype)
    found, size_of = {}, sizes(case, options, values, grad)
    for name, h, w, p in zip(("O", "L", "dQ", "dK", "dV"), have, want, plain):
        assert h.shape == w.shape, f"{name} has the shape {list(h.shape)}"
        if name == "L":
            size = torch.where(torch.isfinite(w), w.abs(), 0.0)
            allowed = 1e-4 + 1e-6 * (size.max().item() if size.numel() else 0.0) + 2.0**-16 * formula(options)["softcap"]
        else:
            allowed = 2 * max(error(p, w), error(w.to(h.dtype), w)) + 1e-5 + ROUNDINGS * size_of.get(name, 0.0)
        found[name] = error(h, w) / allowed
    return found


def one(seed):
    import tilec.torch

    case, options = draw(seed)
    start = time.perf_counter()
    record = {"seed": seed, "kinds": kinds(case, options), "call": f"{case} {options}"}
    try:
        record["found"] = judged(case, options)
        record["status"] = "right" if all(x <= 1 for x in record["found"].values()) else "wrong"
    except tilec.torch.Error as no:
        record |= {"status": "refused", "words": str(no)}
    except Exception as what:  # noqa: BLE001  (the next one is tried all the same)
        record |= {"status": "wrong", "words": f"{type(what).__name__}: {what}"[:400]}
    record["seconds"] = round(time.perf_counter() - start, 2)
    return record


def work(options):
    """Every jobs-th seed, a line each."""
    for seed in range(options.first + options.part, options.first + options.count, options.jobs):
        if time.time() > options.until:
            break
        print(json.dumps(one(seed)), flush=True)
    os._exit(0)  # threads of PyTorch now and then end a process that goes on to its end with "terminate called"


def show(records, count):
    counted = collections.Counter(r["status"] for r in records)
    print(f"gradients: {count} calls: {counted['right']} right, {counted['wrong']} wrong, {counted['refused']} refused in words, "
          f"{count - len(records)} not begun")
    done = [r for r in records if "found" in r]
    print(f"{'':14}{'calls':>6}  worst error / allowed: {'O':>6} {'L':>6} {'dQ':>6} {'dK':>6} {'dV':>6}")
    for kind in ("all", *OPTIONS):
        of = [r["found"] for r in done if kind == "all" or kind in r["kinds"]]
        if of:
            print(f"{kind:14}{len(of):6}  {'':23}" + " ".join(f"{max(f[name] for f in of):6.3f}" for name in ("O", "L", "dQ", "dK", "dV")))
    for words, n in collections.Counter(r["words"] for r in records if r["status"] == "refused").most_common(12):
        print(f"refused {n}: {words[:200]}")
    for r in records:
        if r["status"] == "wrong":
            print(f"WRONG {r['call']}: {r.get('words') or {k: round(x, 3) for k, x in r['found'].items()}}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--seconds", type=float, default=110)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.seed is not None:
        print(json.dumps(one(options.seed), indent=1))
        return 0
    if options.part is not None:
        return work(options)
    same = [sys.executable, os.path.abspath(__file__), "--until", str(time.time() + options.seconds), "--first", str(options.first),
            "--count", str(options.count), "--jobs", str(options.jobs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    parts = [subprocess.Popen([*same, "--part", str(k)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
             for k in range(options.jobs)]
    records = []
    for part in parts:
        out, said = part.communicate()
        records += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        if part.returncode:
            print(f"a process ended with {part.returncode}: {said.strip()[-600:]}")
    records.sort(key=lambda r: r["seed"])
    with open(os.path.join(options.out, "torch_gradients.json"), "w", encoding="utf-8") as file:
        json.dump(records, file, indent=1)
    show(records, options.count)
    return min(sum(r["status"] == "wrong" for r in records) + (len(records) < options.count), 99)


if __name__ == "__main__":
    sys.exit(main())
