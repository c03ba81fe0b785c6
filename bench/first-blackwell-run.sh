#!/usr/bin/env bash
# first-blackwell-run.sh [TARGET] - on a machine with a B200 (or a B300: sm_103): is what tilec makes for it right, how
# fast is it, and what do the chip's units do?  Builds tilec where it is not built, runs for ten minutes at most, prints
# some forty figures, and leaves first-run.tar.gz to send back.  Nothing is sent by itself.
set -eu
cd "$(dirname "$0")/.."
[ -x build/release/backends/cuda/tilerun ] || make
exec python3 bench/first_run.py --build build/release --target "${1:-sm_100}"
