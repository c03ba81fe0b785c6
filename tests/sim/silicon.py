#!/usr/bin/env python3
"""silicon.py - the same PTX on a GPU and in the simulator, with the same inputs.

    silicon.py --sim SIMRUN [--out DIR] [--only TEXT]       run both and compare
    silicon.py --sim SIMRUN --recorded DIR/silicon.npz      compare with what a GPU gave before
    silicon.py --sim SIMRUN --sim-only                      no GPU: does everything run at all?

Needs Python, NumPy and, for the GPU, libcuda (through ctypes).  Single instructions run on random
operands and edge values (those of values.py and many more), small kernels on random data.  Data
movement and integers must be identical; floating point too where the ISA defines the rounding; the
approximations and matrix products have the tolerance written beside them in silicon_cases.py.  NaN
counts as NaN.  DIR gets silicon.npz, all that the GPU gave, and silicon.txt, what was printed.
"""
import argparse
import ctypes
import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import silicon_cases  # noqa: E402


class GpuError(Exception):
    pass


class Gpu:
    """The Driver API, as much of it as is needed."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self.name, self.arch = name.value.decode(), 10 * major.value + minor.value
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        found = getattr(self.cuda, name)
        status = found(*args)
        if status:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(status, ctypes.byref(text))
            raise GpuError(f"{name}: {(text.value or b'?').decode()} ({status})")

    def load(self, ptx):
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(4000)
        options = (ctypes.c_int * 2)(5, 6)  # error log buffer, its size
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4000)
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), ptx.encode() + b"\0", 2, options,
                      values)
        except GpuError as error:
            raise GpuError(f"{error}: {log.value.decode(errors='replace')[:500]}")
        return module

    def tensor_map(self, spec, address):
        """A CUtensorMap over a dense array, as simrun's `map:TYPE:SWIZZLE:SIZES:BOX` describes it."""
        _, kind, swizzle, sizes, box = spec.split(":")
        sizes, box = ([int(x) for x in text.split("x")] for text in (sizes, box))
        types = ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16"]
        element = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2][types.index(kind)]
        rank, strides = len(sizes), [element * sizes[0]]
        for size in sizes[1:-1]:
            strides.append(strides[-1] * size)
        room = (ctypes.c_uint8 * 192)()  # 128 bytes at a multiple of 64
        at = (ctypes.addressof(room) + 63) // 64 * 64
        wide, narrow = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), types.index(kind), rank, address,
                  wide(*sizes), wide(*strides), narrow(*box), narrow(*[1] * 5), 0,
                  {"0": 0, "32": 1, "64": 2, "128": 3}[swizzle], 0, 0)
        return room, at

    def run(self, test):
        """The outputs, as arrays."""
        module = self.load(test.ptx)
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        if test.shared > 48 * 1024:
            self.call("cuFuncSetAttribute", function, 8, test.shared)
        values, outputs, memory, keep = [], [], [], []
        for kind, value in test.args:
            if kind in ("in", "out", "inout", "map"):
                array = np.ascontiguousarray(value[1] if kind == "map" else value)
                at = ctypes.c_uint64()
                self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(max(array.nbytes, 16)))
                self.call("cuMemcpyHtoD_v2", at, ctypes.c_void_p(array.ctypes.data),
                          ctypes.c_size_t(array.nbytes))
                memory.append(at)
                if kind != "in":
                    outputs.append((at, array))
                if kind == "map":
                    room, where = self.tensor_map(value[0], at)
                    keep.append(room)
                    values.append(where)
                else:
                    values.append(at)
            else:
                values.append({"u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
                               "f32": ctypes.c_float}[kind](value))
        pointers = (ctypes.c_void_p * len(values))(
            *[v if isinstance(v, int) else ctypes.addressof(v) for v in values])
        self.call("cuLaunchKernel", function, *test.grid, *test.block, test.shared, None, pointers,
                  None)
        self.call("cuCtxSynchronize")
        results = []
        for at, like in outputs:
            result = np.empty_like(like)
            self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(result.ctypes.data), at,
                      ctypes.c_size_t(result.nbytes))
            results.append(result)
        for at in memory:
            self.call("cuMemFree_v2", at)
        self.call("cuModuleUnload", module)
        return results[:test.outputs]


def simulate(simrun, test, scratch):
    (scratch / "k.ptx").write_text(test.ptx)
    command = [simrun, str(scratch / "k.ptx"), "--grid", ",".join(map(str, test.grid)),
               "--block", ",".join(map(str, test.block)), "--shared", str(test.shared)]
    outputs = []
    for i, (kind, value) in enumerate(test.args):
        if kind in ("in", "out", "inout"):
            path = scratch / f"{i}.bin"
            np.ascontiguousarray(value).tofile(path)
            command.append(f"{'in' if kind == 'in' else 'inout'}:{path}")
            if kind != "in":
                outputs.append((path, value))
        elif kind == "map":
            path = scratch / f"{i}.bin"
            value[1].tofile(path)
            command.append(f"{value[0]}:inout:{path}")
            outputs.append((path, value[1]))
        else:
            command.append(f"{kind}:{value}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise GpuError(f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[:400]}")
    return [np.fromfile(path, value.dtype).reshape(value.shape)
            for path, value in outputs[:test.outputs]]


def as_float(array, kind):
    """Values in float64, and the distance of one unit in the last place at each."""
    np.seterr(all="ignore")
    if kind == "bf16":
        values = (array.astype(np.uint32) << 16).view(np.float32)
        spacing = np.spacing(np.abs(values).astype(np.float32)) * 2.0 ** 16
    else:
        values = array.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind])
        spacing = np.spacing(np.abs(values))
    return values.astype(np.float64), spacing.astype(np.float64)


def compare(test, gpu, sim):
    """(bad elements, largest distance in the rule's unit, text about the first bad one)."""
    rule = test.rule
    if rule.kind == "bits":
        bad = gpu.view(np.uint8).reshape(gpu.shape + (-1,)) != sim.view(np.uint8).reshape(gpu.shape + (-1,))
        bad = bad.any(axis=-1)
        distance = bad.astype(float)
    else:
        if rule.packed:  # two narrow floats in a word
            gpu, sim = gpu.view(np.uint16), sim.view(np.uint16)
        g, unit = as_float(gpu, rule.kind)
        s, _ = as_float(sim, rule.kind)
        with np.errstate(all="ignore"):
            if rule.scale is not None:
                distance = np.abs(g - s) / rule.scale.reshape(g.shape)
            elif rule.absolute:
                distance = np.abs(g - s)
            else:
                distance = np.abs(g - s) / unit
            same = (g == s) & (np.signbit(g) == np.signbit(s)) | np.isnan(g) & np.isnan(s)
            distance = np.where(same, 0, np.where(np.isfinite(distance), distance, np.inf))
            # a result that is flushed to zero, or not, where the ISA leaves it open
            zero = (g == 0) & (s == 0) & (rule.tolerance > 0)
            bad = ~(same | zero | (distance <= rule.tolerance))
    if not bad.any():
        finite = distance[np.isfinite(distance)]
        return 0, float(finite.max()) if finite.size else 0.0, ""
    first = int(np.flatnonzero(bad.reshape(-1))[0])
    word = lambda a: a.reshape(-1)[first].tobytes()[::-1].hex()
    text = f"element {first}: gpu {word(gpu)}, simulator {word(sim)}"
    if test.lanes:
        at = first // (2 if rule.packed else 1)
        operands = [v.reshape(-1)[at] for k, v in test.args if k == "in"]
        text += ", operands " + " ".join(f"{o!r}" for o in operands)
    return int(bad.sum()), float(distance.max()), text


def checksum(test):
    crc = zlib.crc32(test.ptx.encode())
    for kind, value in test.args:
        if kind == "map":
            crc = zlib.crc32(value[1].tobytes(), zlib.crc32(value[0].encode(), crc))
        elif kind in ("in", "inout"):
            crc = zlib.crc32(np.ascontiguousarray(value).tobytes(), crc)
    return crc


class Log:
    def __init__(self, path):
        self.file = open(path, "w") if path else None

    def __call__(self, text):
        print(text, flush=True)
        if self.file:
            self.file.write(text + "\n")
            self.file.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sim", required=True, help="the simulator's driver, simrun")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--recorded", type=pathlib.Path)
    parser.add_argument("--sim-only", action="store_true")
    parser.add_argument("--only", default="", help="tests whose name holds this")
    options = parser.parse_args()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    log = Log(options.out / "silicon.txt" if options.out else None)
    tests = [t for t in silicon_cases.all_tests() if options.only in t.name]
    recorded = dict(np.load(options.recorded)) if options.recorded else None
    gpu = None if options.sim_only or recorded is not None else Gpu()
    if gpu:
        log(f"{gpu.name}, sm_{gpu.arch}")
    groups, keep, problems, unread = {}, {}, [], 0
    for number, test in enumerate(tests):
        row = groups.setdefault(test.group, {"tests": 0, "agree": 0, "skipped": 0, "elements": 0,
                                             "worst": 0.0})
        if gpu and gpu.arch < test.arch:
            row["skipped"] += 1
            continue
        key = f"{checksum(test):08x}"
        try:
            if gpu:
                silicon = gpu.run(test)
                for i, array in enumerate(silicon):
                    keep[f"{key}.{i}"] = array
            elif recorded is not None:
                if f"{key}.0" not in recorded:
                    row["skipped"] += 1
                    unread += 1
                    continue
                written = [k for k, _ in test.args if k in ("out", "inout", "map")][:test.outputs]
                silicon = [recorded[f"{key}.{i}"] for i in range(len(written))]
        except GpuError as error:
            row["tests"] += 1
            problems.append(f"{test.name}: GPU: {error}")
            if "700" in str(error) or "ILLEGAL" in str(error).upper():
                log(f"{test.name}: {error}: the context is lost, stopping here")
                break
            continue
        row["tests"] += 1
        try:
            with tempfile.TemporaryDirectory() as directory:
                simulated = simulate(options.sim, test, pathlib.Path(directory))
        except (GpuError, subprocess.TimeoutExpired) as error:
            problems.append(f"{test.name}: simulator: {error}")
            continue
        if options.sim_only:
            row["agree"] += 1
            continue
        failed = False
        for g, s in zip(silicon, simulated):
            bad, worst, text = compare(test, g, s)
            row["elements"] += g.size
            row["worst"] = max(row["worst"], worst / test.rule.tolerance if test.rule.tolerance else 0.0)
            if bad:
                failed = True
                problems.append(f"{test.name}: {bad} of {g.size} elements differ, worst {worst:.3g} "
                                f"(allowed {test.rule.tolerance:g}); {text}")
        row["agree"] += not failed
    if options.out and gpu:
        np.savez_compressed(options.out / "silicon.npz", **keep)
    for problem in problems:
        log("DIFFERS " + problem)
    log(f"{'group':<28}{'tests':>7}{'agree':>7}{'skipped':>9}{'elements':>10}  worst, of the allowed")
    total = agree = 0
    for name, row in groups.items():
        total, agree = total + row["tests"], agree + row["agree"]
        log(f"{name:<28}{row['tests']:>7}{row['agree']:>7}{row['skipped']:>9}{row['elements']:>10}"
            f"  {100 * row['worst']:.0f} %")
    log(f"{total} tests, {agree} agree, {total - agree} do not"
        + (f"; {unread} are not in the recording" if unread else ""))
    return 0 if agree == total and total else 1


if __name__ == "__main__":
    sys.exit(main())
