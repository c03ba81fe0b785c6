"""sm100.py - microbenchmarks of what only compute capability 10.0 has: tcgen05, tensor memory, a chain of softmax.

As kernels.py: each is PTX that reads the SM's clock before and after what it measures.  Nobody has run them on a GPU yet;
the simulator's clock replays them (tests/sim/clock.py), and `MEASURED` has what others published of the same.
"""
from kernels import Kernel, SHARED, keep, write_clocks

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def entry(name, body, registers="", warps=4, blocks=1, columns=512):
    """A kernel around `body` between clocks of its own: %tm, tensor memory; %bar, an mbarrier that one arrival completes; %lead,
    the first warp's elected thread."""
    cluster = f".explicitcluster .reqnctapercluster {blocks},1,1\n" if blocks > 1 else ""
    group = f"cta_group::{blocks}"
    meet = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n" if blocks > 1 else "    bar.sync 0;\n"
    return f"""{HEADER}
.extern .shared .align 1024 .b8 smem[];
.visible .entry {name}(.param .u64 out, .param .u64 data)
.reqntid {32 * warps},1,1 {cluster}
{{
    .reg .b64 %c0, %c1, %out, %data, %at, %w64, %da, %db;
    .reg .b32 %t, %lane, %warp, %s, %i, %slot, %tm, %bar, %w, %par, %cta, %tl;
    .reg .pred %again, %first, %lead, %done, %on, %p;
    {registers}
    ld.param.u64 %out, [out];
    ld.param.u64 %data, [data];
    mov.u32 %t, %tid.x;
    mov.u32 %cta, %ctaid.x;
    and.b32 %lane, %t, 31;
    shr.u32 %warp, %t, 5;
    shfl.sync.idx.b32 %warp, %warp, 0, 31, -1;
    mov.u32 %s, smem;
    add.u32 %bar, %s, {SHARED - 1024};
    mov.u64 %c0, 0; mov.u64 %c1, 0; mov.u32 %par, 0;
    setp.ne.u32 %p, %warp, 0;
    @%p bra.uni ALLOCATED;
    tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [%s+{SHARED - 512}], {columns};
    tcgen05.relinquish_alloc_permit.{group}.sync.aligned;
    setp.eq.u32 %first, %t, 0;
    @%first mbarrier.init.shared::cta.b64 [%bar], 1;
    fence.mbarrier_init.release.cluster;
ALLOCATED:
    tcgen05.fence::before_thread_sync;
{meet}    tcgen05.fence::after_thread_sync;
    ld.shared.u32 %tm, [%s+{SHARED - 512}];
    shr.u32 %w, %s, 4; cvt.u64.u32 %w64, %w;
    mov.u64 %da, {descriptor(0)}; mov.u64 %db, {descriptor(65536)};
    add.u64 %da, %da, %w64; add.u64 %db, %db, %w64;
    and.b32 %tl, %warp, 3; shl.b32 %tl, %tl, 21; add.u32 %tl, %tl, %tm;
    elect.sync _|%lead, -1;
{body}
{write_clocks(warps)}    tcgen05.fence::before_thread_sync;
{meet}    setp.ne.u32 %p, %warp, 0;
    @%p bra.uni FREED;
    tcgen05.dealloc.{group}.sync.aligned.b32 %tm, {columns};
FREED:
    ret;
}}
"""


def timed_loop(before, lines, rounds):
    """`lines`, `rounds` times, by all warps, which meet first, between two readings of the clock."""
    return f"""{before}
    bar.sync 0;
    mov.u32 %i, {rounds};
    mov.u64 %c0, %clock64;
LOOP:
{chr(10).join(lines)}
    sub.u32 %i, %i, 1;
    setp.ne.u32 %again, %i, 0;
    @%again bra.uni LOOP;
    mov.u64 %c1, %clock64;
"""


def descriptor(at):
    """K-major, 128-byte swizzle, rows of 8 every 1024 bytes."""
    return (at >> 4) | (1 << 16) | (64 << 32) | (1 << 46) | (2 << 61)


def instruction(m, n):
    """bf16 by bf16 to f32."""
    return (1 << 4) | (1 << 7) | (1 << 10) | (n // 8 << 17) | (m // 16 << 24)


WAIT = """
{label}:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], %par;
    @!%done bra {label};
    xor.b32 %par, %par, 1;
    tcgen05.fence::after_thread_sync;
"""


def mma(m, n, source, depth, blocks=1, rounds=1):
    """`depth` products, a commit, and a wait for it; by the first warp."""
    a = "%da" if source == "SS" else "[%tm+256]"
    group = f"cta_group::{blocks}"
    one = f"    @%lead tcgen05.mma.{group}.kind::f16 [%tm], {a}, %db, %w, %on;"
    commit = f"    @%lead tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.b64 [%bar];"
    name = f"mma_m{m}_n{n}_{source}_d{depth}" + ("_pair" if blocks == 2 else "")
    body = f"""
    setp.ne.u32 %p, %warp, 0;
    mov.u32 %w, {instruction(m, n)};
    setp.eq.u32 %on, %w, {instruction(m, n)};
    {"or.b32 %par, %warp, %cta; setp.ne.u32 %p, %par, 0; mov.u32 %par, 0;" if blocks == 2 else ""}
    @%p bra.uni END;
    mov.u32 %i, {rounds};
    mov.u64 %c0, %clock64;
LOOP:
{chr(10).join([one] * depth)}
{commit}
{WAIT.format(label="W0")}
    sub.u32 %i, %i, 1;
    setp.ne.u32 %again, %i, 0;
    @%again bra.uni LOOP;
    mov.u64 %c1, %clock64;
END:
"""
    return Kernel(name, "tcgen05.mma", {"m": m, "n": n, "a": source, "depth": depth, "blocks": blocks},
                  entry(name, body, warps=4, blocks=blocks), rounds, warps=4, cluster=blocks, unit=f"{depth} products, commit, wait")


def tmem(kind, count, warps, rounds=16):
    """16 loads from, or stores to, tensor memory in a row, by each warp."""
    sets = max(1, min(16, 64 // count))
    registers = f"    .reg .b32 %v<{sets * count}>, %k0; mov.u32 %k0, 0;\n" + "".join(f"    mov.u32 %v{k}, %t;\n" for k in range(sets * count))
    lines = []
    for k in range(16):
        v = ", ".join(f"%v{k % sets * count + j}" for j in range(count))
        at = count * k % 256
        lines.append(f"    tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {{{v}}}, [%tl+{at}];" if kind == "ld" else
                     f"    tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%tl+{at}], {{{v}}};")
    end = "    tcgen05.wait::ld.sync.aligned;\n" + "\n".join(f"    xor.b32 %k0, %k0, %v{k * count};" for k in range(sets)) if kind == "ld" else "    tcgen05.wait::st.sync.aligned;"
    name = f"tmem_{kind}_x{count}_{warps}w"
    zero = "".join(f"    tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%tl+{count * k % 256}], {{{', '.join(f'%v{j}' for j in range(count))}}};\n"
                   for k in range(16)) + "    tcgen05.wait::st.sync.aligned;\n"
    body = timed_loop(f"\n{zero}", [*lines, end], rounds)
    return Kernel(name, "tensor memory", {"op": kind, "columns": count, "warps": warps},
                  entry(name, body + keep(["%k0"]), registers, warps), 16 * rounds, warps=warps)


# 2^f on [-0.5, 0.5), times: half a unit in the last place of what bf16 keeps; degree 3
EXP2 = ["0f3F800000", "0f3F317218", "0f3E75FDF0", "0f3D635847"]
ROUND = "0f4B400000"  # 1.5 * 2^23


def by_polynomial(x, temporary):
    """Two exponentials without MUFU: FMNMX, FADD2, FFMA2, and the exponent by a shift and an addition."""
    t = temporary
    return [f"max.f32 %y{x}, %y{x}, 0fC2FE0000; max.f32 %y{x + 1}, %y{x + 1}, 0fC2FE0000;",
            f"mov.b64 %{t}0, {{%y{x}, %y{x + 1}}};", f"add.rm.f32x2 %{t}1, %{t}0, %round;", f"sub.f32x2 %{t}2, %{t}1, %round;",
            f"sub.f32x2 %{t}2, %{t}0, %{t}2;", f"fma.rn.f32x2 %{t}3, %{t}2, %e3, %e2;", f"fma.rn.f32x2 %{t}3, %{t}3, %{t}2, %e1;",
            f"fma.rn.f32x2 %{t}3, %{t}3, %{t}2, %e0;", f"mov.b64 {{%z0, %z1}}, %{t}1;", f"mov.b64 {{%z2, %z3}}, %{t}3;",
            "shl.b32 %z0, %z0, 23; shl.b32 %z1, %z1, 23;", "add.s32 %z2, %z2, %z0; add.s32 %z3, %z3, %z1;",
            f"mov.b32 %y{x}, %z2; mov.b32 %y{x + 1}, %z3;"]


def chain(what, warps=8, rounds=8):
    """A tile of 128 x 128 scores in tensor memory to weights of 8 bits there, as the published chain is described: 64 columns a thread of
    8 warps, loaded 16 at a time, scaled, less a sum from shared memory, exponentials of which `what` of 16 pairs go by a polynomial, packed,
    and stored 4 columns at a time, when all warps are so far.  "moved": nothing of this but loads, the wait for all warps, and stores."""
    share = 0 if what == "moved" else what
    lines = [f"    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{', '.join(f'%b{16 * h + k}' for k in range(16))}}}, [%tl+{16 * h}];" for h in range(4)]
    lines.append("    tcgen05.wait::ld.sync.aligned;")
    for x in range(0, 0 if what == "moved" else 64, 2):
        if x % 4 == 0:
            lines.append(f"    ld.volatile.shared.v4.f32 {{%l0, %l1, %l2, %l3}}, [%s+{4 * x}]; mov.b64 %m0, {{%l0, %l1}}; mov.b64 %m1, {{%l2, %l3}};")
        lines.append(f"    mov.b64 %q0, {{%b{x}, %b{x + 1}}}; fma.rn.f32x2 %q0, %q0, %scale, %m{x // 2 % 2}; mov.b64 {{%y{x}, %y{x + 1}}}, %q0;")
        if (x // 2 * share) % 16 < share and share:
            lines += ["    " + line for line in by_polynomial(x, "q")]
        else:
            lines.append(f"    ex2.approx.ftz.f32 %y{x}, %y{x}; ex2.approx.ftz.f32 %y{x + 1}, %y{x + 1};")
        lines.append(f"    cvt.rn.satfinite.e4m3x2.f32 %h{x // 2 % 2}, %y{x + 1}, %y{x};")
        if x % 4:
            lines.append(f"    mov.b32 %o{x // 4}, {{%h0, %h1}};")
    lines.append("    bar.sync 0;")
    for h in range(4):
        values = [f"%b{16 * h + k}" if what == "moved" else f"%o{4 * h + k}" for k in range(4)]
        lines.append(f"    tcgen05.st.sync.aligned.32x32b.x4.b32 [%tl+{256 + 4 * h}], {{{', '.join(values)}}};")
    lines.append("    tcgen05.wait::st.sync.aligned;")
    pairs = {"scale": "0f3E000000", "round": ROUND} | {f"e{k}": EXP2[k] for k in range(4)}
    registers = "    .reg .b32 %b<64>, %o<16>; .reg .b16 %h<2>; .reg .f32 %y<64>, %l<4>; .reg .b32 %z<4>; .reg .b64 %q<4>, %m<2>, " + \
        ", ".join(f"%{p}" for p in pairs) + ";\n    .reg .f32 %f0;\n"
    registers += "".join(f"    mov.f32 %f0, {value}; mov.b64 %{name}, {{%f0, %f0}};\n" for name, value in pairs.items())
    zero = "".join(f"    mov.u32 %b{k}, 0;\n" for k in range(32)) + "".join(
        f"    tcgen05.st.sync.aligned.32x32b.x32.b32 [%tl+{32 * k}], {{{', '.join(f'%b{j}' for j in range(32))}}};\n" for k in range(2)) + \
        "    tcgen05.wait::st.sync.aligned; shl.b32 %w, %t, 2; add.u32 %w, %w, %s; st.shared.b32 [%w], 0xbf800000;\n"
    name = f"chain_{what}"
    body = timed_loop(f"\n    shr.u32 %w, %warp, 2; shl.b32 %w, %w, 6; add.u32 %tl, %tl, %w;\n{zero}", lines, rounds)
    if what == "moved":  # ptxas would move what it has no use for
        body += keep(f"%b{k}" for k in range(64))
    return Kernel(name, "softmax chain", {"what": what}, entry(name, body, registers, warps), rounds, warps=warps, unit="tile")


def all_kernels():
    out = [mma(m, n, source, depth) for source in ["SS", "TS"] for m, n in [(128, 64), (128, 80), (128, 96), (128, 112), (128, 128),
                                                                           (128, 256), (64, 128)] for depth in [1, 32]]
    out += [mma(m, n, source, depth, 2) for source in ["SS", "TS"] for m, n in [(256, 64), (256, 128), (256, 256), (128, 128)]
            for depth in [1, 32]]
    out += [tmem(kind, count, warps) for kind in ["ld", "st"] for count, warps in [(1, 4), (4, 4), (16, 4), (32, 4), (32, 8)]]
    out += [chain(what) for what in [0, 1, 2, 4, 8, 16, "moved"]]
    return out
