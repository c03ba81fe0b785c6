"""tilec.torch: its extension by itself, kernels on the simulator, and PyTorch where it is installed."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "..", "python")


@pytest.fixture
def run(pytestconfig, tmp_path):
    """Runs one of the programs beside this file; it says that all was right."""
    option = pytestconfig.option
    if not option.extension or not option.library:
        pytest.skip("tilec.torch was not built, or with sanitizers, which the interpreter has not")

    def go(program, case, driver, *path, **more):
        env = {**os.environ, "LD_LIBRARY_PATH": driver, "TILEC_LIBRARY": option.library, "TILEC_TORCH_DEVICE": "cpu",
               "TILEC_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join([*path, PACKAGE]), **more}
        done = subprocess.run([sys.executable, os.path.join(HERE, program), option.extension, case],
                              capture_output=True, text=True, env=env)
        assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["right"]), done.stdout + done.stderr

    return go


def test_extension(run, pytestconfig):
    run("launch_program.py", "all", pytestconfig.option.fake)


def test_extension_failures(run, pytestconfig):
    run("launch_program.py", "failures", pytestconfig.option.fake, FAKE_CUDA_FAIL="cuLaunchKernel")


@pytest.mark.parametrize("capability", ["8.0", "9.0", "10.0"])
def test_simulator(run, pytestconfig, capability):
    run("pytorch_sim.py", "all", pytestconfig.option.sim, os.path.join(HERE, "sim_torch"), SIM_CUDA_CAPABILITY=capability)


@pytest.mark.parametrize("case", ["eager", "any", "autocast", "checkpointed", "compiled", "exported", "packed",
                                  "refusals", "threads", "twice", "watched"])
def test_pytorch(run, pytestconfig, case):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    run("pytorch_program.py", case, pytestconfig.option.fake, FAKE_CUDA_CAPABILITY="8.0", TILEC_TORCH_NODE="off")


IMPORTS = """
import sys, torch
before = set(sys.modules)
import tilec
tilec.__path__.append(sys.argv[1])
import tilec.torch
from tilec.torch import attend, kernel, packed
attend.forward_kernel("bshd", False), packed.packed_kernel()  # as a first call makes them
more = {name.split(".")[0] for name in set(sys.modules) - before}
assert more <= {"tilec", *sys.stdlib_module_names} and "torch._dynamo" not in sys.modules, more
"""


def test_imports(pytestconfig):
    """Importing tilec.torch brings nothing of PyTorch's that PyTorch has not brought itself, as what traces is."""
    option = pytestconfig.option
    if importlib.util.find_spec("torch") is None or not option.library:
        pytest.skip("PyTorch is not installed")
    env = {**os.environ, "TILEC_LIBRARY": option.library, "PYTHONPATH": PACKAGE}
    done = subprocess.run([sys.executable, "-c", IMPORTS, option.extension], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


CALLS = ["transforms", "forward_mode", "lse", "outputs", "negated", "deterministic", "subclasses", "nothing", "autocast", "few_keys", "pickled",
         "kinds", "batches", "words"]


@pytest.mark.parametrize("case", CALLS)
def test_calls(run, pytestconfig, case):
    """What PyTorch and its users do beyond plain calls."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    run("pytorch_calls.py", case, pytestconfig.option.fake, FAKE_CUDA_CAPABILITY="8.0", TILEC_TORCH_NODE="off")


@pytest.fixture(scope="session")
def node_folder(tmp_path_factory):
    """A cache that the tests of the node in C++ share: it is compiled once."""
    return tmp_path_factory.mktemp("node")


@pytest.mark.parametrize("case", ["node", "eager", "packed", "any", "checkpointed", "threads", "twice", "watched"])
def test_node(run, pytestconfig, node_folder, case):
    if importlib.util.find_spec("torch") is None or shutil.which("c++") is None:
        pytest.skip("PyTorch or a C++ compiler is missing")
    run("pytorch_program.py", case, pytestconfig.option.fake, FAKE_CUDA_CAPABILITY="8.0", TILEC_TORCH_NODE="wait",
        TILEC_CACHE_DIR=str(node_folder))


@pytest.mark.parametrize("case", CALLS)
def test_calls_of_node(run, pytestconfig, node_folder, case):
    if importlib.util.find_spec("torch") is None or shutil.which("c++") is None:
        pytest.skip("PyTorch or a C++ compiler is missing")
    run("pytorch_calls.py", case, pytestconfig.option.fake, FAKE_CUDA_CAPABILITY="8.0", TILEC_TORCH_NODE="wait",
        TILEC_CACHE_DIR=str(node_folder))


@pytest.mark.parametrize("compiler, reason", [("none-such", "there is no C++ compiler"), ("false", "")])
def test_no_node(run, pytestconfig, compiler, reason):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    run("pytorch_program.py", "no_node", pytestconfig.option.fake, FAKE_CUDA_CAPABILITY="8.0", TILEC_TORCH_NODE="wait",
        CXX=compiler, REASON=reason)


def test_model(run, pytestconfig):
    """A whole model of Hugging Face under torch.compile."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        pytest.skip("PyTorch or transformers is not installed")
    run("pytorch_program.py", "model", pytestconfig.option.fake, FAKE_CUDA_CAPABILITY="8.0", TILEC_TORCH_NODE="off")


def test_models(pytestconfig, tmp_path):
    """Models of Hugging Face without kernels: they are one graph, and a few families are right or refused."""
    option = pytestconfig.option
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None or not option.library:
        pytest.skip("PyTorch or transformers is not installed")
    env = {**os.environ, "TILEC_LIBRARY": option.library, "TILEC_TORCH_DEVICE": "cpu", "TILEC_MODELS_ON": "cpu", "PYTHONPATH": PACKAGE}
    gpu = os.path.join(HERE, "..", "..", "gpu")
    for program, *options in (("torch_models.py", "--out", str(tmp_path), "--limit", "500", "--only", "one_graph"),
                              ("torch_families.py", "--out", str(tmp_path / "families.json"), "--jobs", "1", "--only",
                               "llama", "bart", "gemma2", "deepseek_v32", "codegen", "falcon", "moshi", "gpt_oss", "mvp")):
        done = subprocess.run([sys.executable, os.path.join(gpu, program), *options], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stdout + done.stderr


def test_distributed(run, pytestconfig):
    """On 1, 2, 3, 4 and 8 processes."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    run("distributed_program.py", "grid", pytestconfig.option.fake)


@pytest.mark.parametrize("program, options", [
    ("bench/ring_parts.py", ["--dry", "--rows", "36", "--worlds", "2", "3", "--heads", "2", "1", "--rounds", "1"]),
    ("bench/ring_parts.py", ["--dry", "--rows", "36", "--worlds", "3", "--heads", "2", "1", "--rounds", "1", "--wire", "e4m3"]),
    ("tests/gpu/distributed.py", ["--first", "3", "--count", "1"])])
def test_ring_programs(pytestconfig, tmp_path, program, options):
    """What is run on GPUs runs on processors, with kernels that are interpreted."""
    option = pytestconfig.option
    if importlib.util.find_spec("torch") is None or not option.library:
        pytest.skip("PyTorch is not installed")
    env = {**os.environ, "TILEC_LIBRARY": option.library, "TILEC_TORCH_DEVICE": "cpu", "TILEC_INTERPRET": "1", "PYTHONPATH": PACKAGE,
           "TILEC_CACHE_DIR": str(tmp_path)}
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if "distributed" in program else []
    done = subprocess.run([sys.executable, *run, os.path.join(PACKAGE, "..", program), *options], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"share both": ' in done.stdout or '"float8 inputs": ' in done.stdout


CACHE = """
import sys, os, glob
sys.path.insert(0, sys.argv[1])
import tilec, types
package = types.ModuleType("tilec.torch")  # without the parts that need PyTorch
package.__path__ = [os.path.join(sys.argv[1], "tilec", "torch")]
sys.modules["tilec.torch"] = package
from tilec.torch import disk
at = disk.folder()
"""


def in_cache(tmp_path, library, text, **more):
    env = {**os.environ, "TILEC_LIBRARY": library, "TILEC_CACHE_DIR": str(tmp_path / "cache"), **more}
    return subprocess.Popen([sys.executable, "-c", CACHE + text, PACKAGE], env=env, stdout=subprocess.PIPE, text=True)


def said(process):
    out, _ = process.communicate()
    assert process.returncode == 0
    return out.strip()


def test_cache(tmp_path, pytestconfig):
    library = pytestconfig.option.library
    if not library:
        pytest.skip("no --library")
    assert said(in_cache(tmp_path, library, "print(disk.get('a')); disk.put('a', b'12'); print(disk.get('a'))")) == "None\nb'12'"
    assert said(in_cache(tmp_path, library, "print(disk.get('a'))")) == "b'12'"
    broken = tmp_path / "cache" / "tilec-cache" / "tilec-a.entry"
    broken.write_bytes(broken.read_bytes()[:-1] + b"x")
    assert said(in_cache(tmp_path, library, "print(disk.get('a'), os.listdir(at))")) == "None []"
    # what was used last stays
    text = ("for k in 'abcd': disk.put(k, bytes(250000)); os.utime(disk.place(k), (ord(k), ord(k)))\n"
            "disk.get('a'); disk.put('e', bytes(250000)); print(''.join(k for k in 'abcde' if disk.get(k)))")
    assert said(in_cache(tmp_path, library, text, TILEC_CACHE_MB="1")) == "acde"
    assert said(in_cache(tmp_path, library, "disk.put('big', bytes(2000000)); print(disk.get('big'))", TILEC_CACHE_MB="1")) == "None"
    # a folder that cannot be
    (tmp_path / "file").write_text("")
    assert said(in_cache(tmp_path, library, "disk.put('a', b'1'); print(disk.get('a'))",
                         TILEC_CACHE_DIR=str(tmp_path / "file" / "x"))) == "None"
    assert said(in_cache(tmp_path, library, "disk.put('a', b'1'); print(disk.folder(), disk.get('a'))",
                         TILEC_CACHE_DIR="off")) == "None None"


def test_cache_of_others(tmp_path, pytestconfig):
    """What others keep in the folder stays: a checkpoint beside the entries, files and links that only have such names."""
    library = pytestconfig.option.library
    if not library:
        pytest.skip("no --library")
    text = """
own = os.path.dirname(at)
os.makedirs(at)
names = ["model.safetensors", "a" * 64, "tilec-b.entry", "tilec-x.so", "tilec-y.new", ".new-z"]
for name in names:
    for where in (own, at):
        with open(os.path.join(where, name), "wb") as file: file.truncate(2**20)
        os.utime(os.path.join(where, name), (0, 0))
os.symlink(os.path.join(own, "model.safetensors"), os.path.join(at, "tilec-link.entry"))
before = sorted(os.listdir(own)), sorted(os.listdir(at))
for key in ("a" * 64, "b", "link"):
    disk.put(key, bytes(100000))
    disk.get(key)
left = sorted(os.listdir(own)), sorted(set(os.listdir(at)) - {"tilec-" + "a" * 64 + ".entry"})
print(left == before, disk.get("b"), disk.get("link"), disk.get("a" * 64))
"""
    assert said(in_cache(tmp_path, library, text, TILEC_CACHE_MB="0.2")) == "True None None None"  # and there is no room


def test_cache_places(tmp_path, pytestconfig):
    """`~` is the home folder, and where there is none nothing is kept; a folder that can only be read serves."""
    library = pytestconfig.option.library
    if not library:
        pytest.skip("no --library")
    there = lambda **more: said(in_cache(tmp_path, library, "print(at)", HOME="/h", XDG_CACHE_HOME="", **more))  # noqa: E731
    assert there(TILEC_CACHE_DIR="~/tc") == "/h/tc/tilec-cache"
    assert there(TILEC_CACHE_DIR="~none-such-user/tc") == "None"
    assert there(TILEC_CACHE_DIR="") == "/h/.cache/tilec/tilec-cache"
    nobody = "import pwd\npwd.getpwuid = pwd.getpwnam = {}.__getitem__\ndel os.environ['HOME']\n"
    for chosen in ("~/tc", ""):
        assert said(in_cache(tmp_path, library, nobody + "print(disk.folder(), disk.put('a', b'1'), disk.get('a'))",
                             TILEC_CACHE_DIR=chosen, XDG_CACHE_HOME="")) == "None None None"
    text = ("disk.put('a', b'12')\ndef refuse(*_, **__): raise OSError(30, 'Read-only file system')\n"
            "os.utime = os.unlink = os.makedirs = os.replace = refuse\nprint(disk.get('a'), disk.put('b', b'1'), disk.get('b'))")
    assert said(in_cache(tmp_path, library, text)) == "b'12' None None"
    for megabytes in ("inf", "nan", "much"):
        assert said(in_cache(tmp_path, library, "print(disk.limit() >> 20)", TILEC_CACHE_MB=megabytes)) == "256"


def test_cache_processes(tmp_path, pytestconfig):
    """Many processes write and read the same entries; each reads all of one, or none."""
    library = pytestconfig.option.library
    if not library:
        pytest.skip("no --library")
    text = ("for i in range(60):\n"
            "    disk.put(str(i % 5), bytes([i % 5]) * 50000)\n"
            "    for k in range(5):\n"
            "        have = disk.get(str(k))\n"
            "        assert have is None or have == bytes([k]) * 50000\n"
            "print('right')")
    processes = [in_cache(tmp_path, library, text, TILEC_CACHE_MB="0.2") for _ in range(4)]
    assert [said(process) for process in processes] == ["right"] * 4
    assert not [name for name in os.listdir(tmp_path / "cache" / "tilec-cache") if name.endswith(".new")]
