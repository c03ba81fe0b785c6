#!/usr/bin/env python3
"""properties.py - what the attention kernels are made of, loop by loop.

    properties.py --tilec T --examples FOLDER [--print]

A loop is the text between a label and the last branch back to it.  Inner loops must not divide,
load by 16-byte copies and ldmatrix.x4, and take one multiply-add for each exponential; the forward
kernel never stores its probabilities; no access has bank conflicts; output is stored 16 bytes at a
time.

With a plan: the loop has products of warp groups and nothing that keeps ptxas from running them
side by side (accumulators stay in their registers), next to no integer arithmetic, and the copies
are TMA's.

Kernels that may start early touch no global memory before they have waited for those before them,
and no thread goes past the wait.
"""
import argparse
import os
import re
import subprocess
import sys


class Tester:
    def __init__(self, options):
        self.options, self.good, self.bad = options, 0, 0

    def check(self, what, holds, detail=""):
        self.good += bool(holds)
        self.bad += not holds
        if not holds:
            print(f"{what}: {detail}")

    def compile(self, example, arch, *flags):
        path = os.path.join(self.options.examples, example + ".tile")
        # what ptxas would say is not looked at, and it would take ten times as long
        done = subprocess.run([self.options.tilec, path, "-arch", arch, "--report", "--ptxas=/bin/true", "-o", "-",
                               *flags], capture_output=True, text=True, check=True)
        return done.stdout, done.stdout + done.stderr


def kernels(ptx):
    return {m[1]: m[2].split("\n") for m in
            re.finditer(r"^\.visible \.entry (\w+)\((.*?)^\}", ptx, re.M | re.S)}


def loops(lines):
    """Innermost loops, as lists of instructions; waiting for a barrier is none."""
    places = {m[1]: k for k, line in enumerate(lines) if (m := re.match(r"(\$L\d+):", line))}
    ends = {}
    for k, line in enumerate(lines):
        branch = re.match(r"\s+(?:@!?%p\d+ )?bra(?:\.uni)? (\$L\d+);", line)
        if branch and places[branch[1]] < k:
            ends[places[branch[1]]] = k
    waits = {a for a, b in ends.items() if any("mbarrier.try_wait" in x for x in lines[a:a + 3])
             and b <= a + 3}
    ends = {a: b for a, b in ends.items() if a not in waits}
    spans = [(a, b) for a, b in ends.items()
             if not any(c > a and d < b for c, d in ends.items())]
    return [[line.strip() for line in lines[a + 1:b + 1]] for a, b in sorted(spans)]


def opcodes(body):
    stripped = [line.strip() for line in body]
    return [re.sub(r"^@!?%p\d+ ", "", line).split(" ")[0].rstrip(";") for line in stripped
            if line and not line.startswith(("$", "//", "."))]


def count(body, pattern):
    return sum(bool(re.fullmatch(pattern, op)) for op in opcodes(body))


def waits_first(lines):
    """What is wrong with how a kernel waits for those before it; "": nothing."""
    places = [k for k, line in enumerate(lines) if "griddepcontrol.wait" in line]
    if len(places) != 1 or lines[places[0]].strip() != "griddepcontrol.wait;":
        return "no wait of all threads, or several"
    before = lines[:places[0]]
    labels = {line.rstrip(":") for line in before if line.startswith("$")}
    for line in before:
        if re.search(r"\.global|cp\.async|cp\.reduce|prefetch", line) and "cvta" not in line:
            return f"before the wait: {line.strip()}"
        branch = re.search(r"bra(?:\.uni)? (\$L\d+);", line)
        if (branch and branch[1] not in labels) or re.search(r"\bret;|\bexit;", line):
            return f"past the wait: {line.strip()}"
    return ""


def exponentials(body):
    """(exponentials, those of a multiply-add)"""
    made = {}
    all_of, fused = 0, 0
    for line in body:
        words = re.match(r"(?:@!?%p\d+ )?(\S+) (%f\d+), ([^,;]+)", line)
        if not words:
            continue
        if words[1].startswith("ex2"):
            all_of += 1
            fused += made.get(words[3], "").startswith("fma")
        made[words[2]] = words[1]
    return all_of, fused


INTEGER = r"(add|sub|mul|mad|shl|shr|and|or|xor|min|max|selp|cvt)\S*\.[subw]\w*(32|64)|mad\.\S+"


def forward(tester, what, body, first):
    m = tester.check
    m(what, count(body, r"st\.shared\S*") == 0, "the loop stores to shared memory")
    all_of, fused = exponentials(body)
    m(what, all_of > 0 and fused >= 0.9 * all_of, f"{fused} of {all_of} exponentials are fused")


def common(tester, what, body, integers_per_mma, narrow_copies):
    """`narrow_copies`: of vectors whose length, and so alignment, only the launch knows."""
    m = tester.check
    ops = opcodes(body)
    m(what, not [op for op in ops if op.startswith(("div.s", "div.u", "rem."))], "it divides")
    m(what, count(body, r"ldmatrix\S*x4\.shared\.b16") > 0, "no ldmatrix.x4")
    m(what, count(body, r"ldmatrix\S*x4\.trans\S*") > 0, "no ldmatrix.x4.trans")
    if "dq_first" not in what: # has registers for tiles of 32 keys only, which eight warps read by halves
        m(what, count(body, r"ldmatrix\S*x2\S*") == 0, "ldmatrix.x2")
    copies = [line for line in body if re.search(r"cp\.async\.c[ag]\.", line)]
    m(what, copies, "no copies")
    narrow = [c for c in copies if not ("cp.async.cg.shared.global" in c and ", 16" in c)]
    m(what, len(narrow) <= narrow_copies, f"{len(narrow)} copies of less than 16 bytes")
    m(what, count(body, r"ld\.local\S*|st\.local\S*") == 0, "local memory")
    products, integers = count(body, r"mma\S*"), count(body, INTEGER)
    m(what, products > 0 and integers <= integers_per_mma * products,
      f"{integers} integer instructions beside {products} products")
    if tester.options.print:
        print(f"{what}: {len(ops)} instructions, {products} mma, {integers} integer, "
              f"{count(body, 'ldmatrix.*')} ldmatrix, {len(copies)} cp.async")


def planned(tester, what, body):
    m = tester.check
    products = [line for line in body if "wgmma.mma_async" in line]
    m(what, not [op for op in opcodes(body) if op.startswith(("div.", "rem."))], "it divides")
    m(what, count(body, r"ld\.local\S*|st\.local\S*|cp\.async\.c\S*|ldmatrix\S*|mma\S*") == 0,
      "local memory, or means of other targets")
    m(what, count(body, r"bar\.sync|bar\.red\S*") <= 1, "barriers of the warp group")
    sums = {r for line in products for r in re.findall(r"%f\d+", line.split("}")[0])}
    moved = [line for line in body if (words := re.match(r"mov\.f32 %f\d+, (%f\d+);", line))
             and words[1] in sums] # scaled in place: the other way round
    m(what, not moved, f"moves of accumulators: {moved[:2]}")
    # one descriptor is computed for each product, two where there are more than can be kept
    integers = count(body, INTEGER)
    descriptors = len(products) * (2 if len(products) > 16 else 1)
    m(what, integers <= 24 + descriptors, f"{integers} integer instructions, {len(products)} products")
    if tester.options.print:
        print(f"{what}: {len(opcodes(body))} instructions, {len(products)} wgmma, {integers} integer")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--examples", required=True)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    tester = Tester(options)
    for depth, plan in [(64, "consumers=4,stages=4,q_stages=2"), (128, "consumers=3,stages=3,q_stages=2"),
                        (256, "consumers=2,stages=2,q_stages=1")]:
        for causal in ["false", "true"]:
            what = f"attention {plan} {depth} causal={causal}"
            ptx, _ = tester.compile("attention", "sm_90", f"-DD={depth}", "-DM=64", "-DN=64",
                                    f"-DCAUSAL={causal}", f"--plan={plan}")
            found = loops(kernels(ptx)["attention"])
            # the loop that is turned: it waits for all products but the last; another one, of tensors
            # smaller than a tile, does not
            hot = [b for b in found if any("wait_group.sync.aligned 1" in line for line in b)]
            tester.check(what, hot, "no loop with products of warp groups")
            tester.check(what, any(count(b, r"cp\.async\.bulk\.tensor\S*") for b in found),
                         "no loop with TMA copies")
            for k, body in enumerate(hot):
                planned(tester, f"{what}, loop {k}", body)
                forward(tester, f"{what}, loop {k}", body, k == 0)
    for arch in ["sm_80", "sm_90", "sm_100"]:
        for depth in [64, 128]:
            for causal in ["false", "true"]:
                flags = [f"-DD={depth}", f"-DDV={depth}", f"-DCAUSAL={causal}", "--plan=none"]
                what = f"attention {arch} {depth} causal={causal}"
                ptx, said = tester.compile("attention", arch, *flags)
                conflicts = re.findall(r"bank conflicts (\d+)", said)
                tester.check(what, conflicts and set(conflicts) == {"0"}, f"conflicts {conflicts}")
                lines = kernels(ptx)["attention"]
                found = [b for b in loops(lines) if count(b, r"mma\S*")]
                tester.check(what, found, "no loop with products")
                for k, body in enumerate(found):
                    common(tester, f"{what}, loop {k}", body, 1.0, 0)
                    forward(tester, f"{what}, loop {k}", body, k == 0)
                stores = [op for op in opcodes(lines) if op.startswith("st.global")]
                tester.check(what, "st.global.v4.b32" in stores and
                             not [s for s in stores if s.endswith(("u16", "v2.b32"))],
                             f"stores {sorted(set(stores))}")
                flags = [f"-DD={depth}", f"-DCAUSAL={causal}", "--plan=none"]
                what = f"attention_bwd {arch} {depth} causal={causal}"
                ptx, said = tester.compile("attention_bwd", arch, *flags)
                # parts of dK and dV are stored as f32, once a program, through staging that has conflicts
                said = re.sub(r"^shared d[kv]: .*\{\d+x\d+ pitch \d+ swizzle 2>>0\}, bank conflicts 8$", "", said, flags=re.M)
                conflicts = re.findall(r"bank conflicts (\d+)", said)
                tester.check(what, conflicts and set(conflicts) == {"0"}, f"conflicts {conflicts}")
                for name, lines in kernels(ptx).items():
                    for k, body in enumerate(b for b in loops(lines) if count(b, r"mma\S*")):
                        common(tester, f"{what} {name}, loop {k}", body, 1.5, 4)
    for example, flags in [("attention_bwd", ["-DCAUSAL=true"]), ("attention_bwd", ["-DD=256"]),
                           ("attention_bwd", ["-DD=64", "--plan=none"]), ("attention_decode", [])]:
        for arch in ["sm_90", "sm_100"]:
            ptx, _ = tester.compile(example, arch, *flags)
            for name, lines in kernels(ptx).items():
                wrong = waits_first(lines)
                tester.check(f"{example} {arch} {' '.join(flags)} {name}", not wrong, wrong)
    print(f"{tester.good} hold, {tester.bad} do not")
    return 1 if tester.bad or not tester.good else 0


if __name__ == "__main__":
    sys.exit(main())
