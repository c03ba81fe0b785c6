#!/usr/bin/env bash
# mma.sync of f64 and s8 from chip to chip (ptxas 13.5.37).
# Guess: m16n8k4 to m16n8k16 of f64, which came with sm_90, are one instruction on later chips, too; where a chip
# has few such units the hardware holds products back, and the code is the same.
# Seen: m16n8k16 of f64 is one DMMA on sm_90 alone; on sm_100, sm_103 and sm_120 eight DMMA.8x8x4. Between them
# ptxas lets time pass with instructions that do nothing (@!UPT UIADD3 on URZ): one on sm_100, some fifty on sm_103
# and sm_120, so code of products grows by 800 bytes for each. Between products of s8 there are a few on sm_103, none elsewhere.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/tools" \
    nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.5.37
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import re
import subprocess
import sys

FOLDER = sys.argv[1]
TOOLS = FOLDER + "/tools/nvidia/cu13/bin/"


def names(prefix, first, n):
    return ", ".join(f"%{prefix}{i}" for i in range(first, first + n))


def f64():
    loads = "".join(f"ld.global.f64 %d{i}, [%i+{8 * i}]; " for i in range(12))
    zeros = "".join(f"mov.f64 %d{i}, 0d0000000000000000; " for i in range(12, 16))
    stores = "".join(f"st.global.f64 [%o+{8 * i}], %d{i}; " for i in range(12, 16))
    return loads + zeros + (f"mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {{{names('d', 12, 4)}}}, "
                            f"{{{names('d', 0, 8)}}}, {{{names('d', 8, 4)}}}, {{{names('d', 12, 4)}}}; ") + stores


def s8():
    """Four products that do not wait for one another."""
    loads = "".join(f"ld.global.b32 %r{i}, [%i+{4 * i}]; " for i in range(16))
    zeros = "".join(f"mov.b32 %r{i}, 0; " for i in range(16, 32))
    stores = "".join(f"st.global.b32 [%o+{4 * i}], %r{i}; " for i in range(16, 32))
    products = "".join(f"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{{names('r', 16 + 4 * i, 4)}}}, {{{names('r', 4 * (i // 2), 4)}}}, "
                       f"{{{names('r', 8 + 2 * i, 2)}}}, {{{names('r', 16 + 4 * i, 4)}}}; " for i in range(4))
    return loads + zeros + products + stores


def made(arch, body, product):
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(f""".version 9.0
.target {arch}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {{
    .reg .b64 %o, %i; .reg .f64 %d<16>; .reg .b32 %r<32>; ld.param.u64 %o, [out]; ld.param.u64 %i, [in];
    {body} ret; }}""")
    subprocess.run([TOOLS + "ptxas", "-arch", arch, FOLDER + "/k.ptx", "-o", FOLDER + "/k.cubin"], check=True)
    text = subprocess.run([TOOLS + "nvdisasm", "-c", FOLDER + "/k.cubin"], check=True, capture_output=True, text=True).stdout
    return re.findall(rf"\b{product}\.[\w.]*", text), len(re.findall(r"@!UPT UIADD3 URZ, UPT, UPT, URZ, URZ, URZ", text))


good = True
for arch, products, least, most in [("sm_90", ["DMMA.16x8x16"], 0, 2), ("sm_100", ["DMMA.8x8x4"] * 8, 5, 10),
                                    ("sm_103", ["DMMA.8x8x4"] * 8, 300, 450), ("sm_120", ["DMMA.8x8x4"] * 8, 300, 450)]:
    seen, fillers = made(arch, f64(), "DMMA")
    print(f"{arch} f64: {len(seen)} {seen[0]}, {fillers} that do nothing")
    good &= seen == products and least <= fillers <= most
for arch in ("sm_90", "sm_100", "sm_103", "sm_120"):
    seen, fillers = made(arch, s8(), "IMMA")
    print(f"{arch} s8: {len(seen)} {seen[0]}, {fillers} that do nothing")
    good &= len(seen) == 4 and (fillers >= 6 if arch == "sm_103" else fillers <= 2)
sys.exit(not good)
PYTHON
