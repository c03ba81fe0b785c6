"""examples/host_c and examples/python/launch.py with a driver over the simulator (sim_cuda.c): built
as their users build them, run as they are, for targets with and without warp groups."""

import os
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "..", "examples")
ARCHES = [("sm_80", "8.0"), ("sm_90", "9.0"), ("sm_90", "9.0 with seed 7")]


@pytest.fixture
def driver(pytestconfig):
    if not pytestconfig.option.sim or not pytestconfig.option.tilec:
        pytest.skip("no --sim or no --tilec")
    return os.path.join(pytestconfig.option.sim, "libcuda.so.1")


def environment(driver, capability):
    given = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(driver), SIM_CUDA_CAPABILITY=capability[:3])
    if "seed" in capability:
        given["SIM_CUDA_SEED"] = capability.split()[-1]
    return given


@pytest.mark.parametrize("arch, capability", ARCHES)
def test_host_c(driver, tmp_path, pytestconfig, arch, capability):
    # a CUDA Toolkit of what the Makefile asks for
    stubs = tmp_path / "cuda" / "lib64" / "stubs"
    stubs.mkdir(parents=True)
    (tmp_path / "cuda" / "include").symlink_to(os.path.join(HERE, "include"))
    (stubs / "libcuda.so").symlink_to(driver)
    shutil.copytree(os.path.join(EXAMPLES, "host_c"), tmp_path / "host_c")
    shutil.copy(os.path.join(EXAMPLES, "attention.tile"), tmp_path)
    subprocess.run(["make", "-s", "-C", str(tmp_path / "host_c"), "TILEC=" + os.path.abspath(pytestconfig.option.tilec),
                    "ARCH=" + arch, f"CUDA={tmp_path}/cuda"], check=True)
    header = (tmp_path / "host_c" / "attention.h").read_text()
    assert ("tilec_make_map(&map[2]" in header) == (arch == "sm_90")
    assert ("ATTENTION_HAS_SCRATCH_TILE_COUNTER" in header) == (arch == "sm_90")
    done = subprocess.run([str(tmp_path / "host_c" / "host_c")], capture_output=True, text=True,
                          env=environment(driver, capability))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 tokens, 4 heads: largest error 0.00" in done.stdout and done.stderr == ""


def test_host_c_on_another_gpu(driver, tmp_path, pytestconfig):
    subprocess.run([pytestconfig.option.tilec, os.path.join(EXAMPLES, "attention.tile"), "-arch", "sm_90", "-D", "D=64",
                    "-D", "CAUSAL=true", "--emit=header", "--header-ptx", "-o", str(tmp_path / "attention.h")], check=True)
    subprocess.run(["cc", "-std=c99", "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"),
                    os.path.join(EXAMPLES, "host_c", "main.c"), driver, "-lm", "-o", str(tmp_path / "host_c")], check=True)
    done = subprocess.run([str(tmp_path / "host_c")], capture_output=True, text=True, env=environment(driver, "8.0"))
    assert done.returncode == 1
    assert "error 209 the code is for sm_90a; this GPU is sm_80" in done.stderr
