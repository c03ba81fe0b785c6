"""program_edges.py - what other people write, and a generator of tame programs does not.

Each program draws some of KINDS (its case names them, `edges`):
    compare     i32 at its limits in arithmetic, comparisons, bounds, masks and `where`; what is written never overflows
    given       constants by -D, tile sizes among them, which the results show
    numbered    tiles by their number, of the grid (`tiles(S, M)[t]`) and of loops, and ranges made in loops (program_numbers.py)
    shifted     ranges that begin before their tensor or end behind it, in loads, products and stores
    packed      packs of ranges as the rows of products, and in vectors
    reductions  several reductions of one padded tile
    low         very negative scores, additive masks, subnormals and zeros in softmax-like arithmetic
    unread      sums that nobody reads
    named       a function of the file's own with the name of a built-in one
"""
import numpy as np

from program_values import Axis, Reject, Val

KINDS = ["compare", "given", "numbered", "shifted", "packed", "reductions", "low", "unread", "named"]
SHARES = [3, 2.5, 1.5, 2.5, 1.5, 3, 2.5, 1, 0.6]
LEAST, MOST = -2**31, 2**31 - 1
NEAR = 4096  # indices of ranges lie between -NEAR and NEAR
# Additive masks of the field, by what a 16-bit or f32 tensor of scores holds.
LOWEST = [-1e4, -65504.0, -1e9, -1e10, -1e30, -3.3895313892515355e38, -3.4028234663852886e38]
# What a parameter is by default, and what -D gives it.  As an extent a size is `value` + STAND while a program is made.
STAND, GIVEN_SIZES = 2, [64, 128, 128, 192, 256]


class Limit:
    """An i32 between lo and hi, both included."""

    def __init__(self, text, shape, lo, hi):
        self.text, self.shape, self.lo, self.hi = text, shape, int(lo), int(hi)

    def made(self, text, lo, hi, other=None):
        if lo < LEAST or hi > MOST:
            raise Reject
        shape = self.shape if other is None or other.shape == () else other.shape
        return Limit(text, shape, lo, hi)


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class Edges:
    """Wants of the class that uses it what Values does, and edges (a set of KINDS), given, given_axis."""

    def draw_edges(self):
        n = self.pick([0, 1, 1, 1, 2, 2, 3])
        p = np.array(SHARES) / sum(SHARES)
        self.edges = {KINDS[k] for k in self.r.choice(len(KINDS), n, replace=False, p=p)}
        self.given, self.given_axis, self.shown = {}, 0, []

    def edgy(self, kind, p=1.0):
        return kind in self.edges and self.chance(p)

    # ---- constants by -D ----

    def give(self, prefix, default, value):
        """A compile-time parameter that -D sets."""
        name = f"{prefix}{len(self.given)}"
        self.given[name] = (default, value)
        return name

    def give_axis(self):
        """The grid's tile size is given, and no other extent is the number that stands for it meanwhile."""
        value = 128 if self.whole and self.chance(0.8) else self.pick(GIVEN_SIZES)
        self.given_axis = value + STAND
        # one of five is a default, and no more
        self.given["GM"] = (value, None) if self.chance(0.2) else (self.pick([32, 64, 64, 64, 128, None]), value)
        return self.given_axis

    def true_extent(self, extent):
        return extent - STAND if extent == self.given_axis else extent

    def show_given(self):
        """Stores what constants are, where each program writes its own."""
        rows = self.own[0]
        parts = [p for p in list(self.counts[:self.n_counts]) + list(rows.parts) if p[0] != "0"]
        if len(self.own) > 1 or len(parts) > 6:
            return
        known = {n: default if v is None else v for n, (default, v) in self.given.items()}
        ints = [n for n, v in known.items() if abs(v) < NEAR]
        if not ints:
            return
        by, sub = self.pick(ints), rows.parts[0][0]
        value = f"{sub} % max({by}, 1) + {by} * 1000" if self.chance(0.6) else f"{sub} / {abs(known[by]) + 1} - {by}"
        t = self.new_tensor("out", "i32", parts)
        self.emit(f"store {t.name}[{', '.join(s for s, _ in parts)}] = {value};")

    # ---- tiles by number ----

    def count_of(self, size, extent):
        """A size that is the number of tiles of this extent."""
        name = f"T{len(self.sizes)}"
        self.sizes[name] = -(-self.sizes[size] // self.true_extent(extent))
        return name

    def show_parts(self):
        """Sums of the rows of each tile, stored by the tile's number."""
        number, count, axis = self.numbered
        done = 0
        for v in self.scope:
            if v.dtype == "f32" and len(v.shape) == 2 and v.shape[0] == axis.extent and not v.ninf and v.room > 0 and done < 2:
                parts = list(self.counts[:self.n_counts]) + [(number, count), (":", v.shape[1])]
                t = self.new_tensor("out", "f32", parts)
                self.emit(f"store {t.name}[{', '.join(s for s, _ in parts)}] = {self.pick(['sum', 'sum', 'max'])}({v.text}, axis=0);")
                done += 1

    def by_number(self, s, labels):
        """A tile by a vector of its rows or columns, another one in each iteration."""
        at = 0 if self.chance(0.7) else 1
        parts = [self.each] + list(self.at[labels[at]][1])
        v = self.load("f32", s.shape[at:at + 1], parts)
        s = self.let(self.tame(Val(f"({s.text} {self.pick('*+')} {v.text}[{[':, None', 'None, :'][at]}])", "f32", s.shape,
                                   s.mag * max(v.mag, 1.0) + v.mag)))
        self.tiles.append((s, labels))
        return s

    # ---- ranges elsewhere ----

    def by_text(self):
        """What a range is moved by: the same in all programs."""
        roll = self.r.random()
        if roll < 0.6:
            return self.pick([" - 1", " - 1", " - 2", " - 7", " - 16", " - 40", " + 1", " + 8", " + 50"])
        if roll < 0.8:
            value = self.pick([-1, -3, -9, 5])
            return f" + {self.give('C', self.pick([0, 1, None]), value)}" if self.kernels == 1 else f" + ({value})"
        name = f"ip{len(self.scalars)}"
        self.scalars[name] = ("i32", self.pick([-1, -2, -20, 3, 70]))
        self.used_scalars.add(name)
        return f" + {name}"

    def shifted(self, parts):
        """One of the ranges moved."""
        ranges = [k for k, (sub, _) in enumerate(parts) if sub.isidentifier() and sub not in [n for n, _ in self.counts]
                  and not any(len(a.parts) > 1 and sub in [p[0] for p in a.parts] for a in self.axes)]
        if not ranges:
            return parts
        k, made = self.pick(ranges), list(parts)
        made[k] = (parts[k][0] + self.by_text(), parts[k][1])
        return made

    # ---- i32 at its limits ----

    def end_value(self, lo=LEAST, hi=MOST):
        some = [lo, hi, lo, hi, lo + 1, hi - 1, 0, -1, 5, 1500000000, -1500000000, -2000000000, 2**30]
        return min(max(self.pick(some), lo), hi)

    def limit_leaf(self, shape):
        roll = self.r.random()
        if shape == () and roll < 0.35:
            name = f"wp{len(self.scalars)}"
            value = self.end_value()
            self.scalars[name] = ("i32", value)
            self.used_scalars.add(name)
            return Limit(name, (), value, value)
        if shape == () and roll < 0.6:
            value = self.end_value(-MOST)
            if self.kernels == 1 and self.chance(0.6):
                return Limit(self.give("C", self.pick([0, 7, None]), value), (), value, value)
            return Limit(f"({value})", (), value, value)
        if len(shape) == 1 and roll < 0.35:
            subs = [p[0] for a in self.axes if a.extent == shape[0] for p in a.parts] + [f"iota({shape[0]})"]
            return Limit(f"({self.pick(subs)})", shape, -NEAR, NEAR)
        if roll < 0.45 or shape == () and self.order_free:
            v = self.expr("i32", shape, 1)
            return Limit(v.text, shape, -2**22, 2**22)
        margin = self.pick([0, 0, 1, 3, 4100, 2**22])
        parts = [p for d in shape for p in self.dimension(d)]
        packed = {q[0] for a in self.axes if len(a.parts) > 1 for q in a.parts}
        names = [s.split(" ")[0] for s, _ in parts if s.split(" ")[0] in packed]
        if len(parts) > 5 or len(names) > len(set(names)) or len(shape) > 1 and names:
            raise Reject
        parts = parts or [(str(self.number(0, 2)), self.number(3, 4))]
        t = self.tensor("in", "i32", [s for _, s in parts], ["ends", margin], MOST, 1.0)
        return Limit(f"(load {t.name}[{', '.join(s for s, _ in parts)}])", shape, LEAST + margin, MOST - margin)

    def at_limits(self, shape, depth=1):
        """A number that may be anything, by arithmetic that does not overflow."""
        for _ in range(12):
            try:
                return self.limit_leaf(shape) if depth <= 0 or self.chance(0.2) else self.limit_made(shape, depth)
            except Reject:
                continue
        raise Reject

    def limit_made(self, shape, depth):
        a = self.at_limits(shape, depth - 1)
        roll, c = self.r.random(), self.pick([1, 1, 1, 2, 3, 64, 1000])
        if roll < 0.25:
            return a.made(f"({a.text} + {c})", a.lo + c, a.hi + c)
        if roll < 0.5:
            return a.made(f"({a.text} - {c})", a.lo - c, a.hi - c)
        if roll < 0.55:
            return a.made(f"(-{a.text})", -a.hi, -a.lo)
        if roll < 0.62:
            k = self.pick([2, 3, 7, 64, -3])
            ends = [quotient(a.lo, k), quotient(a.hi, k)]
            return a.made(f"({a.text} / {k if k > 0 else f'({k})'})", min(ends), max(ends))
        if roll < 0.66:
            return a.made(f"({a.text} % {c + 1})", -c, c)
        if roll < 0.7:
            return a.made(f"({a.text} >> {self.number(1, 4)})", a.lo, a.hi) if a.lo < 0 <= a.hi else a
        b = self.at_limits(shape if self.chance(0.6) else (), depth - 1)
        if roll < 0.78:
            return a.made(f"({a.text} + {b.text})", a.lo + b.lo, a.hi + b.hi)
        if roll < 0.86:
            return a.made(f"({a.text} - {b.text})", a.lo - b.hi, a.hi - b.lo)
        if roll < 0.92:
            name = self.pick(["max", "min"])
            both = max if name == "max" else min
            return a.made(f"{name}({a.text}, {b.text})", both(a.lo, b.lo), both(a.hi, b.hi))
        c = self.expr("bool", shape, 1)
        return a.made(f"where({c.text}, {a.text}, {b.text})", min(a.lo, b.lo), max(a.hi, b.hi))

    def limit_compare(self, shape):
        """A comparison of two, one of which mostly has something added."""
        op = self.pick(["==", "!=", "<", "<=", ">", ">="])
        if self.chance(0.4):  # as most bounds are written
            a, b, c = self.limit_leaf(shape), self.limit_leaf(shape if self.chance(0.7) else ()), self.pick([1, 1, 2, 5, 64])
            b = b.made(f"({b.text} {'+' if b.hi + c <= MOST else '-'} {c})", b.lo, b.hi) if b.hi + c <= MOST or b.lo - c >= LEAST else b
            return Val(f"({a.text} {op} {b.text})", "bool", shape, 1, 1.0)
        if len(shape) == 2 and self.chance(0.7):
            a, b = self.at_limits(shape[:1], 1), self.at_limits(shape[1:], 1)
            x, y = f"{a.text}[:, None]", f"{b.text}[None, :]"
            if self.chance(0.3) and not self.folding:  # (what is folded is not made larger)
                y = f"({y} * 0 + {self.at_limits((), 1).text})"  # the same for all columns
        else:
            x, y = self.at_limits(shape, self.number(0, 2)).text, self.at_limits(shape if self.chance(0.6) else (), self.number(0, 1)).text
        if self.chance(0.4):
            x, y = y, x
        if not any(ch.isalpha() for ch in x + y):
            raise Reject
        return Val(f"({x} {op} {y})", "bool", shape, 1, 1.0)

    def window(self, column, row):
        """A mask of columns by rows (texts of indices), whose width may be as large as an i32 is."""
        wide = self.pick([MOST, MOST, MOST - 1, 2**30, -5, -3, 0, 40])
        form = self.pick(["left", "left", "right", "apart", "both"])
        if form == "left" or form == "both":  # row - wide
            least = MOST - NEAR if "shifted" in self.edges else MOST  # rows may lie before the first one
            text = f"{column} {self.pick(['>', '>='])} {row} - {self.width(min(wide, least))}"
        if form == "apart":
            text = f"{row} - {column} {self.pick(['<', '<=', '>'])} {self.width(self.pick([wide, -MOST]))}"
        if form == "right":
            text = f"{column} {self.pick(['<', '<='])} {row} + {self.width(min(wide, MOST - NEAR))}"
        if form == "both":
            text += f" && {column} <= {row} + {self.width(self.pick([0, 0, -MOST + NEAR, MOST - NEAR]))}"
        return text

    def width(self, value):
        roll = self.r.random()
        if roll < 0.4 and self.kernels == 1:
            return self.give("W", self.pick([0, 64, None]), value)
        if roll < 0.75:
            name = f"wp{len(self.scalars)}"
            self.scalars[name] = ("i32", value)
            self.used_scalars.add(name)
            return name
        return str(value) if value >= 0 else f"({value})"

    def some_limits(self):
        """What comes of such numbers, stored as it is."""
        if self.order_free:
            raise Reject
        parts, shape = self.place()
        v = self.at_limits(shape, 2)
        if not any(ch.isalpha() for ch in v.text):
            raise Reject
        t = self.new_tensor("out", "i32", parts)
        t.ends = True
        self.emit(f"store {t.name}[{', '.join(s for s, _ in parts)}] = {v.text};")

    # ---- reductions of one tile ----

    def reduction(self, x, axis, name):
        """(text of a reduction of x, its type)."""
        most = x.dtype != "bool" and self.pick([f"{x.text} != {x.text}", f"{x.text} > {self.pick(['0', '1', '(-1)'])}",
                                                f"{x.text} == {self.pick(['0', '2'])}"])
        if name in ("any", "all"):
            if x.dtype != "i32" and not x.exact:  # rounding must not decide
                most = self.pick([f"{x.text} > -1000.0", f"{x.text} > 1000.0"])
            return f"{name}({most}, axis={axis})", "bool"
        return f"{name}({x.text}, axis={axis})", x.dtype

    def some_reductions(self):
        """Some reductions of one tile, most of them along one of its axes: at once, or over a loop."""
        if self.order_free or self.indent > 1:
            raise Reject
        dtype = self.pick(["f32", "f32", "f32", "i32", self.half])
        rows = self.own[0].extent if self.own and self.chance(0.85) else self.pick(self.extents())
        names = [self.pick(["max", "sum", "any", "min", "all"]) for _ in range(self.number(2, 5))]
        names = list(dict.fromkeys(names)) if self.chance(0.8) else names
        if self.chance(0.6):
            return self.reductions_of_loop(dtype, rows, names)
        shape = (rows, self.pick(self.extents()))
        if np.prod(shape) > self.most_elements:
            raise Reject
        x = self.let(self.tame(self.expr(dtype, shape, self.number(0, 2)), 8.0))
        axis = self.number(0, 1)
        for name in names:
            text, kind = self.reduction(x, axis if self.chance(0.8) else 1 - axis, name)
            along = axis if f"axis={axis}" in text else 1 - axis
            made = self.let(Val(text, kind, (shape[1 - along],), 8.0 * (shape[along] if name == "sum" else 1)))
            if x.dtype == self.half and name == "sum":
                made.ninf = True  # only to be shown
            self.shown.append(made)
        return None

    def reductions_of_loop(self, dtype, rows, names):
        """Variables over a loop whose last tile is padded."""
        extent = self.pick([16, 32, 64, 64])
        size, kept = self.size(extent, 3), []
        if rows * extent > self.most_elements or self.sizes[size] == 0:
            raise Reject
        first = {"max": "-inf", "min": "inf", "sum": "0.0"} if dtype != "i32" else {"max": "-100", "min": "100", "sum": "0"}
        for name in names:
            var = self.fresh_name("v")
            kind = "i32" if name in ("any", "all") else dtype
            self.emit(f"var {var} = full<{kind}>[{rows}]({first.get(name, '0')});")
            kept.append((name, var, kind))
        n = self.fresh_name("n")
        self.emit(f"for {n} in tiles({size}, {self.extent_text(extent)}) {{")
        self.indent += 1
        saved = (list(self.axes), list(self.scope))
        self.axes.append(Axis(extent, [(n, size)]))
        turned = self.chance(0.3)
        x = self.let(self.tame(self.expr(dtype, (extent, rows) if turned else (rows, extent), self.number(0, 1)), 4.0))
        for name, var, kind in kept:
            text, _ = self.reduction(x, 0 if turned else 1, name)
            if name in ("max", "min"):
                self.emit(f"{var} = {name}({var}, {text});")
            else:
                self.emit(f"{var} += {text if name == 'sum' else f'{text} as i32'};")
        self.indent -= 1
        self.axes, self.scope = saved
        self.emit("}")
        for name, var, kind in kept:
            made = Val(var, kind, (rows,), 2000.0, 0.0, kind != "i32")
            self.scope.append(made)
            self.shown.append(made)

    def step_reductions(self):
        """Of a tile between products: its greatest, its sum and what holds of it."""
        if not self.tiles or self.order_free:
            raise Reject
        s, labels = self.pick(self.tiles)
        stats = [v for v, x in self.stats if x == labels[0]]
        if len(stats) < 2 or s.ninf:
            raise Reject
        ways = ["max", "sum", "any", "min", "all"]
        for v, name in zip(stats, self.r.permutation(ways)):
            text, _ = self.reduction(s, 1, name)
            if name == "sum":
                self.emit(f"{v.text} = {v.text} * 0.5 + {text} * {2.0**-8!r};")
            elif name in ("max", "min"):
                self.emit(f"{v.text} = {name}({v.text}, {text});")
            else:
                self.emit(f"{v.text} = {v.text} * 0.5 + ({text} as f32);")

    # ---- very negative scores ----

    def low_data(self):
        """Scores, some of which are as good as none."""
        roll, low = self.r.random(), self.pick(LOWEST) if self.chance(0.88) else self.pick([1e9, 1e30])
        if roll < 0.12:
            return ["tiny"]
        return ["low", low if roll < 0.85 else "-inf" if roll < 0.9 else "all", self.pick([0.1, 0.3, 0.5])]

    def low_load(self, parts, shape, dtype="f32"):
        t = self.tensor("in", dtype, [s for _, s in parts], self.low_data(), 2.0**100, 0.0)
        return Val(f"(load {t.name}[{', '.join(s for s, _ in parts)}])", dtype, shape, 2.0**100, 0.0, True)

    def with_low(self, s, labels):
        """Scores with an additive mask, of each element or of a column."""
        if self.chance(0.65):
            bias = self.low_load([p for x in labels for p in self.at[x][1]], s.shape).text
        else:
            column = self.low_load(self.at[labels[1]][1], s.shape[1:]).text
            bias = f"{column}[None, :]" if self.chance(0.7) else f"where({self.seen(labels)}, 0.0, {column}[None, :])"
        scale = self.pick(["", "", " * 0.125", " * 0.3"])
        return self.let(Val(f"{s.text}{scale} + {bias}", "f32", s.shape, s.mag, 0.0, True))

    def some_softmax(self):
        """Softmax of rows as one writes it by hand: in one piece, or over a loop."""
        if self.order_free or self.indent > 1 or len(self.own) != 1:
            raise Reject
        rows, c = self.own[0].extent, self.pick(["1.4426950408889634", "0.18033688011112042", "2.0", "0.125", "0.3"])
        if self.chance(0.5):
            return self.softmax_of_loop(rows, c)
        extent = self.pick(self.const_axes + [32, 64])
        if rows * extent > self.most_elements:
            raise Reject
        # the row has all that its tensor has, or ends within
        column = (":", extent) if self.chance(0.6) else (f"iota({extent})", self.size(extent, 1))
        parts = list(self.counts[:self.n_counts]) + list(self.own[0].parts) + [column]
        x = self.let(self.low_load(parts, (rows, extent), self.pick(["f32", "f32", self.half])))
        if x.dtype != "f32":
            x = self.let(Val(f"{x.text} as f32", "f32", x.shape, 1, 0.0, True))
        top = self.fresh_name("top")
        self.emit(f"let {top} = max({x.text}, axis=1);")
        e = self.let(Val(self.softmax_form(x.text, top, c), "f32", x.shape, 1.0, 0.0, True))
        total = self.fresh_name("total")
        self.emit(f"let {total} = sum({e.text}, axis=1);")
        t = self.new_tensor("out", self.pick(["f32", self.half]), parts)
        y = f"{e.text} / {total}[:, None]"
        if t.dtype != "f32":
            y = f"({y}) as {t.dtype}"
        self.emit(f"store {t.name}[{', '.join(s for s, _ in parts)}] = {y};")
        self.shown.append(Val(f"(log({total}) + {top})", "f32", (rows,), 1.0))
        return None

    def softmax_form(self, x, top, c):
        return self.pick([f"exp2({x} * {c} - ({top} * {c})[:, None])", f"exp2({x} * {c} - {top}[:, None] * {c})",
                          f"exp2(({x} - {top}[:, None]) * {c})", f"exp({x} - {top}[:, None])"])

    def softmax_of_loop(self, rows, c):
        extent = self.pick([16, 32, 64])
        size, n = self.size(extent, 3), self.fresh_name("n")
        if rows * extent > self.most_elements or self.sizes[size] == 0:
            raise Reject
        top, total = self.fresh_name("top"), self.fresh_name("total")
        self.emit(f"var {top} = full<f32>[{rows}]({self.pick(['-inf', '-3.4028234663852886e38', '-1e30'])});")
        self.emit(f"var {total} = zeros<f32>[{rows}];")
        self.emit(f"for {n} in tiles({size}, {self.extent_text(extent)}) {{")
        self.indent += 1
        saved = list(self.scope)
        x = self.let(self.low_load(list(self.own[0].parts) + [(n, size)], (rows, extent)))
        new = self.fresh_name("new")
        self.emit(f"let {new} = max({top}, max({x.text}, axis=1));")
        self.emit(f"{total} = {total} * exp2(({top} - {new}) * {c}) + sum(exp2(({x.text} - {new}[:, None]) * {c}), axis=1);"
                  if self.chance(0.6) else
                  f"{total} = {total} * exp2({top} * {c} - {new} * {c}) + sum({self.softmax_form(x.text, new, c)}, axis=1);")
        self.emit(f"{top} = {new};")
        self.indent -= 1
        self.emit("}")
        self.scope = saved
        self.shown.append(Val(f"({total} * 0.5)", "f32", (rows,), 64.0))
        self.shown.append(Val(f"({top} + 0.0)", "f32", (rows,), 64.0))
