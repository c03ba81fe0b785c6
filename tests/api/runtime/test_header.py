"""The headers of --emit=header: they compile as C99 and C++ without a warning, refuse what the
kernel cannot run, and launch with the right parameters (through the made-up driver)."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "run"))
import parameters  # noqa: E402
EXAMPLES = os.path.join(HERE, "..", "..", "..", "examples")
KERNELS = ["copy", "add", "row_softmax", "gemm", "attention", "attention_bwd"]
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-pedantic"]


@pytest.fixture
def tilec(pytestconfig):
    if not pytestconfig.option.tilec:
        pytest.skip("no --tilec")
    return pytestconfig.option.tilec


def make_header(tilec, folder, name, *options, arch="sm_80"):
    path = str(folder / f"{name}.h")
    subprocess.run([tilec, os.path.join(EXAMPLES, name + ".tile"), "-arch", arch, "--emit=header", *options,
                    "-o", path], check=True)
    return path


@pytest.mark.parametrize("kernel, arch", [(k, "sm_80") for k in KERNELS] + [("attention_bwd", "sm_90")])
def test_compiles_as_c_and_cpp(tilec, tmp_path, kernel, arch):
    make_header(tilec, tmp_path, kernel, "--header-ptx", arch=arch)
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
    char message[256] = "", again[256] = "";
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
    if (strcmp(what, "null") == 0)
        args.X.data = 0;
    if (strcmp(what, "align") == 0)
        args.X.data += 4;
    if (strcmp(what, "large") == 0)
        args.X.shape[0] = args.Y.shape[0] = (int64_t)1 << 31;
    if (strcmp(what, "empty") == 0)
        args.X.shape[0] = args.Y.shape[0] = 0;
    result = copy_check(&args, message, sizeof message);
    if (result != copy_launch(&module, &args, NULL) ||
        result != copy_launch_message(&module, &args, NULL, again, sizeof again) || strcmp(again, message) != 0)
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
    ("null", "the address of X is null"), ("align", "the address of X must be a multiple of 16 bytes"),
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


# ---- PTX of another compilation, the driver's refusal ----

LOADS = r"""
#include "copy.h"
#include <stdlib.h>
int main(int argc, char **argv)
{
    static char ptx[1 << 20];
    char message[256] = "";
    static copy_module module;
    static copy_args args;
    CUcontext context;

    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    FILE *file = fopen(argv[1], "rb");
    if (argc != 2 || !file || fread(ptx, 1, sizeof ptx - 1, file) == 0)
        return 3;
    CUresult result = copy_load(&module, ptx, message, sizeof message);
    if (result == CUDA_SUCCESS) {
        args.X.data = args.Y.data = 64;
        args.X.shape[0] = args.Y.shape[0] = 8;
        args.X.stride[0] = args.Y.stride[0] = 1;
        args.X.shape[0] = args.Y.shape[0] = 0;
        result = copy_launch_message(&module, &args, NULL, message, sizeof message);
    }
    printf("%d %s\n", (int)result, message);
    return 0;
}
"""


def test_refuses_ptx_of_another_compilation(tilec, tmp_path, pytestconfig):
    make_header(tilec, tmp_path, "copy")
    (tmp_path / "main.c").write_text(LOADS)
    subprocess.run(["cc", "-std=c99", *WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"), str(tmp_path / "main.c"),
                    os.path.join(pytestconfig.option.fake, "libcuda.so.1"), "-o", str(tmp_path / "main"),
                    "-Wl,-rpath," + pytestconfig.option.fake], check=True)
    source = os.path.join(EXAMPLES, "copy.tile")
    for name, options in {"same": [], "warps": ["--warps=8"], "later": ["-arch", "sm_90"], "tile": ["-D", "N=512"]}.items():
        subprocess.run([tilec, source, *options, "-o", str(tmp_path / f"{name}.ptx")], check=True)
    (tmp_path / "bare.ptx").write_text(re.sub(r"\.visible \.const .*?};", "", (tmp_path / "same.ptx").read_text(), flags=re.S))
    says = {name: subprocess.run([str(tmp_path / "main"), str(tmp_path / f"{name}.ptx")], capture_output=True, text=True, check=True).stdout
            for name in ("same", "bare", "warps", "later", "tile")}
    refused = "1 the code is of another compilation than this header: make both with the same options\n"
    assert says == {"same": "0 \n", "bare": "0 \n", "warps": refused, "later": refused, "tile": refused}


# ---- dimensions that follow from names ----

FOLLOWS = r"""
#include "halves.h"
int main(void)
{
    static halves_args args;
    char message[256] = "";
    int64_t grid[3];
    static halves_module module;
    static const int64_t cases[][3] = {{70, 70, 36}, {70, 71, 36}, {71, 71, 36}, {70, 70, 35}, {2, 2, 2}};

    args.X.data = args.Y.data = args.Z.data = 4096;
    args.X.stride[1] = args.Y.stride[0] = args.Z.stride[1] = 1;
    args.X.stride[0] = args.Z.stride[0] = 100;
    args.X.shape[0] = args.Z.shape[0] = 3;
    for (int k = 0; k < 5; k++) {
        args.X.shape[1] = cases[k][0];
        args.Y.shape[0] = cases[k][1];
        args.Z.shape[1] = cases[k][2];
        message[0] = '\0';
        CUresult result = halves_check(&args, message, sizeof message);
        halves_grid(&module, &args, grid);
        printf("%d %d %s\n", result == CUDA_SUCCESS, (int)grid[0], message);
    }
    return 0;
}
"""


def test_sizes_that_follow(tilec, tmp_path, pytestconfig):
    (tmp_path / "halves.tile").write_text("""kernel halves(X: in f32[R, 2 * C], Y: in f32[2 * C], Z: out f32[R, C + 1]) {
        grid c in tiles(C, 32), r in R;
        store Z[r, c] = load X[r, c + C] + load Y[c];
    }""")
    subprocess.run([tilec, str(tmp_path / "halves.tile"), "-arch", "sm_80", "--emit=header", "-o", str(tmp_path / "halves.h")], check=True)
    (tmp_path / "main.c").write_text(FOLLOWS)
    subprocess.run(["cc", "-std=c99", *WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"), str(tmp_path / "main.c"),
                    os.path.join(pytestconfig.option.fake, "libcuda.so.1"), "-o", str(tmp_path / "main"),
                    "-Wl,-rpath," + pytestconfig.option.fake], check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1 2 ", "0 2 dimension 0 of Y is 71, but X_dim1 is 70", "0 2 dimension 1 of X must be 2 * C",
                                        "0 2 dimension 1 of Z must be C + 1", "1 1 "]


# ---- arguments that are NULL ----

NULLS = r"""
#include "STEM.h"
#define REFUSED(call, text) \
    do { \
        message[0] = '\0'; \
        if ((call) != CUDA_ERROR_INVALID_VALUE || !strstr(message, text)) { \
            printf("%s: %s\n", #call, message); \
            return 1; \
        } \
    } while (0)
int main(void)
{
    static STEM_module module;
    static STEM_args args;
    static STEM_call call;
    CUDA_KERNEL_NODE_PARAMS node;
    char message[256] = "";
    size_t n = sizeof message;
    int64_t grid[3] = {1, 1, 1};

    REFUSED(STEM_load(NULL, "", message, n), "the module is NULL");
#ifndef INSIDE
    REFUSED(STEM_load(&module, NULL, message, n), "the PTX is NULL");
#endif
    if (STEM_load(NULL, NULL, NULL, 0) != CUDA_ERROR_INVALID_VALUE)
        return 2;
    REFUSED(STEM_check(NULL, message, n), "`args` is NULL");
    REFUSED(STEM_pack(&module, NULL, &call, message, n), "`args` is NULL");
    STEM_grid(NULL, &args, grid);
    STEM_grid(&module, NULL, grid);
    if (grid[0] != 0)
        return 3;
    if (STEM_launch(&module, NULL, NULL) != CUDA_ERROR_INVALID_VALUE)
        return 4;
    FILL
    REFUSED(STEM_pack(NULL, &args, &call, message, n), "`module` is NULL");
    REFUSED(STEM_pack(&module, &args, NULL, message, n), "`call` is NULL");
    if (STEM_launch(NULL, &args, NULL) != CUDA_ERROR_INVALID_VALUE)
        return 5;
    STEM_node(NULL, &node);
    STEM_node(&call, NULL);
    if (STEM_unload(NULL) != CUDA_ERROR_INVALID_VALUE)
        return 6;
    puts("right");
    return 0;
}
"""
FILLED = {
    "copy": """args.X.data = args.Y.data = 64;
    args.X.shape[0] = args.Y.shape[0] = 8;
    args.X.stride[0] = args.Y.stride[0] = 1;""",
    "attention": """tilec_view4 t = {4096, {1, 8, 1, 128}, {1024, 128, 128, 1}};
    args.Q = args.K = args.V = args.O = t;
    tilec_view3 l = {4096, {1, 1, 8}, {8, 8, 1}};
    args.L = l;
    args.scale = 1;
    SCRATCH""",
}


@pytest.mark.parametrize("kernel, options", [
    ("copy", []), ("copy", ["--header-ptx"]), ("attention", ["-arch", "sm_90"]),
    ("attention", ["-arch", "sm_90", "--variants=auto"])])
def test_null_arguments(tilec, tmp_path, pytestconfig, kernel, options):
    arch = options[1] if options[:1] == ["-arch"] else "sm_80"
    make_header(tilec, tmp_path, kernel, *(o for o in options if o not in ("-arch", arch)), arch=arch)
    text = (tmp_path / f"{kernel}.h").read_text()
    scratch = re.findall(r"^    CUdeviceptr (scratch\w*|workspace\w*);", text, re.M)
    fill = FILLED[kernel].replace("SCRATCH", " ".join(f"args.{name} = 4096;" for name in scratch))
    source = NULLS.replace("FILL", fill).replace("STEM", kernel)
    if f"{kernel}_{kernel}_args" in text:
        for name in "args", "call", "check", "pack", "grid", "launch", "node":
            source = source.replace(f"{kernel}_{name}", f"{kernel}_{kernel}_{name}")
    (tmp_path / "nulls.c").write_text(("#define INSIDE\n" if "--header-ptx" in options else "") + source)
    subprocess.run(["cc", "-std=c99", *WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"),
                    str(tmp_path / "nulls.c"), os.path.join(pytestconfig.option.fake, "libcuda.so.1"),
                    "-o", str(tmp_path / "nulls"), "-Wl,-rpath," + pytestconfig.option.fake], check=True)
    done = subprocess.run([str(tmp_path / "nulls")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "right\n")


# ---- tensor maps, scratch, workspace, zero: the module of emit_fixture.c ----

EVERY_PARAMETER = r"""
#include "parameters.h"
#include <pthread.h>
enum { B = 2, S = 35, H = 3, D = 128, MOST = B * S * H * D };
static uint16_t x[MOST], k[MOST], y[MOST];
typedef struct Job { parameters_module *module; parameters_add_boxes_args *args; CUresult result; } Job;
static void *elsewhere(void *data) /* a thread without a context */
{
    Job *job = (Job *)data;
    CUcontext context = NULL;
    job->result = parameters_add_boxes_launch(job->module, job->args, NULL);
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != NULL)
        job->result = CUDA_ERROR_INVALID_VALUE;
    return NULL;
}
#define TRY(call) do { if ((call) != CUDA_SUCCESS) { printf("%s: %s\n", #call, message); return 1; } } while (0)
int main(int argc, char **argv)
{
    char message[256] = "";
    const int64_t sk = argc > 1 ? 0 : 20;
    parameters_module module;
    parameters_add_boxes_args add;
    parameters_copy_rows_args copy;
    int64_t grid[3];
    CUdevice device;
    CUcontext context;

    (void)argv;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    TRY(parameters_load(&module, "// nothing", message, sizeof message));
    memset(&add, 0, sizeof add);
    memset(&copy, 0, sizeof copy);
    for (int i = 0; i < MOST; i++)
        x[i] = (uint16_t)(i * 7), k[i] = (uint16_t)(i * 5 + 1);
    const tilec_view4 all = {0, {B, S, H, D}, {S * H * D, H * D, D, 1}};
    add.X = add.K = add.Y = all;
    add.K.shape[1] = sk;
    copy.T.shape[0] = B, copy.T.shape[1] = S, copy.T.shape[2] = H;
    copy.T.stride[0] = S * 4, copy.T.stride[1] = 4, copy.T.stride[2] = 1;
    cuMemAlloc(&add.X.data, sizeof x);
    cuMemAlloc(&add.K.data, sizeof k);
    cuMemAlloc(&add.Y.data, sizeof y);
    cuMemAlloc(&copy.T.data, S * B * 4 * 4);
    cuMemcpyHtoD(add.X.data, x, sizeof x);
    cuMemcpyHtoD(add.K.data, k, sizeof k);
    if (sk == 0)
        add.K.data = 0;
    cuMemAlloc(&add.scratch_counter, parameters_add_boxes_bytes_counter(&module, &add));
    cuMemsetD8(add.scratch_counter, 0, parameters_add_boxes_bytes_counter(&module, &add));
    cuMemAlloc(&add.workspace_rows, parameters_add_boxes_bytes_rows(&module, &add));
    copy.workspace_rows = add.workspace_rows;
    if (parameters_add_boxes_bytes_rows(&module, &add) != B * S * H * 4 ||
        parameters_copy_rows_bytes_rows(&module, &copy) != B * S * H * 4)
        return 2;
    parameters_add_boxes_grid(&module, &add, grid);
    if (grid[0] != 7) /* multiprocessors of the made-up GPU */
        return 3;
    TRY(parameters_add_boxes_check(&add, message, sizeof message));
    TRY(parameters_add_boxes_launch(&module, &add, NULL));
    Job job = {&module, &add, CUDA_SUCCESS};
    pthread_t thread;
    if (pthread_create(&thread, NULL, elsewhere, &job) != 0 || pthread_join(thread, NULL) != 0)
        return 8;
    TRY(job.result);
    TRY(parameters_copy_rows_launch(&module, &copy, NULL));
    cuMemcpyDtoH(y, add.Y.data, sizeof y);
    for (int b = 0, i = 0; b < B; b++)
        for (int s = 0; s < S; s++)
            for (int hd = 0; hd < H * D; hd++, i++)
                if (y[i] != (uint16_t)(x[i] + (s < sk ? k[i] : 0)))
                    return 4;
    for (int b = 0; b < B; b++)
        for (int s = 0; s < S; s++) {
            int32_t row[H];
            cuMemcpyDtoH(row, copy.T.data + (CUdeviceptr)(b * S + s) * 16, sizeof row);
            for (int h = 0; h < H; h++)
                if (row[h] != b * 1000000 + s * 1000 + h)
                    return 5;
        }
    add.X.stride[1] = H * D + 4;
    if (parameters_add_boxes_check(&add, message, sizeof message) == CUDA_SUCCESS)
        return 6;
    puts(message);
    add.X.stride[1] = -H * D;
    if (parameters_add_boxes_check(&add, message, sizeof message) == CUDA_SUCCESS)
        return 7;
    puts(message);
    add.X.stride[1] = H * D;
    add.scratch_counter = 0;
    if (parameters_add_boxes_check(&add, message, sizeof message) == CUDA_SUCCESS)
        return 9;
    puts(message);
    copy.workspace_rows = 0;
    if (parameters_copy_rows_launch(&module, &copy, NULL) == CUDA_SUCCESS ||
        parameters_copy_rows_check(&copy, message, sizeof message) == CUDA_SUCCESS)
        return 10;
    puts(message);
    return parameters_unload(&module) != CUDA_SUCCESS;
}
"""


@pytest.fixture
def fixture(pytestconfig):
    if not pytestconfig.option.fixture:
        pytest.skip("no --fixture")

    def run(what):
        return subprocess.run([pytestconfig.option.fixture, what], capture_output=True, text=True, check=True).stdout
    return run


def test_metadata_of_every_parameter(fixture):
    assert json.loads(fixture("json")) == parameters.metadata()
    comment = fixture("comment")
    for line in ["maps      X dims 3,1,2,0 box 64x32x1x1 swizzle 128B, L2 promotion 256B",
                 "scratch   counter, 8 bytes, zero before and after each launch",
                 "workspace rows, B * S * H * 4 bytes", "arguments map of X, map of K, Y, Y.stride0,",
                 "launch    grid (min(sm_count, cdiv(S, 32) * H * B * 2), 1, 1), block 64"]:
        assert "//   " + line in comment


@pytest.mark.parametrize("standard", ["c99", "c11", "c++11"])
@pytest.mark.parametrize("keys", [[], ["empty"]])
def test_every_parameter(fixture, tmp_path, pytestconfig, standard, keys):
    (tmp_path / "parameters.h").write_text(fixture("header"))
    source = tmp_path / ("main.cpp" if "++" in standard else "main.c")
    source.write_text(EVERY_PARAMETER)
    compiler = "c++" if "++" in standard else "cc"
    if not shutil.which(compiler):
        pytest.skip("no " + compiler)
    subprocess.run([compiler, "-std=" + standard, *WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"),
                    str(source), os.path.join(pytestconfig.option.fake, "libcuda.so.1"), "-o", str(tmp_path / "main"),
                    "-pthread", "-Wl,-rpath," + pytestconfig.option.fake], check=True)
    log = tmp_path / "log"
    done = subprocess.run([str(tmp_path / "main"), *keys], capture_output=True, text=True,
                          env=dict(os.environ, FAKE_CUDA_LOG=str(log)))
    assert (done.returncode, done.stdout) == (
        0, "stride 1 of X is 776 bytes; it must be a multiple of 16\n"
           "stride 1 of X is -768 bytes; a tensor map takes multiples of 16 below 2^40\n"
           "scratch_counter is null: it takes the address of parameters_add_boxes_bytes_counter() bytes of zeros\n"
           "workspace_rows is null: it takes the address of parameters_copy_rows_bytes_rows() bytes\n")
    calls = log.read_text()
    assert "WRONG" not in calls and "GUARD" not in calls
    assert "map type 6 128:0:64 35:768:32 3:256:1 2:26880:1 swizzle 3 promotion 3 interleave 0 fill 0" in calls
    k = "1:0:64 1:16:32 1:16:1 1:16:1" if keys else "128:0:64 20:768:32 3:256:1 2:26880:1"
    assert f"map type 6 {k} swizzle 3 promotion 0 interleave 0 fill 0" in calls
    assert calls.count("launch add_boxes grid 7 1 1 block 64 1 1 shared 8208") == 2
    assert "launch copy_rows grid 35 2 1 block 32" in calls


CUBINS = r"""
#include "copy.h"
int main(int argc, char **argv)
{
    char message[256] = "";
    copy_module module;
    CUdevice device;
    CUcontext context;
    const char *given = argc > 1 ? argv[1] : NULL;

    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    CUresult result = copy_load(&module, given, message, sizeof message);
    printf("%d %s\n", (int)result, message);
    return 0;
}
"""


def test_cubins(tilec, tmp_path, pytestconfig):
    """Of the machine code inside a GPU takes what is nearest to it; without any the PTX, or a refusal."""
    ptxas = tmp_path / "ptxas"
    ptxas.write_text('#!/bin/sh\nfor word; do case $word in -arch=*) arch=$word;; esac; last=$word; done\n'
                     'while [ $# -gt 1 ]; do [ "$1" != -o ] || out=$2; shift; done\nprintf "CUBIN%s\\000" "$arch" >"$out"\n')
    ptxas.chmod(0o755)
    (tmp_path / "main.c").write_text(CUBINS)
    fake = os.path.join(pytestconfig.option.fake, "libcuda.so.1")

    def build(*options, arch="sm_80"):
        make_header(tilec, tmp_path, "copy", f"--ptxas={ptxas}", *options, arch=arch)
        subprocess.run(["cc", "-std=c99", *WARNINGS, "-I" + str(tmp_path), "-I" + os.path.join(HERE, "include"),
                        str(tmp_path / "main.c"), fake, "-o", str(tmp_path / "main"),
                        "-Wl,-rpath," + pytestconfig.option.fake], check=True)

    def loaded(capability, *arguments):
        log = tmp_path / "log"
        log.write_text("")
        done = subprocess.run([str(tmp_path / "main"), *arguments], capture_output=True, text=True,
                              env=dict(os.environ, FAKE_CUDA_LOG=str(log), FAKE_CUDA_CAPABILITY=capability))
        found = re.findall(r"^cubin (\S+)", log.read_text(), re.M)
        return found[0] if found else "ptx" if "load" in log.read_text() else done.stdout.strip()

    build("--header-cubin=sm_80,sm_89,sm_86")
    assert [loaded(c) for c in ("8.0", "8.6", "8.7", "8.9")] == ["-arch=sm_80", "-arch=sm_86", "-arch=sm_86", "-arch=sm_89"]
    assert loaded("9.0") == "209 there is no code inside for sm_90"
    assert loaded("8.9", "the caller's own") == "ptx"
    build("--header-cubin=sm_80,sm_90", "--header-ptx")
    assert [loaded(c) for c in ("8.9", "9.0", "10.0")] == ["-arch=sm_80", "-arch=sm_90", "ptx"]
    build("--header-cubin=sm_90", arch="sm_90")
    assert loaded("9.0") in ("-arch=sm_90", "-arch=sm_90a") and loaded("8.0").startswith("209 the code is for sm_90")


@pytest.mark.parametrize("options, message", [
    (["--emit=header", "--header-cubin=80"], "expected up to 16 targets"),
    (["-arch", "sm_86", "--emit=header", "--header-cubin=sm_80"], "the code is for sm_86, of which"),
    (["--header-cubin=sm_80"], "goes with --emit=header"),
    (["--emit=header", "--header-cubin=sm_80", "--ptxas=none-such"], "can not be run")])
def test_wrong_cubins(tilec, tmp_path, options, message):
    done = subprocess.run([tilec, os.path.join(EXAMPLES, "copy.tile"), *options, "-o", str(tmp_path / "x.h")],
                          capture_output=True, text=True)
    assert done.returncode == 1 and message in done.stderr and not (tmp_path / "x.h").exists(), done.stderr


def test_cubins_by_ptxas(tilec, tmp_path):
    """What is in the header is what ptxas makes."""
    if not shutil.which("ptxas"):
        pytest.skip("no ptxas")
    text = open(make_header(tilec, tmp_path, "attention", "--header-cubin=sm_90", arch="sm_90")).read()
    words = re.search(r"attention_cubin_90a\[\d+\] = \{(.*?)\}", text, re.S).group(1)
    have = b"".join(int(word, 16).to_bytes(8, "little") for word in words.replace("u", "").split(",") if word.strip())
    cubin = str(tmp_path / "k.cubin")
    subprocess.run([tilec, os.path.join(EXAMPLES, "attention.tile"), "-arch", "sm_90", "--emit=cubin", "-o", cubin],
                   check=True)
    with open(cubin, "rb") as file:
        want = file.read()
    assert have.rstrip(b"\0") == want.rstrip(b"\0")
