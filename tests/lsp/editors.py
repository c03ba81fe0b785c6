#!/usr/bin/env python3
"""editors.py - the words that editors/ colours are those of the compiler, and its files are what editors read.

    editors.py --tilec build/tilec

The compiler's words are asked of its language server; attributes, of the messages that list them.
"""
import argparse
import json
import os
import re
import sys

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
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
