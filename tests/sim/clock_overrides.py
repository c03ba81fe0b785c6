#!/usr/bin/env python3
"""clock_overrides.py - every figure that `--time CHIP,FIGURE=VALUE` takes changes the time of some launch.

    clock_overrides.py --tilerun TILERUN           by costs of PTX
    clock_overrides.py --tilerun TILERUN --code    those of machine code: ptxas and nvdisasm, a minute

A figure that is printed and does nothing is worse than one that is refused.  Each row of clock_row_names.c has a launch here
whose cycles (or microseconds) are others with another value of it; a row that has none fails.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "micro"))
import additions  # noqa: E402
import clock  # noqa: E402
import clock_sm100  # noqa: E402
import groups  # noqa: E402
import hbm  # noqa: E402
import kernels  # noqa: E402
import runs  # noqa: E402
import sm100  # noqa: E402

MAP = "map:bf16:128:64x16384:64x128:zero:2097152"
OUTSIDE = "l2_held=0,l2_lost=1," # of the L2 cache
NEXT = """
    mov.u32 %w, %bar;
    @%lead mbarrier.init.shared::cta.b64 [%w], 1;
    bar.sync 0;
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%w], 16;
    @%lead clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%s], [%w];
NEXT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%w], 0;
    @!%p bra NEXT;
"""
ARRIVES = """
    @%lead mbarrier.init.shared::cta.b64 [%bar], 1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 512;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%a], {%r0, %r1, %r2, %r3}, [%b];
ARRIVED: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
    @!%p bra ARRIVED;
"""


class Launch:
    """PTX and how it is launched."""
    def __init__(self, chip, ptx, warps=1, grid=1, cluster=1, shared=65536, entry="k", arguments=("zero:65536",)):
        self.chip, self.ptx, self.entry = chip, ptx, entry
        self.words = ["--entry", entry, "--grid", str(grid), "--cluster", f"{cluster},1,1", "--block", str(32 * warps), "--smem", str(shared)]
        self.words += [word for a in arguments for word in ("--arg", a)]


def case(name, n=16):
    """n operations of a case of clock.py."""
    _, text, warps, _, setup, end = clock.CASES[name]
    body = "\n".join("    " + text(k) for k in range(n)) + "\n" + end
    return Launch("sm_90", clock.HEAD.format(threads=32 * warps, setup=setup, body=body), warps)


def many(blocks=1056, warps=1, shared=0, head=""):
    """More blocks than run at once."""
    _, text, _, _, setup, _ = clock.CASES["MUFU, one after the other"]
    ptx = clock.HEAD.format(threads=32 * warps, setup=setup, body="\n".join("    " + text(k) for k in range(16)))
    return Launch("sm_90", ptx.replace(".reqntid", head + ".reqntid"), warps, blocks, shared=shared)


def on_sm100(before, text="", behind="", warps=1, blocks=1, grid=None, chip="sm_100"):
    ptx = sm100.entry("k", before + text + behind, warps=warps, blocks=blocks)
    return Launch(chip, ptx, warps, grid or blocks, blocks, kernels.SHARED, arguments=("scratch=4096", "zero:65536"))


def case100(name, n=8):
    c = clock_sm100.CASES[name]
    return on_sm100(c.before, "\n".join("    " + c.text(k) for k in range(n)), "\n" + c.behind, c.warps, c.blocks, chip=c.target)


def beside(text, end="", n=32):
    """Warps 1 to 4 do this while products run."""
    return on_sm100(clock_sm100.BESIDE.replace("{a}", "%da"), "\n".join("    " + text for _ in range(n)), "\n" + end + "END:\n", 5)


def products_and_chain():
    """A thread starts products, and has as much to do by itself before it waits for them."""
    text, before, behind = clock_sm100.product(128, 64, "SS")
    chain = "    fma.rn.f32 %f0, %f0, %f34, %f35;\n" * 96
    return on_sm100(clock_sm100.FLOATS + before, "\n".join("    " + text(k) for k in range(8)) + "\n" + chain, behind, 4)


def micro(name, rounds=None, room="33554432"):
    """A microbenchmark; by PTX with few rounds."""
    of = MICRO[name]
    ptx = re.sub(r"mov\.u32 %i, \d+;", f"mov.u32 %i, {rounds};", of.ptx) if rounds else of.ptx
    more = (MAP,) if "map[128]" in ptx else ()
    return Launch("sm_90", ptx, of.warps, 1 if of.blocks == "one" else 132, of.cluster, kernels.SHARED, name, ("scratch=4096", "zero:" + room) + more)


def memory(way, rounds=16, warps=4):
    ptx = clock.memory_kernel(rounds, warps, "write" if way == "both" else way)
    if way == "both":
        ptx = ptx.replace("    st.global", "    ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%d4];\n    st.global")
    return Launch("sm_90", ptx, warps, 132, arguments=(f"zero:{132 * 512 * rounds * warps}",))


MICRO = {k.name: k for module in (kernels, groups, runs, hbm, additions) for k in module.all_kernels()}
FFMA, LDS = "FFMA, one after the other", "LDS, one after the other"
LDG, BAR = "LDG, one after the other", "bar.sync of one warp"
COPY, PARTS = "copies of 16 KB, one after the other", "STG of 4 bytes in 16 sectors"
# figure: (launch, another value[, other figures of both launches])
PTX = {
    "sms": (many, 66), "mhz": (lambda: case(FFMA), 990), "mhz_busy": (lambda: case(FFMA), 900), "mhz_point": (lambda: case(FFMA), 1),
    "schedulers": (lambda: case("FFMA, four warps of a scheduler"), 2),
    "registers": (lambda: many(head=".maxnreg 128 "), 4096), "threads": (many, 64), "blocks": (many, 2),
    "shared": (lambda: many(shared=30000), 65536), "shared_block": (lambda: many(shared=30000), 100000),
    "fma": (lambda: case("FFMA"), 3), "alu": (lambda: case("FMNMX"), 5), "imad": (lambda: case("IMAD"), 5),
    "mufu": (lambda: case("MUFU"), 4), "pack": (lambda: case("F2FP"), 5), "packed": (lambda: case100("FFMA2"), 5),
    "fixed_latency": (lambda: case(FFMA), 9), "mufu_latency": (lambda: case("MUFU, one after the other"), 40),
    "branch": (lambda: micro("latency_ex2_1w", 4), 90), "shuffle": (lambda: case("SHFL, one after the other"), 60),
    "shuffle_latency": (lambda: case("SHFL, one after the other"), 60), "shared_bytes": (lambda: case(LDS), 16),
    "load_bytes": (lambda: case(LDS), 8), "store_bytes": (lambda: case(LDS), 8), "shared_latency": (lambda: case(LDS), 60),
    "matrix_latency": (lambda: micro("shared_chase_ldmatrix_1w_s16", 4), 60), "global_bytes": (lambda: case(LDG), 16),
    "global_store_bytes": (lambda: case(PARTS), 8), "global_least": (lambda: micro("narrow_load_4_16w_one", 4), 9),
    "global_line": (lambda: case("LDG of 8 bytes in 8 lines"), 9),
    "store_merge": (lambda: case("STG of 4 bytes, four of which fill them"), 1), "global_latency": (lambda: case(LDG), 900),
    "memory_queue": (lambda: case("LDS.128 of four schedulers", 96), 1), "add_bytes": (lambda: micro("red_16_16w_one", 2), 5),
    "warp_mma_flops": (lambda: micro("mma_16w_c4", 2), 500), "warp_mma_latency": (lambda: micro("mma_1w_c1", 2), 90),
    "group_mma_flops": (lambda: case("wgmma n128, shared"), 1024), "group_mma_latency": (lambda: case("wgmma n128, shared"), 300),
    "group_mma_least": (lambda: case("wgmma n8, registers: the least"), 90), "group_mma_queue": (lambda: micro("lopsided_n64_SS_32_1", 3), 1),
    "tma_issue": (lambda: case(COPY, 4), 900), "tma_bytes": (lambda: case(COPY, 4), 20), "tma_latency": (lambda: case(COPY, 4), 900),
    "tma_store_bytes": (lambda: case("stores of 16 KB", 4), 8), "tma_store_latency": (lambda: case("stores of 16 KB", 4), 900),
    "tma_store_read": (lambda: micro("bulk_wait_4096_read", 4), 40), "tma_add_bytes": (lambda: case("additions of 16 KB", 4), 5),
    "tma_in_order": (lambda: micro("pull_d1_add", 16), 0), "add_queue": (lambda: micro("pull_d1_add", 16), 1000),
    "add_sector": (lambda: micro("add_few_16_4w_4096", 4, "4096"), 90),
    "mma_queue": (lambda: products_and_chain(), 1), "mma_issue": (lambda: case100("product, M 128 N 64"), 200),
    "mma_copy_bytes": (lambda: case100("tcgen05.cp of 128x256b"), 8), "tmem_bytes": (lambda: case100("tcgen05.ld x32"), 32),
    "tmem_issue": (lambda: case100("tcgen05.ld x4"), 20), "tmem_least": (lambda: case100("tcgen05.ld x1"), 20),
    "tmem_latency": (lambda: case100("tcgen05.ld x4"), 90), "tmem_stored": (lambda: case100("tcgen05.wait::st"), 90),
    "tmem_alloc": (lambda: case100("FFMA2"), 900), "stores_apart": (lambda: case100("LDS.128 and STS.128, two ports, one way of a scheduler"), 0),
    "store_products": (lambda: beside("st.shared.v4.u32 [%a], {%r0, %r1, %r2, %r3};", n=192), 0.1),
    "tma_store_products": (lambda: beside("@%first cp.async.bulk.global.shared::cta.bulk_group [%data], [%s], 4096;",
                                          "    @%first cp.async.bulk.commit_group;\n    @%first cp.async.bulk.wait_group 0;\n"), 0.1),
    "barrier": (lambda: case(BAR), 90), "barrier_warp": (lambda: case(BAR), 90), "arrive": (lambda: micro("mbarrier_pong", 4), 900),
    "try": (lambda: case("mbarrier, a phase that is over"), 90), "cluster_barrier": (lambda: case100("product of a pair, M 256 N 64"), 900),
    "cluster_bytes": (lambda: case100("st.async to the other block"), 2),
    "cluster_latency": (lambda: on_sm100(clock_sm100.PEER, ARRIVES, blocks=2), 2000), "fence": (lambda: micro("fence_cta", 4), 90),
    "fence_proxy": (lambda: case("fence.proxy.async"), 90), "next_work": (lambda: on_sm100(clock_sm100.LANES, NEXT), 2000),
    "start": (lambda: case(FFMA), 900), "chip_read": (lambda: memory("read"), 400),
    "chip_read_boxes": (lambda: micro("tensor_load_128_d4_all", 4), 400), "chip_write": (lambda: memory("write"), 400),
    "chip_write_parts": (lambda: case(PARTS), 90), "chip_add": (lambda: micro("bulk_add_4096_all", 4), 300),
    "l2_held": (lambda: memory("read"), 0, "l2_lost=1"), "l2_lost": (lambda: memory("read"), 1, "l2_held=0"),
    "hbm": (lambda: memory("read"), 400, OUTSIDE), "hbm_both": (lambda: memory("both"), 300, OUTSIDE),
    "hbm_latency": (lambda: memory("chase"), 3000, OUTSIDE), "hbm_queue": (lambda: micro("flow_read_8w_2l", 16), 3000, OUTSIDE),
    "mufu_store_bytes": (lambda: case("STS.128 of four schedulers"), 20),
}
CODE = {
    "code_mufu": ("latency_ex2_1w", 60), "code_branch": ("latency_ex2_1w", 60), "code_try": ("mbarrier_ready", 300),
    "code_arrive": ("mbarrier_pong", 300), "code_group_mma": ("wgmma_n64_SS_d1_g1", 300), "code_group_mma_rs": ("wgmma_n64_RS_d1_g1", 300),
    "code_tma_issue": ("bulk_load_4096_d4_one_4m", 900), "code_tma": ("bulk_load_1024_d1_one_2m", 900),
    "code_tma_bytes": ("bulk_load_16384_d4_one_4m", 20), "code_tma_boxes": ("tensor_load_128_d1_one", 900), "code_fence": ("fence_cta", 300),
    "code_fence_proxy": ("fence_proxy_async", 300), "fetch": ("rate_ffma_4w", 90, "fetch_bytes=64"), "fetch_bytes": ("rate_ffma_4w", 100000, "fetch=90"),
    "bank": ("rate_ffma_16w_own", 9), "bank_slack": ("rate_ffma_16w_own", 0), "port_fma": ("rate_ffma_16w", 9),
    "port_alu": ("mix_ffma1_fmnmx_16w", 9), "port_imad": ("rate_imad_16w", 9), "port_mufu": ("beside_ex2_n64_SS", 90),
    "port_products": ("beside_max_n64_SS", 0.9), "alu_products": ("beside_max_n64_SS", 90), "mufu_products": ("beside_ex2_n64_SS", 90),
    "fma_products": ("runs_one4_none_g1_n128_SS", 9), "fma_run": ("runs_one4_none_g1_n128_SS", 99),
    "fma_room": ("runs_one16_loop_g1_n128_SS", 900), "fma_recovers": ("runs_one16_loop_g1_n128_SS", 0),
}


def figures():
    with open(os.path.join(ROOT, "backends", "clock", "clock_row_names.c"), encoding="utf-8") as file:
        return re.findall(r"\[CLOCK_\w+\] = \"(\w+)\"", file.read())


class Times:
    def __init__(self, tilerun, folder, how):
        self.tilerun, self.folder, self.how, self.had = tilerun, folder, how, {}

    def __call__(self, launch, figure):
        """The line of cycles and microseconds."""
        key = (launch.ptx, *launch.words, figure)
        if key not in self.had:
            path = os.path.join(self.folder, "k.ptx")
            with open(path, "w", encoding="utf-8") as file:
                file.write(launch.ptx)
            done = subprocess.run([self.tilerun, path, *launch.words, "--device", "sim", "--no-check", "--time",
                                   f"{launch.chip},sample,seeds=1{self.how}{figure}"], capture_output=True, text=True)
            found = re.search(r"^  \d+ cycles .*$", done.stdout, re.M)
            self.had[key] = found[0] if found else "failed: " + done.stdout + done.stderr
        return self.had[key]


def effect(times, launch, figure, value, others=""):
    """None, or why there is none."""
    others = "," + others.strip(",") if others else ""
    before, after = times(launch, others), times(launch, f"{others},{figure}={value}")
    for said in (before, after):
        if said.startswith("failed"):
            return said
    return None if before != after else f"no effect: {before.strip()} either way"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--code", action="store_true")
    parser.add_argument("figures", nargs="*")
    args = parser.parse_args()
    if args.code and not (shutil.which("ptxas") and shutil.which("nvdisasm")):
        print("ptxas or nvdisasm is not in PATH")
        return 77
    tables = set(PTX) | set(CODE)
    bad = [f"{name}: has no launch here" for name in figures() if name not in tables]
    bad += [f"{name}: is no figure" for name in tables if name not in figures()]
    with tempfile.TemporaryDirectory() as folder:
        times = Times(args.tilerun, folder, "" if args.code else ",ptx")
        for name, (of, *more) in (CODE if args.code else PTX).items():
            if args.figures and name not in args.figures:
                continue
            wrong = effect(times, micro(of) if args.code else of(), name, *more)
            bad += [f"{name}: {wrong}"] if wrong else []
    for line in bad:
        print("FAILED:", line)
    print(f"{len(CODE if args.code else PTX)} figures, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
