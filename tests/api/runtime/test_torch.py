"""examples/python/tilec_torch.py over the made-up driver, with CPU tensors (of PyTorch, or where it is
not installed of stand_in/torch.py)."""

import os
import subprocess
import sys

import pytest
from test_tilerun import Bench, metadata

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(HERE, "..", "..", "..", "examples", "python")
sys.path.insert(0, PYTHON)
import tilec_torch  # noqa: E402  (needs torch only when it launches)


def test_launches(tmp_path, pytestconfig):
    bench = Bench(tmp_path, pytestconfig.option)
    log = tmp_path / "log"
    env = dict(os.environ, LD_LIBRARY_PATH=bench.fake + ":" + os.environ.get("LD_LIBRARY_PATH", ""),
               FAKE_CUDA_LOG=str(log))
    done = subprocess.run([sys.executable, os.path.join(HERE, "torch_program.py"), PYTHON, bench.ptx()],
                          capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    calls = log.read_text()
    assert "launch scale_entry grid 2 4 1 block 128 1 1 shared 65536" in calls
    assert "WRONG" not in calls
    assert "map type 6 1:0:64 1:16:32 1:16:1 1:16:1 swizzle 3 promotion 0 interleave 0 fill 0" in calls
    assert calls.count("launch sum_entry grid 4 1 1 block 64 1 1 shared 0") == 3


def test_early_start(tmp_path, pytestconfig):
    bench = Bench(tmp_path, pytestconfig.option)
    meta = metadata()
    meta["kernels"][1]["early_start"] = True
    log = tmp_path / "log"
    env = dict(os.environ, LD_LIBRARY_PATH=bench.fake + ":" + os.environ.get("LD_LIBRARY_PATH", ""),
               FAKE_CUDA_LOG=str(log))
    done = subprocess.run([sys.executable, os.path.join(HERE, "torch_program.py"), PYTHON, bench.ptx(meta)],
                          capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    lines = log.read_text().splitlines()
    launches = [k for k, line in enumerate(lines) if line.startswith("launch sum_entry")]
    assert len(launches) == 3 and all("attribute 6: 1 0 0" in lines[k - 1] + lines[k - 2] for k in launches)
    assert sum("attribute 6" in line for line in lines) == 3


def test_element_types(monkeypatch):
    names = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e8m0": "float8_e8m0fnu", "i8": "int8", "u32": "uint32"}
    kinds = ("float16", "float32", "int32", "bool", *names.values())
    stand_in = type("torch", (), {**{kind: kind for kind in kinds}, "__version__": "9"})
    monkeypatch.setattr(tilec_torch, "_torch", lambda: stand_in)
    assert {name: tilec_torch.torch_dtype(name) for name in names} == names
    for name in ("e5m2", "e2m1"):  # PyTorch of that version has none; no type that tensors in metadata have
        with pytest.raises(tilec_torch.TilecError, match=f"PyTorch 9 has no tensors of {name}"):
            tilec_torch.torch_dtype(name)


@pytest.mark.parametrize("text, value", [
    ("cdiv(Sq, 128)", 3), ("cdiv(Sq, 128) * 2 - 1 - 1", 4), ("0 - 7 / 2", -3), ("-7 % 2", -1), ("-Sq / 2", -128),
    ("1 + 2 * 3 == 7 && !(2 > 3)", 1), ("min(3, max(1, 2)) * 2", 4), ("scale > 0.5", 0), ("scale > 0.0", 1),
    ("Sq >= 257 || Sq / 0", 1), ("true && !false", 1)])
def test_expressions(text, value):
    assert tilec_torch.compile_expression(text)({"Sq": 257, "scale": 0.5}) == value


@pytest.mark.parametrize("text", ["", "1 +", "(1", "1 2", "min(1)", "a $ b", "1 / 0"])
def test_wrong_expressions(text):
    with pytest.raises(tilec_torch.TilecError):
        tilec_torch.compile_expression(text)({})
