#!/usr/bin/env python3
"""driver.py - tilec-sim: programs of the CUDA driver API on the simulated libcuda.so.1.

    driver.py --script backends/sim/driver/tilec-sim --driver FOLDER

The program is this file: it opens libcuda.so.1, loads a kernel, and copies, launches and compares as programs do.
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile

# each thread writes its word of shared memory and adds its neighbour's
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 data) .reqntid 64,1,1
{
    .reg .b32 %t, %a, %b, %v, %w; .reg .b64 %d, %o;
    .shared .align 4 .b8 s[256];
    ld.param.u64 %d, [data];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 4;
    add.u64 %d, %d, %o;
    ld.global.u32 %v, [%d];
    mov.u32 %a, s;
    mad.lo.u32 %b, %t, 4, %a;
    st.shared.u32 [%b], %v;
    BARRIER
    xor.b32 %b, %t, 32;
    mad.lo.u32 %b, %b, 4, %a;
    ld.shared.u32 %w, [%b];
    add.u32 %v, %v, %w;
    st.global.u32 [%d], %v;
    ret;
}
"""


def program(path):
    """What a program does; its status is 1 where a call fails, 2 where the result is wrong."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        result = getattr(cuda, name)(*args)
        if result:
            text = ctypes.c_char_p()
            cuda.cuGetErrorName(result, ctypes.byref(text))
            print(f"{name}: {text.value.decode()}")
            sys.exit(1)
    context, module, function, stream = (ctypes.c_void_p() for _ in range(4))
    count, chip = ctypes.c_int(), ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(count))
    call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    call("cuDeviceGetAttribute", ctypes.byref(chip), 75, 0)
    call("cuModuleLoad", ctypes.byref(module), path.encode())
    call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
    call("cuStreamCreate", ctypes.byref(stream), 0)
    data, values = ctypes.c_uint64(), (ctypes.c_uint32 * 64)(*range(64))
    call("cuMemAlloc_v2", ctypes.byref(data), 256)
    call("cuMemcpyHtoDAsync_v2", data, values, ctypes.c_size_t(256), stream)
    args = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(data), ctypes.c_void_p))
    call("cuLaunchKernel", function, 1, 1, 1, 64, 1, 1, 0, stream, args, None)
    call("cuStreamSynchronize", stream)
    call("cuMemcpyDtoH_v2", values, data, ctypes.c_size_t(256))
    print(f"capability {chip.value}, {count.value} device")
    return 0 if list(values) == [k + (k ^ 32) for k in range(64)] else 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--script")
    parser.add_argument("--driver")
    parser.add_argument("--program")
    args = parser.parse_args()
    if args.program:
        return program(args.program)
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, barrier in [("good", "bar.sync 0;"), ("bad", "")]:
            files[name] = os.path.join(folder, name + ".ptx")
            with open(files[name], "w", encoding="ascii") as file:
                file.write(KERNEL.replace("BARRIER", barrier))
        sarif, known = os.path.join(folder, "found.sarif"), os.path.join(folder, "known")

        def run(name, *options):
            return subprocess.run([args.script, *options, sys.executable, os.path.abspath(__file__), "--program", files[name]],
                                  capture_output=True, text=True, env={**os.environ, "TILEC_SIM_DRIVER": args.driver})
        done = run("good", "--seeds", "4", "--chip", "sm_100", "--sarif", sarif)
        assert done.returncode == 0 and "capability 10, 1 device" in done.stdout and not done.stderr, done
        with open(sarif, encoding="utf-8") as file:
            assert json.load(file)["runs"][0]["results"] == []
        done = run("bad", "--seeds", "4", "--sarif", sarif)
        assert done.returncode == 3 and "fault: race:" in done.stderr and "CUDA_ERROR_LAUNCH_FAILED" in done.stdout, done
        with open(sarif, encoding="utf-8") as file:
            assert {r["ruleId"] for r in json.load(file)["runs"][0]["results"]} >= {"S-RACE"}
        with open(known, "w", encoding="ascii") as file:
            file.write("* module:*\n")
        done = run("bad", "--suppress", known)
        assert done.returncode in (0, 2) and "fault" not in done.stderr, done
        for options, wrong in [(["--chip", "90"], "expected sm_80"), (["--sed", "3"], "unknown option --sed"), (["--seed"], "wants a value")]:
            done = subprocess.run([args.script, *options], capture_output=True, text=True)
            assert done.returncode == 1 and wrong in done.stderr, done
    print("a program runs, its fault is found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
