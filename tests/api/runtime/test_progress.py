"""tilerun --device sim on a terminal: a long launch shows how far it is, and takes that away again."""
import os
import pty
import re
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture
def command(pytestconfig, tmp_path):
    if not pytestconfig.option.tilec:
        pytest.skip("no --tilec")
    program, ptx = os.path.join(HERE, "..", "..", "..", "examples", "gemm.tile"), str(tmp_path / "gemm.ptx")
    subprocess.run([pytestconfig.option.tilec, program, "-arch", "sm_80", "-D", "T=f16", "-o", ptx], check=True)
    return [pytestconfig.option.tilerun, ptx, "--device", "sim", "--random"]


def one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def on_terminal(command, size):
    """What the command writes to a terminal that is its stderr."""
    master, slave = pty.openpty()
    sizes = [word for name in "MNK" for word in ("--set", f"{name}={size}")]
    with subprocess.Popen(command + sizes, stdout=subprocess.DEVNULL, stderr=slave, preexec_fn=one_core) as process:
        os.close(slave)
        said = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the terminal's other end is closed
                break
            if not piece:
                break
            said += piece
    os.close(master)
    assert process.returncode == 0, said
    return said.decode()


@pytest.fixture
def long_size(command):
    """The smallest that takes long enough to be shown, which the build and the machine decide."""
    for size in (512, 896, 1280, 1920):
        said = on_terminal(command, size)
        if said:
            assert "\r[" in said and re.search(r" clusters, \d+ s\x1b\[K", said)  # a busy machine shows the first one late
            assert said.endswith("\r\x1b[K")
            return size
    return pytest.fail("the longest launch says nothing of its progress")


def test_short(command):
    assert on_terminal(command, 64) == ""


def test_long(command, long_size):
    assert on_terminal(command + ["--quiet"], long_size) == ""
    sizes = [word for name in "MNK" for word in ("--set", f"{name}={long_size}")]
    done = subprocess.run(command + sizes, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
