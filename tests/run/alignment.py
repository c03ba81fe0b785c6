#!/usr/bin/env python3
"""alignment.py - rows of tensors of which nothing is promised: by 16 bytes where they begin so, else by elements.

    alignment.py --tilec T --tilerun R

examples/add.tile and row_softmax.tile, in the simulator, against NumPy: rows that begin at multiples of 16, 8, 4 and 2 bytes, longer and
shorter than a tile.  The PTX has both ways.  And matrices, the second one of which begins elsewhere: rows that are a multiple of 16
bytes apart, and yet begin at one element behind such a multiple.  And tiles that begin where only the launch says: the right half
of each row, and so many elements in front of a tile and behind it.  And large tiles, and several small ones, which have programs of their own for
launches whose rows all begin and end at multiples of 16 bytes, or of 4.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")

MOVED = """
kernel moved<T: type = f32>(X: in T[B, R, K], Y: out T[B, R, K], Z: out T[B, R, K])
{
    grid b in B, m in tiles(R, 16), n in tiles(K, 256);
    store Y[b, m, n] = load X[b, m, n];
    store Z[b, m, n] = load X[b, m, n + 1];
}
"""

SHIFTED = """
kernel shifted<T: type = f32>(X: in T[R, 2 * C], right: out T[R, C], front: out T[R, C], behind: out T[R, C], S: i32)
{
    grid m in tiles(R, 4), n in tiles(C, 256);
    store right[m, n] = load X[m, n + C];
    store front[m, n] = load X[m, n - S];
    store behind[m, n + S] = load X[m, n];
}
"""

# of 2 * 4100 elements the right half begins at a multiple of 8 bytes only, and ends at one of 16
RIGHT = """
kernel right(X: in f16[R, 2 * C], Y: out f32[R])
{
    grid r in R;
    var s = 0.0;
    for n in tiles(C, 8192) { s += sum(load X[r, n + C] as f32, axis = 0); }
    store Y[r] = s;
}
"""

# C is a multiple of so many: the launcher has checked it
CHECKED = """
kernel checked(X: in f32[R, C] align(16), Y: out f32[R, C] align(16))
{
    require C % 1024 == 0;
    grid k in tiles(C, 512), r in R;
    store Y[r, k] = load X[r, k] + 1.0;
}
"""


def softmax(x):
    e = np.exp(x - x.max(1)[:, None])
    return e / e.sum(1)[:, None]


def moved(options, at):
    """What is wrong with matrices whose rows begin elsewhere."""
    bad = []
    with open(at("moved.tile"), "w") as file:
        file.write(MOVED)
    for dtype, row in (("f32", 304), ("f16", 304), ("u8", 304), ("u8", 301)):
        subprocess.run([options.tilec, at("moved.tile"), "-arch", "sm_90", "-D", f"T={dtype}", "-o", at("k.ptx")], check=True)
        x = np.arange(3 * 17 * 301).reshape(3, 17, 301).astype({"f32": np.float32, "f16": np.int16, "u8": np.uint8}[dtype])
        np.save(at("X.npy"), x.view(np.float16) if dtype == "f16" else x)
        for given in ("X", "Y", "XY"):
            words = [word for name in given for word in ("--strides", f"{name}={17 * row + 1},{row}")]
            words += [word for name in "YZ" for word in ("--out", f"{name}={at(name + '.npy')}")]
            subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), "--in", f"X={at('X.npy')}", *words], check=True,
                           stdout=subprocess.DEVNULL)
            behind = np.concatenate([x[:, :, 1:], np.zeros_like(x[:, :, :1])], 2)
            if any(np.load(at(name + ".npy")).tobytes() != want.tobytes() for name, want in (("Y", x), ("Z", behind))):
                bad.append(f"{dtype}, {given} with strides of {17 * row + 1} and {row}")
    return bad


def shifted(options, at):
    """What is wrong with tiles whose first column follows from a size or a scalar."""
    bad = []
    with open(at("shifted.tile"), "w") as file:
        file.write(SHIFTED)
    for dtype, wanted in (("f32", 32), ("f16", 16)):  # of rows that all begin and end between vectors; of whole tiles; of others
        subprocess.run([options.tilec, at("shifted.tile"), "-arch", "sm_90", "-D", f"T={dtype}", "-o", at("k.ptx")], check=True)
        with open(at("k.ptx")) as file:
            vectors = len(re.findall(r"(?:ld|st)\.global\.v4", file.read()))
        if vectors != wanted:
            bad.append(f"{dtype}: {vectors} accesses of 16 bytes")
        for columns, by in ((512, 0), (264, 8), (260, 300), (258, 2), (257, 3), (7, 1)):
            x = np.arange(1, 1 + 5 * 2 * columns, dtype=np.float32 if dtype == "f32" else np.int16).reshape(5, -1)
            np.save(at("X.npy"), x.view(np.float16) if dtype == "f16" else x)
            words = [word for name in ("right", "front", "behind") for word in ("--out", f"{name}={at(name + '.npy')}")]
            subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), "--in", f"X={at('X.npy')}", "--set", f"S={by}", *words],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # not all of `behind` is written
            want = {"right": x[:, columns:], "front": np.pad(x, ((0, 0), (by, 0)))[:, :columns]}
            bad += [f"{name} of {columns} columns of {dtype}, {by} off" for name in want
                    if np.load(at(name + ".npy")).tobytes() != want[name].tobytes()]
            behind = np.load(at("behind.npy"))[:, by:]
            if behind.tobytes() != x[:, :behind.shape[1]].tobytes():
                bad.append(f"behind of {columns} columns of {dtype}, {by} off")
    return bad


def halves(options, at):
    """What is wrong with rows of 16 bits that begin at multiples of 4 bytes, whole tiles of which go by words, and of 2."""
    bad = []
    subprocess.run([options.tilec, os.path.join(EXAMPLES, "add.tile"), "-arch", "sm_90", "-D", "T=f16", "-o", at("k.ptx")], check=True)
    with open(at("k.ptx")) as file:
        text = file.read()
    for access in ("ld.global.v4.b32", "ld.global.b32", "ld.global.u16", "st.global.v4.b32", "st.global.b32", "st.global.u16"):
        if access not in text:
            bad.append(f"add of f16 has no {access}")
    if "st.global.v4" not in text[:text.index("global.b32")]:
        bad.append("add of f16 has words among the vectors of even rows")
    words = re.findall(r"global\.b32 [^;]*\+(\d+)\]", text[:text.index("global.u16")])
    if not words or any(int(offset) % 128 for offset in words):  # a warp's words of a row lie side by side
        bad.append(f"add of f16 has words at {words}")
    for access in ("ld", "st"):  # tiles that are not whole, of rows that begin and end between words
        if not re.search(rf"@%p\d+ {access}\.global\.b32", text):
            bad.append(f"add of f16 has no {access}.global.b32 with a guard")
        guarded, all_of = (len(re.findall(rf"{guard}{access}\.global\.v4", text)) for guard in (r"@%p\d+ ", ""))
        if guarded != 2 * (all_of - guarded):  # of rows that all begin and end between vectors; of whole tiles; of others
            bad.append(f"add of f16 has {all_of} {access}.global.v4, {guarded} of them with a guard")
    for rows, columns in ((33, 520), (33, 522), (17, 519), (16, 258), (3, 2), (5, 1026)):
        x, y = (np.random.default_rng(n).integers(-99, 99, (rows, columns)).astype(np.float16) for n in (1, 2))
        np.save(at("X.npy"), x)
        np.save(at("Y.npy"), y)
        subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), "--in", f"X={at('X.npy')}", "--in", f"Y={at('Y.npy')}",
                        "--set", "a=2", "--out", f"Z={at('Z.npy')}"], check=True, stdout=subprocess.DEVNULL)
        if not np.array_equal(np.load(at("Z.npy")), 2 * x + y):
            bad.append(f"add of f16 {rows} x {columns}")
    return bad


def even(options, at):
    """What is wrong with large tiles, of which rows that begin and end at multiples of 16 bytes, and of 4, have programs of their own."""
    bad = []
    subprocess.run([options.tilec, os.path.join(EXAMPLES, "row_softmax.tile"), "-arch", "sm_90", "-D", "T=f16", "-D", "M=1", "-D", "N=8192",
                    "-o", at("k.ptx")], check=True)
    with open(at("k.ptx")) as file:
        kinds = re.findall(r"(?:ld|st)\.global\.(?:v4|b32|u16)", file.read())
    if "ld.global.b32" in kinds[:kinds.index("st.global.v4")] or "ld.global.u16" in kinds[:kinds.index("st.global.b32")]:
        bad.append("row_softmax of f16 has no program of vectors, or of words, in front of the one for all rows")
    for columns, pitch, front in ((8192, 8192, 0), (4104, 4104, 0), (4098, 4098, 0), (4098, 4104, 0), (4097, 4097, 0), (9000, 9000, 1), (9000, 9001, 0),
                                  (7, 7, 0)):
        x = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float16)
        np.save(at("X.npy"), x)
        subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), "--in", f"X={at('X.npy')}", "--strides", f"X={pitch}",
                        "--strides", f"Y={pitch + front}", "--out", f"Y={at('Y.npy')}"], check=True, stdout=subprocess.DEVNULL)
        if not np.allclose(np.load(at("Y.npy")), softmax(x.astype(np.float64)), rtol=4e-3, atol=1e-6):
            bad.append(f"row_softmax of {columns} columns, {pitch} and {pitch + front} apart")
    with open(at("right.tile"), "w") as file:
        file.write(RIGHT)
    subprocess.run([options.tilec, at("right.tile"), "-arch", "sm_90", "-o", at("k.ptx")], check=True)
    for columns in (4104, 4100, 4099):
        x = np.random.default_rng(columns).integers(-9, 9, (3, 2 * columns)).astype(np.float16)
        np.save(at("X.npy"), x)
        subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), "--in", f"X={at('X.npy')}", "--out", f"Y={at('Y.npy')}"], check=True,
                       stdout=subprocess.DEVNULL)
        if not np.array_equal(np.load(at("Y.npy")), x[:, columns:].astype(np.float32).sum(1)):
            bad.append(f"the right half of {2 * columns} columns")
    return bad


def summed(options, at):
    """What is wrong with additions to memory of rows that begin and end at multiples of 16 bytes: four columns at once, on sm_90."""
    bad = []
    subprocess.run([options.tilec, os.path.join(EXAMPLES, "..", "bench", "rows", "columns.tile"), "--kernel", "column_sums", "-arch", "sm_90",
                    "-Wno-plan", "-D", "T=f16", "-D", "M=128", "-o", at("k.ptx")], check=True)
    with open(at("k.ptx")) as file:
        kinds = re.findall(r"ld\.global\.(?:v4|b32|u16)|red\.global\.add(?:\.v4)?\.f32", file.read())
    if "red.global.add.f32" in kinds[:kinds.index("ld.global.b32")] or "red.global.add.v4.f32" not in kinds:
        bad.append("column_sums of even rows adds columns one by one")
    for columns, pitch in ((264, 264), (40, 48), (262, 262), (257, 257)):
        x = np.random.default_rng(columns).integers(-9, 9, (200, columns)).astype(np.float16)
        np.save(at("X.npy"), x)
        np.save(at("S.npy"), np.ones(columns, np.float32))
        subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), "--in", f"X={at('X.npy')}", "--in", f"S={at('S.npy')}", "--strides", f"X={pitch}",
                        "--out", f"S={at('out.npy')}"], check=True, stdout=subprocess.DEVNULL)
        if not np.array_equal(np.load(at("out.npy")), x.astype(np.float32).sum(0) + 1):
            bad.append(f"column_sums of {columns} columns, {pitch} apart")
    return bad


def checked(options, at):
    """What is wrong with tiles that a requirement keeps inside: they have no guards, others have."""
    bad = []
    for text, guards in ((CHECKED, False), (CHECKED.replace("1024", "64"), True), (CHECKED.replace("C % 1024", "R % 1024"), True),
                         (CHECKED.replace("r, k]", "r, k + 512]"), True)):
        with open(at("checked.tile"), "w") as file:
            file.write(text)
        subprocess.run([options.tilec, at("checked.tile"), "-arch", "sm_90", "-o", at("k.ptx")], check=True)
        with open(at("k.ptx")) as file:
            if ("@%p" in file.read()) != guards:
                bad.append(f"{'no' if guards else 'some'} guards in {text}")
    x = np.arange(3 * 320, dtype=np.float32).reshape(3, -1)
    np.save(at("X.npy"), x)
    with open(at("checked.tile"), "w") as file:
        file.write(CHECKED.replace("1024", "64"))
    subprocess.run([options.tilec, at("checked.tile"), "-arch", "sm_90", "-o", at("k.ptx")], check=True)
    subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), "--in", f"X={at('X.npy')}", "--out", f"Y={at('Y.npy')}"], check=True,
                   stdout=subprocess.DEVNULL)
    return bad if np.array_equal(np.load(at("Y.npy")), x + 1) else [*bad, "rows of 320 in tiles of 512"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)

        for kernel, inputs, output in (("add", "XY", "Z"), ("row_softmax", "X", "Y")):
            subprocess.run([options.tilec, os.path.join(EXAMPLES, kernel + ".tile"), "-arch", "sm_80", "-D", "T=f32", "-o",
                            at("k.ptx")], check=True)
            with open(at("k.ptx")) as file:
                text = file.read()
            for access in (r"ld\.global\.v4", r"st\.global\.v4", r"ld\.global\.b32", r"st\.global\.b32"):
                if not re.search(access, text):
                    bad.append(f"{kernel} has no {access}")
            for rows, columns in ((17, 260), (5, 262), (18, 519), (3, 4)):
                random = np.random.default_rng(columns)
                values = [random.standard_normal((rows, columns)).astype(np.float32) for _ in inputs]
                words = []
                for name, value in zip(inputs, values):
                    np.save(at(name + ".npy"), value)
                    words += ["--in", f"{name}={at(name + '.npy')}"]
                words += ["--set", "a=2"] if kernel == "add" else []
                subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), *words, "--out", f"{output}={at('out.npy')}"],
                               check=True, stdout=subprocess.DEVNULL)
                right = 2 * values[0] + values[1] if kernel == "add" else softmax(values[0].astype(np.float64))
                off = np.abs(np.load(at("out.npy")) - right).max()
                if not off < 1e-5:
                    bad.append(f"{kernel} of {rows} x {columns} is off by {off:.1e}")
        bad += summed(options, at) + checked(options, at) + moved(options, at) + halves(options, at) + even(options, at) + shifted(options, at)
    for line in bad:
        print(line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
