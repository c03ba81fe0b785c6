"""program_batches.py - products over a first dimension, in random programs.

A tile of three dimensions is loaded by three ranges, or by two and a whole dimension; the products alone, one
behind another, or carried by a loop; with tiles of fewer dimensions that grow; and reduced along one of the
dimensions, as that of a result is what other statements take.
"""
import numpy as np

from program_values import BYTES, FLOATS8, TAME, WHOLE, Axis, Reject, Val, settle

GROWN = {(0,): "[:, None, None]", (1,): "[None, :, None]", (2,): "[None, None, :]", (0, 1): "[:, :, None]",
         (0, 2): "[:, None, :]", (1, 2): "[None, :, :]"}


class Batches:
    def some_batch(self):
        if self.order_free or (not self.beside and self.products <= 0):
            raise Reject
        kept, self.axes = self.axes, [a for a in self.axes if len(a.parts) == 1]
        try:
            self.batch()
        finally:
            self.axes = kept

    def batch(self):
        self.products -= 1
        left, right = self.pick([(self.half, self.half)] * 4 + [(self.pick([*BYTES]), self.pick([*BYTES])),
                                                               (self.pick([*FLOATS8]), self.pick([*FLOATS8]))])
        dtype = "i32" if left in BYTES else "f32"
        shape, deep = self.batch_shape()
        b, _, n = shape
        v = self.batch_loop(dtype, left, right, shape, deep) if self.chance(0.5) else self.batch_of(left, right, shape, deep)
        for _ in range(self.number(0, 2)):
            v = self.batch_step(v)
        if dtype == "f32" and self.chance(0.25) and b * n * 32 <= self.most_elements:  # and once more, as attention has it
            v = self.let(v) if self.chance(0.5) else v
            p = self.tame(settle(self.half, shape, f"({v.text} as {self.half})", v.mag, v.grain))
            v = self.multiplied(p, self.load(self.half, (b, n, 32)))
        self.batch_end(v)

    def batch_shape(self):
        """.. of the result, and the inner extent."""
        for _ in range(6):
            b, (m, n) = self.pick([1, 2, 2, 3, 4, 8]), (self.pick(self.extents()) for _ in range(2))
            deep = self.pick([16, 32, self.pick(self.extents())])
            if b * max(m * n, m * deep, deep * n) <= self.most_elements:
                return (b, m, n), deep
        raise Reject

    def batch_of(self, left, right, shape, deep, acc=None):
        b, m, n = shape
        x, y = self.load(left, (b, m, deep)), self.load(right, (b, deep, n))
        return self.multiplied(x, y, acc)

    def batch_loop(self, dtype, left, right, shape, deep):
        """A sum of products that a loop carries, through a branch at times."""
        name, k, size = self.fresh_name("v"), self.fresh_name("n"), self.size(deep, 3)
        trips = max(1, -(-self.sizes[size] // deep))
        acc = Val(name, dtype, shape, 0, 1.0)
        self.emit(f"var {name} = zeros<{dtype}>[{', '.join(map(str, shape))}];")
        self.emit(f"for {k} in tiles({size}, {deep}) {{")
        scope, self.indent, self.axes = list(self.scope), self.indent + 1, self.axes + [Axis(deep, [(k, size)])]
        made = self.batch_of(left, right, shape, deep, acc if self.chance(0.6) else None)
        if f", {name})" in made.text:
            self.emit(f"{name} = {made.text};")
        else:
            product = self.let(made)
            guard = self.pick([f"any({product.text} > {self.number(-2, 20)})", f"{k}.first > {deep - 1}", None])
            op = self.pick(["+", "+", "-"])
            add = f"{name} = {name} {op} {product.text};"
            self.emit(f"if {guard} {{ {add} }}" if guard else add)
        self.scope, self.indent, self.axes = scope, self.indent - 1, self.axes[:-1]
        self.emit("}")
        return settle(dtype, shape, name, made.mag * trips, made.grain)

    def batch_step(self, v):
        """Arithmetic with a tile of fewer dimensions, loaded or a reduction of its own."""
        v = self.tame(v, WHOLE / 64 if v.dtype == "i32" else TAME)
        v = self.let(v) if "(" in v.text else v
        if self.chance(0.3):
            axis, name = self.number(1, 2), self.pick(["max", "min"])
            grows = "[:, None, :]" if axis == 1 else "[:, :, None]"
            return settle(v.dtype, v.shape, f"({v.text} - {name}({v.text}, axis={axis}){grows})", 2 * v.mag, v.grain)
        dims = self.pick([*GROWN])
        w = self.tame(self.load(v.dtype, tuple(v.shape[d] for d in dims)), 8.0)
        if w.ninf:
            raise Reject
        op = self.pick("+-*" if v.dtype == "f32" else "+-")
        text = f"({v.text} {op} {w.text}{GROWN[dims]})"
        return settle(v.dtype, v.shape, text, v.mag * w.mag if op == "*" else v.mag + w.mag, v.grain * w.grain if op == "*" else min(v.grain, w.grain))

    def batch_end(self, v):
        """A reduction along one of its dimensions, which the program shows or has in other statements."""
        v = self.tame(v, WHOLE / 64 if v.dtype == "i32" else TAME)
        axis, how = self.pick([0, 0, 0, 1, 2]), self.pick(["sum", "sum", "max", "min"])
        shape = v.shape[:axis] + v.shape[axis + 1:]
        if how == "sum" or v.dtype == "u32":  # whose bound would be none
            made = settle(v.dtype, shape, f"sum({v.text}, axis={axis})", v.mag * v.shape[axis], v.grain)
        else:
            bound = int(np.ceil(v.mag)) + 1  # of nothing but padding
            text = f"{how}({how}({v.text}, axis={axis}), {'-' if how == 'max' else ''}{bound})"
            made = settle(v.dtype, shape, text, bound, min(v.grain, 1.0))
        made = self.let(self.tame(made, WHOLE if made.dtype == "i32" else TAME))
        self.batch_out(made)

    def batch_out(self, v):
        """Added to memory, where all programs may."""
        groups = [self.dimension(d) for d in v.shape]
        parts = [p for g in groups for p in g]
        t = self.new_tensor("inout", v.dtype, parts)
        self.emit(f"atomic_add {t.name}[{', '.join(s for s, _ in parts)}] += {v.text};")
