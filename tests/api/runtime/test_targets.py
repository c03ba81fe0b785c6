"""Headers with code for several targets: which one a GPU takes, that a launch goes by it, and what is said of targets that a
program cannot be compiled for."""

import os
import re
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from test_examples import EXAMPLES, copied, environment  # noqa: E402
from test_header import CUBINS, WARNINGS  # noqa: E402


@pytest.fixture
def tilec(pytestconfig):
    if not pytestconfig.option.tilec or not pytestconfig.option.sim:
        pytest.skip("no --tilec or no --sim")
    return os.path.abspath(pytestconfig.option.tilec)


@pytest.fixture
def simulator(pytestconfig):
    return os.path.join(pytestconfig.option.sim, "libcuda.so.1")


def header(tilec, folder, source, archs, *options):
    path = os.path.join(EXAMPLES, source) if not os.path.isabs(str(source)) else str(source)
    done = subprocess.run([tilec, path, "-arch", archs, "--emit=header", *options, "-o",
                           str(folder / (os.path.basename(path).split(".")[0] + ".h"))], capture_output=True, text=True)
    return done.returncode, done.stderr


def build(folder, library, *flags):
    subprocess.run(["cc", "-std=c99", *flags, "-I" + str(folder), "-I" + os.path.join(HERE, "include"),
                    str(folder / "main.c"), library, "-lm", "-Wl,-rpath," + os.path.dirname(library), "-o", str(folder / "main")], check=True)


def test_choice(tilec, tmp_path, pytestconfig):
    """The highest target whose code the GPU runs; of its machine code what is nearest, else its PTX."""
    ptxas = tmp_path / "ptxas"
    ptxas.write_text('#!/bin/sh\nfor word; do case $word in -arch=*) arch=$word;; esac; done\n'
                     'while [ $# -gt 1 ]; do [ "$1" != -o ] || out=$2; shift; done\nprintf "CUBIN%s\\000" "$arch" >"$out"\n')
    ptxas.chmod(0o755)
    fake = os.path.join(pytestconfig.option.fake, "libcuda.so.1")
    (tmp_path / "main.c").write_text(CUBINS.replace('printf("%d %s\\n", (int)result, message)',
                                                    'printf("%d %d %s\\n", (int)result, module.target, message)')
                                     .replace("copy_module module;", "copy_module module = {0};"))

    def loaded(archs, *options):
        assert header(tilec, tmp_path, "copy.tile", archs, f"--ptxas={ptxas}", *options) == (0, "")
        build(tmp_path, fake, *WARNINGS)
        found = []
        for capability in ("7.5", "8.0", "8.9", "9.0", "10.0", "12.0"):
            log = tmp_path / "log"
            log.write_text("")
            done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True,
                                  env=dict(os.environ, FAKE_CUDA_LOG=str(log), FAKE_CUDA_CAPABILITY=capability))
            cubin = re.findall(r"^cubin -arch=(\S+)", log.read_text(), re.M)
            status, target, message = done.stdout.split(" ", 2)
            found.append(message.strip() if status == "209" else (cubin[0] if cubin else "ptx") + " " + target)
        return found

    assert loaded("sm_80,sm_90,sm_100", "--header-ptx", "--header-cubin=sm_80,sm_89,sm_100") == [
        "the code is for sm_80, sm_90 and sm_100; this GPU is sm_75", "sm_80 2", "sm_89 2", "ptx 1", "sm_100 0", "ptx 0"]
    none = "there is no code inside for sm_{} with {} bytes of shared memory a block"
    have = loaded("sm_90,sm_80", "--header-cubin=sm_80")
    assert have[1:3] == ["sm_80 1"] * 2 and all(re.fullmatch(none.format(r"\d+", r"\d+"), text) for text in have[3:]), have


def test_on_several_gpus(tilec, simulator, tmp_path, pytestconfig):
    """One build on the chips of three targets, and on others that run the code of one of them."""
    copied(tmp_path, simulator, "host_c", "attention.tile")
    subprocess.run(["make", "-s", "-C", str(tmp_path / "host_c"), "TILEC=" + tilec, "ARCH=sm_80,sm_90,sm_100", f"CUDA={tmp_path}/cuda"], check=True)

    def run(capability):
        return subprocess.run([str(tmp_path / "host_c" / "host_c")], capture_output=True, text=True,
                              env=dict(environment(simulator, ""), SIM_CUDA_CAPABILITY=capability))
    for capability in ("9.0", "10.0", "12.0"):
        done = run(capability)
        assert "300 tokens, 4 heads: largest error 0.00" in done.stdout and done.returncode == 0, (capability, done)
    assert "the code is for sm_80, sm_90a and sm_100a; this GPU is sm_75" in run("7.5").stderr


GIVEN = r"""
#include "attention.h"
#include <stdlib.h>
int main(int argc, char **argv)
{
    static char text[1 << 20];
    char message[256] = "";
    attention_module module = {0};
    CUdevice device;
    CUcontext context;
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;

    if (file == NULL || fread(text, 1, sizeof text - 1, file) == 0)
        return 1;
    fclose(file);
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    printf("%d", (int)attention_load(&module, text, message, sizeof message));
    printf(" %d %s\n", module.target, message);
    return 0;
}
"""


def test_given_code(tilec, simulator, tmp_path):
    """Code that the caller gives is known by its metadata: of whichever target, and of no other compilation."""
    assert header(tilec, tmp_path, "attention.tile", "sm_80,sm_90") == (0, "")
    (tmp_path / "main.c").write_text(GIVEN)
    build(tmp_path, simulator, *WARNINGS)

    def loaded(arch, *options):
        path = str(tmp_path / "k.ptx")
        subprocess.run([tilec, os.path.join(EXAMPLES, "attention.tile"), "-arch", arch, *options, "-o", path], check=True)
        return subprocess.run([str(tmp_path / "main"), path], capture_output=True, text=True,
                              env=environment(simulator, "9.0")).stdout.strip()
    assert loaded("sm_90") == "0 0" and loaded("sm_80") == "0 1"
    assert loaded("sm_80", "-D", "CAUSAL=true").endswith("the code is of another compilation than this header: make both with the same options")


@pytest.mark.parametrize("source, options", [
    ("gemm.tile", ["--variants=auto"]), ("grouped_gemm.tile", ["--header-ptx"]), ("attention_paged.tile", ["-D", "D=64"])])
def test_compiles(tilec, tmp_path, source, options):
    """Forms, several kernels and memory that some targets take; as C and C++ without a warning."""
    code, said = header(tilec, tmp_path, source, "sm_80,sm_90", *options)
    assert code == 0, said
    name = source.split(".")[0]
    (tmp_path / "use.c").write_text(f'#include "{name}.h"\nint main(void) {{ return 0; }}\n')
    shutil.copy(tmp_path / "use.c", tmp_path / "use.cpp")
    common = [*WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"), "-c", "-o", os.devnull]
    subprocess.run(["cc", "-std=c99", *common, str(tmp_path / "use.c")], check=True)
    if shutil.which("c++"):
        subprocess.run(["c++", "-std=c++11", *common, str(tmp_path / "use.cpp")], check=True)
    text = (tmp_path / f"{name}.h").read_text()
    for function in ("check", "grid", "pack", "node", "launch_message", "launch"):
        assert re.search(rf"^{name}\w*_{function}\(", text, re.M) and re.search(rf"^{name}\w*_sm_90_{function}\(", text, re.M)


LARGE = """kernel large(X: in f32[R, C], Y: out f32[C, R]) {
    grid r in tiles(R, 256), c in tiles(C, 128);
    store Y[c, r] = (load X[r, c]).T;
}
"""


UNUSED = """kernel copy(X: in f32[N], Y: out f32[N], a: f32) {
    grid n in tiles(N, 1024);
    store Y[n] = load X[n];
}
"""


@pytest.mark.parametrize("source, archs, options, said", [
    ("copy", "sm_80,sm_80", [], ["tilec: error: -arch sm_80,sm_80 has a target twice: sm_80 [E-TARGET]"]),
    ("copy", "sm_90,sm_90a", [], ["has a target twice: sm_90a"]),
    ("copy", "sm_80,sm_91", [], ["there is no target 'sm_91'"]),
    ("copy", "sm_80,", [], ["there is no target ''"]),
    ("copy", "sm_80,sm_90", ["-mtune=sm_90"], ["-mtune=sm_90 is for one target, and there are several: sm_80,sm_90"]),
    ("copy", "sm_80,sm_90", ["--emit=ptx"], ["code for several targets goes into a header, --emit=header"]),
    ("copy", "sm_80,sm_90", ["--header-cubin=sm_75"], ["the code is for sm_80 and sm_90, of which there is no machine code for sm_75"]),
    ("let x = 1;", "sm_80,sm_90", [], ["wrong.tile:1:1: error: "]),
    (LARGE, "sm_80,sm_86,sm_89", [], ["131072 bytes of shared memory, but sm_86 gives a block 101376", "but sm_89 gives a block 101376"]),
    (UNUSED, "sm_80,sm_90", ["-Werror"], ["warning: the parameter 'a' is never used", "warnings count as errors"])])
def test_messages(tilec, tmp_path, source, archs, options, said):
    """One message for what is so for all targets; else it names those that it is about."""
    path = "copy.tile"
    if source != "copy":
        path = tmp_path / "wrong.tile"
        path.write_text(source)
    code, have = header(tilec, tmp_path, path, archs, *options)
    assert code == 1 and all(text in have for text in said), have
    assert len(re.findall(r"(?:error|warning): ", have)) == len(said), have
    assert not (tmp_path / "wrong.h").exists()


def test_remarks(tilec, tmp_path):
    """What is so for one target of several says which."""
    code, said = header(tilec, tmp_path, "gemm.tile", "sm_90,sm_100", "--plan=consumers=2", "--remarks")
    assert code == 0 and "remark: for sm_100: no plan for warp groups in kernel 'gemm'" in said, said
