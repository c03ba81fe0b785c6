"""launch.py - microbenchmarks of what lies around a block: the launch of a kernel, the start and the end of blocks, code that
runs for the first time, and memory that is read and written once.

Each block writes the nanoseconds (%globaltimer) and clocks at which it begins and ends to `data` (`timers`), so that the host
sees when the first block began, when the last one ended, and how long each took; micro.py launches each kernel several times
in a row, so it sees what lies between two launches, too.
"""
from kernels import HEADER, Kernel

TIMERS = 48 # bytes of a block


def block(name, body, registers="", threads=32, attributes="", params="", start=""):
    """`body` between the two readings; %out, %data, %t, %cta are there.  %extra0, the SM, and %extra1 are kept with them."""
    return f"""{HEADER}
.extern .shared .align 1024 .b8 smem[];
.visible .entry {name}(.param .u64 out, .param .u64 data{params})
.reqntid {threads},1,1 {attributes}
{{
    .reg .b64 %n0, %n1, %c0, %c1, %out, %data, %at, %extra<2>;
    .reg .b32 %t, %cta, %s, %i, %sm;
    .reg .pred %first, %again, %p;
    {registers}
    mov.u64 %n0, %globaltimer;
    mov.u64 %c0, %clock64;
    ld.param.u64 %out, [out];
    ld.param.u64 %data, [data];
    mov.u32 %t, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %s, smem;
    mov.u32 %sm, %smid;
    cvt.u64.u32 %extra0, %sm;
    mov.u64 %extra1, 0;
{start}
{body}
    mov.u64 %c1, %clock64;
    mov.u64 %n1, %globaltimer;
    mul.wide.u32 %at, %cta, {TIMERS};
    add.u64 %at, %at, %out;
    setp.eq.u32 %first, %t, 0;
    @%first st.global.u64 [%at], %n0;
    @%first st.global.u64 [%at+8], %n1;
    @%first st.global.u64 [%at+16], %c0;
    @%first st.global.u64 [%at+24], %c1;
    @%first st.global.u64 [%at+32], %extra0;
    @%first st.global.u64 [%at+40], %extra1;
    ret;
}}
"""


SPIN = """
    mov.u64 %spin0, %clock64;
SPINNING:
    mov.u64 %spin1, %clock64;
    sub.u64 %spin1, %spin1, %spin0;
    setp.lt.u64 %p, %spin1, {clocks};
    @%p bra SPINNING;
"""


def blocks(name, grid, threads=32, shared=0, clocks=0, attributes="", body="", registers="", start="", cluster=1):
    """Blocks that spin for `clocks`, or do nothing."""
    if clocks:
        body += SPIN.format(clocks=clocks)
        registers += ".reg .b64 %spin<2>;"
    return Kernel(name, "launch", {"blocks": grid, "threads": threads, "shared": shared, "clocks": clocks},
                  block(name, body, registers, threads, attributes, start=start), 1, warps=threads // 32, unit="launch", cluster=cluster,
                  timers={"grid": grid, "shared": shared})


def code(kilobytes, warps, grid=1):
    """A straight line of FFMA, twice: first touch, and again.  An instruction has 16 bytes."""
    n = kilobytes * 64
    lines = "\n".join(f"    fma.rn.f32 %x{k % 8}, %x{k % 8}, %y, %z;" for k in range(n))
    name = f"code_{kilobytes}k_{warps}w_{grid}b"
    body = f"""
    bar.sync 0;
    mov.u32 %i, 0;
AGAIN:
    mov.u64 %extra1, %clock64;
{lines}
    mov.u64 %k0, %clock64;
    sub.u64 %extra1, %k0, %extra1;
    setp.eq.u32 %p, %i, 0;
    selp.b64 %extra0, %extra1, %extra0, %p;
    add.u32 %i, %i, 1;
    setp.lt.u32 %again, %i, 3;
    @%again bra AGAIN;
    add.f32 %x0, %x0, %x1; add.f32 %x0, %x0, %x2; add.f32 %x0, %x0, %x3; add.f32 %x0, %x0, %x4; add.f32 %x0, %x0, %x5;
    add.f32 %x0, %x0, %x6; add.f32 %x0, %x0, %x7;
    setp.eq.f32 %p, %x0, 0f12345678;
    @%p st.global.f32 [%data], %x0;
"""
    start = "    cvt.rn.f32.u32 %y, %t; mov.f32 %z, %y;\n" + "".join(f"    add.f32 %x{k}, %y, 0f3F80000{k};\n" for k in range(8))
    return Kernel(name, "code", {"kilobytes": kilobytes, "warps": warps, "blocks": grid},
                  block(name, body, ".reg .f32 %x<8>, %y, %z; .reg .b64 %k0;", 32 * warps, start=start), n, warps=warps, unit="FFMA",
                  timers={"grid": grid, "shared": 0})


def once(grid, threads, read, write, times=1):
    """Each thread reads 16 bytes (`read`), `times` in a row, and writes as many (`write`: 16 or 8 bytes), and is done."""
    name = f"once_{grid}b_{threads}t_r{read}_w{write}_x{times}"
    start = f"""
    mad.lo.u32 %i, %cta, {threads * times}, %t;
    mul.wide.u32 %g, %i, 16;
    add.u64 %g, %g, %data;
    mul.wide.u32 %h, %i, {write or 16};
    add.u64 %h, %h, %data;
    add.u64 %h, %h, 268435456;
    mov.u32 %v0, %t; mov.u32 %v1, %t; mov.u32 %v2, %t; mov.u32 %v3, %t;
"""
    loads = "".join(f"    ld.global.v4.u32 {{%v{4 * k}, %v{4 * k + 1}, %v{4 * k + 2}, %v{4 * k + 3}}}, [%g+{16 * threads * k}];\n" for k in range(times)) if read else ""
    if read and write == 8:  # else half of each load is left out
        loads += "".join(f"    xor.b32 %v{4 * k}, %v{4 * k}, %v{4 * k + 2}; xor.b32 %v{4 * k + 1}, %v{4 * k + 1}, %v{4 * k + 3};\n" for k in range(times))
    stores = "".join(f"    st.global.v{write // 4}.u32 [%h+{write * threads * k}], {{{', '.join(f'%v{(4 * k if read else 0) + j}' for j in range(write // 4))}}};\n"
                     for k in range(times)) if write else "".join(
        f"    xor.b32 %v0, %v0, %v{k};\n" for k in range(1, 4 * times)) + "    setp.eq.u32 %p, %v0, 0x12345677;\n    @%p st.global.u32 [%data], %v0;\n"
    return Kernel(name, "once", {"blocks": grid, "threads": threads, "read": read, "write": write, "times": times},
                  block(name, loads + stores, f".reg .b32 %v<{max(4, 4 * times)}>; .reg .b64 %g, %h;", threads, start=start), 1,
                  warps=threads // 32, unit="launch", timers={"grid": grid, "shared": 0})




def all_kernels():
    out = [blocks("blocks_1", 1), blocks("blocks_132", 132), blocks("blocks_132_256t", 132, 256), blocks("blocks_132_384t", 132, 384),
           blocks("blocks_132_384t_64k", 132, 384, 65536), blocks("blocks_132_384t_227k", 132, 384, 232448),
           blocks("blocks_132_384t_227k_r168", 132, 384, 232448, attributes=".maxnreg 168"),
           blocks("blocks_132_640t_128k", 132, 640, 131072),
           blocks("blocks_264_384t_227k", 264, 384, 232448), blocks("blocks_528_384t_227k", 528, 384, 232448),
           blocks("blocks_1056_384t_227k", 1056, 384, 232448), blocks("blocks_2112_128t", 2112, 128), blocks("blocks_8448_128t", 8448, 128),
           blocks("blocks_132_384t_227k_pair", 132, 384, 232448, attributes=".explicitcluster .reqnctapercluster 2,1,1", cluster=2)]
    out += [blocks(f"spin_{grid}_384t_227k", grid, 384, 232448, 20000) for grid in [132, 264, 528]]
    out += [blocks(f"spin_{grid}_128t", grid, 128, 0, 20000) for grid in [132, 264, 2112]]
    out += [blocks(f"spin_{grid}_256t_100k", grid, 256, 102400, 20000) for grid in [264, 528]]
    out += [code(k, 1) for k in [2, 4, 8, 16, 32, 64, 128, 256]] + [code(k, 8) for k in [4, 8, 16, 32, 64, 128]]
    out += [code(k, 8, 132) for k in [16, 64, 128]]
    out += [once(grid, threads, read, write, times) for grid, threads, times in [(132, 128, 1), (1056, 128, 4), (4096, 128, 4), (4096, 256, 1)]
            for read, write in [(1, 0), (0, 16), (1, 16), (1, 8)]]
    out += [once(512, 128, 1, 8, 16), once(132, 1024, 1, 8, 8)]
    # more than the L2 cache holds: what is read, what is written, and both come from memory and go there
    out += [once(8192, 128, read, write, 4) for read, write in [(1, 0), (0, 16), (1, 16)]]
    return out
