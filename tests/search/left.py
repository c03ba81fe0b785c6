#!/usr/bin/env python3
"""left.py --tilec T

What `auto` does not try because it can not win (compiler/choose/auto_tiles.c) changes nothing: with remarks everything is
tried, and the code is the same. Kernels with masks, loads that are used twice, dead loads, few columns, sums to memory, sizes that
are no multiples of tiles; a product.
"""
import argparse
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNELS = {
    "rows": """kernel causal<M: int = auto, N: int = auto>(X: in bf16[R, C] align(16), Y: out f32[R])
{
    grid m in tiles(R, M);

    var most = full<f32>[M](-inf);
    for n in tiles(C, N) {
        let x = mask(load X[m, n] as f32, n[None, :] <= m[:, None]);
        let again = load X[m, n] as f32;
        most = max(most, max(x + 0.0 * again * again, axis = 1));
    }
    store Y[m] = most;
}
""",
    "narrow": """kernel narrow<M: int = auto, N: int = auto>(X: in f32[R, 24], Y: out f32[R, 24])
{
    grid m in tiles(R, M), n in tiles(24, N);

    let dead = load X[m, n];
    store Y[m, n] = exp(load X[m, n]);
}
""",
    "columns": """kernel columns<M: int = auto, N: int = auto>(X: in f16[R, C] align(16), Y: inout f32[C])
{
    grid n in tiles(C, N), m in tiles(R, M);

    atomic_add Y[n] += sum(load X[m, n] as f32, axis = 0);
}
""",
    "three": """kernel three<M: int = auto, N: int = auto, K: int = auto>(X: in f32[R, C], Y: out f16[R, C])
{
    grid m in tiles(R, M);

    var most = full<f32>[M](-inf);
    for n in tiles(C, N) {
        most = max(most, max(load X[m, n], axis = 1));
    }
    for k in tiles(C, K) {
        store Y[m, k] = exp(load X[m, k] - most[:, None]) as f16;
    }
}
""",
    "thousand": """kernel thousand<M: int = auto, N: int = auto>(X: in f16[R, 1000], Y: out f16[1000, R])
{
    grid m in tiles(R, M), n in tiles(1000, N);

    store Y[n, m] = (load X[m, n]).T;
}
""",
    "product": """kernel product<M: int = auto, N: int = auto>(A: in bf16[R, K] align(16), B: in bf16[K, C] align(16),
                                             Y: out f32[R, C])
{
    grid m in tiles(R, M), n in tiles(C, N);

    var acc = zeros<f32>[M, N];
    for k in tiles(K, 32) {
        acc = mma(load A[m, k], load B[k, n], acc);
        acc = mma(exp(load A[m, k] as f32) as bf16, load B[k, n], acc);
    }
    store Y[m, n] = acc;
}
""",
}
EXAMPLES = ["add", "row_softmax", "attention_merge", "gemm", "attention"]


def code(tilec, path, arch, *more):
    done = subprocess.run([tilec, path, "-arch", arch, "-o", "-", *more], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    tilec, bad = parser.parse_args().tilec, 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(ROOT, "examples", name + ".tile") for name in EXAMPLES]
        for name, text in KERNELS.items():
            paths.append(os.path.join(folder, name + ".tile"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(text)
        for path in paths:
            for arch in ["sm_80", "sm_86", "sm_100"]:
                quick, whole = code(tilec, path, arch), code(tilec, path, arch, "--remarks")
                if quick is None or quick != whole:
                    bad += 1
                    print(f"{os.path.basename(path)} {arch}:", "no code" if quick is None else "another choice")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
