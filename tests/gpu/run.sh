#!/bin/sh
# run.sh - the checks and measurements on a GPU, from what pack.sh made.
#
#   tests/gpu/run.sh KIT OUT [grid] [autograd] [train] [sanitize] [bench] [quick] [ladder]
#
# Without a list: grid autograd train sanitize bench ladder.  quick is bench for one length.  CSV
# files and plots go to OUT.  The exit status is the number of parts that failed.
set -u
[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
kit=$1 out=$2; shift 2
[ $# -gt 0 ] || set -- grid autograd train sanitize bench ladder
root=$(dirname "$0")/../..
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
tar xzf "$kit/grid.tgz" -C "$work"
export PYTHONUNBUFFERED=1
failed=0
for part; do
    start=$(date +%s)
    echo "==== $part"
    case $part in
    grid) python3 "$root/tests/gpu/grid.py" "$work" --out "$out" ;;
    autograd) python3 "$root/tests/gpu/autograd.py" --folder "$work" ;;
    train) python3 "$root/examples/python/train_transformer.py" --forward "$work/fwd-bf16-d64-causal.cubin" \
               --backward "$work/bwd-bf16-d64-causal.cubin" ;;
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
