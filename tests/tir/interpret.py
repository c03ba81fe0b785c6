"""interpret.py - runs tile IR with NumPy: the meaning of each operation, in a line or two.

Reads what `tilec --run-pass=.. ` prints before the schedule, and runs every block of the grid one
after the other.  Written from tir.def's text and not from the compiler's code.
"""
import itertools
import re
import subprocess

import numpy as np


def part_of(text):
    """Indices, from the start on: "8", or "8 by 4 of 64" for a part of a pack; "step 2": so far apart; "open" matters to padding only."""
    length, inner, rows, step = re.match(r"(\d+)(?: by (\d+) of (\d+))?(?: step (\d+))?(?: open)?$", text).groups()
    if inner is None:
        return np.arange(int(length), dtype=np.int32) * int(step or 1)
    return np.arange(int(rows), dtype=np.int32) // int(inner) % int(length) * int(step or 1)


def round_to(x, dtype):
    """x as the element type holds it; 16-bit floats are kept in float32 arrays."""
    x = np.asarray(x)
    if dtype == "bf16":
        x = x.astype(np.float32)
        bits = x.view(np.uint32).astype(np.int64)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
        return np.where(np.isnan(x), x, rounded.view(np.float32)).astype(np.float32)
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "i32":
        return x.astype(np.int64).astype(np.int32)
    return x.astype({"f32": np.float32, "bool": bool}[dtype])


class Kernel:
    def __init__(self, name):
        self.name, self.tensors, self.grid, self.body, self.combines = name, {}, [], None, []


def read_block(lines, i):
    """The operations up to the closing brace, and the index of the line that has it."""
    ops = []
    while not lines[i].startswith("}"):
        line = lines[i]
        if not line.endswith("{"):
            ops.append(("op", line))
            i += 1
            continue
        left, right = line.split(" = ", 1) if re.match(r"%.* = (for|if) ", line) else ("", line)
        results = re.findall(r"(%\w+):", left)
        if right.startswith("for "):
            head = re.match(r"for (%\w+): i32 in (%\w+) \.\. (%\w+)(?: split\((.*?)\))?(?: masked(?:\(.*?\))?)?"
                            r"(?: carry\((.*?)\))?", right)
            carried = re.findall(r"(%\w+) = (%\w+)", head[5] or "")
            inner = re.findall(r"%\w+", head[4] or "")
            body, i = read_block(lines, i + 1)
            ops.append(("for", results, head[1], [head[2], *inner, head[3]], carried, body))
        else:
            condition = re.match(r"if (%\w+)", right)[1]
            yes, i = read_block(lines, i + 1)
            no = []
            if lines[i] == "} else {":
                no, i = read_block(lines, i + 1)
            ops.append(("if", results, condition, yes, no))
        i += 1
    return ops, i


def read(text):
    kernels, lines, i = {}, [line.strip() for line in text.split("\n")], 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("kernel "):
            kernel = Kernel(line.split()[1])
            kernels[kernel.name] = kernel
        elif line.startswith("tensor "):
            name, dtype = re.match(r"tensor (\w+): \w+ (\w+)\[", line).groups()
            kernel.tensors[name] = dtype
        elif line.startswith("grid "):
            kernel.grid.append(re.match(r"grid (\w+) = (.*?)(?: reversed)?(?: variable_trips| sliding \d+(?: short_first)?)?$", line).groups())
        elif line.startswith("combine "):
            ops, i = read_block(lines, i + 1)
            kernel.combines.append((re.findall(r"(%\w+):", line), ops))
        elif line == "body {":
            kernel.body, i = read_block(lines, i + 1)
        i += 1
    return kernels


def compile_file(tilec, path, defines, passes):
    command = [tilec, path, "--run-pass=" + ",".join(passes), "-o", "-"]
    for name, value in defines.items():
        command += ["-D", f"{name}={value}"]
    return read(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode())


ONE = {"neg": np.negative, "abs": np.abs, "not": np.invert, "exp": np.exp, "exp2": np.exp2,
       "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
       "rcp": lambda x: 1 / x, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "floor": np.floor, "round": np.rint}
TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.fmin, "max": np.fmax,
       "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
       "shr": np.right_shift, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
       "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "rem": np.fmod}
REDUCE = {"sum": np.add, "max": np.fmax, "min": np.fmin, "any": np.logical_or,
          "all": np.logical_and}


class Machine:
    """One kernel with its arguments."""

    def __init__(self, kernel, tensors, sizes, scalars):
        self.kernel, self.tensors, self.sizes, self.scalars = kernel, tensors, sizes, scalars
        self.ran = 0  # iterations of loops, to see what splitting saves

    def run(self):
        names = {**self.sizes, **self.scalars, "cdiv": lambda a, b: -(-a // b), "max": max,
                 "min": min}
        extents = [int(eval(e.replace("/", "//"), {}, names)) for _, e in self.kernel.grid]
        for index in itertools.product(*map(range, extents)):
            self.grid = dict(zip([name for name, _ in self.kernel.grid], index))
            self.block(self.kernel.body, {}, None)

    def block(self, ops, v, segment):
        for op in ops:
            if op[0] == "op" and op[1].startswith("yield"):
                return [v[name] for name in re.findall(r"%\w+", op[1])]
            if op[0] == "for":
                self.loop(op, v, segment)
            elif op[0] == "if":
                values = self.block(op[3] if v[op[2]] else op[4], v, segment)
                v.update(zip(op[1], values))
            else:
                self.simple(op[1], v, segment)
        return []

    def loop(self, op, v, segment):
        _, results, index, bounds, carried, body = op
        values = [v[initial] for _, initial in carried]
        edges = [int(v[bound]) for bound in bounds]
        for k in range(len(edges) - 1):
            for i in range(edges[k], edges[k + 1]):
                self.ran += 1
                v[index] = np.int32(i)
                v.update(zip([name for name, _ in carried], values))
                values = self.block(body, v, k if len(edges) > 2 else segment)
        v.update(zip(results, values))

    def access(self, text, v):
        """(array, index arrays, which are inside, shape of the tile)"""
        name, subscripts = re.match(r"(\w+)\[(.*?)\]", text).groups()
        array, indices, shape, pack = self.tensors[name], [], [], None
        for extent, subscript in zip(array.shape, subscripts.split(", ")):
            if subscript == ":":
                indices.append((len(shape), np.arange(extent)))
            elif "+:" in subscript:
                start, length = subscript.split(" +: ")
                at = len(shape)
                if " by " in length:  # parts of a pack: one dimension, at the first
                    pack = at = len(shape) if pack is None else pack
                indices.append((at, int(v[start]) + part_of(length)))
            else:
                indices.append((None, np.array(int(v[subscript]))))
                continue
            if indices[-1][0] == len(shape):
                shape.append(len(indices[-1][1]))
        spread = lambda at, x: x.reshape([-1 if d == at else 1 for d in range(len(shape))])
        grids = [np.broadcast_to(spread(at, x), shape) for at, x in indices]
        inside = np.ones(grids[0].shape, bool)
        for grid, extent in zip(grids, array.shape):
            inside &= (grid >= 0) & (grid < extent)
        for axis, count, part in re.findall(r"limit\((\d+), (%\w+)(?: \+: ([^)]*))?\)", text):
            place = part_of(part or str(shape[int(axis)]))
            inside &= spread(int(axis), place < int(v[count]))
        return array, grids, inside, shape

    def simple(self, line, v, segment):
        write = re.match(r"(?:(%\w+): \w+ = )?(store|atomic_add|atomic_max|atomic_min) (.*), (%\w+)$", line)
        if write:
            array, grids, inside, _ = self.access(write[3], v)
            places = tuple(grid[inside] for grid in grids)
            value = np.asarray(v[write[4]]).reshape(inside.shape)[inside]
            if write[1]:  # what was there
                v[write[1]] = array[places].reshape(()).copy() if inside.all() else array.dtype.type(0)
            if write[2] == "store":
                array[places] = value
            else:
                how = {"atomic_add": np.add, "atomic_max": np.fmax, "atomic_min": np.fmin}[write[2]]
                how.at(array, places, value)
            return
        name, dtype, dims, op, rest = re.match(r"(%\w+): (\w+)(?:\[([\d,]*)\])? = (\w+) ?(.*)$",
                                               line).groups()
        shape = tuple(int(n) for n in dims.split(",")) if dims else ()
        args = [v[arg] for arg in re.findall(r"%\w+", rest)] if op != "load" else []
        value = self.value(op, rest, args, dtype, shape, v, segment)
        assert np.shape(value) == shape, (line, np.shape(value))
        v[name] = value

    def combined(self, combine, x, y):
        """What the function makes of two tuples of arrays, element by element."""
        v = dict(zip(combine[0], [*x, *y]))
        for _, line in combine[1]:
            if line.startswith("yield"):
                return [v[name] for name in re.findall(r"%\w+", line)]
            name, dtype, op, rest = re.match(r"(%\w+): (\w+) = (\w+) ?(.*)$", line).groups()
            v[name] = self.value(op, rest, [v[arg] for arg in re.findall(r"%\w+", rest)], dtype, (), v, None)
        return []

    def scanned_by(self, op, rest, args):
        """One part of a scan of tuples by a function, or of what all of them make."""
        axis, part, number = map(int, re.search(r"axis\((\d+)\) part\((\d+)\) by \w*_(\d+)", rest).groups())
        there, *parts = (np.moveaxis(np.flip(x, axis) if op == "scan_by_back" else x, axis, 0) for x in args)
        state, has, out = [np.zeros_like(x[0]) for x in parts], np.zeros_like(there[0]), []
        for i, now in enumerate(there):
            element = [x[i] for x in parts]
            both = self.combined(self.kernel.combines[number], state, element)
            state = [np.where(now, np.where(has, b, e), s) for b, e, s in zip(both, element, state)]
            has = has | now
            out.append(state[part])
        if op == "total_by":
            out = [np.where(has, out[-1], 0)] * len(out)
        out = np.moveaxis(np.array(out), 0, axis)
        return np.flip(out, axis) if op == "scan_by_back" else out

    def value(self, op, rest, args, dtype, shape, v, segment):
        if op == "const":
            number = {"true": 1.0, "false": 0.0}.get(rest)
            return round_to(np.full(shape, float(rest) if number is None else number), dtype)
        if op == "param":
            return round_to(self.scalars[rest], dtype)
        if op == "size":
            return np.int32(self.sizes[rest])
        if op == "grid":
            return np.int32(self.grid[rest])
        if op == "iota":
            if "+:" in rest:
                return np.int32(args[0]) + part_of(rest.split(" +: ")[1])
            return np.int32(args[0]) + np.arange(shape[0], dtype=np.int32)
        if op in ONE:
            return round_to(ONE[op](args[0]), dtype)
        if op in TWO:
            return round_to(TWO[op](*args), dtype)
        if op == "div":
            quotient = np.asarray(args[0], np.float64) / args[1]
            return round_to(np.trunc(quotient) if dtype == "i32" else quotient, dtype)
        if op == "cast":
            return round_to(np.trunc(args[0]) if dtype == "i32" else args[0], dtype)
        if op == "fma":
            return round_to(np.asarray(args[0], np.float64) * args[1] + args[2], dtype)
        if op == "select":
            return round_to(np.where(*args), dtype)
        if op in ("mask", "bounds_mask"):
            live = re.search(r"segments\((\d+)\)", rest)
            if live and segment is not None and not int(live[1]) >> segment & 1:
                return args[0]
            fill = float(re.search(r"value\((.*?)\)", rest)[1]) if op == "bounds_mask" else -np.inf
            return round_to(np.where(args[1], args[0], fill), dtype)
        if op == "expand":
            return np.expand_dims(args[0], int(re.search(r"axis\((\d+)\)", rest)[1]))
        if op == "squeeze":
            return np.squeeze(args[0], int(re.search(r"axis\((\d+)\)", rest)[1]))
        if op == "broadcast":
            return np.broadcast_to(args[0], shape)
        if op == "transpose":
            return args[0].T
        if op == "reduce":
            axis = int(re.search(r"axis\((\d+)\)", rest)[1])
            return round_to(REDUCE[rest.split()[0]].reduce(args[0], axis=axis), dtype)
        if op in ("reduce_part", "spread"):
            axis = int(re.search(r"axis\((\d+)\)", rest)[1])
            length, inner, rows = map(int, re.search(r"\+: (\d+) by (\d+) of (\d+)", rest).groups())
            around = (shape[:axis], (rows // length // inner,), (inner,), shape[axis + 1:])
            if op == "spread":
                x = args[0].reshape(sum(around[:2], ()) + (1,) + sum(around[2:], ()))
                return np.repeat(x, length, axis + 1).reshape(shape)
            x = args[0].reshape(sum(around[:2], ()) + (length,) + sum(around[2:], ()))
            return round_to(REDUCE[rest.split()[0]].reduce(x, axis=axis + 1).reshape(shape), dtype)
        if op in ("scan", "scan_back"):
            axis = int(re.search(r"axis\((\d+)\)", rest)[1])
            way = (lambda x: np.flip(x, axis)) if op == "scan_back" else (lambda x: x)
            return round_to(way(REDUCE[rest.split()[0]].accumulate(way(args[0]), axis=axis)), dtype)
        if op in ("scan_by", "scan_by_back", "total_by"):
            return round_to(self.scanned_by(op, rest, args), dtype)
        if op == "sort":
            nan = np.isnan(args[0])  # before all numbers
            axis = int(re.search(r"axis\((\d+)\)", rest)[1])
            made = np.sort(np.where(nan, -np.inf, args[0]), axis=axis)
            return np.where(np.sort(~nan, axis=axis), made, np.nan).astype(args[0].dtype)
        if op == "mma":
            if len(args) == 5:
                raise NotImplementedError("a product with scales")
            return np.asarray(args[0] @ args[1] + args[2], np.float32)
        if op == "load":
            array, grids, inside, tile = self.access(rest, v)
            places = tuple(np.where(inside, grid, 0) for grid in grids)
            return np.where(inside, array[places], 0).astype(array.dtype).reshape(tile)
        raise NotImplementedError(op)


def run(kernel, tensors, sizes, scalars):
    machine = Machine(kernel, tensors, sizes, scalars)
    machine.run()
    return machine
