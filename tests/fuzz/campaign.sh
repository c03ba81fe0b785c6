#!/bin/sh
# campaign.sh - many random programs on a machine that has Python and NumPy, and no compiler.
#
#   campaign.sh pack BUILD KIT.tgz                 on this machine: tilec and tilerun of BUILD, their C library, and the judge
#   campaign.sh run OUT FIRST COUNT JOBS SECONDS   over there, in the unpacked folder; taken up again it goes on
#
# OUT gets sim.txt (what was said), sim.jsonl (a line for each program) and failed/ (the programs that failed, whole and made small).
set -u
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || usage
case $1 in
pack)
    [ $# -eq 3 ] || usage
    kit=$(mktemp -d) || exit 2
    trap 'rm -rf "$kit"' EXIT
    mkdir -p "$kit/kit/lib" || exit 2
    for program in "$2/tilec" "$2/backends/cuda/tilerun"; do
        strip -g -o "$kit/kit/${program##*/}.bin" "$program" || exit 2
        for library in $(ldd "$program" | grep -o '/[^ ]*'); do cp -L "$library" "$kit/kit/lib/" || exit 2; done
    done
    cp "$here"/*.py "$here/../run/float8_codes.py" "$here/../run/packed_codes.py" "$here/campaign.sh" "$kit/kit/" || exit 2
    tar czf "$3" -C "$kit" kit && ls -l "$3"
    ;;
run)
    [ $# -eq 6 ] || usage
    out=$2 first=$3 count=$4 jobs=$5 seconds=$6
    mkdir -p "$out" || exit 2
    work=$(mktemp -d) || exit 2
    trap 'rm -rf "$work"' EXIT
    export TMPDIR="$work" OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
    for program in tilec tilerun; do # under the C library that came with them
        printf '#!/bin/sh\nexec "%s/lib/ld-linux-x86-64.so.2" --library-path "%s/lib" "%s/%s.bin" "$@"\n' \
            "$here" "$here" "$here" $program > "$work/$program"
        chmod +x "$work/$program"
    done
    minutes=$(awk "BEGIN { print $seconds / 60 }")
    python3 "$here/judge.py" --minutes "$minutes" --tilec "$work/tilec" --tilerun "$work/tilerun" --first "$first" \
        --count "$count" --jobs "$jobs" --timeout 60 --reduce 20 --keep "$out/failed" --log "$out/sim.jsonl" --quiet > "$out/sim.txt" 2>&1
    status=$?
    [ -s "$out/sim.jsonl" ] || { tail -n 5 "$out/sim.txt" >&2; exit 2; }
    python3 - "$out/sim.jsonl" <<'PY'
import collections, json, sys
rows = [json.loads(x) for x in open(sys.argv[1], encoding="utf-8") if x.strip().endswith("}")]
n = collections.Counter(r["status"] for r in rows)
again = sum(r["draw"] for r in rows)
print(f"{len(rows)} programs: {dict(n)}; {again + n['undecided']} of {len(rows) + again} drawn were undecided; "
      f"{sum(r['runs'] for r in rows)} runs, {sum(r['core'] for r in rows):.0f} core seconds")
for r in rows:
    if r["status"] not in ("ok", "undecided"):
        f = (r["failures"] or [{"kind": r["status"], "flags": [], "text": r.get("why", "")}])[0]
        print(f"  {r['seed']}: {f['kind']} {' '.join(f['flags'])}: {f['text'][:150]}".replace("\n", " "))
PY
    exit $status
    ;;
*) usage ;;
esac
