"""random_tile.py - random well-typed programs: statements around the expressions of random_expr.py."""
import numpy as np

from random_expr import (EPS, MANTISSA, Axis, Env, Expr, Expressions, Reject, Tensor, from_bits,
                         joined_tags, rounded, settle, to_bits)

__all__ = ["Generator", "Reject", "from_bits", "to_bits"]


class Generator(Expressions):
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.smooth = self.chance(0.3)
        self.tensors, self.scalars, self.sizes = [], {}, {}
        self.lines, self.depth, self.fresh = [], 1, 0
        self.vars = []  # Expr by name, innermost last
        self.ranges = {}  # name: Axis
        self.body, self.outputs = [], []
        self.const_axes = [Axis(self.pick([8, 16, 32, 64])) for _ in range(2)]
        if self.chance(0.2):
            self.const_axes.append(Axis(self.pick([1, 3, 5, 24, 40, 48, 96])))
        self.budget = int(self.r.integers(6, 40))
        self.program()

    # ---- statements: each appends text, and a function of the Env to `body` ----

    def let(self, x, keyword="let"):
        name = self.name("v")
        self.emit(f"{keyword} {name} = {x.text};")
        self.body.append(lambda e: e.values.__setitem__(name, x.fn(e)))
        made = x.renamed(name, lambda e: e.values[name])
        return made

    def some_axes(self):
        pool = list(self.ranges.values()) + self.const_axes
        n = self.pick([0, 1, 1, 2, 2, 2])
        order = self.r.permutation(len(pool))[:n]
        return [pool[k] for k in order]

    def some_let(self):
        x = self.expr(self.pick(["f32", "f32", "bf16", "f16", "i32", "bool"]), self.some_axes(),
                      self.number(1, 3))
        if x.text[0] == "(" and x.text.strip("()").replace("-", "").replace(".", "").isdigit():
            return
        self.vars.append(self.let(x))

    def new_var(self, loop_axis=None):
        """A variable with a first value."""
        dtype = self.pick(["f32", "f32", "f32", "i32", "bf16"])
        axes = [a for a in self.some_axes() if a is not loop_axis]
        if self.chance(0.5): # what loops usually carry: something for each row of the block
            axes = [self.ranges["m"]] + ([self.pick(self.const_axes)] if self.chance(0.5) else [])
            dtype = "f32" if self.chance(0.7) else dtype
        start = self.pick(["zero", "value", "expr"]) if axes else "expr"
        if start == "expr":
            x = self.expr(dtype, axes, 1, True)
            if not axes:
                x = x.renamed(f"({x.text} as {dtype})" if x.text.startswith("(") else x.text, x.fn)
        elif start == "value" and dtype == "f32" and self.chance(0.5):
            dims = ", ".join(str(a.extent) for a in axes)
            x = Expr(f"full<f32>[{dims}](-inf)", "f32", axes,
                     lambda e: np.full([a.extent for a in axes], -np.inf), 0.0, 1.0, 0.0, True)
        else:
            c = self.const(dtype)
            if start == "zero":
                c = Expr("0", dtype, (), lambda e: np.int64(0) if dtype == "i32" else
                         np.float64(0))
            dims = ", ".join(str(a.extent) for a in axes)
            grown = self.grow(c, axes)
            x = grown.renamed(f"full<{dtype}>[{dims}]({c.text})", grown.fn)
        return self.let(x, "var")

    def masked(self, var, inner):
        """What a masked tile over the loop's range adds to a variable: nothing where all is hidden,
        which is what lets loops skip."""
        rows = var.axes[0]
        x = self.expr("f32", [rows, inner], 1)
        c = self.mask_condition([rows, inner], 1)
        if x.ninf:
            raise Reject
        s = self.elementwise(f"mask({x.text}, {c.text})", "f32", [rows, inner], [x, c],
                             lambda x, c: np.where(c, x, -np.inf), x.mag, x.grain, x.err, True)
        if len(var.axes) == 1 and self.chance(0.6):
            return "max", self.reduce_of("max", s, 1)
        if not self.smooth or x.mag > 8:
            raise Reject
        p = self.elementwise(f"exp2({s.text})", "f32", [rows, inner], [s], np.exp2, 2.0**x.mag,
                             2.0**-40, 2.0**x.mag * (2 * x.err + 2.0**-18))
        if len(var.axes) == 1:
            return "sum", self.reduce_of("sum", p, 1)
        dtype = self.pick(["bf16", "f16"])
        b = self.expr(dtype, [inner, var.axes[1]], 1)
        a = self.elementwise(f"({p.text} as {dtype})", dtype, [rows, inner], [p], lambda v: v,
                             p.mag, p.grain, p.err)
        return "sum", self.mma_of(a, b)

    def mma_of(self, a, b):
        if a.ninf or b.ninf or any(t.endswith("?") for t in a.tags[1] | b.tags[0]):
            raise Reject
        contraction, k = a.tags[1] | b.tags[0], a.axes[1].extent
        if len(contraction) > 1:
            raise Reject
        mag = a.mag * b.mag * k
        err = k * (a.err * b.mag + b.err * a.mag + a.err * b.err) + 4 * k * 2.0**-23 * mag
        mag, grain, err = settle("f32", mag, 2.0**-40, err)

        def fn(e):
            x, y = a.fn(e), b.fn(e)
            for tag in contraction:
                start, end = e.ranges[tag]
                keep = max(0, min(k, end - start))
                x, y = x[:, :keep], y[:keep]
            return rounded(x @ y, "f32")

        return Expr(f"mma({a.text}, {b.text})", "f32", (a.axes[0], b.axes[1]), fn, mag, grain, err,
                    False, (a.tags[0], b.tags[1]))

    def update(self, var, trips, inner=None):
        """(text of the new value, function, bounds of the variable in the whole loop)."""
        exact = not self.smooth or var.dtype == "i32"
        way = self.pick(["sum", "sum", "max", "last", "where", "mma", "if"])
        if way == "mma" and (var.dtype != "f32" or len(var.axes) != 2):
            way = "sum"
        depth = self.number(1, 3)
        if inner is not None and var.dtype == "f32" and var.axes and inner not in var.axes and \
           var.axes[0].name and self.chance(0.4):
            way, e = self.masked(var, inner)
            text = f"{var.text} + {e.text}"
        elif way == "mma":
            e = self.product(var.axes, depth, exact)
            text = e.text[:-1] + f", {var.text})"
        else:
            e = self.expr(var.dtype, var.axes, depth, exact)
            text = f"{var.text} + {e.text}"
        if way in ("sum", "mma", "if"):
            if (var.ninf or e.ninf) and way != "sum":
                raise Reject
            mag = var.mag + trips * e.mag
            grain = min(var.grain, e.grain)
            err = var.err + trips * e.err
            is_exact = err == 0 and mag <= grain * 2.0**(MANTISSA[var.dtype] - 1)
            if not is_exact and var.dtype != "i32":
                if exact:
                    raise Reject
                err += trips * EPS[var.dtype] * mag
            mag, grain, err = settle(var.dtype, mag, grain, err)
            fn = lambda env: rounded(var.fn(env) + e.fn(env), var.dtype)
            ninf = var.ninf or e.ninf
            if way == "if":
                c = self.expr("bool", [], depth)
                return e, (f"if {c.text} {{ {var.text} = {text}; }}",
                           lambda env: fn(env) if c.fn(env) else var.fn(env), mag, grain, err,
                           ninf)
            return e, (f"{var.text} = {text};", fn, mag, grain, err, ninf)
        if way == "max":
            text = f"{var.text} = max({var.text}, {e.text});"
            fn = lambda env: np.maximum(var.fn(env), e.fn(env))
        elif way == "last":
            text, fn = f"{var.text} = {e.text};", e.fn
        else:
            c = self.expr("bool", var.axes, depth)
            text = f"{var.text} = where({c.text}, {var.text}, {e.text});"
            fn = lambda env: np.where(c.fn(env), var.fn(env), e.fn(env))
            e.tags = joined_tags(var.axes, [c, e])
        return e, (text, fn, max(var.mag, e.mag), min(var.grain, e.grain), max(var.err, e.err),
                   var.ninf or e.ninf)

    def loop(self, nesting=0):
        carried = [self.new_var() for _ in range(self.number(1, 3))]
        kind = self.pick(["tiles", "tiles", "tiles", "cut", "count"])
        if nesting and kind == "cut":
            kind = "tiles"
        extent = self.pick([16, 16, 32, 64])
        if self.chance(0.1):
            extent = self.pick([8, 24, 48])
        name = self.name("n")
        saved_vars, saved_ranges, body = list(self.vars), dict(self.ranges), self.body
        if kind == "count":
            trips = self.number(0, 4)
            head = f"for {name} in 0..{self.bound_text(trips)} {{"
            self.vars.append(Expr(name, "i32", (), lambda e: e.values[name], mag=5.0))
        else:
            size, value = self.new_size(extent)
            axis = Axis(extent, name, size)
            end = value
            if kind == "cut":
                scalar = f"c{len(self.scalars)}"
                end = self.number(0, value)
                self.scalars[scalar] = ("i32", end)
                self.cut.add(name)
                head = f"for {name} in tiles(0..{scalar}, {extent}) {{"
            else:
                head = f"for {name} in tiles({size}, {extent}) {{"
            trips = -(-end // extent)
            self.ranges[name] = axis
        if self.chance(0.2):
            head = f"@stages({self.number(1, 4)}) " + head
        if self.chance(0.1):
            head = "@no_split " + head
        self.emit(head)
        self.depth += 1
        self.body = []
        for _ in range(self.number(0, 2)):
            self.some_let()
        if nesting == 0 and self.chance(0.15):
            self.loop(1)
        after = []
        for var in carried:
            for _ in range(6):
                try:
                    e, (text, fn, mag, grain, err, ninf) = self.update(
                        var, max(trips, 1), None if kind == "count" else axis)
                    break
                except Reject:
                    continue
            else:
                continue
            self.emit(text)
            target = var.text
            self.body.append(lambda env, fn=fn, target=target: env.values.__setitem__(target,
                                                                                      fn(env)))
            tags = tuple(frozenset(t + "?" if t == name else t for t in e.tags[k] | var.tags[k])
                         for k in range(len(var.axes)))
            if any(t.endswith("?") and t[:-1] == name for ts in tags for t in ts):
                pass
            bound = Expr(target, var.dtype, var.axes, var.fn, mag, grain, err, ninf, tags)
            after.append(bound)
            self.vars.append(bound)
        if kind != "count" and self.chance(0.15):
            rows = [a for a in self.ranges.values() if a.name in self.grid_names]
            if rows and kind == "tiles":
                self.store(self.expr(self.pick(["f32", "bf16"]), [self.pick(rows),
                                                                 self.ranges[name]], 2))
        self.depth -= 1
        self.emit("}")
        inner, self.body, self.vars, self.ranges = self.body, body, saved_vars, saved_ranges
        self.vars += after

        def run(e):
            count = trips
            for i in range(count):
                if kind == "count":
                    e.values[name] = np.int64(i)
                else:
                    e.ranges[name] = (i * extent, end)
                for statement in inner:
                    statement(e)

        self.body.append(run)

    def bound_text(self, value):
        if self.chance(0.5):
            return str(value)
        name = f"c{len(self.scalars)}"
        self.scalars[name] = ("i32", value)
        return name

    def new_size(self, extent):
        """A size for ranges of `extent`: run-time or constant; (text for tensors, value)."""
        value = self.number(1, 90) if self.chance(0.5) else extent * self.number(1, 3)
        if self.chance(0.25):
            value = 8 * self.number(1, 11)
        if self.chance(0.1):
            value = self.number(1, 8)
        if self.chance(0.25):
            return value, value
        name = f"S{len(self.sizes)}"
        self.sizes[name] = value
        return name, value

    def branch(self):
        var = self.new_var()
        c = self.expr("bool", [], 2)
        self.emit(f"if {c.text} {{")
        sides = []
        tags = list(var.tags)
        mag, grain, err, ninf = var.mag, var.grain, var.err, var.ninf
        for side in range(2):
            if side == 1:
                if self.chance(0.4):
                    sides.append([])
                    break
                self.emit("} else {")
            self.depth += 1
            saved, body = list(self.vars), self.body
            self.body = []
            if self.chance(0.5):
                self.some_let()
            e = self.expr(var.dtype, var.axes, 2, not self.smooth or var.dtype == "i32")
            self.emit(f"{var.text} = {e.text};")
            self.body.append(lambda env, e=e: env.values.__setitem__(var.text, e.fn(env)))
            sides.append(self.body)
            self.body, self.vars = body, saved
            self.depth -= 1
            # which ranges are behind the result differs from side to side: not to be reduced
            tags = [t | frozenset(x + "?" for x in e.tags[k]) for k, t in enumerate(tags)]
            mag, grain, err = max(mag, e.mag), min(grain, e.grain), max(err, e.err)
            ninf = ninf or e.ninf
        self.emit("}")

        def run(env):
            for statement in sides[0 if c.fn(env) else 1]:
                statement(env)

        self.body.append(run)
        tags = tuple(frozenset(x if x.endswith("?") else x + "?" for x in t) for t in tags)
        self.vars.append(Expr(var.text, var.dtype, var.axes, var.fn, mag, grain, err, ninf, tags))

    def store(self, x):
        """Axes of x: ranges of the grid, or of the loop around it, and constants."""
        if x.dtype == "bool" or not any(a.name in self.grid_names for a in x.axes):
            return
        batch = self.batch is not None
        missing = [n for n in self.grid_names if n not in [a.name for a in x.axes]]
        if missing:
            return # several programs would write the same elements
        dims = ([self.batch.size] if batch else []) + \
            [a.size if a.name else a.extent for a in x.axes]
        tensor = Tensor(f"Y{len(self.tensors)}", "out", x.dtype, dims, 0, 0)
        tensor.allowed = 2 * x.err + (0 if x.exact else EPS.get(x.dtype, 0) * x.mag)
        self.tensors.append(tensor)
        self.outputs.append(tensor)
        subscripts = ([self.batch.name] if batch else []) + [a.name or ":" for a in x.axes]
        self.emit(f"store {tensor.name}[{', '.join(subscripts)}] = {x.text};")

        def run(e):
            value = x.fn(e)
            at = tensor.want[int(e.values[self.batch.name])] if batch else tensor.want
            slices, cut = [], []
            for k, a in enumerate(x.axes):
                start = e.ranges[a.name][0] if a.name else 0
                slices.append(slice(start, start + a.extent))
                cut.append(slice(0, max(0, at.shape[k] - start)))
            at[tuple(slices)] = value[tuple(cut)]
            done = tensor.written[int(e.values[self.batch.name])] if batch else tensor.written
            done[tuple(slices)] = True

        self.body.append(run)

    def atomic(self):
        axis = self.pick(self.const_axes)
        dtype = self.pick(["i32", "f32"])
        x = self.expr(dtype, [axis], 2, True)
        programs = 64
        if x.ninf or not x.exact or x.mag * programs > x.grain * 2.0**23:
            return
        tensor = Tensor(f"Z{len(self.tensors)}", "inout", dtype, [axis.extent], 0, 0)
        self.tensors.append(tensor)
        self.outputs.append(tensor)
        self.emit(f"atomic_add {tensor.name}[:] += {x.text};")
        self.body.append(lambda e: tensor.want.__iadd__(x.fn(e).astype(tensor.want.dtype)))

    # ---- the kernel ----

    def program(self):
        self.cut, self.batch, self.grid_names, self.grid = set(), None, [], []
        extent = self.pick([16, 16, 32, 64, 128])
        if self.chance(0.15):
            extent = self.pick([1, 8, 24, 48, 80])
        size, value = self.new_size(extent)
        self.ranges["m"] = Axis(extent, "m", size)
        self.grid_names.append("m")
        self.grid.append(("m", f"tiles({size}, {extent})", -(-value // extent), extent, value))
        if self.chance(0.15):
            extent = self.pick([16, 32, 64])
            size, value = self.new_size(extent)
            self.ranges["q"] = Axis(extent, "q", size)
            self.grid_names.append("q")
            self.grid.append(("q", f"tiles({size}, {extent})", -(-value // extent), extent, value))
        if self.chance(0.3):
            self.batch = Axis(0, "h", "B")
            self.sizes["B"] = self.number(1, 3)
            self.grid.append(("h", "B", self.sizes["B"], None, None))
            self.vars.append(Expr("h", "i32", (), lambda e: e.values["h"], mag=3.0))
        self.emit("grid " + ", ".join(f"{n} in {text}" for n, text, *_ in self.grid) + ";")
        for _ in range(self.number(0, 3)):
            self.some_let()
        for _ in range(self.number(0, 2)):
            if self.chance(0.75):
                self.loop()
            else:
                self.branch()
        for _ in range(self.number(0, 2)):
            self.some_let()
        if self.chance(0.15):
            self.atomic()
        rows = [self.ranges[n] for n in self.grid_names]
        wanted = self.number(1, 3)
        usable = [v for v in self.vars if v.dtype != "bool" and
                  all(n in [a.name for a in v.axes] for n in self.grid_names) and
                  all(a.name is None or a.name in self.grid_names for a in v.axes)]
        for v in usable[-2:]:
            self.store(v)
        self.budget += 6
        for _ in range(wanted):
            axes = list(rows)
            if len(axes) < 2 and self.chance(0.7):
                axes.append(self.pick(self.const_axes))
            if self.chance(0.2):
                axes.reverse()
            dtype = self.pick(["f32", "f32", "bf16", "f16", "i32"])
            x = self.expr(dtype, axes, self.number(2, 4))
            small = [v for v in self.vars if v.axes and v.axes[0] in axes and len(v.axes) == 1 and
                     v.dtype == dtype and not v.ninf and not x.ninf]
            if small:
                try:
                    y = self.grow(self.pick(small), axes)
                    x = self.elementwise(f"({x.text} + {y.text})", dtype, axes, [x, y], np.add,
                                         x.mag + y.mag, min(x.grain, y.grain), x.err + y.err)
                except Reject:
                    pass
            self.store(x)

    def text(self):
        sizes_only = [n for n in self.sizes if not any(n in t.dims for t in self.tensors)]
        names = [t.declare(self.sizes) for t in self.tensors]
        names += [f"{n}: {t}" for n, (t, _) in self.scalars.items()]
        names += [f"U{n}: in f32[{n}]" for n in sizes_only]
        self.extra = {f"U{n}": self.sizes[n] for n in sizes_only}
        return "kernel k(" + ", ".join(names) + ") {\n" + "\n".join(self.lines) + "\n}\n"

    # ---- what it means ----

    def fill(self):
        for t in self.tensors:
            shape = [self.sizes.get(d, d) for d in t.dims]
            if t.mode == "in":
                if t.grain < 2.0**-20:
                    t.data = rounded(np.clip(self.r.standard_normal(shape), -t.mag, t.mag), t.dtype)
                else:
                    steps = int(t.mag / t.grain)
                    t.data = self.r.integers(-steps, steps + 1, shape) * t.grain
                    if t.dtype == "i32":
                        t.data = t.data.astype(np.int64)
            t.want = np.zeros(shape, np.int64 if t.dtype == "i32" else np.float64)
            t.written = np.full(shape, t.mode == "inout")

    def expect(self):
        """Runs the program in NumPy: fills in `want` of the outputs."""
        with np.errstate(all="ignore"):
            for at in np.ndindex(*[count for _, _, count, _, _ in self.grid]):
                e = Env(self)
                for (name, _, _, extent, value), i in zip(self.grid, at):
                    if extent is None:
                        e.values[name] = np.int64(i)
                    else:
                        e.ranges[name] = (i * extent, value)
                for statement in self.body:
                    statement(e)
