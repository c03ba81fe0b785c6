"""program_helpers.py - functions that programs bring along: (text, what a call makes)."""
from program_values import Val


def _scaled(g, x, a):
    y = g.constant("f32")[0]
    return Val(f"scaled({x.text}, {a.text if a and x.dtype == 'f32' else y})", x.dtype, x.shape, 8 * x.mag)


def _bent(g, x, a):
    return Val(f"bent(lo = -1, x = {x.text})" if g.chance(0.5) else f"bent({x.text})", x.dtype, x.shape, x.mag + 1)


def _twice(g, x, a):
    return Val(f"twice({x.text}).{g.pick(['both', 'one', '0', '1'])}", x.dtype, x.shape, 2 * x.mag, x.grain)


def named(g, name, x):
    return Val(f"{name}({x.text})", x.dtype, x.shape, x.mag + 1)


HELPERS = [
    ("fn scaled(x, by) {\n    let y = x * by;\n    return y + 0.5;\n}", _scaled),
    ("fn bent(x) {\n    var y = x;\n    if dtype(x) == f32 { y = max(y, -1.0); } else { y += 1.0; }\n"
     "    return y;\n}", lambda g, x, a: Val(f"bent({'x = ' if g.chance(0.3) else ''}{x.text})", x.dtype, x.shape,
                                             x.mag + 1)),
    ("fn twice(x) {\n    return (both = x + x, one = x);\n}", _twice),
]
NAMED = [  # in place of a built-in function
    ("fn floor(x) {\n    return x * 0.5 + 0.25;\n}", lambda g, x, a: named(g, "floor", x)),
    ("fn cos(x) {\n    return x + 1;\n}", lambda g, x, a: named(g, "cos", x)),
    ("fn rcp(x) {\n    let y = -x;\n    return y;\n}", lambda g, x, a: named(g, "rcp", x)),
]
COLLECT = """fn collect(var st, x, axis: int) {
    st.sum += sum(x, axis=axis);
    st.most = max(st.most, max(x, axis=axis));
}"""
