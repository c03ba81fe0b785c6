#!/usr/bin/env python3
"""demo.py - attention, forward and backward, from source text to checked numbers.

    python3 examples/demo.py --build build/release

Compiles attention.tile and attention_bwd.tile for the three targets, assembles each with ptxas
where there is one, runs them on the GPU, else in the simulator, compares with float64, and prints
a table.  Needs numpy only.
"""
import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = ["sm_80", "sm_90", "sm_100"]
BACKWARD = ["attention_bwd_delta", "attention_bwd", "attention_bwd_convert"]
# rows, keys, query heads, key heads, head dimension: neither length a multiple of a tile
GPU_SHAPE = (2, 1000, 1100, 8, 2, 128)
SIM_SHAPE = (1, 150, 200, 2, 1, 64)


# ---- bf16 as uint16 ----------------------------------------------------------------------------


def to_bf16(x):
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def rounded(x):
    return from_bf16(to_bf16(x))


# ---- the reference -----------------------------------------------------------------------------


def reference(q, k, v, g, scale, exact):
    """O, L, dQ, dK, dV of causal attention over [B, S, H, D]; in float64, or, for the error that
    16 bits can not avoid, with what a 16-bit kernel stores rounded to bf16."""
    cut = (lambda x: x) if exact else rounded
    group = q.shape[2] // k.shape[2]
    kk, vv = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    s = cut(np.einsum("bqhd,bkhd->bhqk", q, kk)) * scale
    rows, keys = s.shape[-2:]
    s[..., np.arange(keys)[None, :] > np.arange(rows)[:, None] + keys - rows] = -np.inf
    top = s.max(axis=-1, keepdims=True)
    top[np.isinf(top)] = 0
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    p = cut(e / np.where(total == 0, 1, total))
    o = cut(np.einsum("bhqk,bkhd->bqhd", p, vv))
    dp = cut(np.einsum("bqhd,bkhd->bhqk", g, vv))
    delta = np.einsum("bqhd,bqhd->bhq", g, o)[..., None]
    ds = cut(p * (dp - delta))
    folded = k.shape[:3] + (group,)
    dq = cut(np.einsum("bhqk,bkhd->bqhd", ds, kk) * scale)
    dk = np.einsum("bhqk,bqhd->bkhd", ds, q) * scale
    dv = np.einsum("bhqk,bqhd->bkhd", p, g)
    dk = cut(dk.reshape(folded + (k.shape[3],)).sum(axis=3))
    dv = cut(dv.reshape(folded + (v.shape[3],)).sum(axis=3))
    return {"O": o, "L": lse, "dQ": dq, "dK": dk, "dV": dv}


# ---- compiling ---------------------------------------------------------------------------------


def find_ptxas():
    for folder in [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]:
        path = os.path.join(folder, "bin", "ptxas") if folder else None
        if path and os.access(path, os.X_OK):
            return path
    return shutil.which("ptxas")


def compile_one(tilec, source, target, options, out):
    ptx = os.path.join(out, f"{source}-{target}.ptx")
    command = [tilec, os.path.join(HERE, source + ".tile"), "-arch", target, "-o", ptx] + options
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"demo: {' '.join(command)} failed:\n{done.stderr}")
    return ptx


def assemble(ptxas, ptx):
    """What ptxas says of the largest kernel: registers, spills; or why there is no cubin."""
    if not ptxas:
        return "no ptxas here", True
    with open(ptx, encoding="utf-8") as file:
        target = re.search(r"^\.target (\w+)", file.read(), re.M)[1] # sm_90a where it has to be
    command = [ptxas, "-v", f"-arch={target}", ptx, "-o", ptx[:-4] + ".cubin"]
    done = subprocess.run(command, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode != 0:
        return "refused by ptxas: " + said.strip().split("\n")[0], False
    registers = max(int(n) for n in re.findall(r"Used (\d+) registers", said))
    spilled = max([int(n) for n in re.findall(r"(\d+) bytes spill stores", said)] + [0])
    return f"{registers} registers, " + (f"{spilled} bytes spilled" if spilled else "no spills"), True


# ---- running -----------------------------------------------------------------------------------


def gpu_capability():
    """Compute capability of the first GPU, as 90, or None."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return None
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    return major.value * 10 + minor.value


def has_simulator(tilerun, ptx):
    done = subprocess.run([tilerun, ptx, "--device", "sim"], capture_output=True, text=True)
    return "no simulator" not in done.stderr and "without the simulator" not in done.stderr


def tilerun_kernel(tilerun, ptx, entry, device, arrays, outputs, scalars):
    """Runs one kernel; `arrays` gives its inputs, and gets its outputs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tilerun, ptx, "--entry", entry, "--device", device]
        for name, value in arrays.items():
            path = os.path.join(folder, name + "-in.npy")
            np.save(path, value)
            command += ["--in", f"{name}={path}"]
        for name, value in scalars.items():
            command += ["--set", f"{name}={value}"]
        for name in outputs:
            command += ["--out", f"{name}={os.path.join(folder, name + '.npy')}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return (done.stderr + done.stdout).strip() or f"exit status {done.returncode}"
        for name in outputs:
            arrays[name] = np.load(os.path.join(folder, name + ".npy"))
    return None


def run_attention(tilerun, forward, backward, device, data, scale):
    """Forward and backward of one target.  Returns the results, or what went wrong."""
    scalars = {"scale": scale, "softcap": 0.0}
    have = {n: to_bf16(data[n]) for n in "QKV"}
    wrong = tilerun_kernel(tilerun, forward, "attention", device, have, ["O", "L"], scalars)
    if wrong:
        return None, wrong
    result = {"O": from_bf16(have["O"]), "L": have["L"].astype(np.float64)}
    have["dO"] = to_bf16(data["dO"])
    pick = lambda *names: {n: have[n] for n in names}
    one = pick("O", "dO", "L")
    wrong = tilerun_kernel(tilerun, backward, BACKWARD[0], device, one, ["delta", "L2"], {})
    if wrong:
        return None, wrong
    have.update(one)
    two = pick("Q", "K", "V", "dO", "L2", "delta")
    two["dQ_sum"] = np.zeros(have["Q"].shape, np.float32)
    wrong = tilerun_kernel(tilerun, backward, BACKWARD[1], device, two, ["dQ_sum", "dK", "dV"],
                           scalars)
    if wrong:
        return None, wrong
    three = {"dQ_sum": two["dQ_sum"]}
    wrong = tilerun_kernel(tilerun, backward, BACKWARD[2], device, three, ["dQ"], {"scale": scale})
    if wrong:
        return None, wrong
    result.update(dQ=from_bf16(three["dQ"]), dK=from_bf16(two["dK"]), dV=from_bf16(two["dV"]))
    return result, None


def worst(have, want):
    same = have == want  # infinities
    return float(np.max(np.where(same, 0, np.abs(np.where(same, 0, have) - np.where(same, 0, want)))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--device", choices=["gpu", "sim", "none"])
    options = parser.parse_args()
    tilec = os.path.join(options.build, "tilec")
    tilerun = os.path.join(options.build, "backends", "cuda", "tilerun")
    out = os.path.join(options.build, "demo")
    os.makedirs(out, exist_ok=True)

    capability = gpu_capability()
    device = options.device or ("gpu" if capability else "sim")
    shape = GPU_SHAPE if device == "gpu" else SIM_SHAPE
    batch, rows, keys, heads, kv_heads, d = shape
    random = np.random.default_rng(1)
    draw = lambda *size: rounded(random.standard_normal(size))
    data = {"Q": draw(batch, rows, heads, d), "K": draw(batch, keys, kv_heads, d),
            "V": draw(batch, keys, kv_heads, d), "dO": draw(batch, rows, heads, d)}
    scale = float(np.float32(d ** -0.5))
    arrays = (data["Q"], data["K"], data["V"], data["dO"], scale)
    exact, plain = reference(*arrays, True), reference(*arrays, False)

    ptxas, failed, ran = find_ptxas(), False, False
    print(f"causal attention, bf16, {batch} x {rows} rows, {keys} keys, {heads} heads on "
          f"{kv_heads}, dimension {d}\n")
    why = None
    for target in TARGETS:
        ptx = {}
        for source in ["attention", "attention_bwd"]:
            ptx[source] = compile_one(tilec, source, target,
                                      ["-D", f"D={d}", "-D", "CAUSAL=true"], out)
            said, good = assemble(ptxas, ptx[source])
            failed |= not good
            print(f"  {target:7} {source:14} {said}")
        if device == "none":
            why = "--device none"
        elif not os.access(tilerun, os.X_OK):
            why = "tilerun was not built"
        elif device == "sim" and not has_simulator(tilerun, ptx["attention"]):
            why = "there is no GPU, and tilerun was built without the simulator"
        elif device == "gpu" and capability < int(target[3:]):
            print(f"          not run: the GPU is an sm_{capability}")
            continue
        if why:
            continue
        result, wrong = run_attention(tilerun, ptx["attention"], ptx["attention_bwd"], device, data,
                                      scale)
        if wrong:
            print("          FAILED to run: " + wrong.replace("\n", "\n          "))
            failed = True
            continue
        ran = True
        for name in result:
            error = worst(result[name], exact[name])
            allowed = 2 * worst(plain[name], exact[name]) + 1e-5
            good = error <= allowed  # false for NaN
            failed |= not good
            print(f"          {name:3} largest error {error:8.2e}, allowed {allowed:8.2e}  "
                  f"{'ok' if good else 'WRONG'}")
    if ran:
        print(f"\nrun on the {'GPU' if device == 'gpu' else 'simulator'}, compared with float64")
    elif why:
        print(f"\nnothing was run: {why}")
    print("FAILED" if failed else "all is well" if ran else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
