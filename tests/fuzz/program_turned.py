"""program_turned.py - sums that a loop carries, of products whose columns are the rows of another product of the loop.

Warp groups divide one of the two ranges of the grid; a product that has it as its columns is issued transposed, and the sum with
it.  Programs of other kinds have this once in some 30,000; by numbers of its own these are one of 120.
"""
import numpy as np

from case import Case

SHARE = 120


def is_turned(seed):
    return int(np.random.default_rng([seed, 14]).integers(SHARE)) == 0


class Turned:
    def __init__(self, seed):
        self.r = np.random.default_rng([seed, 15])
        self.seed, self.inputs, self.dtype = seed, [], self.pick(["f16", "f16", "bf16"])
        self.rows, self.columns = self.pick([64, 64, 128, 128, 128, 192, 256]), self.pick([64, 128, 128, 128])
        self.inner, self.depth = self.pick([32, 64, 64, 64, 96]), self.pick([32, 64, 64, 128])

    def pick(self, items):
        return items[int(self.r.integers(len(items)))]

    def chance(self, p):
        return self.r.random() < p

    def tensor(self, dtype, dims):
        self.inputs.append(f"X{len(self.inputs)}: in {dtype}[{dims}] align(16)")
        return f"X{len(self.inputs) - 1}"

    def operand(self, x, y):
        """A tile with these axes, loaded so or turned."""
        size = {"m": "S0", "j": "S1", "n": "S2", ":": str(self.depth)}
        if y == ":" or x != ":" and self.chance(0.5):
            return f"load {self.tensor(self.dtype, f'{size[x]}, {size[y]}')}[{x}, {y}]"
        return f"(load {self.tensor(self.dtype, f'{size[y]}, {size[x]}')}[{y}, {x}]).T"

    def beside(self):
        """A product with the rows j, and what becomes of it: statements in front of the loop, in it and behind it."""
        scores = f"mma({self.operand('j', ':')}, {self.operand(':', 'n')}) * 0.0625"
        if self.chance(0.3):
            scores = f"where((n)[None, :] <= (j)[:, None]{self.pick(['', ' + 7'])}, {scores}, {self.pick(['0.5', '0.0'])})"
        if self.chance(0.6):
            step = self.pick(["max(most, max(s, axis = 1))", "most * 0.5 + sum(s, axis = 1)", "min(most, max(s * s, axis = 1))"])
            return f"var most = full<f32>[{self.columns}](1.25);", [f"let s = {scores};", f"most = {step};"], [("most", "j", "S1")]
        kind = self.pick(["exp2(min(s, 3.0))", "s", "max(s, 0.0)"])
        values = f"load {self.tensor(self.dtype, f'S2, {self.depth}')}[n, :]"
        return (f"var acc = zeros<f32>[{self.columns}, {self.depth}];",
                [f"let s = {scores};", f"acc = mma({kind} as {self.dtype}, {values}, acc);"], [("acc", "j, :", f"S1, {self.depth}")])

    def carried(self):
        """The statements for the sum: in front of the loop, and in it."""
        begin = self.pick([f"zeros<f32>[{self.rows}, {self.columns}]", f"full<f32>[{self.rows}, {self.columns}](0.5)",
                           "load " + self.tensor("f32", "S0, S1") + "[m, j]"] if self.chance(0.6) else [f"zeros<f32>[{self.rows}, {self.columns}]"])
        product = f"{self.operand('m', 'n')}, {self.operand('n', 'j')}"
        changed = "sum"
        if self.chance(0.3):
            changed = self.pick(["sum * 0.5", f"sum * (load {self.tensor('f32', 'S0')}[m])[:, None]",
                                 f"sum * (load {self.tensor('f32', 'S1')}[j])[None, :]"])
        step = f"sum = mma({product}, {changed});" if self.chance(0.7) else f"sum = {changed} + mma({product});"
        return f"var sum = {begin};", [step]

    def case(self):
        first, loop, shown = self.beside()
        begin, steps = self.carried()
        loop = loop + steps if self.chance(0.6) else steps + loop
        grid = ["m in tiles(S0, TM)", f"j in tiles(S1, {self.columns})"]
        outputs = ["Y0: out f32[S0, S1] align(16)", f"Y1: out f32[{shown[0][2]}] align(16)"]
        lines = [f"grid {', '.join(grid if self.chance(0.6) else grid[::-1])};", begin, first,
                 f"for n in tiles(S2, {self.inner}) {{", *["    " + line for line in loop], "}",
                 f"store Y0[m, j] = {self.pick(['sum', 'sum', 'sum * 0.5', 'max(sum, 0.0)'])};",
                 f"if m.first == 0 {{ store Y1[{shown[0][1]}] = {shown[0][0]}; }}"]
        params = ",\n    ".join(self.inputs + outputs)
        text = f"kernel k<TM: int = {self.rows}>(\n    {params}) {{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
        sizes = {"S0": int(self.r.integers(1, 2 * self.rows)), "S1": int(self.r.integers(1, 2 * self.columns)),
                 "S2": int(self.r.integers(1, 5 * self.inner))}
        if self.chance(0.5):
            sizes = dict.fromkeys(sizes, self.pick([200, 128, 256, 72]))
        return Case(Case.join(text, {"seed": self.seed, "sizes": sizes, "edges": ["turned"]}))
