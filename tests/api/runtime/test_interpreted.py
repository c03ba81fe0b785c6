"""The Python package without a GPU: without PyTorch (interpreted.py), and with it where it is installed (interpreted_torch.py)."""

import importlib.util
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "..", "python")


@pytest.mark.parametrize("case, mode", [("numbers", ""), ("wrong", ""), ("magic", ""), ("attention", "1"), ("kernels", "1"),
                                        ("attention", "sim"), ("kernels", "sim")])
def test_interpreted(tmp_path, pytestconfig, case, mode):
    if not pytestconfig.option.library:
        pytest.skip("no --library")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([PACKAGE, os.path.join(HERE, "sim_torch")]), TILEC_INTERPRET=mode,
               TILEC_LIBRARY=os.path.abspath(pytestconfig.option.library), TILEC_CACHE_DIR=str(tmp_path),
               TILEC_TILERUN=os.path.abspath(pytestconfig.option.tilerun), IPYTHONDIR=str(tmp_path))
    done = subprocess.run([sys.executable, os.path.join(HERE, "interpreted.py"), case], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr


@pytest.mark.parametrize("case, mode", [("attentions", "1"), ("transforms", "1"), ("kernels", "1"), ("eights", "1"), ("processes", "1"), ("attentions", "sim"),
                                        ("transforms", "sim"), ("kernels", "sim"), ("without", "")])
def test_pytorch(tmp_path, pytestconfig, case, mode):
    if importlib.util.find_spec("torch") is None or not pytestconfig.option.library:
        pytest.skip("PyTorch is not installed, or no --library")
    env = dict(os.environ, PYTHONPATH=PACKAGE, TILEC_INTERPRET=mode, TILEC_LIBRARY=os.path.abspath(pytestconfig.option.library),
               TILEC_CACHE_DIR=str(tmp_path), TILEC_TILERUN=os.path.abspath(pytestconfig.option.tilerun))
    done = subprocess.run([sys.executable, os.path.join(HERE, "interpreted_torch.py"), case], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["right"]), done.stdout + done.stderr


@pytest.mark.parametrize("case, mode", [("layouts", "1"), ("layouts", "sim"), ("sizes", "1"), ("sizes", "sim"), ("transforms", "1"), ("checked", "1"), ("refusals", "1")])
def test_quantised(tmp_path, pytestconfig, case, mode):
    if importlib.util.find_spec("torch") is None or not pytestconfig.option.library:
        pytest.skip("PyTorch is not installed, or no --library")
    env = dict(os.environ, PYTHONPATH=PACKAGE, TILEC_INTERPRET=mode, TILEC_LIBRARY=os.path.abspath(pytestconfig.option.library),
               TILEC_CACHE_DIR=str(tmp_path), TILEC_TILERUN=os.path.abspath(pytestconfig.option.tilerun))
    done = subprocess.run([sys.executable, os.path.join(HERE, "quantised_torch.py"), case], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["right"]), done.stdout + done.stderr


@pytest.mark.parametrize("case, mode", [("numbers", "1"), ("numbers", "sim"), ("routers", "1"), ("routers", "sim"), ("eights", "1"), ("eights", "sim"), ("transforms", "1"),
                                        ("checked", "1"), ("forms", ""), ("refusals", "1")])
def test_experts(tmp_path, pytestconfig, case, mode):
    if importlib.util.find_spec("torch") is None or not pytestconfig.option.library:
        pytest.skip("PyTorch is not installed, or no --library")
    env = dict(os.environ, PYTHONPATH=PACKAGE, TILEC_INTERPRET=mode, TILEC_LIBRARY=os.path.abspath(pytestconfig.option.library),
               TILEC_CACHE_DIR=str(tmp_path), TILEC_TILERUN=os.path.abspath(pytestconfig.option.tilerun))
    done = subprocess.run([sys.executable, os.path.join(HERE, "experts_torch.py"), case], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["right"]), done.stdout + done.stderr


@pytest.mark.parametrize("case, mode", [("tokens", "sim"), ("forms", "sim"), ("seeds", "1"), ("losses", "1"), ("losses", "sim"), ("transforms", "1"), ("checked", "1"),
                                        ("refusals", "1")])
def test_sampling(tmp_path, pytestconfig, case, mode):
    if importlib.util.find_spec("torch") is None or not pytestconfig.option.library:
        pytest.skip("PyTorch is not installed, or no --library")
    env = dict(os.environ, PYTHONPATH=PACKAGE, TILEC_INTERPRET=mode, TILEC_LIBRARY=os.path.abspath(pytestconfig.option.library),
               TILEC_CACHE_DIR=str(tmp_path), TILEC_TILERUN=os.path.abspath(pytestconfig.option.tilerun))
    done = subprocess.run([sys.executable, os.path.join(HERE, "sampling_torch.py"), case], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["right"]), done.stdout + done.stderr


def test_wrong_mode(pytestconfig):
    if not pytestconfig.option.library:
        pytest.skip("no --library")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([PACKAGE, os.path.join(HERE, "sim_torch")]), TILEC_INTERPRET="yes",
               TILEC_LIBRARY=os.path.abspath(pytestconfig.option.library))
    done = subprocess.run([sys.executable, "-c", "import tilec.torch"], capture_output=True, text=True, env=env)
    assert "TILEC_INTERPRET is yes: expected 1 (the reference interpreter) or sim (the simulator)" in done.stderr
