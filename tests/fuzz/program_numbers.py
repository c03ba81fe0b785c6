"""program_numbers.py - ranges that a loop makes by their number, and what variables from outside of it keep.

The number is the loop's index, or the same in each iteration; the loop goes over integers or over tiles of its own.  What is
loaded by the range goes to a variable from outside of the loop at once, by a variable of the loop, or in a loop further in.
"""
from program_values import Axis, Reject, Val


class Numbers:
    """Wants of the class that uses it what Program does."""

    def number_of_range(self, index):
        """Of a sequence of ranges: perhaps behind its last."""
        same = [v.text for v in self.scalars_in_scope()] + [n for n, _ in self.counts[:getattr(self, "n_counts", 0)]]
        if self.chance(0.4):
            return index
        return f"max({self.pick(same)}, 0)" if same and self.chance(0.5) else self.pick(["0", "0", "0", "1"])

    def some_numbers(self):
        """A loop in which a range is made by its number."""
        if len(self.trips) >= 2 or self.order_free:
            raise Reject
        rows, extent = self.own[0].extent if self.own else 0, self.pick([8, 16, 32, 64])
        shape = (rows, extent) if rows and rows * extent <= self.most_elements and self.chance(0.4) else (extent,)
        var = self.variable("f32", shape)
        var.level = self.level
        size, saved = self.size(extent, 2), (list(self.scope), list(self.axes), list(self.counts))
        index, name = self.fresh_name("i"), self.fresh_name("n")
        over, trips = self.bound(3)
        if self.chance(0.3):  # of a loop over tiles
            tile = self.fresh_name("n")
            other = self.size(8, 3)
            self.emit(f"for {tile} in tiles({other}, 8) {{")
            index, trips = f"{tile}.number", -(-self.sizes[other] // 8)
        else:
            self.emit(f"for {index} in 0..{over} {{")
        self.indent, self.level = self.indent + 1, self.level + 1
        self.trips.append(max(1, trips))
        self.emit(f"let {name} = tiles({size}, {extent})[{self.number_of_range(index)}];")
        self.axes.append(Axis(extent, [(name, size)]))
        parts = (list(self.own[0].parts) if len(shape) == 2 else []) + [(name, size)]
        t = self.tensor("in", "f32", [s for _, s in parts])
        e = Val(f"(load {t.name}[{', '.join(s for s, _ in parts)}])", "f32", shape, t.mag, t.grain)
        kept = self.chance(0.6)
        if kept:
            v = self.fresh_name("v")
            self.emit(f"{self.pick(['let', 'var', 'var'])} {v} = {e.text};")
            e = e.named(v)
        within = self.chance(0.5)
        if within:
            inner, most = self.bound(3)
            self.emit(f"for {self.fresh_name('j')} in 0..{inner} {{")
            self.indent += 1
            self.trips.append(max(1, most))
        self.add_by_number(var, e)
        if within:
            self.trips.pop()
            self.indent -= 1
            self.emit("}")
        self.block(self.number(0, 1), "assign")
        self.trips.pop()
        self.indent, self.level = self.indent - 1, self.level - 1
        self.scope, self.axes, self.counts = saved
        self.emit("}")
        if self.indent == 1:
            self.shown.append(var)

    def add_by_number(self, var, e):
        e = self.fitted(e, var)
        if var.grain > e.grain:
            var.grain = 0.0
        self.emit(self.pick([f"{var.text} += {e.text};", f"{var.text} = {var.text} + {e.text};", f"{var.text} = {e.text};",
                             f"{var.text} = {var.text} * 0.5 + {e.text};"]))
