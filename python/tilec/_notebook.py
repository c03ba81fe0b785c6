"""_notebook.py - the cell magic %%tilec of IPython and Jupyter (docs/editors.md).

    %%tilec -arch sm_90 -D N=64
    kernel scale<N: int = auto>(X: in f32[S], Y: out f32[S], a: f32) { .. }

compiles the cell and shows the page of --emit=html.  Where the notebook has what the kernels read (`X` and `a`), they run in the
reference interpreter first, and their outputs become variables of the notebook.
"""
import html
import shlex

import tilec
from tilec._interpret import chosen
from tilec._signature import signatures

USAGE = "%%tilec [-arch TARGET] [-D NAME=VALUE ..] [--kernel NAME] [--no-run] [--no-page]"
HEIGHT = 600  # pixels, of the page


class Cell:
    """What a cell gives: `results` of a run (None: it did not run, `why`), `page`, `ptx`, and `messages`."""

    def __init__(self, results, why, page, ptx, messages, printed):
        self.results, self.why, self.page, self.ptx, self.messages, self.printed = results, why, page, ptx, messages, printed

    def __repr__(self):
        parts = [self.messages.strip(), self.printed.rstrip(), self.why]
        parts += [f"{name}: {array.dtype.name}{list(array.shape)}\n{array}" for name, array in (self.results or {}).items()]
        return "\n".join(part for part in parts if part)

    def _repr_html_(self):
        said = f"<pre>{html.escape(repr(self))}</pre>" if repr(self) else ""
        frame = f'<iframe srcdoc="{html.escape(self.page)}" style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
        return said + (frame if self.page else "")


def _options(line):
    """(target, parameters, kernel, whether it runs, whether the page is shown) of the magic's line."""
    target, defines, kernel, runs, shows = "sm_80", {}, None, True, True
    words = iter(shlex.split(line))
    for word in words:
        if word == "-arch":
            target = next(words, "")
        elif word == "--kernel":
            kernel = next(words, "")
        elif word.startswith("-D"):
            name, _, value = (word[2:] or next(words, "")).partition("=")
            defines[name] = value
        elif word == "--no-run":
            runs = False
        elif word == "--no-page":
            shows = False
        else:
            raise tilec.Error(f"%%tilec has no option '{word}': {USAGE}", 1)
    return target, defines, kernel, runs, shows


def _from_notebook(text, kernel, names):
    """What the kernels take of the notebook's variables, and what they lack."""
    every = chosen(signatures(tilec.compile(text, path="cell.tile", emit="ast").ptx), kernel)
    given, lacking, made = {}, [], set()
    for s in every:
        wanted = [t.name for t in s.tensors if t.mode == "in" or (t.mode == "inout" and t.name in names)]
        for name in [*wanted, *s.scalars]:
            if name in names and name not in made:
                given[name] = names[name]
            elif name not in made and name not in lacking:
                lacking.append(name)
        made |= {t.name for t in s.tensors if t.mode != "in"}
    return given, lacking


def cell(line, text, names):
    """The Cell of a cell's text; `names`: the notebook's variables, to which outputs are added."""
    target, defines, kernel, runs, shows = _options(line)
    printed, results, why = [], None, ""
    given, lacking = _from_notebook(text, kernel, names)
    if runs and lacking:
        why = f"not run: the notebook has no {', '.join(lacking)}"
    elif runs:
        results = tilec.run(text, given, defines=defines, kernel=kernel, path="cell.tile", show=printed.append)
        names.update(results)
    compiled = tilec.compile(text, target, path="cell.tile", defines=defines, kernel=kernel, page=shows, ignore_debug=True)
    messages = results.messages if results is not None else ""
    if compiled.messages not in messages:
        messages += compiled.messages
    return Cell(results, why, compiled.page, compiled.ptx, messages, "".join(printed))


def register(shell):
    """Makes %%tilec known to an InteractiveShell."""
    def tilec_magic(line, text):
        """Compile a cell of the tile language, run it in the interpreter, show its page."""
        try:
            return cell(line, text, shell.user_ns)
        except tilec.Error as error:
            print(error)
            return None
    shell.register_magic_function(tilec_magic, "cell", "tilec")
