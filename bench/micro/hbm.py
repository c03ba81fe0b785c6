"""hbm.py - microbenchmarks of memory behind the L2 cache: what it holds, what a load takes under load, what is written back.

Blocks run through pieces of their own, as kernels do (`stream` of kernels.py has all SMs side by side instead).  A round of a warp is
`loads` loads of 512 bytes and then what they gave, so that what is under way is known: warps times loads times 512 bytes of each SM.
"""
from kernels import Kernel, chase, entry, keep, timed_loop
from launch import once

PIECE = 1 << 21   # bytes that each SM reads, once: 132 of these are four times what the L2 cache holds
SMALL = 1 << 17   # .. over and over: 132 of these it holds


def values(k):
    return ", ".join(f"%v{4 * k + j}" for j in range(4))


def addresses(warps, loads, pieces):
    """%g: of the lane, in its block's piece; %h: as far behind as the buffer's middle."""
    return f"""
    .reg .b64 %g, %h, %base, %off; .reg .b32 %v<{4 * loads}>, %u;
    mul.wide.u32 %off, %warp, {512 * loads};
    mul.wide.u32 %base, %lane, 16;
    add.u64 %off, %off, %base;
    mul.wide.u32 %base, %cta, {pieces};
    add.u64 %base, %base, %data;
    mov.u32 %u, 0;
""" + "\n".join(f"    mov.u32 %v{k}, %t;" for k in range(4 * loads))


STEP = """
    and.b64 %off, %off, {mask};
    add.u64 %g, %base, %off;
    add.u64 %off, %off, {step};
"""


def load_lines(loads):
    return "\n".join(f"    ld.volatile.global.v4.u32 {{{values(k)}}}, [%g+{512 * k}];" for k in range(loads))


def use_lines(loads):
    return "\n".join(f"    xor.b32 %u, %u, %v{k};" for k in range(4 * loads)) + "\n"


def store_lines(loads, to="%h"):
    return "\n".join(f"    st.global.v4.u32 [{to}+{512 * k}], {{{values(k)}}};" for k in range(loads))


def flow(kind, warps, loads, small=False, blocks="all"):
    """read: loads, then their sum; write: stores; copy: loads, then stores of what they gave to another piece; twice: loads, and once
    more behind a barrier.  Of few SMs each has a larger piece, so that the L2 cache does not hold them."""
    spread = SMALL if small else PIECE if blocks == "all" else max(PIECE, (1 << 27) // blocks)
    each = 512 * warps * loads
    rounds = max(PIECE, spread) // each
    text = '    .pragma "nounroll";' + STEP.format(mask=spread - 1, step=each)
    if kind != "write":
        text += load_lines(loads)
    if kind == "copy":
        text += f"\n    add.u64 %h, %g, {1 << 30};\n" + store_lines(loads)
    elif kind == "write":
        text += store_lines(loads, "%g")
    else:
        text += "\n" + use_lines(loads)
        if kind == "twice":
            text += "    bar.sync 0;\n" + load_lines(loads) + "\n" + use_lines(loads)
    name = f"flow_{kind}_{warps}w_{loads}l" + ("_small" if small else "") + ("" if blocks == "all" else f"_{blocks}")
    return Kernel(name, "memory", {"op": kind, "warps": warps, "loads": loads, "spread": spread, "blocks": blocks},
                  entry(name, timed_loop(text, rounds, addresses(warps, loads, spread)) + keep(["%u"]), warps=warps),
                  rounds * loads * 512, warps=warps, blocks=blocks, unit="byte")


def held(megabytes, read, write):
    """A launch that reads, writes, or reads and writes so much in all, in order; launched again and again: what is left in the L2 cache."""
    each = (16 if read else 0) + write
    return once(megabytes * (1 << 20) // (128 * 8 * each), 128, read, write, 8)


def spread(kind, width, stride, warps, blocks="all", between=0):
    """Lanes `stride` bytes apart load or store `width` bytes each, and then what lies between, one piece after the other: as a kernel does
    that does not know how its tensors are aligned.  16 MB that all blocks run over.  `between` each two: so many multiplications that
    wait for one another, four clocks each."""
    op, register = {2: ("u16", "%h{0}"), 4: ("u32", "%v{0}")}[width]
    times, pieces = stride // width, max(1, 8 * width // stride)
    setup = f"""
    .reg .b64 %g, %off; .reg .b32 %v<64>, %n, %u; .reg .b16 %h<64>;
    mov.u32 %u, 0;
    mad.lo.u32 %n, %cta, {32 * warps}, %t;
    mul.wide.u32 %off, %n, {stride};
""" + "\n".join(f"    mov.u32 %v{k}, 0; mov.u16 %h{k}, 0;" for k in range(times * pieces))
    text = []
    for piece in range(pieces):
        text.append(f"    and.b64 %off, %off, {(1 << 24) - 1}; add.u64 %g, %data, %off; add.u64 %off, %off, {132 * 32 * warps * stride};")
        for k in range(times):
            value = register.format(times * piece + k)
            text.append(f"    ld.global.{op} {value}, [%g+{width * k}];" if kind == "load" else f"    st.global.{op} [%g+{width * k}], {value};")
            text += ["    mul.lo.u32 %u, %u, %n;"] * between
    if kind == "load":
        for k in range(times * pieces):
            text += [f"    cvt.u32.u16 %v{k}, %h{k};"] * (width == 2) + [f"    xor.b32 %u, %u, %v{k};"]
    rounds = 512 // (times * pieces)
    name = f"spread_{kind}_{width}_by{stride}_{warps}w_{blocks}" + (f"_between{between}" if between else "")
    return Kernel(name, "memory", {"op": kind, "bytes": width, "stride": stride, "warps": warps, "blocks": blocks, "between": between},
                  entry(name, timed_loop("\n".join(text), rounds, setup) + keep(["%u"]), warps=warps), rounds * pieces * 32 * stride, warps=warps,
                  blocks=blocks, unit="byte")


def near(spread):
    """`chase` of kernels.py in the L1 cache."""
    kernel = chase(spread)
    name = kernel.name.replace("chase_", "chase_ca_")
    return Kernel(name, "latency", {"op": "ld.global.ca", "spread": spread}, kernel.ptx.replace(kernel.name, name).replace("ld.global.cg", "ld.global.ca"),
                  kernel.operations, unit=kernel.unit)


def all_kernels():
    out = [held(megabytes, 1, 0) for megabytes in [16, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 96, 128]]
    out += [held(megabytes, 0, 16) for megabytes in [16, 32, 48, 64, 96]]
    out += [held(megabytes, 1, 16) for megabytes in [16, 24, 32, 36, 40, 44, 48, 56, 64, 80, 96, 128]]
    out += [flow("read", warps, loads, small) for warps in [1, 2, 4, 8, 16, 32] for loads in [1, 2, 4, 8] for small in [False, True]]
    out += [flow("write", warps, loads, small) for warps, loads in [(1, 4), (4, 4), (16, 4)] for small in [False, True]]
    out += [flow(kind, warps, loads, small) for kind in ["copy", "twice"] for warps, loads in [(1, 4), (4, 1), (4, 4), (4, 8), (8, 4), (16, 4), (32, 2)]
            for small in [False, True]]
    out += [flow("read", warps, loads, False, blocks) for blocks in [1, 4, 16, 32, 64] for warps, loads in [(4, 4), (16, 8)]]
    out += [spread(kind, width, stride, warps, blocks) for kind in ["load", "store"] for width, stride in [(2, 4), (2, 8), (2, 16), (4, 8), (4, 16), (4, 32), (4, 64)]
            for warps, blocks in [(4, "all"), (16, "all"), (16, "one")]]
    out += [spread("store", 2, 16, warps, "all") for warps in [1, 2, 8]] + [spread("store", 4, 16, 8)]
    out += [spread("store", 2, 16, warps, "all", between) for warps in [4, 8, 16] for between in [1, 4, 16]]
    out += [near(spread) for spread in [1 << 14, 1 << 17]]
    return out
