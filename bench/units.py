"""units.py - what the units of an SM of sm_90 do alone, and beside products of a warp group.

    python3 bench/units.py write units.ptx && ptxas -arch=sm_90a units.ptx -o units.cubin     # no GPU needed
    python3 bench/units.py run units.cubin                                                    # seconds on the GPU

One or three warp groups repeat a body (a warp of each on every scheduler), warp group 0 multiplies
64 x 128 x 16 meanwhile, or does nothing.  A line for each body: its clocks (of all groups together, for
one repetition of each), alone and beside products; and what products take then, of 1.00 beside nothing.

`exp2_lines` is exp2 without MUFU: the fraction by a polynomial, the integer part put in as
exponent.  Right for all arguments: 0 below -126 (as with .ftz), infinity from 128 on, NaN stays NaN.
"""

import ctypes
import struct
import sys

ELEMENTS = 32  # of a thread and body
PRODUCTS = 8   # between two waits
TEMPORARY = ("tt", "uu", "vv", "ww")  # registers of exp2_lines, which can overlap

# 1 + f * (c0 + f * (c1 + ..)): the least relative error for 2^f on [0, 1): 8.6e-5, 2.9e-6, 8.3e-8
EXP2 = {3: (0.69511682, 0.22764482, 0.0770672),
        4: (0.69304484, 0.24128022, 0.05224245, 0.0134267),
        5: (0.69315131, 0.24016445, 0.05579992, 0.00901703, 0.00186713)}
ROUND = 12582912.0 + 127.0  # 1.5 * 2^23: added rounding down, it leaves the floor, biased, in the low bits


def number(x):
    return "0f%08X" % struct.unpack("<I", struct.pack("<f", x))


def exp2_lines(to, x, degree, t):
    """PTX; %T0 .. %T3 (f32) and %Tb (b32), with `t` for T, are overwritten."""
    terms = EXP2[degree]
    lines = [f"max.NaN.f32 %{t}0, {x}, {number(-127.0)};", f"min.NaN.f32 %{t}0, %{t}0, {number(128.0)};",
             f"add.rm.f32 %{t}1, %{t}0, {number(ROUND)};", f"sub.f32 %{t}2, %{t}1, {number(ROUND)};",
             f"sub.f32 %{t}2, %{t}0, %{t}2;", f"mov.f32 %{t}3, {number(terms[-1])};"]
    lines += [f"fma.rn.f32 %{t}3, %{t}3, %{t}2, {number(c)};" for c in [*terms[-2::-1], 1.0]]
    return lines + [f"mov.b32 %{t}b, %{t}1;", f"shl.b32 %{t}b, %{t}b, 23;", f"mov.b32 %{t}1, %{t}b;",
                    f"mul.ftz.f32 {to}, %{t}3, %{t}1;"]


def each(text, times=1):
    """A line for every element, `times` over; {i}: it, {j}: another one."""
    return [text.format(i=i, j=(i + k + 1) % ELEMENTS) for k in range(times) for i in range(ELEMENTS)]


def exp2_of_all(degree):
    return [line for i in range(ELEMENTS) for line in exp2_lines(f"%x{i}", f"%x{i}", degree, TEMPORARY[i % 4])]


def softmax(capped, by_polynomial=0, degree=5):
    """Of scores %x: the greatest, exponentials, their sum, 16-bit pairs; one of so many by the polynomial."""
    lines = []
    for i in range(ELEMENTS):
        if capped:
            lines += [f"mul.f32 %x{i}, %x{i}, %c0;", f"tanh.approx.f32 %x{i}, %x{i};"]
        lines.append(f"max.f32 %m{i % 2}, %m{i % 2}, %x{i};")
    lines += ["mul.f32 %c2, %m0, %c1;", "mul.f32 %c3, %m1, %c1;"]
    for i in range(ELEMENTS):
        lines.append(f"fma.rn.f32 %y{i}, %x{i}, %c0, %c{2 + i % 2};")
        if by_polynomial and i % by_polynomial == by_polynomial - 1:
            lines += exp2_lines(f"%y{i}", f"%y{i}", degree, TEMPORARY[i // by_polynomial % 4])
        else:
            lines.append(f"ex2.approx.ftz.f32 %y{i}, %y{i};")
        lines.append(f"add.f32 %s{i % 4}, %s{i % 4}, %y{i};")
    for i in range(0, ELEMENTS, 2):
        lines += [f"cvt.rn.bf16x2.f32 %r{i}, %y{i}, %y{i + 1};", f"xor.b32 %r{i + 1}, %r{i + 1}, %r{i};"]
    return lines


BODIES = {
    "exp2": each("ex2.approx.ftz.f32 %x{i}, %x{i};"),
    "tanh": each("tanh.approx.f32 %x{i}, %x{i};"),
    "fma_x8": each("fma.rn.f32 %x{i}, %x{i}, %c0, %c1;", 8),
    "add_x8": each("add.f32 %x{i}, %x{i}, %y{j};", 8),
    "max_x4": each("max.f32 %x{i}, %x{i}, %y{j};", 4),
    "logic_x4": each("xor.b32 %r{i}, %r{i}, %r{j};", 4),
    "exp2_degree3": exp2_of_all(3),
    "exp2_degree5": exp2_of_all(5),
    "softmax": softmax(False),
    "softmax_1of8": softmax(False, 8),
    "softcap": softmax(True),
    "softcap_1of4": softmax(True, 4),
}


def kernel(name, body):
    sums = "{" + ", ".join(f"%a{i}" for i in range(64)) + "}"
    product = f"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {sums}, %d5, %d5, 1, 1, 1, 0, 0;"
    lines = ["ld.param.u64 %d0, [out];", "ld.param.f32 %c0, [factor];", "ld.param.u32 %n, [bodies];",
             "mov.u32 %t, %tid.x;", "mov.u32 %r1, tile;", "mad.lo.u32 %r1, %t, 64, %r1;", "mov.u32 %r2, 0;",
             *(f"st.shared.v4.u32 [%r1+{at}], {{%r2, %r2, %r2, %r2}};" for at in range(0, 64, 16)),
             "fence.proxy.async;", "bar.sync 0;",
             "mov.u64 %d1, %clock64;", "shr.u32 %g, %t, 7;", "shfl.sync.idx.b32 %g, %g, 0, 31, -1;",
             "mov.u32 %i, 0;", "setp.ne.u32 %p, %g, 0;", f"@%p bra {name}_other;"]
    lines += ["ld.param.u32 %n, [products];", "mov.u32 %r3, tile;", "shr.u32 %r3, %r3, 4;", "cvt.u64.u32 %d5, %r3;",
              "or.b64 %d5, %d5, 0x4000004000010000;"] + [f"mov.f32 %a{i}, 0f00000000;" for i in range(64)]
    lines += [f"{name}_products:", "wgmma.fence.sync.aligned;"] + [product] * PRODUCTS
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", "add.u32 %i, %i, 1;",
              "setp.lt.u32 %p, %i, %n;", f"@%p bra {name}_products;"]
    lines += [f"add.f32 %a0, %a0, %a{i};" for i in range(1, 64)] + ["mov.b32 %r0, %a0;", f"bra {name}_end;"]
    lines += [f"{name}_other:", "cvt.rn.f32.u32 %c1, %t;", f"mul.f32 %c1, %c1, {number(2.0 ** -15)};"]
    for i in range(ELEMENTS):
        lines += [f"fma.rn.f32 %x{i}, %c1, {number(2.0 ** -7 * (1 + i / 128))}, %c0;", f"mov.f32 %y{i}, %x{i};",
                  f"mov.b32 %r{i}, %x{i};"]
    lines += [f"mov.f32 %{r}, %c0;" for r in ("m0", "m1", "s0", "s1", "s2", "s3", "c2", "c3")]
    lines += [f"{name}_body:"] + body + ["add.u32 %i, %i, 1;", "setp.lt.u32 %p, %i, %n;", f"@%p bra {name}_body;"]
    for i in range(1, ELEMENTS):  # so that nothing is dead
        lines += [f"add.f32 %x0, %x0, %x{i};", f"add.f32 %x0, %x0, %y{i};", f"xor.b32 %r0, %r0, %r{i};"]
    lines += [f"add.f32 %x0, %x0, %{r};" for r in ("m0", "m1", "s0", "s1", "s2", "s3")]
    lines += ["mov.b32 %r1, %x0;", "xor.b32 %r0, %r0, %r1;"]
    lines += [f"{name}_end:", "mov.u64 %d2, %clock64;", "sub.u64 %d2, %d2, %d1;", "cvt.u64.u32 %d3, %r0;",
              "and.b64 %d3, %d3, 1;", "shl.b64 %d3, %d3, 40;", "add.u64 %d2, %d2, %d3;", "mov.u32 %i, %ctaid.x;",
              "mad.lo.u32 %i, %i, 4, %g;", "mad.wide.u32 %d4, %i, 8, %d0;", "mov.u32 %t, %tid.x;",
              "and.b32 %t, %t, 127;", "setp.eq.u32 %p, %t, 0;", "@%p st.global.u64 [%d4], %d2;", "ret;"]
    registers = [".reg .f32 %x<32>, %y<32>, %m<2>, %c<4>, %s<4>, %a<64>;", ".reg .b32 %r<32>, %i, %n, %t, %g;",
                 ".reg .b64 %d<6>;", ".reg .pred %p;", ".shared .align 1024 .b8 tile[32768];",
                 *(f".reg .f32 %{t}<4>; .reg .b32 %{t}b;" for t in TEMPORARY)]
    text = "\n".join("    " + line for line in registers + lines)
    return (f".visible .entry {name}(.param .u64 out, .param .f32 factor, .param .u32 bodies, .param .u32 products)\n"
            f".maxntid 512\n{{\n{text}\n}}\n")


def run(path):
    import torch

    cuda, module = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    out = torch.zeros(sms * 4, dtype=torch.int64, device="cuda")

    def call(name, *arguments):
        error = getattr(cuda, name)(*arguments)
        if error != 0:
            raise SystemExit(f"{name}: error {error} of cuda.h")

    def clocks(function, groups, bodies, products):
        """Of all repetitions, of warp group 0 and of another: the medians of the SMs, of a second launch."""
        values = [ctypes.c_uint64(out.data_ptr()), ctypes.c_float(0.1), ctypes.c_uint32(bodies),
                  ctypes.c_uint32(products)]
        pointers = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
        for _ in range(2):
            call("cuLaunchKernel", function, sms, 1, 1, 128 * (groups + 1), 1, 1, 0, None, pointers, None)
            torch.cuda.synchronize()
        return (out & ((1 << 40) - 1)).view(sms, 4).float().median(0).values.tolist()[:2]

    with open(path, "rb") as file:
        call("cuModuleLoadData", ctypes.byref(module), file.read())
    for name in BODIES:
        function, line = ctypes.c_void_p(), f"{name:<14}"
        call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        free = clocks(function, 1, 1, 1000)[0]
        for groups in (1, 3):
            alone = clocks(function, groups, 1000, 1)[1] / 1000
            beside = clocks(function, groups, 1000, 12000)[1] / 1000
            slower = clocks(function, groups, 20000, 1000)[0] / free
            line += f" | {groups} groups: alone {alone:6.0f} beside {beside:6.0f} products {slower:5.2f}"
        print(line, flush=True)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "run"):
        raise SystemExit(__doc__)
    if sys.argv[1] == "run":
        return run(sys.argv[2])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(".version 8.1\n.target sm_90a\n.address_size 64\n")
        file.write("\n".join(kernel(name, body) for name, body in BODIES.items()))


if __name__ == "__main__":
    main()
