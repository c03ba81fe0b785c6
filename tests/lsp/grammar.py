#!/usr/bin/env python3
"""grammar.py - the extension for VS Code without VS Code: its grammar under an engine for TextMate grammars, and its script
under node with the two modules that VS Code would give it.

    grammar.py --tilec build/tilec

The engine is babi's (PyPI), with Oniguruma, as VS Code's; what has no engine, or no node, is skipped (77 where both lack).
Each token of the examples, of the library and of a text of odd cases must have the colour of what it is for the compiler.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import editors

ODD = r'''/* a kernel in "a comment",
   let it be */ let x = 1.5e-3; // and so on /* not open
@plan(consumers=2, stages=3) kernel sum_of<T: type = bf16>(X: in T[M], n: i32)
{
    print("a \"let\" \n \\"); print("not closed
    let max = st.max + max(x, 0x7F, 1e5, 12) + letter + in_1 + fn_;
    for k in tiles(M, 64) { y = a[0..3]; store Z[k] = x as bf16; }
    let e = 2.0.x; let l2 = L2; assert a != b && !c, "@plan";
    x -= inf; let f16x = f16; sum  (x, axis=-1); sum; iota;
}
'''
TOKEN = re.compile(r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\\n])*(?:"|$))|(?P<attribute>@[a-z_]+)|'
                   r"(?P<number>0[xX][0-9A-Fa-f]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(?P<word>[A-Za-z_]\w*)", re.S | re.M)
COLOURS = {"comment": "comment.", "string": "string.", "attribute": "storage.modifier.", "number": "constant.numeric.",
           "name": "entity.name.function.", "keyword": "keyword.", "constant": "constant.language.", "type": "storage.type.",
           "function": "support.function.", "plain": ""}
STUBS = {"vscode": "exports.workspace={getConfiguration:n=>({get:(k,d)=>n=='tilec'&&k=='include'?['a b','c']:d})};",
         "vscode-languageclient/node": "exports.LanguageClient=class{constructor(...a){console.log(JSON.stringify(a))}"
                                       "start(){console.log('start')}stop(){console.log('stop')}};"}


def scopes(compiler, highlight, text):
    """The innermost scope of each character; "": that of the whole text."""
    state, of = compiler.root_state, []
    for number, line in enumerate(text.splitlines(keepends=True)):
        state, regions = highlight(compiler, state, line, number == 0)
        for region in regions:
            scope = [s for s in region.scope if s != "source.tile"]
            of += [scope[0] if scope and scope[0].startswith(("comment", "string")) else scope[-1] if scope else ""] * (
                region.end - region.start)
    return of


def kind_of(match, text, words):
    kind, word = match.lastgroup, match[0]
    if kind != "word":
        return kind
    if re.search(r"\b(kernel|fn)\s+$", text[:match.start()]):
        return "name"
    for of in "keyword", "constant", "type":
        if word in words[of]:
            return of
    return "function" if word in words["function"] and re.match(r"\s*\(", text[match.end():]) else "plain"


def colours(path, text, words, scope_of):
    bad = 0
    for match in TOKEN.finditer(text):
        want, have = COLOURS[kind_of(match, text, words)], {scope_of[k] for k in range(*match.span())}
        right = all(scope.startswith(want) for scope in have) if want else have == {""}
        if not right:
            print(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r} is {want or 'plain'}, coloured {have}")
            bad += 1
    return bad


def grammar(tilec):
    from babi.highlight import Grammars, highlight_line
    words, root = editors.compilers_words(tilec), editors.ROOT
    with tempfile.TemporaryDirectory() as folder:  # babi wants the scope as the file's name
        shutil.copy(os.path.join(editors.VSCODE, "syntaxes", "tile.tmLanguage.json"), os.path.join(folder, "source.tile.json"))
        compiler = Grammars(folder).compiler_for_scope("source.tile")
    texts = {"odd cases": ODD}
    for path in sorted(glob.glob(root + "/examples/*.tile") + glob.glob(root + "/stdlib/*.tile")):
        texts[os.path.relpath(path, root)] = editors.read(path)
    bad = sum(colours(path, text, words, scopes(compiler, highlight_line, text)) for path, text in texts.items())
    print(f"{len(texts)} texts, {bad} tokens of another colour")
    return bad


def script(node):
    """Activation starts `tilec lsp` with what the settings say, for files of the language; deactivation stops it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in STUBS.items():
            path = os.path.join(folder, "node_modules", name + ".js")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        shutil.copy(os.path.join(editors.VSCODE, "extension.js"), folder)
        done = subprocess.run([node, "-e", "const e=require('./extension.js');e.deactivate();e.activate();e.deactivate()"],
                              cwd=folder, capture_output=True, text=True)
    want = '["tilec","tilec",{"command":"tilec","args":["lsp","-I","a b","-I","c"]},{"documentSelector":[{"language":"tile"}]}]'
    if done.stdout.split("\n") != [want, "start", "stop", ""]:
        print("extension.js:", done)
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    tilec, node, bad, ran = os.path.abspath(parser.parse_args().tilec), shutil.which("node"), 0, 0
    try:
        bad, ran = grammar(tilec), 1
    except ImportError:
        print("no babi: the grammar is not tried")
    if node:
        bad, ran = bad + script(node), 1
    else:
        print("no node: the script is not tried")
    return (1 if bad else 0) if ran else 77


if __name__ == "__main__":
    sys.exit(main())
