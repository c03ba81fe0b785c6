#!/usr/bin/env python3
"""program.py - random programs over the whole language, as cases (case.py).

    program.py SEED [--count N]      prints the programs

Half of them stand one step beside attention, GEMM and their gradients: loops whose tiles go through
several products in some order.  The others are free in form.  Every program is legal: what it writes
belongs to one program of the grid, or is added atomically; subscripts may leave tensors, values are
tame.
"""
import argparse
import re
import sys

import numpy as np

from case import Case
from program_batches import Batches
from program_copied import Copied
from program_edges import Edges
from program_helpers import COLLECT, HELPERS, NAMED
from program_library import Library
from program_lists import Lists
from program_numbers import Numbers
from program_packed import Packed
from program_products import Products
from program_scans import Scans
from program_turned import Turned, is_turned
from program_values import BYTES, M_AUTO, N_AUTO, STORED, TAME, WHOLE, WHOLES, Axis, Reject, Val, Values
from program_weights import Weights

AUTO = {N_AUTO: "AN", M_AUTO: "AM"}
ODD = [1, 2, 3, 5, 8, 16, 24, 32, 40, 48, 64, 80, 96, 128]


def named_in(text, function):
    """Whether a program calls a function, or has a scan do so."""
    name = function[3:].split("(")[0]
    return f"{name}(" in text or f"({name}, " in text


# the greatest numbers of types of two elements a byte, and of scales that were stored by a program
NARROWEST = {"u4": 15, "i4": 8, "e2m1": 6, "e8m0": 2.0**13}


class Program(Batches, Copied, Edges, Library, Lists, Numbers, Packed, Products, Scans, Weights, Values):
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.seed = seed if isinstance(seed, int) else seed[0]
        self.draw_edges()
        rows = bool(self.edges & {"given", "shifted", "packed", "numbered", "unread"})
        self.beside = self.chance(0.9 if rows else 0.7 if not self.edges else 0.55)
        self.tight = self.beside and self.chance(0.83)  # what warp groups may take
        self.easy = self.tight and self.chance(0.95 if rows else 0.85)  # and mostly do
        self.whole = self.easy and self.chance(0.7 if "unread" in self.edges else 0.4)  # tiles of 128 rows, as products in tensor memory have
        self.odd = not self.beside and self.chance(0.1)  # NaN and infinity among the inputs
        self.half = self.pick(["bf16", "bf16", "f16"])
        self.draw_factors(np.random.default_rng([*np.atleast_1d(seed), 8]))
        self.draw_tiles(np.random.default_rng([*np.atleast_1d(seed), 10]))
        self.draw_packed(np.random.default_rng([*np.atleast_1d(seed), 9]))
        self.beside_r = np.random.default_rng([*np.atleast_1d(seed), 10])
        self.draw_copied(np.random.default_rng([*np.atleast_1d(seed), 11]))
        self.draw_weights(np.random.default_rng([*np.atleast_1d(seed), 12]))
        self.draw_library(np.random.default_rng([*np.atleast_1d(seed), 13]))
        self.tensors, self.sizes, self.scalars, self.known_sizes = [], {}, {}, 0.5
        self.helpers, self.texts, self.uses, self.functions = [], [], set(), set()
        self.fresh = 0
        own = [self.pick(NAMED)] if "named" in self.edges else []
        self.own_names = {text[3:].split("(")[0] for text, _ in own}
        for text, helper in own + HELPERS:
            if self.chance(0.6) or not self.helpers:
                self.texts.append(text)
                self.helpers.append(helper)
        kernels = []
        self.kernels = 2 if self.chance(0.12) and "given" not in self.edges else 1
        self.auto = [] if self.kernels > 1 or not self.tight or "given" in self.edges or \
            self.chance(0.5 if self.whole else 0.8) else \
            [N_AUTO, M_AUTO] if self.whole or self.chance(0.4) else [N_AUTO]
        for k in range(self.kernels):
            self.known_sizes = 0.9 if k else 0.5
            kernels.append(self.kernel(f"k{k}" if k else "k"))
            for t in self.tensors:  # the next kernel may read what this one wrote, where all of it is written
                if not t.ends and (t.mode == "inout" or t.mode == "out" and t.whole):  # arithmetic on what is at its limits overflows
                    t.mode = "in"
                    t.mag, t.grain = {"bool": (1, 1.0), "i32": (4 * WHOLE, 1.0), "u32": (2.0**32, 1.0), "i8": (128, 1.0), "u8": (255, 1.0), "e4m3": (448, 0.0), "e5m2": (57344, 0.0)}.get(t.dtype, (2.0**13, 0.0))
        self.body_text = "\n".join(kernels)

    def load_written(self, t):
        """A tile of a whole tensor, by what the grid has of its sizes."""
        parts, shape = [], []
        for size in t.dims[::-1]:
            axis = next((a for a in self.axes if len(a.parts) == 1 and a.parts[0][1] == size), None)
            count = next((n for n, s in self.counts if s == size), None)
            if len(shape) < 2 and axis and axis.extent not in shape:
                parts.append(axis.parts[0][0])
                shape.append(axis.extent)
            elif len(shape) < 2 and isinstance(size, int) and size > 3:
                parts.append(":")
                shape.append(size)
            elif count or isinstance(size, int):
                parts.append(count or self.inside(str(self.number(0, 5)), size))
            elif len(shape) < 2:
                shape.append(self.pick([8, 16, 32]))
                parts.append(f"iota({shape[-1]})")
            else:
                return
        if np.prod(shape) <= self.most_elements:
            self.used.add(t.name)
            v = Val(f"load {t.name}[{', '.join(parts[::-1])}]", t.dtype, shape[::-1], t.mag, t.grain)
            if t.dtype in NARROWEST:  # such a tile is stored at its own range alone, and has no subscripts
                v = Val(f"{v.text} as f32", "f32", v.shape, NARROWEST[t.dtype], 0.0)
            self.let(v)

    # ---- the file ----

    def case(self):
        used = "\n".join([self.body_text] + self.texts)
        head = f"use {', '.join(sorted(self.uses))};\n\n" if self.uses else ""
        texts = [t for t in self.texts if named_in(self.body_text, t)]
        text = head + "\n".join(texts + ([""] if texts else [])) + self.body_text
        how = {"seed": self.seed, "sizes": self.sizes, "scalars": {n: v for n, (_, v) in self.scalars.items()},
               "data": {t.name: t.data for t in self.tensors if t.first != "out"}}
        beside = {n for n, some in (("copied", self.has_some), ("weights", self.has_weighed), ("library", self.from_library)) if some}
        if self.edges or beside:
            how["edges"] = sorted(self.edges | beside)
        used = {n: v for n, (_, v) in self.given.items() if v is not None and re.search(rf"\b{n}:", text)}
        if used:
            how["defines"] = used
        if self.chance(0.35):
            how["layout"] = {t.name: self.layout(t) for t in self.tensors if len(t.dims) > 1 and self.chance(0.6)}
        return Case(Case.join(text, how))

    def layout(self, t):
        """Of a tensor's outer dimensions, from the smallest stride on: [dimension, gap] (case.py)."""
        outer = list(range(len(t.dims) - 1))[::-1]
        if self.chance(0.35):
            outer = [int(d) for d in self.r.permutation(outer)]
        made = []
        for d in outer:
            gap = self.pick([0, 1, 1, 2, 3, 7])
            if t.first == "in" and self.chance(0.12):
                gap = self.pick([-1, -1, -2, -4])  # rows that are one row, or overlap
            made.append([d, gap])
        return made

    def kernel(self, name):
        self.axes, self.counts, self.scope, self.lines, self.indent = [], [], [], [], 1
        self.used, self.used_scalars, self.level, self.trips = set(), set(), 0, []
        self.order_free = self.in_roles = self.may_end = False  # may_end: programs that return early
        self.open_tensors = []  # inout tensors of this kernel: (tensor, subscripts of the grid, rest)
        self.budget, self.products = self.number(15, 70), 0 if self.odd else self.number(1, 4)
        self.consts, self.shown, self.numbered = {}, [], None
        if self.tight:
            self.const_axes = [self.pick([32, 64, 64, 64, 64, 64 if self.easy and self.chance(0.6) else 128])]
            if "given" in self.edges and self.chance(0.4):
                self.const_axes = [32]
            if self.chance(0.15 if self.easy else 0.3):
                self.const_axes.append(self.pick([32, 64, 128]))
            self.most_elements, self.products = 33024 if "given" in self.edges else 16384, 0
        elif self.beside:
            self.const_axes = [self.pick([16, 32, 32, 64, 64, 128])]
            if self.chance(0.4):
                self.const_axes.append(self.pick([16, 32, 48, 64, 80, 96, 128]))
            self.most_elements = 16384
        else:
            few = self.number(1, 3)
            self.const_axes = [self.pick(ODD) for _ in range(few)]
            self.most_elements = 4096
        grid = self.grid()
        self.scope += [v for a in self.own for v in self.places(a) if self.chance(0.1)]
        for t in [t for t in self.tensors if t.mode == "in" and getattr(t, "first", "in") != "in"]:
            if self.chance(0.5):  # what the kernel before wrote
                self.load_written(t)
        if self.beside:
            self.beside_body()
        else:
            self.block(self.number(3, 8))
        self.finish()
        attribute = ""
        if self.chance(0.01 if self.tight else 0.04):
            attribute = f"@warps({self.pick([1, 2, 4, 8, 16, 32])})\n"
        body = "\n".join(self.lines)
        text = attribute + self.signature(name) + f" {{\n{grid}\n{body}\n}}\n"
        for extent, name in [*AUTO.items(), (self.given_axis, "GM")]:
            if extent and (extent in self.auto or extent == self.given_axis):
                text = re.sub(rf"(?<![\w.]){extent}(?![\w.])", name, text)
        return text

    def signature(self, name):
        sizes = [n for n in self.sizes if any(n in line for line in self.lines + [self.grid_text])]
        tensors = [t for t in self.tensors if t.name in self.used]
        for t in tensors:
            if t.mode == "out" and (self.kernels > 1 or self.may_end) and not t.whole and self.chance(0.8 if self.may_end else 0.5):
                t.mode = "inout"  # what it does not write has a value then, too
            if not hasattr(t, "first"):
                t.first = t.mode
        for t in tensors:
            t.follows = {}
        if self.chance(0.12) and not self.given:
            self.let_follow(tensors, sizes)
        have = {d for t in tensors for k, d in enumerate(t.dims) if k not in t.follows}
        for n in sizes:
            if n not in have:
                if not any(t.name == "U" + n for t in self.tensors):
                    made = self.tensor("in", "f32", [n], ["zero"], 0, 1.0)
                    made.name, made.align, made.first = "U" + n, "", "in"
                    if self.chance(0.4):  # the one place that says what n is
                        made.follows[0] = self.pick([f"2 * {n}", f"{n} * 3 + 1", f"1 + {n}"])
                tensors.append(next(t for t in self.tensors if t.name == "U" + n))
        params = [t.declare() for t in tensors]
        params += [f"{n}: {t}" for n, (t, _) in self.scalars.items() if n in self.used_scalars]
        autos = "".join(f"{AUTO[k]}: int = auto, " for k in self.auto)
        body = "\n".join(self.lines + [self.grid_text])
        given = "".join(f"{n}: int{'' if v[0] is None else f' = {v[0]}'}, " for n, v in self.given.items()
                        if n == "GM" or re.search(rf"\b{n}\b", body))
        consts = given + autos + ", ".join(f"{n}: {'type' if isinstance(v, str) else 'int'} = {v}" for n, v in self.consts.items())
        consts = consts.removesuffix(", ")
        return f"kernel {name}{'<' + consts + '>' if consts else ''}(\n    " + ",\n    ".join(params) + ")"

    def let_follow(self, tensors, sizes):
        """Dimensions that are expressions of other sizes in place of names."""
        for t in tensors:
            for k, d in enumerate(t.dims):
                other = self.pick(sizes) if sizes else d
                if not isinstance(d, str) or other == d or not self.chance(0.4):
                    continue
                v, w = self.sizes[d], self.sizes[other]
                forms = [f"{other} + {v - w}" if v >= w else f"{other} - {w - v}"]
                forms += [f"{v // w} * {other}"] if w and v % w == 0 else []
                forms += [f"{other} / {w // v}"] if v and w and w % v == 0 else []
                forms += [f"cdiv({other}, {c})" for c in (2, 3, 16) if -(-w // c) == v]
                named = [str(n) for n in [*self.auto, self.given_axis] if n]  # written as names at the end
                t.follows[k] = self.pick([f for f in forms if not set(named) & set(f.split())] or [d])

    def extent_text(self, extent):
        """A tile size, sometimes by the name of a parameter."""
        if self.chance(0.3):
            for n, v in self.consts.items():
                if v == extent:
                    return n
            name = f"N{len(self.consts)}"
            self.consts[name] = extent
            return name
        return str(extent)

    def emit(self, text):
        self.lines.append("    " * self.indent + text)

    def grid(self):
        """The first line; sets axes and counts.  Each entry of own: subscripts every store needs."""
        axes, self.own, self.single, self.pack_by, before = [], [], False, 0, []
        if self.chance(0.02 if self.tight else 0.08):
            self.single = True
            self.grid_text = "    grid g in 1;"
            return self.grid_text
        n = self.pick([1] * (15 if self.easy else 5) + [2] if self.tight else [1, 1, 1, 2] if self.beside else [1, 1, 2])
        for k in range(n):
            if self.tight:
                extent = self.pick([64, 64, 64, 64 if self.easy and self.chance(0.7) else 128] if k == 0 else [32, 64, 64, 128])
                if k == 0:
                    extent = M_AUTO if M_AUTO in self.auto else 128 if self.whole else extent
                    extent = self.give_axis() if self.edgy("given", 0.8) else extent
                    if self.edgy("packed", 0.9) and not self.given_axis:
                        self.pack_by = self.pick([2, 4, 4, 8])
                        extent = (128 if self.whole else 64) // self.pack_by
            elif self.beside:
                extent = self.pick([64, 64, 64, 64, 128, 128, 16, 32, 48, 80] if k == 0 else [32, 64, 64, 96, 128])
            else:
                extent = self.pick(ODD if k == 0 else [4, 8, 16, 32])
            name, size = "mjl"[k], self.size(extent, 2 if k == 0 and n == 1 else 1)
            axis = Axis(extent, [(name, size)], own=True)
            if k == 0 and extent not in AUTO and self.edgy("numbered", 0.8):
                number = self.fresh_name("t")
                self.numbered = (number, self.count_of(size, extent), axis)
                axes.append(f"{number} in {self.numbered[1]}")
                before.append(f"    let {name} = tiles({size}, {self.extent_text(extent)})[{number}];")
                if self.chance(0.6):
                    before.insert(0, f"    require {self.numbered[1]} == cdiv({size}, {extent});")
            else:
                axes.append(f"{name} in tiles({size}, {self.extent_text(extent)})")
            self.axes.append(axis)
            self.own.append(axis)
        for name in "bh"[:self.pick([0, 0, 1, 1, 2])]:
            count = self.size(1, 2) if self.chance(0.6) else str(self.number(1, 2))
            if count in self.sizes and self.sizes[count] > 3:
                continue
            axes.append(f"{name} in {count}")
            self.counts.append((name, count if count in self.sizes else int(count)))
            self.scope.append(Val(name, "i32", (), 4, 1.0))
        order = self.r.permutation(len(axes)) if self.chance(0.3) else range(len(axes))
        self.grid_text = "    grid " + ", ".join([axes[k] for k in order][:3]) + ";"
        if len(axes) > 3:
            raise Reject
        self.n_counts = len(self.counts)
        self.grid_text = "\n".join([x for x in before if "require" in x] + [self.grid_text] +
                                   [x for x in before if "require" not in x])
        if self.own and (self.pack_by or not self.beside and self.chance(0.5 if "packed" in self.edges else 0.12)):
            self.pack(self.own[0])
        return self.grid_text

    def pack(self, axis):
        """Rows of several heads as one dimension: what is owned is the pack."""
        (m, size), by = axis.parts[0], self.pack_by or self.pick([2, 3, 4])
        if axis.extent * by > 128:
            return
        s, h = self.fresh_name("s"), self.fresh_name("h")
        self.emit(f"let ({s}, {h}) = pack({m}, iota({by}));")
        self.axes.remove(axis)
        packed = Axis(axis.extent * by, [(s, size), (h, by)], own=True, shiftable=False)
        self.own[0] = packed
        if self.numbered:
            self.numbered = (*self.numbered[:2], packed)
        self.axes.append(packed)

    def most_stages(self):
        """So many buffers of every operand of a loop have their place in shared memory."""
        return 1 if max(self.extents()) > 96 else 2 if max(self.extents()) > 48 else 4

    def extents(self):
        return [a.extent for a in self.axes] + self.const_axes

    # ---- statements ----

    def let(self, v, keyword="let"):
        name = self.fresh_name("v")
        text = v.text[1:-1] if v.text.startswith("(") and v.text.endswith(")") and balanced(v.text[1:-1]) else v.text
        self.emit(f"{keyword} {name} = {text};")
        made = v.named(name)
        self.scope.append(made)
        return made

    def shape(self):
        pool = self.extents()
        for _ in range(10):
            made = tuple(self.pick(pool) for _ in range(self.pick([0, 1, 1, 2, 2, 2])))
            if np.prod(made) <= self.most_elements:
                return made
        return ()

    def some_let(self):
        dtype = self.pick(["f32", "f32", "f32", self.half, "i32", "bool", self.pick([*STORED, "u32", "u32"])])
        shape = self.shape()
        v = self.expr(dtype, shape, self.number(1, 4))
        if v.text in [u.text for u in self.scope] and self.chance(0.8):
            return
        if shape == () and not any(ch.isalpha() for ch in v.text):
            return
        self.let(v)

    def variable(self, dtype=None, shape=None, zero=False):
        """A new variable with its first value; what may be added to it in all is bounded."""
        dtype = dtype or self.pick(["f32", "f32", "f32", "i32", self.half])
        if shape is None:
            shape = self.shape()
            if self.own and self.chance(0.5):
                shape = (self.own[0].extent,) + ((self.pick(self.const_axes),) if self.chance(0.5) else ())
                if np.prod(shape) > self.most_elements:
                    shape = shape[:1]
        start = 0.0 if zero else self.r.random()
        dims = ", ".join(map(str, shape))
        grain = 2.0**-10 if self.chance(0.5) else 0.0
        if shape and start < 0.45:
            v = Val(f"zeros<{dtype}>[{dims}]", dtype, shape, 0.0, 1.0)
        elif shape and start < 0.6:
            text, value = self.constant(dtype)
            v = Val(f"full<{dtype}>[{dims}]({text})", dtype, shape, abs(value), 0.25)
        else:
            v = self.expr(dtype, shape, 1)
            if shape == () and not any(ch.isalpha() for ch in v.text):
                v.text = f"({v.text} as {dtype})"
        made = self.let(v, "var")
        made.room = WHOLE_ROOM if dtype == "i32" else TAME
        made.mag += made.room
        made.grain = 1.0 if dtype == "i32" else grain if v.grain >= grain else 0.0
        if dtype in ("f16", "bf16"):
            made.grain = 0.0
        made.depth = len(self.trips)
        return made

    def variables(self):
        return [v for v in self.scope if v.room > 0]

    def times(self, var):
        return float(np.prod(self.trips[var.depth:])) if self.trips[var.depth:] else 1.0

    def fitted(self, e, var, part=0.3):
        """A value scaled so that the variable has room for it as often as it is added."""
        n = self.times(var)
        most = var.room * part / n
        e = self.tame(e, max(most, 1.0) if e.dtype == "i32" else most)
        var.room -= min(e.mag * n, var.room * part)
        return e

    def update(self, var):
        """One assignment to a variable."""
        free = self.order_free
        way = self.pick(["add", "add", "add", "max", "decay", "last", "where", "mma", "sub"])
        if free:
            way = self.pick(["add", "add", "max", "mma"])
            if var.order_free not in (False, way if way != "mma" else "add"):
                raise Reject
            if self.level_of(var) >= self.level:
                raise Reject
            var.order_free = way if way != "mma" else "add"
        depth = self.number(1, 3)
        exact = var.grain > 0
        if way == "mma" and var.dtype in ("f32", "i32") and len(var.shape) == 2:
            types = (self.pick([*BYTES]), self.pick([*BYTES])) if var.dtype == "i32" else ("tf32", "tf32") if self.chance(0.3) else None
            p = self.product(var.shape, depth, types)
            n = self.times(var)
            if p.mag * n > var.room * 8 or (exact and p.grain < var.grain):
                raise Reject
            text = p.text[:-1]
            self.emit(f"{var.text} = {text}, {var.text}{' * 0.5' if not exact and var.dtype == 'f32' and not free and self.chance(0.3) else ''});")
            var.mag += p.mag * n
            return
        e = self.expr(var.dtype, var.shape if self.chance(0.75) else self.pick([(), var.shape[:1], var.shape]), depth)
        if way in ("add", "sub", "mma"):
            e = self.fitted(e, var)
            if exact and e.grain < var.grain:
                raise Reject
            text = self.grown(e, var.shape)
            if way == "sub":
                self.emit(f"{var.text} -= {text};")
            else:
                self.emit(self.pick([f"{var.text} += {text};", f"{var.text} = {var.text} + {text};"]))
            return
        if e.shape != var.shape:
            raise Reject
        if exact and e.grain < var.grain:
            raise Reject
        if e.mag > var.mag:
            e = self.tame(e, var.mag)
        if way == "max":
            op = self.pick(["max", "min"]) if not free else "max"
            self.emit(f"{var.text} = {op}({var.text}, {e.text});")
        elif way == "decay" and var.dtype != "i32" and not exact:
            e = self.tame(e, var.mag / 4)
            self.emit(f"{var.text} = {var.text} * {self.pick(['0.5', '0.25', '0.75'])} + {e.text};")
        elif way == "where":
            c = self.expr("bool", var.shape, depth)
            a, b = (var.text, e.text) if self.chance(0.5) else (e.text, var.text)
            self.emit(f"{var.text} = where({c.text}, {a}, {b});")
        else:
            self.emit(f"{var.text} = {e.text};")

    def level_of(self, var):
        return getattr(var, "level", 0)

    def some_assign(self):
        vars = self.variables()
        if not vars or (len(vars) < 3 and self.chance(0.3)):
            if self.order_free:
                raise Reject
            made = self.variable()
            made.level = self.level
            return
        self.update(self.pick(vars))

    def condition(self):
        """A bool that is one for the program: a vote, or of scalars."""
        roll = self.r.random()
        if roll < 0.45:
            inner = tuple(self.pick(self.extents()) for _ in range(self.number(1, 2)))
            if np.prod(inner) > self.most_elements:
                inner = inner[:1]
            c = self.expr("bool", inner, 2)
            return f"{self.pick(['any', 'all'])}({c.text})"
        if roll < 0.6:
            size = self.pick(list(self.sizes)) if self.sizes else None
            if size:
                return f"{size} {self.pick(['>', '<', '=='])} {self.number(0, 40)}"
        c = self.expr("bool", (), 2)
        if not any(ch.isalpha() for ch in c.text.replace("true", "").replace("false", "")):
            return f"{self.param('i32').text} > 1"
        return c.text

    def some_if(self):
        if self.chance(0.1) and not self.order_free:
            return self.by_rows()
        self.emit(f"if {self.condition()} {{")
        self.inner_block(self.number(1, 3))
        while self.chance(0.15):
            lines = len(self.lines)
            condition = self.condition()
            if len(self.lines) > lines:  # it needs a name, for which there is no place between branches
                del self.lines[lines:]
                break
            self.emit(f"}} else if {condition} {{")
            self.inner_block(self.number(1, 2))
        if self.chance(0.4):
            self.emit("} else {")
            self.inner_block(self.number(1, 2))
        self.emit("}")

    def places(self, axis):
        """The number and the first index of its range; a part of a pack has neither."""
        if len(axis.parts) > 1:
            return []
        return [Val(f"{axis.parts[0][0]}.{what}", "i32", (), most, 1.0) for what, most in (("number", 32), ("first", 1024))]

    def some_order(self):
        """Which elements along an axis are the greatest, where they are, or all in order."""
        dtype, shape = self.pick(["f32", "i32", self.half]), self.shape()
        if shape == () or self.chance(0.4):
            self.let(self.placed(shape[:1], 3))
        else:
            self.let(self.pick([self.topped, self.in_order, self.by_function])(dtype, shape, 3))

    def some_scan(self):
        """By a function."""
        self.let(self.by_function(self.pick(["f32", "f32", "i32", "bool", self.half]), self.shape(), 3))

    def some_end(self):
        """Some of the programs, or all, have nothing more to do."""
        known = self.scalars_in_scope() + [v for a in self.own for v in self.places(a) if "number" in v.text]
        one = f"{self.pick(known).text} {self.pick(['==', '==', '>', '!='])} {self.number(0, 2)}" if known and self.chance(0.7) else self.condition()
        self.emit(f"if {one} {{")
        self.emit("    return;")
        self.emit("}")
        self.may_end = True

    def by_rows(self):
        """A branch that is right for a row whether it is taken or not, in what is padding, too: so the variable gets
        the padding of what the branch assigns before it."""
        vars = [v for v in self.variables() if len(v.shape) >= 1]
        if not vars:
            raise Reject
        var = self.pick(vars)
        inner = (var.shape[0], self.pick(self.extents()))
        if np.prod(inner) > self.most_elements:
            raise Reject
        c = self.let(self.expr("bool", inner, 2))
        rows = f"any({c.text}, axis=1)" + (":, None]"[:0] if len(var.shape) == 1 else "[:, None]")
        e = self.tame(self.expr(var.dtype, var.shape, 2), var.mag)
        if var.grain > e.grain:
            raise Reject
        self.emit(f"{var.text} = where({rows}, {var.text}, -({e.text}));")
        self.emit(f"@by_rows if any({c.text}) {{")
        self.emit(f"    {var.text} = where({rows}, {e.text}, {var.text});")
        self.emit("}")

    def inner_block(self, n):
        self.indent += 1
        saved = (list(self.scope), list(self.axes), list(self.counts))
        before = len(self.lines)
        self.block(n)
        if len(self.lines) == before and self.variables():
            for _ in range(5):
                try:
                    self.update(self.pick(self.variables()))
                    break
                except Reject:
                    del self.lines[before:]
        self.scope, self.axes, self.counts = saved
        self.indent -= 1

    # ---- loops ----

    def bound(self, most, first=False, tiles=False):
        """(text, greatest value) of a bound of a loop: a number, parameter or loaded.  One of tiles(lo..hi, N): hi - lo,
        and how far the N indices from lo on are from hi, are i32."""
        if self.edgy("compare", 0.25):
            a = self.at_limits((), 1)
            if any(ch.isalpha() for ch in a.text):
                text = f"min({a.text}, {most})"
                return f"max({text}, {0 if first else -2**31 + 1000})" if first or tiles else text, most
        roll = self.r.random()
        ints = [v for v in self.scope if v.dtype == "i32" and v.shape == () and v.mag <= most]
        if roll < 0.25:
            n = self.number(0, most)
            return str(n), n
        if roll < 0.5 and ints:
            return self.pick(ints).text, most
        if roll < 0.75:
            name = f"c{len(self.scalars)}"
            value = self.number(0, most)
            self.scalars[name] = ("i32", value)
            self.used_scalars.add(name)
            return name, value
        dims = [(n, s) for n, s in self.counts if self.chance(0.7)] or [("0", 1)]
        least = -self.pick([1, 5, 64, 67]) if first and self.edgy("shifted") else 0
        t = self.tensor("in", "i32", [s for _, s in dims], ["q", least, most, 1], most, 1.0)
        return f"(load {t.name}[{', '.join(s for s, _ in dims)}])", most

    def packed_bounds(self, size, extent):
        """lo..hi of one sequence among several in one dimension: (text, may be written).  The first may begin before it."""
        name, count = self.pick(self.counts[:self.n_counts])
        value = self.sizes[size]
        if not isinstance(count, int) and self.sizes[count] > 3:
            raise Reject
        dim = 1 + (count if isinstance(count, int) else self.sizes[count])
        data = ["off", value]
        if self.edgy("shifted"):  # by less or more than a tile, and it may end within it
            data = ["off", self.number(0, value), -self.pick([1, 1, 5, extent, extent + 3])]
        t = self.tensor("in", "i32", [dim], data, value, 1.0)
        lo, hi = self.fresh_name("lo"), self.fresh_name("hi")
        self.emit(f"let {lo} = load {t.name}[{name}];")
        self.emit(f"let {hi} = load {t.name}[{name} + 1];")
        return f"{lo}..{hi}", name

    def head(self):
        """(text of the head's range, axis or None, trips, index Val or None)."""
        kind = self.pick(["tiles", "tiles", "tiles", "cut", "packed", "count", "range"])
        name = self.fresh_name("n")
        if kind in ("count", "range"):
            text, most = self.bound(3, tiles=kind == "range")  # whose length is i32, as that of tiles
            if kind == "range":
                text = f"range({self.number(-1, 1)}, {text}, {self.number(1, 2)})"
                most += 1
            else:
                text = f"{self.number(-1, 1)}..{text}" if self.chance(0.3) else f"0..{text}"
                most += 1
            if text.split("min(")[0] != text and kind != "range":  # which may begin anywhere behind
                text = f"{self.pick(['0', '0', '-1', '2147483647', '2147483640'])}..{text.split('..')[1]}"
            return name, text, None, most, Val(name, "i32", (), 4, 1.0)
        extent = self.pick([16, 32, 64]) if self.beside else self.pick(ODD[2:11])
        size = self.size(extent, 3)
        value, owner = self.sizes[size], None
        if kind == "cut":
            lo, first = self.bound(max(1, min(value, 4)), True) if self.chance(0.6) else ("0", 0)
            if self.chance(0.3):
                hi, last = size, value
            else:
                hi, last = self.bound(max(1, value + (2 if self.chance(0.2) else 0)), tiles=True)
            text = f"tiles({lo}..{hi}, {self.extent_text(extent)})"
            value = max(last, value)
        elif kind == "packed" and self.counts[:getattr(self, "n_counts", 0)]:
            bounds, owner = self.packed_bounds(size, self.true_extent(extent))
            text = f"tiles({bounds}, {self.extent_text(extent)})"
        else:
            text = f"tiles({size}, {self.extent_text(extent)})"
        axis = Axis(extent, [(name, size)])
        axis.owner = owner
        return name, text, axis, max(1, -(-value // extent)), None

    def some_for(self):
        if len(self.trips) >= 3 or np.prod(self.trips or [1]) > 8 or self.order_free:
            raise Reject
        if len(self.variables()) < 2 or self.chance(0.4):
            self.variable().level = self.level
        name, text, axis, trips, index = self.head()
        saved = (list(self.scope), list(self.axes), list(self.counts))
        attributes = ""
        if self.chance(0.1):
            attributes += f"@stages({self.number(1, self.most_stages())}) "
        if self.chance(0.08):
            attributes += "@no_split "
        free = self.chance(0.12)
        if free:
            attributes += "@any_order "
        ends, known = "", self.scalars_in_scope() + [index or Val(f"{name}.number", "i32", (), trips, 1.0)]
        if not free and self.chance(0.12):  # before the end of its range, perhaps
            ends = f" while {self.pick(known).text} {self.pick(['<', '!=', '<=', '>'])} {self.number(-1, 3)}"
        self.emit(f"{attributes}for {name} in {text}{ends} {{")
        if axis:
            self.axes.append(axis)
            self.scope += [v for v in self.places(axis) if self.chance(0.15)]
        else:
            self.scope.append(index)
            size = self.pick([2, 3, 4])
            self.counts.append((self.inside(name, size), size))
        self.trips.append(max(1, trips))
        self.level += 1
        was, self.order_free = self.order_free, free
        before = len(self.lines)
        self.inner_block(self.number(2, 5) if not free else self.number(1, 3))
        if len(self.lines) == before:
            self.indent += 1
            try:
                v = self.variables()
                if v:
                    self.update(self.pick(v))
            except Reject:
                del self.lines[before:]
            self.indent -= 1
        self.order_free = was
        for v in self.scope:
            v.order_free = False
        self.level -= 1
        self.trips.pop()
        self.scope, self.axes, self.counts = saved
        self.emit("}")

    # ---- memory ----

    def owned(self, sets_apart=None):
        """[(subscript, size)] of what belongs to this program: every axis of the grid."""
        made = [list(axis.parts) for axis in self.own]
        made += [[(n, s)] for n, s in self.counts[:getattr(self, "n_counts", 0)] if n != sets_apart]
        order = self.r.permutation(len(made))
        return [p for k in order for p in made[k]]

    def place(self):
        """(subscripts and sizes, shape of the tile, owner) of something that this program may write."""
        owner, extra = None, []
        loops = [a for a in self.axes if not a.own]
        packed = [a for a in loops if getattr(a, "owner", None)]
        if packed and self.chance(0.6):
            axis = self.pick(packed)
            owner = axis.owner
            extra.append((axis.extent, list(axis.parts)))
        elif loops and self.chance(0.45):
            axis = self.pick(loops)
            extra.append((axis.extent, list(axis.parts)))
        if self.chance(0.5) and len(extra) + len(self.own) < 2:
            d = self.pick(self.const_axes)
            extra.append((d, [(":", d)] if self.chance(0.7) else [(f"iota({d})", self.size(d, 1))]))
        groups = [(a.extent, list(a.parts)) for a in self.own] + extra
        if len(groups) > 2:  # without the axis of one sequence, its owner stands in the subscripts
            groups, owner = groups[:2], None
        if self.chance(0.25):
            groups.reverse()
        shape = tuple(g[0] for g in groups)
        if len(shape) > 2 or np.prod(shape) > self.most_elements:
            raise Reject
        parts = [p for g in groups for p in g[1]]
        for n, s in self.counts[:getattr(self, "n_counts", 0)]:
            if n != owner:
                parts.insert(self.number(0, len(parts)) if self.chance(0.3) else 0, (n, s))
        if len(parts) > 6:
            raise Reject
        if not parts:
            parts = [(str(self.number(0, 1)), 2)]
        return parts, shape

    def value_to_store(self, dtype, shape, depth):
        roll = self.r.random()
        if roll < 0.75 or not shape:
            return self.expr(dtype, shape, depth).text
        if roll < 0.85:
            e = self.expr(dtype, (), depth)
            return e.text if any(ch.isalpha() for ch in e.text) else f"({e.text} as {dtype})"
        if len(shape) == 2:
            e = self.expr(dtype, shape[:1], depth) if self.chance(0.5) else self.expr(dtype, shape[1:], depth)
            return self.grown(e, shape)
        return self.expr(dtype, shape, depth).text

    def some_store(self):
        dtype = self.pick(["f32", "f32", self.half, "i32", "bool", self.pick([*STORED, "u32", "u32"])])
        parts, shape = self.place()
        text = self.value_to_store(dtype, shape, self.number(1, 2))
        parts = self.apart(parts, 0.2)
        t = self.new_tensor("out", dtype, parts)
        self.emit(f"store {t.name}[{', '.join(s for s, _ in parts)}] = {strip(text)};")

    def new_tensor(self, mode, dtype, parts, data=None):
        name_before = len(self.tensors)
        t = self.tensor(mode, dtype, [s for _, s in parts], data or ["q", 0 if dtype in ("u8", "u32") else -8, 8, 1 if dtype in WHOLES else 8], 8, 1 / 8)
        assert len(self.tensors) == name_before + 1
        return t

    def some_memory(self):
        """An inout tensor: written, read again, at places of this program alone."""
        if self.order_free:
            raise Reject
        if self.open_tensors and self.chance(0.7):
            t, parts, shape = self.pick(self.open_tensors)
            names = {n for n, _ in self.counts} | {p[0] for a in self.axes for p in a.parts}
            for sub, _ in parts:
                if sub[0].isalpha() and not sub.startswith("iota") and sub not in names:
                    raise Reject
        else:
            dtype = self.pick(["f32", "f32", self.half, "i32", "u32"])
            parts, shape = self.place()
            if not all(s == ":" or s.startswith("iota") or s in {p[0] for a in self.own for p in a.parts} or
                       s in {n for n, _ in self.counts[:getattr(self, 'n_counts', 0)]} for s, _ in parts):
                if self.chance(0.7):
                    raise Reject
            t = self.new_tensor("inout", dtype, parts)
            self.open_tensors.append((t, parts, shape))
        dtype, subs = t.dtype, ", ".join(s for s, _ in parts)
        for _ in range(self.number(1, 3)):
            act = self.pick(["load", "store", "store", "add", "raise"])
            if act == "load":
                moved = self.moved(parts)
                self.let(Val(f"load {t.name}[{moved}]", dtype, shape, TAME, 1.0 if dtype == "u32" else 0.0))
            elif act == "store":
                e = self.tame(self.expr(dtype, shape, 1), TAME)
                text = e.text
                if self.chance(0.4):
                    text = f"(load {t.name}[{self.moved(parts)}]) * {'1' if dtype in ('i32', 'u32') else '0.5'}"
                self.emit(f"store {t.name}[{subs}] = {strip(text)};")
            elif act == "raise" and dtype in ("f32", "i32", "u32"):
                self.raised(t, subs, self.tame(self.expr(dtype, shape, 1), TAME))
            else:
                e = self.tame(self.expr(dtype, shape, 1), 2.0)
                self.emit(f"atomic_add {t.name}[{subs}] += {strip(e.text)};")

    def moved(self, parts):
        """Subscripts of a load from an own tensor: what is not the grid's may move."""
        fixed = {p[0] for a in self.own for p in a.parts} | {n for n, _ in self.counts[:getattr(self, "n_counts", 0)]}
        # beside the rows of one sequence lie another program's
        fixed |= {p[0] for a in self.axes if getattr(a, "owner", None) for p in a.parts}
        made = []
        for sub, _ in parts:
            free = sub not in fixed and sub != ":" and not sub.isdigit() and self.chance(0.4)
            made.append(sub + self.pick([" + 1", " - 1", " + 3"]) if free else sub)
        return ", ".join(made)

    def some_atomic(self):
        """Sums over all programs."""
        dtype = self.pick(["f32", "f32", "i32", "u32", self.half])
        shape = self.shape()
        parts, groups = [], []
        for d in shape:
            made = self.dimension(d)
            for a in self.axes:  # through a pack: all of its parts
                if len(a.parts) > 1 and any(p[0].split(" ")[0] in [q[0] for q in a.parts] for p in made):
                    made = list(a.parts)
            parts += made
            groups.append(made)
        packed = {q[0] for a in self.axes if len(a.parts) > 1 for q in a.parts}
        names = [s for s, _ in parts if s in packed]
        if len(parts) > 5 or len(set(names)) < len(names):
            raise Reject
        parts = self.listed(parts, groups, 0.15)
        if self.chance(0.4) and self.scalars_in_scope():
            size = self.number(1, 4)
            parts.insert(0, (self.inside(self.pick(self.scalars_in_scope()).text, size), size))
        if not parts:
            parts = [(str(self.number(0, 1)), 2)]
        e = self.tame(self.expr(dtype, shape, self.number(1, 2)), 16.0)
        t = self.new_tensor("inout", dtype, parts)
        if self.chance(0.3) and dtype != self.half:
            self.raised(t, ', '.join(s for s, _ in parts), e)
            return
        self.emit(f"atomic_add {t.name}[{', '.join(s for s, _ in parts)}] += {strip(e.text)};")

    def raised(self, t, subs, e):
        """The greater or the less of what is there and a value."""
        self.emit(f"{self.pick(['atomic_max', 'atomic_min'])} {t.name}[{subs}] = {strip(e.text)};")

    def some_scalar(self):
        """A number loaded, to be an index, a bound or a condition."""
        top = self.pick([3, 5, 30])
        dims = [(n, s) for n, s in self.counts if self.chance(0.7)] or [(str(self.number(0, 1)), 2)]
        t = self.tensor("in", "i32", [s for _, s in dims], ["q", 0, top, 1], top, 1.0)
        self.let(Val(f"load {t.name}[{', '.join(s for s, _ in dims)}]", "i32", (), top, 1.0))

    def some_chain(self):
        """A value that is read twice, over and over: whoever follows operands and does not note where they have been
        takes 2^n steps."""
        dtype = self.pick(["i32", "i32", "f32", "bool"])
        v = self.expr(dtype, self.shape() if dtype == "f32" or self.chance(0.3) else (), 1)
        if v.ninf or v.mag >= 2**29 or (self.odd and dtype == "f32") or not any(ch.isalpha() for ch in v.text):
            raise Reject
        made = self.let(v, "var")
        x = made.text
        step = {"i32": [f"max({x}, {x} / 2)", f"{x} + {x} - {x}"], "f32": [f"{x} - ({x} - {x})"],
                "bool": [f"({x} && {x}) || {x}"]}[dtype]
        for _ in range(self.number(8, 36)):
            self.emit(f"{x} = {self.pick(step)};")

    def some_tuple(self):
        """A tuple that a function updates."""
        if self.order_free:
            raise Reject
        outer = tuple(self.pick(self.extents()) for _ in range(2))
        if np.prod(outer) > self.most_elements:
            raise Reject
        axis = self.number(0, 1)
        n = outer[1 - axis]
        st = self.fresh_name("st")
        self.emit(f"var {st} = (sum = zeros<f32>[{n}], most = full<f32>[{n}](-8.0));")
        if COLLECT not in self.texts:
            self.texts.append(COLLECT)
        for _ in range(self.number(1, 2)):
            x = self.tame(self.expr("f32", outer, 2), 8.0)
            self.emit(f"collect({st}, {x.text}, axis{' = ' if self.chance(0.5) else '='}{axis});")
        self.scope.append(Val(f"{st}.sum", "f32", (n,), 16.0 * outer[axis]))
        self.scope.append(Val(f"{st}.most", "f32", (n,), 8.0))

    def some_products(self):
        if self.order_free or self.beside:
            raise Reject
        self.chain_in_place()

    def some_compile_time(self):
        """A branch that is decided when compiled: the other side may be nonsense."""
        flag = self.pick(["f32 == f32", "3 > 2", "true || 1 / 0 == 1"])
        self.emit(f"if {flag} {{")
        self.inner_block(1)
        self.emit("} else { undefined(name); }")

    def statement(self):
        weights = {"limits": 1.0 * ("compare" in self.edges), "reductions": 3.0 * ("reductions" in self.edges),
                   "softmax": 3.0 * ("low" in self.edges),
                   "numbers": 3.0 * ("numbered" in self.edges), "let": 4, "assign": 4, "if": 1.5, "for": 1.6, "store": 1.2, "memory": 0.6, "atomic": 0.5,
                   "scalar": 0.6, "tuple": 0.3, "chain": 0.15, "end": 0.3 * (self.indent == 1), "order": 0.3, "scan": 0.3, "ticket": 0.04 if self.tight else 1.0, "products": 0.0 if self.odd else 0.4, "batch": 0.0 if self.odd else 0.7, "compile_time": 0.1}
        if self.indent > 4:
            weights = {"let": 1, "assign": 3, "store": 0.5}
        if self.order_free:
            weights = {"let": 2, "assign": 4, "atomic": 0.5, "store": 0.5, "ticket": 0.1}
        names = list(weights)
        p = np.array([float(weights[n]) for n in names])
        return names[int(self.r.choice(len(names), p=p / p.sum()))]

    def block(self, n, what=None):
        for _ in range(n):
            kept = (len(self.lines), list(self.scope), list(self.axes), list(self.counts), list(self.trips),
                    self.indent, self.level, self.order_free)
            try:
                getattr(self, "some_" + (what or self.statement()))()
            except Reject:
                lines, self.scope, self.axes, self.counts, self.trips, self.indent, self.level, self.order_free = kept
                del self.lines[lines:]

    def finish(self):
        """Every variable and some values are stored, so that nothing is computed for nobody."""
        wanted = self.shown + [v for v in self.scope if v.room > 0 or ".sum" in v.text]
        if self.edgy("unread", 0.8):
            wanted = [v for v in wanted if v.shape[1:] == ()] or wanted[1:]
        if self.own and not self.edges and self.chance(0.02 if self.tight else 0.1):
            self.some_end()
        if self.own and self.edgy("given"):
            self.show_given()
        if self.numbered and "unread" not in self.edges:
            self.show_parts()
        for v in self.scope:
            operand = self.easy and v.dtype in (self.half, *self.factors)  # that products read, and mostly nothing else
            if v.dtype != "tf32" and v.room == 0 and self.chance(0.04 if operand else 0.35) and v not in wanted:
                wanted.append(v)
        for v in wanted[:6 + len(self.shown)]:
            parts = [p for a in self.own for p in a.parts]
            shape = tuple(a.extent for a in self.own)
            text = v.text
            own = [a.extent for a in self.own]
            if v.shape == ():
                pass
            elif len(own) == 1 and v.shape == (own[0],):
                pass
            elif len(own) == 1 and len(v.shape) == 2 and v.shape[0] == own[0]:
                parts = parts + [(":", v.shape[1])]
            elif len(own) == 1 and len(v.shape) == 2 and v.shape[1] == own[0]:
                parts = [(":", v.shape[0])] + parts
            elif len(own) == 2 and v.shape == tuple(own):
                pass
            elif len(own) == 2 and len(v.shape) == 1 and v.shape[0] in own:
                text = f"{v.text}[:, None]" if v.shape[0] == own[0] else f"{v.text}[None, :]"
            elif self.single or not own:
                parts = [(":", d) for d in v.shape]
            elif len(own) == 1 and len(v.shape) == 1:
                if own[0] * v.shape[0] > self.most_elements:
                    continue
                parts, text = parts + [(":", v.shape[0])], f"{v.text}[None, :]"
            elif v.dtype in ("f32", "i32"):  # nothing of the grid's shape: its sum
                text = f"(sum({v.text}) * {'1' if v.dtype == 'i32' else '0.125'})"
            else:
                continue
            parts = list(self.counts[:getattr(self, "n_counts", 0)]) + parts
            if len(parts) > 6:
                continue
            if not parts:
                parts = [("0", 2)]
            t = self.new_tensor("out", v.dtype, parts)
            placed = self.shifted(parts) if self.edgy("shifted", 0.4) else self.apart(parts, 0.05)
            # the padding of a value lies where the extent is that of its range: every element is written
            extents = [d for d in v.shape if d in own]
            t.whole = placed == parts and len(own) < 2 and len(extents) < 2 and not self.single and not self.may_end and parts[0][0] != "0"
            self.emit(f"store {t.name}[{', '.join(s for s, _ in placed)}] = {strip(text)};")
        if self.has_packed and self.own:
            self.block(self.number(1, 3), "packed")
        if not any(line.lstrip().startswith(("store", "atomic_")) for line in self.lines):
            raise Reject


WHOLE_ROOM = 2.0**16


def balanced(text):
    depth = 0
    for ch in text:
        depth += (ch in "([") - (ch in ")]")
        if depth < 0:
            return False
    return depth == 0


def strip(text):
    if text.startswith("(") and text.endswith(")") and balanced(text[1:-1]):
        return text[1:-1]
    return text


def make(seed):
    """The program of a seed."""
    if is_turned(seed):
        return Turned(seed).case()
    for attempt in range(200):
        try:
            return Program([seed, attempt]).case()
        except Reject:
            continue
    raise RuntimeError(f"seed {seed}: no program")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.count):
        print(f"// seed {seed}\n{make(seed).text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
