"""program_lists.py - tiles of places as subscripts, in random programs.

Of a load and of an atomic statement a list is loaded, and has equal places and some outside of the tensor; two of them, grown
and added, are the places of single elements.  Those of a store differ: they are computed of a range.
"""


class Lists:
    def is_range(self, sub):
        return any(len(a.parts) == 1 and a.parts[0][0] == sub for a in self.axes)

    def may_be_list(self, group):
        sub = group[0][0]
        return len(group) == 1 and (sub == ":" or self.is_range(sub) or (sub.startswith("iota") and sub.endswith(")")))

    def by_list(self, part):
        """A list in place of a range, and the size of the dimension that it is of."""
        sub, size = part
        most = self.pick([1, 3, 8, 20, self.number(1, 40)])
        t = self.tensor("in", "i32", [size], ["q", -2, most + 1, 1], most + 1, 1.0)
        text = f"load {t.name}[{sub}]"
        if self.chance(0.25):
            text = f"({text}) {self.pick(['+', '-'])} 1"
        elif self.chance(0.3):
            text = self.let_text("i32", text)
        return text, most

    def let_text(self, dtype, text):
        name = self.fresh_name("places")
        self.emit(f"let {name} = {text};")
        return name

    def listed(self, parts, groups, chance):
        """Subscripts, lists in place of some ranges; or one of single elements.  (A list beside a pack has no code.)"""
        if len(groups) == 2 and all(self.may_be_list(g) for g in groups) and self.chance(chance / 3):
            rows, columns = self.by_list(groups[0][0]), self.by_list(groups[1][0])
            return [(f"({rows[0]})[:, None] + ({columns[0]})[None, :]", rows[1] + self.number(0, columns[1]))]
        made = list(parts)
        for k, part in enumerate(parts):
            if [part] in groups and self.may_be_list([part]) and self.chance(chance):
                made[k] = self.by_list(part)
        return made

    def apart(self, parts, chance):
        """.. of a store: no two elements of all programs lie in one place."""
        made = list(parts)
        for k, (sub, size) in enumerate(parts):
            if self.is_range(sub) and self.chance(chance):
                by, far = self.pick([1, 1, 2, 3]), self.number(-3, 9)
                text = f"{far + self.number(0, 60)} - {sub}[:]" if self.chance(0.3) else f"{sub}[:] * {by} + {far}" if far >= 0 else f"{sub}[:] * {by} - {-far}"
                made[k] = (text, self.pick([size, self.number(1, 90)]))
        return made
