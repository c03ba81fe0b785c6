#!/usr/bin/env python3
"""recipes.py - "Check my kernel" of docs/simulator.md, with pinned packages: how PTX comes out of each compiler, and that simrun takes it.

    recipes.py SIMRUN [--folder F] [nvcc] [triton] [cutedsl] [cutile]

Installs into a virtual environment in the folder (some GB; --folder keeps it), and needs no GPU; not part of CI.  Each kernel adds 1 to
128 numbers.  It must be right under 8 seeds, and end with status 3 where its output's buffer is too short.  nvcc is the one in PATH.
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

import numpy as np

PACKAGES = {"triton": ["triton==3.9.0"], "cutedsl": ["nvidia-cutlass-dsl==4.8.1"], "cutile": ["cuda-tile[tileiras]==1.7.0"]}
FILES = {"nvcc": ("k.cu", """
extern "C" __global__ void add(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] + 1.0f;
}
"""), "triton": ("k.py", """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(X, Y, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i, mask=i < n) + 1.0, mask=i < n)


source = ASTSource(add, {"X": "*fp32", "Y": "*fp32", "n": "i32", "N": "constexpr"}, {"N": 128})
open("k.ptx", "w").write(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"])
"""), "cutedsl": ("k.py", """
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_ptr


@cute.kernel
def add(x: cute.Tensor, y: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    y[t] = x[t] + 1.0


@cute.jit
def launch(x: cute.Pointer, y: cute.Pointer):
    layout = cute.make_layout(128)
    add(cute.make_tensor(x, layout), cute.make_tensor(y, layout)).launch(grid=[1, 1, 1], block=[128, 1, 1])


p = make_ptr(cutlass.Float32, 0, cute.AddressSpace.gmem, assumed_align=16)
cute.compile(launch, p, p)
"""), "cutile": ("k.py", """
import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel


@ct.kernel
def add(x, y):
    i = ct.bid(0)
    ct.store(y, index=(i,), tile=ct.load(x, index=(i,), shape=(128,)) + 1.0)


def array():
    return ArrayConstraint(ct.float32, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], may_alias_internally=False,
                           stride_constant=[1])


signature = KernelSignature([array(), array()], CallingConvention.cutile_python_v1(), "add")
export_kernel(add, [signature], "kernel.cubin", gpu_code="sm_90", output_format="cubin")
""")}
COMMANDS = {"nvcc": "nvcc -ptx -arch=sm_90a -lineinfo k.cu", "triton": "python k.py",
            "cutedsl": "CUTE_DSL_ARCH=sm_90a CUTE_DSL_KEEP=ptx CUTE_DSL_DUMP_DIR=. python k.py",
            "cutile": r"python k.py && tr '\0' '\n' < kernel.cubin | LC_ALL=C sed -n '/^\.version /,/^}$/p' > kernel.ptx"}
# behind the PTX, with the bytes of the output
ARGUMENTS = {"nvcc": "--block 128 in:x.bin out:y.bin:{0} s32:128", "triton": "--block 128 in:x.bin out:y.bin:{0} s32:128 null null",
             "cutedsl": "--block 128 in:x.bin out:y.bin:{0}", "cutile": "in:x.bin s32:128 s32:1 out:y.bin:{0} s32:128 s32:1"}


def recipe(simrun, name, folder):
    """What is wrong, or None."""
    os.makedirs(folder, exist_ok=True)
    environment = {**os.environ, "HOME": folder}
    if name in PACKAGES:
        subprocess.run([sys.executable, "-m", "venv", "venv"], cwd=folder, check=True)
        subprocess.run(["venv/bin/pip", "install", "-q", "numpy", *PACKAGES[name]], cwd=folder, check=True)
        environment["PATH"] = os.path.join(folder, "venv", "bin") + ":" + environment["PATH"]
    with open(os.path.join(folder, FILES[name][0]), "w", encoding="utf-8") as file:
        file.write(FILES[name][1])
    for path in glob.glob(os.path.join(folder, "*.ptx")):
        os.remove(path)
    done = subprocess.run(COMMANDS[name], shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    made = glob.glob(os.path.join(folder, "*.ptx"))
    if done.returncode or len(made) != 1:
        return f"{len(made)} files of PTX: {done.stdout[-500:]}{done.stderr[-500:]}"
    np.arange(128, dtype=np.float32).tofile(os.path.join(folder, "x.bin"))
    for size, status in (("512", 0), ("508", 3)):
        done = subprocess.run([simrun, *made, "--seeds", "8", *ARGUMENTS[name].format(size).split()], cwd=folder, capture_output=True, text=True)
        if done.returncode != status or (status and "out-of-bounds" not in done.stdout):
            return f"{size} bytes: status {done.returncode}, expected {status}: {done.stdout}{done.stderr}"
        if not status and not (np.fromfile(os.path.join(folder, "y.bin"), np.float32) == np.arange(128) + 1).all():
            return "wrong numbers"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("simrun")
    parser.add_argument("--folder")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.names or FILES:
            wrong = recipe(os.path.abspath(args.simrun), name, os.path.join(os.path.abspath(args.folder or scratch), name))
            print(f"{name}: {wrong or 'as the page says'}", flush=True)
            bad += wrong is not None
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
