#!/usr/bin/env python3
"""bits_kernels.py - other compilers' kernels with their inputs, for `bits.py all --kernels FOLDER`.

    PYTHON bits_kernels.py FOLDER triton|nvcc|cutile..

PYTHON is one that has the compiler (triton==3.9.0, cuda-tile[tileiras]==1.7.0); nvcc is the one in PATH.  No GPU is needed; not part of CI.
Each launch is a file of JSON beside the PTX: arguments and outputs of tilerun, where `@` is the folder and `{}` says who made an output.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>
#include <cub/cub.cuh>
using namespace nvcuda;

template <class T, class S> __device__ void product(const T *a, const T *b, S *c, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, S> sum;
    wmma::fill_fragment(sum, S(0));
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(x, a + blockIdx.x * 16 * k + i, k);
        wmma::load_matrix_sync(y, b + i * n + blockIdx.y * 16, n);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c + blockIdx.x * 16 * n + blockIdx.y * 16, sum, n, wmma::mem_row_major);
}
extern "C" __global__ void wmma_f16(const half *a, const half *b, float *c, int n, int k) { product(a, b, c, n, k); }
extern "C" __global__ void wmma_f16_f16(const half *a, const half *b, half *c, int n, int k) { product(a, b, c, n, k); }
extern "C" __global__ void wmma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int n, int k) { product(a, b, c, n, k); }
extern "C" __global__ void wmma_s8(const signed char *a, const signed char *b, int *c, int n, int k) { product(a, b, c, n, k); }

extern "C" __global__ void block_sum(const float *x, float *y)
{
    __shared__ cub::BlockReduce<float, 256>::TempStorage s;
    float v = cub::BlockReduce<float, 256>(s).Sum(x[blockIdx.x * 256 + threadIdx.x]);
    if (threadIdx.x == 0)
        y[blockIdx.x] = v;
}
extern "C" __global__ void block_scan(const float *x, float *y)
{
    __shared__ cub::BlockScan<float, 256>::TempStorage s;
    float v;
    cub::BlockScan<float, 256>(s).InclusiveSum(x[blockIdx.x * 256 + threadIdx.x], v);
    y[blockIdx.x * 256 + threadIdx.x] = v;
}
extern "C" __global__ void block_sort(const int *x, int *y)
{
    __shared__ cub::BlockRadixSort<int, 128, 4>::TempStorage s;
    int k[4];
    for (int i = 0; i < 4; i++)
        k[i] = x[blockIdx.x * 512 + threadIdx.x * 4 + i];
    cub::BlockRadixSort<int, 128, 4>(s).Sort(k);
    for (int i = 0; i < 4; i++)
        y[blockIdx.x * 512 + threadIdx.x * 4 + i] = k[i];
}
extern "C" __global__ void histogram(const unsigned *x, int *y)
{
    __shared__ int bins[64];
    if (threadIdx.x < 64)
        bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 256)
        atomicAdd(&bins[x[blockIdx.x * 1024 + i] % 64], 1);
    __syncthreads();
    if (threadIdx.x < 64)
        y[blockIdx.x * 64 + threadIdx.x] = bins[threadIdx.x];
}
extern "C" __global__ void normalize(const float *x, float *y)
{
    __shared__ float part[8];
    float v = x[blockIdx.x * 256 + threadIdx.x], s = v * v;
    for (int d = 16; d; d /= 2)
        s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0;
    for (int i = 0; i < 8; i++)
        s += part[i];
    y[blockIdx.x * 256 + threadIdx.x] = v / sqrtf(s / 256 + 1e-5f);
}
extern "C" __global__ void narrow(const float *x, half *h, __nv_bfloat16 *b, unsigned char *e, unsigned char *f)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    h[i] = __float2half_rn(x[i]);
    b[i] = __float2bfloat16_rn(x[i]);
    e[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E4M3);
    f[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E5M2);
}
extern "C" __global__ void integers(const int *x, const int *y, int *z)
{
    int i = blockIdx.x * 256 + threadIdx.x, a = x[i], b = y[i] | 1;
    z[4 * i] = a / b;
    z[4 * i + 1] = a % b + __mulhi(a, b);
    z[4 * i + 2] = __popc(a) + __clz(b) * 64 + (__ffs(a) << 16);
    z[4 * i + 3] = __funnelshift_l(a, b, a & 31) ^ __byte_perm(a, b, 0x5410) ^ __sad(a, b, 7);
}
extern "C" __global__ void polynomial(const double *x, double *y)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    double v = x[i], s = 1;
    for (int k = 12; k; k--)
        s = s * v / k + 1;
    y[i] = s;
}
extern "C" __global__ void functions(const float *x, float *y)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    y[3 * i] = erff(x[i]);
    y[3 * i + 1] = cbrtf(x[i]);
    y[3 * i + 2] = fmodf(x[i], 0.3f) + rintf(x[i] * 7);
}
extern "C" __global__ void softmax(const float *x, float *y)
{
    __shared__ cub::BlockReduce<float, 256>::TempStorage s;
    __shared__ float all;
    float v = expf(x[blockIdx.x * 256 + threadIdx.x]), t = cub::BlockReduce<float, 256>(s).Sum(v);
    if (threadIdx.x == 0)
        all = t;
    __syncthreads();
    y[blockIdx.x * 256 + threadIdx.x] = v / all;
}
"""


class Folder:
    def __init__(self, path):
        self.path = path
        os.makedirs(path, exist_ok=True)

    def text(self, ptx):
        # a driver for CUDA 13.0 takes no later version; what is new since none of these kernels has
        ptx = re.sub(r"^\.version 9\.[1-9]", ".version 9.0", ptx, flags=re.M)
        ptx = re.sub(r"^\.language .*\n", "", ptx, flags=re.M)
        name = hashlib.sha256(ptx.encode()).hexdigest()[:12] + ".ptx"
        with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
            file.write(ptx)
        return name

    def launch(self, compiler, name, ptx, entry, grid, block, smem, arguments):
        """Arguments: an array that is read; ("out", type, shape); ("inout", array); text that tilerun takes."""
        words, outputs = ["--entry", entry, "--grid", ",".join(map(str, grid)), "--block", str(block), "--smem", str(smem)], {}
        safe = re.sub(r"\W+", "-", f"{compiler}-{name}")
        for at, value in enumerate(arguments):
            if isinstance(value, np.ndarray):
                path = f"{safe}-{at}.npy"
                np.save(os.path.join(self.path, path), value)
                word = f"in=@/{path}"
            elif isinstance(value, tuple):
                outputs[f"out{at}"] = f"{{}}{at}.npy"
                word = f"out={{}}{at}.npy:{value[1]}:{','.join(map(str, value[2]))}"
            else:
                word = value
            words += ["--arg", word]
        outputs = {key: path.replace("{}", "{}-") for key, path in outputs.items()}
        words = [w.replace("out={}", "out={}-") for w in words]
        with open(os.path.join(self.path, safe + ".json"), "w", encoding="utf-8") as file:
            json.dump({"name": name, "compiler": compiler, "ptx": self.text(ptx), "arguments": words, "outputs": outputs}, file, indent=1)
        print(f"{compiler} {name}")


def bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def numbers(kind, shape, seed):
    r = np.random.default_rng(seed)
    if kind in ("i8", "i32"):
        return r.integers(-128, 128, shape).astype({"i8": np.int8, "i32": np.int32}[kind])
    if kind in ("e4m3", "e5m2"):  # no NaNs, no infinities, nothing huge
        return (r.integers(0, 0x50, shape) | r.integers(0, 2, shape) << 7).astype(np.uint8)
    x = r.standard_normal(shape)
    return bf16(x) if kind == "bf16" else x.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind])


def nvcc(folder):
    with tempfile.TemporaryDirectory() as at:
        with open(f"{at}/k.cu", "w", encoding="utf-8") as file:
            file.write(CUDA)
        subprocess.run(["nvcc", "-ptx", "-arch=sm_90a", f"{at}/k.cu", "-o", f"{at}/k.ptx"], check=True)
        with open(f"{at}/k.ptx", encoding="utf-8") as file:
            ptx = file.read()
    head = ptx[:re.search(r"^(\t?//|\.visible|\.entry)?.*\.visible \.entry", ptx, re.M).start()]
    kernels = {m.group(2): m.group(1) for m in re.finditer(r"(^\.visible \.entry (\w+)\(.*?^\})", ptx, re.M | re.S)}
    version = re.match(r".*?^\.version[^\n]*\n\.target[^\n]*\n\.address_size[^\n]*\n", head, re.M | re.S).group(0)
    shared = re.findall(r"^// _ZZ\w+ has been demoted.*$", ptx, re.M)
    assert kernels and shared is not None

    def add(name, grid, block, *arguments):
        folder.launch("nvcc", f"{name}-{grid[0]}", version + kernels[name] + "\n", name, grid, block, 0, arguments)
    for m, n, k in ((32, 48, 64), (64, 32, 400)):
        for name, kind, result in (("wmma_f16", "f16", "f32"), ("wmma_f16_f16", "f16", "f16"), ("wmma_bf16", "bf16", "f32"), ("wmma_s8", "i8", "i32")):
            add(name, (m // 16, n // 16), 32, numbers(kind, (m, k), m), numbers(kind, (k, n), n), ("out", result, (m, n)), f"i32={n}", f"i32={k}")
    for blocks in (3, 7):
        x, wide = numbers("f32", (blocks, 256), blocks), np.random.default_rng(blocks).integers(-2**31, 2**31, (2, blocks, 512)).astype(np.int32)
        add("block_sum", (blocks,), 256, x, ("out", "f32", (blocks,)))
        add("block_scan", (blocks,), 256, x, ("out", "f32", (blocks, 256)))
        add("block_sort", (blocks,), 128, wide[0], ("out", "i32", (blocks, 512)))
        add("histogram", (blocks,), 256, np.concatenate([wide[0], wide[1]], axis=1), ("out", "i32", (blocks, 64)))
        add("normalize", (blocks,), 256, x, ("out", "f32", (blocks, 256)))
        odd = (x.astype(np.float64) * np.exp2(np.random.default_rng(1).integers(-30, 20, x.shape))).astype(np.float32)
        add("narrow", (blocks,), 256, odd, *(("out", t, (blocks, 256)) for t in ("f16", "bf16", "u8", "u8")))
        add("integers", (blocks,), 256, wide[0], wide[1], ("out", "i32", (blocks, 1024)))
        add("polynomial", (blocks,), 256, numbers("f64", (blocks, 256), 3).view(np.uint32), ("out", "u32", (blocks, 512)))
        add("functions", (blocks,), 256, odd, ("out", "f32", (blocks, 768)))
        add("softmax", (blocks,), 256, x, ("out", "f32", (blocks, 256)))


TRITON = r"""
import triton
import triton.language as tl


@triton.jit
def gemm(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    s = tl.zeros((BM, BN), SUM)
    for i in range(0, K, BK):
        k = i + tl.arange(0, BK)
        a = tl.load(A + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=ZERO)
        b = tl.load(B + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=ZERO)
        s = tl.dot(a, b, s, out_dtype=SUM)
    tl.store(C + m[:, None] * N + n[None, :], s, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def gemm_right_transposed(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    s = tl.zeros((BM, BN), SUM)
    for i in range(0, K, BK):
        k = i + tl.arange(0, BK)
        a = tl.load(A + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=ZERO)
        b = tl.load(B + n[:, None] * K + k[None, :], mask=(n < N)[:, None] & (k < K)[None, :], other=ZERO)
        s = tl.dot(a, b.T, s, out_dtype=SUM)
    tl.store(C + m[:, None] * N + n[None, :], s, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def rows(X, S, MOST, AT, SCAN, N, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + r * N + i, mask=i < N, other=-1e30)
    y = tl.where(i < N, x, 0.0)
    tl.store(S + r, tl.sum(y, 0))
    tl.store(MOST + r, tl.max(x, 0))
    tl.store(AT + r, tl.argmax(x, 0))
    tl.store(SCAN + r * N + i, tl.cumsum(y, 0), mask=i < N)


@triton.jit
def order(X, Y, H, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + r * B + i)
    tl.store(Y + r * B + i, tl.sort(x))
    tl.store(H + r * 64 + tl.arange(0, 64), tl.histogram(x & 63, 64))


@triton.jit
def casts(X, H, B16, F, I, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < N)
    tl.store(H + i, x.to(tl.float16), mask=i < N)
    tl.store(B16 + i, x.to(tl.bfloat16), mask=i < N)
    tl.store(F + i, x.to(tl.float8e4nv).to(tl.uint8, bitcast=True), mask=i < N)
    tl.store(I + i, x.to(tl.int32), mask=i < N)


@triton.jit
def norm(X, W, Y, N, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + r * N + i, mask=i < N, other=0).to(tl.float32)
    mean = tl.math.div_rn(tl.sum(x, 0), N.to(tl.float32))
    d = tl.where(i < N, x - mean, 0.0)
    v = tl.math.div_rn(tl.sum(d * d, 0), N.to(tl.float32))
    y = tl.math.div_rn(d, tl.math.sqrt_rn(v + 1e-5)) * tl.load(W + i, mask=i < N, other=0).to(tl.float32)
    tl.store(Y + r * N + i, y, mask=i < N)


@triton.jit
def draw(Y, seed, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y + i, tl.rand(seed, i), mask=i < N)


@triton.jit
def integers(X, Y, Z, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < N, other=1)
    y = tl.load(Y + i, mask=i < N, other=1) | 1
    tl.store(Z + i, (x // y) ^ (x % y) ^ tl.umulhi(x, y) ^ (x << (y & 31)) ^ (x >> (y & 31)), mask=i < N)


@triton.jit
def softmax(X, Y, N, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + r * N + i, mask=i < N, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(Y + r * N + i, e / tl.sum(e, 0), mask=i < N)
"""


def triton(folder):
    import importlib.util
    import triton as compiler
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    at = tempfile.mkdtemp()
    loaded = {}

    def module(total):
        if total not in loaded:
            with open(f"{at}/k_{total}.py", "w", encoding="utf-8") as file:
                file.write(TRITON.replace("SUM", f"tl.{total}").replace("ZERO", "0" if total == "int32" else "0.0"))
            spec = importlib.util.spec_from_file_location(f"k_{total}", f"{at}/k_{total}.py")
            loaded[total] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded[total])
        return loaded[total]

    def add(name, kernel, types, constants, grid, arguments, total="float32", **options):
        function = getattr(module(total), kernel)
        signature = {n: types.get(n, "constexpr") for n in function.arg_names}
        made = compiler.compile(ASTSource(function, signature, constants), target=GPUTarget("cuda", 90, 32), options=options)
        ptx = made.asm["ptx"]
        facts = made.metadata
        block = re.search(r"\.reqntid (\d+)", ptx).group(1)
        folder.launch(f"Triton {compiler.__version__}", name, ptx, facts.name, grid, block, facts.shared, [*arguments, "scratch:65536", "null"])
    pointer = {"f16": "*fp16", "bf16": "*bf16", "f32": "*fp32", "i8": "*i8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "i32": "*i32", "u32": "*u32"}
    for kind in ("f16", "bf16", "f32", "i8", "e4m3", "e5m2"):
        for which, (kernel, (m, n, k), (bm, bn, bk), warps) in enumerate((
                ("gemm", (128, 64, 96), (64, 64, 32), 4), ("gemm", (130, 72, 200), (128, 64, 64), 4), ("gemm_right_transposed", (128, 128, 192), (128, 128, 64), 8),
                ("gemm_right_transposed", (70, 40, 100), (64, 32, 32), 4), ("gemm_right_transposed", (16, 24, 64), (16, 32, 32), 4))):
            if kind == "i8" and kernel == "gemm":
                continue
            if kind in ("e4m3", "e5m2") and kernel == "gemm" and which == 1:
                continue
            total, result = ("int32", "i32") if kind == "i8" else ("float32", "f32")
            b = (k, n) if kernel == "gemm" else (n, k)
            add(f"{kernel}-{kind}-{m}x{n}x{k}-{bm}x{bn}x{bk}", kernel,
                {"A": pointer[kind], "B": pointer[kind], "C": pointer[result], "M": "i32", "N": "i32", "K": "i32"}, {"BM": bm, "BN": bn, "BK": bk},
                (-(-m // bm), -(-n // bn), 1), [numbers(kind, (m, k), m + which), numbers(kind, b, n + which), ("out", result, (m, n)), f"i32={m}", f"i32={n}", f"i32={k}"],
                total, num_warps=warps, num_stages=2 if kind == "f32" else 2 + which % 3)
    for n, size, r in ((200, 256, 5), (1000, 1024, 3)):
        x = numbers("f32", (r, n), n)
        add(f"rows-{n}", "rows", {"X": "*fp32", "S": "*fp32", "MOST": "*fp32", "AT": "*i32", "SCAN": "*fp32", "N": "i32"}, {"B": size}, (r, 1, 1),
            [x, ("out", "f32", (r,)), ("out", "f32", (r,)), ("out", "i32", (r,)), ("out", "f32", (r, n)), f"i32={n}"])
        wide = np.random.default_rng(n).integers(-2**31, 2**31, (2, r, size)).astype(np.int32)
        add(f"order-{size}", "order", {"X": "*i32", "Y": "*i32", "H": "*i32"}, {"B": size}, (r, 1, 1), [wide[0], ("out", "i32", (r, size)), ("out", "i32", (r, 64))])
        odd = (x.astype(np.float64) * np.exp2(np.random.default_rng(1).integers(-30, 10, x.shape))).astype(np.float32)
        add(f"casts-{n}", "casts", {"X": "*fp32", "H": "*fp16", "B16": "*bf16", "F": "*u8", "I": "*i32", "N": "i32"}, {"B": 256}, (-(-r * n // 256), 1, 1),
            [odd, *(("out", t, (r, n)) for t in ("f16", "bf16", "u8", "i32")), f"i32={r * n}"])
        for kind in ("f32", "bf16"):
            add(f"norm-{kind}-{n}", "norm", {"X": pointer[kind], "W": pointer[kind], "Y": pointer[kind], "N": "i32"}, {"B": size}, (r, 1, 1),
                [numbers(kind, (r, n), n), numbers(kind, (n,), 7), ("out", kind, (r, n)), f"i32={n}"])
        add(f"draw-{n}", "draw", {"Y": "*fp32", "seed": "i32", "N": "i32"}, {"B": 256}, (-(-n // 256), 1, 1), [("out", "f32", (n,)), "i32=77", f"i32={n}"])
        add(f"integers-{n}", "integers", {"X": "*u32", "Y": "*u32", "Z": "*u32", "N": "i32"}, {"B": 256}, (-(-r * size // 256), 1, 1),
            [wide[0].view(np.uint32), wide[1].view(np.uint32), ("out", "u32", (r, size)), f"i32={r * size}"])
        add(f"softmax-{n}", "softmax", {"X": "*fp32", "Y": "*fp32", "N": "i32"}, {"B": size}, (r, 1, 1), [x, ("out", "f32", (r, n)), f"i32={n}"])


def cutile(folder):
    import cuda.tile as ct
    from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel
    at = tempfile.mkdtemp()
    with open(f"{at}/k.py", "w", encoding="utf-8") as file:
        file.write('''
import cuda.tile as ct


@ct.kernel
def gemm(a, b, c):
    m, n = ct.bid(0), ct.bid(1)
    s = ct.full((64, 64), 0, SUM)
    for k in range(ct.num_tiles(a, axis=1, shape=(64, 32))):
        x = ct.load(a, index=(m, k), shape=(64, 32), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, n), shape=(32, 64), padding_mode=ct.PaddingMode.ZERO)
        s = ct.mma(x, y, s)
    ct.store(c, index=(m, n), tile=s)


@ct.kernel
def rows(x, y, z):
    i = ct.bid(0)
    t = ct.load(x, index=(i, 0), shape=(1, 256), padding_mode=ct.PaddingMode.ZERO)
    ct.store(y, index=(i, 0), tile=ct.sum(t, axis=1, keepdims=True))
    ct.store(z, index=(i, 0), tile=ct.cumsum(t, axis=1))


@ct.kernel
def scaled(x, y, z):
    i = ct.bid(0)
    t = ct.load(x, index=(i, 0), shape=(4, 128), padding_mode=ct.PaddingMode.ZERO)
    u = ct.load(y, index=(i, 0), shape=(4, 128), padding_mode=ct.PaddingMode.ZERO)
    ct.store(z, index=(i, 0), tile=ct.astype(t * 0.5 + u * t, ct.bfloat16))
''')
    sys.path.insert(0, at)

    def array(dtype):
        return ArrayConstraint(dtype, 2, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[], may_alias_internally=False,
                               stride_constant=[None, 1])

    def add(name, kernel, total, types, grid, arrays):
        import importlib
        module = f"k_{total}"
        with open(f"{at}/k.py", encoding="utf-8") as file:
            text = file.read().replace("SUM", f"ct.{total}")
        with open(f"{at}/{module}.py", "w", encoding="utf-8") as file:
            file.write(text)
        function = getattr(importlib.import_module(module), kernel)
        signature = KernelSignature([array(t) for t in types], CallingConvention.cutile_python_v1(), kernel)
        export_kernel(function, [signature], f"{at}/{name}.cubin", gpu_code="sm_90", output_format="cubin")
        with open(f"{at}/{name}.cubin", "rb") as file:
            lines = file.read().replace(b"\0", b"\n").split(b"\n")
        first = next(i for i, line in enumerate(lines) if line.startswith(b".version "))
        depth = np.cumsum([line.count(b"{") - line.count(b"}") for line in lines[first:]])
        last = first + next(i for i in range(1, len(depth)) if depth[i] == 0 and depth[:i].any() and lines[first + i].strip() == b"}")
        ptx = b"\n".join(lines[first:last + 1]).decode() + "\n"
        words = []
        for value, shape in arrays:
            words += [value, f"i32={shape[0]}", f"i32={shape[1]}", f"i32={shape[1]}", "i32=1"][:1 + ARRAY_WORDS]
        block = re.search(r"\.(?:reqntid|maxntid) (\d+)", ptx).group(1)
        folder.launch("cuTile", name, ptx, re.search(r"\.entry (\w+)", ptx).group(1), grid, block, 0, words)
    made = {"f16": ct.float16, "bf16": ct.bfloat16, "f32": ct.float32, "i8": ct.int8, "e4m3": ct.float8_e4m3fn, "i32": ct.int32}
    for kind, total, result in (("f16", "float32", "f32"), ("bf16", "float32", "f32"), ("i8", "int32", "i32"), ("e4m3", "float32", "f32")):
        for m, n, k in ((64, 64, 64), (128, 192, 320), (100, 80, 208)):
            add(f"gemm-{kind}-{m}x{n}x{k}", "gemm", total, [made[kind], made[kind], made[result]], (-(-m // 64), -(-n // 64), 1),
                [(numbers(kind, (m, k), m), (m, k)), (numbers(kind, (k, n), n), (k, n)), (("out", result, (m, n)), (m, n))])
    for n in (256, 200):
        add(f"rows-{n}", "rows", "float32", [ct.float32] * 3, (5, 1, 1),
            [(numbers("f32", (5, n), n), (5, n)), (("out", "f32", (5, 1)), (5, 1)), (("out", "f32", (5, n)), (5, n))])
    for n in (128, 100):
        add(f"scaled-{n}", "scaled", "float32", [ct.float32, ct.float32, ct.bfloat16], (3, 1, 1),
            [(numbers("f32", (12, n), n), (12, n)), (numbers("f32", (12, n), n + 1), (12, n)), (("out", "bf16", (12, n)), (12, n))])


ARRAY_WORDS = 4  # of cuTile: extents, then strides


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for which in sys.argv[2:]:
        globals()[which](Folder(sys.argv[1]))
