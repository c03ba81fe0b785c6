#!/usr/bin/env bash
# fuzz_all.sh MINUTES JOBS [TARGET..] - runs the fuzz targets of its folder for so long, JOBS processes
# each, and prints a line for each target.  A process that found something is started again.
#
# The folder has bin/fuzz_TARGET (or bin.tar.gz), dict/TARGET.dict and corpus/TARGET (or corpus.tar.gz);
# pack.sh makes one that runs without clang.  What was found lies in found/TARGET: the input that crashed
# (crash-), leaked (leak-), took more than LIMIT seconds (timeout-) or too much memory (oom-).
set -u
minutes=${1:?usage: fuzz_all.sh MINUTES JOBS [TARGET..]}; jobs=${2:?}; shift 2
cd "$(dirname "$0")" || exit 2
LIMIT=${LIMIT:-10}
for packed in bin corpus; do
    [ -d $packed ] || tar xzf $packed.tar.gz || exit 2
done
targets=${*:-$(ls bin | sed 's/^fuzz_//')}
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
end=$(($(date +%s) + minutes * 60))
TIMEFORMAT='processor %U %S'

# One process after the other until the time is over.
work() {
    local target=$1 log=$2 left start=(bin/fuzz_$1)
    # an older C library: ours, with our loader
    "${start[@]}" -help=1 >/dev/null 2>&1 ||
        start=(lib/ld-linux-x86-64.so.2 --library-path lib bin/fuzz_$1)
    while left=$((end - $(date +%s))); [ $left -gt 0 ]; do
        { time "${start[@]}" -max_total_time=$left -timeout=$LIMIT -rss_limit_mb=2500 \
            -malloc_limit_mb=2000 -max_len=50000 -dict=dict/$target.dict -print_final_stats=1 \
            -reload=1 -artifact_prefix=found/$target/ corpus/$target >>$log 2>&1; } 2>>$log
    done
}

for target in $targets; do
    mkdir -p found/$target log corpus/$target
    for ((k = 0; k < jobs; k++)); do
        : >log/$target-$k
        work $target log/$target-$k &
    done
done
# On a terminal a bar of the time, and how many inputs were found.
begin=$(date +%s)
while [ -t 2 ] && now=$(date +%s) && [ $now -lt $end ]; do
    marks=$(((now - begin) * 30 / (end - begin)))
    printf '\r[%-30.*s] %d of %d s, %d found\033[K' $marks '##############################' \
        $((now - begin)) $((end - begin)) $(ls found/* | grep -c -- -) >&2
    sleep 1
done
[ ! -t 2 ] || printf '\r\033[K' >&2
wait
status=0
for target in $targets; do
    found=$(ls found/$target | sed 's/-.*//' | sort | uniq -c | tr -s ' \n' ' ')
    [ -z "$found" ] || status=1
    cat log/$target-* | awk -v name=$target -v found="${found:- nothing}" '
        /number_of_executed_units/ { runs += $2 }
        /slowest_unit_time_sec/ { if ($2 > slow) slow = $2 }
        /^processor/ { seconds += $2 + $3 }
        / cov: / { if ($4 > cov) cov = $4 }
        END { printf "%-9s %10d executions, %6.1f minutes of processor, coverage %d, slowest %d s, found:%s\n",
                     name, runs, seconds / 60, cov, slow, found }'
done
exit $status
