#!/bin/sh
# run.sh - the checks and measurements on a GPU, from what pack.sh made.
#
#   tests/gpu/run.sh KIT OUT [grid] [wide] [autograd] [launchers] [train] [sanitize] [bench] [quick] [ladder]
#
# Without a list: grid autograd launchers train sanitize bench ladder.  quick is bench for one length, wide the
# wide grid (of pack.sh -w; the variable WIDE has further options for grid.py).  CSV files and plots go to
# OUT.  The exit status is the number of parts that failed.
set -u
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
kit=$1 out=$2; shift 2
[ $# -gt 0 ] || set -- grid autograd launchers train sanitize bench ladder
root=$(dirname "$0")/../..
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
for grid in grid wide; do
    [ ! -f "$kit/$grid.tgz" ] || { mkdir "$work/$grid" && tar xzf "$kit/$grid.tgz" -C "$work/$grid"; }
done
export PYTHONUNBUFFERED=1
failed=0
for part; do
    start=$(date +%s)
    echo "==== $part"
    case $part in
    grid) python3 "$root/tests/gpu/grid.py" "$work/grid" --out "$out" ;;
    wide) python3 "$root/tests/gpu/grid.py" "$work/wide" --out "$out" --wide --jobs 8 ${WIDE:-} ;;
    autograd) python3 "$root/tests/gpu/autograd.py" --folder "$work/grid" ;;
    launchers) python3 "$root/tests/gpu/launchers_torch.py" --forward "$work/grid/fwd-bf16-d64-causal.cubin" \
                   --backward "$work/grid/bwd-bf16-d64-causal.cubin" ;;
    train) python3 "$root/examples/python/train_transformer.py" --forward "$work/grid/fwd-bf16-d64-causal.cubin" \
               --backward "$work/grid/bwd-bf16-d64-causal.cubin" ;;
    sanitize) "$root/tests/gpu/sanitize.sh" "$kit/sanitize" -r "$kit/tilerun" ;;
    bench) python3 "$root/bench/bench.py" --ours "tilec=$kit/bench" --out "$out" ;;
    quick) python3 "$root/bench/bench.py" --ours "tilec=$kit/bench" --out "$out" --quick --lengths 4096 ;;
    ladder) python3 "$root/bench/bench.py" --ladder "$kit/ladder" --out "$out" --directions fwd \
                --case fwd:128:4:16:4096:0 ;;
    *) echo "run.sh: no part '$part'"; false ;;
    esac
    status=$?
    [ $status -eq 0 ] || failed=$((failed + 1))
    echo "==== $part: $([ $status -eq 0 ] && echo ok || echo "FAILED ($status)"), $(($(date +%s) - start)) s"
done
exit $failed
