#!/usr/bin/env python3
"""counts.py - instructions of each role's loop on sm_100, as ptxas makes them, hold their bounds.

    counts.py --tilec TILEC --ptxas PTXAS [--print]

No GPU with tensor memory has run this code; docs/lab/sm100.md reasons by these counts.  No disassembler is needed: of
an instruction's 128 bits the lowest nine name the operation and a jump carries its distance.  Loops are found by
dominators.  A loop's `all` is what stands between its head and its last jump back, so that a wait's second try, which stands
behind the kernel, does not count; `least` is what the shortest way through executes.
"""
import argparse
import collections
import os
import re
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RELEASE = "13.0"  # of ptxas: whose counts the bounds are
OTHERS = 0.03     # how much more another release may have in all (12.9: 295 in place of 290 in one mma role, else the same)

BRA, CALL, EXIT, RET, TRAP = 0x147, 0x144, 0x14d, 0x150, 0x15c
KINDS = {0x108: "MUFU", 0x1a6: "REDG", 0x1b4: "UTMALDG", 0x1ea: "UTCHMMA", 0x1ed: "STTM", 0x1ee: "LDTM"}
# The first row whose operations a loop has names its role.
ROLES = [("mma", {"UTCHMMA"}), ("producer", {"UTMALDG"}), ("reduce", {"REDG"}), ("consumer", {"MUFU", "LDTM"}),
         ("correction", {"LDTM", "STTM"})]

GEMM = ["-D", "TM=128", "-D", "TN=256", "-D", "TK=64"]
PAIR = ["-D", "BIAS=false", "--plan=consumers=1,stages=6,cluster=2"]
ADD = {64: ["--plan=consumers=1,stages=3,cluster=2"], 128: ["--plan=consumers=1,stages=2,cluster=2"]} # in pairs
CORRECT = ["--plan=consumers=2,stages=2,correction=1"]
# Without polynomials: a share of the exponentials by them (3 of 16, 12 of a thread's 64) takes 79 instructions.
NONE = ["-fno-split-exp2"]

def attention(d, causal, *more):
    return ["-D", f"D={d}", "-D", f"CAUSAL={causal}", "-D", "M=128", "-D", "N=128", *more]


# file, kernel, definitions and options; role: (all, least) of each of its innermost loops, in the order of the code.
# Where a row's greatest score grows, a softmax's offset and factor (stdlib/softmax.tile) are in `all` and not in `least`.
# A consumer has a loop of its own for iterations with a mask: of an edge, a ragged end, or both; the reduce role for a ragged end.
CASES = [
    ("attention", "attention", attention(64, "false"),
     {"producer": [(38, 38)], "mma": [(162, 162)], "consumer": [(609, 548), (735, 190)]}),
    ("attention", "attention", attention(64, "true"),
     {"producer": [(38, 38)], "mma": [(229, 42)], "consumer": [(609, 548), (734, 189)]}),
    ("attention", "attention", attention(128, "false"),
     {"producer": [(54, 54)], "mma": [(195, 195)], "consumer": [(698, 547), (802, 219)]}),
    ("attention", "attention", attention(128, "true"),
     {"producer": [(54, 54)], "mma": [(280, 42)], "consumer": [(698, 547), (801, 218)]}),
    ("attention", "attention", attention(64, "false", *CORRECT),
     {"mma": [(179, 179)], "consumer": [(578, 555), (714, 207)], "correction": [(103, 21)]}),
    ("attention", "attention", attention(64, "true", *CORRECT),
     {"mma": [(244, 49)], "consumer": [(578, 555), (710, 203)], "correction": [(120, 12)]}),
    ("attention", "attention", attention(128, "false", *CORRECT),
     {"mma": [(206, 206)], "consumer": [(628, 553), (740, 233)], "correction": [(180, 22)]}),
    ("attention", "attention", attention(128, "true", *CORRECT),
     {"mma": [(295, 49)], "consumer": [(628, 553), (736, 229)], "correction": [(198, 12)]}),
    ("attention_bwd", "attention_bwd", attention(64, "false"),
     {"producer": [(70, 70)], "mma": [(223, 187)], "consumer": [(377, 377), (574, 574)], "reduce": [(38, 22)]}),
    ("attention_bwd", "attention_bwd", attention(64, "false", *NONE), {"consumer": [(298, 298), (574, 574)]}),
    ("attention_bwd", "attention_bwd", attention(64, "true"),
     {"producer": [(70, 70)], "mma": [(225, 188)], "consumer": [(391, 391), (379, 379), (669, 669)], "reduce": [(38, 22)]}),
    ("attention_bwd", "attention_bwd", attention(64, "true", *NONE), {"consumer": [(391, 391), (300, 300), (669, 669)]}),
    ("attention_bwd", "attention_bwd", attention(128, "false"),
     {"producer": [(84, 84)], "mma": [(275, 210)], "consumer": [(300, 300), (577, 577)], "reduce": [(51, 51), (56, 24)]}),
    ("attention_bwd", "attention_bwd", attention(128, "true"),
     {"producer": [(84, 84)], "mma": [(269, 204)], "consumer": [(391, 391), (300, 300), (669, 669)], "reduce": [(51, 51), (56, 24)]}),
    ("attention_bwd", "attention_bwd", attention(64, "false", *ADD[64]), {"reduce": [(168, 93)]}),
    ("attention_bwd", "attention_bwd", attention(64, "true", *ADD[64]), {"reduce": [(134, 122)]}),
    ("attention_bwd", "attention_bwd", attention(128, "false", *ADD[128]), {"reduce": [(299, 154)]}),
    ("attention_bwd", "attention_bwd", attention(128, "true", *ADD[128]), {"reduce": [(233, 209)]}),
    ("attention_bwd", "attention_bwd_dkdv", attention(64, "false"),
     # (the mma role's PTX is that of 169, but for places of barriers: ptxas computes some of them again)
     {"mma": [(176, 139)], "consumer": [(370, 370), (500, 500)]}),
    ("attention_bwd", "attention_bwd_dkdv", attention(64, "false", *NONE), {"consumer": [(291, 291), (500, 500)]}),
    ("attention_bwd", "attention_bwd_dkdv", attention(64, "true"),
     {"mma": [(169, 134)], "consumer": [(392, 392), (368, 368), (601, 601)]}),
    ("attention_bwd", "attention_bwd_dkdv", attention(128, "false"),
     {"mma": [(238, 166)], "consumer": [(288, 288), (496, 496)]}),
    ("attention_bwd", "attention_bwd_dkdv", attention(128, "true"),
     {"mma": [(236, 168)], "consumer": [(378, 378), (288, 288), (587, 587)]}),
    ("attention_bwd", "attention_bwd_dq", attention(64, "false"), {"mma": [(121, 121)], "consumer": [(297, 297), (314, 314)]}),
    ("attention_bwd", "attention_bwd_dq", attention(64, "false", *NONE), {"consumer": [(218, 218), (314, 314)]}),
    ("attention_bwd", "attention_bwd_dq", attention(128, "false"), {"mma": [(159, 159)], "consumer": [(217, 217), (313, 313)]}),
    ("gemm", "gemm", GEMM, {"producer": [(50, 50)], "mma": [(58, 58)], "consumer": [(674, 592)]}),
    ("gemm", "gemm", [*GEMM, "-D", "BIAS=false"], {"consumer": [(378, 296)]}),
    ("gemm", "gemm", [*GEMM, *PAIR], {"producer": [(45, 45)], "mma": [(59, 59)], "consumer": [(382, 300)]}),
]


def text_of(path):
    """The machine code of the one kernel in a cubin: (low, high) of each instruction."""
    with open(path, "rb") as file:
        data = file.read()
    start, = struct.unpack_from("<Q", data, 0x28)
    size, number, names = struct.unpack_from("<HHH", data, 0x3a)
    heads = [struct.unpack_from("<IIQQQQ", data, start + k * size) for k in range(number)]
    for head in heads:
        if data[heads[names][4] + head[0]:].startswith(b".text."):
            return list(struct.iter_unpack("<QQ", data[head[4]:head[4] + head[5]]))
    raise RuntimeError(f"{path}: no code")


def successors(code, at):
    low, high = code[at]
    operation, always = low & 0x1ff, (low >> 12 & 15) == 7
    to = []
    if operation == BRA:
        distance = (low >> 16 & 0xff) | ((low >> 34) | (high & 0x3ffff) << 30) << 8
        to.append(at + 1 + (distance - (distance >> 55 << 56)) // 4)
        always &= (low & 0xfff) == 0x947 and (high >> 23 & 15) == 7  # no predicate, no uniform one
    if operation != TRAP and not (operation in (BRA, EXIT, RET) and always) and at + 1 < len(code):
        to.append(at + 1)
    return to


def postorder(following):
    seen, done, stack = {0}, [], [(0, iter(following[0]))]
    while stack:
        at, rest = stack[-1]
        to = next(rest, None)
        if to is None:
            done.append(stack.pop()[0])
        elif to not in seen:
            seen.add(to)
            stack.append((to, iter(following[to])))
    return done


def natural_loops(following):
    """head: its instructions."""
    order = {at: n for n, at in enumerate(reversed(postorder(following)))}
    before = collections.defaultdict(list)
    for at in order:
        for to in following[at]:
            before[to].append(at)
    idom, changed = {0: 0}, True
    while changed:
        changed = False
        for at in list(order)[1:]:
            new = None
            for a in (p for p in before[at] if p in idom):
                b = a if new is None else new
                while a != b:
                    a, b = (idom[a], b) if order[a] > order[b] else (a, idom[b])
                new = a
            changed |= idom.get(at) != new
            idom[at] = new
    loops = {}
    for at in order:
        for head in following[at]:
            up = at
            while order[up] > order[head]:
                up = idom[up]
            if up != head:
                continue
            inside = loops.setdefault(head, {head})
            work = [at]
            while work:
                a = work.pop()
                if a not in inside:
                    inside.add(a)
                    work += before[a]
    return loops


def shortest(following, head, inside):
    """Instructions of the shortest way from a loop's head back to it."""
    steps, front = 1, {head}
    seen = set(front)
    while front:
        front = {to for at in front for to in following[at] if to in inside}
        if head in front:
            return steps
        front -= seen
        seen |= front
        steps += 1
    return 0


def count(path):
    """role: [(all, least)]"""
    code = text_of(path)
    following = [successors(code, at) for at in range(len(code))]
    loops = natural_loops(following)
    found = collections.defaultdict(list)
    kinds = {head: {KINDS.get(code[at][0] & 0x1ff) for at in inside} for head, inside in loops.items()}
    roles = {head: next((role for role, has in ROLES if has <= kinds[head]), None) for head in loops}
    for head, inside in sorted(loops.items()):
        if roles[head] is None or any(roles[x] == roles[head] for x in loops if x != head and x in inside):
            continue
        last = max(at for at in inside if head in following[at])
        found[roles[head]].append((sum(at <= last for at in inside), shortest(following, head, inside)))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--ptxas", required=True)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    said = subprocess.run([options.ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"release ([\d.]+)", said)[1]
    more = 0 if release == RELEASE else OTHERS
    print(f"ptxas {release}; the bounds are of {RELEASE}" + (f", {100 * more:.0f} % more in all are let pass" if more else ""))
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = os.path.join(folder, "a.ptx"), os.path.join(folder, "a.cubin")
        for file, kernel, flags, bounds in CASES:
            name = " ".join([kernel, *(f for f in flags if f != "-D")])
            subprocess.run([options.tilec, os.path.join(ROOT, "examples", file + ".tile"), "-arch", "sm_100", "--kernel", kernel,
                            "-o", ptx, *flags], check=True)
            subprocess.run([options.ptxas, "-arch=sm_100a", ptx, "-o", cubin], check=True)
            found = count(cubin)
            for role, at_most in bounds.items():
                loops = found[role]
                if options.print:
                    print(f"{name}: {role} {loops}")
                if len(loops) != len(at_most):
                    print(f"{name}: {role} has {len(loops)} loops {loops}, not {len(at_most)}")
                    bad += 1
                    continue
                for n, (got, most) in enumerate(zip(loops, at_most)):
                    for what, a, b in zip(("in all",) if more else ("in all", "by the shortest way"), got, most):
                        if a > b * (1 + more):
                            print(f"{name}: {role}, loop {n}: {a} instructions {what}, at most {b}")
                            bad += 1
                        elif a < b and not more:
                            print(f"{name}: {role}, loop {n}: {a} instructions {what}: the bound {b} can be lowered")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
