#!/usr/bin/env python3
"""editors.py - the words that editors/ colours are those of the compiler, and its files are what editors read.

    editors.py --tilec build/tilec

The compiler's words are asked of its language server; attributes, of the messages that list them.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.dom.minidom
import zipfile

import lsp

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VSCODE, VIM = os.path.join(ROOT, "editors", "vscode"), os.path.join(ROOT, "editors", "vim")
# of the grammar's patterns by the end of their name: what of the compiler's words they have
KINDS = {"keyword.control": "keyword", "keyword.declaration": "keyword", "keyword.operator.word": "keyword",
         "constant.language": "constant", "storage.type": "type", "support.function": "function",
         "storage.modifier.attribute": "attribute"}
GROUPS = {"tileControl": "keyword", "tileDeclare": "keyword", "tileWord": "keyword", "tileConstant": "constant",
          "tileType": "type", "tileBuiltin": "function", "tileAttribute": "attribute"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def compilers_words(tilec):
    server = lsp.Server(tilec)
    server.ask("initialize", capabilities={})
    server.tell("textDocument/didOpen", textDocument={"uri": lsp.URI, "languageId": "tile", "version": 1, "text": ""})
    items = server.ask("textDocument/completion", textDocument={"uri": lsp.URI}, position={"line": 0, "character": 0})["result"]
    words = {"keyword": set(), "constant": set(), "type": set(), "function": set()}
    literals = {"true", "false", "None", "auto", "inf", "pi"}  # keywords and names that stand for a value
    for item in items:
        kind = {"keyword": "keyword", "built-in function": "function", "type or constant": "type"}[item["detail"]]
        words["constant" if item["label"] in literals else kind].add(item["label"])
    words["attribute"] = set()
    for name in "ast_to_tir.c", "ast_to_tir_stmt.c":
        for said in re.findall(r"unknown attribute of [^;]*known\"", read(ROOT, "compiler", "front", name)):
            words["attribute"] |= set(re.findall(r"@(\w+)", said))
    return words


def grammar_words():
    words = {}
    for pattern in json.loads(read(VSCODE, "syntaxes", "tile.tmLanguage.json"))["patterns"]:
        kind = KINDS.get(pattern.get("name", "").removesuffix(".tile"))
        if kind:
            words.setdefault(kind, set()).update(re.search(r"\(([\w|]+)\)", pattern["match"])[1].split("|"))
    return words


def vim_words():
    words = {}
    for line in read(VIM, "syntax", "tile.vim").splitlines():
        keyword, match = re.match(r"syn keyword (\w+) (.*)", line), re.match(r'syn match (\w+) "@\\\((.*)\\\)\\>"', line)
        group = (keyword or match or [None, ""])[1]
        if group in GROUPS:
            found = keyword[2].split() if keyword else match[2].split(r"\|")
            words.setdefault(GROUPS[group], set()).update(found)
    return words


def packed(folder):
    """What is wrong with the extension as it is made, of a copy of its folder with a library that nothing is in."""
    copy, library = os.path.join(folder, "vscode"), "node_modules/vscode-languageclient/node.js"
    shutil.copytree(VSCODE, copy, ignore=shutil.ignore_patterns("node_modules"))
    os.makedirs(os.path.join(copy, os.path.dirname(library)))
    with open(os.path.join(copy, library), "w") as file:
        file.write("// a client\n")
    paths = [os.path.join(folder, name) for name in ("a.vsix", "b.vsix")]
    for path in paths:
        done = subprocess.run([sys.executable, os.path.join(copy, "vsix.py"), path], capture_output=True, text=True)
        if done.returncode != 0:
            return [f"vsix.py: {done.stdout}{done.stderr}"]
    with zipfile.ZipFile(paths[0]) as made:
        names = made.namelist()
        manifest = xml.dom.minidom.parseString(made.read("extension.vsixmanifest"))
        types = {e.getAttribute("Extension") for e in
                 xml.dom.minidom.parseString(made.read("[Content_Types].xml")).getElementsByTagName("Default")}
        same = all(made.read(f"extension/{name}") == open(os.path.join(copy, name), "rb").read() for name in
                   ("package.json", "extension.js", "syntaxes/tile.tmLanguage.json", library))
    identity = manifest.getElementsByTagName("Identity")[0]
    said = json.loads(read(VSCODE, "package.json"))
    bad = [] if same else ["vsix.py: a file is another one"]
    if [identity.getAttribute(a) for a in ("Id", "Version", "Publisher")] != [said[a] for a in ("name", "version", "publisher")]:
        bad.append(f"vsix.py: {identity.toxml()}")
    if not {"." + name.rsplit(".", 1)[-1] for name in names if "]" not in name} <= types:
        bad.append(f"vsix.py: types {types} of {names}")
    if open(paths[0], "rb").read() != open(paths[1], "rb").read():
        bad.append("vsix.py: the same files make other bytes")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    want, bad = compilers_words(os.path.abspath(parser.parse_args().tilec)), 0
    if not all(want.values()):
        print(f"the compiler has no words of a kind: {want}")
        bad += 1
    for editor, have in ("vscode", grammar_words()), ("vim", vim_words()):
        for kind in want:
            if have.get(kind) != want[kind]:
                print(f"editors/{editor}, {kind}: {sorted(want[kind] ^ have.get(kind, set()))}")
                bad += 1
    package = json.loads(read(VSCODE, "package.json"))
    contributes = package["contributes"]
    for path in [package["main"], contributes["languages"][0]["configuration"], contributes["grammars"][0]["path"]]:
        if not os.path.exists(os.path.join(VSCODE, path)):
            print(f"editors/vscode/package.json names {path}, which is not there")
            bad += 1
    json.loads(read(VSCODE, "language-configuration.json"))
    version = re.search(r'TILEC_VERSION "(.*)"', read(ROOT, "compiler", "tilec.h"))[1]
    if package["version"] != version:
        print(f"editors/vscode is of version {package['version']}, tilec of {version}")
        bad += 1
    for setting in re.findall(r'settings\.get\("(\w+)"', read(VSCODE, "extension.js")):
        if f"tilec.{setting}" not in contributes["configuration"]["properties"]:
            print(f"extension.js reads the setting tilec.{setting}, which package.json does not have")
            bad += 1
    with tempfile.TemporaryDirectory() as folder:
        for fault in packed(folder):
            print(fault)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
