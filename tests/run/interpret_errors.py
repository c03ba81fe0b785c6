#!/usr/bin/env python3
"""interpret_errors.py - what the reference interpreter reports.

    interpret_errors.py --tilec T

A kernel of SOURCE each; all of these texts are in lines of standard error, and without any there is
nothing in it.
"""
import argparse
import os
import subprocess
import sys
import tempfile

SOURCE = """
kernel subscript(X: inout f32[N], k: i32) {
    grid i in 1;
    store X[k] = load X[k] + 1.0;
}

kernel overflow(X: inout i32[N], k: i32) {
    grid i in 3;
    store X[i] = k + 32 + i * 8 + 16;
}

fn square(x) {
    return x * x;
}

kernel product(X: inout i32[N], k: i32) {
    grid i in 1;
    store X[i] = square(k);
}

kernel negated(X: inout i32[N], k: i32) {
    grid i in 1;
    store X[i] = -k;
}

kernel total(X: inout i32[N], k: i32) {
    grid i in 1;
    store X[i] = sum(full<i32>[2](k));
}

kernel division(X: inout i32[N], k: i32) {
    grid i in 1;
    store X[i] = 7 / k;
}

kernel scales(X: inout i32[N], k: i32) {
    grid i in 1;
    let (a, s) = (full<f32>[16, 16](1.0) as e2m1, full<f32>[16, 1](k as f32) as e4m3);
    store X[i] = sum(mma(a, a, scale_a = s)) as i32;
}

kernel remainder(X: inout i32[N], k: i32) {
    grid i in 1;
    store X[i] = 7 % k;
}

kernel shift(X: inout i32[N], k: i32) {
    grid i in 1;
    store X[i] = 1 << k;
}

kernel numbered(X: inout i32[N], k: i32) {
    grid i in 1;
    store X[tiles(N, 4)[k]] = 1;
}

kernel cast(X: inout i32[N], f: f32) {
    grid i in 1;
    store X[i] = f as i32;
}

kernel no_number(X: inout f32[N]) {
    grid n in tiles(N, 4);
    let low = load X[n] - inf;
    store X[n] = low - low;
}

kernel two_stores(X: inout f32[N]) {
    grid i in N;
    store X[0] = i as f32;
}

kernel places(X: inout f32[N], k: i32) {
    grid n in tiles(N, 4);
    store X[n[:] / k] = 1.0;
}

kernel equal_places(X: inout f32[N], k: i32) {
    grid n in tiles(N, 4);
    store X[where(n[:] % 4 == 1, -1, N + k)] = 1.0;         // outside
    store X[where(n[:] < N, n[:], 3)] = 1.0;                // padding
    atomic_add X[n[:] / k] += 1.0;
}

kernel element_places(X: inout f32[3, N]) {
    grid n in 1;
    store X[2, iota(4)[:, None] + iota(2)[None, :]] = 1.0;
}

kernel load_and_store(X: inout f32[N]) {
    grid i in N - 1;
    store X[i] = load X[i + 1];
}

kernel add_and_load(X: inout f32[N]) {
    grid i in N;
    if i < 2 { atomic_add X[0] += 1.0; } else { store X[i] = load X[0]; }
}

kernel adds(X: inout i32[N]) {
    grid i in N;
    atomic_add X[0] += i;
}

kernel raises(X: inout f32[N]) {
    grid i in N;
    atomic_max X[0] = i as f32;
}

kernel raises_and_adds(X: inout i32[N]) {
    grid i in N;
    if i < 3 { atomic_max X[0] = i; } else { atomic_add X[0] += 1; }
}

kernel raises_and_lowers(X: inout i32[N]) {
    grid i in N;
    if i == 2 { atomic_max X[0] = i; } else { atomic_min X[0] = i; }
}

kernel fine(X: inout f32[N]) {
    grid n in tiles(N, 2);
    store X[n] = load X[n] + 1.0;
    store X[n] = load X[n] + 1.0;
    atomic_add X[n] += 1.0;
    assert(load X[n] == 3.0, "a program sees its own stores and additions");
    atomic_min X[n] = 2.0;
    assert(load X[n] == 2.0, "and what it raises and lowers");
}

kernel steps(X: inout f32[4], n: i32) {
    grid i in 1;
    for k in 0..n { }
    for k in tiles(n, 64) { }
}

kernel bounded(X: inout i32[N], k: i32, j: i32) {
    grid i in 1;
    var c = 0;
    for n in tiles(k..j, 64) { c += 1; }
    store X[i] = c;
}

kernel bounded_steps(X: inout i32[N], k: i32, j: i32) {
    grid i in 1;
    var c = 0;
    for n in range(k, j, 2) { c += 1; }
    store X[i] = c;
}

kernel far_range(X: inout i32[N], k: i32) {
    grid i in 1;
    store X[tiles(5..9, 64)[k]] = full<i32>[64](1);
}

kernel required(X: inout f32[N]) {
    require N % 2 == 1, "odd";
    grid n in tiles(N, 2);
}

kernel required_behind(X: inout f32[N]) {
    grid n in tiles(N, 2);
    let M = N / 2;
    require M > 3;
}

kernel asserted(X: inout f32[N]) {
    grid n in tiles(N, 4);
    assert(n >= 0 && true);
    assert(n < 4, "small indices");
}

kernel reads(A: in f32[N]) {
    grid i in 1;
}
"""

CASES = [
    ("steps --set n=3000000", []),
    ("bounded --set N=5 --set k=-5 --set j=2147483640", ["error: 2147483640 - -5, and a step of 64 more, does not fit in i32"]),
    ("bounded --set N=5 --set k=100 --set j=-2147483648", ["error: -2147483648 - 100, and a step of 64 more, does not fit in i32"]),
    ("bounded --set N=5 --set k=2147483500 --set j=2147483600", ["error: the indices of a range of 64 at 2147483600 do not fit in i32"]),
    ("bounded --set N=5 --set k=2147483500 --set j=2147483584", []),
    ("bounded --set N=5 --set k=90 --set j=-2147483494", []),
    ("bounded --set N=5 --set k=90 --set j=-2147483495", ["error: -2147483495 - 90, and a step of 64 more, does not fit in i32"]),
    ("bounded_steps --set N=5 --set k=2147483500 --set j=2147483647", []),
    ("bounded_steps --set N=5 --set k=100 --set j=-2147483648", ["error: -2147483648 - 100, and a step of 2 more"]),
    ("far_range --set N=5 --set k=33554430", []),
    ("far_range --set N=5 --set k=33554431", ["error: the indices of range 33554431 do not fit in i32"]),
    ("fine --set N=2000000000", ["error: X is too large for the interpreter: at most 134217728 elements"]),
    ("subscript --set N=5 --set k=5",
     ["error: index 5 is outside of the dimension, which has 5 elements: a scalar subscript must lie in it",
      "tilec: note: in subscript, program i = 0"]),
    ("subscript --set N=5 --set k=-1",
     ["error: index -1 is outside of the dimension, which has 5 elements: a scalar subscript must lie in it"]),
    ("subscript --set N=5 --set k=4", []),
    ("overflow --set N=5 --set k=2147483600", ["error: + of 2147483632 and 16 does not fit in i32"]),
    ("product --set N=5 --set k=65536",
     ["error: * of 65536 and 65536 does not fit in i32",
      "note: in this call of 'square'"]),
    ("negated --set N=5 --set k=-2147483648", ["error: - of -2147483648 does not fit in i32"]),
    ("total --set N=5 --set k=2147483647", ["error: this sum is 4294967294, which does not fit in i32"]),
    ("division --set N=5 --set k=0", ["error: /: 7 is divided by zero"]),
    ("remainder --set N=5 --set k=0", ["error: %: 7 is divided by zero"]),
    ("scales --set N=5 --set k=-2", ["error: a scale of -2: scales have no sign"]),
    ("scales --set N=5 --set k=2", []),
    ("shift --set N=5 --set k=32", ["error: <<: 1 is shifted by 32; 0 to 31 is possible"]),
    ("shift --set N=5 --set k=31", ["error: << of 1 and 31 does not fit in i32"]),
    ("numbered --set N=5 --set k=-1", ["error: the number of a range is -1: the first one has 0"]),
    ("numbered --set N=5 --set k=7", []),
    ("cast --set N=5 --set f=3e9", ["error: 3e+09 does not fit in i32"]),
    ("cast --set N=5 --set f=nan", ["error: nan does not fit in i32"]),
    ("no_number --set N=5 --nan=error", ["error: - makes a NaN of operands that are none"]),
    ("no_number --set N=5", ["warning: - makes a NaN of operands that are none"]),
    ("no_number --set N=5 --nan=ignore", []),
    ("two_stores --set N=5",
     ["error: X[0] is stored to here, and another program stores to it: the result depends on which comes first"]),
    ("places --set N=5 --set k=1", []),
    ("places --set N=5 --set k=3",
     ["error: X[0] is stored to twice here: the places of a store must differ (those of an atomic statement need not)"]),
    ("places --set N=8 --set k=4",
     ["error: X[0] is stored to twice here: the places of a store must differ (those of an atomic statement need not)",
      "tilec: note: in places, program n = 0"]),
    ("equal_places --set N=5 --set k=3",
     ["error: X[1] is added to here, and another program stores to it: the result depends on which comes first"]),
    ("equal_places --set N=4 --set k=3", []),
    ("element_places --set N=5",
     ["error: X[2, 1] is stored to twice here: the places of a store must differ (those of an atomic statement need not)"]),
    ("load_and_store --set N=5",
     ["error: X[1] is stored to here, and another program loads it: the result depends on which comes first"]),
    ("load_and_store --set N=5 --seed 3", ["it: the result depends on which comes first"]),
    ("add_and_load --set N=5",
     ["error: X[0] is loaded here, and another program adds to it: the result depends on which comes first"]),
    ("adds --set N=5", []),
    ("raises --set N=5", []),
    ("raises_and_adds --set N=5",
     ["error: X[0] is added to here, and another program raises it: the result depends on which comes first"]),
    ("raises_and_lowers --set N=5",
     ["error: X[0] is raised here, and another program lowers it: the result depends on which comes first"]),
    ("fine --set N=5 --seed 7", []),
    ("required --set N=4", ["error: the requirement `N % 2 == 1` does not hold: odd"]),
    ("required_behind --set N=0", ["error: the requirement `M > 3` does not hold"]),
    ("asserted --set N=5",
     ["error: the assertion `n < 4` does not hold at element [0]: small indices",
      "tilec: note: in asserted, program n = 1"]),
    ("fine", ["error: the size of X is not known: give an array with --in, or the size with --set NAME=N"]),
    ("fine --set N=5 --set Q=1", ["tilec: error: --set Q: there is no such size or scalar; the file has "]),
    ("fine --set N=x", ["tilec: error: --set N=x: a size is a whole number from 0 to 2147483647"]),
    ("shift --set N=5", ["error: k has no value: give it with --set k=VALUE"]),
    ("shift --set N=5 --set k=1.5", ["tilec: error: --set k=1.5: expected an integer of 32 bits"]),
    ("reads --set N=5", ["error: A is read: give it with --in A=FILE.npy"]),
    ("fine --set N=5 --out Q=q.npy", ["tilec: error: --out Q: there is no such tensor; the file has "]),
    ("fine --set N=5 -o x.ptx", ["tilec: error: a run compiles nothing: "]),
    ("none", ["tilec: error: there is no kernel 'none' in this file"]),
    ("fine --set N=5 --seed x", ["tilec: error: --seed x: expected a number"]),
    ("fine --set N=5 --nan=maybe", ["tilec: error: --nan=maybe: expected note, error or ignore"]),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "errors.tile")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        for flags, texts in CASES:
            command = [options.tilec, "run", path, "-Wno-unused", "--kernel", *flags.split()]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = done.stderr.split("\n")
            status = any("error:" in line for line in lines)
            missing = [t for t in texts if not any(t in line for line in lines)]
            if missing or done.returncode != status or (not texts and done.stderr):
                failed += 1
                print(f"{flags}: exit status {done.returncode}, missing {missing}\n{done.stderr}")
    print(f"{len(CASES)} cases, {failed} wrong")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
