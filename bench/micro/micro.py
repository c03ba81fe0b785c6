#!/usr/bin/env python3
"""micro.py - microbenchmarks of the units of a GPU of compute capability 9.0 or 10.0, for the timing model (docs/timing.md).

    micro.py --compile DIR            the kernels (kernels.py) as PTX, and as cubins where ptxas is in PATH
    micro.py --run DIR --json FILE    runs what DIR has and writes what it measured
    micro.py --table FILE             a table of a file of results
    micro.py --only PATTERN ..        only kernels whose names match
    micro.py --target sm_100 ..       those for compute capability 10.0 (sm_103: 10.3): of sm100.py, and what is no wgmma of kernels.py

Running needs the CUDA driver and nothing else.  Clocks are those of an SM (%clock64), so the frequency does not matter
but where the L2 cache or memory takes part; it is sampled all the same.  Each kernel runs once to warm up and then five
times; a result is the median over the runs of the median over warps (`cycles`) and of the longest (`longest`), and how
far the runs are apart.  Send the JSON with the results to whoever keeps the tables.
"""
import argparse
import ctypes
import fnmatch
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import additions
import groups
import hbm
import kernels
import launch
import runs
import sm100

DATA = 1 << 31  # bytes of the buffer that kernels read and add to
OUT = 1 << 22
REPEAT = 5


def compile_all(folder, chosen, target):
    os.makedirs(folder, exist_ok=True)

    def compile_one(kernel):
        path = os.path.join(folder, kernel.name + ".ptx")
        if os.path.exists(path[:-4] + ".cubin") and open(path, encoding="utf-8").read() == kernel.ptx:
            return True
        with open(path, "w", encoding="utf-8") as file:
            file.write(kernel.ptx)
        if shutil.which("ptxas") is None: # the driver compiles
            return True
        said = subprocess.run(["ptxas", f"-arch={target}a", path, "-o", path[:-4] + ".cubin"], capture_output=True, text=True)
        if said.returncode != 0 or "wgmma" in said.stderr:  # products one after another: not what is to be measured
            print(f"{kernel.name}: {said.stdout}{said.stderr}", file=sys.stderr)
            return False
        return True

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = sum(not good for good in pool.map(compile_one, chosen))
    print(f"{len(chosen)} kernels in {folder}, {bad} that ptxas does not take as they are")
    return bad == 0


def kernels_for(target):
    """An SM of 10.0 or 10.3 has no wgmma."""
    if target == "sm_90":
        return kernels.all_kernels() + groups.all_kernels() + runs.all_kernels() + launch.all_kernels() + hbm.all_kernels() + \
            additions.all_kernels()
    common = [k for k in kernels.all_kernels() + launch.all_kernels() if "wgmma" not in k.ptx]
    for kernel in common:
        kernel.ptx = kernel.ptx.replace(kernels.HEADER, sm100.HEADER)
    common += sm100.all_kernels()
    for kernel in common:
        kernel.ptx = kernel.ptx.replace(".target sm_100a", f".target {target}a")
    return common


class Driver:
    """The few calls of libcuda that are needed."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        status = getattr(self.cuda, name)(*args)
        if status:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else status}")

    def attribute(self, number):
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        return address

    def write(self, address, data):
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))

    def load(self, image, name, shared=kernels.SHARED):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        self.call("cuFuncSetAttribute", function, 8, shared)  # dynamic shared memory, at most
        return module, function

    def tensor_map(self, address, rows, f32=False, heads=1):
        """A tensor of 16384 + 512 rows of 64 bf16, boxes of `rows` of them, 128-byte swizzle; or of 36864 rows by `heads` by 128 f32, boxes of 32."""
        raw = (ctypes.c_ubyte * 192)()
        at = (ctypes.addressof(raw) + 63) // 64 * 64
        if f32:
            sizes, strides = (ctypes.c_uint64 * 3)(128, heads, 36864), (ctypes.c_uint64 * 2)(512, 512 * heads)
            box, steps = (ctypes.c_uint32 * 3)(32, 1, rows), (ctypes.c_uint32 * 3)(1, 1, 1)
            self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), 7, 3, address, sizes, strides, box, steps, 0, 3, 2, 0)
            return ctypes.string_at(at, 128)
        sizes, strides = (ctypes.c_uint64 * 2)(64, 16384 + 512), (ctypes.c_uint64 * 1)(128)
        box, steps = (ctypes.c_uint32 * 2)(64, rows), (ctypes.c_uint32 * 2)(1, 1)
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), 9, 2, address, sizes, strides, box, steps, 0, 3, 2, 0)
        return ctypes.string_at(at, 128)


def fill_chase(driver, data, spread):
    """A cycle of addresses through `spread` bytes, in an order that no prefetcher guesses."""
    step = 128 if spread <= 1 << 23 else 4096
    n = spread // step
    stride = next(k for k in range(n // 2 * 2 - n // 3 | 1, n * 2, 2) if k % 3 and k % 5 and k % 7)
    image = bytearray(spread)
    at = 0
    for _ in range(n):
        to = (at + stride) % n
        struct.pack_into("<Q", image, at * step, data.value + to * step)
        at = to
    driver.write(data, bytes(image))


def run_one(driver, kernel, folder, sms, data, out):
    path = os.path.join(folder, kernel.name)
    image_path = path + ".cubin" if os.path.exists(path + ".cubin") else path + ".ptx"
    with open(image_path, "rb") as file:
        module, function = driver.load(file.read() + b"\0", kernel.name)
    blocks = {"all": sms // kernel.cluster * kernel.cluster, "one": kernel.cluster}.get(kernel.blocks, kernel.blocks)
    if kernel.name.startswith("chase_"):
        fill_chase(driver, data, kernel.params["spread"])
    values = [out, data]
    if kernel.box:
        values.append((ctypes.c_ubyte * 128).from_buffer_copy(driver.tensor_map(data, **kernel.box)))
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
    n, medians, longest, times = blocks * kernel.warps, [], [], []
    clocks = (ctypes.c_uint64 * n)()
    first, last = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuEventCreate", ctypes.byref(first), 0)
    driver.call("cuEventCreate", ctypes.byref(last), 0)
    for turn in range(REPEAT + 1):
        if kernel.name.startswith("chase_") and kernel.params["spread"] > 1 << 26:  # out of the L2 cache
            driver.call("cuMemsetD8_v2", ctypes.c_uint64(data.value + (1 << 30)), ctypes.c_ubyte(0), ctypes.c_size_t(1 << 29))
        driver.call("cuEventRecord", first, None)
        driver.call("cuLaunchKernel", function, blocks, 1, 1, 32 * kernel.warps, 1, 1, kernels.SHARED, None, pointers, None)
        driver.call("cuEventRecord", last, None)
        driver.call("cuCtxSynchronize")
        driver.call("cuMemcpyDtoH_v2", clocks, out, ctypes.c_size_t(8 * n))
        took = ctypes.c_float()
        driver.call("cuEventElapsedTime", ctypes.byref(took), first, last)
        if turn:
            medians.append(statistics.median(clocks))
            longest.append(max(clocks))
            times.append(took.value * 1000)
    result = {"name": kernel.name, "group": kernel.group, "params": kernel.params, "unit": kernel.unit,
              "operations": kernel.operations, "warps": kernel.warps, "blocks": blocks,
              "cycles": statistics.median(medians), "longest": statistics.median(longest),
              "spread": max(medians) - min(medians), "microseconds": round(statistics.median(times), 3)}
    if kernel.group == "beside":  # warps 0-3 and those behind do different things
        halves = [[c for k, c in enumerate(clocks) if (k % kernel.warps > 3) == h] for h in range(2)]
        result["cycles_by_half"] = [max(h) for h in halves]
    if kernel.group == "pull":  # the copies' warps and the additions': the first, the median one and the last of those that did something
        parts = [sorted(c for c in clocks[h::kernel.warps] if c) for h in range(kernel.warps)]
        result["cycles_by_warp"] = [[of[0], statistics.median(of), of[-1]] if of else [] for of in parts]
    driver.call("cuModuleUnload", module)
    return result


def spans(data, grid):
    """Of one launch (launch.py): when its first block began and its last one ended, in nanoseconds, and clocks of blocks and SMs."""
    rows = [struct.unpack_from("<6Q", data, launch.TIMERS * k) for k in range(grid)]
    by_sm = {}
    for row in rows:
        by_sm.setdefault(row[4], []).append(row)
    # from the end of a block to the beginning of the next on its SM, where one runs at a time
    between = []
    for of in by_sm.values():
        of.sort(key=lambda r: r[2])
        between += [b[2] - a[3] for a, b in zip(of, of[1:]) if b[2] >= a[3]]
    took = [row[3] - row[2] for row in rows]
    return {"first": min(r[0] for r in rows), "last": max(r[1] for r in rows), "last_start": max(r[0] for r in rows),
            "block": statistics.median(took), "block_most": max(took), "sms": len(by_sm),
            "sm": max(max(r[3] for r in of) - min(r[2] for r in of) for of in by_sm.values()),
            "between": statistics.median(between) if between else None, "extra": [list(rows[0][4:]), list(rows[-1][4:])]}


def run_timers(driver, kernel, folder, data, out, repeat):
    """A kernel of launch.py: once, as nothing of it is in any cache; in a row, without a word between; with an event before and behind."""
    with open(os.path.join(folder, kernel.name + ".cubin"), "rb") as file:
        module, function = driver.load(file.read() + b"\0", kernel.name, kernel.timers["shared"])
    grid, piece = kernel.timers["grid"], 1 << 19
    first, last = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuEventCreate", ctypes.byref(first), 0)
    driver.call("cuEventCreate", ctypes.byref(last), 0)

    def start(number):
        values = [ctypes.c_uint64(out.value + number * piece), data]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        driver.call("cuLaunchKernel", function, grid, 1, 1, 32 * kernel.warps, 1, 1, kernel.timers["shared"], None, pointers, None)

    def read(number):
        host = ctypes.create_string_buffer(launch.TIMERS * grid)
        driver.call("cuMemcpyDtoH_v2", host, ctypes.c_uint64(out.value + number * piece), ctypes.c_size_t(len(host)))
        return spans(host.raw, grid)
    start(0)
    driver.call("cuCtxSynchronize")
    cold, took, apart = read(0), [], []
    for number in range(repeat):
        start(number)
    driver.call("cuCtxSynchronize")
    row = [read(number) for number in range(repeat)]
    for number in range(repeat):
        driver.call("cuEventRecord", first, None)
        start(number)
        driver.call("cuEventRecord", last, None)
        driver.call("cuCtxSynchronize")
        value = ctypes.c_float()
        driver.call("cuEventElapsedTime", ctypes.byref(value), first, last)
        took.append(value.value * 1000)
        apart.append(read(number))
    driver.call("cuModuleUnload", module)
    warm = {key: statistics.median(r[key] for r in apart) for key in ["block", "block_most", "sm"]}
    between = [r["between"] for r in apart if r["between"] is not None]
    return {"name": kernel.name, "group": kernel.group, "params": kernel.params, "unit": kernel.unit, "operations": kernel.operations,
            "warps": kernel.warps, "blocks": grid, "cycles": warm["block"], "longest": warm["sm"], "spread": warm["block_most"] - warm["block"],
            "microseconds": round(statistics.median(took), 3), "nanoseconds": statistics.median(r["last"] - r["first"] for r in apart),
            "starts": statistics.median(r["last_start"] - r["first"] for r in apart), "between_blocks": statistics.median(between) if between else None,
            "between_launches": [b["first"] - a["last"] for a, b in zip(row, row[1:])], "sms": apart[0]["sms"],
            "cold": {k: cold[k] for k in ["block", "block_most", "sm", "extra"]} | {"nanoseconds": cold["last"] - cold["first"]},
            "extra": apart[-1]["extra"]}


def nvidia_smi(fields):
    try:
        said = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True)
        return [word.strip() for word in said.stdout.split("\n")[0].split(",")]
    except FileNotFoundError:
        return []


def run_all(folder, chosen, path, repeat):
    driver = Driver()
    sms, start = driver.attribute(16), time.time()
    data, out = driver.allocate(DATA), driver.allocate(OUT)
    results, clocks = [], []
    for count, kernel in enumerate(chosen):
        try:
            results.append(run_timers(driver, kernel, folder, data, out, repeat) if kernel.timers else
                           run_one(driver, kernel, folder, sms, data, out))
        except RuntimeError as error:
            results.append({"name": kernel.name, "group": kernel.group, "error": str(error)})
            print(f"{kernel.name}: {error}", file=sys.stderr)
            driver.call("cuDevicePrimaryCtxReset_v2", driver.device)  # a fault ends a context
            driver = Driver()
            data, out = driver.allocate(DATA), driver.allocate(OUT)
        if count % 40 == 0:
            clocks.append(nvidia_smi("clocks.sm,clocks.mem,power.draw,temperature.gpu"))
    name = nvidia_smi("name,driver_version,clocks.max.sm,clocks.max.mem,power.limit")
    version = ctypes.c_int()
    driver.call("cuDriverGetVersion", ctypes.byref(version))
    report = {"device": {"name": name[:1], "driver": name[1:2], "cuda": version.value, "limits": name[2:], "sms": sms,
                         "l2_bytes": driver.attribute(38), "clock_khz": driver.attribute(13), "sampled": clocks},
              "seconds": round(time.time() - start, 1), "results": results}
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({k: report[k] for k in ["device", "seconds"]})[:-1] + ', "results": [\n')
        file.write(",\n".join(json.dumps(row) for row in results) + "\n]}\n")
    failed = [row["name"] for row in results if "error" in row]
    print(f"{len(results)} results in {report['seconds']} s, failed: {failed or 'none'}")
    return len(results) == len(chosen) and not failed


def table(path):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    print(json.dumps(report["device"]))
    for row in report["results"]:
        if "error" in row:
            print(f"{row['name']:36} {row['error']}")
            continue
        each = row["cycles"] / row["operations"]
        rate = row["operations"] / max(row["longest"], 1)
        more = f" halves {row['cycles_by_half']}" if "cycles_by_half" in row else ""
        print(f"{row['name']:36} {row['cycles']:10.0f} ({row['longest']:.0f}) clk {each:10.3f} clk/{row['unit']}, {rate:9.3f} a clk, spread "
              f"{row['spread']:.0f}, {row['microseconds']} us{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", metavar="DIR")
    parser.add_argument("--run", metavar="DIR")
    parser.add_argument("--json", metavar="FILE", default="results.json")
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--target", choices=["sm_90", "sm_100", "sm_103"], default="sm_90")
    parser.add_argument("--repeat", type=int, default=REPEAT, help="launches of each kernel of launch.py, one way and the other")
    parser.add_argument("--only", metavar="PATTERN", nargs="*", default=["*"])
    args = parser.parse_args()
    chosen = [k for k in kernels_for(args.target) if any(fnmatch.fnmatch(k.name, p) for p in args.only)]
    good = True
    if args.compile:
        good &= compile_all(args.compile, chosen, args.target)
    if args.run:
        good &= run_all(args.run, chosen, args.json, args.repeat)
    if args.table:
        table(args.table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
