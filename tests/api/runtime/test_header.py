"""The headers of --emit=header: they compile as C99 and C++ without a warning, refuse what the
kernel cannot run, and launch with the right parameters (through the made-up driver)."""

import os
import re
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "..", "examples")
KERNELS = ["copy", "add", "row_softmax", "gemm", "attention", "attention_bwd"]
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-pedantic"]


@pytest.fixture
def tilec(pytestconfig):
    if not pytestconfig.option.tilec:
        pytest.skip("no --tilec")
    return pytestconfig.option.tilec


def make_header(tilec, folder, name, *options):
    path = str(folder / f"{name}.h")
    subprocess.run([tilec, os.path.join(EXAMPLES, name + ".tile"), "-arch", "sm_80", "--emit=header", *options,
                    "-o", path], check=True)
    return path


@pytest.mark.parametrize("kernel", KERNELS)
def test_compiles_as_c_and_cpp(tilec, tmp_path, kernel):
    make_header(tilec, tmp_path, kernel, "--header-ptx")
    (tmp_path / "use.c").write_text(f'#include "{kernel}.h"\n#include "{kernel}.h"\nint main(void) {{ return 0; }}\n')
    shutil.copy(tmp_path / "use.c", tmp_path / "use.cpp")
    common = [*WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"), "-c", "-o", os.devnull]
    subprocess.run(["cc", "-std=c99", *common, str(tmp_path / "use.c")], check=True)
    if shutil.which("c++"):
        subprocess.run(["c++", "-std=c++11", *common, str(tmp_path / "use.cpp")], check=True)


def test_two_headers_in_one_file(tilec, tmp_path):
    for kernel in ("copy", "attention"):
        make_header(tilec, tmp_path, kernel)
    (tmp_path / "use.c").write_text('#include "copy.h"\n#include "attention.h"\nint main(void) { return 0; }\n')
    subprocess.run(["cc", "-std=c99", *WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"), "-c",
                    "-o", os.devnull, str(tmp_path / "use.c")], check=True)


PROGRAM = r"""
#include "copy.h"
#include <stdlib.h>
enum { N = 5000 };
int main(int argc, char **argv)
{
    static float x[N], y[N];
    char message[256] = "";
    copy_module module;
    copy_args args;
    CUdevice device;
    CUcontext context;
    CUresult result;
    const char *what = argc > 1 ? argv[1] : "";

    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    result = copy_load(&module, NULL, message, sizeof message);
    if (result != CUDA_SUCCESS) {
        printf("load %d: %s\n", (int)result, message);
        return 1;
    }
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    cuMemAlloc(&args.X.data, sizeof x);
    cuMemAlloc(&args.Y.data, sizeof y);
    cuMemcpyHtoD(args.X.data, x, sizeof x);
    args.X.shape[0] = args.Y.shape[0] = N;
    args.X.stride[0] = args.Y.stride[0] = 1;
    if (strcmp(what, "shape") == 0)
        args.Y.shape[0] = 7;
    if (strcmp(what, "stride") == 0)
        args.X.stride[0] = 2;
    if (strcmp(what, "align") == 0)
        args.X.data += 4;
    if (strcmp(what, "large") == 0)
        args.X.shape[0] = args.Y.shape[0] = (int64_t)1 << 31;
    if (strcmp(what, "empty") == 0)
        args.X.shape[0] = args.Y.shape[0] = 0;
    result = copy_check(&args, message, sizeof message);
    if (result != copy_launch(&module, &args, NULL))
        return 2;
    if (result != CUDA_SUCCESS) {
        printf("%d: %s\n", (int)result, message);
        return 1;
    }
    cuMemcpyDtoH(y, args.Y.data, sizeof y);
    copy_unload(&module);
    for (int i = 0; i < args.X.shape[0]; i++)
        if (y[i] != x[i])
            return 3;
    puts("right");
    return 0;
}
"""


@pytest.fixture
def program(tilec, tmp_path, pytestconfig):
    make_header(tilec, tmp_path, "copy", "--header-ptx")
    (tmp_path / "main.c").write_text(PROGRAM)
    fake = os.path.join(pytestconfig.option.fake, "libcuda.so.1")
    subprocess.run(["cc", "-std=c99", *WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"),
                    str(tmp_path / "main.c"), fake, "-o", str(tmp_path / "main"),
                    "-Wl,-rpath," + pytestconfig.option.fake], check=True)

    def run(*arguments, **environment):
        log = tmp_path / "log"
        log.write_text("")
        done = subprocess.run([str(tmp_path / "main"), *arguments], capture_output=True, text=True,
                              env=dict(os.environ, FAKE_CUDA_LOG=str(log), **environment))
        return done.returncode, done.stdout, log.read_text()
    return run


def test_launches(program):
    status, out, calls = program()
    assert (status, out) == (0, "right\n")
    assert re.search(r"launch copy grid 5 1 1 block \d+ 1 1", calls)


@pytest.mark.parametrize("what, message", [
    ("shape", "dimension 0 of Y is 7, but S is 5000"), ("stride", "the last dimension of X must be contiguous"),
    ("align", "the address of X must be a multiple of 16 bytes"),
    ("large", "dimension 0 of X is 2147483648, which 32 bits cannot hold")])
def test_refuses(program, what, message):
    status, out, calls = program(what)
    assert (status, out) == (1, f"1: {message}\n")
    assert "launch" not in calls


def test_empty_grid_is_not_launched(program):
    status, out, calls = program("empty")
    assert (status, out) == (0, "right\n") and "launch" not in calls


def test_refuses_an_older_gpu(program):
    status, out, _ = program(FAKE_CUDA_CAPABILITY="7.5")
    assert (status, out) == (1, "load 209: the code is for sm_80; this GPU is sm_75\n")
