"""Kernels with variants: every launcher takes the form that is for the sizes at hand, and each form is right.  tilerun in the
simulator, launch.py and a generated header over the driver on it (sim_cuda.c)."""

import json
import os
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from test_examples import EXAMPLES, HERE, environment

sys.path.insert(0, os.path.join(EXAMPLES, "python"))
import launch  # noqa: E402
import tilec_torch  # noqa: E402

SM_COUNT = 3  # of the simulator
# each takes another form there
GEMM_SIZES = [(8, 64, 64), (8, 208, 64), (24, 72, 64), (8, 200, 128), (8, 408, 64), (24, 96, 128), (40, 80, 136), (56, 80, 128),
              (24, 200, 128), (24, 416, 64), (88, 72, 128), (80, 200, 64), (120, 144, 64), (88, 208, 64), (56, 88, 256), (24, 400, 136),
              (152, 136, 64), (104, 200, 64), (120, 208, 64), (208, 136, 64), (496, 64, 64), (464, 72, 64), (432, 80, 64),
              (544, 64, 64), (72, 584, 64), (136, 392, 64), (496, 64, 136), (352, 200, 64), (72, 392, 320), (136, 408, 256),
              (96, 392, 512), (184, 520, 512)]
HEADS, SEQUENCES = (1, 2, 5), (40, 136, 264, 520, 1032)


@pytest.fixture(scope="module")
def ptx(tmp_path_factory, pytestconfig):
    """The file of a program with variants, and what it says of itself."""
    if not pytestconfig.option.tilec or not pytestconfig.option.sim:
        pytest.skip("no --tilec or no --sim")

    def compiled(example, *options, arch="sm_90"):
        path = str(tmp_path_factory.mktemp("variants") / "k.ptx")
        command = [pytestconfig.option.tilec, os.path.join(EXAMPLES, example + ".tile"), "-arch", arch, "--variants=auto", *options]
        subprocess.run([*command, "-o", path], check=True)
        return path, json.loads(subprocess.run([*command, "--emit=json"], check=True, capture_output=True, text=True).stdout)

    return compiled


@pytest.fixture
def driver(pytestconfig):
    return os.path.join(pytestconfig.option.sim, "libcuda.so.1")


def bits(x):
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def wide(x):
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def of_each_form(kernel, candidates):
    """By entry: the first sizes that take it, of those with the least to do."""
    found = {}
    for sizes in candidates:
        entry = launch.chosen(kernel, {**sizes, "sm_count": SM_COUNT})["entry"]
        found.setdefault(entry, sizes)
    return found


def gemm_cases(kernel):
    return of_each_form(kernel, [dict(zip("MNK", sizes)) for sizes in sorted(GEMM_SIZES, key=np.prod)])


def attention_cases(kernel):
    sizes = [{"B": 1, "Hq": h, "Hk": 1, "Sq": q, "Sk": k} for h in HEADS for q in SEQUENCES for k in SEQUENCES if q <= k]
    return of_each_form(kernel, sorted(sizes, key=lambda s: s["Hq"] * s["Sq"] * s["Sk"]))


def attention_data(sizes, d):
    rng = np.random.default_rng(sizes["Sq"])
    b, hq, hk, sq, sk = (sizes[name] for name in ("B", "Hq", "Hk", "Sq", "Sk"))
    return {"Q": bits(rng.standard_normal((b, sq, hq, d))), "K": bits(rng.standard_normal((b, sk, hk, d))),
            "V": bits(rng.standard_normal((b, sk, hk, d)))}


def attention_error(arrays, o, causal):
    """Of the largest element that is wrong, to the largest."""
    q, k, v = (wide(arrays[name]) for name in "QKV")
    sq, sk, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, 2), np.repeat(v, group, 2)
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[3] ** -0.5
    if causal:
        s = np.where(np.arange(sk) <= np.arange(sq)[:, None] + sk - sq, s, -np.inf)
    p = np.exp(s - s.max(3, keepdims=True))
    want = np.einsum("bhqk,bkhd->bqhd", p / p.sum(3, keepdims=True), v)
    return np.abs(wide(o) - want).max() / np.abs(want).max()


def right(path, entry, sizes, causal, tmp_path, pytestconfig, *options):
    """A launch by tilerun takes the form `entry`; under two seeds it is right and without a finding."""
    arrays = attention_data(sizes, 64)
    given = []
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        given += ["--in", f"{name}={tmp_path}/{name}.npy"]
    done = subprocess.run([pytestconfig.option.tilerun, path, "--device", "sim", "--seeds", "2", "--set", "scale=0.125",
                           "--set", "softcap=0", "--out", f"O={tmp_path}/O.npy", *options, *given], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), (entry, sizes, done)
    assert done.stdout.startswith(f"{entry}: grid "), (entry, sizes, done.stdout)
    assert attention_error(arrays, np.load(tmp_path / "O.npy"), causal) < 0.02, (entry, sizes)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(ptx, tmp_path, pytestconfig, causal):
    """tilerun takes each form at its sizes."""
    path, meta = ptx("attention", "-D", "D=64", "-D", f"CAUSAL={str(causal).lower()}")
    kernel = meta["kernels"][0]
    entries = [kernel["entry"], *(variant["entry"] for variant in kernel["variants"])]
    cases = attention_cases(kernel)
    assert sorted(cases) == sorted(entries), "each form is for some sizes"
    for entry, sizes in cases.items():
        right(path, entry, sizes, causal, tmp_path, pytestconfig)


@pytest.mark.parametrize("causal", [False, True])
def test_without_groups(ptx, tmp_path, pytestconfig, causal):
    """Forms of kernels without warp groups: smaller tiles where the programs of larger ones are fewer than multiprocessors."""
    path, meta = ptx("attention", "-D", "D=64", "-D", f"CAUSAL={str(causal).lower()}", arch="sm_80")
    kernel = meta["kernels"][0]
    few, many = (launch.chosen(kernel, {"B": 1, "Hq": heads, "Hk": 1, "Sq": 2048, "Sk": 2048, "sm_count": 108,
                                        "sm_shared": 164 << 10})["constants"]["M"]
                 for heads in (1, 512))
    assert int(few) < int(many)
    for form in [kernel, *kernel["variants"]]:
        entry = form["entry"]
        forced = entry if form is not kernel else f"{entry}_v0"
        right(path, entry, {"B": 1, "Hq": 2, "Hk": 1, "Sq": 200, "Sk": 264}, causal, tmp_path, pytestconfig, "--entry", forced)


def test_forced(ptx, pytestconfig):
    """--entry takes a form whatever the sizes are."""
    path, meta = ptx("gemm")
    kernel = meta["kernels"][0]
    chosen = launch.chosen(kernel, {"M": 72, "N": 72, "K": 72, "sm_count": SM_COUNT})["entry"]
    for entry, expected in [("gemm", chosen), ("gemm_v0", "gemm"), *((v["entry"], v["entry"]) for v in kernel["variants"])]:
        done = subprocess.run([pytestconfig.option.tilerun, path, "--device", "sim", "--random", "--entry", entry, "--set", "M=72",
                               "--set", "N=72", "--set", "K=72"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith(f"{expected}: "), done


PYTHON = """
import json, sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
import launch
from test_variants import bits, gemm_cases, wide
kernel, device, rng = json.load(open(sys.argv[4]))["kernels"][0], launch.Device(), np.random.default_rng(0)
for entry, sizes in gemm_cases(kernel).items():
    m, n, k = (sizes[name] for name in "MNK")
    a, b = rng.integers(-1, 2, (m, k)), rng.integers(-1, 2, (k, n))  # bf16 has sums up to 256 exactly
    arrays = {"A": bits(a), "B": bits(b), "bias": np.zeros(n, np.float32), "C": np.zeros((m, n), np.uint16)}
    launch.launch(sys.argv[3], arrays, {}, device)
    assert np.array_equal(wide(arrays["C"]), a @ b), (entry, sizes)
    print(entry, m, n, k)
"""


def test_launch_py(ptx, driver, tmp_path):
    path, meta = ptx("gemm")
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    done = subprocess.run([sys.executable, "-c", PYTHON, HERE, os.path.join(EXAMPLES, "python"), path, str(tmp_path / "meta.json")],
                          capture_output=True, text=True, env=environment(driver, "9.0"))
    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == 1 + len(meta["kernels"][0]["variants"])


MAIN = """
#include <stdlib.h>
#include "gemm.h"

static int check(const gemm_module *module, int m, int n, int k)
{
    unsigned short *a = malloc(2u * m * k), *b = malloc(2u * k * n), *c = malloc(2u * m * n);
    gemm_args args = {{0, {m, k}, {k, 1}}, {0, {k, n}, {n, 1}}, {0, {n}, {1}}, {0, {m, n}, {n, 1}}};
    int64_t grid[3];
    gemm_call call;
    CUDA_KERNEL_NODE_PARAMS node;
    char message[200] = "";
    int wrong = 0, form = gemm_form(module, &args);

    for (int i = 0; i < m * k; i++)
        a[i] = i / k % 3 == 0 ? 0x3f80 : 0; /* rows of 1 and 0 */
    for (int i = 0; i < k * n; i++)
        b[i] = i % n % 2 == 0 ? 0xbf80 : 0;
    cuMemAlloc(&args.A.data, 2u * m * k);
    cuMemAlloc(&args.B.data, 2u * k * n);
    cuMemAlloc(&args.bias.data, 4u * n);
    cuMemAlloc(&args.C.data, 2u * m * n);
    cuMemcpyHtoD(args.A.data, a, 2u * m * k);
    cuMemcpyHtoD(args.B.data, b, 2u * k * n);
    cuMemsetD8(args.bias.data, 0, 4u * n);
    if (gemm_launch(module, &args, NULL) != CUDA_SUCCESS || cuCtxSynchronize() != CUDA_SUCCESS)
        return 0;
    cuMemcpyDtoH(c, args.C.data, 2u * m * n);
    for (int i = 0; i < m * n; i++) {
        float sum = i / n % 3 == 0 && i % n % 2 == 0 ? (float)-k : 0.0f, have;
        uint32_t word = (uint32_t)c[i] << 16;
        memcpy(&have, &word, 4);
        wrong += have != sum;
    }
    gemm_grid(module, &args, grid);
    if (gemm_pack(module, &args, &call, message, sizeof message) != CUDA_SUCCESS || call.form != form)
        return 0;
    gemm_node(&call, &node);
    if (node.gridDimX != (unsigned)grid[0] || node.func != module->kernel[form])
        return 0;
    args.A.shape[1]++;
    if (gemm_pack(module, &args, &call, message, sizeof message) == CUDA_SUCCESS ||
        gemm_launch(module, &args, NULL) == CUDA_SUCCESS)
        return 0;
    printf("%d %d %d %d: %d wrong; %s\\n", m, n, k, form, wrong, message);
    free(a), free(b), free(c);
    return 1;
}

int main(int argc, char **argv)
{
    gemm_module module;
    CUdevice device;
    CUcontext context;
    char message[200];

    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
        return 2;
    if (gemm_load(&module, NULL, message, sizeof message) != CUDA_SUCCESS)
        return puts(message), 2;
    for (int i = 1; i + 2 < argc; i += 3)
        if (!check(&module, atoi(argv[i]), atoi(argv[i + 1]), atoi(argv[i + 2])))
            return 1;
    gemm_unload(&module);
    return 0;
}
"""


def test_header(ptx, driver, tmp_path, pytestconfig):
    """The header takes the same forms as the others, for launches, packed calls and nodes of graphs."""
    _, meta = ptx("gemm")
    kernel = meta["kernels"][0]
    cases = gemm_cases(kernel)
    assert len(cases) == 1 + len(kernel["variants"])
    (tmp_path / "main.c").write_text(MAIN)
    subprocess.run([pytestconfig.option.tilec, os.path.join(EXAMPLES, "gemm.tile"), "-arch", "sm_90", "--variants=auto",
                    "--emit=header", "--header-ptx", "-o", str(tmp_path / "gemm.h")], check=True)
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", str(tmp_path), "-I", os.path.join(HERE, "include"),
                    str(tmp_path / "main.c"), driver, "-o", str(tmp_path / "main")], check=True)
    numbers = [str(sizes[name]) for sizes in cases.values() for name in "MNK"]
    done = subprocess.run([str(tmp_path / "main"), *numbers], capture_output=True, text=True, env=environment(driver, "9.0"))
    entries = [kernel["entry"], *(variant["entry"] for variant in kernel["variants"])]
    want = [f"{s['M']} {s['N']} {s['K']} {entries.index(entry)}: 0 wrong; dimension 0 of B is {s['K']}, but K is {s['K'] + 1}"
            for entry, s in cases.items()]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, want, "")


def test_long_metadata(ptx, pytestconfig, tmp_path):
    """What a file says of itself lies in global memory where a GPU has not as many constants."""
    path, meta = ptx("attention_bwd", "-D", "D=64", "-D", "CAUSAL=true")
    declared = re.search(r"^\.visible \.(\w+) \.align 8 \.b8 tilec_metadata\[(\d+)\]", open(path).read(), re.M)
    assert declared[1] == "global" and int(declared[2]) > 65536
    assert [kernel["name"] for kernel in meta["kernels"]][-1] == "attention_bwd_combine"
    rng = np.random.default_rng(5)
    parts = {name: rng.standard_normal((1, 9, 6, 64)).astype(np.float32) for name in ("dK_part", "dV_part")}
    command = [pytestconfig.option.tilerun, path, "--device", "sim", "--entry", "attention_bwd_combine", "--set", "scale=0.5", "--set", "Hk=2"]
    for name, x in parts.items():
        np.save(tmp_path / f"{name}.npy", x)
        command += ["--in", f"{name}={tmp_path / name}.npy"]
    subprocess.run([*command, "--out", f"dK={tmp_path}/dK.npy", "--out", f"dV={tmp_path}/dV.npy"], check=True)
    for name, scale in (("dK", 0.5), ("dV", 1.0)):
        want = parts[name + "_part"].reshape(1, 9, 2, 3, 64).sum(axis=3) * scale
        assert np.abs(wide(np.load(tmp_path / f"{name}.npy")) - want).max() < 0.02


def test_backward_parts(ptx):
    """tilec_torch.py: programs share the query heads of a key head where there are few of them."""
    path, _ = ptx("attention_bwd", "-D", "CAUSAL=true")
    module = tilec_torch.load(path)
    module.device_facts[0] = {"sm_count": 132, "sm_shared": 228 << 10}

    def tensor(*shape):
        return types.SimpleNamespace(shape=shape, dim=lambda: len(shape), numel=lambda: int(np.prod(shape)),
                                     device=types.SimpleNamespace(index=0))
    for b, sq, sk, hq, hk, deterministic, least, wanted in (
            (1, 11501, 11501, 8, 1, False, 1, 8), (1, 4096, 4096, 64, 8, False, 1, 2), (1, 6464, 1856, 16, 2, True, 1, 8), (2, 8192, 8192, 64, 8, False, 1, 1),
            (64, 4096, 4096, 8, 1, False, 1, 1), (1, 300, 300, 8, 8, False, 1, 1), (4, 4096, 4096, 64, 8, False, 2, 2)):
        parts = tilec_torch.backward_parts(tensor(b, sq, hq, 128), tensor(b, sk, hk, 128), module, deterministic, least)
        assert parts == wanted, (b, sq, sk, hq, hk, deterministic, least, parts)
