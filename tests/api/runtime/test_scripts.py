"""Scripts that run on GPUs call what tilec.torch has today: names, and parameters of its functions and classes.  No PyTorch is needed."""
import ast
import functools
import glob
import os

import pytest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
PACKAGE = os.path.join(ROOT, "python", "tilec", "torch")
SCRIPTS = sorted(os.path.relpath(path, ROOT) for folder in ("bench", "tests/gpu", "examples/python")
                 for path in glob.glob(os.path.join(ROOT, folder, "*.py")))


@functools.lru_cache(maxsize=None)
def top(module):
    """What a module of tilec.torch has at its top, with the nodes that define it; None: there is none."""
    path = os.path.join(PACKAGE, (module or "__init__") + ".py")
    if not os.path.isfile(path):
        return None
    with open(path) as file:
        nodes = list(ast.parse(file.read()).body)
    made = {}
    while nodes:
        node = nodes.pop()
        nodes += [child for name in ("body", "orelse", "handlers") if isinstance(node, (ast.If, ast.Try, ast.ExceptHandler))
                  for child in getattr(node, name, [])]
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            made[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            made.update({alias.asname or alias.name: node for alias in node.names})
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            made.update({name.id: node for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)})
    return made


def wrong_call(call, node):
    """What a call has that the function or class does not take."""
    of_class = isinstance(node, ast.ClassDef)
    if of_class:
        if node.decorator_list or node.bases:
            return None
        node = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
    if not isinstance(node, ast.FunctionDef) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if any("lru_cache" not in ast.unparse(decorator) for decorator in node.decorator_list):
        return None
    a = node.args
    names = [x.arg for x in (*a.posonlyargs, *a.args)][of_class:]
    given = {k.arg for k in call.keywords}
    unknown = given - {*names, *(x.arg for x in a.kwonlyargs), None}
    if unknown and not a.kwarg:
        return f"has no parameter {sorted(unknown)}"
    if len(call.args) > len(names) and not a.vararg:
        return f"takes {len(names)} arguments, not {len(call.args)}"
    missing = set(names[len(call.args):len(names) - len(a.defaults)]) - given
    return f"is not given {sorted(missing)}" if missing and None not in given else None


def faults(text):
    """What a script asks of tilec.torch that is not there."""
    tree, modules, functions, wrong = ast.parse(text), {}, {}, []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[:2] != ["tilec", "torch"]:
            continue
        of = ".".join(node.module.split(".")[2:])
        for alias in node.names:
            if not of and top(alias.name) is not None:
                modules[alias.asname or alias.name] = alias.name
            elif alias.name not in (top(of) or {}):
                wrong.append(f"line {node.lineno}: {node.module} has no {alias.name}")
            else:
                functions[alias.asname or alias.name] = top(of)[alias.name]
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in set(modules) - bound:
            if isinstance(node.ctx, ast.Load) and node.attr not in top(modules[node.value.id]):
                wrong.append(f"line {node.lineno}: tilec.torch.{modules[node.value.id]} has no {node.attr}")
        if isinstance(node, ast.Call):
            f, what = node.func, None
            if isinstance(f, ast.Name) and f.id not in bound:
                what = functions.get(f.id)
            elif isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id in set(modules) - bound:
                what = top(modules[f.value.id]).get(f.attr)
            said = what is not None and wrong_call(node, what)
            if said:
                wrong.append(f"line {node.lineno}: {what.name} {said}")
    return wrong


@pytest.mark.parametrize("script", SCRIPTS)
def test_calls(script):
    with open(os.path.join(ROOT, script)) as file:
        assert faults(file.read()) == []


def test_judge():
    """What is wrong is found."""
    for text, count in (("from tilec.torch.ring import Ring, Rung", 1), ("from tilec.torch import blocks\nblocks.wide_backward(True, True)", 1),
                        ("from tilec.torch.ring import Ring\nRing(1, 2, 3, 4)\nRing(1, 2, 3, 4, 5)\nRing(1, 2, 3, 4, 5, 6)\nRing(1, 2, 3, 4, wire=5)", 2),
                        ("from tilec.torch import shares as s\ns.dealt(1)\ns.dealt(1, 2, order='whole')\ns.work(1, False, window=2, more=3)", 2)):
        assert len(faults(text)) == count, faults(text)
