"""kernels.py - the PTX of the microbenchmarks.

Each is a Kernel: PTX text that reads the SM's clock before and after what it measures, and how to launch it.  A kernel
writes the clocks of each warp to `out` (u64), and takes a buffer `data` that it may read and write.  Nothing here is a
kernel that the timing model predicts: each measures one unit, or two that are said to share something.
"""
from dataclasses import dataclass, field

HEADER = ".version 8.1\n.target sm_90a\n.address_size 64\n"
SHARED = 160 * 1024


@dataclass
class Kernel:
    name: str
    group: str           # what is measured, for the table
    params: dict         # what varies inside the group
    ptx: str
    operations: float    # of each warp (or of the block, or of the chip: `per`) between the two clocks
    per: str = "warp"
    warps: int = 1
    blocks: str = "one"  # or "all": as many as there are SMs
    cluster: int = 1
    unit: str = "operation"
    box: dict = field(default_factory=dict)  # of a tensor map, where the kernel has one
    timers: dict = field(default_factory=dict)  # of launch.py: how many blocks, and their shared memory


def write_clocks(warps):
    """Each warp's first lane writes what lies between its two readings of the clock."""
    return f"""    mad.lo.u32 %slot, %cta, {warps}, %warp;
    mul.wide.u32 %w64, %slot, 8;
    add.u64 %at, %out, %w64;
    sub.u64 %c1, %c1, %c0;
    setp.eq.u32 %first, %lane, 0;
    @%first st.global.u64 [%at], %c1;
"""


def entry(name, body, registers="", warps=1, data_map=False, cluster=1):
    """A kernel around `body`, which has the labels and registers of its own; %c0, %c1: the clocks."""
    clustered = f".explicitcluster .reqnctapercluster {cluster},1,1\n" if cluster > 1 else ""
    map_param = ", .param .align 64 .b8 map[128]" if data_map else ""
    return f"""{HEADER}
.extern .shared .align 1024 .b8 smem[];
.visible .entry {name}(.param .u64 out, .param .u64 data{map_param})
.reqntid {32 * warps},1,1 {clustered}
{{
    .reg .b64 %c0, %c1, %out, %data, %at, %w64;
    .reg .b32 %t, %lane, %warp, %cta, %s, %i, %slot;
    .reg .pred %again, %first, %p;
    {registers}
    ld.param.u64 %out, [out];
    ld.param.u64 %data, [data];
    mov.u32 %t, %tid.x;
    and.b32 %lane, %t, 31;
    shr.u32 %warp, %t, 5;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %s, smem;
    mov.u64 %c0, 0;
    mov.u64 %c1, 0;
{body}
{write_clocks(warps)}    ret;
}}
"""


def timed_loop(text, rounds, before="", after=""):
    """`text`, `rounds` times, between two readings of the clock."""
    return f"""{before}
    mov.u32 %i, {rounds};
    bar.sync 0;
    mov.u64 %c0, %clock64;
LOOP:
{text}
    sub.u32 %i, %i, 1;
    setp.ne.u32 %again, %i, 0;
    @%again bra LOOP;
{after}
    mov.u64 %c1, %clock64;
"""


# What keeps results alive: a store that never happens, as far as nobody can prove.
def keep(names):
    adds = "\n".join(f"    xor.b32 %k, %k, {name};" for name in names)
    return f"""
    .reg .b32 %k; .reg .pred %kp;
    mov.u32 %k, 0;
{adds}
    setp.eq.u32 %kp, %k, 0x12345677;
    @%kp st.global.u32 [%data], %k;
"""


# ---- pipes ----

ARITHMETIC = {  # name: (text with d, a, b, c; operands begin as floats)
    "ffma": "fma.rn.f32 {d}, {a}, {b}, {c};",
    "fadd": "add.rn.f32 {d}, {a}, {b};",
    "fmul": "mul.rn.f32 {d}, {a}, {b};",
    "fmnmx": "max.f32 {d}, {a}, {b};",
    "ex2": "ex2.approx.ftz.f32 {d}, {a};",
    "rsqrt": "rsqrt.approx.ftz.f32 {d}, {a};",
    "f2fp": "cvt.rn.bf16x2.f32 {d}, {a}, {b};",
    "lop3": "lop3.b32 {d}, {a}, {b}, {c}, 0x6a;",
    "prmt": "prmt.b32 {d}, {a}, {b}, 0x6521;",
    "iadd": "add.s32 {d}, {a}, {b};",
    "imad": "mad.lo.s32 {d}, {a}, {b}, {c};",
    "shfl": "shfl.sync.idx.b32 {d}, {a}, {b}, 31, -1;",
}
CHAINS, DEEP, ROUNDS = 8, 8, 32


def arithmetic_setup(n):
    lines = [f"    .reg .b32 %x<{n}>, %y<{n}>, %z<{n}>;"]
    for k in range(n):
        lines.append(f"    ld.global.b32 %x{k}, [%data+{4 * k}];\n    ld.global.b32 %y{k}, [%data+{4 * k + 128}];\n"
                     f"    ld.global.b32 %z{k}, [%data+{4 * k + 256}];\n    add.u32 %x{k}, %x{k}, %lane;\n    xor.b32 %y{k}, %y{k}, %lane;")
    return "\n".join(lines)


def arithmetic(name, warps, chains, operands="shared"):
    """`chains` chains of dependent operations.  operands: whether all read the same %y0 and %z0 (a register that the
    next instruction reads again can stay in the reuse cache), or each its own."""
    text = []
    for _ in range(DEEP * CHAINS // chains):
        for k in range(chains):
            y, z = (f"%y{k}", f"%z{k}") if operands == "own" else ("%y0", "%z0")
            text.append("    " + ARITHMETIC[name].format(d=f"%x{k}", a=f"%x{k}", b=y, c=z))
    body = timed_loop("\n".join(text), ROUNDS, arithmetic_setup(CHAINS)) + keep(f"%x{k}" for k in range(chains))
    kind = "latency" if chains == 1 else "rate"
    label = f"{kind}_{name}_{warps}w" + ("_own" if operands == "own" else "")
    return Kernel(label, f"{kind}", {"op": name, "warps": warps, "operands": operands}, entry(label, body, warps=warps),
                  len(text) * ROUNDS, warps=warps)


def mix(one, other, ratio, warps):
    """`ratio` of the one for each of the other, all independent of one another."""
    text, count = [], 0
    for k in range(CHAINS):
        text.append("    " + ARITHMETIC[other].format(d=f"%x{k}", a=f"%x{k}", b="%y0", c="%z0"))
        for j in range(ratio):
            at = (k * ratio + j) % CHAINS
            text.append("    " + ARITHMETIC[one].format(d=f"%y{at}", a=f"%y{at}", b="%z0", c="%z1"))
        count += 1
    names = [f"%x{k}" for k in range(CHAINS)] + [f"%y{k}" for k in range(CHAINS)]
    label = f"mix_{one}{ratio}_{other}_{warps}w"
    body = timed_loop("\n".join(text), ROUNDS * 4, arithmetic_setup(CHAINS)) + keep(names)
    return Kernel(label, "mix", {"ops": f"{ratio} {one} + {other}", "warps": warps}, entry(label, body, warps=warps),
                  count * ROUNDS * 4, warps=warps, unit=f"{ratio} {one} + 1 {other}")


# ---- shared memory ----

def shared_access(kind, warps, stride=16, chase=False):
    """LDS/STS of 16 bytes a lane (or 4), lanes `stride` bytes apart (0: all at one address); stride "and 7", "shr 1": pieces
    of 16 bytes by lane & 7, by lane >> 1."""
    place = f"{stride.split()[0]}.b32 %a, %lane, {stride.split()[1]}; shl.b32 %a, %a, 4;" if isinstance(stride, str) else \
        f"mul.lo.u32 %a, %lane, {stride};"
    wide = isinstance(stride, str) or stride % 16 == 0
    setup = f"""
    .reg .b32 %a, %v<64>, %u0, %u1;
    mov.u32 %u0, 0; mov.u32 %u1, 0;
    {place.replace("shr.b32", "shr.u32")}
    add.u32 %a, %a, %s;
    mov.u32 %v0, %a;
    mov.u32 %v1, %a; mov.u32 %v2, %a; mov.u32 %v3, %a;
    st.shared.{"v4.u32 [%a], {%a, %a, %a, %a}" if wide else "u32 [%a], %a"};
"""
    lines = []
    for k in range(16):
        d = ", ".join(f"%v{4 * (k % 8) + j}" for j in range(4))
        lines.append({
            "lds128": f"    ld.volatile.shared.v4.u32 {{{d}}}, [%a+{512 * k}];",
            "lds32": f"    ld.volatile.shared.u32 %v{k % 8}, [%a+{512 * k}];",
            "sts128": f"    st.volatile.shared.v4.u32 [%a+{512 * k}], {{%v0, %v1, %v2, %v3}};",
            "sts32": f"    st.volatile.shared.u32 [%a+{512 * k}], %v0;",
            "ldmatrix": f"    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{d}}}, [%a+{512 * k}];",
            "stmatrix": f"    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%a+{512 * k}], {{%v0, %v1, %v2, %v3}};",
            "chase": "    ld.volatile.shared.u32 %a, [%a];",
            "chase_ldmatrix": "    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a}, [%a];",
        }[kind])
        if kind in ("lds128", "ldmatrix"):  # else ptxas leaves out what is not used
            v = [f"%v{4 * (k % 8) + j}" for j in range(4)]
            lines.append(f"    lop3.b32 %u0, {v[0]}, {v[1]}, %u0, 0x96;\n    lop3.b32 %u1, {v[2]}, {v[3]}, %u1, 0x96;")
        elif kind == "lds32":
            lines.append(f"    lop3.b32 %u{k % 2}, %v{k % 8}, %u0, %u1, 0x96;")
    if kind == "ldmatrix":  # else it is loaded once
        lines.append("    st.volatile.shared.u32 [%a], %a;")
    if chase:
        setup += "    add.u32 %v0, %a, 0;\n"
        kept = ["%a"]
    else:
        kept = ["%u0", "%u1"] if kind.startswith("ld") else []
    label = f"shared_{kind}_{warps}w_s{stride}".replace(" ", "")
    body = timed_loop("\n".join(lines), ROUNDS, setup) + keep(kept)
    return Kernel(label, "shared memory" if not chase else "latency", {"op": kind, "warps": warps, "stride": stride},
                  entry(label, body, warps=warps), 16 * ROUNDS, warps=warps)


# ---- barriers ----

def barrier(warps, named):
    text = "\n".join(f"    bar.sync {1 if named else 0}, {32 * warps};" for _ in range(16))
    label = f"bar_sync_{warps}w"
    return Kernel(label, "barrier", {"op": "bar.sync", "warps": warps}, entry(label, timed_loop(text, ROUNDS), warps=warps),
                  16 * ROUNDS, warps=warps)


MBARRIER = """
    .reg .b64 %state; .reg .b32 %bar, %bar2, %par; .reg .pred %done;
    mov.u32 %bar, smem; add.u32 %bar2, %bar, 8; mov.u32 %par, 0;
    setp.eq.u32 %first, %t, 0;
    @%first mbarrier.init.shared::cta.b64 [%bar], {count};
    @%first mbarrier.init.shared::cta.b64 [%bar2], {count};
    bar.sync 0;
"""


def wait(bar, parity, label):
    return f"""
{label}:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [{bar}], {parity};
    @!%done bra {label};
"""


def mbarrier(kind):
    """one: a thread arrives and waits for itself; pong: two warps wake each other in turn; ready: the phase is over."""
    warps = 2 if kind == "pong" else 1
    if kind == "one":
        text = "    @%first mbarrier.arrive.shared::cta.b64 %state, [%bar];" + wait("%bar", "%par", "W0") + \
               "    xor.b32 %par, %par, 1;"
        after, n = "", 1
    elif kind == "ready":
        text, after, n = wait("%bar", "1", "W0") + wait("%bar", "1", "W1") + wait("%bar", "1", "W2") + wait("%bar", "1", "W3"), "", 4
    else:
        text = f"""
    @%p bra OTHER;
    setp.eq.u32 %first, %lane, 0;
    @%first mbarrier.arrive.shared::cta.b64 %state, [%bar];
    {wait("%bar2", "%par", "W0")}
    bra BOTH;
OTHER:
    {wait("%bar", "%par", "W1")}
    setp.eq.u32 %first, %lane, 0;
    @%first mbarrier.arrive.shared::cta.b64 %state, [%bar2];
BOTH:
    xor.b32 %par, %par, 1;
"""
        after, n = "", 2
    label = f"mbarrier_{kind}"
    setup = MBARRIER.replace("{count}", "1") + "    setp.eq.u32 %p, %warp, 1;\n"
    return Kernel(label, "barrier", {"op": f"mbarrier {kind}"}, entry(label, timed_loop(text, 256, setup, after), warps=warps),
                  256 * n, warps=warps, unit="arrive to wake" if kind == "pong" else "operation")


def fence(text, name, n=8, warps=4, target=""):
    label = f"fence_{name}"
    return Kernel(label, "barrier", {"op": text}, entry(label, timed_loop("\n".join([f"    {text}"] * n), ROUNDS), warps=warps),
                  n * ROUNDS, warps=warps)


def cluster_barrier(size):
    label = f"cluster_barrier_{size}"
    text = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"
    return Kernel(label, "barrier", {"op": "barrier.cluster", "blocks": size},
                  entry(label, timed_loop(text, 64), warps=4, cluster=size), 64, warps=4, cluster=size)


# ---- wgmma ----

def descriptor(at):
    """K-major, 128-byte swizzle, rows of 8 every 1024 bytes."""
    return (at >> 4) | (1 << 16) | (64 << 32) | (1 << 62)


def wgmma_text(n, source, depth, prefix=""):
    d = ", ".join(f"%{prefix}d{k}" for k in range(n // 2))
    lines = ["    wgmma.fence.sync.aligned;"]
    for k in range(depth):
        a = f"{{%{prefix}a0, %{prefix}a1, %{prefix}a2, %{prefix}a3}}" if source == "RS" else f"%{prefix}da"
        flags = "1, 1, 0" if source == "RS" else "1, 1, 0, 0"
        lines.append(f"    wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{d}}}, {a}, %{prefix}db, 1, {flags};")
    lines.append("    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;")
    return "\n".join(lines)


def wgmma_setup(n, prefix=""):
    return f"""
    .reg .f32 %{prefix}d<{n // 2}>; .reg .b32 %{prefix}a<4>, %{prefix}w; .reg .b64 %{prefix}da, %{prefix}db;
    mov.u64 %{prefix}da, {descriptor(0)}; mov.u64 %{prefix}db, {descriptor(32768)};
    shr.u32 %{prefix}w, %s, 4; cvt.u64.u32 %w64, %{prefix}w;
    add.u64 %{prefix}da, %{prefix}da, %w64; add.u64 %{prefix}db, %{prefix}db, %w64;
""" + "\n".join(f"    ld.global.b32 %{prefix}a{k}, [%data+{4 * k}];" for k in range(4)) + "\n" + \
        "\n".join(f"    mov.f32 %{prefix}d{k}, 0f00000000;" for k in range(n // 2))


def keep_floats(n, prefix=""):
    return f"    .reg .b32 %kf<{n // 2}>;\n" + "\n".join(f"    mov.b32 %kf{k}, %{prefix}d{k};" for k in range(n // 2)) + \
        keep(f"%kf{k}" for k in range(n // 2))


def wgmma(n, source, depth, groups=1):
    label = f"wgmma_n{n}_{source}_d{depth}_g{groups}"
    body = timed_loop(wgmma_text(n, source, depth), 64, wgmma_setup(n)) + keep_floats(n)
    return Kernel(label, "wgmma", {"n": n, "a": source, "depth": depth, "groups": groups},
                  entry(label, body, warps=4 * groups), 64, warps=4 * groups, unit=f"{depth} wgmma, commit, wait")


def beside(kind, n, source, other_rounds, alone=None):
    """Warps 0-3 run wgmma in a loop, warps 4-7 something else: the clocks of each.  alone: "first" or "second" only."""
    depth = 16 if source == "SS" else 4  # ptxas takes long over many RS products
    first = f"""
    {wgmma_setup(n)}
    bar.sync 0;
    mov.u32 %i, {1024 // depth};
    mov.u64 %c0, %clock64;
LOOP:
{wgmma_text(n, source, depth)}
    sub.u32 %i, %i, 1;
    setp.ne.u32 %again, %i, 0;
    @%again bra LOOP;
    mov.u64 %c1, %clock64;
    {keep_floats(n)}
"""
    text, setup, wait_all = OTHERS[kind]
    second = f"""
    {setup}
    bar.sync 0;
    mov.u32 %i, {other_rounds};
    mov.u64 %c0, %clock64;
LOOP2:
{text}
    sub.u32 %i, %i, 1;
    setp.ne.u32 %again, %i, 0;
    @%again bra LOOP2;
{wait_all}
    mov.u64 %c1, %clock64;
"""
    idle = "    bar.sync 0;\n"
    label = f"beside_{kind}_n{n}_{source}" + (f"_{alone}" if alone else "")
    body = f"""
    setp.lt.u32 %p, %warp, 4;
    @!%p bra SECOND;
    {idle if alone == "second" else first}
    bra END;
SECOND:
    {idle if alone == "first" else second}
END:
"""
    return Kernel(label, "beside", {"wgmma": f"n{n} {source} x 1024" if alone != "second" else "none", "other": kind
                                    if alone != "first" else "none", "rounds": other_rounds},
                  entry(label, body, warps=8), 1, warps=8, blocks="all", unit="whole loop")


def vector_lines(text, step, count=16):
    return "\n".join("    " + text.format(at=step * k) for k in range(count))


LANE_SHARED = "    .reg .b32 %a, %v<4>; mul.lo.u32 %a, %lane, 16; add.u32 %a, %a, %s; add.u32 %a, %a, 65536;\n" \
              "    mov.u32 %v0, 0; mov.u32 %v1, 0; mov.u32 %v2, 0; mov.u32 %v3, 0;"
# each block adds into 64 KB of its own; a warp's instruction to a piece that follows that of the lane before it
LANE_GLOBAL = """
    .reg .b64 %g; .reg .b32 %ga; .reg .f32 %z;
    mad.lo.u32 %ga, %cta, 65536, 0;
    mad.lo.u32 %ga, %warp, 8192, %ga;
    mad.lo.u32 %ga, %lane, WIDTH, %ga;
    mul.wide.u32 %g, %ga, 1;
    add.u64 %g, %g, %data;
    mov.f32 %z, 0f00000000;
"""
BULK_ADD = """
    setp.eq.u32 %first, %t, 128;
"""
BULK_ADDRESS = """
    .reg .b64 %g; .reg .b32 %ga, %sa;
    mad.lo.u32 %ga, %cta, 65536, 0;
    mul.wide.u32 %g, %ga, 1;
    add.u64 %g, %g, %data;
    add.u32 %sa, %s, 65536;
    setp.eq.u32 %first, %t, 128;
"""


def red(width):
    kind = {4: "f32", 8: "v2.f32", 16: "v4.f32"}[width]
    value = {4: "%z", 8: "{{%z, %z}}", 16: "{{%z, %z, %z, %z}}"}[width]
    form = f"red.global.add.{kind} [%g+{{at}}], {value};" if width == 4 else \
        f"red.global.add.v{width // 4}.f32 [%g+{{at}}], {value};"
    return vector_lines(form, 32 * width), LANE_GLOBAL.replace("WIDTH", str(width)), "    fence.acq_rel.gpu;"


def bulk_add(size):
    lines = [f"    @%first cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%g+{size * k}], [%sa], {size};"
             for k in range(4)]
    lines.append("    @%first cp.async.bulk.commit_group;\n    @%first cp.async.bulk.wait_group 1;")
    return "\n".join(lines), BULK_ADDRESS, "    @%first cp.async.bulk.wait_group 0;"


def bulk_store(size):
    lines = [f"    @%first cp.async.bulk.global.shared::cta.bulk_group [%g+{size * k}], [%sa], {size};" for k in range(4)]
    lines.append("    @%first cp.async.bulk.commit_group;\n    @%first cp.async.bulk.wait_group 1;")
    return "\n".join(lines), BULK_ADDRESS, "    @%first cp.async.bulk.wait_group 0;"


def arithmetic_beside(text):
    """16 operations a round on 8 registers, each with two of its own: what products leave of the pipes and of the registers."""
    lines = "\n".join("    " + text.format(d=f"%bx{k % 8}", a=f"%bx{k % 8}", b=f"%by{k % 8}") for k in range(16))
    setup = "    .reg .f32 %bx<8>, %by<8>;\n" + "\n".join(
        f"    ld.global.f32 %bx{k}, [%data+{4 * k}]; ld.global.f32 %by{k}, [%data+{4 * k + 128}];" for k in range(8))
    kept = "    {\n    .reg .b32 %kf<8>;\n" + "\n".join(f"    mov.b32 %kf{k}, %bx{k};" for k in range(8)) + \
        keep(f"%kf{k}" for k in range(8)) + "    }\n"
    return lines, setup, kept


def bulk_load_beside(size):
    """One thread keeps 4 copies of `size` bytes under way: does what they write take the port from the operands of products?"""
    issue = f"""
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%s+{{bar}}], {size};
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+{{to}}], [%g], {size}, [%s+{{bar}}];"""
    at = [{"bar": 131072 + 8 * k, "to": 65536 + size * k} for k in range(4)]
    setup = """
    .reg .b64 %g, %state; .reg .b32 %par; .reg .pred %done;
    setp.eq.u32 %first, %t, 128;
    mov.u64 %g, %data; mov.u32 %par, 0;
""" + "".join(f"    @%first mbarrier.init.shared::cta.b64 [%s+{a['bar']}], 1;\n" for a in at) + \
        "    bar.warp.sync -1;" + "".join(issue.format(**a) for a in at)
    # the other warps of the group wait, too
    text = "".join(wait(f"%s+{a['bar']}", "%par", f"B{k}") + "    bar.sync 1, 128;" + issue.format(**a) for k, a in enumerate(at))
    end = "".join(wait(f"%s+{a['bar']}", "%par", f"C{k}") for k, a in enumerate(at))
    return text + "\n    xor.b32 %par, %par, 1;", setup, end


def ready_beside():
    """Each warp looks again and again at a phase that is over, of a barrier of its own group: does that wait for the port?"""
    setup = """
    .reg .b32 %bar; add.u32 %bar, %s, 131072;
    .reg .pred %done; setp.eq.u32 %first, %t, 128;
    @%first mbarrier.init.shared::cta.b64 [%bar], 1;
    bar.sync 1, 128;
"""
    return "".join(wait("%bar", "1", f"R{k}") for k in range(4)), setup, ""


OTHERS = {
    "max": arithmetic_beside("max.f32 {d}, {a}, {b};"), "ex2": arithmetic_beside("ex2.approx.ftz.f32 {d}, {a};"),
    "fma": arithmetic_beside("fma.rn.f32 {d}, {a}, {b}, {b};"), "pack": arithmetic_beside(
        "{{ .reg .b32 %bp; cvt.rn.bf16x2.f32 %bp, {a}, {b}; mov.b32 {d}, %bp; }}"),
    "bulk_load_8k": bulk_load_beside(8192), "ready": ready_beside(),
    "lds128": (vector_lines("ld.volatile.shared.v4.u32 {{%v0, %v1, %v2, %v3}}, [%a+{at}];\n"
                            "    lop3.b32 %u0, %v0, %v1, %u0, 0x96; lop3.b32 %u1, %v2, %v3, %u1, 0x96;", 512),
               LANE_SHARED + "    .reg .b32 %u0, %u1; mov.u32 %u0, 0; mov.u32 %u1, 0;",
               "    xor.b32 %u0, %u0, %u1; setp.eq.u32 %first, %u0, 0x12345677; @%first st.global.u32 [%data], %u0;"),
    "sts128": (vector_lines("st.volatile.shared.v4.u32 [%a+{at}], {{%v0, %v1, %v2, %v3}};", 512), LANE_SHARED, ""),
    "red_f32": red(4), "red_v2": red(8), "red_v4": red(16),
    "bulk_add_4k": bulk_add(4096), "bulk_add_16k": bulk_add(16384), "bulk_store_16k": bulk_store(16384),
}


# ---- TMA ----

def bulk_load(size, depth, blocks, spread):
    """One thread keeps `depth` copies of `size` bytes under way.  spread: bytes that the blocks' copies run over
    (a small one stays in the L2 cache; one of 1 GB does not)."""
    rounds = max(16, min(256, (1 << 21) // size // (8 if blocks == "one" else 1)))
    inits = "\n".join(f"    @%first mbarrier.init.shared::cta.b64 [%s+{8 * k}], 1;" for k in range(depth))
    issue = """
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%s+{bar}], {size};
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+{to}], [%g], {size}, [%s+{bar}];
    add.u64 %off, %off, {step};
    and.b64 %off, %off, {mask};
    add.u64 %g, %base, %off;
"""
    step = size * (depth if blocks == "one" else 1)
    parts = {"size": size, "step": f"{132 * size}" if blocks == "all" else str(step), "mask": spread - 1}
    start = "".join(issue.format(bar=8 * k, to=1024 + size * k, **parts) for k in range(depth))
    text = ""
    for k in range(depth):
        text += wait(f"%s+{8 * k}", "%par", f"W{k}") + issue.format(bar=8 * k, to=1024 + size * k, **parts)
    end = "".join(wait(f"%s+{8 * k}", "%par", f"E{k}") for k in range(depth))
    setup = f"""
    .reg .b64 %g, %base, %off, %state; .reg .b32 %par; .reg .pred %done;
    setp.eq.u32 %first, %t, 0;
{inits}
    mov.u32 %par, 0;
    mul.wide.u32 %off, %cta, {size};
    and.b64 %off, %off, {spread - 1};
    mov.u64 %base, %data;
    add.u64 %g, %base, %off;
"""
    text += "    xor.b32 %par, %par, 1;\n"
    name = f"bulk_load_{size}_d{depth}_{blocks}_{spread >> 20}m"
    body = timed_loop(text, rounds, setup, end).replace("bar.sync 0;", f"bar.sync 0;\n{start}", 1)
    return Kernel(name, "TMA load", {"bytes": size, "depth": depth, "blocks": blocks, "spread": spread},
                  entry(name, body), size * depth * rounds if depth > 1 else rounds, blocks=blocks,
                  unit="byte" if depth > 1 else "copy, one after the other")


def tensor_load(rows, depth, blocks):
    """Boxes of 64 bf16 x rows, 128-byte swizzle, from a tensor that stays in the L2 cache."""
    size, rounds = 128 * rows, 64
    inits = "\n".join(f"    @%first mbarrier.init.shared::cta.b64 [%s+{8 * k}], 1;" for k in range(depth))

    def issue(k):
        return f"""
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%s+{8 * k}], {size};
    @%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s+{1024 + size * k}], [%m, {{%zero, %row}}], [%s+{8 * k}];
    add.u32 %row, %row, {rows};
    and.b32 %row, %row, 16383;
"""
    setup = f"""
    .reg .b64 %m, %state; .reg .b32 %par, %row, %zero; .reg .pred %done;
    mov.b64 %m, map;
    cvta.param.u64 %m, %m;
    setp.eq.u32 %first, %t, 0;
{inits}
    mov.u32 %par, 0; mov.u32 %zero, 0;
    mul.lo.u32 %row, %cta, {rows};
    and.b32 %row, %row, 16383;
"""
    text = "".join(wait(f"%s+{8 * k}", "%par", f"W{k}") + issue(k) for k in range(depth)) + "    xor.b32 %par, %par, 1;\n"
    end = "".join(wait(f"%s+{8 * k}", "%par", f"E{k}") for k in range(depth))
    start = "".join(issue(k) for k in range(depth))
    name = f"tensor_load_{rows}_d{depth}_{blocks}"
    body = timed_loop(text, rounds, setup, end).replace("bar.sync 0;", f"bar.sync 0;\n{start}", 1)
    return Kernel(name, "TMA load", {"box": f"64x{rows} bf16", "bytes": size, "depth": depth, "blocks": blocks},
                  entry(name, body, data_map=True), size * depth * rounds if depth > 1 else rounds, blocks=blocks,
                  unit="byte" if depth > 1 else "copy, one after the other", box={"rows": rows})


def bulk_wait(size, read):
    """Stores of `size` bytes, one after the other: until memory has them, or until they have been read."""
    text = f"""    @%first cp.async.bulk.global.shared::cta.bulk_group [%g], [%sa], {size};
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group{".read" if read else ""} 0;"""
    name = f"bulk_wait_{size}" + ("_read" if read else "")
    return Kernel(name, "TMA store", {"op": "store and wait", "bytes": size, "read": read},
                  entry(name, timed_loop(text, 64, BULK_ADDRESS.replace("%t, 128", "%t, 0"))), 64, unit="store")


def warp_mma(warps, chains):
    d = [[f"%d{4 * k + j}" for j in range(4)] for k in range(chains)]
    lines = [f"    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{', '.join(x)}}}, {{%a0, %a1, %a2, %a3}}, {{%a4, %a5}}, "
             f"{{{', '.join(x)}}};" for _ in range(64 // chains) for x in d]
    setup = f"    .reg .f32 %d<{4 * chains}>; .reg .b32 %a<6>;\n" + \
        "".join(f"    ld.global.b32 %a{k}, [%data+{4 * k}];\n" for k in range(6)) + \
        "".join(f"    mov.f32 %d{k}, 0f00000000;\n" for k in range(4 * chains))
    kept = f"    .reg .b32 %kf<{4 * chains}>;\n" + "\n".join(f"    mov.b32 %kf{k}, %d{k};" for k in range(4 * chains)) + \
        keep(f"%kf{k}" for k in range(4 * chains))
    name = f"mma_{warps}w_c{chains}"
    return Kernel(name, "mma.sync", {"warps": warps, "chains": chains},
                  entry(name, timed_loop("\n".join(lines), ROUNDS, setup) + kept, warps=warps), 64 * ROUNDS, warps=warps)


def bulk_out(kind, size, blocks, sharing=1):
    """`sharing`: so many SMs, a power of two, store or add to the same places in the same order, as blocks of one head do with dQ."""
    text, setup, after = {"store": bulk_store, "add": bulk_add}[kind](size)
    setup = setup.replace("%t, 128", "%t, 0")
    if sharing > 1:
        setup = setup.replace("mad.lo.u32 %ga, %cta, 65536, 0;", f"shr.u32 %ga, %cta, {sharing.bit_length() - 1};\n    mul.lo.u32 %ga, %ga, 65536;")
    name = f"bulk_{kind}_{size}_{blocks}" + (f"_by{sharing}" if sharing > 1 else "")
    return Kernel(name, "TMA store", {"op": kind, "bytes": size, "blocks": blocks} | ({"sharing": sharing} if sharing > 1 else {}),
                  entry(name, timed_loop(text, 64, setup, after)), 4 * 64 * size, blocks=blocks, unit="byte")


# ---- L2 and memory ----

def red_all(width, warps, same, blocks="all"):
    """f32 additions to memory by all SMs: `same`: all blocks to the same 64 KB, else each to its own."""
    text, setup, after = red(width)
    if same:
        setup = setup.replace("mad.lo.u32 %ga, %cta, 65536, 0;", "mov.u32 %ga, 0;")
    name = f"red_{width}_{warps}w" + ("_same" if same else "") + ("_one" if blocks == "one" else "")
    return Kernel(name, "additions", {"bytes": width, "warps": warps, "same": same},
                  entry(name, timed_loop(text, 64, setup, after), warps=warps), 64 * 16 * 32 * (width // 4), warps=warps,
                  blocks=blocks, unit="f32 added")


def chase(spread):
    """Latency of a load: the host fills `data` with a cycle through `spread` bytes, 128 bytes apart at least."""
    name = f"chase_{spread >> 10}k"
    text = "\n".join("    ld.global.cg.u64 %g, [%g];" for _ in range(16))
    kept = "    .reg .b32 %g32; cvt.u32.u64 %g32, %g;\n" + keep(["%g32"])
    setup = "    .reg .b64 %g; mov.u64 %g, %data;\n"
    return Kernel(name, "latency", {"op": "ld.global.cg", "spread": spread},
                  entry(name, timed_loop(text, 64, setup) + kept), 16 * 64, unit="load")


def stream(warps, spread, blocks="all", turns=32):
    """ld.global.v4 by all SMs, or by one.  `turns`: so many that few warps, too, read more than the L2 cache holds."""
    name = f"stream_{warps}w_{spread >> 20}m" + ("_one" if blocks == "one" else "")
    setup = f"""
    .reg .b64 %g, %off; .reg .b32 %v<32>, %n;
    mad.lo.u32 %n, %cta, {32 * warps}, %t;
    mul.wide.u32 %off, %n, 16;
"""
    text = "".join(f"""
    and.b64 %off, %off, {spread - 1};
    add.u64 %g, %data, %off;
    ld.volatile.global.v4.u32 {{%v{4 * k}, %v{4 * k + 1}, %v{4 * k + 2}, %v{4 * k + 3}}}, [%g];
    add.u64 %off, %off, {132 * 32 * warps * 16};""" for k in range(8))
    return Kernel(name, "memory", {"op": "ld.global.v4", "warps": warps, "spread": spread},
                  entry(name, timed_loop(text, turns, setup), warps=warps), turns * 8 * 512, warps=warps, blocks=blocks, unit="byte")


def empty():
    return Kernel("empty", "launch", {}, entry("empty", ""), 1, unit="launch")


def all_kernels():
    out = [empty()]
    out += [arithmetic(op, 1, 1) for op in ARITHMETIC]
    out += [arithmetic(op, warps, CHAINS) for op in ARITHMETIC for warps in [4, 16]]
    out += [arithmetic(op, 16, CHAINS, "own") for op in ["ffma", "imad", "lop3"]]
    out += [mix(*m, 16) for m in [("ffma", "ex2", 4), ("ffma", "ex2", 8), ("fmnmx", "ex2", 4), ("f2fp", "ex2", 1),
                                  ("f2fp", "fmnmx", 1), ("ffma", "fmnmx", 1), ("iadd", "ffma", 1), ("imad", "ffma", 1),
                                  ("iadd", "fmnmx", 1), ("shfl", "ffma", 1), ("f2fp", "ffma", 1), ("lop3", "fmnmx", 1)]]
    out += [shared_access("chase", 1, 4, True), shared_access("chase_ldmatrix", 1, 16, True)]
    out += [shared_access(kind, warps) for kind in ["lds128", "sts128", "ldmatrix", "stmatrix"] for warps in [1, 4, 16]]
    out += [shared_access("lds128", warps, 0) for warps in [1, 4, 16]]
    out += [shared_access("lds32", 16, stride) for stride in [0, 4, 8, 16, 32, 64, 128]]
    out += [shared_access("sts32", 16, stride) for stride in [4, 8, 32]]
    out += [barrier(warps, warps == 4) for warps in [1, 4, 8, 12, 16]]
    out += [mbarrier(kind) for kind in ["one", "ready", "pong"]]
    out += [fence("fence.proxy.async.shared::cta;", "proxy_async"), fence("fence.acq_rel.cta;", "cta"),
            fence("bar.warp.sync -1;", "warp_sync")]
    out += [cluster_barrier(2)]
    out += [wgmma(n, "SS", depth) for n in [8, 16, 32, 64, 128, 192, 256] for depth in [1, 4, 16]]
    out += [wgmma(n, "RS", depth) for n in [8, 64, 128] for depth in [1, 4]]  # ptxas takes long over these
    out += [wgmma(n, "SS", 16, 2) for n in [64, 128, 256]]
    for kind, rounds in [("lds128", 64), ("sts128", 1024), ("red_v4", 128), ("red_v2", 256), ("red_f32", 512),
                         ("bulk_add_4k", 256), ("bulk_add_16k", 64), ("bulk_store_16k", 128)]:
        out += [beside(kind, 128, "SS", rounds), beside(kind, 128, "SS", rounds, "second")]
    for kind, rounds in [("max", 1024), ("ex2", 512), ("fma", 2048), ("pack", 1024)]:
        out += [beside(kind, 128, "SS", rounds), beside(kind, 128, "SS", rounds, "second")]
    # n 64: the operands of products take all of the port
    out += [beside("bulk_load_8k", n, "SS", 128) for n in [64, 128]] + [beside("bulk_load_8k", 64, "SS", 128, only)
                                                                     for only in ["first", "second"]]
    out += [beside("lds128", 128, "RS", 64), beside("lds128", 128, "SS", 64, "first"),
            beside("lds128", 128, "RS", 64, "first")]
    out += [bulk_load(size, 1, "one", 1 << 21) for size in [128, 1024, 2048, 4096, 8192, 16384, 32768, 65536]]
    out += [bulk_load(size, depth, "one", 1 << 22) for size, depth in [(4096, 4), (8192, 4), (16384, 4), (32768, 4), (16384, 8)]]
    out += [bulk_load(size, depth, "all", 1 << 24) for size, depth in [(8192, 4), (16384, 4), (32768, 4)]]
    out += [bulk_load(size, depth, "all", 1 << 30) for size, depth in [(4096, 1), (4096, 4), (8192, 2), (16384, 1), (16384, 2), (16384, 4), (32768, 4)]]
    out += [tensor_load(rows, 1, "one") for rows in [8, 64, 128, 256]]
    out += [tensor_load(rows, depth, blocks) for rows, depth in [(64, 4), (128, 4)] for blocks in ["one", "all"]]
    out += [bulk_out(kind, size, blocks) for kind in ["store", "add"] for size in [4096, 16384] for blocks in ["one", "all"]]
    out += [red_all(width, warps, False) for width in [4, 8, 16] for warps in [4, 16]]
    out += [red_all(16, 4, True)]
    out += [bulk_out("add", 16384, "all", sharing) for sharing in [4, 32, 128]]
    out += [red_all(16, 16, False, "one"), stream(32, 1 << 24, "one")]
    out += [bulk_wait(size, read) for size in [4096, 16384] for read in [False, True]]
    out += [warp_mma(warps, chains) for warps, chains in [(1, 1), (4, 4), (16, 4)]]
    out += [shared_access("lds128", 16, pattern) for pattern in ["and 1", "and 7", "and 15", "shr 1", "shr 2", "shr 3"]]
    out += [shared_access("ldmatrix", 16, pattern) for pattern in ["and 7"]]
    out += [chase(spread) for spread in [1 << 17, 1 << 23, 1 << 28]]
    out += [stream(warps, spread) for warps in [16, 32] for spread in [1 << 24, 1 << 30]]
    # what lies between the latency of one load and the rate of all: few bytes under way, from the L2 cache and from memory
    out += [stream(warps, spread, turns=256 // warps) for warps in [1, 2, 4, 8] for spread in [1 << 24, 1 << 30]]
    return out
