#!/usr/bin/env python3
"""users.py - what four kinds of users do with an installed tilec and nothing else of this tree, each from the first command to the last.

    users.py --build BUILD --cmake CMAKE --cc CC

    the author of an engine   a header for several targets, a C program around it, on two simulated GPUs; a wrong call
    a researcher              a kernel and attention from Python, as what they mean and as compiled code (of PyTorch as much as
                              sim_torch has)
    a learner                 a program with a slip, its message explained, run, compiled, run in the simulator
    who tunes                 plans, the report, the schedule's picture, the page, a clock
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

from install import HERE, ROOT, SKIPPED, installed, needs, run

RUNTIME = os.path.join(HERE, "..", "api", "runtime")
SCALE = """kernel scale(X: in f32[S], Y: out f32[S], a: f32) {
    grid i in tiles(S, 64);
    store Y[i] = load X[i] * a;
}
"""
RESEARCH = """
import numpy as np, tilec, torch, tilec.torch
x = np.arange(100, dtype=np.float32)
assert (tilec.run_file("scale.tile", {"X": x, "a": 2.0})["Y"] == 2 * x).all()
scale = tilec.torch.kernel("scale.tile")
assert (scale(X=torch.from_numpy(x), a=0.5).numpy() == x / 2).all()
q, k, v = (torch.from_numpy(np.random.default_rng(n).standard_normal((1, 16, 1, 32)).astype(np.float32), torch.bfloat16) for n in range(3))
o = tilec.torch.attention(q, k, v).numpy()[0, :, 0]
s = q.numpy()[0, :, 0] @ k.numpy()[0, :, 0].T / 32 ** 0.5
p = np.exp(s - s.max(1, keepdims=True))
assert np.abs(o - p / p.sum(1, keepdims=True) @ v.numpy()[0, :, 0]).max() < 0.02
try:
    tilec.torch.attention(q, k, v.transpose(1, 3))
except tilec.torch.Error as error:
    assert "is 32, but Sk is 16" in str(error), error
else:
    raise SystemExit("a wrong shape was taken")
"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def said(wanted, text):
    if not re.search(wanted, text):
        sys.exit(f"not said: {wanted}\nin {text}")


def engine(prefix, folder, options):
    """examples/host_c as it is installed."""
    os.makedirs(os.path.join(folder, "cuda/lib64/stubs"))
    os.symlink(os.path.join(RUNTIME, "include"), os.path.join(folder, "cuda/include"))
    driver = os.path.join(prefix, "lib/tilec/sim/libcuda.so.1")
    os.symlink(driver, os.path.join(folder, "cuda/lib64/stubs/libcuda.so"))
    shutil.copytree(os.path.join(prefix, "share/tilec/examples/host_c"), os.path.join(folder, "host_c"))
    shutil.copy(os.path.join(prefix, "share/tilec/examples/attention.tile"), folder)
    run("make", "-s", "-C", os.path.join(folder, "host_c"), f"TILEC={prefix}/bin/tilec", "ARCH=sm_80,sm_90", f"CUDA={folder}/cuda",
        f"CC={options.cc}")
    for capability in ("8.6", "9.0"):
        said(r"largest error 0\.00", run(os.path.join(prefix, "bin/tilec-sim"), os.path.join(folder, "host_c/host_c"),
                                         env=dict(os.environ, SIM_CUDA_CAPABILITY=capability)))


def researcher(prefix, folder, options):
    write(folder, "scale.tile", SCALE)
    library = next(path for path in (os.path.join(prefix, where, "libtilec.so") for where in ("lib", "lib64", "lib/x86_64-linux-gnu"))
                   if os.path.exists(path))
    for mode in ("1", "sim"):
        run(sys.executable, "-c", RESEARCH, cwd=folder, env=dict(
            os.environ, PYTHONPATH=os.pathsep.join([os.path.join(ROOT, "python"), os.path.join(RUNTIME, "sim_torch")]), TILEC_INTERPRET=mode,
            TILEC_LIBRARY=library, TILEC_TILERUN=os.path.join(prefix, "bin/tilerun"), TILEC_CACHE_DIR=os.path.join(folder, "cache")))


def learner(prefix, folder, options):
    import numpy as np
    tilec = os.path.join(prefix, "bin/tilec")
    write(folder, "scale.tile", SCALE.replace("load", "laod"))
    wrong = subprocess.run([tilec, "scale.tile"], cwd=folder, capture_output=True, text=True)
    said("did you mean `load`", wrong.stderr)
    said("E-SYNTAX", run(tilec, "explain", re.search(r"\[(E-\w+)\]", wrong.stderr)[1]))
    write(folder, "scale.tile", SCALE)
    x = np.arange(100, dtype=np.float32)
    np.save(os.path.join(folder, "x.npy"), x)
    arguments = ["--in", "X=x.npy", "--set", "a=3", "--out"]
    run(tilec, "run", "scale.tile", *arguments, "Y=meant.npy", cwd=folder)
    run(tilec, "scale.tile", "-arch", "sm_80", cwd=folder)
    run(os.path.join(prefix, "bin/tilerun"), "scale.ptx", *arguments, "Y=y.npy", "--device", "sim", cwd=folder)
    for name in ("meant.npy", "y.npy"):
        if not (np.load(os.path.join(folder, name)) == 3 * x).all():
            sys.exit(f"{name} is wrong")
    run(tilec, "fmt", "-i", "scale.tile", cwd=folder)
    run(tilec, "fmt", "--check", "scale.tile", cwd=folder)


def tuner(prefix, folder, options):
    tilec, gemm = os.path.join(prefix, "bin/tilec"), os.path.join(prefix, "share/tilec/examples/gemm.tile")
    said(r"best 3 by time", run(tilec, "search", gemm, "-arch", "sm_90", "--rows", "3"))
    report = run(tilec, gemm, "-arch", "sm_90", "--report", "--dump-schedule=g.svg", "-o", "g.ptx", cwd=folder)
    said("pipeline", report)
    said("(?s)<svg.*</svg>", open(os.path.join(folder, "g.svg"), encoding="utf-8").read())
    run(tilec, gemm, "-arch", "sm_90", "--emit=html", cwd=folder)
    said("(?s)<html.*gemm", open(os.path.join(folder, "gemm.html"), encoding="utf-8").read())
    clock = run(os.path.join(prefix, "bin/tilerun"), "g.ptx", "--random", "--set", "M=256", "--set", "N=256", "--set", "K=256", "--device", "sim",
                "--time", "sm_90,sample,ptx,seeds=1", "--no-check", cwd=folder)
    said(r"\d+ cycles", clock)


def sanitized(options):
    """No interpreter or C program without sanitizers loads the libraries then."""
    with open(os.path.join(options.build, "CMakeCache.txt"), encoding="utf-8") as file:
        return re.search(r"^TILEC_SANITIZE:\w+=(ON|1|TRUE)", file.read(), re.M) is not None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("users", nargs="*")
    options = parser.parse_args()
    users = {"engine": engine, "researcher": researcher, "learner": learner, "tuner": tuner}
    needs("make")
    if not os.path.exists(os.path.join(options.build, "backends/sim/driver/libcuda.so.1")) or sanitized(options):
        print("the simulator's driver is missing, or built with sanitizers: skipped")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        prefix = installed(options, folder)
        for name in options.users or users:
            os.makedirs(os.path.join(folder, name))
            users[name](prefix, os.path.join(folder, name), options)


if __name__ == "__main__":
    main()
