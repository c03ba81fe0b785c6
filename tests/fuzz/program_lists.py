"""program_lists.py - tiles of places as subscripts, in random programs.

Of a load and of an atomic statement a list is loaded, and has equal places and some outside of the tensor; two of them, grown
and added, are the places of single elements.  Those of a store differ: they are computed of a range.

Tickets (let old = atomic_add ..): who gets which depends on the order of programs, what all of them get together does not.
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
                text = f"{far + self.number(0, 60)} - {sub}[:]" if self.chance(0.3) else f"{sub}{self.pick(['', '[:]'])} * {by} {'+' if far >= 0 else '-'} {abs(far)}"
                made[k] = (text, self.pick([size, self.number(1, 90)]))
        return made

    def some_ticket(self):
        """What was there before an addition of always as much, or before a greater or a less: never in scope, only used where what
        comes of all programs is the same in any order."""
        dtype, how = self.pick(["i32", "i32", "u32", "f32", self.half]), self.pick(["add", "add", "max", "min"])
        if dtype == self.half:
            how = "add"
        size, at = self.number(1, 4), "0"
        if self.chance(0.4) and self.scalars_in_scope():
            at = self.pick(self.scalars_in_scope()).text  # outside of the tensor nothing is done
        n = self.new_tensor("inout", dtype, [(at, size)])
        value = str(self.number(1, 3)) + ("" if dtype in ("i32", "u32") else ".0")
        if how != "add":
            value = strip_all(self.tame(self.expr(dtype, (), 1), 16.0).text)
        old = self.fresh_name("old")
        self.emit(f"let {old} = atomic_{how} {n.name}[{at}] {'+=' if how == 'add' else '='} {value};")
        if how != "add":  # the last one to come sees the greatest of all
            t = self.new_tensor("inout", dtype, [("0", 2)])
            self.emit(f"atomic_{how} {t.name}[0] = {how}({old}, {value});")
            return
        for use in {self.pick(["sum", "greatest", "each"]) for _ in range(2)}:
            wide = dtype if dtype != self.half else "f32"
            text = old if wide == dtype else f"({old} as f32)"
            if use == "each":
                t = self.new_tensor("inout", "i32", [("0", 4)])
                self.emit(f"atomic_add {t.name}[min(max({old} as i32, 0), 3)] += 1;")
                continue
            t = self.new_tensor("inout", wide, [("1", 2)])
            self.emit(f"atomic_{'add' if use == 'sum' else 'max'} {t.name}[1] {'+=' if use == 'sum' else '='} {text};")


def strip_all(text):
    return text[1:-1] if text.startswith("(") and text.endswith(")") and "(" not in text[1:-1] and ")" not in text[1:-1] else text
