#!/usr/bin/env python3
"""variables.py - what variables keep of padding, in random programs of one or two axes, by a model of its own.

    variables.py --tilec T --tilerun R [--first SEED] [--count N] [--jobs J] [--print SEED]

The judge (judge.py) believes `tilec run`.  Here a page of NumPy says what section 7 of docs/language.md means: a tile is its
elements and, for each axis and depth of loops, which positions ranges of that depth make padding.  Programs have variables at
every depth, loops over tiles, over integers and over bounds that are constants, ranges by number, branches and reductions; each
is compiled for one target in turn and run in the simulator.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import numpy as np

TARGETS = ["sm_80", "sm_90", "sm_100", "sm_120"]
WHOLE = 2.0**20  # sums beyond are not exact in f32


class Tile:
    """pads: {(depth of loops, axis): which positions are padding}."""

    def __init__(self, x, pads):
        self.x, self.pads = x, pads

    def wide(self, axis, mask):
        return np.broadcast_to(mask[:, None] if self.x.ndim == 2 and axis == 0 else mask, self.x.shape)

    def padding(self, deeper=-1):
        """The elements that are padding because of ranges of more loops than that."""
        found = np.zeros(self.x.shape, bool)
        for (depth, axis), mask in self.pads.items():
            if depth > deeper:
                found |= self.wide(axis, mask)
        return found

    def reduced(self, most, axis):
        kept = {(depth, 0): mask for (depth, a), mask in self.pads.items() if a != axis}
        if most:
            return Tile(np.maximum(np.where(self.padding(), -np.inf, self.x).max(axis), -8), kept)
        return Tile(np.where(self.padding(), 0, self.x).sum(axis) * 0.125, kept)

    def grown(self, shape, axis):
        x = np.broadcast_to(self.x if axis else self.x[:, None], shape).copy()
        return Tile(x, {(depth, axis): mask for (depth, _), mask in self.pads.items()})


def both(a, b):
    out = dict(a)
    for key, mask in b.items():
        out[key] = out[key] | mask if key in out else mask
    return out


def assigned(old, new, depth):
    """What a variable becomes that was declared within so many loops."""
    if all(key[0] <= depth for key in new.pads):
        return new
    kept = {key: mask for key, mask in new.pads.items() if key[0] <= depth}
    return Tile(np.where(new.padding(depth), old.x, new.x), both(kept, old.pads))


class Program:
    """Its text, and as closures what it does: `run()` gives Y."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.columns = self.pick([4, 8, 16, 32])
        self.rows = self.pick([x for x in (4, 8, 16, 32, 64) if x != self.columns]) if self.chance(0.75) else 0
        self.fresh, self.indent, self.lines, self.stores = 0, 1, [], 0
        self.sizes, self.scalars, self.tensors = {}, {}, {}
        self.variables, self.ranges = [], []  # that can be seen: (name, depth, shape), (name, extent)
        body = [self.by_number(0, None)] if self.chance(0.7) else []
        body += self.block(0, 3, 5) + [self.store(name) for name, _, _ in list(self.variables)]
        self.body = [step for step in body if step]

    def pick(self, some):
        return some[int(self.r.integers(len(some)))]

    def chance(self, p):
        return self.r.random() < p

    def name(self, prefix):
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def emit(self, text):
        self.lines.append("    " * self.indent + text)

    def size(self):
        if not self.sizes or self.chance(0.5):
            n = self.columns
            self.sizes[f"S{len(self.sizes)}"] = self.pick([1, 2, 3, n - 1, n, n + 1, 2 * n, 2 * n + 3])
        return self.pick(sorted(self.sizes))

    def scalar(self):
        if not self.scalars or self.chance(0.4):
            self.scalars[f"c{len(self.scalars)}"] = int(self.r.integers(0, 4))
        return self.pick(sorted(self.scalars))

    def tensor(self, dims):
        name = f"X{len(self.tensors)}"
        self.tensors[name] = (dims, self.r.integers(-3, 4, [self.sizes.get(d, d) for d in dims]).astype(np.float64))
        return name

    # ---- expressions: (text, what gives the tile) ----

    def constant(self, shape):
        value = int(self.r.integers(-2, 3))
        return f"full<f32>[{', '.join(map(str, shape))}]({value}.0)", lambda: Tile(np.full(shape, float(value)), {})

    def expr(self, shape, depth=2):
        roll = self.r.random()
        if depth and roll < 0.4:
            return self.binary(shape, depth)
        if roll < 0.75:
            return self.load(shape) or self.constant(shape)
        if roll < 0.8:
            return self.indices(shape) or self.constant(shape)
        return self.variable(shape) or self.constant(shape)

    def binary(self, shape, depth):
        (s, a), (t, b) = self.expr(shape, depth - 1), self.expr(shape, depth - 1)
        text, f = self.pick([(f"({s} + {t})", np.add), (f"({s} - {t})", np.subtract), (f"max({s}, {t})", np.maximum),
                             (f"min(max({s} * {t}, -8.0), 8.0)", lambda x, y: np.clip(x * y, -8, 8))])

        def value():
            left, right = a(), b()
            return Tile(f(left.x, right.x), both(left.pads, right.pads))
        return text, value

    def load(self, shape):
        """By ranges, of one axis perhaps moved; of rows perhaps all."""
        chosen = [[n for n, extent in self.ranges if extent == e] for e in shape]
        if not chosen[-1]:
            return None
        names = [self.pick(c) if c and (k == len(shape) - 1 or self.chance(0.7)) else None for k, c in enumerate(chosen)]
        by = self.pick([0, 0, 0, 1, -1]) if len(shape) == 1 else 0
        x = self.tensor([self.size() if n else e for n, e in zip(names, shape)])
        subscripts = [n or ":" for n in names]
        subscripts[-1] += f" {'+-'[by < 0]} {abs(by)}" if by else ""

        def value():
            found, pads = self.tensors[x][1], {}
            for axis, (name, extent) in enumerate(zip(names, shape)):
                start, end, depth = self.at[name] if name else (0, extent, None)
                place = start + np.arange(extent)
                if name:
                    pads[depth, axis] = place >= end
                inside = (place + by >= 0) & (place + by < found.shape[axis])
                found = np.take(found, np.clip(place + by, 0, found.shape[axis] - 1), axis)
                found = np.where(inside[:, None] if axis < found.ndim - 1 else inside, found, 0)
            return Tile(found, pads)
        return f"(load {x}[{', '.join(subscripts)}])", value

    def indices(self, shape):
        known = [n for n, extent in self.ranges if (extent,) == shape]
        if not known:
            return None
        name = self.pick(known)

        def value():
            start, end, depth = self.at[name]
            place = start + np.arange(shape[0])
            return Tile(place.astype(np.float64), {(depth, 0): place >= end})
        return f"({name} as f32)", value

    def variable(self, shape):
        name, _, own = self.pick(self.variables) if self.variables else (None, 0, None)
        if name is None:
            return None
        if own == shape:
            return name, lambda: self.now[name][1]
        if len(shape) < len(own):
            most, axis = self.chance(0.3), 0 if shape == own[1:] else 1
            text = f"max(max({name}, axis={axis}), -8.0)" if most else f"(sum({name}, axis={axis}) * 0.125)"
            return text, lambda: self.now[name][1].reduced(most, axis)
        if len(shape) > len(own):
            axis = 1 if own == shape[1:] else 0
            spread = "None, :" if axis else ":, None"
            return (f"({name}[{spread}] + zeros<f32>[{shape[0]}, {shape[1]}])", lambda: self.now[name][1].grown(shape, axis))
        return None

    # ---- statements: what each does ----

    def store(self, name):
        k, most = self.stores, self.chance(0.3)
        self.stores += 1
        self.emit(f"store Y[{k}] = {'max' if most else 'sum'}({name});")

        def do():
            tile = self.now[name][1]
            seen = tile.x[~tile.padding()]
            self.y[k] = seen.sum() if not most else seen.max() if seen.size else -np.inf
        return do

    def declare(self, depth):
        shape = (self.columns,)
        if self.rows and self.chance(0.65):
            shape = (self.rows, self.columns) if self.chance(0.7) else (self.rows,)
        (text, value), name = self.expr(shape), self.name("v")
        self.emit(f"var {name} = {text};")
        self.variables.append((name, depth, shape))
        return lambda: self.now.__setitem__(name, (depth, value()))

    def assign(self):
        name, depth, shape = self.pick(self.variables)
        text, value = self.expr(shape)
        keep, way = self.pick([(0, "{0} = {1};"), (0, "{0} = {1};"), (1, "{0} += {1};"), (0.5, "{0} = {0} * 0.5 + {1};")])
        self.emit(way.format(name, text))

        def do():
            old, new = self.now[name][1], value()
            if keep:
                new = Tile(keep * old.x + new.x, both(old.pads, new.pads))
            self.now[name] = (depth, assigned(old, new, depth))
        return do

    def inner(self, depth, least, most, first=None):
        """A block, of which nothing is seen behind it."""
        variables, ranges = list(self.variables), list(self.ranges)
        self.indent += 1
        body = ([first()] if first else []) + self.block(depth, least, most)
        self.indent -= 1
        self.variables, self.ranges = variables, ranges
        return body

    def number(self, x):
        return self.sizes.get(x, self.scalars.get(x, self.at.get(x, x)))

    def bounds(self, extent):
        """(text, lo, hi) of a sequence of ranges."""
        roll = self.r.random()
        if roll < 0.6:
            hi = self.size()
            return hi, 0, hi
        if roll < 0.8:
            lo, hi = self.scalar(), self.size()
            return f"{lo}..{hi}", lo, hi
        hi = extent * int(self.r.integers(1, 3))
        return str(hi), 0, hi

    def by_number(self, depth, index):
        extent = self.rows if self.rows and self.chance(0.4) else self.columns
        name, (text, lo, hi) = self.name("n"), self.bounds(extent)
        which = index if index and self.chance(0.5) else self.pick([0, 1, self.scalar()])
        self.emit(f"let {name} = tiles({text}, {extent})[{which}];")
        self.ranges.append((name, extent))

        def do():
            self.at[name] = (self.number(lo) + self.number(which) * extent, self.number(hi), depth)
        return do

    def over_tiles(self, depth):
        extent = self.rows if self.rows and self.chance(0.4) else self.columns
        name, (text, lo, hi) = self.name("n"), self.bounds(extent)
        self.emit(f"for {name} in tiles({text}, {extent}) {{")
        self.ranges.append((name, extent))
        body = self.inner(depth + 1, 1, 4)
        self.ranges.pop()
        self.emit("}")

        def do():
            for start in range(self.number(lo), self.number(hi), extent):
                self.at[name] = (start, self.number(hi), depth + 1)
                run(body)
        return do

    def over_integers(self, depth):
        name, count = self.name("q"), self.scalar() if self.chance(0.7) else int(self.r.integers(1, 3))
        self.emit(f"for {name} in 0..{count} {{")
        first = (lambda: self.by_number(depth + 1, name)) if self.chance(0.6) else None
        body = self.inner(depth + 1, 1, 4, first)
        self.emit("}")

        def do():
            for i in range(self.number(count)):
                self.at[name] = i
                run(body)
        return do

    def branch(self, depth):
        scalar, than = self.scalar(), int(self.r.integers(0, 4))
        self.emit(f"if {scalar} > {than} {{")
        yes, no = self.inner(depth, 1, 3), []
        if self.chance(0.4):
            self.emit("} else {")
            no = self.inner(depth, 1, 3)
        self.emit("}")
        return lambda: run(yes if self.scalars[scalar] > than else no)

    def block(self, depth, least, most):
        body = []
        for _ in range(int(self.r.integers(least, most))):
            kind = self.pick(["declare", "assign", "assign", "assign", "for", "for", "for", "range", "if", "store"])
            if kind == "declare" or (kind == "assign" and not self.variables):
                body.append(self.declare(depth))
            elif kind == "assign":
                body.append(self.assign())
            elif kind == "for" and depth < 3:
                body.append(self.over_integers(depth) if self.chance(0.45) else self.over_tiles(depth))
            elif kind == "range":
                body.append(self.by_number(depth, None))
            elif kind == "if":
                body.append(self.branch(depth))
            elif kind == "store" and depth == 0 and self.variables:
                body.append(self.store(self.pick(self.variables)[0]))
        return body

    # ---- the whole ----

    def text(self):
        named = [f"U{s}: in f32[{s}]" for s in self.sizes]  # which say how large the sizes are
        params = [f"{x}: in f32[{', '.join(map(str, dims))}]" for x, (dims, _) in self.tensors.items()]
        params += named + [f"Y: out f32[{self.stores}]"] + [f"{c}: i32" for c in self.scalars]
        return f"kernel k({', '.join(params)}) {{\n    grid g in 1;\n" + "\n".join(self.lines) + "\n}\n"

    def run(self):
        self.at, self.now, self.y = {}, {}, np.zeros(self.stores)
        run(self.body)
        return self.y

    def judged(self):
        """Whether there is something to judge, exact in f32 but for halves that are lost."""
        if self.stores == 0:
            return False
        y = self.run()
        return np.abs(y[np.isfinite(y)]).max(initial=0) < WHOLE


def run(steps):
    for step in steps:
        step()


def judge(options, seed):
    """What is wrong with a seed's program: text, or None; False: there is nothing to judge."""
    program = Program(seed)
    if not program.judged():
        return False
    flags = ["-arch", TARGETS[seed % len(TARGETS)], f"-O{0 if seed % 7 == 0 else 3}", "-Wno-unused"]
    with tempfile.TemporaryDirectory() as folder:
        source, ptx, out = (os.path.join(folder, name) for name in ("k.tile", "k.ptx", "Y.npy"))
        with open(source, "w", encoding="utf-8") as file:
            file.write(program.text())
        given = {x: a for x, (_, a) in program.tensors.items()} | {f"U{s}": np.zeros(n) for s, n in program.sizes.items()}
        command = [options.tilerun, ptx, "--device", "sim", "--quiet", "--seed", str(seed), "--out", f"Y={out}"]
        for name, value in program.scalars.items():
            command += ["--set", f"{name}={value}"]
        for name, array in given.items():
            np.save(os.path.join(folder, name + ".npy"), array.astype(np.float32))
            command += ["--in", f"{name}={folder}/{name}.npy"]
        for step in ([options.tilec, source, *flags, "-o", ptx], command):
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return f"exit status {done.returncode}: {done.stderr.strip()[:400]}"
        have, want = np.load(out).astype(np.float64), program.run()
        with np.errstate(invalid="ignore"):  # of infinities
            near = np.abs(have - want) <= 1e-5 * np.maximum(1, np.abs(want))
        wrong = ~((have == want) | near)
        k = int(np.argmax(wrong))
        return f"{' '.join(flags)}: Y[{k}] is {have[k]}, not {want[k]}" if wrong.any() else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec")
    parser.add_argument("--tilerun")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--print", type=int)
    options = parser.parse_args()
    if options.print is not None:
        print(Program(options.print).text())
        return 0
    judged = failed = 0
    seeds = range(options.first, options.first + options.count)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for seed, said in zip(seeds, pool.map(lambda seed: judge(options, seed), seeds)):
            judged += said is not False
            if said:
                failed += 1
                print(f"seed {seed}: {said}", flush=True)
    print(f"{judged} programs, {failed} wrong")
    return 1 if failed or judged < 0.5 * options.count else 0


if __name__ == "__main__":
    sys.exit(main())
