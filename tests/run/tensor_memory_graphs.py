#!/usr/bin/env python3
"""tensor_memory_graphs.py - loops whose products form a graph, with results in tensor memory (sm_100): right, without faults, and proved.

    tensor_memory_graphs.py --tilec T --tilerun R [--ptxas P] [--part K/N]

Attention backward, with sums by atomic additions, which a role of their own makes, and without, runs in the simulator under eight seeds (--seeds) against NumPy in
float64.  ptxas takes each kernel without spills.  Of what the roles do to each other every operation is left out once:
the verifier or check-roles refuses what comes of it.  What is added for heads that are not there goes nowhere.
"""
import os
import re
import sys

import numpy as np

import attention
import ladder
from attention import Wrong, call, make
from tensor_memory import arguments, refused, run_part, too_early, without_first_value

STEPS = {"attention_bwd_delta": ("O dO L", "delta L2"),
         "attention_bwd": ("Q K V dO L2 delta dQ_sum", "dQ_sum dK dV"),
         "attention_bwd_convert": ("dQ_sum", "dQ"),
         "attention_bwd_dkdv": ("Q K V dO L2 delta", "dK dV"),
         "attention_bwd_dq": ("Q K V dO L2 delta", "dQ")}
# the most columns of head dimensions for which there is room: of dV and dK, scores and dP of 128 queries, or of fewer
PLANNED = {"attention_bwd": 128, "attention_bwd_dkdv": 192, "attention_bwd_dq": 256}


def compiled(options, folder, source, kernel, defines, flags):
    ptx = os.path.join(folder, kernel + ".ptx")
    call([options.tilec, source, "-arch", "sm_100", "--kernel", kernel, "--verify", *flags, "-o", ptx,
          *(f"-D{name}={value}" for name, value in defines.items())])
    with open(ptx, encoding="utf-8") as file:
        planned = "tcgen05.mma" in file.read()
    if planned != (max(int(defines["D"]), int(defines.get("DV", 0))) <= PLANNED.get(kernel, 0)):
        raise Wrong(f"{kernel}: there is {'a' if planned else 'no'} tcgen05.mma")
    if options.ptxas and planned:
        said = call([options.ptxas, "-arch=sm_100a", "-v", ptx, "-o", os.path.join(folder, "graph.cubin")])
        # a softcap's derivative needs the capped scores as well, which are more registers than there are in a tile of 160 queries
        if "0 bytes spill stores, 0 bytes spill loads" not in said and (defines["SOFTCAP"] == "false" or kernel != "attention_bwd_dkdv"):
            raise Wrong(f"{kernel}: ptxas spills:\n" + said)
    return ptx


def backward(options, folder, case, steps=STEPS, data="normal"):
    random = np.random.default_rng(3)
    draw = lambda *size: ladder.rounded(random.standard_normal(size), case.dtype)
    q, k = draw(case.rows, case.heads, case.d), draw(case.keys, case.kv_heads, case.d)
    if data == "large":
        q = ladder.rounded(6 * q, case.dtype)
    if data == "below": # all scores are far below 0, and 2^-L2, of keys that are not there, is infinite
        away = random.standard_normal(case.d)
        away *= 60 / np.linalg.norm(away)
        q, k = ladder.rounded(q + away, case.dtype), ladder.rounded(k - away, case.dtype)
    v, g = draw(case.keys, case.kv_heads, case.dv), draw(case.rows, case.heads, case.dv)
    scale = float(np.float32(case.d ** -0.5))
    exact, plain = (attention.reference(case, q, k, v, g, scale, e) for e in (True, False))
    have = {n: ladder.to_bits(x, case.dtype)[None] for n, x in
            (("Q", q), ("K", k), ("V", v), ("dO", g), ("O", ladder.rounded(exact["O"], case.dtype)))}
    have["L"] = np.ascontiguousarray(exact["L"].astype(np.float32))[None]
    have["dQ_sum"] = np.zeros((1, case.rows, case.heads, case.d), np.float32)
    defines = {"T": case.dtype, "D": case.d, "DV": case.dv, "CAUSAL": str(case.causal).lower(), "WINDOW": case.window,
               "SOFTCAP": str(bool(case.softcap)).lower(), "ALIBI": str(case.alibi).lower()}
    defines.update(flag[2:].split("=") for flag in case.flags if flag.startswith("-D"))
    flags = [flag for flag in case.flags if not flag.startswith("-D")]
    for kernel, (inputs, outputs) in steps.items():
        own = dict(defines)
        if kernel in ("attention_bwd_delta", "attention_bwd_convert"):
            own = {name: defines[name] for name in ("T", "D", "DV") if name != "DV" or kernel.endswith("delta")}
        scalars = {"attention_bwd_delta": {}, "attention_bwd_convert": {"scale": scale}}.get(
            kernel, {"scale": scale, "softcap": attention.SOFTCAP})
        ptx = compiled(options, folder, attention.BACKWARD, kernel, own, flags if kernel in PLANNED else [])
        command = [options.tilerun, ptx, "--device", "sim", "--seeds", str(options.seeds)]
        call(ladder.with_arrays(command, folder, {n: have[n] for n in inputs.split()}, scalars, outputs.split()))
        have.update(ladder.loaded(folder, outputs.split()))
        for name in set(outputs.split()) & set(exact):
            found = ladder.from_bits(have[name], case.dtype)[0]
            error = np.abs(found - exact[name]).max()
            allowed = 2 * np.abs(plain[name] - exact[name]).max() + 1e-5
            if not error <= allowed:
                raise Wrong(f"{kernel}: {name}: error {error:.3g}, allowed {allowed:.3g}")


def attention_cases():
    tiles = ["-DM=128", "-DN=128"]
    one = [*tiles, "--plan=consumers=1,stages=1"]
    out = []
    for dtype in ("bf16", "f16"):
        for d in (64, 128):
            for causal in (False, True):
                out.append(make(300, 420, dtype, d=d, causal=causal, heads=2, kv_heads=1,
                                flags=one if dtype == "f16" else []))
    out += [make(1, 1, flags=tiles), make(130, 5, causal=True, flags=tiles), make(400, 130, causal=True, heads=2, flags=one),
            make(140, 400, d=32, heads=4, kv_heads=2, flags=tiles), make(300, 300, d=128, causal=True, window=150, flags=tiles),
            make(200, 260, softcap=True, heads=2, flags=one), make(200, 260, "f16", d=128, softcap=True, flags=one),
            make(200, 140, d=64, dv=128, flags=tiles), make(140, 260, d=128, dv=64, causal=True, flags=one),
            make(150, 300, causal=True, flags=[*tiles, "-fno-split-loops"]), make(260, 130, d=96, alibi=True, flags=tiles),
            make(140, 260, d=192, causal=True), make(200, 130, d=160, heads=2), make(130, 200, d=256, causal=True),
            make(150, 260, d=72, causal=True, flags=one), make(140, 150, d=24, dv=8, flags=tiles), make(200, 140, d=120, flags=one)]
    out = [(attention.name_of(case), lambda o, f, case=case: backward(o, f, case)) for case in out]
    for data in ("large", "below"):
        for case in (make(200, 260, causal=True, flags=tiles), make(260, 140, d=128, heads=2, flags=tiles)):
            out.append((f"{data} {attention.name_of(case)}", lambda o, f, case=case, data=data: backward(o, f, case, data=data)))
    return out


def beyond_numbers(options, folder):
    """Rows whose L2 makes exponents infinite, or far above the range, or none at all: where numbers end is the same with polynomials and without."""
    random = np.random.default_rng(5)
    draw = lambda *size: ladder.rounded(random.standard_normal(size), "bf16")
    rows, keys, d = 256, 200, 64
    have = {n: ladder.to_bits(draw(1, size, 1, d), "bf16") for n, size in (("Q", rows), ("K", keys), ("V", keys), ("dO", rows))}
    have.update({"delta": random.standard_normal((1, 1, rows)).astype(np.float32), "dQ_sum": np.zeros((1, rows, 1, d), np.float32)})
    inputs, outputs = STEPS["attention_bwd"]
    defines = {"D": d, "SOFTCAP": "false", "M": 128, "N": 128}
    for strange in (np.inf, 1e30, -np.inf, -1e30, -300, -127.7, np.nan):
        have["L2"] = random.uniform(4, 8, (1, 1, rows)).astype(np.float32)
        have["L2"][..., 3::41] = strange
        found = {}
        for flags in ((), ("-fno-split-exp2",)):
            ptx = compiled(options, folder, attention.BACKWARD, "attention_bwd", defines, flags)
            command = [options.tilerun, ptx, "--device", "sim"]
            call(ladder.with_arrays(command, folder, {n: have[n] for n in inputs.split()}, {"scale": 0.125, "softcap": 0.0}, outputs.split()))
            found[flags] = {n: x if x.dtype == np.float32 else ladder.from_bits(x, "bf16")
                            for n, x in ladder.loaded(folder, outputs.split()).items()}
        for name in outputs.split():
            one, other = (x[name] for x in found.values())
            if not (np.isnan(one) == np.isnan(other)).all():
                raise Wrong(f"L2 {strange}: {name} has {np.isnan(one).sum()} NaNs, {np.isnan(other).sum()} without polynomials")
            with np.errstate(invalid="ignore"):
                apart = ~np.isnan(one) & (one != other) & ~(np.abs(one - other) <= 0.01 * np.abs(other) + 0.01)
            if apart.any():
                raise Wrong(f"L2 {strange}: {name} {one[apart][:4]} for {other[apart][:4]} without polynomials")


# Of the second product's sum 256 columns, of the third's as many, of what they are made of 64.
WIDE = """
kernel wide<T: type = bf16>(X: in T[S, 64] align(16), A: in T[F, 64] align(16), W: in T[F, 256] align(16),
                            V: in T[F, 256] align(16), Y: out f32[S, 256])
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    var a = zeros<f32>[128, 256];
    var b = zeros<f32>[128, 256];
    for i in 0..2 {
        for n in tiles(F, 64) {
            let s = mma(x, load A[n, :].T);
            a = mma(s as T, load W[n, :], a);
            b = mma(s as T, load V[n, :], b);
        }
    }
    store Y[m, :] = a + b;
}
"""
# Arithmetic reads the result of a product that has a computed operand; the sum of the loop around is another one.
TWICE = """
kernel twice<T: type = bf16>(X: in T[S, 64] align(16), A: in T[F, 64] align(16), W: in T[F, 64] align(16), Y: out f32[S, 64])
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    var a = zeros<f32>[128, 64];
    for i in 0..2 {
        for n in tiles(F, 64) { a = a + exp(mma(mma(x, load A[n, :].T) as T, load W[n, :])); }
    }
    store Y[m, :] = a;
}
"""
SCALED = """
kernel scaled<T: type = bf16>(X: in T[S, 64] align(16), A: in T[F, 64] align(16), W: in T[F, 64] align(16), Y: out f32[S, 64])
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    var a = zeros<f32>[128, 64];
    for i in 0..2 {
        for n in tiles(F, 64) { a = mma(mma(x, load A[n, :].T) as T, load W[n, :], a); }
        a *= 0.5;
    }
    store Y[m, :] = a;
}
"""


def not_covered(options, folder):
    """What another way is taken for, and a remark says why."""
    for text, why in ((WIDE, "products have more columns of results and operands than tensor memory"),
                      (TWICE, "arithmetic reads the result of a product that has a computed operand"),
                      (SCALED, "a product in tensor memory adds to what is neither zero nor a sum of its own")):
        source = os.path.join(folder, "not_covered.tile")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        said = call([options.tilec, source, "-arch", "sm_100", "--verify", "--remarks", "-o", os.devnull])
        if why not in said:
            raise Wrong(f"nothing says '{why}':\n{said}")


def beyond(options, folder):
    """The reduce role adds nothing for heads in front of the first one and behind the last."""
    with open(attention.BACKWARD, encoding="utf-8") as file:
        text = file.read()
    loop = "for h in kv * group..(kv + 1) * group {"
    source, ptx = os.path.join(folder, "beyond.tile"), os.path.join(folder, "beyond.ptx")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text.replace(loop, "for h in kv * group - 1..(kv + 1) * group + 1 {", 1))
    call([options.tilec, source, "-arch", "sm_100", "--kernel", "attention_bwd", "-DD=64", "-o", ptx])
    with open(ptx, encoding="utf-8") as file:
        if loop not in text or "red.global.add.v4" not in file.read():
            raise Wrong("no role adds rows")
    sizes = [part for size in ("B=2", "Hq=2", "Hk=2", "Sq=200", "Sk=140") for part in ("--set", size)]
    said = call([options.tilerun, ptx, "--random", "--no-check", "--device", "sim", *sizes])
    if "fault:" in said:
        raise Wrong(said)


def faults(options, folder, kernel, d, stages):
    """Each operation that roles meet at, and each that writes tensor or shared memory, left out of the tile IR in front of
    check-roles, or moved to where it comes too early."""
    text = call([options.tilec, attention.BACKWARD, "-arch", "sm_100", "--kernel", kernel,
                 f"--plan=consumers=1,stages={stages}", f"-DD={d}", "-DM=128", "-DN=128", "--dump-ir=order_accesses", "-o", os.devnull])
    lines = text.split("\n")
    changed = []
    for at, line in enumerate(lines):
        if re.match(r" *(producer_acquire|producer_commit|consumer_wait|consumer_release|tma_load|shared_write|atomic_add) ", line):
            changed.append((f"{at} {line.strip()}", lines[:at] + lines[at + 1:]))
        # (what a sum begins with is written before the first operand is handed on, for which its product waits)
        if re.match(r" *producer_commit ", line) or (" consumer_release " in line and " tmem_write " not in lines[at - 1]):
            changed += too_early(lines, at, r" (tmem_mma|tmem_write|shared_write) ", r" (tmem_mma|tmem_write|shared_write) ")
        if " atomic_add " in line: # the reduce role's: what it adds is released before it is read
            release, read = at - 1, next(i for i in range(at, 0, -1) if " tmem_read " in lines[i])
            changed.append((f"{at} released unread", lines[:read] + [lines[release]] + lines[read:release] + lines[at:]))
    for pipeline in re.findall(r"shared (\$\w+):.* release_lag", text):
        reads = [at for at, line in enumerate(lines) if f" shared_read {pipeline}[" in line]
        for at in reads[1:3]: # where two stages are held: the one of another iteration
            other = lines[at].removesuffix(" oldest") if lines[at].endswith(" oldest") else lines[at] + " oldest"
            changed.append((f"{at} not of its iteration", lines[:at] + [other] + lines[at + 1:]))
    changed.append(without_first_value(lines))
    if (stages > 1) != any(line.endswith(" oldest") for line in lines):
        raise Wrong(f"{stages} stages: a product is issued ahead where there is no room, or none is")
    if len(changed) < 40:
        raise Wrong(f"only {len(changed)} changes")
    for _ in refused(options, folder, changed):
        pass


def main():
    every = [*((f"faults {kernel} {d} {stages}", lambda o, f, of=(kernel, d, stages): faults(o, f, *of))
               for kernel, d, stages in (("attention_bwd", 64, 2), ("attention_bwd", 128, 1), ("attention_bwd", 128, 2),
                                         ("attention_bwd_dkdv", 128, 2))),
             ("what is not covered", not_covered), ("heads beyond", beyond), ("beyond numbers", beyond_numbers), *attention_cases()]
    return run_part(arguments(), every)


if __name__ == "__main__":
    sys.exit(main())
