"""program_packed.py - types of which two elements share a byte, and scales, in random programs.

By numbers of their own, so that the programs that have none are what they were.  Of loads, subscripts are as drawn: at odd places, past both
ends of rows of any length, at lists, by parts of packs.  Stores are of whole bytes, or to the end of a row.
"""
import numpy as np

from program_values import DATA, M_AUTO, N_AUTO, PACKED, WHOLES, Axis, Reject, Val


class Packed:
    def draw_packed(self, r):
        self.of_packed, self.has_packed = r, r.random() < 0.3

    def may_pack(self, dtype):
        return self.has_packed and dtype in ("i32", "f32", self.half) and self.of_packed.random() < 0.3

    def load_packed(self, dtype, shape):
        """Cast from such a tensor, or from a value that was cast to such a type."""
        kind = self.pick(PACKED + ["e8m0"] * (dtype != "i32"))
        v = self.load(kind, shape)
        grain = max(v.grain, 1.0) if dtype in WHOLES else v.grain
        via = f" as {self.pick(['i4', 'u4'])}" if v.grain and self.chance(0.15) else ""
        return Val(f"({v.text}{via} as {dtype})", dtype, shape, max(v.mag, 15) if via else v.mag, 1.0 if via else grain)

    def may_end_row(self, parts):
        """A part of a pack stands along a row only where it begins at an even place, as far as that is seen, and is even."""
        sub = parts[-1][0] if parts else ""
        axis = next((a for a in self.axes if len(a.parts) > 1 and any(sub.split(" ")[0] == p[0] for p in a.parts)), None)
        if axis is None:
            return True
        by = axis.parts[1][1]
        return axis.own and sub in [p[0] for p in axis.parts] and by % 2 == 0 and axis.extent // by % 2 == 0

    def row_of(self):
        """Subscripts of a store, all of the grid's among them, and the tile's shape: the last range is even, and its values have no padding
        of others."""
        own, parts = list(self.own), [p for a in self.own for p in a.parts]
        last = own[-1]
        if {N_AUTO, M_AUTO, self.given_axis} & {a.extent for a in own} or any(self.true_extent(a.extent) != a.extent for a in own):
            raise Reject
        if len(last.parts) == 1 and last.extent % 2 == 0 and self.chance(0.6) and not self.numbered:
            return parts, tuple(a.extent for a in own), [a for a in own if a is last or a.extent != last.extent]
        end = self.pick([2, 4, 8, 16, 32])
        shape = tuple(a.extent for a in own) + (end,)
        if len(shape) > 2 or np.prod(shape) > self.most_elements:
            raise Reject
        return parts + [(f"iota({end})", self.pick([end, end - 1, self.number(1, end)]))], shape, [a for a in own if a.extent != end]

    def some_packed(self):
        """A store of such a type, of exact values; sometimes it is read again."""
        kind = self.pick([*PACKED, *PACKED, "e8m0"])
        parts, shape, axes = self.row_of()
        kept = self.axes, self.scope
        self.axes, self.scope = [Axis(a.extent, a.parts, a.own, False) for a in axes], [v for v in kept[1] if v.shape == ()]
        try:
            v = self.expr(self.pick(["f32", "f32", self.half] + ["i32"] * (kind != "e8m0")), shape, 2, exact=True)
        finally:
            self.axes, self.scope = kept
        parts = list(self.counts[:getattr(self, "n_counts", 0)]) + parts
        if len(parts) > 6 or self.odd or any(f"({p[0]})" in v.text for p in parts):  # indices, which may have another start
            raise Reject
        t = self.tensor(self.pick(["out", "inout"]), kind, [s for _, s in parts], *DATA[kind])
        subs = ", ".join(s for s, _ in parts)
        self.emit(f"store {t.name}[{subs}] = {v.text if kind != 'e8m0' else f'abs({v.text})'} as {kind};")
        if t.mode == "inout" and self.chance(0.6):
            again = self.tensor("out", "f32", [s for _, s in parts], *DATA["i4"])
            self.emit(f"store {again.name}[{subs}] = load {t.name}[{subs}] as f32;")
