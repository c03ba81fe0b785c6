#!/usr/bin/env bash
# mul.rn.f32x2 and add.rn.f32x2 behind it are fused by ptxas 13.0.88, not by 13.1.115, 13.5.37.
# Guess: .rn forbids fusing, as the ISA says of the scalar mul.rn and add.rn.
# Seen: 13.0 makes one FFMA2 of them, with -fmad=false too, and leaves the scalars apart: results
# differ in their last bits by the assembler's version.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/tools" nvidia-cuda-nvdisasm==13.5.37
for version in 13.0.88 13.1.115 13.5.37; do
    "$folder/venv/bin/pip" install -q --no-deps --target "$folder/$version" \
        "nvidia-cuda-nvcc==$version"
done
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import collections
import re
import subprocess
import sys

FOLDER = sys.argv[1]
BIN = "/nvidia/cu13/bin/"


def count(version, body, *options):
    """How often each instruction of the machine code stands in a kernel with this body."""
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {{
    .reg .b64 %o, %i, %t; .reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b16 %h<4>;
    ld.param.u64 %o, [out]; ld.param.u64 %i, [in]; mov.u32 %r0, %tid.x;
    mul.wide.u32 %t, %r0, 16; add.u64 %o, %o, %t; add.u64 %i, %i, %t;
    {body}
    ret; }}""")
    subprocess.run([f"{FOLDER}/{version}{BIN}ptxas", "-arch", "sm_100a", *options, FOLDER + "/k.ptx",
                    "-o", FOLDER + "/k.cubin"], check=True)
    text = subprocess.run([f"{FOLDER}/tools{BIN}nvdisasm", "-c", FOLDER + "/k.cubin"],
                          check=True, capture_output=True, text=True).stdout
    return collections.Counter(
        re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+ )?([A-Z]\w*)", text))


PAIRS = """.reg .b64 %q<4>; ld.global.v2.b64 {%q0, %q1}, [%i];
    mul.rn.f32x2 %q2, %q0, %q1; add.rn.f32x2 %q3, %q2, %q1; st.global.b64 [%o], %q3;"""
ONE = """ld.global.v2.f32 {%f1, %f2}, [%i];
    mul.rn.f32 %f3, %f1, %f2; add.rn.f32 %f3, %f3, %f2; st.global.f32 [%o], %f3;"""
good = True
for version, fused in [("13.0.88", True), ("13.1.115", False), ("13.5.37", False)]:
    for options in [(), ("-fmad=false",)]:
        pairs, one = count(version, PAIRS, *options), count(version, ONE, *options)
        print(f"ptxas {version} {' '.join(options)}: {pairs['FFMA2']} FFMA2, {pairs['FMUL2']} FMUL2;"
              f" of scalars {one['FFMA']} FFMA, {one['FMUL']} FMUL")
        good &= (pairs["FFMA2"], pairs["FMUL2"]) == ((1, 0) if fused else (0, 1))
        good &= (one["FFMA"], one["FMUL"]) == (0, 1)
sys.exit(not good)
PYTHON
