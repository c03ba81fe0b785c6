#!/bin/sh
# torch_pack.sh - what torch_product.py needs on a machine with a GPU and PyTorch, in one folder.
#
#   tests/gpu/torch_pack.sh KIT [-b BUILD]
#
# BUILD (build/release) has libtilec and the extension.  On the GPU's machine: sh KIT/run.sh [models|families|states|
# gradients] [OPTION..], with the options of torch_product.py or torch_models.py ..; sh KIT/run.sh sdpa PYTORCH [OPTION..], as
# torch_sdpa.py; sh KIT/run.sh distributed N [OPTION..] for N GPUs, or
# parts [OPTION..] for their kernels on one (bench/ring_parts.py).  Wheels in KIT/wheels are used where transformers is
# missing.
set -eu
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
kit=$1; shift
build=build/release
[ "${1:-}" != -b ] || build=$2
root=$(dirname "$0")/../..
rm -rf "$kit/site" "$kit/run.sh"
mkdir -p "$kit/site/tilec/lib" "$kit/site/tilec/torch/kernels"
cp -L "$build"/libtilec.so.?.? "$kit/site/tilec/lib/libtilec.so"
cp "$build"/python/_launch.abi3.so "$kit/site/tilec/"
(cd "$root/python/tilec" && find . -name "*.py" -o -name "*.cpp" | tar cf - -T -) | tar xf - -C "$kit/site/tilec"
cp "$root"/examples/attention.tile "$root"/examples/attention_bwd.tile "$root"/examples/attention_decode.tile \
    "$root"/examples/attention_grouped.tile "$root"/examples/attention_split.tile "$root"/examples/attention_merge.tile \
    "$root"/examples/attention_fp8.tile "$root"/examples/attention_varlen.tile "$root"/examples/attention_varlen_bwd.tile \
    "$root"/examples/experts.tile \
    "$root"/examples/linear_cross_entropy.tile "$root"/examples/sampling.tile \
    "$kit/site/tilec/torch/kernels/"
cp -r "$root"/examples/quantised "$kit/site/tilec/torch/kernels/"
cp "$root"/tests/gpu/torch_*.py "$root"/tests/gpu/distributed.py "$root"/bench/ring_parts.py "$kit/"
cat >"$kit/run.sh" <<'END'
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
what=product
if [ "${1:-}" = distributed ]; then
    gpus=$2; shift 2
    # multicast over NVLink can put a host's GPUs out of service
    export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
    exec python3 -m torch.distributed.run --standalone --nproc-per-node "$gpus" "$here/distributed.py" "$@"
fi
if [ "${1:-}" = parts ]; then shift; exec python3 "$here/ring_parts.py" "$@"; fi
case "${1:-}" in models|families|states|gradients) what=$1; shift ;; sdpa) shift; exec python3 "$here/torch_sdpa.py" "$@" ;; esac
if { [ $what = models ] || [ $what = families ]; } && ! python3 -c 'import transformers' 2>/dev/null; then
    python3 -m pip install -q --no-index --no-deps --no-compile --target "$here/wheels/site" "$here"/wheels/*.whl
    PYTHONPATH="$PYTHONPATH:$here/wheels/site"
fi
exec python3 "$here/torch_$what.py" "$@"
END
chmod +x "$kit/run.sh"
du -sh "$kit"
