#!/usr/bin/env bash
# pack.sh BUILD CORPORA FOLDER - a folder that fuzzes on any x86-64 Linux: the targets of BUILD
# (cmake --preset fuzz) with their C library, dictionaries, the inputs in CORPORA/TARGET, fuzz_all.sh.
set -eu
build=$1; corpora=$2; folder=$3; here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$folder"; mkdir -p "$folder/bin" "$folder/lib" "$folder/corpus"
for target in tile run ir options ptx npy metadata; do
    strip -g -o "$folder/bin/fuzz_$target" "$build/tests/fuzz/fuzz_$target"
    cp -r "$corpora/$target" "$folder/corpus/$target"
done
for library in ld-linux-x86-64.so.2 libc.so.6 libm.so.6; do
    cp -L "$(ldd "$folder/bin/fuzz_npy" | grep -o "/[^ ]*$library")" "$folder/lib/"
done
cp -r "$here/dict" "$here/fuzz_all.sh" "$folder/"
tar czf "$folder/bin.tar.gz" -C "$folder" bin
tar czf "$folder/corpus.tar.gz" -C "$folder" corpus
rm -rf "$folder/bin" "$folder/corpus"
