#!/usr/bin/env python3
"""silicon.py - the same PTX on a GPU and in the simulator, with the same inputs.

    silicon.py --sim SIMRUN [--out DIR] [--only TEXT]       run both and compare
    silicon.py --out DIR [--keep FILE.npz]                  record what a GPU gives; no simulator
    silicon.py --sim SIMRUN --recorded FILE.npz [--all]     compare with what a GPU gave before
    silicon.py --sim SIMRUN --sim-only                      no GPU: does everything run at all?

Needs Python, NumPy and, for the GPU, libcuda (through ctypes).  Single instructions run on random
operands and edge values (those of values.py and many more), small kernels on random data.  Data
movement and integers must be identical; floating point too where the ISA defines the rounding; the
approximations and matrix products have the tolerance written beside them in silicon_cases.py.  NaN
counts as NaN.  DIR gets silicon.npz, all that the GPU gave, and silicon.txt, what was printed; --keep
adds what was recorded before of tests that did not run now.

Tests run on the GPU in a process of their own: one that ends in a fault, or does not end, is recorded
as that, and the next one gets a new process.  Where the GPU faults the simulator must find something,
and in the tests of the group `faults` in any case: what they do the ISA or the GPU forbids.  --all: a
test that is not in the recording is a failure.
"""
import argparse
import ctypes
import multiprocessing
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import silicon_cases  # noqa: E402


PATIENCE = 60  # seconds for one test on the GPU


class GpuError(Exception):
    pass


class Found(Exception):
    """The simulator ended with a finding."""


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
        """A CUtensorMap, as simrun's `map:TYPE:SWIZZLE:SIZES:BOX` describes it."""
        _, kind, swizzle, sizes, box = spec.split(":")
        kind, _, nan = kind.partition("+")
        types = ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32ftz", "tf32"]
        element = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4][types.index(kind)]
        (sizes, strides), (box, steps) = sizes.partition("@")[::2], box.partition("/")[::2]
        numbers = lambda text: [int(x) for x in text.split("x") if x]
        sizes, strides, box, steps = map(numbers, (sizes, strides, box, steps))
        dense = [element * int(np.prod(sizes[:i])) for i in range(1, len(sizes))]
        room = (ctypes.c_uint8 * 192)()  # 128 bytes at a multiple of 64
        at = (ctypes.addressof(room) + 63) // 64 * 64
        wide, narrow = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), types.index(kind), len(sizes), address,
                  wide(*sizes), wide(*(strides or dense)), narrow(*box), narrow(*(steps or [1] * 5)), 0,
                  {"0": 0, "32": 1, "64": 2, "128": 3}[swizzle], 0, int(bool(nan)))
        return room, at

    def run(self, test):
        """The outputs, as arrays."""
        module = self.load(test.ptx)
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, test.entry.encode())
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


def serve(connection, tests):
    """The process that has the GPU: numbers of tests in, results out."""
    try:
        gpu = Gpu()
        connection.send((True, (gpu.name, gpu.arch)))
        while True:
            connection.send((True, gpu.run(tests[connection.recv()])))
    except GpuError as error:
        connection.send((False, str(error)))
    except EOFError:
        pass


class GpuProcess:
    """Runs tests by their number; what went wrong is a GpuError, and the next test is not hurt by it."""

    def __init__(self, tests):
        self.tests, self.process = tests, None
        self.start()

    def start(self):
        context = multiprocessing.get_context("fork")  # libcuda is not loaded on this side
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.tests), daemon=True)
        self.process.start()
        other.close()
        self.name, self.arch = self.receive()

    def receive(self):
        problem = f"no result within {PATIENCE} s"
        try:
            if self.connection.poll(PATIENCE):
                well, result = self.connection.recv()
                if well:
                    return result
                problem = result
        except EOFError:
            problem = "its process ended"
        self.stop()
        raise GpuError(problem)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.join()
            self.connection.close()
        self.process = None

    def run(self, number):
        if not self.process:
            self.start()
        self.connection.send(number)
        return self.receive()


def simulate(simrun, test, scratch, options=()):
    ptx = re.sub(r"\.target \w+", f".target {test.simulated}", test.ptx) if test.simulated else test.ptx
    (scratch / "k.ptx").write_text(ptx)
    command = [simrun, str(scratch / "k.ptx"), "--grid", ",".join(map(str, test.grid)),
               "--block", ",".join(map(str, test.block)), "--shared", str(test.shared), *options]
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
    if done.returncode == 3:
        raise Found(done.stdout.strip()[:400])
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


class Row:
    """The counts of a group."""

    def __init__(self):
        self.tests = self.agree = self.skipped = self.elements = 0
        self.worst = 0.0


def judge(options, test, silicon, fault, row):
    """Compares a test's result on the GPU, or its fault, with the simulator's: a problem or None."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            simulated = simulate(options.sim, test, pathlib.Path(directory))
    except Found as found:
        return None if fault or test.faults else f"simulator: {found}"
    except (GpuError, subprocess.TimeoutExpired) as error:
        return f"simulator: {error}"
    if fault or test.faults:
        return f"GPU: {fault or 'no fault'}; the simulator finds nothing"
    if options.sim_only:
        return None
    for g, s in zip(silicon, simulated):
        bad, worst, text = compare(test, g, s)
        row.elements += g.size
        row.worst = max(row.worst, worst / test.rule.tolerance if test.rule.tolerance else 0.0)
        if bad:
            return (f"{bad} of {g.size} elements differ, worst {worst:.3g} "
                    f"(allowed {test.rule.tolerance:g}); {text}")
    return None


class Recording:
    """What a GPU gave: arrays by test and number, or the text of its fault."""

    def __init__(self, path=None):
        self.arrays = dict(np.load(path)) if path else {}

    def result(self, test):
        """(arrays, fault), or None if there is none."""
        key = f"{checksum(test):08x}"
        if f"{key}.fault" in self.arrays:
            return [], str(self.arrays[f"{key}.fault"])
        if f"{key}.0" not in self.arrays:
            return None
        written = [k for k, _ in test.args if k in ("out", "inout", "map")][:test.outputs]
        return [self.arrays[f"{key}.{i}"] for i in range(len(written))], None

    def add(self, test, arrays, fault):
        key = f"{checksum(test):08x}"
        for old in [k for k in self.arrays if k.startswith(key)]:
            del self.arrays[old]
        if fault:
            self.arrays[f"{key}.fault"] = np.array(fault)
        for i, array in enumerate(arrays):
            self.arrays[f"{key}.{i}"] = array

    def without_test(self, tests):
        """Keys of what belongs to none of these tests."""
        used = {f"{checksum(test):08x}" for test in tests}
        return {key for key in self.arrays if key[:8] not in used}

    def save(self, path, tests):
        """What belongs to one of these tests."""
        left_out = self.without_test(tests)
        np.savez_compressed(path, **{k: v for k, v in self.arrays.items() if k not in left_out})


def options_of():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sim", help="the simulator's driver, simrun")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--recorded", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--sim-only", action="store_true")
    parser.add_argument("--only", default="", help="tests whose name holds this")
    options = parser.parse_args()
    if not options.sim and (options.sim_only or options.recorded or not options.out):
        parser.error("--sim, or --out alone to record, is needed")
    return options


def main():
    options = options_of()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    log = Log(options.out / "silicon.txt" if options.out else None)
    every = list(silicon_cases.all_tests())
    tests = [t for t in every if options.only in t.name]
    recorded = Recording(options.recorded) if options.recorded else None
    made = Recording(options.keep)
    gpu = None if options.sim_only or recorded else GpuProcess(tests)
    if gpu:
        log(f"{gpu.name}, sm_{gpu.arch}")
    groups, problems, unread = {}, [], 0
    if recorded:
        problems += [f"recording {key}: no test has it any more" for key in sorted(recorded.without_test(every))]
    for number, test in enumerate(tests):
        row = groups.setdefault(test.group, Row())
        silicon, fault = [], None
        if gpu and gpu.arch < test.arch:
            row.skipped += 1
            continue
        if gpu:
            try:
                silicon = gpu.run(number)
            except GpuError as error:
                fault = str(error)
                log(f"FAULT {test.name}: {fault}")
            if test.faults and not fault:
                log(f"NO FAULT {test.name}")
            made.add(test, silicon, fault)
        elif recorded:
            result = recorded.result(test)
            if result is None:
                row.skipped += 1
                unread += 1
                if options.all:
                    problems.append(f"{test.name}: is not in the recording")
                continue
            silicon, fault = result
        row.tests += 1
        problem = judge(options, test, silicon, fault, row) if options.sim else None
        if not options.sim and fault and not test.faults:
            problem = f"GPU: {fault}"
        if problem:
            problems.append(f"{test.name}: {problem}")
        row.agree += problem is None
    if options.out and gpu:
        made.save(options.out / "silicon.npz", every)
        gpu.stop()
    for problem in problems:
        log("DIFFERS " + problem)
    log(f"{'group':<28}{'tests':>7}{'agree':>7}{'skipped':>9}{'elements':>10}  worst, of the allowed")
    for name, row in groups.items():
        log(f"{name:<28}{row.tests:>7}{row.agree:>7}{row.skipped:>9}{row.elements:>10}"
            f"  {100 * row.worst:.0f} %")
    total, agree = (sum(getattr(row, key) for row in groups.values()) for key in ("tests", "agree"))
    log(f"{total} tests, {agree} agree, {total - agree} do not"
        + (f"; {unread} are not in the recording" if unread else ""))
    return 0 if not problems and total else 1


if __name__ == "__main__":
    sys.exit(main())
