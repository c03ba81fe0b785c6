#!/bin/sh
# random_campaign.sh - random programs on the GPU, and then in the simulator for as long as there is time.
#
#   random_campaign.sh KIT OUT FIRST COUNT JOBS SECONDS [MOST]
#
# KIT holds tilec, tilerun and the scripts of tests/fuzz and tests/gpu.  COUNT programs from seed FIRST run on the GPU, in JOBS
# processes; then the simulator judges programs from the same seed on for SECONDS, MOST of them.  To OUT go gpu.txt, sim.txt (what was
# said), gpu.jsonl, sim.jsonl (a line for each program), and the programs that failed in gpu-failed.txt, sim-failed.txt.
set -u
[ $# -eq 6 ] || [ $# -eq 7 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
kit=$1 out=$2 first=$3 count=$4 jobs=$5 seconds=$6 most=${7:-1000000}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export TILEC_FUZZ="$kit" TMPDIR="$work" OPENBLAS_NUM_THREADS=1
mkdir -p "$out"
failed=0
show() { # the programs that failed, as one file
    for file in "$work/$1"/*.tile; do
        [ -f "$file" ] && { echo "==== ${file##*/}"; cat "$file"; }
    done 2>/dev/null | head -c 12000000 > "$out/$1-failed.txt"
}
if [ "$count" -gt 0 ]; then
    python3 "$kit/random_gpu.py" --tilec "$kit/tilec" --tilerun "$kit/tilerun" --first "$first" --count "$count" \
        --jobs "$jobs" --timeout 30 --reduce 20 --keep "$work/gpu" --log "$out/gpu.jsonl" > "$out/gpu.txt" 2>&1 || failed=1
    show gpu
    tail -12 "$out/gpu.txt"
fi
if [ "$seconds" -gt 0 ]; then
    minutes=$(awk "BEGIN { print $seconds / 60 }")
    python3 "$kit/judge.py" --tilec "$kit/tilec" --tilerun "$kit/tilerun" --first "$first" --count "$most" --jobs "$jobs" \
        --minutes "$minutes" --reduce 40 --keep "$work/sim" --log "$out/sim.jsonl" > "$out/sim.txt" 2>&1 || failed=1
    show sim
    tail -12 "$out/sim.txt"
fi
exit $failed
