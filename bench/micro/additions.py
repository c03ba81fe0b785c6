"""additions.py - microbenchmarks of what SMs add to memory at the same time: to places of their own, to places in common, in the
same order or not; f32 in a row, and boxes of a tensor as a backward pass adds dQ.
"""
from kernels import Kernel, entry, red, timed_loop

TILE = 16384


def walk(sharing, region, apart):
    """Every `sharing` SMs, a power of two, add 16 KB at a time through `region` bytes of their own; each begins `apart` bytes behind
    the one before, so that places are in common, but not at the same time."""
    lines = []
    for _ in range(4):
        lines.append(f"    @%first cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%g], [%sa], {TILE};\n"
                     f"    add.u32 %off, %off, {TILE}; and.b32 %off, %off, {region - 1}; add.u32 %at32, %base, %off;\n"
                     "    cvt.u64.u32 %g, %at32; add.u64 %g, %g, %data;")
    lines.append("    @%first cp.async.bulk.commit_group;\n    @%first cp.async.bulk.wait_group 1;")
    setup = f"""
    .reg .b64 %g; .reg .b32 %base, %off, %at32, %sa;
    shr.u32 %base, %cta, {sharing.bit_length() - 1};
    mul.lo.u32 %base, %base, {region};
    and.b32 %off, %cta, {sharing - 1};
    mul.lo.u32 %off, %off, {apart};
    and.b32 %off, %off, {region - 1};
    add.u32 %at32, %base, %off; cvt.u64.u32 %g, %at32; add.u64 %g, %g, %data;
    add.u32 %sa, %s, 65536;
    setp.eq.u32 %first, %t, 0;
"""
    name = f"add_walk_by{sharing}_{region >> 10}k" + (f"_apart{apart >> 10}k" if apart else "")
    return Kernel(name, "additions", {"sharing": sharing, "region": region, "apart": apart},
                  entry(name, timed_loop("\n".join(lines), 64, setup, "    @%first cp.async.bulk.wait_group 0;")), 4 * 64 * TILE, blocks="all", unit="byte")


def few(width, warps, region):
    """All SMs add to the same `region` bytes, over and over: lanes beside one another, warps and SMs that begin apart."""
    op, value = {4: ("f32", "%v0"), 16: ("v4.f32", "{%v0, %v1, %v2, %v3}")}[width]
    each = 32 * width
    setup = f"""
    .reg .b64 %g; .reg .b32 %off, %at32; .reg .f32 %v<4>;
    mov.f32 %v0, 0f00000000; mov.f32 %v1, 0f00000000; mov.f32 %v2, 0f00000000; mov.f32 %v3, 0f00000000;
    mad.lo.u32 %off, %cta, {warps}, %warp;
    mul.lo.u32 %off, %off, {each};
"""
    lines = [f"    and.b32 %at32, %off, {region - 1}; mad.lo.u32 %at32, %lane, {width}, %at32; cvt.u64.u32 %g, %at32; add.u64 %g, %g, %data;\n"
             f"    red.relaxed.gpu.global.add.{op} [%g], {value};\n    add.u32 %off, %off, {each};" for _ in range(4)]
    name = f"add_few_{width}_{warps}w_{region}"
    return Kernel(name, "additions", {"bytes": width, "warps": warps, "region": region},
                  entry(name, timed_loop("\n".join(lines), 64, setup), warps=warps), 4 * 64 * each, warps=warps, blocks="all", unit="byte")


def boxes(rows, heads, sharing, blocks="all", read=False):
    """Boxes of 32 f32 by `rows`, four beside one another: rows of 512 bytes, `heads` of them in a row.  `sharing` SMs, a power of two,
    walk through the same head; alone each walks through 256 rows of its own.  `read`: waits for each two boxes as a role does that
    gives their memory back."""
    wait = ".read 0" if read else " 1"
    length = 4096 if sharing > 1 else 256
    lines = []
    for half in range(2):
        for x in [64 * half, 64 * half + 32]:
            lines.append(f"    @%first cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%m, {{%x{x // 32}, %head, %row}}], "
                         f"[%sa+{x // 32 * rows * 128}];")
        lines.append(f"    @%first cp.async.bulk.commit_group;\n    @%first cp.async.bulk.wait_group{wait};")
    lines.append(f"    add.u32 %row, %row, {rows}; sub.u32 %left, %left, 1; setp.eq.u32 %p, %left, 0; selp.b32 %row, %begin, %row, %p; "
                 f"selp.b32 %left, {length // rows}, %left, %p;")
    setup = f"""
    .reg .b64 %m; .reg .b32 %head, %row, %begin, %left, %sa, %x<4>;
    mov.b64 %m, map; cvta.param.u64 %m, %m;
    mov.u32 %x0, 0; mov.u32 %x1, 32; mov.u32 %x2, 64; mov.u32 %x3, 96;
    shr.u32 %begin, %cta, {sharing.bit_length() - 1};
    and.b32 %head, %begin, {heads - 1};
    shr.u32 %begin, %begin, {heads.bit_length() - 1};
    mul.lo.u32 %begin, %begin, {length};
    mov.u32 %row, %begin; mov.u32 %left, {length // rows};
    add.u32 %sa, %s, 16384; setp.eq.u32 %first, %t, 0;
"""
    name = f"add_boxes_{rows}_h{heads}_by{sharing}_{blocks}" + ("_read" if read else "")
    return Kernel(name, "additions", {"rows": rows, "heads": heads, "sharing": sharing, "blocks": blocks, "read": read},
                  entry(name, timed_loop("\n".join(lines), 64, setup, "    @%first cp.async.bulk.wait_group 0;"), data_map=True),
                  64 * 4 * rows * 128, blocks=blocks, unit="byte", box={"rows": rows, "f32": True, "heads": heads})


def pull(depth, beside):
    """Warp 0 keeps `depth` copies of 16 KB to shared memory under way, from 128 KB of each SM's own; `beside`: warp 1 adds 16 KB at a time
    to another 128 KB of its own meanwhile, two groups under way.  The clocks of the first."""
    issue = f"""
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%s+{{bar}}], {TILE};
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+{{to}}], [%g], {TILE}, [%s+{{bar}}];
    add.u32 %off, %off, {TILE}; and.b32 %off, %off, 131071; add.u32 %at32, %base, %off; cvt.u64.u32 %g, %at32; add.u64 %g, %g, %data;"""
    at = [{"bar": 8 * k, "to": 1024 + TILE * k} for k in range(depth)]
    start = f"""
    .reg .b64 %g, %state; .reg .b32 %base, %off, %at32, %sa, %par; .reg .pred %done;
    setp.eq.u32 %first, %lane, 0; mov.u32 %par, 0; mov.u32 %off, 0;
    mul.lo.u32 %base, %cta, 131072; cvt.u64.u32 %g, %base; add.u64 %g, %g, %data;
    setp.ne.u32 %p, %t, 0; @%p bra READY;
""" + "".join(f"    mbarrier.init.shared::cta.b64 [%s+{a['bar']}], 1;\n" for a in at) + """
READY:
    bar.sync 0;
    setp.ne.u32 %p, %warp, 0; @%p bra ADDS;
""" + "".join(issue.format(**a) for a in at)
    loads = start + f"""
    mov.u32 %i, {256 // depth};
    mov.u64 %c0, %clock64;
LOOP:
""" + "".join(f"""
W{k}:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%s+{a['bar']}], %par;
    @!%done bra W{k};
    bar.warp.sync -1;{issue.format(**a)}""" for k, a in enumerate(at)) + f"""
    xor.b32 %par, %par, 1;
    sub.u32 %i, %i, 1; setp.ne.u32 %again, %i, 0; @%again bra LOOP;
    mov.u64 %c1, %clock64;
""" + "".join(f"""
E{k}:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%s+{a['bar']}], %par;
    @!%done bra E{k};""" for k, a in enumerate(at)) + "\n    bra END;\n"
    adds = "ADDS:\n" + (f"""
    add.u32 %base, %base, {1 << 26}; cvt.u64.u32 %g, %base; add.u64 %g, %g, %data; add.u32 %sa, %s, 98304;
    mov.u32 %i, 512;
LOOP2:
    @%first cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%g], [%sa], {TILE};
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group 1;
    add.u32 %off, %off, {TILE}; and.b32 %off, %off, 131071; add.u32 %at32, %base, %off; cvt.u64.u32 %g, %at32; add.u64 %g, %g, %data;
    sub.u32 %i, %i, 1; setp.ne.u32 %again, %i, 0; @%again bra LOOP2;
    @%first cp.async.bulk.wait_group 0;
""" if beside else "") + "END:\n"
    name = f"pull_d{depth}" + ("_add" if beside else "")
    return Kernel(name, "additions", {"depth": depth, "beside": beside}, entry(name, loads + adds, warps=2), 256, warps=2, blocks="all", unit="copy")


def pull_paced(depth, pace, size=TILE, apart=False):
    """`pull`, but between two additions lies a chain of FFMA that takes some `pace` clocks, so that the L2 cache is as busy with all of them as
    that says, and both warps write their clocks.  apart: the first SM copies and adds nothing; all others add and copy nothing."""
    kernel = pull(depth, True)
    name = f"pull_d{depth}_pace{pace}_{size >> 10}k" + ("_apart" if apart else "")
    text = kernel.ptx.replace(kernel.name, name)
    before, adds = text.split("ADDS:\n")
    keep_f = "\n    setp.eq.f32 %p, %f, 0f3F800000; @%p st.global.f32 [%data], %f;"
    adds = adds.replace(f"[%sa], {TILE};", f"[%sa], {size};").replace(f"add.u32 %off, %off, {TILE};", f"add.u32 %off, %off, {size};")
    chain = "    fma.rn.f32 %f, %f, %f, %f;\n" * 32
    adds = adds.replace("mov.u32 %i, 512;", f"mov.u32 %i, {512 * TILE // size};").replace("LOOP2:", """
    .reg .f32 %f; .reg .b32 %left; mov.f32 %f, 0f00000000;
    mov.u64 %c0, %clock64;
LOOP2:""").replace("END:", "    mov.u64 %c1, %clock64;" + keep_f + "\nEND:")
    if pace:
        adds = adds.replace("LOOP2:", f"""LOOP2:
    mov.u32 %left, {pace // 128};
PACE:
    .pragma "nounroll";
{chain}    sub.u32 %left, %left, 1; setp.ne.u32 %p, %left, 0; @%p bra PACE;""", 1)
    if apart:
        before = before.replace("    setp.ne.u32 %p, %warp, 0; @%p bra ADDS;", "    setp.ne.u32 %p, %warp, 0; @%p bra ADDS;\n    setp.ne.u32 %p, %cta, 0; @%p bra END;")
        adds = "    setp.eq.u32 %p, %cta, 0; @%p bra END;\n" + adds
    return Kernel(name, "pull", {"depth": depth, "pace": pace, "bytes": size, "apart": apart}, before + "ADDS:\n" + adds, 256, warps=2, blocks="all", unit="copy")


def red_shared(warps, sharing):
    """red.v4: every `sharing` SMs, a power of two, to the same 64 KB in the same order."""
    text, setup, after = red(16)
    setup = setup.replace("mad.lo.u32 %ga, %cta, 65536, 0;", f"shr.u32 %ga, %cta, {sharing.bit_length() - 1};\n    mul.lo.u32 %ga, %ga, 65536;")
    name = f"red_16_{warps}w_by{sharing}"
    return Kernel(name, "additions", {"bytes": 16, "warps": warps, "sharing": sharing}, entry(name, timed_loop(text, 64, setup, after), warps=warps),
                  64 * 16 * 32 * 4, warps=warps, blocks="all", unit="f32 added")


def all_kernels():
    # never more in all than the L2 cache holds
    out = [walk(sharing, min(1 << 21, sharing << 17), 0) for sharing in [1, 2, 8, 16, 32, 64, 128]]
    out += [walk(32, 1 << 21, 1 << 16), walk(32, 1 << 21, TILE), walk(128, 1 << 21, TILE)]
    out += [few(width, warps, region) for width, warps in [(4, 16), (16, 4), (16, 16)] for region in [2048, 4096, 16384, 65536, 1 << 20]]
    out += [boxes(rows, heads, sharing) for rows in [64, 48, 32] for heads in [1, 8] for sharing in [1, 32]]
    out += [boxes(rows, 8, 1, "one") for rows in [64, 48, 32]]
    out += [boxes(64, 8, sharing, blocks, True) for sharing, blocks in [(1, "one"), (1, "all"), (32, "all")]]
    out += [pull(depth, beside) for depth in [1, 2, 4] for beside in [False, True]]
    # all of the L2 cache's time, and parts of it: 16 KB of each SM take some 1200 clocks
    out += [pull_paced(depth, pace, TILE, apart) for depth in [1, 4] for pace in [0, 1408, 2048, 3072, 6144] for apart in [False, True]]
    out += [pull_paced(1, pace, 4096, apart) for pace in [0, 384, 768] for apart in [False, True]]
    out += [red_shared(warps, sharing) for warps in [4, 16] for sharing in [4, 32, 128]]
    return out
