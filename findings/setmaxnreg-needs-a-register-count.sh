#!/usr/bin/env bash
# setmaxnreg is ignored beside .reqntid or .maxntid alone: an info line, status 0 (ptxas 13.5.37).
# Guess: the block's size is enough, as 64K registers over its threads is what the kernel can
# have; or ptxas refuses.
# Seen: it wants .maxnreg or .minnctapersm, too.  Without, no register is reallocated.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/tools" \
    nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.5.37
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import subprocess
import sys

FOLDER = sys.argv[1]
TOOLS = FOLDER + "/tools/nvidia/cu13/bin/"


def has(directives):
    """Whether the machine code reallocates registers; ptxas must take the kernel."""
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {directives} {{
    .reg .b64 %o; .reg .b32 %r; ld.param.u64 %o, [out];
    setmaxnreg.dec.sync.aligned.u32 40; mov.u32 %r, %tid.x; st.global.b32 [%o], %r; ret; }}""")
    subprocess.run([TOOLS + "ptxas", "-arch", "sm_90a", FOLDER + "/k.ptx",
                    "-o", FOLDER + "/k.cubin"], check=True)
    text = subprocess.run([TOOLS + "nvdisasm", "-c", FOLDER + "/k.cubin"],
                          check=True, capture_output=True, text=True).stdout
    return "USETMAXREG" in text


good = True
for directives, expected in [(".maxntid 128", False), (".reqntid 128", False),
                             (".reqntid 128 .maxnreg 128", True), (".maxnreg 128", True),
                             (".reqntid 128 .minnctapersm 1", True)]:
    seen = has(directives)
    print(f"{directives}: {seen}", flush=True)
    good &= seen == expected
sys.exit(not good)
PYTHON
