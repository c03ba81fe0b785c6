"""program_values.py - random expressions of the tile language, of a wanted type and shape.

The generator knows of a value no more than keeps a program legal and its numbers tame: a bound of
the magnitude, and the power of two that it is a multiple of while f32 arithmetic on it is exact
(0: it is rounded).  What a program means is the reference interpreter's business.
"""
import numpy as np

MANTISSA = {"f32": 24, "tf32": 11, "f16": 11, "bf16": 8, "e4m3": 4, "e5m2": 3}
TAME = 64.0  # floats are scaled down beyond this, so that tolerances stay small
N_AUTO, M_AUTO = 72, 104  # stand for a parameter that is `auto`: no other extent is one of them
WHOLE = 2.0**20  # and whole numbers cut off
BYTES = {"i8": (-128, 127), "u8": (0, 255)}  # without arithmetic: loads, choices, casts, equality
FLOATS8 = {"e4m3": 448.0, "e5m2": 57344.0}  # the same without equality
STORED = [*BYTES, *FLOATS8]
WHOLES = ["i32", "u32", "bool", *BYTES]
# what tensors of packed types and of scales hold: data, magnitude, grain (outside of a tensor a scale is 2^-127)
DATA = {"u4": (["q", 0, 15, 1], 15, 1.0), "i4": (["q", -8, 7, 1], 8, 1.0), "e2m1": (["q", -12, 12, 2], 6, 0.5), "e8m0": (["scales", -4, 4], 16, 0.0)}
PACKED = ["u4", "i4", "e2m1"]
MOST_WORD = 2.0**32 - 1
WORDS = ["0", "1", "0x7fffffff", "0x80000000", "0xffffffff", "0x9E3779B9", "7", "1664525"]
TYPES = ["i32", "u32", "f32", "f16", "i8", "u8", "i4", "u4", "e4m3"]  # names that the language has


class Reject(Exception):
    """This idea leads nowhere; the caller tries another."""


class Val:
    """`room`: of a variable, how much may still be added to it in all."""

    def __init__(self, text, dtype, shape=(), mag=1.0, grain=0.0, ninf=False):
        self.text, self.dtype, self.shape = text, dtype, tuple(shape)
        self.mag, self.grain, self.ninf = float(mag), grain, ninf
        self.room, self.fields, self.depth, self.order_free = 0.0, None, 0, False

    @property
    def exact(self):
        return self.grain > 0

    def named(self, text):
        return Val(text, self.dtype, self.shape, self.mag, self.grain, self.ninf)


class Axis:
    """What can stand in subscripts for one dimension of a tile: (subscript, size of the tensor) for
    each part; a range has one part, a pack several."""

    def __init__(self, extent, parts, own=False, shiftable=True):
        self.extent, self.parts, self.own, self.shiftable = extent, parts, own, shiftable


class Tensor:
    def __init__(self, name, mode, dtype, dims, align, data, mag, grain):
        self.name, self.mode, self.dtype, self.dims, self.align = name, mode, dtype, dims, align
        self.data, self.mag, self.grain = data, mag, grain
        self.whole = False  # every element of it is written
        self.ends = False  # what is written may be at the limits of its type
        self.follows = {}  # by dimension: an expression of other sizes that it is

    def declare(self):
        dims = ", ".join(str(self.follows.get(k, d)) for k, d in enumerate(self.dims))
        return f"{self.name}: {self.mode} {self.dtype}[{dims}]{self.align}"


def settle(dtype, shape, text, mag, grain):
    if dtype in MANTISSA and mag > grain * 2.0**MANTISSA[dtype]:
        grain = 0.0
    if grain < 2.0**-20:
        grain = 0.0
    return Val(text, dtype, shape, mag, 1.0 if dtype in WHOLES else grain)


class Values:
    """Wants of the class that uses it: r, half, scope, axes, extents(), budget, tensors, sizes,
    scalars, helpers (functions of the file)."""

    folding = False # what is made now is folded

    def chance(self, p):
        return self.r.random() < p

    def pick(self, items):
        return items[int(self.r.integers(len(items)))]

    def number(self, lo, hi):
        return int(self.r.integers(lo, hi + 1))

    def fresh_name(self, prefix):
        self.fresh += 1
        if f"{prefix}{self.fresh}" in TYPES:
            self.fresh += 1
        return f"{prefix}{self.fresh}"

    # ---- sizes, scalars, tensors ----

    def size(self, near=None, most=3):
        """The name of a size: one that is there, or a new one, for ranges of `near` elements."""
        known = [n for n, v in self.sizes.items() if near is None or v <= near * most]
        if known and self.chance(self.known_sizes):
            return self.pick(known)
        near = near or self.pick([4, 8, 20])
        roll = self.r.random()
        if roll < 0.05:
            value = 0
        elif roll < 0.12:
            value = 1
        elif roll < 0.3:
            value = near * self.number(1, most)
        else:
            value = self.number(1, near * most)
        name = f"S{len(self.sizes)}"
        self.sizes[name] = value
        return name

    def param(self, dtype):
        """A scalar parameter."""
        known = [n for n, (t, v) in self.scalars.items() if t == dtype and (abs(v) <= 64 or t == "u32")]
        if known and self.chance(0.6):
            name = self.pick(known)
        else:
            name = f"{dtype[0]}p{len(self.scalars)}"
            value = self.number(-4, 9) if dtype == "i32" else int(self.pick(WORDS), 0) if dtype == "u32" else self.number(-8, 8) / 4
            self.scalars[name] = (dtype, value)
        self.used_scalars.add(name)
        value = self.scalars[name][1]
        return Val(name, dtype, (), abs(value), 0.25 if dtype == "f32" else 1.0)

    def data_for(self, dtype):
        """(data, mag, grain): see case.py."""
        if dtype == "bool":
            return ["q", 0, 1, 1], 1, 1.0
        if dtype in DATA:
            return DATA[dtype]
        if dtype == "i32":
            top = self.pick([3, 6, 20])
            return ["q", self.pick([0, -top]), top, 1], top, 1.0
        if dtype == "u32":
            return ["words"], MOST_WORD, 1.0
        if dtype in BYTES:
            lo, hi = self.pick([BYTES[dtype], (0, 5)])
            return ["q", lo, hi, 1], max(-lo, hi), 1.0
        if dtype in FLOATS8:
            roll = self.r.random()
            if roll < 0.08:  # the greatest one is a number, too
                return ["q", -7, 7, 7 / FLOATS8[dtype]], FLOATS8[dtype], FLOATS8[dtype] / 7
            if roll < 0.5:
                return ["q", -3, 3, 1], 3, 1.0
        if self.odd and self.chance(0.6):
            return ["odd", -16, 16, 8], 2, 0.0
        roll = self.r.random()
        if roll < 0.3:
            return ["q", -3, 3, 1], 3, 1.0
        if roll < 0.8:
            return ["q", -16, 16, 8], 2, 0.125
        return ["wide", 0.7], 3.5, 0.0

    def tensor(self, mode, dtype, dims, data=None, mag=None, grain=None):
        dims = list(dims)
        for t in self.tensors:
            only = t.name[0] == "U" and t.follows  # its array has that shape, and no other kernel has the expression
            if mode == "in" and t.mode == "in" and t.dtype == dtype and t.dims == dims and \
               data is None and not only and self.chance(0.7):
                self.used.add(t.name)
                return t
        if data is None:
            data, mag, grain = self.data_for(dtype)
        width = {"f16": 2, "bf16": 2, "bool": 1, **dict.fromkeys([*STORED, *DATA], 1)}.get(dtype, 4)
        align = ""
        beside = PACKED if self.weighed else ("f32", "i8", "i32", "bool") if self.copied else ()
        if self.tight and isinstance(dims[-1], str) and len(dims) > 1 and dtype in ("f16", "bf16", *self.factors, *self.unrounded, *beside):
            align = " align(16)"
        elif self.chance(0.35 if isinstance(dims[-1], str) else 0.2):
            least = 16 if self.tight and (width == 2 or dtype in (*self.factors, *self.unrounded)) else width
            align = f" align({self.pick([a for a in (4, 8, 16, 16, 32) if a >= least])})"
        name = f"{ {'in': 'X', 'out': 'Y', 'inout': 'Z'}[mode]}{len(self.tensors)}"
        made = Tensor(name, mode, dtype, dims, align, data, mag, grain)
        self.tensors.append(made)
        self.used.add(name)
        return made

    # ---- subscripts ----

    def shift_text(self):
        """What is added to a range: known when compiled, a parameter, or loaded."""
        roll = self.r.random()
        if roll < 0.5:
            return self.pick([" + 1", " - 1", " + 2", " - 5", " + 7"])
        ints = self.scalars_in_scope()
        if roll < 0.7 and ints:
            return f" {self.pick('+-')} {self.pick(ints).text}"
        return f" {self.pick('+-')} {self.param('i32').text}"

    def strided(self, sub, size):
        """Indices of a range that lie apart, and the size of a dimension that has them, or some of them."""
        by = self.pick([1, 2, 2, 3, 5])
        text = f"{sub} * {by}" if self.chance(0.6) else f"{by} * ({sub} + {self.number(0, 3)})"
        if self.chance(0.4):
            text += self.pick([" + 1", " - 1", " + 3", " - 4"])
        many = self.number(1, 60) if isinstance(size, str) or self.chance(0.3) else by * size + self.number(-2, 2)
        return text, min(max(many, 1), 400)

    def inside(self, text, size):
        """A scalar subscript lies in its dimension."""
        return f"min(max({text}, 0), {size - 1})" if size > 1 else "0"

    def scalars_in_scope(self):
        return [v for v in self.scope if v.dtype == "i32" and v.shape == () and v.mag <= 64]

    def dimension(self, extent):
        """[(subscript, size of the tensor)] for one dimension of a tile."""
        fits = [a for a in self.axes if a.extent == extent]
        if fits and self.chance(0.85):
            axis = self.pick(fits)
            parts = list(axis.parts)
            if axis.shiftable and self.chance(0.12):
                k = self.number(0, len(parts) - 1)
                sub, size = parts[k]
                parts[k] = (sub + self.shift_text(), size)
            elif axis.shiftable and self.chance(0.02 if self.tight else 0.08):
                k = self.number(0, len(parts) - 1)
                parts[k] = self.strided(*parts[k])
            if len(parts) > 1 and self.chance(0.2):
                parts = [self.pick(parts)]
            elif len(parts) > 1 and self.chance(0.3):
                parts.reverse()
            return parts
        if self.chance(0.6):
            return [(":", extent)]
        sub = f"iota({extent})"
        if self.chance(0.1) and not self.tight:
            return [self.strided(sub, extent)]
        if self.chance(0.5):
            sub += self.shift_text()
        return [(sub, self.size(extent, 1) if self.chance(0.7) else self.number(1, extent + 3))]

    def dropped(self):
        """[(subscript, size)] of dimensions that the tile has not."""
        made = []
        for name, size in self.counts:
            if self.chance(0.55):
                made.append((name, size))
        if self.chance(0.03 if self.tight else 0.12):
            ints = self.scalars_in_scope()
            if ints and self.chance(0.7):
                size = self.number(1, 6)
                made.append((self.inside(self.pick(ints).text, size), size))
            else:
                made.append((str(self.number(0, 2)), self.number(3, 4)))
        return made[:2]

    def load(self, dtype, shape, dims=None):
        if dims is None and self.may_pack(dtype):
            return self.load_packed(dtype, shape)
        if dims is not None and self.edgy("shifted", 0.3):
            dims = self.shifted(dims)
        groups = [self.dimension(d) for d in shape] if dims is None else [[p] for p in dims]
        packed = {q[0] for a in self.axes if len(a.parts) > 1 for q in a.parts}
        names = [{p[0].split(" ")[0] for p in g} & packed for g in groups]
        if sum(1 for n in names if n) > 1 and dims is None or sum(map(len, names)) > len(set().union(set(), *names)):
            raise Reject  # parts of one pack make one dimension, and each stands once
        parts = self.listed([p for g in groups for p in g], groups, 0.0 if len(shape) > 2 else 0.01 if self.tight else 0.03)
        extra = self.dropped()
        n_extra = len(extra)
        for e in extra:  # mostly in front
            at = 0 if self.chance(0.6) else self.number(0, len(parts) - (1 if self.tight and parts else 0))
            parts.insert(at, e)
        if not parts:
            parts = [(str(self.number(0, 2)), self.number(3, 4))]
        if len(parts) > 6 or (n_extra and len(parts) > 5) or (dtype in PACKED and not self.may_end_row(parts)):
            raise Reject
        tensor = self.tensor("in", dtype, [size for _, size in parts])
        subs = ", ".join(sub for sub, _ in parts)
        return Val(f"(load {tensor.name}[{subs}])", dtype, shape, tensor.mag, tensor.grain)

    # ---- leaves ----

    def constant(self, dtype, positive=False):
        """Text and value of a constant without a type of its own."""
        if dtype == "bool":
            return self.pick([("true", 1), ("false", 0)])
        if dtype == "u32":
            text = self.pick(WORDS)
            return text, int(text, 0)
        value = self.number(1 if positive else 0 if dtype == "u8" else -5, 7)
        if dtype not in WHOLES:
            value = value / self.pick([1, 2, 4]) if not positive or value else 1.0
        text = str(value)
        return (f"({text})" if value < 0 else text), value

    def leaf(self, dtype, shape):
        known = [v for v in self.scope if v.dtype == dtype and v.shape == shape and not v.ninf]
        if known and self.chance(0.6):
            return self.pick(known[-6:])
        if shape == () and dtype in ("f32", "i32", "u32") and self.chance(0.5):
            return self.param(dtype)
        if dtype == "i32" and len(shape) == 1 and self.chance(0.5):
            fits = [a for a in self.axes if a.extent == shape[0]]
            if fits:
                sub, size = self.pick(self.pick(fits).parts)
                return Val(f"({sub})", "i32", shape, 300, 1.0)
            return Val(f"iota({shape[0]})", "i32", shape, shape[0], 1.0)
        if shape and self.chance(0.08):
            text, value = self.constant(dtype)
            dims = ", ".join(map(str, shape))
            return Val(f"full<{dtype}>[{dims}]({text})", dtype, shape, abs(value), 0.25)
        return self.load(dtype, shape)

    # ---- shapes that grow ----

    def grown(self, v, shape):
        """The text of a value that broadcasts to `shape`."""
        if v.shape == shape or v.shape == ():
            return v.text
        if len(shape) == 2 and len(v.shape) == 1:
            if v.shape[0] == shape[0] and (v.shape[0] != shape[1] or self.chance(0.5)):
                return f"{v.text}[:, None]"
            if v.shape[0] == shape[1]:
                return v.text if self.chance(0.3) else f"{v.text}[None, :]"
        raise Reject

    def operands(self, dtype, shape, depth, n=2):
        """`n` values, as text that together has the shape."""
        if len(shape) == 2 and n == 2 and self.chance(0.15):
            a, b = self.expr(dtype, shape[:1], depth - 1), self.expr(dtype, shape[1:], depth - 1)
            pair = [(a, f"{a.text}[:, None]"), (b, f"{b.text}[None, :]")]
            return pair if self.chance(0.5) else pair[::-1]
        made, full = [], self.number(0, n - 1)
        for k in range(n):
            want = shape
            if k != full and shape and self.chance(0.35):
                want = self.pick([(), shape[:1], shape[-1:]])
            v = self.expr(dtype, want, depth - 1)
            made.append((v, self.grown(v, shape)))
        return made

    def tame(self, v, most=TAME):
        """The value scaled down by a power of two where it may be large."""
        if v.mag <= most or v.dtype in (*STORED, "u32"):
            return v
        if v.dtype == "i32":
            return Val(f"min(max({v.text}, -{int(most)}), {int(most)})", "i32", v.shape, most, 1.0)
        by = float(2.0**-np.ceil(np.log2(v.mag / most)))
        return settle(v.dtype, v.shape, f"({v.text} * {by!r})", v.mag * by, v.grain * by)

    # ---- expressions ----

    def expr(self, dtype, shape, depth=2, exact=False):
        shape = tuple(shape)
        self.budget -= 1
        for _ in range(12):
            try:
                if depth <= 0 or self.budget < 0 or self.chance(0.15):
                    v = self.leaf(dtype, shape)
                else:
                    v = getattr(self, "some_" + ("half" if dtype in ("f16", "bf16") else "byte" if dtype in BYTES else
                                          "float8" if dtype in FLOATS8 else dtype))(
                        dtype, shape, depth)
            except Reject:
                continue
            if v.ninf or (exact and not v.exact):
                continue
            return self.tame(v, WHOLE if dtype == "i32" else TAME)
        return self.plain(dtype, shape)

    def plain(self, dtype, shape):
        """A load that is exact; used where nothing else came of it."""
        parts = [(":", d) if self.chance(0.3) else (f"iota({d})", d) for d in shape]
        parts = parts or [("0", 1)]
        data = ["q", 0, 1 if dtype == "bool" else 4, 1] if dtype in ("bool", "u8", "u32") else ["q", -4, 4, 1 if dtype in WHOLES else 2]
        t = self.tensor("in", dtype, [s for _, s in parts], data, 4, 0.5)
        subs = ", ".join(sub for sub, _ in parts)
        return Val(f"(load {t.name}[{subs}])", dtype, shape, 4, 1.0 if dtype in WHOLES else 0.5)

    def larger(self, shape):
        """A shape with one more dimension, and which: what a reduction comes from."""
        if len(shape) >= 2:
            raise Reject
        extent = self.pick(self.extents())
        axis = self.number(0, len(shape))
        made = shape[:axis] + (extent,) + shape[axis:]
        if np.prod(made) > self.most_elements:
            raise Reject
        return made, axis

    def reduced(self, name, dtype, shape, depth):
        if shape == () and self.chance(0.6):
            inner = tuple(self.pick(self.extents()) for _ in range(self.number(1, 2)))
            if np.prod(inner) > self.most_elements:
                raise Reject
            v, how = self.expr(dtype, inner, depth - 1), ""
        else:
            inner, axis = self.larger(shape)
            v = self.expr(dtype, inner, depth - 1)
            how = f", axis={axis if self.chance(0.7) else axis - len(inner)}"
        n = np.prod(inner) / max(1, np.prod(shape)) if name == "sum" else 1
        return settle(dtype, shape, f"{name}({v.text}{how})", v.mag * n, v.grain)

    def placed(self, shape, depth):
        """Where the greatest is, or the least: exact numbers, so that it is known."""
        inner, axis = self.larger(shape)
        v = self.expr(self.pick(["i32", "f32", self.half]), inner, depth - 1, exact=True)
        return Val(f"{self.pick(['argmax', 'argmin'])}({v.text}, axis={axis})", "i32", shape, inner[axis], 1.0)

    def topped(self, dtype, shape, depth):
        """Of the greatest along an axis, in order: values, or places."""
        axis = self.number(0, len(shape) - 1)
        inner = shape[:axis] + (self.pick(self.extents()),) + shape[axis + 1:]
        if shape[axis] > 64 or np.prod(inner) > self.most_elements:
            raise Reject
        v = self.expr(dtype if dtype != "i32" or self.chance(0.5) else self.pick(["f32", self.half]), inner, depth - 1, exact=True)
        part = 1 if v.dtype != dtype or (dtype == "i32" and self.chance(0.5)) else 0
        text = f"top({v.text}, {shape[axis]}, axis={axis}).{part}"
        if part == 1:
            return Val(text, "i32", shape, inner[axis], 1.0)
        if dtype == "u32":  # 0 is a number like any other
            return Val(text, dtype, shape, MOST_WORD, 1.0)
        text = f"max({text}, {-1 - int(min(v.mag, WHOLE))})"  # instead of what is missing
        return settle(dtype, shape, text, max(v.mag, 1) + 1, v.grain)

    def in_order(self, dtype, shape, depth):
        v = self.expr(dtype, shape, depth - 1)
        most = 1 + int(min(v.mag, WHOLE))  # instead of what is missing
        text = f"sort({v.text}, axis={self.number(0, len(shape) - 1)})"
        if dtype != "u32":
            text = f"min({text}, {most})"
        return settle(dtype, shape, text, max(v.mag, most), v.grain)

    def scanned(self, dtype, shape, depth):
        axis, name = self.number(0, len(shape) - 1), self.pick(["cumsum", "cumsum", "cummax"])
        v = self.expr(dtype, shape, depth - 1)
        n = shape[axis] if name == "cumsum" else 1
        how = f"axis={axis}" + self.pick(["", "", ", reverse=true"])
        return settle(dtype, shape, f"{name}({v.text}, {how})", v.mag * n, v.grain)

    def folded(self, dtype, shape, depth):
        """A reduction along one of a folded axis' dimensions, or arithmetic with what is spread along the inner one.  What is
        folded has its padding at the end: nothing of packs."""
        axis, kept = self.number(0, len(shape) - 1), (self.axes, self.scope)
        around = lambda n: shape[:axis] + (n,) + shape[axis + 1:]
        q, n = self.pick([1, 2, 3, 4, 8, 16]), shape[axis]
        spreads = dtype != "bool" and self.chance(0.5)
        # of an extent that may come to be another, or stands for a constant
        if {N_AUTO, M_AUTO} & {n, n * q, n // q} or any(self.true_extent(e) != e for e in (n, n * q, n // q)):
            raise Reject
        if self.folding or (not spreads and np.prod(shape) * q > self.most_elements) or (spreads and n % q != 0):
            raise Reject
        self.folding, self.axes, self.scope = True, [a for a in kept[0] if len(a.parts) == 1], [v for v in kept[1] if v.shape == ()]
        try:
            v = self.expr(dtype, shape if spreads else around(n * q), depth - 1)
            w = self.expr(dtype, around(n // q), depth - 1) if spreads else None
        finally:
            self.folding, (self.axes, self.scope) = False, kept
        if spreads:
            name, at = self.pick("+-"), ", ".join([":"] * (axis + 1) + ["None"] + [":"] * (len(shape) - axis - 1))
            return settle(dtype, shape, f"unfold((fold({v.text}, {axis}, {q}) {name} {w.text}[{at}]), {axis})", v.mag + w.mag, min(v.grain, w.grain))
        name, inner = self.pick(["any", "all"] if dtype == "bool" else ["sum", "sum", "max", "min"]), self.chance(0.5)
        text = f"{name}(fold({v.text}, {axis}, {q if inner else n}), axis={axis + inner})"
        if name in ("max", "min") and dtype != "u32": # of nothing but padding
            bound = int(np.ceil(v.mag)) + 1
            text = f"{name}({text}, {'-' if name == 'max' else ''}{bound})"
            return settle(dtype, shape, text, bound, min(v.grain, 1.0))
        return settle(dtype, shape, text, v.mag * (q if name == "sum" else 1), v.grain)

    def deep(self, dtype, shape):
        """A reduction of a tile of three ranges, beside one of two that grows."""
        axis, kept, how = self.number(0, 2), self.axes, self.pick(["sum", "sum", "max", "min"])
        made = shape[:axis] + (self.pick([1, 2, 3, 4, 8]),) + shape[axis:]
        if np.prod(made) > self.most_elements or self.folding:
            raise Reject
        self.axes = [a for a in kept if len(a.parts) == 1]
        try:
            v, w = (self.tame(self.load(dtype, s), WHOLE if dtype == "i32" else TAME) for s in (made, made[1:]))
        finally:
            self.axes = kept
        if v.ninf or w.ninf:
            raise Reject
        mag, grain, terms = v.mag + w.mag, min(v.grain, w.grain), f"{v.text} {self.pick('+-')} {w.text}"
        if how == "sum":
            return settle(dtype, shape, f"sum({terms}, axis={axis})", mag * made[axis], grain)
        if dtype == "u32":
            return Val(f"{how}({terms}, axis={axis})", dtype, shape, MOST_WORD, 1.0)
        bound = int(np.ceil(mag)) + 1 # of nothing but padding
        text = f"{how}({how}({terms}, axis={axis}), {'-' if how == 'max' else ''}{bound})"
        return settle(dtype, shape, text, bound, min(grain, 1.0))

    def transposed(self, dtype, shape, depth):
        if dtype not in ("bool", *STORED) and len(shape) == 2 and self.chance(0.15):
            return self.deep(dtype, shape)
        if dtype not in STORED and len(shape) > 0 and self.chance(0.25):
            return self.folded(dtype, shape, depth)
        if dtype not in ("bool", *STORED) and len(shape) > 0 and self.chance(0.5):
            return self.pick([self.topped, self.in_order, self.scanned, self.scanned, self.by_function, self.by_function])(dtype, shape, depth)
        if len(shape) != 2:
            raise Reject
        v = self.expr(dtype, shape[::-1], depth - 1)
        return Val(f"({v.text}).T", dtype, shape, v.mag, v.grain)

    def chosen(self, dtype, shape, depth):
        c = self.expr("bool", shape if self.chance(0.7) else self.pick([(), shape[:1], shape]), depth - 1)
        (a, x), (b, y) = self.operands(dtype, shape, depth)
        if self.chance(0.2):
            y, value = self.constant(dtype)
            b = Val(y, dtype, (), abs(value), 0.25)
            if a.shape != shape:
                raise Reject
        return settle(dtype, shape, f"where({self.grown(c, shape)}, {x}, {y})", max(a.mag, b.mag),
                      min(a.grain, b.grain))

    def arithmetic(self, dtype, shape, depth):
        if self.by_library(0.2):
            return self.fused(dtype, shape, depth)
        op = self.pick("++--**" if dtype != "i32" else "++--*")
        if self.chance(0.35):
            a = self.expr(dtype, shape, depth - 1)
            text, value = self.constant(dtype)
            b, x, y = Val(text, dtype, (), abs(value), 0.25), a.text, text
            if dtype == "i32":
                b.grain = 1.0
            if self.chance(0.3):
                x, y = y, x
        else:
            (a, x), (b, y) = self.operands(dtype, shape, depth)
        if op == "*":
            if dtype == "i32" and a.mag * b.mag > 2**28:
                raise Reject
            return settle(dtype, shape, f"({x} * {y})", a.mag * b.mag, a.grain * b.grain)
        return settle(dtype, shape, f"({x} {op} {y})", a.mag + b.mag, min(a.grain, b.grain))

    def extreme(self, dtype, shape, depth):
        (a, x), (b, y) = self.operands(dtype, shape, depth)
        return settle(dtype, shape, f"{self.pick(['max', 'min'])}({x}, {y})", max(a.mag, b.mag),
                      min(a.grain, b.grain))

    def unary(self, dtype, shape, depth):
        name = self.pick(["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp", "tanh", "sin", "cos", "abs",
                          "neg", "floor", "round", "div"])
        if name in self.own_names:
            raise Reject
        v = self.expr(dtype, shape, depth - 1, exact=name in ("floor", "round"))
        if name == "neg":
            return settle(dtype, shape, f"(-{v.text})", v.mag, v.grain)
        if name == "abs":
            return settle(dtype, shape, f"abs({v.text})", v.mag, v.grain)
        if name in ("floor", "round"):
            return settle(dtype, shape, f"{name}({v.text})", v.mag + 1, 1.0)
        if name in ("exp", "exp2"):
            v = self.tame(v, 3.0)
            return Val(f"{name}({v.text})", dtype, shape, 24.0)
        if name in ("tanh", "sin", "cos"):
            v = self.tame(v, 8.0)
            return Val(f"{name}({v.text})", dtype, shape, 1.0)
        safe = f"(abs({v.text}) + 0.5)"
        if name == "div":
            u = self.expr(dtype, shape, depth - 1)
            return Val(f"({u.text} / {safe})", dtype, shape, 2 * u.mag)
        return Val(f"{name}({safe})", dtype, shape, {"sqrt": v.mag**0.5 + 1, "log": 5, "log2": 7}.get(name, 2.0))

    def product(self, shape, depth, types=None):
        if len(shape) != 2:
            raise Reject
        k = self.pick([16, 32, 64]) if types == "scales" else self.pick(self.extents())
        if max(shape[0] * k, shape[1] * k) > self.most_elements or self.products <= 0:
            raise Reject
        self.products -= 1
        if types == "scales":
            return self.scaled(shape, k, depth)
        left, right = types or (self.half, self.half)
        a, b = self.factor(left, (shape[0], k), depth - 1), self.factor(right, (k, shape[1]), depth - 1)
        return self.multiplied(a, b)

    def scaled(self, shape, k, depth):
        """A product with scales of blocks: of one side or both."""
        sides, mag, scales = [], float(k), ""
        with_scales = self.pick([(True, True), (True, False), (False, True)])
        if self.of_packed.random() < 0.6:
            return self.own_scaled(shape, k, with_scales)
        for side, name in enumerate("ab"):
            packs = k % 32 != 0 or self.chance(0.4)
            whole = [(shape[0], k), (k, shape[1])][side]
            if packs:  # a NaN is none of an e2m1
                v = self.expr(self.pick(["f32", self.half]), whole, depth - 1)
                sides.append(f"(max({v.text} as f32, -6.0) as e2m1)")
                mag *= 6
            else:
                v = self.expr(self.pick([*FLOATS8]), whole, depth - 1)
                sides.append(v.text)
                mag *= v.mag
            if not with_scales[side]:
                continue
            nibbles = packs and (k % 32 != 0 or self.chance(0.5))
            blocks = k // (16 if nibbles else 32)
            s = self.expr("i32", [(shape[0], blocks), (blocks, shape[1])][side], depth - 1)
            scales += f", scale_{name} = ((abs({s.text}) % 32) as f32 as {'e4m3' if nibbles else 'e8m0'})"
            mag *= 32
        return self.tame(Val(f"mma({sides[0]}, {sides[1]}{scales})", "f32", shape, mag), TAME)

    def own_scaled(self, shape, k, with_scales):
        """.. of tensors as they are, with scales of just what is in them: as instructions take them."""
        r, sides, scales, mag = self.of_packed, [], "", float(k)
        nibbles = k % 32 != 0 or r.random() < 0.6
        fine = nibbles and (k % 32 != 0 or r.random() < 0.6)
        for side, name in enumerate("ab"):
            rows = shape[side]
            lines = (f"iota({rows})", rows if r.random() < 0.5 else int(r.integers(1, rows + 4)))
            v = self.load("e2m1" if nibbles or r.random() < 0.3 else [*FLOATS8][r.integers(2)], (rows, k), [lines, (":", k)])
            sides.append(v.text + ".T" * side)
            mag *= v.mag
            if with_scales[side]:
                data = (["q", 0, 15, 1], 15, 1.0) if fine else DATA["e8m0"]
                t = self.tensor("in", "e4m3" if fine else "e8m0", [lines[1], k // (16 if fine else 32)], *data)
                scales += f", scale_{name} = (load {t.name}[{lines[0]}, :])" + ".T" * side
                mag *= t.mag
        return self.tame(Val(f"mma({sides[0]}, {sides[1]}{scales})", "f32", shape, mag), TAME)

    def factor(self, dtype, shape, depth):
        if dtype != "tf32":
            return self.expr(dtype, shape, depth)
        v = self.expr(self.pick(["f32", "f32", self.half, "i32"]), shape, depth)
        return settle(dtype, shape, f"({v.text} as tf32)", v.mag, v.grain)

    def multiplied(self, a, b, acc=None):
        k = a.shape[-1]
        mag, grain, text = a.mag * b.mag * k, a.grain * b.grain, ""
        if a.dtype in FLOATS8 and (mag >= 2**13 or min(a.grain, b.grain) < 1): # sums may keep 13 bits
            grain = 0.0
        if acc is not None:
            mag, grain, text = mag + acc.mag, min(grain, acc.grain), f", {acc.text}"
        if a.dtype in FLOATS8 and self.chance(0.3):  # the sum, too
            grain, text = 0.0 if mag >= 2**13 else grain, f"{text}, fast = true"
        return settle("i32" if a.dtype in BYTES else "f32", a.shape[:-1] + b.shape[-1:], f"mma({a.text}, {b.text}{text})", mag, grain)

    def called(self, dtype, shape, depth):
        """A function of the file or of the library."""
        if dtype == "f32" and len(shape) == 1 and self.chance(0.3):
            inner = (shape[0], self.pick(self.extents()))
            if np.prod(inner) > self.most_elements:
                raise Reject
            name = self.pick(["row_sum", "row_square_sum", "row_dot", "row_logsumexp", "row_mean"])
            x = self.tame(self.expr(self.pick(["f32", self.half]), inner, depth - 1), 16.0)
            self.uses.add("reduce")
            if name == "row_dot":
                y = self.tame(self.expr(self.pick(["f32", self.half]), inner, depth - 1), 16.0)
                return Val(f"row_dot({x.text}, {y.text})", dtype, shape, 256.0 * inner[1])
            if name == "row_mean":
                return Val(f"row_mean({x.text}, {self.number(1, 9)})", dtype, shape, 16.0 * inner[1])
            mag = {"row_sum": 16.0 * inner[1], "row_square_sum": 256.0 * inner[1]}.get(name, 24.0)
            return Val(f"{name}({x.text})", dtype, shape, mag)
        if dtype == "f32" and self.chance(0.4):
            name = self.pick(["relu", "sigmoid", "silu", "gelu", "add_bias"])
            x = self.tame(self.expr(dtype, shape, depth - 1), 8.0)
            self.uses.add("epilogue")
            if name != "add_bias":
                return settle(dtype, shape, f"{name}({x.text})", 8.0, x.grain if name == "relu" else 0.0)
            if len(shape) != 2:
                raise Reject
            b = self.tame(self.expr(self.pick(["f32", self.half]), shape[1:], depth - 1), 8.0)
            return settle(dtype, shape, f"add_bias({x.text}, {b.text})", 16.0, min(x.grain, b.grain))
        helper = self.pick(self.helpers)
        x = self.tame(self.expr(dtype, shape, depth - 1), 4.0)
        a = self.param("f32") if dtype == "f32" else None
        return helper(self, x, a)

    def some_f32(self, dtype, shape, depth):
        roll = self.r.random()
        if roll < 0.3:
            return self.arithmetic(dtype, shape, depth)
        if roll < 0.38:
            return self.extreme(dtype, shape, depth)
        if roll < 0.46:
            return self.chosen(dtype, shape, depth)
        if roll < 0.58:
            return self.unary(dtype, shape, depth)
        if roll < 0.68 and len(shape) < 2:
            return self.reduced(self.pick(["sum", "sum", "max", "min"]), dtype, shape, depth)
        if roll < 0.76 and len(shape) == 2:
            return self.product(shape, depth, self.pick([(self.pick([*FLOATS8]), self.pick([*FLOATS8])), ("tf32", "tf32"), "scales"]) if self.chance(0.45) else None)
        if roll < 0.80:
            return self.transposed(dtype, shape, depth)
        if roll < 0.86:
            return self.called(dtype, shape, depth)
        if roll < 0.89:  # exponentials of what is masked
            v = self.tame(self.expr(dtype, shape, depth - 1), 3.0)
            c = self.expr("bool", shape, depth - 1)
            return Val(f"{self.pick(['exp', 'exp2'])}(mask({v.text}, {c.text}))", dtype, shape, 24.0)
        if roll < 0.92 and len(shape) == 1:  # the maximum of what is masked
            inner = (shape[0], self.pick(self.extents()))
            if np.prod(inner) > self.most_elements:
                raise Reject
            v, c = self.expr(dtype, inner, depth - 1), self.expr("bool", inner, depth - 1)
            return settle(dtype, shape, f"max(max(mask({v.text}, {c.text}), axis=1), -8.0)", max(8.0, v.mag), v.grain)
        if self.chance(0.1):
            v = self.expr("u32", shape, depth - 1)
            return Val(f"bits(({v.text} >> 9) | 0x3f800000, f32)", dtype, shape, 2.0)
        other = self.pick(["i32", "bool", "u32", self.half, self.half, *STORED])
        v = self.expr(other, shape, depth - 1)
        if other == "i32":
            v = self.tame(v, 512.0)
        return settle(dtype, shape, f"({v.text} as f32)", v.mag, v.grain)

    def some_half(self, dtype, shape, depth):
        roll = self.r.random()
        if roll < 0.5:
            v = self.expr("f32", shape, depth - 1)
            return settle(dtype, shape, f"({v.text} as {dtype})", v.mag, v.grain)
        if roll < 0.66:
            return self.arithmetic(dtype, shape, depth)
        if roll < 0.72:
            return self.extreme(dtype, shape, depth)
        if roll < 0.78:
            return self.chosen(dtype, shape, depth)
        if roll < 0.84 and len(shape) < 2:
            v = self.reduced(self.pick(["sum", "max", "min"]), dtype, shape, depth)
            return self.tame(v)
        if roll < 0.90:
            return self.transposed(dtype, shape, depth)
        if roll < 0.94:
            return self.unary(dtype, shape, depth)
        if roll < 0.97:
            v = self.expr(self.pick(STORED), shape, depth - 1)
            return self.tame(settle(dtype, shape, f"({v.text} as {dtype})", v.mag, v.grain))
        return self.load(dtype, shape)

    def some_byte(self, dtype, shape, depth):
        """Casts saturate: of anything that is exact, what it is cut to is, too."""
        roll = self.r.random()
        lo, hi = BYTES[dtype]
        if roll < 0.25:
            return self.chosen(dtype, shape, depth)
        if roll < 0.4:
            return self.transposed(dtype, shape, depth)
        if roll < 0.8:
            v = self.expr(self.pick(["i32", "i32", "u32", "f32", self.half, "bool", *(b for b in BYTES if b != dtype)]), shape, depth - 1, exact=True)
            packed, most = self.pick([("", 255), ("", 255), ("", 255), (" as u4", 15), (" as i4", 8)])
            return Val(f"({v.text}{packed} as {dtype})", dtype, shape, min(v.mag, most, max(-lo, hi)), 1.0)
        return self.load(dtype, shape)

    def some_float8(self, dtype, shape, depth):
        """Casts saturate."""
        roll = self.r.random()
        if roll < 0.25:
            return self.chosen(dtype, shape, depth)
        if roll < 0.4:
            return self.transposed(dtype, shape, depth)
        if roll < 0.8:
            v = self.expr(self.pick(["f32", "f32", self.half, "i32", "i8", *(b for b in FLOATS8 if b != dtype)]), shape, depth - 1)
            scale = self.chance(0.15) and v.mag < 2.0**100
            if scale:  # the power of two not below
                return settle(dtype, shape, f"(abs({v.text} as f32) as e8m0 as {dtype})", min(2 * v.mag + 1, FLOATS8[dtype]), 0.0)
            return settle(dtype, shape, f"({v.text} as {dtype})", min(v.mag, FLOATS8[dtype]), v.grain)
        return self.load(dtype, shape)

    def some_i32(self, dtype, shape, depth):
        roll = self.r.random()
        if roll < 0.3:
            return self.arithmetic(dtype, shape, depth)
        if roll < 0.42:
            v = self.expr(dtype, shape, depth - 1)
            op, by = self.pick(["/", "%"]), self.number(1, 9)
            return Val(f"({v.text} {op} {by})", dtype, shape, v.mag if op == "/" else by, 1.0)
        if roll < 0.47:
            (a, x), (b, y) = self.operands(dtype, shape, depth)
            op = self.pick(["/", "%"])
            return Val(f"({x} {op} (abs({y}) + 1))", dtype, shape, a.mag, 1.0)
        if roll < 0.55:
            (a, x), (b, y) = self.operands(dtype, shape, depth)
            mag = 2.0**np.ceil(np.log2(max(a.mag, b.mag) + 2))
            return Val(f"({x} {self.pick('&|^')} {y})", dtype, shape, mag, 1.0)
        if roll < 0.6:
            v = self.tame(self.expr(dtype, shape, depth - 1), 4096)
            s = self.expr(dtype, shape, 0)
            op = self.pick(["<<", ">>"])
            return Val(f"({v.text} {op} ({s.text} & 7))", dtype, shape, v.mag * 128 if op == "<<" else v.mag, 1.0)
        if roll < 0.66:
            return self.extreme(dtype, shape, depth)
        if roll < 0.75 and len(shape) == 2:
            return self.product(shape, depth, (self.pick([*BYTES]), self.pick([*BYTES])))
        if roll < 0.72:
            return self.chosen(dtype, shape, depth)
        if roll < 0.8 and len(shape) < 2:
            if self.chance(0.6):
                return self.placed(shape, depth)
            return self.reduced(self.pick(["sum", "max", "min"]), dtype, shape, depth)
        if roll < 0.84:
            return self.transposed(dtype, shape, depth)
        if roll < 0.87 and shape == ():
            v = self.expr(dtype, shape, depth - 1)
            return Val(f"cdiv(abs({v.text}), {self.number(1, 9)})", dtype, shape, v.mag, 1.0)
        if roll < 0.93:
            v = self.expr("bool", shape, depth - 1)
            return Val(f"({v.text} as i32)", dtype, shape, 1, 1.0)
        if roll < 0.98:
            v = self.expr(self.pick(["f32", self.half, "u32", *BYTES]), shape, depth - 1, exact=True)
            return Val(f"({v.text} as i32)", dtype, shape, v.mag, 1.0)
        return self.load(dtype, shape)

    def some_u32(self, dtype, shape, depth):
        """Whatever is done wraps, so that nothing is too large; only divisors and shifts are bounded."""
        roll = self.r.random()
        if roll < 0.5:
            (_, x), (_, y) = self.operands(dtype, shape, depth)
            op = self.pick(["+", "-", "*", "&", "|", "^", "/", "%", "<<", ">>"])
            if self.chance(0.4):
                y = self.pick(["0", "1", "31", str(self.number(0, 31))]) if op in ("<<", ">>") else self.pick(WORDS[op in "/%":])
                x = self.expr(dtype, shape, depth - 1).text
            else:
                y = f"({y} & 31)" if op in ("<<", ">>") else f"({y} | 1)" if op in "/%" else y
            return Val(f"({x} {op} {y})", dtype, shape, MOST_WORD, 1.0)
        if roll < 0.51:
            return self.random_word(dtype, shape, depth)
        if roll < 0.54:
            (_, x), (_, y) = self.operands(dtype, shape, depth)
            return Val(f"mulhi({x}, {y})", dtype, shape, MOST_WORD, 1.0)
        if roll < 0.58:
            v = self.expr("f32", shape, depth - 1, exact=True)  # zeros may have either sign
            return Val(f"bits(abs({v.text}) + 1.0)", dtype, shape, MOST_WORD, 1.0)
        if roll < 0.61:
            return self.chosen(dtype, shape, depth)
        if roll < 0.64:
            return self.transposed(dtype, shape, depth)
        if roll < 0.67:
            return self.extreme(dtype, shape, depth)
        if roll < 0.7:
            return Val(f"(-{self.expr(dtype, shape, depth - 1).text})", dtype, shape, MOST_WORD, 1.0)
        if roll < 0.78 and len(shape) < 2:
            return self.reduced(self.pick(["sum", "max", "min"]), dtype, shape, depth)
        if roll < 0.94:
            v = self.expr(self.pick(["i32", "i32", "f32", self.half, "bool", *BYTES]), shape, depth - 1, exact=True)
            return Val(f"({v.text} as u32)", dtype, shape, MOST_WORD, 1.0)
        return self.load(dtype, shape)

    def random_word(self, dtype, shape, depth):
        """A word of Philox, of whose counter and key some are constants."""
        self.uses.add("random")
        parts = [self.expr(dtype, shape, depth - 1).text]
        for _ in range(5):
            constant = self.chance(0.7)
            parts.append(self.pick(["0", "1", "42", "0x9E3779B9", "0xffffffff"]) if constant else self.expr(dtype, (), depth - 1).text)
        first, rest = self.number(0, 3), parts[1:4]
        counter = rest[:first] + parts[:1] + rest[first:]
        return Val(f"philox(({', '.join(counter)}), {parts[4]}, {parts[5]}).{self.number(0, 3)}", dtype, shape, MOST_WORD, 1.0)

    def some_bool(self, dtype, shape, depth):
        if self.edgy("compare", 0.4):
            return self.limit_compare(shape)
        roll = self.r.random()
        if roll < 0.55:
            kind = self.pick(["i32", "i32", "f32", self.half, self.pick([*BYTES, "u32"])])
            exact = kind not in WHOLES and self.chance(0.4 if self.odd else 0.95)
            if len(shape) == 2 and self.chance(0.5) and kind == "i32":
                a, b = self.expr(kind, shape[:1], depth - 1), self.expr(kind, shape[1:], depth - 1)
                x, y = f"{a.text}[:, None]", f"{b.text}[None, :]"
            else:
                a = self.expr(kind, shape, depth - 1, exact)
                x = a.text
                if self.chance(0.4):
                    y, _ = self.constant(kind)
                else:
                    b = self.expr(kind, shape if self.chance(0.6) else (), depth - 1, exact)
                    y = b.text
            op = self.pick(["==", "!="] if kind in BYTES else ["==", "!=", "<", "<=", ">", ">="])
            return Val(f"({x} {op} {y})", dtype, shape, 1, 1.0)
        if roll < 0.7:
            (a, x), (b, y) = self.operands(dtype, shape, depth)
            return Val(f"({x} {self.pick(['&&', '||', '==', '!=', '&', '|', '^'])} {y})", dtype, shape, 1, 1.0)
        if roll < 0.78:
            v = self.expr(dtype, shape, depth - 1)
            return Val(f"(!{v.text})", dtype, shape, 1, 1.0)
        if roll < 0.9 and len(shape) < 2:
            return self.reduced(self.pick(["any", "all"]), dtype, shape, depth)
        if roll < 0.94:
            return self.transposed(dtype, shape, depth)
        return self.load(dtype, shape)
