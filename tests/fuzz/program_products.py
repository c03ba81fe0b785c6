"""program_products.py - loops whose tiles go through several products: attention and GEMM's neighbours.

Dimensions have labels: m the grid's range (the rows), j a second one, n the loop's range, d and e
constants.  A pool holds tiles of the types that multiply by their labels; a product takes two of them that share a label,
either way round, and its result goes on: into an accumulator, through arithmetic and back into the
pool, into row statistics, or to memory.
"""
import numpy as np

from program_values import BYTES, FLOATS8, N_AUTO, STORED, Axis, Reject, Val, settle

ROOM = 4096.0


class Products:
    # ---- labels ----

    def label_axes(self):
        """{label: (extent, subscript, size)} of what is there from the start."""
        made = {}
        for k, axis in enumerate(self.own[:2]):
            made["mj"[k]] = (axis.extent, axis.parts)
        if "m" not in made:
            extent = self.pick([16, 32, 64, 64])
            made["m"] = (extent, [(f"iota({extent})", self.size(extent, 1))] if self.chance(0.5) else [(":", extent)])
        for k, extent in enumerate(self.const_axes[:2]):
            made["de"[k]] = (extent, [(":", extent)])
        return made

    def shape_of(self, labels):
        return tuple(self.at[x][0] for x in labels)

    def load_labels(self, labels, dtype=None):
        parts = [p for x in labels for p in self.at[x][1]]
        dtype = dtype or self.pick_factor()
        v = self.load("f32" if dtype == "tf32" else dtype, self.shape_of(labels), parts)
        return settle(dtype, v.shape, f"({v.text} as tf32)", v.mag, v.grain) if dtype == "tf32" else v

    def draw_factors(self, r):
        """The types of left and right operands.  (By numbers of their own: programs of 16 bits are what they were.)"""
        self.factors, self.room, self.loaded = (self.half, self.half), ROOM, False
        if self.tight and r.random() < 0.16:
            some = [*(BYTES if r.random() < 0.5 else FLOATS8)]
            self.factors = tuple(some[int(k)] for k in r.integers(0, 2, 2))
            self.room = 2.0**24
            self.loaded = r.random() < (0.7 if self.whole else 0.3)  # what is computed is no operand
        elif self.tight and r.random() < (0.22 if self.whole else 0.08):  # f32 in memory, rounded by copies or by casts
            self.factors, self.loaded = ("tf32", "tf32"), r.random() < (0.9 if self.whole else 0.5)

    def draw_tiles(self, r):
        """Whether scores are changed by tiles of memory that are no operands; by numbers of its own, too."""
        self.beside_products, self.copied = r if r.random() < 0.5 else None, False

    def by_tile(self, s, labels):
        """A bias or a mask of each pair of places."""
        r = self.beside_products
        dtype, turned = ["f32", "bf16", "f16", "i8", "bool", "bool"][r.integers(6)], r.random() < 0.25
        self.copied = r.random() < 0.8  # rows as copies need them
        t = self.also_reduced(self.load_labels(labels[::-1] if turned else labels, dtype), labels[::-1] if turned else labels)
        self.copied = False
        text = t.text + ".T" * turned
        if dtype == "bool" and r.random() < 0.5:
            return Val(f"where({text}, {s.text}, 0.5)", "f32", s.shape, max(s.mag, 2.0), min(s.grain, 0.5))
        if dtype == "bool":
            return Val(f"exp2(mask({self.tame(s, 3.0).text}, {text}))", "f32", s.shape, 24.0)
        scale = 0.125 if dtype == "i8" else 1.0
        text = text if dtype == "f32" else f"({text} as f32)"
        return settle("f32", s.shape, f"{s.text} + {text} * {scale}", s.mag + t.mag * scale, min(s.grain, t.grain * scale))

    @property
    def unrounded(self):
        """What tensors of operands are of, where not of the operands' type."""
        return ("f32",) if "tf32" in self.factors else ()

    def pick_factor(self):
        return self.factors[0] if self.factors[0] == self.factors[1] else self.pick(self.factors)

    @property
    def narrow(self):
        return self.factors[0] in (*STORED, "tf32")

    def as_f32(self, v):
        """What comes of a product, to compute with."""
        return settle("f32", v.shape, f"({v.text} as f32)", v.mag, 1.0) if v.dtype == "i32" else v

    def operand(self, labels, fresh=0.25, at=0):
        """A tile with these labels, operand `at` of a product: of the pool, its transpose, or loaded."""
        x, y = labels
        dtype = self.factors[at]
        unpacked = self.unpacked(labels, dtype, at)
        if unpacked:
            return unpacked
        known = [v for v, at in self.pool if at == (x, y) and v.dtype == dtype]
        turned = [v for v, at in self.pool if at == (y, x) and v.dtype == dtype]
        if (known or turned) and not self.chance(fresh):
            v = self.pick((known * 2 + turned)[-6:])
            if any(v is u for u in known):
                return v
            return Val(f"{v.text}.T", v.dtype, v.shape[::-1], v.mag, v.grain)
        if np.prod(self.shape_of(labels)) > self.most_elements:
            raise Reject
        # instructions of 8 bits and of tf32 read along the inner dimension
        straight = 0.4 if not self.tight else (0.95, 0.05)[at] if self.narrow else 0.9 if y in "de" else 0.1
        if self.chance(straight):
            v = self.load_labels((x, y), dtype)
            if self.chance(0.4):
                v = self.let(v)
                self.pool.append((v, (x, y)))
            return v
        v = self.load_labels((y, x), dtype)
        if self.chance(0.4):
            v = self.let(v)
            self.pool.append((v, (y, x)))
        return Val(f"{v.text}.T", v.dtype, v.shape[::-1], v.mag, v.grain)

    def two_operands(self, labels, over):
        a, b = self.operand((labels[0], over)), self.operand((over, labels[1]), 0.97 if self.tight else 0.5, 1)
        return a, b

    # ---- what is done to a product's result ----

    def rows_factor(self, x):
        """A factor of at most 1, for each row (label x), or for all."""
        shape = (self.at[x][0],)
        roll = self.r.random()
        if roll < 0.4:
            return self.pick(["0.5", "0.75", "0.25"])
        known = [v for v in self.scope if v.shape == shape and v.dtype == "f32" and not v.ninf]
        if known and roll < 0.8:
            v = self.pick(known)
            if v.mag <= 1.0:
                return f"{v.text}[:, None]"
            return f"{self.pick(['tanh', 'cos'])}({self.tame(v, 8.0).text})[:, None]"
        if roll < 0.9:
            return f"({self.load_labels((x,), 'f32').text} * 0.25)[:, None]"
        return f"(tanh({self.param('f32').text}))"

    def seen(self, labels):
        """A mask of a tile with these labels: text of a bool."""
        def index(label, at):
            extent, parts = self.at[label]
            sub = parts[0][0] if parts[0][0] != ":" else f"iota({extent})"
            return f"({sub})[:, None]" if at == 0 else f"({sub})[None, :]"
        if self.edgy("compare", 0.7) or self.edgy("given", 0.3):
            return self.window(index(labels[1], 1), index(labels[0], 0))
        offset = self.pick(["", " + 3", " - 7", f" + {self.param('i32').text}"])
        c = f"{index(labels[1], 1)} {self.pick(['<=', '>', '<', '>='])} {index(labels[0], 0)}{offset}"
        if self.chance(0.2):
            c += f" && {index(labels[1], 1)} > {index(labels[0], 0)} - {self.number(3, 40)}"
        return c

    def bend(self, s, labels):
        """One elementwise step."""
        roll = self.r.random()
        if self.by_library(0.3):
            v = self.library_bend(s, labels)
        elif self.beside_products is not None and self.beside_products.random() < 0.7 and np.prod(s.shape) <= self.most_elements:
            v = self.by_tile(s, labels)
        elif roll < 0.2:
            text, value = self.pick([("0.5", 0.5), ("0.125", 0.125), ("0.3", 0.3), ("(-0.25)", 0.25)])
            v = settle("f32", s.shape, f"{s.text} * {text}", s.mag * value, s.grain * (value if value != 0.3 else 0))
        elif roll < 0.32:
            at = self.number(0, 1)
            bias = self.load_labels((labels[at],), "f32")
            v = settle("f32", s.shape, f"{s.text} + {bias.text}[{':, None' if at == 0 else 'None, :'}]",
                       s.mag + bias.mag, min(s.grain, bias.grain))
        elif roll < 0.5:
            v = Val(f"where({self.seen(labels)}, {s.text}, {self.pick(['0.0', '0.5', '(-2.0)'])})", "f32", s.shape,
                    max(s.mag, 2.0), min(s.grain, 0.5))
        elif roll < 0.62:
            t = self.tame(s, 3.0)
            v = Val(f"{self.pick(['exp', 'exp2'])}({t.text})", "f32", s.shape, 24.0)
        elif roll < 0.7:
            t = self.tame(s, 3.0)
            v = Val(f"{self.pick(['exp', 'exp2'])}(mask({t.text}, {self.seen(labels)}))", "f32", s.shape, 24.0)
        elif roll < 0.78:
            name = self.pick(["relu", "silu", "sigmoid", "gelu"])
            self.uses.add("epilogue")
            t = self.tame(s, 8.0)
            v = settle("f32", s.shape, f"{name}({t.text})", 8.0, t.grain if name == "relu" else 0.0)
        elif roll < 0.84:
            t = self.tame(s, 8.0)
            v = Val(f"tanh({t.text})", "f32", s.shape, 1.0)
        elif roll < 0.89:
            self.uses.add("score")
            v = Val(self.pick([f"softcap({s.text}, 0.25, 4.0)", f"softcap_tanh({s.text}, 0.25, 4.0)"]), "f32", s.shape, 16.0)
        else:
            known = [u for u in self.scope if u.dtype == "f32" and u.shape in (s.shape, s.shape[:1], s.shape[1:]) and
                     not u.ninf and u.text != s.text]
            if not known:
                raise Reject
            u = self.pick(known[-5:])
            op = self.pick("+-*")
            mag = s.mag * u.mag if op == "*" else s.mag + u.mag
            grain = s.grain * u.grain if op == "*" else min(s.grain, u.grain)
            v = settle("f32", s.shape, f"{s.text} {op} {self.grown(u, s.shape)}", mag, grain)
        if self.chance(0.02): # the tile is read twice, over and over
            made = self.let(s.named(f"({s.text} + 0.0)"), "var")
            for _ in range(self.number(8, 36)):
                self.emit(f"{made.text} = {made.text} - ({made.text} - {made.text});")
            self.tiles.append((made, labels))
        v = self.tame(v if " " not in v.text or v.text.startswith("(") else v.named(f"({v.text})"))
        made = self.let(v)
        self.tiles.append((made, labels))
        return made

    def softmax(self, s, labels):
        """p of a softmax's step, and the accumulators of those rows scaled."""
        rows = self.at[labels[0]][0]
        st = next((n for n, x in self.softmaxes if x == labels[0]), None)
        if st is None:
            raise Reject
        self.softmaxes = [(n, x) for n, x in self.softmaxes if n != st]  # once a loop
        if self.by_library(0.7):
            s = self.let(self.library_mask(s, labels))
        elif self.chance(0.5):
            s = self.let(Val(f"mask({s.text}, {self.seen(labels)})", "f32", s.shape, s.mag, s.grain, True))
        p, alpha, scale = self.fresh_name("p"), self.fresh_name("alpha"), self.scales[st]
        self.uses.add("softmax")
        accs = [v for v, at in self.accs if at[0] == labels[0] and v.dtype == "f32"]
        if self.chance(0.25) and accs:
            acc = self.pick(accs)
            # by 0: what is made of p elsewhere must not hang on which rows are scaled
            self.emit(f"let {p} = softmax_step_lazy({st}, {acc.text}, {s.text}, {scale}, 0.0);")
            for other in accs:
                if other is not acc and self.chance(0.5):
                    self.emit(f"{other.text} *= 0.5;")
            made = Val(p, "f32", s.shape, 300.0)
        else:
            self.emit(f"let ({p}, {alpha}) = softmax_step({st}, {s.text}, {scale});")
            factor = Val(alpha, "f32", (rows,), 1.0)
            self.scope.append(factor)
            for acc in accs:
                if self.chance(0.7):
                    self.emit(f"{acc.text} *= {alpha}[:, None];" if self.chance(0.5) else
                              f"{acc.text} = {acc.text} * {alpha}[:, None];")
            made = Val(p, "f32", s.shape, 1.0)
        self.scope.append(made)
        self.tiles.append((made, labels))
        return made

    def into_pool(self):
        v, labels = self.pick(self.tiles[-4:])
        t, dtype = self.tame(v, 32.0), self.pick_factor()
        if dtype in FLOATS8 and t.grain == 0 and self.chance(0.8):
            raise Reject  # nothing is left that tells a mistake from rounding
        if dtype in BYTES and t.mag <= 2.0:  # else nearly all of them are 0
            t = settle("f32", v.shape, f"({t.text} * 64.0)", t.mag * 64, t.grain * 64)
        made = settle(dtype, v.shape, f"({t.text} as {dtype})", t.mag, t.grain)
        if self.chance(0.5):
            made = self.let(made)
        self.pool.append((made, labels))

    # ---- steps of a loop ----

    def step_score(self):
        """A tile over the loop's range."""
        inner = [x for x in self.at if x == "n"] or ["m"]
        other = self.pick([x for x in self.at if x != "n"]) if not self.tight or self.chance(0.04) else "m"
        labels = (other, inner[0]) if self.chance(0.95 if self.easy else 0.75) else (inner[0], other)
        if np.prod(self.shape_of(labels)) > self.most_elements or self.left <= 0:
            raise Reject
        over = self.pick([x for x in "ddde" if x in self.at]) if self.tight else \
            self.pick([x for x in "ddde" if x in self.at] + [x for x in "mjn" if x in self.at and self.chance(0.15)])
        a, b = self.two_operands(labels, over)
        self.left -= 1
        if self.chance(0.02 if self.whole else 0.1):
            bias = self.load_labels(labels, "i32" if a.dtype in BYTES else "f32")
            p = self.multiplied(a, b, bias)
        else:
            p = self.multiplied(a, b)
        s = self.let(self.tame(self.as_f32(p)))
        self.tiles.append((s, labels))
        for _ in range(self.pick([0, 0, 1, 1, 2])):
            try:
                s = self.bend(s, labels)
            except Reject:
                pass
        if self.each and self.chance(0.6):
            s = self.by_number(s, labels)
        low = labels[1] == inner[0] and self.softmaxes and self.edgy("low", 0.8)
        if self.softmaxes and (low or self.chance(0.6)):
            try:
                s = self.softmax(self.with_low(s, labels) if low else s, labels)
            except Reject:
                pass
        if self.chance(0.75):
            self.tiles, kept = [(s, labels)], self.tiles
            self.into_pool()
            self.tiles = kept

    def step_acc(self):
        """A product into an accumulator."""
        if not self.accs or self.left <= 0:
            raise Reject
        acc, labels = self.pick(self.accs)
        have = [at for _, at in self.pool]
        overs = [x for x in self.at if (labels[0], x) in have or (x, labels[0]) in have]
        if self.tight and self.chance(0.95):
            overs = [x for x in overs if x == "n"]
        over = self.pick(overs) if overs and self.chance(0.8) else ("n" if "n" in self.at else "d")
        a, b = self.two_operands(labels, over)
        self.left -= 1
        n = self.times(acc)
        most = acc.room * 0.4 / n
        if a.mag * b.mag * a.shape[1] > most:
            if self.narrow:
                raise Reject
            by = float(2.0**-np.ceil(np.log2(a.mag * b.mag * a.shape[1] / most)))
            if by < 2.0**-8:
                raise Reject
            a = Val(f"({a.text} * {by!r})", a.dtype, a.shape, a.mag * by, 0.0)
        mag = a.mag * b.mag * a.shape[1]
        acc.room -= min(mag * n, acc.room * 0.4)
        x, r = labels[0], self.r.random()
        name = acc.text
        if self.whole and self.chance(0.8):  # a sum in tensor memory has one product, and is changed once in front of it
            self.accs = [(v, at) for v, at in self.accs if v is not acc]
            r *= 0.58
        if acc.dtype == "i32":
            p = f"mma({a.text}, {b.text}{', ' + name if r < 0.6 else ''})"
            self.emit(f"{name} = {p};" if r < 0.4 or (self.order_free and r < 0.6) else f"{name} = max({p}, {name} - 7);" if r < 0.5 else
                      f"if {self.condition()} {{ {name} = {p}; }}" if r < 0.6 else f"{name} {'+-'[r > 0.8]}= {p};")
        elif a.dtype in BYTES:
            self.emit(f"{name} += {self.as_f32(self.multiplied(a, b)).text};")
        elif r < 0.42 or self.order_free:
            self.emit(f"{name} = mma({a.text}, {b.text}, {name});")
        elif r < 0.58:
            self.emit(f"{name} = mma({a.text}, {b.text}, {name} * {self.rows_factor(x)});")
        elif r < 0.66:
            self.emit(f"{name} += mma({a.text}, {b.text});")
        elif r < 0.72:
            self.emit(f"{name} = {name} * {self.rows_factor(x)} + mma({a.text}, {b.text});")
        elif r < 0.8:
            self.emit(f"{name} = mma({a.text}, {b.text}, {name});")
            self.emit(f"{name} = {name} * {self.rows_factor(x)};")
        elif r < 0.84 and not self.easy:
            self.emit(f"{name} = max(mma({a.text}, {b.text}, {name}), -1.0);")
        elif r < 0.88:
            rows = Val("", "bool", (acc.shape[0],))
            c = self.expr("bool", rows.shape, 1)
            self.emit(f"{name} = where({c.text}[:, None], mma({a.text}, {b.text}, {name}), {name});")
        elif r < 0.92 and not self.easy:
            self.emit(f"if {self.condition()} {{ {name} = mma({a.text}, {b.text}, {name}); }}")
        elif r < 0.95:
            made = self.let(self.tame(self.multiplied(a, b)))
            self.emit(f"{name} = {name} + {made.text};")
        else:
            self.emit(f"{name} = mma({a.text}, {b.text}, {name}) * {self.rows_factor(x)};")

    def step_acc_used(self):
        """An accumulator's value as it is now, as an operand or a result."""
        if not self.accs or self.order_free:
            raise Reject
        acc, labels = self.pick(self.accs)
        s = self.let(Val(f"({self.as_f32(acc).text} * {64 / self.room!r})", "f32", acc.shape, 64.0))
        self.tiles.append((s, labels))
        if self.chance(0.5):
            self.into_pool()

    def step_scale(self):
        if not self.accs or self.order_free:
            raise Reject
        acc, labels = self.pick(self.accs)
        if acc.dtype == "i32":
            raise Reject
        self.emit(f"{acc.text} *= {self.rows_factor(labels[0])};")

    def step_bend(self):
        if not self.tiles:
            raise Reject
        s, labels = self.pick(self.tiles[-3:])
        s = self.bend(s, labels)
        if self.chance(0.5):
            self.tiles.append((s, labels))
            self.into_pool()

    def step_stats(self):
        """Rows or columns of a tile into a variable."""
        if not self.tiles:
            raise Reject
        s, labels = self.pick(self.tiles)
        axis = self.number(0, 1)
        stat = [v for v, x in self.stats if x == labels[1 - axis]]
        if not stat:
            raise Reject
        v = self.pick(stat)
        if self.order_free:
            if v.order_free not in (False, "max"):
                raise Reject
            v.order_free = "max"
        if self.order_free or self.chance(0.4):
            s = self.tame(s, v.mag)
            self.emit(f"{v.text} = max({v.text}, max({s.text}, axis={axis}));")
            return
        e = Val(f"sum({s.text}, axis={axis})", "f32", v.shape, s.mag * s.shape[axis], s.grain)
        if self.chance(0.3):
            e = self.let(self.tame(e))
        e = self.fitted(e, v)
        self.emit(f"{v.text} += {e.text};" if self.chance(0.7) else f"{v.text} = {v.text} * 0.5 + {e.text};")

    def step_memory(self):
        """A tile over the loop's range: added to memory, or stored."""
        if self.chance(0.65):
            over = self.pick([x for x in "nmj" if x in self.at])
            to = self.pick([x for x in "de" if x in self.at])
            labels = (over, to)
            have = [at for _, at in self.pool]
            overs = [x for x in self.at if x not in (over, to) and ((over, x) in have or (x, over) in have)]
            if not overs or self.left <= 0:
                raise Reject
            a, b = self.two_operands(labels, self.pick(overs))
            self.left -= 1
            e = self.tame(self.as_f32(self.multiplied(a, b)), 64.0)
        else:
            if not self.tiles:
                raise Reject
            e, labels = self.pick(self.tiles)
            if self.order_free and self.chance(0.5):
                raise Reject
        parts = [p for x in labels for p in self.at[x][1]]
        if self.chance(0.3):
            e = self.let(e)
        lead = [(n, s) for n, s in self.counts[:self.n_counts]]
        everything = [p for x in self.at if x in "mj" and self.own_label(x) for p in self.at[x][1]]
        if all(p in parts for p in everything) and self.chance(0.7) and \
                ("n" in labels or not self.trips) and len(self.trips) <= 1:
            t = self.new_tensor("out", "f32" if self.chance(0.5) else self.half, lead + parts)
            text = e.text if t.dtype == "f32" else f"({self.tame(e).text} as {self.half})"
            self.emit(f"store {t.name}[{', '.join(s for s, _ in lead + parts)}] = {text};")
            return
        extra = [p for p in lead if self.chance(0.6)]
        t = self.new_tensor("inout", "f32", extra + parts)
        self.emit(f"atomic_add {t.name}[{', '.join(s for s, _ in extra + parts)}] += {e.text};")

    def own_label(self, x):
        return (x == "m" and len(self.own) > 0) or (x == "j" and len(self.own) > 1)

    def step_other(self):
        """A statement of the free kind."""
        self.block(1)

    def step_branch(self):
        if self.indent > 4:
            raise Reject
        self.emit(f"if {self.condition()} {{")
        saved = (list(self.scope), list(self.pool), list(self.tiles), list(self.softmaxes))
        self.indent += 1
        before = len(self.lines)
        self.steps(self.number(1, 3))
        self.scope, self.pool, self.tiles, self.softmaxes = [list(x) for x in saved]
        if self.chance(0.3) and len(self.lines) > before:
            self.indent -= 1
            self.emit("} else {")
            self.indent += 1
            self.steps(self.number(1, 2))
            self.scope, self.pool, self.tiles, self.softmaxes = saved
        self.indent -= 1
        self.emit("}")
        if len(self.lines) == before + 1:
            raise Reject

    def steps(self, n, kinds=None):
        weights = {"score": 4, "acc": 4, "stats": 1.2, "bend": 1, "scale": 0.8, "acc_used": 0.5, "memory": 1.2,
                   "branch": 0.6, "other": 0.6}
        if self.tight:
            weights.update(acc_used=0.15, branch=0.2, other=0.3, memory=0.8)
        if self.easy:
            weights.update(acc_used=0.02, branch=0.04, other=0.08, memory=0.03 if self.whole else 0.25, bend=0.6)
        if self.loaded:
            weights.update(score=0.2, acc_used=0.02)
        weights["reductions"] = 3 * ("reductions" in self.edges)
        names = kinds or list(weights)
        p = np.array([float(weights[x]) for x in names])
        p /= p.sum()
        for _ in range(n):
            kept = (len(self.lines), list(self.scope), self.indent, list(self.pool), list(self.tiles),
                    list(self.softmaxes), self.left)
            try:
                getattr(self, "step_" + names[int(self.r.choice(len(names), p=p))])()
            except Reject:
                lines, self.scope, self.indent, self.pool, self.tiles, self.softmaxes, self.left = kept
                del self.lines[lines:]

    # ---- loops and kernels ----

    def loop_head(self, extent):
        """(name, text, size, trips) of a loop over tiles."""
        name = self.fresh_name("n")
        size = self.size(extent, 3)
        value = self.sizes[size]
        text = f"tiles({size}, {self.extent_text(extent)})"
        if self.chance(0.05 if self.easy else 0.2):
            lo = "0"
            if self.chance(0.5):
                lo, _ = self.bound(max(1, min(value, 20)), True)
            hi, last = (size, value) if self.chance(0.3) else self.bound(max(1, value), tiles=True)
            text = f"tiles({lo}..{hi}, {self.extent_text(extent)})"
            value = max(value, last)
        elif self.chance(0.3 if "shifted" in self.edges else 0.02 if self.easy else 0.08) and self.counts[:self.n_counts]:
            try:
                bounds, _ = self.packed_bounds(size, self.true_extent(extent))
                text = f"tiles({bounds}, {self.extent_text(extent)})"
            except Reject:
                pass
        return name, text, size, max(1, -(-value // extent))

    def vector_beside(self, name, trips):
        """A vector of the rows that a loop adds up beside its products, and what its iterations do."""
        r, axis = self.beside_r, self.own[0] if self.own else None
        if not self.tight or axis is None or len(axis.parts) > 1 or r.random() > 0.06 or self.indent > 1:
            return None
        made, t = self.fresh_name("v"), self.tensor("in", "f32", [trips, axis.parts[0][1]])
        t.align = "" if r.random() < 0.7 else t.align  # mostly not as TMA wants it
        self.emit(f"var {made} = zeros<f32>[{axis.extent}];")
        self.vector = Val(f"({made} * 0.5)", "f32", (axis.extent,), 16.0)
        return f"{made} += load {t.name}[min({name}.number, {trips - 1}), {axis.parts[0][0]}];"

    def product_loop(self, extent):
        name, text, size, trips = self.loop_head(extent)
        vector = self.vector_beside(name, trips)
        saved = (dict(self.at), list(self.scope), list(self.axes), list(self.pool), list(self.tiles),
                 list(self.softmaxes), self.order_free, list(self.accs))
        attributes = f"@stages({self.number(1, self.most_stages())}) " if self.chance(0.1) else ""
        attributes += "@no_split " if self.chance(0.06) else ""
        self.order_free = self.chance(0.1)
        attributes += "@any_order " if self.order_free else ""
        counts, start = list(self.counts), len(self.lines)
        whole = text.startswith(f"tiles({size}, ") and extent != N_AUTO
        if whole and self.edges & {"numbered", "packed"} and self.chance(0.7):
            number = self.fresh_name("i")
            self.emit(f"{attributes}for {number} in 0..cdiv({size}, {extent}) {{")
            self.emit(f"    let {name} = {text}[{number}];")
            self.counts.append((number, self.count_of(size, extent)))
            self.each = self.counts[-1]
        else:
            self.emit(f"{attributes}for {name} in {text} {{")
        before = len(self.lines)
        self.begin_copied(name)
        axis = Axis(extent, [(name, size)])
        axis.owner = None
        self.at["n"] = (extent, axis.parts)
        self.axes.append(axis)
        self.trips.append(trips)
        self.level += 1
        self.indent += 1
        self.left = self.number(1, 3 if self.easy and self.chance(0.6) else 5)
        if self.order_free:
            self.softmaxes = []
        self.tile_beside(0.4)
        if self.tight and not self.loaded and self.chance(0.75):
            self.steps(1, ["score"])
        self.steps(self.number(3, 9))
        if any("n" in at for _, at in self.pool) and self.chance(0.8):  # what was computed is used
            self.left = max(self.left, 1)
            self.steps(2, ["acc", "acc", "memory", "stats"])
        self.tile_beside(0.4)
        if vector:
            self.emit(vector)
        self.indent -= 1
        self.level -= 1
        self.trips.pop()
        self.at, self.scope, self.axes, self.pool, self.tiles, self.softmaxes, self.order_free, self.accs = saved
        self.counts, self.each = counts, None
        for v in self.scope:
            v.order_free = False
        if len(self.lines) == before:
            raise Reject
        self.emit("}")
        self.end_copied(start)
        if vector:
            self.shown.append(self.vector)

    def count_loop(self, extents):
        """Tile loops in a loop over a count: heads of a group, say."""
        name = self.fresh_name("h")
        text, most = self.bound(2)
        self.emit(f"for {name} in 0..{text} {{")
        saved = (list(self.scope), list(self.counts), list(self.pool), list(self.tiles), list(self.softmaxes))
        self.scope.append(Val(name, "i32", (), 3, 1.0))
        size = self.number(1, 3)
        self.counts.append((self.inside(name, size), size))
        self.trips.append(max(1, most))
        self.level += 1
        self.indent += 1
        before = len(self.lines)
        for extent in extents:
            self.try_loop(extent)
        self.indent -= 1
        self.level -= 1
        self.trips.pop()
        self.scope, self.counts, self.pool, self.tiles, self.softmaxes = saved
        if len(self.lines) == before:
            raise Reject
        self.emit("}")

    def try_loop(self, extent):
        kept = (len(self.lines), self.indent, self.level, list(self.trips), dict(self.at), list(self.scope),
                list(self.axes), list(self.pool), list(self.tiles), list(self.softmaxes), self.order_free, list(self.accs),
                list(self.counts))
        try:
            self.product_loop(extent)
        except Reject:
            (lines, self.indent, self.level, self.trips, self.at, self.scope, self.axes, self.pool, self.tiles,
             self.softmaxes, self.order_free, self.accs, self.counts) = kept
            del self.lines[lines:]

    def begin_products(self):
        self.at, self.pool, self.tiles, self.accs, self.stats, self.softmaxes = self.label_axes(), [], [], [], [], []
        self.left = 3
        if not hasattr(self, "n_counts"):
            self.n_counts = 0
        flat = [x for x in self.at if x in "mj"]
        for _ in range(self.number(0, 2)):  # operands that stay
            labels = (self.pick(flat), self.pick([x for x in self.at if x in "de"]))
            if np.prod(self.shape_of(labels)) <= self.most_elements:
                v = self.let(self.load_labels(labels))
                self.pool.append((v, labels))
        for _ in range(self.pick([1, 1, 1, 1, 2] if self.easy else [1, 1, 1, 2, 2, 3])):
            labels = (self.pick(["m"] if self.easy else flat + ["m"] * 3), self.pick([x for x in self.at if x in "dej"]))
            if labels[0] == labels[1] or np.prod(self.shape_of(labels)) > self.most_elements:
                continue
            dtype = "i32" if self.factors[0] in BYTES and self.chance(0.8) else "f32"
            acc = self.variable(dtype, self.shape_of(labels), self.whole and self.chance(0.9))
            acc.grain, acc.room, acc.mag = 1.0 if dtype == "i32" else 0.0, self.room, self.room
            self.accs.append((acc, labels))
        for k in range(3 if "reductions" in self.edges else self.pick([0, 1, 1, 2])):
            x = "m" if "reductions" in self.edges and k < 2 else self.pick(flat + [y for y in "d" if y in self.at and self.chance(0.3)])
            v = self.variable("f32", (self.at[x][0],))
            v.grain = 0.0
            self.stats.append((v, x))
        self.scales, self.each, self.ended = {}, None, None
        if self.chance(0.9 if "low" in self.edges or self.has_library else 0.35):
            st, rows = self.fresh_name("st"), self.at["m"][0]
            self.uses.add("softmax")
            self.scales[st] = self.pick(["0.25", "1.0", "0.125"]) if "low" in self.edges else "0.25"
            init = self.library_init(rows, self.scales[st]) if self.by_library(0.7) else f"softmax_init({rows})"
            self.emit(f"var {st} = {init};")
            self.softmaxes.append((st, "m"))
            self.ended = st

    def end_products(self):
        st = getattr(self, "ended", None)
        if st and any(f"({st}, " in line for line in self.lines):
            inv, lse, rows = self.fresh_name("inv"), self.fresh_name("lse"), self.at["m"][0]
            self.emit(f"let ({inv}, {lse}) = softmax_end({st}, {self.scales[st]});")
            v = self.let(Val(f"max({lse}, -100.0)", "f32", (rows,), 100.0))
            v.room = 0.0
            if self.chance(0.6):
                for acc, labels in self.accs:
                    if labels[0] == "m" and acc.dtype == "f32":
                        self.emit(f"{acc.text} *= {inv}[:, None];")
        self.ended = None

    def beside_body(self):
        self.begin_products()
        extents = [N_AUTO if N_AUTO in self.auto else self.pick([16, 32, 48, 64, 64, 64, 64, 80, 96, 128]) for _ in range(self.pick([1, 1, 1, 2, 2, 3]))]
        if self.easy:
            extents = [x if 32 < x < 128 or self.chance(0.2) else 64 for x in extents]
        if self.tight:
            extents = extents[:1 if self.chance(0.95) else 2]
        if len(extents) > 1 and self.chance(0.3):
            extents = extents[:1] * len(extents)
        if self.chance(0.15):
            self.block(1)
        if self.edgy("numbered", 0.3):
            self.block(1, "numbers")
        if self.chance(0.05):
            self.block(1, "batch")
            extents = [] if self.chance(0.7) and any("mma(" in line for line in self.lines) else extents
        if self.chance(0.02 if self.whole else 0.08 if self.easy else 0.2):
            try:
                kept = (len(self.lines), self.indent)
                self.count_loop(extents)
            except Reject:
                del self.lines[kept[0]:]
                self.indent = kept[1]
        else:
            for extent in extents:
                self.try_loop(extent)
                if self.chance(0.15):
                    self.block(1)
        self.loop_of_tiles()
        self.left = 0 if self.tight else 1
        if self.chance(0.1 if self.easy else 0.3):
            self.steps(self.number(1, 3))
        self.end_products()
        if not any("mma(" in line for line in self.lines):
            raise Reject

    def chain_in_place(self):
        """A loop of products amid other statements."""
        names = ("at", "pool", "tiles", "accs", "stats", "softmaxes", "scales", "each", "left", "ended")
        kept = {name: getattr(self, name, None) for name in names}  # it may stand in such a loop
        try:
            self.begin_products()
            self.try_loop(self.pick([8, 16, 24, 32, 40, 48, 64]))
            self.end_products()
        finally:
            if kept["at"] is not None:
                for name, value in kept.items():
                    setattr(self, name, value)
