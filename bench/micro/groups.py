"""groups.py - microbenchmarks of warp groups that wait for their own products: chains of wgmma with and without
arithmetic between, of one to three groups of an SM, and arithmetic beside products of other shapes than kernels.py has.

What they answer: whether products of two groups go one batch after the other or by turns, what a commit and a wait cost
when another group's products fill the time, and how much slower arithmetic is beside products, by who runs them.
"""
from kernels import Kernel, OTHERS, beside, descriptor, entry, keep, keep_floats, timed_loop, wgmma_setup

ROUNDS = 32
# In place, of sums that the products before have left; an exponential and a maximum keep the numbers small
IN_PLACE = {"ex2": "ex2.approx.ftz.f32 {d}, {d};", "max": "max.f32 {d}, {d}, {e};", "fma": "fma.rn.f32 {d}, {d}, 0f3F000000, 0f3E000000;"}


def product(n, source, prefix=""):
    d = ", ".join(f"%{prefix}d{k}" for k in range(n // 2))
    a = f"{{%{prefix}a0, %{prefix}a1, %{prefix}a2, %{prefix}a3}}" if source == "RS" else f"%{prefix}da"
    flags = "1, 1, 0" if source == "RS" else "1, 1, 0, 0"
    return f"    wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{d}}}, {a}, %{prefix}db, 1, {flags};"


def transposed(n, source, depth, groups, which):
    """Operands whose rows lie the other way round in shared memory (`which`: A, B, AB), as the backward's do: atoms of 64 x 8 elements."""
    flags = "1, 1" + (f", {int('A' in which)}" if source == "SS" else "") + f", {int('B' in which)}"
    text = "\n".join(batch(n, source, depth)).replace(", 1, 1, 1, 0, 0;" if source == "SS" else ", 1, 1, 1, 0;", f", 1, {flags};")
    name = f"transposed_{which}_n{n}_{source}_d{depth}_g{groups}"
    setup = wgmma_setup(n)
    for at in [0, 32768]:  # 2048 bytes from 64 rows to the next, 1024 from 8 of the inner dimension to the next
        setup = setup.replace(str(descriptor(at)), str((at >> 4) | (128 << 16) | (64 << 32) | (1 << 62)))
    body = timed_loop(text, ROUNDS, setup) + keep_floats(n)
    return Kernel(name, "turns", {"n": n, "a": source, "depth": depth, "groups": groups, "transposed": which},
                  entry(name, body, warps=4 * groups), ROUNDS, warps=4 * groups, unit="batch, wait")


def batch(n, source, depth, prefix="", wait=0):
    end = [] if wait is None else [f"    wgmma.wait_group.sync.aligned {wait};"]
    return ["    wgmma.fence.sync.aligned;", *[product(n, source, prefix)] * depth, "    wgmma.commit_group.sync.aligned;", *end]


def between(n, what, times, prefix=""):
    """`times` operations on each of the sums of a lane."""
    return ["    " + IN_PLACE[what].format(d=f"%{prefix}d{k}", e=f"%{prefix}d{(k + 1) % (n // 2)}")
            for _ in range(times) for k in range(n // 2)]


def as_operand(n, prefix=""):
    """A of the next products from the sums: what attention does with its weights."""
    return [f"    cvt.rn.bf16x2.f32 %{prefix}a{k % 4}, %{prefix}d{2 * k + 1}, %{prefix}d{2 * k};" for k in range(n // 4)]


def turns(n, source, depth, groups, what=None, times=0):
    """Each group in turn: `depth` products, a commit, a wait, and arithmetic of its sums before its next products."""
    lines = batch(n, source, depth) + (between(n, what, times) if what else [])
    if what and source == "RS":
        lines += as_operand(n)
    name = f"turns_n{n}_{source}_d{depth}_g{groups}" + (f"_{what}{times}" if what else "")
    body = timed_loop("\n".join(lines), ROUNDS, wgmma_setup(n)) + keep_floats(n)
    return Kernel(name, "turns", {"n": n, "a": source, "depth": depth, "groups": groups, "between": what, "times": times},
                  entry(name, body, warps=4 * groups), ROUNDS, warps=4 * groups, unit="batch, wait, arithmetic")


def two_chains(n, depth, groups, what, times):
    """A second batch is under way while a lane works on the sums of the first, as in a backward pass."""
    lines = batch(n, "SS", depth, "u", None) + batch(n, "SS", depth, "v", 1) + between(n, what, times, "u") + \
        ["    wgmma.wait_group.sync.aligned 0;"] + between(n, what, times, "v")
    name = f"chains_n{n}_SS_d{depth}_g{groups}_{what}{times}"
    kept = "{\n" + keep_floats(n, "u") + "}\n{\n" + keep_floats(n, "v") + "}\n"
    body = timed_loop("\n".join(lines), ROUNDS, wgmma_setup(n, "u") + wgmma_setup(n, "v")) + kept
    return Kernel(name, "turns", {"n": n, "depth": depth, "groups": groups, "between": what, "times": times, "under way": 2},
                  entry(name, body, warps=4 * groups), ROUNDS, warps=4 * groups, unit="two batches, two waits, arithmetic")


def lopsided(n, source, many, few, rounds):
    """Warps 0-3 run batches of `many` products, warps 4-7 of `few`: do those wait for the others' whole batch, or go by turns?"""
    parts = []
    for label, prefix, depth, times in [("LOOP", "u", many, rounds[0]), ("LOOP2", "v", few, rounds[1])]:
        parts.append(f"""
    {{
{wgmma_setup(n, prefix)}
    bar.sync 0;
    mov.u32 %i, {times};
    mov.u64 %c0, %clock64;
{label}:
{chr(10).join(batch(n, source, depth, prefix))}
    sub.u32 %i, %i, 1;
    setp.ne.u32 %again, %i, 0;
    @%again bra {label};
    mov.u64 %c1, %clock64;
    {keep_floats(n, prefix)}
    }}""")
    name = f"lopsided_n{n}_{source}_{many}_{few}"
    body = f"    setp.lt.u32 %p, %warp, 4;\n    @!%p bra SECOND;\n{parts[0]}\n    bra END;\nSECOND:\n{parts[1]}\nEND:\n"
    return Kernel(name, "beside", {"n": n, "a": source, "products": [many, few], "rounds": rounds}, entry(name, body, warps=8), 1, warps=8,
                  blocks="all", unit="whole loop")


# 2^f on [-0.5, 0.5) for bf16, degree 3 (sm100.py has the same, two at a time)
EXP2 = ["0f3F800000", "0f3F317218", "0f3E75FDF0", "0f3D635847"]


def by_polynomial(x):
    return [f"max.f32 %y{x}, %y{x}, 0fC2FE0000; add.rm.f32 %f0, %y{x}, 0f4B400000; sub.f32 %f1, %f0, 0f4B400000; sub.f32 %f1, %y{x}, %f1;",
            f"fma.rn.f32 %f2, %f1, {EXP2[3]}, {EXP2[2]}; fma.rn.f32 %f2, %f2, %f1, {EXP2[1]}; fma.rn.f32 %f2, %f2, %f1, {EXP2[0]};",
            f"mov.b32 %z0, %f0; mov.b32 %z1, %f2; shl.b32 %z0, %z0, 23; add.s32 %z1, %z1, %z0; mov.b32 %y{x}, %z1;"]


def chain(what, where, warps=8, rounds=8):
    """64 scores a lane to weights, by 8 warps: scaled, exponentials of which `what` of 16 go by a polynomial ("moved": none at all), packed.
    where: scores and weights in shared memory, or in registers."""
    share = 0 if what == "moved" else what
    lines = []
    for k in range(64):
        if k % 4 == 0:
            lines.append(f"ld.volatile.shared.v4.f32 {{{', '.join(f'%y{k + j}' for j in range(4))}}}, [%a+{512 * (k // 4)}];" if where == "shared" else "")
        if what != "moved":
            lines.append(f"fma.rn.f32 %y{k}, %y{k}, 0f3E000000, 0fBF800000;")
            lines += by_polynomial(k) if k % 16 < share else [f"ex2.approx.ftz.f32 %y{k}, %y{k};"]
        if k % 2:
            lines.append(f"cvt.rn.bf16x2.f32 %o{k // 2 % 4}, %y{k}, %y{k - 1};")
        if k % 8 == 7:
            lines.append("st.volatile.shared.v4.b32 [%a+" + str(512 * (k // 8)) + "], {%o0, %o1, %o2, %o3};" if where == "shared" else
                         "lop3.b32 %k0, %o0, %o1, %k0, 0x96; lop3.b32 %k1, %o2, %o3, %k1, 0x96;")
    setup = "    .reg .f32 %y<64>, %f<3>; .reg .b32 %o<4>, %z<2>, %a, %k0, %k1; mov.u32 %k0, 0; mov.u32 %k1, 0;\n" \
        "    mad.lo.u32 %a, %warp, 8192, %s; mad.lo.u32 %a, %lane, 16, %a;\n" + \
        "".join(f"    ld.global.f32 %y{k}, [%data+{4 * k}];\n" for k in range(64)) + \
        "".join(f"    st.shared.v4.f32 [%a+{512 * k}], {{%y0, %y1, %y2, %y3}};\n" for k in range(16))
    name = f"chain_{what}_{where}"
    kept = keep(["%k0", "%k1"]) if where == "registers" else ""
    body = timed_loop("\n".join("    " + line for line in lines if line), rounds, setup) + kept
    return Kernel(name, "softmax chain", {"what": what, "where": where}, entry(name, body, warps=warps), rounds, warps=warps, unit="tile")


MIX = [("fma.rn.f32 {x}, {x}, {y}, {y};", 16), ("max.f32 {m}, {m}, {x};", 16), ("ex2.approx.ftz.f32 {x}, {x};", 16),
       ("add.rn.f32 {m}, {m}, {x};", 16), ("cvt.rn.bf16x2.f32 {o}, {x}, {m};", 8)]  # as a softmax has them


def crowd(kind, others, products=True):
    """Warps 0-3 run products (n 64, all of the port, all of the time, or none); `others` groups of four warps beside them run one kind of
    arithmetic, or a softmax's mix of them."""
    if kind == "mix":
        names = {"x": "%bx", "y": "%by", "m": "%bm", "o": "%bo"}
        text = "\n".join("    " + line.format(**{key: f"{name}{k % 8}" for key, name in names.items()}) for line, times in MIX for k in range(times))
        setup = "    .reg .f32 %bx<8>, %by<8>, %bm<8>; .reg .b32 %bo<8>;\n" + "".join(
            f"    ld.global.f32 %bx{k}, [%data+{4 * k}]; ld.global.f32 %by{k}, [%data+{4 * k + 128}]; mov.f32 %bm{k}, %bx{k}; mov.b32 %bo{k}, 0;\n" for k in range(8))
        text += "\n" + "\n".join(f"    xor.b32 %ko{k}, %ko{k}, %bo{k};" for k in range(8))
        setup += "    .reg .b32 %ko<8>;\n" + "".join(f"    mov.b32 %ko{k}, 0;\n" for k in range(8))
        after = "    {\n    .reg .b32 %kf<16>;\n" + "".join(f"    mov.b32 %kf{k}, %bm{k}; mov.b32 %kf{8 + k}, %ko{k};\n" for k in range(8)) + \
            keep(f"%kf{k}" for k in range(16)) + "    }\n"
    else:
        text, setup, after = OTHERS[kind]
    rounds = {"mix": 96, "ex2": 192, "max": 384, "fma": 768}[kind]
    parts = [(wgmma_setup(64), "\n".join(batch(64, "SS", 16)), 48, keep_floats(64)), (setup, text, rounds, after)]
    loops = [f"""{before}
    bar.sync 0;
    mov.u32 %i, {times};
    mov.u64 %c0, %clock64;
LOOP{number}:
{lines}
    sub.u32 %i, %i, 1;
    setp.ne.u32 %again, %i, 0;
    @%again bra LOOP{number};
    mov.u64 %c1, %clock64;
{behind}""" for number, (before, lines, times, behind) in enumerate(parts)]
    name = f"crowd_{kind}_g{others}" + ("" if products else "_none")
    body = f"    setp.lt.u32 %p, %warp, 4;\n    @!%p bra SECOND;\n{loops[0] if products else '    bar.sync 0;'}\n    bra END;\nSECOND:\n{loops[1]}\nEND:\n"
    return Kernel(name, "beside", {"other": kind, "groups": others, "products": products, "rounds": rounds}, entry(name, body, warps=4 + 4 * others), 1,
                  warps=4 + 4 * others, unit="whole loop")


def all_kernels():
    out = [turns(n, "SS", depth, groups) for n in [64, 128, 256] for depth in [1, 4] for groups in [1, 2]]
    out += [turns(n, "RS", depth, groups) for n in [64, 128, 256] for depth in [1, 4] for groups in [1, 2]]
    out += [turns(64, source, 4, 3) for source in ["SS", "RS"]]
    for n in [64, 128]:
        out += [turns(n, "SS", depth, groups, what, times) for depth in [4, 8] for groups in [1, 2]
                for what, times in [("ex2", 1), ("max", 2), ("fma", 4)]]
        out += [turns(n, "RS", 4, groups, "ex2", 1) for groups in [1, 2]]
    out += [turns(64, "SS", 4, 3, "ex2", 1), turns(256, "SS", 4, 2, "ex2", 1)]
    out += [two_chains(64, depth, groups, what, times) for depth in [4, 8] for groups in [1, 2]
            for what, times in [("ex2", 1), ("max", 2), ("fma", 4)]]
    for kind, rounds in [("max", 1024), ("ex2", 512), ("fma", 2048), ("pack", 1024)]:
        out += [beside(kind, n, source, rounds) for n, source in [(64, "SS"), (256, "SS"), (64, "RS"), (128, "RS")]]
    out += [transposed(n, "SS", 8, groups, which) for n in [64, 128] for which in ["A", "B", "AB"] for groups in [1, 2]]
    out += [transposed(n, "RS", 4, 2, "B") for n in [64, 128]]
    # n 64 and both operands in shared memory: products take all of the port
    for kind, rounds in [("lds128", 64), ("sts128", 512)]:
        out += [beside(kind, n, source, rounds) for n, source in [(64, "SS"), (256, "SS"), (64, "RS")]]
    out += [beside("ready", n, source, 512) for n, source in [(64, "SS"), (128, "SS"), (256, "SS"), (128, "RS")]]
    out += [beside("ready", 64, "SS", 512, "second")]
    out += [lopsided(64, "SS", 32, few, (64, 64)) for few in [1, 4, 16]] + [lopsided(128, "SS", 16, few, (64, 64)) for few in [1, 4]]
    out += [lopsided(64, "RS", 4, 1, (256, 64)), lopsided(64, "SS", 8, 4, (64, 64))]
    out += [crowd(kind, others) for kind in ["mix", "ex2", "max", "fma"] for others in [1, 2, 3]] + [crowd("mix", others, False) for others in [1, 2, 3]]
    out += [turns(n, "SS", depth, 4, what, times) for n, depth in [(32, 8), (64, 4)] for what, times in [(None, 0), ("ex2", 1), ("max", 2), ("fma", 4)]]
    out += [chain(what, where) for where in ["registers", "shared"] for what in ["moved", 0, 2, 4, 8, 16]]
    return out
