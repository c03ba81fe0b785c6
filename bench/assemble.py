"""assemble.py - lets the driver compile PTX files, each in a process of its own, so that its cache has
them when a program loads them: within one process the driver may compile one file after the other.

    python3 bench/assemble.py FILE       # prints {"seconds": ..} or {"error": ..}
"""

import ctypes
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "examples", "python"))
import tilec_torch  # noqa: E402
import yardsticks  # noqa: E402


def environment():
    """The driver's default for its cache may be smaller than what one tuning run compiles."""
    return {"CUDA_CACHE_MAXSIZE": str(2 << 30), **os.environ, "CUDA_CACHE_DISABLE": "0"}


def assemble(path):
    driver = tilec_torch.driver()
    context = ctypes.c_void_p()
    tilec_torch._check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    tilec_torch._check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    with open(path, "rb") as file:
        image = file.read()
    began = time.perf_counter()
    module = yardsticks.load_image(image)
    for entry in re.findall(rb"\.entry\s+(\w+)", image):
        function, value = ctypes.c_void_p(), ctypes.c_int()
        tilec_torch._check(driver.cuModuleGetFunction(ctypes.byref(function), module, entry), entry.decode())
        driver.cuFuncGetAttribute(ctypes.byref(value), 4, function)  # compiles it, if that was put off
    return {"seconds": time.perf_counter() - began}


def run(path, limit):
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), path], capture_output=True, text=True,
                              timeout=limit, env=environment())
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": f"not compiled within {limit} s"}
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}


def all_of(paths, jobs, limit):
    """{path: what run() says}"""
    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(paths, pool.map(lambda path: run(path, limit), paths)))


if __name__ == "__main__":
    try:
        print(json.dumps(assemble(sys.argv[1])))
    except tilec_torch.TilecError as error:
        print(json.dumps({"error": str(error)}))
