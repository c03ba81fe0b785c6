#!/usr/bin/env python3
"""clock.py - golden tests of the simulator's clock: for each unit a sequence of instructions whose cycles are known.

    clock.py --tilerun TILERUN [NAME ..]
    clock.py --tilerun TILERUN --micro       microbenchmarks replayed, beside what an H200 measured

Each case is a body of n operations.  What 2n of them take beyond n must be n times the figure of the table (sm90_clock.c,
from microbenchmarks of bench/micro), without jitter; so what comes before and after does not count.  The numbers stand
here once more on purpose: who changes the table says so here, too.

--micro replays kernels of bench/micro on one SM.  Where ptxas and nvdisasm are, from machine code: the clocks that the
kernel would read itself (CODE).  Else from PTX: cycles before the first clock are taken off roughly (BEFORE), and loops as
ptxas unrolls them are shorter than loops of PTX, so the bound is wide (MICRO).
"""
import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "micro"))
import groups  # noqa: E402
import kernels  # noqa: E402

HEAD = """.version 8.1
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 data) .reqntid {threads},1,1
{{
    .reg .b32 %r<64>; .reg .f32 %f<512>; .reg .b64 %d<16>, %state; .reg .pred %p, %first;
    .reg .b32 %s, %t, %a;
    ld.param.u64 %d0, [data];
    mov.u32 %s, smem;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %first, %t, 0;
    shl.b32 %a, %t, 4;
    add.u32 %a, %a, %s;
    mov.u32 %r0, %t; mov.u32 %r1, %t; mov.u32 %r2, %t; mov.u32 %r3, %t;
{setup}
{body}
    ret;
}}
"""
FLOATS = "\n".join(f"    cvt.rn.f32.u32 %f{k}, %t;" for k in range(40))
# 16 operations that do not depend on one another, then the same again: every result is there in time
def spread(text):
    return lambda k: text.format(d=f"%f{k % 32}", e=f"%f{64 + k % 32}", a="%f34", b="%f35", r=f"%r{8 + k % 32}")


DESCRIPTOR = (1 << 16) | (64 << 32) | (1 << 62)
WGMMA_SETUP = f"    mov.u64 %d1, {DESCRIPTOR}; mov.u64 %d2, {DESCRIPTOR};\n" \
              "    shr.u32 %r4, %s, 4; cvt.u64.u32 %d3, %r4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;\n" + \
              "\n".join(f"    mov.f32 %f{k}, 0f00000000;" for k in range(128)) + \
              "\n    wgmma.fence.sync.aligned;"
BARRIER = """
    @%first mbarrier.init.shared::cta.b64 [%s], 1;
    bar.sync 0;
"""


def wgmma(n, registers):
    d = ", ".join(f"%f{k}" for k in range(n // 2))
    a = "{%r0, %r1, %r2, %r3}" if registers else "%d1"
    flags = "1, 1, 0" if registers else "1, 1, 0, 0"
    return lambda k: f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{d}}}, {a}, %d2, 1, {flags};"


WGMMA_END = "    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;"


def load_and_wait(size):
    return lambda k: f"""
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%s], {size};
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+1024], [%d0], {size}, [%s];
W{k}:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], {k % 2};
    @!%p bra W{k};"""


def bulk_out(text, size):
    return lambda k: f"    @%first {text} [%d0], [%s], {size};"


BULK_END = "    @%first cp.async.bulk.commit_group;\n    @%first cp.async.bulk.wait_group 0;"
PIPE = 256 # operations, where they are cheap

# name: (what one operation costs, its text by number, warps, n, what comes before, what comes behind)
CASES = {
    "FFMA, one after the other": (4, lambda k: "fma.rn.f32 %f0, %f0, %f34, %f35;", 1, 32, FLOATS, ""),
    "FFMA": (1, spread("fma.rn.f32 {d}, {a}, {b}, {b};"), 1, PIPE, FLOATS, ""),
    "FFMA, four warps of a scheduler": (4, spread("fma.rn.f32 {d}, {a}, {b}, {b};"), 16, PIPE, FLOATS, ""),
    "FMNMX": (2, spread("max.f32 {d}, {a}, {b};"), 1, PIPE, FLOATS, ""),
    "LOP3": (2, spread("lop3.b32 {r}, %r0, %r1, %r2, 0x6a;"), 1, PIPE, FLOATS, ""),
    "IMAD": (2, spread("mad.lo.s32 {r}, %r0, %r1, %r2;"), 1, PIPE, FLOATS, ""),
    "F2FP": (2, spread("cvt.rn.bf16x2.f32 {r}, {a}, {b};"), 1, PIPE, FLOATS, ""),
    "F2FP and FMNMX, one pipe": (4, spread("cvt.rn.bf16x2.f32 {r}, {a}, {b}; max.f32 {d}, {a}, {b};"), 1, PIPE, FLOATS, ""),
    "FFMA and FMNMX, two pipes": (2, spread("fma.rn.f32 {e}, {a}, {b}, {b}; max.f32 {d}, {a}, {b};"), 1, PIPE, FLOATS, ""),
    "MUFU": (8, spread("ex2.approx.ftz.f32 {d}, {a};"), 1, PIPE, FLOATS, ""),
    "MUFU, one after the other": (17, lambda k: "ex2.approx.ftz.f32 %f0, %f0;", 1, 32, FLOATS, ""),
    "SHFL, one after the other": (26, lambda k: "shfl.sync.bfly.b32 %r0, %r0, 1, 31, -1;", 1, 32, "", ""),
    "LDS, one after the other": (23, lambda k: "ld.shared.u32 %a, [%a];", 1, 32,
                                 "    mad.lo.u32 %a, %t, 4, %s; st.shared.u32 [%a], %a;", ""),
    "LDS.128 of four schedulers": (16, lambda k: f"ld.shared.v4.u32 {{%r{8 + k % 12 * 4}, %r{9 + k % 12 * 4}, "
                                   f"%r{10 + k % 12 * 4}, %r{11 + k % 12 * 4}}}, [%a];", 4, 96,
                                   "    st.shared.v4.u32 [%a], {%r0, %r1, %r2, %r3};", ""),
    "LDS.128 of one": (8, lambda k: f"ld.shared.v4.u32 {{%r{8 + k % 12 * 4}, %r{9 + k % 12 * 4}, %r{10 + k % 12 * 4}, "
                       f"%r{11 + k % 12 * 4}}}, [%a];", 1, 96, "    st.shared.v4.u32 [%a], {%r0, %r1, %r2, %r3};", ""),
    "STS.128 of four schedulers": (16, lambda k: "st.shared.v4.u32 [%a], {%r0, %r1, %r2, %r3};", 4, 192, "", ""),
    "STS, eight lanes at a bank": (8, lambda k: "st.shared.u32 [%r5], %r0;", 4, 64,
                                   "    and.b32 %r4, %t, 31; mad.lo.u32 %r5, %r4, 8, %s; shl.b32 %r4, %r4, 2;", ""),
    # the last of 256 bytes at 111 a clock comes some clocks after the first
    "LDG of 8 bytes in 8 lines": (8, lambda k: f"ld.global.u64 %d{6 + k % 8}, [%d5];", 1, 64, "    mul.wide.u32 %d5, %t, 32; add.u64 %d5, %d5, %d0;", ""),
    "STG of 4 bytes in 16 sectors": (16 * 32 / (32 * 1800 / 2310), lambda k: f"st.global.u32 [%d5+{512 * (k % 64)}], %r0;", 1, 64,
                                     "    mul.wide.u32 %d5, %t, 16; add.u64 %d5, %d5, %d0;", ""),
    "STG of 4 bytes, four of which fill them": (4, lambda k: f"st.global.u32 [%d5+{4 * (k % 4)}], %r0;", 1, 64,
                                                "    mul.wide.u32 %d5, %t, 16; add.u64 %d5, %d5, %d0;", ""),
    "LDG, one after the other": (282, lambda k: "ld.global.u64 %d0, [%d0];", 1, 8, "    st.global.u64 [%d0], %d0;", ""),
    # what is written goes another way than what is read, more slowly
    "LDG.128 and STG.128 of four schedulers": (4 * 512 / 32, lambda k: f"ld.global.v4.u32 {{%r{8 + k % 12 * 4}, %r{9 + k % 12 * 4}, "
                                               f"%r{10 + k % 12 * 4}, %r{11 + k % 12 * 4}}}, [%d4]; st.global.v4.u32 [%d4+32768], "
                                               "{%r0, %r1, %r2, %r3};", 4, 96, "    mul.wide.u32 %d4, %t, 16; add.u64 %d4, %d4, %d0;", ""),
    "bar.sync of one warp": (14, lambda k: "bar.sync 0;", 1, 16, "", ""),
    "bar.sync of 4 warps": (20, lambda k: "bar.sync 0;", 4, 16, "", ""),
    "bar.sync of 12 warps": (36, lambda k: "bar.sync 0;", 12, 16, "", ""),
    "mbarrier, a phase that is over": (48, lambda k: "mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], 1;", 1, 16, BARRIER, ""),
    "fence.proxy.async": (23, lambda k: "fence.proxy.async.shared::cta;", 1, 16, "", ""),
    "wgmma n128, shared": (64, wgmma(128, False), 4, 8, WGMMA_SETUP, WGMMA_END),
    "wgmma n256, shared": (128, wgmma(256, False), 4, 8, WGMMA_SETUP, WGMMA_END),
    "wgmma n64, registers": (32, wgmma(64, True), 4, 8, WGMMA_SETUP, WGMMA_END),
    "wgmma n16: the port": (20, wgmma(16, False), 4, 8, WGMMA_SETUP, WGMMA_END),
    "wgmma n8, registers: the least": (13, wgmma(8, True), 4, 8, WGMMA_SETUP, WGMMA_END),
    # 318, the bytes, and what stands around them
    "copies of 16 KB, one after the other": (None, load_and_wait(16384), 1, 4, BARRIER, ""),
    "stores of 16 KB": (16384 / 31.8, bulk_out("cp.async.bulk.global.shared::cta.bulk_group", 16384), 1, 8, "", BULK_END),
    "additions of 16 KB": (16384 / 25.5, bulk_out("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", 16384), 1, 8, "",
                           BULK_END),
}


# Microbenchmarks, and how far the replay may be off, in percent.  Loops are the longest of their kind.
MICRO = {
    "rate_ex2_4w": 5, "rate_ex2_16w": 5, "rate_rsqrt_16w": 5, "rate_fmnmx_16w": 15, "rate_lop3_16w": 15, "rate_imad_16w": 10,
    "rate_f2fp_16w": 15, "mix_f2fp1_ex2_16w": 5, "mix_fmnmx4_ex2_16w": 10, "mix_imad1_ffma_16w": 10,
    "shared_chase_1w_s4": 2, "shared_lds128_16w_s16": 5, "shared_sts128_4w_s16": 5, "shared_sts128_16w_s16": 2,
    "shared_stmatrix_16w_s16": 2, "shared_sts32_16w_s8": 5, "shared_sts32_16w_s32": 2, "shared_lds32_16w_s16": 5,
    "bar_sync_4w": 10, "bar_sync_16w": 5, "mbarrier_one": 5, "mbarrier_ready": 15, "mbarrier_pong": 10,
    "wgmma_n8_SS_d16_g1": 15, "wgmma_n64_SS_d16_g1": 10, "wgmma_n128_SS_d16_g1": 5, "wgmma_n256_SS_d16_g1": 2,
    "wgmma_n64_SS_d16_g2": 2, "wgmma_n256_SS_d16_g2": 2, "beside_sts128_n128_SS": 10,
    "bulk_load_1024_d1_one_2m": 5, "bulk_load_4096_d1_one_2m": 5, "bulk_load_16384_d1_one_2m": 5,
    "bulk_load_8192_d4_one_4m": 10, "bulk_store_16384_one": 2, "bulk_add_16384_one": 2,
}
BEFORE = 470
BEFORE_LOAD = 2 - 128 / 111  # and of each load of a warp before the clock, which took 128 / 111 clocks when 470 was found
# From machine code, more of them: 5 percent, but ..
CODE = ["latency_*", "rate_*", "mix_*", "shared_*", "bar_sync_*", "mbarrier_*", "fence_*", "wgmma_*", "mma_*", "bulk_*", "turns_n64_SS_d[48]_g2_*",
        "chains_n64_SS_d4_g2_*", "lopsided_n64_*", "beside_fma_n128_SS", "beside_ex2_n128_SS", "beside_max_n64_SS", "beside_lds128_n128_SS",
        "beside_sts128_n128_SS"]
CODE_BOUND = 5
CODE_BOUNDS = { # 64 FFMA and then 8 MUFU in a row; what pipes share, beside what banks do
    "mix_ffma8_ex2_16w": 17, "mix_ffma1_fmnmx_16w": 6, "mix_imad1_ffma_16w": 7, "mix_iadd1_ffma_16w": 7, "shared_lds128_1w_s16": 6,
    "shared_ldmatrix_1w_s16": 8, "bulk_store_4096_one": 6, "turns_n64_SS_d4_g2_fma4": 8, "lopsided_n64_SS_8_4": 7,
}
# an ld.shared.v4 whose lanes read few addresses: the simulator counts 4 passes, the chip takes 2.  FFMA, FADD, FMUL at full rate: a
# scheduler issues for one warp after the other, so warps read their first clock late, and no two runs are alike.
NOT_MODELLED = {"shared_lds128_1w_s0", "shared_lds128_4w_s0", "shared_lds128_16w_s0", "shared_lds128_16w_sand1",
                "shared_lds128_16w_sshr1", "shared_lds128_16w_sshr2", "shared_lds128_16w_sshr3", "rate_ffma_16w", "rate_fadd_16w",
                "rate_fmul_16w", "mix_shfl1_ffma_16w"}


def replay(tilerun, folder, body, warps, name="k", arguments=("zero:65536",), shared=65536, how=",ptx"):
    path = os.path.join(folder, "k.ptx")
    with open(path, "w", encoding="utf-8") as file:
        file.write(body)
    said = subprocess.run([tilerun, path, "--entry", name, "--grid", "1", "--block", str(32 * warps), "--smem", str(shared)] +
                          [word for a in arguments for word in ["--arg", a]] +
                          ["--device", "sim", "--no-check", "--time", "sm_90" + how], capture_output=True, text=True)
    found = re.search(r"(\d+) without jitter" if ",ptx" in how else r"last less first: .*, (\d+) at most", said.stdout)
    return int(found[1]) if found and "never comes" not in said.stdout else said.stdout + said.stderr


def run_case(tilerun, folder, name):
    each, text, warps, n, setup, end = CASES[name]
    cycles = []
    for count in [n, 2 * n]:
        lines = "\n".join("    " + text(k) for k in range(count))
        cycles.append(replay(tilerun, folder, HEAD.format(threads=32 * warps, setup=setup, body=lines + "\n" + end), warps))
        if isinstance(cycles[-1], str):
            return cycles[-1]
    took = (cycles[1] - cycles[0]) / n
    if each is None: # the latency and the bytes, and at most so much around them
        each = 318 + 16384 / 107
        return None if each <= took <= each + 90 else f"{took:.2f} cycles each, expected {each:.2f} to {each + 90:.2f}"
    # a clock at the end, and the last pieces of units that lie half in one
    return None if abs(took - each) <= 1.5 / n + 0.005 * each else f"{took:.2f} cycles each, expected {each:.2f}"


def two_groups(products, other, setup):
    """Warps 0 to 3 run products of n 128, warps 4 to 7 something else."""
    first = lines(wgmma(128, False), products) + "\n" + WGMMA_END
    return HEAD.format(threads=256, setup=WGMMA_SETUP + setup, body=f"""
    setp.ge.u32 %p, %t, 128;
    @%p bra OTHER;
{first}
    bra BOTH;
OTHER:
{other}
BOTH:""")


def run_beside(tilerun, folder):
    """FFMA in a row puts off products; loads get what products leave of the port.  (That batches of two groups take turns: --micro.)"""
    ffma = spread("fma.rn.f32 {d}, {a}, {b}, {b};")

    def load(k):
        return f"ld.shared.v4.u32 {{%r{8 + k % 12 * 4}, %r{9 + k % 12 * 4}, %r{10 + k % 12 * 4}, %r{11 + k % 12 * 4}}}, [%a];"

    bad = []
    for what, text, times, least, most in [("FFMA", ffma, 16, 64 + 0.95 * 16 - 1, 64 + 0.95 * 16 + 1), ("LDS.128", load, 2, 79, 81)]:
        took = []
        for n in [32, 64]:
            body = two_groups(n, FLOATS + lines(text, times * n), "")
            took.append(replay(tilerun, folder, body, 8))
            if isinstance(took[-1], str):
                return took[-1]
        each = (took[1] - took[0]) / 32
        if not least <= each <= most:
            bad.append(f"a product beside {times} {what}: {each:.1f} clocks, expected {least:.1f} to {most:.1f}")
    return "; ".join(bad) or None


def run_counter(tilerun, folder):
    """132 blocks draw numbers from a counter; of one SM's block alone, as if all did."""
    instructions = []
    for limit in [3 * 132, 6 * 132]:
        path = os.path.join(folder, "k.ptx")
        with open(path, "w", encoding="utf-8") as file:
            file.write(HEAD.format(threads=32, setup="", body=f"""
DRAW:
    @%first atom.global.add.u32 %r9, [%d0], 1;
    shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;
    setp.lt.u32 %p, %r9, {limit};
    @%p bra DRAW;"""))
        said = subprocess.run([tilerun, path, "--entry", "k", "--grid", "132", "--block", "32", "--arg", "zero:4096", "--device", "sim",
                               "--no-check", "--time", "sm_90,sample,ptx"], capture_output=True, text=True)
        found = re.search(r"(\d+) warp instructions", said.stdout)
        if not found:
            return said.stdout + said.stderr or f"exit status {said.returncode}"
        instructions.append(int(found[1]))
    more = instructions[1] - instructions[0]
    return None if more == 3 * 4 else f"{more} instructions more for three draws, expected 12"


def memory_kernel(rounds, warps, way):
    """Each of 132 blocks goes through a piece of its own, of `rounds` times 512 bytes a warp."""
    text = {"chase": "    ld.global.u64 %d5, [%d4];\n    add.u64 %d4, %d4, %d5;\n    add.u64 %d4, %d4, 512;\n",
            "read": "    ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%d4];\n    add.u64 %d4, %d4, STEP;\n",
            "write": "    st.global.v4.u32 [%d4], {%r0, %r1, %r2, %r3};\n    add.u64 %d4, %d4, STEP;\n"}[way].replace("STEP", str(512 * warps))
    return HEAD.format(threads=32 * warps, setup=f"""
    mov.u32 %r12, %ctaid.x;
    mul.wide.u32 %d4, %r12, {512 * rounds * warps};
    add.u64 %d4, %d4, %d0;
    mul.wide.u32 %d5, %t, 16;
    add.u64 %d4, %d4, %d5;
    mov.u32 %r63, 0;
ROUND:""", body=text + f"    add.u32 %r63, %r63, 1;\n    setp.lt.u32 %p, %r63, {rounds};\n    @%p bra ROUND;\n")


def run_memory(tilerun, folder):
    """What the L2 cache does not hold comes from memory, at its latency and rate; told with what that was."""
    bad = []
    for what, way, warps, rounds, least, most, told in [
            ("a load in the cache", "chase", 1, 512, 281, 302, "34.6 MB, which are in the L2 cache"),
            ("a load from memory", "chase", 1, 1024, 683, 710, "69.2 MB, more than the L2 cache holds: 69.2 MB come from HBM, 0.0 MB go there, 100 %"),
            ("512 bytes of many loads", "read", 16, 64, 512 / 17.35, 512 / 17.35 + 1, "69.2 MB, more than the L2 cache holds: 69.2 MB come from HBM, 0.0 MB"),
            ("512 bytes of stores", "write", 16, 64, 512 / 17.5, 512 / 17.35 + 1, "69.2 MB, more than the L2 cache holds: 0.0 MB come from HBM, 69.2 MB go")]:
        with open(os.path.join(folder, "k.ptx"), "w", encoding="utf-8") as file:
            file.write(memory_kernel(rounds, warps, way))
        said = subprocess.run([tilerun, os.path.join(folder, "k.ptx"), "--entry", "k", "--grid", "132", "--block", str(32 * warps), "--arg",
                               f"zero:{132 * 512 * rounds * warps}", "--device", "sim", "--no-check", "--time", "sm_90,sample,ptx,seeds=1"], capture_output=True, text=True)
        found = re.search(r"(\d+) without jitter", said.stdout)
        each = int(found[1]) / rounds / warps if found else 0
        if not least <= each <= most or told not in said.stdout:
            bad.append(f"{what}: {each:.1f} clocks, expected {least:.1f} to {most:.1f}; {said.stdout if told not in said.stdout else ''}{said.stderr}")
    return "; ".join(bad) or None


def adding_kernel(rounds, size, chain):
    """Each of 132 blocks adds twice so many bytes, waits for nothing of it, runs a chain of FFMA and copies 16 KB."""
    add = f"    @%first cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [%s+32768], {size};\n    @%first cp.async.bulk.commit_group;\n"
    wait = load_and_wait(16384)(0).replace("W0", "WAIT").replace(", 0;", ", %r62;")
    return HEAD.format(threads=32, setup=FLOATS + BARRIER + """
    mov.u32 %r63, 0; mov.u32 %r62, 0;
    add.u64 %d1, %d0, 65536;
ROUND:""", body=2 * add + lines(lambda k: "fma.rn.f32 %f0, %f0, %f34, %f35;", chain) + wait + f"""
    xor.b32 %r62, %r62, 1;
    add.u32 %r63, %r63, 1;
    setp.lt.u32 %p, %r63, {rounds};
    @%p bra ROUND;""")


def run_added(tilerun, folder):
    """A copy waits for what the copy engine of its SM was to add before, and for what other SMs add, by how busy that keeps the L2 cache."""
    bad, path = [], os.path.join(folder, "k.ptx")

    def each(size, chain, grid, how):
        took = []
        for rounds in [128, 256]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(adding_kernel(rounds, size, chain))
            said = subprocess.run([tilerun, path, "--entry", "k", "--grid", str(grid), "--block", "32", "--smem", "65536", "--arg", "zero:262144",
                                   "--device", "sim", "--no-check", "--time", "sm_90,sample,ptx,seeds=1" + how], capture_output=True, text=True)
            found = re.search(r"(\d+) without jitter", said.stdout)
            took.append(int(found[1]) if found else 0)
        return (took[1] - took[0]) / 128
    took = each(8192, 0, 1, "")
    least = 16384 / 25.5 + 318 + 16384 / 107  # additions, and then the copy
    if not least <= took <= least + 90:
        bad.append(f"a copy behind its SM's additions: {took:.1f} clocks, expected {least:.1f} to {least + 90:.1f}")
    for size, chain, busy in [(4096, 80, 0.55), (4608, 0, 0.77)]:
        adds = 2 * size * 132 / 1800
        alone, beside = (each(size, chain, 132, f",tma_in_order=0{queue}") for queue in [",add_queue=0", ""])
        part = adds / beside
        expected = 100 * part / (2 * (1 - part))
        if abs(part - busy) > 0.05 or abs(beside - alone - expected) > 0.03 * expected + 1:
            bad.append(f"a copy beside additions that keep the L2 cache busy {part:.2f} of the time: {beside - alone:.1f} clocks more, expected {expected:.1f}")
    return "; ".join(bad) or None


def run_few(tilerun, folder):
    """All SMs add to the same few bytes: a sector takes one addition after the other."""
    bad = []
    for region, how in [(4096, ""), (4096, ",add_sector=48"), (16384, ""), (1 << 20, "")]:
        took = []
        for count in [16, 32]:
            path, body = os.path.join(folder, "k.ptx"), "\n".join(f"    red.global.add.v4.f32 [%d5+{512 * (k % (region // 512))}], {{%f0, %f0, %f0, %f0}};" for k in range(count))
            with open(path, "w", encoding="utf-8") as file:
                file.write(HEAD.format(threads=32, setup=FLOATS + "    mul.wide.u32 %d5, %t, 16; add.u64 %d5, %d5, %d0;", body=body))
            said = subprocess.run([tilerun, path, "--entry", "k", "--grid", "132", "--block", "32", "--smem", "1024", "--arg", f"zero:{region}",
                                   "--device", "sim", "--no-check", "--time", "sm_90,sample,ptx,seeds=1" + how], capture_output=True, text=True)
            found = re.search(r"(\d+) without jitter", said.stdout)
            took.append(int(found[1]) if found else 0)
        each = (took[1] - took[0]) / 16
        # where a tensor has room, what SMs add to is taken to lie apart
        expected = 512 * 132 / 1800 if region > 16384 else 512 * 132 * (48 if how else 24) / region
        if abs(each - expected) > 0.02 * expected + 1:
            bad.append(f"additions of all SMs to {region} bytes{how}: {each:.1f} clocks each, expected {expected:.1f}")
    return "; ".join(bad) or None


def path_kernel(body, setup="", rounds=64):
    return HEAD.format(threads=128, setup=FLOATS + setup + "\n    mov.u32 %r63, 0;\nROUND:",
                       body=body + f"\n    add.u32 %r63, %r63, 1;\n    setp.lt.u32 %p, %r63, {rounds};\n    @%p bra ROUND;\n")


def lines(text, n):
    return "\n".join("    " + text(k) for k in range(n))


# name: (kernel, what nearly all of an iteration's path goes through, what makes the launch about as much faster)
PATHS = {
    "MUFU": (path_kernel(lines(spread("ex2.approx.ftz.f32 {d}, {a};"), 64)), "MUFU", "MUFU"),
    "FFMA, one after the other": (path_kernel(lines(lambda k: "fma.rn.f32 %f0, %f0, %f34, %f35;", 64)), "instructions", None),
    "wgmma": (path_kernel(lines(wgmma(128, False), 8) + "\n    wgmma.commit_group.sync.aligned;\n"
                          "    wgmma.wait_group.sync.aligned 1;", WGMMA_SETUP), "tensor unit", "tensor unit"),
    "bar.sync": (path_kernel("    bar.sync 0;\n" * 16), "barriers", "latency of barriers"),
}


def run_path(tilerun, folder, name):
    """The path of an iteration, and what would change with what."""
    body, through, faster = PATHS[name]
    with open(os.path.join(folder, "k.ptx"), "w", encoding="utf-8") as file:
        file.write(body)
    into = os.path.join(folder, "k.json")
    if os.path.exists(into):
        os.remove(into)
    said = subprocess.run([tilerun, os.path.join(folder, "k.ptx"), "--entry", "k", "--grid", "1", "--block", "128", "--smem", "65536",
                           "--arg", "zero:65536", "--device", "sim", "--no-check", "--time", f"sm_90,ptx,path,json={into}"],
                          capture_output=True, text=True)
    if "critical path of an iteration of" not in said.stdout or "one of " not in said.stdout:
        return said.stdout + said.stderr or f"exit status {said.returncode}"
    with open(into, encoding="utf-8") as file:
        got = json.loads(file.readline())
    path, of = got["path"], {row["name"]: row for row in got["what_if"]["of"]}
    if not path["loop"] or abs(sum(path["part"].values()) - path["clocks"]) > 1 + 0.001 * path["clocks"]:
        return f"the parts are not the whole: {path}"
    if path["part"].get(through, 0) < 0.85 * path["clocks"]:
        return f"the path does not go through {through}: {path['part']}"
    if got["by"] != "ptx":
        return f"not by costs of PTX, which were asked for: {got['by']}"
    base = got["what_if"]["cycles"]
    for row in of.values():
        share = base / row["faster"] - 1
        low, high = (0.04, 0.105) if row["name"] == faster else (-0.01, 0.03)
        if not low <= share <= high:
            return f"{row['name']} 10 % faster: {100 * share:.1f} %"
    return None


# Blocks whose tiles grow shorter: the first takes 1200 turns, the others of the first 132 from 640 on, those behind less
TURNS = """
    sub.u32 %r11, 640, %r9;
    setp.eq.u32 %p, %r9, 0;
    selp.u32 %r11, 1200, %r11, %p;
TURN:
    fma.rn.f32 %f0, %f0, %f34, %f35; fma.rn.f32 %f0, %f0, %f34, %f35; fma.rn.f32 %f0, %f0, %f34, %f35; fma.rn.f32 %f0, %f0, %f34, %f35;
    sub.u32 %r11, %r11, 1;
    setp.ne.u32 %p, %r11, 0;
    @%p bra TURN;
"""
DRAWN = "    mov.u32 %r9, %ctaid.x;\nTILE:\n" + TURNS + """
    @%first atom.global.add.u32 %r9, [%d0], 1;
    shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;
    add.u32 %r9, %r9, 132;
    setp.lt.u32 %p, %r9, {tiles};
    @%p bra TILE;"""


def dealt(tilerun, folder, body, blocks, how=",sample", shared=200000):
    """Cycles of a sample, and what is said of how work was dealt."""
    with open(os.path.join(folder, "k.ptx"), "w", encoding="utf-8") as file:
        file.write(HEAD.format(threads=32, setup=FLOATS, body=body))
    with open(os.path.join(folder, "memory"), "wb") as file:
        file.write(bytes(4096))
    said = subprocess.run([tilerun, os.path.join(folder, "k.ptx"), "--entry", "k", "--grid", str(blocks), "--block", "32", "--smem", str(shared),
                           "--arg", f"inout:{folder}/memory", "--device", "sim", "--no-check", "--time", f"sm_90,ptx{how}"], capture_output=True, text=True)
    cycles, told = re.search(r"(\d+) without jitter", said.stdout), re.search(r"(\d+ \w+ dealt .*)", said.stdout)
    return int(cycles[1]) if cycles else said.stdout + said.stderr, told[1] if told else ""


def run_deal(tilerun, folder):
    """Who has the longest tile gets no other, drawn from a counter or as a block; and of even tiles every SM gets as many."""
    alone, _ = dealt(tilerun, folder, DRAWN.format(tiles=132), 132)
    for what, body, blocks in [("tiles", DRAWN.format(tiles=200), 132), ("blocks", "    mov.u32 %r9, %ctaid.x;\n" + TURNS, 200)]:
        cycles, told = dealt(tilerun, folder, body, blocks)
        if not isinstance(cycles, int):
            return cycles
        if f"68 {what} dealt" not in told or "of block 0, has 0" not in told or abs(cycles - alone) > 0.02 * alone:
            return f"{what}: {cycles} cycles, {alone} of the longest tile; {told}"
    # all at once, in rows that repeat: the longest is the last of a row
    cycles, told = dealt(tilerun, folder, "    mov.u32 %r9, %ctaid.x;\n    xor.b32 %r9, %r9, 63;\n" + TURNS, "64,2")
    if not isinstance(cycles, int) or "of block 63" not in told or abs(cycles - alone) > 0.02 * alone:
        return f"rows of blocks: {cycles} cycles, {alone} of the longest block; {told}"
    # a whole launch as its sample; what it wrote stays
    whole, told_whole = dealt(tilerun, folder, DRAWN.format(tiles=200), 132, "")
    sample, told = dealt(tilerun, folder, DRAWN.format(tiles=200), 132)
    if (whole, told_whole) != (sample, told):
        return f"a whole launch: {whole}, {told_whole}; its sample: {sample}, {told}"
    dealt(tilerun, folder, DRAWN.format(tiles=200), 132, "")
    with open(os.path.join(folder, "memory"), "rb") as file:
        counter = int.from_bytes(file.read(4), "little")
    if counter != 200: # 68 tiles, and each block once more
        return f"a whole launch leaves {counter} in its counter"
    # with 500 tiles those who began with shorter ones end last
    cycles, told = dealt(tilerun, folder, DRAWN.format(tiles=500), 132)
    work = 1200 + sum(640 - k for k in range(1, 500))
    mean = re.search(r"the mean one at (\d+) %", told)
    if "368 tiles dealt" not in told or not mean or not work / 132 <= cycles / (alone / 1200) <= 1.25 * work / 132:
        return f"500 tiles: {cycles} cycles, {alone} of 1200 turns, {work} turns for all; {told}"
    # 20 rounds of blocks, the longest first: in turn the first SM had the longest of each round
    cycles, told = dealt(tilerun, folder, "    mov.u32 %r9, %ctaid.x;\n    div.u32 %r9, %r9, 5;\n" + TURNS, 20 * 132)
    work = 5 * (1200 + sum(640 - k for k in range(1, 20 * 132 // 5)))
    # .. and a block's begin costs some 30 turns
    if f"{19 * 132} blocks dealt" not in told or not 0.98 * work / 132 <= cycles / (alone / 1200) <= 1.02 * work / 132 + 30 * 20:
        return f"20 rounds: {cycles} cycles, {alone} of 1200 turns, {work} turns for all; {told}"
    return None


def run_figures(tilerun, folder):
    """docs/timing.md says with which figures its tables were made.  Who changes a table of backends/ptx has to make those anew."""
    with open(os.path.join(ROOT, "docs", "timing.md"), encoding="utf-8") as file:
        told = dict(re.findall(r"(sm_\d+) `([0-9a-f]{8})`", file.read()))
    with open(os.path.join(folder, "k.ptx"), "w", encoding="utf-8") as file:
        file.write(PATHS["bar.sync"][0].replace(".target sm_90a", ".target sm_90"))  # which every chip runs
    bad, into = [], os.path.join(folder, "figures.json")
    for how in ["sm_90", "sm_100", "sm_103", "sm_90,mufu=4"]:
        said = subprocess.run([tilerun, os.path.join(folder, "k.ptx"), "--entry", "k", "--grid", "1", "--block", "128", "--smem", "65536",
                               "--arg", "zero:65536", "--device", "sim", "--no-check", "--time", f"{how},ptx,seeds=1,json={into}"],
                              capture_output=True, text=True)
        with open(into, encoding="utf-8") as file:
            have = json.loads(file.readline())["figures"]
        os.remove(into)
        if f"figures {have}, of which" not in said.stdout:
            bad.append(f"{how}: {have} is not in the report")
        target = how.split(",")[0]
        if target != how and have == told.get(target):
            bad.append(f"{how}: the figures of the table itself")
        if target == how and have != told.get(target):
            bad.append(f"{how}: figures {have}, docs/timing.md was made with {told.get(target)}: its tables want to be made anew, then "
                       "its line of figures")
    return "; ".join(bad) or None


SVG = "{http://www.w3.org/2000/svg}"


def faults_of_picture(text):
    """Bars lie in their lanes, and nothing comes from elsewhere."""
    root = tree.fromstring(text)
    width, height = float(root.get("width")), float(root.get("height"))
    places = [{k: float(r.get(k)) for k in ["x", "y", "width", "height"]} | {"class": r.get("class")}
              for r in root.iter(SVG + "rect") if r.get("width") != "100%"]
    lanes, bars = [p for p in places if p["class"] == "lane"], [p for p in places if p["class"] != "lane"]
    names = [t.text for t in root.iter(SVG + "text") if t.get("class") == "name"]
    bad = [f"no lane {name}: {names}" for name in ["tensor unit", "shared memory", "warps 0 to 3"] if name not in names]
    if len(lanes) < 3 or not {"g0", "works", "path"} <= {p["class"] for p in bars}:
        bad.append(f"{len(lanes)} lanes, bars {sorted({p['class'] for p in bars})}")
    for bar in bars:
        if not any(bar["x"] >= l["x"] - 0.1 and bar["x"] + bar["width"] <= l["x"] + l["width"] + 0.1 and bar["y"] >= l["y"] - 0.1 and
                   bar["y"] + bar["height"] <= l["y"] + l["height"] + 0.1 for l in lanes):
            bad.append(f"a bar lies in no lane: {bar}")
    bad += [f"a lane lies outside: {l}" for l in lanes if l["x"] + l["width"] > width or l["y"] + l["height"] > height]
    bad += [word for word in ["href", "<script", "url(", "<image", "@import"] if word in text]
    return bad


def faults_of_trace(path):
    """Of ,trace=FILE: each track has a name, events lie within the launch, and those of a track do not overlap but nest."""
    bad, ends = [], {}
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["ph"] == "M"}
    spans = sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["pid"], e["tid"], e["ts"], -e["dur"]))
    for e in spans:
        track = e["pid"], e["tid"]
        while ends.get(track) and ends[track][-1] <= e["ts"] + 2e-4:
            ends[track].pop()
        if track not in names or e["ts"] < 0 or e["dur"] <= 0:
            bad.append(f"an event of no track, or of no time: {e}")
        if ends.get(track) and e["ts"] + e["dur"] > ends[track][-1] + 2e-4:
            bad.append(f"{names.get(track)}: events overlap: {e}")
        ends.setdefault(track, []).append(e["ts"] + e["dur"])
    shown = {names.get((e["pid"], e["tid"])) for e in spans}
    bad += [f"no events of {name}" for name in ("tensor unit", "block 0, warps 0 to 3") if name not in shown]
    return bad[:3] + [f"{len(spans)} events"] * (len(spans) < 10)


def run_picture(tilerun, folder):
    """,svg=FILE and ,trace=FILE: of the kernel of products; a file that cannot be written is left as it was."""
    command = [tilerun, os.path.join(folder, "k.ptx"), "--entry", "k", "--grid", "1", "--block", "128", "--smem", "65536", "--arg",
               "zero:65536", "--device", "sim", "--no-check", "--time"]
    with open(os.path.join(folder, "k.ptx"), "w", encoding="utf-8") as file:
        file.write(PATHS["wgmma"][0])
    into = os.path.join(folder, "k.svg")
    said = subprocess.run(command + [f"sm_90,ptx,svg={into}"], capture_output=True, text=True)
    if said.returncode != 0 or not os.path.exists(into):
        return said.stdout + said.stderr or f"exit status {said.returncode}"
    with open(into, encoding="utf-8") as file:
        bad = faults_of_picture(file.read())
    trace = os.path.join(folder, "k.trace")
    subprocess.run(command + [f"sm_90,ptx,trace={trace}"], capture_output=True, text=True)
    bad += faults_of_trace(trace) if os.path.exists(trace) else ["no trace is written"]
    said = subprocess.run(command + [f"sm_90,ptx,svg={folder}/no/such/k.svg"], capture_output=True, text=True)
    if "cannot write" not in said.stderr:
        bad.append("nothing is said about a file that cannot be written")
    left = [name for name in os.listdir(folder) if name not in ["k.ptx", "k.svg", "k.trace", "k.json", "memory"]]
    return "; ".join(bad + left) or None


def measurements():
    with open(os.path.join(ROOT, "bench", "micro", "results-h200.json"), encoding="utf-8") as file:
        return {row["name"]: row["longest"] for row in json.load(file)["results"]}


def show(name, measured, cycles, bound):
    """Whether it is too far off."""
    if isinstance(cycles, str):
        print(f"{name}: {cycles} FAILED")
        return True
    off = 100 * cycles / measured - 100
    bad = abs(off) > bound
    print(f"{name:28} measured {measured:8.0f}, replayed {cycles:8d}: {off:+5.1f} %{' FAILED' if bad else ''}", flush=True)
    return bad


def micro(tilerun, folder):
    measured, bad, all_kernels = measurements(), 0, {kernel.name: kernel for kernel in kernels.all_kernels()}
    for name, bound in MICRO.items():
        kernel = all_kernels[name]
        cycles = replay(tilerun, folder, kernel.ptx, kernel.warps, name, ["scratch=4096", "zero:33554432"], kernels.SHARED)
        before = BEFORE + BEFORE_LOAD * kernel.warps * kernel.ptx.split("%clock64")[0].count("ld.global")
        bad += show(name, measured[name], cycles if isinstance(cycles, str) else cycles - int(before), bound)
    print(f"{len(MICRO)} microbenchmarks from PTX, {bad} too far off")
    return bad


def micro_code(tilerun, folder, patterns):
    measured, bad, offs = measurements(), 0, []
    for kernel in kernels.all_kernels() + groups.all_kernels():
        alone = kernel.blocks == "one" or "bulk" not in kernel.name and "red" not in kernel.name  # else SMs share something
        if not alone or kernel.cluster > 1 or measured.get(kernel.name, 0) < 200 or kernel.name in NOT_MODELLED or \
                not any(fnmatch.fnmatch(kernel.name, p) for p in patterns):
            continue
        cycles = replay(tilerun, folder, kernel.ptx, kernel.warps, kernel.name, ["scratch=4096", "zero:33554432"], kernels.SHARED, ",seeds=1")
        bad += show(kernel.name, measured[kernel.name], cycles, CODE_BOUNDS.get(kernel.name, CODE_BOUND))
        if not isinstance(cycles, str):
            offs.append(abs(100 * cycles / measured[kernel.name] - 100))
    print(f"{len(offs)} microbenchmarks from machine code, {bad} too far off; mean {sum(offs) / len(offs):.1f} %, "
          f"{sum(o <= 2 for o in offs)} within 2 %, {sum(o <= 5 for o in offs)} within 5 %")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--micro", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        if args.micro and shutil.which("ptxas") and shutil.which("nvdisasm"):
            return 1 if micro_code(args.tilerun, folder, args.names or CODE) else 0
        if args.micro:
            return 1 if micro(args.tilerun, folder) else 0
        for name in args.names or CASES:
            wrong = run_case(args.tilerun, folder, name)
            bad += wrong is not None
            print(f"{'FAILED' if wrong else 'passed'}: {name}{': ' + wrong if wrong else ''}")
        for name in [] if args.names else PATHS:
            wrong = run_path(args.tilerun, folder, name)
            bad += wrong is not None
            print(f"{'FAILED' if wrong else 'passed'}: the path of {name}{': ' + wrong if wrong else ''}")
        for what, run in [] if args.names else [("products beside others", run_beside), ("memory behind the L2 cache", run_memory), ("copies behind additions", run_added), ("additions to few bytes", run_few), ("figures", run_figures), ("a picture", run_picture), ("a counter, one SM", run_counter), ("tiles to who is free", run_deal)]:
            wrong = run(args.tilerun, folder)
            bad += wrong is not None
            print(f"{'FAILED' if wrong else 'passed'}: {what}{': ' + wrong if wrong else ''}")
    print(f"{len(args.names or CASES)} cases, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
