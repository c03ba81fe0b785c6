"""planned_programs.py - random programs of the kind that warp groups can share: a loop with products of
loaded tiles, arithmetic on their results, and products with what that gives.

Every tile of scores lies between the consumer's own rows (`b`, 64 of them, or 128) and the loop's range (`l`);
`turned` programs have it the other way round.  The reference goes through the tiles of the loop as
the program does, with all rows of `b` at once; a program that stores 16 bits anywhere is also computed
with those roundings, to know what error is to be expected.
"""
import numpy as np

import ladder


class Maker:
    def __init__(self, random, own=64, tiles=None):
        """`tiles`: draws tiles of memory that scores are changed by; None: there are none"""
        self.random, self.own, self.tiles = random, own, tiles
        self.turned = self.chance(0.35)
        self.dtype = self.pick("f16", "bf16")
        self.rows, self.cols = self.whole(1, 230), self.whole(1, 230)
        self.tile = 16 * self.whole(1, 7)
        self.heads = self.pick(0, 0, 2, 3)
        self.groups = self.pick(0, 0, 0, 1, 2, 3)  # a loop around the loop
        self.tensors = []  # (name, mode, dtype, shape text, values or None)
        self.before, self.inside, self.after = [], [], []
        self.steps = []  # of an iteration: functions of its state
        self.finish = []  # behind the loop
        self.sums = {}  # what atomic additions begin with
        self.carried = {}  # name: (text of the initial value, function of the reference)
        self.count = 0
        if tiles is not None:  # rows of 16 bytes
            self.rows, self.cols = (x + 15 & -16 for x in (self.rows, self.cols))

    def chance(self, p):
        return self.random.random() < p

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def whole(self, low, high):
        return int(self.random.integers(low, high + 1))

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    # ---- tensors: the reference sees them as [heads, groups, ..] ----

    def tensor(self, stem, dims, dtype, scale=1.0, mode="in", transposed=False):
        """dims: of "B", "L" or a number; returns the name and the values, rounded."""
        name = self.name(stem)
        sizes = {"B": self.rows, "L": self.cols}
        shape = [sizes.get(d, d) for d in dims]
        grouped = self.groups and "L" in dims
        lead = (max(self.heads, 1), self.groups if grouped else 1)
        if dtype in ("i8", "bool"):
            drawn = self.tiles.integers(-9, 10, (*lead, *shape))
            values = (drawn > -5) if dtype == "bool" else drawn.astype(np.int8)
        else:
            values = ladder.rounded(scale * self.random.standard_normal((*lead, *shape)), dtype)
        if mode == "out":
            values = None
        text = ["H"] * bool(self.heads) + ["G"] * bool(grouped)
        text += [{"B": "SB", "L": "SL"}.get(d, str(d)) for d in dims]
        given = values
        if transposed:
            text[-2:] = text[:-3:-1]
            given = None if values is None else np.swapaxes(values, -1, -2)
        if given is not None:
            given = given if grouped else given[:, 0]
            given = given if self.heads else given[0]
        self.tensors.append((name, mode, dtype, ", ".join(text), given))
        return name, values

    def index(self, *parts):
        lead = ["h"] * bool(self.heads) + ["g"] * bool(self.groups and "l" in parts)
        return "[" + ", ".join(lead + list(parts)) + "]"

    # ---- pieces of text ----

    def along_b(self, v):
        return f"{v}[None, :]" if self.turned else f"{v}[:, None]"

    def along_l(self, v):
        return f"{v}[:, None]" if self.turned else f"{v}[None, :]"

    def tile_shape(self):
        return f"{self.tile}, {self.own}" if self.turned else f"{self.own}, {self.tile}"

    def early(self):
        """A product of two loaded tiles."""
        d = 8 * self.whole(1, 16) if self.chance(0.5) else self.pick(32, 64, 128)
        if d % 16 and self.chance(0.7):
            d += 8
        s, k = self.name("s"), self.name("k")
        own_turned, other_turned = self.chance(0.2), self.chance(0.3)
        q, qv = self.tensor("Q", ["B", d], self.dtype, 1.0, "in", own_turned)
        kt, kv = self.tensor("K", ["L", d], self.dtype, d**-0.5, "in", other_turned)
        own = self.name("q")
        self.before.append(f"let {own} = load {q}" + self.index(*((":", "b") if own_turned else ("b", ":"))) + ";")
        self.inside.append(f"let {k} = load {kt}" + self.index(*((":", "l") if other_turned else ("l", ":"))) + ";")
        a = f"{own}.T" if own_turned else own  # [b, d]
        x = k if other_turned else f"{k}.T"  # [d, l]
        if self.turned:
            a, x = (f"{k}.T" if other_turned else k), (own if own_turned else f"{own}.T")
        self.inside.append(f"var {s} = mma({a}, {x});")
        self.steps.append(lambda e: e.set(s, ladder.product("hbd,hld->hbl", qv[:, 0], e.part_of(kv))))
        return s

    # ---- arithmetic on a tile ----

    def change(self, s):
        kind = self.pick("bias", "scale", "relu", "tanh", "exp2", "where", "mask", "state", "abs",
                         "clamp", "own")
        put = lambda text, fn: (self.inside.append(f"{s} = {text};"),
                                self.steps.append(lambda e: e.set(s, fn(e, e.values[s]))))
        if kind == "bias":
            v = self.name("v")
            name, values = self.tensor("bias", ["L"], "f32", 0.5)
            self.inside.append(f"let {v} = load {name}{self.index('l')};")
            put(f"{s} + {self.along_l(v)}", lambda e, x: x + e.part_of(values)[:, None])
        elif kind == "own":
            v = self.name("v")
            name, values = self.tensor("own", ["B"], "f32", 0.7)
            self.before.append(f"let {v} = load {name}{self.index('b')};")
            put(f"{s} * {self.along_b(v)}", lambda e, x: x * values[:, 0, :, None])
        elif kind == "scale":
            put(f"{s} * 0.75", lambda e, x: x * 0.75)
        elif kind == "relu":
            put(f"max({s}, 0.0)", lambda e, x: np.maximum(x, 0))
        elif kind == "tanh":
            put(f"tanh({s})", lambda e, x: np.tanh(x))
        elif kind == "abs":
            put(f"abs({s})", lambda e, x: np.abs(x))
        elif kind == "clamp":
            put(f"min(max({s}, -1.5), 2.0)", lambda e, x: np.clip(x, -1.5, 2.0))
        elif kind == "exp2":
            put(f"exp2(min({s}, 2.0))", lambda e, x: np.exp2(np.minimum(x, 2.0)))
        elif kind in ("where", "mask"):
            off, less = self.whole(-40, 60), self.chance(0.6)
            sign = "<=" if less else ">"
            condition = f"{self.along_l('l')} {sign} {self.along_b('b')} + {off}"
            ask = (lambda e: e.l[None, :] <= e.b[:, None] + off) if less else \
                  (lambda e: e.l[None, :] > e.b[:, None] + off)
            if kind == "where":
                put(f"where({condition}, {s}, 0.25)", lambda e, x: np.where(ask(e), x, 0.25))
            else:
                put(f"exp2(mask(min({s}, 2.0), {condition}))",
                    lambda e, x: np.where(ask(e), np.exp2(np.minimum(x, 2.0)), 0.0))
        else:
            name = self.vector()
            put(f"{s} + {self.along_b(name)} * 0.01", lambda e, x: x + e.values[name][:, :, None] * 0.01)

    def by_tile(self, s):
        """What a tile of memory of the same places does to scores."""
        pick = lambda *choices: choices[self.tiles.integers(len(choices))]
        dtype, across, v = pick("f32", "bf16", "f16", "i8", "bool"), pick(False, False, True), self.name("v")
        name, values = self.tensor("tile", ["B", "L"], dtype, 0.5, transposed=across)
        at = self.index(*(("l", "b") if across else ("b", "l")))
        self.inside.append(f"let {v} = load {name}{at};")
        tile = v if across == self.turned else f"{v}.T"
        part = lambda e: values[:, e.group if self.groups else 0, :, e.part]
        if dtype != "bool":
            factor = 0.125 if dtype == "i8" else 1.0
            self.inside.append(f"{s} = {s} + {tile} as f32 * {factor};")
            self.steps.append(lambda e: e.set(s, e.values[s] + part(e) * factor))
        elif pick(True, False):
            self.inside.append(f"{s} = where({tile}, {s}, 0.25);")
            self.steps.append(lambda e: e.set(s, np.where(part(e), e.values[s], 0.25)))
        else:
            self.inside.append(f"{s} = exp2(mask(min({s}, 2.0), {tile}));")
            self.steps.append(lambda e: e.set(s, np.where(part(e), np.exp2(np.minimum(e.values[s], 2.0)), 0.0)))

    def vector(self):
        """A carried vector of the consumer, 0 at first."""
        name = self.name("row")
        self.carried[name] = f"zeros<f32>[{self.own}]"
        self.finish.append(("row", name))
        return name

    def reduce(self, s):
        name, axis = self.vector(), 0 if self.turned else 1
        keep = self.pick(1.0, 1.0, 0.5)
        if self.chance(0.65):
            before = name if keep == 1 else f"{name} * {keep}"
            self.inside.append(f"{name} = {before} + sum({s}, axis={axis});")
            self.steps.append(lambda e: e.set(name, e.values[name] * keep + e.values[s].sum(-1)))
        else:
            self.inside.append(f"{name} = max({name}, max({s}, axis={axis}));")
            self.steps.append(lambda e: e.set(name, np.maximum(e.values[name], e.values[s].max(-1))))
        return name

    def late(self, s):
        dv = 8 * self.whole(1, self.pick(16, 16, 32))
        acc, v = self.name("acc"), self.name("v")
        turned = self.chance(0.25)
        name, values = self.tensor("V", ["L", dv], self.dtype, 0.3, "in", turned)
        self.carried[acc] = f"zeros<f32>[{self.own}, {dv}]"
        self.inside.append(f"let {v} = load {name}" + self.index(*((":", "l") if turned else ("l", ":"))) + ";")
        p = f"({s} as T).T" if self.turned else f"{s} as T"
        factor, scale = acc, (lambda e: 1.0)
        kind = self.pick("plain", "plain", "half", "row")
        if kind == "half":
            factor, scale = f"{acc} * 0.5", (lambda e: 0.5)
        elif kind == "row":
            alpha = self.name("alpha")
            row = self.reduce(s)
            self.inside.append(f"let {alpha} = exp2(min({row}, 0.0) - 0.25);")
            self.steps.append(lambda e: e.set(alpha, np.exp2(np.minimum(e.values[row], 0.0) - 0.25)))
            factor = f"{acc} * {alpha}[:, None]"
            scale = lambda e: e.values[alpha][:, :, None]
        self.inside.append(f"{acc} = mma({p}, {v + '.T' if turned else v}, {factor});")
        self.steps.append(lambda e: e.set(acc, e.values[acc] * scale(e) +
                                          ladder.product("hbl,hld->hbd", e.cut(e.values[s]), e.part_of(values))))
        self.finish.append(("acc", acc))

    def give(self, s):
        """A product that adds up over the consumer's rows, added to memory: all consumers share it."""
        d = self.pick(64, 64, 128)
        q, qv = self.tensor("W", ["B", d], self.dtype, 0.3)
        z, zv = self.tensor("Z", ["L", d], "f32", mode="inout")
        own = self.name("w")
        self.before.append(f"let {own} = load {q}{self.index('b', ':')};")
        p = f"{s} as T" if self.turned else f"({s} as T).T"
        self.inside.append(f"atomic_add {z}{self.index('l', ':')} += mma({p}, {own});")
        self.sums[z] = zv.copy()
        self.steps.append(lambda e: e.add(z, ladder.product("hbl,hbd->hld", e.cut(e.values[s]), qv[:, 0])))

    def store(self, s):
        name, _ = self.tensor("P", ["B", "L"], "f32", mode="out", transposed=self.turned)
        self.inside.append(f"store {name}{self.index(*(('l', 'b') if self.turned else ('b', 'l')))} = {s};")
        self.steps.append(lambda e: e.keep(name, e.values[s]))

    # ---- the whole ----

    def program(self):
        gives = self.chance(0.15)
        if gives:
            self.tile = 64
        for _ in range(self.pick(1, 1, 2)):
            s = self.early()
            for _ in range(self.whole(0, 3)):
                if self.tiles is not None and self.tiles.random() < 0.4:
                    self.by_tile(s)
                self.change(s)
            if self.tiles is not None and self.tiles.random() < 0.7:
                self.by_tile(s)
            if self.chance(0.4):
                self.reduce(s)
            if self.chance(0.12):
                self.store(s)
            if self.chance(0.85):
                self.late(s)
            if self.chance(0.15):
                self.late(s)
            if gives:
                self.give(s)
                gives = False
        if not self.finish:
            self.reduce(s)
        outputs = []
        for kind, name in self.finish:
            dims = ["B"] if kind == "row" else ["B", int(self.carried[name].split(", ")[1][:-1])]
            dtype = "f32" if kind == "row" else self.pick("f32", self.dtype)
            out, _ = self.tensor("Y", dims, dtype, mode="out")
            cast = f" as {'T' if dtype != 'f32' else 'f32'}" if dtype != "f32" else ""
            self.after.append(f"store {out}{self.index(*(['b', ':'][:len(dims)]))} = {name}{cast};")
            outputs.append((out, name, dtype))
        return self.text(), outputs

    def text(self):
        modes = {"in": "in ", "out": "out", "inout": "inout"}
        named = lambda dtype: "T" if dtype == self.dtype else dtype
        aligned = len(self.steps) % 2 == 0  # vectors: TMA can bring them
        params = [f"    {n}: {modes[m]} {named(t)}[{shape}]"
                  + (" align(16)" if t != "f32" or "," in shape or aligned else "")
                  for n, m, t, shape, _ in self.tensors]
        lines = [f"kernel made<T: type = {self.dtype}>", "(", ",\n".join(params), ")", "{",
                 f"    grid b in tiles(SB, {self.own})" + (", h in H;" if self.heads else ";")]
        lines += ["    " + line for line in self.before]
        lines += [f"    var {name} = {text};" for name, text in self.carried.items()]
        loop = [f"for l in tiles(SL, {self.tile}) {{", *("    " + line for line in self.inside), "}"]
        if self.groups:
            loop = ["for g in 0..G {", *("    " + line for line in loop), "}"]
        lines += ["    " + line for line in loop + self.after] + ["}"]
        return "\n".join(lines) + "\n"

    def compute(self, outputs, cut):
        e = State(self, cut)
        for e.group in range(max(self.groups, 1)):
            for first in range(0, self.cols, self.tile):
                e.begin(first)
                for step in self.steps:
                    step(e)
        out = {name: e.all_of(parts) for name, parts in e.kept.items()}
        if self.turned:
            out = {name: np.swapaxes(x, -1, -2) for name, x in out.items()}
        for name, sums in e.sums.items():
            out[name] = sums if self.groups else sums[:, 0]
        out.update({name: cut(e.values[value]) if dtype != "f32" else e.values[value]
                    for name, value, dtype in outputs})
        return {name: x if self.heads else x[0] for name, x in out.items()}


class State:
    """The reference on its way through the loop."""

    def __init__(self, maker, cut):
        self.maker, self.cut, self.values, self.kept = maker, cut, {}, {}
        heads = max(maker.heads, 1)
        for name, text in maker.carried.items():
            dims = text[text.index("[") + 1:-1].split(", ")
            self.values[name] = np.zeros((heads, maker.rows, *map(int, dims[1:])))
        self.b = np.arange(maker.rows)
        self.sums = {name: x.copy() for name, x in maker.sums.items()}

    def begin(self, first):
        last = min(first + self.maker.tile, self.maker.cols)
        self.part = slice(first, last)
        self.l = np.arange(first, last)

    def set(self, name, value):
        self.values[name] = value

    def part_of(self, values):
        """Of a tensor along l: what this iteration sees."""
        return values[:, self.group if self.maker.groups else 0, self.part]

    def all_of(self, parts):
        """What was stored, tile by tile."""
        n = len(parts) // max(self.maker.groups, 1)
        each = [np.concatenate(parts[k:k + n], axis=-1) for k in range(0, len(parts), n)]
        return np.stack(each, axis=1) if self.maker.groups else each[0]

    def add(self, name, value):
        self.sums[name][:, self.group if self.maker.groups else 0, self.part] += value

    def keep(self, name, value):
        self.kept.setdefault(name, []).append(value)


def make(random, own=64, tiles=None):
    """(text, inputs, outputs with what error is allowed them, those of additions, what to call it)"""
    maker = Maker(random, own, tiles)
    text, outputs = maker.program()
    exact = maker.compute(outputs, lambda x: x)
    plain = maker.compute(outputs, lambda x: ladder.rounded(x, maker.dtype))
    dtypes = {name: dtype for name, _, dtype, _, _ in maker.tensors}
    inputs = {name: (values, dtype) for name, mode, dtype, _, values in maker.tensors if mode != "out"}
    wanted = {}
    for name, want in exact.items():
        error = np.abs(plain[name] - want).max()
        allowed = 3 * error + 1e-4 * np.abs(want).max() + 1e-5
        wanted[name] = (want, allowed, dtypes[name])
    called = f"{maker.rows}x{maker.cols} {maker.dtype} l={maker.tile} h={maker.heads} g={maker.groups}" + \
             (" turned" if maker.turned else "")
    return text, inputs, wanted, tuple(maker.sums), called
