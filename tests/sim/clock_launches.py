#!/usr/bin/env python3
"""clock_launches.py - what `tilerun --time` says of whole launches: of barriers that are made again, of multicasts, of other chips.

    clock_launches.py --tilerun TILERUN

Each test runs small PTX of its own and compares two times of it, or reads what is said.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

HEAD = """.version 8.1
.target {target}
.address_size 64
.visible .entry k(.param .u64 in) .reqntid 128,1,1
{{
    .reg .b32 %turn, %tid, %s, %b, %rank, %c; .reg .b64 %d; .reg .pred %leader, %other, %done, %more, %first;
    .shared .align 128 .b8 s[16384]; .shared .align 8 .b64 b;
    ld.param.u64 %d, [in];
    mov.u32 %tid, %tid.x; mov.u32 %s, s; mov.u32 %b, b; mov.u32 %turn, 0; setp.eq.u32 %leader, %tid, 0;
"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %done, [%b], {parity};\n @!%done bra W;\n"
TAIL = "    add.u32 %turn, %turn, 1; setp.lt.u32 %more, %turn, {turns};\n    @%more bra L;\n    {end}ret;\n}}\n"


def again(turns):
    """An mbarrier that each turn of a loop initialises, waits for once, and invalidates."""
    return (HEAD + """L:  @%leader mbarrier.init.shared::cta.b64 [%b], 1;
    bar.sync 0;
    @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 8192;
    @%leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%d], 8192, [%b];
""" + WAIT + "    bar.sync 0;\n    @%leader mbarrier.inval.shared::cta.b64 [%b];\n    bar.sync 0;\n"
            + TAIL).format(target="sm_90a", parity=0, turns=turns, end="")


def pair(multicast, turns=32):
    """Two blocks that get the same 16 KB each turn: each by a copy of its own, or both by a multicast of the first."""
    if multicast:
        copy = ("    and.pred %first, %leader, %other; not.pred %first, %first; and.pred %first, %first, %leader;\n"
                "    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                "[%s], [%d], 16384, [%b], 3;\n")
    else:
        copy = ("    @%leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                "[%s], [%d], 16384, [%b];\n")
    meet = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"
    return (HEAD.replace(".reqntid", ".reqnctapercluster 2,1,1 .reqntid") + """    mov.u32 %rank, %cluster_ctarank;
    setp.ne.u32 %other, %rank, 0;
    @%leader mbarrier.init.shared::cta.b64 [%b], 1;
""" + meet + "L:  @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 16384;\n" + meet + copy
            + "    and.b32 %c, %turn, 1;\n" + WAIT + meet + TAIL).format(target="sm_90a", parity="%c", turns=turns, end="")


class Run:
    def __init__(self, tilerun, folder):
        self.tilerun, self.folder = tilerun, folder

    def __call__(self, text, chip, grid=1, more=()):
        path = os.path.join(self.folder, "k.ptx")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return subprocess.run([self.tilerun, path, "--entry", "k", "--grid", str(grid), "--block", "128", "--arg",
                               "zero:16384", "--device", "sim", "--quiet", "--time", chip.replace(",", ",ptx,", 1) if "," in chip else f"{chip},ptx", *more],
                              capture_output=True, text=True)

    def cycles(self, text, chip, grid=1, more=()):
        done = self(text, chip, grid, more)
        assert done.returncode == 0, done.stderr + done.stdout
        words = [line.split() for line in done.stdout.split("\n") if " cycles (" in line]
        assert len(words) == 1, done.stdout
        return int(words[0][0])


def test_barriers_again(run):
    one, four, eight = (run.cycles(again(turns), "sm_90") for turns in (1, 4, 8))
    assert four > 2.5 * one, (one, four)
    assert abs((eight - four) - 4 * (four - one) / 3) < 0.05 * eight, (one, four, eight)


def test_multicast_is_not_dearer(run):
    for grid in (2, 132):  # alone, and where all SMs share the L2 cache
        apart = run.cycles(pair(False), "sm_90", grid, ("--cluster", "2,1,1"))
        together = run.cycles(pair(True), "sm_90", grid, ("--cluster", "2,1,1"))
        assert 0.3 * apart < together <= 1.01 * apart, (grid, apart, together)


def test_other_chips_are_refused(run):
    for target, chip, runs in [("sm_90a", "sm_90", True), ("sm_90a", "sm_100", False), ("sm_100a", "sm_90", False),
                               ("sm_90", "sm_100", True), ("sm_100f", "sm_103", True), ("sm_80", "sm_90", True),
                               ("sm_103a", "sm_100", False), ("sm_120", "sm_100", False)]:
        done = run(again(1).replace(".target sm_90a", f".target {target}").replace(".version 8.1", ".version 8.8"), chip)
        assert done.returncode == (0 if runs else 1), (target, chip, done.stdout, done.stderr)
        if not runs:
            assert f"--time {chip}: the code is for {target}" in done.stderr and "cycles" not in done.stdout, done


def test_path_of_several_blocks(run):
    """The way back goes on in the block that made room, where a block ends that began late."""
    chain = HEAD.format(target="sm_90a") + "    mul.lo.u32 %c, %tid, 3;\n" + "    mul.lo.u32 %c, %c, %tid;\n" * 256 + "    ret;\n}\n"
    said = run(chain, "sm_90,sample", 132 * 78).stdout
    assert "78 of 10296 blocks, 13 at a time" in said, said
    start = re.search(r"critical path of the launch, .*start (\d+) %", said)
    assert start and 10 < int(start[1]) < 40, said # the starts themselves: 420 clocks each


def test_clock_falls_with_load(run):
    """A kernel without products does not run at the clock of one that keeps the tensor unit busy."""
    text = again(1).replace(".target sm_90a", ".target sm_90")
    for chip, busy in [("sm_90", 1627), ("sm_100", 1447), ("sm_103", 1552)]:
        limit = re.search(r"at the (\d+) MHz of a chip at its power limit", run(text, chip).stdout)
        assert limit is None or int(limit[1]) > busy + 200, (chip, limit)


def test_number_of_sms(run):
    said = run(again(1), "sm_90", 264)
    half = run(again(1), "sm_90,sms=66", 264)
    assert "of one SM: 2 of 264 blocks" in said.stdout and "of one SM: 4 of 264 blocks" in half.stdout, half.stdout
    none = run(again(1), "sm_90,sms=0")
    assert none.returncode == 1 and "sms is how many SMs the chip has, 1 at least" in none.stderr, none


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilerun", required=True)
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    with tempfile.TemporaryDirectory() as folder:
        run = Run(parser.parse_args().tilerun, folder)
        for name, test in tests.items():
            test(run)
            print(f"passed: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
