#!/usr/bin/env python3
"""order.py - a program sees its own stores and additions, and loads before them do not: in the simulator, on every
target, at -O0 and -O3, with each pass off, under several seeds, against NumPy.

    order.py --tilec T --tilerun R [--seeds N] [KERNEL..]

What one setting makes of a kernel is most often what another has made already: the same PTX runs once for a target and seed.
Numbers are small whole ones, so that results are exact.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attention  # noqa: E402
import ladder  # noqa: E402

SOURCE = """
fn put(Z, g, r, value) { store Z[g, r, :] = value; }
fn get(Z, g, r) { return load Z[g, r, :]; }

kernel shift_up(Z: inout f32[R, 64]) {
    grid g in 1;
    let r = iota(64);
    store Z[r, :] = load Z[r + 1, :] * 0.5;
}
kernel shift_down(Z: inout bf16[R, 48, 64]) {
    grid g in R;
    store Z[g, iota(48), :] = load Z[g, iota(48) - 1, :];
}
@warps(1) kernel one_warp(Z: inout f32[R, 64]) {
    grid g in 1;
    let r = iota(64);
    store Z[r, :] = load Z[r + 1, :] * 0.5;
}
@warps(8) kernel eight_warps(Z: inout f32[R, 64]) {
    grid g in 1;
    let r = iota(16);
    for i in 0..4 { store Z[r + i * 16, :] = load Z[r + i * 16 + 1, :] * 0.5; }
}
kernel read_back(X: in f32[64, 64], Z: inout f32[64, 64], O: out f32[64]) {
    grid g in 1;
    store Z[:, :] = load X[:, :] + 1.0;
    store O[:] = sum(load Z[:, :], axis=0);
}
kernel transposed(X: in f32[64, 32], Z: inout f32[64, 32], O: out f32[32, 64]) {
    grid g in 1;
    store Z[:, :] = load X[:, :];
    store O[:, :] = (load Z[:, :]).T;
}
kernel in_place(Z: inout f32[32, 32]) {
    grid g in 1;
    store Z[:, :] = (load Z[:, :]).T;
}
kernel neighbour(Z: inout bf16[32, 64]) {
    grid g in 1;
    let x = load Z[:, iota(32) + 1];
    store Z[:, iota(32)] = x;
    store Z[:, iota(32) + 31] = load Z[:, iota(32)] + load Z[:, iota(32) + 32];
}
kernel running(Z: inout f32[R, 64]) {
    grid g in 1;
    for i in 1..R { store Z[i, iota(64)] = load Z[i, iota(64)] + load Z[i - 1, iota(64) + 1]; }
}
kernel blocks(Z: inout f32[R, 16], O: out f32[R, 16]) {
    grid g in 1;
    for i in tiles(R, 16) {
        let before = load Z[i - 16, :];
        store Z[i, :] = (load Z[i, :] + before).T;
        store O[i, :] = load Z[i - 16, :];
    }
}
kernel scan(Z: inout i32[128]) {
    grid g in 1;
    var far = 1;
    for i in 0..7 {
        let n = iota(128);
        store Z[n] = load Z[n] + load Z[n - far];
        far = far * 2;
    }
}
kernel added(X: in f32[64, 64], Z: inout f32[64, 64], O: out f32[64]) {
    grid g in 1;
    atomic_add Z[:, :] += load X[:, :];
    store O[:] = sum(load Z[:, :], axis=0);
}
kernel added_before(X: in f32[64, 64], Z: inout f32[64, 64], O: out f32[64, 64], P: out f32[64, 64]) {
    grid g in 1;
    let before = load Z[:, :];
    store P[:, :] = load Z[:, :];
    atomic_add Z[:, :] += load X[:, :];
    store O[:, :] = before;
}
kernel added_in_loop(X: in f32[64, 64], Z: inout f32[64, 64], O: out f32[64]) {
    grid g in 1;
    var total = zeros<f32>[64];
    for i in 0..3 {
        atomic_add Z[:, :] += (load X[:, :]).T;
        total += max(load Z[:, :], axis=0);
    }
    store Z[:, :] = load Z[:, :] * 2.0;
    atomic_add Z[:, 3] += total;
    store O[:] = total;
}
kernel over(Z: inout f32[128, 32]) {
    grid g in 1;
    store Z[iota(64), :] = full<f32>[64, 32](1.0);
    store Z[iota(64) + 32, :] = full<f32>[64, 32](2.0);
    store Z[iota(16) + 40, iota(16)] = full<f32>[16, 16](3.0);
    store Z[41, 5] = 4.0;
    store Z[iota(128), 5] = load Z[iota(128), 4];
}
kernel over_in_loop(Z: inout f32[64]) {
    grid g in 1;
    for i in 0..6 { store Z[iota(32) + i * 5] = full<f32>[32](1.0) * (i as f32); }
}
kernel bounds(N: inout i32[4], Z: inout i32[64]) {
    grid g in 1;
    let n = load N[0];
    store N[0] = n + 2;
    for i in 0..(load N[0]) { store Z[iota(64)] = load Z[iota(64) + 1] + 1; }
    store N[1] = load N[0] * 10;
    store N[2] = sum(load N[iota(2)]);
}
kernel counter(N: inout i32[4], O: out i32[8, 32]) {
    grid g in 1;
    for i in 0..8 {
        let c = load N[0];
        store N[0] = c + 1;
        if c % 3 == 1 { store N[0] = c + 3; }
        store O[i, :] = full<i32>[32](0) + load N[0];
    }
}
kernel branch(Z: inout f32[64, 64], N: inout i32[4], O: out f32[64, 64]) {
    grid g in 1;
    for i in 0..4 {
        if load N[i] > 0 {
            store Z[:, :] = (load Z[:, :]).T + 1.0;
            store O[:, :] = (load Z[:, :]).T;
        } else {
            store O[:, :] = load Z[:, :] * 2.0;
        }
        store N[i] = max(load Z[:, :]) as i32;
    }
}
kernel functions(Z: inout f32[R, 16, 64], O: out f32[R, 16, 64]) {
    grid g in R;
    let r = iota(16);
    put(Z, g, r, get(Z, g, r) + 1.0);
    put(O, g, r, get(Z, g, r + 1));
}
kernel product(X: in bf16[64, 64] align(16), W: inout bf16[64, 64] align(16), O: out f32[64, 64]) {
    grid g in 1;
    store W[:, :] = load X[:, :] + load W[:, :];
    store O[:, :] = mma(load W[:, :], (load X[:, :]).T);
}
kernel powers(A: inout bf16[64, 64] align(16), B: in bf16[64, 64] align(16)) {
    grid g in 1;
    for i in 0..3 {
        let a = load A[:, :];
        store A[:, :] = mma(a, load B[:, :]) as bf16;
    }
}
kernel panels(X: in bf16[64, S] align(16), W: inout bf16[S, 64] align(16), O: out f32[64, 64]) {
    grid g in 1;
    var acc = zeros<f32>[64, 64];
    for k in tiles(S, 32) {
        store W[k, :] = (load X[:, k]).T + load W[k, :];
        acc = mma(load X[:, k], load W[k, :], acc);
    }
    store O[:, :] = acc;
}
kernel gemm_in_place(A: in bf16[M, K] align(16), B: in bf16[K, N] align(16), C: inout f32[M, N] align(16)) {
    grid m in tiles(M, 64), n in tiles(N, 64);
    var acc = zeros<f32>[64, 64];
    for k in tiles(K, 64) { acc = mma(load A[m, k], load B[k, n], acc); }
    store C[m, n] = load C[m, n] * 2.0 + acc;
}
kernel gemm_twice(A: in bf16[M, K] align(16), B: in bf16[K, N] align(16), C: inout f32[M, N] align(16)) {
    grid m in tiles(M, 64), n in tiles(N, 64);
    var acc = zeros<f32>[64, 64];
    for k in tiles(K, 64) { acc = mma(load A[m, k], load B[k, n], acc); }
    store C[m, n] = acc;
    store C[m, n] = load C[m, n] + (load C[m, n]).T;
}
kernel gemm_added(A: in bf16[M, K] align(16), B: in bf16[K, N] align(16), C: inout f32[M, N] align(16),
                  L: inout f32[M, 1]) {
    grid m in tiles(M, 64);
    var acc = load C[m, iota(64)];
    for k in tiles(K, 64) { acc = mma(load A[m, k], load B[k, iota(64)], acc); }
    store C[m, iota(64)] = acc;
    store L[m, 0] = load L[m, 0] + sum(acc, axis=1);
}
kernel gemm_rounds(A: in bf16[M, K] align(16), B: in bf16[K, N] align(16), C: inout bf16[M, N] align(16)) {
    grid m in tiles(M, 64);
    for n in tiles(N, 64) {
        var acc = zeros<f32>[64, 64];
        for k in tiles(K, 64) { acc = mma(load A[m, k], load B[k, n], acc); }
        store C[m, n] = (acc + (load C[m, n] as f32)) as bf16;
    }
}
kernel packed<A: int = 4, B: int = 8>(X: in f32[I, J, 32], Z: inout f32[I, J, 32], O: out f32[J, I, 32]) {
    grid i in tiles(I, A), j in tiles(J, B);
    let (a, b) = pack(i, j);
    store Z[a, b, :] = load X[a, b, :] + 1.0;
    let (d, c) = pack(j, i);
    store O[d, c, :] = load Z[c, d, :];
}
kernel rows(X: in f32[64, 64], Z: inout f32[64, 64], O: out f32[64]) {
    grid g in 1;
    let x = load X[:, :];
    store Z[:, :] = x * 2.0;
    var m = max(x, axis=1);
    @by_rows if any(m > 2.0) {
        let twice = max(load Z[:, :], axis=1);
        m = where(twice > 4.0, twice, m);
    }
    store Z[:, :] = x.T * 0.0;
    store O[:] = m;
}
kernel late(Z: inout f32[64, 64], X: in f32[64, 64], O: out f32[4, 64, 64]) {
    grid g in 1;
    for i in 0..4 {
        let a = load Z[:, :];
        for j in 0..2 { store Z[iota(32) + j * 32, :] = load X[iota(32) + j * 32, :] + (i as f32); }
        store O[i, :, :] = a;
    }
}
kernel sums(Z: inout f32[64, 48]) {
    grid g in 1;
    for i in 0..2 {
        let s = sum(load Z[:, :], axis=1);
        let t = sum(load Z[:, :], axis=0);
        store Z[:, :] = s[:, None] - t[None, :];
        store Z[:, i] = s;
    }
}
kernel inner(Z: inout f32[16, 64]) {
    grid g in 1;
    for i in 1..4 {
        for j in 0..4 {
            let c = iota(16) + j * 16;
            store Z[iota(4) + i * 4, c] = load Z[iota(4) + i * 4 - 4, c] + load Z[iota(4) + i * 4, c - 16];
        }
    }
}
"""


def draw(random, *shape, most=4):
    return random.integers(-most, most + 1, shape).astype(np.float64)


def shifted(x, by, axis=0):
    """x moved so that index i has what was at i + by; zeros outside."""
    return np.take(np.pad(x, [(abs(by), abs(by)) if a == axis else (0, 0) for a in range(x.ndim)]),
                   np.arange(x.shape[axis]) + abs(by) + by, axis=axis)


# name: what its tensors must hold in the end, by name, from what they held
KERNELS = {}


def kernel(**tensors):
    """tensors: name = (type, shape, ..) of what is given; `None` in front: not given."""
    def note(reference):
        KERNELS[reference.__name__] = (tensors, reference)
        return reference
    return note


def up(z):
    z[:64] = z[1:65] * 0.5
    return {"Z": z}


for name in ["shift_up", "one_warp", "eight_warps"]:
    KERNELS[name] = ({"Z": ("f32", 70, 64)}, up)


@kernel(Z=("bf16", 2, 48, 64))
def shift_down(z):
    return {"Z": shifted(z, -1, axis=1)}


@kernel(X=("f32", 64, 64), Z=("f32", 64, 64))
def read_back(x, z):
    return {"Z": x + 1, "O": (x + 1).sum(0)}


@kernel(X=("f32", 64, 32), Z=("f32", 64, 32))
def transposed(x, z):
    return {"Z": x, "O": x.T}


@kernel(Z=("f32", 32, 32))
def in_place(z):
    return {"Z": z.T}


@kernel(Z=("bf16", 32, 64))
def neighbour(z):
    z[:, :32] = z[:, 1:33].copy()
    z[:, 31:63] = z[:, :32] + z[:, 32:64]
    return {"Z": z}


@kernel(Z=("f32", 6, 64))
def running(z):
    for i in range(1, 6):
        z[i] += shifted(z[i - 1], 1)
    return {"Z": z}


@kernel(Z=("f32", 48, 16))
def blocks(z):
    out = np.zeros_like(z)
    for i in range(0, 48, 16):
        before = z[i - 16:i] if i else np.zeros((16, 16))
        z[i:i + 16] = (z[i:i + 16] + before).T
        out[i:i + 16] = before
    return {"Z": z, "O": out}


@kernel(Z=("i32", 128))
def scan(z):
    return {"Z": np.cumsum(z)}


@kernel(X=("f32", 64, 64), Z=("f32", 64, 64))
def added(x, z):
    return {"Z": x + z, "O": (x + z).sum(0)}


@kernel(X=("f32", 64, 64), Z=("f32", 64, 64))
def added_before(x, z):
    return {"Z": x + z, "O": z, "P": z}


@kernel(X=("f32", 64, 64), Z=("f32", 64, 64))
def added_in_loop(x, z):
    total = np.zeros(64)
    for _ in range(3):
        z = z + x.T
        total += z.max(0)
    z = z * 2
    z[:, 3] += total
    return {"Z": z, "O": total}


@kernel(Z=("f32", 128, 32))
def over(z):
    z[:64] = 1
    z[32:96] = 2
    z[40:56, :16] = 3
    z[41, 5] = 4
    z[:, 5] = z[:, 4]
    return {"Z": z}


@kernel(Z=("f32", 64))
def over_in_loop(z):
    for i in range(6):
        z[i * 5:i * 5 + 32] = i
    return {"Z": z}


@kernel(N=("i32", 4), Z=("i32", 64))
def bounds(n, z):
    n[0] += 2
    for _ in range(int(n[0])):
        z = shifted(z, 1) + 1
    n[1] = n[0] * 10
    n[2] = n[0] + n[1]
    return {"N": n, "Z": z}


@kernel(N=("i32", 4))
def counter(n):
    out = np.zeros((8, 32))
    for i in range(8):
        n[0] += 3 if np.fmod(n[0], 3) == 1 else 1
        out[i] = n[0]
    return {"N": n, "O": out}


@kernel(Z=("f32", 64, 64), N=("i32", 4))
def branch(z, n):
    for i in range(4):
        if n[i] > 0:
            z = z.T + 1
            out = z.T
        else:
            out = z * 2
        n[i] = z.max()
    return {"Z": z, "N": n, "O": out}


@kernel(Z=("f32", 2, 16, 64))
def functions(z):
    return {"Z": z + 1, "O": shifted(z + 1, 1, axis=1)}


@kernel(X=("bf16", 64, 64), W=("bf16", 64, 64))
def product(x, w):
    return {"W": x + w, "O": (x + w) @ x.T}


@kernel(A=("bf16", 64, 64), B=("bf16", 64, 64))
def powers(a, b):
    for _ in range(3):
        a = ladder.rounded(a @ b, "bf16")
    return {"A": a}


@kernel(X=("bf16", 64, 96), W=("bf16", 96, 64))
def panels(x, w):
    return {"W": w + x.T, "O": x @ (w + x.T)}


@kernel(A=("bf16", 128, 128), B=("bf16", 128, 64), C=("f32", 128, 64))
def gemm_in_place(a, b, c):
    return {"C": c * 2 + a @ b}


@kernel(A=("bf16", 128, 128), B=("bf16", 128, 64), C=("f32", 128, 64))
def gemm_twice(a, b, c):
    c = (a @ b).reshape(2, 64, 64)
    return {"C": (c + c.transpose(0, 2, 1)).reshape(128, 64)}


@kernel(A=("bf16", 200, 128), B=("bf16", 128, 64), C=("f32", 200, 64), L=("f32", 200, 1))
def gemm_added(a, b, c, l):
    c += a @ b
    return {"C": c, "L": l + c.sum(1, keepdims=True)}


@kernel(A=("bf16", 192, 64), B=("bf16", 64, 192), C=("bf16", 192, 192))
def gemm_rounds(a, b, c):
    return {"C": a @ b + c}


@kernel(X=("f32", 6, 11, 32), Z=("f32", 6, 11, 32))
def packed(x, z):
    return {"Z": x + 1, "O": (x + 1).transpose(1, 0, 2)}


@kernel(X=("f32", 64, 64), Z=("f32", 64, 64))
def rows(x, z):
    most = x.max(1)
    return {"Z": z * 0, "O": np.where(most > 2, 2 * most, most)}


@kernel(Z=("f32", 64, 64), X=("f32", 64, 64))
def late(z, x):
    return {"Z": x + 3, "O": np.stack([z, x, x + 1, x + 2])}


@kernel(Z=("f32", 64, 48))
def sums(z):
    for i in range(2):
        s, t = z.sum(1), z.sum(0)
        z = s[:, None] - t
        z[:, i] = s
    return {"Z": z}


@kernel(Z=("f32", 16, 64))
def inner(z):
    for i in range(4, 16, 4):
        for j in range(0, 64, 16):
            left = z[i:i + 4, j - 16:j] if j else 0
            z[i:i + 4, j:j + 16] = z[i - 4:i, j:j + 16] + left
    return {"Z": z}


def stored(x, dtype):
    return x.astype(np.int32) if dtype == "i32" else ladder.to_bits(x, dtype)


def types_of(name):
    """The types of a kernel's tensors, from its text."""
    text = re.search(r"kernel %s\b.*?\((.*?)\) \{" % name, SOURCE, re.S)[1]
    return dict(re.findall(r"(\w+): (?:in|out|inout) (\w+)\[", text))


def run(options, ptx, name, seed, folder):
    path = lambda stem: os.path.join(folder, stem)
    tensors, reference = KERNELS[name]
    random, types, given = np.random.default_rng(sum(name.encode())), types_of(name), []
    command = [options.tilerun, ptx, "--entry", name, "--device", "sim", "--seed", str(seed)]
    for tensor, (dtype, *shape) in tensors.items():
        most = 1 if name in ("powers", "panels", "gemm_rounds") else 4
        given.append(draw(random, *shape, most=most))
        np.save(path(tensor + ".npy"), stored(given[-1], dtype))
        command += ["--in", f"{tensor}={path(tensor + '.npy')}"]
    wanted = reference(*[x.copy() for x in given])
    for tensor in wanted:
        command += ["--out", f"{tensor}={path(tensor + '-out.npy')}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or "were not written" in done.stderr + done.stdout:
        raise attention.Wrong(done.stderr + done.stdout)
    for tensor, want in wanted.items():
        have = np.load(path(tensor + "-out.npy"))
        have = have if types[tensor] == "i32" else ladder.from_bits(have, types[tensor])
        if not np.array_equal(have, want):
            raise attention.Wrong(f"{tensor}: {(have != want).sum()} elements are wrong")


def kernels_of(ptx):
    """{name: a file of PTX that has this kernel alone}: a run then reads no others."""
    with open(ptx, encoding="utf-8") as file:
        facts, code = re.split(r"^(?=\.version )", file.read(), flags=re.M)
    first, *facts = re.split(r"^(?=// kernel )", facts, flags=re.M)
    shared = "".join(re.findall(r"^\.extern .*\n", code, re.M))
    head, *codes = re.split(r"^(?=\.visible \.entry )", re.sub(r"^\.extern .*\n", "", code, flags=re.M), flags=re.M)
    assert len(facts) == len(codes)
    names = [re.match(r"// kernel (\w+)", fact)[1] for fact in facts]
    return {name: first + fact + head + "".join(re.findall(rf".*\b{name}_shared\b.*\n", shared)) + code
            for name, fact, code in zip(names, facts, codes)}


def settings(tilec):
    """(target, options, how many seeds count)"""
    listed = subprocess.run([tilec, "--list-passes"], capture_output=True, text=True, check=True).stdout
    passes = [line.split()[0] for line in listed.split("\n") if line and "always" not in line]
    for arch in ["sm_80", "sm_90", "sm_100"]:
        yield arch, [], True
        yield arch, ["-O0"], True
        yield arch, ["--warps=8", "--stages=3"], False
    yield "sm_90", ["--plan=none"], False
    for plan in ["consumers=1", "consumers=2,pipelined=1", "consumers=3,persistent=0"]:
        yield "sm_90", ["--plan=" + plan], False
    for off in passes:
        yield "sm_90", ["-fno-" + off], False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    options = parser.parse_args()
    bad, n, done = 0, 0, set()
    with tempfile.TemporaryDirectory() as folder:
        source, ptx = os.path.join(folder, "order.tile"), os.path.join(folder, "order.ptx")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        for arch, flags, seeds in settings(options.tilec):
            attention.call([options.tilec, source, "-arch", arch, "--verify", *flags, "-o", ptx])
            texts = kernels_of(ptx)
            for name in options.kernels or KERNELS:
                text = texts[name]
                with open(ptx, "w", encoding="utf-8") as file:
                    file.write(text)
                for seed in range(options.seeds if seeds else 1):
                    if (text, seed) in done:
                        continue
                    done.add((text, seed))
                    n += 1
                    try:
                        run(options, ptx, name, seed, folder)
                    except attention.Wrong as wrong:
                        bad += 1
                        print(f"{name} {arch} {' '.join(flags)} seed {seed}: {str(wrong)[:600]}")
                        break
    print(f"{n} runs, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
