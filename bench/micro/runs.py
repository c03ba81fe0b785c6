"""runs.py - microbenchmarks of what instructions of one warp do to another's: runs of FFMA at distances beside wgmma, loads
and stores of shared memory beside exponentials, and accesses to global memory of few bytes a lane.

What they answer: from which number in a row on, of how many warps and with how many operands, FFMA puts off products; whether
MUFU and shared memory share a queue; what an access of 2 or 4 bytes a lane takes.  Warps 0 to 3 do the one thing, the others the other.
"""
from kernels import Kernel, entry, keep, keep_floats, timed_loop, wgmma_setup, wgmma_text

PRODUCTS, DEPTH = {64: 2048, 128: 1024, 256: 512}, 16
FFMA = 16384     # of each scheduler, so that they end before the products do
MOST = 36000     # clocks that they may take
# operands of FFMA and its like: d also is what a chain goes on with
OPERANDS = {"one": "fma.rn.f32 {d}, {d}, {w}, 0f3E000000;", "two": "fma.rn.f32 {d}, {d}, {y}, {y};", "three": "fma.rn.f32 {d}, {d}, {y}, {z};",
            "add": "add.rn.f32 {d}, {d}, {y};", "addone": "add.rn.f32 {d}, {d}, 0f3E000000;", "mulone": "mul.rn.f32 {d}, {d}, 0f3F7F0000;",
            "imad": "mad.lo.s32 {d}, {d}, {w}, {w};", "max": "max.f32 {d}, {d}, {w};", "lop": "lop3.b32 {d}, {d}, {w}, {w}, 0x6a;",
            "pack": "cvt.rn.bf16x2.f32 {d}, {d}, {w};"}
# what links one run to the next: all of a run wait for it (ptxas moves some of them behind it); loop: a run is one turn of a loop
LINKS = {"none": [], "lop": ["lop3.b32 %lw, %rx{last}, %ly, %lz, 0x6a;"], "ex2": ["ex2.approx.ftz.f32 %lw, %rx{last};"],
         "loop": []}
GAP = {"none": 0, "lop": 8, "ex2": 24, "loop": 16}


def times_of(length, link):
    return 1 if link == "loop" else max(1, 16 // length)


def run_of(length, operands, link):
    """`length` operations in a row and what links them to the next run, until there are some 16 of them."""
    text = []
    for _ in range(times_of(length, link)):
        for k in range(length):
            text.append("    " + OPERANDS[operands].format(d=f"%rx{k}", y=f"%ry{k % 16}", z=f"%rz{k % 16}", w="%lw"))
        text += ["    " + line.format(last=length - 1) for line in LINKS[link]]
    return "\n".join(text)


def run_setup(length):
    lines = [f"    .reg .b32 %rx<{length}>, %ry<16>, %rz<16>, %lw, %ly, %lz;"]
    lines += [f"    ld.global.b32 {name}, [%data+{4 * k}];" for k, name in enumerate(["%lw", "%ly", "%lz"])]
    for k in range(16):
        lines.append(f"    ld.global.b32 %ry{k}, [%data+{4 * k + 64}]; ld.global.b32 %rz{k}, [%data+{4 * k + 128}];")
    for k in range(length):
        lines.append(f"    ld.global.b32 %rx{k}, [%data+{4 * k + 192}];")
    return "\n".join(lines)


def two_parts(name, params, parts, warps, unit="whole loop", blocks="all"):
    """Warps 0 to 3 run the first of the parts (setup, text, rounds, end, what keeps it), the others the second; None: nothing."""
    texts = []
    for label, part in zip(["LOOP", "LOOP2"], parts):
        if part is None:
            texts.append("    bar.sync 0;\n")
            continue
        setup, text, rounds, end, kept = part
        nounroll = "    .pragma \"nounroll\";\n" if "loop" in name else ""
        texts.append(f"""
    {{
{setup}
    bar.sync 0;
    mov.u32 %i, {rounds};
    mov.u64 %c0, %clock64;
{label}:
{nounroll}{text}
    sub.u32 %i, %i, 1;
    setp.ne.u32 %again, %i, 0;
    @%again bra {label};
{end}
    mov.u64 %c1, %clock64;
    {kept}
    }}""")
    body = f"    setp.lt.u32 %p, %warp, 4;\n    @!%p bra SECOND;\n{texts[0]}\n    bra END;\nSECOND:\n{texts[1]}\nEND:\n"
    return Kernel(name, "beside", params, entry(name, body, warps=warps), 1, warps=warps, blocks=blocks, unit=unit)


def products(n, source="SS"):
    depth = DEPTH if source == "SS" else 4  # ptxas takes long over many products with A in registers
    return wgmma_setup(n), wgmma_text(n, source, depth), PRODUCTS[n] // depth, "", keep_floats(n)


def rounds_of(length, link, others):
    """Rounds of run_of that `others` warps of a scheduler run beside one another."""
    times = times_of(length, link)
    clocks = max(times * (max(length, 4) + GAP[link]), others * times * (length + 2) * 1.5) + 6
    return max(16, int(min(FFMA / (length * times * others), MOST / clocks)))


def runs(length, link="none", operands="one", others=1, n=128, source="SS", alone=False):
    name = f"runs_{operands}{length}_{link}_g{others}" + ("_alone" if alone else f"_n{n}_{source}")
    rounds = rounds_of(length, link, others)
    kept = keep([f"%rx{k}" for k in range(length)] + ["%lw"])
    second = (run_setup(length), run_of(length, operands, link), rounds, "", kept)
    params = {"length": length, "link": link, "operands": operands, "groups": others, "n": n, "a": source, "operations": rounds * times_of(length, link) * length}
    return two_parts(name, params, (None if alone else products(n, source), second), 4 + 4 * others)


def only_products(n, source="SS"):
    return two_parts(f"runs_none_n{n}_{source}", {"n": n, "a": source}, (products(n, source), None), 8)


# ---- softmax beside products: no figure comes from it ----

def softmax_beside(others, n):
    """Of 32 scores a lane: the greatest, exponentials, their sum, pairs of 16 bits."""
    lines = [f"    max.f32 %m{k % 2}, %m{k % 2}, %rx{k};" for k in range(32)]
    lines += ["    mul.f32 %mc0, %m0, %lw;", "    mul.f32 %mc1, %m1, %lw;"]
    for k in range(32):
        lines += [f"    fma.rn.f32 %y{k}, %rx{k}, %lw, %mc{k % 2};", f"    ex2.approx.ftz.f32 %y{k}, %y{k};", f"    add.f32 %s{k % 4}, %s{k % 4}, %y{k};"]
    lines += [f"    cvt.rn.bf16x2.f32 %rx{k}, %y{k}, %y{k + 1}; xor.b32 %rx{k + 1}, %rx{k + 1}, %rx{k};" for k in range(0, 32, 2)]
    setup = run_setup(32) + "\n    .reg .b32 %y<32>, %m<2>, %mc<2>, %s<4>;\n" + "\n".join(
        f"    mov.b32 %{r}, %lw;" for r in ["m0", "m1", "s0", "s1", "s2", "s3", "mc0", "mc1"])
    kept = keep([f"%rx{k}" for k in range(32)] + ["%s0", "%s1", "%s2", "%s3", "%m0", "%m1"])
    second = (setup, "\n".join(lines), 96 // others, "", kept)
    return two_parts(f"softmax_g{others}" + (f"_n{n}" if n else "_alone"), {"groups": others, "n": n}, (products(n) if n else None, second), 4 + 4 * others)


# ---- shared memory beside exponentials ----

def stream(kind, rounds):
    """One half of a pair: independent operations, or a chain of loads."""
    place = "    .reg .b32 %a, %v<32>, %u0, %u1; mov.u32 %u0, 0; mov.u32 %u1, 0; mul.lo.u32 %a, %lane, STRIDE; mad.lo.u32 %a, %warp, 8192, %a; " \
        "add.u32 %a, %a, %s; mov.u32 %v0, %a; mov.u32 %v1, %a; mov.u32 %v2, %a; mov.u32 %v3, %a; st.shared.v4.u32 [%a], {%a, %a, %a, %a};"
    floats = "    .reg .f32 %e<16>;\n" + "\n".join(f"    ld.global.f32 %e{k}, [%data+{4 * k}];" for k in range(16))
    kept_floats = "    .reg .b32 %ke<16>;\n" + "\n".join(f"    mov.b32 %ke{k}, %e{k};" for k in range(16)) + keep(f"%ke{k}" for k in range(16))
    stride = "256" if kind.endswith("_conflict") else "16"
    loads = "\n".join("    ld.volatile.shared.v4.u32 {{%v{0}, %v{1}, %v{2}, %v{3}}}, [%a+{4}]; lop3.b32 %u0, %v{0}, %v{1}, %u0, 0x96; "
                      "lop3.b32 %u1, %v{2}, %v{3}, %u1, 0x96;".format(*[4 * (k % 8) + j for j in range(4)], 512 * k if stride == "16" else 16 * k)
                      for k in range(16))
    stores = "\n".join(f"    st.volatile.shared.v4.u32 [%a+{512 * k if stride == '16' else 16 * k}], {{%v0, %v1, %v2, %v3}};" for k in range(16))
    what = kind.split("_")[0]
    if what == "ex2":
        return floats, "\n".join(f"    ex2.approx.ftz.f32 %e{k}, %e{k};" for k in range(16)), rounds, "", kept_floats
    if what == "ex2chase":
        return floats, "\n".join("    ex2.approx.ftz.f32 %e0, %e0;" for k in range(16)), rounds, "", kept_floats
    if what == "ffma":
        return floats, "\n".join(f"    fma.rn.f32 %e{k}, %e{k}, 0f3F000000, 0f3E000000;" for k in range(16)), rounds, "", kept_floats
    if what == "max":
        return floats, "\n".join(f"    max.f32 %e{k}, %e{k}, %e{(k + 1) % 16};" for k in range(16)), rounds, "", kept_floats
    text = {"lds": loads, "sts": stores, "chase": "\n".join("    ld.volatile.shared.u32 %a, [%a];" for _ in range(16))}[what]
    return place.replace("STRIDE", stride), text, rounds, "", keep(["%u0", "%u1", "%a"])


ALONE = {"ex2": 512, "ex2chase": 128, "ffma": 2048, "max": 1024, "lds": 256, "lds_conflict": 64, "sts": 256, "sts_conflict": 64, "chase": 128}


def pair(one, other, others=1):
    """Warps 0 to 3, and `others` of the other a scheduler; None: nothing."""
    first = stream(one, ALONE[one]) if one else None
    second = stream(other, ALONE[other] // others)
    return two_parts(f"pair_{one or 'none'}_{other}_g{others}", {"one": one, "other": other, "groups": others}, (first, second), 4 + 4 * others, blocks="one")


BURST = {"ex2": "ex2.approx.ftz.f32 %e{k}, %e{k};", "lds": "ld.volatile.shared.v4.f32 {{%q{4k}, %q{4k1}, %q{4k2}, %q{4k3}}}, [%a+{at}];",
         "sts": "st.volatile.shared.v4.f32 [%a+{at}], {{%e0, %e1, %e2, %e3}};", "fmnmx": "max.f32 %e{k}, %e{k}, %f0;", "f2fp": "cvt.rn.bf16x2.f32 %e{k}, %e{k}, %f0;"}


def burst(kinds, count, warps):
    """How long a warp takes to issue `count` operations whose results nobody waits for yet: how many a queue holds."""
    lines = []
    for k in range(count):
        what = kinds[k % len(kinds)]
        lines.append("    " + BURST[what].replace("4k1", "k1").replace("4k2", "k2").replace("4k3", "k3").replace("4k", "k0").format(
            k=k, k0=4 * k, k1=4 * k + 1, k2=4 * k + 2, k3=4 * k + 3, at=512 * (k % 16)))
    kept = ["%sum", *[f"%q{k}" for k in range(4 * count)], *[f"%e{k}" for k in range(max(4, count))]]
    setup = f"""    .reg .b32 %e<{max(4, count)}>, %q<{4 * count}>, %a, %f0, %sum, %took; .reg .b64 %before, %behind; .reg .pred %never;
    mul.lo.u32 %a, %lane, 16; mad.lo.u32 %a, %warp, 8192, %a; add.u32 %a, %a, %s; mov.u32 %sum, 0; ld.global.b32 %f0, [%data];
""" + "\n".join(f"    ld.global.b32 %e{k}, [%data+{4 * k}];" for k in range(max(4, count))) + "\n" + "\n".join(f"    mov.b32 %q{k}, 0;" for k in range(4 * count))
    results = "\n".join(f"    xor.b32 %f0, %f0, %{r};" for r in [f"e{k}" for k in range(count)] + [f"q{4 * k}" for k in range(count)])
    text = f"""    .pragma "nounroll";
    bar.sync 0;
    mov.u64 %before, %clock64;
{chr(10).join(lines)}
    mov.u64 %behind, %clock64;
    sub.u64 %behind, %behind, %before; cvt.u32.u64 %took, %behind; add.u32 %sum, %sum, %took;
{results}
    setp.eq.u32 %never, %f0, 0x12345678;
    @%never st.global.u32 [%data], %f0;
    and.b32 %f0, %f0, 3;"""
    body = timed_loop(text, 64, setup, "    mov.u64 %c0, 0;").replace("    mov.u64 %c1, %clock64;", "    cvt.u64.u32 %c1, %sum;") + keep(kept)
    name = f"burst_{'_'.join(kinds)}{count}_{warps}w"
    return Kernel(name, "queue", {"kinds": kinds, "count": count, "warps": warps}, entry(name, body, warps=warps), 64, warps=warps, unit="burst")


# ---- accesses to global memory ----

def narrow(kind, width, warps, blocks):
    """ld.global or st.global of `width` bytes a lane, lanes side by side, 16 MB that all blocks run over."""
    op = {2: "u16", 4: "u32", 8: "v2.u32", 16: "v4.u32"}[width]
    registers = {2: "%h{0}", 4: "%v{0}", 8: "{{%v{0}, %v{1}}}", 16: "{{%v{0}, %v{1}, %v{2}, %v{3}}}"}[width]
    setup = f"""
    .reg .b64 %g, %off; .reg .b32 %v<32>, %n, %u; .reg .b16 %h<32>;
    mov.u32 %u, 0;
    mad.lo.u32 %n, %cta, {32 * warps}, %t;
    mul.wide.u32 %off, %n, {width};
""" + "\n".join(f"    mov.u32 %v{k}, 0; mov.u16 %h{k}, 0;" for k in range(32))
    text = []
    for k in range(8):
        value = registers.format(*[4 * k + j for j in range(4)])
        text.append(f"    and.b64 %off, %off, {(1 << 24) - 1}; add.u64 %g, %data, %off; add.u64 %off, %off, {132 * 32 * warps * width};")
        text.append(f"    {'ld' if kind == 'load' else 'st'}.global.{op} " + (f"{value}, [%g];" if kind == "load" else f"[%g], {value};"))
        if kind == "load":
            text += [f"    cvt.u32.u16 %v{4 * k}, %h{4 * k};"] * (width == 2) + [f"    xor.b32 %u, %u, %v{4 * k + j};" for j in range(max(1, width // 4))]
    name = f"narrow_{kind}_{width}_{warps}w_{blocks}"
    return Kernel(name, "memory", {"op": kind, "bytes": width, "warps": warps, "blocks": blocks},
                  entry(name, timed_loop("\n".join(text), 64, setup) + keep(["%u"]), warps=warps), 64 * 8 * 32 * width, warps=warps, blocks=blocks, unit="byte")


def all_kernels():
    out = [only_products(n, source) for n, source in [(64, "SS"), (128, "SS"), (256, "SS"), (128, "RS")]]
    grid = [(length, link) for link in LINKS for length in [1, 2, 3, 4, 8, 16, 32] if link != "none" or length < 8 or length == 16]
    for others in [1, 2, 4]:
        out += [runs(length, link, others=others) for length, link in grid]
    out += [runs(length, link, others=others, alone=True) for length, link in grid for others in [1, 4]]
    for operands in OPERANDS:
        if operands != "one":
            out += [runs(length, link, operands, others) for length, link in [(1, "none"), (2, "none"), (4, "none"), (16, "none"), (4, "ex2"), (16, "ex2")]
                    for others in [1, 2]]
            out += [runs(16, "none", operands, alone=True)]
    for n, source in [(64, "SS"), (256, "SS"), (128, "RS")]:
        out += [runs(length, link, others=others, n=n, source=source) for length, link in [(1, "none"), (2, "none"), (16, "none"), (2, "ex2"), (8, "ex2")]
                for others in [1, 2]]
    out += [softmax_beside(others, n) for others in [1, 2, 3] for n in [0, 64, 128, 256] if others * n < 768]
    for one in [None, "ex2"]:
        out += [pair(one, other, others) for other in ALONE for others in [1, 2]]
    out += [pair(one, other) for one in ["ffma", "max"] for other in ["chase", "lds", "sts"]]
    out += [pair(one, "ex2chase") for one in ["lds", "lds_conflict", "sts", "sts_conflict", "ffma"]]
    out += [pair("lds", "sts"), pair("lds", "chase"), pair("sts", "chase"), pair("lds_conflict", "chase"), pair("sts_conflict", "chase")]
    out += [burst([kind], count, warps) for kind in BURST for count in [1, 2, 3, 4, 6, 8, 12, 16] for warps in [1, 8]]
    out += [burst(kinds, count, warps) for kinds in [["ex2", "lds"], ["ex2", "sts"], ["ex2", "ex2", "ex2", "lds"]]
            for count in [2, 4, 8, 16] for warps in [1, 8]]
    out += [narrow(kind, width, warps, blocks) for kind in ["load", "store"] for width in [2, 4, 8, 16] for warps in [4, 16] for blocks in ["one", "all"]]
    return out
