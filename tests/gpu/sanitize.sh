#!/bin/sh
# sanitize.sh - runs a sample of the grid's kernels under compute-sanitizer, through tilerun.
#
#   tests/gpu/sanitize.sh FOLDER [-r TILERUN] [-p PYTHON] [-t TOOL].. [VARIANT]..
#
# FOLDER is that of precompile.sh.  TOOL: memcheck, racecheck, initcheck, synccheck; all of them
# when none is given.  VARIANT: names as in FOLDER/manifest.txt without fwd- or bwd-.  The last
# lines are a table; the exit status is the number of runs that were not clean.
set -u
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
folder=$1; shift
tilerun=build/release/backends/cuda/tilerun python=python3 tools=
while [ $# -gt 0 ]; do
    case $1 in
    -r) tilerun=$2; shift 2 ;;
    -p) python=$2; shift 2 ;;
    -t) tools="$tools $2"; shift 2 ;;
    *) break ;;
    esac
done
[ -n "$tools" ] || tools="memcheck racecheck initcheck synccheck"
[ $# -gt 0 ] || set -- bf16-d64 bf16-d64-causal bf16-d128 bf16-d128-causal f16-d40-causal f16-d256 \
    bf16-d192-dv128-causal bf16-d64-left16-right16 bf16-d64-softcap f16-d128-causal-alibi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# Odd lengths and grouped heads, so that every edge is met; dQ_sum starts at zero by itself.
make_inputs() { # VARIANT
    "$python" - "$1" "$work" <<'PYTHON'
import re
import sys
import numpy as np
name, work = sys.argv[1:]
d = int(re.search(r"-d(\d+)", name).group(1))
dv = int((re.search(r"-dv(\d+)", name) or re.search(r"-d(\d+)", name)).group(1))
rng = np.random.default_rng(0)
def save(what, *shape):
    x = rng.standard_normal(shape).astype(np.float32)
    if name.startswith("bf16"):
        x = ((x.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
    else:
        x = x.astype(np.float16)
    np.save(f"{work}/{what}.npy", x)
save("Q", 1, 137, 2, d); save("K", 1, 203, 1, d); save("V", 1, 203, 1, dv); save("dO", 1, 137, 2, dv)
PYTHON
}

check() { # TOOL ARGUMENTS..: compute-sanitizer over one tilerun
    tool=$1; shift
    compute-sanitizer --tool "$tool" --error-exitcode 99 --print-limit 5 "$tilerun" "$@" \
        >"$work/log" 2>&1
}

runs=0 bad=0
for variant in "$@"; do
    forward=$folder/fwd-$variant.ptx backward=$folder/bwd-$variant.ptx
    make_inputs "$variant" || exit 2
    set_scalars="--set scale=0.125 --set softcap=2"
    for tool in $tools; do
        for what in fwd bwd det; do
            case $what in
            fwd) set -- "$forward" --in "Q=$work/Q.npy" --in "K=$work/K.npy" --in "V=$work/V.npy" \
                     $set_scalars --out "O=$work/O.npy" --out "L=$work/L.npy" ;;
            bwd) kernels="--entry attention_bwd_delta --entry attention_bwd --entry attention_bwd_convert" ;;
            det) kernels="--entry attention_bwd_delta --entry attention_bwd_dkdv --entry attention_bwd_dq" ;;
            esac
            if [ $what != fwd ]; then
                set -- "$backward" $kernels $set_scalars
                for name in Q K V O L dO; do set -- "$@" --in "$name=$work/$name.npy"; done
            fi
            runs=$((runs + 1))
            if [ ! -f "$1" ]; then
                status="no file $1"
            elif check "$tool" --device gpu "$@"; then
                status=clean
            else
                status=$(grep -m 1 -E 'Error|ERROR SUMMARY|error:|Invalid|Race' "$work/log" | cut -c 1-100)
            fi
            [ "$status" = clean ] || { bad=$((bad + 1)); printf '%-9s %s %-28s %s\n' "$tool" $what "$variant" "$status"; }
        done
    done
done
echo "compute-sanitizer ($(echo $tools)): $runs runs, $bad not clean"
exit $((bad > 125 ? 125 : bad))
