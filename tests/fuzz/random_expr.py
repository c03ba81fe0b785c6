"""random_expr.py - random expressions of the tile language, and what they mean in NumPy.

Every expression is made together with a function that computes it in float64, so the expected
result owes nothing to the compiler.  Each carries a bound of its magnitude, the power of two that
it is a multiple of (while f32 arithmetic on it is exact in any order) and a bound of its rounding
error; choices that hang on a value (comparisons, floor, casts to i32) are made of exact ones only.
"""

import numpy as np

MANTISSA = {"f32": 24, "f16": 11, "bf16": 8, "i32": 31}
EPS = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
LIMIT = {"f32": 1e30, "f16": 60000.0, "bf16": 1e30, "i32": 2.0**30}
FLOATS = ("f32", "f16", "bf16")


def to_bits(x, dtype):
    """An array as tilerun reads it: bf16 travels as its bits."""
    if dtype == "bf16":
        bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.asarray(x).astype({"f16": np.float16, "f32": np.float32, "i32": np.int32}[dtype])


def from_bits(x, dtype):
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return x.astype(np.int64 if dtype == "i32" else np.float64)


def rounded(x, dtype):
    if dtype in FLOATS:
        with np.errstate(over="ignore"):
            return from_bits(to_bits(x, dtype), dtype)
    return x


class Axis:
    """One dimension of tiles: a constant extent, or the range of a grid or loop variable."""

    def __init__(self, extent, name=None, size=None):
        self.extent, self.name, self.size = extent, name, size  # size: of the tensors' dimension


class Expr:
    """`tags`: for each axis the ranges whose padding is in the value.  A range with a '?' is one
    whose padding is not the same everywhere: such an axis is not reduced."""

    def __init__(self, text, dtype, axes, fn, mag=0.0, grain=1.0, err=0.0, ninf=False, tags=None):
        self.text, self.dtype, self.axes, self.fn = text, dtype, tuple(axes), fn
        self.mag, self.grain, self.err, self.ninf = mag, grain, err, ninf
        self.tags = tags if tags is not None else tuple(frozenset() for _ in axes)

    @property
    def exact(self):
        return self.err == 0

    def renamed(self, text, fn):
        return Expr(text, self.dtype, self.axes, fn, self.mag, self.grain, self.err, self.ninf,
                    self.tags)


class Reject(Exception):
    """The expression would leave the bounds within which results can be compared."""


def settle(dtype, mag, grain, err):
    """(mag, grain, err) of a result that is rounded to dtype."""
    if mag > LIMIT[dtype]:
        raise Reject
    if dtype == "i32":
        return mag, 1.0, 0.0
    exact = err == 0 and mag <= grain * 2.0**MANTISSA[dtype] and grain >= 2.0**-14
    if not exact:
        err += EPS[dtype] * mag
    if err > 0.05 + 0.02 * mag or mag + err > LIMIT[dtype]:
        raise Reject
    return mag, grain if exact else 2.0**-40, err


def joined_tags(axes, parts):
    """Tags of an elementwise result; the parts already have its axes."""
    return tuple(frozenset().union(*(p.tags[k] for p in parts)) for k in range(len(axes)))


class Tensor:
    def __init__(self, name, mode, dtype, dims, mag, grain):
        self.name, self.mode, self.dtype, self.dims = name, mode, dtype, dims
        self.mag, self.grain, self.data, self.want = mag, grain, None, None
        self.written = None  # which elements some program stored
        self.allowed = 0.0  # error

    def declare(self, sizes):
        """With the promise of 16 bytes where it holds for every other tensor."""
        row = sizes.get(self.dims[-1], self.dims[-1]) * (2 if self.dtype in ("f16", "bf16") else 4)
        promise = " align(16)" if row % 16 == 0 and int(self.name[1:]) % 2 == 0 \
            else ""
        return (f"{self.name}: {self.mode} {self.dtype}[{', '.join(str(d) for d in self.dims)}]"
                f"{promise}")


class Env:
    """What one program of the grid sees."""

    def __init__(self, machine):
        self.machine, self.values, self.ranges = machine, {}, {}  # ranges: name: (start, end)


class Expressions:
    """The part of the generator that makes expressions."""

    # ---- small helpers ----

    def chance(self, p):
        return self.r.random() < p

    def pick(self, items):
        return items[int(self.r.integers(len(items)))]

    def number(self, lo, hi):
        return int(self.r.integers(lo, hi + 1))

    def name(self, prefix):
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def emit(self, text):
        self.lines.append("    " * self.depth + text)

    # ---- leaves ----

    def const(self, dtype):
        if dtype == "bool":
            value = self.chance(0.5)
            return Expr("true" if value else "false", "bool", (), lambda e: np.bool_(value))
        if dtype == "i32":
            value = self.number(-5, 9)
            return Expr(f"({value})", "i32", (), lambda e: np.int64(value), mag=abs(value))
        value = self.number(-8, 8) / 4
        return Expr(f"({value})", dtype, (), lambda e: np.float64(value), mag=abs(value),
                    grain=0.25)

    def scalar(self, dtype):
        """A scalar parameter (f32 or i32)."""
        have = [n for n, (t, _) in self.scalars.items() if t == dtype]
        if not have or (len(have) < 2 and self.chance(0.3)):
            name = f"{'a' if dtype == 'f32' else 'k'}{len(have)}"
            value = self.number(-6, 6) / 2 if dtype == "f32" else self.number(-3, 40)
            self.scalars[name] = (dtype, value)
            have.append(name)
        name = self.pick(have)
        value = self.scalars[name][1]
        grain = 0.5 if dtype == "f32" else 1.0
        return Expr(name, dtype, (), lambda e: np.float64(value) if dtype == "f32" else
                    np.int64(value), mag=abs(value), grain=grain)

    def load(self, dtype, axes):
        wanted = [a.size if a.name else a.extent for a in axes]
        batch = self.batch is not None and self.chance(0.4)
        dims = ([self.batch.size] if batch else []) + wanted
        have = [t for t in self.tensors if t.mode == "in" and t.dtype == dtype and t.dims == dims]
        if have and (len(self.tensors) > 6 or self.chance(0.5)):
            tensor = self.pick(have)
        elif len(self.tensors) > 9:
            raise Reject
        else:
            mag, grain = (4.0, 2.0**-30) if self.smooth and dtype != "i32" else \
                self.pick([(4.0, 1.0), (2.0, 0.25), (1.0, 1.0)])
            if dtype == "i32":
                mag, grain = float(self.pick([3, 20, 1000])), 1.0
            tensor = Tensor(f"X{len(self.tensors)}", "in", dtype, dims, mag, grain)
            self.tensors.append(tensor)
        subscripts, shifts, tags = [self.batch.name] if batch else [], [], []
        for a in axes:
            shift = self.number(-9, 9) if a.name and self.chance(0.08) else 0
            shifts.append(shift)
            subscripts.append(":" if not a.name else a.name if not shift else
                              f"{a.name} {'+' if shift > 0 else '-'} {abs(shift)}")
            tags.append(frozenset() if not a.name else frozenset([a.name + "?"]) if shift else
                        frozenset([a.name]))
        batch_name = self.batch.name if batch else None

        def fn(e):
            data = tensor.data[int(e.values[batch_name])] if batch else tensor.data
            inside = np.ones([a.extent for a in axes], bool)
            index = []
            for k, a in enumerate(axes):
                start, end = e.ranges[a.name] if a.name else (0, a.extent)
                i = start + shifts[k] + np.arange(a.extent)
                # a range may end before its dimension: what follows reads as zero
                good = (i >= 0) & (i < data.shape[k]) & (i - shifts[k] < max(end, 0) + 10**9 *
                                                         (not a.name or a.name not in e.machine.cut))
                shape = [1] * len(axes)
                shape[k] = a.extent
                inside = inside & good.reshape(shape)
                index.append(np.where(good, i, 0))
            return np.where(inside, data[np.ix_(*index)], 0)

        mag, grain = tensor.mag, tensor.grain
        return Expr(f"load {tensor.name}[{', '.join(subscripts)}]", dtype, axes, fn, mag, grain,
                    0.0, False, tuple(tags))

    def grow(self, x, axes):
        """x with more axes around it, for broadcasting against a tile of `axes`."""
        if len(x.axes) == len(axes) or not x.axes:
            if not x.axes and axes:
                return Expr(x.text, x.dtype, axes, lambda e: np.broadcast_to(
                    x.fn(e), [a.extent for a in axes]), x.mag, x.grain, x.err, x.ninf)
            return x
        at = [k for k, a in enumerate(axes) if a is x.axes[0]][0]
        text = f"{x.text}[{', '.join(':' if k == at else 'None' for k in range(len(axes)))}]"
        shape = [a.extent if k == at else 1 for k, a in enumerate(axes)]
        tags = tuple(x.tags[0] if k == at else frozenset() for k in range(len(axes)))
        return Expr(text, x.dtype, axes, lambda e: np.broadcast_to(
            np.reshape(x.fn(e), shape), [a.extent for a in axes]), x.mag, x.grain, x.err, x.ninf,
            tags)

    def leaf(self, dtype, axes, exact):
        for _ in range(8):
            have = [v for v in self.vars if v.dtype == dtype and v.axes == tuple(axes) and
                    (v.exact or not exact)]
            if have and self.chance(0.6):
                return self.pick(have)
            way = self.r.random()
            if dtype == "bool":
                return self.compare(axes, 0)
            if way < 0.5 and axes and len(axes) <= 2:
                try:
                    return self.load(dtype, axes)
                except Reject:
                    continue
            if way < 0.7 and dtype == "i32" and len(axes) == 1:
                return self.index(axes[0])
            if way < 0.8 and len(axes) == 2:
                return self.whole(self.leaf(dtype, [self.pick(axes)], exact), axes)
            if way < 0.9 and dtype in ("f32", "i32"):
                return self.spread(self.scalar(dtype), axes)
            if way < 0.92 and axes and dtype != "bool":
                c = self.const(dtype)
                dims = ", ".join(str(a.extent) for a in axes)
                grown = self.grow(c, axes)
                return grown.renamed(f"full<{dtype}>[{dims}]({c.text})", grown.fn)
        return self.spread(self.scalar(dtype), axes) if dtype in ("f32", "i32") else \
            self.typed_const(dtype, axes)

    def whole(self, x, axes):
        """x broadcast to all of a tile, by adding it to one."""
        grown = self.grow(x, axes)
        dims = ", ".join(str(a.extent) for a in axes)
        return grown.renamed(f"({grown.text} + full<{x.dtype}>[{dims}](0))", grown.fn)

    def typed_const(self, dtype, axes):
        c = self.const(dtype)
        if not axes:
            return c.renamed(f"({c.text} as {dtype})", c.fn)
        grown = self.grow(c, axes)
        dims = ", ".join(str(a.extent) for a in axes)
        return grown.renamed(f"full<{dtype}>[{dims}]({c.text})", grown.fn)

    def spread(self, x, axes):
        """A scalar as a whole tile, so that the expression has the shape it says."""
        if not axes:
            return x
        grown = self.grow(x, axes)
        dims = ", ".join(str(a.extent) for a in axes)
        if x.dtype == "bool":
            raise Reject
        return grown.renamed(f"full<{x.dtype}>[{dims}]({x.text})", grown.fn)

    def index(self, axis):
        if axis.name is None:
            return Expr(f"iota({axis.extent})", "i32", [axis], lambda e: np.arange(axis.extent),
                        mag=axis.extent)
        return Expr(axis.name, "i32", [axis],
                    lambda e: e.ranges[axis.name][0] + np.arange(axis.extent), mag=400.0,
                    tags=(frozenset([axis.name]),))

    # ---- expressions ----

    def expr(self, dtype, axes, depth, exact=None):
        axes = tuple(axes)
        exact = not self.smooth if exact is None else exact
        for _ in range(6):
            if depth <= 0 or self.budget <= 0:
                break
            try:
                made = self.operation(dtype, axes, depth - 1, exact)
            except Reject:
                continue
            if made is not None and (made.exact or not exact):
                self.budget -= 1
                return made
        return self.leaf(dtype, axes, exact)

    def elementwise(self, text, dtype, axes, parts, fn, mag, grain, err, ninf=False):
        mag, grain, err = settle(dtype, mag, grain, err) if dtype != "bool" else (1.0, 1.0, 0.0)
        return Expr(text, dtype, axes, lambda e: rounded(fn(*[p.fn(e) for p in parts]), dtype),
                    mag, grain, err, ninf, joined_tags(axes, parts))

    def finite(self, dtype, axes, depth, exact):
        x = self.expr(dtype, axes, depth, exact)
        if x.ninf:
            raise Reject
        return x

    def operand(self, dtype, axes, depth, exact):
        """An operand that may have fewer axes than the result."""
        if len(axes) == 2 and self.chance(0.2):
            return self.grow(self.expr(dtype, [self.pick(axes)], depth, exact), axes)
        if axes and self.chance(0.15):
            return self.grow(self.const(dtype), axes)
        return self.expr(dtype, axes, depth, exact)

    def operation(self, dtype, axes, depth, exact):
        if dtype == "bool":
            return self.bool_operation(axes, depth)
        if dtype == "i32":
            return self.int_operation(axes, depth)
        way = self.r.random()
        if way < 0.38:
            return self.arithmetic(dtype, axes, depth, exact)
        if way < 0.46:
            c = self.expr("bool", axes, depth)
            x = self.expr(dtype, axes, depth, exact)
            y = self.operand(dtype, axes, depth, exact)
            return self.elementwise(f"where({c.text}, {x.text}, {y.text})", dtype, axes, [c, x, y],
                                    np.where, max(x.mag, y.mag), min(x.grain, y.grain),
                                    max(x.err, y.err), x.ninf or y.ninf)
        if way < 0.53 and dtype == "f32" and len(axes) >= 1:
            x, c = self.expr(dtype, axes, depth, exact), self.mask_condition(axes, depth)
            return self.elementwise(f"mask({x.text}, {c.text})", dtype, axes, [x, c],
                                    lambda x, c: np.where(c, x, -np.inf), x.mag, x.grain, x.err,
                                    True)
        if way < 0.63:
            return self.cast(dtype, axes, depth, exact)
        if way < 0.8 and len(axes) < 2:
            return self.reduction(dtype, axes, depth, exact)
        if way < 0.84 and len(axes) == 2:
            x = self.expr(dtype, axes[::-1], depth, exact)
            return Expr(f"({x.text}).T", dtype, axes, lambda e: x.fn(e).T, x.mag, x.grain, x.err,
                        x.ninf, x.tags[::-1])
        if way < 0.95 and len(axes) == 2 and dtype == "f32":
            return self.product(axes, depth, exact)
        return self.function(dtype, axes, depth, exact)

    def arithmetic(self, dtype, axes, depth, exact):
        op = self.pick(["+", "-", "*", "min", "max", "neg", "abs", "+", "*"])
        x = self.expr(dtype, axes, depth, exact)
        if op in ("neg", "abs"):
            if x.ninf:
                raise Reject
            text = f"(-{x.text})" if op == "neg" else f"abs({x.text})"
            return self.elementwise(text, dtype, axes, [x], np.negative if op == "neg" else np.abs,
                                    x.mag, x.grain, x.err)
        y = self.operand(dtype, axes, depth, exact)
        grain, err = min(x.grain, y.grain), x.err + y.err
        if op in ("min", "max"):
            ninf = x.ninf or y.ninf if op == "min" else x.ninf and y.ninf
            return self.elementwise(f"{op}({x.text}, {y.text})", dtype, axes, [x, y],
                                    np.minimum if op == "min" else np.maximum,
                                    max(x.mag, y.mag), grain, max(x.err, y.err), ninf)
        if y.ninf or (x.ninf and op == "*"):
            raise Reject
        if op == "*":
            return self.elementwise(f"({x.text} * {y.text})", dtype, axes, [x, y], np.multiply,
                                    x.mag * y.mag, x.grain * y.grain,
                                    x.err * y.mag + y.err * x.mag + x.err * y.err)
        return self.elementwise(f"({x.text} {op} {y.text})", dtype, axes, [x, y],
                                np.add if op == "+" else np.subtract, x.mag + y.mag, grain, err,
                                x.ninf)

    def cast(self, dtype, axes, depth, exact):
        source = self.pick([t for t in ["f32", "f32", "bf16", "f16", "i32", "bool"] if t != dtype])
        x = self.expr(source, axes, depth, exact)
        mag = 1.0 if source == "bool" else x.mag
        return self.elementwise(f"({x.text} as {dtype})", dtype, axes, [x],
                                lambda x: np.asarray(x, np.float64), mag, x.grain, x.err, x.ninf)

    def other_axis(self, axes):
        choices = [a for a in list(self.ranges.values()) + self.const_axes if a not in axes]
        return self.pick(choices)

    def reduction(self, dtype, axes, depth, exact):
        whole = not axes and self.chance(0.3)
        at = self.number(0, len(axes))
        inner = list(axes)
        inner.insert(at, self.other_axis(axes))
        if whole and self.chance(0.5):
            inner.append(self.other_axis(inner))
        kind = self.pick(["any", "all"] if dtype == "bool" else ["sum", "sum", "max", "min"])
        return self.reduce_of(kind, self.expr(dtype, inner, depth, exact), at, whole)

    def reduce_of(self, kind, x, at, whole=False):
        dtype, inner, tags = x.dtype, list(x.axes), x.tags
        axes = () if whole else tuple(a for k, a in enumerate(inner) if k != at)
        over = range(len(inner)) if whole else [at]
        if any(t.endswith("?") for k in over for t in tags[k]) or \
           any(len(tags[k]) > 1 for k in over):
            raise Reject
        text = f"{kind}({x.text})" if whole else f"{kind}({x.text}, axis={at})"
        count = int(np.prod([inner[k].extent for k in over]))
        mag, grain, err, ninf = x.mag, x.grain, x.err, x.ninf
        if kind == "sum":
            exact_here = dtype == "i32" or (err == 0 and mag * count <= grain * 2.0**24)
            err = 0.0 if exact_here else count * err + count * 2.0**-23 * mag * count
            mag, grain, err = settle(dtype, mag * count, grain if exact_here else 2.0**-40, err)
        if kind in ("max", "min") and dtype in FLOATS and any(tags[k] for k in over):
            # all of an axis may be padding: the neutral value comes out
            ninf = True
            if kind == "min":
                raise Reject
        if kind in ("max", "min") and dtype == "i32" and any(tags[k] for k in over):
            raise Reject
        if kind == "min" and ninf and dtype in FLOATS and len(x.axes) and x.ninf:
            ninf = True

        def fn(e):
            value = np.asarray(x.fn(e))
            for k in over:
                for tag in tags[k]:
                    start, end = e.ranges[tag]
                    keep = max(0, min(inner[k].extent, end - start))
                    value = np.take(value, range(keep), axis=k)
            which = None if whole else at
            if kind in ("any", "all"):
                return getattr(np, kind)(value, axis=which)
            if kind == "sum":
                return rounded(np.sum(value, axis=which), dtype)
            return getattr(np, kind)(value, axis=which, initial=-np.inf if kind == "max" else
                                     np.inf) if dtype in FLOATS else \
                getattr(np, kind)(value, axis=which)

        left = () if whole else tuple(t for k, t in enumerate(tags) if k != at)
        return Expr(text, dtype, axes, fn, mag, grain, err, ninf, left)

    def product(self, axes, depth, exact):
        inner = self.pick([a for a in self.const_axes + list(self.ranges.values())
                           if a not in axes])
        dtype = self.pick(["bf16", "f16"])
        if self.chance(0.5):
            a = self.expr(dtype, [axes[0], inner], depth, exact)
            a_text = a.text
            a_fn, a_tags = a.fn, a.tags
        else:
            a = self.expr(dtype, [inner, axes[0]], depth, exact)
            a_text, a_fn, a_tags = f"({a.text}).T", lambda e: a.fn(e).T, a.tags[::-1]
        if self.chance(0.5):
            b = self.expr(dtype, [inner, axes[1]], depth, exact)
            b_text, b_fn, b_tags = b.text, b.fn, b.tags
        else:
            b = self.expr(dtype, [axes[1], inner], depth, exact)
            b_text, b_fn, b_tags = f"({b.text}).T", lambda e: b.fn(e).T, b.tags[::-1]
        if a.ninf or b.ninf:
            raise Reject
        contraction = a_tags[1] | b_tags[0]
        if any(t.endswith("?") for t in contraction) or len(contraction) > 1:
            raise Reject
        k = inner.extent
        mag = a.mag * b.mag * k
        is_exact = a.exact and b.exact and mag <= a.grain * b.grain * 2.0**22
        err = 0.0 if is_exact else k * (a.err * b.mag + b.err * a.mag + a.err * b.err) + \
            4 * k * 2.0**-23 * mag
        mag, grain, err = settle("f32", mag, a.grain * b.grain if is_exact else 2.0**-40, err)

        def fn(e):
            x, y = np.asarray(a_fn(e), np.float64), np.asarray(b_fn(e), np.float64)
            for tag in contraction:
                start, end = e.ranges[tag]
                keep = max(0, min(k, end - start))
                x, y = x[:, :keep], y[:keep]
            return rounded(x @ y, "f32")

        return Expr(f"mma({a_text}, {b_text})", "f32", axes, fn, mag, grain, err, False,
                    (a_tags[0], b_tags[1]))

    def function(self, dtype, axes, depth, exact):
        if exact or dtype != "f32":
            x = self.finite(dtype, axes, depth, exact)
            if not x.exact:
                raise Reject
            return self.elementwise(f"floor({x.text})", dtype, axes, [x], np.floor, x.mag + 1, 1.0,
                                    0.0)
        name = self.pick(["exp2", "exp", "tanh", "sin", "cos", "log2", "log", "sqrt", "rcp",
                          "rsqrt", "div"])
        x = self.expr(dtype, axes, depth, exact)
        if name in ("exp2", "exp"):
            rate = 1.0 if name == "exp2" else 1.4427
            if x.mag * rate > 8:
                raise Reject
            top = 2.0**(x.mag * rate)
            return self.elementwise(f"{name}({x.text})", dtype, axes, [x],
                                    np.exp2 if name == "exp2" else np.exp, top, 2.0**-40,
                                    top * (2 * x.err + 2.0**-18))
        if x.ninf:
            raise Reject
        if name == "tanh":
            return self.elementwise(f"tanh({x.text})", dtype, axes, [x], np.tanh, 1.0, 2.0**-40,
                                    x.err + 1.5e-3)
        if name in ("sin", "cos"):
            if x.mag > 3:
                raise Reject
            return self.elementwise(f"{name}({x.text})", dtype, axes, [x], getattr(np, name), 1.0,
                                    2.0**-40, x.err + 1e-5)
        if name == "div":
            y = self.finite(dtype, axes, depth, exact)
            return self.elementwise(f"({x.text} / (abs({y.text}) + 1.0))", dtype, axes, [x, y],
                                    lambda x, y: x / (np.abs(y) + 1), x.mag, 2.0**-40,
                                    x.err + x.mag * (y.err + 2.0**-20))
        functions = {"log2": np.log2, "log": np.log, "sqrt": np.sqrt, "rcp": lambda v: 1 / v,
                     "rsqrt": lambda v: 1 / np.sqrt(v)}
        # x + 1 is rounded
        return self.elementwise(f"{name}(abs({x.text}) + 1.0)", dtype, axes, [x],
                                lambda v: functions[name](np.abs(v) + 1), x.mag + 1, 2.0**-40,
                                1.5 * x.err + 2.0**-18 * (x.mag + 2))

    def compare(self, axes, depth):
        dtype = self.pick(["i32", "i32", "f32", "bf16"])
        x = self.expr(dtype, axes, depth, True)
        y = self.grow(self.const(dtype), axes) if axes and self.chance(0.3) else \
            self.expr(dtype, axes, depth, True)
        op, fn = self.pick([("<", np.less), ("<=", np.less_equal), (">", np.greater),
                            (">=", np.greater_equal), ("==", np.equal), ("!=", np.not_equal)])
        if not (x.exact and y.exact):
            raise Reject
        return self.elementwise(f"({x.text} {op} {y.text})", "bool", axes, [x, y], fn, 1, 1, 0)

    def mask_condition(self, axes, depth):
        """Often what masks are made of: comparisons of indices, shifted."""
        if len(axes) == 2 and self.chance(0.7):
            x = self.grow(self.index(axes[0]), axes)
            y = self.grow(self.index(axes[1]), axes)
            shift = self.scalar("i32") if self.chance(0.3) else self.const("i32")
            op, fn = self.pick([("<", np.less), ("<=", np.less_equal), (">", np.greater),
                                (">=", np.greater_equal)])
            cut = self.elementwise(f"({x.text} + {shift.text} {op} {y.text})", "bool", axes,
                                   [x, y, self.grow(shift, axes)], lambda x, y, s: fn(x + s, y),
                                   1, 1, 0)
            if self.chance(0.3):
                far = self.number(1, 30)
                low = self.elementwise(f"({x.text} - {y.text} < {far})", "bool", axes, [x, y],
                                       lambda x, y: x - y < far, 1, 1, 0)
                return self.elementwise(f"({cut.text} && {low.text})", "bool", axes, [cut, low],
                                        np.logical_and, 1, 1, 0)
            return cut
        return self.expr("bool", axes, depth)

    def bool_operation(self, axes, depth):
        way = self.r.random()
        if way < 0.5:
            return self.compare(axes, depth)
        if way < 0.65:
            x = self.expr("bool", axes, depth)
            return self.elementwise(f"(!{x.text})", "bool", axes, [x], np.logical_not, 1, 1, 0)
        if way < 0.85:
            x, y = self.expr("bool", axes, depth), self.expr("bool", axes, depth)
            op, fn = self.pick([("&&", np.logical_and), ("||", np.logical_or), ("==", np.equal),
                                ("!=", np.not_equal), ("^", np.logical_xor)])
            return self.elementwise(f"({x.text} {op} {y.text})", "bool", axes, [x, y], fn, 1, 1, 0)
        if len(axes) < 2:
            return self.reduction("bool", axes, depth, True)
        return self.mask_condition(axes, depth)

    def int_operation(self, axes, depth):
        way = self.r.random()
        if way < 0.45:
            op, fn = self.pick([("+", np.add), ("-", np.subtract), ("*", np.multiply),
                                ("min", np.minimum), ("max", np.maximum)])
            x, y = self.expr("i32", axes, depth), self.operand("i32", axes, depth, True)
            mag = x.mag * y.mag if op == "*" else x.mag + y.mag
            text = f"{op}({x.text}, {y.text})" if op.isalpha() else f"({x.text} {op} {y.text})"
            return self.elementwise(text, "i32", axes, [x, y], fn, mag, 1, 0)
        if way < 0.6:
            x, by = self.expr("i32", axes, depth), self.pick([1, 2, 3, 4, 7, 8, 10, 16])
            if self.chance(0.5):
                return self.elementwise(f"({x.text} / {by})", "i32", axes, [x],
                                        lambda v: np.trunc(v / by).astype(np.int64), x.mag, 1, 0)
            return self.elementwise(f"({x.text} % {by})", "i32", axes, [x],
                                    lambda v: np.fmod(v, by), by, 1, 0)
        if way < 0.72:
            x, y = self.expr("i32", axes, depth), self.expr("i32", axes, depth)
            op, fn = self.pick([("&", np.bitwise_and), ("|", np.bitwise_or), ("^", np.bitwise_xor)])
            return self.elementwise(f"({x.text} {op} {y.text})", "i32", axes, [x, y], fn,
                                    2 * max(x.mag, y.mag) + 2, 1, 0)
        if way < 0.78:
            x, by = self.expr("i32", axes, depth), self.number(0, 4)
            if self.chance(0.5):
                return self.elementwise(f"({x.text} << {by})", "i32", axes, [x],
                                        lambda v: np.left_shift(v, by), x.mag * 2**by, 1, 0)
            return self.elementwise(f"({x.text} >> {by})", "i32", axes, [x],
                                    lambda v: np.right_shift(v, by), x.mag + 1, 1, 0)
        if way < 0.84:
            x = self.expr("i32", axes, depth)
            return self.elementwise(f"abs({x.text})", "i32", axes, [x], np.abs, x.mag, 1, 0)
        if way < 0.9:
            source = self.pick(["bool", "f32", "bf16"])
            x = self.expr(source, axes, depth, True)
            if x.ninf or not x.exact or x.mag > 2**30:
                raise Reject
            return self.elementwise(f"({x.text} as i32)", "i32", axes, [x],
                                    lambda v: np.trunc(v).astype(np.int64), max(x.mag, 1), 1, 0)
        if len(axes) < 2:
            return self.reduction("i32", axes, depth, True)
        c = self.expr("bool", axes, depth)
        x, y = self.expr("i32", axes, depth), self.operand("i32", axes, depth, True)
        return self.elementwise(f"where({c.text}, {x.text}, {y.text})", "i32", axes, [c, x, y],
                                np.where, max(x.mag, y.mag), 1, 0)
