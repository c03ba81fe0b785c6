#!/usr/bin/env python3
"""late.py - lost phases planted into pipelines: how often schedules with late warps find them, and those without.

    late.py SIMRUN [--programs N] [--from N] [--both]

A program is drawn from its number: a producer warp and some consumer warps around a ring of stages with full and empty
mbarriers, filled by stores or by bulk copies, with some arithmetic in each iteration.  In the faulty version a phase may pass
without a warp: one consumer, or all, give a stage back before the wait for the first or the second of its buffers (`first`,
`second`), in one iteration or in all, or one of two groups that take turns does once not wait for its turn (`turns`).  The clean version
must have no finding.  Eight seeds a program, with --late.
"""
import argparse
import random
import subprocess
import sys
import tempfile

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pin)
{
    .reg .b32 t, w, l, i, s, ph, a, v, acc, m, need; .reg .b64 in; .reg .pred p, q, first;
    .shared .align 16 .b8 data[8192];
    .shared .align 8 .b64 mb[64];
    ld.param.u64 in, [pin];
    mov.u32 t, %tid.x;
    shr.u32 w, t, 5;
    and.b32 l, t, 31;
    mov.u32 acc, t;
    setp.eq.u32 first, l, 0;
    setp.ne.u32 p, t, 0;
    @p bra READY;
"""


def work(rng, n):
    return "".join("    mad.lo.u32 acc, acc, 1664525, 1013904223;\n" for _ in range(rng.randrange(n)))


def wait(name, address, parity):
    return f"{name}:\n    mbarrier.try_wait.parity.shared::cta.b64 q, [{address}], {parity};\n    @!q bra {name};\n"


def step(stages):
    return f"""    add.u32 s, s, 1;
    setp.eq.u32 p, s, {stages};
    selp.u32 s, 0, s, p;
    @p xor.b32 ph, ph, 1;
"""


def ring(rng, kind, faulty):
    """full at mb + 16 s, second full at mb + 8 + 16 s, empty at mb + 256 + 8 s; buffers of 128 bytes, two a stage."""
    consumers, stages, iterations = rng.choice((1, 2, 3, 4, 7, 8, 11)), rng.choice((1, 1, 2, 3, 4)), rng.randrange(6, 17)
    bulk = rng.random() < 0.5
    text = HEAD
    for s in range(stages):
        text += "".join(f"    mbarrier.init.shared::cta.b64 [mb+{at}], {count};\n"
                        for at, count in ((16 * s, 1), (16 * s + 8, 1), (256 + 8 * s, consumers)))
    text += """    fence.mbarrier_init.release.cluster;
    fence.proxy.async;
READY:
    bar.sync 0;
    mov.u32 i, 0; mov.u32 s, 0; mov.u32 ph, 0;
    setp.ne.u32 p, w, 0;
    @p bra CONSUMER;
"""
    text += "PRODUCER:\n    shl.b32 m, s, 3;\n    add.u32 m, m, mb;\n    xor.b32 v, ph, 1;\n" + wait("E0", "m+256", "v")
    text += "    bar.warp.sync -1;\n    shl.b32 m, s, 4;\n    add.u32 m, m, mb;\n    shl.b32 a, s, 8;\n    add.u32 a, a, data;\n"
    if bulk:
        text += "    fence.proxy.async;\n    @!first bra SENT;\n"
        for part in (0, 1):
            text += f"""    mbarrier.arrive.expect_tx.shared::cta.b64 _, [m+{8 * part}], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a+{128 * part}], [in], 128, [m+{8 * part}];
"""
        text += "SENT:\n    bar.warp.sync -1;\n"
    else:
        text += "    shl.b32 v, l, 2;\n    add.u32 a, a, v;\n"
        for part in (0, 1):
            text += f"""    st.shared.u32 [a+{128 * part}], i;
    bar.warp.sync -1;
    @first mbarrier.arrive.shared::cta.b64 _, [m+{8 * part}];
    bar.warp.sync -1;
"""
    text += step(stages) + f"    add.u32 i, i, 1;\n    setp.lt.u32 p, i, {iterations};\n    @p bra PRODUCER;\n    bra DONE;\n"
    text += "CONSUMER:\n    shl.b32 m, s, 4;\n    add.u32 m, m, mb;\n    shl.b32 a, s, 8;\n    add.u32 a, a, data;\n"
    text += "    shl.b32 v, l, 2;\n    add.u32 a, a, v;\n"
    give = "    bar.warp.sync -1;\n    shl.b32 v, s, 3;\n    add.u32 v, v, mb;\n"
    give += "    @first mbarrier.arrive.shared::cta.b64 _, [v+256];\n    bar.warp.sync -1;\n"
    # the last consumer does not read what it no longer has: what is left is the phase that passes without it
    not_last = f"    setp.eq.u32 p, w, {consumers};\n"
    load = lambda part, others: (not_last if others else "") + "".join(
        f"    {'@!p ' if others else ''}{line};\n" for line in (f"ld.shared.u32 v, [a+{128 * part}]", "add.u32 acc, acc, v"))
    # one warp, or all, in one iteration, or in all, give the stage back before the wait for the first buffer, or for the second one
    once = f"    setp.ne.u32 p, i, {rng.choice(('i', rng.randrange(1, iterations - stages)))};\n"
    once += f"    setp.ne.or.u32 p, w, {rng.choice(('w', consumers))}, p;\n"
    before = lambda name: once + f"    @p bra {name};\n" + give + f"{name}:\n" if faulty else ""
    text += (before("B0") if kind == "first" else "") + work(rng, 40) + wait("F0", "m", "ph")
    text += load(0, kind == "first") + (before("B1") if kind == "second" else "") + work(rng, 40) + wait("F1", "m+8", "ph") + load(1, True)
    text += once + "    @!p bra GIVEN;\n" + give + "GIVEN:\n" if faulty else give
    text += work(rng, 20) + step(stages)
    text += f"    add.u32 i, i, 1;\n    setp.lt.u32 p, i, {iterations};\n    @p bra CONSUMER;\nDONE:\n    ret;\n}}\n"
    return text, 32 * (1 + consumers)


def turns(rng, faulty):
    """Two groups of warps: each arrives at the other's barrier when its turn is over, and waits for its own."""
    warps, iterations = rng.choice((1, 2, 4)), rng.randrange(6, 17)
    text = HEAD + f"    mbarrier.init.shared::cta.b64 [mb], {warps};\n    mbarrier.init.shared::cta.b64 [mb+8], {warps};\n"
    text += f"""    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    mov.u32 i, 0; mov.u32 ph, 0;
    setp.ge.u32 p, w, {warps};
    @p bra SECOND;
FIRST:
""" + work(rng, 30) + """    bar.warp.sync -1;
    @first mbarrier.arrive.shared::cta.b64 _, [mb];
    bar.warp.sync -1;
"""
    once = f"    setp.eq.u32 p, i, {rng.randrange(iterations - 1)};\n    @p bra AHEAD;\n" if faulty else ""
    text += once + wait("A", "mb+8", "ph") + "AHEAD:\n"
    text += f"    xor.b32 ph, ph, 1;\n    add.u32 i, i, 1;\n    setp.lt.u32 p, i, {iterations};\n    @p bra FIRST;\n    bra DONE;\nSECOND:\n"
    text += work(rng, 30) + wait("B", "mb", "ph") + work(rng, 30) + """    bar.warp.sync -1;
    @first mbarrier.arrive.shared::cta.b64 _, [mb+8];
    bar.warp.sync -1;
"""
    text += f"    xor.b32 ph, ph, 1;\n    add.u32 i, i, 1;\n    setp.lt.u32 p, i, {iterations};\n    @p bra SECOND;\nDONE:\n    ret;\n}}\n"
    return text, 64 * warps


def program(number, faulty):
    rng = random.Random(number)
    kind = ("first", "second", "turns")[number % 3]
    return kind, *(turns(rng, faulty) if kind == "turns" else ring(rng, kind, faulty))


def simulate(simrun, folder, text, threads, *options):
    path = f"{folder}/k.ptx"
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    done = subprocess.run([simrun, path, "--block", str(threads), "--threads", "1", "--seeds", "8", *options, "zero:4096"],
                          capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("simrun")
    parser.add_argument("--programs", type=int, default=99)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--both", action="store_true", help="and without --late")
    args = parser.parse_args()
    found, bad, missed = {}, 0, []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.first, args.first + args.programs):
            kind, text, threads = program(number, True)
            counts = found.setdefault(kind, [0, 0, 0])
            status, output = simulate(args.simrun, folder, text, threads, "--late")
            counts[0], counts[1] = counts[0] + 1, counts[1] + (status == 3)
            missed += [number] if status != 3 else []
            if status not in (0, 3):
                print(f"FAILED: {number} ({kind}): {output}")
                bad += 1
            if args.both:
                counts[2] += simulate(args.simrun, folder, text, threads)[0] == 3
            _, text, threads = program(number, False)
            status, output = simulate(args.simrun, folder, text, threads, "--late", "--strict")
            if status:
                print(f"FAILED: the clean version of {number} ({kind}) exits with {status}: {output}")
                bad += 1
    for kind, (count, late, usual) in found.items():
        print(f"{kind}: {count} programs, {late} found" + (f", {usual} without --late" if args.both else ""))
    total = sum(c[1] for c in found.values())
    print(f"{total} of {args.programs} found, {bad} problems; missed: {missed}")
    return 1 if bad or total * 100 < 95 * args.programs else 0


if __name__ == "__main__":
    sys.exit(main())
