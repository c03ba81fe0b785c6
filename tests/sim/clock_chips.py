#!/usr/bin/env python3
"""clock_chips.py - the simulator's clock for A100, RTX 3090, 4090 and 5090: what was published of a unit comes out exactly.

    clock_chips.py --tilerun TILERUN

As clock.py, from costs of PTX: 2n operations take n times the figure longer than n.  No GPU of these kinds has run anything of
this, so the tables were frozen by their hashes before any ladder that others have published was replayed: who changes a figure
has a new source for it, and replays docs/timing.md's ladders.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import clock  # noqa: E402

FROZEN = {"sm_80": "3898ef9f", "sm_86": "5dec67aa", "sm_89": "d197e1d6", "sm_120": "a0f4b4a4"}
MMA_SETUP = clock.FLOATS + "\n    mov.b32 %r4, 0; mov.b32 %r5, 0; bar.sync 0;"
ROWS = "    and.b32 %r6, %t, 31; mad.lo.u32 %a, %r6, {apart}, %s; bar.sync 0;"


def mma(k):
    d = ", ".join(f"%f{100 + 4 * k + j}" for j in range(4))
    return f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{d}}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};"


def scaled(kind):
    """.. with scales: the same rate for twice as many elements of 8 bits, or four times as many of 4."""
    shape = f"m16n8k32.row.col.kind::{kind}.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0" if kind == "mxf8f6f4" else \
        f"m16n8k64.row.col.kind::{kind}.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
    return lambda k: mma(k).replace("m16n8k16.row.col.f32.bf16.bf16.f32", shape).replace(";", ", %r4, {0, 0}, %r5, {0, 0};")


def matrices(k):
    d = ", ".join(f"%r{8 + 4 * (k % 8) + j}" for j in range(4))
    return f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{d}}}, [%a];"


def add(k):
    return f"fma.rn.f32 %f{k % 32}, %f34, %f35, %f35;"


def cases(chip):
    """(what an operation takes, its text, warps, n, what comes before)"""
    product = {"sm_80": 8}.get(chip, 32) # of a scheduler: four of 2048 or 512 operations a clock
    yield "mma.sync, one warp", product, mma, 1, 32, MMA_SETUP
    yield "mma.sync, four schedulers", product, mma, 4, 32, MMA_SETUP
    yield "mma.sync, two warps of each", 2 * product, mma, 8, 32, MMA_SETUP
    if chip == "sm_120":
        for kind in "mxf8f6f4", "mxf4nvf4":
            yield f"mma.sync, {kind}", product, scaled(kind), 4, 32, MMA_SETUP
    yield "FFMA", 2 if chip == "sm_80" else 1, add, 1, 256, clock.FLOATS
    yield "ldmatrix, rows apart in banks", 4 * 4, matrices, 4, 64, ROWS.format(apart=16)
    yield "ldmatrix, eight rows of the same banks", 4 * 32, matrices, 4, 256, ROWS.format(apart=128)
    yield "ldmatrix, a padding of 16 bytes", 4 * 4, matrices, 4, 64, ROWS.format(apart=144)


def run(tilerun, folder, chip, body, warps):
    into, path = os.path.join(folder, "k.json"), os.path.join(folder, "k.ptx")
    with open(path, "w", encoding="utf-8") as file:
        file.write(body.replace(".target sm_90a", ".target sm_120a" if "block_scale" in body else ".target sm_80"))
    if os.path.exists(into):
        os.remove(into)
    said = subprocess.run([tilerun, path, "--entry", "k", "--grid", "1", "--block", str(32 * warps), "--smem", "65536", "--arg",
                           "zero:65536", "--device", "sim", "--no-check", "--time", f"{chip},ptx,seeds=1,json={into}"],
                          capture_output=True, text=True)
    if said.returncode:
        sys.exit(f"{chip}: {said.stdout}{said.stderr}")
    with open(into, encoding="utf-8") as file:
        return json.loads(file.readline())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilerun", required=True)
    args, bad = parser.parse_args(), 0
    with tempfile.TemporaryDirectory() as folder:
        for chip, frozen in FROZEN.items():
            for name, each, text, warps, n, setup in cases(chip):
                said = [run(args.tilerun, folder, chip, clock.HEAD.format(threads=32 * warps, setup=setup, body="\n".join(
                    "    " + text(k) for k in range(count))), warps) for count in [n, 2 * n]]
                took = (said[1]["without_jitter"] - said[0]["without_jitter"]) / n
                if abs(took - each) > 1.5 / n + 0.005 * each:
                    print(f"{chip}, {name}: {took:.2f} clocks each, expected {each}")
                    bad += 1
            if said[0]["figures"] != frozen:
                print(f"{chip}: figures {said[0]['figures']}, which were frozen as {frozen}")
                bad += 1
    print(f"{bad} bad")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
