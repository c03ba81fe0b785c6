"""expressions.py - the expressions of the metadata and of signatures: C's operators on sizes and scalars.

They are turned into Python's and walked; nothing is executed.  Division truncates, as in C.
"""
import ast
import functools
import re

from tilec.torch.error import Error


def divide(a, b):
    if isinstance(b, int) and b == 0:
        raise Error("division by zero in a launch expression")
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    if isinstance(a, int) and isinstance(b, int) and (a < 0) != (b < 0):
        return -(-a // b)
    return a // b


_BINARY = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Div: divide,
    ast.Mod: lambda a, b: a - divide(a, b) * b, ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b}
_FUNCTIONS = {"min": min, "max": max, "cdiv": lambda a, b: divide(a + b - 1, b)}


def _walk(node, names):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in ("true", "false"):
            return node.id == "true"
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_walk(node.left, names), _walk(node.right, names))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BINARY:
        return _BINARY[type(node.ops[0])](_walk(node.left, names), _walk(node.comparators[0], names))
    if isinstance(node, ast.BoolOp):
        kind = all if isinstance(node.op, ast.And) else any
        return kind(_walk(value, names) for value in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_walk(node.operand, names)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):  # what `!` was written as
        return not _walk(node.operand, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and len(node.args) == 2:
        return _FUNCTIONS[node.func.id](*(_walk(argument, names) for argument in node.args))
    raise Error(f"launch expression: a part of it is not known: {ast.unparse(node)}")


@functools.lru_cache(maxsize=None)
def parse(text):
    """The tree of an expression."""
    python = re.sub(r"!(?!=)", "~", text.replace("&&", " and ").replace("||", " or "))
    try:
        return ast.parse(python.strip(), mode="eval").body
    except SyntaxError:
        raise Error(f"launch expression '{text}' cannot be read") from None


def evaluate(text, names):
    """The value of an expression, names taken from the dict `names`."""
    return _walk(parse(text), names)


def names_in(text):
    """The names that an expression needs."""
    return {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)} - {"true", "false", *_FUNCTIONS}


_TURNED = {ast.Add: lambda whole, other, left: whole - other, ast.Sub: lambda whole, other, left: whole + other if left else other - whole,
           ast.Mult: lambda whole, other, left: divide(whole, other)}


def turn(text, whole, names):
    """(name, value) of the one name that an extent such as `2 * C` has beside `names`, where the extent is `whole`; None:
    there is no such name, or it does not follow.  `whole` None: the value is None."""
    def at(node, whole):
        if isinstance(node, ast.Name):
            return node.id, whole
        if not isinstance(node, ast.BinOp) or type(node.op) not in _TURNED:
            return None
        left = any(isinstance(n, ast.Name) and n.id in missing for n in ast.walk(node.left))
        inner, other = (node.left, node.right) if left else (node.right, node.left)
        return at(inner, None if whole is None else _TURNED[type(node.op)](whole, _walk(other, names), left))

    missing = [node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name) and node.id not in names
               and node.id not in ("true", "false", *_FUNCTIONS)]
    try:
        return at(parse(text), whole) if len(missing) == 1 else None
    except (Error, KeyError):  # a division by zero
        return None


def follow(meta, names, env):
    """Adds to `names` the sizes of a kernel that follow from others (docs/metadata.md), as far as these are known."""
    news = meta.get("follows")
    while news:
        news = False
        for name, text in meta["follows"].items():
            if name in names:
                continue
            try:
                value = evaluate(text, {**env, **names})
            except (Error, KeyError, TypeError):  # of what is not known yet
                continue
            if not 0 <= value < 2**31:
                raise Error(f"{meta['name']}: {name} = {text} would be {value}: a size is from 0 to 2147483647")
            names[name], news = value, True
    return names
