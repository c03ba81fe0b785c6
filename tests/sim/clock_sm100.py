#!/usr/bin/env python3
"""clock_sm100.py - golden tests of the simulator's clock for compute capability 10.0: as clock.py, by the figures of sm100_clock.c.

    clock_sm100.py --tilerun TILERUN [NAME ..]
    clock_sm100.py --tilerun TILERUN --micro       microbenchmarks replayed from machine code, beside what was published

No GPU of this kind has run them: what is known here is what the published figures say.  In each case 2n operations take n times
the figure longer than n, from costs of PTX.  --micro needs ptxas and nvdisasm; it shows that a product and its commit take
what was published, and how far the chain of softmax is from what was.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "micro"))
import kernels  # noqa: E402
import sm100  # noqa: E402

FLOATS = "    .reg .f32 %f<128>; .reg .b64 %p<48>; .reg .b32 %r<64>;\n" + "".join(
    f"    cvt.rn.f32.u32 %f{k}, %t;\n" for k in range(40)) + "".join(f"    mov.b64 %p{k}, {{%f{k}, %f{k}}};\n" for k in range(32)) + \
    "    mov.u32 %r0, %t; mov.u32 %r1, %t; mov.u32 %r2, %t; mov.u32 %r3, %t;\n"
LANES = FLOATS + "    .reg .b32 %a; shl.b32 %a, %lane, 4; add.u32 %a, %a, %s;\n" \
    "    st.shared.v4.u32 [%a], {%r0, %r1, %r2, %r3};\n"
ONE = "    setp.ne.u32 %p, %warp, 0; @%p bra.uni END;\n"
COMMIT = "    @%lead tcgen05.commit.cta_group::{g}.mbarrier::arrive::one.shared::cluster.b64 [%bar];\n" + sm100.WAIT.format(label="W0")


def spread(text):
    return lambda k: text.format(d=f"%f{40 + k % 32}", q=f"%p{k % 32}", a="%f34", r=f"%r{8 + k % 32}")


def product(m, n, source, blocks=1):
    """(text, before, behind) of a product of this shape."""
    text = f"@%lead tcgen05.mma.cta_group::{blocks}.kind::f16 [%tm], {'%da' if source == 'SS' else '[%tm+256]'}, %db, %w, %on;"
    other = "    or.b32 %par, %warp, %cta; setp.ne.u32 %p, %par, 0; mov.u32 %par, 0; @%p bra.uni END;\n" if blocks == 2 else ONE
    return (lambda k: text), other + f"    mov.u32 %w, {sm100.instruction(m, n)}; setp.eq.u32 %on, %w, %w;\n", \
        COMMIT.replace("{g}", str(blocks)) + "END:\n"


def registers(first, count):
    return ", ".join(f"%v{first + j}" for j in range(count))


def move(kind, count):
    v = "{" + registers(0, count) + "}"
    at = lambda k: f"[%tl+{count * k % 256}]"  # noqa: E731
    before = f"    .reg .b32 %v<{count}>;\n" + "".join(f"    mov.u32 %v{k}, %t;\n" for k in range(count))
    text = f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {v}, {{at}};" if kind == "ld" else \
        f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 {{at}}, {v};"
    first = "".join(f"    tcgen05.st.sync.aligned.32x32b.x{count}.b32 {at(k)}, {v};\n" for k in range(256 // count if count > 1 else 64))
    end = f"    tcgen05.wait::{kind}.sync.aligned;"
    return (lambda k: text.replace("{at}", at(k))), before + (first + "    tcgen05.wait::st.sync.aligned;\n" if kind == "ld" else ""), end


# Warps 1 to 4 load or store, while the first keeps products coming: 8 a loop, one of 64 clocks each
PRODUCTS = """
    mov.u32 %w, {idesc}; setp.eq.u32 %on, %w, %w;
    setp.ne.u32 %p, %warp, 0; @%p bra.uni OTHERS;
    mov.u32 %i, 8;
ROUND:
""" + "    @%lead tcgen05.mma.cta_group::1.kind::f16 [%tm], {a}, %db, %w, %on;\n" * 8 + """
    sub.u32 %i, %i, 1; setp.ne.u32 %again, %i, 0; @%again bra.uni ROUND;
""" + COMMIT.replace("{g}", "1") + """
    bra.uni END;
OTHERS:
"""

@dataclass
class Case:
    each: float          # clocks of one operation
    text: object         # by its number
    before: str = ""
    behind: str = ""
    warps: int = 1
    n: int = 64
    blocks: int = 1
    within: float = 0.005
    target: str = "sm_100"


def load(k):
    return f"ld.shared.v4.u32 {{{', '.join(f'%r{8 + k % 12 * 4 + j}' for j in range(4))}}}, [%a];"


def store(k):
    return "st.shared.v4.u32 [%a], {%r0, %r1, %r2, %r3};"


def mma(each, m, n, source, blocks=1):
    text, before, behind = product(m, n, source, blocks)
    return Case(each, text, before, behind, 4, 8, blocks)


def tmem(each, kind, count, warps=1):
    text, before, behind = move(kind, count)
    return Case(each, text, before, behind, warps, 32)


PEER = LANES + "    .reg .b32 %b; xor.b32 %b, %cta, 1; mapa.shared::cluster.u32 %a, %a, %b; mapa.shared::cluster.u32 %b, %bar, %b;\n"
BESIDE = LANES + PRODUCTS.replace("{idesc}", str(sm100.instruction(128, 128)))
CASES = {
    "FFMA2": Case(2, spread("fma.rn.f32x2 {q}, %p40, %p40, %p40;"), FLOATS + "mov.b64 %p40, {%f0, %f0};\n", n=256),
    "FMNMX3": Case(2, spread("max.f32 {d}, {a}, {a}, {a};"), FLOATS, n=256),
    "MUFU of a B300": Case(4, spread("ex2.approx.ftz.f32 {d}, {a};"), FLOATS, n=256, target="sm_103"),
    "MUFU": Case(8, spread("ex2.approx.ftz.f32 {d}, {a};"), FLOATS, n=256),
    "LDS, one after the other": Case(24, lambda k: "ld.shared.u32 %a, [%a];", FLOATS + "    .reg .b32 %a;\n"
                                     "    mad.lo.u32 %a, %t, 4, %s; st.shared.u32 [%a], %a;\n", n=32),
    "LDS.128 of one": Case(512 / 68, load, LANES, n=256),
    "LDS.128 of four schedulers": Case(16, load, LANES, warps=4, n=96),
    "LDS.128 and STS.128, two ports, one way of a scheduler": Case(2 * (512 / 68 + 512 / 50), lambda k: load(k) + " " + store(k), LANES, warps=8, n=96, within=0.01),
    "product, M 128 N 64": mma(48, 128, 64, "SS"),
    "product, M 128 N 80": mma(52, 128, 80, "SS"),
    "product, M 128 N 96": mma(56, 128, 96, "SS"),
    "product, M 128 N 112": mma(60, 128, 112, "SS"),
    "product, M 128 N 128": mma(64, 128, 128, "SS"),
    "product, M 128 N 256": mma(128, 128, 256, "SS"),
    "product, M 128 N 88, between rows": mma(54, 128, 88, "SS"),
    "product, M 64 N 128": mma(64, 64, 128, "SS"),
    "product, M 128 N 64, A in tensor memory": mma(32, 128, 64, "TS"),
    "product, M 128 N 128, A in tensor memory": mma(64, 128, 128, "TS"),
    "product, M 128 N 256, A in tensor memory": mma(128, 128, 256, "TS"),
    "product of a pair, M 256 N 64": mma(43, 256, 64, "SS", 2),
    "product of a pair, M 256 N 80": mma(45.3, 256, 80, "SS", 2),
    "product of a pair, M 256 N 96": mma(49.4, 256, 96, "SS", 2),
    "product of a pair, M 256 N 128": mma(64, 256, 128, "SS", 2),
    "product of a pair, M 256 N 256": mma(128, 256, 256, "SS", 2),
    "product of a pair, M 128 N 64": mma(25, 128, 64, "SS", 2),
    "product of a pair, M 128 N 128": mma(32, 128, 128, "SS", 2),
    "product of a pair, M 128 N 256": mma(64, 128, 256, "SS", 2),
    "product of a pair, M 256 N 128, A in tensor memory": mma(64, 256, 128, "TS", 2),
    "tcgen05.cp of 128x256b": Case(128, lambda k: "@%lead tcgen05.cp.cta_group::1.128x256b [%tm], %da;", ONE,
                                   COMMIT.replace("{g}", "1") + "END:\n", 4, 8),
    "tcgen05.ld x1": tmem(5.1, "ld", 1),
    "tcgen05.ld x4": tmem(5.8, "ld", 4),
    "tcgen05.ld x16": tmem(11.8, "ld", 16),
    "tcgen05.ld x32": tmem(19.8, "ld", 32),
    "tcgen05.ld x32, two warps of a scheduler": tmem(32, "ld", 32, 8),
    "tcgen05.st x32": tmem(19.8, "st", 32),
    "st.async to the other block": Case(512 / 10.5, lambda k: "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%a], {%r0, %r1, %r2, %r3}, [%b];", PEER,
                                        n=32, blocks=2),
    "tcgen05.wait::st": Case(13, lambda k: "tcgen05.st.sync.aligned.32x32b.x1.b32 [%tl], {%v0}; tcgen05.wait::st.sync.aligned;",
                             "    .reg .b32 %v<1>; mov.u32 %v0, %t;\n", n=32, within=0.08),
}
# 64 products of 64 clocks beside loads of four warps, which take twice as long by themselves: by how much these are delayed
DELAYS = {"loads beside products that take all of the port": ("%da", 4096), "loads beside products that take half of it": ("[%tm+256]", 2048)}

def replay(tilerun, folder, name, body, warps, blocks=1, how=",ptx", target="sm_100"):
    path = os.path.join(folder, "k.ptx")
    with open(path, "w", encoding="utf-8") as file:
        file.write(body.replace(".target sm_100a", f".target {target}a"))
    said = subprocess.run([tilerun, path, "--entry", name, "--grid", str(blocks), "--cluster", f"{blocks},1,1", "--block",
                           str(32 * warps), "--smem", str(kernels.SHARED), "--arg", "scratch=4096", "--arg", "zero:65536", "--device",
                           "sim", "--no-check", "--time", target + how], capture_output=True, text=True)
    found = re.search(r"(\d+) without jitter" if how else r"last less first: .*, (\d+) at most", said.stdout)
    return int(found[1]) if found and "never comes" not in said.stdout else said.stdout + said.stderr


def run_case(tilerun, folder, case):
    cycles = []
    for count in [case.n, 2 * case.n]:
        lines = "\n".join("    " + case.text(k) for k in range(count))
        body = sm100.entry("k", case.before + lines + "\n" + case.behind, warps=case.warps, blocks=case.blocks)
        cycles.append(replay(tilerun, folder, "k", body, case.warps, case.blocks, target=case.target))
        if isinstance(cycles[-1], str):
            return cycles[-1]
    took = (cycles[1] - cycles[0]) / case.n
    good = abs(took - case.each) <= 1.5 / case.n + case.within * case.each
    return None if good else f"{took:.2f} cycles each, expected {case.each:.2f}"


def run_delay(tilerun, folder, a, clocks):
    cycles = []
    for products in [True, False]:
        before = BESIDE.replace("{a}", a)
        if not products:
            before = re.sub(r"    @%lead tcgen05.mma.*\n", "", before)
        body = sm100.entry("k", before + "\n".join("    " + load(k) for k in range(512)) + "\nEND:\n", warps=5)
        cycles.append(replay(tilerun, folder, "k", body, 5))
        if isinstance(cycles[-1], str):
            return cycles[-1]
    took = cycles[0] - cycles[1]
    return None if abs(took - clocks) <= 0.03 * clocks else f"{took} clocks later, expected {clocks}"


# Clocks of one, from machine code, that were published: of a product and its commit; of a tile of 128 x 128 scores whose
# exponentials go by a polynomial, so many of 16 pairs, or none at all.  (bound, in percent)
PUBLISHED = {
    "mma_m128_n64_SS_d1": (184, 1), "mma_m128_n128_SS_d1": (200, 1), "mma_m128_n256_SS_d1": (264, 1), "mma_m64_n128_SS_d1": (184, 1),
    "mma_m128_n64_TS_d1": (136, 1), "mma_m128_n128_TS_d1": (168, 1), "mma_m128_n256_TS_d1": (232, 1),
    "mma_m256_n128_SS_d1_pair": (234, 1), "mma_m256_n256_SS_d1_pair": (298, 1), "mma_m128_n128_SS_d1_pair": (229, 1),
    "mma_m256_n128_TS_d1_pair": (202, 1), "mma_m128_n128_TS_d1_pair": (197, 1), "mma_m128_n128_SS_d32": (2177, 1),
    "chain_0": (1188, 5), "chain_1": (1216, 8), "chain_2": (1140, 5), "chain_4": (1125, 5), "chain_8": (1261, 5), "chain_16": (1687, 5),
    "chain_moved": (166, 5),
}


def added(tilerun, folder):
    """Additions that ptxas moves over several stores to the other block, whose operands are loaded, take their time all the same."""
    rounds, sends, adds, each = 4, 6, 24, 512 / 25.5
    send, cycles = CASES["st.async to the other block"].text(0), []
    names = [[f"%w{k}{c}" for c in "abcd"] for k in range(sends)]
    before = (PEER + f"    .reg .b32 {', '.join(sum(names, []))};\n    .reg .f32 %gf; mov.f32 %gf, 0f3f800000;\n"
              "    .reg .b64 %gd, %go; mul.wide.u32 %go, %lane, 1024; add.u64 %gd, %data, %go;\n")
    for n in [0, adds]:
        text = "".join(f"    ld.volatile.global.v4.u32 {{{', '.join(names[k])}}}, [%data+{4096 * k}];\n" for k in range(sends))
        text += "".join("    " + send.replace("%r0, %r1, %r2, %r3", ", ".join(names[k])) + "\n" for k in range(sends))
        text += "".join(f"    red.global.add.v4.f32 [%gd+{16 * k}], {{%gf, %gf, %gf, %gf}};\n" for k in range(n))
        body = sm100.entry("k", before + rounds * text, warps=1, blocks=2)
        cycles.append(replay(tilerun, folder, "k", body, 1, 2, ",seeds=1")) # from machine code
        if isinstance(cycles[-1], str):
            return cycles[-1]
    took, least = cycles[1] - cycles[0], 0.4 * rounds * adds * each # the others run under loads and stores
    return None if took >= least else f"{took} clocks later, expected {least:.0f} and more"


def micro(tilerun, folder):
    wrong = added(tilerun, folder)
    bad = wrong is not None
    print(f"additions beside stores to the other block: {wrong or 'as they should'}{' FAILED' if wrong else ''}")
    for kernel in sm100.all_kernels():
        if kernel.name not in PUBLISHED:
            continue
        cycles = replay(tilerun, folder, kernel.name, kernel.ptx, kernel.warps, kernel.cluster, "")
        if isinstance(cycles, str):
            print(f"{kernel.name}: {cycles} FAILED")
            bad += 1
            continue
        (published, bound), each = PUBLISHED[kernel.name], cycles / kernel.operations
        off = 100 * each / published - 100
        bad += abs(off) > bound
        print(f"{kernel.name:28} published {published:6}, replayed {each:8.1f}: {off:+5.1f} %{' FAILED' if abs(off) > bound else ''}", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--micro", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        if args.micro:
            if not shutil.which("ptxas") or not shutil.which("nvdisasm"):
                print("ptxas or nvdisasm is not there: nothing was replayed")
                return 0
            return 1 if micro(args.tilerun, folder) else 0
        for name in args.names or [*CASES, *DELAYS]:
            wrong = run_case(args.tilerun, folder, CASES[name]) if name in CASES else run_delay(args.tilerun, folder, *DELAYS[name])
            bad += wrong is not None
            print(f"{'FAILED' if wrong else 'passed'}: {name}{': ' + wrong if wrong else ''}")
    print(f"{len(args.names or [*CASES, *DELAYS])} cases, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
