"""program_scans.py - scans and reductions by functions that are associative: random ones of a wanted type and shape."""
from program_values import Reject, Val, settle

FUNCTIONS = {
    "link": "fn link(x, y) {\n    return (a = x.a * y.a, b = x.b * y.a + y.b);\n}",
    "best": "fn best(x, y) {\n    let later = y.0 > x.0;\n    return (where(later, y.0, x.0), where(later, y.1, x.1));\n}",
    "last": "fn last(x, y) {\n    return y;\n}",
    "first": "fn first(x, y) {\n    return x;\n}",
    "either": "fn either(x, y) {\n    return x || y;\n}",
    "most": "fn most(x, y) {\n    return max(x, y);\n}",
    "whole": "fn whole(x, y) {\n    let s = (n = x.n + y.n, v = x.v + y.v);\n    return s;\n}",
    "anew": "fn anew(x, y) {\n    return (begins = x.begins || y.begins, s = where(y.begins, y.s, x.s + y.s));\n}",
    "seven": "fn seven(x, y) {\n    return (sevens(x.0, x.1, y.0, y.2), sevens(x.0, x.1, y.1, y.3), sevens(x.2, x.3, y.0, y.2), "
             "sevens(x.2, x.3, y.1, y.3));\n}\nfn sevens(a, b, c, d) {\n    return (a * c + b * d) % 7;\n}",
    "merge": "fn merge(x, y) {\n    let m = max(x.m, y.m);\n    return (m = m, s = x.s * exp(x.m - m) + y.s * exp(y.m - m));\n}",
}


class Scans:
    """A part of the generator, as Values is."""

    def by_function(self, dtype, shape, depth):
        """A scan of that shape, or a reduction to it."""
        reduces = len(shape) < 2 and (shape == () or self.chance(0.5))
        inner, axis = self.larger(shape) if reduces else (shape, self.number(0, len(shape) - 1))
        kinds = {"bool": [self.by_last, self.by_flag], "i32": [self.by_link, self.by_place, self.by_seven, self.by_sum, self.by_last, self.by_anew],
                 "f32": [self.by_link, self.by_link, self.by_sum, self.by_last, self.by_anew, self.by_merge]}
        made = self.pick(kinds.get(dtype, kinds["f32"][:-1]))
        function, parts, part, mag, grain = made(dtype, inner, depth - 1, inner[axis])
        if FUNCTIONS[function] not in self.texts:
            self.texts.append(FUNCTIONS[function])
        how = f"axis={axis if self.chance(0.7) else axis - len(inner)}" + ("" if reduces else self.pick(["", "", ", reverse=true"]))
        return settle(dtype, shape, f"{'reduce' if reduces else 'scan'}({function}, {parts}, {how}){part}", mag, grain)

    def tuple_of(self, **parts):
        """The names are those of the function, or it knows them."""
        own = self.chance(0.4)
        return "(" + ", ".join(f"{name} = {text}" if own else text for name, text in parts.items()) + ")"

    def by_link(self, dtype, shape, depth, n):
        b = self.expr(dtype, shape, depth)
        if dtype == "i32" or self.chance(0.5): # exact where b is
            c = self.expr("bool", shape, depth)
            a = Val(f"where({c.text}, {self.pick([1, 0, -1])}, {self.pick([1, -1])})", dtype, shape, 1, 1.0)
            a.text = f"({a.text} as {dtype})"
        else:
            a = self.tame(self.expr(dtype, shape, depth), 1.0)
        return "link", self.tuple_of(a=a.text, b=b.text), self.pick([".b", ".b", ".1"]), b.mag * n, b.grain if a.grain == 1.0 else 0.0

    def by_place(self, dtype, shape, depth, n):
        v, w = self.expr(self.pick(["i32", "f32", self.half]), shape, depth, exact=True), self.expr("i32", shape, depth)
        return "best", f"({v.text}, {w.text})", ".1", w.mag, w.grain

    def by_seven(self, dtype, shape, depth, n):
        u, v = (self.expr("i32", shape, depth) for _ in range(2))
        u, v = (f"({x.text} % 7 + 7)" for x in (u, v))  # remainders of what is not negative: they do not depend on the order
        parts = [f"{u} % 7", f"{v} % 7", "1", f"({u} + 2) % 7"]
        return "seven", f"({', '.join(parts)})", f".{self.number(0, 3)}", 6, 1.0

    def by_sum(self, dtype, shape, depth, n):
        v = self.expr(dtype, shape, depth)
        if self.chance(0.3):
            return "most", v.text, "", v.mag, v.grain
        return "whole", f"(n = 1, v = {v.text})", ".v", v.mag * n, v.grain # its last statement names no parts

    def by_last(self, dtype, shape, depth, n):
        v = self.expr(dtype, shape, depth)
        return self.pick(["last", "first"]), v.text, "", v.mag, v.grain

    def by_flag(self, dtype, shape, depth, n):
        return "either", self.expr("bool", shape, depth).text, "", 1, 1.0

    def by_anew(self, dtype, shape, depth, n):
        c, v = self.expr("bool", shape, depth), self.expr(dtype, shape, depth)
        return "anew", self.tuple_of(begins=c.text, s=v.text), ".s", v.mag * n, v.grain

    def by_merge(self, dtype, shape, depth, n):
        if self.odd:
            raise Reject
        m, s = self.tame(self.expr("f32", shape, depth), 8.0), self.tame(self.expr("f32", shape, depth), 8.0)
        # of two that are -inf merge makes NaN, so that order would count
        return "merge", self.tuple_of(m=f"max({m.text}, -1000.0)", s=f"abs({s.text})"), ".s", s.mag * n, 0.0
