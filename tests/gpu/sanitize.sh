#!/bin/sh
# sanitize.sh - runs a sample of the grid's kernels under compute-sanitizer, through tilerun.
#
#   tests/gpu/sanitize.sh FOLDER [-r TILERUN] [-p PYTHON] [-j JOBS] [-t TOOL].. [VARIANT]..
#
# FOLDER has the cubins or the PTX of precompile.sh; JOBS (8) run at a time.  TOOL: memcheck,
# racecheck, initcheck, synccheck; all of them when none is given.  VARIANT: names as in
# FOLDER/manifest.txt without fwd- or bwd-.  What is not clean is listed last; the exit status is
# the number of those runs.
set -u
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
folder=$1; shift
tilerun=build/release/backends/cuda/tilerun python=python3 tools= jobs=8
while [ $# -gt 0 ]; do
    case $1 in
    -r) tilerun=$2; shift 2 ;;
    -p) python=$2; shift 2 ;;
    -j) jobs=$2; shift 2 ;;
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
    np.save(f"{work}/in/{what}.npy", x)
save("Q", 1, 137, 2, d); save("K", 1, 203, 1, d); save("V", 1, 203, 1, dv)
save("dO", 1, 137, 2, dv); save("O", 1, 137, 2, dv)
np.save(f"{work}/in/L.npy", rng.standard_normal((1, 2, 137)).astype(np.float32) + 5)
PYTHON
}

check() { # NUMBER TOOL WHAT VARIANT ARGUMENTS..: one tilerun under compute-sanitizer; says how it went
    log=$work/$1 tool=$2 what=$3 variant=$4; shift 4
    if [ ! -f "$1" ]; then
        status="no file $1"
    elif compute-sanitizer --tool "$tool" --error-exitcode 99 --print-limit 5 "$tilerun" "$@" \
        --device gpu >"$log" 2>&1; then
        status=clean
    else
        status=$(grep -m 1 -E 'Error|error:|Invalid|hazard|ERROR SUMMARY' "$log" | cut -c 1-110)
        status=${status:-$(tail -n 1 "$log")}
    fi
    rm -f "$log"
    printf '%-9s %s %-28s %s\n' "$tool" "$what" "$variant" "$status" >>"$work/results"
}

runs=0
: >"$work/results"
for variant in "$@"; do
    mkdir "$work/in"
    make_inputs "$variant" || exit 2
    for tool in $tools; do
        for what in fwd bwd det; do
            case $what in
            fwd) kernels="--entry attention" direction=fwd names="Q K V" outs="O L" ;;
            bwd) kernels="--entry attention_bwd_delta --entry attention_bwd --entry attention_bwd_convert" ;;
            det) kernels="--entry attention_bwd_delta --entry attention_bwd_dkdv --entry attention_bwd_dq" ;;
            esac
            [ $what = fwd ] || { direction=bwd names="Q K V O L dO" outs="dQ dK dV"; }
            file=$folder/$direction-$variant.cubin
            [ -f "$file" ] || file=$folder/$direction-$variant.ptx
            set -- "$file" $kernels --set scale=0.125 --set softcap=2
            for name in $names; do set -- "$@" --in "$name=$work/in/$name.npy"; done
            for name in $outs; do set -- "$@" --out "$name=$work/out-$runs-$name.npy"; done
            check $runs "$tool" $what "$variant" "$@" &
            runs=$((runs + 1))
            [ $((runs % jobs)) -ne 0 ] || wait
        done
    done
    wait
    rm -rf "$work/in" "$work"/out-*
done
bad=$(grep -vc ' clean$' "$work/results")
grep -v ' clean$' "$work/results" | sort
echo "compute-sanitizer ($(echo $tools)): $runs runs, $bad not clean"
exit $((bad > 125 ? 125 : bad))
