"""program_library.py - what the library has and programs had not: masks by its functions, distances, sinks; and fma.

By numbers of its own, so that the programs that have none are what they were.
"""
import contextlib

from program_values import Reject, Val, settle

SINKS = ["0.5", "-3.0", "0.0", "20.0", "-1.0e30", "-3.4028234663852886e38", "-inf", "1.0e9"]


class Library:
    def draw_library(self, r):
        self.library_r, self.has_library, self.from_library = r, r.random() < 0.05, False

    def by_library(self, p=1.0):
        return self.has_library and self.library_r.random() < p

    @contextlib.contextmanager
    def library_numbers(self):
        kept, self.r = self.r, self.library_r
        try:
            yield
            self.from_library = True
        finally:
            self.r = kept

    def ranges_of(self, labels):
        parts = [(self.at[x][0], self.at[x][1][0][0]) for x in labels]
        return [f"iota({extent})" if sub == ":" else f"({sub})" for extent, sub in parts]

    def library_mask(self, s, labels):
        """A tile of scores masked, maybe with distances subtracted."""
        with self.library_numbers():
            m, n = self.ranges_of(labels)
            offset = self.pick(["0", "3", "-7", self.param("i32").text])
            text = s.text
            if self.chance(0.4):
                text = self.distance(text, m, n, offset)
            self.uses.add("mask")
            made = self.pick([f"mask_causal({text}, {m}, {n}, {offset})", f"mask_left({text}, {m}, {n}, {offset}, {self.pick([1, 17, 40, 2147483647])})",
                              f"mask_right({text}, {m}, {n}, {offset}, {self.pick([0, 1, 5, 33])})"])
            return Val(made, "f32", s.shape, s.mag + 128, 0.0, True)

    def distance(self, text, m, n, offset):
        self.uses.add("score")
        return f"alibi({text}, {m}, {n}, {offset}, {self.pick(['0.03125', 'alibi_slope(3, 8)', '0.1'])}, 0.25)"

    def library_bend(self, s, labels):
        """One step of what is done to a tile."""
        with self.library_numbers():
            m, n = self.ranges_of(labels)
            if self.chance(0.4):
                return Val(self.distance(s.text, m, n, self.pick(["0", "-5", "11"])), "f32", s.shape, s.mag + 128)
            at = self.number(0, 1)
            bias = self.load_labels((labels[at],), "f32")
            factor, value = self.pick([("0.5", 0.5), ("0.3", 0.0), ("-2.0", 2.0)])
            return settle("f32", s.shape, f"fma({s.text}, {factor}, {bias.text}[{':, None' if at == 0 else 'None, :'}])",
                          2 * s.mag + bias.mag, min(s.grain * value, bias.grain))

    def library_init(self, rows, scale):
        with self.library_numbers():
            return f"softmax_init_sink({rows}, {self.pick([*SINKS, self.param('f32').text])}, {scale})"

    def fused(self, dtype, shape, depth):
        if dtype not in ("f32", "f16", "bf16"):
            raise Reject
        with self.library_numbers():
            (a, x), (b, y) = self.operands(dtype, shape, depth)
            c = self.expr(dtype, shape, depth - 1)
            return settle(dtype, shape, f"fma({x}, {y}, {c.text})", a.mag * b.mag + c.mag, min(a.grain * b.grain, c.grain))
