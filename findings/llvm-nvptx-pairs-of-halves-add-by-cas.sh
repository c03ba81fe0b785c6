#!/usr/bin/env bash
# llvmlite 0.50.0 (LLVM 22.1), ptxas 13.5.37: atomicrmw fadd in global memory of half, of <2 x half>, bfloat and float, sm_90.
# Guess: a pair is the cheap form, atom.add.f16x2 of PTX 6.2, as the chip has it (one RED); one half is done by way of its word.
# Seen: the reverse in PTX: one half is atom.global.add.noftz.f16, and a pair a loop with atom.cas.b32, as if there were no f16x2; so is
# <2 x bfloat>. ptxas then makes a loop of the one half, too: neither is one instruction. The loops over pairs are of the whole
# system's scope, which LLVM means where no scope is written; the single ones, float's too, are of one GPU's.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q llvmlite==0.50.0
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/tools" \
    nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.5.37
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import re
import subprocess
import sys

import llvmlite.binding as llvm

FOLDER = sys.argv[1]
TOOLS = FOLDER + "/tools/nvidia/cu13/bin/"
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


def compiled(kind):
    """What atom of PTX and ATOM or RED of machine code a kernel has that adds one number of this type."""
    source = f"""target triple = "nvptx64-nvidia-cuda"
    define ptx_kernel void @k(ptr addrspace(1) %a, {kind} %b) {{
    %r = atomicrmw fadd ptr addrspace(1) %a, {kind} %b monotonic
    ret void }}"""
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu="sm_90", features="+ptx84", opt=3)
    text = machine.emit_assembly(llvm.parse_assembly(source))
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(text)
    subprocess.run([TOOLS + "ptxas", "-arch", "sm_90", FOLDER + "/k.ptx", "-o", FOLDER + "/k.cubin"], check=True)
    code = subprocess.run([TOOLS + "nvdisasm", "-c", FOLDER + "/k.cubin"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\b(?:atom|red)\.[\w.]+", text), sorted(set(re.findall(r"\b(?:ATOM|ATOMG|RED|REDG)\.[\w.]+", code)))


seen = {kind: compiled(kind) for kind in ("float", "half", "bfloat", "<2 x half>", "<2 x bfloat>")}
for kind, (ptx, code) in seen.items():
    print(f"{kind}: PTX {' '.join(ptx)}, machine code {' '.join(code)}")
    assert len(ptx) == 1 and ("cas" in ptx[0]) == ("<2" in kind)
    assert any("CAS" in name for name in code) == (kind != "float")
    assert all(name.endswith("SYS" if "<2" in kind else "GPU") for name in code)
PYTHON
