"""program_copied.py - what is reduced, scanned or sorted of tiles that no product reads, in loops of products and in loops without.

Such tiles may be copied ahead into shared memory, where they have no layout; what is made of them has one.  All numbers come from a
generator of their own, so that the rest of a program is what it is without this.
"""
import contextlib

from program_scans import FUNCTIONS
from program_values import Axis, Reject, Val

TYPES = ["f32", "f32", "f32", "f32", "bf16", "f16", "i8", "bool", "i32"]


class Copied:
    """A part of the generator, as Products is."""

    def draw_copied(self, r):
        self.copied_r, self.has_copied = r, self.beside and r.random() < 0.2
        self.has_some = False
        self.before_loop = None  # of the loop at hand, what stands in front of it

    @contextlib.contextmanager
    def own_numbers(self):
        kept, self.r = self.r, self.copied_r
        try:
            yield
        finally:
            self.r, self.copied = kept, False

    def begin_copied(self, name):
        """Of a loop in no other one: it may have such tiles."""
        self.before_loop, self.copied_name = [] if self.has_copied and self.indent == 1 and self.own else None, name

    def end_copied(self, at):
        """What the loop adds up begins in front of it, at this line."""
        self.lines[at:at], self.before_loop = self.before_loop or [], None

    def tile_beside(self, share):
        """Some statements of the loop, or none."""
        if self.before_loop is None:
            return
        kept = len(self.lines), self.indent, len(self.before_loop), len(self.shown)
        with self.own_numbers():
            try:
                if self.chance(share):
                    self.reduced_tile()
            except Reject:
                lines, self.indent, before, shown = kept
                del self.lines[lines:], self.before_loop[before:], self.shown[shown:]

    def reduced_tile(self):
        labels = ("n", "d") if "d" in self.at and self.chance(0.2) else ("m", "n")
        turned = self.chance(0.25)
        self.copied = self.chance(0.9)  # rows as copies need them
        branch = self.chance(0.1)
        if branch:
            self.emit(f"if {self.loop_condition()} {{")
            self.indent += 1
        t = self.load_labels(labels[::-1] if turned else labels, self.pick(TYPES))
        f = self.fresh_name("f")
        self.emit(f"let {f} = {t.text}{'.T' * turned};")
        self.reductions_of_tile(Val(f, t.dtype, t.shape[::-1] if turned else t.shape, t.mag, t.grain), labels)
        if branch:
            self.indent -= 1
            self.emit("}")

    def also_reduced(self, t, labels):
        """A tile that scores are changed by, by a name; it is reduced, too."""
        if self.before_loop is None or "m" not in labels:
            return t
        with self.own_numbers():
            if not self.chance(0.5):
                return t
            f = self.fresh_name("f")
            self.emit(f"let {f} = {t.text};")
            made = t.named(f)
            self.reductions_of_tile(made, labels)
            return made

    def loop_condition(self):
        if self.chance(0.6):
            return f"{self.copied_name}.number % {self.number(2, 3)} {self.pick(['==', '!=', '<'])} {self.number(0, 1)}"
        return self.condition()

    def carried(self, label, dtype, first):
        """A vector, or a number, that the loop carries."""
        name, extent = self.fresh_name("z"), self.at[label][0]
        self.before_loop.append(f"    var {name} = full<{dtype}>[{extent}]({first});")
        self.shown.append(Val(f"({name} * 0.5)" if dtype == "f32" else name, dtype, (extent,), 16.0))
        return name

    def as_number(self, f):
        """(the tile, or what is made of it element by element, whether it is f32)."""
        if f.dtype == "bool":
            return f"where({f.text}, 1.0, {self.pick(['0.0', '0.25', '(-1.0)'])})", True
        plain = f.dtype == "f32" or f.dtype in (self.half, "i32") and self.chance(0.6)
        text = f.text if plain else f"({f.text} as f32)"
        if self.chance(0.6) or f.dtype == "i32" and plain:
            return text, not plain or f.dtype == "f32"
        return self.pick([f"({text} * 0.5)", f"({text} + 0.25)", f"max({text}, 0.0)", f"(-{text})",
                          f"where({text} > 0.0, {text}, 0.5)", f"({text} * {text})"]), not plain or f.dtype == "f32"

    def reductions_of_tile(self, f, labels):
        self.has_some = True
        for _ in range(self.number(1, 3)):
            turned = self.chance(0.15)
            x, at = (f.named(f"{f.text}.T"), labels[::-1]) if turned else (f, labels)
            if turned:
                x.shape = f.shape[::-1]
            branch = self.chance(0.12)
            if branch:
                self.emit(f"if {self.loop_condition()} {{")
                self.indent += 1
            self.one_reduced(x, at)
            if branch:
                self.indent -= 1
                self.emit("}")

    def one_reduced(self, f, labels):
        axis = self.number(0, 1)
        if labels[1 - axis] == "n" and self.chance(0.7):  # mostly along the loop
            axis = 1 - axis
        keep, roll, along = labels[1 - axis], self.r.random(), self.axis_text(axis)
        inner, to = keep == "n", "m" if keep == "n" else keep  # what is left along the loop is reduced once more
        if roll < 0.2:
            name, both, first = self.pick([("any", "||", "false"), ("all", "&&", "true")])
            text = f"({f.text} as i32)" if f.dtype == "i8" else f.text
            c = f.text if f.dtype == "bool" else f"{text} {self.pick(['>', '<', '!='])} {self.pick(['0', '1', '2'])}"
            v = f"{name}({c})" if inner or self.chance(0.15) else f"{name}({c}, {along})"
            z = self.carried(to, "bool", first)
            self.emit(f"{z} = {z} {both} {v};")
            return
        x, is_f32 = self.as_number(f)
        if roll < 0.4:
            name = self.pick(["max", "min"])
            z = self.carried(to, "f32", "-8.0" if name == "max" else "8.0")
            v = f"{name}({x})" if inner or self.chance(0.15) else f"{name}({x}, {along})"
            self.emit(f"{z} = {name}({z}, {v if is_f32 else f'({v} as f32)'});")
            return
        v = self.vector_of_tile(x, f, axis, along)
        v = f"{self.pick(['sum', 'max'])}({v})" if inner else v
        z = self.carried(to, "f32", self.pick(["0.0", "1.5"]))
        self.emit(f"{z} += ({v} as f32) * 0.125;")

    def axis_text(self, axis):
        return f"axis{self.pick(['=', ' = '])}{axis if self.chance(0.7) else axis - 2}"

    def vector_of_tile(self, x, f, axis, along):
        """What is left of a tile of numbers without one of its dimensions."""
        how = self.pick(["sum", "sum", "sum", "arg", "scan", "scan", "whole", "function", "back", "sort", "top"])
        if how in ("sort", "top") and self.chance(0.4):  # (the code is long)
            how = "sum"
        if how == "arg":
            return f"({self.pick(['argmax', 'argmin'])}({x}, {along}) as f32)"
        if how == "scan":
            name = self.pick(["cumsum", "cumsum", "cummax"])
            other = self.axis_text(axis if self.chance(0.7) else 1 - axis)
            scanned = f"{name}({x}, {other}{self.pick(['', '', ', reverse=true'])})"
            return f"{self.pick(['sum', 'max'])}({scanned}, {along})"
        if how == "whole":
            return f"({self.pick(['sum', 'max'])}({x}, {along}) + {self.pick(['sum', 'max', 'min'])}({x}))"
        if how == "function":
            name = self.pick(["most", "last", "first", "whole", "best"])
            if FUNCTIONS[name] not in self.texts:
                self.texts.append(FUNCTIONS[name])
            if name == "whole":
                return f"reduce(whole, (n = 1, v = {x}), {along}).v"
            if name == "best":
                return f"reduce(best, ({x}, {x}), {along}).1"
            return f"reduce({name}, {x}, {along})"
        if how == "back":
            return f"sum({x} * {self.pick(['max', 'sum'])}({x}, {along})[{':, None' if axis == 1 else 'None, :'}], {along})"
        if how == "sort":
            weights = f"(iota({f.shape[axis]}) as f32)[{'None, :' if axis == 1 else ':, None'}]"
            return f"sum(min(sort({x}, {along}) as f32, 8.0) * {weights}, {along})"
        if how == "top":
            return f"sum(max(top({x}, {self.number(1, 3)}, {along}).{self.pick('01')} as f32, -8.0), {along})"
        return f"sum({x}, {along})"

    def loop_of_tiles(self):
        """A loop that has no products."""
        if not self.has_copied or self.indent > 1 or not self.own:
            return
        with self.own_numbers():
            if not self.chance(0.3):
                return
            extent = self.pick([16, 32, 64])
            kept = (len(self.lines), dict(self.at), list(self.axes), list(self.trips), list(self.scope))
            name, text, size, trips = self.loop_head(extent)
            at = len(self.lines)
            self.begin_copied(name)
            self.emit(f"for {name} in {text} {{")
            axis = Axis(extent, [(name, size)])
            axis.owner = None
            self.at["n"] = (extent, axis.parts)
            self.axes.append(axis)
            self.trips.append(trips)
            self.level += 1
            self.indent += 1
            before = len(self.lines)
            self.tile_beside(1.0)
            self.tile_beside(0.3)
            self.level -= 1
            self.indent -= 1
            self.emit("}")
            lines, self.at, self.axes, self.trips, self.scope = kept
            if len(self.lines) == before + 1:
                del self.lines[lines:]
            else:
                self.end_copied(at)
