"""program_weights.py - operands of products that are unpacked in a loop: of a packed type, less a zero point, times a scale.

By numbers of its own, so that the programs that have none are what they were.
"""
import re

from program_values import BYTES, DATA, PACKED, Reject, Val, settle

SCALES = [(["q", -4, 4, 64], 1 / 16, 1 / 64), (["q", -4, 4, 64], 1 / 16, 1 / 64), (["wide", 0.02], 0.06, 0.0), (["tiny"], 1.0, 0.0)]


class Weights:
    def draw_weights(self, r):
        self.weights_r = r
        self.has_weights = self.beside and self.factors == (self.half, self.half) and r.random() < 0.06
        self.has_weighed = self.weighed = False

    def unpacked(self, labels, dtype, at):
        """Such a tile as operand `at` of a product, or None.  Mostly as the left one, which may stay in registers."""
        if not self.has_weights or "n" not in labels or "n" not in self.at:
            return None
        kept, lines, self.r, made = self.r, len(self.lines), self.weights_r, None
        try:
            if self.chance(0.2 if at else 0.6):
                turned = self.chance(0.35)
                made = self.weights(labels[::-1] if turned else labels, dtype)
                if self.chance(0.3):
                    made = self.let(made)
                if turned:
                    made = Val(f"{made.text}.T", dtype, made.shape[::-1], made.mag, made.grain)
        except Reject:
            del self.lines[lines:]
        finally:
            self.r, self.weighed = kept, False
        self.has_weighed |= made is not None
        return made

    def weights(self, labels, dtype):
        kind, rows = self.pick(PACKED), labels[labels[0] == "n"]
        self.weighed = self.chance(0.8)  # rows as copies need them
        q = self.load_labels(labels, kind)
        self.weighed = False
        text, mag, grain = f"({q.text} as f32)", q.mag, q.grain
        zero = self.number(-9, 9)
        how = self.pick(["none", "number", "number", "half", "whole", "whole", "loaded", "loaded"])
        if how == "whole" and kind != "e2m1":
            i = f"{q.text} as i32"
            text = f"({self.pick([f'({i} - {zero})', f'({zero} - {i})', f'({i} * 3 - {abs(zero)})', f'({i} + {abs(zero)})'])} as f32)"
            mag = 3 * mag
        elif how == "loaded":
            z = self.by_group(labels, rows, self.pick(["u4", "i4", "u8", "i8", dtype]), ["q", 0, 7, 1])
            text = f"({text} - {z})"
        elif how != "none":
            text = f"({text} - ({zero + 0.5 * (how == 'half')}))"
            grain = min(grain, 0.5)
        mag += 10
        if self.chance(0.3):
            made = self.let(Val(text, "f32", q.shape, mag, grain))
            text = made.text
        if self.chance(0.2):
            return settle(dtype, q.shape, f"({text} as {dtype})", mag, grain)
        data, most, least = self.pick(SCALES)
        s = self.by_group(labels, rows, self.pick([dtype, dtype, dtype, "f32", "f16", "bf16"]), data)
        text = f"{s} * {text}" if self.chance(0.2) else f"{text} * {s}"
        return settle(dtype, q.shape, f"(({text}) as {dtype})", mag * most, grain * least)

    def by_group(self, labels, rows, dtype, data):
        """A vector of the rows that some iterations share, as f32 and with the tile's shape."""
        (name, size), group = self.at["n"][1][0], self.pick([16, 32, 64, 64, 128])
        if len(self.at["n"][1]) > 1 or not re.fullmatch(r"\w+", name) or any(p[0] == name for p in self.at[rows][1]):
            raise Reject
        number, groups = f"{name}.first / {group}", self.sizes.get(size, 64) // group + 1
        if not any(f"{name} {word} tiles({size}, " in line for line in self.lines for word in ("in", "=")):  # it may begin elsewhere
            number = f"min(max({number}, 0), {groups - 1})"
        parts = [(number, groups)] + self.at[rows][1]
        if len(parts) > 5 or dtype in DATA and not self.may_end_row(parts):
            raise Reject
        t = self.tensor("in", dtype, [n for _, n in parts], data, 8, 1.0 if dtype in (*BYTES, *DATA) else 0.0)
        return f"(load {t.name}[{', '.join(s for s, _ in parts)}] as f32)[{':, None' if labels[0] == rows else 'None, :'}]"
