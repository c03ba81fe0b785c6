#!/usr/bin/env python3
"""lsp.py - speaks the language server protocol with `tilec lsp`."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TEXT = """use softmax;
// Half of it.
fn half(x) {
    return x * 0.5;
}
kernel k<N: int, M: int = 16>(X: in f32[R, C], Y: out f32[R, C])
{
    grid m in tiles(R, M);
    var st = softmax_init(M); /* \U0001f600\u00e4 */ let e = st.max;
    for n in tiles(C, N) {
        let x = load X[m, n];
        store Y[m,n] = half(x = x);
    }
}
"""
URI = "file:///nowhere/a%20b.tile"
bad = 0


def want(what, condition, seen=None):
    global bad
    if not condition:
        print(f"{what}: {seen}")
        bad += 1


class Server:
    def __init__(self, tilec, *words):
        self.process = subprocess.Popen([tilec, "lsp", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.id, self.diagnostics = 0, {}

    def raw(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self):
        length = 0
        while (line := self.process.stdout.readline()) not in (b"\r\n", b""):
            if line.startswith(b"Content-Length:"):
                length = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(length))

    def tell(self, method, **params):
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def ask(self, method, **params):
        self.id += 1
        self.raw(json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}).encode())
        while True:
            message = self.read()
            if message.get("method") == "textDocument/publishDiagnostics":
                self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
            else:
                return message

    def at(self, method, text, word, nth=0, shift=0, **more):
        """Asks about the nth place of a word."""
        offset = -1
        for _ in range(nth + 1):
            offset = text.index(word, offset + 1)
        before = text[:offset + shift]
        column = len(before.rsplit("\n", 1)[-1].encode("utf-16-le")) // 2
        return self.ask(f"textDocument/{method}", textDocument={"uri": URI},
                        position={"line": before.count("\n"), "character": column}, **more).get("result")


MODULE = "fn twice(x) {\n    return x + x;\n}\n"
USER = """use mine;
kernel k(X: in f32[N], Y: out f32[N]) {
    grid i in tiles(N, 256);
    store Y[i] = twice(load X[i]);
}
"""


def files(tilec):
    """-I, and a name that several files have."""
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        os.mkdir(f"{folder}/modules")
        with open(f"{folder}/modules/mine.tile", "w") as file:
            file.write(MODULE)
        want("-I alone", subprocess.run([tilec, "lsp", "-I"], capture_output=True, timeout=20).returncode == 1)
        server = Server(tilec, "-I", f"{folder}/modules")
        server.ask("initialize", capabilities={})
        uris = [f"file://{folder}/{name}.tile" for name in ("a", "b")]
        for uri in uris:
            server.tell("textDocument/didOpen", textDocument={"uri": uri, "languageId": "tile", "version": 1, "text": USER})
        place = {"line": 3, "character": 18}
        result = server.ask("textDocument/definition", textDocument={"uri": uris[0]}, position=place)["result"]
        module = f"file://{folder}/modules/mine.tile"
        want("definition by -I", result["uri"] == module and server.diagnostics[uris[0]] == [], result)
        result = server.ask("textDocument/rename", textDocument={"uri": uris[1]}, position=place, newName="double")["result"]
        want("rename across files", {uri: [edit["range"]["start"]["line"] for edit in edits] for uri, edits in
                                     result["changes"].items()} == {uris[0]: [3], uris[1]: [3], module: [0]}, result)
        server.tell("exit")
        server.process.wait(20)


VIEWS = """use softmax;
// Half of it, or less.
fn half(x, by) {
    return x / by;
}
kernel k<M: int = 64>(A: in bf16[R, C], B: in f32[R, C], Y: out bf16[R, C]) {
    grid m in tiles(R, M), n in tiles(C, M);
    let b = load B[m, n]; /* \U0001f600 */ let s = sum(b, axis=1);
    var t = half(b + (s * 1.0), by = 3.0);
    t = exp(t) * s;
    store Y[m, n] = t;
    store Y[m, n] = b + haf(t, 1.0);
}
kernel other(X: out f32[N]) { grid i in tiles(N, 256); store X[i] = 1.0; }
"""


def tokens(result):
    """Words of the file, each with what the server says that it is."""
    line = column = 0
    names, data = {}, result["data"]
    for k in range(0, len(data), 5):
        line, column = line + data[k], data[k + 1] + (0 if data[k] else column)
        units = VIEWS.split("\n")[line].encode("utf-16-le")
        word = units[2 * column:2 * (column + data[k + 2])].decode("utf-16-le")
        names.setdefault(word, set()).add((data[k + 3], data[k + 4]))
    return names


def mended(actions, uri):
    """The text after each action, by its title."""
    texts = {}
    for action in actions:
        lines = VIEWS.split("\n")
        for edit in action["edit"]["changes"][uri]:
            begin, end = edit["range"]["start"], edit["range"]["end"]
            units = lines[begin["line"]].encode("utf-16-le")
            lines[begin["line"]] = (units[:2 * begin["character"]].decode("utf-16-le") + edit["newText"] +
                                    units[2 * end["character"]:].decode("utf-16-le"))
        texts[action["title"]] = "\n".join(lines)
    return texts


def views(tilec):
    """Symbols, references, signatures, colours and mends."""
    server = Server(tilec)
    said = server.ask("initialize", capabilities={})["result"]["capabilities"]
    legend = said["semanticTokensProvider"]["legend"]
    open_text = {"uri": URI, "languageId": "tile", "version": 1, "text": VIEWS}
    server.tell("textDocument/didOpen", textDocument=open_text)
    found = server.ask("textDocument/documentSymbol", textDocument={"uri": URI})["result"]
    want("symbols", [(s["name"], s["detail"], [c["name"] for c in s["children"]]) for s in found] ==
         [("half", "function", ["x", "by"]), ("k", "kernel", ["M", "R", "C", "A", "B", "Y", "m", "n", "b", "s", "t"]),
          ("other", "kernel", ["N", "X", "i"])], found)
    ends = [(s["range"]["start"]["line"], s["range"]["end"]["line"]) for s in found]
    want("symbols end with their blocks", ends == [(2, 4), (5, 12), (13, 13)], ends)
    for declaration in True, False:
        places = server.at("references", VIEWS, "b + (s", context={"includeDeclaration": declaration})
        want("references", [p["range"]["start"]["line"] for p in places] == [7] * declaration + [7, 8, 11], places)
    places = server.at("documentHighlight", VIEWS, "half(b")
    want("highlights", [p["range"]["start"]["line"] for p in places] == [2, 8], places)
    want("of nothing", server.at("references", VIEWS, "= load", context={"includeDeclaration": True}) is None)
    for place, nth, label, active in [("(s * 1.0)", 0, "half(x, by)", 0), ("3.0)", 0, "half(x, by)", 1), ("axis=1", 0, "sum(", 1)]:
        got = server.at("signatureHelp", VIEWS, place, nth, 1)
        one = got and got["signatures"][0]
        want(f"signature at {place}", got and label in one["label"] and got["activeParameter"] == active, got)
    lo, hi = one["parameters"][0]["label"]
    want("its arguments", one["label"][lo:hi] == "x", one)
    want("no call", server.at("signatureHelp", VIEWS, "grid m") is None)
    words = tokens(server.ask("textDocument/semanticTokens/full", textDocument={"uri": URI})["result"])
    kinds = {w: {(legend["tokenTypes"][k], tuple(m for i, m in enumerate(legend["tokenModifiers"]) if bits >> i & 1))
                 for k, bits in of} for w, of in words.items()}
    want("colours", kinds["s"] == {("variable", ("declaration", "readonly")), ("variable", ("readonly",))} and
         kinds["sum"] == {("function", ("defaultLibrary",))} and ("function", ("declaration",)) in kinds["half"] and
         kinds["bf16"] == {("type", ("defaultLibrary",))} and ("parameter", ()) in kinds["Y"], kinds)
    everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    mends = mended(server.ask("textDocument/codeAction", textDocument={"uri": URI}, range=everywhere, context={})["result"], URI)
    want("cast", "store Y[m, n] = t as bf16;" in mends.get("Cast it: as bf16", ""), mends)
    want("spelling", "b + half(t, 1.0)" in mends.get("Write half", ""), mends)
    server.tell("textDocument/didChange", textDocument={"uri": URI, "version": 2}, contentChanges=[
        {"text": (right := VIEWS.replace("    store Y[m, n] = b + haf(t, 1.0);\n", "").replace("= t;", "= t as bf16;"))}])
    line = {"start": {"line": 9, "character": 0}, "end": {"line": 9, "character": 99}}
    actions = server.ask("textDocument/codeAction", textDocument={"uri": URI}, range=line, context={})["result"]
    want("subscripts", [mended([a], URI)[a["title"]].split("\n")[9].strip() for a in actions] ==
         ["t = exp(t) * s[:, None];", "t = exp(t) * s[None, :];"], actions)
    line["start"]["line"] = line["end"]["line"] = 10
    want("nothing to mend", server.ask("textDocument/codeAction", textDocument={"uri": URI}, range=line, context={})["result"] == [])
    for cut in range(0, len(right), 7):  # as it is typed
        server.tell("textDocument/didChange", textDocument={"uri": URI, "version": 3}, contentChanges=[{"text": right[:cut]}])
        end = {"line": right[:cut].count("\n"), "character": 99}
        for method in "documentSymbol", "semanticTokens/full":
            want(method, "result" in server.ask(f"textDocument/{method}", textDocument={"uri": URI}))
        for method in "references", "documentHighlight", "signatureHelp":
            server.ask(f"textDocument/{method}", textDocument={"uri": URI}, position=end, context={})
        server.ask("textDocument/codeAction", textDocument={"uri": URI}, range=everywhere, context={})
    server.ask("textDocument/codeAction", textDocument={"uri": URI}, range=3)
    server.ask("shutdown")
    server.tell("exit")
    want("exit of views", server.process.wait(20) == 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    tilec = os.path.abspath(parser.parse_args().tilec)
    server = Server(tilec)
    want("before initialize", server.ask("textDocument/hover")["error"]["code"] == -32002)
    said = server.ask("initialize", capabilities={})["result"]["capabilities"]
    want("capabilities", said["hoverProvider"] and said["renameProvider"], said)
    server.tell("initialized")
    server.tell("textDocument/didOpen", textDocument={"uri": URI, "languageId": "tile", "version": 1, "text": TEXT})
    for word, nth, wanted in [("st ", 0, "var st: (max = f32[16], sum = f32[16], factor = f32[16], offset = f32[16])"), ("e = st", 0, "let e: f32[16]"), ("X: in", 0, "tensor X: in f32[R, C]"),
                              ("x = load", 0, "let x: f32[16, 64]"), ("half(x = x)", 0, "fn half(x)\n// Half of it."), ("x)", 0, "f32[16, 64]"),
                              ("tiles(R", 0, "tiles(S, N)"), ("m, n]", 0, "grid index m: a range of 16 indices")]:
        result = server.at("hover", TEXT, word, nth)
        want(f"hover {word}", result and wanted in result["contents"]["value"], result)
    want("only what lints say", [d["message"] for d in server.diagnostics[URI]] == ["'e' is never used [-Wunused]"], server.diagnostics)
    want("hover on nothing", server.at("hover", TEXT, "= load", 0) is None)
    result = server.at("definition", TEXT, "st.max")
    want("definition", result and result["uri"] == URI and result["range"]["start"] == {"line": 8, "character": 8}, result)
    result = server.at("definition", TEXT, "e = st")
    column = len(TEXT.split("\n")[8].split("e = st.")[0].encode("utf-16-le")) // 2
    want("utf-16", result and result["range"]["start"] == {"line": 8, "character": column}, result)
    result = server.at("definition", TEXT, "softmax_init")
    want("library", result and result["uri"].endswith("softmax.tile"), result)
    copy = result["uri"][7:]
    want("library in a folder of its own", os.stat(os.path.dirname(copy)).st_mode & 0o777 == 0o700, copy)
    with open(copy) as file:
        line = file.read().split("\n")[result["range"]["start"]["line"]]
    want("library file", line.startswith("fn softmax_init("), line)
    labels = {item["label"] for item in server.at("completion", TEXT, "store")}
    want("completion", {"x", "st", "softmax_step", "half", "mma", "store", "X", "R", "bf16"} <= labels, labels)
    edits = server.at("rename", TEXT, "st.max", newName="state")["changes"][URI]
    want("rename", len(edits) == 2 and {e["range"]["start"]["character"] for e in edits} >= {8}, edits)
    edits = server.at("rename", TEXT, "x * 0.5", newName="y")["changes"][URI]
    want("rename a parameter and its named argument", len(edits) == 3, edits)
    want("rename to no name", server.at("rename", TEXT, "st.max", newName="1a") is None)
    want("rename of the library's", server.at("rename", TEXT, "softmax_init", newName="b") is None)
    edits = server.ask("textDocument/formatting", textDocument={"uri": URI}, options={})["result"]
    want("formatting", len(edits) == 1 and "store Y[m, n] = half(x=x);" in edits[0]["newText"], edits)
    broken = TEXT.replace("x * 0.5", "z * 0.5")
    server.tell("textDocument/didChange", textDocument={"uri": URI, "version": 2}, contentChanges=[{"text": broken}])
    server.at("hover", broken, "half")
    said = [d for d in server.diagnostics[URI] if d["severity"] != 2]
    want("diagnostics", said and said[0]["severity"] == 1 and said[0]["range"]["start"] == {"line": 3, "character": 11}
         and said[0]["code"] == "E-NAME" and "E-NAME" not in said[0]["message"], said)
    for cut in range(0, len(TEXT), 3):  # as it is typed
        server.tell("textDocument/didChange", textDocument={"uri": URI, "version": 3}, contentChanges=[{"text": TEXT[:cut]}])
        server.ask("textDocument/completion", textDocument={"uri": URI}, position={"line": 999, "character": 999})
        server.ask("textDocument/hover", textDocument={"uri": URI}, position={"line": TEXT[:cut].count("\n"), "character": 3})
    for body in [b"{", b"[]", b"{}", b"3", b'"a"', b'{"id":1}', b'{"method":3,"id":1}', b"\xff", b'{"id":9,"method":"textDocument/hover","params":[]}',
                 b'{"id":9,"method":"textDocument/hover","params":{"textDocument":{"uri":"%s"},"position":{"line":-1,"character":"x"}}}' % URI.encode()]:
        server.raw(body)
        want(f"malformed {body}", "error" in server.read())
    want("no such method", server.ask("textDocument/nothing")["error"]["code"] == -32601)
    want("no such document", "error" in server.ask("textDocument/hover", textDocument={"uri": "file:///x"}, position={"line": 0, "character": 0}))
    server.tell("textDocument/didClose", textDocument={"uri": URI})
    want("shutdown", server.ask("shutdown") .get("result", 0) is None)
    want("closed", server.diagnostics[URI] == [])
    want("after shutdown", "error" in server.ask("textDocument/hover"))
    server.tell("exit")
    want("exit", server.process.wait(20) == 0)
    want("copies are gone", not os.path.exists(os.path.dirname(copy)), copy)
    files(tilec)
    views(tilec)
    for body in [b"", b"Content-Length: 999\r\n\r\n{}", b"Content-Length: 99999999999\r\n\r\n", b"\r\n\r\nrubbish"]:
        want(f"end {body}", subprocess.run([tilec, "lsp"], input=body, capture_output=True, timeout=20).returncode == 1)
    print(f"{bad} faults")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
