#!/bin/sh
# ladder.sh - compiles one kernel with the optimising switches turned on one after the other, and
# with each of them alone turned off, for `bench.py --ladder`.
#
#   bench/ladder.sh OUT [-t TILEC] [-a ARCH] [-s SOURCE] [-c] [-- TILEC OPTIONS]
#
# Writes OUT/NN-on-SWITCH.ptx, where 00 has everything off and each has what those before it have,
# and OUT/NN-without-SWITCH.ptx.  With -c, cubins as well (ptxas for $PTXAS_ARCH, else ARCH).
set -u
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
out=$1; shift
tilec=build/release/tilec arch=sm_80 source=$(dirname "$0")/../examples/attention.tile cubin=
while [ $# -gt 0 ]; do
    case $1 in
    -t) tilec=$2; shift 2 ;;
    -a) arch=$2; shift 2 ;;
    -s) source=$2; shift 2 ;;
    -c) cubin=1; shift ;;
    --) shift; break ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
# in the order in which they are worth turning on: each helps only when those before it are on
switches="swizzle pipeline ldmatrix-x4 keep-operands fuse share hoist stage-output split-loops launch-order"
mkdir -p "$out"
failed=0

build() { # NAME FLAGS..
    name=$1; shift
    if "$tilec" "$source" -arch "$arch" "$@" -o "$out/$name.ptx" 2>"$out/$name.log" &&
       { [ -z "$cubin" ] || ptxas -arch="${PTXAS_ARCH:-$arch}" "$out/$name.ptx" -o "$out/$name.cubin"; }
    then rm -f "$out/$name.log"
    else echo "$name: $(head -n 1 "$out/$name.log")"; rm -f "$out/$name.ptx"; failed=$((failed + 1))
    fi
}

off=
for s in $switches; do off="$off -fno-$s"; done
build 00-nothing "$@" $off
rung=0
for s in $switches; do
    rung=$((rung + 1))
    off=$(echo "$off" | sed "s/ -fno-$s\( \|\$\)/\1/")
    build "$(printf '%02d-on-%s' $rung "$s")" "$@" $off
done
for s in $switches; do
    rung=$((rung + 1))
    build "$(printf '%02d-without-%s' $rung "$s")" "$@" "-fno-$s"
done
echo "$((rung + 1)) variants, $failed failed, in $out"
exit $failed
