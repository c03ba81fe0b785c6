"""examples/host_*, examples/serving and examples/python/launch.py with a driver over the simulator (sim_cuda.c): built
as their users build them, run as they are, for targets with and without warp groups."""

import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "run"))
import parameters  # noqa: E402
EXAMPLES = os.path.join(HERE, "..", "..", "..", "examples")
ARCHES = [("sm_80", "8.0"), ("sm_90", "9.0"), ("sm_90", "9.0 with seed 7")]
BOTH = [("sm_80", "8.0"), ("sm_80,sm_90", "9.0")]  # a header with code for both


@pytest.fixture
def driver(pytestconfig):
    if not pytestconfig.option.sim or not pytestconfig.option.tilec:
        pytest.skip("no --sim or no --tilec")
    return os.path.join(pytestconfig.option.sim, "libcuda.so.1")


def environment(driver, capability):
    given = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(driver), SIM_CUDA_CAPABILITY=capability.partition(" ")[0])
    if "seed" in capability:
        given["SIM_CUDA_SEED"] = capability.split()[-1]
    return given


def copied(tmp_path, driver, folder, kernel):
    """A folder of examples/, beside a CUDA Toolkit of what its build asks for."""
    stubs = tmp_path / "cuda" / "lib64" / "stubs"
    stubs.mkdir(parents=True)
    (tmp_path / "cuda" / "include").symlink_to(os.path.join(HERE, "include"))
    (stubs / "libcuda.so").symlink_to(driver)
    shutil.copytree(os.path.join(EXAMPLES, folder), tmp_path / folder)
    shutil.copy(os.path.join(EXAMPLES, kernel), tmp_path)


def made(tmp_path, pytestconfig, driver, folder, kernel, arch):
    """The same, built as its users build it."""
    copied(tmp_path, driver, folder, kernel)
    subprocess.run(["make", "-s", "-C", str(tmp_path / folder), "TILEC=" + os.path.abspath(pytestconfig.option.tilec),
                    "ARCH=" + arch, f"CUDA={tmp_path}/cuda"], check=True)
    return tmp_path / folder


@pytest.mark.parametrize("arch, capability", ARCHES)
def test_serving(driver, tmp_path, pytestconfig, arch, capability):
    folder = made(tmp_path, pytestconfig, driver, "serving", "attention_decode.tile", arch)
    done = subprocess.run([str(folder / "serving")], capture_output=True, text=True, env=environment(driver, capability))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 tokens behind 150, one graph: largest error 0.00" in done.stdout and done.stderr == ""


def right(program, driver, capability):
    done = subprocess.run([program], capture_output=True, text=True, env=environment(driver, capability))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 tokens, 2 heads: largest error 0.00" in done.stdout
    assert "dimension 1 of V is 200, but Sk is 199" in done.stdout and done.stderr == ""


@pytest.mark.parametrize("arch, capability", BOTH)
def test_host_cpp(driver, tmp_path, pytestconfig, arch, capability):
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler")
    folder = made(tmp_path, pytestconfig, driver, "host_cpp", "attention.tile", arch)
    right(str(folder / "host_cpp"), driver, capability)


@pytest.mark.parametrize("arch, capability", BOTH[1:])
def test_host_rust(driver, tmp_path, pytestconfig, arch, capability):
    if not shutil.which("cargo"):
        pytest.skip("no cargo")
    copied(tmp_path, driver, "host_rust", "attention.tile")
    env = dict(os.environ, TILEC=os.path.abspath(pytestconfig.option.tilec), ARCH=arch, CUDA=f"{tmp_path}/cuda")
    subprocess.run(["cargo", "build", "-q", "--offline"], check=True, cwd=tmp_path / "host_rust", env=env)
    right(str(tmp_path / "host_rust" / "target" / "debug" / "host_rust"), driver, capability)


@pytest.mark.parametrize("arch, capability", [*ARCHES[1:2], *BOTH])
def test_host_go(driver, tmp_path, pytestconfig, monkeypatch, arch, capability):
    if not shutil.which("go"):
        assert not os.environ.get("TILEC_MUST_GO"), "no go"  # .ci/run: .ci/prepare installs it
        pytest.skip("no go")
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    monkeypatch.setenv("GOPROXY", "off")
    folder = made(tmp_path, pytestconfig, driver, "host_go", "attention.tile", arch)
    right(str(folder / "host_go"), driver, capability)


@pytest.mark.parametrize("arch, capability", ARCHES)
def test_host_c(driver, tmp_path, pytestconfig, arch, capability):
    made(tmp_path, pytestconfig, driver, "host_c", "attention.tile", arch)
    header = (tmp_path / "host_c" / "attention.h").read_text()
    assert ("tilec_make_map(&map[2]" in header) == (arch == "sm_90")
    assert ("ATTENTION_HAS_SCRATCH_TILE_COUNTER" in header) == (arch == "sm_90")
    done = subprocess.run([str(tmp_path / "host_c" / "host_c")], capture_output=True, text=True,
                          env=environment(driver, capability))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 tokens, 4 heads: largest error 0.00" in done.stdout and done.stderr == ""


@pytest.mark.parametrize("capability", ["8.0", "9.0"])
def test_host_c_compile(driver, tmp_path, pytestconfig, capability):
    """A kernel that libtilec compiles while the program runs."""
    if not pytestconfig.option.library:
        pytest.skip("no --library")
    copied(tmp_path, driver, "host_c", "attention.tile")
    (tmp_path / "compiler").symlink_to(os.path.join(EXAMPLES, "..", "compiler"))
    folder = tmp_path / "examples" / "host_c"
    folder.parent.mkdir()
    shutil.move(tmp_path / "host_c", folder)
    library = os.path.dirname(os.path.abspath(pytestconfig.option.library))
    subprocess.run(["make", "-s", "-C", str(folder), "compile", "CC=cc -Wall -Wextra -Werror -pedantic",
                    f"TILEC_LIB={library}", f"CUDA={tmp_path}/cuda"], check=True)
    done = subprocess.run([str(folder / "compile")], capture_output=True, text=True, env=environment(driver, capability))
    assert (done.returncode, done.stdout, done.stderr) == (0, "1000 numbers, scaled: right\n", "")


def test_host_c_on_another_gpu(driver, tmp_path, pytestconfig):
    subprocess.run([pytestconfig.option.tilec, os.path.join(EXAMPLES, "attention.tile"), "-arch", "sm_90", "-D", "D=64",
                    "-D", "CAUSAL=true", "--emit=header", "--header-ptx", "-o", str(tmp_path / "attention.h")], check=True)
    subprocess.run(["cc", "-std=c99", "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"),
                    os.path.join(EXAMPLES, "host_c", "main.c"), driver, "-lm", "-o", str(tmp_path / "host_c")], check=True)
    done = subprocess.run([str(tmp_path / "host_c")], capture_output=True, text=True, env=environment(driver, "8.0"))
    assert done.returncode == 1
    assert "error 209 the code is for sm_90a; this GPU is sm_80" in done.stderr


@pytest.mark.parametrize("arch, capability", ARCHES)
def test_launch_py(driver, tmp_path, pytestconfig, arch, capability):
    ptx = str(tmp_path / "attention.ptx")
    subprocess.run([pytestconfig.option.tilec, os.path.join(EXAMPLES, "attention.tile"), "-arch", arch, "-D", "D=64",
                    "-D", "CAUSAL=true", "-o", ptx], check=True)
    done = subprocess.run([sys.executable, os.path.join(EXAMPLES, "python", "launch.py"), ptx], capture_output=True,
                          text=True, env=environment(driver, capability))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 tokens, 2 heads: largest error 0.0" in done.stdout and done.stderr == ""


IN_PAIRS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import launch
bits = lambda x: (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
rng = np.random.default_rng(0)
a, b = rng.integers(-1, 2, (200, 72)), rng.integers(-1, 2, (72, 136))  # bf16 has the sums exactly
arrays = {"A": bits(a), "B": bits(b), "bias": np.zeros(136, np.float32), "C": np.zeros((200, 136), np.uint16)}
launch.launch(sys.argv[2], arrays, {}, launch.Device())
assert np.array_equal(arrays["C"], bits(a @ b))
"""


def test_launch_py_clusters(driver, tmp_path, pytestconfig):
    ptx = str(tmp_path / "gemm.ptx")
    subprocess.run([pytestconfig.option.tilec, os.path.join(EXAMPLES, "gemm.tile"), "-arch", "sm_100", "-D", "TM=128",
                    "-D", "TN=64", "-D", "TK=64", "--plan=consumers=1,stages=2,cluster=2", "-o", ptx], check=True)
    done = subprocess.run([sys.executable, "-c", IN_PAIRS, os.path.join(EXAMPLES, "python"), ptx],
                          capture_output=True, text=True, env=environment(driver, "10.0"))
    assert done.returncode == 0, done.stdout + done.stderr


EVERY_PARAMETER = """
import sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
import launch
import parameters
for keys in (20, 0):
    x, k = parameters.operands(2, 35, 3, keys)
    arrays = {"X": x, "K": k, "Y": np.empty_like(x), "T": np.empty((2, 35, 3), np.int32)}
    launch.launch(sys.argv[3], arrays, {}, launch.Device())
    y, t = parameters.expected(x, k)
    assert np.array_equal(arrays["Y"], y) and np.array_equal(arrays["T"], t), keys
"""


@pytest.mark.parametrize("early", [False, True])
def test_launch_py_every_parameter(driver, tmp_path, early):
    """Maps, also of an empty tensor, a scratch, a workspace from kernel to kernel, a persistent grid."""
    run = os.path.join(HERE, "..", "..", "run")
    (tmp_path / "k.ptx").write_text(parameters.early_ptx() if early else parameters.ptx_of(parameters.metadata()))
    done = subprocess.run([sys.executable, "-c", EVERY_PARAMETER, os.path.join(EXAMPLES, "python"), run,
                           str(tmp_path / "k.ptx")], capture_output=True, text=True, env=environment(driver, "9.0"))
    assert done.returncode == 0, done.stdout + done.stderr


SEVERAL_KERNELS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import launch
x = np.arange(100 * 64, dtype=np.float32).reshape(100, 64)
arrays = {"X": x, "Y": np.zeros_like(x), "Z": np.zeros(100, np.float32)}
launch.launch(sys.argv[2], arrays, {}, launch.Device())
assert np.array_equal(arrays["Y"], 2 * x) and np.allclose(arrays["Z"], 2 * x.sum(1))
"""


def test_launch_py_several_kernels(driver, tmp_path, pytestconfig):
    """Kernels that may start early."""
    ptx = str(tmp_path / "k.ptx")
    source = os.path.join(HERE, "..", "..", "ptx", "early-start.tile")
    subprocess.run([pytestconfig.option.tilec, source, "-arch", "sm_90", "-o", ptx], check=True)
    done = subprocess.run([sys.executable, "-c", SEVERAL_KERNELS, os.path.join(EXAMPLES, "python"), ptx],
                          capture_output=True, text=True, env=environment(driver, "9.0"))
    assert done.returncode == 0, done.stdout + done.stderr
