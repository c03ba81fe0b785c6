#!/bin/sh
# precompile.sh - compiles every variant of the grid (cases.py) into a folder, several at a time.
#
#   tests/gpu/precompile.sh OUT [-a ARCH] [-t TILEC] [-j JOBS] [-c] [-z] [-w] [-g GROUP].. [-d fwd|bwd|dec]
#                           [-- TILEC OPTIONS]
#
# Writes OUT/NAME.ptx (with -c also OUT/NAME.cubin, by ptxas for $PTXAS_ARCH or its target; with -z all
# cubins also in OUT.tgz, to carry) and OUT/manifest.txt: one line a variant, "NAME ok" or "NAME
# failed: first line of the message".  -w: the wide grid's.  A file newer than the compiler and the
# sources is kept.  The exit status is the number of failures, 125 at most.
set -u
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
[ $# -ge 1 ] || usage
out=$1; shift
arch=sm_80 tilec=build/tilec jobs=$(nproc) cubin= pack= select=
while [ $# -gt 0 ]; do
    case $1 in
    -a) arch=$2; shift 2 ;;
    -t) tilec=$2; shift 2 ;;
    -j) jobs=$2; shift 2 ;;
    -c) cubin=1; shift ;;
    -z) cubin=1 pack=1; shift ;;
    -w) select="$select --wide"; shift ;;
    -g) select="$select --group '$2'"; shift 2 ;;
    -d) select="$select --direction $2"; shift 2 ;;
    --) shift; break ;;
    *) usage ;;
    esac
done
extra="$*"
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out/log"
export out arch tilec cubin extra root

one='
name=$1 source=$root/$2; shift 2
flags=; for d; do flags="$flags -D $d"; done
ptx=$out/$name.ptx log=$out/log/$name
if [ -s "$ptx" ] && [ "$ptx" -nt "$tilec" ] && [ "$ptx" -nt "$source" ] && [ -f "$log.ok" ] &&
   { [ -z "$cubin" ] || [ -s "$out/$name.cubin" ]; }; then exit 0; fi
rm -f "$ptx" "$out/$name.cubin" "$log.ok"
if "$tilec" "$source" -arch "$arch" $flags $extra -o "$ptx" >"$log" 2>&1 &&
   { [ -z "$cubin" ] || ptxas -arch="${PTXAS_ARCH:-$(sed -n "s/^\.target \([a-z0-9_]*\).*/\1/p" "$ptx")}" -v "$ptx" -o "$out/$name.cubin" >>"$log" 2>&1; }
then touch "$log.ok"; else rm -f "$ptx" "$out/$name.cubin"; fi
'
eval "python3 '$root/tests/gpu/cases.py' --variants $select" >"$out/variants.txt" || exit 2
xargs -P "$jobs" -L 1 sh -c "$one" one <"$out/variants.txt"

failures=0
: >"$out/manifest.txt"
while read -r name _; do
    if [ -f "$out/log/$name.ok" ]; then
        echo "$name ok" >>"$out/manifest.txt"
    else
        failures=$((failures + 1))
        echo "$name failed: $(head -n 1 "$out/log/$name")" >>"$out/manifest.txt"
    fi
done <"$out/variants.txt"
[ -z "$pack" ] || (cd "$out" && tar czf - manifest.txt ./*.cubin) >"$out.tgz"
grep ' failed: ' "$out/manifest.txt" | head -n 20
echo "$(wc -l <"$out/variants.txt") variants, $failures failed, in $out"
[ $failures -le 125 ] || failures=125
exit $failures
