#!/usr/bin/env python3
"""chains.py - a value that is read twice, over and over: twice the length is twice the work, for each target.

    chains.py TILEC_COUNTED

Each kind is a program with a chain of N statements (`p = p * p + p;`, N times over).  Whatever follows operands
without noting where it has been takes 2^N steps.  The work is counted in basic blocks (count_blocks.c): a chain of 24
may take at most three times what one of 12 takes, and each compilation ends within a minute.
"""
import os
import re
import subprocess
import sys
import tempfile

TARGETS = ["sm_80", "sm_90", "sm_100"]
LENGTH = 12

HEAD = """kernel k<T: type = bf16>(Q: in T[S, 64] align(16), K: in T[R, 64] align(16), Y: inout f32[S, 64] align(16),
                         Z: out f32[R, 64] align(16), F: in i32[R], G: in f32[R], scale: f32, num: i32)
{
    grid n in tiles(R, 64), h in 4;
"""


def chain(before="", body="", loop="tiles(S, 64)", q="load Q[m, :]", after="", behind="", k="load K[n, :]"):
    """Two products, one behind the other, with what stands before the loop, between them, and so on."""
    return f"""{HEAD}
    let k = {k};
    var acc = zeros<f32>[64, 64];
    {before}
    for m in {loop} {{
        let q = {q};
        var p = mma(k, q.T) * 0.01;
        {body}
        acc = mma(p as T, q, acc);
        {after}
    }}
    {behind}
    store Z[n, :] = acc;
}}
"""


def kinds(n):
    """(name, program) for chains of n statements."""
    between = {
        "sum": "p = p * p + p;", "where": "p = where(p > 0.0, p + p, p);", "max": "p = max(p, p * 0.5);",
        "cast": "p = (p as T) as f32 + p;", "transpose": "p = (p.T).T + p;",
        "branch": "if num > h { p = p + p; } else { p = p * 0.5; }", "loop": "for i in 0..num { p = p * p + p; }",
    }
    for name, step in between.items():
        yield f"between products: {name}", chain(body=step * n)
    yield "an addition to memory", chain(body="p = p * p + p;" * n, after="atomic_add Y[m, :] += mma((p as T).T, k);")
    rows = "p = exp2(p - v[:, None]);"
    yield "a row's maximum", chain(body="var v = max(p, axis = 1);" + "v = max(v, v * 0.5);" * n + rows)
    yield "a row in branches", chain(
        body="var v = max(p, axis = 1);" + "if num > h { v = v + v; } else { v = v * 0.5; }" * n + rows)
    yield "a row carried over", chain(before="var v = zeros<f32>[64];",
                                      body="v = max(v, max(p, axis = 1));" + "v = v * v + v;" * n + rows)
    yield "a vector", chain(body="var v = load G[n];" + "v = v * v + v;" * n + "p = p * v[:, None];")
    yield "an operand", chain(before="var kk = k;" + "kk = kk * kk + kk;" * n, body="p = p + mma(kk, q.T);")
    yield "the accumulator", chain(after="acc = acc * 0.5 + acc;" * n)
    yield "behind the loop", chain(behind="acc = acc * acc + acc;" * n)
    number = "a = min(a + a, 1000);" * n
    yield "a bound, loaded", chain(before="var a = load F[h];" + number, loop="tiles(0..a, 64)")
    yield "a bound, chosen", chain(before="var a = load F[h];" + number, loop="tiles(0..where(a < R, 100, 0), 64)")
    yield "a bound, of the grid", chain(before="var a = h;" + number, loop="tiles(0..a, 64)")
    yield "a beginning", chain(before="var a = h + 2;" + "a = a + a - h;" * n, loop="tiles(a..S, 64)")
    yield "a bound, in branches", chain(
        before="var a = h;" + "if num > a { a = a + a; } else { a = a - 1; }" * n, loop="tiles(0..a, 64)")
    yield "a bound, in loops", chain(before="var a = h;" + "for i in 0..a { a = max(a, i + a); }" * n,
                                     loop="tiles(0..a, 64)")
    yield "a place", chain(before="var a = load F[h];" + "a = max(a, a + a);" * n, q="load Q[m + a, :]")
    yield "a place, by products", chain(before="var a = h;" + "a = a * a;" * n, q="load Q[m + a, :]")
    mask = "p = mask(p, c); p = exp2(p);"
    yield "a mask", chain(body="var c = m[None, :] <= n[:, None];" + "c = (c || c) && c;" * n + mask)
    yield "a mask's bound", chain(body="var z = h;" + "z = z + z;" * n + "let c = n[:, None] + z >= m[None, :];" + mask)
    yield "a mask's columns", chain(body="var j = iota(64) + h;" + "j = j * j + j;" * n +
                                    "let c = n[:, None] >= j[None, :];" + mask)
    yield "a condition", chain(before="var c = h > num;" + "c = (c && c) || (c && h > 2);" * n,
                               body="if c { p = p * 2.0; }")


def blocks(counted, path, arch):
    """What a compilation takes; None: it failed or did not end."""
    command = [counted, path, "-arch", arch, "-Wno-plan", "-o", os.devnull]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    said = re.search(r"^blocks (\d+)$", done.stderr, re.M)
    return int(said[1]) if done.returncode == 0 and said else None


def main():
    counted, bad, n = sys.argv[1], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "chain.tile")
        for (name, short), (_, long) in zip(kinds(LENGTH), kinds(2 * LENGTH)):
            for arch in TARGETS:
                work = []
                for text in [short, long]:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                    work.append(blocks(counted, path, arch))
                n += 1
                if None in work or work[1] > 3 * work[0]:
                    bad += 1
                    print(f"{name}, {arch}: {work[0]} blocks, twice as long {work[1]}")
    print(f"{n - bad} of {n} chains take work in proportion")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
