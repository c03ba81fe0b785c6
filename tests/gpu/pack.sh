#!/bin/sh
# pack.sh - everything that the checks on a GPU need, compiled on a machine without one.
#
#   tests/gpu/pack.sh KIT [-b BUILD] [-a ARCH] [-g GPU] [-w]
#
# KIT is a folder: grid.tgz (the variants of cases.py as cubins), bench/ (those of bench.py), ladder/
# (one kernel by its switches), sanitize/ (a sample), tilerun; with -w the wide grid alone, wide.tgz.
# ARCH (sm_80) is what tilec compiles for; GPU (sm_90a) what ptxas does.  On the GPU's machine:
# tests/gpu/run.sh KIT OUT.  The wide grid, 11,218 runs: pack.sh KIT -w -a sm_90, run.sh KIT OUT wide.
set -u
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
kit=$1; shift
build=build/release arch=sm_80 gpu=sm_90a wide=
while [ $# -gt 0 ]; do
    case $1 in
    -b) build=$2; shift 2 ;;
    -a) arch=$2; shift 2 ;;
    -g) gpu=$2; shift 2 ;;
    -w) wide=1; shift ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
here=$(dirname "$0") tilec=$build/tilec
grid=${TMPDIR:-/tmp}/tilec-grid-$arch-$gpu # kept: what is newer than the compiler is not made again
export PTXAS_ARCH="$gpu"
if [ "$wide" ]; then
    mkdir -p "$kit"
    "$here/precompile.sh" "$grid" -t "$tilec" -a "$arch" -w -z
    failed=$?
    mv "$grid.tgz" "$kit/wide.tgz"
    du -sh "$kit"
    exit $failed
fi
mkdir -p "$kit/bench" "$kit/ladder" "$kit/sanitize"
rm -f "$kit"/bench/* "$kit"/ladder/* "$kit"/sanitize/*

"$here/precompile.sh" "$grid" -t "$tilec" -a "$arch" -z
failed=$?
mv "$grid.tgz" "$kit/grid.tgz"
for d in 64 128 256; do
    for mask in "" -causal; do
        for direction in fwd bwd; do
            cp "$grid/$direction-bf16-d$d$mask.cubin" "$kit/bench/" || failed=$((failed + 1))
        done
    done
done
for variant in bf16-d64 bf16-d64-causal bf16-d128 bf16-d128-causal f16-d40-causal f16-d256 \
    bf16-d192-dv128-causal bf16-d64-left16-right16 bf16-d64-softcap f16-d128-causal-alibi; do
    cp "$grid/fwd-$variant.cubin" "$grid/bwd-$variant.cubin" "$kit/sanitize/" || failed=$((failed + 1))
done
"$here/../../bench/ladder.sh" "$kit/ladder" -t "$tilec" -a "$arch" -c -- -D D=128 || failed=$((failed + 1))
rm -f "$kit"/ladder/*.ptx
cp "$build/backends/cuda/tilerun" "$kit/" || failed=$((failed + 1))
du -sh "$kit"
[ $failed -le 125 ] || failed=125
exit $failed
